"""Releasing a lazy table: a plan whose tasks release parts of it, each row by its own keyed bits.

A task is what a part is called with: the form of the release, and a key that no text shows. It
runs the code that releases tables in memory, so that a plan and a release in memory agree bit for
bit, however the engine cuts the table, and however often it computes a part.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sklearn_puffer._base import listed, task
from sklearn_puffer._noise import Entropy, KeyedBits, ShippedKey, shipped_key
from sklearn_puffer._noiser.formed import fitted_of, form_of, unknown_of
from sklearn_puffer._noiser.keyed_rows import (
    KeyedRows,
    Keying,
    check_present,
    check_unlike,
    keyed_rows,
)
from sklearn_puffer._noiser.mechanism import FittedMechanism
from sklearn_puffer._noiser.read_table import check_rows
from sklearn_puffer._noiser.release import Draw
from sklearn_puffer._noiser.settings import check_unknown
from sklearn_puffer._noiser.written_release import as_text, from_text
from sklearn_puffer._tables import Name, Table, column_reader, frame_table, plans, resolve, rule_of


def plan_release(fitted: FittedMechanism, unknown: Any, X: Any, keying: Keying) -> Any:
    """Return the lazy table of the release of a lazy table, whose ids are counted before.

    Raises
    ------
    TypeError, ValueError
        If the table does not fit, or ids are missing or not unique.
    """
    check_unknown(unknown)
    names, keyed = read_lazily(fitted, X, keying)
    task = PartRelease(as_text(form_of(fitted, unknown)), *keyed)
    plans.check_lazy_kinds(X, {column.name: column.kind for column in task.columns})
    plan = plans.planned(X, names, task)
    check_ids(X, keyed[2])
    return plan


def read_lazily(
    fitted: FittedMechanism, X: Any, keying: Keying
) -> tuple[list[str], tuple[ShippedKey, str, str, plans.Text]]:
    """Return the columns of a lazy table that are read, and what a `KeyedPart` is made of.

    Raises
    ------
    TypeError, ValueError
        If the columns do not fit, or that of ids is none.
    """
    names = plans.lazy_names(X)
    fitted.rules.check_columns(names)
    row_id = _id_column(keying.row_id, names)
    key, text = shipped_key(keying.given, keying.key), plans.check_id_type(X, row_id)
    wanted = {*fitted.rules.order, row_id}
    return [name for name in names if name in wanted], (key, fitted.context(keying), row_id, text)


def check_lazily(container: str, on_drift: str) -> None:
    """Refuse what looks at the rows of a lazy table, which nothing does before it is computed.

    Raises
    ------
    ValueError
        Of another container than that of X, and of a check of the rows that is asked for.
    """
    if on_drift == "raise":
        raise ValueError(
            'on_drift="raise" looks at all rows before any is given away, and X is a lazy table; '
            'pass on_drift="ignore", and look at a sample of X by certificate_.check(sample).'
        )
    if container != "default":
        raise ValueError(
            f"set_output(transform={container!r}) asks for a table in memory, and X is a lazy one, "
            'whose release is lazy too; call set_output(transform="default").'
        )


def _id_column(row_id: Any, names: tuple[Name, ...]) -> str:
    if not isinstance(row_id, str | int):
        raise TypeError(
            f"row_id is a {type(row_id).__name__}, and the rows of a lazy table have no place that "
            "ids beside it could stand at; name the column of X that holds them."
        )
    return str(resolve(row_id, names, "row_id")[0])


def check_ids(X: Any, row_id: str) -> None:
    """Refuse ids that are missing or not unique in the whole table, as it is now."""
    with task("ids counted by the engine"):
        rows, absent, distinct = plans.count_ids(X, row_id)
    check_rows(rows)
    check_present(absent, rows, row_id)
    check_unlike(distinct, rows, row_id)


CHANGED_SINCE = (
    "X is not the table that transform was called with: some rows have other ids or other values; "
    "write the table once, and call transform on that."
)


class _KeyFaultError(Exception):
    """A key that cannot be used: the kind of error, and its sentence, which no key is in."""


class _NoBits:
    """No source of bits: in a task all noise is keyed."""

    def words(self, count: int) -> Any:
        raise RuntimeError("a task of a plan draws keyed noise alone.")


def _no_entropy(column: int) -> Entropy:
    return _NoBits()


class KeyedPart:
    """What computes a part of a table by the key of its rows, wherever an engine has it.

    Parameters
    ----------
    key : ShippedKey
    context : str
        All that shapes what is drawn.
    row_id : str
        The column of ids.
    text : callable, optional
        What reads the text that the engine hands on for them.
    """

    def __init__(self, key: ShippedKey, context: str, row_id: str, text: plans.Text = None) -> None:
        self._key, self._context, self._row_id, self._text = key, context, row_id, text

    way_out: str

    def __call__(self, part: Any) -> Any:
        """Return what is made of a part, which may have no rows; in its own type.

        Raises
        ------
        TypeError, ValueError, ModuleNotFoundError
            If a value has no place or the key cannot be used: with no value, and no key, in it.
        """
        try:
            return self.made(part, self._bits())
        except Exception as error:
            fault = self._told(part, error)
        raise fault  # here, where nothing refers any more to what the first error said and held

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return what is made of a part with the bits of a key."""
        raise NotImplementedError

    def at_fault(self, part: Any) -> list[Name]:
        """Return the columns that hold values which cannot be read."""
        raise NotImplementedError

    def keyed(self, table: Table, bits: KeyedBits) -> KeyedRows:
        """Return the bits of the rows of a part, all of whose ids must be there."""
        return keyed_rows(bits, table, self._row_id, text=self._text)

    def _bits(self) -> KeyedBits:
        try:
            return KeyedBits(self._key.read(), self._context)
        except (TypeError, ValueError, OSError, ImportError) as error:
            raise _KeyFaultError(type(error), str(error)) from None

    def _told(self, part: Any, error: Exception) -> Exception:
        """Return the error without a value in it: what a task raises is read by many."""
        if isinstance(error, _KeyFaultError):
            kind, said = error.args
            told: Exception = kind(said)
            return told
        if str(error).startswith("row_id ") or str(error) == CHANGED_SINCE:  # counts and types
            return ValueError(str(error))
        names = self.at_fault(part)
        where = f"column {listed(names)} holds" if names else "some rows hold"
        return ValueError(
            f"{where} values, or miss values, that have no place in the release; release these "
            "rows in memory to see which (here they would be in the logs of the engine), or "
            f"{self.way_out}."
        )


class PartRelease(KeyedPart):
    """What releases a part of a table.

    Parameters
    ----------
    form : str
        The form of the release: it holds no priors.
    key, context, row_id, text
        As of `KeyedPart`.
    """

    way_out = (
        'give them one: by unknown="nearest", or fitting again by missing=, n_bins or categories'
    )

    def __init__(
        self, form: str, key: ShippedKey, context: str, row_id: str, text: plans.Text = None
    ) -> None:
        super().__init__(key, context, row_id, text)
        self._form = form

    def __reduce__(self) -> Any:
        # without what was read of the form
        return PartRelease, (self._form, self._key, self._context, self._row_id, self._text)

    @cached_property
    def _read(self) -> tuple[FittedMechanism, Any]:
        form = from_text(self._form)
        return fitted_of(form), unknown_of(form)

    @property
    def columns(self) -> list[Any]:
        """The public columns."""
        return [release.column for release in self._read[0].columns]

    def made(self, part: Any, bits: KeyedBits) -> Any:
        """Return the released rows of a part."""
        table = frame_table(part)
        # whatever would draw fresh noise fails, and never releases
        fitted, unknown = self._read
        return fitted.released(table, Draw(_no_entropy, unknown, self.keyed(table, bits)))[0]

    def at_fault(self, part: Any) -> list[Name]:
        """Return the columns some of whose values have no place."""
        return [column.name for column in self.columns if self._is_at_fault(part, column)]

    def _is_at_fault(self, part: Any, column: Any) -> bool:
        fitted, unknown = self._read
        rule = rule_of(unknown, column.name, column.kind)
        try:
            values = frame_table(part).values(column.name)
            column_reader(column, values, rule, fitted.rules.missing).check()
        except Exception:
            return True
        return False
