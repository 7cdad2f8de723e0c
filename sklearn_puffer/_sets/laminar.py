r"""The largest and smallest mass of a set of cells, given bounds on nested groups of cells.

The groups form a binary tree over the cells. A distribution p is allowed when its mass is one and
every node A of the tree has :math:`l_A \le p(A) \le u_A`. Masses are integers in units of 2^-60, so
that nothing here is rounded: the envelopes are exact, and zero is zero.

Distances along a column are whole numbers. Up to a constant, the distances of a block's values from
a released value equal those from one of a few values: the block's *views*. So each block is sorted
once for each view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sklearn_puffer._base import FloatArray, Integers, task


@dataclass(frozen=True, eq=False)
class OrderedAxis:
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
        """Return the distances of values, by index, from released ones, (n_released, n_values)."""
        return np.asarray(np.abs(self.points[released][:, None] - self.points[values]))

    def views(self, first: int, last: int) -> Integers:
        """Return the released values for which the values first to last - 1 order differently."""
        return np.arange(first, last)

    def view_of(self, released: Integers, first: int, last: int) -> Integers:
        """Return which view has the same order as each released value: the nearest one."""
        return np.clip(released, first, last - 1) - first


@dataclass(frozen=True, eq=False)
class UnorderedAxis:
    """Values without an order: all but the released one are at the same distance from it.

    Attributes
    ----------
    costs : ndarray of shape (n,)
        That distance, for each released value.
    """

    costs: Integers

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.costs)

    def distances(self, released: Integers, values: Integers) -> Integers:
        """Return the distances of values, by index, from released ones, (n_released, n_values)."""
        return np.where(released[:, None] == values, 0, self.costs[released][:, None])

    def views(self, first: int, last: int) -> Integers:
        """Return the released values for which the values first to last - 1 order differently.

        The last one is outside the block, from where all of its values are equally far.
        """
        if last - first == 1:
            return np.array([first])
        inside, outside = np.arange(first, last), [*range(first)][:1] or [*range(last, self.size)]
        return np.append(inside, outside[:1]).astype(np.int64)

    def view_of(self, released: Integers, first: int, last: int) -> Integers:
        """Return which view has the same order as each released value: itself, or that outside."""
        if last - first == 1:
            return np.zeros_like(released)
        inside = (first <= released) & (released < last)
        return np.where(inside, released - first, last - first)


Axis = OrderedAxis | UnorderedAxis
Block = tuple[tuple[int, int], ...]  # on each axis the first index, and the one after the last


# Why one pass up the tree suffices. Fix a set S of cells. For a node A let Q_A hold the pairs
# (s, r) = (p(A and S), p(A without S)) that the bounds inside A allow. Claim: the corner
# (s+, r-), s+ the most of s and r- the least of r over Q_A, can be had as follows. The sets of the
# two children add up (they share no bound below A), and the corners with them. Let (s+, r-) be the
# sum of the children's corners; it lies in the sum of their sets by induction up to what the bound
# on s + r takes away:
#
#   s+ + r- > u_A:  s has to come down to u_A - r-, and r- stays;
#   s+ + r- < l_A:  r has to go up to l_A - s+, and s+ stays;  else the corner stays.
#
# Hence s+ <- min(s+, u_A - r-) and r- <- max(r-, l_A - s+), which are bounds by their form (every
# p has s <= u_A - r <= u_A - r-, and likewise for r), and are attained together because the set of
# allowed pairs is {s- <= s <= s+, r- <= r <= r+, t- <= s + r <= t+} with tight bounds (it is a
# generalised polymatroid in two variables: sums of such sets, and cuts by s + r, are such sets).
# At the root l = u = 1, and s+ is the largest mass of S. The least mass is the same with signs
# turned: min p(S) = -max (-p)(S), where -u_A <= (-p)(A) <= -l_A.
#
# Why a chain of sets S_1 < S_2 < ... may be treated set by set: the allowed distributions are the
# bases of a submodular function S -> max p(S) (flows in a tree), so one distribution attains all of
# them at once. Bounds from the chain hold without that, which makes them exact.
#
# Why the cells nearest to each of n vertices take n^2 steps and not n^2 log n. A node is a block of
# the grid. Within it, distances from a vertex outside are those from the vertex clipped to the
# block, plus one constant: so the block's cells have as many orders as there are cells, and each is
# treated once. (Along an unordered axis one more: that of a value outside, from which all are
# equally far.) Distances are integers, for equal ones must stay equal.

ONE = 2**60
"""The mass of a whole distribution: sums of two masses fit 64 bits."""

_CHUNK = 2**20  # numbers computed at a time, so that they stay in the cache


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree over the cells of a grid; each node is a block of neighbouring cells.

    Its leaves have the positions 0 to n - 1, and a node covers those from ``start`` up to ``stop``.
    Nodes 0 to n - 2 are inner ones, the root first and then by depth; node n - 1 + i is the leaf at
    position i.

    Attributes
    ----------
    cells : ndarray of shape (n,)
        The cell at each position: its flat index in the grid.
    start, stop : ndarray of shape (2 n - 1,)
    middle, left, right : ndarray of shape (n - 1,)
        Where an inner node is cut in two, and its children.
    levels : tuple of slice
        The inner nodes of each depth.

    Examples
    --------
    >>> tree = Tree.over((3,))
    >>> list(zip(tree.start.tolist(), tree.stop.tolist()))
    [(0, 3), (1, 3), (0, 1), (1, 2), (2, 3)]
    """

    cells: Integers
    start: Integers
    stop: Integers
    middle: Integers
    left: Integers
    right: Integers
    levels: tuple[slice, ...]

    @property
    def n_cells(self) -> int:
        """Number of leaves."""
        return len(self.cells)

    @property
    def n_inner(self) -> int:
        """Number of nodes that are not leaves."""
        return len(self.middle)

    @classmethod
    @lru_cache(maxsize=64)
    def over(cls, shape: tuple[int, ...]) -> Tree:
        """Return the tree that cuts the longest axis in half, again and again."""
        n_inner = int(np.prod(shape)) - 1
        start, stop, middle, left, right = (np.zeros(n_inner, dtype=np.int64) for _ in range(5))
        levels, level = [], [(0, tuple((0, size) for size in shape))] if n_inner else []
        cell_at: dict[int, int] = {}
        first = 0
        while level:
            after = first + len(level)
            levels.append(slice(first, after))
            following: list[tuple[int, Block]] = []
            for node, (begin, block) in enumerate(level, first):
                halves = _halves(block)
                cut = begin + _size(halves[0])
                start[node], middle[node], stop[node] = begin, cut, begin + _size(block)
                for side, leaf, half in ((left, begin, halves[0]), (right, cut, halves[1])):
                    if _size(half) == 1:
                        side[node] = n_inner + leaf
                        corner = [begin for begin, _ in half]
                        cell_at[leaf] = int(np.ravel_multi_index(corner, shape))
                    else:
                        side[node] = after + len(following)
                        following.append((leaf, half))
            first, level = after, following
        cells = np.array([cell for _, cell in sorted(cell_at.items())] or [0], dtype=np.int64)
        leaves = np.arange(n_inner + 1)
        start, stop = np.append(start, leaves), np.append(stop, leaves + 1)
        arrays = cells, start, stop, middle, left, right
        for array in arrays:
            array.setflags(write=False)
        return cls(*arrays, tuple(levels))

    def totals(self, counts: Integers) -> Integers:
        """Return the sum of the cells' counts at each node, exactly, shape (2 n - 1,)."""
        is_large = counts.dtype == object or float(counts.astype(float).sum()) >= 2.0**62
        whole = counts.astype(object if is_large else np.int64)
        sums = np.append(0, np.cumsum(whole[self.cells]))
        return np.asarray(sums[self.stop] - sums[self.start])

    def tightened(self, lower: Integers, upper: Integers) -> tuple[Integers, Integers]:
        """Return the range of each node's mass over all allowed distributions, exactly."""
        lower, upper = lower.copy(), upper.copy()
        lower[..., 0] = upper[..., 0] = ONE
        for nodes in reversed(self.levels):
            left, right = self.left[nodes], self.right[nodes]
            least, most = lower[..., left] + lower[..., right], upper[..., left] + upper[..., right]
            lower[..., nodes] = np.maximum(lower[..., nodes], least)
            upper[..., nodes] = np.minimum(upper[..., nodes], most)
        for nodes in self.levels:
            left, right = self.left[nodes], self.right[nodes]
            ranges = [(lower[..., side].copy(), upper[..., side].copy()) for side in (left, right)]
            for side, (low, high) in zip((left, right), reversed(ranges), strict=True):
                lower[..., side] = np.maximum(lower[..., side], lower[..., nodes] - high)
                upper[..., side] = np.minimum(upper[..., side], upper[..., nodes] - low)
        return lower, upper


def interval_masses(tree: Tree, lower: Integers, upper: Integers) -> tuple[Integers, Integers]:
    """Return the most and the least mass of each interval of cells along one axis.

    Parameters
    ----------
    tree : Tree
        Over one axis.
    lower, upper : ndarray of shape (n_sets, 2 n - 1)
        As `Tree.tightened` returns them.

    Returns
    -------
    most, least : ndarray of shape (n_sets, n, n)
        At [b, i, j], i <= j, that of the cells i to j.

    Examples
    --------
    >>> tree = Tree.over((2,))
    >>> bounds = np.array([[ONE, 0, ONE // 4], [ONE, ONE // 2, ONE]])[:, None]
    >>> most, least = interval_masses(tree, *tree.tightened(*bounds))
    >>> (most[0] / ONE).tolist()[0], (least[0] / ONE).tolist()[0]
    ([0.5, 1.0], [0.0, 1.0])
    """
    n_sets = len(lower)
    most = _most_of_intervals(tree, *_with_negated(lower, upper))
    return most[:n_sets], -most[n_sets:]


def nearest_masses(
    tree: Tree, axes: Sequence[Axis], lower: Integers, upper: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the most and the least mass of the cells that are nearest to each cell of a grid.

    Parameters
    ----------
    tree : Tree
    axes : sequence of OrderedAxis or UnorderedAxis
        Distances are sums over them.
    lower, upper : ndarray of shape (n_sets, 2 n - 1)
        As `Tree.tightened` returns them.

    Returns
    -------
    order : ndarray of shape (n, n)
        The cells by their distance from each cell; of those at the same distance, the first of the
        tree come first.
    most, least : ndarray of shape (n_sets, n, n)
        At [b, i, k], that of the first k + 1 cells of order[i].

    Examples
    --------
    >>> from sklearn_puffer._sets.laminar import OrderedAxis
    >>> tree = Tree.over((2,))
    >>> bounds = np.array([[ONE, 0, ONE // 4], [ONE, ONE // 2, ONE]])[:, None]
    >>> two = [OrderedAxis(np.arange(2))]
    >>> order, most, least = nearest_masses(tree, two, *tree.tightened(*bounds))
    >>> (most[0] / ONE).tolist(), (least[0] / ONE).tolist()
    ([[0.5, 1.0], [1.0, 1.0]], [[0.0, 1.0], [0.5, 1.0]])
    """
    shape = tuple(axis.size for axis in axes)
    index = np.stack(np.unravel_index(tree.cells, shape), axis=1)
    lower, upper = _with_negated(lower, upper)
    corners = _leaves(tree, lower, upper)
    order = np.zeros((1, 1), dtype=np.int64)
    for node in _by_work(tree, lambda n_cells: n_cells * n_cells):
        cells = index[_positions(tree, node)]
        views = _views(axes, cells)
        sides = [
            (_view_of(axes, views, index[_positions(tree, child)]), *corners.pop(child))
            for child in (tree.left[node], tree.right[node])
        ]
        distances = _distances(axes, views, cells)
        order, s, r = _merged(distances, sides, lower[:, node], upper[:, node])
        corners[node] = s, r
    most = corners[0][0][:, :, 1:]
    n_sets = len(most) // 2
    return tree.cells[order], most[:n_sets], -most[n_sets:]


def ordered_masses(
    tree: Tree, costs: FloatArray, lower: Integers, upper: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the most and the least mass of the first cells in any orders.

    Parameters
    ----------
    tree : Tree
    costs : ndarray of shape (n_orders, n)
        The cells come in the order of their costs.
    lower, upper : ndarray of shape (n_sets, 2 n - 1)
        As `Tree.tightened` returns them.

    Returns
    -------
    order : ndarray of shape (n_orders, n)
    most, least : ndarray of shape (n_sets, n_orders, n)
        At [b, i, k], that of the first k + 1 cells of order[i].

    Examples
    --------
    >>> tree = Tree.over((2,))
    >>> bounds = np.array([[ONE, 0, ONE // 4], [ONE, ONE // 2, ONE]])[:, None]
    >>> costs = np.array([[0.1, 0.3]])
    >>> order, most, least = ordered_masses(tree, costs, *tree.tightened(*bounds))
    >>> (most[0] / ONE).tolist(), (least[0] / ONE).tolist()
    ([[0.5, 1.0]], [[0.0, 1.0]])
    """
    placed = costs[:, tree.cells]
    lower, upper = _with_negated(lower, upper)
    corners = _leaves(tree, lower, upper)
    order = np.zeros((len(costs), 1), dtype=np.int64)
    for node in _by_work(tree, lambda n_cells: n_cells * len(costs)):
        halves = [corners.pop(child) for child in (tree.left[node], tree.right[node])]
        # a leaf has one order for all
        sides = [(np.arange(len(costs)) % s.shape[1], s, r) for s, r in halves]
        distances = placed[:, _positions(tree, node)]
        order, s, r = _merged(distances, sides, lower[:, node], upper[:, node])
        corners[node] = s, r
    most = np.broadcast_to(corners[0][0], (len(lower), len(costs), tree.n_cells + 1))[:, :, 1:]
    n_sets = len(most) // 2
    return tree.cells[order], most[:n_sets], -most[n_sets:]


def _by_work(tree: Tree, work: Callable[[int], int]) -> Iterator[int]:
    """Yield the inner nodes from the leaves to the root, and report progress."""
    sizes = (tree.stop - tree.start)[: tree.n_inner].tolist()
    with task("cells ordered", sum(map(work, sizes))) as done:
        for node in reversed(range(tree.n_inner)):
            yield node
            done(work(sizes[node]))


def _most_of_intervals(tree: Tree, lower: Integers, upper: Integers) -> Integers:
    n = tree.n_cells
    most = np.zeros((len(lower), n, n), dtype=np.int64)
    # the corner (s, r) where S holds the first cells of a node, up to each, or its last ones
    leaves = slice(tree.n_inner, None)
    most[:, np.arange(n), np.arange(n)] = upper[:, leaves]
    first = [upper[:, leaves].copy(), np.zeros_like(upper[:, leaves])]
    last = [part.copy() for part in first]
    for nodes in reversed(tree.levels):
        for node in range(nodes.start, nodes.stop):
            begin, cut, end = tree.start[node], tree.middle[node], tree.stop[node]
            inside = (slice(None), slice(begin, cut), slice(cut, end))
            s, r = (
                ending[:, begin:cut, None] + starting[:, None, cut:end]
                for ending, starting in zip(last, first, strict=True)
            )
            most[inside] = np.minimum(s, upper[:, node, None, None] - r)
            left, right = tree.left[node], tree.right[node]
            _extend(first, slice(cut, end), slice(begin, cut), lower, upper, (node, left, right))
            _extend(last, slice(begin, cut), slice(cut, end), lower, upper, (node, right, left))
    return most


def _extend(
    corners: list[Integers],
    far: slice,
    near: slice,
    lower: Integers,
    upper: Integers,
    family: tuple[int, int, int],
) -> None:
    """Turn the corners of two children into the corners of their parent, in place.

    S holds part of the ``near`` child, or all of it and part of the ``far`` one.
    """
    node, near_child, far_child = family
    s, r = corners
    s[:, far] += upper[:, near_child, None]
    r[:, near] += lower[:, far_child, None]
    for part in (near, far):
        most = np.minimum(s[:, part], upper[:, node, None] - r[:, part])
        r[:, part] = np.maximum(r[:, part], lower[:, node, None] - s[:, part])
        s[:, part] = most


def _leaves(tree: Tree, lower: Integers, upper: Integers) -> dict[int, tuple[Integers, Integers]]:
    """Return the corners (s, r) of each single cell, as `_merged` does."""
    s, r = (np.zeros((len(lower), 1, 2 * tree.n_cells - 1, 2), dtype=np.int64) for _ in "sr")
    s[:, 0, :, 1], r[:, 0, :, 0] = upper, lower
    nodes = range(tree.n_inner, tree.n_inner + tree.n_cells)
    return {node: (s[:, :, node], r[:, :, node]) for node in nodes}


def _merged(
    distances: Integers | FloatArray,
    sides: Sequence[tuple[Integers, Integers, Integers]],
    lower: Integers,
    upper: Integers,
) -> tuple[Integers, Integers, Integers]:
    """Return the order of a node's cells from each of its views, and its corners (s, r).

    Parameters
    ----------
    distances : ndarray of shape (v, m)
        Of the node's cells, by position, from each of its views.
    sides : sequence of (view, s, r)
        Of each half: which of its views stands for each of these, and its corners.
    lower, upper : ndarray of shape (n_sets,)

    Returns
    -------
    order : ndarray of shape (v, m)
    s, r : ndarray of shape (n_sets, v, m + 1)
        At [b, i, k] where S holds the k cells that are nearest to view i.
    """
    n_sets, (n_views, m) = len(lower), distances.shape
    order = np.empty((n_views, m), dtype=np.int64)
    corners = np.empty((2, n_sets, n_views, m + 1), dtype=np.int64)
    n_left = sides[0][1].shape[2] - 1
    step = max(1, _CHUNK // (n_sets * m))
    for rows in (slice(first, first + step) for first in range(0, n_views, step)):
        order[rows] = np.argsort(distances[rows], axis=1, kind="stable")
        held = np.zeros((len(order[rows]), m + 1), dtype=np.int64)
        np.cumsum(order[rows] < n_left, axis=1, out=held[:, 1:])
        s, r = corners[:, :, rows]
        s[:], r[:] = 0, 0
        for (view, *parts), of_half in zip(sides, (held, np.arange(m + 1) - held), strict=True):
            flat = view[rows, None] * parts[0].shape[2] + of_half
            for total, part in zip((s, r), parts, strict=True):
                total += np.take(part.reshape(n_sets, -1), flat, axis=1)
        most = np.minimum(s, upper[:, None, None] - r)
        np.maximum(r, lower[:, None, None] - s, out=r)
        s[:] = most
    return order, corners[0], corners[1]


def _distances(axes: Sequence[Axis], views: Integers, cells: Integers) -> Integers:
    total = np.zeros((len(views), len(cells)), dtype=np.int64)
    for axis, released, values in zip(axes, views.T, cells.T, strict=True):
        total += axis.distances(released, values)
    return total


def _views(axes: Sequence[Axis], cells: Integers) -> Integers:
    """Return the views of a block: all combinations of those along its axes, shape (v, d)."""
    ends = zip(axes, cells.min(axis=0), cells.max(axis=0) + 1, strict=True)
    along = [axis.views(first, last) for axis, first, last in ends]
    return np.stack([part.ravel() for part in np.meshgrid(*along, indexing="ij")], axis=1)


def _view_of(axes: Sequence[Axis], released: Integers, cells: Integers) -> Integers:
    """Return which view of a block stands for each released cell."""
    index = np.zeros(len(released), dtype=np.int64)
    ends = zip(axes, released.T, cells.min(axis=0), cells.max(axis=0) + 1, strict=True)
    for axis, of_axis, first, last in ends:
        index = index * len(axis.views(first, last)) + axis.view_of(of_axis, first, last)
    return index


def _positions(tree: Tree, node: int) -> slice:
    return slice(tree.start[node], tree.stop[node])


def _with_negated(lower: Integers, upper: Integers) -> tuple[Integers, Integers]:
    return np.concatenate([lower, -upper]), np.concatenate([upper, -lower])


def _halves(block: Block) -> tuple[Block, Block]:
    lengths = [end - begin for begin, end in block]
    axis = lengths.index(max(lengths))
    begin, end = block[axis]
    cut = (begin + end) // 2
    before, after = block[:axis], block[axis + 1 :]
    return (*before, (begin, cut), *after), (*before, (cut, end), *after)


def _size(block: Block) -> int:
    return math.prod(end - begin for begin, end in block)
