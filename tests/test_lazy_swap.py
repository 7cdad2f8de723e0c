"""Swaps of lazy tables: learnt from a sample, counted in all rows, and the release in memory."""

import re
from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pytest
from clusters import MARKS
from test_swap_noiser import KEY, people, quick, rich_people, rows_of, swap

from sklearn_puffer import OverspentError, PersonLedger
from sklearn_puffer._noiser import lazy_swap, swap_release
from sklearn_puffer._noiser.swap_rows import columns_of
from sklearn_puffer._tables import Values, engine, frame_table, lazy_table, row_digests

pytestmark = [
    pytest.mark.filterwarnings("ignore:within the .* cells a fresh model still finds"),
    pytest.mark.filterwarnings("ignore:what a row tells within its cell was not measured"),
]

N_ROWS = 600
IDS = np.random.default_rng(1).permutation(N_ROWS)
ROWS = people(N_ROWS, 3).assign(client=IDS)
PUBLIC = ["age", "job", "pay"]
RICH = rich_people(N_ROWS).assign(client=IDS).reset_index(drop=True)


def polars_lazy(frame):
    return in_polars(frame).lazy()


def in_polars(frame):
    return frame if isinstance(frame, pl.DataFrame) else pl.from_pandas(frame)


def duckdb_relation(frame):
    connection = duckdb.connect()
    connection.register("rows", in_polars(frame).to_arrow())
    return connection.sql("from rows")


ENGINES = {"polars": polars_lazy, "duckdb": duckdb_relation}


@pytest.fixture(params=list(ENGINES))
def lazy(request):
    return ENGINES[request.param]


def keyed(noiser, X, **options):
    return noiser.transform(X, **{"row_id": "client", "key": KEY, **options})


def computed(plan):
    """Return what an engine computes, as polars."""
    kind = type(plan).__module__.split(".")[0]
    if kind == "polars":
        return plan.collect()
    if kind == "dask":
        return pl.from_pandas(plan.compute().reset_index(drop=True))
    if kind == "pyspark":
        return pl.from_arrow(plan.toArrow())
    return plan.pl() if hasattr(plan, "pl") else plan.to_polars()


@pytest.fixture(scope="module")
def noiser():
    return swap(public=PUBLIC).fit(ROWS)


CASES = {
    "columns of all types": (RICH, {}),
    "known values": (ROWS, {"known": "job"}),
    "rows that change places in cells": (ROWS, {"within": "shuffle"}),
    "another adversary's cells of three": (ROWS, {"cells": 3, "balance": "secrets"}),
}


def case(name):
    rows, options = CASES[name]
    public = [column for column in rows if column not in ("ill", "client")]
    noiser = quick(**{"public": public, **options}).fit(rows)
    return rows, noiser, keyed(noiser, in_polars(rows))


# -------------------------------------------------------------------------------- that of memory


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_the_release_in_memory_bit_for_bit(name):
    rows, noiser, expected = case(name)
    public = list(expected.columns)
    assert not expected.equals(in_polars(rows)[public])
    assert computed(keyed(noiser, polars_lazy(rows))).equals(expected)
    strings = expected.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    assert computed(keyed(noiser, duckdb_relation(rows))).equals(strings)


@pytest.mark.slow
def test_the_rows_are_those_that_came_and_passed_columns_stay_with_their_owners():
    table = ROWS.assign(town=np.resize(["x", "y"], N_ROWS))
    noiser = quick(public=PUBLIC, remainder="passthrough").fit(table.drop(columns="client"))
    for lazy in ENGINES.values():
        found = computed(keyed(noiser, lazy(table))).to_pandas()
        assert found["town"].tolist() == table["town"].tolist()
        assert rows_of(found) == rows_of(table[[*PUBLIC, "town"]])
        assert not found[PUBLIC].equals(table[PUBLIC])


@pytest.mark.slow
def test_another_order_and_other_parts_are_the_same_release(noiser, tmp_path):
    expected = keyed(noiser, in_polars(ROWS)).with_columns(client=IDS).sort("client")
    mixed = in_polars(ROWS.sample(frac=1.0, random_state=4))
    mixed.write_parquet(tmp_path / "rows.parquet", row_group_size=70)
    for read in (pl.scan_parquet, duckdb.connect().read_parquet):
        found = computed(keyed(noiser, read(str(tmp_path / "rows.parquet"))))
        assert found.with_columns(mixed["client"]).sort("client").equals(expected)


@pytest.mark.slow
def test_a_plan_is_one_release_however_often_it_is_computed(lazy, noiser):
    plan = keyed(noiser, lazy(ROWS), key=None)
    first = computed(plan)
    assert computed(plan).equals(first)
    assert not computed(keyed(noiser, lazy(ROWS), key=None)).equals(first)


def test_what_comes_behind_a_release_sees_the_release_alone(noiser):
    expected = keyed(noiser, in_polars(ROWS)).filter(pl.col("age") > 40).select("job")
    plan = keyed(noiser, polars_lazy(ROWS))
    assert plan.filter(pl.col("age") > 40).select("job").collect().equals(expected)
    relation = keyed(noiser, duckdb_relation(ROWS)).filter("age > 40").select("job")
    assert relation.pl().equals(expected)


@pytest.mark.slow
def test_columns_of_any_name_are_found():
    names = {"age": "^a.*$", "job": 'a"b', "pay": "stratum"}
    table = ROWS.rename(columns=names).assign(DIGEST=1, place=2, first=3)
    noiser = quick(public=[*names.values(), "DIGEST", "place", "first"]).fit(table)
    expected = keyed(noiser, in_polars(table))
    for lazy in ENGINES.values():
        assert computed(keyed(noiser, lazy(table))).equals(expected)


def test_what_engines_show_of_the_tasks_of_a_fit_holds_no_counts(monkeypatch):
    shown, planned = [], lazy_swap.plans.planned

    def listening(native, names, task):
        shown.append(repr(task))
        return planned(native, names, task)

    monkeypatch.setattr(lazy_swap.plans, "planned", listening)
    monkeypatch.setattr(lazy_swap, "MOST_LEARNT", 200)
    quick(public=PUBLIC).fit(polars_lazy(ROWS))
    assert set(shown) == {"_add_digests()", "_add_cells()"}


@pytest.mark.parametrize("dtype", [pl.UInt64, pl.String, pl.Categorical])
def test_ids_of_every_type_are_those_of_memory(noiser, dtype):
    rows = in_polars(ROWS).with_columns(pl.col("client").cast(pl.String).cast(dtype))
    expected = keyed(noiser, rows)
    for lazy in ENGINES.values():
        assert computed(keyed(noiser, lazy(rows))).equals(expected)


# -------------------------------------------------------------------------------------------- fits


@pytest.mark.slow
def test_all_engines_learn_what_is_learnt_in_memory_of_the_distinct_rows(tmp_path):
    table = ROWS.drop(columns="client")
    in_polars(table).write_parquet(tmp_path / "rows.parquet")
    table.to_csv(tmp_path / "rows.csv", index=False)
    path = str(tmp_path / "rows.parquet")
    given = [polars_lazy(table), duckdb_relation(table), path, str(tmp_path / "rows.csv")]
    given.append(pyarrow.dataset.dataset(path))
    distinct = table.groupby(list(table), as_index=False).size()
    own = quick().fit(distinct.drop(columns="size"), sample_weight=distinct["size"])
    found = {quick().fit(X).certificate_.fingerprint for X in given}
    assert found == {own.certificate_.fingerprint}
    assert own.certificate_.n_rows == N_ROWS


@pytest.mark.slow
def test_weights_of_a_lazy_table_count_copies(lazy):
    table = ROWS.drop(columns="client").assign(n=np.arange(N_ROWS) % 3)
    copies = table.loc[np.repeat(table.index, table["n"])].drop(columns="n")
    weighted = quick().fit(lazy(table), sample_weight="n")
    assert weighted.certificate_.fingerprint == quick().fit(lazy(copies)).certificate_.fingerprint


@pytest.mark.parametrize("options", [{}, {"known": "job"}, {"sensitive": ["ill", "job"]}])
def test_secrets_are_counted_in_all_rows_where_few_are_learnt_from(monkeypatch, lazy, options):
    monkeypatch.setattr(lazy_swap, "MOST_LEARNT", 200)
    table = ROWS.drop(columns="client")
    noiser = quick(**options).fit(lazy(table))
    certificate, release = noiser.certificate_, noiser._fitted.mechanism
    strata, cells = release.assigned(columns_of(frame_table(table), release.seen))
    for own in release.counted:
        expected = Counter(zip(table[own.sensitive], cells, strict=True))
        for k, label in enumerate(own.labels):
            assert own.counts[k].tolist() == [expected[label, cell] for cell in range(4)]
    assert certificate.n_rows == N_ROWS
    assert 200 <= certificate.swap.learnt < N_ROWS
    assert f"learnt from {certificate.swap.learnt} of these rows" in certificate.details()
    assert certificate.holds
    lost = [
        each.losses(own.distributions(each.cells, boxes=False))[..., 1].max()
        for each in release.solved(strata, cells)
        for own in release.counted
    ]
    assert certificate.loss == max(lost)


@pytest.mark.slow
def test_who_is_learnt_from_does_not_depend_on_the_secrets_or_the_engine(monkeypatch):
    monkeypatch.setattr(lazy_swap, "MOST_LEARNT", 200)
    table = ROWS.drop(columns="client")
    first = swap().fit(polars_lazy(table))
    again = swap().fit(duckdb_relation(table.sample(frac=1.0, random_state=2)))
    assert first.certificate_.fingerprint == again.certificate_.fingerprint
    other = table.assign(ill=np.resize(["no", "yes"], N_ROWS))
    assert quick().fit(polars_lazy(other)).certificate_.swap.learnt == (
        first.certificate_.swap.learnt
    )


# ---------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_learnt_is_refused_with_the_way_out(monkeypatch, lazy):
    table = ROWS.drop(columns="client")
    with pytest.raises(ValueError, match="one value only"):
        swap().fit(lazy(table.assign(ill="no")))
    monkeypatch.setattr(lazy_swap, "MOST_LEARNT", 50)
    rare = table.assign(ill=np.where(table.index == 7, "maybe", table["ill"]))
    with pytest.raises(ValueError, match=r"none of the 1 row\(s\) with 'maybe' .* merge rare"):
        swap().fit(lazy(rare))
    with pytest.raises(ValueError, match=r'cells="values" makes a cell of every row'):
        swap(cells="values").fit(lazy(table))


def test_what_cannot_be_released_is_refused_with_the_way_out(lazy, noiser):
    with pytest.raises(TypeError, match=r"lazy table .* row_id="):
        noiser.transform(lazy(ROWS))
    with pytest.raises(ValueError, match="X has 40 row"):
        keyed(noiser, lazy(ROWS[:40]))
    with pytest.raises(ValueError, match=r"'client' has 600 distinct ids in 601 rows"):
        keyed(noiser, lazy(pd.concat([ROWS, ROWS[:1]])))
    with pytest.raises(ValueError, match="lacks column 'age'"):
        keyed(noiser, lazy(ROWS.drop(columns="age")))
    with pytest.raises(TypeError, match=r"column 'age' holds strings .*, and held integer values"):
        keyed(noiser, lazy(ROWS.assign(age=ROWS["age"].astype(str))))
    with pytest.raises(ValueError, match=r"release=1 .* of the same people"):
        keyed(noiser, lazy(ROWS), release=1)

    class Cost:
        def between(self, x, y):
            return abs(x[:, None] - y[None]).sum(axis=2)

    with pytest.raises(ValueError, match="leave cost out"):
        keyed(quick(cost=Cost(), public=PUBLIC).fit(ROWS[:200]), lazy(ROWS))


def test_a_table_that_changed_since_is_not_released_by_polars(noiser):
    now = [in_polars(ROWS)]
    lazily = now[0].lazy().map_batches(lambda frame: now[0][frame.columns])
    plan = keyed(noiser, lazily)
    assert plan.collect().equals(keyed(noiser, now[0]))
    for change in (ROWS.assign(age=ROWS["age"] + (IDS == 5)), ROWS.assign(client=IDS + 1)):
        now[0] = in_polars(change)
        with pytest.raises(Exception, match="not the table that transform was called with"):
            plan.collect()


@pytest.mark.parametrize(
    "change", ["update people set age = age + 1 where client = 5", "insert into people {}"]
)
def test_a_table_that_changed_since_is_not_released_by_duckdb(noiser, change, capfd):
    connection = duckdb.connect()
    connection.register("rows", in_polars(ROWS).to_arrow())
    connection.sql("create table people as from rows")
    plan = keyed(noiser, connection.sql("from people"))
    assert plan.pl().equals(keyed(noiser, in_polars(ROWS)))
    connection.sql(change.format("select * replace (-1 as client) from people where client = 5"))
    with pytest.raises(duckdb.Error) as caught:
        plan.pl()
    # DuckDB 2.0.0 prints what was raised, and later ones say it
    said = f"{caught.value}{capfd.readouterr().err}"
    assert "not the table that transform was called with" in said


def test_values_do_not_stand_in_errors_and_the_key_and_flows_in_no_text(noiser):
    strange = in_polars(ROWS).with_columns(job=pl.lit("a secret word"), pay=pl.lit(float("inf")))
    with pytest.raises(Exception, match="have no place") as caught:
        computed(keyed(noiser, strange.lazy()))
    assert "inf," not in str(caught.value)
    assert "secret word" not in str(caught.value)
    for make in ENGINES.values():
        plan = keyed(noiser, make(ROWS))
        assert not re.search(r"blake2b|\d{4}|\[\d", f"{plan.explain()}")


def test_a_ledger_refuses_a_recomputation_that_finds_other_flows(noiser, tmp_path, monkeypatch):
    ledger = PersonLedger.create(tmp_path / "people.ledger", noiser, key=KEY)
    first = ledger.transform(noiser, ROWS, row_id="client", dataset="people")
    again = ledger.transform(noiser, ROWS, row_id="client", dataset="people")
    assert first.equals(again)
    solve = swap_release.mean_flows

    def otherwise(problem):
        flows = solve(problem)
        a, b = np.unravel_index(np.where(np.eye(len(flows)), 0, flows).argmax(), flows.shape)
        step = 1 << 20  # a cycle of two cells
        flows[[a, b], [b, a]] += step
        flows[[a, b], [a, b]] -= step
        return flows

    monkeypatch.setattr(swap_release, "mean_flows", otherwise)
    with pytest.raises(OverspentError):
        ledger.transform(noiser, ROWS, row_id="client", dataset="people")


# ---------------------------------------------------------------------------------------- clusters


@pytest.fixture(params=[pytest.param(name, marks=MARKS) for name in ("dask", "spark", "ibis")])
def cluster(request):
    return request.getfixturevalue(request.param)


def test_a_plan_of_a_cluster_is_the_release_in_memory(cluster):
    table = RICH.drop(columns=["town", "size"])
    rows = table[["ill", "age", "job", "pay", "kids", "smokes", "client"]]
    options = {"public": ["age", "job", "pay", "kids", "smokes"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_swap, "MOST_LEARNT", 200)
        there = swap(**options).fit(cluster(rows))
        here = swap(**options).fit(polars_lazy(rows))
    assert there.certificate_.fingerprint == here.certificate_.fingerprint
    plan, expected = keyed(there, cluster(rows)), keyed(here, in_polars(rows))
    names = list(expected.columns)
    found = computed(plan).sort(names)
    assert found.equals(expected.sort(names))
    assert computed(plan).sort(names).equals(found)


@pytest.mark.parametrize("n_rows", [1, 240, 10**6, 10**12])
def test_what_is_learnt_from_does_not_depend_on_where_the_search_begins(monkeypatch, n_rows, lazy):
    monkeypatch.setattr(lazy_swap, "MOST_LEARNT", 6)
    table = pd.DataFrame({"s": [0, 1] * 120, "t": np.arange(240) % 5, "age": np.arange(240) % 9})
    rows, whole = lazy_swap._sampled(lazy_table(lazy(table)), ["s"], ["t", "age"], n_rows)
    found = {name: rows.table.values(name).data.astype(int) for name in ("s", "t", "age")}
    columns = {name: Values("integer", table[name].to_numpy(dtype=int)) for name in ("t", "age")}
    digests = row_digests(columns)
    own = row_digests({name: Values("integer", found[name]) for name in ("t", "age")})
    smallest = np.unique(digests)[: len(np.unique(own))]
    inside = table[np.isin(digests, smallest)]
    assert whole == (len(inside) == len(table))
    assert len(smallest) > 6
    assert rows.weights.sum() == len(inside)
    kept = {*zip(*found.values(), strict=True)}
    assert kept == {*inside[["s", "t", "age"]].itertuples(index=False, name=None)}


def test_more_rows_of_so_few_public_ones_than_are_fetched_are_refused(monkeypatch, lazy):
    monkeypatch.setattr(lazy_swap, "MOST_LEARNT", 6)
    monkeypatch.setattr(engine, "MOST_CELLS", 3)
    table = pd.DataFrame({"s": np.arange(240), "age": np.arange(240) % 9})
    with pytest.raises(ValueError, match="different rows"):
        lazy_swap._sampled(lazy_table(lazy(table)), ["s"], ["age"], 240)
