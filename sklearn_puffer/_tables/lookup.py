"""Places of numbers among the ascending atoms of a column."""

from __future__ import annotations

import math

import numpy as np

from sklearn_puffer._base import Array, FloatArray

_MOST_BINS = 1 << 16
_MOST_CROWDED = 4
_FARTHEST = 1e300  # from here on differences of atoms may be no floats


class Lookup:
    """Places of numbers among ascending atoms.

    A multiplication sends every number into one of many equal bins, and a table tells the first
    atom of each bin; a few comparisons pass over the others of a crowded bin. Where some bin is
    too crowded for that, a binary search does.

    >>> lookup = Lookup(np.array([0.0, 0.5, 2.0]))
    >>> codes = np.empty(2, dtype=np.intp)
    >>> lookup.find(np.array([2.0, 0.5]), codes), codes.tolist()
    (True, [2, 1])
    """

    def __init__(self, atoms: FloatArray) -> None:
        self.atoms = atoms
        self.low = float(atoms[0])
        self.factor, self.firsts, self.crowd = _equal_bins(atoms)
        self._scratch = np.empty((2, 0))

    def find(self, block: Array, codes: Array) -> bool:
        """Write the code of every value; return False where a value is none of the atoms."""
        if self._scratch.shape[1] < len(block):
            self._scratch = np.empty((2, len(block)))
        values, scratch = self._scratch[:, : len(block)]
        if block.dtype == np.float64 and block.flags.c_contiguous:
            values = block
        else:
            np.copyto(values, block)  # strided columns are read once
        if self.factor is None:
            codes[:] = np.searchsorted(self.atoms, values)
        else:
            self._guess(values, self.factor, codes, scratch)
        for _ in range(self.crowd):
            np.take(self.atoms, codes, out=scratch, mode="clip")
            codes += scratch < values
        np.take(self.atoms, codes, out=scratch, mode="clip")
        return bool((scratch == values).all())  # so a wrong guess, NaN too, is never taken

    def _guess(self, values: FloatArray, factor: float, codes: Array, scratch: FloatArray) -> None:
        """Write the first atom of each value's bin; anything for what lies outside all bins."""
        with np.errstate(invalid="ignore", over="ignore"):
            np.subtract(values, self.low, out=scratch)
            scratch *= factor
            np.copyto(codes, scratch, casting="unsafe")
        if self.firsts is not None:
            np.take(self.firsts, codes, out=codes, mode="clip")


def _equal_bins(atoms: FloatArray) -> tuple[float | None, Array | None, int]:
    """Return the factor to bins, the first atom of each, and how many more a bin may hold.

    Without a factor a binary search is due; without first atoms, bins and atoms are the same.
    """
    if len(atoms) == 1:
        return 0.0, None, 0
    if max(-atoms[0], atoms[-1]) > _FARTHEST:  # their differences may be no floats
        return None, None, 0
    span, gap = float(atoms[-1] - atoms[0]), float(np.diff(atoms).min())
    n_bins = min(_MOST_BINS, 64 * len(atoms))
    if span / n_bins <= gap:  # a lattice, or nearly: a bin for every atom
        n_bins = math.ceil(span / gap)
    factor = n_bins / span * (1.0 + 1e-9)
    if not np.isfinite(factor):
        return None, None, 0
    bins = ((atoms - atoms[0]) * factor).astype(np.intp)
    crowd = int(np.bincount(bins).max()) - 1
    if crowd > _MOST_CROWDED:
        return None, None, 0
    firsts = np.searchsorted(bins, np.arange(bins[-1] + 1))
    return factor, None if len(firsts) == len(atoms) and not crowd else firsts, crowd


def nearest(atoms: FloatArray, values: FloatArray) -> Array:
    """Return the code of the nearest atom; half-way goes up.

    >>> nearest(np.array([0.0, 1.0]), np.array([0.4, 0.5, 7.0])).tolist()
    [0, 1, 1]
    """
    right = np.clip(np.searchsorted(atoms, values), 1, max(len(atoms) - 1, 1))
    right = np.minimum(right, len(atoms) - 1)
    left = np.maximum(right - 1, 0)
    with np.errstate(over="ignore"):  # a difference beyond all floats is the larger one
        closer_left = values - atoms[left] < atoms[right] - values
    return np.where(closer_left, left, right)
