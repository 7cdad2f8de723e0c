r"""Units mended by mixing in a constant row, which keeps every limit, the floor among them.

Let a(y) be what output y exceeds its limits by, each divided by what a row for all cells leaves to
that limit, and A their sum. Then :math:`(1 - t) W + t \, a/A` with :math:`t = A / (1 + A)` keeps
them, as :math:`(1 - t) a(y) \le t a(y) / A`; and that holds for all families at once.
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_puffer._base import ULP, FloatArray
from sklearn_puffer._channels.unit_limits import UnitLimits
from sklearn_puffer._noise import WHOLE


def floor_factor(floor: float) -> float:
    """Return by which factor the shares of an output may differ, rounded down."""
    return math.exp(min(floor, 600.0)) * (1.0 - 32.0 * ULP)


def mixed(
    unit: UnitLimits, floor: float, shares: FloatArray, sink: int, lowered: float
) -> FloatArray:
    """Return shares that keep limits and floor, shape (m, n_outputs); all 0 where there are none.

    What rounding leaves of a row goes to the output ``sink``, for which there is room.
    """
    spare = np.zeros(shares.shape[1])
    spare[sink] = shares.shape[1] * (lowered + WHOLE * ULP)
    beyond = np.maximum(
        _beyond_limits(unit, shares, spare, lowered), _beyond_floor(floor, shares, spare, lowered)
    )
    total = float(beyond.sum())
    if not total < math.inf:
        return np.zeros_like(shares)
    if total == 0.0:
        return shares
    part = total / (1.0 + total)
    return (1.0 - part) * shares + part * WHOLE * (beyond / total)


def _beyond_limits(
    unit: UnitLimits, shares: FloatArray, spare: FloatArray, lowered: float
) -> FloatArray:
    """Return by how much outputs exceed a limit, in what a constant row leaves to it."""
    above = unit.excess(shares, lowered) - unit.slack(shares, lowered)
    above += unit.sides(np.ones(len(shares)))[0][:, None] * spare
    parts = unit.mended_by(above, unit.gain[:, None])
    return np.asarray(parts.max(axis=0, initial=0.0))


def _beyond_floor(
    floor: float, shares: FloatArray, spare: FloatArray, lowered: float
) -> FloatArray:
    factor = floor_factor(floor)
    if factor <= 1.0:
        return np.full(shares.shape[1], math.inf)
    above = shares.max(axis=0) + spare - factor * (shares.min(axis=0) - lowered)
    return np.asarray(np.maximum(above, 0.0) / ((factor - 1.0) * WHOLE), dtype=float)
