r"""Rows as points: numbers in standard deviations, and half a unit for each category.

.. math:: z = f \cdot \min(\max((x - c) / s, -6), 6), \qquad z_l = \tfrac{f}{2} 1[x = l]

with c and s the mean and standard deviation of the column and f = 1, or f = s / w where w is its
unit of distance (1 / w for categories). So a category that changes counts f in the l1 distance.
Coordinates are rounded to multiples of a power of two, so coarse that floats hold all products and
sums that distances take: these are the same to the bit on every machine and in every order, and
ties are ties everywhere.

They are learnt from a sample that does not depend on the order of rows. Rows are known by a digest
of their content. Equal rows are one row with a count, and the rows are in the order of their
digests. Where more are distinct than are wanted, they are sampled with priorities (Duffield, Lund
and Thorup 2007): a row of count c has the priority u / c, where u, from 0 to 1, is its digest.
Those of the smallest priorities are taken, and stand for max(c, 1 / t) rows each, t being the
smallest priority that is left out. That estimates the size of every set of rows without bias, and
what occurs often is surely taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray, check_positive
from sklearn_puffer._numerics import sum_by_halves
from sklearn_puffer._tables import (
    LARGEST_DIGEST,
    UNITS,
    AnyTable,
    Kind,
    Name,
    Values,
    check_finite,
    row_digests,
    row_hashes,
    values_of,
)
from sklearn_puffer._words import quoted

MOST_ROWS = 50_000
"""Distinct rows that are learnt from."""

MOST_CELLS = 1 << 25
"""Coordinates of all of them: of very wide tables fewer rows are learnt from."""

FARTHEST = 6.0
"""The standard deviations at which numbers are clipped."""

MOST_LEVELS = 150
"""Levels of a column that have a coordinate of their own; the rarer ones share one."""

_STEP_BITS = 18
_PARTS = 64  # of a row, to which weights are rounded
_BLOCK_ROWS = 1 << 13


@dataclass(frozen=True, eq=False)
class Sample:
    """Distinct rows of a table.

    Attributes
    ----------
    columns : dict of Values
        By name.
    labels : Values or None
        The y of each row, where there is one; rows of another y are other rows.
    strata : ndarray of int64 of shape (n,)
        The combination of known values of each row; rows of another one are other rows.
    counts : ndarray of int64 of shape (n,)
        How many rows of the table are equal to each.
    weights : ndarray of int64 of shape (n,)
        In proportion to the rows of the table that each stands for; the counts, if all distinct
        rows are here.
    """

    columns: Mapping[Name, Values]
    labels: Values | None
    strata: IntArray
    counts: IntArray
    weights: IntArray

    def __len__(self) -> int:
        return len(self.counts)


def sample_rows(
    columns: Mapping[Name, Values],
    labels: Values | None = None,
    weights: Array | None = None,
    most: int = MOST_ROWS,
    strata: IntArray | None = None,
) -> Sample:
    """Return at most ``most`` distinct rows, the same whatever the order of the rows.

    Parameters
    ----------
    columns : dict of Values
        As `first_values` reads them: dates and durations in whole numbers.
    labels : Values, optional
        What a model of the released rows is to predict.
    weights : ndarray of int of shape (n_rows,), optional
        How many rows each row stands for.
    most : int, default=50,000
        Fewer are taken of tables that have more than some hundred coordinates.
    strata : ndarray of int of shape (n_rows,), optional
        The combination of known values of each row.

    Examples
    --------
    >>> ages = Values("integer", np.array([30, 20, 30]))
    >>> sample = sample_rows({"age": ages})
    >>> sorted(zip(sample.columns["age"].data.tolist(), sample.counts.tolist()))
    [(20, 1), (30, 2)]
    """
    digests = content_digests(columns, labels, strata)
    there = None if weights is None else np.flatnonzero(weights)
    digests = digests if there is None else digests[there]
    distinct, firsts, counts = np.unique(digests, return_index=True, return_counts=True)
    if there is not None and weights is not None:
        # at most 2^53 rows in all: floats hold the sums
        sums = np.bincount(np.searchsorted(distinct, digests), weights[there])
        counts, firsts = sums.astype(np.int64), there[firsts]
    most = min(most, most_rows([len(values.levels or ()) for values in columns.values()]))
    chosen, stood_for = by_priority(distinct, counts, most)
    rows = firsts[chosen]
    return Sample(
        {name: values.taken(rows) for name, values in columns.items()},
        None if labels is None else labels.taken(rows),
        np.zeros(len(rows), dtype=np.int64) if strata is None else strata[rows],
        counts[chosen],
        stood_for,
    )


def content_digests(
    columns: Mapping[Name, Values], labels: Values | None, strata: IntArray | None
) -> IntArray:
    """Return the digest of what is learnt from each row: public values, y, and stratum."""
    digests = row_digests(columns)
    if labels is not None:
        digests = row_hashes(digests, row_digests({"y": labels})) & LARGEST_DIGEST
    return digests if strata is None else row_hashes(digests, strata) & LARGEST_DIGEST


def most_rows(levels: Sequence[int]) -> int:
    """Return how many rows are learnt from at most, of columns of so many levels; 0 of numbers."""
    width = sum(min(n, MOST_LEVELS) + 2 if n else 3 for n in levels)
    return min(MOST_ROWS, MOST_CELLS // width)


def by_priority(digests: IntArray, counts: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Return which distinct rows are taken, ascending, and the weights of these."""
    if len(digests) <= most:
        return np.arange(len(digests)), counts
    priorities = (digests + 1.0) / (LARGEST_DIGEST + 1.0) / counts
    left_out = np.partition(priorities, most)[most]
    chosen = np.flatnonzero(priorities < left_out)
    # whole numbers, so that sums over rows do not depend on their order
    stood_for = np.maximum(counts[chosen], 1.0 / float(left_out))
    return chosen, np.rint(_PARTS * stood_for).astype(np.int64)


@dataclass(frozen=True)
class NumberAxis:
    """A column of numbers, or of dates, times or durations, which are whole numbers of a unit.

    Attributes
    ----------
    centre, scale, factor : float
        c, s and f.
    lacks : bool
        Whether `fit` saw rows that lack the number, which have a coordinate for that.
    unit : str or None
        Of dates and durations, such as "datetime64[D]".
    """

    name: Name
    kind: Kind
    centre: float
    scale: float
    factor: float
    lacks: bool
    unit: str | None = None

    @property
    def n_halves(self) -> int:
        """How many coordinates of 0 or one half it has: present, missing."""
        return 2 if self.lacks else 0

    @property
    def half(self) -> float:
        """The coordinate of what a row has."""
        return 0.5

    def is_sound(self) -> bool:
        """Return whether a record that was read is one of numbers."""
        timed = self.unit is None or (self.unit in UNITS and self.kind == "integer")
        return self.kind in ("float", "integer") and min(self.scale, self.factor) > 0.0 and timed

    def read(self, table: AnyTable) -> Values:
        """Return the column of a table."""
        return values_of(table, self)

    def fitted(self, values: Values) -> Values:
        """Return the column as one of the fitted kind."""
        values = values.of_kind(self.kind)
        of_times = values.unit is not None or values.n_missing == len(values)
        if values.kind in ("category", "boolean") or (self.unit is not None and not of_times):
            was = "numbers" if self.unit is None else "dates or durations"
            raise TypeError(_of_another_kind(self.name, was, values))
        return values

    def n_unseen(self, values: Values) -> int:
        """Return in how many rows the number is missing, where it never was in `fit`."""
        return 0 if self.lacks else values.n_missing

    def numbers(self, values: Values, rows: slice) -> FloatArray:
        """Return the standardised numbers of some rows, 0 where they are missing."""
        block, gone = _rows_of(values, rows)
        block = block.astype(np.float64)
        if gone is not None:
            block[gone] = self.centre
        check_finite(block, self.name)
        with np.errstate(over="ignore"):  # beyond all floats is beyond the farthest, too
            block -= self.centre
            block /= self.scale
        np.clip(block, -FARTHEST, FARTHEST, out=block)
        block *= self.factor
        return block

    def places(self, values: Values, rows: slice) -> IntArray:
        """Return 1 where the number is missing, else 0."""
        block, gone = _rows_of(values, rows)
        return (np.zeros(len(block), dtype=bool) if gone is None else gone).astype(np.intp)


@dataclass(frozen=True)
class LevelAxis:
    """A column of categories or booleans.

    Attributes
    ----------
    factor : float
        f.
    levels : tuple
        The levels that have coordinates, None among them if `fit` saw rows that lack a value.
    rarer : tuple
        The other levels that `fit` saw, which share one coordinate, the last.
    """

    name: Name
    kind: Kind
    factor: float
    levels: tuple[Any, ...]
    rarer: tuple[Any, ...]

    @property
    def n_halves(self) -> int:
        """How many coordinates of 0 or one half it has."""
        return len(self.levels) + bool(self.rarer)

    @property
    def half(self) -> float:
        """The coordinate of what a row has."""
        return 0.5 * self.factor

    def is_sound(self) -> bool:
        """Return whether a record that was read is one of levels."""
        every = {*self.levels, *self.rarer}
        distinct = len(every) == len(self.levels) + len(self.rarer)
        return self.kind in ("category", "boolean") and self.factor > 0.0 and distinct

    def read(self, table: AnyTable) -> Values:
        """Return the column of a table."""
        return table.values(self.name)

    def fitted(self, values: Values) -> Values:
        """Return the column as one of categories."""
        if self.kind == "category":
            return values.as_levels()
        values = values.of_kind(self.kind)
        if values.kind != "boolean":
            raise TypeError(_of_another_kind(self.name, "booleans", values))
        return of_two(values)

    def n_unseen(self, values: Values) -> int:
        """Return how many rows have a level that `fit` has not seen."""
        counts = np.bincount(values.filled(-1) + 1, minlength=len(values.levels or ()) + 1)
        return int(counts[self._place_of_each(values) < 0].sum())

    def places(self, values: Values, rows: slice) -> IntArray:
        """Return which coordinate is not 0 in each of some rows; -1 stands for none of them."""
        block, gone = _rows_of(values, rows)
        codes = block if gone is None else np.where(gone, -1, block)
        return np.take(self._place_of_each(values), codes + 1)

    def _place_of_each(self, values: Values) -> IntArray:
        """Return the places of a missing value and of each level."""
        place_of = {level: len(self.levels) for level in self.rarer}
        place_of |= {level: place for place, level in enumerate(self.levels)}
        levels = (None, *(values.levels or ()))
        return np.array([place_of.get(level, -1) for level in levels], dtype=np.intp)


Axis = NumberAxis | LevelAxis


def of_two(values: Values) -> Values:
    """Return booleans as codes into False and True."""
    return replace(values, kind="category", data=values.data.astype(np.intp), levels=(False, True))


def _rows_of(values: Values, rows: slice) -> tuple[Array, BoolArray | None]:
    return values.data[rows], None if values.missing is None else values.missing[rows]


def _of_another_kind(name: Name, was: str, values: Values) -> str:
    return (
        f"column {quoted(name)} held {was} in fit, and holds {values.kind} values now; convert it "
        "to what it was."
    )


@dataclass(frozen=True)
class Scores:
    """Scores of a row, which are linear in its other coordinates: what a label makes of it.

    Attributes
    ----------
    slopes : tuple of tuple of float
        For each score a number for each coordinate, multiples of one power of two.
    offsets : tuple of float
        What is added to each.
    farthest : float
        Where scores are clipped.
    """

    slopes: tuple[tuple[float, ...], ...]
    offsets: tuple[float, ...]
    farthest: float

    def __len__(self) -> int:
        return len(self.offsets)

    def of(self, coordinates: Coordinates, points: Points) -> FloatArray:
        """Return the scores of some points, which have no scores yet, shape (n, n_scores)."""
        slopes = np.array(self.slopes).T
        n_numbers = points.numbers.shape[1]
        totals = points.numbers @ slopes[:n_numbers] + np.array(self.offsets)
        start = n_numbers
        for axis, places in zip(coordinates.placed_axes, points.places, strict=True):
            part = coordinates.half(axis) * slopes[start : start + axis.n_halves]
            table = np.concatenate([part, np.zeros((1, len(self)))])
            totals += np.take(table, places, axis=0, mode="wrap")
            start += axis.n_halves
        return coordinates.rounded(np.clip(totals, -self.farthest, self.farthest))


@dataclass(frozen=True, eq=False)
class Points:
    """Some rows as points.

    Attributes
    ----------
    numbers : ndarray of shape (n, n_numbers)
        The coordinates that may be any number.
    places : list of ndarray of int of shape (n,)
        For each other axis which of its coordinates is not 0; -1 for none.
    """

    numbers: FloatArray
    places: Sequence[IntArray]

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of rows of some columns; see the module.

    Any row that can be read has them: a level that `fit` has not seen is none, a number that is
    missing lies at the mean.

    Attributes
    ----------
    axes : tuple of NumberAxis or LevelAxis
        One a column.
    scores : Scores or None
        Further coordinates, which are functions of the others.
    """

    axes: tuple[Axis, ...]
    scores: Scores | None = None

    @classmethod
    def learnt(cls, sample: Sample, units: Mapping[Name, float] | None = None) -> Coordinates:
        """Return the coordinates in which a sample of rows is standardised.

        Parameters
        ----------
        sample : Sample
        units : dict of float, optional
            The unit of distance of columns; by default the standard deviation, or a change of
            category.

        Raises
        ------
        TypeError, ValueError
            If a number is infinite, or a unit not positive.
        """
        units = units or {}
        for name, unit in units.items():
            check_positive(unit, f"weights[{name!r}]")
        axes = [
            _axis(name, values, sample.weights, units.get(name))
            for name, values in sample.columns.items()
        ]
        return cls(tuple(axes))

    @property
    def names(self) -> list[Name]:
        """The names of the columns."""
        return [axis.name for axis in self.axes]

    @cached_property
    def number_axes(self) -> list[NumberAxis]:
        """The axes of numbers, in their order."""
        return [axis for axis in self.axes if isinstance(axis, NumberAxis)]

    @property
    def n_numbers(self) -> int:
        """How many coordinates may be any number: those of columns, then those of labels."""
        return len(self.number_axes) + (0 if self.scores is None else len(self.scores))

    @cached_property
    def placed_axes(self) -> list[Axis]:
        """The axes that have coordinates of 0 or one half, in their order."""
        return [axis for axis in self.axes if axis.n_halves]

    @cached_property
    def step(self) -> float:
        """What coordinates are multiples of, a power of two."""
        largest = max(axis.factor for axis in self.axes)
        return math.ldexp(1.0, math.frexp(max(largest, 1.0))[1] - 1 - _STEP_BITS)

    def fit_together(self) -> bool:
        """Return whether the scores have slopes for just the coordinates that there are."""
        width = len(self.number_axes) + sum(axis.n_halves for axis in self.placed_axes)
        return self.scores is None or (
            len(self.scores.slopes) == len(self.scores) > 0
            and all(len(slopes) == width for slopes in self.scores.slopes)
        )

    def read(self, table: AnyTable) -> Rows:
        """Return the rows of a table, to be had as points.

        Raises
        ------
        TypeError
            If a column holds another kind of values than in `fit`.
        """
        return self.rows({axis.name: axis.read(table) for axis in self.axes})

    def rows(self, columns: Mapping[Name, Values]) -> Rows:
        """Return rows by their columns, with dates in the unit of `fit`; see `read`."""
        return Rows(self, {axis.name: axis.fitted(columns[axis.name]) for axis in self.axes})

    def of(self, table: AnyTable) -> FloatArray:
        """Return all coordinates of the rows of a table, shape (n_rows, n_coordinates).

        Numbers come first, then for each axis of `placed_axes` those of 0 or one half.
        """
        return self.read(table).dense()

    def rounded(self, numbers: FloatArray) -> FloatArray:
        """Return multiples of the step, in the place of the numbers."""
        numbers /= self.step
        np.rint(numbers, out=numbers)
        numbers *= self.step
        return numbers

    def half(self, axis: Axis) -> float:
        """Return one half of what a change of category counts, a multiple of the step."""
        return float(self.rounded(np.array([axis.half]))[0])


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table that are read block by block as points.

    Attributes
    ----------
    coordinates : Coordinates
    columns : dict of Values
        As the kinds that `fit` saw.
    """

    coordinates: Coordinates
    columns: Mapping[Name, Values] = field(repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def unseen(self) -> dict[Name, int]:
        """Return how many rows have a category, or a gap, of which `fit` saw none, by column.

        Of numbers no value is unseen. Columns without such rows are left out.
        """
        counts = {a.name: a.n_unseen(self.columns[a.name]) for a in self.coordinates.axes}
        return {name: count for name, count in counts.items() if count}

    def blocks(self) -> Iterator[slice]:
        """Yield the rows in blocks that stay in the cache."""
        for start in range(0, len(self), _BLOCK_ROWS):
            yield slice(start, min(start + _BLOCK_ROWS, len(self)))

    def points(self, rows: slice) -> Points:
        """Return some rows as points.

        Raises
        ------
        ValueError
            If a number is infinite.
        """
        space = self.coordinates
        numbers = np.empty((rows.stop - rows.start, len(space.number_axes)))
        for k, axis in enumerate(space.number_axes):
            numbers[:, k] = axis.numbers(self.columns[axis.name], rows)
        places = [axis.places(self.columns[axis.name], rows) for axis in space.placed_axes]
        points = Points(space.rounded(numbers), places)
        if space.scores is None:
            return points
        return Points(np.hstack([numbers, space.scores.of(space, points)]), places)

    def dense(self) -> FloatArray:
        """Return all coordinates, shape (n_rows, n_coordinates)."""
        axes, n_numbers = self.coordinates.placed_axes, self.coordinates.n_numbers
        ends = np.cumsum([n_numbers, *(axis.n_halves for axis in axes)])
        every = np.zeros((len(self), int(ends[-1])))
        for rows in self.blocks():
            points, block = self.points(rows), every[rows]
            block[:, :n_numbers] = points.numbers
            for axis, start, places in zip(axes, ends[:-1], points.places, strict=True):
                has = np.flatnonzero(places >= 0)
                block[has, start + places[has]] = self.coordinates.half(axis)
        return every


def _axis(name: Name, values: Values, weights: IntArray, unit: float | None) -> Axis:
    """Return how one column becomes coordinates."""
    if values.kind in ("float", "integer"):
        return _number_axis(name, values, weights, unit)
    factor = 1.0 if unit is None else 1.0 / unit
    coded = of_two(values) if values.kind == "boolean" else values
    levels = (*(coded.levels or ()), None)
    counts = np.bincount(coded.filled(-1) % len(levels), weights, minlength=len(levels))
    seen = np.flatnonzero(counts)
    common = np.sort(seen[np.argsort(-counts[seen], kind="stable")[:MOST_LEVELS]])
    rarer = np.setdiff1d(seen, common)
    return LevelAxis(
        name,
        values.kind,
        factor,
        tuple(levels[k] for k in common),
        tuple(levels[k] for k in rarer),
    )


def _number_axis(name: Name, values: Values, weights: IntArray, unit: float | None) -> NumberAxis:
    gone = values.missing
    there = slice(None) if gone is None else ~gone
    data = values.data[there].astype(np.float64)
    check_finite(data, name)
    centre, scale = _mean_and_spread(data, weights[there].astype(np.float64))
    factor = 1.0 if unit is None else scale / unit
    return NumberAxis(name, values.kind, centre, scale, factor, gone is not None, values.unit)


def _mean_and_spread(data: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return mean and standard deviation, of numbers of any size; the spread of one value is 1."""
    halves = data / 2.0  # whose differences are floats
    low = halves.min(initial=np.inf)
    shifted = halves - low
    unit = float(shifted.max(initial=0.0))
    if unit == 0.0:
        return (2.0 * float(low) if len(data) else 0.0), 1.0
    shifted /= unit
    total = sum_by_halves(weights)
    mean = sum_by_halves(shifted * weights) / total
    spread = math.sqrt(sum_by_halves((shifted - mean) ** 2 * weights) / total)
    return 2.0 * (float(low) + unit * mean), (unit * (2.0 * spread)) or 1.0
