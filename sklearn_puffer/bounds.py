"""Strategies: proven upper bounds on the privacy loss of prior pairs, as functions of the noise.

Use this module to give ``strategy=`` an object with settings, such as ``Relaxed("eq11")``, to look
at a published bound by itself, or to write your own.

A strategy takes the pairs, a noise family at unit factor and a notion, does all work that does not
depend on the factor once, and hands back a `Bound`. Calibration then asks that for few factors.
A combination that has no such bound gives an `Impossible`, which says why and what to use instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_puffer._base import FloatArray, check_choice
from sklearn_puffer._losses import (
    LossTable,
    all_computable,
    bare_losses,
    row_interval,
)
from sklearn_puffer._noise import without_mixings
from sklearn_puffer._numerics import ULP
from sklearn_puffer._strategies import (
    Bound,
    ConditionalMeans,
    FromPure,
    Impossible,
    JointRows,
    MovedRows,
    Moves,
    Strategy,
    Tightest,
    average,
    checked_arguments,
    couplings,
    joint_computable,
    largest,
    least_of,
    mixture_bounds,
    moves_that_may_matter,
    of_moves,
    single_moves,
    without_far_moves,
)
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, Pufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair

__all__ = [
    "Bound",
    "Impossible",
    "Relaxed",
    "Strategy",
    "Tightest",
    "approximate",
    "distribution_aware",
    "monge",
    "sensitivity",
    "tightest",
    "wasserstein",
]


def sensitivity(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by that of a shift across the whole alphabet.

    .. math:: D(K \| K(\cdot - \Delta)), \quad \Delta_k = \max_{x, x'} |x_k - x'_k|

    Parameters
    ----------
    pairs : sequence of PriorPair
        The alphabet of a pair is the union of both priors' atoms, those of mass zero included.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish or RenyiPufferfish
        D is the notion's divergence.

    Returns
    -------
    Bound
        `Impossible` for pure epsilon with noise under which every shift loses all, and for
        mixtures, whose alphabet is unbounded.

    Notes
    -----
    *Formal guarantees.* Holds whatever the masses are (000, Eq. 26), for every noise and notion.

    Examples
    --------
    >>> from sklearn_puffer.bounds import sensitivity
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [1, 0]))
    >>> sensitivity([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.5, 1.5]]
    """
    pairs = checked_arguments(pairs, noise, notion)
    if _are_mixtures(pairs):
        return Impossible(
            "strategy='sensitivity' needs a bounded alphabet, and that of a Gaussian prior has no "
            "end; use strategy='exact'.",
            len(pairs),
        )
    low = np.array([np.minimum(p.rows.min(axis=0), q.rows.min(axis=0)) for p, q in pairs])
    high = np.array([np.maximum(p.rows.max(axis=0), q.rows.max(axis=0)) for p, q in pairs])
    return of_moves("sensitivity", [single_moves(high - low, noise)], noise, notion, largest)


def wasserstein(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by that of the largest move of a coupling (GWM).

    .. math:: \max_{(x, x') \in \mathrm{supp}\,\pi} D(K \| K(\cdot - (x - x')))

    Parameters
    ----------
    pairs : sequence of PriorPair
        Of discrete priors, or of mixtures.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish or RenyiPufferfish
        D is the notion's divergence.

    Returns
    -------
    Bound
        `Impossible` for pure epsilon with noise under which every shift loses all.

    Notes
    -----
    *Formal guarantees.* Holds for every coupling and noise (000, Eq. 4; 001, Prop. 1; 004,
    Thm 3.3). In one column the monotone coupling makes it the loss of a shift by W_inf. For rows
    the best of `couplings` counts, pair by pair. With delta and alpha both, no event is
    left out.

    Examples
    --------
    >>> from sklearn_puffer.bounds import wasserstein
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> wasserstein([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.0, 1.0]]
    """
    pairs = checked_arguments(pairs, noise, notion)
    if _are_mixtures(pairs):
        return mixture_bounds.wasserstein(pairs, noise, notion)
    moves = [moves_that_may_matter(coupled, noise) for coupled in couplings(pairs, noise)]
    return of_moves("wasserstein", moves, noise, notion, largest)


@dataclass(frozen=True)
class Relaxed:
    r"""Bound each loss by a mean over a coupling, given the atom that mass moves to or comes from.

    .. math::
        \text{eq11: } \max_{x'} \log E_\pi[e^{d(X, X')/\theta} \mid X' = x'], \qquad
        \text{eq12: } \max_{x} \log E_\pi[e^{d(X, X')/\theta} \mid X = x]

    Parameters
    ----------
    condition : {"either", "eq11", "eq12"}, default="either"
        000 Eq. (11), Eq. (12), or for each pair the smaller of the two.

    Raises
    ------
    ValueError
        If ``condition`` is not one of the three.

    Notes
    -----
    *Formal guarantees.* Either side alone bounds the loss in both directions: forwards by
    e^(|y-x'|/theta - |y-x|/theta) <= e^(d/theta), backwards by E[e^-Z] >= 1 / E[e^Z]. That holds
    for every coupling; in one column it is the monotone one, and for rows, with d/theta =
    sum |x_k - x'_k| / theta_k, the best of `couplings` counts, pair by pair. Never above
    `wasserstein`. Beside unordered columns d/theta is the largest log ratio of the likelihoods of
    the two rows, for which both arguments hold. It is a bound for pure epsilon and Laplace noise,
    and `Impossible` elsewhere.

    Examples
    --------
    >>> from sklearn_puffer.bounds import Relaxed
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> Relaxed("eq11")([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.0, 1.0]]
    """

    condition: str = "either"

    def __post_init__(self) -> None:
        check_choice(self.condition, "condition", ["eq11", "eq12", "either"])

    def __call__(self, pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
        """Prepare the conditional means of each pair's couplings."""
        pairs = checked_arguments(pairs, noise, notion)
        if not (notion.is_pure and without_mixings(noise).is_exponential):
            return Impossible(
                "strategy='relaxed' is a bound for Laplace noise and pure epsilon, got "
                f"{type(noise).__name__} noise and {notion!r}; use strategy='exact'.",
                len(pairs),
            )
        if _are_mixtures(pairs):
            return mixture_bounds.relaxed(pairs, noise, notion)
        sides = {"eq11": [True], "eq12": [False], "either": [True, False]}[self.condition]
        return ConditionalMeans(couplings(pairs, noise), sides, noise, notion.budget)


def approximate(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each delta by that of a move that is exceeded with small probability.

    .. math:: \min_z \Pr(d > z) + \Pr(d \le z)\, \delta_\varepsilon(z)

    Parameters
    ----------
    pairs : sequence of PriorPair
        Of discrete priors, or of mixtures.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish
        With a delta.

    Returns
    -------
    Bound
        `Impossible` without a delta.

    Notes
    -----
    *Formal guarantees.* Moves of a coupling beyond z cost a delta of their probability; the loss of
    all others is a mean over moves of at most z. d is the ground cost of the noise, and
    delta_epsilon(z) the largest loss among moves of at most z; for rows the best of `couplings`
    counts. Probabilities are exact. For Laplace noise the scale is at most the (1 - delta)-quantile
    of d over epsilon.

    References
    ----------
    003, Thm 1; 004, Thm 4.3, whose statement about (epsilon, delta) needs the max-divergence: with
    the Renyi divergence of order 1.001 it guarantees delta 1e-6 where 0.238 is true.

    Examples
    --------
    >>> from sklearn_puffer.bounds import approximate
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1, 9], [0.5, 0.49, 0.01]))
    >>> approximate([pair], Laplace(), Pufferfish(1.0, delta=0.01)).losses(0.5).tolist()
    [[0.01, 0.01]]
    """
    pairs = checked_arguments(pairs, noise, notion)
    if notion.delta == 0.0:
        return Impossible(
            "strategy='approximate' leaves out moves of probability delta, and there is none; "
            "give delta=1e-05" + ("." if notion.is_pure else " with alpha=None."),
            len(pairs),
        )
    if _are_mixtures(pairs):
        return mixture_bounds.approximate(pairs, noise, notion)
    moves = [Moves.of(coupled, noise) for coupled in couplings(pairs, noise)]
    return of_moves("approximate", moves, noise, notion, without_far_moves)


def distribution_aware(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Bound each loss by the average over a coupling of what its moves lose.

    .. math::
        (\varepsilon, \delta)\text{: } E_\pi[\delta_\varepsilon(X - X')], \qquad
        \text{Renyi: } \frac{1}{\alpha - 1} \log E_\pi[e^{(\alpha - 1) D_\alpha(X - X')}]

    Parameters
    ----------
    pairs : sequence of PriorPair
        Of discrete priors, or of mixtures.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish or RenyiPufferfish
        Under pure epsilon the average is the maximum, as in `wasserstein`.

    Returns
    -------
    Bound
        `Impossible` for pure epsilon with noise under which every shift loses all.

    Notes
    -----
    *Formal guarantees.* Hockey-stick divergences and e^((alpha - 1) D) are convex in the pair of
    distributions, so the average over any coupling is a bound. In one column it is taken over the
    monotone coupling; for rows the best of `couplings`, that of `wasserstein` among them, counts
    pair by pair. Never above `wasserstein`. Gaussian and mixture priors are moved by a Gaussian
    within each pair of components: under Laplace noise and Cauchy kinds, and for one column under
    Gaussian noise with an alpha, the mean of what that loses is bounded, whatever the covariances.

    References
    ----------
    004, Thm 4.5 with q = 1 (DAGWM), and Cor. 4.1.

    Examples
    --------
    >>> from sklearn_puffer.bounds import distribution_aware, wasserstein
    >>> from sklearn_puffer.noise import Gaussian
    >>> from sklearn_puffer.notions import RenyiPufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 3], [0.4, 0.6]))
    >>> bounds = distribution_aware, wasserstein
    >>> notion = RenyiPufferfish(1.0, alpha=2.0)
    >>> [round(float(each([pair], Gaussian(), notion).losses(3.0).max()), 6) for each in bounds]
    [0.158565, 1.0]
    """
    pairs = checked_arguments(pairs, noise, notion)
    if _are_mixtures(pairs):
        still = mixture_bounds.distribution_aware(pairs, noise, notion)
        closed = pairs[0].p.n_axes == 1 and noise.is_exponential  # nothing is sharper
        if closed or notion.is_pure or not joint_computable(noise):
            return still
        # the mean over all moves, too, where it is known
        return _least_existing([still, MovedRows(pairs, noise, notion, row_interval)])
    moves = [Moves.of(coupled, noise) for coupled in couplings(pairs, noise)]
    return of_moves("distribution_aware", moves, noise, notion, average)


def monge(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Use the published closed forms for Gaussian and mixture priors, as printed.

    Parameters
    ----------
    pairs : sequence of PriorPair
        Of `GaussianMixture` priors.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish or RenyiPufferfish
        What the budget is.

    Returns
    -------
    Bound
        `Impossible` for discrete priors, under Renyi, and for noise other than Laplace.

    Notes
    -----
    No guarantee for mixtures of several components: 003, Thm 2 and Cor. 2 average components where
    the worst one counts. It is there to reproduce the paper; the certificate says where it fails.

    References
    ----------
    003, Thm 1, Thm 2, Cor. 2.

    Examples
    --------
    A second component that lies 10 further off with one chance in ten counts for a tenth of that:
    the true loss is ten times the bound.

    >>> from sklearn_puffer.accounting import privacy_loss
    >>> from sklearn_puffer.bounds import monge
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import GaussianMixture, PriorPair
    >>> near, far = (GaussianMixture([0.9, 0.1], [0.0, m], [1.0, 1.0]) for m in (20.0, 30.0))
    >>> bound = monge([PriorPair(near, far)], Laplace(), Pufferfish(1.0)).losses(1.0).max()
    >>> loss = privacy_loss(near, far, Laplace(1.0), Pufferfish(1.0))
    >>> round(float(bound), 3), round(loss.lower, 3)
    (1.0, 10.0)
    """
    pairs = checked_arguments(pairs, noise, notion)
    if _are_mixtures(pairs):
        return mixture_bounds.monge(pairs, noise, notion)
    return Impossible(
        "strategy='monge' is a closed form for Gaussian and mixture priors, and these are "
        "discrete; use strategy='exact'.",
        len(pairs),
    )


def tightest(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Return the smallest bound there is without the exact loss: what `exact` falls back to.

    Parameters
    ----------
    pairs : sequence of PriorPair
        Of discrete priors, or of mixtures.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish or RenyiPufferfish
        What the budget is.

    Returns
    -------
    Bound
        The smallest of those that exist.

    Notes
    -----
    *Formal guarantees.* Those of the strategy that is used: `Relaxed` with either condition where
    that exists, else `distribution_aware`, else `approximate`, else `wasserstein`. Under one
    coupling a mean never exceeds the maximum, so each is within the ones after it, over all
    couplings that are tried. Gaussian and mixture priors also have the bounds of
    `_strategies.row_bounds`, whatever their covariances.

    Under a delta or an alpha, what the pure losses of both directions imply counts as well
    (`_strategies.derived_bounds`); for discrete priors and Laplace noise those are exact up to
    `accounting.MAX_CELLS` cells. So a weaker guarantee never needs more noise than the pure one.

    What discrete priors lose without noise is a bound as well, for any number of columns: noise
    only loses information.

    Examples
    --------
    >>> from sklearn_puffer.bounds import tightest
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([[0, 0]], [1]), Discrete([[1, 2]], [1]))
    >>> tightest([pair], Laplace(), Pufferfish(1.0)).losses(2.0).round(6).tolist()
    [[1.5, 1.5]]
    """
    pairs = checked_arguments(pairs, noise, notion)
    bounds = [_by_couplings(pairs, noise, notion)]
    if not notion.is_pure:
        bounds += _from_pure(pairs, noise, notion)
    if _are_mixtures(pairs):
        return _least_existing(bounds)
    losses = np.array([bare_losses(p, q, notion) for p, q in pairs])
    bare = _WithoutNoise(losses, min(bound.guess for bound in bounds))
    alone = all(isinstance(bound, Impossible) for bound in bounds)
    if alone and losses.max() > notion.budget:
        return bounds[0]  # which says why no noise helps
    return _least_existing([*bounds, bare])


@dataclass(frozen=True, eq=False)
class _WithoutNoise:
    """The losses of discrete priors without noise, which bound those with any noise."""

    bare: FloatArray
    guess: float

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        return self.bare


def _by_couplings(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Return the first bound that exists, of rows of mixtures whatever their covariances."""
    if not _are_mixtures(pairs) or (pairs[0].p.n_axes == 1 and noise.is_normal):
        return _first_existing(pairs, noise, notion)
    if notion.is_pure and noise.is_normal and any(p != q for p, q in pairs):
        return Impossible(
            "Gaussian noise has no pure epsilon for Gaussian and mixture priors of several "
            "columns, as the log odds of two different normal distributions grow without bound; "
            "use delta=1e-05, alpha=2.0 or noise='laplace'.",
            len(pairs),
        )
    moved = _first_existing(pairs, noise, notion)
    if not (joint_computable(noise) or (noise.is_normal and not any(noise.mixings))):
        return moved
    return _least_existing([moved, JointRows(pairs, noise, notion, row_interval)])


def _from_pure(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> list[Bound]:
    """Return the bound that pure losses imply, exact ones where vertices give them."""
    pure = Pufferfish(notion.epsilon)
    exact = noise.has_vertices and not _are_mixtures(pairs)
    if exact and all_computable(pairs, noise, pure):
        return [FromPure(_PureLosses(LossTable(pairs, pure), noise), notion)]
    bound = _by_couplings(pairs, noise, pure)
    return [] if isinstance(bound, Impossible) else [FromPure(bound, notion)]


@dataclass(frozen=True, eq=False)
class _PureLosses:
    """The proven upper ends of exact pure losses."""

    table: LossTable
    noise: Noise
    guess: float = 1.0

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        if factor == 0.0:
            return self._without_noise
        upper = self.table.intervals(self.noise.scaled(factor))[1]
        return np.minimum(upper, self._without_noise)

    @cached_property
    def _without_noise(self) -> FloatArray:
        bare = self.table.without_noise()
        return np.where(bare > 0.0, bare + 16.0 * ULP * (1.0 + bare), 0.0)


def _least_existing(bounds: Sequence[Bound]) -> Bound:
    """Return the smallest of the bounds that exist, or the first one, which says why none does."""
    return least_of([each for each in bounds if not isinstance(each, Impossible)] or bounds[:1])


def _first_existing(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    for strategy in (Relaxed("either"), distribution_aware, approximate):
        bound = strategy(pairs, noise, notion)
        if not isinstance(bound, Impossible):
            return bound
    return wasserstein(pairs, noise, notion)


def _are_mixtures(pairs: Sequence[PriorPair]) -> bool:
    return isinstance(pairs[0].p, GaussianMixture)
