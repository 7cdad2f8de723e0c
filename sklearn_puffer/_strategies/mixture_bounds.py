"""Strategies on Gaussian mixtures: bounds read off couplings of their components.

Within a coupled pair X - X' = m + s Z with Z standard normal, m the difference of the means and s
that of the standard deviations, so X - X' is a mixture of such Gaussians, with weights w. The
bounds are those of `_strategies.coupling_bounds`: a maximum over moves, a mean, or the probability
of the moves left out and the loss of the others. Noise is even and shifts enter by their size, so
all bounds hold in both directions.

`bounds` checks which notions and noises a strategy takes. What depends on the priors is checked
here: a maximum over moves exists only where no component has to stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri_exp

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import ULP, smallest_within
from sklearn_puffer._strategies.bound_types import Bound, Impossible, Tightest, both_ways, least_of
from sklearn_puffer._strategies.coupling_bounds import (
    Moves,
    average,
    has_pure_loss,
    largest,
    move_losses,
    of_moves,
    without_far_moves,
)
from sklearn_puffer._strategies.shift_means import (
    has_mean,
    log_exponential_means,
    mean_losses,
    tails,
)
from sklearn_puffer._strategies.transport import (
    ComponentCoupling,
    bottleneck_coupling,
    ground_cost,
    shortest_coupling,
    stretches,
)
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Pufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair

# Rounding. Weights, m and s are single roundings of exact numbers: `_SLACK` covers them in sums,
# and `_strategies.shift_means` in arguments. A weight too small for a float counts as 1e-300.

_SLACK = 1e-12
_TINY = 1e-300
_NO_MEAN = (
    "strategy='distribution_aware' averages the moves of Gaussians of different scales under "
    "Laplace noise, and under Gaussian noise with alpha= and without delta=, alone; use "
    "strategy='exact' or noise='laplace'."
)
_SHARES = 113  # of delta that are tried for the moves left out


def _joined(couplings: Sequence[ComponentCoupling], name: str) -> Any:
    return np.concatenate([getattr(coupling, name) for coupling in couplings])


@dataclass(frozen=True, eq=False)
class _OfCouplings:
    """A bound on the stretched moves of one column, from a coupling for each pair."""

    couplings: Sequence[ComponentCoupling]
    noise: Noise
    notion: Notion

    @cached_property
    def guess(self) -> float:
        """The factor at which the largest usual move has as many scales as the budget nats."""
        shifts, widths = (_joined(self.couplings, name) for name in ("shifts", "stretches"))
        largest = float((np.abs(shifts[:, 0]) + widths).max() / self.noise.axis_scales(1)[0])
        return max(largest, _TINY) / min(self.notion.epsilon or 1.0, 1.0) if largest > 0.0 else 1.0


@dataclass(frozen=True, eq=False)
class RelaxedMoves(_OfCouplings):
    """The largest log mean of e^(|G|/theta) over the coupled components."""

    pairs: Sequence[PriorPair]

    def losses(self, factor: float) -> FloatArray:
        each = zip(self.pairs, self.couplings, strict=True)
        return both_ways(np.array([self._largest(*of_pair, factor) for of_pair in each]))

    def _largest(self, pair: PriorPair, coupling: ComponentCoupling, factor: float) -> float:
        widths = width_changes(pair.p, pair.q)[coupling.sources, coupling.targets]
        m, s = np.abs(coupling.shifts[:, 0]) * (1.0 + 2.0 * ULP), widths * (1.0 + 8.0 * ULP)
        level = min(factor * float(self.noise.axis_scales(1)[0]), 1e300)
        if level < _TINY:
            return np.inf if m.any() or s.any() else 0.0
        spread = s > 0.0
        with np.errstate(over="ignore"):
            m, s = m / level, s / level
        losses = m * (1.0 + 8.0 * ULP)
        s = np.maximum(s, np.maximum(1e-30 * m, 1e-200))  # a wider spread is safe
        losses[spread] = log_exponential_means(1.0, m[spread], s[spread]) + 16.0 * ULP
        return float(losses.max())


def width_changes(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return sqrt|sd_m^2 - sd_l^2| for all components, shape (k, l), of one column."""
    a, b = p.scales[:, None], q.scales[None]
    return np.asarray(np.sqrt(np.abs(a - b)) * np.sqrt(a + b))


class Average(_OfCouplings):
    """The mean loss of the moves of each coupling."""

    def losses(self, factor: float) -> FloatArray:
        return both_ways(np.array([self._mean(each, factor) for each in self.couplings]))

    def _mean(self, coupling: ComponentCoupling, factor: float) -> float:
        up, divergence = 1.0 + 2.0 * ULP, self.notion.divergence
        m, s = coupling.shifts[:, 0] * up, coupling.stretches * up
        means = mean_losses(m, s, self.noise, factor, self.notion)
        if isinstance(divergence, PowerMean):  # of which these are logarithms
            means = means / divergence.order * (1.0 + 4.0 * ULP)
        weights = np.maximum(coupling.weights, _TINY)
        return float(self.notion.average(means, weights, np.zeros(1, dtype=np.intp))[0])


class TailChance(_OfCouplings):
    """The probability of a move whose shift has a max-divergence above epsilon."""

    @cached_property
    def reach(self) -> float:
        """A shift, the larger the better, whose max-divergence is at most epsilon at factor 1."""
        divergence, scale = self.notion.divergence, self.noise.axis_scales(1)
        assert isinstance(divergence, HockeyStick)
        pure = Pufferfish(divergence.epsilon)

        def loss(factor: float) -> float:
            return float(move_losses(scale[None], self.noise, factor, pure)[0])

        # a max-divergence is that of the shift in units of the scale
        within = smallest_within(loss, pure.epsilon, 1.0 / pure.epsilon, 1e-13)
        return float(scale[0]) / within * (1.0 - 2.0 * ULP)

    def losses(self, factor: float) -> FloatArray:
        beyond = np.array([min(self.reach * factor, 1e300) * (1.0 - 4.0 * ULP)])
        return both_ways(np.array([_tail(coupling, beyond)[0] for coupling in self.couplings]))


class NearMoves(_OfCouplings):
    """The loss of moves of size at most z, where larger moves have probability at most delta.

    z is the best of some, and what is left out counts: Pr(d > z) <= a gives
    Pr(d > z) + Pr(d <= z) L <= a + (1 - a) L, as L <= 1.
    """

    @cached_property
    def _sets(self) -> list[tuple[FloatArray, FloatArray]]:
        """Sizes z for each coupling, and the probability of larger moves, rounded up."""
        within = 1.0 / (1.0 + np.exp(np.linspace(-14.0, 14.0, _SHARES)))
        shares = np.concatenate([[1.0], within, [0.0]])
        sizes = [_quantiles(coupling, shares * self.notion.delta) for coupling in self.couplings]
        return [(z, _tail(coupling, z)) for z, coupling in zip(sizes, self.couplings, strict=True)]

    def losses(self, factor: float) -> FloatArray:
        return both_ways(np.array([self._least(*sets, factor) for sets in self._sets]))

    def _least(self, sizes: FloatArray, gone: FloatArray, factor: float) -> float:
        finite = np.isfinite(sizes)
        losses = np.full(len(sizes), self.notion.divergence.worst)
        shifts = sizes[finite, None] * (1.0 + 2.0 * ULP)
        losses[finite] = move_losses(shifts, self.noise, factor, self.notion)
        sums = gone + (1.0 - gone) * losses
        return min(float(np.where(losses > 0.0, sums * (1.0 + 8.0 * ULP), gone).min()), 1.0)


@dataclass(frozen=True, eq=False)
class Claim:
    """A printed scale as a bound: the budget is kept from that factor on."""

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
    return np.asarray(np.minimum(chances.sum(axis=0) * (1.0 + _SLACK), 1.0))


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


# -------------------------------------------------------------------------------------- strategies


def wasserstein(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Bound each loss by that of the largest translation that a coupling of translations needs.

    Notes
    -----
    *Formal guarantees.* A component that is moved without being stretched moves by m for certain,
    so the coupling has moves of finitely many sizes, of which the largest counts (003, Remark 1;
    004, Prop. F.1). Among such couplings the one with the smallest maximum is taken.
    """
    return _of_translations("wasserstein", pairs, noise, notion)


def relaxed(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound the pure loss under Laplace noise by the mean of e^(|G|/theta).

    .. math:: \log E[e^{|G|/\theta}], \qquad G \sim N(\mu_i - \mu_j, |\sigma_i^2 - \sigma_j^2|)

    Notes
    -----
    *Formal guarantees.* Say sigma_i >= sigma_j. Then X_i has the distribution of X_j + G with G
    independent of X_j, a coupling under which |X_i - X_j| = |G| given any value of X_j: the mean of
    `bounds.Relaxed`, which bounds the loss in both directions. The odds of two mixtures with the
    same weights are at most the largest odds of their components, so of a coupling between
    components the largest mean counts. Two couplings are tried: the shortest one, and the one with
    the smallest maximum of |m| plus the deviation of G.
    """
    if pairs[0].p.n_axes > 1:
        return _of_translations("relaxed", pairs, noise, notion)
    shortest = [shortest_coupling(p, q) for p, q in pairs]
    costs = [np.abs(p.means[:, None] - q.means) + width_changes(p, q) for p, q in pairs]
    others = [bottleneck_coupling(p, q, cost) for (p, q), cost in zip(pairs, costs, strict=True)]
    families = shortest, [coupling for coupling in others if coupling is not None]
    return Tightest([RelaxedMoves(each, noise, notion, pairs) for each in families])


def approximate(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each delta by that of a move that is exceeded with small probability.

    .. math:: \sum w \Pr(|m + s Z| > z) \le \delta

    Notes
    -----
    *Formal guarantees.* The loss is the probability itself for the z whose shift has the
    max-divergence epsilon: for Laplace noise z = epsilon theta, the tail form of 003, Thm 1 and 2.
    Noise without a max-divergence instead takes the smallest of
    :math:`\Pr(d > z) + \Pr(d \le z) \delta_\varepsilon(z)` over some z.
    """
    families = _couplings(pairs, noise)
    if not families:
        return _stretched("approximate", pairs, notion)
    if pairs[0].p.n_axes > 1:
        moves = [_moves(each, noise) for each in families]
        return of_moves("approximate", moves, noise, notion, without_far_moves)
    by_tail = notion.epsilon > 0.0 and has_pure_loss(noise, 1)
    kind = TailChance if by_tail else NearMoves
    return least_of([kind(couplings, noise, notion) for couplings in families])


def distribution_aware(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by the average over the coupling of what its moves lose.

    .. math::
        \sum w E[\delta_\varepsilon(m + s Z)], \qquad
        \frac{1}{\alpha - 1} \log \sum w E[e^{(\alpha - 1) D_\alpha(m + s Z)}]

    Notes
    -----
    *Formal guarantees.* Both divergences are convex in the pair of distributions (004, Thm 4.5; the
    soft form of 003, Thm 2). Under the second, infinite where the mean does not exist: for Gaussian
    noise unless alpha (alpha - 1) s^2 is below its variance. Under Laplace noise never above
    `approximate` under (epsilon, delta), but for roundings: a hockey stick rises with the move, and
    is at most 1. Other means of a stretch s are not known: only translations are averaged.
    """
    if notion.is_pure:
        return _of_translations("distribution_aware", pairs, noise, notion)
    families = _couplings(pairs, noise)
    if not families:
        return _stretched("distribution_aware", pairs, notion)
    if pairs[0].p.n_axes > 1:
        moves = [_moves(each, noise) for each in families]
        return of_moves("distribution_aware", moves, noise, notion, average)
    if not has_mean(noise, notion):
        families = [each for each in families if not _joined(each, "stretches").any()]
        if not families:
            return Impossible(_NO_MEAN, len(pairs))
    return least_of([Average(couplings, noise, notion) for couplings in families])


def monge(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Claim what 003 prints: Theorem 1 for Gaussians, Theorem 2 and Corollary 2 for mixtures.

    .. math:: b = \frac1\varepsilon \sum w (|m| + |s| Q^{-1}(\delta/2))

    Notes
    -----
    Theorem 1 (one component each) is sound. Theorem 2 and, for pure epsilon, Corollary 2 average
    over components where the worst one counts: there is no guarantee. The "loss" is the budget
    times b over the scale, so that the budget is kept from the printed b on.
    """
    reason = _not_printed(pairs, noise, notion)
    if reason is not None:
        return Impossible(reason, len(pairs))
    theta = float(noise.axis_scales(1)[0])
    scales = np.array([_printed_scale(pair, notion) for pair in pairs])
    return Claim(scales / theta, notion.budget)


# --------------------------------------------------------------------------------------- couplings


def _translations(pair: PriorPair, noise: Noise) -> ComponentCoupling | None:
    """Return the coupling of smallest largest move among those that stretch nothing, or None."""
    p, q = pair
    moves = np.abs(p.rows[:, None] - q.rows[None])
    sizes = moves[..., 0] if p.n_axes == 1 else ground_cost(noise, moves)
    return bottleneck_coupling(p, q, np.where(stretches(p, q) > 0.0, np.inf, sizes))


def _of_translations(
    strategy: str, pairs: Sequence[PriorPair], noise: Noise, notion: Notion
) -> Bound:
    couplings = [coupling for pair in pairs if (coupling := _translations(pair, noise)) is not None]
    if len(couplings) < len(pairs):
        return _stretched(strategy, pairs, notion)
    return of_moves(strategy, [_moves(couplings, noise)], noise, notion, largest)


def _moves(couplings: Sequence[ComponentCoupling], noise: Noise) -> Moves:
    """Return the moves of couplings that stretch nothing, one coupling for each pair."""
    owners = np.repeat(np.arange(len(couplings)), [len(each.masses) for each in couplings])
    shifts, masses = (_joined(couplings, name) for name in ("shifts", "masses"))
    return Moves.of_entries(shifts, masses, owners, noise)


def _couplings(pairs: Sequence[PriorPair], noise: Noise) -> list[list[ComponentCoupling]]:
    """Return the couplings that are tried, each kind for all pairs: the shortest, and translations.

    For rows only couplings of translations count, as the distribution of other moves has no closed
    form: none, where components of some pair have to stretch.
    """
    shortest = [shortest_coupling(p, q) for p, q in pairs]
    still = [_translations(pair, noise) for pair in pairs]
    others = [other or coupling for coupling, other in zip(shortest, still, strict=True)]
    if pairs[0].p.n_axes > 1:
        if any(coupling is None for coupling in still):
            return []
        couplings = zip(shortest, others, strict=True)
        shortest = [w if not w.stretches.any() else other for w, other in couplings]
    same = all(
        np.array_equal(getattr(coupling, name), getattr(other, name))
        for coupling, other in zip(shortest, others, strict=True)
        for name in ("sources", "targets", "masses")
    )
    return [shortest] if same else [shortest, others]


def _stretched(strategy: str, pairs: Sequence[PriorPair], notion: Notion) -> Impossible:
    rows = pairs[0].p.n_axes > 1
    return Impossible(
        f"strategy={strategy!r} needs moves of bounded size, and no coupling couples components of "
        f"equal {'covariances' if rows else 'scales'} only, so that the tails of two Gaussians are "
        f"ever further apart; use noise='laplace' with strategy='exact'.",
        len(pairs),
    )


# --------------------------------------------------------------------------------- what 003 prints


def _not_printed(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str | None:
    """Return why 003 has no formula for a combination, or None."""
    if pairs[0].p.n_axes > 1:
        return (
            "strategy='monge' is printed for one column; use dependence='independent' or "
            "strategy='exact'."
        )
    not_nats = isinstance(notion.divergence, PowerMean) or notion.epsilon == 0.0
    if not noise.is_exponential or not_nats:
        return (
            "strategy='monge' is printed for Laplace noise and (epsilon, delta), got "
            f"{type(noise).__name__} noise and {notion!r}; use strategy='exact'."
        )
    if notion.is_pure and not all(
        np.array_equal(p.weights, q.weights) and np.array_equal(p.scales, q.scales)
        for p, q in pairs
    ):
        return (
            "strategy='monge' has a pure epsilon only for priors with the same weights and scales "
            "(003, Remark 1 and Corollary 2); use delta=1e-05 or strategy='exact'."
        )
    return None


def _printed_scale(pair: PriorPair, notion: Notion) -> float:
    p, q = pair
    if notion.is_pure:  # Remark 1, Corollary 2: component by component
        return float((p.weights * np.abs(p.means - q.means)).sum()) / notion.epsilon
    tau = -float(ndtri_exp(np.log(notion.delta / 2.0)))
    coupling = shortest_coupling(p, q)
    moves = np.abs(coupling.shifts[:, 0]) + tau * coupling.stretches
    return float((coupling.weights * moves).sum()) / notion.epsilon
