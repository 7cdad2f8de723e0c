"""The form of a release without priors: what it holds, what it releases, and what it refuses."""

from __future__ import annotations

import pickle
import pickletools
import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser

SETTINGS = {
    "laplace": {},
    "remapped": {"output": "remapped"},
    "sets": {"adversaries": "confidence"},
    "groups": {"dependence": [["age", "pay"], ["job", "vip"]]},
    "channel": {"noise": "optimal"},
    "given": {"prior": "gaussian", "public": ["pay"], "n_bins": None, "noise": "laplace"},
}


def table_of(n_rows=120):
    """Return a table with a column of every kind, deterministic and full of ties."""
    row = np.arange(n_rows)
    ill = (row % 3 == 0) | (row % 7 == 0)
    return pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "age": 20 + (row * 7 % 5) + 2 * ill,
            "pay": (row * 11 % 9) / 4.0 + ill,
            "job": np.array(["cook", "clerk", "smith"])[(row + ill) % 3],
            "vip": (row % 4 == 0) ^ ill,
        }
    )


def noiser_of(**settings):
    """Return a noiser fitted to that table."""
    settings = {"epsilon": 1.0, "sensitive": "ill", "n_bins": {"pay": 3}} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PufferfishNoiser(**settings).fit(table_of())


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_pickle_of_a_noiser_holds_no_object_of_pandas(setting):
    saved = pickle.dumps(noiser_of(**SETTINGS[setting]))
    named = [str(argument) for _, argument, _ in pickletools.genops(saved)]
    assert "sklearn_puffer._noiser.estimator" in named  # the scan sees names of modules
    assert not any("pandas" in each for each in named)


def test_scales_and_utility_are_those_of_the_fit_after_saving_too():
    noiser = noiser_of(n_bins={"pay": 3})
    again = pickle.loads(pickle.dumps(noiser))
    pd.testing.assert_series_equal(again.theta_, noiser.theta_)
    pd.testing.assert_frame_equal(again.utility_, noiser.utility_)
    assert list(noiser.theta_.index) == ["age", "pay", "job", "vip"]
    assert not hasattr(PufferfishNoiser(), "theta_")
    assert not hasattr(noiser_of(noise="optimal"), "theta_")
