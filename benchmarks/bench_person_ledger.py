"""The ledger of persons: how long a spend of many takes, how that grows, and how large it is."""

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from _measure import alone

from sklearn_puffer import PersonLedger
from sklearn_puffer._certificates import Precisions


def rows(quick=False):
    """Return how long the persons of a table take: a first spend, a repeat, and a second one."""
    n = 10_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        ledger = _ledger(folder)
        seconds = {name: _spend(ledger, n, number) for name, number in _PERSONS}
        size = ledger.path.stat().st_size / n
        detail = f"CPU; {size:.0f} bytes a person after two releases"
        return [
            alone(f"{n:,} persons on record, {name}", taken, detail, limit=10.0)
            for name, taken in seconds.items()
        ]


_PERSONS = [("first release", 0), ("the same again", 0), ("second release", 1)]


def growth():
    """Return CPU seconds of a first spend, a repeat, and one look at a person, by their number."""
    return [_grown(n) for n in (1_000, 10_000, 100_000, 1_000_000)]


def _grown(n):
    with tempfile.TemporaryDirectory() as folder:
        ledger = _ledger(folder)
        found = {"n": n, "first": _spend(ledger, n, 0), "again": _spend(ledger, n, 0)}
        start = time.process_time()
        for person in range(100):
            ledger.left(person)
        found["left"] = (time.process_time() - start) / 100
        return found | {"bytes": ledger.path.stat().st_size / n}


def _ledger(folder):
    columns = [SimpleNamespace(name="age", theta=1e3)]
    rule = Precisions.of_scales(1, {"age": 1.0})
    about = {"fingerprint": "persons", "holds": True, "groups": None}
    owner = SimpleNamespace(rule=rule, columns=columns, **about)
    return PersonLedger.create(Path(folder) / "persons", owner, key=b"blake2b:" + bytes(32))


def _spend(ledger, n, number):
    """Return the CPU time of one spend, without the release: all ids' marks are made up."""
    persons = np.arange(2 * n, dtype=np.uint64).reshape(n, 2) * np.uint64(0x9E3779B97F4A7C15)
    draws = persons[:, 0] + np.uint64(number)
    noted = SimpleNamespace(persons=persons, forms=draws & np.uint64(0), draws=draws, is_text=False)
    start = time.process_time()
    ledger._spend(noted, ("", number, ""), "raise")
    return time.process_time() - start
