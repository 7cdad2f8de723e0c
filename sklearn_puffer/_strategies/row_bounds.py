r"""Bounds for rows of Gaussian mixtures.

*Two Gaussian rows*, under noise along each column. In units of the noise: m the difference of the
means, A and B the covariances, D = A - B, s a vector of signs. Released distributions :math:`p_t`
along
:math:`N(\mu_q + t m, B + t D)` obey

.. math:: \frac{d}{dt} \log p_t = -m \cdot \frac{\nabla p_t}{p_t}
          + \frac12 \sum_{ij} D_{ij} \frac{\partial_{ij} p_t}{p_t},

and all quotients are means of those of the noise's own density k given the released row.

*Mixtures.* Components lose this, or an exact loss where one is known. Mixtures with weights a and b
then lose, for every w of 0 or more with row sums a,

.. math:: D_\infty(P \| Q) \le \log \max_j \frac{1}{b_j} \sum_i w_{ij} e^{L_{ij}},

as :math:`\sum_{ij} w_{ij} p_i \le \sum_{ij} w_{ij} e^{L_{ij}} q_j`; no column sums are asked of w.
A delta, or the Renyi divergence, is at most its mean over a coupling of the components (both are
convex). What follows from the pure loss is in `_strategies.derived_bounds`.
"""

# Why the bounds hold.
#
# Laplace, pure. The first and the mixed quotients are means of -s_i and s_i s_j over one
# distribution of signs, so their sum is at most max_s (s.m + sum_{i<j} D_ij s_i s_j). As k'' is k
# less a point mass of 1, in units of the noise, p_ii / p is at most 1; and at least 1 - h(sqrt
# v)/sqrt v, h the normal hazard, v the variance of X_i given the other columns: for N(mu, v) plus
# noise the ratio of density and smoothed density is greatest at mu, and given the others every
# distribution is such a one. Along the path v = 1/(C^-1)_ii is concave in t, hence above the chord
# from b to a, and that bound falls with v. Its mean over the chord is (G(b) - G(a))/(b - a), twice,
# with G(v) = -log erfcx(sqrt(v/2)). With diag(D) >= 0 the bound is max_s (s.m + s'Ds/2), and
# attained as y goes to infinity along s.
#
# Cauchy kinds of power c, pure. k'/k = -(c/2) sin psi and k''/k = (c/4)(1 + cos psi)(c - (c + 2)
# cos psi) at x = tan(psi/2), so each column has its own maximum over psi, and mixed terms (c/2)^2.
#
# For small scales, through a common part N(c, C), C <= A and C <= B: p is it plus W, so log p/r is
# at most log E e^(c sum asinh(|W_i|/2)), by Hoelder and Minkowski c sum asinh(|W_i|_n/2) with the
# n-norms of W_i, n = c d or more and at least 2; and log r/q at most the mean c sum
# asinh(|W_i|_1/2) (Jensen), as asinh is concave.
#
# Moves. Let X - X' ~ N(m, W) under a coupling, and log k have slopes of at most r. Noise that moves
# by v then has a likelihood ratio within e^(+-r|v|), hence E[ratio^alpha] at most cosh((alpha -
# 1/2) r v)/cosh(r v/2) a column, and that is at most cosh(r sqrt(alpha (alpha - 1)) v): twice the
# product of the two cosh on the right is cosh of their sum plus cosh of their difference, the mean
# of whose squares is ((alpha - 1/2) r v)^2, and cosh(sqrt(u)) is convex. The product over columns
# is a mean over signs. A hockey stick is at most (1 - e^((eps - r|v|)/2))_+ for Laplace noise, in
# any number of columns, and (1 - e^(eps - r|v|))_+ for any other; |v| = max_s s.v, so a sum over s
# bounds it. Divergences are convex in the pair, so their means over v bound those of the two
# distributions.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import erfcx, gammaln

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import UNIT, log_sum, solved
from sklearn_puffer._strategies.coupling_bounds import factor_of_shift
from sklearn_puffer._strategies.derived_bounds import two_points
from sklearn_puffer._strategies.shift_means import laplace_delta
from sklearn_puffer._strategies.transport import (
    bottleneck_coupling,
    cheapest_coupling,
    root_of,
)
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean
from sklearn_puffer.priors import GaussianMixture, PriorPair

_MOST_SIGNS = 12  # columns up to which all signs are looked at
_ANGLES = np.linspace(-pi, pi, 513)
_LEAST = 1e-150
_ROOM = 1e-13


def joint_computable(noise: Noise) -> bool:
    """Return whether `ComponentPairs` knows the losses of rows under this noise.

    >>> from sklearn_puffer.noise import Gaussian, Laplace
    >>> joint_computable(Laplace(1.0)), joint_computable(Gaussian(1.0))
    (True, False)
    """
    return not any(noise.mixings) and (noise.is_exponential or noise.power is not None)


class ComponentPairs:
    """All pairs of k components of p and l of q, in units of noise at factor 1."""

    def __init__(self, p: GaussianMixture, q: GaussianMixture, noise: Noise) -> None:
        scales = noise.axis_scales(p.n_axes)
        first, second = (x.covariances / np.outer(scales, scales) for x in (p, q))
        moves = (p.rows[:, None] - q.rows) / scales
        self.noise, self.shifts = noise, np.abs(moves)  # (k, l, d): differences of the means
        # (k, l): whether the covariances are equal, so that a component is the other one moved
        self.same = np.array([[np.array_equal(a, b) for b in q.covariances] for a in p.covariances])
        apart = np.where(self.same[..., None, None], 0.0, first[:, None] - second)
        # (h, d): half of all vectors of signs, as s and -s give the same; none beyond 12 columns
        others = product((1.0, -1.0), repeat=p.n_axes - 1) if p.n_axes <= _MOST_SIGNS else ()
        self.signs = np.array([(1.0, *rest) for rest in others]).reshape(-1, p.n_axes)
        # (k, l, h): |s.m|, and sum_{i<j} D_ij s_i s_j; beyond 12 columns their bounds, with h = 1
        self.leads, self.bends = _linear_and_mixed(moves, apart, self.signs)
        self.gains = np.diagonal(apart, axis1=2, axis2=3)  # (k, l, d): the diagonal of D
        # (k, d) and (l, d): variances of a column given the others, rounded down
        self.left = _given_the_others(first), _given_the_others(second)
        # (k, l, h): deviations of s.(X - X') under a coupling; (2, k, l, d): those of what A and B
        # have beyond a common part; all rounded up
        self.spreads = _move_spreads(first, second, self.same, self.signs)
        self.rests = _beyond_the_common(first, second, self.same)
        # (k, l): the sum of the sizes of all entries of A and B, of which rounding takes a share
        sizes = np.abs(first).sum(axis=(1, 2))[:, None] + np.abs(second).sum(axis=(1, 2))
        self.slack = np.where(self.same, 0.0, sizes)

    def pure(self, factor: float, *, forward: bool) -> FloatArray:
        """Return bounds on the pure losses p_i -> q_j, or q_j -> p_i, shape (k, l)."""
        way = 1.0 if forward else -1.0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            path = self._laplace if self.noise.is_exponential else self._cauchy
            losses = path(factor, way) * (1.0 + _ROOM)
            losses = losses + 64.0 * self.shifts.shape[2] * UNIT * self.slack / factor / factor
            shifted = self.noise.scaled(factor).max_divergence(self.shifts * self._scales)
        losses = np.where(np.isnan(losses), np.inf, losses)
        return np.where(self.same, np.minimum(losses, shifted * (1.0 + _ROOM)), losses)

    def _laplace(self, factor: float, way: float) -> FloatArray:
        # beyond 12 columns the bends are bounds already, of both ways
        bends = (way if self.signs.size else 1.0) * self.bends
        signed = (self.leads / factor + bends / factor / factor).max(axis=2)
        room = 16.0 * UNIT * self.slack[..., None]
        gains = way * self.gains
        rising = 0.5 * np.maximum(gains + room, 0.0).sum(axis=2) / factor / factor
        one, other = (variances / factor / factor for variances in self.left)
        falls = np.maximum(room - gains, 0.0) / factor / factor
        pulls = _mean_pull(one[:, None], other[None])
        falling: FloatArray = np.where(falls > 0.0, falls * pulls, 0.0).sum(axis=2)
        room_of_shifts: FloatArray = 64.0 * UNIT * self.shifts.sum(axis=2) / factor
        return np.asarray(signed + rising + falling + room_of_shifts)

    def _cauchy(self, factor: float, way: float) -> FloatArray:
        c = float(self.noise.power or 0.0)
        m, d = self.shifts[..., None] / factor, way * self.gains[..., None] / factor / factor
        turn = 0.25 * c * (1.0 + np.cos(_ANGLES)) * (c - (c + 2.0) * np.cos(_ANGLES))
        heights = 0.5 * c * m * np.sin(_ANGLES) + 0.5 * d * turn
        step = _ANGLES[1] - _ANGLES[0]
        most_bent = (0.5 * c * m + 0.125 * c * (2.0 * c + 6.0) * np.abs(d))[..., 0]
        alone = (heights.max(axis=3) + step * step / 8.0 * most_bent).sum(axis=2)
        room = c * (c + 1.0) * 32.0 * UNIT * self.slack / factor / factor
        path = alone + 0.25 * c * c * self._mixed / factor / factor + room
        return np.asarray(np.fmin(path, self._through_the_common(c, factor, way)))

    def _through_the_common(self, c: float, factor: float, way: float) -> FloatArray:
        d = self.shifts.shape[2]
        out, back = (self.rests if way > 0.0 else self.rests[::-1]) / factor
        n = max(c * d, 2.0)
        size = sqrt(2.0) * exp((float(gammaln(0.5 * n + 0.5)) - 0.5 * log(pi)) / n)
        m = self.shifts / factor
        ways = [
            np.arcsinh(0.5 * (a * m + size * out)) + np.arcsinh(0.5 * np.hypot(b * m, back))
            for a, b in ((1.0, 0.0), (0.0, 1.0))
        ]
        least: FloatArray = np.min([terms.sum(axis=2) for terms in ways], axis=0)
        return c * least * (1.0 + _ROOM)

    @property
    def _scales(self) -> FloatArray:
        return np.asarray(self.noise.axis_scales(self.shifts.shape[2]))

    @property
    def _mixed(self) -> FloatArray:
        """Return the largest mixed term: that of sum_{i<j} |D_ij| where signs are not looked at."""
        if not self.signs.size:
            return self.bends[..., 0]
        pairs = [(i, j) for i in range(self.shifts.shape[2]) for j in range(i)]
        products = np.array([self.signs[:, i] * self.signs[:, j] for i, j in pairs])
        products = products.reshape(-1, len(self.signs))  # of one column there is none
        # D_ij is the mean of s_i s_j times the bends over all signs
        entries = np.abs(self.bends @ products.T) / len(self.signs)
        return np.asarray(entries.sum(axis=2))

    def moved(self, factor: float, notion: Notion) -> FloatArray:
        """Return bounds on delta or the Renyi divergence by moves, either way, shape (k, l)."""
        noise, divergence = self.noise.scaled(factor), notion.divergence
        shifted = np.full(self.same.shape, divergence.worst)
        moves = (self.shifts * self._scales)[self.same]
        shifted[self.same] = notion.shift_loss(noise, moves) * (1.0 + _ROOM)
        if not self.signs.size:
            return shifted
        steep = 1.0 if self.noise.is_exponential else 0.5 * float(self.noise.power or 0.0)
        with np.errstate(over="ignore", under="ignore"):
            m, spread = steep * self.leads / factor, steep * self.spreads / factor
        m = m * (1.0 + _ROOM)
        if isinstance(divergence, HockeyStick):
            twice = 1.0 if self.noise.is_exponential else 2.0
            # the sum over signs of the means of (1 - e^(twice (eps - |s.v|)/2))_+
            spread = np.maximum(twice * spread, _LEAST)
            deltas = laplace_delta(twice * divergence.epsilon, twice * m, spread)
            by_moves = np.minimum(deltas.sum(axis=2) * (1.0 + _ROOM), 1.0)
        else:
            assert isinstance(divergence, PowerMean)
            by_moves = _mean_powers(divergence.alpha, m, spread)
        return np.asarray(np.minimum(shifted, by_moves))


def _linear_and_mixed(
    moves: FloatArray, apart: FloatArray, signs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    mixed = apart - np.einsum("klij,ij->klij", apart, np.eye(apart.shape[2]))
    if not signs.size:
        return np.abs(moves).sum(axis=2)[..., None], 0.5 * np.abs(mixed).sum(axis=(2, 3))[..., None]
    bends: FloatArray = 0.5 * np.einsum("hi,klij,hj->klh", signs, mixed, signs)
    return np.abs(moves @ signs.T), bends


def _lower_roots(matrices: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return units (powers of two), Cholesky factors in them, and how far off those may leave us.

    The error is relative, of an inverse or of a quotient by the factor.
    """
    d = matrices.shape[1]
    units = np.exp2(-np.round(0.5 * np.log2(np.diagonal(matrices, axis1=1, axis2=2))))
    scaled = matrices * units[:, :, None] * units[:, None, :]
    error = 64.0 * d**3 * UNIT * np.linalg.cond(scaled)
    safe = np.where((error < 0.1)[:, None, None], scaled, np.eye(d))
    return units, np.linalg.cholesky(safe), error


def _given_the_others(matrices: FloatArray) -> FloatArray:
    """Return 1/(C^-1)_ii, rounded down; 0 where a matrix is too near singular."""
    units, roots, error = _lower_roots(matrices)
    inverse = np.array([solve_triangular(r, np.eye(len(r)), lower=True) for r in roots])
    precisions = np.square(inverse).sum(axis=1)
    largest = np.square(inverse).sum(axis=(1, 2))
    upper = (precisions + np.minimum(error, 1.0)[:, None] * largest[:, None]) * np.square(units)
    return np.where(error[:, None] < 0.1, 1.0 / upper * (1.0 - _ROOM), 0.0)


def _move_spreads(
    first: FloatArray, second: FloatArray, same: NDArray[np.bool_], signs: FloatArray
) -> FloatArray:
    spreads = np.zeros((*same.shape, max(len(signs), 1)))
    if not signs.size:
        return spreads
    roots = _lower_roots(first), _lower_roots(second)
    for i, j in np.argwhere(~same):
        ends = [(u[k], r[k], float(e[k])) for k, (u, r, e) in zip((i, j), roots, strict=True)]
        crossed = _crossed(first[i], second[j], ends)
        moves = first[i] + second[j] - crossed - crossed.T
        sizes = np.abs(first[i]) + np.abs(second[j]) + 2.0 * np.abs(crossed)
        variances = np.einsum("hi,ij,hj->h", signs, moves, signs)
        variances += 8.0 * first.shape[1] ** 2 * UNIT * float(sizes.sum())
        spreads[i, j] = np.sqrt(np.maximum(variances, 0.0)) * (1.0 + _ROOM)
    return spreads


def _beyond_the_common(
    first: FloatArray, second: FloatArray, same: NDArray[np.bool_]
) -> FloatArray:
    """Return deviations of A - C and B - C, for the largest C that both diagonalise, rounded up."""
    rests = np.zeros((2, *same.shape, first.shape[1]))
    error_a, (units, roots, error_b) = _lower_roots(first)[2], _lower_roots(second)
    for i, j in np.argwhere(~same):
        error = 4.0 * float(error_a[i] + error_b[j])
        common = np.zeros_like(first[i])
        if error < 0.1:
            unit, half = units[j], roots[j]
            within = solve_triangular(half, unit[:, None] * first[i] * unit, lower=True)
            within = solve_triangular(half, within.T, lower=True)
            values, turn = np.linalg.eigh(0.5 * (within + within.T))
            # small ones are off by a share of the largest
            error *= float(values[-1]) / max(float(values[0]), _LEAST)
            base = half @ turn / unit[:, None]
            kept = 1.0 - error if error < 0.1 else 0.0
            common = base * np.clip(values, 0.0, 1.0) @ base.T * kept
        for side, matrix in enumerate((first[i], second[j])):
            left = np.diag(matrix) * (1.0 + _ROOM) - np.diag(common) * (1.0 - _ROOM)
            rests[side, i, j] = np.sqrt(np.maximum(left, 0.0)) * (1.0 + _ROOM)
    return rests


def _crossed(
    a: FloatArray, b: FloatArray, ends: list[tuple[FloatArray, FloatArray, float]]
) -> FloatArray:
    """Return the covariance of X and X' under the coupling of the least mean square distance.

    There is a coupling with it: a common covariance C exists if and only if A^-1/2 C B^-1/2 has no
    singular value above 1, and C is divided by the largest, rounded up.
    """
    (u, root_a, error_a), (v, root_b, error_b) = ends
    error = 4.0 * (error_a + error_b)
    if not error < 0.1:
        return np.zeros_like(a)  # independent
    half_a, half_b = root_of(a), root_of(b)
    left, _, right = np.linalg.svd(half_b @ half_a)
    crossed = half_a @ (left @ right).T @ half_b
    within = solve_triangular(root_a, u[:, None] * crossed * v, lower=True)
    within = solve_triangular(root_b, within.T, lower=True)
    largest = float(np.linalg.norm(within)) if len(a) == 1 else float(np.linalg.norm(within, 2))
    return np.asarray(crossed / max(largest * (1.0 + error) + error, 1.0))


def _mean_pull(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the mean of (h(sqrt v)/sqrt v - 1)/2 between two variances, rounded up."""
    low, high = np.maximum(np.minimum(one, other), 1e-300), np.maximum(one, other)
    at_low, at_high = (-np.log(erfcx(np.sqrt(0.5 * v))) for v in (low, np.minimum(high, 1e300)))
    mean = (at_high - at_low + 1e-14 * (2.0 + np.abs(at_high) + np.abs(at_low))) / (high - low)
    x = np.sqrt(0.5 * low)
    most = 0.5 * ((1.0 + _ROOM) / (sqrt(pi) * x * erfcx(x)) - 1.0)
    pull: FloatArray = np.fmin(mean * (1.0 + _ROOM), most)
    return np.where(one * other > 0.0, np.maximum(pull, 0.0), np.inf)


def _mean_powers(alpha: float, m: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the log of the mean over signs of cosh(c s.m) e^(c^2 s'Ws/2), over alpha - 1."""
    c = sqrt(alpha * (alpha - 1.0)) * (1.0 + _ROOM)
    with np.errstate(over="ignore", under="ignore"):
        powers = c * m + np.log1p(np.exp(-2.0 * c * m)) - log(2.0) + 0.5 * np.square(c * spread)
        top = powers.max(axis=2, keepdims=True)
        safe = np.where(np.isfinite(top), top, 0.0)
        logs = safe[..., 0] + np.log(np.exp(powers - safe).mean(axis=2))
    logs = logs + _ROOM * (1.0 + np.abs(safe[..., 0]))
    return np.where(np.isfinite(top[..., 0]), np.maximum(logs, 0.0) / (alpha - 1.0), np.inf)


# proven ends of the losses p -> q and q -> p of two single Gaussians; with noise or none
ExactPart = Callable[
    [GaussianMixture, GaussianMixture, Noise | None, Notion], tuple[FloatArray, FloatArray]
]

_REACH = 12.0  # pairs that lose so many nats more than the best coupling must are left alone


@dataclass(frozen=True, eq=False)
class JointRows:
    """The bounds of some pairs of mixtures of rows.

    Of noise that `joint_computable` knows, or, but for a pure loss, normal noise. ``exact_part``
    gives the ends of the losses of single Gaussians with normal noise or none.
    """

    pairs: Sequence[PriorPair]
    noise: Noise
    notion: Notion
    exact_part: ExactPart

    @cached_property
    def _pairs(self) -> list[JointPair]:
        return [JointPair(p, q, self.noise, self.notion, self.exact_part) for p, q in self.pairs]

    @property
    def guess(self) -> float:
        """About the factor of the largest move between means and deviations."""
        moves = [np.abs(p.rows[:, None] - q.rows).max(axis=(0, 1)) for p, q in self.pairs]
        spread = np.sqrt(np.diagonal(self.pairs[0].p.covariances[0]))
        return factor_of_shift(np.max(moves, axis=0) + 0.1 * spread, self.noise, self.notion)

    def losses(self, factor: float) -> FloatArray:
        """Return the bounds, shape (n_pairs, 2)."""
        return np.array([pair.losses(factor) for pair in self._pairs])


class MovedRows(JointRows):
    """The averages of what moves lose alone, over couplings of components and within them."""

    def losses(self, factor: float) -> FloatArray:
        """Return the bounds, shape (n_pairs, 2)."""
        return np.array([pair.averages(factor) for pair in self._pairs])


@dataclass(frozen=True, eq=False)
class JointPair:
    """The bounds of one pair of mixtures of rows."""

    p: GaussianMixture
    q: GaussianMixture
    noise: Noise
    notion: Notion
    exact_part: ExactPart

    def losses(self, factor: float) -> FloatArray:
        """Return the bounds both ways, shape (2,)."""
        if self.p == self.q:
            return np.zeros(2)
        if self.notion.is_pure:
            if factor == 0.0:
                return np.full(2, np.inf)
            ahead, back = self._pure_parts(factor)
            ways = (self.p, self.q, ahead), (self.q, self.p, back.T)
            return np.array([_with_gains(*way) for way in ways])
        if factor == 0.0 or not joint_computable(self.noise):
            noise = None if factor == 0.0 else self.noise.scaled(factor)
            return self._coupled(self._exact(noise))
        parts = self._pure_parts(factor)
        moved = self._parts.moved(factor, self.notion)
        ends = [two_points(*way, self.notion) for way in (parts, parts[::-1])]
        least = np.minimum(np.minimum(ends, moved), self._without_noise)
        return self._coupled(least)

    def averages(self, factor: float) -> FloatArray:
        """Return the mean of what the moves of a coupling lose, shape (2,), for no pure notion."""
        if self.p == self.q:
            return np.zeros(2)
        if factor == 0.0:
            return np.full(2, self.notion.divergence.worst)
        return np.full(2, self._mean(self._parts.moved(factor, self.notion)))

    @cached_property
    def _parts(self) -> ComponentPairs:
        return ComponentPairs(self.p, self.q, self.noise)

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
        losses = [[self.exact_part(p, q, noise, self.notion)[1] for q in others] for p in ones]
        return np.moveaxis(np.array(losses), 2, 0)

    def _pure_parts(self, factor: float) -> tuple[FloatArray, FloatArray]:
        ahead, back = (self._parts.pure(factor, forward=way) for way in (True, False))
        return ahead, back

    def _coupled(self, losses: FloatArray) -> FloatArray:
        """Return the means both ways of (2, k, l) losses over the best couplings."""
        return np.array([self._mean(way) for way in losses])

    def _mean(self, losses: FloatArray) -> float:
        if losses.size == 1:
            return float(losses[0, 0])
        coupling = cheapest_coupling(self.p, self.q, self._costs(losses))
        coupled = losses[coupling.sources, coupling.targets]
        return float(self.notion.average(coupled, coupling.weights, np.zeros(1, dtype=np.intp))[0])

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
    optimum = solved(objective, most=(columns, np.zeros(n_targets)), equal=(rows, p.weights))
    if optimum is None:
        return []
    w = np.zeros(losses.shape)
    w[tuple(cells.T)] = optimum.x[:n]
    return [w] if (w.sum(axis=1) > 0.5 * p.weights).all() else []
