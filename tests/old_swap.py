"""The swap of 0.2, in its smallest form: a counterexample that attackers must find.

People exchange rows between cells that one classifier has scored alike. Its bound is a mean over a
cell, and false for readers who tell the rows of a cell apart. Nothing here is of the package.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import eye_array, kron, vstack
from scipy.spatial.distance import cdist
from sklearn.model_selection import cross_val_predict


@dataclass(frozen=True)
class OldSwap:
    """What the swap published of itself, and whose row each person got, which it kept secret."""

    cells: np.ndarray  # of each row
    shares: np.ndarray  # of the second secret in each cell
    flows: np.ndarray  # mean numbers of people of cell a who get rows of cell b
    gets: np.ndarray
    loss: float  # what the certificate said

    def told(self, chances):
        """Return the chance of the second secret of whoever holds each row, in a reader's eyes.

        ``chances`` are the reader's own for the owners of the rows: whoever stays in his cell keeps
        his row.
        """
        arrived = self.flows - np.diag(np.diag(self.flows))
        sizes = self.flows.sum(axis=0)
        others = (arrived.T @ self.shares / sizes)[self.cells]
        return others + (np.diag(self.flows) / sizes)[self.cells] * chances


def swap(rows, secret, model, epsilon, n_cells, rng):
    """Swap rows of numbers, shape (n, d), whose owners have the secrets 0 and 1."""
    said = cross_val_predict(model, rows, secret, cv=3, method="predict_proba")[:, 1]
    edges = np.unique(np.quantile(said, np.linspace(0, 1, n_cells + 1)[1:-1]))
    cells = np.unique(np.searchsorted(edges, said), return_inverse=True)[1]
    sizes = np.bincount(cells)
    shares = np.bincount(cells, secret) / sizes
    flows = least_change(sizes, shares, epsilon)
    return OldSwap(cells, shares, flows, exchanged(rows, cells, flows, rng), loss(flows, shares))


def within(sizes, shares):
    """Return what a cell weighs under either secret."""
    return np.stack([(1 - shares) / (sizes @ (1 - shares)), shares / (sizes @ shares)])


def loss(flows, shares):
    """Return the largest log odds of a cell, by the mean over each cell it was filled from."""
    masses = np.log(within(flows.sum(axis=1), shares) @ flows)
    return float(np.abs(masses[0] - masses[1]).max())


def margins(n):
    """Return the sums of flows by the cells that people leave, and by those they come to."""
    return vstack([kron(eye_array(n), np.ones(n)), kron(np.ones(n), eye_array(n))])


def least_change(sizes, shares, epsilon):
    """Return the mean flows of least change within the budget; a cell costs how far it lies."""
    n = len(sizes)
    masses = [kron(weights, eye_array(n)) for weights in within(sizes, shares)]
    limits = vstack([one - np.exp(epsilon) * two for one, two in (masses, masses[::-1])])
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    equal = {"A_eq": margins(n), "b_eq": np.tile(sizes, 2)}
    found = linprog(apart.ravel(), A_ub=limits, b_ub=np.zeros(2 * n), **equal)
    return found.x.reshape(n, n)


def whole_flows(flows, rng):
    """Return whole numbers next to mean flows, with their sums: a vertex of what is between."""
    n, ends = len(flows), (np.floor(flows + 1e-7), np.ceil(flows - 1e-7))
    equal = {"A_eq": margins(n), "b_eq": np.tile(np.rint(flows.sum(axis=1)), 2)}
    found = linprog(rng.normal(size=n * n), bounds=np.stack([e.ravel() for e in ends], 1), **equal)
    return np.rint(found.x.reshape(n, n)).astype(int)


def exchanged(rows, cells, flows, rng):
    """Return whose row each person gets: leavers and places by lot, then the nearest matches."""
    whole = whole_flows(flows, rng)
    np.fill_diagonal(whole, 0)
    gets, left, places = np.arange(len(cells)), [], []
    for a, (out, come) in enumerate(zip(whole, whole.T, strict=True)):
        leavers = rng.permutation(np.flatnonzero(cells == a))[: out.sum()]
        left.append(np.split(leavers, np.cumsum(out)[:-1]))
        places.append(np.split(rng.permutation(leavers), np.cumsum(come)[:-1]))
    for a, b in zip(*np.nonzero(whole), strict=True):
        people, found = left[a][b], places[b][a]
        one, two = linear_sum_assignment(cdist(rows[people], rows[found]))
        gets[people[one]] = found[two]
    return gets
