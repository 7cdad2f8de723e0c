r"""Bounds that are read off a coupling: how far mass moves, and what such moves lose.

Let pi be a coupling of p and q with masses w at moves from x to x', and K the noise. Then

.. math:: p * K = \sum w \, K(\cdot - x), \qquad q * K = \sum w \, K(\cdot - x'),

so the loss between the two is at most what the losses of the single moves amount to: their maximum
for the max-divergence (a ratio of sums is at most the largest ratio), their mean for the hockey
stick, and log E[e^((alpha - 1) D)] / (alpha - 1) for Renyi divergences (both are convex in the pair
of laws). K is even in each column, so a move and its way back lose the same, and the bounds hold in
both directions. Whatever the noise, more of a move in any column loses no less.
"""

# Rounding. A pure loss is one division, one elementary function of at most 4 ulp and one product a
# column, and a sum over columns: `_PURE_ULPS` of 16, and one a column, cover it. All other losses
# of a move z are at most (1 + r) times that of z (1 + r), plus 1e-300, with the r of `noise`.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sklearn_puffer._base import ULP, Array, FloatArray, quotient_rounded_up, smallest_within
from sklearn_puffer._strategies.bound_types import both_ways
from sklearn_puffer._strategies.transport import Couplings, ground_cost
from sklearn_puffer.noise import ROUNDING, Noise
from sklearn_puffer.notions import HockeyStick, Notion

_PURE_ULPS = 16.0
_LEAST_LOSS = 1e-300  # what a loss that small may be off
_LEAST_WEIGHT = 2.0**-1022  # smaller floats have no relative precision
_EXTREMES = 1e-300, 1e300  # of scales that are used
_GUESS = 1e-10  # relative width of the bracket of a guess


@dataclass(frozen=True, eq=False)
class Moves:
    """The moves of one coupling for each pair, near ones first.

    Attributes
    ----------
    shifts : ndarray of shape (n_moves, d)
        Sizes |x - x'| of the moves, column by column.
    costs : ndarray of shape (n_moves,)
        Their ground costs: never less for a move that is larger in every column.
    masses : ndarray of shape (n_moves,)
        Positive integers.
    starts : ndarray of int of shape (n_pairs,)
        The first move of each pair; costs rise from there on.
    """

    shifts: FloatArray
    costs: FloatArray
    masses: Array
    starts: Array

    @classmethod
    def of(cls, coupled: Couplings, noise: Noise) -> Moves:
        """Return the distinct moves of a coupling, up to signs."""
        shifts = np.abs(coupled.shifts)
        # in one column the distance itself orders moves, without ties from rounding
        costs = shifts[:, 0] if shifts.shape[1] == 1 else ground_cost(noise, shifts)
        owners = coupled.owners
        order = np.lexsort((*shifts.T[::-1], costs, owners))
        shifts, owners = shifts[order], owners[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (owners[1:] != owners[:-1]) | (shifts[1:] != shifts[:-1]).any(axis=1)
        first = np.flatnonzero(new)
        starts = np.searchsorted(owners[first], np.arange(len(coupled.starts)))
        masses = np.add.reduceat(coupled.masses[order], first)
        return cls(shifts[first], costs[order][first], masses, starts)

    @cached_property
    def lengths(self) -> Array:
        """Number of moves of each pair."""
        return np.diff(self.starts, append=len(self.masses))

    @cached_property
    def totals(self) -> Array:
        """The mass of each pair."""
        return np.add.reduceat(self.masses, self.starts)

    @cached_property
    def weights(self) -> FloatArray:
        """Probability of each move, within 2 ulp, and never rounded to nothing."""
        weights: FloatArray = (self.masses / np.repeat(self.totals, self.lengths)).astype(float)
        return np.maximum(weights, _LEAST_WEIGHT)

    @cached_property
    def beyond(self) -> FloatArray:
        """Probability of all costlier moves of the pair, rounded upwards to the next float."""
        remaining = []
        stops = self.starts + self.lengths
        for first, stop, total in zip(self.starts, stops, self.totals.tolist(), strict=True):
            left = total
            for mass in self.masses[first:stop].tolist():
                left -= mass
                remaining.append(quotient_rounded_up(left, total))
        return np.array(remaining)

    @cached_property
    def largest(self) -> Array:
        """Position of the costliest move of each pair."""
        return self.starts + self.lengths - 1

    def without(self, delta: float) -> Moves:
        """Return the moves of each pair but for costliest ones of probability at most ``delta``."""
        kept = []
        bounds = zip(self.starts, self.lengths, self.totals.tolist(), strict=True)
        for first, length, total in bounds:
            allowed = int(Fraction(delta) * total)  # a floor: masses are whole
            count = int(length)
            for mass in self.masses[first : first + length][:0:-1].tolist():
                if mass > allowed:
                    break
                allowed, count = allowed - mass, count - 1
            kept.append(np.arange(first, first + count))
        places = np.concatenate(kept)
        starts = np.cumsum([0, *map(len, kept[:-1])])
        return Moves(self.shifts[places], self.costs[places], self.masses[places], starts)


Summary = Callable[[Moves, FloatArray, Notion], FloatArray]


@dataclass(frozen=True, eq=False)
class MoveBound:
    """What the losses of the moves of a coupling amount to, for each pair.

    Parameters
    ----------
    moves : Moves
    noise : Noise
    notion : Notion
    summary : callable
        `largest`, `average` or `without_far_moves`: from the moves and an upper bound on the loss
        of each to one for each pair.
    """

    moves: Moves
    noise: Noise
    notion: Notion
    summary: Summary

    @cached_property
    def guess(self) -> float:
        """The factor at which the costliest move would be within the budget, alone."""
        far = int(self.moves.largest[self.moves.costs[self.moves.largest].argmax()])
        whole = factor_of_shift(self.moves.shifts[far], self.noise, self.notion)
        if self.summary is largest or not self.notion.is_chance:
            return whole
        # leaving out half of delta, and losing half of it at the largest move that remains
        half = self.notion.allowing(0.5 * self.notion.budget)
        near = self.moves.without(half.budget)
        far = int(near.largest[near.costs[near.largest].argmax()])
        return min(whole, factor_of_shift(near.shifts[far], self.noise, half))

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        single = move_losses(self.moves.shifts, self.noise, factor, self.notion)
        return both_ways(self.summary(self.moves, single, self.notion))


def largest(moves: Moves, losses: FloatArray, notion: Notion) -> FloatArray:
    """Return the largest loss of each pair."""
    worst: FloatArray = np.maximum.reduceat(losses, moves.starts)
    return worst


def average(moves: Moves, losses: FloatArray, notion: Notion) -> FloatArray:
    """Return what the losses of each pair amount to in the mean of the notion."""
    mean = notion.average(losses, moves.weights, moves.starts)
    return np.minimum(mean, largest(moves, losses, notion))


def without_far_moves(moves: Moves, losses: FloatArray, notion: Notion) -> FloatArray:
    r"""Return the smallest delta that leaving out the costliest moves of each pair leads to.

    .. math:: \min_z \Pr(d > z) + \Pr(d \le z) \max_{d \le z} \delta_\varepsilon

    Any set of moves may be left out: each of those loses at most 1, and the mean of the others is
    at most their maximum. So any ground cost will do, and ties may be cut anywhere.
    """
    tops = _running_maximum(losses, moves)
    within = tops * np.minimum(1.0 - moves.beyond + ULP, 1.0) * (1.0 + 4.0 * ULP)
    deltas = np.where(within > 0.0, np.nextafter(moves.beyond + within, 2.0), moves.beyond)
    # leaving out everything loses all
    return np.minimum(np.minimum.reduceat(deltas, moves.starts), 1.0)


def _running_maximum(losses: FloatArray, moves: Moves) -> FloatArray:
    stops = moves.starts + moves.lengths
    runs = [np.maximum.accumulate(losses[a:b]) for a, b in zip(moves.starts, stops, strict=True)]
    return np.concatenate(runs)


def move_losses(shifts: FloatArray, noise: Noise, factor: float, notion: Notion) -> FloatArray:
    """Return upper bounds on the losses of shifts (n, d), shape (n,), at a factor of the noise.

    A shift of zero loses nothing. Factor 0 means no noise at all.
    """
    moved, divergence = shifts.any(axis=-1), notion.divergence
    level = noise_at(noise, factor, shifts.shape[-1])
    if level is None:
        return np.where(moved, divergence.worst, 0.0)
    with np.errstate(over="ignore", under="ignore"):
        if notion.is_pure:
            return _pure(shifts, level)
        losses = notion.shift_loss(level, shifts * (1.0 + ROUNDING)) * (1.0 + ROUNDING)
        if not isinstance(divergence, HockeyStick):
            return np.where(moved, losses + _LEAST_LOSS, 0.0)
        # a shift whose odds never pass e^epsilon has a delta of zero, however it was computed
        revealing = _pure(shifts, level) > divergence.epsilon
        return np.where(revealing, np.minimum(losses + _LEAST_LOSS, 1.0), 0.0)


def _pure(shifts: FloatArray, noise: Noise) -> FloatArray:
    losses: FloatArray = noise.max_divergence(shifts)
    outwards: FloatArray = losses * (1.0 + (shifts.shape[-1] + _PURE_ULPS) * ULP)
    return outwards


def noise_at(noise: Noise, factor: float, n_axes: int) -> Noise | None:
    """Return noise of ``factor`` times the scales, or none where a scale is too small for floats.

    Where a scale is too large for floats, all are a little smaller: less noise never loses less.
    """
    least, most = _EXTREMES
    scales = noise.axis_scales(n_axes)
    factor = min(factor, most / float(scales.max()))
    return noise.scaled(factor) if factor * float(scales.min()) >= least else None


def has_pure_loss(noise: Noise, n_axes: int) -> bool:
    """Return whether a shift has a finite pure loss under the noise.

    >>> from sklearn_puffer.noise import Cauchy, Gaussian
    >>> has_pure_loss(Cauchy(), 1), has_pure_loss(Gaussian(), 1)
    (True, False)
    """
    return bool(np.isfinite(noise.max_divergence(noise.axis_scales(n_axes))))


def factor_of_shift(shift: FloatArray, noise: Noise, notion: Notion) -> float:
    """Return about the factor at which the loss of one shift (d,) is the budget, or 1.

    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> round(factor_of_shift(np.array([3.0]), Laplace(2.0), Pufferfish(0.5)), 6)
    3.0
    """
    if not shift.any() or (notion.is_pure and not has_pure_loss(noise, len(shift))):
        return 1.0
    moved = shift != 0.0  # only along these there is noise for sure
    start = float((shift[moved] / noise.axis_scales(len(shift))[moved]).sum())
    found = smallest_within(
        lambda factor: float(move_losses(shift[None], noise, factor, notion)[0]),
        notion.budget,
        start,
        _GUESS,
    )
    return found if np.isfinite(found) else 1.0


def moves_that_may_matter(coupled: Couplings, noise: Noise) -> Moves:
    """Return moves that hold the largest one of each pair: in one column that alone."""
    if coupled.shifts.shape[1] > 1:
        return Moves.of(coupled, noise)
    shifts = np.maximum.reduceat(np.abs(coupled.shifts), coupled.starts, axis=0)
    return single_moves(shifts, noise)


def single_moves(shifts: FloatArray, noise: Noise) -> Moves:
    """Return one move of shape (d,) for each pair, of shape (n_pairs, d)."""
    places = np.arange(len(shifts))
    return Moves(shifts, ground_cost(noise, shifts), np.ones(len(shifts), dtype=int), places)
