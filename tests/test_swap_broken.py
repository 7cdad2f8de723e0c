"""What breaks the theorem of the swap: each variant must fail the comparison that the swap passes.

Every variant is the package's own swap with one thing about it, or about its reader, changed.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from swap_tree import ByCells, Table, gaps, joint_distribution
from test_swap_exact import exchanged

from sklearn_puffer._losses import SwapDistributions
from sklearn_puffer._swaps import ROW, SwapProblem, mean_flows, whole_rows
from sklearn_puffer.notions import Pufferfish

EPSILON = 0.3
TABLE = Table((0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 1}, [(1, 1), (0, 2)])


def solved(table):
    distributions = SwapDistributions(np.array(table.counts, dtype=np.int64).T, np.array([[0, 1]]))
    costs, weights = np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones(2)
    return mean_flows(
        SwapProblem(table.sizes, [distributions], costs, weights, Pufferfish(EPSILON))
    )


FLOWS = solved(TABLE)

# everybody changes cells, so that a row of any cell tells nothing, and all matches cost the same
TIED = Table((0, 1, 2, 3), {0: 0, 1: 0, 2: 1, 3: 2}, [(1, 1), (0, 1), (1, 0)], np.zeros((4, 4)))
CROSSING = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]) * ROW


def swapped(table, flows=FLOWS, *, draws_of=ByCells, costs_of=Table.costs, shown=False, times=1):
    """Return the package's swap; the parts that a variant replaces are arguments."""

    def once(owned, draws):
        cells = table.cells(owned)
        choices = draws_of(draws, cells)
        rows = whole_rows(flows, choices)
        gets = exchanged(cells, rows, costs_of(table, owned), choices)
        return tuple(owned[k] for k in gets), tuple(rows.ravel().tolist()) if shown else ()

    def released(owned, draws):
        (held, rows), *more = [once(owned, draws) for _ in range(times)]
        return (held, rows, *[again for again, _ in more])

    return released


def compared(table, flows, released, people=None, **reader):
    """Return how far posteriors are from the guaranteed ones, and how far odds move at most."""
    distribution = joint_distribution(table, released, **reader)
    apart, loss = gaps(table, flows, distribution, holds=lambda view: view[0], people=people)
    return float(apart), loss


def fails(found, *, apart, loss):
    """Say whether posteriors are this far from what is guaranteed, and odds move this far."""
    assert found[0] == pytest.approx(apart, abs=5e-4)
    assert found[1] == pytest.approx(loss, abs=5e-4)
    assert found[0] > 0.01
    assert found[1] > EPSILON


def test_the_swap_as_it_is_passes_the_comparison_that_all_others_fail():
    apart, loss = compared(TABLE, FLOWS, swapped(TABLE))
    assert apart == 0.0
    assert 0.2999 < loss <= EPSILON
    assert compared(TIED, CROSSING, swapped(TIED, CROSSING)) == (0.0, 0.0)


# ---------------------------------------------------------------- another procedure


def tied_by_order(table, owned):
    """Return costs by which, of matches that cost the same, the order of the table decides."""
    costs = table.costs(owned)
    return lambda own, others: costs(own, others) - 1e-6 * own[:, None] * others


def test_ties_broken_by_the_order_of_the_table_tell_who_left():
    found = compared(TIED, CROSSING, swapped(TIED, CROSSING, costs_of=tied_by_order))
    fails(found, apart=0.5, loss=math.inf)


class InOrder:
    """Draws that leave the table as it is, so that the first rows of a cell leave it."""

    def __init__(self, draws, cells):
        self._draws, self._first = draws, True

    def below(self, end):
        return self._draws.below(end)

    def shuffled(self, count):
        first, self._first = self._first, False
        return np.arange(count) if first else self._draws.shuffled(count)


def test_leavers_in_the_order_of_the_table_tell_who_they_are():
    fails(compared(TABLE, FLOWS, swapped(TABLE, draws_of=InOrder)), apart=0.2440, loss=math.inf)


def test_published_flows_tell_how_many_left():
    fails(compared(TABLE, FLOWS, swapped(TABLE, shown=True)), apart=0.1980, loss=math.inf)


class Rounded(ByCells):
    """Draws that always round one way."""

    def below(self, end):
        return 0


def test_flows_that_are_rounded_without_a_draw_have_another_mean():
    fails(compared(TABLE, FLOWS, swapped(TABLE, draws_of=Rounded)), apart=0.1980, loss=math.inf)


@pytest.mark.slow
def test_two_swaps_of_the_same_people_tell_more_than_twice_what_one_tells():
    fails(compared(TABLE, FLOWS, swapped(TABLE, times=2)), apart=0.3020, loss=math.inf)


# ---------------------------------------------------------------- another reader


def alike(owned):
    """Say how probable owners are where neighbours in the table are alike."""
    return Fraction(3 if TABLE.cell_of[owned[0]] == TABLE.cell_of[owned[1]] else 1)


def test_neighbours_in_the_table_who_are_alike_give_each_other_away():
    fails(compared(TABLE, FLOWS, swapped(TABLE), weight=alike), apart=0.0582, loss=0.7176)


def passed(owned):
    """Say how probable owners are for who sees a column that agrees with the cell, or not."""
    agrees = [TABLE.cell_of[x] == shown for x, shown in zip(owned, (0, 0, 1, 1), strict=True)]
    return Fraction(math.prod(7 if each else 3 for each in agrees))


def test_a_passed_column_that_agrees_with_the_cell_undoes_the_swap():
    fails(compared(TABLE, FLOWS, swapped(TABLE), weight=passed), apart=0.1733, loss=1.516)


def varied(owned):
    """Return posteriors whose log odds differ by a half within the first cell."""
    odds = {0: math.exp(-0.25), 1: math.exp(0.25)}
    chances = {x: Fraction(odds[x] / (1 + odds[x])) for x in odds}
    return [chances.get(x, Fraction(1)) for x in owned]


def level(owned):
    return [Fraction(1, 2) if x < 2 else Fraction(1) for x in owned]


def test_a_posterior_that_varies_within_a_cell_is_told():
    # as if secrets came one by one, and not by their counts
    assert compared(TABLE, FLOWS, swapped(TABLE), secrets=level)[0] == 0.0
    fails(compared(TABLE, FLOWS, swapped(TABLE), secrets=varied), apart=0.0376, loss=0.4331)


def test_whoever_knows_the_row_of_another_learns_more():
    def seen(owned, having, result):
        return (*result, owned[3])

    found = compared(TABLE, FLOWS, swapped(TABLE), seen=seen, people=range(3))
    fails(found, apart=0.3020, loss=math.inf)


def test_whoever_knows_the_secret_of_another_learns_more():
    def seen(owned, having, result):
        return (*result, 3 in having)

    found = compared(TABLE, FLOWS, swapped(TABLE), seen=seen, people=range(3))
    fails(found, apart=0.3020, loss=math.inf)
