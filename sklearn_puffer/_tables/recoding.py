"""Tables with some columns written in another way, before anything is fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date
from typing import Any

import narwhals as nw
import pandas as pd

from sklearn_puffer._tables.values import Name

_DAY = pd.Timedelta(days=1)
_EPOCH = date(1970, 1, 1).toordinal()
_DATES = frozenset({"date", "datetime", "datetime64", "period"})
_DURATIONS = frozenset({"timedelta", "timedelta64"})


def date_columns(frame: pd.DataFrame) -> list[Name]:
    """Return the columns of dates, times and durations.

    >>> date_columns(pd.DataFrame({"a": [1], "since": [pd.Timestamp(2020, 1, 1)]}))
    ['since']
    """
    return [name for name in frame.columns if _kind(frame[name]) in _DATES | _DURATIONS]


def _kind(column: pd.Series[Any]) -> str:
    """Return what pandas takes the values for, of types that may hold dates."""
    timed = getattr(column.dtype, "kind", "") in "mMO" or isinstance(column.dtype, pd.PeriodDtype)
    return str(pd.api.types.infer_dtype(column, skipna=True)) if timed else ""


def recoded(X: Any, days: Sequence[Name] = ()) -> Any:
    """Return a DataFrame with dates as whole days; other columns as they are.

    Parameters
    ----------
    X : DataFrame
    days : sequence of names
        Columns of dates, which become days since 1970-01-01, and of durations, which become days.
        Times of the day are dropped, time zones count as UTC. Those that X lacks are left out.

    Examples
    --------
    >>> X = pd.DataFrame({"since": [pd.Timestamp(1970, 1, 3, 15)], "job": ["cook"]})
    >>> recoded(X, days=["since"])
       since   job
    0      2  cook
    """
    if not isinstance(X, pd.DataFrame):
        return _as_native(X, recoded(_in_pandas(X, days), days))
    found = {name: _as_days(X[name]) for name in days if name in X.columns}
    X = X.copy(deep=False)
    for name, column in found.items():
        X[name] = column
    return X


def _as_days(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return whole days, as integers that may be missing where some are."""
    missing = column.isna()
    present = column[~missing]
    days = _durations(present) if _kind(column) in _DURATIONS else _dates(present)
    return days.reindex(column.index).astype("Int64") if missing.any() else days


def _durations(column: pd.Series[Any]) -> pd.Series[Any]:
    return (pd.to_timedelta(column) // _DAY).astype("int64")


def _dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return days since 1970-01-01, of any century."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    if column.dtype == object:
        found = [_in_utc(value).toordinal() - _EPOCH for value in column]
        return pd.Series(found, index=column.index, dtype="int64")
    if column.dt.tz is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    days = column.to_numpy().astype("datetime64[D]").astype("int64")
    return pd.Series(days, index=column.index)


def _in_utc(value: Any) -> Any:
    """Return a date, or a time in UTC where it has a zone."""
    zoned = getattr(value, "tzinfo", None) is not None
    return value.astimezone(UTC) if zoned else value


def _in_pandas(X: Any, names: Sequence[Name]) -> pd.DataFrame:
    frame = nw.from_native(X, eager_only=True)
    return pd.DataFrame({name: frame[name].to_list() for name in names if name in frame.columns})


def _as_native(X: Any, changed: pd.DataFrame) -> Any:
    """Return the caller's frame with those columns in the place of its own."""
    frame = nw.from_native(X, eager_only=True)
    space = nw.get_native_namespace(frame)
    columns = [
        nw.new_series(str(name), [None if pd.isna(v) else v for v in changed[name]], backend=space)
        for name in changed.columns
    ]
    return frame.with_columns(*columns).to_native() if columns else X
