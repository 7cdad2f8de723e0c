r"""``values="drawn"``: columns are drawn from the fitted rows of the released cell, in bins.

The cell of a prototype is the fitted rows that are assigned to it. A bin, of the whole table, has
at least ``min_size`` fitted rows, and its median, or most frequent category, is released: never a
value that only one person has, which would reveal that person's cell despite the channel. Given the
cell, columns are drawn independently, in proportion to the counts of its rows in the bins.

For a row that was not fitted, and for a reader who holds the fitted rows, the draw is a function of
the released cell and adds no loss. A fitted row is itself among those that are drawn from. Let
:math:`n_b` be the number of rows of cell b, :math:`q_s(b)` the share of secret s among them, and
:math:`\pi_s(b)` the probability that a row of secret s that is released as b is of cell b. To a
reader who knows the distribution of values, but not who was fitted, d columns of a fitted row lose
at most

.. math:: \max_{b, s} \log \frac{n_b + d \min(1 / q_s(b) - 1,\; \pi_s(b) / q_s(b))}{n_b - d}

besides, however columns depend on each other within a cell. Proof: let F(m, C) be the expected
product over the columns C of how many of m independent rows of the cell lie in a given bin: a sum
over the partitions of C into k blocks, each weighted by :math:`m (m - 1) \dots (m - k + 1)`. So
:math:`F(n - 1, C) \ge (1 - d / n) F(n, C)`. Let :math:`p_S` be the probability that a row of the
cell lies in the bins of the columns S, and :math:`r_S` that of a row of secret s, so that
:math:`q_s r_S \le p_S`. Then :math:`F(n, C) = \sum_S p_S F(n - 1, C \setminus S)`, and with r in
the place of p this is the product if one of the n rows has secret s: at most
:math:`F(n, C) (1 + (1 / q_s - 1) d / n)`, and at least :math:`F(n - 1, C)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._microaggregator.coordinates import Sample, booleans_as_codes
from sklearn_puffer._microaggregator.program import whole_rows
from sklearn_puffer._microaggregator.prototypes import finished_columns, typical
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._tables import Finished, Name, Table, Values

MOST_BINS = 50
"""Bins of the numbers of a column."""


class BitSource(Protocol):
    """A source of random bits, fresh or keyed."""

    def words(self, count: int) -> Array:
        """Return 64 bits for each of so many rows."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of one column.

    Attributes
    ----------
    values : Values
        The released value of each bin.
    edges : ndarray or None
        Upper ends of all bins of numbers but the last.
    code_of : dict or None
        The bin of each category in the sample.
    rest : int
        The bin of missing numbers, or of categories that are not in the sample.
    """

    values: Values
    edges: Array | None
    code_of: Mapping[object, int] | None
    rest: int

    def codes(self, values: Values) -> IntArray:
        """Return the bin of each value of rows of the fitted table."""
        gone = values.missing
        if self.code_of is not None:
            coded = booleans_as_codes(values) if values.kind == "boolean" else values.as_levels()
            levels = (*(coded.levels or ()), None)
            table = np.array([self.code_of.get(level, self.rest) for level in levels])
            return np.take(table, coded.filled(-1), mode="wrap")
        assert self.edges is not None
        codes = np.searchsorted(self.edges, values.of_kind(self.values.kind).data)
        return codes if gone is None else np.where(gone, self.rest, codes)


def learnt_bins(sample: Sample, min_size: int) -> dict[Name, Bins]:
    """Return bins of each column of a sample, with at least ``min_size`` of its rows each."""
    return {
        name: (_number_bins if values.kind in ("float", "integer") else _level_bins)(
            values, sample, min_size
        )
        for name, values in sample.columns.items()
    }


def _number_bins(values: Values, sample: Sample, min_size: int) -> Bins:
    """Return bins of about equally many rows; a value is never split."""
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    there = np.flatnonzero(~gone)
    atoms, back = np.unique(values.data[there], return_inverse=True)
    counts = np.bincount(back.ravel(), sample.counts[there])
    weights = np.bincount(back.ravel(), sample.weights[there])
    of_atom = _runs(counts, weights, min_size)
    n_bins = int(of_atom[-1]) + 1 if len(of_atom) else 0
    groups = np.empty(len(values), dtype=np.intp)
    groups[there] = of_atom[back.ravel()]
    has_own_bin = sample.counts[gone].sum() >= min_size  # of missing values; else the median's bin
    below = np.cumsum(weights)
    rest = n_bins if has_own_bin else int(of_atom[np.searchsorted(below, below[-1] / 2)])
    groups[gone] = rest
    n_groups = n_bins + bool(has_own_bin and gone.any())
    counted = np.where(gone & (not has_own_bin), 0, sample.weights)
    edges = atoms[np.flatnonzero(np.diff(of_atom))]
    return Bins(typical(values, groups, counted, n_groups), edges, None, rest)


def _runs(counts: Array, weights: Array, min_size: int) -> IntArray:
    """Return the bin of each distinct value, ascending, with at least ``min_size`` rows."""
    bins, n_bins = np.zeros(len(counts), dtype=np.intp), 0
    least, rows, weight = weights.sum() / MOST_BINS, 0, 0
    for k, (count, each) in enumerate(zip(counts.tolist(), weights.tolist(), strict=True)):
        bins[k], rows, weight = n_bins, rows + count, weight + each
        if rows >= min_size and weight >= least:
            n_bins, rows, weight = n_bins + 1, 0, 0
    if rows < min_size and n_bins:  # a last bin that is too small joins the one before
        bins[bins == n_bins] = n_bins - 1
    return bins


def _level_bins(values: Values, sample: Sample, min_size: int) -> Bins:
    """Return a bin for each frequent category, and one for all others.

    If the others have too few rows, the least frequent of the frequent ones joins them.
    """
    coded = booleans_as_codes(values) if values.kind == "boolean" else values
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
    code_of = {levels[k]: int(place[k]) for k in by_size}
    return Bins(released, None, code_of, n_bins - 1)


@dataclass(frozen=True, eq=False)
class ColumnSampler:
    """Draws the columns of a released row.

    Attributes
    ----------
    values : dict of Values
        For each column the released value of each bin.
    counts : dict of ndarray of int64 of shape (n_prototypes, n_bins)
        Fitted rows of each cell in each bin; no cell is empty.
    """

    values: Mapping[Name, Values]
    counts: Mapping[Name, IntArray]

    def draw(self, codes: IntArray, source: BitSource) -> dict[Name, IntArray]:
        """Draw the bin of each column of rows that are released as these prototypes.

        Parameters
        ----------
        codes : ndarray of int of shape (n,)
        source : object
            Its method ``words`` gives, for each column in turn, a word of 64 fair bits a row.

        Notes
        -----
        *Formal guarantees.* The probability of a bin is its share of the rows of the cell, up to
        2^-52 of it, which the largest makes up for.
        """
        size = len(codes)
        return {
            name: rows.sampler().draw(codes, np.asarray(source.words(size)))
            for name, rows in self._shares.items()
        }

    def finished(self, table: Table, bins: Mapping[Name, IntArray]) -> dict[Name, Finished]:
        """Return the columns of a table with the released values of these bins, to be built."""
        return finished_columns(table, self.values, bins)

    @cached_property
    def _shares(self) -> dict[Name, IntegerRows]:
        return {name: _rows(counts) for name, counts in self.counts.items()}


def _rows(counts: IntArray) -> IntegerRows:
    """Return counts as shares of 2^62, with as many rows as targets: those behind are padding."""
    n_cells, n_bins = counts.shape
    shares = np.eye(max(counts.shape))
    shares[:n_cells] = 0.0
    shares[:n_cells, :n_bins] = counts / counts.sum(axis=1, keepdims=True)
    return whole_rows(shares)


class BinCounts:
    """Counts of fitted rows in the bins of each cell.

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
        """Count some fitted rows, whose prototypes are ``codes``."""
        for name, bins in self._bins.items():
            counts = self._counts[name]
            cells = codes * counts.shape[1] + bins.codes(columns[name])
            counts += np.bincount(cells, weights, counts.size).reshape(counts.shape)

    def drawn(self) -> ColumnSampler:
        """Return the sampler of columns, once all rows were added."""
        values = {name: bins.values for name, bins in self._bins.items()}
        return ColumnSampler(values, {name: c.astype(np.int64) for name, c in self._counts.items()})


def fitted_row_loss(
    counts: IntArray, sizes: IntArray, channel: FloatArray, n_columns: int
) -> float:
    """Return the bound on the extra loss of drawn columns of a fitted row; see the module.

    Infinite if a prototype has no more than ``n_columns`` rows.

    Parameters
    ----------
    counts : ndarray of int of shape (n_prototypes, n_secrets)
        Rows of each protected secret.
    sizes : ndarray of int of shape (n_prototypes,)
        All rows, at least two of each prototype.
    channel : ndarray of shape (n_prototypes, n_prototypes)
        K, with rows that sum to 1.
    n_columns : int
        Columns that the reader sees together.

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
