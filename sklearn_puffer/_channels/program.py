r"""The linear program of a channel, solved whole by HiGHS.

With :math:`q_s(y) = \sum_x p_s(x) W(y|x)`, the law of what is released under secret s, each output
y keeps the budget of a family in one of two ways:

- epsilon alone, all pairs: one more variable m(y), with m <= q_s(y) <= e^epsilon m for every s;
- otherwise, for each ordered pair: q_s(y) - e^epsilon q_s'(y) <= v(y), where v = 0 under epsilon
  alone, and v >= 0 of sum at most delta under (epsilon, delta).

With a floor W(y|x) = b(y) + f(x, y) and 0 <= f <= (e^floor - 1) b, one b(y) for each place. Rows of
an output are divided by its mass, so that outputs of very different mass look alike.

What a channel is asked for: laws that must not be told apart, costs of changes, a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import exp, isqrt
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray, solved


class CostFunction(Protocol):
    """What it costs to release a cell in place of another: never negative, 0 for itself."""

    def between(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for all of both, shape (len(xs), len(ys))."""

    def along(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for each x and the y beside it, shape (len(xs),)."""


@dataclass(frozen=True, eq=False)
class Family:
    """Laws that must not be told apart: one sensitive column, one adversary, one known value.

    Attributes
    ----------
    masses : ndarray of int64 or of Python's int of shape (k, m)
        Law s is masses[s] / masses[s].sum(): counts, or posteriors in units of 2^-32.
    cells : ndarray of intp of shape (m,) or None
        The cells they are over, ascending; None for all.
    pairs : ndarray of intp of shape (n_pairs, 2) or None
        The protected pairs, without order; None for all of them.
    """

    masses: IntArray
    cells: Array | None = None
    pairs: Array | None = None

    @cached_property
    def laws(self) -> FloatArray:
        """The laws p_s, shape (k, m)."""
        laws: FloatArray = (self.masses / self.masses.sum(axis=1, keepdims=True)).astype(float)
        return laws

    @cached_property
    def ordered_pairs(self) -> Array:
        """The protected pairs in both orders, shape (2 n_pairs, 2)."""
        if self.pairs is None:
            every = list(permutations(range(len(self.masses)), 2))
            return np.array(every, dtype=np.intp).reshape(-1, 2)
        pairs = np.asarray(self.pairs, dtype=np.intp)
        return np.concatenate([pairs, pairs[:, ::-1]])

    def over(self, n_cells: int) -> FloatArray:
        """Return the laws over all cells, shape (k, n_cells)."""
        if self.cells is None:
            return self.laws
        everywhere = np.zeros((len(self.masses), n_cells))
        everywhere[:, self.cells] = self.laws
        return everywhere


@dataclass(frozen=True, eq=False)
class Costs:
    """The sum over columns of what changes there, each in its unit of change.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        The cells: numbers, and codes of unordered columns.
    unordered : ndarray of bool of shape (d,)
        Columns where every change costs the same.
    units : ndarray of shape (d,)
        The units of change w: a number costs abs(x - y) / w, an unordered one that changes 1 / w.

    Examples
    --------
    >>> costs = Costs(np.array([[0.0, 1.0], [3.0, 2.0]]), np.array([False, True]), np.ones(2))
    >>> costs.along([0], [1])
    array([4.])
    """

    values: FloatArray
    unordered: BoolArray
    units: FloatArray

    def between(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for all of both, shape (len(xs), len(ys))."""
        return self._summed(self.values[xs][:, None], self.values[ys][None])

    def along(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for each x and the y beside it, shape (len(xs),)."""
        return self._summed(self.values[xs], self.values[ys])

    def _summed(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Column by column: no array with an axis of columns besides."""
        total = np.zeros(np.broadcast_shapes(one.shape, other.shape)[:-1])
        for column, (unordered, unit) in enumerate(zip(self.unordered, self.units, strict=True)):
            a, b = one[..., column], other[..., column]
            total += (a != b) / unit if unordered else np.abs(a - b) / unit
        return total


@dataclass(frozen=True, eq=False)
class ChannelProblem:
    """Find W(y|x) of least expected cost for which every protected pair keeps the budget.

    Attributes
    ----------
    families : sequence of Family
        The promise holds within each.
    weights : ndarray of shape (n,)
        The law pi of the cells over which the cost is averaged; it sums to 1.
    costs : CostFunction
        Cost of a change.
    epsilon, delta : float
        The budget.
    floor : float or None
        The most that a release may tell to anyone: W(y|x) <= e^floor W(y|x') within a place.
    places : ndarray of intp of shape (n,) or None
        Cells move within their place only; None for anywhere.
    """

    families: Sequence[Family]
    weights: FloatArray
    costs: CostFunction
    epsilon: float
    delta: float = 0.0
    floor: float | None = None
    places: Array | None = None

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self.weights)


Sparse = Any  # scipy's sparse arrays, of any format

_MOST_CELLS, _MOST_WITH_FLOOR = 256, 100
_MOST_ENTRIES = 1 << 19  # cells squared times rows that hold the budget of an output
_INSIDE = 1e-6  # of e^epsilon - 1, of delta and of e^floor - 1 are kept from the solver
_LARGEST = 1e6  # of e^epsilon: beyond, tolerances are all that counts, and hardly a row moves


def most_cells(n_rows: int, *, floor: bool) -> int:
    """Return for how many cells a program is solved in some ten seconds, as measured.

    Parameters
    ----------
    n_rows : int
        The rows that hold the budget of an output: laws, or ordered pairs where they are more.
    floor : bool
        Whether there is a floor.

    Examples
    --------
    >>> most_cells(2, floor=False), most_cells(40, floor=False), most_cells(2, floor=True)
    (256, 114, 100)
    """
    most = _MOST_WITH_FLOOR if floor else _MOST_CELLS
    return min(most, isqrt(_MOST_ENTRIES // max(n_rows, 1)))


def find_channel(problem: ChannelProblem) -> FloatArray:
    """Return W(y|x) of least cost within the budget, shape (n, n), as the solver has it.

    It is to be made whole before anything is drawn from it: `whole_rows` believes nothing of it.
    Where the solver comes back with nothing, every cell stays as it is.
    """
    if problem.n_cells == 1:
        return np.eye(1)
    program = _Program(problem)
    found = solved(
        program.objective,
        most=(program.matrix, program.sides),
        equal=(program.sums, np.ones(problem.n_cells)),
    )
    if found is None:
        return np.eye(problem.n_cells)
    matrix: FloatArray = np.zeros((problem.n_cells, problem.n_cells))
    matrix[program.moves] = program.shares @ found.x
    return matrix


@dataclass(frozen=True, eq=False)
class _Program:
    """Variables: the moves within places, or f and b of them; then each family's own."""

    problem: ChannelProblem

    @cached_property
    def moves(self) -> tuple[Array, Array]:
        """From where to where cells may move."""
        n, places = self.problem.n_cells, self.problem.places
        near = np.ones((n, n), dtype=bool) if places is None else places[:, None] == places
        xs, ys = near.nonzero()
        return xs, ys

    @cached_property
    def _bases(self) -> Sparse:
        """Which b(y) each move has, shape (n_moves, n): none without a floor."""
        xs, ys = self.moves
        n_bases = 0 if self.problem.floor is None else self.problem.n_cells
        every = np.arange(len(xs)) if n_bases else np.empty(0, dtype=np.intp)
        where = (every, ys[every])
        return sparse.csr_array((np.ones(len(every)), where), shape=(len(xs), n_bases))

    @cached_property
    def _of_moves(self) -> Sparse:
        """W of each move from its variables: f + b."""
        return sparse.hstack([sparse.eye_array(len(self.moves[0])), self._bases], format="csr")

    @cached_property
    def shares(self) -> Sparse:
        """W of each move from all variables."""
        n_own = self.matrix.shape[1] - self._of_moves.shape[1]
        nothing = sparse.csr_array((len(self.moves[0]), n_own))
        return sparse.hstack([self._of_moves, nothing], format="csr")

    @cached_property
    def objective(self) -> FloatArray:
        """What each variable costs, in units of the largest cost of a move."""
        xs, ys = self.moves
        costs = self.problem.weights[xs] * self.problem.costs.along(xs, ys)
        return np.asarray(self.shares.T @ (costs / (costs.max() or 1.0)), dtype=np.float64)

    @cached_property
    def sums(self) -> Sparse:
        """The rows that sum to 1."""
        xs, _ = self.moves
        where = (xs, np.arange(len(xs)))
        return sparse.csr_array((np.ones(len(xs)), where)) @ self.shares

    @cached_property
    def matrix(self) -> Sparse:
        """The rows of the budget, and of the floor, over all variables."""
        parts = [self._budget(family) for family in self.problem.families]
        moves = sparse.vstack([of_moves for of_moves, _ in parts]) @ self._of_moves
        rows = [sparse.hstack([moves, sparse.block_diag([own for _, own in parts])])]
        if self.problem.floor is not None:
            gain = (1.0 - _INSIDE) * (exp(min(self.problem.floor, 14.0)) - 1.0)
            n_moves = len(self.moves[0])
            nothing = sparse.csr_array((n_moves, rows[0].shape[1] - self._of_moves.shape[1]))
            rows.append(sparse.hstack([sparse.eye_array(n_moves), -gain * self._bases, nothing]))
        return sparse.csr_array(sparse.vstack(rows))

    @cached_property
    def sides(self) -> FloatArray:
        """The right-hand sides: delta in the rows of sums, 0 elsewhere."""
        delta = (1.0 - _INSIDE) * self.problem.delta
        sides = []
        for family in self.problem.families:
            n_pairs, n_outputs = len(family.ordered_pairs), len(self._outputs(family))
            if self._is_pure(family):
                sides.append(np.zeros(2 * len(family.masses) * n_outputs))
            else:
                sides.append(np.zeros(n_pairs * n_outputs))
                sides.append(np.full(n_pairs if delta else 0, delta))
        found: FloatArray = np.zeros(self.matrix.shape[0])
        held = np.concatenate(sides)
        found[: len(held)] = held
        return found

    def _is_pure(self, family: Family) -> bool:
        """Whether all pairs are held by epsilon alone, so that one variable lies between."""
        k = len(family.masses)
        return self.problem.delta == 0.0 and len(family.ordered_pairs) == k * (k - 1)

    def _outputs(self, family: Family) -> Array:
        """Return the outputs that the family may see: those in the places of its cells."""
        places = self.problem.places
        if family.cells is None or places is None:
            return np.arange(self.problem.n_cells)
        return np.flatnonzero(np.isin(places, places[family.cells]))

    def _budget(self, family: Family) -> tuple[Sparse, Sparse]:
        """Return the rows of a family over moves, and over its own variables."""
        growth = 1.0 + (min(exp(min(self.problem.epsilon, 700.0)), _LARGEST) - 1.0) * (1 - _INSIDE)
        released, k = self._released(family), len(family.masses)
        n_outputs = len(self._outputs(family))
        if self._is_pure(family):
            middle = sparse.vstack([sparse.eye_array(n_outputs)] * k)
            return _below(released, -released), _below(-growth * middle, middle)
        pairs = family.ordered_pairs
        signs = np.eye(k)[pairs[:, 0]] - growth * np.eye(k)[pairs[:, 1]]
        differences = sparse.kron(signs, sparse.eye_array(n_outputs)) @ released
        if self.problem.delta == 0.0:
            return differences, sparse.csr_array((differences.shape[0], 0))
        sums = sparse.kron(sparse.eye_array(len(pairs)), self._masses(family)[None])
        nothing = sparse.csr_array((len(pairs), released.shape[1]))
        return _below(differences, nothing), _below(-sparse.eye_array(differences.shape[0]), sums)

    def _masses(self, family: Family) -> FloatArray:
        """Return what the rows of each output are divided by."""
        masses = family.over(self.problem.n_cells).mean(axis=0) + self.problem.weights
        return np.where(masses > 0.0, masses, 1.0)[self._outputs(family)]

    def _released(self, family: Family) -> Sparse:
        """Return q_s(y) over moves, divided by the mass of y: s-major, the family's outputs."""
        xs, ys = self.moves
        outputs, laws = self._outputs(family), family.over(self.problem.n_cells)
        place = np.full(self.problem.n_cells, -1)
        place[outputs] = np.arange(len(outputs))
        every = np.flatnonzero(place[ys] >= 0)
        masses, shape = self._masses(family), (len(outputs), len(xs))
        at = place[ys[every]]
        rows = [
            sparse.csr_array((law[xs[every]] / masses[at], (at, every)), shape=shape)
            for law in laws
        ]
        return sparse.csr_array(sparse.vstack(rows))


def _below(upper: Sparse, lower: Sparse) -> Sparse:
    return sparse.csr_array(sparse.vstack([upper, lower]))
