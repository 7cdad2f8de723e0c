"""The rows that prototypes are learnt from, chosen so that the order of a table does not matter.

Rows are known by a digest of their content. Equal rows are one row with a count, and the rows are
in the order of their digests. Where more are distinct than are wanted, they are sampled with
priorities (Duffield, Lund and Thorup 2007): a row of count c has the priority u / c, where u, from
0 to 1, is its digest. Those of the smallest priorities are taken, and stand for max(c, 1 / t) rows
each, t being the smallest priority that is left out. That estimates the size of every set of rows
without bias, and what occurs often is surely taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._tables import LARGEST_DIGEST, Name, Values, row_digests, row_hashes

MOST_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class Sample:
    """Distinct rows of a table.

    Attributes
    ----------
    columns : dict of Values
        By name.
    labels : Values or None
        The y of each row, where there is one; rows of another y are other rows.
    counts : ndarray of int64 of shape (n,)
        How many rows of the table are equal to each.
    weights : ndarray of int64 of shape (n,)
        How many rows of the table each stands for; the counts, if all distinct rows are here.
    fewest : int
        How often the rarest of all distinct rows of the table occurs.
    whole : bool
        Whether all distinct rows are here.
    """

    columns: Mapping[Name, Values]
    labels: Values | None
    counts: IntArray
    weights: IntArray
    fewest: int
    whole: bool

    def __len__(self) -> int:
        return len(self.counts)


def sample_rows(
    columns: Mapping[Name, Values],
    labels: Values | None = None,
    weights: Array | None = None,
    most: int = MOST_ROWS,
) -> Sample:
    """Return at most ``most`` distinct rows, the same whatever the order of the rows.

    Parameters
    ----------
    columns : dict of Values
    labels : Values, optional
        What a model of the released rows is to predict.
    weights : ndarray of int of shape (n_rows,), optional
        How many rows each row stands for.
    most : int, default=50,000

    Examples
    --------
    >>> ages = Values("integer", np.array([30, 20, 30]))
    >>> sample = sample_rows({"age": ages})
    >>> sorted(zip(sample.columns["age"].data.tolist(), sample.counts.tolist()))
    [(20, 1), (30, 2)]
    """
    digests = row_digests(columns)
    if labels is not None:
        digests = row_hashes(digests, row_digests({"y": labels})) & LARGEST_DIGEST
    there = None if weights is None else np.flatnonzero(weights)
    digests = digests if there is None else digests[there]
    distinct, firsts, counts = np.unique(digests, return_index=True, return_counts=True)
    if there is not None and weights is not None:
        # at most 2^53 rows in all: floats hold the sums
        sums = np.bincount(np.searchsorted(distinct, digests), weights[there])
        counts, firsts = sums.astype(np.int64), there[firsts]
    chosen, stood_for = _by_priority(distinct, counts, most)
    rows = firsts[chosen]
    return Sample(
        {name: values.taken(rows) for name, values in columns.items()},
        None if labels is None else labels.taken(rows),
        counts[chosen],
        stood_for,
        int(counts.min()),
        len(chosen) == len(distinct),
    )


def _by_priority(digests: IntArray, counts: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Return which distinct rows are taken, ascending, and how many rows each stands for."""
    if len(digests) <= most:
        return np.arange(len(digests)), counts
    priorities = (digests + 1.0) / (LARGEST_DIGEST + 1.0) / counts
    left_out = np.partition(priorities, most)[most]
    chosen = np.flatnonzero(priorities < left_out)
    # whole numbers, so that sums over rows do not depend on their order
    return chosen, np.maximum(counts[chosen], round(1.0 / float(left_out)))
