"""Classifiers learn beside columns that are empty, nearly empty or constant, in every fold."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_puffer import PufferfishNoiser, audit, plan
from sklearn_puffer._fits import learnable

pytestmark = [
    pytest.mark.usefixtures("quick_attackers"),
    pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning"),
    pytest.mark.filterwarnings("ignore:.*look.* like the"),
]

N = 600
TWO = np.full(N, np.nan)
TWO[[5, 9]] = 1.0, 2.0
COLUMNS = {
    "all NaN": np.full(N, np.nan),
    "all NA": pd.array([None] * N, dtype="Int64"),
    "all missing text": pd.array([None] * N, dtype="string"),
    "two values": TWO,
    "two whole numbers": pd.array([1, 2] + [None] * (N - 2), dtype="Int64"),
    "a constant": np.full(N, 3.0),
    "a constant with gaps": np.where(np.arange(N) % 2, 3.0, np.nan),
    "a constant word": ["same"] * N,
}
EMPTY = ("all NaN", "all NA", "all missing text")


def table(kind):
    rng = np.random.default_rng(0)
    secret = rng.permutation(np.repeat(["a", "b"], N // 2))
    return pd.DataFrame(
        {
            "secret": secret,
            "x": rng.normal(size=N).round(1) + (secret == "a"),
            "label": rng.integers(0, 2, N),
            "column": COLUMNS[kind],
        }
    )


@pytest.mark.slow
def test_plans_take_them():
    rows = table("all NaN").drop(columns="column").assign(**COLUMNS)
    found = plan(rows, "secret", epsilon=3.0, task="label", n_prototypes=4, n_bins=3)
    assert found.estimator(0).certificate_.holds


@pytest.mark.slow
@pytest.mark.parametrize("kind", [x for x in COLUMNS if x not in EMPTY])
def test_classifiers_are_priors_of_tables_that_have_them(kind):
    rows = table(kind).drop(columns="x")
    prior = HistGradientBoostingClassifier(max_iter=5)
    noiser = PufferfishNoiser(3.0, sensitive="secret", missing="propagate", prior=prior)
    assert noiser.fit(rows).certificate_.holds


@pytest.mark.parametrize("kind", EMPTY)
def test_noise_refuses_an_empty_column_by_name(kind):
    rows = table(kind)
    noiser = PufferfishNoiser(sensitive="secret", public="column", missing="propagate")
    with pytest.raises(ValueError, match="column 'column' has no value that is not missing; drop"):
        noiser.fit(rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COLUMNS)
def test_audits_and_their_tasks_take_them(kind):
    rows = pd.concat([table(kind)] * 2, ignore_index=True)
    noiser = PufferfishNoiser(1.0, sensitive="secret", public="label").fit(rows)
    found = audit(noiser, rows, task="label")
    # the target is the one released column
    score = found.utility.set_index("what").loc["AUC on true rows"]
    assert score[["before", "after"]].isna().all()
    assert "nan" not in str(found)


def test_only_columns_of_numbers_without_any_value_are_filled():
    rows = pd.DataFrame(
        {
            "empty": [np.nan, np.nan],
            "half": [1.0, np.nan],
            "words": pd.Categorical([None, None], ["a"]),
        }
    )
    filled = learnable(rows)
    assert filled["empty"].tolist() == [0.0, 0.0]
    assert filled[["half", "words"]].equals(rows[["half", "words"]])
    assert rows["empty"].isna().all()
    assert learnable(rows[["half"]]) is not None
    numbered = pd.DataFrame({0: [np.nan, np.nan], 1: [1.0, 2.0]})
    assert learnable(numbered)[0].tolist() == [0.0, 0.0]
