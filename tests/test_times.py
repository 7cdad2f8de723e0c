"""Dates, times and durations: noise in whole units, and a release in their own type."""

import datetime as dt
import re
from decimal import Decimal
from itertools import cycle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
    audit,
    plan,
)
from sklearn_puffer._tables import in_whole_days
from sklearn_puffer.cli import main

N_ROWS = 400
RNG = np.random.default_rng(5)
SECRET = RNG.integers(0, 2, N_ROWS)
DAYS = 18_262 + RNG.integers(0, 12, N_ROWS) + 3 * SECRET  # since 1970-01-01
DATES = [dt.date.fromordinal(int(day) + 719_163) for day in DAYS]
TIMES = [dt.datetime(d.year, d.month, d.day, tzinfo=dt.UTC) for d in DATES]
GONE = np.arange(N_ROWS) % 7 == 0

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def objects(values, gaps):
    return [None if gap else value for value, gap in zip(values, gaps, strict=True)]


def bare(values):
    return [value.replace(tzinfo=None) for value in values]


def spans(values):
    return [value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC) for value in values]


def of_dates(_):
    return DATES


def in_pandas(dtype, values=bare, zone=None):
    def made(gaps):
        column = pd.Series(objects(values(TIMES), gaps), dtype=object).astype(dtype)
        column = column if zone is None else column.dt.tz_localize("UTC").dt.tz_convert(zone)
        return pd.DataFrame({"s": SECRET, "x": column})

    return made


def in_polars(dtype, values=bare, zone=None):
    def made(gaps):
        column = pl.Series("x", objects(values(TIMES), gaps)).cast(dtype)
        if zone is not None:
            column = column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        return pl.DataFrame({"s": SECRET, "x": column})

    return made


def in_arrow(kind, values=bare):
    return lambda gaps: pa.table({"s": SECRET, "x": pa.array(objects(values(TIMES), gaps), kind)})


ZONE = "America/New_York"
TABLES = {
    "pandas s": in_pandas("datetime64[s]"),
    "pandas ns": in_pandas("datetime64[ns]"),
    "pandas zone": in_pandas("datetime64[us]", zone=ZONE),
    "pandas durations": in_pandas("timedelta64[ms]", spans),
    "pandas arrow": in_pandas(pd.ArrowDtype(pa.timestamp("ms"))),
    "dates": in_pandas(object, of_dates),
    "datetimes": in_pandas(object),
    "timedeltas": in_pandas(object, spans),
    "polars date": in_polars(pl.Date),
    "polars datetime": in_polars(pl.Datetime("ms")),
    "polars zone": in_polars(pl.Datetime("us"), zone=ZONE),
    "polars duration": in_polars(pl.Duration("ns"), spans),
    "arrow date": in_arrow(pa.date32(), of_dates),
    "arrow timestamp": in_arrow(pa.timestamp("s")),
    "arrow zone": in_arrow(pa.timestamp("us", ZONE), list),
    "arrow duration": in_arrow(pa.duration("us"), spans),
}
DAY_LABELS = pd.Categorical(pd.to_datetime(DATES))
COMPLETE = np.zeros(N_ROWS, dtype=bool)


def noiser(**options):
    given = {"sensitive": "s", "public": "x", "missing": "propagate", "random_state": 3}
    return PufferfishNoiser(**given | options)


def type_of(table):
    return table.schema.field("x").type if isinstance(table, pa.Table) else table["x"].dtype


def days_of(table):
    """The days since 1970, by Python alone; None where the value is missing."""
    column = table["x"]
    values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    return [None if pd.isna(value) else _day(value) for value in values]


def _day(value):
    if isinstance(value, dt.timedelta):
        return value / dt.timedelta(days=1)
    if not isinstance(value, dt.datetime):
        return value.toordinal() - 719_163
    start = dt.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else dt.UTC)
    return (value - start) / dt.timedelta(days=1)


@pytest.mark.parametrize("gaps", [COMPLETE, GONE], ids=["complete", "gaps"])
@pytest.mark.parametrize("kind", TABLES)
def test_days_are_released_as_whole_numbers_are_and_in_their_own_type(kind, gaps):
    table = TABLES[kind](gaps)
    numbers = pd.DataFrame({"s": SECRET, "x": pd.array(DAYS, "Int64")})
    numbers.loc[gaps, "x"] = pd.NA
    fitted, whole = noiser().fit(table), noiser().fit(numbers)
    assert fitted.theta_["x"] == whole.theta_["x"]
    assert fitted.certificate_.loss == whole.certificate_.loss
    released = fitted.transform(table)
    assert type_of(released) == type_of(table)
    expected = whole.transform(numbers)["x"]
    assert days_of(released) == [None if pd.isna(day) else day for day in expected]
    artifact = PufferfishRelease.from_json(noiser(random_state=None).fit(table).to_json())
    assert type_of(artifact.transform(table)) == type_of(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "noise"), list(zip(TABLES, cycle(["laplace", "cauchy"]), strict=False))
)
def test_noise_of_any_size_ends_at_the_ends_of_the_type(kind, noise):
    table = TABLES[kind](COMPLETE)
    days = np.array(days_of(noiser(epsilon=1e-7, noise=noise).fit_transform(table)), dtype=float)
    assert not np.isnan(days).any()
    assert (np.abs(days) > 50_000).mean() > 0.9


SIZES = {"s": 1, "ms": 1_000, "us": 1_000_000}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[ns]"])
def test_the_unit_is_the_finest_that_occurs(size, kind):
    ticks = RNG.integers(0, 9, N_ROWS) + 2 * SECRET
    column = ticks.astype(kind.replace("[ns]", f"[{size}]")).astype(kind)
    fitted = noiser().fit(pd.DataFrame({"s": SECRET, "x": column}))
    whole = noiser().fit(pd.DataFrame({"s": SECRET, "x": ticks}))
    assert fitted.theta_["x"] == whole.theta_["x"]
    released = fitted.transform(pd.DataFrame({"s": SECRET, "x": column}))["x"]
    assert (released.astype("int64") % (10**9 // SIZES[size]) == 0).all()


def test_an_array_of_times_stays_one():
    times = DAYS.astype("datetime64[D]").astype("datetime64[s]")[:, None]
    fitted = PufferfishNoiser(1.0, public=0, random_state=1).fit(times, sensitive_features=SECRET)
    released = fitted.transform(times)
    assert released.dtype == times.dtype
    assert (released.astype("int64") % 86_400 == 0).all()


@pytest.mark.parametrize("later", ["3h", "1ns"])
@pytest.mark.parametrize("unknown", ["auto", "error"])
def test_a_later_time_within_a_day_is_an_unseen_value(unknown, later):
    fitted = noiser(unknown=unknown).fit(TABLES["pandas s"](COMPLETE))
    table = TABLES["pandas ns"](COMPLETE)
    table["x"] += pd.Timedelta(later)
    if unknown == "error":
        with pytest.raises(ValueError, match="values that were not seen in fit"):
            fitted.transform(table)
    else:
        same = noiser().fit(TABLES["pandas s"](COMPLETE)).transform(TABLES["pandas ns"](COMPLETE))
        assert fitted.transform(table)["x"].equals(same["x"])


OTHER = {
    "numbers": pd.DataFrame({"x": [1, 2]}),
    "durations": pd.DataFrame({"x": pd.to_timedelta([1, 2], unit="D")}),
}


@pytest.mark.parametrize("kind", OTHER)
def test_another_kind_than_that_of_fit_is_refused(kind):
    fitted = noiser().fit(TABLES["pandas s"](COMPLETE))
    with pytest.raises(TypeError, match=f"'x' holds {kind}, and held dates"):
        fitted.transform(OTHER[kind])
    numbers = noiser().fit(pd.DataFrame({"s": SECRET, "x": DAYS}))
    with pytest.raises(TypeError, match="'x' holds dates or durations"):
        numbers.transform(TABLES["pandas s"](COMPLETE))


@pytest.mark.slow
def test_keyed_rows_bins_and_drift_have_times():
    rows = TABLES["pandas zone"](COMPLETE).assign(id=range(N_ROWS))
    fitted, key = noiser(random_state=None).fit(rows), b"blake2b:" + bytes(32)
    first = fitted.transform(rows, row_id="id", key=key)
    assert fitted.transform(rows[::-1], row_id="id", key=key)[::-1].equals(first)
    assert fitted.certificate_.check(rows).to_dict()["columns"]
    assert fitted.utility_.loc["x", "change"] > 0.0
    assert audit(noiser(random_state=None).fit(rows), rows).control


REFUSED = {
    "secret": lambda table: PufferfishNoiser(1.0, sensitive="x").fit(table),
    "bins": lambda table: PufferfishNoiser(1.0, sensitive={"x": 3}).fit(table),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_takes_no_times_refuses_them_by_name(kind):
    table = TABLES["pandas s"](COMPLETE)
    with pytest.raises(TypeError, match=r"column 'x' holds dates or durations .*; convert it"):
        REFUSED[kind](table)


def test_a_lazy_table_of_times_is_refused_by_name():
    lazy = TABLES["polars date"](COMPLETE).lazy()
    with pytest.raises(TypeError, match=r"column 'x' has type Date.* to numbers"):
        noiser().fit(lazy)


DURATIONS = {"pandas durations", "timedeltas", "polars duration", "arrow duration"}
MECHANISMS = {
    "noise": PufferfishNoiser(3.0, sensitive="s"),
    "bins": PufferfishNoiser(3.0, sensitive="s", n_bins=3),
    "mixture": PufferfishNoiser(3.0, sensitive="s", prior="gaussian"),
    "typical rows": PufferfishMicroaggregator(3.0, sensitive="s"),
    "exchange": PufferfishSwap(3.0, sensitive="s"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind not in DURATIONS])
def test_dates_are_refused_unless_they_are_named(kind, mechanism):
    table = TABLES[kind](COMPLETE)
    told = r"column 'x' holds dates, by which others may know people; .*, or (name it )?in public="
    with pytest.raises(ValueError, match=told):
        MECHANISMS[mechanism].fit(table)


def test_categories_that_are_dates_are_refused_and_all_faults_are_told_at_once():
    table = TABLES["pandas s"](COMPLETE).assign(y=DAY_LABELS, z=[str(k) for k in DAYS])
    for estimator in (MECHANISMS[kind] for kind in MECHANISMS if kind != "mixture"):
        with pytest.raises(ValueError, match="2 faults") as told:
            estimator.fit(table)
        assert re.findall("'(.)' holds dates", str(told.value)) == ["x", "y"]


@pytest.mark.slow
def test_a_plan_releases_categories_that_are_dates_where_they_are_named():
    table = pd.DataFrame({"s": SECRET, "x": DAY_LABELS, "z": DAYS % 3})
    told = plan(table, "s", public=["x", "z"], epsilon=3.0, noise="laplace").facts
    assert [fact.use for fact in told] == ["sensitive", "release", "release"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_durations_are_measurements_even_if_none_repeats(mechanism):
    seconds = np.arange(N_ROWS) * 61 + 1_577_836_800
    table = pd.DataFrame({"s": SECRET, "x": seconds.astype("timedelta64[s]")})
    fitted = MECHANISMS[mechanism].fit(table)
    assert "x" in fitted.utility_.index


def test_the_command_line_refuses_dates_by_name(tmp_path, capsys):
    path, made = tmp_path / "rows.parquet", tmp_path / "n.json"
    TABLES["dates"](COMPLETE).assign(z=SECRET).to_parquet(path)
    asked = ["fit", str(path), str(made), "--sensitive", "s", "--epsilon", "1"]
    assert main(asked) != 0
    assert "column 'x' holds dates" in capsys.readouterr().err
    assert main([*asked, "--public", "x"]) == 0


def test_nanoseconds_that_floats_cannot_tell_apart_are_refused():
    times = 1_577_836_800_000_000_000 + RNG.integers(0, 5, N_ROWS)
    table = pd.DataFrame({"s": SECRET, "x": times.astype("datetime64[ns]")})
    with pytest.raises(ValueError, match=r"'x' has times in ns, .*round them, X\['x'\]"):
        noiser().fit(table)


def test_objects_with_a_zone_are_refused_with_the_type_that_has_one():
    table = pd.DataFrame({"s": SECRET, "x": pd.Series(TIMES, dtype=object)})
    with pytest.raises(TypeError, match="times with a zone as Python objects; convert"):
        noiser().fit(table)


# ------------------------------------------------------------------ decimals, NaT among strings


def test_decimals_are_numbers_and_released_as_floats():
    prices = [Decimal(int(day) % 9) / 4 for day in DAYS]
    table = pd.DataFrame({"s": SECRET, "x": pd.Series(prices, dtype=object)})
    floats = table.assign(x=[float(price) for price in prices])
    assert noiser().fit(table).theta_["x"] == noiser().fit(floats).theta_["x"]
    released = noiser().fit_transform(table)["x"]
    assert released.tolist() == noiser().fit_transform(floats)["x"].tolist()
    close = pd.Series([Decimal(1) + Decimal(k % 2) / 10**20 for k in range(N_ROWS)], dtype=object)
    with pytest.raises(ValueError, match="'x' holds decimals of more digits than float64"):
        noiser().fit(table.assign(x=close))


def test_not_a_time_among_strings_is_a_missing_value():
    jobs = pd.Series(np.where(SECRET, "cook", "nurse"), dtype=object)
    table = pd.DataFrame({"s": DAYS % 2, "x": jobs.mask(GONE, pd.NaT)})
    fitted = noiser(missing="category").fit(table)
    assert set(fitted.transform(table)["x"].dropna()) <= {"cook", "nurse"}
    with pytest.raises(ValueError, match="'x' has 58 missing"):
        noiser(missing="error").fit(table)


def test_periods_stay_periods_beside_dates_that_become_days():
    months = pd.Series(pd.period_range("2020-01", periods=2, freq="M"))
    frame = pd.DataFrame({"month": months, "since": pd.to_datetime(["1970-01-02", None])})
    days = in_whole_days(frame)
    assert days["month"].equals(months)
    assert days["since"].equals(pd.Series([1, None], dtype="Int64"))
