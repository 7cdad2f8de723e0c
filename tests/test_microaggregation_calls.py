"""Typical rows as users call for them: from Pipelines, in other processes, and of odd tables."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
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

from sklearn_puffer import PufferfishMicroaggregator, PufferfishSwap, audit, report

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


_ELSEWHERE = """
import sys, joblib, pandas
from pathlib import Path
from sklearn_puffer import PufferfishRelease
folder = Path(sys.argv[1])
rows = pandas.read_pickle(folder / "rows")
for n, copy in enumerate([joblib.load(folder / "fitted"),
                          PufferfishRelease.from_json((folder / "json").read_text())]):
    released = copy.transform(rows, row_id="number", key=b"blake2b:" + bytes(range(24)))
    released.to_pickle(folder / f"released{n}")
"""


@pytest.mark.slow
def test_another_process_releases_alike_from_json_and_joblib(release, tmp_path):
    rows = patients(80, seed=2).drop(columns="ill").assign(number=range(80))
    rows.to_pickle(tmp_path / "rows")
    joblib.dump(release, tmp_path / "fitted")
    release.to_json(tmp_path / "json")
    here = release.transform(rows, row_id="number", key=KEY)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    script = [sys.executable, "-c", _ELSEWHERE, str(tmp_path)]
    subprocess.run(script, check=True, timeout=120, env=environment)
    for name in ("released0", "released1"):
        pd.testing.assert_frame_equal(pd.read_pickle(tmp_path / name), here)


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
        (UNDATED[:0], "0 row"),
        (UNDATED[:29], r"29 rows, fewer than min_size=30"),
        (UNDATED.assign(ill="yes"), r"'ill' has one value only"),
        (UNDATED[["ill"]], r"1 column\(s\)"),
        (UNDATED.assign(number=np.arange(600)), r"'number' looks like an identifier"),
        (UNDATED.assign(dose=[1.0, np.inf] * 300), r"'dose' contains infinity"),
    ],
)
def test_tables_that_cannot_be_are_refused_by_name(table, message):
    with pytest.raises(ValueError, match=message):
        PufferfishMicroaggregator(sensitive="ill").fit(table)


def test_a_lazy_table_is_not_fitted_and_the_way_out_is_one_of_fit():
    lazy = pl.DataFrame({"ill": [0, 1], "age": [1, 2]}).lazy()
    with pytest.raises(TypeError, match=r"fit on X\.collect\(\)") as caught:
        PufferfishMicroaggregator(sensitive="ill").fit(lazy)
    assert "row_id" not in str(caught.value)


@pytest.mark.parametrize("kind", [PufferfishMicroaggregator, PufferfishSwap])
@pytest.mark.parametrize("page", [report, audit])
def test_pages_that_have_no_words_for_a_mechanism_yet_refuse_it_by_name(page, kind):
    table = patients()[["ill", "age"]].assign(id=range(600))
    options = {"ids": "id"} if kind is PufferfishSwap else {}
    release = kind(sensitive="ill", public=["age"], **options).fit(table)
    with pytest.raises(TypeError, match=f"PufferfishNoiser fits, and {kind.__name__} releases"):
        page(release, table) if page is audit else page(release)
