"""Reports of a long computation, for the user who waits for it: the one place that makes them.

`listening` starts a reporter, in `fit`, `transform` and whatever else may take long. Code inside
reports its work with `task` or `counted`, at any depth, without a parameter. Without a reporter
these take next to no time. Reports hold names and numbers of tasks: never a value, a secret or a
loss. The clock alone decides when something is shown.

A terminal or a notebook gets a bar of tqdm; a file, a pipe and a log get plain lines, without a
control code. The words are the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf
from shutil import get_terminal_size
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from sklearn_puffer._base.arguments import check_verbose

T = TypeVar("T")

EVERY = 2.0
"""Seconds before the first report, and the most between two."""

_OFTEN = 0.2  # seconds between two states of a bar
_LEAST = 0.1  # seconds between two looks at the clock


def _bar() -> Any:
    """Return a bar of tqdm, without the thread that watches its bars."""
    from tqdm import tqdm

    # a generic class in its stubs, and none when it runs
    class Unwatched(tqdm):  # type: ignore[type-arg,unused-ignore]
        monitor_interval = 0

    size = get_terminal_size()  # where a terminal has none, tqdm would draw nothing
    return Unwatched(
        total=1.0,
        file=sys.stderr,
        bar_format="|{bar:20}| {desc}",
        ncols=size.columns - 1,
        nrows=size.lines,
        leave=False,
    )


def _redraws() -> bool:
    """Return whether standard error is a terminal that can redraw a line, or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    if hasattr(shell(), "kernel"):
        return True
    is_dumb = os.environ.get("TERM") in ("dumb", "unknown")
    return not is_dumb and sys.stderr is not None and sys.stderr.isatty()


class _Task:
    """A task and how far it is; ``heads`` marks one whose parts are the tasks inside it."""

    def __init__(self, what: str, total: int | None = None, *, heads: bool = False) -> None:
        self.what, self.total, self.heads = what, total, heads
        self.done, self.began = 0, monotonic()

    def words(self) -> str:
        if not self.total:
            return f"{self.what}: {self.done:,} done" if self.done else self.what
        return f"{self.what}: {self.done:,} of {self.total:,} ({self.done / self.total:.0%})"

    def rest(self, now: float) -> str:
        """Return the time left at the speed so far, in minutes and seconds as tqdm writes it."""
        if not self.total or not self.done:
            return ""
        from tqdm import tqdm

        left = (now - self.began) * max(self.total - self.done, 0) / self.done
        return f"; about {tqdm.format_interval(left)} left"


class _Reporter:
    """Reports tasks to the user, the outermost first, after the first seconds."""

    def __init__(self, what: str) -> None:
        self.tasks: list[_Task] = []
        self.whole = _Task(what)
        self.due = monotonic() + EVERY
        self.bar: Any = None
        self.lock, self.over = Lock(), Event()
        self.thread = Thread(
            target=self._report_while_waiting, name="sklearn_puffer progress", daemon=True
        )

    def _report_while_waiting(self) -> None:
        """Report during a single long call, too, such as a query of an engine."""
        while not self.over.wait(max(self.due - monotonic(), _LEAST)):
            self.tell()

    def tell(self) -> None:
        """Show the progress of the tasks if a report is due."""
        now = monotonic()
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
        if self.bar is None and _redraws():
            self.bar = _bar()
        self.due = now + (EVERY if self.bar is None else min(EVERY, _OFTEN))
        line = "; ".join(task.words() for task in tasks)
        if not any(task.done for task in tasks):
            line = f"{line} ({now - tasks[0].began:,.0f} s so far)"
        # more tasks may follow inside the outermost one
        outer = next((task for task in tasks if not task.heads), tasks[0])
        line += outer.rest(now)
        if self.bar is not None:
            self.bar.n = min(outer.done / outer.total, 1.0) if outer.total else 0.0
            self.bar.set_description_str(line)
        elif sys.stderr is not None:
            sys.stderr.write(f"sklearn_puffer: {line}\n")
            sys.stderr.flush()

    def end(self) -> None:
        """Stop reporting."""
        self.over.set()
        if self.thread.is_alive():
            self.thread.join()
        if self.bar is not None:
            with suppress(Exception):
                self.bar.close()


_reporter: ContextVar[_Reporter | None] = ContextVar("_reporter", default=None)


@contextmanager
def listening(verbose: Any, what: str) -> Iterator[None]:
    """Show what the block reports, where ``verbose`` is true and the block takes long.

    Before its first report ``what`` names the block. Inside another such block this does nothing.
    """
    if not verbose or is_listening():
        yield
        return
    reporter = _Reporter(what)
    before = _reporter.set(reporter)
    try:
        reporter.thread.start()
        yield
    finally:
        _reporter.reset(before)
        reporter.end()


@contextmanager
def fitting(estimator: Any) -> Iterator[None]:
    """Show what a fit reports, as ``verbose`` says; one that fails leaves the estimator as it was.

    >>> from types import SimpleNamespace
    >>> estimator = SimpleNamespace(verbose=0, theta_=1.0)
    >>> with suppress(ValueError), fitting(estimator):
    ...     estimator.theta_ = 2.0
    ...     raise ValueError
    >>> estimator.theta_
    1.0
    """
    before = dict(vars(estimator))
    try:
        with listening(check_verbose(estimator.verbose), "fit"):
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def is_listening() -> bool:
    """Return whether there is a reporter."""
    return _reporter.get() is not None


@contextmanager
def task(
    what: str, total: int | None = None, *, heads: bool = False
) -> Iterator[Callable[..., None]]:
    """Report a task; its block calls the callback that it gets after each part.

    The callback takes the number of parts, and may be called in other threads, too. A task that
    ``heads`` others has no parts of its own: it names what the others are for.

    >>> with listening(1, "fit"), task("couplings", 3) as done:
    ...     done()
    """
    reporter = _reporter.get()
    if reporter is None:
        yield lambda n=1: None
        return
    told = _Task(what, total, heads=heads)
    reporter.tasks.append(told)

    def done(n: int = 1) -> None:
        told.done += n
        reporter.tell()

    try:
        reporter.tell()
        yield done
    finally:
        reporter.tasks.remove(told)


def counted(items: Sequence[T] | Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Return an iterator over the items that reports each of them.

    >>> list(counted([3, 4], "columns"))
    [3, 4]
    """
    if total is None and isinstance(items, Sequence):
        total = len(items)
    with task(what, total) as done:
        for item in items:
            yield item
            done()


class _StoppedError(Exception):
    """Ends a thread whose result is no longer needed."""


@contextmanager
def stopping(done: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """Yield a callback for the parts of threads; if the block fails, all stop at their next call.

    Ctrl-C interrupts the main thread alone, and the others would go on.
    """
    over = Event()

    def checked(n: int = 1) -> None:
        if over.is_set():
            raise _StoppedError
        done(n)

    try:
        yield checked
    except BaseException:
        over.set()
        raise
