"""Dask, Spark and Ibis: a plan is the keyed release in memory, bit for bit, and hides its key."""

import logging
import os
import pickle
import sqlite3
import traceback
import warnings

import pandas as pd
import polars as pl
import pyarrow.dataset
import pyarrow.parquet
import pytest
from clusters import MARKS, read_parquet
from engine_cases import dictionary_file
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

from sklearn_puffer import PufferfishNoiser

pytestmark = MARKS


@pytest.fixture(params=["dask", "spark", "ibis"])
def lazy(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def noiser():
    return fitted()


@pytest.fixture(scope="module")
def passing():
    return fitted(remainder="passthrough")


def kind_of(plan):
    return type(plan).__module__.split(".")[0]


def computed(plan):
    """Return what an engine computes, in one order: Spark and Dask guarantee none."""
    if kind_of(plan) == "dask":
        found = pl.from_pandas(plan.compute().reset_index(drop=True))
    elif kind_of(plan) == "pyspark":
        found = pl.from_arrow(plan.toArrow())
    else:
        found = plan.to_polars()
    return in_order(found)


def in_order(frame):
    plain = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
    return plain.sort(plain.columns)


def in_memory(noiser, table, **options):
    return in_order(keyed(noiser, pl.from_pandas(table), **options))


def test_a_plan_is_the_release_in_memory_bit_for_bit(lazy):
    few = ["numbers, bins and categories", "gaps left"]
    for name in CASES if lazy.__name__ == "in_ibis" else few:
        table, (noiser, _, expected) = CASES[name][0], case(name)
        plan = keyed(noiser, lazy(table))
        assert kind_of(plan) == kind_of(lazy(table)), name
        found = computed(plan)
        assert found.schema == expected.schema, name
        assert found.equals(in_order(expected)), name


def test_ids_and_categories_of_a_file_are_those_of_memory(lazy, request, tmp_path):
    engine = request.node.callspec.params["lazy"]
    own = table_of_ids()
    own = own if engine != "spark" else own.drop_columns(["uuid"])  # which Spark does not read
    pyarrow.parquet.write_table(own, tmp_path / "rows.parquet", row_group_size=80)

    def read():
        return read_parquet(engine, str(tmp_path / "rows.parquet"))

    names = own.column_names[:: {"dask": 4, "spark": 4, "ibis": 1}[engine]]
    assert ids_that_differ(read, computed, names) == []
    rows = read_parquet(engine, dictionary_file(tmp_path, described=False))
    options = {"public": ["job", "gap", "n"], "missing": "propagate", "dependence": "independent"}
    whole = pd.read_parquet(tmp_path / "rows.parquet", dtype_backend="numpy_nullable")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there, here = (
            PufferfishNoiser(0.5, sensitive="s", **options).fit(X) for X in (rows, whole)
        )
    found = computed(keyed(there, rows)).with_columns(pl.col("n").cast(pl.Int32))
    assert found.equals(in_memory(here, whole).with_columns(pl.col("n").cast(pl.Int32)))


def test_types_of_dask_are_those_of_pandas_and_its_index_stays(dask):
    table = TABLE.astype({"town": "category"}).set_index(TABLE["client"] * 2)
    noiser = fitted(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = dask(table.sort_index())
    plan = keyed(noiser, parts)
    expected = keyed(noiser, table.sort_index())
    assert dict(plan.dtypes) == dict(expected.dtypes)
    pd.testing.assert_frame_equal(plan.compute(), expected)
    unknown = parts.assign(town=parts["town"].cat.as_unknown())
    pd.testing.assert_frame_equal(keyed(noiser, unknown).compute(), expected)


def test_other_parts_another_order_and_two_actions_are_the_same_release(lazy, passing):
    expected = in_memory(passing, TABLE)
    shuffled = lazy(TABLE.sample(frac=1.0, random_state=1))
    if kind_of(shuffled) == "dask":
        shuffled = shuffled.repartition(npartitions=2)
    elif kind_of(shuffled) == "pyspark":
        shuffled = shuffled.repartition(5)
    plan = keyed(passing, shuffled)
    assert computed(plan).equals(expected)
    assert computed(plan).equals(expected)
    ephemeral = keyed(passing, shuffled, key=None)
    first = computed(ephemeral)
    assert first.equals(computed(ephemeral))
    assert not first.equals(expected)
    assert not first.equals(computed(keyed(passing, shuffled, key=None)))


def sent_from_dask(part, folder):
    """Write the rows of a part where others see them, and fail the first time."""
    tries = len(list(folder.iterdir()))
    if len(part):
        part.to_parquet(folder / f"{tries}.parquet", index=False)
    if not tries:
        raise OSError("the line broke after the rows were sent")
    return part


def test_a_retry_of_dask_after_a_failure_shows_nothing_new(dask, passing, tmp_path):
    from distributed import get_client

    plan = keyed(passing, dask(TABLE).repartition(npartitions=1))
    sent = plan.map_partitions(sent_from_dask, tmp_path, meta=plan)
    get_client().compute(sent, retries=2).result()
    first, second = (pd.read_parquet(tmp_path / f"{k}.parquet") for k in range(2))
    pd.testing.assert_frame_equal(first, second)


def sender_of_spark(folder):
    def send(batches):
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark import TaskContext

        attempt = TaskContext.get().attemptNumber()
        rows = pa.Table.from_batches(list(batches))
        pq.write_table(rows, f"{folder}/{attempt}.parquet")
        if not attempt:
            raise OSError("the line broke after the rows were sent")
        yield from rows.to_batches()

    return send


def test_a_retry_of_spark_after_a_failure_shows_nothing_new(spark, passing, tmp_path):
    plan = keyed(passing, spark(TABLE).coalesce(1))
    found = computed(plan.mapInArrow(sender_of_spark(tmp_path), plan.schema))
    first, second = (in_order(pl.read_parquet(tmp_path / f"{k}.parquet")) for k in range(2))
    assert first.equals(second)
    assert found.equals(first)


def test_what_comes_behind_a_release_sees_the_release_alone(lazy, noiser):
    plan = keyed(noiser, lazy(TABLE))
    expected = in_memory(noiser, TABLE)
    expected = in_order(expected.filter(pl.col("age") > 24).select("town"))
    some = plan[plan["age"] > 24][["town"]] if kind_of(plan) == "dask" else None
    if some is None:
        some = plan.filter(plan.age > 24).select("town")
    assert computed(some).equals(expected)


def test_ids_that_occur_in_two_parts_are_refused_before_there_is_a_plan(lazy, noiser):
    twice = pd.concat([TABLE, TABLE[:1]], ignore_index=True)
    with pytest.raises(ValueError, match="'client' has 240 distinct ids in 241 rows, and two"):
        keyed(noiser, lazy(twice))
    gone = TABLE.assign(client=TABLE["client"].astype("Int64").mask(TABLE.index < 3))
    with pytest.raises(ValueError, match="'client' is missing in 3 of 240 rows"):
        keyed(noiser, lazy(gone))


def test_columns_are_checked_before_a_job_is_started(lazy, noiser, monkeypatch):
    monkeypatch.setattr("sklearn_puffer._engines.plans.collected", None)
    monkeypatch.setattr("sklearn_puffer._engines.row_ids.collected", None)
    with pytest.raises(ValueError, match="X lacks column 'age', which fit released"):
        keyed(noiser, lazy(TABLE.drop(columns="age")))
    with pytest.raises(TypeError, match="column 'age' holds strings"):
        keyed(noiser, lazy(TABLE.assign(age="old")))
    with pytest.raises(TypeError, match="would be another release; name its column of ids"):
        noiser.transform(lazy(TABLE))


def test_a_value_without_a_place_is_refused_without_being_shown(lazy, noiser, caplog, capfd):
    plan = keyed(noiser, lazy(TABLE.assign(town="Zanzibar")))
    with caplog.at_level(logging.INFO), pytest.raises(Exception, match=r".") as caught:
        computed(plan)
    error = "".join(traceback.format_exception(caught.value))
    said = error + "".join(capfd.readouterr())
    assert "column 'town' holds values" in said
    assert "Zanzibar" not in error
    assert SECRET.decode() not in said + caplog.text


def test_the_key_is_in_no_text_of_a_plan(lazy, noiser, capsys):
    plan = keyed(noiser, lazy(TABLE))
    texts = [repr(plan), str(plan)]
    if kind_of(plan) == "dask":
        plan.pprint()
        texts += [str(dict(plan.dask)), *map(str, plan.dask)]
    elif kind_of(plan) == "pyspark":
        plan.explain(True)
        texts += [plan._jdf.queryExecution().toString()]
    else:
        import ibis

        texts += [ibis.to_sql(plan)]
    texts.append(capsys.readouterr().out)
    assert SECRET.decode() not in "".join(texts)
    assert SECRET not in pickle.dumps(noiser)


def test_plans_of_two_keys_are_two_plans_of_dask(dask, noiser):
    rows = dask(TABLE)
    names = {keyed(noiser, rows, key=key)._name for key in (KEY, KEY + b"!")}
    assert len(names) == 2
    assert keyed(noiser, rows)._name in names


def set_key(value):
    os.environ["PUFFER_TEST_KEY"] = value


def test_workers_read_a_variable_themselves(dask, noiser, monkeypatch):
    from distributed import get_client

    monkeypatch.setenv("PUFFER_TEST_KEY", KEY.decode())
    plan = keyed(noiser, dask(TABLE), key="env:PUFFER_TEST_KEY")
    with pytest.raises(ValueError, match="'PUFFER_TEST_KEY', which is not set"):
        plan.compute()
    get_client().run(set_key, KEY.decode())
    assert computed(plan).equals(in_memory(noiser, TABLE))
    get_client().run(set_key, KEY.decode() + "!")
    with pytest.raises(ValueError, match="'PUFFER_TEST_KEY', which holds another key in this task"):
        keyed(noiser, dask(TABLE), key="env:PUFFER_TEST_KEY").compute()


def test_names_that_spark_takes_for_equal_or_for_fields_are_found(spark):
    names = ["Age", "age", "a.b", "`c", "select *"]
    table = TABLE[["secret", "client"]].assign(**{name: [1, 2, 3, 1] * 60 for name in names})
    noiser = fitted(table, public=names)
    own = spark(table.set_axis([f"c{k}" for k in range(len(table.columns))], axis=1))
    assert computed(keyed(noiser, own.toDF(*table.columns))).equals(in_memory(noiser, table))


def test_ibis_on_a_backend_without_functions_is_refused_by_name(ibis, noiser, tmp_path):
    import ibis as module

    numbers = fitted(public=["age"])
    rows = TABLE[["client", "age"]]
    with sqlite3.connect(tmp_path / "rows.db") as own:
        rows.to_sql("people", own, index=False)
    for connection in (
        module.sqlite.connect(tmp_path / "rows.db"),
        module.polars.connect({"people": pl.from_pandas(rows)}),
    ):
        with pytest.raises(TypeError, match=r"do not pass through Python; pass X.to_polars"):
            keyed(numbers, connection.table("people"))
