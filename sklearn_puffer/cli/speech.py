"""What the command line says: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
import time
from typing import Any

_SECONDS = 5.0
_WIDE = 70  # of a line that moves: as long as any


def say(text: str) -> None:
    """Write a result, and a line break, to standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """Write a line about the run to standard error."""
    sys.stderr.write(f"puffer: {text}\n")
    sys.stderr.flush()


def one_line(error: Any) -> str:
    """Return what an error or a warning says, in one line that no terminal takes for commands."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}"
    plain = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    return plain or type(error).__name__


class Progress:
    """How far a run is, on standard error: a line that moves, or one every few seconds.

    Parameters
    ----------
    what : str
        What is done.
    quiet : bool
    """

    def __init__(self, what: str, quiet: bool) -> None:
        self._what, self._quiet = what, quiet
        self._rows, self._moves = 0, sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + (0.2 if self._moves else _SECONDS)

    def add(self, rows: int, share: float) -> None:
        """Count rows; ``share`` of the input was read."""
        self._rows += rows
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.2 if self._moves else _SECONDS)
        from sklearn_puffer._base import Report  # which the help does without

        left = (time.monotonic() - self._began) * (1.0 - share) / share if share > 0.0 else None
        report = Report(f"{self._what}: {self._rows:,} rows, {share:.0%}", share, left)
        sys.stderr.write(f"\r{report.line:<{_WIDE}}" if self._moves else f"puffer: {report.line}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Say how much it was."""
        if self._quiet:
            return
        text = f"{self._what}: {self._rows:,} rows, done"
        sys.stderr.write(f"\r{text:<{_WIDE}}\n" if self._moves else f"puffer: {text}\n")
        sys.stderr.flush()
