"""The proportions of the columns' noise."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser


def table(n_rows=200, seed=0):
    """Return a telling column, a column that says nothing, and one in other units."""
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "secret": np.array(["a", "b"])[secret],
            "telling": secret + rng.integers(0, 2, n_rows),
            "idle": rng.integers(0, 3, n_rows),
            "scaled": 1000 * rng.integers(0, 4, n_rows),
        }
    )


def fitted(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return PufferfishNoiser(0.5, sensitive="secret", **parameters).fit(X)


def error(noiser, X):
    """Return the mean expected error, each in standard deviations of its column."""
    return float((noiser.theta_ / X[list(noiser.theta_.index)].std(ddof=0)).mean())


@pytest.mark.parametrize("dependence", ["joint", "independent", [["telling", "idle"], ["scaled"]]])
@pytest.mark.parametrize("seed", [0, 1])
def test_optimal_proportions_cost_no_more_than_the_spreads_and_keep_the_guarantee(dependence, seed):
    X = table(seed=seed)
    plain = fitted(X, dependence=dependence)
    best = fitted(X, dependence=dependence, weights="optimal")
    assert error(best, X) <= error(plain, X) * (1.0 + 1e-6)
    assert best.certificate_.holds
    assert best.certificate_.loss > 0.49


def test_a_column_that_tells_more_gets_more_of_the_noise():
    X = table()
    best = fitted(X, weights="optimal", dependence="independent")
    relative = best.theta_ / X[["telling", "idle", "scaled"]].std(ddof=0)
    assert relative["telling"] > 2.0 * relative["idle"]
    assert error(best, X) < 0.9 * error(fitted(X, dependence="independent"), X)


@pytest.mark.parametrize("seed", range(3))
def test_a_column_that_needs_no_noise_among_missing_values_gets_some_that_can_be_drawn(seed):
    X = table(400, seed).drop(columns="scaled")
    X["idle"] = X["idle"].astype(float).where(np.arange(400) % 7 > 0)
    noiser = fitted(X, weights="optimal", missing="propagate")
    assert 1e-7 < noiser.theta_["idle"] < noiser.theta_["telling"]
    assert noiser.certificate_.holds


def test_optimal_proportions_are_found_again():
    X = table()
    first, again = (fitted(X, weights="optimal").theta_ for _ in range(2))
    pd.testing.assert_series_equal(first, again)
    shuffled = X.sample(frac=1.0, random_state=1)
    pd.testing.assert_series_equal(first, fitted(shuffled, weights="optimal").theta_)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"noise": "gaussian", "delta": 1e-3}, {"noise": "cauchy"}, {"alpha": 3.0}], ids=str
)
def test_optimal_proportions_serve_other_guarantees(options):
    X = table()[["secret", "telling", "idle"]]
    best = fitted(X, weights="optimal", strategy="wasserstein", **options)
    plain = fitted(X, strategy="wasserstein", **options)
    assert best.certificate_.holds
    assert error(best, X) <= error(plain, X) * (1.0 + 1e-6)


def test_a_mapping_sets_the_proportions_of_theta():
    weights = {"idle": 3.0, "telling": 1.0, "scaled": 500.0}
    theta = fitted(table(), weights=weights).theta_
    ratios = [theta[name] / weight for name, weight in weights.items()]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)


def test_weights_of_one_column_change_nothing():
    X = table()[["secret", "telling"]]
    plain = fitted(X).theta_
    pd.testing.assert_series_equal(fitted(X, weights="optimal").theta_, plain)
    np.testing.assert_allclose(fitted(X, weights={"telling": 7.0}).theta_, plain, rtol=1e-9)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"telling": 1.0, "idle": 1.0}, "weights lacks 'scaled'; give a positive number"),
        (dict.fromkeys(["telling", "idle", "scaled", "x"], 1.0), "weights names 'x', which is not"),
    ],
)
def test_a_mapping_names_every_public_column_and_no_other(weights, message):
    with pytest.raises(ValueError, match=message):
        fitted(table(), weights=weights)
