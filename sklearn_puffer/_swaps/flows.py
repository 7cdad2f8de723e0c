"""Mean flows of rows between cells: a linear program, and its solution in whole numbers.

The program has rows of a sparse matrix for margins, distributions and budget. Its solution is not
trusted: it is rounded to whole parts of a row, and the checker compares these with the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from sklearn_puffer._base import Array, FloatArray, HockeyStick, IntArray, Notion, solved
from sklearn_puffer._losses import SwapDistributions, swap_losses

ROW = 1 << 32
"""Flows are whole numbers of this part of a row."""

_SMALL = 30_000  # non-zeros, up to which the simplex method is quicker
_INSIDE = (1e-6, 1e-5, 1e-4, 1e-3)  # shares of the budget that the solver does not get
_MIXED = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.3)


@dataclass(frozen=True, eq=False)
class SwapProblem:
    r"""The limits of flows, and their costs.

    Attributes
    ----------
    sizes : ndarray of int64 of shape (n_cells,)
        :math:`N_a`: how many of the rows to be released lie in each cell, at least one.
    distributions : sequence of SwapDistributions
        One for each sensitive column and adversary.
    costs : ndarray of shape (n_cells, n_cells)
        The cost at which a row of cell a takes the place of one of cell b.
    weights : ndarray of shape (n_cells,)
        The weight of a row of each cell in the cost.
    notion : Notion
        Pure, or with a delta.
    """

    sizes: IntArray
    distributions: Sequence[SwapDistributions]
    costs: FloatArray
    weights: FloatArray
    notion: Notion


def mean_flows(problem: SwapProblem) -> IntArray:
    """Return the flows that cost least, in parts of 2^-32 of a row, shape (n_cells, n_cells).

    The solver is not trusted: the checker compares its solution, in whole numbers, with the budget.
    If that is exceeded, the solver gets less of it, and in the end its solution is mixed with the
    flows that tell nothing. In whole numbers these, too, may exceed a budget as small as their
    roundings; the caller looks at the loss.
    """
    stay = np.diag(problem.sizes * ROW)
    if keeps(stay, problem):
        return stay
    apart = np.outer(problem.sizes, problem.sizes / problem.sizes.sum())
    flows = None
    for inside in _INSIDE:
        flows = solved_flows(problem, inside)
        if flows is not None and keeps(whole := whole_flows(flows, problem.sizes), problem):
            return whole
    if flows is not None:
        for share in _MIXED:
            whole = whole_flows((1.0 - share) * flows + share * apart, problem.sizes)
            if keeps(whole, problem):
                return whole
    return whole_flows(apart, problem.sizes)


def keeps(flows: IntArray, problem: SwapProblem) -> bool:
    """Return whether flows are within the budget, according to the checker."""
    losses = [swap_losses(flows, problem.sizes, d, problem.notion) for d in problem.distributions]
    return all(bool((loss[..., 1] <= problem.notion.budget).all()) for loss in losses)


def whole_flows(flows: FloatArray, sizes: IntArray) -> IntArray:
    """Return flows in whole numbers whose rows and columns sum to the sizes, exactly.

    They are scaled down until no margin exceeds its size, and rounded down; the rest is filled in,
    cell after cell.

    >>> (whole_flows(np.array([[1.5, 0.5], [0.5, 0.49]]), np.array([2, 1])) / ROW).round(2).tolist()
    [[1.5, 0.5], [0.5, 0.5]]
    """
    flows = np.maximum(flows, 0.0)
    with np.errstate(divide="ignore"):
        flows = flows * np.minimum(sizes / flows.sum(axis=1), 1.0)[:, None]
        flows = flows * np.minimum(sizes / flows.sum(axis=0), 1.0)
    whole = np.floor(flows * (ROW * (1.0 - 2.0**-44))).astype(np.int64)
    lacking = sizes * ROW - whole.sum(axis=1), sizes * ROW - whole.sum(axis=0)
    ends = [np.cumsum(lacks) for lacks in lacking]
    cuts = np.union1d(*ends)
    amounts = np.diff(cuts, prepend=0)
    filled = amounts > 0
    sources, targets = (np.searchsorted(lacks, cuts[filled]) for lacks in ends)
    np.add.at(whole, (sources, targets), amounts[filled])
    return whole


def solved_flows(problem: SwapProblem, inside: float) -> FloatArray | None:
    r"""Return the solver's flows F of least cost, in rows; None where it finds none.

    .. math:: \sum_b F(a, b) = N_a, \qquad \sum_a F(a, b) = N_b

    and for each distribution :math:`g_s(b) = \sum_a F(a, b) q_s(a) / \sum_a N_a q_s(a)` within the
    budget, of which the solver gets all but the share ``inside``, for its own tolerance.
    """
    rows = _FlowProgram(len(problem.sizes), problem.sizes / problem.sizes.sum())
    for distributions in problem.distributions:
        lower, upper = rows.masses(distributions)
        rows.within(lower, upper, distributions.pairs, problem.notion, 1.0 - inside)
    return rows.solved(problem.costs * problem.weights[:, None], problem.sizes.sum())


class _FlowProgram:
    """A linear program: variables of 0 or more, and rows of equations and bounds.

    A variable of flow is a share of the most that can go from a to b, and the probability of a cell
    is divided by its share of the rows. So all are near 1, and a tolerance of the solver means as
    much in a cell of one row as in one of a million.
    """

    def __init__(self, n: int, shares: FloatArray) -> None:
        self.n, self.shares, self.width = n, shares, n * n
        self.flow = np.arange(n * n).reshape(n, n)
        self.most_flow = np.minimum.outer(shares, shares)
        self.equal, self.most = _Matrix(), _Matrix()
        self.equal.add(self.flow, self.most_flow / shares[:, None], 1.0)
        self.equal.add(self.flow.T, self.most_flow.T / shares[:, None], 1.0)

    def new(self, *shape: int) -> Array:
        """Return the indices of new variables."""
        count = int(np.prod(shape))
        self.width += count
        return np.arange(self.width - count, self.width).reshape(shape)

    def masses(self, distributions: SwapDistributions) -> tuple[Array, Array]:
        """Return variables for the least and the largest probability of each cell, by secret."""
        n_secrets = len(distributions.counts)
        if distributions.boxes is not None:
            low, high = distributions.boxes
            return self._ends(low, high, -1.0), self._ends(low, high, 1.0)
        mass = self.new(n_secrets, self.n)
        totals = distributions.shares @ self.shares
        into = self.most_flow.T / self.shares[:, None]
        for variables, shares, total in zip(mass, distributions.shares, totals, strict=True):
            if total > 0.0:  # no pair asks for a secret that is not there
                where = np.column_stack([self.flow.T, variables])
                values = np.column_stack([into * (shares / total), np.full(self.n, -1.0)])
                self.equal.add(where, values, 0.0)
        return mass, mass

    def _ends(self, low: FloatArray, high: FloatArray, sign: float) -> Array:
        r"""Return variables at or beyond the probabilities of cells over boxes.

        x is at least the largest one if and only if :math:`\sum_a n_a (l_a (K_a - x) + (h_a - l_a)
        w_a) \le 0` for some :math:`w_a \ge (K_a - x)_+`, with :math:`K_a = F(a, b) / N_a`; for the
        smallest one all signs change.
        """
        n, shares = self.n, self.shares
        ends, beyond = self.new(len(low), n), self.new(len(low), n, n)
        largest = np.maximum.outer(shares, shares)
        into = self.most_flow.T / shares[:, None]
        for end, over, least, most in zip(ends, beyond, low, high, strict=True):
            above = np.stack([self.flow, np.broadcast_to(end, (n, n)), over.T], axis=2)
            factors = [np.full((n, n), sign), -sign * largest, -largest]
            self.most.add(above.reshape(-1, 3), np.stack(factors, axis=2).reshape(-1, 3), 0.0)
            where = np.column_stack([self.flow.T, end, over])
            rest = np.broadcast_to(shares * (most - least), (n, n))
            middle = np.full(n, -sign * (least @ shares))
            self.most.add(where, np.column_stack([sign * into * least, middle, rest]), 0.0)
        return ends

    def within(
        self, lower: Array, upper: Array, pairs: Array, notion: Notion, share: float
    ) -> None:
        """Ask that no cell is much more probable under one secret of a pair than the other."""
        factor = exp(notion.epsilon * share)
        stick = isinstance(notion.divergence, HockeyStick)
        for first, second in [*pairs, *np.asarray(pairs)[:, ::-1]]:
            where, values = [upper[first], lower[second]], [1.0, -factor]
            if stick:
                where, values = [*where, self.new(self.n)], [*values, -1.0]
            self.most.add(np.column_stack(where), np.array(values), 0.0)
            if stick:
                self.most.add(where[2][None, :], self.shares, notion.budget * share)

    def solved(self, costs: FloatArray, n_rows: int) -> FloatArray | None:
        """Return the flows that cost least."""
        objective = np.zeros(self.width)
        objective[: costs.size] = (costs * self.most_flow).ravel()
        objective /= max(objective.max(), 1e-300)
        equal, most = self.equal.built(self.width), self.most.built(self.width)
        interior = equal[0].nnz + most[0].nnz > _SMALL
        answer = solved(objective, most=most, equal=equal, interior=interior)
        if answer is None:
            return None
        flows: FloatArray = answer.x[: costs.size].reshape(self.n, self.n)
        return flows * self.most_flow * n_rows


class _Matrix:
    """The rows of a sparse matrix, and their right-hand sides."""

    def __init__(self) -> None:
        self._where: list[Array] = []
        self._values: list[FloatArray] = []
        self._right: list[FloatArray] = []

    def add(self, where: Array, values: FloatArray | float, right: float) -> None:
        """Add rows: the columns of their entries, shape (m, k), the entries, and the sides."""
        self._where.append(where)
        self._values.append(np.broadcast_to(values, where.shape).ravel())
        self._right.append(np.broadcast_to(right, len(where)))

    def built(self, width: int) -> tuple[Any, FloatArray]:
        """Return the matrix and the right-hand sides."""
        lengths = np.concatenate([np.full(len(where), where.shape[1]) for where in self._where])
        owners = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.concatenate([where.ravel() for where in self._where])
        shape = (len(lengths), width)
        matrix = coo_array((np.concatenate(self._values), (owners, columns)), shape=shape)
        return matrix.tocsr(), np.concatenate(self._right)
