r"""The exact loss of rows of several columns whose priors are Gaussian, as a proven interval.

With means :math:`\mu` and covariances :math:`S` of what is released (the prior's, plus
:math:`\mathrm{diag}(\sigma^2)` with Gaussian noise), in coordinates in which :math:`S_q` is the
identity, :math:`S_p` is :math:`\mathrm{diag}(\lambda)` and the means are :math:`w` apart:

.. math:: D_\alpha(p \| q) = \frac{\alpha}{2} \sum_i \frac{w_i^2}{\alpha - (\alpha - 1) \lambda_i}
          - \frac{1}{2 (\alpha - 1)} \sum_i \bigl( \log(\alpha - (\alpha - 1) \lambda_i)
          + (\alpha - 1) \log \lambda_i \bigr)

infinite where a :math:`\lambda_i \ge \alpha / (\alpha - 1)`. With one covariance for both, p is q
moved by w, and the hockey-stick divergence is that of the analytic Gaussian mechanism at
:math:`\|w\|`; with Laplace noise the pure loss is the weighted l1 norm (004, Prop. F.1).
"""

# Why the intervals are proven. Divergences do not change under an invertible linear map V, whatever
# its rounding. For the V at hand, A = V'S_pV and B = V'S_qV are computed, and the error of each
# entry of a triple product of d x d matrices is at most (2d + 4) u |V|'|S||V|, the rounding of S
# included. So (1 - a) diag(l) <= A <= (1 + a) diag(l) as quadratic forms, with l the diagonal
# of A and a the Frobenius norm of what is left of A over sqrt(l_i l_j); likewise B is within
# factors 1 +- b of I.
# Eigenvalues of the pencil are then l_i (1 +- a)/(1 -+ b) (Courant-Fischer), and alpha B -
# (alpha - 1) A lies between diagonal matrices, hence its inverse too. Badly conditioned matrices
# give wide intervals, never wrong ones.
#
# Laplace noise, one covariance: p is q moved by v, and h(y - v) <= e^(sum |v_k|/theta_k) h(y) as
# for the noise itself. With y = t s, s_k = sign(v_k), t -> oo, e^(sum y_k/theta_k) h(y) tends to a
# constant (dominated: Gaussians have exponential moments), so the ratio converges to that bound.
#
# (epsilon, delta) with two covariances, in diagonal coordinates. With f = log p/q and M(s) =
# int p^(1+s) q^(-s), for any c > 0 where it is finite: (1 - e^(eps - f))_+ is (1/2 pi i) times the
# integral of e^(s (f - eps))/(s (s + 1)) over Re s = c, so delta is that of F(s) =
# M(s) e^(-s eps)/(s (s + 1)). The trapezoidal sum of step h is, by Poisson's formula,
# sum_k e^(c k L) delta(eps + k L) over all integers k, L = 2 pi/h: what it adds is positive and at
# most sum_(k>0) e^(-c k L) + e^(c k L) R(c') e^(-c' (eps + k L)), where R(c') e^(-c' eps) is the
# bound e^((alpha - 1)(D_alpha - eps)) (1 - 1/alpha)^alpha/(alpha - 1), alpha = 1 + c' and c' > c.
# Left out beyond T: at most |M(c + iT)| e^(-c eps)/(pi T), because |M(c + it)| falls with t: it is
# M(c) times (1 + b^2 t^2)^(-1/4) e^(-k t^2/(1 + b^2 t^2)), over the coordinates.
# From these coordinates to the pair itself: where p is at most R standard deviations from its mean
# (but for a mass e^(-(R - sqrt d)^2/2)), log p and log q are right to within x and y. There p is at
# most e^x p' and q at least e^-y q', so delta(eps) <= e^x delta'(eps - x - y) + the rest; and the
# other way round.

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, log1p, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh
from scipy.optimize import minimize_scalar

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import UNIT
from sklearn_puffer.noise import ROUNDING, Gaussian, Noise
from sklearn_puffer.notions import Notion, PowerMean, Supremum
from sklearn_puffer.priors import GaussianMixture

Ends = tuple[float, float]

_ROOM = 64.0 * UNIT
_MOST_NODES = 2**16


def rows_computable(
    p: GaussianMixture, q: GaussianMixture, noise: Noise | None, notion: Notion
) -> bool:
    """Return whether `row_interval` knows the loss of rows of these priors.

    Two single Gaussians, with Gaussian noise or none; or, with one covariance for both, Laplace
    noise and the pure guarantee.

    Parameters
    ----------
    p, q : GaussianMixture
    noise : Noise or None
    notion : Pufferfish or RenyiPufferfish

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.noise import Laplace
    >>> p = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    >>> rows_computable(p, p, Laplace(1.0), Pufferfish(1.0))
    True
    >>> rows_computable(p, p, Laplace(1.0), Pufferfish(1.0, 1e-5))
    False
    """
    if p.n_components > 1 or q.n_components > 1 or p.n_axes != q.n_axes:
        return False
    if noise is not None and noise.is_exponential:
        return notion.is_pure and np.array_equal(p.covariances, q.covariances)
    return noise is None or noise.is_normal


def row_interval(
    p: GaussianMixture, q: GaussianMixture, noise: Noise | None, notion: Notion
) -> tuple[FloatArray, FloatArray]:
    """Return proven lower and upper ends of the losses p -> q and q -> p, each of shape (2,).

    Parameters
    ----------
    p, q : GaussianMixture
        Of one component each.
    noise : Noise or None
    notion : Pufferfish or RenyiPufferfish
        Under a Renyi notion with a delta the lower end is 0 and the upper that without events.

    Notes
    -----
    *Formal guarantees.* Both ends are rounded outwards, and the loss lies between them. They meet
    but for rounding.

    Raises
    ------
    ValueError
        If `rows_computable` is False.

    References
    ----------
    004, Prop. F.1 (translations).

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.noise import Laplace
    >>> p = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    >>> q = GaussianMixture([1.0], [[1.0, 2.0]], [np.eye(2)])
    >>> lower, upper = row_interval(p, q, Laplace((1.0, 4.0)), Pufferfish(1.0))
    >>> lower.round(9).tolist(), upper.round(9).tolist()
    ([1.5, 1.5], [1.5, 1.5])
    """
    if not rows_computable(p, q, noise, notion):
        raise ValueError(
            f"the loss of rows under {noise!r} and {notion!r} has no closed form for these priors; "
            "use one Gaussian a secret and Gaussian noise, or a strategy's bound."
        )
    if p == q:
        return np.zeros(2), np.zeros(2)
    if noise is not None and noise.is_exponential:
        low, high = _weighted_distance(p, q, noise)
        return np.full(2, low), np.full(2, high)
    ends = [_loss(first, second, noise, notion) for first, second in ((p, q), (q, p))]
    lower, upper = np.array(ends).T
    return lower, upper


def _weighted_distance(p: GaussianMixture, q: GaussianMixture, noise: Noise) -> Ends:
    shift = p.rows[0] - q.rows[0]
    loss = float(noise.max_divergence(shift))
    margin = (len(shift) + 4.0) * 2.0 * UNIT + ROUNDING
    return loss * (1.0 - margin), loss * (1.0 + margin)


def _loss(p: GaussianMixture, q: GaussianMixture, noise: Noise | None, notion: Notion) -> Ends:
    """Return the interval of the loss from p to q with Gaussian noise or none."""
    divergence = notion.divergence
    if isinstance(divergence, Supremum):
        return inf, inf  # two Gaussians that differ have an unbounded ratio
    pair = _Diagonal.of(p, q, noise)
    if pair is None:
        return 0.0, divergence.worst
    if isinstance(divergence, PowerMean):
        return pair.renyi(divergence.alpha)
    if pair.moved:
        return pair.moved_delta(divergence.epsilon)
    return pair.delta(divergence.epsilon)


@dataclass(frozen=True)
class _Diagonal:
    """Two Gaussians in coordinates in which both covariances are diagonal, within proven errors.

    Attributes
    ----------
    shift, shift_error : ndarray of shape (d,)
        What the mean of p is more than that of q.
    ratios : ndarray of shape (d,)
        Variances of p; those of q are 1.
    p_error, q_error : float
        The covariances are within factors 1 +- error of these, as quadratic forms.
    moved : bool
        Whether the covariances are the same.
    """

    shift: FloatArray
    shift_error: FloatArray
    ratios: FloatArray
    p_error: float
    q_error: float
    moved: bool

    @classmethod
    def of(cls, p: GaussianMixture, q: GaussianMixture, noise: Noise | None) -> _Diagonal | None:
        """Return the pair in such coordinates, or None where the matrices are too near singular."""
        added = np.zeros(p.n_axes) if noise is None else np.square(noise.axis_scales(p.n_axes))
        first, second = p.covariances[0] + np.diag(added), q.covariances[0] + np.diag(added)
        units = np.exp2(-np.round(0.5 * np.log2(np.diag(second))))  # powers of two round nothing
        first, second = (units[:, None] * matrix * units for matrix in (first, second))
        apart = units * (p.rows[0] - q.rows[0])
        moved = bool(np.array_equal(p.covariances, q.covariances))
        try:
            _, turn = eigh(first, second)
        except (LinAlgError, ValueError):
            return None
        ratios, p_error = _diagonal(first, turn)
        scales, q_error = _diagonal(second, turn)
        if not (p_error < 0.25 and q_error < 0.25 and np.all(np.abs(scales - 1.0) < 0.25)):
            return None
        turn = turn / np.sqrt(scales)
        error = (2.0 * len(apart) + 8.0) * UNIT
        shift, shift_error = turn.T @ apart, error * (np.abs(turn).T @ np.abs(apart))
        ratios = np.ones_like(scales) if moved else ratios / scales
        p_error = q_error if moved else p_error
        return cls(shift, shift_error, ratios, p_error + _ROOM, q_error + _ROOM, moved)

    @property
    def _shift_squares(self) -> tuple[FloatArray, FloatArray]:
        size = np.abs(self.shift)
        low = np.square(np.maximum(size - self.shift_error, 0.0)) * (1.0 - _ROOM)
        return low, np.square(size + self.shift_error) * (1.0 + _ROOM)

    def moved_delta(self, epsilon: float) -> Ends:
        """Return the delta of a translation: that of a shift by the Mahalanobis distance."""
        squares = self._shift_squares
        margin = (len(self.shift) + 8.0) * UNIT + ROUNDING
        least = sqrt(float(squares[0].sum()) / (1.0 + self.q_error)) * (1.0 - margin)
        most = sqrt(float(squares[1].sum()) / (1.0 - self.q_error)) * (1.0 + margin)
        ends = np.array([least]), np.array([most])
        low, high = (float(Gaussian(1.0).hockey_stick(end, epsilon)) for end in ends)
        low = max(low * (1.0 - 2.0 * ROUNDING) - 1e-299, 0.0)
        return low, min(high * (1.0 + 2.0 * ROUNDING) + 1e-299, 1.0)

    def renyi(self, alpha: float) -> Ends:
        """Return the interval of the Renyi divergence."""
        order, a, b = alpha - 1.0, self.p_error, self.q_error
        room = 8.0 * UNIT * (alpha + order * self.ratios)
        least = alpha * (1.0 - b) - order * (1.0 + a) * self.ratios - room
        most = alpha * (1.0 + b) - order * (1.0 - a) * self.ratios + room
        if self.moved:  # alpha B - (alpha - 1) B = B
            least, most = np.full_like(least, 1.0 - b), np.full_like(most, 1.0 + b)
        if most.min() <= 0.0:
            return inf, inf
        low_squares, high_squares = self._shift_squares
        low = 0.5 * alpha * float((low_squares / most).sum())
        high = 0.5 * alpha * float((high_squares / least).sum()) if least.min() > 0.0 else inf
        if not self.moved:
            spread = _spread_terms(self.ratios, (a + b) / (1.0 - b), alpha)
            low, high = low + spread[0], high + spread[1]
        margin = (len(self.shift) + 32.0) * 4.0 * UNIT
        return max(low * (1.0 - margin), 0.0), high * (1.0 + margin)

    def delta(self, epsilon: float) -> Ends:
        """Return the interval of the hockey-stick divergence of two covariances."""
        order, log_most = self._best_order(epsilon)
        most = min(exp(min(log_most, 0.0)) * (1.0 + _ROOM), 1.0)
        p_off, q_off, rest = self._blur(log_most)
        if most < 1e-290 or p_off + q_off > 0.5:
            return 0.0, most + 1e-300
        off = (p_off + q_off) * (1.0 + _ROOM) + epsilon * 4.0 * UNIT
        lower, upper = self._contour((epsilon + off, epsilon - off), order, log_most)
        lower = (lower - rest) * exp(-p_off) * (1.0 - _ROOM)
        return max(min(lower, most), 0.0), min(upper * exp(p_off) * (1.0 + _ROOM) + rest, most)

    def _best_order(self, epsilon: float) -> tuple[float, float]:
        """Return the Renyi order, less 1, that bounds delta best, and the log of its bound."""
        highest = float(self.ratios.max()) - 1.0
        end = log(1.0 / highest) if highest > 1e-6 else 14.0
        grid = np.linspace(end - 20.0, end, 81)[:-1]
        values = [self._log_bound(x, epsilon) for x in grid]
        best = int(np.argmin(values))
        around = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
        optimum = minimize_scalar(self._log_bound, bounds=around, args=(epsilon,), method="bounded")
        if float(optimum.fun) < values[best]:
            return exp(float(optimum.x)), float(optimum.fun)
        return exp(float(grid[best])), values[best]

    def _log_bound(self, log_order: float, epsilon: float) -> float:
        """Return the log of the Renyi bound on delta."""
        order = exp(log_order)
        divergence = self.renyi(1.0 + order)[1]
        if divergence == inf:
            return 1e3
        kept = -(1.0 + order) * log1p(1.0 / order) - log_order
        # 1 + order is rounded: one ulp of alpha moves this by less than the room
        moved = (1.0 + order) * (divergence + abs(epsilon)) + abs(kept)
        return order * (divergence - epsilon) + kept + _ROOM * (1.0 + moved)

    def _blur(self, log_most: float) -> tuple[float, float, float]:
        """Return how far log p and log q are from these coordinates', but for a small mass of p."""
        roots, size = np.sqrt(self.ratios), sqrt(len(self.shift))
        lag = float(np.linalg.norm(self.shift_error / roots)) * (1.0 + _ROOM)
        reach = size + sqrt(2.0 * (32.0 - min(log_most, 0.0)))
        seen = reach * (1.0 + self.p_error) + lag
        p_off = 0.6 * self.p_error * (len(roots) + seen**2) / (1.0 - self.p_error)
        p_off += 1.5 * lag * (seen + lag)
        far = float(np.linalg.norm(np.abs(self.shift) + self.shift_error))
        far += float(roots.max()) * seen
        q_off = 0.6 * self.q_error * (len(roots) + far**2) / (1.0 - self.q_error)
        # twice e^-31 for e^-32: p and p' differ by less than e^(p_off) there
        return p_off, q_off, 2.0 * exp(max(min(log_most, 0.0) - 31.0, -740.0))

    def _contour(self, epsilons: Ends, order: float, log_most: float) -> Ends:
        """Return bounds on delta of exactly these coordinates, by contour integrals.

        The lower one at the first epsilon, the upper one at the second, which is hardly less.
        """
        log_scale = self._log_size(order, 0.0) - order * epsilons[0]
        higher = self._beyond(order)
        ahead = self._log_bound(log(higher), epsilons[1])
        aim = 32.0 - min(log_most, 0.0)
        length = max(aim / order, max(aim + ahead, aim) / (higher - order))
        step, count, left_out = 2.0 * pi / length, 256, inf
        while count < _MOST_NODES and left_out > 1e-9:
            count *= 2
            last = step * (count - 1)
            size = exp(min(self._log_size(order, last) - order * epsilons[1] - log_scale, 700.0))
            left_out = 1.01 * size * order * (1.0 + order) / last / step
        (least, most), error = self._sums(epsilons, order, step, count, log_scale)
        unit = step / pi * exp(log_scale) / order / (1.0 + order)
        aliases = 1.01 * exp(max(-order * length, -740.0))
        aliases += 1.01 * exp(min(max(ahead - (higher - order) * length, -740.0), 700.0))
        off = unit * (error + left_out)
        return unit * least - off - aliases, unit * most + off

    def _beyond(self, order: float) -> float:
        """Return a larger order at which the divergence is finite."""
        highest = float(self.ratios.max()) - 1.0
        end = 1.0 / highest if highest > 1e-12 else inf
        return min(2.0 * order, 0.5 * (order + end))

    def _sums(
        self, epsilons: Ends, order: float, step: float, count: int, log_scale: float
    ) -> tuple[Ends, float]:
        """Return sums of Re F, in units of F(c), for both epsilons, and their error."""
        totals, error = [0.0, 0.0], 0.0
        for first in range(0, count, 2**15):
            s = order + 1j * step * np.arange(first, min(first + 2**15, count))
            logs, sizes = self._log_moment(s)
            kernel = order * (1.0 + order) / (s * (s + 1.0))
            if first == 0:
                kernel[0] *= 0.5
            for k, epsilon in enumerate(epsilons):
                terms = np.exp(logs - s * epsilon - log_scale) * kernel
                totals[k] += float(terms.real.sum())
            sizes = sizes + 2.0 * np.abs(s) * abs(epsilons[0]) + abs(log_scale)
            error += float((np.abs(terms) * (_ROOM + 16.0 * UNIT * sizes)).sum())
        return (totals[0], totals[1]), error

    def _log_size(self, order: float, height: float) -> float:
        """Return log |M| at a point."""
        return float(self._log_moment(np.array([complex(order, height)]))[0][0].real)

    def _log_moment(self, s: NDArray[Any]) -> tuple[NDArray[Any], FloatArray]:
        """Return log M(s), and the sum of the sizes of its terms."""
        logs, sizes = np.zeros_like(s), np.zeros(len(s))
        for shift, ratio in zip(self.shift, self.ratios, strict=True):
            inner = 1.0 + s * (1.0 - ratio)
            square = 0.5 * shift * shift * s * (1.0 + s) / inner
            spread, level = -0.5 * np.log(inner), -0.5 * s * log(ratio)
            logs = logs + square + spread + level
            # 1 + s (1 - ratio) loses what cancels
            lost = (1.0 + np.abs(s) * (1.0 + ratio)) / np.abs(inner)
            sizes = sizes + np.abs(spread) + np.abs(level) + (1.0 + lost) * (1.0 + np.abs(square))
        return logs, sizes


def _diagonal(matrix: FloatArray, turn: FloatArray) -> tuple[FloatArray, float]:
    """Return the diagonal l of V'SV, and a with (1 - a) diag(l) <= V'SV <= (1 + a) diag(l)."""
    turned = turn.T @ matrix @ turn
    size = np.abs(turn).T @ np.abs(matrix) @ np.abs(turn)
    diagonal = np.diag(turned)
    if diagonal.min() <= 0.0 or not np.all(np.isfinite(turned)):
        return diagonal, inf
    left = np.abs(turned - np.diag(diagonal)) + (2.0 * len(matrix) + 8.0) * 1.1 * UNIT * size
    roots = np.sqrt(diagonal)
    return diagonal, float(np.linalg.norm(left / np.outer(roots, roots))) * (1.0 + _ROOM)


def _spread_terms(ratios: FloatArray, error: float, alpha: float) -> Ends:
    """Return the interval of what two covariances add, for ratios within factors 1 +- error."""
    error = error + _ROOM
    below, above = ratios * (1.0 - error), ratios * (1.0 + error)
    # each term falls up to ratio 1 and rises from there on
    nearest = np.where(below > 1.0, below, np.where(above < 1.0, above, 1.0))
    least, lost = _spread_term(nearest, alpha)
    most = [value + off for value, off in (_spread_term(end, alpha) for end in (below, above))]
    return float(np.maximum(least - lost, 0.0).sum()), float(np.maximum(*most).sum())


def _spread_term(ratio: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return -(log(alpha - (alpha - 1) l) + (alpha - 1) log l)/(2 (alpha - 1)), and its error."""
    order, extra = alpha - 1.0, ratio - 1.0
    finite = order * extra < 1.0
    inner = np.log1p(np.where(finite, -order * extra, 0.0))
    outer = np.where(ratio < 0.5, np.log(ratio), np.log1p(np.maximum(extra, -0.5)))
    value = -0.5 * (inner / order + outer)
    # the two logarithms cancel to the second order: their own rounding is what is lost
    lost = 8.0 * UNIT * (np.abs(inner) / order + np.abs(outer))
    return np.where(finite, np.maximum(value, 0.0), inf), np.where(finite, lost, 0.0)
