"""Columns that look like identifiers: nearly every value is different."""

from __future__ import annotations

import datetime as dt

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._tables import Name, Values


def hardly_repeats(n_distinct: int, n_rows: int, least: int = 20) -> bool:
    """Return whether a column looks continuous, or like an identifier.

    >>> hardly_repeats(900, 1000), hardly_repeats(5, 1000)
    (True, False)
    """
    return n_distinct >= least and 2 * n_distinct > n_rows


def check_no_identifier(
    name: Name, values: Values, weights: Array | None = None, *, named: bool, ids: bool = False
) -> None:
    """Refuse to release a column that looks like an identifier of the rows.

    Text and categories whose values hardly repeat are always refused. Whole numbers that nearly all
    differ, and dates, are refused unless they are ``named``. Floats with fractions and durations
    never are. Missing values do not count.

    Parameters
    ----------
    name : str or int
    values : Values
    weights : ndarray of int of shape (n,), or None
        The count of each value; None takes ``values.counts``, or 1.
    named : bool
        Whether ``public=`` names the column.
    ids : bool, default=False
        Whether the estimator has ``ids=``.

    Raises
    ------
    ValueError
        Naming the column and the way out.
    """
    what = identifier_kind(values, weights)
    stays = f"; ids={name!r} would release it as it is" if ids else ""
    if what == "text":
        raise ValueError(
            f"column {name!r} looks like an identifier: {_how_many(values, weights)} are "
            f"different; {WAY_OF_TEXT}{stays}."
        )
    if what == "number" and not named:
        raise ValueError(
            f"column {name!r} looks like an identifier: {_how_many(values, weights)} are "
            f"different; leave it out of X, or name it in public= if it is to be released{stays}."
        )
    if what == "date" and not named:
        raise ValueError(
            f"column {name!r} holds dates, by which others may know people; leave it out of X, or "
            f"name it in public= if it is to be released{stays}."
        )


WAY_OF_TEXT = (
    "leave it out of X or of public=, merge its values, or parse dates (pd.to_datetime) and name "
    "the column in public="
)
"""The way out for text that hardly repeats."""


def identifier_kind(values: Values, weights: Array | None = None) -> str:
    """Return "text", "number" or "date" if a column may identify rows, else "".

    Dates are identifiers even if they repeat, as others may know them.

    >>> identifier_kind(Values("integer", np.arange(1000)))
    'number'
    >>> identifier_kind(Values("integer", np.arange(1000) % 900))
    ''
    >>> identifier_kind(Values("float", np.arange(1000) / 3))
    ''
    """
    if values.kind == "category" and hardly_repeats(*_n_different(values, weights)):
        return "text"
    if _are_dates(values):
        return "date"
    if values.unit is not None or values.kind in ("boolean", "category"):
        return ""
    if not _may_be_key(values.present, values.counts):
        return ""
    n_different, n_rows = _n_different(values, weights)
    return "number" if n_different >= _LEAST_KEYS and 20 * n_different > 19 * n_rows else ""


_LEAST_KEYS = 20


def _are_dates(values: Values) -> bool:
    """Return whether a column holds dates or times, or is a categorical one of them."""
    if values.levels is not None:
        return any(isinstance(level, dt.date) for level in values.levels)
    return values.unit is not None and values.unit.startswith("datetime")


def _may_be_key(numbers: Array, counts: Array | None) -> bool:
    """Return whether numbers are whole, in a range that lets nearly all of them differ."""
    if len(numbers) < _LEAST_KEYS or not _are_whole(numbers[:_LEAST_KEYS]):
        return False
    low, high = float(numbers.min()), float(numbers.max())
    room = counts is not None or 20.0 * (high - low + 1.0) > 19.0 * len(numbers)
    return room and _are_whole(numbers)


def _are_whole(numbers: Array) -> bool:
    with np.errstate(invalid="ignore"):  # infinite ones are not whole, and refused elsewhere
        return bool((np.remainder(numbers, 1) == 0).all())


def _n_different(values: Values, weights: Array | None) -> tuple[int, int]:
    """Return the number of distinct values, and of rows that have one."""
    data = values.present
    weights = values.counts if weights is None else weights
    if weights is not None and values.missing is not None:
        weights = weights[~values.missing]
    n_rows = len(data) if weights is None else int(weights.sum())
    if values.kind == "category":
        return int(np.count_nonzero(np.bincount(data, minlength=1))), n_rows
    ascending = np.sort(data)
    return int(np.count_nonzero(ascending[1:] != ascending[:-1])) + bool(len(data)), n_rows


def _how_many(values: Values, weights: Array | None) -> str:
    n_different, n_rows = _n_different(values, weights)
    return f"{n_different:,} values in {n_rows:,} rows"
