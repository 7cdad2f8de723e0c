"""Couplings between the components of two mixtures.

A coupling w couples the components; within a coupled pair the monotone map moves one Gaussian onto
the other, so that in one column X - X' = dmu + dsd Z with Z standard normal. Any w with the right
marginals gives a coupling of the mixtures, and so a valid bound on the privacy loss: a better
one buys less noise and never costs privacy. What no coupling may do is miss a marginal, so masses
here are integers over a common total, exactly; weights are read as in `priors.rational_counts`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import lcm

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray, Integers
from sklearn_puffer._numerics import solved
from sklearn_puffer._strategies.transport import Network
from sklearn_puffer.priors import GaussianMixture, rational_counts

Cell = tuple[int, int]


@dataclass(frozen=True, eq=False)
class ComponentCoupling:
    """A coupling of the components of p and q, as its entries of positive mass.

    Attributes
    ----------
    sources, targets : ndarray of shape (m,)
        Components of p and of q.
    masses : ndarray of shape (m,)
        Positive Python integers, which have exact marginals.
    shifts : ndarray of shape (m, d)
        Differences of the means.
    stretches : ndarray of shape (m,)
        In one column ``|sd_i - sd_j|``. For rows 0 where the covariances are equal, and otherwise
        infinite: X - X' then is no translation.
    """

    sources: IntArray
    targets: IntArray
    masses: Integers
    shifts: FloatArray
    stretches: FloatArray

    @cached_property
    def weights(self) -> FloatArray:
        """The masses over their total, each the nearest float."""
        total = self.masses.sum()
        return np.array([mass / total for mass in self.masses.tolist()])

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
    """Return the coupling of the smallest mean squared W_2 distance (003, Eq. 12)."""
    return cheapest_coupling(p, q, squared_distances(p, q))


def cheapest_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling:
    """Return the coupling of the smallest mean of ``costs`` (k, l), which are finite.

    Its marginals are exact. It is optimal up to the tolerance of the solver; a coarser one only
    costs noise.

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

    >>> p = GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 2.0])
    >>> q = GaussianMixture([0.5, 0.5], [1.0, 0.0], [2.0, 1.0])
    >>> apart = np.where(stretches(p, q) > 0.0, np.inf, 1.0)
    >>> bottleneck_coupling(p, q, apart).shifts.ravel().tolist()
    [0.0, 0.0]
    """
    coupling = _coupling(p, q, Network(costs, *_supplies_and_demands(p, q)).bottleneck_flow())
    within = np.isfinite(costs[coupling.sources, coupling.targets])
    return coupling if within.all() else None


def _coupling(p: GaussianMixture, q: GaussianMixture, flow: Integers) -> ComponentCoupling:
    sources, targets = np.nonzero(flow)
    shifts, stretched = p.rows[sources] - q.rows[targets], stretches(p, q)[sources, targets]
    return ComponentCoupling(sources, targets, flow[sources, targets], shifts, stretched)


def _supplies_and_demands(p: GaussianMixture, q: GaussianMixture) -> list[Integers]:
    """Return both mixtures' weights as integers of the same total."""
    counts = [_integers(tuple(x.weights.tolist())) for x in (p, q)]
    total = lcm(*map(sum, counts))
    return [np.array([n * (total // sum(side)) for n in side], dtype=object) for side in counts]


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
    marginals = np.concatenate([p.weights, q.weights[:-1]])
    unit = float(costs.max()) or 1.0
    optimum = solved(costs.ravel() / unit, equal=(np.vstack([rows, columns]), marginals))
    return np.zeros_like(costs) if optimum is None else optimum.x.reshape(costs.shape)


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


def _filled(supplies: Integers, demands: Integers, order: list[Cell]) -> Integers:
    """Give each cell in turn as much as its row and its column have left.

    Whatever the order of all cells, the marginals come out exactly: a row and a column that both
    had something left would have had it when their own cell was filled; and as the totals agree, no
    row alone has something left.
    """
    rows, columns = list(supplies), list(demands)
    flow = np.zeros((len(rows), len(columns)), dtype=object)
    for i, j in order:
        flow[i, j] = moved = min(rows[i], columns[j])
        rows[i] -= moved
        columns[j] -= moved
    return flow
