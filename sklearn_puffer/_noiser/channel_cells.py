"""The cells of a channel: the distinct rows of the released columns, and where each row is.

Of rows that are none: the nearest cells, at the cost of the channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray
from sklearn_puffer._channels import most_cells
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._tables import BLOCK_ROWS, Coded, Column, count
from sklearn_puffer.priors import Discrete

_CHUNK = 1 << 16  # distances held at a time: they stay in the cache

_LARGEST, _LEAST = 1 << 149, 1 << 55
"""Sums of counts beyond the first are scaled down to it; none may then be below the second.

So the products of their shares with those of 14 draws, each 2^-62 or more, are no subnormal floats.
"""


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
        for size, column, keys in zip(self.sizes, codes.T, self._keys, strict=True):
            key = ranks * size + column
            ranks = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            known &= keys[ranks] == key
        return np.where(known, ranks, -1)

    def values(self, columns: Sequence[Column]) -> FloatArray:
        """Return the cells as numbers and codes, shape (n, d)."""
        axes = zip(columns, self.codes.T, strict=True)
        return np.stack([column.atoms[codes] for column, codes in axes], axis=1)

    @cached_property
    def _keys(self) -> list[IntArray]:
        """For each column the numbers, ascending, of what cells have up to there."""
        ranks = np.zeros(len(self.codes), dtype=np.int64)
        found = []
        for size, column in zip(self.sizes, self.codes.T, strict=True):
            keys, ranks = np.unique(ranks * size + column, return_inverse=True)
            found.append(keys)
        return found


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
    found = _counted_cells(read)
    sizes = [len(column.atoms) for column in read.columns]
    seen = [cells.codes for cells in found[0]]
    further = [_codes(law, read.columns) for law in priors]
    cells = Cells.of(np.concatenate([*seen, *further]), sizes)
    _check_size(read, len(cells))
    return CountedCells(cells, _placed(cells, found))


def _counted_cells(read: TableRead, some: Array | None = None) -> list[list[Any]]:
    """Return how often each row of all public columns occurs with each secret, among ``some``."""
    secrets, weights = [secret.coded for secret in read.secrets], read.rows.weights
    columns = [Coded(reader, len(reader.column.atoms)) for reader in read.readers]
    if some is not None:
        weights = some.astype(np.int64) if weights is None else weights * some
    found = count(secrets, columns, [list(range(len(columns)))], read.rows.n_rows, weights)
    return [of_secrets for [of_secrets] in found]


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
    """Return how many rows of each cell are equal to it, by secret as `CountedCells.counts`."""
    merged = [k for k, column in enumerate(read.columns) if column.merged]
    if not merged:
        return list(counted.counts)
    return _placed(counted.cells, _counted_cells(read, _are_representatives(read, merged)))


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


def _codes(law: Discrete, columns: Sequence[Column]) -> Array:
    """Return the atoms of a law that have mass, as rows of codes."""
    rows = law.rows[np.asarray(law.counts > 0, dtype=bool)]
    axes = zip(columns, rows.T, strict=True)
    return np.stack([np.searchsorted(column.atoms, axis) for column, axis in axes], axis=1)


def masses_over(cells: Cells, law: Discrete, columns: Sequence[Column]) -> IntArray:
    """Return the masses of a law over the cells, whole numbers: of Python beyond a sum of 2^62.

    They are those of the law, or off by less than 2^-54 of themselves: less than what
    `repeated_losses` leaves room for.

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


def checked_costs(found: Any, shape: tuple[int, ...], method: str) -> FloatArray:
    """Return what a cost of the caller's own came back with, or refuse it."""
    costs = np.asarray(found, dtype=float)
    if costs.shape != shape or not (np.isfinite(costs) & (costs >= 0.0)).all():
        raise ValueError(
            f"cost.{method} must return finite costs that are not negative, of shape {shape}, got "
            f"shape {costs.shape} and {costs.min(initial=0.0):g} to {costs.max(initial=0.0):g}; "
            "correct it, or leave cost out for distances in units of change."
        )
    return costs


@dataclass(frozen=True, eq=False)
class CellDistance:
    """What moves to cells cost.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        The cells as numbers and codes.
    unordered : ndarray of bool of shape (d,)
    units : ndarray of shape (d,)
    cost : object or None
        The caller's own cost.
    stay : tuple of int
        Columns that stay as they are, whatever that costs.
    """

    values: FloatArray
    unordered: Array
    units: FloatArray
    cost: Any = None
    stay: tuple[int, ...] = ()

    def nearest(self, rows: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the nearest cell of each row of numbers and codes, and what the move costs.

        Of equally near ones it is the first one, whatever the order of rows; -1 where no cell has
        what must stay. NaN is a category that no cell has: the other columns decide, and cost. All
        distances are computed, so that no row takes longer because of its values.

        Examples
        --------
        >>> cells = np.array([[20.0, 0.0], [30.0, 0.0], [30.0, 1.0]])
        >>> distance = CellDistance(cells, np.array([False, True]), np.array([10.0, 1.0]))
        >>> distance.nearest(np.array([[25.0, 0.0], [29.0, 2.0], [31.0, np.nan]]))
        (array([0, 1, 1]), array([0.5, 1.1, 0.1]))
        """
        found, moves = np.full(len(rows), -1), np.full(len(rows), np.inf)
        near = self._within(rows)
        for asked, known in self._alike(rows):
            cells = self._with_the_same(rows[asked[0]])
            columns = np.ascontiguousarray(self.values[cells].T)
            for some in _parts(asked, cells.size):
                costs = self._costs(near[some], columns, known)
                chosen = costs.argmin(axis=1)
                found[some], moves[some] = cells[chosen], costs[np.arange(some.size), chosen]
        with np.errstate(over="ignore"):  # of numbers beyond reason the move is infinite
            return found, moves + np.nansum(np.abs(rows - near) / self.units, axis=1)

    def _within(self, rows: FloatArray) -> FloatArray:
        """Return rows whose numbers lie no further out than those of all cells.

        That takes the same from the distances to all cells, and without it a number that lies far
        out would leave no digits for what the other columns cost.
        """
        if self.cost is not None:
            return rows
        inside = np.clip(rows, self.values.min(axis=0), self.values.max(axis=0))
        return np.where(self.unordered, rows, inside)

    def _alike(self, rows: FloatArray) -> Iterator[tuple[IntArray, BoolArray]]:
        """Yield the rows that have the same in what must stay, and which columns they know."""
        known = ~np.isnan(rows)
        kinds = np.column_stack([np.where(known, rows, 0.0)[:, list(self.stay)], known])
        number = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(number, kind="stable")
        for asked in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
            if asked.size:
                yield asked, known[asked[0]]

    def _with_the_same(self, row: FloatArray) -> IntArray:
        """Return the cells that have of a row what must stay."""
        stay = list(self.stay)
        same: IntArray = (self.values[:, stay] == row[stay]).all(axis=1).nonzero()[0]
        return same

    def _costs(self, rows: FloatArray, cells: FloatArray, known: BoolArray) -> FloatArray:
        """Return all costs of moves to some cells, whose columns stand beside each other."""
        total = np.zeros((len(rows), cells.shape[1]))
        if self.cost is not None and known.all():
            return checked_costs(self.cost.between(rows, cells.T), total.shape, "between")
        for k in known.nonzero()[0].tolist():
            row, cell = rows[:, k, None], cells[k]
            total += (row != cell if self.unordered[k] else np.abs(row - cell)) / self.units[k]
        return total


def _parts(asked: IntArray, n_cells: int) -> Iterator[IntArray]:
    """Cut rows into parts, of which all distances to some cells are held."""
    step = max(_CHUNK // max(n_cells, 1), 1)
    return (asked[start : start + step] for start in range(0, asked.size if n_cells else 0, step))
