"""Values written alike where they are equal, so that no bits tell them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import Array


def alike(column: Any) -> Any:
    """Return a column in which equal values are the same to the bit.

    There is one zero and one missing value, and equal objects have one type. A swap takes rows of
    equal values for the same: a sign, a type or a kind of missing value that only some of them have
    would tell which rows have moved.
    """
    if isinstance(column, nw.Series):
        return _alike_series(column) if column.dtype.is_float() else column
    if isinstance(column, pd.Series):
        cells = _alike_cells(column)
        if cells is None:
            return column
        return pd.Series(cells, column.index, column.dtype, name=column.name, copy=False)
    return _alike_array(column)


def _alike_series(column: nw.Series[Any]) -> nw.Series[Any]:
    # by a plain name; and not by adding 0.0, which polars leaves out
    value = nw.col("values")
    one_zero = nw.when(value == 0.0).then(nw.lit(0.0)).otherwise(value).alias("values")
    zeroed = column.alias("values").to_frame().select(one_zero)["values"]
    return zeroed.fill_nan(None).cast(column.dtype).alias(column.name)


def _alike_cells(column: pd.Series[Any]) -> Any:
    """Return the cells of a pandas column, or None if equal values are the same already."""
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
        numbers[np.isnan(numbers)] = np.nan  # of which there are many
        return numbers
    if cells.dtype.kind != "O":
        return cells
    objects = np.empty(len(cells), dtype=object)
    objects[:] = [_alike_object(cell) for cell in cells]
    objects[pd.isna(objects)] = None
    return objects


def _alike_object(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if not isinstance(value, Real) or not math.isfinite(value):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


def own_block(columns: Sequence[Any], *, down: bool = False) -> Array | None:
    """Return the block that was filled in place, if ``columns`` are its rows, or its columns."""
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
