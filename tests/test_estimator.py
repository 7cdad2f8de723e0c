"""`PufferfishNoiser` as a scikit-learn estimator: its checks, routing, Pipelines and display."""

from __future__ import annotations

import functools
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishSwap,
    UncertifiedError,
)
from sklearn_puffer.fits import GaussianFit
from sklearn_puffer.noise import Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import ConfidenceSet

DEPENDENCES = ["independent", "joint"]

# what check_estimator skips, and why
SKIPPED = {
    "check_array_api_input": "array API dispatch needs SCIPY_ARRAY_API, which is not set",
    "check_pipeline_consistency": "non-deterministic; has a test of its own under one seed",
    "check_transformer_data_not_an_array": "non-deterministic; test of its own under one seed",
    "check_transformer_general": "non-deterministic; has a test of its own under one seed",
}

pytestmark = [
    # scikit-learn's own checks use continuous random columns and integer seeds
    pytest.mark.filterwarnings("ignore:random_state=.* is for tests only:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*need no noise under this prior:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*distinct values in .* rows:UserWarning"),
    pytest.mark.filterwarnings("ignore:sensitive column .* has .* values:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*moved values that were not seen:UserWarning"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has feature names, but:UserWarning"),
    pytest.mark.filterwarnings("ignore:columns .* span .* cells jointly:UserWarning"),
]


class SeededNoiser(PufferfishNoiser):
    """The estimator as a deterministic one, to run the checks that are skipped otherwise."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def table(n_rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Return a table in which children and region depend on the loan."""
    rng = np.random.default_rng(seed)
    loan = rng.integers(0, 2, n_rows)
    children = rng.binomial(3, 0.3 + 0.3 * loan)
    region = np.where(rng.random(n_rows) < 0.4 + 0.2 * loan, "north", "south")
    return pd.DataFrame({"loan": loan, "children": children, "region": region})


@pytest.mark.parametrize(
    "dependence", ["joint", pytest.param("independent", marks=pytest.mark.slow)]
)
def test_no_check_of_scikit_learn_fails(dependence):
    estimator = PufferfishNoiser(sensitive=0, dependence=dependence)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    statuses = {result["check_name"]: result["status"] for result in results}
    assert [name for name, status in statuses.items() if status == "failed"] == []
    skipped = {name for name, status in statuses.items() if status == "skipped"}
    assert skipped <= set(SKIPPED)
    assert sum(result["status"] == "passed" for result in results) >= 39


class TwoSecrets(PufferfishNoiser):
    """A noiser of two secrets: in scikit-learn's checks every row has a value of its own.

    A Gaussian cannot be fitted to one row, nor losses under every noise be had for thousands of
    pairs in a moment.
    """

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        n_rows = len(X) if hasattr(X, "__len__") else np.asarray(X).shape[0]
        secrets = np.arange(n_rows) % 2
        return super().fit(X, y, sensitive_features=secrets, sample_weight=sample_weight)


OPTIONS = [
    {"prior": "gaussian", "delta": 1e-3, "strategy": "distribution_aware"},
    {"delta": 1e-3, "noise": "gaussian", "public": 0},
    {"adversaries": "confidence", "public": 0},
]

# two secrets by the place of a row: a repeated row has both of them, and a weighted one has one
BY_PLACE = {"check_sample_weight_equivalence_on_dense_data": "the secret is the place of a row"}
# arrays of the released columns alone are taken, and here that is one column
ALONE = {"check_n_features_in_after_fitting": "one column is all that is released"}

# what no Gaussian can be fitted to: rows of one secret that are all alike
UNFITTABLE = "a Gaussian has no scale for them"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the loss over the confidence set is not:UserWarning")
@pytest.mark.filterwarnings("ignore:the rarest secret has:UserWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_check_of_scikit_learn_fails_under_other_options(options):
    estimator = TwoSecrets(**{"dependence": "independent"} | options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = BY_PLACE | (ALONE if "public" in options else {})
        results = check_estimator(
            estimator, on_skip=None, on_fail=None, expected_failed_checks=expected
        )
    failed = [each for each in results if each["status"] == "failed"]
    assert [e["check_name"] for e in failed if UNFITTABLE not in str(e["exception"])] == []
    assert len(failed) <= (1 if "prior" in options else 0)
    skipped = {each["check_name"] for each in results if each["status"] == "skipped"}
    assert skipped <= set(SKIPPED)
    assert sum(each["status"] == "passed" for each in results) >= 39


@pytest.mark.parametrize("options", [{"dependence": each} for each in DEPENDENCES], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "check_pipeline_consistency",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
    ],
)
@pytest.mark.filterwarnings("ignore:.* of the rows occur once")
def test_the_skipped_checks_pass_under_one_seed(name, options):
    estimator = SeededNoiser(sensitive=0, random_state=0, **options)
    check = getattr(estimator_checks, name)
    if name == "check_transformer_general":
        _check_fit_transform_agrees(estimator)
    else:
        check("PufferfishNoiser", estimator)


def _check_fit_transform_agrees(estimator):
    """fit_transform, and fit then transform, agree: what check_transformer_general compares.

    That check calls transform twice on one fitted estimator and wants one answer, which a
    noiser must never give; every first call after fit is compared here instead.
    """
    X = np.random.default_rng(0).integers(0, 4, (60, 4)).astype(float)
    first = clone(estimator).fit_transform(X)
    second = clone(estimator).fit(X).transform(X)
    third = clone(estimator).fit(X.tolist()).transform(X.tolist())
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    assert len(first) == len(X)


@pytest.mark.parametrize(
    "name",
    [
        "check_set_output_transform",
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
    ],
)
def test_the_checks_that_check_estimator_leaves_out_pass(name):
    check = getattr(estimator_checks, name)
    check("PufferfishNoiser", PufferfishNoiser(sensitive=0, random_state=0, unknown="nearest"))


class Conventional(PufferfishNoiser):
    """Reads frames as scikit-learn's checks do: by position where fit saw an array, and in order.

    The estimator itself finds columns by name, in any order, and refuses a frame after an array.
    """

    def transform(self, X):
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            released = super().transform(np.asarray(X))
            if isinstance(released, pd.DataFrame) and isinstance(X, pd.DataFrame):
                released.index = X.index
            return released
        if hasattr(X, "columns"):
            self._check_feature_names(X)
        return super().transform(X)

    def _check_feature_names(self, X):
        validate_data(self, X, reset=False, skip_check_array=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* occur once")  # as rows of random numbers do
@pytest.mark.parametrize(
    "name",
    [
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_global_output_transform_pandas",
        "check_global_set_output_transform_polars",
        "check_dataframe_column_names_consistency",
    ],
)
def test_the_checks_pass_that_need_columns_in_order(name):
    check = getattr(estimator_checks, name)
    check("Conventional", Conventional(sensitive=0, random_state=0, unknown="nearest"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* occur once:UserWarning")
def test_a_continuous_secret_of_150_values_is_refused_and_read_in_bins():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(150), rng.integers(0, 20, (150, 3))])
    with pytest.raises(ValueError, match=r"150 values.*bins"):
        PufferfishNoiser(sensitive=0).fit(X)
    noiser = PufferfishNoiser(sensitive={0: 5}, public=[1]).fit(X)
    assert len(noiser.secret_pairs_[0]) == 5 * 4 // 2
    assert noiser.certificate_.holds


def test_clone_and_set_params_keep_what_was_given():
    pairs = [("a", "b")]
    noiser = PufferfishNoiser(2.0, sensitive="loan", secret_pairs=pairs, n_bins={"age": 4})
    copy = clone(noiser)
    assert copy.get_params() == noiser.get_params()
    assert copy.set_params(epsilon=0.5).epsilon == 0.5


def test_two_words_name_a_sensitive_column_by_position_and_by_name():
    by_name = PufferfishNoiser(sensitive="loan").fit(table())
    by_position = PufferfishNoiser(sensitive=0).fit(table())
    by_last = PufferfishNoiser(sensitive=[-3]).fit(table())
    pd.testing.assert_series_equal(by_name.theta_, by_position.theta_)
    pd.testing.assert_series_equal(by_name.theta_, by_last.theta_)


def test_secrets_in_x_and_as_sensitive_features_give_the_same_noise():
    X = table()
    inside = PufferfishNoiser(sensitive="loan").fit(X)
    beside = PufferfishNoiser().fit(X.drop(columns="loan"), sensitive_features=X["loan"])
    pd.testing.assert_series_equal(inside.theta_, beside.theta_)
    assert beside.certificate_.pairs == inside.certificate_.pairs


def test_y_is_never_taken_for_a_secret():
    X = table()
    with pytest.raises(ValueError, match=r"nothing is sensitive: name columns of X"):
        PufferfishNoiser().fit(X, X["loan"])


@pytest.mark.parametrize("kind", [PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap])
def test_without_secrets_the_message_shows_both_ways_when_routing_is_off(kind):
    said = rf"{kind.__name__}\(sensitive=.*step__sensitive_features="
    with pytest.raises(ValueError, match=said):
        kind().fit(table())


def test_without_secrets_the_message_shows_the_request_when_routing_is_on():
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match=r"set_fit_request\(sensitive_features=True\)"),
    ):
        PufferfishNoiser().fit(table())


def test_secrets_reach_a_step_of_a_pipeline_without_routing():
    X = table()
    pipeline = Pipeline([("noiser", PufferfishNoiser()), ("last", "passthrough")])
    pipeline.fit(X[["children"]], noiser__sensitive_features=X["loan"])
    assert pipeline["noiser"].certificate_.holds


def test_secrets_reach_a_pipeline_a_column_transformer_and_cross_validation_by_routing():
    X = table(600)
    y = np.random.default_rng(1).integers(0, 2, 600)
    with sklearn.config_context(enable_metadata_routing=True):
        noiser = PufferfishNoiser(unknown="nearest").set_fit_request(sensitive_features=True)
        transformer = ColumnTransformer([("private", noiser, ["children"])])
        pipeline = make_pipeline(transformer, LogisticRegression())
        pipeline.fit(X[["children"]], y, sensitive_features=X["loan"].to_numpy())
        fitted = pipeline[0].named_transformers_["private"]
        expected = PufferfishNoiser(sensitive="loan").fit(X[["loan", "children"]])
        assert fitted.theta_["children"] == expected.theta_["children"]
        scores = cross_validate(
            pipeline,
            X[["children"]],
            y,
            params={"sensitive_features": X["loan"].to_numpy()},
            error_score="raise",
        )
    assert len(scores["test_score"]) == 5


@pytest.mark.slow
def test_a_gaussian_prior_goes_through_a_column_transformer_and_cross_validation():
    X = table(300).assign(income=np.random.default_rng(2).normal(50.0, 9.0, 300))
    y = np.random.default_rng(1).integers(0, 2, 300)
    with sklearn.config_context(enable_metadata_routing=True):
        noiser = PufferfishNoiser(
            delta=1e-3, noise="gaussian", prior="gaussian", strategy="approximate"
        ).set_fit_request(sensitive_features=True, sample_weight=True)
        transformer = ColumnTransformer([("private", noiser, ["income"])])
        model = LogisticRegression().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(transformer, model)
        secrets = X["loan"].to_numpy()
        weights = np.arange(300) % 3 + 1
        pipeline.fit(X[["income"]], y, sensitive_features=secrets, sample_weight=weights)
        assert pipeline[0].named_transformers_["private"].certificate_.n_rows == weights.sum()
        scores = cross_validate(  # later folds hold numbers that fit has not seen
            pipeline,
            X[["income"]],
            y,
            params={"sensitive_features": secrets},
            error_score="raise",
        )
    assert len(scores["test_score"]) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"prior": GaussianFit(covariance="common"), "delta": 0.01, "noise": Gaussian(3.0)},
        {"noise": GeneralizedCauchy(2.0, k=4), "alpha": 3.0, "strategy": "wasserstein"},
        {"weights": {"children": 2.0}, "adversaries": [ConfidenceSet(0.9)]},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_that_are_objects_are_cloned_saved_shown_and_set(options, tmp_path):
    X = table()[["loan", "children"]]
    noiser = PufferfishNoiser(sensitive="loan", **options)
    copied = clone(noiser)
    assert repr(copied) == repr(noiser)
    assert {name: copied.get_params()[name] for name in options} == options
    later = PufferfishNoiser().set_params(sensitive="loan", **options).fit(X)
    joblib.dump(later, tmp_path / "noiser.joblib")
    loaded = joblib.load(tmp_path / "noiser.joblib")
    assert loaded.certificate_ == later.certificate_ == copied.fit(X).certificate_
    assert loaded.transform(X).shape == (400, 1)
    for name in options:
        assert name in later._repr_html_()


def test_a_column_transformer_hands_the_sensitive_column_over_with_the_public_ones():
    X = table()
    transformer = ColumnTransformer(
        [("private", PufferfishNoiser(sensitive="loan"), ["loan", "children"])],
        remainder="drop",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    released = transformer.fit_transform(X)
    assert list(released.columns) == ["children"]


def test_the_html_shows_the_fitted_scales():
    noiser = PufferfishNoiser(sensitive="loan").fit(table())
    shown = f"{noiser.theta_['children']:.6g}"
    assert shown in noiser._repr_html_()
    assert shown in noiser._repr_mimebundle_()["text/html"]
    assert "theta" not in PufferfishNoiser(sensitive="loan")._repr_html_()


def test_a_saved_noiser_gives_the_same_certificate(tmp_path):
    noiser = PufferfishNoiser(sensitive="loan").fit(table())
    joblib.dump(noiser, tmp_path / "noiser.joblib")
    loaded = joblib.load(tmp_path / "noiser.joblib")
    assert loaded.certificate_ == noiser.certificate_
    assert list(loaded.transform(table().drop(columns="loan")).columns) == ["children", "region"]


def _too_optimistic(pairs, noise, notion, *, share):
    """Return a strategy that claims a share of the loss only: one that breaks its guarantee."""
    from sklearn_puffer.calibration import exact

    bound = exact(pairs, noise, notion)

    class Claim:
        guess = bound.guess

        def losses(self, factor):
            return share * bound.losses(factor)

    return Claim()


def test_a_wrong_strategy_is_caught_and_refused():
    wrong = functools.partial(_too_optimistic, share=0.5)
    noiser = PufferfishNoiser(0.2, sensitive="loan", public="children", strategy=wrong)
    noiser.fit(table())
    assert noiser.certificate_.loss > 0.2
    assert not noiser.certificate_.holds
    with pytest.raises(UncertifiedError, match=r"exceeds the budget epsilon = 0\.2; strategy="):
        noiser.transform(table())
    with pytest.warns(UserWarning, match="does not hold"):
        noiser.set_params(on_uncertified="warn").transform(table())


def test_a_seed_repeats_the_noise_call_by_call_and_column_by_column():
    X = table()
    noiser = PufferfishNoiser(0.2, sensitive="loan", random_state=3, output="noisy").fit(X)
    first, second = noiser.transform(X), noiser.transform(X)
    again = PufferfishNoiser(0.2, sensitive="loan", random_state=3, output="noisy").fit(X)
    pd.testing.assert_frame_equal(first, again.transform(X))
    pd.testing.assert_frame_equal(second, again.transform(X))
    assert not np.array_equal(first["children"], second["children"])
    noise = first["children"] - X["children"], first["region"] - (X["region"] == "south")
    scaled = noise[0] / noiser.theta_["children"], noise[1] / noiser.theta_["region"]
    assert abs(np.corrcoef(*scaled)[0, 1]) < 0.3


def test_a_seed_warns_that_it_is_for_tests():
    noiser = PufferfishNoiser(sensitive="loan", random_state=3).fit(table())
    with pytest.warns(UserWarning, match="random_state=3 is for tests only"):
        noiser.transform(table())
    assert any("NOTHING is guaranteed" in sentence for sentence in noiser.certificate_.assumptions)


def test_threads_do_not_change_a_seeded_release():
    X = table(40_000)
    one = PufferfishNoiser(0.2, sensitive="loan", random_state=1).fit(X).transform(X)
    two = PufferfishNoiser(0.2, sensitive="loan", random_state=1, n_jobs=2).fit(X).transform(X)
    pd.testing.assert_frame_equal(one, two)


def test_readme_s_first_release_costs_what_it_says():
    X = load_diabetes(scaled=False, as_frame=True).data
    noiser = PufferfishNoiser(1.0, sensitive="sex", public=["age", "bmi", "bp"], n_bins=5).fit(X)
    in_deviations = noiser.theta_ / X[["age", "bmi", "bp"]].std(ddof=0)
    np.testing.assert_allclose(in_deviations, 0.639, atol=0.001)


def test_a_wide_row_of_19_683_cells_is_still_exact():
    X = load_diabetes(scaled=False, as_frame=True).data
    with pytest.warns(UserWarning, match="85% of the 442 rows .* occur once given their"):
        noiser = PufferfishNoiser(1.0, sensitive="sex", n_bins=3).fit(X)
    in_deviations = noiser.theta_ / X.drop(columns="sex").std(ddof=0)
    np.testing.assert_allclose(in_deviations, 2.23, atol=0.01)
    assert set(noiser.certificate_.table["source"]) == {"recomputed"}


def test_a_noise_family_object_does_as_well_as_its_name():
    named = PufferfishNoiser(sensitive="loan", public="children").fit(table())
    given = PufferfishNoiser(sensitive="loan", public="children", noise=Laplace(7.0)).fit(table())
    assert named.theta_["children"] == given.theta_["children"]
    assert Pufferfish(1.0).budget == named.certificate_.epsilon


def test_a_release_in_threads_is_whole_whatever_backend_is_chosen():
    table = pd.DataFrame({"s": [0, 1] * 20, "a": [5, 5, 6, 7] * 10, "b": [900, 900, 904, 909] * 10})
    noiser = PufferfishNoiser(30.0, sensitive="s", n_jobs=2)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        released = noiser.fit(table).transform(table)
    assert noiser.theta_.max() < 1.0
    assert (released - table[["a", "b"]]).abs().max().max() < 30  # no column was left out
