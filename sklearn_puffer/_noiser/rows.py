"""The rows of a table that count, and how often each does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, as_array, real_numbers
from sklearn_puffer._tables import LazyTable, Name, Secret, Source, Values, tally, without_unused

_MOST_ROWS = 2.0**53  # up to here floats count exactly


class Rows:
    """The rows that count, and how often."""

    def __init__(self, table: Source, weights: Array | None) -> None:
        self.table = table
        some = weights is not None and not weights.all()
        self.mask = weights > 0 if weights is not None and some else None
        self.weights = weights[self.mask] if weights is not None and some else weights
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
        some = missing is not None and missing.any()
        kept = replace(values, data=values.data[self.mask], missing=missing if some else None)
        return without_unused(kept)

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


class LazyRows(Rows):
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

    def numbers(self, secret: Secret) -> Array:
        """Return the same."""
        return self.tally(secret)


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct rows of a lazy table, in memory and in their order."""

    names: tuple[Name, ...]
    n_rows: int
    columns: Mapping[Name, Values]

    def values(self, name: Name) -> Values:
        """Return a column."""
        return self.columns[name]


def distinct_rows(table: LazyTable, names: Sequence[Name]) -> Rows:
    """Return the distinct rows that a lazy table has counted, as often as each of them counts.

    What takes rows takes these, so that it does not depend on the engine, or on the order of rows.
    """
    columns, counts = table.rows(names)
    return Rows(_Distinct(table.names, len(counts), columns), counts)


def check_size(count: int, least: int, what: str) -> None:
    """Refuse a table of fewer rows or columns than anything is learnt from."""
    if count < least:
        raise ValueError(
            f"X has {count} {what}(s) and a minimum of {least} is required; give more {what}s."
        )


def rows_of(table: Source, sample_weight: Any) -> Rows:
    """Return the rows of a table in memory, or of a lazy one."""
    if isinstance(table, LazyTable):
        return LazyRows(table)
    return Rows(table, checked_weights(sample_weight, table.n_rows))


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
