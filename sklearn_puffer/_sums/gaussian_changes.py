r"""What the presence or the value of a Gaussian user changes in a sum, and what it loses.

A pair of secrets about a user k (or about all users of a class) changes the sum by a Gaussian: with
m and s its mean and deviation (s = 0 where values are the secrets), and S the deviation of all
others, the laws of the sum are, but for a translation, N(m, s^2 + S^2) and N(0, S^2). With Laplace
noise of scale theta and G ~ N(m, s^2):

- Pure loss of the first against the second: |m|/theta + s^2/(2 theta^2), whatever S is. It is the
  limit far out, log E[e^(|m| / m G / theta)], and alone (S = 0) the ratio E[e^((|y| - |y - G|) /
  theta)] grows to either side of y = 0; other users only mix ratios.
- Backwards, alone: -log E[e^(-|G|/theta)], its value at y = 0; at most E|G|/theta, by Jensen. Other
  users only lower it.
- With a delta, the loss alone bounds the loss, for adding independent others is a post-processing.
  A translation by m has a delta of 1 - e^((epsilon - |m|/theta)/2).
"""

# A point mass is given the width w of 1e-20 of the user's own values where a law is needed: for
# w <= theta that changes a density by at most a factor e^(2 w/theta), as E[e^(u|Z|)] <= e^(2u) for
# u <= 1 and E[e^(-u|Z|)] >= e^-u.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from sklearn_puffer._base import FloatArray, smallest_within
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

_THIN = 1e-20
_HAIR, _TOLERANCE = 1e-12, 1e-12


@dataclass(frozen=True)
class Change:
    """What a secret changes in a sum: m >= 0, s and S of the header above."""

    shift: float
    spread: float
    others: float

    @property
    def laws(self) -> PriorPair:
        """The laws of the sum under the two secrets; a point mass is thin."""
        if max(self.spread, self.others) == 0.0:
            return PriorPair(Discrete([self.shift], [1.0]), Discrete([0.0], [1.0]))
        sds = math.hypot(self.spread, self.others), self.others or self.thin
        return PriorPair(
            GaussianMixture([1.0], [self.shift], [sds[0]]), GaussianMixture([1.0], [0.0], [sds[1]])
        )

    @property
    def thin(self) -> float:
        """The width of a point mass."""
        return _THIN * (self.shift + self.spread)

    def given(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses for the given users, both directions."""
        lowest, worst = self.alone(theta, notion)
        if self.others == 0.0:
            return lowest, worst
        if notion.delta > 0.0 or theta == 0.0:
            low, high = _table(self.laws, theta, notion)
            return np.minimum(low, worst), np.minimum(high, worst)
        if self.spread == 0.0:
            return lowest, worst
        low, high = _table(self.laws, theta, notion)
        far = self._far_out(theta)  # forwards the others change nothing
        low[0], high[0] = far * (1.0 - 2.0**-48), far * (1.0 + 2.0**-48)
        high = np.minimum(high, worst)
        return np.minimum(low, high), high

    def alone(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses without other users, both directions."""
        if self.shift == self.spread == 0.0:
            return np.zeros(2), np.zeros(2)
        if theta == 0.0:
            nothing = np.full(2, math.inf if notion.delta == 0.0 else 1.0)
            return nothing.copy(), nothing
        if self.spread == 0.0:
            return self._translation(theta, notion)
        return self._pure(theta) if notion.delta == 0.0 else self._with_delta(theta, notion)

    def bound(self, theta: float, notion: Pufferfish) -> float:
        """Return an upper end of the larger loss, the closest one unless another settles it."""
        lowest, worst = self.alone(theta, notion)
        if worst.max() <= notion.budget or self.others == 0.0:
            return float(worst.max())
        if notion.delta == 0.0 and lowest[0] > notion.budget:  # which others do not change
            return float(worst.max())
        return float(self.given(theta, notion)[1].max())

    def scale(self, notion: Pufferfish) -> float:
        """Return the smallest scale that keeps the promise, where some noise is needed."""
        m, s, epsilon = self.shift, self.spread, notion.epsilon
        root = (m + math.hypot(m, math.sqrt(2.0 * epsilon) * s)) / (2.0 * epsilon)
        if notion.delta == 0.0 and self.bound(root * (1.0 + 2.0**-46), notion) <= epsilon:
            return root * (1.0 + 2.0**-46)
        return smallest_within(
            lambda theta: self.bound(theta, notion), notion.budget, root, _TOLERANCE
        )

    def _far_out(self, theta: float) -> float:
        m, s = self.shift / theta, self.spread / theta
        return m + 0.5 * s * s

    def _translation(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        moved = np.full(2, self.shift / theta)
        low, high = moved * (1.0 - 2.0**-51), moved * (1.0 + 2.0**-51)
        if notion.delta == 0.0:
            return low, high
        low, high = (-np.expm1(np.minimum(0.5 * (notion.epsilon - x), 0.0)) for x in (low, high))
        room = 2.0**-50 * (1.0 + notion.epsilon)  # of the difference in the exponent
        return np.maximum(low - room, 0.0), np.where(high > 0.0, np.minimum(high + room, 1.0), 0.0)

    def _pure(self, theta: float) -> tuple[FloatArray, FloatArray]:
        m, s = self.shift / theta, self.spread / theta
        far = self._far_out(theta)
        log_mean = 0.5 * s * s + np.logaddexp(-m + log_ndtr(m / s - s), m + log_ndtr(-m / s - s))
        room = _HAIR * (1.0 + m + s * s)
        z = m / s
        mean = s * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) + m * (1.0 - 2.0 * ndtr(-z))
        centre = min(-float(log_mean) + room, mean * (1.0 + _HAIR))
        low = np.array([far * (1.0 - 2.0**-48), max(-float(log_mean) - room, 0.0)])
        return low, np.array([far * (1.0 + 2.0**-48), centre])

    def _with_delta(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        ratio = 2.0 * self.thin / theta * (1.0 + _HAIR)
        if not ratio <= 1e-3 * min(notion.epsilon, 1.0):
            return np.zeros(2), np.ones(2)
        laws = Change(self.shift, self.spread, 0.0).laws
        wider = Pufferfish(math.nextafter(notion.epsilon + ratio, math.inf), notion.delta)
        low = _table(laws, theta, wider)[0] * math.exp(-ratio) * (1.0 - _HAIR)
        high = notion.of_samples(_table(laws, theta, notion.for_law(ratio))[1], ratio)
        return low, np.minimum(np.nextafter(high, np.inf), 1.0)


def largest_scale(changes: Sequence[Change], notion: Pufferfish) -> Calibration:
    """Return the smallest scale that is enough for all changes, the likeliest to ask for it first.

    The others need one look each.
    """
    best = Calibration(0.0, 0, 0.0)
    sizes = [
        change.shift + change.spread**2 / (change.spread + change.others or 1.0)
        for change in changes
    ]
    for k in np.argsort(-np.array(sizes), kind="stable").tolist():
        scale, loss = best.scale, changes[k].bound(best.scale, notion)
        if loss > notion.budget:
            scale = changes[k].scale(notion)
            loss = changes[k].bound(scale, notion)
        if scale > best.scale or loss >= best.bound:
            best = Calibration(scale, k, loss)
    return best


def _table(laws: PriorPair, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses of a pair of laws, both directions."""
    table = LossTable([laws], notion)
    if theta == 0.0:
        upper: FloatArray = table.without_noise()[0]
        return upper.copy(), upper
    lower, upper = table.intervals(Laplace(theta))
    return lower[0].copy(), upper[0].copy()
