"""How a channel releases a table: every row becomes its cell, and then the cell that is drawn.

Cells are the distinct rows of the released columns; a row that is no cell becomes the nearest one.
`channel_` shows the fitted channel; keep it as safe as the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray, digest, listed, shown, task
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._noiser.release import ColumnRelease, bare_values, finished
from sklearn_puffer._release import Draw, KeyedRows, TableRules
from sklearn_puffer._tables import (
    NEAREST,
    Column,
    Faults,
    Finished,
    Missing,
    Name,
    Reader,
    Table,
    cells_frame,
    check_finite,
    column_reader,
    row_blocks,
    rule_of,
)

_CHUNK = 1 << 16  # distances held at a time: they stay in the cache


@dataclass(frozen=True, eq=False)
class DistinctRows:
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
    def of(cls, codes: Array, sizes: Sequence[int]) -> DistinctRows:
        """Return the distinct rows among rows of codes."""
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
        """For each column, the ascending numbers of the cells' codes up to that column."""
        ranks = np.zeros(len(self.codes), dtype=np.int64)
        keys_of_columns = []
        for size, column in zip(self.sizes, self.codes.T, strict=True):
            keys, ranks = np.unique(ranks * size + column, return_inverse=True)
            keys_of_columns.append(keys)
        return keys_of_columns


@dataclass(frozen=True, eq=False)
class CellDistance:
    """The costs of moving rows to cells.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        The cells as numbers and codes.
    unordered : ndarray of bool of shape (d,)
    units : ndarray of shape (d,)
    cost : object or None
        The caller's own cost.
    stay : tuple
        Nothing; fingerprints of saved channels count it.
    """

    values: FloatArray
    unordered: Array
    units: FloatArray
    cost: Any = None
    stay: tuple[()] = ()

    def between_cells(self) -> FloatArray:
        """Return the cost of releasing cell k in the place of cell i, shape (n, n)."""
        every = np.ones(len(self.units), dtype=bool)
        return self._costs(self.values, np.ascontiguousarray(self.values.T), every)

    def nearest(self, rows: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the nearest cell of each row of numbers and codes, and the cost of the move.

        Ties go to the first cell, whatever the order of rows. NaN is a category that no cell has:
        then the other columns decide, and cost. All distances are computed, so that no row takes
        longer because of its values.

        Examples
        --------
        >>> cells = np.array([[20.0, 0.0], [30.0, 0.0], [30.0, 1.0]])
        >>> distance = CellDistance(cells, np.array([False, True]), np.array([10.0, 1.0]))
        >>> distance.nearest(np.array([[25.0, 0.0], [29.0, 2.0], [31.0, np.nan]]))
        (array([0, 1, 1]), array([0.5, 1.1, 0.1]))
        """
        cells, moves = np.zeros(len(rows), dtype=np.intp), np.zeros(len(rows))
        near, columns = self._within(rows), np.ascontiguousarray(self.values.T)
        step = max(_CHUNK // len(self.values), 1)
        for alike, known in _by_known_columns(rows):
            for start in range(0, alike.size, step):
                rows_of_chunk = alike[start : start + step]
                costs = self._costs(near[rows_of_chunk], columns, known)
                cells[rows_of_chunk] = costs.argmin(axis=1)
                moves[rows_of_chunk] = costs[np.arange(rows_of_chunk.size), cells[rows_of_chunk]]
        with np.errstate(over="ignore"):  # of numbers beyond reason the move is infinite
            return cells, moves + np.nansum(np.abs(rows - near) / self.units, axis=1)

    def _within(self, rows: FloatArray) -> FloatArray:
        """Return rows whose numbers are clipped to the range of the cells.

        That takes the same from the distances to all cells. Without it, a number that lies far out
        would leave no digits for the costs of the other columns.
        """
        if self.cost is not None:
            return rows
        inside = np.clip(rows, self.values.min(axis=0), self.values.max(axis=0))
        return np.where(self.unordered, rows, inside)

    def _costs(self, rows: FloatArray, cells: FloatArray, known: BoolArray) -> FloatArray:
        """Return the costs of all moves from rows to cells, which are given by columns."""
        total = np.zeros((len(rows), cells.shape[1]))
        if self.cost is not None and known.all():
            return _checked_costs(self.cost.between(rows, cells.T), total.shape)
        for k in known.nonzero()[0].tolist():
            row, cell = rows[:, k, None], cells[k]
            total += (row != cell if self.unordered[k] else np.abs(row - cell)) / self.units[k]
        return total


def _by_known_columns(rows: FloatArray) -> Iterator[tuple[IntArray, BoolArray]]:
    """Yield the rows that know the same columns, and which these are."""
    patterns, pattern_of = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for k, known in enumerate(patterns):
        yield np.flatnonzero(pattern_of.ravel() == k), known


def _checked_costs(returned: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return the costs that the caller's object returned, or refuse them."""
    costs = np.asarray(returned, dtype=float)
    if costs.shape != shape or not (np.isfinite(costs) & (costs >= 0.0)).all():
        raise ValueError(
            "cost.between must return finite costs that are not negative, of shape "
            f"{shape}, got shape {costs.shape} and {costs.min(initial=0.0):g} to "
            f"{costs.max(initial=0.0):g}; correct it, or leave cost out for distances in "
            "units of change."
        )
    return costs


@dataclass(frozen=True, eq=False, repr=False)
class Channel:
    """A fitted channel; who holds it can tell of some released rows that they were not moved.

    Attributes
    ----------
    cells : pandas.DataFrame of shape (n, n_public)
        The distinct rows.
    matrix : scipy.sparse.csr_array of float of shape (n, n)
        W(y|x): row x is the distribution of the released cell, given cell x.
    numerators : scipy.sparse.csr_array of int64 of shape (n, n)
        The same as shares of 2^62, from which cells are drawn.
    expected_change : float
        The expected cost of a release, in units of change.
    unchanged : float
        The share of the rows of `fit` that stay in their cell: as they are, or, where numbers are
        in bins, as the representatives of theirs.
    unchanged_by_secret : dict
        ``unchanged_by_secret[sensitive][secret]``: the share of its rows.
    floor : float or None
        The most that one more draw tells, recomputed; None without a floor.
    """

    _columns: Sequence[Column]
    _codes: Array
    matrix: Any
    numerators: Any
    expected_change: float
    unchanged: float
    unchanged_by_secret: Mapping[Any, Mapping[Any, float]]
    floor: float | None

    @property
    def cells(self) -> Any:
        """The distinct rows as a DataFrame, which no pickle holds."""
        return cells_frame(self._columns, self._codes)

    def __repr__(self) -> str:
        kept = "; ".join(
            f"{shown(secret)} {share:.1%}"
            for shares in self.unchanged_by_secret.values()
            for secret, share in shares.items()
        )
        return (
            f"Channel({len(self._codes)} cells, expected change {self.expected_change:.4g}, "
            f"unchanged {self.unchanged:.1%} ({kept}))"
        )


def as_matrix(rows: IntegerRows, *, whole: bool = False) -> Any:
    """Return a channel as a sparse matrix of probabilities, or of shares of 2^62."""
    data = rows.shares if whole else rows.shares / WHOLE
    shape = (rows.n_cells, rows.n_cells)
    return csr_array((np.array(data), rows.targets.copy(), rows.starts.copy()), shape=shape)


class Moved(NamedTuple):
    """How many rows were no cells, and became the nearest ones.

    Attributes
    ----------
    n_rows, n_moved : int
    mean_move : float
        In units of change, over those that were moved.
    """

    n_rows: int
    n_moved: int
    mean_move: float


@dataclass(frozen=True, eq=False)
class ChannelRelease:
    """How rows are released from a channel.

    Attributes
    ----------
    columns : list of ColumnRelease
        How the values of each column are written: without noise.
    cells : DistinctRows
    rows : IntegerRows
    distance : CellDistance
        What moves cost.
    """

    columns: list[ColumnRelease]
    cells: DistinctRows
    rows: IntegerRows
    distance: CellDistance

    def fingerprint(self, *about: Any) -> str:
        """Return the digest of this channel, and of what else counts."""
        rows = (self.rows.starts, self.rows.targets, self.rows.shares)
        channel = (self.columns, self.cells.codes, rows, self.distance)
        return digest("sklearn_puffer.channel/1", channel, *about)

    def released(self, table: Table, rules: TableRules, draw: Draw) -> tuple[Any, Moved | None]:
        """Return the released table in the caller's own type, and how many rows were moved.

        Raises
        ------
        TypeError, ValueError
            If the table does not fit, naming all columns that are at fault, or has rows that
            `fit` has not seen and ``unknown`` does not move.
        """
        unknown = "error" if draw.unknown == "auto" else draw.unknown  # whole rows are seen, or not
        readers = self._readers(table, unknown, rules.missing)
        if draw.watch is not None:
            draw.watch.open(readers)
        try:
            cells, moved = self._cells_of(readers, table.n_rows, _moves_rows(unknown))
        except (TypeError, ValueError):
            faults = Faults()
            faults.of(Reader.check, readers)
            faults.refuse()
            raise
        if draw.watch is not None:
            draw.watch.add(readers, table.n_rows)
        words = None if draw.keyed is None else self._words(draw.keyed, cells)
        with task("rows drawn and written"):
            drawn = self.rows.sampler(draw.entropy(0)).draw(cells, words)
            written = self._written(table, readers, drawn, rules.order)
        written |= {name: Finished(table.original(name), passed=True) for name in rules.passed}
        return table.build({name: written[name] for name in rules.order}), moved

    def _words(self, keyed: KeyedRows, cells: Array) -> NDArray[np.uint64]:
        """Return the random word of each row, which depends on its id and its cell alone."""
        cells = cells.astype(np.int64, copy=False)
        # a draw shows the block: under a floor rows of one block have the same targets
        block = self.rows.targets[self.rows.starts[:-1]]
        words = np.empty(len(cells), dtype=np.uint64)
        with task("rows given their bits", len(cells)) as done:
            for rows in row_blocks(len(cells)):
                bits = keyed.columns(rows, [cells[rows]], [block[cells[rows]]])[0]
                words[rows] = bits.words(len(words[rows]))
                done(rows.stop - rows.start)
        return words

    def _readers(self, table: Table, unknown: Any, missing: Missing) -> list[Reader]:
        def opened(release: ColumnRelease) -> Reader:
            column = release.column
            rule = rule_of(unknown, column.name, column.kind)
            return column_reader(column, table.values(column.name), rule, missing)

        faults = Faults()
        readers = faults.of(opened, self.columns)
        faults.refuse()
        return readers

    def _cells_of(
        self, readers: Sequence[Reader], n_rows: int, nearest: bool
    ) -> tuple[Array, Moved | None]:
        """Return the cell of each row."""
        cells = np.empty(n_rows, dtype=np.intp)
        new = []
        with task("rows looked up", n_rows) as done:
            for rows in row_blocks(n_rows):
                new.append(self._look_up(readers, rows, cells[rows]))
                done(rows.stop - rows.start)
        strange = np.flatnonzero(cells < 0)
        if not strange.size:
            return cells, None
        if not nearest:
            raise ValueError(_new_rows(readers, strange.size, n_rows))
        nearest_cells, moves = self.distance.nearest(np.concatenate(new))
        cells[strange] = nearest_cells
        return cells, Moved(n_rows, len(strange), float(moves.mean()))

    def _look_up(self, readers: Sequence[Reader], rows: slice, cells: Array) -> FloatArray:
        """Write the cells of a block, -1 where a row is none, and return the values of those.

        Categories that `fit` has not seen are NaN there.
        """
        codes = np.empty((len(readers), len(cells)), dtype=np.intp)
        values = np.empty((len(readers), len(cells)))
        exact = np.ones(len(cells), dtype=bool)
        for reader, column_codes, numbers in zip(readers, codes, values, strict=True):
            reader.codes(rows, column_codes)
            lost = reader.lost(rows)
            numbers[:] = np.where(lost, np.nan, reader.column.atoms[column_codes])
            exact &= ~lost
            if reader.column.edges is None and reader.column.kind in ("float", "integer"):
                data = reader.data(rows)
                check_finite(data, reader.column.name)
                exact &= data == numbers
                numbers[:] = data
        cells[:] = np.where(exact, self.cells.find(codes.T), -1)
        return values.T[cells < 0]

    def _written(
        self, table: Table, readers: Sequence[Reader], drawn: Array, order: Sequence[Name]
    ) -> dict[Name, Finished]:
        """Return the columns of the drawn cells."""
        pairs = list(zip(self.columns, readers, strict=True))
        dtypes = {release.column.name: release.dtype(reader.values) for release, reader in pairs}
        outputs = table.empty_columns({name: dtypes[name] for name in order if name in dtypes})
        written: dict[Name, Finished] = {}
        for release, codes in zip(self.columns, self.cells.codes.T, strict=True):
            out = outputs[release.column.name]
            np.take(bare_values(release.column.atoms, out.dtype)[codes], drawn, out=out)
            written[release.column.name] = finished(release, out, None)
        return written


def _moves_rows(unknown: Any) -> bool:
    """Return whether rows that are no cells are moved: where any column moves its values."""
    if isinstance(unknown, Mapping):
        return "nearest" in unknown.values()
    return bool(unknown == "nearest")


def _new_rows(readers: Sequence[Reader], n_new: int, n_rows: int) -> str:
    names = [reader.column.name for reader in readers]
    return (
        f"{n_new} of {n_rows} rows have values of columns {listed(names)} that fit has not seen "
        f"together; {NEAREST} to release them as their nearest rows of fit (the certificate is "
        "about rows that follow the fitted distribution), or fit again: on the rows that are "
        "released, or with fewer bins (n_bins) or columns."
    )
