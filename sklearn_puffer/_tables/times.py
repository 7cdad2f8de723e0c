"""Dates, times and durations as whole numbers of a unit, and back in their own type.

The unit is that of numpy, such as ``datetime64[D]``: days since 1970-01-01, or the finest of s, ms,
us and ns that occurs. Time zones count as UTC.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._tables.values import Name, Values

_SIZES = {
    "D": 86_400_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}  # nanoseconds
UNITS = tuple(f"{kind}64[{size}]" for kind in ("datetime", "timedelta") for size in _SIZES)
_LARGEST = 2**63 - 1
_FARTHEST_HALF = 2.0**52 - 0.5
_YEARS = (dt.date(1, 1, 2).toordinal(), dt.date(9999, 12, 30).toordinal())
_EPOCH = dt.date(1970, 1, 1).toordinal()
_MOST_DAYS = 106_751_990  # in 64 bits of microseconds, so that every library shows them


# a column as integers in the unit of its own type, which are missing, "datetime" or "timedelta",
# and the size of the unit
_Instants = tuple[IntArray, Array, str, str]


def time_values(column: Any, name: Name, unit: str | None = None) -> Values | None:
    """Return a column of dates, times or durations as integers; None for other columns.

    Parameters
    ----------
    column : Series or ndarray
    name : str or int
    unit : str or None
        The unit of the column in `fit`; None takes the coarsest in which all values are whole.

    Raises
    ------
    TypeError
        If it holds periods, objects with a time zone, or dates where `fit` saw durations.

    Examples
    --------
    >>> found = time_values(pd.Series(pd.to_datetime(["1970-01-03", None])), "since")
    >>> found.unit, found.data.tolist(), found.missing.tolist()
    ('datetime64[D]', [2, 0], [False, True])
    """
    found = _instants(column, name)
    if found is None:
        return None
    numbers, gone, kind, size = found
    numbers = np.where(gone, 0, numbers)
    if unit is None:  # the coarsest in which all numbers are whole
        coarser = [other for other in _SIZES if _SIZES[other] >= _SIZES[size]]
        whole = (u for u in coarser if not (numbers % (_SIZES[u] // _SIZES[size])).any())
        unit = f"{kind}64[{next(whole)}]"
    if not unit.startswith(kind):
        what = {"datetime": "dates", "timedelta": "durations"}
        other = what["timedelta" if kind == "datetime" else "datetime"]
        raise TypeError(
            f"column {name!r} holds {what[kind]}, and held {other} in fit; convert it to the type "
            "of the fitted table."
        )
    data = _in_unit(numbers, size, _size_of(unit))
    missing = gone if gone.any() else None
    if data.dtype.kind == "f":
        return Values("float", np.where(gone, np.nan, data), missing, unit=unit)
    return Values("integer", data, missing, unit=unit)


def _size_of(unit: str) -> str:
    return unit[unit.index("[") + 1 : -1]


def _in_unit(numbers: IntArray, size: str, wanted: str) -> Array:
    """Convert integers to another unit; to floats if they are not whole there, or overflow."""
    if _SIZES[wanted] >= _SIZES[size]:
        factor = _SIZES[wanted] // _SIZES[size]
        whole, rest = np.divmod(numbers, factor)
        if not rest.any():
            return whole
        # what has a rest stays between two whole numbers, however near; larger floats are whole
        parts = np.clip(numbers / factor, -_FARTHEST_HALF, _FARTHEST_HALF)
        parts = np.where(parts % 1.0 == 0.0, np.nextafter(parts, whole + 0.5), parts)
        return np.where(rest == 0, whole, parts)
    factor = _SIZES[size] // _SIZES[wanted]
    if np.abs(numbers, dtype=float).max(initial=0.0) >= _LARGEST / factor:
        return numbers * float(factor)
    return numbers * factor


# ----------------------------------------------------------------------------------------- reading


def _instants(column: Any, name: Name) -> _Instants | None:
    if isinstance(column, nw.Series):
        return _of_narwhals(column)
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype) and dtype.kind in "mM":
        return _of_narwhals(nw.from_native(column.array.__arrow_array__(), series_only=True))
    if isinstance(dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if getattr(column.dtype, "kind", "") in "mM" and isinstance(column.dtype, np.dtype):
        return _of_numpy(np.asarray(column))
    if column.dtype == np.dtype(object):
        return _of_objects(np.asarray(column, dtype=object), name)
    return None


def _of_numpy(times: Array) -> _Instants:
    """Return the integers of a numpy array; units such as hours are converted to a finer one."""
    size = np.datetime_data(times.dtype)[0]
    kind = "datetime" if times.dtype.kind == "M" else "timedelta"
    if size not in _SIZES or np.datetime_data(times.dtype)[1] != 1:
        size = "ns" if size in ("ps", "fs", "as") else "D" if size in ("Y", "M", "W") else "s"
        times = times.astype(f"{kind}64[{size}]")
    return times.astype(f"{kind}64[{size}]").view(np.int64), np.isnat(times), kind, size


def _of_narwhals(column: nw.Series[Any]) -> _Instants | None:
    dtype = column.dtype
    if dtype == nw.Date:
        kind, size, numbers = "datetime", "D", column.cast(nw.Int32)
    elif isinstance(dtype, nw.Datetime | nw.Duration):
        kind = "datetime" if isinstance(dtype, nw.Datetime) else "timedelta"
        size, numbers = dtype.time_unit, column
    else:
        return None
    filled = numbers.cast(nw.Int64).fill_null(0).to_numpy().astype(np.int64)
    return filled, column.is_null().to_numpy(), kind, size


def _of_objects(objects: Array, name: Name) -> _Instants | None:
    """Read Python dates, times or durations of one kind; None for other objects."""
    gone = np.asarray(pd.isna(objects), dtype=bool)
    present = objects[~gone]
    inferred = pd.api.types.infer_dtype(present, skipna=False) if present.size else ""
    kinds = {"date": "datetime64[D]", "timedelta": "timedelta64[us]"}
    kinds |= {"datetime": "datetime64[us]"}
    if inferred not in kinds:
        return None
    if any(getattr(value, "tzinfo", None) is not None for value in present):
        raise TypeError(
            f"column {name!r} holds times with a zone as Python objects; convert it to a type with "
            f"one zone, pd.to_datetime(X[{name!r}], utc=True)."
        )
    finest = ("nanosecond", "nanoseconds")  # which pandas times and durations have
    if any(getattr(value, part, 0) for value in present for part in finest):
        raise TypeError(
            f"column {name!r} holds nanoseconds as Python objects; convert it to a type of its "
            f"own, pd.to_datetime(X[{name!r}])."
        )
    times = np.full(len(objects), "NaT", dtype=kinds[inferred])
    times[~gone] = present.astype(kinds[inferred])
    return _of_numpy(times)


# ----------------------------------------------------------------------------------------- writing


def written_times(numbers: Array, gone: Array | None, unit: str, like: Any) -> Any:
    """Return integers of a unit in the type of a column, clipped to its range.

    The range is that of the type within the years 1 to 9999, whatever the data.

    >>> like = pd.Series(["2020-01-01"], dtype="datetime64[s]")
    >>> written_times(np.array([2**62]), None, "datetime64[D]", like).dt.year.tolist()
    [9999]
    """
    kind, size = unit.partition("64")[0], _size_of(unit)
    missing = np.zeros(len(numbers), dtype=bool) if gone is None else gone
    dtype: Any = like.dtype
    if isinstance(like, nw.Series):
        native = "D" if dtype == nw.Date else str(dtype.time_unit)
        whole = _saturated(numbers, kind, size, native).tolist()
        values = [None if gone else x for x, gone in zip(whole, missing, strict=True)]
        made = nw.new_series(like.name, values, nw.Int64, backend=like.implementation)
        return (made.cast(nw.Int32) if dtype == nw.Date else made).cast(dtype)
    if isinstance(dtype, pd.ArrowDtype):
        arrow = nw.from_native(like.array.__arrow_array__(), series_only=True)
        written = written_times(numbers, gone, unit, arrow).to_native()
        return pd.Series(pd.arrays.ArrowExtensionArray(written), index=like.index)
    if dtype == np.dtype(object):  # Python dates if the column holds dates, else times or durations
        sample = next((value for value in np.asarray(like) if not pd.isna(value)), None)
        dates = isinstance(sample, dt.date) and not isinstance(sample, dt.datetime)
        native = "D" if dates else "us"
        objects = _saturated(numbers, kind, size, native).view(f"{kind}64[{native}]").astype(object)
        objects[missing] = None
        return objects if isinstance(like, np.ndarray) else pd.Series(objects, like.index, object)
    zone = getattr(dtype, "tz", None)
    native = dtype.unit if zone is not None else np.datetime_data(dtype)[0]
    native = native if native in _SIZES else "s"
    times = _saturated(numbers, kind, size, native).view(f"{kind}64[{native}]")
    times[missing] = "NaT"
    if isinstance(like, np.ndarray):
        return times
    column = pd.Series(times, index=like.index, copy=False)
    return column if zone is None else column.dt.tz_localize("UTC").dt.tz_convert(zone)


def _saturated(numbers: Array, kind: str, size: str, native: str) -> IntArray:
    """Convert integers to the unit of a type, clipped to the range of both."""
    factor = _SIZES[size] / _SIZES[native]
    days = [y - _EPOCH for y in _YEARS] if kind == "datetime" else [-_MOST_DAYS, _MOST_DAYS]
    room = 3 * _SIZES["D"] // _SIZES[native]  # for zones, which are shown in local time
    low, high = (day * (_SIZES["D"] // _SIZES[native]) for day in days)
    low, high = max(low, room - _LARGEST), min(high, _LARGEST - room)
    if factor >= 1.0:
        whole = _SIZES[size] // _SIZES[native]
        within: IntArray = np.clip(numbers, -(-low // whole), high // whole).astype(np.int64)
        return within * whole
    coarse: IntArray = np.clip(numbers // (_SIZES[native] // _SIZES[size]), low, high)
    return coarse.astype(np.int64)


# -------------------------------------------------------------------------------------- days

_INFERRED = frozenset({"date", "datetime", "datetime64", "period", "timedelta", "timedelta64"})


def date_columns(frame: pd.DataFrame) -> list[Name]:
    """Return the columns of dates, times and durations.

    >>> date_columns(pd.DataFrame({"a": [1], "since": [pd.Timestamp(2020, 1, 1)]}))
    ['since']
    """
    return [name for name in frame.columns if _kind(frame[name]) in _INFERRED]


def _kind(column: pd.Series[Any]) -> str:
    """Return the kind that pandas infers, for types that may hold dates."""
    timed = getattr(column.dtype, "kind", "") in "mMO" or isinstance(column.dtype, pd.PeriodDtype)
    return str(pd.api.types.infer_dtype(column, skipna=True)) if timed else ""


def in_whole_days(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a DataFrame with dates as whole days since 1970-01-01, and durations as whole days.

    Time zones count as UTC. Missing values stay missing; other columns are unchanged.

    >>> in_whole_days(pd.DataFrame({"since": [pd.Timestamp(1970, 1, 3, 15)], "job": ["cook"]}))
       since   job
    0      2  cook
    """
    frame = frame.copy(deep=False)
    for name in date_columns(frame):
        times = time_values(frame[name], name)
        if times is not None and times.unit is not None:
            numbers = times.data // (_SIZES["D"] // _SIZES[_size_of(times.unit)])
            days = pd.Series(numbers, index=frame.index)
            gone = times.missing
            frame[name] = days if gone is None else days.astype("Int64").mask(gone)
    return frame
