"""Files that appear complete or not at all, and replace others only on request."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sklearn_puffer._words import quoted

_FAILED = "the file cannot be written, and there is none now; choose another path"


def located(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file, which may not exist yet, with symbolic links followed.

    Raises
    ------
    TypeError, ValueError
        If it is no path, or that of a folder, a pipe or a device.
    """
    try:
        place = Path(path).resolve()
    except TypeError as fault:
        raise TypeError(f"path must be a str or a Path, got {quoted(path)}.") from fault
    except (RuntimeError, ValueError) as fault:  # a loop of links, or a null byte
        raise ValueError(
            f"path must lead to a file, got {quoted(path)} ({fault}); choose another name."
        ) from fault
    if os.path.exists(place) and not os.path.isfile(place):
        raise ValueError(
            f"path must be that of a file, got {str(path)!r}, a folder, a pipe or a device; choose "
            "another name."
        )
    return place


@contextmanager
def explained(path: Path, sentence: str) -> Iterator[None]:
    """Add a sentence and the path to errors of the operating system."""
    try:
        yield
    except OSError as fault:
        raise told(fault, path, sentence) from fault


def told(fault: OSError, path: Path, sentence: str) -> OSError:
    """Return the same kind of error with a sentence and the path."""
    code = fault.errno or errno.EIO
    return OSError(code, f"{sentence} ({fault.strerror or fault})", str(path))


def write_new(path: str | os.PathLike[str], data: bytes, *, private: bool = False) -> None:
    """Write a file that does not exist yet.

    Raises
    ------
    FileExistsError
        If the file exists.
    TypeError, ValueError, OSError
        If it is no path, or the file cannot be written.
    """
    check_free(located(path), way="remove it, or choose another name")
    with growing_file(path, private=private) as file, explained(Path(path), _FAILED):
        file.write(data)


@contextmanager
def growing_file(
    path: str | os.PathLike[str], *, force: bool = False, private: bool = False
) -> Iterator[BinaryIO]:
    """Open a file to be written in parts; it gets its name when it is complete and synced.

    Until then it is ``.puffer-*.partial`` in the same folder, readable by its owner alone. An error
    removes it; only a killed process leaves it behind.

    Parameters
    ----------
    path : str or Path
    force : bool, default=False
        Whether it may replace another file.
    private : bool, default=False
        Whether it stays readable by its owner alone (0600), as key material.

    Raises
    ------
    FileExistsError
        If the file exists, without ``force``, before anything is written or at the end.
    TypeError, ValueError, OSError
        If that is no path, or the file cannot be written.
    """
    place = located(path)
    check_free(place, force=force)
    with explained(place, _FAILED):
        handle, name = tempfile.mkstemp(prefix=".puffer-", suffix=".partial", dir=place.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            with explained(place, _FAILED):
                file.flush()
                os.fsync(file.fileno())
        with explained(place, _FAILED):
            if not private:
                with suppress(OSError):  # a file system without permissions
                    fresh.chmod(0o666 & ~_umask())
            if force:
                os.replace(fresh, place)
            else:
                _put(fresh, place)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    sync_folder(place.parent)


_TYPED = "choose another name, or pass --force to replace it"


def check_free(place: Path, *, force: bool = False, way: str = _TYPED) -> None:
    """Refuse a path that exists, unless it is a file that may be replaced.

    Raises
    ------
    FileExistsError
        With the way out.
    """
    if place.exists() and not (force and place.is_file()):
        raise FileExistsError(errno.EEXIST, f"there is a file already; {way}", str(place))


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _put(fresh: Path, place: Path) -> None:
    """Give a file its name, without replacing one that was written meanwhile."""
    if os.name == "nt":
        os.rename(fresh, place)  # replaces nothing on Windows
        return
    try:
        os.link(fresh, place)
    except PermissionError:  # a file system without hard links
        if place.exists():
            raise
        os.replace(fresh, place)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, if the system can."""
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
