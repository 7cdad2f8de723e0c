"""Lines about a long computation, for whoever waits for it: the one place that prints them.

`listening` opens the ear, in `fit`; whatever runs inside says what it does with `task` or
`counted`, at any depth, and nothing has to hand a parameter down to it. Without an ear they cost
next to nothing. Lines hold what is done and how often, and how far a solver is from its bound:
never a value, a secret or a loss. The clock decides when a line is printed, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

EVERY = 2.0
"""Seconds before the first line, and between two lines."""


@dataclass
class _Task:
    what: str
    total: int | None
    began: float
    done: int = 0
    note: str = ""

    def words(self) -> str:
        words = self._words()
        return f"{words}, {self.note}" if self.note else words

    def _words(self) -> str:
        if self.total is None:
            return f"{self.what}: {self.done:,} done" if self.done else self.what
        return f"{self.what}: {self.done:,} of {self.total:,} ({self.done / self.total:.0%})"

    def left(self, now: float) -> float | None:
        """Return the seconds left, if the rest takes as long as what is done."""
        if not self.total or not self.done:
            return None
        return (now - self.began) * (self.total - self.done) / self.done


class OutOfTimeError(Exception):
    """Ends a computation that reports, once the time that `until` gives it is over."""


@dataclass
class _Ear:
    """Who listens, and to what; the outermost task comes first."""

    tasks: list[_Task] = field(default_factory=list)
    said: float = field(default_factory=monotonic)
    silent: bool = False
    ends: float = inf

    def tell(self) -> None:
        now = monotonic()
        if now > self.ends:
            raise OutOfTimeError
        if self.silent or now - self.said < EVERY:
            return
        self.said = now
        left = self.tasks[0].left(now)  # of what lies within it more may follow
        words = "; ".join(task.words() for task in self.tasks)
        say(words if left is None else f"{words}; about {max(left, 1.0):,.0f} s left")


_ear: ContextVar[_Ear | None] = ContextVar("_ear", default=None)


@contextmanager
def listening(verbose: Any) -> Iterator[None]:
    """Print what the block reports, where ``verbose`` is true and the block takes long."""
    if not verbose:
        yield
        return
    before = _ear.set(_Ear())
    try:
        yield
    finally:
        _ear.reset(before)


@contextmanager
def until(ends: float) -> Iterator[None]:
    """End the block by `OutOfTimeError` at its first report after ``ends``, as `monotonic` has it.

    What reports nothing is not ended: it may take longer.

    >>> with until(monotonic() - 1.0):
    ...     list(counted([3, 4], "columns"))
    Traceback (most recent call last):
    sklearn_puffer._base.progress.OutOfTimeError
    """
    ear = _ear.get() or _Ear(silent=True)
    before = _ear.set(replace(ear, ends=min(ends, ear.ends)))
    try:
        yield
    finally:
        _ear.reset(before)


@contextmanager
def task(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Report a task, whose block calls what it is given whenever a part of it is done.

    >>> with listening(1), task("couplings", 3) as done:
    ...     done()
    """
    ear = _ear.get()
    if ear is None:
        yield _ignore
        return
    own = _Task(what, total, monotonic())
    ear.tasks.append(own)

    def done() -> None:
        own.done += 1
        ear.tell()

    try:
        ear.tell()
        yield done
    finally:
        ear.tasks.remove(own)


def counted(items: Sequence[T] | Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yield the items, and report each that is done.

    >>> list(counted([3, 4], "columns"))
    [3, 4]
    """
    if total is None and isinstance(items, Sequence):
        total = len(items)
    with task(what, total) as done:
        for item in items:
            yield item
            done()


def noted(words: str) -> None:
    """Say beside the innermost task how far it has come.

    >>> with listening(1), task("rounds"):
    ...     noted("gap so far 3 %")
    """
    ear = _ear.get()
    if ear is not None and ear.tasks:
        ear.tasks[-1].note = words


def say(line: str) -> None:
    """Print one line."""
    sys.stderr.write(f"sklearn_puffer: {line}\n")
    sys.stderr.flush()


def _ignore() -> None:
    pass
