r"""What it changes on average to release the typical row of one cell for a row of another.

.. math:: d(a, b) = \frac{1}{N_a} \sum_{x \in a} \sum_k |z_k(x) - z_k(t_b)|

over columns, where a category that is another one counts 2 halves. Sums are whole multiples of the
step of the coordinates, so they depend on the order of rows no more than counts do.
"""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._microaggregator.coordinates import Axis, LevelAxis, NumberAxis, Points
from sklearn_puffer._microaggregator.prototypes import Prototypes
from sklearn_puffer._tables import Name


class Changes:
    """Sums over rows of each cell, to which blocks of rows are added.

    Parameters
    ----------
    prototypes : Prototypes
    """

    def __init__(self, prototypes: Prototypes) -> None:
        self._prototypes = prototypes
        space, count = prototypes.coordinates, len(prototypes)
        # without the coordinates of labels, which are not released
        columns = prototypes.points.numbers.T[: len(space.number_axes)]
        self._numbers = [_NumberSums(column, space.step) for column in columns]
        self._places = [
            _PlaceCounts(axis, places)
            for axis, places in zip(space.placed_axes, prototypes.points.places, strict=True)
        ]
        self._sizes = np.zeros(count)

    def add(self, points: Points, codes: IntArray, weights: Array | None = None) -> None:
        """Add some rows, which are of these prototypes."""
        self._sizes += np.bincount(codes, weights, len(self._sizes))
        for numbers, column in zip(self._numbers, points.numbers.T, strict=False):
            numbers.add(column, codes, weights)
        for counts, places in zip(self._places, points.places, strict=True):
            counts.add(places, codes, weights)

    @property
    def sizes(self) -> IntArray:
        """How many rows of each prototype were added."""
        return self._sizes.astype(np.int64)

    def by_column(self) -> dict[Name, FloatArray]:
        """Return the mean change of each column, shape (M, M): rows of a released as b."""
        space = self._prototypes.coordinates
        of_axis: dict[Name, FloatArray] = {}
        parts = [
            *zip(space.number_axes, (sums.totals() for sums in self._numbers), strict=True),
            *zip(space.placed_axes, self._mismatches(), strict=True),
        ]
        sizes = np.maximum(self._sizes, 1.0)[:, None]
        for axis, totals in parts:
            of_axis[axis.name] = of_axis.get(axis.name, 0.0) + totals / sizes
        return {axis.name: of_axis[axis.name] for axis in space.axes}

    def mean(self) -> FloatArray:
        """Return d, shape (M, M)."""
        return np.asarray(sum(self.by_column().values()))

    def unchanged(self) -> dict[Name, FloatArray]:
        """Return the share of the rows of a whose column is that of b, shape (M, M), by name.

        Numbers are the same where their coordinates are.
        """
        space, sizes = self._prototypes.coordinates, np.maximum(self._sizes, 1.0)[:, None]
        numbers = zip(space.number_axes, self._numbers, strict=True)
        same = {axis.name: sums.same() for axis, sums in numbers}
        for axis, counts in zip(space.placed_axes, self._places, strict=True):
            if not isinstance(axis, NumberAxis):
                same[axis.name] = counts.same()
        return {axis.name: same[axis.name] / sizes for axis in space.axes}

    def _mismatches(self) -> list[FloatArray]:
        space = self._prototypes.coordinates
        return [
            2.0 * space.half(axis) * (self._sizes[:, None] - counts.same())
            for axis, counts in zip(space.placed_axes, self._places, strict=True)
        ]


class _NumberSums:
    """How many numbers of each cell lie between typical ones, and their sums."""

    def __init__(self, typical: FloatArray, step: float) -> None:
        self._step = step
        self._ends = np.unique(typical)
        self._rank = np.searchsorted(self._ends, typical)
        # below the first end, at it, between the first two, at the second, and so on
        self._counts, self._sums = np.zeros((2, len(typical), 2 * len(self._ends) + 1))

    def add(self, column: FloatArray, codes: IntArray, weights: Array | None) -> None:
        """Add the numbers of some rows."""
        gap = np.searchsorted(self._ends, column)
        at = np.take(self._ends, gap, mode="clip") == column
        cells = codes * self._counts.shape[1] + 2 * gap + at
        steps = column / self._step
        size = self._counts.size
        self._counts += np.bincount(cells, weights, size).reshape(self._counts.shape)
        weighed = steps if weights is None else steps * weights
        self._sums += np.bincount(cells, weighed, size).reshape(self._sums.shape)

    def totals(self) -> FloatArray:
        """Return the sums of the distances to each typical number, shape (M, M)."""
        counts, sums = np.cumsum(self._counts, axis=1), np.cumsum(self._sums, axis=1)
        places, ends = 2 * self._rank + 1, self._ends[self._rank] / self._step
        below, sum_below = counts[:, places], sums[:, places]
        above, sum_above = counts[:, -1:] - below, sums[:, -1:] - sum_below
        return np.asarray(ends * (below - above) - sum_below + sum_above) * self._step

    def same(self) -> FloatArray:
        """Return how many numbers of a are the typical one of b, shape (M, M)."""
        return np.asarray(self._counts[:, 2 * self._rank + 1])


class _PlaceCounts:
    """How many rows of each cell have each category."""

    def __init__(self, axis: Axis, typical: IntArray) -> None:
        self._typical, self._width = typical, axis.n_halves + 1
        self._counts = np.zeros((len(typical), self._width))
        self._none = [self._width - 1]
        if isinstance(axis, LevelAxis) and axis.rarer:
            self._none.append(axis.n_halves - 1)

    def add(self, places: IntArray, codes: IntArray, weights: Array | None) -> None:
        """Add the categories of some rows; -1, the last of the counts, stands for none."""
        cells = codes * self._width + places % self._width
        shape = self._counts.shape
        self._counts += np.bincount(cells, weights, self._counts.size).reshape(shape)

    def same(self) -> FloatArray:
        """Return how many rows of a have the category of b, shape (M, M).

        Of rarer categories, which share a place, none counts as that of b.
        """
        told = self._counts.copy()
        told[:, self._none] = 0.0
        return np.asarray(told[:, self._typical])
