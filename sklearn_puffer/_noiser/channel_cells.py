"""The cells of a channel: the distinct rows of the released columns, and where each row is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._channels import most_cells
from sklearn_puffer._noiser.lazy_rows import counted_cells
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.rows import LazyRows
from sklearn_puffer._tables import BLOCK_ROWS, Column
from sklearn_puffer.priors import Discrete

_LARGEST, _LEAST = 1 << 149, 1 << 55
"""Sums of counts beyond the first are scaled down to it; none may then be below the second.

So the products of their shares with those of 14 draws, each 2^-62 or more, are no subnormal floats.
"""

_MOST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Cells:
    """Distinct rows of codes.

    Attributes
    ----------
    codes : ndarray of intp of shape (n, d)
        In lexicographic order.
    sizes : tuple of int
        How many codes each column has.
    """

    codes: Array
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, codes: Array, sizes: Sequence[int]) -> Cells:
        """Return the distinct ones of some rows of codes."""
        return cls(np.unique(codes, axis=0), tuple(sizes))

    def __len__(self) -> int:
        return len(self.codes)

    def find(self, codes: Array) -> Array:
        """Return the cell of each row of codes, -1 where it is none."""
        ranks = np.zeros(len(codes), dtype=np.int64)
        known = np.ones(len(codes), dtype=bool)
        for part, keys in zip(self._parts, self._keys, strict=True):
            key = self._key(ranks, codes[:, part], part)
            ranks = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            known &= keys[ranks] == key
        return np.where(known, ranks, -1)

    def values(self, columns: Sequence[Column]) -> FloatArray:
        """Return the cells as numbers and codes, shape (n, d)."""
        axes = zip(columns, self.codes.T, strict=True)
        return np.stack([column.atoms[codes] for column, codes in axes], axis=1)

    @cached_property
    def _parts(self) -> list[slice]:
        """Runs of columns whose codes, after the rank of all before, are one whole number."""
        starts, room = [0], _MOST_KEY // max(len(self.codes), 1)
        for column, size in enumerate(self.sizes):
            room //= size
            if room == 0 and column > starts[-1]:
                starts.append(column)
                room = _MOST_KEY // (max(len(self.codes), 1) * size)
        return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(self.sizes)], strict=True)]

    @cached_property
    def _keys(self) -> list[IntArray]:
        """For each part, the ascending numbers that rows of cells have there."""
        ranks = np.zeros(len(self.codes), dtype=np.int64)
        found = []
        for part in self._parts:
            key = self._key(ranks, self.codes[:, part], part)
            keys, ranks = np.unique(key, return_inverse=True)
            found.append(keys)
        return found

    def _key(self, ranks: IntArray, codes: Array, part: slice) -> IntArray:
        key = ranks.copy()
        for size, column in zip(self.sizes[part], codes.T, strict=True):
            key *= size
            key += column
        return key


@dataclass(frozen=True, eq=False)
class CountedCells:
    """The cells of a table, and how often each occurs with each secret.

    Attributes
    ----------
    cells : Cells
        Those of the rows, and those that further priors know.
    counts : list of ndarray of int64 of shape (n_secrets, n)
        One for each sensitive column.
    """

    cells: Cells
    counts: list[IntArray]

    @property
    def rows(self) -> IntArray:
        """How often each cell occurs, shape (n,)."""
        total: IntArray = self.counts[0].sum(axis=0)
        return total


def count_cells(read: TableRead, priors: Sequence[Discrete]) -> CountedCells:
    """Return the cells of a table and of what some priors give mass to.

    Raises
    ------
    ValueError
        If they are more than a program is solved for, before the laws over them are allocated.
    """
    found = counted_cells(read)
    sizes = [len(column.atoms) for column in read.columns]
    seen = [cells.codes for cells in found[0]]
    further = [_codes(law, read.columns) for law in priors]
    cells = Cells.of(np.concatenate([*seen, *further]), sizes)
    _check_size(read, len(cells))
    return CountedCells(cells, _placed(cells, found))


def _placed(cells: Cells, found: Sequence[Sequence[Any]]) -> list[IntArray]:
    """Return how often each of some cells occurs with each secret."""
    counts = []
    for of_secrets in found:
        table = np.zeros((len(of_secrets), len(cells)), dtype=np.int64)
        for row, of_secret in zip(table, of_secrets, strict=True):
            row[cells.find(of_secret.codes)] = of_secret.counts
        counts.append(table)
    return counts


def count_representatives(read: TableRead, counted: CountedCells) -> list[Any]:
    """Return how many rows of each cell are equal to it, by secret as `CountedCells.counts`.

    Of a lazy table rows of bins are all that is counted: a number is then taken to be as frequent
    in each of them, as in its bin.
    """
    merged = [k for k, column in enumerate(read.columns) if column.merged]
    if not merged:
        return list(counted.counts)
    if not isinstance(read.rows, LazyRows):
        return _placed(counted.cells, counted_cells(read, _are_representatives(read, merged)))
    shares = np.ones(len(counted.cells))
    for k in merged:
        shares *= _shares_of_representatives(read.columns[k])[counted.cells.codes[:, k]]
    return [table * shares for table in counted.counts]


def _are_representatives(read: TableRead, merged: Sequence[int]) -> Array:
    """Return which rows have nothing but representatives of their bins."""
    same = np.ones(read.rows.n_rows, dtype=bool)
    for start in range(0, read.rows.n_rows, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, read.rows.n_rows))
        codes = np.empty(rows.stop - start, dtype=np.intp)
        for k in merged:
            reader = read.readers[k]
            reader.codes(rows, codes)
            data = reader.data(rows)
            same[rows] &= (data == read.columns[k].atoms[codes]) | np.isnan(data)
    return same


def _shares_of_representatives(column: Column) -> FloatArray:
    assert column.raw is not None
    values, counts = column.raw
    bins = column.places_of_ascending(values)
    every = np.bincount(bins, counts, len(column.atoms))
    equal = np.bincount(bins, counts * (values == column.atoms[bins]), len(column.atoms))
    shares: FloatArray = np.divide(equal, every, out=np.zeros(len(every)), where=every > 0)
    return shares


def _codes(law: Discrete, columns: Sequence[Column]) -> Array:
    """Return the atoms of a law that have mass, as rows of codes."""
    rows = law.rows[np.asarray(law.counts > 0, dtype=bool)]
    axes = zip(columns, rows.T, strict=True)
    return np.stack([np.searchsorted(column.atoms, axis) for column, axis in axes], axis=1)


def masses_over(cells: Cells, law: Discrete, columns: Sequence[Column]) -> IntArray:
    """Return the masses of a law over the cells, whole numbers: of Python beyond a sum of 2^62.

    They are those of the law, or off by less than 2^-54 of themselves: less than what
    `channel_losses` leaves room for.

    Raises
    ------
    LookupError
        If it has mass where there is no cell.
    ValueError
        If it has less mass somewhere than the proof of a channel can tell from none.
    """
    some = np.asarray(law.counts > 0, dtype=bool)
    masses = np.zeros(len(cells), dtype=np.int64 if law.total < 2**62 else object)
    counts = _whole_counts(law, some)
    places = cells.find(_codes(law, columns))
    if (places < 0).any():
        raise LookupError(str(law.rows[some][places < 0][0].tolist()))
    masses[places] = counts
    return masses


def _whole_counts(law: Discrete, some: Array) -> list[int]:
    """Return the positive counts of a law, of which each over the sum is a float, and not tiny."""
    counts = [int(count) for count in law.counts[some].tolist()]
    if law.total < _LARGEST:
        return counts
    scaled = [count * _LARGEST // law.total for count in counts]
    least = int(np.argmin(scaled))
    if scaled[least] < _LEAST:
        raise ValueError(
            f"a prior gives the row {law.rows[some][least].tolist()} the probability "
            f"{counts[least] / law.total:.3g}, which is too small for the proof of a channel; give "
            f"it 0, or {_LEAST / _LARGEST:.1g} at least."
        )
    return scaled


def _check_size(read: TableRead, n_cells: int) -> None:
    settings, each = read.settings, 1 + len(read.settings.adversaries)
    assert settings.channel is not None
    n_rows = each * sum(len(secret.labels) for secret in read.secrets)
    if settings.notion.delta > 0.0:  # a row for each ordered pair, and not for each law
        n_rows = max(n_rows, 2 * each * sum(map(len, read.pairs.values())))
    most = most_cells(n_rows, floor=settings.channel.floor is not None)
    if n_cells > most:
        raise ValueError(
            f"the released columns have {n_cells:,} distinct rows, more than the {most:,} that "
            'noise="optimal" is found for with such secrets, adversaries and budget; use bins '
            '(n_bins) or fewer columns, or noise="swap", which takes wide tables.'
        )
