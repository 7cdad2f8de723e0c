"""The cells nearest to rows that are none, at the cost of the channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray

_MOST_COSTS = 1 << 22  # at once


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
    """

    values: FloatArray
    unordered: Array
    units: FloatArray
    cost: Any = None

    def nearest(self, rows: FloatArray) -> tuple[Array, FloatArray]:
        """Return the nearest cell of each row of numbers and codes, and what the move costs.

        Of equally near ones it is the first one, whatever the order of rows.
        """
        cells, moves = np.empty(len(rows), dtype=np.intp), np.empty(len(rows))
        step = max(_MOST_COSTS // len(self.values), 1)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            costs = self._between(rows[part])
            cells[part] = costs.argmin(axis=1)
            moves[part] = costs.min(axis=1)
        return cells, moves

    def _between(self, rows: FloatArray) -> FloatArray:
        if self.cost is not None:
            found: FloatArray = np.asarray(self.cost.between(rows, self.values), dtype=float)
            return found
        total = np.zeros((len(rows), len(self.values)))
        for k, (unordered, unit) in enumerate(zip(self.unordered, self.units, strict=True)):
            one, other = rows[:, k, None], self.values[None, :, k]
            total += (one != other) / unit if unordered else np.abs(one - other) / unit
        return total
