"""Strategies: proven upper bounds on the privacy loss of prior pairs, as functions of the noise.

A strategy takes the pairs, a noise family at unit factor and a notion, does all work that does not
depend on the factor once, and hands back a `Bound`. Calibration then asks that for few factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._validation import check_choice
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import PriorPair
from sklearn_puffer.transport import Plans, couplings, is_sorted

Array = NDArray[Any]
FloatArray = NDArray[np.float64]

_ULP = 2.0**-52
_LARGEST_EXPONENT = 500.0  # e^500 times any count still is a float
_MARGIN = 1e-6  # room for the search beyond either end of its window


class Bound(Protocol):
    """Upper bounds on the losses of some pairs, as functions of the noise level."""

    @property
    def reach(self) -> float:
        """The largest loss of a shift at factor 1: where the search for a factor starts."""

    def losses(self, factor: float) -> FloatArray:
        """Return proven bounds of shape (n_pairs, 2), forward and backward, in nats.

        They hold under noise whose scales are ``factor`` times those given, are rounded outwards
        and never increase with the factor. Factor 0 means no noise at all.
        """


Strategy = Callable[[Sequence[PriorPair], Noise, Pufferfish], Bound]


@dataclass(frozen=True, eq=False)
class Tightest:
    """The smallest of several bounds on the same pairs, pair by pair and direction by direction.

    Parameters
    ----------
    bounds : sequence of Bound

    Notes
    -----
    *Formal guarantees.* Each bound holds, so the smallest does.
    """

    bounds: Sequence[Bound]

    @property
    def reach(self) -> float:
        """The smallest of the bounds' reaches."""
        return min(bound.reach for bound in self.bounds)

    def losses(self, factor: float) -> FloatArray:
        """Return the smallest losses, shape (n_pairs, 2)."""
        smallest: FloatArray = np.min([bound.losses(factor) for bound in self.bounds], axis=0)
        return smallest


def sensitivity(pairs: Sequence[PriorPair], noise: Noise, notion: Pufferfish) -> Bound:
    r"""Bound each loss by that of a shift across the whole alphabet.

    .. math:: D_\infty(K \| K(\cdot - \Delta)), \quad \Delta_k = \max_{x, x'} |x_k - x'_k|

    Parameters
    ----------
    pairs : sequence of PriorPair
        The alphabet of a pair is the union of both priors' atoms, those of mass zero included.
    noise : Noise
    notion : Pufferfish

    Notes
    -----
    *Formal guarantees.* Holds whatever the masses are (000, Eq. 26).

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.priors import Discrete
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [1, 0]))
    >>> sensitivity([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.5, 1.5]]
    """
    low = np.array([np.minimum(p.rows.min(axis=0), q.rows.min(axis=0)) for p, q in pairs])
    high = np.array([np.maximum(p.rows.max(axis=0), q.rows.max(axis=0)) for p, q in pairs])
    return _Shifts(noise, high - low, np.arange(len(pairs)))


def wasserstein(pairs: Sequence[PriorPair], noise: Noise, notion: Pufferfish) -> Bound:
    r"""Bound each loss by that of the largest move of a coupling.

    .. math:: \max_{(x, x') \in \mathrm{supp}\,\pi} D_\infty(K \| K(\cdot - (x - x')))

    Parameters
    ----------
    pairs : sequence of PriorPair
    noise : Noise
    notion : Pufferfish

    Notes
    -----
    *Formal guarantees.* Holds for every coupling and noise (000, Eq. 4; 001, Prop. 1; 004,
    Thm 3.3). In one column the monotone coupling makes it the loss of a shift by W_inf. For rows
    the best of `transport.couplings` counts, pair by pair.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.priors import Discrete
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> wasserstein([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.0, 1.0]]
    """
    bounds = [_largest_shifts(plans, noise) for plans in couplings(pairs, noise)]
    return bounds[0] if len(bounds) == 1 else Tightest(bounds)


@dataclass(frozen=True)
class Relaxed:
    r"""Bound each loss by a mean over a coupling, given the atom that mass moves to or comes from.

    .. math::
        \text{eq11: } \max_{x'} \log E_\pi[e^{d(X, X')/\theta} \mid X' = x'], \qquad
        \text{eq12: } \max_{x} \log E_\pi[e^{d(X, X')/\theta} \mid X = x]

    Parameters
    ----------
    condition : {"either", "eq11", "eq12"}, default="either"
        000 Eq. (11), Eq. (12), or for each pair the smaller of the two.

    Notes
    -----
    *Formal guarantees.* Either side alone bounds the loss in both directions: forwards by
    e^(|y-x'|/theta - |y-x|/theta) <= e^(d/theta), backwards by E[e^-Z] >= 1 / E[e^Z]. That holds
    for every coupling; in one column it is the monotone one, and for rows, with d/theta =
    sum |x_k - x'_k| / theta_k, the best of `transport.couplings` counts, pair by pair. Never above
    `wasserstein`. It is a bound for Laplace noise.

    Raises
    ------
    ValueError
        If ``condition`` is not one of the three.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.priors import Discrete
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> Relaxed("eq11")([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.0, 1.0]]
    """

    condition: str = "either"

    def __post_init__(self) -> None:
        check_choice(self.condition, "condition", ["eq11", "eq12", "either"])

    def __call__(self, pairs: Sequence[PriorPair], noise: Noise, notion: Pufferfish) -> Bound:
        """Prepare the conditional means of each pair's couplings."""
        sides = {"eq11": [True], "eq12": [False], "either": [True, False]}[self.condition]
        conditions = []
        for plans in couplings(pairs, noise):
            costs = noise.max_divergence(plans.shifts)
            for by_target in sides:
                atoms = plans.targets if by_target else plans.sources
                conditions.append(_Groups.of(plans, costs, atoms))
        return _Means.within(conditions, notion.budget)


def tightest(pairs: Sequence[PriorPair], noise: Noise, notion: Pufferfish) -> Bound:
    """Return the smallest bound that needs no grid of cells: what `exact` falls back to.

    Notes
    -----
    *Formal guarantees.* Those of `Relaxed`. Under one coupling a mean of e^(d/theta) never
    exceeds its maximum, so the better of ``relaxed`` and ``wasserstein`` is ``relaxed`` with
    either condition, over all couplings that are tried.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.priors import Discrete
    >>> pair = PriorPair(Discrete([[0, 0]], [1]), Discrete([[1, 2]], [1]))
    >>> tightest([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.5, 1.5]]
    """
    return Relaxed("either")(pairs, noise, notion)


@dataclass(frozen=True, eq=False)
class _Shifts:
    """The loss of the largest of some shifts, for each pair."""

    noise: Noise
    shifts: FloatArray  # (n_entries, d)
    starts: Array  # first shift of each pair

    @property
    def reach(self) -> float:
        losses: FloatArray = self.noise.max_divergence(self.shifts)
        return float(losses.max())

    def losses(self, factor: float) -> FloatArray:
        if factor == 0.0:
            moved = self.shifts.any(axis=1)
            worst = np.where(np.logical_or.reduceat(moved, self.starts), np.inf, 0.0)
        else:
            with np.errstate(over="ignore"):
                loss = self.noise.scaled(factor).max_divergence(self.shifts)
            worst = np.maximum.reduceat(loss, self.starts) * (1.0 + self._rounding())
        return _both_ways(worst)

    def _rounding(self) -> float:
        return float(self.shifts.shape[1] + 8) * _ULP


def _largest_shifts(plans: Plans, noise: Noise) -> _Shifts:
    """Keep the shifts that may matter: in one column the largest of each pair."""
    if plans.shifts.shape[1] > 1:
        return _Shifts(noise, plans.shifts, plans.starts)
    largest = np.maximum.reduceat(np.abs(plans.shifts), plans.starts, axis=0)
    return _Shifts(noise, largest, np.arange(len(largest)))


@dataclass(frozen=True, eq=False)
class _Groups:
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
    def of(cls, plans: Plans, costs: FloatArray, atoms: Array) -> _Groups:
        """Group the entries by ``atoms``, without groups that never are a pair's worst.

        Those are the groups whose largest cost does not exceed the smallest of another group.
        """
        masses, in_line = plans.masses, plans.in_line
        if not is_sorted(atoms):
            order = np.argsort(atoms, kind="stable")
            costs, masses, atoms = costs[order], masses[order], atoms[order]
        starts = _first_of_each(atoms)
        groups = cls(costs, masses, starts, _owners(plans, starts))
        tops, least = groups.range_in_line(plans.shifts[:, 0]) if in_line else groups.range()
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

    def likely(self, scaled: FloatArray, high: float) -> _Groups:
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

    def select(self, kept: Array) -> _Groups:
        """Return the groups at ``kept``, a mask with at least one of each pair."""
        if kept.all():
            return self
        lengths = self.lengths[kept]
        starts = np.cumsum(lengths) - lengths
        entries = np.arange(int(lengths.sum())) + np.repeat(self.starts[kept] - starts, lengths)
        return _Groups(self.costs[entries], self.masses[entries], starts, self.owners[kept])

    def log_means(self, factor: float) -> FloatArray:
        """Return log E[e^(cost/factor)] of each group, rounded upwards."""
        with np.errstate(over="ignore"):
            exponents, tops = self.costs / factor, self.tops / factor
        # the relative error of e^x is x times that of x, so it grows with the exponent
        sums = np.add.reduceat(
            self.weights * np.expm1(np.minimum(exponents, _LARGEST_EXPONENT)), self.starts
        )
        rounding = self.lengths + 16.0 + 8.0 * np.minimum(tops, _LARGEST_EXPONENT)
        logs = np.log1p(sums * (1.0 + rounding * _ULP))
        if tops.max() > _LARGEST_EXPONENT:
            logs = np.where(tops > _LARGEST_EXPONENT, self._shifted(exponents, tops), logs)
        finished: FloatArray = logs * (1.0 + 4.0 * _ULP)
        return finished

    def _shifted(self, exponents: FloatArray, tops: FloatArray) -> FloatArray:
        """Return the log means of groups whose e^x is no float: the largest exponent comes out."""
        with np.errstate(invalid="ignore"):
            below = np.exp(exponents - np.repeat(tops, self.lengths))
            logs = tops + np.log(np.add.reduceat(self.weights * below, self.starts))
        rounding = (self.lengths + 16.0 + 8.0 * tops) * _ULP
        return np.where(np.isfinite(tops), logs + rounding, np.inf)


@dataclass(frozen=True, eq=False)
class _Means:
    r"""For each pair the largest log mean of its groups, under the most favourable condition.

    Write A(f) = f log E[e^(cost/f)] for a group. It decreases with f, from the largest cost to the
    mean cost a. For a budget B it is thereby known where the smallest sufficient factor lies,

    .. math:: f_0 = a / B \le f \le f_1 = A(f_0) / B,

    and of all groups only those can be the worst there whose A(f_0) is no less than some A(f_1).
    These few are all that a search needs; any other factor is answered from all groups.
    """

    conditions: Sequence[_Groups]
    likely: Sequence[_Groups]
    window: tuple[float, float]
    reach: float

    @classmethod
    def within(cls, conditions: Sequence[_Groups], budget: float) -> _Means:
        least = float(_smallest([groups.worst(groups.means) for groups in conditions]).max())
        if least == 0.0:
            return cls(conditions, conditions, (0.0, 0.0), least)
        low = least / budget * (1.0 - _MARGIN)
        scaled = [low * groups.log_means(low) for groups in conditions]
        worst = [g.worst(each) for g, each in zip(conditions, scaled, strict=True)]
        reach = float(_smallest(worst).max())
        high = reach / budget * (1.0 + _MARGIN)
        likely = [g.likely(each, high) for g, each in zip(conditions, scaled, strict=True)]
        return cls(conditions, likely, (low, high), reach)

    def losses(self, factor: float) -> FloatArray:
        if factor == 0.0:
            moved = [groups.worst(groups.tops) > 0.0 for groups in self.conditions]
            return _both_ways(np.where(np.all(moved, axis=0), np.inf, 0.0))
        inside = self.window[0] <= factor <= self.window[1]
        conditions = self.likely if inside else self.conditions
        return _both_ways(_smallest([g.worst(g.log_means(factor)) for g in conditions]))


def _smallest(of_conditions: Sequence[FloatArray]) -> FloatArray:
    smallest: FloatArray = np.min(of_conditions, axis=0)
    return smallest


def _owners(plans: Plans, starts: Array) -> Array:
    if len(plans.starts) == 1:
        return np.zeros(len(starts), dtype=int)
    return np.searchsorted(plans.starts, starts, side="right") - 1


def _first_of_each(owners: Array) -> Array:
    new = np.ones(len(owners), dtype=bool)
    np.not_equal(owners[1:], owners[:-1], out=new[1:])
    return np.flatnonzero(new)


def _both_ways(worst: FloatArray) -> FloatArray:
    return np.stack([worst, worst], axis=1)
