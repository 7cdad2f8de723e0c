r"""Bounds that follow from other losses: pure ones, or those on a coarser grid.

*Pure losses.* A delta, or an order alpha, promises less than a pure guarantee, so that it may never
ask for more noise. Bounds on deltas and Renyi divergences that are read off a coupling know nothing
of an exact pure loss; `FromPure` does.

*A coarser grid*, for rows of two columns with very many values: `RoundedPlanes`. Each value of a
column becomes the nearest of at most so many points, and moves by at most h_k. Let P' and Q' be
what is released of the moved rows.

*Densities that differ by at most a factor.* Under Laplace noise and Cauchy kinds a shift by h_k
changes the density of a released row by at most a factor e^eta, with eta the pure loss of the shift
h, so that P <= e^eta P' and Q >= e^-eta Q' everywhere. Then

.. math:: D_\infty(P \| Q) \le D_\infty(P' \| Q') + 2 \eta, \qquad
          \delta_\varepsilon(P \| Q) \le e^\eta \delta_{\varepsilon - 2 \eta}(P' \| Q'), \qquad
          D_\alpha(P \| Q) \le D_\alpha(P' \| Q') + \eta \frac{2 \alpha - 1}{\alpha - 1} .

*Gaussian noise* has no such factor. What a shift by at most h loses bounds what P and P' lose to
each other, since both losses are convex in the pair: let t be the hockey-stick of h at a. From
:math:`P(E) \le e^a P'(E) + t`, and so on from P' to Q' to Q,

.. math:: \delta_\varepsilon(P \| Q)
          \le t + e^a \delta_{\varepsilon - 2 a}(P' \| Q') + e^{\varepsilon - a} t .

For an order, Hoelder's inequality with exponents u and v, 1/u + 1/v = 1, applied to
:math:`\int (P^\alpha R^{1/u - \alpha}) (R^{\alpha - 1/u} Q^{1 - \alpha})`, is

.. math:: D_\alpha(P \| Q) \le \frac{\alpha - 1/u}{\alpha - 1} D_{u \alpha}(P \| R)
          + D_\beta(R \| Q), \qquad \beta = v (\alpha - 1/u) .

It is used with R = P', where u is large, and then of order beta with R = Q', where u is near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import ULP
from sklearn_puffer._strategies.bound_types import Bound
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

_ROOM = 1e-13
_UP = 1.0 + 1e-9  # more than the roundings of a sum of a few terms
_ROOMS = (0.01, 0.03, 0.1, 0.3)  # by how much Hoelder's inequality may raise the order, each time
_SHARE = 0.1  # of a delta that may be spent on moves


@dataclass(frozen=True, eq=False)
class FromPure:
    """The losses under a notion with a delta or an order that follow from pure losses.

    >>> from sklearn_puffer.bounds import wasserstein
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0], [1.0]), Discrete([1], [1.0]))
    >>> pure = wasserstein([pair], Laplace(), Pufferfish(1.0))
    >>> FromPure(pure, Pufferfish(0.5, 0.1)).losses(1.0).round(6).tolist()
    [[0.287649, 0.287649]]
    """

    pure: Bound
    notion: Notion

    @property
    def guess(self) -> float:
        """That of the pure losses."""
        return self.pure.guess

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        both = self.pure.losses(factor)
        return two_points(both, both[:, ::-1], self.notion)


def two_points(ahead: FloatArray, back: FloatArray, notion: Notion) -> FloatArray:
    r"""Return what a likelihood ratio within e^ahead and e^-back loses at most under a notion.

    Its mean is 1, and what is averaged is convex, so the worst distribution has those two values.
    With L and M the pure losses from p to q and back:

    .. math:: b = \frac{1 - e^{-M}}{e^L - e^{-M}}, \quad \delta \le b (e^L - e^\varepsilon)_+, \quad
              e^{(\alpha - 1) D} \le b e^{\alpha L} + (1 - b) e^{-\alpha M}

    >>> from sklearn_puffer.notions import Pufferfish
    >>> pure = np.array([1.0])
    >>> float(two_points(pure, pure, Pufferfish(0.5, 0.1)).round(6)[0])  # (e - e^.5)/(e + 1)
    0.287649
    """
    positive = (ahead > 0.0) & (back > 0.0)
    high, low = np.where(positive, ahead, 1.0), np.where(positive, back, 1.0)
    divergence = notion.divergence
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        whole = -np.expm1(-(high + low))
        if isinstance(divergence, HockeyStick):
            beyond = -np.expm1(np.minimum(divergence.epsilon - high, 0.0))
            losses = np.minimum(-np.expm1(-low) * beyond / whole * (1.0 + _ROOM), 1.0)
        else:
            assert isinstance(divergence, PowerMean)
            alpha = divergence.alpha
            losses = _log_mean(high, low, alpha) / (alpha - 1.0) * (1.0 + _ROOM)
            losses = np.where(np.isnan(losses), np.inf, np.minimum(np.maximum(losses, 0.0), high))
    return np.where(positive, losses, 0.0)


def _log_mean(high: FloatArray, low: FloatArray, alpha: float) -> FloatArray:
    log_whole = np.log(-np.expm1(-(high + low)))
    top = np.log(-np.expm1(-low)) - log_whole + (alpha - 1.0) * high
    rest = np.log(-np.expm1(-high)) - log_whole - alpha * low
    room = _ROOM * (1.0 + alpha * high) + 16.0 * ULP * np.abs(log_whole)
    return np.asarray(np.logaddexp(top, rest) + room)


UpperEnds = Callable[[PriorPair, Noise, Notion], FloatArray]
"""Returns upper ends of the losses of a pair under a notion, p to q and back."""


class Rounded(NamedTuple):
    """A pair over fewer points, and by how much its values moved at most, shape (2,)."""

    pair: PriorPair
    moves: FloatArray


def rounded(pair: PriorPair, most: int) -> Rounded:
    """Return a pair of discrete priors over at most so many points a column.

    >>> pair = PriorPair(Discrete([[0, 0], [1, 5]], [0.5, 0.5]), Discrete([[9, 0]], [1.0]))
    >>> found = rounded(pair, 2)
    >>> found.pair.p.rows.tolist(), found.pair.q.rows.tolist(), found.moves.round(6).tolist()
    ([[0.5, 0.0], [0.5, 5.0]], [[9.0, 0.0]], [0.5, 0.0])
    """
    priors = [cast(Discrete, prior) for prior in pair]
    kept = [prior.counts > 0 for prior in priors]
    rows = [prior.rows[k] for prior, k in zip(priors, kept, strict=True)]
    moved, moves = [np.empty_like(each) for each in rows], np.zeros(2)
    for axis in (0, 1):
        values = np.unique(np.concatenate([each[:, axis] for each in rows]))
        points = _points(values, most)
        moves[axis] = np.abs(points - values).max() * (1.0 + 4.0 * ULP)
        for old, new in zip(rows, moved, strict=True):
            new[:, axis] = points[np.searchsorted(values, old[:, axis])]
    made = [
        Discrete.from_counts(each, prior.counts[k])
        for each, prior, k in zip(moved, priors, kept, strict=True)
    ]
    return Rounded(PriorPair(*made), moves)


def _points(values: FloatArray, most: int) -> FloatArray:
    """Return for each of some sorted values its point, of at most so many in all."""
    if values.size <= most:
        return values
    wide, narrow = float(values[-1] - values[0]) * (1.0 + 4.0 * ULP), 0.0
    while wide - narrow > 1e-3 * wide:
        middle = 0.5 * (wide + narrow)
        wide, narrow = (middle, narrow) if len(_starts(values, middle)) <= most else (wide, middle)
    starts = _starts(values, wide)
    ends = np.append(starts[1:], values.size) - 1
    middles = values[starts] / 2.0 + values[ends] / 2.0
    return np.repeat(middles, ends - starts + 1)


def _starts(values: FloatArray, width: float) -> Any:
    """Return where runs of values begin that are at most so wide."""
    starts = [0]
    while (stop := int(np.searchsorted(values, values[starts[-1]] + width, "right"))) < values.size:
        starts.append(stop)
    return np.array(starts)


@dataclass(frozen=True, eq=False)
class RoundedPlanes:
    """Bounds on the losses of pairs of two columns, each over at most ``most`` points.

    ``upper`` gives the exact loss of a pair over so few points.
    """

    pairs: Sequence[PriorPair]
    noise: Noise
    notion: Notion
    upper: UpperEnds
    most: int
    guess: float = 1.0
    tolerance: float = 1e-5

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        if factor == 0.0:
            return np.full((len(self.pairs), 2), math.inf)
        noise = self.noise.scaled(factor)
        return np.array([self._of_pair(k, noise) for k in range(len(self.pairs))])

    @cached_property
    def _rounded(self) -> list[Rounded]:
        return [rounded(pair, self.most) for pair in self.pairs]

    def _of_pair(self, k: int, noise: Noise) -> FloatArray:
        if not self._rounded[k].moves.any():
            return self.upper(self._rounded[k].pair, noise, self.notion)
        return self._moved(self._rounded[k], noise)

    def _moved(self, given: Rounded, noise: Noise) -> FloatArray:
        if noise.is_normal:
            return self._of_normal(given, noise)
        moved = float(noise.max_divergence(given.moves)) * _UP
        return _by_factor(given.pair, noise, self.notion, self.upper, moved)

    def _of_normal(self, given: Rounded, noise: Noise) -> FloatArray:
        divergence = self.notion.divergence
        if isinstance(divergence, HockeyStick):
            return _by_delta(given, noise, cast(Pufferfish, self.notion), self.upper)
        if isinstance(divergence, PowerMean):
            return _by_order(given, noise, self.notion, self.upper)
        return np.full(2, math.inf)


def _by_factor(
    pair: PriorPair, noise: Noise, notion: Notion, upper: UpperEnds, eta: float
) -> FloatArray:
    divergence = notion.divergence
    if isinstance(divergence, HockeyStick):
        left = divergence.epsilon - 2.0 * eta
        if left <= 0.0:
            return np.ones(2)
        at_less = replace(cast(Any, notion), epsilon=left)
        return np.minimum(math.exp(eta) * upper(pair, noise, at_less) * _UP, 1.0)
    paid = 2.0 * eta
    if isinstance(divergence, PowerMean):
        paid = eta * (2.0 * divergence.alpha - 1.0) / (divergence.alpha - 1.0)
    return (upper(pair, noise, notion) + paid) * _UP if math.isfinite(paid) else np.full(2, paid)


def _by_delta(given: Rounded, noise: Noise, notion: Pufferfish, upper: UpperEnds) -> FloatArray:
    unit = math.sqrt(2.0 * float(noise.renyi_divergence(given.moves, 1.5)) / 1.5)
    for a in unit * np.arange(0.5, 12.0, 0.5):
        moved = float(noise.hockey_stick(given.moves, a)) * _UP
        paid = moved * (1.0 + math.exp(notion.epsilon - a))
        if paid <= _SHARE * notion.delta or 2.0 * (a + unit) >= notion.epsilon:
            break
    left = notion.epsilon - 2.0 * a
    if left <= 0.0:
        return np.ones(2)
    kept = upper(given.pair, noise, replace(notion, epsilon=left))
    return np.minimum((math.exp(a) * kept + paid) * _UP, 1.0)


def _by_order(given: Rounded, noise: Noise, notion: Notion, upper: UpperEnds) -> FloatArray:
    alpha = cast(PowerMean, notion.divergence).alpha
    choices = [_two_steps(alpha, *rooms) for rooms in product(_ROOMS, repeat=2)]
    paid = [
        first * float(noise.renyi_divergence(given.moves, order))
        + float(noise.renyi_divergence(given.moves, other))
        for first, order, other, _, _ in choices
    ]
    grown = [weight * last / alpha for _, _, _, weight, last in choices]
    best = int(np.argmin(np.array(paid) + np.array(grown) * notion.budget))
    *_, weight, last = choices[best]
    kept = upper(given.pair, noise, RenyiPufferfish(notion.budget, last))
    return (weight * kept + paid[best]) * _UP


def _two_steps(alpha: float, room: float, other: float) -> tuple[float, float, float, float, float]:
    r"""Return weights and orders of :math:`D_\alpha \le a D_b(P \| P') + w D_g + D_c(Q' \| Q)`.

    In the order a, b, c, w, g. The first step raises alpha - 1 by ``room`` of it, and the second
    the order then reached by ``other`` of it.
    """
    u = 1.0 + 1.0 / room
    beta = (u * alpha - 1.0) / (u - 1.0)
    r = 1.0 + other
    weight = (beta - 1.0 / r) / (beta - 1.0)
    return (alpha - 1.0 / u) / (alpha - 1.0), u * alpha, (r * beta - 1.0) / other, weight, r * beta
