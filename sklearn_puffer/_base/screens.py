"""Where reports of a long computation appear: a bar of rich or tqdm, or plain lines.

A bar is for eyes, so a terminal or a notebook gets one; a file, a pipe and a log get whole lines,
without a control code. Whatever is installed, the words are the same.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from shutil import get_terminal_size
from typing import Any, Protocol

_OFTEN, _SELDOM = 0.2, 2.0  # seconds between two states of a bar, and between two lines


@dataclass(frozen=True)
class Report:
    """How far a computation has come.

    Attributes
    ----------
    words : str
        What is done, and how often.
    share : float or None
        How much of it is done, where that is known.
    left : float or None
        Seconds that are left, if the rest takes as long as what is done.
    """

    words: str
    share: float | None = None
    left: float | None = None

    @property
    def rest(self) -> str:
        """The time left in words, or nothing.

        >>> Report("columns", 0.5, 50.0).rest, Report("columns", 0.5, 9000.0).rest
        ('about 50 s left', 'about 2 h 30 min left')
        """
        return "" if self.left is None else f"about {_time(max(self.left, 1.0))} left"

    @property
    def line(self) -> str:
        """All of it but the bar."""
        return "; ".join(filter(None, (self.words, self.rest)))


class Screen(Protocol):
    """Where reports appear; ``pause`` is how many seconds there are between two."""

    pause: float

    def show(self, report: Report) -> None:
        """Show a report in the place of the last one, or below it."""

    def end(self) -> None:
        """Take away what moves."""


class Lines:
    """A line for each report, as in a log."""

    pause = _SELDOM

    def show(self, report: Report) -> None:
        """Write a line."""
        say(report.line)

    def end(self) -> None:
        """Leave the lines."""


class RichBar:
    """A bar of rich, without a thread of its own: it moves when there is something to report."""

    pause = _OFTEN

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        narrow = Column(no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=narrow),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[rest]}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._id = self._bar.add_task("", total=None, rest="")

    def show(self, report: Report) -> None:
        """Move the bar."""
        total, words = None if report.share is None else 1.0, report.words
        self._bar.update(self._id, total=total, completed=report.share or 0.0, rest=report.rest)
        self._bar.update(self._id, description=words)
        self._bar.start()
        self._bar.refresh()

    def end(self) -> None:
        """Take the bar away."""
        self._bar.stop()


class TqdmBar:
    """A bar of tqdm, without the thread that watches its bars."""

    pause = _OFTEN

    def __init__(self) -> None:
        from tqdm import tqdm

        class Unwatched(tqdm):  # type: ignore[type-arg,unused-ignore]
            monitor_interval = 0

        size = get_terminal_size()  # where a terminal has none, tqdm would draw nothing
        self._bar: Any = Unwatched(
            total=1.0,
            file=sys.stderr,
            bar_format="|{bar:20}| {desc}",
            ncols=size.columns - 1,
            nrows=size.lines,
            leave=False,
        )

    def show(self, report: Report) -> None:
        """Move the bar."""
        self._bar.n = report.share or 0.0
        self._bar.set_description_str(report.line)

    def end(self) -> None:
        """Take the bar away."""
        self._bar.close()


def screen() -> Screen:
    """Return the best screen that there is here and now."""
    notebook = _in_notebook()
    if not (notebook or _is_terminal()):
        return Lines()
    if find_spec("rich") and (not notebook or find_spec("ipywidgets")):  # its bars there are those
        return RichBar()
    return TqdmBar() if find_spec("tqdm") else Lines()


def say(line: str) -> None:
    """Write one line to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"sklearn_puffer: {line}\n")
        sys.stderr.flush()


def _is_terminal() -> bool:
    moves = os.environ.get("TERM") not in ("dumb", "unknown")
    return moves and sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return hasattr(shell(), "kernel")


def _time(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:,.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"
