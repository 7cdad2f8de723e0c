"""Users who each report a random value, and the secrets about one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import (
    FloatArray,
    as_float,
    check_choice,
    check_count,
    check_pairs,
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
    of missing reports would tell that secret. `SumLosses` and `sum_scale` take all other users to
    be present. To model absence that the adversary does not know of, put its mass on the atom 0 of
    ``law``.

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
    secret, against : str
        What the two secrets are called.
    p, q : Discrete or GaussianMixture
        Distributions of the report: a point mass for a value, a point mass at 0 for absence.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User, user_pairs
    >>> pair = user_pairs([User(Discrete([1, 5], [0.5, 0.5]))], "value")[0]
    >>> pair.secret, pair.against, pair.shift
    ('value 1', 'value 5', 4.0)
    """

    user: int
    secret: str
    against: str
    p: Prior
    q: Prior

    @property
    def shift(self) -> float | None:
        """The difference of the two values where both are point masses, else None."""
        first, second = _only_value(self.p), _only_value(self.q)
        return None if first is None or second is None else second - first


def user_pairs(
    users: Sequence[User], secrets: str, *, farthest_only: bool = False
) -> list[UserPair]:
    """Return the secret pairs about each user, each pair once: losses are taken both ways.

    Parameters
    ----------
    users : sequence of User
        In the order in which pairs count them.
    secrets : {"value", "value-absence", "distribution-absence", "distribution"}
        Any two protected values; a protected value and absence; the distribution and absence; the
        distribution and the alternative.
    farthest_only : bool, default=False
        Of value pairs, return only the farthest pair of each user. It has the user's largest loss,
        so it decides the scale; all pairs of many users with many values would be very many.

    Returns
    -------
    list of UserPair
        User by user.

    Raises
    ------
    TypeError
        If ``users`` holds anything but users.
    ValueError
        If there is no user, the name is unknown, a user has no ``alternative`` for
        ``secrets="distribution"``, or no two values are left to protect for ``secrets="value"``.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User, user_pairs
    >>> user = User(Discrete([0, 2], [0.5, 0.5]), alternative=Discrete([0, 2], [0.25, 0.75]))
    >>> [(pair.secret, pair.against) for pair in user_pairs([user], "distribution")]
    [('law', 'alternative')]
    """
    check_choice(secrets, "secrets", SECRETS)
    members = check_users(users)
    if secrets == "value" and not farthest_only:
        sizes = [len(user.protected) for user in members]
        check_pairs(
            sum(size * (size - 1) // 2 for size in sizes),
            f"the values of the users, up to {max(sizes):,} of one,",
            "pass values= to User, or farthest_only=True",
        )
    pairs = [
        pair
        for k, user in enumerate(members)
        for pair in _pairs_of(k, user, secrets, farthest_only)
    ]
    if not pairs:
        raise ValueError(
            "secrets='value' needs a user with two values to tell apart, and every "
            "distribution has one; pass values=, or use secrets='value-absence'."
        )
    return pairs


def check_users(users: Any) -> list[User]:
    """Return ``users`` as a list, at least one of them."""
    if isinstance(users, User) or not isinstance(users, Iterable):
        raise TypeError(f"users must be a sequence of User objects, got {users!r}; pass a list.")
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


def _pairs_of(k: int, user: User, secrets: str, farthest_only: bool) -> Iterator[UserPair]:
    """Yield the secret pairs about one user."""
    if secrets == "value":
        values = user.protected.tolist()
        if farthest_only and len(values) > 1:
            values = [values[0], values[-1]]
        for a, b in combinations(values, 2):
            yield UserPair(k, _shown(a), _shown(b), _point(a), _point(b))
    elif secrets == "value-absence":
        values = user.protected.tolist()
        for value in [max(values, key=abs)] if farthest_only else values:
            yield UserPair(k, _shown(value), "absent", _point(value), _point(0.0))
    elif secrets == "distribution-absence":
        yield UserPair(k, "law", "absent", user.law, _point(0.0))
    else:
        if user.alternative is None:
            raise ValueError(
                "secrets='distribution' needs two distributions, and "
                f"{user.name or f'users[{k}]'!r} has no alternative; pass alternative= to User, or "
                "use secrets='distribution-absence'."
            )
        yield UserPair(k, "law", "alternative", user.law, user.alternative)


def _point(value: float) -> Discrete:
    return Discrete.from_counts([value], [1])


def _shown(value: float) -> str:
    return f"value {int(value) if value.is_integer() else value!r}"


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


def prior_pair(pair: UserPair | PriorPair) -> PriorPair:
    """Return the two distributions of the user's report."""
    return PriorPair(pair.p, pair.q)


def check_discrete(distribution: Any, holder: str) -> None:
    """Refuse a distribution that is not discrete, or is over several columns."""
    if not isinstance(distribution, Discrete):
        raise TypeError(
            f"{holder} must hold Discrete distributions, got {distribution!r}; round the reports "
            "to a step, or use closed_forms.gaussian_users for Gaussian users."
        )
    if distribution.n_axes != 1:
        raise ValueError(
            f"{holder} must be over one column, got {distribution!r}; sum each column apart."
        )


def reach_of(pair: UserPair) -> float:
    """Return the range of the values that have mass under either secret."""
    if pair.shift is not None:
        return abs(pair.shift)
    return float(np.ptp(np.concatenate(list(map(with_mass, prior_pair(pair))))))


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
