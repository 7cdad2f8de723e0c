r"""The conditional means of `Relaxed`: log E[e^(cost/f)] given an atom, for all atoms and pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_puffer._base import ULP, Array, FloatArray
from sklearn_puffer._strategies.bound_types import both_ways
from sklearn_puffer._strategies.transport import Couplings, is_sorted
from sklearn_puffer.noise import ROUNDING, Noise

_LARGEST_EXPONENT = 500.0  # e^500 times any count still is a float
_MARGIN = 1e-6  # room for the search beyond either end of its window


@dataclass(frozen=True, eq=False)
class Groups:
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
        return _first_of_each(self.owners)

    @cached_property
    def weights(self) -> FloatArray:
        """Masses given the group, adding up to 1 within it."""
        totals = np.add.reduceat(self.masses, self.starts)
        weights: FloatArray = (self.masses / np.repeat(totals, self.lengths)).astype(float)
        return weights

    @cached_property
    def tops(self) -> FloatArray:
        """Largest cost of each group."""
        return np.maximum.reduceat(self.costs, self.starts)

    @cached_property
    def means(self) -> FloatArray:
        """Mean cost of each group."""
        return np.add.reduceat(self.weights * self.costs, self.starts)

    @classmethod
    def of(cls, coupled: Couplings, costs: FloatArray, atoms: Array) -> Groups:
        """Group the entries by ``atoms``, without groups that never are a pair's worst.

        Those are the groups whose largest cost does not exceed the smallest of another group.
        """
        masses, in_line = coupled.masses, coupled.in_line
        if not is_sorted(atoms):
            order = np.argsort(atoms, kind="stable")
            costs, masses, atoms = costs[order], masses[order], atoms[order]
        starts = _first_of_each(atoms)
        groups = cls(costs, masses, starts, _owners(coupled, starts))
        tops, least = groups.range_in_line(coupled.shifts[:, 0]) if in_line else groups.range()
        nearest = groups.leaders(least)
        kept = tops > groups.per_group(least[nearest])
        kept[nearest] = True
        return groups.select(kept)

    def range(self) -> tuple[FloatArray, FloatArray]:
        """Return the largest and the smallest cost of each group."""
        return self.tops, np.minimum.reduceat(self.costs, self.starts)

    def range_in_line(self, shifts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same for sorted moves along a line, where the smallest may be 0 instead.

        |x - x'| is convex in either end: it is largest at the first or the last entry of a group,
        and smallest there too unless its sign changes in between.
        """
        last = np.append(self.starts[1:], len(self.costs)) - 1
        first_cost, last_cost = self.costs[self.starts], self.costs[last]
        turns = (shifts[self.starts] > 0.0) != (shifts[last] > 0.0)
        least = np.where(turns, 0.0, np.minimum(first_cost, last_cost))
        return np.maximum(first_cost, last_cost), least

    def worst(self, values: FloatArray) -> FloatArray:
        """Return the largest of some values of the groups for each pair."""
        return np.maximum.reduceat(values, self.pair_starts)

    def leaders(self, values: FloatArray) -> Array:
        """Return the first group of the largest value in each pair."""
        if len(self.pair_starts) == 1:
            return np.array([values.argmax()])
        ties = np.flatnonzero(values == self.per_group(self.worst(values)))
        return ties[_first_of_each(self.owners[ties])]

    def likely(self, scaled: FloatArray, high: float) -> Groups:
        """Return the groups whose ``scaled`` log mean is no less than another's at ``high``.

        The other one is the group of the largest mean cost.
        """
        leaders = self.leaders(self.means)
        mask = np.zeros(len(self.starts), dtype=bool)
        mask[leaders] = True
        # the leader's own rounding is upwards, so a margin keeps whatever is within it
        reached = high * self.select(mask).log_means(high) * (1.0 - 1e-9)
        return self.select(mask | (scaled >= self.per_group(reached)))

    def per_group(self, of_pairs: FloatArray) -> FloatArray:
        """Repeat values of pairs for their groups."""
        return np.repeat(of_pairs, np.diff(self.pair_starts, append=len(self.starts)))

    def select(self, kept: Array) -> Groups:
        """Return the groups at ``kept``, a mask with at least one of each pair."""
        if kept.all():
            return self
        lengths = self.lengths[kept]
        starts = np.cumsum(lengths) - lengths
        entries = np.arange(int(lengths.sum())) + np.repeat(self.starts[kept] - starts, lengths)
        return Groups(self.costs[entries], self.masses[entries], starts, self.owners[kept])

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
        if tops.max() > _LARGEST_EXPONENT:
            logs = np.where(tops > _LARGEST_EXPONENT, self._shifted(exponents, tops), logs)
        finished: FloatArray = logs * (1.0 + 4.0 * ULP)
        return finished

    def _shifted(self, exponents: FloatArray, tops: FloatArray) -> FloatArray:
        """Return the log means of groups whose e^x is no float: the largest exponent comes out."""
        with np.errstate(invalid="ignore"):
            below = np.exp(exponents - np.repeat(tops, self.lengths))
            logs = tops + np.log(np.add.reduceat(self.weights * below, self.starts))
        rounding = (self.lengths + 16.0 + 8.0 * tops) * ULP
        return np.where(np.isfinite(tops), logs + rounding, np.inf)


@dataclass(frozen=True, eq=False)
class ConditionalMeans:
    r"""For each pair the largest log mean of its groups, under the most favourable condition.

    Write A(f) = f log E[e^(cost/f)] for a group. It decreases with f, from the largest cost to the
    mean cost a. For a budget B it is thereby known where the smallest sufficient factor lies,

    .. math:: f_0 = a / B \le f \le f_1 = A(f_0) / B,

    and of all groups only those can be the worst there whose A(f_0) is no less than some A(f_1).
    These few are all that a search needs; any other factor is answered from all groups.
    """

    conditions: Sequence[Groups]
    likely: Sequence[Groups]
    window: tuple[float, float]
    guess: float

    @classmethod
    def within(cls, conditions: Sequence[Groups], budget: float) -> ConditionalMeans:
        """Prepare the means for factors at which the worst of them is about the budget."""
        least = float(_smallest([groups.worst(groups.means) for groups in conditions]).max())
        if least == 0.0:
            return cls(conditions, conditions, (0.0, 0.0), 1.0)
        low = least / budget * (1.0 - _MARGIN)
        scaled = [low * groups.log_means(low) for groups in conditions]
        worst = [g.worst(each) for g, each in zip(conditions, scaled, strict=True)]
        reach = float(_smallest(worst).max())
        high = reach / budget * (1.0 + _MARGIN)
        likely = [g.likely(each, high) for g, each in zip(conditions, scaled, strict=True)]
        return cls(conditions, likely, (low, high), reach / budget)

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        if factor == 0.0:
            moved = [groups.worst(groups.tops) > 0.0 for groups in self.conditions]
            return both_ways(np.where(np.all(moved, axis=0), np.inf, 0.0))
        inside = self.window[0] <= factor <= self.window[1]
        conditions = self.likely if inside else self.conditions
        return both_ways(_smallest([g.worst(g.log_means(factor)) for g in conditions]))


@dataclass(frozen=True, eq=False)
class MixedMeans:
    """The same beside unordered columns, where costs do not fall as one over the factor.

    What a move of several columns costs is the largest log ratio of what is released of either row.
    """

    coupled: Sequence[Couplings]
    sides: Sequence[bool]  # whether given the target
    noise: Noise  # at factor 1
    guess: float = 1.0

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        if factor == 0.0:
            moved = [
                np.logical_or.reduceat(coupled.shifts.any(axis=1), coupled.starts)
                for coupled in self.coupled
            ]
            return both_ways(np.where(np.all(moved, axis=0), np.inf, 0.0))
        level = self.noise.scaled(factor)
        found = [
            groups.worst(groups.log_means(1.0))
            for coupled in self.coupled
            for groups in self._groups(coupled, level)
        ]
        return both_ways(_smallest(found))

    def _groups(self, coupled: Couplings, level: Noise) -> Iterator[Groups]:
        costs = level.max_divergence(coupled.shifts) * (1.0 + ROUNDING)
        for by_target in self.sides:
            yield Groups.of(coupled, costs, coupled.targets if by_target else coupled.sources)


def _smallest(of_conditions: Sequence[FloatArray]) -> FloatArray:
    smallest: FloatArray = np.min(of_conditions, axis=0)
    return smallest


def _owners(coupled: Couplings, starts: Array) -> Array:
    if len(coupled.starts) == 1:
        return np.zeros(len(starts), dtype=int)
    return np.searchsorted(coupled.starts, starts, side="right") - 1


def _first_of_each(owners: Array) -> Array:
    new = np.ones(len(owners), dtype=bool)
    np.not_equal(owners[1:], owners[:-1], out=new[1:])
    return np.flatnonzero(new)
