"""Typical rows as users call for them: from Pipelines, in other processes, and of odd tables."""

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from prototype_readers import fitted
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from sklearn_puffer import PufferfishMicroaggregator, PufferfishWarning, UtilityWarning
from sklearn_puffer._microaggregator import coordinates

KEY = b"blake2b:" + bytes(range(24))


def patients(n=600, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "age": 40 + 9 * ill + rng.integers(0, 20, n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
            "stay": pd.to_timedelta(rng.integers(0, 90, n), "h"),
            "score": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(1)),
            "ward": pd.Categorical(rng.choice(list("abc"), n)),
            "vip": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "visits": pd.array(rng.choice([1, 2, 3, None], n), dtype="Int32"),
            "note": pd.array(rng.choice(["u", "v", None], n), dtype="string"),
        }
    )


TABLE = patients()
UNDATED = TABLE.drop(columns="since")


@pytest.fixture(scope="module")
def release():
    public = [name for name in TABLE if name != "ill"]  # dates are released if they are named
    return fitted(TABLE, sensitive="ill", public=public, n_prototypes=6)


def test_every_type_comes_back_as_itself(release):
    released = release.transform(patients(seed=1))
    assert released.dtypes.equals(TABLE.drop(columns="ill").dtypes)
    assert released["since"].isin(TABLE["since"]).all()
    assert set(released["note"].dropna()) <= {"u", "v"}


def test_one_row_needs_no_secret_and_no_other_row(release):
    one = release.transform(TABLE.drop(columns="ill")[5:6])
    assert one.shape == (1, 8)
    assert one.index.tolist() == [5]


@pytest.mark.slow
def test_a_pipeline_is_cross_validated_on_released_rows():
    rng = np.random.default_rng(3)
    table = TABLE[["ill", "age", "ward"]]
    bought = np.where(table["ward"] == "a", 0.9, 0.1) > rng.random(len(table))
    rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of the folds are few
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        model = make_pipeline(clone(rows), encoder, LogisticRegression())
        scores = cross_val_score(model, table, bought, cv=3)
    assert scores.mean() > 0.75


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output_says_what_comes_back(kind):
    rows = clone(PufferfishMicroaggregator(sensitive="ill", n_prototypes=3))
    released = rows.set_output(transform=kind).fit(UNDATED).transform(UNDATED)
    assert isinstance(released, pd.DataFrame if kind == "pandas" else pl.DataFrame)
    assert list(released.columns) == list(rows.get_feature_names_out())


def test_constant_columns_and_few_rows_are_one_typical_row():
    few = TABLE[["ill", "age"]][:50].assign(same=1, gone=np.nan)
    release = fitted(few, sensitive="ill")
    assert len(release.prototypes_) == 1
    released = release.transform(few)
    assert (released["same"] == 1).all()
    assert released["gone"].isna().all()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (UNDATED[:29], r"29 rows, fewer than min_size=30"),
        (UNDATED[["ill"]], r"1 column\(s\)"),
        (UNDATED.assign(number=np.arange(600)), r"'number' looks like an identifier"),
        (UNDATED.assign(dose=[1.0, np.inf] * 300), r"'dose' contains infinity"),
    ],
)
def test_tables_that_cannot_be_are_refused_by_name(table, message):
    with pytest.raises(ValueError, match=message):
        PufferfishMicroaggregator(sensitive="ill").fit(table)


# ------------------------------------------------------------------------------- lazy tables

LAZY = pl.from_pandas(patients(900, seed=2)).select("ill", "age", "score", "ward", "vip", "note")
LAZY = LAZY.with_columns(times=pl.Series(np.arange(900) % 3), ward=pl.col("ward").cast(str))
OF_LAZY = {
    "one secret": {"sensitive": "ill", "public": ["age", "score", "vip", "ward"]},
    "labels": {"sensitive": ["ill", "ward"], "public": ["age"], "joined": ["note", "vip"]},
    "strata": {"sensitive": [("ill", "note")], "public": "age", "known": {"score": 2}},
    "passed": {"sensitive": "ill", "public": "age", "remainder": "passthrough"},
}


def learnt(table, options, **of_fit):
    """Return what a fit learns, but for when."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        rows = PufferfishMicroaggregator(n_prototypes=4, min_size=12, **options)
        rows.fit(table, **of_fit)
    certificate = rows.certificate_.to_dict() | {"date": ""}
    parts = rows.prototypes_, rows.counts_, rows.utility_
    return certificate, *(part.to_json() for part in parts)


@pytest.mark.parametrize("case", list(OF_LAZY))
def test_a_fit_on_a_lazy_table_is_that_of_its_rows(case):
    assert learnt(LAZY.lazy(), OF_LAZY[case]) == learnt(LAZY, OF_LAZY[case])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["one secret", "strata", "passed"])
def test_a_lazy_table_of_many_rows_has_the_same_sample(case, monkeypatch):
    """Of age alone many rows are equal, and surely sampled."""
    monkeypatch.setattr(coordinates, "MOST_ROWS", 25)
    lazy, whole = (learnt(table, OF_LAZY[case]) for table in (LAZY.lazy(), LAZY))
    assert lazy == whole


@pytest.mark.slow
def test_a_fit_on_a_relation_is_that_of_its_rows():
    relation = duckdb.connect().from_arrow(LAZY.to_arrow())
    assert learnt(relation, OF_LAZY["strata"]) == learnt(LAZY, OF_LAZY["strata"])


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"values": "drawn"}, None, 'values="drawn" counts values in bins'),
        ({"sensitive": {"age": 3}}, None, "asks for bins"),
        ({}, [0, 1], "y is aligned by position"),
        ({"public": ["name"]}, None, "'name' looks like an identifier"),
        ({"min_size": 5000}, None, "fewer than min_size=5000"),
    ],
)
def test_what_a_lazy_table_cannot_have_is_refused_by_name(options, y, message):
    lazy = LAZY.with_columns(name=pl.Series([f"n{k}" for k in range(900)])).lazy()
    options = {"sensitive": "ill", "public": ["score"], **options}
    with pytest.raises((TypeError, ValueError), match=message):
        PufferfishMicroaggregator(**options).fit(lazy, y)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            "typical",
            "column 'told_by' (by 0.328 sd; a constant: 0.259) changes more than a constant in",
        ),
        ("drawn", None),
    ],
)
def test_a_column_that_changes_more_than_a_constant_is_warned_of_as_of_little_use(values, told):
    rng = np.random.default_rng(0)
    secret, group = rng.random(800) < 0.2, rng.integers(0, 4, 800)
    told_by = np.where(rng.random(800) < 0.9, secret, ~secret)  # which only moved rows hide
    table = pd.DataFrame({"a": group + rng.random(800), "b": group, "told_by": told_by})
    rows = PufferfishMicroaggregator(0.3, n_prototypes=6, values=values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows.fit(table, sensitive_features=secret)
    useless = [str(each.message) for each in caught if each.category is UtilityWarning]
    assert [told in said for said in useless] == [True] * bool(told)


def test_typical_rows_that_tell_no_more_than_constants_are_warned_of_as_of_little_use():
    table = pd.DataFrame({"a": np.tile(np.arange(8.0), 20), "b": np.tile(np.arange(5.0), 32)})
    secret = np.arange(160) % 2
    rows = PufferfishMicroaggregator(0.01, n_prototypes=6)
    with pytest.warns(UtilityWarning, match="farther from the true rows than a constant") as caught:
        rows.fit(table, sensitive_features=secret)
    assert sum(each.category is UtilityWarning for each in caught) == 1
