"""How far the values of one column are from what is released, in whole numbers.

Within a block of neighbouring values distances from a released one, up to a constant, are those
from a ``view``: there are few of them, and each block is ordered once for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import Integers


@dataclass(frozen=True, eq=False)
class Line:
    """Values on a line: distances are differences.

    Attributes
    ----------
    points : ndarray of shape (n,)
        Not falling.
    """

    points: Integers

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.points)

    def distances(self, released: Integers, values: Integers) -> Integers:
        """Return the distances of values, by place, from released ones, (n_released, n_values)."""
        gaps: Integers = np.abs(self.points[released][:, None] - self.points[values])
        return gaps

    def views(self, first: int, last: int) -> Integers:
        """Return the places from which the values first to last - 1 are seen in another order."""
        return np.arange(first, last)

    def view_of(self, released: Integers, first: int, last: int) -> Integers:
        """Return which of the views stands for each released value: the nearest."""
        return np.clip(released, first, last - 1) - first


@dataclass(frozen=True, eq=False)
class Jumps:
    """Values without an order: those that are not the released one are all as far from it.

    Attributes
    ----------
    costs : ndarray of shape (n,)
        How far, for each released value.
    """

    costs: Integers

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.costs)

    def distances(self, released: Integers, values: Integers) -> Integers:
        """Return the distances of values, by place, from released ones, (n_released, n_values)."""
        return np.where(released[:, None] == values, 0, self.costs[released][:, None])

    def views(self, first: int, last: int) -> Integers:
        """Return the places from which the values first to last - 1 are seen in another order.

        One of them is from outside, where all of these are equally far.
        """
        if last - first == 1:
            return np.array([first])
        inside, outside = np.arange(first, last), [*range(first)][:1] or [*range(last, self.size)]
        return np.append(inside, outside[:1]).astype(np.int64)

    def view_of(self, released: Integers, first: int, last: int) -> Integers:
        """Return which of the views stands for each released value: itself, or that outside."""
        if last - first == 1:
            return np.zeros_like(released)
        inside = (first <= released) & (released < last)
        return np.where(inside, released - first, last - first)


Axis = Line | Jumps
