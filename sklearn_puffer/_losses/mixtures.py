r"""Distributions of a released column that are mixtures of even parts, and the loss of two of them.

The parts are even and fall away from their centres. What is proven for the parts, from their
nearest and farthest point to a panel, is put together by

.. math:: (\log h)' = E[s_k], \qquad (\log h)'' = E[(\log h_k)''] + \mathrm{Var}[s_k],
          \qquad s_k = (\log h_k)',

means over the chance of each part given y, which is known within bounds on every panel.

For discrete values plus noise of a family without a closed form, each atom with its noise is one
part. The family gives its density, slope, curvature and mass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf, log
from typing import Any, NamedTuple, Self

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.divergences import Ends, Slopes
from sklearn_puffer._losses.line import MassBounds, View, tail_panel
from sklearn_puffer._numerics import ULP, log_sum
from sklearn_puffer.noise import LOG_ROUNDING, ROUNDING, Noise
from sklearn_puffer.notions import Notion


class Expansion(NamedTuple):
    """The log density around points, in arrays of their shape.

    ``value`` and ``slope`` are right to within ``value_error`` and ``slope_error``; within the
    radius asked for, the log density lies between ``least`` and ``most``, and its second derivative
    between ``lowest`` and ``highest``.
    """

    value: FloatArray
    slope: FloatArray
    lowest: FloatArray
    highest: FloatArray
    value_error: FloatArray
    slope_error: FloatArray
    least: FloatArray
    most: FloatArray


Within = tuple[Expansion, Expansion, FloatArray]


# Rounding, with u = 2^-53. `SPECIAL` is what is allowed for erfcx, exp, log and log_ndtr together
# (against sixty digits, on random arguments: erfcx 8 u, log_ndtr 5 u in its left tail; 32 u taken).
# An argument t = (y - centre)/scale is off by 4 u relatively (`ARGUMENT`), which moves log h by
# 4 u t |score|. `SLACK` covers sums over parts and the last few operations.
#
# Masses of log-concave parts: a chord of log h lies below it and a tangent above, and both
# integrate in closed form; differences of tails are better for wide panels. Both are kept.

SPECIAL = 2.0**-48
SLACK = 2.0**-46
ARGUMENT = 2.0**-51
_TINY = 1e-306  # below it floats lose relative accuracy
_CELLS = 2**20  # parts x panels held at a time


class LogDensities(NamedTuple):
    """Log densities and scores of parts at points, with their errors, shape (parts, points)."""

    log: FloatArray
    log_error: FloatArray
    score: FloatArray
    score_error: FloatArray


class Ranges(NamedTuple):
    """Bounds over panels for each part, shape (parts, panels); ``steep`` is of |score|."""

    log_low: FloatArray
    log_high: FloatArray
    steep_low: FloatArray
    steep_high: FloatArray
    bend_low: FloatArray
    bend_high: FloatArray


class MixtureDistribution(ABC):
    """A mixture of even parts that fall away from their centres, as a released column has.

    All bounds are proven, rounding included.
    """

    def __init__(self, weights: FloatArray, centres: FloatArray) -> None:
        self.weights = weights[:, None]
        self.centres = centres[:, None]
        self._log_weights = np.log(self.weights)

    @abstractmethod
    def anchors(self) -> FloatArray:
        """Return sorted finite points to cut at first: the density has no kink between them.

        Outside the first and the last one is tail.
        """

    @abstractmethod
    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over all y >= edge (side 1) or y <= edge (side -1)."""

    # A tail in which the log ratio is unbounded (Gaussian tails) can still have a finite Renyi
    # integral: it is at most the mean, over any coupling of the components, of their own integrals.
    def beyond_power(self, other: Self, edge: float, side: int, alpha: float) -> float:
        """Return an upper bound on log of int h^alpha h_other^(1 - alpha) over a tail."""
        highest = self.beyond(other, edge, side)[1]
        mass = float(self.masses(*tail_panel(edge, side))[1][0])
        power = (alpha - 1.0) * highest + log(mass)
        return power + SLACK * (1.0 + abs(power)) if np.isfinite(power) else power

    @abstractmethod
    def _values(self, z: FloatArray) -> LogDensities:
        """Return values at distances z >= 0 from the centres; the score towards the centre."""

    @abstractmethod
    def _ranges(self, near: FloatArray, far: FloatArray) -> Ranges:
        """Return bounds over near <= |z| <= far."""

    @abstractmethod
    def _part_masses(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on each part's mass in each panel."""

    def masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the mass of each panel [low, high]; ends may be infinite."""
        least, most = self._in_chunks(self._masses, low, high)
        return least, most

    def expansion(self, middle: FloatArray, radius: FloatArray) -> Expansion:
        """Return the log density around each middle."""
        return Expansion(*self._in_chunks(self._expansion, middle, radius))

    def _in_chunks(
        self,
        function: Callable[[FloatArray, FloatArray], tuple[FloatArray, ...]],
        first: Any,
        second: Any,
    ) -> list[FloatArray]:
        ones, others = np.broadcast_arrays(np.asarray(first, float), np.asarray(second, float))
        flat, other = ones.ravel(), others.ravel()
        step = max(_CELLS // len(self.weights), 1)
        with np.errstate(under="ignore", over="ignore", divide="ignore"):
            parts = [
                function(flat[start : start + step], other[start : start + step])
                for start in range(0, max(flat.size, 1), step)
            ]
        return [np.concatenate(column).reshape(ones.shape) for column in zip(*parts, strict=True)]

    def _masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        least, most = self._part_masses(low, high)
        sums = (self.weights * least).sum(axis=0), (self.weights * most).sum(axis=0)
        most = np.minimum(sums[1] * (1.0 + SLACK) + _TINY, 1.0)
        return np.minimum(np.maximum(sums[0] * (1.0 - SLACK) - _TINY, 0.0), most), most

    def _expansion(self, middle: FloatArray, radius: FloatArray) -> tuple[FloatArray, ...]:
        value, slope, value_error, slope_error = self._at(middle)
        reach = radius * (1.0 + SLACK) + np.abs(middle) * ARGUMENT
        side, near, far = self._distances(middle - reach, middle + reach)
        ranges = self._ranges(near, far)
        rarest, likeliest = _chances(ranges, self._log_weights)
        lowest, highest = _curvature(ranges, side, slope, rarest, likeliest)
        least = log_sum(ranges.log_low + self._log_weights, axis=0)
        most = log_sum(ranges.log_high + self._log_weights, axis=0)
        least, most = least - rounding(least), most + rounding(most)
        return value, slope, lowest, highest, value_error, slope_error, least, most

    def _at(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return log h and its slope at points, and their errors."""
        apart = y - self.centres
        parts = self._values(np.abs(apart))
        logs, scores = parts.log + self._log_weights, -np.sign(apart) * parts.score
        value = log_sum(logs, axis=0)
        most, least = logs + parts.log_error, logs - parts.log_error
        error = np.maximum(log_sum(most, axis=0) - value, value - log_sum(least, axis=0))
        error = error + rounding(value)
        slope = (np.exp(logs - value) * scores).sum(axis=0)
        # With chances c_k e^(d_k)/Z, the mean of s - slope is sum c_k (e^(d_k) - 1)(s_k - slope)/Z.
        rare, often = np.exp(least - value), np.exp(most - value)
        errors = parts.score_error + SLACK * np.abs(scores)
        with np.errstate(invalid="ignore"):
            moved = ((often - rare) * np.abs(scores - slope)).sum(axis=0) / rare.sum(axis=0)
            of_parts = (often * errors).sum(axis=0) / rare.sum(axis=0)
        # a mean lies within the range of what it is of, however little is known of the chances
        moved = np.fmin(moved, np.abs(scores - slope).max(axis=0))
        return value, slope, error, (moved + np.fmin(of_parts, errors.max(axis=0))) * (1.0 + SLACK)

    def _distances(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return on which side of each centre a panel lies (0: across), nearest and farthest."""
        left, right = low - self.centres, high - self.centres
        side = np.where(left > 0.0, 1.0, np.where(right < 0.0, -1.0, 0.0))
        near = np.where(side == 0.0, 0.0, np.minimum(np.abs(left), np.abs(right)))
        far = np.maximum(np.abs(left), np.abs(right))
        return side, near * (1.0 - ARGUMENT), far * (1.0 + ARGUMENT)


def rounding(value: FloatArray) -> FloatArray:
    return SLACK + 8.0 * ARGUMENT * np.abs(value)


def _chances(ranges: Ranges, log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the chance of each part given y, over panels."""
    most = ranges.log_high + log_weights
    top = most.max(axis=0)
    most, least = np.exp(most - top), np.exp(ranges.log_low + log_weights - top)
    others_most = np.maximum(most.sum(axis=0) * (1.0 + SLACK) - most, 0.0)
    others_least = np.maximum(least.sum(axis=0) * (1.0 - SLACK) - least, 0.0)
    # what underflows is rounded down to 0 in one bound and up to 1e-300 in the other
    rarest = np.where(least > 1e-300, least / (least + others_most) * (1.0 - SLACK), 0.0)
    likeliest = (most + 1e-300) / np.maximum(most + others_least, 1e-300) * (1.0 + SLACK)
    return rarest, np.minimum(likeliest, 1.0)


def _curvature(
    ranges: Ranges, side: FloatArray, slope: FloatArray, rarest: FloatArray, likeliest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on E[(log h_k)''] + Var[s_k] over panels."""
    steepest = ranges.steep_high
    score_low = np.where(side < 0.0, ranges.steep_low, -steepest) - slope
    score_high = np.where(side > 0.0, -ranges.steep_low, steepest) - slope
    low, high = ranges.bend_low, ranges.bend_high
    bend_low = np.minimum(rarest * low, likeliest * low).sum(axis=0)
    bend_high = np.maximum(rarest * high, likeliest * high).sum(axis=0)
    farthest = np.maximum(np.square(score_low), np.square(score_high))
    nearest = np.square(np.maximum(np.maximum(score_low, -score_high), 0.0))
    mean_high = np.maximum(rarest * score_high, likeliest * score_high).sum(axis=0)
    mean_low = np.minimum(rarest * score_low, likeliest * score_low).sum(axis=0)
    # E[(s - slope)^2] - E[s - slope]^2, and at most a quarter of the squared range
    mean = np.maximum(np.square(mean_high), np.square(mean_low))
    variance_low = np.maximum((rarest * nearest).sum(axis=0) - mean, 0.0)
    spread = score_high.max(axis=0) - score_low.min(axis=0)
    variance_high = np.minimum((likeliest * farthest).sum(axis=0), 0.25 * np.square(spread))
    lowest = np.maximum(bend_low, low.min(axis=0)) + variance_low
    highest = np.minimum(bend_high, high.max(axis=0)) + variance_high
    margin = SLACK * (np.abs(bend_low) + np.abs(bend_high) + variance_high + mean)
    return lowest - margin, highest + margin


class LogConcaveDistribution(MixtureDistribution):
    """Parts with log-concave densities and tails in closed form."""

    @abstractmethod
    def _tail(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each part's mass beyond distances z >= 0, and its relative error."""

    def _part_masses(self, low: FloatArray, high: FloatArray) -> Ends:
        left, right = low - self.centres, high - self.centres
        turned = -left > right
        left, right = np.where(turned, -right, left), np.where(turned, -left, right)
        across = left < 0.0
        inner, inner_error = self._tail(np.abs(left))
        outer, outer_error = self._tail(np.abs(right))
        mass = np.where(across, (1.0 - inner) - outer, inner - outer)
        error = inner * inner_error + outer * outer_error + np.where(across, SLACK, 0.0)
        chord, tangent = self._by_density(left, right, high - low)
        return np.maximum(mass - error, chord), np.minimum(mass + error, tangent)

    def _by_density(self, left: FloatArray, right: FloatArray, width: FloatArray) -> Ends:
        """Integrate a chord and a tangent of log h over panels turned to the right."""
        finite = np.isfinite(left) & np.isfinite(right)
        start, stop = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
        width = np.where(finite, width, 0.0)
        points = np.abs(np.concatenate([start, stop, 0.5 * (start + stop)], axis=1))
        values = self._values(points)  # one call: most of the time goes into starting ufuncs
        first, last, middle = np.split(values.log, 3, axis=1)
        first_error, last_error, middle_error = np.split(values.log_error, 3, axis=1)
        first, last = first - first_error, last - last_error
        drop = np.abs(last - first)
        mean = np.where(drop > 1e-9, -np.expm1(-drop) / np.maximum(drop, 1e-9), 1.0 - 0.5 * drop)
        chord = width * np.exp(np.maximum(first, last)) * mean
        reach = 0.5 * width * np.split(values.score + values.score_error, 3, axis=1)[2]
        # a middle moved by rounding moves log h by the slope, which the error of log h covers
        with np.errstate(invalid="ignore"):
            grown = np.sinh(np.minimum(reach, 700.0)) / reach
            grown = np.where(reach > 1e-4, grown, 1.0 + np.square(reach))
        tangent = width * np.exp(middle + middle_error) * grown
        slack = SLACK + ARGUMENT * np.abs(middle)
        usable = finite & (reach < 700.0)
        return (
            np.where(finite, chord * (1.0 - SLACK - 8.0 * ARGUMENT * np.abs(last)), 0.0),
            np.where(usable, tangent * (1.0 + 8.0 * slack), np.inf),
        )


class DistributionPair:
    """Two distributions of one released column: a `LinePair`."""

    def __init__(self, p: MixtureDistribution, q: MixtureDistribution, weight: int) -> None:
        self._p, self._q = p, q
        self._anchors = np.union1d(p.anchors(), q.anchors())
        spacing = np.diff(self._anchors)
        self.unit = float(spacing.min()) if len(spacing) else max(abs(self._anchors[0]), 1.0)
        self.weight = weight
        self._both = p, q
        nothing = np.full(1, np.nan)  # equals no panel
        self._last: tuple[FloatArray, FloatArray, Any] = nothing, nothing, None
        self._tail_powers: dict[tuple[float, int, float], tuple[float, float]] = {}

    def anchors(self) -> FloatArray:
        """Return the anchors of both."""
        return self._anchors

    def look(self, low: FloatArray, high: FloatArray) -> View:
        """Return what is known of finite panels, which no anchor lies strictly within."""
        p, q, radius = self._within(low, high)
        low_f, high_f, value, error = _taylor(p, q, radius)
        log_low = np.maximum(low_f, p.least - q.most)
        log_high = np.minimum(high_f, p.most - q.least)
        least_p, most_p = _by_density(high - low, p.least, p.most)
        least_q, most_q = _by_density(high - low, q.least, q.most)
        ends = log_low, np.maximum(log_high, log_low)
        return View(*ends, value + error, value - error, error, least_p, most_p, least_q, most_q)

    def slopes(self, low: FloatArray, high: FloatArray) -> Slopes:
        """Return how f runs within finite panels."""
        p, q, radius = self._within(low, high)
        middle = _around(low, high)[0]
        *_, value, error = _taylor(p, q, radius)
        lowest, highest = p.lowest - q.highest, p.highest - q.lowest
        # the middle and the radius are rounded themselves
        bends = [np.maximum(np.abs(h.lowest), np.abs(h.highest)) for h in (p, q)]
        p_slope, q_slope = np.abs(p.slope) + p.slope_error, np.abs(q.slope) + q.slope_error
        off = error + (p.slope_error + q.slope_error) * radius
        off += 4.0 * ULP * np.abs(middle) * (p_slope + q_slope)
        size = np.maximum(np.abs(lowest), np.abs(highest))
        f = value, p.slope - q.slope, off, highest - lowest, size
        return Slopes(*f, p_slope, bends[0], q_slope, bends[1], radius, p.most, q.most)

    def _within(self, low: FloatArray, high: FloatArray) -> Within:
        """Return expansions of both densities; `slopes` asks for those of `look`."""
        if not (np.array_equal(low, self._last[0]) and np.array_equal(high, self._last[1])):
            middle, radius = _around(low, high)
            p, q = (h.expansion(middle, radius) for h in self._both)
            self._last = low, high, (p, q, radius)
        seen: Within = self._last[2]
        return seen

    def tail(self, edge: float, side: int) -> View:
        low, high = self._p.beyond(self._q, edge, side)
        ends = np.array([low]), np.array([high])
        return View(*ends, ends[1], ends[0], np.zeros(1), *self.masses(*tail_panel(edge, side)))

    def masses(self, low: FloatArray, high: FloatArray) -> MassBounds:
        return (*self._p.masses(low, high), *self._q.masses(low, high))

    def tail_power(self, edge: float, side: int, alpha: float) -> tuple[float, float]:
        where, p, q = (edge, side, alpha), self._p, self._q
        if where not in self._tail_powers:  # asked for whenever panels between tails are cut
            self._tail_powers[where] = (
                p.beyond_power(q, edge, side, alpha),
                q.beyond_power(p, edge, side, alpha),
            )
        return self._tail_powers[where]

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


_CLOSEST = 0.25  # two anchors are never closer than this share of the scale, but around kinks
_OUTER = np.array([2.0, 6.0, 18.0])  # the first cuts beyond the atoms, in scales


class NoiseDistribution(MixtureDistribution):
    """Atoms with noise around each of them.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        Sorted and distinct.
    log_masses : ndarray of shape (n,)
        Those of atoms without mass are -inf.
    noise : Noise
        Of one column.
    """

    def __init__(self, atoms: FloatArray, log_masses: FloatArray, noise: Noise) -> None:
        positive = np.isfinite(log_masses)
        atoms, log_masses = atoms[positive], log_masses[positive]
        with np.errstate(under="ignore", divide="ignore"):
            super().__init__(np.exp(log_masses), atoms)
        self._log_weights = log_masses[:, None]  # of masses too small for floats as well
        self._atoms, self._noise = atoms, noise

    def anchors(self) -> FloatArray:
        """Return the outermost atoms, points beyond them, and a selection in between."""
        atoms, s = self._atoms, float(self._noise.axis_scales(1)[0])
        low, gap = atoms[:-1], np.diff(atoms)
        near = gap > 3.0 * s
        points = np.unique(np.concatenate((atoms, low[near] + 1.5 * s, atoms[1:][near] - 1.5 * s)))
        if self._noise.steepest(0.0, 0.0) == 0.0:  # no kink that must be an anchor
            cells = np.floor((points - atoms[0]) / (_CLOSEST * s))
            points = points[np.append(True, cells[1:] > cells[:-1])]
        outer = _OUTER * s
        return np.unique(np.concatenate((points, atoms[0] - outer, atoms[-1:], atoms[-1] + outer)))

    def _values(self, z: FloatArray) -> LogDensities:
        value = self._noise.log_density(z[..., None])
        score = self._score(z)
        bent = np.abs(self._noise.curvature(z, z)).max(axis=0)
        error = LOG_ROUNDING * (1.0 + np.abs(value)) + 2.0 * ARGUMENT * z * score
        return LogDensities(value, error, score, LOG_ROUNDING * score + 2.0 * ARGUMENT * z * bent)

    def _score(self, z: FloatArray) -> FloatArray:
        return np.abs(self._noise.score(np.nextafter(z, inf)))  # on its own side of a kink at 0

    def _ranges(self, near: FloatArray, far: FloatArray) -> Ranges:
        first, last = self._values(near), self._values(far)
        low, high = self._noise.curvature(near, far)
        # |score| rises, and then falls: it is least at an end
        logs = last.log - last.log_error, first.log + first.log_error
        least = np.minimum(first.score - first.score_error, last.score - last.score_error)
        most = self._noise.steepest(near, far) * (1.0 + ROUNDING)
        bends = low - ROUNDING * np.abs(low), high + ROUNDING * np.abs(high)
        return Ranges(*logs, least, most, *bends)

    def _part_masses(self, low: FloatArray, high: FloatArray) -> Ends:
        left, right = low - self.centres, high - self.centres
        start, stop = np.nextafter(left, inf), np.nextafter(right, -inf)
        least = self._noise.mass(start, np.maximum(start, stop))
        most = self._noise.mass(np.nextafter(left, -inf), np.nextafter(right, inf))
        return least * (1.0 - ROUNDING), most * (1.0 + ROUNDING)

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail."""
        ends = [h._atoms[k] for h in (self, other) for k in (0, -1)]
        span = (max(ends) - min(ends)) * (1.0 + ROUNDING)
        near = max((edge - max(ends)) if side == 1 else (min(ends) - edge), 0.0)
        ratio, error = self._ratio(other, edge)
        moved = float(self._noise.drift(near * (1.0 - ROUNDING), span)) + error
        most = float(self._noise.max_divergence([span])) * (1.0 + ROUNDING)
        least_mass, most_mass = self._mass_ratios(other)
        low, high = max(ratio - moved, -most, least_mass), min(ratio + moved, most, most_mass)
        return min(low, high), max(low, high)

    def _ratio(self, other: Self, edge: float) -> tuple[float, float]:
        """Return log h / h_other at a point, and its error."""
        point = np.array([edge])
        here, there = (h.expansion(point, np.zeros(1)) for h in (self, other))
        error = here.value_error + there.value_error
        error += LOG_ROUNDING * (np.abs(here.value) + np.abs(there.value))
        return float((here.value - there.value)[0]), float(error[0])

    def _mass_ratios(self, other: Self) -> tuple[float, float]:
        """Return bounds on f that hold everywhere, a mean of the ratios of common atoms' masses."""
        if not np.array_equal(self._atoms, other._atoms):
            return -inf, inf
        ratios = self._log_weights - other._log_weights
        size = ROUNDING * (1.0 + float(np.abs(self._log_weights).max()))
        size += ROUNDING * float(np.abs(other._log_weights).max())
        return float(ratios.min()) - size, float(ratios.max()) + size
