"""The nearest cell of new rows, against all costs written out."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._channels import Costs, nearest, nearest_cells


class Dense:
    """A cost of somebody's own, which is no sum over columns."""

    def __init__(self, table):
        self.table = table

    def between(self, xs, ys):
        return self.table[np.ix_(xs, ys)]

    def along(self, xs, ys):
        return self.table[xs, ys]


def check(costs, n_rows, n_cells):
    """Compare with the first of the least costs; rows come first, then the cells."""
    rows, cells = np.arange(n_rows), np.arange(n_rows, n_rows + n_cells)
    place, cost = nearest_cells(costs, rows, cells)
    every = costs.between(rows, cells)
    assert np.array_equal(place, every.argmin(axis=1))
    assert np.array_equal(cost, every.min(axis=1))


@pytest.fixture(autouse=True, scope="module")
def few_costs_are_many():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "_FEW", 0)
        yield


@pytest.fixture(params=["trees", "levels", "both"])
def ways(request, monkeypatch):
    """Ask trees alone, look at levels alone, in parts, or decide by the size of a group."""
    monkeypatch.setattr(nearest, "_LARGE", {"trees": 1, "levels": 10**9, "both": 7}[request.param])
    monkeypatch.setattr(nearest, "_CHUNK", 100)


def random_costs(rng, n, n_ordered, n_unordered, levels=3):
    ordered = rng.integers(0, 6, (n, n_ordered)).astype(float)
    codes = rng.integers(-1, levels, (n, n_unordered)).astype(float)
    unordered = np.array([False] * n_ordered + [True] * n_unordered)
    mixed = rng.permutation(unordered.size)
    units = rng.choice([0.5, 1.0, 3.0, 7.0], unordered.size)
    return Costs(np.hstack([ordered, codes])[:, mixed], unordered[mixed], units)


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("columns", [(1, 0), (0, 1), (2, 0), (0, 3), (2, 2), (3, 4)])
def test_the_first_of_the_nearest_cells_is_found_among_many_ties(columns):
    for seed in range(4):
        rng = np.random.default_rng([seed, *columns])
        n_rows, n_cells = int(rng.integers(1, 60)), int(rng.integers(1, 60))
        check(random_costs(rng, n_rows + n_cells, *columns), n_rows, n_cells)


numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.1, 0.2, 0.3, 1e-300, 1e15])


@given(st.lists(st.tuples(numbers, st.integers(0, 2), numbers), min_size=2, max_size=12))
def test_numbers_of_any_size_are_compared_as_costs_are(values):
    values = np.array(values)
    costs = Costs(values, np.array([False, True, False]), np.array([0.3, 1.7, 1e3]))
    check(costs, len(values) // 2, len(values) - len(values) // 2)


@pytest.mark.usefixtures("ways")
def test_values_that_lie_far_from_0_are_told_apart():
    rng = np.random.default_rng(3)
    values = 1e15 + rng.integers(0, 9, (40, 2)).astype(float)
    check(Costs(values, np.zeros(2, dtype=bool), np.array([0.3, 0.7])), 20, 20)


def test_a_category_that_no_cell_has_is_as_far_from_all():
    values = np.array([[1.0, 9.0], [1.0, 0.0], [2.0, 1.0]])
    costs = Costs(values, np.array([False, True]), np.array([1.0, 2.0]))
    place, cost = nearest_cells(costs, np.array([0]), np.array([1, 2]))
    assert (place.tolist(), cost.tolist()) == ([0], [0.5])


def test_a_cost_of_ones_own_is_looked_up_in_parts(monkeypatch):
    monkeypatch.setattr(nearest, "_CHUNK", 30)
    rng = np.random.default_rng(0)
    table = rng.integers(0, 9, (50, 50)).astype(float)
    check(Dense(table), 40, 10)


def test_no_rows_have_no_nearest_cell_and_a_cell_is_its_own():
    costs = random_costs(np.random.default_rng(1), 9, 2, 1)
    place, cost = nearest_cells(costs, np.array([], dtype=int), np.arange(9))
    assert place.size == cost.size == 0
    place, cost = nearest_cells(costs, np.arange(9), np.arange(9))
    first = {}
    for k, row in enumerate(costs.values.tolist()):
        first.setdefault(tuple(row), k)
    assert place.tolist() == [first[tuple(row)] for row in costs.values.tolist()]
    assert not cost.any()


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(2)
    costs = random_costs(rng, 300, 2, 2)
    cells, rows = np.arange(100), np.arange(100, 300)
    place, _ = nearest_cells(costs, rows, cells)
    turned, _ = nearest_cells(costs, rows[::-1], cells)
    assert np.array_equal(place, turned[::-1])
    assert max(Counter(place.tolist()).values()) < 100


def test_few_costs_are_looked_at_one_by_one_with_the_same_result(monkeypatch):
    costs = random_costs(np.random.default_rng(4), 60, 2, 2)
    found = nearest_cells(costs, np.arange(30), np.arange(30, 60))
    monkeypatch.setattr(nearest, "_FEW", 900)
    monkeypatch.delattr(nearest, "_near")
    again = nearest_cells(costs, np.arange(30), np.arange(30, 60))
    assert all(map(np.array_equal, found, again))
