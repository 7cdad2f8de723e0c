r"""The extremes over sets of priors where some columns are unordered, and the others have noise.

For released categories a and a released number b, a row x has the likelihood

.. math:: \prod_k K_k(x_k, a_k) \prod_l e^{-|x_l - b_l| / \theta_l}, \qquad
          K_k(x, a) = K_k(a, a) e^{-\kappa_k(a) [x \ne a]}, \quad
          \kappa_k(a) = \log\Bigl(1 + \frac{1 - \rho_k}{\rho_k q_k(a)}\Bigr)

so that a category is as far from all others, as a distance is, by what keeping it tells. The
extremes are again those of filling, the nearest cells first; only which cells are nearest now
depends on the factor, so they are ordered anew for each. And vertices still suffice: for fixed
laws and categories the argument of the numbers holds, and categories are points.
"""

# Rounding, u = 2^-53. As in `extremes`, with kappa right to 16u (`_noise.mixing`): the kernel is
# that of distances D (1 + e), |e| <= (d + 16) u, and what they are moved by to be in order is found
# at each factor. The argument of log K(a, a) is right to 12u.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray
from sklearn_puffer._sets.axes import Axis, Jumps, Line
from sklearn_puffer._sets.extremes import (
    MOST_DISTANCE,
    bounds_of,
    cell_logs,
    log_sums,
    outwards,
    steps,
    total_distances,
)
from sklearn_puffer._sets.laminar import nearest_masses
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet
from sklearn_puffer.noise import Noise

Shares = Sequence[FloatArray | None]
_SHORTEST = 1e-280  # distances below it are as good as none


class MixedExtremes:
    """The largest and the smallest likelihood over some sets on one grid, at its vertices.

    Parameters
    ----------
    sets : sequence of SimultaneousSet
        All over the same grid.
    noise : Noise
        At factor 1, with the mixings of the unordered columns; Laplace where a number varies.
    """

    def __init__(self, sets: Sequence[SimultaneousSet], noise: Noise) -> None:
        self._axes, self._tree = sets[0].axes, sets[0].tree
        self._noise, self._bounds = noise, bounds_of(sets)
        self._shares = shares_of(noise, self._axes)
        self._cells = cell_logs(sets)

    def ends(self, factor: float) -> FloatArray:
        """Return bounds on the log extremes, above and below, shape (2, n_sets, n_vertices).

        Up to the kernel's height; factor 0, or one so small that distances are no floats, stands
        for the masses of the cells themselves.
        """
        n_cells, units = self._tree.n_cells, len(self._axes) + 28.0
        tables = self._tables(factor)
        if tables is None:
            return outwards(self._cells, n_cells, units, 0.0)
        order, most, least = nearest_masses(self._tree, self._whole(tables), *self._bounds)
        nearest = np.take_along_axis(total_distances(tables), order, axis=1)
        distances = np.maximum.accumulate(nearest, axis=1)
        logs = log_sums(steps(most, least), distances)
        return outwards(logs, n_cells, units, float((distances - nearest).max()))

    def heights(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """Return the log height of the kernel at each released cell, and what it is off by."""
        if self._tables(factor) is None:
            return np.zeros(self._tree.n_cells), np.zeros(self._tree.n_cells)
        scales = self._noise.scaled(factor).axis_scales(len(self._axes))
        return category_heights(self._axes, self._shares, scales)

    def _tables(self, factor: float) -> list[FloatArray] | None:
        """Return the distances along each axis, from released values to those of rows."""
        if factor == 0.0:
            return None
        scales = self._noise.scaled(factor).axis_scales(len(self._axes))
        tables = category_tables(self._axes, self._shares, scales)
        for k, (axis, shares) in enumerate(zip(self._axes, self._shares, strict=True)):
            if shares is None:
                with np.errstate(over="ignore"):
                    tables[k] = np.abs(axis[:, None] - axis) / scales[k]
        return tables if np.isfinite(sum(table.max() for table in tables)) else None

    def _whole(self, tables: Sequence[FloatArray]) -> list[Axis]:
        """Return the axes in integers, by which cells are ordered."""
        unit = MOST_DISTANCE / max(float(sum(table.max() for table in tables)), _SHORTEST)
        found: list[Axis] = []
        for table, shares in zip(tables, self._shares, strict=True):
            first = table[0] if shares is None else table.max(axis=1)
            whole = np.rint(first * unit).astype(np.int64)
            found.append(Line(whole) if shares is None else Jumps(whole))
        return found


def shares_of(noise: Noise, axes: Sequence[FloatArray]) -> Shares:
    """Return what each unordered column is drawn anew from, over its values in the sets."""
    return [
        None if mixing is None else mixing.probabilities[mixing.places(axis)]
        for mixing, axis in zip(noise.mixings, axes, strict=True)
    ]


def category_tables(
    axes: Sequence[FloatArray], shares: Shares, scales: FloatArray
) -> list[FloatArray]:
    """Return kappa from released values to those of rows, along each axis; 0 of numbers."""
    tables = [np.zeros((len(axis), len(axis))) for axis in axes]
    with np.errstate(over="ignore", divide="ignore"):
        for table, own, scale in zip(tables, shares, scales, strict=True):
            if own is not None:
                kappas = np.log1p(np.exp(-scale) / (-np.expm1(-scale) * own))
                table[:] = kappas[:, None]
                np.fill_diagonal(table, 0.0)
    return tables


def category_heights(
    axes: Sequence[FloatArray], shares: Shares, scales: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the logs of K(a, a) over all released cells, and what they are off by."""
    total = np.zeros(1)
    for axis, own, scale in zip(axes, shares, scales, strict=True):
        each = np.zeros(len(axis))
        if own is not None:
            each = np.log(np.exp(-scale) - np.expm1(-scale) * own)
        total = (total[:, None] + each).ravel()
    return total, UNIT * len(scales) * (16.0 + 8.0 * np.abs(total))
