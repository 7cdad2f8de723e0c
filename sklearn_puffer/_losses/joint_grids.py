"""The grid that the atoms of priors span, and the parts that priors of rows are taken apart into.

The grid decides for which priors a loss is computed. Where columns are kept as they are, the
distributions of the other columns, given the kept values, decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses.boxes import boxes_computable
from sklearn_puffer._losses.gaussian_mixtures import has_distribution
from sklearn_puffer._losses.gaussian_rows import rows_computable
from sklearn_puffer._noise import MixedNoise, Mixing, Unchanged, without_mixings
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair, distinct

_NOTHING = Discrete([0.0], [1.0])  # the distribution where no other column is left


class GivenKept(NamedTuple):
    """The priors given one combination of the kept columns' values.

    Attributes
    ----------
    shares : tuple of float
        The mass of this combination under each prior, right to one ulp.
    distributions : tuple of Discrete or None
        Of the other columns, under each prior; None where it has no mass.
    """

    shares: tuple[float, ...]
    distributions: tuple[Discrete | None, ...]


def kept_axes(mixings: Sequence[Mixing | None]) -> list[int]:
    """Return the axes that are released as they are."""
    return [k for k, mixing in enumerate(mixings) if isinstance(mixing, Unchanged)]


def on_others(noise: Noise, n_axes: int) -> Noise:
    """Return the noise of the axes that are not kept."""
    rest = _others(n_axes, kept_axes(noise.mixings))
    bare = without_mixings(noise)
    if not rest:
        return bare.with_scale(1.0)
    bare = bare.with_scale(tuple(bare.axis_scales(n_axes)[rest].tolist()))
    mixings = tuple(noise.mixings[k] for k in rest)
    return MixedNoise(bare, mixings) if any(mixings) else bare


def given_kept(priors: Sequence[Discrete], axes: Sequence[int]) -> list[GivenKept]:
    """Return the priors given each combination of kept values that has mass, in their order."""
    values = [with_mass(prior, prior.rows)[:, axes] for prior in priors]
    kept, owners = np.unique(np.concatenate(values), axis=0, return_inverse=True)
    codes = np.split(owners.ravel(), np.cumsum([len(rows) for rows in values])[:-1])
    columns = zip(priors, codes, strict=True)
    parts = [_split(prior, code, axes, len(kept)) for prior, code in columns]
    return [GivenKept(*zip(*given, strict=True)) for given in zip(*parts, strict=True)]


def pairs_given_kept(
    pairs: Sequence[tuple[Discrete, Discrete]], axes: Sequence[int]
) -> list[PriorPair]:
    """Return the pairs given each combination of kept values that both priors of a pair have."""
    return [
        PriorPair(*given.distributions)
        for pair in pairs
        for given in given_kept(pair, axes)
        if None not in given.distributions
    ]


def _split(
    prior: Discrete, codes: Array, axes: Sequence[int], n_combinations: int
) -> list[tuple[float, Discrete | None]]:
    """Return for each combination its share, and the distribution of the other axes given it."""
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=n_combinations))[:-1]
    rows, counts = with_mass(prior, prior.rows), with_mass(prior, prior.counts)
    return [_distribution(prior, rows[k], counts[k], axes) for k in np.split(order, ends)]


def _distribution(
    prior: Discrete, rows: FloatArray, counts: Array, axes: Sequence[int]
) -> tuple[float, Discrete | None]:
    if not len(rows):
        return 0.0, None
    rest = _others(prior.n_axes, axes)
    share = sum(map(int, counts)) / prior.total
    return share, Discrete.from_counts(rows[:, rest], counts) if rest else _NOTHING


def _others(n_axes: int, axes: Sequence[int]) -> list[int]:
    return [k for k in range(n_axes) if k not in axes]


MAX_CELLS = 2**17
"""Largest joint grid (two or more columns) on which the exact loss is computed."""


def grid_cells(priors: Sequence[Discrete]) -> int:
    """Return how many cells the grid has that the atoms of all ``priors`` span.

    Atoms without mass in any of the priors do not count.

    >>> grid_cells([Discrete([[0, 0], [1, 5]], [0.5, 0.5]), Discrete([[2, 0]], [1.0])])
    6
    """
    return layout_of(priors).cells


def plane_cells(priors: Sequence[Discrete]) -> int:
    """Return how many cells the grid has of priors that vary in more than one column; else 0.

    >>> plane_cells([Discrete([[0, 7], [1, 7]], [0.5, 0.5])])
    0
    """
    layout = layout_of(priors)
    return 0 if layout.is_line else layout.cells


def is_computable(priors: Sequence[Prior], noise: Noise, notion: Notion) -> bool:
    """Return whether the loss is computed for these priors: see `accounting`."""
    if not all(isinstance(prior, Discrete) for prior in priors):
        return _mixtures_computable(priors, noise, notion)
    discrete = cast(Sequence[Discrete], priors)
    layout = layout_of(discrete)
    if noise.has_vertices and notion.is_pure:
        return layout.is_computable
    axes = kept_axes(noise.mixings)
    if axes:
        others = on_others(noise, len(layout.axes))
        given = (filter(None, kept.distributions) for kept in given_kept(discrete, axes))
        return all(is_computable(list(distributions), others, notion) for distributions in given)
    if any(noise.mixings):
        return layers_computable(layout, noise, notion)
    # the table of pure losses is made for grids within the limit, whatever the noise
    return layout.is_line or (
        boxes_computable(discrete, noise, notion) and (not notion.is_pure or layout.is_computable)
    )


def all_computable(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> bool:
    """Return whether `is_computable` is true of the priors of each pair."""
    priors = distinct(pairs)
    # what is known on the grid that all of them span is known on the part that two of them span
    together = all(isinstance(prior, Discrete) for prior in priors)
    return (together and is_computable(priors, noise, notion)) or all(
        is_computable(pair, noise, notion) for pair in pairs
    )


MAX_LAYERS = 128
"""Most combinations of categories, for each of which the line of a number is looked at."""


def layers_computable(layout: Layout, noise: Noise, notion: Notion) -> bool:
    """Return whether `CategoryLayers` is for these priors: categories, and at most one number.

    Where a number varies beside categories, a shift of it must have a loss at all.
    """
    numbers = [k for k in layout.varying if noise.mixings[k] is None]
    if len(numbers) > 1:
        return False
    if layout.is_line:
        return True
    if not numbers:
        return layout.cells <= MAX_CELLS
    layers = layers_of(layout, noise)
    scales = noise.axis_scales(len(layout.axes))
    finite = not notion.is_pure or bool(np.isfinite(noise.max_divergence(scales)))
    return finite and layers <= MAX_LAYERS and layout.cells <= MAX_CELLS


def layers_of(layout: Layout, noise: Noise) -> int:
    """Return for how many combinations of categories the line of a number is looked at."""
    numbers = [k for k in layout.varying if noise.mixings[k] is None]
    mixed = [k for k in layout.varying if noise.mixings[k] is not None]
    return prod(len(layout.axes[k]) + 1 for k in mixed) if numbers else 0


def layer_count(pairs: Sequence[PriorPair], noise: Noise) -> int:
    """Return how many lines are looked at for discrete priors, given noise with mixings."""
    return sum(layers_of(layout_of(cast(Sequence[Discrete], pair)), noise) for pair in pairs)


def _mixtures_computable(priors: Sequence[Prior], noise: Noise, notion: Notion) -> bool:
    if not all(isinstance(prior, GaussianMixture) for prior in priors):
        return False
    mixtures = cast(Sequence[GaussianMixture], priors)
    if all(prior.n_axes == 1 for prior in mixtures):
        return has_distribution(noise)
    pairs = combinations(mixtures, 2)
    return all(rows_computable(p, q, noise, notion) for p, q in pairs)


class Layout(NamedTuple):
    """The grid that priors span, and the indices of each prior's atoms on it, row-major."""

    axes: list[FloatArray]
    indices: list[IntArray]

    @property
    def cells(self) -> int:
        return prod(len(atoms) for atoms in self.axes)

    @property
    def is_line(self) -> bool:
        """Whether all but one column are constant."""
        return len(self.varying) <= 1

    @property
    def varying(self) -> list[int]:
        """The columns that are not constant."""
        return [k for k, atoms in enumerate(self.axes) if len(atoms) > 1]

    @property
    def is_computable(self) -> bool:
        """Whether it is a line, which no product can make large, or a grid within the limit."""
        return self.is_line or self.cells <= MAX_CELLS


def layout_of(priors: Sequence[Discrete]) -> Layout:
    supports = [with_mass(prior, prior.rows) for prior in priors]
    atoms, indices = _merged([rows[:, 0] for rows in supports])
    axes = [atoms]
    for k in range(1, priors[0].n_axes):
        atoms, columns = _merged([rows[:, k] for rows in supports])
        indices = [i * len(atoms) + column for i, column in zip(indices, columns, strict=True)]
        axes.append(atoms)
    return Layout(axes, indices)


def with_mass(prior: Discrete, values: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of ``values`` that belong to atoms with mass."""
    positive = prior.counts > 0
    return values if positive.all() else values[positive]


def _merged(parts: list[FloatArray]) -> tuple[FloatArray, list[IntArray]]:
    """Return the sorted union of ``parts``, and the index of each of their numbers in it."""
    # asked for first places, numpy takes a stable sort, which merges runs that are sorted already
    values, _, places = np.unique(np.concatenate(parts), return_index=True, return_inverse=True)
    return values, np.split(places, np.cumsum([len(part) for part in parts[:-1]]))
