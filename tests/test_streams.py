"""Streams: batch by batch the same release as of the whole table, and one release."""

import copy
import subprocess
import sys
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from claims import half
from hypothesis import given
from hypothesis import strategies as st
from release_cases import ID_KINDS, table_of_ids

from sklearn_puffer import PufferfishNoiser, PufferfishRelease, UncertifiedError
from sklearn_puffer._release.out_of_memory import SeenIds

KEY = b"blake2b:" + bytes(32)


def make_table(n_rows=900, seed=0):
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "client": [f"{k:05d}" for k in rng.permutation(n_rows)],
            "loan": np.where(secret, "yes", "no"),
            "cars": rng.integers(0, 6, n_rows) + secret,
            "town": rng.choice(["Aix", "Bonn", "Cork"], n_rows),
            "owner": rng.random(n_rows) < 0.4 + 0.2 * secret,
            "since": pd.date_range("2020-01-01", periods=n_rows),
        }
    )


def fitted(table=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = make_table() if table is None else table
        chosen = {"sensitive": "loan", "public": ["cars", "town", "owner"]} | options
        return PufferfishNoiser(**chosen).fit(table)


def pieces(table, length=250):
    return [
        pa.Table.from_pandas(table[k : k + length], preserve_index=False)
        for k in range(0, len(table), length)
    ]


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def noiser(table):
    return fitted(table)


OPTIONS = [
    {},
    {"output": "noisy"},
    {"noise": "gaussian", "delta": 1e-3, "public": ["cars"]},
    {"remainder": "passthrough"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_under_a_key_a_stream_is_the_table_released_whole(table, options):
    noiser = fitted(table, releases=3, **options)
    whole = pa.Table.from_pandas(table, preserve_index=False)
    want = noiser.transform(whole, row_id="client", key=KEY, dataset="d", release=2)
    reader = noiser.transform_batches(
        iter(pieces(table)), row_id="client", key=KEY, dataset="d", release=2
    )
    assert reader.schema.types == want.schema.types
    assert reader.read_all().equals(want)


@pytest.mark.parametrize(
    "source",
    [
        lambda t: t,
        lambda t: pl.from_pandas(t),
        lambda t: pa.Table.from_pandas(t),
        lambda t: pa.RecordBatch.from_pandas(t),
        lambda t: pa.Table.from_pandas(t).to_reader(max_chunksize=100),
        lambda t: pyarrow.dataset.dataset(pa.Table.from_pandas(t)),
        lambda t: duckdb.from_arrow(pa.Table.from_pandas(t)),
        lambda t: (pl.from_pandas(t[k : k + 300]) for k in range(0, len(t), 300)),
        lambda t: [t[:1], t[1:1], t[1:]],
    ],
)
def test_every_kind_of_source_is_released_alike(noiser, table, source):
    want = noiser.transform(table, row_id="client", key=KEY)
    got = noiser.transform_batches(source(table), row_id="client", key=KEY).read_all()
    assert got.to_pandas().astype(want.dtypes).equals(want)


def test_a_form_releases_streams_too(noiser, table):
    form = PufferfishRelease.from_json(noiser.to_json())
    by = {"row_id": "client", "key": KEY}
    assert form.transform_batches(table, **by).read_all() == (
        noiser.transform_batches(pieces(table), **by).read_all()
    )


def test_fresh_streams_are_releases_of_their_own(noiser, table):
    first, second = (noiser.transform_batches(table).read_all() for _ in range(2))
    assert first != second
    keyed = [noiser.transform_batches(table, row_id="client").read_all() for _ in range(2)]
    assert keyed[0] != keyed[1]


def test_equal_batches_have_noise_of_their_own_under_a_seed(table):
    noiser = fitted(table, random_state=3)
    same = pieces(table[:100])[0]
    with pytest.warns(UserWarning, match="random_state") as told:
        first, second, third = noiser.transform_batches([same] * 3)
    assert len(told) == 1
    with pytest.warns(UserWarning, match="random_state"):
        fourth = noiser.transform(same).to_batches()[0]
    assert len({tuple(batch["cars"].to_pylist()) for batch in (first, second, third, fourth)}) == 4


def test_values_that_are_moved_are_told_once_and_counted_over_all_batches(table):
    noiser = fitted(table, unknown={"cars": "nearest"})
    strange = table.assign(cars=np.where(table.cars == 0, 40, table.cars))
    with pytest.warns(UserWarning, match=f"{(table.cars == 0).sum()} in 'cars'") as told:
        noiser.transform_batches(pieces(strange)).read_all()
    assert ["moved" in str(each.message) for each in told] == [True, False]  # and the drift


def test_a_batch_in_which_all_is_missing_has_the_type_of_the_others():
    table = make_table()
    table["cars"] = table["cars"].astype("Int64").where(table.index >= 500)
    table["town"] = table["town"].where(table.index >= 500, None)
    noiser = fitted(table, missing="propagate", public=["cars", "town"])
    batches = list(noiser.transform_batches(pieces(table, 100)))
    assert {str(batch.schema) for batch in batches} == {str(batches[-1].schema)}
    assert batches[0]["cars"].null_count == batches[0].num_rows == 100
    noisy = fitted(table, missing="propagate", public=["cars", "town"], output="noisy")
    assert noisy.transform_batches(pieces(table, 100)).schema.field("cars").type == pa.float64()


def test_a_first_batch_whose_labels_have_no_type_has_that_of_labels():
    table = make_table()
    table["town"] = table["town"].where(table.index >= 500, None)
    noiser = fitted(table, missing="propagate", public=["cars", "town"])
    [first, *rest] = pieces(table, 100)
    place = first.column_names.index("town")
    asked = {"row_id": "client", "key": KEY}
    want = noiser.transform(table, **asked)
    for gone in (pa.nulls(100), pa.nulls(100, pa.string()), pa.nulls(100, pa.large_string())):
        own = first.set_column(place, "town", gone)
        got = noiser.transform_batches([own, *rest], **asked).read_all()
        assert got.to_pandas().astype(want.dtypes).equals(want)


def test_an_id_of_two_batches_is_refused_before_anything_is_drawn(noiser, table):
    twice = [*pieces(table), pieces(table[:1])[0]]
    with pytest.raises(ValueError, match=r"row 900 .*that an earlier row has"):
        noiser.transform_batches(twice, row_id="client", key=KEY)
    data = pyarrow.dataset.dataset(pa.concat_tables(twice))
    with pytest.raises(ValueError, match=r"distinct ids|earlier row"):
        noiser.transform_batches(data, row_id="client", key=KEY)


def test_of_a_stream_read_once_no_row_with_a_second_id_is_released(noiser, table):
    twice = iter([*pieces(table), pieces(table[5:6])[0], pieces(table)[0]])
    reader = noiser.transform_batches(twice, row_id="client", key=KEY)
    seen = [reader.read_next_batch().num_rows for _ in range(4)]
    with pytest.raises(ValueError, match="row 900"):
        reader.read_next_batch()
    assert sum(seen) == len(table)


def test_an_error_about_ids_does_not_show_them(noiser, table):
    named = table.assign(client=[f"very-private-{k}" for k in range(len(table))])
    with pytest.raises(ValueError, match="row_id 'client'") as caught:
        noiser.transform_batches([*pieces(named), *pieces(named)], row_id="client")
    assert "very-private" not in str(caught.value)


def test_ids_that_are_missing_in_a_later_batch_are_refused_at_once(noiser, table):
    gone = table.assign(client=table.client.where(table.index < 800, None))
    with pytest.raises(ValueError, match="missing"):
        noiser.transform_batches(pieces(gone), row_id="client")


def test_a_stream_goes_on_with_what_was_fitted_when_it_began(table):
    noiser, other = fitted(table), table.assign(cars=table.cars // 3)
    want = noiser.transform_batches(pieces(table), row_id="client", key=KEY).read_all()
    reader = noiser.transform_batches(pieces(table), row_id="client", key=KEY)
    first = reader.read_next_batch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser.fit(other)
    assert pa.Table.from_batches([first, *reader]) == want


def test_a_stream_is_refused_where_fitted_attributes_were_changed(table):
    noiser = copy.deepcopy(fitted(table))
    object.__setattr__(noiser._fitted.mechanism.columns[0], "grid", 8.0)
    with pytest.raises(ValueError, match="not what its certificate_ is about"):
        noiser.transform_batches(table)


def test_a_stream_is_refused_where_the_certificate_does_not_hold(table):
    noiser = fitted(table, strategy=half, public=["cars"])
    with pytest.raises(UncertifiedError, match="exceeds the budget"):
        noiser.transform_batches(table)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("table.csv", TypeError, "is a path"),
        (3, TypeError, "is a int"),
        ({}, TypeError, "is a dict"),
        (np.zeros((2, 3)), TypeError, "is a ndarray"),
        (make_table()["cars"], TypeError, "Series"),
        (pl.LazyFrame(make_table().to_dict("list")), TypeError, "collect_batches"),
        ([], ValueError, "is empty"),
        (iter([]), ValueError, "is empty"),
        ([1], TypeError, "holds a int"),
        ([make_table(), 1], TypeError, "holds a int"),
        (make_table()[:0], ValueError, "0 rows"),
        (make_table().drop(columns="cars"), ValueError, "lacks column 'cars'"),
        ([make_table(), make_table().drop(columns="cars")], ValueError, "without column 'cars'"),
        ([make_table(), make_table().assign(cars=0.5)], TypeError, "int64 in the first"),
        ([make_table(), make_table().assign(town="Rome")], ValueError, "Rome"),
        (pa.table([[1], [1]], names=["cars", "cars"]), ValueError, "more than once"),
    ],
)
def test_what_is_no_stream_of_such_rows_gets_one_sentence(noiser, source, error, message):
    with pytest.raises(error, match=message) as caught:
        noiser.transform_batches(source).read_all()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("row_id", [["a"], "absent", np.arange(900), 99])
def test_ids_beside_a_stream_are_refused(noiser, table, row_id):
    with pytest.raises((TypeError, ValueError), match="row_id"):
        noiser.transform_batches(table, row_id=row_id)


def test_a_fit_without_names_releases_no_stream(table):
    array = table[["owner", "cars"]].to_numpy(dtype=float)
    with pytest.warns(UserWarning, match="need no noise"):
        noiser = PufferfishNoiser(sensitive=0, epsilon=9.0).fit(array)
    with pytest.raises(ValueError, match="without names"):
        noiser.transform_batches(table)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=8, unique=True)),
    st.integers(1, 9),
)
def test_what_was_seen_is_known_on_the_disk_and_in_memory(batches, on_disk):
    seen, known = SeenIds(on_disk), set()
    for batch in batches:
        ids = np.array(batch, dtype=np.uint64).reshape(-1, 2)
        found = seen.first_known(ids)
        again = [k for k, each in enumerate(batch) if each in known]
        assert (found in again) if again else found is None
        known |= set() if again else set(batch)
        assert len(seen) == len(known)


MEMORY = """
import resource, sys
import numpy as np, pyarrow as pa
from sklearn_puffer import PufferfishRelease
release = PufferfishRelease.from_json(sys.argv[1])
def rows(n_rows):
    for start in range(0, n_rows, 50_000):
        ids = np.arange(start, start + 50_000)
        yield pa.RecordBatch.from_pydict({"cars": ids % 6, "id": ids})
for n_rows, by in ((100_000, {}), (1_000_000, {}), (1_000_000, {"row_id": "id"})):
    batches = release.transform_batches(rows(n_rows), **by)
    assert sum(batch.num_rows for batch in batches) == n_rows
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read in kilobytes")
def test_memory_does_not_grow_with_the_rows_beyond_their_ids(table, tmp_path):
    path = tmp_path / "cars.json"
    fitted(table, public=["cars"]).to_json(path)
    asked = [sys.executable, "-c", MEMORY, str(path)]
    run = subprocess.run(asked, capture_output=True, text=True, check=True)
    few, many, with_ids = map(float, run.stdout.split())
    assert many - few < 9  # two columns of 1,000,000 rows are 16 MB
    assert with_ids - many < 54  # their ids, too; there are some copies while runs are merged


# ------------------------------------------------------------------------- what Arrow does not take


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        ([1, "a"] * 450, TypeError, "column 'x' holds mixed-integer values .int, str."),
        ([2**70] * 900, ValueError, "column 'x' holds integers beyond 64 bits"),
        ([2**63 + 5] * 900, ValueError, "column 'x' holds integers beyond 64 bits"),
        (np.arange(900) * 1j, TypeError, "column 'x' holds complex numbers"),
        (pd.arrays.SparseArray(np.arange(900) % 3), TypeError, "column 'x' is sparse .*to_dense"),
        ([[1], "a"] * 450, TypeError, "column 'x' holds mixed values .list, str."),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_what_arrow_has_no_type_for_is_refused_in_our_words(table, column, error, message, whole):
    table = table.assign(x=pd.Series(column, dtype=object) if type(column) is list else column)
    for noiser in (fitted(), fitted(table.assign(x=table["cars"]), public=["x"])):
        with pytest.raises(error, match=message):
            next(iter(noiser.transform_batches(table if whole else [table])))


def test_names_that_occur_twice_or_are_no_strings_are_refused_in_a_stream(table):
    noiser = fitted()
    twice = table.rename(columns={"owner": "town"})
    numbered = table.rename(columns={"owner": 5})
    for source in (twice, [twice]):
        with pytest.raises(ValueError, match="column 'town' occurs more than once in batches"):
            next(iter(noiser.transform_batches(source)))
    with pytest.raises(TypeError, match="column label 5 is not a string"):
        next(iter(noiser.transform_batches([numbered])))


def test_categories_of_intervals_are_refused_in_a_stream():
    table = make_table()
    table["income"] = pd.cut(table["cars"], [-1, 2, 9])
    noiser = fitted(table, public=["income"])
    with pytest.raises(TypeError, match="'income' has categories that are neither strings nor"):
        next(iter(noiser.transform_batches(table)))


def test_ids_of_every_kind_are_those_of_memory_in_a_stream():
    own = table_of_ids()
    noiser = PufferfishNoiser(1.0, sensitive="secret", public=["age"]).fit(own)
    for kind in ID_KINDS.values():
        name = next(iter(kind))
        whole = noiser.transform(own, row_id=name, key=KEY)
        parts = noiser.transform_batches(own.to_batches(max_chunksize=70), row_id=name, key=KEY)
        assert pa.Table.from_batches(parts).equals(whole)
    again = pa.concat_tables([own, own]).to_batches(max_chunksize=len(own))
    with pytest.raises(ValueError, match="row_id 'uuid' has an id in row "):
        list(noiser.transform_batches(iter(again), row_id="uuid", key=KEY))
