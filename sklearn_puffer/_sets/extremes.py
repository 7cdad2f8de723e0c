r"""The largest and the smallest density over sets of priors at the vertices of their grid.

Laplace noise, in whose distances the order of the cells around a vertex is the same at any factor.

The extremes over sets of priors where some columns are unordered, and the others have noise.

For released categories a and a released number b, a row x has the likelihood

.. math:: \prod_k K_k(x_k, a_k) \prod_l e^{-|x_l - b_l| / \theta_l}, \qquad
          K_k(x, a) = K_k(a, a) e^{-\kappa_k(a) [x \ne a]}, \quad
          \kappa_k(a) = \log\Bigl(1 + \frac{1 - \rho_k}{\rho_k q_k(a)}\Bigr)

so that a category is as far from all others, as a distance is, by what keeping it tells. The
extremes are again those of filling, the nearest cells first; only which cells are nearest now
depends on the factor, so they are ordered anew for each. And vertices still suffice: for fixed
laws and categories the argument of the numbers holds, and categories are points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray, Integers
from sklearn_puffer._sets.axes import Axis, Jumps, Line
from sklearn_puffer._sets.column_sets import log_weighted_sum
from sklearn_puffer._sets.laminar import ONE, interval_masses, nearest_masses
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet
from sklearn_puffer.noise import Noise

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
