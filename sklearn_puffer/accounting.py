r"""The exact privacy loss of a release, as an interval that holds the truth.

For discrete priors, pure epsilon and Laplace noise, all of which this module does itself, the
density of the released row is proportional to

.. math:: h_p(y) = \sum_x p(x) e^{-\sum_k |x_k - y_k| / \theta_k}

and the loss from p to q is the supremum of log h_p / h_q over all real y. Along one axis, between
two neighbouring atoms, both densities are of the form a e^t + b e^-t, so their ratio is a Moebius
function of e^2t, hence monotone, and it is constant outside the atoms: the supremum is attained at
an atom. Applied to one axis after the other: at a vertex of the grid that the axes' atoms span.

Every other notion, noise and prior is left to `_losses.pair_losses`, one pair at a time.
"""

# From the sums to an interval. The logs of h_p and h_q are each wrong by at most the bound r that
# `_losses.convolution` proves, so their difference is wrong by at most 2r. Taking it, with u =
# 2^-53:
#
# - in floats: one division, u, and one logarithm, 4u of its result;
# - in wide numbers: D = K log 2 + log(m/m'), K an exact difference of integers, m/m' in [1/2, 2];
#   the product, 3u of |K log 2| <= |loss| + log 2; the quotient, u; the logarithm, 4u log 2; a sum.
#
# Together 2r + u (10 + 5 |loss|): the supremum of the true ratios lies within that distance of the
# supremum of the computed ones.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import log, prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sklearn_puffer._base import LN2, UNIT, FloatArray, IntArray, counted
from sklearn_puffer._losses import (
    DiscreteBoxes,
    DiscreteLine,
    GaussianRows,
    Grid,
    MixtureLine,
    PairLoss,
    Panels,
    Wide,
    boxes_computable,
    rows_computable,
)
from sklearn_puffer.noise import Laplace, Noise, is_family
from sklearn_puffer.notions import Notion, Pufferfish, check_notion
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair, distinct, numbered

__all__ = ["MAX_CELLS", "Loss", "LossTable", "is_computable", "privacy_loss"]

Ends = tuple[FloatArray, FloatArray]

MAX_CELLS = 2**17
"""Largest joint grid (two or more columns) on which the exact loss is computed."""

_PURE = Pufferfish(1.0)
_LAPLACE = Laplace(1.0)
# Above this many numbers (cells times priors) pairs are treated one by one, not on a common grid.
_MAX_TABLE = 2**24
# Ratios are formed for so many cells at a time: they stay in the cache, and the C library keeps
# the memory (64 KiB) instead of handing it back to the system each time.
_TILE = 2**13
# Sums in floats must exceed this where an interval is wanted: their error grows with the logarithm.
_CERTIFIED_FLOOR = 2.0**-256
# Distances beyond this could overflow.
_LONGEST_SPAN = 2.0**1022
# Masses below this are held with an exponent of their own.
_SMALLEST_MASS = 2.0**-900


@dataclass(frozen=True)
class Loss:
    """An interval that contains the privacy loss, in the notion's unit.

    Parameters
    ----------
    lower, upper : float
        The two ends.

    Notes
    -----
    *Formal guarantees.* The true loss is at least ``lower`` and at most ``upper``; rounding errors
    are bounded and accounted for.

    Examples
    --------
    A value that is either 0 or 3 loses 3/2 under Laplace noise of scale 2:

    >>> from sklearn_puffer.accounting import privacy_loss
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> loss = privacy_loss(
    ...     Discrete([0], [1.0]), Discrete([3], [1.0]), Laplace(2.0), Pufferfish(epsilon=2.0)
    ... )
    >>> loss.lower <= 1.5 <= loss.upper < 1.5 + 1e-12
    True
    """

    lower: float
    upper: float


def privacy_loss(p: Prior, q: Prior, noise: Noise, notion: Notion) -> Loss:
    r"""Return the exact privacy loss between two priors, the larger of both directions.

    With h_p and h_q the released densities, pure, up to a delta, and Renyi:

    .. math:: \sup_y \log \frac{h_p}{h_q}, \qquad \int (h_p - e^\varepsilon h_q)_+, \qquad
              \frac{1}{\alpha - 1} \log \int h_p^\alpha h_q^{1 - \alpha}

    Parameters
    ----------
    p, q : Discrete or GaussianMixture
        P(X | s_i) and P(X | s_j), of one kind, over the same columns; their atoms may differ.
    noise : Noise
        One scale for all columns, or one a column.
    notion : Pufferfish or RenyiPufferfish
        The notion of privacy in which the loss is measured.

    Returns
    -------
    Loss
        In nats, or a probability where the notion has an epsilon and a delta. For one discrete
        column ``upper - lower`` is about 1e-10 of the loss (pure with Laplace noise: 1e-13), for
        two at most 1e-3 of it, or 1e-5 of the budget, unless 2^18 boxes are too few; a delta is
        told to 6e-12 at best there.

    Raises
    ------
    TypeError
        If a prior, the noise or the notion is of another family.
    ValueError
        If the priors describe different numbers of columns, or `is_computable` is False.

    Notes
    -----
    *Formal guarantees.* The interval contains the loss over all real y, not over a sample of them:
    rounding, discretisation and tails are bounded. Under the approximate Renyi notion it is the
    upper end that counts, and the lower one is 0.

    References
    ----------
    000, Def. 2.1; the Moebius argument is in this module's header.

    Examples
    --------
    Two priors on two points, one apart; the noise has scale 1/2.

    >>> from sklearn_puffer.accounting import privacy_loss
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> loss = privacy_loss(
    ...     Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]),
    ...     Laplace(0.5), Pufferfish(epsilon=1.0),
    ... )
    >>> round(loss.upper, 6)
    0.479322
    >>> 0 <= loss.upper - loss.lower < 1e-13
    True
    """
    lower, upper = LossTable([PriorPair(p, q)], notion).intervals(noise)
    return Loss(float(lower.max()), float(upper.max()))


def grid_cells(priors: Sequence[Discrete]) -> int:
    """Return how many cells the grid has that the atoms of all ``priors`` span.

    Atoms without mass in any of the priors do not count.

    >>> grid_cells([Discrete([[0, 0], [1, 5]], [0.5, 0.5]), Discrete([[2, 0]], [1.0])])
    6
    """
    return _layout(priors).cells


def plane_cells(priors: Sequence[Discrete]) -> int:
    """Return how many cells the grid has of priors that vary in more than one column; else 0.

    >>> plane_cells([Discrete([[0, 7], [1, 7]], [0.5, 0.5])])
    0
    """
    layout = _layout(priors)
    return 0 if layout.is_line else layout.cells


def is_computable(priors: Sequence[Prior], noise: Noise = _LAPLACE, notion: Notion = _PURE) -> bool:
    """Return whether the loss is computed for these priors, this noise and this notion.

    In one column it always is. In several: discrete priors on a small grid, for pure epsilon with
    Laplace noise or in two columns, and Gaussian priors where a closed form exists.

    Parameters
    ----------
    priors : sequence of Discrete or GaussianMixture
        All of them are to be told apart.
    noise : Noise, default=Laplace(1.0)
        Its scale does not matter.
    notion : Pufferfish or RenyiPufferfish, default=Pufferfish(1.0)
        Its budget does not matter.

    Returns
    -------
    bool
        Where it is False, `bounds` has theorems instead.

    Examples
    --------
    Three columns under Laplace noise, and under Gaussian noise with a delta:

    >>> from sklearn_puffer.accounting import is_computable
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> rows = [Discrete([[0, 0, 0], [1, 5, 2]], [0.5, 0.5]), Discrete([[0, 1, 2]], [1.0])]
    >>> is_computable(rows)
    True
    >>> from sklearn_puffer.noise import Gaussian
    >>> is_computable(rows, Gaussian(1.0), Pufferfish(1.0, delta=1e-5))
    False
    """
    if not all(isinstance(prior, Discrete) for prior in priors):
        return _mixtures_computable(priors, noise, notion)
    discrete = cast(Sequence[Discrete], priors)
    layout = _layout(discrete)
    if noise.is_exponential and notion.is_pure:
        return layout.is_computable
    return layout.is_line or boxes_computable(discrete, noise, notion)


def all_computable(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> bool:
    """Return whether `is_computable` is true of the priors of each pair."""
    priors = distinct(pairs)
    # what is known on the grid that all of them span is known on the part that two of them span
    together = all(isinstance(prior, Discrete) for prior in priors)
    return (together and is_computable(priors, noise, notion)) or all(
        is_computable(pair, noise, notion) for pair in pairs
    )


def _mixtures_computable(priors: Sequence[Prior], noise: Noise, notion: Notion) -> bool:
    if not all(isinstance(prior, GaussianMixture) for prior in priors):
        return False
    mixtures = cast(Sequence[GaussianMixture], priors)
    if all(prior.n_axes == 1 for prior in mixtures):
        return True
    pairs = combinations(mixtures, 2)
    return all(rows_computable(p, q, noise, notion) for p, q in pairs)


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
    >>> table.losses(Laplace(2.0)).round(12).tolist()
    [[1.5, 1.5]]
    """

    def __init__(self, pairs: Sequence[PriorPair], notion: Notion = _PURE) -> None:
        pairs = [p if isinstance(p, PriorPair) else PriorPair(*p) for p in pairs]
        check_notion(notion)
        self._priors, self._numbers = numbered(pairs)
        _check_priors(pairs, self._priors)
        self._pairs, self._notion = pairs, notion
        self._lines: dict[int, PairLoss] = {}
        self._last: dict[int, tuple[Noise, Ends]] = {}  # the last interval of each pair
        # too large a grid is refused here, before anything else
        self._groups = self._grouped() if notion.is_pure and self._are_discrete else []

    @property
    def pairs(self) -> Sequence[PriorPair]:
        """The pairs of priors."""
        return self._pairs

    @property
    def notion(self) -> Notion:
        """The notion in whose unit losses are."""
        return self._notion

    def losses(self, noise: Noise) -> FloatArray:
        """Return the best estimates, no bounds: of the loss from p to q, then from q to p.

        Parameters
        ----------
        noise : Noise
            With the scales that are asked about.

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            In the unit of the notion's budget.
        """
        _check_noise(noise)
        if self._on_grids(noise):
            return self._collected([group.losses(noise) for group in self._groups])
        lower, upper = self.intervals(noise)
        with np.errstate(invalid="ignore"):
            middle = lower + 0.5 * (upper - lower)
        known = np.isfinite(upper) & (not self._notion.leaves_events_out)
        return np.where(known, middle, upper)

    def intervals(self, noise: Noise) -> tuple[FloatArray, FloatArray]:
        """Return proven lower and upper ends of the same losses.

        Those of pairs that `interval` was last asked about with a budget, for this noise, are what
        it has found: away from the budget they may be 1e-6 of it wide.

        Parameters
        ----------
        noise : Noise
            With the scales that are asked about.

        Returns
        -------
        tuple of two ndarrays of shape (n_pairs, 2)
            From p to q, then from q to p.
        """
        _check_noise(noise)
        if self._on_grids(noise):
            ends = [group.intervals(noise) for group in self._groups]
            return self._collected([low for low, _ in ends]), self._collected(
                [up for _, up in ends]
            )
        found = np.empty((2, len(self._pairs), 2))
        for k in counted(range(len(self._pairs)), "losses of pairs"):
            found[:, k] = self.interval(k, noise)
        return found[0], found[1]

    def interval(self, k: int, noise: Noise, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends of the losses of one pair.

        Where a budget is given, and the larger loss is well on one side of it, they may be farther
        apart: 1e-6 of the budget (or of the loss, if that is larger) in one column, and in two as
        far as leaves them on that side. The former are remembered for the same noise.

        Parameters
        ----------
        k : int
            Position of the pair.
        noise : Noise
            With the scales that are asked about.
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
        if k in self._last and self._last[k][0] == noise:
            return self._last[k][1]
        line = self._line(k)
        ends = line.interval(noise, self._notion, budget)
        if budget is None or not isinstance(line, DiscreteBoxes):
            self._last[k] = noise, ends
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
        known = range(len(self._pairs)) if not self._on_grids(noise) else range(0)
        return any(isinstance(self._line(k), DiscreteBoxes) for k in known)

    def without_noise(self) -> FloatArray:
        """Return what the losses tend to without any noise.

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            Rounded up; infinite where only one of two priors has mass.
        """
        if self._groups:
            return self._collected([group.without_noise() for group in self._groups])
        limits = np.empty((len(self._pairs), 2))
        for k in range(len(self._pairs)):
            limits[k] = self._line(k).without_noise(self._notion)
        return limits

    def panels(self, noise: Noise) -> list[Panels]:
        """Return panels that cover the line for each pair, where the priors are of one column.

        Parameters
        ----------
        noise : Noise
            With the scales that are asked about.

        Returns
        -------
        list of Panels
            From p to q; their ``swapped`` is from q to p.
        """
        _check_noise(noise)
        return [self._line(k).panels(noise, self._notion) for k in range(len(self._pairs))]

    def _grouped(self) -> list[_Group]:
        linked = _linked(self._numbers)
        return [
            group for members in linked for group in _groups(self._priors, self._numbers, members)
        ]

    @cached_property
    def _are_discrete(self) -> bool:
        return all(isinstance(prior, Discrete) for prior in self._priors)

    def _on_grids(self, noise: Noise) -> bool:
        return noise.is_exponential and bool(self._groups)

    def _line(self, k: int) -> PairLoss:
        if k not in self._lines:
            self._lines[k] = _pair_loss(self._pairs[k])
        return self._lines[k]

    def _collected(self, parts: list[FloatArray]) -> FloatArray:
        """Put the rows of all groups into the order of the pairs."""
        if len(parts) == 1:
            return parts[0]
        rows = np.empty((len(self._pairs), 2))
        for group, part in zip(self._groups, parts, strict=True):
            rows[group.members] = part
        return rows


def _pair_loss(pair: PriorPair) -> PairLoss:
    """Return what computes the loss of one pair."""
    p, q = pair
    if isinstance(p, GaussianMixture):
        return MixtureLine(p, q) if p.n_axes == 1 else GaussianRows(p, q)
    layout = _layout([p, q])
    if not layout.is_line:
        return DiscreteBoxes(p, q)
    axis = max(range(len(layout.axes)), key=lambda k: len(layout.axes[k]))
    _check_spans(layout)
    return DiscreteLine(p, q, layout.axes[axis], _grid([p, q], layout), axis)


class _Group:
    """Pairs whose priors share one grid.

    Parameters
    ----------
    priors : sequence of Discrete
    members : ndarray of int of shape (n,)
        The places of this group's pairs in the table.
    numbers : ndarray of int of shape (n, 2)
        Which two priors each of them holds.
    grid : Grid or None
        None to build it anew for each evaluation: groups are many, and their grids too large to be
        held together, where one common grid would be.
    """

    def __init__(
        self, priors: Sequence[Discrete], members: IntArray, numbers: IntArray, grid: Grid | None
    ) -> None:
        self.members = members
        self._priors = priors
        self._p, self._q = np.ascontiguousarray(numbers.T)
        self._held = grid

    def losses(self, noise: Noise) -> FloatArray:
        grid = self._grid()
        theta = np.maximum(noise.axis_scales(grid.n_axes), grid.shortest_scales)
        sums = grid.sums(theta)
        return self._suprema(grid.wide_sums(theta) if sums is None else sums)

    def intervals(self, noise: Noise) -> tuple[FloatArray, FloatArray]:
        grid = self._grid()
        asked = noise.axis_scales(grid.n_axes)
        theta = np.maximum(asked, grid.shortest_scales)
        sums = grid.sums(theta, _CERTIFIED_FLOOR)
        if sums is None:
            losses = self._suprema(grid.wide_sums(theta))
            error = grid.wide_rounding(theta)
        else:
            losses = self._suprema(sums)
            error = grid.rounding(log(sums.min()))
        margin = 2.0 * error + UNIT * (10.0 + 5.0 * losses)
        upper = np.nextafter(losses + margin, np.inf)
        if np.any(theta > asked):
            # The loss at a shorter scale than was computed with is at most that without noise.
            upper = np.maximum(upper, self.without_noise())
        return np.maximum(np.nextafter(losses - margin, -np.inf), 0.0), upper

    def without_noise(self) -> FloatArray:
        return self._suprema(self._grid().masses())

    def _grid(self) -> Grid:
        return self._held or _grid(self._priors, _layout(self._priors))

    def _suprema(self, sums: FloatArray | Wide) -> FloatArray:
        """Return the largest log ratio of each pair, both ways; neither is ever negative."""
        suprema = np.empty((len(self.members), 2))
        n_pairs = max(1, _TILE // sums.shape[1])
        for start in range(0, len(suprema), n_pairs):
            tile = slice(start, start + n_pairs)
            p, q = _selection(self._p[tile]), _selection(self._q[tile])
            if isinstance(sums, Wide):
                _wide_extremes(sums[p], sums[q], out=suprema[tile])
            else:
                _extremes(sums[p], sums[q], out=suprema[tile])
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


def _wide_extremes(p: Wide, q: Wide, out: FloatArray) -> None:
    """Write the same for normalised wide numbers; places where both are zero do not count."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p.mantissa / q.mantissa)
        ratio += (p.exponent - q.exponent) * LN2
    ratio[(p.mantissa == 0.0) & (q.mantissa == 0.0)] = 0.0
    ratio.max(axis=1, out=out[:, 0])
    np.negative(ratio.min(axis=1), out=out[:, 1])


def _groups(
    all_priors: Sequence[Discrete], numbers: IntArray, members: IntArray, keep: bool = True
) -> list[_Group]:
    """Put linked pairs on one common grid, or each on its own where the common one is too large."""
    used, own = np.unique(numbers[members], return_inverse=True)
    priors, own = [all_priors[k] for k in used.tolist()], own.reshape(-1, 2)
    layout = _layout(priors)
    alone = len(members) == 1
    if alone and not layout.is_computable:
        raise ValueError(
            f"the joint grid of {len(layout.axes)} columns has {layout.cells:,} cells, and the "
            f"exact loss is computed on at most {MAX_CELLS:,}; use fewer bins, groups of columns, "
            "or independence."
        )
    if alone or (layout.is_computable and layout.cells * len(priors) <= _MAX_TABLE):
        _check_spans(layout)
        return [_Group(priors, members, own, _grid(priors, layout) if keep else None)]
    each = np.split(members, len(members))
    return [group for one in each for group in _groups(all_priors, numbers, one, keep=False)]


def _check_spans(layout: _Layout) -> None:
    for atoms in layout.axes:
        if atoms[-1] / 2.0 - atoms[0] / 2.0 > _LONGEST_SPAN / 2.0:
            raise ValueError(
                f"atoms from {atoms[0]} to {atoms[-1]} lie too far apart; use another unit."
            )


def _linked(numbers: IntArray) -> list[IntArray]:
    """Return the places of pairs that are linked by common prior objects, group by group."""
    if len(numbers) < 2:
        return [np.arange(len(numbers))] if len(numbers) else []
    shape = (numbers.max() + 1,) * 2
    links = coo_array((np.ones(len(numbers)), tuple(numbers.T)), shape=shape)
    group_of = connected_components(links, directed=False)[1][numbers[:, 0]]
    order = np.argsort(group_of, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


class _Layout(NamedTuple):
    """The grid that priors span, and where on it, row-major, the atoms of each lie."""

    axes: list[FloatArray]
    places: list[IntArray]

    @property
    def cells(self) -> int:
        return prod(len(atoms) for atoms in self.axes)

    @property
    def is_line(self) -> bool:
        """Whether all but one column are constant."""
        return sum(len(atoms) > 1 for atoms in self.axes) <= 1

    @property
    def is_computable(self) -> bool:
        """Whether it is a line, which no product can make large, or a grid within the limit."""
        return self.is_line or self.cells <= MAX_CELLS


def _layout(priors: Sequence[Discrete]) -> _Layout:
    first = priors[0].rows
    if priors[0].n_axes == 1 and all(np.array_equal(prior.rows, first) for prior in priors[1:]):
        return _shared_layout(first[:, 0], [prior.counts > 0 for prior in priors])
    supports = [_with_mass(prior, prior.rows) for prior in priors]
    atoms, places = _merged([rows[:, 0] for rows in supports])
    axes = [atoms]
    for k in range(1, priors[0].n_axes):
        atoms, columns = _merged([rows[:, k] for rows in supports])
        places = [p * len(atoms) + column for p, column in zip(places, columns, strict=True)]
        axes.append(atoms)
    return _Layout(axes, places)


def _shared_layout(atoms: FloatArray, with_mass: list[NDArray[np.bool_]]) -> _Layout:
    """Lay out priors over the same atoms of one column, by the atoms that have mass in each."""
    if all(positive.all() for positive in with_mass):
        return _Layout([atoms], [np.arange(len(atoms))] * len(with_mass))
    kept = np.logical_or.reduce(with_mass)
    place = np.cumsum(kept) - 1
    return _Layout([atoms[kept]], [place[positive] for positive in with_mass])


def _with_mass(prior: Discrete, values: NDArray[Any]) -> NDArray[Any]:
    """Return the entries of ``values`` that belong to atoms with mass."""
    positive = prior.counts > 0
    return values if positive.all() else values[positive]


def _merged(parts: list[FloatArray]) -> tuple[FloatArray, list[IntArray]]:
    """Return the sorted union of ``parts``, and the place of each of their numbers in it."""
    if len(parts) == 1 and np.all(parts[0][1:] > parts[0][:-1]):
        return parts[0], [np.arange(len(parts[0]))]
    values = np.concatenate(parts)
    # A stable sort merges runs that are sorted already, and is linear where there are few.
    order = np.argsort(values, kind="stable")
    values = values[order]
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(new) - 1
    return values[new], np.split(places, np.cumsum([len(part) for part in parts[:-1]]))


def _grid(priors: Sequence[Discrete], layout: _Layout) -> Grid:
    shape = (len(priors), layout.cells)
    masses, exponents = np.zeros(shape), None
    for row, (prior, places) in enumerate(zip(priors, layout.places, strict=True)):
        values = _with_mass(prior, prior.probabilities)
        # Atoms are sorted as cells are: where all cells have mass, their order is the same.
        cells = slice(None) if len(values) == layout.cells else places
        if values.min() < _SMALLEST_MASS:
            exponents = np.zeros(shape, np.int64) if exponents is None else exponents
            values, exponents[row, cells] = _scaled(_with_mass(prior, prior.counts), prior.total)
        masses[row, cells] = values
    return Grid(layout.axes, masses, exponents)


def _scaled(counts: NDArray[Any], total: int) -> tuple[FloatArray, IntArray]:
    """Return counts/total as floats near one and powers of two, from Python's exact integers."""
    shifts = [total.bit_length() - int(count).bit_length() for count in counts]
    masses = [(int(count) << shift) / total for count, shift in zip(counts, shifts, strict=True)]
    return np.array(masses), -np.array(shifts)


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


def _check_noise(noise: Noise) -> None:
    if not is_family(noise):
        raise TypeError(f"noise must be an object of a noise family, got {noise!r}.")
