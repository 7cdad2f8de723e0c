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
from numpy.typing import NDArray

from sklearn_puffer._search import LARGEST, SMALLEST, smallest_within
from sklearn_puffer._sums.choices import Choices
from sklearn_puffer._sums.crowds import Crowd
from sklearn_puffer._sums.log_ratios import Laws, margin, sight_of, suprema
from sklearn_puffer._sums.others import UNIT, Lattice, Others, Row, row_of
from sklearn_puffer._validation import check_positive
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.noise import Laplace
from sklearn_puffer.priors import Discrete, PriorPair
from sklearn_puffer.users import User, UserPair, check_users, step_of

_Sum = TypeVar("_Sum")
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Loss = Callable[[float], float]

MAX_STEPS = 2**23
"""The longest sum, in steps from its smallest to its largest value, that is convolved."""

_QUOTIENT_ERROR = 4.0 * UNIT
_STEEPEST = 1e9  # step/theta beyond which only the worst case over the other users is given
_HARDLY_ANY = 1e-3
_TOLERANCE = 1e-12
_HAIR = 1.0 + 2e-11
_LESS = 0.75  # part of a scale with which a loss beyond the budget proves that some is needed
_SHORT = 2**13  # sums up to this long are convolved in full; longer ones are looked at as a crowd
_LOOKS = 12
_SEVERAL = 3  # pairs for which what most others add up to is not worth computing
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
            return np.full(2, _alone_without_noise(self._pairs[k]))
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
            self._tables[k] = LossTable([_prior_pair(self._pairs[k])])
        return self._tables[k]

    @cached_property
    def step(self) -> float:
        """The step that all reports have in common."""
        laws = [cast(Discrete, user.law) for user in self._users]
        laws += [law for pair in self._pairs if pair.shift is None for law in _prior_pair(pair)]
        return step_of(np.concatenate([_places_with_mass(law) for law in laws]))

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
        p, q = _prior_pair(self._pairs[k])
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
    atoms = np.rint(_places_with_mass(law) / step).astype(np.int64)
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


def _places_with_mass(law: Discrete) -> FloatArray:
    atoms: FloatArray = law.atoms[law.counts > 0]
    return atoms


def _prior_pair(pair: UserPair) -> PriorPair:
    return PriorPair(pair.p, pair.q)


def sum_scale(users: Sequence[User], pairs: Sequence[UserPair], epsilon: float) -> Calibration:
    r"""Return the smallest Laplace scale with which the sum keeps every pair within epsilon.

    .. math:: \min\{\theta : \sup_y |\log h_{R * P}(y) / h_{R * Q}(y)| \le \varepsilon\}

    Parameters
    ----------
    users : sequence of User
    pairs : sequence of UserPair
    epsilon : float
        Budget in nats.

    Returns
    -------
    Calibration
        The scale in the units of the reports, the pair that decides it, and the upper end of the
        loss of that pair.

    Notes
    -----
    *Formal guarantees.* Given independent users, at the returned scale the proven upper end of
    every pair's loss is within epsilon. It is the smallest such scale up to about 1e-12 of it, and
    the width of the proven intervals.

    Users whose loss alone is within epsilon at the scale found so far are not looked at: other
    users never increase a loss. Of the others one evaluation each decides whether the scale grows,
    with a few of the other users first, then with most of them, which many pairs share.

    Raises
    ------
    TypeError, ValueError
        As `SumLosses` does, and if ``epsilon`` is not a positive number.

    References
    ----------
    001, sections 3 and 4, whose theorems are sufficient conditions for the same.

    Examples
    --------
    300 people who say yes with probability 1/4; secret is whether one of them took part.

    >>> from sklearn_puffer.users import user_pairs
    >>> users = [User(Discrete([0, 1], [0.75, 0.25]), count=300)]
    >>> found = sum_scale(users, user_pairs(users, "distribution-absence"), epsilon=1.0)
    >>> round(found.scale, 6)
    0.484624
    """
    found = _Scale(SumLosses(users, pairs), list(pairs), check_positive(epsilon, "epsilon"))
    found.start()
    for k in found.still_open().tolist():
        found.visit(k)
    return found.calibration()


class _Scale:
    """The largest scale that any pair visited so far needs."""

    def __init__(self, losses: SumLosses, pairs: list[UserPair], budget: float) -> None:
        self._losses, self._pairs, self._budget = losses, pairs, budget
        self._scale, self._pair, self._bound = 0.0, 0, 0.0
        self._guess, self._is_crowded = 0.0, False

    def start(self) -> None:
        """Begin a hair below the scale that the limits far out need: no exact scale is smaller."""
        limits = _Limits(self._pairs)
        guess = limits.reach / self._budget
        found = smallest_within(limits.largest, self._budget, guess, _TOLERANCE)
        if 1e-280 < found < inf:
            self._scale = found * (1.0 - 4.0 * _TOLERANCE)
            self._pair = limits.worst(self._scale)

    def still_open(self) -> IntArray:
        """Return the pairs whose worst case is beyond the budget, the worst first."""
        found = self._beyond()
        self._is_crowded = self._is_crowd(found)
        return found

    def _beyond(self) -> IntArray:
        if self._scale == 0.0:
            return self._sorted_by_few(np.arange(len(self._pairs)))
        losses = self._losses.worst_case(self._scale)[1].max(axis=1)
        order: IntArray = np.argsort(-losses, kind="stable")
        return self._sorted_by_few(order[losses[order] > self._budget])

    def _sorted_by_few(self, beyond: IntArray) -> IntArray:
        """Return the pairs with many others, if all are such, in the order of what few others tell.

        The first is then likely the one that decides, and the dear search is made for few of them.
        """
        if not self._is_crowd(beyond):
            return beyond
        if self._scale == 0.0:
            k = int(beyond[0])
            if self._by("few", k)(0.0) <= self._budget:
                return beyond
            scale = self._guess = self._enough(self._by("few", k), k, self._alone(k))[0]
        else:
            scale = self._scale
        losses = np.array([self._by("few", k)(scale) for k in beyond.tolist()])
        for k, loss in zip(beyond.tolist(), losses.tolist(), strict=True):
            if self._scale and loss <= self._budget:
                self._note(k, loss)
        order = np.argsort(-losses, kind="stable")
        if self._scale:
            order = order[losses[order] > self._budget]
        found: IntArray = beyond[order]
        return found

    def visit(self, k: int) -> None:
        """Raise the scale to what pair ``k`` needs, if that is more; look no closer than needed."""
        ways = self._ways(k)
        if self._scale == 0.0:
            self._begin_with(k, ways)
            return
        for loss in ways:
            value = loss(self._scale)
            if value <= self._budget:
                self._note(k, value)
                return
            if loss is ways[-1] or loss(self._scale * _HAIR) <= self._budget:
                break
        self._scale, self._bound = self._enough(loss, k, self._scale)
        self._pair = k

    def _begin_with(self, k: int, ways: list[Loss]) -> None:
        """Take the scale that pair ``k`` needs, if it needs any."""
        exact, start = ways[-1], self._guess or self._alone(k)
        if self._losses.is_long(k) and len(ways) > 1:
            few = ways[1]
            if few(0.0) <= self._budget:
                self._note(k, few(0.0))
                return
            start = self._enough(few, k, start)[0]
            noisy = self._losses.exceeds(k, _LESS * start, self._budget)
        else:
            noisy = False
        if not noisy and exact(0.0) <= self._budget:
            self._note(k, exact(0.0))
            return
        self._scale, self._bound = self._enough(exact, k, start)
        self._pair = k

    def _note(self, k: int, value: float) -> None:
        if value > self._bound:
            self._pair, self._bound = k, value

    def _ways(self, k: int) -> list[Loss]:
        """Return upper bounds of a pair's loss, the quickest first, the exact one last."""
        ways: list[Loss]
        ways = [lambda scale: float(self._losses.worst_of(k, scale).max())]
        if self._pairs[k].shift is not None:
            return ways
        if self._is_crowded:
            return [*ways, *(self._by(who, k) for who in ("few", "most", "all"))]
        return [*ways, self._by("few", k), self._by("all", k)]

    def _by(self, who: str, k: int) -> Loss:
        return lambda scale: self._losses.upper_by(k, scale, who, self._budget)

    def _is_crowd(self, found: IntArray) -> bool:
        """Return whether these are so many with long sums that one sum of most of them pays."""
        if len(found) <= _SEVERAL or not all(map(self._losses.is_long, found.tolist())):
            return False
        return self._losses.n_kinds > _SEVERAL

    def calibration(self) -> Calibration:
        if self._scale > 0.0 and self._bound == 0.0:
            self._bound = self._losses.upper(self._pair, self._scale)
        return Calibration(self._scale, self._pair, self._bound)

    def _alone(self, k: int) -> float:
        """Return a scale that is enough for pair ``k``, whoever the others are."""
        return _reach(self._pairs[k]) / self._budget

    def _enough(self, loss: Loss, k: int, start: float) -> tuple[float, float]:
        """Return the smallest scale with the loss of pair ``k`` within the budget, and that loss.

        An end may come out a bit higher when it is looked at again: what was proven once, counts.
        """
        alone = self._alone(k) * (1.0 + 1e-15)
        if self._pairs[k].shift is not None and loss(alone) <= self._budget:
            return alone, loss(alone)  # no search is closer
        found: dict[float, float] = {}

        def remembered(scale: float) -> float:
            found[scale] = min(loss(scale), found.get(scale, inf))
            return found[scale]

        scale = smallest_within(remembered, self._budget, start, _TOLERANCE)
        if scale == inf:
            raise ValueError(
                f"no noise scale up to {LARGEST} keeps the loss within {self._budget}; use a "
                "larger epsilon, or another unit where values lie too far apart."
            )
        return scale, found[scale]


class _Limits:
    """Losses far out, log E e^(X/theta) / E e^(X'/theta) both ways: lower bounds, not proven ones.

    They depend on the user alone, and where a law is one-sided they are the loss.
    """

    def __init__(self, pairs: Sequence[UserPair]) -> None:
        shifts = [pair.shift for pair in pairs]
        self._shifts = np.array([0.0 if shift is None else abs(shift) for shift in shifts])
        self._rest = np.array([k for k, shift in enumerate(shifts) if shift is None], np.int64)
        laws = [law for k in self._rest.tolist() for law in _prior_pair(pairs[k])]
        self._sides = [[_tail(law, sign) for sign in (1.0, -1.0)] for law in laws]
        reaches = [_reach(pairs[k]) for k in self._rest.tolist()]
        self.reach = max([*reaches, float(self._shifts.max())]) or 1.0

    def losses(self, theta: float) -> FloatArray:
        logs, tops = np.empty((2, len(self._sides), 2))
        with np.errstate(under="ignore", over="ignore"):
            for k, sides in enumerate(self._sides):
                for j, (top, gaps, masses) in enumerate(sides):
                    logs[k, j] = np.log(np.maximum(masses @ np.exp(gaps / theta), 1e-300))
                    tops[k, j] = top
            found: FloatArray = self._shifts / theta
            differences = logs[::2] - logs[1::2] + (tops[::2] - tops[1::2]) / theta
            found[self._rest] = np.abs(differences).max(axis=1, initial=0.0)
        return found

    def largest(self, theta: float) -> float:
        return float(self.losses(theta).max())

    def worst(self, theta: float) -> int:
        return int(self.losses(theta).argmax())


def _tail(law: Discrete, sign: float) -> tuple[float, FloatArray, FloatArray]:
    """Return the outermost atom on one side, how far behind it the others lie, and masses."""
    atoms = sign * _places_with_mass(law)
    return float(atoms.max()), atoms - atoms.max(), law.probabilities[law.counts > 0]


def _reach(pair: UserPair) -> float:
    if pair.shift is not None:
        return abs(pair.shift)
    ends = np.concatenate([_places_with_mass(law) for law in _prior_pair(pair)])
    return float(ends.max() - ends.min())


def worst_case_scale(
    users: Sequence[User], pairs: Sequence[UserPair], epsilon: float
) -> Calibration:
    """Return the smallest Laplace scale that is enough whoever the other users are.

    It is the smallest one for the report of the one user alone, released by itself.

    Parameters
    ----------
    users : sequence of User
    pairs : sequence of UserPair
    epsilon : float
        Budget in nats.

    Returns
    -------
    Calibration

    Notes
    -----
    *Formal guarantees.* The proven upper end of every pair's loss is within epsilon at the returned
    scale, for all independent other users, also dishonest ones or none.

    Raises
    ------
    TypeError, ValueError
        As `sum_scale`.

    Examples
    --------
    >>> from sklearn_puffer.users import user_pairs
    >>> users = [User(Discrete([0, 5], [0.5, 0.5]))]
    >>> round(worst_case_scale(users, user_pairs(users, "value-absence"), 1.0).scale, 9)
    5.0
    """
    budget = check_positive(epsilon, "epsilon")
    losses = SumLosses(users, pairs)
    members = list(pairs)
    still = [k for k, pair in enumerate(members) if _alone_without_noise(pair) > budget]
    if not still:
        return Calibration(0.0, 0, max(map(_alone_without_noise, members)))
    some = SumLosses(users, [members[k] for k in still])
    start = max(map(_reach, members)) / budget

    def largest(scale: float) -> float:
        return float(some.worst_case(scale)[1].max())

    scale = smallest_within(largest, budget, start, _TOLERANCE)
    ends = losses.worst_case(scale)[1].max(axis=1)
    return Calibration(scale, int(ends.argmax()), float(ends.max()))


def _alone_without_noise(pair: UserPair) -> float:
    if pair.shift is not None:
        return inf if pair.shift else 0.0
    return float(LossTable([_prior_pair(pair)]).without_noise().max())


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
