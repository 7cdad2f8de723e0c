r"""The largest and the smallest density over sets of priors at the vertices of their grid.

Laplace noise, in whose distances the order of the cells around a vertex is the same at any factor.
"""

# Rounding, u = 2^-53. Masses are integers below 2^60, rounded once to floats: u. Distances are sums
# of d terms of a difference and a quotient each, divided by the factor: the kernel is that of other
# distances D (1 + e), |e| <= (d + 4) u; it is as if sorted by those, since sorting is monotone. (In
# rows cells are sorted by integers close to D. Where that is another order, a cell counts as far as
# the farthest before it; how much that moves any of them, over the factor, moves log h.) As
# f(t) = log sum m e^(-t D) is convex with f(0) = 0 (masses add up to one), log h moves by at most
# (d + 5) u |log h|. exp is right to 4u, and sums of n positive terms to n u. Where sums would
# underflow, the nearest atom with mass comes out: two more roundings of the exponent. Together
# below (n + 16) u + (d + 12) u |log h| for each of the two.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray, Integers
from sklearn_puffer._sets.axes import Line
from sklearn_puffer._sets.column_sets import log_weighted_sum
from sklearn_puffer._sets.laminar import ONE, interval_masses, nearest_masses
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet

MOST_DISTANCE = 2.0**58
"""Of two cells, as integers."""

_SMALLEST_SUM = 1e-250  # sums below it may have lost terms that are no floats


class Extremes:
    """The largest and the smallest density over some sets on one grid, at its vertices.

    Parameters
    ----------
    sets : sequence of SimultaneousSet
        All over the same grid.
    weights : ndarray of shape (d,)
        The scale of the noise on each axis at factor 1.
    """

    def __init__(self, sets: Sequence[SimultaneousSet], weights: FloatArray) -> None:
        self._units = len(weights) + 12.0
        order, most, least = _masses(sets, weights)
        nearest = np.take_along_axis(_distances(sets[0].axes, weights), order, axis=1)
        self._distances = np.maximum.accumulate(nearest, axis=1)
        self._moved = float((self._distances - nearest).max())
        self._masses = steps(most, least)
        self._cells = cell_logs(sets)

    def ends(self, factor: float) -> FloatArray:
        """Return bounds on the log extremes, above and below, shape (2, n_sets, n_vertices).

        Up to the kernel's height; factor 0 stands for the masses of the cells themselves.
        """
        if factor == 0.0:
            return outwards(self._cells, self._masses.shape[2], self._units, 0.0)
        with np.errstate(over="ignore"):
            exponents = self._distances / factor
        logs = log_sums(self._masses, exponents)
        return outwards(logs, self._masses.shape[2], self._units, self._moved / factor)


def log_sums(masses: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return log sum m e^-x for each law and vertex, shape (2, n_sets, n_vertices)."""
    sums = np.matmul(masses, np.exp(-exponents)[:, :, None])[:, :, 0]
    with np.errstate(divide="ignore"):
        logs = np.log(sums)
    for vertex, law in np.argwhere(sums < _SMALLEST_SUM):
        logs[vertex, law] = log_weighted_sum(masses[vertex, law], -exponents[vertex])
    return np.ascontiguousarray(logs.T).reshape(2, -1, len(logs))


def cell_logs(sets: Sequence[SimultaneousSet]) -> FloatArray:
    """Return the log extremes of the masses of the cells, shape (2, n_sets, n_cells)."""
    bounds = [around.cell_bounds for around in sets]
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log([[upper for _, upper in bounds], [low for low, _ in bounds]])
    return logs


def outwards(logs: FloatArray, n_cells: int, units: float, moved: float) -> FloatArray:
    """Move log extremes outwards by the rounding of sums over cells, and by that of distances."""
    size = np.where(np.isfinite(logs), np.abs(logs), 0.0)
    error = 1.01 * moved + 1.01 * UNIT * (n_cells + 16.0 + units * size)
    return np.stack([logs[0] + error[0], logs[1] - error[1]])


def steps(most: Integers, least: Integers) -> FloatArray:
    """Return what each cell adds, as floats: (vertices, most and then least of each set, cells)."""
    parts = [np.diff(masses, axis=2, prepend=0) / ONE for masses in (most, least)]
    return np.concatenate(parts).transpose(1, 0, 2).copy()


def bounds_of(sets: Sequence[SimultaneousSet]) -> tuple[Integers, Integers]:
    """Return the bounds of all nodes, lower and upper, shape (n_sets, 2 n - 1) each."""
    lower, upper = (
        np.stack([getattr(around, side) for around in sets]) for side in ("lower", "upper")
    )
    return lower, upper


def total_distances(tables: Sequence[FloatArray]) -> FloatArray:
    """Return the sums over axes for all pairs of cells of a grid, shape (n, n)."""
    total = np.zeros((1, 1))
    for table in tables:
        wider = total[:, None, :, None] + table[None, :, None, :]
        total = wider.reshape(len(total) * len(table), -1)
    return total


def _distances(axes: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the weighted l1 distances between all cells of a grid, shape (n, n)."""
    columns = zip(axes, weights, strict=True)
    return total_distances([np.abs(axis[:, None] - axis) / weight for axis, weight in columns])


def _masses(
    sets: Sequence[SimultaneousSet], weights: FloatArray
) -> tuple[Integers, Integers, Integers]:
    """Return the cells in their order around each vertex, and the most and least of the nearest."""
    tree, axes = sets[0].tree, sets[0].axes
    lower, upper = bounds_of(sets)
    if len(axes) > 1:
        return nearest_masses(tree, _whole(axes, weights), lower, upper)
    # In one column the nearest cells are an interval. (Of cells at the same distance on one side
    # the farther may come first: both then count as one step, at their common distance.)
    order = np.argsort(_distances(axes, weights), axis=1, kind="stable")
    first, last = np.minimum.accumulate(order, axis=1), np.maximum.accumulate(order, axis=1)
    most, least = interval_masses(tree, lower, upper)
    return order, most[:, first, last], least[:, first, last]


def _whole(axes: Sequence[FloatArray], weights: FloatArray) -> list[Line]:
    """Return the coordinates as integers, by which cells are ordered."""
    scaled = [(axis - axis[0]) / weight for axis, weight in zip(axes, weights, strict=True)]
    unit = MOST_DISTANCE / (float(sum(axis[-1] for axis in scaled)) or 1.0)
    return [Line(np.rint(axis * unit).astype(np.int64)) for axis in scaled]
