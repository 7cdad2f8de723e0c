"""How much of the data survives, against sums over the noise and against the sampler itself."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_puffer import PufferfishNoiser, PufferfishWarning, UtilityWarning
from sklearn_puffer._certificates import lower_median, summary
from sklearn_puffer._codes import Column
from sklearn_puffer._noiser import ColumnRelease, RawDistribution, utilities
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.priors import Discrete

COLUMNS = [
    "change",
    "change_sd",
    "median_change",
    "unchanged",
    "constant",
    "constant_sd",
    "constant_median",
    "constant_unchanged",
]
FAMILIES = {
    "laplace": (Laplace, stats.laplace()),
    "gaussian": (Gaussian, stats.norm()),
    "cauchy": (Cauchy, stats.cauchy()),
    "k=1.5": (lambda s: GeneralizedCauchy(s, k=1.5), stats.t(0.5, scale=0.5**-0.5)),
    "k=5": (lambda s: GeneralizedCauchy(s, k=5.0), stats.t(4.0, scale=0.5)),
}
RAW, SHARES = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.4, 0.3, 0.1, 0.2])


def fitted(X, sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return PufferfishNoiser(**parameters).fit(X, sample_weight=sample_weight)


def survives(kind, noise, grid, low=-np.inf, high=np.inf, edges=None, atoms=RAW):
    """Return what the package says of four values under given noise."""
    known = np.ones(len(atoms), dtype=bool)
    levels = tuple("abcdef") if kind == "category" else None
    column = Column("x", kind, atoms, known, levels=levels, edges=edges, ordered=True)
    release = ColumnRelease(column, noise, grid, "native")
    return utilities([release], [RawDistribution(RAW, SHARES, 1.0, low, high)], [1.0])[0]


@pytest.mark.parametrize("scale", [0.05, 0.8, 6.0, 45.0])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (-128.0, 127.0), (0.0, 255.0)])
def test_cut_whole_numbers_change_as_a_sum_over_the_noise_says(family, scale, low, high):
    make, distribution = FAMILIES[family]
    kind = "category" if high == 5.0 else "integer"
    edges, atoms = np.array([1.0]), np.array([0.0, 5.0])
    if kind == "category":
        edges, atoms = None, np.arange(6.0)
    told = survives(kind, make(scale), 1.0, low, high, edges, atoms)
    released = np.arange(low, high + 1.0)
    change = same = 0.0
    for value, share in zip(RAW, SHARES, strict=True):
        atom = value if edges is None else (0.0 if value <= 1.0 else 5.0)
        ends = np.concatenate([[-np.inf], released[1:] - 0.5, [np.inf]])
        masses = np.diff(distribution.cdf((ends - atom) / scale))
        change += share * (masses @ np.abs(released - value))
        same += share * masses[released == value].sum()
    # of shares of 1/8192; a type that is cut far out has heavier tails than its quantiles show
    assert told.change == pytest.approx(change, rel=0.02, abs=3e-3)
    assert told.unchanged == pytest.approx(same, abs=1e-3)


@pytest.mark.parametrize("scale", [0.05, 0.8, 45.0, 300.0])
@pytest.mark.parametrize("family", ["laplace", "gaussian", "k=5"])
def test_whole_numbers_without_ends_change_as_a_long_sum_says(family, scale):
    make, distribution = FAMILIES[family]
    told = survives("integer", make(scale), 1.0)
    far = np.arange(1, 400_000 if family == "k=5" else 20_000)
    # twice the tails, which are above 1/2, 3/2, ...
    expected = 2.0 * distribution.sf((far - 0.5) / scale).sum()
    assert told.change == pytest.approx(expected, rel=5e-3, abs=2e-4)


def test_an_integer_type_that_cuts_within_the_quantiles_makes_heavy_tails_finite():
    ends = np.arange(-(2**15), 2**15 + 1.0)
    told = survives("integer", Cauchy(30.0), 1.0, -(2.0**15), 2.0**15)
    cuts = np.concatenate([[-np.inf], ends[1:] - 0.5, [np.inf]])
    expected = sum(
        share * (np.diff(stats.cauchy.cdf((cuts - value) / 30.0)) @ np.abs(ends - value))
        for value, share in zip(RAW, SHARES, strict=True)
    )
    assert told.change == pytest.approx(expected, rel=0.02)
    assert survives("integer", Cauchy(3.0), 1.0, -(2.0**15), 2.0**15).change == np.inf
    assert survives("integer", Cauchy(3.0), 1.0).change == np.inf


@pytest.mark.parametrize("family", FAMILIES)
def test_binned_fractions_change_by_bin_and_noise_together(family):
    make, distribution = FAMILIES[family]
    told = survives("float", make(0.9), 2.0**-41, edges=np.array([1.0]), atoms=np.array([0.5, 3.0]))
    moved = np.array([-0.5, 0.5, -1.0, 2.0])

    def chance(most):
        ends = [distribution.cdf((moved + side * most) / 0.9) for side in (1.0, -1.0)]
        return float(SHARES @ (ends[0] - ends[1]))

    assert chance(told.median_change) == pytest.approx(0.5, abs=1e-3)
    if family in ("cauchy", "k=1.5"):
        assert told.change == np.inf
        return
    expected = [distribution.expect(lambda z, d=d: abs(0.9 * z - d)) for d in moved]
    assert told.change == pytest.approx(float(SHARES @ expected), rel=1e-3)


def everything(n_rows=400):
    """Return a table with a column of each kind, all of which tell about the secret."""
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "secret": secret,
            "flag": rng.random(n_rows) < 0.3 + 0.5 * secret,
            "kind": np.array(["a", "b", "c"])[np.minimum(rng.integers(0, 3, n_rows) + secret, 2)],
            "small": (rng.integers(120, 126, n_rows) + secret).astype(np.int8),
            "whole": rng.integers(0, 5, n_rows) + secret,
            "real": rng.integers(0, 5, n_rows) / 4.0 + secret,
            "coarse": np.round(rng.normal(secret, 1.0), 2),
            "binned": rng.integers(0, 60, n_rows) + 20 * secret,
        }
    )


def as_codes(table):
    coded = table.copy()
    for name in set(table) & {"flag", "kind"}:
        levels = {"flag": [False, True], "kind": ["a", "b", "c"]}[name]
        coded[name] = table[name].map({level: code for code, level in enumerate(levels)})
    return coded.astype(float)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output": "noisy"},
        pytest.param({"noise": "gaussian", "alpha": 4.0}, marks=pytest.mark.slow),
        pytest.param({"noise": GeneralizedCauchy(1.0, k=6.0)}, marks=pytest.mark.slow),
        pytest.param({"epsilon": 3.0, "releases": 3}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_sampler_changes_values_as_utility_says(options):
    X = everything()
    unordered = {"flag", "kind"}
    public = [name for name in X if name != "secret"]
    public = public if "noise" not in options else ["kind", "small", "coarse"]
    n_bins = {name: 4 for name in public if name in ("coarse", "binned")}
    noiser = fitted(
        X, sensitive="secret", public=public, n_bins=n_bins, dependence="independent",
        random_state=0, **{"epsilon": 6.0, **options},
    )  # fmt: skip
    assert noiser.utility_.columns.tolist() == COLUMNS
    assert noiser.utility_.index.equals(noiser.theta_.index)
    original, errors = as_codes(X[public]), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(40):
            released = noiser.transform(X)
            released = released if options.get("output") == "noisy" else as_codes(released)
            errors.append((released - original).abs())
    drawn = pd.concat(errors)
    for name in public:
        told, seen = noiser.utility_.loc[name], drawn[name]
        seen = (seen != 0.0).astype(float) if name in unordered else seen
        # draws of one table are independent given the rows, which are those of fit
        standard_error = seen.std() / np.sqrt(len(seen)) + 1e-12
        assert abs(seen.mean() - told["change"]) < 5.0 * standard_error, name
        same = told["unchanged"]
        assert abs((seen == 0).mean() - same) < 5.0 * np.sqrt(same * (1 - same) / len(seen)) + 1e-9
        assert (seen < told["median_change"] * (1 - 1e-9)).mean() < 0.5 + 5.0 / np.sqrt(len(seen))
        assert (seen <= told["median_change"] * (1 + 1e-9)).mean() > 0.5 - 5.0 / np.sqrt(len(seen))
        unit = 1.0 if name in unordered else original[name].std(ddof=0)
        assert told["change_sd"] == pytest.approx(told["change"] / unit)


def test_the_constant_is_the_median_of_the_values_before_binning():
    X = everything()
    noiser = fitted(X, sensitive="secret", dependence="independent", n_bins={"coarse": 4})
    coded = as_codes(X)
    for name, told in noiser.utility_.iterrows():
        middle = coded[name].quantile(0.5, interpolation="lower")
        errors = (coded[name] - middle).abs()
        if name in ("flag", "kind"):  # a change is a change
            errors = (coded[name] != coded[name].mode()[0]).astype(float)
        assert told["constant"] == pytest.approx(errors.mean(), rel=1e-12)
        assert told["constant_unchanged"] == pytest.approx((errors == 0).mean())
        assert told["constant_median"] == errors.quantile(0.5, interpolation="lower")


def test_columns_without_noise_change_by_their_bins_alone():
    X = pd.DataFrame({"s": ["a", "b"] * 60, "x": np.repeat(np.arange(60), 2)})
    noiser = fitted(X, sensitive="s", n_bins=6, adversaries=None)
    assert noiser.theta_["x"] == 0.0
    errors = (noiser.transform(X)["x"] - X["x"]).abs()
    told = noiser.utility_.loc["x"]
    assert told["change"] == pytest.approx(errors.mean())
    assert told["unchanged"] == pytest.approx((errors == 0).mean())
    assert told["median_change"] == errors.quantile(0.5, interpolation="lower")


def test_weights_count_as_repeated_rows_do():
    X = everything(60)
    weights = np.arange(60) % 4
    options = {"sensitive": "secret", "dependence": "independent", "n_bins": {"coarse": 3}}
    weighed = fitted(X, weights, **options).utility_
    repeated = fitted(X.loc[np.repeat(X.index, weights)], **options).utility_
    pd.testing.assert_frame_equal(weighed, repeated, rtol=1e-12)


def test_missing_values_stay_or_are_a_value_of_their_own():
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, 300)
    value = np.array(["a", "b"], dtype=object)[np.minimum(rng.integers(0, 2, 300) + secret, 1)]
    value[:60] = None
    X = pd.DataFrame({"secret": secret, "x": value})
    stay = fitted(X, sensitive="secret", missing="propagate").utility_.loc["x"]
    whole = fitted(X.iloc[60:], sensitive="secret").utility_.loc["x"]
    assert stay["change"] == pytest.approx(whole["change"])
    assert stay["unchanged"] == pytest.approx(0.2 + 0.8 * whole["unchanged"])
    own = fitted(X, sensitive="secret", missing="category", random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        drawn = pd.concat([own.transform(X) for _ in range(30)])["x"]
    codes = [column.map({"a": 0, "b": 1}).fillna(2) for column in (drawn, X["x"])]
    errors = (codes[0].to_numpy() != np.tile(codes[1].to_numpy(), 30)).astype(float)
    assert own.utility_.loc["x", "change"] == pytest.approx(errors.mean(), abs=0.04)
    assert own.utility_.loc["x", "unchanged"] == pytest.approx((errors == 0).mean(), abs=0.03)


def test_continuous_priors_change_values_by_the_noise():
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, 200)
    X = pd.DataFrame({"secret": secret, "x": rng.normal(secret, 1.0)})
    noiser = fitted(X, sensitive="secret", prior="gaussian", epsilon=0.5, delta=1e-3)
    told = noiser.utility_.loc["x"]
    assert told["change"] == pytest.approx(noiser.theta_["x"], rel=1e-3)
    assert told["median_change"] == pytest.approx(np.log(2.0) * noiser.theta_["x"], rel=1e-3)
    assert told["unchanged"] < 1e-9


def test_under_a_given_prior_the_figures_are_those_of_the_rows():
    X = pd.DataFrame({"s": ["a", "b"] * 50, "x": [0, 1, 1, 0, 1] * 20})
    prior = {"a": Discrete([0, 1], [0.9, 0.1]), "b": Discrete([0, 1], [0.1, 0.9])}
    noiser = fitted(X, sensitive="s", prior=prior)
    assert noiser.utility_.loc["x", "constant"] == pytest.approx(0.4)
    assert noiser.utility_.loc["x", "constant_unchanged"] == pytest.approx(0.6)


WORTHLESS = {"sensitive": "s", "epsilon": 0.01}


def told_apart():
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, 100)
    return pd.DataFrame({"s": secret, "x": rng.integers(0, 9, 100) + secret, "y": secret})


def test_one_warning_counts_the_columns_that_tell_nothing_and_names_the_worst_and_a_way_out():
    with pytest.warns(UtilityWarning) as caught:
        noiser = PufferfishNoiser(**WORTHLESS).fit(told_apart())
    [said] = [str(w.message) for w in caught if w.category is UtilityWarning]
    worst = noiser.utility_["change_sd"].idxmax()
    assert "2 of 2 columns change more than a constant" in said
    assert f"most '{worst}' (by {noiser.utility_.loc[worst, 'change_sd']:.3g} sd" in said
    assert said.endswith("; release fewer columns, or take PufferfishMicroaggregator.")
    assert noiser.certificate_.holds
    text, told = noiser.certificate_.details(), json.loads(noiser.certificate_.to_json())
    worse = "In 2 of 2 columns a constant would change values less; these change most in"
    assert worse in text
    assert "How much of the data survives" in text
    assert "How much of the data survives" in noiser.certificate_._repr_html_()
    assert [column["name"] for column in told["utility"]] == ["x", "y"]
    assert told["utility"][0]["change"] == noiser.utility_.loc["x", "change"]


def test_a_release_that_is_worth_something_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        noiser = PufferfishNoiser(sensitive="s", epsilon=20.0).fit(told_apart())
    told = noiser.certificate_.details()
    assert "Values change less than if a constant stood for them; most in" in told


def test_where_the_mean_is_infinite_medians_are_compared():
    X = told_apart().astype({"x": float, "y": float})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        good = PufferfishNoiser(sensitive="s", public="x", epsilon=5.0, noise="cauchy").fit(X)
    assert good.utility_.loc["x", "change"] == np.inf
    assert good.utility_.loc["x", "median_change"] < good.utility_.loc["x", "constant_median"]
    assert json.loads(good.certificate_.to_json())["utility"][0]["change"] == "infinity"
    with pytest.warns(UtilityWarning):
        PufferfishNoiser(noise="cauchy", **WORTHLESS).fit(X)


@pytest.mark.slow
@pytest.mark.tables
@pytest.mark.filterwarnings("ignore:columns .* span:UserWarning")
@pytest.mark.filterwarnings("ignore:.*need no noise:UserWarning")
@pytest.mark.filterwarnings("ignore:.* occur once:UserWarning")
def test_the_naive_call_on_adult_is_no_success(table):
    X = table("adult", keep_default_na=False, nrows=8_000).drop(columns="fnlwgt")
    with pytest.warns(UtilityWarning, match="change more than a constant") as caught:
        noiser = PufferfishNoiser(sensitive="race").fit(X)
    assert sum(each.category is UtilityWarning for each in caught) == 1
    # how large depends on how many rows there are
    assert any(
        "this table; release fewer columns, or take PufferfishMicro" in str(each.message)
        for each in caught
    )
    utility = noiser.utility_
    worse = (utility["change"] > utility["constant"]).sum()
    assert worse > len(utility) / 2
    numbers = list(X.select_dtypes("number").columns)
    assert (utility.loc[numbers, "change_sd"] > 1.0).all()
    told = noiser.certificate_.details()
    assert f"In {worse} of {len(utility)} columns a constant would change" in told


# -------------------------------------------------------------------------------------- one warning


def warned(work):
    """Return what is warned of, whatever was warned of before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    assert all(issubclass(each.category, PufferfishWarning) for each in caught)
    return [(each.category.__name__, str(each.message)) for each in caught]


def patients():
    return load_diabetes(as_frame=True, scaled=False, return_X_y=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({"public": ["age", "bmi", "bp"], "n_bins": 5}, {"UtilityWarning"}),
        ({"public": ["bmi", "s2", "s5"]}, {"PufferfishWarning", "UtilityWarning"}),
    ],
)
def test_a_search_warns_once_of_each_thing_and_by_a_class_that_can_be_filtered(options, kinds):
    table, y = patients()
    for k in range(3):  # values that a fold alone has
        table.loc[150 * k, ["bmi", "bp"]] = 100.0 * (k + 1)
    noiser = PufferfishNoiser(sensitive="sex", unknown="nearest", **options)
    grid = {"pufferfishnoiser__epsilon": [0.5, 2.0]}
    search = GridSearchCV(make_pipeline(noiser, Ridge()), grid, cv=3)
    told = warned(lambda: search.fit(table, y))
    things = [re.sub(r"'.*?'|[\d.%]+", "", sentence)[:30] for _, sentence in told]
    assert len(things) == len(set(things))
    assert {kind for kind, _ in told} <= kinds | {"UnseenValuesWarning"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PufferfishWarning)
        GridSearchCV(make_pipeline(clone(noiser), Ridge()), grid, cv=3).fit(table, y)


def test_each_thing_that_a_fit_has_to_say_is_one_warning():
    table, _ = patients()
    told = warned(lambda: PufferfishNoiser(sensitive="sex").fit(table))
    assert [kind for kind, _ in told] == ["PufferfishWarning"] * 3 + ["UtilityWarning"]
    words = ("302 distinct values", "occur once", "beyond exact losses")
    assert all(any(part in sentence for _, sentence in told) for part in words)


def test_a_noiser_itself_warns_at_each_fit_and_so_does_the_clone_that_warned_first():
    table = told_apart()
    noiser = PufferfishNoiser(**WORTHLESS)
    first, second = clone(noiser), clone(clone(noiser))
    every = [noiser, first, second, first, second, noiser, pickle.loads(pickle.dumps(second))]
    assert [len(warned(lambda own=own: own.fit(table))) for own in every] == [1, 1, 0, 1, 0, 1, 1]


def test_a_clone_warns_of_twice_the_rows_that_another_one_moved():
    table = pd.DataFrame({"x": [0, 1, 2, 3] * 30, "s": [0, 0, 1, 1, 0, 1] * 20})
    noiser = PufferfishNoiser(0.2, sensitive="s", unknown="nearest")
    many = pd.concat([table] * 1000)
    first, second = (clone(noiser).fit(many) for _ in range(2))

    def moved(own, n_moved):
        rows = table.assign(x=[9] * n_moved + [0] * (120 - n_moved))
        return len(warned(lambda: own.transform(rows, on_drift="ignore")))

    told = [(first, 10), (first, 10), (second, 20), (second, 21), (second, 21), (first, 5)]
    assert [moved(*each) for each in told] == [1, 1, 0, 1, 0, 1]
    assert len(warned(lambda: second.transform(table.assign(x=7)))) == 2  # and of drift, always


# ------------------------------------------------------------------------- columns of real tables

# constant, published, Laplace, in the order of docs/choosing.md
REAL = {
    ("adult", "education-num", "race", 1.0): (1.875, 4.992, 2.232),
    ("adult", "education-num", "race", 0.1): (1.875, 50.0, 22.16),
    ("adult", "hours-per-week", "sex", 1.0): (7.419, 18.0, 5.874),
    ("bank-full", "age", "marital", 1.0): (8.616, 22.56, 13.88),
    ("student-por", "G3", "sex", 0.5): (2.399, 12.0, 2.194),
    ("adult", "age", "race", 1.0): (11.17, 13.05, 8.051),
}


@pytest.mark.tables
@pytest.mark.parametrize(("of", "expected"), REAL.items(), ids=str)
def test_real_columns_change_by_what_is_known_of_them(table, of, expected):
    name, column, secret, epsilon = of
    rows = table(name, usecols=[secret, column])[[secret, column]]
    told = [
        fitted(rows, sensitive=secret, epsilon=epsilon, strategy=strategy).utility_
        for strategy in ("relaxed", "exact")
    ]
    found = [told[0]["constant"].iloc[0], *(utility["change"].iloc[0] for utility in told)]
    assert found == pytest.approx(expected, rel=1e-3)


def test_the_documentation_shows_what_real_columns_change_by():
    page = Path(__file__).parents[1] / "docs" / "choosing.md"
    lines = page.read_text(encoding="utf-8").split("| one column ")[1].splitlines()[2:6]
    shown = [tuple(float(cell) for cell in line.split("|")[2:5]) for line in lines]
    assert shown == list(REAL.values())[:4]


# --------------------------------------------------------------------------------- groups of values


def test_changes_have_the_mean_median_and_zeros_of_the_rows_one_by_one():
    rng = np.random.default_rng(9)
    for _ in range(50):
        changes, weights = rng.integers(0, 4, 7) / 2.0, rng.integers(0, 4, 7)
        weights[0] += 1
        rows = np.sort(np.repeat(changes, weights))
        mean, median, same = summary(changes, weights)
        assert mean == pytest.approx(rows.mean(), rel=1e-12, abs=1e-15)
        assert median == rows[(len(rows) - 1) // 2] == lower_median(changes, weights / 7.0)
        assert same == pytest.approx((rows == 0.0).mean(), rel=1e-12)
