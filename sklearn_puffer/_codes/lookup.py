"""Codes of values among sorted atoms, or between the edges of bins."""

from __future__ import annotations

import math

import numpy as np

from sklearn_puffer._base import LARGEST_INTEGER, Array, FloatArray

_MOST_BINS = 1 << 16
_MOST_CROWDED = 4
_FARTHEST = 1e300  # beyond, differences of atoms may overflow


class Lookup:
    """Codes of numbers among ascending atoms.

    A multiplication maps every number to one of many equal bins, and a table has the first atom of
    each bin; a few comparisons skip the others of its bin. If some bin has too many atoms, it is a
    binary search. If the atoms are consecutive whole numbers, the code of an integer is its
    distance from the first.

    >>> lookup = Lookup(np.array([0.0, 0.5, 2.0]))
    >>> codes = np.empty(2, dtype=np.intp)
    >>> lookup.find(np.array([2.0, 0.5]), codes), codes.tolist()
    (True, [2, 1])
    """

    def __init__(self, atoms: FloatArray) -> None:
        self.atoms = atoms
        self.low = float(atoms[0])
        self.factor, self.firsts, self.crowd = _equal_bins(atoms)
        self.gapless = _is_gapless(atoms)

    def find(self, block: Array, codes: Array) -> bool:
        """Write the code of every value; return False if some value is no atom."""
        if self.gapless and block.dtype.kind in "iu":
            block = np.ascontiguousarray(block)  # strided columns are read once
            first, last = int(self.atoms[0]), int(self.atoms[-1])
            if block.size and not first <= int(block.min()) <= int(block.max()) <= last:
                return False
            # of unsigned numbers in floats, which hold these
            np.subtract(block, np.intp(first), out=codes, casting="unsafe")
            return True
        values = np.ascontiguousarray(block, dtype=np.float64)  # strided columns are read once
        scratch = np.empty(len(block))
        if self.factor is None:
            codes[:] = np.searchsorted(self.atoms, values)
        else:  # the first atom of each value's bin; any for values outside all bins
            with np.errstate(invalid="ignore", over="ignore"):
                np.subtract(values, self.low, out=scratch)
                scratch *= self.factor
                np.copyto(codes, scratch, casting="unsafe")
            if self.firsts is not None:
                np.take(self.firsts, codes, out=codes, mode="clip")
        for _ in range(self.crowd):
            np.take(self.atoms, codes, out=scratch, mode="clip")
            codes += scratch < values
        np.take(self.atoms, codes, out=scratch, mode="clip")
        return bool((scratch == values).all())  # wrong guesses and NaN are found here


class Edges:
    r"""Codes of numbers between ascending edges: how many edges lie below each.

    A multiplication, which is monotone also when rounded, maps each number to a cell. All edges of
    lower cells lie below it, and no edge of a higher cell does. So it is compared with the edges of
    its own cell alone.

    >>> edges, codes = Edges(np.array([0.0, 0.5])), np.empty(3, dtype=np.intp)
    >>> edges.find(np.array([0.5, -1.0, 7.0]), codes), codes.tolist()
    (None, [1, 0, 2])
    """

    def __init__(self, edges: FloatArray) -> None:
        self.edges = edges
        self.n_cells = min(_MOST_BINS, 64 * len(edges))
        span = float(edges[-1] - edges[0]) if len(edges) > 1 else 0.0
        self.factor = self.n_cells / span if span > 0.0 else 0.0
        self.ends = np.append(edges, np.inf)
        self.quick = 0.0 < self.factor < np.inf
        if self.quick:
            of_edges = self._cells(edges, np.empty(len(edges), dtype=np.intp))
            self.firsts = np.searchsorted(of_edges, np.arange(self.n_cells))
            self.crowd = int(np.bincount(of_edges).max())
            self.quick = self.crowd <= _MOST_CROWDED

    def find(self, block: Array, codes: Array) -> None:
        """Write the number of edges below every value; the values must be finite."""
        values = np.ascontiguousarray(block, dtype=np.float64)
        if not self.quick:
            codes[:] = np.searchsorted(self.edges, values)
            return
        self._cells(values, codes)
        np.take(self.firsts, codes, out=codes, mode="clip")
        scratch = np.empty(len(values))
        for _ in range(self.crowd):  # the edges of the same cell that lie below
            np.take(self.ends, codes, out=scratch, mode="clip")
            codes += scratch < values

    def _cells(self, values: FloatArray, codes: Array) -> Array:
        """Write the cell of each value, a monotone function."""
        scratch = np.empty(len(values))
        with np.errstate(over="ignore"):  # infinity is clipped, too
            np.subtract(values, self.edges[0], out=scratch)
            scratch *= self.factor
        np.clip(scratch, 0.0, self.n_cells - 1.0, out=scratch)
        np.copyto(codes, scratch, casting="unsafe")
        return codes


def _is_gapless(atoms: FloatArray) -> bool:
    """Return whether the atoms are consecutive whole numbers."""
    if max(-atoms[0], atoms[-1]) > LARGEST_INTEGER or atoms[0] % 1.0 != 0.0:
        return False
    return float(atoms[-1] - atoms[0]) == len(atoms) - 1 and bool((np.diff(atoms) == 1.0).all())


def _equal_bins(atoms: FloatArray) -> tuple[float | None, Array | None, int]:
    """Return the factor to bins, the first atom of each, and the most further atoms of a bin.

    Without a factor, use a binary search; without first atoms, bins are atoms.
    """
    if len(atoms) == 1:
        return 0.0, None, 0
    if max(-atoms[0], atoms[-1]) > _FARTHEST:  # their differences may overflow
        return None, None, 0
    span, gap = float(atoms[-1] - atoms[0]), float(np.diff(atoms).min())
    n_bins = min(_MOST_BINS, 64 * len(atoms))
    if span / n_bins <= gap:  # nearly a lattice: a bin for every atom
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
    with np.errstate(over="ignore"):  # an infinite difference is the larger one
        closer_left = values - atoms[left] < atoms[right] - values
    return np.where(closer_left, left, right)
