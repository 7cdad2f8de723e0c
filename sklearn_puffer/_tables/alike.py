"""Canonical values: equal ones are identical to the bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype

from sklearn_puffer._base import Array


def alike(column: Any) -> Any:
    """Return a column in which equal values are the same to the bit.

    There is one zero and one missing value, and equal objects have one type. A swap treats rows of
    equal values as the same: a sign, type or kind of missing value that only some have would reveal
    which rows have moved.
    """
    if isinstance(column, nw.Series):
        if column.dtype == nw.Categorical and column.implementation.is_pyarrow():
            return _one_code_each(column)
        return _alike_series(column) if column.dtype.is_float() else column
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
    if not _may_hide(dtype) or not column.isna().any():
        return column
    if column.isna().all():
        return pd.Series(None, column.index, dtype, name=column.name)
    return column.fillna(column.dropna().iloc[0]).mask(column.isna())


def _may_hide(dtype: Any) -> bool:
    """Return whether a type of pandas keeps values beneath its mask; nested types are left."""
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.type not in (list, dict)
    if isinstance(dtype, pd.StringDtype):
        return dtype.storage == "pyarrow"
    is_masked = isinstance(dtype, ExtensionDtype) and dtype.kind in "iufb"
    return is_masked and not isinstance(dtype, pd.SparseDtype)


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


def _one_code_each(column: nw.Series[Any]) -> nw.Series[Any]:
    """Return an Arrow dictionary in which each value has one code."""
    dictionaries = [chunk.dictionary for chunk in column.to_native().chunks]
    if all(len(each.unique()) == len(each) for each in dictionaries):
        return column
    return column.cast(nw.String).cast(nw.Categorical)


def _alike_series(column: nw.Series[Any]) -> nw.Series[Any]:
    # a plain name; polars drops the addition of 0.0; Arrow does not compare float16
    value = nw.col("values")
    one_zero = nw.when(value == 0.0).then(nw.lit(0.0)).otherwise(value).alias("values")
    zeroed = column.cast(nw.Float64).alias("values").to_frame().select(one_zero)["values"]
    return zeroed.fill_nan(None).cast(column.dtype).alias(column.name)


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
    if all(issubclass(kind, date | timedelta) for kind in {*map(type, objects[~gone])}):
        objects[~gone] = _alike_times(objects[~gone])
    objects[gone] = None
    return objects


def _alike_times(times: Array) -> Array:
    """Return dates and times, or durations, of one type, with fold 0."""
    kinds, alike_times = {*map(type, times)}, np.empty(len(times), dtype=object)
    one: Any = pd.Timedelta if any(issubclass(kind, timedelta) for kind in kinds) else pd.Timestamp
    typed = map(one, times) if len(kinds) > 1 else times
    alike_times[:] = [t.replace(fold=0) if isinstance(t, datetime) else t for t in typed]
    return alike_times


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
