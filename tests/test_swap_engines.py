"""Swaps of lazy tables: the release in memory to the byte, in shards that the theorem covers."""

import json
import math
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
from clusters import MARKS
from engine_cases import in_polars

from sklearn_puffer import OverspentError, PufferfishRelease, PufferfishSwap, UncertifiedError
from sklearn_puffer._swap import release
from sklearn_puffer._swap.exchange import StratumProblem
from sklearn_puffer._swap.release import RowExchange
from sklearn_puffer._swap.rows import Cut
from sklearn_puffer._tables import frame_table

pytestmark = MARKS
KEY = b"blake2b:this is a secret key of some bytes"
N_ROWS = 700


def _table():
    rng = np.random.default_rng(11)
    ill = rng.random(N_ROWS) < 0.4
    town = rng.choice(["Aix", "Bonn", "Cork"], N_ROWS, p=[0.5, 0.45, 0.05])
    rare = np.where(rng.random(N_ROWS) < 0.02, "unknown", np.where(ill, "yes", "no"))
    table = pd.DataFrame(
        {
            "client": rng.permutation(10 * N_ROWS)[:N_ROWS] - 100,
            "ill": np.where(town == "Bonn", rare, np.where(ill, "yes", "no")),
            "age": (60 + 5 * ill + rng.integers(0, 9, N_ROWS)).astype("int16"),
            "pay": rng.normal(10.0, 2.0, N_ROWS) + ill,
            "town": town,
            "job": rng.choice(["clerk", "Smith", "nurse"], N_ROWS),
        }
    )
    table.loc[::9, "pay"] = np.nan
    return table


TABLE = _table()


@pytest.fixture
def polars():
    return lambda frame: in_polars(frame).lazy()


@pytest.fixture(name="duckdb")
def duckdb_relation():
    connection = duckdb.connect()

    def relation(frame):
        connection.register("people", in_polars(frame).to_arrow())
        return connection.sql("from people")

    return relation


@pytest.fixture(params=["polars", "duckdb", "dask", "spark", "ibis"])
def lazy(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(RowExchange, "shard", 100)


def swap_of(**params):
    return PufferfishSwap(1.0, **{"sensitive": "ill", "ids": "client", "known": "town", **params})


def keyed(swap, X, **options):
    return swap.transform(X, **{"row_id": "client", "key": KEY, **options})


def computed(plan):
    """Return what an engine computes, in the order in which it comes."""
    kind = type(plan).__module__.split(".")[0]
    if kind == "dask":
        return pl.from_pandas(plan.compute().reset_index(drop=True))
    if kind == "pyspark":
        return pl.from_arrow(plan.toArrow())
    if kind == "polars":
        return plan.collect()
    return plan.to_polars() if kind == "ibis" else plan.pl()


def test_nan_that_the_statistics_of_a_file_leave_out_is_missing(tmp_path):
    """DuckDB believes the largest number of such a file, and that isnan is false."""
    pyarrow.parquet.write_table(in_polars(TABLE).to_arrow(), tmp_path / "people.parquet")
    relation = duckdb.connect().sql(f"from '{tmp_path}/people.parquet'")
    expected = keyed(swap_of().fit(TABLE), TABLE)
    found = computed(keyed(swap_of().fit(relation), relation)).sort("client").to_pandas()
    expected = expected.sort_values("client", ignore_index=True)
    pd.testing.assert_frame_equal(found[[*expected]], expected, check_dtype=False)


def shards_of(swap, table):
    """Return of each client the shard, by the code that swaps in memory."""
    rows = {}
    lots = release.RowChoices

    def kept(*args):
        rows["lots"] = lots(*args)
        return rows["lots"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "RowChoices", kept)
        keyed(swap_of().fit(table), table)  # in memory
    mechanism = swap._fitted.mechanism
    solved = mechanism.solved(mechanism.read(frame_table(table)), rows["lots"].order)
    return {
        client: number
        for number, each in enumerate(solved)
        for client in table["client"].to_numpy()[np.concatenate(each.groups)].tolist()
    }


@pytest.fixture(scope="module")
def in_memory():
    """Return a fitted swap as it is saved, and its release."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowExchange, "shard", 100)
        swap = swap_of()
        released = swap.fit_transform(in_polars(TABLE), row_id="client", key=KEY)
    return swap, released.sort("client")


@pytest.mark.usefixtures("small_shards")
def test_a_swap_on_an_engine_is_that_of_memory_to_the_byte(lazy, in_memory):
    swap, expected = in_memory
    X = lazy(TABLE)
    plan = keyed(PufferfishRelease.from_json(swap.to_json()), X)
    assert type(plan) is type(X)
    found = computed(plan)
    assert found.columns == expected.columns
    assert found.schema == expected.schema
    assert found.sort("client").equals(expected)


def test_a_fit_on_an_engine_is_that_of_memory(lazy):
    params = {"public": ["pay"], "known": None}
    there, here = swap_of(**params).fit(lazy(TABLE)), swap_of(**params).fit(TABLE)
    assert there.certificate_.fingerprint == here.certificate_.fingerprint
    assert there.flows_.equals(here.flows_)
    np.testing.assert_allclose(there.utility_.to_numpy(), here.utility_.to_numpy(), rtol=1e-9)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("lazy", ["polars", "duckdb"], indirect=True)
def test_the_certificate_is_of_the_rows_and_their_order_shows_no_shard(lazy, in_memory):
    own, swap, X = in_memory[0], swap_of(), lazy(TABLE)
    plan = swap.fit_transform(X, row_id="client", key=KEY)
    found = computed(plan)
    assert computed(plan).equals(found)  # each action is the same release
    # but for what is estimated of columns
    there, here = (json.loads(each.certificate_.to_json()) for each in (swap, own))
    for record in (there, here):
        record["assumptions"] = [x for x in record["assumptions"] if "few shards" not in x]
        del record["date"], record["utility"]
    assert there == here
    # neighbours are not of one shard more often than by chance
    shard = shards_of(own, TABLE)
    assert len({*shard.values()}) >= 5
    order = np.array([shard[client] for client in found["client"]])
    chance = (np.bincount(order) ** 2).sum() / len(order) ** 2
    assert (order[1:] == order[:-1]).mean() < chance + 4.0 * math.sqrt(chance / len(order))


@pytest.mark.usefixtures("small_shards")
def test_flows_of_a_fit_in_shards_are_near_those_in_memory_also_without_ids(polars):
    for params in ({}, {"ids": None, "public": ["age"]}):
        there, here = swap_of(**params).fit(polars(TABLE)), swap_of(**params).fit(TABLE)
        np.testing.assert_allclose(there.flows_.sum(axis=1), 1.0, rtol=1e-9)
        np.testing.assert_allclose(there.flows_, here.flows_, atol=0.05)
        assert there.certificate_.fingerprint == here.certificate_.fingerprint


@pytest.mark.usefixtures("small_shards")
def test_any_columns_and_parts_are_swapped_on_an_engine_as_in_memory(polars):
    merged = {"town": {"Cork": "Bonn"}}, {"maybe": ["no", "unknown"]}
    settings = [
        {"known": merged[0], "secret_groups": merged[1], "matching": "parts", "delta": 0.01},
        {"sensitive": ["ill", "job"], "known": {"age": 2}, "insiders": None},
        {"public": ["ill", "pay"], "known": None, "remainder": "passthrough"},
    ]
    for params in settings:
        expected = swap_of(**params).fit_transform(in_polars(TABLE), row_id="client", key=KEY)
        shuffled = polars(TABLE.sample(frac=1.0, random_state=3))
        swap = swap_of(**params)
        found = swap.fit_transform(shuffled, row_id="client", key=KEY).collect()
        assert found.sort("client").equals(expected.sort("client")), params
    written = PufferfishRelease.from_json(swap.to_json())
    assert keyed(written, shuffled).collect().equals(found)


@pytest.mark.parametrize("kind", ["bool", "int64", "float64"])
@pytest.mark.parametrize("lazy", ["polars", "duckdb"], indirect=True)
def test_secrets_of_any_type_are_swapped_where_a_part_has_no_rows(lazy, kind):
    table = TABLE.assign(ill=(TABLE["ill"] == "yes").astype(kind))
    for known in (None, "town"):
        expected = swap_of(known=known).fit_transform(in_polars(table), row_id="client", key=KEY)
        found = swap_of(known=known).fit_transform(lazy(table), row_id="client", key=KEY)
        assert computed(found).sort("client").equals(expected.sort("client"))


@pytest.mark.usefixtures("small_shards")
def test_parts_of_dask_hold_rows_of_all_shards(dask):
    swap = swap_of().fit(TABLE)
    plan = keyed(PufferfishRelease.from_json(swap.to_json()), dask(TABLE))
    shard = shards_of(swap, TABLE)
    parts = [plan.get_partition(k).compute()["client"] for k in range(plan.npartitions)]
    assert sum(map(len, parts)) == N_ROWS
    for part in parts:  # of ten shards or more
        assert len({shard[client] for client in part}) > 0.8 * len({*shard.values()})


# ------------------------------------------------------------------------------- the theorem


def told(solved, pairs):
    """Return the most that a row tells of its holder, in fractions, against the table's shares."""
    worst = 0.0
    for each in solved:
        sizes = np.array([len(group) for group in each.groups])
        flows = each.exchange.flows
        assert (flows.sum(axis=0) == sizes * each.exchange.unit).all()
        for exchange in each.flows:
            for row in exchange.flows.T.tolist():
                holder = [
                    Fraction(f, int(n)) for f, n in zip(row, each.stratum.people, strict=True)
                ]
                for s, t in pairs:
                    if not holder[s] or not holder[t]:
                        return math.inf
                    worst = max(worst, abs(math.log(holder[s] / holder[t])))
    return worst


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_no_row_of_a_shard_tells_more_than_the_budget_and_too_many_shards_are_found(
    epsilon, monkeypatch
):
    table = TABLE.assign(town="Aix", ill=np.where(np.arange(N_ROWS) % 50 == 0, "rare", "no"))
    swap = PufferfishSwap(epsilon, sensitive="ill", ids="client")
    mechanism = swap.fit(table)._fitted.mechanism
    rows = mechanism.read(frame_table(table))
    solved = mechanism.solved(rows)
    assert len(solved) == 1  # 14 rows bear no second shard
    assert told(solved, [(0, 1)]) <= epsilon * (1.0 + 1e-12)
    # more than 14 rows bear: no flows are within the budget of the table's shares
    monkeypatch.setattr(release, "most_pieces", lambda *args: 5)
    if epsilon < 0.5:
        with pytest.raises(UncertifiedError):
            mechanism.solved(rows)
    # and flows that are solved against a shard's own shares tell more than that
    problem = release.ExchangeProblem
    monkeypatch.setattr(
        release, "ExchangeProblem", lambda sizes, *rest: problem(sizes, *rest[:-1], sizes)
    )
    monkeypatch.setattr(release, "together", lambda pieces, sizes: pieces[0])
    broken = mechanism.solved(rows)
    assert len(broken) > 1
    assert told(broken, [(0, 1)]) > epsilon * 1.01


def test_rows_that_came_or_went_between_count_and_release_are_refused():
    stratum = StratumProblem([0, 1], np.array([6, 4]), [(0, 1, 1.0)], 2, 1)
    cut = Cut(stratum, {0: np.array([30]), 1: np.array([20])}, 0, exact=True)
    numbers = np.array([1, 2, 3, 30, 40, 50, 1, 2, 20, 30])
    groups = {0: np.arange(6), 1: np.arange(6, 10)}
    shards = np.concatenate([cut.shards(secret, numbers[rows]) for secret, rows in groups.items()])
    pieces = [{s: rows[shards[rows] == n] for s, rows in groups.items()} for n in (0, 1)]
    assert [cut.piece(n, rows)[0] for n, rows in enumerate(pieces)] == [0, 1]
    with pytest.raises(ValueError, match="X changed while it was counted"):
        cut.piece(0, {**pieces[0], 0: pieces[0][0][1:]})


# ------------------------------------------------------------------------- what is said, refused


@pytest.mark.usefixtures("small_shards")
def test_a_large_stratum_with_a_rare_secret_is_one_shard_which_the_certificate_names(polars):
    certificate = swap_of().fit(polars(TABLE)).certificate_
    [said] = [line for line in certificate.assumptions if "few shards" in line]
    n = (TABLE["town"] == "Bonn").sum()
    few = ((TABLE["town"] == "Bonn") & (TABLE["ill"] == "unknown")).sum()
    assert f"one of {n} rows into 1, as its secret 'unknown' has {few} of them" in said
    assert said in certificate.details()
    even = swap_of(known=None, secret_groups={"maybe": ["no", "unknown"]}).fit(polars(TABLE))
    assert not any("few shards" in line for line in even.certificate_.assumptions)


def test_what_needs_rows_in_memory_is_refused_in_a_sentence(polars):
    X, swap = polars(TABLE), swap_of().fit(TABLE)
    with pytest.raises(TypeError, match="name its column of ids with row_id="):
        swap.transform(X)
    with pytest.raises(ValueError, match=r"groups='job' looks at the rows of each group.*read it"):
        swap_of(groups="job").fit(X)
    with pytest.raises(ValueError, match="asks for bins, and X is a lazy table"):
        swap_of(sensitive={"pay": 3}).fit(X)
    with pytest.raises(TypeError, match="sensitive_features= is aligned by position"):
        swap_of(sensitive=None).fit(X, sensitive_features=TABLE["ill"])
    with pytest.raises(ValueError, match="exchanges people of different secrets"):
        keyed(swap, X.drop("ill"))
    with pytest.raises(ValueError, match="sensitive_features names 'job'"):
        keyed(swap, X, sensitive_features="job")
    with pytest.raises(ValueError, match=r"have the ids \('client'\) of another one"):
        swap_of().fit(polars(TABLE.assign(client=TABLE["client"] // 2)))
    with pytest.raises(ValueError, match="looks like an identifier"):
        swap_of(ids=None).fit(X)
    dated = TABLE.assign(day=pd.date_range("2020-01-01", periods=N_ROWS))
    with pytest.raises(TypeError, match="column 'day' has type Datetime"):
        swap_of(ids=["client", "day"]).fit(polars(dated))


def test_a_task_that_fails_leaves_the_connection_of_duckdb_to_others(duckdb, monkeypatch):
    swap, X = swap_of().fit(TABLE), duckdb(TABLE)
    release = PufferfishRelease.from_json(swap.to_json())
    with monkeypatch.context() as patch:
        patch.setattr(RowExchange, "permutation", None)
        with pytest.raises(ValueError, match="some rows hold values"):
            keyed(release, X)
    assert len(computed(keyed(release, X))) == N_ROWS


def test_a_second_release_of_the_same_people_is_refused_unless_it_is_the_same(polars):
    few = TABLE[:300]
    X, swap = polars(few), swap_of().fit(few)
    first = keyed(swap, X).collect()
    assert keyed(swap, X).collect().equals(first)
    in_memory = keyed(swap, in_polars(few))  # the same release, by the same object
    assert in_memory.sort("client").equals(first.sort("client"))
    for other in (X, polars(few[:200]), in_polars(few)):
        with pytest.raises(OverspentError, match="two swaps of the same people tell more together"):
            keyed(swap, other, key=b"blake2b:another secret key of some bytes")
    by_rows = swap_of(ids=None, public=["age", "pay", "job"]).fit(few)
    by_rows.transform(in_polars(few))
    with pytest.raises(OverspentError, match="has exchanged 100% of these rows before"):
        keyed(by_rows, X)
