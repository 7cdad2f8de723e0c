"""Digests of rows, which depend on values alone, and are equal in every engine.

Equal numbers have equal digests whatever their types, and labels count as text. Codes and the order
of rows or columns do not matter. The hash functions are defined here and never change, as samples
must not depend on the version of a library.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from sklearn_puffer._base import LARGEST_INTEGER, Array
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
        # a sum does not depend on the order of columns; the name distinguishes them
        total = total + _mixed(_hashes(values) ^ _of_text(f"column {name}"))
    return (_mixed(total) >> np.uint64(1)).astype(np.int64)


def row_hashes(*words: Array) -> Array:
    """Return a 64-bit hash of each row of columns of 64 bits, as signed numbers."""
    total: Array = np.zeros(1, dtype=np.uint64)
    for column in words:
        total = _mixed(total ^ column.astype(np.uint64))
    return total.view(np.int64)


def _hashes(values: Values) -> Array:
    """Return a 64-bit hash of each value."""
    if values.kind == "category":
        levels = [_of_level(level) for level in values.levels or ()]
        hashes: Array = np.concatenate([*levels, _GONE])[values.filled(-1)]
        return hashes
    hashes = _of_numbers(np.asarray(values.data))
    missing = np.isnan(values.data)  # even beside a mask: a nullable column may hold NaN as well
    if values.missing is not None:
        missing = missing | values.missing
    return np.where(missing, _GONE, hashes)


def _of_numbers(numbers: Array) -> Array:
    """Return a 64-bit hash of each number: of its float, and the integer if no float holds it."""
    floats = numbers.astype(np.float64) + 0.0  # -0.0 is 0.0
    hashes = _mixed(floats.view(np.uint64))
    if numbers.dtype.kind not in "iu" or numbers.dtype.itemsize < floats.itemsize:
        return hashes
    bits = numbers.astype(np.uint64)
    magnitudes = np.where(numbers < 0, np.uint64(0) - bits, bits)
    lowest_bits = magnitudes & (np.uint64(0) - magnitudes)
    without_float = magnitudes // np.maximum(lowest_bits, np.uint64(1)) > LARGEST_INTEGER
    return np.where(without_float, _mixed(hashes ^ bits), hashes)


def _of_level(level: Any) -> Array:
    """Return a 64-bit hash of a label; a category that is a number has that of the number."""
    if isinstance(level, str):
        return _of_text(level)
    try:
        number = np.array(level)
        number = number if number.dtype.kind in "iu" else number.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # such as an interval
        return _of_text(repr(level))
    return _of_text(repr(level)) if number.ndim else _of_numbers(number[None])


def _of_text(text: str) -> Array:
    data = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _mixed(bits: Array) -> Array:
    """Apply the output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    bits = bits + _STEP
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ (bits >> np.uint64(31))
    return mixed
