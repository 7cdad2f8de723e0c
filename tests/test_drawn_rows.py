"""Columns drawn within a cell: bins of many rows, exact shares, and what a fitted row may lose."""

import itertools
import json
from math import comb, factorial, log

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sklearn_puffer._microaggregator.coordinates import sample_rows
from sklearn_puffer._microaggregator.prototypes import (
    MOST_BINS,
    column_sampler,
    finished_columns,
    fitted_row_loss,
    learnt_bins,
)
from sklearn_puffer._microaggregator.release import read_drawn, written_drawn
from sklearn_puffer._noise import CheckedEntropy, KeyedBits, integer_ids, seeded_entropy
from sklearn_puffer._tables import frame_table

MIN_SIZE = 10


def table_of(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    gaps = rng.random(n_rows) < 0.1
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, size=n_rows),
            "pay": np.where(rng.random(n_rows) < 0.4, 0.0, np.exp(rng.normal(size=n_rows))),
            "vip": rng.random(n_rows) < 0.3,
            "job": rng.choice([*"abcdefghij"], n_rows, p=np.array([*range(1, 11)]) / 55),
            "visits": pd.Series(rng.integers(4, size=n_rows), dtype="Int64").mask(gaps),
            "rare gap": np.where(np.arange(n_rows) == 7, np.nan, rng.normal(size=n_rows)),
            "note": pd.Series(np.where(gaps, None, "x"), dtype=object),
        }
    )


def columns_of(X):
    table = frame_table(X)
    return {name: table.values(name) for name in table.names}


def learnt(X, codes, min_size=MIN_SIZE):
    columns = columns_of(X)
    bins = learnt_bins(sample_rows(columns), min_size)
    return bins, column_sampler(bins, int(codes.max()) + 1, columns, codes)


def released(X, drawn, codes, seed=0):
    table = frame_table(X)
    bins = drawn.draw(codes, CheckedEntropy(seeded_entropy(seed)))
    return table.build(finished_columns(table, drawn.values, bins))


@given(st.integers(0, 1000), st.integers(1, 60))
def test_every_bin_has_as_many_rows_of_the_whole_table_as_asked_for(seed, min_size):
    X = table_of(120, seed)
    columns = columns_of(X)
    bins = learnt_bins(sample_rows(columns), min_size)
    for name, of_column in bins.items():
        places = of_column.codes(columns[name])
        sizes = np.bincount(places, minlength=len(of_column.values))
        assert len(sizes) == len(of_column.values)
        assert sizes.min() >= min_size, name
        assert len(sizes) <= MOST_BINS + 1


@given(st.lists(st.integers(0, 9), min_size=12, max_size=60), st.integers(1, 12))
def test_a_bin_ends_at_the_first_value_with_which_it_has_enough_rows(numbers, min_size):
    numbers = [*map(float, numbers)]
    [bins] = learnt_bins(sample_rows(columns_of(pd.DataFrame({"x": numbers}))), min_size).values()
    found, inside = [[]], 0
    for number in sorted({*numbers}):
        if inside >= max(min_size, len(numbers) / MOST_BINS):
            found, inside = [*found, []], 0
        found[-1].append(number)
        inside += numbers.count(number)
    if len(found) > 1 and inside < min_size:
        found[-2:] = [found[-2] + found[-1]]
    assert bins.edges.tolist() == [each[-1] for each in found[:-1]]


@pytest.mark.parametrize("n_gaps", [1, 9, 10])
def test_few_rows_that_lack_a_number_are_in_the_bin_of_the_median_and_many_by_themselves(n_gaps):
    numbers = np.append(np.arange(100.0), np.full(n_gaps, np.nan))
    columns = columns_of(pd.DataFrame({"x": numbers}))
    [bins] = learnt_bins(sample_rows(columns), MIN_SIZE).values()
    places = bins.codes(columns["x"])
    alone = n_gaps == MIN_SIZE
    assert (places[100:] == (places[99] + 1 if alone else places[49])).all()
    assert len(bins.values) == 10 + alone
    assert bins.values.data[:10].tolist() == [10.0 * k + 4.0 for k in range(10)]  # without gaps


def test_a_column_that_is_missing_as_a_whole_has_one_bin():
    table = table_of().assign(age=np.nan)
    codes = np.zeros(len(table), dtype=int)
    bins, drawn = learnt(table, codes)
    assert len(bins["age"].values) == 1
    assert released(table, drawn, codes)["age"].isna().all()


def test_the_median_of_a_bin_is_released_in_the_type_of_the_column():
    X = table_of()
    codes = np.arange(len(X)) % 3
    bins, drawn = learnt(X, codes)
    out = released(X, drawn, codes)
    assert out.dtypes.equals(X.dtypes)
    places = bins["pay"].codes(columns_of(X)["pay"])
    for place in range(len(bins["pay"].values)):
        inside = np.sort(X["pay"][places == place])
        assert drawn.values["pay"].data[place] == inside[(len(inside) - 1) // 2]
    assert set(out["pay"]) <= set(drawn.values["pay"].data)
    assert not out["rare gap"].isna().any()  # too few rows lack it
    assert out["visits"].isna().mean() == pytest.approx(0.1, abs=0.05)
    assert set(out["note"].dropna()) == {"x"}


def test_no_value_is_released_that_only_one_row_has_unless_it_is_a_median():
    X = pd.DataFrame({"x": np.random.default_rng(0).normal(size=2000)})
    _, drawn = learnt(X, np.zeros(2000, dtype=np.intp), 30)
    assert len(drawn.values["x"]) == MOST_BINS
    assert drawn.counts["x"].min() >= 30


def test_rare_categories_are_one_bin_with_the_least_frequent_of_the_others_if_need_be():
    X = pd.DataFrame({"job": ["a"] * 50 + ["b"] * 20 + ["c"] * 6 + ["d"] * 3})
    _, drawn = learnt(X, np.zeros(79, dtype=np.intp))
    assert drawn.values["job"].levels == ("a", "b")
    assert drawn.counts["job"].tolist() == [[50, 29]]
    _, drawn = learnt(pd.concat([X, X[70:]]), np.zeros(88, dtype=np.intp))
    assert drawn.values["job"].levels == ("a", "b", "c")
    assert drawn.counts["job"].tolist() == [[50, 20, 18]]


def test_counts_are_those_of_the_rows_of_each_cell():
    X = table_of()
    codes = np.random.default_rng(1).integers(4, size=len(X))
    bins, drawn = learnt(X, codes)
    columns = columns_of(X)
    for name, counts in drawn.counts.items():
        places = bins[name].codes(columns[name])
        expected = pd.crosstab(codes, places).reindex(columns=range(counts.shape[1]), fill_value=0)
        assert counts.tolist() == expected.to_numpy().tolist()


@given(st.permutations(range(60)))
@pytest.mark.slow
def test_the_order_of_rows_does_not_matter_to_bins_and_counts(order):
    X, codes = table_of(60), np.arange(60) % 2
    _, drawn = learnt(X, codes)
    _, other = learnt(X.iloc[order], codes[order])
    for name in drawn.values:
        assert other.counts[name].tolist() == drawn.counts[name].tolist()
        assert other.values[name].levels == drawn.values[name].levels
        assert np.array_equal(other.values[name].data, drawn.values[name].data, equal_nan=True)


@pytest.mark.slow
def test_bins_are_drawn_in_proportion_to_counts_and_columns_independently():
    X = table_of()
    codes = np.arange(len(X)) % 2
    _, drawn = learnt(X, codes)
    n = 200_000
    bins = drawn.draw(np.ones(n, dtype=np.intp), CheckedEntropy(seeded_entropy(3)))
    shares = {}
    for name, counts in drawn.counts.items():
        expected = counts[1] / counts[1].sum()
        seen = np.bincount(bins[name], minlength=len(expected))
        assert (seen[expected == 0] == 0).all()
        shares[name] = expected
        kept = expected > 0
        if kept.sum() > 1:
            assert chisquare(seen[kept], n * expected[kept]).pvalue > 1e-4
    both = pd.crosstab(bins["vip"], bins["visits"]).to_numpy()
    expected = n * np.outer(shares["vip"], shares["visits"])
    assert chisquare(both.ravel(), expected.ravel(), ddof=0).pvalue > 1e-4


def test_keyed_rows_are_drawn_alike():
    X = table_of()
    codes = np.arange(len(X)) % 2
    _, drawn = learnt(X, codes)
    ids = integer_ids(np.arange(len(X)) % 100)

    def draw(key, of=ids):
        source = KeyedBits(b"blake2b: an example, not a key" + key, "x").columns(of, [codes])[0]
        return drawn.draw(codes, source)

    first, again, other = draw(b"a"), draw(b"a"), draw(b"b")
    assert all((first[name] == again[name]).all() for name in first)
    assert not all((first[name] == other[name]).all() for name in first)
    assert (first["age"][:100] == first["age"][100:200]).all()
    apart = np.corrcoef(first["age"][:100], first["pay"][:100])[0, 1]
    assert abs(apart) < 0.4


@pytest.mark.slow
def test_drawn_rows_keep_the_spread_of_numbers():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(5000, 3)), columns=list("abc"))
    codes = (X["a"] > 0).to_numpy().astype(np.intp)
    _, drawn = learnt(X, codes, 30)
    out = released(X, drawn, codes)
    assert np.allclose(out.std() / X.std(), 1.0, atol=0.05)
    assert (out["a"] > 0).eq(codes == 1).mean() > 0.97


# --------------------------------------------------------------------------- against brute force


def chance_of_bins(law, channel, sizes, secret, b):
    """Return the chance of each bin of a row that is released as b, by counting all other rows.

    ``law[a, v, s]`` is the distribution of cell, bin and secret of a row. The row is one of the
    ``sizes[b]`` rows of cell b, or it is of another cell and all of them are other people.
    """
    given_secret = law[:, :, secret] / law[:, :, secret].sum()
    in_cell = law[b].sum(axis=1)
    p = in_cell / in_cell.sum()

    def drawn(own, others):
        chances = np.zeros(2)
        for count in range(others + 1):
            weight = comb(others, count) * p[0] ** count * p[1] ** (others - count)
            counts = np.array([count, others - count], dtype=float)
            if own is not None:
                counts[own] += 1
            chances += weight * counts / counts.sum()
        return chances

    total, reached = np.zeros(2), 0.0
    for a, v in itertools.product(range(law.shape[0]), range(2)):
        chance = given_secret[a, v] * channel[a, b]
        own = v if a == b else None
        total += chance * drawn(own, sizes[b] - (a == b))
        reached += chance
    return total / reached


@given(st.integers(0, 10_000))
def test_one_drawn_column_of_a_fitted_row_loses_no_more_than_is_said(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(8, 0.3)).reshape(2, 2, 2) + 1e-6
    law /= law.sum()
    channel = rng.dirichlet(np.ones(2), size=2)
    sizes = rng.integers(2, 12, size=2)
    # the shares of secrets are those of the law, and the sizes of cells are in its proportions
    scale = 1 << 40
    counts = np.rint(law.sum(axis=1) * scale)
    told = law.sum(axis=(1, 2)) * scale
    expected = 0.0
    for b in range(2):
        first, second = (chance_of_bins(law, channel, sizes, s, b) for s in range(2))
        expected = max(expected, np.abs(np.log(first) - np.log(second)).max())
    claimed = claim(counts, told, sizes, channel)
    assert expected <= claimed + 1e-6


def claim(counts, told, sizes, channel):
    """Return the formula of the module, whose cells have ``sizes`` rows but shares of a law."""
    shares, worst = counts / told[:, None], 0.0
    for b, s in itertools.product(range(2), range(2)):
        of_cell = channel[b, b] * counts[b, s] / (channel[:, b] @ counts[:, s])
        more = min(1.0 / shares[b, s] - 1.0, of_cell / shares[b, s])
        worst = max(worst, log((sizes[b] + more) / (sizes[b] - 1)))
        assert (sizes[b] + more) / (sizes[b] - 1) <= 1 + 1 / ((sizes[b] - 1) * shares[b, s]) + 1e-9
    return worst


@given(st.integers(0, 10_000))
def test_the_figure_of_a_fitted_row_is_that_of_its_formula(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 30, size=(2, 2))
    channel = rng.dirichlet(np.ones(2), size=2)
    sizes = counts.sum(axis=1)
    assert fitted_row_loss(counts, sizes, channel, 1) == pytest.approx(
        claim(counts, sizes, sizes, channel), abs=1e-12
    )


def chances_of_rows(law, sizes, channel, secret, b):
    """Return the chances of all rows of bins, by all tables of others, of who is released as b.

    ``law`` has the chances of cells, secrets and rows of two bins a column, coded as binary
    numbers; other rows are drawn from their cell.
    """
    n_kinds = law.shape[2]
    bits = np.array(list(itertools.product(range(2), repeat=n_kinds.bit_length() - 1)))
    of_cell = law[b].sum(axis=0) / law[b].sum()

    def drawn(own, others):
        chances = np.zeros(n_kinds)
        for table in itertools.combinations_with_replacement(range(n_kinds), others):
            kinds = np.bincount(np.array(table, dtype=int), minlength=n_kinds)
            ways = factorial(others) / np.prod([float(factorial(k)) for k in kinds])
            counts = kinds + (0 if own is None else np.eye(n_kinds, dtype=int)[own])
            ones = counts @ bits / counts.sum()
            chances += ways * np.prod(of_cell**kinds) * np.prod(np.abs(1 - bits - ones), axis=1)
        return chances

    masses = law[:, secret, :] * channel[:, [b]]
    total = masses[1 - b].sum() * drawn(None, sizes[b])
    for kind in range(n_kinds):
        total = total + masses[b, kind] * drawn(kind, sizes[b] - 1)
    return total / masses.sum()


@pytest.mark.slow
@pytest.mark.parametrize("n_columns", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_all_drawn_columns_of_a_fitted_row_lose_no_more_than_is_said(n_columns, seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(4 * 2**n_columns, 0.15)).reshape(2, 2, -1) + 1e-7
    law /= law.sum()
    channel = rng.dirichlet(np.ones(2), size=2) * 0.1 + 0.9 * np.eye(2)
    sizes = rng.integers(n_columns + 1, 6, size=2)
    counts = law.sum(axis=2) / law.sum(axis=(1, 2))[:, None]
    worst = 0.0
    for b in range(2):
        first, second = (chances_of_rows(law, sizes, channel, s, b) for s in range(2))
        assert first.sum() == pytest.approx(1.0)
        worst = max(worst, np.abs(np.log(first / second)).max())
    # every cell has its own number of rows, in which secrets are as frequent as in the law
    stays = law.sum(axis=2) * np.diag(channel)[:, None]
    of_cell = stays / np.einsum("as,ab->bs", law.sum(axis=2), channel)
    more = np.minimum(1.0 / counts - 1.0, of_cell / counts)
    rows = sizes[:, None]
    assert worst <= np.log((rows + n_columns * more) / (rows - n_columns)).max() + 1e-9


def test_the_figure_of_several_columns_is_that_of_its_formula():
    counts, channel = np.array([[20, 10], [10, 20]]), np.eye(2)
    for n_columns in (1, 4, 29):
        found = fitted_row_loss(counts, counts.sum(axis=1), channel, n_columns)
        assert found == pytest.approx(log((30 + 2 * n_columns) / (30 - n_columns)))
    assert fitted_row_loss(counts, counts.sum(axis=1), channel, 30) == np.inf


def test_a_secret_that_no_row_of_a_cell_has_leaves_the_figure_finite():
    counts, channel = np.array([[30, 0], [10, 20]]), np.array([[0.5, 0.5], [0.5, 0.5]])
    assert 0.0 < fitted_row_loss(counts, counts.sum(axis=1), channel, 1) < 0.2


def test_drawn_columns_come_back_from_json():
    X = table_of()
    codes = np.arange(len(X)) % 3
    _, drawn = learnt(X, codes)
    text = json.dumps(written_drawn(drawn), allow_nan=False)
    again = read_drawn(json.loads(text))
    assert json.dumps(written_drawn(again)) == text
    assert released(X, again, codes).equals(released(X, drawn, codes))
