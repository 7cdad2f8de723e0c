"""Arrays as they arrive: nothing is merged, no mask is lost, no table is read by position.

A conversion that makes two values equal would take them for one value, and a promise about the two
would be about nothing. So wherever values become float64, as many are distinct after as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getattr_static
from math import isnan
from typing import Any

import numpy as np

from sklearn_puffer._base.arguments import on_one_line, plain
from sklearn_puffer._base.types import Array, FloatArray

LARGEST_INTEGER = 2**53 - 1
"""Up to here every integer is a float64 of its own; what lies beyond may round to 2^53."""

# What a table has whose columns have names; the columns of an array are places, and it has none.
_MARKS_OF_TABLES = ("columns", "schema", "__dataframe__", "dims")
_MARKS_OF_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
# Ways to a table that is known. A way of others may stand later too: Spark has `collect`.
_WAYS = (
    *("toPandas", "to_native", "to_dataframe", "df", "read_all"),
    *("compute", "to_frame", "to_pandas", "collect", "to_table"),
)


def refuse_tables(values: Any, name: str) -> None:
    """Refuse what has columns with names, unless it is known: by place they may be other columns.

    Raises
    ------
    TypeError

    Examples
    --------
    >>> refuse_tables([[1, 2]], "X")
    """
    if _is_table(values, (*_MARKS_OF_TABLES, *_MARKS_OF_ARROW)):
        way = way_to_table(values, name)
        raise TypeError(
            f"{name} is {_kind(values)}, whose columns would be taken by position; convert it to a "
            "pandas or polars DataFrame or a pyarrow Table"
            f"{f', for example {way}' if way else ''}."
        )


def way_to_table(values: Any, name: str) -> str:
    """Return the call that makes a known table of one that is not; nothing where there is none."""
    ways = [way for way in _WAYS if callable(getattr(type(values), way, None))]
    return f"{name}.{ways[0]}()" if ways else ""


def _is_table(values: Any, marks: Sequence[str]) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.names is not None
    # without asking a lazy table for what would set it to work
    if any(getattr_static(values, mark, None) is not None for mark in marks):
        return True
    return hasattr(type(values), "__getattr__") and any(hasattr(values, mark) for mark in marks)


def _kind(values: Any) -> str:
    if isinstance(values, np.ndarray):
        return "a structured array"
    return f"a {type(values).__name__} ({type(values).__module__.partition('.')[0]})"


def refuse_masked(values: Any, name: str) -> None:
    """Refuse masked arrays, also in a list: a conversion would bring back what the mask hides.

    Raises
    ------
    TypeError

    Examples
    --------
    >>> refuse_masked(np.ma.array([1, 2]), "X")
    Traceback (most recent call last):
    ...
    TypeError: X is a masked array, whose mask would be lost; pass X.filled(...), ...
    """
    parts = values if isinstance(values, list | tuple) else ()
    inside = any(isinstance(part, np.ma.MaskedArray) and part.ndim for part in parts)
    if isinstance(values, np.ma.MaskedArray) or inside:
        raise TypeError(
            f"{name} {'holds' if inside else 'is'} a masked array, whose mask would be lost; pass "
            f"{name}.filled(...), with NaN where a value is missing, or leave those rows out."
        )


def as_array(values: Any, name: str) -> Array:
    """Return values as an array, of objects where numpy has no type that keeps them apart.

    Parameters
    ----------
    values : array-like
    name : str
        What an error calls it.

    Raises
    ------
    TypeError
        If it is a masked array or a table.
    ValueError
        If it is a list of lists of different lengths.

    Examples
    --------
    >>> as_array([1, 0.5], "x"), as_array([1, "1"], "x")
    (array([1. , 0.5]), array([1, '1'], dtype=object))
    """
    refuse_masked(values, name)
    array = None if _is_table(values, _MARKS_OF_TABLES) else _evenly(values, name)
    if array is None or (array.ndim > 1 and _is_table(values, _MARKS_OF_ARROW)):
        raise TypeError(
            f"{name} is {_kind(values)}, whose columns would be taken by position; pass an array "
            "of them in the order that is asked for."
        )
    if array is values or hasattr(values, "dtype") or not _may_have_merged(array):
        return array
    objects = np.array(values, dtype=object)
    return array if _all_same(array.astype(object), objects) else objects


def _evenly(values: Any, name: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a list, or rows of one length: {error}") from error


def _may_have_merged(array: Array) -> bool:
    """Return whether numpy may have taken values of a list for others: strings, large floats."""
    if array.dtype.kind in "fc":
        far = np.abs(array[np.isfinite(array)]).max(initial=0.0)
        return bool(far > LARGEST_INTEGER)
    return array.dtype.kind in "US"


def _all_same(some: Array, others: Array) -> bool:
    """Return whether objects are equal one by one, NaN to NaN, and a string to no number."""
    if some.shape != others.shape:
        return False
    return bool(np.all((some == others) | ((some != some) & (others != others))))


def real_numbers(values: Any, name: str) -> FloatArray:
    """Return numbers as float64, rounded where they are none.

    Parameters
    ----------
    values : array-like
    name : str
        What an error calls them.

    Raises
    ------
    TypeError
        If they are no real numbers, a masked array or a table.
    ValueError
        If one is beyond all floats.

    Examples
    --------
    >>> real_numbers([1, 2], "scales").tolist()
    [1.0, 2.0]
    """
    return _converted(as_array(values, name), name)


def floats(values: Any, name: str) -> FloatArray:
    """Return numbers as float64, of which as many are distinct in each column as there were.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, d)
    name : str
        What an error calls them.

    Raises
    ------
    TypeError
        If they are no real numbers, a masked array or a table.
    ValueError
        If float64 cannot tell two of them apart, or one is beyond all floats.

    Examples
    --------
    >>> floats([2**53, 2**53 + 1], "atoms")
    Traceback (most recent call last):
    ...
    ValueError: atoms hold 9007199254740992 and 9007199254740993, which float64 cannot tell ...
    """
    array = as_array(values, name)
    converted = _converted(array, name)
    small = array.dtype.kind in "biuf" and array.dtype.itemsize <= 4
    if array.dtype == np.float64 or small or not array.size:
        return converted  # these are float64 numbers all
    columns = array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1)
    for before, after in zip(columns.T, converted.reshape(columns.shape).T, strict=True):
        merged = merged_values(before, after)
        if merged is not None:
            raise ValueError(
                f"{name} hold {merged[0]!r} and {merged[1]!r}, which float64 cannot tell apart; "
                "subtract an offset, or round them first."
            )
    return converted


def _converted(array: Array, name: str) -> FloatArray:
    parts = array.ravel().tolist() if array.dtype.kind == "O" else ()
    strange = any(isinstance(part, str | bytes | complex) for part in parts)
    if array.dtype.kind not in "biufO" or strange:
        raise TypeError(
            f"{name} must hold real numbers, got {_sort_of(array)}; convert them first."
        )
    try:
        with np.errstate(over="ignore"):  # infinity is refused where it has no place
            return np.asarray(array, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(
            f"{name} must hold numbers below 1e308, got a larger one; choose another unit."
        ) from error
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers: {on_one_line(error)}.") from error


def _sort_of(array: Array) -> str:
    return {"c": "complex ones", "S": "bytes", "U": "strings"}.get(array.dtype.kind, "other values")


def merged_values(before: Array, after: FloatArray) -> tuple[Any, Any] | None:
    """Return two different values of one column that a conversion made equal, or None.

    >>> merged_values(np.array([2**53, 2**53 + 1]), np.array([2.0**53, 2.0**53]))
    (9007199254740992, 9007199254740993)
    """
    if before.dtype.kind in "iu" and np.abs(after).max(initial=0.0) <= LARGEST_INTEGER:
        return None
    found: dict[float, Any] = {}
    for value, number in zip(map(plain, before.tolist()), after.tolist(), strict=True):
        other = found.setdefault(number, value)
        if other != value and not isnan(number):
            return other, value
    return None


def inexact(before: Array, after: FloatArray) -> Any:
    """Return a value that a conversion to float64 changed, or None.

    >>> inexact(np.array([2**53, 2**53 + 1]), np.array([2.0**53, 2.0**53]))
    9007199254740993
    """
    objects = before.astype(object)
    changed = (objects != after.astype(object)) & ~np.isnan(after)
    return plain(objects[changed][0]) if np.any(changed) else None
