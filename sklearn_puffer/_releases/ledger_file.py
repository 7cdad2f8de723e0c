"""The file of a ledger: locked by one process at a time, and replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from sklearn_puffer._base import quoted

Answer = TypeVar("Answer")

# Between two looks at a lock that others hold, in seconds: a spend takes some milliseconds.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


def located(path: str | os.PathLike[str]) -> Path:
    """Return where a ledger is or will be: behind symbolic links, in whose place it would hide.

    Raises
    ------
    TypeError, ValueError
        If that is no path, or leads to what cannot be the file of a ledger.
    """
    try:
        place = Path(path).resolve()
    except TypeError as fault:
        raise TypeError(f"path must be a str or a Path, got {quoted(path)}.") from fault
    except (RuntimeError, ValueError) as fault:  # until Python 3.12 a loop is a RuntimeError
        raise ValueError(_nowhere(path)) from fault
    try:
        mode = os.stat(place).st_mode
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            raise ValueError(_nowhere(path)) from fault
        return place  # there is no such file yet, or who opens it says what is wrong
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"path must be that of a file, got {str(path)!r}, a folder, a pipe or a device; choose "
            "another name."
        )
    return place


def _nowhere(path: str | os.PathLike[str]) -> str:
    return (
        f"path must lead to a file, got {os.fspath(path)!r}, a loop of symbolic links or no path "
        "at all; choose another name."
    )


class Snapshot:
    """What a file held when it was read, and whether it is still the one in its place.

    As long as a file is open the system gives its number to no other, so that files are told apart
    by number, without a clock; sizes and times only show edits in place. Where a file that is open
    cannot be replaced, it is closed at once, and the times must do.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._name = path, str(path)  # which the system takes faster than a Path
        with explained(path, "the ledger cannot be read, and nothing was spent"):
            _check_kind(path)  # opening a pipe would wait for a writer
            file = FileIO(path)  # which belongs to an object from its first moment on
            close = weakref.finalize(self, file.close)
            self.found = os.fstat(file.fileno())
            self._signature: tuple[int, ...] = _signature(self.found)
            self.data = file.readall()
        if os.name == "nt":
            close()

    def is_current(self) -> bool:
        """Return whether the file is in its place."""
        try:
            found: tuple[int, ...] = _signature(os.stat(self._name))
        except OSError as fault:
            raise told(fault, self.path, "the ledger cannot be found") from fault
        return found == self._signature


def _check_kind(path: Path) -> None:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file, but a folder, a pipe or a device")


_signature = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


@contextmanager
def explained(path: Path, sentence: str) -> Iterator[None]:
    """Tell in every error of the operating system what it means for the file."""
    try:
        yield
    except OSError as fault:
        raise told(fault, path, sentence) from fault


def told(fault: OSError, path: Path, sentence: str) -> OSError:
    """Return an error of the same kind that says so."""
    code = fault.errno or errno.EIO
    return OSError(code, f"{sentence} ({fault.strerror or fault})", str(path))


class Lock:
    """The lock of a ledger: held from `take` to `give_back`, and no longer than this object lives.

    Every caller has one of its own: the lock belongs to the opening of a file, so it keeps threads
    apart as well as processes, and nothing of it is left in a pickled ledger. The opening belongs
    to an object from its first moment on, so that nothing can be lost on the way.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._file: FileIO | None = None
        self.written = False  # whether the new state is in its place
        _every_lock.add(self)  # before there is anything to close in a forked process

    def take(self, timeout: float) -> None:
        """Wait for the lock, for so many seconds."""
        with explained(self._path, "the ledger cannot be locked, and nothing was spent"):
            deadline, pause = time.monotonic() + timeout, _SHORTEST_PAUSE
            while not self._taken():
                left = deadline - time.monotonic()
                if left <= 0.0:
                    raise OSError(errno.ETIMEDOUT, waited(timeout))
                time.sleep(min(pause, left))
                pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _taken(self) -> bool:
        while True:
            if self._file is None:
                self._file = FileIO(self._path, "a+")
            if not _try_to_lock(self._file.fileno()):
                return False
            # Somebody may have removed the file that was opened, and others hold a new one.
            if self._in_its_place():
                return True
            self.give_back()

    def _in_its_place(self) -> bool:
        with suppress(FileNotFoundError):
            return self._file is not None and os.path.samestat(
                os.fstat(self._file.fileno()), os.stat(self._path)
            )
        return False

    def check(self, seen: Snapshot | None) -> None:
        """Raise if others may hold another lock, or if the file is not the one that was read."""
        with suppress(FileNotFoundError):
            if self._in_its_place() and (seen is None or seen.is_current()):
                return
        raise OSError(
            errno.EBUSY,
            "its .lock file was removed, the ledger exchanged, or the process forked in the "
            "meantime",
        )

    def give_back(self) -> None:
        """Let go of the lock, where it is held; to be called again if it did not come to its end.

        It is not left to closing the file: a fork in between may keep the same opening.
        """
        if self._file is None:
            return
        spent = "the spend is on record" if self.written else "nothing was spent"
        with explained(self._path, f"{spent}, but the lock of the ledger was not given back"):
            try:
                if not self._file.closed:
                    _unlock(self._file.fileno())
            finally:
                self.close()

    def close(self) -> None:
        """Close the file: what a forked process does, whose parent goes on to hold the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None


_every_lock: weakref.WeakSet[Lock] = weakref.WeakSet()


def waited(timeout: float) -> str:
    """Return what is said of a lock that was not had in so many seconds."""
    return (
        f"another process or thread still holds it after {timeout:g} s; wait for that one, or end "
        "it, or open the ledger with a longer timeout"
    )


def exclusively(path: Path, timeout: float, work: Callable[[Lock], Answer]) -> Answer:
    """Return what the work returns that is done while the lock of a ledger is held.

    An interrupt may come between any two instructions. Before the first `try` nothing is held;
    inside, the lock is given back, and given back again where the interrupt hit the giving back.
    So it is free even while somebody keeps the traceback, and with it the objects of these frames.
    """
    lock = Lock(path)
    try:
        try:
            lock.take(timeout)
            return work(lock)
        finally:
            lock.give_back()
    finally:
        lock.give_back()


if sys.platform == "win32":
    import msvcrt

    def _try_to_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as fault:
            if fault.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

    def _unlock(handle: int) -> None:
        with suppress(PermissionError):  # it was not held, as after a wait that was too long
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_to_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)

    def _let_the_parent_hold() -> None:
        for lock in tuple(_every_lock):
            lock.close()

    # A child has what its parent's other threads had opened, and no thread to close it: it would
    # keep their locks beyond the parent's end.
    os.register_at_fork(after_in_child=_let_the_parent_hold)


def write(path: Path, data: bytes, lock: Lock, seen: Snapshot | None) -> None:
    """Put data in the place of the file that was seen, in a single step, while holding the lock.

    The lock is looked at once more right before that step: whoever removes the lock file in the
    middle of a spend makes it fail, and not be forgotten.
    """
    fresh = path.with_name(f"{path.name}.tmp")
    with explained(path, "the ledger cannot be written, and nothing was spent"):
        try:
            fresh.unlink(missing_ok=True)
            write_through(fresh, data)
            if path.exists():
                shutil.copymode(path, fresh)
            lock.check(seen)
            os.replace(fresh, path)
            lock.written = True
        except BaseException:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
    with explained(path, "the spend is on record, but the disk does not confirm it"):
        sync_folder(path.parent)


def write_through(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, and wait until it is on the disk."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
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
