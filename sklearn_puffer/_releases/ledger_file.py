"""The file of a ledger: locked by one process at a time, and replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path


class Snapshot:
    """What a file held when it was read, and whether it is still the one in its place.

    As long as a file is open the system gives its number to no other, so that files are told apart
    by number, without a clock; sizes and times only show edits in place. Where a file that is open
    cannot be replaced, it is closed at once, and the times must do.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._name = path, str(path)  # which the system takes faster than a Path
        with explained(path, "the ledger cannot be read, and nothing was spent"):
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            close = weakref.finalize(self, os.close, handle)
            self.found = os.fstat(handle)
            self._signature: tuple[int, ...] = _signature(self.found)
            with os.fdopen(handle, "rb", closefd=False) as file:
                self.data = file.read()
        if os.name == "nt":
            close()

    def is_current(self) -> bool:
        """Return whether the file is in its place."""
        try:
            found: tuple[int, ...] = _signature(os.stat(self._name))
        except OSError as fault:
            raise told(fault, self.path, "the ledger cannot be found") from fault
        return found == self._signature


_signature = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


@contextmanager
def explained(path: Path, sentence: str) -> Iterator[None]:
    """Tell in every error of the operating system what it means for the ledger."""
    try:
        yield
    except OSError as fault:
        raise told(fault, path, sentence) from fault


def told(fault: OSError, path: Path, sentence: str) -> OSError:
    """Return an error of the same kind that says so."""
    code = fault.errno or errno.EIO
    return OSError(code, f"{sentence} ({fault.strerror or fault})", str(path))


class Hold:
    """The lock while it is held."""

    def __init__(self, lock: Path, handle: int) -> None:
        self._lock, self._handle = lock, handle

    def check(self, seen: Snapshot | None) -> None:
        """Raise if others may hold another lock, or if the file is not the one that was read."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._handle), os.stat(self._lock)) and (
                seen is None or seen.is_current()
            ):
                return
        raise OSError(
            errno.EBUSY, "its .lock file was removed, or the ledger exchanged, in the meantime"
        )


@contextmanager
def exclusive(path: Path) -> Iterator[Hold]:
    """Hold the lock of a ledger, which ends with the process at the latest.

    Every caller opens the lock file afresh: the lock belongs to that opening, so it keeps threads
    apart as well as processes, and nothing of it is left in a forked or pickled ledger.
    """
    lock = path.with_name(f"{path.name}.lock")
    with explained(path, "the ledger cannot be locked, and nothing was spent"):
        handle = _locked(lock)
    try:
        yield Hold(lock, handle)
    finally:
        try:
            _unlock(handle)
        finally:
            os.close(handle)


def _locked(lock: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _wait_for_lock(handle)
            # Somebody may have removed the file that was opened, and others hold a new one.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(lock)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _wait_for_lock(handle: int) -> None:
        while True:
            try:
                return msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError as fault:
                if fault.errno != errno.EDEADLK:  # which says that ten seconds were not enough
                    raise

    def _unlock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _wait_for_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: int) -> None:
        # Not left to `close`: a fork in between keeps a second handle on the same lock.
        fcntl.flock(handle, fcntl.LOCK_UN)


def write(path: Path, data: bytes, hold: Hold, seen: Snapshot | None) -> None:
    """Put data in the place of the file that was seen, in a single step, while holding the lock.

    The lock is looked at once more right before that step: whoever removes the lock file in the
    middle of a spend makes it fail, and not be forgotten.
    """
    fresh = path.with_name(f"{path.name}.tmp")
    with explained(path, "the ledger cannot be written, and nothing was spent"):
        try:
            fresh.unlink(missing_ok=True)
            _write_through(fresh, data)
            if path.exists():
                shutil.copymode(path, fresh)
            hold.check(seen)
            os.replace(fresh, path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
    with explained(path, "the spend is on record, but the disk does not confirm it"):
        _sync_folder(path.parent)


def _write_through(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system knows how to."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
