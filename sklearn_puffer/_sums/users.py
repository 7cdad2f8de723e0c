"""Users who each report a random value, and the secrets about one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import gcd, lcm
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
    quoted,
)
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior

SECRETS = ("value", "value-absence", "distribution-absence", "distribution")
"""The four sets of secret pairs, in the order of 001's Theorems 1, 2, 3 and 4."""

# Values that need more steps than this are irregular: floats with all their digits, not decimals.
_MAX_MULTIPLE = 2**40
_MOST_USERS = 2**53  # of one class: beyond, sums of their reports are no whole floats


@dataclass(frozen=True, eq=False)
class User:
    """A user, or a class of users alike, by the law of what is reported.

    Parameters
    ----------
    law : Discrete or GaussianMixture
        Of one column: what the user reports when present.
    presence : float, default=None
        Probability in [0, 1] of being present. None is 1 where absence is no secret, and unknown
        where it is one.
    alternative : Discrete or GaussianMixture, optional
        The law that ``secrets="distribution"`` protects ``law`` against.
    values : array-like of shape (n,), optional
        The values protected against each other, or against absence; they need not have mass.
        Default: the atoms of ``law``, those without mass included.
    count : int, default=1
        How many independent users there are of this class.
    name : str, optional
        What messages call the user.

    Raises
    ------
    TypeError
        If there is no law (a user without a distribution), or an argument is of a wrong type.
    ValueError
        If a law has several columns, ``presence`` lies outside [0, 1], ``count`` is below 1, or
        ``values`` is empty or not finite.

    Notes
    -----
    Secrets are told apart given who of the other users is present: the probability of that, as in
    001, multiplies both densities alike, and cancels. The user's own presence is part of the
    secret. So no loss depends on how large ``presence`` is; but `PufferfishSum` keeps its guarantee
    for every set of others who may be present, and so counts on those only whose presence is 1:
    on nobody where absence is a secret, for a refusal of missing reports would tell that secret.
    (`SumLosses` and `sum_scale` are given that all others are there.) To model others who may or
    may not be there, unknown to the adversary, put the mass of absence on the atom 0 of their law.

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
        _check_law(self.law, "law")
        if self.alternative is not None:
            _check_law(self.alternative, "alternative")
        if self.presence is not None:
            object.__setattr__(self, "presence", check_chance(self.presence, "presence"))
        object.__setattr__(self, "count", _check_count(self.count))
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
            "values must be given for a user with a Gaussian law, whose values cannot be listed; "
            "pass values=, or protect the distribution instead."
        )


@dataclass(frozen=True, eq=False)
class UserPair:
    """Two secrets about one user, and the laws of that user's report under each.

    Parameters
    ----------
    user : int
        Position in the list of users (of the class, where ``count`` is above one).
    secret, against : str
        What the two secrets are called.
    p, q : Discrete or GaussianMixture
        Laws of the report: a point mass for a value, a point mass at 0 for absence.

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
        """How far the second law lies from the first, where both are point masses; else None."""
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
        Any two protected values; a protected value and absence; the law and absence; the law and
        the alternative.
    farthest_only : bool, default=False
        Of value pairs, return only the one farthest apart of each user. It has that user's largest
        loss, so it decides the scale; all pairs of many users with many values are very many.

    Returns
    -------
    list of UserPair
        User by user.

    Raises
    ------
    TypeError
        If ``users`` holds anything but users.
    ValueError
        If there is no user, the name is unknown, or ``secrets="distribution"`` meets a user
        without ``alternative``, or ``secrets="value"`` leaves no two values to protect.

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
            "secrets='value' needs a user with two values to tell apart, and every law given has "
            "one; pass values=, or use secrets='value-absence'."
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
                "wrap its law: User(Discrete(atoms, probabilities))."
            )
    if not members:
        raise ValueError("users must hold at least one User, got none.")
    return members


def common_step(users: Sequence[User]) -> float:
    """Return a step such that every value a user may report is a whole number of steps.

    It is 1 where all values are integers, and otherwise the largest step there is, with floats
    read as the decimals they are printed as: 0.1 for 0.1, 0.2 and 0.7.

    Parameters
    ----------
    users : sequence of User
        Atoms of discrete laws, of alternatives, and protected values count; atoms without mass do.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the values have no common step; the message names one of them.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User
    >>> common_step([User(Discrete([0, 3], [0.5, 0.5])), User(Discrete([7], [1.0]))])
    1.0
    >>> common_step([User(Discrete([0.01, 0.25], [0.5, 0.5]))])
    0.01
    """
    parts = [part for user in check_users(users) for part in _reported(user)]
    step = step_of(np.concatenate(parts)) if parts else 1.0
    return 1.0 if step.is_integer() else step


def step_of(values: FloatArray) -> float:
    """Return the largest step of which all ``values`` are multiples; 1 where all are zero.

    >>> import numpy as np
    >>> step_of(np.array([6.0, -9.0])), step_of(np.array([0.5, 0.75]))
    (3.0, 0.25)
    """
    distinct = np.unique(np.abs(values))
    distinct = distinct[distinct > 0.0]
    if not distinct.size:
        return 1.0
    largest = Fraction(float(distinct[-1]))
    read = [Fraction(repr(value)) for value in distinct.tolist()]  # as decimals
    for exact in ([Fraction(value) for value in distinct.tolist()], read):
        # the greatest common divisor of fractions in lowest terms
        step = Fraction(gcd(*(x.numerator for x in exact)), lcm(*(x.denominator for x in exact)))
        if largest <= step * _MAX_MULTIPLE:
            return float(step)
    irregular = float(distinct[int(np.argmax([x.denominator for x in read]))])
    other = next(value for value in distinct.tolist()[::-1] if value != irregular)
    raise ValueError(
        f"values must be whole numbers of one common step, and {irregular!r} fits none that "
        f"{other!r} fits too; round the reports: pass step= to PufferfishSum."
    )


def _reported(user: User) -> Iterator[FloatArray]:
    for law in (user.law, user.alternative):
        if isinstance(law, Discrete):
            yield law.atoms
    if user.values is not None:
        yield user.protected


def _pairs_of(k: int, user: User, secrets: str, farthest_only: bool) -> Iterator[UserPair]:
    """Yield the secret pairs about one user."""
    absent = _point(0.0)
    if secrets == "value":
        values = user.protected.tolist()
        if farthest_only and len(values) > 1:
            values = [values[0], values[-1]]
        for a, b in combinations([(_shown(value), _point(value)) for value in values], 2):
            yield UserPair(k, a[0], b[0], a[1], b[1])
    elif secrets == "value-absence":
        values = user.protected.tolist()
        for value in [max(values, key=abs)] if farthest_only else values:
            yield UserPair(k, _shown(value), "absent", _point(value), absent)
    elif secrets == "distribution-absence":
        yield UserPair(k, "law", "absent", user.law, absent)
    else:
        if user.alternative is None:
            raise ValueError(
                f"secrets='distribution' needs two laws, and {user.name or f'users[{k}]'!r} has no "
                "alternative; pass alternative= to User, or use secrets='distribution-absence'."
            )
        yield UserPair(k, "law", "alternative", user.law, user.alternative)


def _point(value: float) -> Discrete:
    return Discrete.from_counts([value], [1])


def _shown(value: float) -> str:
    return f"value {int(value) if value.is_integer() else value!r}"


def _only_value(law: Prior) -> float | None:
    """Return the one value that has mass, or None."""
    if not isinstance(law, Discrete):
        return None
    atoms = law.atoms[law.counts > 0]
    return float(atoms[0]) if len(atoms) == 1 else None


def _check_law(law: Any, name: str) -> None:
    if law is None:
        raise TypeError(
            f"{name} must be a Discrete or a GaussianMixture, got None: a user without a "
            "distribution; estimate one, or give a Discrete over the values that may be reported."
        )
    if not isinstance(law, Discrete | GaussianMixture):
        raise TypeError(
            f"{name} must be a Discrete or a GaussianMixture, got {law!r}; "
            "build one: Discrete(atoms, probabilities)."
        )
    if law.n_axes != 1:
        raise ValueError(
            f"{name} must be of one column, got {law!r}; a sum is over one column, so take its "
            "marginal."
        )
    if isinstance(law, GaussianMixture) and law.means.ndim != 1:  # its scales are variances
        raise ValueError(
            f"{name} must have standard deviations, of shape (k,), got {law!r} with covariance "
            "matrices; pass law.marginal([0])."
        )


def check_chance(value: Any, name: str) -> float:
    """Return a probability."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in [0, 1], got {value!r}.")
    number = as_float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {quoted(value)}; it is a probability.")
    return number


def _check_count(count: Any) -> int:
    if check_count(count, "count") > _MOST_USERS:
        raise ValueError(f"count must be at most {_MOST_USERS:,}, got {quoted(count)}.")
    return int(count)


def _check_values(values: Any) -> FloatArray:
    numbers = floats(values, "values")
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(
            f"values must be a non-empty list of numbers, got shape {numbers.shape}; "
            "leave it out to protect the atoms of the law."
        )
    if not np.all(np.isfinite(numbers)):
        bad = float(numbers[~np.isfinite(numbers)][0])
        raise ValueError(f"values must be finite, got {bad!r}; drop it or give it a number.")
    distinct: FloatArray = np.unique(numbers) + 0.0
    distinct.setflags(write=False)
    return distinct
