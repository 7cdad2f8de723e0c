"""Dask, Spark and Ibis: a fit is that of the same rows in pandas, to the byte.

Each engine is the real one: Dask on processes of its own, Spark on a local one with two threads.
Where one is absent its tests skip and say so; with ``PUFFER_REQUIRE_ENGINES=1`` they fail.
"""

import re
import sqlite3
import warnings

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from clusters import MARKS, needs, read_parquet
from engine_cases import (
    GAPS,
    IN_FILES,
    N_ROWS,
    OTHERS,
    REFUSALS,
    TABLE,
    WAYS,
    agree,
    dictionary_file,
    fits_of_file,
    in_pandas,
    in_polars,
    lengths_fetched,
    outcome,
    run_block,
)

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser

pytestmark = MARKS


@pytest.fixture(params=["dask", "spark", "ibis"])
def lazy(request):
    return request.getfixturevalue(request.param)


def _few(cases, lazy, step):
    """Return all cases on Ibis, and every so many where a query takes a tenth of a second."""
    return cases[:: 1 if lazy.__name__ == "in_ibis" else step]


def test_a_fit_on_an_engine_is_that_of_pandas_to_the_byte(lazy):
    cases = {name: {"sensitive": "s", **options} for name, options in OTHERS.items()}
    table = lazy(TABLE)
    strange = [
        name
        for name in _few(list(cases), lazy, 8)
        if outcome(table, **cases[name]) != in_pandas(TABLE, cases[name])
    ]
    assert strange == []


@pytest.mark.parametrize("described", [False, True])
def test_dictionaries_and_gaps_of_a_file_are_those_of_pandas(lazy, request, described, tmp_path):
    engine = request.node.callspec.params["lazy"]
    path = dictionary_file(tmp_path, described)
    # where a query takes a tenth of a second, a fit is of the one file or of the other
    names = [*IN_FILES][described::3] if engine != "ibis" else IN_FILES
    refused = {"a declared order"} if engine == "dask" else set()  # see below
    found = fits_of_file(lambda path: read_parquet(engine, path), path, names)
    assert set(found) == refused & set(names)


def test_groups_bins_gaps_and_secrets_are_those_of_pandas(lazy):
    public = ["age", "x", "short", "flag", "job"]
    agree(lazy, {"public": public, "dependence": "independent"}, *WAYS[1:], "propagate", ["s", "t"])


def test_bins_of_doubles_and_gaps_are_those_of_pandas(lazy):
    own = np.where(np.arange(N_ROWS) % 3 == 0, 0.5, np.sin(np.arange(N_ROWS)) * 10)
    frame = TABLE.assign(x=own, age=(own * 1000).astype(np.int32))
    frame.loc[::7, "x"] = np.nan
    options = {"sensitive": "s", "public": ["x", "age"], "n_bins": 4, "missing": "propagate"}
    assert outcome(lazy(frame), **options) == outcome(frame, **options)


def test_a_check_of_new_rows_is_that_of_pandas(lazy):
    binned = PufferfishNoiser(1.0, sensitive="s", public=["x"], n_bins=9, missing="propagate")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = binned.fit(GAPS).certificate_
    new = GAPS.assign(x=GAPS["x"] + 0.5)
    assert fitted.check(lazy(new)) == fitted.check(new)


def test_a_refusal_on_an_engine_is_that_of_pandas(lazy):
    for name in _few(list(REFUSALS), lazy, 4):
        frame, options = REFUSALS[name]
        options = {"sensitive": "s", **options}
        assert outcome(lazy(frame), **options) == outcome(frame, **options)[:2], name


def test_what_is_fetched_are_groups_and_never_rows(lazy, monkeypatch):
    rows = np.arange(20_000)
    table = lazy(pd.DataFrame({"s": rows % 2, "a": rows % 10, "x": (rows * 7 % 20) / 4}))
    fetched = lengths_fetched(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PufferfishNoiser(1.0, sensitive="s", n_bins={"x": 5}).fit(table)
    assert sum(fetched) < 200


def test_strings_that_spark_takes_for_equal_are_two_values(spark):
    words = ["Ab", "ab", "\u00e9", "e", "a\\x41", "", "a "]
    frame = TABLE.assign(s=["U", "u", "u "] * 80, job=[words[k % 7] for k in range(len(TABLE))])
    frame = frame.sample(frac=1.0, random_state=0, ignore_index=True)  # as of an engine
    folded = spark(frame).selectExpr(
        "s collate UTF8_LCASE_RTRIM as s", "job collate UNICODE_CI as job"
    )
    assert "RTRIM" in str(folded.dtypes)
    options = {"sensitive": "s", "public": ["job"]}
    assert outcome(folded, **options) == outcome(frame[["s", "job"]], **options)


def test_names_that_spark_takes_for_equal_or_for_fields_are_found_by_place(spark):
    own = spark(TABLE).selectExpr("s as S", "age as s", "cast(t as tinyint) as `s.x y`")
    frame = TABLE[["s", "age", "t"]].set_axis(["S", "s", "s.x y"], axis=1)
    assert outcome(own, sensitive="S") == outcome(frame, sensitive="S")
    twice = spark(TABLE).selectExpr("s", "age as x", "t as x")
    with pytest.raises(ValueError, match="column 'x' occurs more than once in X; rename"):
        PufferfishNoiser(1.0, sensitive="s").fit(twice)


def test_categories_of_dask_are_those_of_pandas_or_refused(dask):
    levels = pd.CategoricalDtype(["nurse", "none", "clerk", "Smith"])
    ordered = pd.CategoricalDtype(["nurse", "none", "clerk", "Smith"], ordered=True)
    for dtype in (levels, ordered):
        frame = TABLE.astype({"job": dtype})
        options = {"sensitive": "s", "public": ["job", "age"]}
        assert outcome(dask(frame), **options) == outcome(frame, **options)
        unknown = dask(frame)
        unknown["job"] = unknown["job"].cat.as_unknown()
        found = outcome(unknown, **options)
        if dtype.ordered:
            assert "ordered categories that Dask does not know" in found[1]
        else:
            assert found == outcome(TABLE, **options)
    numbers = dask(TABLE.astype({"t": "category"}))
    own = numbers["t"]
    for each in (own, own.cat.as_unknown()):
        numbers["t"] = each
        with pytest.raises(TypeError, match="column 't' has the category 0, which is no string"):
            PufferfishNoiser(1.0, sensitive="s", public=["t"]).fit(numbers)
    options = {"sensitive": "s", "public": ["age"]}
    assert outcome(numbers, **options) == outcome(TABLE, **options)


@pytest.mark.parametrize("described", [False, True])
def test_ordered_categories_of_a_file_are_refused_by_dask_until_they_are_listed(
    dask, described, tmp_path
):
    path = dictionary_file(tmp_path, described)
    rows = read_parquet("dask", path)
    options = {"sensitive": "s", "public": ["rank"]}
    assert "ordered categories that Dask does not know; list them" in outcome(rows, **options)[1]
    whole = pd.read_parquet(path)
    rows["rank"] = rows["rank"].astype(whole["rank"].dtype)
    assert outcome(rows, **options) == outcome(whole, **options)


def test_lists_and_bytes_of_dask_are_refused_in_our_words(dask, tmp_path):
    own = TABLE.assign(bytes=[b"x", b"y"] * 120, lists=[[1], [2, 3]] * 120)
    own.to_parquet(tmp_path / "rows.parquet")
    rows = read_parquet("dask", str(tmp_path / "rows.parquet"))
    for name in ("bytes", "lists"):
        for options in ({"sensitive": "s", "public": [name]}, {"sensitive": name, "public": ["t"]}):
            kind, said = outcome(rows, **options)
            assert kind is TypeError
            assert re.match(f"column '{name}' holds .* convert it with .*astype", said)
    options = {"sensitive": "s", "public": ["age"]}
    assert outcome(rows, **options) == outcome(own, **options)


def test_floats_of_arrow_in_dask_are_those_of_pandas_where_zeros_have_both_signs(dask):
    frame = TABLE[["s", "x"]]
    assert np.signbit(frame["x"][:2]).tolist() == [False, True]
    own = frame.assign(x=frame["x"].astype("double[pyarrow]"))
    options = {"sensitive": "s", "public": ["x"]}
    assert outcome(dask(own), **options) == outcome(frame, **options)
    single = frame.astype({"x": np.float32})
    typical = PufferfishMicroaggregator(1.0, **options, n_prototypes=4, random_state=0)
    first, second = (
        typical.fit(rows).certificate_.fingerprint
        for rows in (single, dask(single.astype({"x": "float[pyarrow]"})))
    )
    assert first == second


def test_dictionaries_of_arrow_in_dask_are_refused_in_fit_as_in_pandas(dask):
    arrow = pa.table({"s": TABLE["s"], "job": pa.array(TABLE["job"]).dictionary_encode()})
    own = arrow.to_pandas(types_mapper=pd.ArrowDtype)
    for rows in (own, dask(own)):
        kind, said = outcome(rows, sensitive="s", public=["job"])
        assert kind is TypeError
        assert re.match(r"column 'job' has type dictionary.* convert it to", said)


def test_names_that_ibis_on_duckdb_takes_for_one_are_refused(ibis, tmp_path):
    import ibis as module

    TABLE.rename(columns={"t": "AGE"}).to_parquet(tmp_path / "rows.parquet")
    changed = module.read_parquet(tmp_path / "rows.parquet")
    alike = ibis(TABLE).rename(AGE="t")
    for table in (changed, alike):
        kind, said = outcome(table, sensitive="s", public=["x"])
        assert kind is ValueError
        assert "DuckDB ignores case in names" in said


def test_an_index_of_dask_is_no_column(dask):
    frame = TABLE.set_index(np.arange(len(TABLE)) % 7)
    options = {"sensitive": "s", "public": ["age", "x"], "n_bins": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = dask(frame.sort_index())
    assert outcome(table, **options) == outcome(TABLE, **options)


def test_ibis_on_another_backend_than_duckdb_is_refused(ibis, tmp_path):
    import ibis as module

    with sqlite3.connect(tmp_path / "rows.db") as own:
        own.execute("create table people (s text collate nocase, age integer)")
    connection = module.sqlite.connect(tmp_path / "rows.db")
    for table in (connection.table("people"), connection.table("people").select("age")):
        with pytest.raises(TypeError, match=r"Ibis table of sqlite.*X\.to_polars\(\)"):
            PufferfishNoiser(1.0, sensitive="age").fit(table)


def test_ibis_under_a_collation_of_duckdb_is_pandas(ibis):
    import ibis as module

    frame = TABLE.assign(s=["U", "u", "v"] * 80)
    frame = frame.sample(frac=1.0, random_state=0, ignore_index=True)
    connection = duckdb.connect()
    connection.register("frame", in_polars(frame).to_arrow())
    connection.execute("pragma default_collation=nocase; create table rows as from frame")
    options = {"sensitive": "s", "public": ["job"]}
    assert outcome(module.duckdb.from_connection(connection).table("rows"), **options) == outcome(
        frame, **options
    )


def test_typical_rows_of_an_engine_are_those_of_the_same_rows(lazy):
    rng = np.random.default_rng(0)
    ill, town = rng.random(600) < 0.4, rng.choice(["east", "west"], 600)
    age = 40 + 9 * ill + rng.integers(0, 20, 600)
    table = pd.DataFrame({"ill": ill, "town": town, "age": age, "pay": rng.normal(size=600)})
    options = {"sensitive": "ill", "known": "town", "n_prototypes": 6}
    rows, here = (PufferfishMicroaggregator(**options).fit(of) for of in (lazy(table), table))
    assert rows.certificate_.fingerprint == here.certificate_.fingerprint
    assert rows.counts_.equals(here.counts_)


def test_the_documentation_fits_on_these_engines(lazy, request, tmp_path, monkeypatch):
    engine = request.node.callspec.params["lazy"]
    if engine == "spark":
        known = {"spark": needs("pyspark.sql").SparkSession.getActiveSession()}
    else:
        needs(f"{engine}.dataframe" if engine == "dask" else engine)
        known = {engine: __import__(engine)}
    run_block(engine, tmp_path, monkeypatch, known)
