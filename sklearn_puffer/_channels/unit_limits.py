"""The limits of a channel within one unit of cells, for the laws that have mass there."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels.excesses import Limits
from sklearn_puffer._noise import WHOLE


class UnitLimits(NamedTuple):
    """Limits q_first <= factor q_second of outputs that cells of one unit alone lead to.

    Attributes
    ----------
    laws : ndarray of shape (k, m)
        Of the cells of the unit.
    first, second : ndarray of shape (n_pairs,)
        Ordered pairs of these laws.
    kept : ndarray of shape (n_pairs,)
        The share of its excess that a pair may keep.
    limits : Limits
    """

    laws: FloatArray
    first: Array
    second: Array
    kept: FloatArray
    limits: Limits

    def sides(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both sides of each limit for outputs with these shares, shape (m, ...)."""
        flows = self.laws @ shares
        return flows[self.first], self.limits.factor * flows[self.second]

    def excess(self, shares: FloatArray, lowered: float) -> FloatArray:
        """Return by how much outputs exceed their limits at most, shape (n_pairs, ...)."""
        above, below = self.sides(shares)
        some = shares > 0.0
        room = self.limits.side_room(some.sum(axis=0))
        moved: FloatArray = above * (1.0 + room) - below * (1.0 - room)
        return moved + lowered * self.sides(some.astype(float))[1]

    def slack(self, shares: FloatArray, lowered: float) -> FloatArray:
        """Return how far outputs may exceed their limits, by what they do exceed them by."""
        excess = np.maximum(self.excess(shares, lowered), 0.0)
        return np.asarray((self.kept * excess.T).T)

    def mended_by(self, excess: FloatArray, gain: FloatArray) -> FloatArray:
        """Return how much of a constant row an excess needs: infinite where that gains nothing.

        Under a delta an excess that it does not mend is one more of those that are added up.
        """
        never = math.inf if self.limits.delta == 0.0 else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(gain > 0.0, excess / gain, never)
        return np.where(excess > 0.0, part, 0.0)

    @property
    def gain(self) -> FloatArray:
        """What a row for all cells of the unit leaves to each limit, in parts of 2^62."""
        return -self.excess(np.full(self.laws.shape[1], float(WHOLE)), 0.0)


def within(limits: Limits, kept: FloatArray, cells: Array) -> UnitLimits:
    """Return the limits within the cells of a unit."""
    laws = limits.laws[:, cells].tocsr()
    some = np.diff(laws.indptr) > 0
    pairs = (some[limits.first] | some[limits.second]).nonzero()[0]
    used, places = np.unique([limits.first[pairs], limits.second[pairs]], return_inverse=True)
    first, second = places.reshape(2, -1)
    return UnitLimits(laws[used].toarray(), first, second, kept[pairs], limits)
