"""Who gets whose row: flows in whole rows, leavers and places by lot, and matches of least change.

Flows are rounded by the method of Cox (1987): while some entries are not whole rows, there is a
cycle of such entries. Sums of rows and columns stay the same when each entry of a cycle gains what
the next one loses.

Rows that are released one by one are exchanged for rows of a reserve, which is used up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import betainc

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._swaps.flows import ROW

MOST_MATCHED = 800
"""Leavers and places that are matched at once; more are cut into random parts."""

PART = 300
"""Size of these parts: each still holds near places, and time grows as a power of the size."""

MATCHED = 4
"""Senders, the row itself among them, that are matched with as many donors."""

RUNS_OUT = 1e-4
"""The chance with which some cell's donors run out before the limit of rows."""

_MOST = 1 << 40

Costs = Callable[[Array, Array], FloatArray]
"""The costs at which owners of some rows get others, shape (n, m)."""


class Draws(Protocol):
    """A source of uniform choices."""

    def below(self, end: int) -> int:
        """Return a whole number from 0 to ``end - 1``, each as probable as any other."""

    def shuffled(self, count: int) -> Array:
        """Return the numbers below ``count`` in an order, each as probable as any other."""


def whole_rows(flows: IntArray, draws: Draws) -> IntArray:
    r"""Return flows in whole rows, drawn so that each entry's mean is its flow, exactly.

    Along a cycle with alternating signs, :math:`d_+` and :math:`d_-` are the largest steps before
    an entry is whole; one of them is taken, the first with chance
    :math:`d_- / (d_+ + d_-)`, in whole numbers.
    """
    table = flows.copy()
    rest = table % ROW
    rows = [set(np.flatnonzero(row).tolist()) for row in rest]
    columns = [set(np.flatnonzero(column).tolist()) for column in rest.T]
    for a, fractional in enumerate(rows):
        while fractional:
            cycle = _cycle(a, rows, columns)
            _step(table, cycle, draws)
            for row, column in cycle:
                if table[row, column] % ROW == 0:
                    rows[row].discard(column)
                    columns[column].discard(row)
    return np.asarray(table // ROW)


def _cycle(start: int, rows: list[set[int]], columns: list[set[int]]) -> list[tuple[int, int]]:
    """Return the entries of a cycle: each row and column of it has two of them, one after another.

    A row of whole sum cannot have a single fractional entry, so a walk ends only where it began.
    """
    path: list[tuple[int, int]] = []
    seen: dict[tuple[str, int], int] = {}
    row, last = start, -1
    while True:
        if ("row", row) in seen:
            return path[seen["row", row] :]
        seen["row", row] = len(path)
        column = next(index for index in rows[row] if index != last)
        path.append((row, column))
        if ("column", column) in seen:
            return path[seen["column", column] :]
        seen["column", column] = len(path)
        last = column
        row = next(index for index in columns[column] if index != row)
        path.append((row, column))


def _step(table: IntArray, cycle: list[tuple[int, int]], draws: Draws) -> None:
    """Shift rows along a cycle until an entry is whole; the chances of both ways keep the means."""
    signs = np.where(np.arange(len(cycle)) % 2 == 0, 1, -1)
    where = tuple(np.array(cycle).T)
    below = table[where] % ROW
    above = ROW - below
    up = int(np.where(signs > 0, above, below).min())
    down = int(np.where(signs > 0, below, above).min())
    step = up if draws.below(up + down) < down else -down
    table[where] += signs * step


def leavers_and_places(
    cells: Array, flows: IntArray, draws: Draws, *, shuffle: bool
) -> list[tuple[Array, Array]]:
    """Return who leaves each cell, and as many places for them, not yet matched.

    Parameters
    ----------
    cells : ndarray of int of shape (n_rows,)
    flows : ndarray of int64 of shape (n_cells, n_cells)
        How many rows go from cell to cell, in whole rows.
    draws : Draws
    shuffle : bool
        Whether all rows of a cell change places among themselves, too, by lot.

    Notes
    -----
    *Formal guarantees.* Rows are shuffled before anything is chosen, so that no choice and no tie
    depends on their order. The leavers of a cell are uniform, and so is the choice of its vacated
    places for each cell. Whatever the matches, a place of cell b is therefore held by somebody of
    cell a with chance F(a, b) / N_b (DESIGN, section 14.3).
    """
    order = draws.shuffled(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]  # each cell's rows, in a random order
    starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=len(flows)))])
    moving = flows.copy()
    if not shuffle:
        np.fill_diagonal(moving, 0)
    leave = moving.sum(axis=1)
    leavers = [order[start : start + count] for start, count in zip(starts, leave, strict=False)]
    places = _allotted(leavers, moving, draws)
    return [pair for pair in zip(leavers, places, strict=True) if pair[0].size]


def _allotted(vacated: list[Array], moving: IntArray, draws: Draws) -> list[Array]:
    """Return the places that leavers of each cell go to: vacated places are dealt by lot."""
    dealt = [
        np.split(cell[draws.shuffled(len(cell))], np.cumsum(column)[:-1])
        for cell, column in zip(vacated, moving.T, strict=True)
    ]
    arrivals = [np.concatenate([parts[a] for parts in dealt]) for a in range(len(moving))]
    return [cell[draws.shuffled(len(cell))] for cell in arrivals]


def matched(leavers: Array, places: Array, costs: Costs) -> Array:
    """Return the place of each leaver; each part is matched at the least cost."""
    n_parts = 1 if len(leavers) <= MOST_MATCHED else -(-len(leavers) // PART)
    taken = np.empty_like(places)
    for k in range(n_parts):
        part = slice(k, None, n_parts)
        row, column = linear_sum_assignment(costs(leavers[part], places[part]))
        taken[part][row] = places[part][column]
    return taken


def least_cost(owners: Array, others: Array, costs: Costs) -> float:
    """Return the mean cost of matching rows with others, as many, at the least cost."""
    between = costs(owners, others)
    return float(between[linear_sum_assignment(between)].mean())


# ------------------------------------------------------------------------------- rows one by one


class UsedUpError(Exception):
    """A cell without donors."""


class Pool:
    r"""What is left of the reserve of one stratum.

    Parameters
    ----------
    homes : ndarray of int of shape (n_cells,)
        For each cell the index, among the cells that have donors, of the one it counts with.
    cells : ndarray of int of shape (n_homes,)
        The cells that have donors.
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
    whatever cell the row came from (DESIGN, section 14.5). For the row is put among senders of its
    own cell, so that the owner of each match is uniform among them, and they are matched with a
    uniform draw of donors. Senders are used up, as a second match beside them would tell; a donor
    is given once. A row that stays is one of cell b, too.
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

    def released(self, row: int, cell: int, costs: Costs, draws: Draws) -> int | None:
        """Return the row of the reserve that is released for a row, or None for the row itself.

        Raises
        ------
        UsedUpError
            If no donor of the cell that was drawn is left.
        """
        ends = self.ends[self.homes[cell]]
        drawn = draws.below(ends[-1])
        to = next(k for k, end in enumerate(ends) if drawn < end)
        return None if self.cells[to] == cell else self._match(row, cell, to, costs, draws)

    def _match(self, row: int, cell: int, to: int, costs: Costs, draws: Draws) -> int:
        donors, senders = self.donors[to], self.senders[cell]
        if not donors:
            raise UsedUpError
        few = min(MATCHED, len(donors), len(senders) + 1)
        rows = np.array([row, *(senders.pop() for _ in range(few - 1))])
        rows = rows[draws.shuffled(few)]  # no tie may be broken by who comes first
        offered = _by_lot(donors, few, draws)
        sources, targets = linear_sum_assignment(costs(rows, offered))
        donor = int(offered[targets[rows[sources] == row]][0])
        donors.remove(donor)
        return donor


def _by_lot(donors: list[int], few: int, draws: Draws) -> Array:
    """Return a uniform draw of donors, which become the first ones in the list."""
    for k in range(few):
        other = k + draws.below(len(donors) - k)
        donors[k], donors[other] = donors[other], donors[k]
    return np.array(donors[:few])


def most_rows(rates: FloatArray, donors: Array, chance: float) -> int:
    r"""Return the most rows for which some cell runs out of donors with at most a given chance.

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
        scarce = donors < n
        tails = betainc(donors[scarce] + 1.0, n - donors[scarce], np.minimum(rates[scarce], 1.0))
        return float(tails.sum()) > chance

    low, high = 0, 1
    while not fails(high) and high < _MOST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return low
