"""Spends of a ledger of persons: many rows, judged and put on record in one transaction.

Persons lie in the parts of the store by the first bits of their marks, which are as good as random:
a part is an array of persons, ascending, and one of the marks of their noise, person by person.
There are as many parts as keep each of them small, a power of two, and all of them exist, so that
who is in no part is not on record.

What a ledger of persons counts: which releases a person has had, and what they leave.

A *kind* of release is its scales. A *history* is how many releases of each kind a person has had:
few differ, however many persons there are, so that the rule judges each once and exactly.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, IntArray, check_choice, counted, task
from sklearn_puffer._releases.composition import Axis, Meter, Rule
from sklearn_puffer._releases.ledger_state import (
    checksum_of,
    counts_of,
    rule_from_dict,
    scales_from,
    scales_to,
)
from sklearn_puffer._releases.store import NONSENSE, SCHEMAS, DamagedError, Sheet

CHANGES = ["refuse", "count"]

Counts = tuple[tuple[int, int], ...]
"""Of a history: (kind, how many releases), ascending."""


@dataclass(frozen=True)
class PersonLeft:
    """What may still be released of one person.

    Attributes
    ----------
    releases : int or float
        How many more releases of all columns at the noiser's own scales; infinite without end.
    by_axis : dict
        What is left on each axis, rounded down, as in `Ledger.left`.
    released : int
        How many releases are on record; the same noise again is none.
    """

    releases: float
    by_axis: Mapping[Axis, float]
    released: int


@dataclass(frozen=True)
class Call:
    """A call to `transform` that is on record.

    Attributes
    ----------
    dataset : str
    release : int
    note : str
    scales : dict
    rows : int
        Of the table.
    new : int
        Rows that were one more release of their person.
    repeated : int
        Rows whose noise was on record: they came out as before, and spent nothing.
    withheld : int
        Rows that were not released.
    """

    dataset: str
    release: int
    note: str
    scales: Mapping[Axis, float]
    rows: int = 0
    new: int = 0
    repeated: int = 0
    withheld: int = 0


@dataclass(frozen=True)
class About:
    """What a ledger of persons is about: the same from its first day on, but for the kind of ids.

    Attributes
    ----------
    fingerprint, rule, scales
        Of the noiser.
    changes : {"refuse", "count"}
        What becomes of rows that changed.
    salt, check : str
        What tells its marks from those of other ledgers, and other keys from its own.
    ids : {"", "integer", "string"}
        What ids are, once one was seen.
    """

    fingerprint: str
    rule: Rule
    scales: Mapping[Axis, float]
    changes: str
    salt: str
    check: str
    ids: str = ""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return what `to_record` wrote; any error is that of a record that it did not write."""
        rule, scales = rule_from_dict(record["rule"]), scales_from(record["scales"])
        check_choice(record["changes"], "changes", CHANGES)
        own = (record[name] for name in ("changes", "salt", "check", "ids"))
        return cls(record["fingerprint"], rule, scales, *own)

    def to_record(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "schema": SCHEMAS["PersonLedger"],
            "fingerprint": self.fingerprint,
            "rule": self.rule.to_dict(),
            "scales": scales_to(self.scales),
            "changes": self.changes,
            "salt": self.salt,
            "check": self.check,
            "ids": self.ids,
        }

    @property
    def whole(self) -> bool:
        """Whether another release of a person must be of the same row."""
        return self.changes == "refuse"


def followed(counts: Counts, kind: int) -> Counts:
    """Return a history with one more release of a kind.

    >>> followed(((0, 2),), 1), followed(((0, 2),), 0)
    (((0, 2), (1, 1)), ((0, 3),))
    """
    some = dict(counts)
    some[kind] = some.get(kind, 0) + 1
    return tuple(sorted(some.items()))


Marks = NDArray[np.uint64]

BASE = 0
"""The history of persons that are not on record yet."""

_MOST = 1024  # persons in a part, on average
_PERSON = np.dtype([("mark", "<u8", 2), ("form", "<u8"), ("history", "<u4"), ("releases", "<u4")])
_DRAW = np.dtype("<u8")


@dataclass(frozen=True)
class Known:
    """Persons on record: who they are, in ascending order, and all draws of one after the other."""

    persons: NDArray[np.void]
    draws: Marks

    @property
    def owners(self) -> IntArray:
        """Whose each draw is, as a place among the persons."""
        owners: IntArray = np.repeat(np.arange(len(self.persons)), self.persons["releases"])
        return owners

    def has(self, places: IntArray, draws: Marks) -> BoolArray:
        """Return whether each draw is on record for the person at its place; -1 is at none."""
        asks = np.full(len(self.persons) + 1, -1)
        asks[places] = np.arange(len(places))  # the last one is of who is at no place
        found = np.zeros(len(places), dtype=bool)
        asking = asks[self.owners]
        found[asking[(asking >= 0) & (self.draws == draws[asking])]] = True
        return found

    def and_more(self, rows: NDArray[np.void], draws: Marks) -> Known:
        """Return what is known when each of these persons has had one more draw."""
        places = matched(rows["mark"], self.persons["mark"])
        is_old, n = places >= 0, len(self.persons)
        persons = np.concatenate([self.persons, rows[~is_old]])
        for field in ("form", "history"):
            persons[field][places[is_old]] = rows[field][is_old]
        persons["releases"][places[is_old]] += 1
        own = np.where(is_old, places, n - 1 + np.cumsum(~is_old))
        order = in_order(persons["mark"])
        rank = np.argsort(order)  # the inverse
        by_owner = np.argsort(rank[np.concatenate([self.owners, own])], kind="stable")
        return Known(persons[order], np.concatenate([self.draws, draws])[by_owner])


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
    known : Known
        Who is on record in the parts of these persons.
    places, histories : ndarray of int
        Where each person is among them, -1 at none, and what each has had.
    """

    repeated: BoolArray
    changed: BoolArray
    overspent: BoolArray
    known: Known
    places: IntArray
    histories: IntArray

    @property
    def withheld(self) -> BoolArray:
        """Which rows may not be released."""
        return self.changed | self.overspent

    @property
    def new(self) -> BoolArray:
        """Which rows are one more release of their person."""
        return ~(self.repeated | self.withheld)


class Book:
    """What a ledger has of its persons, within one transaction."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        try:
            self.about = About.from_record(sheet.record)
            self.kinds = [scales_from(scales) for scales in sheet.record["kinds"]]
            found = sheet.record["histories"]
            self.histories = [_counts(counts, len(self.kinds)) for counts, _ in found]
            self._sizes = [int(size) for _, size in found]
        except NONSENSE as fault:
            raise DamagedError("its histories cannot be read") from fault
        self._numbers = {counts: k for k, counts in enumerate(self.histories)}

    def kind(self, scales: Mapping[Axis, float]) -> int:
        """Return the number of a kind of release, which is one more if it is new."""
        if scales not in self.kinds:
            self.kinds.append(dict(scales))
        return self.kinds.index(dict(scales))

    def history(self, counts: Counts) -> int:
        """Return the number of a history, which is one more if it is new."""
        if counts not in self._numbers:
            self._numbers[counts] = len(self.histories)
            self.histories.append(counts)
            self._sizes.append(0)
        return self._numbers[counts]

    def left(self, person: Marks) -> PersonLeft:
        """Return what the person with a mark, of shape (1, 2), may still be released."""
        persons = self._found(person).persons
        place = int(matched(person, persons["mark"])[0])
        return self._left(self.histories[BASE if place < 0 else persons["history"][place]])

    def tally(self) -> list[tuple[int, PersonLeft]]:
        """Return how many of the persons on record have how much left."""
        pairs = zip(self._sizes, self.histories, strict=True)
        return [(size, self._left(counts)) for size, counts in pairs if size]

    def _left(self, counts: Counts) -> PersonLeft:
        meter, scales = self._meter(counts), self.about.scales
        return PersonLeft(
            meter.times(counts_of([(scales, 1)])), meter.left(), sum(n for _, n in counts)
        )

    def _meter(self, counts: Counts) -> Meter:
        """Return what a history has spent."""
        return self.about.rule.meter(counts_of((self.kinds[kind], n) for kind, n in counts))

    def judged(self, asked: Any, kind: int) -> Verdict:
        """Return what becomes of each row, of which its marks are asked (`Noted`)."""
        known = self._found(asked.persons)
        places = matched(asked.persons, known.persons["mark"])
        where = np.flatnonzero(places >= 0)
        own = known.persons[places[where]]
        histories, changed = np.full(len(places), BASE), np.zeros(len(places), dtype=bool)
        histories[where], changed[where] = own["history"], own["form"] != asked.forms[where]
        repeated = known.has(places, asked.draws)
        full, once = np.zeros(len(self.histories), dtype=bool), counts_of([(self.kinds[kind], 1)])
        for history in _used(histories).tolist():
            full[history] = not self._meter(self.histories[history]).allows(once)
        overspent = full[histories] & ~repeated
        changed &= ~repeated & ~overspent
        return Verdict(repeated, changed, overspent, known, places, histories)

    def put(self, asked: Any, verdict: Verdict, kind: int) -> None:
        """Put one more release of each of the new rows on record."""
        new, sheet, known = verdict.new, self._sheet, verdict.known
        rows = np.zeros(int(new.sum()), _PERSON)
        rows["mark"], rows["form"], rows["releases"] = asked.persons[new], asked.forms[new], 1
        rows["history"] = self._followed(verdict, kind)
        touched = np.unique(_parts_of(rows["mark"], sheet.n_parts))
        n_parts = _enough(sheet.n_parts, sum(self._sizes))
        if n_parts > sheet.n_parts:
            known = self._read(np.arange(sheet.n_parts))
            sheet.divide(n_parts)
            touched = np.arange(n_parts)
        self.lay(known.and_more(rows, asked.draws[new]), touched)

    def _followed(self, verdict: Verdict, kind: int) -> IntArray:
        """Return the histories that rows come to by one more release, and count them there."""
        n, own = len(self.histories), verdict.histories[verdict.new]
        from_where = np.bincount(own, minlength=n).tolist()
        known = np.bincount(own[verdict.places[verdict.new] >= 0], minlength=n).tolist()
        next_of = np.zeros(n, dtype=np.int64)
        for history in np.flatnonzero(from_where).tolist():
            number = next_of[history] = self.history(followed(self.histories[history], kind))
            self._sizes[number] += from_where[history]
            self._sizes[history] -= known[history]
        found: IntArray = next_of[own]
        return found

    def _found(self, persons: Marks) -> Known:
        """Return who is on record in the parts of some persons."""
        return self._read(np.unique(_parts_of(persons, self._sheet.n_parts)))

    def _read(self, parts: IntArray) -> Known:
        pairs = [
            self._sheet.part(part) for part in counted(parts.tolist(), "parts of the ledger read")
        ]
        try:
            persons = np.frombuffer(b"".join(data for data, _ in pairs), dtype=_PERSON)
            draws = np.frombuffer(b"".join(more for _, more in pairs), dtype=_DRAW)
            if persons["releases"].sum() != len(draws):
                raise ValueError("a release without a person")
            self.histories[int(persons["history"].max(initial=0))]
        except NONSENSE as fault:
            raise DamagedError("its persons cannot be read") from fault
        return Known(persons, draws)

    def lay(self, known: Known, parts: IntArray) -> None:
        """Write some parts, of which all persons are known."""
        ends = np.concatenate([[0], np.cumsum(known.persons["releases"], dtype=np.int64)])
        where = _parts_of(known.persons["mark"], self._sheet.n_parts)
        bounds = (np.searchsorted(where, parts, side).tolist() for side in ("left", "right"))
        with task("persons put on record", len(known.persons)) as done:  # Ctrl-C is heard between
            for part, first, last in zip(parts.tolist(), *bounds, strict=True):
                draws = known.draws[ends[first] : ends[last]]
                self._sheet.put(part, known.persons[first:last].tobytes(), draws.tobytes())
                done(last - first)

    def write(self, call: Call, kind: int, verdict: Verdict) -> None:
        """Put a call on record, and the head, where the persons are already."""
        masks = verdict.new, verdict.repeated, verdict.withheld
        numbers = len(verdict.new), *(int(mask.sum()) for mask in masks)
        self._sheet.append([call.dataset, call.release, call.note, kind, *numbers])
        histories = list(zip(self.histories, self._sizes, strict=True))
        self._sheet.write(_record(self.about, self.kinds, histories))

    def calls(self) -> tuple[Call, ...]:
        """Return the calls on record."""
        found = self._sheet.lines()
        try:
            return tuple(
                Call(dataset, release, note, self.kinds[kind], *numbers)
                for dataset, release, note, kind, *numbers in found
            )
        except NONSENSE as fault:
            raise DamagedError("its calls cannot be read") from fault


def start(
    sheet: Sheet,
    about: About,
    kinds: Sequence[Mapping[Axis, float]],
    histories: Sequence[tuple[Counts, int]],
    known: Known | None = None,
) -> None:
    """Begin a ledger in which these persons are known, and everybody has had some releases."""
    known = known or Known(np.zeros(0, _PERSON), np.zeros(0, _DRAW))
    sheet.divide(_enough(1, len(known.persons)))
    sheet.record = _record(about, kinds, histories)
    Book(sheet).lay(known, np.arange(sheet.n_parts))
    sheet.write(sheet.record)


def _record(
    about: About,
    kinds: Sequence[Mapping[Axis, float]],
    histories: Sequence[tuple[Counts, int]],
) -> dict[str, Any]:
    kinds_now = [scales_to(scales) for scales in kinds]
    return about.to_record() | {"kinds": kinds_now, "histories": histories}


def fill_from_tables(path: Path, sheet: Sheet) -> None:
    """Write what a ledger of version 0.2 holds; any error is that of another file."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as old:
        [(text,)] = old.execute("SELECT text FROM about")
        [(fault,)] = old.execute("PRAGMA integrity_check(1)")
        kinds, histories, persons, calls = (
            old.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in ("kinds", "histories", "persons", "calls")
        )
    record = json.loads(text)
    if fault != "ok" or record.pop("checksum") != checksum_of(record):
        raise ValueError("it is damaged")
    rows = np.zeros(len(persons), _PERSON)
    for row, (mark, form, history, draws) in zip(rows, persons, strict=True):
        own = np.frombuffer(mark, dtype=">u8"), form % 2**64, history, len(draws) // _DRAW.itemsize
        row["mark"], row["form"], row["history"], row["releases"] = own
    known = Known(rows, np.frombuffer(b"".join(row[3] for row in persons), dtype=_DRAW))
    sizes = np.bincount(rows["history"], minlength=len(histories)).tolist()
    counts = [_counts(json.loads(each), len(kinds)) for _, each in histories]
    for _, *call in calls:
        sheet.append(call)
    scales = [dict(json.loads(each)) for _, each in kinds]
    start(sheet, About.from_record(record), scales, list(zip(counts, sizes, strict=True)), known)


def _parts_of(persons: Marks, n_parts: int) -> IntArray:
    """Return in which of so many parts persons are: the first bits of their marks."""
    rest = np.uint64(64 - n_parts.bit_length())
    found: IntArray = (persons[:, 0] >> np.uint64(1) >> rest).astype(np.int64)
    return found


def _enough(n_parts: int, n_persons: int) -> int:
    """Return how many parts to have, and when they do not suffice, four times as many or more."""
    if n_persons <= _MOST * n_parts:
        return n_parts
    while 4 * n_persons > _MOST * n_parts:
        n_parts *= 2
    return n_parts


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
    """Return the order of marks as it is on record."""
    return np.lexsort((persons[:, 1], persons[:, 0]))


def _used(histories: IntArray) -> IntArray:
    used: IntArray = np.flatnonzero(np.bincount(histories)) if histories.size else histories
    return used


def _counts(pairs: Any, n_kinds: int) -> Counts:
    counts = tuple((int(kind), int(count)) for kind, count in pairs)
    if not all(0 <= kind < n_kinds and count > 0 for kind, count in counts):
        raise ValueError("a count of no kind")
    return counts
