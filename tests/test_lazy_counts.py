"""What an engine counts and sums of a lazy table, beside numpy on the same rows."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_puffer._codes import learn_column
from sklearn_puffer._engines import lazy, lazy_table
from sklearn_puffer._tables import Values

RNG = np.random.default_rng(8)
N = 200
PAY = np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 30, N) / 4 - 2.0)
ROWS = {
    "age": RNG.integers(-5, 9, N).tolist(),
    "pay": [None if np.isnan(x) else x for x in PAY],
    "job": [["a", "b", None][k] for k in RNG.integers(0, 3, N)],
}
FRAME = pl.DataFrame(ROWS)
ENGINES = {"polars": lambda f: f.lazy(), "duckdb": lambda f: duckdb.from_arrow(f.to_arrow())}


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def listed(values):
    """Return the values of a column, None where one is missing."""
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    data = values.data.tolist() if values.levels is None else values.labels().tolist()
    return [None if lacks else x for x, lacks in zip(data, gone, strict=True)]


def counted(values):
    """Return how many rows hold each value."""
    return dict(zip(listed(values), values.counts.tolist(), strict=True))


def test_values_and_groups_are_counted_as_often_as_rows_hold_them(engine):
    table = lazy_table(engine(FRAME))
    rows = pd.DataFrame(ROWS).astype({"pay": object})
    assert table.names == tuple(ROWS)
    for name in ("age", "pay", "job"):
        own = [None if value is None or value != value else value for value in rows[name]]
        wanted = dict.fromkeys(own, 0)
        for value in own:
            wanted[value] += 1
        assert counted(table.values(name)) == wanted
    assert table.count(["age", "job"])
    found, counts = table.rows(["age", "job"])
    pairs = list(zip(listed(found["age"]), listed(found["job"]), strict=True))
    assert pairs == sorted(pairs, key=lambda pair: (pair[0], pair[1] or ""))
    assert len({*pairs}) == len(pairs)
    assert counts.sum() == N == table.n_rows
    for pair, count in zip(pairs, counts.tolist(), strict=True):
        same = (rows["age"] == pair[0]) & (rows["job"].where(rows["job"].notna(), None) == pair[1])
        same = same if pair[1] is not None else (rows["age"] == pair[0]) & rows["job"].isna()
        assert count == same.sum()


def test_moments_are_those_of_finite_numbers(engine):
    far = FRAME.with_columns(pay=pl.Series([np.inf, -np.inf, *ROWS["pay"][2:]]))
    huge = far.with_columns(pl.col("pay") * 1e300)
    finite = PAY[2:][~np.isnan(PAY[2:])]
    for frame, unit in ((far, 1.0), (huge, 1e300)):
        found = lazy_table(engine(frame)).moments(["age", "pay"])
        assert found["age"] == pytest.approx((np.mean(ROWS["age"]), np.std(ROWS["age"])))
        assert found["pay"] == pytest.approx((finite.mean() * unit, finite.std() * unit))
    nothing = FRAME.with_columns(pay=pl.lit(None, pl.Float64), age=pl.lit(3))
    found = lazy_table(engine(nothing)).moments(["age", "pay"])
    assert found == {"age": (3.0, 0.0), "pay": (0.0, 0.0)}
    assert lazy_table(engine(FRAME)).moments([]) == {}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0, 3.0])
def test_the_least_numbers_are_at_most_a_share_of_their_counts(engine, share):
    numbers, counts = np.unique(ROWS["age"], return_counts=True)
    few = numbers <= share * counts
    found = lazy_table(engine(FRAME)).least("age", share)
    assert [each.tolist() for each in found] == [numbers[few].tolist(), counts[few].tolist()]


def test_more_values_than_are_fetched_are_refused_or_none(engine, monkeypatch):
    n_ages = len({*ROWS["age"]})
    for most, enough in ((n_ages, True), (n_ages - 1, False)):
        monkeypatch.setattr(lazy, "MOST_CELLS", most)
        table = lazy_table(engine(FRAME))
        assert table.count(["age"]) == enough
        assert (table.least("age", 1e9) is not None) == enough
        assert not table.count(["age", "job"])
        if not enough:
            with pytest.raises(ValueError, match=f"'age' has more than {most:,} distinct values"):
                table.values("age")


def test_numbers_are_counted_by_the_bins_of_a_fitted_column(engine):
    data = np.array([x for x in ROWS["pay"] if x is not None])
    column = learn_column("pay", Values("float", data), n_bins=4)
    found = lazy_table(engine(FRAME)).values_in(column)
    bins = np.searchsorted(column.edges, data)
    own = np.searchsorted(column.edges, [x for x in listed(found) if x is not None])
    there = [x is not None for x in listed(found)]
    totals = np.bincount(own, found.counts[there], minlength=4)
    assert totals.tolist() == np.bincount(bins, minlength=4).tolist()
    assert found.n_missing == ROWS["pay"].count(None)
    assert len(found) == 5
    plain = learn_column("pay", Values("float", data))
    assert counted(lazy_table(engine(FRAME)).values_in(plain))[None] == found.n_missing


def test_rows_of_small_numbers_are_kept(engine):
    some = lazy_table(engine(FRAME)).where("age", 2)
    assert some.n_rows == sum(age <= 2 for age in ROWS["age"])
