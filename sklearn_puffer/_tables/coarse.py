"""Columns of very many numbers as cells: what they spread and lose is computed from those.

A cell is an interval that holds numbers of the table from its own lowest to its own highest one.
Which cells there are is a function of the numbers and their counts alone, and comes out the same
from just the ends of all cells, so that an engine that counted cells, and fetched no numbers, has
those of a table in memory.
"""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import Array, FloatArray

MOST_DISTINCT = 1 << 22
"""How many values of a column are fetched at most; beyond that a binned one has cells."""

CROWD = 64
"""A cell with more than this part of all rows is cut again."""

_ROUNDS = 4  # of cutting: what lies far out makes the first cells wide
_NARROW = 1e-290  # from here on a width has no reciprocal


def first_pieces() -> int:
    """Return into how many pieces the range of a column is cut."""
    return max(MOST_DISTINCT // 4, 4)


def further_pieces() -> int:
    """Return into how many pieces a cell is cut."""
    return max(MOST_DISTINCT // 1024, 16)


def densities(lows: FloatArray, highs: FloatArray, pieces: int) -> FloatArray:
    """Return how many pieces of each cell a unit has; 0 where it is too narrow to be cut.

    >>> densities(np.zeros(2), np.array([2.0, 0.0]), 8).tolist()
    [4.0, 0.0]
    """
    widths: FloatArray = highs - lows
    found: FloatArray = np.zeros(len(widths))
    np.divide(pieces, widths, out=found, where=widths > _NARROW)
    return found


def crowded(lows: FloatArray, highs: FloatArray, counts: Array) -> Array:
    """Return which cells are cut again."""
    found: Array = (counts > counts.sum() // CROWD) & (highs - lows > _NARROW)
    return found


def to_cut_again() -> range:
    """Return the rounds in which crowded cells are cut."""
    return range(_ROUNDS)


def coarse(
    atoms: FloatArray, counts: Array, edges: FloatArray, *, whole: bool
) -> tuple[FloatArray, Array]:
    """Return the middles of cells, none of which reaches over an edge of a bin, and their counts.

    >>> middles, counts = coarse(np.array([0.0, 1.0]), np.array([2, 3]), np.zeros(1), whole=True)
    >>> middles.tolist(), counts.tolist()
    ([0.0, 1.0], [2, 3])
    """
    inner = np.searchsorted(atoms, edges, side="right")
    starts = np.union1d(_starts_of_cells(atoms, counts), inner[inner < len(atoms)])
    lows, highs = _ends(atoms, starts)
    middles = lows / 2 + highs / 2
    # cells of one value have no middle to be rounded
    middles = np.where(lows == highs, lows, np.floor(middles) if whole else middles)
    return middles, np.add.reduceat(counts, starts)


def _starts_of_cells(atoms: FloatArray, counts: Array) -> Array:
    starts = _cut(atoms, 0, len(atoms), first_pieces())
    for _ in to_cut_again():
        again = np.flatnonzero(crowded(*_ends(atoms, starts), np.add.reduceat(counts, starts)))
        stops = np.append(starts[1:], len(atoms))
        cut = [_cut(atoms, starts[k], stops[k], further_pieces()) for k in again]
        starts = np.unique(np.concatenate([starts, *cut]))
    return starts


def _cut(atoms: FloatArray, start: int, stop: int, pieces: int) -> Array:
    """Return where the pieces of a cell start."""
    own = atoms[start:stop]
    places = np.floor((own - own[0]) * densities(own[:1], own[-1:], pieces))
    return start + np.append(0, np.flatnonzero(places[1:] != places[:-1]) + 1)


def _ends(atoms: FloatArray, starts: Array) -> tuple[FloatArray, FloatArray]:
    return atoms[starts], atoms[np.append(starts[1:], len(atoms)) - 1]
