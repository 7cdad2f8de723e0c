"""The distinct values of a column, and how often each occurs."""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._tables.kinds import present
from sklearn_puffer._tables.lookup import Lookup
from sklearn_puffer._tables.values import Values

BLOCK_ROWS = 1 << 15
_MOST_STREAMED_ATOMS = 1 << 12


def distinct(values: Values, weights: Array | None = None) -> tuple[FloatArray, Array]:
    """Return the ascending distinct numbers of a column and how often each occurs.

    Memory does not grow with the rows while the numbers are few; one sort does where they are many.
    """
    data = present(values)
    kept = weights if weights is None or values.missing is None else weights[~values.missing]
    atoms = _few_numbers(data)
    if atoms is not None:
        return atoms, _tally(atoms, data, kept)
    return _sorted_tally(data, kept)


def distinct_numbers(data: Array) -> FloatArray:
    """Return the ascending distinct numbers; while they are few, memory is that of a block."""
    few = _few_numbers(data)
    return _sorted_tally(data, None)[0] if few is None else few


def _few_numbers(data: Array) -> FloatArray | None:
    """Return the ascending distinct numbers, or None where they are many."""
    atoms = np.unique(np.asarray(data[:BLOCK_ROWS], dtype=float))
    codes = np.empty(BLOCK_ROWS, dtype=np.intp)
    lookup = Lookup(atoms) if atoms.size and np.isfinite(atoms).all() else None
    for start in range(BLOCK_ROWS, len(data), BLOCK_ROWS):
        block = data[start : start + BLOCK_ROWS]
        if lookup is None or len(atoms) > _MOST_STREAMED_ATOMS:
            return None
        if not lookup.has_all(block, codes[: len(block)]):
            atoms = np.union1d(atoms, np.asarray(block, dtype=float))
            lookup = Lookup(atoms) if np.isfinite(atoms).all() else None
    return np.unique(atoms + 0.0)  # -0.0 is 0.0


def _sorted_tally(data: Array, weights: Array | None) -> tuple[FloatArray, Array]:
    """Return the ascending distinct numbers, NaN once and last, and how often each occurs."""
    numbers = data.astype(np.float64)
    numbers += 0.0  # -0.0 is 0.0
    order = None if weights is None else np.argsort(numbers)
    if order is None:
        numbers.sort()
    else:
        numbers = numbers[order]
    new = np.ones(len(numbers), dtype=bool)
    np.not_equal(numbers[1:], numbers[:-1], out=new[1:])
    new[np.searchsorted(numbers, np.nan) + 1 :] = False
    if order is None and new.all():
        return numbers, np.ones(len(numbers), dtype=np.int64)
    firsts = np.flatnonzero(new)
    if order is None or weights is None:
        return numbers[firsts], np.diff(firsts, append=len(numbers))
    return numbers[firsts], np.add.reduceat(weights[order].astype(np.int64), firsts)


def _tally(atoms: FloatArray, data: Array, weights: Array | None) -> Array:
    counts = np.zeros(len(atoms), dtype=np.int64)
    lookup, codes = Lookup(atoms), np.empty(min(BLOCK_ROWS, len(data)), dtype=np.intp)
    for start in range(0, len(data), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = data[rows]
        if not lookup.find(block, codes[: len(block)]):  # NaN, or of a type that rounds
            codes[: len(block)] = np.searchsorted(atoms, block)
        part = None if weights is None else weights[rows]
        counts += np.bincount(codes[: len(block)], part, len(atoms)).astype(np.int64)
    return counts
