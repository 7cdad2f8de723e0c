"""What the moves of coupled components lose: the largest, the mean, and what rare ones leave."""

# Rounding. Weights, m and s are single roundings of exact numbers: `_SLACK` covers them in sums,
# and `_strategies.shift_means` in arguments. A weight too small for a float counts as 1e-300.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import ULP, FloatArray
from sklearn_puffer._strategies.bound_types import Bound, both_ways
from sklearn_puffer._strategies.component_couplings import (
    ComponentCoupling,
)
from sklearn_puffer._strategies.coupling_bounds import has_pure_loss, move_losses
from sklearn_puffer._strategies.shift_means import GaussianShift, log_exponential_means, tails
from sklearn_puffer._strategies.transport import ground_cost
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Pufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair

_SLACK = 1e-12
_TINY = 1e-300
_SHARES = 113  # of delta that are tried for the moves left out


def _starts(couplings: Sequence[ComponentCoupling]) -> NDArray[np.intp]:
    return np.cumsum([0, *(len(coupling.weights) for coupling in couplings[:-1])])


def _joined(couplings: Sequence[ComponentCoupling], name: str) -> FloatArray:
    return np.concatenate([getattr(coupling, name) for coupling in couplings])


@dataclass(frozen=True, eq=False)
class Largest:
    """The loss of the largest of some translations."""

    couplings: Sequence[ComponentCoupling]
    noise: Noise
    notion: Notion

    @cached_property
    def guess(self) -> float:
        return usual_factor(self.couplings, self.noise, self.notion)

    def losses(self, factor: float) -> FloatArray:
        shifts = _joined(self.couplings, "shifts") * (1.0 + 2.0 * ULP)
        losses = move_losses(shifts, self.noise, factor, self.notion)
        return both_ways(np.maximum.reduceat(losses, _starts(self.couplings)))


@dataclass(frozen=True, eq=False)
class RelaxedMoves:
    """The largest log mean of e^(|G|/theta) over the coupled components."""

    shifts: FloatArray
    deviations: FloatArray
    starts: NDArray[np.intp]
    theta: float
    guess: float

    @classmethod
    def of(
        cls,
        couplings: Sequence[ComponentCoupling],
        pairs: Sequence[PriorPair],
        theta: float,
        budget: float,
    ) -> RelaxedMoves:
        shifts = np.abs(_joined(couplings, "shifts")[:, 0]) * (1.0 + 2.0 * ULP)
        spreads = [
            width_changes(pair.p, pair.q)[coupling.sources, coupling.targets]
            for pair, coupling in zip(pairs, couplings, strict=True)
        ]
        deviations = np.concatenate(spreads) * (1.0 + 8.0 * ULP)
        reach = float((shifts + deviations).max()) / theta / budget
        return cls(shifts, deviations, _starts(couplings), theta, reach if reach > 0.0 else 1.0)

    def losses(self, factor: float) -> FloatArray:
        level = min(factor * self.theta, 1e300)
        if level < _TINY:
            moved = (self.shifts > 0.0) | (self.deviations > 0.0)
            return both_ways(np.maximum.reduceat(np.where(moved, np.inf, 0.0), self.starts))
        with np.errstate(over="ignore"):
            m, s = self.shifts / level, self.deviations / level
        losses = m * (1.0 + 8.0 * ULP)
        spread = self.deviations > 0.0
        s = np.maximum(s, np.maximum(1e-30 * m, 1e-200))  # a wider spread is safe
        losses[spread] = log_exponential_means(1.0, m[spread], s[spread]) + 16.0 * ULP
        return both_ways(np.maximum.reduceat(losses, self.starts))


def width_changes(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return sqrt|sd_m^2 - sd_l^2| for all components, shape (k, l), of one column."""
    a, b = p.scales[:, None], q.scales[None]
    deviations: FloatArray = np.sqrt(np.abs(a - b)) * np.sqrt(a + b)
    return deviations


@dataclass(frozen=True, eq=False)
class Average:
    """The mean loss of the moves of each coupling."""

    couplings: Sequence[ComponentCoupling]
    noise: Noise
    notion: Notion

    @cached_property
    def guess(self) -> float:
        return usual_factor(self.couplings, self.noise, self.notion)

    @cached_property
    def _shift(self) -> GaussianShift:
        return GaussianShift(self.noise, self.notion)

    def losses(self, factor: float) -> FloatArray:
        shifts = _joined(self.couplings, "shifts")
        if shifts.shape[1] > 1:
            means = move_losses(shifts * (1.0 + 2.0 * ULP), self.noise, factor, self.notion)
            divergence = self.notion.divergence
            if isinstance(divergence, PowerMean):
                with np.errstate(over="ignore"):  # infinity is an upper bound
                    means = divergence.order * means * (1.0 + 4.0 * ULP)
        else:
            widths = _joined(self.couplings, "stretches") * (1.0 + 2.0 * ULP)
            means = self._shift.means(factor, shifts[:, 0] * (1.0 + 2.0 * ULP), widths)
        weights = np.maximum(_joined(self.couplings, "weights"), _TINY)
        stops = np.append(_starts(self.couplings)[1:], len(weights))
        averages = [
            self._averaged(means[a:b], weights[a:b])
            for a, b in zip(_starts(self.couplings), stops, strict=True)
        ]
        return both_ways(np.array(averages))

    def _averaged(self, means: FloatArray, weights: FloatArray) -> float:
        divergence = self.notion.divergence
        if isinstance(divergence, PowerMean):
            return log_average(means, weights) / divergence.order * (1.0 + 4.0 * ULP)
        assert isinstance(divergence, HockeyStick)
        return min(float((means * weights).sum()) * (1.0 + _SLACK), 1.0)


def log_average(logs: FloatArray, weights: FloatArray) -> float:
    """Return log sum w e^log for logs of at least 0, rounded up.

    >>> round(log_average(np.array([0.0, 1e-20]), np.array([0.5, 0.5])) / 1e-20, 9)
    0.5
    """
    top = float(logs.max())
    if not np.isfinite(top):
        return top
    if top < 1.0:  # keeps the relative error of logs far below 1
        return float(np.log1p((weights * np.expm1(logs)).sum() * (1.0 + _SLACK))) * (1.0 + _SLACK)
    below = float(np.log((weights * np.exp(logs - top)).sum()))
    return (top + below) * (1.0 + 16.0 * ULP) + _SLACK + 16.0 * ULP * top


def approximate_moves(
    couplings: Sequence[ComponentCoupling], noise: Noise, notion: Notion
) -> Bound:
    divergence = notion.divergence
    if not isinstance(divergence, HockeyStick):
        return Kept([Moves(coupling, noise, notion) for coupling in couplings], noise, notion)
    if divergence.epsilon == 0.0 or couplings[0].shifts.shape[1] > 1 or not has_pure_loss(noise, 1):
        return Shared([Moves(coupling, noise, notion) for coupling in couplings], noise, notion)
    return Tail(couplings, noise, notion, divergence.epsilon)


@dataclass(frozen=True, eq=False)
class Tail:
    """The probability of a move whose shift has a max-divergence above epsilon."""

    couplings: Sequence[ComponentCoupling]
    noise: Noise
    notion: Notion
    epsilon: float

    @cached_property
    def reach(self) -> float:
        """A shift, the larger the better, whose max-divergence is at most epsilon at factor 1."""
        epsilon, pure = self.epsilon, Pufferfish(self.epsilon)

        def loss(shift: float) -> float:
            return float(move_losses(np.array([[shift]]), self.noise, 1.0, pure)[0])

        low, high = 0.0, float(self.noise.axis_scales(1)[0])
        while loss(high) <= epsilon and high < 1e290:
            low, high = high, high * 2.0
        for _ in range(2000):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if loss(middle) <= epsilon else (low, middle)
        return low

    @cached_property
    def guess(self) -> float:
        allowed = np.array([self.notion.delta])
        needed = max(float(_quantiles(coupling, allowed)[0]) for coupling in self.couplings)
        return max(needed / self.reach, _TINY) if 0.0 < needed < np.inf else 1.0

    def losses(self, factor: float) -> FloatArray:
        # a max-divergence is that of the shift in units of the scale
        beyond = np.array([min(self.reach * factor, 1e300) * (1.0 - 4.0 * ULP)])
        return both_ways(np.array([_tail(coupling, beyond)[0] for coupling in self.couplings]))


@dataclass(frozen=True, eq=False)
class Moves:
    """Sets of moves of one coupling that are kept, and the probability of the others.

    In one column those of at most some size z, for rows those of at most some ground cost. The
    first set leaves out as much as delta allows.
    """

    coupling: ComponentCoupling
    noise: Noise
    notion: Notion

    @cached_property
    def left_out(self) -> FloatArray:
        """Bounds on the probabilities of the moves that each set leaves out."""
        return self._sets[0]

    @cached_property
    def kept(self) -> list[FloatArray]:
        """For each set the shifts (n, d) that bound its moves."""
        return self._sets[1]

    @cached_property
    def _sets(self) -> tuple[FloatArray, list[FloatArray]]:
        if self.coupling.shifts.shape[1] > 1:
            return self._of_rows()
        shares = 1.0 / (1.0 + np.exp(np.linspace(-14.0, 14.0, _SHARES)))
        sizes = _quantiles(
            self.coupling, np.concatenate([[1.0], shares, [0.0]]) * self.notion.delta
        )
        return _tail(self.coupling, sizes), [np.array([[size]]) for size in sizes]

    def _of_rows(self) -> tuple[FloatArray, list[FloatArray]]:
        order = np.argsort(-ground_cost(self.noise, self.coupling.shifts), kind="stable")
        weights = np.maximum(self.coupling.weights[order], _TINY)
        gone = np.append(0.0, np.cumsum(weights[:-1]) * (1.0 + _SLACK))
        counts = np.flatnonzero(gone <= self.notion.delta)[::-1]
        return gone[counts], [self.coupling.shifts[order[k:]] for k in counts]

    def largest(self, factor: float, places: Sequence[int]) -> FloatArray:
        """Return the largest loss that remains, for some of the sets."""
        sizes = [len(self.kept[k]) for k in places]
        shifts = np.concatenate([self.kept[k] for k in places]) * (1.0 + 2.0 * ULP)
        finite = np.isfinite(shifts).all(axis=1)
        losses = np.full(len(shifts), self.notion.divergence.worst)
        losses[finite] = move_losses(shifts[finite], self.noise, factor, self.notion)
        worst: FloatArray = np.maximum.reduceat(losses, np.cumsum([0, *sizes[:-1]]))
        return worst


@dataclass(frozen=True, eq=False)
class _OfMoves:
    """What the bounds that leave moves out start from."""

    moves: Sequence[Moves]
    noise: Noise
    notion: Notion

    @cached_property
    def guess(self) -> float:
        return usual_factor([each.coupling for each in self.moves], self.noise, self.notion)


class Kept(_OfMoves):
    """The largest loss of a move once moves of probability delta are left out."""

    def losses(self, factor: float) -> FloatArray:
        return both_ways(np.array([each.largest(factor, [0])[0] for each in self.moves]))


class Shared(_OfMoves):
    """The least sum of what is left out and what remains, over shares of delta."""

    def losses(self, factor: float) -> FloatArray:
        return both_ways(np.array([self._least(each, factor) for each in self.moves]))

    def _least(self, moves: Moves, factor: float) -> float:
        # Pr(d > z) <= a gives Pr(d > z) + Pr(d <= z) L <= a + (1 - a) L, as L <= 1
        gone, loss = moves.left_out, moves.largest(factor, range(len(moves.left_out)))
        sums = gone + (1.0 - gone) * loss
        return min(float(np.where(loss > 0.0, sums * (1.0 + 8.0 * ULP), gone).min()), 1.0)


@dataclass(frozen=True, eq=False)
class Claim:
    """What a printed formula says: the budget is kept from a factor of its own on."""

    factors: FloatArray
    budget: float

    @property
    def guess(self) -> float:
        largest = float(self.factors.max())
        return largest if largest > 0.0 else 1.0

    def losses(self, factor: float) -> FloatArray:
        if factor == 0.0:
            return both_ways(np.where(self.factors > 0.0, np.inf, 0.0))
        with np.errstate(over="ignore"):
            return both_ways(self.budget * (self.factors / factor))


def _tail(coupling: ComponentCoupling, beyond: FloatArray) -> FloatArray:
    """Return the probability that a move of one column exceeds each of some sizes, rounded up."""
    weights = np.maximum(coupling.weights, _TINY)[:, None]
    chances = weights * tails(beyond[None], coupling.shifts, coupling.stretches[:, None])
    above: FloatArray = np.minimum(chances.sum(axis=0) * (1.0 + _SLACK), 1.0)
    return above


def _quantiles(coupling: ComponentCoupling, chances: FloatArray) -> FloatArray:
    """Return sizes that moves of one column exceed with at most each chance, and hardly more.

    Infinite where there is none.
    """
    largest = float(np.abs(coupling.shifts).max()) * (1.0 + 16.0 * ULP)
    high = np.full(chances.shape, largest + 40.0 * float(coupling.stretches.max()))
    low = np.zeros_like(high)
    high = np.where(_tail(coupling, low) <= chances, 0.0, high)
    while np.any(high - low > 1e-13 * high):
        middle = 0.5 * (low + high)
        holds = _tail(coupling, middle) <= chances
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return np.where(_tail(coupling, high) <= chances, high, np.inf)


def usual_factor(couplings: Sequence[ComponentCoupling], noise: Noise, notion: Notion) -> float:
    """Return the factor at which the largest usual move has as many scales as the budget nats."""
    scales = noise.axis_scales(couplings[0].shifts.shape[1])
    sizes = [
        float(
            ((np.abs(coupling.shifts) + np.nan_to_num(coupling.stretches)[:, None]) / scales).max()
        )
        for coupling in couplings
    ]
    return max(max(sizes), _TINY) / min(notion.epsilon or 1.0, 1.0) if max(sizes) > 0.0 else 1.0
