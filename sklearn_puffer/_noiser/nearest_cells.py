"""The cells nearest to rows that are none, at the cost of the channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels import CostFunction, Costs, nearest_cells
from sklearn_puffer._noiser.channel_problem import GivenCosts


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
        n_cells = len(self.values)
        costs = self._costs(np.concatenate([self.values, rows]))
        return nearest_cells(costs, np.arange(len(rows)) + n_cells, np.arange(n_cells))

    def _costs(self, values: FloatArray) -> CostFunction:
        if self.cost is not None:
            return GivenCosts(values, self.cost)
        return Costs(values, self.unordered, self.units)
