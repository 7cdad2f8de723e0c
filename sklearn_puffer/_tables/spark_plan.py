"""Parts of a Spark DataFrame that pass through a function of Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

Release = Callable[[Any], Any]

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
