r"""Two discrete priors released with the same smooth noise, and the exact loss between them.

With atoms x_i, masses p_i and a kernel K = e^{-phi} the density is h_p(y) = sum p_i K(y - x_i).
Wherever (log K)'' >= -C for all atoms, log h_p + C y^2 / 2 is convex (a log-sum-exp of convex
functions is), which `_losses.mixtures` asks for.
"""

# Rounding, u = 2^-53. Kernels are scaled to K(0) = 1. Gaussian exponents G = -(v/s)(v/(2s) + t/s),
# v = |x - c| and t = |y - c| with c the point of the atoms' range nearest to y: the factor of
# exp(-t^2 / (2 s^2)) is common to all atoms and cancels in f. No sum in G cancels, so it is right
# to 8u G. With perturbed exponents G_i (1 + e_i), |e_i| <= E, the log of the sum moves by at most
# E |log sum| (it is convex in a common factor of the G_i, and 0 where that factor is 0); taking
# the row's maximum off costs u |G| once more. Cauchy kinds: 1 + ((y - x)/s)^2 is right to 8u, its
# power k/2 to (4k + 8) u. `exp`, `log` and powers: 4u; inner products of length n: n u; masses: 3u.
# Slopes are means of scores under weights proportional to the terms; where these are off by a
# relative e_i, the mean moves by at most 2 max |score| mean |e_i|, and the mean of |G_i| under them
# is at most |log sum| (convexity again).

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, log, pi
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.divergences import Ends
from sklearn_puffer._losses.line import MassBounds, View
from sklearn_puffer._losses.mixtures import (
    SMALLEST_MASS,
    PointDensities,
    SmoothPair,
    rounded_masses,
)
from sklearn_puffer._losses.quadrature import REACH, RISE, Densities, growth_of
from sklearn_puffer._numerics import UNIT
from sklearn_puffer.noise import Noise

# Numbers in one block of kernel values: they stay in the cache.
_BLOCK = 2**16
# Sums in floats must exceed this, or logs of masses are used.
_SMALLEST_SUM = 1e-200
_SMALLEST_FLOAT = 1e-250
_WINDOW_FLOOR = -650.0
# Two anchors are never closer than this share of the scale.
_CLOSEST = 0.25
# The first cuts beyond the atoms, in scales; tails of Cauchy kinds are bounded from one scale on.
_OUTER = np.array([2.0, 6.0])


class DiscretePair(SmoothPair):
    """Two priors over common atoms with Gaussian noise or noise of a Cauchy kind.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        Sorted and distinct.
    masses : ndarray of shape (2, n)
    log_masses : ndarray of shape (2, n)
        Their logs, right to 4u + u |log|; -inf for zero.
    noise : Gaussian, Cauchy or GeneralizedCauchy
        With one scale.
    """

    def __init__(
        self, atoms: FloatArray, masses: FloatArray, log_masses: FloatArray, noise: Noise
    ) -> None:
        self.atoms, self._masses, self.log_masses = atoms, masses, log_masses
        self._noise = noise
        self.unit = float(noise.axis_scales(1)[0])
        self._kernel: _Kernel = (
            _GaussianKernel(self.unit)
            if noise.is_normal
            else _CauchyKernel(self.unit, cast(float, noise.power))
        )
        last = np.searchsorted(atoms, atoms + 2.0 * self._kernel.window, side="right")
        self.weight = int((last - np.arange(len(atoms))).max())  # the most that a point may need
        known = np.where(np.isfinite(log_masses), log_masses, 0.0)
        # where floats hold all masses well, no logs of them are needed
        self._in_floats = (np.isneginf(log_masses) | (masses > _SMALLEST_FLOAT)).all(axis=1)
        ratios = log_masses[0] - log_masses[1]
        rounding = 16.0 * UNIT * (1.0 + float(np.abs(known).max()))
        # a mean of ratios lies between the smallest and the largest: so does f
        self.most, self.least = float(ratios.max()) + rounding, float(ratios.min()) - rounding
        self._log_top = float(noise.log_density([[0.0]])[0])
        self.peaks, self._anchors = atoms, self._seeds()

    def anchors(self) -> FloatArray:
        """Return the outermost atoms, points beyond them, and a selection in between."""
        return self._anchors

    def _seeds(self) -> FloatArray:
        atoms, s = self.atoms, self.unit
        low, gap = atoms[:-1], np.diff(atoms)
        near, wide = gap > 3.0 * s, gap > 8.0 * s
        beside = (low[near] + 1.5 * s, atoms[1:][near] - 1.5 * s, (low + 0.5 * gap)[wide])
        points = np.unique(np.concatenate((atoms, *beside)))
        # one point of each cell of a quarter of the scale is enough
        cells = np.floor((points - atoms[0]) / (_CLOSEST * s))
        points = points[np.append(True, cells[1:] > cells[:-1])]
        points = points[points < atoms[-1] - _CLOSEST * s]
        outer = _OUTER * s
        ends = (atoms[0] - outer, atoms[:1], atoms[-1:], atoms[-1] + outer)
        return np.unique(np.concatenate((points, *ends)))

    def ends(
        self, low: FloatArray, high: FloatArray
    ) -> tuple[PointDensities, PointDensities, FloatArray]:
        """Return densities at both ends of panels, and C: no kernel's log bends down by more."""
        points, back = np.unique(np.concatenate((low, high)), return_inverse=True)
        at = self.at(points)
        return at.taken(back[: len(low)]), at.taken(back[len(low) :]), self._bend(low, high)

    def base(self, points: FloatArray) -> FloatArray:
        """Return the log of the factor that both densities are given without."""
        return self._kernel.base(points, self.atoms) + self._log_top

    def _bend(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return C: no kernel's log bends down by more in the panel."""
        atoms = self.atoms
        if self._kernel.is_gaussian:
            outside = (high <= atoms[0]) | (low >= atoms[-1])
            return np.where(outside, 0.0, (1.0 + 8.0 * UNIT) / self.unit / self.unit)
        after = np.searchsorted(atoms, low)
        before = np.clip(after - 1, 0, None)
        next_one = atoms[np.minimum(after, len(atoms) - 1)]
        right = np.where(after < len(atoms), np.maximum(next_one - high, 0.0), np.inf)
        left = np.where(after > 0, low - atoms[before], np.inf)
        # left: low - the last atom before low; an atom at or after low and up to high gives 0
        near = np.maximum(np.minimum(left, right), 0.0) * (1.0 - 4.0 * UNIT)
        far = np.maximum(np.abs(high - atoms[0]), np.abs(low - atoms[-1])) * (1.0 + 4.0 * UNIT)
        far = np.maximum(far, np.maximum(np.abs(low - atoms[0]), np.abs(high - atoms[-1])))
        lowest = self._noise.curvature(near, far)[0]
        return -lowest + 1e-9 * np.abs(lowest)

    def tail(self, edge: float, side: int) -> View:
        """Return bounds on y >= edge (side 1) or y <= edge (side -1), as one panel."""
        low, high = self._kernel.beyond(self, edge, side)
        low, high = max(low, self.least), min(high, self.most)
        # cheap bounds on the masses: those of the noise around the nearest and the farthest atom
        atoms = self.atoms
        far = (edge - atoms[[0, -1]]) if side == 1 else (atoms[[-1, 0]] - edge)
        least, most = rounded_masses(self._noise, far, np.full(2, inf))
        least, most = least[:1], np.minimum(most[1:] + SMALLEST_MASS, 1.0)
        ends = np.array([low]), np.array([high])
        seen_high = ends[1] if np.isinf(high) else ends[0]
        seen_low = ends[0] if np.isinf(low) else ends[1]
        return View(*ends, seen_low, seen_high, np.zeros(1), least, most, least, most)

    def masses(self, low: FloatArray, high: FloatArray) -> MassBounds:
        """Return bounds on the masses of panels; ends may be infinite."""
        order = np.argsort(low, kind="stable")
        bounds = np.empty((2, 2, len(low)))
        for stretch in self._stretches(low[order]):
            block = order[stretch]
            bounds[:, :, block] = self._block_masses(low[block], high[block])
        least, most = bounds
        most = np.minimum(most + SMALLEST_MASS, 1.0)
        return least[0], most[0], least[1], most[1]

    def _block_masses(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return bounds for some panels: least and most, of p and q, shape (2, 2, m)."""
        near = self._window(float(low.min()), float(high.max()))
        ends = self._kernel.masses(self._noise, low[:, None], high[:, None], self.atoms[near])
        sums = np.array([self._masses[:, near] @ mass.T for mass in ends])
        margin = (len(self.atoms) + 16.0) * UNIT
        sums[0] *= 1.0 - margin
        sums[1] *= 1.0 + margin
        return sums

    def _stretches(self, points: FloatArray) -> Iterator[slice]:
        """Yield stretches of ascending points that are few, and need about the same atoms."""
        rows, start = max(1, _BLOCK // self.weight), 0
        reach = min(self._kernel.window, 1e300)  # finite, as a tail begins at -inf
        while start < len(points):
            near = int(np.searchsorted(points, points[start] + reach, side="right"))
            stop = min(start + rows, near)
            yield slice(start, stop)
            start = stop

    def _window(self, low: float, high: float) -> slice:
        """Return the atoms whose terms may exceed e^-760 between two points."""
        reach, atoms = self._kernel.window, self.atoms
        start = np.searchsorted(atoms, min(low, float(atoms[-1])) - reach)
        stop = np.searchsorted(atoms, max(high, float(atoms[0])) + reach, side="right")
        return slice(int(start), max(int(stop), int(start) + 1))

    def tail_power(self, edge: float, side: int, alpha: float) -> tuple[float, float]:
        """Return upper bounds on log of int h_p^alpha h_q^(1 - alpha), and swapped, in a tail."""
        return self._kernel.tail_power(self, edge, side, alpha)

    def densities(self, points: FloatArray, middles: FloatArray) -> Densities:
        """Return log densities at points."""
        at = self.at(points)
        slope = at.slope + self._kernel.base_slope(points, self.atoms)
        slope_error = at.slope_error + 8.0 * UNIT * np.abs(slope)
        return Densities(at.value, at.error, slope, slope_error, self.base(points))

    def growth(
        self, middles: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on log |g(z)| / g(middle) on ellipses around panels, shape (2, m)."""
        return self._kernel.growth(self, middles, radii, at, alpha)

    def at(self, points: FloatArray) -> PointDensities:
        """Return the log densities and their slopes at points, and their errors."""
        order = np.argsort(points, kind="stable")
        points = points[order]
        densities = PointDensities.empty(len(points))
        for block in self._stretches(points):
            self._fill(points[block], PointDensities(*(field[:, block] for field in densities)))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return densities.taken(back)

    def _fill(self, points: FloatArray, densities: PointDensities) -> None:
        """Write the values at neighbouring points into ``densities``."""
        kernel, atoms = self._kernel, self.atoms
        near = self._window(float(points[0]), float(points[-1]))
        with np.errstate(under="ignore", divide="ignore"):
            top, terms, score = kernel.terms(points, atoms, near)
            sums = self._masses[:, near] @ terms.T
            terms *= score
            slopes = self._masses[:, near] @ terms.T
            densities.value[:] = top + np.log(sums)
        densities.slope[:] = slopes / np.maximum(sums, 1e-300) / self.unit
        # what lies outside the window, at most e^-760, can matter where the sum is tiny only
        lost: NDArray[np.bool_] = (sums < _SMALLEST_SUM) | (densities.value < _WINDOW_FLOOR)
        lost[~self._in_floats] = True
        densities.error[:] = kernel.error(np.where(lost, 0.0, densities.value), len(atoms))
        for k in (0, 1):
            if lost[k].any():
                self._fill_by_logs(k, points, densities, np.flatnonzero(lost[k]))
        steepest = kernel.steepest(points, atoms)
        densities.slope_error[:] = 3.0 * steepest / self.unit * densities.error

    def _fill_by_logs(
        self, k: int, points: FloatArray, densities: PointDensities, lost: NDArray[np.int64]
    ) -> None:
        """Sum the terms of one prior over its own largest one."""
        kernel, size = self._kernel, len(self.atoms)
        rows = max(1, _BLOCK // size)
        for start in range(0, len(lost), rows):
            chosen = lost[start : start + rows]
            logs, score = kernel.logs(points[chosen], self.atoms, slice(None))
            logs += self.log_masses[k]
            top = logs.max(axis=1)
            with np.errstate(under="ignore"):
                terms = np.exp(logs - top[:, None])
                sums = terms.sum(axis=1)
                densities.value[k, chosen] = value = top + np.log(sums)
                densities.slope[k, chosen] = (terms * score).sum(axis=1) / sums / self.unit
            densities.error[k, chosen] = kernel.error(np.abs(value) + log(size) + 4.0, size)


@dataclass(frozen=True)
class _GaussianKernel:
    """Terms of Gaussian noise, over the factor that all atoms share outside their range."""

    scale: float
    is_gaussian = True

    def base(self, y: FloatArray, atoms: FloatArray) -> FloatArray:
        """Return the log of the common factor."""
        t = np.maximum(np.maximum(atoms[0] - y, y - atoms[-1]), 0.0) / self.scale
        return np.asarray(-0.5 * t * t)

    @property
    def window(self) -> float:
        """Distance beyond which an atom adds at most e^-760."""
        return 39.0 * self.scale

    def masses(self, noise: Noise, low: FloatArray, high: FloatArray, atoms: FloatArray) -> Ends:
        """Return bounds on the mass of each panel around each atom."""
        return rounded_masses(noise, low - atoms, high - atoms)

    def logs(self, y: FloatArray, atoms: FloatArray, near: slice) -> tuple[FloatArray, FloatArray]:
        """Return log K and its slope times the scale, both over the common factor's."""
        c = np.clip(y, atoms[0], atoms[-1])
        score = (atoms[near] - c[:, None]) / self.scale
        v = np.abs(score)
        logs = 0.5 * v
        logs += (np.abs(y - c) / self.scale)[:, None]
        logs *= v
        return np.negative(logs, out=logs), score

    def terms(
        self, y: FloatArray, atoms: FloatArray, near: slice
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the largest log of each row, the terms over it, and slopes."""
        logs, score = self.logs(y, atoms, near)
        top = logs.max(axis=1)
        logs -= top[:, None]
        return top, np.exp(logs, out=logs), score

    def tail_power(
        self, pair: DiscretePair, edge: float, side: int, alpha: float
    ) -> tuple[float, float]:
        """Return bounds on the log of the Renyi integral beyond an edge, by joint convexity.

        Between two atoms a distance d apart the integral is e^(alpha (alpha - 1) d^2 / (2 s^2))
        times the tail of a Gaussian around a point at most (alpha - 1) d beyond the outer atom,
        which rises with d; a^alpha b^(1 - alpha) is jointly convex, so a mean over pairs of atoms
        bounds that of the mixtures.
        """
        atoms = pair.atoms
        reach = (atoms[-1] - atoms[0]) / self.scale
        t = (edge - atoms[-1] if side == 1 else atoms[0] - edge) / self.scale
        order = alpha - 1.0
        most = 0.5 * alpha * order * reach * reach + log_ndtr(order * reach - t)
        most = float(most + 1e-12 * (1.0 + alpha * order * reach * reach + abs(most)))
        return most, most

    def error(self, value: FloatArray, size: int) -> FloatArray:
        return UNIT * (12.0 * np.abs(value) + size + 16.0)

    def steepest(self, y: FloatArray, atoms: FloatArray) -> FloatArray:
        c = np.clip(y, atoms[0], atoms[-1])
        return np.asarray(np.maximum(c - atoms[0], atoms[-1] - c) / self.scale)

    def base_slope(self, y: FloatArray, atoms: FloatArray) -> FloatArray:
        """Return the slope of the log of the common factor."""
        return np.asarray((np.clip(y, atoms[0], atoms[-1]) - y) / self.scale / self.scale)

    def growth(
        self, pair: DiscretePair, m: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on the growth of g within the reach R.

        h_p(m + z) / h_p(m) is e^(-z^2 / (2 s^2) + z l') E e^(z X), X = (x - mean) / s^2 under the
        posterior at m, so E X = 0, and |E e^(z X) - 1| <= E (e^(R X) + e^(-R X)) - 2, which values
        at m + R and m - R tell: e^x - 1 - x <= e^x + e^-x - 2 for x >= 0. These two points are
        rounded, which moves a value by the slope there times that.
        """
        reach, rise = REACH * radii, RISE * radii / self.scale
        value = at.value + at.base
        change = np.full_like(value, -2.0)
        leaning = at.slope_error * reach
        for side in (-1.0, 1.0):
            points = m + side * reach
            there = pair.densities(points, m)
            rest = there.value + there.base - value - side * reach * at.slope
            rest += 0.5 * np.square(reach / self.scale)
            slack = there.error + at.error + 16.0 * UNIT * (np.abs(value) + np.abs(at.base))
            slack += 4.0 * UNIT * np.abs(points) * (np.abs(there.slope) + there.slope_error)
            change += np.exp(np.minimum(rest + slack + leaning, 700.0))
        change = np.maximum(change, 0.0) + 1e-9
        return growth_of(change, at, reach, alpha, 0.5 * rise * rise)

    def beyond(self, pair: DiscretePair, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on f beyond an edge outside the atoms.

        There h_p over the common factor falls towards its mass at the outermost atom.
        """
        at, last = pair.at(np.array([edge])), pair.log_masses[:, -1 if side == 1 else 0]
        p, q = at.value[:, 0] + at.error[:, 0]
        slack = 8.0 * UNIT * (1.0 + np.abs(np.where(np.isfinite(last), last, 0.0)))
        low = last[0] - slack[0] - q if np.isfinite(last[0]) else -inf
        high = p - last[1] + slack[1] if np.isfinite(last[1]) else inf
        return float(low), float(high)


@dataclass(frozen=True)
class _CauchyKernel:
    """Terms of noise of a Cauchy kind."""

    scale: float
    k: float
    is_gaussian = False

    def base(self, y: FloatArray, atoms: FloatArray) -> FloatArray:
        return np.zeros_like(y)

    @property
    def window(self) -> float:
        """All atoms matter everywhere."""
        return inf

    def masses(self, noise: Noise, low: FloatArray, high: FloatArray, atoms: FloatArray) -> Ends:
        """Return bounds on the mass of each panel around each atom.

        Cauchy: the angle of (s^2 + a b, (b - a) s) over pi, right to 16u relative: with a b < 0,
        (s^2 + |a b|)^2 <= (s^2 + a b)^2 + ((b - a) s)^2, so what rounding moves is small against
        the distance from the origin.
        """
        if self.k != 2.0:
            return rounded_masses(noise, low - atoms, high - atoms)
        with np.errstate(invalid="ignore"):
            a, b = (low - atoms) / self.scale, (high - atoms) / self.scale
            both = np.arctan2((high - low) / self.scale, 1.0 + a * b)
        both = np.where(np.isinf(high), np.arctan2(1.0, a), both)
        both = np.where(np.isinf(low), np.arctan2(1.0, -b), both) / pi
        return both * (1.0 - 24.0 * UNIT), both * (1.0 + 24.0 * UNIT)

    def logs(self, y: FloatArray, atoms: FloatArray, near: slice) -> tuple[FloatArray, FloatArray]:
        u = (y[:, None] - atoms) / self.scale
        squares = 1.0 + u * u
        return -0.5 * self.k * np.log(squares), -self.k * u / squares

    def terms(
        self, y: FloatArray, atoms: FloatArray, near: slice
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        u = (y[:, None] - atoms) / self.scale
        squares = u * u
        squares += 1.0
        nearest = squares.min(axis=1)
        u /= squares
        u *= -self.k
        terms = np.divide(nearest[:, None], squares, out=squares)
        if self.k != 2.0:
            np.power(terms, 0.5 * self.k, out=terms)
        return -0.5 * self.k * np.log(nearest), terms, u

    def error(self, value: FloatArray, size: int) -> FloatArray:
        return UNIT * (8.0 * np.abs(value) + size + 16.0 + 12.0 * self.k)

    def steepest(self, y: FloatArray, atoms: FloatArray) -> FloatArray:
        return np.full(len(y), 0.5 * self.k)

    def base_slope(self, y: FloatArray, atoms: FloatArray) -> FloatArray:
        return np.zeros_like(y)

    def growth(
        self, pair: DiscretePair, m: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on the growth of g within the reach R.

        K(x + z) / K(x) = (1 + z/(x - is))^(-k/2) (1 + z/(x + is))^(-k/2). With v = R / |x + is| its
        size lies between (1 + v)^-k and (1 - v)^-k, its angle within k asin(v); so a mean of such
        ratios is at most (1 - v)^-k and at least (1 + v)^-k cos(k asin v), v the nearest atom's.
        """
        atoms = pair.atoms
        after = np.clip(np.searchsorted(atoms, m), 1, len(atoms) - 1)
        near = np.minimum(np.abs(m - atoms[after - 1]), np.abs(m - atoms[after]))
        share = REACH * radii / np.hypot(near, self.scale) * (1.0 + 1e-9)
        inside = self.k * np.arcsin(np.minimum(share, 1.0)) < 1.5
        share = np.where(inside, share, 0.0)
        turn = np.log(np.cos(self.k * np.arcsin(share)))
        growth = -alpha * self.k * np.log1p(-share)
        growth += (alpha - 1.0) * (self.k * np.log1p(share) - turn)
        return np.broadcast_to(np.where(inside, growth * (1.0 + 1e-9), inf), at.value.shape)

    def beyond(self, pair: DiscretePair, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on f beyond an edge outside the atoms.

        With range R and t beyond, a term of one is at most (1 + R (2t + R) / (t^2 + s^2))^(k/2)
        times one of the other, which falls for t >= s.
        """
        atoms = pair.atoms
        reach = float(atoms[-1] - atoms[0])
        t = float(edge - atoms[-1] if side == 1 else atoms[0] - edge)
        r, v = reach / self.scale, t / self.scale
        if v < 1.0 + 1e-9:
            most = self.k * float(np.arcsinh(0.5 * r))
        else:
            most = 0.5 * self.k * float(np.log1p(r * (2.0 * v + r) / (v * v + 1.0)))
        most *= 1.0 + 1e-12
        return -most, most

    def tail_power(
        self, pair: DiscretePair, edge: float, side: int, alpha: float
    ) -> tuple[float, float]:
        """Return bounds on the log of the Renyi integrals beyond an edge: f is bounded there."""
        seen, order = pair.tail(edge, side), alpha - 1.0
        forward, backward = order * float(seen.log_high[0]), -order * float(seen.log_low[0])
        return forward + float(np.log(seen.p_most[0])), backward + float(np.log(seen.q_most[0]))


_Kernel = _GaussianKernel | _CauchyKernel
