"""From a table to the same table with rows exchanged: what is read, drawn and written."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, digest
from sklearn_puffer._noise import Choices, Entropy, Stream
from sklearn_puffer._noiser.keyed_rows import Keying
from sklearn_puffer._noiser.swap_fit import LEAST_STRATUM, SwapRead, count_cells
from sklearn_puffer._noiser.swap_release import Solved, SwapRelease
from sklearn_puffer._noiser.swap_rows import Points, columns_of
from sklearn_puffer._tables import (
    Finished,
    Name,
    Table,
    beside,
    known_column,
    ranks_of,
    row_digests,
)

MOST_LABELS = 20
"""Distinct labels beside a table, above which they are numbers and no classes."""

LEAST_ROWS = 50
"""Rows of a table, below which there is hardly anybody to swap with."""


def swapped(
    release: SwapRelease,
    table: Table,
    X: Any,
    passed: Sequence[Name],
    order: Sequence[Name],
    entropy: Entropy,
    keying: Keying | None = None,
    context: str = "",
    places: tuple[Array, Array] | None = None,
) -> Any:
    """Return a table in the caller's own type, its public rows exchanged among their owners.

    Of fitted rows ``places`` are known: the stratum and the cell of each.

    Raises
    ------
    UncertifiedError
        If the flows between the cells of this table do not keep the budget.
    TypeError, ValueError
        If the table does not fit, or is too small.
    """
    columns = columns_of(table, [*release.public, *passed])
    check_size(table.n_rows)
    places = release.places(columns) if places is None else places
    found = release.solved(*places)
    release.prove(found)
    choices, ranked = Choices(entropy), None
    if keying is not None:
        keyed = keying.rows(table, X, context)
        digests = row_digests(columns)
        choices, ranked, whole = keyed_choices(keying, context, keyed.ids, places, digests, found)
        keyed.note_together(whole)

    def points(rows: Array) -> Points:
        own = {name: columns[name].taken(rows) for name in release.public}
        return release.distance.points(own)

    gets = release.permutation(places, points, choices, found, ranked)
    public = set(release.public)
    written = {
        name: Finished(table.original(name, gets if name in public else None), passed=True)
        for name in order
    }
    return table.build(written)


def label_codes(y: Any, n_rows: int, X: Any) -> Array | None:
    """Return a number for each label, the same for equal ones; None where they are too many.

    Raises
    ------
    ValueError
        If a label has too few rows to be exchanged among.
    """
    if y is None:
        return None
    [values] = beside(known_column(y, "y"), n_rows, X, "y").values()
    _, codes, counts = np.unique(ranks_of(values), return_inverse=True, return_counts=True)
    if len(counts) > MOST_LABELS:
        return None
    if counts.min() < LEAST_STRATUM:
        raise ValueError(
            f"y has a label with {counts.min()} row(s), and rows are exchanged among those whose "
            f"labels are equal, {LEAST_STRATUM} at least; merge rare labels, or call fit(X) and "
            "transform(X), which promise nothing about labels that are joined later."
        )
    return np.asarray(codes.ravel())


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


def keyed_choices(
    keying: Keying,
    context: str,
    ids: Array,
    places: tuple[Array, Array],
    digests: Array,
    found: Sequence[Solved],
) -> tuple[Choices, Array, str]:
    """Return choices that are a function of key, context, table and flows; the rows in an order.

    The order is that of ids, so that it is the same however the rows came; and another table, in
    any of its rows, or another solution, has other choices. The last is a digest of all of them.
    """
    order = np.lexsort(ids.T)
    flows = [(each.stratum, each.cells, each.flows) for each in found]
    rows = [each[order] for each in (ids, *places, digests)]
    whole = digest("sklearn_puffer.swapped/2", context, *rows, flows)
    return Choices(Stream(hmac.digest(keying.key, whole.encode(), "sha512"))), order, whole


def check_swappable(X: Any) -> None:
    """Refuse a table with too few rows before anything is learnt from it."""
    if hasattr(X, "__len__"):
        check_size(len(X))


def check_size(n_rows: int) -> None:
    if n_rows < LEAST_ROWS:
        raise ValueError(
            f"X has {n_rows} row(s), and a swap needs {LEAST_ROWS} to exchange: fewer have hardly "
            'anybody to swap with; collect more rows, use noise="laplace", which releases them '
            "one by one, or set rows of fit aside for that (noise=RecordSwap(donors=0.3))."
        )


def refuse_stream(noiser: Any) -> None:
    """Refuse to swap a stream, whose last row may be whose the first one was."""
    if noiser._swap is not None:
        raise ValueError(
            "batches are released row by row, and a swap exchanges the rows of a whole table; read "
            "them into one table, or scan them as a lazy one with row_id=, and call transform."
        )
