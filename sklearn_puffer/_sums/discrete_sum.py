r"""A sum over discrete users: the scales that pairs of secrets need, and what they lose.

A whole class, n users who leave or change together, is a chain of n single changes, in each of
which the rest of the class is among the other users. So with w(theta) the loss of one of its users
in the worst case over all others,

.. math:: \text{loss of the class} \le n \, w(\theta),

and far to either side the loss tends to n times the difference of log E[e^(x/theta)], or of
log E[e^(-x/theta)], of the two laws of one user. Where the reports of a class have one sign, or its
pairs are values, the two are equal.

The smallest Laplace scale of a sum over independent users, for pure epsilon.

The exact loss itself, and the mathematics behind it, is that of `SumLosses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf

import numpy as np

from sklearn_puffer._base import (
    LARGEST,
    BoolArray,
    FloatArray,
    IntArray,
    check_positive,
    smallest_within,
)
from sklearn_puffer._sums.answers import Losses
from sklearn_puffer._sums.losses import (
    FEW,
    MANY,
    MAX_STEPS,
    SEVERAL,
    SumLosses,
    alone_without_noise,
    least_loss,
    reach_of,
    with_mass,
)
from sklearn_puffer._sums.published_conditions import conditions
from sklearn_puffer._sums.reports import Reporters, is_always_there
from sklearn_puffer._sums.secrets import Asked
from sklearn_puffer._sums.settings import SumSettings
from sklearn_puffer._sums.users import User, UserPair, step_of
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

Loss = Callable[[float], float]

__all__ = ["MAX_STEPS", "SumLosses", "sum_scale", "worst_case_scale"]

_TOLERANCE = 1e-12
_HAIR = 1.0 + 2e-11


def sum_scale(users: Sequence[User], pairs: Sequence[UserPair], epsilon: float) -> Calibration:
    r"""Return the smallest Laplace scale with which the sum keeps every pair within epsilon.

    .. math:: \min\{\theta : \sup_y |\log h_{R * P}(y) / h_{R * Q}(y)| \le \varepsilon\}

    Parameters
    ----------
    users : sequence of User
        Independent, and all present but where the secret says otherwise; discrete laws.
    pairs : sequence of UserPair
        From `user_pairs`.
    epsilon : float
        Budget in nats.

    Returns
    -------
    Calibration
        The scale in the units of the reports, the pair that decides it, and the upper end of the
        loss of that pair.

    Raises
    ------
    TypeError, ValueError
        As `SumLosses` does, and if ``epsilon`` is not a positive number.

    Notes
    -----
    *Formal guarantees.* Given independent users, at the returned scale the proven upper end of
    every pair's loss is within epsilon. It is the smallest such scale up to about 1e-12 of it, and
    the width of the proven intervals, which is larger where the others' sum has more than 2^17
    steps: then not all of them are counted on.

    Users whose loss alone is within epsilon at the scale found so far are not looked at: other
    users never increase a loss. Of the others one evaluation each decides whether the scale grows,
    with a few of the other users first, then with several, then with all of them.

    References
    ----------
    001, sections 3 and 4, whose theorems are sufficient conditions for the same.

    Examples
    --------
    300 people who say yes with probability 1/4; secret is whether one of them took part.

    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User, sum_scale, user_pairs
    >>> users = [User(Discrete([0, 1], [0.75, 0.25]), count=300)]
    >>> found = sum_scale(users, user_pairs(users, "distribution-absence"), epsilon=1.0)
    >>> round(found.scale, 6)
    0.484624
    """
    budget = check_positive(epsilon, "epsilon")
    losses, members = SumLosses(users, pairs), list(pairs)
    roughly = _Scale(losses, members, budget, [FEW])
    roughly.visit_all()
    found = _Scale(losses, members, budget, [FEW, SEVERAL, MANY], roughly)
    found.visit_all()
    return found.calibration()


class _Scale:
    """The largest scale that any pair visited so far needs, counting on so many of the others."""

    def __init__(
        self,
        losses: SumLosses,
        pairs: list[UserPair],
        budget: float,
        steps: list[int],
        roughly: _Scale | None = None,
    ) -> None:
        self._losses, self._pairs, self._budget = losses, pairs, budget
        self._steps, self._roughly = steps, roughly
        self._scale, self._pair, self._bound = 0.0, 0, 0.0

    def visit_all(self) -> None:
        """Visit every pair whose worst case is beyond the budget, the likeliest to decide first."""
        self._start()
        worst = np.array([self._worst(k, self._scale) for k in range(len(self._pairs))])
        if self._roughly is not None:
            worst[self._roughly._pair] *= 2.0
        for k in np.argsort(-worst, kind="stable").tolist():
            self._visit(k)

    def _start(self) -> None:
        """Begin a hair below the scale that is needed far out: no exact scale is smaller."""

        def far(scale: float) -> list[float]:
            return [float(least_loss(pair, scale, 2).max()) for pair in self._pairs]

        guess = max(map(reach_of, self._pairs)) / self._budget or 1.0
        found = smallest_within(lambda x: max(far(x)), self._budget, guess, _TOLERANCE)
        if 1e-280 < found < inf:
            self._scale = found * (1.0 - 4.0 * _TOLERANCE)
            self._pair = int(np.argmax(far(self._scale)))

    def _visit(self, k: int) -> None:
        """Raise the scale to what pair ``k`` needs, if that is more; look no closer than needed."""
        for loss in self._ways(k):
            value = loss(self._scale)
            if value <= self._budget:
                self._note(k, value)
                return
            if self._scale and loss(self._scale * _HAIR) <= self._budget:
                break
        start = self._scale or (self._roughly or self)._scale or self._alone(k)
        self._scale, self._bound = self._enough(loss, k, start)
        self._pair = k

    def _note(self, k: int, value: float) -> None:
        if value > self._bound:
            self._pair, self._bound = k, value

    def _ways(self, k: int) -> list[Loss]:
        """Return upper bounds of a pair's loss, the quickest first, the exact one last."""
        ways: list[Loss] = [partial(self._worst, k)]
        if self._pairs[k].shift is None:
            ways += [partial(self._losses.upper, k, steps=steps) for steps in self._steps]
        return ways

    def _worst(self, k: int, scale: float) -> float:
        return float(self._losses.worst_of(k, scale).max())

    def calibration(self) -> Calibration:
        """Return what was found."""
        if self._scale > 0.0 and self._bound == 0.0:
            self._bound = self._losses.upper(self._pair, self._scale)
        return Calibration(self._scale, self._pair, self._bound)

    def _alone(self, k: int) -> float:
        """Return a scale that is enough for pair ``k``, whoever the others are."""
        return reach_of(self._pairs[k]) / self._budget

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


def worst_case_scale(
    users: Sequence[User], pairs: Sequence[UserPair], epsilon: float
) -> Calibration:
    """Return the smallest Laplace scale that is enough whoever the other users are.

    It is the smallest one for the report of the one user alone, released by itself.

    Parameters
    ----------
    users : sequence of User
        Independent, and all present but where the secret says otherwise; discrete laws.
    pairs : sequence of UserPair
        From `user_pairs`.
    epsilon : float
        Budget in nats.

    Returns
    -------
    Calibration
        As for `sum_scale`.

    Raises
    ------
    TypeError, ValueError
        As `sum_scale`.

    Notes
    -----
    *Formal guarantees.* The proven upper end of every pair's loss is within epsilon at the returned
    scale, for all independent other users, also dishonest ones or none.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User, user_pairs, worst_case_scale
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
    start = max(map(reach_of, members)) / budget

    def largest(scale: float) -> float:
        return float(some.worst_case(scale)[1].max())

    scale = smallest_within(largest, budget, start, _TOLERANCE)
    ends = losses.worst_case(scale)[1].max(axis=1)
    return Calibration(scale, int(ends.argmax()), float(ends.max()))


_CLOSED, _CLOSED_CLASS = 1e-9, 1e-6  # relative width of an interval that stands for one number
_QUICK = 2**17  # pairs times steps of the sum up to which every loss is computed
_NOBODY = User(Discrete.from_counts([0.0], [1]))


@dataclass(frozen=True, eq=False)
class DiscreteSum:
    """All users, in whole steps, and the pairs of secrets that are asked for.

    Attributes
    ----------
    users : list of User
    asked : list of Asked
    secrets : str
    together : bool
        Whether the users of a class leave or change together.
    """

    users: list[User]
    asked: list[Asked]
    secrets: str
    together: bool

    @classmethod
    def of(cls, reports: Reporters, asked: list[Asked], settings: SumSettings) -> DiscreteSum:
        """Return the sum of all reports, and what is asked about it."""
        return cls(reports.in_steps, asked, settings.secrets, settings.together)

    whole = True  # sums are whole numbers of steps

    @property
    def bounded(self) -> bool:
        """Whether the losses of classes may be bounds only."""
        return self.together

    @property
    def pairs(self) -> list[UserPair]:
        """The laws of each pair."""
        return [each.pair for each in self.asked]

    @cached_property
    def counted_on(self) -> list[User]:
        """The users as the others of a pair: whoever may be absent adds nothing.

        Other users never increase a loss, so the largest over all patterns of presence is the loss
        with those others only who are always there.
        """
        return [user if is_always_there(user, self.secrets) else _NOBODY for user in self.users]

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale, in steps, of every condition that applies.

        "exact" is for the given users, whoever of them is present, "worst_case" over all others;
        of a class that leaves together both are those of the bound. Where ``exact`` is False,
        "exact" may be missing: values that lie too many steps apart are not computed with.
        """
        epsilon = notion.epsilon
        if not self.together:
            scales = _sufficient(self.users, self.pairs, self.secrets, epsilon)
            if exact or self._is_computable:
                scales = {"exact": sum_scale(self.counted_on, self.pairs, epsilon).scale} | scales
            return scales
        found: dict[str, list[float]] = {}
        for k, pairs in self._by_class().items():
            share = epsilon / self.users[k].count
            for name, scale in _sufficient(self.users, pairs, self.secrets, share).items():
                found.setdefault(name, []).append(scale)
        everywhere = len(self._by_class())
        scales = {name: max(of) for name, of in found.items() if len(of) == everywhere}
        return {"exact": scales["worst_case"]} | scales

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return what is lost with noise of a scale in steps.

        A pair that is within the budget in the worst case, or with a few of the other users, is not
        looked at more closely where that takes long, but for the largest of them.
        """
        worst = self._worst(theta)
        counts = np.ones((len(self.pairs), 1))
        if self.together:
            counts[:, 0] = [self.users[pair.user].count for pair in self.pairs]
            worst = np.nextafter(counts * worst, np.inf)
        lower = np.clip(counts * self._least(theta), 0.0, worst)
        upper = worst.copy()
        # of a class, an interval is as many times as wide as it has users
        known = _closed(lower, upper, _CLOSED_CLASS if self.together else _CLOSED)
        chosen = self._looked_at(np.flatnonzero(~known), worst.max(axis=1), notion.epsilon)
        if len(chosen) * self._work > _QUICK:
            few = self._with_few(chosen, theta)
            upper[chosen] = np.minimum(upper[chosen], few[:, None])
            chosen = chosen[(few > notion.epsilon) | (few == few.max(initial=0.0))]
        if len(chosen):
            least, ends, known[chosen] = self._given(chosen, theta)
            lower[chosen] = np.maximum(lower[chosen], least)
            upper[chosen] = np.minimum(upper[chosen], ends)
        return Losses(lower, upper, worst, known)

    def _looked_at(self, unknown: IntArray, worst: FloatArray, budget: float) -> IntArray:
        """Return the pairs whose loss is computed for the given users, and not bounded only."""
        if self.together or not self._is_computable:
            return unknown[:0]
        if len(unknown) * self._work <= _QUICK:
            return unknown
        return unknown[worst[unknown] > budget]

    def _with_few(self, chosen: IntArray, theta: float) -> FloatArray:
        """Return upper ends that count on some of the other users only."""
        losses = SumLosses(self.counted_on, [self.pairs[k] for k in chosen.tolist()])
        return np.array([losses.upper(k, theta, FEW) for k in range(len(chosen))])

    def _given(self, chosen: IntArray, theta: float) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return both ends of the losses of some pairs, and whether all users are counted on."""
        losses = SumLosses(self.counted_on, [self.pairs[k] for k in chosen.tolist()])
        if theta > 0.0:
            all_count = np.array([losses.counts_all(k) for k in range(len(chosen))])
            return *losses.intervals(theta), all_count
        upper = np.array([[losses.upper(k, 0.0)] * 2 for k in range(len(chosen))])
        return np.zeros_like(upper), upper, np.ones(len(chosen), dtype=bool)

    def _worst(self, theta: float) -> FloatArray:
        """Return a bound on the losses of single users over all other users."""
        losses = SumLosses(self.users, self.pairs)
        if theta > 0.0:
            return losses.worst_case(theta)[1]
        return np.stack([losses.worst_of(k, 0.0) for k in range(len(self.pairs))])

    def _least(self, theta: float) -> FloatArray:
        """Return lower ends of the losses of single users, whatever the other users report."""
        if theta == 0.0:
            return np.zeros((len(self.pairs), 2))
        return np.stack([least_loss(pair, theta) for pair in self.pairs])

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        """Return how many steps apart one user's values lie, and the ends of the sum of all."""
        free = [pair for pair in self.pairs if pair.shift is None]
        laws = [with_mass(user.law) for user in self.counted_on]
        further = [with_mass(law) for pair in free for law in (pair.p, pair.q)]
        step = step_of(np.concatenate([*laws, *further]))
        sums = [user.count * np.ptp(x) for user, x in zip(self.counted_on, laws, strict=True)]
        return int(max(map(reach_of, free), default=0.0) / step), int(sum(sums) / step)

    @property
    def _work(self) -> int:
        """Steps that are looked at for one pair."""
        return sum(self._lengths)

    @property
    def _is_computable(self) -> bool:
        """Whether the exact loss of every pair is within reach; translations always are."""
        return self._lengths[0] <= MAX_STEPS

    def _by_class(self) -> dict[int, list[UserPair]]:
        found: dict[int, list[UserPair]] = {}
        for pair in self.pairs:
            found.setdefault(pair.user, []).append(pair)
        return found


def _closed(lower: FloatArray, upper: FloatArray, width: float) -> BoolArray:
    """Return which intervals stand for one number, in both directions."""
    closed: BoolArray = np.all(upper * (1.0 - width) <= lower, axis=1)
    return closed


def _sufficient(
    users: Sequence[User], pairs: Sequence[UserPair], secrets: str, epsilon: float
) -> dict[str, float]:
    """Return the worst case over other users and the published scales, for single users."""
    found = {"worst_case": worst_case_scale(users, pairs, epsilon).scale}
    return found | {each.name: each.scale for each in conditions(pairs, secrets, epsilon)}
