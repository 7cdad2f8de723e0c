r"""Outputs mended one by one: their entries a little smaller, so that limits are kept.

A solver keeps the limits of an output y up to its tolerance. So factors :math:`1 + d_x` on its few
entries, with small d, keep them exactly: the least d that do solve a linear system in those limits
that are tight. Factors are then divided by the largest one, so that nothing grows, which keeps what
is homogeneous; under a delta, where limits have a slack, all of them can be made smaller. An output
for which none of this helps is given up: its entries are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import Array, BoolArray, FloatArray
from sklearn_puffer._channels.unit_limits import UnitLimits

_ROUNDS = 8
_LARGEST_CHANGE = 0.5


class _Limits(NamedTuple):
    """Limits ``above @ factors + room <= slack``, and the size of what each compares."""

    above: FloatArray
    room: FloatArray
    slack: FloatArray
    size: FloatArray

    def smaller(self, factors: FloatArray) -> FloatArray:
        """Return as much of all factors as keeps the limits, maybe nothing."""
        above = self.above @ factors
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(above > 0.0, (self.slack - self.room) / above, 1.0)
        smaller = factors * min(float(parts.min(initial=1.0)), 1.0)
        kept = (smaller >= 0.0).all() and (self.above @ smaller + self.room <= self.slack).all()
        return smaller if kept else np.zeros(factors.size)

    def changed(self, tight: BoolArray, rooms: float) -> FloatArray:
        """Return factors, at most 1, that keep tight limits by some times the room."""
        wanted = self.slack - (1.0 + rooms) * self.room - self.above.sum(axis=1)
        size = self.size[tight]
        change = np.linalg.lstsq(self.above[tight] / size[:, None], wanted[tight] / size)[0]
        if not np.abs(change).max(initial=0.0) < _LARGEST_CHANGE:
            return np.zeros(change.size)
        return np.asarray((1.0 + change) / (1.0 + max(float(change.max()), 0.0)))


def factors(unit: UnitLimits, cells: Array, shares: FloatArray, lowered: float) -> FloatArray:
    """Return a factor from 0 to 1 for each share of one output, which come from these cells."""
    limits = _limits(unit._replace(laws=unit.laws[:, cells]), shares, lowered)
    tight = np.zeros(limits.room.size, dtype=bool)
    found = np.ones(shares.size)
    best = limits.smaller(found)
    for round_ in range(_ROUNDS):
        left = limits.above @ found + limits.room - limits.slack
        if (left <= 0.0).all() or not found.any():
            break
        tight |= left > -limits.room
        # more room each time: least squares keep conflicting limits only in the mean
        found = limits.changed(tight, 4.0**round_)
        best = max(best, limits.smaller(found), key=shares.dot)
    return best


def _limits(column: UnitLimits, shares: FloatArray, lowered: float) -> _Limits:
    first, second = column.laws[column.first], column.laws[column.second]
    above = (first - column.limits.factor * second) * shares
    return _Limits(
        above=above,
        room=column.excess(shares, lowered) - above.sum(axis=1),
        slack=column.slack(shares, lowered),
        size=np.add(*column.sides(shares)),
    )
