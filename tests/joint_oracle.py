"""The distribution of rows of a mixture plus noise on a torus, by its characteristic function.

What is released modulo a box, per cell of a grid, is a function of what is released: its losses are
at most the true ones. Sums over grid points stand in for masses of cells; the characteristic
functions of normal distributions fall so fast that they agree with them beyond ten digits.
"""

import numpy as np

from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.priors import GaussianMixture

POINTS = {2: 256, 3: 96}


def random_pair(rng, d, most=3):
    """Return two priors of rows, each of up to ``most`` components."""
    return random_prior(rng, d, most), random_prior(rng, d, most)


def random_prior(rng, d, most):
    size = int(rng.integers(1, most + 1))
    means = rng.normal(size=(size, d)) * rng.choice([0.2, 1.0])
    covariances = []
    for _ in range(size):
        root = rng.normal(size=(d, d)) * rng.uniform(0.3, 0.8)
        square = root @ root.T + rng.uniform(0.25, 0.6) * np.eye(d)
        covariances.append(0.5 * (square + square.T))
    return GaussianMixture(rng.dirichlet(3.0 * np.ones(size)), means, covariances)


def density(prior, noise, half, points, *, of_cells=False):
    """Return the density of the row plus noise modulo a box of 2 half, at points^d points.

    Or the means over the cells around these points, whose losses are at most the true ones also
    where a sum over points is not its integral, at the kink of a hockey stick.
    """
    d = prior.n_axes
    steps = np.fft.fftfreq(points, 2.0 * half / points) * 2.0 * np.pi
    grid = np.stack(np.meshgrid(*[steps] * d, indexing="ij"), axis=-1)
    flat = grid.reshape(-1, d)
    total = np.zeros(len(flat), dtype=complex)
    for weight, mean, covariance in zip(prior.weights, prior.rows, prior.covariances, strict=True):
        quadratic = np.einsum("ni,ij,nj->n", flat, covariance, flat)
        total += weight * np.exp(-1j * flat @ mean - 0.5 * quadratic)
    for axis, scale in enumerate(noise.axis_scales(d)):
        total *= _characteristic(noise, scale * flat[:, axis])
    if of_cells:
        total *= np.sinc(flat * (half / points) / np.pi).prod(axis=1)
    values = np.fft.ifftn(total.reshape((points,) * d)).real
    return np.maximum(values, 0.0)


def _characteristic(noise, t):
    if isinstance(noise, Laplace):
        return 1.0 / (1.0 + t * t)
    if isinstance(noise, Gaussian):
        return np.exp(-0.5 * t * t)
    size = np.abs(t)
    return np.exp(-size) * (1.0 if noise.power == 2.0 else 1.0 + size)  # powers 2 and 4


def corner_loss(p, q, noise):
    """Return the larger limit of the log ratio p/q in the corners, under Laplace noise."""
    d = p.n_axes
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T / noise.axis_scales(d)

    def logs(prior):
        powers = signs @ prior.rows.T + 0.5 * np.einsum(
            "hi,kij,hj->hk", signs, prior.covariances, signs
        )
        return np.logaddexp.reduce(powers + np.log(prior.weights), axis=1)

    return float((logs(p) - logs(q)).max())


def true_losses(p, q, noise, notion):
    """Return losses p -> q and q -> p that the true ones are not below, and seldom far above."""
    points = POINTS[p.n_axes]
    narrowest = min(float(np.linalg.eigvalsh(x.covariances).min()) for x in (p, q))
    half = 0.25 * points * float(np.sqrt(narrowest))  # two points a deviation: to nine digits
    cells = notion.is_chance
    one, other = (density(x, noise, half, points, of_cells=cells) for x in (p, q))
    if notion.is_pure:
        # where the transform has eight digits
        seen = (one > 1e-7 * one.max()) & (other > 1e-7 * other.max())
        ratio = np.log(one[seen] / other[seen])
        ends = [float(ratio.max()), float(-ratio.min())]
        if isinstance(noise, Laplace):
            corners = corner_loss(p, q, noise), corner_loss(q, p, noise)
            ends = [max(pair) for pair in zip(ends, corners, strict=True)]
        return np.array(ends)
    one, other = one / one.sum(), other / other.sum()
    both = ((one, other), (other, one))
    if notion.is_chance:
        return np.array([np.maximum(a - np.exp(notion.epsilon) * b, 0.0).sum() for a, b in both])
    alpha = notion.alpha
    # some cells only, as what is summed is positive: those where the transform has six digits
    seen = (one > 1e-9 * one.max()) & (other > 1e-9 * other.max())
    both = [(a[seen], b[seen]) for a, b in both]
    return np.array([np.log((a**alpha * b ** (1.0 - alpha)).sum()) for a, b in both]) / (alpha - 1)


def plane_sums(p, q, alpha, added=(0.0, 0.0)):
    """Return Renyi divergences of mixtures of two columns, with variances of noise, as sums.

    In logs, so that tails are seen; over a grid that is fine around each component.
    """
    sds = [np.sqrt(np.diagonal(x.covariances, axis1=1, axis2=2) + added) for x in (p, q)]
    sds, means = np.concatenate(sds), np.concatenate([p.rows, q.rows])
    steps = np.linspace(-16.0, 16.0, 161)
    axes = [np.unique(each) for each in (means + steps[:, None, None] * sds).reshape(-1, 2).T]
    widths = [np.gradient(axis) for axis in axes]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    cells = np.log(np.multiply.outer(*widths)).ravel()
    one, other = (_log_density(x, grid, added) for x in (p, q))
    both = (alpha * a - (alpha - 1.0) * b + cells for a, b in ((one, other), (other, one)))
    return np.array([np.logaddexp.reduce(each) for each in both]) / (alpha - 1.0)


def _log_density(prior, points, added):
    total = np.full(len(points), -np.inf)
    for weight, mean, covariance in zip(prior.weights, prior.rows, prior.covariances, strict=True):
        wide = covariance + np.diag(added)
        away = points - mean
        form = np.einsum("ni,ij,nj->n", away, np.linalg.inv(wide), away)
        log = np.log(weight) - 0.5 * form - 0.5 * np.log(np.linalg.det(2.0 * np.pi * wide))
        total = np.logaddexp(total, log)
    return total
