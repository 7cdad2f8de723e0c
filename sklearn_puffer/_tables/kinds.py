"""Values of a column as those of its kind, and checks that they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

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
