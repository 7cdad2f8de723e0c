"""The mechanism: a row is assigned a prototype, and the typical row of a drawn one is released.

And how the mechanism is written to JSON, and read.

*Strata* are the combinations of the values of known columns, which are released as they are, or as
the medians of bins. Every stratum has a channel of its own between the same prototypes; the
channels of all strata are stacked. A stratum that is too small, or that `fit` has not seen, has the
constant channel of the whole table, which tells nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from sklearn_puffer._base import Array, IntArray, PufferfishWarning, task
from sklearn_puffer._codes import Column, learn_column, row_blocks
from sklearn_puffer._documents import Fields, digest, plain_tree, read_as
from sklearn_puffer._microaggregator.certificate import PrototypeCertificate, terms_of
from sklearn_puffer._microaggregator.coordinates import (
    Axis,
    Coordinates,
    LevelAxis,
    NumberAxis,
    Scores,
)
from sklearn_puffer._microaggregator.prototypes import (
    ColumnSampler,
    Prototypes,
    finished_columns,
)
from sklearn_puffer._noise import CheckedEntropy, IntegerRows
from sklearn_puffer._numerics import combinations_of
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
    AnyTable,
    Finished,
    Kind,
    Name,
    Table,
    Values,
    alike,
    check_finite,
    row_digests,
    row_hashes,
    values_frame,
    values_of,
)
from sklearn_puffer._words import listed, plain, quoted

MOST_STRATA = 1_000


@dataclass(frozen=True, eq=False)
class KnownColumn:
    """The distinct values, or bins, of a known column.

    Attributes
    ----------
    axis : NumberAxis or LevelAxis
        How the column is read; its levels are the values of categories.
    numbers : Values or None
        Of numbers or dates: the distinct values, or the medians of bins, ascending. A missing
        number is a further value, after them.
    edges : ndarray or None
        Upper ends of all bins but the last.
    """

    axis: Axis
    numbers: Values | None = None
    edges: Array | None = None

    @classmethod
    def learnt(
        cls, name: Name, values: Values, n_bins: int | None, weights: Array | None
    ) -> KnownColumn:
        """Return the distinct values, or bins, of a column of the fitted rows.

        Raises
        ------
        TypeError, ValueError
            If bins are asked for a column without numbers, or a number is infinite.
        """
        if values.kind not in ("float", "integer"):
            if n_bins is not None:
                raise TypeError(
                    f"known[{name!r}] asks for bins, and column {name!r} is {values.kind}; pass "
                    "None there for its values as they are."
                )
            coded = values.as_levels()
            levels = (*(coded.levels or ()), None)
            seen = np.unique(coded.filled(-1) % len(levels))
            return cls(LevelAxis(name, values.kind, 1.0, tuple(levels[k] for k in seen), ()))
        has_missing = values.missing is not None
        axis = NumberAxis(name, values.kind, 0.0, 1.0, 1.0, has_missing, values.unit)
        data = values.present
        if values.kind == "float":
            check_finite(data, name)
            data = data + 0.0  # one zero
        numbers, edges = np.unique(data), None
        if n_bins is not None and len(data):
            bins = learn_column(name, values, n_bins=n_bins, missing="propagate", weights=weights)
            numbers, edges = bins.atoms, bins.edges
        numbers = numbers.astype(values.data.dtype)
        return cls(axis, Values(values.kind, numbers, unit=values.unit), edges)

    @property
    def name(self) -> Name:
        """The name of the column."""
        return self.axis.name

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def labels(self) -> list[Any]:
        """The values, None for a missing one."""
        if isinstance(self.axis, LevelAxis):
            return list(self.axis.levels)
        assert self.numbers is not None
        return [*values_frame({self.name: self.numbers})[self.name].tolist(), None]

    def read(self, table: AnyTable) -> Values:
        """Return the column of a table, of the kind that `fit` saw."""
        return self.axis.fitted(values_of(table, self.axis))

    def codes(self, values: Values) -> IntArray:
        """Return the index of each row's value, -1 if `fit` has not seen it."""
        if isinstance(self.axis, LevelAxis):
            return self.axis.indicators(values, slice(0, len(values)))
        assert self.numbers is not None
        numbers = self.numbers.data
        if self.edges is not None:
            codes = np.searchsorted(self.edges, values.data)
        elif len(numbers):
            codes = np.searchsorted(numbers, values.data)
            same = np.take(numbers, codes, mode="clip") == values.data
            codes = np.where(same, codes, -1)
        else:
            codes = np.full(len(values), -1)
        return codes if values.missing is None else np.where(values.missing, len(numbers), codes)

    def as_column(self) -> Column:
        """Return the column, as it is released."""
        if self.numbers is not None:
            return column_of(self.name, self.numbers)
        levels = tuple(level for level in self.labels if level is not None)
        codes = np.arange(len(levels))
        return column_of(self.name, Values(self.axis.kind, codes, levels=levels))

    def finished(self, table: Table) -> Finished:
        """Return the column as it is released, to be built: its values, or the medians of bins.

        Equal values are written alike: their differences, such as the sign of a zero, are in no
        count.
        """
        if self.edges is None:
            return Finished(alike(table.original(self.name)), passed=True)
        assert self.numbers is not None
        values = self.read(table)
        bins = np.minimum(self.codes(values), len(self.numbers) - 1)
        return Finished(self.numbers.data[bins], values.missing, unit=self.numbers.unit)


@dataclass(frozen=True, eq=False)
class Strata:
    """The combinations of known values that `fit` saw.

    Attributes
    ----------
    columns : tuple of KnownColumn
    codes : ndarray of int64 of shape (n_strata, n_columns)
        The index of the value of each column, ascending.
    """

    columns: tuple[KnownColumn, ...]
    codes: IntArray

    @classmethod
    def learnt(cls, columns: Sequence[KnownColumn], codes: Sequence[IntArray]) -> Strata:
        """Return the strata that occur among rows with these codes of each column.

        Raises
        ------
        ValueError
            If there are more than `MOST_STRATA`.
        """
        kinds = combinations_of(codes, len(codes[0]))
        if kinds.max() >= MOST_STRATA:
            most = max(columns, key=len)
            raise ValueError(
                f"known={listed([c.name for c in columns])} has more than {MOST_STRATA:,} "
                "combinations of values, each of which is a stratum; merge values, or read "
                f"numbers in bins, such as known={{{most.name!r}: 10}}."
            )
        firsts = np.unique(kinds, return_index=True)[1]
        return cls(tuple(columns), np.stack([each[firsts] for each in codes], axis=1))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def names(self) -> list[Name]:
        """The names of the known columns."""
        return [column.name for column in self.columns]

    @property
    def labels(self) -> list[Any]:
        """The value of each stratum, or the tuple of its values."""
        rows = [
            tuple(c.labels[k] for c, k in zip(self.columns, codes, strict=True))
            for codes in self.codes.tolist()
        ]
        return [row[0] for row in rows] if len(self.columns) == 1 else rows

    def of(self, codes: Sequence[IntArray]) -> IntArray:
        """Return the stratum of each row by codes of its known columns, -1 if it is unseen."""
        both = [np.concatenate(each) for each in zip(self.codes.T, codes, strict=True)]
        seen, rows = np.split(combinations_of(both, len(both[0])), [len(self)])
        strata = np.full(max(seen.max(), rows.max(initial=0)) + 1, -1)
        strata[seen] = np.arange(len(self))
        return np.asarray(strata[rows])

    def read(self, table: AnyTable) -> IntArray:
        """Return the stratum of each row of a table, -1 if it is unseen."""
        return self.of([column.codes(column.read(table)) for column in self.columns])


# ------------------------------------------------------------------------------- the mechanism


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
    strata : Strata or None
        How known columns are read and released.
    rows : ndarray of int64 of shape (n_strata + 1, n_prototypes), or None
        The row of the stacked channels of each stratum and prototype; the last for rows of an
        unseen stratum.
    """

    prototypes: Prototypes
    channel: IntegerRows
    drawn: ColumnSampler | None = None
    strata: Strata | None = None
    rows: IntArray | None = None

    kind: ClassVar[str | None] = "microaggregation"
    certificate: ClassVar[type[PrototypeCertificate]] = PrototypeCertificate
    is_key_material: ClassVar[bool] = True
    untested: ClassVar[str] = (
        'on_drift="raise" is for columns that noise releases, and rows become typical rows, '
        "whatever their distribution; compare shares of prototypes by assign(X), and pass "
        'on_drift="ignore".'
    )

    @property
    def _known(self) -> tuple[KnownColumn, ...]:
        return () if self.strata is None else self.strata.columns

    @property
    def released_columns(self) -> list[Column]:
        """The public columns in the order of the fitted table, then known ones in bins."""
        columns = {**self.prototypes.rows}
        for column in self._known:
            if column.edges is not None and column.numbers is not None:
                columns[column.name] = column.numbers
        return [column_of(*each) for each in columns.items()]

    @property
    def known_columns(self) -> list[Column]:
        """The known columns that are released as they are."""
        return [column.as_column() for column in self._known if column.edges is None]

    @property
    def coarse(self) -> list[Name]:
        """The names of the known columns that are released in bins."""
        return [column.name for column in self._known if column.edges is not None]

    def cells(self, strata: IntArray, codes: IntArray) -> IntArray:
        """Return which row of the channel each row has, by its stratum and prototype."""
        return codes if self.rows is None else np.asarray(self.rows[strata, codes])

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
        finished, unseen, strata = {}, rows.unseen(), None
        if self.strata is not None:
            strata = self.strata.read(table)
            codes, strange = self.cells(strata, codes), int(np.count_nonzero(strata < 0))
            finished = {column.name: column.finished(table) for column in self._known}
            unseen |= {self.strata.names[0]: strange} if strange else {}
        finished |= self._finished(table, codes, draw)
        passed = {
            name: Finished(table.original(name), passed=True)
            for name in rules.order
            if name not in finished
        }
        columns = {**finished, **passed}
        whole = table.build({name: columns[name] for name in rules.order})
        if not draw.repeatable and draw.by is not None:  # a call that failed has released nothing
            digests = row_digests(rows.columns)
            _warn_again(draw.by, digests if strata is None else row_hashes(digests, strata))
        return whole, Unseen(unseen, len(codes))

    def _finished(self, table: Table, codes: IntArray, draw: Draw) -> dict[Name, Finished]:
        # bits are fresh, or by key, id and row of the channel
        keyed, each, sampler = draw.keyed, codes.astype(np.int64), self.channel.sampler()
        fresh = CheckedEntropy(draw.entropy(0)) if keyed is None else None
        released = np.empty(len(codes), dtype=np.int64)
        bins: dict[Name, IntArray] = {}
        for block in row_blocks(len(codes)):
            words: Any = fresh
            if keyed is not None:
                words = keyed.columns(block, [each[block]], [each[block]])[0]
            released[block] = sampler.draw(codes[block], words.words(len(codes[block])))
            if self.drawn is not None:
                for name, column in self.drawn.draw(released[block], words).items():
                    bins.setdefault(name, np.empty(len(codes), dtype=np.int64))[block] = column
        if self.drawn is not None:
            return finished_columns(table, self.drawn.values, bins)
        rows = self.prototypes.rows
        return finished_columns(table, rows, dict.fromkeys(rows, released))

    def terms(self, release: Any) -> Terms:
        """Return the terms of the release for a report."""
        known = [column.name for column in self._known]
        return terms_of(release.certificate_.facts, known, self.coarse)

    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of all that decides what is drawn, and of ``about``."""
        typical = [
            (name, values.kind, values.data, values.missing, values.levels, values.ordered)
            for name, values in self.prototypes.rows.items()
        ]
        channel = (self.channel.starts, self.channel.targets, self.channel.shares)
        drawn = self.drawn and [
            (name, each.kind, each.data, each.missing, each.levels, self.drawn.counts[name])
            for name, each in self.drawn.values.items()
        ]
        parts: Any = (self.prototypes.coordinates, typical, self.prototypes.sizes, channel, drawn)
        if self.strata is not None:
            numbers = [None if c.numbers is None else c.numbers.data for c in self._known]
            known = [(c.axis, own, c.edges) for c, own in zip(self._known, numbers, strict=True)]
            parts = (*parts, *known, (self.strata.codes, self.rows))
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
        if self.strata is not None and self.rows is not None:
            columns = [
                {
                    "axis": _plain(each.axis),
                    "numbers": None if (own := each.numbers) is None else _written(each.name, own),
                    "edges": None if each.edges is None else each.edges.tolist(),
                }
                for each in self.strata.columns
            ]
            codes, rows = self.strata.codes.tolist(), self.rows.tolist()
            record["known"] = {"columns": columns, "codes": codes, "rows": rows}
        return record

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> TypicalRows:
        """Return the mechanism that was written."""
        for column in columns:
            read_column(column)
        prototypes = read(record.read("prototypes", dict), record.named("prototypes"))
        channel: Any = record.inner("numerators")
        record.check(channel is not None, "numerators")
        strata, drawn = None, None
        numbers = (channel.whole(name) for name in ("starts", "targets", "shares"))
        if record.has("known"):
            strata = read_strata(record.read("known", dict), record.named("known"))
        if record.has("drawn"):
            drawn = read_drawn(record.read("drawn", list), record.named("drawn"))
        return cls(prototypes, IntegerRows(*numbers), drawn, *(strata or (None, None)))


# ---------------------------------------------------------------------------------------- as JSON
# Types are checked here. That a file says what was written is told by its fingerprint, once it is
# read: it is the digest of all that decides what is drawn.


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
    scores = prototypes.coordinates.scores
    return {
        "axes": [_plain(axis) for axis in prototypes.coordinates.axes],
        "scores": scores and _plain(scores),
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


def read_strata(record: Any, field: str) -> tuple[Strata, IntArray]:
    """Return known columns and strata that were written, and the rows of the channel."""
    parts, columns = read_as(_KnownRecord, record, field), []
    for part in parts.columns:
        numbers = part.numbers and _read(part.numbers, f"{field}.numbers")
        edges = None if part.edges is None else np.array(part.edges, dtype=np.float64)
        columns.append(KnownColumn(part.axis, numbers, edges))
    codes, rows = (np.array(each, dtype=np.int64) for each in (parts.codes, parts.rows))
    return Strata(tuple(columns), codes), rows


def _plain(value: Any) -> Any:
    """Return the fields of an axis, of scores or of a column for JSON."""
    if isinstance(value, LevelAxis):  # typical values are among these levels
        for level in (*value.levels, *value.rarer):
            if type(plain(level)) not in (str, int, float, bool, type(None)):
                raise ValueError(
                    f"column {quoted(value.name)} has the value {quoted(level)} of type "
                    f"{type(level).__name__}, and JSON holds categories that are strings, numbers, "
                    "booleans or missing; convert the column with astype(str), or save with joblib."
                )
    return plain_tree(vars(value))


def _written(name: Name, values: Values) -> Any:
    data: list[Any] = values.data.tolist()
    if values.missing is not None:
        data = [None if gone else x for x, gone in zip(data, values.missing, strict=True)]
    about = values.levels, values.declared, values.ordered, values.unit
    return _plain(_ColumnRecord(name, values.kind, values.data.dtype.str, tuple(data), *about))


def _read(record: _ColumnRecord, field: str) -> Values:
    gone: Array = np.array([value is None for value in record.data])
    stand_in: Any = {"float": np.nan, "category": -1, "boolean": False}.get(record.kind, 0)
    number: Any = {"float": float, "boolean": bool}.get(record.kind, int)
    bare = [stand_in if value is None else read_as(number, value, field) for value in record.data]
    data: Array = np.array(bare, dtype=np.dtype(record.dtype))
    missing = gone if gone.any() else None
    about = record.levels, record.declared, record.ordered
    return Values(record.kind, data, missing, *about, unit=record.unit)


_AGAIN = (
    "{:,} of {:,} rows were released before, and two independent releases of a row may tell far "
    "more than one; pass row_id= and a key to release rows alike each time."
)

_MOST_REMEMBERED = 1 << 22  # rows; those of later releases are only compared with them


class ReleasedRows:
    """Digests of the rows that were released so far; equal rows may be different people.

    If N of n rows are singletons, a further row of the same distribution is new with a probability
    of about N / n (Good 1953). If significantly fewer rows of a release are new, some were released
    before.

    Attributes
    ----------
    warned : bool
        Whether some rows were released before.
    """

    def __init__(self) -> None:
        self.warned = False
        self._tables: set[str] = set()
        self._rows, self._counts = np.zeros((2, 0), dtype=np.int64)

    def add(self, digests: Array) -> int:
        """Add the rows of a release, and return how many of them equal earlier ones."""
        rows, counts = np.unique(digests, return_counts=True)
        table, n_before = digest(rows, counts), int(self._counts.sum())
        n_repeated = int(counts[np.isin(rows, self._rows, assume_unique=True)].sum())
        share = 1.0 - np.count_nonzero(self._counts == 1) / max(n_before, 1)
        by_chance = share * len(digests)
        many = bool(n_repeated > by_chance + 3.0 * by_chance**0.5 + 2.0)
        self.warned = self.warned or many or table in self._tables
        self._tables.add(table)
        if n_before < _MOST_REMEMBERED:
            both = np.concatenate([self._counts, counts])
            self._rows, which = np.unique(np.concatenate([self._rows, rows]), return_inverse=True)
            self._counts = np.bincount(which, both).astype(np.int64)
        return n_repeated


# what was released without a key, by what releases: copies and files do not hold it
_before: WeakKeyDictionary[Any, ReleasedRows] = WeakKeyDictionary()


def _warn_again(by: Any, digests: IntArray) -> None:
    """Warn once where rows are released a second time without a key."""
    before = _before.setdefault(by, ReleasedRows())
    warned, count = before.warned, before.add(digests)
    if before.warned and not warned:
        warnings.warn(_AGAIN.format(count, len(digests)), PufferfishWarning, stacklevel=6)


def forget(by: Any) -> None:
    """Forget what was released before a fit."""
    _before.pop(by, None)
