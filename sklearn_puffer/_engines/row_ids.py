"""Ids of rows: a canonical form, whatever their type or engine, and their number.

An id is equal in every type: a whole number as an integer, a decimal or an object; a UUID as an
object, 16 bytes or text; a date as an object, its midnight or text.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._engines.engine import engine_of, in_narwhals, is_of
from sklearn_puffer._engines.lazy import collected, lazy_table
from sklearn_puffer._engines.plans import WRITTEN
from sklearn_puffer._tables import LABEL_TYPES, Name, Table, Values, frame_table
from sklearn_puffer._words import on_one_line, quoted

_is_uuid = is_of("uuid", "UUID")
_MOST = 1 << 127  # a number of 128 bits is an id as it is

Text = Callable[[str], Any] | None
"""How to parse the text of an id; None if the text is the id."""


class IdCounts(NamedTuple):
    """The number of rows, of rows without an id, and of distinct ids."""

    rows: int
    absent: int
    distinct: int


def canonical_id(value: Any) -> int | str | None:
    """Return an id as a number or a text, equal for every type; None if it is no id.

    >>> canonical_id(Decimal("7.00")), canonical_id(bytes(15) + b"*")
    (7, '00000000-0000-0000-0000-00000000002a')
    >>> canonical_id(datetime(2020, 1, 31)), canonical_id(b"id"), canonical_id(0.5)
    ('2020-01-31', '6964', None)
    """
    if isinstance(value, Decimal) and value.is_finite():
        return canonical_id(int(value)) if value == int(value) else f"{value:f}".rstrip("0")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value) if -_MOST <= int(value) < _MOST else str(int(value))
    if isinstance(value, bytes):
        parts = [value[start:stop].hex() for start, stop in pairwise((0, 4, 6, 8, 10, 16))]
        return "-".join(parts) if len(value) == 16 else value.hex()
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat().removesuffix("T00:00:00")
    return str(value) if isinstance(value, str | date) or _is_uuid(value) else None


def read_ids(table: Table, name: Name, text: Text = None) -> Values:
    """Return ids as integers, or as codes into levels that are strings or numbers.

    Raises
    ------
    TypeError, ValueError
        If they are no ids, or strings beside others.
    """
    column, fault = table.original(name), None
    try:
        values = None if text else table.values(name)
    except (TypeError, ValueError) as error:  # a type that is not released, or invalid strings
        values, fault = None, error
    levels = () if values is None else values.levels or ()
    if values is not None and (values.kind == "integer" or {str} == {*map(type, levels)}):
        return values
    if values is not None and levels:
        column = values.labels()
    objects = [text(x) if text and isinstance(x, str) else x for x in _objects(column)]
    given = pd.Series(objects, dtype=object)
    kinds, gone = {type(x).__name__ for x in given.dropna()}, given.isna().to_numpy()
    if fault is not None and kinds == {"str"}:
        raise fault
    ids = [None if absent else canonical_id(x) for x, absent in zip(objects, gone, strict=True)]
    if "str" in kinds or ids.count(None) > gone.sum():
        raise _no_ids(name, ", ".join(sorted(kinds)))
    codes, found = pd.factorize(np.array(ids, dtype=object))
    return Values("category", codes, gone if gone.any() else None, tuple(found))


def _no_ids(name: Name, kind: Any) -> TypeError:
    return TypeError(
        f"row_id {quoted(name)} holds no ids, which are whole numbers, strings, UUIDs, bytes, "
        f"dates or times ({on_one_line(kind)}); convert it, or name a column that has some."
    )


def _objects(column: Any) -> list[Any]:
    if isinstance(column, nw.Series):
        if not (column.dtype == nw.Datetime and column.implementation.is_polars()):
            return column.to_list()
        column = column.to_pandas()  # a list of polars would lack nanoseconds
    return list(pd.Series(column).astype(object))


def check_id_type(X: Any, name: str) -> Text:
    """Check the type of ids of a lazy table; nothing is computed.

    Returns
    -------
    callable or None
        The parser of the text that the engine makes of them.
    """
    dtype, engine = lazy_table(X).types[name], engine_of(X)
    written = [read for kind, read in WRITTEN.items() if dtype == kind]
    ibis_types = X.schema().items() if engine == "ibis" else ()  # narwhals knows no UUIDs
    kinds = dict(zip(X.columns, X.types, strict=True) if engine == "duckdb" else ibis_types)
    known = written or dtype in LABEL_TYPES or dtype.is_integer()
    if not (known or str(kinds.get(name)).lower() == "uuid"):
        raise _no_ids(name, dtype)
    return written[0] if written and engine == "duckdb" else None


def count_ids(X: Any, name: str) -> IdCounts:
    """Return the exact counts of a column of ids of a lazy table; one query."""
    table = lazy_table(X)
    frame, ids = table.frame, table.column(name)
    if table.types[name] == nw.Categorical:
        ids = ids.cast(nw.String)
    if table.types[name] == nw.Object:  # of Dask: of any type
        parts = X[[name]].map_partitions(_as_texts, name, meta={"id": "string"})
        frame, ids = in_narwhals(parts), nw.col("id")
    # some engines only estimate the number of distinct values
    groups = frame.select(ids.alias("id")).group_by("id").agg(nw.len().alias("n"))
    gone, size = nw.col("id").is_null(), nw.col("n")
    sums = {
        "rows": size,
        "absent": nw.when(gone).then(size).otherwise(0),
        "distinct": nw.when(gone).then(0).otherwise(1),
    }
    counts = collected(groups.select(*(sizes.sum().alias(key) for key, sizes in sums.items())))
    return IdCounts(*(int(counts[sizes][0] or 0) for sizes in IdCounts._fields))


def _as_texts(part: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return ids as texts that are equal if the ids are; called in a worker."""
    values = read_ids(frame_table(part), name)
    ids = values.data.tolist() if values.levels is None else values.labels()
    texts = [None if value is None else f"{type(value).__name__} {value}" for value in ids]
    return pd.DataFrame({"id": pd.array(texts, dtype="string")}, index=part.index)
