"""Of equal values, and of missing ones, nothing comes out that tells them apart."""

import io
import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser, PufferfishSwap

RNG, N = np.random.default_rng(0), 300
ILL = RNG.random(N) < 0.4
GONE = RNG.random(N) < 0.3
SECRET = 7_777_777_777
TABLE = pd.DataFrame({"id": range(N), "ill": ILL, "x": RNG.integers(0, 4, N) + ILL})
UTILITY = "ignore::sklearn_puffer.UtilityWarning"
MIDNIGHT = datetime(2020, 1, 1)
HOUR = datetime(2020, 10, 25, 2, 30)


def masked(kind):
    """Return a column whose missing values were masked, as each library does it, and a table."""
    values, gone = np.where(GONE, SECRET, 5), pd.Series(GONE)
    if kind == "pandas":
        return TABLE.assign(note=pd.Series(values, dtype="Int64").mask(gone))
    hidden = pl.when(pl.Series(GONE)).then(None).otherwise(pl.col("note")).alias("note")
    table = pl.from_pandas(TABLE).with_columns(note=pl.Series(values)).with_columns(hidden)
    return table if kind == "polars" else table.to_arrow()


def as_bytes(table):
    """Return a release as a colleague may file it."""
    if isinstance(table, pd.DataFrame):
        return pickle.dumps(table)
    table = table if isinstance(table, pa.Table) else table.to_arrow()
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


ROLES = [
    PufferfishSwap(sensitive="ill", public="x", ids="id", known="note"),
    PufferfishSwap(sensitive="ill", public="x", ids=["id", "note"]),
    PufferfishSwap(sensitive="ill", public=["x", "note"], ids="id"),
    PufferfishMicroaggregator(sensitive="ill", public="x", known="note", n_prototypes=4),
    PufferfishMicroaggregator(sensitive="ill", public="x", n_prototypes=4, remainder="passthrough"),
    PufferfishNoiser(3.0, sensitive="ill", public="x", remainder="passthrough"),
    PufferfishNoiser(3.0, sensitive="ill", public=["x", "note"], missing="propagate"),
]


@pytest.mark.filterwarnings(UTILITY)
@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("release", ROLES, ids=range(len(ROLES)))
def test_what_was_masked_is_not_released_beneath_the_missing_value(release, kind):
    table, masked_bytes = masked(kind), np.int64(SECRET).tobytes()
    assert masked_bytes in as_bytes(table)
    released = clone(release).fit_transform(table)
    assert masked_bytes not in as_bytes(released)
    note = released["note"]
    gone = note.is_null().to_numpy() if kind != "pandas" else note.isna().to_numpy()
    assert gone.sum() == GONE.sum()


def masked_in_arrow(kind):
    """Return a column of pandas over Arrow, with the value that lies beneath the missing ones."""
    if kind == "times":
        times = np.where(GONE, SECRET, 5).view("datetime64[us]")
        return pa.array(times, mask=GONE), np.int64(SECRET).tobytes()
    texts = pa.array(np.where(GONE, "SECRET", "open").tolist())
    there = pa.py_buffer(np.packbits(~GONE, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.string(), N, [there, *texts.buffers()[1:]]), b"SECRET"


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.filterwarnings(UTILITY)
@pytest.mark.parametrize("kind", ["times", "texts"])
@pytest.mark.parametrize("release", ROLES[1:6], ids=range(1, 6))
def test_what_was_masked_in_arrow_is_not_released_in_columns_of_pandas(release, kind):
    array, hidden = masked_in_arrow(kind)
    table = TABLE.assign(note=pd.Series(pd.arrays.ArrowExtensionArray(array)))
    assert hidden in pickle.dumps(table)
    released = clone(release).fit_transform(table)
    assert hidden not in pickle.dumps(released)
    assert released["note"].isna().sum() == GONE.sum()
    assert released["note"].dtype == table["note"].dtype


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.filterwarnings(UTILITY)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("release", ROLES[:6], ids=range(6))
def test_codes_of_a_dictionary_beneath_missing_values_are_all_one(release, ordered):
    """Those that were masked would tell who of these is ill."""
    codes = pa.array(ILL.astype(np.int32), mask=GONE)
    note = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), ordered=ordered)
    table = pa.Table.from_pandas(TABLE).append_column("note", note)
    released = clone(release).fit_transform(table)["note"].combine_chunks()
    beneath = np.frombuffer(released.indices.buffers()[1], np.int32)[: len(released)]
    gone = released.is_null().to_numpy(zero_copy_only=False)
    assert gone.sum() == GONE.sum()
    assert len(set(beneath[gone])) == 1
    assert released.type == table["note"].type


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.filterwarnings(UTILITY)
@pytest.mark.parametrize("values", [[1, 2], {"a": 1}], ids=["lists", "structs"])
def test_nested_columns_of_arrow_are_passed_as_they_are(values):
    note = pa.array([None if gone else values for gone in GONE])
    table = TABLE.assign(note=pd.Series(pd.arrays.ArrowExtensionArray(note)))
    assert clone(ROLES[5]).fit_transform(table)["note"].equals(table["note"])


def test_a_column_that_is_masked_whole_holds_nothing():
    swap = PufferfishSwap(sensitive="ill", public="x", ids=["id", "note"])
    whole = pd.Series(np.full(N, SECRET), dtype="Int64").mask(pd.Series(np.ones(N, bool)))
    released = swap.fit_transform(TABLE.assign(note=whole))
    assert released["note"].isna().all()
    assert np.int64(SECRET).tobytes() not in pickle.dumps(released)


EQUAL = {
    "decimals": (Decimal("1.0"), Decimal("1.00")),
    "dates": (date(2020, 1, 1), MIDNIGHT),
    "times": (MIDNIGHT, pd.Timestamp(MIDNIGHT)),
    "folds": (HOUR, HOUR.replace(fold=1)),
    "durations": (timedelta(hours=1), pd.Timedelta("1h")),
}


@pytest.mark.filterwarnings(UTILITY)
@pytest.mark.parametrize("release", [ROLES[0], ROLES[3]], ids=["swap", "typical rows"])
@pytest.mark.parametrize("equal", EQUAL.values(), ids=EQUAL)
def test_equal_known_values_of_several_types_are_written_alike(release, equal):
    """Their types would tell every secret."""
    note = pd.Series([equal[int(ill)] for ill in ILL], dtype=object)
    released = clone(release).fit_transform(TABLE.assign(note=note))
    assert len({repr(value) for value in released["note"]}) == 1
    assert released["note"].iloc[0] == equal[1]


def test_a_value_that_an_arrow_dictionary_has_twice_is_written_alike():
    codes = pa.DictionaryArray.from_arrays(pa.array(ILL.astype(np.int32)), pa.array(["a", "a"]))
    table = pa.Table.from_pandas(TABLE).append_column("note", codes)
    released = clone(ROLES[0]).fit_transform(table)["note"].combine_chunks()
    assert set(released.to_pylist()) == {"a"}
    assert len(set(released.indices.to_pylist())) == 1
