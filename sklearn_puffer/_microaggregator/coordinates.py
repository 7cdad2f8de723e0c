r"""Rows as points: standardised numbers, and an indicator for each category.

.. math:: z = f \cdot \min(\max((x - c) / s, -6), 6), \qquad z_l = \tfrac{f}{2} 1[x = l]

c and s are the mean and standard deviation of the column, and f = 1. With a unit of distance w in
``weights=``, f = s / w for numbers and 1 / w for categories. A change of category adds f to the l1
distance, as two indicators change. Coordinates are rounded to multiples of a power of two, so
coarse that floats hold all products and sums in distances exactly. So distances and ties are the
same on every machine and in every order.

Means, deviations and prototypes are learnt from a sample of the distinct rows that does not depend
on their order. It is a priority sample (Duffield, Lund and Thorup 2007). A row that occurs c times
has the priority u / c, where u in (0, 1) is a digest of its content. The rows of the smallest
priorities are taken. Each has the weight max(c, 1 / t), where t is the smallest priority that is
not taken: this estimates the size of every set of rows without bias, and a frequent row is surely
taken. The sample is in the order of the digests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._numerics import sum_by_halves
from sklearn_puffer._tables import (
    LARGEST_DIGEST,
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
"""The largest sample, in distinct rows."""

MOST_CELLS = 1 << 25
"""The largest sample, in coordinates: it has fewer rows of very wide tables."""

FARTHEST = 6.0
"""The standard deviations at which numbers are clipped."""

MOST_LEVELS = 150
"""Levels of a column that have a coordinate of their own; the rarer ones share one."""

_STEP_BITS = 18
_PARTS = 64  # weights are whole numbers of 1/64 of a row
_BLOCK_ROWS = 1 << 13


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of the distinct rows of a table.

    Attributes
    ----------
    columns : dict of Values
        By name.
    labels : Values or None
        The y of each row, where there is one; rows that differ in y are distinct.
    strata : ndarray of int64 of shape (n,)
        The combination of known values of each row; rows that differ in it are distinct.
    counts : ndarray of int64 of shape (n,)
        How often each row occurs in the table.
    weights : ndarray of int64 of shape (n,)
        Sampling weights, in proportion to the number of rows of the table that each stands for;
        the counts, if the sample has all distinct rows.
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
        How often each row counts.
    most : int, default=50,000
        The sample has fewer rows if they have more than `MOST_CELLS` coordinates.
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
    positive = None if weights is None else np.flatnonzero(weights)
    digests = digests if positive is None else digests[positive]
    distinct, firsts, counts = np.unique(digests, return_index=True, return_counts=True)
    if positive is not None and weights is not None:
        # at most 2^53 rows in all: floats hold the sums
        sums = np.bincount(np.searchsorted(distinct, digests), weights[positive])
        counts, firsts = sums.astype(np.int64), positive[firsts]
    most = min(most, most_rows([len(values.levels or ()) for values in columns.values()]))
    chosen, sampling_weights = by_priority(distinct, counts, most)
    rows = firsts[chosen]
    return Sample(
        {name: values.taken(rows) for name, values in columns.items()},
        None if labels is None else labels.taken(rows),
        np.zeros(len(rows), dtype=np.int64) if strata is None else strata[rows],
        counts[chosen],
        sampling_weights,
    )


def content_digests(
    columns: Mapping[Name, Values], labels: Values | None, strata: IntArray | None
) -> IntArray:
    """Return the digest of each row: of its public values, y and stratum."""
    digests = row_digests(columns)
    if labels is not None:
        digests = row_hashes(digests, row_digests({"y": labels})) & LARGEST_DIGEST
    return digests if strata is None else row_hashes(digests, strata) & LARGEST_DIGEST


def most_rows(levels: Sequence[int]) -> int:
    """Return the largest sample size, by the number of levels of each column (0 of numbers)."""
    width = sum(min(n, MOST_LEVELS) + 2 if n else 3 for n in levels)
    return min(MOST_ROWS, MOST_CELLS // width)


def by_priority(digests: IntArray, counts: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Return the indices of the sampled rows, ascending, and their sampling weights."""
    if len(digests) <= most:
        return np.arange(len(digests)), counts
    priorities = (digests + 1.0) / (LARGEST_DIGEST + 1.0) / counts
    threshold = np.partition(priorities, most)[most]
    chosen = np.flatnonzero(priorities < threshold)
    # whole numbers, so that sums over rows do not depend on their order
    weights = np.maximum(counts[chosen], 1.0 / float(threshold))
    return chosen, np.rint(_PARTS * weights).astype(np.int64)


@dataclass(frozen=True)
class NumberAxis:
    """A column of numbers, or of dates, times or durations, which are whole numbers of a unit.

    Attributes
    ----------
    centre, scale, factor : float
        c, s and f.
    lacks : bool
        Whether the number was missing in some rows of `fit`; then two indicators say whether it is.
    unit : str or None
        The unit of dates and durations, such as "datetime64[D]".
    """

    name: Name
    kind: Kind
    centre: float
    scale: float
    factor: float
    lacks: bool
    unit: str | None = None

    @property
    def n_indicators(self) -> int:
        """The number of indicators: present and missing, if any number was missing in `fit`."""
        return 2 if self.lacks else 0

    def fitted(self, values: Values) -> Values:
        """Return the column as one of the kind that `fit` saw."""
        values = values.of_kind(self.kind)
        of_times = values.unit is not None or values.n_missing == len(values)
        if values.kind in ("category", "boolean") or (self.unit is not None and not of_times):
            was = "numbers" if self.unit is None else "dates or durations"
            raise TypeError(_of_another_kind(self.name, was, values))
        return values

    def n_unseen(self, values: Values) -> int:
        """Return in how many rows the number is missing, if it never was in `fit`."""
        return 0 if self.lacks else values.n_missing

    def numbers(self, values: Values, rows: slice) -> FloatArray:
        """Return the coordinates of some rows, not rounded; 0 where the number is missing."""
        block = values.data[rows].astype(np.float64)
        if values.missing is not None:
            block[values.missing[rows]] = self.centre
        check_finite(block, self.name)
        with np.errstate(over="ignore"):  # infinity is clipped, too
            block -= self.centre
            block /= self.scale
        np.clip(block, -FARTHEST, FARTHEST, out=block)
        block *= self.factor
        return block

    def indicators(self, values: Values, rows: slice) -> IntArray:
        """Return which indicator is set in some rows: 1 where the number is missing, else 0."""
        if values.missing is None:
            return np.zeros(len(values.data[rows]), dtype=np.intp)
        return values.missing[rows].astype(np.intp)


@dataclass(frozen=True)
class LevelAxis:
    """A column of categories or booleans.

    Attributes
    ----------
    factor : float
        f.
    levels : tuple
        The levels with an indicator of their own; None is a missing value, if `fit` saw one.
    rarer : tuple
        The other levels that `fit` saw, which share one indicator, the last.
    """

    name: Name
    kind: Kind
    factor: float
    levels: tuple[Any, ...]
    rarer: tuple[Any, ...]
    unit: ClassVar[None] = None

    @property
    def n_indicators(self) -> int:
        """The number of indicators."""
        return len(self.levels) + bool(self.rarer)

    def fitted(self, values: Values) -> Values:
        """Return the column as one of categories."""
        if self.kind == "boolean":
            values = values.of_kind(self.kind)
            if values.kind != "boolean":
                raise TypeError(_of_another_kind(self.name, "booleans", values))
        return values.as_levels()

    def n_unseen(self, values: Values) -> int:
        """Return how many rows have a level that `fit` has not seen."""
        counts = np.bincount(values.filled(-1) + 1, minlength=len(values.levels or ()) + 1)
        return int(counts[self._indicator_of_each(values) < 0].sum())

    def indicators(self, values: Values, rows: slice) -> IntArray:
        """Return which indicator is set in some rows, -1 for none."""
        codes = values.data[rows]
        if values.missing is not None:
            codes = np.where(values.missing[rows], -1, codes)
        return np.take(self._indicator_of_each(values), codes + 1)

    def _indicator_of_each(self, values: Values) -> IntArray:
        """Return the indicator of a missing value, then of each level of a column."""
        indicators = {level: len(self.levels) for level in self.rarer}
        indicators |= {level: k for k, level in enumerate(self.levels)}
        levels = (None, *(values.levels or ()))
        return np.array([indicators.get(level, -1) for level in levels], dtype=np.intp)


Axis = NumberAxis | LevelAxis


def _of_another_kind(name: Name, was: str, values: Values) -> str:
    return (
        f"column {quoted(name)} held {was} in fit, and holds {values.kind} values now; "
        f"{values.way_to_numbers()}convert the column to what it was."
    )


@dataclass(frozen=True)
class Scores:
    """Scores of a row, as further coordinates: linear predictions of the label from the others.

    Attributes
    ----------
    slopes : tuple of tuple of float
        For each score the coefficient of each coordinate, multiples of one power of two.
    offsets : tuple of float
        The intercept of each.
    farthest : float
        Scores are clipped to plus or minus this.
    """

    slopes: tuple[tuple[float, ...], ...]
    offsets: tuple[float, ...]
    farthest: float

    def __len__(self) -> int:
        return len(self.offsets)

    def of(self, coordinates: Coordinates, points: EncodedRows) -> FloatArray:
        """Return the scores of rows encoded without scores, shape (n, n_scores)."""
        slopes = np.array(self.slopes).T
        n_numbers = points.numbers.shape[1]
        totals = points.numbers @ slopes[:n_numbers] + np.array(self.offsets)
        start = n_numbers
        for axis, indicators in zip(coordinates.indicator_axes, points.indicators, strict=True):
            part = coordinates.indicator_value(axis) * slopes[start : start + axis.n_indicators]
            table = np.concatenate([part, np.zeros((1, len(self)))])
            totals += np.take(table, indicators, axis=0, mode="wrap")
            start += axis.n_indicators
        return coordinates.rounded(np.clip(totals, -self.farthest, self.farthest))


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Coordinates of some rows.

    Attributes
    ----------
    numbers : ndarray of shape (n, n_numbers)
        Numbers, then scores.
    indicators : list of ndarray of int of shape (n,)
        For each axis with indicators, which one is set; -1 for none.
    """

    numbers: FloatArray
    indicators: Sequence[IntArray]

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Coordinates:
    """How rows become points; see the module.

    Any row that can be read has coordinates. A level that `fit` has not seen sets no indicator, and
    a missing number lies at the mean.

    Attributes
    ----------
    axes : tuple of NumberAxis or LevelAxis
        One for each column.
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
        ValueError
            If a number is infinite.
        """
        of, weights = units or {}, sample.weights
        columns = sample.columns.items()
        return cls(tuple(_axis(name, values, weights, of.get(name)) for name, values in columns))

    @cached_property
    def number_axes(self) -> list[NumberAxis]:
        """The axes of numbers, in their order."""
        return [axis for axis in self.axes if isinstance(axis, NumberAxis)]

    @property
    def n_numbers(self) -> int:
        """The number of coordinates that are numbers: those of columns, then scores."""
        return len(self.number_axes) + (0 if self.scores is None else len(self.scores))

    @cached_property
    def indicator_axes(self) -> list[Axis]:
        """The axes that have indicators, in their order."""
        return [axis for axis in self.axes if axis.n_indicators]

    @cached_property
    def step(self) -> float:
        """The power of two that coordinates are multiples of."""
        largest = max(axis.factor for axis in self.axes)
        return math.ldexp(1.0, math.frexp(max(largest, 1.0))[1] - 1 - _STEP_BITS)

    def read(self, table: AnyTable) -> Rows:
        """Return the rows of a table, to be encoded.

        Raises
        ------
        TypeError
            If a column holds another kind of values than in `fit`.
        """
        return self.rows({axis.name: values_of(table, axis) for axis in self.axes})

    def rows(self, columns: Mapping[Name, Values]) -> Rows:
        """Return rows by their columns, with dates in the unit of `fit`, to be encoded."""
        return Rows(self, {axis.name: axis.fitted(columns[axis.name]) for axis in self.axes})

    def rounded(self, numbers: FloatArray) -> FloatArray:
        """Round numbers to multiples of the step, in place, and return them."""
        numbers /= self.step
        np.rint(numbers, out=numbers)
        numbers *= self.step
        return numbers

    def indicator_value(self, axis: Axis) -> float:
        """Return the coordinate of an indicator that is set, a multiple of the step."""
        factor = axis.factor if isinstance(axis, LevelAxis) else 1.0
        return float(self.rounded(np.array([0.5 * factor]))[0])


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, to be encoded block by block.

    Attributes
    ----------
    coordinates : Coordinates
    columns : dict of Values
        Of the kinds that `fit` saw.
    """

    coordinates: Coordinates
    columns: Mapping[Name, Values] = field(repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def unseen(self) -> dict[Name, int]:
        """Return the number of rows with an unseen category or missing value, by column.

        No number is unseen. Columns without such rows are left out.
        """
        counts = {a.name: a.n_unseen(self.columns[a.name]) for a in self.coordinates.axes}
        return {name: count for name, count in counts.items() if count}

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows that fit into the cache."""
        for start in range(0, len(self), _BLOCK_ROWS):
            yield slice(start, min(start + _BLOCK_ROWS, len(self)))

    def points(self, rows: slice) -> EncodedRows:
        """Return the coordinates of some rows.

        Raises
        ------
        ValueError
            If a number is infinite.
        """
        space = self.coordinates
        numbers = np.empty((rows.stop - rows.start, len(space.number_axes)))
        for k, axis in enumerate(space.number_axes):
            numbers[:, k] = axis.numbers(self.columns[axis.name], rows)
        axes = space.indicator_axes
        indicators = [axis.indicators(self.columns[axis.name], rows) for axis in axes]
        points = EncodedRows(space.rounded(numbers), indicators)
        if space.scores is None:
            return points
        return EncodedRows(np.hstack([numbers, space.scores.of(space, points)]), indicators)

    def dense(self) -> FloatArray:
        """Return all coordinates, shape (n_rows, n_coordinates).

        Numbers and scores come first, then the indicators of each axis of `indicator_axes`.
        """
        axes, n_numbers = self.coordinates.indicator_axes, self.coordinates.n_numbers
        ends = np.cumsum([n_numbers, *(axis.n_indicators for axis in axes)])
        every = np.zeros((len(self), int(ends[-1])))
        for rows in self.blocks():
            points, block = self.points(rows), every[rows]
            block[:, :n_numbers] = points.numbers
            for axis, start, indicators in zip(axes, ends[:-1], points.indicators, strict=True):
                has = np.flatnonzero(indicators >= 0)
                block[has, start + indicators[has]] = self.coordinates.indicator_value(axis)
        return every


def _axis(name: Name, values: Values, weights: IntArray, unit: float | None) -> Axis:
    """Return the axis of one column."""
    if values.kind in ("float", "integer"):
        there = slice(None) if values.missing is None else ~values.missing
        data = values.data[there].astype(np.float64)
        check_finite(data, name)
        centre, scale = _mean_and_spread(data, weights[there].astype(np.float64))
        factor, lacks = 1.0 if unit is None else scale / unit, values.missing is not None
        return NumberAxis(name, values.kind, centre, scale, factor, lacks, values.unit)
    factor = 1.0 if unit is None else 1.0 / unit
    coded = values.as_levels()
    levels = (*(coded.levels or ()), None)
    counts = np.bincount(coded.filled(-1) % len(levels), weights, minlength=len(levels))
    seen = np.flatnonzero(counts)
    common = np.sort(seen[np.argsort(-counts[seen], kind="stable")[:MOST_LEVELS]])
    own, rarer = (tuple(levels[k] for k in some) for some in (common, np.setdiff1d(seen, common)))
    return LevelAxis(name, values.kind, factor, own, rarer)


def _mean_and_spread(data: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return mean and standard deviation without overflow; a constant has the deviation 1."""
    halves = data / 2.0  # their differences are finite
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
