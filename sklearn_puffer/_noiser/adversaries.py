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
    fitted_adversary,
    given_adversary,
)
from sklearn_puffer._noiser.lazy_rows import counted_adversary
from sklearn_puffer._noiser.margins import Conditional, Margin, margin_of
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import COUNTED
from sklearn_puffer._noiser.utility import RawLaw
from sklearn_puffer._tables import Column, Reader, standard_deviation


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
