"""Labels beside a table that is swapped: they stay with their owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._noiser.swap_fit import LEAST_STRATUM, SwapRead, count_cells
from sklearn_puffer._noiser.swap_release import SwapRelease, check_size
from sklearn_puffer._noiser.swap_rows import WideRows
from sklearn_puffer._tables import beside, known_column, ranks_of

MOST_LABELS = 20
"""Distinct labels beside a table, above which they are numbers and no classes."""


def label_codes(y: Any, n_rows: int, X: Any, wide: WideRows | None = None) -> Array | None:
    """Return a number for each label, the same for equal ones; None where they are too many.

    Of wide rows it is one for all labels of a group, in their order.

    Raises
    ------
    ValueError
        If a label has too few rows to be exchanged among.
    """
    if y is None:
        return None
    [values] = beside(known_column(y, "y"), n_rows, X, "y").values()
    codes = np.unique(ranks_of(values), return_inverse=True)[1].ravel()
    if codes.max() >= MOST_LABELS:
        return None
    if wide is not None:
        of_groups = np.where(wide.places >= 0, codes[wide.places], -1)
        codes = np.unique(of_groups, axis=0, return_inverse=True)[1].ravel()
    counts, what = np.bincount(codes), "row" if wide is None else "group"
    if counts.min() < LEAST_STRATUM:
        raise ValueError(
            f"y has a label with {counts.min()} {what}(s), and {what}s are exchanged among those "
            f"whose labels are equal, {LEAST_STRATUM} at least; merge rare labels, or call fit(X) "
            "and transform(X), which promise nothing about labels that are joined later."
        )
    return np.asarray(codes)


def beside_labels(
    release: SwapRelease, read: SwapRead, labels: Array | None
) -> tuple[SwapRelease, tuple[Array, Array]]:
    """Return the release of fitted rows within labels that stay with their owners, and its places.

    A label tells something of the secret besides the row, so cells are those of both, and their
    secrets are counted: of these very rows.
    """
    strata, cells = release.places(read.columns)
    if labels is None:
        return release, (strata, cells)
    n_labels = int(labels.max()) + 1
    strata, cells = strata * n_labels + labels, cells * n_labels + labels
    costs = np.repeat(np.repeat(release.costs, n_labels, axis=0), n_labels, axis=1)
    counted = count_cells(read, len(costs), cells, 0.95)
    return replace(release, costs=costs, counted=counted), (strata, cells)


def check_swappable(X: Any) -> None:
    """Refuse a table with too few rows before anything is learnt from it."""
    if hasattr(X, "__len__"):
        check_size(len(X))
