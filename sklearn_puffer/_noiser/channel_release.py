"""Releasing a table from a channel: every row becomes its cell, and then the cell that is drawn.

`channel_` is the channel that was fitted, to be looked at, and kept as safe as the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sklearn_puffer._base import Array, FloatArray, digest, listed, shown, task
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._noiser.channel_cells import CellDistance, Cells
from sklearn_puffer._noiser.keyed_rows import KeyedRows
from sklearn_puffer._noiser.release import (
    ColumnRelease,
    Draw,
    TableRules,
    bare_values,
    finished,
)
from sklearn_puffer._tables import (
    BLOCK_ROWS,
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
    rule_of,
)


@dataclass(frozen=True, eq=False, repr=False)
class Channel:
    """A fitted channel; whoever holds it can tell of some released rows that nothing moved there.

    Attributes
    ----------
    cells : pandas.DataFrame of shape (n, n_public)
        The distinct rows.
    matrix : scipy.sparse.csr_array of float of shape (n, n)
        W(y|x): row x is the law of what is released for cell x.
    numerators : scipy.sparse.csr_array of int64 of shape (n, n)
        The same as shares of 2^62, which is what is drawn from.
    expected_change : float
        The expected cost of a release, in units of change.
    unchanged : float
        The share of the rows of `fit` that come out equal. Of numbers in bins few do, as a bin is
        released as its representative.
    unchanged_by_secret : dict
        ``unchanged_by_secret[sensitive][secret]``: the share of its rows.
    floor : float or None
        The most that one more draw tells, recomputed; None without a floor.
    stayed, stayed_by_secret : float, dict
        The shares of the rows that are not moved: that stay in their bins, where there are bins.
    """

    _columns: Sequence[Column]
    _codes: Array
    matrix: Any
    numerators: Any
    expected_change: float
    unchanged: float
    unchanged_by_secret: Mapping[Any, Mapping[Any, float]]
    floor: float | None
    stayed: float = nan
    stayed_by_secret: Mapping[Any, Mapping[Any, float]] = field(default_factory=dict)

    @property
    def cells(self) -> Any:
        """The distinct rows as a DataFrame, which no pickle holds."""
        return cells_frame(self._columns, self._codes)

    def __repr__(self) -> str:
        kept = "; ".join(
            f"{shown(secret)} {share:.1%}"
            for shares in self.stayed_by_secret.values()
            for secret, share in shares.items()
        )
        return (
            f"Channel({len(self._codes)} cells, expected change {self.expected_change:.4g}, "
            f"stayed {self.stayed:.1%} ({kept}), unchanged {self.unchanged:.1%})"
        )


def as_matrix(rows: IntegerRows, *, whole: bool = False) -> Any:
    """Return a channel as a sparse matrix of probabilities, or of shares of 2^62."""
    data = rows.shares if whole else rows.shares / WHOLE
    shape = (rows.n_cells, rows.n_cells)
    return csr_array((np.array(data), rows.targets.copy(), rows.starts.copy()), shape=shape)


class Moved(NamedTuple):
    """Rows that were no cells, and became their nearest ones.

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
    cells : Cells
    rows : IntegerRows
    distance : CellDistance
        What moves cost.
    """

    columns: list[ColumnRelease]
    cells: Cells
    rows: IntegerRows
    distance: CellDistance

    def fingerprint(self, *about: Any) -> str:
        """Return what tells this channel, and what else counts, from all others."""
        rows = (self.rows.starts, self.rows.targets, self.rows.shares)
        own = (self.columns, self.cells.codes, rows, self.distance)
        return digest("sklearn_puffer.channel/1", own, *about)

    def released(self, table: Table, rules: TableRules, draw: Draw) -> tuple[Any, Moved | None]:
        """Return the released table in the caller's own type, and how many rows were moved.

        Raises
        ------
        TypeError, ValueError
            If the table does not fit, naming all columns that are at fault, or has rows that
            `fit` has not seen and ``unknown`` does not move.
        """
        readers = self._readers(table, draw.unknown, rules.missing)
        if draw.watch is not None:
            draw.watch.open(readers)
        try:
            found, moved = self._found(readers, table.n_rows, _moves_rows(draw.unknown))
        except (TypeError, ValueError):
            faults = Faults()
            faults.of(Reader.check, readers)
            faults.refuse()
            raise
        if draw.watch is not None:
            draw.watch.add(readers, table.n_rows)
        words = None if draw.keyed is None else self._words(draw.keyed, found)
        with task("rows drawn and written"):
            drawn = self.rows.sampler(draw.entropy(0)).draw(found, words)
            written = self._written(table, readers, drawn, rules.order)
        written |= {name: Finished(table.original(name), passed=True) for name in rules.passed}
        return table.build({name: written[name] for name in rules.order}), moved

    def _words(self, keyed: KeyedRows, found: Array) -> NDArray[np.uint64]:
        """Return the word that each row is drawn by, whose cell is all that it depends on."""
        cells = found.astype(np.int64, copy=False)
        # what is drawn shows the block: under a floor rows of one block have the same targets
        block = self.rows.targets[self.rows.starts[:-1]]
        words = np.empty(len(cells), dtype=np.uint64)
        with task("rows given their bits", len(cells)) as done:
            for rows in _blocks(len(cells)):
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

    def _found(
        self, readers: Sequence[Reader], n_rows: int, nearest: bool
    ) -> tuple[Array, Moved | None]:
        """Return the cell of each row."""
        found = np.empty(n_rows, dtype=np.intp)
        new = []
        with task("rows looked up", n_rows) as done:
            for rows in _blocks(n_rows):
                new.append(self._look_up(readers, rows, found[rows]))
                done(rows.stop - rows.start)
        strange = np.flatnonzero(found < 0)
        if not strange.size:
            return found, None
        if not nearest:
            raise ValueError(_new_rows(readers, strange.size, n_rows))
        cells, moves = self.distance.nearest(np.concatenate(new))
        if (cells < 0).any():
            raise ValueError(self._nowhere(int((cells < 0).sum()), n_rows))
        found[strange] = cells
        return found, Moved(n_rows, len(strange), float(moves.mean()))

    def _nowhere(self, n_new: int, n_rows: int) -> str:
        names = [self.columns[k].column.name for k in self.distance.stay]
        return (
            f"{n_new} of {n_rows} rows have values of columns {listed(names)} that no row of fit "
            "has, and columns of known= stay as they are; fit on rows that have them, or take "
            "fewer columns for known."
        )

    def _look_up(self, readers: Sequence[Reader], rows: slice, found: Array) -> FloatArray:
        """Write the cells of a block, -1 where a row is none, and return the values of those.

        Categories that `fit` has not seen are NaN there.
        """
        codes = np.empty((len(readers), len(found)), dtype=np.intp)
        values = np.empty((len(readers), len(found)))
        exact = np.ones(len(found), dtype=bool)
        for reader, own, numbers in zip(readers, codes, values, strict=True):
            reader.codes(rows, own)
            numbers[:] = np.where(lost := reader.lost(rows), np.nan, reader.column.atoms[own])
            exact &= ~lost
            if reader.column.edges is None and reader.column.kind in ("float", "integer"):
                data = reader.data(rows)
                check_finite(data, reader.column.name)
                exact &= data == numbers
                numbers[:] = data
        found[:] = np.where(exact, self.cells.find(codes.T), -1)
        return values.T[found < 0]

    def _written(
        self, table: Table, readers: Sequence[Reader], drawn: Array, order: Sequence[Name]
    ) -> dict[Name, Finished]:
        """Return the columns of the drawn cells."""
        of_name = {reader.column.name: (k, reader) for k, reader in enumerate(readers)}
        dtypes = {n: self.columns[k].dtype(reader.values) for n, (k, reader) in of_name.items()}
        outputs = table.empty_columns({name: dtypes[name] for name in order if name in dtypes})
        written: dict[Name, Finished] = {}
        for name, (k, _) in of_name.items():
            release, out = self.columns[k], outputs[name]
            values = bare_values(release.column.atoms, out.dtype)[self.cells.codes[:, k]]
            np.take(values, drawn, out=out)
            written[name] = finished(release, out, None)
        return written


def _moves_rows(unknown: Any) -> bool:
    """Return whether rows that are no cells are moved: where any value may be moved so."""
    if isinstance(unknown, Mapping):
        return "nearest" in unknown.values()
    return bool(unknown == "nearest")


def _blocks(n_rows: int) -> list[slice]:
    return [slice(a, min(a + BLOCK_ROWS, n_rows)) for a in range(0, n_rows, BLOCK_ROWS)]


def _new_rows(readers: Sequence[Reader], n_new: int, n_rows: int) -> str:
    names = [reader.column.name for reader in readers]
    return (
        f"{n_new} of {n_rows} rows have values of columns {listed(names)} that fit has not seen "
        f"together; {NEAREST} to release them as their nearest rows of fit (the certificate is "
        "about rows that follow the fitted law), or fit again: on the rows that are released, or "
        "with fewer bins (n_bins) or columns."
    )
