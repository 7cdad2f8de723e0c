"""Who gets whose row: leavers and places by lot, and then the matches that change least."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._swaps.rounding import Draws

MOST_MATCHED = 800
"""Leavers and places that are matched at once; more are cut into random parts."""

PART = 300
"""Of so many each: where there are many, near ones are in every part, and time grows as a power."""

Costs = Callable[[Array, Array], FloatArray]
"""What it costs that owners of some rows get others, shape (n, m)."""


def leavers_and_places(
    cells: Array, flows: IntArray, draws: Draws, *, shuffle: bool
) -> list[tuple[Array, Array]]:
    """Return who leaves each cell, and as many places for them, which are yet to be matched.

    Parameters
    ----------
    cells : ndarray of int of shape (n_rows,)
    flows : ndarray of int64 of shape (n_cells, n_cells)
        How many rows go from cell to cell, in whole rows.
    draws : Draws
    shuffle : bool
        Whether all rows of a cell change places among themselves, too: these are by lot.

    Notes
    -----
    *Formal guarantees.* Rows are shuffled before anything is chosen, so that no choice and no tie
    depends on their order. Who leaves a cell, and which of its vacated places are allotted to which
    cell, is uniform; so, whatever the matches, a place of cell b is held by somebody of cell a with
    chance F(a, b) / N_b (DESIGN, section 14.3).
    """
    order = draws.shuffled(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]  # each cell's rows, in a random order
    starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=len(flows)))])
    moving = flows.copy()
    if not shuffle:
        np.fill_diagonal(moving, 0)
    leave = moving.sum(axis=1)
    leavers = [order[start : start + count] for start, count in zip(starts, leave, strict=False)]
    places = _allotted(leavers, moving, draws)
    return [pair for pair in zip(leavers, places, strict=True) if pair[0].size]


def _allotted(vacated: list[Array], moving: IntArray, draws: Draws) -> list[Array]:
    """Return the places that each cell's leavers go to: those of a cell are dealt out by lot."""
    cut = [np.cumsum(column)[:-1] for column in moving.T]
    mixed = [own[draws.shuffled(len(own))] for own in vacated]
    dealt = [np.split(own, ends) for own, ends in zip(mixed, cut, strict=True)]
    found = [np.concatenate([parts[a] for parts in dealt]) for a in range(len(moving))]
    return [places[draws.shuffled(len(places))] for places in found]


def matched(leavers: Array, places: Array, costs: Costs) -> Array:
    """Return the place of each leaver: those of a part are matched at the least cost."""
    n_parts = 1 if len(leavers) <= MOST_MATCHED else -(-len(leavers) // PART)
    found = np.empty_like(places)
    for part in range(n_parts):
        own = slice(part, None, n_parts)
        row, column = linear_sum_assignment(costs(leavers[own], places[own]))
        found[own][row] = places[own][column]
    return found


def least_cost(own: Array, others: Array, costs: Costs) -> float:
    """Return the mean cost of matching rows with others, as many, at the least cost."""
    between = costs(own, others)
    return float(between[linear_sum_assignment(between)].mean())
