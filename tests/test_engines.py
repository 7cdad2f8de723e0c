"""Lazy tables: fitting on an engine is fitting on the same rows in memory, to the byte."""

import json
import re
import subprocess
import sys
import warnings
from itertools import cycle
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pyarrow.parquet
import pytest
from engine_cases import (
    N_ROWS,
    OTHERS,
    PRODUCT,
    REFUSALS,
    TABLE,
    agree,
    dictionary_file,
    duckdb_relation,
    fits_of_file,
    in_pandas,
    in_polars,
    lengths_fetched,
    outcome,
    polars_lazy,
    run_block,
)
from sklearn.naive_bayes import GaussianNB

from sklearn_puffer import Ledger, PufferfishNoiser, PufferfishSGDRegressor, PufferfishSum
from sklearn_puffer._codes import Column
from sklearn_puffer._engines import LazyTable, lazy_table
from sklearn_puffer.priors import GaussianMixture

ENGINES = {"polars": polars_lazy, "duckdb": duckdb_relation}


@pytest.fixture(params=list(ENGINES))
def lazy(request):
    return ENGINES[request.param]


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_a_fit_on_an_engine_is_that_of_pandas_to_the_byte(lazy, options):
    options = {"sensitive": "s", **options}
    assert outcome(lazy(TABLE), **options) == in_pandas(TABLE, options)


READERS = {
    "polars": pl.scan_parquet,
    "duckdb": lambda path: duckdb.connect().sql(f"from '{path}'"),
    "arrow": pyarrow.parquet.read_table,
}


@pytest.mark.parametrize(
    ("read", "described"),
    [(read, k % 2 == 1) for k, read in enumerate(READERS.values())],
    ids=READERS,
)
def test_dictionaries_and_gaps_of_a_file_are_those_of_pandas(read, described, tmp_path):
    assert fits_of_file(read, dictionary_file(tmp_path, described)) == []


def test_columns_of_duckdb_that_are_alike_but_for_case_are_two():
    rows = np.arange(N_ROWS)
    frame = TABLE.assign(V=rows % 3, v=rows // 3 % 2)[["s", "V", "v"]]
    connection = duckdb.connect()
    connection.register("rows", frame.rename(columns={"v": "w"}))
    both = connection.sql("select s, V, w as v from rows")
    assert both.columns == ["s", "V", "v"]
    assert outcome(both, sensitive="s") == outcome(frame, sensitive="s")


def test_a_name_that_duckdb_has_changed_is_refused(tmp_path):
    TABLE.rename(columns={"t": "AGE"}).to_parquet(tmp_path / "rows.parquet")
    relation = duckdb.connect().sql(f"from '{tmp_path}/rows.parquet'")
    kind, said = outcome(relation, sensitive="s", public=["x"])
    assert kind is ValueError
    assert re.search("columns '(AGE|age)' and '(AGE|age)_1', and DuckDB ignores case", said)
    numbered = duckdb.connect().sql("select 1 as V, 2 as V_1, 3 as w_2")
    assert list(lazy_table(numbered).types) == ["V", "V_1", "w_2"]


@pytest.mark.parametrize("case", PRODUCT[::9], ids=str)
def test_groups_bins_and_gaps_are_those_of_pandas(lazy, case):
    agree(lazy, *case)


@pytest.mark.slow
@pytest.mark.parametrize("case", PRODUCT, ids=str)
def test_all_groups_bins_gaps_and_secrets_are_those_of_pandas(lazy, case):
    agree(lazy, *case)


@pytest.mark.parametrize("frame, options", REFUSALS.values(), ids=REFUSALS)  # noqa: PT006
def test_a_refusal_on_an_engine_is_that_of_pandas(lazy, frame, options):
    options = {"sensitive": "s", **options}
    kind, message = outcome(frame, **options)
    assert outcome(lazy(frame), **options) == (kind, message)


def test_levels_of_an_enum_are_declared_in_its_order():
    own = in_polars(TABLE).with_columns(pl.col("job").cast(pl.Enum(["nurse", "clerk", "Smith"])))
    connection = duckdb.connect()
    connection.register("rows", in_polars(TABLE).to_arrow())
    enum = "job::varchar::enum('nurse', 'clerk', 'Smith') as job"
    relation = connection.sql(f"select * replace ({enum}) from rows")
    options = {"sensitive": "s", "public": ["job", "age"]}
    expected = outcome(own, **options)
    assert outcome(own.lazy(), **options) == outcome(relation, **options) == expected
    categorical = own.with_columns(pl.col("job").cast(pl.String).cast(pl.Categorical))
    assert outcome(categorical.lazy(), **options) == outcome(TABLE, **options)


def test_strings_that_a_collation_takes_for_equal_are_two_values():
    words = ["Ab", "ab", "\u00e9", "e", "a\\x41", ""]
    frame = TABLE.assign(s=["U", "u", "v"] * 80, job=[words[k % 7 % 6] for k in range(N_ROWS)])
    frame = frame.sample(frac=1, random_state=0, ignore_index=True)  # lazy rows have no order
    connection = duckdb.connect()
    connection.register("rows", in_polars(frame).to_arrow())
    folded = "s collate nocase as s, job collate noaccent.nocase as job"
    enum = "s::varchar::enum('U', 'u', 'v') as t"
    options = {"sensitive": "s", "public": ["job"]}
    expected = outcome(frame, **options)
    connection.sql("pragma default_collation=nocase")
    relation = connection.sql(f"select * replace ({folded}, {enum}) from rows")
    assert outcome(relation, **options) == expected
    options["sensitive"] = "t"
    same = frame.assign(t=pd.Categorical(frame["s"], ["U", "u", "v"], ordered=True))
    assert outcome(relation, **options) == outcome(same, **options)


def test_rows_in_another_order_and_in_parts_are_the_same_table(tmp_path):
    shuffled = in_polars(TABLE.sample(frac=1.0, random_state=1))
    for part in range(3):
        shuffled[80 * part : 80 * part + 80].write_parquet(tmp_path / f"{part}.parquet")
    options = {"sensitive": "s", "public": ["age", "x", "flag"], "n_bins": 4}
    expected = outcome(TABLE, **options)
    assert outcome(pl.scan_parquet(tmp_path / "*.parquet"), **options) == expected
    files = duckdb.connect().sql(f"from '{tmp_path}/*.parquet'")
    assert outcome(files, **options) == expected


@pytest.mark.parametrize("options", [{"n_bins": 4}, {"public": ["x"]}], ids=["bins", "values"])
def test_nan_that_the_statistics_of_a_file_leave_out_is_missing(tmp_path, options):
    """DuckDB believes the largest number of such a file, and that isnan is false."""
    options = {"sensitive": "s", "missing": "propagate"} | options
    frame = TABLE[["s", "age", "x"]].assign(x=TABLE["x"].round().mask(TABLE["age"] % 3 == 0))
    rows = pl.from_pandas(frame, nan_to_null=False).to_arrow()
    pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
    relation = duckdb.connect().sql(f"from '{tmp_path}/rows.parquet'")
    assert outcome(relation, **options) == outcome(frame, **options)


def test_what_is_fetched_are_groups_and_never_rows(lazy, monkeypatch):
    rows = np.arange(100_000)
    # every value of y is in one row, so that its values are fetched, and then its bins
    frame = pd.DataFrame({"s": rows % 2, "a": rows % 10, "x": (rows * 7 % 20) / 4})
    fetched = lengths_fetched(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(1.0, sensitive="s", n_bins={"x": 5}).fit(lazy(frame))
    assert noiser.certificate_.n_rows == 100_000
    # the values of three columns, the groups of (s, a, bin of x)
    assert fetched[:3] == [2, 10, 20]
    assert len(fetched) == 4
    assert fetched[3] <= 2 * 10 * 5


SCANS = {
    "one for all columns together": ({"public": ["t", "age", "job"]}, 1),
    "whichever they are": ({"sensitive": ["s", "t"], "adversaries": "confidence"}, 1),
    "bins: one a column, and one for the rows of bins": ({"public": ["t", "age"], "n_bins": 3}, 4),
    "groups: one a group": (
        {"sensitive": ["s", "t"], "public": ["age", "x"], "dependence": "independent"},
        2,
    ),
}


@pytest.mark.parametrize("options, scans", SCANS.values(), ids=SCANS)  # noqa: PT006
def test_a_table_is_scanned_as_few_times_as_said(options, scans):
    seen = []

    def scan(frame):
        seen.append(len(frame))
        return frame

    rows = polars_lazy(TABLE)
    counted = rows.map_batches(scan, schema=rows.collect_schema(), projection_pushdown=False)
    outcome(counted, **{"sensitive": "s", **options})
    assert seen == [N_ROWS] * scans


def test_more_rows_of_columns_than_are_fetched_at_once_are_counted_by_parts(lazy, monkeypatch):
    two = {"sensitive": ["s", "t"], "public": ["age", "flag"]}
    apart = {"sensitive": "s", "public": ["age", "x"], "dependence": "independent"}
    for options, most in ((two, 48), (apart, 100), ({**apart, "n_bins": 5}, 60)):
        monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", most)
        assert outcome(lazy(TABLE), **options) == in_pandas(TABLE, options)


def test_more_values_or_groups_than_are_fetched_are_refused_by_name(lazy, monkeypatch):
    monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", 10)
    noiser = PufferfishNoiser(1.0, sensitive="s", public=["t", "x"], n_bins={"t": 9})
    with pytest.raises(ValueError, match=r"column 'x' has more than 10 distinct values.*round"):
        noiser.fit(lazy(TABLE))
    monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", 60)
    with pytest.raises(ValueError, match=r"columns 's', 't', 'x' have more than 60 different rows"):
        noiser.fit(lazy(TABLE))


def test_a_type_without_a_place_is_refused_before_anything_is_computed(lazy, monkeypatch):
    frame = TABLE.assign(day=pd.Timestamp("2020-01-01"))
    noiser = PufferfishNoiser(1.0, sensitive="s")
    table = lazy(frame)
    monkeypatch.setattr(LazyTable, "count", None)
    with pytest.raises(TypeError, match=r"column 'day' has type Datetime.*convert dates"):
        noiser.fit(table)


def test_a_table_that_changes_between_queries_is_refused():
    connection = duckdb.connect()
    connection.register("rows", in_polars(TABLE).to_arrow())
    drawn = connection.sql("select s, (random() * 9)::int as y from rows")
    noiser = PufferfishNoiser(1.0, sensitive="s", n_bins=4)
    with pytest.raises(ValueError, match=r"X changed while it was counted.*write the table once"):
        noiser.fit(drawn)
    fewer = connection.sql("select s, t, age from rows where random() < 0.5")
    with pytest.raises(ValueError, match="X changed while it was counted"):
        noiser.fit(fewer)


LAWS = dict.fromkeys("abc", GaussianMixture([1.0], [0.0], [1.0]))
LEARNT = {
    "given mixtures": {"public": ["x"], "prior": LAWS},
}
SLOWER = {
    "Gaussian priors": {"public": ["x"], "prior": "gaussian"},
    "mixtures": {"public": ["age"], "prior": "gmm"},
    "a classifier": {"public": ["age", "x"], "prior": GaussianNB(), "n_bins": 3},
}


def shown(X, options, **beside):
    """Return all that a fit shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(1.0, **{"sensitive": "s", **options}).fit(X, **beside)
    certificate = json.loads(noiser.certificate_.to_json())
    del certificate["date"]
    return certificate, repr(noiser.theta_), list(noiser.feature_names_in_), repr(noiser.utility_)


@pytest.mark.parametrize("options", LEARNT.values(), ids=LEARNT)
def test_what_is_learnt_from_distinct_rows_is_that_of_all_of_them(lazy, options):
    assert shown(lazy(TABLE), options) == shown(TABLE, options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lazy", "options"), [*zip(cycle(ENGINES), SLOWER.values(), strict=False)], indirect=["lazy"]
)
def test_what_is_fitted_to_distinct_rows_is_that_of_all_of_them(lazy, options):
    assert shown(lazy(TABLE), options) == shown(TABLE, options)


def test_secrets_may_be_named_at_fit(lazy):
    options = {"sensitive": None, "public": ["age", "x"], "n_bins": 3}
    found = shown(lazy(TABLE), options, sensitive_features=["s", "t"])
    assert found == shown(TABLE, options | {"sensitive": ["s", "t"]})
    assert found == shown(TABLE, options, sensitive_features=TABLE[["s", "t"]])


BESIDE = {
    "sample_weight": ({}, {"sample_weight": np.ones(N_ROWS)}),
    "sensitive_features": ({"sensitive": None}, {"sensitive_features": TABLE["s"]}),
}


@pytest.mark.parametrize("what", BESIDE)
def test_what_stands_beside_a_lazy_table_is_refused_by_name(lazy, what):
    options, beside = BESIDE[what]
    table = lazy(TABLE)
    noiser = PufferfishNoiser(1.0, **{"sensitive": "s", **options})
    with pytest.raises(TypeError, match=rf"{what}= is aligned by position; (make|pass)"):
        noiser.fit(table, **beside)
    assert not hasattr(noiser, "feature_names_in_")


def test_a_lazy_table_is_not_released_and_the_way_out_is_named(lazy, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(1.0, sensitive="s", public=["age"]).fit(lazy(TABLE))
    ledger = Ledger.create(tmp_path / "ledger", noiser)
    for release in (noiser.transform, lambda X: ledger.transform(noiser, X)):
        with pytest.raises(
            TypeError, match=r"would be another release; name.*row_id=.*X\.(collect|df)\(\)"
        ):
            release(lazy(TABLE))
    assert ledger.left().releases == 1
    assert list(noiser.transform(TABLE).columns) == ["age"]


def test_what_reads_an_engine_and_is_absent_is_named_with_its_way_in(monkeypatch):
    relation = duckdb_relation(TABLE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'absent or too old.*pip install "sklearn-puffer\[duck'):
        PufferfishNoiser(1.0, sensitive="s").fit(relation)


def test_nothing_is_fitted_where_a_lazy_table_is_to_be_released_at_once(lazy):
    noiser = PufferfishNoiser(1.0, sensitive="s", public=["age"])
    with pytest.raises(TypeError, match="would be another release"):
        noiser.fit_transform(lazy(TABLE))
    assert not hasattr(noiser, "certificate_")


def test_other_estimators_take_no_lazy_table(lazy):
    table = lazy(TABLE[["t", "age"]])
    for fit in (PufferfishSum(value="age").fit, PufferfishSGDRegressor().fit):
        with pytest.raises(TypeError, match=r"by position; convert it .*X\.(collect|df)\(\)"):
            fit(table, TABLE["age"])


def test_bins_of_all_sizes_are_those_of_numpy(lazy):
    values = np.repeat(np.array([-1e300, -2.5, -0.1, 0.0, 0.1, 0.3, 1e-9, 7.0, 1e17]), 4)
    frame = pd.DataFrame({"s": np.arange(36) % 2, "x": values})
    table = lazy_table(lazy(frame))
    numbers = np.unique(values)
    for size in range(2, len(numbers)):
        column = Column(
            "x",
            "float",
            numbers[:size],
            np.ones(size, dtype=bool),
            edges=numbers[: size - 1],
            merged=True,
            raw=(numbers, np.full(9, 4)),
        )
        [_, bins] = table.cells("s", [column])
        codes = np.searchsorted(numbers[: size - 1], bins.data)
        expected = np.bincount(np.searchsorted(numbers[: size - 1], values))
        assert np.bincount(codes, bins.counts).tolist() == expected.tolist()


@pytest.mark.parametrize("X", ["rows.parquet", Path("rows.csv")])
def test_a_path_is_refused_with_what_reads_it(X):
    with pytest.raises(TypeError, match=r"X is the path 'rows\..*scan_parquet\(path\)"):
        PufferfishNoiser(1.0, sensitive="s").fit(X)


@pytest.mark.slow
def test_no_engine_is_imported_to_know_a_lazy_table():
    code = (
        "import sys, pandas as pd, sklearn_puffer;"
        "from sklearn_puffer._engines import is_lazy;"
        "is_lazy(pd.DataFrame());"
        "engines = {'polars', 'duckdb', 'dask', 'pyspark', 'ibis'};"
        "assert not engines & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_that_are_patterns_or_places_are_columns_like_others(lazy):
    frame = TABLE.set_axis(["1", "0", "^.*$", "*", "a.b", 'x "y', "7"], axis=1)
    options = {"sensitive": "1", "public": ["^.*$", "0", "*", "a.b"], "n_bins": 3}
    own = pl.from_pandas(frame).lazy() if lazy is polars_lazy else _related(frame)
    assert outcome(own, **options) == outcome(frame, **options)


def _related(frame):
    connection = duckdb.connect()
    connection.register("rows", pl.from_pandas(frame).to_arrow())
    return connection.sql("select * from rows")


@pytest.mark.parametrize("engine_name", ["polars", "duckdb"])
def test_the_documentation_fits_where_the_data_are(engine_name, tmp_path, monkeypatch):
    run_block(engine_name, tmp_path, monkeypatch, {"polars": pl, "duckdb": duckdb})
