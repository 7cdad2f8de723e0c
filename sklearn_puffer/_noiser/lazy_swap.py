"""A swap of a lazy table: learnt from a sample, counted by the engine, released as its plan.

Memory holds a few numbers for each row, and the public values of the rows that leave their cell.
The permutation is a function of the key and the table, drawn by the code that swaps tables in
memory when the plan is made. So it does not depend on how, in which parts and how often an engine
computes the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, IntArray, listed
from sklearn_puffer._noise import KeyedBits, ShippedKey
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import SwapFit, SwapRead, find_swap, read_rows, recounted
from sklearn_puffer._noiser.swap_release import SwapRelease, keyed_choices, swap_of
from sklearn_puffer._noiser.swap_release import check_size as check_swappable
from sklearn_puffer._noiser.swap_rows import Columns, Points, ValueCells, columns_of
from sklearn_puffer._release import (
    CHANGED_SINCE,
    CountedTable,
    FitRows,
    FittedMechanism,
    KeyedPart,
    Keying,
    LazyRows,
    check_ids,
    check_size,
    distinct_rows,
    read_lazily,
    refuse_bins,
)
from sklearn_puffer._release import sentences as say
from sklearn_puffer._tables import (
    CHANGED,
    LARGEST_DIGEST,
    LazyTable,
    Name,
    Secret,
    Table,
    frame_table,
    learn_secret,
    opened,
    plans,
    public_columns,
    read_secret,
    row_digests,
    row_hashes,
    smallest,
)

MOST_LEARNT = 1 << 17
"""Distinct rows that a classifier and cells are learnt from; of others only secrets are counted."""

_SPARE = 64  # rows, so that the first limit is rarely too low
_RAISED = 16
_ROUNDS = 24  # enough for any table whose rows can be fetched
_NUMBERS = ("first", "second", "stratum", "cell", "digest")


# ---------------------------------------------------------------------------------------- learning


def find_lazily(settings: Settings, given: FitRows, table: LazyTable) -> SwapFit:
    """Learn cells from rows of a lazy table, and have the engine count the secrets of all of them.

    It learns from the rows whose public values have the smallest digests, with all their copies:
    from the same rows on every engine, whatever their secrets.

    Raises
    ------
    TypeError, ValueError
        If columns do not fit, or a secret has no row among those that are learnt from.
    """
    hidden = given.hidden()
    refuse_bins(given)
    public = public_columns(settings.columns.public, table.names, hidden)
    passing = settings.columns.remainder == "passthrough"
    passed = [n for n in table.names if passing and n not in {*public, *hidden}]
    for name in (*hidden, *public, *passed):
        table.check_type(name)
    n_rows = table.n_rows if table.weight is None else table.check_weights()
    check_size(n_rows, 2, "row")
    rows, everything = _sampled(table, [*hidden, *passed], public, n_rows)
    whole = read_rows(settings, given, rows)
    kept = smallest(whole.digests, MOST_LEARNT)
    if everything and kept.all():
        return find_swap(whole)
    assert rows.weights is not None
    read = read_rows(settings, given, CountedTable(rows.table, rows.weights * kept))
    secrets = [learn_secret(name, table.values(name), settings.columns.missing) for name in hidden]
    _check_none_lost(secrets, read, table)
    swap = find_swap(read)
    if isinstance(swap.release.cells, ValueCells):
        raise ValueError(
            f'cells="values" makes a cell of every row, and X has more than {MOST_LEARNT:,} '
            "different ones; leave cells out, or give their number."
        )
    return recounted(swap, *_counted(table, secrets, swap.release))


def _sampled(
    table: LazyTable, secrets: Sequence[Name], public: Sequence[Name], n_rows: int
) -> tuple[CountedTable, bool]:
    """Return the rows whose public values have the smallest digests, and whether these are all.

    They have more than `MOST_LEARNT` different public values, if there are so many, so that the
    limit does not matter. It takes one query, or a few where values repeat.
    """
    names, low, high = [*secrets, *public], 0, LARGEST_DIGEST
    limit = min(high, high * (2 * MOST_LEARNT + _SPARE) // n_rows)
    for _ in range(_ROUNDS):
        part = table if limit == LARGEST_DIGEST else _below(table, names, public, limit)
        if not part.count(names):
            high, limit = limit, (low + limit) // 2
            continue
        rows = distinct_rows(part, names)
        digests = row_digests({name: rows.table.values(name) for name in public})
        whole = limit == LARGEST_DIGEST
        if whole or len(np.unique(digests)) > MOST_LEARNT:
            return rows, whole
        low = limit
        limit = min(high, _RAISED * limit) if high == LARGEST_DIGEST else (low + high) // 2
    raise ValueError(say.too_many_rows_sentence(names, 'noise="swap" is'))


def _below(
    table: LazyTable, names: Sequence[Name], public: Sequence[Name], limit: int
) -> LazyTable:
    """Return the lazy table of the rows whose digests are at most the limit."""
    sent = [str(name) for name in (*names, *([table.weight] if table.weight else []))]
    digest = plans.free_name(sent, "digest")
    task = _Task(_add_digests, [str(name) for name in public], digest)
    return _with_numbers(table, sent, task).where(digest, limit)


def _with_numbers(table: LazyTable, sent: Sequence[str], task: Any) -> LazyTable:
    """Return the lazy table that a task makes of some columns of another one."""
    numbered = opened(plans.planned(table.native, sent, task))
    return replace(numbered, levels=table.levels, weight=table.weight)


def _check_none_lost(secrets: Sequence[Secret], read: SwapRead, table: LazyTable) -> None:
    """Refuse a secret that none of the rows has that are learnt from."""
    rows = LazyRows(table)
    for whole, secret in zip(secrets, read.secrets, strict=True):
        lost = [label for label in whole.labels if label not in secret.labels]
        if lost:
            count = sum(int(rows.tally(whole)[whole.find(label)]) for label in lost)
            raise ValueError(
                f"none of the {count} row(s) with {listed(lost, 10)} in column {whole.name!r} are "
                f"among the {MOST_LEARNT:,} different ones that a swap of a lazy table learns "
                "from; merge rare values of the column, or fit on rows in memory."
            )


def _counted(
    table: LazyTable, secrets: Sequence[Secret], release: SwapRelease
) -> tuple[dict[Name, Array], Array, Array, IntArray]:
    """Return the secrets, strata and cells of all rows, in groups with counts; one query."""
    names = [str(secret.name) for secret in secrets]
    sent = list(dict.fromkeys([*names, *map(str, release.seen)]))
    sent += [] if table.weight is None else [table.weight]
    added = [plans.free_name(sent, kind) for kind in ("stratum", "cell")]
    placed = _with_numbers(table, sent, _Task(_add_cells, release, added))
    are_few = placed.count([*names, *added])
    assert are_few  # secrets, strata and cells are few
    columns, counts = placed.rows([*names, *added])
    codes = {}
    for secret, name in zip(secrets, names, strict=True):
        now = read_secret(secret.name, columns[name], "category")
        if int(counts.sum()) != table.n_rows or now.labels != secret.labels:
            raise ValueError(CHANGED)
        codes[secret.name] = now.codes(len(counts))
    strata, cells = (columns[name].data.astype(np.intp) for name in added)
    return codes, strata, cells, counts


class _Task(partial[Any]):
    """A function that an engine calls with each part; plans and logs do not show its arguments."""

    def __repr__(self) -> str:
        return f"{self.func.__name__}()"


def _add_digests(public: Sequence[str], name: str, part: Any) -> Any:
    """Return a part of the table with a column of digests."""
    table = frame_table(part)
    digests = row_digests({name: table.values(name) for name in public})
    return plans.with_numbers(part, {name: digests})


def _add_cells(release: SwapRelease, names: Sequence[str], part: Any) -> Any:
    """Return a part of the table with the stratum and the cell of each row."""
    numbers = _strata_and_cells(release, frame_table(part))[1]
    return plans.with_numbers(part, dict(zip(names, numbers, strict=True)))


def _strata_and_cells(release: SwapRelease, table: Table) -> tuple[Columns, tuple[Array, Array]]:
    """Return the columns of a part, and the stratum and the cell of each row."""
    columns = columns_of(table, release.seen)
    if not table.n_rows:  # models predict nothing of no rows
        return columns, (np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp))
    return columns, release.assigned(columns)


# --------------------------------------------------------------------------------------- releasing


def plan_swap(fitted: FittedMechanism, X: Any, keying: Keying) -> Any:
    """Return a lazy table with its public rows exchanged among their owners, as a lazy table.

    The permutation is drawn here, with three queries: for the number of ids, for numbers of each
    row, and for the public values of the rows that leave.

    Raises
    ------
    UncertifiedError
        If the flows between the cells of this table do not keep the budget.
    TypeError, ValueError
        If the table does not fit, is too small, or ids are missing or not unique.
    """
    swap = swap_of(fitted)
    assert swap is not None
    if swap.distance.cost is not None:
        raise ValueError(
            "cost= is a function of codes of values, and parts of a lazy table have other codes; "
            "leave cost out of RecordSwap, or release the rows in memory."
        )
    names, keyed = read_lazily(fitted, X, keying)
    kinds = {str(column.name): column.kind for column in swap.released_columns}
    plans.check_lazy_kinds(X, kinds)
    check_ids(X, keyed[2])
    ids, strata_and_cells, digests = _fetched(X, names, _Scored(swap, *keyed))
    check_swappable(len(ids))
    pseudonyms = _pseudonyms(ids, digests)
    ranked = np.argsort(pseudonyms)
    if (np.diff(pseudonyms[ranked]) == 0).any():
        raise ValueError(CHANGED_SINCE)
    flows = swap.solved(*strata_and_cells)
    swap.prove(flows)
    choices, order, _ = keyed_choices(keying.key, keyed[1], ids, strata_and_cells, digests, flows)
    leavers = _Leavers(X, names, swap, keyed, pseudonyms)
    gets = swap.permutation(strata_and_cells, leavers.points, choices, flows, order)
    del strata_and_cells, digests, ids
    rows, sources = leavers.sources(gets)
    task = _Exchanged(swap, fitted.rules.order, pseudonyms[ranked], sources[ranked], rows, *keyed)
    return plans.planned(X, names, task)


def _fetched(X: Any, names: Sequence[str], task: _Scored) -> tuple[Array, Any, Array]:
    """Return the ids, the strata and cells, and the digests of all rows."""
    table = frame_table(plans.rows_with(plans.planned(X, names, task), _NUMBERS[-1]))
    numbers = (table.values(name).data.astype(np.int64) for name in _NUMBERS)
    first, second, *strata_and_cells, digests = numbers
    ids = np.stack([first.view(np.uint64), second.view(np.uint64)], axis=1)
    return ids, tuple(strata_and_cells), digests


def _pseudonyms(ids: Array, digests: Array) -> IntArray:
    """Return 64 bits for each row, by which it is found again."""
    return row_hashes(ids[:, 0], ids[:, 1], digests)


@dataclass
class _Leavers:
    """The rows that leave their cells, fetched once they are drawn.

    Attributes
    ----------
    X : lazy table
    names : list of str
    swap : SwapRelease
    keyed : tuple
        The arguments of a `KeyedPart`.
    pseudonyms : ndarray of int64 of shape (n_rows,)
    """

    X: Any
    names: list[str]
    swap: SwapRelease
    keyed: tuple[ShippedKey, str, str, plans.Text]
    pseudonyms: IntArray
    _leaving: Array | None = None
    _rows: Any = None

    def points(self, leaving: Array) -> Points:
        """Return the rows as points."""
        rows = columns_of(frame_table(self.fetch(leaving)), self.swap.public)
        return self.swap.distance.points(rows)

    def fetch(self, leaving: Array) -> Any:
        """Return the public columns of the rows, in this order."""
        order = np.argsort(self.pseudonyms[leaving])
        name = plans.free_name(self.names, "place")
        task = _Leaving(self.swap, name, self.pseudonyms[leaving][order], *self.keyed)
        frame = plans.rows_with(plans.planned(self.X, self.names, task), name)
        position = frame_table(frame).values(name).data.astype(np.intp)
        if not np.array_equal(np.sort(position), np.arange(len(leaving))):
            raise ValueError(CHANGED_SINCE)
        indices = np.empty(len(leaving), dtype=np.intp)
        indices[order[position]] = np.arange(len(position))
        self._leaving, self._rows = leaving, plans.chosen(frame, self.swap.public, indices)
        return self._rows

    def sources(self, gets: Array) -> tuple[Any, Array]:
        """Return the rows that move, and the index of the one that each owner gets, or -1."""
        leaving = np.flatnonzero(gets != np.arange(len(gets)))
        if self._leaving is None or not np.array_equal(leaving, self._leaving):
            self.fetch(leaving)
        sources = np.full(len(gets), -1, dtype=np.int64)
        sources[leaving] = np.searchsorted(leaving, gets[leaving])
        return self._rows, sources


class _SwapPart(KeyedPart):
    """A task that computes a part of a swapped table."""

    way_out = "leave out what is infinite, and values of known= and passed columns new to fit"

    def __init__(self, swap: SwapRelease, *keyed: Any) -> None:
        super().__init__(*keyed)
        self._swap = swap

    def at_fault(self, part: Any) -> list[Name]:
        """Return the columns whose values cannot be read."""
        table, unreadable = frame_table(part), []
        for name in self._swap.seen:
            try:
                columns_of(table, [name])
            except Exception:
                unreadable.append(name)
        return unreadable

    def pseudonyms(self, part: Any, bits: KeyedBits) -> IntArray:
        """Return the pseudonyms of the rows."""
        table = frame_table(part)
        return _pseudonyms(
            self.keyed(table, bits).ids, row_digests(columns_of(table, self._swap.seen))
        )


class _Scored(_SwapPart):
    """A task that finds the stratum and the cell of each row."""

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the id, the stratum, the cell and the digest of each row."""
        table = frame_table(part)
        ids = self.keyed(table, bits).ids.astype(np.uint64).view(np.int64).reshape(-1, 2)
        columns, strata_and_cells = _strata_and_cells(self._swap, table)
        numbers = [*ids.T, *strata_and_cells, row_digests(columns)]
        with_all = plans.with_numbers(part, dict(zip(_NUMBERS, numbers, strict=True)))
        return plans.chosen(with_all, _NUMBERS)


class _Leaving(_SwapPart):
    """A task that fetches the rows that leave their cells."""

    def __init__(self, swap: SwapRelease, name: str, leaving: IntArray, *keyed: Any) -> None:
        super().__init__(swap, *keyed)
        self._name, self._leaving = name, leaving

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the public columns, and the index of each row among those that leave, or -1."""
        indices = _indices_in(self._leaving, self.pseudonyms(part, bits))
        return plans.with_numbers(plans.chosen(part, self._swap.public), {self._name: indices})


class _Exchanged(_SwapPart):
    """A task that exchanges rows: each owner keeps a row, or gets one of those that left."""

    def __init__(
        self,
        swap: SwapRelease,
        order: Sequence[Name],
        pseudonyms: IntArray,
        sources: IntArray,
        rows: Any,
        *keyed: Any,
    ) -> None:
        super().__init__(swap, *keyed)
        self._order, self._pseudonyms, self._sources, self._rows = order, pseudonyms, sources, rows

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the released rows of a part; refuse rows that were not counted."""
        indices = _indices_in(self._pseudonyms, self.pseudonyms(part, bits))
        if (indices < 0).any():
            raise ValueError(CHANGED_SINCE)
        kept = plans.chosen(part, self._swap.public)
        received = frame_table(plans.replaced(kept, self._rows, self._sources[indices]))
        return self._swap.written(frame_table(part), self._order, received.original)


def _indices_in(ascending: IntArray, pseudonyms: IntArray) -> IntArray:
    """Return the index of each pseudonym among ascending ones, or -1."""
    if not len(ascending):
        return np.full(len(pseudonyms), -1)
    indices = np.minimum(np.searchsorted(ascending, pseudonyms), len(ascending) - 1)
    return np.where(ascending[indices] == pseudonyms, indices, -1)
