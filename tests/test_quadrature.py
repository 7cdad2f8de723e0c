"""Renyi losses of one column by quadrature: their digits, and how many points they take."""

import numpy as np
import pytest
from scipy.special import logsumexp
from test_line_pairs import drawn, families, log_terms, pair_of

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
@pytest.mark.parametrize(("alpha", "seed"), [(1.5, 0), (3.0, 1), (20.0, 0)])
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
    assert sum(asked) <= (2500 if alpha < 10.0 else 12_000)


@families
@pytest.mark.parametrize(("atoms", "most"), [([0.0, 1.0, 1e3], 1500), ([0.0, 30.0, 1e5], 2000)])
def test_values_far_apart_take_hardly_more_points_and_lose_no_digits(family, atoms, most):
    noise = family(1.0)
    _, pair = pair_of(atoms, [[3, 4, 5], [5, 4, 3]], noise)
    asked, densities = [], pair.densities

    def counted(points, middles):
        asked.append(len(points))
        return densities(points, middles)

    pair.densities = counted
    low, high = renyi_by_quadrature(pair, 3.0)
    # of light tails hardly anything is left between values; heavy ones are smooth there
    assert sum(asked) <= most + 3000 * (noise.power is not None)
    assert (high - low <= 1e-10).all()
    masses = np.array([[3.0, 4.0, 5.0], [5.0, 4.0, 3.0]]) / 12.0
    if atoms[1] > 1.0:  # only the masses count
        exact = [np.log((p**3 / q**2).sum()) / 2.0 for p, q in (masses, masses[::-1])]
        assert (high <= np.array(exact) * (1.0 + 1e-9)).all()
        assert (low >= np.array(exact) * (0.9 if noise.power else 1.0 - 1e-4)).all()
