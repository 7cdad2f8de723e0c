"""The exact losses of many pairs of priors at once, for one noise after another."""

# From the sums to an interval. The logs of h_p and h_q are each wrong by at most the bound r that
# `_losses.convolution` proves, so their difference is wrong by at most 2r. Taking it, with u =
# 2^-53:
#
# - in floats: one division, u, and one logarithm, 4u of its result;
# - in logs: one difference, u of it.
#
# Together 2r + u (10 + 5 |loss|): the supremum of the true ratios lies within that distance of the
# supremum of the computed ones.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import log

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sklearn_puffer._base import FloatArray, IntArray, counted
from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer._losses.divergences import Ends, Panels
from sklearn_puffer._losses.joint_grids import MAX_CELLS, Layout, layout_of, with_mass
from sklearn_puffer._losses.pair_losses import (
    CategoryLayers,
    DiscreteBoxes,
    DiscreteLine,
    GaussianRows,
    KeptColumns,
    Mixings,
    MixtureLine,
    PairLoss,
    log_share,
)
from sklearn_puffer._noise import Unchanged
from sklearn_puffer._numerics import UNIT
from sklearn_puffer.noise import Noise, check_noise
from sklearn_puffer.notions import Notion, Pufferfish, check_notion
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair, numbered

_PURE = Pufferfish(1.0)
# Above this many numbers (cells times priors) pairs are treated one by one, not on a common grid.
_MAX_TABLE = 2**24
# Ratios are formed for so many cells at a time: they stay in the cache, and the C library keeps
# the memory (64 KiB) instead of handing it back to the system each time.
_TILE = 2**13
# Sums in floats must exceed this where an interval is wanted: their error grows with the logarithm.
_CERTIFIED_FLOOR = 2.0**-256
# Distances beyond this could overflow.
_LONGEST_SPAN = 2.0**1022
# Intervals of a pair that are remembered: a search asks last for either end of its bracket.
_REMEMBERED = 2
# Where a mass is below this, logs are held.
_SMALLEST_MASS = 2.0**-900


class LossTable:
    """The exact losses of many pairs of priors, for one noise after another.

    Parameters
    ----------
    pairs : sequence of PriorPair
        A prior object that appears in several pairs is convolved with the noise once.
    notion : Pufferfish or RenyiPufferfish, default=Pufferfish(1.0)
        Losses are in its unit: nats, or a probability where it has an epsilon and a delta.

    Raises
    ------
    TypeError
        If a prior, the noise or the notion is of another family.
    ValueError
        If two priors of a pair, or linked by pairs, describe different numbers of columns, or the
        joint grid of a pair has more than `MAX_CELLS` cells (said before anything is allocated).

    Examples
    --------
    >>> from sklearn_puffer.accounting import LossTable
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> table = LossTable([PriorPair(Discrete([0], [1.0]), Discrete([3], [1.0]))])
    >>> lower, upper = table.intervals(Laplace(2.0))
    >>> lower.round(12).tolist(), upper.round(12).tolist()
    ([[1.5, 1.5]], [[1.5, 1.5]])
    """

    def __init__(self, pairs: Sequence[PriorPair], notion: Notion = _PURE) -> None:
        check_notion(notion)
        self._priors, self._numbers = numbered(pairs)
        _check_priors(pairs, self._priors)
        self.pairs, self.notion = pairs, notion
        self._lines: dict[tuple[int, Mixings], PairLoss] = {}
        self._last: dict[int, list[tuple[Noise, Ends]]] = {}  # the last intervals of each pair
        # too large a grid is refused here, before anything else
        discrete = all(isinstance(prior, Discrete) for prior in self._priors)
        linked = _linked(self._numbers) if notion.is_pure and discrete else []
        self._groups = [
            group for members in linked for group in _groups(self._priors, self._numbers, members)
        ]

    def intervals(self, noise: Noise) -> tuple[FloatArray, FloatArray]:
        """Return proven lower and upper ends of the loss from p to q, then from q to p.

        Parameters
        ----------
        noise : Noise
            With its scales.

        Returns
        -------
        tuple of two ndarrays of shape (n_pairs, 2)
            From p to q, then from q to p.
        """
        check_noise(noise)
        if self._on_grids(noise):
            groups = counted(self._groups, "groups of pairs")
            ends = [group.intervals(noise) for group in groups]
            lower, upper = (self._collected(list(side)) for side in zip(*ends, strict=True))
            return lower, upper
        lower, upper = np.empty((2, len(self.pairs), 2))
        for k in counted(range(len(self.pairs)), "losses of pairs"):
            lower[k], upper[k] = self.interval(k, noise)
        return lower, upper

    def interval(self, k: int, noise: Noise, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends of the losses of one pair.

        Where a budget is given those of two columns may be as far apart as leaves them on one side
        of it; all others are remembered.

        Parameters
        ----------
        k : int
            Position of the pair.
        noise : Noise
            With its scales.
        budget : float, optional
            What the losses will be held against.

        Returns
        -------
        tuple of two ndarrays of shape (2,)
            From p to q, then from q to p.
        """
        if self._on_grids(noise):
            lower, upper = self.intervals(noise)
            return lower[k], upper[k]
        p, q = self.pairs[k]
        if p == q:
            return np.zeros(2), np.zeros(2)
        for known, ends in self._last.get(k, []):
            if known == noise:
                return ends
        line = self._line(k, noise.mixings)
        ends = line.interval(noise, self.notion, budget)
        if budget is None or not isinstance(line, DiscreteBoxes | KeptColumns):
            self._last[k] = [(noise, ends), *self._last.get(k, [])[: _REMEMBERED - 1]]
        return ends

    def one_by_one(self, noise: Noise) -> bool:
        """Return whether the losses of a pair cost as much alone as among the others.

        Parameters
        ----------
        noise : Noise
            Its scale does not matter.

        Returns
        -------
        bool
            False where pairs share a grid.
        """
        return not self._on_grids(noise)

    def on_planes(self, noise: Noise) -> bool:
        """Return whether losses are those of two columns cut into boxes, which are rougher.

        Parameters
        ----------
        noise : Noise
            Its scale does not matter.

        Returns
        -------
        bool
            True if that is so for any pair.
        """
        rough = DiscreteBoxes | CategoryLayers | KeptColumns
        lines = (self._line(k, noise.mixings) for k in range(len(self.pairs)))
        return not self._on_grids(noise) and any(isinstance(line, rough) for line in lines)

    def without_noise(self) -> FloatArray:
        """Return the limits of the losses as the noise vanishes.

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            To a few units in the last place of logs; infinite where one prior alone has mass.
        """
        if self._groups:
            return self._collected([group.without_noise() for group in self._groups])
        limits = [self.pair_without_noise(k) for k in range(len(self.pairs))]
        return np.array(limits).reshape(-1, 2)

    def pair_without_noise(self, k: int) -> FloatArray:
        """Return the limits of the losses of one pair as the noise vanishes.

        Parameters
        ----------
        k : int
            Position of the pair.

        Returns
        -------
        ndarray of shape (2,)
            As a row of `without_noise`.
        """
        if self._groups:
            return np.asarray(self.without_noise()[k])
        p, q = self.pairs[k]
        return np.zeros(2) if p == q else self._line(k, ()).without_noise(self.notion)

    def panels(self, noise: Noise) -> list[Panels]:
        """Return panels that cover the line for each pair, where the priors are of one column.

        Parameters
        ----------
        noise : Noise
            With its scales.

        Returns
        -------
        list of Panels
            From p to q; their ``swapped`` is from q to p.
        """
        check_noise(noise)
        lines = [self._line(k, noise.mixings) for k in range(len(self.pairs))]
        return [line.panels(noise, self.notion) for line in lines]

    def _on_grids(self, noise: Noise) -> bool:
        return noise.has_vertices and bool(self._groups)

    def _line(self, k: int, mixings: Mixings) -> PairLoss:
        if (k, mixings) not in self._lines:
            self._lines[k, mixings] = _pair_loss(self.pairs[k], mixings)
        return self._lines[k, mixings]

    def _collected(self, parts: list[FloatArray]) -> FloatArray:
        """Put the rows of all groups into the order of the pairs."""
        if len(parts) == 1:
            return parts[0]
        rows = np.empty((len(self.pairs), 2))
        for group, part in zip(self._groups, parts, strict=True):
            rows[group.members] = part
        return rows


def _pair_loss(pair: PriorPair, mixings: Mixings) -> PairLoss:
    """Return what computes the loss of one pair."""
    p, q = pair
    if isinstance(p, GaussianMixture):
        return MixtureLine(p, q) if p.n_axes == 1 else GaussianRows(p, q)
    if any(isinstance(mixing, Unchanged) for mixing in mixings):
        return KeptColumns(p, q, mixings, _pair_loss)
    if any(mixings):
        return CategoryLayers(p, q, mixings)
    layout = layout_of([p, q])
    if not layout.is_line:
        return DiscreteBoxes(p, q)
    axis = max(range(len(layout.axes)), key=lambda k: len(layout.axes[k]))
    _check_spans(layout)
    return DiscreteLine(layout.axes[axis], _grid([p, q], layout), axis)


class _Group:
    """Pairs whose priors share one grid.

    Parameters
    ----------
    priors : sequence of Discrete
    members : ndarray of int of shape (n,)
        The positions of this group's pairs in the table.
    numbers : ndarray of int of shape (n, 2)
        Which two priors each of them holds.
    grid : PriorGrid or None
        None to build it anew for each evaluation: groups are many, and their grids too large to be
        held together, where one common grid would be.
    """

    def __init__(
        self,
        priors: Sequence[Discrete],
        members: IntArray,
        numbers: IntArray,
        grid: PriorGrid | None,
    ) -> None:
        self.members = members
        self._priors = priors
        self._p, self._q = np.ascontiguousarray(numbers.T)
        self._held = grid
        self._mixings: Mixings = ()

    def intervals(self, noise: Noise) -> tuple[FloatArray, FloatArray]:
        grid = self._grid(noise.mixings)
        scales = noise.axis_scales(grid.n_axes)
        theta = np.maximum(scales, grid.shortest_scales)
        sums = grid.sums(theta, _CERTIFIED_FLOOR)
        if sums is None:
            return self._intervals_of_logs(grid, theta, bool(np.any(theta > scales)))
        losses = self._suprema(sums, _extremes)
        margin = 2.0 * grid.rounding(log(sums.min())) + UNIT * (10.0 + 5.0 * losses)
        lower = np.nextafter(losses - margin, -np.inf)
        return np.maximum(lower, 0.0), np.nextafter(losses + margin, np.inf)

    def _intervals_of_logs(
        self, grid: PriorGrid, theta: FloatArray, is_shorter: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends by logs; only the upper one without noise holds at shorter scales."""
        logs, (relative, more) = grid.log_sums(theta), grid.log_rounding
        lower, upper = (
            self._suprema(logs, partial(_log_extremes, spare=side * relative)) for side in (-1, 1)
        )
        lower -= np.where(np.isinf(lower), 0.0, 2.0 * more + UNIT * (10.0 + 5.0 * lower))
        upper += 2.0 * more + UNIT * (10.0 + 5.0 * upper)
        masses = np.abs(grid.log_masses[np.isfinite(grid.log_masses)])
        limit = self.without_noise()
        limit += UNIT * (16.0 + 8.0 * (limit + masses.max()))
        return np.maximum(lower, 0.0), limit if is_shorter else np.minimum(upper, limit)

    def without_noise(self) -> FloatArray:
        return self._suprema(self._grid(self._mixings).log_masses, _log_extremes)

    def _grid(self, mixings: Mixings) -> PriorGrid:
        """Return the grid whose unordered axes are mixed; the last one is kept."""
        if self._held is not None and mixings == self._mixings:
            return self._held
        grid = _grid(self._priors, layout_of(self._priors), mixings)
        if self._held is not None:
            self._held, self._mixings = grid, mixings
        return grid

    def _suprema(self, sums: FloatArray, write: Callable[..., None]) -> FloatArray:
        """Return the largest log ratio of each pair, both ways; neither is ever negative."""
        suprema = np.empty((len(self.members), 2))
        n_pairs = max(1, _TILE // sums.shape[1])
        for start in range(0, len(suprema), n_pairs):
            tile = slice(start, start + n_pairs)
            p, q = _selection(self._p[tile]), _selection(self._q[tile])
            write(sums[p], sums[q], out=suprema[tile])
        return np.maximum(suprema, 0.0, out=suprema)


def _selection(rows: IntArray) -> IntArray | slice:
    """Return what selects ``rows``: for a single row a slice, which copies nothing."""
    return slice(rows[0], rows[0] + 1) if len(rows) == 1 else rows


def _extremes(p: FloatArray, q: FloatArray, out: FloatArray) -> None:
    """Write max log p/q and max log q/p of each row into ``out`` (n, 2), for positive floats."""
    ratio = p / q
    ratio.max(axis=1, out=out[:, 0])
    np.divide(1.0, ratio.min(axis=1), out=out[:, 1])
    np.log(out, out=out)


def _log_extremes(p: FloatArray, q: FloatArray, out: FloatArray, spare: float = 0.0) -> None:
    """Write the same for logs, each ratio with a share of both logs added.

    Cells where both are -inf do not count.
    """
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isneginf(p) & np.isneginf(q), 0.0, p - q)
    off = spare * np.where(np.isfinite(p) & np.isfinite(q), np.abs(p) + np.abs(q), 0.0)
    out[:, 0], out[:, 1] = (off + ratio).max(axis=1), (off - ratio).max(axis=1)


def _groups(
    all_priors: Sequence[Discrete], numbers: IntArray, members: IntArray, keep: bool = True
) -> list[_Group]:
    """Put linked pairs on one common grid, or each on its own where the common one is too large."""
    used, in_group = np.unique(numbers[members], return_inverse=True)
    priors = [all_priors[k] for k in used.tolist()]
    layout = layout_of(priors)
    alone = len(members) == 1
    if alone and not layout.is_computable:
        raise ValueError(
            f"the joint grid of {len(layout.axes)} columns has {layout.cells:,} cells, and the "
            f"exact loss is computed on at most {MAX_CELLS:,}; use fewer bins, groups of columns, "
            "or independence."
        )
    if alone or (layout.is_computable and layout.cells * len(priors) <= _MAX_TABLE):
        _check_spans(layout)
        grid = _grid(priors, layout) if keep else None
        return [_Group(priors, members, in_group.reshape(-1, 2), grid)]
    single = np.split(members, len(members))
    return [group for one in single for group in _groups(all_priors, numbers, one, keep=False)]


def _check_spans(layout: Layout) -> None:
    for atoms in layout.axes:
        if atoms[-1] / 2.0 - atoms[0] / 2.0 > _LONGEST_SPAN / 2.0:
            raise ValueError(
                f"atoms from {atoms[0]} to {atoms[-1]} lie too far apart; use another unit."
            )


def _linked(numbers: IntArray) -> list[IntArray]:
    """Return the positions of pairs that are linked by common prior objects, group by group."""
    if len(numbers) < 2:
        return [np.arange(len(numbers))] if len(numbers) else []
    shape = (numbers.max() + 1,) * 2
    links = coo_array((np.ones(len(numbers)), tuple(numbers.T)), shape=shape)
    group_of = connected_components(links, directed=False)[1][numbers[:, 0]]
    order = np.argsort(group_of, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


def _grid(priors: Sequence[Discrete], layout: Layout, mixings: Mixings = ()) -> PriorGrid:
    shape = (len(priors), layout.cells)
    masses, logs, smallest = np.zeros(shape), np.full(shape, -np.inf), 1.0
    for row, (prior, indices) in enumerate(zip(priors, layout.indices, strict=True)):
        values = with_mass(prior, prior.probabilities)
        # Atoms are sorted as cells are: where all cells have mass, their order is the same.
        cells = slice(None) if len(values) == layout.cells else indices
        masses[row, cells] = values
        smallest = min(smallest, float(values.min()))
    drawn = _shares(layout.axes, mixings)
    if smallest >= _SMALLEST_MASS:
        return PriorGrid(layout.axes, masses, shares=drawn)
    for row, (prior, indices) in enumerate(zip(priors, layout.indices, strict=True)):
        counts = with_mass(prior, prior.counts)
        logs[row, indices] = [log_share(int(count), prior.total) for count in counts]
    return PriorGrid(layout.axes, masses, logs, drawn)


def _shares(axes: Sequence[FloatArray], mixings: Mixings) -> list[FloatArray | None]:
    """Return for each unordered axis the shares that its atoms are drawn from.

    Other values of its alphabet have the ratios of the distributions of all other axes together,
    which are means of ratios at these atoms: no supremum lies there.
    """
    pairs = zip(mixings, axes, strict=True) if mixings else ()
    return [None if m is None else m.probabilities[m.codes_of(atoms)] for m, atoms in pairs]


def _check_priors(pairs: Sequence[PriorPair], priors: Sequence[Prior]) -> None:
    for prior in priors:
        if not isinstance(prior, Discrete | GaussianMixture):
            raise TypeError(
                f"an exact loss needs Discrete priors, got {prior!r}; "
                "discretise the column (n_bins) or use another strategy."
            )
    if len({(type(prior), prior.n_axes) for prior in priors}) == 1:
        return
    for p, q in pairs:
        if type(p) is not type(q):
            raise TypeError(
                f"the priors of a pair must be of one kind, got {p!r} and {q!r}; "
                "discretise the column (n_bins), or fit Gaussian mixtures to both."
            )
        if p.n_axes != q.n_axes:
            raise ValueError(
                f"the priors of a pair must describe the same columns, got {p!r} and {q!r}."
            )
