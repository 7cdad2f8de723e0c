"""Columns as numpy sees them, beside lists of plain Python objects."""

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sklearn_puffer._tables import Values, frame_table
from sklearn_puffer._tables.values import check_finite

KINDS = ("float", "integer", "boolean", "category")
LEVELS = ("e", "b", "d", "a", "c")


def some_values(seed):
    """Return a column of some kind, in which what is missing has any data at all."""
    rng = np.random.default_rng(seed)
    kind, n = KINDS[seed % 4], int(rng.integers(1, 9))
    data = rng.integers(0, 2 if kind == "boolean" else 4, n)
    types = {"float": np.float64, "boolean": np.bool_}
    data = data.astype(types.get(kind, np.int64)) - (0.5 if kind == "float" else 0)
    gone = rng.random(n) < (seed % 3) / 3
    levels = LEVELS if kind == "category" else None
    counts = rng.integers(1, 9, n) if seed % 5 == 0 else None
    missing = gone if gone.any() else None
    return Values(kind, data, missing, levels, ordered=seed % 2 == 0, counts=counts)


def cells(values):
    """Return a column as a list; None is missing."""
    gone = [False] * len(values) if values.missing is None else values.missing.tolist()
    data = values.data.tolist()
    return [
        None if lacks else x if values.levels is None else values.levels[x]
        for x, lacks in zip(data, gone, strict=True)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_a_column_answers_as_the_list_of_its_cells_does(seed):
    values = some_values(seed)
    plain, n = cells(values), len(values)
    there = [x for x in plain if x is not None]
    often = [1] * n if values.counts is None else values.counts.tolist()
    assert values.n_missing == sum(k for k, x in zip(often, plain, strict=True) if x is None)
    coded = there if values.levels is None else [LEVELS.index(x) for x in there]
    assert values.present.tolist() == coded
    filled = values.filled(77).tolist()
    assert filled.count(77) == n - len(there)
    assert [x for x in filled if x != 77] == coded
    rows = np.arange(n)[:: 1 + seed % 2]
    some = values.taken(rows)
    assert cells(some) == [plain[k] for k in rows]
    assert (some.kind, some.levels, some.ordered) == (values.kind, values.levels, values.ordered)
    assert some.counts is None
    ranks = values.ranks().tolist()
    assert [rank == -1 for rank in ranks] == [x is None for x in plain]
    apart = sorted(zip(coded, (rank for rank in ranks if rank >= 0), strict=True))
    for (one, rank), (other, further) in pairwise(apart):
        assert (one < other) == (rank < further)


@pytest.mark.parametrize("seed", range(60))
def test_levels_are_the_distinct_values_and_those_that_occur(seed):
    values = some_values(seed)
    plain = cells(values)
    there = {x for x in plain if x is not None}
    levelled = values.as_levels()
    assert cells(levelled) == plain
    assert levelled.kind == "category"
    assert levelled.counts is values.counts
    if values.levels is None:
        assert levelled.levels == tuple(sorted(there))
        assert values.without_unused() is values
        return
    assert levelled is values
    assert values.labels().tolist() == plain
    used = [level for level in LEVELS if level in there]
    assert values.used_levels() == used
    bare = values.without_unused()
    assert (cells(bare), bare.levels) == (plain, tuple(used))
    declared = Values("category", values.data, values.missing, LEVELS, declared=True)
    assert declared.without_unused() is declared


@pytest.mark.parametrize("kind", KINDS[:3])
def test_missing_objects_alone_are_read_as_the_kind_that_fit_has_seen(kind):
    nothing = Values("category", np.full(3, -1), np.ones(3, dtype=bool), (), counts=np.arange(3))
    read = nothing.of_kind(kind)
    assert cells(read) == [None] * 3
    assert read.counts.tolist() == [0, 1, 2]
    kinds = {"float": "f", "integer": "i", "boolean": "b"}
    assert (read.kind, read.data.dtype.kind) == (kind, kinds[kind])
    assert np.isnan(read.data).all() == (kind == "float")
    something = Values("category", np.array([0, -1]), np.array([False, True]), ("a",))
    assert something.of_kind(kind) is something
    numbers = Values("integer", np.arange(3))
    assert numbers.of_kind(kind) is numbers


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_times_are_counted_in_days_whatever_their_unit(kind, unit):
    day = int(np.timedelta64(1, "D") / np.timedelta64(1, unit))
    gone = np.array([False, False, True])
    times = Values("integer", np.array([3 * day, -day, 7]), gone, unit=f"{kind}[{unit}]")
    days = times.in_days()
    assert (days.kind, days.unit) == ("float", None)
    assert days.data[:2].tolist() == [3.0, -1.0]
    assert np.isnan(days.data[2])
    assert days.missing is gone
    whole = Values("integer", np.array([day]), unit=f"{kind}[{unit}]")
    assert whole.in_days().data.tolist() == [1.0]
    assert days.in_days() is days


def test_missing_values_are_refused_unless_they_have_a_place():
    gone = np.array([True, False])
    for kind in KINDS:
        lacking = Values(kind, np.zeros(2, dtype=int), gone, ("a",) if kind == "category" else None)
        lacking.check_missing("x", "propagate")
        with pytest.raises(ValueError, match=r"'x' has 1 missing value") as fault:
            lacking.check_missing("x", "error")
        is_code = kind in ("category", "boolean")
        assert ('missing="category"' in str(fault.value)) == is_code
        if is_code:
            lacking.check_missing("x", "category")
        else:
            with pytest.raises(ValueError, match=r"no place for its 1 missing .* numeric"):
                lacking.check_missing("x", "category")
        Values(kind, np.zeros(2)).check_missing("x", "error")
        with pytest.raises(ValueError, match="missing"):
            lacking.check_whole("x")


@pytest.mark.parametrize("far", [2**53 - 1, 2**53, 2**62])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_that_floats_cannot_tell_apart_are_refused_with_the_farthest(far, sign):
    values = Values("integer", np.array([5, sign * far, -3 * sign]))
    if far < 2**53:
        values.check_exact("x")
    else:
        with pytest.raises(ValueError, match=rf"such as {sign * far}, which float64"):
            values.check_exact("x")
    Values("integer", np.array([], dtype=np.int64)).check_exact("x")
    Values("integer", np.array([-128], dtype=np.int8)).check_exact("x")


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_numbers_that_are_not_finite_are_named(bad, word):
    check_finite(np.array([1.0, -1.0]), "x")
    check_finite(np.array([]), "x")
    for numbers in ([1.0, bad], [bad, 2.0]):
        with pytest.raises(ValueError, match=f"'x' contains {word}"):
            check_finite(np.array(numbers), "x")
        with pytest.raises(ValueError, match=f"'x' contains {word}"):
            Values("float", np.array(numbers)).check_whole("x")
    Values("integer", np.array([1, 2])).check_whole("x")


# --------------------------------------------------------------------------------------- columns

GAP = [True, False, False]
NUMBERS = {
    "boolean": ([None, True, False], ["boolean", "bool[pyarrow]", object]),
    "integer": ([None, 3, -7], ["Int8", "Int64", "int64[pyarrow]", object]),
    "float": ([None, 0.5, -7.0], ["Float32", "Float64", "double[pyarrow]", object, "f4", "f8"]),
}


@pytest.mark.parametrize(("kind", "dtype"), [(k, d) for k in NUMBERS for d in NUMBERS[k][1]])
def test_a_column_of_pandas_is_read_as_its_numbers_with_and_without_gaps(kind, dtype):
    listed = NUMBERS[kind][0]
    for cells_, missing in ((listed, GAP), (listed[1:], None)):
        frame = pd.DataFrame({"x": pd.Series(cells_, dtype=dtype)})
        values = frame_table(frame).values("x")
        assert values.kind == kind
        assert cells(values) == cells_
        assert missing == (None if values.missing is None else values.missing.tolist())
        assert missing is None or kind != "float" or np.isnan(values.data[0])
        assert (values.levels, values.declared, values.counts) == (None, False, None)
        width = {"Int8": 1, "Float32": 4, "f4": 4, "bool[pyarrow]": 1, "boolean": 1}
        if dtype in width:
            assert values.data.dtype.itemsize == width[dtype]


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_a_column_of_other_libraries_is_read_as_its_numbers(kind, library):
    listed = NUMBERS[kind][0]
    make = pa.table if library == "arrow" else pl.DataFrame
    for cells_ in (listed, listed[1:]):
        values = frame_table(make({"x": cells_})).values("x")
        assert (values.kind, cells(values)) == (kind, cells_)
    narrow = pl.DataFrame({"x": pl.Series([None, 0.5], dtype=pl.Float32)})
    assert frame_table(narrow).values("x").data.dtype == np.float32


WORDS = ["b", None, "a", "b"]


@pytest.mark.parametrize("dtype", ["str", "string", object, "category", "string[pyarrow]"])
def test_a_column_of_strings_is_read_as_codes_of_its_sorted_levels(dtype):
    for listed in (WORDS, ["b", "a"]):
        values = frame_table(pd.DataFrame({"x": pd.Series(listed, dtype=dtype)})).values("x")
        assert (values.kind, values.levels, cells(values)) == ("category", ("a", "b"), listed)
        assert (values.missing is None) == (None not in listed)
        assert values.declared == (dtype == "category")
        assert not values.ordered


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["b", "c", "a"])])
def test_a_column_of_strings_of_polars_is_read_in_the_order_that_its_type_declares(dtype):
    values = frame_table(pl.DataFrame({"x": pl.Series(WORDS, dtype=dtype)})).values("x")
    declares = isinstance(dtype, pl.Enum)
    assert cells(values) == WORDS
    assert values.levels == (("b", "c", "a") if declares else ("a", "b"))
    assert values.declared == values.ordered == declares


@pytest.mark.parametrize("ordered", [True, False])
def test_categories_come_in_their_declared_order_or_sorted(ordered):
    dtype = pd.CategoricalDtype(["b", "c", "a"], ordered)
    values = frame_table(pd.DataFrame({"x": pd.Series(WORDS, dtype=dtype)})).values("x")
    assert values.levels == (("b", "c", "a") if ordered else ("a", "b", "c"))
    assert (cells(values), values.ordered, values.declared) == (WORDS, ordered, True)
    mixed = pd.DataFrame({"x": pd.Categorical([1, "a"], [1, "a"], ordered=ordered)})
    if ordered:
        assert cells(frame_table(mixed).values("x")) == [1, "a"]
    else:
        with pytest.raises(TypeError, match=r"'x' holds mixed.* \(int, str\)"):
            frame_table(mixed).values("x")


def test_decimals_and_long_floats_are_read_where_float64_holds_them():
    tenths = [Decimal("0.1"), None, Decimal("0.25")]
    values = frame_table(pd.DataFrame({"x": pd.Series(tenths, dtype=object)})).values("x")
    assert (values.kind, cells(values)) == ("float", [0.1, None, 0.25])
    long = pd.DataFrame({"x": np.array([0.5, np.nan], dtype=np.longdouble)})
    assert cells(frame_table(long).values("x")) == [0.5, None]
    assert frame_table(long).values("x").data.dtype == np.float64


def objects(*listed):
    return pd.Series(listed, dtype=object)


REFUSED = {
    "complex": (pd.Series([1j]), "holds complex numbers"),
    "periods": (pd.Series(pd.period_range("2020", periods=2)), "holds dates or durations"),
    "sparse": (pd.Series(pd.arrays.SparseArray([0, 1])), "is sparse .*sparse.to_dense"),
    "mixed": (objects(1, "a"), r"holds mixed-integer values \(int, str\)"),
    "lists": (objects([1]), "holds mixed values"),
    "large integers": (objects(2**64, 1), "holds integers beyond 64 bits"),
    "decimals": (
        objects(Decimal(1), Decimal("1.00000000000000000001")),
        "holds decimals of more digits",
    ),
    "other objects": (objects(dt.date(2020, 1, 1), None), "holds date values"),
    "surrogates": (objects("\ud800", "'\\ud800'"), "holds strings that are no Unicode"),
    "a surrogate": (objects("a\ud800", "b"), "holds strings that are no Unicode"),
    "long floats": (
        pd.Series(np.array([1.0, 1.0], np.longdouble) / 3),
        "holds .*, which is no float64 number",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_column_that_floats_or_labels_do_not_hold_is_refused_by_name(case):
    column, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=f"column 'x' {message}"):
        frame_table(pd.DataFrame({"x": column})).values("x")
