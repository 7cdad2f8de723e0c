"""A file that appears whole or not at all, and never in the place of another."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sklearn_puffer._releases.ledger_file import (
    explained,
    located,
    sync_folder,
    write_through,
)


def write_new(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file that does not exist yet.

    Raises
    ------
    FileExistsError
        If there is such a file.
    TypeError, ValueError, OSError
        If that is no path, or the file cannot be written.
    """
    place = located(path)
    taken = FileExistsError(
        errno.EEXIST, "there is a file already; remove it, or choose another name", str(place)
    )
    if place.exists():
        raise taken
    fresh = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    with explained(place, "the file cannot be written, and there is none now; choose another path"):
        try:
            write_through(fresh, data)
            _put(fresh, place)
        except FileExistsError as fault:
            raise taken from fault
        finally:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
        sync_folder(place.parent)


@contextmanager
def growing_file(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[BinaryIO]:
    """Open a file to be written bit by bit, which has its name when all is on the disk.

    Until then it lies beside its place as ``.puffer-*.partial``, for its owner alone; whatever is
    raised, it is gone. Only what is killed leaves it behind.

    Parameters
    ----------
    path : str or Path
    force : bool, default=False
        Whether it may take the place of another file.

    Raises
    ------
    FileExistsError
        If there is such a file, and no ``force``, before anything is written or at the end.
    TypeError, ValueError, OSError
        If that is no path, or the file cannot be written.
    """
    place = located(path)
    check_free(place, force=force)
    with explained(place, "the file cannot be written; choose another path"):
        handle, name = tempfile.mkstemp(prefix=".puffer-", suffix=".partial", dir=place.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # a file system without rights
            fresh.chmod(0o666 & ~_umask())
        if force:
            os.replace(fresh, place)
        else:
            _put(fresh, place)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    sync_folder(place.parent)


def check_free(place: Path, *, force: bool = False) -> None:
    """Refuse a place where there is a file, unless it may be replaced, or anything else.

    Raises
    ------
    FileExistsError
        Saying so.
    """
    if place.exists() and not (force and place.is_file()):
        way = "choose another name, or pass --force to replace it"
        raise FileExistsError(errno.EEXIST, f"there is a file already; {way}", str(place))


def _umask() -> int:
    """Return which rights new files do not get; it can be read only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _put(fresh: Path, place: Path) -> None:
    """Give a file its name, and replace none that somebody wrote in between."""
    if os.name == "nt":
        os.rename(fresh, place)  # which replaces nothing there
        return
    try:
        os.link(fresh, place)
    except PermissionError:  # a file system without hard links
        if place.exists():
            raise
        os.replace(fresh, place)
