"""Plans on engines: a lazy release is the keyed one in memory, bit for bit, and hides its key."""

import copy
import logging
import pickle
import re
import traceback
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
from claims import altered
from release_cases import (
    CASES,
    KEY,
    SECRET,
    TABLE,
    case,
    fitted,
    ids_that_differ,
    keyed,
    table_of_ids,
)

from sklearn_puffer import PufferfishRelease, UncertifiedError
from sklearn_puffer._noiser.artifact import NoiseOfColumns
from sklearn_puffer._release import out_of_memory


def polars_lazy(frame):
    return frame.lazy()


def duckdb_relation(frame):
    connection = duckdb.connect()
    connection.register("rows", frame.to_arrow())
    return connection.sql("from rows")


ENGINES = {"polars": polars_lazy, "duckdb": duckdb_relation}


@pytest.fixture(params=list(ENGINES))
def lazy(request):
    return ENGINES[request.param]


def computed(plan):
    """Return what an engine computes, as a polars DataFrame."""
    return plan.collect() if isinstance(plan, pl.LazyFrame) else plan.pl()


@pytest.fixture(scope="module")
def noiser():
    return fitted()


@pytest.fixture(scope="module")
def twice():
    return fitted(releases=2)


@pytest.fixture(scope="module")
def passing():
    """Return a noiser that hands the ids through, by which parts can be put together again."""
    return fitted(remainder="passthrough")


# ------------------------------------------------------------------------------ that of memory

MORE = pl.from_pandas(TABLE).with_columns(
    day=pl.date(2026, 1, 1), at=pl.datetime(2026, 1, 1, 12), far=pl.lit(2**62 + 1), none=None
)


@pytest.mark.parametrize(
    ("lazy", "name"),
    [*product(["polars"], CASES), *product(["duckdb"], [*CASES][::2])],
    indirect=["lazy"],
)
def test_a_plan_is_the_release_in_memory_bit_for_bit(lazy, name):
    noiser, rows, expected = case(name)
    plan = keyed(noiser, lazy(rows))
    assert type(plan) is type(lazy(rows))
    found = computed(plan)
    assert found.equals(expected)
    assert found.schema == expected.schema
    if isinstance(plan, pl.LazyFrame):
        assert plan.collect_schema() == expected.schema


def test_passed_columns_of_all_types_come_back_as_they_are(lazy):
    extra = ["day", "at", "far"]
    noiser = fitted(MORE.drop("none").to_pandas(), remainder="passthrough")
    found = computed(keyed(noiser, lazy(MORE.select(pl.exclude("none")))))
    assert found.select(extra).equals(MORE.select(extra))
    assert found["client"].to_list() == TABLE["client"].to_list()


@pytest.mark.parametrize("unknown", ["auto", "nearest"])
def test_values_that_move_or_become_another_do_so_as_in_memory(lazy, unknown):
    noiser = fitted(public=["age", "town"], unknown=unknown)
    new = {"age": np.int16(99)} | ({} if unknown == "auto" else {"town": "Delft"})
    rows = pl.from_pandas(TABLE.assign(**new))
    with pytest.warns(UserWarning, match="moved values"):
        expected = keyed(noiser, rows)
    assert computed(keyed(noiser, lazy(rows))).equals(expected)


@pytest.mark.parametrize("dtype", [pl.UInt64, pl.String, pl.Categorical, pl.Int32])
def test_ids_of_every_type_are_those_of_memory(lazy, noiser, dtype):
    rows = pl.from_pandas(TABLE).with_columns(pl.col("client") + 200)
    rows = rows.with_columns(pl.col("client").cast(pl.String).cast(dtype))
    assert computed(keyed(noiser, lazy(rows))).equals(keyed(noiser, rows))


@pytest.mark.slow
def test_ids_of_a_file_are_those_of_memory(tmp_path):
    path = str(tmp_path / "rows.parquet")
    pyarrow.parquet.write_table(table_of_ids(), path, row_group_size=80)
    columns = table_of_ids().column_names
    engines = [lambda: pl.scan_parquet(path), lambda: duckdb.connect().read_parquet(path)]
    for read in engines:
        assert ids_that_differ(read, computed, columns) == []
    for read in (pl.read_parquet, pyarrow.parquet.read_table, pd.read_parquet):
        assert ids_that_differ(lambda read=read: read(path), lambda found: found, columns) == []


def test_ids_pass_through_duckdb_as_they_are():
    own = table_of_ids()
    noiser = fitted(own, public=["age"], remainder="passthrough")
    relation = duckdb.from_arrow(own)
    plan = keyed(noiser, relation, row_id="number")
    names = [name for name in own.column_names if name not in ("secret", "age")]
    passed, own = plan.select(*names), relation.select(*names)
    assert passed.types == own.types
    assert passed.order("number").to_arrow_table().equals(own.order("number").to_arrow_table())


def test_a_fit_on_an_engine_is_released_there(lazy):
    rows = lazy(pl.from_pandas(TABLE))
    noiser = fitted(rows, public=["age", "town"])
    expected = keyed(fitted(public=["age", "town"]), pl.from_pandas(TABLE))
    assert computed(keyed(noiser, rows)).equals(expected)


def test_a_form_makes_the_same_plan(lazy, noiser):
    rows = pl.from_pandas(TABLE)
    release = PufferfishRelease.from_json(noiser.to_json())
    assert computed(keyed(release, lazy(rows))).equals(keyed(noiser, rows))


@pytest.mark.parametrize("dtype", [pl.Enum(["Aix", "Bonn", "Cork"]), pl.Categorical])
def test_declared_labels_keep_their_type_in_polars_and_are_strings_in_duckdb(dtype):
    rows = pl.from_pandas(TABLE).with_columns(pl.col("town").cast(dtype))
    noiser = fitted(rows)
    expected = keyed(noiser, rows)
    found = computed(keyed(noiser, rows.lazy()))
    assert found.schema == expected.schema
    assert found.equals(expected)
    strings = expected.with_columns(pl.col("town").cast(pl.String))
    assert computed(keyed(noiser, duckdb_relation(rows))).equals(strings)


def test_ids_that_a_collation_takes_for_equal_are_two_ids(noiser):
    names = [f"{'aA'[k % 2]}{k // 2}" for k in range(len(TABLE))]
    rows = pl.from_pandas(TABLE.assign(client=names))
    connection = duckdb.connect()
    connection.register("rows", rows.to_arrow())
    folded = connection.sql("select * replace (client collate nocase as client) from rows")
    assert computed(keyed(noiser, folded)).equals(keyed(noiser, rows))


def test_what_would_not_come_back_from_python_as_it_was_is_refused(passing):
    nested = "select * replace ([town] as short) from rows"
    connection = duckdb.connect()
    connection.register("rows", pl.from_pandas(TABLE).to_arrow())
    with pytest.raises(TypeError, match=r"column 'short' has type VARCHAR.*drop it from"):
        keyed(passing, connection.sql(nested))


def test_large_integers_beside_missing_ones_pass_as_they_are(lazy):
    large = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(2**60 + 1))
    rows = pl.from_pandas(TABLE).with_columns(large=large)
    noiser = fitted(rows, remainder="passthrough")
    assert computed(keyed(noiser, lazy(rows)))["large"].equals(rows["large"])


HOSTILE = ["^a.*$", "0", "no 0", 'a"b', "a.b", " ", "select", "\u00e9\U0001f600"]


def test_columns_of_any_name_are_found(lazy):
    values = {name: [1, 2, 3, 1] * 60 for name in HOSTILE}
    rows = pl.DataFrame({"secret": ["a", "b"] * 120, "client": range(240), **values})
    noiser = fitted(rows, public=HOSTILE)
    assert computed(keyed(noiser, lazy(rows))).equals(keyed(noiser, rows))


# --------------------------------------------------------------------------- computed again


def by_id(frame):
    return frame.sort("client")


def test_other_parts_and_another_order_are_the_same_release(lazy, passing, tmp_path):
    rows = pl.from_pandas(TABLE)
    whole = by_id(keyed(passing, rows))
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=1)
    for part in range(4):
        shuffled[60 * part : 60 * part + 60].write_parquet(tmp_path / f"{part}.parquet")
    files = f"{tmp_path}/*.parquet"
    plans = [lazy(shuffled), pl.scan_parquet(files), duckdb.connect().sql(f"from '{files}'")]
    for X in plans:
        assert by_id(computed(keyed(passing, X))).equals(whole)
    assert by_id(keyed(passing, pl.scan_parquet(files)).collect(engine="streaming")).equals(whole)


@pytest.mark.parametrize("key", [KEY, None])
def test_two_actions_on_one_plan_are_one_release(lazy, noiser, key):
    rows = lazy(pl.from_pandas(TABLE))
    plan = keyed(noiser, rows, key=key)
    assert computed(plan).equals(computed(plan))
    again = computed(keyed(noiser, rows, key=key))
    assert again.equals(computed(plan)) == (key is not None)


def test_a_retry_after_a_failure_shows_nothing_new(lazy, passing):
    seen = []

    def send(part):
        seen.append(pl.from_pandas(part) if isinstance(part, pd.DataFrame) else part)
        if len(seen) == 1:
            raise OSError("the line broke after the rows were sent")
        return part

    plan = keyed(passing, lazy(pl.from_pandas(TABLE)))
    if isinstance(plan, pl.LazyFrame):
        sent = plan.map_batches(send, schema=plan.collect_schema())
    else:
        sent = plan.map(send, schema=dict(zip(plan.columns, map(str, plan.types), strict=True)))
    with pytest.raises(Exception, match=r"the line broke|Python error"):
        computed(sent)
    computed(sent)
    assert len(seen) == 2
    assert seen[0].equals(seen[1])


def test_what_comes_behind_a_release_sees_the_release_alone(lazy, noiser):
    plan = keyed(noiser, lazy(pl.from_pandas(TABLE)))
    expected = keyed(noiser, pl.from_pandas(TABLE))
    some = (
        plan.filter(pl.col("age") > 24)
        if isinstance(plan, pl.LazyFrame)
        else plan.filter("age > 24")
    )
    assert computed(some).equals(expected.filter(pl.col("age") > 24))
    assert computed(plan.select("town")).equals(expected.select("town"))
    few = plan.slice(100, 20) if isinstance(plan, pl.LazyFrame) else plan.limit(20, 100)
    assert computed(few).equals(expected[100:120])


@pytest.mark.parametrize("options", [{"dataset": "b"}, {"release": 1}, {"key": KEY + b"!"}])
def test_another_context_is_that_of_memory(lazy, twice, options):
    rows = pl.from_pandas(TABLE)
    found = computed(keyed(twice, lazy(rows), **options))
    assert found.equals(keyed(twice, rows, **options))
    assert not found.equals(keyed(twice, rows))


# ------------------------------------------------------------------------------------- the key


def refusal(plan, capfd):
    """Return all that is shown where a task refuses: DuckDB prints what a task raises."""
    with pytest.raises(Exception, match=r".") as caught:
        computed(plan)
    chain, fault = [], caught.value
    while fault is not None:
        chain.append(repr(fault))
        fault = fault.__cause__ or fault.__context__
    return "".join([*traceback.format_exception(caught.value), *chain, *capfd.readouterr()])


def texts_of(plan):
    kinds = ("explain", "show_graph", "sql_query")
    yield from (
        repr(plan),
        str(plan),
        f"{plan}",
        f"{vars(plan) if hasattr(plan, '__dict__') else ''}",
    )
    yield from (str(getattr(plan, each)()) for each in kinds[:1])


def test_the_key_is_nowhere_but_in_the_plan(lazy, caplog, capfd):
    noiser = fitted(public=["age"])
    with caplog.at_level(logging.DEBUG):
        plan = keyed(noiser, lazy(pl.from_pandas(TABLE)))
        computed(plan)
    noted = capfd.readouterr()
    own = repr(noiser), noiser.certificate_.details(), noiser.to_json(), caplog.text, *noted
    assert SECRET not in pickle.dumps(noiser)
    for text in (*own, *texts_of(plan)):
        assert SECRET.decode() not in text


def test_a_task_shows_its_key_to_nobody_who_prints_it():
    key = out_of_memory.shipped_key(KEY, KEY)
    task = out_of_memory.PartRelease(NoiseOfColumns, "{}", key, "context", "client")
    for shown in (f"{task!r}", f"{task}", f"{key!r}", f"{key}", f"{key!s:>9}", f"{[task, key]}"):
        assert "secret" not in shown
    assert SECRET in pickle.dumps(task)  # who reads the plan reads the key


def test_a_task_holds_no_priors(noiser):
    text = noiser.to_json()
    key = out_of_memory.shipped_key(KEY, KEY)
    assert (
        len(pickle.dumps(out_of_memory.PartRelease(NoiseOfColumns, text, key, "", "client")))
        < len(text) + 500
    )


def test_a_variable_is_shipped_by_its_name_and_read_where_a_part_is(
    lazy, noiser, monkeypatch, capfd
):
    monkeypatch.setenv("PUFFER_TEST_KEY", KEY.decode())
    rows = pl.from_pandas(TABLE)
    plan = keyed(noiser, lazy(rows), key="env:PUFFER_TEST_KEY")
    assert computed(plan).equals(keyed(noiser, rows))
    monkeypatch.setenv("PUFFER_TEST_KEY", KEY.decode() + "other")
    assert "'PUFFER_TEST_KEY', which holds another key in this task" in refusal(plan, capfd)
    monkeypatch.delenv("PUFFER_TEST_KEY")
    said = refusal(plan, capfd)
    assert "'PUFFER_TEST_KEY', which is not set" in said
    assert "secret" not in said
    key = out_of_memory.shipped_key("env:PUFFER_TEST_KEY", KEY)
    assert SECRET not in pickle.dumps(key)


def test_files_hold_keys_that_tasks_need_not_find(lazy, noiser, tmp_path):
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    rows = pl.from_pandas(TABLE)
    plan = keyed(noiser, lazy(rows), key=path)
    path.unlink()
    assert computed(plan).equals(keyed(noiser, rows))


# --------------------------------------------------------------------------- what is refused

NO_PLACE = {
    "age": ({"age": np.int16(999)}, "999"),
    "town": ({"town": "Zanzibar"}, "Zanzibar"),
    "income": ({"income": np.inf}, "inf,"),
}


@pytest.mark.parametrize("column", NO_PLACE)
def test_a_value_without_a_place_is_refused_without_being_shown(lazy, noiser, column, capfd):
    change, value = NO_PLACE[column]
    strict = copy.copy(noiser).set_params(unknown="error")
    plan = keyed(strict, lazy(pl.from_pandas(TABLE.assign(**change))))
    said = refusal(plan, capfd)
    assert f"column '{column}' holds values" in said
    assert value not in said
    assert "secret key" not in said


def test_without_ids_a_lazy_table_is_refused_and_the_ways_out_are_named(lazy, noiser):
    with pytest.raises(TypeError, match=r"would be another release; name its.*row_id=.*X\.\w+\(\)"):
        noiser.transform(lazy(pl.from_pandas(TABLE)))


def test_ids_that_occur_in_two_parts_are_refused_before_there_is_a_plan(lazy, noiser, tmp_path):
    rows = pl.from_pandas(TABLE)
    rows[:120].write_parquet(tmp_path / "0.parquet")
    rows[119:].write_parquet(tmp_path / "1.parquet")
    files = f"{tmp_path}/*.parquet"
    for X in (pl.scan_parquet(files), duckdb.connect().sql(f"from '{files}'")):
        with pytest.raises(ValueError, match="'client' has 240 distinct ids in 241 rows, and two"):
            keyed(noiser, X)


REFUSED = {
    "missing ids": (
        {"client": pd.Series([1, 2] * 60 + [None] * 120, dtype="Int64")},
        {},
        ValueError,
        "missing in 120 of 240",
    ),
    "fractions": ({"client": 0.5}, {}, TypeError, "holds no ids, which are whole numbers, strings"),
    "booleans": ({"client": True}, {}, TypeError, "holds no ids, which are whole numbers, strings"),
    "a name": ({}, {"row_id": "clients"}, ValueError, "row_id names column 'clients'"),
    "a column beside": ({}, {"row_id": TABLE["client"]}, TypeError, "no place that ids beside"),
    "labels for numbers": ({"age": "old"}, {}, TypeError, "column 'age' holds strings"),
    "dates": ({"age": pd.Timestamp("2026-01-01")}, {}, TypeError, "column 'age' has type Datetime"),
    "a key": ({}, {"key": b"short"}, ValueError, "shorter than 16 bytes"),
    "a release": ({}, {"release": -1}, ValueError, "release must be at least 0"),
}


@pytest.mark.parametrize(
    ("change", "options", "error", "message"), REFUSED.values(), ids=list(REFUSED)
)
def test_what_cannot_be_planned_is_refused(lazy, noiser, change, options, error, message):
    with pytest.raises(error, match=message):
        computed(keyed(noiser, lazy(pl.from_pandas(TABLE.assign(**change))), **options))


def test_columns_are_checked_before_anything_is_computed(lazy, noiser, monkeypatch):
    monkeypatch.setattr("sklearn_puffer._engines.plans.collected", None)
    monkeypatch.setattr("sklearn_puffer._engines.row_ids.collected", None)
    rows = pl.from_pandas(TABLE)
    with pytest.raises(ValueError, match="X lacks column 'age', which fit released"):
        keyed(noiser, lazy(rows.drop("age")))
    with pytest.raises(TypeError, match="column 'age' holds strings"):
        keyed(noiser, lazy(rows.with_columns(age=pl.lit("old"))))


def test_a_table_without_rows_is_refused_and_one_of_one_row_is_not(lazy, noiser):
    rows = pl.from_pandas(TABLE)
    with pytest.raises(ValueError, match=r"X has 0 row\(s\)"):
        keyed(noiser, lazy(rows[:0]))
    assert computed(keyed(noiser, lazy(rows[:1]))).equals(keyed(noiser, rows[:1]))


def test_seeds_containers_and_what_is_not_certified_are_refused(lazy):
    rows = lazy(pl.from_pandas(TABLE))
    with pytest.raises(ValueError, match="random_state=0 and row_id= are both given"):
        keyed(fitted(public=["age"], random_state=0), rows)
    with pytest.raises(ValueError, match=r"set_output\(transform='pandas'\).*\"default\""):
        keyed(fitted(public=["age"]).set_output(transform="pandas"), rows)
    with pytest.raises(ValueError, match=r'on_drift="raise" looks at all rows'):
        keyed(fitted(public=["age"]), rows, on_drift="raise")
    wrong = fitted(public=["age"])
    wrong.certificate_ = altered(wrong.certificate_, loss=9.0)
    with pytest.raises((UncertifiedError, ValueError), match="certificate"):
        keyed(wrong, rows)


PAGE = Path(__file__).parents[1] / "docs" / "engines.md"


@pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")
def test_the_page_on_engines_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    section = page.split("## Release on an engine\n")[1].split("\n## Fit once")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 3
    assert pl.read_parquet("released.parquet").columns == ["cars"]
    assert names["again"].columns == ["cars"]
