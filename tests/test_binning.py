"""Bins of numeric columns, against pandas' quantiles: what is released, and what is said of it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._codes import standard_deviation
from sklearn_puffer._codes.selection import quantile_bins

SECRET = np.resize([0, 1], 400)
FEW = {"0 and 1": [0, 1, 1, 1], "three": [2, 9, 9, 9, 9, 5], "fractions": [0.5, 8.0, 8.0]}


def frame(column):
    return pd.DataFrame({"s": SECRET, "x": column})


def harmless(**options):
    """A noiser that needs no noise for columns that do not depend on the secret."""
    return PufferfishNoiser(50.0, sensitive="s", output="noisy", **options)


def quantile_medians(column, n_bins):
    """The median of each value's bin, as pandas cuts and sorts it; the lower one of integers."""
    codes = pd.qcut(column, n_bins, labels=False, duplicates="drop")
    how = "lower" if column.dtype.kind in "iu" else "midpoint"
    return column.groupby(codes).transform(lambda own: own.quantile(0.5, interpolation=how))


@settings(max_examples=60)
@given(
    values=st.lists(st.integers(-30, 30), min_size=2, max_size=80),
    n_bins=st.integers(2, 7),
    whole=st.booleans(),
)
def test_bins_are_those_of_pandas_unless_there_is_a_bin_for_every_value(values, n_bins, whole):
    # multiples of n_bins + 1 rows less one: every quantile is a value, about which all agree
    column = pd.Series(np.repeat(values, n_bins)[: len(values) * n_bins - n_bins + 1])
    column = column if whole else column / 4
    atoms, counts = np.unique(column, return_counts=True)
    bins = quantile_bins(atoms.astype(float), counts, n_bins, whole=whole)
    released = bins.values[np.searchsorted(bins.edges, column)]
    own = len(atoms) <= n_bins
    assert_array_equal(released, column if own else quantile_medians(column, n_bins))
    assert bins.merged == (not own)


@settings(max_examples=60)
@given(
    n=st.integers(8, 90),
    n_bins=st.integers(2, 7),
    whole=st.booleans(),
    every=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_values_that_all_occur_as_often_have_bins_and_a_spread_as_any_others(
    n, n_bins, whole, every, seed
):
    n += (1 - n) % n_bins  # every quantile of the distinct values is a value
    atoms = np.sort(np.random.default_rng(seed).choice(1000, n, replace=False))
    atoms = atoms.astype(float) if whole else atoms / 8
    counts = np.full(n, every)
    column = pd.Series(np.repeat(atoms, every))
    assert standard_deviation(atoms, counts) == pytest.approx(column.std(ddof=0), rel=1e-12)
    bins = quantile_bins(atoms, counts, n_bins, whole=whole)
    ranks = [(every * n - 1) * b // n_bins for b in range(1, n_bins)]  # of all rows, in order
    assert_array_equal(bins.edges, column.to_numpy()[ranks])
    of_bins = column.groupby(np.searchsorted(bins.edges, column))
    how = "lower" if whole else "midpoint"
    assert_array_equal(bins.values, of_bins.quantile(0.5, interpolation=how))


def about_columns(told):
    """Return the warnings but for the one on the order of rows, which stand in runs here."""
    return [text for text in (str(w.message) for w in told) if "order of the rows" not in text]


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("n_bins", [3, 5, {"x": 3}])
def test_a_column_of_no_more_values_than_bins_is_released_as_it_is(kind, n_bins):
    column = np.resize(FEW[kind], 200).repeat(2)
    with pytest.warns(UserWarning, match="need no noise|falls into one bin") as told:
        fitted = harmless(n_bins=n_bins).fit(frame(column))
    assert_array_equal(fitted.transform(frame(column))["x"], column)
    [warning] = about_columns(told)
    assert "'x' need no noise" in warning
    assert "released unchanged" in warning
    assert not any("representative" in s or "median" in s for s in fitted.certificate_.assumptions)


def test_zeros_and_ones_in_two_bins_keep_their_dependence_on_the_secret():
    flags = np.where(SECRET == 1, np.resize([0, 1, 1, 1, 1], 400), 1)
    plain = PufferfishNoiser(0.5, sensitive="s").fit(frame(flags))
    binned = PufferfishNoiser(0.5, sensitive="s", n_bins=2).fit(frame(flags))
    assert binned.theta_["x"] == plain.theta_["x"] > 0.0


def test_a_value_never_seen_falls_into_the_bin_of_a_value_that_was():
    fitted = PufferfishNoiser(50.0, sensitive="s", n_bins=3, output="noisy")
    with pytest.warns(UserWarning, match="released unchanged"):
        fitted.fit(frame(np.resize([1, 5, 5], 200).repeat(2)))
    later = fitted.transform(frame(np.resize([0, 1, 2, 5, 9], 400)))["x"]
    assert later[:5].tolist() == [1.0, 1.0, 5.0, 5.0, 5.0]


def test_bins_without_noise_are_not_called_unchanged():
    column = np.repeat(np.arange(8), 50)
    with pytest.warns(UserWarning, match="need no noise|falls into one bin") as told:
        fitted = harmless(n_bins=4).fit(frame(column))
    [warning] = about_columns(told)
    assert "'x' need no noise" in warning
    assert "released without it (bins as their median)" in warning
    assert "unchanged" not in warning
    assert warning in fitted.certificate_.assumptions
    assert fitted.transform(frame(column))["x"].nunique() == 4


def test_bins_that_collapse_into_one_are_named_with_the_constant():
    column = np.resize([1, 2, 3] + [7] * 27, 200).repeat(2)
    with pytest.warns(UserWarning, match="need no noise|falls into one bin") as told:
        fitted = harmless(n_bins=3).fit(frame(column))
    sentence = (
        r"column 'x' falls into one bin instead of n_bins=3 and is released as the constant 7"
    )
    assert any(sentence in str(w.message) for w in told)
    assert set(fitted.transform(frame(column))["x"]) == {7.0}
