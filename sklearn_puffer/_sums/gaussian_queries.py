"""Gaussian users of a sum (003, Cor. 1): their reports, the scales they need, what they lose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray, rounded_up
from sklearn_puffer._sums.gaussian_changes import Change, largest_scale
from sklearn_puffer._sums.gaussian_users import gaussian_classes, gaussian_users, leave_one_out
from sklearn_puffer._sums.reports import Reporters, is_always_there, labels_of
from sklearn_puffer._sums.user_losses import Asked, Losses, asked_of
from sklearn_puffer._sums.users import User, user_pairs
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

_SECRETS = ("distribution-absence", "value", "value-absence")
_FAR = 64.0  # deviations within which the grid has room for reports
_HAIR = 1e-12
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
                "calibrated together; give all users discrete laws, in whole steps."
            )
    gaussian_classes(users)
    if secrets not in _SECRETS:
        raise ValueError(
            f"secrets={secrets!r} is not for Gaussian users, of whom 003, Corollary 1 knows "
            f"{list(_SECRETS)}; round the reports to a step, and give their discrete laws."
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
    others = leave_one_out(sds, groups * there)
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
