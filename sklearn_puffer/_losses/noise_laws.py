r"""The law of discrete values plus noise of any family, of which no closed form is known.

Each atom with its noise is one part of a mixture (see `_losses.mixture_parts`), about which the
family says how dense it is, how steep, how bent, and what mass it has.
"""

# Rounding: log densities and scores are right to `LOG_ROUNDING`, curvatures to `ROUNDING`, at
# distances that are off by 4 u (`ARGUMENT`). Ends of panels around an atom are moved by an ulp.
#
# Beyond all atoms, where the score grows or falls all the way out, log K(y - x) - log K(y - x')
# moves by at most `noise.drift` from its value at the edge, and the means of such ratios, and f, by
# no more than that. And f is nowhere beyond the loss of a shift by all of the atoms' range, nor
# beyond the ratios of the masses of common atoms.

from __future__ import annotations

from math import inf
from typing import Self

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.mixture_parts import ARGUMENT, MixtureLaw, Ranges, Values
from sklearn_puffer.noise import LOG_ROUNDING, ROUNDING, Noise

_CLOSEST = 0.25  # two anchors are never closer than this share of the scale, but around kinks
_OUTER = np.array([2.0, 6.0, 18.0])  # the first cuts beyond the atoms, in scales


class NoiseLaw(MixtureLaw):
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
        some = np.isfinite(log_masses)
        with np.errstate(under="ignore", divide="ignore"):
            super().__init__(np.exp(log_masses[some]), atoms[some], None)
        self._log_weights = log_masses[some][:, None]  # of masses too small for floats as well
        self._atoms, self._noise = atoms[some], noise

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

    def _values(self, z: FloatArray) -> Values:
        value = self._noise.log_density(z[..., None])
        score = self._score(z)
        bent = np.abs(self._noise.curvature(z, z)).max(axis=0)
        error = LOG_ROUNDING * (1.0 + np.abs(value)) + 2.0 * ARGUMENT * z * score
        return Values(value, error, score, LOG_ROUNDING * score + 2.0 * ARGUMENT * z * bent)

    def _score(self, z: FloatArray) -> FloatArray:
        return np.abs(self._noise.score(np.nextafter(z, inf)))  # on its own side of a kink at 0

    def _ranges(self, near: FloatArray, far: FloatArray) -> Ranges:
        first, last = self._values(near), self._values(far)
        low, high = self._noise.curvature(near, far)
        # |score| rises, and then falls: it is least at an end
        return Ranges(
            last.log - last.log_error,
            first.log + first.log_error,
            np.minimum(first.score - first.score_error, last.score - last.score_error),
            self._noise.steepest(near, far) * (1.0 + ROUNDING),
            low - ROUNDING * np.abs(low),
            high + ROUNDING * np.abs(high),
        )

    def _part_masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, right = low - self.centres, high - self.centres
        start, stop = np.nextafter(left, inf), np.nextafter(right, -inf)
        least = self._noise.mass(start, np.maximum(start, stop))
        most = self._noise.mass(np.nextafter(left, -inf), np.nextafter(right, inf))
        return least * (1.0 - ROUNDING), most * (1.0 + ROUNDING)

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail."""
        ends = [law._atoms[place] for law in (self, other) for place in (0, -1)]
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
        here, there = (law.expansion(point, np.zeros(1)) for law in (self, other))
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
