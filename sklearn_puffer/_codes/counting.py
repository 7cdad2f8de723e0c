"""Contingency counts of secrets against public columns, in one pass over blocks of rows.

A table of counts below a limit is dense, and memory does not grow with the rows; above it, the
distinct rows are found by sorting. So are the distinct values of a column. A column nearly every
value of which is different looks like an identifier.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Protocol

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._codes.columns import BLOCK_ROWS, row_blocks
from sklearn_puffer._codes.lookup import Lookup
from sklearn_puffer._tables import Name, Values

_MOST_STREAMED_ATOMS = 1 << 12


def distinct(values: Values, weights: Array | None = None) -> tuple[FloatArray, Array]:
    """Return the ascending distinct numbers of a column, and their counts.

    Memory does not grow with the rows if few numbers are distinct; many are sorted.
    """
    data = values.present
    kept = weights if weights is None or values.missing is None else weights[~values.missing]
    atoms = _few_numbers(data)
    if atoms is not None:
        return atoms, tally(Coded(NumberCodes(Lookup(atoms), data), len(atoms)), len(data), kept)
    return _sorted_tally(data, kept)


def distinct_numbers(data: Array) -> FloatArray:
    """Return the ascending distinct numbers; see `distinct`."""
    few = _few_numbers(data)
    return _sorted_tally(data, None)[0] if few is None else few


def _few_numbers(data: Array) -> FloatArray | None:
    """Return the ascending distinct numbers, None if they are many."""
    atoms = np.unique(np.asarray(data[:BLOCK_ROWS], dtype=float))
    codes = np.empty(BLOCK_ROWS, dtype=np.intp)
    lookup = Lookup(atoms) if atoms.size and np.isfinite(atoms).all() else None
    for start in range(BLOCK_ROWS, len(data), BLOCK_ROWS):
        block = data[start : start + BLOCK_ROWS]
        if lookup is None or len(atoms) > _MOST_STREAMED_ATOMS:
            return None
        if not lookup.find(block, codes[: len(block)]):
            atoms = np.union1d(atoms, np.asarray(block, dtype=float))
            lookup = Lookup(atoms) if np.isfinite(atoms).all() else None
    return np.unique(atoms + 0.0)  # -0.0 is 0.0


def _sorted_tally(data: Array, weights: Array | None) -> tuple[FloatArray, Array]:
    """Return the ascending distinct numbers, NaN once and last, and their counts."""
    numbers = data.astype(np.float64) + 0.0  # -0.0 is 0.0
    if weights is None:
        return np.unique(numbers, return_counts=True)
    atoms, which = np.unique(numbers, return_inverse=True)
    counts = np.zeros(len(atoms), dtype=np.int64)
    np.add.at(counts, which, weights)  # a weighted bincount would go through floats
    return atoms, counts


MOST_DENSE_CELLS = 1 << 22


class CodeSource(Protocol):
    """An object that writes the codes 0..size-1 of a block of rows into a scratch array."""

    def codes(self, rows: slice, out: Array) -> None:
        """Write the codes of ``rows`` into ``out`` (intp)."""


@dataclass(frozen=True, eq=False)
class CodeArray:
    """Codes in memory, of any integer type."""

    data: Array

    def codes(self, rows: slice, out: Array) -> None:
        """Write the codes of ``rows`` into ``out``."""
        np.copyto(out, self.data[rows], casting="unsafe")


@dataclass(frozen=True, eq=False)
class NumberCodes:
    """Codes of numbers, all of which are among the atoms of a lookup."""

    lookup: Lookup
    data: Array

    def codes(self, rows: slice, out: Array) -> None:
        """Write the codes of ``rows`` into ``out``."""
        if not self.lookup.find(self.data[rows], out):  # a type that floats do not hold
            out[:] = np.searchsorted(self.lookup.knots, self.data[rows])


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of codes, and the size of its alphabet."""

    source: CodeSource
    size: int


def tally(coded: Coded, n_rows: int, weights: Array | None = None) -> Array:
    """Count the rows of each code, shape (coded.size,).

    >>> tally(Coded(CodeArray(np.array([0, 1, 1])), 2), 3).tolist()
    [1, 2]
    """
    counts = np.zeros(coded.size, dtype=np.int64)
    codes = np.empty(min(BLOCK_ROWS, n_rows), dtype=np.intp)
    for rows in row_blocks(n_rows):
        of_block = codes[: rows.stop - rows.start]
        coded.source.codes(rows, of_block)
        _add(counts, of_block, None if weights is None else weights[rows])
    return counts


@dataclass(frozen=True, eq=False)
class CountedRows:
    """The distinct rows of codes that occur with one secret, and their counts.

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
) -> list[list[list[CountedRows]]]:
    """Count the rows of every group of columns for each secret, in one pass over the data.

    Parameters
    ----------
    secrets : sequence of Coded
        The sensitive columns.
    columns : sequence of Coded
        The public columns.
    groups : sequence of sequences of int
        Indices of the columns that are counted jointly.
    n_rows : int
    weights : ndarray of int of shape (n_rows,), optional

    Returns
    -------
    list
        ``[sensitive column][group][secret]``, each a `CountedRows`.

    Examples
    --------
    >>> secret, bit = CodeArray(np.array([0, 1, 1])), CodeArray(np.array([1, 1, 0]))
    >>> [[of_secret]] = count([Coded(secret, 2)], [Coded(bit, 2)], [[0]], 3)
    >>> of_secret[1].codes.tolist(), of_secret[1].counts.tolist()
    ([[0], [1]], [1, 1])
    """
    widths = [prod(columns[k].size for k in group) for group in groups]
    tables = {
        (s, g): np.zeros(secret.size * width, dtype=np.int64)
        for s, secret in enumerate(secrets)
        for g, width in enumerate(widths)
        if secret.size * width <= MOST_DENSE_CELLS
    }
    if tables:
        _fill(tables, secrets, columns, groups, n_rows, weights)

    def cells(s: int, g: int) -> list[CountedRows]:
        members = [columns[k] for k in groups[g]]
        if (s, g) not in tables:
            return _sorted_cells(secrets[s], members, n_rows, weights)
        shape, found = tuple(member.size for member in members), []
        for counts in tables[s, g].reshape(secrets[s].size, -1):
            seen = np.flatnonzero(counts)
            rows = np.stack(np.unravel_index(seen, shape), axis=1)
            found.append(CountedRows(rows, counts[seen]))
        return found

    return [[cells(s, g) for g in range(len(groups))] for s in range(len(secrets))]


def _fill(
    tables: Mapping[tuple[int, int], Array],
    secrets: Sequence[Coded],
    columns: Sequence[Coded],
    groups: Sequence[Sequence[int]],
    n_rows: int,
    weights: Array | None,
) -> None:
    """Count into the dense tables of each secret and group, in one pass over the data."""
    coded = [*columns, *secrets]
    codes = np.empty((len(coded), BLOCK_ROWS), dtype=np.intp)
    scratch = np.empty(BLOCK_ROWS, dtype=np.intp)
    for rows in row_blocks(n_rows):
        n = rows.stop - rows.start
        for each, out in zip(coded, codes, strict=True):
            each.source.codes(rows, out[:n])
        part = None if weights is None else weights[rows]
        for (s, g), table in tables.items():
            cell, scaled = codes[len(columns) + s, :n], scratch[:n]
            for k in groups[g]:  # the number of a cell, in mixed radix
                np.multiply(cell, columns[k].size, out=scaled)
                cell = np.add(scaled, codes[k, :n], out=scaled)
            _add(table, cell, part)


def _add(table: Array, key: Array, weights: Array | None) -> None:
    if weights is not None:
        np.add.at(table, key, weights)  # integers: a weighted bincount would go through floats
    elif len(table) <= 4 * BLOCK_ROWS:
        table += np.bincount(key, minlength=len(table))
    else:
        np.add.at(table, key, 1)


def _sorted_cells(
    secret: Coded, members: Sequence[Coded], n_rows: int, weights: Array | None
) -> list[CountedRows]:
    """Find the distinct rows by sorting, secret by secret: memory proportional to the rows."""
    codes = np.empty((n_rows, len(members) + 1), dtype=np.intp)
    for position, coded in enumerate([secret, *members]):
        column = np.empty(n_rows, dtype=np.intp)
        for rows in row_blocks(n_rows):
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
        CountedRows(cells[a:b, 1:][counts[a:b] > 0], counts[a:b][counts[a:b] > 0])
        for a, b in pairwise(ends)
    ]


# ------------------------------------------------------------------------------ identifiers

_LEAST_KEYS = 20  # distinct values of what may be an identifier


def hardly_repeats(n_distinct: int, n_rows: int) -> bool:
    """Return whether a column looks continuous, or like an identifier.

    >>> hardly_repeats(900, 1000), hardly_repeats(5, 1000)
    (True, False)
    """
    return n_distinct >= _LEAST_KEYS and 2 * n_distinct > n_rows


def check_no_identifier(
    name: Name, values: Values, weights: Array | None = None, *, named: bool, ids: bool = False
) -> None:
    """Refuse to release a column that looks like an identifier of the rows.

    Text and categories whose values hardly repeat are always refused. Whole numbers that nearly all
    differ, and dates, are refused unless they are ``named``. Floats with fractions and durations
    never are. Missing values do not count.

    Parameters
    ----------
    name : str or int
    values : Values
    weights : ndarray of int of shape (n,), or None
        The count of each value; None takes ``values.counts``, or 1.
    named : bool
        Whether ``public=`` names the column.
    ids : bool, default=False
        Whether the estimator has ``ids=``.

    Raises
    ------
    ValueError
        Naming the column and the way out.
    """
    what = identifier_kind(values, weights)
    if not what or (named and what != "text"):
        return
    why = "holds dates, by which others may know people"
    if what != "date":
        n_different, n_rows = _n_different(values, weights)
        why = "looks like an identifier: "
        why += f"{n_different:,} values in {n_rows:,} rows are different"
    way = "leave it out of X, or name it in public= if it is to be released"
    way = way_of_text(values) if what == "text" else way
    stays = f"; if it only names people, ids={name!r} keeps it with them"
    stays = stays if ids and what != "date" else ""  # dates say something of people
    raise ValueError(f"column {name!r} {why}; {way}{stays}.")


_WAYS_OF_TEXT = {
    r".+@.+": "as mail addresses identify people",
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}": "or parse dates (pd.to_datetime) and name it in public=",
    r"[-+]?[\d.,]+": "or parse numbers (pd.to_numeric) and name it in public=",
    "": "or merge its values",
}


def way_of_text(values: Values) -> str:
    """Return the way out for text that hardly repeats.

    >>> way_of_text(Values("category", np.array([0, 1]), None, ("2019-03-05", "2021-06-01")))
    'leave it out of X or of public=, or parse dates (pd.to_datetime) and name it in public='
    """
    levels = values.used_levels() if values.levels else []
    texts = [str(level) for level in levels[:_LEAST_KEYS]]
    ways = (way for start, way in _WAYS_OF_TEXT.items() if all(re.match(start, t) for t in texts))
    return f"leave it out of X or of public=, {next(ways)}"


def identifier_kind(values: Values, weights: Array | None = None) -> str:
    """Return "text", "number" or "date" if a column may identify rows, else "".

    Dates are identifiers even if they repeat, as others may know them.

    >>> identifier_kind(Values("integer", np.arange(1000)))
    'number'
    >>> identifier_kind(Values("integer", np.arange(1000) % 900))
    ''
    >>> identifier_kind(Values("float", np.arange(1000) / 3))
    ''
    """
    if values.kind == "category" and hardly_repeats(*_n_different(values, weights)):
        return "text"
    in_levels = any(isinstance(level, dt.date) for level in values.levels or ())
    if in_levels or (values.unit or "").startswith("datetime"):
        return "date"
    if values.unit is not None or values.kind in ("boolean", "category"):
        return ""
    if not _may_be_key(values.present, values.counts):
        return ""
    n_different, n_rows = _n_different(values, weights)
    return "number" if n_different >= _LEAST_KEYS and 20 * n_different > 19 * n_rows else ""


def _may_be_key(numbers: Array, counts: Array | None) -> bool:
    """Return whether numbers are whole, in a range that lets nearly all of them differ."""
    if len(numbers) < _LEAST_KEYS or not _are_whole(numbers[:_LEAST_KEYS]):
        return False
    low, high = float(numbers.min()), float(numbers.max())
    room = counts is not None or 20.0 * (high - low + 1.0) > 19.0 * len(numbers)
    return room and _are_whole(numbers)


def _are_whole(numbers: Array) -> bool:
    with np.errstate(invalid="ignore"):  # infinite ones are not whole, and refused elsewhere
        return bool((np.remainder(numbers, 1) == 0).all())


def _n_different(values: Values, weights: Array | None) -> tuple[int, int]:
    """Return the number of distinct values, and of rows that have one."""
    data = values.present
    weights = values.counts if weights is None else weights
    if weights is not None and values.missing is not None:
        weights = weights[~values.missing]
    n_rows = len(data) if weights is None else int(weights.sum())
    if values.kind == "category":
        return int(np.count_nonzero(np.bincount(data, minlength=1))), n_rows
    ascending = np.sort(data)
    return int(np.count_nonzero(ascending[1:] != ascending[:-1])) + bool(len(data)), n_rows
