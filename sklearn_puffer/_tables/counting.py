"""Contingency counts of secrets against public columns, streamed in blocks of rows.

Memory beside the codes does not grow with the number of rows while a table of counts stays within
its limit; past that the distinct rows are found by sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Protocol

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._tables.distinct import BLOCK_ROWS

MOST_DENSE_CELLS = 1 << 22


class CodeSource(Protocol):
    """Whatever writes the codes 0..size-1 of a block of rows into a scratch array."""

    def codes(self, rows: slice, out: Array) -> None:
        """Write the codes of ``rows`` into ``out`` (intp)."""


@dataclass(frozen=True, eq=False)
class CodeArray:
    """Codes that lie in memory already, of any integer type."""

    data: Array

    def codes(self, rows: slice, out: Array) -> None:
        """Write the codes of ``rows`` into ``out``."""
        np.copyto(out, self.data[rows], casting="unsafe")


class NoCodes:
    """The codes of a column with one value; nothing is read of it."""

    def codes(self, rows: slice, out: Array) -> None:
        """Write zeros."""
        out[:] = 0


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of codes and the size of its alphabet."""

    source: CodeSource
    size: int


def tally(coded: Coded, n_rows: int, weights: Array | None = None) -> Array:
    """Count the rows of each code, shape (coded.size,).

    >>> tally(Coded(CodeArray(np.array([0, 1, 1])), 2), 3).tolist()
    [1, 2]
    """
    counts = np.zeros(coded.size, dtype=np.int64)
    codes = np.empty(min(BLOCK_ROWS, n_rows), dtype=np.intp)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n_rows))
        of_block = codes[: rows.stop - start]
        coded.source.codes(rows, of_block)
        _add(counts, of_block, None if weights is None else weights[rows])
    return counts


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct rows of codes that occur with one secret, and how often.

    Attributes
    ----------
    codes : ndarray of shape (n_cells, d)
        In lexicographic order.
    counts : ndarray of shape (n_cells,)
        Positive integers.
    """

    codes: Array
    counts: Array


def count(
    secrets: Sequence[Coded],
    columns: Sequence[Coded],
    groups: Sequence[Sequence[int]],
    n_rows: int,
    weights: Array | None = None,
) -> list[list[list[Cells]]]:
    """Count the rows of every group of columns for each secret, in one pass over the data.

    Parameters
    ----------
    secrets : sequence of Coded
        The sensitive columns.
    columns : sequence of Coded
        The public columns.
    groups : sequence of sequences of int
        Positions of the columns that are counted together.
    n_rows : int
    weights : ndarray of int of shape (n_rows,), optional

    Returns
    -------
    list
        ``[sensitive column][group][secret]``, each a `Cells`.

    Examples
    --------
    >>> secret, bit = CodeArray(np.array([0, 1, 1])), CodeArray(np.array([1, 1, 0]))
    >>> [[of_secret]] = count([Coded(secret, 2)], [Coded(bit, 2)], [[0]], 3)
    >>> of_secret[1].codes.tolist(), of_secret[1].counts.tolist()
    ([[0], [1]], [1, 1])
    """
    sizes = [[prod(columns[k].size for k in group) for group in groups]] * len(secrets)
    dense = [
        [secret.size * size <= MOST_DENSE_CELLS for size in row]
        for secret, row in zip(secrets, sizes, strict=True)
    ]
    tables = _stream(secrets, columns, groups, dense, n_rows, weights)
    result = []
    for which, secret in enumerate(secrets):
        row = []
        for group, table in zip(groups, tables[which], strict=True):
            members = [columns[k] for k in group]
            row.append(
                _sorted_cells(secret, members, n_rows, weights)
                if table is None
                else _cells_of(table, members)
            )
        result.append(row)
    return result


def _stream(
    secrets: Sequence[Coded],
    columns: Sequence[Coded],
    groups: Sequence[Sequence[int]],
    dense: Sequence[Sequence[bool]],
    n_rows: int,
    weights: Array | None,
) -> list[list[Array | None]]:
    """Fill the dense tables (n_secrets, n_cells), all in one pass; None where one is too large."""
    widths = [prod(columns[k].size for k in group) for group in groups]
    tables: list[list[Array | None]] = [
        [
            np.zeros(secret.size * width, dtype=np.int64) if small else None
            for width, small in zip(widths, row, strict=True)
        ]
        for secret, row in zip(secrets, dense, strict=True)
    ]
    if not any(any(row) for row in dense):
        return tables
    block = _Block(secrets, columns)
    by_width = sorted(range(len(groups)), key=widths.__getitem__)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n_rows))
        block.read(rows)
        part = None if weights is None else weights[rows]
        for g in by_width:
            mixed = block.mixed(groups[g])
            for s, own in enumerate(tables):
                table = own[g]
                if table is not None:
                    _add(table, block.within(s, widths[g], mixed), part)
    return [
        [None if t is None else t.reshape(secret.size, -1) for t in row]
        for secret, row in zip(secrets, tables, strict=True)
    ]


class _Block:
    """The codes of a block of rows, and the cells that they make."""

    def __init__(self, secrets: Sequence[Coded], columns: Sequence[Coded]) -> None:
        self.columns = columns
        self.codes = np.zeros((len(columns), BLOCK_ROWS), dtype=np.intp)
        self.secrets = np.zeros((len(secrets), BLOCK_ROWS), dtype=np.intp)
        self.scaled = np.empty_like(self.secrets)
        self.key, self.cell = np.empty((2, BLOCK_ROWS), dtype=np.intp)
        self.n = 0
        self.width = 0  # that the codes of secrets are scaled by
        self.sources = [
            (coded.source, out)
            for coded, out in zip([*columns, *secrets], [*self.codes, *self.secrets], strict=True)
            if not isinstance(coded.source, NoCodes)
        ]

    def read(self, rows: slice) -> None:
        self.n, self.width = rows.stop - rows.start, 0
        for source, out in self.sources:
            source.codes(rows, out[: self.n])

    def mixed(self, group: Sequence[int]) -> Array:
        """Return the mixed-radix number of each row of a group; it may wrap where unused."""
        varied = [k for k in group if self.columns[k].size > 1] or [group[0]]
        first: Array = self.codes[varied[0], : self.n]
        if len(varied) == 1:
            return first
        key = self.key[: self.n]
        np.copyto(key, first)
        for k in varied[1:]:
            key *= self.columns[k].size
            key += self.codes[k, : self.n]
        return key

    def within(self, secret: int, width: int, mixed: Array) -> Array:
        """Return the cell of each row among those of all secrets; in groups of equal width.

        Secrets are scaled once for all groups of one width, so those come one after the other.
        """
        if self.width != width:
            np.multiply(self.secrets[:, : self.n], width, out=self.scaled[:, : self.n])
            self.width = width
        return np.add(self.scaled[secret, : self.n], mixed, out=self.cell[: self.n])


def _add(table: Array, key: Array, weights: Array | None) -> None:
    if weights is not None:
        np.add.at(table, key, weights)  # integers: a weighted bincount would go through floats
    elif len(table) <= 4 * BLOCK_ROWS:
        table += np.bincount(key, minlength=len(table))
    else:
        np.add.at(table, key, 1)


def _cells_of(table: Array, members: Sequence[Coded]) -> list[Cells]:
    shape = tuple(member.size for member in members)
    found = []
    for counts in table:
        seen = np.flatnonzero(counts)
        found.append(Cells(np.stack(np.unravel_index(seen, shape), axis=1), counts[seen]))
    return found


def _sorted_cells(
    secret: Coded, members: Sequence[Coded], n_rows: int, weights: Array | None
) -> list[Cells]:
    """Find the distinct rows by sorting, secret by secret: memory proportional to the rows."""
    codes = np.empty((n_rows, len(members) + 1), dtype=np.intp)
    for position, coded in enumerate([secret, *members]):
        column = np.empty(n_rows, dtype=np.intp)
        for start in range(0, n_rows, BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, n_rows))
            coded.source.codes(rows, column[rows])
        codes[:, position] = column
    order = np.lexsort(codes.T[::-1])
    codes = codes[order]
    new = np.append(True, (codes[1:] != codes[:-1]).any(axis=1))
    firsts = np.flatnonzero(new)
    ones = np.ones(n_rows, dtype=np.int64) if weights is None else weights[order].astype(np.int64)
    counts, cells = np.add.reduceat(ones, firsts), codes[firsts]
    ends = np.searchsorted(cells[:, 0], np.arange(secret.size + 1))
    return [
        Cells(cells[a:b, 1:][counts[a:b] > 0], counts[a:b][counts[a:b] > 0])
        for a, b in pairwise(ends)
    ]
