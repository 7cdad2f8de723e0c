"""Rows of an Ibis table that pass through a function of Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import Parameter, Signature
from itertools import count
from typing import Any

Release = Callable[[Any], Any]

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
