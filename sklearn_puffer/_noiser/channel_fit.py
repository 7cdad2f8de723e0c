"""What `PufferfishNoiser.fit` does for a channel: from a table to the channel and its proof.

How much of the data survives a channel, summed up over the rows of `fit` and its shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from sklearn_puffer._base import Array
from sklearn_puffer._channels import find_channel, whole_rows
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.adversaries import Known, conditional_margins, known_to_adversaries
from sklearn_puffer._noiser.channel_cells import (
    CellDistance,
    Cells,
    CountedCells,
    count_cells,
    count_representatives,
)
from sklearn_puffer._noiser.channel_problem import all_asked, channel_problem, units_of_change
from sklearn_puffer._noiser.channel_proof import check_copies, proof_of
from sklearn_puffer._noiser.channel_release import as_matrix
from sklearn_puffer._noiser.channel_result import LearntChannel
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.utility import changes_of, utility_of, utility_without_order
from sklearn_puffer._releases import ColumnUtility
from sklearn_puffer._tables import BLOCK_ROWS, Name, Source, Values, nearest
from sklearn_puffer.priors import Discrete


def learn_channel(
    settings: Settings,
    table: Source,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> LearntChannel:
    """Learn the priors of a table, find the channel and prove what it tells.

    Parameters
    ----------
    settings : Settings
    table : Source
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    read = read_table(settings, table, given_secrets, sample_weight)
    units_of_change(read, np.zeros(len(read.columns)))
    known = known_to_adversaries(read)
    counted = count_cells(read, _further_laws(read, known))
    asked = all_asked(read, known, counted)
    problem = channel_problem(read, known, counted, asked)
    rows = whole_rows(problem, find_channel(problem))
    check_copies(read, counted, asked, rows, problem.epsilon)
    return LearntChannel(
        read=read,
        columns=read.bare_columns,
        counted=counted,
        equal=count_representatives(read, counted),
        adversaries=known.adversaries,
        asked=asked,
        problem=problem,
        rows=rows,
        proof=proof_of(settings, asked, rows),
        utility=channel_utilities(read, known, counted, rows),
        distance=_distance(read, known, counted),
        margins=known.margins,
        conditional=conditional_margins(read, known),
        known=read.known_names,
        remarks=read.remarks(fine=False),
    )


def _further_laws(read: TableRead, known: Known) -> list[Discrete]:
    """Return the laws that may give mass to rows that `fit` has not seen."""
    counted = 1 if read.settings.prior is None else 0
    return [
        law
        for adversary in known.adversaries[counted:]
        for of_secrets in adversary.values()
        for laws in of_secrets.values()
        for law in laws.values()
    ]


def _distance(read: TableRead, known: Known, counted: CountedCells) -> CellDistance:
    assert read.settings.channel is not None
    return CellDistance(
        counted.cells.values(read.columns),
        read.unordered,
        units_of_change(read, known.spreads),
        read.settings.channel.cost,
        tuple(sorted({k for each in read.known for k in each})),
    )


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
    if column.raw is not None:
        stood = _raw_counts(read, counted.cells, k)
    joint = (stood.tocsr().T @ becomes).tocoo()  # how often each value is released as each
    before, after = joint.coords
    shares = joint.data / read.rows.total
    if column.unordered:
        same = float(shares[before == after].sum())
        return utility_without_order(column.name, known.raw[k], same)
    changes = changes_of(np.abs(column.atoms[after] - raw[before]), shares)
    return utility_of(column.name, known.raw[k], float(known.spreads[k]), *changes)


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
