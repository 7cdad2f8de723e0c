"""Two laws of a released column as the source of an exact loss."""

from __future__ import annotations

from math import inf

import numpy as np

from sklearn_puffer._base import ULP, FloatArray
from sklearn_puffer._losses.divergences import (
    Slopes,
)
from sklearn_puffer._losses.laws import Expansion, Law
from sklearn_puffer._losses.line import Ends, View
from sklearn_puffer.notions import Notion


class LawPair:
    """Two `Law` objects as a source."""

    def __init__(self, p: Law, q: Law, weight: int = 64) -> None:
        self._p, self._q = p, q
        self._anchors = np.union1d(p.anchors(), q.anchors())
        spacing = np.diff(self._anchors)
        self.unit = float(spacing.min()) if len(spacing) else max(abs(self._anchors[0]), 1.0)
        self.weight = weight

    def anchors(self) -> FloatArray:
        """Return the anchors of both."""
        return self._anchors

    def look(self, low: FloatArray, high: FloatArray) -> View:
        """Return what is known of finite panels, which no anchor lies strictly within."""
        middle, radius = _around(low, high)
        first, second = self._p.expansion(middle, radius), self._q.expansion(middle, radius)
        p_bounds, q_bounds = self._p.log_bounds(low, high), self._q.log_bounds(low, high)
        low_f, high_f, value, error = _taylor(first, second, radius)
        log_low = np.maximum(low_f, p_bounds[0] - q_bounds[1])
        log_high = np.minimum(high_f, p_bounds[1] - q_bounds[0])
        least_p, most_p = _by_density(high - low, *p_bounds)
        least_q, most_q = _by_density(high - low, *q_bounds)
        ends = log_low, np.maximum(log_high, log_low)
        return View(*ends, value + error, value - error, error, least_p, most_p, least_q, most_q)

    def slopes(self, low: FloatArray, high: FloatArray) -> Slopes:
        """Return how f runs within finite panels."""
        middle, radius = _around(low, high)
        p, q = self._p.expansion(middle, radius), self._q.expansion(middle, radius)
        *_, value, error = _taylor(p, q, radius)
        lowest, highest = p.lowest - q.highest, p.highest - q.lowest
        # the middle and the radius are rounded themselves
        bends = [np.maximum(np.abs(law.lowest), np.abs(law.highest)) for law in (p, q)]
        p_slope, q_slope = np.abs(p.slope) + p.slope_error, np.abs(q.slope) + q.slope_error
        off = error + (p.slope_error + q.slope_error) * radius
        off += 4.0 * ULP * np.abs(middle) * (p_slope + q_slope)
        return Slopes(
            value,
            p.slope - q.slope,
            off,
            highest - lowest,
            np.maximum(np.abs(lowest), np.abs(highest)),
            p_slope,
            bends[0],
            q_slope,
            bends[1],
            radius,
            self._p.log_bounds(low, high)[1],
            self._q.log_bounds(low, high)[1],
        )

    def tail(self, edge: float, side: int) -> View:
        low, high = self._p.beyond(self._q, edge, side)
        panel = (
            (np.array([edge]), np.array([inf]))
            if side == 1
            else (
                np.array([-inf]),
                np.array([edge]),
            )
        )
        p_low, p_high, q_low, q_high = self.masses(*panel)
        ends = np.array([low]), np.array([high])
        return View(*ends, ends[1], ends[0], np.zeros(1), p_low, p_high, q_low, q_high)

    def masses(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        return (*self._p.masses(low, high), *self._q.masses(low, high))

    def tail_power(self, edge: float, side: int, alpha: float) -> tuple[float, float]:
        return (
            self._p.beyond_power(self._q, edge, side, alpha),
            self._q.beyond_power(self._p, edge, side, alpha),
        )

    def closed_form(self, notion: Notion, budget: float | None = None) -> Ends | None:
        return None


def _around(low: FloatArray, high: FloatArray) -> Ends:
    """Return middles, which are rounded, and radii that reach both ends from there."""
    middle = low + 0.5 * (high - low)
    return middle, np.nextafter(np.maximum(high - middle, middle - low), inf)


def _by_density(width: FloatArray, low: FloatArray, high: FloatArray) -> Ends:
    """Return bounds on masses from bounds on log densities."""
    with np.errstate(under="ignore", over="ignore"):
        least, most = width * np.exp(low), width * np.exp(high)
    return least * (1.0 - 1e-12), np.minimum(most * (1.0 + 1e-12) + 1e-305, 1.0)


def _taylor(
    p: Expansion, q: Expansion, radius: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return bounds on f within the radius, f in the middle, and the error of that."""
    value, slope = p.value - q.value, p.slope - q.slope
    rounding = ULP * (
        np.abs(p.value) + np.abs(q.value) + (np.abs(p.slope) + np.abs(q.slope)) * radius
    )
    error = p.value_error + q.value_error + rounding
    slack = error + (p.slope_error + q.slope_error) * radius
    rise = _largest_rise(slope, p.highest - q.lowest, radius)
    fall = _largest_rise(slope, q.highest - p.lowest, radius)
    grow = 1.0 + 8.0 * ULP
    return value - fall * grow - slack, value + rise * grow + slack, value, error


def _largest_rise(slope: FloatArray, bend: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the maximum of slope t + bend t^2 / 2 over |t| <= radius."""
    steep = np.abs(slope)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inside = -bend * radius > steep
        top = np.where(inside, 0.5 * steep * (steep / np.where(inside, -bend, 1.0)), 0.0)
        edge = steep * radius + 0.5 * bend * radius * radius
    return np.where(inside, top, edge)
