"""Spends of a ledger of persons: many rows, judged and put on record in one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, IntArray, counted, task
from sklearn_puffer._releases.composition import Axis, Rule
from sklearn_puffer._releases.person_file import damaged
from sklearn_puffer._releases.person_state import (
    Call,
    Counts,
    Judge,
    followed,
    scales_from,
    scales_to,
)

Marks = NDArray[np.uint64]

BASE = 0
"""The history of persons that are not on record yet."""

_MARK, _DRAW = 16, 8  # bytes of the mark of a person, and of a draw
_FEW = 8  # persons on record for each that is asked for: that many are read rather than sought

_AT_ONCE = 1 << 15  # rows of one call of the database
_PUT = (
    "INSERT INTO persons VALUES (?, ?, ?, ?) ON CONFLICT (person) DO UPDATE SET "
    "form = excluded.form, history = excluded.history, "
    "draws = CAST(draws || excluded.draws AS BLOB)"
)

_Found = tuple[NDArray[np.intp], IntArray, IntArray, Sequence[bytes]]


@dataclass(frozen=True)
class Asked:
    """Rows that are to be released, a person each.

    Attributes
    ----------
    persons : ndarray of uint64 of shape (n, 2)
    forms, draws : ndarray of uint64 of shape (n,)
    """

    persons: Marks
    forms: Marks
    draws: Marks


@dataclass(frozen=True)
class Verdict:
    """What becomes of each row: one of the masks, of shape (n,), has it, or it is a new release.

    Attributes
    ----------
    repeated : ndarray of bool
        Its noise is on record.
    changed : ndarray of bool
        Another form of the person is on record, who may have another release.
    overspent : ndarray of bool
        The person has had all releases.
    """

    repeated: BoolArray
    changed: BoolArray
    overspent: BoolArray

    @property
    def withheld(self) -> BoolArray:
        """Which rows may not be released."""
        return self.changed | self.overspent

    @property
    def new(self) -> BoolArray:
        """Which rows are one more release of their person."""
        return ~(self.repeated | self.withheld)


class Book:
    """The tables of a ledger, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path, rule: Rule) -> None:
        self._connection, self._path, self._rule = connection, path, rule
        self._read()

    def _read(self) -> None:
        fetch = self._connection.execute
        try:
            kinds = fetch("SELECT kind, scales FROM kinds ORDER BY kind").fetchall()
            self.kinds = [scales_from(json.loads(scales)) for _, scales in kinds]
            rows = fetch("SELECT history, counts FROM histories ORDER BY history").fetchall()
            self.histories = [_counts(json.loads(counts), len(kinds)) for _, counts in rows]
            numbers = [number for number, _ in kinds], [number for number, _ in rows]
            if any(own != list(range(len(own))) for own in numbers) or not rows:
                raise ValueError("they are not numbered")
        except (ValueError, TypeError) as fault:
            raise damaged(self._path, "its histories cannot be read") from fault
        self.judge = Judge(self._rule, self.kinds)
        self._numbers = {counts: k for k, counts in enumerate(self.histories)}

    def kind(self, scales: Mapping[Axis, float]) -> int:
        """Return the number of a kind of release, which is one more if it is new."""
        if scales not in self.kinds:
            row = (len(self.kinds), json.dumps(scales_to(scales)))
            self._connection.execute("INSERT INTO kinds VALUES (?, ?)", row)
            self.kinds.append(dict(scales))
        return self.kinds.index(dict(scales))

    def history(self, counts: Counts) -> int:
        """Return the number of a history, which is one more if it is new."""
        if counts not in self._numbers:
            self._numbers[counts] = len(self.histories)
            self.histories.append(counts)
            row = (self._numbers[counts], json.dumps(counts))
            self._connection.execute("INSERT INTO histories VALUES (?, ?)", row)
        return self._numbers[counts]

    def history_of(self, person: bytes) -> Counts:
        """Return what a person has had."""
        query = "SELECT history FROM persons WHERE person = ?"
        found = self._connection.execute(query, (person,)).fetchone()
        history = BASE if found is None else found[0]
        if not 0 <= history < len(self.histories):
            raise damaged(self._path, "a person's history is none of its histories")
        return self.histories[history]

    def tally(self) -> dict[Counts, int]:
        """Return how many of the persons on record have had what."""
        query = "SELECT history, count(*) FROM persons GROUP BY history ORDER BY history"
        return {self.histories[h]: count for h, count in self._connection.execute(query)}

    def judged(self, asked: Asked, kind: int) -> tuple[Verdict, IntArray]:
        """Return what becomes of each row, and the history of each person."""
        n = len(asked.forms)
        histories, changed = np.full(n, BASE, dtype=np.int64), np.zeros(n, dtype=bool)
        repeated = np.zeros(n, dtype=bool)
        where, forms, own, draws = self._found(asked.persons)
        if where.size:
            histories[where] = own
            changed[where] = forms != asked.forms[where].view(np.int64)
            repeated[where] = _any_equal(draws, asked.draws[where])
        full = np.zeros(len(self.histories), dtype=bool)
        for history in _used(histories).tolist():
            full[history] = not self.judge.allows(self.histories[history], kind)
        overspent = full[histories] & ~repeated
        return Verdict(repeated, changed & ~repeated & ~overspent, overspent), histories

    def _found(self, persons: Marks) -> _Found:
        """Return the places, forms, histories and draws of those persons that are on record."""
        few = f"SELECT count(*) FROM (SELECT 1 FROM persons LIMIT {_FEW * len(persons) + 1})"
        (n_first,) = self._connection.execute(few).fetchone()
        found = self._scanned(persons) if n_first <= _FEW * len(persons) else self._sought(persons)
        own, draws = found[2], found[3]
        if own.size and not 0 <= own.min() <= own.max() < len(self.histories):
            raise damaged(self._path, "a person's history is none of its histories")
        if any(len(each) % _DRAW for each in draws):
            raise damaged(self._path, "a person's releases are cut off")
        return found

    def _sought(self, persons: Marks) -> _Found:
        """Look every person up."""
        query = "SELECT ?, form, history, draws FROM persons WHERE person = ?"
        seek, blobs = self._connection.execute, counted(as_blobs(persons), "persons looked up")
        each = (seek(query, (k, blob)).fetchone() for k, blob in enumerate(blobs))
        rows = [row for row in each if row is not None]
        at, forms, own, draws = zip(*rows, strict=True) if rows else ((), (), (), ())
        return np.array(at, dtype=np.intp), _whole(forms), _whole(own), draws

    def _scanned(self, persons: Marks) -> _Found:
        """Read all that are on record, of whom most are asked for."""
        query = "SELECT person, form, history, draws FROM persons ORDER BY person"
        rows = _fetched(self._connection.execute(query), "persons read")
        known, forms, own, draws = zip(*rows, strict=True) if rows else ((), (), (), ())
        if any(len(each) != _MARK for each in known):
            raise damaged(self._path, "a person's mark is cut off")
        marks = np.frombuffer(b"".join(known), dtype=">u8").astype(np.uint64).reshape(-1, 2)
        places = matched(persons, marks)
        where = np.flatnonzero(places >= 0)
        at = places[where]
        return where, _whole(forms)[at], _whole(own)[at], [draws[k] for k in at.tolist()]

    def put(self, asked: Asked, new: BoolArray, histories: IntArray, kind: int) -> None:
        """Put one more release of each of the new rows on record."""
        next_of = np.full(len(self.histories), BASE, dtype=np.int64)
        for history in _used(histories[new]).tolist():
            next_of[history] = self.history(followed(self.histories[history], kind))
        where = np.flatnonzero(new)
        where = where[in_order(asked.persons[where])]
        rows = zip(
            as_blobs(asked.persons[where]),
            asked.forms[where].view(np.int64).tolist(),
            next_of[histories[where]].tolist(),
            _cut(asked.draws[where].astype("<u8").tobytes(), _DRAW),
            strict=True,
        )
        with task("persons put on record", len(where)) as done:
            while part := list(islice(rows, _AT_ONCE)):  # between which Ctrl-C is heard
                self._connection.executemany(_PUT, part)
                done(len(part))

    def note(self, call: Call, kind: int, verdict: Verdict) -> None:
        """Put a call on record."""
        masks = verdict.new, verdict.repeated, verdict.withheld
        numbers = len(verdict.new), *(int(mask.sum()) for mask in masks)
        row = (call.dataset, call.release, call.note, kind, *numbers)
        self._connection.execute("INSERT INTO calls VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def calls(self) -> tuple[Call, ...]:
        """Return the calls on record."""
        query = "SELECT dataset, release, note, kind, rows, new, repeated, withheld FROM calls"
        found = self._connection.execute(f"{query} ORDER BY call").fetchall()
        try:
            return tuple(
                Call(dataset, release, note, self.kinds[kind], *numbers)
                for dataset, release, note, kind, *numbers in found
            )
        except (IndexError, TypeError) as fault:
            raise damaged(self._path, "its calls cannot be read") from fault


def _fetched(cursor: sqlite3.Cursor, what: str) -> list[Any]:
    """Return all rows that a query finds."""
    rows: list[Any] = []
    with task(what) as done:
        while part := cursor.fetchmany(_AT_ONCE):
            rows += part
            done(len(part))
    return rows


def matched(persons: Marks, known: Marks) -> IntArray:
    """Return at which place of known marks, which ascend, each person is; -1 where at none.

    >>> known = np.array([[1, 2], [1, 3], [4, 0]], dtype=np.uint64)
    >>> matched(np.array([[4, 0], [1, 3], [1, 4]], dtype=np.uint64), known).tolist()
    [2, 1, -1]
    """
    places = np.full(len(persons), -1, dtype=np.int64)
    left = np.arange(len(persons))
    at = np.searchsorted(known[:, 0], persons[:, 0])
    while left.size:  # once, but for marks that share a half
        inside = at[left] < len(known)
        left = left[inside]
        left = left[known[at[left], 0] == persons[left, 0]]
        hit = known[at[left], 1] == persons[left, 1]
        places[left[hit]] = at[left[hit]]
        left = left[~hit]
        at[left] += 1
    return places


def in_order(persons: Marks) -> NDArray[np.intp]:
    """Return the order of marks as the database has it."""
    return np.lexsort((persons[:, 1], persons[:, 0]))


def as_blobs(persons: Marks) -> list[bytes]:
    """Return each mark as 16 bytes, whose order is that of the numbers."""
    return _cut(persons.astype(">u8").tobytes(), _MARK)


def _cut(data: bytes, size: int) -> list[bytes]:
    pieces: list[bytes] = np.frombuffer(data, dtype=f"V{size}").tolist()
    return pieces


def _any_equal(lists: Sequence[bytes], values: Marks) -> BoolArray:
    """Return whether each value is in its list, of 8 bytes an item."""
    lengths = np.array([len(each) // _DRAW for each in lists])
    items = np.frombuffer(b"".join(lists), dtype="<u8")
    owners = np.repeat(np.arange(len(lists)), lengths)
    found = np.zeros(len(lists), dtype=bool)
    found[owners[items == values[owners]]] = True
    return found


def _whole(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _used(histories: IntArray) -> IntArray:
    used: IntArray = np.flatnonzero(np.bincount(histories)) if histories.size else histories
    return used


def _counts(pairs: Any, n_kinds: int) -> Counts:
    counts = tuple((int(kind), int(count)) for kind, count in pairs)
    if not all(0 <= kind < n_kinds and count > 0 for kind, count in counts):
        raise ValueError("a count of no kind")
    return counts
