"""Rows as points, typical rows, and the nearest one of each row, against brute force."""

import json
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer import PufferfishMicroaggregator, PufferfishRelease, PufferfishWarning
from sklearn_puffer._microaggregator import coordinates
from sklearn_puffer._microaggregator import prototypes as prototypes_module
from sklearn_puffer._microaggregator.coordinates import (
    Coordinates,
    LevelAxis,
    NumberAxis,
    sample_rows,
)
from sklearn_puffer._microaggregator.prototypes import Prototypes, mean_changes
from sklearn_puffer._microaggregator.release import read, written
from sklearn_puffer._rows import check_units
from sklearn_puffer._tables import Values, array_table, first_values, frame_table

MIN_SIZE = 5


def changes_of(prototypes, table, codes=None, weights=None):
    """Return the mean changes of the rows of a table."""
    rows = prototypes.coordinates.read(table)
    codes = prototypes.assign(rows) if codes is None else codes
    return mean_changes(prototypes, rows.points(slice(0, len(rows))), codes, weights)


def table_of(n_rows=200, seed=0):
    """Return a table with a column of every kind, two of them with gaps."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n_rows)
    gaps = rng.random(n_rows) < 0.2
    return pd.DataFrame(
        {
            "age": 20 + 10 * group + rng.integers(10, size=n_rows),
            "pay": (1e4 * (group + rng.random(n_rows))).astype(np.float32),
            "vip": rng.random(n_rows) < 0.2 + 0.3 * group,
            "job": np.array(["cook", "clerk", "smith", "nurse"])[
                (group + (rng.random(n_rows) < 0.3)) % 4
            ],
            "size": pd.Categorical(
                np.array(["S", "M", "L"])[group], ["S", "M", "L", "XL"], ordered=True
            ),
            "visits": pd.Series(rng.integers(5, size=n_rows) + group, dtype="Int64").mask(gaps),
            "note": pd.Series(np.where(gaps, None, np.array(list("xyz"))[group]), dtype=object),
            "since": pd.Timestamp(2020, 1, 1) + pd.to_timedelta(40 * group + gaps, "D"),
            "stay": pd.Series(pd.to_timedelta(rng.integers(90, size=n_rows), "min")).mask(gaps),
        }
    )


def values_of(table):
    return {name: first_values(table, name) for name in table.names}


def learnt(X, n_prototypes=8, min_size=MIN_SIZE, units=None, weights=None):
    table = array_table(X) if isinstance(X, np.ndarray) else frame_table(X)
    sample = sample_rows(values_of(table), weights=weights)
    return table, Prototypes.learnt(
        Coordinates.learnt(sample, units), sample, n_prototypes, min_size
    )


def codes_of(prototypes, table):
    return prototypes.assign(prototypes.coordinates.read(table))


def released(prototypes, table):
    codes = dict.fromkeys(prototypes.rows, codes_of(prototypes, table))
    return table.build(prototypes_module.finished_columns(table, prototypes.rows, codes))


def as_polars(X):
    return pl.from_pandas(X)


def as_nullable(X):
    return X.convert_dtypes()


def as_objects(X):
    return X.astype({"age": object, "vip": object, "size": object})


def as_zoned(X):
    return X[["since", "age"]].assign(since=X["since"].dt.tz_localize("Europe/Rome"))


def as_days(X):
    return X[["since", "age"]].assign(since=X["since"].dt.date)


FORMS = {
    "pandas": lambda X: X,
    "zoned": as_zoned,
    "days": as_days,
    "dates in an array": lambda X: X[["since"]].to_numpy(),
    "nullable": as_nullable,
    "objects": as_objects,
    "polars": as_polars,
    "arrow": lambda X: pa.table(dict(zip(X, rows_of(X), strict=True))),
    "array": lambda X: X[["age", "pay"]].to_numpy(),
    "integers": lambda X: X[["age"]].to_numpy(),
    "object array": lambda X: X[["job", "note"]].to_numpy(dtype=object),
}


def rows_of(X):
    """Return the columns of any table as lists of plain values, None where they are missing."""
    if isinstance(X, np.ndarray):
        columns = list(X.T)
    elif isinstance(X, pd.DataFrame):
        columns = [X[name] for name in X.columns]
    else:
        columns = [
            X[name].to_pylist()
            if hasattr(X, "schema") and not isinstance(X, pl.DataFrame)
            else X[name].to_list()
            for name in getattr(X, "column_names", None) or X.columns
        ]
    return [[None if pd.isna(value) else value for value in column] for column in columns]


@pytest.mark.parametrize("form", FORMS)
def test_typical_rows_hold_values_of_the_table_in_its_types(form):
    X = FORMS[form](table_of())
    table, prototypes = learnt(X)
    out = released(prototypes, table)
    assert type(out) is type(X)
    if isinstance(X, np.ndarray):
        assert out.dtype == X.dtype
    elif isinstance(X, pd.DataFrame):
        assert out.dtypes.equals(X.dtypes)
        assert out.index.equals(X.index)
    else:
        assert out.schema == X.schema
    for before, after in zip(rows_of(X), rows_of(out), strict=True):
        assert set(after) <= set(before)
    assert 1 < len(prototypes) <= 8


@pytest.mark.parametrize("form", FORMS)
def test_every_typical_row_stays_as_it_is(form):
    _, prototypes = learnt(FORMS[form](table_of()))
    again = prototypes.coordinates.rows(prototypes.rows)
    assert prototypes.assign(again).tolist() == list(range(len(prototypes)))


@pytest.mark.slow
@given(st.permutations(range(60)), st.integers(0, 5))
def test_the_order_of_rows_does_not_matter(order, seed):
    X = table_of(60, seed)
    table, prototypes = learnt(X, 5)
    turned = X.iloc[order]
    other_table, other = learnt(turned, 5)
    assert written(other) == written(prototypes)
    codes = codes_of(prototypes, table)
    assert codes_of(other, other_table).tolist() == codes[order].tolist()


def test_a_row_with_a_weight_is_as_many_rows():
    X = table_of(60)
    weights = np.arange(60) % 4
    _, prototypes = learnt(X, weights=weights)
    _, other = learnt(X.loc[X.index.repeat(weights)])
    assert written(other) == written(prototypes)


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 30))
def test_every_prototype_has_as_many_rows_as_asked_for(n_prototypes, min_size, seed):
    table, prototypes = learnt(table_of(80, seed), n_prototypes, min_size)
    sizes = np.bincount(codes_of(prototypes, table), minlength=len(prototypes))
    assert len(prototypes) <= n_prototypes
    assert sizes.min() >= min_size
    assert sizes.tolist() == prototypes.sizes.tolist()


def test_fewer_rows_than_a_typical_row_needs_are_refused():
    with pytest.raises(ValueError, match="X has 20 rows, fewer than min_size=30"):
        learnt(table_of(20), min_size=30)


def test_prototypes_are_the_medians_and_modes_of_their_rows():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": np.repeat([0.0, 100.0], 41) + rng.normal(size=82)})
    X["job"] = np.where(rng.random(82) < 0.7, "cook", "smith")
    X["job"] = np.where((X["x"] > 50) & (rng.random(82) < 0.8), "smith", X["job"])
    table, prototypes = learnt(X, 2)
    codes = codes_of(prototypes, table)
    assert len(prototypes) == 2
    for k in range(2):
        rows = X[codes == k]
        job = prototypes.rows["job"]
        assert prototypes.rows["x"].data[k] == np.sort(rows["x"])[(len(rows) - 1) // 2]
        assert job.levels[job.data[k]] == rows["job"].mode()[0]


def test_of_several_categories_that_are_the_most_frequent_the_first_is_typical():
    X = pd.DataFrame({"job": ["b"] * 5 + ["a"] * 5, "x": [1.0] * 10})
    for order in (X, X[::-1]):
        _, prototypes = learnt(order, 1)
        assert prototypes.rows["job"].levels == ("a",)


def test_a_typical_row_lacks_what_most_of_its_rows_lack():
    X = pd.DataFrame({"x": [np.nan] * 6 + [1.0] * 5, "job": [None] * 6 + ["a"] * 5})
    table, prototypes = learnt(X, 1)
    out = released(prototypes, table)
    assert out.isna().all(axis=None)
    table, prototypes = learnt(X[1:], 1)  # as many have it
    assert released(prototypes, table)["x"].tolist() == [1.0] * 10


def test_combinations_that_occur_often_enough_are_their_own_prototypes():
    X = pd.DataFrame({"a": np.tile([1, 2, 3, 5], 20), "b": np.repeat(list("xyzw"), 20)})
    table, prototypes = learnt(X, 16)
    assert len(prototypes) == 16
    assert released(prototypes, table).equals(X)


# ------------------------------------------------------------------------------- the coordinates


def test_numbers_are_standardised_and_categories_are_halves():
    X = table_of()[["age", "pay", "job", "vip"]]
    table = frame_table(X)
    space = Coordinates.learnt(sample_rows(values_of(table)))
    found = space.read(table).dense()
    ages, pays = X["age"].to_numpy(float), X["pay"].to_numpy(float)
    numbers = [(column - column.mean()) / column.std() for column in (ages, pays)]
    jobs = [X["job"] == job for job in sorted(set(X["job"]))]
    halves = [0.5 * column for column in (*jobs, ~X["vip"], X["vip"])]
    assert np.allclose(found, np.stack([*numbers, *halves], axis=1), atol=1e-5, rtol=0.0)
    assert (found % space.step == 0.0).all()


def test_a_unit_of_distance_takes_the_place_of_the_standard_deviation():
    X = pd.DataFrame({"age": np.arange(40), "job": ["a", "b"] * 20})
    table = frame_table(X)
    space = Coordinates.learnt(sample_rows(values_of(table)), {"age": 10.0, "job": 4.0})
    found = space.read(table).dense()
    assert np.allclose(np.diff(found[:, 0]), 0.1, atol=1e-4)
    assert np.abs(found[1, 1:] - found[0, 1:]).sum() == 0.25


@pytest.mark.parametrize("unit", [0.0, -1.0, np.nan, "year"])
def test_a_unit_that_is_not_positive_is_refused(unit):
    with pytest.raises((TypeError, ValueError), match=r"weights\['age'\]"):
        check_units({"age": unit})


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e120, 1e307])
@pytest.mark.parametrize("offset", [0.0, 8.0])
def test_the_unit_of_a_column_does_not_matter(scale, offset):
    x = np.repeat([0.0, 1.0, 2.0, 5.0], [10, 10, 10, 3]) + offset
    table, prototypes = learnt((x * scale)[:, None], 4, 3)
    assert len(prototypes) == 4
    _, plain = learnt(x[:, None], 4, 3)
    assert codes_of(prototypes, table).tolist() == codes_of(plain, array_table(x[:, None])).tolist()


def test_numbers_are_clipped_at_six_standard_deviations_and_none_is_too_far():
    x = np.random.default_rng(0).normal(size=(500, 1))
    _, prototypes = learnt(x, 4)
    far = array_table(np.array([[1e308], [-1e308], [30.0], [np.finfo(float).max]]))
    points = prototypes.coordinates.read(far).dense()
    assert np.abs(points).max() == 6.0
    assert (codes_of(prototypes, far) == np.array([3, 0, 3, 3])).all()


def test_a_constant_column_has_coordinates():
    X = np.full((40, 2), 3.5)
    X[:, 1] = np.nan
    table, prototypes = learnt(X, 4)
    assert len(prototypes) == 1
    assert np.isfinite(prototypes.coordinates.read(table).dense()).all()
    assert np.array_equal(released(prototypes, table), X, equal_nan=True)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_refused_by_name_in_fit_and_later(bad):
    X = pd.DataFrame({"pay": [1.0, 2.0, bad, 4.0] * 5})
    with pytest.raises(ValueError, match="column 'pay' contains infinity"):
        learnt(X)
    _, prototypes = learnt(X.replace(bad, 3.0))
    with pytest.raises(ValueError, match="column 'pay' contains infinity"):
        codes_of(prototypes, frame_table(X))


def test_another_kind_of_values_is_refused_by_name():
    X = pd.DataFrame({"pay": [1.0, 2.0] * 10, "vip": [True, False] * 10})
    _, prototypes = learnt(X)
    for name, other in (("pay", "much"), ("vip", "yes"), ("pay", True), ("vip", 1)):
        with pytest.raises(TypeError, match=f"column '{name}' held .* in fit; convert it"[:20]):
            codes_of(prototypes, frame_table(X.assign(**{name: other})))


def test_dates_are_compared_in_any_unit_and_released_as_those_of_fit():
    days = pd.date_range("2020-01-01", periods=40, freq="D")
    X = pd.DataFrame({"since": days.as_unit("s")})
    table, prototypes = learnt(X, 4)
    assert set(released(prototypes, table)["since"]) <= set(days)
    same = frame_table(pd.DataFrame({"since": days.as_unit("ns")}))
    assert codes_of(prototypes, same).tolist() == codes_of(prototypes, table).tolist()
    later = pd.DataFrame({"since": days.as_unit("ns") + pd.Timedelta(1, "h")})
    out = released(prototypes, frame_table(later))
    assert out.dtypes.equals(later.dtypes)
    assert set(out["since"]) <= set(days)


def test_numbers_in_the_place_of_dates_are_refused_and_the_reverse():
    dates = pd.DataFrame({"since": pd.date_range("2020-01-01", periods=40, freq="D")})
    numbers = pd.DataFrame({"since": np.arange(40)})
    for X, other in ((dates, numbers), (numbers, dates)):
        with pytest.raises(TypeError, match="column 'since'"):
            codes_of(learnt(X)[1], frame_table(other))
    gone = pd.DataFrame({"since": [None, None]}, dtype=object)
    assert (codes_of(learnt(dates)[1], frame_table(gone)) >= 0).all()


def test_what_fit_never_saw_is_counted_and_has_a_prototype():
    X = table_of()
    _, prototypes = learnt(X)
    new = X[:6].copy()
    new["job"] = ["pilot", "cook", None, "cook", "smith", "pilot"]
    new["size"] = new["size"].where(np.arange(6) > 0).astype(object)
    new.loc[1, "size"] = "XL"  # declared, and in no row of fit
    new["age"] = new["age"].astype(float).where(np.arange(6) != 3)
    rows = prototypes.coordinates.read(frame_table(new))
    assert rows.unseen() == {"age": 1, "job": 3, "size": 2}
    assert (prototypes.assign(rows) < len(prototypes)).all()


def test_a_row_whose_category_is_new_is_placed_by_its_other_columns():
    X = pd.DataFrame({"x": [0.0, 10.0] * 20, "job": ["a", "b"] * 20})
    _, prototypes = learnt(X, 2)
    new = frame_table(pd.DataFrame({"x": [1.0, 9.0], "job": ["new", None]}))
    assert codes_of(prototypes, new).tolist() == [0, 1]


@pytest.mark.slow
def test_rare_categories_share_a_coordinate():
    rng = np.random.default_rng(0)
    jobs = np.array([f"job {k:03}" for k in range(400)])[rng.integers(400, size=4000)]
    X = pd.DataFrame({"job": jobs, "x": rng.normal(size=4000)})
    table, prototypes = learnt(X)
    assert prototypes.coordinates.read(table).dense().shape == (4000, 1 + 150 + 1)
    assert prototypes.coordinates.read(table).unseen() == {}


# ----------------------------------------------------------------------------- against brute force


def distance(point, other):
    pairs = zip(point.tolist(), other.tolist(), strict=True)
    return sum((abs(Fraction(a) - Fraction(b)) for a, b in pairs), Fraction(0))


@pytest.mark.slow
@given(st.integers(0, 1000), st.integers(1, 6))
def test_the_nearest_typical_row_is_found_and_the_first_of_several(seed, n_prototypes):
    _, prototypes = learnt(table_of(40, seed), n_prototypes, 2)
    other = frame_table(table_of(30, seed + 1))
    places = prototypes.coordinates.rows(prototypes.rows).dense()
    expected = [
        min(range(len(places)), key=lambda k, p=p: (distance(p, places[k]), k))
        for p in prototypes.coordinates.read(other).dense()
    ]
    assert codes_of(prototypes, other).tolist() == expected


def test_a_row_halfway_between_two_typical_rows_takes_the_first():
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    _, prototypes = learnt(X, 2)
    assert codes_of(prototypes, array_table(np.array([[0.5], [0.49], [0.51]]))).tolist() == [
        0,
        0,
        1,
    ]


def distances_to(points, place, prototypes):
    """Return l1 distances, in which a number that one of two lacks counts by its indicators."""
    apart, space = np.abs(points - place), prototypes.coordinates
    start = len(space.number_axes)
    for axis in space.indicator_axes:
        if axis in space.number_axes:
            gone = (points[:, start + 1] > 0.0) | (place[start + 1] > 0.0)
            apart[gone, space.number_axes.index(axis)] = 0.0
        start += axis.n_indicators
    return apart.sum(axis=1)


@pytest.mark.slow
@given(st.integers(0, 1000))
def test_mean_changes_are_those_of_all_pairs_of_rows_and_typical_rows(seed):
    X = table_of(60, seed)
    table, prototypes = learnt(X, 6, 3)
    codes = codes_of(prototypes, table)
    changes = changes_of(prototypes, table, codes)
    points = prototypes.coordinates.read(table).dense()
    places = prototypes.coordinates.rows(prototypes.rows).dense()
    expected = [
        [distances_to(points[codes == a], place, prototypes).mean() for place in places]
        for a in range(len(prototypes))
    ]
    assert np.allclose(changes.distances, expected, atol=1e-12)


def test_shares_of_unchanged_values_are_counted_by_column():
    X = table_of()
    table, prototypes = learnt(X)
    codes = codes_of(prototypes, table)
    changes = changes_of(prototypes, table, codes)
    out = released(prototypes, table)
    shares = np.bincount(codes) / len(codes)
    for name, share in changes.unchanged.items():
        same = (X[name] == out[name]).fillna(False) | (X[name].isna() & out[name].isna())
        assert shares @ np.diag(share) == pytest.approx(same.mean(), abs=1e-12), name


@pytest.mark.parametrize("seed", range(6))
def test_changes_of_numbers_are_those_of_values_and_one_deviation_beside_a_gap(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-1, 2, 300) + rng.choice([0.0, 5.0], 300)
    gone = rng.random(300) < np.where(x > 3.0, 0.7, 0.1)
    X = pd.DataFrame({"x": np.where(gone, np.nan, x), "y": rng.normal(size=300)})
    table, prototypes = learnt(X, 5, 3)
    codes = codes_of(prototypes, table)
    changes = changes_of(prototypes, table, codes)
    told, same = changes.by_column, changes.unchanged
    for name in X:
        own, typical = X[name].to_numpy(), prototypes.rows[name]
        others = np.where(typical.missing if typical.n_missing else False, np.nan, typical.data)
        spread = np.nanstd(own)
        apart = np.abs(own[:, None] - others) / spread
        gaps = np.isnan(own)[:, None], np.isnan(others)[None]
        apart = np.where(gaps[0] | gaps[1], gaps[0] != gaps[1], apart)
        for a in range(len(prototypes)):
            assert told[name][a] == pytest.approx(apart[codes == a].mean(axis=0), abs=1e-5)
            equal = (apart[codes == a] == 0.0).mean(axis=0)
            assert same[name][a] == pytest.approx(equal, abs=1e-12)


def test_sums_of_changes_depend_neither_on_the_order_of_rows_nor_on_blocks(monkeypatch):
    X = table_of(500)
    table, prototypes = learnt(X)
    turned = frame_table(X[::-1])
    found = changes_of(prototypes, table).distances
    monkeypatch.setattr(prototypes_module, "_BLOCK_CELLS", 1 << 9)
    assert np.array_equal(found, changes_of(prototypes, turned).distances)


def test_weights_count_in_changes_as_rows_do():
    X = table_of(60)
    weights = np.arange(60) % 3
    table, prototypes = learnt(X, weights=weights)
    every = frame_table(X.loc[X.index.repeat(weights)])
    found = changes_of(prototypes, table, weights=weights).distances
    assert np.array_equal(found, changes_of(prototypes, every).distances)


# -------------------------------------------------------------------------------------- the sample


def test_a_sample_counts_equal_rows_and_is_ordered_by_content():
    X = pd.DataFrame({"a": [1, 2, 1, 3, 1], "b": list("xyxyx")})
    sample = sample_rows(values_of(frame_table(X)))
    assert dict(zip(sample.columns["a"].data.tolist(), sample.counts.tolist(), strict=True)) == {
        1: 3, 2: 1, 3: 1,
    }  # fmt: skip
    turned = sample_rows(values_of(frame_table(X[::-1])))
    assert turned.columns["a"].data.tolist() == sample.columns["a"].data.tolist()


def test_a_sample_of_many_rows_stands_for_all_and_has_what_is_frequent():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=20_000), np.full(5_000, 7.5))
    sample = sample_rows({"x": array_table(x[:, None]).values(0)}, most=1_000)
    kept = sample.columns["x"].data
    assert 990 <= len(sample) <= 1_000
    stood_for = sample.weights / 64
    assert stood_for[kept == 7.5].tolist() == [5_000]
    assert sample.counts[kept == 7.5].tolist() == [5_000]
    assert stood_for.sum() == pytest.approx(25_000, rel=0.1)
    assert stood_for[kept < 0].sum() == pytest.approx((x < 0).sum(), rel=0.15)


def test_fewer_rows_are_learnt_from_where_each_has_many_coordinates(monkeypatch):
    monkeypatch.setattr(coordinates, "MOST_CELLS", 10_000)
    X = table_of(500)[["age", "pay", "size"]]  # 3 + 3 + 6
    assert 800 <= 10_000 // 12 < 1_000
    whole = sample_rows(values_of(frame_table(X)))
    assert whole.counts.sum() == len(X)
    wide = pd.concat([X.add_suffix(f" {k}") for k in range(3)], axis=1)
    sample = sample_rows(values_of(frame_table(wide)))
    assert len(sample) == 10_000 // 36
    assert sample.weights.sum() / 64 == pytest.approx(500, rel=0.1)


def test_labels_tell_rows_apart():
    values = array_table(np.ones((4, 1))).values(0)
    labels = array_table(np.array([[0.0], [1.0], [0.0], [0.0]])).values(0)
    sample = sample_rows({"x": values}, labels)
    assert sorted(sample.counts.tolist()) == [1, 3]
    assert sorted(sample.labels.data.tolist()) == [0.0, 1.0]


# ------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize("form", FORMS)
def test_prototypes_come_back_from_json(form):
    table, prototypes = learnt(FORMS[form](table_of()))
    text = json.dumps(written(prototypes), allow_nan=False)
    again = read(json.loads(text))
    assert json.dumps(written(again)) == text
    assert again.coordinates == prototypes.coordinates
    assert codes_of(again, table).tolist() == codes_of(prototypes, table).tolist()
    out, expected = (released(each, table) for each in (again, prototypes))
    assert rows_of(out) == rows_of(expected)


@pytest.mark.slow
def test_json_of_ten_columns_is_small():
    X = np.random.default_rng(0).normal(size=(4000, 10))
    _, prototypes = learnt(X, 60)
    assert len(json.dumps(written(prototypes))) < 20_000


@pytest.fixture(scope="module")
def saved():
    """Return a file of every kind of column, two of them known, and with drawn columns."""
    table = table_of(400).assign(ill=np.arange(400) % 3 == 0, ward=np.arange(400) % 2)
    rows = PufferfishMicroaggregator(
        sensitive="ill", public=list(table.columns[:9]), known=["ward"], values="drawn"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        return rows.fit(table).to_json()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("prototypes", "sizes"), []),
        (("prototypes", "sizes", 0), 1),
        (("prototypes", "axes", 0, "scale"), 0.0),
        (("prototypes", "axes", 0, "factor"), -1.0),
        (("prototypes", "axes", 3, "levels"), ["a", "a"]),
        (("prototypes", "axes", 1, "name"), "age"),
        (("prototypes", "axes", 7, "unit"), "year"),
        (("prototypes", "columns", 0, "name"), "AGE"),
        (("prototypes", "columns", 0, "data"), [1]),
        (("prototypes", "columns", 0, "data", 0), 1.5),
        (("prototypes", "columns", 0, "data", 0), 2**80),
        (("prototypes", "columns", 0, "dtype"), "O"),
        (("prototypes", "columns", 3, "data", 0), 99),
        (("prototypes", "columns", 3, "levels"), None),
        (("prototypes", "columns", 0, "kind"), "date"),
        (("numerators", "starts", 1), 0),
        (("numerators", "targets", 0), 99),
        (("numerators", "shares"), None),
        (("numerators",), None),
        (("drawn", 0, "counts"), [[1]]),
        (("drawn", 0, "counts", 0, 0), -1),
        (("drawn", 0, "counts", 0, 0), 0.5),
        (("drawn", 0, "values", "data"), []),
        (("drawn", 1, "values", "name"), "age"),
        (("known", "codes"), [[0], [5]]),
        (("known", "rows", 0, 0), 99),
        (("known", "columns", 0, "numbers", "data"), [1, 0]),
        (("known", "columns", 0, "edges"), [0.5]),
    ],
)
def test_a_file_that_was_changed_is_refused(saved, place, value):
    record = json.loads(saved)
    *path, last = place
    part = record
    for step in path:
        part = part[step]
    part[last] = value
    with pytest.raises(ValueError, match="is no whole release artifact"):
        PufferfishRelease.from_json(json.dumps(record))


def test_categories_that_json_does_not_hold_are_refused_with_a_way_out():
    X = pd.DataFrame({"span": pd.cut(np.arange(20.0), 2), "x": np.arange(20)})
    _, prototypes = learnt(X)
    with pytest.raises(ValueError, match=r"column 'span' has the value .* astype\(str\)"):
        written(prototypes)


@pytest.mark.parametrize("factor", [0.1, 1.0, 1.9, 2.0, 3.0, 1024.0])
@pytest.mark.parametrize("other", [0.5, 1.5])
def test_coordinates_are_multiples_of_a_power_of_two_by_the_largest_factor(factor, other):
    axes = (
        NumberAxis("x", "float", 0.0, 1.0, factor, False),
        NumberAxis("y", "float", 0.0, 1.0, other, False),
    )
    step, largest = Coordinates(axes).step, max(factor, other, 1.0)
    assert np.frexp(step)[0] == 0.5
    assert 2**18 <= largest / step < 2**19


@pytest.mark.parametrize(("unit", "was"), [(None, "numbers"), ("datetime64[D]", "dates or dura")])
@pytest.mark.parametrize("kind", ["boolean", "category"])
def test_another_kind_of_column_than_fit_has_seen_is_refused_with_both(unit, was, kind):
    axis = NumberAxis("x", "integer", 0.0, 1.0, 1.0, False, unit)
    levels = ("a", "b") if kind == "category" else None
    with pytest.raises(TypeError, match=rf"'x' .*{was}"):
        axis.fitted(Values(kind, np.array([1, 0]), levels=levels))
    with pytest.raises(TypeError, match=r"'x' .*booleans"):
        LevelAxis("x", "boolean", 1.0, (False, True), ()).fitted(Values("float", np.array([0.5])))
