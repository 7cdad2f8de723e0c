"""The cells nearest to rows that are none, at the cost of the channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray
from sklearn_puffer._noiser.channel_problem import checked_costs

_CHUNK = 1 << 16  # distances held at a time: they stay in the cache


@dataclass(frozen=True, eq=False)
class CellDistance:
    """What moves to cells cost.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        The cells as numbers and codes.
    unordered : ndarray of bool of shape (d,)
    units : ndarray of shape (d,)
    cost : object or None
        The caller's own cost.
    stay : tuple of int
        Columns that stay as they are, whatever that costs.
    """

    values: FloatArray
    unordered: Array
    units: FloatArray
    cost: Any = None
    stay: tuple[int, ...] = ()

    def nearest(self, rows: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the nearest cell of each row of numbers and codes, and what the move costs.

        Of equally near ones it is the first one, whatever the order of rows; -1 where no cell has
        what must stay. NaN is a category that no cell has: the other columns decide, and cost. All
        distances are computed, so that no row takes longer because of its values.

        Examples
        --------
        >>> cells = np.array([[20.0, 0.0], [30.0, 0.0], [30.0, 1.0]])
        >>> distance = CellDistance(cells, np.array([False, True]), np.array([10.0, 1.0]))
        >>> distance.nearest(np.array([[25.0, 0.0], [29.0, 2.0], [31.0, np.nan]]))
        (array([0, 1, 1]), array([0.5, 1.1, 0.1]))
        """
        found, moves = np.full(len(rows), -1), np.full(len(rows), np.inf)
        near = self._within(rows)
        for asked, known in self._alike(rows):
            cells = self._with_the_same(rows[asked[0]])
            columns = np.ascontiguousarray(self.values[cells].T)
            for some in _parts(asked, cells.size):
                costs = self._costs(near[some], columns, known)
                chosen = costs.argmin(axis=1)
                found[some], moves[some] = cells[chosen], costs[np.arange(some.size), chosen]
        with np.errstate(over="ignore"):  # of numbers beyond reason the move is infinite
            return found, moves + np.nansum(np.abs(rows - near) / self.units, axis=1)

    def _within(self, rows: FloatArray) -> FloatArray:
        """Return rows whose numbers lie no further out than those of all cells.

        That takes the same from the distances to all cells, and without it a number that lies far
        out would leave no digits for what the other columns cost.
        """
        if self.cost is not None:
            return rows
        inside = np.clip(rows, self.values.min(axis=0), self.values.max(axis=0))
        return np.where(self.unordered, rows, inside)

    def _alike(self, rows: FloatArray) -> Iterator[tuple[IntArray, BoolArray]]:
        """Yield the rows that have the same in what must stay, and which columns they know."""
        known = ~np.isnan(rows)
        kinds = np.column_stack([np.where(known, rows, 0.0)[:, list(self.stay)], known])
        number = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(number, kind="stable")
        for asked in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
            if asked.size:
                yield asked, known[asked[0]]

    def _with_the_same(self, row: FloatArray) -> IntArray:
        """Return the cells that have of a row what must stay."""
        stay = list(self.stay)
        same: IntArray = (self.values[:, stay] == row[stay]).all(axis=1).nonzero()[0]
        return same

    def _costs(self, rows: FloatArray, cells: FloatArray, known: BoolArray) -> FloatArray:
        """Return all costs of moves to some cells, whose columns stand beside each other."""
        total = np.zeros((len(rows), cells.shape[1]))
        if self.cost is not None and known.all():
            return checked_costs(self.cost.between(rows, cells.T), total.shape, "between")
        for k in known.nonzero()[0].tolist():
            row, cell = rows[:, k, None], cells[k]
            total += (row != cell if self.unordered[k] else np.abs(row - cell)) / self.units[k]
        return total


def _parts(asked: IntArray, n_cells: int) -> Iterator[IntArray]:
    """Cut rows into parts, of which all distances to some cells are held."""
    step = max(_CHUNK // max(n_cells, 1), 1)
    return (asked[start : start + step] for start in range(0, asked.size if n_cells else 0, step))
