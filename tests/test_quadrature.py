"""Renyi losses of one column by quadrature: their digits, and how many points they take."""

import numpy as np
import pytest
from scipy.special import logsumexp
from test_line_pairs import drawn, families, log_terms

from sklearn_puffer._losses.quadrature import renyi_by_quadrature


def renyi(p, q, noise, alpha):
    """Return the Renyi divergence by sums over many panels, graded away from the values."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    s, atoms = noise.scale, np.unique(np.concatenate([x.atoms.ravel() for x in (p, q)]))
    steps = s * np.concatenate([np.arange(0.0, 12.0, 0.5), np.geomspace(12.0, 1e12, 120)])
    ends = np.unique(np.concatenate([atoms[:, None] - steps, atoms[:, None] + steps], axis=None))
    half = np.diff(ends)[:, None] / 2.0
    y = ends[:-1, None] + half * (1.0 + nodes)
    logs = [np.logaddexp.reduce(log_terms(prior, noise, y), axis=0) for prior in (p, q)]
    terms = alpha * logs[0] - (alpha - 1.0) * logs[1] + np.log(half * weights)
    return logsumexp(terms) / (alpha - 1.0)


@families
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("alpha", [1.5, 3.0, 20.0])
def test_renyi_losses_have_ten_digits_and_take_few_points(family, seed, alpha):
    priors, pair, noise, *_ = drawn(family, seed, zeros=False)
    asked, densities = [], pair.densities

    def counted(points, middles):
        asked.append(len(points))
        return densities(points, middles)

    pair.densities = counted
    low, high = renyi_by_quadrature(pair, alpha)
    for k, way in enumerate((priors, priors[::-1])):
        exact = renyi(*way, noise, alpha)
        assert low[k] <= exact * (1.0 + 1e-9)
        assert exact * (1.0 - 1e-9) <= high[k]
        assert high[k] - low[k] <= 1e-11 * (1.0 + high[k]) / min(alpha - 1.0, 1.0)
    points = sum(asked)
    assert points <= (2500 if alpha < 10.0 else 12_000)
    asked.clear()
    for budget in (0.3 * high.max(), 3.0 * high.max()):
        near = renyi_by_quadrature(pair, alpha, budget)
        assert (near[0] <= high).all()
        assert (low <= near[1]).all()
        assert (near[1].max() <= budget) == (high.max() <= budget)
    assert sum(asked) < 2 * points
    asked.clear()
    exactly = renyi_by_quadrature(pair, alpha, high.max() * (1.0 + 1e-12))
    assert np.array_equal(exactly, (low, high))
    assert sum(asked) > points
