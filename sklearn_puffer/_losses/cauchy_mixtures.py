r"""The law of a mixture of Gaussians plus noise of density ~ (1 + (z/s)^2)^(-k/2), at any scale.

Each component plus the noise is one even part, whose density is a tabulated mixture of centred
Gaussians (see `_losses.heavy_profiles`) and falls in closed form far out.
"""

# With t = |y - m|/sd, A = E[theta | t] and B = E[theta^2 | t], log h has the slope -2 t A/sd and
# the curvature (4 t^2 (B - A^2) - 2A)/sd^2. A and B fall with t, which bounds all of it on a panel.
# In a tail beyond all ends, a part is the noise around its mean, up to the profile's error, and
# K(y - m)/K(y - m') lies between 1 and its value at the edge.

from __future__ import annotations

from math import log
from typing import Self

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.heavy_profiles import NARROWEST, STEEPEST, WIDEST, HeavyProfile, profile
from sklearn_puffer._losses.mixture_parts import ARGUMENT, SLACK, MixtureLaw, Ranges, Values

_SUBNORMAL = 2.0**-1060  # relative errors say nothing of what is below all normal floats


def tabulated(deviations: FloatArray, scale: float, k: float) -> bool:
    """Return whether components of these deviations have a law with noise of this scale."""
    ratios = scale / deviations
    within = (ratios >= NARROWEST) & (ratios <= WIDEST)
    return bool(within.all()) and k <= STEEPEST


class CauchyLaw(MixtureLaw):
    """A mixture of Gaussians plus noise of density ~ (1 + (z/s)^2)^(-k/2)."""

    def __init__(
        self,
        weights: FloatArray,
        means: FloatArray,
        deviations: FloatArray,
        scale: float,
        k: float,
    ) -> None:
        super().__init__(weights, means, None)
        self._k, self._s = k, scale
        self.deviations = deviations[:, None]
        self._profiles = [profile(self._s / float(sd), self._k) for sd in deviations]
        ends = [p.end for p in self._profiles]
        self._ends = np.array(ends)[:, None] * self.deviations

    def anchors(self) -> FloatArray:
        """Return points around each component, and on to where the noise alone is left."""
        steps = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
        crossings = np.array([[p.crossing] for p in self._profiles]) ** 0.5
        moves = np.concatenate(np.broadcast_arrays(steps, crossings), axis=1) * self.deviations
        own = np.array([1.0, 4.0]) * np.maximum(self._s, self.deviations)
        span = float(np.ptp(self.centres)) + float(self.deviations.max()) + self._s
        farthest = max(float(self._ends.max()) + float(np.ptp(self.centres)), 2.0 * span)
        powers = np.append(span * 4.0 ** np.arange(np.log(farthest / span) / log(4.0)), farthest)
        middle = 0.5 * float(self.centres.min() + self.centres.max())
        around = [
            (self.centres + side * part).ravel() for part in (moves, own) for side in (-1.0, 1.0)
        ]
        return np.unique(np.concatenate([*around, middle - 1.01 * powers, middle + 1.01 * powers]))

    def _values(self, z: FloatArray) -> Values:
        value, first, second, error = self._moments(z)
        t = z / self.deviations
        slope = 2.0 * t * first / self.deviations
        # (y - m)/sd is off by 4 u relatively, and the slope with it
        moved = ARGUMENT * 2.0 * t * t * first
        bent = slope * (2.0 * error + ARGUMENT * (4.0 + 2.0 * t * t * second / first))
        return Values(value, error + moved, slope, bent)

    def _moments(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return log h of each part, the means of theta, and relative errors, in its own unit."""
        t = z / self.deviations
        rows = [law.moments(row) for law, row in zip(self._profiles, t, strict=True)]
        value, first, second, error = (np.stack(part) for part in zip(*rows, strict=True))
        logs = np.log(self.deviations)
        return value - logs, first, second, error + 4.0 * ARGUMENT * (1.0 + np.abs(logs))

    def _ranges(self, near: FloatArray, far: FloatArray) -> Ranges:
        count = near.shape[1]
        both = self._moments(np.concatenate(np.broadcast_arrays(near, far), axis=1))
        value, first, second, error = (np.split(part, [count], axis=1) for part in both)
        off = [2.0 * e + SLACK for e in error]
        least, most = first[1] * (1.0 - off[1]), first[0] * (1.0 + off[0])
        square_low, square_high = second[1] * (1.0 - off[1]), second[0] * (1.0 + off[0])
        t, far_t = near / self.deviations, far / self.deviations
        moved = ARGUMENT * np.square(far_t) * most
        narrow = square_low - np.square(most)
        wide = square_high - np.square(least)
        bend_low = 4.0 * np.square(t) * np.maximum(narrow, 0.0) - 2.0 * most
        bend_high = 4.0 * np.square(far_t) * wide - 2.0 * least
        units = np.square(self.deviations)
        return Ranges(
            value[1] - error[1] - moved,
            value[0] + error[0] + moved,
            2.0 * t * least / self.deviations * (1.0 - SLACK),
            2.0 * far_t * most / self.deviations * (1.0 + SLACK),
            (bend_low - SLACK * (2.0 * most + 4.0 * np.square(t) * square_high)) / units,
            (bend_high + SLACK * (2.0 * most + 4.0 * np.square(far_t) * square_high)) / units,
        )

    def _part_masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, right = low - self.centres, high - self.centres
        turned = -left > right
        left, right = np.where(turned, -right, left), np.where(turned, -left, right)
        width = np.broadcast_to(high - low, left.shape)
        parts = [
            _masses(*row)
            for row in zip(
                self._profiles,
                left / self.deviations,
                right / self.deviations,
                width / self.deviations,
                strict=True,
            )
        ]
        mass, error = (np.stack(part) for part in zip(*parts, strict=True))
        error = error + 8.0 * ARGUMENT * mass + _SUBNORMAL
        return np.maximum(mass - error, 0.0), mass + error

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail: infinite before the noise alone is left."""
        highest = _farther(self, other, edge, side)
        return -_farther(other, self, edge, side), highest


def _masses(
    law: HeavyProfile, left: FloatArray, right: FloatArray, width: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return masses between signed distances, right the farther one, and their errors."""
    across = left < 0.0
    near = np.where(across, 0.0, left)
    mass, error = law.masses(near, right, np.where(across, right, width))
    inner = np.where(across, -left, 0.0)
    more, more_error = law.masses(np.zeros_like(inner), inner, inner)
    return mass + more, error + more_error


def _farther(law: CauchyLaw, other: CauchyLaw, edge: float, side: int) -> float:
    """Return an upper bound on log h / h_other over a tail."""
    ahead = side * (edge - law.centres)
    behind = side * (edge - other.centres)
    if np.any(ahead < law._ends) or np.any(behind < other._ends):
        return np.inf
    error = max(float(part._moments(z)[3].max()) for part, z in ((law, ahead), (other, behind)))
    nearest, farthest = float(ahead.min()), float(behind.max())
    lead = max(farthest - nearest, 0.0) + 4.0 * ARGUMENT * (abs(edge) + farthest)
    # K(y - m) <= K(y - m') (1 + lead/(y - m))^k, which falls with y
    return law._k * float(np.log1p(lead / nearest)) * (1.0 + SLACK) + 2.0 * error + SLACK
