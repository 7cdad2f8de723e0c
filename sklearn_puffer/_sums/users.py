"""Users who each report a random value, and the secrets about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import (
    FloatArray,
    as_float,
    check_count,
    floats,
)
from sklearn_puffer._words import quoted
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair

SECRETS = ("value", "value-absence", "distribution-absence", "distribution")
"""The four sets of secret pairs, in the order of 001's Theorems 1, 2, 3 and 4."""

_MOST_USERS = 2**53  # of one class: beyond, sums of their reports are no whole floats


@dataclass(frozen=True, eq=False)
class User:
    """A user, or a class of like users, with the distribution of what each of them reports.

    Parameters
    ----------
    law : Discrete or GaussianMixture
        Of one column: what the user reports when present.
    presence : float, default=None
        Probability in [0, 1] of being present. None is 1 where absence is no secret, and unknown
        where it is one.
    alternative : Discrete or GaussianMixture, optional
        The distribution that ``secrets="distribution"`` protects ``law`` against.
    values : array-like of shape (n,), optional
        The values protected against each other, or against absence; they need not have mass.
        Default: all atoms of ``law``, with mass or without.
    count : int, default=1
        How many independent users there are of this class.
    name : str, optional
        What messages call the user.

    Raises
    ------
    TypeError
        If there is no distribution, or an argument is of a wrong type.
    ValueError
        If a distribution has several columns, ``presence`` lies outside [0, 1], ``count`` is below
        1, or ``values`` is empty or not finite.

    Notes
    -----
    No loss depends on how large ``presence`` is. The user's own presence is part of the secret. The
    probability that certain other users are present multiplies both densities alike, and cancels
    (001). `PufferfishSum` keeps its guarantee for every set of other users who may be present. So
    it counts only on users whose presence is 1, and on nobody where absence is a secret: a refusal
    of missing reports would tell that secret. To model absence that the adversary does not know of,
    put its mass on the atom 0 of ``law``.

    References
    ----------
    001, section 3 and Eq. (7) to (9).

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User
    >>> User(Discrete([0, 1], [0.75, 0.25]), count=300).protected.tolist()
    [0.0, 1.0]
    """

    law: Prior
    presence: float | None = None
    alternative: Prior | None = None
    values: ArrayLike | None = None
    count: int = 1
    name: str | None = None

    def __post_init__(self) -> None:
        _check_distribution(self.law, "law")
        if self.alternative is not None:
            _check_distribution(self.alternative, "alternative")
        if self.presence is not None:
            object.__setattr__(self, "presence", check_chance(self.presence, "presence"))
        if check_count(self.count, "count") > _MOST_USERS:
            raise ValueError(f"count must be at most {_MOST_USERS:,}, got {quoted(self.count)}.")
        object.__setattr__(self, "count", int(self.count))
        if self.values is not None:
            object.__setattr__(self, "values", _check_values(self.values))
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name must be a string, got {self.name!r}.")

    @property
    def protected(self) -> FloatArray:
        """The values protected, sorted and distinct."""
        if self.values is not None:
            return np.asarray(self.values, dtype=float)
        if isinstance(self.law, Discrete):
            return self.law.atoms
        raise ValueError(
            "values must be given for a user with a Gaussian distribution, whose values cannot be "
            "listed; pass values=, or protect the distribution instead."
        )


@dataclass(frozen=True, eq=False)
class UserPair:
    """Two secrets about one user, and the distribution of that user's report under each.

    Parameters
    ----------
    user : int
        Position in the list of users (of the class, where ``count`` is above one).
    priors : PriorPair
        Distributions of the report: a point mass for a value, a point mass at 0 for absence.
    secret, against : str
        What the two secrets are called.
    """

    user: int
    priors: PriorPair
    secret: str = ""
    against: str = ""

    @property
    def shift(self) -> float | None:
        """The difference of the two values where both are point masses, else None."""
        first, second = map(_only_value, self.priors)
        return None if first is None or second is None else second - first

    @property
    def reach(self) -> float:
        """The range of the values that have mass under either secret."""
        if self.shift is not None:
            return abs(self.shift)
        return float(np.ptp(np.concatenate(list(map(with_mass, self.priors)))))


def user_pairs(users: Sequence[User], secrets: str) -> list[UserPair]:
    """Return the pair of secrets about each user that has the largest loss, taken both ways.

    Of two values they are the outermost ones, of a value and absence it is the value farthest from
    0. Users without an alternative have no pair for ``secrets="distribution"``.

    >>> user = User(Discrete([0, 2, 5], [0.5, 0.25, 0.25]))
    >>> [pair.shift for pair in user_pairs([user], "value")]
    [5.0]
    """
    found = [(k, _told_apart(user, secrets)) for k, user in enumerate(users)]
    pairs = [UserPair(k, PriorPair(*priors)) for k, priors in found if priors]
    if not pairs and secrets == "value":
        raise ValueError(
            "secrets='value' needs a user with two values to tell apart, and every "
            "distribution has one; pass values=, or use secrets='value-absence'."
        )
    if not pairs:
        raise ValueError(
            f"secrets='distribution' needs two distributions, and {users[0].name or 'users[0]'!r} "
            "has no alternative; pass alternative= to User, or with a table alternatives={class: "
            "another class}, or use secrets='distribution-absence'."
        )
    return pairs


def check_users(users: Any) -> list[User]:
    """Return ``users`` as a list, at least one of them."""
    if isinstance(users, User) or not isinstance(users, Iterable):
        raise TypeError(
            "users must be a list of User objects, or a DataFrame with value= the column to sum, "
            f"got {type(users).__name__}."
        )
    members = list(users)
    for k, user in enumerate(members):
        if not isinstance(user, User):
            raise TypeError(
                f"users must hold User objects, and users[{k}] is {user!r}; "
                "wrap its distribution: User(Discrete(atoms, probabilities))."
            )
    if not members:
        raise ValueError("users must hold at least one User, got none.")
    return members


def _told_apart(user: User, secrets: str) -> tuple[Prior, Prior] | None:
    """Return the distributions of the report of a user under two secrets, if there are two."""
    if secrets == "value":
        values = user.protected.tolist()
        return (_point(values[0]), _point(values[-1])) if len(values) > 1 else None
    if secrets == "value-absence":
        return _point(max(user.protected.tolist(), key=abs)), _point(0.0)
    if secrets == "distribution-absence":
        return user.law, _point(0.0)
    return None if user.alternative is None else (user.law, user.alternative)


def _point(value: float) -> Discrete:
    return Discrete.from_counts([value], [1])


def with_mass(distribution: Prior) -> FloatArray:
    """Return the atoms that have mass."""
    assert isinstance(distribution, Discrete)
    atoms: FloatArray = distribution.atoms[distribution.counts > 0]
    return atoms


def _only_value(distribution: Prior) -> float | None:
    """Return the one value that has mass, or None."""
    if not isinstance(distribution, Discrete):
        return None
    atoms = with_mass(distribution)
    return float(atoms[0]) if len(atoms) == 1 else None


def _check_distribution(distribution: Any, name: str) -> None:
    if not isinstance(distribution, Discrete | GaussianMixture):
        raise TypeError(
            f"{name} must be a Discrete or a GaussianMixture, got {distribution!r}; estimate one, "
            "or build one: Discrete(atoms, probabilities)."
        )
    if distribution.n_axes != 1:
        raise ValueError(
            f"{name} must be of one column, got {distribution!r}; a sum is over one column, so "
            "take its marginal."
        )
    if isinstance(distribution, GaussianMixture) and distribution.means.ndim != 1:  # covariances
        raise ValueError(
            f"{name} must have standard deviations, of shape (k,), got {distribution!r} with "
            "covariance matrices; pass its marginal([0])."
        )


def check_chance(value: Any, name: str) -> float:
    """Return a probability."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in [0, 1], got {value!r}.")
    number = as_float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {quoted(value)}; it is a probability.")
    return number


def _check_values(values: Any) -> FloatArray:
    numbers = floats(values, "values")
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(
            f"values must be a non-empty list of numbers, got shape {numbers.shape}; "
            "leave it out to protect the atoms of the distribution."
        )
    if not np.all(np.isfinite(numbers)):
        bad = float(numbers[~np.isfinite(numbers)][0])
        raise ValueError(f"values must be finite, got {bad!r}; drop it or give it a number.")
    distinct: FloatArray = np.unique(numbers) + 0.0
    distinct.setflags(write=False)
    return distinct
