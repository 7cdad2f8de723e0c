r"""Bounds on two smooth densities between points where both are known, by chords and tangents.

Wherever (log h)'' >= -C, log h + C y^2 / 2 is convex, so it lies below its chord and above its
tangents. Both densities of a pair use the same C, which cancels in the log ratio:

.. math:: f \le (1 - \tau) f(a) + \tau f(b) + \min(\tau D_a, (1 - \tau) D_b)

with D_a, D_b the chord's slope minus the tangents' slopes of q's function; from below with p's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.divergences import Ends
from sklearn_puffer._losses.line import LinePair, View
from sklearn_puffer._losses.quadrature import Densities, renyi_by_quadrature
from sklearn_puffer._numerics import UNIT
from sklearn_puffer.noise import ROUNDING, Noise
from sklearn_puffer.notions import Notion, PowerMean

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
        if self.is_analytic and isinstance(divergence, PowerMean) and divergence.left_out == 0.0:
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
