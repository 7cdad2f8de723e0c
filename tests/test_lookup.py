"""Places of values among atoms and between edges, and counts of them, against the plain way."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from itertools import product

import numpy as np
import pandas as pd
import pytest
from all_pairs import all_pairs
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._codes import columns, distinct
from sklearn_puffer._codes.lookup import Lookup
from sklearn_puffer._tables import Values

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", ">u8"]
ATOMS = {
    "from 0": np.arange(20.0),
    "from 5": np.arange(5.0, 90.0),
    "below 0": np.arange(-7.0, 12.0),
    "one": np.array([3.0]),
    "with a gap": np.array([0.0, 1.0, 3.0, 4.0]),
    "halves": np.array([0.0, 0.5, 2.0]),
    "far out": np.arange(2.0**53 - 9, 2.0**53),
}
EDGES = {
    "one": [0.0],
    "even": np.arange(-9.0, 9.0),
    "quantiles": np.sort(np.random.default_rng(1).normal(size=40)),
    "crowded": [0.0, 1e-9, 2e-9, 3e-9, 4e-9, 5e-9, 6e-9, 1.0],
    "two in a cell": [-1e5, 0.0, 1.0, 1e5],
    "tiny": [-1e-120, 0.0, 1e-120],
    "far out": [-1e120, -5.0, 1e120],
    "neighbours": [1.0, np.nextafter(1.0, 2.0), 1.5],
}


def laid_out(values):
    """The same values, one after the other, with others between them, and backwards."""
    apart = np.zeros((len(values), 3), dtype=values.dtype)
    apart[:, 1] = values
    return values, apart[:, 1], values[::-1].copy()[::-1]


def candidates(dtype):
    info = np.iinfo(dtype)
    near = [v for v in range(-12, 100) if info.min <= v <= info.max]
    far = [v for v in (info.min, info.max, 2**53 - 3, 2**64 - 5) if info.min <= v <= info.max]
    return np.array(near + far, dtype=dtype)


@pytest.mark.parametrize("name", ATOMS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_has_the_place_of_the_atom_that_it_is_and_any_other_is_told(dtype, name):
    atoms, lookup = ATOMS[name], Lookup(ATOMS[name])
    place = {int(atom): k for k, atom in enumerate(atoms) if atom % 1 == 0}
    values = candidates(dtype)
    known = values[[int(value) in place for value in values]]
    for block in laid_out(known):
        codes = np.full(len(block), -1)
        assert lookup.find(block, codes)
        assert codes.tolist() == [place[int(value)] for value in block]
    for value in values[[int(value) not in place and int(value) < 2**53 for value in values]]:
        block = np.append(known, value).astype(dtype)
        assert not lookup.find(block, np.empty(len(block), dtype=np.intp)), value


def test_unsigned_integers_do_not_wrap_around_to_atoms_below_zero():
    lookup = Lookup(np.arange(-7.0, 12.0))
    for block in laid_out(np.array([2**64 - 5, 3], dtype=np.uint64)):
        assert not lookup.find(block, np.empty(2, dtype=np.intp))


def test_whole_numbers_between_two_ends_take_no_search_and_others_do():
    gapless = {name: Lookup(atoms).gapless for name, atoms in ATOMS.items()}
    assert gapless == dict.fromkeys(ATOMS, True) | {"with a gap": False, "halves": False}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", ">f8"])
def test_a_value_lies_above_as_many_edges_as_are_smaller(dtype, name):
    edges = np.array(EDGES[name])
    generator = np.random.default_rng(0)
    around = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]
    values = np.concatenate([*around, generator.normal(size=400), [0.0, -0.0, 3.0, 250.0]])
    if np.dtype(dtype).kind == "f":
        values = np.append(values, [-1.7e308, 1.7e308, 5e-324])
        with np.errstate(over="ignore"):
            values = values.astype(dtype)
        values = values[np.isfinite(values)]
    else:
        values = np.clip(values, 0, 255).astype(dtype)
    for block in laid_out(values):
        codes = np.full(len(block), -1)
        Lookup(edges).below(block, codes)
        assert codes.tolist() == [sum(edge < float(v) for edge in edges) for v in block]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.12, 0.13, 1.0])
@pytest.mark.parametrize("name", EDGES)
def test_few_and_many_values_beside_an_edge_have_the_same_places(name, share):
    edges, rng = np.array(EDGES[name]), np.random.default_rng(4)
    inner = edges[np.isfinite(edges)]
    spread = rng.uniform(inner.min() - 1.0, inner.max() + 1.0, 4000)
    beside = rng.choice(np.concatenate([inner, np.nextafter(inner, np.inf)]), 4000)
    values = np.where(rng.random(4000) < share, beside, spread)
    codes = np.empty(4000, dtype=np.intp)
    Lookup(edges).below(values, codes)
    assert_array_equal(codes, (edges[:, None] < values).sum(axis=0))


def test_most_edges_are_found_without_a_search():
    quick = {name: Lookup(np.array(edges)).quick for name, edges in EDGES.items()}
    slow = {"one": False, "crowded": False}
    assert quick == dict.fromkeys(EDGES, True) | slow


def weighted(values, weights):
    """Distinct values and the sums of their weights, one by one."""
    sums = {}
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        sums[value + 0.0] = sums.get(value + 0.0, 0) + weight
    return np.array(sorted(sums)), [sums[value] for value in sorted(sums)]


@pytest.mark.parametrize(
    ("are_weighted", "gaps", "dtype", "n_distinct"),
    all_pairs(
        product(
            [False, True],
            [False, True],
            ["float64", "float32", "int64", "uint16"],
            [1, 7, 60_000],
        )
    ),
)
def test_values_are_counted_as_one_by_one(n_distinct, dtype, gaps, are_weighted):
    generator = np.random.default_rng(0)
    data = generator.integers(0, n_distinct, 80_000).astype(dtype)
    if data.dtype.kind == "f":
        data[data == 0] = generator.choice([0.0, -0.0], int((data == 0).sum()))
    weights = generator.integers(0, 3, len(data))
    missing = generator.random(len(data)) < 0.1 if gaps else None
    values = Values("float" if data.dtype.kind == "f" else "integer", data, missing)
    atoms, counts = distinct(values, weights if are_weighted else None)
    here = slice(None) if missing is None else ~missing
    expected = weighted(data[here], weights[here] if are_weighted else np.ones_like(weights[here]))
    assert_array_equal(atoms, expected[0])
    assert not np.signbit(atoms).any()
    assert counts.tolist() == expected[1]


def test_what_bins_of_very_many_numbers_cost_is_near_the_mean_over_all_of_them():
    generator = np.random.default_rng(0)
    secret = np.arange(150_000) % 2
    table = pd.DataFrame({"s": secret, "x": generator.normal(size=len(secret)) + secret})
    fitted = PufferfishNoiser(sensitive="s", n_bins=15, output="noisy").fit(table)
    theta = fitted.theta_["x"]
    edges = np.quantile(table["x"], np.arange(1, 15) / 15, method="lower")
    bins = np.searchsorted(edges, table["x"])
    moved = np.abs(table["x"] - table["x"].groupby(bins).transform("median"))
    told = fitted.utility_.loc["x"]
    assert_allclose(told["change"], np.mean(moved + theta * np.exp(-moved / theta)), rtol=2e-3)
    assert_allclose(told["constant"], np.mean(np.abs(table["x"] - table["x"].median())), rtol=1e-5)
    assert_allclose(
        told["constant_median"], np.median(np.abs(table["x"] - table["x"].median())), rtol=1e-4
    )
    least = np.where(  # P(|N - d| <= m), for the median that is told
        told["median_change"] >= moved,
        1.0 - np.exp(-told["median_change"] / theta) * np.cosh(moved / theta),
        np.exp(-moved / theta) * np.sinh(told["median_change"] / theta),
    )
    assert_allclose(np.mean(least), 0.5, atol=1e-3)


SECRET = np.resize([0, 1, 1], 600)
PLACES = np.random.default_rng(2).binomial(20, 0.4 + 0.1 * SECRET)
COLUMNS = {
    **{dtype: PLACES.astype(dtype) for dtype in INTEGERS},
    "negative": PLACES - 40,
    "large": PLACES + 2**40,
    "with gaps": PLACES * 3 + PLACES // 4,
    "halves": PLACES / 2,
    "irregular": np.sort(np.random.default_rng(3).uniform(0, 9, 21))[PLACES],
    "float32": (PLACES / 4).astype("float32"),
    "one value": np.full(600, 7),
    "boolean": PLACES > 9,
    "strings": np.array([*"abcdefghijklmnopqrstu"], dtype=object)[PLACES],
    "nullable": pd.array(PLACES, dtype="Int16"),
    "gaps": pd.array(np.where(PLACES == 3, None, PLACES), dtype="Int64"),
    "NaN": np.where(PLACES == 3, np.nan, PLACES),
}
OPTIONS = {
    "as it is": {},
    "bins": {"n_bins": 4},
    "nearest": {"unknown": "nearest"},
    "noisy": {"output": "noisy"},
}


def slowly(monkeypatch):
    """Without what is quicker than a search and a look-up."""
    own = columns._lookup_of

    def plain(column):
        found = copy(own(column))
        setattr(found, "gapless" if column.edges is None else "quick", False)
        return found

    monkeypatch.setattr(columns, "_lookup_of", plain)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("column", "options"),
    [(c, o) for i, c in enumerate(COLUMNS) for j, o in enumerate(OPTIONS) if (i + j) % 2 == 0],
)
def test_the_quick_ways_release_what_the_plain_ones_do(column, options, monkeypatch):
    table = pd.DataFrame({"s": SECRET, "x": COLUMNS[column]})
    given = OPTIONS[options]
    if column in ("strings", "boolean") and "n_bins" in given:
        given = {"n_bins": {}}
    noiser = PufferfishNoiser(sensitive="s", missing="propagate", random_state=5, **given)
    fitted = noiser.fit(table)
    rows = table[["x"]] if options == "nearest" else table[["x"]][::-1]
    quick = copied(fitted).transform(rows)
    slowly(monkeypatch)
    assert_frame_equal(copied(fitted).transform(rows), quick)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("types", [("int64",) * 2, ("int16", "float32"), ("float64",) * 2])
@pytest.mark.parametrize("names", [("x", "y"), (0, 1)])
def test_a_row_by_itself_is_released_as_in_a_table_of_very_many(types, names):
    secret, columns = ("s" if "x" in names else 2), {}
    for name, dtype, shift in zip(names, types, (0, 7), strict=True):
        columns[name] = np.resize(PLACES, 1500).astype(dtype) + np.array(shift, dtype=dtype)
    table = pd.DataFrame({**columns, secret: np.resize(SECRET, 1500)})
    table.columns.names = ["level"]
    fitted = PufferfishNoiser(sensitive=secret, dependence="independent").fit(table)
    key = b"blake2b: an example, not a key"
    whole = fitted.transform(table, row_id=np.arange(1500), key=key)
    for row in (0, 3, 1499):
        own = fitted.transform(table[row : row + 1], row_id=np.array([row]), key=key)
        assert_frame_equal(own, whole[row : row + 1])
    assert [str(dtype) for dtype in whole.dtypes] == list(types)
    whole.iloc[0, 0] = 99  # and it is the caller's own to write into
    assert_array_equal(table[names[0]].to_numpy(), columns[names[0]])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("container", ["frame", "array"])
def test_a_release_writes_nothing_into_the_table_that_it_reads(options, container):
    fitted, table = fitted_on(PLACES, **OPTIONS[options])
    if container == "array":
        table = np.asfortranarray(table.to_numpy())
        fitted = PufferfishNoiser(sensitive=0, **OPTIONS[options]).fit(table)
    kept = table.copy()
    key = b"blake2b: an example, not a key"
    fitted.transform(table)
    fitted.transform(table, row_id=np.arange(len(table)), key=key)
    assert_array_equal(np.asarray(table), np.asarray(kept))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("dtype", "order", "options"),
    all_pairs(
        product(
            ["int64", "uint16", "float32"],
            ["C", "F", "every other", "backwards"],
            ["as it is", "bins", "noisy"],
        )
    ),
)
def test_arrays_of_any_layout_release_what_contiguous_ones_do(dtype, order, options):
    plain = np.stack([SECRET, PLACES, PLACES[::-1]], axis=1).astype(dtype)
    noiser = PufferfishNoiser(sensitive=0, random_state=5, **OPTIONS[options]).fit(plain)
    laid = {
        "C": plain,
        "F": np.asfortranarray(plain),
        "every other": np.repeat(np.repeat(plain, 2, axis=0), 2, axis=1)[::2, ::2],
        "backwards": plain[::-1].copy()[::-1],
    }[order]
    assert_array_equal(copied(noiser).transform(laid), copied(noiser).transform(plain.copy()))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("value", [-1, 22, 300, 2**40, 0.5])
def test_a_number_that_fit_has_not_seen_is_refused_or_becomes_the_nearest(value):
    table = pd.DataFrame({"s": SECRET, "x": PLACES})
    strange = pd.DataFrame({"x": [5, value, 7]})
    fitted = PufferfishNoiser(sensitive="s", unknown="error", random_state=5).fit(table)
    with pytest.raises(ValueError, match=rf"column 'x' contains {value},"):
        fitted.transform(strange)
    fitted = PufferfishNoiser(sensitive="s", unknown="nearest", random_state=5).fit(table)
    nearest = int(np.clip(np.floor(value + 0.5), PLACES.min(), PLACES.max()))
    moved = pd.DataFrame({"x": [5, nearest, 7]}).astype(strange.dtypes)
    assert_frame_equal(copied(fitted).transform(strange), copied(fitted).transform(moved))


def copied(fitted):
    """A noiser whose next call is its first one."""
    return pickle.loads(pickle.dumps(fitted))


def fitted_on(places, **options):
    table = pd.DataFrame({"s": SECRET, "x": places})
    return PufferfishNoiser(sensitive="s", **options).fit(table), table


@pytest.mark.parametrize("options", [{}, {"n_bins": 4}])
def test_a_value_that_is_changed_after_a_release_is_told_as_before_one(options):
    fitted, table = fitted_on(PLACES, **options)
    fitted.transform(table[:3])  # from here on tables of its columns are known
    column = fitted._fitted.mechanism.columns[0].column
    for numbers in (column.atoms, column.edges):
        if numbers is not None:
            numbers[0] -= 1.0
            with pytest.raises(ValueError, match="a fitted attribute was changed after fit"):
                fitted.transform(table[:3])
            numbers[0] += 1.0
    fitted.transform(table[:3])


def test_a_copy_with_other_values_does_not_take_the_tables_of_the_first():
    first, table = fitted_on(PLACES, random_state=5)
    far, moved = fitted_on(PLACES + 1000, random_state=5)
    with pytest.warns(UserWarning, match="random_state"):
        near = copied(first).transform(table)
    with pytest.warns(UserWarning, match="random_state"):
        assert_frame_equal(copied(far).transform(moved), near + 1000)


def test_what_a_release_keeps_at_hand_is_not_saved():
    fitted, table = fitted_on(PLACES, n_bins=4)
    before = pickle.dumps(fitted)
    fitted.transform(table)
    assert pickle.dumps(fitted) == before


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("options", [{}, {"n_bins": 4}])
def test_threads_that_release_at_once_do_not_share_scratch(options):
    fitted, _ = fitted_on(PLACES, **options)
    rows = pd.DataFrame({"x": np.resize(PLACES, 2_000)})
    key = b"blake2b: an example, not a key"
    alone = fitted.transform(rows, row_id=np.arange(2000), key=key)
    with ThreadPoolExecutor(4) as pool:
        parts = [
            pool.submit(fitted.transform, rows, row_id=np.arange(2000), key=key) for _ in range(12)
        ]
    for part in parts:
        assert_frame_equal(part.result(), alone)
