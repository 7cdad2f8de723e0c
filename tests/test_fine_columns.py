"""Columns of more numbers than are fetched: their bins are found by cells, and are those of all."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine_cases import duckdb_relation, outcome, polars_lazy
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._tables import coarse, engine, refining
from sklearn_puffer._tables.alphabets import quantile_bins

N = 1500


def _columns():
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, N)
    normal = rng.normal(size=N) + 3 * secret
    frame = pd.DataFrame({"s": secret, "normal": normal})
    frame["whole"] = rng.integers(-400, 400, N) + 300 * secret
    frame["single"] = np.exp(2 * normal).astype(np.float32)
    frame["ties"] = np.where(rng.random(N) < 0.4 + 0.5 * secret, -0.0, normal)
    frame["far"] = np.where(np.arange(N) == 5, 1e30, normal)
    frame["wide"] = np.exp(rng.uniform(-200, 200, N)) * np.where(secret, 1.0, -1.0)
    frame["gap"] = np.where(rng.random(N) < 0.2 + 0.6 * secret, normal - 1e9, normal * 1e-9)
    frame["small"] = (rng.integers(0, 150, N) + 90 * secret).astype(np.uint8)
    frame["near"] = 1.0 + np.argsort(np.argsort(normal)) * 2.0**-52  # no two of them can be closer
    return frame


FRAME = _columns()
PUBLIC = list(FRAME.columns[1:])


@pytest.fixture(params=[polars_lazy, duckdb_relation])
def lazy(request):
    return request.param


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(coarse, "MOST_DISTINCT", 64)


def agree(X, name, n_bins):
    options = {"sensitive": "s", "public": [name], "n_bins": n_bins}
    expected = outcome(FRAME, **options)
    assert len(expected) == 5
    assert outcome(X, **options) == expected


@pytest.mark.parametrize("name", PUBLIC)
def test_a_fit_on_cells_is_that_of_pandas_to_the_byte(name):
    agree(polars_lazy(FRAME), name, 3)


@pytest.mark.parametrize("name", ["single", "ties"])
def test_a_fit_on_cells_is_that_of_pandas_in_duckdb(name):
    agree(duckdb_relation(FRAME), name, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_a_fit_on_cells_is_that_of_pandas_with_few_and_many_bins(lazy, name):
    for n_bins in (2, 8):
        agree(lazy(FRAME), name, n_bins)


def test_several_columns_whose_noise_depends_on_their_spreads_are_those_of_pandas(lazy):
    public = ["normal", "whole", "single", "ties"]
    options = {"sensitive": "s", "public": public, "n_bins": 3, "dependence": "independent"}
    assert outcome(lazy(FRAME), **options) == outcome(FRAME, **options)


@pytest.mark.parametrize("output", ["noisy", pytest.param("remapped", marks=pytest.mark.slow)])
def test_missing_values_stay_beside_the_cells(lazy, output):
    gaps = FRAME.assign(
        normal=FRAME["normal"].mask(FRAME.index % 7 == 0),
        whole=FRAME["whole"].astype("Int64").mask(FRAME.index % 5 == 0),
        x=FRAME["normal"].mask(FRAME.index % 3 == 0),
    )
    options = {"sensitive": "s", "missing": "propagate", "n_bins": 4, "output": output}
    for name in ("normal", "whole", "x"):
        each = {"public": [name], **options}
        assert outcome(lazy(gaps), **each) == outcome(gaps, **each)


@pytest.mark.filterwarnings("ignore:column 'ties' falls into")
@pytest.mark.parametrize("name", ["normal", "whole", "ties"])
def test_weights_count_in_cells_as_rows_do(lazy, name):
    weights = np.arange(N) % 6 * 40
    weighted = FRAME[["s", name]].assign(w=weights)
    noiser = PufferfishNoiser(1.0, sensitive="s", public=[name], n_bins=5)
    seen = []
    for X, w in ((lazy(weighted), "w"), (FRAME[["s", name]], weights)):
        noiser.fit(X, sample_weight=w)
        seen.append((noiser.theta_.to_dict(), noiser.utility_.to_dict(), noiser.priors_))
    assert repr(seen[0]) == repr(seen[1])
    assert seen[0][0][name] > 0
    assert seen[0][2] == seen[1][2]


def _refined(X, name, n_bins):
    table = engine.lazy_table(X)
    table.values("s")
    return table.values(name, n_bins)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "ties"])
def test_edges_and_medians_are_those_that_pandas_finds_in_all_rows(lazy, name):
    found = _refined(lazy(FRAME), name, 5)
    assert found.coarse
    assert int(found.counts.sum()) == N
    numbers = np.asarray(found.data, dtype=float)
    bins = quantile_bins(numbers, found.counts, 5, whole=FRAME[name].dtype.kind in "iu")
    all_rows = FRAME[name].astype(float)
    ordered = np.sort(all_rows)
    edges = [ordered[(N - 1) * b // 5] for b in range(1, 5)]
    assert bins.edges.tolist() == np.unique(edges).tolist()
    codes = np.searchsorted(bins.edges, all_rows)
    lower = [np.sort(all_rows[codes == k])[(np.sum(codes == k) - 1) // 2] for k in range(5)]
    upper = [np.sort(all_rows[codes == k])[np.sum(codes == k) // 2] for k in range(5)]
    whole = FRAME[name].dtype.kind in "iu"
    middles = (
        lower
        if whole
        else [a if a == b else a / 2 + b / 2 for a, b in zip(lower, upper, strict=True)]
    )
    assert bins.values.tolist() == middles


def test_fetched_are_fewer_groups_than_there_are_numbers(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"s": rng.integers(0, 2, 100_000), "x": rng.normal(size=100_000)})
    monkeypatch.setattr(coarse, "MOST_DISTINCT", 1 << 12)
    scans, fetched = [], []

    def scan(part):
        scans.append(len(part))
        return part

    collected = engine._collected

    def counted(query):
        found = collected(query)
        fetched.append(len(found))
        return found

    monkeypatch.setattr(engine, "_collected", counted)
    whole = {"schema": frame.schema, "projection_pushdown": False}
    _refined(frame.lazy().map_batches(scan, **whole), "x", 5)
    # the secret, the attempt to fetch all, the range, the cells and what is in a few of them
    assert len(scans) == 5
    assert max(fetched) <= (1 << 12) + 3


def test_columns_without_bins_and_labels_are_refused_by_name(lazy):
    labels = FRAME.assign(word=[f"w{k}" for k in range(N)])
    public = ["normal", "whole"]
    for n_bins, dependence in (({"whole": 4}, "joint"), (None, "independent")):
        noiser = PufferfishNoiser(1.0, sensitive="s", public=public, n_bins=n_bins)
        noiser.set_params(dependence=dependence)
        with pytest.raises(ValueError, match=r"'normal' has more than 64 distinct.*n_bins=, round"):
            noiser.fit(lazy(FRAME))
    with pytest.raises(ValueError, match="'word' has more than 64 distinct"):
        PufferfishNoiser(1.0, sensitive="s", public=["word"], n_bins=4).fit(lazy(labels))
    with pytest.raises(ValueError, match="'normal' has more than 64 distinct"):
        PufferfishNoiser(1.0, sensitive="s", public=["normal"], n_bins=9).fit(lazy(FRAME))


ODD = {"infinity": np.inf, "beyond": 1e200, "far beyond": -1.7e308}


@pytest.mark.parametrize("value", [*ODD.values(), 2**60], ids=[*ODD, "no float"])
def test_numbers_that_are_refused_are_refused_as_in_memory(lazy, value):
    name = "whole" if isinstance(value, int) else "normal"
    frame = FRAME.copy()
    frame.loc[3, name] = value
    options = {"sensitive": "s", "public": [name], "n_bins": 3}
    kind, message = outcome(frame, **options)
    assert kind is ValueError
    assert outcome(lazy(frame), **options) == (kind, message)


def test_a_table_that_gives_other_numbers_each_time_is_refused():
    connection = duckdb.connect()
    drawn = connection.sql("select i % 2 as s, random() as x from range(2000) t(i)")
    fewer = connection.sql(
        "select i % 2 as s, i::double as x from range(2000) t(i) where random() < 0.5"
    )
    for X in (drawn, fewer):
        noiser = PufferfishNoiser(1.0, sensitive="s", public=["x"], n_bins=4)
        with pytest.raises(ValueError, match="X changed while it was counted"):
            noiser.fit(X)


def test_numbers_too_close_to_be_cut_apart_are_refused_by_name(lazy):
    tiny = FRAME.assign(normal=np.append(np.arange(N - 1) * 5e-324, 1.0))
    options = {"sensitive": "s", "public": ["normal"], "n_bins": 3}
    with pytest.raises(ValueError, match="'normal' has more than 64 distinct"):
        PufferfishNoiser(1.0, **options).fit(lazy(tiny))


@given(
    st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=60, unique=True),
    st.integers(1, 50),
    st.lists(st.booleans(), max_size=60),
)
def test_cells_of_their_ends_are_the_cells_of_all_numbers(numbers, most, kept):
    atoms = np.unique(np.array(numbers) + 0.0)
    counts = np.arange(1, len(atoms) + 1)
    starts = coarse._starts_of_cells(atoms, counts)
    edges = atoms[:: most + 1][:-1]
    expected = coarse.coarse(atoms, counts, edges, whole=False)
    stops = np.append(starts[1:], len(atoms)) - 1
    ends = np.zeros(len(atoms), dtype=bool)
    ends[starts] = ends[stops] = True
    ends[: len(kept)] |= np.array(kept, dtype=bool)[: len(atoms)]
    beside = np.searchsorted(atoms, edges)
    ends[beside] = ends[np.minimum(beside + 1, len(atoms) - 1)] = True
    places = np.maximum.accumulate(np.where(ends, np.arange(len(atoms)), -1))
    fewer = np.bincount(places, counts, len(atoms)).astype(np.int64)[ends]
    found = coarse.coarse(atoms[ends], fewer, edges, whole=False)
    assert found[0].tolist() == expected[0].tolist()
    assert found[1].tolist() == expected[1].tolist()


def test_middles_of_cells_are_close_to_what_they_stand_for(monkeypatch):
    rng = np.random.default_rng(1)
    atoms = np.unique(rng.normal(size=50_000))
    counts = np.ones(len(atoms), dtype=np.int64)
    monkeypatch.setattr(coarse, "MOST_DISTINCT", 1 << 14)
    middles, held = coarse.coarse(atoms, counts, np.array([0.3]), whole=False)
    assert len(middles) < 5000
    width = np.ptp(atoms) / 4096
    stood_for = np.repeat(middles, held)
    assert np.abs(stood_for - atoms).max() <= width / 2
    assert (held[middles <= 0.3].sum()) == np.sum(atoms <= 0.3)
    assert (np.diff(middles) > 0).all()


def test_whole_numbers_stay_whole():
    atoms = np.arange(-500.0, 500.0)
    middles, held = coarse.coarse(atoms, np.ones(1000, dtype=int), np.zeros(1), whole=True)
    assert (middles % 1 == 0).all()
    assert held.sum() == 1000
    assert refining.may_refine(8)
    assert not refining.may_refine(None)


@pytest.mark.parametrize("looked_at", [32, 1 << 16])
def test_columns_that_are_too_fine_are_known_from_their_first_rows(monkeypatch, looked_at):
    monkeypatch.setattr(engine, "MOST_CELLS", 1000)
    monkeypatch.setattr(engine, "_LOOKED_AT", looked_at)
    # nobody waits for the groups of all of them
    rows = "range(100000000000000) t(i)"
    endless = duckdb.connect().sql(f"select i % 2 as s, i::double as x from {rows}")
    table = engine.lazy_table(endless)
    assert not table.count_rows(["s", "x"])
    with pytest.raises(ValueError, match="'x' has more than 64 distinct"):
        table.values("x")


@pytest.mark.parametrize("n_rows", [9, 10, 21, 22, 23, 60])
@pytest.mark.parametrize("looked_at", [4, 1 << 16])
def test_rows_beyond_the_first_ones_are_counted_with_them(lazy, monkeypatch, n_rows, looked_at):
    monkeypatch.setattr(engine, "MOST_CELLS", 10)
    monkeypatch.setattr(engine, "_LOOKED_AT", looked_at)
    monkeypatch.setattr(engine, "_REPEATED", 2)
    rows = np.arange(n_rows)
    frame = pd.DataFrame({"s": rows % 2, "x": rows * 10 // n_rows / 2.0, "w": rows % 3})
    for weight in (None, "w"):
        table = engine.lazy_table(lazy(frame), weight)
        assert table.count_rows(["x"])
        of_group = table.values("x")
        numbers = np.ones(n_rows) if weight is None else frame["w"]
        sums = numbers.groupby(frame["x"]).sum() if weight else frame["x"].value_counts()
        found = dict(zip(of_group.data.tolist(), of_group.counts.tolist(), strict=True))
        assert found == sums[sums > 0].to_dict()
