"""Ids of the rows of a lazy table: what they may be, and how many there are."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw

from sklearn_puffer._base import on_one_line, quoted, task
from sklearn_puffer._tables.engine import lazy_table


class IdCounts(NamedTuple):
    """How many rows a table has, how many lack an id, and how many distinct ids there are."""

    rows: int
    absent: int
    distinct: int


def check_id_type(X: Any, name: str) -> None:
    """Refuse ids of a lazy table that are neither integers nor strings; nothing is computed."""
    dtype = lazy_table(X).types[name]
    labels = dtype in (nw.String, nw.Categorical, nw.Enum)
    wide = dtype in (nw.Int128, nw.UInt128)
    if not (labels or (dtype.is_integer() and not wide)):
        raise TypeError(
            f"row_id {quoted(name)} holds neither whole numbers of 64 bits nor strings "
            f"({on_one_line(dtype)}); convert it to one of them."
        )


def count_ids(X: Any, name: str) -> IdCounts:
    """Return the counts of a column of ids of a lazy table, all of them exact; one query."""
    table = lazy_table(X)
    own = table.column(name)
    if table.types[name] == nw.Categorical:
        own = own.cast(nw.String)
    # what an engine offers to count distinct values is an estimate in some of them
    groups = table.frame.select(own.alias("id")).group_by("id").agg(nw.len().alias("n"))
    gone, size = nw.col("id").is_null(), nw.col("n")
    sums = {
        "rows": size,
        "absent": nw.when(gone).then(size).otherwise(0),
        "distinct": nw.when(gone).then(0).otherwise(1),
    }
    found = _collected(groups.select(*(each.sum().alias(key) for key, each in sums.items())))
    return IdCounts(*(int(found[each][0] or 0) for each in IdCounts._fields))


def _collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    with task("query of the engine"):
        if frame.implementation.is_polars():
            return frame.collect("polars", engine="streaming")
        return frame.collect("pyarrow")
