"""The theorem of the swap, by enumeration of all owners, secrets, flows, leavers and matches."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swap_tree import ByCells, Table, gaps, joint_distribution, outcomes

from sklearn_puffer._losses import SwapDistributions, swap_losses
from sklearn_puffer._noise import Choices
from sklearn_puffer._swaps import (
    ROW,
    SwapProblem,
    exchange,
    leavers_and_places,
    matched,
    mean_flows,
    whole_rows,
)
from sklearn_puffer.notions import Pufferfish

PAIR = np.array([[0, 1]])

# rows, the cell of each, how many of a cell have which secret; equal numbers are equal rows
FOUR = Table((0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 1}, [(2, 0), (1, 1)])
ALIKE = Table((0, 0, 1, 2), {0: 0, 1: 1, 2: 1}, [(1, 1), (0, 2)])
FIVE = Table((0, 0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 1}, [(2, 1), (0, 2)])
THREE_CELLS = Table((0, 0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 2}, [(2, 1), (0, 1), (1, 0)])
# all rows are as far from all others: nothing but ties
TIED = Table((0, 1, 2, 3, 4), {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}, [(3, 0), (0, 2)], np.zeros((5, 5)))
IN_TWOS = Table((0, 0, 1, 2, 3, 3), {0: 0, 1: 1, 2: 1, 3: 2}, [(2, 0), (1, 1), (1, 1)])
SIX = Table((0, 0, 1, 2, 3, 3), {0: 0, 1: 0, 2: 1, 3: 1}, [(2, 1), (1, 2)])


def distributions_of(table):
    return SwapDistributions(np.array(table.counts, dtype=np.int64).T, PAIR)


def solved(table, epsilon=0.3, delta=0.0):
    """Return the flows of the package between the cells of a table."""
    at = np.arange(len(table.sizes), dtype=float)
    costs, weights = abs(at[:, None] - at), np.ones(len(at))
    notion = Pufferfish(epsilon, delta)
    return mean_flows(SwapProblem(table.sizes, [distributions_of(table)], costs, weights, notion))


def quarters(*rows):
    return np.array(rows, dtype=np.int64) * (ROW // 4)


def exchanged(cells, flows, costs, draws):
    """Return whose row each owner gets, by the package's parts as a release puts them together."""
    gets = np.arange(len(cells))
    for own, places in leavers_and_places(cells, flows, draws, shuffle=costs is None):
        gets[own] = places if costs is None else matched(own, places, costs)
    return gets


def swapped(table, flows, *, whole=False, match=True):
    """Return the package's own swap, as a function of who owns what and of the draws."""

    def released(owned, draws):
        cells = table.cells(owned)
        choices = draws if whole else ByCells(draws, cells)
        rows = whole_rows(flows, choices)
        costs = table.costs(owned) if match else None
        return tuple(owned[k] for k in exchanged(cells, rows, costs, choices))

    return released


def check(table, flows, **options):
    """Hold all posteriors against the guaranteed ones, and the worst against the reported loss."""
    distribution = joint_distribution(table, swapped(table, flows, **options))
    assert sum(own[0] for own in distribution.values()) == 1
    apart, loss = gaps(table, flows, distribution)
    assert apart == 0
    told = swap_losses(flows, table.sizes, distributions_of(table), Pufferfish(1.0))[0]
    assert told[:, 0].max() <= loss <= told[:, 1].max()
    if math.isfinite(loss):
        assert told[:, 1].max() - loss < 1e-12
    return loss


# --------------------------------------------------------------------------------- the theorem


def test_four_rows_tell_what_the_flows_say_and_no_more():
    assert check(FOUR, quarters([6, 2], [2, 6]), whole=True) == pytest.approx(math.log(7 / 3))


@pytest.mark.slow
def test_flows_that_were_solved_attain_the_budget_and_never_pass_it():
    for table in (FOUR, FIVE, THREE_CELLS):
        loss = check(table, solved(table))
        assert 0.3 - 1e-5 < loss <= 0.3


def test_equal_rows_whose_places_nobody_can_tell_apart_change_nothing():
    check(ALIKE, quarters([5, 3], [3, 5]), whole=True)


def test_three_cells_with_flows_in_a_circle_tell_what_the_flows_say():
    check(THREE_CELLS, quarters([9, 3, 0], [0, 1, 3], [3, 0, 1]))


@pytest.mark.slow
def test_nothing_but_ties_changes_nothing():
    check(TIED, quarters([10, 2], [2, 6]))


@pytest.mark.slow
def test_six_rows_with_copies_tell_what_the_flows_say():
    check(IN_TWOS, quarters([7, 1, 0], [1, 6, 1], [0, 1, 7]))


@pytest.mark.parametrize("most", [1, 2])
def test_matching_in_random_parts_changes_nothing(monkeypatch, most):
    monkeypatch.setattr(exchange, "MOST_MATCHED", most)
    monkeypatch.setattr(exchange, "PART", most)
    check(FIVE, quarters([9, 3], [3, 5]))


def test_shuffled_cells_tell_what_the_flows_say():
    check(ALIKE, quarters([5, 3], [3, 5]), match=False)


def test_a_swap_that_moves_nobody_tells_all_that_cells_tell():
    distribution = joint_distribution(FOUR, swapped(FOUR, quarters([8, 0], [0, 8])))
    assert gaps(FOUR, quarters([8, 0], [0, 8]), distribution) == (
        0,
        math.inf,
    )  # a cell of one secret
    told = swap_losses(
        quarters([8, 0], [0, 8]), FOUR.sizes, distributions_of(FOUR), Pufferfish(1.0)
    )
    assert told.max() == math.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "flows"),
    [
        (FIVE, quarters([9, 3], [3, 5])),
        (SIX, quarters([10, 2], [2, 10])),
    ],
)
def test_larger_tables_tell_what_the_flows_say(table, flows):
    check(table, flows)


@pytest.mark.slow
def test_five_rows_tell_what_the_flows_say_whatever_the_order_of_the_table():
    check(FIVE, quarters([11, 1], [1, 7]), whole=True)
    check(TIED, quarters([11, 1], [1, 7]), whole=True)
    check(THREE_CELLS, quarters([9, 3, 0], [0, 1, 3], [3, 0, 1]), match=False)


def test_delta_is_what_the_whole_released_table_exceeds_the_budget_by():
    table, epsilon = FIVE, 0.2
    flows = solved(table, epsilon, delta=0.05)
    distribution = joint_distribution(table, swapped(table, flows))
    second = table.prior
    for person in range(5):  # over all sets of whole tables, not of single rows alone
        distributions = [
            ((own[0] - own[1 + person]) / (1 - second), own[1 + person] / second)
            for own in distribution.values()
        ]
        factor = math.exp(epsilon)
        found = [
            sum(max(float(a[i]) - factor * float(a[1 - i]), 0) for a in distributions)
            for i in (0, 1)
        ]
        told = swap_losses(flows, table.sizes, distributions_of(table), Pufferfish(epsilon, 0.05))[
            0
        ]
        assert np.all(told[:, 0] <= np.array(found) + 1e-12)
        assert np.all(found <= told[:, 1] + 1e-15)
        np.testing.assert_allclose(found, told[:, 1], atol=1e-12)
        assert 0.0499 < max(found) <= 0.05


# ------------------------------------------------------------------------------- whole flows


@st.composite
def flows_with_margins(draw, most=4):
    """Return flows in parts of a row that have whole rows as margins, a sum of few cycles."""
    n = draw(st.integers(1, most))
    flows = np.diag(np.array(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))) * ROW)
    for _ in range(draw(st.integers(0, 3))):
        order = draw(st.permutations(range(n)))[: draw(st.integers(1, n))]
        free = min(int(flows[a, a]) for a in order)
        amount = draw(st.integers(0, free))
        for a, b in zip(order, [*order[1:], order[0]], strict=True):
            flows[a, a] -= amount
            flows[a, b] += amount
    return flows


@given(flows_with_margins())
@settings(max_examples=60)
def test_whole_flows_have_the_mean_that_was_proven_to_the_last_digit(flows):
    mean = np.full(flows.shape, Fraction(0), dtype=object)
    total = Fraction(0)
    for chance, rows in outcomes(lambda draws: whole_rows(flows, draws)):
        assert (rows * ROW).sum(axis=0).tolist() == flows.sum(axis=0).tolist()
        assert (rows * ROW).sum(axis=1).tolist() == flows.sum(axis=1).tolist()
        assert (rows >= flows // ROW).all()
        assert (rows <= -(-flows // ROW)).all()
        mean += chance * rows.astype(object)
        total += chance
    assert total == 1
    assert (mean * ROW == flows.astype(object)).all()


def test_whole_flows_of_many_cells_keep_margins():
    rng = np.random.default_rng(0)
    n, parts = 60, 7
    flows = np.zeros((n, n), dtype=np.int64)
    for part in rng.multinomial(ROW, np.ones(parts) / parts):
        flows[np.arange(n), rng.permutation(n)] += part
    rows = whole_rows(flows, Seeded(1))
    assert (rows.sum(axis=0) == 1).all()
    assert (rows.sum(axis=1) == 1).all()
    assert (rows <= -(-flows // ROW)).all()


class Seeded:
    """Draws of NumPy's."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def below(self, end):
        return int(self._rng.integers(end))

    def shuffled(self, count):
        return self._rng.permutation(count)


@given(st.integers(0, 2**32), st.integers(0, 1))
def test_of_the_first_shuffle_only_the_orders_within_cells_count(seed, match):
    """What `ByCells` takes for granted."""
    rng = np.random.default_rng(seed)
    cells = rng.permutation([0, 0, 0, 1, 1, 2, 2, 2, 2])
    flows = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 2]])
    costs = (lambda a, b: abs(a[:, None] % 4 - b % 4).astype(float)) if match else None
    order = rng.permutation(len(cells))

    class Given(Seeded):
        def __init__(self, first):
            super().__init__(seed)
            self._first = first

        def shuffled(self, count):
            first, self._first = self._first, None
            return super().shuffled(count) if first is None else first

    by_cells = order[np.argsort(cells[order], kind="stable")]
    found = [exchanged(cells, flows, costs, Given(each)) for each in (order, by_cells)]
    assert found[0].tolist() == found[1].tolist()


@given(st.integers(0, 2**32), st.booleans())
def test_as_many_rows_go_from_cell_to_cell_as_the_flows_say(seed, match):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    flows = sum(np.eye(n, dtype=np.int64)[rng.permutation(n)] for _ in range(6))
    cells = rng.permutation(np.repeat(np.arange(n), 6))
    costs = (lambda a, b: abs(a[:, None] - b).astype(float)) if match else None
    gets = exchanged(cells, flows, costs, Seeded(seed))
    assert sorted(gets) == list(range(len(cells)))
    moved = np.zeros_like(flows)
    np.add.at(moved, (cells, cells[gets]), 1)
    assert moved.tolist() == flows.tolist()
    if match:  # whoever stays in his cell keeps his own row
        assert ((cells != cells[gets]) | (gets == np.arange(len(cells)))).all()


# ------------------------------------------------------------------------------- choices


class Words:
    """A source of the bits that are given, and then of others."""

    def __init__(self, *words):
        self._words = list(words)
        self.asked = 0

    def words(self, count):
        # one word alone is no sample to be checked, so more may be asked for
        found = (self._words.pop(0) if self._words else [])[:count]
        self.asked += 1
        return np.array([*found, *range(100, 100 + count - len(found))], dtype=np.uint64)


@pytest.mark.parametrize(("end", "bits"), [(1, 1), (2, 1), (3, 2), (5, 3), (8, 3), (13, 4)])
def test_numbers_below_an_end_come_from_as_many_words_each(end, bits):
    found = []
    for top in range(2**bits):
        for rest in (0, 2 ** (64 - bits) - 1):
            source = Words([(top << (64 - bits)) + rest], [0])
            number = Choices(source).below(end)
            found += [number] if source.asked == 1 else []  # a word above the end is drawn anew
    assert sorted(found) == sorted([*range(end)] * 2)


def test_a_number_above_its_end_is_drawn_anew():
    end = 2**33 - 5
    assert Choices(Words([2**64 - 1], [(end - 1) << 31])).below(end) == end - 1


def test_an_order_is_drawn_anew_where_words_are_alike():
    assert Choices(Words([5, 9, 5], [3, 2, 1])).shuffled(3).tolist() == [2, 1, 0]
    assert Choices(Words([5, 7, 6])).shuffled(3).tolist() == [0, 2, 1]
    assert Choices(Words()).shuffled(0).tolist() == []
