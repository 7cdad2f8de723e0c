"""Public columns as codes: each value's place among the atoms of its column.

`learn_column` fixes the alphabet of a column; a `Reader` then finds, block by block, the position
of every value of a table in that alphabet, and refuses what is not there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from sklearn_puffer._base import (
    LARGEST_INTEGER,
    Array,
    FloatArray,
    IntArray,
    listed,
    plain,
    quoted,
    refuse_masked,
)
from sklearn_puffer._tables import coarse
from sklearn_puffer._tables.binning import quantile_bins, standard_deviation
from sklearn_puffer._tables.lookup import (
    Edges,
    Lookup,
    nearest,
    places_of_ascending,
    runs_of_ascending,
)
from sklearn_puffer._tables.unseen import Other, Unknown, unseen_message, with_other
from sklearn_puffer._tables.values import Kind, Name, Values

Missing = Literal["error", "category", "propagate"]
CellFinder = Callable[[Array], Array]

BLOCK_ROWS = 1 << 15
_MOST_STREAMED_ATOMS = 1 << 12
_MOST_COUNTED = 4 * BLOCK_ROWS  # atoms that are counted block by block in an array of their own
# beyond these the powers in losses and spreads are no floats; a table of that kind has odd units
_LARGEST_NUMBER = 1e120
_SMALLEST_SPAN = 1e-120


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
        While it is learnt: the distinct numbers of a binned column, or the middles of cells of very
        many, and how often each occurs.
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

    def reader(
        self, values: Values, unknown: Unknown = "error", missing: Missing = "error"
    ) -> Reader:
        """Return the reader of a table's column under this alphabet.

        Raises
        ------
        TypeError, ValueError
            If the column holds another kind of values, or missing ones it has no place for.
        """
        values = as_levels(values) if self.kind == "category" else of_kind(self.kind, values)
        check_missing(values, self.name, missing)
        if missing == "category" and values.missing is not None and self.missing_code is None:
            gone = values.n_missing
            raise ValueError(unseen_message(self.name, [None], [gone], numeric=False))
        if self.kind == "category":
            return _LevelReader(self, values, unknown)
        check_same_kind(self, values)
        if self.edges is not None:
            return _BinReader(self, values)
        return _NumberReader(self, values, unknown)

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


def check_same_kind(column: Column, values: Values) -> None:
    """Refuse categories where numbers were fitted."""
    if column.kind != "category" and values.kind == "category":
        raise TypeError(
            f"column {column.name!r} holds {values.kind} values, and held {column.kind} values in "
            "fit; convert it to the type of the fitted table."
        )


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

    def spread(self, per_code: Array) -> Array:
        return per_code[self._codes]

    @property
    def strange(self) -> int:
        """Of the values that were counted, those that `fit` has not seen."""
        return 0 if self._held is None else int(self._held[self._unseen].sum())


def learn_column(
    name: Name,
    values: Values,
    *,
    n_bins: int | None = None,
    categories: Sequence[Any] | None = None,
    missing: Missing = "error",
    unknown: Unknown = "error",
    weights: Array | None = None,
) -> Column:
    """Return the alphabet of a column: its distinct values, bins or levels.

    Raises
    ------
    ValueError
        If a value is missing under ``missing="error"``, infinite, or not among ``categories``.
    """
    values = values if categories is None else as_levels(values)
    weights = values.counts if weights is None else weights
    check_missing(values, name, missing)
    labelled = categories is not None or values.kind == "category"
    if not present(values).size and not (labelled and missing == "category"):
        raise ValueError(f"column {name!r} has no value that is not missing; drop the column.")
    if categories is not None:
        return _declared_column(name, values, categories, missing, unknown)
    if values.kind == "category":
        return _level_column(name, values, missing, unknown)
    column = _number_column(name, values, n_bins, weights)
    if values.kind == "boolean" and missing == "category":
        return _with_missing_boolean(column, values)
    return column


def check_missing(values: Values, name: Name, missing: Missing) -> None:
    """Refuse missing values under ``missing="error"``, and where they have no place."""
    if values.missing is None:
        return
    count = values.n_missing
    if missing == "error":
        ways = 'missing="category" or ' if values.kind in ("category", "boolean") else ""
        raise ValueError(
            f"column {name!r} has {count} missing value(s) (NaN); drop or fill those rows, or pass "
            f'{ways}missing="propagate".'
        )
    if missing == "category" and values.kind in ("float", "integer"):
        raise ValueError(
            f'missing="category" gives {name!r} no place for its {count} missing value(s) (NaN): '
            'the column is numeric; fill them, make it categorical, or use missing="propagate".'
        )


def check_whole(values: Values, name: Name) -> None:
    """Refuse missing values and infinities."""
    check_missing(values, name, "error")
    if values.kind == "float":
        check_finite(values.data, name)


def check_finite(block: Array, name: Name) -> None:
    """Refuse NaN and infinities by name."""
    if block.size and not (np.isfinite(block.min()) and np.isfinite(block.max())):
        bad = block[~np.isfinite(block)]
        word = "NaN" if np.isnan(bad[0]) else "infinity"
        raise ValueError(
            f"column {name!r} contains {word}; drop or replace such values in fit and transform."
        )


def distinct(values: Values, weights: Array | None = None) -> tuple[FloatArray, Array]:
    """Return the ascending distinct numbers of a column and how often each occurs.

    Memory does not grow with the rows while the numbers are few; one sort does where they are many.
    """
    data = present(values)
    kept = weights if weights is None or values.missing is None else weights[~values.missing]
    atoms = _few_numbers(data)
    if atoms is not None:
        return atoms, _tally(atoms, data, kept)
    return _sorted_tally(data, kept)


def distinct_numbers(data: Array) -> FloatArray:
    """Return the ascending distinct numbers; while they are few, memory is that of a block."""
    few = _few_numbers(data)
    return _sorted_tally(data, None)[0] if few is None else few


def _few_numbers(data: Array) -> FloatArray | None:
    """Return the ascending distinct numbers, or None where they are many."""
    atoms = np.unique(np.asarray(data[:BLOCK_ROWS], dtype=float))
    codes = np.empty(BLOCK_ROWS, dtype=np.intp)
    lookup = Lookup(atoms) if atoms.size and np.isfinite(atoms).all() else None
    for start in range(BLOCK_ROWS, len(data), BLOCK_ROWS):
        block = data[start : start + BLOCK_ROWS]
        if lookup is None or len(atoms) > _MOST_STREAMED_ATOMS:
            return None
        if not lookup.has_all(block, codes[: len(block)]):
            atoms = np.union1d(atoms, np.asarray(block, dtype=float))
            lookup = Lookup(atoms) if np.isfinite(atoms).all() else None
    return np.unique(atoms + 0.0)  # -0.0 is 0.0


def _sorted_tally(data: Array, weights: Array | None) -> tuple[FloatArray, Array]:
    """Return the ascending distinct numbers, NaN once and last, and how often each occurs."""
    numbers = data.astype(np.float64)
    numbers += 0.0  # -0.0 is 0.0
    order = None if weights is None else np.argsort(numbers)
    if order is None:
        numbers.sort()
    else:
        numbers = numbers[order]
    new = np.ones(len(numbers), dtype=bool)
    np.not_equal(numbers[1:], numbers[:-1], out=new[1:])
    new[np.searchsorted(numbers, np.nan) + 1 :] = False
    if order is None and new.all():
        return numbers, np.ones(len(numbers), dtype=np.int64)
    firsts = np.flatnonzero(new)
    if order is None or weights is None:
        return numbers[firsts], np.diff(firsts, append=len(numbers))
    return numbers[firsts], np.add.reduceat(weights[order].astype(np.int64), firsts)


def _tally(atoms: FloatArray, data: Array, weights: Array | None) -> Array:
    counts = np.zeros(len(atoms), dtype=np.int64)
    lookup, codes = Lookup(atoms), np.empty(min(BLOCK_ROWS, len(data)), dtype=np.intp)
    for start in range(0, len(data), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = data[rows]
        if not lookup.find(block, codes[: len(block)]):  # NaN, or of a type that rounds
            codes[: len(block)] = np.searchsorted(atoms, block)
        part = None if weights is None else weights[rows]
        counts += np.bincount(codes[: len(block)], part, len(atoms)).astype(np.int64)
    return counts


def _number_column(name: Name, values: Values, n_bins: int | None, weights: Array | None) -> Column:
    if values.kind == "integer":
        check_integers(present(values), name)
    binned = n_bins is not None and values.kind != "boolean"
    atoms, counts = (
        distinct(values, weights) if binned else (distinct_numbers(present(values)), None)
    )
    check_finite(atoms, name)
    if max(abs(atoms[0]), abs(atoms[-1])) > _LARGEST_NUMBER:
        raise ValueError(
            f"column {name!r} holds {float(atoms[np.abs(atoms).argmax()])!r}, beyond "
            f"{_LARGEST_NUMBER:g}, where sums overflow; give it in another unit."
        )
    span = float(atoms[-1] - atoms[0])
    if 0.0 < span < _SMALLEST_SPAN:
        raise ValueError(
            f"the values of column {name!r} are at most {span!r} apart, less than "
            f"{_SMALLEST_SPAN:g}, where products vanish; give it in another unit."
        )
    column = Column(name, values.kind, atoms, np.ones(len(atoms), dtype=bool))
    if n_bins is None or counts is None:
        return column
    return _binned(column, counts, n_bins, as_cells=values.coarse)


def check_integers(data: Array, name: Name) -> None:
    """Refuse integers that float64 cannot tell apart."""
    if not data.size or data.dtype.itemsize < 8:
        return
    farthest = max(int(data.max()), int(data.min()), key=abs)
    if abs(farthest) > LARGEST_INTEGER:
        raise ValueError(
            f"column {name!r} holds integers beyond 2^53 - 1, such as {farthest}, which float64 "
            "cannot tell apart; subtract an offset, or drop it if it is an identifier."
        )


def _with_missing_boolean(column: Column, values: Values) -> Column:
    if values.missing is None:
        return column
    atoms = np.append(column.atoms, 2.0)
    known = np.ones(len(atoms), dtype=bool)
    return replace(column, atoms=atoms, known=known, missing_code=len(atoms) - 1)


def _binned(column: Column, counts: Array, n_bins: int, *, as_cells: bool) -> Column:
    atoms, whole = column.atoms, column.kind == "integer"
    bins = quantile_bins(atoms, counts, n_bins, whole=whole)
    if as_cells or len(atoms) > coarse.MOST_DISTINCT:
        atoms, counts = coarse.coarse(atoms, counts, bins.edges, whole=whole)
    return replace(
        column,
        atoms=bins.values,
        known=np.ones(len(bins.values), dtype=bool),
        edges=bins.edges,
        merged=bins.merged,
        spread=standard_deviation(atoms, counts),
        raw=(atoms, counts),
    )


def as_levels(values: Values) -> Values:
    """Return a column of numbers as codes into its distinct numbers; others as they are."""
    if values.kind == "category":
        return values
    levels = np.unique(present(values))
    codes = np.searchsorted(levels, values.data)
    codes = codes if values.missing is None else np.where(values.missing, -1, codes)
    return Values("category", codes, values.missing, tuple(levels.tolist()), counts=values.counts)


def of_kind(kind: Kind, values: Values) -> Values:
    """Return a column of objects that are all missing, which has no kind of its own, as of a kind.

    Rows that lack the value would be refused by themselves, and not beside others.
    """
    if values.kind != "category" or present(values).size:
        return values
    types: dict[Kind, type] = {"float": np.float64, "integer": np.int64, "boolean": np.bool_}
    data: Array = np.zeros(len(values), dtype=types[kind])
    if kind == "float":
        data[:] = np.nan
    return Values(kind, data, values.missing, counts=values.counts)


def without_unused(values: Values) -> Values:
    """Return a column with the levels that occur only, unless its own type declares more."""
    if values.levels is None or values.declared:
        return values
    seen = np.unique(present(values))
    codes = np.where(values.data < 0, -1, np.searchsorted(seen, values.data))
    return replace(values, data=codes, levels=tuple(used_levels(values)))


def present(values: Values) -> Array:
    """Return the values that are not missing."""
    return values.data if values.missing is None else values.data[~values.missing]


def _level_column(name: Name, values: Values, missing: Missing, unknown: Unknown) -> Column:
    assert values.levels is not None
    levels = values.levels
    if isinstance(unknown, Other):
        levels = with_other(name, levels, unknown, listed=False)
    seen = np.zeros(len(levels), dtype=bool)
    seen[np.unique(present(values))] = True
    if isinstance(unknown, Other):
        seen[levels.index(unknown.value)] = True
    return _levelled(name, values, levels, seen, missing, ordered=values.ordered)


def _declared_column(
    name: Name, values: Values, categories: Sequence[Any], missing: Missing, unknown: Unknown
) -> Column:
    levels = _checked_levels(name, categories)
    if isinstance(unknown, Other):
        with_other(name, levels, unknown, listed=True)
    strange = [level for level in used_levels(values) if level not in set(levels)]
    if strange and not isinstance(unknown, Other):
        raise ValueError(
            f"column {name!r} contains {listed(strange, 20)}, which categories[{name!r}] does not "
            "list; add it there, pass unknown={column: value} to turn it into a value listed "
            "there, or drop those rows."
        )
    everyone = np.ones(len(levels), dtype=bool)
    return _levelled(name, values, levels, everyone, missing, ordered=True)


def _checked_levels(name: Name, categories: Any) -> tuple[Any, ...]:
    refuse_masked(categories, f"categories[{name!r}]")
    in_order = isinstance(categories, Iterable) and not isinstance(categories, str | Mapping | Set)
    if not in_order or not all(isinstance(level, Hashable) for level in categories):
        raise TypeError(
            f"categories[{name!r}] must be a list of values in the order of their codes, "
            f"got {categories!r}."
        )
    levels = tuple(plain(level) for level in categories)
    if len(set(levels)) != len(levels) or not levels:
        raise ValueError(
            f"categories[{name!r}] must list distinct values, got {quoted(list(levels))}."
        )
    return levels


def used_levels(values: Values) -> list[Any]:
    """Return the levels that occur, in their order."""
    assert values.levels is not None
    return [values.levels[code] for code in np.unique(present(values))]


def _levelled(
    name: Name,
    values: Values,
    levels: tuple[Any, ...],
    known: Array,
    missing: Missing,
    *,
    ordered: bool,
) -> Column:
    code = None
    if missing == "category" and values.missing is not None:
        code, levels, known = len(levels), (*levels, None), np.append(known, True)
    atoms = np.arange(len(levels), dtype=float)
    return Column(name, "category", atoms, known, levels, missing_code=code, ordered=ordered)


def _level_codes(column: Column, values: Values, unknown: Unknown) -> tuple[Array, Array, int]:
    """Return the fitted code of each level of ``values``, with that of missing at the end.

    Levels that `fit` has not seen have the code of the level that stands for them; then come their
    own codes, and in how many rows they are.
    """
    assert column.levels is not None
    assert values.levels is not None
    known = {level: code for code, level in enumerate(column.levels) if column.known[code]}
    codes = np.array([known.get(level, -1) for level in values.levels] + [0], dtype=np.intp)
    codes[-1] = 0 if column.missing_code is None else column.missing_code
    used, counts = np.unique(present(values), return_counts=True)
    unseen = codes[used] < 0 if used.size else np.zeros(0, dtype=bool)
    strange, rows = used[unseen], counts[unseen]
    if strange.size and not isinstance(unknown, Other):
        shown = [values.levels[code] for code in strange.tolist()]
        raise ValueError(unseen_message(column.name, shown, rows.tolist(), numeric=False))
    if isinstance(unknown, Other):
        codes[:-1] = np.where(codes[:-1] < 0, _code_of(column, unknown, known), codes[:-1])
    return np.maximum(codes, 0), strange, int(rows.sum())


def _code_of(column: Column, other: Other, known: Mapping[Any, int]) -> int:
    if other.value not in known:
        raise ValueError(
            f"unknown[{column.name!r}] is {quoted(other.value)}, which fit was not told of; fit "
            "again with it, or name a value that was seen."
        )
    return known[other.value]


def hardly_repeats(n_distinct: int, n_rows: int, least: int = 20) -> bool:
    """Return whether a column looks continuous, or like an identifier.

    >>> hardly_repeats(900, 1000), hardly_repeats(5, 1000)
    (True, False)
    """
    return n_distinct >= least and 2 * n_distinct > n_rows


def looks_like_key(atoms: FloatArray, n_rows: int, least: int = 20) -> bool:
    """Return whether whole numbers number the rows: next to all of them occur once.

    >>> looks_like_key(np.arange(1000.0), 1000), looks_like_key(np.arange(700.0), 1000)
    (True, False)
    >>> looks_like_key(np.arange(1000.0) / 3, 1000)
    False
    """
    whole = bool((atoms % 1.0 == 0.0).all())
    return whole and len(atoms) >= least and 20 * len(atoms) > 19 * n_rows
