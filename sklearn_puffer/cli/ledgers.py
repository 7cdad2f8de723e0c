"""`puffer ledger`: what was released, and what may still be."""

from __future__ import annotations

from typing import Any

from sklearn_puffer import Ledger
from sklearn_puffer.cli.common import fitted
from sklearn_puffer.cli.speech import say, tell


def create(asked: Any) -> int:
    """Start a ledger."""
    ledger = Ledger.create(asked.ledger, fitted(asked.form), datasets=asked.datasets)
    tell(f"wrote {asked.ledger!r}, for {', '.join(map(repr, ledger.datasets))}")
    return 0


def show(asked: Any) -> int:
    """Show all that is on record, and what is left of each dataset."""
    ledger = _opened(asked)
    for entry in ledger.history():
        note = f"  {entry.note}" if entry.note else ""
        say(f"{entry.dataset}: {entry.releases} release(s){note}")
    for name in ledger.datasets:
        say(_left(ledger.left(name)))
    return 0


def left(asked: Any) -> int:
    """Show what may still be released of a dataset."""
    say(_left(_opened(asked).left(asked.dataset)))
    return 0


def spend(asked: Any) -> int:
    """Put releases on record that are made elsewhere."""
    ledger = _opened(asked)
    say(_left(ledger.spend(releases=asked.releases, dataset=asked.dataset, note=asked.note)))
    return 0


def _opened(asked: Any) -> Ledger:
    return Ledger.open(asked.ledger, fitted(asked.form))


def _left(found: Any) -> str:
    return f"{found.dataset}: {found.releases} more release(s) at the noiser's own scales"
