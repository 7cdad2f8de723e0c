r"""The loss of a shift that is itself Gaussian: proven upper bounds of its mean.

Two Gaussians of one column are coupled by :math:`X - X' = m + s Z` with Z standard normal. The
bounds of 003 and 004 then need the mean of a function L of the shift,

.. math:: E[L(|m + s Z| / \theta)], \qquad
          L = \text{hockey stick at } \varepsilon, \quad\text{or}\quad
          L = e^{(\alpha - 1) D_\alpha},

or the tail of the shift alone. Laplace noise has closed forms, and Gaussian noise has one for L of
the second kind.
"""

# Rounding. Arguments of the normal distribution are moved outwards by more than they are off; its
# tails are good to 1e-13, and `_SLACK` covers them and the sums. A shift's loss is rounded up as in
# `noise`.

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import ULP
from sklearn_puffer._strategies.coupling_bounds import move_losses, noise_at
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean

_SLACK = 1e-12
_TINY = 1e-300
_LEAST_SPREAD = 1e-30  # relative to m; less is a point in every digit
_NARROWEST = 1e-150  # in units of the noise


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


def has_mean(noise: Noise, notion: Notion) -> bool:
    """Return whether the mean loss of Gaussian shifts is known here.

    >>> from sklearn_puffer.noise import Gaussian
    >>> from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
    >>> [has_mean(Gaussian(), notion) for notion in (Pufferfish(1, 0.1), RenyiPufferfish(1, 2))]
    [False, True]
    """
    powers = isinstance(notion.divergence, PowerMean)
    return noise.is_exponential or (powers and noise.is_normal)


def mean_losses(
    m: FloatArray, s: FloatArray, noise: Noise, factor: float, notion: Notion
) -> FloatArray:
    """Return upper bounds of the mean loss of shifts m + s Z in one column, arrays of shape (n,).

    Under ``noise.scaled(factor)``, of which it `has_mean` unless all s are 0; factor 0 means no
    noise at all. The notion is not pure; under a power mean the "mean" is that of
    e^((alpha - 1) D), given as its logarithm.
    """
    m, s = np.abs(m), np.abs(s)
    means = move_losses(m[:, None], noise, factor, notion)
    divergence = notion.divergence
    if isinstance(divergence, PowerMean):
        with np.errstate(over="ignore"):  # infinity is an upper bound
            means = divergence.order * means * (1.0 + 4.0 * ULP)
    spread = s > 0.0
    if spread.any():
        level = noise_at(noise, factor, 1)
        lost = divergence.worst
        means[spread] = lost if level is None else _spread(m[spread], s[spread], level, notion)
    return means


def _spread(m: FloatArray, s: FloatArray, noise: Noise, notion: Notion) -> FloatArray:
    theta = float(noise.axis_scales(1)[0])
    with np.errstate(over="ignore"):
        m, s = m / theta, s / theta
    s = np.maximum(s, np.maximum(_LEAST_SPREAD * m, _NARROWEST))  # a wider spread is safe
    divergence = notion.divergence
    if isinstance(divergence, PowerMean):
        powers = laplace_powers if noise.is_exponential else gaussian_powers
        return powers(divergence.alpha, m, s)
    assert isinstance(divergence, HockeyStick)
    return laplace_delta(divergence.epsilon, m, s)


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
