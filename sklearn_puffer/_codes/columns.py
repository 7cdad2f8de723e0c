"""Public columns as codes: the index of a value among the atoms or the bins of its column.

Readers find the codes of a table block by block. A value that `fit` has not seen is refused, or
replaced, by the parameter ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._codes.lookup import Lookup, nearest
from sklearn_puffer._tables import (
    Kind,
    Missing,
    Name,
    Values,
    check_finite,
)
from sklearn_puffer._words import plain, quoted

NEAREST = 'pass unknown="nearest" (to set_params after fit, as --unknown to puffer release)'
"""The way to release values that `fit` has not seen without another fit."""

_MOST_SHOWN = 100


@dataclass(frozen=True)
class Other:
    """The category that replaces all values that `fit` has not seen."""

    value: Any


Unknown = Literal["error", "nearest"] | Other


def rule_of(unknown: Any, name: Name, kind: Kind) -> Unknown:
    """Return the rule for unseen values of a column, by an estimator's ``unknown``.

    It is a mapping in artifacts of before, and where the commonest categories are found.

    Examples
    --------
    >>> rule_of({"job": "other"}, "job", "category"), rule_of({"job": "other"}, "age", "integer")
    (Other(value='other'), 'error')
    >>> rule_of("auto", "job", "category"), rule_of("auto", "age", "integer")
    ('error', 'nearest')
    """
    if not isinstance(unknown, Mapping):
        moves = unknown == "nearest" or (unknown == "auto" and kind in ("float", "integer"))
        return "nearest" if moves else "error"
    if kind == "category" and name in unknown:
        return Other(plain(unknown[name]))
    return "nearest" if unknown.get(name) == "nearest" else "error"


def unseen_message(
    name: Name, values: Sequence[Any], counts: Sequence[int], *, numeric: bool
) -> str:
    """Return the error about values that were not seen in `fit`, with their counts."""
    it = "it" if len(values) == 1 else "them"
    ways = (
        f"move {it} to the nearest known value; or fit again with n_bins to bin the column"
        if numeric
        else f"turn {it} into a known category; or fit again with a list of all in "
        "categories={column: [...]}"
    )
    ways = f"{NEAREST} to {ways}, or on data that has {it}"
    if len(values) == 1:
        return (
            f"column {name!r} contains {quoted(values[0])}, which was not seen in fit; {ways} "
            f"({counts[0]} row(s) hold it)."
        )
    order = sorted(range(len(values)), key=lambda k: -counts[k])
    shown = ", ".join(f"{quoted(values[k])} ({counts[k]})" for k in order[:_MOST_SHOWN])
    more = f" and {len(values) - _MOST_SHOWN} more" if len(values) > _MOST_SHOWN else ""
    return (
        f"column {name!r} contains {len(values)} values that were not seen in fit (rows of each in "
        f"brackets): {shown}{more}; {ways}."
    )


@dataclass(frozen=True, eq=False)
class Column:
    """The alphabet of one public column, fixed in `fit`.

    Attributes
    ----------
    name, kind
        Its label, and the kind of its values.
    atoms : ndarray of shape (n,)
        The values that noise is added to, ascending: numbers, medians of bins, or the codes 0..n-1
        of a boolean or categorical column.
    levels : tuple or None
        The label of each code of a categorical column; None stands for missing.
    edges : ndarray of shape (n - 1,) or None
        Upper ends of all bins but the last, if the column is binned.
    merged : bool
        Whether some bin holds more than one value.
    missing_code : int or None
        The code of missing values, if they are a category.
    spread : float or None
        Standard deviation of a binned column before it was binned.
    known : ndarray of bool of shape (n,)
        Which atoms may be released: those seen in `fit`, or declared.
    ordered : bool
        Whether the order of the levels is declared, by ``categories=`` or by the column's type;
        else it is alphabetical.
    free : bool
        Whether any number may be released, seen in `fit` or not: its priors are continuous.
    raw : tuple of ndarray, or None
        In `fit`: the distinct numbers of a binned column, and their counts.
    """

    name: Name
    kind: Kind
    atoms: FloatArray
    known: Array
    levels: tuple[Any, ...] | None = None
    edges: FloatArray | None = None
    merged: bool = False
    missing_code: int | None = None
    spread: float | None = None
    ordered: bool = False
    free: bool = False
    raw: tuple[FloatArray, Array] | None = None

    @property
    def unit(self) -> str | None:
        """The unit of dates, times or durations; None for other columns."""
        return None

    def of_times(self, unit: str | None) -> Column:
        """Return the column as one of dates, times or durations, if there is a unit."""
        return self if unit is None else TimeColumn(**vars(self), unit=unit)

    @property
    def unordered(self) -> bool:
        """Whether codes have no order: booleans, and categories without a declared order."""
        return self.kind == "boolean" or (self.kind == "category" and not self.ordered)

    @property
    def whole(self) -> bool:
        """Whether the atoms are whole numbers that must stay whole: integers and codes."""
        return self.kind != "float"

    def placed(self, values: FloatArray) -> FloatArray:
        """Return the values that noise is added to, for the atoms of a given prior.

        Raises
        ------
        ValueError
            If the column is boolean or categorical, and an atom is no code.
        """
        if self.edges is not None:
            return self.atoms[np.searchsorted(self.edges, values, side="left")]
        if self.kind in ("boolean", "category"):
            codes = [0.0, 1.0] if self.levels is None else []
            strange = np.setdiff1d(values, np.union1d(self.atoms, codes))
            if strange.size:
                raise ValueError(
                    f"a prior has the atom {float(strange[0])!r} in column {self.name!r}, which is "
                    f"{self.kind} and has no such code; number its values from 0."
                )
        return values

    @property
    def knots(self) -> FloatArray:
        """Where codes of numbers change: the atoms, or the edges of bins."""
        return self.atoms if self.edges is None else self.edges

    def extended(self, values: FloatArray) -> Column:
        """Return the column with further atoms, which may be released."""
        atoms = np.union1d(self.atoms, values)
        releasable = np.isin(atoms, self.atoms[self.known]) | np.isin(atoms, values)
        code = None if self.missing_code is None else len(atoms) - 1  # the last one, as before
        return replace(self, atoms=atoms, known=releasable, missing_code=code)

    def with_any_number(self) -> Column:
        """Return the column with continuous priors, under which any number may be released.

        Raises
        ------
        TypeError
            If its values are no numbers.
        ValueError
            If the column is binned.
        """
        if self.kind not in ("float", "integer"):
            raise TypeError(
                f"column {self.name!r} is {self.kind}, by its type or by categories=, and Gaussian "
                'and mixture priors are about numbers; make it a number, use prior="empirical", '
                "or leave it out of public=."
            )
        if self.edges is not None:
            raise ValueError(
                f"n_bins bins column {self.name!r}, and Gaussian and mixture priors need its "
                'numbers; drop n_bins, or use prior="empirical".'
            )
        return replace(self, free=True)


@dataclass(frozen=True, eq=False)
class TimeColumn(Column):
    """A column of dates, times or durations; a class of its own, so that fingerprints differ."""

    unit: str = "datetime64[D]"


def check_same_kind(column: Column, values: Values) -> None:
    """Refuse a column of another kind than in `fit`."""
    timed = column.unit is not None
    if timed != (values.unit is not None) and len(values) > values.n_missing:
        held, holds = ("dates or durations", "numbers")[:: 1 if timed else -1]
        raise TypeError(
            f"column {column.name!r} holds {holds}, and held {held} in fit; convert it to the type "
            "of the fitted table."
        )
    if column.kind != "category" and values.kind == "category":
        raise TypeError(
            f"column {column.name!r} holds {values.kind} values, and held {column.kind} values in "
            f"fit; {values.way_to_numbers()}convert the column to the type of the fitted table."
        )


@dataclass(frozen=True, eq=False)
class Placed:
    """The codes of values in the alphabet of a fitted column; none is refused.

    Attributes
    ----------
    codes : ndarray of intp of shape (n,)
        The code of each value; of an unseen number the nearest, of an unseen category 0.
    strange, gone : ndarray of bool of shape (n,)
        Which values `fit` has not seen, and which are missing without a code.
    data : ndarray of shape (n,)
        The values.
    counts : ndarray of int of shape (n,), or None
        The rows of each value.
    """

    codes: Array
    strange: Array
    gone: Array
    data: Array
    counts: Array | None


def placed_in(column: Column, values: Values) -> Placed:
    """Return the codes of values in the alphabet of a column; 0 in free columns.

    Raises
    ------
    TypeError
        If it holds another kind of values.

    Examples
    --------
    >>> age = Column("age", "float", np.array([20.0, 30.0]), np.ones(2, dtype=bool))
    >>> found = placed_in(age, Values("float", np.array([20.0, 29.0])))
    >>> found.codes.tolist(), found.strange.tolist()
    ([0, 1], [False, True])
    """
    values = values.as_levels() if column.kind == "category" else values.of_kind(column.kind)
    check_same_kind(column, values)
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    if column.levels is not None:
        code_of = {level: code for code, level in enumerate(column.levels)}
        of_levels = [*(code_of.get(level, -1) for level in values.levels or ()), -1]
        codes = np.array(of_levels, dtype=np.intp)[values.data]
        codes, strange = np.maximum(codes, 0), codes < 0
    else:
        codes, strange = _placed_numbers(column, np.where(gone, np.nan, values.data))
    if column.missing_code is not None:
        codes, gone = np.where(gone, column.missing_code, codes), np.zeros_like(gone)
        strange &= codes != column.missing_code
    return Placed(codes, strange & ~gone, gone, values.data, values.counts)


def _placed_numbers(column: Column, numbers: FloatArray) -> tuple[Array, Array]:
    odd = ~np.isfinite(numbers)
    bare = np.where(odd, column.atoms[0], numbers)
    if column.free:
        return np.zeros(len(bare), dtype=np.intp), odd
    if column.edges is not None:
        return np.searchsorted(column.edges, bare, side="left"), odd
    codes = np.empty(len(bare), dtype=np.intp)
    if not _lookup_of(column).find(bare, codes):
        codes = nearest(column.atoms, bare)
    return codes, odd | (column.atoms[codes] != bare)


BLOCK_ROWS = 1 << 15


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Yield slices of `BLOCK_ROWS` rows."""
    for start in range(0, n_rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n_rows))


class Reader:
    """Codes of the values of a table's column, block by block.

    Parameters
    ----------
    column : Column
    values : Values
    unknown : "error", "nearest" or Other
    missing : "error", "category" or "propagate"

    Attributes
    ----------
    moved : int
        How many rows so far had a value that `fit` has not seen.

    Raises
    ------
    TypeError, ValueError
        If the column holds another kind of values, or missing ones without a code.
    """

    def __init__(
        self,
        column: Column,
        values: Values,
        unknown: Unknown = "error",
        missing: Missing = "error",
    ) -> None:
        values = values.as_levels() if column.kind == "category" else values.of_kind(column.kind)
        values.check_missing(column.name, missing)
        if missing == "category" and values.missing is not None and column.missing_code is None:
            if values.levels is None:  # booleans
                raise ValueError(
                    f"column {column.name!r} has {values.n_missing} missing value(s) (NaN), and "
                    "had none in fit; drop or fill those rows, or fit on data that has some."
                )
            data = np.where(values.missing, len(values.levels), values.data)  # an unseen category
            values = replace(values, data=data, levels=(*values.levels, None), missing=None)
        check_same_kind(column, values)
        self.column, self.values, self.unknown, self.moved = column, values, unknown, 0
        self._finds_levels = column.kind == "category"
        if self._finds_levels:
            self._of_levels, self.moved = _level_codes(column, values, unknown)
        else:
            self._lookup = _lookup_of(column)

    def codes(self, rows: slice, out: Array) -> None:
        """Write the code of each value of ``rows`` into ``out`` (intp)."""
        if self._finds_levels:
            np.take(self._of_levels, self.values.data[rows], out=out, mode="clip")
            if (gone := self.missing(rows)) is not None:
                out[gone] = self._of_levels[-1]
            return
        block = self.data(rows)
        if self.column.edges is not None:
            if self.values.kind == "float":
                check_finite(block, self.column.name)
            self._lookup.below(block, out)
        elif not self._lookup.find(block, out):
            block = np.asarray(block, dtype=float)
            check_finite(block, self.column.name)
            out[:] = nearest(self.column.atoms, block)
            strange = self.column.atoms[out] != block
            if strange.any() and self.unknown == "error":
                self.check()
            self.moved += int(strange.sum())

    @property
    def propagates(self) -> bool:
        """Whether missing values stay missing in the release."""
        return self.values.missing is not None and self.column.missing_code is None

    def check(self) -> None:
        """Refuse the whole column, with all its faults."""
        column = self.column
        if self.values.kind == "float":
            check_finite(self.data(slice(None)), column.name)
        any_is_fine = self._finds_levels or column.edges is not None or column.free
        if any_is_fine or self.unknown == "nearest":
            return
        values, counts = np.unique(self.values.present, return_counts=True)
        strange = ~np.isin(values, column.atoms)
        if strange.any():
            shown = [
                int(value) if column.whole and value % 1 == 0 else float(value)
                for value in values[strange].tolist()
            ]
            rows = counts[strange].tolist()
            raise ValueError(unseen_message(column.name, shown, rows, numeric=True))

    def missing(self, rows: slice) -> Array | None:
        """Return the mask of missing values of ``rows``, or None."""
        return None if self.values.missing is None else self.values.missing[rows]

    def data(self, rows: slice) -> Array:
        """Return the values of ``rows``, with an atom for missing ones."""
        block = self.values.data[rows]
        gone = self.missing(rows)
        code = self.column.missing_code
        stand_in = self.column.atoms[0 if code is None else code]
        return block if gone is None else np.where(gone, stand_in, block)


# cached for each fitted column, for releases of single rows
_made: WeakKeyDictionary[Column, Lookup] = WeakKeyDictionary()


def _lookup_of(column: Column) -> Lookup:
    """Return the lookup of the edges of a binned column, or of the atoms of another one."""
    if column not in _made:
        _made[column] = Lookup(column.knots)
    return _made[column]


def _level_codes(column: Column, values: Values, unknown: Unknown) -> tuple[Array, int]:
    """Return the code of each level of ``values`` and of missing, and the rows of unseen levels.

    An unseen level has the code of the level that replaces it, or an arbitrary one.
    """
    assert column.levels is not None
    assert values.levels is not None
    code_of = {level: code for code, level in enumerate(column.levels) if column.known[code]}
    codes = np.array([code_of.get(level, -1) for level in values.levels] + [0], dtype=np.intp)
    codes[-1] = 0 if column.missing_code is None else column.missing_code
    counts = np.bincount(values.present, minlength=len(values.levels))
    strange = np.flatnonzero((codes[:-1] < 0) & (counts > 0))
    if strange.size and unknown == "error":
        shown = [values.levels[code] for code in strange.tolist()]
        rows = counts[strange].tolist()
        raise ValueError(unseen_message(column.name, shown, rows, numeric=False))
    if isinstance(unknown, Other) and unknown.value not in code_of:
        raise ValueError(
            f"unknown[{column.name!r}] is {quoted(unknown.value)}, which fit was not told of; fit "
            'again with it, name a value that was seen, or pass unknown="nearest" for all columns.'
        )
    stand_in = code_of[unknown.value] if isinstance(unknown, Other) else 0
    return np.where(codes < 0, stand_in, codes), int(counts[strange].sum())
