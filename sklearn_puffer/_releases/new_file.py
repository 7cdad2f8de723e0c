"""A file that appears whole or not at all, and never in the place of another."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

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
