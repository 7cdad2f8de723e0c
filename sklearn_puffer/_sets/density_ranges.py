r"""The envelopes of a confidence set: its largest and smallest density at points or vertices.

In one column they are taken at points, for any noise; in several, and for Laplace noise, at the
vertices of the grid, around which the order of the cells is the same at any factor.

*Unordered columns.* For released categories a and a released number b, a row x has the likelihood

.. math:: \prod_k K_k(x_k, a_k) \prod_l e^{-|x_l - b_l| / \theta_l}, \qquad
          K_k(x, a) = K_k(a, a) e^{-\kappa_k(a) [x \ne a]}, \quad
          \kappa_k(a) = \log\Bigl(1 + \frac{1 - \rho_k}{\rho_k q_k(a)}\Bigr)

so kappa is the distance from a released category to every other one. A greedy fill of the nearest
cells gives the envelopes again. Which cells are nearest depends on the factor, so they are sorted
anew for each. Vertices still suffice: for a fixed distribution and released category the argument
for numbers holds.

*Layers.* For each combination a of released categories what is released of the number has the
density

.. math:: h_p(a, y) = \prod_k K_k(a_k, a_k) \sum_x p(x) e^{-\kappa_a(x)} K(y - x_B)

with kappa as above: a density like that of one column, whose masses sum to less than 1. At each
point y the cells are filled in the order of their likelihoods.
"""

# Rounding, u = 2^-53. `log_density` is trusted to 16 u of log K(z) / K(0) and to 4u of log K(0);
# that is as if the distances in `worst_case` were wrong by as much, so log h is wrong by at most
# u (n + 64 + 32 |log h / K(0)| + 8 |log K(0)|), which is what `logs` moves outwards by.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import FloatArray, Integers, counted
from sklearn_puffer._noise import without_mixings
from sklearn_puffer._numerics import UNIT, log_sum
from sklearn_puffer._sets.laminar import (
    ONE,
    Axis,
    OrderedAxis,
    Tree,
    UnorderedAxis,
    interval_masses,
    nearest_masses,
    ordered_masses,
)
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet
from sklearn_puffer.noise import Noise

TINY_SUM = 1e-250
"""Sums below it may have lost terms that are no floats."""

_NUMBERS_AT_ONCE = 2**22


class NumberEnvelopes(ABC):
    """Envelopes of the released density of one number, or of the part with released categories.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms,)
    n_sets : int
    offsets : ndarray of shape (n_sets, n_sets)
        The largest log ratios of whole masses.
    log_mass : float
        The log of the largest whole mass of any set, at most 0.
    points_at_once : int
        How many points are computed together, which bounds the memory.
    """

    atoms: FloatArray
    n_sets: int
    offsets: FloatArray
    log_mass: float
    points_at_once: int

    @property
    def span(self) -> float:
        """The distance between the outermost atoms."""
        return float(self.atoms[-1] - self.atoms[0])

    def logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        """Return bounds on the log envelopes, shape (2, n_sets, n_points): above and below."""
        starts = counted(range(0, len(points), self.points_at_once), "points on a line")
        parts = [self._logs(points[k : k + self.points_at_once], noise) for k in starts]
        return np.concatenate(parts, axis=2)

    @abstractmethod
    def end_masses(self) -> FloatArray:
        """Return lower bounds on the log masses of the outermost atoms, shape (n_sets, 2)."""

    @abstractmethod
    def _logs(self, points: FloatArray, noise: Noise) -> FloatArray: ...


class ColumnEnvelopes(NumberEnvelopes):
    """Confidence sets over the atoms of one column.

    Parameters
    ----------
    sets : sequence of SimultaneousSet
        All over the same atoms.
    """

    def __init__(self, sets: Sequence[SimultaneousSet]) -> None:
        self.atoms = sets[0].axes[0]
        self.masses = np.concatenate(interval_masses(sets[0].tree, *bounds_of(sets)))
        self.n_sets = len(sets)
        self.offsets, self.log_mass = np.zeros((len(sets),) * 2), 0.0  # of distributions
        self.points_at_once = max(1, _NUMBERS_AT_ONCE // (2 * len(sets) * len(self.atoms)))

    def cell_logs(self) -> FloatArray:
        """Return the log envelopes of each atom's mass, shape (2, n_sets, n_atoms)."""
        cells = np.arange(len(self.atoms))
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.masses[:, cells, cells] / ONE)
        return logs.reshape(2, -1, len(cells))

    def end_masses(self) -> FloatArray:
        """Return the log of the least mass of the first and the last atom, shape (n_sets, 2)."""
        return np.asarray(self.cell_logs()[1][:, [0, -1]])

    def _logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        distances = np.abs(points[:, None] - self.atoms)
        order = np.argsort(distances, axis=1, kind="stable")
        first, last = np.minimum.accumulate(order, axis=1), np.maximum.accumulate(order, axis=1)
        # one atom an entry, not a row of atoms
        kernel = noise.log_density(np.take_along_axis(distances, order, axis=1)[..., None])
        top = kernel[:, :1]
        masses = mass_steps(self.masses[:, first, last])
        logs = log_sums(masses, top - kernel) + top[:, 0]
        height = float(noise.log_density(np.zeros(1)))
        size = np.where(np.isfinite(logs), np.abs(logs - height), 0.0)
        error = UNIT * (len(self.atoms) + 64.0 + 32.0 * size + 8.0 * abs(height))
        return np.stack([logs[0] + error[0], logs[1] - error[1]])


MOST_DISTANCE = 2.0**58
"""The largest distance of two cells, as an integer."""


def log_sums(masses: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return log sum m e^-x for each distribution and vertex, shape (2, n_sets, n_vertices)."""
    sums = np.matmul(masses, np.exp(-exponents)[:, :, None])[:, :, 0]
    with np.errstate(divide="ignore"):
        logs = np.log(sums)
        for vertex, distribution in np.argwhere(sums < TINY_SUM):
            terms = np.log(masses[vertex, distribution]) - exponents[vertex]
            logs[vertex, distribution] = log_sum(terms)
    return np.ascontiguousarray(logs.T).reshape(2, -1, len(logs))


def cell_logs(sets: Sequence[SimultaneousSet]) -> FloatArray:
    """Return the log envelopes of the masses of the cells, shape (2, n_sets, n_cells)."""
    bounds = [region.cell_bounds for region in sets]
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log([[upper for _, upper in bounds], [low for low, _ in bounds]])
    return logs


def widened(logs: FloatArray, n_cells: int, units: float, moved: float) -> FloatArray:
    """Move log envelopes outwards by the rounding of sums over cells, and by that of distances."""
    size = np.where(np.isfinite(logs), np.abs(logs), 0.0)
    error = 1.01 * moved + 1.01 * UNIT * (n_cells + 16.0 + units * size)
    return np.stack([logs[0] + error[0], logs[1] - error[1]])


def mass_steps(masses: Integers) -> FloatArray:
    """Return what each cell adds to the mass of those before it, as floats.

    Of masses of shape (2 n_sets, n_points, n_cells): (n_points, 2 n_sets, n_cells).
    """
    return np.ascontiguousarray((np.diff(masses, axis=2, prepend=0) / ONE).transpose(1, 0, 2))


def bounds_of(sets: Sequence[SimultaneousSet]) -> tuple[Integers, Integers]:
    """Return the bounds of all nodes, lower and upper, shape (n_sets, 2 n - 1) each."""
    lower = np.stack([region.lower for region in sets])
    return lower, np.stack([region.upper for region in sets])


def total_distances(tables: Sequence[FloatArray]) -> FloatArray:
    """Return the sums over axes for all pairs of cells of a grid, shape (n, n)."""
    total = np.zeros((1, 1))
    for table in tables:
        wider = total[:, None, :, None] + table[None, :, None, :]
        total = wider.reshape(len(total) * len(table), -1)
    return total


Shares = Sequence[FloatArray | None]
_SHORTEST = 1e-280  # distances below it count as 0


class _OrderedCells(NamedTuple):
    """Cells by their distance from each vertex, what each adds, and the error of the distances."""

    distances: FloatArray
    masses: FloatArray
    moved: float


class VertexEnvelopes:
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
        self._held: _OrderedCells | None = None  # of numbers, whose order is the same at any factor

    def ends(self, factor: float) -> FloatArray:
        """Return bounds on the log envelopes, above and below, shape (2, n_sets, n_vertices).

        They are relative to the kernel's height. For factor 0, or one so small that distances
        overflow, they are the masses of the cells.
        """
        n_cells, units = self._tree.n_cells, len(self._axes) + 28.0
        found = self._at(factor)
        if found is None:
            return widened(self._cells, n_cells, units, 0.0)
        return widened(log_sums(found.masses, found.distances), n_cells, units, found.moved)

    def _at(self, factor: float) -> _OrderedCells | None:
        fixed = not any(self._noise.mixings) and factor > 0.0
        if not fixed or self._held is None:
            tables = self._tables(1.0 if fixed else factor)
            found = None if tables is None else self._ordered(tables)
            if found is None or not fixed:
                return found
            self._held = found
        distances, masses, moved = self._held
        with np.errstate(over="ignore"):
            return _OrderedCells(distances / factor, masses, moved / factor)

    def _ordered(self, tables: Sequence[FloatArray]) -> _OrderedCells:
        axes = self._in_integers(tables)
        order, most, least = nearest_masses(self._tree, axes, *self._bounds)
        nearest = np.take_along_axis(total_distances(tables), order, axis=1)
        distances = np.maximum.accumulate(nearest, axis=1)
        masses = mass_steps(np.concatenate([most, least]))
        return _OrderedCells(distances, masses, float((distances - nearest).max()))

    def heights(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """Return the log height of the kernel at each released cell, and its error."""
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

    def _in_integers(self, tables: Sequence[FloatArray]) -> list[Axis]:
        """Return the axes in integers, by which cells are ordered."""
        unit = MOST_DISTANCE / max(float(sum(table.max() for table in tables)), _SHORTEST)
        axes: list[Axis] = []
        for table, shares in zip(tables, self._shares, strict=True):
            first = table[0] if shares is None else table.max(axis=1)
            whole = np.rint(first * unit).astype(np.int64)
            axes.append(OrderedAxis(whole) if shares is None else UnorderedAxis(whole))
        return axes


def shares_of(noise: Noise, axes: Sequence[FloatArray]) -> Shares:
    """Return the probabilities that each unordered column is redrawn with, None for numbers."""
    return [
        None if mixing is None else mixing.probabilities[mixing.codes_of(axis)]
        for mixing, axis in zip(noise.mixings or [None] * len(axes), axes, strict=True)
    ]


def category_tables(
    axes: Sequence[FloatArray], shares: Shares, scales: FloatArray
) -> list[FloatArray]:
    """Return kappa from released values to those of rows, along each axis; 0 of numbers."""
    tables = [np.zeros((len(axis), len(axis))) for axis in axes]
    with np.errstate(over="ignore", divide="ignore"):
        for table, drawn, scale in zip(tables, shares, scales, strict=True):
            if drawn is not None:
                kappas = np.log1p(np.exp(-scale) / (-np.expm1(-scale) * drawn))
                table[:] = kappas[:, None]
                np.fill_diagonal(table, 0.0)
    return tables


def category_heights(
    axes: Sequence[FloatArray], shares: Shares, scales: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the logs of K(a, a) over all released cells, and their errors."""
    total = np.zeros(1)
    for axis, drawn, scale in zip(axes, shares, scales, strict=True):
        heights = np.zeros(len(axis))
        if drawn is not None:
            heights = np.log(np.exp(-scale) - np.expm1(-scale) * drawn)
        total = (total[:, None] + heights).ravel()
    return total, UNIT * len(scales) * (16.0 + 8.0 * np.abs(total))


# Rounding. As in `ColumnEnvelopes`, with kappa among the exponents: distances wrong by 32 u of
# themselves cover it. The height of the categories is right to u d (16 + 8 |log|).

_LAYER_NUMBERS_AT_ONCE = 2**20


class CategoryLayers:
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
        [self._number] = [k for k, q in enumerate(self._shares) if q is None and sizes[k] > 1]
        self._indices = np.stack(np.unravel_index(np.arange(self._tree.n_cells), sizes))

    def number_noise(self, factor: float) -> Noise:
        """Return the noise of the number at a factor."""
        scaled = self._noise.scaled(factor)
        scale = float(scaled.axis_scales(len(self._axes))[self._number])
        return without_mixings(scaled).with_scale(scale)

    def layers(self, factor: float) -> Iterator[LayerEnvelopes] | None:
        """Yield the layer of each combination of categories; None where the kernel overflows."""
        scales = self._noise.scaled(factor).axis_scales(len(self._axes))
        tables = category_tables(self._axes, self._shares, scales)
        heights, error = category_heights(self._axes, self._shares, scales)
        if not np.isfinite(sum(table.max() for table in tables)):
            return None
        chosen = np.flatnonzero(self._indices[self._number] == 0).tolist()
        atoms, index = self._axes[self._number], self._indices[self._number]
        given = self._tree, self._bounds, atoms, index

        def kappas(cell: int) -> FloatArray:
            columns = zip(tables, self._indices[:, cell], self._indices, strict=True)
            return np.asarray(sum(table[released, at] for table, released, at in columns))

        return (
            LayerEnvelopes(*given, kappas(cell), (heights[cell], error[cell])) for cell in chosen
        )


class LayerEnvelopes(NumberEnvelopes):
    """Envelopes of the released density of the number, with fixed released categories.

    Parameters
    ----------
    tree : Tree
    bounds : tuple of ndarray
        Lower and upper ones of all nodes, shape (n_sets, 2 n - 1) each.
    atoms : ndarray of shape (n_atoms,)
        Those of the number.
    atom_of : ndarray of shape (n_cells,)
        The atom of each cell.
    kappas : ndarray of shape (n_cells,)
        How far each cell's categories are from the released ones.
    height : tuple of float
        The log of the factor that the categories add to the height, and its error.
    """

    def __init__(
        self,
        tree: Tree,
        bounds: tuple[Integers, Integers],
        atoms: FloatArray,
        atom_of: Integers,
        kappas: FloatArray,
        height: tuple[float, float],
    ) -> None:
        self.atoms = atoms
        self._tree, self._bounds, self._atom_of = tree, bounds, atom_of
        self._kappas, (self._height, self._error) = kappas, height
        whole = self._outwards(self._sums(kappas[None])[:, :, 0], 0.0)
        self.offsets = whole[0][:, None] - whole[1] + 8.0 * UNIT * (1.0 + np.abs(whole).max())
        self.log_mass = min(float(whole[0].max()), 0.0)
        self.n_sets = len(bounds[0])
        self.points_at_once = max(1, _LAYER_NUMBERS_AT_ONCE // (self.n_sets * tree.n_cells))

    def end_masses(self) -> FloatArray:
        """Return lower bounds on the log masses of the outermost atoms, shape (n_sets, 2)."""
        ends = np.array([[0], [len(self.atoms) - 1]])
        costs = np.where(self._atom_of == ends, self._kappas, np.inf)
        return np.asarray(self._outwards(self._sums(costs), 0.0)[1])

    def _logs(self, points: FloatArray, noise: Noise) -> FloatArray:
        distances = np.abs(points[:, None] - self.atoms)
        kernel = noise.log_density(distances[..., None])
        logs = self._sums(self._kappas - kernel[:, self._atom_of])
        return self._outwards(logs, float(noise.log_density(np.zeros(1))))

    def _sums(self, costs: FloatArray) -> FloatArray:
        """Return log envelopes of sum p e^-cost, shape (2, n_sets, n_points)."""
        order, most, least = ordered_masses(self._tree, costs, *self._bounds)
        exponents = np.take_along_axis(costs, order, axis=1)
        top = exponents[:, :1]
        return log_sums(mass_steps(np.concatenate([most, least])), exponents - top) - top[:, 0]

    def _outwards(self, logs: FloatArray, height: float) -> FloatArray:
        size = np.where(np.isfinite(logs), np.abs(logs - height), 0.0)
        error = UNIT * (self._tree.n_cells + 64.0 + 32.0 * size + 8.0 * abs(height)) + self._error
        error = error + 4.0 * UNIT * abs(self._height)
        raised = logs + self._height
        return np.stack([raised[0] + error[0], raised[1] - error[1]])


def log_excess(above: list[FloatArray], below: list[FloatArray], epsilon: float) -> FloatArray:
    r"""Return log int_0^1 (e^A - e^(epsilon + B))_+ for A and B that are linear, from above.

    Where A - B - epsilon changes its sign, only the part of [0, 1] where it is positive counts.
    """
    over = [a - b - epsilon for a, b in zip(above, below, strict=True)]
    most = np.maximum(*over)
    size = np.abs(above[0]) + np.abs(above[1]) + np.abs(below[0]) + np.abs(below[1]) + epsilon
    slack = 8.0 * UNIT * np.where(np.isfinite(size), size, 0.0)
    most = np.where(most > -slack, np.maximum(most, 0.0) + slack, -np.inf)
    rising = over[1] > over[0]
    # from the end with the larger excess, down to the root or to the other end
    share = np.where(
        np.isfinite(most) & (np.minimum(*over) < 0.0), most / (most - np.minimum(*over)), 1.0
    )
    share = np.clip(share * (1.0 + 8.0 * UNIT), 0.0, 1.0)
    start = np.where(rising, above[1], above[0])
    other = np.where(rising, above[0], above[1])
    stop = start + share * (other - start)
    held = np.log(share) + log_mean_exp(start, stop)
    # int e^A (1 - e^-excess): the excess is linear from `most` to its end, and 1 - e^-x concave,
    # so by Chebyshev or simply by its largest value
    largest = held + np.log(-np.expm1(-most))
    rest = np.maximum(np.where(share < 1.0, 0.0, np.minimum(*over)), 0.0)
    exact = _log_difference(start, stop, most, rest) + np.log(share)
    excess = np.fmin(largest, np.where(np.isnan(exact), np.inf, exact))
    return np.where(most > -np.inf, excess, -np.inf)


def _log_difference(
    start: FloatArray, stop: FloatArray, most: FloatArray, rest: FloatArray
) -> FloatArray:
    """Return log of int e^A - int e^(A - excess), rounded upwards."""
    whole = log_mean_exp(start, stop)
    taken = log_mean_exp(start - most, stop - rest)
    ratio = np.exp(np.minimum(taken - whole, 0.0))
    slack = 2.0**-44 + 2.0**-48 * (np.abs(whole) + np.abs(start) + np.abs(stop))
    kept = np.maximum(1.0 - ratio, 0.0) + np.where(np.isfinite(slack), slack, 0.0)
    return np.asarray(whole + np.log(kept))


def log_mean_exp(start: FloatArray, stop: FloatArray) -> FloatArray:
    """Return log int_0^1 e^(start + t (stop - start)) dt."""
    top, gap = np.maximum(start, stop), np.abs(start - stop)
    with np.errstate(divide="ignore", invalid="ignore"):
        falls = np.where(gap > 1e-12, np.log(-np.expm1(-gap) / gap), 0.0)
    return np.asarray(np.where(np.isfinite(gap), top + falls, top))


def log_expm1(x: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", divide="ignore"):
        return np.where(x > 30.0, x, np.log(np.expm1(np.minimum(x, 30.0))))
