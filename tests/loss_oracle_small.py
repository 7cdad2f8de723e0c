"""Losses by brute force: what is left of them once the released value is only known to a cell.

Lumping values into cells is a post-processing, so these figures are never above the true losses,
and close to them where cells are small. Masses of cells come from scipy's distribution functions,
or from mpmath's in 50 digits. Nothing here is shared with the package.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import mpmath
import numpy as np
from scipy import stats

DIGITS = 50


def distribution_of(noise: Any, axis: int = 0) -> Any:
    """Return the noise of one column as a distribution of scipy."""
    scale = noise.scale[axis] if np.ndim(noise.scale) else noise.scale
    name = type(noise).__name__
    if name == "Laplace":
        return stats.laplace(scale=scale)
    if name == "Gaussian":
        return stats.norm(scale=scale)
    k = getattr(noise, "k", 2.0)
    return stats.t(k - 1.0, scale=scale / np.sqrt(k - 1.0))


def edges_of(atoms: np.ndarray, scale: float, n: int) -> np.ndarray:
    """Return edges of cells: fine near the atoms, ever wider outside, and infinite at the ends."""
    low, high = atoms.min(), atoms.max()
    inside = np.linspace(low - 6.0 * scale, high + 6.0 * scale, n)
    far = scale * np.geomspace(6.0, 1e6, n // 4)
    joined = np.concatenate([[-np.inf], low - far[::-1], inside, atoms, high + far, [np.inf]])
    return np.unique(joined)


def cell_masses(prior: Any, noise: Any, edges: list[np.ndarray]) -> np.ndarray:
    """Return the probability of each cell of a grid under prior * noise, flat."""
    rows = prior.atoms.reshape(len(prior.atoms), -1)
    distributions = [distribution_of(noise, axis) for axis in range(len(edges))]
    total = 0.0
    for row, count in zip(rows, prior.counts.tolist(), strict=True):
        if count:
            masses = [
                _masses(distribution, cuts - x)
                for distribution, x, cuts in zip(distributions, row, edges, strict=True)
            ]
            total = total + count / int(prior.total) * reduce(np.multiply.outer, masses).ravel()
    return total


def _masses(distribution: Any, cuts: np.ndarray) -> np.ndarray:
    left, right = cuts[:-1], cuts[1:]
    return np.where(
        left > 0.0,
        distribution.sf(left) - distribution.sf(right),
        distribution.cdf(right) - distribution.cdf(left),
    )


def coarsened(p: Any, q: Any, noise: Any, n: int = 1000) -> list[np.ndarray]:
    """Return the masses of the same cells under p * noise and under q * noise."""
    rows = np.concatenate([prior.atoms.reshape(len(prior.atoms), -1) for prior in (p, q)])
    scales = np.broadcast_to(noise.scale, rows.shape[1])
    edges = [edges_of(np.unique(x), s, n) for x, s in zip(rows.T, scales, strict=True)]
    return [cell_masses(prior, noise, edges) for prior in (p, q)]


def both_losses(masses: list[np.ndarray], notion: Any) -> tuple[float, float]:
    """Return the loss from the first distribution to the second, and back."""
    p, q = masses
    return divergence(p, q, notion), divergence(q, p, notion)


def divergence(p: np.ndarray, q: np.ndarray, notion: Any) -> float:
    """Return the loss between two vectors of masses, without the cells that floats cannot hold."""
    some = (p > 1e-290) & (q > 1e-290)
    ratio = np.log(p[some]) - np.log(q[some])
    alpha = getattr(notion, "alpha", None)
    if alpha is not None:
        terms = np.log(p[some]) + (alpha - 1.0) * ratio
        top = terms.max()
        return float(max((top + np.log(np.exp(terms - top).sum())) / (alpha - 1.0), 0.0))
    if notion.delta == 0.0:
        return float(max(ratio.max(), 0.0))
    gain = p[some] * -np.expm1(np.minimum(notion.epsilon - ratio, 0.0))
    return float(gain.sum())


def shift_loss(name: str, z: float, notion: Any, k: float = 2.0) -> mpmath.mpf:
    """Return the loss of a shift by ``z`` at scale 1 in 50 digits."""
    with mpmath.workdps(DIGITS):
        return _shift_loss(name, mpmath.mpf(z), notion, mpmath.mpf(k))


def _shift_loss(name: str, z: Any, notion: Any, k: Any) -> mpmath.mpf:
    alpha = getattr(notion, "alpha", None)
    if alpha is not None:
        return _renyi(name, z, mpmath.mpf(alpha), k)
    if notion.delta == 0.0:
        pure = {"laplace": z, "cauchy": k * mpmath.asinh(z / 2)}
        return pure.get(name, mpmath.inf if z else mpmath.mpf(0))
    return _hockey_stick(name, z, mpmath.mpf(notion.epsilon), k)


def _hockey_stick(name: str, z: Any, eps: Any, k: Any) -> mpmath.mpf:
    """Mass, less e^eps times the other mass, of where the odds exceed e^eps."""
    if name == "laplace":
        return -mpmath.expm1((eps - z) / 2) if z > eps else mpmath.mpf(0)
    if name == "gaussian":
        cut = eps / z - z / 2
        return mpmath.ncdf(-cut) - mpmath.exp(eps) * mpmath.ncdf(-cut - z)
    if k * mpmath.asinh(z / 2) <= eps:
        return mpmath.mpf(0)
    # ((1 + (y - z)^2) / (1 + y^2))^(k/2) > e^eps  <=>  (r - 1) y^2 + 2 z y + r - 1 - z^2 < 0
    r = mpmath.exp(2 * eps / k)
    root = mpmath.sqrt(z * z * r - (r - 1) ** 2)
    low, high = ((-z - root) / (r - 1), (-z + root) / (r - 1))
    return _t_mass(low, high, k) - mpmath.exp(eps) * _t_mass(low - z, high - z, k)


def _t_mass(low: Any, high: Any, k: Any) -> mpmath.mpf:
    def cdf(y: Any) -> mpmath.mpf:
        tail = mpmath.betainc((k - 1) / 2, 0.5, 0, 1 / (1 + y * y), regularized=True) / 2
        return tail if y < 0 else 1 - tail

    return cdf(high) - cdf(low)


def _renyi(name: str, z: Any, a: Any, k: Any) -> mpmath.mpf:
    if name == "gaussian":
        return a * z * z / 2
    if name == "laplace":
        inside = a * mpmath.exp(z * (a - 1)) + (a - 1) * mpmath.exp(-z * a)
        return mpmath.log(inside / (2 * a - 1)) / (a - 1)

    def integrand(y: Any) -> mpmath.mpf:
        return (1 + y * y) ** (-k * a / 2) * (1 + (y - z) ** 2) ** (k * (a - 1) / 2)

    norm = mpmath.sqrt(mpmath.pi) * mpmath.gamma((k - 1) / 2) / mpmath.gamma(k / 2)
    cuts = [-mpmath.inf, -10, -1, 0, 1, z, 10 * z + 10, mpmath.inf]
    total = mpmath.quad(integrand, sorted(set(map(mpmath.mpf, cuts))))
    return mpmath.log(total / norm) / (a - 1)
