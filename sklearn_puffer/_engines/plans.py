"""Lazy tables whose rows pass through a function part by part.

The function takes a table in memory and returns one of as many rows: a polars DataFrame on polars,
a pandas one on Dask, an Arrow table elsewhere. A call without rows gives the types of the result,
so a plan needs no job. The engine calls it with the rows of a part whenever it computes that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from itertools import count, pairwise
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import Array
from sklearn_puffer._engines.engine import engine_of, in_narwhals, selected
from sklearn_puffer._engines.lazy import MOST_CELLS, collected, lazy_table
from sklearn_puffer._tables import Kind, check_type
from sklearn_puffer._words import on_one_line

Release = Callable[[Any], Any]
Plan = Callable[[Any, Sequence[str], Release], Any]


def planned(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the lazy result of ``release`` on some columns of X; nothing is computed.

    Parameters
    ----------
    X : lazy table
    names : sequence of str
        The columns that are read, in the order of X.
    release : callable
        Maps a table of those columns to the released table; engines with workers pickle it.
    """
    return _PLANS[engine_of(X)](X, names, release)


def with_numbers(part: Any, columns: Mapping[str, Array]) -> Any:
    """Add columns of integers to a part of a table."""
    frame = nw.from_native(part, eager_only=True)
    backend = frame.implementation
    further = [
        nw.new_series(name, numbers, nw.Int64, backend=backend) for name, numbers in columns.items()
    ]
    # a series is aligned by position: the index of a part of Dask stays
    return frame.with_columns(*further).to_native()


def with_texts(part: Any, name: str, texts: Sequence[str]) -> Any:
    """Return a table with one column of strings, in the type of a part of a table."""
    frame = nw.from_native(part, eager_only=True)
    backend = frame.implementation
    return nw.from_dict({name: [*texts]}, {name: nw.String()}, backend=backend).to_native()


def texts(X: Any, name: str) -> list[str]:
    """Return a column of strings of a lazy table; one query."""
    found: list[str] = collected(in_narwhals(X).select(name))[name].to_list()
    return found


def free_names(taken: Iterable[Any], names: Iterable[str]) -> dict[str, str]:
    """Return distinct names that no column has, ignoring case.

    >>> free_names(["Digest", 3], ["digest", "number"])
    {'digest': 'digest_', 'number': 'number'}
    """
    used, free = {str(name).casefold() for name in taken}, {}
    for name in names:
        free[name] = name
        while free[name].casefold() in used:
            free[name] += "_"
        used.add(free[name].casefold())
    return free


def check_lazy_kinds(X: Any, kinds: Mapping[str, Kind]) -> None:
    """Refuse columns of a lazy table whose types cannot hold the fitted kinds.

    Raises
    ------
    TypeError
        Naming the column.
    """
    types = lazy_table(X).types
    for name, kind in kinds.items():
        check_type(types[name], name)
        labels = types[name] in (nw.String, nw.Categorical, nw.Enum)
        if labels and kind != "category":
            raise TypeError(
                f"column {name!r} holds strings ({on_one_line(types[name])}), and held {kind} "
                "values in fit; convert it to the type of the fitted table."
            )


# -------------------------------------------------------------------------------- polars


def _on_polars(X: Any, names: Sequence[str], release: Release) -> Any:
    polars = import_module("polars")
    all_names = X.collect_schema().names()
    columns = X.select(polars.nth(*map(all_names.index, names)))  # names may be patterns to polars
    schema = release(polars.DataFrame(schema=columns.collect_schema())).schema
    # filters and selections must follow the release: before it they would see the raw rows
    return columns.map_batches(
        partial(_polars_part, release=release, schema=schema),
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
        schema=schema,
        validate_output_schema=True,
        streamable=True,
    )


def _polars_part(frame: Any, release: Release, schema: Any) -> Any:
    # column by column: casting a frame reads names as patterns
    return type(frame)([column.cast(schema[column.name]) for column in release(frame)])


# -------------------------------------------------------------------------------- DuckDB

_NUMBERS: tuple[str, ...] = ("boolean", "float", "double")
_NUMBERS += ("tinyint", "smallint", "integer", "bigint")
_NUMBERS += ("utinyint", "usmallint", "uinteger", "ubigint")
_AS_TEXT: tuple[str, ...] = ("varchar", "enum", "blob", "uuid", "decimal", "hugeint", "uhugeint")
_AS_TEXT += ("date", "time", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
_AS_TEXT += ("timestamp with time zone",)
"""Types whose text DuckDB reads as the same value; a release takes those in `_AS_TEXT` as text."""


def _on_duckdb(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the relation of a release; nothing is computed.

    Values go to Python and back as text: the pandas types of numbers cannot miss values.

    Raises
    ------
    TypeError
        If a column has a type whose text DuckDB may read as another value.
    """
    duckdb = import_module("duckdb")
    kinds = {name: kind for name, kind in zip(X.columns, X.types, strict=True) if name in names}
    for name, kind in kinds.items():
        if kind.id not in _NUMBERS + _AS_TEXT:
            raise TypeError(
                f"column {name!r} has type {on_one_line(kind)}, which would not come back from "
                "Python as it was; drop it from the relation, or convert it to a number, a string "
                "or a date."
            )
    places = {name: f"#{place}" for place, name in enumerate(X.columns, 1)}
    texts = {name: f"cast({places[name]} as VARCHAR)" for name in names}
    texts |= {name: f"hex({places[name]})" for name in names if kinds[name].id == "blob"}
    read = [places[name] if kinds[name].id in _NUMBERS else texts[name] for name in names]
    empty = selected(X, [*zip(read, names, strict=True)]).limit(0).to_arrow_table()
    schema = empty.rename_columns(list(names)).schema
    result = release(schema.empty_table()).schema
    types = dict(zip(result.names, duckdb.from_arrow(result.empty_table()).types, strict=True))
    types |= {name: kind for name, kind in kinds.items() if kind.id in _AS_TEXT[2:]}
    part = partial(_duckdb_part, schema=schema, result=result, release=release)
    sent = selected(X, [(texts[name], str(k)) for k, name in enumerate(names)])
    made = sent.map(part, schema={str(k): sent.types[0] for k in range(len(result))})
    back = []
    for k, name in enumerate(result.names):
        column, kind = duckdb.ColumnExpression(str(k)), types[name]
        unhexed = duckdb.FunctionExpression("unhex", column)
        back.append((unhexed if kind.id == "blob" else column.cast(kind)).alias(name))
    return made.select(*back)


def _duckdb_part(frame: pd.DataFrame, schema: Any, result: Any, release: Release) -> pd.DataFrame:
    """Release a part of a relation, whose values are text; called by DuckDB."""
    pyarrow = import_module("pyarrow")
    texts = [pyarrow.array(frame[name], type=pyarrow.string()) for name in frame]
    rows = pyarrow.Table.from_arrays(texts, names=schema.names).cast(schema)
    released = release(rows).cast(result)
    columns = [column.cast(pyarrow.string()) for column in released.columns]
    return pd.DataFrame(
        {str(k): pd.Series(column, dtype=object) for k, column in enumerate(columns)}
    )


# ---------------------------------------------------------------------------------- Dask


def _on_dask(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Dask DataFrame of a release; nothing is computed."""
    columns = X[list(names)]
    # types are found without a part; of the index only dtype and name matter
    empty = pd.DataFrame({name: pd.Series(dtype=columns.dtypes[name]) for name in names})
    like = release(empty)
    like.index = pd.Index([], dtype=X.index.dtype, name=X.index.name)
    part = partial(_dask_part, release=release, dtypes=dict(like.dtypes))
    return columns.map_partitions(part, meta=like, align_dataframes=False)


def _dask_part(frame: pd.DataFrame, release: Release, dtypes: dict[str, Any]) -> pd.DataFrame:
    """Release a part, which keeps its index; called in a worker."""
    released: pd.DataFrame = release(frame)
    # numpy integers cannot be missing: such a part holds floats, and so does its release
    whole = [name for name, dtype in dtypes.items() if isinstance(dtype, np.dtype)]
    gaps = {name for name in whole if dtypes[name].kind in "iu" and released[name].isna().any()}
    return released.astype({name: dtypes[name] for name in dtypes if name not in gaps})


# --------------------------------------------------------------------------------- Spark


def _on_spark(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Spark DataFrame of a release; no rows are read."""
    # by position: Spark ignores case in names, and reads a dot as the field of a struct
    numbers = [str(k) for k in range(len(X.columns))]
    kept = [number for number, name in zip(numbers, X.columns, strict=True) if name in names]
    columns = X.toDF(*numbers).select(*kept)
    part = partial(_spark_parts, names=list(names), release=release)
    return columns.mapInArrow(part, _spark_schema(columns, names, release))


def _spark_schema(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Spark schema of a release of columns; they keep their types where they can."""
    empty = X.limit(0).toArrow().rename_columns(list(names))
    result = release(empty).schema
    made = X.sparkSession.createDataFrame(result.empty_table()).schema
    types = {name: field.dataType for name, field in zip(names, X.schema, strict=True)}
    same = [name for name in types if name in result.names]
    for name in same:
        if result.field(name).type == empty.schema.field(name).type:
            made[name].dataType = types[name]
    return made


def _spark_parts(batches: Iterator[Any], names: Sequence[str], release: Release) -> Iterator[Any]:
    """Release the batches of a part; called in a worker."""
    pyarrow = import_module("pyarrow")
    for batch in batches:
        table = pyarrow.Table.from_batches([batch]).rename_columns(list(names))
        yield from release(table).combine_chunks().to_batches()


# ---------------------------------------------------------------------------------- Ibis

_numbers = count()  # functions are registered by name: each plan needs its own


def _on_ibis(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Ibis table of a release; nothing is computed."""
    columns = X.select(*names)
    schema = columns.schema().to_pyarrow()
    result = release(schema.empty_table()).schema
    pyarrow, ibis = import_module("pyarrow"), import_module("ibis")
    kinds = import_module("ibis.expr.datatypes").DataType

    def released(*columns: Any) -> Any:
        part = release(pyarrow.Table.from_arrays(list(columns), schema=schema)).cast(result)
        arrays = [column.combine_chunks() for column in part.columns]
        return pyarrow.StructArray.from_arrays(arrays, fields=list(result))

    # Ibis and DuckDB inspect the parameters
    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(f"column_{k}", kind) for k in range(len(schema))]
    released.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    # a function from columns to a struct of the released ones
    function = ibis.udf.scalar.pyarrow(
        released,
        name=f"puffer_release_{next(_numbers)}",
        signature=(tuple(columns.schema().types), kinds.from_pyarrow(pyarrow.struct(list(result)))),
        # rows with missing values are passed, and calls with constant arguments are not folded
        null_handling="special",
        side_effects=True,
    )
    return columns.select(released=function(*(columns[n] for n in names))).unpack("released")


_PLANS: dict[str, Plan] = {
    "polars": _on_polars,
    "duckdb": _on_duckdb,
    "dask": _on_dask,
    "spark": _on_spark,
    "ibis": _on_ibis,
}


# ------------------------------------------------------------- all rows of a number at once


def summed(X: Any, by: Sequence[str], of: Sequence[str] = ()) -> dict[str, Array]:
    """Return groups of equal numbers, ascending, their sizes ("n") and sums of columns; one query.

    Raises
    ------
    ValueError
        If there are more groups than are fetched.
    """
    sums = [nw.len().alias("n"), *(nw.col(name).sum() for name in of)]
    grouped = _numbers_of(X, [*by, *of]).group_by(*by).agg(*sums)
    found = _in_memory(grouped.head(MOST_CELLS + 1), [*by, "n", *of])
    if len(found["n"]) > MOST_CELLS:
        raise ValueError(
            f"known columns have more than {MOST_CELLS:,} different combinations with secrets, the "
            "most that are fetched from an engine; bin or merge them, or read X into memory."
        )
    order = np.lexsort([found[name] for name in by[::-1]])
    return {name: numbers[order] for name, numbers in found.items()}


def numbers_up_to(X: Any, name: str, limit: int) -> Array:
    """Return the numbers of a column that are at most ``limit``; one query."""
    return _in_memory(_numbers_of(X, [name]).filter(nw.col(name) <= limit), [name])[name]


def at_ranks(
    X: Any, by: Sequence[str], number: str, interval: str, wanted: Mapping[Any, Array]
) -> dict[Any, Array]:
    """Return order statistics of a column within groups of rows; two queries.

    Parameters
    ----------
    X : lazy table
    by : sequence of str
        Columns of integers, whose values define the groups.
    number, interval : str
        The column of integers, and that of the intervals that they lie in, in their order.
    wanted : mapping of ndarray of int
        Ranks within each group, from 0.
    """
    counts = summed(X, [*by, interval])
    within: dict[Any, tuple[Array, Array]] = {}
    for group, places in wanted.items():
        here = np.logical_and.reduce([counts[n] == k for n, k in zip(by, group, strict=True)])
        ends = np.cumsum(counts["n"][here])
        at = np.searchsorted(ends, places, side="right")
        within[group] = counts[interval][here][at], places - (ends - counts["n"][here])[at]
    looked = np.unique(np.concatenate([intervals for intervals, _ in within.values()])).tolist()
    names = [*by, interval, number]
    rows = _in_memory(_numbers_of(X, names).filter(nw.col(interval).is_in(looked)), names)
    found = {}
    for group, (intervals, steps) in within.items():
        here = np.logical_and.reduce([rows[n] == k for n, k in zip(by, group, strict=True)])
        order = np.argsort(rows[number][here])
        ascending, of = rows[number][here][order], rows[interval][here][order]
        found[group] = ascending[np.searchsorted(of, intervals) + steps]
    return found


def _numbers_of(X: Any, names: Sequence[str]) -> nw.LazyFrame[Any]:
    table = lazy_table(X)
    return table.frame.select(*(table.column(name).alias(name) for name in names))


def _in_memory(frame: nw.LazyFrame[Any], names: Sequence[str]) -> dict[str, Array]:
    found = collected(frame)
    return {name: found[name].cast(nw.Int64).to_numpy() for name in names}


def together(X: Any, number: str, n_numbers: int, release: Release, rank: str = "") -> Any:
    """Return the lazy result of ``release`` on all rows of each number at once.

    polars, Dask and Spark compute it at each action. DuckDB sorts the rows by their numbers, Ibis
    scans the table once for each number; both compute the result now, into an unnamed file.

    Parameters
    ----------
    X : lazy table
    number : str
        A column of numbers below ``n_numbers``.
    release : callable
        Maps a table of the columns of X to the result.
    rank : str, optional
        A column of the result, by which its rows are sorted; it is dropped.
    """
    return _TOGETHER[engine_of(X)](X, number, n_numbers, release, rank)


def _together_on_polars(X: Any, number: str, n: int, release: Release, rank: str) -> Any:
    polars = import_module("polars")
    schema = release(polars.DataFrame(schema=X.collect_schema())).schema
    part = partial(_polars_part, release=release, schema=schema)
    made = X.group_by(number).map_groups(part, schema=schema)
    names = schema.names()
    kept = [k for k, name in enumerate(names) if name != rank]
    return made.sort(rank).select(polars.nth(*kept)) if rank else made


def _together_on_dask(X: Any, number: str, n: int, release: Release, rank: str) -> Any:
    like = release(pd.DataFrame({name: pd.Series(dtype=X.dtypes[name]) for name in X.columns}))
    like.index = pd.Index([], dtype=X.index.dtype, name=X.index.name)
    part = partial(_dask_groups, number=number, release=release, dtypes=dict(like.dtypes))
    rows = X.shuffle(on=number, npartitions=n)
    made = rows.map_partitions(part, meta=like, align_dataframes=False)
    if not rank:
        return made
    mixed = made.shuffle(on=rank, npartitions=X.npartitions)
    return mixed.map_partitions(_in_order, rank, meta=like.drop(columns=rank))


def _dask_groups(
    frame: pd.DataFrame, number: str, release: Release, dtypes: dict[str, Any]
) -> pd.DataFrame:
    """Release all rows of some numbers; called in a worker."""
    groups = [_dask_part(rows, release, dtypes) for _, rows in frame.groupby(number)]
    return pd.concat(groups) if groups else _dask_part(frame, release, dtypes)


def _in_order(part: pd.DataFrame, rank: str) -> pd.DataFrame:
    return part.sort_values(rank).drop(columns=rank)


def _together_on_spark(X: Any, number: str, n: int, release: Release, rank: str) -> Any:
    names = list(X.columns)
    numbers = [str(k) for k in range(len(names))]
    by_place = X.toDF(*numbers)
    schema = _spark_schema(by_place, names, release)

    def part(table):  # type: ignore[no-untyped-def]  # Spark reads the signature
        return release(table.rename_columns(names))

    made = by_place.groupBy(numbers[names.index(number)]).applyInArrow(part, schema)
    if not rank:
        return made
    places = [str(k) for k in range(len(schema.names))]
    last = places[schema.names.index(rank)]
    mixed = made.toDF(*places).repartition(n, last).sortWithinPartitions(last)
    return mixed.drop(last).toDF(*(name for name in schema.names if name != rank))


def _together_on_duckdb(X: Any, number: str, n: int, release: Release, rank: str) -> Any:
    duckdb, place = import_module("duckdb"), X.columns.index(number) + 1
    # a reader that is closed frees the connection
    with X.order(f"#{place}").to_arrow_reader(_FETCHED) as rows:
        schema = release(rows.schema.empty_table()).schema
        made = _spooled(_of_each(rows, number), schema, release)
    rows = duckdb.from_arrow(made)
    if not rank:
        return rows
    ordered = rows.order(f"#{made.column_names.index(rank) + 1}")
    kept = [(f"#{k}", name) for k, name in enumerate(made.column_names, 1) if name != rank]
    return selected(ordered, kept)


def _together_on_ibis(X: Any, number: str, n: int, release: Release, rank: str) -> Any:
    schema = release(X.schema().to_pyarrow().empty_table()).schema
    each = (X.filter(X[number] == k).to_pyarrow() for k in range(n))
    made = _spooled((some for some in each if len(some)), schema, release)
    table = import_module("ibis").memtable(made)
    return table.order_by(rank).drop(rank) if rank else table


_FETCHED = 1 << 16  # rows


def _spooled(tables: Iterator[Any], schema: Any, release: Release) -> Any:
    """Apply ``release`` to tables one by one; return the results as a table in an unnamed file."""
    pyarrow = import_module("pyarrow")
    with TemporaryFile() as file:  # which the system may take out of memory
        with pyarrow.ipc.new_file(pyarrow.PythonFile(file, "w"), schema) as writer:
            for rows in tables:
                writer.write_table(release(rows).cast(schema))
        file.flush()
        mapped = pyarrow.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ))
    return pyarrow.ipc.open_file(pyarrow.BufferReader(mapped)).read_all()


def _of_each(batches: Any, number: str) -> Iterator[Any]:
    """Yield the rows of each number as a table, given batches that are ordered by it."""
    pyarrow = import_module("pyarrow")
    held: list[Any] = []
    for batch in batches:
        numbers = batch.column(number).to_numpy()
        starts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
        for start, stop in pairwise(starts):
            if held and stop > start and held[-1].column(number)[0].as_py() != numbers[start]:
                yield pyarrow.Table.from_batches(held)
                held = []
            held += [batch.slice(start, stop - start)] if stop > start else []
    if held:
        yield pyarrow.Table.from_batches(held)


_TOGETHER: dict[str, Callable[..., Any]] = {
    "polars": _together_on_polars,
    "duckdb": _together_on_duckdb,
    "dask": _together_on_dask,
    "spark": _together_on_spark,
    "ibis": _together_on_ibis,
}
WRITTEN: dict[Any, Callable[[str], Any]] = {
    nw.Decimal: Decimal,
    nw.Int128: int,
    nw.UInt128: int,
    nw.Date: pd.Timestamp,
    nw.Datetime: pd.Timestamp,
    nw.Binary: bytes.fromhex,
}
"""How to read the text into which DuckDB turns other types."""
