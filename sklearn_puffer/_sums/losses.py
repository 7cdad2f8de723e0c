r"""The exact privacy loss of a sum over independent users, with Laplace noise and pure epsilon.

User i reports with the law P under one secret and Q under the other, and everybody else adds an
independent X with the law R. With h(y) = sum_x R(x) e^(-|y - x|/theta), the released densities are

.. math:: \sum_t P(t) h(y - t) \quad\text{and}\quad \sum_t Q(t) h(y - t)

up to a common factor, which the presence probabilities of the others only multiply: they cancel.

- Two point masses, t apart: the triangle inequality bounds the loss by t/theta, and beyond the
  atoms of X the ratio is e^(t/theta): whatever R is, the loss is t/theta.
- Otherwise between two atoms both densities are of the form a e^z + b e^-z, so their ratio is
  monotone there, and it is constant beyond the outermost ones: the supremum is attained at an atom.
- Both densities are averages, over x, of those without other users, shifted by x. So the ratio is
  an average of the user's own ratio, and the loss is at most that of P against Q alone.
"""

# From the sums to an interval. Let every mass of R be wrong by a relative e at most, and call D the
# loss of P against Q alone, the larger of both directions. The ratio is an average, with weights
# proportional to R, of ratios in [e^-D, e^D]. Wrong weights move it by at most e (e^D - e^-D)
# (1 + 2e), its logarithm by e (e^2D - 1) and a bit; and by 2e in any case. To this add, for both
# densities, the rounding of h (`row_of`), of n products added up (n + 5 units of 2^-53, masses
# included), what R misses, and for quotient, logarithm and powers of two 10 + 5 |loss| units.
#
# Long sums are looked at as crowds (`_sums.crowds`), whose h has an error of its own at every
# place. If the h of n neighbours are wrong by a part r < 1 at most, so are the densities there, and
# the log ratio by 2 artanh r. The largest upper end over all places is one of the supremum, and so
# is the largest lower end. Where r matters, the crowd is looked at more closely around that place;
# all other places are proven to be lower by what is known already.
#
# step/theta is rounded, and so may the step be. The loss never increases with theta, so the upper
# end is taken at a slightly larger quotient, and the lower end at a slightly smaller one.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import inf
from typing import TypeVar, cast

import numpy as np

from sklearn_puffer._base.rounding import UNIT
from sklearn_puffer._base.types import FloatArray, IntArray
from sklearn_puffer._search import SMALLEST
from sklearn_puffer._sums.choices import Choices
from sklearn_puffer._sums.crowds import Crowd
from sklearn_puffer._sums.log_ratios import Laws, margin, sight_of, suprema
from sklearn_puffer._sums.others import Lattice, Others, Row, row_of
from sklearn_puffer._validation import check_positive
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.noise import Laplace
from sklearn_puffer.priors import Discrete, PriorPair
from sklearn_puffer.users import User, UserPair, check_users, step_of

_Sum = TypeVar("_Sum")

MAX_STEPS = 2**23
"""The longest sum, in steps from its smallest to its largest value, that is convolved."""

_QUOTIENT_ERROR = 4.0 * UNIT
_STEEPEST = 1e9  # step/theta beyond which only the worst case over the other users is given
_HARDLY_ANY = 1e-3
_SHORT = 2**13  # sums up to this long are convolved in full; longer ones are looked at as a crowd
_LOOKS = 12
_MAX_SUMS = 64  # sums that are held: each is a few arrays as long as the sum


class SumLosses:
    r"""The losses of a sum of users' reports, released with Laplace noise, one noise after another.

    Parameters
    ----------
    users : sequence of User
        Independent, and all present but where the secret says otherwise; discrete laws.
    pairs : sequence of UserPair
        From `users.user_pairs`. Differences of values are those of the floats: decimals of ten
        and more digits differ from what they stand for, and are better given in whole steps.

    Raises
    ------
    TypeError
        If a user is no `User`, a pair no `UserPair`, or a law is not discrete.
    ValueError
        If there is no user or no pair, a pair names a user that is not there, or (on first use)
        values have no common step, or the sum has more than `MAX_STEPS` steps.

    Examples
    --------
    >>> from sklearn_puffer.users import user_pairs
    >>> users = [User(Discrete([0, 1], [0.5, 0.5]), count=3)]
    >>> losses = SumLosses(users, user_pairs(users, "value"))
    >>> [end.round(9).tolist() for end in losses.intervals(2.0)]
    [[[0.5, 0.5]], [[0.5, 0.5]]]
    """

    def __init__(self, users: Sequence[User], pairs: Sequence[UserPair]) -> None:
        self._users = check_users(users)
        self._pairs = _check_pairs(pairs, self._users)
        shifts = [pair.shift for pair in self._pairs]
        self._shifts = np.array([np.nan if shift is None else abs(shift) for shift in shifts])
        self._sums: dict[bytes, Others] = {}
        self._crowds: dict[bytes, Crowd] = {}

    def intervals(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """Return proven lower and upper ends of the exact losses, each of shape (n_pairs, 2).

        Parameters
        ----------
        theta : float
            Scale of the noise, in the units of the reports.

        Returns
        -------
        lower, upper : ndarray of shape (n_pairs, 2)
            In nats: from ``p`` to ``q``, then from ``q`` to ``p``.

        Notes
        -----
        *Formal guarantees.* Given independent users, the losses lie between the ends; rounding and
        all masses that were left out are bounded. The upper end never exceeds that of
        `worst_case`.
        """
        scale = check_positive(theta, "theta")
        lower, upper = self.worst_case(scale)
        for k in np.flatnonzero(np.isnan(self._shifts)).tolist():
            worst = upper[k].copy()
            upper[k] = self._upper(k, scale, worst)
            lower[k] = np.minimum(self._lower(k, scale, worst), upper[k])
        return lower, upper

    def worst_case(self, theta: float) -> tuple[FloatArray, FloatArray]:
        """Return proven ends of the largest losses over all other users, shape (n_pairs, 2).

        They are those of ``p`` against ``q`` alone, which a system without other users attains.
        """
        scale = check_positive(theta, "theta")
        lower, upper = _translation(self._shifts, scale)
        for k in np.flatnonzero(np.isnan(self._shifts)).tolist():
            ends = self._table(k).intervals(Laplace(scale))
            lower[k], upper[k] = ends[0][0], ends[1][0]
        return lower, upper

    def upper(self, k: int, theta: float, *, few: bool = False) -> float:
        """Return the upper end of pair ``k``, the larger of both directions.

        With ``few`` only some of the other users are looked at, which is quick where they are many.
        The others never increase a loss, so that is an upper end too. A ``theta`` of 0 is no noise.
        """
        return self.upper_by(k, theta, "few" if few else "all", -1.0)

    def upper_by(self, k: int, theta: float, by: str, goal: float) -> float:
        """Return an upper end that counts on "few" of the other users, "most" of them or "all".

        What is computed for most of them serves many pairs. Nothing is looked at more closely once
        the end is within ``goal``, or the loss beyond it.
        """
        if theta == 0.0:
            return self._without_noise(k, by)
        return float(self._upper(k, theta, self.worst_of(k, theta), by, goal).max())

    def is_long(self, k: int) -> bool:
        """Return whether the others of pair ``k`` are too many to be convolved in full."""
        return bool(np.isnan(self._shifts[k])) and self._is_long(k, "all")

    def exceeds(self, k: int, theta: float, budget: float) -> bool:
        """Return whether the loss of pair ``k`` is proven to be beyond the budget."""
        if not np.isnan(self._shifts[k]):
            return bool(_translation(self._shifts[k : k + 1], theta)[0].max() > budget)
        return bool(self._lower(k, theta, self.worst_of(k, theta), budget).max() > budget)

    def worst_of(self, k: int, theta: float) -> FloatArray:
        """Return the upper ends of the worst case of pair ``k``, both directions."""
        if theta == 0.0:
            return np.full(2, alone_without_noise(self._pairs[k]))
        if not np.isnan(self._shifts[k]):
            upper = _translation(self._shifts[k : k + 1], theta)[1]
            moved: FloatArray = upper[0]
            return moved
        ends: FloatArray = self._table(k).intervals(Laplace(theta))[1][0]
        return ends

    def _without_noise(self, k: int, by: str) -> float:
        if not np.isnan(self._shifts[k]):
            return inf if self._shifts[k] else 0.0
        worst: FloatArray = self._table(k).without_noise()[0]
        others = self._others(k, by)
        if others.missed(inf) > 0.0 or not np.isfinite(others.units):
            return float(worst.max())
        laws = self._laws(k)
        mantissa, exponent = others.numbers(laws.span)
        losses = suprema(Row(mantissa, exponent, 0.0), laws, inf)
        further = margin(losses, worst, others.units, 0.0, laws.n_atoms + 5.0)
        return float(np.minimum(losses + further, worst).max())

    def _upper(
        self, k: int, theta: float, worst: FloatArray, by: str = "all", goal: float = -1.0
    ) -> FloatArray:
        """Return the smallest of the upper ends: of the worst case, with few others, with more."""
        if not np.isnan(self._shifts[k]) or not worst.any():
            return worst
        ends = worst
        if by != "few" and self._is_long(k, by):
            ends, settled = self._crowd_ends(k, theta, worst, 1.0, by, goal)
            if settled or by == "most":
                return ends
        ends = np.minimum(self._ends(k, theta, worst, 1.0, "few"), ends)
        if by == "few" or ends.max() <= goal or self._choices.are_same(self._own(k), "few", by):
            return ends
        all_ends: FloatArray = np.minimum(self._ends(k, theta, worst, 1.0, by), ends)
        return all_ends

    def _lower(self, k: int, theta: float, worst: FloatArray, goal: float = -1.0) -> FloatArray:
        if self._is_long(k, "all"):
            ends, settled = self._crowd_ends(k, theta, worst, -1.0, "all", goal)
            if settled:
                return ends
        return self._ends(k, theta, worst, -1.0, "all")

    def _ends(self, k: int, theta: float, worst: FloatArray, side: float, by: str) -> FloatArray:
        """Return the upper (side 1) or lower (side -1) ends of pair ``k``."""
        s = self.step / theta * (1.0 + side * _QUOTIENT_ERROR)
        unknown = np.zeros(2) if side < 0.0 else worst
        if not 0.0 < s <= _STEEPEST:
            return unknown
        others, laws = self._others(k, by), self._laws(k)
        missed = others.missed(s)
        if not missed <= _HARDLY_ANY:
            return unknown
        row = row_of(*others.numbers(laws.span), s)
        losses = suprema(row, laws, s)
        further = margin(losses, worst, others.units, missed, row.units + laws.n_atoms + 5.0)
        ends = np.nextafter(losses + side * further, side * inf)
        found: FloatArray = np.maximum(ends, 0.0)
        return found

    def _crowd_ends(
        self, k: int, theta: float, worst: FloatArray, side: float, by: str, goal: float
    ) -> tuple[FloatArray, bool]:
        """Return the ends of pair ``k`` on one side, looking closer where the loss is largest.

        The second is whether they are close to the loss, or else which side of ``goal`` it is on.
        """
        s = self.step / theta * (1.0 + side * _QUOTIENT_ERROR)
        crowd, laws = self._crowd(k, by), self._laws(k)
        if s == 0.0 or not crowd.covers(s):
            return (worst if side > 0.0 else np.zeros(2)), False
        for _ in range(_LOOKS):
            sight = sight_of(crowd, laws, s, worst)
            if sight.decides(goal):
                return sight.ends(side, worst), True
            looked = [crowd.look_at(place - laws.span, s) for place in sight.unclear(goal)]
            if not any(looked):
                break
        return sight.ends(side, worst), sight.is_narrow(goal)

    @cached_property
    def _tables(self) -> dict[int, LossTable]:
        return {}

    def _table(self, k: int) -> LossTable:
        if k not in self._tables:
            self._tables[k] = LossTable([prior_pair(self._pairs[k])])
        return self._tables[k]

    @cached_property
    def step(self) -> float:
        """The step that all reports have in common."""
        laws = [cast(Discrete, user.law) for user in self._users]
        laws += [law for pair in self._pairs if pair.shift is None for law in prior_pair(pair)]
        return step_of(np.concatenate([places_with_mass(law) for law in laws]))

    @cached_property
    def _classes(self) -> tuple[list[Lattice], IntArray, IntArray]:
        """Return the distinct laws, how many users each has, and the place of each user's law."""
        places: dict[object, int] = {}
        of_user: list[int] = []
        laws: list[Lattice] = []
        for user in self._users:
            law = cast(Discrete, user.law)
            key = (law.atoms.tobytes(), tuple(law.counts.tolist()))
            if key not in places:
                places[key] = len(laws)
                laws.append(_lattice(law, self.step))
            of_user.append(places[key])
        of = np.array(of_user)
        counts = np.bincount(of, weights=[user.count for user in self._users]).astype(np.int64)
        size = sum(law.span * int(n) for law, n in zip(laws, counts, strict=True))
        if size > MAX_STEPS:
            raise ValueError(
                f"the sum of all users spans {size:,} steps of {self.step!r}, and at most "
                f"{MAX_STEPS:,} are computed; round the reports to a larger step (step= of "
                "PufferfishSum), or use the worst case over all other users."
            )
        return laws, counts, of

    def _counts(self, k: int, by: str) -> IntArray:
        """Return how many of each law are counted on: all but the user of pair ``k``, or fewer."""
        return self._choices.without(self._own(k), by)

    @cached_property
    def _choices(self) -> Choices:
        laws, counts, _ = self._classes
        return Choices(np.array([law.span for law in laws]), counts)

    def _own(self, k: int) -> int:
        return int(self._classes[2][self._pairs[k].user])

    @cached_property
    def n_kinds(self) -> int:
        """How many different laws the users of pairs that are no translations have."""
        return len({self._own(k) for k in np.flatnonzero(np.isnan(self._shifts)).tolist()})

    def _is_long(self, k: int, by: str) -> bool:
        return self._choices.length(self._own(k), by) >= _SHORT

    def _others(self, k: int, by: str = "all") -> Others:
        """Return the sum of everybody but the user of pair ``k``, or of fewer."""
        return _kept(self._sums, Others, self._classes[0], self._counts(k, by))

    def _crowd(self, k: int, by: str) -> Crowd:
        return _kept(self._crowds, Crowd, self._classes[0], self._counts(k, by))

    def _laws(self, k: int) -> Laws:
        p, q = prior_pair(self._pairs[k])
        return Laws.of(_lattice(p, self.step), _lattice(q, self.step), p, q)


def _kept(
    kept: dict[bytes, _Sum],
    make: Callable[[Sequence[Lattice], Sequence[int]], _Sum],
    laws: Sequence[Lattice],
    counts: IntArray,
) -> _Sum:
    """Return the sum of so many of each law, one of the last that were asked for or a new one."""
    key = counts.tobytes()
    if key not in kept:
        while len(kept) >= _MAX_SUMS:
            kept.pop(next(iter(kept)))
        kept[key] = make(laws, counts.tolist())
    return kept[key]


def _translation(shifts: FloatArray, theta: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of |shift|/theta, both ways; a shift is a rounded difference."""
    with np.errstate(over="ignore", under="ignore"):
        losses = np.repeat(shifts[:, None], 2, axis=1) / theta
        lower = np.nextafter(np.nextafter(losses, 0.0), 0.0)
        upper = np.where(losses == 0.0, 0.0, np.nextafter(np.nextafter(losses, inf), inf))
    return lower, np.where((shifts[:, None] > 0.0) & (losses == 0.0), SMALLEST, upper)


def _lattice(law: Discrete, step: float) -> Lattice:
    atoms = np.rint(places_with_mass(law) / step).astype(np.int64)
    span = int(atoms[-1] - atoms[0])
    if span > MAX_STEPS:
        raise ValueError(
            f"values from {law.atoms[0]!r} to {law.atoms[-1]!r} span {span:,} steps of {step!r}, "
            f"and at most {MAX_STEPS:,} are computed; round the reports to a larger step (step= of "
            "PufferfishSum), or use the worst case over all other users."
        )
    masses = np.zeros(span + 1)
    masses[atoms - atoms[0]] = law.probabilities[law.counts > 0]
    return Lattice(int(atoms[0]), masses, atoms - atoms[0])


def places_with_mass(law: Discrete) -> FloatArray:
    """Return the atoms that have mass."""
    atoms: FloatArray = law.atoms[law.counts > 0]
    return atoms


def prior_pair(pair: UserPair) -> PriorPair:
    """Return the laws of the one user's report."""
    return PriorPair(pair.p, pair.q)


def alone_without_noise(pair: UserPair) -> float:
    """Return the loss of the one user's report alone, released without noise."""
    if pair.shift is not None:
        return inf if pair.shift else 0.0
    return float(LossTable([prior_pair(pair)]).without_noise().max())


def _check_pairs(pairs: Sequence[UserPair], users: Sequence[User]) -> list[UserPair]:
    checked = list(pairs)
    if not checked:
        raise ValueError("pairs must hold at least one UserPair, got none; see users.user_pairs.")
    for k, user in enumerate(users):
        if not isinstance(user.law, Discrete):
            raise TypeError(
                f"the exact loss of a sum needs Discrete laws, and users[{k}] has {user.law!r}; "
                "round the reports to a step, or use the closed forms for Gaussian users."
            )
    for k, pair in enumerate(checked):
        if not isinstance(pair, UserPair):
            raise TypeError(f"pairs must hold UserPair objects, and pairs[{k}] is {pair!r}.")
        if not 0 <= pair.user < len(users):
            raise ValueError(
                f"pairs[{k}] is about users[{pair.user}], and there are {len(users)} users; "
                "pass the users that the pairs were made from."
            )
        if not isinstance(pair.p, Discrete) or not isinstance(pair.q, Discrete):
            raise TypeError(
                f"the exact loss of a sum needs Discrete laws, and pairs[{k}] has {pair.p!r} and "
                f"{pair.q!r}; round the reports, or use the closed forms for Gaussian users."
            )
    return checked
