"""The ledger: how long a check takes, and how that grows with what is on record."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from _measure import alone

from sklearn_puffer import Ledger
from sklearn_puffer._certificates import Precisions
from sklearn_puffer._ledgers.ledger import Entry

BATCHES = 20


def rows(quick=False):
    n = 400 if quick else 20_000
    with tempfile.TemporaryDirectory() as folder:
        ledger = _ledger(folder, "laplace", _precisions(1))
        near = _ledger(folder, "gaussian", _precisions(2), spent=999)
        return [
            _checks("Laplace", ledger, n),
            _checks("Gaussian, nearly spent", near, n),
            _spend(ledger, 5 if quick else 200),
        ]


def growth():
    """Return seconds for a file with n entries: to check, and to spend."""
    return [_grown(n) for n in (1, 10, 100, 1_000, 10_000)]


def _grown(n):
    with tempfile.TemporaryDirectory() as folder:
        ledger = _ledger(folder, "long", _precisions(1))
        _fill(ledger, n)
        return {
            "n": n,
            "check": _median(ledger.left, 5),
            "spend": _median(lambda: ledger.spend(), 5),
        }


def _checks(name, ledger, n):
    seconds = n * _seconds_a_check(ledger, n)
    return alone(
        f"{n:,} ledger checks, {name}",
        seconds,
        f"{seconds / n * 1e6:.3g} us of CPU each, in which the file is opened, read and closed",
        limit=30.0,
    )


def _seconds_a_check(ledger, n):
    """Return the median CPU time over batches: no check waits, but others may hold the machine."""
    size, taken = n // BATCHES, []
    for _ in range(BATCHES):
        start = time.process_time()
        for _ in range(size):
            ledger.left()
        taken.append((time.process_time() - start) / size)
    return median(taken)


def _spend(ledger, repeats):
    seconds = _median(lambda: ledger.spend(), repeats)
    return alone("one spend, on the disk when it returns", seconds, "mostly the disk's own time")


def _precisions(power):
    return Precisions.of_scales(power, {"age": 1.0, "pay": 1.0})


def _ledger(folder, name, rule, spent=7, theta=1e3):
    """Return a ledger of about a thousand planned releases, some of which were made."""
    theta = theta ** (1.0 / rule.power)
    columns = [SimpleNamespace(name=axis, theta=theta) for axis in rule.axes]
    owner = SimpleNamespace(rule=rule, fingerprint=name, holds=True, columns=columns)
    ledger = Ledger.create(Path(folder) / name, owner)
    ledger.spend(releases=min(spent, int(ledger.left().releases)))
    return ledger


def _fill(ledger, n):
    """Put n entries on record by one write: spends one after the other would take n^2."""
    entries = tuple(Entry("data", 1, f"note {k}") for k in range(n))

    def record(sheet):
        sheet.write(replace(ledger._state(sheet), entries=entries).to_record())

    ledger._change(record)


def _median(call, repeats):
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return median(taken)
