"""A mixture plus noise at eighty digits, and a numerical integral to check the oracle.

Gaussian * Laplace is a sum of two normal probabilities, each times an exponential: useless in
floats, and exact enough in eighty digits.
"""

import mpmath as mp

from sklearn_puffer.noise import Gaussian, Laplace

DIGITS = 80


def density(prior, noise, y):
    """Return the density of X + N at y."""
    return _mixed(prior, lambda m, s: _part(m, s, noise)(mp.mpf(y)))


def mass(prior, noise, low, high):
    """Return P(low <= X + N <= high)."""
    low, high = mp.mpf(low), mp.mpf(high)
    return _mixed(prior, lambda m, s: _between(m, s, noise, low, high))


def by_integration(prior, noise, y):
    """Return the density of X + N at y, N of Laplace noise, from its definition alone."""
    theta = mp.mpf(float(noise.scale))

    def kernel(x):
        return mp.exp(-abs(y - x) / theta) / (2 * theta)

    return _mixed(prior, lambda m, s: _averaged(kernel, m, s, noise, mp.mpf(y)))


def _mixed(prior, of_part):
    parts = zip(prior.weights, prior.means, prior.scales, strict=True)
    return sum(mp.mpf(w) * of_part(mp.mpf(m), mp.mpf(s)) for w, m, s in parts)


def _normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _part(mean, deviation, noise):
    if noise is None:
        return lambda y: mp.npdf(y, mean, deviation)
    scale = mp.mpf(float(noise.scale))
    if isinstance(noise, Gaussian):
        return lambda y: mp.npdf(y, mean, mp.sqrt(deviation**2 + scale**2))
    return lambda y: sum(_sides((y - mean) / deviation, deviation / scale)) / (2 * scale)


def _sides(t, a):
    return [mp.exp(a * a / 2 + side * a * t) * _normal(-side * t - a) for side in (-1, 1)]


def _between(mean, deviation, noise, low, high):
    if low > mean:  # mirrored: on the right both are near 1, and cancel
        low, high = 2 * mean - high, 2 * mean - low
    return _below(mean, deviation, noise, high) - _below(mean, deviation, noise, low)


def _below(mean, deviation, noise, y):
    if mp.isinf(y):
        return mp.mpf(y > 0)
    if isinstance(noise, Laplace):
        t = (y - mean) / deviation
        right, left = _sides(t, deviation / mp.mpf(float(noise.scale)))
        return _normal(t) + (left - right) / 2
    scale = 0 if noise is None else mp.mpf(float(noise.scale))
    return _normal((y - mean) / mp.sqrt(deviation**2 + scale**2))


def _averaged(function, mean, deviation, noise, y):
    """Return the mean of a function over a Gaussian, cut where it or the noise is narrow."""
    scale = mp.mpf(float(noise.scale))
    cuts = {mean + k * deviation for k in (-8, -3, 0, 3, 8)}
    cuts |= {y + k * scale for k in (-5, -1, 0, 1, 5) if mp.isfinite(y)}
    inner = sorted(c for c in cuts if abs(c - mean) <= 8 * deviation)
    points = [mean - 16 * deviation, *inner, mean + 16 * deviation]

    def weighted(x):
        return mp.npdf(x, mean, deviation) * function(x)

    with mp.workdps(30):
        return mp.quad(weighted, points, method="gauss-legendre")  # smooth between the cuts
