"""Adversaries who know some public columns of a row besides: their laws given each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, check_pairs, listed, plain, quoted
from sklearn_puffer._noiser.conditional_priors import Adversary, Laws, Members
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._tables import Name, cells_frame, resolve
from sklearn_puffer.priors import Discrete


def known_columns(read: TableRead) -> list[list[int]]:
    """Return the positions of the columns that may be known, those known together in one list.

    Raises
    ------
    TypeError, ValueError
        If ``known`` names no columns, or one that is not public.
    """
    known = read.settings.known
    if known is None:
        return []
    names, public = read.table_names, read.public
    items = list(known) if isinstance(known, list) else [known]
    found = [resolve(list(i) if isinstance(i, tuple) else i, names, "known") for i in items]
    if not found:
        raise ValueError("known is empty; name the columns that may be known, or leave it out.")
    strange = [name for each in found for name in each if name not in public]
    if strange:
        raise ValueError(
            f"known names column {strange[0]!r}, which is not public; the public columns are "
            f"{listed(public, 10)}."
        )
    return [[public.index(name) for name in each] for each in found]


def who_know_values(adversaries: Sequence[Adversary], read: TableRead) -> list[Adversary]:
    """Return the adversaries who know columns besides, one for each of their values.

    A secret that does not occur with a value has no law there: the promise is about secrets that
    are possible.

    Raises
    ------
    ValueError
        If ``known`` names no public columns, or makes more pairs than there is time for.
    """
    found = [
        _given(adversary, members, value)
        for members in known_columns(read)
        for adversary in adversaries
        for value in _values(adversary, members)
    ]
    n_pairs = len(found) * sum(map(len, read.pairs.values()))
    check_pairs(
        n_pairs,
        f"the pairs of {listed(list(read.pairs))}, given each value of what may be known,",
        "bin those columns (n_bins), or list fewer in known=",
        alone=not read.settings.at_once,
    )
    return found


def told_value(read: TableRead, column: int, place: int) -> Any:
    """Return a value of a column, the one at a place of its atoms, as people know it."""
    return plain(cells_frame([read.columns[column]], np.array([[place]])).iloc[0, 0])


def too_telling(read: TableRead, names: Sequence[Name], lost: float, worst: str = "") -> str:
    """Return the error about columns that stay, and tell more than the budget by themselves."""
    unit = "delta" if read.settings.notion.is_chance else "nats"
    how = "by itself that already tells" if len(names) == 1 else "together they already tell"
    most = f" (most at {worst})" if worst else ""
    what = f"{listed([secret.name for secret in read.secrets])}{most}"
    return (
        f"known={quoted(read.settings.known)} leaves {listed(names, len(names))} unchanged, and "
        f"{how} {lost:.3g} ({unit}) about {what}, "
        f"more than {read.settings.notion.budget_name()} allows; leave it out of known=, bin or "
        "merge it more coarsely (n_bins, categories), or choose a larger epsilon."
    )


def _values(adversary: Adversary, members: Sequence[int]) -> Iterator[FloatArray]:
    """Yield the values of some columns that have mass under some law."""
    rows = [
        law.rows[np.asarray(law.counts > 0, dtype=bool)][:, [own.index(k) for k in members]]
        for of_secrets in adversary.values()
        for laws in of_secrets.values()
        for own, law in laws.items()
        if set(members) <= set(own)
    ]
    yield from np.unique(np.concatenate(rows), axis=0) if rows else ()


def _given(adversary: Adversary, members: Sequence[int], value: FloatArray) -> Adversary:
    """Return what is known given a value of some columns."""
    known = dict(zip(members, value.tolist(), strict=True))
    return {
        name: {label: _laws_given(laws, known) for label, laws in of_secrets.items()}
        for name, of_secrets in adversary.items()
    }


def _laws_given(laws: Laws, known: dict[int, float]) -> Laws:
    """Return the laws of the rows with these values; of columns that are not known, as they are."""
    found: Laws = {}
    for own, law in laws.items():
        some = _with_values(law, own, known)
        if some.any():
            found[own] = Discrete.from_counts(law.atoms[some], law.counts[some])
    return found


def _with_values(law: Discrete, own: Members, known: dict[int, float]) -> FloatArray:
    some = np.asarray(law.counts > 0, dtype=bool)
    for axis, column in enumerate(own):
        if column in known:
            some &= law.rows[:, axis] == known[column]
    return some
