r"""The law of a mixture of Gaussians plus noise of density ~ (1 + (z/s)^2)^(-k/2).

The trapezoidal rule turns a Gaussian prior into nodes, and the law into a mixture of moved noise,
whose density differs by a *proven relative* error, which falls exponentially with the step.
"""

# F(x) = phi(x) K((y - m - sd x)/s) is analytic for |Im x| < s/sd; the trapezoidal sum
# of step e is off by at most 2 max int |F(x + ic)| dx/(e^(2 pi c/e) - 1). With v = c sd/s < 1,
# |1 + (u + iv)^2| >= (1 - v^2)(1 + u^2), so int |F(x + ic)| <= e^(c^2/2) (1 - v^2)^(-k/2) int F: an
# error relative to h, and, integrated, to any mass. Likewise for K' and K'', of which |K'(w)/K(u)|
# <= k (1 - v^2)^(-1-k/2)(1 + u^2)^(-1/2) and |K''(w)/K(u)| <= k (k+2) (1 - v^2)^(-2-k/2)/(1 + u^2).
# Nodes left out, at |x| > L, are compared with the one at 0: K(u - d) <= K(u) (1 + |d|)^k.

from __future__ import annotations

from math import exp, log, log1p, pi, sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._mixture_parts import ARGUMENT, SLACK, MixtureLaw, Ranges, Values
from sklearn_puffer.noise import ROUNDING, Cauchy, GeneralizedCauchy

FloatArray = NDArray[np.float64]


class CauchyLaw(MixtureLaw):
    """A mixture of Gaussians plus noise of density ~ (1 + (z/s)^2)^(-k/2), at trapezoidal nodes."""

    def __init__(
        self,
        weights: FloatArray,
        means: FloatArray,
        deviations: FloatArray,
        noise: Cauchy | GeneralizedCauchy,
    ) -> None:
        self._noise = noise
        self._k = noise.k if isinstance(noise, GeneralizedCauchy) else 2.0
        self._s = float(noise.axis_scales(1)[0])
        self._means, self._deviations = means, deviations
        rules = [_trapezoid(float(sd) / self._s, self._k) for sd in deviations]
        nodes = [m + sd * r.nodes for m, sd, r in zip(means, deviations, rules, strict=True)]
        parts = [w * r.weights for w, r in zip(weights, rules, strict=True)]
        blur = np.repeat(np.abs(means), [len(n) for n in nodes]) + np.abs(np.concatenate(nodes))
        super().__init__(np.concatenate(parts), np.concatenate(nodes), ARGUMENT * blur)
        self._off = max(rule.error for rule in rules)
        self._narrowing = min(rule.narrowing for rule in rules)

    def anchors(self) -> FloatArray:
        """Return points around each component, and on to where the tail is a power of y."""
        steps = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
        span = float(np.ptp(self.centres)) + self._s
        powers = 4.0 ** np.arange(0, 15)
        middle = 0.5 * float(self.centres.min() + self.centres.max())
        near = self._means[:, None] + self._deviations[:, None] * np.concatenate([-steps, steps])
        own = self._means[:, None] + self._s * np.array([-4.0, -1.0, 1.0, 4.0])
        far = middle + span * np.concatenate([-powers, powers])
        return np.unique(np.concatenate([near.ravel(), own.ravel(), far]))

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail: those of the nodes farthest apart."""
        highest = self._farther(other, edge, side)
        return -other._farther(self, edge, side), highest

    def _farther(self, other: Self, edge: float, side: int) -> float:
        """Return an upper bound on log h / h_other: the ratio falls once a scale away."""
        ahead = float((side * (edge - self.centres) - self._blur).min()) / self._s
        behind = float((side * (edge - other.centres) + other._blur).max()) / self._s
        off = 2.0 * log1p(2.0 * (self._off + other._off)) + SLACK
        if ahead < 1.0:
            apart = abs(behind - ahead) * (1.0 + SLACK)
            return self._k * float(np.arcsinh(0.5 * apart)) * (1.0 + SLACK) + off
        ratio = self._k * log(np.hypot(1.0, behind) / np.hypot(1.0, ahead))
        return max(ratio, 0.0) * (1.0 + SLACK) + off + SLACK * self._k

    def _values(self, z: FloatArray) -> Values:
        value = self._noise.log_density(z[..., None])
        error = self._error(value) + self._blur * (0.5 * self._k / self._s)
        score = np.abs(self._noise.score(z))
        bent = self._k / np.square(self._s) * self._blur
        return Values(value, error, score, 8.0 * ARGUMENT * score + bent)

    def _error(self, value: FloatArray) -> FloatArray:
        size = self._k + np.abs(value) + abs(log(self._s))
        return 2.0 * ROUNDING + 8.0 * ARGUMENT * size

    def _ranges(self, near: FloatArray, far: FloatArray) -> Ranges:
        last, first = (self._noise.log_density(z[..., None]) for z in (far, near))
        # |score| rises up to one scale and falls from there on
        ends = np.minimum(np.abs(self._noise.score(near)), np.abs(self._noise.score(far)))
        low, high = self._noise.curvature(near, far)
        slack = SLACK * self._k / (self._s**2 + np.square(near))
        return Ranges(
            last - self._error(last),
            first + self._error(first),
            ends * (1.0 - SLACK),
            self._noise.steepest(near, far) * (1.0 + SLACK),
            low - slack,
            high + slack,
        )

    def _part_masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, right = low - self.centres, high - self.centres
        if self._k == 2.0:
            mass = _cauchy_mass(left / self._s, right / self._s, (high - low) / self._s)
        else:
            mass = self._noise.mass(left, right)
        error = mass * (4.0 * ROUNDING + self._off)
        for end in (left, right):  # a panel that moves gains and loses the density at its ends
            finite = np.isfinite(end)
            place = np.where(finite, end, 0.0)
            moved = np.where(finite, ARGUMENT * np.abs(place) + self._blur, 0.0)
            error = error + 1.1 * moved * np.exp(self._noise.log_density(place[..., None]))
        return np.maximum(mass - error, 0.0), mass + error

    def _envelope(
        self, chances: FloatArray, near: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        within = 1.0 / np.hypot(1.0, near / self._s)
        first = np.minimum((chances * within).sum(axis=0), 1.0)
        second = np.minimum((chances * np.square(within)).sum(axis=0), 1.0)
        steep = self._k / self._narrowing / self._s
        bend = self._k * (self._k + 2.0) / np.square(self._narrowing * self._s)
        slope_off: FloatArray = 4.0 * self._off * steep * first
        bend_off: FloatArray = 16.0 * self._off * bend * (second + np.square(first))
        return 2.0 * self._off, slope_off, bend_off


class _Rule(NamedTuple):
    """A trapezoidal rule for a standard Gaussian, and its relative error."""

    nodes: FloatArray
    weights: FloatArray
    error: float
    narrowing: float


def _trapezoid(ratio: float, k: float) -> _Rule:
    """Return the rule for noise that is 1/ratio standard deviations wide, of exponent k."""
    power = k + 2.0  # covers both derivatives
    narrowest = 1.0 - 0.9**2
    strip = min(0.9 / ratio, 8.0)
    width = strip * ratio
    narrowing = max(1.0 - width**2, narrowest)
    growth = 0.5 * strip**2 - 0.5 * power * log(narrowing)
    step = min(2.0 * pi * strip / (growth + 32.0), 0.5)
    error = 2.0 * exp(growth) / np.expm1(2.0 * pi * strip / step)

    def left_out(reach: float) -> float:
        first, second = (
            -0.5 * x * x + power * log1p(ratio * x) for x in (reach + step, reach + 2.0 * step)
        )
        return 2.0 * exp(first) / -np.expm1(second - first) if second < first else np.inf

    reach = 6.0
    while left_out(reach) > 1e-14:
        reach += 0.25
    count = int(np.ceil(reach / step))
    nodes: FloatArray = step * np.arange(-count, count + 1, dtype=float)
    weights: FloatArray = step / sqrt(2.0 * pi) * np.exp(-0.5 * np.square(nodes))
    error += left_out(count * step) + 1e-15
    return _Rule(nodes, weights, float(error), narrowing)


def _cauchy_mass(left: FloatArray, right: FloatArray, width: FloatArray) -> FloatArray:
    """Return (atan right - atan left)/pi as one angle, whose relative error is a few u."""
    finite = np.isfinite(left) & np.isfinite(right)
    a, b = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
    inside = np.arctan2(np.where(finite, width, 0.0), 1.0 + a * b)
    below, above = np.isinf(left), np.isinf(right)
    tail = np.arctan2(1.0, np.where(below, -right, left))
    open_end = np.where(below & above, pi, tail)
    mass: FloatArray = np.where(finite, inside, open_end) / pi
    return mass
