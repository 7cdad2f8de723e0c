r"""How much mass a set of cells may hold when the masses of nested groups of cells are bounded.

The groups form a binary tree over the cells. A law p is allowed when its mass is one and every
node A of the tree has :math:`l_A \le p(A) \le u_A`. Masses are integers in units of 2^-60, so that
nothing here is rounded: the extremes are exact, and zero is zero.
"""

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
# Why a chain of sets S_1 < S_2 < ... may be treated set by set: the allowed laws are the bases of
# a submodular function S -> max p(S) (flows in a tree), so one law attains all of them at once.
# Bounds from the chain hold without that; it is what makes them exact.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]

ONE = 2**60
"""The mass of a whole law: sums of two masses fit 64 bits."""

_CHUNK = 2**20  # numbers treated at a time, so that they stay near the processor


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree over the cells of a grid; each node is a box of neighbouring cells.

    Its leaves are in places 0 to n - 1, and a node covers the places ``start`` to ``stop``. Nodes
    0 to n - 2 are inner ones, the root first and then by depth; node n - 1 + i is the leaf in
    place i.

    Attributes
    ----------
    cells : ndarray of shape (n,)
        The cell in each place: its flat index in the grid.
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

    cells: IntArray
    start: IntArray
    stop: IntArray
    middle: IntArray
    left: IntArray
    right: IntArray
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
        places: dict[int, int] = {}
        first = 0
        while level:
            after = first + len(level)
            levels.append(slice(first, after))
            following: list[tuple[int, tuple[tuple[int, int], ...]]] = []
            for node, (begin, block) in enumerate(level, first):
                halves = _halves(block)
                cut = begin + _size(halves[0])
                start[node], middle[node], stop[node] = begin, cut, begin + _size(block)
                for side, place, half in ((left, begin, halves[0]), (right, cut, halves[1])):
                    if _size(half) == 1:
                        side[node] = n_inner + place
                        places[place] = _cell(half, shape)
                    else:
                        side[node] = after + len(following)
                        following.append((place, half))
            first, level = after, following
        cells = np.array([places[i] for i in sorted(places)] if places else [0], dtype=np.int64)
        leaves = np.arange(n_inner + 1)
        tree = cls(
            cells,
            np.append(start, leaves),
            np.append(stop, leaves + 1),
            middle,
            left,
            right,
            tuple(levels),
        )
        for array in (tree.cells, tree.start, tree.stop, tree.middle, tree.left, tree.right):
            array.setflags(write=False)
        return tree

    def totals(self, counts: IntArray) -> IntArray:
        """Return the sum of the cells' counts at each node, exactly, shape (2 n - 1,)."""
        whole = counts.astype(object) if _may_overflow(counts) else counts.astype(np.int64)
        sums = np.append(0, np.cumsum(whole[self.cells]))
        totals: IntArray = sums[self.stop] - sums[self.start]
        return totals

    def tightened(self, lower: IntArray, upper: IntArray) -> tuple[IntArray, IntArray]:
        """Return the range of each node's mass over all allowed laws, exactly."""
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


def interval_masses(tree: Tree, lower: IntArray, upper: IntArray) -> tuple[IntArray, IntArray]:
    """Return the most and the least mass of each interval of cells along one axis.

    Parameters
    ----------
    tree : Tree
        Over one axis.
    lower, upper : ndarray of shape (n_boxes, 2 n - 1)
        As `Tree.tightened` returns them.

    Returns
    -------
    most, least : ndarray of shape (n_boxes, n, n)
        At [b, i, j], i <= j, that of the cells i to j.

    Examples
    --------
    >>> tree = Tree.over((2,))
    >>> bounds = np.array([[ONE, 0, ONE // 4], [ONE, ONE // 2, ONE]])[:, None]
    >>> most, least = interval_masses(tree, *tree.tightened(*bounds))
    >>> (most[0] / ONE).tolist()[0], (least[0] / ONE).tolist()[0]
    ([0.5, 1.0], [0.0, 1.0])
    """
    n_boxes = len(lower)
    most = _most_of_intervals(tree, *_with_signs_turned(lower, upper))
    return most[:n_boxes], -most[n_boxes:]


def chain_masses(
    tree: Tree, lower: IntArray, upper: IntArray, chains: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the most and the least mass of growing sets of cells.

    Parameters
    ----------
    tree : Tree
    lower, upper : ndarray of shape (n_boxes, 2 n - 1)
        As `Tree.tightened` returns them.
    chains : ndarray of shape (n_chains, n)
        Permutations of the *places* of the tree: set k of a chain holds its first k + 1 entries.

    Returns
    -------
    most, least : ndarray of shape (n_boxes, n_chains, n)

    Examples
    --------
    >>> tree = Tree.over((2,))
    >>> bounds = np.array([[ONE, 0, ONE // 4], [ONE, ONE // 2, ONE]])[:, None]
    >>> most, least = chain_masses(tree, *tree.tightened(*bounds), np.array([[0, 1], [1, 0]]))
    >>> (most[0] / ONE).tolist(), (least[0] / ONE).tolist()
    ([[0.5, 1.0], [1.0, 1.0]], [[0.0, 1.0], [0.5, 1.0]])
    """
    n_boxes, n_chains = len(lower), len(chains)
    both = _with_signs_turned(lower, upper)
    most = np.empty((2 * n_boxes, *chains.shape), dtype=np.int64)
    step = max(1, _CHUNK // (2 * n_boxes * tree.n_cells))
    for first in range(0, n_chains, step):
        chunk = slice(first, first + step)
        most[:, chunk] = _most_of_chains(tree, *both, chains[chunk])
    return most[:n_boxes], -most[n_boxes:]


def _most_of_intervals(tree: Tree, lower: IntArray, upper: IntArray) -> IntArray:
    n = tree.n_cells
    most = np.zeros((len(lower), n, n), dtype=np.int64)
    # the corner (s, r) where S holds the first cells of a node, up to each place, or its last ones
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
    corners: list[IntArray],
    far: slice,
    near: slice,
    lower: IntArray,
    upper: IntArray,
    family: tuple[int, int, int],
) -> None:
    """Turn corners of two children into those of their parent, in place.

    Sets begin in the ``near`` child: they hold part of it, or all of it and part of the other.
    """
    node, near_child, far_child = family
    s, r = corners
    s[:, far] += upper[:, near_child, None]
    r[:, near] += lower[:, far_child, None]
    for part in (near, far):
        most = np.minimum(s[:, part], upper[:, node, None] - r[:, part])
        r[:, part] = np.maximum(r[:, part], lower[:, node, None] - s[:, part])
        s[:, part] = most


def _most_of_chains(tree: Tree, lower: IntArray, upper: IntArray, chains: IntArray) -> IntArray:
    """Return s+ for each prefix of each chain: down the tree to sort it, and up to add."""
    counts = list(_sorted_down(tree, chains))
    leaves = slice(tree.n_inner, None)
    shape = (len(lower), len(chains), tree.n_cells)
    s = np.broadcast_to(upper[:, None, leaves], shape)
    r = np.zeros(shape, dtype=np.int64)
    for nodes, in_left in zip(reversed(tree.levels), reversed(counts), strict=True):
        s, r = _joined(tree, nodes, in_left, lower, upper, s, r)
    return s


def _sorted_down(tree: Tree, chains: IntArray) -> Iterator[IntArray]:
    """Yield, level by level, how many of each prefix of a node's cells lie in its left child.

    Column c of the result belongs to the node that covers place c, and to its first
    c - start + 1 cells in the order of the chain.
    """
    rows = np.arange(len(chains))[:, None]
    sequence = chains
    for nodes in tree.levels:
        columns, owners = _columns(tree, nodes)
        start, middle = tree.start[owners], tree.middle[owners]
        here = sequence[:, columns]
        left = here < middle
        before = np.cumsum(left, axis=1)
        # what was counted in the nodes to the left is the size of their left children
        sizes = tree.middle[nodes] - tree.start[nodes]
        in_left = before - (np.cumsum(sizes) - sizes)[owners - nodes.start]
        yield in_left
        places = np.where(left, start + in_left - 1, middle + columns - start - in_left)
        sequence = sequence.copy()
        sequence[rows, places] = here


def _joined(
    tree: Tree,
    nodes: slice,
    in_left: IntArray,
    lower: IntArray,
    upper: IntArray,
    s: IntArray,
    r: IntArray,
) -> tuple[IntArray, IntArray]:
    """Turn the corners of all children of one level into those of the parents."""
    columns, owners = _columns(tree, nodes)
    start, middle = tree.start[owners], tree.middle[owners]
    in_right = columns - start + 1 - in_left
    rows = np.arange(len(in_left))[:, None] * tree.n_cells
    n_boxes = len(s)
    flat = [part.reshape(n_boxes, -1) for part in (s, r)]
    total_s, total_r = (np.zeros((n_boxes, *in_left.shape), dtype=np.int64) for _ in "sr")
    for held, first, child in (
        (in_left, start, tree.left[owners]),
        (in_right, middle, tree.right[owners]),
    ):
        places = (rows + first + np.maximum(held, 1) - 1).ravel()
        none = held == 0
        part_s, part_r = (np.take(part, places, axis=1) for part in flat)
        part_s = part_s.reshape(n_boxes, *held.shape)
        part_r = part_r.reshape(n_boxes, *held.shape)
        total_s = total_s + np.where(none, 0, part_s)
        total_r = total_r + np.where(none, lower[:, None, child], part_r)
    new_s, new_r = np.array(s), np.array(r)
    new_s[..., columns] = np.minimum(total_s, upper[:, None, owners] - total_r)
    new_r[..., columns] = np.maximum(total_r, lower[:, None, owners] - total_s)
    return new_s, new_r


def _columns(tree: Tree, nodes: slice) -> tuple[IntArray, IntArray]:
    """Return the places that some nodes cover, and the node that covers each."""
    sizes = tree.stop[nodes] - tree.start[nodes]
    owners = np.repeat(np.arange(nodes.start, nodes.stop), sizes)
    columns = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return columns + tree.start[owners], owners


def _with_signs_turned(lower: IntArray, upper: IntArray) -> tuple[IntArray, IntArray]:
    return np.concatenate([lower, -upper]), np.concatenate([upper, -lower])


def _halves(
    block: tuple[tuple[int, int], ...],
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    lengths = [end - begin for begin, end in block]
    axis = lengths.index(max(lengths))
    begin, end = block[axis]
    cut = (begin + end) // 2
    before, after = block[:axis], block[axis + 1 :]
    return (*before, (begin, cut), *after), (*before, (cut, end), *after)


def _size(block: tuple[tuple[int, int], ...]) -> int:
    size = 1
    for begin, end in block:
        size *= end - begin
    return size


def _cell(block: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index([begin for begin, _ in block], shape))


def _may_overflow(counts: IntArray) -> bool:
    return counts.dtype == object or float(counts.astype(float).sum()) >= 2.0**62
