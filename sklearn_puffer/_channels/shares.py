"""Shares of a channel while it is mended: entries in whole numbers, and units they stay within."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray
from sklearn_puffer._channels.problem import ChannelProblem, Found
from sklearn_puffer._noise import WHOLE, IntegerRows


class Shares(NamedTuple):
    """Entries (cell x, target y, share of 2^62), in order of x and y, positive and each once."""

    cells: IntArray
    targets: IntArray
    shares: IntArray

    @classmethod
    def joined(cls, parts: Sequence[Shares], n_cells: int) -> Shares:
        """Return the entries of all parts in order, with those of the same place added up."""
        cells, targets, shares = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        places, inverse = np.unique(cells * n_cells + targets, return_inverse=True)
        total = np.zeros(places.size, dtype=np.int64)
        np.add.at(total, inverse, shares)
        kept = total > 0
        return cls(*np.divmod(places[kept], n_cells), total[kept])

    def of(self, cells: BoolArray) -> Shares:
        """Return the entries of some cells."""
        kept = cells[self.cells]
        return Shares(self.cells[kept], self.targets[kept], self.shares[kept])

    def lowered(self, shares: FloatArray) -> Shares:
        """Return the entries with smaller shares, rounded down."""
        whole = np.minimum(np.floor(shares).astype(np.int64), self.shares)
        kept = whole > 0
        return Shares(self.cells[kept], self.targets[kept], whole[kept])

    def missing(self, n_cells: int) -> IntArray:
        """Return what each row lacks to 2^62."""
        total = np.zeros(n_cells, dtype=np.int64)
        np.add.at(total, self.cells, self.shares)
        return WHOLE - total

    def completed(self, targets: IntArray) -> Shares:
        """Return rows that sum to 2^62: what row x lacks goes to targets[x]."""
        missing = self.missing(targets.size)
        rows = missing.nonzero()[0]
        if not rows.size:
            return self
        more = Shares(rows, targets[rows], missing[rows])
        return Shares.joined([self, more], targets.size)

    def rows(self, n_cells: int) -> IntegerRows:
        """Return the value that is drawn and certified."""
        starts = np.append(0, np.cumsum(np.bincount(self.cells, minlength=n_cells)))
        return IntegerRows(starts, self.targets, self.shares)


def read(problem: ChannelProblem, found: Found) -> tuple[Shares, IntArray]:
    """Return what was found as rows that sum to 2^62, and the unit of each cell.

    What is negative, not finite or leads out of a place is left out, and the rest of a row is
    scaled to sum to one; a row of nothing stays where it is. Nothing leads out of a unit: they are
    the blocks within places, and one where entries lead from one block to another.
    """
    n = problem.n_cells
    cells = np.repeat(np.arange(n), np.diff(found.starts))
    targets = np.asarray(found.targets, dtype=np.int64)
    kept = np.isfinite(found.shares) & (found.shares > 0.0)
    if problem.places is not None:
        kept &= problem.places[cells] == problem.places[targets]
    cells, targets, values = cells[kept], targets[kept], np.minimum(found.shares[kept], 1.0)
    sums = np.bincount(cells, weights=values, minlength=n)
    shares = np.floor(values / sums[cells] * WHOLE).astype(np.int64)
    largest = np.arange(n)
    order = np.lexsort((shares, cells))
    largest[cells[order]] = targets[order]  # of several assignments the last one stands
    entries = Shares.joined([Shares(cells, targets, shares)], n).completed(largest)
    return entries, _units(problem, entries, np.asarray(found.block))


def _units(problem: ChannelProblem, entries: Shares, block: Array) -> IntArray:
    names = [block] if problem.places is None else [block, problem.places]
    units = np.unique(np.stack(names, axis=1), axis=0, return_inverse=True)[1].ravel()
    ends = units[entries.cells], units[entries.targets]
    links = sparse.coo_array((np.ones(ends[0].size), ends), shape=(units.max() + 1,) * 2)
    joined: IntArray = connected_components(links, directed=False)[1][units].astype(np.int64)
    return joined
