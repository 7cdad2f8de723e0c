"""The one call of the solver: HiGHS, through scipy; and who waits for it."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Condition, Thread, current_thread, main_thread
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning, linprog

from sklearn_puffer._base.types import FloatArray

T = TypeVar("T")

_AT_EXIT = 5.0  # seconds that the end of Python waits for threads in the solver

_WAIT = 0.2  # seconds; where signals do not wake a thread that waits, Ctrl-C takes so long


def solved(
    objective: FloatArray,
    *,
    most: tuple[Any, FloatArray] | None = None,
    equal: tuple[Any, FloatArray],
    interior: bool = False,
) -> OptimizeResult | None:
    """Minimise over variables of 0 or more; where an interior point fails, ask the simplex method.

    ``most`` and ``equal`` are pairs of matrix and right-hand side. None where nothing came back.
    """
    # HiGHS knows it, and scipy hands it on with a warning
    options: dict[str, object] = {"run_crossover": "off"} if interior else {}
    method = "highs-ipm" if interior else "highs-ds"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        result = asked(objective, most or (None, None), equal, method, options)
    if result.x is None and interior:
        return solved(objective, most=most, equal=equal)
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
    given = np.asarray(objective)
    solver: Any = linprog  # whose types know no sparse arrays

    def call() -> OptimizeResult:
        with calls.one_more():
            result: OptimizeResult = solver(given, *most, *equal, method=method, options=options)
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
