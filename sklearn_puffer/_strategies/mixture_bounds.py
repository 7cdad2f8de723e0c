r"""Strategies on Gaussian mixtures: couplings between components, and bounds read off them.

A coupling w couples the components; within a coupled pair the monotone map moves one Gaussian onto
the other, so that in one column X - X' = dmu + dsd Z with Z standard normal. Any w with the right
marginals gives a coupling of the mixtures, and so a valid bound on the privacy loss: a better
one buys less noise and never costs privacy. What no coupling may do is miss a marginal, so masses
here are integers over a common total, exactly; weights are read as in `priors.rational_counts`.

Within a coupled pair X - X' = m + s Z with Z standard normal, m the difference of the means and s
that of the standard deviations, so all of X - X' is a mixture of such Gaussians, with weights w.
What bounds the loss is what `_strategies.coupling_bounds` says of moves: a maximum, a mean, or a
probability and the loss of what remains. As noise is even and shifts enter by their size, all
bounds hold in both directions.

Which notions and noises a strategy takes is checked in `bounds`, but for what depends on the
priors: a maximum over moves exists only where no component has to stretch.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import ndtri_exp

from sklearn_puffer._base import ULP, FloatArray, IntArray
from sklearn_puffer._strategies.bound_types import (
    Bound,
    Impossible,
    Tightest,
    both_ways,
    least_of,
)
from sklearn_puffer._strategies.coupling_bounds import has_pure_loss, move_losses
from sklearn_puffer._strategies.shift_means import GaussianShift, log_exponential_means, tails
from sklearn_puffer._strategies.transport import ground_cost
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Pufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair, rational_counts

Cell = tuple[int, int]


@dataclass(frozen=True, eq=False)
class ComponentCoupling:
    """A coupling of the components of p and q, as its entries of positive mass.

    Attributes
    ----------
    sources, targets : ndarray of shape (m,)
        Components of p and of q.
    weights : ndarray of shape (m,)
        Masses, each the float nearest to an exact fraction; the fractions have exact marginals.
    shifts : ndarray of shape (m, d)
        Differences of the means.
    stretches : ndarray of shape (m,)
        In one column ``|sd_i - sd_j|``. For rows 0 where the covariances are equal, and otherwise
        infinite: X - X' then is no translation.
    """

    sources: IntArray
    targets: IntArray
    weights: FloatArray
    shifts: FloatArray
    stretches: FloatArray

    def matrix(self) -> FloatArray:
        """Return the weights as a matrix, a row for each component of p."""
        dense = np.zeros((int(self.sources.max()) + 1, int(self.targets.max()) + 1))
        dense[self.sources, self.targets] = self.weights
        return dense


def squared_distances(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    r"""Return the squared W_2 distances between components, shape (k, l).

    .. math:: |\mu_m - \mu_l|^2 + \mathrm{tr}(A + B - 2 (A^{1/2} B A^{1/2})^{1/2})

    The second term is (sd_m - sd_l)^2 in one column.

    >>> p = GaussianMixture([1.0], [0.0], [1.0])
    >>> squared_distances(p, GaussianMixture([0.5, 0.5], [3.0, 0.0], [1.0, 3.0])).tolist()
    [[9.0, 4.0]]
    """
    if p.means.ndim == 1:
        stretched = np.square(p.scales[:, None] - q.scales[None])
    else:
        stretched = np.array([[_bures(a, b) for b in q.scales] for a in p.scales])
    return np.asarray(np.square(p.rows[:, None] - q.rows[None]).sum(axis=-1) + stretched)


def _bures(a: FloatArray, b: FloatArray) -> float:
    if np.array_equal(a, b):
        return 0.0
    values, vectors = np.linalg.eigh(a)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0.0)).sum()
    return max(float(np.trace(a) + np.trace(b) - 2.0 * shared), 0.0)


def stretches(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return by how much each component has to stretch to become another, shape (k, l).

    Zero where one is a translation of the other; for rows infinite where it is not.
    """
    if p.means.ndim == 1:
        return np.asarray(np.abs(p.scales[:, None] - q.scales[None]))
    return np.array([[0.0 if np.array_equal(a, b) else np.inf for b in q.scales] for a in p.scales])


def shortest_coupling(p: GaussianMixture, q: GaussianMixture) -> ComponentCoupling:
    """Return the coupling of the smallest mean squared W_2 distance (003, Eq. 12).

    Its marginals are exact. It is optimal up to the tolerance of the solver; a coarser one only
    costs noise.

    Examples
    --------
    >>> p = GaussianMixture([0.25, 0.75], [0.0, 5.0], [1.0, 1.0])
    >>> shortest_coupling(p, GaussianMixture([0.5, 0.5], [0.0, 5.0], [1.0, 1.0])).matrix().tolist()
    [[0.25, 0.0], [0.25, 0.5]]
    """
    return cheapest_coupling(p, q, squared_distances(p, q))


def cheapest_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling:
    """Return the coupling of the smallest mean of ``costs`` (k, l), which are finite.

    Its marginals are exact, and it is optimal up to the tolerance of the solver.

    Examples
    --------
    >>> p = GaussianMixture([0.25, 0.75], [0.0, 5.0], [1.0, 1.0])
    >>> cheapest_coupling(p, p, np.array([[0.0, 1.0], [1.0, 0.0]])).matrix().tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    supplies, demands = _supplies_and_demands(p, q)
    return _coupling(p, q, _filled(supplies, demands, _filling_order(_solved(p, q, costs), costs)))


def bottleneck_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling | None:
    """Return a coupling of the smallest maximum of ``costs`` (k, l), or None if that is infinite.

    Examples
    --------
    >>> p = GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 2.0])
    >>> q = GaussianMixture([0.5, 0.5], [1.0, 0.0], [2.0, 1.0])
    >>> apart = np.where(stretches(p, q) > 0.0, np.inf, 1.0)
    >>> bottleneck_coupling(p, q, apart).shifts.ravel().tolist()
    [0.0, 0.0]
    """
    supplies, demands = _supplies_and_demands(p, q)
    levels = np.unique(costs[np.isfinite(costs)])
    best, low, high = None, 0, len(levels) - 1
    while low <= high:
        middle = (low + high) // 2 if best is not None else high  # the largest level decides
        flow = _flow(supplies, demands, costs <= levels[middle])
        if flow is None and best is None:
            return None
        if flow is None:
            low = middle + 1
        else:
            best, high = flow, middle - 1
    return None if best is None else _coupling(p, q, best)


def _coupling(p: GaussianMixture, q: GaussianMixture, masses: dict[Cell, int]) -> ComponentCoupling:
    cells = sorted(cell for cell, mass in masses.items() if mass > 0)
    total = sum(masses.values())
    sources, targets = np.array(cells, dtype=np.intp).T
    weights = np.array([masses[cell] / total for cell in cells])
    shifts, stretched = p.rows[sources] - q.rows[targets], stretches(p, q)[sources, targets]
    return ComponentCoupling(sources, targets, weights, shifts, stretched)


def _supplies_and_demands(p: GaussianMixture, q: GaussianMixture) -> tuple[list[int], list[int]]:
    """Return both mixtures' weights as integers of the same total."""
    counts = [_integers(tuple(x.weights.tolist())) for x in (p, q)]
    total = lcm(*map(sum, counts))
    left, right = ([count * (total // sum(side)) for count in side] for side in counts)
    return left, right


@lru_cache(maxsize=256)
def _integers(weights: tuple[float, ...]) -> list[int]:
    return [int(count) for count in rational_counts(np.array(weights))]


def _solved(p: GaussianMixture, q: GaussianMixture, costs: FloatArray) -> FloatArray:
    """Return an approximate optimum of the transport problem, shape (k, l)."""
    n_rows, n_columns = costs.shape
    if min(costs.shape) == 1:
        return np.outer(p.weights, q.weights)
    rows = np.kron(np.eye(n_rows), np.ones(n_columns))
    columns = np.kron(np.ones(n_rows), np.eye(n_columns))[:-1]  # the last follows from the others
    largest = float(costs.max())
    result = linprog(
        costs.ravel() / (largest if largest > 0.0 else 1.0),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([p.weights, q.weights[:-1]]),
        method="highs",
    )
    return np.zeros_like(costs) if result.x is None else result.x.reshape(costs.shape)


def _filling_order(flow: FloatArray, costs: FloatArray) -> list[Cell]:
    """Return all cells: first the flow's, from its leaves inwards, then the others by cost.

    The cells of a vertex of the transport polytope are a forest. Taken from the leaves, each cell
    holds all that its row or its column has left, so filling them gives the vertex exactly.
    """
    waiting = {(int(i), int(j)) for i, j in np.argwhere(flow > 0.0)}
    order: list[Cell] = []
    while waiting:
        rows, columns = Counter(i for i, _ in waiting), Counter(j for _, j in waiting)
        leaves = [cell for cell in waiting if rows[cell[0]] == 1 or columns[cell[1]] == 1]
        taken = min(leaves) if leaves else max(waiting, key=lambda cell: (flow[cell], cell))
        order.append(taken)
        waiting.remove(taken)
    by_cost = np.unravel_index(np.argsort(costs, axis=None, kind="stable"), costs.shape)
    others = zip(*(index.tolist() for index in by_cost), strict=True)
    return [*order, *((i, j) for i, j in others if not flow[i, j] > 0.0)]


def _filled(supplies: list[int], demands: list[int], order: list[Cell]) -> dict[Cell, int]:
    """Give each cell in turn as much as its row and its column have left.

    Whatever the order of all cells, the marginals come out exactly: a row and a column that both
    had something left would have had it when their own cell was filled; and as the totals agree, no
    row alone has something left.
    """
    rows, columns = list(supplies), list(demands)
    masses = {}
    for i, j in order:
        masses[i, j] = moved = min(rows[i], columns[j])
        rows[i] -= moved
        columns[j] -= moved
    return masses


def _flow(
    supplies: list[int], demands: list[int], allowed: NDArray[np.bool_]
) -> dict[Cell, int] | None:
    """Return a coupling over the allowed cells, or None if there is none (Edmonds and Karp)."""
    rows, columns = list(supplies), list(demands)
    masses: dict[Cell, int] = {(int(i), int(j)): 0 for i, j in np.argwhere(allowed)}
    by_row: list[list[int]] = [[] for _ in rows]
    by_column: list[list[int]] = [[] for _ in columns]
    for i, j in masses:
        by_row[i].append(j)
        by_column[j].append(i)
    while any(rows):
        path = _augmenting_path(rows, columns, masses, by_row, by_column)
        if path is None:
            return None
        forward, backward = path[0::2], path[1::2]
        row, column = forward[0][0], forward[-1][1]
        moved = min(rows[row], columns[column], *(masses[cell] for cell in backward))
        rows[row] -= moved
        columns[column] -= moved
        for cell in forward:
            masses[cell] += moved
        for cell in backward:
            masses[cell] -= moved
    return masses


def _augmenting_path(
    rows: list[int],
    columns: list[int],
    masses: dict[Cell, int],
    by_row: list[list[int]],
    by_column: list[list[int]],
) -> list[Cell] | None:
    """Return the cells of a shortest path from a row to a column with something left.

    Mass is added to the cells at even positions and taken from the others.
    """
    came: dict[tuple[str, int], Any] = {("row", i): None for i, left in enumerate(rows) if left > 0}
    queue = deque(came)
    while queue:
        side, k = node = queue.popleft()
        if side == "column" and columns[k] > 0:
            return _walked_back(node, came)
        if side == "row":
            neighbours = [("column", j) for j in by_row[k]]
        else:
            neighbours = [("row", i) for i in by_column[k] if masses[i, k] > 0]
        for neighbour in neighbours:
            if neighbour not in came:
                came[neighbour] = node
                queue.append(neighbour)
    return None


def _walked_back(node: tuple[str, int], came: dict[tuple[str, int], Any]) -> list[Cell]:
    cells: list[Cell] = []
    while came[node] is not None:
        before = came[node]
        cells.append((before[1], node[1]) if node[0] == "column" else (node[1], before[1]))
        node = before
    return cells[::-1]


# Rounding. Weights, m and s are single roundings of exact numbers: `_SLACK` covers them in sums,
# and `_strategies.shift_means` in arguments. A weight too small for a float counts as 1e-300.

_SLACK = 1e-12
_TINY = 1e-300
_SHARES = 113  # of delta that are tried for the moves left out


def _starts(couplings: Sequence[ComponentCoupling]) -> NDArray[np.intp]:
    return np.cumsum([0, *(len(coupling.weights) for coupling in couplings[:-1])])


def _joined(couplings: Sequence[ComponentCoupling], name: str) -> FloatArray:
    return np.concatenate([getattr(coupling, name) for coupling in couplings])


@dataclass(frozen=True, eq=False)
class _OfCouplings:
    """What the bounds that are read off couplings of components start from."""

    couplings: Sequence[ComponentCoupling]
    noise: Noise
    notion: Notion

    @cached_property
    def guess(self) -> float:
        """The factor at which the largest usual move has as many scales as the budget nats."""
        scales = self.noise.axis_scales(self.couplings[0].shifts.shape[1])
        largest = max(
            float(((np.abs(w.shifts) + np.nan_to_num(w.stretches)[:, None]) / scales).max())
            for w in self.couplings
        )
        return max(largest, _TINY) / min(self.notion.epsilon or 1.0, 1.0) if largest > 0.0 else 1.0

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return _starts(self.couplings)


class Largest(_OfCouplings):
    """The loss of the largest of some translations."""

    def losses(self, factor: float) -> FloatArray:
        shifts = _joined(self.couplings, "shifts") * (1.0 + 2.0 * ULP)
        losses = move_losses(shifts, self.noise, factor, self.notion)
        return both_ways(np.maximum.reduceat(losses, self._starts))


@dataclass(frozen=True, eq=False)
class RelaxedMoves:
    """The largest log mean of e^(|G|/theta) over the coupled components."""

    shifts: FloatArray
    deviations: FloatArray
    starts: NDArray[np.intp]
    theta: float
    guess: float

    @classmethod
    def of(
        cls,
        couplings: Sequence[ComponentCoupling],
        pairs: Sequence[PriorPair],
        theta: float,
        budget: float,
    ) -> RelaxedMoves:
        shifts = np.abs(_joined(couplings, "shifts")[:, 0]) * (1.0 + 2.0 * ULP)
        spreads = [
            width_changes(pair.p, pair.q)[coupling.sources, coupling.targets]
            for pair, coupling in zip(pairs, couplings, strict=True)
        ]
        deviations = np.concatenate(spreads) * (1.0 + 8.0 * ULP)
        reach = float((shifts + deviations).max()) / theta / budget
        return cls(shifts, deviations, _starts(couplings), theta, reach if reach > 0.0 else 1.0)

    def losses(self, factor: float) -> FloatArray:
        level = min(factor * self.theta, 1e300)
        if level < _TINY:
            moved = (self.shifts > 0.0) | (self.deviations > 0.0)
            return both_ways(np.maximum.reduceat(np.where(moved, np.inf, 0.0), self.starts))
        with np.errstate(over="ignore"):
            m, s = self.shifts / level, self.deviations / level
        losses = m * (1.0 + 8.0 * ULP)
        spread = self.deviations > 0.0
        s = np.maximum(s, np.maximum(1e-30 * m, 1e-200))  # a wider spread is safe
        losses[spread] = log_exponential_means(1.0, m[spread], s[spread]) + 16.0 * ULP
        return both_ways(np.maximum.reduceat(losses, self.starts))


def width_changes(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return sqrt|sd_m^2 - sd_l^2| for all components, shape (k, l), of one column."""
    a, b = p.scales[:, None], q.scales[None]
    return np.asarray(np.sqrt(np.abs(a - b)) * np.sqrt(a + b))


class Average(_OfCouplings):
    """The mean loss of the moves of each coupling."""

    @cached_property
    def _shift(self) -> GaussianShift:
        return GaussianShift(self.noise, self.notion)

    def losses(self, factor: float) -> FloatArray:
        shifts = _joined(self.couplings, "shifts")
        if shifts.shape[1] > 1:
            means = move_losses(shifts * (1.0 + 2.0 * ULP), self.noise, factor, self.notion)
            divergence = self.notion.divergence
            if isinstance(divergence, PowerMean):
                with np.errstate(over="ignore"):  # infinity is an upper bound
                    means = divergence.order * means * (1.0 + 4.0 * ULP)
        else:
            widths = _joined(self.couplings, "stretches") * (1.0 + 2.0 * ULP)
            means = self._shift.means(factor, shifts[:, 0] * (1.0 + 2.0 * ULP), widths)
        weights = np.maximum(_joined(self.couplings, "weights"), _TINY)
        stops = np.append(self._starts[1:], len(weights))
        parts = zip(self._starts, stops, strict=True)
        return both_ways(np.array([self._averaged(means[a:b], weights[a:b]) for a, b in parts]))

    def _averaged(self, means: FloatArray, weights: FloatArray) -> float:
        divergence = self.notion.divergence
        if isinstance(divergence, PowerMean):
            return log_average(means, weights) / divergence.order * (1.0 + 4.0 * ULP)
        assert isinstance(divergence, HockeyStick)
        return min(float((means * weights).sum()) * (1.0 + _SLACK), 1.0)


def log_average(logs: FloatArray, weights: FloatArray) -> float:
    """Return log sum w e^log for logs of at least 0, rounded up.

    >>> round(log_average(np.array([0.0, 1e-20]), np.array([0.5, 0.5])) / 1e-20, 9)
    0.5
    """
    top = float(logs.max())
    if not np.isfinite(top):
        return top
    if top < 1.0:  # keeps the relative error of logs far below 1
        return float(np.log1p((weights * np.expm1(logs)).sum() * (1.0 + _SLACK))) * (1.0 + _SLACK)
    below = float(np.log((weights * np.exp(logs - top)).sum()))
    return (top + below) * (1.0 + 16.0 * ULP) + _SLACK + 16.0 * ULP * top


def approximate_moves(
    couplings: Sequence[ComponentCoupling], noise: Noise, notion: Notion
) -> Bound:
    divergence = notion.divergence
    if not isinstance(divergence, HockeyStick):
        return LargestKept(couplings, noise, notion)
    if divergence.epsilon == 0.0 or couplings[0].shifts.shape[1] > 1 or not has_pure_loss(noise, 1):
        return SharedDelta(couplings, noise, notion)
    return TailChance(couplings, noise, notion)


class TailChance(_OfCouplings):
    """The probability of a move whose shift has a max-divergence above epsilon."""

    @cached_property
    def reach(self) -> float:
        """A shift, the larger the better, whose max-divergence is at most epsilon at factor 1."""
        divergence = self.notion.divergence
        assert isinstance(divergence, HockeyStick)
        epsilon, pure = divergence.epsilon, Pufferfish(divergence.epsilon)

        def loss(shift: float) -> float:
            return float(move_losses(np.array([[shift]]), self.noise, 1.0, pure)[0])

        low, high = 0.0, float(self.noise.axis_scales(1)[0])
        while loss(high) <= epsilon and high < 1e290:
            low, high = high, high * 2.0
        for _ in range(2000):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if loss(middle) <= epsilon else (low, middle)
        return low

    @cached_property
    def guess(self) -> float:
        allowed = np.array([self.notion.delta])
        needed = max(float(_quantiles(coupling, allowed)[0]) for coupling in self.couplings)
        return max(needed / self.reach, _TINY) if 0.0 < needed < np.inf else 1.0

    def losses(self, factor: float) -> FloatArray:
        # a max-divergence is that of the shift in units of the scale
        beyond = np.array([min(self.reach * factor, 1e300) * (1.0 - 4.0 * ULP)])
        return both_ways(np.array([_tail(coupling, beyond)[0] for coupling in self.couplings]))


@dataclass(frozen=True, eq=False)
class KeptMoves:
    """Sets of moves of one coupling that are kept, and the probability of the others.

    In one column the moves of at most some size z, for rows of at most some ground cost. The
    first set leaves out as much as delta allows.
    """

    coupling: ComponentCoupling
    noise: Noise
    notion: Notion

    @cached_property
    def sets(self) -> tuple[FloatArray, list[FloatArray]]:
        """Bounds on the probabilities left out, and the shifts (n, d) that bound what is kept."""
        if self.coupling.shifts.shape[1] > 1:
            return self._of_rows()
        shares = 1.0 / (1.0 + np.exp(np.linspace(-14.0, 14.0, _SHARES)))
        chances = np.concatenate([[1.0], shares, [0.0]]) * self.notion.delta
        sizes = _quantiles(self.coupling, chances)
        return _tail(self.coupling, sizes), [np.array([[size]]) for size in sizes]

    def _of_rows(self) -> tuple[FloatArray, list[FloatArray]]:
        order = np.argsort(-ground_cost(self.noise, self.coupling.shifts), kind="stable")
        weights = np.maximum(self.coupling.weights[order], _TINY)
        gone = np.append(0.0, np.cumsum(weights[:-1]) * (1.0 + _SLACK))
        counts = np.flatnonzero(gone <= self.notion.delta)[::-1]
        return gone[counts], [self.coupling.shifts[order[k:]] for k in counts]

    def largest(self, factor: float, n_sets: int) -> FloatArray:
        """Return the largest loss that remains, for the first sets."""
        kept = self.sets[1][:n_sets]
        sizes = [len(moves) for moves in kept]
        shifts = np.concatenate(kept) * (1.0 + 2.0 * ULP)
        finite = np.isfinite(shifts).all(axis=1)
        losses = np.full(len(shifts), self.notion.divergence.worst)
        losses[finite] = move_losses(shifts[finite], self.noise, factor, self.notion)
        return np.asarray(np.maximum.reduceat(losses, np.cumsum([0, *sizes[:-1]])))


class _OfMoves(_OfCouplings):
    """What the bounds that leave moves out start from."""

    @cached_property
    def moves(self) -> list[KeptMoves]:
        return [KeptMoves(coupling, self.noise, self.notion) for coupling in self.couplings]


class LargestKept(_OfMoves):
    """The largest loss of a move once moves of probability delta are left out."""

    def losses(self, factor: float) -> FloatArray:
        return both_ways(np.array([moves.largest(factor, 1)[0] for moves in self.moves]))


class SharedDelta(_OfMoves):
    """The least sum of what is left out and what remains, over shares of delta."""

    def losses(self, factor: float) -> FloatArray:
        return both_ways(np.array([self._least(moves, factor) for moves in self.moves]))

    def _least(self, moves: KeptMoves, factor: float) -> float:
        # Pr(d > z) <= a gives Pr(d > z) + Pr(d <= z) L <= a + (1 - a) L, as L <= 1
        gone = moves.sets[0]
        loss = moves.largest(factor, len(gone))
        sums = gone + (1.0 - gone) * loss
        return min(float(np.where(loss > 0.0, sums * (1.0 + 8.0 * ULP), gone).min()), 1.0)


@dataclass(frozen=True, eq=False)
class Claim:
    """What a printed formula says: the budget is kept from a factor of its own on."""

    factors: FloatArray
    budget: float

    @property
    def guess(self) -> float:
        largest = float(self.factors.max())
        return largest if largest > 0.0 else 1.0

    def losses(self, factor: float) -> FloatArray:
        if factor == 0.0:
            return both_ways(np.where(self.factors > 0.0, np.inf, 0.0))
        with np.errstate(over="ignore"):
            return both_ways(self.budget * (self.factors / factor))


def _tail(coupling: ComponentCoupling, beyond: FloatArray) -> FloatArray:
    """Return the probability that a move of one column exceeds each of some sizes, rounded up."""
    weights = np.maximum(coupling.weights, _TINY)[:, None]
    chances = weights * tails(beyond[None], coupling.shifts, coupling.stretches[:, None])
    return np.asarray(np.minimum(chances.sum(axis=0) * (1.0 + _SLACK), 1.0))


def _quantiles(coupling: ComponentCoupling, chances: FloatArray) -> FloatArray:
    """Return sizes that moves of one column exceed with at most each chance, and hardly more.

    Infinite where there is none.
    """
    largest = float(np.abs(coupling.shifts).max()) * (1.0 + 16.0 * ULP)
    high = np.full(chances.shape, largest + 40.0 * float(coupling.stretches.max()))
    low = np.zeros_like(high)
    high = np.where(_tail(coupling, low) <= chances, 0.0, high)
    while np.any(high - low > 1e-13 * high):
        middle = 0.5 * (low + high)
        holds = _tail(coupling, middle) <= chances
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return np.where(_tail(coupling, high) <= chances, high, np.inf)


# -------------------------------------------------------------------------------------- strategies


def sensitivity(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Refuse: any two values are possible under a Gaussian, however far apart."""
    return Impossible(
        "strategy='sensitivity' needs a bounded alphabet, and that of a Gaussian prior has no "
        "end; use strategy='exact'.",
        len(pairs),
    )


def wasserstein(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Bound each loss by that of the largest translation that a coupling of translations needs.

    Notes
    -----
    *Formal guarantees.* A component that is moved without being stretched moves by m for certain,
    so the coupling has moves of finitely many sizes, of which the largest counts (003, Remark 1;
    004, Prop. F.1). Among such couplings the one with the smallest maximum is taken.
    """
    return _of_translations("wasserstein", pairs, noise, notion)


def relaxed(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound the pure loss under Laplace noise by the mean of e^(|G|/theta).

    .. math:: \log E[e^{|G|/\theta}], \qquad G \sim N(\mu_i - \mu_j, |\sigma_i^2 - \sigma_j^2|)

    Notes
    -----
    *Formal guarantees.* Say sigma_i >= sigma_j. Then X_i has the distribution of X_j + G with G
    independent of X_j, a coupling under which |X_i - X_j| = |G| given any value of X_j: the mean of
    `bounds.Relaxed`, which bounds the loss in both directions. The odds of two mixtures with the
    same weights are at most the largest odds of their components, so of a coupling between
    components the largest mean counts. Two couplings are tried: the shortest one, and the one with
    the smallest maximum of |m| plus the deviation of G.
    """
    if pairs[0].p.n_axes > 1:
        return _of_translations("relaxed", pairs, noise, notion)
    theta = float(noise.axis_scales(1)[0])
    shortest = [shortest_coupling(p, q) for p, q in pairs]
    costs = [np.abs(p.means[:, None] - q.means) + width_changes(p, q) for p, q in pairs]
    others = [bottleneck_coupling(p, q, cost) for (p, q), cost in zip(pairs, costs, strict=True)]
    families = shortest, [coupling for coupling in others if coupling is not None]
    return Tightest([RelaxedMoves.of(each, pairs, theta, notion.budget) for each in families])


def approximate(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by that of a move that is exceeded with small probability.

    .. math:: \sum w \Pr(|m + s Z| > z) \le \delta

    Notes
    -----
    *Formal guarantees.* Under Renyi the loss is that of a shift by the smallest such z, given the
    event that the move is no larger (004, Thm 4.3). Under (epsilon, delta) the loss is the
    probability itself for the z whose shift has the max-divergence epsilon: for Laplace noise
    z = epsilon theta, the tail form of 003, Thm 1 and 2. Noise without a max-divergence instead
    takes the smallest of :math:`\Pr(d > z) + \Pr(d \le z) \delta_\varepsilon(z)` over some z.
    """
    families = _couplings(pairs, noise)
    if pairs[0].p.n_axes > 1 and not families:
        return _stretched("approximate", pairs, notion)
    return least_of([approximate_moves(couplings, noise, notion) for couplings in families])


def distribution_aware(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by the average over the coupling of what its moves lose.

    .. math::
        \sum w E[\delta_\varepsilon(m + s Z)], \qquad
        \frac{1}{\alpha - 1} \log \sum w E[e^{(\alpha - 1) D_\alpha(m + s Z)}]

    Notes
    -----
    *Formal guarantees.* Both divergences are convex in the pair of distributions (004, Thm 4.5; the
    soft form of 003, Thm 2). Under the second, infinite where the mean does not exist: for Gaussian
    noise unless alpha (alpha - 1) s^2 is below its variance. Never above `approximate` under
    (epsilon, delta), but for roundings: a hockey stick rises with the move, and is at most 1.
    """
    if notion.is_pure:
        return _of_translations("distribution_aware", pairs, noise, notion)
    families = _couplings(pairs, noise)
    if pairs[0].p.n_axes > 1 and not families:
        return _stretched("distribution_aware", pairs, notion)
    return least_of([Average(couplings, noise, notion) for couplings in families])


def monge(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Claim what 003 prints: Theorem 1 for Gaussians, Theorem 2 and Corollary 2 for mixtures.

    .. math:: b = \frac1\varepsilon \sum w (|m| + |s| Q^{-1}(\delta/2))

    Notes
    -----
    Theorem 1 (one component each) is sound. Theorem 2 and, for pure epsilon, Corollary 2 average
    over components where the worst one counts: there is no guarantee. The "loss" is the budget
    times b over the scale, so that the budget is kept from the printed b on.
    """
    reason = _not_printed(pairs, noise, notion)
    if reason is not None:
        return Impossible(reason, len(pairs))
    theta = float(noise.axis_scales(1)[0])
    scales = np.array([_printed_scale(pair, notion) for pair in pairs])
    return Claim(scales / theta, notion.budget)


# --------------------------------------------------------------------------------------- couplings


def _translations(pair: PriorPair, noise: Noise) -> ComponentCoupling | None:
    """Return the coupling of smallest largest move among those that stretch nothing, or None."""
    p, q = pair
    moves = np.abs(p.rows[:, None] - q.rows[None])
    sizes = moves[..., 0] if p.n_axes == 1 else ground_cost(noise, moves)
    return bottleneck_coupling(p, q, np.where(stretches(p, q) > 0.0, np.inf, sizes))


def _of_translations(
    strategy: str, pairs: Sequence[PriorPair], noise: Noise, notion: Notion
) -> Bound:
    couplings = [coupling for pair in pairs if (coupling := _translations(pair, noise)) is not None]
    if len(couplings) < len(pairs):
        return _stretched(strategy, pairs, notion)
    moved = any(coupling.shifts.any() for coupling in couplings)
    if moved and notion.is_pure and not has_pure_loss(noise, pairs[0].p.n_axes):
        return Impossible(
            f"strategy={strategy!r} has no pure epsilon with {type(noise).__name__} noise, under "
            "which every shift loses all; use delta=1e-05, alpha=2.0 or noise='laplace'.",
            len(pairs),
        )
    return Largest(couplings, noise, notion)


def _couplings(pairs: Sequence[PriorPair], noise: Noise) -> list[list[ComponentCoupling]]:
    """Return the couplings that are tried, each kind for all pairs: the shortest, and translations.

    For rows only couplings of translations count, as the distribution of other moves has no closed
    form.
    """
    shortest = [shortest_coupling(p, q) for p, q in pairs]
    still = [_translations(pair, noise) for pair in pairs]
    others = [other or coupling for coupling, other in zip(shortest, still, strict=True)]
    if pairs[0].p.n_axes > 1:
        if any(coupling is None for coupling in still):
            return []
        couplings = zip(shortest, others, strict=True)
        shortest = [w if not w.stretches.any() else other for w, other in couplings]
    same = all(_same(coupling, other) for coupling, other in zip(shortest, others, strict=True))
    return [shortest] if same else [shortest, others]


def _same(coupling: ComponentCoupling, other: ComponentCoupling) -> bool:
    names = "sources", "targets", "weights"
    return all(np.array_equal(getattr(coupling, name), getattr(other, name)) for name in names)


def _stretched(strategy: str, pairs: Sequence[PriorPair], notion: Notion) -> Impossible:
    rows = pairs[0].p.n_axes > 1
    order = " with alpha=None" if notion.leaves_events_out else ""
    return Impossible(
        f"strategy={strategy!r} needs moves of bounded size, and no coupling couples components of "
        f"equal {'covariances' if rows else 'scales'} only, so that the tails of two Gaussians are "
        f"ever further apart; use noise='laplace' with strategy='exact'{order}.",
        len(pairs),
    )


# --------------------------------------------------------------------------------- what 003 prints


def _not_printed(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str | None:
    """Return why 003 has no formula for a combination, or None."""
    if pairs[0].p.n_axes > 1:
        return (
            "strategy='monge' is printed for one column; use dependence='independent' or "
            "strategy='exact'."
        )
    not_nats = isinstance(notion.divergence, PowerMean) or notion.epsilon == 0.0
    if not noise.is_exponential or not_nats:
        return (
            "strategy='monge' is printed for Laplace noise and (epsilon, delta), got "
            f"{type(noise).__name__} noise and {notion!r}; use strategy='exact'."
        )
    if notion.is_pure and not all(
        np.array_equal(p.weights, q.weights) and np.array_equal(p.scales, q.scales)
        for p, q in pairs
    ):
        return (
            "strategy='monge' has a pure epsilon only for priors with the same weights and scales "
            "(003, Remark 1 and Corollary 2); use delta=1e-05 or strategy='exact'."
        )
    return None


def _printed_scale(pair: PriorPair, notion: Notion) -> float:
    p, q = pair
    if notion.is_pure:  # Remark 1, Corollary 2: component by component
        return float((p.weights * np.abs(p.means - q.means)).sum()) / notion.epsilon
    tau = -float(ndtri_exp(np.log(notion.delta / 2.0)))
    coupling = shortest_coupling(p, q)
    moves = np.abs(coupling.shifts[:, 0]) + tau * coupling.stretches
    return float((coupling.weights * moves).sum()) / notion.epsilon
