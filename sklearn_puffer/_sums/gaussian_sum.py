r"""A sum over Gaussian users: what pairs of secrets lose, and the scales they need (003, Cor. 1).

A pair of secrets about a user k (or about all users of a class) changes the sum by a Gaussian: with
m and s its mean and deviation (s = 0 where values are the secrets), and S the deviation of all
others, the laws of the sum are, but for a translation, N(m, s^2 + S^2) and N(0, S^2). With Laplace
noise of scale theta and G ~ N(m, s^2):

- Pure loss of the first against the second: |m|/theta + s^2/(2 theta^2), whatever S is. It is the
  limit far out, log E[e^(|m| / m G / theta)], and alone (S = 0) the ratio E[e^((|y| - |y - G|) /
  theta)] grows to either side of y = 0; other users only mix ratios.
- Backwards, alone: -log E[e^(-|G|/theta)], its value at y = 0; at most E|G|/theta, by Jensen. Other
  users only lower it.
- With a delta, the loss alone bounds the loss, for adding independent others is a post-processing.
  A translation by m has a delta of 1 - e^((epsilon - |m|/theta)/2).
"""

# A point mass is given the width w of 1e-20 of the user's own values where a law is needed: for
# w <= theta that changes a density by at most a factor e^(2 w/theta), as E[e^(u|Z|)] <= e^(2u) for
# u <= 1 and E[e^(-u|Z|)] >= e^-u.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from sklearn_puffer._base import FloatArray, refuse_masked, rounded_up, smallest_within
from sklearn_puffer._sums.answers import Losses
from sklearn_puffer._sums.reports import Reporters, gaussian_classes, is_always_there
from sklearn_puffer._sums.secrets import Asked
from sklearn_puffer._sums.settings import SumSettings
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish, check_pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

_THIN = 1e-20
_HAIR, _TOLERANCE = 1e-12, 1e-12
_MANY = 64  # pairs up to which every loss is computed


@dataclass(frozen=True)
class Change:
    """What a secret changes in a sum: m >= 0, s and S of the header above."""

    shift: float
    spread: float
    others: float

    @property
    def laws(self) -> PriorPair:
        """The laws of the sum under the two secrets; a point mass is thin."""
        if max(self.spread, self.others) == 0.0:
            return PriorPair(Discrete([self.shift], [1.0]), Discrete([0.0], [1.0]))
        sds = math.hypot(self.spread, self.others), self.others or self.thin
        return PriorPair(
            GaussianMixture([1.0], [self.shift], [sds[0]]), GaussianMixture([1.0], [0.0], [sds[1]])
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
        if notion.delta > 0.0 or theta == 0.0:
            low, high = _table(self.laws, theta, notion)
            return np.minimum(low, worst), np.minimum(high, worst)
        if self.spread == 0.0:
            return lowest, worst
        low, high = _table(self.laws, theta, notion)
        far = self._far_out(theta)  # forwards the others change nothing
        low[0], high[0] = far * (1.0 - 2.0**-48), far * (1.0 + 2.0**-48)
        high = np.minimum(high, worst)
        return np.minimum(low, high), high

    def alone(self, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses without other users, both directions."""
        if self.shift == self.spread == 0.0:
            return np.zeros(2), np.zeros(2)
        if theta == 0.0:
            nothing = np.full(2, math.inf if notion.delta == 0.0 else 1.0)
            return nothing.copy(), nothing
        if self.spread == 0.0:
            return self._translation(theta, notion)
        return self._pure(theta) if notion.delta == 0.0 else self._with_delta(theta, notion)

    def bound(self, theta: float, notion: Pufferfish) -> float:
        """Return an upper end of the larger loss, the closest one unless another settles it."""
        lowest, worst = self.alone(theta, notion)
        if worst.max() <= notion.budget or self.others == 0.0:
            return float(worst.max())
        if notion.delta == 0.0 and lowest[0] > notion.budget:  # which others do not change
            return float(worst.max())
        return float(self.given(theta, notion)[1].max())

    def scale(self, notion: Pufferfish) -> float:
        """Return the smallest scale that keeps the promise, where some noise is needed."""
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
        moved = np.full(2, self.shift / theta)
        low, high = moved * (1.0 - 2.0**-51), moved * (1.0 + 2.0**-51)
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
        laws = Change(self.shift, self.spread, 0.0).laws
        wider = Pufferfish(math.nextafter(notion.epsilon + ratio, math.inf), notion.delta)
        low = _table(laws, theta, wider)[0] * math.exp(-ratio) * (1.0 - _HAIR)
        high = notion.of_samples(_table(laws, theta, notion.for_law(ratio))[1], ratio)
        return low, np.minimum(np.nextafter(high, np.inf), 1.0)


def largest_scale(changes: Sequence[Change], notion: Pufferfish) -> Calibration:
    """Return the smallest scale that is enough for all changes, the likeliest to ask for it first.

    The others need one look each.
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


def _table(laws: PriorPair, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses of a pair of laws, both directions."""
    table = LossTable([laws], notion)
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
    r"""Return Laplace scales that hide whether a Gaussian user takes part (003, Cor. 1(a)).

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

    The formula is sound: what the monotone coupling moves further than epsilon theta has a mass
    of at most delta. A point mass, where nobody else reports anything random, is given a width s
    of 1e-20 of the user's values, which changes no density by more than a factor e^(2 s/theta), as
    E[e^(u|Z|)] <= e^(2u) for u <= 1 and E[e^(-u|Z|)] >= e^-u; the budget is lowered by that.

    The Corollary does not hold for other users, few or many, by the central limit theorem: for one
    user who reports 1 with a chance of 1e-4, epsilon 1 and delta 1e-5, it gives scale 0.0443,
    which has a delta of 9.98e-5. The exact loss of a `PufferfishSum` is for them.

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
    """Return the deviation of the sum of all but one of each class, without subtracting.

    Of a class of which nobody is counted, that is the sum of all.
    """
    unit = float(spreads.max()) or 1.0  # so that no square leaves the floats
    squares = (spreads / unit) ** 2
    totals = np.concatenate([[0.0], squares * counts, [0.0]])
    before, after = np.cumsum(totals)[:-2], np.cumsum(totals[::-1])[::-1][2:]
    found: FloatArray = unit * np.sqrt(before + after + squares * np.maximum(counts - 1.0, 0.0))
    return found


def _check_others(others: ArrayLike, spreads: FloatArray) -> FloatArray:
    rest = _floats(others, "others")
    if rest.shape != spreads.shape or not (np.isfinite(rest).all() and rest.min() >= 0.0):
        raise ValueError(
            f"others must be one standard deviation for each of means, got {others!r}; leave it "
            "out where everybody is present."
        )
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


# ------------------------------------------------------------------------------ the whole sum


@dataclass(frozen=True, eq=False)
class GaussianSum:
    """All users, and the pairs of secrets that are asked for.

    Attributes
    ----------
    means, sds, counts : ndarray of shape (n_classes,)
        Of those who change together: users, or whole classes.
    certain : ndarray of shape (n_classes,), or None
        Standard deviation of what those others add up to who are never absent; None where
        nobody ever is.
    shifts, spreads, others : ndarray of shape (n_pairs,)
        m, s and S of each pair.
    asked : list of Asked
    secrets : str
    """

    means: FloatArray
    sds: FloatArray
    counts: FloatArray
    certain: FloatArray | None
    shifts: FloatArray
    spreads: FloatArray
    others: FloatArray
    asked: list[Asked]
    secrets: str

    @classmethod
    def of(cls, reports: Reporters, asked: list[Asked], settings: SumSettings) -> GaussianSum:
        """Return the sum of all reports, and what is asked about it."""
        means, sds, counts = gaussian_classes(reports.users)
        members = counts if settings.together else np.ones_like(counts)
        groups = np.ones_like(counts) if settings.together else counts
        means, sds = members * means, np.sqrt(members) * sds
        there = np.array([is_always_there(user, reports.secrets) for user in reports.users])
        others = leave_one_out(sds, groups * there)
        certain = None if there.all() else others
        places = np.array([each.pair.user for each in asked])
        if settings.secrets == "distribution-absence":
            shifts, spreads = means[places], sds[places]
        else:
            shifts = members[places] * np.array([each.pair.shift for each in asked], dtype=float)
            spreads = np.zeros(len(asked))
        return cls(
            means, sds, groups, certain, shifts, spreads, others[places], asked, settings.secrets
        )

    whole = False  # sums are no whole numbers of steps
    bounded = False  # the loss of a class is computed, and not bounded only

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale of every condition that applies, and the exact ones."""
        if self.secrets == "distribution-absence":
            found = gaussian_users(
                self.means, self.sds, notion, counts=self.counts, others=self.certain
            )
            published = {"corollary_1a": found.corollary_1a}
            worst = self._alone(notion)
            return {"exact": min(found.exact.scale, worst), "worst_case": worst, **published}
        farthest = Fraction(float(np.abs(self.shifts).max()))
        name = "corollary_1b" if self.secrets == "value" else "theorem_2_of_001"
        published = {name: rounded_up(farthest / Fraction(notion.epsilon))}
        if notion.delta == 0.0:  # a translation, whatever the others do
            return {"exact": published[name], "worst_case": published[name], **published}
        odds = notion.epsilon - 2.0 * math.log1p(-notion.delta)
        worst = float(farthest) / odds * (1.0 + _HAIR)
        return {"exact": min(self._given(notion), worst), "worst_case": worst, **published}

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return what is lost with noise of a scale.

        Of very many pairs, those that are within the budget in the worst case are not looked at
        more closely.
        """
        rows, places = self._distinct
        pairs = [Change(*row) for row in rows.tolist()]
        worst = np.array([pair.alone(theta, notion)[1] for pair in pairs])
        lower, upper = np.zeros_like(worst), worst.copy()
        known = np.zeros(len(pairs), dtype=bool)
        for k, pair in enumerate(pairs):
            if len(pairs) <= _MANY or worst[k].max() > notion.budget:
                lower[k], upper[k] = pair.given(theta, notion)
                known[k] = True
        return Losses(lower[places], upper[places], worst[places], known[places])

    @cached_property
    def _distinct(self) -> tuple[FloatArray, NDArray[np.intp]]:
        table = np.stack([np.abs(self.shifts), self.spreads, self.others], axis=1)
        rows, places = np.unique(table, axis=0, return_inverse=True)
        return rows, places.reshape(-1)

    def _alone(self, notion: Pufferfish) -> float:
        """Return the scale for users who are each alone, the worst that others can make of it."""
        rows = np.unique(np.stack([np.abs(self.means), self.sds], axis=1), axis=0)
        return largest_scale([Change(mean, sd, 0.0) for mean, sd in rows.tolist()], notion).scale

    def _given(self, notion: Pufferfish) -> float:
        """Return the scale for the given users, where values are the secrets."""
        return largest_scale([Change(*row) for row in self._distinct[0].tolist()], notion).scale
