"""Lazy tables: rows stay in their engine, and what is fetched is how often groups of them occur.

Nothing is asked of an engine but comparisons, a group-by and the lengths of the groups, which all
of them compute exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import Array, FloatArray, listed
from sklearn_puffer._tables.columns import Column
from sklearn_puffer._tables.opening import Opened, opened
from sklearn_puffer._tables.values import Name, Values, check_type, narwhals_values, object_values

MOST_DISTINCT = 1 << 22
"""How many values of one column are fetched at most."""

MOST_CELLS = 1 << 23
"""How many groups of rows are fetched at most."""

_COUNT = "n"


def lazy_table(X: Any) -> LazyTable:
    """Return the table of a lazy one; nothing is computed yet.

    Raises
    ------
    ImportError
        If what reads the engine's tables is absent, or too old.
    TypeError, ValueError
        If it has columns that cannot be told apart, or X is no path of rows.
    """
    return LazyTable(opened(X))


@dataclass(frozen=True, eq=False)
class LazyTable:
    """A table whose rows are counted where they are.

    Attributes
    ----------
    opened : Opened
    """

    opened: Opened

    @property
    def frame(self) -> nw.LazyFrame[Any]:
        """The rows; columns are called by their places."""
        return self.opened.frame

    @property
    def types(self) -> Mapping[str, Any]:
        """The types that the columns have in their engine, by name and in their order."""
        return self.opened.types

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Column names."""
        return tuple(self.types)

    def column(self, name: Name) -> nw.Expr:
        """Return one column of `frame`."""
        return nw.col(str(self.names.index(name)))

    @property
    def n_rows(self) -> int:
        """Number of rows, as the first query has it that counted them by groups."""
        for values in self._counts.values():
            assert values.counts is not None
            return int(values.counts.sum())
        return int(_collected(self.frame.select(nw.len().alias(_COUNT)))[_COUNT][0])

    @cached_property
    def _counts(self) -> dict[Name, Values]:
        """What is known of each column: values that occur, with how often; of one query or more."""
        return {}

    @cached_property
    def _groups(self) -> dict[Name, Values]:
        """Of columns that were counted together, the groups of equal values, or of equal bins."""
        return {}

    def check_type(self, name: Name) -> None:
        """Refuse a column whose type has no place here, before anything is computed."""
        check_type(self.types[str(name)], name)

    def count_rows(self, names: Sequence[Name]) -> None:
        """Count the rows by all of those columns at once, from which all is known that is asked.

        Where that has more groups than are fetched, each column is counted by itself when it is
        asked for.
        """
        found = self._fetched(names, [None] * len(names), MOST_CELLS)
        if found is not None:
            self._groups.update(zip(names, found, strict=True))
            self._counts.update(self._groups)

    def count_cells(self, secrets: Sequence[Name], columns: Sequence[Column]) -> None:
        """Count the rows by all secrets and columns at once, by bins where a column has them.

        Where they may have more groups than are fetched, they are counted by parts when they are
        asked for.
        """
        names = [*secrets, *(column.name for column in columns)]
        values = [len(self._counts[name]) for name in secrets]
        values += [len(column.atoms) + 1 for column in columns]  # one for missing
        if not self._groups and prod(values) <= MOST_CELLS:
            found = self._fetched(names, [*([None] * len(secrets)), *columns], MOST_CELLS)
            assert found is not None
            self._groups.update(zip(names, found, strict=True))

    def values(self, name: Name) -> Values:
        """Return the values of one column that occur, and how often; fetched once."""
        if name not in self._counts:
            self._counts[name] = self._counted(name)
        return self._counts[name]

    def _counted(self, name: Name) -> Values:
        self.check_type(name)
        found = self._fetched([name], [None], MOST_DISTINCT)
        if found is None:
            raise ValueError(
                f"column {name!r} has more than {MOST_DISTINCT:,} distinct values, the most that "
                "are fetched from an engine; round or bin it there, or leave it out of public=."
            )
        return found[0]

    def cells(self, secret: Name, columns: Sequence[Column]) -> list[Values]:
        """Return the groups of rows with equal values, of columns that have bins with equal bins.

        A group may come more than once.

        Returns
        -------
        list of Values
            Of the secret and of each column, with the same counts.
        """
        names = [secret, *(column.name for column in columns)]
        if all(name in self._groups for name in names):
            return [self._groups[name] for name in names]
        found = self._fetched(names, [None, *columns], MOST_CELLS)
        if found is None:
            raise ValueError(
                f"columns {listed(names, 10)} have more than {MOST_CELLS:,} different rows, the "
                "most that are fetched from an engine; bin or merge columns (n_bins, categories), "
                "or split them with dependence=."
            )
        return found

    def _fetched(
        self, names: Sequence[Name], columns: Sequence[Column | None], most: int
    ) -> list[Values] | None:
        """Return the groups of rows with equal values, or bins; None if there are more than most.

        One query, and one pass of the engine over its table.
        """
        merged = [column if column is not None and column.merged else None for column in columns]
        keys = [
            nw.col(str(k)) if column is None else _bins(str(k), column)
            for k, column in enumerate(merged)
        ]
        found = _collected(_groups(self._plain(names).select(*keys), len(names), most))
        if len(found) > most:
            return None
        counts = found[_COUNT].to_numpy().astype(np.int64)
        read = [
            self._read(found[str(k)], name) if column is None else _of_bins(found[str(k)], column)
            for k, (name, column) in enumerate(zip(names, merged, strict=True))
        ]
        return [replace(values, counts=counts) for values in read]

    def _plain(self, names: Sequence[Name]) -> nw.LazyFrame[Any]:
        """Return columns by place, with one kind of missing values, and labels as strings."""
        keys = [
            _key(self.column(name), self.types[str(name)]).alias(str(k))
            for k, name in enumerate(names)
        ]
        return self.frame.select(*keys)

    def _read(self, column: nw.Series[Any], name: Name) -> Values:
        if str(name) in self.opened.levels:
            return _declared(column, *self.opened.levels[str(name)])
        if column.dtype == nw.Binary:
            labels = [None if label is None else label.decode() for label in column.to_list()]
            return object_values(pd.Series(labels, dtype=object), name)
        return narwhals_values(column, name)


def _key(column: nw.Expr, dtype: Any) -> nw.Expr:
    if dtype == nw.Categorical:
        return column.cast(nw.String)  # as labels: codes are those of a piece of the table
    if dtype.is_float():  # NaN is above all numbers in an engine, and missing here
        return nw.when(~column.is_nan()).then(column)
    return column


def _bins(name: str, column: Column) -> nw.Expr:
    """Return the number of each value's bin; missing where the value is."""
    value = nw.col(name)
    assert column.edges is not None
    edges = column.edges.tolist()
    # what numbers are compared with is of their own type, so that no engine rounds either
    numbers = [int(edge) for edge in edges] if column.whole else edges
    return nw.when(~value.is_null()).then(_bin_among(value, numbers, 0)).alias(name)


def _bin_among(value: nw.Expr, edges: Sequence[float], first: int) -> nw.Expr:
    """Return the number of the bin by halving: as few comparisons as a search takes."""
    if not edges:
        return nw.lit(first, nw.Int64)
    half = len(edges) // 2
    above = _bin_among(value, edges[half + 1 :], first + half + 1)
    return (
        nw.when(value > edges[half]).then(above).otherwise(_bin_among(value, edges[:half], first))
    )


def _groups(frame: nw.LazyFrame[Any], n_keys: int, most: int) -> nw.LazyFrame[Any]:
    keys = [str(k) for k in range(n_keys)]
    return frame.group_by(*keys).agg(nw.len().alias(_COUNT)).head(most + 1)


def _collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """Return what an engine computes; polars streams, so that rows need not fit in memory."""
    if frame.implementation.is_polars():
        return frame.collect("polars", engine="streaming")
    return frame.collect("pyarrow")


def _declared(column: nw.Series[Any], levels: tuple[str, ...], ordered: bool) -> Values:
    """Return labels as codes into the levels that the type of their column lists."""
    labels = pd.Index(column.to_list(), dtype=object)
    codes = pd.Index(levels, dtype=object).get_indexer(labels)
    missing = codes < 0
    some = missing if missing.any() else None
    return Values("category", codes, some, levels, declared=True, ordered=ordered)


def _of_bins(bins: nw.Series[Any], column: Column) -> Values:
    """Return bins as the largest value that each may hold: the readers of columns know values."""
    gone = bins.is_null().to_numpy()
    # Dask has floats for whole numbers beside missing ones
    data = _ends(column)[bins.fill_null(0).cast(nw.Int64).to_numpy()]
    missing = gone if gone.any() else None
    if column.kind == "integer":
        return Values("integer", data.astype(np.int64), missing)
    return Values("float", np.where(gone, np.nan, data), missing)


def _ends(column: Column) -> FloatArray:
    assert column.edges is not None
    assert column.raw is not None
    values: Array = column.raw[0]
    return np.append(column.edges, values[-1])
