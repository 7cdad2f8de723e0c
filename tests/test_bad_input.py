"""Bad input: one error that names argument or column, value and way out, before any work."""

import copy
import itertools
import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._noiser import adversaries as knowing
from sklearn_puffer._noiser import fit as fitting
from sklearn_puffer._noiser import scales as planning
from sklearn_puffer.accounting import is_computable
from sklearn_puffer.bounds import Relaxed, tightest
from sklearn_puffer.calibration import STRATEGIES
from sklearn_puffer.fits import GaussianFit, MixtureFit, bootstrap
from sklearn_puffer.noise import GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture, PriorPair
from sklearn_puffer.users import lemma_2_psi

N_ROWS = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "secret": RNG.permutation(np.resize(["no", "yes"], N_ROWS)),
        "x": RNG.integers(0, 4, N_ROWS),
        "y": RNG.integers(0, 4, N_ROWS) / 2,
        "s": RNG.permutation(np.resize(list("abc"), N_ROWS)),
    }
)
ARRAY = np.column_stack([FRAME["secret"] == "yes", FRAME["x"], FRAME["y"]]).astype(float)
HALVES = Discrete([0, 1], [0.5, 0.5])


def noiser(**options):
    return PufferfishNoiser(**{"sensitive": "secret", "epsilon": 0.01} | options)


@pytest.fixture
def no_work(monkeypatch):
    """Fail where priors are counted or noise is calibrated: errors come before."""

    def work(*args, **kwargs):
        raise AssertionError("work was done before the input was refused")

    monkeypatch.setattr(fitting, "find_scales", work)
    monkeypatch.setattr(knowing, "counted_adversary", work)


def refuses(kind, message, X=FRAME, *, fit=None, **options):
    """Assert that `fit` raises that error, for that reason, and changes neither side."""
    estimator = noiser(**options)
    before = copy.deepcopy(X)
    with pytest.raises(kind, match=message):
        estimator.fit(X, **(fit or {}))
    assert not hasattr(estimator, "certificate_")
    assert not hasattr(estimator, "n_features_in_")
    if isinstance(X, pd.DataFrame | pl.DataFrame):
        assert X.equals(before)


# --------------------------------------------------------------------------------------- parameters

SET = ConfidenceSet()

PARAMETERS = [
    (ValueError, r"epsilon must be positive and finite, got 0; choose a budget", {"epsilon": 0}),
    (ValueError, r"epsilon must be positive and finite, got -1.5", {"epsilon": -1.5}),
    (ValueError, r"epsilon must be positive and finite, got nan", {"epsilon": float("nan")}),
    (ValueError, r"epsilon must be positive and finite, got inf", {"epsilon": float("inf")}),
    (ValueError, r"epsilon must be at least 1e-08, got 1e-12", {"epsilon": 1e-12}),
    (TypeError, r"epsilon must be a positive number, got '1'", {"epsilon": "1"}),
    (ValueError, r"releases must be at least 1, got 0", {"releases": 0}),
    (TypeError, r"releases must be an integer of at least 1, got 2.5", {"releases": 2.5}),
    (TypeError, r"epsilon must be a positive number, got None", {"epsilon": None}),
    (TypeError, r"epsilon must be a positive number, got True", {"epsilon": True}),
    (ValueError, r"strategy must be one of \['sensitivity', .*got 'best'", {"strategy": "best"}),
    (TypeError, r"strategy must be one of .* or a strategy object, got 3", {"strategy": 3}),
    (TypeError, r"or a strategy object, got <class .*Relaxed", {"strategy": Relaxed}),
    (ValueError, r"noise must be one of \['laplace', .*got 'gauss'", {"noise": "gauss"}),
    (TypeError, r"or a noise object, got <class .*Laplace", {"noise": Laplace}),
    (ValueError, r"missing must be one of .*got 'drop'", {"missing": "drop"}),
    (ValueError, r"unknown must be one of .*got None", {"unknown": None}),
    (ValueError, r"output must be one of .*got 'raw'", {"output": "raw"}),
    (ValueError, r"remainder must be one of .*got 'keep'", {"remainder": "keep"}),
    (ValueError, r"on_uncertified must be one of .*got 0", {"on_uncertified": 0}),
    (ValueError, r"delta must lie in \[0, 1\), got 1.0; choose 0 for a pure", {"delta": 1.0}),
    (ValueError, r"delta must lie in \[0, 1\), got -0.1", {"delta": -0.1}),
    (ValueError, r"delta must lie in \[0, 1\), got nan", {"delta": float("nan")}),
    (ValueError, r"delta must be 0 or at least 1e-300, got 1e-310", {"delta": 1e-310}),
    (TypeError, r"delta must be a number in \[0, 1\), got '0'", {"delta": "0"}),
    (ValueError, r"alpha must be finite and above 1, got 1", {"alpha": 1}),
    (ValueError, r"alpha must be finite and above 1, got inf", {"alpha": float("inf")}),
    (TypeError, r"alpha must be a number above 1, got '2'", {"alpha": "2"}),
    (ValueError, r"prior must be one of \['empirical', .*got 'guess'", {"prior": "guess"}),
    (TypeError, r"prior must be one of .* or a mapping .*got 3", {"prior": 3}),
    (TypeError, r"adversaries must be None, .* or a list .*got 'all'", {"adversaries": "all"}),
    (ValueError, r"adversaries may hold one ConfidenceSet", {"adversaries": [SET, SET]}),
    (TypeError, r"weights must be \"spread\", .*got 3", {"weights": 3}),
    (ValueError, r"weights must be \"spread\", .*got 'equal'", {"weights": "equal"}),
    (ValueError, r"weights\['x'\] must be positive and finite, got 0", {"weights": {"x": 0}}),
    (TypeError, r"adversaries\[0\] must map every secret .*got 3", {"adversaries": [3]}),
    (TypeError, r"adversaries\[0\] must map every secret", {"adversaries": [np.ones(2)]}),
    (TypeError, r"random_state must be None or an integer, got Generator", {"random_state": RNG}),
    (TypeError, r"a generator would store its state", {"random_state": np.random.RandomState(0)}),
    (ValueError, r"random_state must be at least 0, got -1", {"random_state": -1}),
    (TypeError, r"n_jobs must be None or an integer, got 'all'", {"n_jobs": "all"}),
    (ValueError, r"n_jobs must not be 0; give a number", {"n_jobs": 0}),
    (ValueError, r"n_bins must be at least 2, got 1", {"n_bins": 1}),
    (TypeError, r"n_bins must be an integer of at least 2, got 2.5", {"n_bins": 2.5}),
    (ValueError, r"n_bins names column 'z', which is not public; .*'x'", {"n_bins": {"z": 3}}),
    (ValueError, r"n_bins names column 's', which is not numeric", {"n_bins": {"s": 3}}),
    (TypeError, r"categories must map columns to lists .*got \['a'\]", {"categories": ["a"]}),
    (ValueError, r"categories names column 'z', which is not public", {"categories": {"z": [1]}}),
    (TypeError, r"categories\['s'\] must be a list .*got 'abc'", {"categories": {"s": "abc"}}),
    (TypeError, r"categories\['s'\] must be a list .*got 3", {"categories": {"s": 3}}),
    (ValueError, r"categories\['s'\] must list distinct", {"categories": {"s": ["a", "a"]}}),
    (
        ValueError,
        r"'s' contains 'b', which categories\['s'\] does not list; add it",
        {"categories": {"s": ["a", "c"]}},
    ),
    (ValueError, r"dependence must be \"joint\", .*got 'both'", {"dependence": "both"}),
    (TypeError, r"dependence must be \"joint\", .*got 3", {"dependence": 3}),
    (ValueError, r"every public column in exactly one group; look at 'y'", {"dependence": [["x"]]}),
    (ValueError, r"in exactly one group; look at 'y'", {"dependence": [["x", "y"], ["y", "s"]]}),
    (
        ValueError,
        r"in exactly one group; look at 'secret'",
        {"dependence": [["secret", "x"], ["y", "s"]]},
    ),
]


@pytest.mark.parametrize(("kind", "message", "options"), PARAMETERS)
def test_a_bad_parameter_is_named_with_its_value(kind, message, options, no_work):
    refuses(kind, message, **options)


# ------------------------------------------------------------------------------ columns and secrets

COLUMNS = [
    (
        ValueError,
        r"sensitive names column 'race', which X does not have; its columns are 'secret'",
        {"sensitive": "race"},
    ),
    (ValueError, r"sensitive names position 9, and X has 4 column\(s\) only", {"sensitive": 9}),
    (ValueError, r"sensitive names column 'secret' twice", {"sensitive": ["secret", 0]}),
    (ValueError, r"sensitive is empty; name at least one", {"sensitive": []}),
    (TypeError, r"sensitive must hold column names .*got 1.5", {"sensitive": 1.5}),
    (TypeError, r"sensitive must hold column names .*got True", {"sensitive": True}),
    (ValueError, r"public names column 'z', which X does not have", {"public": ["x", "z"]}),
    (ValueError, r"public names column 'x' twice", {"public": ["x", "x"]}),
    (ValueError, r"public is empty", {"public": []}),
    (
        ValueError,
        r"column 'secret' is both sensitive and public; .*remove it",
        {"public": ["x", "secret"]},
    ),
    (ValueError, r"no public column is left", {"sensitive": ["secret", "x", "y", "s"]}),
    (ValueError, r"nothing is sensitive: name columns", {"sensitive": None}),
    (ValueError, r"secret_pairs must be \"all\", .*got 'some'", {"secret_pairs": "some"}),
    (TypeError, r"secret_pairs must be a list of pairs .*got 3", {"secret_pairs": 3}),
    (ValueError, r"secret_pairs must hold pairs .*got 'no'", {"secret_pairs": ["no"]}),
    (
        ValueError,
        r"secret_pairs must hold pairs .*got \('a', 'b', 'c'\)",
        {"secret_pairs": [tuple("abc")]},
    ),
    (
        ValueError,
        r"secret_pairs names 'maybe', which column 'secret' does not have; .* 'no', 'yes'",
        {"secret_pairs": [("no", "maybe")]},
    ),
    (ValueError, r"secret_pairs names 1, which column", {"secret_pairs": [("no", 1)]}),
    (ValueError, r"\('no', 'no'\), the same value twice", {"secret_pairs": [("no", "no")]}),
    (ValueError, r"secret_pairs is empty for column 'secret'; name a pair", {"secret_pairs": []}),
    (
        ValueError,
        r"secret_pairs names column 'x', which is not sensitive",
        {"secret_pairs": {"x": [(0, 1)]}},
    ),
    (
        ValueError,
        r"must be a mapping .* when several columns are sensitive",
        {"sensitive": ["secret", "x"], "secret_pairs": [(0, 1)]},
    ),
]


@pytest.mark.parametrize(("kind", "message", "options"), COLUMNS)
def test_bad_columns_and_pairs_are_named(kind, message, options, no_work):
    refuses(kind, message, **options)


def test_a_secret_of_one_value_is_refused(no_work):
    refuses(
        ValueError,
        r"sensitive column 'secret' has one value only \('no'\)",
        FRAME.assign(secret="no"),
    )


def test_a_secret_without_values_is_refused(no_work):
    refuses(ValueError, r"sensitive column 'secret' has 60 missing", FRAME.assign(secret=None))
    refuses(
        ValueError,
        r"sensitive column 'secret' has one value only \('missing'\)",
        FRAME.assign(secret=None),
        missing="category",
    )


SECRETS = [
    (ValueError, r"sensitive_features has 2 rows and X has 60; give one for each row", [0, 1]),
    (ValueError, r"sensitive_features has no column", np.empty((N_ROWS, 0))),
    (ValueError, r"sensitive_features must be a column or a table", "secret"),
    (ValueError, r"sensitive_features must be a column or a table", [[1], [1, 2]]),
    (ValueError, r"'sensitive_feature' has one value only \(0\)", np.zeros(N_ROWS, dtype=int)),
    (ValueError, r"'sensitive_feature' has 60 missing", np.full(N_ROWS, np.nan)),
    (ValueError, r"sensitive_features has an index that differs", FRAME["secret"].iloc[::-1]),
    (TypeError, r"'sensitive_feature' holds dates", pd.date_range("2020", periods=N_ROWS)),
    (TypeError, r"'sensitive_feature' holds complex", np.arange(N_ROWS) * 1j),
]


@pytest.mark.parametrize(("kind", "message", "secrets"), SECRETS)
def test_bad_sensitive_features_are_refused(kind, message, secrets, no_work):
    refuses(kind, message, FRAME[["x", "y"]], sensitive=None, fit={"sensitive_features": secrets})


def test_secrets_named_in_both_ways_are_refused(no_work):
    refuses(
        ValueError,
        r"sensitive='secret' and sensitive_features are both given",
        fit={"sensitive_features": FRAME["x"]},
    )


WEIGHTS = [
    (ValueError, r"sample_weight has 2 entries and X 60 rows", [1, 1]),
    (ValueError, r"non-negative whole numbers, .*got -1", np.full(N_ROWS, -1)),
    (ValueError, r"non-negative whole numbers, .*got 0.5", np.full(N_ROWS, 0.5)),
    (ValueError, r"non-negative whole numbers, .*got nan", np.full(N_ROWS, np.nan)),
    (ValueError, r"sample_weight is zero for every row", np.zeros(N_ROWS)),
    (ValueError, r"sample_weight counts 6e\+201 rows", np.full(N_ROWS, 1e200)),
    (
        ValueError,
        r"sample_weight must be 1D array or scalar, got shape \(60, 1\)",
        np.ones((N_ROWS, 1)),
    ),
    (TypeError, r"sample_weight must hold real numbers, got strings", np.full(N_ROWS, "a")),
]


@pytest.mark.parametrize(("kind", "message", "weights"), WEIGHTS)
def test_bad_weights_are_refused(kind, message, weights, no_work):
    refuses(kind, message, fit={"sample_weight": weights})


# ------------------------------------------------------------------------------------------- tables

TABLES = [
    (ValueError, r"X has 0 row\(s\) and a minimum of 2", FRAME.iloc[:0]),
    (ValueError, r"X has 1 row\(s\) and a minimum of 2", FRAME.iloc[:1]),
    (ValueError, r"X has 0 row\(s\) and a minimum of 2", pl.from_pandas(FRAME).head(0)),
    (ValueError, r"X has 1 column\(s\) and a minimum of 2", FRAME[["secret"]]),
    (ValueError, r"X has 0 column\(s\) and a minimum of 2", FRAME[[]]),
    (ValueError, r"column 'x' occurs more than once in X; rename", FRAME[["secret", "x", "x"]]),
    (TypeError, r"column label 7 is not a string; rename", FRAME.rename(columns={"x": 7})),
    (TypeError, r"X has MultiIndex columns; flatten", pd.concat({"top": FRAME}, axis=1)),
    (ValueError, r"X has 1 row\(s\) and a minimum of 2", pl.from_pandas(FRAME).lazy().head(1)),
    (
        ValueError,
        r"column 'y' has 1 missing value\(s\) \(NaN\); drop or fill .*missing=\"propagate\"",
        FRAME.assign(y=[np.nan] + [1.0] * 59),
    ),
    (
        ValueError,
        r"column 's' has 60 missing value\(s\) .*missing=\"category\"",
        FRAME.assign(s=None),
    ),
    (
        ValueError,
        r"column 'y' contains infinity; drop or replace",
        FRAME.assign(y=[np.inf] + [1.0] * 59),
    ),
    (ValueError, r"column 'y' contains infinity", FRAME.assign(y=[-np.inf] + [1.0] * 59)),
    (
        TypeError,
        r"column 's' holds mixed-integer values \(int, str\).*astype\(str\)",
        FRAME.assign(s=["a", 1] * 30),
    ),
    (
        TypeError,
        r"column 's' holds mixed-integer values \(int, str\)",
        FRAME.assign(s=pd.Categorical(["a", 1] * 30)),
    ),
    (
        TypeError,
        r"column 's' holds mixed-integer values \(bool, int\)",
        FRAME.assign(s=pd.Series([True, 7] * 30, dtype=object)),
    ),
    (TypeError, r"column 's' holds bytes values", FRAME.assign(s=[b"a", b"b"] * 30)),
    (TypeError, r"column 's' holds mixed values \(list\)", FRAME.assign(s=[[1]] * 60)),
    (
        TypeError,
        r"column 'y' holds dates or durations .*days or years",
        FRAME.assign(y=pd.Period("2020")),
    ),
    (TypeError, r"column 'y' holds complex numbers; .*two columns", FRAME.assign(y=1j)),
    (
        TypeError,
        r"column 'y' is sparse .*to_dense",
        FRAME.assign(y=pd.arrays.SparseArray([0.0, 1.0] * 30)),
    ),
    (
        TypeError,
        r"column 'y' has type Time",
        pl.from_pandas(FRAME).with_columns(y=pl.Series(range(60)).cast(pl.Time)),
    ),
    (
        TypeError,
        r"column 'y' has type Int128",
        pl.from_pandas(FRAME).with_columns(y=pl.Series(range(60)).cast(pl.Int128)),
    ),
    (
        TypeError,
        r"column 'y' has type List",
        pl.from_pandas(FRAME).with_columns(y=pl.Series([[1]] * 60)),
    ),
    (
        ValueError,
        r"column 'x' holds integers beyond 2\^53.*subtract an offset",
        FRAME.assign(x=2**60),
    ),
    (
        ValueError,
        r"column 'x' holds integers beyond 64 bits",
        FRAME.assign(x=pd.Series([2**70, 1] * 30, dtype=object)),
    ),
    (
        ValueError,
        r"column 'y' holds -1e\+301, beyond 1e\+120.*another unit",
        FRAME.assign(y=[1.0, -1e301] * 30),
    ),
    (
        ValueError,
        r"column 's' looks like an identifier: 60 values in 60 rows are different; leave it out",
        FRAME.assign(s=[f"n{k}" for k in range(60)]),
    ),
]


@pytest.mark.parametrize(("kind", "message", "X"), TABLES)
def test_a_bad_table_is_refused_by_name_of_the_column(kind, message, X, no_work):
    refuses(kind, message, X)


ARRAYS = [
    (ValueError, r"0 sample\(s\)", ARRAY[:0]),
    (ValueError, r"1 feature\(s\)", ARRAY[:, :1]),
    (ValueError, r"2D array", ARRAY[0]),
    (ValueError, r"2D array", "secret"),
    (TypeError, r"dense data is required", sparse.csr_matrix(ARRAY)),
    (ValueError, r"column 1 has 60 missing value\(s\)", ARRAY * [1, np.nan, 1]),
    (ValueError, r"column 2 contains infinity", ARRAY + np.array([0, 0, np.inf])),
    (ValueError, r"column 0 holds dates[\s\S]*column 1 holds dates", ARRAY.astype("M8[s]")),
    (ValueError, r"Complex data not supported", ARRAY * 1j),
    (TypeError, r"column 1 holds mixed", np.array([[0, "a"], [1, 2]] * 30, dtype=object)),
]


@pytest.mark.parametrize(("kind", "message", "X"), ARRAYS)
def test_a_bad_array_is_refused(kind, message, X, no_work):
    refuses(kind, message, X, sensitive=0)


# ------------------------------------------------------------------------------------------- priors


def given(prior, **options):
    return {"prior": prior, "public": "x"} | options


CODES = Discrete([0, 1, 2, 3], [0.25] * 4)
PRIORS = [
    (ValueError, r"prior has no prior for 'no' of column 'secret'; give one for each", given({})),
    (ValueError, r"prior has no prior for 'yes'", given({"no": CODES})),
    (
        TypeError,
        r"prior must hold priors.Discrete .*got 1 for 'no'",
        given({"no": 1, "yes": CODES}),
    ),
    (
        ValueError,
        r"column 'x' contains 2.0, to which no prior in prior= gives an atom",
        given({"no": HALVES, "yes": HALVES}),
    ),
    (
        ValueError,
        r"'s' contains 'c' \(code 2\), to which no prior",
        given({"no": HALVES, "yes": HALVES}, public="s"),
    ),
    (
        ValueError,
        r"prior over 1 column\(s\) for 'no', and 2 are public",
        given({"no": CODES, "yes": CODES}, public=["x", "y"]),
    ),
    (
        ValueError,
        r"prior must be a mapping \{column: .* when several",
        given({"no": CODES, "yes": CODES}, sensitive=["secret", "s"]),
    ),
]


@pytest.mark.parametrize(("kind", "message", "options"), PRIORS)
def test_a_prior_that_does_not_fit_the_table_is_refused(kind, message, options, no_work):
    refuses(kind, message, **options)


def test_a_prior_that_does_not_sum_to_one_is_refused():
    with pytest.raises(
        ValueError, match=r"probabilities must sum to 1, got 0.9\d*; divide by the sum"
    ):
        Discrete([0, 1], [0.5, 0.4])


def test_a_given_prior_says_nothing_about_incomplete_rows(no_work):
    frame = FRAME.assign(y=[np.nan] + [1.0] * 59)
    distribution = Discrete([[0, 1], [3, 1]], [0.5, 0.5])
    message = r"prior gives no distribution for rows in which 'y' is missing"
    options = {
        "prior": {"no": distribution, "yes": distribution},
        "public": ["x", "y"],
        "missing": "propagate",
    }
    with pytest.raises(ValueError, match=r"'x' contains 1\.0, to which no prior"):
        noiser(**options).fit(frame)
    refuses(ValueError, message, frame.assign(x=0), **options)


# ------------------------------------------------------------------------------- continuous priors

CONTINUOUS = {"prior": "gaussian", "public": "y"}
LAWS = {secret: GaussianMixture([1.0], [0.0], [1.0]) for secret in ("no", "yes")}
NUMBERS_ONLY = r"and Gaussian and mixture priors are about numbers; make it a number, use prior="
MODELS = [
    (TypeError, rf"column 's' is category, .*{NUMBERS_ONLY}", {"public": "s"}),
    (
        TypeError,
        rf"column 'y' is category, .*{NUMBERS_ONLY}",
        {"categories": {"y": [0, 0.5, 1, 1.5]}},
    ),
    (ValueError, r"n_bins bins column 'y', .*drop n_bins", {"n_bins": 3}),
    (ValueError, r"n_bins bins column 'y', .*drop n_bins", {"n_bins": {"y": 3}, "prior": "gmm"}),
    (ValueError, r"must be of one family, got Discrete and", {"adversaries": [{"no": HALVES}]}),
    (ValueError, r"must be of one family", {"prior": {"no": HALVES, "yes": LAWS["yes"]}}),
    (ValueError, r"prior has no prior for 'yes'", {"prior": {"no": LAWS["no"]}}),
    (
        ValueError,
        r"prior over 1 column\(s\) for 'no', and 2 are public; .*means, of shape \(n, 2\)",
        {"prior": LAWS, "public": ["x", "y"]},
    ),
]


@pytest.mark.parametrize(("kind", "message", "options"), MODELS)
def test_what_a_continuous_prior_cannot_be_about_is_refused(kind, message, options, no_work):
    refuses(kind, message, **CONTINUOUS | options)


@pytest.mark.parametrize("dtype", ["bool", "boolean"])
def test_a_boolean_column_has_no_gaussian_prior(dtype, no_work):
    frame = FRAME.assign(y=pd.array(FRAME["y"] > 1, dtype=dtype))
    refuses(TypeError, rf"column 'y' is boolean, .*{NUMBERS_ONLY}", frame, **CONTINUOUS)


@pytest.mark.parametrize("prior", ["gaussian", "gmm"])
def test_values_that_do_not_vary_have_no_gaussian(prior):
    frame = FRAME.assign(y=np.where(FRAME["secret"] == "yes", 3.0, FRAME["y"]))
    message = r"'y'.* given secret 'yes' are equal: 3.0, .* no scale .*; use prior='empirical'"
    refuses(ValueError, message, frame, **CONTINUOUS | {"prior": prior})


@pytest.mark.slow
def test_a_mixture_that_did_not_converge_says_what_to_do():
    frame = FRAME.assign(y=np.random.default_rng(0).normal(size=N_ROWS))
    fit = MixtureFit(n_components=3, max_iter=1, n_init=1)
    message = r"given secret 'no' has not converged after max_iter=1 steps; raise max_iter or tol"
    with pytest.warns(UserWarning, match=message) as told:
        noiser(prior=fit, public="y", epsilon=1.0, noise="laplace").fit(frame)
    assert sum("not converged" in str(each.message) for each in told) == 1  # once, of two secrets


RELEASED_ANYWHERE = [
    (ValueError, r"column 'x' contains 1.5 and held whole numbers in fit", [1.5] * 60),
    (ValueError, r"column 'x' contains infinity", [np.inf] * 60),
    (ValueError, r"column 'x' contains a value 1e\+300 away from 0", [1e300] * 60),
    (ValueError, r"'x' has 60 missing value\(s\)", [np.nan] * 60),
    (TypeError, r"'x' holds category values, and held integer values", ["a"] * 60),
]


@pytest.fixture(scope="module")
def continuous():
    moved = LAWS | {"yes": GaussianMixture([1.0], [1.0], [1.0])}
    return noiser(prior=moved, public="x", strategy="wasserstein").fit(FRAME)


@pytest.mark.parametrize(("kind", "message", "values"), RELEASED_ANYWHERE)
def test_only_numbers_within_reach_are_released(continuous, kind, message, values):
    with pytest.raises(kind, match=message):
        continuous.transform(FRAME.assign(x=values))


# ---------------------------------------------------------------------------------------- transform


@pytest.fixture(scope="module")
def fitted():
    return noiser(dependence="independent", unknown="error").fit(FRAME)


TRANSFORMS = [
    (
        ValueError,
        r"'x' contains 99, which was not seen in fit; pass unknown=\"nearest\".*n_bins",
        FRAME.assign(x=99),
    ),
    (ValueError, r"'y' contains 0.25, which was not seen", FRAME.assign(y=0.25)),
    (
        ValueError,
        r"'s' contains 'z', which was not seen in fit; pass unknown=\"nearest\".*in categories",
        FRAME.assign(s="z"),
    ),
    (ValueError, r"'y' has 60 missing value\(s\)", FRAME.assign(y=np.nan)),
    (ValueError, r"'y' contains infinity", FRAME.assign(y=np.inf)),
    (
        TypeError,
        r"'x' holds category values, and held integer values in fit; convert",
        FRAME.assign(x="1"),
    ),
    (TypeError, r"'x' holds dates", FRAME.assign(x=pd.Timestamp(0))),
    (TypeError, r"'s' holds mixed", FRAME.assign(s=["a", 1] * 30)),
    (ValueError, r"X lacks column 'x', 's', which fit released", FRAME[["y"]]),
    (ValueError, r"X has 0 row\(s\) and a minimum of 1", FRAME.iloc[:0]),
    (TypeError, r"MultiIndex", pd.concat({"top": FRAME}, axis=1)),
    (ValueError, r"X has 2 .*4", FRAME.to_numpy()[:, :2]),
]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(("kind", "message", "X"), TRANSFORMS)
def test_a_table_unlike_that_of_fit_is_refused(fitted, kind, message, X):
    before = copy.deepcopy(X)
    with pytest.raises(kind, match=message):
        fitted.transform(X)
    if isinstance(X, pd.DataFrame):
        assert X.equals(before)


def test_transform_before_fit_is_refused():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        noiser().transform(FRAME)
    with pytest.raises(NotFittedError):
        noiser().get_feature_names_out()


def test_names_for_another_number_of_columns_are_refused(fitted):
    with pytest.raises(ValueError, match="input_features"):
        fitted.get_feature_names_out(["a"])


def test_a_parameter_set_after_fit_is_checked_again_at_transform():
    own = noiser(dependence="independent").fit(FRAME)
    with pytest.raises(ValueError, match="on_uncertified must be one of"):
        own.set_params(on_uncertified="never").transform(FRAME)
    own.set_params(on_uncertified="raise", unknown="guess")
    with pytest.raises(ValueError, match="unknown must be one of"):
        own.transform(FRAME)


def test_missing_values_cannot_be_let_through_after_fit():
    own = noiser(dependence="independent").fit(FRAME).set_params(missing="propagate")
    with pytest.raises(ValueError, match="missing='propagate' was set after fit"):
        own.transform(FRAME.assign(y=np.nan))


def test_no_error_comes_with_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuses(ValueError, "infinity", FRAME.assign(y=[np.inf, -np.inf] * 30))


# ------------------------------------------------------------- what does not go together

SMALL = FRAME.iloc[:24][["secret", "x", "y"]].assign(x=[0, 1, 2, 3] * 6)
SMALL.loc[SMALL["secret"] == "no", "x"] %= 3  # the secrets differ in their largest value
TWO = {
    secret: GaussianMixture([0.5, 0.5], [0.0, 4.0 + k], [1.0, 1.0 + k])
    for k, secret in enumerate(["no", "yes"])
}
COMBINED = {
    "prior": ["empirical", "gaussian", GaussianFit("common"), TWO],
    "noise": ["laplace", "gaussian", "cauchy", GeneralizedCauchy(1.0, 3.0)],
    "notion": [{}, {"delta": 0.01}, {"alpha": 2.0}],
    "strategy": list(STRATEGIES),
    "columns": [{"public": "x"}, {}, {"dependence": "independent"}],
    "further": [{}, {"missing": "propagate"}, {"adversaries": "confidence"}, {"releases": 3}],
}
FEW, MANY = 101, 23  # strides through the whole product, coprime to its sides


class AcceptedError(Exception):
    """The search for the smallest noise was reached, so that nothing was refused."""


def refused(options):
    """Return the error of `fit` before any noise is calibrated, or None; the table is the same."""
    before = SMALL.copy()
    try:
        PufferfishNoiser(**{"sensitive": "secret", "epsilon": 0.1} | options).fit(SMALL)
    except AcceptedError:
        return None
    except (ValueError, TypeError) as error:
        return str(error)
    finally:
        assert SMALL.equals(before)
    return None


def advice(message):
    """Return the ways out of a message, each as the arguments it names."""
    listing = re.search(
        r"(?:use|give) ((?:[a-z]+=\S+)(?:(?:, | or | with )[a-z]+=\S+)*)\.$", message
    )
    assert listing, message
    ways = [way.split(" with ") for way in re.split(r", | or ", listing[1])]
    pairs = [[change.split("=", 1) for change in way] for way in ways]
    known = {"GaussianFit": GaussianFit, "MixtureFit": MixtureFit}
    return [{name: eval(value, known) for name, value in way} for way in pairs]


def combinations(stride):
    for k, chosen in enumerate(itertools.product(*COMBINED.values())):
        prior, noise, notion, strategy, columns, further = chosen
        if k % stride == 0 and not (prior is TWO and columns.get("public") != "x"):
            yield (
                {"prior": prior, "noise": noise, "strategy": strategy} | notion | columns | further
            )


def accept(*args, **kwargs):
    raise AcceptedError


def followed(options, messages):
    """Follow each way out of the last message, to a release after two more refusals at most."""
    for way in advice(messages[-1]):
        again = refused(options | way)
        assert again not in messages, (messages, way)
        if again is not None:
            assert len(messages) < 3, (messages, way, again)
            followed(options | way, [*messages, again])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("stride", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_what_does_not_go_together_is_refused_in_a_sentence_whose_advice_is_right(
    stride, monkeypatch
):
    monkeypatch.setattr(planning, "smallest_factor", accept)
    seen, told = 0, {}
    for options in combinations(stride):
        message = refused(options)
        if message is None or "asks for draws" in message:  # found before the strategy is asked
            continue
        seen += 1
        assert re.search("(strategy|releases|adversaries|dependence)=", message)
        assert message.endswith(".")
        assert ". " not in message
        assert not re.search(r"\d\.\d{7}", message)
        followed(options, [message])
        told.setdefault(message, options)
    assert seen > 20
    assert len(told) > 9


def test_the_check_of_advice_would_see_advice_that_is_refused_again(monkeypatch):
    monkeypatch.setattr(planning, "smallest_factor", accept)
    [way] = advice("there is no such bound; use strategy='monge'.")
    assert "closed form" in refused({"public": "x"} | way)
    assert refused({"public": "x"}) is None


def test_a_refusal_that_depends_on_the_data_names_columns_and_digits():
    ends = r"as those of .* in column\(s\) 'x' do, \(0, [23]\) and \(0, [23]\); use"
    refuses(ValueError, ends, SMALL, noise="gaussian", dependence="independent")
    refuses(ValueError, r"\(.* in column\(s\) 'x', 'y'\); use ", SMALL, noise="gaussian")


def test_suggestions_are_made_where_a_name_is_nearly_right():
    refuses(ValueError, r"got 'exat' \(did you mean 'exact'\?\)", strategy="exat")
    refuses(ValueError, r"column 'Secret', .* \(did you mean 'secret'\?\)", sensitive="Secret")
    refuses(ValueError, r"'NO', .* \(did you mean 'no'\?\)", secret_pairs=[("NO", "yes")])


HUGE = [{"epsilon": 10**400}, {"delta": 10**400}, {"alpha": 10**400}, {"n_bins": 10**30}]


@pytest.mark.parametrize("options", HUGE)
def test_integers_beyond_all_floats_are_refused_by_name(options, no_work):
    refuses(ValueError, next(iter(options)), **options)


@pytest.mark.filterwarnings("ignore:Column")
def test_the_largest_epsilon_is_one():
    fitted = noiser(epsilon=1e308, dependence="independent").fit(FRAME)
    assert fitted.certificate_.holds


def test_all_pairs_may_be_asked_for_column_by_column():
    frame = FRAME.assign(t=np.resize(list("abcd"), N_ROWS))
    asked = {"secret": "all", "t": [("a", "b")]}
    both = PufferfishNoiser(sensitive=["secret", "t"], public="x", secret_pairs=asked).fit(frame)
    assert both.secret_pairs_ == {"secret": [("no", "yes")], "t": [("a", "b")]}
    whole = both.set_params(secret_pairs={"secret": "all", "t": "all"}).fit(frame).secret_pairs_
    assert whole == both.set_params(secret_pairs="all").fit(frame).secret_pairs_
    with pytest.raises(TypeError, match=r"""list of pairs .* or "all" for column 't', got 'al'"""):
        both.set_params(secret_pairs={"t": "al"}).fit(frame)


WRONG = [
    None,
    3,
    "",
    "x",
    {},
    [],
    [None],
    [(HALVES,)],
    [HALVES],
    np.ones(1),
    math.nan,
    b"",
    object(),
]
PAIR, ASKED = [PriorPair(HALVES, HALVES)], (Laplace(), Pufferfish(1.0))
CALLS = {
    **{f"{name}, pairs": lambda x, f=f: f(x, *ASKED) for name, f in STRATEGIES.items()},
    **{f"{name}, noise": lambda x, f=f: f(PAIR, x, ASKED[1]) for name, f in STRATEGIES.items()},
    **{f"{name}, notion": lambda x, f=f: f(PAIR, ASKED[0], x) for name, f in STRATEGIES.items()},
    "tightest, pairs": lambda x: tightest(x, *ASKED),
    "tightest, noise": lambda x: tightest(PAIR, x, ASKED[1]),
    "tightest, notion": lambda x: tightest(PAIR, ASKED[0], x),
    "is_computable, noise": lambda x: is_computable([HALVES], x),
    "is_computable, notion": lambda x: is_computable([HALVES], ASKED[0], x),
    "lemma_2_psi, p": lambda x: lemma_2_psi(x, 0.5, HALVES),
    "lemma_2_psi, q": lambda x: lemma_2_psi(0.5, x, HALVES),
    "lemma_2_psi, others": lambda x: lemma_2_psi(0.5, 0.25, x),
    "bootstrap, fit": lambda x: bootstrap(x, [[0.0], [1.0]], [5, 5]),
    "bootstrap, rows": lambda x: bootstrap(GaussianFit(), x, [5, 5]),
    "bootstrap, counts": lambda x: bootstrap(GaussianFit(), [[0.0], [1.0]], x),
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: repr(each).partition(" at ")[0])
def test_arguments_of_a_wrong_kind_are_named(call, wrong):
    with pytest.raises((TypeError, ValueError), match=rf"\b{call.split(', ')[1]}\b"):
        CALLS[call](wrong)


@pytest.mark.parametrize(
    "wrong", [x for x in WRONG if x != [HALVES]], ids=lambda each: repr(each).partition(" at ")[0]
)
def test_priors_of_a_wrong_kind_are_named(wrong):
    with pytest.raises((TypeError, ValueError), match=r"^priors must be"):
        is_computable(wrong)


def test_fits_and_priors_that_do_not_go_together_are_named():
    with pytest.raises(TypeError, match="fit must be a GaussianFit or a MixtureFit, got ''"):
        bootstrap("", 0.5, ())
    with pytest.raises(ValueError, match="priors must be one or more over the same columns"):
        is_computable([HALVES, Discrete([[0, 1]], [1.0])])
    assert not is_computable([HALVES, GaussianMixture([1.0], [0.0], [1.0])])


@pytest.mark.parametrize("rows", [{"x": 7041.0}, {"x": [7041.0]}, [{"x": 7041.0}]], ids=repr)
def test_rows_as_dicts_are_refused_without_being_shown(rows):
    noiser = PufferfishNoiser(sensitive="s").fit(pd.DataFrame({"s": [0, 1] * 20, "x": [1, 2] * 20}))
    with pytest.raises(TypeError, match=r"X has rows as dicts; give a table, pandas") as caught:
        noiser.transform(rows)
    assert "7041" not in str(caught.value)
