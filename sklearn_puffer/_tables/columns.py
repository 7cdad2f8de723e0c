"""Public columns as codes: each value's place among the atoms of its column.

Readers find the places of a table's values block by block. A value that has none is refused, or
moved, by the rule for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, quoted
from sklearn_puffer._tables.counting import BLOCK_ROWS
from sklearn_puffer._tables.lookup import (
    Edges,
    Lookup,
    Other,
    Unknown,
    nearest,
    places_of_ascending,
    runs_of_ascending,
    unseen_message,
)
from sklearn_puffer._tables.values import (
    Kind,
    Missing,
    Name,
    Values,
    as_levels,
    check_finite,
    check_missing,
    of_kind,
    present,
)


@dataclass(frozen=True, eq=False)
class Column:
    """The alphabet of one public column, fixed in `fit`.

    Attributes
    ----------
    name, kind
        Its label, and what its values are.
    atoms : ndarray of shape (n,)
        The values that noise is added to, ascending: the numbers themselves, bin representatives,
        or the codes 0..n-1 of a boolean or categorical column.
    levels : tuple or None
        The label of each code of a categorical column; None stands for missing.
    edges : ndarray of shape (n - 1,) or None
        Upper ends of all bins but the last, where the column is binned.
    merged : bool
        Whether some bin holds more than one value; otherwise the values stay as they are.
    missing_code : int or None
        The code that stands for missing, where missing is a value of its own.
    spread : float or None
        Standard deviation of a binned column before it was binned.
    known : ndarray of bool of shape (n,)
        Which atoms may be released: seen in `fit`, or declared by the caller.
    ordered : bool
        Whether the order of the levels is declared, by ``categories=`` or by the column's type;
        elsewhere it is that of the alphabet.
    free : bool
        Whether any number may be released, seen in `fit` or not: its priors are continuous.
    raw : tuple of ndarray, or None
        While it is learnt: the distinct numbers of a binned column, or of very many the middles of
        runs, and how often each occurs.
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
    def unordered(self) -> bool:
        """Whether codes are names alone: booleans, and categories without a declared order."""
        return self.kind == "boolean" or (self.kind == "category" and not self.ordered)

    @property
    def whole(self) -> bool:
        """Whether the atoms are whole numbers that must stay whole: integers and codes."""
        return self.kind != "float"

    def placed(self, values: FloatArray) -> FloatArray:
        """Return what is released, before the noise, for values that a given prior knows.

        Raises
        ------
        ValueError
            If the column is boolean or categorical, and they are not among its codes.
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

    def places_of_ascending(self, values: FloatArray) -> Array:
        """Return the places of ascending values of the column among its atoms, or of their bins."""
        if self.edges is None:
            return np.searchsorted(self.atoms, values)
        return places_of_ascending(self.edges, values)

    def runs_of_ascending(self, values: FloatArray) -> Array:
        """Return how many of some ascending values lie in each bin."""
        assert self.edges is not None
        return runs_of_ascending(self.edges, values)

    def extended(self, values: FloatArray) -> Column:
        """Return the column with those placed values among its atoms, all of which may occur."""
        atoms = np.union1d(self.atoms, values)
        known = np.isin(atoms, self.atoms[self.known]) | np.isin(atoms, values)
        code = None if self.missing_code is None else len(atoms) - 1  # the last one, as before
        return replace(self, atoms=atoms, known=known, missing_code=code)

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
                'and mixture priors are laws of numbers; make it a number, use prior="empirical", '
                "or leave it out of public=."
            )
        if self.edges is not None:
            raise ValueError(
                f"n_bins bins column {self.name!r}, and Gaussian and mixture priors need its "
                'numbers; drop n_bins, or use prior="empirical".'
            )
        return replace(self, free=True)


def check_same_kind(column: Column, values: Values) -> None:
    """Refuse categories where numbers were fitted."""
    if column.kind != "category" and values.kind == "category":
        raise TypeError(
            f"column {column.name!r} holds {values.kind} values, and held {column.kind} values in "
            "fit; convert it to the type of the fitted table."
        )


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the values of a column are in the alphabet of a fitted one; nothing is refused.

    Attributes
    ----------
    codes : ndarray of intp of shape (n,)
        The code of each value; of one that `fit` has not seen the nearest one, or 0 of a category.
    strange, gone : ndarray of bool of shape (n,)
        Which values `fit` has not seen, and which are missing and no value.
    data : ndarray of shape (n,)
        The values, by which strange ones are told apart.
    counts : ndarray of int of shape (n,), or None
        How many rows hold each.
    """

    codes: Array
    strange: Array
    gone: Array
    data: Array
    counts: Array | None


def placed_in(column: Column, values: Values) -> Placed:
    """Return where values are in the alphabet of a column; free columns have codes of 0.

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
    values = as_levels(values) if column.kind == "category" else of_kind(column.kind, values)
    check_same_kind(column, values)
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    if column.kind == "category":
        codes, strange = _placed_levels(column, values)
    else:
        codes, strange = _placed_numbers(column, np.where(gone, np.nan, values.data))
    if column.missing_code is not None:
        codes, gone = np.where(gone, column.missing_code, codes), np.zeros_like(gone)
        strange &= codes != column.missing_code
    return Placed(codes, strange & ~gone, gone, values.data, values.counts)


def _placed_levels(column: Column, values: Values) -> tuple[Array, Array]:
    assert column.levels is not None
    assert values.levels is not None
    known = {level: code for code, level in enumerate(column.levels)}
    table = np.array([known.get(level, -1) for level in values.levels] + [-1], dtype=np.intp)
    codes = table[values.data]
    return np.maximum(codes, 0), codes < 0


def _placed_numbers(column: Column, numbers: FloatArray) -> tuple[Array, Array]:
    odd = ~np.isfinite(numbers)
    bare = np.where(odd, column.atoms[0], numbers)
    if column.free:
        return np.zeros(len(bare), dtype=np.intp), odd
    if column.edges is not None:
        return np.searchsorted(column.edges, bare, side="left"), odd
    codes = nearest(column.atoms, bare)
    return codes, odd | (column.atoms[codes] != bare)


CellFinder = Callable[[Array], Array]
_MOST_COUNTED = 4 * BLOCK_ROWS  # atoms that are counted block by block in an array of their own


def column_reader(
    column: Column, values: Values, unknown: Unknown = "error", missing: Missing = "error"
) -> Reader:
    """Return the reader of a table's column under this alphabet.

    Raises
    ------
    TypeError, ValueError
        If the column holds another kind of values, or missing ones it has no place for.
    """
    values = as_levels(values) if column.kind == "category" else of_kind(column.kind, values)
    check_missing(values, column.name, missing)
    if missing == "category" and values.missing is not None and column.missing_code is None:
        values = _with_new_level(column, values)
    if column.kind == "category":
        return _LevelReader(column, values, unknown)
    check_same_kind(column, values)
    if column.edges is not None:
        return _BinReader(column, values)
    return _NumberReader(column, values, unknown)


def _with_new_level(column: Column, values: Values) -> Values:
    """Return categories in which missing is one, which `fit` has not seen; booleans are refused."""
    if values.levels is None:
        raise ValueError(
            f"column {column.name!r} has {values.n_missing} missing value(s) (NaN), and had none "
            "in fit; drop or fill those rows, or fit on data that has some."
        )
    assert values.missing is not None
    data = np.where(values.missing, len(values.levels), values.data)
    return replace(values, data=data, levels=(*values.levels, None), missing=None)


class Reader(ABC):
    """Positions of a column's values, block by block, and tables over those positions."""

    def __init__(self, column: Column, values: Values) -> None:
        self.column = column
        self.values = values
        self.moved = 0
        self._held: IntArray | None = None
        self._cells: CellFinder | None = None
        self._picked: IntArray | None = None
        self._strange = 0  # of the values that are counted, those that were moved

    def positions(self, rows: slice, out: Array) -> None:
        """Write the position of each value of ``rows`` into ``out`` (intp)."""
        self._find(rows, out)
        if self._held is not None:
            self._note(self._held, self._counted(rows, out))

    def lost(self, rows: slice) -> Array:
        """Return which values of ``rows`` are categories that `fit` has not seen."""
        return np.zeros(len(self.values.data[rows]), dtype=bool)

    @abstractmethod
    def _find(self, rows: slice, out: Array) -> None:
        """Write those positions."""

    def watch(
        self,
        cells: CellFinder | None = None,
        n_cells: int = 0,
        picked: IntArray | None = None,
    ) -> None:
        """Count the values that are read from now on, each of which is to be read once.

        Parameters
        ----------
        cells : callable, optional
            Returns the cells of numbers, of a column that takes any.
        n_cells : int
        picked : ndarray of int, optional
            The rows that are counted, ascending; None counts all.
        """
        self._cells, self._picked = cells, picked
        size = len(self._codes_of_positions()) if cells is None else n_cells
        self._held = np.zeros(size, dtype=np.int64)

    def note_numbers(self, rows: slice, numbers: Array) -> None:
        """Count the numbers of ``rows`` that were read as they are, if they are watched."""
        if self._held is not None and self._cells is not None:
            self._note(self._held, self._cells(self._counted(rows, numbers)))

    def seen(self) -> IntArray:
        """Return how often each code, or cell, was counted where the value is not missing."""
        assert self._held is not None
        if self._cells is not None:
            seen = self._held.copy()
            if self.propagates:
                seen[self._cells(self.column.atoms[:1])] -= self._n_gone()
            return seen
        seen = np.zeros(len(self.column.atoms), dtype=np.int64)
        np.add.at(seen, self._codes_of_positions(), self._held)
        if self.propagates:
            seen[0] -= self._n_gone()  # the first code stood in for them
        return seen

    @property
    def strange(self) -> int:
        """Of the values that were counted, those that `fit` has not seen."""
        return self._strange

    @property
    def n_present(self) -> int:
        """In how many rows, counted or not, the column is not missing."""
        return len(self.values) - (self.values.n_missing if self.propagates else 0)

    def _n_gone(self) -> int:
        """Return how many of the rows that are counted lack the value."""
        if self._picked is None or self.values.missing is None:
            return self.values.n_missing
        return int(self.values.missing[self._picked].sum())

    def _counted(self, rows: slice, block: Array) -> Array:
        """Return what of a block is counted, of whose rows some may not be picked."""
        if self._picked is None:
            return block
        first, last = np.searchsorted(self._picked, (rows.start, rows.stop))
        counted: Array = block.take(self._picked[first:last] - rows.start)
        return counted

    def _note(self, held: IntArray, positions: Array) -> None:
        if len(held) <= _MOST_COUNTED:
            held += np.bincount(positions, minlength=len(held))
        else:
            np.add.at(held, positions, 1)

    def _codes_of_positions(self) -> Array:
        return self.spread(np.arange(len(self.column.atoms), dtype=np.intp))

    def spread(self, per_code: Array) -> Array:
        """Return an array over positions from one over codes."""
        return per_code

    def codes(self, rows: slice, out: Array) -> None:
        """Write the code of each value of ``rows`` into ``out`` (intp)."""
        self.positions(rows, out)
        places = np.arange(len(self.column.atoms), dtype=np.intp)
        table = self.spread(places)
        if table is not places:  # else positions are codes
            np.take(table, out, out=out, mode="clip")

    def whole_numbers(self, rows: slice, scratch: IntArray) -> IntArray | None:
        """Return the values of ``rows`` themselves, or in ``scratch``, if that tells their atoms.

        It does where the atoms are whole numbers without a gap, and each value is one of them; else
        it is None, and nothing is counted. What is returned is not to be written to.
        """
        return None

    @property
    def propagates(self) -> bool:
        """Whether missing values stay missing in the release."""
        return self.values.missing is not None and self.column.missing_code is None

    def check(self) -> None:
        """Refuse the whole column at once, naming all that is wrong with it."""
        if self.values.kind == "float":
            check_finite(self.data(slice(None)), self.column.name)

    def missing(self, rows: slice) -> Array | None:
        """Return the mask of missing values of ``rows``, or None."""
        return None if self.values.missing is None else self.values.missing[rows]

    def data(self, rows: slice) -> Array:
        """Return the values of ``rows``, with an atom standing in for what is missing."""
        block = self.values.data[rows]
        gone = self.missing(rows)
        code = self.column.missing_code
        stand_in = self.column.atoms[0 if code is None else code]
        return block if gone is None else np.where(gone, stand_in, block)


class _NumberReader(Reader):
    def __init__(self, column: Column, values: Values, unknown: Unknown) -> None:
        super().__init__(column, values)
        self.unknown = unknown
        self.lookup = _lookup_of(column).of_own()

    def _find(self, rows: slice, out: Array) -> None:
        block = self.data(rows)
        if not self.lookup.find(block, out):
            self._settle(rows, np.asarray(block, dtype=float), out)

    def whole_numbers(self, rows: slice, scratch: IntArray) -> IntArray | None:
        found = self.lookup.whole_numbers(self.data(rows), scratch)
        if found is not None and self._held is not None:
            self._note(self._held, self._counted(rows, found) - int(self.column.atoms[0]))
        return found

    def _settle(self, rows: slice, block: FloatArray, out: Array) -> None:
        check_finite(block, self.column.name)
        codes = nearest(self.column.atoms, block)
        strange = self.column.atoms[codes] != block
        if strange.any() and self.unknown == "error":
            self.check()
        self.moved += int(strange.sum())
        self._strange += int(self._counted(rows, strange).sum())
        np.copyto(out, codes)

    def check(self) -> None:
        super().check()
        values, counts = np.unique(present(self.values), return_counts=True)
        strange = ~np.isin(values, self.column.atoms)
        if self.column.free or self.unknown == "nearest" or not strange.any():
            return
        shown = [
            int(value) if self.column.whole and value % 1 == 0 else float(value)
            for value in values[strange].tolist()
        ]
        raise ValueError(
            unseen_message(self.column.name, shown, counts[strange].tolist(), numeric=True)
        )


# tables of a fitted column, which a row released by itself would wait for
_lookups: WeakKeyDictionary[Column, Lookup] = WeakKeyDictionary()
_edges: WeakKeyDictionary[Column, Edges] = WeakKeyDictionary()


def _lookup_of(column: Column) -> Lookup:
    found = _lookups.get(column)
    return _lookups.setdefault(column, Lookup(column.atoms)) if found is None else found


def _edges_of(column: Column) -> Edges:
    assert column.edges is not None
    found = _edges.get(column)
    return _edges.setdefault(column, Edges(column.edges)) if found is None else found


class _BinReader(Reader):
    def __init__(self, column: Column, values: Values) -> None:
        super().__init__(column, values)
        self.edges = _edges_of(column).of_own()

    def _find(self, rows: slice, out: Array) -> None:
        block = self.data(rows)
        if self.values.kind == "float":
            check_finite(block, self.column.name)
        self.edges.find(block, out)


class _LevelReader(Reader):
    def __init__(self, column: Column, values: Values, unknown: Unknown) -> None:
        super().__init__(column, values)
        self._codes, self._unseen, self.moved = _level_codes(column, values, unknown)

    def _find(self, rows: slice, out: Array) -> None:
        np.copyto(out, self.values.data[rows])
        gone = self.missing(rows)
        if gone is not None:
            out[gone] = len(self._codes) - 1

    def lost(self, rows: slice) -> Array:
        new = np.isin(self.values.data[rows], self._unseen)
        gone = self.missing(rows)  # whose data are arbitrary
        return new if gone is None else new & ~gone

    def spread(self, per_code: Array) -> Array:
        return per_code[self._codes]

    @property
    def strange(self) -> int:
        """Of the values that were counted, those that `fit` has not seen."""
        return 0 if self._held is None else int(self._held[self._unseen].sum())


def _level_codes(column: Column, values: Values, unknown: Unknown) -> tuple[Array, Array, int]:
    """Return the fitted code of each level of ``values``, with that of missing at the end.

    Levels that `fit` has not seen have the code of the level that stands for them, or that of any;
    then come their own codes, and in how many rows they are.
    """
    assert column.levels is not None
    assert values.levels is not None
    known = {level: code for code, level in enumerate(column.levels) if column.known[code]}
    codes = np.array([known.get(level, -1) for level in values.levels] + [0], dtype=np.intp)
    codes[-1] = 0 if column.missing_code is None else column.missing_code
    used, counts = np.unique(present(values), return_counts=True)
    unseen = codes[used] < 0 if used.size else np.zeros(0, dtype=bool)
    strange, rows = used[unseen], counts[unseen]
    if strange.size and unknown == "error":
        shown = [values.levels[code] for code in strange.tolist()]
        raise ValueError(unseen_message(column.name, shown, rows.tolist(), numeric=False))
    if isinstance(unknown, Other):
        codes[:-1] = np.where(codes[:-1] < 0, _code_of(column, unknown, known), codes[:-1])
    return np.maximum(codes, 0), strange, int(rows.sum())


def _code_of(column: Column, other: Other, known: Mapping[Any, int]) -> int:
    if other.value not in known:
        raise ValueError(
            f"unknown[{column.name!r}] is {quoted(other.value)}, which fit was not told of; fit "
            'again with it, name a value that was seen, or pass unknown="nearest" for all columns.'
        )
    return known[other.value]
