"""The database of a ledger of persons: one file of SQLite, changed whole or not at all.

- A spend is one transaction that nobody else reads or writes beside. SQLite rolls it back from its
  journal (``-journal``) if the process dies, and it is on the disk, journal and folder with it,
  before anything is released (``synchronous=EXTRA``). It keeps no write-ahead log, so that whoever
  copies the one file, while nothing is spent, has all of it.
- Connections live as long as a transaction, and no fork happens in between, so that a child
  inherits neither a lock nor a half-read page. Who finds the file locked waits without holding
  anything.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from sklearn_puffer._base import quoted
from sklearn_puffer._releases.ledger_file import told, waited
from sklearn_puffer._releases.ledger_state import LedgerError
from sklearn_puffer._releases.new_file import write_new
from sklearn_puffer._releases.person_state import SCHEMA, About, UnknownSchemaError

Answer = TypeVar("Answer")

TABLES = (
    "CREATE TABLE about (text TEXT NOT NULL)",
    "CREATE TABLE kinds (kind INTEGER PRIMARY KEY, scales TEXT NOT NULL)",
    "CREATE TABLE histories (history INTEGER PRIMARY KEY, counts TEXT NOT NULL UNIQUE)",
    "CREATE TABLE persons (person BLOB PRIMARY KEY, form INTEGER NOT NULL,"
    " history INTEGER NOT NULL, draws BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE calls (call INTEGER PRIMARY KEY, dataset TEXT NOT NULL, release INTEGER NOT NULL,"
    " note TEXT NOT NULL, kind INTEGER NOT NULL, rows INTEGER NOT NULL, new INTEGER NOT NULL,"
    " repeated INTEGER NOT NULL, withheld INTEGER NOT NULL)",
)
_SAFELY = ("synchronous=EXTRA", "fullfsync=1", "trusted_schema=0", "cell_size_check=1")
_QUICKLY = ("temp_store=MEMORY", "cache_size=-65536")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SYSTEM = {
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
}
_FAILED = "the ledger cannot be read or written; repeat the call, which spends once at most"

# Held while there is a connection, and by every fork: a child must inherit none.
_one = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_one.acquire, after_in_parent=_one.release, after_in_child=_one.release
    )


def create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Write a database that does not exist yet, whole.

    Raises
    ------
    FileExistsError
        If there is one, or the journal of one that was there.
    OSError
        If it cannot be written.
    """
    for suffix in ("-journal", "-wal"):
        if (beside := path.with_name(f"{path.name}{suffix}")).exists():
            raise FileExistsError(
                errno.EEXIST,
                "there is the journal of another database, which would be taken for that of the "
                "ledger; remove it, or choose another name",
                str(beside),
            )
    with _one:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            for table in TABLES:
                connection.execute(table)
            fill(connection)
            data = connection.serialize()
        finally:
            connection.close()
    write_new(path, data)


def read(path: Path, timeout: float, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Return what work reads from one state of the database."""
    return _patiently(path, timeout, "BEGIN", work)


def change(path: Path, timeout: float, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Return what work returns, when all that it changed is on the disk; or nothing is changed."""
    return _patiently(path, timeout, "BEGIN EXCLUSIVE", work)


def _patiently(
    path: Path, timeout: float, begin: str, work: Callable[[sqlite3.Connection], Answer]
) -> Answer:
    deadline, pause = time.monotonic() + timeout, _SHORTEST_PAUSE
    while True:
        # threads wait for each other here, and processes below, where nobody holds anything
        left = min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        try:
            if _one.acquire(timeout=left):
                with suppress(_BusyError):
                    return _once(path, begin, work)
        finally:  # an interrupt may come right after the acquisition
            with suppress(RuntimeError):  # it was not acquired
                _one.release()
        left = deadline - time.monotonic()
        if left <= 0.0:
            waiting = OSError(errno.ETIMEDOUT, waited(timeout))
            raise told(waiting, path, "the ledger cannot be locked, and nothing was spent")
        time.sleep(min(pause, left))
        pause = min(2.0 * pause, _LONGEST_PAUSE)


class _BusyError(Exception):
    """Raised where others hold the database."""


def _once(path: Path, begin: str, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
    _check_names(path)
    with _explained(path):
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0, isolation_level=None
        )
        try:
            for pragma in (*_SAFELY, *_QUICKLY):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute(begin)
            _check_tables(connection, path)
            answer = work(connection)
            connection.execute("COMMIT")
            return answer
        finally:
            connection.close()  # what was not committed is rolled back


def _check_names(path: Path) -> None:
    try:
        names = os.stat(path).st_nlink
    except OSError as fault:
        raise told(fault, path, "the ledger cannot be read, and nothing was spent") from fault
    if names > 1:
        raise LedgerError(
            f"the ledger {str(path)!r} has {names} names (hard links), each of which would have "
            "a journal of its own; remove the others."
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Tell in every error of SQLite what it means for the ledger."""
    try:
        yield
    except sqlite3.Error as fault:
        code = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _BUSY:
            raise _BusyError from fault
        if code in _SYSTEM:
            found = OSError(_SYSTEM[code], str(fault))
            said = (
                "the ledger cannot be read or written; repeat the call, which spends at most once"
            )
            raise told(found, path, said) from fault
        raise damaged(path, str(fault)) from fault


def damaged(path: Path, why: str) -> LedgerError:
    """Return what is raised for a file that does not hold what a ledger wrote."""
    return LedgerError(
        f"{str(path)!r} is not a ledger of persons, or a damaged one ({why}); put back the last "
        "whole copy, and release again what was released since: it comes out as it was."
    )


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse any other database: with a table, an index or a trigger of its own."""
    found = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    if sorted(sql for (sql,) in found) != sorted(TABLES):
        raise damaged(path, "its tables are others")


def about(connection: sqlite3.Connection, path: Path) -> About:
    """Return what the ledger is about."""
    rows = connection.execute("SELECT text FROM about").fetchall()
    try:
        ((text,),) = rows
        return About.from_text(text)
    except UnknownSchemaError as fault:
        raise LedgerError(
            f"the ledger {str(path)!r} was written as {quoted(str(fault))}, and this version reads "
            f"{SCHEMA!r}; use the version that wrote it."
        ) from fault
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as fault:
        raise damaged(path, "what it is about cannot be read") from fault
