"""Values of a column as those of its kind, and checks that they are.

Tables with some columns written in another way, before anything is fitted to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import LARGEST_INTEGER, Array
from sklearn_puffer._tables.values import Kind, Name, Values

Missing = Literal["error", "category", "propagate"]


def of_kind(kind: Kind, values: Values) -> Values:
    """Return a column of objects that are all missing, which has no kind of its own, as of a kind.

    Rows that lack the value would be refused by themselves, and not beside others.
    """
    if values.kind != "category" or present(values).size:
        return values
    types: dict[Kind, type] = {"float": np.float64, "integer": np.int64, "boolean": np.bool_}
    data: Array = np.zeros(len(values), dtype=types[kind])
    if kind == "float":
        data[:] = np.nan
    return Values(kind, data, values.missing, counts=values.counts)


def as_levels(values: Values) -> Values:
    """Return a column of numbers as codes into its distinct numbers; others as they are."""
    if values.kind == "category":
        return values
    levels = np.unique(present(values))
    codes = np.searchsorted(levels, values.data)
    codes = codes if values.missing is None else np.where(values.missing, -1, codes)
    return Values("category", codes, values.missing, tuple(levels.tolist()), counts=values.counts)


def used_levels(values: Values) -> list[Any]:
    """Return the levels that occur, in their order."""
    assert values.levels is not None
    return [values.levels[code] for code in np.unique(present(values))]


def without_unused(values: Values) -> Values:
    """Return a column with the levels that occur only, unless its own type declares more."""
    if values.levels is None or values.declared:
        return values
    seen = np.unique(present(values))
    codes = np.where(values.data < 0, -1, np.searchsorted(seen, values.data))
    return replace(values, data=codes, levels=tuple(used_levels(values)))


def present(values: Values) -> Array:
    """Return the values that are not missing."""
    return values.data if values.missing is None else values.data[~values.missing]


def check_missing(values: Values, name: Name, missing: Missing) -> None:
    """Refuse missing values under ``missing="error"``, and where they have no place."""
    if values.missing is None:
        return
    count = values.n_missing
    if missing == "error":
        ways = 'missing="category" or ' if values.kind in ("category", "boolean") else ""
        raise ValueError(
            f"column {name!r} has {count} missing value(s) (NaN); drop or fill those rows, or pass "
            f'{ways}missing="propagate".'
        )
    if missing == "category" and values.kind in ("float", "integer"):
        raise ValueError(
            f'missing="category" gives {name!r} no place for its {count} missing value(s) (NaN): '
            'the column is numeric; fill them, make it categorical, or use missing="propagate".'
        )


def check_whole(values: Values, name: Name) -> None:
    """Refuse missing values and infinities."""
    check_missing(values, name, "error")
    if values.kind == "float":
        check_finite(values.data, name)


def check_finite(block: Array, name: Name) -> None:
    """Refuse NaN and infinities by name."""
    if block.size and not (np.isfinite(block.min()) and np.isfinite(block.max())):
        bad = block[~np.isfinite(block)]
        word = "NaN" if np.isnan(bad[0]) else "infinity"
        raise ValueError(
            f"column {name!r} contains {word}; drop or replace such values in fit and transform."
        )


def check_integers(data: Array, name: Name) -> None:
    """Refuse integers that float64 cannot tell apart."""
    if not data.size or data.dtype.itemsize < 8:
        return
    farthest = max(int(data.max()), int(data.min()), key=abs)
    if abs(farthest) > LARGEST_INTEGER:
        raise ValueError(
            f"column {name!r} holds integers beyond 2^53 - 1, such as {farthest}, which float64 "
            "cannot tell apart; subtract an offset, or drop it if it is an identifier."
        )


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
