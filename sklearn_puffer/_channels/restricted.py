"""The linear program over a given list of moves: HiGHS, through scipy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.optimize import OptimizeResult

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels.budget_rows import BudgetRows, Multipliers, Sparse, budget_rows
from sklearn_puffer._channels.highs import solved
from sklearn_puffer._channels.problem import ChannelProblem


@dataclass(frozen=True, eq=False)
class Solved:
    """What the solver found over the moves it was given.

    Attributes
    ----------
    flows : ndarray of shape (n_moves,)
        W(y|x) of each move; not negative.
    multipliers : list of Multipliers
        Of each family's rows, for `dual`.
    row_prices : ndarray of shape (n,)
        Multipliers of the rows that sum to 1; 0 for cells that were not in the program.
    cost : float
        The expected cost of the flows.
    excess : float
        How much of a violation was paid for, where `caps` were given.
    """

    flows: FloatArray
    multipliers: list[Multipliers]
    row_prices: FloatArray
    cost: float
    excess: float = 0.0


def solve_moves(
    problem: ChannelProblem,
    xs: Array,
    ys: Array,
    *,
    held: Sequence[FloatArray] | None = None,
    allowed: Sequence[FloatArray] | None = None,
    caps: Sequence[FloatArray] | None = None,
    interior: bool = False,
    time_limit: float | None = None,
) -> Solved | None:
    """Find the cheapest flows over the given moves x to y that keep the budget.

    The cells of xs give all they have, W(y|x) of sum 1; cells that are not among xs are none of
    this program, and neither are outputs that are not among ys.

    Parameters
    ----------
    problem : ChannelProblem
        The whole problem.
    xs, ys : ndarray of intp of shape (n_moves,)
        The moves, each once; of a cell that stays as well.
    held : sequence of ndarray of shape (k, n), optional
        For each family, what cells that are not among xs give to q_s(y): so that some cells can be
        solved again while all others keep their rows.
    allowed : sequence of ndarray of shape (n_ordered_pairs,), optional
        For each family, the sum of the excesses over ys that each of `Family.ordered_pairs` may
        have; delta by default.
    caps : sequence of ndarray, optional
        For each family, the largest multiplier of a row, something that broadcasts to (r, n): a
        violation may be bought at that price. None for no violations.
    interior : bool, optional
        Whether to use an interior point without crossover: no vertex, but prices from the middle
        of their optimal face. Else the dual simplex method.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Solved or None
        None where the solver came back with nothing: no channel over these moves, no time left.
    """
    program = _Program(problem, np.asarray(xs), np.asarray(ys), held, allowed, caps)
    result = solved(
        program.objective,
        most=(program.matrix, program.sides),
        equal=(program.sums, np.ones(len(program.cells[0]))),
        interior=interior,
        time_limit=time_limit,
    )
    return None if result is None else program.read(result)


@dataclass(frozen=True, eq=False)
class _Program:
    """Variables: moves; for each family its own, and the violations."""

    problem: ChannelProblem
    xs: Array
    ys: Array
    held: Sequence[FloatArray] | None
    allowed: Sequence[FloatArray] | None
    caps: Sequence[FloatArray] | None

    @cached_property
    def cells(self) -> tuple[Array, Array]:
        """The cells of xs, ascending, and where each move's is among them."""
        return np.unique(self.xs, return_inverse=True)

    @cached_property
    def outputs(self) -> tuple[Array, Array]:
        """The outputs, ascending, and where each move's is among them."""
        return np.unique(self.ys, return_inverse=True)

    @cached_property
    def weights(self) -> FloatArray:
        """What the rows of an output are divided by: its mass, the mean of pi and the laws."""
        outputs = self.outputs[0]
        masses = self.problem.weights[outputs].copy()
        for laws in self.laws:
            masses += laws[:, outputs].mean(axis=0)
        return np.where(masses > 0.0, masses, 1.0)

    @cached_property
    def laws(self) -> list[FloatArray]:
        """The laws of each family over all cells."""
        return [family.over(self.problem.n_cells) for family in self.problem.families]

    @cached_property
    def rows(self) -> list[BudgetRows]:
        """How each family is held."""
        return [budget_rows(self.problem, family) for family in self.problem.families]

    @cached_property
    def costs(self) -> FloatArray:
        """The cost of each move, times the weight of its cell."""
        along = self.problem.costs.along(self.xs, self.ys)
        return np.asarray(self.problem.weights[self.xs] * along, dtype=np.float64)

    @cached_property
    def unit(self) -> float:
        """What costs are divided by, so that tolerances mean the same everywhere."""
        largest = float(self.costs.max(initial=0.0))
        return largest if largest > 0.0 else 1.0

    @cached_property
    def matrix(self) -> Sparse:
        """The rows of the budget over all variables: moves, each family's own, violations."""
        every = [
            rows.matrices(self._released(laws), self.weights)
            for rows, laws in zip(self.rows, self.laws, strict=True)
        ]
        moves = sparse.vstack([moves for moves, _ in every])
        violations = [
            self._violations(own.shape[0], rows)
            for (_, own), rows in zip(every, self.rows, strict=True)
        ]
        own = sparse.block_diag([own for _, own in every])
        return sparse.csr_array(sparse.hstack([moves, own, sparse.block_diag(violations)]))

    def _violations(self, height: int, rows: BudgetRows) -> Sparse:
        """Return -1 for every row of an output, where violations may be bought."""
        if self.caps is None:
            return sparse.csr_array((height, 0))
        return -sparse.eye_array(height, rows.n_rows * len(self.weights))

    @cached_property
    def objective(self) -> FloatArray:
        """What each variable costs, in units of `unit`."""
        objective = np.zeros(self.matrix.shape[1])
        objective[: len(self.xs)] = self.costs
        if self.caps is not None:
            prices = np.concatenate(
                [self._cap(*each) for each in zip(self.caps, self.rows, strict=True)]
            )
            objective[len(objective) - len(prices) :] = prices
        return objective / self.unit

    def _cap(self, cap: FloatArray, rows: BudgetRows) -> FloatArray:
        """Return what a violation costs, in rows divided by weights."""
        n_cells, outputs = self.problem.n_cells, self.outputs[0]
        each = np.broadcast_to(cap, (rows.n_rows, n_cells))[:, outputs]
        return np.asarray(each * self.weights).ravel()

    @cached_property
    def sides(self) -> FloatArray:
        """The right-hand sides of the rows of the budget."""
        return np.concatenate([self._side(i) for i in range(len(self.rows))])

    def _side(self, i: int) -> FloatArray:
        k, outputs = len(self.laws[i]), self.outputs[0]
        held = np.zeros((k, len(outputs))) if self.held is None else self.held[i][:, outputs]
        n_pairs = len(self.problem.families[i].ordered_pairs)
        allowed = np.full(n_pairs, self.problem.delta) if self.allowed is None else self.allowed[i]
        return self.rows[i].sides(held, allowed, self.weights)

    @cached_property
    def sums(self) -> Sparse:
        """The rows that sum to 1."""
        cells, of_cells = self.cells
        shape = (len(cells), self.matrix.shape[1])
        every = np.arange(len(self.xs))
        return sparse.csr_array((np.ones(len(every)), (of_cells, every)), shape=shape)

    def _released(self, laws: FloatArray) -> Sparse:
        """Return the rows of q_s(y) over moves, divided by weights, s-major."""
        _, of_outputs = self.outputs
        m, n_moves = len(self.weights), len(self.xs)
        rows = (np.arange(len(laws))[:, None] * m + of_outputs).ravel()
        columns = np.tile(np.arange(n_moves), len(laws))
        values = (laws[:, self.xs] / self.weights[of_outputs]).ravel()
        return sparse.csr_array((values, (rows, columns)), shape=(len(laws) * m, n_moves))

    def read(self, result: OptimizeResult) -> Solved:
        """Return what the solver came back with, in the units of the problem."""
        flows = np.maximum(result.x[: len(self.xs)], 0.0)
        excess = 0.0 if self.caps is None else float(result.fun * self.unit - self.costs @ flows)
        row_prices = np.zeros(self.problem.n_cells)
        row_prices[self.cells[0]] = result.eqlin.marginals * self.unit
        multipliers = self._multipliers(-result.ineqlin.marginals * self.unit)
        return Solved(flows, multipliers, row_prices, float(self.costs @ flows), excess)

    def _multipliers(self, values: FloatArray) -> list[Multipliers]:
        """Return the multipliers of each family's rows, as if these had not been divided."""
        found, first, outputs = [], 0, self.outputs[0]
        for i, rows in enumerate(self.rows):
            middle, last = first + rows.n_rows * len(outputs), first + len(self._side(i))
            of_rows = np.zeros((rows.n_rows, self.problem.n_cells))
            own = values[first:middle].reshape(rows.n_rows, len(outputs))
            of_rows[:, outputs] = own / self.weights
            found.append(Multipliers(of_rows, values[middle:last] / self.weights.mean()))
            first = last
        return found
