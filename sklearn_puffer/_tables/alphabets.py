"""The alphabet of a column, fixed in `fit`: its numbers, its bins or its labels.

Quantile bins of a column of numbers, from its distinct values and how often each occurs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sklearn_puffer._base import (
    Array,
    FloatArray,
    listed,
    plain,
    quoted,
    refuse_masked,
    sum_by_halves,
)
from sklearn_puffer._tables.columns import Column
from sklearn_puffer._tables.counting import distinct, distinct_numbers
from sklearn_puffer._tables.lookup import Other, Unknown, with_other
from sklearn_puffer._tables.values import (
    Missing,
    Name,
    Values,
    as_levels,
    check_finite,
    check_integers,
    check_missing,
    present,
    used_levels,
)

# beyond these the powers in losses and spreads are no floats; a table of that kind has odd units
_LARGEST_NUMBER = 1e120
_SMALLEST_SPAN = 1e-120
# what survives of a column of more values than four times these is computed from that many
_MOST_RUNS, _LEAST_RUN = 1 << 20, 4


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
    return _binned(column, counts, n_bins)


def _with_missing_boolean(column: Column, values: Values) -> Column:
    if values.missing is None:
        return column
    atoms = np.append(column.atoms, 2.0)
    known = np.ones(len(atoms), dtype=bool)
    return replace(column, atoms=atoms, known=known, missing_code=len(atoms) - 1)


def _binned(column: Column, counts: Array, n_bins: int) -> Column:
    atoms, whole = column.atoms, column.kind == "integer"
    bins = quantile_bins(atoms, counts, n_bins, whole=whole)
    return replace(
        column,
        atoms=bins.values,
        known=np.ones(len(bins.values), dtype=bool),
        edges=bins.edges,
        merged=bins.merged,
        spread=standard_deviation(atoms, counts),
        raw=_in_runs(atoms, counts, bins.edges, whole=whole),
    )


def _in_runs(
    atoms: FloatArray, counts: Array, edges: FloatArray, *, whole: bool
) -> tuple[FloatArray, Array]:
    """Return values and their counts; of very many the middles of runs, each within a bin."""
    length = len(atoms) // _MOST_RUNS
    if length < _LEAST_RUN:
        return atoms, counts
    starts = np.union1d(np.arange(0, len(atoms), length), np.searchsorted(atoms, edges, "right"))
    ends = atoms[np.append(starts[1:], len(atoms)) - 1]
    middles = atoms[starts] / 2 + ends / 2
    return np.floor(middles) if whole else middles, np.add.reduceat(counts, starts)


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


class Bins(NamedTuple):
    """Bins of a column, ascending.

    Attributes
    ----------
    values : ndarray of shape (n,)
        What stands for each bin: the median of its rows.
    edges : ndarray of shape (n - 1,)
        Upper ends of all bins but the last, each of which belongs to its bin.
    merged : bool
        Whether some bin holds more than one value.
    """

    values: FloatArray
    edges: FloatArray
    merged: bool


def quantile_bins(atoms: FloatArray, counts: Array, n_bins: int, *, whole: bool) -> Bins:
    """Return bins with the edges of `pandas.qcut`; no more values than bins stay as they are.

    Edges that fall on one value are one edge, so that there may be fewer bins than asked for.

    >>> quantile_bins(np.array([1.0, 2.0, 3.0]), np.array([4, 1, 1]), 2, whole=True).values.tolist()
    [1.0, 2.0]
    >>> quantile_bins(np.array([0.0, 1.0]), np.array([1, 9]), 2, whole=True).values.tolist()
    [0.0, 1.0]
    """
    if len(atoms) <= n_bins:
        return Bins(atoms, atoms[:-1], merged=False)
    rows = _RowsInOrder(counts)
    cuts = [rows.place((rows.n - 1) * b // n_bins) for b in range(1, n_bins)]
    ends = np.unique([*cuts, len(atoms) - 1])
    stops = [rows.up_to(end) for end in ends.tolist()]
    medians = [
        _median(atoms, rows, start, stop, whole)
        for start, stop in zip([0, *stops[:-1]], stops, strict=True)
    ]
    return Bins(np.array(medians), atoms[ends[:-1]], merged=True)


def standard_deviation(atoms: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column from its distinct values and their counts.

    >>> standard_deviation(np.array([0.0, 2.0]), np.array([3, 3]))
    1.0
    """
    unit = float(np.ptp(atoms)) or 1.0  # squares of the bare numbers may leave the floats
    shifted = (atoms - atoms.min()) / unit
    if is_once(counts):
        shifted -= sum_by_halves(shifted) / len(counts)
        shifted *= shifted
        return unit * math.sqrt(sum_by_halves(shifted) / len(counts))
    masses = counts.astype(float)
    total, scratch = sum_by_halves(masses), np.empty_like(shifted)
    shifted -= sum_by_halves(np.multiply(shifted, masses, out=scratch)) / total
    shifted *= shifted
    return unit * math.sqrt(sum_by_halves(np.multiply(shifted, masses, out=scratch)) / total)


def is_once(counts: Array) -> bool:
    """Return whether everything counts once.

    >>> is_once(np.array([1, 1])), is_once(np.array([0, 2]))
    (True, False)
    """
    return bool(len(counts) and counts.min() == 1 and counts.max() == 1)


class _RowsInOrder:
    """The rows of a column in the order of their values, by the place of each distinct value."""

    def __init__(self, counts: Array) -> None:
        self.cumulative = None if is_once(counts) else np.cumsum(counts)
        self.n = len(counts) if self.cumulative is None else int(self.cumulative[-1])

    def place(self, row: int) -> int:
        """Return the place of the value of a row."""
        if self.cumulative is None:
            return row
        return int(np.searchsorted(self.cumulative, row, side="right"))

    def up_to(self, place: int) -> int:
        """Return how many rows there are up to a place, those of its value included."""
        return place + 1 if self.cumulative is None else int(self.cumulative[place])


def _median(atoms: FloatArray, rows: _RowsInOrder, start: int, stop: int, whole: bool) -> float:
    """Return the median of some rows; the lower one for whole numbers, so that they stay whole."""
    lower = atoms[rows.place((start + stop - 1) // 2)]
    upper = atoms[rows.place((start + stop) // 2)]
    return float(lower if whole or lower == upper else lower / 2 + upper / 2)
