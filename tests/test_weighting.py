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


def test_a_mapping_sets_the_proportions_of_theta():
    weights = {"idle": 3.0, "telling": 1.0, "scaled": 500.0}
    theta = fitted(table(), weights=weights).theta_
    ratios = [theta[name] / weight for name, weight in weights.items()]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)


def test_weights_of_one_column_change_nothing():
    X = table()[["secret", "telling"]]
    plain = fitted(X).theta_
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


@pytest.mark.parametrize(("weights", "error"), [("optimal", ValueError), (2.0, TypeError)])
def test_weights_are_spreads_or_a_mapping_and_a_refusal_shows_one(weights, error):
    with pytest.raises(error, match=r'^weights must be "spread", or a mapping .* weights=\{"age"'):
        fitted(table(), weights=weights)
