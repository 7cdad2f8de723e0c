"""Quantile bins of a column of numbers, from its distinct values and how often each occurs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray, sum_by_halves


class Bins(NamedTuple):
    """Bins of a column, ascending.

    Attributes
    ----------
    values : ndarray of shape (n,)
        What stands for each bin: the median of its rows.
    edges : ndarray of shape (n - 1,)
        Upper ends of all bins but the last, each of which belongs to its bin.
    merged : bool
        Whether some bin holds more than one value.
    """

    values: FloatArray
    edges: FloatArray
    merged: bool


def quantile_bins(atoms: FloatArray, counts: Array, n_bins: int, *, whole: bool) -> Bins:
    """Return bins with the edges of `pandas.qcut`; no more values than bins stay as they are.

    Edges that fall on one value are one edge, so that there may be fewer bins than asked for.

    >>> quantile_bins(np.array([1.0, 2.0, 3.0]), np.array([4, 1, 1]), 2, whole=True).values.tolist()
    [1.0, 2.0]
    >>> quantile_bins(np.array([0.0, 1.0]), np.array([1, 9]), 2, whole=True).values.tolist()
    [0.0, 1.0]
    """
    if len(atoms) <= n_bins:
        return Bins(atoms, atoms[:-1], merged=False)
    rows = _RowsInOrder(counts)
    cuts = [rows.place((rows.n - 1) * b // n_bins) for b in range(1, n_bins)]
    ends = np.unique([*cuts, len(atoms) - 1])
    stops = [rows.up_to(end) for end in ends.tolist()]
    medians = [
        _median(atoms, rows, start, stop, whole)
        for start, stop in zip([0, *stops[:-1]], stops, strict=True)
    ]
    return Bins(np.array(medians), atoms[ends[:-1]], merged=True)


def standard_deviation(atoms: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column from its distinct values and their counts.

    >>> standard_deviation(np.array([0.0, 2.0]), np.array([3, 3]))
    1.0
    """
    unit = float(np.ptp(atoms)) or 1.0  # squares of the bare numbers may leave the floats
    shifted = (atoms - atoms.min()) / unit
    if is_once(counts):
        shifted -= sum_by_halves(shifted) / len(counts)
        shifted *= shifted
        return unit * math.sqrt(sum_by_halves(shifted) / len(counts))
    masses = counts.astype(float)
    total, scratch = sum_by_halves(masses), np.empty_like(shifted)
    shifted -= sum_by_halves(np.multiply(shifted, masses, out=scratch)) / total
    shifted *= shifted
    return unit * math.sqrt(sum_by_halves(np.multiply(shifted, masses, out=scratch)) / total)


def is_once(counts: Array) -> bool:
    """Return whether everything counts once.

    >>> is_once(np.array([1, 1])), is_once(np.array([0, 2]))
    (True, False)
    """
    return bool(len(counts) and counts.min() == 1 and counts.max() == 1)


class _RowsInOrder:
    """The rows of a column in the order of their values, by the place of each distinct value."""

    def __init__(self, counts: Array) -> None:
        self.cumulative = None if is_once(counts) else np.cumsum(counts)
        self.n = len(counts) if self.cumulative is None else int(self.cumulative[-1])

    def place(self, row: int) -> int:
        """Return the place of the value of a row."""
        if self.cumulative is None:
            return row
        return int(np.searchsorted(self.cumulative, row, side="right"))

    def up_to(self, place: int) -> int:
        """Return how many rows there are up to a place, those of its value included."""
        return place + 1 if self.cumulative is None else int(self.cumulative[place])


def _median(atoms: FloatArray, rows: _RowsInOrder, start: int, stop: int, whole: bool) -> float:
    """Return the median of some rows; the lower one for whole numbers, so that they stay whole."""
    lower = atoms[rows.place((start + stop - 1) // 2)]
    upper = atoms[rows.place((start + stop) // 2)]
    return float(lower if whole or lower == upper else lower / 2 + upper / 2)
