r"""Confidence sets of rows of categories and one number, seen at the released categories.

For each combination a of released categories what is released of the number has the density

.. math:: h_p(a, y) = \prod_k K_k(a_k, a_k) \sum_x p(x) e^{-\kappa_a(x)} K(y - x_B)

with kappa as in `mixed_extremes`: a line like that of one column, of masses that are no law but
part of one. At each point y the cells are filled in the order of their likelihoods.
"""

# Rounding. As in `column_sets`, with kappa among the exponents: distances wrong by 32 u of
# themselves cover it. The height of the categories is right to u d (16 + 8 |log|).

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray, Integers, counted
from sklearn_puffer._noise import without_mixings
from sklearn_puffer._sets.column_sets import TINY_SUM, log_weighted_sum
from sklearn_puffer._sets.extremes import (
    bounds_of,
    category_heights,
    category_tables,
    shares_of,
    steps,
)
from sklearn_puffer._sets.laminar import Tree, ordered_masses
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet
from sklearn_puffer.noise import Noise

_NUMBERS_AT_ONCE = 2**20


class SetLayers:
    """Confidence sets over categories and one number that varies.

    Parameters
    ----------
    sets : sequence of SimultaneousSet
        All over the same grid.
    noise : Noise
        At factor 1, with the mixings of the unordered columns.
    """

    def __init__(self, sets: Sequence[SimultaneousSet], noise: Noise) -> None:
        self._axes, self._tree, self._noise = sets[0].axes, sets[0].tree, noise
        self._bounds = bounds_of(sets)
        self._shares = shares_of(noise, self._axes)
        sizes = [len(axis) for axis in self._axes]
        varying = [k for k, own in enumerate(self._shares) if own is None and sizes[k] > 1]
        [self._number] = varying
        self._places = np.stack(np.unravel_index(np.arange(self._tree.n_cells), sizes))

    def number_noise(self, factor: float) -> Noise:
        """Return the noise of the number at a factor."""
        scaled = self._noise.scaled(factor)
        scale = float(scaled.axis_scales(len(self._axes))[self._number])
        return without_mixings(scaled).with_scale(scale)

    def layers(self, factor: float) -> Iterator[LayerSets] | None:
        """Return the lines of all released categories; None where no floats hold the kernel."""
        scales = self._noise.scaled(factor).axis_scales(len(self._axes))
        tables = category_tables(self._axes, self._shares, scales)
        heights, error = category_heights(self._axes, self._shares, scales)
        if not np.isfinite(sum(table.max() for table in tables)):
            return None
        chosen = np.flatnonzero(self._places[self._number] == 0).tolist()
        return (self._layer(tables, cell, heights[cell], error[cell]) for cell in chosen)

    def _layer(
        self, tables: Sequence[FloatArray], cell: int, height: float, error: float
    ) -> LayerSets:
        released = self._places[:, cell]
        kappas = sum(
            table[own, places]
            for table, own, places in zip(tables, released, self._places, strict=True)
        )
        places = self._places[self._number]
        atoms = self._axes[self._number]
        return LayerSets(
            self._tree, self._bounds, atoms, places, np.asarray(kappas), (height, error)
        )


class LayerSets:
    """The parts of the laws of some sets that go with released categories.

    Parameters
    ----------
    tree : Tree
    bounds : tuple of ndarray
        Lower and upper ones of all nodes, shape (n_sets, 2 n - 1) each.
    atoms : ndarray of shape (n_atoms,)
        Those of the number.
    places : ndarray of shape (n_cells,)
        The atom of each cell.
    kappas : ndarray of shape (n_cells,)
        How far each cell's categories are from the released ones.
    height : tuple of float
        The log of what the categories add to the height, and what it is off by.
    """

    def __init__(
        self,
        tree: Tree,
        bounds: tuple[Integers, Integers],
        atoms: FloatArray,
        places: Integers,
        kappas: FloatArray,
        height: tuple[float, float],
    ) -> None:
        self.atoms = atoms
        self._tree, self._bounds, self._places = tree, bounds, places
        self._kappas, (self._height, self._error) = kappas, height
        whole = self._outwards(self._sums(kappas[None])[:, :, 0], 0.0)
        self.offsets = whole[0][:, None] - whole[1] + 8.0 * UNIT * (1.0 + np.abs(whole).max())
        self.log_mass = min(float(whole[0].max()), 0.0)

    @property
    def n_sets(self) -> int:
        """Number of sets."""
        return len(self._bounds[0])

    @property
    def span(self) -> float:
        """The distance between the outermost atoms."""
        return float(self.atoms[-1] - self.atoms[0])

    def logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        """Return bounds on the log extremes, shape (2, n_sets, n_points): above and below."""
        step = max(1, _NUMBERS_AT_ONCE // (self.n_sets * self._tree.n_cells))
        starts = counted(range(0, len(points), step), "points on a line")
        parts = [self._logs(points[first : first + step], noise) for first in starts]
        return np.concatenate(parts, axis=2)

    def end_masses(self) -> FloatArray:
        """Return lower bounds on the log masses of the outermost atoms, shape (n_sets, 2)."""
        ends = np.array([[0], [len(self.atoms) - 1]])
        costs = np.where(self._places == ends, self._kappas, np.inf)
        least: FloatArray = self._outwards(self._sums(costs), 0.0)[1]
        return least

    def _logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        distances = np.abs(points[:, None] - self.atoms)
        kernel = noise.log_density(distances[..., None])
        logs = self._sums(self._kappas - kernel[:, self._places])
        return self._outwards(logs, float(noise.log_density(np.zeros(1))))

    def _sums(self, costs: FloatArray) -> FloatArray:
        """Return log extremes of sum p e^-cost, shape (2, n_sets, n_points)."""
        order, most, least = ordered_masses(self._tree, costs, *self._bounds)
        exponents = np.take_along_axis(costs, order, axis=1)
        top, masses = exponents[:, :1], steps(most, least)
        sums = np.matmul(masses, np.exp(top - exponents)[:, :, None])[:, :, 0]
        with np.errstate(divide="ignore"):
            logs = np.log(sums) - top
        for point, law in np.argwhere(sums < TINY_SUM):
            logs[point, law] = log_weighted_sum(masses[point, law], -exponents[point])
        return np.ascontiguousarray(logs.T).reshape(2, -1, len(logs))

    def _outwards(self, logs: FloatArray, height: float) -> FloatArray:
        size = np.where(np.isfinite(logs), np.abs(logs - height), 0.0)
        error = UNIT * (self._tree.n_cells + 64.0 + 32.0 * size + 8.0 * abs(height)) + self._error
        error = error + 4.0 * UNIT * abs(self._height)
        raised = logs + self._height
        return np.stack([raised[0] + error[0], raised[1] - error[1]])
