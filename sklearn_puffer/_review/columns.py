"""The table that a plan or an audit looks at, what its columns are, and which are proposed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sklearn_puffer._tables import (
    Name,
    Table,
    Values,
    as_pandas,
    hardly_repeats,
    is_frame,
    is_lazy,
    known,
    looks_like_key,
    present,
)

Use = Literal["sensitive", "release", "leave out", "not asked for"]

_NUMBERS = ("float", "integer")


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is, and what the plan does with it.

    Attributes
    ----------
    name : str or int
    use : {"sensitive", "release", "leave out", "not asked for"}
    kind : str
        In words: "number", "whole number", "yes or no", "order", "category", "date", "days",
        "identifier", "constant", "nothing" or "unreadable".
    distinct, missing : int
        How many different values it has, and in how many rows it has none.
    remark : str
        What there is to say of it, such as why it is left out.
    constant : float
        What a constant in its place changes, in standard deviations.
    """

    name: Name
    use: Use
    kind: str
    distinct: int = 0
    missing: int = 0
    remark: str = ""
    constant: float = float("nan")

    @property
    def numeric(self) -> bool:
        """Whether bins are possible."""
        return self.kind in ("number", "whole number", "days", "identifier")

    @property
    def hardly_repeats(self) -> bool:
        """Whether it is proposed for bins because its values are too many."""
        return self.remark.startswith(_BINS)


_BINS = "hardly repeats"


def read_columns(
    table: Table,
    sensitive: Sequence[Name],
    public: Collection[Name] | None,
    dates: Collection[Name],
    days: Collection[Name],
    orders: Mapping[Any, Any],
) -> list[ColumnFacts]:
    """Return what the columns are, in the order of the table.

    Parameters
    ----------
    table : Table
    sensitive : sequence of names
    public : collection of names or None
        The columns to release, which are then proposed whatever they look like; None for all that
        are fit for it.
    dates : collection of names
        Columns of dates, times and durations, as they are.
    days : collection of names
        Those that have become whole days.
    orders : mapping
        The declared values of some columns, as in ``categories=``.
    """
    facts = []
    for name in table.names:
        if name in dates:
            facts.append(_date(name, sensitive))
            continue
        try:
            values = table.values(name)
        except (TypeError, ValueError) as error:
            facts.append(ColumnFacts(name, _use(name, sensitive), "unreadable", remark=str(error)))
            continue
        asked = public is not None and name in public
        fact = _read(name, values, sensitive, asked=asked, ordered=name in orders)
        fact = _in_days(fact) if name in days else fact
        skipped = fact.use != "sensitive" and public is not None and not asked
        facts.append(ColumnFacts(name, "not asked for", fact.kind) if skipped else fact)
    return facts


def without_odd_gaps(facts: Sequence[ColumnFacts]) -> list[ColumnFacts]:
    """Leave out numbers with gaps beside secrets with gaps: no one setting has a place for both."""
    if not any(each.missing for each in facts if each.use == "sensitive"):
        return list(facts)
    remark = "it has missing values beside those of a sensitive column; fill or drop one of them"
    return [
        replace(each, use="leave out", remark=remark)
        if each.use == "release" and each.numeric and each.missing
        else each
        for each in facts
    ]


def _use(name: Name, sensitive: Sequence[Name]) -> Use:
    return "sensitive" if name in sensitive else "leave out"


def _in_days(fact: ColumnFacts) -> ColumnFacts:
    """Return what a column of days is: they number no rows, even if each has its own."""
    if fact.kind == "identifier":
        return replace(fact, use="release", kind="days", remark=f"{_BINS}: it goes into bins")
    return replace(fact, kind="days") if fact.kind == "whole number" else fact


def _date(name: Name, sensitive: Sequence[Name]) -> ColumnFacts:
    remark = 'dates="days" makes whole days of dates, and numbers can be released'
    return ColumnFacts(name, _use(name, sensitive), "date", remark=remark)


def _read(
    name: Name, values: Values, sensitive: Sequence[Name], *, asked: bool, ordered: bool
) -> ColumnFacts:
    data = present(values)
    atoms = np.unique(data)
    counts = {"distinct": len(atoms), "missing": values.n_missing}
    if name in sensitive:
        kind = _kind(values, ordered=ordered)
        remark = f"{_BINS}: its values have few rows each" if _many(atoms, values) else ""
        return ColumnFacts(name, "sensitive", kind, **counts, remark=remark)
    kind, remark, out = _judged(values, data, atoms, ordered=ordered)
    possible = kind not in ("nothing", "unreadable")
    use: Use = "leave out" if out and not (asked and possible) else "release"
    return ColumnFacts(name, use, kind, **counts, remark=remark)


def _kind(values: Values, *, ordered: bool) -> str:
    if values.kind == "category":
        return "order" if ordered or values.ordered else "category"
    if ordered:
        return "order"
    return {"boolean": "yes or no", "integer": "whole number", "float": "number"}[values.kind]


def _many(atoms: Any, values: Values) -> bool:
    return hardly_repeats(len(atoms), len(values))


def _judged(values: Values, data: Any, atoms: Any, *, ordered: bool) -> tuple[str, str, bool]:
    """Return what a column is, what there is to say of it, and whether that keeps it out."""
    kind = _kind(values, ordered=ordered)
    if not len(data):
        return "nothing", "every value is missing", True
    if values.kind == "float" and not np.isfinite(atoms).all():
        return "unreadable", "it contains infinity; drop or replace such values", True
    if values.kind == "category" and _many(atoms, values) and not (values.declared or ordered):
        few = f"{len(atoms)} different texts in {len(values)} rows look like an identifier"
        return "identifier", f"{few}; name it in public= if it is to be released", True
    if values.kind in _NUMBERS and not ordered and looks_like_key(atoms, len(values)):
        few = f"{len(atoms)} different whole numbers in {len(values)} rows look like an identifier"
        return "identifier", f"{few}; name it in public= if it is to be released", True
    if len(atoms) == 1 and values.missing is None:
        return "constant", "it has one value only, and tells nothing", False
    if values.kind in _NUMBERS and not ordered and _many(atoms, values):
        return kind, f"{_BINS}: it goes into bins", False
    return kind, "", False


def in_memory(table: Any, who: str) -> Any:
    """Return the table as a pandas DataFrame.

    Parameters
    ----------
    table : DataFrame
    who : str
        Who looks at it, such as "a plan".

    Raises
    ------
    TypeError
        If it is lazy, or no DataFrame.
    """
    if is_lazy(table):
        raise TypeError(
            f"table is lazy ({type(table).__name__}), and {who} looks at rows many times; collect "
            "it, or some thousand rows of it, into memory first."
        )
    table = known(table, "table")
    if not is_frame(table):
        raise TypeError(
            f"table must be a DataFrame, got {type(table).__name__}; give its columns names, such "
            "as pandas.DataFrame(table, columns=[...])."
        )
    return as_pandas(table)
