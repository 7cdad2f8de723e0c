"""Drift: rows that do not look like those of fit are found, and others hardly ever."""

import functools
import json
import math
import pickle
import re
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import cycle, product
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from all_pairs import all_pairs
from claims import altered
from scipy.stats import hypergeom

from sklearn_puffer import PufferfishNoiser, PufferfishRelease
from sklearn_puffer._codes import Column, learn_column
from sklearn_puffer._release import drift
from sklearn_puffer._release.drift import Margin, Watch, picked_rows, too_many
from sklearn_puffer._tables import Values
from sklearn_puffer.priors import GaussianMixture

OTHER = "do not look like"


def people(n_rows, seed=0, **columns):
    """Return a table with a column of every kind."""
    rng = np.random.default_rng(seed)
    table = {
        "ill": rng.choice(["no", "yes"], n_rows),
        "age": rng.integers(18, 91, n_rows),
        "pay": rng.gamma(2.0, 2000.0, n_rows),
        "job": rng.choice(["cook", "clerk", "smith"], n_rows, p=[0.5, 0.3, 0.2]),
        "vip": rng.random(n_rows) < 0.3,
    }
    return pd.DataFrame(table | columns)


def noiser_of(X, **parameters):
    parameters = {"sensitive": "ill", "dependence": "independent"} | parameters
    if "public" not in parameters:
        parameters = {"n_bins": {"pay": 5}} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PufferfishNoiser(**parameters).fit(X)


@pytest.fixture(scope="module")
def noiser():
    return noiser_of(people(3000, seed=1, age=np.resize(np.arange(18, 91), 3000)))


def told(noiser, X, **how):
    """Return what a release warns of, but for rows that it has released before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        noiser.transform(X, **how)
    lines = [str(each.message) for each in caught]
    return [line for line in lines if "were released before" not in line]


# ---------------------------------------------------------------------------------------- the tests


def exact_tail(d, m, c, n):
    """Return P(at least d of c + d picked rows are among m of n + m)."""
    picked = c + d
    ways = sum(math.comb(m, x) * math.comb(n, picked - x) for x in range(d, min(m, picked) + 1))
    return Fraction(ways, math.comb(n + m, picked))


def test_the_bound_of_a_tail_is_never_below_it_and_hardly_above():
    rng = np.random.default_rng(5)
    for _ in range(400):
        n, m = rng.integers(1, 200, 2).tolist()
        c, d = int(rng.integers(0, n + 1)), int(rng.integers(0, m + 1))
        bound, exact = (
            float(too_many(np.array([d]), m, np.array([c]), n)[0]),
            exact_tail(d, m, c, n),
        )
        assert exact <= bound <= 1.0
        if exact < Fraction(1, 100):
            assert bound <= 1.1 * float(exact) + 1e-300


def test_the_bound_of_a_tail_holds_for_as_many_rows_as_there_can_be():
    n = 2**53
    bound = too_many(np.array([n // 2, n // 2 + 1, n]), n, np.array([n // 2, n // 2, 0]), n)
    assert bound[0] == 1.0
    assert bound[1] == 1.0
    assert bound[2] < 1e-9


def column_of(values, **how):
    return learn_column("x", values, **how)


def verdict(column, fitted, new):
    """Return whether new values of a column drift from those that it was learnt of."""
    atoms, counts = column.raw or np.unique(fitted.data, return_counts=True)
    return drift_of(Margin.of(column, atoms, counts, len(fitted)), column, new).drifted


def drift_of(margin, column, new):
    """Return how new values compare."""
    watch = Watch([margin])
    watch.add([column], [new])
    return watch.drift


@pytest.mark.parametrize("digits", [2, 12], ids=["repeated", "distinct"])
@pytest.mark.parametrize("n_bins", [3, 20])
def test_a_binned_column_keeps_the_share_of_rows_in_each_bin(digits, n_bins):
    values = np.random.default_rng(n_bins).normal(size=5000).round(digits)
    column = column_of(Values("float", values), n_bins=n_bins)
    held = np.bincount(np.searchsorted(column.edges, values), minlength=n_bins)
    shares = np.diff(1000 * np.append(0, np.cumsum(held)) // 5000)
    for atoms, counts in (column.raw, np.unique(values, return_counts=True)):
        margin = Margin.of(column, atoms, counts, 5100)
        assert margin.parts.tolist() == shares.tolist()
        assert (margin.present, margin.total) == (5000, 5100)


@pytest.mark.parametrize("kind", ["float", "boolean"])
@pytest.mark.parametrize("total", [2, 9, 40, 78])
def test_of_all_ways_to_divide_rows_of_two_values_one_in_a_hundred_is_an_alarm(total, kind):
    n = 40  # fitted and new ones, of which `total` have the first value
    alarms, ways = 0, math.comb(2 * n, total)
    for d in range(max(0, total - n), min(n, total) + 1):
        own = [np.repeat([0.0, 1.0], [k, n - k]) for k in (total - d, d)]
        fitted, new = (
            Values(kind, each.astype(float if kind == "float" else bool)) for each in own
        )
        column = Column("x", kind, np.array([0.0, 1.0]), np.ones(2, dtype=bool))
        alarms += verdict(column, fitted, new) * math.comb(n, d) * math.comb(n, total - d)
    assert 0 < 100 * alarms <= ways or total in (2, 78)


@pytest.mark.parametrize("n_bins", [2, 5, 7])
def test_edges_that_are_fitted_values_make_no_more_alarms(n_bins):
    n = m = 40
    fitted = Values("float", np.arange(n) * 10.0)
    column = column_of(fitted, n_bins=n_bins)
    edge = column.edges[0]
    first = int((fitted.data <= edge).sum())
    alarms = 0
    for d in range(m + 1):  # new values below the edge: the distribution of their number is exact
        new = Values("float", np.repeat([edge - 1.0, edge + 1.0], [d, m - d]))
        if n_bins == 2 and verdict(column, fitted, new):
            alarms += math.comb(first + d - 1, d) * math.comb(n - first + m - d, m - d)
    assert 100 * alarms <= math.comb(n + m, m)


def fisher(d, m, c, n):
    """Return the exact chance of d of the c + d picked rows or more among the m new ones."""
    d, c = np.broadcast_arrays(d, c)
    return np.where(d > 0, hypergeom.sf(d - 1, n + m, m, c + d), 1.0)


def plain_p(fitted, new, n_rows, n_fitted, ordered, single):
    """Return the p-value of a column as the head of the module has it, value by value.

    Of 1000 present rows of `fit`, so that thousandths are exact.
    """
    n, m, values, ranks = len(fitted), len(new), [], []
    gone, lacking = n_rows - m, n_fitted - n
    if gone or lacking:
        values += [fisher(gone, n_rows, lacking, n_fitted), fisher(lacking, n_fitted, gone, n_rows)]
    alphabet = np.unique(fitted)
    nearest, is_new = np.minimum(new, alphabet[-1]), new > alphabet[-1]
    if single:
        often, found = (np.bincount(each, minlength=len(alphabet)) for each in (fitted, nearest))
        values += [*fisher(found - is_new.sum(), m, often, n), *fisher(often, n, found, m)]
        strangers = np.unique(new[is_new], return_counts=True)[1]
        values += [*fisher(strangers, m, 0, n), *np.ones(len(strangers))]
    if ordered:
        fitted = np.sort(fitted)
        many, few = np.arange(1, 1000, 20), np.arange(20, 1000, 20)
        before = (nearest < fitted[many - 1, None]).sum(axis=1)
        up_to = (nearest <= fitted[few - 1, None]).sum(axis=1)
        ranks += [*fisher(before, m, many - 1, n), *fisher(few, n, up_to, m)]
    families = [chances for chances in (values, ranks) if chances]
    return len(families) * min(len(chances) * min(chances) for chances in families)


@pytest.mark.parametrize("kind", ["integer", "boolean", "category", "binned"])
def test_the_figures_of_a_column_are_those_of_each_value_and_each_rank(kind):
    top, compared, how = 2 if kind == "boolean" else 9, 0, {}
    if kind == "binned":
        how = {"n_bins": 5}
    to_values = {
        "integer": lambda codes: Values("integer", codes),
        "boolean": lambda codes: Values("boolean", codes > 0),
        "category": lambda codes: Values("category", codes, levels=tuple("abcdefghi")),
        "binned": lambda codes: Values("float", codes / 2.0),
    }[kind]
    for seed in range(16):
        rng = np.random.default_rng(seed)
        size, lacking = int(rng.integers(100, 300)), 40 * (seed % 3)
        old = np.append(np.arange(top), rng.integers(0, top, 1000 - top))
        new = rng.integers(0, top + 2 * (seed % 2 and kind == "integer"), size)
        new = np.minimum(new, rng.integers(0, top, size)) if seed % 4 == 2 else new
        gone = rng.random(size) < 0.1 * (seed % 5 == 1)
        column = column_of(to_values(old), **how)
        atoms, counts = column.raw or np.unique(old.astype(float), return_counts=True)
        margin = Margin.of(column, atoms, counts, 1000 + lacking)
        [found] = drift_of(margin, column, replace(to_values(new), missing=gone)).columns
        if kind == "binned":
            old, new = (np.searchsorted(column.edges, each / 2.0) for each in (old, new))
        new, ordered = new[~gone], kind in ("integer", "binned")
        p = plain_p(old, new, size, 1000 + lacking, ordered, single=kind != "binned")
        if p < 0.05:  # beyond, a geometric series is coarse
            assert p * (1 - 1e-9) <= found.p <= 1.1 * p
            compared += 1
        assert found.drifted == (found.p <= 0.01)
        assert (found.missing, found.outside) == (gone.mean(), (new >= top).sum() / size)
        tops = np.minimum(old, old.max()), np.minimum(new, old.max())
        shares = [np.bincount(each, minlength=top) / len(each) for each in tops]
        apart = shares[0] - shares[1]
        far = np.abs(apart.cumsum()).max() if ordered else 0.5 * np.abs(apart).sum()
        assert found.distance == pytest.approx(far, abs=1e-12)
    assert compared > 3


LAWS = {
    "few values": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "many values": lambda rng, n: np.floor(rng.gamma(2.0, 20.0, n)),
    "rare values": lambda rng, n: np.minimum(rng.zipf(1.4, n), 10**9).astype(float),
    "no ties": lambda rng, n: rng.normal(size=n),
    "half ties": lambda rng, n: np.maximum(rng.normal(size=n), 0.0),
}


SIZES = [(400, 400), (60, 700), (900, 60)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_bins", "distribution", "sizes"), all_pairs(product([None, 6], LAWS, SIZES))
)
def test_rows_of_one_distribution_are_an_alarm_once_in_a_hundred_tables_at_most(
    distribution, n_bins, sizes
):
    n, m = sizes
    rng = np.random.default_rng(n + m)
    alarms = 0
    for _ in range(300):
        fitted, new = (Values("float", LAWS[distribution](rng, size)) for size in (n, m))
        alarms += verdict(column_of(fitted, n_bins=n_bins), fitted, new)
    assert alarms <= 10  # of 3 that 1 % are: more than 10 come once in 3,000 times


@pytest.mark.slow
def test_rows_of_one_distribution_are_an_alarm_once_in_a_hundred_releases_at_most():
    fitted = noiser_of(people(700, seed=1), unknown="nearest", n_bins={"pay": 8})
    alarms = 0
    for seed in range(100):  # with one fit and with others: the chance is over both
        fresh = (
            noiser_of(people(700, seed=1000 + seed), unknown="nearest") if seed % 5 == 0 else fitted
        )
        alarms += any(OTHER in line for line in told(fresh, people(600, seed=5000 + seed)))
    assert alarms <= 5


# -------------------------------------------------------------------------- some of very many rows


ALL_90 = {
    "seen": {},
    "binned": {"n_bins": 5},
    "moved": {"unknown": "nearest"},
    "any number": {"prior": "gaussian", "public": ["age"], "n_bins": None},
    "a category": {"categories": {"age": list(range(18, 101))}},
}


@functools.cache
def fitted_for(case):
    table = people(600, age=np.resize(np.arange(18, 91), 600))
    return noiser_of(table, **ALL_90[case])


@pytest.fixture
def few_are_counted(monkeypatch):
    monkeypatch.setattr(drift, "_COUNTED", 100)


@pytest.mark.parametrize("n", [0, 1, 2**14, 2**15 - 1, 2**15, 40_001, 10**6, 10**6 + 7, 2**24 + 5])
def test_the_rows_that_are_counted_are_one_of_each_few_neighbours(n):
    picked = picked_rows(n)
    if n < 2**15:
        assert picked is None
        return
    apart = n // 2**14
    assert 2**14 <= len(picked) < 1.5 * 2**14
    assert (picked // apart == np.arange(len(picked))).all()
    assert picked[-1] < n < apart * (len(picked) + 1)


@pytest.mark.parametrize("period", [2, 3, 7, 10, 24, 31, 64, 365, 1000])
def test_an_order_that_repeats_itself_has_each_of_its_places_counted_alike(period):
    picked = picked_rows(10**6 + 3)
    often = np.bincount(picked % period, minlength=period)
    assert np.abs(often / len(picked) - 1 / period).max() < 1e-3


def values_of(kind, n, seed):
    """Return values of a kind, those of a second seed with others than those of the first."""
    rng = np.random.default_rng(seed)
    if kind == "category":
        return Values(
            kind, rng.integers(0, seed + 2, n), levels=("a", "b", "c", "other")[: seed + 2]
        )
    data = rng.integers(0, 20 + 5 * seed, n)
    return Values(kind, data if kind == "integer" else data * 0.5)


@pytest.mark.parametrize("n", [200, 299, 1234])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("kind", "how"), [("integer", {}), ("float", {}), ("float", {"n_bins": 5}), ("category", {})]
)
def test_many_rows_are_compared_as_a_table_of_those_that_are_counted(
    kind, how, missing, n, few_are_counted
):
    fitted, new = values_of(kind, 500, 2 if kind == "category" else 0), values_of(kind, n, 1)
    column, gone = column_of(fitted, **how), np.random.default_rng(1).random(n) < 0.3 * missing
    if kind == "category":
        new = replace(new, levels=("a", "new", "b"))
    new = replace(new, missing=gone)
    atoms, counts = column.raw or np.unique(fitted.data.astype(float), return_counts=True)
    margin = Margin.of(column, atoms, counts, len(fitted))
    found, picked = drift_of(margin, column, new), picked_rows(n)
    some = replace(new, data=new.data[picked], missing=gone[picked])
    [own], [wanted] = found.columns, drift_of(margin, column, some).columns
    assert own == wanted
    assert (found.n_rows, own.missing) == (n, gone[picked].mean())
    strange = ~np.isin(new.data, fitted.data) if kind != "category" else new.data == 1
    assert own.outside == (0.0 if how else (strange & ~gone)[picked].mean())
    assert found.drifted or not missing


def test_each_value_that_fit_has_not_seen_is_counted_by_itself():
    fitted, column = values_of("category", 500, 2), column_of(values_of("category", 500, 2))
    margin = Margin.of(column, np.arange(4.0), np.bincount(fitted.data, minlength=4), 500)
    halves = Values("category", np.repeat([1, 2], 40), levels=("a", "new", "newer"))
    [both] = drift_of(margin, column, halves).columns
    same = Values("category", np.full(80, 1), levels=("a", "new"))
    [one] = drift_of(margin, column, same).columns
    assert both.outside == one.outside == 1.0
    assert one.p < both.p < 0.01


@pytest.mark.parametrize("case", ALL_90)
def test_all_ages_90_are_found_where_few_rows_are_counted(case, few_are_counted):
    old = people(1000, seed=3).assign(age=99 if case == "moved" else 90)
    [line] = [line for line in told(fitted_for(case), old) if OTHER in line]
    assert "'age'" in line
    assert "1000 rows" in line


def test_all_ages_90_do_not_pass_in_silence_in_a_million_rows():
    table = people(600, age=np.resize(np.arange(18, 91), 600))
    found, old = noiser_of(table, public=["age"]), pd.DataFrame({"age": np.full(10**6, 90)})
    assert any(OTHER in line for line in told(found, old))
    half = pd.DataFrame({"age": np.resize(np.arange(18, 91), 10**6)})
    assert told(found, half) == []
    half.loc[: 10**5, "age"] = 90  # and where the rows that differ come first
    assert any(OTHER in line for line in told(found, half))


@pytest.mark.slow
@pytest.mark.parametrize(("distribution", "n_bins"), [*zip(LAWS, cycle([None, 6]), strict=False)])
def test_some_rows_of_one_distribution_are_an_alarm_once_in_a_hundred_tables_at_most(
    distribution, n_bins, few_are_counted
):
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(300):
        fitted, new = (Values("float", LAWS[distribution](rng, size)) for size in (400, 750))
        alarms += verdict(column_of(fitted, n_bins=n_bins), fitted, new)
    assert alarms <= 10  # of 3 that 1 % are: more than 10 come once in 3,000 times


# ------------------------------------------------------------------------------------ what is told


@pytest.mark.parametrize("case", ALL_90)
def test_all_ages_90_do_not_pass_in_silence(case):
    found = fitted_for(case)
    old = people(100, seed=3).assign(age=99 if case == "moved" else 90)
    [line] = [line for line in told(found, old) if OTHER in line]
    assert "'age'" in line
    assert "100 rows" in line
    assert "600 of fit" in line
    with pytest.raises(ValueError, match=OTHER):
        found.transform(old, on_drift="raise")
    assert not any(OTHER in line for line in told(found, old, on_drift="ignore"))


def test_ages_below_all_that_fit_has_seen_are_found_too(noiser):
    young = people(100, seed=3).assign(age=3)
    moving = noiser_of(people(600), unknown="nearest", public=["age"])
    [line] = [line for line in told(moving, young) if OTHER in line]
    assert "100% not seen in fit" in line


def test_rows_of_fit_and_rows_like_them_are_released_without_a_word(noiser):
    assert told(noiser, people(1500, seed=9)) == []
    table = people(800, seed=4)
    assert told(noiser_of(table), table) == []


def test_of_fewer_than_thirty_rows_nothing_is_said(noiser):
    assert told(noiser, people(29).assign(age=90)) == []
    assert len(told(noiser, people(30).assign(age=90))) == 1
    small = noiser_of(people(29, job=["cook", "clerk"] * 14 + ["cook"]), public=["job"])
    assert told(small, people(500).assign(job="clerk")) == []


@pytest.mark.parametrize("column", ["job", "vip"])
def test_a_shift_of_ten_points_is_found_in_a_thousand_rows(noiser, column):
    new = people(1000, seed=7)
    changed = np.arange(1000) % 10 == 0
    new.loc[changed, column] = "smith" if column == "job" else True
    new = new if column == "job" else new.assign(vip=new["vip"] | (np.arange(1000) % 7 == 0))
    [line] = told(noiser, new)
    assert f"'{column}'" in line


def test_numbers_that_are_ten_points_larger_are_found_in_a_thousand_rows(noiser):
    new = people(1000, seed=7)
    [line] = told(noiser, new.assign(age=np.minimum(new["age"] + 10, 90)))
    assert "'age'" in line


def test_one_warning_names_the_column_that_differs_most_and_counts_the_others():
    table = pd.DataFrame({f"c{k}": np.arange(200) % 2 for k in range(8)} | {"s": [0, 1] * 100})
    found = noiser_of(table, sensitive="s", n_bins=None, epsilon=5.0)
    [line] = told(found, table.assign(**{f"c{k}": 1 for k in range(8)}))
    assert line.count("distance") == 1
    assert "and 7 more" in line


def test_missing_values_that_were_hardly_there_are_found():
    table = people(600).astype({"age": float})
    table.loc[::20, "age"] = np.nan
    found = noiser_of(table, missing="propagate", public=["age", "vip"])
    new = people(500, seed=2).astype({"age": float})
    new.loc[::20, "age"] = np.nan
    assert told(found, new) == []
    new.loc[::2, "age"] = np.nan
    [line] = told(found, new)
    assert "50% missing" in line


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_numbers_of_any_size_are_counted_once_by_keys_and_beside_missing_ones(noise):
    table = people(400).assign(rate=np.random.default_rng(1).normal(size=400))
    table.loc[::10, "rate"] = np.nan
    priors = {secret: GaussianMixture([1.0], [0.0], [1.0]) for secret in ("no", "yes")}
    found = noiser_of(
        table, prior=priors, public=["rate"], missing="propagate", noise=noise, delta=1e-3
    )
    new, key = table.assign(row=np.arange(400)), b"blake2b:" + bytes(32)
    assert told(found, table) == told(found, new, row_id="row", key=key) == []
    new["rate"] += 1.0
    lines = told(found, new)
    assert "'rate' (distance 0.4" in lines[0]
    assert told(found, new, row_id="row", key=key) == lines
    assert found.certificate_.check(new).warning() == lines[0]


def test_rows_count_as_often_as_their_weights_say():
    table = people(400)
    weights = 1 + 9 * (table["job"] == "cook").to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = PufferfishNoiser(sensitive="ill", public=["job"]).fit(
            table, sample_weight=weights
        )
    repeated = noiser_of(table.loc[table.index.repeat(weights)], public=["job"])
    [own], [other] = weighted._fitted.rules.margins, repeated._fitted.rules.margins
    assert own.parts.tolist() == other.parts.tolist()
    assert own.total == other.total


def test_every_kind_of_table_in_any_order_is_told_the_same(noiser):
    new = people(200).assign(age=90)
    lines = [told(noiser, X) for X in (new, new[::-1], pl.from_pandas(new), new[new.columns[::-1]])]
    assert lines[0]
    assert all(line == lines[0] for line in lines)
    keyed = new.assign(row=np.arange(200))
    key = b"blake2b:" + bytes(32)
    assert told(noiser, keyed, row_id="row", key=key) == lines[0]


def test_threads_count_as_one_does(noiser):
    two = noiser_of(people(3000, seed=1, age=np.resize(np.arange(18, 91), 3000)), n_jobs=2)
    new = people(200).assign(age=90)
    assert told(two, new) == told(noiser, new)


def test_a_lazy_table_is_remembered_as_one_in_memory():
    table = people(400)
    own, lazy = noiser_of(table), noiser_of(pl.from_pandas(table).lazy())
    for one, other in zip(own._fitted.rules.margins, lazy._fitted.rules.margins, strict=True):
        assert one.parts.tolist() == other.parts.tolist()
        assert (one.present, one.total) == (other.present, other.total)


@pytest.mark.parametrize("way", ["error", None, 1])
def test_another_choice_is_refused_before_anything_is_drawn(noiser, way):
    with pytest.raises((ValueError, TypeError), match="on_drift"):
        noiser.transform(people(100), on_drift=way)


# ----------------------------------------------------------------------------------- saved and read


@pytest.mark.parametrize("case", ALL_90)
def test_a_form_and_a_saved_noiser_find_the_same(case):
    found = fitted_for(case)
    old = people(100, seed=3).assign(age=99 if case == "moved" else 90)
    expected = [line for line in told(found, old) if OTHER in line]
    for other in (PufferfishRelease.from_json(found.to_json()), pickle.loads(pickle.dumps(found))):
        assert [line for line in told(other, old) if OTHER in line] == expected != []


def test_a_form_written_before_there_were_margins_says_nothing_and_refuses_to_raise():
    release = PufferfishRelease.from_json(Path(__file__).parent / "forms" / "laplace.json")
    rows = pd.DataFrame({"age": 20, "pay": 9.0, "job": "cook", "vip": True}, index=range(99))
    assert not any(OTHER in line for line in told(release, rows))
    with pytest.raises(ValueError, match=r'on_drift="raise" needs .* fit again'):
        release.transform(rows, on_drift="raise")
    assert '"margin"' not in release.to_json()


@pytest.mark.slow
def test_a_form_tells_thousandths_and_no_value_of_a_column_that_takes_any_number():
    table = people(400)
    form = noiser_of(table, prior="gaussian", public=["pay"], n_bins=None).to_json()
    parts = [int(k) for k in re.search(r'"parts":\[([\d,]+)\]', form)[1].split(",")]
    assert sum(parts) == 1000
    assert len(parts) == 130
    told_numbers = re.findall(r"-?0x[0-9a-f.]+p[+-]\d+", form)
    assert not {float.fromhex(each) for each in told_numbers} & set(table["pay"])


# ---------------------------------------------------------------------------------------- the check


def ill(X):
    return X.assign(ill=np.where(X["age"] > 54, "yes", "no"))


@pytest.fixture(scope="module")
def certificate():
    return noiser_of(ill(people(2000)), public=["age", "job"], n_bins={"age": 5}).certificate_


def test_the_check_agrees_with_what_transform_finds(noiser):
    for new in (people(500, seed=2), people(500, seed=2).assign(age=90)):
        drift = noiser.certificate_.check(new)
        assert drift.drifted == any(OTHER in line for line in told(noiser, new))
        assert list(drift.table["name"]) == ["age", "pay", "job", "vip"]
        assert drift.tested


def test_the_check_refuses_no_value_and_counts_the_strange_ones(noiser):
    new = people(400).astype({"age": float})
    new.loc[:99, "age"], new.loc[100:199, "job"], new.loc[:199, "pay"] = 17.5, "nurse", np.inf
    new.loc[200:299, "age"] = np.nan
    table = noiser.certificate_.check(new).table.set_index("name")
    assert table["outside"].round(6).to_dict() == {"age": 0.25, "pay": 0.5, "job": 0.25, "vip": 0.0}
    assert table["missing"].round(6).to_dict() == {"age": 0.25, "pay": 0.0, "job": 0.0, "vip": 0.0}
    assert table["drifted"].to_dict() == {"age": True, "pay": True, "job": True, "vip": False}


def test_a_column_without_a_value_among_the_new_rows_is_missing_in_all_and_at_no_distance(noiser):
    new = people(100).astype({"age": float}).assign(age=np.nan)
    age = noiser.certificate_.check(new).columns[0]
    assert (age.outside, age.missing, age.distance, age.drifted) == (0.0, 1.0, 0.0, True)


def test_a_value_never_seen_is_found_even_where_there_is_one_value_alone():
    found = noiser_of(people(300, job="cook"), public=["job", "vip"])
    drift = found.certificate_.check(people(300).assign(job="nurse"))
    [job, _] = drift.columns
    assert (job.outside, job.distance, job.drifted) == (1.0, 1.0, True)


def test_distances_are_those_of_the_distributions(noiser):
    new = people(1000, seed=11)
    drift = noiser.certificate_.check(new).table.set_index("name")
    ages, fitted = np.arange(18, 91), np.resize(np.arange(18, 91), 3000)
    apart = [(new["age"] <= a).mean() - (fitted <= a).mean() for a in ages]
    assert abs(drift["distance"]["age"] - np.abs(apart).max()) < 0.002
    shares = [each["job"].value_counts(normalize=True) for each in (people(3000, seed=1), new)]
    assert abs(drift["distance"]["job"] - 0.5 * (shares[0] - shares[1]).abs().sum()) < 0.003


@pytest.mark.slow
def test_continuous_priors_are_checked_too():
    table = people(600)
    free = noiser_of(table[:300], prior="gaussian", public=["pay"]).certificate_
    assert not free.check(people(300, seed=4)).drifted
    assert free.check(people(300, seed=4, pay=-1.0)).drifted


def test_a_saved_certificate_checks_as_before(certificate):
    again = pickle.loads(pickle.dumps(certificate))
    new = people(400, seed=8)
    assert again.check(new) == certificate.check(new)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["polars", "duckdb"])
def test_a_lazy_column_of_more_values_than_are_fetched_is_checked_by_its_bins(where, monkeypatch):
    rng = np.random.default_rng(0)
    table = people(400).assign(pay=rng.normal(size=400), age=rng.integers(-200, 200, 400))
    own = PufferfishNoiser(sensitive="ill", public=["age", "pay"], n_bins=5, missing="propagate")
    own = own.fit(table).certificate_
    new = table.assign(pay=rng.normal(size=400) + 0.2, age=rng.integers(-300, 200, 400))
    new.loc[::50, "pay"] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, np.inf]
    monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", 50)
    frame = pl.from_pandas(new, nan_to_null=True)
    lazy = frame.lazy() if where == "polars" else duckdb.from_arrow(frame.to_arrow())
    assert own.check(lazy) == own.check(new)
    assert own.check(lazy).table["outside"].tolist() == [0.0, 3 / 400]
    raw = noiser_of(people(400).assign(pay=1), n_bins=None).certificate_
    with pytest.raises(ValueError, match=r"column 'pay' has more than 50 .*sample of the rows"):
        raw.check(lazy)


def test_lazy_tables_and_arrays_are_checked_by_their_counts():
    table = people(400)
    own = noiser_of(table).certificate_
    new = people(200, seed=2).assign(age=90)
    assert own.check(pl.from_pandas(new).lazy()) == own.check(new)
    array = PufferfishNoiser(n_bins=5).fit(
        table[["age", "pay"]].to_numpy(), sensitive_features=table["ill"]
    )
    assert array.certificate_.check(new[["age", "pay"]].to_numpy()).drifted


@pytest.mark.parametrize(
    ("X", "told"),
    [
        (pd.DataFrame({"age": [20]}), "table lacks column 'job'"),
        (people(5)[:0], "0 rows"),
        (people(5).assign(age="x"), "column 'age' holds category values"),
        ([1, 2], "rows and columns"),
        (None, "rows and columns"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(certificate, X, told):
    with pytest.raises((ValueError, TypeError), match=told) as fault:
        certificate.check(X)
    assert "\n" not in str(fault.value)


def test_a_certificate_read_from_json_says_where_the_rows_are_known(noiser):
    bare = altered(noiser.certificate_, fitted=None)
    with pytest.raises(ValueError, match="knows no fitted rows"):
        bare.check(people(100))


def test_the_certificate_of_a_form_checks_public_columns_alone(noiser):
    release = PufferfishRelease.from_json(noiser.to_json())
    new = people(100).assign(age=90)
    assert release.certificate_.check(new) == noiser.certificate_.check(new)
    old = PufferfishRelease.from_json(Path(__file__).parent / "forms" / "laplace.json")
    with pytest.raises(ValueError, match="knows no fitted rows"):
        old.certificate_.check(new)


def test_the_page_is_text_html_and_json(certificate):
    new = people(100, seed=3).assign(job="<b>\nnurse")
    drift = certificate.check(new)
    assert "DO NOT LOOK LIKE" in str(drift)
    assert "<b>" not in drift._repr_html_()
    record = json.loads(drift.to_json())
    assert record["schema"] == "sklearn_puffer.drift/2"
    assert record["drifted"] is True
    assert [each["name"] for each in record["columns"]] == ["age", "job"]
    assert "not tested" in str(certificate.check(new[:20]))
