"""DataFrames and arrays: columns are read as numpy arrays, and built from them.

A `Table` is a pandas DataFrame, a frame that narwhals knows (polars, pyarrow) or an array. A column
is read as `Values`: numbers, or codes of a list of levels, with a mask of missing values. Nothing
here depends on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import (
    Array,
    BoolArray,
    as_array,
    check_same_index,
    refuse_masked,
    refuse_tables,
)
from sklearn_puffer._tables.alike import bare, own_block
from sklearn_puffer._tables.times import time_values, written_times
from sklearn_puffer._tables.values import (
    Name,
    Values,
    check_unique,
    narwhals_categories,
    narwhals_values,
    number_values,
    object_values,
    pandas_values,
    take_levels,
)
from sklearn_puffer._words import on_one_line


class AnyTable(Protocol):
    """A table to learn from: named or numbered columns."""

    @property
    def names(self) -> tuple[Name, ...]:
        """Column names, or positions for an array."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def values(self, name: Name) -> Values:
        """Return one column."""


class Table(AnyTable, Protocol):
    """A table in memory, from which tables of its own type are built."""

    def empty_columns(self, dtypes: Mapping[Name, np.dtype[Any]]) -> dict[Name, Array]:
        """Return uninitialised columns of the output, to be filled in place."""

    def build(self, columns: Mapping[Name, Finished]) -> Any:
        """Return a table of the caller's own type, with those columns."""

    def original(self, name: Name, rows: Array | None = None) -> Any:
        """Return a column unchanged, as `build` takes it; with ``rows``, the values of these."""


@dataclass(frozen=True, eq=False)
class Finished:
    """A column of the output: new data, or a column of the input that is ``passed``.

    ``levels`` are the labels of codes; ``native`` asks for the type of the input column. A passed
    column is copied, unless it is ``fresh``: made for the output alone.
    """

    data: Any
    missing: Array | None = None
    levels: tuple[Any, ...] | None = None
    native: bool = True
    passed: bool = False
    fresh: bool = False
    unit: str | None = None  # of dates and durations


def readable(X: Any, name: str = "X") -> Any:
    """Return X if it is a DataFrame or array-like; refuse other tables.

    Parameters
    ----------
    X : object
        A pyarrow RecordBatch becomes a Table, and its columns of string_view strings.
    name : str, default="X"
        Its name in errors.

    Raises
    ------
    TypeError
        If X is a table that the package does not read, a single column, or a masked array.

    Examples
    --------
    >>> readable([[1]])
    [[1]]
    """
    X = whole_arrow(X)
    if not is_frame(X):
        refuse_masked(X, name)
        refuse_tables(X, name)
    return X


def readable_column(y: Any, name: str) -> Any:
    """Return y as a column of a known library, or as an array.

    >>> readable_column([1, 2], "y")
    array([1, 2])
    """
    y = whole_arrow(y)
    if isinstance(y, list | tuple):
        return as_array(y, name)
    return y if nw.dependencies.is_into_series(y) else readable(y, name)


def is_frame(X: Any) -> bool:
    """Return whether X is a DataFrame that the package reads.

    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame([[1]])
    (True, False)
    """
    if isinstance(X, np.ndarray):  # narwhals is slow on arrays
        return False
    return isinstance(X, pd.DataFrame) or nw.dependencies.is_into_dataframe(X)


def frame_table(X: Any, name: str = "X") -> Table:
    """Return the table of a DataFrame, whose column labels are checked."""
    if isinstance(X, pd.DataFrame):
        return _PandasTable(_with_checked_labels(X, name))
    # the other libraries do not let a name occur twice; narwhals has no words for it
    check_unique(getattr(X, "column_names", ()), name)
    return _NarwhalsTable(nw.from_native(X, eager_only=True))


def array_table(X: Array, names: Sequence[Name] | None = None) -> Table:
    """Return the table of a two-dimensional array; its columns are named by position."""
    return _ArrayTable(X, tuple(range(X.shape[1])) if names is None else tuple(names))


def beside(
    features: Any,
    n_rows: int,
    X: Any,
    named: str,
    read: Callable[[Table, Name], Values] = lambda table, name: table.values(name),
) -> dict[Name, Values]:
    """Return columns that are given beside X, aligned by position; errors call them ``named``.

    Raises
    ------
    ValueError
        If the lengths differ, or both are pandas objects whose indexes differ.
    """
    check_same_index(features, named, X)
    table = _beside_table(whole_arrow(features), named)
    if not table.names:
        raise ValueError(f"{named} has no column; give at least one.")
    if table.n_rows != n_rows:
        raise ValueError(
            f"{named} has {table.n_rows} rows and X has {n_rows}; give one for each row."
        )
    return {name: read(table, name) for name in table.names}


def label_ranks(table: Any, rows: Array) -> list[Array]:
    """Return the ranks of some rows' index labels, for each level that is not sorted.

    Parameters
    ----------
    table : Table
        Only those of pandas have an index.
    rows : ndarray of int
        Positions, ascending.

    Returns
    -------
    list of ndarray of int
        From 0, the same for equal labels. Levels whose labels cannot be compared are left out.
    """
    index = table.frame.index if isinstance(table, _PandasTable) else pd.RangeIndex(0)
    ranks = []
    for level in map(index.get_level_values, range(index.nlevels)):
        if level.is_monotonic_increasing or level.is_monotonic_decreasing:
            continue
        try:
            codes = pd.factorize(level[rows], sort=True, use_na_sentinel=False)[0]
        except TypeError:  # labels of several types
            continue
        ranks.append(np.asarray(codes))
    return ranks


def has_row_labels(table: Any) -> bool:
    """Return whether a table has an index other than the default one.

    >>> has_row_labels(frame_table(pd.DataFrame({"a": [1, 2]}, index=["Ann", "Bob"])))
    True
    """
    index = table.frame.index if isinstance(table, _PandasTable) else pd.RangeIndex(0)
    plain = isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1)
    return not plain


def as_pandas(X: Any) -> Any:
    """Return a DataFrame of any kind as a pandas one; arrays as they are.

    scikit-learn would build it from one array, in which every column is of objects.
    """
    if isinstance(X, pd.DataFrame) or not is_frame(X):
        return X
    frame = nw.from_native(X, eager_only=True)
    return pd.DataFrame({name: _as_pandas_column(frame[name]) for name in frame.columns})


def taken_rows(X: Any, kept: BoolArray) -> Any:
    """Return some rows of a DataFrame or an array, in their order.

    >>> taken_rows(np.array([[1], [2], [3]]), np.array([True, False, True])).tolist()
    [[1], [3]]
    """
    if isinstance(X, pd.DataFrame) or not is_frame(X):
        return X[kept]
    return nw.from_native(X, eager_only=True).filter(kept.tolist()).to_native()


def put_together(frames: Sequence[pd.DataFrame], parts: Sequence[Array]) -> pd.DataFrame:
    """Return the rows of frames, whose places in one table are ``parts``, in its order.

    >>> frames = [pd.DataFrame({"n": [1, 3]}), pd.DataFrame({"n": [2]})]
    >>> put_together(frames, [np.array([0, 2]), np.array([1])])["n"].tolist()
    [1, 2, 3]
    """
    order = np.argsort(np.concatenate(parts))
    return pd.concat(frames).iloc[order].reset_index(drop=True)


def _as_pandas_column(column: nw.Series[Any]) -> Any:
    if column.dtype in (nw.Categorical, nw.Enum):
        values = narwhals_categories(column, column.name)
        return pd.Categorical(column.to_list(), values.levels, ordered=values.ordered)
    if column.is_null().any() or not column.dtype.is_numeric():
        whole = column.dtype.is_integer()
        # pandas would make floats of integers with missing ones, and large ones equal
        kept = ("UInt64" if column.dtype == nw.UInt64 else "Int64") if whole else None
        return pd.Series(column.to_list(), dtype=kept)
    return column.to_numpy()


def values_of(table: Any, column: Any) -> Values:
    """Return a column of a table as `fit` read it: dates and durations in its ``unit``."""
    if column.unit is None:
        values: Values = table.values(column.name)
        return values
    return first_values(table, column.name, column.unit)


def first_values(table: Any, name: Name, unit: str | None = None) -> Values:
    """Return a public column as `fit` reads it; dates and durations have a unit."""
    original = getattr(table, "original", None)
    times = None if original is None else time_values(original(name), name, unit)
    return table.values(name) if times is None else times


def id_values(table: Any, name: Name) -> Values:
    """Return a column of ids of any type, for comparisons.

    Dates and durations are in nanoseconds. Values of other types are compared by their repr.

    >>> column = pd.Series([(1, 2), "a", (1, 2), None], dtype=object)
    >>> id_values(frame_table(pd.DataFrame({"id": column})), "id").data.tolist()
    [1, 0, 1, -1]
    """
    try:
        values = first_values(table, name)
        if values.unit is None:
            return values
        return first_values(table, name, values.unit.partition("[")[0] + "[ns]")
    except (TypeError, ValueError):
        if not hasattr(table, "original"):
            raise
    column = table.original(name)
    column = pd.Series(column.to_list() if isinstance(column, nw.Series) else column)
    missing = column.isna().to_numpy()
    codes, levels = pd.factorize(np.array([*map(repr, column)], dtype=object), sort=True)
    return Values("category", np.where(missing, -1, codes), missing, tuple(levels))


@dataclass(frozen=True, eq=False)
class _FrameTable:
    """Members of tables of every kind of frame."""

    frame: Any

    @cached_property
    def names(self) -> tuple[Name, ...]:
        return tuple(self.frame.columns)

    @property
    def n_rows(self) -> int:
        return len(self.frame)

    def empty_columns(self, dtypes: Mapping[Name, np.dtype[Any]]) -> dict[Name, Array]:
        columns: dict[Name, Array] = {}
        for dtype in dict.fromkeys(dtypes.values()):  # one block, which has larger memory pages
            names = [name for name, wanted in dtypes.items() if wanted == dtype]
            block = np.empty((len(names), self.n_rows), dtype=dtype)
            columns |= dict(zip(names, block, strict=True))
        return columns


@dataclass(frozen=True, eq=False)
class _PandasTable(_FrameTable):
    frame: pd.DataFrame

    def values(self, name: Name) -> Values:
        return pandas_values(self.original(name), name)

    def original(self, name: Name, rows: Array | None = None) -> Any:
        column = self.frame[name]
        if isinstance(column.dtype, pd.ArrowDtype) and str(column.dtype).startswith("string_view"):
            raise TypeError(
                f"column {name!r} has type {column.dtype}, of which pandas takes no rows; convert "
                f"it, pandas.array(X[{name!r}].tolist(), dtype='str')."
            )
        return column if rows is None else column.iloc[rows].set_axis(column.index)

    def build(self, columns: Mapping[Name, Finished]) -> pd.DataFrame:
        built = {
            name: bare(done.data if done.fresh else done.data.copy())
            if done.passed
            else self._column(name, done)
            for name, done in columns.items()
        }
        block = own_block(list(built.values()))
        # copy=False: pandas does not copy the columns
        result = (
            pd.DataFrame(built, index=self.frame.index, copy=False)
            if block is None
            else pd.DataFrame(block.T, self.frame.index, pd.Index(list(built)), copy=False)
        )
        result.columns.names = self.frame.columns.names
        return result

    def _column(self, name: Name, done: Finished) -> Any:
        if done.unit is not None:
            return written_times(done.data, done.missing, done.unit, self.original(name))
        dtype = self.original(name).dtype
        if done.levels is not None:
            return self._labels(dtype, done)
        if not done.native:
            return _with_nan(done)
        if isinstance(dtype, np.dtype):
            return _numpy_column(dtype, done)
        data = done.data if done.missing is None else np.where(done.missing, 0, done.data)
        array: Any = pd.array(data, dtype=dtype if _holds(dtype, done.data) else None)
        array[_mask(done)] = pd.NA
        return pd.Series(array, index=self.frame.index, copy=False)

    def _labels(self, dtype: Any, done: Finished) -> Any:
        assert done.levels is not None
        codes = np.where(_mask(done), -1, done.data)
        if isinstance(dtype, pd.CategoricalDtype):
            dtype = pd.CategoricalDtype(_categories(done.levels, dtype.categories), dtype.ordered)
            positions = dtype.categories.get_indexer(pd.Index(list(done.levels), dtype=object))
            codes = np.append(positions, -1)[codes]  # -1, the last, is missing
            return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), index=self.frame.index)
        holds = _pandas_holds_levels(dtype, done)
        if not holds or isinstance(dtype, np.dtype):
            labels = take_levels(done.levels, codes)
            return pd.Series(labels, index=self.frame.index, dtype=dtype if holds else object)
        levels: Any = pd.array(list(done.levels), dtype=dtype)
        taken = levels.take(codes, allow_fill=True)  # -1 is missing
        return pd.Series(taken, index=self.frame.index, copy=False)


@dataclass(frozen=True, eq=False)
class _NarwhalsTable(_FrameTable):
    frame: nw.DataFrame[Any]

    def values(self, name: Name) -> Values:
        # a plain name: polars reads one like "^a.*$" as a pattern
        return narwhals_values(self.frame[str(name)].alias("values"), name)

    def original(self, name: Name, rows: Array | None = None) -> Any:
        column = self.frame[str(name)]
        return column if rows is None else column[rows.tolist()]

    def build(self, columns: Mapping[Name, Finished]) -> Any:
        built = (
            bare(done.data) if done.passed else self._column(name, done)
            for name, done in columns.items()
        )
        # not from_dict, which some versions of narwhals let turn an Enum into a Categorical, and
        # not with_columns: in polars a name like "^a.*$" asks for other columns
        return nw.concat([column.to_frame() for column in built], how="horizontal").to_native()

    def _column(self, name: Name, done: Finished) -> nw.Series[Any]:
        original = self.frame[str(name)]
        if done.unit is not None:
            times: nw.Series[Any] = written_times(done.data, done.missing, done.unit, original)
            return times
        backend = self.frame.implementation
        data: Any = done.data if done.levels is None else take_levels(done.levels, done.data)
        if done.missing is not None or done.levels is not None:
            gone = _mask(done)
            data = [None if gone[k] else x for k, x in enumerate(data.tolist())]
        made = nw.new_series(str(name), data, backend=backend)
        if original.dtype == nw.Enum and done.levels is not None:
            return made.cast(nw.Enum([level for level in done.levels if level is not None]))
        if done.levels is None:
            castable = done.native and _narwhals_holds(original.dtype, done.data)
            like = done.data[:0]
        else:
            castable = all(_narwhals_holds_level(original.dtype, level) for level in done.levels)
            like = [level for level in done.levels if level is not None]
            if castable and backend.is_pyarrow() and original.dtype in (nw.String, nw.Categorical):
                return _arrow_labels(original, like, data)
        # the type never depends on the released values, which may all be missing
        return made.cast(
            original.dtype if castable else nw.new_series("", like, backend=backend).dtype
        )


def _arrow_labels(
    original: nw.Series[Any], levels: Sequence[str], labels: Sequence[Any]
) -> nw.Series[Any]:
    """Return labels in the Arrow type of a column; a dictionary lists the levels in their order.

    If these are too many for the type of its codes, it gets a wider one.
    """
    # a dictionary lists values as they appear: first the levels, which are cut off again
    both: Any = nw.new_series(
        original.name, [*levels, *labels], nw.String, backend=original.implementation
    )
    try:
        cast = both.to_native().cast(original.to_native().type)
    except (ValueError, NotImplementedError):
        cast = both.cast(original.dtype).to_native()
    written: nw.Series[Any] = nw.from_native(cast.slice(len(levels)), series_only=True)
    return written.alias(original.name)


@dataclass(frozen=True, eq=False)
class _ArrayTable:
    array: Array
    names: tuple[Name, ...]

    @property
    def n_rows(self) -> int:
        return len(self.array)

    def values(self, name: Name) -> Values:
        column = self.original(name)
        if column.dtype.kind in "OUS":
            return object_values(pd.Series(column, dtype=object), name)
        if self._is_complete:
            return Values("float", column)
        return number_values(column, name)

    @cached_property
    def _is_complete(self) -> bool:
        """Whether these are floats without NaN, in one pass over memory."""
        plain = self.array.dtype.kind == "f" and self.array.dtype.itemsize <= 8
        return plain and not np.isnan(self.array.min(initial=np.inf))

    def empty_columns(self, dtypes: Mapping[Name, np.dtype[Any]]) -> dict[Name, Array]:
        if len(set(dtypes.values())) > 1:
            return {name: np.empty(self.n_rows, dtype=dtype) for name, dtype in dtypes.items()}
        # one array, so that its columns need no further copy
        whole = np.empty((self.n_rows, len(dtypes)), dtype=next(iter(dtypes.values())))
        return {name: whole[:, position] for position, name in enumerate(dtypes)}

    def original(self, name: Name, rows: Array | None = None) -> Any:
        column = self.array[:, self.names.index(name)]
        return column if rows is None else column[rows]

    def build(self, columns: Mapping[Name, Finished]) -> Array:
        arrays = [
            done.data if done.passed else self._column(name, done) for name, done in columns.items()
        ]
        block = own_block(arrays, down=True)
        if block is not None:
            return block
        holds_objects = self.array.dtype.kind in "OUS"
        kind = np.dtype(object) if holds_objects else np.result_type(*arrays)
        result = np.empty((self.n_rows, len(arrays)), dtype=kind)
        for position, array in enumerate(arrays):
            result[:, position] = array
        return result

    def _column(self, name: Name, done: Finished) -> Array:
        if done.unit is not None:
            times: Array = written_times(done.data, done.missing, done.unit, self.original(name))
            return times
        holds_objects = self.array.dtype.kind in "OUS"
        if done.levels is None:
            # among objects, whole numbers and booleans with missing ones do not become floats
            counted = done.missing is not None and np.asarray(done.data).dtype.kind in "biu"
            return _take_object(done) if holds_objects and counted else _with_nan(done)
        labels = take_levels(done.levels, np.where(_mask(done), -1, done.data))
        if holds_objects:
            return labels
        # a type that holds every level; released values do not matter
        kept: Array = np.array([level for level in done.levels if level is not None])
        gone = len(kept) < len(done.levels) or done.missing is not None
        least = np.result_type(self.array.dtype, np.float32 if gone else np.bool_)
        with np.errstate(over="ignore"):
            exact = np.array_equal(kept.astype(least), kept)
        return labels.astype(least if exact else np.result_type(least, kept.dtype))


def _numpy_column(dtype: np.dtype[Any], done: Finished) -> Any:
    if done.missing is not None and dtype.kind == "O":
        return pd.Series(_take_object(done), dtype=dtype).array
    if done.missing is not None and dtype.kind != "f":
        array: Any = pd.array(done.data)  # only floats and objects of numpy can be missing
        array[_mask(done)] = pd.NA
        return array
    filled = _with_nan(done)
    if dtype.kind == "O":
        return filled.astype(object)
    return filled.astype(dtype, copy=False) if _holds(dtype, filled) else filled


def _holds(dtype: Any, data: Array) -> bool:
    """Return whether a ``dtype`` can hold the released data."""
    if pd.api.types.is_bool_dtype(dtype):
        return data.dtype.kind == "b"
    if pd.api.types.is_integer_dtype(dtype):
        return data.dtype.kind in "iu"
    # no float16, in which noise overflows
    return bool(pd.api.types.is_float_dtype(dtype)) and dtype.itemsize > 2


def _narwhals_holds(dtype: Any, data: Array) -> bool:
    if dtype == nw.Boolean:
        return data.dtype.kind == "b"
    if dtype.is_integer():
        return data.dtype.kind in "iu"
    return dtype in (nw.Float32, nw.Float64)  # no float16, as in pandas


def _mask(done: Finished) -> Array:
    return np.zeros(len(done.data), dtype=bool) if done.missing is None else done.missing


def _with_nan(done: Finished) -> Array:
    if done.missing is None:
        return np.asarray(done.data)
    return np.where(done.missing, np.nan, np.asarray(done.data, dtype=float))


def _pandas_holds_levels(dtype: Any, done: Finished) -> bool:
    """Return whether a type holds every level; released values do not matter."""
    levels = [*(done.levels or ()), *([None] if done.missing is not None else [])]
    try:
        held = pd.Series(levels, dtype=dtype).tolist()
    except (TypeError, ValueError, OverflowError):
        return False
    pairs = zip(levels, held, strict=True)
    return all(pd.isna(other) if level is None else level == other for level, other in pairs)


def _narwhals_holds_level(dtype: Any, level: Any) -> bool:
    if level is None:
        return True
    if isinstance(level, str):
        return dtype in (nw.String, nw.Categorical)  # polars casts nothing to objects
    if dtype == nw.Boolean:
        return level in (0, 1)
    return bool(dtype.is_integer() and level == int(level)) or bool(dtype.is_float())


def _take_object(done: Finished) -> Array:
    values = np.asarray(done.data).astype(object)
    values[_mask(done)] = None
    return values


def _categories(levels: Sequence[Any], like: pd.Index[Any]) -> pd.Index[Any]:
    """Return the categories of `fit`, in the type of ``like`` if that can hold them.

    Categories of the released rows would reveal which values occur.
    """
    index: pd.Index[Any] = pd.Index([level for level in levels if level is not None])
    try:
        same: pd.Index[Any] = index.astype(like.dtype)
    except (TypeError, ValueError):
        return index
    return same if list(same) == list(index) else index


def _with_checked_labels(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the frame, with a plain RangeIndex of columns read as positions."""
    columns = frame.columns
    if isinstance(columns, pd.MultiIndex):
        raise TypeError(
            f"{name} has MultiIndex columns; flatten them to strings, "
            f'for example {name}.columns = ["_".join(map(str, c)) for c in {name}.columns].'
        )
    plain_range = isinstance(columns, pd.RangeIndex) and columns.equals(pd.RangeIndex(len(columns)))
    odd = [label for label in columns if not isinstance(label, str)]
    if odd and not plain_range:
        raise TypeError(
            f"column label {odd[0]!r} is not a string; rename the columns, "
            f"for example {name}.columns = {name}.columns.astype(str)."
        )
    check_unique(columns, name)
    return frame


def whole_arrow(X: Any) -> Any:
    """Return an Arrow batch as a table and an Arrow array as a column; others as they are.

    A string_view becomes a string: Arrow can neither take nor filter rows of the former.
    """
    pyarrow = nw.dependencies.get_pyarrow()
    if pyarrow is None:
        return X
    if isinstance(X, pyarrow.RecordBatch):
        X = pyarrow.Table.from_batches([X])
    if isinstance(X, pyarrow.Array):
        X = pyarrow.chunked_array([X])
    if isinstance(X, pyarrow.ChunkedArray):
        return X.cast(pyarrow.string()) if X.type == pyarrow.string_view() else X
    if isinstance(X, pyarrow.Table) and pyarrow.string_view() in X.schema.types:
        for k, field in enumerate(X.schema):
            X = X.set_column(k, field.name, whole_arrow(X.column(k)))
    return X


def _beside_table(features: Any, named: str) -> Table:
    """Return the table of a column, frame or array that is given beside X."""
    single = named.removesuffix("s")
    if isinstance(features, pd.Series):
        name = features.name if isinstance(features.name, str) else single
        return frame_table(features.to_frame(name))
    if nw.dependencies.is_into_series(features):
        column = nw.from_native(features, series_only=True)
        return _NarwhalsTable(column.alias(column.name or single).to_frame())
    if is_frame(readable(features, named)):
        return frame_table(features, named)
    try:
        array = as_array(features, named)
    except ValueError as error:  # rows of different lengths
        raise ValueError(
            f"{named} must be a column or a table of columns: {on_one_line(error)}"
        ) from error
    if array.ndim == 0 or array.ndim > 2:
        raise ValueError(
            f"{named} must be a column or a table of columns, got shape {array.shape}; pass "
            "values, or name a column of X where columns are named, as in sensitive=."
        )
    columns = array[:, None] if array.ndim == 1 else array
    numbered = [f"{single}_{k}" for k in range(columns.shape[1])]
    return array_table(columns, [single] if len(numbered) == 1 else numbered)
