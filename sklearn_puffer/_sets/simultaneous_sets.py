r"""Simultaneous confidence sets for the distribution of the public columns given a secret.

The set bounds the mass of every cell of a declared grid, and of nested groups of cells, by
two-sided Clopper-Pearson intervals:

.. math:: l = B^{-1}_{e/2}(c, n - c + 1), \qquad u = B^{-1}_{1 - e/2}(c + 1, n - c)

for c of n rows in the cell or group, e being the chance that one interval may miss. Each interval
holds the true mass with a probability of at least 1 - e, whatever that mass is, so all of them do
at once with at least 1 minus the sum of their e. Which groups there are, and how the error is
divided among them, depends on the shape of the grid alone, never on the counts: each depth of the
tree gets the same part of it, and within a depth each group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from sklearn_puffer._base import FloatArray, Integers, check_count, check_positive
from sklearn_puffer._numerics import ULP
from sklearn_puffer._sets.laminar import ONE, Tree
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import ConfidenceSet, Discrete

_OUTWARDS = 2.0**-40

MAX_CELLS = 4096
"""Most cells of a grid for which the worst case is computed."""

MAX_WORK = 2**26
"""Most numbers in memory: twice the squared number of cells, for every set."""

MAX_MIXED_WORK = 2**24
"""The same where columns are unordered, so that cells are ordered anew for each factor."""

MAX_LINES_WORK = 2**12
"""Most cells of all sets and layers, where one number with other noise is beside categories."""

_LIKELY_PANELS = 4096  # of an integral over one column
_ORDERING = 8  # time to order cells, relative to one pass over them


@dataclass(frozen=True, eq=False)
class SimultaneousSet:
    """All distributions on a grid whose masses of cells, and of groups of cells, lie within bounds.

    Made by `set_around` or `set_around_counts`.

    Attributes
    ----------
    axes : tuple of ndarray
        The sorted atoms of each column; the cells are all their combinations.
    tree : Tree
        The groups of cells, as nodes of a tree.
    lower, upper : ndarray of shape (2 n_cells - 1,)
        Bounds on each node's mass, as tight as all of them together make them, in units of 2^-60.

    Examples
    --------
    >>> region = set_around_counts([[0, 1, 2]], [7, 2, 1], share=0.05)
    >>> region.n_cells, region.cell_bounds[0].round(2).tolist()
    (3, [0.37, 0.02, 0.0])
    """

    axes: tuple[FloatArray, ...]
    tree: Tree
    lower: Integers
    upper: Integers

    @property
    def n_cells(self) -> int:
        """Number of cells of the grid."""
        return self.tree.n_cells

    @property
    def cell_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Bounds on the mass of each cell, in the order of the grid, each of shape (n_cells,)."""
        low, high = np.empty(self.n_cells), np.empty(self.n_cells)
        low[self.tree.cells] = self.lower[self.tree.n_inner :] / ONE
        high[self.tree.cells] = self.upper[self.tree.n_inner :] / ONE
        return low, high


def n_events(n_cells: int) -> int:
    """Return how many intervals define a set over some cells.

    One for each cell and each inner group, except for the whole. The two halves of the whole share
    one, since the mass of either follows from the other.

    >>> [n_events(n) for n in (1, 2, 3, 4)]
    [0, 1, 3, 5]
    """
    return max(2 * check_count(n_cells, "n_cells") - 3, 0)


def error_share(level: float, cells: Iterable[int]) -> float:
    """Return the error of each interval, on average, if all sets together hold with ``level``.

    ``cells`` has the number of cells of each set: one for each secret, sensitive column and column
    group.

    Notes
    -----
    *Formal guarantees.* The union bound: with probability ``level`` at least all sets hold, however
    the rows of different secrets and columns depend on each other.

    Examples
    --------
    >>> round(error_share(0.95, [2, 2]), 6)
    0.025
    """
    events = sum(n_events(n_cells) for n_cells in cells)
    # the difference is right to a rounding of 1, which the last factor takes back
    return max(1.0 - ConfidenceSet(level).level - ULP, 0.0) / max(events, 1) * (1.0 - 2.0**-50)


def set_around(prior: Discrete, share: float, alphabets: Sequence[ArrayLike]) -> SimultaneousSet:
    """Return the confidence set around a counted prior.

    Parameters
    ----------
    prior : Discrete
        Its counts are numbers of rows. (A prior given by probabilities has no rows to count.)
    share : float
        The error of each of the `n_events` intervals on average, from `error_share`.
    alphabets : sequence of array-like
        The possible atoms of each column.

    Notes
    -----
    *Formal guarantees.* If the rows are independent draws of the true distribution and that
    distribution is on the grid, then the set holds it with probability 1 - n_events(n_cells) *
    share at least.

    Raises
    ------
    ValueError
        If an atom with rows is not among the possible ones.

    Examples
    --------
    >>> region = set_around(Discrete.from_counts([0, 1], [376, 204]), 0.025, [[0, 1]])
    >>> region.cell_bounds[0].round(6).tolist(), region.cell_bounds[1].round(6).tolist()
    ([0.602124, 0.307499], [0.692501, 0.397876])
    """
    axes = [np.unique(np.asarray(alphabet, dtype=float)) for alphabet in alphabets]
    return set_around_counts(axes, _on_grid(prior, axes), share)


def set_around_counts(
    alphabets: Sequence[ArrayLike], counts: ArrayLike, share: float
) -> SimultaneousSet:
    """Return the confidence set around the counts of all cells of a grid of sorted atoms.

    Counts are all zero for a secret without rows, whose set holds all distributions. ``share`` is
    the error of each of the `n_events` intervals on average.

    Examples
    --------
    >>> set_around_counts([[0, 1, 2]], [0, 0, 0], share=0.01).cell_bounds[1].tolist()
    [1.0, 1.0, 1.0]
    """
    axes = tuple(np.array(alphabet, dtype=float) for alphabet in alphabets)
    tree = Tree.over(tuple(len(axis) for axis in axes))
    errors = _errors(tree, check_positive(share, "share"))
    lower, upper = _intervals(tree.totals(np.asarray(counts).ravel()), errors)
    return SimultaneousSet(axes, tree, *tree.tightened(lower, upper))


def computable(shape: Sequence[int], n_sets: int, noise: Noise, notion: Notion) -> bool:
    """Return whether the worst case over sets on a grid is computed; ``shape`` has its sizes.

    One column, unordered ones alone, and few of them beside one number: any noise and notion. Other
    rows: Laplace noise and a pure guarantee. At most ``MAX_CELLS`` cells, and ``MAX_WORK`` numbers
    to hold, or ``MAX_MIXED_WORK`` where columns are unordered.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> computable((16, 20), 10, Laplace(), Pufferfish(1.0))
    True
    >>> computable((16, 20), 10, Laplace(), Pufferfish(1.0, delta=1e-5))
    False
    """
    n_cells = math.prod(shape)
    most = MAX_MIXED_WORK if any(noise.mixings) else MAX_WORK
    fits = n_cells <= MAX_CELLS and 2 * n_sets * n_cells**2 <= most
    known = len(shape) == 1 or is_exact(shape, noise, notion) or _are_points(shape, noise)
    n_layers = _n_layers(shape, noise)
    return fits and (known or 0 < n_layers * n_sets * n_cells <= MAX_LINES_WORK)


def work(shape: Sequence[int], n_sets: int, noise: Noise, notion: Notion) -> int:
    """Return about how many numbers are computed for the worst case over sets on one grid.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> work((16, 20), 10, Laplace(), Pufferfish(1.0))
    2048000
    """
    n_cells = math.prod(shape)
    points = n_cells if is_exact(shape, noise, notion) else _LIKELY_PANELS
    if _n_layers(shape, noise) and not is_exact(shape, noise, notion):
        points *= _n_layers(shape, noise) * _ORDERING
    elif any(noise.mixings):
        points = n_cells * _ORDERING
    return 2 * n_sets * n_cells * points


def n_numbers(shape: Sequence[int], noise: Noise) -> int:
    """Return how many numbers vary."""
    mixings = noise.mixings or (None,) * len(shape)
    return sum(size > 1 and mixing is None for size, mixing in zip(shape, mixings, strict=True))


def _are_points(shape: Sequence[int], noise: Noise) -> bool:
    """Return whether all columns that vary are unordered."""
    return any(noise.mixings) and not n_numbers(shape, noise)


def _n_layers(shape: Sequence[int], noise: Noise) -> int:
    """Return the number of layers, one a combination of categories; 0 unless one number varies."""
    if not any(noise.mixings) or n_numbers(shape, noise) != 1:
        return 0
    pairs = zip(shape, noise.mixings, strict=True)
    return math.prod(size for size, mixing in pairs if mixing is not None)


def is_exact(shape: Sequence[int], noise: Noise, notion: Notion) -> bool:
    """Return whether the worst case over sets on one grid is exact, and not only bounded."""
    return notion.is_pure and (noise.has_vertices or _are_points(shape, noise))


def _errors(tree: Tree, share: float) -> FloatArray:
    """Return the error of the interval of each node: n_events * share in all.

    Measured on 10 to 320 cells and 300 to 200,000 rows, equal parts for each depth ask for up to
    9 % less noise than equal parts for each node, and hardly ever for more.
    """
    depths = np.zeros(2 * tree.n_cells - 1)
    for depth, nodes in enumerate(tree.levels, 1):
        depths[tree.left[nodes]] = depths[tree.right[nodes]] = depth
    parts = 2.0**-depths
    # the whole needs no interval, and its halves share one: their depth's parts add up to 1/2
    total = float(parts[1:].sum()) - 0.5 if tree.n_inner else 1.0
    errors: FloatArray = parts * (n_events(tree.n_cells) * share / total) * (1.0 - _OUTWARDS)
    return np.clip(errors, 1e-300, 1.0)


def _intervals(counts: Integers, errors: FloatArray) -> tuple[Integers, Integers]:
    """Return Clopper-Pearson bounds on each node's mass, rounded outwards; the root comes first."""
    total = int(counts[0])
    if total == 0:
        return np.zeros(len(counts), dtype=np.int64), np.full(len(counts), ONE)
    hits = counts.astype(float)
    misses = (total - counts).astype(float)
    low, high = np.zeros(len(hits)), np.ones(len(hits))
    hit, missed = hits > 0.0, misses > 0.0
    low[hit] = betaincinv(hits[hit], misses[hit] + 1.0, errors[hit] / 2.0)
    high[missed] = betainccinv(hits[missed] + 1.0, misses[missed], errors[missed] / 2.0)
    low = np.nan_to_num(low * (1.0 - _OUTWARDS), nan=0.0)
    high = np.minimum(np.nan_to_num(high * (1.0 + _OUTWARDS), nan=1.0), 1.0)
    exact = counts.astype(object) * ONE
    below, above = (exact // total).astype(np.int64), (-(-exact // total)).astype(np.int64)
    lower = np.minimum(np.floor(low * ONE).astype(np.int64), below)
    upper = np.maximum(np.ceil(high * ONE).astype(np.int64), above)
    return lower, upper


def _on_grid(prior: Discrete, axes: Sequence[FloatArray]) -> Integers:
    """Return the counts of all cells of a grid."""
    rows, counts = prior.rows[prior.counts > 0], prior.counts[prior.counts > 0]
    indices = []
    for axis, column in zip(axes, rows.T, strict=True):
        index = np.minimum(np.searchsorted(axis, column), len(axis) - 1)
        strays = column[axis[index] != column]
        if strays.size:
            raise ValueError(
                f"alphabets must hold every atom that has rows, and {float(strays[0])!r} is in "
                "none; add it to its column's."
            )
        indices.append(index)
    shape = tuple(len(axis) for axis in axes)
    grid = np.zeros(int(np.prod(shape)), dtype=counts.dtype)
    grid[np.ravel_multi_index(tuple(indices), shape)] = counts
    return grid
