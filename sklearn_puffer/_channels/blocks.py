"""Blocks of cells that keep the budget alone, and groups of cells that are solved together.

A block B with p_s(B) <= e^(.9 epsilon) p_s'(B) for every protected pair has a constant channel
within the budget, with room: for pure budgets the blocks' channels together keep it, and under
delta their excesses add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels.problem import ChannelProblem

ROOM = 0.9
"""The part of epsilon that the laws of a block may use up."""

DIRECTIONS = 16
"""Directions among which a cut of a block is chosen."""

MOST_DIRECTIONS = 64
"""Directions tried before a block is left whole."""

MOST_MOVED = 300
"""Cells that change sides of a cut."""

STRIDE = 7919
"""Between the picks of two turns: a prime, larger than the cuts of most turns."""

GOLDEN = 0.6180339887498949
"""Its multiples spread evenly in the unit interval: picks without random bits."""


def feasible_blocks(problem: ChannelProblem, size: int) -> Array:
    """Return a block for each cell, of about ``size`` cells or as few as keep the budget.

    A part is cut where of all cuts tried its worse side is farthest within the budget. Where none
    keeps it, cells with much mass of what one side has too much of go to the other.
    """
    laws = budget_laws(problem)

    def cut(cells: Array, turn: int) -> tuple[Array, Array] | None:
        for tried in range(0, MOST_DIRECTIONS, DIRECTIONS):
            cuts = [_cut(problem, laws, cells, turn + tried + i) for i in range(DIRECTIONS)]
            loss, left, right = min(cuts, key=lambda found: found[0])
            if loss <= ROOM * problem.epsilon:
                return left, right
        return _balanced(laws, left, right, ROOM * problem.epsilon)

    return _split(problem, size, cut)


def mixed_groups(problem: ChannelProblem, size: int, turn: int) -> Array:
    """Return a group of at most ``size`` cells for each cell, another one at each turn."""

    def cut(cells: Array, place: int) -> tuple[Array, Array]:
        order = cells[np.argsort(_along(problem, cells, STRIDE * turn + place), kind="stable")]
        parts = -(-len(order) // size)  # so that all come out as large as they may be
        at = len(order) * (parts // 2) // parts
        return order[:at], order[at:]

    return _split(problem, size, cut)


def budget_laws(problem: ChannelProblem) -> list[tuple[FloatArray, Array]]:
    """Return the laws of each family over all cells, with its ordered pairs."""
    return [(family.over(problem.n_cells), family.ordered_pairs) for family in problem.families]


Cut = Callable[[Array, int], tuple[Array, Array] | None]


def _split(problem: ChannelProblem, size: int, cut: Cut) -> Array:
    """Cut places in two, and the parts again, while they are larger than ``size``."""
    label = np.zeros(problem.n_cells, dtype=np.intp)
    for number, cells in enumerate(_parts(problem, size, cut)):
        label[cells] = number
    return label


def _parts(problem: ChannelProblem, size: int, cut: Cut) -> Iterator[Array]:
    left, turn = places_of(problem), 0
    while left:
        cells, turn = left.pop(), turn + MOST_DIRECTIONS
        parts = cut(cells, turn) if len(cells) > size else None
        if parts is None:
            yield np.sort(cells)
        else:
            left += parts


def places_of(problem: ChannelProblem) -> list[Array]:
    """Return the cells of each place, which nothing leaves."""
    if problem.places is None:
        return [np.arange(problem.n_cells)]
    return [np.flatnonzero(problem.places == place) for place in np.unique(problem.places)]


def _cut(
    problem: ChannelProblem, laws: list[tuple[FloatArray, Array]], cells: Array, turn: int
) -> tuple[float, Array, Array]:
    """Return the best cut along one direction, near the middle, and the worse side's loss."""
    order = cells[np.argsort(_along(problem, cells, turn), kind="stable")]
    at = np.unique(np.linspace(0.3, 0.7, 9) * len(order)).astype(np.intp)
    at = at[(at > 0) & (at < len(order))]
    losses = np.max([_losses(law[:, order], pairs, at) for law, pairs in laws], axis=0)
    best = int(np.argmin(losses))
    return float(losses[best]), order[: at[best]], order[at[best] :]


def _balanced(
    laws: list[tuple[FloatArray, Array]], left: Array, right: Array, limit: float
) -> tuple[Array, Array] | None:
    """Let both sides have about the same part of every law, by as few cells as do it."""
    cells, is_left = np.concatenate([left, right]), np.arange(len(left) + len(right)) < len(left)
    parts = np.concatenate([law[:, cells] for law, _ in laws])
    parts = parts[parts.any(axis=1)]
    parts /= parts.sum(axis=1, keepdims=True)
    sizes = np.einsum("sm,sm->m", parts, parts)
    for _ in range(MOST_MOVED):
        beyond = parts[:, is_left].sum(axis=1) - is_left.mean()
        gains = np.where(is_left, 2.0, -2.0) * (beyond @ parts) - sizes
        best = int(np.argmax(gains))
        if gains[best] <= 0.0:
            break
        is_left[best] = not is_left[best]
    order, at = cells[np.argsort(~is_left, kind="stable")], np.array([is_left.sum()])
    if not 0 < at[0] < len(cells):
        return None
    loss = max(float(_losses(law[:, order], pairs, at)[0]) for law, pairs in laws)
    return (order[: at[0]], order[at[0] :]) if loss <= limit else None


def _losses(law: FloatArray, pairs: Array, at: Array) -> FloatArray:
    """Return the largest log p_s(side)/p_s'(side) of both sides of each cut."""
    left, right = np.cumsum(law, axis=1), np.cumsum(law[:, ::-1], axis=1)[:, ::-1]
    sides = np.stack([left[:, at - 1], right[:, at]])  # no difference: a mass of 0 stays 0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(sides)
        ratios = logs[:, pairs[:, 0]] - logs[:, pairs[:, 1]]
    losses = np.where(np.isnan(ratios), -np.inf, ratios).max(axis=(0, 1), initial=-np.inf)
    return np.asarray(losses, dtype=np.float64)


def _along(problem: ChannelProblem, cells: Array, turn: int) -> FloatArray:
    """Return how much nearer the cells are to one of two picked ones: any costs have that."""
    one, other = (cells[int(len(cells) * ((turn * 2 + i) * GOLDEN % 1.0))] for i in (1, 2))
    along = problem.costs.along
    ends = [np.full(len(cells), each) for each in (one, other)]
    return np.asarray(along(cells, ends[0]) - along(cells, ends[1]), dtype=np.float64)
