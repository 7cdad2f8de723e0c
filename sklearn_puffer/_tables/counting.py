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
from sklearn_puffer._tables.columns import BLOCK_ROWS

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
    [[of_column]] = count([Coded(_NoCodes(), 1)], [coded], [[0]], n_rows, weights)
    counts = np.zeros(coded.size, dtype=np.int64)
    counts[of_column[0].codes[:, 0]] = of_column[0].counts
    return counts


class _NoCodes:
    """The codes of a column with one value."""

    def codes(self, rows: slice, out: Array) -> None:
        out[:] = 0


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
    codes = np.empty((len(columns), BLOCK_ROWS), dtype=np.intp)
    secret_codes = np.empty((len(secrets), BLOCK_ROWS), dtype=np.intp)
    key, scratch = np.empty(BLOCK_ROWS, dtype=np.intp), np.empty(BLOCK_ROWS, dtype=np.intp)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n_rows))
        n = rows.stop - start
        for coded, out in zip([*columns, *secrets], [*codes, *secret_codes], strict=True):
            coded.source.codes(rows, out[:n])
        part = None if weights is None else weights[rows]
        for g, group in enumerate(groups):
            mixed = _mixed(codes[:, :n], [(k, columns[k].size) for k in group], key[:n])
            for s in range(len(secrets)):
                table = tables[s][g]
                if table is not None:
                    np.multiply(secret_codes[s, :n], widths[g], out=scratch[:n])
                    scratch[:n] += mixed
                    _add(table, scratch[:n], part)
    return [
        [None if t is None else t.reshape(secret.size, -1) for t in row]
        for secret, row in zip(secrets, tables, strict=True)
    ]


def _mixed(codes: Array, radices: Sequence[tuple[int, int]], key: Array) -> Array:
    """Return the mixed-radix number of each row of codes; it may wrap where unused."""
    first: Array = codes[radices[0][0]]
    if len(radices) == 1:
        return first
    np.copyto(key, first)
    for column, size in radices[1:]:
        key *= size
        key += codes[column]
    return key


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
