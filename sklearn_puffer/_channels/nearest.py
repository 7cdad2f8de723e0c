r"""The nearest cell of a row that is not among them, under the cost of its change.

Rows are taken in groups that agree in all unordered columns. Within one, what these columns cost is
a number h of each cell, so the cost is the l1 distance of the ordered columns and one more, which
is h for a cell and 0 for a row. A large group asks a tree of that. For a small one cells are looked
at in the order of h, as long as h alone does not cost more than the nearest one so far. Either
gives the cells that are nearest up to rounding; of these the cost itself and then their order
decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from sklearn_puffer._base import ULP, Array, FloatArray, IntArray
from sklearn_puffer._channels.problem import CostFunction, Costs

_LARGE = 512  # rows of a group for which a tree is worth its while
_FEW = 2**23  # costs that are looked at one by one
_CHUNK = 2**22  # costs held at a time
_NEAR = 1e-9  # more than costs are rounded by, relatively; besides, by ULP of each value


def nearest_cells(costs: CostFunction, rows: Array, cells: Array) -> tuple[IntArray, FloatArray]:
    """Return for each row the nearest cell, of the first ones, and what the change costs.

    Parameters
    ----------
    costs : CostFunction
        Knows rows and cells by number.
    rows, cells : ndarray of shape (m,), (n,)
        Their numbers.

    Returns
    -------
    place : ndarray of int64 of shape (m,)
        Places in ``cells``; of several that cost the same, the first.
    cost : ndarray of shape (m,)

    Examples
    --------
    >>> values = np.array([[20.0, 0.0], [30.0, 0.0], [30.0, 1.0], [25.0, 0.0], [29.0, 2.0]])
    >>> costs = Costs(values, np.array([False, True]), np.array([10.0, 1.0]))
    >>> nearest_cells(costs, np.array([3, 4]), np.arange(3))
    (array([0, 1]), array([0.5, 1.1]))
    """
    rows, cells = np.asarray(rows), np.asarray(cells)
    place, cost = np.zeros(rows.size, dtype=np.int64), np.zeros(rows.size)
    if isinstance(costs, Costs) and rows.size * cells.size > _FEW:
        pairs = _near(costs, rows, cells)
    else:
        pairs = _all(costs, rows, cells)
    for asked, near, price in pairs:
        order = np.lexsort((near, price, asked))
        first = order[np.append(True, np.diff(asked[order]) > 0)]
        place[asked[first]], cost[asked[first]] = near[first], price[first]
    return place, cost


Pairs = Iterator[tuple[IntArray, IntArray]]
Candidates = Iterator[tuple[IntArray, IntArray, FloatArray]]


def _all(costs: CostFunction, rows: Array, cells: Array) -> Candidates:
    """Yield the nearest cells of rows under any cost: all are looked at."""
    for part in _chunks(rows.size, _CHUNK // cells.size):
        asked = np.arange(part.start, part.stop)
        price = costs.between(rows[part], cells)
        near = price.argmin(axis=1)  # the first of equal ones
        yield asked, near, price[np.arange(asked.size), near]


def _near(costs: Costs, rows: Array, cells: Array) -> Candidates:
    """Yield for each row the cells that are nearest up to rounding, and what they cost."""
    codes = _codes(costs.values[:, costs.unordered])
    kinds, order, ends = _sorted_runs(codes[rows])
    levels, by_level, starts = _sorted_runs(codes[cells])
    points = costs.values[:, ~costs.unordered] / costs.units[~costs.unordered]
    rounding = 8.0 * ULP * float(np.abs(points).max(axis=0).sum())
    buckets = _Buckets(points[cells[by_level]], by_level, starts, rounding)
    columns, units = np.ascontiguousarray(levels.T), costs.units[costs.unordered]
    for kind, start, end in zip(kinds, ends, ends[1:], strict=False):
        besides = np.zeros(len(levels))
        for column, code, unit in zip(columns, kind, units, strict=True):
            besides += (column != code) / unit
        asked = order[start:end]
        find = buckets.by_tree if asked.size >= _LARGE else buckets.by_level
        for some, near in find(points[rows[asked]], besides):
            yield asked[some], near, costs.along(rows[asked[some]], cells[near])


def _codes(values: FloatArray) -> Array:
    """Return small whole numbers in the place of values that are only compared."""
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in values.T]
    return np.array(codes, dtype=np.int32).reshape(values.shape[::-1]).T


def _sorted_runs(codes: Array) -> tuple[Array, IntArray, IntArray]:
    """Return the distinct rows, an order in which equal ones are together, and where they start."""
    distinct, number = np.unique(codes, axis=0, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    return distinct, order, np.append(0, np.cumsum(np.bincount(number.ravel())))


class _Buckets(NamedTuple):
    """Cells in buckets that agree in all unordered columns: ``starts[k]:starts[k + 1]`` are one's.

    ``points`` are their ordered columns in units of change, ``places`` their places, and
    ``rounding`` is more than what distances are off by for the size of values.
    """

    points: FloatArray
    places: IntArray
    starts: IntArray
    rounding: float

    def near(self, least: FloatArray) -> FloatArray:
        """Return up to which distance something may be as near as the nearest."""
        return least * (1.0 + _NEAR) + self.rounding

    def by_tree(self, asked: FloatArray, besides: FloatArray) -> Pairs:
        """Yield rows and what is nearest to them, where a bucket costs so much besides."""
        tree = cKDTree(np.column_stack([self.points, np.repeat(besides, np.diff(self.starts))]))
        asked = np.column_stack([asked, np.zeros(len(asked))])
        for part in _chunks(len(asked), _LARGE):
            least = np.asarray(tree.query(asked[part], p=1)[0])
            near = list(tree.query_ball_point(asked[part], self.near(least), p=1))
            which = np.repeat(np.arange(part.start, part.stop), list(map(len, near)))
            yield which, self.places[np.concatenate(near).astype(np.int64)]

    def by_level(self, asked: FloatArray, besides: FloatArray) -> Pairs:
        """Do the same without a tree."""
        for part in _chunks(len(asked), _CHUNK // self.places.size):
            which, near = self._level_by_level(asked[part], besides)
            yield which + part.start, near

    def _level_by_level(self, asked: FloatArray, besides: FloatArray) -> tuple[IntArray, IntArray]:
        """Look at buckets as long as they can be nearer than the nearest cell so far."""
        best, level = np.full(len(asked), np.inf), float(besides.min())
        found = []
        while (left := (self.near(best) >= level).nonzero()[0]).size:
            entries = self._within((besides == level).nonzero()[0])
            total = _distances(asked[left], self.points[entries]) + level
            best[left] = np.minimum(best[left], total.min(axis=1))
            which, near = (total <= self.near(best[left, None])).nonzero()
            found.append((left[which], entries[near], total[which, near]))
            level = float(besides[besides > level].min(initial=np.inf))
        which, near, total = map(np.concatenate, zip(*found, strict=True))
        kept = total <= self.near(best[which])
        return which[kept], self.places[near[kept]]

    def _within(self, buckets: IntArray) -> IntArray:
        """Return the entries of some buckets."""
        first, lengths = self.starts[buckets], self.starts[buckets + 1] - self.starts[buckets]
        skipped = np.repeat(first - np.append(0, np.cumsum(lengths)[:-1]), lengths)
        entries: IntArray = np.arange(skipped.size) + skipped
        return entries


def _chunks(size: int, most: int) -> Iterator[slice]:
    """Cut some rows into parts."""
    step = max(most, 1)
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _distances(points: FloatArray, cells: FloatArray) -> FloatArray:
    """Return costs of ordered columns, one by one: no array with an axis of columns besides."""
    total = np.zeros((len(points), len(cells)))
    for point, cell in zip(points.T, cells.T, strict=True):
        total += np.abs(point[:, None] - cell)
    return total
