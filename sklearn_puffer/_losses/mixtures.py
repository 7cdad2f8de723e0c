r"""Distributions of a released column that are mixtures of even parts, and the loss of two of them.

The parts are even and fall away from their centres. With s_k = (log h_k)',

.. math:: (\log h)' = E[s_k], \qquad (\log h)'' = E[(\log h_k)''] + \mathrm{Var}[s_k]
          \ge E[(\log h_k)''],

means over the chance of each part given y, which is known within bounds on every panel.

*In the complex plane.* Parts that are mixtures of Gaussians of one centre, as Gaussians with noise
are, have densities :math:`h_k(y) = \int e^{-\vartheta (y - c_k)^2} d\mu_k(\vartheta)`. With l
the slope of log h at m, and Y = -2 theta (m - c) - l, whose mean under theta and k given m is 0,

.. math:: \frac{h(m + z)}{h(m)} e^{-l z} = E \bigl[ e^{z Y - \vartheta z^2} \bigr] .

As e^x - 1 - x <= e^x + e^-x - 2 for x >= 0, that differs from 1, for abs(z) <= R, by at most

.. math:: E \bigl[ (e^{R Y} + e^{-R Y}) e^{\vartheta R^2} \bigr] - 2,

which values at distances of square :math:`(m - c \pm R)^2 - 2 R^2` tell.

For discrete values plus noise of a family without a closed form, each atom with its noise is one
part. The family gives its density, slope, curvature and mass.

*Between points where both densities are known* they are bounded by chords and tangents.
Wherever (log h)'' >= -C, log h + C y^2 / 2 is convex, so it lies below its chord and above its
tangents. Both densities of a pair use the same C, which cancels in the log ratio:

.. math:: f \le (1 - \tau) f(a) + \tau f(b) + \min(\tau D_a, (1 - \tau) D_b)

with D_a, D_b the chord's slope minus the tangents' slopes of q's function; from below with p's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf, log
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.divergences import Ends
from sklearn_puffer._losses.line import LinePair, MassBounds, View, tail_panel
from sklearn_puffer._losses.quadrature import REACH, Densities, growth_of, renyi_by_quadrature
from sklearn_puffer._numerics import UNIT, log_sum
from sklearn_puffer.noise import LOG_ROUNDING, ROUNDING, Noise
from sklearn_puffer.notions import Notion, PowerMean

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
_LOWEST_LOG = -700.0  # above it so do exponentials
_CELLS = 2**20  # parts x panels held at a time


SMALLEST_MASS = 1e-305
"""No mass is resolved below this: it is added to upper ends."""

_ROUGH = 4e-12  # relative error of masses told from densities


class PointDensities(NamedTuple):
    """Log densities and slopes at points, with bounds on their errors.

    Each of shape (2, m), p and then q, or (m,) for one distribution.
    """

    value: FloatArray
    slope: FloatArray
    error: FloatArray
    slope_error: FloatArray

    @classmethod
    def empty(cls, count: int) -> PointDensities:
        """Return uninitialised fields."""
        return cls(*(np.empty((2, count)) for _ in cls._fields))

    def taken(self, chosen: NDArray[np.generic]) -> PointDensities:
        """Return the chosen points."""
        return PointDensities(*(field[:, chosen] for field in self))


class SmoothPair(LinePair, ABC):
    """Two distributions of one released column whose log densities bend down by so much at most.

    Attributes
    ----------
    least, most : float
        Bounds on f that hold everywhere.
    peaks : ndarray of shape (n,)
        Sorted: each density is a sum of terms that fall away from these.
    is_analytic : bool
        Whether `growth` is known.
    """

    unit: float
    weight: int
    least, most = -inf, inf
    peaks: FloatArray
    is_analytic = True

    @abstractmethod
    def ends(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[PointDensities, PointDensities, FloatArray]:
        """Return densities at both ends of panels, and C."""

    def base(self, points: FloatArray) -> FloatArray:
        """Return the log of a factor that both densities are given without."""
        return np.zeros_like(points)

    @abstractmethod
    def densities(self, points: FloatArray, middles: FloatArray) -> Densities:
        """Return densities at points of the panels around ``middles``."""

    @abstractmethod
    def growth(
        self, middles: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on log |g(z)| / g(middle) on ellipses around panels, shape (2, m)."""

    def closed_form(self, notion: Notion) -> Ends | None:
        """Return the Renyi divergences of both directions, by quadrature."""
        divergence = notion.divergence
        if self.is_analytic and isinstance(divergence, PowerMean):
            return renyi_by_quadrature(self, divergence.alpha)
        return None

    def look(self, low: FloatArray, high: FloatArray) -> View:
        """Return bounds on finite panels."""
        a, b, curve = self.ends(low, high)
        error = a.error + b.error + 4.0 * UNIT * (np.abs(a.value) + np.abs(b.value))
        width = high - low
        bend = 0.5 * curve * width * width
        sag, share = _sag(a, b, width, bend, error)
        f_a, f_b = a.value[0] - a.value[1], b.value[0] - b.value[1]
        rounding = error.sum(axis=0) + 8.0 * UNIT * (np.abs(f_a) + np.abs(f_b))
        line = f_a + share * (f_b - f_a)
        top, bottom = self._ranges(low, high, a, b, bend, sag)
        seen_high, seen_low = np.maximum(f_a, f_b), np.minimum(f_a, f_b)
        f_high = np.minimum(np.maximum(seen_high, line[1] + sag[1]), top[0] - bottom[1])
        f_low = np.maximum(np.minimum(seen_low, line[0] - sag[0]), bottom[0] - top[1])
        f_high = np.minimum(f_high + rounding, self.most)
        f_low = np.minimum(np.maximum(f_low - rounding, self.least), f_high)
        seen = (
            np.maximum(seen_low + rounding, self.least),
            np.minimum(seen_high - rounding, self.most),
        )
        # rounding, which no cutting reduces: the other end may lie where values are huge
        blur = 2.0 * np.minimum(a.error.sum(axis=0), b.error.sum(axis=0))
        base = self.base(low), self.base(high)
        with np.errstate(under="ignore"):
            scale = np.log(width)
            # what is above e^-745 has exponents right to 745 * 8u
            most = np.exp(np.minimum(top + np.maximum(*base) + scale + error, 0.0))
            least = np.exp(np.minimum(bottom + np.minimum(*base) + scale - error, 0.0))
        least, most = least * (1.0 - _ROUGH), np.minimum(most * (1.0 + _ROUGH) + SMALLEST_MASS, 1.0)
        return View(f_low, f_high, *seen, blur, least[0], most[0], least[1], most[1])

    def _ranges(
        self,
        low: FloatArray,
        high: FloatArray,
        a: PointDensities,
        b: PointDensities,
        bend: FloatArray,
        sag: FloatArray,
    ) -> Ends:
        """Return upper and lower bounds on both log densities, shape (2, m)."""
        peaks = self.peaks
        top, bottom = np.maximum(a.value, b.value), np.minimum(a.value, b.value)
        outside = (low >= peaks[-1]) | (high <= peaks[0])  # they fall there
        crossed = np.searchsorted(peaks, low, side="right") < np.searchsorted(peaks, high)
        # where no peak lies within, each term is monotone: at most the sum of both ends
        most = np.where(crossed, inf, np.logaddexp(a.value, b.value))
        most = np.minimum(most, top + 0.25 * np.maximum(bend, 0.0))
        least = bottom - sag + np.minimum(bend, 0.0)
        return np.where(outside, top, most), np.where(outside, bottom, least)


def _sag(
    a: PointDensities, b: PointDensities, width: FloatArray, bend: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the largest distance between chords and tangents, and where it is."""
    chord = b.value - a.value
    fall, rise = width * a.slope, width * b.slope
    slack = error + width * np.maximum(a.slope_error, b.slope_error)
    slack += 8.0 * UNIT * (np.abs(fall) + np.abs(rise) + np.abs(bend))
    left = np.maximum(chord - fall + bend + slack, 0.0)
    right = np.maximum(rise + bend - chord + slack, 0.0)
    with np.errstate(invalid="ignore"):
        share = right / np.maximum(left + right, 1e-300)
    share = np.where(np.isnan(share), 0.5, share)
    return left * share * (1.0 + 8.0 * UNIT), share


def rounded_masses(noise: Noise, a: FloatArray, b: FloatArray) -> Ends:
    """Return masses of panels [a, b] with their rounded ends moved inwards and outwards."""
    start, stop = np.nextafter(a, inf), np.nextafter(b, -inf)
    less = noise.mass(start, np.maximum(start, stop))
    more = noise.mass(np.nextafter(a, -inf), np.nextafter(b, inf))
    return less * (1.0 - ROUNDING), more * (1.0 + ROUNDING)


class LogDensities(NamedTuple):
    """Log densities and scores of parts at points, with their errors, shape (parts, points)."""

    log: FloatArray
    log_error: FloatArray
    score: FloatArray
    score_error: FloatArray


class MixtureDistribution(ABC):
    """A mixture of even parts that fall away from their centres, as a released column has.

    All bounds are proven, rounding included. ``unit`` is a length below which nothing changes much.
    """

    unit: float
    is_analytic = True  # parts are mixtures of Gaussians, none narrower than its ``deviations``
    deviations: FloatArray

    def __init__(self, weights: FloatArray, centres: FloatArray) -> None:
        self.weights = weights[:, None]
        self.centres = centres[:, None]
        with np.errstate(divide="ignore"):
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
        if highest == inf:
            return inf
        power = (alpha - 1.0) * highest + self._log_tail_mass(edge, side)
        return power + SLACK * (1.0 + abs(power)) if np.isfinite(power) else power

    def _log_tail_mass(self, edge: float, side: int) -> float:
        """Return an upper bound on the log of the mass of a tail."""
        return log(float(self.masses(*tail_panel(edge, side))[1][0]))

    @abstractmethod
    def _values(self, z: FloatArray) -> LogDensities:
        """Return values at distances z >= 0 from the centres; the score towards the centre."""

    @abstractmethod
    def _lowest(
        self, near: FloatArray, far: FloatArray, first: LogDensities, last: LogDensities
    ) -> FloatArray:
        """Return lower bounds on (log h_k)'' over near <= |z| <= far, given values at both."""

    @abstractmethod
    def _part_masses(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on each part's mass in each panel."""

    def masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the mass of each panel [low, high]; ends may be infinite."""
        least, most = self._in_chunks(self._masses, low, high)
        return least, most

    def at(self, points: FloatArray) -> PointDensities:
        """Return the log density and its slope at points, and their errors."""
        return PointDensities(*self._in_chunks(self._at, points, 0.0))

    def ends(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[PointDensities, PointDensities, FloatArray]:
        """Return `at` both ends of panels, slopes on their inner side, and C: (log h)'' >= -C."""
        *fields, curve = self._in_chunks(self._panel_ends, low, high)
        return PointDensities(*fields[:4]), PointDensities(*fields[4:]), curve

    def change(self, middles: FloatArray, reach: FloatArray, at: PointDensities) -> FloatArray:
        """Return a bound on |h(m + z) / h(m) e^(-l z) - 1| for |z| up to a reach."""
        value, slope, error, slope_error = at
        total = np.full_like(value, -2.0)
        for side in (-1.0, 1.0):
            there = self._in_chunks(self._widened, middles, side * reach)[0]
            exponent = there - value - side * reach * slope + error + slope_error * reach
            exponent += rounding(np.abs(value) + reach * np.abs(slope))
            total += np.exp(np.minimum(exponent, 700.0))
        return np.maximum(total, 0.0) + 1e-9

    def _widened(self, middles: FloatArray, reach: FloatArray) -> tuple[FloatArray]:
        """Return log int e^(-theta ((m - c + R)^2 - 2 R^2)) of all parts together, rounded up."""
        apart = middles - self.centres
        size = np.square(apart) + np.square(reach)
        square = np.square(apart + reach) - 2.0 * np.square(reach) - 2.0**-46 * size
        parts = self._values(np.sqrt(np.maximum(square, 0.0)))
        beneath = 0.5 * np.maximum(-square, 0.0) / np.square(self.deviations)
        logs = parts.log + parts.log_error + beneath + self._log_weights
        total = log_sum(logs, axis=0)
        return (total + rounding(total),)

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
        return np.maximum(sums[0] * (1.0 - SLACK) - _TINY, 0.0), most

    def _panel_ends(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, ...]:
        a, b = self._at(low, np.ones_like(low)), self._at(high, -np.ones_like(low))
        left, right = low - self.centres, high - self.centres
        near = np.maximum(np.maximum(left, -right), 0.0) * (1.0 - ARGUMENT)
        far = np.maximum(-left, right) * (1.0 + ARGUMENT)
        first, last = self._values(near), self._values(far)
        lowest = self._lowest(near, far, first, last)
        logs = first.log + first.log_error + self._log_weights
        top = logs.max(axis=0)
        most, least = (
            np.exp(logs - top),
            np.exp(last.log - last.log_error + self._log_weights - top),
        )
        others = np.maximum(least.sum(axis=0) * (1.0 - SLACK) - least, 0.0)
        # what underflows is rounded up
        likeliest = (most + 1e-300) / np.maximum(most + others, 1e-300) * (1.0 + SLACK)
        bent = (np.minimum(likeliest, 1.0) * np.minimum(lowest, 0.0)).sum(axis=0)
        bent = np.maximum(bent * (1.0 + SLACK), lowest.min(axis=0))
        return *a, *b, -bent

    def _at(self, y: FloatArray, side: FloatArray) -> PointDensities:
        """Return log h and its slope at points, and their errors; at a kink on one side of it."""
        apart = y - self.centres
        parts = self._values(np.abs(apart))
        towards = np.where(apart == 0.0, side, np.sign(apart))
        logs, scores = parts.log + self._log_weights, -towards * parts.score
        value = log_sum(logs, axis=0)
        raised = logs + parts.log_error
        # sum c e^-d >= 1 / sum c e^d: as much below as above
        blur = np.maximum(log_sum(raised, axis=0) - value, 0.0)
        chances, often = np.exp(logs - value), np.exp(raised - value)
        slope = (chances * scores).sum(axis=0)
        # With chances c_k e^(d_k)/Z, the mean of s - slope is sum c_k (e^(d_k) - 1)(s_k - slope)/Z.
        errors = parts.score_error + SLACK * np.abs(scores)
        apart = np.abs(scores - slope)
        with np.errstate(invalid="ignore"):
            moved = ((often - chances) * apart).sum(axis=0) * np.exp(blur)
            of_parts = (often * errors).sum(axis=0) * np.exp(blur)
        # a mean lies within the range of its terms, whatever the weights
        moved = np.fmin(moved, apart.max(axis=0)) + np.fmin(of_parts, errors.max(axis=0))
        return PointDensities(value, slope, blur + rounding(value), moved * (1.0 + SLACK))


def rounding(value: FloatArray) -> FloatArray:
    return SLACK + 8.0 * ARGUMENT * np.abs(value)


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
        # a value that underflows is no bound; tails are sharp there
        usable = finite & (reach < 700.0) & (middle > _LOWEST_LOG)
        return (
            np.where(finite, chord * (1.0 - SLACK - 8.0 * ARGUMENT * np.abs(last)), 0.0),
            np.where(usable, tangent * (1.0 + 8.0 * slack), np.inf),
        )


class DistributionPair(SmoothPair):
    """Two distributions of one released column: a `LinePair`."""

    def __init__(self, p: MixtureDistribution, q: MixtureDistribution, weight: int) -> None:
        self._both = p, q
        self._anchors = np.union1d(p.anchors(), q.anchors())
        self.unit = min(p.unit, q.unit)
        self.peaks = np.union1d(p.centres, q.centres)
        self.is_analytic = p.is_analytic and q.is_analytic
        self.weight = weight
        self._tail_powers: dict[tuple[float, int, float], tuple[float, float]] = {}

    def anchors(self) -> FloatArray:
        """Return the anchors of both."""
        return self._anchors

    def ends(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[PointDensities, PointDensities, FloatArray]:
        """Return densities at both ends of panels, and C."""
        *points, curves = zip(*(h.ends(low, high) for h in self._both), strict=True)
        a, b = (PointDensities(*map(np.array, zip(*each, strict=True))) for each in points)
        return a, b, np.maximum(*curves)

    def densities(self, points: FloatArray, middles: FloatArray) -> Densities:
        """Return densities at points."""
        fields = zip(*(h.at(points) for h in self._both), strict=True)
        value, slope, error, slope_error = map(np.array, fields)
        return Densities(value, error, slope, slope_error, np.zeros_like(points))

    def growth(
        self, middles: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on log |g(z)| / g(middle) on ellipses around panels, shape (2, m)."""
        reach = REACH * radii * (1.0 + 1e-12)
        fields = zip(at.value, at.slope, at.error, at.slope_error, strict=True)
        points = (PointDensities(*point) for point in fields)
        pairs = zip(self._both, points, strict=True)
        changes = np.array([h.change(middles, reach, point) for h, point in pairs])
        return growth_of(changes, at, reach, alpha)

    def tail(self, edge: float, side: int) -> View:
        """Return bounds on y >= edge (side 1) or y <= edge (side -1), as one panel."""
        p, q = self._both
        low, high = p.beyond(q, edge, side)
        ends = np.array([low]), np.array([high])
        return View(*ends, ends[1], ends[0], np.zeros(1), *self.masses(*tail_panel(edge, side)))

    def masses(self, low: FloatArray, high: FloatArray) -> MassBounds:
        """Return bounds on the masses of panels; ends may be infinite."""
        p, q = self._both
        return (*p.masses(low, high), *q.masses(low, high))

    def tail_power(self, edge: float, side: int, alpha: float) -> tuple[float, float]:
        """Return upper bounds on log of int h_p^alpha h_q^(1 - alpha), and swapped, in a tail."""
        where, (p, q) = (edge, side, alpha), self._both
        if where not in self._tail_powers:  # asked for whenever panels between tails are cut
            self._tail_powers[where] = (
                p.beyond_power(q, edge, side, alpha),
                q.beyond_power(p, edge, side, alpha),
            )
        return self._tail_powers[where]


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

    is_analytic = False  # as far as is known

    def __init__(self, atoms: FloatArray, log_masses: FloatArray, noise: Noise) -> None:
        positive = np.isfinite(log_masses)
        atoms, log_masses = atoms[positive], log_masses[positive]
        with np.errstate(under="ignore", divide="ignore"):
            super().__init__(np.exp(log_masses), atoms)
        self._log_weights = log_masses[:, None]  # of masses too small for floats as well
        self._atoms, self._noise = atoms, noise
        self.unit = float(noise.axis_scales(1)[0])

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

    def _lowest(
        self, near: FloatArray, far: FloatArray, first: LogDensities, last: LogDensities
    ) -> FloatArray:
        low = self._noise.curvature(near, far)[0]
        return np.asarray(low - ROUNDING * np.abs(low))

    def _part_masses(self, low: FloatArray, high: FloatArray) -> Ends:
        return rounded_masses(self._noise, low - self.centres, high - self.centres)

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail."""
        ends = [h._atoms[k] for h in (self, other) for k in (0, -1)]
        span = (max(ends) - min(ends)) * (1.0 + ROUNDING)
        near = max((edge - max(ends)) if side == 1 else (min(ends) - edge), 0.0)
        (here, _, error, _), (there, _, other_error, _) = (
            h.at(np.array([edge])) for h in (self, other)
        )
        error = error + other_error + LOG_ROUNDING * (np.abs(here) + np.abs(there))
        ratio = float((here - there)[0])
        moved = float(self._noise.drift(near * (1.0 - ROUNDING), span)) + float(error[0])
        most = float(self._noise.max_divergence([span])) * (1.0 + ROUNDING)
        least_mass, most_mass = self._mass_ratios(other)
        return max(ratio - moved, -most, least_mass), min(ratio + moved, most, most_mass)

    def _mass_ratios(self, other: Self) -> tuple[float, float]:
        """Return bounds on f that hold everywhere, a mean of the ratios of common atoms' masses."""
        if not np.array_equal(self._atoms, other._atoms):
            return -inf, inf
        ratios = self._log_weights - other._log_weights
        size = ROUNDING * (1.0 + float(np.abs(self._log_weights).max()))
        size += ROUNDING * float(np.abs(other._log_weights).max())
        return float(ratios.min()) - size, float(ratios.max()) + size
