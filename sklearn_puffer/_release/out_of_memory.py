"""Releases of tables that are never whole in memory: plans of lazy tables.

The tasks of a plan release parts of a lazy table, each row by its own keyed bits. A task holds the
release artifact, and a key that no text shows. It runs the code that releases tables in memory, so
that a plan and a release in memory agree bit for bit, however the engine cuts the table, and
however often it computes a part.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sklearn_puffer._base import task
from sklearn_puffer._codes import Column, resolve
from sklearn_puffer._documents import digest
from sklearn_puffer._engines import CHANGED, lazy_table, plans, row_ids
from sklearn_puffer._noise import KeyedBits, ShippedKey, shipped_key
from sklearn_puffer._release.artifact import artifact_text, read_artifact
from sklearn_puffer._release.keyed_rows import (
    KeyedRows,
    Keying,
    check_keying,
    check_present,
    check_unlike,
    keyed_rows,
)
from sklearn_puffer._release.mechanism import Draw, FittedMechanism, Mechanism
from sklearn_puffer._rows import check_size, check_unknown
from sklearn_puffer._tables import Table, frame_table
from sklearn_puffer._words import listed, quoted


def keyed_mark(noiser: Any, what: str, *, row_id: Any, key: Any, dataset: str, release: int) -> str:
    """Return a mark that equal keyed releases share, of tables called ``what``.

    It is a function of the key that tells nothing about the noise or the table.
    """
    keying = check_keying(row_id, key, dataset, release, None)
    assert keying is not None
    bits = KeyedBits(keying.key, digest("sklearn_puffer.mark/1", noiser._fitted.context(keying)))
    return bits.ids_of([f"{what}|{row_id}"]).astype("<u8").tobytes().hex()


def types_of(noiser: Any) -> dict[str, str]:
    """Return the types of the columns in a CSV file that a release depends on."""
    fitted = noiser._fitted
    # some releases depend on columns that they hand through
    stays = getattr(fitted.certificate.fitted, "stays", ())
    mechanism = fitted.mechanism
    columns = [*mechanism.released_columns, *mechanism.known_columns, *stays]
    return {str(column.name): _type_of(column) for column in columns}


def _type_of(column: Column) -> str:
    """Return the type of a column of a CSV file that was fitted so.

    >>> import numpy as np
    >>> _type_of(Column("age", "integer", np.arange(3.0), np.ones(3, dtype=bool)))
    'integer'
    """
    if column.unit == "datetime64[D]":
        return "date"
    if column.kind != "category":
        return column.kind
    levels = [level for level in column.levels or () if level is not None]
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "float")):
        if levels and all(type(level) is kind for level in levels):
            return name
    return "string"


def plan_release(fitted: FittedMechanism, unknown: Any, X: Any, keying: Keying) -> Any:
    """Return the release of a lazy table as a lazy table; its ids are counted first."""
    check_unknown(unknown)
    names, keyed = read_lazily(fitted, X, keying)
    task = PartRelease(type(fitted.mechanism), artifact_text(fitted, unknown), *keyed)
    columns = fitted.mechanism.released_columns
    plans.check_lazy_kinds(X, {str(column.name): column.kind for column in columns})
    plan = plans.planned(X, names, task)
    check_ids(X, keyed[2])
    return plan


def read_lazily(
    fitted: FittedMechanism, X: Any, keying: Keying
) -> tuple[list[str], tuple[ShippedKey, str, str, row_ids.Text]]:
    """Return the columns of a lazy table that are read, and the arguments of a `KeyedPart`."""
    names = list(lazy_table(X).types)
    fitted.rules.check_columns(names)
    if not isinstance(keying.row_id, str | int | np.integer):
        raise TypeError(
            f"row_id is a {type(keying.row_id).__name__}, and the rows of a lazy table have no "
            "place that ids beside it could stand at; name the column of X that holds them."
        )
    row_id = str(resolve(keying.row_id, names, "row_id")[0])
    key, text = shipped_key(keying.given, keying.key), row_ids.check_id_type(X, row_id)
    wanted = {*fitted.rules.order, row_id}
    return [name for name in names if name in wanted], (key, fitted.context(keying), row_id, text)


def check_ids(X: Any, row_id: str) -> None:
    """Refuse ids that are missing or not unique in the whole table, as it is now."""
    with task("ids counted by the engine"):
        rows, absent, distinct = row_ids.count_ids(X, row_id)
    check_size(rows, 1, "row")
    check_present(absent, rows, row_id)
    check_unlike(distinct, rows, row_id)


class _NoBits:
    """Fails where fresh noise would be drawn: in a task all noise is keyed."""

    def words(self, count: int) -> Any:
        raise RuntimeError("a task of a plan draws keyed noise alone.")


class KeyedPart:
    """A task that computes a part of a table by the keyed bits of its rows.

    ``context`` is a digest of all that shapes the draws, ``row_id`` the column of ids, and ``text``
    parses ids that the engine passes as text.
    """

    def __init__(
        self, key: ShippedKey, context: str, row_id: str, text: row_ids.Text = None
    ) -> None:
        self._key, self._context, self._row_id, self._text = key, context, row_id, text

    way_out = Mechanism.way_out

    def __call__(self, part: Any) -> Any:
        """Return the result for a part, which may have no rows, in the part's type.

        No error has a value or the key in it.
        """
        fault: Exception
        try:
            try:
                bits = self._bits()
            except (TypeError, ValueError, OSError, ImportError) as error:
                fault = type(error)(str(error))  # of the key, which is not in it
            else:
                return self.made(part, bits)
        except Exception as error:
            fault = self._without_values(part, error)
        raise fault  # here, where nothing refers to the first error and its values any more

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the result for a part, drawn with the bits of a key."""
        raise NotImplementedError

    def keyed(self, table: Table, bits: KeyedBits) -> KeyedRows:
        """Return the bits of the rows of a part, whose ids must all be present."""
        rows = keyed_rows(bits, table, self._row_id, text=self._text)
        rows.key, rows.context = self._key.read(), self._context
        return rows

    def _bits(self) -> KeyedBits:
        return KeyedBits(self._key.read(), self._context)

    def _without_values(self, part: Any, error: Exception) -> Exception:
        """Return the error without a value in it: many people read the errors of tasks."""
        if str(error).startswith("row_id ") or str(error) == CHANGED:  # counts and types
            return ValueError(str(error))
        names = [n for n in frame_table(part).names if f"column {quoted(n)} " in str(error)]
        where = f"column {listed(names)} holds" if names else "some rows hold"
        return ValueError(
            f"{where} values, or miss values, that have no place in the release; release these "
            "rows in memory to see which (here they would be in the logs of the engine), or "
            f"{self.way_out}."
        )


_read = lru_cache(maxsize=8)(read_artifact)


class PartRelease(KeyedPart):
    """A task that releases a part of a table by a release artifact, which holds no priors.

    ``kind`` is named here, so that whoever loads the task also loads what reads the artifact.
    """

    def __init__(
        self,
        kind: type[Mechanism],
        artifact: str,
        key: ShippedKey,
        context: str,
        row_id: str,
        text: row_ids.Text = None,
    ) -> None:
        super().__init__(key, context, row_id, text)
        self._kind, self._artifact, self.way_out = kind, artifact, kind.way_out

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the released rows of a part."""
        table = frame_table(part)
        fitted, unknown = _read(self._artifact)
        draw = Draw(lambda column: _NoBits(), unknown, self.keyed(table, bits))
        return fitted.mechanism.released(table, fitted.rules, draw)[0]
