r"""The worst privacy loss over all priors in simultaneous confidence sets around the counted ones.

The priors of the two secrets lie in their sets independently of each other, so

.. math:: \sup_{p, q} \sup_y \log \frac{h_p(y)}{h_q(y)}
          = \sup_y \Bigl( \log \sup_p h_p(y) - \log \inf_q h_q(y) \Bigr)

and both inner extremes are linear programs over a tree of bounds, which filling solves: for the
largest density the atoms nearest to y first, for the smallest the farthest.
"""

# Why, and how sharp it is. Order the atoms by their distance from y, and let W_k hold the first k
# of them, K_k be the noise density at the k-th. Then
#
#   h_p(y) = sum_k (K_k - K_(k+1)) p(W_k),   with K_k - K_(k+1) >= 0 and K_(n+1) = 0,
#
# so that max p(W_k) and min p(W_k) in the place of p(W_k) give an upper and a lower bound, and one
# law attains all of them at once (`_sets.laminar`): they are the extremes. As sums over k they read
# sum_k K_k (max p(W_k) - max p(W_(k-1))), all terms positive.
#
# Laplace noise. For fixed p and q the supremum over all real y is attained at a vertex of the grid
# of atoms (header of `accounting`), so the supremum over p, q and y is the largest over the
# vertices of the two extremes. And the order of the atoms does not depend on the factor: the masses
# of the extreme laws are computed once, and a factor costs one kernel and one row sum.
#
# Unordered columns count as distances too, but those of the two kinds do not grow alike with the
# factor: see `mixed_extremes`. Where no number varies, what is released has no density, and sums
# of the extremes over all released cells stand in the place of integrals; where one does, there is
# an integral for each combination of released categories (`layer_sets`), and these add up.
#
# That no bound grows with the factor is clear of suprema. An integral of extremes is that of f(s,
# t), s = sup h_p(y) and t = inf h_q(y), with f convex, homogeneous, growing in s and falling in t.
# More noise is a kernel R from y to z: sup_p int h_p(y) R(y, z) dy <= int s(y) R(y, z) dy, likewise
# for t, and by Jensen f(int s R, int t R) <= int f(s, t) R; over all z that is the integral before.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import UNIT, FloatArray, Integers
from sklearn_puffer._sets.column_sets import ColumnSets
from sklearn_puffer._sets.envelopes import integral, log_integral, loss_of, supremum
from sklearn_puffer._sets.extremes import Extremes, MixedExtremes, cell_logs
from sklearn_puffer._sets.layer_sets import SetLayers
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet
from sklearn_puffer.noise import ROUNDING, Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean
from sklearn_puffer.priors import distinct, numbered

MAX_CELLS = 4096
"""Most cells of a grid whose sets are looked through."""

MAX_WORK = 2**26
"""Most numbers held: twice the squared number of cells for every set."""

MAX_MIXED_WORK = 2**24
"""The same where columns are unordered, so that cells are ordered anew for each factor."""

MAX_LINES_WORK = 2**12
"""Most cells of all sets and lines, where one number with other noise is beside categories."""

_LIKELY_PANELS = 4096  # for an integral over one column
_MIXED_TOLERANCE = 1e-6
_ORDERING = 8  # what ordering cells takes, against looking at them once


def computable(shape: Sequence[int], n_sets: int, noise: Noise, notion: Notion) -> bool:
    """Return whether the worst case over sets on one grid can be computed.

    Parameters
    ----------
    shape : sequence of int
        Number of atoms of each column.
    n_sets : int
        Sets on the grid.
    noise : Noise
    notion : Notion

    Returns
    -------
    bool
        One column, unordered ones alone, and few of them beside one number: any noise and notion.
        Other rows: Laplace noise and a pure promise. At most ``MAX_CELLS`` cells, and ``MAX_WORK``
        numbers to hold, or ``MAX_MIXED_WORK`` where columns are unordered.

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
    known = len(shape) == 1 or _is_exact(shape, noise, notion) or _are_points(shape, noise)
    n_lines = _n_lines(shape, noise)
    return fits and (known or 0 < n_lines * n_sets * n_cells <= MAX_LINES_WORK)


def work(shape: Sequence[int], n_sets: int, noise: Noise, notion: Notion) -> int:
    """Return about how many numbers the worst case over sets on one grid takes to compute.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> work((16, 20), 10, Laplace(), Pufferfish(1.0))
    2048000
    """
    n_cells = math.prod(shape)
    points = n_cells if _is_exact(shape, noise, notion) else _LIKELY_PANELS
    if _n_lines(shape, noise) and not _is_exact(shape, noise, notion):
        points *= _n_lines(shape, noise) * _ORDERING
    elif any(noise.mixings):
        points = n_cells * _ORDERING
    return 2 * n_sets * n_cells * points


@dataclass(frozen=True, eq=False)
class SetLosses:
    r"""The worst losses over confidence sets, as a bound for calibration.

    .. math:: \max_{p \in \mathcal{P}_i,\, q \in \mathcal{P}_j} \mathrm{loss}(p, q)

    Parameters
    ----------
    pairs : sequence of (SimultaneousSet, SimultaneousSet)
        The sets of the two secrets of each pair; both over the same grid.
    noise : Noise
        At factor 1.
    notion : Notion

    Notes
    -----
    *Formal guarantees.* With probability ``level`` (see `simultaneous_sets.error_share`) no true
    loss exceeds ``losses``. Pure promise: the supremum over the sets, up to rounding outwards for
    Laplace noise and unordered columns and within 1e-6 of itself for others (infinite for Gaussian
    noise, unless the outermost atoms have a least mass). With delta or alpha it is an upper bound
    only: the integral (of unordered columns the sum) of the extremes at each point, which belong to
    different laws. Never above the loss of a shift across the grid.

    Raises
    ------
    ValueError
        If the sets of a pair are over different grids, or cannot be looked through (`computable`).

    Examples
    --------
    The Student table at level 0.95: no noise would be needed if its counts were the law itself.

    >>> from sklearn_puffer._sets import error_share, set_around_counts
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> share = error_share(0.95, [2, 2])
    >>> sets = [set_around_counts([[0, 1]], counts, share) for counts in ([376, 204], [34, 35])]
    >>> losses = SetLosses([tuple(sets)], Laplace(), Pufferfish(0.5))
    >>> round(float(losses.losses(0.575966935857).max()), 9)
    0.5
    """

    pairs: Sequence[tuple[SimultaneousSet, SimultaneousSet]]
    noise: Noise
    notion: Notion

    @property
    def exact(self) -> bool:
        """Whether the bound is the supremum itself, up to rounding."""
        return all(
            _is_exact([len(axis) for axis in around.axes], self.noise, self.notion)
            for around in distinct(self.pairs)
        )

    @property
    def tolerance(self) -> float:
        """How finely factors are worth telling apart: ordering cells for each takes long."""
        return _MIXED_TOLERANCE if any(self.noise.mixings) else 0.0

    @cached_property
    def guess(self) -> float:
        """A factor near which the loss of a shift across the grid meets the budget."""
        factor = 1.0
        for _ in range(64):
            if self._caps(factor).max() <= self.notion.budget:
                break
            factor *= 2.0
        for _ in range(64):
            if self._caps(0.5 * factor).max() > self.notion.budget:
                break
            factor *= 0.5
        return factor

    def losses(self, factor: float) -> FloatArray:
        """Return proven bounds of shape (n_pairs, 2), forward and backward."""
        if factor == 0.0:
            return self._most
        return np.minimum(self._worst(factor), np.minimum(self._most, self._caps(factor)))

    def decided(self, factor: float, within: float = 0.05) -> NDArray[np.bool_]:
        """Return for each pair whether the loss is all but ``within`` of what no law exceeds."""
        caps = self._caps(factor).max(axis=1)
        losses = self.losses(factor).max(axis=1)
        decided: NDArray[np.bool_] = (losses >= (1.0 - within) * caps) & (caps > 0.0)
        return decided

    @cached_property
    def _groups(self) -> list[_Group]:
        return _grouped(self.pairs, self.noise, self.notion)

    @cached_property
    def _most(self) -> FloatArray:
        """The losses without noise: no noise makes them larger, as a release is made of X."""
        return np.minimum(self._worst(0.0), self._caps(0.0))

    def _worst(self, factor: float) -> FloatArray:
        upper = np.empty((len(self.pairs), 2))
        for group in self._groups:
            upper[group.members] = group.worst(factor)
        return upper

    @cached_property
    def _spans(self) -> FloatArray:
        sets, numbers = numbered(self.pairs)
        spans = np.array([[axis[-1] - axis[0] for axis in around.axes] for around in sets])
        of_pairs: FloatArray = spans[numbers[:, 0]]
        return of_pairs

    def _caps(self, factor: float) -> FloatArray:
        """Return the losses of shifts across the grids, as `bounds.sensitivity` does."""
        if factor == 0.0:
            highest = self.notion.divergence.worst
            caps = np.where(self._spans.any(axis=1), highest, 0.0)
        else:
            shifts = self._spans * (1.0 + ROUNDING)
            caps = self.notion.shift_loss(self.noise.scaled(factor), shifts) * (1.0 + ROUNDING)
        return np.repeat(caps[:, None], 2, axis=1)


@dataclass(frozen=True, eq=False)
class _Vertices:
    """A pure promise where the worst is at a vertex of the grid."""

    members: Integers  # (n_members,)
    sides: tuple[Integers, Integers]  # the sets of each pair
    extremes: Extremes | MixedExtremes

    def worst(self, factor: float) -> FloatArray:
        """Return losses of shape (n_members, 2), rounded upwards."""
        most, least = self.extremes.ends(factor)
        p, q = self.sides
        return np.stack([_largest(most[p] - least[q]), _largest(most[q] - least[p])], axis=1)


@dataclass(frozen=True, eq=False)
class _Points:
    """Unordered columns alone: what is released is a cell, and all of them are looked at."""

    members: Integers
    sides: tuple[Integers, Integers]
    extremes: MixedExtremes
    notion: Notion

    def worst(self, factor: float) -> FloatArray:
        most, least = self.extremes.ends(factor)
        heights, error = self.extremes.heights(factor)
        logs = np.stack([most + (heights + error), least + (heights - error)])
        p, q = self.sides
        losses = _without_noise(logs, np.append(p, q), np.append(q, p), self.notion)
        return losses.reshape(2, -1).T


@dataclass(frozen=True, eq=False)
class _Layers:
    """Unordered columns and one number, any noise and notion: a line for each category."""

    members: Integers
    sides: tuple[Integers, Integers]
    cells: FloatArray
    layers: SetLayers
    notion: Notion

    def worst(self, factor: float) -> FloatArray:
        p, q = self.sides
        first, second = np.append(p, q), np.append(q, p)
        lines = self.layers.layers(factor) if factor > 0.0 else None
        if lines is None:
            losses = _without_noise(self.cells, first, second, self.notion)
        elif self.notion.is_pure:
            level = self.layers.number_noise(factor)
            losses = np.max([supremum(line, level, first, second) for line in lines], axis=0)
        else:
            level = self.layers.number_noise(factor)
            logs = [log_integral(line, level, first, second, self.notion) for line in lines]
            total = np.logaddexp.reduce(logs, axis=0)
            losses = loss_of(total + UNIT * (8.0 + len(logs)), self.notion)
        return losses.reshape(2, -1).T


@dataclass(frozen=True, eq=False)
class _Integrals:
    """One column, any noise and notion: the extremes at every point, between which to bound."""

    members: Integers
    sides: tuple[Integers, Integers]
    column: ColumnSets
    noise: Noise
    notion: Notion

    def worst(self, factor: float) -> FloatArray:
        p, q = self.sides
        first, second = np.append(p, q), np.append(q, p)
        if factor == 0.0:
            losses = _without_noise(self.column.cell_logs(), first, second, self.notion)
        elif self.notion.is_pure:
            losses = supremum(self.column, self.noise.scaled(factor), first, second)
        else:
            level = self.noise.scaled(factor)
            losses = integral(self.column, level, first, second, self.notion)
        return losses.reshape(2, -1).T


_Group = _Vertices | _Points | _Layers | _Integrals


def _n_numbers(shape: Sequence[int], noise: Noise) -> int:
    """Return how many numbers vary."""
    mixings = noise.mixings or (None,) * len(shape)
    return sum(size > 1 and mixing is None for size, mixing in zip(shape, mixings, strict=True))


def _are_points(shape: Sequence[int], noise: Noise) -> bool:
    """Return whether all columns that vary are unordered."""
    return any(noise.mixings) and not _n_numbers(shape, noise)


def _n_lines(shape: Sequence[int], noise: Noise) -> int:
    """Return for how many categories there is a line of a number, 0 unless just one varies."""
    if not any(noise.mixings) or _n_numbers(shape, noise) != 1:
        return 0
    pairs = zip(shape, noise.mixings, strict=True)
    return math.prod(size for size, mixing in pairs if mixing is not None)


def _is_exact(shape: Sequence[int], noise: Noise, notion: Notion) -> bool:
    return notion.is_pure and (noise.has_vertices or _are_points(shape, noise))


def _grouped(
    pairs: Sequence[tuple[SimultaneousSet, SimultaneousSet]], noise: Noise, notion: Notion
) -> list[_Group]:
    """Gather the pairs by grid, so that sets which several of them share are treated once."""
    grids: dict[tuple[bytes, ...], list[int]] = {}
    key_of = {
        id(around): tuple(axis.tobytes() for axis in around.axes) for around in distinct(pairs)
    }
    for place, (p, q) in enumerate(pairs):
        key = key_of[id(p)]
        if key is not key_of[id(q)] and key != key_of[id(q)]:
            raise ValueError(
                f"pairs[{place}] must hold two sets over the same grid; declare one alphabet."
            )
        grids.setdefault(key, []).append(place)
    return [_group(pairs, members, noise, notion) for members in grids.values()]


def _group(
    pairs: Sequence[tuple[SimultaneousSet, SimultaneousSet]],
    members: list[int],
    noise: Noise,
    notion: Notion,
) -> _Group:
    sets, numbers = numbered([pairs[place] for place in members])
    shape = [len(axis) for axis in sets[0].axes]
    if not computable(shape, len(sets), noise, notion):
        raise ValueError(
            f"pairs must be sets that `computable` allows, got {len(sets)} on a grid of {shape} "
            f"cells under {noise!r} and {notion!r}; use the loss of a shift across the grid."
        )
    p, q = np.ascontiguousarray(numbers.T)
    if any(noise.mixings):
        return _mixed_group(sets, np.array(members), (p, q), noise, notion)
    if _is_exact(shape, noise, notion):
        return _Vertices(np.array(members), (p, q), Extremes(sets, noise.axis_scales(len(shape))))
    return _Integrals(np.array(members), (p, q), ColumnSets(sets), noise, notion)


def _mixed_group(
    sets: Sequence[SimultaneousSet],
    members: Integers,
    sides: tuple[Integers, Integers],
    noise: Noise,
    notion: Notion,
) -> _Group:
    shape = [len(axis) for axis in sets[0].axes]
    if _is_exact(shape, noise, notion):
        return _Vertices(members, sides, MixedExtremes(sets, noise))
    if _n_numbers(shape, noise) == 0:
        return _Points(members, sides, MixedExtremes(sets, noise), notion)
    return _Layers(members, sides, cell_logs(sets), SetLayers(sets, noise), notion)


def _without_noise(
    logs: FloatArray, first: Integers, second: Integers, notion: Notion
) -> FloatArray:
    """Return losses of the values themselves, from the log extremes (2, n_sets, n) of cells."""
    most, least = logs[0, first], logs[1, second]
    sizes = [np.where(np.isfinite(part), np.abs(part), 0.0) for part in (most, least)]
    divergence = notion.divergence
    epsilon = divergence.epsilon if isinstance(divergence, HockeyStick) else notion.epsilon
    error = 16.0 * UNIT * (1.0 + epsilon + sizes[0] + sizes[1])
    with np.errstate(invalid="ignore", over="ignore"):
        if notion.is_pure:
            return _largest(most - least + error)
        if isinstance(divergence, PowerMean):
            order = divergence.order
            total = np.logaddexp.reduce(most + order * (most - least + error) + error, axis=1)
            renyi = np.maximum((total + 1e-12 * (1.0 + np.abs(total))) / order, 0.0)
            return np.where(np.isnan(renyi), np.inf, renyi)
        excess = np.maximum(most - least - epsilon + error, 0.0)
        deltas: FloatArray = (np.exp(most) * -np.expm1(-excess)).sum(axis=1)
    return np.minimum(deltas * (1.0 + 1e-10), 1.0)


def _largest(ratios: FloatArray) -> FloatArray:
    """Return the largest log ratio of each pair, at least 0: both densities have mass one."""
    largest: FloatArray = np.maximum(ratios.max(axis=1), 0.0)
    return largest
