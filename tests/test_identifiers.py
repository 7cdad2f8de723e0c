"""Columns that look like identifiers are not released, by any mechanism, from any kind of table."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser, PufferfishSwap, plan
from sklearn_puffer._codes import identifier_kind
from sklearn_puffer._tables import Values
from sklearn_puffer.cli import main

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning"),
    pytest.mark.usefixtures("quick_attackers"),
]

N = 400
RNG = np.random.default_rng(31)
ROWS = np.arange(N)
STREETS = ["Long", "High", "Church", "Mill", "New"]
SECRET = np.array(["a", "b"])[RNG.integers(0, 2, N)]

TEXTS = {
    "mails": [f"person{k}@mail.org" for k in ROWS],
    "names, 95 % unique": [f"name {k}" if k % 20 else "Smith" for k in ROWS],
    "names, 5 % twice": [f"name {k % 380}" for k in ROWS],
    "addresses": [f"{STREETS[k % 5]} Street {k // 5 % 60}" for k in ROWS],
    "free text": [f"came on day {k} and had a {STREETS[k % 5]} fever" for k in ROWS],
    "phones as text": [f"0{170_000_000 + 7919 * k}" for k in ROWS],
    "a categorical id": pd.Categorical([f"id{k}" for k in ROWS]),
    "an ordered id": pd.Categorical([f"id{k:04}" for k in ROWS], ordered=True),
    "gaps": [f"id{k}" if k % 3 else None for k in ROWS],
}
NUMBERS = {
    "phones": 170_000_000 + 7919 * RNG.permutation(N),
    "row numbers": ROWS,
    "float ids": (9000.0 + ROWS)[::-1],
}
KEPT = {
    "measured": RNG.normal(size=N),
    "ages": RNG.integers(18, 90, N),
    "incomes that repeat": RNG.integers(0, 300, N) * 100,
    "towns": [f"town {k % 40}" for k in ROWS],
    "few levels of many": pd.Categorical(
        [f"id{k % 5}" for k in ROWS], categories=[f"id{k}" for k in range(500)]
    ),
}


def table(column):
    return pd.DataFrame({"secret": SECRET, "age": RNG.integers(0, 3, N), "column": column})


def lazy(frame):
    return pl.from_pandas(frame).lazy()


ENGINES = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "lazy": lazy}
MECHANISMS = {"noise": {}, "mixture": {"prior": "gaussian"}}
TOLD = r"column 'column' looks like an identifier: .* are different; leave it out of X"


DAYS = pd.date_range("1950-01-01", periods=N).astype(str)
WAYS = {
    "dates as text": (DAYS, "parse dates (pd.to_datetime)"),
    "numbers as text": (
        [f"{k / 7:.3f}" for k in ROWS],
        "or parse numbers (pd.to_numeric) and name it in public=",
    ),
    "mails": (TEXTS["mails"], "leave it out of X or of public=, as mail addresses identify people"),
    "other text": ([f"name {k}" for k in ROWS], "merge its values"),
}
READERS = {
    "noise": lambda: PufferfishNoiser(sensitive="secret"),
    "typical rows": lambda: PufferfishMicroaggregator(sensitive="secret"),
    "a swap": lambda: PufferfishSwap(sensitive="secret"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", WAYS)
def test_text_that_is_refused_comes_with_the_way_out_whatever_releases_it(kind, reader):
    column, way = WAYS[kind]
    with pytest.raises(ValueError, match="'column' looks like an identifier") as caught:
        READERS[reader]().fit(table(column))
    said = str(caught.value)
    assert way in said
    assert "to_datetime" in way or "to_datetime" not in said
    # ids are released as they are, so that leaving out comes first
    if reader == "a swap":
        assert 0 < said.index("leave it out") < said.index("if it only names people, ids='column'")


def test_a_swap_advises_nobody_to_keep_dates_as_ids_since_they_say_something_of_people():
    days = pd.date_range("2020-01-01", periods=N)
    with pytest.raises(ValueError, match="'column' holds dates") as caught:
        READERS["a swap"]().fit(table(days))
    assert "ids=" not in str(caught.value)


@pytest.mark.slow
def test_a_plan_names_the_way_out_of_text_that_it_leaves_out():
    frame = table(0).drop(columns="column").assign(**{kind: WAYS[kind][0] for kind in WAYS})
    told = plan(frame.head(120), "secret", n_prototypes=2, n_bins=2).columns
    for kind, (_, way) in WAYS.items():
        assert way in told.loc[kind, "remark"]
        assert told.loc[kind, "use"] == "leave out"


def fit(frame, engine="pandas", **params):
    settings = {"epsilon": 3.0, "sensitive": "secret", "missing": "category"} | params
    return PufferfishNoiser(**settings).fit(ENGINES[engine](frame))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("public", [None, ["age", "column"]], ids=["all", "named"])
@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_hardly_repeats_is_refused_even_if_it_is_named(kind, public, engine):
    with pytest.raises(ValueError, match=TOLD):
        fit(table(TEXTS[kind]), engine, public=public)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("kind", NUMBERS)
def test_whole_numbers_without_repetition_are_refused_unless_they_are_named(
    kind, mechanism, engine
):
    params = MECHANISMS[mechanism] | {"missing": "error"}
    with pytest.raises(ValueError, match=TOLD + ", or name it in public="):
        fit(table(NUMBERS[kind]), engine, **params)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whole_numbers_that_are_named_are_released(mechanism):
    frame = table(NUMBERS["phones"]).head(60)
    params = MECHANISMS[mechanism] | {"missing": "error", "public": ["column"]}
    assert list(fit(frame, **params).utility_.index) == ["column"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEPT)
def test_measured_numbers_and_values_that_repeat_are_released(kind):
    frame = table(KEPT[kind])
    assert "column" in fit(frame, n_bins=3).utility_.index


def test_whole_numbers_in_bins_are_no_identifiers():
    assert "column" in fit(table(NUMBERS["phones"]), n_bins=4).utility_.index


def test_arrays_are_checked_by_position():
    rows = np.column_stack([SECRET.astype(object), RNG.integers(0, 3, N), TEXTS["mails"]])
    with pytest.raises(ValueError, match="column 2 looks like an identifier"):
        PufferfishNoiser(sensitive=0).fit(rows)


def test_weights_count_copies_of_a_value():
    frame = table(TEXTS["mails"])
    noiser = PufferfishNoiser(50.0, sensitive="secret", public="column")
    assert noiser.fit(frame, sample_weight=np.full(N, 5)).certificate_.holds
    with pytest.raises(ValueError, match="400 values in 402 rows"):
        noiser.fit(frame, sample_weight=1 + (ROWS < 2))


@pytest.mark.parametrize("kind", [*TEXTS, *NUMBERS])
def test_the_command_line_refuses_them(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table({**TEXTS, **NUMBERS}[kind]).dropna().to_csv("rows.csv", index=False)
    assert main(["fit", "rows.csv", "n.json", "--sensitive", "secret", "--epsilon", "1"]) != 0
    assert re.search(r"'column' looks like an identifier.*leave it out", capsys.readouterr().err)
    assert not (tmp_path / "n.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "public"),
    [
        ("mails", None),
        ("mails", ["age", "column"]),
        ("a categorical id", ["age", "column"]),
        ("phones", None),
    ],
)
def test_a_plan_leaves_them_out_by_name(kind, public):
    frame = table({**TEXTS, **NUMBERS}[kind])
    found = plan(frame, "secret", public=public, n_prototypes=4, n_bins=3, epsilon=3.0)
    [fact] = [fact for fact in found.facts if fact.name == "column"]
    assert (fact.use, "look like an identifier" in fact.remark) == ("leave out", True)
    assert "column" in str(found)
    assert list(found.estimator(0).utility_.index) == ["age"]


@pytest.mark.parametrize("n_rows", [1000])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.52, 0.9, 0.951, 1.0])
def test_the_two_thresholds_are_a_half_and_nineteen_twentieths(share, n_rows):
    numbers = np.minimum(np.arange(n_rows), share * n_rows - 1).astype(int)
    distinct = len(np.unique(numbers))
    assert (identifier_kind(Values("integer", numbers)) == "number") == (distinct > 950)
    levels = tuple(map(str, range(n_rows)))
    text = Values("category", numbers, levels=levels)
    assert (identifier_kind(text) == "text") == (distinct > 500)
    few = Values("category", np.arange(19), levels=levels)
    assert not identifier_kind(few)
