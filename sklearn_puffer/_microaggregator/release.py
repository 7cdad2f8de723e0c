"""The mechanism: a row is assigned a prototype, and the typical row of a drawn one is released.

And how the mechanism is written to JSON, and read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import Array, IntArray, task
from sklearn_puffer._codes import Column, row_blocks
from sklearn_puffer._documents import Fields, digest, read_as
from sklearn_puffer._microaggregator.certificate import TERMS, PrototypeCertificate
from sklearn_puffer._microaggregator.coordinates import Coordinates, LevelAxis, NumberAxis, Scores
from sklearn_puffer._microaggregator.drawn import ColumnSampler
from sklearn_puffer._microaggregator.prototypes import Prototypes
from sklearn_puffer._microaggregator.strata import ChannelIndex, KnownColumn, Strata
from sklearn_puffer._noise import CheckedEntropy, IntegerRows
from sklearn_puffer._release import (
    Draw,
    Mechanism,
    Moved,
    Released,
    TableRules,
    Terms,
    read_column,
    written_column,
)
from sklearn_puffer._rows import column_of
from sklearn_puffer._tables import (
    Finished,
    Kind,
    Name,
    Table,
    Values,
    row_digests,
    row_hashes,
)
from sklearn_puffer._words import plain, quoted

_UNTESTED = (
    'on_drift="raise" is for columns that noise releases, and rows become typical rows, whatever '
    'their distribution; compare shares of prototypes by assign(X), and pass on_drift="ignore".'
)


class Unseen(Moved):
    """Counts of released values that `fit` has not seen."""

    def sentence(self) -> str:
        """Return the warning."""
        worst = max(self.counts, key=lambda name: self.counts[name])
        n = sum(self.counts.values())
        return (
            f"{n:,} value{' was' if n == 1 else 's were'} not seen in fit, most in column "
            f"{str(worst)[:40]!r}; such rows became typical rows all the same: fit on rows that "
            "have them."
        )


@dataclass(frozen=True, eq=False)
class TypicalRows(Mechanism):
    """Releases typical rows.

    Attributes
    ----------
    prototypes : Prototypes
    channel : IntegerRows
        K(b|a), as shares of 2^62, for each prototype a; with known columns, the channels of all
        strata stacked.
    drawn : ColumnSampler or None
        How the columns of a released row are drawn, where not its typical row is released.
    known : Known or None
        How known columns are read and released, and whose row of the channel is which.
    """

    prototypes: Prototypes
    channel: IntegerRows
    drawn: ColumnSampler | None = None
    known: ChannelIndex | None = None

    kind: ClassVar[str | None] = "microaggregation"
    certificate: ClassVar[type[PrototypeCertificate]] = PrototypeCertificate
    is_key_material: ClassVar[bool] = True
    of_another_draw: ClassVar[str] = (
        "each run draws anew, and two releases of a row may tell more than one: for the same "
        "typical rows every time"
    )
    untested: ClassVar[str] = _UNTESTED

    @property
    def released_columns(self) -> list[Column]:
        """The public columns in the order of the fitted table, then known ones in bins."""
        columns = {**self.prototypes.rows}
        for each in [] if self.known is None else self.known.binned:
            assert each.numbers is not None
            columns[each.name] = each.numbers
        return [column_of(name, values) for name, values in columns.items()]

    @property
    def known_columns(self) -> list[Column]:
        """The known columns that are released as they are."""
        return [] if self.known is None else [column.as_column() for column in self.known.as_are]

    def cells(self, strata: IntArray, codes: IntArray) -> IntArray:
        """Return which row of the channel each row has, by its stratum and prototype."""
        return codes if self.known is None else np.asarray(self.known.rows[strata, codes])

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table of typical rows, in the caller's own type, and the unseen values.

        Raises
        ------
        TypeError, ValueError
            If a column holds another kind of values than in `fit`, or an infinite number.
        """
        rows = self.prototypes.coordinates.read(table)
        with task("rows assigned"):
            codes = self.prototypes.assign(rows)
        finished, unseen = {}, rows.unseen()
        if self.known is not None:
            strata = self.known.strata.read(table)
            codes = self.cells(strata, codes)
            finished = {c.name: c.finished(table) for c in self.known.strata.columns}
            unseen |= self.known.unseen(strata)
        finished |= self._finished(table, codes, draw)
        passed = {
            name: Finished(table.original(name), passed=True)
            for name in rules.order
            if name not in finished
        }
        columns = {**finished, **passed}
        return (
            table.build({name: columns[name] for name in rules.order}),
            Unseen(unseen, len(codes)),
        )

    def digests(self, table: Table) -> IntArray:
        """Return the digest of each row's public and known values."""
        rows = row_digests(self.prototypes.coordinates.read(table).columns)
        return rows if self.known is None else row_hashes(rows, self.known.strata.read(table))

    def _finished(self, table: Table, codes: IntArray, draw: Draw) -> dict[Name, Finished]:
        bits_of = _bits_of(draw, codes)
        sampler = self.channel.sampler()
        released = np.empty(len(codes), dtype=np.int64)
        bins: dict[Name, IntArray] = {}
        for block in row_blocks(len(codes)):
            words = bits_of(block)
            released[block] = sampler.draw(codes[block], words.words(len(codes[block])))
            if self.drawn is not None:
                for name, column in self.drawn.draw(released[block], words).items():
                    bins.setdefault(name, np.empty(len(codes), dtype=np.int64))[block] = column
        if self.drawn is not None:
            return self.drawn.finished(table, bins)
        return self.prototypes.finished(table, released)

    def terms(self, release: Any) -> Terms:
        """Return the terms of the release for a report."""
        known = () if self.known is None else self.known.strata.columns
        return replace(TERMS, known=[column.name for column in known])

    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of all that decides what is drawn, and of ``about``."""
        typical = [
            (name, values.kind, values.data, values.missing, values.levels, values.ordered)
            for name, values in self.prototypes.rows.items()
        ]
        channel = (self.channel.starts, self.channel.targets, self.channel.shares)
        drawn = None if self.drawn is None else _hashed(self.drawn)
        more = [] if self.known is None else list(self.known.hashed())
        parts = (self.prototypes.coordinates, typical, self.prototypes.sizes, channel, drawn, *more)
        return digest("sklearn_puffer.microaggregation/1", parts, *about)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact."""
        record: dict[str, Any] = {
            "columns": [written_column(column) for column in self.released_columns],
            "prototypes": written(self.prototypes),
            "numerators": {
                name: getattr(self.channel, name).tolist()
                for name in ("starts", "targets", "shares")
            },
        }
        if self.drawn is not None:
            record["drawn"] = written_drawn(self.drawn)
        if self.known is not None:
            record["known"] = written_known(self.known)
        return record

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> TypicalRows:
        """Return the mechanism that was written."""
        for column in columns:
            read_column(column)
        prototypes = read(record.read("prototypes", dict), record.named("prototypes"))
        channel, known, drawn = record.inner("numerators"), None, None
        record.check(channel is not None, "numerators")
        assert channel is not None
        rows = IntegerRows(*(channel.whole(name) for name in ("starts", "targets", "shares")))
        if record.has("known"):
            known = read_known(record.read("known", dict), record.named("known"))
        if record.has("drawn"):
            drawn = read_drawn(record.read("drawn", list), record.named("drawn"))
        return cls(prototypes, rows, drawn, known)


def _hashed(drawn: ColumnSampler) -> Any:
    return [
        (name, values.kind, values.data, values.missing, values.levels, drawn.counts[name])
        for name, values in drawn.values.items()
    ]


def _bits_of(draw: Draw, codes: Array) -> Callable[[slice], Any]:
    """Return the source of bits of some rows: fresh, or by key, id and row of the channel."""
    if draw.keyed is None:
        entropy = CheckedEntropy(draw.entropy(0))
        return lambda rows: entropy
    keyed, each = draw.keyed, codes.astype(np.int64)
    return lambda rows: keyed.columns(rows, [each[rows]], [each[rows]])[0]


# ---------------------------------------------------------------------------------------- as JSON
# Types are checked here. That a file says what was written is told by its fingerprint, once it is
# read: it is the digest of all that decides what is drawn.

_PLAIN = {str, int, float, bool, type(None)}


@dataclass(frozen=True)
class _ColumnRecord:
    """The typical values of a column; None where they are missing."""

    name: Name
    kind: Kind
    dtype: str
    data: tuple[Any, ...]
    levels: tuple[Any, ...] | None
    declared: bool
    ordered: bool
    unit: str | None = None


@dataclass(frozen=True)
class _Record:
    axes: tuple[NumberAxis | LevelAxis, ...]
    scores: Scores | None
    columns: tuple[_ColumnRecord, ...]
    sizes: tuple[int, ...]


def written(prototypes: Prototypes) -> dict[str, Any]:
    """Return prototypes as plain values.

    Raises
    ------
    ValueError
        If a category is no string, number or boolean.
    """
    for axis in prototypes.coordinates.axes:
        if isinstance(axis, LevelAxis):
            _check_plain([*axis.levels, *axis.rarer], axis.name)
    scores = prototypes.coordinates.scores
    return {
        "axes": [_listed(asdict(axis)) for axis in prototypes.coordinates.axes],
        "scores": scores and _listed(asdict(scores)),
        "columns": [_written(name, values) for name, values in prototypes.rows.items()],
        "sizes": prototypes.sizes.tolist(),
    }


def read(record: Any, field: str = "prototypes") -> Prototypes:
    """Return the prototypes that were written.

    Raises
    ------
    FieldError
        If a field is wrong, naming it.
    """
    parts = read_as(_Record, record, field)
    rows = {c.name: _read(c, f"{field}.columns.{c.name}") for c in parts.columns}
    coordinates = Coordinates(parts.axes, parts.scores)
    return Prototypes(coordinates, rows, np.array(parts.sizes, dtype=np.int64))


@dataclass(frozen=True)
class _DrawnRecord:
    values: _ColumnRecord
    counts: tuple[tuple[int, ...], ...]


def written_drawn(drawn: ColumnSampler) -> list[dict[str, Any]]:
    """Return how columns are drawn as plain values; see `written`."""
    return [
        {"values": _written(name, values), "counts": drawn.counts[name].tolist()}
        for name, values in drawn.values.items()
    ]


def read_drawn(record: Any, field: str = "drawn") -> ColumnSampler:
    """Return what `written_drawn` has written; see `read`."""
    parts = read_as(tuple[_DrawnRecord, ...], record, field)
    values = {part.values.name: _read(part.values, f"{field}.values") for part in parts}
    counts = {part.values.name: np.array(part.counts, dtype=np.int64) for part in parts}
    return ColumnSampler(values, counts)


@dataclass(frozen=True)
class _KnownColumnRecord:
    axis: NumberAxis | LevelAxis
    numbers: _ColumnRecord | None
    edges: tuple[float, ...] | None


@dataclass(frozen=True)
class _KnownRecord:
    columns: tuple[_KnownColumnRecord, ...]
    codes: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]


def written_known(known: ChannelIndex) -> dict[str, Any]:
    """Return known columns, strata and their rows of the channel as plain values; see `written`."""
    for axis in (column.axis for column in known.strata.columns):
        if isinstance(axis, LevelAxis):
            _check_plain(axis.levels, axis.name)
    columns = [
        {
            "axis": _listed(asdict(column.axis)),
            "numbers": column.numbers and _written(column.name, column.numbers),
            "edges": None if column.edges is None else column.edges.tolist(),
        }
        for column in known.strata.columns
    ]
    return {
        "columns": columns,
        "codes": known.strata.codes.tolist(),
        "rows": known.rows.tolist(),
    }


def read_known(record: Any, field: str = "known") -> ChannelIndex:
    """Return what `written_known` has written; see `read`."""
    parts, columns = read_as(_KnownRecord, record, field), []
    for part in parts.columns:
        numbers = part.numbers and _read(part.numbers, f"{field}.numbers")
        edges = None if part.edges is None else np.array(part.edges, dtype=np.float64)
        columns.append(KnownColumn(part.axis, numbers, edges))
    codes, rows = (np.array(each, dtype=np.int64) for each in (parts.codes, parts.rows))
    return ChannelIndex(Strata(tuple(columns), codes), rows)


def _check_plain(levels: Sequence[Any], name: Name) -> None:
    for level in levels:
        if type(plain(level)) not in _PLAIN:
            raise ValueError(
                f"column {quoted(name)} has the value {quoted(level)} of type "
                f"{type(level).__name__}, and JSON holds categories that are strings, numbers, "
                "booleans or missing; convert the column with astype(str), or save with joblib."
            )


def _listed(value: Any) -> Any:
    """Return a value with lists for tuples, and Python's own numbers."""
    if isinstance(value, Mapping):
        return {key: _listed(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(part) for part in value]
    return plain(value)


def _written(name: Name, values: Values) -> dict[str, Any]:
    data: list[Any] = values.data.tolist()
    if values.missing is not None:
        data = [None if gone else x for x, gone in zip(data, values.missing, strict=True)]
    levels = None if values.levels is None else _listed(values.levels)
    _check_plain(levels or (), name)
    return {
        "name": plain(name),
        "kind": values.kind,
        "dtype": values.data.dtype.str,
        "data": data,
        "levels": levels,
        "declared": values.declared,
        "ordered": values.ordered,
        "unit": values.unit,
    }


def _read(record: _ColumnRecord, field: str) -> Values:
    gone: Array = np.array([value is None for value in record.data])
    stand_in: Any = {"float": np.nan, "category": -1, "boolean": False}.get(record.kind, 0)
    number: Any = {"float": float, "boolean": bool}.get(record.kind, int)
    bare = [stand_in if value is None else read_as(number, value, field) for value in record.data]
    data: Array = np.array(bare, dtype=np.dtype(record.dtype))
    missing = gone if gone.any() else None
    values = Values(record.kind, data, missing, record.levels, record.declared, record.ordered)
    return replace(values, unit=record.unit)
