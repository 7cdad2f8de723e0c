"""Lazy tables: rows stay in their engine, and what is fetched is how often groups of them occur.

Nothing is asked of an engine but comparisons, a group-by, and the lengths and ends of the groups,
which all of them compute exactly.
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

from sklearn_puffer._base import LARGEST_INTEGER, Array, FloatArray, listed, on_one_line, task
from sklearn_puffer._tables import coarse
from sklearn_puffer._tables.columns import Column
from sklearn_puffer._tables.counting import ranks_of
from sklearn_puffer._tables.kinds import present
from sklearn_puffer._tables.opening import Opened, opened
from sklearn_puffer._tables.refining import (
    VALUE,
    Cells,
    ChangedError,
    TooFineError,
    may_refine,
    refined,
)
from sklearn_puffer._tables.values import (
    Name,
    Values,
    check_type,
    declared_values,
    narwhals_values,
    object_values,
)

MOST_CELLS = 1 << 23
"""How many groups of rows are fetched at most."""

MOST_COUNTED = 1 << 53
"""Up to here floats count exactly."""

CHANGED = (
    "X changed while it was counted: each column and each group of columns is computed by itself, "
    "and had other rows each time; write the table once, and fit on that."
)

_COUNT = "n"
_ROWS = "m"
_LOOKED_AT = 1 << 16  # rows whose values tell whether more rows are worth a look
_REPEATED = 16  # times that values are repeated which are few
_FARTHEST = 1e300  # from here on differences may be no floats


class TooManyError(ValueError):
    """More values of a column than are fetched."""


def lazy_table(X: Any, weight: str | None = None) -> LazyTable:
    """Return the table of a lazy one; nothing is computed yet.

    Raises
    ------
    ImportError
        If what reads the engine's tables is absent, or too old.
    TypeError, ValueError
        If it has columns that cannot be told apart, or X is no path of rows, or the column of
        weights is absent or holds no whole numbers.
    """
    found = opened(X)
    if weight is not None:
        _check_weight(found.types, weight)
    return LazyTable(found, weight)


@dataclass(frozen=True, eq=False)
class LazyTable:
    """A table whose rows are counted where they are.

    Attributes
    ----------
    opened : Opened
    weight : str or None
        The column that says how often each row counts, which is then no column of the table.
    """

    opened: Opened
    weight: str | None = None

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
        return tuple(name for name in self.types if name != self.weight)

    def column(self, name: Name) -> nw.Expr:
        """Return one column of `frame`."""
        return nw.col(str(list(self.types).index(str(name))))

    @property
    def n_rows(self) -> int:
        """Number of rows, as the first query has it that counted them by groups."""
        for values in self._counts.values():
            assert values.counts is not None
            return int(values.counts.sum())
        # of weights the sum is asked for where something was counted by them
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
        if isinstance(fault := self.opened.levels.get(str(name)), Exception):
            raise fault

    def check_weights(self) -> int:
        """Return how many rows there are, and refuse weights that count none; one query.

        Raises
        ------
        ValueError
            If a weight is missing or negative, or their sum may not be exact.
        """
        assert self.weight is not None
        own = nw.col("w")
        asked = {"low": own.min(), "high": own.max(), "some": own.count(), _COUNT: nw.len()}
        weights = self.frame.select(self._weights())
        found = _collected(weights.select(*(each.alias(key) for key, each in asked.items())))
        low, high, some, n_rows = (found[key][0] for key in asked)
        if n_rows != some:
            raise ValueError(
                f"sample_weight={self.weight!r} has {n_rows - some} missing value(s), and counts "
                "rows; fill or drop them."
            )
        if n_rows and low < 0:
            raise ValueError(
                f"sample_weight={self.weight!r} holds {low}, and counts rows; give non-negative "
                "whole numbers."
            )
        if n_rows and int(high) * int(n_rows) >= MOST_COUNTED:
            raise ValueError(
                f"sample_weight={self.weight!r} holds {high} in one of {n_rows} rows, so that "
                f"they may count more than {MOST_COUNTED:.4g}; divide by a common factor."
            )
        return int(n_rows)

    def _weights(self) -> nw.Expr:
        assert self.weight is not None
        return self.column(self.weight).cast(nw.Int64).alias("w")

    def count_rows(self, names: Sequence[Name]) -> bool:
        """Count the rows by all of those columns at once, from which all is known that is asked.

        Returns
        -------
        bool
            False where there are more groups than are fetched; each column is then counted by
            itself when it is asked for.
        """
        found = self._fetched(names, [None] * len(names), MOST_CELLS)
        if found is not None:
            self._groups.update(zip(names, found, strict=True))
            self._counts.update(self._groups)
        return found is not None

    def groups(self, names: Sequence[Name], most: int) -> list[Values] | None:
        """Return the groups of rows with equal values, with counts; None if there are more."""
        return self._fetched(names, [None] * len(names), most)

    def take_groups(self, groups: Mapping[Name, Values]) -> None:
        """Know those groups of rows alone from now on: a sample, in the place of the table."""
        self._counts.clear()
        self._groups.update(groups)
        self._counts.update(groups)

    def rows(self, names: Sequence[Name]) -> tuple[dict[Name, Values], Array]:
        """Return the distinct rows that `count_rows` found, in their order, and their counts."""
        ranks = [ranks_of(self._groups[name]) for name in names]
        order = np.lexsort(ranks[::-1])
        counts = self._groups[names[0]].counts
        assert counts is not None
        return {name: self._groups[name].taken(order) for name in names}, counts[order]

    def count_cells(
        self, secrets: Sequence[Name], columns: Sequence[Column], *, at_once: bool = False
    ) -> None:
        """Count the rows by all secrets and columns at once, by bins where a column has them.

        Where they may have more groups than are fetched, they are counted by parts when they are
        asked for; ``at_once`` tries all the same, as whole rows are asked for in the end.
        """
        names = [*secrets, *(column.name for column in columns)]
        values = [len(self._counts[name]) for name in secrets]
        values += [len(column.atoms) + 1 for column in columns]  # one for missing
        if not self._groups and (at_once or prod(values) <= MOST_CELLS):
            found = self._fetched(names, [*([None] * len(secrets)), *columns], MOST_CELLS)
            self._groups.update(zip(names, found or (), strict=found is not None))

    def values(self, name: Name, n_bins: int | None = None) -> Values:
        """Return the values of one column that occur, and how often; fetched once.

        Of numbers that are to be binned, and are more than are fetched, enough to find their bins.
        """
        if name not in self._counts:
            self._counts[name] = self._counted(name, n_bins)
        return self._counts[name]

    def values_in(self, column: Column) -> Values:
        """Return a column as far as a fitted one tells its values apart; one query.

        Of one with bins, numbers that stand for its bins, and infinity for what is infinite: there
        may be more values than are fetched.

        Raises
        ------
        ValueError
            If a column without bins has too many.
        """
        dtype = self.types[str(column.name)]
        if column.edges is not None and (dtype.is_integer() if column.whole else dtype.is_float()):
            return self._in_bins(column)
        try:
            return self.values(column.name)
        except TooManyError:
            raise ValueError(
                f"column {column.name!r} of table has more than {coarse.MOST_DISTINCT:,} distinct "
                "values, the most that are fetched from an engine, and has no bins (n_bins); pass "
                "a sample of its rows."
            ) from None

    def _in_bins(self, column: Column) -> Values:
        self.check_type(column.name)
        stand_ins = _stand_ins(column)
        key = _bins("0", column)
        if not column.whole:
            value, last = nw.col("0"), len(stand_ins) - 1
            key = nw.when(value == -np.inf).then(nw.lit(last, nw.Int64)).otherwise(key)
            key = nw.when(value == np.inf).then(nw.lit(last - 1, nw.Int64)).otherwise(key)
        most = len(stand_ins) + 1
        found = _collected(self._grouped(self._plain([column.name]), [key.alias("0")], most))
        gone = found["0"].is_null().to_numpy()
        data = stand_ins[found["0"].fill_null(0).cast(nw.Int64).to_numpy()]
        counts = found[_COUNT].cast(nw.Int64).to_numpy()
        if column.whole:
            return Values("integer", data.astype(np.int64), _some(gone), counts=counts)
        return Values("float", np.where(gone, np.nan, data), _some(gone), counts=counts)

    def _counted(self, name: Name, n_bins: int | None) -> Values:
        self.check_type(name)
        most = coarse.MOST_DISTINCT
        # two more: missing, and an engine may tell -0.0 from 0.0
        found = self._fetched([name], [None], most + 2)
        if found is not None and len(np.unique(present(found[0]))) <= most:
            return found[0]
        dtype = self.types[str(name)]
        if may_refine(n_bins) and (dtype.is_integer() or dtype.is_float()):
            assert n_bins is not None
            return self._refined(name, n_bins)
        raise TooManyError(_too_many_sentence(name))

    def _refined(self, name: Name, n_bins: int) -> Values:
        """Return numbers that have the bins and the cells of a column, and how often they count."""
        rows = self._plain([name]).filter(~nw.col("0").is_null())
        ends, counts = self._range(rows, name)
        if not _has_floats(ends):  # is refused by whoever reads it
            return replace(ends, counts=counts, coarse=True)
        numbers = ends.data.astype(np.float64)
        whole = Cells(numbers[:1], numbers[1:], counts.sum(keepdims=True))
        floats = rows.with_columns(nw.col("0").cast(nw.Float64).alias(VALUE))
        try:
            cells = refined(lambda where, key: self._asked(floats, where, key), whole, n_bins)
        except TooFineError:
            raise ValueError(_too_many_sentence(name)) from None
        except ChangedError:
            raise ValueError(CHANGED) from None
        return self._with_missing(ends, *cells.numbers())

    def _range(self, rows: nw.LazyFrame[Any], name: Name) -> tuple[Values, Array]:
        """Return the lowest and the highest number of a column, and counts of all of them."""
        own = nw.col("0")
        n_rows = nw.len() if self.weight is None else nw.col("w").sum()
        found = _collected(
            rows.select(own.min().alias("a"), own.max().alias("b"), n_rows.alias(_COUNT))
        )
        ends = [self._read(found[key], name) for key in ("a", "b")]
        data = np.concatenate([each.data for each in ends])
        total = int(found[_COUNT][0])
        return Values(ends[0].kind, data), np.array([total - 1, 1])

    def _asked(self, rows: nw.LazyFrame[Any], where: nw.Expr, key: nw.Expr) -> Cells:
        """Return how many rows have each key, and the ends of their numbers; one query."""
        value = nw.col(VALUE)
        n_rows = nw.len() if self.weight is None else nw.col("w").sum()
        asked = [n_rows.alias(_COUNT), value.min().alias("a"), value.max().alias("b")]
        keyed = rows.filter(where).with_columns(key.alias("k"))
        found = _collected(keyed.group_by("k").agg(*asked))
        # -0.0 is 0.0
        lows, highs = (found[each].to_numpy().astype(np.float64) + 0.0 for each in ("a", "b"))
        order = np.argsort(lows, kind="stable")
        counts = found[_COUNT].cast(nw.Int64).to_numpy()
        return Cells(lows, highs, counts).at(order)

    def _with_missing(self, like: Values, numbers: FloatArray, counts: Array) -> Values:
        """Return numbers in the type of their column, and the rows that have none."""
        data = numbers.astype(like.data.dtype)
        gone = self.n_rows - int(counts.sum())
        if gone < 0:
            raise ValueError(CHANGED)
        if not gone:
            return Values(like.kind, data, counts=counts, coarse=True)
        stand_in = np.array([0 if like.kind == "integer" else np.nan], dtype=data.dtype)
        missing = np.append(np.zeros(len(data), dtype=bool), True)
        counts = np.append(counts, gone)
        return Values(like.kind, np.append(data, stand_in), missing, counts=counts, coarse=True)

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
                "split them with dependence=, or fit a sample of the rows."
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
            nw.col(str(k)) if column is None else _bins(str(k), column, self._is_whole(column))
            for k, column in enumerate(merged)
        ]
        fine = any(
            self.types[str(name)].is_float() and column is None
            for name, column in zip(names, merged, strict=True)
        )
        whole = [column is not None and self._is_whole(column) for column in merged]
        found = self._groups_of(self._plain(names, whole), keys, most, fine=fine)
        if len(found) > most:
            return None
        counts = found[_COUNT].cast(nw.Int64).to_numpy()
        read = [
            self._read(found[str(k)], name) if column is None else _of_bins(found[str(k)], column)
            for k, (name, column) in enumerate(zip(names, merged, strict=True))
        ]
        return [replace(values, counts=counts) for values in read]

    def _groups_of(
        self, frame: nw.LazyFrame[Any], keys: Sequence[nw.Expr], most: int, *, fine: bool
    ) -> nw.DataFrame[Any]:
        """Return groups; of fine columns those of some rows first, which may be too many already.

        A group-by of all rows would hold all their groups, only to have them refused.
        """
        enough = 2 * most + 2
        if fine and _is_sliced(frame) and not self._has_at_most(enough):
            rows = _COUNT if self.weight is None else _ROWS
            for n_first in sorted({min(_LOOKED_AT, enough), enough}):
                first = _collected(self._grouped(frame.head(n_first), keys, most))
                if len(first) > most or int(first[rows].sum()) < n_first:
                    return first
                if _REPEATED * len(first) <= n_first:
                    break
        return _collected(self._grouped(frame, keys, most))

    def _has_at_most(self, n_rows: int) -> bool:
        """Return whether the table is known to have no more rows than that."""
        return bool(self._counts) and self.weight is None and self.n_rows <= n_rows

    def _is_whole(self, column: Column) -> bool:
        """Return whether no value of a column was missing when its values were counted."""
        values = self._counts.get(column.name)
        return values is not None and values.missing is None

    def _plain(self, names: Sequence[Name], whole: Sequence[bool] = ()) -> nw.LazyFrame[Any]:
        """Return columns by place, with one kind of missing values, and labels as strings."""
        whole = whole or [False] * len(names)
        keys = [
            (own if full else _key(own, self.types[str(name)])).alias(str(k))
            for k, (own, name, full) in enumerate(
                zip(map(self.column, names), names, whole, strict=True)
            )
        ]
        if self.weight is None:
            return self.frame.select(*keys)
        return self.frame.select(*keys, self._weights()).filter(nw.col("w") > 0)

    def _grouped(
        self, frame: nw.LazyFrame[Any], keys: Sequence[nw.Expr], most: int
    ) -> nw.LazyFrame[Any]:
        places = [str(k) for k in range(len(keys))]
        if self.weight is None:
            found = frame.select(*keys).group_by(*places).agg(nw.len().alias(_COUNT))
        else:
            lengths = nw.len().alias(_ROWS), nw.col("w").sum().alias(_COUNT)
            found = frame.select(*keys, "w").group_by(*places).agg(*lengths)
        return found.head(most + 1)

    def _read(self, column: nw.Series[Any], name: Name) -> Values:
        declared = self.opened.levels.get(str(name))
        if declared is None and column.dtype != nw.Binary:
            values = narwhals_values(column, name)
            return _as_whole(values) if self.types[str(name)].is_integer() else values
        found = column.to_list()
        labels = [each.decode() if isinstance(each, bytes) else each for each in found]
        if isinstance(declared, tuple):
            return _declared(labels, *declared, name)
        return object_values(pd.Series(labels, dtype=object), name)


def _is_sliced(frame: nw.LazyFrame[Any]) -> bool:
    """Return whether an engine that is asked for some rows reads no others."""
    return bool(frame.implementation.is_polars() or frame.implementation.is_duckdb())


def _too_many_sentence(name: Name) -> str:
    return (
        f"column {name!r} has more than {coarse.MOST_DISTINCT:,} distinct values, the most that "
        "are fetched from an engine; name it in n_bins=, round it there, leave it out of "
        "public=, or fit a sample of the rows."
    )


def _has_floats(ends: Values) -> bool:
    """Return whether numbers between those ends are exact as floats and have finite distances."""
    if ends.kind == "integer":
        return max(abs(int(end)) for end in ends.data.tolist()) <= LARGEST_INTEGER
    return bool((np.abs(ends.data.astype(np.float64)) < _FARTHEST).all())


def _key(column: nw.Expr, dtype: Any) -> nw.Expr:
    if dtype == nw.Categorical:
        return column.cast(nw.String)  # as labels: codes are those of a piece of the table
    if dtype.is_float():  # NaN is above all numbers in an engine, and missing here
        return nw.when(~column.is_nan()).then(column)
    return column


def _bins(name: str, column: Column, whole: bool = False) -> nw.Expr:
    """Return the number of each value's bin; missing where the value is, if any is."""
    value = nw.col(name)
    assert column.edges is not None
    edges = column.edges.tolist()
    # what numbers are compared with is of their own type, so that no engine rounds either
    numbers = [int(edge) for edge in edges] if column.whole else edges
    # short, since an engine writes a number of each row for every comparison
    dtype = nw.Int8 if len(numbers) < 1 << 7 else nw.Int32
    bins = _bin_among(value, numbers, 0, dtype)
    return (bins if whole else nw.when(~value.is_null()).then(bins)).alias(name)


def _bin_among(value: nw.Expr, edges: Sequence[float], first: int, dtype: Any) -> nw.Expr:
    """Return the number of the bin by halving: as few comparisons as a search takes."""
    if not edges:
        return nw.lit(first, dtype)
    half = len(edges) // 2
    above = _bin_among(value, edges[half + 1 :], first + half + 1, dtype)
    below = _bin_among(value, edges[:half], first, dtype)
    return nw.when(value > edges[half]).then(above).otherwise(below)


def _check_weight(types: Mapping[str, Any], weight: str) -> None:
    if weight not in types:
        raise ValueError(
            f"sample_weight={weight!r} names no column of X; its columns are "
            f"{listed(list(types), 10)}."
        )
    dtype = types[weight]
    if not dtype.is_integer() or dtype in (nw.Int128, nw.UInt128):
        raise TypeError(
            f"sample_weight={weight!r} has type {on_one_line(dtype)}, and counts rows; convert it "
            "to whole numbers of 64 bits."
        )


def _collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """Return what an engine computes; polars streams, so that rows need not fit in memory."""
    with task("query of the engine"):
        if frame.implementation.is_polars():
            return frame.collect("polars", engine="streaming")
        return frame.collect("pyarrow")


def _as_whole(values: Values) -> Values:
    """Return floats as the integers that their type promises: Dask has floats beside gaps."""
    if values.kind == "integer":
        return values
    numbers = values.data if values.missing is None else np.where(values.missing, 0, values.data)
    return replace(values, kind="integer", data=numbers.astype(np.int64))


def _declared(labels: list[Any], levels: tuple[str, ...], ordered: bool, name: Name) -> Values:
    """Return labels as codes into the levels that the type of their column lists."""
    index = pd.Index(levels, dtype=object)
    codes = index.get_indexer(pd.Index(labels, dtype=object))
    for label, code in zip(labels, codes, strict=True):
        if code < 0 and label is not None:  # it must not pass for missing
            raise ValueError(
                f"column {name!r} holds {label!r}, which its type does not list; convert it "
                "to strings with astype(str)."
            )
    return declared_values(codes, index, ordered)


def _of_bins(bins: nw.Series[Any], column: Column) -> Values:
    """Return bins as the largest value that each may hold: the readers of columns know values."""
    gone = bins.is_null().to_numpy()
    # Dask has floats for whole numbers beside missing ones
    data = _ends(column)[bins.fill_null(0).cast(nw.Int64).to_numpy()]
    missing = gone if gone.any() else None
    if column.kind == "integer":
        return Values("integer", data.astype(np.int64), missing)
    return Values("float", np.where(gone, np.nan, data), missing)


def _stand_ins(column: Column) -> FloatArray:
    """Return a number of each bin of a fitted column, and of one of floats both infinities."""
    assert column.edges is not None
    last = column.edges[-1:]
    beyond = last + 1 if column.whole else np.nextafter(last, np.inf)
    own = np.concatenate([column.edges, beyond if len(last) else np.zeros(1)])
    return own if column.whole else np.append(own, [np.inf, -np.inf])


def _some(mask: Array) -> Array | None:
    return mask if mask.any() else None


def _ends(column: Column) -> FloatArray:
    assert column.edges is not None
    assert column.raw is not None
    values: Array = column.raw[0]
    return np.append(column.edges, values[-1])
