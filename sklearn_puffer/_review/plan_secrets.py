"""The secrets of a plan: numbers in intervals, and without values that hardly occur."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, listed, plain, quoted
from sklearn_puffer._review.measured import Secrets
from sklearn_puffer._tables import (
    MOST_SECRETS,
    Name,
    Table,
    bins_of,
    edges_of,
    frame_table,
    in_intervals,
)

_SCARCE = 20  # rows of a secret, of which some are held out and few are left to fit


def secrets_of(frame: Any, name: Name) -> Secrets:
    """Return the secrets of the rows; of missing ones the code is -1."""
    values = frame_table(frame).values(name)
    data = np.asarray(values.data)
    there = np.ones(len(frame), dtype=bool)
    if values.n_missing:
        there = frame[name].notna().to_numpy()
    codes = np.full(len(frame), -1)
    atoms, codes[there] = np.unique(data[there], return_inverse=True)
    levels = values.levels
    labels = atoms.tolist() if levels is None else [plain(levels[int(c)]) for c in atoms]
    return Secrets(name, labels, codes, [])


def with_intervals(frame: Any, held: Any, sensitive: Any) -> tuple[Any, Any]:
    """Return two tables, the second of which may be None, with intervals for binned secrets."""
    table = frame_table(frame)
    for name, bins in bins_of(sensitive, table.names).items():
        edges = edges_of(name, table.values(name), bins, None)
        frame = _in_intervals(frame, name, edges)
        if held is not None and name in held.columns:
            held = _in_intervals(held, name, edges)
    return frame, held


def _in_intervals(frame: Any, name: Name, edges: tuple[float, ...]) -> Any:
    values = in_intervals(name, frame_table(frame).values(name), edges)
    assert values.levels is not None
    labels = np.array([*values.levels, None], dtype=object)
    changed = frame.copy()
    changed[name] = labels[values.filled(-1)]
    return changed


def rare_secrets(frame: Any, hidden: Sequence[Name]) -> dict[Name, list[Any]]:
    """Return the values that too few rows have, of columns with two others at least."""
    rare = {}
    for name in hidden:
        secret = secrets_of(frame, name)
        counts = np.bincount(secret.codes[secret.codes >= 0], minlength=len(secret.labels))
        few = [label for label, count in zip(secret.labels, counts, strict=True) if count < _SCARCE]
        if few and len(few) + 2 <= len(counts) <= MOST_SECRETS:
            rare[name] = few
    return rare


def rows_without(frame: Any, rare: Mapping[Name, Sequence[Any]]) -> Array:
    """Return which rows of a table have none of those values."""
    kept = np.ones(len(frame), dtype=bool)
    for name, labels in rare.items():
        if name in frame.columns:
            secret = secrets_of(frame, name)
            codes = [code for code, label in enumerate(secret.labels) if label in labels]
            kept &= ~np.isin(secret.codes, codes)
    return kept


def about_secrets(
    sensitive: Any, source: Table, rare: Mapping[Name, Sequence[Any]]
) -> tuple[str, ...]:
    """Return what is to be done about the secrets before a noiser is fitted to all rows."""
    intervals = [
        f"{quoted(name)} is read in intervals here; pass sensitive={{{name!r}: ...}} to a fit, too."
        for name in bins_of(sensitive, source.names)
    ]
    return (
        *intervals,
        *(
            f"rows of {listed(labels, 5)} of {quoted(name)} are left out, as fewer than {_SCARCE} "
            "have it; merge rare values before you fit."
            for name, labels in rare.items()
        ),
    )
