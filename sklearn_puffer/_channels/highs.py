"""The one call of the solver: HiGHS, through scipy; how long it may take, and who waits for it."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from math import inf
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread, current_thread, main_thread
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning, linprog

from sklearn_puffer._base import FloatArray

T = TypeVar("T")

_OUT_OF_TIME = 1  # of scipy's status

_AT_EXIT = 5.0  # seconds that the end of Python waits for threads in the solver

_WAIT = 0.2  # seconds; where signals do not wake a thread that waits, Ctrl-C takes so long


@dataclass(frozen=True)
class Clock:
    """A deadline, in seconds of `monotonic`; or before, when whoever shares it stops it."""

    deadline: float = inf
    stopped: Event = field(default_factory=Event, compare=False)

    @classmethod
    def of(cls, time_limit: float | None) -> Clock:
        """Return the deadline of a time limit that begins now."""
        return cls() if time_limit is None else cls(monotonic() + time_limit)

    def __reduce__(self) -> tuple[Callable[[float | None], Clock], tuple[float | None]]:
        # in another process, maybe of another machine, seconds are counted from elsewhere
        return Clock.of, (self.left,)

    @property
    def left(self) -> float | None:
        """The seconds left, 0 at least; None where there is no deadline."""
        if self.is_over:
            return 0.0
        return None if self.deadline == inf else max(self.deadline - monotonic(), 0.0)

    def part(self, share: float) -> Clock:
        """Return the deadline by which this share of the time left is over."""
        if self.left is None:
            return self
        return Clock(monotonic() + share * self.left, self.stopped)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.stopped.is_set() or monotonic() >= self.deadline

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Stop whoever shares it, in other threads, where the block is left by an error."""
        try:
            yield
        except BaseException:
            self.stopped.set()
            raise


def solved(
    objective: FloatArray,
    *,
    most: tuple[Any, FloatArray] | None = None,
    equal: tuple[Any, FloatArray],
    interior: bool = False,
    time_limit: float | None = None,
) -> OptimizeResult | None:
    """Minimise over variables of 0 or more; where an interior point fails, ask the simplex method.

    ``most`` and ``equal`` are pairs of matrix and right-hand side. None where nothing came back.
    """
    options: dict[str, object] = {"time_limit": time_limit}
    if interior:
        options |= {"run_crossover": "off"}  # HiGHS knows it, and scipy hands it on with a warning
    method = "highs-ipm" if interior else "highs-ds"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        result = asked(objective, most or (None, None), equal, method, options)
    if result.x is None and interior and result.status != _OUT_OF_TIME:
        return solved(objective, most=most, equal=equal, time_limit=time_limit)
    return None if result.x is None else result


def asked(
    objective: FloatArray,
    most: tuple[Any, Any],
    equal: tuple[Any, Any],
    method: str,
    options: dict[str, object],
) -> OptimizeResult:
    """Ask scipy; Ctrl-C need not wait for the answer.

    HiGHS cannot be stopped through scipy: what it does not end in time, it ends for nobody.
    """
    known = {name: value for name, value in options.items() if value is not None}
    given = np.asarray(objective)
    solver: Any = linprog  # whose types know no sparse arrays

    def call() -> OptimizeResult:
        with calls.one_more():
            result: OptimizeResult = solver(given, *most, *equal, method=method, options=known)
        return result

    return aside(call)


class Calls:
    """How many calls of the solver are at work."""

    def __init__(self) -> None:
        self._changed, self._count = Condition(), 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Count a call while the block runs."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def _add(self, change: int) -> None:
        with self._changed:
            self._count += change
            self._changed.notify_all()

    def wait(self, seconds: float = _AT_EXIT) -> bool:
        """Wait until none is at work, for some seconds at most; return whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)


calls = Calls()
atexit.register(
    calls.wait
)  # Python that ends around threads in the solver is aborted by the system


def aside(call: Callable[[], T]) -> T:
    """Return what a call returns, made where an interrupt of the main thread does not wait for it.

    >>> aside(lambda: 2 + 3)
    5
    """
    if current_thread() is not main_thread():
        return call()
    answers: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
    context = copy_context()
    Thread(target=lambda: answers.put(context.run(_outcome, call)), daemon=True).start()
    while True:
        try:
            returned, value = answers.get(timeout=_WAIT)
        except Empty:
            continue
        if returned:
            found: T = value
            return found
        raise value


def _outcome(call: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return True, call()
    except BaseException as error:  # raised again by whoever waits
        return False, error
