"""A ledger of whole tables, as a page: what is left of each data set, and what was spent last."""

from __future__ import annotations

from pathlib import Path

from sklearn_puffer._base import Page, Section, shown
from sklearn_puffer._releases.ledger_state import State

_SHOWN = 10  # entries


def ledger_page(state: State, path: Path) -> Page:
    """Return what a ledger holds, for people."""
    n = sum(entry.releases for entry in state.entries)
    sections = [
        Section("Left", "releases at the noiser's own scales", _left_cells(state)),
        Section(f"Last {_SHOWN} entries", "equal releases are one entry", _entry_cells(state)),
    ]
    lines = [f"{n:,} release(s) of {len(state.datasets):,} data set(s) are on record."]
    return Page(f"Ledger {shown(str(path))}", lines, sections)


def _left_cells(state: State) -> list[list[str]]:
    left = [[shown(name), str(state.left(name).releases)] for name in state.datasets]
    return [["data set", "releases left"], *left]


def _entry_cells(state: State) -> list[list[str]]:
    head = ["data set", "releases", "scales", "note"]
    cells = [
        [
            shown(entry.dataset),
            str(entry.releases),
            ", ".join(f"{shown(axis)} {scale:.4g}" for axis, scale in entry.scales.items()),
            shown(entry.note) if entry.note else "",
        ]
        for entry in state.entries[-_SHOWN:]
    ]
    return [head, *cells]
