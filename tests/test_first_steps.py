"""What people stumble over in their first ten minutes: wrong arguments, and what they are told."""

import warnings
from operator import attrgetter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
    PufferfishSwap,
    plan,
)

N = 240
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "ill": RNG.choice(["no", "yes"], N),
        "ward": RNG.choice(["east", "west"], N),
        "age": RNG.integers(0, 4, N),
        "client": [f"c{k:03d}" for k in range(N)],
    }
)
ESTIMATORS = {
    "noise": PufferfishNoiser(3.0, sensitive="ill", public=["ward", "age"]),
    "typical rows": PufferfishMicroaggregator(
        3.0, sensitive="ill", public=["ward", "age"], n_prototypes=2
    ),
    "a swap": PufferfishSwap(3.0, sensitive="ill", ids="client"),
}
# a swap learns no types, and exchanges a column that is text from its first row to its last
TEXTS = [
    *((kind, "objects") for kind in ESTIMATORS),
    ("noise", "strings"),
    ("typical rows", "strings"),
]


def refused(call, kind=(TypeError, ValueError)):
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    return said


VALUES = {
    "Series": TABLE["ill"],
    "list": TABLE["ill"].tolist(),
    "ndarray": TABLE["ill"].to_numpy(),
    "a Series of few": pd.Series(["yes", "no"]),
}


@pytest.mark.parametrize("how", VALUES)
@pytest.mark.parametrize("kind", [*ESTIMATORS, "a plan"])
def test_values_in_the_place_of_a_name_are_refused_and_not_shown(kind, how):
    def call():
        if kind == "a plan":
            plan(TABLE, VALUES[how])
        clone(ESTIMATORS[kind]).set_params(sensitive=VALUES[how]).fit(TABLE)

    said = refused(call, TypeError)
    assert said.startswith("sensitive must name columns of X, which has 4, and is a ")
    assert "pass values as sensitive_features= to fit" in said
    assert "yes" not in said
    assert "'no'" not in said


def test_secrets_that_are_given_twice_are_not_shown():
    estimator = clone(ESTIMATORS["noise"]).set_params(sensitive=TABLE["ill"])
    said = refused(lambda: estimator.fit(TABLE, sensitive_features=TABLE["ill"]))
    assert said.startswith("sensitive=a Series and sensitive_features are both given")


@pytest.mark.parametrize("rows", [[1, 2, 3], np.arange(3)], ids=["list", "array"])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_values_in_one_dimension_are_refused_in_one_sentence(kind, rows):
    said = refused(lambda: ESTIMATORS[kind].fit(rows))
    assert said.startswith("X must be a table or a 2D array of shape (n_rows, n_features), got 3")


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', "{", "x.json"])
def test_what_is_no_saved_release_is_refused_with_what_it_has_to_be(text):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        PufferfishRelease.from_json(text)
    assert "take the JSON that to_json() of a fitted estimator wrote" in str(caught.value)
    assert "None" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.parametrize(("kind", "how"), TEXTS)
def test_text_among_numbers_is_refused_by_column_and_row_without_the_value(kind, how):
    fitted = clone(ESTIMATORS[kind]).fit(TABLE)
    ages = TABLE["age"].astype(object)
    ages[7] = "unknown"
    rows = TABLE.assign(age=ages if how == "objects" else ages.astype(str))
    said = refused(lambda: fitted.transform(rows), TypeError)
    assert said.startswith("column 'age' h")
    assert "row 7 (from 0)" in said
    assert "convert" in said
    assert "unknown" not in said


@pytest.mark.filterwarnings("default:these [0-9,]+ rows were released before")
@pytest.mark.parametrize("releases", [1, 2])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_noise_warns_once_of_more_releases_of_a_table_than_are_certified(make, releases):
    rows = make(TABLE.drop(columns="client").to_dict("list"))
    noiser = PufferfishNoiser(0.5, sensitive="ill", public="age", releases=releases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser.fit(rows)

    def warned(*args, **kwargs):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            noiser.transform(*args, **kwargs)
        return [each.filename for each in told if "rows were released before" in str(each.message)]

    assert [warned(rows) for _ in range(4)] == [[__file__] * (n == releases) for n in range(4)]
    assert warned(rows[10:]) == []  # other rows, as far as their digest tells
    assert [warned(rows[:5]) for _ in range(3)] == [[]] * 3  # too few to tell people apart
    keyed = {"row_id": list(range(N - 1)), "key": b"blake2b:" + bytes(16)}
    assert [warned(rows[1:], **keyed) for _ in range(4)] == [[]] * 4


@pytest.mark.parametrize("number", [0, -1, 2.5, "some", None])
def test_a_wrong_number_of_typical_rows_is_refused_with_the_word_for_the_best(number):
    estimator = clone(ESTIMATORS["typical rows"]).set_params(n_prototypes=number)
    said = refused(lambda: estimator.fit(TABLE))
    assert 'leave it at "auto"' in said


@pytest.mark.parametrize(
    "estimator",
    [*ESTIMATORS.values(), PufferfishSGDClassifier(), PufferfishSGDRegressor(), PufferfishSum()],
    ids=lambda each: type(each).__name__,
)
def test_a_certificate_before_fit_is_refused_as_not_fitted(estimator):
    assert not hasattr(clone(estimator), "certificate_")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        attrgetter("certificate_")(clone(estimator))
