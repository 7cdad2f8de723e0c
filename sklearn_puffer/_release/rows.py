"""The rows of the X of `fit` and `transform`: in memory or lazy, with weights, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from sklearn_puffer._base import Array, as_array, real_numbers
from sklearn_puffer._tables import (
    AnyTable,
    LazyTable,
    Name,
    Secret,
    Table,
    Values,
    array_table,
    check_whole,
    frame_table,
    is_frame,
    is_lazy,
    lazy_table,
    no_rows,
    readable,
    tally,
    way_to_rows,
    without_unused,
)

_MOST_ROWS = 2.0**53  # up to here floats count exactly


class CountedTable:
    """The rows of positive weight, and their weights."""

    def __init__(self, table: AnyTable, weights: Array | None) -> None:
        self.table, self.weights = table, weights
        self.mask = None
        if weights is not None and not weights.all():
            self.mask = weights > 0
            self.weights = weights[self.mask]
        self._tallies: dict[Name, Array] = {}

    @property
    def n_rows(self) -> int:
        """How many rows count."""
        return self.table.n_rows if self.mask is None else int(self.mask.sum())

    @property
    def total(self) -> int:
        """How often they count, all together."""
        return self.n_rows if self.weights is None else int(self.weights.sum())

    def kept(self, values: Values) -> Values:
        """Return the values of the rows that count."""
        if self.mask is None:
            return values
        missing = None if values.missing is None else values.missing[self.mask]
        if missing is not None and not missing.any():
            missing = None
        return without_unused(replace(values, data=values.data[self.mask], missing=missing))

    def values(self, name: Name) -> Values:
        """Return a column's values of the rows that count."""
        return self.kept(self.table.values(name))

    def tally(self, secret: Secret) -> Array:
        """Return how often each value of a secret counts."""
        if secret.name not in self._tallies:
            self._tallies[secret.name] = tally(secret.coded, self.n_rows, self.weights)
        return self._tallies[secret.name]

    def numbers(self, secret: Secret) -> Array:
        """Return how many rows each value of a secret has, however often they count."""
        if self.weights is None:
            return self.tally(secret)
        return tally(secret.coded, self.n_rows)


class LazyRows(CountedTable):
    """The rows of a lazy table: its columns are distinct values, each of which has a count."""

    table: LazyTable

    def __init__(self, table: LazyTable) -> None:
        super().__init__(table, None)

    def values(self, name: Name) -> Values:
        """Return a column's distinct values, and how often each occurs."""
        return self.table.values(name)

    def tally(self, secret: Secret) -> Array:
        """Return how many rows each value of a secret has."""
        values = self.values(secret.name)
        return tally(secret.coded, len(values), values.counts)


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct rows of a lazy table, in memory and in their order."""

    names: tuple[Name, ...]
    n_rows: int
    columns: Mapping[Name, Values]

    def values(self, name: Name) -> Values:
        """Return a column."""
        return self.columns[name]


def distinct_rows(table: LazyTable, names: Sequence[Name]) -> CountedTable:
    """Return the distinct rows that a lazy table has counted, with their counts as weights.

    They do not depend on the engine, nor on the order of the rows.
    """
    columns, counts = table.rows(names)
    return CountedTable(_Distinct(table.names, len(counts), columns), counts)


def check_size(count: int, least: int, what: str) -> None:
    """Refuse a table of fewer rows or columns than anything is learnt from."""
    if count < least:
        raise ValueError(
            f"X has {count} {what}(s) and a minimum of {least} is required; give more {what}s."
        )


def rows_of(table: AnyTable, sample_weight: Any) -> CountedTable:
    """Return the rows of a table in memory, or of a lazy one."""
    if isinstance(table, LazyTable):
        return LazyRows(table)
    return CountedTable(table, checked_weights(sample_weight, table.n_rows))


def checked_weights(sample_weight: Any, n_rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, "sample_weight")
    numbers = real_numbers(weights, "sample_weight")
    if weights.ndim == 0:
        numbers = np.full(n_rows, numbers)
    if numbers.ndim != 1:
        raise ValueError(f"sample_weight must be 1D array or scalar, got shape {weights.shape}.")
    if len(numbers) != n_rows:
        raise ValueError(
            f"sample_weight has {len(numbers)} entries and X {n_rows} rows; give one a row."
        )
    whole = np.isfinite(numbers) & (numbers >= 0) & (np.floor(numbers) == numbers)
    if not whole.all():
        raise ValueError(
            "sample_weight must hold non-negative whole numbers, as it counts rows; got "
            f"{float(numbers[~whole][0])!r}."
        )
    if not numbers.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive count.")
    with np.errstate(over="ignore"):
        total = numbers.sum()
    if total >= _MOST_ROWS:
        raise ValueError(
            f"sample_weight counts {total:.4g} rows, more than {_MOST_ROWS:.4g}; divide "
            "the counts by a common factor."
        )
    return numbers.astype(np.int64)


def first_table(estimator: Any, X: Any, weight: str | None = None) -> AnyTable:
    """Return the table of the X of `fit`, and note its columns in the estimator.

    ``weight`` names a column of weights in a lazy table, which is not read as data.
    """
    least = 1 if estimator.sensitive is None else 2
    if not (is_frame(X) or is_lazy(X)):
        array = validate_data(
            estimator,
            _unmerged(X),
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=2,
            ensure_min_features=least,
        )
        return array_table(array)
    table = lazy_table(X, weight) if is_lazy(X) else frame_table(X)
    # names alone: scikit-learn 1.7 finds none in frames of polars 2
    validate_data(estimator, no_rows(table.names), skip_check_array=True)
    if not is_lazy(X):  # whose rows are not counted yet
        check_size(table.n_rows, 2, "row")
    check_size(len(table.names), least, "column")
    return table


def check_beside(X: Any, sensitive_features: Any, sample_weight: Any) -> None:
    """Refuse arrays beside a lazy table: its rows have no order to align them with.

    Raises
    ------
    TypeError
        Naming the argument and the way out.
    """
    several = isinstance(sensitive_features, list | tuple) and len(sensitive_features) > 0
    features = sensitive_features if several else [sensitive_features]
    for name, values in (("sensitive_features", features), ("sample_weight", [sample_weight])):
        if not all(value is None or isinstance(value, str) for value in values):
            raise TypeError(
                f"X is a lazy table ({type(X).__name__}), whose rows have no order, and {name}= is "
                "aligned by position; make it a column of X and pass its name, or pass "
                f"{way_to_rows(X)}."
            )


def next_table(estimator: Any, X: Any) -> Table:
    """Return the table of the X of `transform`, with the columns that were fitted."""
    refuse_lazy(X)
    X, rules = readable(X), estimator._fitted.rules
    if is_frame(X):
        table = frame_table(X)
        rules.check_columns(table.names)
        check_rows(table.n_rows)
        return table
    X = _unmerged(X)
    array = validate_data(estimator, X, reset=False, dtype=None, ensure_all_finite=False)
    table = array_table(array, rules.names)
    if rules.missing == "error":  # an array is refused whole, as scikit-learn does
        for name in rules.sensitive:
            check_whole(table.values(name), name)
    return table


def refuse_lazy(X: Any) -> None:
    """Refuse to draw fresh noise for a lazy table, which draws again whenever it is computed."""
    if is_lazy(X):
        raise TypeError(
            f"X is a lazy table ({type(X).__name__}), and each time that it is computed (by every "
            "action, retry and repeated task) would be another release; name its column of ids "
            "with row_id=, which makes every computation the same release, or write the table "
            f"once, release that ({way_to_rows(X)} in memory) and count it."
        )


def check_rows(n_rows: int) -> None:
    """Refuse a table without rows."""
    if not n_rows:
        raise ValueError("X has 0 row(s) and a minimum of 1 is required to release.")


def _unmerged(X: Any) -> Any:
    """Return lists as an array in which different values stay different."""
    if not isinstance(X, list | tuple):
        return X
    try:
        return as_array(X, "X")
    except ValueError:  # rows of different lengths, for which scikit-learn has words
        return X
