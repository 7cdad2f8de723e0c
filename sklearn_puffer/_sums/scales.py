r"""The smallest Laplace scale of a sum over independent users, for pure epsilon.

The exact loss itself, and the mathematics behind it, is that of `SumLosses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

import numpy as np

from sklearn_puffer._base import LARGEST, check_positive, smallest_within
from sklearn_puffer._sums.losses import (
    FEW,
    MANY,
    MAX_STEPS,
    SEVERAL,
    SumLosses,
    alone_without_noise,
    least_loss,
    reach_of,
)
from sklearn_puffer._sums.users import User, UserPair
from sklearn_puffer.calibration import Calibration

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
