"""The same values are the same table, whatever type, library or engine holds them.

A keyed release of one table must not depend on how its cells are stored, nor on the order of rows.
What a library has no function for is done another way, or refused by name with the way out.
"""

import datetime as dt
from decimal import Decimal
from itertools import product

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.base import clone

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
)
from sklearn_puffer._tables import Values, alike, row_digests

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")

N = 90
KEY = b"blake2b:" + bytes(range(32))
RNG = np.random.default_rng(0)
PLACES = RNG.integers(0, 5, N).tolist()
GAPS = (RNG.random(N) < 0.1).tolist()
BESIDE = {
    "client": list(range(1000, 1000 + N)),
    "ill": RNG.choice(["no", "yes"], N).tolist(),
    "y": [k % 3 for k in range(N)],
}
USES = {
    "noise": PufferfishNoiser(3.0, missing="propagate", dependence="independent"),
    "typical rows": PufferfishMicroaggregator(3.0, n_prototypes=4),
    "a swap": PufferfishSwap(3.0, ids="client"),
    "a swap that knows": PufferfishSwap(3.0, ids="client"),
}
KINDS = {  # the values of five places, and their type in Arrow
    "integers": ([0, 3, 6, 9, 12], pa.int64()),
    "numbers": ([0.0, 1 / 3, -0.5, 1e9, 0.1], pa.float64()),
    "booleans": ([False, True, True, False, True], pa.bool_()),
    "texts": (["", "é", "e\u0301", "a", "A"], pa.string()),
    "days": ([dt.date(1, 1, 2) + dt.timedelta(k) for k in range(5)], pa.date32()),
    "times": ([dt.datetime(1999, 12, 30, 1, 2, 3, k) for k in range(5)], pa.timestamp("us")),
    "durations": ([dt.timedelta(k, 5) for k in range(5)], pa.duration("us")),
}
OF_ENGINES = ["integers", "numbers", "booleans", "texts"]


def cells(kind, turn=0, gaps=True):
    """Return values of a kind, of which those of every turn go another way through the rows."""
    places = [(k * (turn + 1) + turn) % 5 for k in PLACES]
    return [
        None if gaps and gap else KINDS[kind][0][k] for k, gap in zip(places, GAPS, strict=True)
    ]


def arrow(columns):
    """Return a table of Arrow, given (values, type) of columns by name."""
    return pa.table(BESIDE | {name: pa.array(*each) for name, each in columns.items()})


def in_pandas(columns, **dtype):
    return pd.DataFrame(
        BESIDE | {name: pd.Series(values, **dtype) for name, (values, _) in columns.items()}
    )


def with_na(columns):
    return in_pandas(
        {n: ([pd.NA if x is None else x for x in xs], t) for n, (xs, t) in columns.items()},
        dtype=object,
    )


HOLDERS = {
    "chunks": lambda columns: pa.concat_tables([arrow(columns)[:40], arrow(columns)[40:]]),
    "polars": lambda columns: pl.from_arrow(arrow(columns)),
    "pandas on arrow": lambda columns: arrow(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "objects": lambda columns: in_pandas(columns, dtype=object),
    "objects with NA": with_na,
    "best types": lambda columns: in_pandas(columns, dtype=object).convert_dtypes(),
}
LAZY = {
    "lazy": lambda columns: pl.from_arrow(arrow(columns)).lazy(),
    "duckdb": lambda columns: duckdb.from_arrow(arrow(columns)),
}


def plain(cell):
    """Return a released cell in a type of Python, dates as their first moment."""
    if pd.isna(cell):
        return None
    if isinstance(cell, pd.Timestamp):
        return cell.to_pydatetime()
    if isinstance(cell, pd.Timedelta):
        return cell.to_pytimedelta()
    if isinstance(cell, dt.date) and not isinstance(cell, dt.datetime):
        return dt.datetime(cell.year, cell.month, cell.day)
    return cell


def fitted(use, table):
    """Return an estimator that was fitted with all columns but the two as public or known."""
    rest = [name for name in names_of(table) if name not in ("client", "ill", "y")]
    columns = {"public": "y", "known": rest} if "knows" in use else {"public": ["y", *rest]}
    return clone(USES[use]).set_params(sensitive="ill", **columns).fit(table)


def released(use, table):
    """Return the columns of a keyed release as lists."""
    rows = fitted(use, table).transform(table, row_id="client", key=KEY)
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if isinstance(rows, duckdb.DuckDBPyRelation):
        rows = rows.to_arrow_table()
    lists = {
        name: rows[name].to_pylist() if isinstance(rows, pa.Table) else rows[name].to_list()
        for name in names_of(rows)
    }
    return {name: [*map(plain, each)] for name, each in lists.items()}


def names_of(table):
    """Return the names of the columns of a table of any library."""
    if isinstance(table, pl.LazyFrame):
        return table.collect_schema().names()
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def columns_of(kinds):
    return {kind: (cells(kind, turn), KINDS[kind][1]) for turn, kind in enumerate(kinds)}


def every_second(uses, holders):
    """Return pairs in which each mechanism has half of the holders, and each holder half of them.

    Mechanisms share what reads a column.
    """
    both = product(enumerate(uses), enumerate(holders))
    return [(use, holder) for (i, use), (k, holder) in both if (i + k) % 2 == 0]


@pytest.fixture(scope="module")
def expected():
    """Return the releases of the Arrow table, of each mechanism and of some columns, made once."""
    return {
        (use, len(kinds)): released(use, arrow(columns_of(kinds)))
        for use in USES
        for kinds in (list(KINDS), OF_ENGINES)
    }


@pytest.mark.parametrize(("use", "holder"), every_second(USES, HOLDERS))
def test_a_keyed_release_is_that_of_the_values_whatever_holds_them(use, holder, expected):
    assert released(use, HOLDERS[holder](columns_of(KINDS))) == expected[use, len(KINDS)]


@pytest.mark.parametrize("holder", LAZY)
@pytest.mark.parametrize("use", USES)
def test_a_keyed_release_of_an_engine_is_that_of_the_values(use, holder, expected):
    found, wanted = (
        sorted(zip(*columns.values(), strict=True), key=repr)
        for columns in (released(use, LAZY[holder](columns_of(OF_ENGINES))), expected[use, 4])
    )
    assert found == wanted


# ------------------------------------------------------------------- whole numbers beyond 2^53

LARGE = [2**60 + k for k in PLACES]
OTHERS = [use for use in USES if use != "noise"]


@pytest.mark.parametrize("use", OTHERS)
@pytest.mark.parametrize("holder", ["polars", "pandas on arrow", "objects"])
def test_integers_that_no_float_tells_apart_are_released_to_the_last_digit(use, holder):
    columns = {"x": (LARGE, pa.int64())}
    found = released(use, HOLDERS[holder](columns))
    assert found == released(use, arrow(columns))
    assert {*found["x"]} <= {*LARGE}
    assert use == "typical rows" or sorted(found["x"]) == sorted(LARGE)


def test_typical_rows_of_large_integers_do_not_depend_on_the_order_of_rows():
    table = in_pandas({"x": (LARGE, None)})
    first, second = (
        fitted("typical rows", table.sample(frac=1.0, random_state=seed)) for seed in range(2)
    )
    assert first.certificate_.fingerprint == second.certificate_.fingerprint
    pd.testing.assert_frame_equal(first.prototypes_, second.prototypes_)


def test_large_ids_of_other_people_are_other_ids():
    table = in_pandas({"x": (PLACES, None)}).assign(client=2**60 + np.arange(N))
    assert sorted(fitted("a swap", table).transform(table)["client"]) == [*table["client"]]


def digests(numbers, dtype, name="x"):
    kind = "float" if np.dtype(dtype).kind == "f" else "integer"
    return row_digests({name: Values(kind, np.array(numbers, dtype))}).tolist()


def labels(levels, codes):
    codes = np.array(codes)
    return Values("category", codes, codes < 0, tuple(levels))


def test_equal_numbers_have_one_digest_and_others_another_whatever_their_type():
    powers = [2**k + step for k in range(8, 63) for step in (-1, 0, 1)]
    numbers = [*range(120), *powers, *(-x for x in powers), -(2**63), 2**63 - 1]
    numbers = sorted({*numbers})
    found = digests(numbers, np.int64)
    assert len({*found}) == len(numbers)
    as_floats = digests([float(x) for x in numbers], np.float64)
    for x, one, other in zip(numbers, found, as_floats, strict=True):
        assert (one == other) == (float(x) == x)
    assert row_digests({"x": labels(numbers, range(len(numbers)))}).tolist() == found
    small, positive = (found[numbers.index(0) :][:n] for n in (120, None))
    for dtype in (np.int8, np.int16, np.uint8, np.uint32, np.float16, np.float32):
        assert digests(range(120), dtype) == small
    assert digests(numbers[numbers.index(0) :], np.uint64) == positive
    assert len({*digests([2**64 - 1, 2**64 - 2, 2**63], np.uint64)} - {*found}) == 3


def test_digests_are_those_of_every_version():
    """The rows of a sample, and so saved typical rows, depend on these very numbers."""
    assert digests([0, -1, 2**53, 2**60, -(2**63)], np.int64, "integers") == [
        6457843671533558686,
        8055294514598440515,
        4763298475514407762,
        4231942100899513914,
        3546214729919287231,
    ]
    assert digests([-0.0, 0.1, np.nan, np.inf, -np.inf], np.float64, "numbers") == [
        911301052649589993,
        8589638513928848292,
        270785092515460233,
        6500859154086155103,
        8082065447367730225,
    ]


def test_nan_beside_a_missing_value_has_the_digest_of_one():
    numbers, gone = np.array([1.0, np.nan, 1.0]), np.array([False, False, True])
    held = Values("float", numbers, gone)
    assert row_digests({"x": held}).tolist() == digests([1.0, np.nan, np.nan], np.float64)


def test_digests_know_labels_by_their_letters_and_columns_by_their_names():
    words = ["", "é", "e\u0301", "a", None]
    first = row_digests({"w": labels(words[:4], [0, 1, 2, 3, -1])})
    assert len({*first.tolist()}) == 5
    assert (row_digests({"w": labels(words[3::-1], [3, 2, 1, 0, -1])}) == first).all()
    assert not (row_digests({"v": labels(words[:4], [0, 1, 2, 3, -1])}) == first).any()
    columns = {"a": Values("integer", np.arange(5)), "b": Values("integer", np.arange(5)[::-1])}
    both = row_digests(columns)
    assert (row_digests(dict(reversed(columns.items()))) == both).all()
    assert len({*both.tolist()}) == 5
    swapped = {"b": columns["a"], "a": columns["b"]}
    assert (row_digests(swapped) != both)[[0, 1, 3, 4]].all()


@pytest.mark.parametrize(
    "level", [(1, 2), 10**400, pd.Interval(0, 1), pd.Timestamp(2020, 1, 1), True, None]
)
def test_a_category_of_any_kind_has_a_digest(level):
    one, other = row_digests({"x": labels([level, "another"], [0, 1])}).tolist()
    assert one != other


def test_equal_objects_are_written_alike_and_no_digit_is_lost():
    given = [2**60 + 1, np.int64(2**60 + 1), 3.0, np.float32(3), 3, Decimal("3.00"), True, 0.5]
    column = np.empty(len(given), dtype=object)
    column[:] = given
    written = alike(column).tolist()
    assert written == [2**60 + 1, 2**60 + 1, 3, 3, 3, Decimal(3), True, 0.5]
    assert [*map(type, written)] == [int] * 5 + [Decimal, bool, float]


# ------------------------------------------------------------------------------ types of Arrow


@pytest.mark.parametrize("use", USES)
def test_string_views_of_arrow_are_released_as_strings(use):
    values = cells("texts")
    table = arrow({"x": (values, pa.string_view())})
    found = released(use, table)
    assert found == released(use, arrow({"x": (values, pa.string())}))
    assert fitted(use, table).transform(table)["x"].type == pa.string()
    assert table["x"].type == pa.string_view()  # the caller's own table is as it was


def test_string_views_of_arrow_are_secrets_and_ids_too():
    table = arrow({"x": (PLACES, pa.int64())})
    columns = {name: table[name].cast(pa.string()).cast(pa.string_view()) for name in BESIDE}
    views = pa.table(columns | {"x": table["x"]})
    swapped = PufferfishSwap(3.0, sensitive="ill", ids="client", public="x").fit_transform(views)
    assert swapped["client"].to_pylist() == [*map(str, BESIDE["client"])]
    beside = PufferfishNoiser(3.0, public="x").fit(views, sensitive_features=views["ill"])
    assert beside.certificate_.holds


@pytest.mark.parametrize("use", USES)
def test_string_views_of_pandas_are_refused_by_name(use):
    table = arrow({"x": (cells("texts"), pa.string_view())})
    with pytest.raises(TypeError, match=r"column 'x' has type string_view\[pyarrow\].* convert it"):
        fitted(use, table.to_pandas(types_mapper=pd.ArrowDtype))


@pytest.mark.parametrize("use", USES)
def test_nan_in_a_type_that_has_missing_values_of_its_own_is_missing(use):
    floats = [None if gap else k / 3 for k, gap in zip(PLACES, GAPS, strict=True)]
    table = arrow({"x": (floats, pa.float64())})
    nan = table.set_column(table.column_names.index("x"), "x", pc.fill_null(table["x"], np.nan))
    assert released(use, nan.to_pandas(types_mapper=pd.ArrowDtype)) == released(use, table)


@pytest.mark.parametrize("use", USES)
def test_halves_of_floats_are_released_in_a_type_that_holds_them(use):
    halves = np.where(GAPS, None, (np.array(PLACES) / 3).astype(np.float16)).tolist()
    table = arrow({"x": (halves, pa.float16())})
    kind = fitted(use, table).transform(table)["x"].type
    assert kind == (pa.float64() if use == "noise" else pa.float16())  # that holds the noise
    assert released(use, table) == released(use, arrow({"x": (halves, pa.float64())}))


# -------------------------------------------------------------------------- the largest floats


FAR = in_pandas({"x": ([(1e308, -1e308, 1.7e308, 0.0, -1.5e308)[k] for k in PLACES], None)})


def test_noise_refuses_a_column_of_the_largest_floats_by_name():
    with pytest.raises(ValueError, match=r"column 'x' holds .* give it in another unit"):
        fitted("noise", FAR)


@pytest.mark.parametrize("use", OTHERS)
def test_the_largest_floats_are_released_as_they_are(use):
    estimator = fitted(use, FAR)
    assert {*estimator.transform(FAR)["x"]} <= {*FAR["x"]}
    assert not estimator.utility_.isna().any(axis=None)


# ------------------------------------------------------------------------------- nothing there


NOTHING = {
    "objects": [None] * N,
    "strings": pd.array([None] * N, dtype="str"),
    "categories": pd.Categorical([None] * N),
    "NaN": np.full(N, np.nan),
}


@pytest.mark.parametrize("kind", NOTHING)
@pytest.mark.parametrize("use", OTHERS)
def test_a_column_without_values_is_released_from_a_file_too(use, kind):
    table = pd.DataFrame(BESIDE | {"x": NOTHING[kind]})
    read = PufferfishRelease.from_json(fitted(use, table).to_json())
    released = read.transform(table)["x"]
    assert released.isna().all()
    assert released.dtype == table["x"].dtype


def test_typical_rows_of_which_none_lacks_a_value_that_some_rows_lack_are_saved_too():
    gaps = pd.DataFrame(BESIDE | {"y": 0, "x": [None, "a", "a"] * (N // 3)}).head(75)
    typical = PufferfishMicroaggregator(3.0, sensitive="ill", public=["x", "y"], n_prototypes=2)
    saved = PufferfishRelease.from_json(typical.fit(gaps).to_json())
    assert len(typical.prototypes_) == 1
    assert saved.transform(gaps)["x"].tolist() == ["a"] * 75


UNREAD = {
    "nothing": (pa.nulls(N), "null"),
    "days in milliseconds": (pa.array(cells("days"), pa.date64()), r"date64\[ms\]"),
    "bytes of one length": (pa.array([b"ab"] * N, pa.binary(2)), r"fixed_size_binary\[2\]"),
    "lists": (pa.array([[1]] * N), r"List\(Int64\)"),
}


@pytest.mark.parametrize("kind", UNREAD)
@pytest.mark.parametrize("use", USES)
def test_a_type_that_is_not_read_is_named_with_its_column_and_the_way_out(use, kind):
    column, name = UNREAD[kind]
    with pytest.raises(TypeError, match=f"column 'x' has type {name}; convert .*, or leave it out"):
        fitted(use, pa.table(BESIDE | {"x": column}))


@pytest.mark.parametrize("use", ["noise", "typical rows", "a swap"])
def test_an_infinite_category_is_refused_in_a_file_by_name(use):
    table = pd.DataFrame(BESIDE | {"x": pd.Categorical([0.5, np.inf, 0.5] * (N // 3))})
    with pytest.raises(ValueError, match=r"column 'x' has the value inf .* convert the column"):
        fitted(use, table).to_json()


# ------------------------------------------------------------------------------------ arrays


MATRIX = np.column_stack([PLACES, BESIDE["y"]]).astype(float)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def mapped(array, path):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


ARRAYS = {
    "read-only": lambda path: read_only(MATRIX),
    "mapped": lambda path: mapped(MATRIX, path),
    "by columns": lambda path: np.asfortranarray(MATRIX),
    "with strides": lambda path: np.repeat(MATRIX, 2, axis=0)[::2],
    "of the other byte order": lambda path: MATRIX.astype(">f8"),
    "of bytes": lambda path: MATRIX.astype(np.uint8),
    "of objects": lambda path: MATRIX.astype(int).astype(object),
    "lists": lambda path: MATRIX.tolist(),
}


@pytest.mark.parametrize(("use", "form"), every_second(["noise", "typical rows", "a swap"], ARRAYS))
def test_a_keyed_release_of_an_array_is_that_of_its_numbers(use, form, tmp_path):
    columns = {"ids": None} if use == "a swap" else {}
    secrets = {"sensitive_features": BESIDE["ill"]}
    beside = secrets if use == "a swap" else {}
    first, other = (
        clone(USES[use])
        .set_params(**columns)
        .fit(X, **secrets)
        .transform(X, row_id=BESIDE["client"], key=KEY, **beside)
        for X in (MATRIX, ARRAYS[form](tmp_path / "rows.npy"))
    )
    assert other.tolist() == first.tolist()
