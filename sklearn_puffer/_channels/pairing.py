r"""Two laws: a generalised matching of cells with excess to cells with slack.

Under epsilon alone a column w of W must have a . w <= 0 for the excess a(x) = p_0(x) - e p_1(x),
and likewise with the laws exchanged. Extreme rays of that cone are single cells without excess, and
pairs: a cell x with excess a(x) > 0, and one with slack x', in the proportion that brings a . w
to 0. Where the cost is a metric, such a pair is best released as the one of the two that moves less
mass: c(x, y) + c(x', y) >= c(x, x'). With z the share of x that is paired with x', of which x'
gives u = a(x) / -a(x') times as much,

    minimise sum z min(pi(x), u pi(x')) c(x, x'), such that every cell gives all it has;

a cell without excess also gives to itself, for nothing. n rows, two entries a column.

The bound: for any l with l(x) <= 0 where x has no excess, and g(x, x') the cost of a pair less
l(x) + u l(x'), the optimum is at least sum l + sum over excess cells of min(0, min over x' of g):
the shares of what pairs with x, in one direction, sum to at most 1. Rounding is taken off pair by
pair: a(x) is off by some units of rounding of p_0 + e p_1, which may be much of a small a(x).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sklearn_puffer._base import ULP, Array, FloatArray, counted, noted
from sklearn_puffer._channels.dual import CHUNK
from sklearn_puffer._channels.highs import Clock, solved
from sklearn_puffer._channels.problem import ChannelProblem, Costs

MATES = 6
"""Mates of each cell, and cells of each mate, in each round."""

ROUNDS = 30

_UNPAIRED = 1e-9
"""So much mass left unpaired is rounding."""

_START = 0.3
"""The price to begin with of a cell's way out, in what it costs to release one cell for all."""


class Side(NamedTuple):
    """Cells with excess, cells with slack, the excess of all, and its relative rounding."""

    cells: Array
    mates: Array
    excess: FloatArray
    rounding: FloatArray


class Pairs(NamedTuple):
    """A direction, a cell, its mate, and how much the mate gives for each share of the cell."""

    side: Array
    xs: Array
    mates: Array
    use: FloatArray


class Matched(NamedTuple):
    """Shares of pairs, prices of cells, cost, and what was left unpaired at a price."""

    shares: FloatArray
    prices: FloatArray
    cost: float
    unpaired: float


def is_matching(problem: ChannelProblem) -> bool:
    """Whether the problem is one of two laws, under epsilon alone, and a metric."""
    if len(problem.families) != 1 or len(problem.families[0].masses) != 2:
        return False
    plain = problem.delta == 0.0 and problem.floor is None and problem.places is None
    return plain and isinstance(problem.costs, Costs)


def matched_flows(
    problem: ChannelProblem, gap: float, clock: Clock, dear: float
) -> tuple[Array, Array, FloatArray, float] | None:
    """Return moves, their shares, and a lower bound; ``dear`` is what a constant channel costs.

    None where the time was over before every cell was paired.
    """
    return _Matching(problem, dear).best(gap, clock)


@dataclass(frozen=True, eq=False)
class _Matching:
    problem: ChannelProblem
    dear: float

    @cached_property
    def masses(self) -> FloatArray:
        """What a cell is in the program: the mean of its weight and of the mean of the laws."""
        laws = self.problem.families[0].over(self.problem.n_cells)
        masses: FloatArray = (self.problem.weights + laws.mean(axis=0)) / 2.0
        return np.where(masses > 0.0, masses, float(masses.mean()))

    @cached_property
    def sides(self) -> list[Side]:
        """Both directions; who has excess in one has slack in the other."""
        laws = self.problem.families[0].over(self.problem.n_cells)
        return [self._side(laws, laws[::-1]), self._side(laws[::-1], laws)]

    def _side(self, laws: FloatArray, others: FloatArray) -> Side:
        growth = np.exp(self.problem.epsilon)
        a, size = laws[0] - growth * others[0], laws[0] + growth * others[0]
        rounding = 16 * ULP * np.divide(size, abs(a), out=np.ones_like(a), where=a != 0.0)
        return Side(np.flatnonzero(a > 0.0), np.flatnonzero(a < 0.0), a, rounding)

    @cached_property
    def excess(self) -> Array:
        """Whether each cell has excess, and must be paired."""
        return np.asarray((self.sides[0].excess > 0.0) | (self.sides[1].excess > 0.0))

    def best(self, gap: float, clock: Clock) -> tuple[Array, Array, FloatArray, float] | None:
        """Add pairs by reduced cost until the gap is closed, or the time is over."""
        pi, best = self.masses, None
        prices = np.where(self.excess, _START, -_START / 5.0) * self.dear * pi
        bound, pairs = self.scan(prices, MATES, np.inf)
        bound = 0.0
        caps = np.full(self.problem.n_cells, 4.0 * self.dear)
        for _ in counted(iter(range(ROUNDS)), "rounds of a channel for all rows"):
            found = self.solve(pairs, caps, clock.left)
            if found is None:
                break
            least, more = self.scan(found.prices, MATES, 0.0)
            bound = max(bound, least)
            if 0.0 < bound <= found.cost:
                noted(f"gap so far {(found.cost - bound) / found.cost:.2%}")
            if found.unpaired <= _UNPAIRED:
                best = (pairs, found)
                if found.cost - bound <= gap * found.cost:
                    break
            if clock.is_over:
                break
            caps = np.where(found.prices > 0.99 * caps * pi, 3.0 * caps, caps)
            pairs = self.union(pairs, more)
        return None if best is None else (*self.flows(*best), bound)

    def pairs(self, side: Array, xs: Array, mates: Array) -> Pairs:
        """Return pairs with how much of the mate they use."""
        excess = np.stack([side.excess for side in self.sides])
        return Pairs(side, xs, mates, excess[side, xs] / -excess[side, mates])

    def union(self, one: Pairs, other: Pairs) -> Pairs:
        """Return the pairs of both, each once."""
        n = self.problem.n_cells
        keys = [(pairs.side * n + pairs.xs) * n + pairs.mates for pairs in (one, other)]
        rest, mates = np.divmod(np.unique(np.concatenate(keys)), n)
        return self.pairs(*np.divmod(rest, n), mates)

    def costs(self, pairs: Pairs) -> FloatArray:
        """Return the cost of each pair: of the two the one that moves less mass."""
        pi = self.problem.weights
        mass = np.minimum(pi[pairs.xs], pairs.use * pi[pairs.mates])
        return np.asarray(mass * self.problem.costs.along(pairs.xs, pairs.mates))

    def solve(self, pairs: Pairs, caps: FloatArray, time_limit: float | None) -> Matched | None:
        """Solve the matching over some pairs; a cell may stay unpaired, for its cap."""
        n, m, pi = self.problem.n_cells, len(pairs.xs), self.masses
        cells, mates = pi[pairs.xs], pairs.use * pi[pairs.mates]  # masses, not shares: prices of
        scale = np.maximum(cells, mates)  # cells with next to no mass are as good as others then
        everywhere, every = np.arange(n), np.arange(m)
        rows = np.r_[pairs.xs, pairs.mates, everywhere]
        columns = np.r_[every, every, m + everywhere]
        values = np.r_[cells / scale, mates / scale, np.ones(n)]
        matrix = sparse.csr_array((values, (rows, columns)), shape=(n, m + n))
        objective = np.r_[self.costs(pairs) / scale, np.where(self.excess, caps, 0.0)]
        side = pi / pi.mean()
        result = solved(objective / self.dear, equal=(matrix, side), time_limit=time_limit)
        if result is None:
            return None
        prices = result.eqlin.marginals * self.dear * pi
        left = float(result.x[m:][self.excess].sum() / n)
        shares = np.maximum(result.x[:m], 0.0) / scale * pi.mean()
        return Matched(shares, prices, float(result.fun * self.dear * pi.mean()), left)

    def scan(self, prices: FloatArray, most: int, limit: float) -> tuple[float, Pairs]:
        """Return the lower bound of any prices, and the best pairs of reduced cost below limit."""
        prices = np.where(self.excess, prices, np.minimum(prices, 0.0))
        lost, found, least = 0.0, [], 1e-9 * float(self.masses.mean())
        for number, side in enumerate(self.sides):
            best = _BestMates(side, most, limit)
            for cells, reduced, mass, off in self._chunks(side, prices):
                lowest = (reduced - off).min(axis=1, initial=0.0)
                lost += float(lowest.sum()) * (1.0 + self.problem.n_cells * ULP)
                best.add(cells, np.divide(reduced, mass + least, out=reduced))
            xs, mates = best.pairs()
            found.append((np.full(len(xs), number), xs, mates))
        rounding = (self.problem.n_cells + 8) * ULP * float(np.abs(prices).sum())
        every = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        return float(prices.sum()) - rounding + lost, self.pairs(every[0], every[1], every[2])

    def _chunks(
        self, side: Side, prices: FloatArray
    ) -> Iterator[tuple[Array, FloatArray, FloatArray, FloatArray]]:
        """Yield cells, reduced costs of their pairs, the mass these move, and the rounding."""
        pi, mates = self.problem.weights, side.mates
        if not side.cells.size or not mates.size:
            return
        for cells in np.array_split(side.cells, -(-len(side.cells) * len(mates) // CHUNK)):
            use = side.excess[cells][:, None] / -side.excess[mates]
            mass = np.minimum(pi[cells][:, None], use * pi[mates])
            costs = mass * self.problem.costs.between(cells, mates)
            use *= prices[mates]
            off = side.rounding[cells][:, None] + side.rounding[mates]
            off *= costs + np.abs(use) + abs(prices[cells])[:, None]
            yield cells, costs - use - prices[cells][:, None], mass, off

    def flows(self, pairs: Pairs, found: Matched) -> tuple[Array, Array, FloatArray]:
        """Return the moves: of each pair the one that moves less, and everyone else stays."""
        n, pi = self.problem.n_cells, self.problem.weights
        cell_moves = pi[pairs.xs] <= pairs.use * pi[pairs.mates]
        xs = np.where(cell_moves, pairs.xs, pairs.mates)
        ys = np.where(cell_moves, pairs.mates, pairs.xs)
        shares = np.where(cell_moves, 1.0, pairs.use) * found.shares
        moved = np.bincount(xs, shares, n)
        stays = np.arange(n)
        return np.r_[xs, stays], np.r_[ys, stays], np.r_[shares, np.maximum(1.0 - moved, 0.0)]


class _BestMates:
    """The best mates of each cell, and the best cells of each mate, over chunks of cells."""

    def __init__(self, side: Side, most: int, limit: float) -> None:
        self.mates, self.most, self.limit = side.mates, most, limit
        self.values = np.empty((0, len(side.mates)))
        self.cells = np.empty((0, len(side.mates)), dtype=np.intp)
        self.found: list[tuple[Array, Array]] = []

    def add(self, cells: Array, reduced: FloatArray) -> None:
        """Take the rows of a chunk."""
        near = np.argpartition(reduced, min(self.most, reduced.shape[1]) - 1, axis=1)[
            :, : self.most
        ]
        below = np.take_along_axis(reduced, near, axis=1) < self.limit
        own = np.broadcast_to(cells[:, None], near.shape)
        self.found.append((own[below], self.mates[near][below]))
        values = np.concatenate([self.values, reduced])
        names = np.concatenate([self.cells, np.broadcast_to(cells[:, None], reduced.shape)])
        kept = np.argpartition(values, min(self.most, len(values)) - 1, axis=0)[: self.most]
        self.values = np.take_along_axis(values, kept, axis=0)
        self.cells = np.take_along_axis(names, kept, axis=0)

    def pairs(self) -> tuple[Array, Array]:
        """Return cells and mates, some of them twice."""
        below = self.values < self.limit
        mates = np.broadcast_to(self.mates, self.values.shape)[below]
        every = [*self.found, (self.cells[below], mates)]
        return np.concatenate([x for x, _ in every]), np.concatenate([m for _, m in every])
