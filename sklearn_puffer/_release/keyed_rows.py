"""Keyed noise, a function of ids, key and context, and the marks that stay of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import IntArray, check_count
from sklearn_puffer._codes import resolve
from sklearn_puffer._engines import row_ids
from sklearn_puffer._noise import (
    KeyedBits,
    PersonPseudonyms,
    RowWords,
    fresh_key,
    integer_ids,
    read_key,
)
from sklearn_puffer._tables import Name, Table, Values, beside
from sklearn_puffer._words import quoted

Pseudonyms = NDArray[np.uint64]
"""Of persons: 128 bits each, in an array of shape (n, 2)."""


class Noted:
    """What a ledger of persons keeps of the rows of a release, filled block by block.

    The ledger makes it, and hands it to `transform` as ``row_id``. ``persons`` has the pseudonyms
    of ids, of shape (n, 2); ``forms`` and ``draws`` those of a row's values and of its noise.
    """

    persons: Pseudonyms
    forms: NDArray[np.uint64]
    draws: NDArray[np.uint64]
    is_text = False  # whether ids are strings
    together = False  # whether all rows are one release, so that no row can be left out

    def __init__(self, row_id: Any, marks: PersonPseudonyms, whole: bool) -> None:
        self.row_id, self._marks = row_id, marks
        self._whole = whole  # whether rows differ by all values, or only by those that are shown

    def begin(self, ids: NDArray[np.uint64], is_text: bool) -> None:
        """Make room for rows with these ids, of shape (n, 2)."""
        self._ids, self.is_text = ids, is_text
        self.persons = self._marks.persons(ids)
        self.forms, self.draws = (np.empty(len(ids), dtype=np.uint64) for _ in range(2))

    def ids_of(self, values: Values, name: Name) -> None:
        """Make room for rows with the ids of a column."""
        levels = values.levels
        is_text = levels is not None and all(isinstance(level, str) for level in levels)
        self.begin(_id_blocks(values, name, self._marks), is_text)

    def take(
        self, rows: slice, placed: Sequence[IntArray], seen: Sequence[IntArray], words: RowWords
    ) -> None:
        """Note a block of rows."""
        shown = [*seen, *placed] if self._whole else seen
        self.forms[rows] = self._marks.rows(self._ids[rows], shown)
        self.draws[rows] = self._marks.draws(words.tags)


class KeyedRows:
    """The bits of each row of a table, and the 128 bits of each id.

    A swap, which draws for all rows together, uses ``key`` and ``context``.
    """

    def __init__(
        self, bits: KeyedBits, ids: NDArray[np.uint64], noted: Noted | None = None
    ) -> None:
        self._bits, self.ids, self.noted = bits, ids, noted
        self.key, self.context = b"", ""

    def columns(
        self, rows: slice, placed: Sequence[IntArray], seen: Sequence[IntArray] = ()
    ) -> list[RowWords]:
        """Return the bits of each column of ``rows``, given all values that noise is drawn for.

        ``seen`` is the part of these that every release shows.
        """
        bits = self._bits.columns(self.ids[rows], placed)
        if self.noted is not None:
            self.noted.take(rows, placed, seen, bits[0])
        return bits

    def note_together(self, whole: str) -> None:
        """Note all rows as one release, of a table with this digest."""
        if self.noted is not None:
            self.noted.together = True
            table_digest = np.full(len(self.ids), int(whole[:15], 16), dtype=np.int64)
            self.columns(slice(None), [table_digest])


@dataclass(frozen=True)
class Keying:
    """The key and the ids of a call to `transform` with keyed noise; the key also as given."""

    row_id: Any
    key: bytes = field(repr=False)
    dataset: str
    release: int
    given: Any = field(repr=False, default=None)
    noted: Noted | None = None

    def rows(self, table: Table, X: Any, context: str) -> KeyedRows:
        """Return the bits of the rows of X, whose ids must be present and unique."""
        rows = keyed_rows(KeyedBits(self.key, context), table, self.row_id, X, self.noted)
        rows.key, rows.context = self.key, context
        return rows


def keyed_rows(
    bits: KeyedBits,
    table: Table,
    row_id: Any,
    X: Any = None,
    noted: Noted | None = None,
    text: row_ids.Text = None,
) -> KeyedRows:
    """Return the bits of the rows of a table, by ids in it (perhaps as text) or beside X."""
    if isinstance(row_id, str | int | np.integer):
        name = resolve(row_id, table.names, "row_id")[0]
        values = row_ids.read_ids(table, name, text)
    else:
        columns = beside(row_id, table.n_rows, X, "row_id", row_ids.read_ids)
        if len(columns) != 1:
            raise ValueError(f"row_id has {len(columns)} columns; give one id for each row.")
        [(name, values)] = columns.items()
    ids = _id_blocks(values, name, bits)
    if noted is not None:
        noted.ids_of(values, name)
    return KeyedRows(bits, ids, noted)


def check_keying(
    row_id: Any, key: Any, dataset: Any, release: Any, random_state: Any
) -> Keying | None:
    """Return how noise is keyed, or None for fresh noise."""
    if not isinstance(dataset, str):
        raise TypeError(f"dataset must be a str, got {quoted(dataset)}; name the table by it.")
    number = check_count(release, "release", minimum=0)
    if row_id is None:
        is_given = {"key": key is not None, "dataset": dataset != "", "release": number != 0}
        for name in (name for name in is_given if is_given[name]):
            raise ValueError(
                f"{name} is given without row_id, and keyed noise is drawn for an id: by its "
                "values alone equal rows would have equal noise, and frequencies undo that; name "
                "the column of ids with row_id=."
            )
        return None
    if random_state is not None:
        raise ValueError(
            f"random_state={quoted(random_state)} and row_id= are both given, and keyed noise has "
            "no seed; set random_state=None, and pass key= for noise that can be repeated."
        )
    noted = row_id if isinstance(row_id, Noted) else None
    ids = row_id if noted is None else noted.row_id
    material = fresh_key() if key is None else read_key(key)
    return Keying(ids, material, dataset, number, key, noted)


def _id_blocks(
    values: Values, name: Name, bits: KeyedBits | PersonPseudonyms
) -> NDArray[np.uint64]:
    """Return 128 bits for each id; ids must be present and unique."""
    check_present(0 if values.missing is None else int(values.missing.sum()), len(values), name)
    if values.levels is None:
        ascending = np.sort(values.data)  # np.unique takes ten times as long
        check_unlike(1 + int((ascending[1:] != ascending[:-1]).sum()), len(values), name)
        return integer_ids(values.data)
    used = np.bincount(values.data, minlength=1)
    check_unlike(int(np.count_nonzero(used)), len(values), name)
    is_text = np.array([isinstance(level, str) for level in values.levels], dtype=bool)
    levels = np.array([*values.levels, None], dtype=object)[:-1]
    words = np.empty((len(levels), 2), dtype=np.uint64)
    words[is_text] = bits.ids_of(levels[is_text].tolist())
    words[~is_text] = integer_ids(levels[~is_text])
    return words[values.data]


def check_present(n_absent: int, n_rows: int, name: Name) -> None:
    """Refuse ids that are missing in some rows."""
    if n_absent:
        raise ValueError(
            f"row_id {quoted(name)} is missing in {n_absent} of {n_rows} rows; give each row "
            "an id of its own."
        )


def check_unlike(n_distinct: int, n_rows: int, name: Name) -> None:
    """Refuse ids that are not unique."""
    if n_distinct < n_rows:
        raise ValueError(
            f"row_id {quoted(name)} has {n_distinct} distinct ids in {n_rows} rows, and two "
            "rows of one id would be two releases of it; give each row an id of its own, such as "
            "the person's id with the row's date."
        )
