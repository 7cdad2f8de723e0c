"""Releases of tables that are never whole in memory: streams, and plans of lazy tables.

The ids of a stream are remembered in bounded memory, however long it is. A lazy table is released
by a plan whose tasks release parts of it, each row by its own keyed bits. A task holds the release
artifact, and a key that no text shows. It runs the code that releases tables in memory, so that a
plan and a release in memory agree bit for bit, however the engine cuts the table, and however often
it computes a part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, PufferfishWarning, UnseenValuesWarning, reporting, task
from sklearn_puffer._codes import Column, resolve
from sklearn_puffer._documents import digest
from sklearn_puffer._engines import CHANGED, TableStream, arrow, plans, row_ids
from sklearn_puffer._noise import Entropy, KeyedBits, ShippedKey, shipped_key
from sklearn_puffer._release.artifact import artifact_text, read_artifact
from sklearn_puffer._release.drift import drift_warning, watch_of
from sklearn_puffer._release.keyed_rows import (
    KeyedRows,
    Keying,
    check_keying,
    check_present,
    check_unlike,
    keyed_rows,
)
from sklearn_puffer._release.mechanism import Draw, FittedMechanism, Mechanism, Moved, TableRules
from sklearn_puffer._rows import check_size, check_unknown
from sklearn_puffer._tables import Name, Table, frame_table
from sklearn_puffer._words import listed, quoted

_NO_ROWS = "batches has 0 rows, and a minimum of 1 is required to release."


class StreamRelease:
    """The release of a stream by the mechanism that was fitted when it began."""

    def __init__(
        self,
        fitted: FittedMechanism,
        draw: Draw,
        stream: TableStream,
        keying: Keying | None,
    ) -> None:
        """``keying`` becomes that of the column of ids."""
        if keying is not None:
            why = "a stream has its ids in a column; name that column."
            keying = replace(keying, row_id=_id_column(keying.row_id, stream.names, why))
        self._fitted, self._draw, self._keying = fitted, draw, keying
        columns = [column.name for column in fitted.mechanism.released_columns]
        self._stream = stream.with_labels(columns)
        self._names = _needed(fitted.rules, stream, keying)
        pa, read = arrow("a stream"), self._stream.schema
        empty = pa.schema([read.field(name) for name in self._names]).empty_table()
        # the types of a release are the same whatever the values
        types = {name: empty.schema.field(name).type for name in fitted.rules.passed}
        types |= fitted.mechanism.types(frame_table(empty), empty.schema)
        self.schema = pa.schema([pa.field(str(name), types[name]) for name in fitted.rules.order])
        self._context = None if keying is None else fitted.context(keying)

    def check_ids(self) -> None:
        """Refuse ids that are absent or not unique, before anything is drawn.

        If the stream can be read only once, ids are compared with all earlier ones as they come.
        """
        if self._keying is None or not self._stream.again:
            return
        seen = SeenIds()
        with task("ids read") as done:
            for table in self._stream.tables([self._keying.row_id]):
                self._keyed(frame_table(table), table, seen)
                done(table.num_rows)

    def check_rows(self) -> int:
        """Refuse all that the release of a row would refuse, and return the number of rows.

        The draws that this takes are thrown away.
        """
        n_rows, fitted = 0, self._fitted
        with task("rows checked") as done:
            for table in self._stream.tables(self._names):
                fitted.mechanism.released(frame_table(table), fitted.rules, self._draw)
                n_rows += table.num_rows
                done(table.num_rows)
        if not n_rows:
            raise ValueError(_NO_ROWS)
        return n_rows

    def batches(
        self, entropies: Callable[[], Callable[[int], Entropy]], *, verbose: bool = False
    ) -> Iterator[Any]:
        """Yield the released rows as Arrow batches, each with the next of ``entropies``.

        If an id is repeated, what was yielded until then is a release of rows with unique ids.
        """
        seen, moved, n_tables = SeenIds(), Moved({}, 0), 0
        fitted, watch = self._fitted, watch_of(self._fitted.rules.margins)
        with reporting(verbose, "rows released") as done:
            for table in self._stream.tables(self._names):
                rows = frame_table(table)
                keyed = None if self._keying is None else self._keyed(rows, table, seen)
                draw = replace(self._draw, entropy=entropies(), keyed=keyed, watch=watch)
                released, further = fitted.mechanism.released(rows, fitted.rules, draw)
                moved = moved.and_more(further) if further else moved
                n_tables += 1
                done(rows.n_rows)
                yield from released.cast(self.schema).combine_chunks().to_batches()
        if not n_tables:
            raise ValueError(_NO_ROWS)
        if moved:
            warnings.warn(moved.sentence(), UnseenValuesWarning, stacklevel=2)
        if sentence := drift_warning(watch):
            warnings.warn(sentence, PufferfishWarning, stacklevel=2)

    def _keyed(self, rows: Table, table: Any, seen: SeenIds) -> Any:
        """Return the bits of rows; refuse ids that an earlier row had."""
        assert self._keying is not None
        assert self._context is not None
        keyed = self._keying.rows(rows, table, self._context)
        if (at := seen.first_known(keyed.ids)) is not None:
            name = self._keying.row_id  # its value stays out of logs
            raise ValueError(
                f"row_id {quoted(name)} has an id in row {len(seen) + at} (from 0) that an earlier "
                "row has, and two rows of one id would be two releases of it; give each row an id "
                "of its own, such as the person's id with the row's date."
            )
        return keyed


def check_stream(noiser: Any, stream: TableStream) -> int:
    """Refuse a stream with rows that the release would refuse, and return its number of rows."""
    if not noiser._fitted.mechanism.by_row:  # a whole table is released before it is on record
        return 0
    return StreamRelease(noiser._fitted, noiser._draw(), stream, None).check_rows()


def rows_of_stream(noiser: Any, stream: TableStream, row_id: str | None) -> Iterator[Any]:
    """Yield the rows of a stream as tables of the released columns and the ids.

    Where rows are not released one by one, they come as one table.
    """
    keying = None if row_id is None else Keying(row_id, b"", "", 0)
    tables = stream.tables(_needed(noiser._fitted.rules, stream, keying))
    if noiser._fitted.mechanism.by_row:
        return tables
    return iter([arrow("a stream").concat_tables(tables)])


def keyed_mark(noiser: Any, what: str, *, row_id: Any, key: Any, dataset: str, release: int) -> str:
    """Return a mark that equal keyed releases share, of tables called ``what``.

    It is a function of the key that tells nothing about the noise or the table.
    """
    keying = check_keying(row_id, key, dataset, release, None)
    assert keying is not None
    bits = KeyedBits(keying.key, digest("sklearn_puffer.mark/1", noiser._fitted.context(keying)))
    return bits.ids_of([f"{what}|{row_id}"]).astype("<u8").tobytes().hex()


def types_of(noiser: Any) -> dict[str, str]:
    """Return the types of the columns in a CSV file that a release depends on."""
    fitted = noiser._fitted
    # some releases depend on columns that they hand through
    stays = getattr(fitted.certificate.fitted, "stays", ())
    mechanism = fitted.mechanism
    columns = [*mechanism.released_columns, *mechanism.known_columns, *stays]
    return {str(column.name): _type_of(column) for column in columns}


def _type_of(column: Column) -> str:
    """Return the type of a column of a CSV file that was fitted so.

    >>> import numpy as np
    >>> _type_of(Column("age", "integer", np.arange(3.0), np.ones(3, dtype=bool)))
    'integer'
    """
    if column.kind != "category":
        return column.kind
    levels = [level for level in column.levels or () if level is not None]
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "float")):
        if levels and all(type(level) is kind for level in levels):
            return name
    return "string"


def _needed(rules: TableRules, stream: TableStream, keying: Keying | None) -> list[str]:
    """Return the columns that are read: the released columns and the ids."""
    rules.check_columns(stream.names, "batches")
    names = [str(name) for name in rules.order]
    more = [] if keying is None or keying.row_id in names else [keying.row_id]
    return [*names, *more]


Words = NDArray[np.uint64]

_ON_DISK = 1 << 21  # ids in a run that is moved to the disk: 32 MB


class SeenIds:
    """The ids of a stream so far, as sorted runs of 16 bytes each.

    Short runs are merged. Long runs are moved to an unnamed file, which the system may take out of
    memory.

    Examples
    --------
    >>> seen = SeenIds()
    >>> seen.first_known(np.array([[7, 0], [3, 0]], dtype=np.uint64)) is None
    True
    >>> seen.first_known(np.array([[5, 0], [3, 0]], dtype=np.uint64))
    1
    """

    def __init__(self, on_disk: int = _ON_DISK) -> None:
        self._on_disk = on_disk
        self._runs: list[Array] = []
        self._filed: list[Array] = []

    def __len__(self) -> int:
        return sum(map(len, (*self._filed, *self._runs)))

    def first_known(self, ids: Words) -> int | None:
        """Return the index of an id that was seen before, or None; then remember all of these."""
        if not len(ids):
            return None
        ascending: Array = np.ascontiguousarray(ids).view("S16")[:, 0]
        order = np.argsort(ascending)
        ascending = ascending[order]
        for run in (*self._filed, *self._runs):
            seen = run.take(np.searchsorted(run, ascending), mode="clip") == ascending
            if seen.any():
                return int(order[seen.argmax()])
        self._add(ascending)
        return None

    def _add(self, run: Array) -> None:
        """Keep a run, merged with shorter ones, so that there are few."""
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run) < self._on_disk:
            self._runs.append(run)
            return
        with TemporaryFile() as file:  # the mapped file stays, and has no name
            file.write(run.tobytes())
            file.flush()
            self._filed.append(np.memmap(file, dtype=run.dtype, mode="r"))


def plan_release(fitted: FittedMechanism, unknown: Any, X: Any, keying: Keying) -> Any:
    """Return the release of a lazy table as a lazy table; its ids are counted first."""
    check_unknown(unknown)
    names, keyed = read_lazily(fitted, X, keying)
    task = PartRelease(type(fitted.mechanism), artifact_text(fitted, unknown), *keyed)
    columns = fitted.mechanism.released_columns
    plans.check_lazy_kinds(X, {str(column.name): column.kind for column in columns})
    plan = plans.planned(X, names, task)
    check_ids(X, keyed[2])
    return plan


def read_lazily(
    fitted: FittedMechanism, X: Any, keying: Keying
) -> tuple[list[str], tuple[ShippedKey, str, str, row_ids.Text]]:
    """Return the columns of a lazy table that are read, and the arguments of a `KeyedPart`."""
    names = plans.lazy_names(X)
    fitted.rules.check_columns(names)
    why = (
        "the rows of a lazy table have no place that ids beside it could stand at; name the column "
        "of X that holds them."
    )
    row_id = str(_id_column(keying.row_id, names, why))
    key, text = shipped_key(keying.given, keying.key), row_ids.check_id_type(X, row_id)
    wanted = {*fitted.rules.order, row_id}
    return [name for name in names if name in wanted], (key, fitted.context(keying), row_id, text)


def check_lazily(container: str, on_drift: str) -> None:
    """Refuse options that need the rows of a lazy table before it is computed."""
    if on_drift == "raise":
        raise ValueError(
            'on_drift="raise" looks at all rows before any is given away, and X is a lazy table; '
            'pass on_drift="ignore", and look at a sample of X by certificate_.check(sample).'
        )
    if container != "default":
        raise ValueError(
            f"set_output(transform={container!r}) asks for a table in memory, and X is a lazy one, "
            'whose release is lazy too; call set_output(transform="default").'
        )


def _id_column(row_id: Any, names: Sequence[Name], why: str) -> Name:
    if not isinstance(row_id, str | int | np.integer):
        raise TypeError(f"row_id is a {type(row_id).__name__}, and {why}")
    return resolve(row_id, names, "row_id")[0]


def check_ids(X: Any, row_id: str) -> None:
    """Refuse ids that are missing or not unique in the whole table, as it is now."""
    with task("ids counted by the engine"):
        rows, absent, distinct = row_ids.count_ids(X, row_id)
    check_size(rows, 1, "row")
    check_present(absent, rows, row_id)
    check_unlike(distinct, rows, row_id)


class _NoBits:
    """Fails where fresh noise would be drawn: in a task all noise is keyed."""

    def words(self, count: int) -> Any:
        raise RuntimeError("a task of a plan draws keyed noise alone.")


class KeyedPart:
    """A task that computes a part of a table by the keyed bits of its rows.

    ``context`` is a digest of all that shapes the draws, ``row_id`` the column of ids, and ``text``
    parses ids that the engine passes as text.
    """

    def __init__(
        self, key: ShippedKey, context: str, row_id: str, text: row_ids.Text = None
    ) -> None:
        self._key, self._context, self._row_id, self._text = key, context, row_id, text

    way_out = Mechanism.way_out

    def __call__(self, part: Any) -> Any:
        """Return the result for a part, which may have no rows, in the part's type.

        No error has a value or the key in it.
        """
        fault: Exception
        try:
            try:
                bits = self._bits()
            except (TypeError, ValueError, OSError, ImportError) as error:
                fault = type(error)(str(error))  # of the key, which is not in it
            else:
                return self.made(part, bits)
        except Exception as error:
            fault = self._without_values(part, error)
        raise fault  # here, where nothing refers to the first error and its values any more

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the result for a part, drawn with the bits of a key."""
        raise NotImplementedError

    def keyed(self, table: Table, bits: KeyedBits) -> KeyedRows:
        """Return the bits of the rows of a part, whose ids must all be present."""
        rows = keyed_rows(bits, table, self._row_id, text=self._text)
        rows.key, rows.context = self._key.read(), self._context
        return rows

    def _bits(self) -> KeyedBits:
        return KeyedBits(self._key.read(), self._context)

    def _without_values(self, part: Any, error: Exception) -> Exception:
        """Return the error without a value in it: many people read the errors of tasks."""
        if str(error).startswith("row_id ") or str(error) == CHANGED:  # counts and types
            return ValueError(str(error))
        names = [n for n in frame_table(part).names if f"column {quoted(n)} " in str(error)]
        where = f"column {listed(names)} holds" if names else "some rows hold"
        return ValueError(
            f"{where} values, or miss values, that have no place in the release; release these "
            "rows in memory to see which (here they would be in the logs of the engine), or "
            f"{self.way_out}."
        )


_read = lru_cache(maxsize=8)(read_artifact)


class PartRelease(KeyedPart):
    """A task that releases a part of a table by a release artifact, which holds no priors.

    ``kind`` is named here, so that whoever loads the task also loads what reads the artifact.
    """

    def __init__(
        self,
        kind: type[Mechanism],
        artifact: str,
        key: ShippedKey,
        context: str,
        row_id: str,
        text: row_ids.Text = None,
    ) -> None:
        super().__init__(key, context, row_id, text)
        self._kind, self._artifact, self.way_out = kind, artifact, kind.way_out

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the released rows of a part."""
        table = frame_table(part)
        fitted, unknown = _read(self._artifact)
        draw = Draw(lambda column: _NoBits(), unknown, self.keyed(table, bits))
        return fitted.mechanism.released(table, fitted.rules, draw)[0]
