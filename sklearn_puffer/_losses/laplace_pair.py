r"""Exact losses of one column of discrete values plus Laplace noise.

Between neighbouring atoms at distance T (in units of the scale) both densities are of the form

.. math:: 2 \theta h(y) = a e^{-t} + b e^{t - T}, \qquad t = (y - x_i) / \theta \in [0, T],

a the sum of what arrives from the left at the left atom, b from the right at the right one. Hence
h_p - e^epsilon h_q is of that form too, changes its sign at most once, and integrates in closed
form: with A > 0 > B it is positive up to t* = (T + log(A/|B|))/2, and its integral up to there is
A (1 - e^{-t*})^2.
"""

from __future__ import annotations

from math import exp, expm1, inf, log

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, FloatArray
from sklearn_puffer._losses.convolution import (
    log_rounding,
    log_steps,
    log_sums_from,
    log_sums_up_to,
)
from sklearn_puffer._losses.divergences import Ends
from sklearn_puffer._losses.line import MassBounds, View, tail_panel
from sklearn_puffer._losses.quadrature import REACH, RISE, Densities, renyi_by_quadrature
from sklearn_puffer._numerics import LN2, UNIT
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean

# Rounding. The log L of a sum is right to E |L| + a (`_losses.convolution`); below -800 - epsilon
# not even e^(epsilon + L) is a float, and L does not count. Then every quantity of the closed form
# is exact for densities within e^(+-m) of the true ones, m as computed in `deltas`: t* is off by at
# most 4u (T + |log(A/|B|)| + 1), where only T < 1500 matters (for larger T the root lies hundreds
# of scales away from one of the ends, and e^-t* is 0). Larger h_p and smaller h_q make the integral
# of the positive part larger, so evaluating it at epsilon - 2m and epsilon + 2m and stretching by
# e^(+-m) bounds it.

_LONGEST_ROOT = 1500.0
_SMALLEST = 1e-305


class LaplacePair:
    """Two priors over common atoms with Laplace noise.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        Sorted and distinct.
    log_masses : ndarray of shape (2, n)
    scale : float
    """

    def __init__(self, atoms: FloatArray, log_masses: FloatArray, scale: float) -> None:
        self._atoms, self.peaks, self.unit = atoms, atoms, scale
        self.weight = 16
        with np.errstate(under="ignore"):
            self._rightward = log_sums_up_to(atoms, log_masses, scale)
            self._leftward = log_sums_from(atoms, log_masses, scale)
        # one step more for what arrives between atoms, from both sides
        steps = log_steps(len(atoms)) + 1.0
        self._relative, self._rounding = log_rounding(steps, 2.0 * len(atoms))
        self._gaps = np.diff(atoms) / scale

    def anchors(self) -> FloatArray:
        return self._atoms

    def closed_form(self, notion: Notion) -> Ends | None:
        """Return the (epsilon, delta) loss of both directions."""
        divergence = notion.divergence
        if isinstance(divergence, HockeyStick):
            return self.deltas(divergence.epsilon)
        if isinstance(divergence, PowerMean):
            return renyi_by_quadrature(self, divergence.alpha)
        return None

    def densities(self, points: FloatArray, middles: FloatArray) -> Densities:
        """Return log densities at points, continued from the gaps that ``middles`` lie in."""
        left, right = self._arriving(points, points, np.searchsorted(self._atoms, middles) - 1)
        with np.errstate(invalid="ignore", under="ignore"):
            value = np.logaddexp(left, right)
            slope = (np.exp(right - value) - np.exp(left - value)) / self.unit
        relative = self._relative + 16.0 * UNIT
        error = self._rounding + relative * (np.abs(value) + 1.0)
        slope_error = 2.0 * error / self.unit
        base = np.full(len(points), -log(2.0 * self.unit))
        return Densities(value, error, slope, slope_error, base)

    def growth(
        self, middles: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on log |g(z)| / g(middle) on ellipses around panels, shape (2, m).

        For z = x + iy in units of the scale |a e^z + b e^-z| is at most its value at x and at least
        that times cos y; log h is convex between atoms, with slopes up to 1 and bends up to 1.
        """
        reach, rise = REACH * radii / self.unit, RISE * radii / self.unit
        inside = rise < 1.5
        turn = -(alpha - 1.0) * np.log(np.cos(np.where(inside, rise, 0.0)))
        along = np.abs(at.power_slopes(alpha)) * self.unit * reach + 0.5 * alpha * reach * reach
        along = np.minimum(along, (2.0 * alpha - 1.0) * reach)
        return np.where(inside, (along + turn) * (1.0 + 1e-9) + 1e-9, inf)

    def deltas(self, epsilon: float) -> Ends:
        """Return bounds on the hockey-stick divergences of both directions."""
        logs = np.concatenate((self._rightward, self._leftward))
        # sums of no mass at all are exactly 0
        largest = float(-np.maximum(logs[np.isfinite(logs)], -800.0 - epsilon).min())
        longest = float(np.minimum(self._gaps, _LONGEST_ROOT).max(initial=0.0))
        margin = self._rounding + (self._relative + 16.0 * UNIT) * largest
        margin += UNIT * (8.0 * (longest + 1.0 + epsilon) + 64.0)
        low, high = (
            np.array([self._delta(p, epsilon + 2.0 * side * margin) for p in (0, 1)])
            for side in (1.0, -1.0)
        )
        return low * (1.0 - margin), np.minimum(high * (1.0 + margin) + _SMALLEST, 1.0)

    def _delta(self, p: int, epsilon: float) -> float:
        """Return the integral of the positive part of h_p - e^epsilon h_q."""
        q = 1 - p
        right, left = self._rightward, self._leftward
        a_up, b_up = right[p] > epsilon + right[q], left[p] > epsilon + left[q]
        # two tails, and the gaps in which the difference is positive somewhere
        outer = _positive(right[:, -1:], p, epsilon) + _positive(left[:, :1], p, epsilon)
        gaps = np.flatnonzero(a_up[:-1] | b_up[1:])
        a = _difference(right[p, gaps], right[q, gaps], epsilon)
        b = _difference(left[p, gaps + 1], left[q, gaps + 1], epsilon)
        a_up, b_up = a_up[gaps], b_up[gaps + 1]
        with np.errstate(under="ignore"):
            inner = _gap_integrals(a, b, a_up, b_up, self._gaps[gaps])
        return 0.5 * (outer + float(inner.sum()))

    def look(self, low: FloatArray, high: FloatArray) -> View:
        gap = np.searchsorted(self._atoms, low, side="right") - 1  # -1: before the first atom
        at_low, at_high = self._at(low, gap), self._at(high, gap)
        f_low, f_high = at_low[0] - at_low[1], at_high[0] - at_high[1]
        error = self._log_error(at_low, at_high)
        # the ratio is a Moebius function of e^(2y): its extremes are at the ends
        bottom, top = np.minimum(f_low, f_high), np.maximum(f_low, f_high)
        ends = bottom - error, top + error, bottom + error, top - error
        return View(*ends, error, *self.masses(low, high))

    def _log_error(self, *values: FloatArray) -> FloatArray:
        size = np.abs(np.stack(values)).sum(axis=(0, 1))
        relative = self._relative + 8.0 * UNIT
        return np.asarray(2.0 * self._rounding + relative * (size + 4.0))

    def _at(self, y: FloatArray, gap: NDArray[np.int64]) -> FloatArray:
        """Return log sums at points of gaps between atoms (or beyond the outermost), (2, m)."""
        left, right = self._arriving(y, y, gap)
        with np.errstate(invalid="ignore", under="ignore"):
            values: FloatArray = np.logaddexp(left, right)
        return values

    def _arriving(
        self, low: FloatArray, high: FloatArray, gap: NDArray[np.int64]
    ) -> tuple[FloatArray, FloatArray]:
        """Return logs of what arrives from the left at ``low``, and from the right at ``high``.

        Nothing comes from the left before the first atom, or from the right behind the last one.
        """
        first, last = np.maximum(gap, 0), np.minimum(gap + 1, len(self._atoms) - 1)
        with np.errstate(invalid="ignore"):
            after = (low - self._atoms[first]) / self.unit
            until = (self._atoms[last] - high) / self.unit
            left = np.where(gap >= 0, self._rightward[:, first] - after, -inf)
            right = np.where(gap < last, self._leftward[:, last] - until, -inf)
        return left, right

    def masses(self, low: FloatArray, high: FloatArray) -> MassBounds:
        """Return bounds on the masses of panels that lie between neighbouring atoms, or beyond."""
        left, right = self._arriving(low, high, np.searchsorted(self._atoms, low, "right") - 1)
        with np.errstate(under="ignore"):
            masses = (np.exp(left) + np.exp(right)) * (-0.5 * np.expm1((low - high) / self.unit))
        # exponents below -745 underflow to 0, so those that count are right to 4u 745
        margin = self._rounding + 745.0 * self._relative + 2.0**-40
        least, most = masses * (1.0 - margin), masses * (1.0 + margin) + _SMALLEST
        most = np.minimum(most, 1.0)
        return least[0], most[0], least[1], most[1]

    def tail(self, edge: float, side: int) -> View:
        logs = self._edge_logs(side)
        error = self._log_error(logs[:, None])
        f = logs[:1] - logs[1:]
        masses = self.masses(*tail_panel(edge, side))
        return View(f - error, f + error, f + error, f - error, error, *masses)

    def tail_power(self, edge: float, side: int, alpha: float) -> tuple[float, float]:
        seen, order, atoms = self.tail(edge, side), alpha - 1.0, self._atoms
        t = (edge - atoms[-1] if side == 1 else atoms[0] - edge) / self.unit
        # in logs: a tail of mass e^-800 can matter where f is large
        masses = self._edge_logs(side) - t * (1.0 - 4.0 * UNIT) - LN2 * (1.0 - 1e-9)
        relative = self._relative + 8.0 * UNIT
        masses += self._rounding + relative * (1.0 + np.abs(masses))
        forward, backward = order * float(seen.log_high[0]), -order * float(seen.log_low[0])
        return forward + float(masses[0]), backward + float(masses[1])

    def _edge_logs(self, side: int) -> FloatArray:
        """Return log sums at the outermost atom."""
        return self._rightward[:, -1] if side == 1 else self._leftward[:, 0]


def _positive(logs: FloatArray, p: int, epsilon: float) -> float:
    """Return the positive part of e^p - e^(epsilon + q), for one pair of logs."""
    first, second = float(logs[p, 0]), float(logs[1 - p, 0]) + epsilon
    return exp(first) * -expm1(second - first) if first > second else 0.0


def _difference(p: FloatArray, q: FloatArray, epsilon: float) -> FloatArray:
    """Return log |e^p - e^(epsilon + q)|."""
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        gap = np.where(np.isneginf(p) & np.isneginf(q), 0.0, p - epsilon - q)
        size: FloatArray = np.maximum(p, epsilon + q) + np.log(-np.expm1(-np.abs(gap)))
    return size


def _gap_integrals(
    a: FloatArray, b: FloatArray, a_up: BoolArray, b_up: BoolArray, gaps: FloatArray
) -> FloatArray:
    """Return the integrals of positive parts of +-e^(a - t) +- e^(b + t - T) over 0 <= t <= T.

    ``a`` and ``b`` are logs, and a sign is + where ``a_up`` or ``b_up`` says so; one does.
    """
    whole = -np.expm1(-gaps)
    with np.errstate(invalid="ignore"):
        apart = np.where(np.isneginf(a) & np.isneginf(b), 0.0, np.abs(a - b))
        root = 0.5 * (gaps + apart)
        # from the end where the sign is +
        root = np.where((a >= b) == a_up, root, np.maximum(gaps - root, 0.0))
    partly = np.exp(np.where(a_up, a, b)) * np.square(np.expm1(-root))
    # the root lies beyond the other end: the positive end's term is the larger one
    wholly = np.exp(np.where(a_up, a, b)) * -np.expm1(-apart) * whole
    both = (np.exp(np.where(a_up, a, -inf)) + np.exp(np.where(b_up, b, -inf))) * whole
    return np.where(a_up & b_up, both, np.where(root < gaps, partly, wholly))
