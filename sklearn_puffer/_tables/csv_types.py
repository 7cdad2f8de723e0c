"""What the text of a CSV file says: the type of a column, and whether its separator is another one.

Both ways to read CSV files ask here, that of `fit` (by polars) and that of the command line (by
pyarrow), so that the same file has the same types: those that every value of a column has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_END = r"([eE][+-]?[0-9]{1,3})?$"
PATTERNS = {
    "boolean": r"^(true|false|True|False|TRUE|FALSE)$",
    "integer": r"^(0|-?[1-9][0-9]{0,17})$",
    # no leading zeros, and no more digits than a float has: those are ids
    "float": rf"^-?(0|[1-9][0-9]{{0,14}})(\.[0-9]*)?{_END}|^-?\.[0-9]+{_END}",
}
"""What all values of a column of a type look like; of the first one that fits. The rest is text."""

_SEPARATORS = ";\t|,"


def other_separator(names: Sequence[str], separator: str = ",") -> str | None:
    r"""Return what seems to stand between the values of a file that has one column by its header.

    >>> other_separator(["age;sex;income"]), other_separator(["age", "sex;income"])
    (';', None)
    """
    if len(names) != 1:
        return None
    found = max(_SEPARATORS.replace(separator, ""), key=names[0].count)
    return found if found in names[0] else None


def typed_csv(polars: Any, rows: Any) -> Any:
    """Return a polars LazyFrame of text with columns in their types; one pass over the rows.

    Columns are asked for by place, as polars takes some names for patterns.
    """
    places = range(len(rows.collect_schema()))
    checks = [
        polars.nth(k).str.contains(pattern).all().alias(f"{k} {kind}")
        for k in places
        for kind, pattern in PATTERNS.items()
    ]
    some = [polars.nth(k).count().alias(str(k)) for k in places]
    found = rows.select(*some, *checks).collect(engine="streaming").row(0, named=True)
    kinds = [
        next((kind for kind in PATTERNS if found[str(k)] and found[f"{k} {kind}"]), "string")
        for k in places
    ]
    return rows.select(*(_of_kind(polars, polars.nth(k), kinds[k]) for k in places))


def _of_kind(polars: Any, column: Any, kind: str) -> Any:
    if kind == "boolean":
        return column.str.to_lowercase() == "true"
    types = {"integer": polars.Int64, "float": polars.Float64, "string": polars.String}
    return column.cast(types[kind])
