"""Rows of Gaussian and mixture priors: bounds against quadrature, and what they are made of."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from joint_oracle import corner_loss, random_pair, random_prior, true_losses
from own_noise import Logistic
from scipy.integrate import quad
from scipy.special import voigt_profile

from sklearn_puffer import PufferfishNoiser, PufferfishWarning
from sklearn_puffer._strategies.row_bounds import (
    ComponentPairs,
    _beyond_the_common,
    _weighed,
    _with_gains,
    two_points,
)
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.bounds import Impossible, distribution_aware, tightest
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.fits import MixtureFit
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair

NOISES = [Laplace(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 4.0), Gaussian(1.0)]
NOTIONS = [
    Pufferfish(1.0),
    Pufferfish(1.0, 1e-2),
    Pufferfish(1e-3, 0.5),
    RenyiPufferfish(1.0, alpha=2.0),
    RenyiPufferfish(1.0, alpha=8.0),
]
PRODUCT = [
    (noise, notion)
    for noise in NOISES
    for notion in NOTIONS
    if not (notion.is_pure and noise.is_normal)
]


def one(mean, covariance):
    return GaussianMixture([1.0], [mean], [covariance])


def assert_none_unsound(noise, notion, seed, d, n_pairs):
    rng = np.random.default_rng(seed)
    for _ in range(n_pairs):
        p, q = random_pair(rng, d)
        factor = float(rng.choice([0.3, 0.7, 1.5, 3.0]))
        used = noise.with_scale(tuple(rng.uniform(0.5, 2.0, size=d)))
        bound = tightest([PriorPair(p, q)], used, notion).losses(factor)[0]
        true = true_losses(p, q, used.scaled(factor), notion)
        assert (bound >= true * (1.0 - 1e-5) - 1e-7).all(), (p, q, factor, bound, true)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "notion"), PRODUCT)
def test_no_bound_is_below_the_quadrature_in_two_columns(noise, notion):
    assert_none_unsound(noise, notion, 9, 2, 1)


KNOWN = [(noise, notion) for noise, notion in PRODUCT if not (noise.is_normal or notion.is_pure)]


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "notion"), KNOWN)
def test_the_average_over_moves_of_rows_is_a_bound_and_not_below_that_of_exact(noise, notion):
    rng = np.random.default_rng(6)
    pair = PriorPair(*random_pair(rng, 2))
    average = distribution_aware([pair], noise, notion).losses(0.7)[0]
    assert (average >= true_losses(*pair, noise.scaled(0.7), notion) * (1.0 - 1e-5) - 1e-7).all()
    assert (tightest([pair], noise, notion).losses(0.7)[0] <= average * (1.0 + 1e-12)).all()
    assert np.isfinite(average).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "notion", "d"), [(*case, 2 + k % 2) for k, case in enumerate(PRODUCT)]
)
def test_no_bound_is_below_the_quadrature_of_further_pairs(noise, notion, d):
    assert_none_unsound(noise, notion, 1, d, 2 if d == 2 else 1)


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_one_column_of_mixtures_under_cauchy_noise_has_a_bound_that_is_never_below_the_loss(notion):
    rng = np.random.default_rng(5)
    y = np.sinh(np.linspace(-16.0, 16.0, 20_001))
    cells = np.gradient(y)
    for _ in range(6):
        p, q = (
            GaussianMixture(rng.dirichlet(np.ones(k)), rng.normal(0, 2, k), rng.uniform(0.3, 2, k))
            for k in rng.integers(1, 4, 2)
        )
        scale = float(rng.choice([0.2, 1.0, 4.0]))
        bound = tightest([PriorPair(p, q)], Cauchy(1.0), notion).losses(scale)[0]
        h = [
            (x.weights * voigt_profile(y[:, None] - x.means, x.scales, scale)).sum(axis=1)
            for x in (p, q)
        ]
        for first, second, found in ((*h, bound[0]), (*h[::-1], bound[1])):
            ratio = np.log(first / second)
            if notion.is_pure:
                loss = ratio.max()
            elif notion.is_chance:
                loss = (np.maximum(first - np.exp(notion.epsilon) * second, 0.0) * cells).sum()
            else:
                order = notion.alpha - 1.0
                loss = np.log((first * np.exp(order * ratio) * cells).sum()) / order
            assert loss * (1.0 - 1e-4) - 1e-6 <= found < 1e3


def test_a_certificate_of_mixtures_under_cauchy_noise_is_by_a_theorem_and_says_so():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"s": ["u", "v"] * 100, "x": rng.normal(size=200)})
    table.loc[table["s"] == "u", "x"] *= 1.4
    noiser = PufferfishNoiser(sensitive="s", prior="gaussian", noise="cauchy")
    with pytest.warns(PufferfishWarning, match="use noise='laplace', which is exact for Gaussian"):
        certificate = noiser.fit(table).certificate_
    assert certificate.holds
    assert set(certificate.table["source"]) == {"theorem"}
    with pytest.raises(ValueError, match="use one column and noise='laplace', or a bound"):
        privacy_loss(one(0.0, 1.0), one(1.0, 1.0), Cauchy(1.0), Pufferfish(1.0))


def test_no_tighter_loss_is_missed_where_no_noise_is_added():
    p = GaussianMixture([1.0], [[0.0, 0.0]], [np.array([[1.0, 0.3], [0.3, 2.0]])])
    q = GaussianMixture([1.0], [[0.5, 0.2]], [np.array([[1.2, 0.1], [0.1, 1.5]])])
    assert calibrate([(p, q)], RenyiPufferfish(1.0, 2.0)).scale == 0.0
    with pytest.warns(PufferfishWarning, match="tightest joint bound takes more noise"):
        assert calibrate([(p, q)], RenyiPufferfish(0.2, 4.0)).scale > 0.0


def test_the_quadrature_finds_a_distribution_that_is_known():
    p, q = one([0.0, 0.0], np.eye(2)), one([0.7, 0.0], np.eye(2))
    notion = RenyiPufferfish(1.0, alpha=3.0)
    found = true_losses(p, q, Gaussian(1.0), notion)
    assert found == pytest.approx([0.5 * 3.0 * 0.49 / 2.0] * 2, rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_pure_loss_is_exact_where_each_column_is_wider(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    q = random_prior(rng, d, 1)
    root = rng.normal(size=(d, d))
    wider = q.covariances[0] + 0.3 * (root @ root.T)
    p = one(rng.normal(size=d), 0.5 * (wider + wider.T))
    noise = Laplace(tuple(rng.uniform(0.5, 2.0, size=d)))
    bound = tightest([PriorPair(p, q)], noise, Pufferfish(1.0)).losses(1.3)[0, 0]
    assert bound == pytest.approx(corner_loss(p, q, noise.scaled(1.3)), rel=1e-9)


def test_a_narrower_distribution_of_the_same_mean_loses_what_is_lost_at_the_mean():
    p, q = one([0.0, 0.0], np.diag([0.5, 1.0])), one([0.0, 0.0], np.diag([2.0, 1.0]))

    def at_zero(variance):
        return mp.exp(mp.mpf(variance) / 2) * mp.erfc(mp.sqrt(mp.mpf(variance) / 2)) / 2

    bound = tightest([PriorPair(p, q)], Laplace(1.0), Pufferfish(1.0)).losses(1.0)[0, 0]
    assert bound == pytest.approx(float(mp.log(at_zero(0.5) / at_zero(2.0))), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "notion"),
    # every noise and every notion, and every second combination of them
    [(n, o) for i, n in enumerate(NOISES[:3]) for j, o in enumerate(NOTIONS) if (i + j) % 2 == 0],
)
def test_bounds_of_rows_never_rise_with_the_noise(noise, notion):
    bound = tightest([PriorPair(*random_pair(np.random.default_rng(9), 2))], noise, notion)
    losses = np.array([bound.losses(f)[0] for f in np.geomspace(0.05, 50.0, 8)])
    assert (np.diff(losses, axis=0) <= 1e-6 * losses[:-1] + 1e-12).all()


@pytest.mark.parametrize("noise", NOISES)
def test_equal_rows_lose_nothing_and_a_copy_in_other_components_hardly_anything(noise):
    rng = np.random.default_rng(3)
    p = random_prior(rng, 3, 1)
    split = GaussianMixture([0.25, 0.75], p.rows[[0, 0]], p.covariances[[0, 0]])
    for notion in NOTIONS[1:] if noise.is_normal else NOTIONS:
        assert tightest([PriorPair(p, p)], noise, notion).losses(0.0).tolist() == [[0.0, 0.0]]
        assert tightest([PriorPair(p, split)], noise, notion).losses(1.0).max() < 1e-9


def test_any_weights_give_a_bound_and_the_program_is_never_above_the_bottleneck():
    rng = np.random.default_rng(11)
    for _ in range(20):
        p, q = random_pair(rng, 2, 4)
        losses = rng.gamma(1.0, size=(p.n_components, q.n_components))
        best = _with_gains(p, q, losses)
        assert best <= losses.max() + 1e-12
        # distributions that attain the losses on points of their own: no bound may be below theirs
        points = rng.dirichlet(np.ones(6), size=q.n_components)
        most = np.min([losses[:, j, None] + np.log(points[j]) for j in range(len(points))], axis=0)
        ratio = np.log((p.weights @ np.exp(most)) / (q.weights @ points)).max()
        w = rng.random(losses.shape)
        assert min(best, _weighed(p, q, losses, w)) >= ratio - 1e-12


def test_the_worst_likelihood_ratio_within_bounds_has_two_values():
    rng = np.random.default_rng(5)
    for _ in range(200):
        ahead, back = rng.gamma(1.0, size=2)
        ratio = np.exp(rng.uniform(-back, ahead, size=4))
        high, low = ratio > 1.0, ratio < 1.0
        if not (high.any() and low.any()):
            continue
        q = np.where(high, 1.0 / (ratio - 1.0) / high.sum(), 1.0 / (1.0 - ratio) / low.sum())
        q /= q.sum()
        assert q @ ratio == pytest.approx(1.0)
        ends = np.array([ahead]), np.array([back])
        delta = float(q @ np.maximum(ratio - np.exp(0.2), 0.0))
        assert two_points(*ends, Pufferfish(0.2, 0.1))[0] >= delta - 1e-12
        renyi = float(np.log(q @ ratio**3.0) / 2.0)
        assert two_points(*ends, RenyiPufferfish(1.0, 3.0))[0] >= renyi - 1e-12


@pytest.mark.parametrize("noise", [Laplace(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 4.0)])
@pytest.mark.parametrize("alpha", [1.5, 4.0])
def test_the_power_of_a_shift_is_within_the_hyperbolic_cosine(noise, alpha):
    steep = 1.0 if noise.is_exponential else 0.5 * noise.power
    for v in (0.01, 0.5, 2.0, 9.0):

        def integrand(x, v=v):
            logs = noise._log_density(np.abs(np.array([x - v, x])))
            return float(np.exp(alpha * logs[0] + (1.0 - alpha) * logs[1]))

        power = quad(integrand, -400.0, 400.0, points=[0.0, v], limit=500)[0]
        assert power <= np.cosh(steep * np.sqrt(alpha * (alpha - 1.0)) * v) + 1e-6


def test_the_move_between_two_distributions_is_the_best_coupling_and_one_at_all():
    rng = np.random.default_rng(2)
    p, q = random_prior(rng, 3, 1), random_prior(rng, 3, 1)
    parts = ComponentPairs(p, q, Laplace(1.0))
    roots = [np.linalg.cholesky(x.covariances[0]) for x in (p, q)]
    # over all couplings the mean square of X - X' is least for Bures' distance
    overlap = np.linalg.svd(roots[0].T @ roots[1], compute_uv=False).sum()
    bures = np.trace(p.covariances[0]) + np.trace(q.covariances[0]) - 2.0 * overlap
    found = float(np.square(parts.spreads[0, 0]).mean())  # the mean over signs is the trace
    assert found == pytest.approx(bures, rel=1e-6)
    assert found >= bures


@pytest.mark.parametrize("notion", NOTIONS)
def test_matrices_near_singular_and_many_columns_give_finite_bounds(notion):
    near = np.array([[1.0, 1.0 - 1e-14], [1.0 - 1e-14, 1.0]])
    pairs = [
        (one([0.0, 0.0], near), one([1.0, 0.0], np.eye(2))),
        (one(np.zeros(13), np.eye(13)), one(np.full(13, 0.01), 1.1 * np.eye(13))),
    ]
    for p, q in pairs:
        losses = tightest([PriorPair(p, q)], Laplace(1.0), notion).losses(1e4)
        assert not np.isnan(losses).any()
    assert np.isfinite(losses).all()


# ----------------------------------------------------------------------------------- the estimator


def table(seed=0, n=600, d=2):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * (1.0 + 0.3 * sex[:, None])
    x[rng.random(n) < 0.4] += 3.0
    frame = pd.DataFrame(x + 0.3 * sex[:, None], columns=[f"x{k}" for k in range(d)])
    return frame.assign(sex=sex)


def fitted(frame, epsilon, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        return PufferfishNoiser(epsilon, sensitive="sex", **settings).fit(frame)


def assert_released(prior, noise, asked):
    noiser = fitted(table(), 0.3, prior=prior, noise=noise, **asked)
    assert noiser.certificate_.holds
    assert noiser.transform(table()).shape == (600, 2)
    if noise != "gaussian" or prior != "gaussian":
        assert "by a theorem" in noiser.certificate_.details()


ASKED = [{}, {"delta": 1e-3}, {"alpha": 8.0}]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_rows_of_gaussian_priors_are_released_jointly_by_default(asked):
    assert_released("gaussian", "laplace", asked)


@pytest.mark.slow
def test_rows_of_mixtures_are_released_jointly_by_default():
    assert_released(MixtureFit(n_components=2), "laplace", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "noise", "asked"),
    # each noise and guarantee, under Gaussian priors and mixtures in turn
    [
        (["gaussian", MixtureFit(n_components=2)][(i + j) % 2], noise, asked)
        for i, noise in enumerate(["laplace", "cauchy", "gaussian"])
        for j, asked in enumerate(ASKED)
        if noise != "gaussian" or asked  # which has no bound
    ],
)
def test_rows_are_released_jointly_under_every_noise_and_notion(prior, noise, asked):
    assert_released(prior, noise, asked)


@pytest.mark.parametrize("prior", ["gaussian", "gmm"])
def test_gaussian_noise_without_a_delta_is_refused_with_the_reason(prior):
    noiser = PufferfishNoiser(1.0, sensitive="sex", prior=prior, noise="gaussian")
    with pytest.raises(
        ValueError, match=r"normal distributions grow without bound.*noise='laplace'"
    ):
        noiser.fit(table())


def test_a_fit_says_in_a_warning_that_its_bound_is_a_theorem():
    noiser = PufferfishNoiser(1.0, sensitive="sex", prior="gaussian")
    with pytest.warns(PufferfishWarning, match=r"best theorem, which may.*prior='empirical'"):
        noiser.fit(table(4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "asked"), [("laplace", {}), ("cauchy", {"delta": 1e-3}), ("laplace", {"alpha": 4.0})]
)
def test_four_columns_of_mixtures_are_fitted(noise, asked):
    assert fitted(table(1, d=4), 1.0, prior="gmm", noise=noise, **asked).certificate_.holds


@pytest.mark.slow
def test_averages_over_moves_release_rows_of_gaussian_priors_under_cauchy_noise():
    asked = {"prior": "gaussian", "noise": "cauchy", "alpha": 2.0}
    averaged = fitted(table(), 0.3, strategy="distribution_aware", **asked)
    assert averaged.certificate_.holds
    assert (fitted(table(), 0.3, **asked).theta_ <= averaged.theta_ * (1.0 + 1e-9)).all()


def test_named_strategies_without_a_bound_name_the_default():
    noiser = PufferfishNoiser(1.0, sensitive="sex", prior="gmm", strategy="wasserstein")
    with pytest.raises(ValueError, match=r"use noise='laplace' with strategy='exact'\.$"):
        noiser.fit(table())


def test_noise_of_another_family_and_a_pure_loss_under_gaussian_noise_have_no_bound():
    p, q = random_pair(np.random.default_rng(1), 2)
    assert isinstance(tightest([(p, q)], Logistic(1.0), Pufferfish(1.0)), Impossible)
    bound = tightest([(p, q)], Gaussian(1.0), Pufferfish(1.0))
    assert "Gaussian noise" in bound.reason
    assert "noise='laplace'" in bound.reason


def test_a_singular_covariance_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"^[^.]*scales[^\n]*\.$"):
        one([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])


def test_a_component_of_one_row_is_widened_to_the_floor_and_keeps_the_guarantee():
    frame = table(2, n=40)
    frame.loc[len(frame)] = [500.0, 500.0, 1]
    assert fitted(frame, 1.0, prior=MixtureFit(n_components=2)).certificate_.holds


def test_what_two_covariances_share_is_never_too_large_however_far_apart_their_units():
    """Held against 60 digits: A - C and B - C have no negative direction."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 4))
        units = 10.0 ** rng.uniform(-5.0, 5.0, size=(2, d))
        roots = rng.normal(size=(2, d, d))
        first, second = (
            u[:, None] * (r @ r.T + 0.1 * np.eye(d)) * u for u, r in zip(units, roots, strict=True)
        )
        first, second = (0.5 * (each + each.T) for each in (first, second))
        rests = _beyond_the_common(first[None], second[None], np.zeros((1, 1), dtype=bool))
        with mp.workdps(60):
            exact = _rests_in_60_digits(first, second)
        stated = rests[:, 0, 0]
        assert (stated >= np.array(exact, dtype=float) * (1.0 - 1e-12)).all(), seed


def _rests_in_60_digits(first, second):
    """Return the deviations of what is left of both, when the largest common part is taken."""
    a, b = mp.matrix(first.tolist()), mp.matrix(second.tolist())
    half = mp.cholesky(b)
    back = half**-1
    within = back * a * back.T
    values, turn = mp.eigsy((within + within.T) / 2)
    base = half * turn
    d = len(first)
    shared = [sum(base[i, k] ** 2 * min(max(values[k], 0), 1) for k in range(d)) for i in range(d)]
    return [[mp.sqrt(max(m[i, i] - shared[i], 0)) for i in range(d)] for m in (a, b)]
