r"""Renyi divergences of analytic densities by Gauss-Legendre sums with a proven remainder.

The integrand g = h_p^alpha h_q^(1 - alpha) is analytic wherever h_p and h_q have no zero. On a
panel of radius r around m, with |g| <= M on the ellipse around it whose semi-axes are
r (rho +- 1/rho)/2, the sum over N nodes misses the integral by at most

.. math:: 4.2 \, r M \frac{\rho^{-2N}}{1 - 1/\rho}

(the Chebyshev coefficients of g are at most 2 M rho^-k, the sum is exact up to degree 2N - 1, and
of each further polynomial integral and sum differ by at most 2.1). A pair of densities knows M.
"""

# Rounding. The nodes meant are those of the panel from low to high exactly. Its middle and they are
# rounded by 4 u |y| together, which moves log g by at most its slope times that; half its width is
# right to u; nodes and weights of the rule to 64 u (a test looks). All go into the error of each
# value, with that of the densities. M is taken for a radius that covers the rounded middle. Sums
# are numpy's pairwise ones.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import inf, log, nan
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, FloatArray
from sklearn_puffer._losses.divergences import (
    Ends,
    Panels,
    renyi_of_terms,
    renyi_terms,
)
from sklearn_puffer._losses.line import LinePair, cut, tail_panel
from sklearn_puffer._numerics import UNIT, log_sum

_DEGREE = 20
REACH = 1.5
"""The ellipse lies within this many radii of the middle ..."""
RISE = 5.0**0.5 / 2.0
"""... and within this many of the real line: rho = 1.5 + sqrt(1.25)."""
_RHO = REACH + RISE
_REMAINDER = log(4.2 / (1.0 - 1.0 / _RHO)) - 2.0 * _DEGREE * log(_RHO)
_ROUNDS = 60
# Kernel values computed for one divergence, about; what each point costs beside them; panels.
_WORK = 2**30
_OVERHEAD = 50
_MOST_PANELS = 2**16
# Logs of what parts of the integral may add to its relative error: a panel beside others, one for
# itself, and a tail. Panels that add less than the first in all are not summed.
_SLIGHT, _ALONE, _TAIL = log(1e-15), log(1e-13), log(1e-13)
# Tails that hardly fall, as with an exponent near 1, matter up to 1e100 and farther: after so many
# steps of one size relative to the last, each next one is so much larger. Panels are cut anyway.
_CALM, _HASTE = 48, 1.25
# A tail that matters after a few steps does so for many: it is looked at after several at a time.
_NEAR, _STRIDE = 2, 5
_FARTHEST = 1e140  # of the unit: squares of distances stay finite
_LOOSER = log(1e8)  # a tail from there on may add so much more to the error


def _rule(degree: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights; numpy's own weights are off by some hundred u."""
    x: NDArray[Any] = np.polynomial.legendre.leggauss(degree)[0].astype(np.longdouble)
    for _ in range(2):  # Newton steps from what is nearly right
        before, value = np.ones_like(x), x.copy()
        for n in range(2, degree + 1):
            before, value = value, ((2 * n - 1) * x * value - (n - 1) * before) / n
        slope = degree * before / (1 - x * x)  # the derivative at a root
        x = x - value / slope
    weights = 2 / ((1 - x * x) * slope * slope)
    return x.astype(np.float64), weights.astype(np.float64)


_NODES, _WEIGHTS = _rule(_DEGREE)


class Densities(NamedTuple):
    """Log densities at points, over a factor common to p and q whose log is ``base``.

    ``value``, ``slope`` (of the log density itself) and their errors have shape (2, m): p, q.
    """

    value: FloatArray
    error: FloatArray
    slope: FloatArray
    slope_error: FloatArray
    base: FloatArray

    def powers(self, alpha: float) -> FloatArray:
        """Return log h_p^alpha h_q^(1 - alpha), and swapped, shape (2, m)."""
        order = alpha - 1.0
        return alpha * self.value - order * self.value[::-1] + self.base

    def power_errors(self, alpha: float) -> FloatArray:
        """Return the errors of `powers`."""
        order = alpha - 1.0
        sizes = alpha * np.abs(self.value) + order * np.abs(self.value[::-1]) + np.abs(self.base)
        return np.asarray(alpha * self.error + order * self.error[::-1] + 4.0 * UNIT * sizes)

    def power_slopes(self, alpha: float) -> FloatArray:
        """Return the slopes of `powers`."""
        return np.asarray(alpha * self.slope - (alpha - 1.0) * self.slope[::-1])


def growth_of(
    changes: FloatArray, at: Densities, reach: FloatArray, alpha: float, more: Any = 0.0
) -> FloatArray:
    """Return bounds on log |g(m + z)| / g(m) for |Re z| <= reach, shape (2, m).

    Given how far h(m + z) / h(m) e^(-l z) is from 1 at most, shape (2, m), l being the slope of
    log h at m, for both densities but for a factor e^more; inf where one may have a zero.
    """
    leaning = at.slope_error * reach
    zero_free = (changes < 1.0).all(axis=0)
    changes = np.where(zero_free, changes, 0.0)
    linear = np.abs(at.power_slopes(alpha)) * reach + more
    linear += alpha * leaning + (alpha - 1.0) * leaning[::-1]
    growth = alpha * np.log1p(changes) - (alpha - 1.0) * np.log1p(-changes[::-1]) + linear
    return np.where(zero_free, growth * (1.0 + 1e-9), inf)


class AnalyticPair(LinePair, Protocol):
    """Two distributions whose densities are analytic around each panel between anchors.

    Tails are those beyond all ``peaks``, which are sorted, and among the anchors.
    """

    peaks: FloatArray

    def densities(self, points: FloatArray, middles: FloatArray) -> Densities:
        """Return densities at points of the panels around ``middles``."""

    def growth(
        self, middles: FloatArray, radii: FloatArray, at: Densities, alpha: float
    ) -> FloatArray:
        """Return bounds on log |g(z)| / g(middle) on the ellipses, shape (2, m); inf if unknown."""


@dataclass(frozen=True)
class _Sum:
    """Bounds on the log of a part of the integral, both ways, each of shape (2,)."""

    low: FloatArray
    high: FloatArray

    def plus(self, low: FloatArray, high: FloatArray) -> _Sum:
        """Add panels, given log bounds of shape (2, m)."""
        with np.errstate(under="ignore"):
            total_low = np.logaddexp(self.low, log_sum(low))
            total_high = np.logaddexp(self.high, log_sum(high))
        return _Sum(total_low - _rounding(total_low), total_high + _rounding(total_high))

    def unbounded(self, ways: BoolArray) -> _Sum:
        """Return the sum without an upper bound for some of the directions."""
        return _Sum(self.low, np.where(ways, inf, self.high))


def renyi_by_quadrature(pair: AnalyticPair, alpha: float) -> Ends:
    """Return proven ends of the Renyi divergences both ways.

    An upper end is infinite where the divergence is, or where its integral would take too long.
    """
    points = pair.anchors()
    # at least 0, as the integrals are at least 1
    size = np.maximum(_seen(pair, pair.densities(points, points), alpha, np.array(inf)), 0.0)
    edges, missing, total = _reach(pair, alpha, _TAIL + size)
    low, high = edges[:-1], edges[1:]
    work, cost = _WORK, pair.weight + _OVERHEAD
    for _ in range(_ROUNDS):
        work -= 3 * cost * len(low)
        if work < 0 or len(low) > _MOST_PANELS:  # give up the direction that takes more panels
            longer = np.arange(2) == missing.sum(axis=1).argmax()
            total = total.unbounded(np.asarray(longer))
            missing[longer], work = False, _WORK
            needed = missing.any(axis=0)
            low, high, missing = low[needed], high[needed], missing[:, needed]
        if not len(low):
            break
        before = len(low)
        low, high, missing, total, size = _advance(pair, alpha, total, size, low, high, missing)
        work -= len(_NODES) * cost * max(before - len(low) // 2, 0)
    total = total.unbounded(np.asarray(missing.any(axis=1)))
    ends = [renyi_of_terms(total.low[k : k + 1], total.high[k : k + 1], alpha) for k in (0, 1)]
    lower, upper = np.array(ends).T
    return lower, upper


def _seen(pair: AnalyticPair, at: Densities, alpha: float, width: FloatArray) -> FloatArray:
    """Return about the logs of both integrals, from panels of some width around points."""
    steep = np.abs(at.power_slopes(alpha)) + alpha / pair.unit
    logs = at.powers(alpha) - np.maximum(np.log(steep), -np.log(width))
    return np.asarray(logs.max(axis=1))


def _reach(
    pair: AnalyticPair, alpha: float, slight: FloatArray
) -> tuple[FloatArray, BoolArray, _Sum]:
    """Return the ends of panels, which of them are missing, shape (2, m), and the tails' share.

    Panels reach out to negligible tails. A direction whose tails are negligible nowhere is given
    up: no panel of it is missing.
    """
    points, peaks = pair.anchors(), pair.peaks
    left = _tail(pair, points[points <= peaks[0]][::-1].tolist(), -1, alpha, slight)
    right = _tail(pair, points[points >= peaks[-1]].tolist(), 1, alpha, slight)
    edges = np.unique([*points.tolist(), *left.edges, *right.edges])
    inside = (left.starts[:, None] <= edges) & (edges <= right.starts[:, None])
    total = _Sum(left.low, left.high).plus(right.low[:, None], right.high[:, None])
    used = inside.any(axis=0)
    inside = inside[:, used]
    return edges[used], inside[:, :-1] & inside[:, 1:], total


class _Tail(NamedTuple):
    """Where a tail starts and log bounds on its integral, both ways; edges that were looked at.

    Where no edge will do, it starts at NaN, and its upper bound is infinite.
    """

    edges: list[float]
    starts: FloatArray
    low: FloatArray
    high: FloatArray

    def take(self, ways: BoolArray, edge: float, low: FloatArray, high: FloatArray) -> None:
        """Let the tail start at an edge, in some directions."""
        self.starts[ways] = edge
        self.low[ways], self.high[ways] = low[ways], high[ways]


def _tail(
    pair: AnalyticPair, outer: list[float], side: int, alpha: float, slight: FloatArray
) -> _Tail:
    """Find the nearest edge beyond which the tail is negligible, at anchors and then farther out.

    At the farthest edge a wider bound on the tail is accepted.
    """
    tail = _Tail([], np.full(2, nan), np.full(2, -inf), np.full(2, inf))
    for steps, edge in enumerate(_outwards(outer, side, pair.unit), 1 - len(outer)):
        tail.edges.append(edge)
        if steps > _NEAR and steps % _STRIDE:
            continue
        last, low, high = edge, np.full(2, -inf), np.array(pair.tail_power(edge, side, alpha))
        if not (high <= slight).all() and edge not in outer[:-1]:
            low, high = _tail_terms(pair, edge, side, alpha, high)
        tail.take(np.isnan(tail.starts) & _is_negligible(low, high, slight), edge, low, high)
        if not np.isnan(tail.starts).any():
            return tail
    tail.take(np.isnan(tail.starts) & _is_negligible(low, high, slight + _LOOSER), last, low, high)
    return tail


def _outwards(points: list[float], side: int, unit: float) -> Iterator[float]:
    """Yield points on one side of all peaks, and then others farther and farther out."""
    yield from points
    edge, step, growth = points[-1], 2.0 * unit, 1.5
    for steps in count(1):
        edge += side * step
        if not abs(edge) < _FARTHEST * unit:
            return
        yield edge
        step *= growth
        growth *= _HASTE if steps > _CALM else 1.0


def _is_negligible(low: FloatArray, high: FloatArray, slight: FloatArray) -> BoolArray:
    """Return whether these log bounds on a tail are close, relative to the whole integral."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        unknown = high + np.log(-np.expm1(np.minimum(low - high, 0.0)))
    return (high <= slight) | (unknown <= slight)


def _tail_terms(
    pair: AnalyticPair, edge: float, side: int, alpha: float, power: FloatArray
) -> Ends:
    """Return log bounds on the integral over a tail, at most ``power``, both ways."""
    seen = pair.tail(edge, side)
    panel = Panels(*pair.masses(*tail_panel(edge, side)), seen.log_low, seen.log_high)
    terms = [renyi_terms(way, alpha) for way in (panel, panel.swapped())]
    low, high = np.array(terms)[:, :, 0].T
    return low, np.minimum(high, power)


def _advance(
    pair: AnalyticPair,
    alpha: float,
    total: _Sum,
    size: FloatArray,
    low: FloatArray,
    high: FloatArray,
    missing: BoolArray,
) -> tuple[FloatArray, FloatArray, BoolArray, _Sum, FloatArray]:
    """Add the panels that are narrow enough, and return the halves of the others.

    ``missing``, shape (2, m), says which integrals a panel is still to be added to. ``size`` is
    about the log of the integral, as far as it is seen: it decides what is slight, and any value is
    sound. Densities of atoms far apart make it large before anything is summed.
    """
    middle = low + 0.5 * (high - low)
    radius = np.nextafter(np.maximum(high - middle, middle - low), inf)
    at = pair.densities(middle, middle)
    value = at.powers(alpha)
    largest = value + at.power_errors(alpha) + pair.growth(middle, radius, at, alpha)
    remainder = largest + np.log(radius) + _REMAINDER
    size = np.maximum(np.maximum(size, total.low), _seen(pair, at, alpha, 2.0 * radius))
    whole = size[:, None]
    bound = np.log(2.0 * radius) + largest
    wanted = missing & (bound > whole + _SLIGHT)
    bound = np.minimum(bound, _by_masses(pair, alpha, low, high, wanted))
    slight = bound <= whole + _SLIGHT
    least = np.maximum(whole + _SLIGHT, value + np.log(radius) + _ALONE)
    summed = missing & ~slight & (remainder <= least)
    total = total.plus(np.full((2, 1), -inf), np.where(missing & slight, bound, -inf))
    chosen = np.flatnonzero(summed.any(axis=0))
    if len(chosen):
        half = 0.5 * (high - low)[chosen]
        terms = _summed(pair, alpha, middle[chosen], half, remainder[:, chosen])
        total = total.plus(*(np.where(summed[:, chosen], end, -inf) for end in terms))
    missing = missing & ~slight & ~summed
    rest = missing.any(axis=0)
    parts = np.full(int(rest.sum()), 2)
    halves = cut(low[rest], high[rest], parts, pair.anchors(), pair.unit)
    whole_of = np.searchsorted(low[rest], halves[0], side="right") - 1
    return (*halves, missing[:, rest][:, whole_of], total, size)


def _by_masses(
    pair: AnalyticPair, alpha: float, low: FloatArray, high: FloatArray, wanted: BoolArray
) -> FloatArray:
    """Return log bounds P e^((alpha - 1) max f) on the integrals over wide panels, shape (2, m)."""
    bounds = np.full((2, len(low)), inf)
    wide = np.flatnonzero((high - low > 2.0 * pair.unit) & wanted.any(axis=0))
    if len(wide):
        seen = pair.look(low[wide], high[wide])
        for k, view in enumerate((seen, seen.swapped())):
            with np.errstate(divide="ignore"):
                bounds[k, wide] = np.log(view.p_most) + (alpha - 1.0) * view.log_high + 1e-9
    return bounds


def _summed(
    pair: AnalyticPair, alpha: float, middle: FloatArray, radius: FloatArray, remainder: FloatArray
) -> Ends:
    """Return log bounds on the integrals over panels, shape (2, m)."""
    points = (middle[:, None] + radius[:, None] * _NODES).ravel()
    at = pair.densities(points, np.repeat(middle, len(_NODES)))
    shape = (2, len(middle), len(_NODES))
    off = 4.0 * UNIT * np.abs(points) + 64.0 * UNIT * np.repeat(radius, len(_NODES))
    error = (at.power_errors(alpha) + np.abs(at.power_slopes(alpha)) * off).reshape(shape)
    error += 128.0 * UNIT
    logs = at.powers(alpha).reshape(shape)
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        low, high = (_log_rule(ends) + np.log(radius) for ends in (logs - error, logs + error))
        scale = np.maximum(np.abs(low), np.abs(high)) + np.abs(np.log(radius))
        short = np.minimum(remainder - low, -1e-300)
        low = np.where(remainder < low, low + np.log(-np.expm1(short)), -inf)
    rounding = 8.0 * UNIT * (1.0 + scale)
    return low - rounding, np.logaddexp(high, remainder) + rounding


def _log_rule(logs: FloatArray) -> FloatArray:
    """Return the logs of weighted sums over nodes, the last axis."""
    top = logs.max(axis=2)
    return np.asarray(top + np.log((np.exp(logs - top[:, :, None]) * _WEIGHTS).sum(axis=2)))


def _rounding(logs: FloatArray) -> FloatArray:
    """Return a bound on the rounding error of the log of a sum."""
    return 64.0 * UNIT + 8.0 * UNIT * np.abs(np.where(np.isfinite(logs), logs, 0.0))
