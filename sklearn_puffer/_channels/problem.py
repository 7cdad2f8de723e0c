"""What a channel is asked for: laws that must not be told apart, costs of changes, a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Protocol

import numpy as np

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray


class CostFunction(Protocol):
    """What it costs to release a cell in place of another: never negative, 0 for itself."""

    def between(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for all of both, shape (len(xs), len(ys))."""

    def along(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for each x and the y beside it, shape (len(xs),)."""


@dataclass(frozen=True, eq=False)
class Family:
    """Laws that must not be told apart: one sensitive column, one adversary, one known value.

    Attributes
    ----------
    masses : ndarray of int64 or of Python's int of shape (k, m)
        Law s is masses[s] / masses[s].sum(): counts, or posteriors in units of 2^-32.
    cells : ndarray of intp of shape (m,) or None
        The cells they are over, ascending; None for all.
    pairs : ndarray of intp of shape (n_pairs, 2) or None
        The protected pairs, without order; None for all of them.
    """

    masses: IntArray
    cells: Array | None = None
    pairs: Array | None = None

    @cached_property
    def laws(self) -> FloatArray:
        """The laws p_s, shape (k, m)."""
        laws: FloatArray = (self.masses / self.masses.sum(axis=1, keepdims=True)).astype(float)
        return laws

    @cached_property
    def ordered_pairs(self) -> Array:
        """The protected pairs in both orders, shape (2 n_pairs, 2)."""
        if self.pairs is None:
            every = list(permutations(range(len(self.masses)), 2))
            return np.array(every, dtype=np.intp).reshape(-1, 2)
        pairs = np.asarray(self.pairs, dtype=np.intp)
        return np.concatenate([pairs, pairs[:, ::-1]])

    def over(self, n_cells: int) -> FloatArray:
        """Return the laws over all cells, shape (k, n_cells)."""
        if self.cells is None:
            return self.laws
        everywhere = np.zeros((len(self.masses), n_cells))
        everywhere[:, self.cells] = self.laws
        return everywhere


@dataclass(frozen=True, eq=False)
class Costs:
    """The sum over columns of what changes there, each in its unit of change.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        The cells: numbers, and codes of unordered columns.
    unordered : ndarray of bool of shape (d,)
        Columns where every change costs the same.
    units : ndarray of shape (d,)
        The units of change w: a number costs abs(x - y) / w, an unordered one that changes 1 / w.

    Examples
    --------
    >>> costs = Costs(np.array([[0.0, 1.0], [3.0, 2.0]]), np.array([False, True]), np.ones(2))
    >>> costs.along([0], [1])
    array([4.])
    """

    values: FloatArray
    unordered: BoolArray
    units: FloatArray

    def between(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for all of both, shape (len(xs), len(ys))."""
        return self._summed(self.values[xs][:, None], self.values[ys][None])

    def along(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for each x and the y beside it, shape (len(xs),)."""
        return self._summed(self.values[xs], self.values[ys])

    def _summed(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Column by column: no array with an axis of columns besides."""
        total = np.zeros(np.broadcast_shapes(one.shape, other.shape)[:-1])
        for column, (unordered, unit) in enumerate(zip(self.unordered, self.units, strict=True)):
            a, b = one[..., column], other[..., column]
            total += (a != b) / unit if unordered else np.abs(a - b) / unit
        return total


@dataclass(frozen=True, eq=False)
class ChannelProblem:
    """Find W(y|x) of least expected cost for which every protected pair keeps the budget.

    Attributes
    ----------
    families : sequence of Family
        The promise holds within each.
    weights : ndarray of shape (n,)
        The law pi of the cells over which the cost is averaged; it sums to 1.
    costs : CostFunction
        Cost of a change.
    epsilon, delta : float
        The budget.
    floor : float or None
        The most that a release may tell to anyone: W(y|x) <= e^floor W(y|x') within a place.
    places : ndarray of intp of shape (n,) or None
        Cells move within their place only; None for anywhere.
    """

    families: Sequence[Family]
    weights: FloatArray
    costs: CostFunction
    epsilon: float
    delta: float = 0.0
    floor: float | None = None
    places: Array | None = None

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self.weights)
