r"""Who receives whose row: whole flows, random leavers and places, then matches of least change.

*Whole flows* are drawn for each release, with the mean flows as their means: fixed ones would
reveal the last secrets to a reader who knows nearly all others. With two secrets, the number x of
rows that are exchanged has the distribution

.. math:: P(x) \propto \omega^x / ((n_1 - x)! \, x!^2 \, (n_2 - x)!)

which is randomised response given the margins (Fisher's noncentral hypergeometric distribution).
With more secrets, flows are rounded without bias and then perturbed by symmetric steps along 2 x 2
rectangles, which keep every mean.

From each secret a uniformly random set of people leaves, and the places they vacate are divided
uniformly at random among the secrets that receive them. Whatever rule then matches leavers with
places, it reveals no more of a holder than the flows do, as long as it sees rows, secrets and its
own random bits, and never ids or the order of the file. So everything is shuffled first.

Those who leave but keep their secret are split into random halves, and each half receives places of
the other. So nobody receives his own row, near rows can be matched, and the row that a person
receives says nothing of who received his own.

*Mean flows* solve a linear program: :math:`F(a, b)` people of secret a receive rows of secret b,
and :math:`S_a` of the :math:`F(a, a)` receive another person's row. With k secrets there are
:math:`k^2 + k` variables for each part of a stratum. The solution is not trusted: it is rounded to
whole fractions of a row, and the checker compares these with the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, linear_sum_assignment, linprog
from scipy.sparse import csr_array, eye_array, kron, vstack
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses import Exchange, insider_loss, outsider_delta, outsider_loss
from sklearn_puffer._noise import Choices

PART = 500
"""The most leavers that are matched at once; more are cut into parts of near rows."""

ROW = 1 << 32
"""Mean flows are whole numbers of 1 / `ROW` of a row."""

LEAST_PEOPLE = 3
"""The fewest people of a secret who may exchange rows with each other."""

_STEPS = 4  # of power iteration to the axis along which rows are cut
_DIGITS = 9  # of scores on that axis
_MOST_FULL = 8  # secrets; of more not all rectangles are perturbed
_BITS = 62  # of the probability of each number of exchanged rows
_MARGIN = 1e-9  # by which the solver gets less than the budget
_LARGEST_BUDGET = 14.0  # nats in the program: larger factors are beyond its tolerances
# shares of the independent flows, until the mixture is within the budget
_MIXTURES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0)


def exchange_rows(
    received: Array,
    groups: Sequence[Array],
    flows: IntArray,
    moved: IntArray,
    points: ScaledRows | None,
    draws: Choices,
) -> None:
    """Write into ``received`` for each person the person whose row he receives.

    Parameters
    ----------
    received : ndarray of int of shape (n_people,)
    groups : sequence of ndarray of int
        The people of each secret who exchange rows.
    flows : ndarray of int64 of shape (n_secrets, n_secrets)
        People of each secret who receive rows of each secret.
    moved : ndarray of int64 of shape (n_secrets,)
        Those of them who keep their secret and receive another person's row.
    points : ScaledRows or None
        The rows to match at the least total distance; None matches at random.
    draws : Choices
    """
    leavers, places, pairs = [], [], []
    for secret, people in enumerate(groups):
        going = people[draws.shuffled(len(people))]
        staying, going = np.split(going, [int(flows[secret, secret] - moved[secret])])
        received[staying] = staying
        left, targets, sources = going, flows[secret].copy(), flows[:, secret].copy()
        targets[secret] = sources[secret] = 0
        if moved[secret] == len(going):
            # nobody leaves the secret: a uniformly random derangement, as halves may be unequal,
            # and matching the nearest of few distinct rows would give people their own
            dealt = going[draws.shuffled(len(going))]
            while (dealt == going).any():
                dealt = going[draws.shuffled(len(going))]
            received[going] = dealt
            going = left = going[:0]
        elif moved[secret]:
            going, left, halves = _within_secret(going, int(moved[secret]), draws)
            pairs += halves
        leavers.append(_split(going, targets, draws))
        places.append(_split(left, sources, draws))
    pairs += [(leavers[a][b], places[b][a]) for a, b in np.argwhere(flows) if a != b]
    for leaving, vacated in pairs:
        who, what = matched(leaving, vacated, points)
        received[who] = what


def _within_secret(going: Array, moved: int, draws: Choices) -> tuple[Array, Array, list[Any]]:
    """Return who leaves the secret, the places left to other secrets, and pairs to match within it.

    The people come in random order. Each of two random halves receives places of the other, so
    which places are left is independent of who leaves.
    """
    more, less = moved - moved // 2, moved // 2
    first, second = np.split(going, [len(going) - len(going) // 2])
    ones = first[draws.shuffled(len(first))]
    others = second[draws.shuffled(len(second))]
    leaving = np.concatenate([first[more:], second[less:]])
    left = np.concatenate([ones[less:], others[more:]])
    return leaving, left, [(first[:more], others[:more]), (second[:less], ones[:less])]


def _split(going: Array, counts: IntArray, draws: Choices) -> list[Array]:
    return np.split(going[draws.shuffled(len(going))], np.cumsum(counts)[:-1])


def matched(who: Array, what: Array, points: ScaledRows | None) -> tuple[Array, Array]:
    """Return people, and the places that they receive; both come in random order.

    They are matched at the least total distance, in parts of `PART` near rows, or as they come.
    """
    if points is None:
        return who, what
    n_parts = 1 << (max(len(who) - 1, 0) // PART).bit_length()
    parts = cut([who, what], points, n_parts)
    at = [linear_sum_assignment(points.distances(*part)) for part in parts]
    both = zip(parts, at, strict=True)
    found = [(some[rows], others[columns]) for (some, others), (rows, columns) in both]
    some, others = map(np.concatenate, zip(*found, strict=True))
    return some, others


def cut(groups: Sequence[Array], points: ScaledRows, n_pieces: int) -> list[list[Array]]:
    """Cut the rows of each secret at their own medians, along common axes.

    Each cut halves all pieces, along the principal axis within secrets. Ties are cut in the order
    of the rows, which has to be random. The sizes of piece q are those of `sizes_of_piece`.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The rows of each secret, in random order.
    points : ScaledRows
    n_pieces : int
        A power of two.

    Examples
    --------
    >>> height = ScaledRows(np.array([[1.0], [5.0], [4.0], [2.0], [9.0]]), [], [])
    >>> [[x.tolist() for x in piece] for piece in cut([np.arange(5)], height, 2)]
    [[[0, 2, 3]], [[1, 4]]]
    """
    if n_pieces == 1:
        return [list(groups)]
    sizes = [*map(len, groups)]
    along = _longest_axis(points.taken(np.concatenate(groups)), np.repeat(range(len(sizes)), sizes))
    values = np.split(along, np.cumsum(sizes)[:-1])
    halves = zip(*map(_halves, groups, values), strict=True)
    lower, upper = (cut(half, points, n_pieces // 2) for half in halves)
    return [piece for both in zip(lower, upper, strict=True) for piece in both]


def _halves(group: Array, values: FloatArray) -> list[Array]:
    """Return the rows of lower and of higher values, both in their order."""
    order = np.argsort(values, kind="stable")
    return [group[np.sort(half)] for half in np.split(order, [-(-len(order) // 2)])]


def _longest_axis(points: ScaledRows, secrets: IntArray) -> FloatArray:
    """Return the scores of rows on the principal axis within secrets, by a few power iterations.

    The coordinates are numbers, and an indicator of each value of other columns.
    """
    codes = [np.unique(each, return_inverse=True)[1] for each in points.codes]
    numbers = points.numbers.astype(np.float64)
    along: FloatArray = sum(k * column for k, column in enumerate([*numbers.T, *codes], 1))
    for _ in range(_STEPS):
        along = along - (np.bincount(secrets, along) / np.bincount(secrets))[secrets]
        moved = numbers @ (numbers.T @ along)
        for of_row, unit in zip(codes, points.units, strict=True):
            moved += unit**2 * np.bincount(of_row, along)[of_row]
        along = moved / (np.abs(moved).max() or 1.0)
    return np.round(along, _DIGITS)  # equal rows have equal scores, whatever the order of sums


# ----------------------------------------------------------------------------------- whole flows


def drawn_flows(exchange: Exchange, draws: Choices) -> tuple[IntArray, IntArray]:
    """Return whole flows with mean F, and how many of those who keep their secret move."""
    if len(exchange.sizes) == 2:
        first, second = map(int, exchange.sizes)
        start, parts = response(first, second, int(exchange.flows[0, 1]) / exchange.unit)
        drawn = draws.below(1 << _BITS)
        moving = start + int(np.searchsorted(np.cumsum(parts), drawn, side="right"))
        flows = np.array([[first - moving, moving], [moving, second - moving]])
    else:
        flows = _perturbed(_rounded(exchange, draws), exchange, draws)
    moved = [_movers(exchange, secret, flows, draws) for secret in range(len(flows))]
    return flows, np.array(moved, dtype=np.int64)


@lru_cache(maxsize=64)
def response(first: int, second: int, mean: float) -> tuple[int, IntArray]:
    """Return the distribution of the number of exchanged rows: its least value, and probabilities.

    Probabilities are multiples of 2^-62, which sum to 1; the tails below one multiple are cut off.

    >>> start, parts = response(3, 2, 1.0)
    >>> start, (parts / 2**62).round(3).tolist()
    (0, [0.183, 0.634, 0.183])
    """
    numbers = np.arange(min(first, second) + 1)
    if mean in (0.0, float(numbers[-1])):
        return int(mean), np.array([1 << _BITS])
    base = -gammaln(first - numbers + 1) - 2 * gammaln(numbers + 1) - gammaln(second - numbers + 1)

    def probabilities(slope: float) -> FloatArray:
        logs = base + slope * numbers
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    slope = brentq(lambda s: float(probabilities(s) @ numbers) - mean, -800.0, 800.0, xtol=1e-14)
    parts = np.floor(probabilities(slope) * (1 << _BITS)).astype(np.int64)
    parts[parts.argmax()] += (1 << _BITS) - int(parts.sum())
    there = np.flatnonzero(parts)
    return int(there[0]), parts[there[0] : there[-1] + 1]


def _rounded(exchange: Exchange, draws: Choices) -> IntArray:
    """Round flows to whole rows without bias, by Cox's controlled rounding (1987)."""
    unit = exchange.unit
    table = np.array(exchange.flows, dtype=np.int64)
    while (open_ := table % unit > 0).any():
        cycle = _cycle(open_)
        signs = np.tile([1, -1], len(cycle) // 2)
        where = tuple(np.array(cycle).T)
        below, above = table[where] % unit, unit - table[where] % unit
        up = int(np.where(signs > 0, above, below).min())
        down = int(np.where(signs > 0, below, above).min())
        step = up if draws.below(up + down) < down else -down
        table[where] += signs * step
    return table // unit


def _cycle(open_: Array) -> list[tuple[int, int]]:
    """Return a cycle of open entries, with two in every row and column that it visits."""
    path: list[tuple[int, int]] = []
    row = int(np.flatnonzero(open_.any(axis=1))[0])
    seen: dict[int, int] = {}
    column = -1
    while row not in seen:
        seen[row] = len(path)
        column = next(int(c) for c in np.flatnonzero(open_[row]) if c != column)
        path.append((row, column))
        row = next(int(r) for r in np.flatnonzero(open_[:, column]) if r != row)
        path.append((row, column))
    # the walk may return along the column by which it first left this row
    cycle = path[seen[row] :]
    return cycle if cycle[0][1] != cycle[-1][1] else cycle[1:-1]


def _perturbed(flows: IntArray, exchange: Exchange, draws: Choices) -> IntArray:
    """Return flows after a symmetric random step along each 2 x 2 rectangle.

    The variance of a step is that of randomised response within the rectangle, divided by the
    number of rectangles that share an entry. Of many secrets only the rectangles of each two with
    themselves and with neighbours are taken, which connect all entries, too.
    """
    table, k = flows.tolist(), len(flows)
    means = (exchange.flows / exchange.unit).tolist()
    pairs = list(combinations(range(k), 2))
    near = [*pairwise(range(k)), (0, k - 1)]
    shared = (k - 1) * (k - 1 if k <= _MOST_FULL else 3)
    for i, j in pairs:
        for a, b in pairs if k <= _MOST_FULL else [(i, j), *near]:
            least = min(table[i][a], table[j][b], table[i][b], table[j][a])
            expected = means[i][a], means[j][b], means[i][b], means[j][a]
            if least and min(expected) > 0.0:
                variance = 1.0 / sum(1.0 / mean for mean in expected) / shared
                reach = min(least, math.ceil(math.sqrt(3.0 * variance)))
                step = draws.below(2 * reach + 1) - reach
                table[i][a] += step
                table[j][b] += step
                table[i][b] -= step
                table[j][a] -= step
    return np.array(table)


def _movers(exchange: Exchange, secret: int, flows: IntArray, draws: Choices) -> int:
    """Draw how many of those who keep their secret receive another person's row.

    The mean over all flows is S: the same share of those who keep their secret moves. Each half is
    rounded by itself: if only one person moved, a holder of another row of his own secret would
    know who holds his own. If nobody leaves the secret, none or at least three move: fewer could
    only exchange rows in a pair.
    """
    keeping, kept = int(flows[secret, secret]), int(exchange.flows[secret, secret])
    wanted = keeping * int(exchange.others[secret])
    if not wanted:
        return 0
    nobody_leaves = keeping == int(exchange.sizes[secret])
    if nobody_leaves and wanted < 3 * kept:
        return 3 if draws.below(3 * kept) < wanted else 0
    half, part = divmod(wanted, 2 * kept)
    if not nobody_leaves and 2 * half + 2 <= keeping:
        return 2 * half + sum(draws.below(2 * kept) < part for _ in range(2))
    whole, rest = divmod(wanted, kept)
    return whole + (draws.below(kept) < rest)


# -------------------------------------------------------------------------------- mean flows


PairDistance = tuple[int, int, float]
"""A protected pair of secrets, and its distance, which multiplies its budget."""


class Budget(NamedTuple):
    """The budgets of outsiders and of insiders, in nats; ``insiders`` None leaves these out."""

    epsilon: float
    delta: float
    insiders: float | None

    def share(self, n_pieces: int) -> Budget:
        """Return the budget of each of ``n_pieces``, over which delta adds up."""
        return self._replace(delta=self.delta / n_pieces * (1.0 - (n_pieces > 1) * 2.0**-40))


@dataclass(frozen=True, eq=False)
class ExchangeProblem:
    """The program for a stratum, or a piece of it: its people, costs and budget.

    Attributes
    ----------
    sizes : ndarray of int64 of shape (n_secrets,)
        People of each secret, at least one.
    cost : ndarray of shape (n_secrets, n_secrets)
        Mean change of a row if a person of one secret receives a row of the other.
    within_cost : ndarray of shape (n_secrets,)
        Mean change of a row if a person receives the row of another person of the same secret.
    pairs : sequence of tuple
        The protected pairs, with their distances.
    budget : Budget
    people : ndarray of int64 of shape (n_secrets,)
        People of each secret in the whole stratum.
    """

    sizes: IntArray
    cost: FloatArray
    within_cost: FloatArray
    pairs: Sequence[PairDistance]
    budget: Budget
    people: IntArray

    def losses(self, exchange: Exchange) -> FloatArray:
        """Return the losses of each pair to outsiders (or their delta), and to insiders."""
        epsilon, delta, _ = self.budget
        losses = outsider_loss, insider_loss
        found = np.array([[of(exchange, [(s, t)]) for s, t, _ in self.pairs] for of in losses])
        if delta:
            found[0] = [outsider_delta(exchange, [(s, t)], epsilon * d) for s, t, d in self.pairs]
        return found

    def holds(self, exchange: Exchange) -> bool:
        """Return whether the checked losses are within the budget of each pair."""
        epsilon, delta, insiders = self.budget
        units = np.array([distance for *_, distance in self.pairs])
        most = math.inf if insiders is None else insiders * units
        outside, inside = self.losses(exchange)
        return bool((outside <= (delta or epsilon * units)).all() and (inside <= most).all())


def most_pieces(sizes: IntArray, budget: Budget, least_distance: float = 1.0) -> int:
    """Return the largest number of equal pieces a stratum may be cut into.

    A piece has at least ten people of each secret, and so many that one person more or less
    changes the loss by at most half of the budget (proven in the checker).
    """
    least = min(budget.epsilon, (budget.insiders or math.inf) / 2.0) * least_distance
    return max(int(sizes.min() // max(10, math.ceil(4.0 / least))), 1)


def least_exchange(problem: ExchangeProblem) -> Exchange:
    """Return the flows of least cost, in whole fractions of a row.

    If those of the solver exceed the budget, they are mixed with the independent flows, which
    reveal nothing. Rounded, even these may exceed a tiny budget: the caller checks the result.

    Examples
    --------
    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> sizes, budget = np.array([50, 50]), Budget(1.0, 0.0, None)
    >>> problem = ExchangeProblem(sizes, cost, np.ones(2), [(0, 1, 1.0)], budget, sizes)
    >>> (least_exchange(problem).flows / ROW).round(2).tolist()
    [[36.55, 13.45], [13.45, 36.55]]
    """
    sizes = problem.sizes
    if not problem.pairs:
        return Exchange(sizes, np.diag(sizes * ROW), np.zeros_like(sizes), ROW, problem.people)
    independent = np.outer(sizes, sizes / sizes.sum()), sizes * (sizes - 1) / sizes.sum()
    solution = _solved(problem) or independent
    for share in _MIXTURES:
        both = zip(solution, independent, strict=True)
        whole = _whole([(1.0 - share) * some + share * other for some, other in both], problem)
        if problem.holds(whole):
            break
    return whole


def _solved(problem: ExchangeProblem) -> tuple[FloatArray, FloatArray] | None:
    """Return the solver's flows, in rows; None if it fails.

    The variables are flows relative to the independent ones: F(a, b) n / (n_a n_b).
    """
    k, sizes = len(problem.sizes), problem.sizes.astype(float)
    units = np.append(np.outer(sizes, sizes).ravel(), sizes**2) / sizes.sum()
    most, bound = _limits(problem, 1.0 - _MARGIN)
    away = problem.cost * (1.0 - np.eye(k))
    costs = np.zeros(most.shape[1])
    costs[: k * k + k] = np.append(away.ravel(), problem.within_cost) * units
    shares = sizes / sizes.sum()
    margins: Any = vstack(
        [kron(eye_array(k), shares[None, :]), kron(shares[None, :], eye_array(k))]
    )
    margins.resize(2 * k, len(costs))
    costs /= max(np.abs(costs).max(), 1e-300)
    answer = linprog(costs, A_ub=most, b_ub=bound, A_eq=margins, b_eq=np.ones(2 * k))
    if answer.x is None:
        return None
    rows = np.maximum(answer.x[: k * k + k], 0.0) * units
    return rows[: k * k].reshape(k, k), rows[k * k :]


def _limits(problem: ExchangeProblem, share: float) -> tuple[Any, FloatArray]:
    """Return the inequalities of the program: a sparse matrix and right-hand sides.

    Each row bounds a multiple of one variable by a multiple of another. If all pairs have the same
    budget, the least of each column is a further variable, so that there is a row for each secret
    instead of each pair. Insiders whose
    secret has one or two people are left out: they learn nothing of who else has it, or everything.
    """
    k, sizes, people = len(problem.sizes), problem.sizes[:, None], problem.people[:, None]
    epsilon, delta, insiders = problem.budget
    flows, own = np.arange(k * k).reshape(k, k), k * k + np.arange(k)
    foreign = np.where(np.eye(k, dtype=bool), own, flows)
    inside = sizes / np.maximum(people - np.eye(k), 1.0)
    few = np.eye(k, dtype=bool) & (people < LEAST_PEOPLE)
    sets = [(flows, np.tile(sizes / people, k), np.ones((k, k), dtype=bool), epsilon * share)]
    if insiders is not None:
        sets.append((foreign, inside, ~few, insiders * share))
    ones, width = np.ones(k), k * k + k
    limits = [(own, ones, np.diag(flows), ones)]  # S is at most F(a, a)
    pairs = problem.pairs
    there = sorted({each for pair in pairs for each in pair[:2]})
    alike = 2 * len(pairs) == len(there) * (len(there) - 1) and all(d == 1.0 for *_, d in pairs)
    for variables, weights, held, budget in sets:
        if alike and not delta:
            which = held[there]
            some, of = variables[there][which], weights[there][which]
            least, one = width + np.nonzero(which)[1], np.ones(len(some))
            factor = one * math.exp(min(budget, _LARGEST_BUDGET))
            limits += [(some, of, least, factor), (least, one, some, of)]
            width += k
        else:
            s, t, d = np.array([*pairs, *((t, s, d) for s, t, d in pairs)]).T
            s, t = s.astype(int), t.astype(int)
            factor = np.exp(np.minimum(budget * d, _LARGEST_BUDGET))[:, None]
            more, less = (variables[s], weights[s]), (variables[t], weights[t] * factor)
            limits.append(tuple(each[held[s] & held[t]] for each in (*more, *less)))
    first, ahead, second, behind = (np.concatenate(part) for part in zip(*limits, strict=True))
    at, bound = np.arange(len(first)), np.zeros(len(first))
    entries = [(at, first, ahead), (at, second, -behind)]
    if delta:  # slack beyond e^epsilon, which adds up to delta
        both = 2 * len(pairs)
        slack, shares = np.arange(both * k), np.tile(problem.sizes / problem.sizes.sum(), both)
        entries.append((k + slack, width + slack, -np.ones(both * k)))
        entries.append((len(at) + slack // k, width + slack, shares))
        bound, width = np.append(bound, np.full(both, delta * share)), width + both * k
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return csr_array((values, (rows, columns)), shape=(len(bound), width)), bound


def _whole(solution: Sequence[FloatArray], problem: ExchangeProblem) -> Exchange:
    """Return flows in whole fractions of a row, whose margins are exactly the sizes.

    Entries are scaled down until no margin is too large, and rounded down. The rest, a few
    fractions in each margin, is filled in along a northwest-corner path.
    """
    (flows, others), sizes = solution, problem.sizes
    for axis in (1, 0):
        sums = flows.sum(axis=axis, keepdims=True)
        flows = flows * np.minimum(sizes.reshape(sums.shape) / np.maximum(sums, 1e-300), 1.0)
    whole = np.floor(flows * (ROW * (1.0 - 2.0**-44))).astype(np.int64)
    ends = [np.cumsum(sizes * ROW - whole.sum(axis=axis)) for axis in (1, 0)]
    cuts = np.union1d(*ends)
    amounts = np.diff(cuts, prepend=0)
    sources, targets = (np.searchsorted(each, cuts[amounts > 0]) for each in ends)
    np.add.at(whole, (sources, targets), amounts[amounts > 0])
    kept = np.minimum(np.rint(others * ROW).astype(np.int64), np.diag(whole))
    kept[problem.people < LEAST_PEOPLE] = 0
    return Exchange(sizes, whole, kept, ROW, problem.people)


# ------------------------------------------------------------------------------------- a stratum


def sizes_of_piece(people: IntArray, n_pieces: int, piece: int | IntArray) -> IntArray:
    """Return the number of people of each secret in a piece; the first ones have one more.

    >>> [sizes_of_piece(np.array([7, 2]), 3, piece).tolist() for piece in range(3)]
    [[3, 1], [2, 1], [2, 0]]
    """
    return np.asarray((people - piece + n_pieces - 1) // n_pieces)


class StratumProblem(NamedTuple):
    """The people of a stratum, and the numbers of shards, and of parts of each, it is cut into.

    Pairs are indices of ``secrets``, with their distances.
    """

    secrets: Sequence[int]
    people: IntArray
    pairs: Sequence[PairDistance]
    shards: int
    parts: int


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows in units of distance: numbers in single precision, and codes that are equal or not."""

    numbers: Array
    codes: Sequence[IntArray]
    units: Sequence[float]

    def grouped(self, places: Array) -> ScaledRows:
        """Return the rows of each group as one row; ``places`` are its rows, -1 for none."""
        there = places >= 0
        numbers = np.where(there[:, :, None], self.numbers[places], 0.0).reshape(len(places), -1)
        codes = [np.where(there, each[places], -1) for each in self.codes]
        units = [unit for unit in self.units for _ in range(places.shape[1])]
        return ScaledRows(numbers, [column for each in codes for column in each.T], units)

    def taken(self, rows: Array) -> ScaledRows:
        """Return some rows."""
        return ScaledRows(self.numbers[rows], [codes[rows] for codes in self.codes], self.units)

    def distances(self, some: Array, others: Array) -> FloatArray:
        """Return the matrix of distances between some rows and others, summed over columns."""
        total: FloatArray = cdist(self.numbers[some], self.numbers[others], "cityblock")
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some][:, None] != codes[others][None, :])
        return total

    def mean_distance(self, some: Array, others: Array) -> float:
        """Return the mean distance between rows and as many others, pair by pair."""
        moved = np.abs(self.numbers[some] - self.numbers[others])
        total: FloatArray = moved.sum(axis=1, dtype=np.float64)
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some] != codes[others])
        return float(total.mean()) if len(total) else 0.0


def mean_costs(
    samples: Sequence[Sequence[Array]], k: int, points: ScaledRows, *, nearest: bool
) -> tuple[FloatArray, FloatArray]:
    """Estimate the mean change of a row between k secrets, and within each, from samples."""
    most, cost = PART if k <= 4 else PART // 3, np.zeros((k, k))
    for sample, (a, b) in product(samples, combinations_with_replacement(range(k), 2)):
        met = matched_sample(sample, a, b, most, points if nearest else None)
        cost[a, b] += points.mean_distance(*met) / len(samples)
    return np.maximum(cost, cost.T), np.diag(cost)


def matched_sample(
    sample: Sequence[Array], a: int, b: int, most: int, points: ScaledRows | None
) -> tuple[Array, Array]:
    """Return people of secret a in a sample, and the rows of secret b that match them."""
    half = len(sample[a]) // 2
    some, others = (sample[a][:half], sample[a][half:]) if a == b else (sample[a], sample[b])
    size = min(most, len(some), len(others))
    return matched(some[:size], others[:size], points)
