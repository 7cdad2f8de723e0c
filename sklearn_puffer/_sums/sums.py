r"""A sum over users: the scales that pairs of secrets need, and their losses.

*Discrete users.* The n users of a class may leave or change together. That is a chain of n changes
of single users, for each of whom the rest of the class are other users. So with w(theta) the loss
of one of its users in the worst case over all others,

.. math:: \text{loss of the class} \le n \, w(\theta).

Far to either side the loss tends to n times the difference of log E[e^(x/theta)], or of
log E[e^(-x/theta)], of the two distributions of one user. That equals the bound where the reports
of a class have one sign, or its pairs are values.

*Gaussian users* (003, Cor. 1). A pair of secrets about a user k (or about all users of a class)
changes the sum by a Gaussian with mean m and deviation s; s = 0 where values are the secrets. Let S
be the deviation of all others. Up to a translation, the distributions of the sum are
N(m, s^2 + S^2) and N(0, S^2). With Laplace noise of scale theta and G ~ N(m, s^2):

- Pure loss of the first against the second: |m|/theta + s^2/(2 theta^2), whatever S is. It is the
  limit far out, log E[e^(|m| / m G / theta)], and alone (S = 0) the ratio E[e^((|y| - |y - G|) /
  theta)] grows to either side of y = 0; other users only mix ratios.
- Backwards, alone: -log E[e^(-|G|/theta)], its value at y = 0; at most E|G|/theta, by Jensen. Other
  users only lower it.
- With a delta, the loss alone bounds the loss, for adding independent others is a post-processing.
  A translation by m has a delta of 1 - e^((epsilon - |m|/theta)/2).

*Published sufficient conditions*, corrected: Laplace noise, pure epsilon. Users report independent
values, and a pair of secrets changes the distribution of one user from p to q. A scale that keeps
the loss of p against q within epsilon keeps the loss of the sum within epsilon, whatever the other
users do: with R the distribution of the others,

.. math:: \frac{\int h_p(y - r) R(dr)}{\int h_q(y - r) R(dr)} \le \sup_z \frac{h_p(z)}{h_q(z)},

as a weighted mean of ratios is at most the largest. So every condition here depends on p and q
alone. The chance that users are present is a factor of both densities, and cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from sklearn_puffer._base import (
    ULP,
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_positive,
    check_same_index,
    real_numbers,
    rounded_up,
    smallest_within,
)
from sklearn_puffer._strategies import monotone
from sklearn_puffer._sums.losses import (
    FEW,
    MAX_STEPS,
    SumLosses,
    least_loss,
    prior_pair,
    reach_of,
    sum_scale,
    worst_case_scale,
)
from sklearn_puffer._sums.reports import Reporters, gaussian_classes
from sklearn_puffer._sums.users import User, UserPair, check_chance, step_of, with_mass
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import Calibration, calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish, check_pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

_CLOSED, _CLOSED_CLASS = 1e-9, 1e-6  # relative width of an interval that stands for one number
_QUICK = 2**17  # pairs times steps of the sum up to which every loss is computed
_NOBODY = User(Discrete.from_counts([0.0], [1]))


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses at a scale, for each pair in both directions, shape (n_pairs, 2): nats, or deltas.

    ``lower`` and ``upper`` hold the loss for the given users, the largest over all sets of absent
    users. ``worst`` is a bound over all other users. ``recomputed`` says whether a pair's interval
    is of the loss itself, and not only of a bound on it.
    """

    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    recomputed: BoolArray


@dataclass(frozen=True, eq=False)
class DiscreteSum:
    """All users, in whole steps, and the pairs of secrets that are protected.

    Attributes
    ----------
    reports : Reporters
    pairs : list of UserPair
    together : bool
        Whether the users of a class leave or change together.
    """

    reports: Reporters
    pairs: list[UserPair]
    together: bool

    whole = True  # sums are whole numbers of steps

    @property
    def users(self) -> list[User]:
        """The users, in whole steps."""
        return self.reports.in_steps

    @cached_property
    def counted_on(self) -> list[User]:
        """The users with each who may be absent replaced by one who adds nothing.

        Other users never increase a loss. So the largest loss over all sets of absent users is the
        loss with the users who are always present.
        """
        there = zip(self.users, self.reports.there.tolist(), strict=True)
        return [user if stays else _NOBODY for user, stays in there]

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale, in steps, of every condition that applies.

        "exact" is for the given users, "worst_case" for all other users; both are the scale of the
        bound for classes that leave together. Unless ``exact`` is asked for, "exact" is left out
        where values lie too many steps apart.
        """
        epsilon = notion.epsilon
        if not self.together:
            scales = self._sufficient(self.pairs, epsilon)
            if exact or self._is_computable:
                scales = {"exact": sum_scale(self.counted_on, self.pairs, epsilon).scale} | scales
            return scales
        by_name: dict[str, list[float]] = {}
        by_class: dict[int, list[UserPair]] = {}
        for pair in self.pairs:
            by_class.setdefault(pair.user, []).append(pair)
        for k, pairs in by_class.items():
            for name, scale in self._sufficient(pairs, epsilon / self.users[k].count).items():
                by_name.setdefault(name, []).append(scale)
        scales = {name: max(of) for name, of in by_name.items() if len(of) == len(by_class)}
        return {"exact": scales["worst_case"]} | scales

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return the losses with noise of a scale in steps.

        Where that takes long, a pair within the budget in the worst case, or with a few of the
        other users, keeps that bound, but for the largest of them.
        """
        worst = self._worst(theta)
        counts = np.ones((len(self.pairs), 1))
        if self.together:
            counts[:, 0] = [self.users[pair.user].count for pair in self.pairs]
            worst = np.nextafter(counts * worst, np.inf)
        lower = np.clip(counts * self._least(theta), 0.0, worst)
        upper = worst.copy()
        # the interval of a class is as many times as wide as the class has users
        width = _CLOSED_CLASS if self.together else _CLOSED
        exact = np.all(upper * (1.0 - width) <= lower, axis=1)  # intervals that are one number
        chosen = self._chosen(np.flatnonzero(~exact), worst.max(axis=1), notion.epsilon)
        if len(chosen) * self._work > _QUICK:
            losses = self._losses_of(chosen)
            few = np.array([losses.upper(k, theta, FEW) for k in range(len(chosen))])
            upper[chosen] = np.minimum(upper[chosen], few[:, None])
            chosen = chosen[(few > notion.epsilon) | (few == few.max(initial=0.0))]
        if len(chosen):
            least, ends, exact[chosen] = self._intervals(chosen, theta)
            lower[chosen] = np.maximum(lower[chosen], least)
            upper[chosen] = np.minimum(upper[chosen], ends)
        return Losses(lower, upper, worst, exact)

    def _chosen(self, inexact: IntArray, worst: FloatArray, budget: float) -> IntArray:
        """Return the pairs whose loss is computed for the given users, and not only bounded."""
        if self.together or not self._is_computable:
            return inexact[:0]
        if len(inexact) * self._work <= _QUICK:
            return inexact
        return inexact[worst[inexact] > budget]

    def _losses_of(self, pairs: IntArray) -> SumLosses:
        return SumLosses(self.counted_on, [self.pairs[k] for k in pairs.tolist()])

    def _intervals(
        self, chosen: IntArray, theta: float
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return both ends of the losses of these pairs, and whether all users are counted on."""
        losses = self._losses_of(chosen)
        if theta > 0.0:
            all_count = np.array([losses.counts_all(k) for k in range(len(chosen))])
            return *losses.intervals(theta), all_count
        upper = np.array([[losses.upper(k, 0.0)] * 2 for k in range(len(chosen))])
        return np.zeros_like(upper), upper, np.ones(len(chosen), dtype=bool)

    def _worst(self, theta: float) -> FloatArray:
        """Return a bound on the losses of single users over all other users."""
        losses = SumLosses(self.users, self.pairs)
        if theta > 0.0:
            return losses.worst_case(theta)[1]
        return np.stack([losses.worst_of(k, 0.0) for k in range(len(self.pairs))])

    def _least(self, theta: float) -> FloatArray:
        """Return lower ends of the losses of single users, whatever the other users report."""
        if theta == 0.0:
            return np.zeros((len(self.pairs), 2))
        return np.stack([least_loss(pair, theta) for pair in self.pairs])

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        """Return the range of one user's values and that of the sum of all, in steps."""
        free = [pair for pair in self.pairs if pair.shift is None]
        atoms = [with_mass(user.law) for user in self.counted_on]
        step = step_of(np.concatenate(atoms + [with_mass(p) for x in free for p in (x.p, x.q)]))
        ranges = [user.count * np.ptp(x) for user, x in zip(self.counted_on, atoms, strict=True)]
        return int(max(map(reach_of, free), default=0.0) / step), int(sum(ranges) / step)

    @property
    def _work(self) -> int:
        """Steps at which one pair is evaluated."""
        return sum(self._lengths)

    @property
    def _is_computable(self) -> bool:
        """Whether the exact loss of every pair can be computed; that of translations always can."""
        return self._lengths[0] <= MAX_STEPS

    def _sufficient(self, pairs: Sequence[UserPair], epsilon: float) -> dict[str, float]:
        """Return the worst case over other users and the published scales, for single users."""
        scales = {"worst_case": worst_case_scale(self.users, pairs, epsilon).scale}
        published = conditions(pairs, self.reports.secrets, epsilon)
        return scales | {condition.name: condition.scale for condition in published}


# ----------------------------------------------------------------------------------- Gaussian users


# Where a distribution is needed, a point mass gets the width w of 1e-20 of the user's values. For
# w <= theta that changes a density by at most a factor e^(2 w/theta), as E[e^(u|Z|)] <= e^(2u) for
# u <= 1 and E[e^(-u|Z|)] >= e^-u.


_THIN = 1e-20
_HAIR, _TOLERANCE = 1e-12, 1e-12
_MANY = 64  # pairs up to which every loss is computed


@dataclass(frozen=True)
class Change:
    """What a secret changes in a sum: m >= 0, s and S of the module's docstring."""

    shift: float
    spread: float
    others: float

    @property
    def priors(self) -> PriorPair:
        """The distributions of the sum under the two secrets; a point mass is thin."""
        if max(self.spread, self.others) == 0.0:
            return PriorPair(Discrete([self.shift], [1.0]), Discrete([0.0], [1.0]))
        both, rest = math.hypot(self.spread, self.others), self.others or self.thin
        return PriorPair(
            GaussianMixture([1.0], [self.shift], [both]), GaussianMixture([1.0], [0.0], [rest])
        )

    @property
    def thin(self) -> float:
        """The width of a point mass."""
        return _THIN * (self.shift + self.spread)

    def given(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses for the given users, both directions."""
        lowest, worst = self.alone(theta, notion)
        if self.others == 0.0:
            return lowest, worst
        pure = notion.delta == 0.0 and theta > 0.0
        if pure and self.spread == 0.0:
            return lowest, worst
        low, high = _ends(self.priors, theta, notion)
        if not pure:
            return np.minimum(low, worst), np.minimum(high, worst)
        far = self._far_out(theta)  # forwards the others change nothing
        low[0], high[0] = far * (1.0 - 2.0**-48), far * (1.0 + 2.0**-48)
        high = np.minimum(high, worst)
        return np.minimum(low, high), high

    def alone(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses without other users, both directions."""
        if self.shift == self.spread == 0.0:
            return np.zeros(2), np.zeros(2)
        if theta == 0.0:
            largest = np.full(2, math.inf if notion.delta == 0.0 else 1.0)
            return largest.copy(), largest
        if self.spread == 0.0:
            return self._translation(theta, notion)
        return self._pure(theta) if notion.delta == 0.0 else self._with_delta(theta, notion)

    def bound(self, theta: float, notion: Pufferfish) -> float:
        """Return an upper end of the larger loss: the lowest one unless another decides."""
        lowest, worst = self.alone(theta, notion)
        if worst.max() <= notion.budget or self.others == 0.0:
            return float(worst.max())
        if notion.delta == 0.0 and lowest[0] > notion.budget:  # which others do not change
            return float(worst.max())
        return float(self.given(theta, notion)[1].max())

    def scale(self, notion: Pufferfish) -> float:
        """Return the smallest scale that keeps the guarantee, where noise is needed."""
        m, s, epsilon = self.shift, self.spread, notion.epsilon
        root = (m + math.hypot(m, math.sqrt(2.0 * epsilon) * s)) / (2.0 * epsilon)
        if notion.delta == 0.0 and self.bound(root * (1.0 + 2.0**-46), notion) <= epsilon:
            return root * (1.0 + 2.0**-46)
        return smallest_within(
            lambda theta: self.bound(theta, notion), notion.budget, root, _TOLERANCE
        )

    def _far_out(self, theta: float) -> float:
        m, s = self.shift / theta, self.spread / theta
        return m + 0.5 * s * s

    def _translation(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        shifts = np.full(2, self.shift / theta)
        low, high = shifts * (1.0 - 2.0**-51), shifts * (1.0 + 2.0**-51)
        if notion.delta == 0.0:
            return low, high
        low, high = (-np.expm1(np.minimum(0.5 * (notion.epsilon - x), 0.0)) for x in (low, high))
        room = 2.0**-50 * (1.0 + notion.epsilon)  # of the difference in the exponent
        return np.maximum(low - room, 0.0), np.where(high > 0.0, np.minimum(high + room, 1.0), 0.0)

    def _pure(self, theta: float) -> tuple[FloatArray, FloatArray]:
        m, s = self.shift / theta, self.spread / theta
        far = self._far_out(theta)
        log_mean = 0.5 * s * s + np.logaddexp(-m + log_ndtr(m / s - s), m + log_ndtr(-m / s - s))
        room = _HAIR * (1.0 + m + s * s)
        z = m / s
        mean = s * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) + m * (1.0 - 2.0 * ndtr(-z))
        centre = min(-float(log_mean) + room, mean * (1.0 + _HAIR))
        low = np.array([far * (1.0 - 2.0**-48), max(-float(log_mean) - room, 0.0)])
        return low, np.array([far * (1.0 + 2.0**-48), centre])

    def _with_delta(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        ratio = 2.0 * self.thin / theta * (1.0 + _HAIR)
        if not ratio <= 1e-3 * min(notion.epsilon, 1.0):
            return np.zeros(2), np.ones(2)
        priors = Change(self.shift, self.spread, 0.0).priors
        wider = Pufferfish(math.nextafter(notion.epsilon + ratio, math.inf), notion.delta)
        low = _ends(priors, theta, wider)[0] * math.exp(-ratio) * (1.0 - _HAIR)
        high = notion.of_samples(_ends(priors, theta, notion.for_distribution(ratio))[1], ratio)
        return low, np.minimum(np.nextafter(high, np.inf), 1.0)


def largest_scale(changes: Sequence[Change], notion: Pufferfish) -> Calibration:
    """Return the smallest scale that is enough for all changes.

    The change that is likeliest to decide comes first; one evaluation settles most of the others.
    """
    best = Calibration(0.0, 0, 0.0)
    sizes = [
        change.shift + change.spread**2 / (change.spread + change.others or 1.0)
        for change in changes
    ]
    for k in np.argsort(-np.array(sizes), kind="stable").tolist():
        scale, loss = best.scale, changes[k].bound(best.scale, notion)
        if loss > notion.budget:
            scale = changes[k].scale(notion)
            loss = changes[k].bound(scale, notion)
        if scale > best.scale or loss >= best.bound:
            best = Calibration(scale, k, loss)
    return best


def _ends(priors: PriorPair, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses of a pair of distributions, both directions."""
    table = LossTable([priors], notion)
    if theta == 0.0:
        upper: FloatArray = table.without_noise()[0]
        return upper.copy(), upper
    lower, upper = table.intervals(Laplace(theta))
    return lower[0].copy(), upper[0].copy()


# ------------------------------------------------------------------- scales for the given users


@dataclass(frozen=True)
class GaussianUsers:
    """Laplace scales for the presence of Gaussian users in a sum.

    Parameters
    ----------
    corollary_1a : float
        003, Corollary 1(a); infinite under a pure guarantee, unless no user has a spread.
    equation_11 : float or None
        The same by 003, Eq. (11), which is for identical users; None for other users, and where
        ``others`` are given.
    exact : Calibration
        The smallest scale; ``worst_pair`` is the user (or class) that needs it.

    Examples
    --------
    A hundred users whose reports vary hide each other up to this delta; twenty do not. The
    published formula adds noise in either case.

    >>> from sklearn_puffer.closed_forms import gaussian_users
    >>> from sklearn_puffer.notions import Pufferfish
    >>> for count in (50, 10):
    ...     scales = gaussian_users(
    ...         [1.0, 5.0], [1.0, 1.0], Pufferfish(1.0, 0.01), counts=[count, count]
    ...     )
    ...     print(round(scales.exact.scale, 3), round(scales.corollary_1a, 3))
    0.0 5.129
    4.582 5.292
    """

    corollary_1a: float
    equation_11: float | None
    exact: Calibration


def gaussian_users(
    means: ArrayLike,
    sds: ArrayLike,
    notion: Pufferfish,
    *,
    counts: ArrayLike | None = None,
    others: ArrayLike | None = None,
) -> GaussianUsers:
    r"""Return Laplace scales that hide whether a Gaussian user takes part (003, Cor. 1(a)).

    .. math:: \theta = \frac{1}{\varepsilon} \max_k \left(|\mu_k| + \Delta\sigma_k\,
              Q^{-1}(\delta/2)\right), \qquad
              \Delta\sigma_k = \sqrt{\textstyle\sum_l \sigma_l^2} -
              \sqrt{\textstyle\sum_{l \ne k} \sigma_l^2}

    Parameters
    ----------
    means, sds : array-like of shape (k,)
        Of each user's report; a standard deviation of 0 is a known value.
    notion : Pufferfish
        The guarantee and its budget.
    counts : array-like of shape (k,), optional
        How many users each class has; one by default.
    others : array-like of shape (k,), optional
        Standard deviation of the sum of all other users who are always present, for a user of each
        class; by default everybody else is.

    Returns
    -------
    GaussianUsers
        The published scales, and the smallest one.

    Raises
    ------
    TypeError, ValueError
        If shapes disagree, a number is not finite, a deviation is negative, or a count is not a
        positive whole number.

    Notes
    -----
    *Formal guarantees.* ``exact`` is the smallest scale for the two Gaussian distributions of the
    sum, with and without the user. Under a pure guarantee, unless epsilon is small against the
    spread of the user's value, it is the root of |mu_k|/theta + sigma_k^2/(2 theta^2) = epsilon,
    whoever the others are. Elsewhere the two standard deviations are the floats nearest to the
    roots of the sums of variances, and the guarantee is for these distributions.

    The formula is sound: the monotone coupling moves a mass of at most delta further than epsilon
    theta. Where nobody else reports anything random, a point mass gets a width s of 1e-20 of the
    user's values. That changes no density by more than a factor e^(2 s/theta), as E[e^(u|Z|)] <=
    e^(2u) for u <= 1 and E[e^(-u|Z|)] >= e^-u; the budget is lowered by as much.

    The central limit theorem does not extend the Corollary to users who are not Gaussian: for one
    user who reports 1 with a chance of 1e-4, epsilon 1 and delta 1e-5, it gives scale 0.0443,
    which has a delta of 9.98e-5. `PufferfishSum` computes the exact loss for such users.

    References
    ----------
    003, Corollary 1(a) and Eq. (11).

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import gaussian_users
    >>> from sklearn_puffer.notions import Pufferfish
    >>> scales = gaussian_users([1.0], [1.0], Pufferfish(1.0, 0.3), counts=[10])
    >>> round(scales.corollary_1a, 6), round(scales.equation_11, 6), scales.exact.scale
    (1.16819, 1.16819, 0.0)
    """
    check_pufferfish(notion)
    for name, values in (("sds", sds), ("counts", counts), ("others", others)):
        check_same_index(values, name, means, "means")
    centres, spreads, sizes = _check_gaussians(means, sds, counts)
    rest = leave_one_out(spreads, sizes) if others is None else _check_others(others, spreads)
    together = np.hypot(rest, spreads)
    gaps = spreads / np.where(together > 0.0, together + rest, 1.0) * spreads
    published = _corollary_1a(np.abs(centres), gaps, notion)
    identical = len(set(zip(centres.tolist(), spreads.tolist(), strict=True))) == 1
    identical = identical and others is None
    eq11 = _equation_11(centres[0], spreads[0], int(sizes.sum()), notion) if identical else None
    changes = [Change(*row) for row in np.stack([np.abs(centres), spreads, rest], axis=1).tolist()]
    return GaussianUsers(published, eq11, largest_scale(changes, notion))


def _corollary_1a(sizes: FloatArray, gaps: FloatArray, notion: Pufferfish) -> float:
    """Return the largest (|mu_k| + gap_k tau) / epsilon, rounded up."""
    if notion.delta == 0.0:
        return math.inf if gaps.any() else float(sizes.max()) / notion.epsilon * (1.0 + _HAIR)
    tau = -float(ndtri_exp(math.log(notion.delta) - math.log(2.0)))
    return float((sizes + gaps * tau).max()) / notion.epsilon * (1.0 + _HAIR)


def _equation_11(mean: float, sd: float, n_users: int, notion: Pufferfish) -> float:
    """Return 003, Eq. (11), rounded up; sqrt(K) - sqrt(K-1) without cancellation."""
    gap = sd / (math.sqrt(n_users) + math.sqrt(n_users - 1))
    return _corollary_1a(np.array([abs(mean)]), np.array([gap]), notion)


def leave_one_out(spreads: FloatArray, counts: FloatArray) -> FloatArray:
    """Return, for each class, the deviation of the sum of all but one of its users.

    Nothing is subtracted. For a class with a count of 0 it is that of the sum of all.
    """
    unit = float(spreads.max()) or 1.0  # so that no square leaves the floats
    squares = (spreads / unit) ** 2
    totals = np.concatenate([[0.0], squares * counts, [0.0]])
    before, after = np.cumsum(totals)[:-2], np.cumsum(totals[::-1])[::-1][2:]
    rest: FloatArray = unit * np.sqrt(before + after + squares * np.maximum(counts - 1.0, 0.0))
    return rest


def _check_others(others: ArrayLike, spreads: FloatArray) -> FloatArray:
    rest = np.atleast_1d(real_numbers(others, "others"))
    if rest.shape != spreads.shape or not (np.isfinite(rest).all() and rest.min() >= 0.0):
        raise ValueError(
            f"others must be one standard deviation for each of means, got {others!r}; leave it "
            "out where everybody is present."
        )
    return rest


def _check_gaussians(
    means: ArrayLike, sds: ArrayLike, counts: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    centres = np.atleast_1d(real_numbers(means, "means"))
    spreads = np.atleast_1d(real_numbers(sds, "sds"))
    ones = np.ones(len(centres))
    sizes = ones if counts is None else np.atleast_1d(real_numbers(counts, "counts"))
    if centres.ndim != 1 or not centres.size or not (centres.shape == spreads.shape == sizes.shape):
        raise ValueError(
            "means, sds and counts must be lists of one length, got shapes "
            f"{centres.shape}, {spreads.shape} and {sizes.shape}."
        )
    if not (np.isfinite(centres).all() and np.isfinite(spreads).all() and spreads.min() >= 0.0):
        raise ValueError("means and sds must be finite, and sds not negative; drop other users.")
    if not (np.isfinite(sizes).all() and (sizes == np.floor(sizes)).all() and sizes.min() >= 1.0):
        raise ValueError(f"counts must be whole numbers of at least 1, got {sizes.tolist()}.")
    return centres, spreads, sizes


# ------------------------------------------------------------------------------ the whole sum


@dataclass(frozen=True, eq=False)
class GaussianSum:
    """All Gaussian users, and the pairs of secrets that are protected: see `DiscreteSum`."""

    reports: Reporters
    pairs: list[UserPair]
    together: bool

    whole = False  # sums are no whole numbers of steps

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale of every condition that applies, and the exact ones."""
        if self.reports.secrets == "distribution-absence":
            means, sds, groups, _ = self._groups
            others = None if self.reports.there.all() else self._others
            given = gaussian_users(means, sds, notion, counts=groups, others=others)
            # the worst case is a user without others
            rows = np.unique(np.stack([np.abs(means), sds], axis=1), axis=0).tolist()
            worst = largest_scale([Change(mean, sd, 0.0) for mean, sd in rows], notion).scale
            published = {"corollary_1a": given.corollary_1a}
            return {"exact": min(given.exact.scale, worst), "worst_case": worst, **published}
        changes, _ = self._changes
        farthest = Fraction(max(change.shift for change in changes))
        name = "corollary_1b" if self.reports.secrets == "value" else "theorem_2_of_001"
        published = {name: rounded_up(farthest / Fraction(notion.epsilon))}
        if notion.delta == 0.0:  # a translation, whoever the others are
            return {"exact": published[name], "worst_case": published[name], **published}
        odds = notion.epsilon - 2.0 * math.log1p(-notion.delta)
        worst = float(farthest) / odds * (1.0 + _HAIR)
        smallest = largest_scale(changes, notion).scale
        return {"exact": min(smallest, worst), "worst_case": worst, **published}

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return the losses with noise of a scale.

        Of very many pairs, those within the budget in the worst case keep that bound.
        """
        changes, of_pair = self._changes
        worst = np.array([change.alone(theta, notion)[1] for change in changes])
        lower, upper = np.zeros_like(worst), worst.copy()
        computed = np.zeros(len(changes), dtype=bool)
        for k, change in enumerate(changes):
            if len(changes) <= _MANY or worst[k].max() > notion.budget:
                lower[k], upper[k] = change.given(theta, notion)
                computed[k] = True
        return Losses(lower[of_pair], upper[of_pair], worst[of_pair], computed[of_pair])

    @cached_property
    def _groups(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean, deviation, number and size of the groups of users who change together."""
        means, sds, counts = gaussian_classes(self.reports.users)
        ones = np.ones_like(counts)
        groups, members = (ones, counts) if self.together else (counts, ones)
        return members * means, np.sqrt(members) * sds, groups, members

    @cached_property
    def _others(self) -> FloatArray:
        """For each class, the deviation of the sum of all others who are never absent."""
        _, sds, groups, _ = self._groups
        return leave_one_out(sds, groups * self.reports.there)

    @cached_property
    def _changes(self) -> tuple[list[Change], NDArray[np.intp]]:
        """The distinct changes, and the index of each pair's change."""
        means, sds, _, members = self._groups
        users = np.array([pair.user for pair in self.pairs])
        if self.reports.secrets == "distribution-absence":
            shifts, spreads = means[users], sds[users]
        else:
            shifts = members[users] * np.array([pair.shift for pair in self.pairs], dtype=float)
            spreads = np.zeros(len(users))
        table = np.stack([np.abs(shifts), spreads, self._others[users]], axis=1)
        rows, of_pair = np.unique(table, axis=0, return_inverse=True)
        return [Change(*row) for row in rows.tolist()], of_pair.reshape(-1)


# ------------------------------------------------------------------------- the published conditions


# Rounding. Distances and masses are exact fractions, and `rounded_up` returns the smallest float
# that is not below a fraction. Only `_scale_of_psi` takes logarithms; a comment there bounds them.


_LARGEST_PSI = 1e300


TwoDistributions = UserPair | PriorPair
"""The two distributions of one user's report under two secrets."""


@dataclass(frozen=True)
class Condition:
    """A sufficient condition, solved for the scale of the Laplace noise.

    Attributes
    ----------
    name : str
        Name of the function, such as ``"theorem_4"``.
    scale : float
        The smallest theta that the condition allows, in the unit of the values; 0 where no noise
        is needed.
    source : str
        The paper and its number.
    """

    name: str
    scale: float
    source: str


def theorem_1_of_001(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for one value of a user against another (001, Thm 1).

    .. math:: \theta = \max |a - b| / \varepsilon

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do, and no smaller scale does: the sum is moved by a - b.

    References
    ----------
    001, Thm 1, Eq. (10).

    Examples
    --------
    >>> theorem_1_of_001([PriorPair(Discrete([5], [1]), Discrete([3], [1]))], epsilon=0.5).scale
    4.0
    """
    shifts = [abs(_value(p) - _value(q)) for p, q in _checked(pairs)]
    return Condition("theorem_1_of_001", _per_epsilon(max(shifts), epsilon), "001, Thm 1, Eq. (10)")


def theorem_2_of_001(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for a value of a user against absence (001, Thm 2).

    .. math:: \theta = \max |a| / \varepsilon

    Notes
    -----
    *Formal guarantees.* As `theorem_1_of_001`: an absent user adds 0. (The proof in 001 has the
    sign of |a| / theta wrong; the theorem is right.)

    References
    ----------
    001, Thm 2, Eq. (12).

    Examples
    --------
    >>> theorem_2_of_001([PriorPair(Discrete([5], [1]), Discrete([0], [1]))], epsilon=0.5).scale
    10.0
    """
    sizes = [abs(_value(p)) for p, _ in _against_absence(pairs)]
    return Condition("theorem_2_of_001", _per_epsilon(max(sizes), epsilon), "001, Thm 2, Eq. (12)")


def theorem_3_eq13(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for the distribution of a user against absence (001, Thm 3, Eq. 13).

    .. math:: \theta = \min\{\theta : E_p[e^{|D|/\theta}] \le e^\varepsilon \text{ for all p}\}

    Notes
    -----
    *Formal guarantees.* An upper bound on the mean is within e^epsilon at the returned scale. The
    mean bounds the loss in both directions (1 / E[e^-Z] <= E[e^Z]). Where D >= 0 it is the loss:
    far to the right the ratio of densities tends to E[e^(D/theta)], with other users or without.

    References
    ----------
    001, Thm 3, Eq. (13): 000, Prop. 3.2 for the only coupling with a point mass.

    Examples
    --------
    >>> user = Discrete([0, 1], [0.5, 0.5])
    >>> condition = theorem_3_eq13([PriorPair(user, Discrete([0], [1]))], epsilon=1.0)
    >>> round(condition.scale * math.log(2 * math.e - 1), 9)
    1.0
    """
    notion = Pufferfish(check_positive(epsilon, "epsilon"))
    scale = calibrate(_against_absence(pairs), notion, strategy=Relaxed("eq11")).scale
    return Condition("theorem_3_eq13", scale, "001, Thm 3, Eq. (13)")


def theorem_3_eq14(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for a distribution against absence, from its range (001, Thm 3, Eq. 14).

    .. math:: \theta = \max\{|t| : p(t) > 0\} / \varepsilon

    Notes
    -----
    *Formal guarantees.* As `theorem_3_eq13`, which is never larger.

    References
    ----------
    001, Thm 3, Eq. (14).

    Examples
    --------
    >>> user = Discrete([0, 1, 9], [0.5, 0.5, 0])
    >>> theorem_3_eq14([PriorPair(user, Discrete([0], [1]))], epsilon=1.0).scale
    1.0
    """
    sizes = [max(abs(value) for value in _support(p)) for p, _ in _against_absence(pairs)]
    return Condition("theorem_3_eq14", _per_epsilon(max(sizes), epsilon), "001, Thm 3, Eq. (14)")


def theorem_4(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for one distribution of a user against another (001, Thm 4).

    .. math:: \theta = \max W_\infty(p, q) / \varepsilon, \qquad
              W_\infty = \max_u |F_p^{-1}(u) - F_q^{-1}(u)|

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do: with the others added to both ends, a coupling of p and q couples the sums.

    The printed distance (Lemma 3) is that of an alphabet without gaps: for masses (.5, 0, .5) and
    (.6, .4, 0) on 0, 1 and 10 it is 1, or 9 over the atoms, where 10 is needed and scale 1 loses
    8.78 instead of 1. Here u runs over the merged breakpoints of both quantile functions.

    References
    ----------
    001, Thm 4, Eq. (16) and (17), and Lemma 3, corrected.

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 10], [0.5, 0.5]), Discrete([0, 1], [0.6, 0.4]))
    >>> theorem_4([pair], epsilon=1.0).scale
    10.0
    """
    scale = _per_epsilon(_largest_move(_checked(pairs)), epsilon)
    return Condition("theorem_4", scale, "001, Thm 4, Eq. (16), corrected")


def lemma_1(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for one binary distribution of a user against another (001, Lemma 1).

    .. math:: \theta = 1 / \varepsilon \quad \text{(0 where all pairs hold equal distributions)}

    Notes
    -----
    *Formal guarantees.* It is `theorem_4` for binary values.

    References
    ----------
    001, Lemma 1, Eq. (18).

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> lemma_1([pair], epsilon=0.5).scale
    2.0
    """
    moved = any(p != q for p, q in _chances(pairs))
    return Condition("lemma_1", _per_epsilon(Fraction(moved), epsilon), "001, Lemma 1, Eq. (18)")


def lemma_2(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the relaxed scale for one binary distribution against another (001, Lemma 2).

    .. math:: \theta = \max \frac{1}{\log(e^\varepsilon + (e^\varepsilon - 1) \psi)}, \qquad
              \psi = \inf_x \psi(x) = \frac{\min(p, q)}{|p - q|}

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do. The coupling that moves only |p - q| has, given the end 1 that mass is moved to or
    from, a share |p - q| / max(p, q) that moves by 1, and E[e^(d/theta)] <= e^epsilon there is the
    formula. That is one side of 000, Prop. 3.2, which bounds the loss in both directions.

    As printed, x runs over values of the sum; it must run to max + 1, where the others have no
    mass and psi(x) is smallest. For p = .918, q = .77, one other user with a chance of .999 and
    epsilon .1, the shorter range gives theta = .2444, and a loss of .914; theta = 1.9913 is right.

    References
    ----------
    001, Lemma 2, Eq. (21), corrected.

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.082, 0.918]), Discrete([0, 1], [0.23, 0.77]))
    >>> round(lemma_2([pair], epsilon=0.1).scale, 6)
    1.991259
    """
    psi = [_ratio(min(p, q), abs(p - q)) for p, q in _chances(pairs)]
    return Condition("lemma_2", _scale_of_psi(psi, epsilon), "001, Lemma 2, Eq. (21), corrected")


def lemma_2_psi(p: float, q: float, others: Discrete) -> tuple[FloatArray, FloatArray]:
    r"""Return the printed psi(x) of 001, Lemma 2, wherever it is defined.

    .. math:: \psi(x) = \frac{1}{|p - q|} \left((1 - \max(p, q)) \frac{R(x)}{R(x - 1)}
              + \min(p, q)\right), \qquad R(x - 1) > 0

    Parameters
    ----------
    p, q : float
        Two different chances of a 1.
    others : Discrete
        R, the distribution of the sum of the other users.

    Returns
    -------
    tuple of two ndarrays of shape (n,)
        The values x, and psi there: one for each value x - 1 of the others' sum; the last x is its
        maximum + 1. In floats, not rounded to a safe side.

    Raises
    ------
    TypeError, ValueError
        If p or q is no chance, p equals q, or the others have no discrete distribution.

    References
    ----------
    001, Lemma 2.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import lemma_2_psi
    >>> lemma_2_psi(0.25, 0.75, Discrete([0, 1], [0.5, 0.5]))[1].tolist()
    [1.0, 0.5]
    """
    if not isinstance(others, Discrete) or others.n_axes != 1:
        raise TypeError(f"others must be a Discrete distribution of one column, got {others!r}.")
    p, q = check_chance(p, "p"), check_chance(q, "q")
    if p == q:
        raise ValueError(
            f"p and q must differ, got {p!r} twice; equal distributions need no noise."
        )
    kept = others.counts > 0
    atoms, masses = others.atoms[kept], others.probabilities[kept]
    nearest = np.minimum(np.searchsorted(atoms, atoms + 1.0), len(atoms) - 1)
    following = np.where(atoms[nearest] == atoms + 1.0, masses[nearest], 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(following / masses, nan=0.0)
        psi = ((1.0 - max(p, q)) * ratios + min(p, q)) / abs(p - q)
    return atoms + 1.0, psi


def lemma_2_both_ends(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale of 001, Lemma 2, with the better of the two ends of the coupling.

    .. math:: \psi = \frac{\max(\min(p, q), 1 - \max(p, q))}{|p - q|}

    Notes
    -----
    *Formal guarantees.* As `lemma_2`, which is never smaller. Given the end 0, a share
    |p - q| / (1 - min(p, q)) moves, so that psi = (1 - max(p, q)) / |p - q| suffices there; either
    end alone bounds the loss in both directions, hence the larger psi of each pair counts.

    References
    ----------
    001, Lemma 2, with 000, Eq. (11) and (12) of the user's own distributions.

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.9, 0.1]), Discrete([0, 1], [0.8, 0.2]))
    >>> lemma_2_both_ends([pair], 0.5).scale < lemma_2([pair], 0.5).scale
    True
    """
    chances = _chances(pairs)
    psi = [_ratio(max(min(p, q), 1 - max(p, q)), abs(p - q)) for p, q in chances]
    return Condition("lemma_2_both_ends", _scale_of_psi(psi, epsilon), "001, Lemma 2, both ends")


def relaxed(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale of 000, Prop. 3.2, for the user's own distributions.

    .. math:: E_\pi[e^{|X - X'|/\theta} \mid X' = x'] \le e^\varepsilon \; \forall x'
              \quad \text{or} \quad
              E_\pi[e^{|X - X'|/\theta} \mid X = x] \le e^\varepsilon \; \forall x

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do. Up to rounding it is never above `theorem_4`, and equal to `theorem_3_eq13` against
    absence and to `lemma_2_both_ends` for binary values.

    References
    ----------
    000, Prop. 3.2, Eq. (11) and (12).

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> round(relaxed([pair], epsilon=1.0).scale, 6), theorem_4([pair], epsilon=1.0).scale
    (0.857613, 1.0)
    """
    notion = Pufferfish(check_positive(epsilon, "epsilon"))
    scale = calibrate(_checked(pairs), notion, strategy="relaxed").scale
    return Condition("relaxed", scale, "000, Prop. 3.2, on the user's own distributions")


_BY_SECRETS = {
    "value": (theorem_1_of_001,),
    "value-absence": (theorem_2_of_001,),
    "distribution-absence": (theorem_3_eq14, theorem_3_eq13),
    "distribution": (theorem_4,),
}
_BINARY = (lemma_1, lemma_2, lemma_2_both_ends)


def conditions(pairs: Sequence[TwoDistributions], secrets: str, epsilon: float) -> list[Condition]:
    """Return every published condition that applies to the pairs, and `relaxed`.

    Parameters
    ----------
    pairs : sequence of TwoDistributions
        From `user_pairs`, or of distributions ``p`` and ``q``.
    secrets : {"value", "value-absence", "distribution-absence", "distribution"}
        Which of the four sets of 001 the pairs are from. The lemmas join in for ``"distribution"``
        where all distributions are on 0 and 1.
    epsilon : float
        Budget in nats.

    Returns
    -------
    list of Condition
        In the order of the paper. Any of them suffices, so the smallest scale may be used.

    Raises
    ------
    ValueError
        If ``secrets`` is none of the four, the pairs are not of that set, or epsilon is not
        positive.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> from sklearn_puffer.users import conditions
    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> [condition.name for condition in conditions([pair], "distribution", 1.0)]
    ['theorem_4', 'lemma_1', 'lemma_2', 'lemma_2_both_ends', 'relaxed']
    """
    published = _BY_SECRETS[check_choice(secrets, "secrets", _BY_SECRETS)]
    if secrets == "distribution" and all(map(_is_binary, _checked(pairs))):
        published = (*published, *_BINARY)
    return [condition(pairs, epsilon) for condition in (*published, relaxed)]


def _per_epsilon(distance: Fraction, epsilon: float) -> float:
    return rounded_up(distance / Fraction(check_positive(epsilon, "epsilon")))


def _ratio(part: Fraction, whole: Fraction) -> float | None:
    """Return a float not above the ratio, or None where the distributions are equal."""
    if not whole:
        return None
    ratio = part / whole
    return _LARGEST_PSI if ratio > _LARGEST_PSI else max(float(ratio) * (1.0 - ULP), 0.0)


def _scale_of_psi(psi: Sequence[float | None], epsilon: float) -> float:
    """Return the scale of the smallest psi; 0 where there is none."""
    # log(e^eps + (e^eps - 1) psi) = eps + log(1 + (1 - e^-eps) psi). Relative errors in units of
    # 2^-53, which log1p passes on at most as they are: expm1 2, the product 1, log1p 2, the sum 1.
    # 16 are taken off.
    budget = check_positive(epsilon, "epsilon")
    least = min((value for value in psi if value is not None), default=None)
    if least is None:
        return 0.0
    log_of_power = budget + math.log1p(-math.expm1(-budget) * min(least, _LARGEST_PSI))
    with_margin = Fraction(log_of_power) * (1 - Fraction(1, 2**49))
    return min(rounded_up(1 / with_margin), rounded_up(1 / Fraction(budget)))  # psi >= 0


def _largest_move(pairs: Sequence[PriorPair]) -> Fraction:
    """Return the largest W_inf of the pairs, exactly."""
    coupled = monotone(pairs)
    with np.errstate(over="ignore"):
        sizes = np.abs(coupled.shifts[:, 0])
    near = np.flatnonzero(sizes >= sizes.max() * (1.0 - 2.0**-50))  # all that round to the largest
    ends = [
        np.concatenate([pair[side].atoms for pair in pairs])[atoms[near]].tolist()
        for side, atoms in enumerate([coupled.sources, coupled.targets])
    ]
    return max(abs(Fraction(a) - Fraction(b)) for a, b in set(zip(*ends, strict=True)))


def _checked(pairs: Sequence[TwoDistributions]) -> list[PriorPair]:
    checked = list(map(prior_pair, pairs))
    if not checked:
        raise ValueError("pairs must hold at least one pair of distributions, got none.")
    for prior in (prior for pair in checked for prior in pair):
        if not isinstance(prior, Discrete):
            raise TypeError(
                f"pairs must hold Discrete distributions, got {prior!r}; Gaussian users are for "
                "closed_forms.gaussian_users."
            )
        if prior.n_axes != 1:
            raise ValueError(f"pairs must be over one column, got {prior.n_axes}; sum each apart.")
    return checked


def _against_absence(pairs: Sequence[TwoDistributions]) -> list[PriorPair]:
    checked = _checked(pairs)
    for _, q in checked:
        if _support(q) != [0]:
            raise ValueError(
                "pairs must hold a distribution and the point mass at 0 (absence), got "
                f"{_shown(q)}; use secrets='distribution' for two distributions."
            )
    return checked


def _support(distribution: Discrete) -> list[Fraction]:
    return [Fraction(atom) for atom in with_mass(distribution).tolist()]


def _value(distribution: Discrete) -> Fraction:
    """Return the only value of a point mass."""
    support = _support(distribution)
    if len(support) > 1:
        raise ValueError(
            "pairs must hold point masses here, got a distribution with mass on "
            f"{_shown(distribution)}; use secrets='distribution' or 'distribution-absence'."
        )
    return support[0]


def _is_binary(pair: PriorPair) -> bool:
    return all(value in (0, 1) for prior in pair for value in _support(prior))


def _chances(pairs: Sequence[TwoDistributions]) -> list[tuple[Fraction, Fraction]]:
    """Return the two chances of a 1 of each pair."""
    checked = _checked(pairs)
    for pair in checked:
        if not _is_binary(pair):
            raise ValueError(
                f"pairs must hold distributions of 0 and 1, got {_shown(pair.p)} and "
                f"{_shown(pair.q)}; use theorem_4 or relaxed."
            )
    return [(_chance(p), _chance(q)) for p, q in checked]


def _chance(distribution: Discrete) -> Fraction:
    return Fraction(int(distribution.counts[distribution.atoms == 1.0].sum()), distribution.total)


def _shown(distribution: Discrete) -> str:
    values = with_mass(distribution).tolist()
    return f"{values[:3]}" if len(values) <= 3 else f"{values[:3]} and {len(values) - 3} more"
