r"""Strategies on Gaussian mixtures: bounds read off a coupling between their components.

Let w couple the components (`_strategies.component_couplings`). Within a coupled pair
X - X' = m + s Z with Z standard normal, m the difference of the means and s that of the standard
deviations, so all of X - X' is a mixture of such Gaussians, with weights w. What bounds the loss is
what `_strategies.coupling_bounds` says of moves: a maximum, a mean, or a probability and the loss
of what remains. As noise is even and shifts enter by their size, all bounds hold in both
directions.

Which notions and noises a strategy takes is checked in `bounds`, but for what depends on the
priors: a maximum over moves exists only where no component has to stretch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri_exp

from sklearn_puffer._strategies.bound_types import Bound, Impossible, Tightest
from sklearn_puffer._strategies.component_couplings import (
    ComponentCoupling,
    bottleneck_coupling,
    shortest_coupling,
    stretches,
)
from sklearn_puffer._strategies.coupling_bounds import has_pure_loss
from sklearn_puffer._strategies.mixture_moves import (
    Average,
    Claim,
    Largest,
    RelaxedMoves,
    approximate_moves,
    width_changes,
)
from sklearn_puffer._strategies.transport import ground_cost
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, PowerMean
from sklearn_puffer.priors import GaussianMixture, PriorPair

_WAYS_OUT = (
    "use strategy='exact', delta= with strategy='distribution_aware' or 'approximate', or fits "
    "with a common covariance"
)
_WAYS_OUT_OF_ROWS = (
    "use fits with a common covariance, Gaussian noise with strategy='exact' and alpha= or delta=, "
    "or dependence='independent'"
)


# -------------------------------------------------------------------------------------- strategies


def sensitivity(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Refuse: any two values are possible under a Gaussian, however far apart."""
    return Impossible(
        "strategy='sensitivity' needs a bounded alphabet, and that of a Gaussian prior has no "
        "end; use strategy='exact', 'distribution_aware' or 'approximate'.",
        len(pairs),
    )


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
    *Formal guarantees.* Say sigma_i >= sigma_j. Then X_i has the law of X_j + G with G independent
    of X_j, a coupling under which |X_i - X_j| = |G| given any value of X_j: the mean of
    `bounds.Relaxed`, which bounds the loss in both directions. The odds of two mixtures with the
    same weights are at most the largest odds of their components, so of a coupling between
    components the largest mean counts. Two couplings are tried: the shortest one, and the one with
    the smallest maximum of |m| plus the deviation of G.
    """
    if pairs[0].p.n_axes > 1:
        return _of_translations("relaxed", pairs, noise, notion)
    theta = float(noise.axis_scales(1)[0])
    couplings: list[list[ComponentCoupling]] = [[shortest_coupling(p, q) for p, q in pairs]]
    costs = [np.abs(p.means[:, None] - q.means) + width_changes(p, q) for p, q in pairs]
    others = [bottleneck_coupling(p, q, cost) for (p, q), cost in zip(pairs, costs, strict=True)]
    couplings.append([coupling for coupling in others if coupling is not None])
    return Tightest([RelaxedMoves.of(each, pairs, theta, notion.budget) for each in couplings])


def approximate(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by that of a move that is exceeded with small probability.

    .. math:: \sum w \Pr(|m + s Z| > z) \le \delta

    Notes
    -----
    *Formal guarantees.* Under Renyi the loss is that of a shift by the smallest such z, given the
    event that the move is no larger (004, Thm 4.3). Under (epsilon, delta) the loss is the
    probability itself for the z whose shift has the max-divergence epsilon: for Laplace noise
    z = epsilon theta, the tail form of 003, Thm 1 and 2. Noise without a max-divergence instead
    takes the smallest of :math:`\Pr(d > z) + \Pr(d \le z) \delta_\varepsilon(z)` over some z.
    """
    families = _couplings(pairs, noise)
    if pairs[0].p.n_axes > 1 and not families:
        return _stretched("approximate", pairs)
    return _tightest([approximate_moves(couplings, noise, notion) for couplings in families])


def distribution_aware(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by the average over the coupling of what its moves lose.

    .. math::
        \sum w E[\delta_\varepsilon(m + s Z)], \qquad
        \frac{1}{\alpha - 1} \log \sum w E[e^{(\alpha - 1) D_\alpha(m + s Z)}]

    Notes
    -----
    *Formal guarantees.* Both divergences are convex in the pair of laws (004, Thm 4.5; the soft
    form of 003, Thm 2). Under the second, infinite where the mean does not exist: for Gaussian
    noise unless alpha (alpha - 1) s^2 is below its variance. Never above `approximate` under
    (epsilon, delta), but for roundings: a hockey stick rises with the move, and is at most 1.
    """
    if notion.is_pure:
        return _of_translations("distribution_aware", pairs, noise, notion)
    families = _couplings(pairs, noise)
    if pairs[0].p.n_axes > 1 and not families:
        return _stretched("distribution_aware", pairs)
    return _tightest([Average(couplings, noise, notion) for couplings in families])


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
        return _stretched(strategy, pairs)
    moved = any(coupling.shifts.any() for coupling in couplings)
    if moved and notion.is_pure and not has_pure_loss(noise, pairs[0].p.n_axes):
        return Impossible(
            f"strategy={strategy!r} has no pure epsilon with {type(noise).__name__} noise, under "
            "which every shift loses all; use delta=, alpha=, or noise='laplace'.",
            len(pairs),
        )
    return Largest(couplings, noise, notion)


def _couplings(pairs: Sequence[PriorPair], noise: Noise) -> list[list[ComponentCoupling]]:
    """Return the couplings that are tried, each kind for all pairs: the shortest, and translations.

    For rows only couplings of translations count, as the law of other moves has no closed form.
    """
    shortest = [shortest_coupling(p, q) for p, q in pairs]
    still = [_translations(pair, noise) for pair in pairs]
    if pairs[0].p.n_axes > 1:
        if any(coupling is None for coupling in still):
            return []
        shortest = [
            coupling if other is None or not coupling.stretches.any() else other
            for coupling, other in zip(shortest, still, strict=True)
        ]
    others = [
        coupling if other is None else other
        for coupling, other in zip(shortest, still, strict=True)
    ]
    same = all(_same(coupling, other) for coupling, other in zip(shortest, others, strict=True))
    return [shortest] if same else [shortest, others]


def _same(coupling: ComponentCoupling, other: ComponentCoupling) -> bool:
    names = "sources", "targets", "weights"
    return all(np.array_equal(getattr(coupling, name), getattr(other, name)) for name in names)


def _tightest(bounds: Sequence[Bound]) -> Bound:
    return bounds[0] if len(bounds) == 1 else Tightest(bounds)


def _stretched(strategy: str, pairs: Sequence[PriorPair]) -> Impossible:
    rows = pairs[0].p.n_axes > 1
    widths = "covariances" if rows else "scales"
    return Impossible(
        f"strategy={strategy!r} needs moves of bounded size, and no coupling couples components of "
        f"equal {widths} only, so that the tails of two Gaussians are ever further apart; "
        f"{_WAYS_OUT_OF_ROWS if rows else _WAYS_OUT}.",
        len(pairs),
    )


# --------------------------------------------------------------------------------- what 003 prints


def _not_printed(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str | None:
    """Return why 003 has no formula for a combination, or None."""
    if pairs[0].p.n_axes > 1:
        return (
            "strategy='monge' is printed for one column; use strategy='wasserstein' or 'exact', or "
            "dependence='independent'."
        )
    not_nats = isinstance(notion.divergence, PowerMean) or notion.epsilon == 0.0
    if not noise.is_exponential or not_nats:
        return (
            "strategy='monge' is printed for Laplace noise and (epsilon, delta), got "
            f"{type(noise).__name__} noise and {notion!r}; use strategy='distribution_aware' or "
            "'exact'."
        )
    if notion.is_pure and not all(_shares_scales(p, q) for p, q in pairs):
        return (
            "strategy='monge' has a pure epsilon only for priors with the same weights and scales "
            "(003, Remark 1 and Corollary 2); give delta=, or use strategy='exact' or 'relaxed'."
        )
    return None


def _shares_scales(p: GaussianMixture, q: GaussianMixture) -> bool:
    return np.array_equal(p.weights, q.weights) and np.array_equal(p.scales, q.scales)


def _printed_scale(pair: PriorPair, notion: Notion) -> float:
    p, q = pair
    if notion.is_pure:  # Remark 1, Corollary 2: component by component
        return float((p.weights * np.abs(p.means - q.means)).sum()) / notion.epsilon
    tau = -float(ndtri_exp(np.log(notion.delta / 2.0)))
    coupling = shortest_coupling(p, q)
    moves = np.abs(coupling.shifts[:, 0]) + tau * coupling.stretches
    return float((coupling.weights * moves).sum()) / notion.epsilon
