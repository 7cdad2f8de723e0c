r"""Gaussian users of a sum: their reports, the scales they need, and what they lose (003, Cor. 1).

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from sklearn_puffer._base import FloatArray, rounded_up, smallest_within
from sklearn_puffer._sums.gaussian_sums import gaussian_classes, gaussian_users
from sklearn_puffer._sums.reports import Reporters, is_always_there, labels_of
from sklearn_puffer._sums.user_losses import Asked, Losses, asked_of
from sklearn_puffer._sums.users import User, user_pairs
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

_SECRETS = ("distribution-absence", "value", "value-absence")
_FAR = 64.0  # deviations within which the grid has room for reports
_THIN = 1e-20
_HAIR, _TOLERANCE = 1e-12, 1e-12
_MANY = 64  # pairs up to which every loss is computed


# ------------------------------------------------------------------------------------- the reports


class GaussianReporters(Reporters):
    """Users who report any numbers; their sum is exact, and rounded once, to the grid."""

    @property
    def reach(self) -> float:
        """How far from 0 the grid has room for the sum."""
        means, sds, counts = gaussian_classes(self.users)
        return float(counts @ (np.abs(means) + _FAR * sds))

    @property
    def deviation(self) -> float:
        """Standard deviation of the sum."""
        _, sds, counts = gaussian_classes(self.users)
        return float(np.linalg.norm(np.sqrt(counts) * sds))

    def total(self, reports: Any) -> Fraction:
        """Return the exact sum of the reports, whoever is absent.

        Raises
        ------
        TypeError, ValueError
            If there is not one finite number for each user who is present.
        """
        values, classes = self.present(reports)
        strange = ~np.isfinite(values)
        if strange.any():
            first = int(strange.argmax())
            raise ValueError(
                f"{self.called(classes, first)} reports {float(values[first])!r}, which is not "
                "finite; correct the report."
            )
        return exact_sum(values)

    def parts(self) -> Iterator[bytes]:
        """Return what tells these reports from others, for a fingerprint."""
        for label, *column in zip(self.labels, *gaussian_classes(self.users), strict=True):
            yield repr([label, "gaussian", *map(float, column)]).encode()


def exact_sum(values: FloatArray) -> Fraction:
    """Return the sum of floats without rounding.

    >>> exact_sum(np.array([1e300, 0.1, -1e300])) == Fraction(0.1)
    True
    """
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    total = Fraction(0)
    for exponent in np.unique(exponents).tolist():
        part = whole[exponents == exponent]
        # halves of 26 bits: sums of up to 2^35 of them fit into 64 bits
        units = (int((part >> 26).sum()) << 26) + int((part & (2**26 - 1)).sum())
        total += units * Fraction(2) ** (exponent - 53)
    return total


def has_gaussians(X: Any) -> bool:
    """Return whether these are users some of whom have Gaussian laws."""
    return isinstance(X, Sequence) and any(
        isinstance(law, GaussianMixture)
        for user in X
        if isinstance(user, User)
        for law in (user.law, user.alternative)
    )


def read_gaussians(users: Sequence[User], secrets: str, step: Any, query: str) -> GaussianReporters:
    """Return who reports, from Gaussian users.

    Raises
    ------
    ValueError
        If a user is not Gaussian, or an argument is not for Gaussian users.
    """
    for k, user in enumerate(users):
        if isinstance(user, User) and isinstance(user.law, Discrete):
            raise ValueError(
                f"users[{k}] has a discrete law, and other laws are Gaussian: their sums are not "
                "calibrated together; give all users discrete laws, or take "
                "closed_forms.normal_approximation, which has any laws and adds its error to delta."
            )
    gaussian_classes(users)
    if secrets not in _SECRETS:
        raise ValueError(
            f"secrets={secrets!r} is not for Gaussian users, of whom 003, Corollary 1 knows "
            f"{list(_SECRETS)}; closed_forms.normal_approximation has it, with a delta."
        )
    if query == "count":
        raise ValueError(
            "query='count' adds up reports of 0 and 1, and Gaussian users report any numbers; use "
            "query='sum'."
        )
    if step is not None:
        raise ValueError(
            f"step={step!r} is for discrete users; the sum of Gaussian users is rounded to the "
            "grid of its noise: leave step out."
        )
    return GaussianReporters(tuple(users), labels_of(users), secrets, 1.0)


# -------------------------------------------------------------------------------------- the losses


@dataclass(frozen=True, eq=False)
class GaussianSystem:
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
    together : bool
        Whether the users of a class leave or change together.
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
    together: bool

    whole = False  # sums are no whole numbers of steps
    bounded = False  # the loss of a class is computed, and not bounded only

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale of every condition that applies, and the exact ones."""
        if self.secrets == "distribution-absence":
            found = gaussian_users(
                self.means, self.sds, notion, counts=self.counts, others=self.certain
            )
            published = {"corollary_1a": found.corollary_1a}
            if found.equation_11 is not None:
                published["equation_11"] = found.equation_11
            worst = self._alone(notion)
            return {"exact": min(found.exact.scale, worst), "worst_case": worst, **published}
        farthest = Fraction(float(np.abs(self.shifts).max()))
        name = "corollary_1b" if self.secrets == "value" else "theorem_2"
        published = {name: rounded_up(farthest / Fraction(notion.epsilon))}
        if notion.delta == 0.0:  # a translation, whatever the others do
            return {"exact": published[name], "worst_case": published[name], **published}
        odds = notion.epsilon - 2.0 * math.log1p(-notion.delta)
        worst = float(farthest) / odds * (1.0 + _HAIR)
        return {"exact": min(self._translated(notion), worst), "worst_case": worst, **published}

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return what is lost with noise of a scale.

        Of very many pairs, those that are within the budget in the worst case are not looked at
        more closely.
        """
        rows, places = self._distinct
        pairs = [_Change(*row) for row in rows.tolist()]
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
        best = 0.0
        for mean, sd in rows[np.argsort(-rows.sum(axis=1), kind="stable")].tolist():
            change = _Change(mean, sd, 0.0)
            if change.alone(best, notion)[1].max() <= notion.budget:
                continue
            if notion.delta == 0.0:
                best = change.pure_scale(notion)
            else:
                best = max(best, gaussian_users([mean], [sd], notion).exact.scale)
        return best

    def _translated(self, notion: Pufferfish) -> float:
        """Return the exact scale of translations under a delta."""
        pairs = [_Change(*row).laws for row in self._distinct[0].tolist() if row[0] > 0.0]
        return calibrate(pairs, notion).scale if pairs else 0.0


def gaussian_system(reporters: GaussianReporters, secrets: str, together: bool) -> GaussianSystem:
    """Return Gaussian users with the pairs of secrets to protect.

    Raises
    ------
    ValueError
        If values are the secrets, and a user has none declared.
    """
    means, sds, counts = gaussian_classes(reporters.users)
    members = counts if together else np.ones_like(counts)
    groups = np.ones_like(counts) if together else counts
    means, sds = members * means, np.sqrt(members) * sds
    there = np.array([is_always_there(user) for user in reporters.users])
    others = _others(sds, groups * there)
    certain = None if there.all() else others
    pairs = user_pairs(reporters.users, secrets, farthest_only=True)
    places = np.array([pair.user for pair in pairs])
    if secrets == "distribution-absence":
        shifts, spreads = means[places], sds[places]
    else:
        shifts = members[places] * np.array([pair.shift for pair in pairs], dtype=float)
        spreads = np.zeros(len(pairs))
    asked = [asked_of(reporters, pair, secrets, together) for pair in pairs]
    return GaussianSystem(
        means, sds, groups, certain, shifts, spreads, others[places], asked, secrets, together
    )


def _others(sds: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the deviation of the sum of all but one of each class, without subtracting.

    Of a class of which nobody is counted, that is the sum of all.
    """
    unit = float(sds.max())
    squares = (sds / unit) ** 2
    totals = np.concatenate([[0.0], squares * counts, [0.0]])
    before, after = np.cumsum(totals)[:-2], np.cumsum(totals[::-1])[::-1][2:]
    found: FloatArray = unit * np.sqrt(before + after + squares * np.maximum(counts - 1.0, 0.0))
    return found


@dataclass(frozen=True)
class _Change:
    """What a secret changes in a sum: m >= 0, s and S of the module's header."""

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

    def pure_scale(self, notion: Pufferfish) -> float:
        """Return the smallest scale that keeps a pure promise without other users."""
        start = (self.shift + self.spread) / notion.epsilon
        return smallest_within(
            lambda theta: float(self.alone(theta, notion)[1].max()),
            notion.epsilon,
            start,
            _TOLERANCE,
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
        laws = _Change(self.shift, self.spread, 0.0).laws
        wider = Pufferfish(math.nextafter(notion.epsilon + ratio, math.inf), notion.delta)
        low = _table(laws, theta, wider)[0] * math.exp(-ratio) * (1.0 - _HAIR)
        high = notion.of_samples(_table(laws, theta, notion.for_law(ratio))[1], ratio)
        return low, np.minimum(np.nextafter(high, np.inf), 1.0)


def _table(laws: PriorPair, theta: float, notion: Pufferfish) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses of a pair of laws, both directions."""
    table = LossTable([laws], notion)
    if theta == 0.0:
        upper: FloatArray = table.without_noise()[0]
        return upper.copy(), upper
    lower, upper = table.intervals(Laplace(theta))
    return lower[0].copy(), upper[0].copy()
