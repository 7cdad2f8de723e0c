"""Digests of rows: numbers that depend on what a row holds alone, the same in every engine.

A number counts as a float, whatever its type, and a label by its letters, so that a digest does not
depend on how an engine stores either, on codes, or on the order of rows or columns. The functions
are our own and are never changed: which rows a sample has must not depend on a library's version.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._tables.values import Name, Values

LARGEST_DIGEST = (1 << 63) - 1

_STEP = np.uint64(0x9E3779B97F4A7C15)
_GONE = np.array([0x6D697373696E6721], dtype=np.uint64)


def row_digests(columns: Mapping[Name, Values]) -> Array:
    """Return the digest of each row, whole numbers between 0 and `LARGEST_DIGEST`.

    >>> ages = Values("integer", np.array([30, 20, 30]))
    >>> first, second, third = row_digests({"age": ages}).tolist()
    >>> first == third, first == second
    (True, False)
    """
    total: Array = np.zeros(1, dtype=np.uint64)
    for name, values in columns.items():
        # a sum has no order of columns; the name keeps two columns from being exchanged
        total = total + _mixed(_marks(values) ^ _of_text(f"column {name}"))
    return (_mixed(total) >> np.uint64(1)).astype(np.int64)


def row_marks(*words: Array) -> Array:
    """Return 64 bits for each row of some columns of 64 bits, as signed numbers."""
    total: Array = np.zeros(1, dtype=np.uint64)
    for own in words:
        total = _mixed(total ^ own.astype(np.uint64))
    return total.view(np.int64)


def smallest(digests: Array, most: int) -> Array:
    """Return which rows have one of the ``most`` smallest of the distinct digests.

    >>> smallest(np.array([7, 3, 3, 9]), 2).tolist()
    [True, True, True, False]
    """
    distinct = np.unique(digests)
    if len(distinct) <= most:
        return np.ones(len(digests), dtype=bool)
    kept: Array = digests <= distinct[most - 1]
    return kept


def _marks(values: Values) -> Array:
    """Return 64 bits for each value."""
    if values.kind == "category":
        levels = [_of_level(level) for level in values.levels or ()]
        codes = values.data if values.missing is None else np.where(values.missing, -1, values.data)
        found: Array = np.concatenate([*levels, _GONE])[codes]
        return found
    numbers = np.asarray(values.data, dtype=np.float64) + 0.0  # -0.0 is 0.0
    gone = np.isnan(numbers) if values.missing is None else values.missing | np.isnan(numbers)
    return np.where(gone, _GONE, _mixed(numbers.view(np.uint64)))


def _of_level(level: Any) -> Array:
    """Return 64 bits for a label, or for a category that is a number those of the number."""
    if isinstance(level, str):
        return _of_text(level)
    try:
        return _mixed((np.array([level], dtype=np.float64) + 0.0).view(np.uint64))
    except (TypeError, ValueError):  # such as an interval
        return _of_text(repr(level))


def _of_text(text: str) -> Array:
    data = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _mixed(bits: Array) -> Array:
    """Return the output function of SplitMix64 (Steele, Lea and Flood 2014) of each number."""
    bits = bits + _STEP
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ (bits >> np.uint64(31))
    return mixed
