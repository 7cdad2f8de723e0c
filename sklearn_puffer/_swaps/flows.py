"""How many rows go from cell to cell on average, in whole numbers that were held to the budget."""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._losses import swap_losses
from sklearn_puffer._swaps.program import SwapProblem, solved_flows

ROW = 1 << 32
"""Flows are whole numbers of this part of a row."""

_INSIDE = (1e-6, 1e-5, 1e-4, 1e-3)  # of the budget, kept from the solver
_MIXED = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.3)


def mean_flows(problem: SwapProblem) -> IntArray:
    """Return the flows that cost least, in parts of 2^-32 of a row, shape (n_cells, n_cells).

    The solver is not believed: its answer is made whole, and held against the budget by the
    checker. Where it is above, the solver is told of less, and in the end its answer is mixed with
    the flows that tell nothing. Whole numbers of these may still be above a budget as small as
    their roundings; whoever releases rows looks at the loss.
    """
    stay = np.diag(problem.sizes * ROW)
    if keeps(stay, problem):
        return stay
    apart = np.outer(problem.sizes, problem.sizes / problem.sizes.sum())
    found = None
    for inside in _INSIDE:
        found = solved_flows(problem, inside)
        if found is not None and keeps(whole := whole_flows(found, problem.sizes), problem):
            return whole
    for share in _MIXED if found is not None else ():
        assert found is not None
        whole = whole_flows((1.0 - share) * found + share * apart, problem.sizes)
        if keeps(whole, problem):
            return whole
    return whole_flows(apart, problem.sizes)


def keeps(flows: IntArray, problem: SwapProblem) -> bool:
    """Return whether flows are within the budget, as the checker has it."""
    losses = [swap_losses(flows, problem.sizes, each, problem.notion) for each in problem.laws]
    return all(bool((loss[..., 1] <= problem.notion.budget).all()) for loss in losses)


def whole_flows(flows: FloatArray, sizes: IntArray) -> IntArray:
    """Return flows in whole numbers whose rows and columns sum to the sizes, exactly.

    They are cut down until no margin is above its size, rounded down, and what then lacks is filled
    in, cell after cell.

    >>> (whole_flows(np.array([[1.5, 0.5], [0.5, 0.49]]), np.array([2, 1])) / ROW).round(2).tolist()
    [[1.5, 0.5], [0.5, 0.5]]
    """
    flows = np.maximum(flows, 0.0)
    with np.errstate(divide="ignore"):
        flows = flows * np.minimum(sizes / flows.sum(axis=1), 1.0)[:, None]
        flows = flows * np.minimum(sizes / flows.sum(axis=0), 1.0)
    whole = np.floor(flows * (ROW * (1.0 - 2.0**-44))).astype(np.int64)
    lacking = sizes * ROW - whole.sum(axis=1), sizes * ROW - whole.sum(axis=0)
    ends = [np.cumsum(each) for each in lacking]
    cuts = np.union1d(*ends)
    amounts = np.diff(cuts, prepend=0)
    some = amounts > 0
    sources, places = (np.searchsorted(each, cuts[some]) for each in ends)
    np.add.at(whole, (sources, places), amounts[some])
    return whole
