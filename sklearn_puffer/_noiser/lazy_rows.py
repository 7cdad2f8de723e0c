"""Learning from a lazy table: its distinct values, and its groups of equal rows, with counts.

A group of rows is a row that counts as often as the group is long, so that whatever counts rows
with weights counts groups as well, and to the same laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._noiser.conditional_priors import Adversary, empirical_adversary
from sklearn_puffer._noiser.read_table import TableRead, unknown_rule
from sklearn_puffer._noiser.rows import LazyRows
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._tables import (
    CHANGED,
    Coded,
    Column,
    Reader,
    Secret,
    Values,
    column_reader,
    learn_secret,
    tally,
    way_to_rows,
)


def check_beside(X: Any, sensitive_features: Any, sample_weight: Any) -> None:
    """Refuse what stands beside a lazy table: its rows have no order to align anything with.

    Raises
    ------
    TypeError
        Naming the argument and the way out.
    """
    several = isinstance(sensitive_features, list | tuple) and len(sensitive_features) > 0
    features = sensitive_features if several else [sensitive_features]
    for name, given in (("sensitive_features", features), ("sample_weight", [sample_weight])):
        if not all(each is None or isinstance(each, str) for each in given):
            raise TypeError(
                f"X is a lazy table ({type(X).__name__}), whose rows have no order, and {name}= is "
                "aligned by position; make it a column of X and pass its name, or pass "
                f"{way_to_rows(X)}."
            )


def with_sensitive(settings: Settings, sensitive_features: Any) -> Settings:
    """Return the settings with columns of a lazy table that are named as its secrets."""
    if sensitive_features is None:
        return settings
    return replace(settings, sensitive=sensitive_features)


def counted_adversary(read: TableRead, groups: Sequence[Sequence[int]]) -> Adversary:
    """Return the laws that are counted from a table, in memory or lazy, of groups of columns."""
    rows = read.rows
    if not isinstance(rows, LazyRows):
        return empirical_adversary(
            read.secrets, read.columns, read.readers, groups, rows.n_rows, rows.weights
        )
    adversary: Adversary = {}
    for secret in read.secrets:
        laws = adversary[secret.name] = {label: {} for label in secret.labels}
        for group in groups:
            for label, found in _of_group(read, rows, secret, group).items():
                placed = {tuple(group[k] for k in own): law for own, law in found.items()}
                laws[label].update(placed)
    return adversary


def _of_group(
    read: TableRead, rows: LazyRows, secret: Secret, group: Sequence[int]
) -> dict[Any, Any]:
    """Return the laws of one group of columns for each secret, from groups of equal rows."""
    columns = [read.columns[k] for k in group]
    [of_secret, *of_columns] = rows.table.cells(secret.name, columns)
    counts = of_secret.counts
    assert counts is not None
    try:
        own = learn_secret(secret.name, of_secret, read.settings.missing)
        readers = [_reader(read, *of) for of in zip(columns, of_columns, strict=True)]
        same = _is_same(rows, secret, own, counts) and all(
            _has_counts(read.readers[k], reader, counts)
            for k, reader in zip(group, readers, strict=True)
        )
    except ValueError:  # a value that no column had when its values were fetched
        same = False
    if not same:
        raise ValueError(CHANGED)
    everything = [list(range(len(group)))]
    return empirical_adversary([own], columns, readers, everything, len(counts), counts)[own.name]


def _reader(read: TableRead, column: Column, values: Values) -> Reader:
    unknown = unknown_rule(read.settings, column.name, values.kind)
    return column_reader(column, values, unknown, read.settings.missing)


def _is_same(rows: LazyRows, before: Secret, now: Secret, counts: Array) -> bool:
    """Return whether the secrets of groups of rows are those of the rows: laws are of one table."""
    if int(counts.sum()) != rows.total or before.labels != now.labels:
        return False
    return np.array_equal(rows.tally(before), tally(now.coded, len(counts), counts))


def _has_counts(before: Reader, now: Reader, counts: Array) -> bool:
    """Return whether the values of groups of rows are those of the rows."""
    size, own = len(now.column.atoms), before.values.counts
    seen = tally(Coded(before, size), len(before.values), own)
    return np.array_equal(seen, tally(Coded(now, size), len(counts), counts))
