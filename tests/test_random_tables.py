"""Random tables and parameters: a certificate that holds, or one of the package's own errors."""

import copy
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, event, given, reject, settings
from hypothesis import strategies as st

from sklearn_puffer import PufferfishNoiser, UtilityWarning

OWN_WARNINGS = ".*(?:{})".format(
    "|".join(
        [
            "need no noise under this prior and are released",
            "falls into .* instead of n_bins=",
            "an empirical prior is too fine for it",
            "the priors are little more than single rows",
            "cells jointly, beyond exact losses",
            "moved values that were not seen in fit",
            "is for tests only",
            "do not look like the .* of fit",
        ]
    )
)
# Every message of an error has a subject that the caller wrote and, after it, what to do.
SUBJECTS = (
    r"column|sensitive|public|unknown|secret_pairs|epsilon|categories|n_bins|dependence|missing=|"
    r"X has|"
    r"no row of fit|no public column|nothing is sensitive|sample_weight|scale|Found array|"
    r"The feature names|atoms"
)

FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, -3.25, 1e6]),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)
WHOLE = st.one_of(st.integers(-3, 3), st.integers(-128, 127), st.integers(-(2**53), 2**53))
TEXT = st.one_of(st.sampled_from("abc"), st.text(max_size=2))


def _typed(values, dtype):
    return st.lists(values, min_size=1, max_size=5).map(lambda found: (found, dtype))


USUAL = [
    _typed(st.integers(0, 5), "int64"),
    _typed(st.integers(-128, 127), "int8"),
    _typed(st.integers(0, 255), "uint8"),
    _typed(WHOLE, "int64"),
    _typed(WHOLE, "Int64"),
    _typed(FLOATS, "float64"),
    _typed(st.sampled_from([0.0, 0.5, 1.5, 1e30]), "float32"),
    _typed(st.booleans(), "bool"),
    _typed(TEXT, "str"),
    _typed(TEXT, "category"),
]
GAPPY = [
    _typed(st.one_of(st.integers(0, 200), st.none()), "UInt8"),
    _typed(st.one_of(st.sampled_from([0.0, 0.25, 7.0]), st.none()), "Float64"),
    _typed(st.one_of(st.booleans(), st.none()), "boolean"),
    _typed(st.one_of(TEXT, st.none()), "object"),
    _typed(st.one_of(TEXT, st.none()), "category"),
]
ODD = [
    _typed(st.one_of(TEXT, st.integers(0, 3), st.floats(), st.booleans(), st.none()), "object"),
    _typed(st.one_of(st.datetimes(), st.complex_numbers(), st.binary(max_size=1)), "object"),
    _typed(st.floats(allow_nan=True, allow_infinity=True), "float64"),
    _typed(st.integers(-(2**80), 2**80), "object"),
]
ALPHABETS = st.one_of(st.one_of(USUAL), st.one_of(USUAL), st.one_of(USUAL + GAPPY + ODD))


@st.composite
def tables(draw):
    """A pandas frame whose columns repeat a few values, of many types."""
    n_rows = draw(st.sampled_from([40, 60, 200, 30, 12] * 4 + [5, 3, 2, 1, 0]))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    secret = draw(st.sampled_from([["a", "b"], ["a", "b", "c"], [0, 1], [True, False], [1.5, 2.5]]))
    columns = {"s": pd.Series(rng.permutation(np.resize(np.array(secret), n_rows)))}
    for name in "xyz"[: draw(st.integers(1, 3))]:
        values, dtype = draw(ALPHABETS)
        chosen = pd.Series(
            [values[k] for k in rng.integers(0, len(values), n_rows)], dtype="object"
        )
        columns[name] = chosen if dtype == "object" else chosen.astype(dtype)
    return pd.DataFrame(columns)


OPTIONS = {
    "epsilon": st.one_of(st.floats(1e-3, 10.0), st.sampled_from([1e-7, 50.0, 0.0, float("nan")])),
    "sensitive": st.sampled_from(["s", 0, ["s", "x"], "absent"]),
    "public": st.sampled_from(["x", "x", ["x", "y"], "s"]),
    "strategy": st.sampled_from(["exact", "relaxed", "wasserstein", "sensitivity"]),
    "dependence": st.sampled_from(["joint", "independent", [["x"], ["y"]], [["x", "y"], ["z"]]]),
    "n_bins": st.sampled_from([2, 3, 5, 8, {"x": 2}, 1]),
    "categories": st.sampled_from([{"x": ["a", "b", "c"]}, {"x": [0, 1, 2, 3, 4, 5]}]),
    "missing": st.sampled_from(["error", "category", "propagate"]),
    "unknown": st.sampled_from(["error", "nearest", {"x": "other"}, {"x": "nearest"}]),
    "output": st.sampled_from(["native", "noisy"]),
    "remainder": st.sampled_from(["drop", "passthrough"]),
    "random_state": st.sampled_from([None, None, 3]),
}


@st.composite
def options(draw):
    """A few parameters away from their defaults, so that most combinations are possible ones."""
    names = draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4, unique=True))
    return {"sensitive": "s", "dependence": draw(st.sampled_from(["joint", "independent"]))} | {
        name: draw(OPTIONS[name]) for name in names
    }


def as_polars(frame):
    try:
        return pl.DataFrame([pl.Series(c, frame[c].to_list(), strict=False) for c in frame])
    except (TypeError, pl.exceptions.PolarsError):
        reject()  # values that polars puts into no column


KINDS = {"pandas": lambda frame: frame, "polars": as_polars, "array": pd.DataFrame.to_numpy}


def run(frame, kind, params):
    """Fit and transform; the error of the package, or None where both succeeded."""
    X = KINDS[kind](frame)
    before = copy.deepcopy(X)
    noiser = PufferfishNoiser(**(by_position(params) if kind == "array" else params))
    error = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", OWN_WARNINGS, UserWarning)
        warnings.simplefilter("ignore", UtilityWarning)
        try:
            check(noiser.fit(X), noiser.transform(X), X, len(frame))
        except (TypeError, ValueError) as caught:
            error = caught
    assert content(X) == content(before)
    return error


def by_position(value):
    """Replace the columns' names in parameters by their positions."""
    if isinstance(value, dict):
        return {by_position(k): by_position(v) for k, v in value.items()}
    if isinstance(value, list):
        return [by_position(item) for item in value]
    return "sxyz".index(value) if isinstance(value, str) and value in list("sxyz") else value


def content(X):
    """Everything that a table holds, in a form in which NaN equals NaN."""
    if isinstance(X, pl.DataFrame):
        return repr((X.schema, X.to_dict(as_series=False)))
    return repr(
        (X.dtypes.tolist(), X.to_dict("list")) if isinstance(X, pd.DataFrame) else X.tolist()
    )


def check(noiser, released, X, n_rows):
    """Hold the release against its certificate and the certificate against the budget."""
    certificate = noiser.certificate_
    assert certificate.holds
    assert certificate.loss <= noiser.epsilon
    table = certificate.table
    assert (table["lower"] <= table["upper"]).all()
    assert (table["upper"] <= certificate.loss).all()
    assert np.isfinite(noiser.theta_).all()
    assert (noiser.theta_ >= 0.0).all()
    assert type(released) is type(X)
    assert released.shape == (n_rows, len(noiser.get_feature_names_out()))
    assert certificate.to_json()


def explain(error):
    """Assert that an error is one of the package's own, not a stray one from below."""
    message = str(error)
    assert re.search(SUBJECTS, message), message
    assert type(error) in (TypeError, ValueError)
    first = message.split("Feature names")[0].split("columns of the table:\n")[0]
    assert "\n" not in first.strip()[:60]


PROFILE = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate, Phase.shrink],
}


def attempt(frame, kind, params):
    error = run(frame, kind, params)
    event("released" if error is None else type(error).__name__)
    if error is not None:
        explain(error)


@settings(max_examples=10, **PROFILE)
@given(tables(), st.sampled_from(sorted(KINDS)), options())
def test_a_random_table_is_released_with_a_certificate_or_refused(frame, kind, params):
    attempt(frame, kind, params)


@pytest.mark.slow
@settings(max_examples=250, **PROFILE)
@given(tables(), st.sampled_from(sorted(KINDS)), options())
def test_many_random_tables_are_released_with_a_certificate_or_refused(frame, kind, params):
    attempt(frame, kind, params)


@pytest.mark.slow
@settings(max_examples=30, **PROFILE)
@given(tables(), tables(), st.sampled_from(["pandas", "polars"]), options())
def test_a_table_unlike_that_of_fit_is_released_or_refused(frame, other, kind, params):
    noiser = PufferfishNoiser(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", OWN_WARNINGS, UserWarning)
        warnings.simplefilter("ignore", UtilityWarning)
        try:
            noiser.fit(KINDS[kind](frame))
            released = noiser.transform(KINDS[kind](other))
        except (TypeError, ValueError) as error:
            explain(error)
        else:
            assert released.shape == (len(other), len(noiser.get_feature_names_out()))
