r"""The smallest Laplace scale of a sum over independent users, for pure epsilon.

The exact loss itself, and the mathematics behind it, is that of `SumLosses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from sklearn_puffer._base.types import FloatArray, IntArray
from sklearn_puffer._search import LARGEST, smallest_within
from sklearn_puffer._sums.losses import (
    MAX_STEPS,
    SumLosses,
    alone_without_noise,
    places_with_mass,
    prior_pair,
)
from sklearn_puffer._validation import check_positive
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User, UserPair

Loss = Callable[[float], float]

__all__ = ["MAX_STEPS", "SumLosses", "sum_scale", "worst_case_scale"]

_TOLERANCE = 1e-12
_HAIR = 1.0 + 2e-11
_LESS = 0.75  # part of a scale with which a loss beyond the budget proves that some is needed
_SEVERAL = 3  # pairs for which what most others add up to is not worth computing


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
        laws = [law for k in self._rest.tolist() for law in prior_pair(pairs[k])]
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
    atoms = sign * places_with_mass(law)
    return float(atoms.max()), atoms - atoms.max(), law.probabilities[law.counts > 0]


def _reach(pair: UserPair) -> float:
    if pair.shift is not None:
        return abs(pair.shift)
    ends = np.concatenate([places_with_mass(law) for law in prior_pair(pair)])
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
    still = [k for k, pair in enumerate(members) if alone_without_noise(pair) > budget]
    if not still:
        return Calibration(0.0, 0, max(map(alone_without_noise, members)))
    some = SumLosses(users, [members[k] for k in still])
    start = max(map(_reach, members)) / budget

    def largest(scale: float) -> float:
        return float(some.worst_case(scale)[1].max())

    scale = smallest_within(largest, budget, start, _TOLERANCE)
    ends = losses.worst_case(scale)[1].max(axis=1)
    return Calibration(scale, int(ends.argmax()), float(ends.max()))
