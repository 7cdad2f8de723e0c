"""Public columns as codes: each value's place among the atoms of its column.

`learn_column` fixes the alphabet of a column; a `Reader` then finds, block by block, the position
of every value of a table in that alphabet, and refuses what is not there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._validation import plain
from sklearn_puffer.frame import Kind, Name, Values

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
Unknown = Literal["error", "nearest"]
Missing = Literal["error", "category", "propagate"]

BLOCK_ROWS = 1 << 15
_MOST_BINS = 1 << 16
_MOST_CROWDED = 4
_MOST_STREAMED_ATOMS = 1 << 12
LARGEST_INTEGER = 2**53
_LARGEST_NUMBER = 1e300


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
    missing_code : int or None
        The code that stands for missing, where missing is a value of its own.
    spread : float or None
        Standard deviation of a binned column before it was binned.
    known : ndarray of bool of shape (n,)
        Which atoms may be released: seen in `fit`, or declared by the caller.
    free : bool
        Whether any number may be released, seen in `fit` or not: its priors are continuous.
    """

    name: Name
    kind: Kind
    atoms: FloatArray
    known: Array
    levels: tuple[Any, ...] | None = None
    edges: FloatArray | None = None
    missing_code: int | None = None
    spread: float | None = None
    free: bool = False

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
        values = as_levels(values) if self.kind == "category" else values
        check_missing(values, self.name, missing)
        if missing == "category" and values.missing is not None and self.missing_code is None:
            raise ValueError(_unseen_message(self.name, None, numeric=False))
        if self.kind == "category":
            return _LevelReader(self, values)
        if values.kind == "category":
            raise TypeError(
                f"column {self.name!r} holds {values.kind} values, and held {self.kind} values in "
                "fit; convert it to the type of the fitted table."
            )
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


class Reader(ABC):
    """Positions of a column's values, block by block, and tables over those positions."""

    def __init__(self, column: Column, values: Values) -> None:
        self.column = column
        self.values = values
        self.moved = 0

    @abstractmethod
    def positions(self, rows: slice, out: Array) -> None:
        """Write the position of each value of ``rows`` into ``out`` (intp)."""

    def spread(self, per_code: Array) -> Array:
        """Return an array over positions from one over codes."""
        return per_code

    def codes(self, rows: slice, out: Array) -> None:
        """Write the code of each value of ``rows`` into ``out`` (intp)."""
        self.positions(rows, out)
        table = self.spread(np.arange(len(self.column.atoms), dtype=np.intp))
        np.take(table, out, out=out, mode="clip")

    @property
    def propagates(self) -> bool:
        """Whether missing values stay missing in the release."""
        return self.values.missing is not None and self.column.missing_code is None

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
        self.lookup = Lookup(column.atoms)

    def positions(self, rows: slice, out: Array) -> None:
        block = self.data(rows)
        if not self.lookup.find(block, out):
            self._settle(np.asarray(block, dtype=float), out)

    def _settle(self, block: FloatArray, out: Array) -> None:
        check_finite(block, self.column.name)
        codes = nearest(self.column.atoms, block)
        strange = self.column.atoms[codes] != block
        if strange.any() and self.unknown == "error":
            value = float(block[strange][0])
            whole = self.column.whole and value.is_integer()
            shown = int(value) if whole else value
            raise ValueError(_unseen_message(self.column.name, shown, numeric=True))
        self.moved += int(strange.sum())
        np.copyto(out, codes)


class _BinReader(Reader):
    def positions(self, rows: slice, out: Array) -> None:
        block = self.data(rows)
        if self.values.kind == "float":
            check_finite(block, self.column.name)
        assert self.column.edges is not None
        out[:] = np.searchsorted(self.column.edges, block, side="left")


class _LevelReader(Reader):
    def __init__(self, column: Column, values: Values) -> None:
        super().__init__(column, values)
        self._codes = _level_codes(column, values)

    def positions(self, rows: slice, out: Array) -> None:
        np.copyto(out, self.values.data[rows])
        gone = self.missing(rows)
        if gone is not None:
            out[gone] = len(self._codes) - 1

    def spread(self, per_code: Array) -> Array:
        return per_code[self._codes]


class Lookup:
    """Places of numbers among ascending atoms.

    A multiplication sends every number into one of many equal bins, and a table tells the first
    atom of each bin; a few comparisons pass over the others of a crowded bin. Where some bin is
    too crowded for that, a binary search does.

    >>> lookup = Lookup(np.array([0.0, 0.5, 2.0]))
    >>> codes = np.empty(2, dtype=np.intp)
    >>> lookup.find(np.array([2.0, 0.5]), codes), codes.tolist()
    (True, [2, 1])
    """

    def __init__(self, atoms: FloatArray) -> None:
        self.atoms = atoms
        self.low = float(atoms[0])
        self.factor, self.firsts, self.crowd = _equal_bins(atoms)
        self._scratch = np.empty((2, 0))

    def find(self, block: Array, codes: Array) -> bool:
        """Write the code of every value; return False where a value is none of the atoms."""
        if self._scratch.shape[1] < len(block):
            self._scratch = np.empty((2, len(block)))
        values, scratch = self._scratch[:, : len(block)]
        if block.dtype == np.float64 and block.flags.c_contiguous:
            values = block
        else:
            np.copyto(values, block)  # strided columns are read once
        if self.factor is None:
            codes[:] = np.searchsorted(self.atoms, values)
        else:
            self._guess(values, self.factor, codes, scratch)
        for _ in range(self.crowd):
            np.take(self.atoms, codes, out=scratch, mode="clip")
            codes += scratch < values
        np.take(self.atoms, codes, out=scratch, mode="clip")
        return bool((scratch == values).all())  # so a wrong guess, NaN too, is never taken

    def _guess(self, values: FloatArray, factor: float, codes: Array, scratch: FloatArray) -> None:
        """Write the first atom of each value's bin; anything for what lies outside all bins."""
        with np.errstate(invalid="ignore", over="ignore"):
            np.subtract(values, self.low, out=scratch)
            scratch *= factor
            np.copyto(codes, scratch, casting="unsafe")
        if self.firsts is not None:
            np.take(self.firsts, codes, out=codes, mode="clip")


def _equal_bins(atoms: FloatArray) -> tuple[float | None, Array | None, int]:
    """Return the factor to bins, the first atom of each, and how many more a bin may hold.

    Without a factor a binary search is due; without first atoms, bins and atoms are the same.
    """
    if len(atoms) == 1:
        return 0.0, None, 0
    if max(-atoms[0], atoms[-1]) > _LARGEST_NUMBER:  # their differences may be no floats
        return None, None, 0
    span, gap = float(atoms[-1] - atoms[0]), float(np.diff(atoms).min())
    n_bins = min(_MOST_BINS, 64 * len(atoms))
    if span / n_bins <= gap:  # a lattice, or nearly: a bin for every atom
        n_bins = math.ceil(span / gap)
    factor = n_bins / span * (1.0 + 1e-9)
    if not np.isfinite(factor):
        return None, None, 0
    bins = ((atoms - atoms[0]) * factor).astype(np.intp)
    crowd = int(np.bincount(bins).max()) - 1
    if crowd > _MOST_CROWDED:
        return None, None, 0
    firsts = np.searchsorted(bins, np.arange(bins[-1] + 1))
    return factor, None if len(firsts) == len(atoms) and not crowd else firsts, crowd


def nearest(atoms: FloatArray, values: FloatArray) -> Array:
    """Return the code of the nearest atom; half-way goes up.

    >>> nearest(np.array([0.0, 1.0]), np.array([0.4, 0.5, 7.0])).tolist()
    [0, 1, 1]
    """
    right = np.clip(np.searchsorted(atoms, values), 1, max(len(atoms) - 1, 1))
    right = np.minimum(right, len(atoms) - 1)
    left = np.maximum(right - 1, 0)
    with np.errstate(over="ignore"):  # a difference beyond all floats is the larger one
        closer_left = values - atoms[left] < atoms[right] - values
    return np.where(closer_left, left, right)


def learn_column(
    name: Name,
    values: Values,
    *,
    n_bins: int | None = None,
    categories: Sequence[Any] | None = None,
    missing: Missing = "error",
    weights: Array | None = None,
) -> Column:
    """Return the alphabet of a column: its distinct values, bins or levels.

    Raises
    ------
    ValueError
        If a value is missing under ``missing="error"``, infinite, or not among ``categories``.
    """
    values = values if categories is None else as_levels(values)
    check_missing(values, name, missing)
    labelled = categories is not None or values.kind == "category"
    if not present(values).size and not (labelled and missing == "category"):
        raise ValueError(f"column {name!r} has no value that is not missing; drop the column.")
    if categories is not None:
        return _declared_column(name, values, categories, missing)
    if values.kind == "category":
        return _level_column(name, values, missing)
    column = _number_column(name, values, weights)
    if values.kind == "boolean" and missing == "category":
        return _with_missing_boolean(column, values)
    return (
        _binned(column, values, n_bins, weights) if n_bins and values.kind != "boolean" else column
    )


def check_missing(values: Values, name: Name, missing: Missing) -> None:
    """Refuse missing values under ``missing="error"``, and where they have no place."""
    if values.missing is None:
        return
    count = int(values.missing.sum())
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

    Memory does not grow with the rows while the numbers are few.
    """
    data = present(values)
    kept = weights if weights is None or values.missing is None else weights[~values.missing]
    atoms = distinct_numbers(data)
    return atoms, _tally(atoms, data, kept)


def distinct_numbers(data: Array) -> FloatArray:
    """Return the ascending distinct numbers; while they are few, memory is that of a block."""
    atoms = np.unique(np.asarray(data[:BLOCK_ROWS], dtype=float))
    codes = np.empty(BLOCK_ROWS, dtype=np.intp)
    lookup = Lookup(atoms) if atoms.size and np.isfinite(atoms).all() else None
    for start in range(BLOCK_ROWS, len(data), BLOCK_ROWS):
        block = data[start : start + BLOCK_ROWS]
        if lookup is None or len(atoms) > _MOST_STREAMED_ATOMS:
            return np.unique(np.asarray(data, dtype=float)) + 0.0
        if not lookup.find(block, codes[: len(block)]):
            atoms = np.union1d(atoms, np.asarray(block, dtype=float))
            lookup = Lookup(atoms) if np.isfinite(atoms).all() else None
    return np.unique(atoms + 0.0)  # -0.0 is 0.0


def _tally(atoms: FloatArray, data: Array, weights: Array | None) -> Array:
    counts = np.zeros(len(atoms), dtype=np.int64)
    for start in range(0, len(data), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        codes = np.searchsorted(atoms, data[rows])
        part = np.bincount(codes, None if weights is None else weights[rows], len(atoms))
        counts += part.astype(np.int64)
    return counts


def _number_column(name: Name, values: Values, weights: Array | None) -> Column:
    atoms = distinct_numbers(present(values))
    check_finite(atoms, name)
    if max(abs(atoms[0]), abs(atoms[-1])) > _LARGEST_NUMBER:
        raise ValueError(
            f"column {name!r} holds {float(atoms[np.abs(atoms).argmax()])!r}, beyond "
            f"{_LARGEST_NUMBER:g}, where sums overflow; give it in another unit."
        )
    if values.kind == "integer" and max(abs(atoms[0]), abs(atoms[-1])) > LARGEST_INTEGER:
        raise ValueError(
            f"column {name!r} holds integers beyond 2^53, such as {atoms[-1]:.0f}, which float64 "
            "cannot tell apart; subtract an offset, or drop it if it is an identifier."
        )
    return Column(name, values.kind, atoms, np.ones(len(atoms), dtype=bool))


def _with_missing_boolean(column: Column, values: Values) -> Column:
    if values.missing is None:
        return column
    atoms = np.append(column.atoms, 2.0)
    known = np.ones(len(atoms), dtype=bool)
    return replace(column, atoms=atoms, known=known, missing_code=len(atoms) - 1)


def _binned(column: Column, values: Values, n_bins: int, weights: Array | None) -> Column:
    """Return the column in quantile bins, closed on the right as those of `pandas.qcut`."""
    atoms, counts = distinct(values, weights)
    cumulative = np.cumsum(counts)
    last = int(cumulative[-1]) - 1
    cuts = [_order_statistic(cumulative, last * b // n_bins) for b in range(1, n_bins)]
    ends = np.unique([*cuts, len(atoms) - 1])
    starts = np.append(0, ends[:-1] + 1)
    whole = column.kind == "integer"
    medians = [
        _median(atoms[a : b + 1], counts[a : b + 1], whole)
        for a, b in zip(starts, ends, strict=True)
    ]
    return replace(
        column,
        atoms=np.array(medians),
        known=np.ones(len(ends), dtype=bool),
        edges=atoms[ends[:-1]],
        spread=standard_deviation(atoms, counts),
    )


def standard_deviation(atoms: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column from its distinct values and their counts.

    >>> standard_deviation(np.array([0.0, 2.0]), np.array([3, 3]))
    1.0
    """
    masses = counts.astype(float)
    unit = float(np.ptp(atoms)) or 1.0  # squares of the bare numbers may leave the floats
    shifted = (atoms - atoms.min()) / unit
    centred = shifted - np.average(shifted, weights=masses)
    return unit * float(np.sqrt(np.average(centred**2, weights=masses)))


def _order_statistic(cumulative: Array, rank: int) -> int:
    """Return the position of the value with that many rows before it."""
    return int(np.searchsorted(cumulative, rank, side="right"))


def _median(atoms: FloatArray, counts: Array, whole: bool) -> float:
    """Return the median of a bin; the lower one for whole numbers, so that they stay whole."""
    cumulative = np.cumsum(counts)
    total = int(cumulative[-1])
    lower = atoms[_order_statistic(cumulative, (total - 1) // 2)]
    upper = atoms[_order_statistic(cumulative, total // 2)]
    return float(lower if whole or lower == upper else lower / 2 + upper / 2)


def as_levels(values: Values) -> Values:
    """Return a column of numbers as codes into its distinct numbers; others as they are."""
    if values.kind == "category":
        return values
    levels = np.unique(present(values))
    codes = np.searchsorted(levels, values.data)
    codes = codes if values.missing is None else np.where(values.missing, -1, codes)
    return Values("category", codes, values.missing, tuple(levels.tolist()))


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


def _level_column(name: Name, values: Values, missing: Missing) -> Column:
    assert values.levels is not None
    seen = np.zeros(len(values.levels), dtype=bool)
    seen[np.unique(present(values))] = True
    return _levelled(name, values, values.levels, seen, missing)


def _declared_column(
    name: Name, values: Values, categories: Sequence[Any], missing: Missing
) -> Column:
    levels = _checked_levels(name, categories)
    strange = [level for level in used_levels(values) if level not in set(levels)]
    if strange:
        raise ValueError(
            f"column {name!r} contains {plain(strange[0])!r}, which categories[{name!r}] does not "
            "list; add it there, or drop those rows."
        )
    return _levelled(name, values, levels, np.ones(len(levels), dtype=bool), missing)


def _checked_levels(name: Name, categories: Any) -> tuple[Any, ...]:
    listed = isinstance(categories, Iterable) and not isinstance(categories, str | Mapping | Set)
    if not listed or not all(isinstance(level, Hashable) for level in categories):
        raise TypeError(
            f"categories[{name!r}] must be a list of values in the order of their codes, "
            f"got {categories!r}."
        )
    levels = tuple(categories)
    if len(set(levels)) != len(levels) or not levels:
        raise ValueError(f"categories[{name!r}] must list distinct values, got {list(levels)!r}.")
    return levels


def used_levels(values: Values) -> list[Any]:
    """Return the levels that occur, in their order."""
    assert values.levels is not None
    return [values.levels[code] for code in np.unique(present(values))]


def _levelled(
    name: Name, values: Values, levels: tuple[Any, ...], known: Array, missing: Missing
) -> Column:
    code = None
    if missing == "category" and values.missing is not None:
        code, levels, known = len(levels), (*levels, None), np.append(known, True)
    atoms = np.arange(len(levels), dtype=float)
    return Column(name, "category", atoms, known, levels, missing_code=code)


def _level_codes(column: Column, values: Values) -> Array:
    """Return the fitted code of each level of ``values``, with that of missing at the end."""
    assert column.levels is not None
    assert values.levels is not None
    known = {level: code for code, level in enumerate(column.levels) if column.known[code]}
    codes = np.array([known.get(level, -1) for level in values.levels] + [0], dtype=np.intp)
    codes[-1] = 0 if column.missing_code is None else column.missing_code
    used = np.unique(present(values))
    strange = used[codes[used] < 0] if used.size else used
    if strange.size:
        raise ValueError(
            _unseen_message(column.name, values.levels[int(strange[0])], numeric=False)
        )
    return np.maximum(codes, 0)


def _unseen_message(name: Name, value: Any, *, numeric: bool) -> str:
    ways = (
        'pass unknown="nearest" to move it to the nearest known value, n_bins to bin the column'
        if numeric
        else "list every value in categories={column: [...]}"
    )
    return (
        f"column {name!r} contains {plain(value)!r}, which was not seen in fit; {ways}, "
        "or fit on data that has it."
    )


def hardly_repeats(n_distinct: int, n_rows: int, least: int = 20) -> bool:
    """Return whether a column looks continuous, or like an identifier.

    >>> hardly_repeats(900, 1000), hardly_repeats(5, 1000)
    (True, False)
    """
    return n_distinct >= least and 2 * n_distinct > n_rows
