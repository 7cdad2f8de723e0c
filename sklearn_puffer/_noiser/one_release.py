"""Releasing a table that is in memory, or a part of one, by noise or by a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sklearn_puffer._noise import Entropy
from sklearn_puffer._noiser.channel_release import Moved
from sklearn_puffer._noiser.keyed_rows import KeyedRows
from sklearn_puffer._noiser.margins import Watch, stand_ins
from sklearn_puffer._noiser.release import ColumnRelease, release_table
from sklearn_puffer._tables import Name, Table


def column_releases(fitted: Any) -> Sequence[ColumnRelease]:
    """Return how each column is released, by noise or by a channel.

    Parameters
    ----------
    fitted : object
        A fitted noiser, or what `state_of` reads from its form, as attributes.
    """
    found: Sequence[ColumnRelease] = fitted._releases
    if fitted._channel is not None:
        found = fitted._channel.columns
    return found


def drawn(
    fitted: Any,
    table: Table,
    entropy: Callable[[int], Entropy],
    *,
    n_jobs: int | None,
    keyed: KeyedRows | None,
    watch: Watch | None = None,
) -> tuple[Any, dict[Name, int] | Moved | None]:
    """Return the released table, and which values or rows were moved, if any.

    Parameters
    ----------
    fitted : object
        A fitted noiser, or what `state_of` reads from its form, as attributes.
    table : Table
    entropy : callable
        Gives the random bits of the k-th column.
    n_jobs : int or None
    keyed : KeyedRows or None
        Gives the bits of each row, in place of ``entropy``.
    watch : Watch or None
        Counts the values.
    """
    rules = {"unknown": fitted.unknown, "missing": fitted._missing}
    if fitted._channel is None and fitted.unknown == "nearest":
        columns = [release.column for release in fitted._releases]
        rules["unknown"] = stand_ins(fitted._margins, columns)
    if fitted._channel is not None:
        channel, passed = fitted._channel, fitted._passed
        return channel.release(  # type: ignore[no-any-return]
            table, passed, fitted._order, **rules, entropy=entropy, keyed=keyed, watch=watch
        )
    return release_table(
        table,
        fitted._releases,
        fitted._passed,
        fitted._order,
        **rules,
        patterns=fitted._patterns,
        entropy=entropy,
        n_jobs=n_jobs,
        keyed=keyed,
        watch=watch,
    )
