"""The records of a ledger of persons: the releases that each person has had.

Persons are stored by pseudonym, in 2^k parts: the first k bits of a pseudonym, which are
pseudorandom, are the number of its part. A part is an array of persons, ascending, and an array of
the pseudonyms of their noise, person by person. All parts exist, so a person in no part is not on
record.

A *history* is how many releases a person has had. Few histories differ, however many persons there
are: the rule judges each of them once. Earlier versions counted *kinds* of releases apart, by their
scales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, IntArray, check_choice, counted, task
from sklearn_puffer._ledgers.store import (
    SCHEMAS,
    LedgerTerms,
    Sheet,
    reading,
)
from sklearn_puffer._release import Pseudonyms

CHANGES = ["refuse", "count"]

PERSON = np.dtype(
    [("pseudonym", "<u8", 2), ("form", "<u8"), ("history", "<u4"), ("releases", "<u4")]
)
"""A person on record: the latest form of the row, and how many releases of which history."""
_DRAW = np.dtype("<u8")


@dataclass(frozen=True)
class PersonRecords:
    """Persons on record, in the order of their pseudonyms."""

    persons: NDArray[np.void]
    draws: NDArray[np.uint64]  # the pseudonyms of their noise, person by person

    @classmethod
    def of(cls, parts: Sequence[tuple[bytes, bytes]]) -> PersonRecords:
        """Return the persons of parts of a store; a ValueError is that of other bytes."""
        persons = np.frombuffer(b"".join(data for data, _ in parts), dtype=PERSON)
        draws = np.frombuffer(b"".join(more for _, more in parts), dtype=_DRAW)
        if not persons["releases"].all() or persons["releases"].sum() != len(draws):
            raise ValueError("a person without a release, or a release without a person")
        return cls(persons, draws)

    def places(self, pseudonyms: Pseudonyms) -> IntArray:
        """Return the index of each person, -1 of one who is not on record."""
        if not len(self.persons):
            return np.full(len(pseudonyms), -1)
        ascending, asked = _whole(self.persons["pseudonym"]), _whole(pseudonyms)
        at = np.minimum(np.searchsorted(ascending, asked), len(ascending) - 1)
        return np.where(ascending[at] == asked, at, -1)

    def has(self, places: IntArray, draws: NDArray[np.uint64]) -> BoolArray:
        """Return whether each draw is on record for the person at its place; -1 is nobody."""
        asks = np.full(len(self.persons) + 1, -1)
        asks[places] = np.arange(len(places))  # the last one is of persons at -1
        asking = np.repeat(asks[:-1], self.persons["releases"])
        is_known = np.zeros(len(places), dtype=bool)
        is_known[asking[(asking >= 0) & (self.draws == draws[asking])]] = True
        return is_known

    def and_more(self, rows: NDArray[np.void], draws: NDArray[np.uint64]) -> PersonRecords:
        """Return what is known when each of these persons, as they are now, has had one more."""
        known, new = _whole(self.persons["pseudonym"]), _whole(rows["pseudonym"])
        owners = np.concatenate([np.repeat(known, self.persons["releases"]), new])
        in_order = np.argsort(owners, kind="stable")
        # of a person in both, the first one is taken
        _, latest = np.unique(np.concatenate([new, known]), return_index=True)
        persons = np.concatenate([rows, self.persons])[latest]
        persons["releases"] = np.unique(owners, return_counts=True)[1]
        return PersonRecords(persons, np.concatenate([self.draws, draws])[in_order])


def _whole(pseudonyms: Pseudonyms) -> NDArray[np.bytes_]:
    """Return pseudonyms of shape (n, 2) as one value each, in the order of the pairs.

    >>> _whole(np.array([[1, 0], [0, 256], [0, 2]], dtype=np.uint64)).argsort().tolist()
    [2, 1, 0]
    """
    return np.ascontiguousarray(pseudonyms, dtype=">u8").view("S16")[:, 0]


@dataclass(frozen=True)
class PersonLeft:
    """What may still be released of one person.

    Attributes
    ----------
    releases : int or float
        How many more releases; infinite without end.
    released : int
        How many releases are on record; the same noise again is none.
    """

    releases: float
    released: int


@dataclass(frozen=True)
class Call:
    """A call to `transform` that is on record.

    Attributes
    ----------
    dataset : str
    release : int
    note : str
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
    rows: int
    new: int
    repeated: int
    withheld: int


_OF_PERSONS = ("changes", "salt", "check", "ids")


@dataclass(frozen=True)
class About(LedgerTerms):
    """The terms of a ledger of persons. Only ``ids`` changes, at the first release."""

    changes: str  # "refuse" or "count": what becomes of rows that changed
    salt: str  # of the pseudonyms, another one in each ledger
    check: str  # a pseudonym by which another key is recognised
    ids: str = ""  # "integer" or "string", once an id was seen

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return what `to_record` wrote; a damaged record raises any error."""
        check_choice(record["changes"], "changes", CHANGES)
        return cls.read(record, *(record[name] for name in _OF_PERSONS))

    def to_record(self) -> dict[str, Any]:
        """Return the terms as plain values."""
        persons = {name: getattr(self, name) for name in _OF_PERSONS}
        return {"schema": SCHEMAS["PersonLedger"]} | super().to_record() | persons

    @property
    def whole(self) -> bool:
        """Whether another release of a person must be of the same row."""
        return self.changes == "refuse"


BASE = 0
"""The history of persons who are not on record yet; an array of zeros has it, too."""

_MOST = 1024  # persons in a part, on average


@dataclass(frozen=True)
class Verdict:
    """The decision for each row: one of the masks holds it, or it is a new release."""

    repeated: BoolArray  # the same noise is on record
    changed: BoolArray  # another row of the person is on record, and releases are left
    overspent: BoolArray  # the person has had all releases
    known: PersonRecords  # who is on record in the parts of these persons
    places: IntArray  # the index of each person there, -1 of a new one
    histories: NDArray[np.uint32]  # of each person

    @property
    def withheld(self) -> BoolArray:
        """Which rows may not be released."""
        return self.changed | self.overspent

    @property
    def new(self) -> BoolArray:
        """Which rows are one more release of their person."""
        return ~(self.repeated | self.withheld)


class Book:
    """The persons on record, within one transaction."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        with reading("histories"):
            self.about = About.from_record(sheet.record)
            kinds, histories = sheet.record["kinds"], sheet.record["histories"]
            self.histories = [
                sum(self.about.counted(kinds[kind], n) for kind, n in counts)
                for counts, _ in histories
            ]
            self._sizes = [int(size) for _, size in histories]

    def history(self, releases: int) -> int:
        """Return the number of a history, adding it if it is new."""
        if releases not in self.histories:
            self.histories.append(releases)
            self._sizes.append(0)
        return self.histories.index(releases)

    def left(self, person: Pseudonyms) -> PersonLeft:
        """Return what the person with a pseudonym, of shape (1, 2), may still be released."""
        known = self._found(person)
        [place] = known.places(person).tolist()
        return self._left(self.histories[BASE if place < 0 else known.persons["history"][place]])

    def tally(self) -> list[tuple[int, PersonLeft]]:
        """Return, for each history, the number of persons and what they have left."""
        pairs = zip(self._sizes, self.histories, strict=True)
        return [(size, self._left(releases)) for size, releases in pairs if size]

    def _left(self, releases: int) -> PersonLeft:
        return PersonLeft(self.about.remaining(releases), releases)

    def judged(self, batch: Any) -> Verdict:
        """Return the decision for each row of a batch (`Noted`)."""
        known = self._found(batch.persons)
        places = known.places(batch.persons)
        rows = np.append(known.persons, np.zeros(1, PERSON))[places]  # the last one is nobody
        is_full = [self.about.remaining(releases) < 1 for releases in self.histories]
        repeated = known.has(places, batch.draws)
        overspent = np.array(is_full)[rows["history"]] & ~repeated
        changed = (places >= 0) & (rows["form"] != batch.forms) & ~repeated & ~overspent
        return Verdict(repeated, changed, overspent, known, places, rows["history"])

    def put(self, batch: Any, verdict: Verdict) -> None:
        """Put one more release of each of the new rows on record."""
        new, sheet, known = verdict.new, self._sheet, verdict.known
        rows = np.zeros(int(new.sum()), PERSON)
        rows["pseudonym"], rows["form"], rows["releases"] = batch.persons[new], batch.forms[new], 1
        rows["history"] = self._followed(verdict)
        touched = np.unique(_parts_of(rows["pseudonym"], sheet.n_parts))
        n_parts = sheet.n_parts
        if sum(self._sizes) > _MOST * n_parts:  # with room for growth
            while 4 * sum(self._sizes) > _MOST * n_parts:
                n_parts *= 2
            known = self._read(np.arange(sheet.n_parts))
            sheet.divide(n_parts)
            touched = np.arange(n_parts)
        self._lay(known.and_more(rows, batch.draws[new]), touched)

    def _followed(self, verdict: Verdict) -> NDArray[np.uint32]:
        """Return the histories of new rows after this release, and update their sizes."""
        before, is_old = verdict.histories[verdict.new], verdict.places[verdict.new] >= 0
        after = np.empty_like(before)
        for history in np.unique(before).tolist():
            theirs = before == history
            after[theirs] = number = self.history(self.histories[history] + 1)
            self._sizes[number] += int(theirs.sum())
            self._sizes[history] -= int((theirs & is_old).sum())
        return after

    def _found(self, persons: Pseudonyms) -> PersonRecords:
        """Return who is on record in the parts of some persons."""
        return self._read(np.unique(_parts_of(persons, self._sheet.n_parts)))

    def _read(self, parts: IntArray) -> PersonRecords:
        parts_read = counted(parts.tolist(), "parts of the ledger read")
        with reading("persons"):
            known = PersonRecords.of([self._sheet.part(part) for part in parts_read])
            self.histories[int(known.persons["history"].max(initial=BASE))]
        return known

    def _lay(self, known: PersonRecords, parts: IntArray) -> None:
        """Write some parts, of which all persons are known."""
        # where the draws of each person begin, and where all end
        ends = np.append(0, np.cumsum(known.persons["releases"], dtype=np.int64))
        where = _parts_of(known.persons["pseudonym"], self._sheet.n_parts)
        bounds = (np.searchsorted(where, parts, side).tolist() for side in ("left", "right"))
        with task("persons put on record", len(known.persons)) as done:
            for part, first, last in zip(parts.tolist(), *bounds, strict=True):
                draws = known.draws[ends[first] : ends[last]]
                self._sheet.put(part, known.persons[first:last].tobytes(), draws.tobytes())
                done(last - first)

    def write(self, named: tuple[str, int, str], verdict: Verdict) -> None:
        """Put a call on record by its dataset, release and note; write the head, after persons."""
        masks = verdict.new, verdict.repeated, verdict.withheld
        numbers = len(verdict.new), *(int(mask.sum()) for mask in masks)
        self._sheet.append([*named, 0, *numbers])
        histories = list(zip(self.histories, self._sizes, strict=True))
        self._sheet.write(record_of(self.about, histories))

    def calls(self) -> tuple[Call, ...]:
        """Return the calls on record."""
        lines = self._sheet.lines()
        with reading("calls"):
            return tuple(
                Call(dataset, release, note, *numbers)
                for dataset, release, note, _, *numbers in lines
            )


def record_of(about: About, histories: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the head, given the releases of each history, and how many persons have it."""
    counts = [[[[0, n]] if n else [], size] for n, size in histories]
    return about.to_record() | {"kinds": [list(about.scales.items())], "histories": counts}


def _parts_of(persons: Pseudonyms, n_parts: int) -> IntArray:
    """Return in which of so many parts persons are: the first bits of pseudonyms."""
    rest = np.uint64(64 - n_parts.bit_length())
    parts: IntArray = (persons[:, 0] >> np.uint64(1) >> rest).astype(np.int64)
    return parts
