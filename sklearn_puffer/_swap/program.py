r"""How many people of each secret receive rows of each secret: a small linear program.

:math:`F(a, b)` people of secret a receive rows of secret b, and :math:`S_a` of those of
:math:`F(a, a)` receive a row that is not their own. With k secrets there are :math:`k^2 + k`
variables, for each piece of a stratum by itself. The solution is not trusted: it is rounded to
whole parts of a row, and the checker compares these with the budget.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import exp
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses import Exchange, insider_loss, outsider_delta, outsider_loss, together
from sklearn_puffer._swap.exchange import PART, Points
from sklearn_puffer._swap.shards import StratumProblem, sizes_of_piece

ROW = 1 << 32
"""Flows are whole numbers of this part of a row."""

LEAST_PEOPLE = 3
"""Of a secret, who can hold each other's rows: fewer keep their own ones, or leave their secret."""

_INSIDE = (1e-9, 1e-7, 1e-5, 1e-3)  # shares of the budget that the solver does not get
_SOLVED = 14.0  # nats that the solver gets at most: of larger factors it is not sure any more
_MIXED = (1e-6, 1e-4, 1e-2, 0.1, 0.3, 1.0)  # shares of the flows that tell nothing


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
    pairs : sequence of tuple of int
        The secrets that are protected from each other.
    budget : Budget
    distances : sequence of float, optional
        By which the budget of each pair is multiplied; 1 for all by default.
    people : ndarray of int64 of shape (n_secrets,), optional
        Of the whole stratum, where these are a piece of it.
    """

    sizes: IntArray
    cost: FloatArray
    within: FloatArray
    pairs: Sequence[tuple[int, int]]
    budget: Budget
    distances: Sequence[float] = ()
    people: IntArray | None = None

    @property
    def stratum(self) -> IntArray:
        """People of each secret in the stratum."""
        return self.sizes if self.people is None else self.people

    def apart(self) -> list[tuple[int, int, float]]:
        """Return the pairs, and by what their budget is multiplied."""
        return [
            (s, t, d)
            for (s, t), d in zip(self.pairs, self.distances or [1.0] * len(self.pairs), strict=True)
        ]

    def told(self, exchange: Exchange) -> FloatArray:
        """Return what the checker finds of each pair: for outsiders, or delta, and for insiders."""
        epsilon, delta, _ = self.budget
        outside = [
            outsider_delta(exchange, [(s, t)], epsilon * d)
            if delta
            else outsider_loss(exchange, [(s, t)])
            for s, t, d in self.apart()
        ]
        return np.array([outside, [insider_loss(exchange, [pair]) for pair in self.pairs]])

    def holds(self, exchange: Exchange) -> bool:
        """Return whether the checker finds flows within the budget of each pair."""
        epsilon, delta, insiders = self.budget
        outside, inside = self.told(exchange)
        units = np.array([d for *_, d in self.apart()])
        within = bool((outside <= (delta or epsilon * units)).all())
        return within and (insiders is None or bool((inside <= insiders * units).all()))


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
    >>> problem = ExchangeProblem(
    ...     np.array([50, 50]), cost, np.ones(2), [(0, 1)], Budget(1.0, 0.0, None)
    ... )
    >>> (least_exchange(problem).flows / ROW).round(2).tolist()
    [[36.55, 13.45], [13.45, 36.55]]
    """
    sizes = problem.sizes
    if not problem.pairs:
        return Exchange(sizes, np.diag(sizes * ROW), np.zeros_like(sizes), ROW, problem.people)
    apart = np.outer(sizes, sizes / sizes.sum()), sizes * (sizes - 1) / sizes.sum()
    solution = None
    for inside in _INSIDE:
        solution = _solved(problem, 1.0 - inside)
        if solution is not None and problem.holds(
            whole := _whole(*solution, sizes, problem.people)
        ):
            return whole
    flows, others = apart if solution is None else solution
    for share in _MIXED:
        mixed = (1 - share) * flows + share * apart[0], (1 - share) * others + share * apart[1]
        if problem.holds(whole := _whole(*mixed, sizes, problem.people)):
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
    margins = vstack([kron(eye_array(k), shares[None, :]), kron(shares[None, :], eye_array(k))])
    none = csr_array((2 * k, most.shape[1] - k * k))
    equal: Any = hstack([margins, none])
    answer = linprog(
        costs / max(np.abs(costs).max(), 1e-300),
        A_ub=most,
        b_ub=bound,
        A_eq=equal,
        b_eq=np.ones(2 * k),
    )
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
    k, sizes, people = len(problem.sizes), problem.sizes[:, None], problem.stratum[:, None]
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
    pairs = problem.apart()
    there = sorted({each for pair in pairs for each in pair[:2]})
    for variables, weights, held, budget in sets:
        if not delta and not problem.distances and 2 * len(pairs) == len(there) * (len(there) - 1):
            which = held[there]
            some, of = variables[there][which], weights[there][which]
            least, one = width + np.nonzero(which)[1], np.ones(len(some))
            limits += [(some, of, least, one * exp(min(budget, _SOLVED))), (least, one, some, of)]
            width += k
        elif pairs:
            s, t, d = np.array([*pairs, *((t, s, d) for s, t, d in pairs)]).T
            s, t = s.astype(int), t.astype(int)
            factor = np.exp(np.minimum(budget * d, _SOLVED))[:, None]
            more, less = (variables[s], weights[s]), (variables[t], weights[t] * factor)
            limits.append(tuple(each[held[s] & held[t]] for each in (*more, *less)))
    first, ahead, second, behind = (np.concatenate(part) for part in zip(*limits, strict=True))
    at = np.arange(len(first))
    entries = [(at, first, ahead), (at, second, -behind)]
    bound = np.zeros(len(first))
    if delta:  # what is beyond e^epsilon, by which delta is spent
        both = 2 * len(problem.pairs)
        slack = width + np.arange(both * k)
        shares = np.tile(problem.sizes / problem.sizes.sum(), both)
        entries.append((k + np.arange(both * k), slack, -np.ones(both * k)))
        entries.append((len(first) + np.repeat(np.arange(both), k), slack, shares))
        bound, width = np.append(bound, np.full(both, delta * share)), width + both * k
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    return csr_array((values, (rows, columns)), shape=(len(bound), width)), bound


def _whole(
    flows: FloatArray, others: FloatArray, sizes: IntArray, people: IntArray | None
) -> Exchange:
    """Return flows in whole parts of a row, with the sizes as margins, exactly.

    All entries are scaled down until no margin is too large, and rounded down; what is lacking, a
    few parts of a row in each margin, is filled in, secret after secret.
    """
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
    kept[(sizes if people is None else people) < LEAST_PEOPLE] = 0
    return Exchange(sizes, whole, kept, ROW, people)


# ------------------------------------------------------------------------------------- a stratum


@dataclass(frozen=True, eq=False)
class Solved:
    """The mean flows of a shard of a stratum, which most strata are in one.

    Attributes
    ----------
    stratum : StratumProblem
    shard : int
    groups : list of Array
        The rows of the shard by secret, in random order.
    solutions : dict
        For the sizes of each part what was to be solved, and the flows.
    samples : list of list of Array
        Rows of each secret of some parts, by which changes are estimated.
    """

    stratum: StratumProblem
    shard: int
    groups: Sequence[Array]
    solutions: Mapping[tuple[int, ...], tuple[ExchangeProblem, Exchange]]
    samples: Sequence[Sequence[Array]]

    @cached_property
    def flows(self) -> list[Exchange]:
        """The flows of each part."""
        return [self.solutions[sizes][1] for sizes in sizes_of_parts(self.stratum, self.shard)]

    @cached_property
    def pieces(self) -> list[tuple[ExchangeProblem, Exchange, int]]:
        """What was solved, and how many parts have it."""
        counts = Counter(sizes_of_parts(self.stratum, self.shard))
        return [(*self.solutions[sizes], count) for sizes, count in counts.items()]

    @cached_property
    def exchange(self) -> Exchange:
        """The flows of all parts together, checked to be those of its people in whole numbers."""
        sizes = sizes_of_piece(self.stratum.people, self.stratum.shards, self.shard)
        return together([(exchange, count) for _, exchange, count in self.pieces], sizes)

    @cached_property
    def moves(self) -> bool:
        """Whether anybody receives another person's row."""
        flows = self.exchange.flows
        return bool(self.exchange.others.any() or (flows != np.diag(np.diag(flows))).any())


def sizes_of_parts(stratum: StratumProblem, shard: int) -> list[tuple[int, ...]]:
    """Return the sizes of each part of a shard; see `sizes_of_piece`."""
    _, people, _, _, shards, parts = stratum
    numbers = range(shard, shards * parts, shards)
    return [tuple(sizes_of_piece(people, shards * parts, each).tolist()) for each in numbers]


def mean_costs(
    samples: Sequence[Sequence[Array]], k: int, points: Points, *, nearest: bool
) -> tuple[FloatArray, FloatArray]:
    """Return what a row changes between k secrets, and within each, from samples of pieces."""
    most, cost = PART if k <= 4 else PART // 3, np.zeros((k, k))
    for sample, (a, b) in product(samples, combinations_with_replacement(range(k), 2)):
        met = meeting(sample, a, b, points, most, nearest=nearest)
        cost[a, b] += points.apart(*met) / len(samples)
    return np.maximum(cost, cost.T), np.diag(cost)


def meeting(
    sample: Sequence[Array], a: int, b: int, points: Points, most: int, *, nearest: bool
) -> tuple[Array, Array]:
    """Return people of secret a, and rows of secret b that they may receive, from a sample."""
    half = len(sample[a]) // 2
    some, others = (sample[a][:half], sample[a][half:]) if a == b else (sample[a], sample[b])
    size = min(most, len(some), len(others))
    some, others = some[:size], others[:size]
    if not nearest:
        return some, others
    at, to = linear_sum_assignment(points.between(some, others))
    return some[at], others[to]
