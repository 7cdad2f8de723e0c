"""What both ledgers share: an SQLite file, its transactions, and its owner.

At least as much is on record as was released, whatever happens to the processes:

- A spend is one exclusive transaction. If the process dies, SQLite rolls it back from its journal
  (``-journal``). When `Account._change` returns, the file, its journal and their folder are synced
  to the disk (``synchronous=EXTRA``), and the release may follow. There is no write-ahead log: the
  file alone is a whole copy while nobody spends.
- A connection lives for one transaction, and a fork waits for its end: a child process inherits no
  connection and no lock. A process that finds the file locked holds nothing while it waits. No
  object has a finalizer, which could swallow an interrupt.
- The *head* is a JSON record. *Parts* are the persons of a `PersonLedger`, and *lines* its calls,
  which are only appended. When a ledger is opened, SQLite checks all pages (``integrity_check``),
  and later those that it reads: a file that was cut off, or pages that are not where they should
  be, are noticed. Bits that a disk has flipped in a number are not.

Nothing depends on the clock but the timeout.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sqlite3
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from sklearn_puffer._base import as_float, check_count
from sklearn_puffer._certificates import (
    WHOLE,
    Axis,
    CertifiedEstimator,
    Rule,
    check_scale,
    rule_from_dict,
)
from sklearn_puffer._documents import (
    Page,
    check_free,
    explained,
    located,
    told,
    write_new,
)
from sklearn_puffer._release import NONSENSE
from sklearn_puffer._words import plain, quoted

Answer = TypeVar("Answer")

TABLES = (
    "CREATE TABLE head (text BLOB NOT NULL)",
    "CREATE TABLE parts (part INTEGER PRIMARY KEY, data BLOB NOT NULL, more BLOB NOT NULL)",
    "CREATE TABLE lines (line INTEGER PRIMARY KEY, text BLOB NOT NULL)",
)
# of files that were made when the ledger had checksums of its own
_HEAD_BEFORE = "CREATE TABLE head (text BLOB NOT NULL, marks BLOB NOT NULL, digest BLOB NOT NULL)"
_PAGE = 4096  # bytes
_SAFELY = ("synchronous=EXTRA", "fullfsync=1", "trusted_schema=0", "cell_size_check=1")
_PAUSE = 0.005  # seconds
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# faults of the system, and none of the file
_SYSTEM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
_SYSTEM |= {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_WAY = "see that disk, folder and file have room, and may be read and written"
# errors after the commit, when the journal is deleted
_UNSURE = {sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_DELETE}
_PERHAPS = "the disk does not confirm the spend, which is on record or will be undone"

# Held while there is a connection, and by every fork: a child must inherit none.
_one = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_one.acquire, after_in_parent=_one.release, after_in_child=_one.release
    )


class LedgerError(ValueError):
    """Raised where a ledger cannot be read, or belongs to another noiser; nothing is spent.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_puffer import Ledger, LedgerError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "cars.ledger")
    ...     _ = path.write_text("[]")
    ...     try:
    ...         Ledger(path, "f00d").left()
    ...     except LedgerError:
    ...         print("no ledger")
    no ledger
    """

    __module__ = "sklearn_puffer"  # where users find it


SCHEMAS = {"Ledger": "sklearn_puffer.ledger/2", "PersonLedger": "sklearn_puffer.persons/2"}
"""How the record of each class of ledgers begins."""


class Sheet:
    """What a ledger holds, within one transaction; ``record`` is the head, plain for JSON."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute
        self.record: dict[str, Any] = {}
        self.n_parts = 0

    def read(self) -> None:
        """Read the head; any error is that of a damaged one."""
        [(text,)] = self._run("SELECT text FROM head").fetchall()
        [(n_parts, last)] = self._run("SELECT count(*), max(part) FROM parts").fetchall()
        if n_parts and not (n_parts.bit_count() == 1 and last == n_parts - 1):
            raise ValueError("some parts are missing")
        self.record, self.n_parts = json.loads(text), n_parts

    def faults(self) -> list[Any]:
        """Return what SQLite finds in all pages: that they are ok, or the first fault."""
        return self._run("PRAGMA integrity_check(1)").fetchall()

    def part(self, number: int) -> tuple[bytes, bytes]:
        """Return the two texts of a part, as `put` had them."""
        query = "SELECT data, more FROM parts WHERE part = ?"
        [(data, more)] = self._run(query, (number,)).fetchall()
        return data, more

    def put(self, number: int, data: bytes, more: bytes) -> None:
        """Write a part."""
        self._run("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", (number, data, more))

    def divide(self, n_parts: int) -> None:
        """Drop all parts, and make room for ``n_parts`` others, each of which must be put."""
        self._run("DELETE FROM parts")
        self.n_parts = n_parts

    def append(self, line: Any) -> None:
        """Append a line of plain values for JSON."""
        self._run("INSERT INTO lines (text) VALUES (?)", (_text(line),))

    def lines(self) -> list[Any]:
        """Return all lines."""
        lines = self._run("SELECT text FROM lines ORDER BY line").fetchall()
        return [json.loads(text) for (text,) in lines]

    def write(self, record: dict[str, Any]) -> None:
        """Write the head anew."""
        self._run("UPDATE head SET text = ?", (_text(record),))


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


class DamagedError(Exception):
    """Raised for contents that no ledger wrote; `Account` makes it a `LedgerError`."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise for nonsense that ``what`` cannot be read."""
    try:
        yield
    except NONSENSE as fault:
        raise DamagedError(f"its {what} cannot be read") from fault


def _let_go() -> None:
    with suppress(RuntimeError):  # it is not held
        _one.release()


@dataclass(frozen=True, eq=False)
class LedgerTerms:
    """Whose releases a ledger counts, the rule by which they add up, and the planned scales."""

    fingerprint: str
    rule: Rule
    scales: Mapping[Axis, float]

    @classmethod
    def of(cls, certificate: Any, *further: Any) -> Self:
        """Return the terms of a certificate, with the further fields of a class."""
        return cls(certificate.fingerprint, certificate.rule, scales_of(certificate), *further)

    @classmethod
    def read(cls, record: Mapping[str, Any], *further: Any) -> Self:
        """Return the terms that `to_record` wrote; a damaged record raises any error."""
        rule, scales = rule_from_dict(record["rule"]), scales_from(record["scales"])
        return cls(record["fingerprint"], rule, scales, *further)

    def remaining(self, spent: int) -> float:
        """Return how many releases are left after so many."""
        each = (self.scales or {WHOLE: 1.0}).items()  # whole rows have no axes
        had = {axis: {scale: spent} for axis, scale in each} if spent else {}
        return self.rule.times({axis: {scale: 1} for axis, scale in each}, had)

    def counted(self, pairs: Any, releases: Any) -> int:
        """Return how many releases count for some at scales that were written as pairs.

        Earlier versions had other scales, of some of the columns: a release with more noise counts
        as one, and with less noise as many as cost as much, rounded up.
        """
        n, own, cost = check_count(releases, "releases"), self.scales, self.rule.cost
        less = {axis: scale for axis, scale in scales_from(pairs).items() if scale < own[axis]}
        costs = [
            cost(axis, {scale: n}) / cost(axis, {own[axis]: 1}) for axis, scale in less.items()
        ]
        return max([n, *map(math.ceil, costs)])

    def to_record(self) -> dict[str, Any]:
        """Return the terms as plain values."""
        return {
            "fingerprint": self.fingerprint,
            "rule": self.rule.to_dict(),
            "scales": list(self.scales.items()),
        }


Held = TypeVar("Held", bound=LedgerTerms)


class Account(ABC, Generic[Held]):
    """The base of both ledgers: the file of one noiser, read and changed in transactions."""

    _kind: ClassVar[str]  # the name of the class, by which files are told apart

    def __init__(
        self, path: str | os.PathLike[str], fingerprint: str, timeout: float = 60.0
    ) -> None:
        self.path = located(path)
        self.fingerprint = fingerprint
        is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
        self.timeout: float = as_float(timeout) if is_number else math.nan
        if not self.timeout >= 0.0:
            raise ValueError(
                f"timeout must be a number of seconds of at least 0, got {quoted(timeout)}; "
                "math.inf waits for ever."
            )

    @abstractmethod
    def _held(self) -> Held:
        """Return the terms on record."""

    @abstractmethod
    def _page(self) -> Page:
        """Return what is on record, for people."""

    def __repr__(self) -> str:
        return f"{self._kind}({str(self.path)!r})"

    def __str__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().notebook()

    def _check_whole(self, certificate: Any) -> None:
        """Refuse the ledger of another noiser, or one whose pages are not as SQLite wrote them."""
        self._check_noiser(certificate)
        if self._read(lambda sheet: sheet.faults()) != [("ok",)]:
            raise self._damaged("its pages are not those that were written")

    def _check_noiser(self, certificate: Any) -> Held:
        """Return the terms on record, or refuse the certificate of another noiser."""
        held = self._held()
        ledger = held.fingerprint, held.scales, held.rule
        if ledger != (certificate.fingerprint, scales_of(certificate), certificate.rule):
            raise LedgerError(foreign(self.path))
        return held

    def _create(self, fill: Callable[[Sheet], None]) -> None:
        """Write a new file, readable by its owner alone."""
        check_free(self.path, way=f"choose another name, or open it with {self._kind}.open")
        for suffix in ("-journal", "-wal"):  # SQLite would roll the new file back by it
            journal = self.path.with_name(f"{self.path.name}{suffix}")
            check_free(
                journal, way="remove the journal of another database, or choose another name"
            )
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            first = "INSERT INTO head VALUES (x'')"
            for statement in (f"PRAGMA page_size={_PAGE}", *TABLES, first):
                connection.execute(statement)
            fill(Sheet(connection))
            write_new(self.path, connection.serialize(), private=True)
        finally:
            connection.close()

    def _read(self, work: Callable[[Sheet], Answer]) -> Answer:
        """Return the result of work that reads, in one transaction."""
        return self._patiently("BEGIN", work)

    def _change(self, work: Callable[[Sheet], Answer]) -> Answer:
        """Return the result of work that writes, once its transaction is on the disk."""
        return self._patiently("BEGIN EXCLUSIVE", work)

    def _damaged(self, why: str) -> LedgerError:
        """Return the error of a damaged file."""
        return LedgerError(
            f"{str(self.path)!r} is not a ledger, or a damaged one ({why}); put back the last "
            "whole copy, and make again, or spend, what was released since. (Only version 0.2 "
            "reads the ledgers that it wrote.)"
        )

    def _patiently(self, begin: str, work: Callable[[Sheet], Answer]) -> Answer:
        """Run a transaction as soon as nobody else holds the database.

        An interrupt may come between any two instructions: the lock is released a second time in
        case it hit the first release.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            # threads wait for each other here, and processes below, without a lock
            left = min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
            try:
                try:
                    if _one.acquire(timeout=left):
                        return self._once(begin, work)
                except sqlite3.Error as fault:
                    code = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
                    if code & 0xFF not in _BUSY:
                        raise self._failed(code, str(fault)) from fault
                except (DamagedError, UnicodeDecodeError) as fault:  # of SQLite, which quotes it
                    raise self._damaged(str(fault)) from fault
                finally:
                    _let_go()
            finally:
                _let_go()
            left = deadline - time.monotonic()
            if left <= 0.0:
                waiting = OSError(
                    errno.ETIMEDOUT,
                    f"another process or thread still holds it after {self.timeout:g} s; wait for "
                    "that one, or end it, or open the ledger with a longer timeout",
                )
                said = "the ledger cannot be locked, and nothing was spent"
                raise told(waiting, self.path, said)
            time.sleep(min(_PAUSE, left))

    def _once(self, begin: str, work: Callable[[Sheet], Answer]) -> Answer:
        self._check_file()
        address = f"{self.path.as_uri()}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=0.0, isolation_level=None)
        try:
            try:
                for pragma in _SAFELY:
                    connection.execute(f"PRAGMA {pragma}")
                connection.execute(begin)
                answer = work(self._sheet(connection))
                connection.execute("COMMIT")
                return answer
            finally:
                connection.close()  # what was not committed is rolled back
        finally:
            connection.close()

    def _failed(self, code: int, why: str) -> Exception:
        """Return the error of what SQLite says: of the system, with a way out, or of a damage."""
        if code & 0xFF not in _SYSTEM or code == sqlite3.SQLITE_IOERR_SHORT_READ:
            return self._damaged(why)
        said = f"the ledger cannot be read or written, and nothing was spent; {_WAY}"
        return told(OSError(errno.EIO, why), self.path, _PERHAPS if code in _UNSURE else said)

    def _check_file(self) -> None:
        """Refuse what is no regular file, or has several names."""
        with explained(self.path, "the ledger cannot be found or read; create it first"):
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode):
                what = "it is no regular file, but a folder, a pipe or a device"
                raise OSError(errno.EINVAL, what)
        if status.st_nlink > 1:
            raise LedgerError(
                f"the ledger {str(self.path)!r} has {status.st_nlink} names (hard links), each of "
                "which would have a journal of its own; remove the others."
            )

    def _sheet(self, connection: sqlite3.Connection) -> Sheet:
        """Return the contents of the database, if it has the tables of a ledger and no others."""
        # an open cursor in the traceback of an interrupt would keep the lock: fetch all at once
        if connection.execute("PRAGMA journal_mode").fetchall() != [("delete",)]:
            raise DamagedError("it has another journal")
        if os.stat(self.path).st_size % _PAGE:
            raise DamagedError("it is cut off")
        query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"
        tables = [str(sql) for (sql,) in connection.execute(query).fetchall()]
        if sorted(tables) not in (sorted(TABLES), sorted((_HEAD_BEFORE, *TABLES[1:]))):
            raise DamagedError("its tables are others")
        sheet = Sheet(connection)
        with reading("head"):
            sheet.read()
            schema = sheet.record["schema"]
        if schema != SCHEMAS[self._kind]:
            raise LedgerError(
                f"the ledger {str(self.path)!r} was written as {quoted(schema)}, and {self._kind} "
                f"reads {SCHEMAS[self._kind]!r}; open it with the class and version that wrote it."
            )
        return sheet


def certificate_for(noiser: Any) -> Any:
    """Return the certificate of a noiser, or the certificate itself, by which one may spend."""
    if isinstance(noiser, CertifiedEstimator) and hasattr(noiser, "certificate_"):
        noiser._check_as_certified()
    certificate = getattr(noiser, "certificate_", noiser)
    if not getattr(certificate, "fingerprint", "") or getattr(certificate, "rule", None) is None:
        raise ValueError(
            f"noiser must be a fitted noiser, or its certificate, with a rule for repeated "
            f"releases, got {type(noiser).__name__}; call fit first."
        )
    if not certificate.holds:
        raise ValueError(
            "the certificate of the noiser does not hold, so there is nothing to spend; print it "
            "to see the remedy."
        )
    return certificate


def foreign(path: Path) -> str:
    """Return the message for the ledger of another noiser."""
    return (
        f"the ledger {str(path)!r} belongs to another noiser; open it with the noiser it was "
        "created for, or create a ledger for data that were never released."
    )


def scales_from(pairs: Any) -> dict[Axis, float]:
    """Return scales that were written as pairs."""
    return {axis: check_scale(scale, axis, free=True) for axis, scale in pairs}


def scales_of(certificate: Any) -> dict[Axis, float]:
    """Return the scales of one release, by axis of its rule."""
    return {plain(column.name): float(column.theta) for column in certificate.columns}
