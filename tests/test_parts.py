"""Bounds of groups of columns, put together from those of their parts, against plain loops."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_puffer import PufferfishWarning
from sklearn_puffer._codes import Column
from sklearn_puffer._losses import MOST_VALUES
from sklearn_puffer._noiser.problem import (
    OrPure,
    WorstPart,
    cells_of,
    exact_bins,
    outwards,
    too_wide,
)
from sklearn_puffer._strategies import Impossible
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.bounds import tightest
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair


class Fixed:
    """A bound whose losses are a table over the factor, and that is asked pair by pair or not."""

    def __init__(self, table, guess=1.0, one_by_one=False):
        self.table, self.guess, self.one_by_one = table, guess, one_by_one
        self.distances, self.tolerance = table[:, 0], guess / 100.0

    def losses(self, factor):
        return self.table / factor

    def of_pair(self, k, factor, budget):
        assert budget is None or budget == 0.5
        return self.table[k] / factor


@pytest.mark.parametrize("n_rows", [1, 4])
@pytest.mark.parametrize("seed", range(5))
def test_of_each_pair_the_worst_part_counts_as_often_as_there_are_rows(seed, n_rows):
    rng = np.random.default_rng(seed)
    owners = [rng.permutation(6)[: rng.integers(1, 6)] for _ in range(3)]
    bounds = [
        Fixed(rng.exponential(size=(len(of), 2)), 1.0 + k, one_by_one=k == 1)
        for k, of in enumerate(owners)
    ]
    worst = WorstPart(bounds, owners, 6, n_rows)
    losses, distances = np.zeros((6, 2)), np.zeros(6)
    for bound, of in zip(bounds, owners, strict=True):
        for k, loss in zip(of, bound.table, strict=True):
            losses[k] = np.maximum(losses[k], n_rows * loss / 2.0)
            distances[k] = max(distances[k], loss[0])
    assert_allclose(worst.losses(2.0), losses)
    for factor in (1.0, 2.0):
        pairs = [worst.of_pair(k, factor, 0.5 * n_rows) for k in range(6)]
        assert_allclose(pairs, losses * 2.0 / factor)
    assert_allclose(worst.of_pair(2, 2.0, None), losses[2])
    assert_allclose(worst.distances, distances)
    assert worst.guess == 3.0 * n_rows
    assert worst.tolerance == 0.03
    assert worst.one_by_one
    assert not WorstPart(bounds[:1], owners[:1], 6).one_by_one
    assert worst.reason == ""
    assert WorstPart([*bounds, Impossible("no way", 1)], owners, 6).reason == "no way"


def test_groups_that_are_pure_together_need_no_delta():
    pure = [WorstPart([Fixed(np.array([[0.3, 0.6]]), 2.0)], [np.array([0])], 1) for _ in range(2)]
    shared = [WorstPart([Fixed(np.array([[0.1, 0.2]]), 3.0)], [np.array([0])], 1) for _ in range(2)]
    bound = OrPure(shared, pure, 1.0)
    assert_allclose(bound.losses(1.0), [[0.0, 0.4]])
    assert_allclose(bound.losses(1.19), [[0.0, 0.4 / 1.19]])
    assert_allclose(bound.losses(1.21), [[0.0, 0.0]])
    assert_allclose(bound.losses(1.2), [[0.0, 0.4 / 1.2]])  # room for sums of the certificate
    assert bound.guess == 3.0


def test_sums_are_rounded_outwards_by_little():
    lower, upper = np.array([[0.5, 1e-3]]), np.array([[0.7, 0.0]])
    for notion, spare in ((Pufferfish(1.0), 3 * 2.0**-50), (Pufferfish(1.0, 0.1), 0.0)):
        low, high = outwards(lower, upper, 2, notion, 3)
        assert (low < lower).all()
        assert high[0, 0] > 0.7
        assert high[0, 1] == 0.0
        assert_allclose(low, lower - spare, rtol=1e-14)
        assert_allclose(high[0, 0], 0.7 + spare, rtol=1e-14)


def column(size, kind, merged=False):
    atoms = np.arange(float(size))
    return Column("x", kind, atoms, np.ones(size, dtype=bool), merged=merged)


@pytest.mark.parametrize("seed", range(8))
def test_the_number_of_bins_that_is_named_is_the_largest_that_is_exact(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["float", "integer", "category", "boolean"], 5)
    sizes = [2 if kind == "boolean" else int(2 ** rng.uniform(1, 12)) for kind in kinds]
    merged = [bool(rng.integers(0, 2)) and kind == "float" for kind in kinds]
    columns = [column(*of) for of in zip(sizes, kinds, merged, strict=True)]

    def cells(n_bins):
        return math.prod(
            n_bins if bins else min(n_bins, size) if kind in ("float", "integer") else size
            for size, kind, bins in zip(sizes, kinds, merged, strict=True)
        )

    told = exact_bins(columns, Laplace(), Pufferfish(1.0))
    assert cells_of(columns) == math.prod(sizes)
    assert too_wide(columns) == (math.prod(sizes) > MAX_CELLS)
    if told:
        assert cells(told) <= MAX_CELLS
        assert told == MAX_CELLS - 1 or cells(told + 1) > MAX_CELLS
    else:
        assert cells(2) > MAX_CELLS


def test_no_number_of_bins_is_named_where_three_columns_are_never_exact():
    columns = [column(9, "float")] * 3
    assert exact_bins(columns, Cauchy(), Pufferfish(1.0)) == 0
    assert exact_bins(columns, Gaussian(), RenyiPufferfish(1.0, 2.0)) == 0
    assert not too_wide(columns[:1])


def test_the_number_of_bins_that_is_named_for_two_columns_is_exact_under_any_guarantee():
    columns, approximate = [column(1100, "float"), column(300, "integer")], Pufferfish(1.0, 1e-3)
    assert exact_bins(columns, Gaussian(), approximate) == MAX_CELLS // 300
    assert exact_bins(columns, Cauchy(), Pufferfish(1.0)) == MAX_CELLS // 300
    assert exact_bins([columns[0], column(4, "float")], Gaussian(), approximate) == MOST_VALUES
    assert exact_bins([columns[0], column(300, "category")], Gaussian(), approximate) == 0


def test_two_columns_of_too_many_cells_have_a_bound_under_cauchy_noise_instead_of_an_error():
    rows = np.column_stack([np.arange(400.0), np.arange(400.0)])
    pair = PriorPair(Discrete(rows, [1 / 400] * 400), Discrete(rows[:300], [1 / 300] * 300))
    with pytest.warns(PufferfishWarning, match="160,000 cells.*use fewer atoms"):
        scale = calibrate([pair], Pufferfish(1.0), noise="cauchy").scale
    assert scale == calibrate([pair], Pufferfish(1.0), noise="cauchy", strategy=tightest).scale
