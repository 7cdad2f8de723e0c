"""The rows of a linear program that hold one family of laws within the budget, and their prices.

With q_s(y) = p_s . W(y|.), the law of what is released under s, and e = exp(epsilon):

- epsilon alone, all pairs: one more variable m(y) an output, m <= q_s(y) <= e m for every s.
- otherwise, for each ordered pair: q_s(y) - e q_s'(y) <= v(y), where v = 0 under epsilon alone,
  and v >= 0 of sum at most delta under (epsilon, delta).

Rows of an output are divided by its weight, so that outputs of very different mass look alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from sklearn_puffer._base import UNIT, Array, FloatArray
from sklearn_puffer._channels.problem import ChannelProblem, Family

Sparse = Any  # scipy's sparse arrays, of any format
Matrices = tuple[Sparse, Sparse]


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Multipliers of the rows of one family.

    Attributes
    ----------
    rows : ndarray of shape (r, n)
        Of each row of each output; 0 for outputs that were not in the program. They come in the
        units of the rows that are not divided by anything.
    totals : ndarray of shape (n_ordered_pairs,)
        Of the rows that hold the sum of the excesses; empty under epsilon alone.
    """

    rows: FloatArray
    totals: FloatArray

    def mixed(self, other: Multipliers, share: float) -> Multipliers:
        """Return share times these, and the rest of the others: multipliers form a convex set."""
        rows = share * self.rows + (1.0 - share) * other.rows
        return Multipliers(rows, share * self.totals + (1.0 - share) * other.totals)


@dataclass(frozen=True, eq=False)
class Prices:
    """What it costs, or earns, to add law s to output y; see `dual`.

    Attributes
    ----------
    values, magnitudes : ndarray of shape (k, n)
        The prices, and the sum of the absolute values they are the sum of.
    constant : float
        What the budget itself is worth.
    """

    values: FloatArray
    magnitudes: FloatArray
    constant: float = 0.0


class BudgetRows(Protocol):
    """One way to hold a family within its budget."""

    @property
    def n_rows(self) -> int:
        """Rows an output."""

    @property
    def n_totals(self) -> int:
        """Rows besides, over all outputs."""

    def per_row(self, of_laws: FloatArray) -> FloatArray:
        """Return for each row what is said of the law that it keeps from being too large."""

    def matrices(self, released: Sparse, weights: FloatArray) -> Matrices:
        """Return the rows over moves, from those of q_s(y), s-major, and over own variables."""

    def sides(self, held: FloatArray, allowed: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the right-hand sides, given what is held of q_s(y), shape (k, n_outputs)."""

    def prices(self, multipliers: Multipliers) -> Prices:
        """Return the prices of multipliers, which need not be exact."""


def budget_rows(problem: ChannelProblem, family: Family) -> BudgetRows:
    """Return the smallest rows there are for the family."""
    if problem.delta == 0.0 and family.pairs is None:
        return Ratios(len(family.masses), float(np.exp(problem.epsilon)))
    pairs, k = family.ordered_pairs, len(family.masses)
    return Differences(pairs, k, float(np.exp(problem.epsilon)), problem.delta)


@dataclass(frozen=True, eq=False)
class Ratios:
    """m <= q_s(y) <= e m for every s: first the rows of the right side, then of the left one."""

    k: int
    growth: float

    @property
    def n_rows(self) -> int:
        """Rows an output."""
        return 2 * self.k

    @property
    def n_totals(self) -> int:
        """No rows besides."""
        return 0

    def per_row(self, of_laws: FloatArray) -> FloatArray:
        """Return what is said of each law, twice."""
        return np.tile(of_laws, 2)

    def matrices(self, released: Sparse, weights: FloatArray) -> Matrices:
        """Return the rows q - e m <= 0 and m - q <= 0."""
        middle = sparse.vstack([sparse.eye_array(len(weights))] * self.k)
        return _below(released, -released), _below(-self.growth * middle, middle)

    def sides(self, held: FloatArray, allowed: FloatArray, weights: FloatArray) -> FloatArray:
        """Return -h and h, for q + h in place of q."""
        return np.concatenate([-(held / weights).ravel(), (held / weights).ravel()])

    def prices(self, multipliers: Multipliers) -> Prices:
        r"""Return a - b, where the least a is taken away so that m has a price of 0 or more.

        The variable m(y) >= 0 has the reduced cost sum b - e sum a, which must not be negative.
        """
        above, below = np.split(np.maximum(multipliers.rows, 0.0), 2)
        most = below.sum(axis=0) * (1.0 - 4 * self.k * UNIT)
        needed = above.sum(axis=0) * self.growth * (1.0 + 4 * self.k * UNIT)
        above = above * np.divide(most, needed, out=np.ones_like(most), where=needed > most)
        return Prices(above - below, above + below)


@dataclass(frozen=True, eq=False)
class Differences:
    """q_s(y) - e q_s'(y) <= v for each ordered pair, and sum over y of v <= delta."""

    pairs: Array
    k: int
    growth: float
    delta: float

    @property
    def n_rows(self) -> int:
        """Rows an output."""
        return len(self.pairs)

    @property
    def n_totals(self) -> int:
        """Sums of excesses."""
        return len(self.pairs) if self.delta > 0.0 else 0

    def per_row(self, of_laws: FloatArray) -> FloatArray:
        """Return what is said of the first law of each pair."""
        return np.asarray(of_laws[self.pairs[:, 0]])

    def matrices(self, released: Sparse, weights: FloatArray) -> Matrices:
        """Return the rows of the differences, and below them those of the sums."""
        m, n_pairs, n_moves = len(weights), len(self.pairs), released.shape[1]
        differences = sparse.kron(self._signs(), sparse.eye_array(m)) @ released
        if self.delta == 0.0:
            return sparse.csr_array(differences), sparse.csr_array((n_pairs * m, 0))
        sums = sparse.kron(sparse.eye_array(n_pairs), (weights / weights.mean())[None])
        none = sparse.csr_array((n_pairs, n_moves))
        return _below(differences, none), _below(-sparse.eye_array(n_pairs * m), sums)

    def sides(self, held: FloatArray, allowed: FloatArray, weights: FloatArray) -> FloatArray:
        """Return what is held, on the other side, and the excess that is allowed."""
        differences = -(self._signs() @ (held / weights)).ravel()
        if self.delta == 0.0:
            return differences
        return np.concatenate([differences, allowed / weights.mean()])

    def prices(self, multipliers: Multipliers) -> Prices:
        """Return sum of g over what s must not exceed, less e times over what must not exceed s.

        An excess has the reduced cost d - g(y), d the multiplier of the sum: g is cut off at d.
        """
        rows = np.maximum(multipliers.rows, 0.0)
        if self.delta == 0.0:
            return Prices(self._signs().T @ rows, abs(self._signs()).T @ rows)
        totals = np.maximum(multipliers.totals, 0.0)
        rows = np.minimum(rows, totals[:, None])
        constant = -self.delta * totals.sum()
        return Prices(self._signs().T @ rows, abs(self._signs()).T @ rows, float(constant))

    def _signs(self) -> FloatArray:
        """+1 at s, -e at s', shape (n_ordered_pairs, k)."""
        signs = np.zeros((len(self.pairs), self.k))
        every = np.arange(len(self.pairs))
        signs[every, self.pairs[:, 0]] += 1.0
        signs[every, self.pairs[:, 1]] -= self.growth
        return signs


def _below(upper: Sparse, lower: Sparse) -> Sparse:
    return sparse.csr_array(sparse.vstack([upper, lower]))
