"""A sample of a lazy table, chosen where its rows are: those whose digests are the smallest.

Rows pass through a function that adds their digest, and groups of those with small digests are all
that is fetched. Engines have hash functions of their own, each another one; this one is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, listed
from sklearn_puffer._tables import engine
from sklearn_puffer._tables.digests import LARGEST_DIGEST, row_digests, smallest
from sklearn_puffer._tables.engine import LazyTable
from sklearn_puffer._tables.frame import frame_table
from sklearn_puffer._tables.kinds import without_unused
from sklearn_puffer._tables.opening import opened
from sklearn_puffer._tables.plans import free_name, planned, with_numbers
from sklearn_puffer._tables.values import Name, Values

_SPARE = 64  # rows: so that few tables have too few below the first limit
_RAISED = 16
_ROUNDS = 24  # more than any table needs but one of which nothing can be fetched


def sample_rows(
    table: LazyTable, secrets: Sequence[Name], public: Sequence[Name], most: int, n_rows: int
) -> int:
    """Let a table be those of its rows whose public values are among ``most`` distinct ones.

    Those have the smallest digests, and all of their rows are kept. From then on the table knows
    its sample alone.

    Parameters
    ----------
    table : LazyTable
    secrets, public : sequences of names
    most : int
    n_rows : int
        How many rows there are, to begin near the right limit; the sample does not depend on it.

    Returns
    -------
    int
        How many distinct digests there are in the sample: fewer than ``most`` in all the table.

    Raises
    ------
    ValueError
        If the secrets make too many different rows of so few.
    """
    names = [*secrets, *public]
    found, digests = _fetched(_Digested(table, names, public), names, most, n_rows)
    kept = smallest(digests, most)
    table.take_groups(dict(zip(names, (_among(each, kept) for each in found), strict=True)))
    return len(np.unique(digests[kept]))


class _Digested:
    """A lazy table with a column of digests."""

    def __init__(self, table: LazyTable, names: Sequence[Name], public: Sequence[Name]) -> None:
        weight = [] if table.weight is None else [table.weight]
        sent = [str(name) for name in (*names, *weight)]
        self.name = free_name(sent, "digest")
        task = _AddDigests([str(name) for name in public], self.name)
        own = opened(planned(table.opened.native, sent, task))
        self.table = LazyTable(replace(own, levels=table.opened.levels), table.weight)

    def below(self, names: Sequence[Name], limit: int) -> list[Values] | None:
        """Return the groups of rows whose digests are at most that; None if they are too many."""
        frame = self.table.frame.filter(self.table.column(self.name) <= limit)
        part = replace(self.table, opened=replace(self.table.opened, frame=frame))
        return part.groups([*names, self.name], engine.MOST_CELLS)


def _fetched(
    digested: _Digested, names: Sequence[Name], most: int, n_rows: int
) -> tuple[list[Values], Array]:
    """Return groups of rows that hold the sample, and their digests: one query, or a few."""
    low, high = 0, LARGEST_DIGEST
    limit = min(high, high * (2 * most + _SPARE) // max(n_rows, 1))
    for _ in range(_ROUNDS):
        found = digested.below(names, limit)
        if found is None:
            high, limit = limit, (low + limit) // 2
            continue
        *groups, digests = found
        if limit == LARGEST_DIGEST or len(np.unique(digests.data)) > most:
            return groups, np.asarray(digests.data, dtype=np.int64)
        low = limit
        limit = min(high, _RAISED * limit) if high == LARGEST_DIGEST else (low + high) // 2
    raise ValueError(
        f"{most:,} rows of the public columns have more than {engine.MOST_CELLS:,} different rows "
        f"with columns {listed(list(names), 10)}, the most that are fetched from an engine; merge "
        "values of the sensitive columns."
    )


class _AddDigests:
    """What adds digests to a part of a table, wherever an engine has it; it has no state."""

    def __init__(self, public: Sequence[str], name: str) -> None:
        self.public, self.name = public, name

    def __call__(self, part: Any) -> Any:
        """Return a part of the table with one more column."""
        table = frame_table(part)
        found = row_digests({name: table.values(name) for name in self.public})
        return with_numbers(part, {self.name: found})


def _among(values: Values, kept: Array) -> Values:
    missing = None if values.missing is None else values.missing[kept]
    some = missing is not None and missing.any()
    assert values.counts is not None
    return without_unused(
        replace(
            values,
            data=values.data[kept],
            missing=missing if some else None,
            counts=values.counts[kept],
        )
    )
