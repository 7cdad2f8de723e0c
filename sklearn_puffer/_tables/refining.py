"""The bins of a column with more distinct numbers than are fetched, from counts of cells.

An edge or a median is the number with so many rows before it. An engine counts the rows of each
cell, and says the lowest and the highest number in it, so that nobody relies on how it rounds; the
cells in which such a number may lie are cut again, until those that are left hold few enough rows
to be fetched. What comes back are numbers and counts with the same edges, medians and cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import narwhals.stable.v2 as nw
import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._tables import coarse

VALUE = "v"
"""What the column is called in a query; its numbers are floats of 64 bits."""

_LEAST_DISTINCT = 8  # numbers that a bin must have at least, as far as anybody knows


class ChangedError(ValueError):
    """The counts of two queries are not those of one table."""


class TooFineError(ValueError):
    """The numbers that matter lie too close to be cut apart."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a column, ascending and apart.

    Attributes
    ----------
    lows, highs : ndarray of shape (n,)
        The lowest and the highest number in each.
    counts : ndarray of int of shape (n,)
    """

    lows: FloatArray
    highs: FloatArray
    counts: Array

    def at(self, where: Array) -> Cells:
        """Return some of them."""
        return Cells(self.lows[where], self.highs[where], self.counts[where])

    @property
    def wide(self) -> Array:
        """Which of them hold more than one number."""
        return self.highs > self.lows

    def numbers(self) -> tuple[FloatArray, Array]:
        """Return numbers and counts that have the same cells: the ends of each."""
        wide = self.wide
        numbers = np.concatenate([self.lows, self.highs[wide]])
        counts = np.concatenate([self.counts - wide, np.ones(int(wide.sum()), dtype=np.int64)])
        order = np.argsort(numbers, kind="stable")
        return numbers[order], counts[order]


Ask = Callable[[nw.Expr, nw.Expr], Cells]
"""Returns the groups of equal keys among the rows that a condition holds of, ascending."""


def may_refine(n_bins: int | None) -> bool:
    """Return whether the bins are few enough to be found by cells."""
    return n_bins is not None and n_bins * _LEAST_DISTINCT <= coarse.MOST_DISTINCT


def refined(ask: Ask, whole: Cells, n_bins: int) -> Cells:
    """Return cells of which those with the edges and medians of the bins are single numbers.

    Parameters
    ----------
    ask : callable
    whole : Cells
        The one cell of the whole column.
    n_bins : int

    Raises
    ------
    ChangedError
        If the table has other rows than those that were counted before.
    TooFineError
        If more numbers than are fetched lie too close to each other.
    """
    cells = _cut(ask, whole, np.ones(1, dtype=bool), coarse.first_pieces())
    for _ in coarse.to_cut_again():
        again = coarse.crowded(cells.lows, cells.highs, cells.counts)
        if again.any():
            cells = _cut(ask, cells, again, coarse.further_pieces())
    while (wanted := _in_reach(cells, n_bins)).any():
        cells = _closer(ask, cells, wanted)
    return cells


def _closer(ask: Ask, cells: Cells, wanted: Array) -> Cells:
    """Return cells with the numbers of those that are wanted, or with pieces of the fullest."""
    if cells.counts[wanted].sum() <= coarse.MOST_DISTINCT:
        return _replaced(cells, wanted, ask(_is_in(cells.at(wanted)), nw.col(VALUE)))
    fit = np.flatnonzero(wanted & (coarse.densities(cells.lows, cells.highs, 1) > 0.0))
    if not fit.size:
        raise TooFineError
    fullest = np.zeros(len(wanted), dtype=bool)
    fullest[fit[np.argsort(-cells.counts[fit], kind="stable")[: coarse.CROWD]]] = True
    return _cut(ask, cells, fullest, coarse.further_pieces())


def _in_reach(cells: Cells, n_bins: int) -> Array:
    """Return which cells of several numbers may hold an edge or a median that is asked for.

    Edges alone where the medians, which depend on them, are not yet known well enough.
    """
    upto = np.cumsum(cells.counts)
    ranks = [(int(upto[-1]) - 1) * b // n_bins for b in range(1, n_bins)]
    places = np.searchsorted(upto, ranks, side="right")
    edges = np.zeros(len(upto), dtype=bool)
    edges[places] = True
    edges &= cells.wide
    both = (edges | _of_medians(cells, upto, places)) & cells.wide
    if edges.any() and cells.counts[both].sum() > coarse.MOST_DISTINCT:
        return edges
    return both


def _of_medians(cells: Cells, upto: Array, places: Array) -> Array:
    """Return which cells may hold the median of a bin, given those that hold the edges."""
    total = upto[-1:]
    # how many rows an edge has up to itself, at least and at most
    most = upto[places]
    least = np.where(cells.wide[places], most - cells.counts[places] + 1, most)
    first, last = (
        np.append(0, ends) + np.append(ends, total) for ends in (least, most)
    )  # twice the middle
    lows = np.searchsorted(upto, np.minimum((first - 1) // 2, total - 1), side="right")
    highs = np.searchsorted(upto, np.minimum(last // 2, total - 1), side="right")
    steps = np.bincount(lows, minlength=len(upto) + 1)
    steps -= np.bincount(highs + 1, minlength=len(upto) + 1)
    return np.cumsum(steps)[:-1] > 0


def _cut(ask: Ask, cells: Cells, which: Array, pieces: int) -> Cells:
    own = cells.at(which)
    parts = ask(_is_in(own), _piece(own, pieces))
    parents = np.searchsorted(own.lows, parts.lows, side="right") - 1
    units = coarse.densities(own.lows, own.highs, pieces)[parents]
    first, last = (
        np.floor((ends - own.lows[parents]) * units) for ends in (parts.lows, parts.highs)
    )
    if not np.array_equal(first, last):
        raise ChangedError
    return _replaced(cells, which, parts)


def _replaced(cells: Cells, which: Array, parts: Cells) -> Cells:
    """Return the cells with parts instead of some, if those are parts of them."""
    own = cells.at(which)
    parents = np.searchsorted(own.lows, parts.lows, side="right") - 1
    same = len(parts.lows) and parents[0] >= 0 and (parts.highs <= own.highs[parents]).all()
    if not same or not np.array_equal(
        np.bincount(parents, parts.counts, len(own.lows)), own.counts
    ):
        raise ChangedError
    kept = cells.at(~which)
    lows, highs, counts = (
        np.concatenate(pair)
        for pair in (
            (kept.lows, parts.lows),
            (kept.highs, parts.highs),
            (kept.counts, parts.counts),
        )
    )
    order = np.argsort(lows, kind="stable")
    found = Cells(lows, highs, counts).at(order)
    if (found.lows[1:] <= found.highs[:-1]).any():
        raise ChangedError
    return found


def _is_in(cells: Cells) -> nw.Expr:
    """Return the condition that a number is in one of the cells."""
    below = np.nextafter(cells.lows, -np.inf)
    ends = np.stack([below, cells.highs], axis=1).ravel().tolist()
    inside = [bool(k % 2) for k in range(len(ends) + 1)]
    return chosen(ends, [nw.lit(each, nw.Boolean) for each in inside])


def _piece(cells: Cells, pieces: int) -> nw.Expr:
    """Return a number for each piece of each cell, ascending."""
    ends = cells.highs[:-1].tolist()
    densities = coarse.densities(cells.lows, cells.highs, pieces).tolist()
    steps = [
        (nw.col(VALUE) - low) * each
        for low, each in zip(cells.lows.tolist(), densities, strict=True)
    ]
    numbers = [each.floor() + float(k * (pieces + 2)) for k, each in enumerate(steps)]
    return chosen(ends, numbers)


def chosen(edges: Sequence[float], ways: Sequence[nw.Expr]) -> nw.Expr:
    """Return what belongs to the interval of a number, found by halving."""
    if not edges:
        return ways[0]
    half = len(edges) // 2
    return (
        nw.when(nw.col(VALUE) > edges[half])
        .then(chosen(edges[half + 1 :], ways[half + 1 :]))
        .otherwise(chosen(edges[:half], ways[: half + 1]))
    )
