r"""A mixture of Gaussians plus noise: its distribution in one released column.

The density is a mixture of parts that `_losses.mixtures` puts together. They are Gaussians, without
noise or with Gaussian noise, and Gaussian * Laplace with Laplace noise, in closed form through
``erfcx``.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Self

import numpy as np
from scipy.special import erfcx, log_ndtr

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.mixtures import (
    ARGUMENT,
    SLACK,
    SPECIAL,
    LogConcaveDistribution,
    LogDensities,
    MixtureDistribution,
    rounding,
)
from sklearn_puffer._numerics import log_sum
from sklearn_puffer.noise import Noise
from sklearn_puffer.priors import GaussianMixture

# Laplace noise. With g the Gaussian density, a = sd/theta, t = |y - centre|/sd and M(x) =
# erfcx(x/sqrt 2): h = e^(-t^2/2) (M(a - t) + M(a + t))/(4 theta), an exponential to each side.
# D = log M(a - t) - log M(a + t) gives the score tanh(D/2)/theta, as the Gaussian terms of h'
# cancel. h - theta^2 h'' = g (the kernel is the Green's function of 1 - theta^2 d^2), so that
# (log h)'' = (sech^2(D/2) - g/h)/theta^2 and P(Y > t) = Phi(-t) - theta^2 h'. Prior and noise are
# log-concave, hence h; -(score of h) = E[X | y] in units of sd is in [0, t], so that g/h falls with
# t, as sech^2(D/2) does. Given y, N (in sd) has density ~ e^(tn - a|n|) e^(-n^2/2), and (log h)'' =
# -1 + Var(N | y); as n^2 rises and e^(-n^2/2) falls with |n|, E[N^2 | y] is at most E[N^2] under
# e^(tn - a|n|), which is <= 2/(a - t)^2. Likewise 0 <= E[N | y] <= 2t/(a^2 - t^2), as n tanh(tn)
# rises: the slope for a large a.

_FARTHEST = 1e150  # standard deviations: squares stay finite


def has_distribution(noise: Noise | None) -> bool:
    """Return whether a Gaussian plus noise of this family has a distribution that is known here.

    Examples
    --------
    >>> from sklearn_puffer.noise import Cauchy, Laplace
    >>> has_distribution(Laplace(1.0)), has_distribution(Cauchy(1.0))
    (True, False)
    """
    return noise is None or noise.is_exponential or noise.is_normal


def distribution_of(prior: GaussianMixture, noise: Noise | None) -> MixtureDistribution:
    r"""Return the distribution of Y = X + N, for X a mixture of Gaussians in one column.

    Parameters
    ----------
    prior : GaussianMixture
        Of one column.
    noise : Noise or None
        None is no noise: the distribution of X itself.

    Notes
    -----
    *Formal guarantees.* Every bound of the distribution is proven, given the accuracy of the
    special functions and of `noise` that the module states.

    Raises
    ------
    ValueError
        If the prior is of several columns, or `has_distribution` is False.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> prior = GaussianMixture([0.5, 0.5], [0.0, 3.0], [1.0, 0.1])
    >>> distribution = distribution_of(prior, Laplace(1.0))
    >>> low, high = distribution.masses(np.array([-np.inf, 1.0]), np.array([1.0, 2.0]))
    >>> low.round(6).tolist(), bool(np.all(high - low < 1e-13))
    ([0.404349, 0.133886], True)
    """
    if prior.n_axes != 1 or not has_distribution(noise):
        raise ValueError(
            f"the loss of Gaussian and mixture priors of {prior.n_axes} column(s) is not computed "
            f"under {noise!r}; use one column and noise='laplace', or a bound."
        )
    means, deviations = prior.means.reshape(-1), _deviations(prior)
    scale = 0.0 if noise is None else float(noise.axis_scales(1)[0])
    if noise is None or noise.is_normal:
        return GaussianDistribution(prior.weights, means, deviations, scale)
    return _LaplaceDistribution(prior.weights, means, deviations, scale)


def _deviations(prior: GaussianMixture) -> FloatArray:
    if prior.means.ndim == 1:
        return prior.scales
    return np.asarray(np.sqrt(prior.scales[:, 0, 0]))


class GaussianDistribution(LogConcaveDistribution):
    """A mixture of Gaussians plus Gaussian noise, or none (sigma 0)."""

    def __init__(
        self, weights: FloatArray, means: FloatArray, deviations: FloatArray, sigma: float
    ) -> None:
        super().__init__(weights, means)
        self._prior_deviations = deviations[:, None]
        self.deviations = np.hypot(self._prior_deviations, sigma)
        self.unit = float(self.deviations.min())

    def anchors(self) -> FloatArray:
        """Return points around each component, out to where all but the widest are gone."""
        steps = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 38.0])
        near = self.centres + self.deviations * np.concatenate([-steps, steps])
        outer = [float(near.min()), float(near.max())]
        more = [-self._settled(-1, abs(outer[0])), self._settled(1, abs(outer[1]))]
        return np.unique(np.concatenate([near.ravel(), more]))

    def _settled(self, side: int, least: float) -> float:
        """Return a distance from 0 beyond which the last component of a tail is all there is."""
        top = self._last(side)
        lead = side * (self.centres[top] - self.centres)
        wide, narrow = self.deviations[top], self.deviations
        sd = self._prior_deviations
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            kappa = (sd[top] - sd) * (sd[top] + sd) / (wide * narrow) ** 2
            by_lead = np.where(lead > 0.0, 60.0 * wide**2 / lead, 0.0)
            by_width = np.where(kappa > 0.0, np.sqrt(120.0 / kappa) + 4.0 * np.abs(lead), by_lead)
        reach = np.abs(self.centres).max() + np.nan_to_num(by_width, posinf=0.0).max()
        return max(least, min(float(reach), 1e9 * least))

    def _last(self, side: int) -> int:
        keys = (side * self.centres[:, 0], self._prior_deviations[:, 0])
        return int(np.lexsort(keys)[-1])

    def _values(self, z: FloatArray) -> LogDensities:
        t = np.minimum(z / self.deviations, _FARTHEST)
        value = -0.5 * np.square(t) - np.log(self.deviations * sqrt(2.0 * pi))
        score = t / self.deviations
        return LogDensities(value, self._error(t), score, 4.0 * ARGUMENT * score)

    def _error(self, t: FloatArray) -> FloatArray:
        size = 1.0 + np.abs(np.log(self.deviations))
        return 4.0 * ARGUMENT * (size + np.square(t))

    def _lowest(
        self, near: FloatArray, far: FloatArray, first: LogDensities, last: LogDensities
    ) -> FloatArray:
        bend = (1.0 + 16.0 * ARGUMENT) / np.square(self.deviations)
        return np.broadcast_to(-bend, near.shape)

    def _tail(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        t = np.minimum(z / self.deviations, 1e4)
        tail = 0.5 * np.exp(-0.5 * np.square(t)) * erfcx(t / sqrt(2.0))
        return tail, SPECIAL + 4.0 * ARGUMENT * np.square(t)

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail; infinite where tails do not agree."""
        return -_highest(other, self, edge, side), _highest(self, other, edge, side)

    def beyond_power(self, other: Self, edge: float, side: int, alpha: float) -> float:
        r"""Return an upper bound on log of :math:`\int h^\alpha h_o^{1 - \alpha}` over a tail.

        By Minkowski's inequality for the parts of h, and with one part of the other distribution
        alone:

        .. math:: \int h^\alpha h_o^{1-\alpha} \le v_j^{1-\alpha} \Bigl( \sum_k w_k
                  \bigl( \textstyle\int h_k^\alpha g_j^{1-\alpha} \bigr)^{1/\alpha} \Bigr)^\alpha
        """
        best = super().beyond_power(other, edge, side, alpha)
        for j in range(len(other.weights)):
            terms = _gaussian_terms(self, other, j, edge, side, alpha)
            if np.all(terms < np.inf):
                logs = self._log_weights[:, 0] + terms / alpha
                total = alpha * float(log_sum(logs))
                total += (1.0 - alpha) * float(other._log_weights[j, 0])
                size = alpha * (1.0 + float(np.abs(logs).max()) + abs(total))
                best = min(best, total + SLACK * size)
        return best


def _highest(
    distribution: GaussianDistribution, other: GaussianDistribution, edge: float, side: int
) -> float:
    """Return an upper bound on log h / h_other over a tail, from the other's last component."""
    last = other._last(side)
    wide, mean = other.deviations[last, 0], other.centres[last, 0]
    sd, deviations = distribution._prior_deviations[:, 0], distribution.deviations[:, 0]
    last_sd = other._prior_deviations[last, 0]
    ahead = side * (edge - distribution.centres[:, 0])
    ahead_last = side * (edge - mean)
    lead = side * (distribution.centres[:, 0] - mean) / wide / wide
    kappa = (last_sd - sd) * (last_sd + sd) / deviations / wide / deviations / wide
    if np.any((kappa < 0.0) | ((kappa == 0.0) & (lead > 0.0))):
        return np.inf
    # -(d_k/s_k)^2/2 + (d/s)^2/2, d = edge - mean, without the cancellation
    bent, led = 0.5 * np.square(ahead) * kappa, 0.5 * lead * (ahead + ahead_last)
    at_edge = np.log(wide / deviations) - bent + led
    size = 1.0 + np.abs(np.log(wide / deviations)) + np.abs(bent) + np.abs(led)
    slope = lead - ahead * kappa
    slope = slope + SLACK * (np.abs(lead) + np.abs(ahead * kappa))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        vertex = np.where((slope > 0.0) & (kappa > 0.0), 0.5 * np.square(slope) / kappa, 0.0)
    highest = at_edge + vertex * (1.0 + 4.0 * SLACK) + 16.0 * ARGUMENT * size
    total = float(log_sum(highest + distribution._log_weights[:, 0]))
    total -= float(other._log_weights[last, 0])
    return total + float(rounding(np.array(total))) if np.isfinite(total) else np.inf


def _gaussian_terms(
    distribution: GaussianDistribution,
    other: GaussianDistribution,
    j: int,
    edge: float,
    side: int,
    alpha: float,
) -> FloatArray:
    """Return upper bounds on log of int h_k^alpha g_j^(1 - alpha) over a tail, for each k."""
    sd, other_sd = distribution.deviations[:, 0], float(other.deviations[j, 0])
    apart = distribution.centres[:, 0] - float(other.centres[j, 0])
    # alpha/sd^2 - (alpha - 1)/other_sd^2 = spread/(sd other_sd)^2
    lost = 16.0 * ARGUMENT * alpha * (other_sd**2 + sd**2)
    spread = alpha * other_sd**2 - (alpha - 1.0) * sd**2 - lost
    finite = spread > 0.0
    spread = np.where(finite, spread, 1.0)
    whole = 0.5 * alpha * (alpha - 1.0) * np.square(apart) / spread
    whole += (1.0 - alpha) * np.log(sd / other_sd) + np.log(other_sd / np.sqrt(spread))
    # the product is Gaussian, `moved` from the part's centre, of deviation 1/rate
    moved, rate = (alpha - 1.0) * sd**2 * apart / spread, np.sqrt(spread) / (sd * other_sd)
    centre = distribution.centres[:, 0] + moved
    start = side * (edge - centre) * rate
    off = 4.0 * lost / spread * (np.abs(start) + rate * np.abs(moved))
    off += 16.0 * ARGUMENT * rate * (abs(edge) + np.abs(centre) + np.abs(moved))
    tail = np.where(lost < 0.01 * spread, log_ndtr(off - start), 0.0)
    lost_too = 64.0 * ARGUMENT * (1.0 + alpha) * (1.0 + np.abs(whole) + np.abs(tail))
    return np.where(finite, whole + tail + lost_too, np.inf)


class _LaplaceDistribution(LogConcaveDistribution):
    """A mixture of Gaussians plus Laplace noise."""

    def __init__(
        self, weights: FloatArray, means: FloatArray, deviations: FloatArray, theta: float
    ) -> None:
        super().__init__(weights, means)
        self.deviations = deviations[:, None]
        self.unit, self.theta = float(deviations.min()), theta
        self._a = self.deviations / theta

    def anchors(self) -> FloatArray:
        """Return points around each component, out to where its tail is exponential."""
        steps = np.array([0.0, 1.0, 2.0, 4.0, 9.0])
        outer = np.where(self._a < 1e-2, 0.0, self._a) + 9.0
        far = [9.0 * 4.0**n for n in range(1, 60) if 9.0 * 4.0**n < outer.max()]
        reach = np.minimum(np.concatenate([steps, far])[None, :], outer)
        moves = np.concatenate([reach, outer], axis=1) * self.deviations
        both = np.concatenate([self.centres - moves, self.centres + moves], axis=1)
        return np.unique(both)

    def _profile(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return D, the relative error of e^D, and log h."""
        a, past = self._a, np.maximum(t - self._a, 0.0)
        inner = np.log(erfcx(np.maximum(a - t, 0.0) / sqrt(2.0)))
        normal = log_ndtr(past)
        first = np.where(t <= a, inner, 0.5 * np.square(past) + log(2.0) + normal)
        diff = np.maximum(first - np.log(erfcx((a + t) / sqrt(2.0))), 0.0)
        both = np.log1p(np.exp(-diff))
        error = 4.0 * SPECIAL + 8.0 * ARGUMENT * (1.0 + t) * (1.0 + past)
        within = -0.5 * np.square(t) + first + both - log(4.0 * self.theta)
        tail = a * (0.5 * a - t) + normal + both - log(2.0 * self.theta)
        return diff, error, np.where(t <= a, within, tail)

    def _values(self, z: FloatArray) -> LogDensities:
        t = np.minimum(z / self.deviations, _FARTHEST)
        diff, error, value = self._profile(t)
        slope = np.tanh(0.5 * diff) / self.theta
        sech = 4.0 * np.exp(-diff) / np.square(1.0 + np.exp(-diff))
        slope_error = (sech * error + 4.0 * ARGUMENT * np.tanh(0.5 * diff)) / self.theta
        # a large: score = t - E[N | y], between t - 2t/(a^2 - t^2) and t, in units of the deviation
        flat = (self._a > 2.0**16) & (t < 0.9 * self._a)
        pull = t / np.where(flat, (self._a - t) * (self._a + t), 1.0)
        slope = np.where(flat, (t - pull) / self.deviations, slope)
        flat_error = (pull * (1.0 + SLACK) + 4.0 * ARGUMENT * t) / self.deviations
        slope_error = np.where(flat, flat_error, slope_error)
        return LogDensities(value, self._error(t, value), slope, slope_error)

    def _error(self, t: FloatArray, value: FloatArray) -> FloatArray:
        by_argument = 16.0 * ARGUMENT * t * np.minimum(t, self._a)
        size = np.abs(value) + abs(log(self.theta))
        return 4.0 * SPECIAL + by_argument + 2.0 * ARGUMENT * size

    def _lowest(
        self, near: FloatArray, far: FloatArray, first: LogDensities, last: LogDensities
    ) -> FloatArray:
        square = np.square(np.minimum(near / self.deviations, _FARTHEST))
        log_ratio = -0.5 * square - np.log(self.deviations * sqrt(2.0 * pi)) - first.log
        room = first.log_error + 8.0 * ARGUMENT * (1.0 + square + np.abs(np.log(self.deviations)))
        ratio = np.exp(np.minimum(log_ratio + room, 700.0))
        sech = np.maximum(1.0 - np.square(self.theta * (last.score + last.score_error)), 0.0)
        bend = (sech - ratio - SLACK * (1.0 + ratio)) / self.theta**2
        return np.maximum(bend, -(1.0 + SLACK) / np.square(self.deviations))

    def _tail(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        t = np.minimum(z / self.deviations, 1e100)
        a, past = self._a, np.maximum(t - self._a, 0.0)
        gauss = 0.5 * np.exp(-0.5 * np.square(t))
        core = gauss * (erfcx(t / sqrt(2.0)) - 0.5 * erfcx((a + t) / sqrt(2.0)))
        within = gauss * erfcx(np.maximum(a - t, 0.0) / sqrt(2.0))
        side = np.where(t <= a, within, np.exp(a * np.minimum(0.5 * a - t, 0.0) + log_ndtr(past)))
        error = 8.0 * SPECIAL + 32.0 * ARGUMENT * (1.0 + t * np.minimum(t, a))
        return core + 0.5 * side, error

    def _log_tail_mass(self, edge: float, side: int) -> float:
        """Return an upper bound on the log of the mass of a tail, which floats may not hold.

        With t and a as above a part has at most (e^(-t^2/2) + e^s)/2 beyond t >= 0, where s is
        -t^2/2 up to a, and a^2/2 - a t from there on.
        """
        known = super()._log_tail_mass(edge, side)
        t, a = side * (edge - self.centres) / self.deviations, self._a
        if (t < 0.0).any():
            return known
        normal = -0.5 * np.square(t) * (1.0 - 4.0 * ARGUMENT)
        noise = a * (0.5 * a - t) + 8.0 * ARGUMENT * a * (a + t)
        logs = np.logaddexp(normal, np.where(t <= a, normal, noise)) - log(2.0)
        total = float(log_sum((logs + self._log_weights)[:, 0]))
        return min(total + float(rounding(np.array(total))), known)

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        r"""Return bounds on log h / h_other over a tail.

        There :math:`2\theta e^{\pm y/\theta} h = \sum_k w_k e^{c_k} R_k(y)`, with
        :math:`c_k = \pm\mu_k/\theta + sd_k^2/(2\theta^2)` and R_k rising to 1.
        """
        top = int(np.argmax(self._exponents(0.0, 0.0, side)))
        origin = float(self.centres[top, 0]), float(self.deviations[top, 0])
        low, high = self._constants(origin, edge, side)
        other_low, other_high = other._constants(origin, edge, side)
        return low - other_high, high - other_low

    def _exponents(self, mean: float, deviation: float, side: int) -> FloatArray:
        """Return c_k less that of a Gaussian of the given mean and deviation."""
        squares = (self.deviations - deviation) * (self.deviations + deviation)
        lead = side * (self.centres - mean)
        return (lead / self.theta + 0.5 * squares / self.theta / self.theta)[:, 0]

    def _constants(
        self, origin: tuple[float, float], edge: float, side: int
    ) -> tuple[float, float]:
        exponents = self._exponents(*origin, side)
        logs = exponents + self._log_weights[:, 0]
        squares = np.abs(self.deviations - origin[1]) * (self.deviations + origin[1])
        size = np.abs(self.centres - origin[0]) / self.theta + squares / self.theta / self.theta
        error = SLACK + 8.0 * ARGUMENT * (size + np.abs(self._log_weights))[:, 0]
        t = side * (edge - self.centres[:, 0]) / self.deviations[:, 0]
        t = t - 4.0 * ARGUMENT * (np.abs(t) + self._a[:, 0])
        with np.errstate(under="ignore", divide="ignore"):
            reached = log_ndtr(np.clip(t - self._a[:, 0], -1e100, None))  # R_k >= Phi(t - a)
            low, high = logs + reached - error, logs + error
            low_sum = float(log_sum(low))
            high_sum = float(log_sum(high))
        low_off, high_off = (float(rounding(np.array(log))) for log in (low_sum, high_sum))
        return low_sum - low_off, high_sum + high_off
