"""Secrets that are numbers: read in intervals, and refused where they are too many."""

import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sklearn_puffer import PufferfishNoiser, PufferfishRelease, audit, plan

N_ROWS = 900
RNG = np.random.default_rng(11)
SCORE = np.round(RNG.normal(35.0, 5.0, N_ROWS), 1)
TABLE = pd.DataFrame(
    {
        "score": SCORE,
        "x": RNG.integers(0, 4, N_ROWS) + (SCORE > 35),
        "city": np.where(RNG.random(N_ROWS) < 0.3 + 0.3 * (SCORE > 38), "north", "south"),
    }
)
EDGES = [32.5, 36.0, 90.0]  # above the last of which nobody is

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("quick_attackers"),
]


def named(edges, column=SCORE):
    """The intervals by pandas, as an independent oracle."""
    cut = pd.cut(np.asarray(column), [-np.inf, *edges, np.inf])
    ends = [f"{edge:g}" for edge in edges]
    names = [f"({a}, {b}]" for a, b in zip(["-inf", *ends], [*ends, "inf"], strict=True)]
    names[-1] = names[-1].replace("]", ")")
    return np.array(names, dtype=object)[cut.codes]


def pairs_of(fitted):
    found = fitted.certificate_.table
    return {(row.secret, row.against): row.upper for row in found.itertuples()}


MECHANISMS = {
    "laplace": {},
    "cauchy": {"noise": "cauchy", "public": "x"},
    "gaussian prior": {"prior": "gaussian", "public": "x", "delta": 1e-3},
}


@pytest.mark.parametrize(
    "mechanism",
    ["laplace", "cauchy", pytest.param("gaussian prior", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("bins", [3, EDGES], ids=["quantiles", "edges"])
def test_a_secret_in_bins_is_the_column_of_its_intervals(mechanism, bins):
    edges = np.unique(np.quantile(SCORE, [1 / 3, 2 / 3], method="lower")) if bins == 3 else bins
    own = PufferfishNoiser(1.0, sensitive={"score": bins}, **MECHANISMS[mechanism]).fit(TABLE)
    cut = PufferfishNoiser(1.0, sensitive="score", **MECHANISMS[mechanism])
    cut.fit(TABLE.assign(score=named(edges)))
    assert set(own.secret_pairs_["score"][0]) <= set(named(edges))
    assert pairs_of(own) == pytest.approx(pairs_of(cut), abs=1e-12)
    assert own.certificate_.holds


KINDS = {
    "pandas": lambda t: t,
    "whole": lambda t: t.assign(score=(10 * t.score).astype(int)),
    "Int64": lambda t: t.assign(score=(10 * t.score).astype("Int64")),
    "float32": lambda t: t.assign(score=t.score.astype(np.float32)),
    "objects": lambda t: t.assign(score=t.score.astype(object)),
    "polars": pl.from_pandas,
    "arrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_has_secrets_in_bins(kind):
    fitted = PufferfishNoiser(1.0, sensitive={"score": 3}, public="x").fit(KINDS[kind](TABLE))
    whole = PufferfishNoiser(1.0, sensitive={"score": 3}, public="x").fit(TABLE)
    assert fitted.theta_["x"] == pytest.approx(whole.theta_["x"])
    assert len(fitted.secret_pairs_["score"]) == 3


def test_positions_name_the_columns_of_an_array():
    array = TABLE[["score", "x"]].to_numpy()
    fitted = PufferfishNoiser(1.0, sensitive={0: 3}).fit(array)
    assert fitted.secret_pairs_[0][0][0].startswith("(-inf, ")
    assert fitted.transform(array).shape == (N_ROWS, 1)


def test_other_columns_keep_their_values_and_gaps_can_be_a_secret():
    gaps = TABLE.assign(score=TABLE.score.where(TABLE.index % 9 > 0), sex=TABLE.index % 2)
    noiser = PufferfishNoiser(1.0, sensitive={"score": 2, "sex": None}, missing="category")
    fitted = noiser.fit(gaps)
    assert fitted.secret_pairs_["sex"] == [(0, 1)]
    assert {label for pair in fitted.secret_pairs_["score"] for label in pair} >= {"missing"}


def test_weights_count_in_the_quantiles():
    few = TABLE.groupby(["score", "x"]).size().reset_index(name="n")
    weighted = PufferfishNoiser(1.0, sensitive={"score": 4}, public="x")
    weighted.fit(few.drop(columns="n"), sample_weight=few.n)
    plain = PufferfishNoiser(1.0, sensitive={"score": 4}, public="x").fit(TABLE)
    assert weighted.secret_pairs_ == plain.secret_pairs_
    assert weighted.theta_["x"] == pytest.approx(plain.theta_["x"])


@pytest.mark.slow
def test_an_audit_reads_the_intervals_of_fit():
    fitted = PufferfishNoiser(1.0, sensitive={"score": 2}, public=["x", "city"])
    found = audit(fitted.fit(TABLE), TABLE)
    assert {name for row in found.table[["secret", "against"]].to_numpy() for name in row} == {
        label for pair in fitted.secret_pairs_["score"] for label in pair
    }
    artifact = PufferfishRelease.from_json(fitted.to_json())
    assert len(audit(artifact, TABLE).table) == len(found.table)


REFUSED = [
    ({"score": 1}, ValueError, r"sensitive\['score'\] must be from 2 to 50 bins, got 1"),
    ({"score": 51}, ValueError, "from 2 to 50 bins, got 51"),
    ({"score": True}, TypeError, "must be a number of bins, a list of the edges .*got True"),
    ({"score": "5"}, TypeError, "must be a number of bins, .*got '5'"),
    ({"score": [3, 3]}, ValueError, "edges that are finite and ascend"),
    ({"score": [1, np.inf]}, ValueError, "edges that are finite and ascend"),
    ({"score": []}, ValueError, "edges that are finite and ascend"),
    ({"score": range(60)}, ValueError, "60 edges, and 50 intervals are the most"),
    ({"city": 2}, TypeError, r"'city'\] asks for bins, and column 'city' is category"),
    ({"town": 2}, ValueError, "sensitive names column 'town', which X does not have"),
]


@pytest.mark.parametrize(("sensitive", "error", "message"), REFUSED, ids=str)
def test_bins_that_cannot_be_are_refused_by_name(sensitive, error, message):
    with pytest.raises(error, match=message):
        PufferfishNoiser(1.0, sensitive=sensitive, public="x").fit(TABLE)


def test_a_lazy_table_is_refused_with_what_to_do():
    noiser = PufferfishNoiser(1.0, sensitive={"score": 3}, public="x")
    with pytest.raises(ValueError, match="is a lazy table; add a column of the bins in the engine"):
        noiser.fit(pl.from_pandas(TABLE).lazy())


@pytest.mark.parametrize("noise", ["laplace", "cauchy"])
def test_more_than_fifty_secrets_are_refused_at_once(noise):
    """A continuous secret ran for minutes without a word."""
    began = time.process_time()  # which other processes take nothing of
    with pytest.raises(ValueError, match=r"read numbers in bins .*'score': 5.*, merge the values"):
        PufferfishNoiser(1.0, sensitive="score", public="x", noise=noise).fit(TABLE)
    with pytest.raises(ValueError, match="and 50 are the most"):
        plan(TABLE, "score", public="x", noise=noise)
    assert time.process_time() - began < 5.0
    fifty = TABLE.assign(score=np.arange(N_ROWS) % 50)
    PufferfishNoiser(1.0, sensitive="score", public="x").fit(fifty)


@pytest.mark.slow
def test_a_plan_reads_bins_and_goes_on_without_a_value_of_two_rows():
    two = TABLE.assign(group=np.where(TABLE.index < 2, "z", np.where(TABLE.index % 2, "a", "b")))
    found = plan(two.drop(columns="score"), "group", n_prototypes=4, n_bins=2, public=["x", "city"])
    assert (found.table["verdict"][2:] != "refused").all()
    assert any("'z'" in note and "too few rows" in note for note in found.notes)
    binned = plan(TABLE, {"score": 2}, n_prototypes=4, n_bins=2, public=["x", "city"])
    assert binned.estimator(0).certificate_.holds
