r"""Gaussian users: their reports, and the scales and losses of their sum (003, Cor. 1).

A pair of secrets about a user k (or about all users of a class) changes the sum by a Gaussian with
mean m and deviation s; s = 0 where values are the secrets. Let S be the deviation of all others. Up
to a translation, the distributions of the sum are N(m, s^2 + S^2) and N(0, S^2). With Laplace noise
of scale theta and G ~ N(m, s^2):

- Pure loss of the first against the second: |m|/theta + s^2/(2 theta^2), whatever S is. It is the
  limit of the log ratio far out, log E[e^(sign(m) G / theta)]. Without other users (S = 0) the
  ratio E[e^((|y| - |y - G|) / theta)] grows to either side of y = 0, so that this limit is its
  supremum; other users average ratios, and never raise it.
- Pure loss of the second against the first, without other users: -log E[e^(-|G|/theta)], attained
  at y = 0, and at most E|G|/theta (Jensen). Other users only lower it.
- With a delta, the loss without other users is a bound, as adding independent reports is a
  post-processing. A translation by m has a delta of 1 - e^((epsilon - |m|/theta)/2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from sklearn_puffer._base import FloatArray, check_same_index, real_numbers
from sklearn_puffer._displacements import check_sequence
from sklearn_puffer._numerics import rounded_up
from sklearn_puffer._sums.losses import Losses, smallest_scale
from sklearn_puffer._sums.reports import Reporters, SumSettings, UserSum, check_no_table, labels_of
from sklearn_puffer._sums.users import User
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish, check_pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

_FAR = 64.0  # the grid has room for Gaussian sums within this many deviations of their mean
_SECRETS = ("distribution-absence", "value", "value-absence")


# ------------------------------------------------------------------------------ who reports


def read_gaussians(users: Sequence[User], settings: SumSettings) -> GaussianReporters:
    """Return Gaussian users, and refuse arguments that are for tables or for steps."""
    check_no_table(settings)
    gaussian_classes(users)
    if settings.secrets not in _SECRETS:
        raise ValueError(
            f"secrets={settings.secrets!r} is not for Gaussian users: 003, Corollary 1 is for "
            f"{list(_SECRETS)}; round the reports to a step, and use discrete "
            "distributions."
        )
    if settings.query == "count":
        raise ValueError(
            "query='count' adds up reports of 0 and 1, and Gaussian users report any numbers; use "
            "query='sum'."
        )
    if settings.step is not None:
        raise ValueError(
            f"step={settings.step!r} is for discrete users; the sum of Gaussian users is rounded "
            "to the grid of its noise: leave step out."
        )
    return GaussianReporters(tuple(users), labels_of(users), settings.secrets, 1.0)


class GaussianReporters(Reporters):
    """Users who report any numbers; their sum is exact, and rounded once, to the grid."""

    def _in_steps(self, user: User) -> User:
        return user

    @property
    def reach(self) -> float:
        """The distance from 0 up to which the grid holds the sum."""
        means, sds, counts = gaussian_classes(self.users)
        return float(counts @ (np.abs(means) + _FAR * sds))

    @property
    def deviation(self) -> float:
        """Standard deviation of the sum."""
        _, sds, counts = gaussian_classes(self.users)
        return float(np.linalg.norm(np.sqrt(counts) * sds))

    def total(self, reports: Any) -> Fraction:
        """Return the exact sum of the reports; an absent user adds nothing."""
        values, classes = self.of_present_users(reports)
        why = "which is not finite; correct the report."
        self._refuse(~np.isfinite(values), values, classes, why)
        return exact_sum(values)

    def fingerprint_parts(self) -> Iterator[bytes]:
        """Yield what identifies these reports in a fingerprint."""
        for label, *column in zip(self.labels, *gaussian_classes(self.users), strict=True):
            yield repr([label, "gaussian", *map(float, column)]).encode()


def exact_sum(values: FloatArray) -> Fraction:
    """Return the sum of floats without rounding.

    >>> exact_sum(np.array([1e300, 0.1, -1e300])) == Fraction(0.1)
    True
    """
    mantissas, exponents = np.frexp(values)
    whole, least = np.ldexp(mantissas, 53).astype(np.int64), int(exponents.min(initial=0))
    pairs = zip(whole.tolist(), (exponents - least).tolist(), strict=True)
    total = sum(number << places for number, places in pairs)
    return Fraction(total) * Fraction(2) ** (least - 53)


def gaussian_classes(users: Sequence[User]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, standard deviations and counts of users who are Gaussian, and refuse others."""
    columns = []
    for k, user in enumerate(users):
        prior = user.law
        if not isinstance(prior, GaussianMixture) or (
            len(set(zip(prior.means.tolist(), prior.scales.tolist(), strict=True))) > 1
        ):
            raise ValueError(
                f"users must be Gaussian for 003, Corollary 1, got {prior!r} for users[{k}]; the "
                "central limit theorem is no proof of it: round the reports to a step, and give "
                "all users Discrete distributions."
            )
        columns.append([float(prior.means[0]), float(prior.scales[0]), float(user.count)])
    means, sds, counts = np.array(columns).T
    return means, sds, counts


# --------------------------------------------------------------------- two secrets, and the scale


# Where a density is needed, a point mass gets the standard deviation w, 1e-20 of the user's values.
# For w <= theta that changes a density by at most a factor e^(2 w/theta), as E[e^(u|Z|)] <= e^(2u)
# for u <= 1 and E[e^(-u|Z|)] >= e^-u.


_POINT_SD = 1e-20
_ROUNDING = 1e-12
_MANY = 64  # pairs up to which every loss is computed


@dataclass(frozen=True)
class GaussianPair:
    """The Gaussian distributions of a sum under two secrets: m >= 0, s and S of the module."""

    mean: float
    sd: float
    others_sd: float

    @property
    def priors(self) -> PriorPair:
        """The distributions of the sum under the two secrets."""
        if max(self.sd, self.others_sd) == 0.0:
            return PriorPair(Discrete([self.mean], [1.0]), Discrete([0.0], [1.0]))
        both, rest = math.hypot(self.sd, self.others_sd), self.others_sd or self.point_sd
        return PriorPair(
            GaussianMixture([1.0], [self.mean], [both]), GaussianMixture([1.0], [0.0], [rest])
        )

    @property
    def point_sd(self) -> float:
        """The standard deviation that stands for 0."""
        return _POINT_SD * (self.mean + self.sd)

    def intervals(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses among the given users, both directions."""
        least, worst = self.worst_case(theta, notion)
        pure = notion.delta == 0.0 and theta > 0.0
        if self.others_sd == 0.0 or (pure and self.sd == 0.0):
            return least, worst
        low, high = _ends(self.priors, theta, notion)
        if not pure:
            return np.minimum(low, worst), np.minimum(high, worst)
        far = self._far_out_loss(theta)  # other users do not change the loss forwards
        low[0], high[0] = far * (1.0 - 2.0**-48), far * (1.0 + 2.0**-48)
        high = np.minimum(high, worst)
        return np.minimum(low, high), high

    def worst_case(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses without other users: the worst case over these."""
        if self.mean == self.sd == 0.0:
            return np.zeros(2), np.zeros(2)
        if theta == 0.0:
            largest = np.full(2, math.inf if notion.delta == 0.0 else 1.0)
            return largest.copy(), largest
        if self.sd == 0.0:
            return self._translation(theta, notion)
        return self._pure(theta) if notion.delta == 0.0 else self._with_delta(theta, notion)

    def bound(self, theta: float, notion: Pufferfish) -> float:
        """Return an upper end of the larger loss: the worst case where that settles the budget."""
        worst = float(self.worst_case(theta, notion)[1].max())
        return worst if worst <= notion.budget else float(self.intervals(theta, notion)[1].max())

    def guess(self, epsilon: float) -> float:
        """Return about the scale that keeps the pure loss far out within epsilon."""
        m, s = self.mean, self.sd
        return (m + math.hypot(m, math.sqrt(2.0 * epsilon) * s)) / (2.0 * epsilon)

    def _far_out_loss(self, theta: float) -> float:
        m, s = self.mean / theta, self.sd / theta
        return m + 0.5 * s * s

    def _translation(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        shifts = np.full(2, self.mean / theta)
        low, high = shifts * (1.0 - 2.0**-51), shifts * (1.0 + 2.0**-51)
        if notion.delta == 0.0:
            return low, high
        low, high = (-np.expm1(np.minimum(0.5 * (notion.epsilon - x), 0.0)) for x in (low, high))
        room = 2.0**-50 * (1.0 + notion.epsilon)  # of the difference in the exponent
        return np.maximum(low - room, 0.0), np.where(high > 0.0, np.minimum(high + room, 1.0), 0.0)

    def _pure(self, theta: float) -> tuple[FloatArray, FloatArray]:
        m, s = self.mean / theta, self.sd / theta
        far = self._far_out_loss(theta)
        log_mean = 0.5 * s * s + np.logaddexp(-m + log_ndtr(m / s - s), m + log_ndtr(-m / s - s))
        room = _ROUNDING * (1.0 + m + s * s)
        z = m / s
        mean = s * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) + m * (1.0 - 2.0 * ndtr(-z))
        centre = min(-float(log_mean) + room, mean * (1.0 + _ROUNDING))
        low = np.array([far * (1.0 - 2.0**-48), max(-float(log_mean) - room, 0.0)])
        return low, np.array([far * (1.0 + 2.0**-48), centre])

    def _with_delta(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        ratio = 2.0 * self.point_sd / theta * (1.0 + _ROUNDING)
        if not ratio <= 1e-3 * min(notion.epsilon, 1.0):
            return np.zeros(2), np.ones(2)
        priors = GaussianPair(self.mean, self.sd, 0.0).priors
        wider = Pufferfish(math.nextafter(notion.epsilon + ratio, math.inf), notion.delta)
        low = _ends(priors, theta, wider)[0] * math.exp(-ratio) * (1.0 - _ROUNDING)
        high = notion.of_samples(_ends(priors, theta, notion.for_distribution(ratio))[1], ratio)
        return low, np.minimum(np.nextafter(high, np.inf), 1.0)


def largest_scale(pairs: Sequence[GaussianPair], notion: Pufferfish) -> Calibration:
    """Return the smallest scale that is enough for all pairs."""
    guesses = [pair.guess(notion.epsilon) for pair in pairs]
    return smallest_scale(lambda k, theta: pairs[k].bound(theta, notion), guesses, notion.budget)


def _ends(priors: PriorPair, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses of a pair of distributions, both directions."""
    table = LossTable([priors], notion)
    if theta == 0.0:
        upper: FloatArray = table.without_noise()[0]
        return upper.copy(), upper
    lower, upper = table.intervals(Laplace(theta))
    return lower[0].copy(), upper[0].copy()


@dataclass(frozen=True)
class GaussianUsers:
    """Laplace scales for the presence of Gaussian users in a sum.

    Parameters
    ----------
    corollary_1a : float
        003, Corollary 1(a), which is Eq. (11) for identical users; infinite under a pure guarantee,
        unless no user has a spread.
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
    exact: Calibration


def gaussian_users(
    means: ArrayLike,
    sds: ArrayLike,
    notion: Pufferfish,
    *,
    counts: ArrayLike | None = None,
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
    003, Corollary 1(a).

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import gaussian_users
    >>> from sklearn_puffer.notions import Pufferfish
    >>> scales = gaussian_users([1.0], [1.0], Pufferfish(1.0, 0.3), counts=[10])
    >>> round(scales.corollary_1a, 6), scales.exact.scale
    (1.16819, 0.0)
    """
    check_pufferfish(notion)
    for name, values in (("sds", sds), ("counts", counts)):
        check_same_index(values, name, means, "means")
    sizes = np.abs(real_numbers(means, "means"))  # a mean and its negative need the same noise
    several = np.ones_like(sizes) if counts is None else counts
    given = {"means": sizes, "sds": sds, "counts": several}
    checked = [check_sequence(np.atleast_1d(values), name) for name, values in given.items()]
    if len({len(values) for values in checked}) > 1:
        raise ValueError(
            f"means, sds and counts must be of one length, got {list(map(len, checked))}."
        )
    centres, spreads, members = checked
    if not ((members == np.floor(members)) & (members >= 1.0)).all():
        raise ValueError(f"counts must be whole numbers of at least 1, got {members.tolist()}.")
    rest = leave_one_out(spreads, members)
    rows = np.stack([centres, spreads, rest], axis=1).tolist()
    exact = largest_scale([GaussianPair(*row) for row in rows], notion)
    return GaussianUsers(_corollary_1a(centres, spreads, rest, notion), exact)


def _corollary_1a(
    means: FloatArray, spreads: FloatArray, rest: FloatArray, notion: Pufferfish
) -> float:
    """Return the largest (|mu_k| + gap_k tau) / epsilon, rounded up.

    The sum of the others has the deviation ``rest``.
    """
    together = np.hypot(rest, spreads)
    gaps = spreads / np.where(together > 0.0, together + rest, 1.0) * spreads
    sizes = np.abs(means)
    if notion.delta == 0.0:
        return math.inf if gaps.any() else float(sizes.max()) / notion.epsilon * (1.0 + _ROUNDING)
    tau = -float(ndtri_exp(math.log(notion.delta) - math.log(2.0)))
    return float((sizes + gaps * tau).max()) / notion.epsilon * (1.0 + _ROUNDING)


def leave_one_out(spreads: FloatArray, counts: FloatArray) -> FloatArray:
    """Return, for each class, the standard deviation of the sum of all users but one of that class.

    Sums of squares are added up from both ends, so that nothing cancels. A class with a count of 0
    gets that of the sum of all users.
    """
    unit = float(spreads.max()) or 1.0  # so that no square leaves the floats
    squares = (spreads / unit) ** 2
    totals = np.concatenate([[0.0], squares * counts, [0.0]])
    before, after = np.cumsum(totals)[:-2], np.cumsum(totals[::-1])[::-1][2:]
    rest: FloatArray = unit * np.sqrt(before + after + squares * np.maximum(counts - 1.0, 0.0))
    return rest


class GaussianSum(UserSum):
    """All Gaussian users, and the pairs of secrets that are protected."""

    whole = False  # sums are no whole numbers of steps

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale of every condition that applies, and the exact ones."""
        gaussians, _ = self._gaussian_pairs
        alone = dict.fromkeys(replace(pair, others_sd=0.0) for pair in gaussians)
        worst = largest_scale(list(alone), notion).scale
        if self.reports.secrets == "distribution-absence":
            means, sds, _, _ = self._groups
            published = {"corollary_1a": _corollary_1a(means, sds, self._others, notion)}
        else:
            name = "corollary_1b" if self.reports.secrets == "value" else "theorem_2_of_001"
            farthest = Fraction(max(pair.mean for pair in gaussians))
            published = {name: rounded_up(farthest / Fraction(notion.epsilon))}
            worst = min(worst, published[name])
        smallest = min(largest_scale(gaussians, notion).scale, worst)
        return {"exact": smallest, "worst_case": worst, **published}

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return the losses with noise of a scale.

        Of very many pairs, those within the budget in the worst case keep that bound.
        """
        gaussians, of_pair = self._gaussian_pairs
        worst = np.array([pair.worst_case(theta, notion)[1] for pair in gaussians])
        lower, upper = np.zeros_like(worst), worst.copy()
        computed = np.zeros(len(gaussians), dtype=bool)
        for k, pair in enumerate(gaussians):
            if len(gaussians) <= _MANY or worst[k].max() > notion.budget:
                lower[k], upper[k] = pair.intervals(theta, notion)
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
        """For each class, the standard deviation of the sum of all others who are never absent."""
        _, sds, groups, _ = self._groups
        return leave_one_out(sds, groups * self.reports.always_present)

    @cached_property
    def _gaussian_pairs(self) -> tuple[list[GaussianPair], NDArray[np.intp]]:
        """The distinct pairs of distributions, and the index of that of each pair of secrets."""
        means, sds, _, members = self._groups
        users = np.array([pair.user for pair in self.pairs])
        if self.reports.secrets == "distribution-absence":
            shifts, spreads = means[users], sds[users]
        else:
            shifts = members[users] * np.array([pair.shift for pair in self.pairs], dtype=float)
            spreads = np.zeros(len(users))
        table = np.stack([np.abs(shifts), spreads, self._others[users]], axis=1)
        rows, of_pair = np.unique(table, axis=0, return_inverse=True)
        return [GaussianPair(*row) for row in rows.tolist()], of_pair.reshape(-1)
