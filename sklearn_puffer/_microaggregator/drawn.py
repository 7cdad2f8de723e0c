r"""Rows whose columns are drawn, each from the fitted rows of a cell, in bins of the whole table.

A bin has at least ``min_size`` fitted rows, and its median, or most frequent category, is released:
never a value that only one person has, which would show that person's cell past the channel. Given
the cell, columns are drawn independently, in proportion to whole numbers.

For a row that was not fitted that is a function of the released cell, and costs nothing; nor does
it before a reader who holds the fitted rows. A row that was fitted is itself among those that are
drawn from. Let :math:`n_b` be the rows of cell b, :math:`q_s(b)` the share of secret s among them,
and :math:`\pi_s(b)` the chance that a row of secret s that was released as b is of cell b. Before a
reader who knows how values are distributed, but not who was fitted, d of its columns lose at most

.. math:: \max_{b, s} \log \frac{n_b + d \min(1 / q_s(b) - 1,\; \pi_s(b) / q_s(b))}{n_b - d}

besides, whatever hangs together within a cell. For let F(m, C) be the expected product over the
columns C of how many of m independent rows of the cell lie in a given bin: a sum over the ways to
part C into k rows, each weighed by :math:`m (m - 1) \dots (m - k + 1)`. So
:math:`F(n - 1, C) \ge (1 - d / n) F(n, C)`. Let :math:`p_S` be the chance that a row of the cell
lies in the bins of the columns S, and :math:`r_S` that of one of secret s, :math:`q_s r_S \le p_S`.
Then :math:`F(n, C) = \sum_S p_S F(n - 1, C \setminus S)`, and with r in the place of p these are
the draws where one of the n rows has secret s: at most
:math:`F(n, C) (1 + (1 / q_s - 1) d / n)`, and at least :math:`F(n - 1, C)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._microaggregator.coordinates import Sample, of_two
from sklearn_puffer._microaggregator.prototypes import finished_columns, typical
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._tables import Finished, Name, Table, Values

MOST_BINS = 50
"""Bins of the numbers of a column."""


class Words(Protocol):
    """A source of bits, fresh or of each row."""

    def words(self, count: int) -> Array:
        """Return 64 bits for each of so many rows."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of one column.

    Attributes
    ----------
    values : Values
        What is released for each.
    edges : ndarray or None
        Upper ends of all bins of numbers but the last.
    place_of : dict or None
        The bin of each category that was sampled.
    rest : int
        The bin of what is missing, or of a category that was not sampled.
    """

    values: Values
    edges: Array | None
    place_of: Mapping[object, int] | None
    rest: int

    def places(self, values: Values) -> IntArray:
        """Return the bin of each value of rows of the fitted table."""
        gone = values.missing
        if self.place_of is not None:
            coded = of_two(values) if values.kind == "boolean" else values.as_levels()
            levels = (*(coded.levels or ()), None)
            table = np.array([self.place_of.get(level, self.rest) for level in levels])
            return np.take(table, coded.filled(-1), mode="wrap")
        assert self.edges is not None
        places = np.searchsorted(self.edges, values.of_kind(self.values.kind).data)
        return places if gone is None else np.where(gone, self.rest, places)


def learnt_bins(sample: Sample, min_size: int) -> dict[Name, Bins]:
    """Return bins of each column of a sample, with at least ``min_size`` of its rows each."""
    return {
        name: (_number_bins if values.kind in ("float", "integer") else _level_bins)(
            values, sample, min_size
        )
        for name, values in sample.columns.items()
    }


def _number_bins(values: Values, sample: Sample, min_size: int) -> Bins:
    """Return bins of equally many rows, as far as values repeat no more often than that."""
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    there = np.flatnonzero(~gone)
    atoms, back = np.unique(values.data[there], return_inverse=True)
    counts = np.bincount(back.ravel(), sample.counts[there])
    weights = np.bincount(back.ravel(), sample.weights[there])
    of_atom = _runs(counts, weights, min_size)
    n_bins = int(of_atom[-1]) + 1 if len(of_atom) else 0
    groups = np.empty(len(values), dtype=np.intp)
    groups[there] = of_atom[back.ravel()]
    apart = sample.counts[gone].sum() >= min_size  # as of a column that is missing as a whole
    # too few that lack a number are counted where the median is
    below = np.cumsum(weights)
    rest = n_bins if apart else int(of_atom[np.searchsorted(below, below[-1] / 2)])
    groups[gone] = rest
    n_groups = n_bins + bool(apart and gone.any())
    counted = np.where(gone & (not apart), 0, sample.weights)
    edges = atoms[np.flatnonzero(np.diff(of_atom))]
    return Bins(typical(values, groups, counted, n_groups), edges, None, rest)


def _runs(counts: Array, weights: Array, min_size: int) -> IntArray:
    """Return the bin of each value in ascending order: runs of enough rows."""
    bins, n_bins = np.zeros(len(counts), dtype=np.intp), 0
    least, rows, weight = weights.sum() / MOST_BINS, 0, 0
    for k, (count, stood_for) in enumerate(zip(counts.tolist(), weights.tolist(), strict=True)):
        bins[k], rows, weight = n_bins, rows + count, weight + stood_for
        if rows >= min_size and weight >= least:
            n_bins, rows, weight = n_bins + 1, 0, 0
    if rows < min_size and n_bins:  # what is left at the end is part of the last bin
        bins[bins == n_bins] = n_bins - 1
    return bins


def _level_bins(values: Values, sample: Sample, min_size: int) -> Bins:
    """Return a bin for each frequent category, and one for the others.

    If these are too few, the least frequent of the frequent ones are among them.
    """
    coded = of_two(values) if values.kind == "boolean" else values
    levels = (*(coded.levels or ()), None)
    codes = coded.filled(-1) % len(levels)
    counts = np.bincount(codes, sample.counts, len(levels))
    by_size = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n_apart = int((counts[by_size] >= min_size).sum())
    left = counts[by_size[n_apart:]].sum()
    if 0 < left < min_size:
        n_apart -= 1
    place = np.full(len(levels), n_apart, dtype=np.intp)
    place[by_size[:n_apart]] = np.arange(n_apart)
    n_bins = min(n_apart + 1, len(by_size))
    released = typical(values, place[codes], sample.weights, n_bins)
    place_of = {levels[k]: int(place[k]) for k in by_size}
    return Bins(released, None, place_of, n_bins - 1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """How the columns of a released row are drawn.

    Attributes
    ----------
    values : dict of Values
        For each column what is released for each bin.
    counts : dict of ndarray of int64 of shape (n_prototypes, n_bins)
        The fitted rows of each cell in each bin; every cell has some.
    """

    values: Mapping[Name, Values]
    counts: Mapping[Name, IntArray]

    def draw(self, codes: IntArray, source: Words) -> dict[Name, IntArray]:
        """Return the bin of each column of rows that are released as these prototypes.

        Parameters
        ----------
        codes : ndarray of int of shape (n,)
        source : object
            Its method ``words`` gives, for each column in turn, a word of 64 fair bits a row.

        Notes
        -----
        *Formal guarantees.* Bins are drawn in proportion to the counts, up to 2^-62 of the rows of
        the cell for the largest of them.
        """
        size = len(codes)
        return {
            name: rows.sampler().draw(codes, np.asarray(source.words(size)))
            for name, rows in self._shares.items()
        }

    def finished(self, table: Table, bins: Mapping[Name, IntArray]) -> dict[Name, Finished]:
        """Return the columns in the place of the rows of a table, to be built."""
        return finished_columns(table, self.values, bins)

    @cached_property
    def _shares(self) -> dict[Name, IntegerRows]:
        return {name: _rows(counts) for name, counts in self.counts.items()}


def _rows(counts: IntArray) -> IntegerRows:
    """Return shares of 2^62 that are in proportion to counts, of all bins that have any.

    A channel of cells has as many rows as targets: those beyond the cells are never asked for.
    """
    starts, targets, shares = [0], [], []
    for row in counts.tolist():
        bins = [k for k, count in enumerate(row) if count]
        parts = [row[k] * WHOLE // sum(row) for k in bins]
        parts[parts.index(max(parts))] += WHOLE - sum(parts)
        targets += bins
        shares += parts
        starts.append(len(targets))
    for _ in range(counts.shape[1] - counts.shape[0]):
        targets.append(0)
        shares.append(WHOLE)
        starts.append(len(targets))
    return IntegerRows(*(np.array(each, dtype=np.int64) for each in (starts, targets, shares)))


class DrawnCounts:
    """Counts of fitted rows in the bins of each cell, to which blocks of rows are added.

    Parameters
    ----------
    bins : dict of Bins
    n_prototypes : int
    """

    def __init__(self, bins: Mapping[Name, Bins], n_prototypes: int) -> None:
        self._bins = bins
        self._counts = {name: np.zeros((n_prototypes, len(b.values))) for name, b in bins.items()}

    def add(
        self, columns: Mapping[Name, Values], codes: IntArray, weights: Array | None = None
    ) -> None:
        """Add some fitted rows, which are of these prototypes."""
        for name, bins in self._bins.items():
            counts = self._counts[name]
            cells = codes * counts.shape[1] + bins.places(columns[name])
            counts += np.bincount(cells, weights, counts.size).reshape(counts.shape)

    def drawn(self) -> Drawn:
        """Return how columns are drawn, once all rows were added."""
        values = {name: bins.values for name, bins in self._bins.items()}
        return Drawn(values, {name: c.astype(np.int64) for name, c in self._counts.items()})


def fitted_row_loss(
    counts: IntArray, sizes: IntArray, channel: FloatArray, n_columns: int
) -> float:
    """Return what drawn columns of a fitted row may lose besides; see the module.

    Infinite where a prototype has no more rows than there are columns.

    Parameters
    ----------
    counts : ndarray of int of shape (n_prototypes, n_secrets)
        Rows of each protected secret.
    sizes : ndarray of int of shape (n_prototypes,)
        All rows, at least two of each prototype.
    channel : ndarray of shape (n_prototypes, n_prototypes)
        K, with rows that sum to 1.
    n_columns : int
        How many columns are looked at together.

    Examples
    --------
    >>> counts = np.array([[20, 10], [10, 20]])
    >>> round(fitted_row_loss(counts, np.array([30, 30]), np.eye(2), n_columns=1), 3)
    0.098
    >>> round(fitted_row_loss(counts, np.array([30, 30]), np.eye(2), n_columns=5), 3)
    0.47
    """
    if n_columns >= sizes.min():
        return float("inf")
    stays = (sizes * np.diag(channel))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        own = sizes[:, None] / counts - 1.0
        released = channel.T @ counts  # of each secret: where nobody is, nobody loses
        told = np.where((stays > 0.0) & (released > 0.0), stays / released, 0.0)
    rows = sizes[:, None]
    worst = (rows + n_columns * np.minimum(own, told)) / (rows - n_columns)
    return float(np.log(worst.max()))
