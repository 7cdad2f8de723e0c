"""One door to all ways of finding a channel: matching, whole programs, blocks."""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels.blocks import places_of
from sklearn_puffer._channels.dual import CHUNK
from sklearn_puffer._channels.highs import Clock
from sklearn_puffer._channels.pairing import is_matching, matched_flows
from sklearn_puffer._channels.pricing_rounds import priced_flows
from sklearn_puffer._channels.problem import ChannelProblem, Found
from sklearn_puffer._channels.resolving import channel_in_blocks

WHOLE_MATCHING = 10_000
"""Up to so many cells a matching of two laws is solved whole."""

WHOLE_PROGRAM = 1_500
"""Up to so many cells another program is solved whole."""

_FOR_WHOLE = 0.7
"""The part of the time that a whole program may take; what is left is for blocks."""

_PATIENCE, _PATIENCE_MATCHING = 2e-6, 3e-7
"""Seconds for each pair of cells and law: with less time a whole program is not begun."""


def find_channel(
    problem: ChannelProblem,
    *,
    gap: float = 1e-3,
    block_size: int | str = "auto",
    time_limit: float | None = None,
    n_jobs: int | None = None,
) -> Found:
    """Find a channel within the budget that changes little, and what every one must change.

    Parameters
    ----------
    problem : ChannelProblem
        What is asked for.
    gap : float, optional
        A cost so much above the lower bound, as a part of it, is good enough.
    block_size : int or "auto", optional
        Cells of the largest program; ``"auto"`` takes as many as are solved in about a minute.
    time_limit : float, optional
        Seconds after which the best channel so far is returned.
    n_jobs : int, optional
        Threads, where there are blocks.

    Returns
    -------
    Found
        To be repaired before anything is drawn from it. Where the time was over before anything
        was found, it is the constant channel of each block.
    """
    clock = Clock.of(time_limit)
    with clock.stopping():
        if problem.floor is None and is_whole(problem, block_size) and _in_time(problem, clock):
            found = whole_channel(problem, gap, clock.part(_FOR_WHOLE))
            if found is not None:
                return found
        return channel_in_blocks(
            problem, gap=gap, block_size=block_size, clock=clock, n_jobs=n_jobs
        )


def is_whole(problem: ChannelProblem, block_size: int | str) -> bool:
    """Whether one program is solved, and not one for each block."""
    if not isinstance(block_size, str):
        return problem.n_cells <= block_size
    return problem.n_cells <= (WHOLE_MATCHING if is_matching(problem) else WHOLE_PROGRAM)


def _in_time(problem: ChannelProblem, clock: Clock) -> bool:
    """Whether a whole program may end in time; blocks have something sooner."""
    if clock.left is None:
        return True
    laws = sum(len(family.masses) for family in problem.families)
    patience = _PATIENCE_MATCHING if is_matching(problem) else _PATIENCE
    return clock.left >= patience * laws * problem.n_cells**2


def whole_channel(problem: ChannelProblem, gap: float, clock: Clock) -> Found | None:
    """Solve one program over all cells; None where nothing was found in time."""
    sinks, dear = constant_outputs(problem)
    if dear == 0.0:
        every = np.arange(problem.n_cells)
        return as_found(problem, every, sinks, np.ones(problem.n_cells), 0.0)
    if is_matching(problem):
        pairs = matched_flows(problem, gap, clock, dear)
        return None if pairs is None else as_found(problem, *pairs)
    flows = priced_flows(problem, sinks, gap, clock, dear)
    if flows is None:
        return None
    return as_found(problem, flows.xs, flows.ys, flows.shares, flows.bound)


def constant_outputs(problem: ChannelProblem) -> tuple[Array, float]:
    """Return the output that costs least when all cells of a place are released as it, and cost."""
    sinks, dear = np.empty(problem.n_cells, dtype=np.intp), 0.0
    for cells in places_of(problem):
        costs = np.zeros(len(cells))
        for part in np.array_split(cells, -(-(len(cells) ** 2) // CHUNK)):
            costs += problem.weights[part] @ problem.costs.between(part, cells)
        sinks[cells] = cells[np.argmin(costs)]
        dear += float(costs.min())
    return sinks, dear


def as_found(
    problem: ChannelProblem, xs: Array, ys: Array, shares: FloatArray, bound: float | None
) -> Found:
    """Return moves as compressed rows of sum 1; each move at most twice."""
    n = problem.n_cells
    keys, of_moves = np.unique(xs * n + ys, return_inverse=True)
    sums = np.bincount(of_moves, shares)
    cells, targets = np.divmod(keys[sums > 0.0], n)
    kept: FloatArray = sums[sums > 0.0].astype(np.float64)
    starts = np.searchsorted(cells, np.arange(n + 1)).astype(np.int64)
    kept /= np.bincount(cells, kept, n)[cells]
    bound = None if bound is None else max(bound, 0.0)
    return Found(starts, targets.astype(np.int64), kept, _blocks(problem), bound)


def _blocks(problem: ChannelProblem) -> Array:
    """Return the place of each cell, counted from 0."""
    blocks = np.empty(problem.n_cells, dtype=np.intp)
    for number, cells in enumerate(places_of(problem)):
        blocks[cells] = number
    return blocks
