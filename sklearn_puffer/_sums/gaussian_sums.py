r"""Sums of Gaussian users (003, Cor. 1), and of others by a normal approximation with its error.

A sum over Gaussian users is Gaussian with and without one of them, so that its loss is known
exactly; `gaussian_users` gives it beside the published scales. For users of other laws the central
limit theorem alone proves nothing: `normal_approximation` adds the error to delta.
"""

# Rounding. Moments are exact fractions until they are floats; what is rounded after that is said in
# the docstrings.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri_exp

from sklearn_puffer._base import (
    FloatArray,
    check_choice,
    refuse_masked,
    rounded_up,
    smallest_within,
)
from sklearn_puffer._sums.users import User, check_users
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import Calibration, calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish, check_pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

_THIN = 1e-20  # width that a point mass is given, in units of the user's own values
_ROOT_8_PI = math.sqrt(8.0 / math.pi)
_SLACK = 1e-12
_TOLERANCE = 1e-9
_VARIANCES = (1e-180, 1e180)  # whose squares and cubes are floats


# --------------------------------------------------------------------- Gaussian users, 003 Cor. 1


@dataclass(frozen=True)
class GaussianUsers:
    """Laplace scales for the presence of Gaussian users in a sum.

    Parameters
    ----------
    corollary_1a : float
        003, Corollary 1(a); infinite under a pure promise, unless no user has a spread.
    equation_11 : float or None
        The same for identical users by 003, Eq. (11), computed apart; None for other users, and
        where ``others`` are given.
    exact : Calibration
        The smallest scale; ``worst_pair`` is the user (or class) that asks for it.

    Examples
    --------
    Among a hundred users whose reports vary a crowd hides each of them up to this delta; among
    twenty it does not, and the published formula asks for noise in either case.

    >>> from sklearn_puffer.closed_forms import gaussian_users
    >>> from sklearn_puffer.notions import Pufferfish
    >>> for count in (50, 10):
    ...     found = gaussian_users(
    ...         [1.0, 5.0], [1.0, 1.0], Pufferfish(1.0, 0.01), counts=[count, count]
    ...     )
    ...     print(round(found.exact.scale, 3), round(found.corollary_1a, 3))
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
    r"""Return Laplace scales that hide whether a Gaussian user takes part in a sum.

    .. math:: \theta = \frac{1}{\varepsilon} \max_k \left(|\mu_k| + \Delta\sigma_k\,
              Q^{-1}(\delta/2)\right), \qquad
              \Delta\sigma_k = \sqrt{\textstyle\sum_l \sigma_l^2} -
              \sqrt{\textstyle\sum_{l \ne k} \sigma_l^2}

    Parameters
    ----------
    means, sds : array-like of shape (k,)
        Of what each user reports; a standard deviation of 0 is a known value.
    notion : Pufferfish
        What is to be promised, with its budget.
    counts : array-like of shape (k,), optional
        How many users there are of each class; one by default.
    others : array-like of shape (k,), optional
        Standard deviation of what all other users add up to, for a user of each class; by default
        everybody else is present. Who may be absent is not counted on.

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
    *Formal guarantees.* ``exact`` is the smallest scale for the two Gaussian laws of the sum, with
    and without the user. Under a pure promise, unless epsilon is small against the spread of the
    user's value, it is the root of |mu_k|/theta + sigma_k^2/(2 theta^2) = epsilon, whoever the
    others are; elsewhere the two standard deviations are the floats nearest to the roots of the
    sums of variances, and the promise is for these laws.

    The formula is sound: what the monotone plan moves further than epsilon theta has a mass of at
    most delta. A point mass, where nobody else reports anything random, is given a width s of 1e-20
    of the user's values, which changes no density by more than a factor e^(2 s/theta), as
    E[e^(u|Z|)] <= e^(2u) for u <= 1 and E[e^(-u|Z|)] >= e^-u; the budget is lowered by that.

    The Corollary does not hold for other users, few or many, by the central limit theorem: for one
    user who reports 1 with a chance of 1e-4, epsilon 1 and delta 1e-5, it gives scale 0.0443,
    which has a delta of 9.98e-5. `gaussian_classes` refuses such users; `normal_approximation` is
    for them.

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
    centres, spreads, sizes = _check_gaussians(means, sds, counts)
    rest = _others(spreads, sizes) if others is None else _check_others(others, spreads)
    together = np.hypot(rest, spreads)
    gaps = spreads / np.where(together > 0.0, together + rest, 1.0) * spreads
    published = _corollary_1a(np.abs(centres), gaps, notion)
    identical = len(set(zip(centres.tolist(), spreads.tolist(), strict=True))) == 1
    identical = identical and others is None
    eq11 = _equation_11(centres[0], spreads[0], int(sizes.sum()), notion) if identical else None
    pairs = [
        _SumPair(mean, sd, other_sd, spread=spread)
        for mean, sd, other_sd, spread in np.stack([centres, together, rest, spreads]).T.tolist()
    ]
    first = np.argsort(-(np.abs(centres) + gaps), kind="stable").tolist()
    return GaussianUsers(published, eq11, _largest_scale(pairs, first, notion))


def gaussian_classes(users: Sequence[User]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, standard deviations and counts of users who are Gaussian, and refuse others.

    Parameters
    ----------
    users : sequence of User
        With laws of one component.

    Returns
    -------
    tuple of three ndarrays of shape (k,)
        As `gaussian_users` takes them.

    Raises
    ------
    ValueError
        If there is no user, or a law is not Gaussian.

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import gaussian_classes
    >>> from sklearn_puffer.priors import GaussianMixture
    >>> from sklearn_puffer.users import User
    >>> user = User(GaussianMixture([1.0], [1.0], [2.0]), count=5)
    >>> [column.tolist() for column in gaussian_classes([user])]
    [[1.0], [2.0], [5.0]]
    """
    columns = []
    for k, user in enumerate(check_users(users)):
        law = user.law
        if not (isinstance(law, GaussianMixture) and _is_gaussian(law)):
            raise ValueError(
                f"users must be Gaussian for 003, Corollary 1, got {law!r} for users[{k}]; the "
                "central limit theorem is no proof of it: use normal_approximation, which adds its "
                "error, or the exact loss of the sum."
            )
        columns.append([float(law.means[0]), float(law.scales[0]), float(user.count)])
    means, sds, counts = np.array(columns).T
    return means, sds, counts


@dataclass(frozen=True)
class NormalApproximation:
    """A Laplace scale for a sum that is not Gaussian, found with Gaussian laws in its place.

    Attributes
    ----------
    scale : float
    delta : float
        The proven delta at that scale, the error included.
    error : float
        How much of it is the error of the approximation.
    worst_user : int
        The user (or class) that asks for the scale.
    """

    scale: float
    delta: float
    error: float
    worst_user: int


def normal_approximation(
    users: Sequence[User], notion: Pufferfish, *, secrets: str = "distribution-absence"
) -> NormalApproximation:
    r"""Return a Laplace scale for users of any laws, from Gaussian sums and a proven error.

    .. math:: \delta_\varepsilon(\theta) + t + e^\varepsilon t' \le \delta, \qquad
              t = 1 - e^{-W / (2 \theta)}, \qquad
              W = \sum_i E|D_i - \mu_i|^3 \Big/ \sum_i \sigma_i^2

    Parameters
    ----------
    users : sequence of User
        Independent and present, with laws of one column.
    notion : Pufferfish
        With a delta.
    secrets : {"distribution-absence", "distribution"}, default="distribution-absence"
        A user's law against absence, or against the ``alternative``.

    Returns
    -------
    NormalApproximation

    Raises
    ------
    TypeError, ValueError
        If the notion has no delta, a user no law (or alternative) of one column, or no scale up to
        1e300 is enough.

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps (epsilon, delta) for the users' own laws. Let X
    and X' be the sums under the two secrets, S and S' Gaussians of the same means and variances.

    1. W_1(X, S) <= sum E|D_i - mu_i|^3 / sum sigma_i^2 (Goldstein 2010, constant 1). Gaussian
       users may be left out of both sums, as adding the same independent value to two ends
       shortens no distance but lengthens none; and W_1 <= E|X - EX| + E|S - ES| <= (1 +
       sqrt(2/pi)) sigma. The smallest of the three is W.
    2. Laplace noise on values d apart has a total variation of 1 - e^(-d/(2 theta)), concave in
       d, so that TV(X + N, S + N) <= t by Jensen's inequality, for the best coupling.
    3. For every set B: P(X + N in B) - e^eps P(X' + N in B) <= P(S + N in B) + t - e^eps
       (P(S' + N in B) - t') <= delta_eps(S + N, S' + N) + t + e^eps t', and likewise backwards.

    Moments of discrete laws are exact fractions until the end; W is 1e-12 of the laws' sizes
    larger, which covers the rounding of the Gaussians' means and deviations (W_1 of two Gaussians
    is at most the difference of the means plus that of the deviations).

    The error is about (1 + e^epsilon) W / (2 theta), and W is about as large as the values of one
    user, however many users there are: unless delta is large, the scale is above that of 001,
    Thm 3, which has no delta. It says what the appeal to the central limit theorem is worth.

    References
    ----------
    003, Corollary 1 and its appeal to the central limit theorem; L. Goldstein, Bounds on the
    constant in the mean central limit theorem, Annals of Probability 38 (2010).

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import normal_approximation
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User
    >>> coin = User(Discrete([0, 1], [0.5, 0.5]), count=1000)
    >>> found = normal_approximation([coin], Pufferfish(1.0, 0.1))
    >>> found.delta <= 0.1, round(found.scale, 1)
    (True, 9.2)
    """
    check_pufferfish(notion)
    if notion.delta == 0.0:
        raise ValueError(
            f"notion must be a Pufferfish with a delta, got {notion!r}: the error of a normal "
            "approximation is a delta; use the exact loss of the sum, or 001, Thm 3 and 4."
        )
    check_choice(secrets, "secrets", ["distribution-absence", "distribution"])
    pairs = _approximated(check_users(users), secrets == "distribution")
    order = sorted(range(len(pairs)), key=lambda k: -abs(pairs[k].mean) - pairs[k].error)
    found = _largest_scale(pairs, order, notion)
    error = max(pairs[found.worst_pair].errors(found.scale, notion.epsilon))
    return NormalApproximation(found.scale, found.bound, error, found.worst_pair)


# ----------------------------------------------------------------------------- the sums of a pair


@dataclass(frozen=True)
class _SumPair:
    """The Gaussian laws of a sum under two secrets, translated so that the second has mean 0."""

    mean: float
    sd: float
    other_sd: float
    distance: float = 0.0  # at least W_1 of the first true law to its Gaussian
    other_distance: float = 0.0
    spread: float | None = None  # of the one user who makes the difference

    @property
    def error(self) -> float:
        return self.distance + self.other_distance

    @property
    def laws(self) -> PriorPair:
        """The laws; point masses get the width `thin`, unless both are."""
        if self.sd == self.other_sd == 0.0:
            return PriorPair(Discrete([self.mean], [1.0]), Discrete([0.0], [1.0]))
        sds = (max(self.sd, self.thin), max(self.other_sd, self.thin))
        means = (self.mean, 0.0)
        return PriorPair(
            *(GaussianMixture([1.0], [m], [s]) for m, s in zip(means, sds, strict=True))
        )

    @property
    def thin(self) -> float:
        """The width of a point mass, 0 where there is none or both are."""
        if min(self.sd, self.other_sd) > 0.0 or max(self.sd, self.other_sd) == 0.0:
            return 0.0
        return _THIN * (abs(self.mean) + max(self.sd, self.other_sd))

    def errors(self, scale: float, epsilon: float) -> tuple[float, float]:
        """Return what the approximation adds to delta, forwards and backwards."""
        if self.error == 0.0:
            return 0.0, 0.0
        if scale == 0.0:
            return 1.0, 1.0
        here, there = (_variation(d, scale) for d in (self.distance, self.other_distance))
        return here + _times_power(there, epsilon), there + _times_power(here, epsilon)

    def is_pure(self, scale: float, notion: Pufferfish) -> bool:
        """Return whether the Gaussian laws plainly keep epsilon without a delta."""
        # The wider law is the other one plus an independent G, of a deviation of at most s, and the
        # loss is at most log E[e^(|G|/scale)] <= (|mean| + 2 s)/scale where s <= scale.
        s = max(self.sd, self.other_sd) + self.thin
        return scale > s and scale * notion.epsilon > (abs(self.mean) + 2.0 * s) * (1.0 + _SLACK)

    def search(self, notion: Pufferfish, at_least: float) -> tuple[float, float]:
        """Return the smallest scale from ``at_least`` on, and the loss there."""
        if notion.delta == 0.0 and self.spread is not None:
            least, there = _pure_scale(abs(self.mean), self.spread, notion.epsilon, at_least)
            if there <= notion.epsilon:
                return least, there
            at_least = least
        lowered, floor = notion, at_least
        if self.thin > 0.0:
            lowered = notion.for_law(_share(notion))
            floor = max(floor, 2.0 * self.thin / _share(notion))
        table = LossTable([self.laws], lowered)

        def loss(scale: float) -> float:
            errors = self.errors(scale, notion.epsilon)
            if max(errors) > lowered.budget or (notion.delta > 0.0 and self.is_pure(scale, notion)):
                return max(errors)
            exact = table.intervals(Laplace(scale))[1] if scale > 0.0 else table.without_noise()
            return float((exact[0] + np.array(errors)).max())

        here = loss(floor)
        if here <= lowered.budget:
            return floor, self._as_seen(here, notion, lowered)
        if self.error == 0.0:
            found = calibrate([self.laws], lowered)
            return found.scale, self._as_seen(found.bound, notion, lowered)
        start = self.error / notion.delta + abs(self.mean) / notion.epsilon
        scale = smallest_within(loss, lowered.budget, max(start, floor), _TOLERANCE)
        if math.isinf(scale):
            raise ValueError(
                f"no Laplace scale up to 1e300 brings the normal approximation within delta = "
                f"{notion.delta!r} at epsilon = {notion.epsilon!r}; its error is e^epsilon times a "
                "distance: use the exact loss of the sum, or 001, Thm 3 and 4."
            )
        return scale, self._as_seen(loss(scale), notion, lowered)

    def _as_seen(self, loss: float, notion: Pufferfish, lowered: Pufferfish) -> float:
        """Return the loss of the laws proper, from that of laws with a width."""
        if lowered is notion:
            return loss
        ratio = _share(notion)
        return min(float(notion.of_samples(np.array(loss), ratio)), notion.budget)


def _pure_scale(mean: float, spread: float, epsilon: float, at_least: float) -> tuple[float, float]:
    """Return a scale from ``at_least`` on that no smaller one can replace, and the loss there.

    Where that loss is above epsilon, the scale is too small.
    """
    # With G ~ N(m, s^2) and R of the others, h_p/h_q far out tends to E[e^(+-G/theta)], so that the
    # loss is at least m/theta + s^2/(2 theta^2): the root below. Against a point mass the ratio is
    # E[e^((|y| - |y - G|)/theta)]. Its slope on y > 0 is 2/theta E[e^((2y - G)/theta); G > y] >= 0,
    # and likewise on y < 0: it is least at 0, and largest far out. Other users only mix ratios, so
    # the loss is at most the larger of that and -log E[e^(-|G|/theta)].
    root = math.hypot(mean, math.sqrt(2.0 * epsilon) * spread)
    scale = max((mean + root) / (2.0 * epsilon) * (1.0 + 2.0**-48), at_least)
    if scale == 0.0:
        return 0.0, 0.0
    m, s = mean / scale, spread / scale
    far_out = (m + 0.5 * s * s) * (1.0 + 2.0**-50)
    if spread == 0.0:
        return scale, far_out
    log_mean = 0.5 * s * s + np.logaddexp(-m + log_ndtr(m / s - s), m + log_ndtr(-m / s - s))
    centre = -float(log_mean)
    return scale, max(far_out, centre + 1e-12 * (1.0 + m + s * s))


def _largest_scale(
    pairs: Sequence[_SumPair], order: Sequence[int], notion: Pufferfish
) -> Calibration:
    """Return the largest scale of all pairs, most of which need one look at those before."""
    best = Calibration(0.0, order[0], 0.0)
    for k in order:
        scale, loss = pairs[k].search(notion, best.scale)
        if scale > best.scale or (scale == best.scale and loss > best.bound):
            best = Calibration(scale, k, loss)
    return best


def _share(notion: Pufferfish) -> float:
    """Return the part of epsilon that is spent on giving a point mass a width."""
    return 1e-14 * min(notion.epsilon, 1.0)


def _variation(distance: float, scale: float) -> float:
    return -math.expm1(-distance / (2.0 * scale)) * (1.0 + 2.0**-50)


def _times_power(value: float, epsilon: float) -> float:
    """Return e^epsilon times a probability, 1 where that is more than 1."""
    return math.exp(min(epsilon + math.log(value), 0.0)) * (1.0 + 1e-12) if value > 0.0 else 0.0


def _corollary_1a(sizes: FloatArray, gaps: FloatArray, notion: Pufferfish) -> float:
    """Return the largest (|mu_k| + gap_k tau) / epsilon, rounded up."""
    if notion.delta == 0.0:
        return math.inf if gaps.any() else float(sizes.max()) / notion.epsilon * (1.0 + _SLACK)
    tau = -float(ndtri_exp(math.log(notion.delta) - math.log(2.0)))
    return float((sizes + gaps * tau).max()) / notion.epsilon * (1.0 + _SLACK)


def _equation_11(mean: float, sd: float, n_users: int, notion: Pufferfish) -> float:
    """Return 003, Eq. (11), rounded up; sqrt(K) - sqrt(K-1) without cancellation."""
    gap = sd / (math.sqrt(n_users) + math.sqrt(n_users - 1))
    return _corollary_1a(np.array([abs(mean)]), np.array([gap]), notion)


# ---------------------------------------------------------------------------- moments of the users


@dataclass(frozen=True)
class _Moments:
    mean: Fraction
    variance: Fraction
    third: float  # at least E|D - mean|^3
    gaussian: bool = False


_ABSENT = _Moments(Fraction(0), Fraction(0), 0.0, True)


def _approximated(users: Sequence[User], against_another: bool) -> list[_SumPair]:
    own = [_moments(user.law, f"law of user {k}") for k, user in enumerate(users)]
    other = [_ABSENT] * len(users)
    if against_another:
        other = [
            _moments(user.alternative, f"alternative of user {k}") for k, user in enumerate(users)
        ]
    sizes = np.array([float(user.count) for user in users])
    # of all others: variance and third moment of everybody, and of those who are not Gaussian
    columns = [_columns(moments) for moments in own]
    rest = np.array([_leave_one_out(np.array(c), sizes) for c in zip(*columns, strict=True)]).T
    pairs = []
    for k, (p, q) in enumerate(zip(own, other, strict=True)):
        sums = [rest[k] + np.array(_columns(moments)) for moments in (p, q)]
        mean = float(p.mean - q.mean)
        sds = [math.sqrt(total[0]) for total in sums]
        slack = _SLACK * (abs(mean) + sum(sds))
        exact = all(total[2] == 0.0 for total in sums)  # Gaussians, and known values
        errors = [0.0 if exact else _w1(total) + slack for total in sums]
        pairs.append(_SumPair(mean, *sds, *errors))
    return pairs


def _columns(moments: _Moments) -> list[float]:
    both = [float(moments.variance), moments.third]
    return both + ([0.0, 0.0] if moments.gaussian else both)


def _w1(sums: FloatArray) -> float:
    """Return a bound on W_1 to the Gaussian of the same mean and variance."""
    variance, third, rough_variance, rough_third = (float(value) for value in sums)
    if rough_variance == 0.0:
        return 0.0
    bounds = [
        third / variance,
        rough_third / rough_variance,
        (1.0 + math.sqrt(2.0 / math.pi)) * math.sqrt(rough_variance),
    ]
    return min(bounds) * (1.0 + _SLACK)


def _moments(law: Any, whose: str) -> _Moments:
    if law is None:
        raise ValueError(f"users must have two laws for secrets='distribution', got no {whose}.")
    moments = _discrete_moments(law) if isinstance(law, Discrete) else _mixture_moments(law)
    if moments.variance and not _VARIANCES[0] < moments.variance < _VARIANCES[1]:
        raise ValueError(
            f"users must report values of a size that can be squared and cubed, got {law!r} as "
            f"{whose}; choose another unit."
        )
    return moments


def _discrete_moments(law: Discrete) -> _Moments:
    """Return exact moments, in integers: atoms over a common power of two."""
    atoms = [Fraction(atom) for atom in law.atoms.tolist()]
    unit = max(atom.denominator for atom in atoms)
    whole = [int(atom * unit) for atom in atoms]
    counts, total = [int(count) for count in law.counts.tolist()], law.total
    first = sum(c * x for c, x in zip(counts, whole, strict=True))
    deviations = [total * x - first for x in whole]
    second, third = (
        sum(c * abs(d) ** power for c, d in zip(counts, deviations, strict=True))
        for power in (2, 3)
    )
    return _Moments(
        Fraction(first, total * unit),
        Fraction(second, total**3 * unit**2),
        rounded_up(Fraction(third, total**4 * unit**3)),
        second == 0,
    )


def _mixture_moments(law: GaussianMixture) -> _Moments:
    """Return mean and variance exactly, and E|D|^3, or E[D^4]^(3/4) above it."""
    weights, means, sds = (
        [Fraction(value) for value in values.tolist()]
        for values in (law.weights, law.means.reshape(-1), law.scales.reshape(-1))
    )
    total = sum(weights, Fraction(0))
    mean = sum((w * m for w, m in zip(weights, means, strict=True)), Fraction(0)) / total
    parts = [
        (w / total, (m - mean) ** 2, s**2) for w, m, s in zip(weights, means, sds, strict=True)
    ]
    variance = sum((w * (d + v) for w, d, v in parts), Fraction(0))
    if _is_gaussian(law):
        return _Moments(mean, variance, _ROOT_8_PI * float(variance) ** 1.5, True)
    fourth = sum((w * (d * d + 6 * d * v + 3 * v * v) for w, d, v in parts), Fraction(0))
    return _Moments(mean, variance, float(fourth) ** 0.75 * (1.0 + _SLACK))


def _is_gaussian(law: GaussianMixture) -> bool:
    """Return whether all components are the same."""
    return (
        law.n_axes == 1 and len(set(zip(law.means.tolist(), law.scales.tolist(), strict=True))) == 1
    )


def _others(spreads: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the standard deviation of what all but one user of each class add up to."""
    unit = float(spreads.max()) or 1.0  # so that no square leaves the floats
    rest: FloatArray = unit * np.sqrt(_leave_one_out((spreads / unit) ** 2, sizes))
    return rest


def _check_others(others: ArrayLike, spreads: FloatArray) -> FloatArray:
    rest = _floats(others, "others")
    if rest.shape != spreads.shape or not (np.isfinite(rest).all() and rest.min() >= 0.0):
        raise ValueError(
            f"others must be one standard deviation for each of means, got {others!r}; leave it "
            "out where everybody is present."
        )
    return rest


def _leave_one_out(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Return for each class the sum over all users but one of its own, without subtracting."""
    totals = values * counts
    before = np.concatenate([[0.0], np.cumsum(totals)[:-1]])
    after = np.concatenate([np.cumsum(totals[::-1])[::-1][1:], [0.0]])
    rest: FloatArray = before + after + values * (counts - 1.0)
    return rest


def _check_gaussians(
    means: ArrayLike, sds: ArrayLike, counts: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    centres, spreads = _floats(means, "means"), _floats(sds, "sds")
    sizes = np.ones(len(centres)) if counts is None else _floats(counts, "counts")
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


def _floats(values: ArrayLike, name: str) -> FloatArray:
    refuse_masked(values, name)
    try:
        return np.atleast_1d(np.asarray(values, dtype=float))
    except (OverflowError, TypeError, ValueError) as fault:
        raise TypeError(f"{name} must hold finite numbers, got {values!r}.") from fault
