"""The extremes of a density over confidence sets at points of one column, for any noise."""

# Rounding, u = 2^-53. `log_density` is trusted to 16 u of log K(z) / K(0) and to 4u of log K(0);
# that is as if the distances in `worst_case` were wrong by as much, so log h is wrong by at most
# u (n + 64 + 32 |log h / K(0)| + 8 |log K(0)|), which is what `logs` moves outwards by.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray, counted
from sklearn_puffer._sets.laminar import ONE, interval_masses
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet
from sklearn_puffer.noise import Noise

TINY_SUM = 1e-250
"""Sums below it may have lost terms that are no floats."""

_NUMBERS_AT_ONCE = 2**22


class Points(Protocol):
    """What is asked of sets of laws of one number, or of the parts of laws that go with layers."""

    atoms: FloatArray

    @property
    def n_sets(self) -> int:
        """Number of sets."""

    @property
    def span(self) -> float:
        """The distance between the outermost atoms."""

    @property
    def offsets(self) -> FloatArray:
        """The largest log ratios of whole masses, (n_sets, n_sets)."""

    @property
    def log_mass(self) -> float:
        """The log of the largest whole mass of any set, at most 0."""

    def logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        """Return bounds on the log extremes, shape (2, n_sets, n_points): above and below."""

    def end_masses(self) -> FloatArray:
        """Return lower bounds on the log masses of the outermost atoms, shape (n_sets, 2)."""


class ColumnSets:
    """Confidence sets over the atoms of one column.

    Parameters
    ----------
    sets : sequence of SimultaneousSet
        All over the same atoms.
    """

    def __init__(self, sets: Sequence[SimultaneousSet]) -> None:
        self.atoms = sets[0].axes[0]
        lower, upper = (
            np.stack([getattr(around, side) for around in sets]) for side in ("lower", "upper")
        )
        self.masses = np.concatenate(interval_masses(sets[0].tree, lower, upper))

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self.masses) // 2

    @property
    def offsets(self) -> FloatArray:
        """The largest log ratios of whole masses, (n_sets, n_sets): 0, as these are laws."""
        return np.zeros((self.n_sets, self.n_sets))

    @property
    def log_mass(self) -> float:
        """The log of the largest whole mass: 0."""
        return 0.0

    @property
    def span(self) -> float:
        """The distance between the outermost atoms."""
        return float(self.atoms[-1] - self.atoms[0])

    def logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        """Return bounds on the log extremes, shape (2, n_sets, n_points): above and below."""
        step = max(1, _NUMBERS_AT_ONCE // (len(self.masses) * len(self.atoms)))
        starts = counted(range(0, len(points), step), "points on a line")
        parts = [self._logs(points[first : first + step], noise) for first in starts]
        return np.concatenate(parts, axis=2)

    def cell_logs(self) -> FloatArray:
        """Return the log extremes of each atom's mass, shape (2, n_sets, n_atoms)."""
        cells = np.arange(len(self.atoms))
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.masses[:, cells, cells] / ONE)
        return logs.reshape(2, -1, len(cells))

    def end_masses(self) -> FloatArray:
        """Return the log of the least mass of the first and the last atom, shape (n_sets, 2)."""
        ends: FloatArray = self.cell_logs()[1][:, [0, -1]]
        return ends

    def _logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        distances = np.abs(points[:, None] - self.atoms)
        order = np.argsort(distances, axis=1, kind="stable")
        first, last = np.minimum.accumulate(order, axis=1), np.maximum.accumulate(order, axis=1)
        masses = np.diff(self.masses[:, first, last], axis=2, prepend=0) / ONE
        # one atom an entry, not a row of atoms
        kernel = noise.log_density(np.take_along_axis(distances, order, axis=1)[..., None])
        top = kernel[:, :1]
        sums = np.einsum("bpk,pk->bp", masses, np.exp(kernel - top))
        with np.errstate(divide="ignore"):
            logs = np.log(sums) + top[:, 0]
        for law, point in np.argwhere(sums < TINY_SUM):
            logs[law, point] = log_weighted_sum(masses[law, point], kernel[point])
        return self._outwards(logs, noise).reshape(2, -1, len(points))

    def _outwards(self, logs: FloatArray, noise: Noise) -> FloatArray:
        height = float(noise.log_density(np.zeros(1)))
        size = np.where(np.isfinite(logs), np.abs(logs - height), 0.0)
        error = UNIT * (len(self.atoms) + 64.0 + 32.0 * size + 8.0 * abs(height))
        half = len(logs) // 2
        return np.concatenate([logs[:half] + error[:half], logs[half:] - error[half:]])


def log_weighted_sum(masses: FloatArray, logs: FloatArray) -> float:
    """Return log sum m e^x, where the sum may be no float: the largest term comes out of it."""
    some = masses > 0.0
    top = float(logs[some].max(initial=-math.inf))
    if not math.isfinite(top):
        return -math.inf
    return float(np.log((masses[some] * np.exp(logs[some] - top)).sum())) + top
