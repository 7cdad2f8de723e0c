"""The flow of masses whose largest cost is the smallest possible, in integers of any size."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sklearn_puffer._base import Array, FloatArray, Integers

_FLOW = 2**30  # scipy's maximum flow counts in 32 bits


def bottleneck_flow(costs: FloatArray, supply: Integers, demand: Integers) -> Integers:
    """Return how much goes from each supply to each demand, shape (m, n).

    Parameters
    ----------
    costs : ndarray of shape (m, n)
    supply, demand : ndarray of shape (m,) and (n,)
        Positive integers with the same sum.

    Examples
    --------
    >>> costs = np.array([[0.0, 2.0], [1.0, 0.0]])
    >>> bottleneck_flow(costs, np.array([1, 2]), np.array([2, 1])).tolist()
    [[1, 0], [1, 1]]
    """
    return _Network(costs, supply, demand).smallest_threshold()


class _Network:
    """Supplies, demands and the cost of each edge between them; flows are exact integers."""

    def __init__(self, costs: FloatArray, supply: Integers, demand: Integers) -> None:
        self.costs, self.supply, self.demand = costs, supply, demand

    def smallest_threshold(self) -> Integers:
        """Return a complete flow whose largest cost is the smallest possible, shape (m, n)."""
        needed = max(self.costs.min(axis=1).max(), self.costs.min(axis=0).max())
        levels = np.unique(self.costs[self.costs >= needed])
        # most often some atom's nearest partner decides, so the first level is tried first
        low, high, middle = 0, len(levels) - 1, 0
        largest = self._nothing()
        while low < high:
            flow = self.flow(float(levels[middle]), largest)
            if self._complete(flow):
                high = middle
            else:
                low, largest = middle + 1, flow
            middle = (low + high) // 2
        return self._with_small_moves_first(float(levels[high]))

    def _with_small_moves_first(self, threshold: float) -> Integers:
        """Fill up the flow from below, so that mass moves far only where it must."""
        below = np.unique(self.costs[self.costs < threshold])
        flow = self._nothing()
        for level in (
            (*below[[0, len(below) // 4, len(below) // 2]], threshold)
            if len(below)
            else (threshold,)
        ):
            flow = self.flow(float(level), flow)
        return flow

    def _nothing(self) -> Integers:
        return np.zeros(self.costs.shape, dtype=self.supply.dtype)

    def _complete(self, flow: Integers) -> bool:
        return bool(flow.sum() == self.supply.sum())

    def flow(self, threshold: float, flow: Integers) -> Integers:
        """Enlarge ``flow`` to a maximum one over the edges of at most ``threshold``.

        scipy counts in 32 bits, so amounts are taken in units: what remains is first sent in
        large ones, and what their rounding left behind in ever smaller ones, down to single counts.
        Some cut has less than one unit of room on each of its arcs once no further unit can be
        sent; if more than that remains, no complete flow exists.
        """
        i, j = np.nonzero(self.costs <= threshold)
        arcs = len(i) + sum(self.costs.shape)
        remaining = int(self.supply.sum()) - int(flow.sum())
        unit = 0
        while remaining and unit != 1 and (unit == 0 or remaining <= arcs * unit):
            unit = max(1, -(-remaining // _FLOW))
            flow = flow + unit * self._augment(i, j, flow, unit)
            remaining = int(self.supply.sum()) - int(flow.sum())
        return flow

    def _augment(self, i: Array, j: Array, flow: Integers, unit: int) -> Integers:
        """Return the change, in units, that a maximum flow in the residual network makes."""
        m, n = self.costs.shape
        room = [
            _units(self.supply - flow.sum(axis=1), unit),
            _units(self.demand - flow.sum(axis=0), unit),
            np.full(len(i), _FLOW),
            _units(flow[i, j], unit),
        ]
        sources, targets = np.arange(m) + 2, np.arange(n) + m + 2
        tails = np.concatenate([np.zeros(m, int), targets, i + 2, j + m + 2])
        heads = np.concatenate([sources, np.ones(n, int), j + m + 2, i + 2])
        amounts = np.concatenate(room)
        used = amounts > 0
        size = m + n + 2
        graph = csr_array(
            (amounts[used].astype(np.int32), (tails[used], heads[used])), shape=(size, size)
        )
        net = maximum_flow(graph, 0, 1).flow[i + 2, j + m + 2]
        change = np.zeros((m, n), dtype=self.supply.dtype)
        change[i, j] = np.asarray(net).ravel().astype(np.int64)
        return change


def _units(amounts: Integers, unit: int) -> Array:
    units: Array = np.minimum(amounts // unit, _FLOW).astype(np.int64)
    return units
