"""Canonical values: equal ones are identical to the bit, and so are their digests.

Equal numbers have equal digests whatever their types, and labels count as text. Codes and the order
of rows or columns do not matter. The hash functions are defined here and never change, as samples
must not depend on the version of a library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype

from sklearn_puffer._base import LARGEST_INTEGER, Array
from sklearn_puffer._tables.values import Name, Values


def alike(column: Any) -> Any:
    """Return a column in which equal values are the same to the bit.

    There is one zero and one missing value, and equal objects have one type. A swap treats rows of
    equal values as the same: a sign, type or kind of missing value that only some have would reveal
    which rows have moved.
    """
    if isinstance(column, nw.Series):
        if column.dtype == nw.Categorical and column.implementation.is_pyarrow():
            # a dictionary of Arrow may have several codes for one value
            dictionaries = [chunk.dictionary for chunk in column.to_native().chunks]
            once = all(len(each.unique()) == len(each) for each in dictionaries)
            return column if once else column.cast(nw.String).cast(nw.Categorical)
        if not column.dtype.is_float():
            return column
        # a plain name; polars drops the addition of 0.0; Arrow does not compare float16
        value = nw.col("values")
        one_zero = nw.when(value == 0.0).then(nw.lit(0.0)).otherwise(value).alias("values")
        zeroed = column.cast(nw.Float64).alias("values").to_frame().select(one_zero)["values"]
        return zeroed.fill_nan(None).cast(column.dtype).alias(column.name)
    if isinstance(column, pd.Series):
        cells = _alike_cells(column)
        if cells is None:
            return column
        return pd.Series(cells, column.index, column.dtype, name=column.name, copy=False)
    return _alike_array(column)


def bare(column: Any) -> Any:
    """Return a column without values beneath its mask.

    Nullable types keep a value under each missing one: often that which was masked, and pickles,
    Feather and Arrow files keep it, too. Here it is the same for all.
    """
    if isinstance(column, nw.Series):
        return _bare_series(column)
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, pd.ArrowDtype):
        hides = dtype.type not in (list, dict)  # nested types are left
    elif isinstance(dtype, pd.StringDtype):
        hides = dtype.storage == "pyarrow"
    else:
        hides = isinstance(dtype, ExtensionDtype) and dtype.kind in "iufb"
        hides &= not isinstance(dtype, pd.SparseDtype)
    if not hides or not column.isna().any():
        return column
    if column.isna().all():
        return pd.Series(None, column.index, dtype, name=column.name)
    return column.fillna(column.dropna().iloc[0]).mask(column.isna())


def _bare_series(column: nw.Series[Any]) -> nw.Series[Any]:
    dtype, there = column.dtype, column.drop_nulls()
    others = (nw.Boolean, nw.String, nw.Categorical, nw.Enum)
    plain = dtype.is_numeric() or dtype.is_temporal() or dtype in others
    if not plain or len(there) == len(column):
        return column
    if not len(there):
        none = [None] * len(column)
        return nw.new_series(column.name, none, dtype, backend=column.implementation)
    filled = column.fill_null(there[0]).alias("values").to_frame()
    both = filled.with_columns(column.is_null().alias("gone"))
    masked = nw.when(~nw.col("gone")).then(nw.col("values")).alias("values")
    return both.select(masked)["values"].alias(column.name)


def _alike_cells(column: pd.Series[Any]) -> Any:
    """Return the cells of a pandas column, None if they are canonical already."""
    if isinstance(column.dtype, np.dtype):
        kind = column.dtype.kind
        return _alike_array(column.to_numpy()) if kind in ("f", "O") else None
    if not pd.api.types.is_float_dtype(column.dtype):
        return None
    dtype: Any = column.dtype
    cells = _alike_array(column.to_numpy(dtype=np.float64, na_value=np.nan)).tolist()
    return pd.array([None if math.isnan(cell) else cell for cell in cells], dtype=dtype)


def _alike_array(cells: Array) -> Array:
    if cells.dtype.kind == "f":
        numbers: Array = cells + cells.dtype.type(0.0)  # -0.0 is 0.0 then
        numbers[np.isnan(numbers)] = np.nan  # NaN has many bit patterns
        return numbers
    if cells.dtype.kind != "O":
        return cells
    objects = np.empty(len(cells), dtype=object)
    objects[:] = [_alike_object(cell) for cell in cells]
    gone = pd.isna(objects)
    kinds = {*map(type, objects[~gone])}
    if all(issubclass(kind, date | timedelta) for kind in kinds):  # of one type, with fold 0
        of_durations = any(issubclass(kind, timedelta) for kind in kinds)
        one: Any = pd.Timedelta if of_durations else pd.Timestamp
        times = [one(time) if len(kinds) > 1 else time for time in objects[~gone]]
        for row, time in zip(np.flatnonzero(~gone), times, strict=True):
            objects[row] = time.replace(fold=0) if isinstance(time, datetime) else time
    objects[gone] = None
    return objects


def _alike_object(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Decimal) and value.is_finite():
        return Decimal(int(value)) if value == int(value) else value.normalize()
    if isinstance(value, Integral):  # which a float may not hold
        return int(value)
    if not isinstance(value, Real) or not math.isfinite(value):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


def own_block(columns: Sequence[Any], *, down: bool = False) -> Array | None:
    """Return the array whose rows (or columns, if ``down``) are ``columns``, or None."""
    if not columns or not all(isinstance(column, np.ndarray) for column in columns):
        return None
    block = columns[0].base
    if block is None or block.ndim != 2:
        return None
    rows = block.T if down else block
    if len(rows) != len(columns):
        return None
    addresses = [(column.ctypes.data, column.shape) for column in columns]
    return block if addresses == [(column.ctypes.data, column.shape) for column in rows] else None


# ---------------------------------------------------------------------------------- digests

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
