"""Two laws of a released column as the source of an exact loss.

What an exact loss needs to know of the law of a released column, Y = X + N given a secret.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Protocol, Self

import numpy as np

from sklearn_puffer._base import ULP, FloatArray
from sklearn_puffer._losses.divergences import Slopes
from sklearn_puffer._losses.line import Ends, View
from sklearn_puffer.notions import Notion


class Expansion(NamedTuple):
    """The log density around points, in arrays of their shape.

    ``value`` and ``slope`` are right to within ``value_error`` and ``slope_error``; within the
    radius asked for, the second derivative lies between ``lowest`` and ``highest``.
    """

    value: FloatArray
    slope: FloatArray
    lowest: FloatArray
    highest: FloatArray
    value_error: FloatArray
    slope_error: FloatArray


class Law(Protocol):
    """The law of one released column. All bounds are proven, rounding included."""

    def anchors(self) -> FloatArray:
        """Return sorted finite points to cut at first: the density has no kink between them.

        Outside the first and the last one is tail.
        """

    def masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the mass of each panel [low, high]; ends may be infinite."""

    def log_bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the log density over each finite panel."""

    def expansion(self, middle: FloatArray, radius: FloatArray) -> Expansion:
        """Return the log density around each middle, where it has no kink within the radius."""

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over all y >= edge (side 1) or y <= edge (side -1)."""

    # Added after the first draft: a tail in which the log ratio is unbounded (Gaussian tails) can
    # still have a finite Renyi integral. Where `beyond` is finite, return order * its upper end
    # plus the log of the tail's mass. Joint convexity of a^alpha b^(1 - alpha) helps: the integral
    # is at most the mean, over any coupling of the components, of the components' own integrals.
    def beyond_power(self, other: Self, edge: float, side: int, alpha: float) -> float:
        """Return an upper bound on the log of the integral of h^alpha h_other^(1 - alpha) there."""


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
