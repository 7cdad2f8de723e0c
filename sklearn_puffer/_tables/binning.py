"""Quantile bins of a column of numbers, from its distinct values and how often each occurs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray


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
    cumulative = np.cumsum(counts)
    last = int(cumulative[-1]) - 1
    cuts = [_order_statistic(cumulative, last * b // n_bins) for b in range(1, n_bins)]
    ends = np.unique([*cuts, len(atoms) - 1])
    starts = np.append(0, ends[:-1] + 1)
    medians = [
        _median(atoms[a : b + 1], counts[a : b + 1], whole)
        for a, b in zip(starts, ends, strict=True)
    ]
    return Bins(np.array(medians), atoms[ends[:-1]], merged=True)


def standard_deviation(atoms: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column from its distinct values and their counts.

    >>> standard_deviation(np.array([0.0, 2.0]), np.array([3, 3]))
    1.0
    """
    masses = counts.astype(float)
    unit = float(np.ptp(atoms)) or 1.0  # squares of the bare numbers may leave the floats
    shifted = (atoms - atoms.min()) / unit
    total, scratch = masses.sum(), np.empty_like(shifted)
    shifted -= np.multiply(shifted, masses, out=scratch).sum() / total
    shifted *= shifted
    return unit * float(np.sqrt(np.multiply(shifted, masses, out=scratch).sum() / total))


def _order_statistic(cumulative: Array, rank: int) -> int:
    """Return the position of the value with that many rows before it."""
    return int(np.searchsorted(cumulative, rank, side="right"))


def _median(atoms: FloatArray, counts: Array, whole: bool) -> float:
    """Return the median of a bin; the lower one for whole numbers, so that they stay whole."""
    cumulative = np.cumsum(counts)
    total = int(cumulative[-1])
    lower = atoms[_order_statistic(cumulative, (total - 1) // 2)]
    upper = atoms[_order_statistic(cumulative, total // 2)]
    return float(lower if whole or lower == upper else lower / 2 + upper / 2)
