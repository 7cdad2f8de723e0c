r"""Bounds for rows of Gaussian and mixture priors, whatever their covariances.

Components lose what `_strategies.joint_parts` says, or an exact loss where one is known. Mixtures
with weights a and b then lose, for every w of 0 or more with row sums a,

.. math:: D_\infty(P \| Q) \le \log \max_j \frac{1}{b_j} \sum_i w_{ij} e^{L_{ij}},

as :math:`\sum_{ij} w_{ij} p_i \le \sum_{ij} w_{ij} e^{L_{ij}} q_j`; no column sums are asked of w.
A delta, or the Renyi divergence, is at most its mean over a coupling of the components (both are
convex), and at most that of two likelihood ratios at the ends of the pure losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sklearn_puffer._base import FloatArray, log_sum, solved
from sklearn_puffer._strategies.component_couplings import bottleneck_coupling, cheapest_coupling
from sklearn_puffer._strategies.coupling_bounds import factor_of_shift
from sklearn_puffer._strategies.joint_parts import Parts, joint_computable, two_points
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, PowerMean
from sklearn_puffer.priors import GaussianMixture, PriorPair

# the losses p -> q and q -> p of two single Gaussians, shape (2,), rounded up; noise or none
ExactPart = Callable[[GaussianMixture, GaussianMixture, Noise | None, Notion], FloatArray]

_ROOM = 1e-13
_REACH = 12.0  # pairs that lose so many nats more than the best coupling must are left alone


@dataclass(frozen=True, eq=False)
class JointRows:
    """The bounds of some pairs of mixtures of rows.

    Parameters
    ----------
    pairs : sequence of PriorPair
    noise : Noise
        Of a kind that `joint_computable` knows, or, but for a pure loss, normal.
    notion : Notion
    exact_part : callable
        The exact losses of single Gaussians with normal noise or none.
    """

    pairs: Sequence[PriorPair]
    noise: Noise
    notion: Notion
    exact_part: ExactPart

    @cached_property
    def _each(self) -> list[JointPair]:
        return [JointPair(p, q, self.noise, self.notion, self.exact_part) for p, q in self.pairs]

    @property
    def guess(self) -> float:
        """About the factor of the largest move between means and deviations."""
        moves = [np.abs(p.rows[:, None] - q.rows).max(axis=(0, 1)) for p, q in self.pairs]
        spread = np.sqrt(np.diagonal(self.pairs[0].p.covariances[0]))
        return factor_of_shift(np.max(moves, axis=0) + 0.1 * spread, self.noise, self.notion)

    def losses(self, factor: float) -> FloatArray:
        """Return the bounds, shape (n_pairs, 2)."""
        return np.array([each.losses(factor) for each in self._each])


@dataclass(frozen=True, eq=False)
class JointPair:
    """The bounds of one pair of mixtures of rows."""

    p: GaussianMixture
    q: GaussianMixture
    noise: Noise
    notion: Notion
    exact_part: ExactPart
    _bare: list[FloatArray] = field(default_factory=list)

    def losses(self, factor: float) -> FloatArray:
        """Return the bounds both ways, shape (2,)."""
        if self.p == self.q:
            return np.zeros(2)
        if self.notion.is_pure:
            return np.full(2, np.inf) if factor == 0.0 else self._pure(*self._pure_parts(factor))
        if factor == 0.0 or not joint_computable(self.noise):
            noise = None if factor == 0.0 else self.noise.scaled(factor)
            return self._coupled(self._exact(noise))
        parts = self._pure_parts(factor)
        moved = self._parts.moved(factor, self.notion)
        ends = [two_points(*way, self.notion) for way in (parts, parts[::-1])]
        least = np.minimum(np.minimum(ends, moved), self._without_noise)
        pure = self._pure(*parts)
        return np.minimum(self._coupled(least), two_points(pure, pure[::-1], self.notion))

    @cached_property
    def _parts(self) -> Parts:
        return Parts.of(self.p, self.q, self.noise)

    @cached_property
    def _without_noise(self) -> FloatArray:
        return self._exact(None)

    @cached_property
    def _singles(self) -> list[list[GaussianMixture]]:
        return [
            [GaussianMixture([1.0], x.rows[[k]], x.covariances[[k]]) for k in range(x.n_components)]
            for x in (self.p, self.q)
        ]

    def _exact(self, noise: Noise | None) -> FloatArray:
        """Return what components lose p_i -> q_j and q_j -> p_i, shape (2, k, l)."""
        ones, others = self._singles
        found = [[self.exact_part(p, q, noise, self.notion) for q in others] for p in ones]
        return np.moveaxis(np.array(found), 2, 0)

    def _pure_parts(self, factor: float) -> tuple[FloatArray, FloatArray]:
        ahead, back = (self._parts.pure(factor, forward=way) for way in (True, False))
        return ahead, back

    def _pure(self, ahead: FloatArray, back: FloatArray) -> FloatArray:
        """Return the pure losses of the mixtures both ways, from those of their components."""
        return np.array([_with_gains(self.p, self.q, ahead), _with_gains(self.q, self.p, back.T)])

    def _coupled(self, losses: FloatArray) -> FloatArray:
        """Return the means both ways of (2, k, l) losses over the best couplings."""
        return np.array([self._mean(each) for each in losses])

    def _mean(self, losses: FloatArray) -> float:
        if losses.size == 1:
            return float(losses[0, 0])
        coupling = cheapest_coupling(self.p, self.q, self._costs(losses))
        own = losses[coupling.sources, coupling.targets]
        return float(self.notion.average(own, coupling.weights, np.zeros(1, dtype=np.intp))[0])

    def _costs(self, losses: FloatArray) -> FloatArray:
        """Return what a solver is to weigh: nothing but the choice of a coupling depends on it."""
        divergence = self.notion.divergence
        if not isinstance(divergence, PowerMean):
            return losses
        least = float(losses.min())
        powers = divergence.order * (losses - (least if np.isfinite(least) else 0.0))
        return np.exp(np.minimum(powers, 30.0))


def _with_gains(p: GaussianMixture, q: GaussianMixture, losses: FloatArray) -> float:
    """Return log max_j sum_i w_ij e^losses_ij / q_j for the best w that is found, rounded up.

    Never above what the coupling with the smallest maximum gives, which is tried as well.
    """
    if losses.size == 1:
        return float(losses[0, 0])
    start = bottleneck_coupling(p, q, losses)
    if start is None:
        return np.inf
    level = float(losses[start.sources, start.targets].max())
    tried = [_weighed(p, q, losses, w) for w in _programmed(p, q, losses - level)]
    return min([level, *tried])


def _weighed(p: GaussianMixture, q: GaussianMixture, losses: FloatArray, w: FloatArray) -> float:
    """Return the bound of some weights, whose rows are made to add up, rounded up."""
    w = np.maximum(w, 0.0)
    w = w / w.sum(axis=1, keepdims=True) * p.weights[:, None]
    with np.errstate(divide="ignore"):
        logs = np.where(w > 0.0, np.log(w) + losses, -np.inf)
    columns = log_sum(logs, axis=0) - np.log(q.weights)
    size = 1.0 + np.abs(columns[np.isfinite(columns)]).max(initial=0.0)
    size += float(np.abs(np.log(q.weights)).max())
    return max(float(columns.max()) + _ROOM * float(size), 0.0)


def _programmed(p: GaussianMixture, q: GaussianMixture, losses: FloatArray) -> list[FloatArray]:
    """Return weights that a solver finds: min t, rows add up to p, columns with gains to t q."""
    k, n_targets = losses.shape
    cells = np.argwhere(losses <= _REACH)
    with np.errstate(under="ignore"):
        gains = np.exp(losses[tuple(cells.T)])
    n = len(cells)
    rows, columns = np.zeros((k, n + 1)), np.zeros((n_targets, n + 1))
    rows[cells[:, 0], np.arange(n)] = 1.0
    columns[cells[:, 1], np.arange(n)] = gains
    columns[:, n] = -q.weights
    objective = np.append(np.zeros(n), 1.0)
    found = solved(objective, most=(columns, np.zeros(n_targets)), equal=(rows, p.weights))
    if found is None:
        return []
    w = np.zeros(losses.shape)
    w[tuple(cells.T)] = found.x[:n]
    return [w] if (w.sum(axis=1) > 0.5 * p.weights).all() else []
