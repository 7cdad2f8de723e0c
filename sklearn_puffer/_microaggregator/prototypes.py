"""Typical rows of groups of similar ones, and which of them a row becomes: the nearest in l1.

k-means finds groups among a sample of rows. The typical row of a group has the median of numbers,
the lower one of two, so that it is a value that a row had, and the most frequent category, the
first of several in their order; it lacks a number that most of the rows lack. Then rows go to the
nearest typical row and typical rows are taken anew, a few times, which lowers the mean change.
Neither secrets nor the order of rows have a part in it.

*Scores.* What a label makes of a row, as further coordinates: prototypes part what a model needs. A
ridge regression of numbers, or a logistic regression of each class but the most frequent against
all others, on the coordinates of the rows. Its score is standardised, clipped, and multiplied by a
weight. It is a function of the row; the label itself is never released, nor needed later.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._microaggregator.coordinates import (
    Axis,
    Coordinates,
    LevelAxis,
    NumberAxis,
    Points,
    Rows,
    Sample,
    Scores,
    of_two,
)
from sklearn_puffer._tables import Finished, Name, Table, Values, check_finite

_STARTS = 4
_MOST_STEPS = 100  # of k-means
_MOST_ROUNDS = 10  # of typical rows taken anew
_BLOCK_CELLS = 1 << 17  # distances held at a time: they stay in the cache
_APART = 2.0  # by which k-means takes categories to be further apart than they are in l1


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Typical rows.

    Attributes
    ----------
    coordinates : Coordinates
    rows : dict of Values
        The typical rows by column, in the columns' own types; no two have the same coordinates.
    sizes : ndarray of int64 of shape (n_prototypes,)
        To how many rows of the sample each is the nearest.
    """

    coordinates: Coordinates
    rows: Mapping[Name, Values]
    sizes: IntArray

    @classmethod
    def learnt(
        cls, coordinates: Coordinates, sample: Sample, n_prototypes: int, min_size: int
    ) -> Prototypes:
        """Return at most ``n_prototypes``.

        Each is typical of at least ``min_size`` rows, and the nearest one to as many. Where no more
        combinations of values occur, each is its own prototype if it has so many rows.

        Raises
        ------
        ValueError
            If there are fewer than ``min_size`` rows.
        """
        n_rows = int(sample.counts.sum())
        if n_rows < min_size:
            raise ValueError(
                f"X has {n_rows} rows, fewer than min_size={min_size}, of which a typical row is "
                "made; fit on more rows, or lower min_size."
            )
        rows = coordinates.rows(sample.columns)
        points = rows.points(slice(0, len(rows)))
        groups = _groups(rows, sample.weights, min(n_prototypes, n_rows // min_size))
        found = cls._typical(coordinates, sample, groups)
        for _ in range(_MOST_ROUNDS):
            found, groups = found._large_enough(points, sample.counts, min_size)
            better = cls._typical(coordinates, sample, groups)
            if better.is_at(found):
                break
            found = better
        return found._large_enough(points, sample.counts, min_size)[0]

    @classmethod
    def _typical(cls, coordinates: Coordinates, sample: Sample, groups: IntArray) -> Prototypes:
        """Return the different typical rows of groups, ascending in their coordinates."""
        n_groups = int(groups.max()) + 1
        rows = {
            name: typical(values, groups, sample.weights, n_groups)
            for name, values in sample.columns.items()
        }
        places = coordinates.rows(rows).dense()
        firsts = np.unique(places, axis=0, return_index=True)[1]
        return cls(coordinates, rows, np.zeros(n_groups, dtype=np.int64))._taken(firsts)

    def _taken(self, which: IntArray) -> Prototypes:
        """Return some of the prototypes."""
        taken = {name: values.taken(which).without_unused() for name, values in self.rows.items()}
        rows = {  # without masks of nothing, of which files know none
            name: replace(values, missing=None) if not values.n_missing else values
            for name, values in taken.items()
        }
        return Prototypes(self.coordinates, rows, self.sizes[which])

    def is_at(self, other: Prototypes) -> bool:
        """Return whether the typical rows have the coordinates of others."""
        here, there = (self.coordinates.rows(each.rows).dense() for each in (self, other))
        return np.array_equal(here, there)

    def _large_enough(
        self, points: Points, counts: IntArray, min_size: int
    ) -> tuple[Prototypes, IntArray]:
        """Return the prototypes nearest to ``min_size`` rows, and the nearest one of each point.

        The smallest group is dissolved first, of several the last; its rows go to the nearest of
        the other prototypes.
        """
        distances = np.concatenate([block for _, block in self._distances(points)])
        groups, n_groups = distances.argmin(axis=1), len(self)
        sizes = np.bincount(groups, counts, n_groups)
        left = np.ones(n_groups, dtype=bool)
        while True:
            of_left = np.where(left, sizes, np.inf)
            smallest = n_groups - 1 - int(of_left[::-1].argmin())
            if sizes[smallest] >= min_size:
                break
            left[smallest], distances[:, smallest] = False, np.inf
            moved = np.flatnonzero(groups == smallest)
            groups[moved] = distances[moved].argmin(axis=1)
            sizes = np.bincount(groups, counts, n_groups)
        kept = replace(self._taken(np.flatnonzero(left)), sizes=sizes[left].astype(np.int64))
        return kept, (np.cumsum(left) - 1)[groups]

    def __len__(self) -> int:
        return len(self.sizes)

    def assign(self, rows: Rows) -> IntArray:
        """Return the prototype of each row: the nearest in l1, of several the first.

        Raises
        ------
        ValueError
            If a number is infinite.
        """
        codes = np.empty(len(rows), dtype=np.intp)
        for block in rows.blocks():
            codes[block] = self.nearest(rows.points(block))
        return codes

    def nearest(self, points: Points) -> IntArray:
        """Return the prototype of each point; see `assign`."""
        codes = np.empty(len(points), dtype=np.intp)
        for block, distances in self._distances(points):
            codes[block] = distances.argmin(axis=1)
        return codes

    def _distances(self, points: Points) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the l1 distances of blocks of points to all prototypes.

        They are whole multiples of the step, and so exact. What lies in none of the places of an
        axis is equally far from all of them.
        """
        size = max(_BLOCK_CELLS // len(self), 1)
        for start in range(0, len(points), size):
            block = slice(start, min(start + size, len(points)))
            numbers = points.numbers[block]
            distances = (
                cdist(numbers, self.points.numbers, "cityblock")
                if numbers.shape[1]
                else np.zeros((len(numbers), len(self)))
            )
            for table, places in zip(self._apart, points.places, strict=True):
                distances += np.take(table, places[block], axis=0, mode="wrap")
            yield block, distances

    @cached_property
    def points(self) -> Points:
        """The typical rows as points."""
        return self.coordinates.rows(self.rows).points(slice(0, len(self)))

    @cached_property
    def _apart(self) -> list[FloatArray]:
        """For each axis of places, how far each is from the prototypes; last, that of none."""
        space, tables = self.coordinates, []
        for axis, typical_places in zip(space.placed_axes, self.points.places, strict=True):
            every = np.append(np.arange(axis.n_halves), -1)[:, None]
            differs = (every != typical_places) & (every >= 0)
            tables.append(2.0 * space.half(axis) * differs)
        return tables

    def finished(self, table: Table, codes: IntArray) -> dict[Name, Finished]:
        """Return the columns of typical rows in the place of the rows of a table, to be built."""
        return finished_columns(table, self.rows, dict.fromkeys(self.rows, codes))


def finished_columns(
    table: Table, rows: Mapping[Name, Values], codes: Mapping[Name, IntArray]
) -> dict[Name, Finished]:
    """Return columns that take the values of a few rows by their codes, to be built."""
    plain = {
        name: values.data.dtype
        for name, values in rows.items()
        if values.levels is None and values.missing is None and values.unit is None
    }
    columns = table.empty_columns(plain) if plain else {}
    for name, column in columns.items():
        np.take(rows[name].data, codes[name], out=column, mode="clip")
    return {
        name: Finished(columns[name]) if name in columns else _finished(values, codes[name])
        for name, values in rows.items()
    }


def _finished(values: Values, codes: IntArray) -> Finished:
    gone = None if values.missing is None else values.missing[codes]
    return Finished(values.data[codes], gone, values.levels, unit=values.unit)


def _groups(rows: Rows, weights: IntArray, most: int) -> IntArray:
    """Return a group of similar rows for each row: by its own coordinates if these are few."""
    points, space = rows.dense(), rows.coordinates
    distinct, back = np.unique(points, axis=0, return_inverse=True)
    if len(distinct) <= most:
        return back.ravel()
    from sklearn.cluster import KMeans  # heavy, and not needed where rows are released
    from sklearn.exceptions import ConvergenceWarning

    distinct[:, space.n_numbers :] *= _APART
    means = KMeans(most, n_init=_STARTS, max_iter=_MOST_STEPS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = means.fit(distinct, sample_weight=np.bincount(back.ravel(), weights))
    return np.unique(found.labels_, return_inverse=True)[1].ravel()[back.ravel()]


def typical(values: Values, groups: IntArray, weights: IntArray, n_groups: int) -> Values:
    """Return the typical value of each group of some rows, none of which is empty.

    >>> ages = Values("integer", np.array([20, 30, 40, 50]))
    >>> typical(ages, np.array([0, 0, 0, 1]), np.ones(4, dtype=np.int64), 2).data.tolist()
    [30, 50]
    """
    if values.kind in ("float", "integer"):
        return _medians(values, groups, weights, n_groups)
    coded = of_two(values) if values.kind == "boolean" else values
    assert coded.levels is not None
    width = len(coded.levels) + 1  # missing values come last
    counts = np.bincount(groups * width + coded.filled(-1) % width, weights, n_groups * width)
    modes = counts.reshape(n_groups, width).argmax(axis=1)
    gone = modes == width - 1
    if values.kind == "boolean":
        return replace(values, data=modes == 1, missing=_some(gone))
    return replace(values, data=np.where(gone, -1, modes), missing=_some(gone)).without_unused()


def _medians(values: Values, groups: IntArray, weights: IntArray, n_groups: int) -> Values:
    """Return the lower median of the numbers of each group; missing, if more than half of it is."""
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    lacking = np.bincount(groups, weights * gone, n_groups)
    sizes = np.bincount(groups, weights * ~gone, n_groups).astype(np.int64)
    there = np.flatnonzero(~gone)
    order = there[np.lexsort((values.data[there], groups[there]))]
    middle = np.cumsum(sizes) - sizes + (sizes - 1) // 2
    places = np.searchsorted(np.cumsum(weights[order]), middle, side="right")
    lacks = lacking > sizes
    data = np.zeros(n_groups, values.data.dtype)
    data[~lacks] = values.data[order[places[~lacks]]]
    if values.kind == "float":
        data += data.dtype.type(0.0)  # -0.0 is 0.0
        data[lacks] = np.nan
    return replace(values, data=data, missing=_some(lacks))


def _some(mask: Array) -> Array | None:
    return mask if mask.any() else None


class Changes:
    r"""What it changes on average to release the typical row of b for a row of prototype a.

    .. math:: d(a, b) = \frac{1}{N_a} \sum_{x \in a} \sum_k |z_k(x) - z_k(t_b)|

    over columns, where a category that is another one counts 2 halves. Scores of labels count
    apart, in `scores`. Rows are added in blocks. Sums are whole multiples of the step of the
    coordinates, so they depend on the order of rows no more than counts do.

    Parameters
    ----------
    prototypes : Prototypes
    """

    def __init__(self, prototypes: Prototypes) -> None:
        self._prototypes = prototypes
        space, count = prototypes.coordinates, len(prototypes)
        # those of labels come last, and are not released
        self._numbers = [_NumberSums(column, space.step) for column in prototypes.points.numbers.T]
        self._places = [
            _PlaceCounts(axis, places)
            for axis, places in zip(space.placed_axes, prototypes.points.places, strict=True)
        ]
        self._sizes = np.zeros(count)

    def add(self, points: Points, codes: IntArray, weights: Array | None = None) -> None:
        """Add some rows, which are of these prototypes."""
        self._sizes += np.bincount(codes, weights, len(self._sizes))
        for numbers, column in zip(self._numbers, points.numbers.T, strict=True):
            numbers.add(column, codes, weights)
        for counts, places in zip(self._places, points.places, strict=True):
            counts.add(places, codes, weights)

    @property
    def sizes(self) -> IntArray:
        """How many rows of each prototype were added."""
        return self._sizes.astype(np.int64)

    def by_column(self) -> dict[Name, FloatArray]:
        """Return the mean change of each column, shape (M, M): rows of a released as b."""
        space = self._prototypes.coordinates
        of_axis: dict[Name, FloatArray] = {}
        parts = [
            *zip(space.number_axes, (sums.totals() for sums in self._numbers), strict=False),
            *zip(space.placed_axes, self._mismatches(), strict=True),
        ]
        sizes = np.maximum(self._sizes, 1.0)[:, None]
        for axis, totals in parts:
            of_axis[axis.name] = of_axis.get(axis.name, 0.0) + totals / sizes
        return {axis.name: of_axis[axis.name] for axis in space.axes}

    def mean(self) -> FloatArray:
        """Return d, shape (M, M)."""
        return np.asarray(sum(self.by_column().values()))

    def scores(self) -> FloatArray:
        """Return the mean change of what labels make of the rows, shape (M, M)."""
        labels = self._numbers[len(self._prototypes.coordinates.number_axes) :]
        totals = sum((sums.totals() for sums in labels), np.zeros(2 * (len(self._sizes),)))
        return np.asarray(totals / np.maximum(self._sizes, 1.0)[:, None])

    def unchanged(self) -> dict[Name, FloatArray]:
        """Return the share of the rows of a whose column is that of b, shape (M, M), by name.

        Numbers are the same where their coordinates are.
        """
        space, sizes = self._prototypes.coordinates, np.maximum(self._sizes, 1.0)[:, None]
        numbers = zip(space.number_axes, self._numbers, strict=False)
        same = {axis.name: sums.same() for axis, sums in numbers}
        for axis, counts in zip(space.placed_axes, self._places, strict=True):
            if not isinstance(axis, NumberAxis):
                same[axis.name] = counts.same()
        return {axis.name: same[axis.name] / sizes for axis in space.axes}

    def _mismatches(self) -> list[FloatArray]:
        space = self._prototypes.coordinates
        return [
            2.0 * space.half(axis) * (self._sizes[:, None] - counts.same())
            for axis, counts in zip(space.placed_axes, self._places, strict=True)
        ]


class _NumberSums:
    """How many numbers of each cell lie between typical ones, and their sums."""

    def __init__(self, typical: FloatArray, step: float) -> None:
        self._step = step
        self._ends = np.unique(typical)
        self._rank = np.searchsorted(self._ends, typical)
        # below the first end, at it, between the first two, at the second, and so on
        self._counts, self._sums = np.zeros((2, len(typical), 2 * len(self._ends) + 1))

    def add(self, column: FloatArray, codes: IntArray, weights: Array | None) -> None:
        """Add the numbers of some rows."""
        gap = np.searchsorted(self._ends, column)
        at = np.take(self._ends, gap, mode="clip") == column
        cells = codes * self._counts.shape[1] + 2 * gap + at
        steps = column / self._step
        size = self._counts.size
        self._counts += np.bincount(cells, weights, size).reshape(self._counts.shape)
        weighed = steps if weights is None else steps * weights
        self._sums += np.bincount(cells, weighed, size).reshape(self._sums.shape)

    def totals(self) -> FloatArray:
        """Return the sums of the distances to each typical number, shape (M, M)."""
        counts, sums = np.cumsum(self._counts, axis=1), np.cumsum(self._sums, axis=1)
        places, ends = 2 * self._rank + 1, self._ends[self._rank] / self._step
        below, sum_below = counts[:, places], sums[:, places]
        above, sum_above = counts[:, -1:] - below, sums[:, -1:] - sum_below
        return np.asarray(ends * (below - above) - sum_below + sum_above) * self._step

    def same(self) -> FloatArray:
        """Return how many numbers of a are the typical one of b, shape (M, M)."""
        return np.asarray(self._counts[:, 2 * self._rank + 1])


class _PlaceCounts:
    """How many rows of each cell have each category."""

    def __init__(self, axis: Axis, typical: IntArray) -> None:
        self._typical, self._width = typical, axis.n_halves + 1
        self._counts = np.zeros((len(typical), self._width))
        self._none = [self._width - 1]
        if isinstance(axis, LevelAxis) and axis.rarer:
            self._none.append(axis.n_halves - 1)

    def add(self, places: IntArray, codes: IntArray, weights: Array | None) -> None:
        """Add the categories of some rows; -1, the last of the counts, stands for none."""
        cells = codes * self._width + places % self._width
        shape = self._counts.shape
        self._counts += np.bincount(cells, weights, self._counts.size).reshape(shape)

    def same(self) -> FloatArray:
        """Return how many rows of a have the category of b, shape (M, M).

        Of rarer categories, which share a place, none counts as that of b.
        """
        told = self._counts.copy()
        told[:, self._none] = 0.0
        return np.asarray(told[:, self._typical])


# ------------------------------------------------------------------------------------- the scores

FARTHEST_SCORE = 4.0
"""The standard deviations at which scores are clipped."""

MOST_CLASSES = 20
"""Whole numbers of more different values are taken as numbers, not as classes."""

_MOST_CONTRASTS = 10
_MOST_STEPS_OF_SCORES = 200
_SLOPE_BITS = 20


def with_scores(coordinates: Coordinates, sample: Sample, weight: float) -> Coordinates:
    """Return the coordinates with those of the labels of a sample; of one label there are none.

    Rows that lack their label are left out.

    Raises
    ------
    ValueError
        If a label is infinite.
    """
    if sample.labels is None or weight == 0.0:
        return coordinates
    labels = sample.labels
    if labels.kind == "float":
        check_finite(labels.present, "y")
    there = np.arange(len(labels)) if labels.missing is None else np.flatnonzero(~labels.missing)
    points = coordinates.rows(sample.columns).dense()[there]
    stood_for = sample.weights[there]
    lines = [
        _standardised(points, slopes, offset, stood_for)
        for slopes, offset in _regressions(points, labels.taken(there), stood_for)
    ]
    lines = [line for line in lines if line is not None]
    if not lines:
        return coordinates
    slopes = _coarse(weight * np.array([line[0] for line in lines if line]))
    offsets = [weight * line[1] for line in lines if line]
    scores = Scores(tuple(map(tuple, slopes.tolist())), tuple(offsets), weight * FARTHEST_SCORE)
    return replace(coordinates, scores=scores)


def _regressions(
    points: FloatArray, labels: Values, weights: IntArray
) -> Iterator[tuple[FloatArray, float]]:
    """Yield slopes and offset of each regression."""
    from sklearn.exceptions import ConvergenceWarning  # heavy, and not needed for most fits
    from sklearn.linear_model import LogisticRegression, Ridge

    if not len(labels):
        return
    if _is_number(labels):
        ridge = Ridge().fit(points, labels.data.astype(np.float64), sample_weight=weights)
        yield ridge.coef_, float(ridge.intercept_)
        return
    for of_class in _contrasts(labels, weights):
        model = LogisticRegression(max_iter=_MOST_STEPS_OF_SCORES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(points, of_class, sample_weight=weights)
        yield model.coef_[0], float(model.intercept_[0])


def _is_number(labels: Values) -> bool:
    if labels.kind not in ("float", "integer"):
        return False
    distinct = np.unique(labels.data)
    return len(distinct) > MOST_CLASSES or bool((distinct % 1 != 0).any())


def _contrasts(labels: Values, weights: IntArray) -> list[Array]:
    """Return for each class but the most frequent, of several the first, which rows are of it."""
    codes = labels.as_levels().data
    counts = np.bincount(codes, weights)
    by_size = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    return [codes == k for k in by_size[1 : _MOST_CONTRASTS + 1]]


def _standardised(
    points: FloatArray, slopes: FloatArray, offset: float, weights: IntArray
) -> tuple[FloatArray, float] | None:
    """Return the line with mean 0 and standard deviation 1 over the rows, None if it is flat."""
    heights = points @ slopes + offset
    mean = float(np.average(heights, weights=weights))
    spread = math.sqrt(float(np.average((heights - mean) ** 2, weights=weights)))
    if not spread > 1e-9 * (1.0 + abs(mean)):
        return None
    return slopes / spread, (offset - mean) / spread


def _coarse(slopes: FloatArray) -> FloatArray:
    """Return multiples of a power of two: floats hold their sums over coordinates exactly."""
    step = math.ldexp(1.0, math.frexp(float(np.abs(slopes).max()))[1] - _SLOPE_BITS)
    return np.asarray(np.rint(slopes / step) * step)
