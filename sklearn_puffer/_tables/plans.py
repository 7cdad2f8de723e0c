"""Lazy tables whose rows pass through a function, a part at a time: one plan for each engine.

The function takes a table in memory and returns one of as many rows: a polars DataFrame on polars,
a pandas one on Dask, an Arrow table elsewhere. It is called with no rows for the types of its
result, so that a plan is made without a job, and with the rows of a part whenever an engine
computes that part.

Rows of an Ibis table that pass through a function of Arrow tables.

Parts of a Spark DataFrame that pass through a function of Arrow tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from itertools import count
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from sklearn_puffer._base import Array, on_one_line, task
from sklearn_puffer._tables.dask_plan import on_dask
from sklearn_puffer._tables.duckdb_plan import on_duckdb
from sklearn_puffer._tables.engine import lazy_table
from sklearn_puffer._tables.opening import engine_of, in_narwhals
from sklearn_puffer._tables.values import Kind, Name, check_type

Release = Callable[[Any], Any]
Plan = Callable[[Any, Sequence[str], Release], Any]


_TYPES = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
}
"""Spark's types and those of Arrow: what can be released, and what comes of it."""


def on_spark(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Spark DataFrame of what ``release`` makes of some columns; no job is started."""
    fields = {field.name: field for field in X.schema.fields}
    # by place: Spark's names ignore case, and a dot in one asks for a part of it
    places = [str(k) for k in range(len(X.columns))]
    kept = [place for place, name in zip(places, X.columns, strict=True) if name in names]
    own = X.toDF(*places).select(*kept)
    result = release(_no_rows([fields[name] for name in names])).schema
    part = partial(_parts, names=list(names), release=release)
    schema = import_module("pyspark.sql.types").StructType(
        [_field(each, fields.get(each.name)) for each in result]
    )
    return own.mapInArrow(part, schema)


def _no_rows(fields: Sequence[Any]) -> Any:
    """Return an Arrow table of such columns; one that is only passed needs no type in it."""
    pyarrow = import_module("pyarrow")
    types = [_TYPES.get(_kind(field.dataType), "null") for field in fields]
    return pyarrow.schema(
        [(field.name, own) for field, own in zip(fields, types, strict=True)]
    ).empty_table()


def _kind(dtype: Any) -> str:
    """Return Spark's own name of a type, for strings without the collation that it may have."""
    return str(dtype.simpleString()).split(" ")[0]


def _field(released: Any, own: Any) -> Any:
    """Return the Spark field of a released column: as it was, wherever its type is as it was."""
    types = import_module("pyspark.sql.types")
    if own is not None and str(released.type) == _TYPES.get(_kind(own.dataType), "null"):
        return types.StructField(released.name, own.dataType, True)
    [name] = [spark for spark, arrow in _TYPES.items() if arrow == str(released.type)]
    made = types.DataType.fromDDL(name)
    return types.StructField(released.name, made, True)


def _parts(batches: Iterator[Any], names: Sequence[str], release: Release) -> Iterator[Any]:
    """Release the batches of a part; called in a worker."""
    pyarrow = import_module("pyarrow")
    for batch in batches:
        table = pyarrow.Table.from_batches([batch]).rename_columns(list(names))
        yield from release(table).combine_chunks().to_batches()


_numbers = count()  # a function is registered by its name, and two plans have two


def on_ibis(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Ibis table of what ``release`` makes of some columns of X; nothing is computed.

    Raises
    ------
    TypeError
        If the backend has no functions of Arrow arrays.
    """
    if X.get_backend().name != "duckdb":
        raise TypeError(
            f"X is an Ibis table of {X.get_backend().name}, whose rows do not pass through Python; "
            "write it once and take the files (pl.scan_parquet, or transform_batches), or use "
            "Ibis on DuckDB."
        )
    own = X.select(*names)
    schema = own.schema().to_pyarrow()
    result = release(schema.empty_table()).schema
    rows = _function(own.schema(), schema, result, release)(*(own[name] for name in names))
    return own.select(released=rows).unpack("released")


def _function(own: Any, schema: Any, result: Any, release: Release) -> Any:
    """Return a function of columns as Ibis knows it, to a struct of the released ones."""
    pyarrow, ibis = import_module("pyarrow"), import_module("ibis")
    kinds = import_module("ibis.expr.datatypes").DataType

    def released(*columns: Any) -> Any:
        part = release(pyarrow.Table.from_arrays(list(columns), schema=schema)).cast(result)
        arrays = [column.combine_chunks() for column in part.columns]
        return pyarrow.StructArray.from_arrays(arrays, fields=list(result))

    # Ibis and DuckDB count the parameters
    released.__signature__ = _signature(len(schema))  # type: ignore[attr-defined]
    return ibis.udf.scalar.pyarrow(
        released,
        name=f"puffer_release_{next(_numbers)}",
        signature=(tuple(own.types), kinds.from_pyarrow(pyarrow.struct(list(result)))),
        # a row that misses a value is a row, and a function of constants is not folded
        null_handling="special",
        side_effects=True,
    )


def _signature(n_columns: int) -> Signature:
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return Signature([Parameter(f"column_{k}", kind) for k in range(n_columns)])


def planned(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the lazy table of what ``release`` makes of some columns of X; nothing is computed.

    Parameters
    ----------
    X : lazy table
    names : sequence of str
        The columns that are read.
    release : callable
        From a table of those columns to one of others; pickled where tasks are.
    """
    return _plan_of(X)(X, names, release)


def with_numbers(part: Any, columns: Mapping[str, Array]) -> Any:
    """Return a part of a table with further columns of whole numbers."""
    frame = nw.from_native(part, eager_only=True)
    backend = frame.implementation
    further = [nw.new_series(name, own, nw.Int64, backend=backend) for name, own in columns.items()]
    # a series takes its place by position: the index of a part of Dask stays
    return frame.with_columns(*further).to_native()


def chosen(part: Any, names: Sequence[Name], rows: Array | None = None) -> Any:
    """Return some columns of a table in memory; with ``rows``, those rows in that order."""
    found = nw.from_native(part, eager_only=True)[[str(name) for name in names]]
    return (found if rows is None else found[rows.tolist()]).to_native()


def free_name(names: Sequence[str], name: str) -> str:
    """Return a name that none of the columns has, whatever the case of its letters."""
    while name.casefold() in {other.casefold() for other in names}:
        name += "_"
    return name


def rows_with(plan: Any, name: str) -> Any:
    """Return the rows of a plan in which a column is not negative: a table such as its parts are.

    Parameters
    ----------
    plan : lazy table
    name : str
        The column, of whole numbers.
    """
    found = in_narwhals(plan).filter(nw.col(name) >= 0)
    kinds: dict[str, Any] = {"polars": "polars", "dask": "pandas"}
    with task("query of the engine"):
        return found.collect(kinds.get(engine_of(plan), "pyarrow")).to_native()


def replaced(part: Any, rows: Any, places: Array) -> Any:
    """Return a part some of whose rows are others, in the types and with the index of the part.

    Parameters
    ----------
    part, rows : DataFrame, or Arrow table
        Of the same columns.
    places : ndarray of int of shape (len(part),)
        Which of ``rows`` stands for each row; -1 leaves it as it is.
    """
    above, below = (nw.from_native(each, eager_only=True) for each in (part, rows))
    if above.implementation.is_pyarrow():  # which has several types of strings
        below = nw.from_native(rows.cast(part.schema), eager_only=True)
    taken = np.where(places < 0, np.arange(len(above)), places + len(above))
    found = nw.concat([above, below], how="vertical")[taken].to_native()
    return found.set_axis(part.index) if above.implementation.is_pandas() else found


def lazy_names(X: Any) -> tuple[str, ...]:
    """Return the names of the columns of a lazy table.

    Raises
    ------
    TypeError
        If it is one whose rows cannot be released where they are.
    """
    _plan_of(X)
    return tuple(lazy_table(X).types)


def _plan_of(X: Any) -> Plan:
    if engine := engine_of(X):
        return _PLANS[engine]
    raise TypeError(
        f"X is a {type(X).__name__}, which has no engine that could compute its release; scan it "
        "(pl.scan_parquet(path), duckdb.from_arrow(dataset)), or release it as a stream, by "
        "transform_batches."
    )


def check_lazy_kinds(X: Any, kinds: Mapping[str, Kind]) -> None:
    """Refuse columns of a lazy table that are not of their kinds, as far as their types tell.

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


def _on_polars(X: Any, names: Sequence[str], release: Release) -> Any:
    polars = import_module("polars")
    known = X.collect_schema().names()
    own = X.select(polars.nth(*map(known.index, names)))  # names may be patterns to polars
    schema = release(polars.DataFrame(schema=own.collect_schema())).schema
    # a filter, or a choice of columns, belongs behind the release: before it, it would see the rows
    return own.map_batches(
        partial(_polars_part, release=release, schema=schema),
        predicate_pushdown=False,
        projection_pushdown=False,
        slice_pushdown=False,
        schema=schema,
        validate_output_schema=True,
        streamable=True,
    )


def _polars_part(frame: Any, release: Release, schema: Any) -> Any:
    # column by column: a frame that is cast takes names for patterns
    return type(frame)([column.cast(schema[column.name]) for column in release(frame)])


_PLANS: dict[str, Plan] = {
    "polars": _on_polars,
    "duckdb": on_duckdb,
    "dask": on_dask,
    "spark": on_spark,
    "ibis": on_ibis,
}
