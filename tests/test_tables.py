"""The whole estimator on whole public tables: Table 4 of 000, and a table with missing values."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.datasets import table4_contingencies

TABLE_4 = json.loads((Path(__file__).parent / "golden_000.json").read_text())["table4"]
BUDGETS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
COLUMNS = {
    "l1": "sensitivity",
    "W1": "wasserstein",
    "relaxed_col_eq11": Relaxed("eq11"),
    "relaxed_row_eq12": Relaxed("eq12"),
    "relaxed_min": "relaxed",
    "exact": "exact",
}
# the certificate keeps 1e-11 of the budget for rounding and for the sampler; exact scales move most
TOLERANCE = 1e-9

pytestmark = [
    pytest.mark.tables,
    pytest.mark.filterwarnings("ignore:.*need no noise under this prior:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*instead of n_bins=:UserWarning"),
]


def census(table):
    adult = table("adult", keep_default_na=False)
    known = adult["workclass"] != "?"
    return adult[known | (np.arange(len(adult)) < 32_561)]


SETTINGS = {
    "student": (
        lambda table: table("student-por"),
        {
            "sensitive": "higher",
            "public": "romantic",
            "secret_pairs": [("yes", "no")],
            "categories": {"romantic": ["no", "yes"]},
        },
    ),
    "bank": (
        lambda table: table("bank-full"),
        {
            "sensitive": "loan",
            "public": "marital",
            "secret_pairs": [("yes", "no")],
            "categories": {"marital": ["married", "single", "divorced"]},
        },
    ),
    "census": (
        census,
        {
            "sensitive": "marital-status",
            "public": "workclass",
            "secret_pairs": [("Never-married", "Married-civ-spouse")],
            "categories": {"workclass": table4_contingencies()["Census Income"].values},
        },
    ),
}


def cases():
    """Yield every column of every table; the fast run takes each column and each table twice."""
    for (k, name), (j, column) in product(enumerate(SETTINGS), enumerate(COLUMNS)):
        marks = [pytest.mark.slow] * ((k + j) % len(SETTINGS) != 0)
        yield pytest.param(name, column, marks=marks)


@pytest.mark.parametrize(("name", "column"), list(cases()))
def test_table_4_comes_out_of_the_whole_tables(table, name, column):
    read, settings = SETTINGS[name]
    X = read(table)
    for epsilon, expected in zip(BUDGETS, TABLE_4[name][column], strict=True):
        noiser = PufferfishNoiser(epsilon, strategy=COLUMNS[column], **settings).fit(X)
        assert noiser.theta_.iloc[0] == pytest.approx(expected, rel=TOLERANCE, abs=1e-12)
        assert noiser.certificate_.holds


def test_a_release_of_census_rows_is_a_table_of_the_same_categories(table):
    X = census(table)
    noiser = PufferfishNoiser(0.5, **SETTINGS["census"][1])
    released = noiser.fit_transform(X)
    assert released.index.equals(X.index)
    assert set(released["workclass"]) <= set(SETTINGS["census"][1]["categories"]["workclass"])
    assert noiser.transform(X.drop(columns="marital-status")).shape == released.shape


def test_several_sensitive_columns_of_adult_are_all_protected(table):
    X = table("adult", keep_default_na=False)
    public = ["education-num", "hours-per-week"]
    options = {"public": public, "n_bins": 4, "dependence": "joint"}
    both = PufferfishNoiser(1.0, sensitive=["race", "sex"], **options).fit(X)
    apart = [PufferfishNoiser(1.0, sensitive=s, **options).fit(X) for s in ("race", "sex")]
    pd.testing.assert_series_equal(
        both.theta_, max((noiser.theta_ for noiser in apart), key=lambda theta: theta.iloc[0])
    )
    assert set(both.certificate_.table["sensitive"]) == {"race", "sex"}


def test_missing_values_of_a_heart_table_stay_missing(table):
    X = table("heart-hungarian")
    noiser = PufferfishNoiser(
        1.0, sensitive="sex", public=["trestbps", "chol"], n_bins=3, missing="propagate"
    )
    released = noiser.fit_transform(X)
    for name in ("trestbps", "chol"):
        np.testing.assert_array_equal(released[name].isna(), X[name].isna())
    assert any("missing" in sentence for sentence in noiser.certificate_.assumptions)
