"""Strata: the combinations of the values of known columns.

Known values are released as they are, or as the medians of bins. Every stratum has a channel of its
own between the same prototypes; the channels of all strata are stacked. A stratum that is too
small, or that `fit` has not seen, has the constant channel of the whole table, which tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._codes import Column, learn_column, resolve
from sklearn_puffer._microaggregator.coordinates import (
    Axis,
    LevelAxis,
    NumberAxis,
    booleans_as_codes,
)
from sklearn_puffer._numerics import combinations_of
from sklearn_puffer._rows import column_of
from sklearn_puffer._tables import (
    AnyTable,
    Finished,
    Name,
    Table,
    Values,
    alike,
    check_finite,
    values_frame,
)
from sklearn_puffer._words import listed, quoted

MOST_STRATA = 1_000


def known_bins(known: Any, names: Sequence[Name]) -> dict[Name, int | None]:
    """Return the number of bins of each known column, None for values as they are.

    >>> known_bins({"age": 10, "town": None}, ["town", "age"])
    {'age': 10, 'town': None}
    """
    if known is None:
        return {}
    columns = resolve(list(known) if isinstance(known, Mapping) else known, names, "known")
    bins = list(known.values()) if isinstance(known, Mapping) else [None] * len(columns)
    for name, number in zip(columns, bins, strict=True):
        is_whole = isinstance(number, Integral) and not isinstance(number, bool)
        if number is not None and not (is_whole and 2 <= int(number) <= MOST_STRATA):
            raise ValueError(
                f"known[{name!r}] must be from 2 to {MOST_STRATA} bins, or None for the values as "
                f"they are, got {quoted(number)}."
            )
    return dict(zip(columns, bins, strict=True))


@dataclass(frozen=True, eq=False)
class KnownColumn:
    """The distinct values, or bins, of a known column.

    Attributes
    ----------
    axis : NumberAxis or LevelAxis
        How the column is read; its levels are the values of categories.
    numbers : Values or None
        Of numbers or dates: the distinct values, or the medians of bins, ascending. A missing
        number is a further value, after them.
    edges : ndarray or None
        Upper ends of all bins but the last.
    """

    axis: Axis
    numbers: Values | None = None
    edges: Array | None = None

    @classmethod
    def learnt(
        cls, name: Name, values: Values, n_bins: int | None, weights: Array | None
    ) -> KnownColumn:
        """Return the distinct values, or bins, of a column of the fitted rows.

        Raises
        ------
        TypeError, ValueError
            If bins are asked for a column without numbers, or a number is infinite.
        """
        if values.kind not in ("float", "integer"):
            if n_bins is not None:
                raise TypeError(
                    f"known[{name!r}] asks for bins, and column {name!r} is {values.kind}; pass "
                    "None there for its values as they are."
                )
            coded = booleans_as_codes(values) if values.kind == "boolean" else values
            levels = (*(coded.levels or ()), None)
            seen = np.unique(coded.filled(-1) % len(levels))
            return cls(LevelAxis(name, values.kind, 1.0, tuple(levels[k] for k in seen), ()))
        has_missing = values.missing is not None
        axis = NumberAxis(name, values.kind, 0.0, 1.0, 1.0, has_missing, values.unit)
        data = values.present
        if values.kind == "float":
            check_finite(data, name)
        if n_bins is None or not len(data):
            return cls(axis, _numbers(values, np.unique(data)))
        bins = learn_column(name, values, n_bins=n_bins, missing="propagate", weights=weights)
        return cls(axis, _numbers(values, bins.atoms), bins.edges)

    @property
    def name(self) -> Name:
        """The name of the column."""
        return self.axis.name

    @property
    def is_binned(self) -> bool:
        """Whether the medians of bins are released."""
        return self.edges is not None

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def labels(self) -> list[Any]:
        """The values, None for a missing one."""
        if isinstance(self.axis, LevelAxis):
            return list(self.axis.levels)
        assert self.numbers is not None
        return [*values_frame({self.name: self.numbers})[self.name].tolist(), None]

    def read(self, table: AnyTable) -> Values:
        """Return the column of a table, of the kind that `fit` saw."""
        return self.axis.fitted(self.axis.read(table))

    def codes(self, values: Values) -> IntArray:
        """Return the index of each row's value, -1 if `fit` has not seen it."""
        if isinstance(self.axis, LevelAxis):
            return self.axis.indicators(values, slice(0, len(values)))
        assert self.numbers is not None
        numbers = self.numbers.data
        if self.edges is not None:
            codes = np.searchsorted(self.edges, values.data)
        elif len(numbers):
            codes = np.searchsorted(numbers, values.data)
            same = np.take(numbers, codes, mode="clip") == values.data
            codes = np.where(same, codes, -1)
        else:
            codes = np.full(len(values), -1)
        return codes if values.missing is None else np.where(values.missing, len(numbers), codes)

    def as_column(self) -> Column:
        """Return the column, as it is released."""
        if self.numbers is not None:
            return column_of(self.name, self.numbers)
        levels = tuple(level for level in self.labels if level is not None)
        codes = np.arange(len(levels))
        return column_of(self.name, Values(self.axis.kind, codes, levels=levels))

    def finished(self, table: Table) -> Finished:
        """Return the column as it is released, to be built: its values, or the medians of bins.

        Equal values are written alike: their differences, such as the sign of a zero, are in no
        count.
        """
        if self.edges is None:
            return Finished(alike(table.original(self.name)), passed=True)
        assert self.numbers is not None
        values = self.read(table)
        bins = np.minimum(self.codes(values), len(self.numbers) - 1)
        return Finished(self.numbers.data[bins], values.missing, unit=self.numbers.unit)


def _numbers(values: Values, numbers: Array) -> Values:
    """Return distinct numbers of the kind of a column."""
    return Values(values.kind, numbers.astype(values.data.dtype), unit=values.unit)


@dataclass(frozen=True, eq=False)
class Strata:
    """The combinations of known values that `fit` saw.

    Attributes
    ----------
    columns : tuple of KnownColumn
    codes : ndarray of int64 of shape (n_strata, n_columns)
        The index of the value of each column, ascending.
    """

    columns: tuple[KnownColumn, ...]
    codes: IntArray

    @classmethod
    def learnt(cls, columns: Sequence[KnownColumn], codes: Sequence[IntArray]) -> Strata:
        """Return the strata that occur among rows with these codes of each column.

        Raises
        ------
        ValueError
            If there are more than `MOST_STRATA`.
        """
        kinds = combinations_of(codes, len(codes[0]))
        if kinds.max() >= MOST_STRATA:
            most = max(columns, key=len)
            raise ValueError(
                f"known={listed([c.name for c in columns])} has more than {MOST_STRATA:,} "
                "combinations of values, each of which is a stratum; merge values, or read "
                f"numbers in bins, such as known={{{most.name!r}: 10}}."
            )
        firsts = np.unique(kinds, return_index=True)[1]
        return cls(tuple(columns), np.stack([each[firsts] for each in codes], axis=1))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def names(self) -> list[Name]:
        """The names of the known columns."""
        return [column.name for column in self.columns]

    @property
    def labels(self) -> list[Any]:
        """The value of each stratum, or the tuple of its values."""
        rows = [
            tuple(c.labels[k] for c, k in zip(self.columns, codes, strict=True))
            for codes in self.codes.tolist()
        ]
        return [row[0] for row in rows] if len(self.columns) == 1 else rows

    def of(self, codes: Sequence[IntArray]) -> IntArray:
        """Return the stratum of each row by codes of its known columns, -1 if it is unseen."""
        both = [np.concatenate(each) for each in zip(self.codes.T, codes, strict=True)]
        seen, rows = np.split(combinations_of(both, len(both[0])), [len(self)])
        strata = np.full(max(seen.max(), rows.max(initial=0)) + 1, -1)
        strata[seen] = np.arange(len(self))
        return np.asarray(strata[rows])

    def read(self, table: AnyTable) -> IntArray:
        """Return the stratum of each row of a table, -1 if it is unseen."""
        return self.of([column.codes(column.read(table)) for column in self.columns])


@dataclass(frozen=True, eq=False)
class ChannelIndex:
    """The row of the stacked channels of each stratum and prototype.

    Attributes
    ----------
    strata : Strata
    rows : ndarray of int64 of shape (n_strata + 1, n_prototypes)
        The last row is for rows of an unseen stratum.
    """

    strata: Strata
    rows: IntArray

    @property
    def as_are(self) -> list[KnownColumn]:
        """The known columns that are released as they are."""
        return [column for column in self.strata.columns if not column.is_binned]

    @property
    def binned(self) -> list[KnownColumn]:
        """The known columns that are released in bins."""
        return [column for column in self.strata.columns if column.is_binned]

    def unseen(self, strata: IntArray) -> dict[Name, int]:
        """Return the number of rows of an unseen stratum, by the first known column."""
        count = int(np.count_nonzero(strata < 0))
        return {self.strata.names[0]: count} if count else {}

    def hashed(self) -> Iterator[Any]:
        """Yield the parts of the fingerprint."""
        for column in self.strata.columns:
            numbers = column.numbers
            yield column.axis, None if numbers is None else numbers.data, column.edges
        yield self.strata.codes, self.rows
