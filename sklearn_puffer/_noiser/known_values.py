"""Adversaries who know some public columns of a row besides: their laws given each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import isinf, prod
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, check_pairs, listed, plain, quoted
from sklearn_puffer._noiser.conditional_priors import Adversary, Laws, Members
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._tables import Column, Name, cells_frame
from sklearn_puffer.priors import Discrete

Values = Mapping[int, float | None]  # column -> value, None where it is missing
_Choices = tuple[Adversary, list[list[Values]]]


def who_know_values(adversaries: Sequence[Adversary], read: TableRead) -> list[Adversary]:
    """Return the adversaries who know columns besides, one for each of their values.

    A secret that does not occur with a value has no law there: the promise is about secrets that
    are possible. Of columns that are known together some may be missing, which then is what is
    known of them; and in groups that are taken as independent every value goes with every other.

    Raises
    ------
    ValueError
        If ``known`` makes more pairs than there is time for.
    """
    found = _choices_of(adversaries, read.known, read.groups)
    n_adversaries = sum(prod(map(len, choices)) for _, choices in found)
    check_pairs(
        n_adversaries * sum(map(len, read.pairs.values())),
        f"the pairs of {listed(list(read.pairs))}, given each value of what may be known,",
        "bin those columns (n_bins), or list fewer in known=",
        alone=not read.settings.at_once,
    )
    return _who_know(found, read.groups)


def with_known(
    adversary: Adversary, known: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> list[Adversary]:
    """Return an adversary, and behind it those who know columns besides, as in a fit."""
    return [adversary, *_who_know(_choices_of([adversary], known, groups), groups)]


def known_among(known: Sequence[Sequence[int]], places: Sequence[int]) -> list[list[int]]:
    """Return what is known where only the columns at some places are looked at.

    >>> known_among([[0, 4], [1]], [2, 4])
    [[1]]
    """
    some = [[places.index(k) for k in each if k in places] for each in known]
    return [each for each in some if each]


def told_value(column: Column, place: int) -> Any:
    """Return a value of a column, the one at a place of its atoms, as people know it."""
    return plain(cells_frame([column], np.array([[place]])).iloc[0, 0])


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
        f"merge it more coarsely (n_bins, categories), or {_last_way(lost)}."
    )


def _last_way(lost: float) -> str:
    infinite = "allow a delta, for such a value rules some secret out"
    return infinite if isinf(lost) else "choose a larger epsilon"


def _choices_of(
    adversaries: Sequence[Adversary],
    known: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]],
) -> list[_Choices]:
    """Return what each adversary may know of the columns that are known together."""
    return [
        (adversary, _choices(adversary, members, groups))
        for members in known
        for adversary in adversaries
    ]


def _who_know(found: Sequence[_Choices], groups: Sequence[Sequence[int]]) -> list[Adversary]:
    return [
        _given(adversary, values, groups)
        for adversary, choices in found
        for values in product(*choices)
        if any(value is not None for of_group in values for value in of_group.values())
    ]


def _choices(
    adversary: Adversary, members: Sequence[int], groups: Sequence[Sequence[int]]
) -> list[list[Values]]:
    """Return what some columns may hold, for each group that has some of them."""
    inside = [[k for k in members if k in group] for group in groups]
    return [
        _values(adversary, own, group) for own, group in zip(inside, groups, strict=True) if own
    ]


def _values(adversary: Adversary, members: Sequence[int], group: Sequence[int]) -> list[Values]:
    """Return the values of some columns of a group that have mass under some law."""
    found = {
        values
        for of_secrets in adversary.values()
        for laws in of_secrets.values()
        for own, law in laws.items()
        if set(own) <= set(group)
        for values in _held(law, own, members)
    }
    return [dict(zip(members, values, strict=True)) for values in sorted(found, key=_missing_last)]


def _held(law: Discrete, own: Members, members: Sequence[int]) -> set[tuple[float | None, ...]]:
    """Return the values of some columns in the rows of a law that have mass."""
    rows = law.rows[np.asarray(law.counts > 0, dtype=bool)]
    gaps = [None] * len(rows)
    axes = [rows[:, own.index(k)].tolist() if k in own else gaps for k in members]
    return set(zip(*axes, strict=True))


def _missing_last(values: tuple[float | None, ...]) -> list[tuple[bool, float]]:
    return [(value is None, 0.0 if value is None else value) for value in values]


def _given(
    adversary: Adversary, values: Sequence[Values], groups: Sequence[Sequence[int]]
) -> Adversary:
    """Return what is known given the values of some columns of some groups."""
    known = {k: value for of_group in values for k, value in of_group.items()}
    return {
        name: {label: _laws_given(laws, known, groups) for label, laws in of_secrets.items()}
        for name, of_secrets in adversary.items()
    }


def _laws_given(laws: Laws, known: Values, groups: Sequence[Sequence[int]]) -> Laws:
    """Return the laws of the rows with these values; of groups without any, as they are."""
    found: Laws = {}
    for own, law in laws.items():
        group = next(group for group in groups if own[0] in group)
        some = _with_values(law, own, {k: known[k] for k in group if k in known})
        if some.any():
            found[own] = Discrete.from_counts(law.atoms[some], law.counts[some])
    return found


def _with_values(law: Discrete, own: Members, known: Values) -> FloatArray:
    some = np.asarray(law.counts > 0, dtype=bool)
    for column, value in known.items():
        if column in own and value is not None:
            some &= law.rows[:, own.index(column)] == value
        elif column in own or value is not None:  # there and missing, or the other way round
            some[:] = False
    return some
