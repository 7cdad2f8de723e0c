r"""Bounds from a coupling of discrete priors: the loss of its moves, summarised.

Let pi be a coupling of p and q with masses w at moves from x to x', and K the noise. Then

.. math:: p * K = \sum w \, K(\cdot - x), \qquad q * K = \sum w \, K(\cdot - x'),

so the loss between the two is at most what the losses of the single moves amount to: their maximum
for the max-divergence (a ratio of sums is at most the largest ratio), their mean for the hockey
stick, and log E[e^((alpha - 1) D)] / (alpha - 1) for Renyi divergences (both are convex in the pair
of distributions). K is even in each column, so a move and its way back lose the same, and the
bounds hold in both directions. Whatever the noise, more of a move in any column loses no less.

`Relaxed` takes conditional means, log E[e^(cost/f)] given an atom, for all atoms and pairs.
"""

# Rounding. A pure loss is one division, one elementary function of at most 4 ulp and one product a
# column, and a sum over columns: `_PURE_ULPS` of 16, and one a column, cover it. All other losses
# of a move z are at most (1 + r) times that of z (1 + r), plus 1e-300, with the r of `noise`.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_puffer._base import Array, FloatArray, Integers
from sklearn_puffer._numerics import ULP, quotient_rounded_up, smallest_within
from sklearn_puffer._strategies.bound_types import Bound, Impossible, both_ways, least_of
from sklearn_puffer._strategies.transport import Couplings, first_of_each, ground_cost
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
        return cls.of_entries(coupled.shifts, coupled.masses, coupled.owners, noise)

    @classmethod
    def of_entries(cls, shifts: FloatArray, masses: Integers, owners: Array, noise: Noise) -> Moves:
        """Return the distinct moves of entries, whose owners are their pairs in rising order."""
        shifts = np.abs(shifts)
        # in one column the distance itself orders moves, without ties from rounding
        costs = shifts[:, 0] if shifts.shape[1] == 1 else ground_cost(noise, shifts)
        order = np.lexsort((*shifts.T[::-1], costs, owners))
        shifts, owners = shifts[order], owners[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (owners[1:] != owners[:-1]) | (shifts[1:] != shifts[:-1]).any(axis=1)
        first = np.flatnonzero(new)
        starts = first_of_each(owners[first])
        masses = np.add.reduceat(masses[order], first)
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


Summary = Callable[[Moves, FloatArray, Notion], FloatArray]


@dataclass(frozen=True, eq=False)
class MoveBound:
    """The bound of each pair: a summary of the losses of its moves.

    The summary is `largest`, `average` or `without_far_moves`: it takes the moves and an upper
    bound on the loss of each.
    """

    moves: Moves
    noise: Noise
    notion: Notion
    summary: Summary

    @cached_property
    def guess(self) -> float:
        """The factor at which the costliest move would be within the budget, alone."""
        far = int(self.moves.largest[self.moves.costs[self.moves.largest].argmax()])
        return factor_of_shift(self.moves.shifts[far], self.noise, self.notion)

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        single = move_losses(self.moves.shifts, self.noise, factor, self.notion)
        return both_ways(self.summary(self.moves, single, self.notion))


def of_moves(
    strategy: str, tried: Sequence[Moves], noise: Noise, notion: Notion, summary: Summary
) -> Bound:
    """Return the smallest bound over the couplings, or say that no shift has a finite loss."""
    first = tried[0]
    moved = any(bool(moves.shifts.any()) for moves in tried)
    if moved and notion.is_pure and not has_pure_loss(noise, first.shifts.shape[1]):
        return Impossible(
            f"strategy={strategy!r} has no pure epsilon with {type(noise).__name__} noise, under "
            "which every shift loses all; use delta=1e-05, alpha=2.0 or noise='laplace'.",
            len(first.starts),
        )
    return least_of([MoveBound(moves, noise, notion, summary) for moves in tried])


def largest(moves: Moves, losses: FloatArray, notion: Notion) -> FloatArray:
    """Return the largest loss of each pair."""
    return np.asarray(np.maximum.reduceat(losses, moves.starts))


def average(moves: Moves, losses: FloatArray, notion: Notion) -> FloatArray:
    """Return the notion's average of the losses of each pair, at most the largest."""
    mean = notion.average(losses, moves.weights, moves.starts)
    return np.minimum(mean, largest(moves, losses, notion))


def without_far_moves(moves: Moves, losses: FloatArray, notion: Notion) -> FloatArray:
    r"""Return the smallest delta that leaving out the costliest moves of each pair leads to.

    .. math:: \min_z \Pr(d > z) + \Pr(d \le z) \max_{d \le z} \delta_\varepsilon

    Any set of moves may be left out: each of those loses at most 1, and the mean of the others is
    at most their maximum. So any ground cost will do, and ties may be cut anywhere.
    """
    stops = moves.starts + moves.lengths
    pairs = zip(moves.starts, stops, strict=True)
    tops = np.concatenate([np.maximum.accumulate(losses[a:b]) for a, b in pairs])
    within = tops * np.minimum(1.0 - moves.beyond + ULP, 1.0) * (1.0 + 4.0 * ULP)
    deltas = np.where(within > 0.0, np.nextafter(moves.beyond + within, 2.0), moves.beyond)
    # leaving out everything loses all
    return np.minimum(np.minimum.reduceat(deltas, moves.starts), 1.0)


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
    error = (shifts.shape[-1] + _PURE_ULPS) * ULP
    return np.asarray(noise.max_divergence(shifts) * (1.0 + error))


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

    def loss(factor: float) -> float:
        return float(move_losses(shift[None], noise, factor, notion)[0])

    least = smallest_within(loss, notion.budget, start, _GUESS)
    return least if np.isfinite(least) else 1.0


def moves_that_may_matter(coupled: Couplings, noise: Noise) -> Moves:
    """Return moves that hold the largest one of each pair: in one column that alone."""
    if coupled.shifts.shape[1] > 1:
        return Moves.of(coupled, noise)
    shifts = np.maximum.reduceat(np.abs(coupled.shifts), coupled.starts, axis=0)
    return single_moves(shifts, noise)


def single_moves(shifts: FloatArray, noise: Noise) -> Moves:
    """Return one move of shape (d,) for each pair, of shape (n_pairs, d)."""
    starts = np.arange(len(shifts))
    return Moves(shifts, ground_cost(noise, shifts), np.ones_like(starts), starts)


_LARGEST_EXPONENT = 600.0  # e^600 times any count still is a float


@dataclass(frozen=True, eq=False)
class EntryGroups:
    """Entries of couplings in groups: those that share x', or x; groups sorted by pair."""

    costs: FloatArray  # (n_entries,), group by group
    masses: Array  # (n_entries,), exact integers
    starts: Array  # first entry of each group
    owners: Array  # the pair of each group

    @property
    def lengths(self) -> Array:
        return np.diff(self.starts, append=len(self.costs))

    @cached_property
    def pair_starts(self) -> Array:
        """First group of each pair."""
        return first_of_each(self.owners)

    @cached_property
    def weights(self) -> FloatArray:
        """Masses given the group, adding up to 1 within it."""
        totals = np.add.reduceat(self.masses, self.starts)
        return np.asarray((self.masses / np.repeat(totals, self.lengths)).astype(float))

    @cached_property
    def tops(self) -> FloatArray:
        """Largest cost of each group."""
        return np.maximum.reduceat(self.costs, self.starts)

    @classmethod
    def of(cls, coupled: Couplings, costs: FloatArray, atoms: Array) -> EntryGroups:
        """Group the entries by ``atoms``, without groups that never are a pair's worst.

        Those are the groups whose largest cost does not exceed the smallest cost of another group.
        """
        masses = coupled.masses
        if (atoms[1:] < atoms[:-1]).any():
            order = np.argsort(atoms, kind="stable")
            costs, masses, atoms = costs[order], masses[order], atoms[order]
        starts = first_of_each(atoms)
        owners = np.searchsorted(coupled.starts, starts, side="right") - 1
        groups = cls(costs, masses, starts, owners)
        least = np.minimum.reduceat(costs, starts)
        nearest = groups.leaders(least)
        kept = groups.tops > groups.per_group(least[nearest])
        kept[nearest] = True
        return groups.select(kept)

    def worst(self, values: FloatArray) -> FloatArray:
        """Return the largest of some values of the groups for each pair."""
        return np.maximum.reduceat(values, self.pair_starts)

    def leaders(self, values: FloatArray) -> Array:
        """Return the first group of the largest value in each pair."""
        if len(self.pair_starts) == 1:
            return np.array([values.argmax()])
        ties = np.flatnonzero(values == self.per_group(self.worst(values)))
        return ties[first_of_each(self.owners[ties])]

    def per_group(self, of_pairs: FloatArray) -> FloatArray:
        """Repeat values of pairs for their groups."""
        return np.repeat(of_pairs, np.diff(self.pair_starts, append=len(self.starts)))

    def select(self, kept: Array) -> EntryGroups:
        """Return the groups at ``kept``, a mask with at least one of each pair."""
        if kept.all():
            return self
        lengths = self.lengths[kept]
        starts = np.cumsum(lengths) - lengths
        entries = np.arange(int(lengths.sum())) + np.repeat(self.starts[kept] - starts, lengths)
        return EntryGroups(self.costs[entries], self.masses[entries], starts, self.owners[kept])

    def log_means(self, factor: float) -> FloatArray:
        """Return log E[e^(cost/factor)] of each group, rounded upwards."""
        with np.errstate(over="ignore"):
            exponents, tops = self.costs / factor, self.tops / factor
        # the relative error of e^x is x times that of x, so it grows with the exponent
        sums = np.add.reduceat(
            self.weights * np.expm1(np.minimum(exponents, _LARGEST_EXPONENT)), self.starts
        )
        rounding = self.lengths + 16.0 + 8.0 * np.minimum(tops, _LARGEST_EXPONENT)
        logs = np.log1p(sums * (1.0 + rounding * ULP))
        logs = np.where(tops > _LARGEST_EXPONENT, tops, logs)  # no mean exceeds the largest
        return np.asarray(logs * (1.0 + 4.0 * ULP))


@dataclass(frozen=True, eq=False)
class ConditionalMeans:
    """For each pair the largest log mean of its groups, under the most favourable condition.

    Beside unordered columns what a move of several columns costs is the largest log ratio of what
    is released of either row, which does not fall as one over the factor.
    """

    coupled: Sequence[Couplings]
    sides: Sequence[bool]  # whether given the atom that mass moves to, or that it comes from
    noise: Noise  # at factor 1
    budget: float

    @cached_property
    def guess(self) -> float:
        """The factor at which the largest cost alone would be within the budget."""
        if any(self.noise.mixings):
            return 1.0
        return max(float(groups.costs.max()) for groups in self._at_factor_1) / self.budget or 1.0

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        if factor == 0.0:
            moved = [
                np.logical_or.reduceat(coupled.shifts.any(axis=1), coupled.starts)
                for coupled in self.coupled
            ]
            return both_ways(np.where(np.all(moved, axis=0), np.inf, 0.0))
        if any(self.noise.mixings):
            means = [groups.worst(groups.log_means(1.0)) for groups in self._groups(factor)]
        else:
            means = [groups.worst(groups.log_means(factor)) for groups in self._at_factor_1]
        return both_ways(np.asarray(np.min(means, axis=0)))

    @cached_property
    def _at_factor_1(self) -> list[EntryGroups]:
        return self._groups(1.0)

    def _groups(self, factor: float) -> list[EntryGroups]:
        level, mixed = self.noise.scaled(factor), any(self.noise.mixings)
        groups = []
        for coupled in self.coupled:
            costs = level.max_divergence(coupled.shifts) * (1.0 + ROUNDING * mixed)
            atoms = [coupled.targets if given else coupled.sources for given in self.sides]
            groups += [EntryGroups.of(coupled, costs, side) for side in atoms]
        return groups
