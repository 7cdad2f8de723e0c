r"""The loss of a shift that is itself Gaussian: proven upper bounds of its mean.

Two Gaussians of one column are coupled by :math:`X - X' = m + s Z` with Z standard normal. The
bounds of 003 and 004 then need the mean of a function L of the shift,

.. math:: E[L(|m + s Z| / \theta)], \qquad
          L = \text{hockey stick at } \varepsilon, \quad\text{or}\quad
          L = e^{(\alpha - 1) D_\alpha},

or the tail of the shift alone. Laplace noise has closed forms, and Gaussian noise has one for L of
the second kind. Otherwise L is replaced by a majorant U that is piecewise linear in units of the
scale, made once for all pairs and all scales. As U never falls, its mean never rises with the
scale; and the mean of a piecewise linear function of a Gaussian is a sum over its pieces.
"""

# Why U >= L.
#
# A hockey stick rises with the shift, so that its value at the next knot lies above it.
#
# F = e^((alpha - 1) D_alpha)(z) = int K^alpha(y) K^(1 - alpha)(y - z) dy has
# F'' >= -(alpha - 1) max((log K)'', 0) F, as (K^(1 - alpha))'' = K^(1 - alpha) ((alpha - 1)^2 (log
# K)'^2 - (alpha - 1) (log K)''), and a kink of log K at 0 points upwards. F rises with z. So on a
# panel of width w F lies below its chord plus (alpha - 1) max (log K)'' F(right) w^2 / 8, or simply
# F(right). Where (alpha - 1) (log K)'^2 >= (log K)'' everywhere, F is convex; the quotient of the
# two rises to a limit in |z| for all families (negative; 0; (u^2 - 1)/(k u^2)), so its value far
# out decides. Past the last knot log F has at most the slope (alpha - 1) max |(log K)'|. A power
# n >= 1 of F has (F^n)''/F^n >= n F''/F, so the same holds of it with n times the bend and slope.
#
# Rounding. Arguments of the normal distribution are moved outwards by more than they are off; its
# tails are good to 1e-13, and `_SLACK` covers them and the sums. A shift's loss is rounded up as in
# `noise`.

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import ULP
from sklearn_puffer._strategies.coupling_bounds import move_losses, noise_at
from sklearn_puffer.noise import ROUNDING, Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean

_SLACK = 1e-12
_TINY = 1e-300
_PANEL = 5e-4  # between the knots of hockey sticks, relatively
_LEAST_SPREAD = 1e-30  # relative to m; less is a point in every digit
_HUGE = 1e150  # scales of noise beyond which, in units of the move or back, all is lost or nothing
_FAR = 1e8  # in units of the scale: there the shape of the tails has shown


def tails(beyond: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
    """Return P(|m + s Z| > beyond), rounded up, for broadcastable arrays; s may be 0.

    >>> tails(np.array([1.0, 3.0]), np.array([2.0]), np.array([0.0])).tolist()
    [1.0, 0.0]
    """
    m, s, beyond = np.abs(m), np.abs(s), np.minimum(beyond, 1e290)
    certain = np.where((m > 0.0) & (m >= beyond * (1.0 - 8.0 * ULP)), 1.0, 0.0)
    wide = np.where(s > 0.0, np.maximum(s, _LEAST_SPREAD * (beyond + m)), 1.0)  # more is safe
    slack = 8.0 * ULP * (beyond + m) / wide
    chances = ndtr(slack - (beyond - m) / wide) + ndtr(slack - (beyond + m) / wide)
    return np.where(s > 0.0, np.minimum(chances * (1.0 + _SLACK) + _TINY, 1.0), certain)


class GaussianShift:
    """Upper bounds of the mean loss of shifts m + s Z in one column, for a notion that is not pure.

    Under a power mean a "mean" is that of e^((alpha - 1) D), given as its logarithm.
    """

    def __init__(self, noise: Noise, notion: Notion) -> None:
        self.noise, self.notion = noise, notion

    def means(self, factor: float, m: FloatArray, s: FloatArray) -> FloatArray:
        """Return bounds for arrays of shifts (n,) under ``noise.scaled(factor)``; 0 is no noise."""
        m, s = np.abs(m), np.abs(s)
        means = move_losses(m[:, None], self.noise, factor, self.notion)
        divergence = self.notion.divergence
        if isinstance(divergence, PowerMean):
            with np.errstate(over="ignore"):  # infinity is an upper bound
                means = divergence.order * means * (1.0 + 4.0 * ULP)
        spread = s > 0.0
        if spread.any():
            noise = noise_at(self.noise, factor, 1)
            lost = divergence.worst
            means[spread] = lost if noise is None else self._of(noise, m[spread], s[spread])
        return means

    def _of(self, noise: Noise, m: FloatArray, s: FloatArray) -> FloatArray:
        theta = float(noise.axis_scales(1)[0])
        with np.errstate(over="ignore"):
            m, s = m / theta, s / theta
        s = np.maximum(s, np.maximum(_LEAST_SPREAD * m, 1.0 / _HUGE))  # a wider spread is safe
        divergence = self.notion.divergence
        if isinstance(divergence, PowerMean):
            if noise.is_exponential:
                return laplace_powers(divergence.alpha, m, s)
            if noise.is_normal:
                return gaussian_powers(divergence.alpha, m, s)
            return np.logaddexp(0.0, self._log_means(m, s)) * (1.0 + 4.0 * ULP)
        assert isinstance(divergence, HockeyStick)
        if noise.is_exponential:
            return laplace_delta(divergence.epsilon, m, s)
        with np.errstate(under="ignore"):
            return np.minimum(np.exp(self._log_means(m, s)) + _TINY, 1.0)

    def _log_means(self, m: FloatArray, s: FloatArray) -> FloatArray:
        logs = np.full(m.shape, np.inf)
        usual = (m < _HUGE) & (s < _HUGE)
        logs[usual] = self._majorant.log_means(m[usual], s[usual])
        return logs

    @cached_property
    def _majorant(self) -> Majorant:
        unit, notion = self.noise.with_scale(1.0), self.notion
        if isinstance(notion.divergence, PowerMean):
            return power_majorant(unit, notion, notion.divergence.order)
        return hockey_majorant(unit, notion.epsilon, max(notion.delta, 1e-290))


# ------------------------------------------------------------------------------------ closed forms


def log_exponential_means(c: float, m: FloatArray, s: FloatArray) -> FloatArray:
    r"""Return log E[e^(c |m + s Z|)], rounded up, for s > 0 and any sign of c.

    .. math:: e^{c^2 s^2/2} \bigl(e^{c m} \Phi(m/s + c s) + e^{-c m} \Phi(-m/s + c s)\bigr)

    >>> float(log_exponential_means(1.0, np.array([0.0]), np.array([1.0])).round(6)[0])
    1.020393
    """
    m = np.abs(m)
    with np.errstate(over="ignore", invalid="ignore"):
        right, left = _one_power(c, m, s), _one_power(c, -m, s)
        logs = np.logaddexp(right, np.fmin(left, right) if c > 0.0 else left)
    largest = np.inf if c > 0.0 else 0.0
    return np.where(np.isnan(logs), largest, np.minimum(logs, largest))


def _one_power(c: float, m: FloatArray, s: FloatArray) -> FloatArray:
    """Return log E[e^(c X); X > 0] for X = m + s Z, rounded up."""
    t, slope, bend = m / s, c * m, 0.5 * np.square(c * s)
    x = t + c * s
    # log_ndtr has a slope of less than 1 + max(-x, 0), and x is off by 2 u of its parts
    moved = (np.abs(t) + abs(c) * s) * (1.0 + np.maximum(-x, 0.0))
    moved = np.where(x > 40.0, 0.0, moved)  # where it is 0
    return slope + bend + log_ndtr(x) + 8.0 * ULP * (moved + np.abs(slope) + bend + 1.0)


def laplace_powers(alpha: float, m: FloatArray, s: FloatArray) -> FloatArray:
    r"""Return log E[e^((alpha - 1) D_alpha)] of Laplace noise at scale 1.

    The function is :math:`(\alpha e^{(\alpha-1)|x|} + (\alpha-1) e^{-\alpha|x|})/(2\alpha - 1)`.
    """
    c = alpha - 1.0
    rising = log_exponential_means(c, m, s) + np.log(alpha / (alpha + c))
    falling = log_exponential_means(-alpha, m, s) + np.log(c / (alpha + c))
    logs: FloatArray = np.logaddexp(rising, falling)
    return np.maximum(logs + 8.0 * ULP * (1.0 + np.minimum(np.abs(logs), 1e300)), 0.0)


def gaussian_powers(alpha: float, m: FloatArray, s: FloatArray) -> FloatArray:
    r"""Return log E[e^(a X^2)], a = alpha (alpha - 1)/2, of Gaussian noise at scale 1.

    .. math:: -\tfrac12 \log(1 - 2 a s^2) + \frac{a m^2}{1 - 2 a s^2},

    infinite unless 2 a s^2 < 1.
    """
    doubled = alpha * (alpha - 1.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        used = np.square(s) * doubled * (1.0 + 16.0 * ULP)
        left = np.maximum(1.0 - used, 0.0) * (1.0 - 4.0 * ULP)
        logs = -0.5 * np.log1p(-np.minimum(used, 1.0)) + 0.5 * doubled * np.square(m) / left
    return np.where(used < 1.0, logs * (1.0 + 32.0 * ULP), np.inf)


def laplace_delta(epsilon: float, m: FloatArray, s: FloatArray) -> FloatArray:
    r"""Return E[(1 - e^((epsilon - |m + s Z|)/2))_+], rounded up (the soft form of 003, Thm 2).

    Each side of 0 gives, with t = (epsilon -+ m)/s and c = s/2,
    :math:`Q(t) - e^{t c + c^2/2} Q(t + c)`, Q the tail of the normal distribution.
    """
    s = np.maximum(s, _LEAST_SPREAD * (epsilon + m))
    with np.errstate(over="ignore", invalid="ignore"):
        slack = 8.0 * ULP * (epsilon + m) / s
        near = _one_side((epsilon - m) / s - slack, 0.5 * s)
        far = _one_side((epsilon + m) / s - slack, 0.5 * s)
    total = np.minimum((near + far) * (1.0 + _SLACK) + _TINY, 1.0)
    return np.nan_to_num(total, nan=1.0)


def _one_side(t: FloatArray, c: FloatArray) -> FloatArray:
    """Return E[(1 - e^(-c (Z - t)))_+], rounded up."""
    # It falls with t and rises with c, so a lower t and a higher c are on the safe side.
    c = c * (1.0 + 4.0 * ULP)
    near = np.clip(t, -30.0, 40.0)
    # the normal density times the fall of Mills' ratio R from t to t + c; -R' = 1 - x R falls
    here, there = _mills(near), _mills(near + c)
    apart = here - there + 8.0 * ULP * here * (1.0 + np.square(near))
    slopes = (1.0 - near * here) + np.maximum(1.0 - (near + c) * there, 0.0)
    straight = 0.5 * c * (slopes + 64.0 * ULP * (1.0 + np.abs(near) * here))
    means = np.exp(-0.5 * np.square(near)) / np.sqrt(2.0 * np.pi) * np.fmin(apart, straight)
    # far left of 0 the mean is 1 - E[e^(-c (Z - t))] and less than c E(Z - t)_+
    far = np.minimum(t, -30.0)
    exponent = np.minimum(c * (far + 0.5 * c), 0.0)
    certain = np.minimum(-np.expm1(exponent) + 64.0 * ULP, c * (_SLACK - far))
    certain = np.where(far + c < -20.0, certain, 1.0)
    return np.where(t > 40.0, 0.0, np.where(t < -30.0, certain, np.minimum(means, ndtr(-near))))


def _mills(t: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.pi / 2.0) * erfcx(t / np.sqrt(2.0)))


# --------------------------------------------------------------------------------------- majorants


@dataclass(frozen=True, eq=False)
class Majorant:
    r"""A non-decreasing function U of |x|, linear between knots, exponential past the last one.

    Attributes
    ----------
    knots : ndarray of shape (n,)
        Sorted, from 0; where two are equal the function steps up.
    logs : ndarray of shape (n,)
        Logarithms of the values at the knots, non-decreasing.
    rate : float
        Past the last knot 1 + U grows as :math:`e^{\text{rate}\, x}`, or U stays as it is for 0.
    """

    knots: FloatArray
    logs: FloatArray
    rate: float

    def log_means(self, m: FloatArray, s: FloatArray) -> FloatArray:
        """Return the logarithms of E[U(|m + s Z|)], rounded up, for arrays (n,) with s > 0."""
        return np.array(
            [self._log_mean(float(a), float(b)) for a, b in zip(m, s, strict=True)], dtype=float
        )

    def _log_mean(self, m: float, s: float) -> float:
        tails = np.logaddexp(self._log_tails(m, s), self._log_tails(-m, s))
        with np.errstate(divide="ignore", invalid="ignore"):
            drop = np.where(np.isfinite(self.logs[1:]), self.logs[:-1] - self.logs[1:], 0.0)
            rises = self.logs[1:] + np.log(-np.expm1(np.minimum(drop, 0.0)))
        rises = np.where(np.isneginf(self.logs[:-1]), self.logs[1:], rises)
        terms = np.concatenate([rises + tails, [self.logs[0], self._log_excess(m, s)]])
        top = float(terms.max())
        if not np.isfinite(top):
            return top
        total = top + float(np.log(np.exp(np.maximum(terms - top, -745.0)).sum()))
        size = abs(total) + float(np.abs(self.logs[np.isfinite(self.logs)]).max())
        return total + _SLACK + 32.0 * ULP * size

    def _log_tails(self, m: float, s: float) -> FloatArray:
        """Return log of the mean of P(m + s Z > x) over x in each panel, from above."""
        edges = (self.knots - m) / s
        slack = 8.0 * ULP * (self.knots[1:] + abs(m)) / s
        # cut off last: otherwise slack far out would reach back to 0
        a, b = (np.clip(ends - slack, -1e140, 1e140) for ends in (edges[:-1], edges[1:]))
        middle = 0.5 * (a + b) - 4.0 * ULP * np.abs(b)
        log_a, log_b = log_ndtr(-a), log_ndtr(-b)
        # Q is convex right of 0 and concave left of it
        convex = np.logaddexp(log_a, log_b) - np.log(2.0)
        concave = log_ndtr(-middle)
        bent = np.where(a >= 0.0, convex, np.where(b <= 0.0, concave, log_a))
        width = b - a
        wide = (width > 1e-4) & (a < 30.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            low, high = _partial_means(a), _partial_means(b)
            error = 1e-13 * (np.abs(low) + np.abs(a) * ndtr(-a) + np.abs(b) * ndtr(-b) + ndtr(-a))
            straight = np.log((low - high + error) / width * (1.0 + _SLACK))
        return np.minimum(np.where(wide, np.fmin(bent, straight), bent), log_a)

    def _log_excess(self, m: float, s: float) -> float:
        """Return log of E[U - (last value)] past the last knot, from above."""
        if self.rate == 0.0:
            return float("-inf")
        last, rate = float(self.knots[-1]), self.rate
        mean = np.array([m, -m])
        steps = (last - mean) / s - rate * s
        steps -= 8.0 * ULP * ((last + m) / s + rate * s)
        with np.errstate(over="ignore"):
            bend = 0.5 * np.square(rate * s)
            both = rate * (mean - last) + bend + log_ndtr(-steps)
            size = rate * (last + m) + bend + np.square((last + m) / s)
        excess = float(np.logaddexp(*both)) + 64.0 * ULP * float(min(size, 1e300))
        return float(np.logaddexp(0.0, self.logs[-1])) + excess if np.isfinite(bend) else np.inf


def _partial_means(t: FloatArray) -> FloatArray:
    """Return E[(Z - t)_+]."""
    density = np.exp(-0.5 * np.square(np.minimum(np.abs(t), 40.0))) / np.sqrt(2.0 * np.pi)
    return np.asarray(density - t * ndtr(-t))


def hockey_majorant(unit: Noise, epsilon: float, delta: float) -> Majorant:
    """Return a majorant of the hockey stick of a shift at scale 1.

    At each knot it has the value at the next one: as from noise of a scale less by two panels.
    """

    def values(shifts: FloatArray) -> FloatArray:
        losses = unit.hockey_stick(shifts[:, None] * (1.0 + 2.0 * ROUNDING), epsilon)
        return np.minimum(losses * (1.0 + 2.0 * ROUNDING) + _TINY, 1.0)

    powers = 2.0 ** np.arange(-960.0, 400.0)
    ends = values(powers)
    # from a loss far below delta up to one of nearly 1
    low = powers[max(int(np.searchsorted(ends, 1e-9 * delta)) - 1, 0)]
    high = powers[min(int(np.searchsorted(ends, 1.0 - 1e-4)), len(powers) - 1)]
    knots = np.exp(np.arange(np.log(low), np.log(high) + _PANEL, _PANEL))
    heights = np.maximum.accumulate(np.append(values(knots), 1.0))
    return Majorant(np.append(0.0, knots), np.log(heights) + 4.0 * ULP, 0.0)


def power_majorant(unit: Noise, notion: Notion, order: float, power: float = 1.0) -> Majorant:
    """Return a majorant of F^power - 1 of a shift, F = e^(order D), at scale 1.

    The order is alpha - 1, and the power at least 1.
    """
    step = 1.0 / 64.0 / min(max(1.0, np.sqrt(order)), 4.0)
    knots = np.concatenate([[0.0], np.exp(np.arange(np.log(1e-8), np.log(1e10), step))])
    losses = power * order * move_losses(knots[:, None], unit, 1.0, notion) * (1.0 + 4.0 * ULP)
    with np.errstate(divide="ignore"):
        logs = np.where(losses > 0.0, losses + np.log(-np.expm1(-losses)), -np.inf)
    logs = np.maximum.accumulate(logs + 8.0 * ULP * (1.0 + np.abs(losses)))
    steepest = float(unit.steepest(0.0, np.inf))
    rate = power * order * steepest * (1.0 + 4.0 * ROUNDING)
    # now raise the values at knots so that the function lies below the chords
    slope, bend = float(unit.score(_FAR)), float(unit.curvature(_FAR, _FAR)[1])
    if order * slope**2 >= bend * (1.0 + 1e-6) or bend <= 0.0:
        return Majorant(knots, logs, rate)
    bend = power * order * max(float(unit.curvature(0.0, np.inf)[1]), 0.0) * (1.0 + 1e-9)
    widths = np.diff(knots)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.logaddexp(0.0, logs)  # of F itself
        raises = np.log(bend / 8.0) + 2.0 * np.log(widths) + values[1:]
        drop = np.where(np.isfinite(logs[:-1]), logs[:-1] - logs[1:], -np.inf)
        rises = logs[1:] + np.log(-np.expm1(np.minimum(drop, 0.0)))
    raises = np.minimum(raises, rises)
    around = np.maximum(np.append(raises, raises[-1]), np.append(raises[0], raises))
    raised = np.logaddexp(logs, around) + 8.0 * ULP * (1.0 + np.abs(values))
    return Majorant(knots, np.maximum.accumulate(raised), rate)
