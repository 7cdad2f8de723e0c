"""Rows of a DuckDB relation that pass through a function of Arrow tables.

DuckDB hands the parts of a relation to Python as pandas frames, where integers that miss values
are floats. So a column travels with a mask of what is missing, by its place, and a column of
another type than numbers, booleans and strings as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pandas as pd

from sklearn_puffer._base import on_one_line

Release = Callable[[Any], Any]

_TYPES: dict[str, tuple[str, Any]] = {
    "bool": ("BOOLEAN", pd.BooleanDtype()),
    "int8": ("TINYINT", pd.Int8Dtype()),
    "int16": ("SMALLINT", pd.Int16Dtype()),
    "int32": ("INTEGER", pd.Int32Dtype()),
    "int64": ("BIGINT", pd.Int64Dtype()),
    "uint8": ("UTINYINT", pd.UInt8Dtype()),
    "uint16": ("USMALLINT", pd.UInt16Dtype()),
    "uint32": ("UINTEGER", pd.UInt32Dtype()),
    "uint64": ("UBIGINT", pd.UInt64Dtype()),
    "float": ("FLOAT", pd.Float32Dtype()),
    "double": ("DOUBLE", pd.Float64Dtype()),
}
"""By their Arrow types, columns that miss values by a mask: DuckDB's type, and that of pandas."""

_LABELS = ("varchar", "enum")
_AS_TEXT: tuple[str, ...] = (
    "date",
    "timestamp",
    "timestamp_s",
    "timestamp_ms",
    "timestamp_ns",
    "decimal",
    "time",
)
_AS_TEXT += ("hugeint", "uhugeint", "uuid", "timestamp with time zone", "blob")


def on_duckdb(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the relation of what ``release`` makes of some columns of X; nothing is computed.

    Raises
    ------
    TypeError
        If one of the columns has a type that does not come back as it was.
    """
    duckdb = import_module("duckdb")
    kinds = {name: kind for name, kind in zip(X.columns, X.types, strict=True) if name in names}
    places = {name: place for place, name in enumerate(X.columns, 1)}
    own = [_sent(f"#{places[name]}", name, kinds[name]) for name in names]
    sent = selected(X, [(column, str(k)) for k, column in enumerate(own)])
    schema = _renamed(sent.limit(0).to_arrow_table(), names).schema
    result = release(schema.empty_table()).schema
    out = {str(k): duckdb.sqltype(_duckdb_type(field)) for k, field in enumerate(result)}
    part = partial(_part, schema=schema, result=result, release=release)
    return (
        _with_masks(duckdb, sent, schema)
        .map(part, schema=out)
        .select(*(_back(duckdb, str(k), name, kinds) for k, name in enumerate(result.names)))
    )


def selected(X: Any, columns: Sequence[tuple[str, str]]) -> Any:
    """Return columns of a relation, each with a name; "#1" is the first, since names ignore case.

    Parameters
    ----------
    X : DuckDBPyRelation
    columns : sequence of pairs
        What is computed, in SQL, and its name.
    """
    quoted = [(own, name.replace('"', '""')) for own, name in columns]
    return X.project(", ".join(f'{own} as "{name}"' for own, name in quoted))


def _sent(column: str, name: str, kind: Any) -> str:
    """Return a column as it is handed to Python."""
    if kind.id in _LABELS + _AS_TEXT:
        return f"hex({column})" if kind.id == "blob" else f"cast({column} as VARCHAR)"
    if str(kind) not in {own for own, _ in _TYPES.values()}:
        raise TypeError(
            f"column {name!r} has type {on_one_line(kind)}, which would not come back from Python "
            "as it was; drop it from the relation, or convert it to a number, a string or a date."
        )
    return column


def _with_masks(duckdb: Any, sent: Any, schema: Any) -> Any:
    """Return columns with a mask beside each whose missing values pandas has no place for."""
    chosen = []
    for k, field in enumerate(schema):
        column = duckdb.ColumnExpression(str(k))
        if str(field.type) not in _TYPES:
            chosen.append(column)
            continue
        zero = duckdb.ConstantExpression(0).cast(_duckdb_type(field))
        chosen.append(duckdb.CoalesceOperator(column, zero).alias(str(k)))
        chosen.append(column.isnull().alias(f"no {k}"))
    return sent.select(*chosen)


def _duckdb_type(field: Any) -> str:
    return _TYPES[str(field.type)][0] if str(field.type) in _TYPES else "VARCHAR"


def _back(duckdb: Any, place: str, name: str, kinds: Mapping[str, Any]) -> Any:
    """Return a column of the result by its name, and in its own type where it came as text."""
    column = duckdb.ColumnExpression(place)
    kind = kinds.get(name)
    if kind is not None and kind.id == "blob":
        column = duckdb.FunctionExpression("unhex", column)
    elif kind is not None and kind.id in _AS_TEXT:
        column = column.cast(kind)
    return column.alias(name)


def _part(frame: pd.DataFrame, schema: Any, result: Any, release: Release) -> pd.DataFrame:
    """Release a part of a relation; called by DuckDB."""
    released = release(_as_arrow(frame, schema)).cast(result)
    return pd.DataFrame({str(k): _in_pandas(each) for k, each in enumerate(released.columns)})


def _in_pandas(column: Any) -> Any:
    own = _TYPES.get(str(column.type))
    if own is not None and not column.null_count:
        return column.to_numpy()  # parts are small, and pandas' own types are slow to make
    kind = pd.StringDtype() if own is None else own[1]
    return column.to_pandas(types_mapper=lambda dtype: kind)


def _as_arrow(frame: pd.DataFrame, schema: Any) -> Any:
    pyarrow = import_module("pyarrow")
    arrays = []
    for k, field in enumerate(schema):
        values: Any = frame[str(k)]
        if f"no {k}" in frame:
            mask = frame[f"no {k}"].to_numpy(dtype=bool)
            gone = mask if mask.any() else None
            arrays.append(pyarrow.array(values.to_numpy(), type=field.type, mask=gone))
        else:
            arrays.append(pyarrow.array(values, type=field.type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _renamed(table: Any, names: Sequence[str]) -> Any:
    return table.rename_columns(list(names))
