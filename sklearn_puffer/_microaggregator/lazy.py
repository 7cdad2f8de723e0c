"""A lazy table: its engine finds the rows that are learnt from, and counts all of them.

A function passes through the rows part by part, and adds the digest of each, or its stratum and its
prototypes. The engine groups by these numbers. Memory holds the sample and the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, IntArray, listed
from sklearn_puffer._microaggregator.coordinates import (
    Sample,
    by_priority,
    content_digests,
    most_rows,
)
from sklearn_puffer._microaggregator.prototypes import Prototypes
from sklearn_puffer._microaggregator.reading import (
    MOST_LABELS,
    Batch,
    People,
    Roles,
    Settings,
    TableRead,
    read_people,
    roles_of,
    table_read,
)
from sklearn_puffer._microaggregator.strata import Strata
from sklearn_puffer._release import FitRows, check_size, distinct_rows, refuse_bins
from sklearn_puffer._tables import (
    CHANGED,
    LARGEST_DIGEST,
    Faults,
    LazyTable,
    Name,
    Table,
    check_no_identifier,
    frame_table,
    opened,
    plans,
)

_RAISED = 16.0


def read_lazily(settings: Settings, given: FitRows, table: LazyTable) -> TableRead:
    """Return what `read_table` returns of the same rows in memory.

    Raises
    ------
    TypeError, ValueError
        If columns do not fit, or what is asked for needs rows in memory.
    """
    _refuse_rest(settings, given)
    roles = roles_of(settings, given)
    for name in (*roles.hidden, *roles.public, *roles.known, *roles.joined, *roles.handed):
        table.check_type(name)
    n_rows = table.n_rows if table.weight is None else table.check_weights()
    check_size(n_rows, 2, "row")
    faults = Faults()
    faults.of(lambda name: _check_public(settings, table, name), roles.public)
    few = [name for name in roles.handed if len(table.values(name)) <= MOST_LABELS]
    told = replace(roles, handed=few)
    labels = [*dict.fromkeys([*roles.hidden, *roles.joined, *few])]
    together = [*dict.fromkeys([*labels, *roles.known])]
    if not table.count(together):
        raise ValueError(
            f"columns {listed(together, 10)} have more different rows than are fetched from an "
            "engine; merge their values, or fit a sample of the rows."
        )
    people = read_people(given, roles, distinct_rows(table, together), faults)
    sample = _sampled(table, roles, people.strata, n_rows)

    def count(several: Sequence[Prototypes]) -> tuple[Batch, list[IntArray]]:
        return _counted(given, told, labels, people, several)

    batch = people.batch(told, people.rows, {})
    return table_read(settings, given, roles, people, sample, batch, count)


def _refuse_rest(settings: Settings, given: FitRows) -> None:
    refuse_bins(given)
    if given.y is not None and settings.label_weight > 0.0:
        raise TypeError(
            "y is aligned by position, and the rows of a lazy table have no order; leave it out, "
            "or fit on rows in memory."
        )
    if settings.values == "drawn":
        raise ValueError(
            'values="drawn" counts values in bins, and X is a lazy table; take values="typical", '
            "or fit on rows in memory."
        )


def _check_public(settings: Settings, table: LazyTable, name: Name) -> None:
    """Refuse a column that looks like an identifier; measured numbers are none."""
    if not table.types[str(name)].is_float():
        check_no_identifier(name, table.values(name), named=settings.public is not None)


class _Task(partial[Any]):
    """A function that an engine calls with each part; plans and logs do not show its arguments."""

    def __repr__(self) -> str:
        return f"{self.func.__name__}()"


def _numbered(table: LazyTable, names: Sequence[Name], task: Any) -> LazyTable:
    """Return some columns of a lazy table, and the numbers that a task adds to them."""
    sent = {*map(str, names), table.weight}
    numbered = opened(plans.planned(table.native, [n for n in table.types if n in sent], task))
    return replace(numbered, levels=table.levels, weight=table.weight)


# ---------------------------------------------------------------------------------- the sample


def _sampled(table: LazyTable, roles: Roles, strata: Strata | None, n_rows: int) -> Sample:
    """Return the sample that `sample_rows` takes of the same rows."""
    seen = [*roles.public, *roles.known]
    name = plans.free_name([*map(str, table.types)], "digest")
    levels = [
        len(table.values(public).levels or ())
        for public in roles.public
        if not table.types[str(public)].is_numeric()
    ]
    most = most_rows([*levels, *[0] * (len(roles.public) - len(levels))])
    digests, counts = _of_least_priority(
        _numbered(table, seen, _Task(_add_digests, roles.public, strata, name)), name, most, n_rows
    )
    chosen, stood_for = by_priority(digests, counts, most)
    stratum = plans.free_name([*map(str, table.types), name], "stratum")
    task = _Task(_add_places, roles.public, strata, digests[chosen], [name, stratum])
    part = _numbered(table, seen, task).where(name, len(chosen) - 1)
    if not part.count([*roles.public, name, stratum]):
        raise ValueError(CHANGED)
    columns = part.rows([*roles.public, name, stratum])[0]
    places, rows = np.unique(columns[name].data, return_index=True)
    if len(places) != len(chosen):
        raise ValueError(CHANGED)
    public = {name: columns[name].taken(rows) for name in roles.public}
    return Sample(public, None, columns[stratum].data[rows], counts[chosen], stood_for)


def _of_least_priority(
    table: LazyTable, name: Name, most: int, n_rows: int
) -> tuple[IntArray, IntArray]:
    """Return digests and counts of the rows of the smallest priorities, more than ``most`` if any.

    Of n rows at most n t have, on average, a digest of at most t of its range times their count.
    """
    share = min(2.0 * most / n_rows, 1.0)
    while True:
        found = table.least(name, share * (LARGEST_DIGEST + 1.0))
        if found is not None and (len(found[0]) > most or share == 1.0):
            return found
        if found is None:
            raise ValueError(CHANGED)
        share = min(_RAISED * share, 1.0)


def _add_digests(public: Sequence[Name], strata: Strata | None, name: str, part: Any) -> Any:
    """Return a part of the table with a column of digests."""
    return plans.with_numbers(part, {name: _digests(public, *_read(strata, part))})


def _add_places(
    public: Sequence[Name],
    strata: Strata | None,
    chosen: IntArray,
    names: Sequence[str],
    part: Any,
) -> Any:
    """Return a part with the index of each row among the sampled digests, and with its stratum.

    Of other rows the index is one beyond them.
    """
    table, of_rows = _read(strata, part)
    digests = _digests(public, table, of_rows)
    places = np.searchsorted(chosen, digests)
    there = np.take(chosen, places, mode="clip") == digests
    none = np.zeros(len(digests), dtype=np.int64)
    numbers = [np.where(there, places, len(chosen)), none if of_rows is None else of_rows]
    return plans.with_numbers(part, dict(zip(names, numbers, strict=True)))


def _read(strata: Strata | None, part: Any) -> tuple[Table, IntArray | None]:
    """Return a part as a table, and the stratum of each of its rows."""
    table = frame_table(part)
    return table, None if strata is None else strata.read(table)


def _digests(public: Sequence[Name], table: Table, strata: IntArray | None) -> IntArray:
    return content_digests({name: table.values(name) for name in public}, None, strata)


# ---------------------------------------------------------------------------------- the counts


def _counted(
    given: FitRows,
    roles: Roles,
    labels: Sequence[Name],
    people: People,
    several: Sequence[Prototypes],
) -> tuple[Batch, list[IntArray]]:
    """Return the groups of rows of equal secrets, labels, stratum and prototypes; one query."""
    table: Any = given.table
    sent = list(dict.fromkeys([*labels, *roles.known, *roles.public]))
    taken = [*map(str, table.types)]
    added: list[str] = []
    for k in range(len(several) + 1):
        added.append(plans.free_name([*taken, *added], f"number {k}"))
    placed = _numbered(table, sent, _Task(_add_codes, people.strata, several, added))
    if not placed.count([*labels, *added]):
        raise ValueError(
            f"columns {listed(list(labels), 10)} have more different rows, beside typical rows, "
            "than are fetched from an engine; merge their values, or fit a sample of the rows."
        )
    rows = distinct_rows(placed, [*labels, *added])
    faults = Faults()
    again = read_people(given, replace(roles, known={}), rows, faults)
    same = [secret.labels for secret in again.secrets] == [s.labels for s in people.secrets]
    if rows.total != people.rows.total or not same:
        raise ValueError(CHANGED)
    strata, *codes = (rows.table.values(name).data.astype(np.intp) for name in added)
    return again.batch(roles, rows, {}, strata=strata), codes


def _add_codes(
    strata: Strata | None, several: Sequence[Prototypes], names: Sequence[str], part: Any
) -> Any:
    """Return a part of the table with the stratum and the prototypes of each row."""
    table, of_rows = _read(strata, part)
    rows = several[0].coordinates.read(table)
    codes: list[Array] = [each.assign(rows) for each in several]
    none = np.zeros(len(rows), dtype=np.int64)
    numbers = [none if of_rows is None else of_rows, *codes]
    return plans.with_numbers(part, dict(zip(names, numbers, strict=True)))
