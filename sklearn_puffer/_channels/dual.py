r"""What every channel costs at least, from any multipliers, and which moves they call for.

Let theta_s(y) be the prices of `budget_rows`, r(x, y) = pi(x) c(x, y) + sum_s theta_s(y) p_s(x),
and W any channel within the budget. Multipliers are not negative, and the prices are made such that
sum_s theta_s(y) q_s(y), summed over y, is at most what is allowed:

- m <= q_s <= e m for all s, and prices a - b with e sum a <= sum b: sum_s (a_s - b_s) q_s <=
  (e sum a - sum b) m <= 0.
- q_s - e q_s' <= v, of sum at most delta, and 0 <= g(y) <= d: the sum over y of g (q_s - e q_s') is
  at most d delta. Without delta there is no v and no d.

So cost(W) >= sum_xy r(x, y) W(y|x) - allowed >= sum_x min_y r(x, y) - allowed, as rows of W sum
to 1; under `places` the minimum is over the place of x. A floor only takes channels away.

Rounding: a sum of j terms is off by less than j units of rounding of the sum of their sizes, and
the sizes are largest with the largest prices; that is taken off, row by row, before the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_puffer._base import ULP, Array, FloatArray
from sklearn_puffer._channels.budget_rows import Multipliers, Prices, budget_rows
from sklearn_puffer._channels.problem import ChannelProblem

CHUNK = 2**21
"""How many moves are priced at once."""


@dataclass(frozen=True, eq=False)
class Pricing:
    """A problem, with multipliers for each of its families."""

    problem: ChannelProblem
    multipliers: Sequence[Multipliers]

    @cached_property
    def prices(self) -> list[Prices]:
        """The prices of each family."""
        every = zip(self.problem.families, self.multipliers, strict=True)
        return [budget_rows(self.problem, family).prices(own) for family, own in every]

    @cached_property
    def laws(self) -> FloatArray:
        """The laws of all families, one below the other, shape (sum of k, n)."""
        n_cells = self.problem.n_cells
        return np.concatenate([family.over(n_cells) for family in self.problem.families])

    @cached_property
    def values(self) -> FloatArray:
        """The prices of all families, one below the other, shape (sum of k, n)."""
        return np.concatenate([prices.values for prices in self.prices])

    @cached_property
    def bound(self) -> float:
        """What every channel onto these cells costs at least; -inf where it cannot be told."""
        return self.scan(0)[0]

    def along(self, xs: Array, ys: Array) -> FloatArray:
        """Return r(x, y) of given moves."""
        costs = self.problem.weights[xs] * self.problem.costs.along(xs, ys)
        return np.asarray(costs + np.einsum("sm,sm->m", self.values[:, ys], self.laws[:, xs]))

    def scan(self, most: int) -> tuple[float, FloatArray, Array, Array]:
        """Return bound, min over y of r(x, y), and the best moves: `most` a cell and an output."""
        least, worst = np.empty(self.problem.n_cells), 0.0
        best = _Best(most, self.problem.n_cells)
        for cells, reduced, costs in self._chunks():
            least[cells] = reduced.min(axis=1)
            worst += self._rounding(cells, costs)
            if most:
                best.add(cells, (reduced - least[cells, None]) / self.cell_weights[cells, None])
        constant = sum(prices.constant * (1.0 + ULP) for prices in self.prices)
        bound = float(least.sum() + constant - worst - self._of_sums(least, constant))
        return bound if np.isfinite(bound) else -np.inf, least, *best.moves()

    @cached_property
    def cell_weights(self) -> FloatArray:
        """The mass of a cell, by which reduced costs are divided to compare them."""
        masses = self.problem.weights + self.laws.mean(axis=0)
        return np.where(masses > 0.0, masses, 1.0)

    def _chunks(self) -> Iterator[tuple[Array, FloatArray, FloatArray]]:
        """Yield cells, r(x, y) over all y, and the largest cost of each cell."""
        n, everywhere = self.problem.n_cells, np.arange(self.problem.n_cells)
        for cells in np.array_split(everywhere, -(-n * n // CHUNK)):
            reduced = self.problem.weights[cells, None] * self.problem.costs.between(
                cells, everywhere
            )
            costs = reduced.max(axis=1)
            reduced += self.laws[:, cells].T @ self.values
            if self.problem.places is not None:
                away = self.problem.places[cells, None] != self.problem.places
                reduced[away] = np.inf
            yield cells, reduced, costs

    def _rounding(self, cells: Array, costs: FloatArray) -> float:
        """Return a bound on what rounding adds to the sum of min r(x, y) over these cells."""
        sizes = np.concatenate([prices.magnitudes for prices in self.prices]).max(axis=1)
        off = (2 * len(self.laws) + 16) * ULP
        return float(off * (costs + sizes @ self.laws[:, cells]).sum())

    def _of_sums(self, least: FloatArray, constant: float) -> float:
        """Return a bound on the rounding of the last sum."""
        return float((len(least) + 8) * ULP * (np.abs(least).sum() + abs(constant)))


class _Best:
    """The best moves of each cell, and of each output, over chunks of cells."""

    def __init__(self, most: int, n: int) -> None:
        self.most, self.n = min(most, n), n
        self.values, self.cells = np.empty((0, n)), np.empty((0, n), dtype=np.intp)
        self.found: list[Array] = []

    def add(self, cells: Array, reduced: FloatArray) -> None:
        """Take the rows of a chunk."""
        near = np.argpartition(reduced, self.most - 1, axis=1)[:, : self.most]
        finite = np.isfinite(np.take_along_axis(reduced, near, axis=1))
        self.found.append((cells[:, None] * self.n + near)[finite])
        values = np.concatenate([self.values, reduced])
        own = np.broadcast_to(cells[:, None], reduced.shape)
        named = np.concatenate([self.cells, own])
        kept = np.argpartition(values, min(self.most, len(values)) - 1, axis=0)[: self.most]
        self.values = np.take_along_axis(values, kept, axis=0)
        self.cells = np.take_along_axis(named, kept, axis=0)

    def moves(self) -> tuple[Array, Array]:
        """Return x and y of the moves, each once."""
        of_outputs = (self.cells * self.n + np.arange(self.n))[np.isfinite(self.values)]
        keys = np.unique(np.concatenate([of_outputs, *self.found]))
        return np.divmod(keys, self.n)


def lower_bound(problem: ChannelProblem, multipliers: Sequence[Multipliers]) -> float:
    """Return what every channel onto these cells costs at least, rounded down.

    Parameters
    ----------
    problem : ChannelProblem
        The problem.
    multipliers : sequence of Multipliers
        One a family; any are sound, those of a solver are sharp.

    Returns
    -------
    float
        At least 0, which every cost is.
    """
    return max(Pricing(problem, multipliers).bound, 0.0)
