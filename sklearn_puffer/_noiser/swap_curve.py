"""A fitted swap of other rows at other budgets, and with other columns known: solved anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import SwapRead, learnt_strata, read_rows
from sklearn_puffer._noiser.swap_release import Solved, SwapRelease
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
        read = read_rows(settings, table, None, None)
        return cls(settings, noiser._fitted.swap, read, noiser._fitted.swap.places(read.columns))

    def at(self, epsilon: float) -> tuple[Array, float]:
        """Return whose row each owner gets at another budget, and the loss that is proven."""
        notion = self.settings.notion
        notion = promised(epsilon, notion.delta, notion.to_dict()["alpha"])
        release = replace(self.release, notion=notion)
        solved = release.solved(*self.places)
        points = release.distance.points(self.read.own)
        gets = release.permutation(self.places, points.taken, Choices(Stream(_SEED)), solved)
        return gets, _loss(solved)

    def kept_if_known(self, names: Sequence[Name]) -> float:
        """Return the share of rows that stay with their owners if some columns may be known.

        Raises
        ------
        ValueError
            If too many of their values have too few rows.
        """
        read = replace(self.read, strata=list(names))
        strata = learnt_strata(read)
        release = replace(self.release, strata=strata)
        at = strata.of(read.columns, len(read.weights)), self.places[1]
        flows = [each.flows for each in release.solved(*at)]
        return float(sum(np.trace(each) for each in flows) / sum(each.sum() for each in flows))


def _loss(solved: Sequence[Solved]) -> float:
    losses: list[FloatArray] = [
        each.losses(laws)[..., 1] for each in solved for laws in each.problem.laws
    ]
    return float(max(own.max() for own in losses))
