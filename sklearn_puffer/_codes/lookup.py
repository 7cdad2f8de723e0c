"""Codes of values among sorted atoms, or between the edges of bins."""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import LARGEST_INTEGER, Array, FloatArray

_MOST_CELLS = 1 << 16
_MOST_CROWDED = 4


class Lookup:
    """Places of numbers among ascending knots: the atoms of a column, or the edges of its bins.

    A multiplication, which is monotone also when rounded, maps each number to a cell. All knots of
    lower cells lie below it, and no knot of a higher cell does. So it is compared with the knots of
    its own cell alone. If some cell has too many knots, it is a binary search. If the knots are
    consecutive whole numbers, the code of an integer is its distance from the first.

    >>> lookup, codes = Lookup(np.array([0.0, 0.5, 2.0])), np.empty(2, dtype=np.intp)
    >>> lookup.find(np.array([2.0, 0.5]), codes), codes.tolist()
    (True, [2, 1])
    >>> lookup.below(np.array([7.0, 0.5]), codes), codes.tolist()
    (None, [3, 1])
    """

    def __init__(self, knots: FloatArray) -> None:
        self.knots = knots
        self.gapless = _is_gapless(knots)
        self.ends = np.append(knots, np.inf)
        self.n_cells = min(_MOST_CELLS, 64 * len(knots))
        with np.errstate(over="ignore"):
            span = float(knots[-1] - knots[0]) if len(knots) > 1 else 0.0
        self.factor = self.n_cells / span if span > 0.0 else 0.0
        self.quick = 0.0 < self.factor < np.inf
        if self.quick:
            held = np.bincount(self._cells(knots), minlength=self.n_cells)
            self.firsts = np.cumsum(held) - held
            self.crowd = int(held.max())
            self.quick = self.crowd <= _MOST_CROWDED

    def find(self, block: Array, codes: Array) -> bool:
        """Write the code of every value; return False if some value is no atom."""
        if self.gapless and block.dtype.kind in "iu":
            block = np.ascontiguousarray(block)  # strided columns are read once
            first, last = int(self.knots[0]), int(self.knots[-1])
            if block.size and not first <= int(block.min()) <= int(block.max()) <= last:
                return False
            # of unsigned numbers in floats, which hold these
            np.subtract(block, np.intp(first), out=codes, casting="unsafe")
            return True
        values = np.ascontiguousarray(block, dtype=np.float64)  # strided columns are read once
        self.below(values, codes)
        return bool((np.take(self.knots, codes, mode="clip") == values).all())  # not of NaN

    def below(self, block: Array, codes: Array) -> None:
        """Write the number of knots below every value; any for NaN."""
        values = np.ascontiguousarray(block, dtype=np.float64)
        if not self.quick:
            codes[:] = np.searchsorted(self.knots, values)
            return
        np.take(self.firsts, self._cells(values), out=codes, mode="clip")
        for _ in range(self.crowd):  # the knots of the same cell that lie below
            codes += np.take(self.ends, codes, mode="clip") < values

    def _cells(self, values: FloatArray) -> Array:
        """Return the cell of each value, a monotone function."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is clipped, too
            cells = values - self.knots[0]
            cells *= self.factor
            np.clip(cells, 0.0, self.n_cells - 1.0, out=cells)
            places: Array = cells.astype(np.intp)
        return places


def _is_gapless(atoms: FloatArray) -> bool:
    """Return whether the atoms are consecutive whole numbers."""
    if not len(atoms) or max(-atoms[0], atoms[-1]) > LARGEST_INTEGER or atoms[0] % 1.0 != 0.0:
        return False
    return float(atoms[-1] - atoms[0]) == len(atoms) - 1 and bool((np.diff(atoms) == 1.0).all())


def nearest(atoms: FloatArray, values: FloatArray) -> Array:
    """Return the code of the nearest atom; half-way goes up.

    >>> nearest(np.array([0.0, 1.0]), np.array([0.4, 0.5, 7.0])).tolist()
    [0, 1, 1]
    """
    right = np.clip(np.searchsorted(atoms, values), 1, max(len(atoms) - 1, 1))
    right = np.minimum(right, len(atoms) - 1)
    left = np.maximum(right - 1, 0)
    with np.errstate(over="ignore"):  # an infinite difference is the larger one
        closer_left = values - atoms[left] < atoms[right] - values
    return np.where(closer_left, left, right)
