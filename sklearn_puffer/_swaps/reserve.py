"""Rows one by one: what is set aside for them, how it is used up, and how many rows it serves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import betainc

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._swaps.exchange import Costs
from sklearn_puffer._swaps.rounding import Draws

MATCHED = 4
"""Senders, the row itself among them, that are matched with as many donors."""

RUNS_OUT = 1e-4
"""The chance with which some cell's donors run out before the limit of rows."""

_MOST = 1 << 40


class UsedUpError(Exception):
    """A cell without donors."""


class Pool:
    r"""What is left of the reserve of one stratum.

    Parameters
    ----------
    homes : ndarray of int of shape (n_cells,)
        The place, among the cells that have donors, of the one that each cell counts with.
    cells : ndarray of int of shape (n_homes,)
        Which cells these are.
    flows : ndarray of int64 of shape (n_homes, n_homes)
        F; a row of home a goes to b with chance :math:`K(b|a) = F(a, b) / \sum_b F(a, b)`.
    senders : sequence of lists of int
        Rows of the reserve by cell, each list in a random order.
    donors : sequence of lists of int
        The same by home; all of them lie in its own cell.

    Notes
    -----
    *Formal guarantees.* Let the rows of a cell, those of the reserve among them, be exchangeable.
    Then, given b and all earlier releases, each donor left in b is given with the same chance,
    whatever cell the row came from (DESIGN, section 14.5): the row is put among senders of its own
    cell, so that the owner of each match is uniform among them, and what they are matched with is
    a uniform draw of donors. Senders are used up, for a second match beside them would tell; a
    donor is given once. A row that stays is one of cell b, too.
    """

    def __init__(
        self,
        homes: Array,
        cells: Array,
        flows: IntArray,
        senders: Sequence[list[int]],
        donors: Sequence[list[int]],
    ) -> None:
        self.homes, self.cells = homes, cells
        self.ends = [[int(end) for end in np.cumsum(row)] for row in flows]
        self.senders, self.donors = senders, donors

    def given(self, row: int, cell: int, costs: Costs, draws: Draws) -> int | None:
        """Return the row of the reserve that is released for a row, or None for the row itself.

        Raises
        ------
        UsedUpError
            If no donor of the cell that was drawn is left.
        """
        ends = self.ends[self.homes[cell]]
        drawn = draws.below(ends[-1])
        to = next(place for place, end in enumerate(ends) if drawn < end)
        return None if self.cells[to] == cell else self._match(row, cell, to, costs, draws)

    def _match(self, row: int, cell: int, to: int, costs: Costs, draws: Draws) -> int:
        donors, senders = self.donors[to], self.senders[cell]
        if not donors:
            raise UsedUpError
        few = min(MATCHED, len(donors), len(senders) + 1)
        own = np.array([row, *(senders.pop() for _ in range(few - 1))])
        own = own[draws.shuffled(few)]  # no tie may be broken by who comes first
        offered = _by_lot(donors, few, draws)
        sources, places = linear_sum_assignment(costs(own, offered))
        found = int(offered[places[own[sources] == row]][0])
        donors.remove(found)
        return found


def _by_lot(donors: list[int], few: int, draws: Draws) -> Array:
    """Return some of the donors, each as probable as any other, which become the first ones."""
    for place in range(few):
        other = place + draws.below(len(donors) - place)
        donors[place], donors[other] = donors[other], donors[place]
    return np.array(donors[:few])


def most_rows(rates: FloatArray, donors: Array, chance: float) -> int:
    r"""Return the most rows of which the donors of some cell run out with no more than a chance.

    .. math:: \max \left\{n : \sum_b P(\mathrm{Bin}(n, r_b) > d_b) \le p\right\}

    Parameters
    ----------
    rates : ndarray of shape (n_cells,)
        The chance, or more, with which a row takes a donor of each cell.
    donors : ndarray of int of shape (n_cells,)
    chance : float

    Examples
    --------
    >>> most_rows(np.array([0.5]), np.array([1]), 0.25)
    2
    """

    def fails(n: int) -> bool:
        some = donors < n  # of more donors than rows none runs out
        tails = betainc(donors[some] + 1.0, n - donors[some], np.minimum(rates[some], 1.0))
        return float(tails.sum()) > chance

    low, high = 0, 1
    while not fails(high) and high < _MOST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return low
