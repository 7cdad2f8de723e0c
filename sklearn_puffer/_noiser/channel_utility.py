"""How much of the data survives a channel, summed up over the rows of `fit` and its shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from sklearn_puffer._base import Array
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.adversaries import Known
from sklearn_puffer._noiser.channel import as_matrix
from sklearn_puffer._noiser.channel_cells import Cells, CountedCells
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.rows import LazyRows
from sklearn_puffer._noiser.utility import changes_of, utility_of, utility_without_order
from sklearn_puffer._releases import ColumnUtility
from sklearn_puffer._tables import BLOCK_ROWS, Column, nearest


def channel_utilities(
    read: TableRead, known: Known, counted: CountedCells, rows: IntegerRows
) -> tuple[ColumnUtility, ...]:
    """Return what survives of each column."""
    matrix = as_matrix(rows)
    return tuple(_utility(read, known, counted, matrix, k) for k in range(len(read.columns)))


def _utility(
    read: TableRead, known: Known, counted: CountedCells, matrix: Any, k: int
) -> ColumnUtility:
    column, codes = read.columns[k], counted.cells.codes[:, k]
    n_cells, n_atoms = len(codes), len(column.atoms)
    every, ones = np.arange(n_cells), np.ones(n_cells)
    becomes = matrix @ coo_array((ones, (every, codes)), shape=(n_cells, n_atoms)).tocsr()
    stood = coo_array((counted.rows.astype(float), (every, codes)), shape=(n_cells, n_atoms))
    raw = column.atoms if column.raw is None else column.raw[0]
    if column.raw is not None and not isinstance(read.rows, LazyRows):
        stood = _raw_counts(read, counted.cells, k)
    joint = stood.tocsr().T @ becomes  # how often each value is released as each
    if column.raw is not None and isinstance(read.rows, LazyRows):
        joint = _shares_of_bins(column) @ joint
    joint = joint.tocoo()
    before, after = joint.coords
    shares = joint.data / read.rows.total
    if column.unordered:
        same = float(shares[before == after].sum())
        return utility_without_order(column.name, known.raw[k], same)
    changes = changes_of(np.abs(column.atoms[after] - raw[before]), shares)
    return utility_of(column.name, known.raw[k], float(known.spreads[k]), *changes)


def _shares_of_bins(column: Column) -> Any:
    """Return which part of the rows of each bin has each of its numbers, shape (numbers, bins).

    Where groups of rows of bins are all that is counted, a number is as frequent in each of them.
    """
    assert column.raw is not None
    values, counts = column.raw
    bins = column.places_of_ascending(values)
    totals = np.bincount(bins, counts, len(column.atoms))
    where = (np.arange(len(values)), bins)
    return coo_array((counts / totals[bins], where), shape=(len(values), len(totals))).tocsr()


def _raw_counts(read: TableRead, cells: Cells, k: int) -> Any:
    """Return how often each number of a binned column stood in each cell."""
    column, reader = read.columns[k], read.readers[k]
    assert column.raw is not None
    owners, numbers, weights = [], [], []
    for rows, found in row_cells(read, cells):
        owners.append(found)
        numbers.append(nearest(column.raw[0], reader.data(rows)))
        own = read.rows.weights
        weights.append(np.ones(len(found)) if own is None else own[rows].astype(float))
    where = (np.concatenate(owners), np.concatenate(numbers))
    return coo_array((np.concatenate(weights), where), shape=(len(cells), len(column.raw[0])))


def row_cells(read: TableRead, cells: Cells) -> Iterator[tuple[slice, Array]]:
    """Yield the cell of each row of the table, block by block."""
    for start in range(0, read.rows.n_rows, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, read.rows.n_rows))
        codes = np.empty((len(read.readers), rows.stop - start), dtype=np.intp)
        for reader, out in zip(read.readers, codes, strict=True):
            reader.codes(rows, out)
        yield rows, cells.find(codes.T)
