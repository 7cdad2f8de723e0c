"""Lazy tables, whose rows are counted and summed by their engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from sklearn_puffer._base import Array, task
from sklearn_puffer._codes import Column
from sklearn_puffer._engines.engine import (
    ENGINES,
    Levels,
    check_names,
    check_renamed,
    in_narwhals,
    is_dask,
    levels_of,
)
from sklearn_puffer._tables import Name, Values, check_type, fetched_values
from sklearn_puffer._words import listed, on_one_line


def lazy_table(X: Any) -> LazyTable:
    """Open a lazy table; nothing is computed yet.

    Raises
    ------
    ImportError
        If what reads the engine's tables is absent, or too old.
    TypeError, ValueError
        If it has columns that cannot be told apart.
    """
    engine = next(known for known in ENGINES if known.is_one(X))
    check_renamed(X)
    try:
        if engine.extra != "polars":
            import_module("pyarrow")  # groups are fetched as Arrow tables
        check_names(X)
        types = dict(in_narwhals(X).collect_schema())
        if is_dask(X):  # narwhals takes objects for strings
            types |= {name: nw.Object() for name in types if X.dtypes[name].name == "object"}
        frame = in_narwhals(engine.by_position(X, types))
        return LazyTable(X, frame, types, levels_of(X, types))
    except ImportError as error:
        raise ImportError(
            f"X is a {type(X).__name__}, and what reads it is absent or too old "
            f'({on_one_line(error)}); run pip install "sklearn-puffer[{engine.extra}]".'
        ) from error


MOST_CELLS = 1 << 23
"""The most groups of rows, or values of a column, that are fetched."""

CHANGED = (
    "X changed while it was counted: each column and each group of columns is computed by itself, "
    "and had other rows each time; write the table once, and fit on that."
)

_COUNT = "n"


@dataclass(frozen=True, eq=False)
class LazyTable:
    """A table whose rows are counted by its engine.

    Attributes
    ----------
    native : object
        The table of the engine.
    frame : LazyFrame
        The rows; columns are named by their positions, from "0".
    types : mapping of types
        The type of each column in the engine, in order; in ``frame`` strings may have become
        bytes.
    levels : mapping of Levels or errors
        The categories of columns whose type lists them, or an error that refuses these.
    """

    native: Any
    frame: nw.LazyFrame[Any]
    types: Mapping[str, Any]
    levels: Mapping[str, Levels | TypeError | ValueError]

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Column names."""
        return tuple(self.types)

    def column(self, name: Name) -> nw.Expr:
        """Return one column of `frame`."""
        return nw.col(str(list(self.types).index(str(name))))

    def where(self, name: Name, limit: int) -> LazyTable:
        """Return the rows whose numbers in a column are at most ``limit``."""
        return replace(self, frame=self.frame.filter(self.column(name) <= limit))

    @property
    def n_rows(self) -> int:
        """Number of rows, from groups that were fetched if there are any."""
        for groups in self._counted:
            counts = next(iter(groups.values())).counts
            assert counts is not None
            return int(counts.sum())
        return int(collected(self.frame.select(nw.len().alias(_COUNT)))[_COUNT][0])

    @cached_property
    def _counted(self) -> list[dict[Name, Values]]:
        """Groups of equal rows that were fetched, each of some columns, with counts."""
        return []

    def check_type(self, name: Name) -> None:
        """Refuse a column whose type cannot be released, before anything is computed."""
        check_type(self.types[str(name)], name)
        if isinstance(fault := self.levels.get(str(name)), Exception):
            raise fault

    def count(self, names: Sequence[Name]) -> bool:
        """Fetch the groups of equal rows of all these columns, for later calls about any of them.

        Returns
        -------
        bool
            False if there are more groups than are fetched. Then each column is counted by itself
            when it is needed.
        """
        groups = self._fetched(names, [None] * len(names))
        if groups is not None:
            self._counted.append(dict(zip(names, groups, strict=True)))
        return groups is not None

    def rows(self, names: Sequence[Name]) -> tuple[dict[Name, Values], Array]:
        """Return the distinct rows that `count` found, sorted, and their counts."""
        groups = self._among(names)
        assert groups is not None
        assert groups[0].counts is not None
        order = np.lexsort([values.ranks() for values in reversed(groups)])
        distinct = (values.taken(order) for values in groups)
        return dict(zip(names, distinct, strict=True)), groups[0].counts[order]

    def values(self, name: Name) -> Values:
        """Return the distinct values of a column with counts; fetched once.

        Raises
        ------
        ValueError
            If there are more than `MOST_CELLS`.
        """
        if self._among([name]) is None:
            self.check_type(name)
            if not self.count([name]):
                raise ValueError(
                    f"column {name!r} has more than {MOST_CELLS:,} distinct values, the most that "
                    "are fetched from an engine; round it there, leave it out of public=, or fit a "
                    "sample of the rows."
                )
        columns = self._among([name])
        assert columns is not None
        return columns[0]

    def values_in(self, column: Column) -> Values:
        """Return the distinct values of a column, or one number in each bin of the fitted column.

        One query. Infinities stay. A column with bins may have more values than are fetched.
        """
        dtype = self.types[str(column.name)]
        if column.edges is None or not (dtype.is_integer() if column.whole else dtype.is_float()):
            return self.values(column.name)
        self.check_type(column.name)
        columns = self._fetched([column.name], [column])
        assert columns is not None  # bins are few
        return columns[0]

    def cells(self, secret: Name, columns: Sequence[Column]) -> list[Values]:
        """Return groups of rows with equal values, or equal bins if a column has bins.

        A group may occur more than once.

        Returns
        -------
        list of Values
            The secret and each column, with the same counts.
        """
        names = [secret, *(column.name for column in columns)]
        cells = self._among(names) or self._fetched(names, [None, *columns])
        if cells is None:
            raise ValueError(
                f"columns {listed(names, 10)} have more than {MOST_CELLS:,} different rows, the "
                "most that are fetched from an engine; bin or merge columns (n_bins, categories), "
                "split them with dependence=, or fit a sample of the rows."
            )
        return cells

    def _among(self, names: Sequence[Name]) -> list[Values] | None:
        """Return these columns of fetched groups that have all of them, None without any."""
        for groups in self._counted:
            if all(name in groups for name in names):
                return [groups[name] for name in names]
        return None

    def _fetched(
        self, names: Sequence[Name], columns: Sequence[Column | None]
    ) -> list[Values] | None:
        """Return the groups of rows with equal values, or bins; None if they are too many.

        One query.
        """
        binned = [None if each is None or each.edges is None else each for each in columns]
        keys = [
            nw.col(str(k)) if column is None else _bins(str(k), column)
            for k, column in enumerate(binned)
        ]
        fine = any(
            self.types[str(name)].is_float() and column is None
            for name, column in zip(names, binned, strict=True)
        )
        groups = self._groups_of(self._plain(names), keys, fine=fine)
        if len(groups) > MOST_CELLS:
            return None
        counts = groups[_COUNT].cast(nw.Int64).to_numpy()
        read = [
            self._read(groups[str(k)], name) if column is None else _of_bins(groups[str(k)], column)
            for k, (name, column) in enumerate(zip(names, binned, strict=True))
        ]
        return [replace(values, counts=counts) for values in read]

    def _groups_of(
        self, frame: nw.LazyFrame[Any], keys: Sequence[nw.Expr], *, fine: bool
    ) -> nw.DataFrame[Any]:
        """Return groups; with floats, the first rows are tried, as groups may be too many.

        A group-by of all rows would hold all groups in memory before they are refused.
        """

        def groups(rows: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
            return collected(self._all_groups(rows, keys).head(MOST_CELLS + 1))

        # engines that read only the first rows
        if fine and (frame.implementation.is_polars() or frame.implementation.is_duckdb()):
            enough = 2 * MOST_CELLS + 2
            first = groups(frame.head(enough))
            if len(first) > MOST_CELLS or int(first[_COUNT].sum()) < enough:
                return first
        return groups(frame)

    def _plain(self, names: Sequence[Name]) -> nw.LazyFrame[Any]:
        """Return columns by position, with NaN as missing, and categories as strings."""
        keys = [
            _key(self.column(name), self.types[str(name)]).alias(str(k))
            for k, name in enumerate(names)
        ]
        return self.frame.select(*keys)

    def moments(self, names: Sequence[Name]) -> dict[Name, tuple[float, float]]:
        """Return mean and standard deviation of the finite numbers of columns; three queries."""
        columns = {name: self.column(name).cast(nw.Float64) for name in names}
        finite = {n: nw.when(c.is_finite()).then(c) for n, c in columns.items()}

        def asked(of: Mapping[Name, nw.Expr]) -> dict[Name, float]:
            if not of:
                return {}
            each = [column.alias(str(k)) for k, column in enumerate(of.values())]
            answer = collected(self.frame.select(*each))
            return {name: float(answer[str(k)][0] or 0.0) for k, name in enumerate(of)}

        unit = asked({name: column.abs().max() for name, column in finite.items()})
        scaled = {name: column / (unit[name] or 1.0) for name, column in finite.items()}
        mean = asked({name: column.mean() for name, column in scaled.items()})
        square = asked({n: ((c - mean[n]) * (c - mean[n])).mean() for n, c in scaled.items()})
        return {n: (mean[n] * unit[n], square[n] ** 0.5 * unit[n]) for n in names}

    def least(self, name: Name, share: float) -> tuple[Array, Array] | None:
        """Return the numbers that are at most ``share`` times their count, and the counts.

        They are ascending; None if there are more than are fetched. One query.
        """
        number = nw.col("0").cast(nw.Float64)
        groups = self._all_groups(self._plain([name]), [nw.col("0")])
        few = groups.filter(number <= (1.0 + 1e-9) * share * nw.col(_COUNT).cast(nw.Float64))
        found = collected(few.head(MOST_CELLS + 1))
        if len(found) > MOST_CELLS:
            return None
        numbers, counts = (found[key].cast(nw.Int64).to_numpy() for key in ("0", _COUNT))
        order = np.argsort(numbers)
        return numbers[order], counts[order]

    def _all_groups(self, frame: nw.LazyFrame[Any], keys: Sequence[nw.Expr]) -> nw.LazyFrame[Any]:
        numbers = [str(k) for k in range(len(keys))]
        return frame.select(*keys).group_by(*numbers).agg(nw.len().alias(_COUNT))

    def _read(self, column: nw.Series[Any], name: Name) -> Values:
        levels = self.levels.get(str(name))
        values = fetched_values(column, name, levels if isinstance(levels, tuple) else None)
        # of Dask, which has missing values
        if values.kind == "float" and self.types[str(name)].is_integer():
            return replace(values, kind="integer", data=values.filled(0).astype(np.int64))
        return values


def collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """Return the result of a query; polars streams, so that rows need not fit in memory."""
    with task("query of the engine"):
        if frame.implementation.is_polars():
            return frame.collect("polars", engine="streaming")
        return frame.collect("pyarrow")


def _key(column: nw.Expr, dtype: Any) -> nw.Expr:
    if dtype == nw.Categorical:
        return column.cast(nw.String)  # codes differ between parts of the table
    if dtype.is_float():  # NaN is above all numbers in an engine, and missing here
        # DuckDB's isnan uses the statistics of Parquet files, which ignore NaN
        infinite = (column == np.inf) | (column == -np.inf)
        return nw.when(column.is_finite() | infinite).then(column)
    return column


def _bins(name: str, column: Column) -> nw.Expr:
    """Return the bin of each value; infinities have bins of their own, missing values none."""
    value = nw.col(name)
    assert column.edges is not None
    edges = column.edges.tolist()
    # edges in the type of the column, so that no engine rounds either
    numbers = [int(edge) for edge in edges] if column.whole else [*edges]
    # a small type, as engines store each comparison of each row
    dtype = nw.Int8 if len(numbers) + 2 < 1 << 7 else nw.Int32
    bins = _bin_among(value, numbers, 0, dtype)
    if not column.whole:
        for k, infinity in enumerate((np.inf, -np.inf), len(numbers) + 1):
            bins = nw.when(value == infinity).then(nw.lit(k, dtype)).otherwise(bins)
    return nw.when(~value.is_null()).then(bins).alias(name)


def _bin_among(value: nw.Expr, edges: Sequence[float], first: int, dtype: Any) -> nw.Expr:
    """Return the bin of a value by binary search."""
    if not edges:
        return nw.lit(first, dtype)
    half = len(edges) // 2
    above = _bin_among(value, edges[half + 1 :], first + half + 1, dtype)
    below = _bin_among(value, edges[:half], first, dtype)
    return nw.when(value > edges[half]).then(above).otherwise(below)


def _of_bins(bins: nw.Series[Any], column: Column) -> Values:
    """Return a value in the bin of each row."""
    gone = bins.is_null().to_numpy()
    assert column.edges is not None
    last = column.edges[-1:]
    beyond = last + 1 if column.whole else np.nextafter(last, np.inf)
    # a number in each bin, and for floats both infinities
    stand_ins = np.concatenate([column.edges, beyond if len(last) else np.zeros(1)])
    stand_ins = stand_ins if column.whole else np.append(stand_ins, [np.inf, -np.inf])
    # Dask makes floats of whole numbers with missing ones
    data = stand_ins[bins.fill_null(0).cast(nw.Int64).to_numpy()]
    missing = gone if gone.any() else None
    if column.whole:
        return Values("integer", data.astype(np.int64), missing)
    return Values("float", np.where(gone, np.nan, data), missing)
