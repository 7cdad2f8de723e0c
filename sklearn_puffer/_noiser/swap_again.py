"""A fitted swap of other rows, solved anew and never released.

At other budgets, with other columns known, and as an audit asks about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import SwapRead, found_within, learnt_strata, read_rows
from sklearn_puffer._noiser.swap_release import Counted, Solved, SwapRelease
from sklearn_puffer._noiser.swap_result import largest_gap
from sklearn_puffer._noiser.swap_rows import size_of
from sklearn_puffer._swaps import ROW
from sklearn_puffer._tables import Name, Table
from sklearn_puffer.notions import promised

_SEED = b"sklearn_puffer: a swap at another budget, which is never released"


@dataclass(frozen=True, eq=False)
class SwapCurve:
    """What a fitted swap does to the rows of a table; nothing of it is a release."""

    settings: Settings
    release: SwapRelease
    read: SwapRead
    places: tuple[Array, Array]

    @classmethod
    def of(cls, noiser: Any, table: Table) -> SwapCurve:
        """Return that of a fitted noiser and a table with the sensitive columns."""
        settings = Settings.of(noiser.get_params(deep=False))
        swap = noiser._fitted.swap
        read = read_rows(settings, table, None, None, form=swap.form)
        return cls(settings, swap, read, swap.places(read.columns))

    def at(self, epsilon: float) -> tuple[Array, float]:
        """Return whose row each owner gets at another budget, and the loss that is proven."""
        notion = self.settings.notion
        notion = promised(epsilon, notion.delta, notion.to_dict()["alpha"])
        release = replace(self.release, notion=notion)
        solved = release.solved(*self.places)
        points = release.distance.points(self.read.own)
        gets = release.permutation(self.places, points.taken, Choices(Stream(_SEED)), solved)
        if self.read.groups is not None:
            gets = self.read.groups.wide.row_by_row(gets)
        return gets, _loss(solved)

    def kept_if_known(self, names: Sequence[Name]) -> float:
        """Return the share of rows that stay with their owners if some columns may be known.

        Raises
        ------
        ValueError
            If too many of their values have too few rows.
        """
        form = self.read.form
        strata = list(names) if form is None else [*form.names(names), size_of(form.column)]
        read = replace(self.read, strata=strata)
        learnt = learnt_strata(read)
        release = replace(self.release, strata=learnt)
        at = learnt.of(read.columns, len(read.weights)), self.places[1]
        flows = [each.flows for each in release.solved(*at)]
        return float(sum(np.trace(each) for each in flows) / sum(each.sum() for each in flows))


def _loss(solved: Sequence[Solved]) -> float:
    losses: list[FloatArray] = [
        each.losses(laws)[..., 1] for each in solved for laws in each.problem.laws
    ]
    return float(max(own.max() for own in losses))


@dataclass(frozen=True, eq=False)
class HeldSwap:
    """A swap of some rows, of which no flow is drawn.

    Attributes
    ----------
    strata : float
        How far odds in some stratum of these rows are from those in all, in nats.
    slack : ndarray of shape (n_tested,)
        How far drawn flows, whole numbers, may be from mean ones, in rows of one secret among all
        that are released in the cell of this one: the part of one of them.
    within : Within or None
        What a fresh model finds of the first secret in these rows within the cells of `fit`.
    """

    strata: float
    slack: FloatArray
    within: Any


def held_swap(noiser: Any, table: Table, given: Any, tested: Array) -> HeldSwap | None:
    """Return what there is to say of the swap of the tested rows of a table; None of no swap."""
    if noiser._fitted.swap is None:
        return None
    settings = Settings.of(noiser.get_params(deep=False))
    settings = settings if given is None else replace(settings, sensitive=None)
    read = read_rows(settings, table, given, None, form=noiser._fitted.swap.form)
    strata, cells = noiser._fitted.swap.places(read.columns)
    strata, cells = strata[tested], cells[tested]
    found, slack = noiser._fitted.swap.solved(strata, cells), np.zeros(len(tested))
    for each in found:
        for cell, flows in zip(each.cells, each.flows.T, strict=True):
            rows = (strata == each.stratum) & (cells == cell)
            slack[rows] = (
                max(_rounded(flows, laws.shares) for laws in each.problem.laws) / rows.sum()
            )
    return HeldSwap(
        strata=_from_strata(noiser._fitted.swap.counted, found),
        slack=slack,
        within=found_within(read, noiser._fitted.swap),
    )


def _from_strata(counted: Sequence[Counted], found: Sequence[Solved]) -> float:
    worst = 0.0
    for own in counted if len(found) > 1 else ():
        shares = own.counts / own.counts.sum(axis=0)
        masses = np.array([shares[:, each.cells] @ each.problem.sizes for each in found]).T
        worst = max(worst, largest_gap(masses, masses.sum(axis=1), own.pairs))
    return worst


def _rounded(flows: IntArray, shares: FloatArray) -> float:
    """Return by how many rows of a secret whole flows into a cell may differ from mean ones."""
    parts = (flows % ROW) / ROW
    ups = round(float(parts.sum()))
    ranked = np.sort(np.where(parts > 0.0, shares, np.nan), axis=1)  # those that are whole last
    some = ranked[:, : int((parts > 0.0).sum())]
    means = np.where(parts > 0.0, shares, 0.0) @ parts
    most, least = (some[:, ::way][:, :ups].sum(axis=1) for way in (-1, 1))
    return float(max((most - means).max(), (means - least).max(), 0.0))
