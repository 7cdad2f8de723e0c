"""Couplings between the components of two mixtures.

A coupling w couples the components; within a coupled pair the monotone map moves one Gaussian onto
the other, so that in one column X - X' = dmu + dsd Z with Z standard normal. Any w with the right
marginals gives a coupling of the mixtures, and so a valid bound on the privacy loss. Its marginals
must be exact: masses are integers over a common total, and weights are read as in
`priors.rational_counts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import lcm

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray, Integers
from sklearn_puffer._numerics import solved
from sklearn_puffer._strategies.transport import Network
from sklearn_puffer.priors import GaussianMixture, rational_counts


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
    root = root_of(a)
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0.0)).sum()
    return max(float(np.trace(a) + np.trace(b) - 2.0 * shared), 0.0)


def root_of(matrix: FloatArray) -> FloatArray:
    """Return the symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


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

    It is optimal up to the tolerance of the solver; a coarser one only costs noise. Its marginals
    are exact: integers flow through the cells of the optimum, which are a forest, and what is left
    for the solver's rounding goes through the cheapest of the others that do.

    >>> p = GaussianMixture([0.25, 0.75], [0.0, 5.0], [1.0, 1.0])
    >>> cheapest_coupling(p, p, np.array([[0.0, 1.0], [1.0, 0.0]])).matrix().tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    unit = float(costs.max()) or 1.0
    first = np.where(_solved(p, q, costs / unit) > 0.0, 0.0, 1.0 + costs / unit)
    return _coupling(p, q, Network(first, *_supplies_and_demands(p, q)).bottleneck_flow())


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
    optimum = solved(costs.ravel(), equal=(np.vstack([rows, columns]), marginals))
    return np.zeros_like(costs) if optimum is None else optimum.x.reshape(costs.shape)
