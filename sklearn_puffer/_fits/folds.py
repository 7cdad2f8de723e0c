"""Which rows a model learns from, and which it is asked about."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from sklearn_puffer._base import Array, on_one_line, quoted
from sklearn_puffer._fits.observed import Observed, targets

Fold = tuple[Array, Array]  # rows to fit, and rows to predict


class Dealt(NamedTuple):
    """Rows as they are asked about, and the folds of them."""

    observed: Observed
    folds: list[Fold]


def folds_of(cv: Any, observed: Observed) -> Dealt:
    """Return which rows models are fitted to, and which they speak of.

    Raises
    ------
    ValueError
        If a splitter does not predict every row once, from others, or a secret is not among the
        rows of every model.
    """
    if isinstance(cv, int):
        _check_rare(cv, observed)
        return _in_turn(cv, observed.merged)
    folds = _split(cv, observed)
    for train, _ in folds:
        _check_trained(train, observed)
    return Dealt(observed, folds)


def _in_turn(n_folds: int, merged: Observed) -> Dealt:
    """Deal out all copies of rows over the folds, one after the other, those of a secret together.

    Rows come in the order of a digest of their values, which has nothing to do with what they
    are; equal ones are one after the other, so that each fold has its share of them. What has a
    digest is what is dealt, and no row of the table: their order decides nothing, and a row that
    counts k times is k rows.
    """
    order = np.lexsort((_marks(merged), merged.codes))
    ends = np.empty(len(order), dtype=np.int64)
    ends[order] = np.cumsum(merged.weights[order])
    until = [(ends - k - 1) // n_folds for k in range(n_folds)]
    since = [(ends - merged.weights - k - 1) // n_folds for k in range(n_folds)]
    copies = np.stack(until, axis=1) - np.stack(since, axis=1)
    places, fold = np.nonzero(copies)
    dealt = merged.taken(places, copies[places, fold])
    every = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
    return Dealt(dealt, every)


def _marks(merged: Observed) -> Array:
    """Return a digest of the values of each row."""
    keys = np.ascontiguousarray(merged.rows.keys[merged.firsts], dtype="<i8")
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in keys]
    return np.frombuffer(b"".join(digests), dtype=">u8")[merged.contents]


def _check_rare(n_folds: int, observed: Observed) -> None:
    least = int(np.argmin(observed.tallies))
    if observed.tallies[least] < n_folds:
        raise ValueError(
            f"secret {quoted(observed.labels[least])} of column {observed.name} has "
            f"{observed.tallies[least]} row(s), fewer than the cv={n_folds} folds of its "
            'classifier; merge rare secrets, take a smaller cv, or fit elsewhere (cv="prefit").'
        )


def _check_trained(train: Array, observed: Observed) -> None:
    absent = np.setdiff1d(np.arange(len(observed.labels)), observed.codes[train])
    if absent.size:
        raise ValueError(
            f"secret {quoted(observed.labels[absent[0]])} of column {observed.name} is not among "
            "the rows that one of the cross-fitted classifiers would learn from, as all of its "
            "rows are in one fold; take a splitter that spreads them, merge rare secrets, or fit "
            'elsewhere (cv="prefit").'
        )


def _split(splitter: Any, observed: Observed) -> list[Fold]:
    """Return the folds of a splitter, which is given the rows as they stand in the table."""
    n_rows = len(observed.codes)
    y = targets(observed.labels)[observed.codes]
    try:
        folds = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(observed.rows.frame, y)]
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"cv={on_one_line(splitter)} does not split the rows: {on_one_line(error)}; where it "
            "needs groups, give the fold of each row, "
            "cv=sklearn.model_selection.PredefinedSplit(folds)."
        ) from error
    tested = np.concatenate([test for _, test in folds]) if folds else np.zeros(0, dtype=int)
    once = tested.size == n_rows and np.array_equal(np.sort(tested), np.arange(n_rows))
    if not once or any(np.intersect1d(*fold).size for fold in folds):
        raise ValueError(
            f"cv={on_one_line(splitter)} must put each of the {n_rows} rows to the test once, by a "
            "model that did not see it; take a splitter that does, such as KFold(5, shuffle=True)."
        )
    return folds
