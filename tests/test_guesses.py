"""Searches start near their end: the guess of each bound beside the smallest factor it allows."""

import numpy as np
import pytest

from sklearn_puffer.calibration import STRATEGIES, smallest_factor
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

NOTIONS = [Pufferfish(0.5), Pufferfish(0.5, 1e-3), RenyiPufferfish(0.5, 2.0)]
# the least and the most that a guess is of what is found
DISCRETE = {
    "sensitivity": (0.999, 1.001),
    "wasserstein": (0.9, 1.001),
    "relaxed": (1.0 - 1e-9, 10.0),
    "approximate": (0.85, 10.0),
    "distribution_aware": (0.999, 10.0),
}
MIXTURES = {
    "wasserstein": (0.999, 1.001),
    "relaxed": (1.0 - 1e-9, 1.5),
    "approximate": (0.25, 2.5),
    "distribution_aware": (0.45, 6.0),
    "monge": (1.0 - 1e-12, 1.0 + 1e-12),
}


def columns(rng, n_axes):
    values = np.cumsum(rng.exponential(size=(6, n_axes)), axis=0)
    return PriorPair(*(Discrete.from_counts(values, rng.integers(1, 50, 6)) for _ in "pq"))


def mixtures(rng, stretched):
    weights, deviations = rng.integers(1, 9, 3), rng.uniform(0.5, 2.0, (2, 3))
    means = 5.0 * rng.normal(size=(2, 3))
    return PriorPair(
        *(
            GaussianMixture(weights / weights.sum(), means[k], deviations[k * stretched])
            for k in (0, 1)
        )
    )


KINDS = {
    "a column": (lambda rng: columns(rng, 1), DISCRETE),
    "rows": (lambda rng: columns(rng, 2), DISCRETE),
    "translations": (lambda rng: mixtures(rng, 0), MIXTURES),
    "mixtures": (lambda rng: mixtures(rng, 1), MIXTURES),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [Laplace(2.0), Gaussian(2.0), Cauchy(2.0)], ids=str)
@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_a_guess_is_near_the_smallest_factor(kind, noise, notion):
    make, ranges = KINDS[kind]
    pairs = [make(np.random.default_rng(seed)) for seed in (0, 1)]
    for strategy, (least, most) in ranges.items():
        bound = STRATEGIES[strategy](pairs, noise, notion)
        if np.isfinite(bound.losses(1e6)).all():
            found = smallest_factor([bound], notion.budget)
            assert least <= bound.guess / found <= most, strategy


@pytest.mark.parametrize("strategy", ["wasserstein", "relaxed", "distribution_aware"])
def test_a_bound_on_equal_priors_may_guess_anything_but_loses_nothing(strategy):
    for kind in ("a column", "translations"):
        p = KINDS[kind][0](np.random.default_rng(0)).p
        bound = STRATEGIES[strategy]([PriorPair(p, p)], Laplace(2.0), Pufferfish(0.5))
        assert 0.0 < bound.guess < np.inf
        for factor in (0.0, 1e-3, 1.0):
            assert bound.losses(factor).max() <= 1e-14
    moved = GaussianMixture([1.0], [3.0], [0.7])
    still = GaussianMixture([1.0], [1.0], [0.7])
    bound = STRATEGIES["relaxed"]([PriorPair(moved, still)], Laplace(2.0), Pufferfish(0.5))
    assert bound.losses(4.0)[0] == pytest.approx([0.25] * 2, rel=1e-14)
