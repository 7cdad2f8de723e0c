"""A swapped table has the rows of the original one: of any type, in any frame, exactly."""

import datetime as dt
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer import PufferfishSwap

N = 16
DAY = dt.date(2020, 1, 1)
# few values each, so that they are no identifiers
KINDS = {
    "whole": lambda k: pd.Series(k, dtype="int64"),
    "small": lambda k: pd.Series(k, dtype="uint8"),
    "nullable": lambda k: pd.Series([None if v == 3 else v for v in k], dtype="Int64"),
    "real": lambda k: pd.Series([np.nan if v == 3 else (v - 1) * 0.1 for v in k]),
    "single": lambda k: pd.Series([v - 0.5 for v in k], dtype="float32"),
    "zeros": lambda k: pd.Series([(-0.0, 0.0, np.inf, -np.inf)[v] for v in k]),
    "word": lambda k: pd.Series([None if v == 3 else "xyz"[v] for v in k], dtype="object"),
    "string": lambda k: pd.Series([None if v == 3 else "xyz"[v] for v in k], dtype="string"),
    "category": lambda k: pd.Series(
        pd.Categorical(["abcd"[v] for v in k], categories=list("dcba"))
    ),
    "flag": lambda k: pd.Series([v > 1 for v in k]),
    "decimal": lambda k: pd.Series([Decimal(v) / 10 for v in k], dtype="object"),
    "day": lambda k: pd.Series([DAY + dt.timedelta(v) for v in k], dtype="object"),
    "time": lambda k: pd.Series(
        pd.to_datetime(["NaT" if v == 3 else f"2020-01-0{v + 1}" for v in k])
    ),
    "span": lambda k: pd.Series(pd.to_timedelta(np.array(k) * 7, unit="h")),
}
codes = st.lists(st.integers(0, 3), min_size=N, max_size=N)


def frames(kinds):
    return st.fixed_dictionaries(dict.fromkeys(kinds, codes))


def plain(value):
    """Return a value as it is compared: of what is missing, and of zeros, there is one kind."""
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return "missing"
    return str(value + 0.0) if isinstance(value, float | np.floating) else str(value)


def rows_of(columns):
    return Counter(zip(*([plain(v) for v in column] for column in columns), strict=True))


def table_of(coded):
    table = pd.DataFrame({kind: KINDS[kind](k) for kind, k in coded.items()})
    secret = [*"abc", *"ab" * 8][:N]
    table.insert(1, "secret", secret[::-1])
    table["client"] = np.arange(N) + 100
    return table.set_index(pd.Index(range(7, 7 + N), name="no"))


def swap_of(public, **params):
    return PufferfishSwap(
        1.0, sensitive="secret", ids="client", public=[*public, "secret"], **params
    )


@pytest.mark.slow
@given(st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5).flatmap(frames), st.data())
@settings(max_examples=15)
def test_rows_of_any_types_come_out_whole_and_exactly(coded, data):
    table = table_of(coded)
    matching = data.draw(st.sampled_from(["nearest", "parts", "random"]))
    released = swap_of(coded, matching=matching).fit_transform(table)
    assert list(released) == list(table)
    assert released.dtypes.equals(table.dtypes)
    assert released.index.equals(table.index)
    assert released["client"].equals(table["client"])
    moved = [name for name in table if name != "client"]
    assert rows_of(released[c] for c in moved) == rows_of(table[c] for c in moved)
    # equal values look alike, whoever holds them
    for name in moved:
        assert len({repr(v) for v in released[name]}) == len({plain(v) for v in table[name]})


@pytest.mark.slow
@given(frames(["whole", "real", "string", "category", "flag", "time", "span"]))
@settings(max_examples=5)
def test_polars_frames_come_out_as_what_they_were(coded):
    pl = pytest.importorskip("polars")
    table = pl.from_pandas(table_of(coded))
    released = swap_of(coded).fit_transform(table)
    assert isinstance(released, pl.DataFrame)
    assert released.schema == table.schema
    moved = [name for name in table.columns if name != "client"]
    assert rows_of(released[c] for c in moved) == rows_of(table[c] for c in moved)


@pytest.mark.slow
@given(codes, codes)
@settings(max_examples=5)
def test_arrays_come_out_with_all_rows_of_theirs(first, second):
    secret = np.tile([0.0, 1.0], N // 2)
    rows = np.column_stack([secret, first, np.array(second) * 0.5, np.arange(N)])
    swap = PufferfishSwap(1.0, sensitive=0, ids=3, public=[1, 2, 0])
    released = np.asarray(swap.fit_transform(rows))
    assert released.shape == rows.shape
    assert (released[:, 3] == rows[:, 3]).all()
    assert sorted(map(tuple, released[:, :3])) == sorted(map(tuple, rows[:, :3]))
