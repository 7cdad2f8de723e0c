"""Reports of a long computation, for whoever waits for it: the one place that makes them.

`listening` opens the ear, in `fit`, `transform` and whatever else may take long; what runs inside
says what it does with `task` or `counted`, at any depth, and nothing has to hand a parameter down
to it. Without an ear they cost next to nothing. Reports hold what is done and how often, and how
far a solver is from its bound: never a value, a secret or a loss. The clock decides when something
is shown, and nothing else; `screen` decides where.

Where reports of a long computation appear: a bar of tqdm, or plain lines.

A bar is for eyes, so a terminal or a notebook gets one; a file, a pipe and a log get whole lines,
without a control code. Whatever is installed, the words are the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from math import inf
from shutil import get_terminal_size
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Protocol, TypeVar

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
    moves = _in_notebook() or _is_terminal()
    return TqdmBar() if moves and find_spec("tqdm") else Lines()


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


T = TypeVar("T")

EVERY = 2.0
"""Seconds before the first report, and the most between two."""

_LEAST = 0.1  # seconds between two looks at the clock


@dataclass(eq=False)
class _Task:
    what: str
    total: int | None
    began: float
    done: int = 0
    note: str = ""
    heads: bool = False

    def words(self) -> str:
        words = self._words()
        return f"{words}, {self.note}" if self.note else words

    def _words(self) -> str:
        if not self.total:
            return f"{self.what}: {self.done:,} done" if self.done else self.what
        return f"{self.what}: {self.done:,} of {self.total:,} ({self.done / self.total:.0%})"

    def share(self) -> float | None:
        return min(self.done / self.total, 1.0) if self.total else None

    def left(self, now: float) -> float | None:
        """Return the seconds left, if the rest takes as long as what is done."""
        if not self.total or not self.done:
            return None
        return (now - self.began) * max(self.total - self.done, 0) / self.done


class _Voice:
    """What tells the user of tasks, once the first seconds are over."""

    def __init__(self, tasks: list[_Task], what: str) -> None:
        self.tasks, self.whole = tasks, _Task(what, None, monotonic())
        self.due = monotonic() + EVERY
        self.screen: Screen | None = None
        self.lock, self.over = Lock(), Event()
        self.beating: Thread | None = None

    def beat(self) -> None:
        """Go on telling while one call takes long, such as a query of an engine."""
        self.beating = Thread(target=self._beat, name="sklearn_puffer progress", daemon=True)
        self.beating.start()

    def _beat(self) -> None:
        while not self.over.wait(max(self.due - monotonic(), _LEAST)):
            self.tell(monotonic())

    def tell(self, now: float) -> None:
        """Show how far the tasks are, if it is time for that."""
        if now < self.due:
            return
        with self.lock:
            try:
                if now >= self.due:
                    self._show(list(self.tasks) or [self.whole], now)
            except Exception:  # a closed stream stops no work
                self.due = inf
                self.over.set()

    def _show(self, tasks: Sequence[_Task], now: float) -> None:
        self.screen = self.screen or screen()
        self.due = now + min(EVERY, self.screen.pause)
        words = "; ".join(task.words() for task in tasks)
        if not any(task.done for task in tasks):
            words = f"{words} ({now - tasks[0].began:,.0f} s so far)"
        # of what lies within the outermost one more may follow
        outer = next((task for task in tasks if not task.heads), tasks[0])
        self.screen.show(Report(words, outer.share(), outer.left(now)))

    def end(self) -> None:
        """Be silent from now on."""
        self.over.set()
        if self.beating is not None:
            self.beating.join()
        if self.screen is not None:
            with suppress(Exception):
                self.screen.end()


@dataclass
class _Ear:
    """Who listens, and to what; the outermost task comes first."""

    voice: _Voice | None = None
    tasks: list[_Task] = field(default_factory=list)

    def tell(self) -> None:
        if self.voice is not None:
            self.voice.tell(monotonic())


_ear: ContextVar[_Ear | None] = ContextVar("_ear", default=None)


@contextmanager
def listening(verbose: Any, what: str) -> Iterator[None]:
    """Show what the block reports, where ``verbose`` is true and the block takes long.

    While it reports nothing, ``what`` says what it is. Within a block that is listened to this
    changes nothing: there is one screen.
    """
    ear = _ear.get() or _Ear()
    if not verbose or ear.voice is not None:
        yield
        return
    voice = _Voice(ear.tasks, what)
    before = _ear.set(replace(ear, voice=voice))
    try:
        voice.beat()
        yield
    finally:
        _ear.reset(before)
        voice.end()


def is_listening() -> bool:
    """Return whether anybody is shown what is reported here."""
    ear = _ear.get()
    return ear is not None and ear.voice is not None


@contextmanager
def task(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Report a task, whose block calls what it is given whenever a part of it is done.

    It may say how many parts, and may be called in other threads, too.

    >>> with listening(1, "fit"), task("couplings", 3) as done:
    ...     done()
    """
    ear = _ear.get()
    if ear is None:
        yield _ignore
        return
    own = _Task(what, total, monotonic())
    ear.tasks.append(own)

    def done(n: int = 1) -> None:
        own.done += n
        ear.tell()

    try:
        ear.tell()
        yield done
    finally:
        ear.tasks.remove(own)


class _StoppedError(Exception):
    """Ends a thread whose work nobody waits for any more."""


@contextmanager
def stopping(done: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """Yield what threads report their parts to, so that all stop at the next if the block fails.

    Ctrl-C comes to the main thread alone, and would leave the others at work.
    """
    over = Event()

    def told(n: int = 1) -> None:
        if over.is_set():
            raise _StoppedError
        done(n)

    try:
        yield told
    except BaseException:
        over.set()
        raise


@contextmanager
def heading(what: str) -> Iterator[None]:
    """Say what the tasks of the block are for; it has no parts of its own.

    >>> with listening(1, "fit"), heading("losses under a prior"):
    ...     list(counted([3, 4], "pairs"))
    [3, 4]
    """
    with task(what):
        ear = _ear.get()
        if ear is not None:
            ear.tasks[-1].heads = True
        yield


def counted(items: Sequence[T] | Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Return an iterator that yields the items, and reports each that is done.

    >>> list(counted([3, 4], "columns"))
    [3, 4]
    """
    if _ear.get() is None:
        return iter(items)
    if total is None and isinstance(items, Sequence):
        total = len(items)
    return _counted(items, what, total)


def _counted(items: Iterable[T], what: str, total: int | None) -> Iterator[T]:
    with task(what, total) as done:
        for item in items:
            yield item
            done()


@contextmanager
def reporting(verbose: Any, what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Report a task of a generator, between whose parts others work: nobody else is heard.

    >>> with reporting(1, "rows") as done:
    ...     done(65_536)
    """
    if not verbose:
        yield _ignore
        return
    own = _Task(what, total, monotonic())
    voice = _Voice([own], what)

    def done(n: int = 1) -> None:
        own.done += n
        voice.tell(monotonic())

    try:
        yield done
    finally:
        voice.end()


def noted(words: str) -> None:
    """Say beside the innermost task how far it has come.

    >>> with listening(1, "fit"), task("rounds"):
    ...     noted("gap so far 3 %")
    """
    ear = _ear.get()
    if ear is not None and ear.tasks:
        ear.tasks[-1].note = words


def _ignore(n: int = 1) -> None:
    pass
