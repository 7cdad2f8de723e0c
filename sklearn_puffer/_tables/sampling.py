"""A part of the rows of a table that depends on what they hold, and never on their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sklearn_puffer._base import Array
from sklearn_puffer._tables.values import Values

_ODD = np.uint64(0x9E3779B97F4A7C15)


def canonical_rows(columns: Sequence[Values], secrets: Sequence[Values], n_rows: int) -> Array:
    """Return about so many positions of rows, of each value of the secrets its share, one at least.

    Rows come in the order of a digest of what stands in the columns, copies of a row apart from
    each other; it has nothing to do with what they are. Any order of the table gives equal rows.
    """
    strata = _marks(secrets)
    marks = _apart(_marks([*columns, *secrets]))
    order = np.lexsort((marks, strata))
    _, starts, counts = np.unique(strata[order], return_index=True, return_counts=True)
    share = min(1.0, n_rows / len(marks))
    kept = [
        order[start : start + int(np.ceil(count * share))]
        for start, count in zip(starts, counts, strict=True)
    ]
    return np.sort(np.concatenate(kept))


def _marks(columns: Sequence[Values]) -> Array:
    """Return a digest of each row."""
    marks = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        numbers = np.asarray(column.data, dtype=np.float64) + 0.0  # -0.0 is 0.0
        if column.missing is not None:
            numbers = np.where(column.missing, np.nan, numbers)
        numbers = np.where(np.isnan(numbers), np.nan, numbers)  # whose bits are no longer its own
        marks = pd.util.hash_array(marks * _ODD + pd.util.hash_array(numbers))
    return marks


def _apart(marks: Array) -> Array:
    """Return digests of rows of which no two copies have the same."""
    order = np.argsort(marks, kind="stable")
    ranked = marks[order]
    places = np.arange(len(marks))
    starts = np.maximum.accumulate(np.where(np.r_[True, ranked[1:] != ranked[:-1]], places, 0))
    copies = np.empty(len(marks), dtype=np.uint64)
    copies[order] = (places - starts).astype(np.uint64)
    return pd.util.hash_array(marks + copies * _ODD)
