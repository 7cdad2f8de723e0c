r"""The worst privacy loss over all priors in simultaneous confidence sets around the counted ones.

The priors of the two secrets lie in their sets independently of each other, so

.. math:: \sup_{p, q} \sup_y \log \frac{h_p(y)}{h_q(y)}
          = \sup_y \Bigl( \log \sup_p h_p(y) - \log \inf_q h_q(y) \Bigr)

and both envelopes are linear programs over a tree of bounds. A greedy fill solves them: the largest
density takes as much mass as it may of the atoms nearest to y, the smallest of the farthest.

*Between points* of one column, for any noise, the envelopes are bounded by curvature. For fixed
distributions, with z = y - x over all atoms,

.. math:: c_- \le (\log h)'' = E[(\log K)''(z)] + \mathrm{Var}[(\log K)'(z)] \le c_+ + r^2/4,

where c_-, c_+ bound the curvature of log K and r is the range of its slope over the z of a panel.
A function with g'' >= -C lies below its chord plus C/2 times (y - a)(b - y), one with g'' <= C
above its chord minus that. Both bounds hold for the envelopes too, since a chord grows with the
values at its ends. (If slopes are at most M, the function also lies below its chord plus
2 M h t (1 - t) at the share t of the width h, at most M h / 2.)
"""

# Rounding. The envelopes at points are right as `_sets.density_ranges` says. Curvatures and slopes
# are right to `noise.ROUNDING`; they are raised by 1e-9 of themselves.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray, IntArray, Integers
from sklearn_puffer._numerics import UNIT, smallest_within
from sklearn_puffer._sets.density_ranges import (
    CategoryLayers,
    ColumnEnvelopes,
    NumberEnvelopes,
    VertexEnvelopes,
    cell_logs,
    log_excess,
    log_expm1,
    log_mean_exp,
)
from sklearn_puffer._sets.simultaneous_sets import SimultaneousSet, computable, is_exact, n_numbers
from sklearn_puffer.noise import ROUNDING, Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Supremum
from sklearn_puffer.priors import distinct, numbered

_RAISED = 1.0 + 1e-9
_SUPREMUM_TOLERANCE = 5e-7
_INTEGRAL_TOLERANCE = 1e-4
_MOST_PANELS = 2**14
_ROUNDS = 64
_MIXED_TOLERANCE = 1e-6


class _Panels(NamedTuple):
    """Panels of released values with the log envelopes at their ends."""

    low: FloatArray  # (n,)
    high: FloatArray
    at_low: FloatArray  # (2, n_sets, n)
    at_high: FloatArray

    @classmethod
    def between(cls, edges: FloatArray, column: NumberEnvelopes, noise: Noise) -> _Panels:
        logs = column.logs(edges, noise)
        return cls(edges[:-1], edges[1:], logs[..., :-1], logs[..., 1:])

    def halved(self, column: NumberEnvelopes, noise: Noise) -> _Panels:
        middle = 0.5 * self.low + 0.5 * self.high
        logs = column.logs(middle, noise)
        left = _Panels(self.low, middle, self.at_low, logs)
        return left.joined(_Panels(middle, self.high, logs, self.at_high))

    def taken(self, kept: NDArray[np.bool_]) -> _Panels:
        return _Panels(*(part[..., kept] for part in self))

    def joined(self, other: _Panels) -> _Panels:
        parts = zip(self, other, strict=True)
        return _Panels(*(np.concatenate(part, axis=-1) for part in parts))


def supremum(
    column: NumberEnvelopes, noise: Noise, first: IntArray, second: IntArray
) -> FloatArray:
    r"""Return upper bounds on the largest log ratio of each pair of sets, in one direction.

    .. math:: \sup_y \log \frac{\sup_p h_p(y)}{\inf_q h_q(y)}

    Parameters
    ----------
    column : NumberEnvelopes
    noise : Noise
    first, second : ndarray of shape (n_pairs,)
        The sets of p and of q.

    Returns
    -------
    ndarray of shape (n_pairs,)
        About 1e-6 of itself above the supremum; infinite where there is none.
    """
    if column.span == 0.0:
        return np.zeros(len(first))
    edges, tail = _edges_for_supremum(column, noise, first, second)
    panels = _Panels.between(edges, column, noise)
    best, settled = np.zeros(len(first)), tail
    for _ in range(_ROUNDS):
        upper, reached = _panel_suprema(panels, column, noise, first, second)
        best = np.maximum(best, reached)
        enough = np.maximum(best * (1.0 + _SUPREMUM_TOLERANCE) + 1e-13, settled)
        unsettled = np.any(upper > enough[:, None], axis=0)
        settled = np.maximum(settled, upper[:, ~unsettled].max(axis=1, initial=0.0))
        rest = upper[:, unsettled].max(axis=1, initial=0.0)
        if not unsettled.any() or np.count_nonzero(unsettled) > _MOST_PANELS:
            break
        panels = panels.taken(unsettled).halved(column, noise)
    return np.asarray(np.maximum(settled, rest))


def log_integral(
    column: NumberEnvelopes, noise: Noise, first: IntArray, second: IntArray, notion: Notion
) -> FloatArray:
    r"""Return the logs of upper bounds on the integrals of each pair of sets, in one direction.

    Of Renyi before the division:

    .. math:: \int \Bigl(\sup_p h_p - e^\varepsilon \inf_q h_q\Bigr)_+ \quad\text{or}\quad
              \frac{1}{\alpha - 1} \log \int (\sup_p h_p)^\alpha (\inf_q h_q)^{1 - \alpha}

    Parameters
    ----------
    column : NumberEnvelopes
    noise : Noise
    first, second : ndarray of shape (n_pairs,)
    notion : Notion
        Not a pure one.

    Returns
    -------
    ndarray of shape (n_pairs,)

    Notes
    -----
    *Formal guarantees.* No distribution in the sets loses more, since the envelopes bound each
    distribution at each point, both integrands grow with the first and fall with the second. It is
    not the supremum: the envelopes at different points belong to different distributions.
    """
    edges, log_tail = _edges_for_integral(column, noise, notion)
    panels = _Panels.between(edges, column, noise)
    floor = math.log(0.01 * notion.budget) if notion.is_chance else 0.0
    for _ in range(_ROUNDS):
        terms, likely, gaps = _log_terms(panels, column, noise, first, second, notion)
        total = np.logaddexp(np.logaddexp.reduce(terms, axis=1), log_tail)
        # chords decide where to cut: the bounds are far too large at first
        goal = np.maximum(np.logaddexp.reduce(likely, axis=1), floor)
        goal += math.log(_INTEGRAL_TOLERANCE / terms.shape[1])
        wide = np.any((gaps > goal[:, None]) | (terms == np.inf), axis=0)
        if not wide.any() or len(panels.low) + int(wide.sum()) > _MOST_PANELS:
            break
        panels = panels.taken(~wide).joined(panels.taken(wide).halved(column, noise))
    return np.asarray(total)


def loss_of(log_total: FloatArray, notion: Notion) -> FloatArray:
    """Return the loss from the log of its integral, rounded upwards."""
    # exponents were rounded outwards already; this covers exp, log and the sums
    size = np.where(np.isfinite(log_total), np.abs(log_total), 0.0)
    raised = log_total + 2.0**-40 + 2.0**-48 * size
    divergence = notion.divergence
    if isinstance(divergence, PowerMean):
        return np.maximum(raised / divergence.order * (1.0 + 4.0 * UNIT), 0.0)
    return np.exp(np.minimum(raised, 0.0))


def _edges_for_supremum(
    column: NumberEnvelopes, noise: Noise, first: IntArray, second: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return edges of panels, and a bound on the log ratios outside of all of them."""
    reach = float(noise.axis_scales(1)[0])
    seen = _ratios(column.logs(column.atoms, noise), first, second)
    distances: list[float] = []
    tail = np.full(len(first), np.inf)
    for _ in range(_ROUNDS):
        beyond = _tail_ratios(column, noise, reach)[first, second]
        if distances and np.all(beyond >= tail):  # rounding allows for no better one
            break
        distances, tail = [*distances, reach], beyond
        edges = np.array([column.atoms[0] - reach, column.atoms[-1] + reach])
        seen = np.maximum(seen, _ratios(column.logs(edges, noise), first, second))
        if np.all(tail <= seen * (1.0 + _SUPREMUM_TOLERANCE)):
            break
        reach *= 2.0
    return _edges(column, np.array(distances)), np.maximum(tail, 0.0)


def _ratios(logs: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Return the largest log ratio of each pair at some points, at least 0."""
    return np.asarray((logs[0, first] - logs[1, second]).max(axis=1, initial=0.0))


def _tail_ratios(column: NumberEnvelopes, noise: Noise, distance: float) -> FloatArray:
    r"""Bound log sup h_p / inf h_q beyond a distance from the atoms, (n_sets, n_sets).

    Between any two atoms log K changes by at most the span times its steepest slope, so that the
    ratio of the densities is that of the whole masses up to as much. If log K is concave, the ratio
    K(y - x) / K(y - x_n) falls with y > x_n for every atom x. So sup h_p(y) / K(y - x_n) does, and
    inf h_q(y) / K(y - x_n) is at least the least mass of x_n.
    """
    flat = column.span * float(noise.steepest(distance, math.inf)) * _RAISED
    bound = flat + column.offsets
    if float(noise.curvature(0.0, math.inf)[1]) > 0.0:
        return bound
    points = np.array([column.atoms[0] - distance, column.atoms[-1] + distance])
    nearest = noise.log_density(
        np.array([column.atoms[0] - points[0], points[1] - column.atoms[-1]])[:, None]
    )
    error = 64.0 * UNIT * (1.0 + np.abs(nearest))
    above = column.logs(points, noise)[0] - nearest + error
    concave = (above[:, None] - column.end_masses()[None] * (1.0 + 4.0 * UNIT)).max(axis=2)
    return np.asarray(np.minimum(bound, concave + 4.0 * UNIT))


def _edges_for_integral(
    column: NumberEnvelopes, noise: Noise, notion: Notion
) -> tuple[FloatArray, float]:
    """Return edges of panels, and the log of a bound on the integral outside of all of them."""
    reach = float(noise.axis_scales(1)[0])
    distances: list[float] = []
    log_tail = math.inf
    goal = math.log(_INTEGRAL_TOLERANCE)
    goal += math.log(notion.budget) if notion.is_chance else 0.0
    for _ in range(_ROUNDS):
        distances.append(reach)
        log_tail = _log_tail(column, noise, notion, reach)
        if log_tail <= goal:
            break
        reach *= 2.0
    return _edges(column, np.array(distances)), log_tail


def _log_tail(column: NumberEnvelopes, noise: Noise, notion: Notion, distance: float) -> float:
    r"""Bound the log of the integral beyond a distance from the atoms, on both sides together.

    There sup h_p <= K(y - x) at the nearest atom x, and inf h_q >= K(y - x') at the farthest, each
    times its whole mass, which is 1 for a distribution. The hockey stick is at most the mass of the
    first, and zero where log K(y - x) / K(y - x') <= epsilon. Under Renyi the largest ratio gives a
    bound, or, where ratios are unbounded, the inequality of Cauchy and Schwarz:
    :math:`\int_B K^\alpha K'^{1-\alpha} \le K(B)^{1/2} (\int K^{2\alpha-1} K'^{2-2\alpha})^{1/2}`.
    """
    mass = 2.0 * float(noise.mass(distance, math.inf)) * _RAISED
    steepest = column.span * float(noise.steepest(distance, math.inf)) * _RAISED
    log_mass = math.log(mass) + column.log_mass if mass > 0.0 else -math.inf
    steepest += float(column.offsets.max())
    divergence = notion.divergence
    if isinstance(divergence, HockeyStick):
        return -math.inf if steepest <= divergence.epsilon else log_mass
    assert isinstance(divergence, PowerMean)
    order = divergence.order
    if math.isfinite(steepest):
        return log_mass + order * steepest
    other = float(noise.renyi_divergence(np.array([column.span]), 2.0 * divergence.alpha - 1.0))
    # a half of the mass on each side: 2 sqrt(m/2) = sqrt(2 m)
    tail = 0.5 * (log_mass + math.log(2.0)) + order * other * _RAISED
    return tail + order * float(column.offsets.max())


def _edges(column: NumberEnvelopes, distances: FloatArray) -> FloatArray:
    """Return the atoms, where log K may have kinks, and points outside of them."""
    atoms = column.atoms
    return np.unique(np.concatenate([atoms[0] - distances, atoms, atoms[-1] + distances]))


def _chord_errors(
    panels: _Panels, column: NumberEnvelopes, noise: Noise
) -> tuple[FloatArray, FloatArray]:
    """Return how far log h may lie above its chord, and below it, (n,) each.

    It is at most C h^2 / 8 by the curvature, and M h / 2 by the steepest slope M.
    """
    least, most = panels.low - column.atoms[-1], panels.high - column.atoms[0]
    near, far = np.maximum(np.maximum(least, -most), 0.0), np.maximum(-least, most)
    width = panels.high - panels.low
    lowest, highest = noise.curvature(near, far)
    with np.errstate(over="ignore"):
        flat = 0.5 * noise.steepest(near, far) * width * _RAISED
        rises = np.maximum(-lowest, 0.0) * width**2 / 8.0 * _RAISED
        convex = np.maximum(highest + 0.25 * _slope_range(noise, least, most) ** 2, 0.0)
        falls = convex * width**2 / 8.0 * _RAISED
    return np.minimum(rises, flat), np.minimum(falls, flat)


def _slope_range(noise: Noise, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return an upper bound on the range of the slope of log K over low <= z <= high."""
    near, far = np.maximum(np.maximum(low, -high), 0.0), np.maximum(-low, high)
    left, right = (noise.steepest(0.0, np.maximum(end, 0.0)) for end in (-low, high))
    steepest = noise.steepest(near, far)
    flattest = np.minimum(np.abs(noise.score(near)), np.abs(noise.score(far)))
    # differences of slopes that are nearly equal lose digits: some 1e-12 of the slopes themselves
    one_sided = steepest - flattest + 1e-11 * steepest
    return np.asarray(np.where(near > 0.0, one_sided, left + right))


def _panel_suprema(
    panels: _Panels, column: NumberEnvelopes, noise: Noise, first: IntArray, second: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the log ratio in each panel, (n_pairs, n), and the largest at an end."""
    rises, falls = _chord_errors(panels, column, noise)
    height = rises + falls
    starts = panels.at_low[0, first] - panels.at_low[1, second]
    ends = panels.at_high[0, first] - panels.at_high[1, second]
    top = np.maximum(starts, ends)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # the peak of chord + 4 h t (1 - t): at an end, where the chord is steeper than 4 h
        slope = np.abs(starts - ends)
        inner = 0.5 * (starts + ends) + height + slope**2 / (16.0 * height)
        upper = np.where(slope >= 4.0 * height, top, inner)
    upper = np.where(np.isfinite(top), upper, np.inf)
    outside = np.maximum(panels.low - column.atoms[-1], column.atoms[0] - panels.high)
    flat = column.span * noise.steepest(np.maximum(outside, 0.0), math.inf) * _RAISED
    margin = 16.0 * UNIT * (1.0 + np.abs(upper))
    flat = flat + column.offsets[first, second][:, None]
    upper = np.minimum(upper + margin, flat)
    return upper, np.minimum(top, flat).max(axis=1, initial=0.0)


def _log_terms(
    panels: _Panels,
    column: NumberEnvelopes,
    noise: Noise,
    first: IntArray,
    second: IntArray,
    notion: Notion,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return logs of bounds on the integral over each panel, of estimates, and of their gaps."""
    divergence = notion.divergence
    assert not isinstance(divergence, Supremum)
    raised, lowered = _chord_errors(panels, column, noise)
    above = [side[0, first] + raised for side in (panels.at_low, panels.at_high)]
    below = [side[1, second] - lowered for side in (panels.at_low, panels.at_high)]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_width = np.log(panels.high - panels.low)
        if isinstance(divergence, PowerMean):
            order = divergence.order
            powers = [a + order * (a - b) for a, b in zip(above, below, strict=True)]
            terms = log_width + log_mean_exp(*powers)
            blur = divergence.alpha * raised + order * lowered
            return terms, terms - blur, terms - blur + log_expm1(blur)
        terms = log_width + log_excess(above, below, divergence.epsilon)
        blur = raised + lowered
        loose = log_width + log_mean_exp(*above) - blur + log_expm1(blur)
        return terms, terms - blur, np.where(np.isfinite(terms), loose, -np.inf)


# Why, and how sharp it is. Order the atoms by their distance from y, and let W_k hold the first k
# of them, K_k be the noise density at the k-th. Then
#
#   h_p(y) = sum_k (K_k - K_(k+1)) p(W_k),   with K_k - K_(k+1) >= 0 and K_(n+1) = 0,
#
# so that max p(W_k) and min p(W_k) instead of p(W_k) give an upper and a lower bound, and one
# distribution attains all of them at once (`_sets.laminar`): they are the envelopes. As sums over k
# they read sum_k K_k (max p(W_k) - max p(W_(k-1))), all terms positive.
#
# Laplace noise. For fixed p and q the supremum over all real y is attained at a vertex of the grid
# of atoms (header of `accounting`), so the supremum over p, q and y is the largest over the
# vertices of the two envelopes. And the order of the atoms does not depend on the factor: the
# masses of the extreme distributions are computed once, and a factor costs one kernel and one row
# sum.
#
# Unordered columns have distances too, but those of the two kinds scale differently with the
# factor: see `VertexEnvelopes`. Where no number varies, a release has no density, and sums of the
# envelopes over all released cells replace the integrals; where one does, there is an integral for
# each combination of released categories (`CategoryLayers`), and these add up.
#
# That no bound grows with the factor is clear of suprema. An integral of envelopes is that of f(s,
# t), s = sup h_p(y) and t = inf h_q(y), with f convex, homogeneous, growing in s and falling in t.
# More noise is a kernel R from y to z: sup_p int h_p(y) R(y, z) dy <= int s(y) R(y, z) dy, likewise
# for t, and by Jensen f(int s R, int t R) <= int f(s, t) R; over all z that is the integral before.


@dataclass(frozen=True, eq=False)
class SetLosses:
    r"""The worst losses over confidence sets, as a bound for calibration.

    .. math:: \max_{p \in \mathcal{P}_i,\, q \in \mathcal{P}_j} \mathrm{loss}(p, q)

    Parameters
    ----------
    pairs : sequence of (SimultaneousSet, SimultaneousSet)
        The sets of the two secrets of each pair, all over the same grid.
    noise : Noise
        At factor 1.
    notion : Notion

    Notes
    -----
    *Formal guarantees.* With probability ``level`` (see `simultaneous_sets.error_share`) no true
    loss exceeds ``losses``. Pure guarantee: the supremum over the sets, up to rounding outwards for
    Laplace noise and unordered columns and within 1e-6 of itself for others (infinite for Gaussian
    noise, unless the outermost atoms have a least mass). With delta or alpha it is an upper bound
    only: the integral (of unordered columns the sum) of the envelopes, which at each point belong
    to different distributions. Never above the loss of a shift across the grid.

    Raises
    ------
    ValueError
        If sets are over different grids, or cannot be looked through (`computable`).

    Examples
    --------
    The Student table at level 0.95: no noise would be needed if its counts were the distribution
    itself.

    >>> from sklearn_puffer._sets.simultaneous_sets import error_share, set_around_counts
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
        return is_exact([len(axis) for axis in self._sets[0].axes], self.noise, self.notion)

    @property
    def tolerance(self) -> float:
        """Relative width at which a search of factors stops: ordering cells for each takes long."""
        return _MIXED_TOLERANCE if any(self.noise.mixings) else 0.0

    @cached_property
    def guess(self) -> float:
        """A factor near which the loss of a shift across the grid meets the budget."""
        within = smallest_within(self._shift_loss, self.notion.budget, 1.0, 1.0)
        return within if math.isfinite(within) else 1.0

    def losses(self, factor: float) -> FloatArray:
        """Return proven bounds of shape (n_pairs, 2), forward and backward."""
        if factor == 0.0:
            return self._without_noise
        return np.minimum(
            self._worst(factor), np.minimum(self._without_noise, self._shift_loss(factor))
        )

    @cached_property
    def _without_noise(self) -> FloatArray:
        """The losses without noise, which noise never increases: it is a post-processing."""
        return np.minimum(self._worst(0.0), self._shift_loss(0.0))

    def _worst(self, factor: float) -> FloatArray:
        p, q = self._numbers.T
        return self._of_sets(factor, np.append(p, q), np.append(q, p)).reshape(2, -1).T

    @cached_property
    def _of_sets(self) -> Callable[[float, Integers, Integers], FloatArray]:
        """The losses at a factor, from sets to others: a set in several pairs is computed once."""
        return _losses_on(self._sets, self.noise, self.notion)

    @cached_property
    def _sets(self) -> list[SimultaneousSet]:
        return distinct(self.pairs)

    @cached_property
    def _numbers(self) -> Integers:
        """The positions of each pair's two sets, shape (n_pairs, 2)."""
        return numbered(self.pairs)[1]

    def _shift_loss(self, factor: float) -> float:
        """Return the loss of a shift across the grid, as `bounds.sensitivity` does."""
        spans = np.array([[axis[-1] - axis[0] for axis in self._sets[0].axes]])
        if factor == 0.0:
            return self.notion.divergence.worst if spans.any() else 0.0
        loss = self.notion.shift_loss(self.noise.scaled(factor), spans * (1.0 + ROUNDING))
        return float(loss[0]) * (1.0 + ROUNDING)


def _at_vertices(
    envelopes: VertexEnvelopes, factor: float, first: Integers, second: Integers
) -> FloatArray:
    """Return pure losses whose supremum is attained at a vertex of the grid."""
    most, least = envelopes.ends(factor)
    return _largest(most[first] - least[second])


def _of_categories(
    envelopes: VertexEnvelopes, notion: Notion, factor: float, first: Integers, second: Integers
) -> FloatArray:
    """Return losses of unordered columns alone: a release is a cell."""
    most, least = envelopes.ends(factor)
    heights, error = envelopes.heights(factor)
    logs = np.stack([most + (heights + error), least + (heights - error)])
    return _without_noise(logs, first, second, notion)


def _of_layers(
    cells: FloatArray,
    layers: CategoryLayers,
    notion: Notion,
    factor: float,
    first: Integers,
    second: Integers,
) -> FloatArray:
    """Return losses of unordered columns and one number: of a layer for each category."""
    lines = layers.layers(factor) if factor > 0.0 else None
    if lines is None:
        return _without_noise(cells, first, second, notion)
    level = layers.number_noise(factor)
    if notion.is_pure:
        return np.asarray(np.max([supremum(line, level, first, second) for line in lines], axis=0))
    logs = [log_integral(line, level, first, second, notion) for line in lines]
    return loss_of(np.logaddexp.reduce(logs, axis=0) + UNIT * (8.0 + len(logs)), notion)


def _of_column(
    column: ColumnEnvelopes,
    noise: Noise,
    notion: Notion,
    factor: float,
    first: Integers,
    second: Integers,
) -> FloatArray:
    """Return losses of one column of numbers, from the envelopes at points."""
    if factor == 0.0:
        return _without_noise(column.cell_logs(), first, second, notion)
    level = noise.scaled(factor)
    if notion.is_pure:
        return supremum(column, level, first, second)
    if column.span == 0.0:
        return np.zeros(len(first))
    return loss_of(log_integral(column, level, first, second, notion), notion)


def _losses_on(
    sets: Sequence[SimultaneousSet], noise: Noise, notion: Notion
) -> Callable[[float, Integers, Integers], FloatArray]:
    """Return the worst losses of some sets on one grid."""
    if len({tuple(axis.tobytes() for axis in region.axes) for region in sets}) > 1:
        raise ValueError("pairs must hold sets over the same grid; declare one alphabet.")
    shape = [len(axis) for axis in sets[0].axes]
    if not computable(shape, len(sets), noise, notion):
        raise ValueError(
            f"pairs must be sets that `computable` allows, got {len(sets)} on a grid of {shape} "
            f"cells under {noise!r} and {notion!r}; use the loss of a shift across the grid."
        )
    if is_exact(shape, noise, notion):
        return partial(_at_vertices, VertexEnvelopes(sets, noise))
    if not any(noise.mixings):
        return partial(_of_column, ColumnEnvelopes(sets), noise, notion)
    if n_numbers(shape, noise) == 0:
        return partial(_of_categories, VertexEnvelopes(sets, noise), notion)
    return partial(_of_layers, cell_logs(sets), CategoryLayers(sets, noise), notion)


def _without_noise(
    logs: FloatArray, first: Integers, second: Integers, notion: Notion
) -> FloatArray:
    """Return losses of the values themselves, from the log envelopes (2, n_sets, n) of cells."""
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
    return np.asarray(np.maximum(ratios.max(axis=1), 0.0))
