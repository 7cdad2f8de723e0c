"""A mixture plus noise at eighty digits, and a numerical integral to check the oracle.

Gaussian * Laplace is a sum of two normal probabilities, each times an exponential: useless in
floats, and exact enough in eighty digits. Cauchy kinds are integrated numerically.
"""

import mpmath as mp

from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

DIGITS = 80


def density(prior, noise, y):
    """Return the density of X + N at y."""
    return _mixed(prior, lambda m, s: _part(m, s, noise)(mp.mpf(y)))


def mass(prior, noise, low, high):
    """Return P(low <= X + N <= high)."""
    low, high = mp.mpf(low), mp.mpf(high)
    if isinstance(noise, Cauchy | GeneralizedCauchy):
        return _mixed(prior, lambda m, s: _averaged(noise_mass(noise, low, high), m, s, noise, low))
    return _mixed(prior, lambda m, s: _between(m, s, noise, low, high))


def by_integration(prior, noise, y):
    """Return the density of X + N at y from its definition alone."""
    kernel = noise_density(noise)
    return _mixed(prior, lambda m, s: _averaged(lambda x: kernel(y - x), m, s, noise, mp.mpf(y)))


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
    if isinstance(noise, Laplace):
        return lambda y: sum(_sides((y - mean) / deviation, deviation / scale)) / (2 * scale)
    kernel = noise_density(noise)
    return lambda y: _averaged(lambda x: kernel(y - x), mean, deviation, noise, y)


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


def noise_density(noise):
    """Return the density of the noise as a function of mpmath numbers."""
    scale = mp.mpf(float(noise.scale))
    if isinstance(noise, Laplace):
        return lambda z: mp.exp(-abs(z) / scale) / (2 * scale)
    k = mp.mpf(noise.k) if isinstance(noise, GeneralizedCauchy) else mp.mpf(2)
    top = mp.gamma(k / 2) / mp.gamma((k - 1) / 2) / mp.sqrt(mp.pi) / scale
    return lambda z: top * (1 + (z / scale) ** 2) ** (-k / 2)


def noise_mass(noise, low, high):
    """Return P(low - x <= N <= high - x) as a function of x, for k = 2 and k = 4."""
    scale = mp.mpf(float(noise.scale))

    def upper(z):
        if mp.isinf(z):
            return mp.mpf(z < 0)
        angle = mp.atan2(scale, z) / mp.pi
        if isinstance(noise, Cauchy):
            return angle
        return angle - scale * z / (scale**2 + z**2) / mp.pi

    return lambda x: upper(low - x) - upper(high - x)


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
