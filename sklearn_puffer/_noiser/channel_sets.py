"""Channels for all laws in confidence sets: what is asked of them, and what they tell at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._channels import (
    BoundedFamily,
    BoundedProblem,
    ChannelProblem,
    bounded_rows,
    find_bounded,
)
from sklearn_puffer._losses import bounded_losses
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_cells import CountedCells, check_sets_size
from sklearn_puffer._noiser.channel_problem import Asked
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import SetLoss
from sklearn_puffer._sets import ONE, cell_bounds, cell_share

_NEXT_TO_NOTHING = 0.05  # of a law that its lower bounds hold


@dataclass(frozen=True, eq=False)
class SetsOfColumn:
    """The sets around the laws of the cells given each secret of one column that a pair names.

    Attributes
    ----------
    lower, upper : ndarray of int64 of shape (k, n)
        Bounds on the masses, in units of 2^-60.
    pairs : ndarray of intp of shape (n_pairs, 2)
        As positions among these laws.
    labels : list
        The secret of each law.
    """

    lower: IntArray
    upper: IntArray
    pairs: Array
    labels: list[Any]

    @property
    def family(self) -> BoundedFamily:
        """The same as a channel is asked for."""
        both = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        return BoundedFamily(self.lower / ONE, self.upper / ONE, both)

    @property
    def decided(self) -> list[Any]:
        """The secrets about which the rows say next to nothing."""
        held = (self.lower / ONE).sum(axis=1) <= _NEXT_TO_NOTHING
        return [label for label, is_held in zip(self.labels, held, strict=True) if is_held]


def sets_around_counts(
    settings: Settings, counted: CountedCells, asked: Sequence[Asked]
) -> list[SetsOfColumn]:
    """Return the sets around the counted laws of each sensitive column, at the level together."""
    assert settings.confidence is not None
    own = [each for each in asked if each.adversary == 0]
    named = [np.unique(each.pairs) for each in own]
    share = cell_share(settings.confidence.level, [len(counted.cells)] * sum(map(len, named)))
    return [
        _sets(table[secrets], np.searchsorted(secrets, each.pairs), each, secrets, share)
        for table, each, secrets in zip(counted.counts, own, named, strict=True)
    ]


def _sets(
    counts: IntArray, pairs: Array, asked: Asked, secrets: Array, share: float
) -> SetsOfColumn:
    bounds = [cell_bounds(of_secret, share) for of_secret in counts]
    lower, upper = (np.stack(side) for side in zip(*bounds, strict=True))
    return SetsOfColumn(lower, upper, pairs, [asked.labels[k] for k in secrets.tolist()])


def found_over_sets(
    read: TableRead,
    counted: CountedCells,
    problem: ChannelProblem,
    sets: Sequence[SetsOfColumn],
    asked: Sequence[Asked],
) -> IntegerRows:
    """Return the channel that keeps the budget for all laws in the sets, and for further ones.

    Raises
    ------
    ValueError
        If the program would be too large.
    """
    settings, outputs = read.settings, np.flatnonzero(counted.rows)
    assert settings.channel is not None
    check_sets_size(read, len(outputs))
    further = [_as_bounds(each, problem.n_cells) for each in asked if each.adversary > 0]
    bounded = BoundedProblem(problem, [*(each.family for each in sets), *further], outputs)
    own = settings.channel
    return bounded_rows(bounded, find_bounded(bounded, gap=own.gap, time_limit=own.time_limit))


def _as_bounds(asked: Asked, n_cells: int) -> BoundedFamily:
    laws = asked.family.over(n_cells)
    return BoundedFamily(laws, laws, asked.family.ordered_pairs)


def loss_over_sets(settings: Settings, sets: Sequence[SetsOfColumn], rows: IntegerRows) -> SetLoss:
    """Return what the channel loses at most for the laws in the sets, recomputed."""
    assert settings.confidence is not None
    notion, n_draws = settings.notion, settings.releases
    losses = [
        bounded_losses(rows, each.lower, each.upper, each.pairs, notion, n_draws) for each in sets
    ]
    return SetLoss(
        level=settings.confidence.level,
        loss=max(float(each.max()) for each in losses),
        exact=notion.is_pure and n_draws == 1,
        estimate=False,
        share=1.0,
        decided=tuple(dict.fromkeys(label for each in sets for label in each.decided)),
    )
