r"""Who receives whose row: whole flows, leavers and places by lot, then matches of least change.

*Whole flows* are drawn anew for each release, with the mean flows as their means: fixed ones would
tell a reader who knows the secrets of nearly everybody those of the last ones. Two secrets: with x
rows exchanged each way,

.. math:: P(x) \propto \omega^x / ((n_1 - x)! \, x!^2 \, (n_2 - x)!)

which is randomised response given the margins (Fisher's noncentral hypergeometric distribution).
More secrets: flows are rounded without bias and then moved along rectangles by steps that are
symmetric, so that every mean stays what it is, whatever the number of steps.

Of each secret a uniformly random set of people leaves, and the places they vacate are dealt
uniformly at random to the secrets that receive them. Whatever rule then matches leavers with
places, it cannot tell more of a holder than the flows do, as long as it sees rows, secrets and its
own bits, and never ids or the order of the file: so everything is put in random order first.

Who keeps his secret, and receives the row of another person of it, is of a random half of those
who leave, and receives a place of the other half. So nobody receives his own row, near rows can be
matched there, too, and what a person receives says nothing of who received his own row.

*Mean flows* come of a linear program: :math:`F(a, b)` people of secret a receive rows of secret b,
and :math:`S_a` of those of :math:`F(a, a)` receive a row that is not their own. With k secrets
there are :math:`k^2 + k` variables, for each piece of a stratum by itself. The solution is not
trusted: it is rounded to whole parts of a row, and the checker compares these with the budget.
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
"""Leavers and places that are matched at once; more are cut into parts of rows that are near."""

ROW = 1 << 32
"""Mean flows are whole numbers of this part of a row."""

LEAST_PEOPLE = 3
"""Of a secret, who can hold each other's rows: fewer keep their own ones, or leave their secret."""

_STEPS = 4  # towards the axis along which rows are cut
_DIGITS = 9  # of rows' places along it
_MANY = 8  # secrets, of which not all rectangles are taken
_BITS = 62  # of the chance of each number of exchanged rows
_INSIDE = (1e-9, 1e-7, 1e-5, 1e-3)  # shares of the budget that the solver does not get
_SOLVED = 14.0  # nats that the solver gets at most: of larger factors it is not sure any more
_MIXED = (1e-6, 1e-4, 1e-2, 0.1, 0.3, 1.0)  # shares of the flows that tell nothing


def exchange_rows(
    received: Array,
    groups: Sequence[Array],
    flows: IntArray,
    moved: IntArray,
    points: Points | None,
    draws: Choices,
) -> None:
    """Write for each person, in his place, the person whose row he receives.

    Parameters
    ----------
    received : ndarray of int of shape (n_people,)
    groups : sequence of ndarray of int
        The people of each secret who exchange rows.
    flows : ndarray of int64 of shape (n_secrets, n_secrets)
        People of each secret who receive rows of each secret.
    moved : ndarray of int64 of shape (n_secrets,)
        Those of them who keep their secret and receive another person's row.
    points : Points or None
        Whose distances are least in the sum; None matches at random.
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
            received[going] = _deranged(going, draws)
            going = left = going[:0]
        elif moved[secret]:
            going, left, halves = _crossed(going, int(moved[secret]), draws)
            pairs += halves
        leavers.append(_dealt(going, targets, draws))
        places.append(_dealt(left, sources, draws))
    pairs += [(leavers[a][b], places[b][a]) for a, b in np.argwhere(flows) if a != b]
    for leaving, vacated in pairs:
        who, what = matched(leaving, vacated, points)
        received[who] = what


def _crossed(going: Array, moved: int, draws: Choices) -> tuple[Array, Array, list[Any]]:
    """Return who leaves his secret, the places left to others, and whom to match within the secret.

    The people come in random order. Of two random halves of them each takes places of the other,
    so which places are left is independent of who leaves.
    """
    more, less = moved - moved // 2, moved // 2
    first, second = np.split(going, [len(going) - len(going) // 2])
    ones = first[draws.shuffled(len(first))]
    others = second[draws.shuffled(len(second))]
    leaving = np.concatenate([first[more:], second[less:]])
    left = np.concatenate([ones[less:], others[more:]])
    return leaving, left, [(first[:more], others[:more]), (second[:less], ones[:less])]


def _deranged(people: Array, draws: Choices) -> Array:
    """Return people in random order, none of them in his own place.

    Where all who move keep their secret, halves may not be equal; and matching the nearest would
    give people of a few rows their own ones.
    """
    while True:
        places = people[draws.shuffled(len(people))]
        if not (places == people).any():
            return places


def _dealt(going: Array, counts: IntArray, draws: Choices) -> list[Array]:
    return np.split(going[draws.shuffled(len(going))], np.cumsum(counts)[:-1])


def matched(who: Array, what: Array, points: Points | None) -> tuple[Array, Array]:
    """Return people, and the places that they receive; both come in random order.

    At the least distance in the sum, in parts of `PART` rows that are near; or as they come.
    """
    if points is None:
        return who, what
    n_parts = 1 << (max(len(who) - 1, 0) // PART).bit_length()
    parts = cut([who, what], points, n_parts)
    at = [linear_sum_assignment(points.between(*part)) for part in parts]
    both = zip(parts, at, strict=True)
    found = [(some[rows], others[columns]) for (some, others), (rows, columns) in both]
    some, others = map(np.concatenate, zip(*found, strict=True))
    return some, others


def cut(groups: Sequence[Array], points: Points, n_pieces: int) -> list[list[Array]]:
    """Cut the rows of each secret at their own medians, along axes that all of them share.

    Each cut halves all pieces, along the axis on which rows of one secret lie farthest apart. Equal
    rows are cut in the order that they come in, which has to be random. Piece q has the sizes of
    `sizes_of_piece`.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The rows of each secret, in random order.
    points : Points
    n_pieces : int
        A power of two.

    Examples
    --------
    >>> height = Points(np.array([[1.0], [5.0], [4.0], [2.0], [9.0]]), [], [])
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
    """Return the rows of lower and of higher values, both in the order that they came in."""
    order = np.argsort(values, kind="stable")
    return [group[np.sort(half)] for half in np.split(order, [-(-len(order) // 2)])]


def _longest_axis(points: Points, secrets: IntArray) -> FloatArray:
    """Return rows' places along the principal axis within secrets, nearly: by power iteration.

    Numbers and, for each value of another column, whether a row has it, are the coordinates.
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
    return np.round(along, _DIGITS)  # so that equal rows are equal, whatever is added first


# ----------------------------------------------------------------------------------- whole flows


def drawn_flows(exchange: Exchange, draws: Choices) -> tuple[IntArray, IntArray]:
    """Return G, whole flows with mean F, and of those who keep their secret how many move."""
    if len(exchange.sizes) == 2:
        flows = _of_two(exchange, draws)
    else:
        flows = _spread(_rounded(exchange, draws), exchange, draws)
    moved = [_movers(exchange, secret, flows, draws) for secret in range(len(flows))]
    return flows, np.array(moved, dtype=np.int64)


def _of_two(exchange: Exchange, draws: Choices) -> IntArray:
    first, second = map(int, exchange.sizes)
    start, parts = response(first, second, int(exchange.flows[0, 1]) / exchange.unit)
    drawn = draws.below(1 << _BITS)
    exchanged = start + int(np.searchsorted(np.cumsum(parts), drawn, side="right"))
    return np.array([[first - exchanged, exchanged], [exchanged, second - exchanged]])


@lru_cache(maxsize=64)
def response(first: int, second: int, mean: float) -> tuple[int, IntArray]:
    """Return the least number of exchanged rows, and the chances of it and the next ones.

    The chances are whole parts of 2^-62, which sum to 1; numbers whose chance is below one part
    are left out at both ends.

    >>> start, parts = response(3, 2, 1.0)
    >>> start, (parts / 2**62).round(3).tolist()
    (0, [0.183, 0.634, 0.183])
    """
    numbers = np.arange(min(first, second) + 1)
    if mean in (0.0, float(numbers[-1])):
        return int(mean), np.array([1 << _BITS])
    base = -gammaln(first - numbers + 1) - 2 * gammaln(numbers + 1) - gammaln(second - numbers + 1)

    def chances(slope: float) -> FloatArray:
        logs = base + slope * numbers
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    slope = brentq(lambda s: float(chances(s) @ numbers) - mean, -800.0, 800.0, xtol=1e-14)
    parts = np.floor(chances(slope) * (1 << _BITS)).astype(np.int64)
    parts[parts.argmax()] += (1 << _BITS) - int(parts.sum())
    there = np.flatnonzero(parts)
    return int(there[0]), parts[there[0] : there[-1] + 1]


def _rounded(exchange: Exchange, draws: Choices) -> IntArray:
    """Return flows in whole rows whose means are the flows, by Cox's cycles (1987)."""
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
    """Return a cycle of open entries that turns at each: two in every row and column it visits."""
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
    # the walk may come back along the column by which it first left this row
    cycle = path[seen[row] :]
    return cycle if cycle[0][1] != cycle[-1][1] else cycle[1:-1]


def _spread(flows: IntArray, exchange: Exchange, draws: Choices) -> IntArray:
    """Return flows after a symmetric step along rectangles of two secrets by two.

    A step is as long as randomised response within the rectangle would spread. The rectangles share
    entries, so each gets its part of the variance. Of many secrets they are only those of each two
    with themselves and with neighbours, which join all entries, too.
    """
    table, k = flows.tolist(), len(flows)
    means = (exchange.flows / exchange.unit).tolist()
    pairs = list(combinations(range(k), 2))
    near = [*pairwise(range(k)), (0, k - 1)]
    shared = (k - 1) * (k - 1 if k <= _MANY else 3)
    for i, j in pairs:
        for a, b in pairs if k <= _MANY else [(i, j), *near]:
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
    """Return how many of those who keep their secret receive the row of another person.

    The mean is S in the mean of all flows: of those who keep their secret the same share moves.
    Each half is rounded by itself: if one person alone moved, whoever holds another row of his own
    secret would know that his own row is held by the other one. Where nobody leaves, fewer than
    three would have to exchange their rows in pairs, or could not.
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


Apart = tuple[int, int, float]
"""A protected pair of secrets, and by what its budget is multiplied."""


class Budget(NamedTuple):
    """What outsiders and insiders may learn, in nats; insiders None where they are left out."""

    epsilon: float
    delta: float
    insiders: float | None

    def share(self, n_pieces: int) -> Budget:
        """Return the budget of one of so many pieces: a delta adds up over them."""
        return self._replace(delta=self.delta / n_pieces * (1.0 - (n_pieces > 1) * 2.0**-40))


@dataclass(frozen=True, eq=False)
class ExchangeProblem:
    """The people of a stratum or a piece of it, what exchanging their rows costs, and the budget.

    Attributes
    ----------
    sizes : ndarray of int64 of shape (n_secrets,)
        People of each secret, at least one.
    cost : ndarray of shape (n_secrets, n_secrets)
        Change of a row, where a person of one secret receives a row of the other.
    within : ndarray of shape (n_secrets,)
        Change of a row, where a person receives a row of another person of the same secret.
    pairs : sequence of tuple
        The secrets that are protected from each other, and by what their budget is multiplied.
    budget : Budget
    people : ndarray of int64 of shape (n_secrets,)
        Of the whole stratum, of which these are all or a piece.
    """

    sizes: IntArray
    cost: FloatArray
    within: FloatArray
    pairs: Sequence[Apart]
    budget: Budget
    people: IntArray

    def told(self, exchange: Exchange) -> FloatArray:
        """Return what the checker finds of each pair: for outsiders, or delta, and for insiders."""
        epsilon, delta, _ = self.budget
        losses = outsider_loss, insider_loss
        told = np.array([[of(exchange, [(s, t)]) for s, t, _ in self.pairs] for of in losses])
        if delta:
            told[0] = [outsider_delta(exchange, [(s, t)], epsilon * d) for s, t, d in self.pairs]
        return told

    def holds(self, exchange: Exchange) -> bool:
        """Return whether the checker finds flows within the budget of each pair."""
        epsilon, delta, insiders = self.budget
        units = np.array([distance for *_, distance in self.pairs])
        most = math.inf if insiders is None else insiders * units
        outside, inside = self.told(exchange)
        return bool((outside <= (delta or epsilon * units)).all() and (inside <= most).all())


def most_pieces(sizes: IntArray, budget: Budget, least_distance: float = 1.0) -> int:
    """Return into how many equal pieces a stratum may be cut.

    A piece has ten people of each secret at least, and so many that one more or less of them is no
    more than half of the budget (the proof is in the checker).
    """
    least = min(budget.epsilon, (budget.insiders or math.inf) / 2.0) * least_distance
    return max(int(sizes.min() // max(10, math.ceil(4.0 / least))), 1)


def least_exchange(problem: ExchangeProblem) -> Exchange:
    """Return the flows that cost least, in whole parts of a row.

    Where no flows of the solver are within the budget, those that tell nothing are mixed in. Of a
    budget below the roundings nothing is: the caller asks the checker.

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
    telling_nothing = np.outer(sizes, sizes / sizes.sum()), sizes * (sizes - 1) / sizes.sum()
    solution = telling_nothing
    for inside in _INSIDE:
        found = _solved(problem, 1.0 - inside)
        if found is not None and problem.holds(whole := _whole(found, problem)):
            return whole
        solution = found or telling_nothing
    for share in _MIXED:
        both = zip(solution, telling_nothing, strict=True)
        mixed = [(1 - share) * some + share * other for some, other in both]
        if problem.holds(whole := _whole(mixed, problem)):
            break
    return whole


def _solved(problem: ExchangeProblem, share: float) -> tuple[FloatArray, FloatArray] | None:
    """Return the solver's flows for a share of the budget, in rows; None where it finds none.

    The variables are flows over those that tell nothing: F(a, b) n / (n_a n_b).
    """
    k, sizes = len(problem.sizes), problem.sizes.astype(float)
    units = np.append(np.outer(sizes, sizes).ravel(), sizes**2) / sizes.sum()
    most, bound = _limits(problem, share)
    away = problem.cost * (1.0 - np.eye(k))
    costs = np.zeros(most.shape[1])
    costs[: k * k + k] = np.append(away.ravel(), problem.within) * units
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
    """Return the sparse matrix of what must not be positive, and the right-hand sides.

    Each row says that one variable times a number is at most another one times a number. Where all
    pairs have one budget, the least of each column is a variable, so that there is a row for each
    secret, and not for each pair. Insiders of a secret of one or two people learn nothing of who
    else has it, or all.
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
    limits = [(own, ones, np.diag(flows), ones)]  # of those who keep their secret
    pairs = problem.pairs
    there = sorted({each for pair in pairs for each in pair[:2]})
    alike = 2 * len(pairs) == len(there) * (len(there) - 1) and all(d == 1.0 for *_, d in pairs)
    for variables, weights, held, budget in sets:
        if alike and not delta:
            which = held[there]
            some, of = variables[there][which], weights[there][which]
            least, one = width + np.nonzero(which)[1], np.ones(len(some))
            factor = one * math.exp(min(budget, _SOLVED))
            limits += [(some, of, least, factor), (least, one, some, of)]
            width += k
        else:
            s, t, d = np.array([*pairs, *((t, s, d) for s, t, d in pairs)]).T
            s, t = s.astype(int), t.astype(int)
            factor = np.exp(np.minimum(budget * d, _SOLVED))[:, None]
            more, less = (variables[s], weights[s]), (variables[t], weights[t] * factor)
            limits.append(tuple(each[held[s] & held[t]] for each in (*more, *less)))
    first, ahead, second, behind = (np.concatenate(part) for part in zip(*limits, strict=True))
    at, bound = np.arange(len(first)), np.zeros(len(first))
    entries = [(at, first, ahead), (at, second, -behind)]
    if delta:  # what is beyond e^epsilon, by which delta is spent
        both = 2 * len(pairs)
        slack, shares = np.arange(both * k), np.tile(problem.sizes / problem.sizes.sum(), both)
        entries.append((k + slack, width + slack, -np.ones(both * k)))
        entries.append((len(at) + slack // k, width + slack, shares))
        bound, width = np.append(bound, np.full(both, delta * share)), width + both * k
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return csr_array((values, (rows, columns)), shape=(len(bound), width)), bound


def _whole(solution: Sequence[FloatArray], problem: ExchangeProblem) -> Exchange:
    """Return flows in whole parts of a row, with the sizes as margins, exactly.

    All entries are scaled down until no margin is too large, and rounded down; what is lacking, a
    few parts of a row in each margin, is filled in, secret after secret.
    """
    (flows, others), sizes = solution, problem.sizes
    for axis in (1, 0):
        sums = flows.sum(axis=axis, keepdims=True)
        flows = flows * np.minimum(sizes.reshape(sums.shape) / np.maximum(sums, 1e-300), 1.0)
    whole = np.floor(flows * (ROW * (1.0 - 2.0**-44))).astype(np.int64)
    lacking = [sizes * ROW - whole.sum(axis=axis) for axis in (1, 0)]
    ends = [np.cumsum(lacks) for lacks in lacking]
    cuts = np.union1d(*ends)
    amounts = np.diff(cuts, prepend=0)
    sources, targets = (np.searchsorted(lacks, cuts[amounts > 0]) for lacks in ends)
    np.add.at(whole, (sources, targets), amounts[amounts > 0])
    kept = np.minimum(np.rint(others * ROW).astype(np.int64), np.diag(whole))
    kept[problem.people < LEAST_PEOPLE] = 0
    return Exchange(sizes, whole, kept, ROW, problem.people)


# ------------------------------------------------------------------------------------- a stratum


def sizes_of_piece(people: IntArray, n_pieces: int, piece: int | IntArray) -> IntArray:
    """Return how many people of each secret a piece has: one more in the first ones.

    >>> [sizes_of_piece(np.array([7, 2]), 3, piece).tolist() for piece in range(3)]
    [[3, 1], [2, 1], [2, 0]]
    """
    return np.asarray((people - piece + n_pieces - 1) // n_pieces)


class StratumProblem(NamedTuple):
    """What is to be solved for a stratum: its people, and into how many shards and parts it is cut.

    The pairs are places among its secrets, and by what their budget is multiplied.
    """

    secrets: Sequence[int]
    people: IntArray
    pairs: Sequence[Apart]
    shards: int
    parts: int


@dataclass(frozen=True, eq=False)
class Points:
    """Rows in units of distance: numbers, of single precision, and codes that are equal or not."""

    numbers: Array
    codes: Sequence[IntArray]
    units: Sequence[float]

    def together(self, places: Array) -> Points:
        """Return the rows of each group as one wide row."""
        there = places >= 0
        numbers = np.where(there[:, :, None], self.numbers[places], 0.0).reshape(len(places), -1)
        codes = [np.where(there, each[places], -1) for each in self.codes]
        units = [unit for unit in self.units for _ in range(places.shape[1])]
        return Points(numbers, [column for each in codes for column in each.T], units)

    def taken(self, rows: Array) -> Points:
        """Return some rows."""
        return Points(self.numbers[rows], [codes[rows] for codes in self.codes], self.units)

    def between(self, some: Array, others: Array) -> FloatArray:
        """Return the distances of some rows from others, summed over columns."""
        total: FloatArray = cdist(self.numbers[some], self.numbers[others], "cityblock")
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some][:, None] != codes[others][None, :])
        return total

    def apart(self, some: Array, others: Array) -> float:
        """Return the mean distance of rows from as many others, each from its own one."""
        moved = np.abs(self.numbers[some] - self.numbers[others])
        total: FloatArray = moved.sum(axis=1, dtype=np.float64)
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some] != codes[others])
        return float(total.mean()) if len(total) else 0.0


def mean_costs(
    samples: Sequence[Sequence[Array]], k: int, points: Points, *, nearest: bool
) -> tuple[FloatArray, FloatArray]:
    """Return what a row changes between k secrets, and within each, from samples of pieces."""
    most, cost = PART if k <= 4 else PART // 3, np.zeros((k, k))
    for sample, (a, b) in product(samples, combinations_with_replacement(range(k), 2)):
        met = meeting(sample, a, b, most, points if nearest else None)
        cost[a, b] += points.apart(*met) / len(samples)
    return np.maximum(cost, cost.T), np.diag(cost)


def meeting(
    sample: Sequence[Array], a: int, b: int, most: int, points: Points | None
) -> tuple[Array, Array]:
    """Return people of secret a, and rows of secret b that they may receive, from a sample."""
    half = len(sample[a]) // 2
    some, others = (sample[a][:half], sample[a][half:]) if a == b else (sample[a], sample[b])
    size = min(most, len(some), len(others))
    return matched(some[:size], others[:size], points)
