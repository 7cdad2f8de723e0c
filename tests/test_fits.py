"""Fitting Gaussian and mixture priors from counted rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture as SklearnMixture

from sklearn_puffer._samples import MOST_ROWS
from sklearn_puffer.fits import GaussianFit, MixtureFit, bootstrap

RANDOM = np.random.default_rng(0)
TWO_HUMPS = np.concatenate([RANDOM.normal(0.0, 1.0, 700), RANDOM.normal(8.0, 0.5, 300)])[:, None]
ONES = np.ones(len(TWO_HUMPS))
SPREAD = [float(TWO_HUMPS.std())]
ROWS = RANDOM.multivariate_normal([1.0, -2.0], [[2.0, 0.8], [0.8, 1.0]], 600)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("weights", "means", "scales")
    )


# ----------------------------------------------------------------------------------------- Gaussian


def test_a_gaussian_has_the_mean_and_the_deviation_of_the_rows():
    prior = GaussianFit().fit(TWO_HUMPS, ONES, SPREAD)
    assert prior.means.tolist() == pytest.approx([TWO_HUMPS.mean()])
    assert prior.scales.tolist() == pytest.approx([TWO_HUMPS.std()])
    joint = GaussianFit().fit(ROWS, np.ones(600), ROWS.std(axis=0))
    np.testing.assert_allclose(joint.means[0], ROWS.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(joint.scales[0], np.cov(ROWS.T, bias=True), rtol=1e-12)


def test_a_column_far_from_zero_keeps_its_deviation():
    prior = GaussianFit().fit([[1e9], [1e9 + 1.0]], [1, 1], [1.0])
    assert prior.scales.tolist() == pytest.approx([0.5])


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=2, max_size=8))
@settings(max_examples=30)
def test_counts_stand_for_repeated_rows(items):
    values, counts = np.array([v for v, _ in items], float), np.array([c for _, c in items])
    if np.ptp(values) == 0.0:
        values[0] += 1.0
    counted = GaussianFit().fit(values[:, None], counts, [3.0])
    repeated = np.repeat(values, counts)[:, None]
    assert same(counted, GaussianFit().fit(repeated, np.ones(len(repeated)), [3.0]))


def test_a_common_covariance_is_the_mean_of_all_weighted_by_rows():
    groups = {"a": (TWO_HUMPS, ONES), "b": (TWO_HUMPS[:100] + 3.0, ONES[:100])}
    priors = GaussianFit(covariance="common").fit_all(groups, SPREAD)
    variance = (1000 * TWO_HUMPS.var() + 100 * TWO_HUMPS[:100].var()) / 1100
    for prior in priors.values():
        assert prior.scales.tolist() == pytest.approx([np.sqrt(variance)])
    assert np.array_equal(priors["a"].scales, priors["b"].scales)
    assert priors["b"].means[0] == pytest.approx(TWO_HUMPS[:100].mean() + 3.0)


def test_a_common_covariance_takes_in_a_secret_that_does_not_vary():
    groups = {"a": ([[0.0], [2.0]], [1, 1]), "b": ([[5.0]], [2])}
    priors = GaussianFit("common").fit_all(groups, [1.0])
    assert priors["b"].scales.tolist() == pytest.approx([np.sqrt(0.5)])
    with pytest.raises(ValueError, match="all values of each secret"):
        GaussianFit("common").fit_all({"a": ([[0.0]], [3]), "b": ([[5.0]], [2])}, [1.0])


def test_deviations_below_the_floor_are_raised_to_it():
    prior = GaussianFit(floor=0.1).fit([[1.0], [1.001]], [1, 1], [5.0])
    assert prior.scales.tolist() == pytest.approx([0.5])
    line = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])  # a degenerate joint distribution
    joint = GaussianFit(floor=0.1).fit(line, [1, 1, 1], [1.0, 10.0])
    in_units = joint.scales[0] / np.outer([1.0, 10.0], [1.0, 10.0])
    assert np.linalg.eigvalsh(in_units)[0] == pytest.approx(0.01)


# ----------------------------------------------------------------------------------------- mixtures


def test_a_mixture_recovers_well_separated_components_and_bic_finds_two():
    prior = MixtureFit().fit(TWO_HUMPS, ONES, SPREAD)
    assert prior.n_components == 2
    assert prior.weights.tolist() == pytest.approx([0.7, 0.3], abs=1e-3)
    assert prior.means.tolist() == pytest.approx([0.0, 8.0], abs=0.1)
    assert prior.scales.tolist() == pytest.approx([1.0, 0.5], abs=0.1)


def test_the_number_of_components_is_as_asked_but_for_distinct_values():
    assert MixtureFit(n_components=3).fit(TWO_HUMPS, ONES, SPREAD).n_components == 3
    few = MixtureFit(n_components=3).fit([[0.0], [1.0]], [30, 20], [0.5])
    assert few.n_components <= 2


@pytest.mark.parametrize("fit", [GaussianFit(), MixtureFit(n_components=2)], ids=["one", "two"])
def test_the_order_of_the_rows_is_irrelevant(fit):
    shuffled = np.random.default_rng(1).permutation(TWO_HUMPS)
    assert same(fit.fit(TWO_HUMPS, ONES, SPREAD), fit.fit(shuffled, ONES, SPREAD))
    doubled = fit.fit(np.vstack([TWO_HUMPS, TWO_HUMPS]), np.append(ONES, ONES), SPREAD)
    counted = fit.fit(TWO_HUMPS[::-1], 2 * ONES, SPREAD)
    assert same(doubled, counted)


def test_repeated_values_do_not_take_a_scale_below_the_floor():
    values = np.repeat([0.0, 1.0, 2.0, 7.0], 50)[:, None]
    spread = float(values.std())
    for floor in (1e-3, 0.1):
        prior = MixtureFit(n_components=4, floor=floor).fit(values, np.ones(200), [spread])
        assert prior.scales.min() >= floor * spread * (1.0 - 1e-12)
        assert prior.scales.min() == pytest.approx(floor * spread, rel=1e-3)


def test_the_unit_of_a_column_does_not_matter():
    prior = MixtureFit(n_components=2).fit(TWO_HUMPS, ONES, SPREAD)
    for unit in (2.0**-40, 2.0**40):
        other = MixtureFit(n_components=2).fit(TWO_HUMPS * unit, ONES, [SPREAD[0] * unit])
        np.testing.assert_allclose(other.means, prior.means * unit, rtol=1e-9, atol=1e-9 * unit)
        np.testing.assert_allclose(other.scales, prior.scales * unit, rtol=1e-9)


def test_many_rows_are_fitted_by_their_quantiles():
    counts = np.full(len(TWO_HUMPS), 1000)
    prior = MixtureFit(n_components=2).fit(TWO_HUMPS, counts, SPREAD)
    every = MixtureFit(n_components=2).fit(TWO_HUMPS, ONES, SPREAD)
    assert 1000 * len(TWO_HUMPS) > MOST_ROWS
    np.testing.assert_allclose(prior.means, every.means, atol=0.01)
    np.testing.assert_allclose(prior.scales, every.scales, rtol=0.01)


def test_bic_counts_all_rows_and_not_the_quantiles():
    humps = np.concatenate([RANDOM.normal(0.0, 1.0, 4000), RANDOM.normal(1.6, 1.0, 4000)])[:, None]
    spread = [float(humps.std())]
    few = MixtureFit(max_components=2).fit(humps[::80], np.ones(100), spread)
    many = MixtureFit(max_components=2).fit(humps, np.full(8000, 10_000), spread)
    assert (few.n_components, many.n_components) == (1, 2)


@pytest.mark.slow
def test_joint_mixtures_have_covariances_and_common_ones_are_equal():
    rows = np.vstack([ROWS, ROWS + np.array([12.0, 0.0])])
    prior = MixtureFit(max_components=3).fit(rows, np.ones(1200), rows.std(axis=0))
    assert prior.n_components == 2
    np.testing.assert_allclose(prior.scales[0], np.cov(ROWS.T), rtol=0.1)
    groups = {"a": (rows, np.ones(1200)), "b": (rows[:900] * 1.5, np.ones(900))}
    common = MixtureFit(n_components=2, covariance="common").fit_all(groups, rows.std(axis=0))
    matrices = [matrix for prior in common.values() for matrix in prior.scales]
    assert all(np.array_equal(matrix, matrices[0]) for matrix in matrices)


def test_common_scales_of_one_column_are_equal_to_the_last_digit():
    groups = {"a": (TWO_HUMPS, ONES), "b": (TWO_HUMPS * 1.3, ONES)}
    priors = MixtureFit(n_components=2, covariance="common").fit_all(groups, SPREAD)
    assert len({float(scale) for prior in priors.values() for scale in prior.scales}) == 1


def test_em_that_does_not_converge_warns_with_the_remedy():
    overlapping = TWO_HUMPS[:700]
    with pytest.warns(UserWarning, match="raise max_iter or tol") as caught:
        MixtureFit(n_components=3, max_iter=1, tol=1e-9).fit(overlapping, ONES[:700], SPREAD, "a")
    assert "given secret 'a'" in str(caught[0].message)


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("fit", [GaussianFit(), MixtureFit()], ids=["one", "many"])
def test_a_secret_whose_values_do_not_vary_is_named(fit):
    with pytest.raises(ValueError, match=r"all values given secret 'sick' are equal: 3\.0"):
        fit.fit([[3.0], [3.0]], [2, 5], [1.0], "sick")
    with pytest.raises(ValueError, match="in column 1 are equal"):
        fit.fit([[3.0, 1.0], [4.0, 1.0]], [2, 5], [1.0, 1.0], "sick")


@pytest.mark.parametrize(
    ("rows", "counts", "spread", "words"),
    [
        ([1.0, 2.0], [1, 1], [1.0], "shape"),
        ([[1.0], [2.0]], [1], [1.0], "shape"),
        ([[1.0], [np.nan]], [1, 1], [1.0], "finite"),
        ([[1.0], [2.0]], [1, 0.5], [1.0], "whole numbers"),
        ([[1.0], [2.0]], [0, 0], [1.0], "whole numbers"),
        ([[1.0], [2.0]], [1, 1], [0.0], "spread"),
        ([[1.0], [2.0]], [1, 1], [1.0, 1.0], "spread"),
    ],
)
def test_bad_rows_are_refused_with_their_remedy(rows, counts, spread, words):
    with pytest.raises(ValueError, match=words):
        GaussianFit().fit(rows, counts, spread)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_components": 0},
        {"max_components": 1.5},
        {"floor": 0.0},
        {"tol": -1.0},
        {"random_state": None},
        {"covariance": "tied"},
    ],
)
def test_bad_settings_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        MixtureFit(**wrong)


# ---------------------------------------------------------------------------------------- estimates


@pytest.mark.slow
def test_posterior_draws_have_the_moments_of_the_posterior():
    n = 40
    rows = np.linspace(-1.0, 1.0, n)[:, None]
    draws = bootstrap(GaussianFit(), rows, np.ones(n), n_draws=4000, seed=3)
    means = np.array([draw.means[0] for draw in draws])
    precisions = np.array([draw.scales[0] ** -2 for draw in draws])
    scatter = float((rows**2).sum())
    assert means.mean() == pytest.approx(0.0, abs=4.0 * rows.std() / np.sqrt(n * 4000))
    # scatter / sigma^2 is chi-square with n - 1 degrees; mu is Student with n - 1 degrees
    assert (precisions * scatter).mean() == pytest.approx(n - 1, rel=0.02)
    assert (precisions * scatter).var() == pytest.approx(2 * (n - 1), rel=0.1)
    assert means.var() == pytest.approx(scatter / n / (n - 3), rel=0.1)


@pytest.mark.slow
def test_joint_posterior_draws_have_the_mean_of_their_wishart_distribution():
    n = 30
    rows = ROWS[:n]
    draws = bootstrap(GaussianFit(), rows, np.ones(n), n_draws=3000, seed=1)
    precision = np.mean([np.linalg.inv(draw.scales[0]) for draw in draws], axis=0)
    scatter = np.cov(rows.T, bias=True) * n
    np.testing.assert_allclose(precision, (n - 1) * np.linalg.inv(scatter), rtol=0.04)


def test_draws_depend_on_the_seed_and_not_on_the_order():
    rows = TWO_HUMPS[:50]
    one = bootstrap(GaussianFit(), rows, np.ones(50), n_draws=3, seed=1)
    again = bootstrap(GaussianFit(), rows[::-1], np.ones(50), n_draws=3, seed=1)
    other = bootstrap(GaussianFit(), rows, np.ones(50), n_draws=3, seed=2)
    assert all(same(a, b) for a, b in zip(one, again, strict=True))
    assert not any(same(a, b) for a, b in zip(one, other, strict=True))
    assert not same(one[0], one[1])


@pytest.mark.slow
def test_mixtures_are_drawn_again_with_as_many_components():
    draws = bootstrap(MixtureFit(), TWO_HUMPS, ONES, n_draws=40, seed=0)
    assert {draw.n_components for draw in draws} == {2}
    means = np.array([draw.means for draw in draws])
    expected = [1.0 / np.sqrt(700), 0.5 / np.sqrt(300)]
    assert means.std(axis=0).tolist() == pytest.approx(expected, rel=0.4)


def test_a_posterior_needs_more_rows_than_columns():
    with pytest.raises(ValueError, match="more than the 2 columns"):
        bootstrap(GaussianFit(), [[0.0, 1.0], [1.0, 3.0]], [1, 1], n_draws=1)


@pytest.mark.parametrize("unit", [1e80, 1e160, 1e200, 1e300])
@pytest.mark.parametrize("fit", [GaussianFit(), GaussianFit("common"), MixtureFit(n_components=1)])
def test_values_whose_powers_are_no_floats_are_refused_by_their_size(fit, unit):
    groups = {name: ([[0.0], [unit]], [1, 2]) for name in "ab"}
    with pytest.raises(
        ValueError, match=r"rows must lie within 1e\+75 of 0, .*use another unit\.$"
    ):
        fit.fit_all(groups, [unit])
    with pytest.raises(ValueError, match=r"spread must lie between 1e-75 and 1e\+75"):
        fit.fit_all({name: ([[0.0], [1.0]], [1, 2]) for name in "ab"}, [1.0 / unit])


@pytest.mark.parametrize("unit", [1e-74, 1e-30, 1e30, 1e74])
def test_values_of_any_other_size_are_fitted_in_their_unit(unit):
    prior = GaussianFit().fit([[0.0], [unit]], [1, 1], [unit / 2])
    assert (prior.means[0], prior.scales[0]) == pytest.approx((unit / 2, unit / 2))


# far from 0 in units of the spread, and narrow there, E[x^2] - E[x]^2 is mere rounding
@pytest.mark.parametrize(("values", "spread"), [(5, 1.0), (1, 3e-5)])
def test_a_mixture_of_one_column_is_that_of_full_covariances(values, spread):
    rows = np.concatenate([np.arange(40) % values, 9.3 + np.arange(60) % values])[:, None]
    found = MixtureFit(n_components=2).fit(rows, np.ones(100), [spread])
    scaled = (np.sort(rows, axis=0) - rows.mean()) / spread
    full = SklearnMixture(2, tol=1e-4, reg_covar=1e-6, max_iter=500, n_init=3, random_state=0).fit(
        scaled
    )
    order = np.argsort(full.means_[:, 0])
    np.testing.assert_allclose(found.weights, full.weights_[order], rtol=1e-9)
    np.testing.assert_allclose(
        found.scales, np.sqrt(full.covariances_[order, 0, 0]) * spread, rtol=1e-9
    )
