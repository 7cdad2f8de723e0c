"""What counting says beside other priors: of few columns by law, of all columns row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from sklearn_puffer._noiser.adversaries import Known
from sklearn_puffer._noiser.conditional_priors import Adversary, Members, empirical_adversary
from sklearn_puffer._noiser.other_priors import FittedNoise
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._releases import CountedLoss, weak_sentence
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import Name
from sklearn_puffer.notions import Notion, Pufferfish

_MOST_CELLS = 1 << 14  # of a pair of columns, where losses are those at the vertices of a grid
_MOST_ALONE = 1 << 9  # of a column, where they are not
_MOST_PAIRS = 64  # of secrets, where the loss of each is computed on its own
_LEAST_ROWS = 100  # below which no share of rows tells much
_MOST_SINGLE = 0.5


def seen_by_counting(fitted: FittedNoise, read: TableRead) -> tuple[CountedLoss, ...]:
    """Return the loss of a release to whoever counted one or two columns, and looks at those.

    Of columns for which that takes long nothing is said.
    """
    groups = [list(members) for members in _views(fitted)]
    counted = empirical_adversary(
        read.secrets, read.columns, read.readers, groups, read.rows.n_rows, read.rows.weights
    )
    found = []
    for members in map(tuple, groups):
        laws = _laws_over(members, counted)
        if laws is not None:
            names = tuple(fitted.columns[k].name for k in members)
            seen = fitted.restricted(members)
            loss = seen.against(laws).loss
            beyond = None
            if _is_above(loss, fitted.notion) and len(members) == 1:
                beyond = replace(seen, notion=_in_delta(fitted.notion)).against(laws).loss
            found.append(CountedLoss(names, loss, beyond))
    return tuple(found)


def _views(fitted: FittedNoise) -> Iterator[Members]:
    """Yield the columns, and the pairs of columns, whose loss is soon computed."""
    grid = fitted.noise.is_exponential and fitted.notion.is_pure
    few = sum(map(len, fitted.pairs.values())) <= _MOST_PAIRS
    sizes = [len(column.atoms) for column in fitted.columns]
    for size in (1, 2):
        for members in combinations(range(len(sizes)), size):
            cells = prod(sizes[k] for k in members)
            if cells <= _MOST_CELLS if grid else size == 1 and cells <= _MOST_ALONE and few:
                yield members


def _laws_over(members: Members, counted: Adversary) -> dict[Name, dict[Any, Any]] | None:
    """Return the laws of rows in which none of these columns is missing, if all secrets have one.

    >>> _laws_over((0,), {"loan": {"no": {(0,): "a law"}, "yes": {}}}) is None
    True
    """
    found = {
        name: {label: laws[members] for label, laws in of_secrets.items() if members in laws}
        for name, of_secrets in counted.items()
    }
    whole = all(len(found[name]) == len(counted[name]) for name in counted)
    return found if whole else None


def _is_above(loss: float, notion: Notion) -> bool:
    return notion.is_pure and loss > notion.budget


def _in_delta(notion: Notion) -> Notion:
    """Return the notion whose loss is the delta at which epsilon is kept."""
    return Pufferfish(notion.epsilon, 0.5)


def about_rows(read: TableRead, known: Known) -> list[str]:
    """Return what there is to warn of about rows that are known one by one, or too little."""
    weak = [facts for model in known.models for facts in model.facts if facts.weak]
    return [*map(weak_sentence, weak), *single_rows(read, known.counted)]


def single_rows(read: TableRead, counted: Adversary) -> list[str]:
    """Return the warning about counted laws of wide tables that consist of rows that occur once."""
    settings = read.settings
    covered = settings.confidence is not None or not settings.is_counted
    if covered or read.rows.total < _LEAST_ROWS:
        return []
    warned = []
    laws = next(iter(counted.values())).values()
    for group in read.groups:
        if len(group) < 2:
            continue
        rows = [law for of in laws for members, law in of.items() if set(members) <= set(group)]
        share = _share_of_singles(rows, read.rows.total)
        if share > _MOST_SINGLE:
            names = [read.columns[k].name for k in group]
            warned.append(say.single_rows_sentence(names, share, read.rows.total))
    return warned


def _share_of_singles(laws: list[Any], n_rows: int) -> float:
    """Return the share of rows that no other row is equal to."""
    rows = [law.rows[law.counts > 0] for law in laws]
    alone = 0
    for width in {part.shape[1] for part in rows}:
        same = [k for k, part in enumerate(rows) if part.shape[1] == width]
        table = np.concatenate([rows[k] for k in same])
        counts = np.concatenate([laws[k].counts[laws[k].counts > 0] for k in same])
        order = np.lexsort(table.T)
        new = np.append(True, (table[order][1:] != table[order][:-1]).any(axis=1))
        alone += int((np.add.reduceat(counts[order], np.flatnonzero(new)) == 1).sum())
    return alone / n_rows
