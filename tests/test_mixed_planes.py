"""Renyi divergences of mixtures of two columns: bounds above a refined sum, and close to it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from joint_oracle import plane_sums, random_pair, true_losses

from sklearn_puffer import PufferfishNoiser, PufferfishWarning
from sklearn_puffer._losses import row_interval
from sklearn_puffer._losses.mixed_planes import _log_sinhc, plane_divergences
from sklearn_puffer.bounds import tightest
from sklearn_puffer.fits import MixtureFit
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import RenyiPufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair

NONE = np.zeros(2)


def mildly_apart(seed):
    """Return two mixtures of which each pair of components has a divergence."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 2)) * 0.5
    covariances = [root @ root.T + np.eye(2), root.T @ root + 0.9 * np.eye(2)]
    covariances = [0.5 * (each + each.T) for each in covariances]
    return tuple(
        GaussianMixture(rng.dirichlet([3.0, 3.0]), rng.normal(size=(2, 2)), covariances)
        for _ in "pq"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "alpha"), [(0, 1.3), (1, 2.0), (2, 1.3), (3, 2.0)])
def test_the_bound_is_above_a_refined_sum_and_close_to_it(seed, alpha):
    p, q = mildly_apart(seed)
    for added in (NONE, np.array([0.5, 2.0])):
        bounds = plane_divergences(p, q, RenyiPufferfish(1.0, alpha), added)
        truth = plane_sums(p, q, alpha, added)
        assert (bounds >= truth * (1.0 - 1e-9)).all()
        assert (bounds <= truth * 1.05 + 2e-2 / (alpha - 1.0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_bound_of_any_pair_is_below_a_refined_sum(seed):
    alpha = (1.2, 2.0, 6.0)[seed % 3]
    p, q = random_pair(np.random.default_rng(seed), 2)
    for added in (NONE, np.array([0.5, 2.0])):
        bounds = plane_divergences(p, q, RenyiPufferfish(1.0, alpha), added)
        assert (bounds >= plane_sums(p, q, alpha, added) * (1.0 - 1e-9)).all()


def with_a_spike(share, variance, shift):
    """Return rows that are all but equal in one column with some chance: most have no absences."""
    wide = [[1.6, 1.0], [1.0, 20.0]]
    means = [[0.0, 0.0], [shift, 6.0]]
    return GaussianMixture([share, 1.0 - share], means, [np.diag([1.4, variance]), wide])


@pytest.mark.parametrize("variance", [1e-1, 1e-3, 2e-5])
@pytest.mark.parametrize(("share", "shift"), [(0.5, 0.2), (0.2, 0.0)])
def test_narrow_components_are_integrated_as_closely_as_wide_ones(variance, share, shift):
    p, q = with_a_spike(0.4, variance, 0.0), with_a_spike(share, variance, shift)
    bounds = plane_divergences(p, q, RenyiPufferfish(1.0, 2.0), NONE)
    truth = plane_sums(p, q, 2.0)
    assert (bounds >= truth - 1e-4).all()  # what a sum may be off by
    assert (bounds <= truth + 0.02).all()


def test_a_spike_that_one_secret_alone_has_is_hidden_by_little_gaussian_noise():
    p, q = with_a_spike(0.4, 0.8, 0.0), with_a_spike(0.4, 2e-5, 0.0)
    notion = RenyiPufferfish(1.0, 2.0)
    bare = plane_divergences(p, q, notion, NONE)
    noisy = plane_divergences(p, q, notion, np.array([0.0025, 0.04]))
    assert bare[1] > 2.0
    assert (noisy < 1.0).all()
    assert (noisy >= plane_sums(p, q, 2.0, np.array([0.0025, 0.04])) * (1.0 - 1e-6)).all()


@pytest.mark.parametrize("alpha", [1.5, 4.0])
def test_single_components_have_the_closed_form_however_far_from_zero(alpha):
    notion = RenyiPufferfish(1.0, alpha)
    p = GaussianMixture([1.0], [[1e4, -3.0]], [[[2.0, 0.7], [0.7, 1.0]]])
    q = GaussianMixture([1.0], [[1e4 + 0.3, -3.2]], [[[2.2, 0.5], [0.5, 1.1]]])
    lower, upper = row_interval(p, q, None, notion)
    bounds = plane_divergences(p, q, notion, NONE)
    assert (bounds >= lower).all()
    assert (bounds <= upper * 1.05 + 1e-2).all()


def test_tails_that_two_components_do_not_have_and_matrices_near_singular_have_no_bound():
    wide = GaussianMixture([1.0], [[0.0, 0.0]], [3.0 * np.eye(2)])
    narrow = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    found = plane_divergences(wide, narrow, RenyiPufferfish(1.0, 2.0), NONE)
    assert np.isinf(found[0])
    assert np.isfinite(found[1])
    near = GaussianMixture([1.0], [[0.0, 0.0]], [[[1.0, 1.0 - 1e-9], [1.0 - 1e-9, 1.0]]])
    assert np.isinf(plane_divergences(near, narrow, RenyiPufferfish(1.0, 2.0), NONE)).all()
    far = np.full(2, 1e300)
    assert np.isinf(plane_divergences(wide, narrow, RenyiPufferfish(1.0, 2.0), far)).all()


def test_the_mean_of_an_exponential_over_an_interval_is_rounded_up():
    x = np.concatenate([[0.0], np.geomspace(1e-9, 300.0, 400)])
    with np.errstate(invalid="ignore"):
        exact = np.where(x > 0.01, x + np.log(-np.expm1(-2 * x) / (2 * x)), x * x / 6 - x**4 / 180)
    assert (_log_sinhc(x) >= np.nan_to_num(exact)).all()
    assert (_log_sinhc(x) <= np.nan_to_num(exact) + 1e-11 * (1.0 + x) + x**4).all()


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Laplace(1.0), Cauchy(1.0), Gaussian(1.0)])
def test_no_noise_loses_most_and_gaussian_noise_is_integrated(noise):
    p, q = mildly_apart(1)
    notion = RenyiPufferfish(1.0, 2.0)
    bound = tightest([PriorPair(p, q)], noise, notion)
    bare = bound.losses(0.0)[0]
    assert bare == pytest.approx(plane_sums(p, q, 2.0), rel=0.05, abs=2e-2)
    assert (bound.losses(0.01)[0] <= bare * (1.0 + 1e-9)).all()
    if noise.is_normal:
        truth = true_losses(p, q, noise.scaled(0.8), notion)
        assert bound.losses(0.8)[0] == pytest.approx(truth, rel=0.05, abs=2e-2)


def exams(n=400, seed=1):
    """Return two exams of two kinds of schools, hardly better under one secret."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    good = rng.random(n) < 0.5
    base = np.where(good[:, None], [12.0, 13.0], [8.0, 8.0]) + 0.4 * sex[:, None]
    x = base + rng.normal(size=(n, 2)) @ [[1.5, 0.8], [0.0, 1.2]]
    return pd.DataFrame(x, columns=["first", "second"]).assign(sex=sex)


@pytest.mark.parametrize(
    "noise", ["gaussian", *(pytest.param(n, marks=pytest.mark.slow) for n in ("laplace", "cauchy"))]
)
def test_no_noise_is_added_to_mixtures_that_lose_less_than_the_budget_without(noise):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        noiser = PufferfishNoiser(
            1.0, alpha=2.0, sensitive="sex", prior=MixtureFit(n_components=2), noise=noise
        ).fit(exams())
    p, q = _priors_of(noiser)
    assert plane_sums(p, q, 2.0).max() < 0.9
    assert (noiser.theta_ == 0.0).all()
    assert noiser.certificate_.holds


def _priors_of(noiser):
    (of_sex,) = noiser.priors_.values()
    return [prior for joint in of_sex.values() for prior in joint.values()]
