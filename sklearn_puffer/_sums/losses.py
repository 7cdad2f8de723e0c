r"""The exact privacy loss of a sum over independent users, with Laplace noise and pure epsilon.

One user's report has the distribution P under one secret and Q under the other. All other users add
an independent X with the distribution R. With h(y) = sum_x R(x) e^(-|y - x|/theta), the released
densities are

.. math:: \sum_t P(t) h(y - t) \quad\text{and}\quad \sum_t Q(t) h(y - t)

up to a common factor. The probability that the other users are present multiplies both, and
cancels.

- Two point masses, t apart: the triangle inequality bounds the loss by t/theta, and beyond the
  atoms of X the ratio is e^(t/theta). So the loss is t/theta, whatever R is.
- Otherwise both densities are of the form a e^z + b e^-z between two atoms. Their ratio is monotone
  there, and constant beyond the outermost atoms: the supremum is attained at an atom.
- Both densities are averages, over x, of the densities without other users, shifted by x. So the
  ratio is an average of the user's own ratio, and the loss is at most that of P against Q alone.

`convolution` computes the Laplace sums h. The ratio is evaluated on the lattice, where its
largest values are. The searches for the smallest Laplace scales evaluate these losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import cast

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, IntArray
from sklearn_puffer._numerics import LARGEST, ULP, UNIT, smallest_for_all
from sklearn_puffer._sums.convolution import Numbers, largest_log_ratios, lattice_masses, sum_of
from sklearn_puffer._sums.reports import step_of
from sklearn_puffer._sums.users import User, UserPair, with_mass
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.noise import Laplace
from sklearn_puffer.priors import Discrete, Prior

MAX_STEPS = 2**23
"""Largest range of the values of one user, in steps."""

_SCALE_ERROR = 4.0 * UNIT  # of step/theta, of its product with this, and of 1/s
_SLIGHTLY = 4e-12  # less noise by so much, relatively
_STEEPEST = 1e9  # step/theta beyond which only the worst case over all other users is known
SHORT_SUM, LONG_SUM = 4000, 2**17
"""Most steps of the sum of other users. A short sum, which serves many pairs, is tried first."""

_MAX_SUMS = 64  # sums that are held: each is two arrays as long as the sum

_MOST_TERMS = 2**22  # of generating functions, computed at once
_LEAST_MASS = 1e-300


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses at a scale, for each pair in both directions, shape (n_pairs, 2): nats, or deltas.

    ``lower`` and ``upper`` enclose the loss among the given users, the largest over all sets of
    absent users. ``worst`` bounds it for any other users. ``recomputed`` says whether the interval
    of a pair encloses the loss itself, and not only a bound on it.
    """

    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    recomputed: BoolArray


class SumLosses:
    r"""The losses of a sum of users' reports, released with Laplace noise, one noise after another.

    Users are independent, with discrete distributions. All are present unless the secret says
    otherwise. Values are subtracted as floats: decimals of ten and more digits, which floats round,
    must be given in whole steps.

    Methods of a position k give the losses of that pair, from the first secret to the second and
    back, in nats, shape (2,).

    Raises
    ------
    ValueError
        On first use, if values have no common step, or those of one user are more than 2^23 steps
        apart.

    Examples
    --------
    Which value was reported loses the distance of two values over the scale, whoever else reports.

    >>> from sklearn_puffer._sums.users import user_pairs
    >>> users = [User(Discrete([0, 1], [0.5, 0.5]), count=3)]
    >>> losses = SumLosses(users, user_pairs(users, "value"))
    >>> [end.round(9).tolist() for end in losses.interval_of(0, 2.0)]
    [[0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(self, users: Sequence[User], pairs: Sequence[UserPair]) -> None:
        self._users, self.pairs = users, pairs
        self._sums: dict[bytes, Numbers] = {}
        self._tables: dict[int, LossTable] = {}

    def interval_of(self, k: int, theta: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses of a pair for the given users.

        They include all rounding, and the upper one never exceeds that of the worst case. Where the
        sum of the other users has more than 2^17 steps, the upper end counts on some of them only,
        and the lower end holds whoever they are.
        """
        if theta == 0.0:
            return np.zeros(2), np.full(2, self._without_noise(k))
        lower, worst = self.worst_case_of(k, theta)
        if self.pairs[k].shift is not None:
            return lower, worst
        upper, lower = self._upper(k, theta, -inf), least_loss(self.pairs[k], theta)
        if self.allows_for_all(k):
            lower = np.maximum(lower, self._end_of_interval(k, theta, worst, -1.0, LONG_SUM))
        return np.minimum(lower, upper), upper

    def larger_end(self, k: int, theta: float, budget: float) -> float:
        """Return an upper end of the larger loss: a loose one if it is within the budget."""
        if theta == 0.0:
            return self._without_noise(k)
        return float(self._upper(k, theta, budget).max())

    def allows_for_all(self, k: int) -> bool:
        """Return whether the interval of a pair allows for all of the other users."""
        return self.pairs[k].shift is not None or self._counts_all(k, LONG_SUM)

    def worst_case_of(self, k: int, theta: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the losses without other users: the worst case over these."""
        shift = self.pairs[k].shift
        if shift is not None:
            if shift == 0.0 or theta == 0.0:
                return np.zeros(2), np.full(2, inf if shift else 0.0)
            loss = abs(shift) / theta  # of a difference that is rounded once
            least, most = nextafter(nextafter(loss, 0.0), 0.0), nextafter(nextafter(loss, inf), inf)
            return np.full(2, least), np.full(2, most)
        if k not in self._tables:
            self._tables[k] = LossTable([self.pairs[k].priors])
        if theta == 0.0:
            return np.zeros(2), np.full(2, self._tables[k].without_noise().max())
        lower, upper = self._tables[k].intervals(Laplace(theta))
        return lower[0], upper[0]

    def _without_noise(self, k: int) -> float:
        worst = self.worst_case_of(k, 0.0)[1]
        if self.pairs[k].shift is not None:
            return float(worst.max())
        losses, error = self._suprema(k, 0.0, worst, SHORT_SUM)
        return float(np.minimum(losses + error, worst).max())

    def _upper(self, k: int, theta: float, budget: float) -> FloatArray:
        """Return upper ends, with more and more of the other users until they are in the budget.

        First with none, then with a short sum, then with a long one; with none where slightly less
        noise would exceed the budget whoever the others are.
        """
        worst = ends = self.worst_case_of(k, theta)[1]
        if self.pairs[k].shift is not None or not worst.any():
            return worst
        if least_loss(self.pairs[k], theta * (1.0 - _SLIGHTLY)).max() > budget >= 0.0:
            return worst
        for steps in (SHORT_SUM, LONG_SUM):
            if ends.max() <= budget:
                break
            ends = np.minimum(ends, self._end_of_interval(k, theta, worst, 1.0, steps))
            if self._counts_all(k, steps):
                break
        return ends

    def _end_of_interval(
        self, k: int, theta: float, worst: FloatArray, side: float, steps: int
    ) -> FloatArray:
        """Return the upper (side 1) or lower (side -1) ends of the losses of a pair."""
        s = self.step / theta * (1.0 + side * _SCALE_ERROR)
        if not 0.0 < s <= _STEEPEST:
            return np.zeros(2) if side < 0.0 else worst
        losses, error = self._suprema(k, 1.0 / s, worst, steps)
        ends: FloatArray = np.nextafter(losses + side * error, side * inf)
        return np.maximum(ends, 0.0)

    def _suprema(
        self, k: int, scale: float, worst: FloatArray, steps: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the losses of a pair along the lattice, and bounds on their errors."""
        span = self.pairs[k].reach / self.step
        if span > MAX_STEPS:
            raise ValueError(
                f"the values of one user span {span:,.0f} steps of {self.step!r}, and at most "
                f"{MAX_STEPS:,} are computed; round the reports to a larger step (step= of "
                "PufferfishSum), or use the worst case over all other users."
            )
        others = self._sum_of_others(k, steps)
        return largest_log_ratios(others, self.pairs[k].priors, self.step, scale, worst)

    @cached_property
    def spans_in_steps(self) -> tuple[int, int]:
        """The range in steps of one user's values, unless secrets are values, and of the sum."""
        free = [pair for pair in self.pairs if pair.shift is None]
        own = max((pair.reach for pair in free), default=0.0) / self.step
        return int(own), int(self._spans @ self._classes[1])

    @cached_property
    def step(self) -> float:
        """The step that all reports have in common."""
        priors = [user.law for user in self._users]
        for pair in self.pairs:
            if pair.shift is None:
                priors += pair.priors
        return step_of(np.concatenate(list(map(with_mass, priors))))

    @cached_property
    def _classes(self) -> tuple[list[Discrete], IntArray, IntArray]:
        """Return the distinct distributions, how many users have each, and which each user has."""
        indices: dict[object, int] = {}
        priors = [cast(Discrete, user.law) for user in self._users]
        keys = [(prior.atoms.tobytes(), tuple(prior.counts.tolist())) for prior in priors]
        of = np.array([indices.setdefault(key, len(indices)) for key in keys])
        counts = np.bincount(of, weights=[user.count for user in self._users]).astype(np.int64)
        firsts = np.unique(of, return_index=True)[1].tolist()
        return [priors[first] for first in firsts], counts, of

    @cached_property
    def _spans(self) -> FloatArray:
        """Steps between the outermost atoms of each distinct distribution."""
        return np.array([np.rint(np.ptp(with_mass(x)) / self.step) for x in self._classes[0]])

    def _class_of(self, k: int) -> int:
        return int(self._classes[2][self.pairs[k].user])

    def _counted_others(self, k: int, steps: int) -> IntArray:
        """Return how many users of each distribution are in the sum of others for a pair.

        All others, or as many as have a sum of at most ``steps`` steps. Then they are one of two
        disjoint groups of users, so that two sums serve all pairs.
        """
        counts, of_pair = self._classes[1], self._class_of(k)
        length = float(self._spans @ counts)
        if length <= steps:
            return self._all_others(k)
        first = _part_within(self._spans, counts, min(float(steps), 0.5 * length))
        if first[of_pair] < counts[of_pair]:
            return first
        return _part_within(self._spans, counts - first, float(steps))

    def _all_others(self, k: int) -> IntArray:
        """Return how many users of each distribution there are without that of pair ``k``."""
        less = self._classes[1].copy()
        less[self._class_of(k)] -= 1
        return less

    def _counts_all(self, k: int, steps: int) -> bool:
        return np.array_equal(self._counted_others(k, steps), self._all_others(k))

    def _sum_of_others(self, k: int, steps: int) -> Numbers:
        """Return the distribution of the sum of other users for a pair."""
        counts = self._counted_others(k, steps)
        key = counts.tobytes()
        if key not in self._sums:
            while len(self._sums) >= _MAX_SUMS:
                self._sums.pop(next(iter(self._sums)))
            chosen = np.flatnonzero(counts).tolist()
            rows = [lattice_masses([self._classes[0][k]], self.step)[0] for k in chosen]
            self._sums[key] = sum_of(rows, counts[chosen].tolist())
        return self._sums[key]


def _part_within(spans: FloatArray, counts: IntArray, steps: float) -> IntArray:
    """Return numbers of users of each distribution, in proportion, with a sum of so many steps."""
    length = float(spans @ counts)
    if length <= steps:
        return counts
    kept: IntArray = np.floor(counts * (steps / length)).astype(np.int64)
    room = steps - spans @ kept
    for k in np.flatnonzero(counts > kept).tolist():
        if spans[k] <= room:
            kept[k] += 1
            room -= spans[k]
    return kept


def least_loss(pair: UserPair, theta: float) -> FloatArray:
    """Return lower bounds on the losses of a pair, both directions, for any other users.

    They are the largest differences of log E[e^(t x)] over 257 values of t from -1/theta to
    1/theta, fewer for very many atoms. Without noise they are 0.
    """
    if theta == 0.0:
        return np.zeros(2)
    n_atoms = max(len(with_mass(prior)) for prior in pair.priors)
    with np.errstate(over="ignore"):
        tilts = np.linspace(-1.0, 1.0, max(2, min(257, _MOST_TERMS // n_atoms))) / theta
    (least_p, most_p), (least_q, most_q) = (_log_means(prior, tilts) for prior in pair.priors)
    ends = np.array([(least_p - most_q).max(), (least_q - most_p).max()])
    lower = np.maximum(np.nextafter(ends, -inf), 0.0)
    return np.where(np.isfinite(ends), lower, 0.0)


def _log_means(distribution: Prior, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both ends of log M(t) = log E[e^(t x)] for each t of ``tilts``."""
    assert isinstance(distribution, Discrete)
    kept = distribution.counts > 0
    masses = distribution.probabilities[kept]
    with np.errstate(under="ignore", over="ignore", divide="ignore", invalid="ignore"):
        exponents = tilts[:, None] * distribution.atoms[kept]
        tops = exponents.max(axis=1)
        weights = np.exp(exponents - tops[:, None])
        # masses near underflow are 0 in the lower end, and raised in the upper one
        low = np.log(weights @ np.where(masses < _LEAST_MASS, 0.0, masses))
        high = np.log(weights @ np.maximum(masses, _LEAST_MASS))
        # rounding of masses, arguments, exponentials, logarithms and sums
        room = UNIT * (len(masses) + 16.0 + 8.0 * np.abs(exponents).max(axis=1))
        return low + tops - room - ULP * np.abs(low), high + tops + room + ULP * np.abs(high)


# ------------------------------------------------------------------------------ the smallest scales


_TOLERANCE = 1e-12
Bound = Callable[[int, float], float]
"""Bounds the loss of pair k at a scale."""


def sum_scale(users: Sequence[User], pairs: Sequence[UserPair], epsilon: float) -> Calibration:
    r"""Return the smallest Laplace scale with which the sum keeps every pair within epsilon.

    .. math:: \min\{\theta : \sup_y |\log h_{R * P}(y) / h_{R * Q}(y)| \le \varepsilon\}

    The scale is in the units of the reports; beside it are the pair that decides it, and the upper
    end of that pair's loss.

    *Formal guarantees.* Given independent users, at the returned scale the proven upper end of
    every pair's loss is within epsilon. It is the smallest such scale up to about 1e-11 of it and
    the width of the proven intervals. That is larger where the sum of the other users has more than
    2^17 steps: then not all of them are counted on.

    Other users never increase a loss. So a pair is skipped if its loss without other users, with
    few of them, or with all, is within epsilon at the largest scale so far.

    300 people who say yes with probability 1/4; secret is whether one of them took part:

    >>> from sklearn_puffer._sums.users import user_pairs
    >>> users = [User(Discrete([0, 1], [0.75, 0.25]), count=300)]
    >>> round(sum_scale(users, user_pairs(users, "distribution-absence"), epsilon=1.0).scale, 6)
    0.484624
    """
    losses = SumLosses(users, pairs)
    return _scale_of(losses, lambda k, scale: losses.larger_end(k, scale, epsilon), epsilon)


def worst_case_scale(pairs: Sequence[UserPair], epsilon: float) -> Calibration:
    """Return the smallest Laplace scale that suffices for any other users.

    It is the smallest scale for the user's report alone. *Formal guarantees.* At this scale the
    proven upper end of every pair's loss is within epsilon, whoever the other independent users
    are, dishonest ones included.

    >>> from sklearn_puffer._sums.users import user_pairs
    >>> users = [User(Discrete([0, 5], [0.5, 0.5]))]
    >>> round(worst_case_scale(user_pairs(users, "value-absence"), 1.0).scale, 9)
    5.0
    """
    losses = SumLosses([], pairs)
    return _scale_of(
        losses, lambda k, scale: float(losses.worst_case_of(k, scale)[1].max()), epsilon
    )


def _scale_of(losses: SumLosses, bound: Bound, epsilon: float) -> Calibration:
    return smallest_scale(bound, [pair.reach / epsilon for pair in losses.pairs], epsilon)


def smallest_scale(
    bound: Bound,
    guesses: Sequence[float],
    budget: float,
) -> Calibration:
    """Return the smallest scale that keeps the bounds of all pairs in budget.

    ``guesses`` has about the scale of each pair.
    """
    ends = [bound(k, 0.0) for k in range(len(guesses))]
    order = np.lexsort((-np.array(guesses), -np.array(ends))).tolist()
    above = [k for k in order if ends[k] > budget]  # the pair likely to need most comes first
    if not above:
        return Calibration(0.0, order[0], ends[order[0]])
    start = max(guesses) * (1.0 + 2.0**-46)  # enough where the guess is the root
    scale = smallest_for_all(bound, above, budget, start, _TOLERANCE)
    if scale == inf:
        raise ValueError(
            f"no noise scale up to {LARGEST} keeps the loss within {budget}; use a larger epsilon, "
            "or another unit where values lie too far apart."
        )
    ends = [bound(k, scale) for k in range(len(guesses))]
    # every pair was within the budget at this scale or a smaller one, and losses fall with noise
    return Calibration(scale, int(np.argmax(ends)), min(max(ends), budget))
