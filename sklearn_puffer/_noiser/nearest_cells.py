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
    stay : tuple of int
        Columns that stay as they are, whatever that costs.
    """

    values: FloatArray
    unordered: Array
    units: FloatArray
    cost: Any = None
    stay: tuple[int, ...] = ()

    def nearest(self, rows: FloatArray) -> tuple[Array, FloatArray]:
        """Return the nearest cell of each row of numbers and codes, and what the move costs.

        Of equally near ones it is the first one, whatever the order of rows; -1 where no cell has
        what must stay.
        """
        n_cells = len(self.values)
        values = np.concatenate([self.values, rows])
        costs, places = self._costs(values), self._places(values)
        found, moves = np.full(len(rows), -1), np.full(len(rows), np.inf)
        for place in np.unique(places[n_cells:]):
            asked = (places[n_cells:] == place).nonzero()[0]
            if (cells := (places[:n_cells] == place).nonzero()[0]).size:
                near, moves[asked] = nearest_cells(costs, asked + n_cells, cells)
                found[asked] = cells[near]
        return found, moves

    def _places(self, values: FloatArray) -> Array:
        """Return numbers that tell rows apart by what must stay."""
        if not self.stay:
            return np.zeros(len(values), dtype=np.intp)
        kept = values[:, list(self.stay)]
        return np.asarray(np.unique(kept, axis=0, return_inverse=True)[1]).ravel()

    def _costs(self, values: FloatArray) -> CostFunction:
        if self.cost is not None:
            return GivenCosts(values, self.cost)
        return Costs(values, self.unordered, self.units)
