"""Couplings between the components of two mixtures.

A coupling w couples the components; within a coupled pair the monotone map moves one Gaussian onto
the other, so that in one column X - X' = dmu + dsd Z with Z standard normal. Any w with the right
marginals gives a coupling of the mixtures, and so a valid bound on the privacy loss: a better
one buys less noise and never costs privacy. What no coupling may do is miss a marginal, so masses
here are integers over a common total, exactly; weights are read as in `priors.rational_counts`.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer.priors import GaussianMixture, rational_counts

Cell = tuple[int, int]


@dataclass(frozen=True, eq=False)
class ComponentCoupling:
    """A coupling of the components of p and q, as its entries of positive mass.

    Attributes
    ----------
    sources, targets : ndarray of shape (m,)
        Components of p and of q.
    weights : ndarray of shape (m,)
        Masses, each the float nearest to an exact fraction; the fractions have exact marginals.
    shifts : ndarray of shape (m, d)
        Differences of the means.
    stretches : ndarray of shape (m,)
        In one column ``|sd_i - sd_j|``. For rows 0 where the covariances are equal, and otherwise
        infinite: X - X' then is no translation.
    """

    sources: IntArray
    targets: IntArray
    weights: FloatArray
    shifts: FloatArray
    stretches: FloatArray

    def matrix(self) -> FloatArray:
        """Return the weights as a matrix, a row for each component of p."""
        dense = np.zeros((int(self.sources.max()) + 1, int(self.targets.max()) + 1))
        dense[self.sources, self.targets] = self.weights
        return dense


def squared_distances(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    r"""Return the squared W_2 distances between components, shape (k, l).

    .. math:: |\mu_m - \mu_l|^2 + \mathrm{tr}(A + B - 2 (A^{1/2} B A^{1/2})^{1/2})

    The second term is (sd_m - sd_l)^2 in one column.

    >>> p = GaussianMixture([1.0], [0.0], [1.0])
    >>> squared_distances(p, GaussianMixture([0.5, 0.5], [3.0, 0.0], [1.0, 3.0])).tolist()
    [[9.0, 4.0]]
    """
    if p.means.ndim == 1:
        stretched = np.square(p.scales[:, None] - q.scales[None])
    else:
        stretched = np.array([[_bures(a, b) for b in q.scales] for a in p.scales])
    return np.asarray(np.square(p.rows[:, None] - q.rows[None]).sum(axis=-1) + stretched)


def _bures(a: FloatArray, b: FloatArray) -> float:
    if np.array_equal(a, b):
        return 0.0
    values, vectors = np.linalg.eigh(a)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0.0)).sum()
    return max(float(np.trace(a) + np.trace(b) - 2.0 * shared), 0.0)


def stretches(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return by how much each component has to stretch to become another, shape (k, l).

    Zero where one is a translation of the other; for rows infinite where it is not.
    """
    if p.means.ndim == 1:
        return np.asarray(np.abs(p.scales[:, None] - q.scales[None]))
    return np.array([[0.0 if np.array_equal(a, b) else np.inf for b in q.scales] for a in p.scales])


def shortest_coupling(p: GaussianMixture, q: GaussianMixture) -> ComponentCoupling:
    """Return the coupling of the smallest mean squared W_2 distance (003, Eq. 12).

    Its marginals are exact. It is optimal up to the tolerance of the solver; a coarser one only
    costs noise.

    Examples
    --------
    >>> p = GaussianMixture([0.25, 0.75], [0.0, 5.0], [1.0, 1.0])
    >>> shortest_coupling(p, GaussianMixture([0.5, 0.5], [0.0, 5.0], [1.0, 1.0])).matrix().tolist()
    [[0.25, 0.0], [0.25, 0.5]]
    """
    return cheapest_coupling(p, q, squared_distances(p, q))


def cheapest_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling:
    """Return the coupling of the smallest mean of ``costs`` (k, l), which are finite.

    Its marginals are exact, and it is optimal up to the tolerance of the solver.

    Examples
    --------
    >>> p = GaussianMixture([0.25, 0.75], [0.0, 5.0], [1.0, 1.0])
    >>> cheapest_coupling(p, p, np.array([[0.0, 1.0], [1.0, 0.0]])).matrix().tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    supplies, demands = _supplies_and_demands(p, q)
    return _coupling(p, q, _filled(supplies, demands, _filling_order(_solved(p, q, costs), costs)))


def bottleneck_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling | None:
    """Return a coupling of the smallest maximum of ``costs`` (k, l), or None if that is infinite.

    Examples
    --------
    >>> p = GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 2.0])
    >>> q = GaussianMixture([0.5, 0.5], [1.0, 0.0], [2.0, 1.0])
    >>> apart = np.where(stretches(p, q) > 0.0, np.inf, 1.0)
    >>> bottleneck_coupling(p, q, apart).shifts.ravel().tolist()
    [0.0, 0.0]
    """
    supplies, demands = _supplies_and_demands(p, q)
    levels = np.unique(costs[np.isfinite(costs)])
    best, low, high = None, 0, len(levels) - 1
    while low <= high:
        middle = (low + high) // 2 if best is not None else high  # the largest level decides
        flow = _flow(supplies, demands, costs <= levels[middle])
        if flow is None and best is None:
            return None
        if flow is None:
            low = middle + 1
        else:
            best, high = flow, middle - 1
    return None if best is None else _coupling(p, q, best)


def _coupling(p: GaussianMixture, q: GaussianMixture, masses: dict[Cell, int]) -> ComponentCoupling:
    cells = sorted(cell for cell, mass in masses.items() if mass > 0)
    total = sum(masses.values())
    sources, targets = np.array(cells, dtype=np.intp).T
    weights = np.array([masses[cell] / total for cell in cells])
    shifts, stretched = p.rows[sources] - q.rows[targets], stretches(p, q)[sources, targets]
    return ComponentCoupling(sources, targets, weights, shifts, stretched)


def _supplies_and_demands(p: GaussianMixture, q: GaussianMixture) -> tuple[list[int], list[int]]:
    """Return both mixtures' weights as integers of the same total."""
    counts = [_integers(tuple(x.weights.tolist())) for x in (p, q)]
    total = lcm(*map(sum, counts))
    left, right = ([count * (total // sum(side)) for count in side] for side in counts)
    return left, right


@lru_cache(maxsize=256)
def _integers(weights: tuple[float, ...]) -> list[int]:
    return [int(count) for count in rational_counts(np.array(weights))]


def _solved(p: GaussianMixture, q: GaussianMixture, costs: FloatArray) -> FloatArray:
    """Return an approximate optimum of the transport problem, shape (k, l)."""
    n_rows, n_columns = costs.shape
    if min(costs.shape) == 1:
        return np.outer(p.weights, q.weights)
    rows = np.kron(np.eye(n_rows), np.ones(n_columns))
    columns = np.kron(np.ones(n_rows), np.eye(n_columns))[:-1]  # the last follows from the others
    largest = float(costs.max())
    result = linprog(
        costs.ravel() / (largest if largest > 0.0 else 1.0),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([p.weights, q.weights[:-1]]),
        method="highs",
    )
    return np.zeros_like(costs) if result.x is None else result.x.reshape(costs.shape)


def _filling_order(flow: FloatArray, costs: FloatArray) -> list[Cell]:
    """Return all cells: first the flow's, from its leaves inwards, then the others by cost.

    The cells of a vertex of the transport polytope are a forest. Taken from the leaves, each cell
    holds all that its row or its column has left, so filling them gives the vertex exactly.
    """
    waiting = {(int(i), int(j)) for i, j in np.argwhere(flow > 0.0)}
    order: list[Cell] = []
    while waiting:
        rows, columns = Counter(i for i, _ in waiting), Counter(j for _, j in waiting)
        leaves = [cell for cell in waiting if rows[cell[0]] == 1 or columns[cell[1]] == 1]
        taken = min(leaves) if leaves else max(waiting, key=lambda cell: (flow[cell], cell))
        order.append(taken)
        waiting.remove(taken)
    by_cost = np.unravel_index(np.argsort(costs, axis=None, kind="stable"), costs.shape)
    others = zip(*(index.tolist() for index in by_cost), strict=True)
    return [*order, *((i, j) for i, j in others if not flow[i, j] > 0.0)]


def _filled(supplies: list[int], demands: list[int], order: list[Cell]) -> dict[Cell, int]:
    """Give each cell in turn as much as its row and its column have left.

    Whatever the order of all cells, the marginals come out exactly: a row and a column that both
    had something left would have had it when their own cell was filled; and as the totals agree, no
    row alone has something left.
    """
    rows, columns = list(supplies), list(demands)
    masses = {}
    for i, j in order:
        masses[i, j] = moved = min(rows[i], columns[j])
        rows[i] -= moved
        columns[j] -= moved
    return masses


def _flow(
    supplies: list[int], demands: list[int], allowed: NDArray[np.bool_]
) -> dict[Cell, int] | None:
    """Return a coupling over the allowed cells, or None if there is none (Edmonds and Karp)."""
    rows, columns = list(supplies), list(demands)
    masses: dict[Cell, int] = {(int(i), int(j)): 0 for i, j in np.argwhere(allowed)}
    by_row: list[list[int]] = [[] for _ in rows]
    by_column: list[list[int]] = [[] for _ in columns]
    for i, j in masses:
        by_row[i].append(j)
        by_column[j].append(i)
    while any(rows):
        path = _augmenting_path(rows, columns, masses, by_row, by_column)
        if path is None:
            return None
        forward, backward = path[0::2], path[1::2]
        row, column = forward[0][0], forward[-1][1]
        moved = min(rows[row], columns[column], *(masses[cell] for cell in backward))
        rows[row] -= moved
        columns[column] -= moved
        for cell in forward:
            masses[cell] += moved
        for cell in backward:
            masses[cell] -= moved
    return masses


def _augmenting_path(
    rows: list[int],
    columns: list[int],
    masses: dict[Cell, int],
    by_row: list[list[int]],
    by_column: list[list[int]],
) -> list[Cell] | None:
    """Return the cells of a shortest path from a row to a column with something left.

    Mass is added to the cells at even positions and taken from the others.
    """
    came: dict[tuple[str, int], Any] = {("row", i): None for i, left in enumerate(rows) if left > 0}
    queue = deque(came)
    while queue:
        side, k = node = queue.popleft()
        if side == "column" and columns[k] > 0:
            return _walked_back(node, came)
        if side == "row":
            neighbours = [("column", j) for j in by_row[k]]
        else:
            neighbours = [("row", i) for i in by_column[k] if masses[i, k] > 0]
        for neighbour in neighbours:
            if neighbour not in came:
                came[neighbour] = node
                queue.append(neighbour)
    return None


def _walked_back(node: tuple[str, int], came: dict[tuple[str, int], Any]) -> list[Cell]:
    cells: list[Cell] = []
    while came[node] is not None:
        before = came[node]
        cells.append((before[1], node[1]) if node[0] == "column" else (node[1], before[1]))
        node = before
    return cells[::-1]
