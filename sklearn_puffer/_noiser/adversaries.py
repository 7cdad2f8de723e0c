"""Who the promise is made against: the laws that adversaries hold, over the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noise import Mixing
from sklearn_puffer._noiser.classifier_priors import ModelLaws, model_laws
from sklearn_puffer._noiser.conditional_priors import (
    Adversary,
    empirical_adversary,
    fitted_adversary,
    given_adversary,
)
from sklearn_puffer._noiser.margins import Conditional, Margin, margin_of
from sklearn_puffer._noiser.read_table import TableRead, unknown_rule
from sklearn_puffer._noiser.rows import LazyRows
from sklearn_puffer._noiser.settings import COUNTED
from sklearn_puffer._noiser.utility import RawLaw
from sklearn_puffer._tables import (
    CHANGED,
    Coded,
    Column,
    Reader,
    Secret,
    Values,
    column_reader,
    learn_secret,
    standard_deviation,
    tally,
)


@dataclass(frozen=True, eq=False)
class Known:
    """Who knows what, and what the values of the columns are.

    Attributes
    ----------
    counted : Adversary
        The laws counted from the rows; of single columns where the prior is given.
    adversaries : list of Adversary
        All of them, the fitted one first.
    models : list of ModelLaws
        Those of classifiers, also as masses of rows.
    spreads : ndarray of shape (n_columns,)
        Standard deviation of each column, before binning; 1 of an unordered one that varies.
    raw : list of RawLaw
        How often each value of a column stood in the table.
    mixings : tuple of Mixing or None
        Of each unordered column the shares of all rows, over its alphabet.
    margins : list of Margin
        What is kept of the values of each column, to compare later rows with.
    """

    counted: Adversary
    adversaries: list[Adversary]
    models: list[ModelLaws]
    spreads: FloatArray
    raw: list[RawLaw]
    mixings: tuple[Mixing | None, ...]
    margins: list[Margin]


def known_to_adversaries(read: TableRead) -> Known:
    """Return what the adversaries of a table know."""
    settings, rows, secrets = read.settings, read.rows, read.secrets
    columns, readers = read.columns, read.readers
    sources = {f"adversaries[{k}]": each for k, each in enumerate(settings.adversaries)}
    sources = {"prior": COUNTED if settings.prior is None else settings.prior, **sources}
    sources |= settings.models
    given = {
        name: _given(prior, name, read)
        for name, prior in sources.items()
        if name not in settings.models and not isinstance(prior, str)
    }
    models = model_laws(read)
    # the spread of a column is that of its rows, whatever the prior
    joint = any(isinstance(prior, str) for prior in sources.values())
    counted_groups = read.groups if joint else [[k] for k in range(len(columns))]
    counted = counted_adversary(read, counted_groups)
    laws = counted[secrets[0].name]
    seen = [_values_seen(column, k, laws) for k, column in enumerate(columns)]
    spreads = np.array([_spread(c, *of) for c, of in zip(columns, seen, strict=True)])
    raw = [
        RawLaw.of(*of, rows.total, reader.values) for of, reader in zip(seen, readers, strict=True)
    ]
    laws_of = dict.fromkeys(sources, counted) | given
    laws_of |= {name: model.adversary(read) for name, model in models.items()}
    if settings.fit is not None:
        laws_of["prior"] = fitted_adversary(counted, settings.fit, spreads, columns)
    mixings = tuple(_mixing(c, *of) for c, of in zip(columns, seen, strict=True))
    margins = [margin_of(c, *of, rows.total) for c, of in zip(columns, seen, strict=True)]
    adversaries = list(laws_of.values())
    return Known(counted, adversaries, list(models.values()), spreads, raw, mixings, margins)


def conditional_margins(read: TableRead, known: Known) -> Conditional:
    """Return what is kept of the values of each column in the rows of each secret."""
    totals = {
        secret.name: dict(zip(secret.labels, read.rows.tally(secret).tolist(), strict=True))
        for secret in read.secrets
    }
    columns = [replace(column, raw=None) for column in read.columns]
    return Conditional(known.counted, columns, totals)


def _given(prior: Any, argument: str, read: TableRead) -> Adversary:
    _check_complete(read.readers, read.groups, argument)
    return given_adversary(prior, argument, read.secrets, read.groups, read.columns)


def _mixing(column: Column, values: FloatArray, counts: Array) -> Mixing | None:
    """Return what an unordered column is drawn anew from; values never seen count once."""
    if not column.unordered:
        return None
    totals = np.bincount(np.searchsorted(column.atoms, values), counts, len(column.atoms))
    return Mixing.of_counts(column.atoms.tolist(), np.rint(totals).astype(np.int64).tolist())


def _check_complete(
    readers: Sequence[Reader], groups: Sequence[Sequence[int]], argument: str
) -> None:
    """Refuse a given prior where a row may be incomplete: it says nothing about such rows."""
    for group in groups:
        gone = [readers[k].column.name for k in group if readers[k].propagates]
        if gone and len(group) > 1:
            raise ValueError(
                f"{argument} gives no law for rows in which {gone[0]!r} is missing; fill its "
                "missing values, or name it as a group of its own in dependence=."
            )


def _values_seen(
    column: Column, position: int, laws_of: Mapping[Any, Any]
) -> tuple[FloatArray, Array]:
    """Return the values of a column before binning, in any order, and how often each counts."""
    if column.raw is not None:
        return column.raw
    laws = [
        law.marginal([members.index(position)])
        for laws in laws_of.values()
        for members, law in laws.items()
        if position in members
    ]
    return np.concatenate([law.atoms for law in laws]), np.concatenate([law.counts for law in laws])


def _spread(column: Column, values: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column over all rows, whatever their order.

    Of an unordered one it is 1, the size of any change.
    """
    if column.unordered:
        return float(len(np.unique(values[counts > 0])) > 1)
    return standard_deviation(values, counts) if column.spread is None else column.spread


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
