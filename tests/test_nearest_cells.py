"""The nearest cell of new rows, against all costs written out in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._noiser import CellDistance, channel_release


class Dense:
    """A cost of somebody's own, which is no sum over columns."""

    def between(self, x, y):
        return (x[:, None, 0] * 3 + y[None, :, 0] * 5) % 7


def exact(distance, row, cell):
    """The cost of a move as a fraction."""
    total = Fraction(0)
    for k, (x, y) in enumerate(zip(row.tolist(), cell.tolist(), strict=True)):
        if x == x and x != y:  # NaN: the other columns decide
            change = 1 if distance.unordered[k] else abs(Fraction(x) - Fraction(y))
            total += change / Fraction(float(distance.units[k]))
    return total


def check(distance, rows):
    """Nothing is nearer than what was found, nor as near and earlier."""
    found, moves = distance.nearest(rows)
    for row, place, move in zip(rows, found.tolist(), moves.tolist(), strict=True):
        costs = [exact(distance, row, cell) for cell in distance.values]
        assert costs[place] - min(costs) <= Fraction(1e-14) * max(costs[0], min(costs) + 1)
        assert move == pytest.approx(float(costs[place]), rel=1e-14)
        if all(cost.denominator == 1 for cost in costs):
            assert place == costs.index(min(costs))


def random_distance(rng, n, n_ordered, n_unordered, *, levels=3, units=(0.5, 1.0)):
    """Units are powers of two: costs are whole or halves, and equal ones are equal floats."""
    unordered = rng.permutation(np.array([False] * n_ordered + [True] * n_unordered))
    values = np.where(unordered, rng.integers(0, levels, (n, unordered.size)), 0.0)
    values += np.where(unordered, 0.0, rng.integers(0, 6, values.shape))
    return CellDistance(values, unordered, rng.choice(units, unordered.size))


def random_rows(rng, distance, n):
    """Rows like the cells, with categories and numbers that these do not have, and none at all."""
    rows = distance.values[rng.integers(0, len(distance.values), n)]
    rows = rows + rng.integers(-1, 3, rows.shape)
    return np.where(distance.unordered & (rng.random(rows.shape) < 0.2), np.nan, rows)


@pytest.mark.parametrize("columns", [(1, 0), (0, 1), (2, 0), (0, 3), (2, 2), (3, 4)])
@pytest.mark.parametrize("chunk", [1 << 16, 50])
def test_the_first_of_the_nearest_cells_is_found_among_many_ties(columns, chunk, monkeypatch):
    monkeypatch.setattr(channel_release, "_CHUNK", chunk)
    for seed in range(2):
        rng = np.random.default_rng([seed, *columns])
        distance = random_distance(rng, int(rng.integers(1, 60)), *columns)
        check(distance, random_rows(rng, distance, int(rng.integers(1, 60))))


numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.1, 0.2, 0.3, 1e-300, 1e15, 1e22, -1e300])


@given(st.lists(st.tuples(numbers, st.integers(0, 2), numbers), min_size=2, max_size=12))
def test_numbers_of_any_size_are_compared_as_costs_are(values):
    values = np.array(values)
    cells, rows = np.array_split(values, 2)
    units = np.array([0.3, 1.7, 1e3])
    check(CellDistance(cells, np.array([False, True, False]), units), rows)


def test_values_that_lie_far_from_0_are_told_apart():
    rng = np.random.default_rng(3)
    values = 1e15 + rng.integers(0, 9, (40, 2)).astype(float)
    distance = CellDistance(values[:20], np.zeros(2, dtype=bool), np.array([0.5, 2.0]))
    check(distance, values[20:])


@pytest.mark.parametrize("far", [1e22, -1e22, 1.7e308])
def test_a_number_that_lies_far_out_leaves_the_other_columns_and_rows_their_say(far):
    """The distances to all cells were equal floats, and every row was compared up to their size."""
    cells = np.array([[0.0, 0.0], [1.0, 9.0], [0.0, 9.0], [1.0, 1.0]])
    distance = CellDistance(cells, np.zeros(2, dtype=bool), np.array([0.1, 10.0]))
    rows = np.array([[far, 8.0], [0.2, 8.0], [far, 0.4]])
    found, moves = distance.nearest(rows)
    assert found.tolist() == ([1, 2, 3] if far > 0 else [2, 2, 0])
    assert moves[1] == pytest.approx(2.1)
    assert moves[0] > 1e22


def test_the_work_for_a_row_does_not_depend_on_the_others(monkeypatch):
    """So many costs are computed as there are rows times cells, whatever lies in them."""
    computed = []
    costs = CellDistance._costs

    def counted(*given):
        found = costs(*given)
        computed.append(found.size)
        return found

    monkeypatch.setattr(CellDistance, "_costs", counted)
    rng = np.random.default_rng(0)
    distance = random_distance(rng, 300, 2, 2)
    rows = random_rows(rng, distance, 500)
    rows[7] = 1e22
    distance.nearest(rows)
    assert sum(computed) == 300 * 500
    assert max(computed) <= channel_release._CHUNK


def test_a_category_that_no_cell_has_leaves_it_to_the_other_columns():
    cells = np.array([[1.0, 0.0], [2.0, 1.0]])
    distance = CellDistance(cells, np.array([False, True]), np.array([1.0, 2.0]))
    found, moves = distance.nearest(np.array([[1.0, 9.0], [1.9, np.nan], [5.0, np.nan]]))
    assert found.tolist() == [0, 1, 1]
    assert moves.tolist() == pytest.approx([0.5, 0.1, 3.0])


def test_a_cost_of_ones_own_decides_where_all_columns_are_known(monkeypatch):
    monkeypatch.setattr(channel_release, "_CHUNK", 30)
    rng = np.random.default_rng(0)
    cells, rows = (rng.integers(0, 9, (n, 1)).astype(float) for n in (50, 40))
    found, moves = CellDistance(cells, np.array([False]), np.ones(1), Dense()).nearest(rows)
    for row, place, move in zip(rows[:, 0], found, moves, strict=True):
        costs = ((row * 3 + cells[:, 0] * 5) % 7).tolist()
        assert (place, move) == (costs.index(min(costs)), min(costs))


def test_no_rows_have_no_nearest_cell_and_a_cell_is_its_own():
    distance = random_distance(np.random.default_rng(1), 9, 2, 1)
    place, cost = distance.nearest(np.zeros((0, 3)))
    assert place.size == cost.size == 0
    place, cost = distance.nearest(distance.values)
    first = {}
    for k, row in enumerate(distance.values.tolist()):
        first.setdefault(tuple(row), k)
    assert place.tolist() == [first[tuple(row)] for row in distance.values.tolist()]
    assert not cost.any()


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(2)
    distance = random_distance(rng, 100, 2, 2)
    rows = random_rows(rng, distance, 200)
    place, cost = distance.nearest(rows)
    turned, dear = distance.nearest(rows[::-1])
    assert np.array_equal(place, turned[::-1])
    assert np.array_equal(cost, dear[::-1])
