"""Typical rows (prototypes) of groups of similar rows; a row is assigned to the nearest in l1.

k-means finds groups in a sample of rows. The prototype of a group has the lower median of each
number, which is a value of some row, or a missing one if more than half are missing. It has the
most frequent category, the first in their order among ties. Then rows are assigned to the nearest
prototype, and prototypes are computed again, a few times; this lowers the mean distance. Neither
secrets nor the order of rows have a part in it.

*Scores* are further coordinates, with which prototypes separate what a model of y needs: the
predictions of a ridge regression, if y is a number, or of a logistic regression of each class but
the most frequent against all others, on the coordinates of the rows. A score is standardised,
clipped, and multiplied by a weight. It is a function of the row: y itself is never released, nor
needed at `transform`.

*Drawn columns.* With ``values="drawn"`` columns are drawn from the fitted rows of the released
cell, in bins. The cell of a prototype is the fitted rows that are assigned to it. A bin, of the
whole table, has at least ``min_size`` fitted rows, and its median, or most frequent category, is
released for all of them: the value of one person alone would reveal that person's cell despite the
channel. Given the cell, columns are drawn independently, in proportion to the counts of its rows in
the bins. What this adds to the loss of a fitted row is in `fitted_row_loss`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._microaggregator.coordinates import (
    Axis,
    Coordinates,
    EncodedRows,
    LevelAxis,
    NumberAxis,
    Rows,
    Sample,
    Scores,
)
from sklearn_puffer._microaggregator.program import whole_rows
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._tables import Finished, Name, Table, Values, check_finite

_STARTS = 4
_MOST_STEPS = 100  # of k-means
_MOST_ROUNDS = 10  # of assignments and prototypes in turn
_BLOCK_CELLS = 1 << 17  # distances in memory at a time, which fit into the cache
_INDICATOR_FACTOR = 2.0  # of indicators in k-means, whose distance is l2


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Typical rows.

    Attributes
    ----------
    coordinates : Coordinates
    rows : dict of Values
        The typical rows by column, in the columns' own types; no two have the same coordinates.
    sizes : ndarray of int64 of shape (n_prototypes,)
        Rows of the sample that are assigned to each.
    """

    coordinates: Coordinates
    rows: Mapping[Name, Values]
    sizes: IntArray

    @classmethod
    def learnt(
        cls, coordinates: Coordinates, sample: Sample, n_prototypes: int, min_size: int
    ) -> Prototypes:
        """Return at most ``n_prototypes``, each assigned at least ``min_size`` rows of the sample.

        If no more combinations of values occur than that, each with so many rows is a prototype.

        Raises
        ------
        ValueError
            If there are fewer than ``min_size`` rows.
        """
        n_rows = int(sample.counts.sum())
        if n_rows < min_size:
            raise ValueError(
                f"X has {n_rows} rows, fewer than min_size={min_size}, the least for a typical "
                "row; fit on more rows, or lower min_size."
            )
        rows = coordinates.rows(sample.columns)
        points = rows.points(slice(0, len(rows)))
        groups = _groups(rows, sample.weights, min(n_prototypes, n_rows // min_size))
        found = cls._typical(coordinates, sample, groups)
        for _ in range(_MOST_ROUNDS):
            found, groups = found._large_enough(points, sample.counts, min_size)
            better = cls._typical(coordinates, sample, groups)
            here, there = (coordinates.rows(each.rows).dense() for each in (better, found))
            if np.array_equal(here, there):
                break
            found = better
        return found._large_enough(points, sample.counts, min_size)[0]

    @classmethod
    def _typical(cls, coordinates: Coordinates, sample: Sample, groups: IntArray) -> Prototypes:
        """Return the distinct prototypes of groups, ascending in their coordinates."""
        n_groups = int(groups.max()) + 1
        rows = {
            name: typical(values, groups, sample.weights, n_groups)
            for name, values in sample.columns.items()
        }
        points = coordinates.rows(rows).dense()
        firsts = np.unique(points, axis=0, return_index=True)[1]
        return cls(coordinates, rows, np.zeros(n_groups, dtype=np.int64))._taken(firsts)

    def _taken(self, which: IntArray) -> Prototypes:
        """Return some of the prototypes."""
        taken = {name: values.taken(which).without_unused() for name, values in self.rows.items()}
        rows = {  # files have no masks without a missing value
            name: replace(values, missing=None) if not values.n_missing else values
            for name, values in taken.items()
        }
        return Prototypes(self.coordinates, rows, self.sizes[which])

    def _large_enough(
        self, points: EncodedRows, counts: IntArray, min_size: int
    ) -> tuple[Prototypes, IntArray]:
        """Return the prototypes that have ``min_size`` rows, and that of each point.

        The smallest group is dissolved first, the last among ties, and its rows are assigned to the
        nearest of the other prototypes.
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
        """Return the prototype of each row: the nearest in l1, the first among ties.

        Raises
        ------
        ValueError
            If a number is infinite.
        """
        codes = np.empty(len(rows), dtype=np.intp)
        for block in rows.blocks():
            codes[block] = self.nearest(rows.points(block))
        return codes

    def nearest(self, points: EncodedRows) -> IntArray:
        """Return the prototype of each point; see `assign`."""
        codes = np.empty(len(points), dtype=np.intp)
        for block, distances in self._distances(points):
            codes[block] = distances.argmin(axis=1)
        return codes

    def _distances(self, points: EncodedRows) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the l1 distances of blocks of points to all prototypes.

        They are whole multiples of the step, and so exact. Where a point sets no indicator of an
        axis, the axis adds nothing to any of its distances.
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
            for table, indicators in zip(self._indicator_distances, points.indicators, strict=True):
                distances += np.take(table, indicators[block], axis=0, mode="wrap")
            yield block, distances

    @cached_property
    def points(self) -> EncodedRows:
        """The typical rows as points."""
        return self.coordinates.rows(self.rows).points(slice(0, len(self)))

    @cached_property
    def _indicator_distances(self) -> list[FloatArray]:
        """For each axis with indicators, their distances to the prototypes; last, 0 for none."""
        space, tables = self.coordinates, []
        for axis, own in zip(space.indicator_axes, self.points.indicators, strict=True):
            every = np.append(np.arange(axis.n_indicators), -1)[:, None]
            differs = (every != own) & (every >= 0)
            tables.append(2.0 * space.indicator_value(axis) * differs)
        return tables


def finished_columns(
    table: Table, rows: Mapping[Name, Values], codes: Mapping[Name, IntArray]
) -> dict[Name, Finished]:
    """Return columns of a table with the values of ``rows`` at ``codes``, to be built."""
    plain = {
        name: values.data.dtype
        for name, values in rows.items()
        if values.levels is None and values.missing is None and values.unit is None
    }
    columns = table.empty_columns(plain) if plain else {}
    for name, column in columns.items():
        np.take(rows[name].data, codes[name], out=column, mode="clip")
    finished = {}
    for name, values in rows.items():
        if name in columns:
            finished[name] = Finished(columns[name])
            continue
        which = codes[name]
        gone = None if values.missing is None else values.missing[which]
        finished[name] = Finished(values.data[which], gone, values.levels, unit=values.unit)
    return finished


def _groups(rows: Rows, weights: IntArray, most: int) -> IntArray:
    """Return the group of each row: by k-means, or by its coordinates if few are distinct."""
    points, space = rows.dense(), rows.coordinates
    distinct, back = np.unique(points, axis=0, return_inverse=True)
    if len(distinct) <= most:
        return back.ravel()
    from sklearn.cluster import KMeans  # slow to import, and not needed at transform
    from sklearn.exceptions import ConvergenceWarning

    distinct[:, space.n_numbers :] *= _INDICATOR_FACTOR
    means = KMeans(most, n_init=_STARTS, max_iter=_MOST_STEPS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = means.fit(distinct, sample_weight=np.bincount(back.ravel(), weights))
    return np.unique(found.labels_, return_inverse=True)[1].ravel()[back.ravel()]


def typical(values: Values, groups: IntArray, weights: IntArray, n_groups: int) -> Values:
    """Return the typical value of each group of rows; no group is empty.

    >>> ages = Values("integer", np.array([20, 30, 40, 50]))
    >>> typical(ages, np.array([0, 0, 0, 1]), np.ones(4, dtype=np.int64), 2).data.tolist()
    [30, 50]
    """
    if values.kind in ("float", "integer"):
        return _medians(values, groups, weights, n_groups)
    coded = values.as_levels()
    assert coded.levels is not None
    width = len(coded.levels) + 1  # missing values come last
    counts = np.bincount(groups * width + coded.filled(-1) % width, weights, n_groups * width)
    modes = counts.reshape(n_groups, width).argmax(axis=1)
    gone = modes == width - 1
    if values.kind == "boolean":
        return replace(values, data=np.array([*coded.levels, False])[modes], missing=_some(gone))
    return replace(values, data=np.where(gone, -1, modes), missing=_some(gone)).without_unused()


def _medians(values: Values, groups: IntArray, weights: IntArray, n_groups: int) -> Values:
    """Return the lower median of each group; missing if more than half of its values are."""
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


@dataclass(frozen=True, eq=False)
class MeanChanges:
    """Mean changes of the rows of prototype a that are released as the typical row of b.

    Attributes
    ----------
    by_column : dict of ndarray of shape (M, M)
        In standard deviations; a missing value is one from any other, as are categories, of which
        those too rare for an indicator of their own are never alike.
    unchanged : dict of ndarray of shape (M, M)
        The share of rows of a with the value of b. Numbers are equal if their coordinates are.
    distances : ndarray of shape (M, M)
        The sum over columns, in their units of distance.
    scores : ndarray of shape (M, M)
        The mean distance in the scores.
    """

    by_column: dict[Name, FloatArray]
    unchanged: dict[Name, FloatArray]
    distances: FloatArray
    scores: FloatArray


def mean_changes(
    prototypes: Prototypes, points: EncodedRows, codes: IntArray, weights: Array | None = None
) -> MeanChanges:
    """Return the mean changes of rows, whose prototypes are ``codes``.

    Coordinates are whole multiples of a step, so sums do not depend on the order of the rows.
    """
    space, own, n = prototypes.coordinates, prototypes.points, len(prototypes)
    weights = np.ones(len(points)) if weights is None else weights
    totals, scores = {axis.name: np.zeros((2, n, n)) for axis in space.axes}, np.zeros((n, n))
    n_columns, size = len(space.number_axes), max(_BLOCK_CELLS // n, 1)
    for start in range(0, len(points), size):
        block = slice(start, min(start + size, len(points)))
        some = EncodedRows(points.numbers[block], [each[block] for each in points.indicators])
        cells = weights[block], (codes[block], np.arange(len(some)))
        of_each = csr_array(cells, shape=(n, len(some)))
        for axis in space.axes:
            apart = _apart(axis, _column(space, some, axis), _column(space, own, axis))
            totals[axis.name] += of_each @ apart, of_each @ (apart == 0.0)
        if space.scores is not None:
            heights = some.numbers[:, n_columns:], own.numbers[:, n_columns:]
            scores += of_each @ cdist(*heights, "cityblock")
    sizes = np.maximum(np.bincount(codes, weights, n), 1.0)[:, None]
    changes, same = ({name: each[k] / sizes for name, each in totals.items()} for k in (0, 1))
    distances = np.sum([axis.factor * changes[axis.name] for axis in space.axes], axis=0)
    return MeanChanges(changes, same, distances, scores / sizes)


def _column(space: Coordinates, points: EncodedRows, axis: Axis) -> tuple[Any, IntArray]:
    """Return the numbers of a column, None of categories, and its indicators, 0 without any."""
    numbers, indicators = None, np.zeros(len(points), dtype=np.intp)
    if isinstance(axis, NumberAxis):
        numbers = points.numbers[:, space.number_axes.index(axis)]
    if axis.n_indicators:
        indicators = points.indicators[space.indicator_axes.index(axis)]
    return numbers, indicators


def _apart(axis: Axis, rows: tuple[Any, IntArray], typical: tuple[Any, IntArray]) -> Array:
    """Return the change of a column from each row to each typical row, in standard deviations."""
    (numbers, indicators), (others, wanted) = rows, typical
    differs = indicators[:, None] != wanted
    if isinstance(axis, LevelAxis):
        return np.asarray(differs | (wanted < 0) | (wanted >= len(axis.levels)))
    apart = np.abs(numbers[:, None] - others) / axis.factor
    return np.asarray(np.where((indicators[:, None] == 1) | (wanted == 1), differs, apart))


# ------------------------------------------------------------------------------------- the scores

FARTHEST_SCORE = 4.0
"""Where scores are clipped, in standard deviations."""

MOST_CLASSES = 20
"""A y of whole numbers with more distinct values is a number, not a class."""

_MOST_CONTRASTS = 10
_MOST_STEPS_OF_SCORES = 200
_SLOPE_BITS = 20


def with_scores(coordinates: Coordinates, sample: Sample, weight: float) -> Coordinates:
    """Return the coordinates with the scores of y; without any if y is constant.

    Rows whose y is missing are left out.

    Raises
    ------
    ValueError
        If a value of y is infinite.
    """
    if sample.labels is None or weight == 0.0:
        return coordinates
    labels = sample.labels
    if labels.kind == "float":
        check_finite(labels.present, "y")
    known = np.arange(len(labels)) if labels.missing is None else np.flatnonzero(~labels.missing)
    points, weights = coordinates.rows(sample.columns).dense()[known], sample.weights[known]
    lines, offsets = [], []
    for line, offset in _regressions(points, labels.taken(known), weights):
        heights = points @ line + offset
        mean = float(np.average(heights, weights=weights))
        spread = math.sqrt(float(np.average((heights - mean) ** 2, weights=weights)))
        if spread > 1e-9 * (1.0 + abs(mean)):  # else it is constant
            lines.append(line / spread)
            offsets.append(weight * ((offset - mean) / spread))
    if not lines:
        return coordinates
    slopes = weight * np.array(lines)
    # multiples of a power of two, so that sums over coordinates are exact
    step = math.ldexp(1.0, math.frexp(float(np.abs(slopes).max()))[1] - _SLOPE_BITS)
    slopes = np.rint(slopes / step) * step
    scores = Scores(tuple(map(tuple, slopes.tolist())), tuple(offsets), weight * FARTHEST_SCORE)
    return replace(coordinates, scores=scores)


def _regressions(
    points: FloatArray, labels: Values, weights: IntArray
) -> Iterator[tuple[FloatArray, float]]:
    """Yield slopes and intercept of each regression."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import, and only needed with y
    from sklearn.linear_model import LogisticRegression, Ridge

    if not len(labels):
        return
    distinct = np.unique(labels.data)
    many = len(distinct) > MOST_CLASSES or bool((distinct % 1 != 0).any())
    if many and labels.kind in ("float", "integer"):
        ridge = Ridge().fit(points, labels.data.astype(np.float64), sample_weight=weights)
        yield ridge.coef_, float(ridge.intercept_)
        return
    codes = labels.as_levels().data
    counts = np.bincount(codes, weights)
    by_size = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    for k in by_size[1 : _MOST_CONTRASTS + 1]:
        model = LogisticRegression(max_iter=_MOST_STEPS_OF_SCORES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(points, codes == k, sample_weight=weights)
        yield model.coef_[0], float(model.intercept_[0])


# ------------------------------------------------------------------------------ drawn columns

MOST_BINS = 50
"""Bins of the numbers of a column, if they are drawn."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of one column.

    Attributes
    ----------
    values : Values
        The released value of each bin.
    edges : ndarray or None
        Upper ends of all bins of numbers but the last.
    code_of : dict or None
        The bin of each category in the sample.
    rest : int
        The bin of missing numbers, or of categories that are not in the sample.
    """

    values: Values
    edges: Array | None
    code_of: Mapping[object, int] | None
    rest: int

    def codes(self, values: Values) -> IntArray:
        """Return the bin of each value of rows of the fitted table."""
        gone = values.missing
        if self.code_of is not None:
            coded = values.as_levels()
            levels = (*(coded.levels or ()), None)
            table = np.array([self.code_of.get(level, self.rest) for level in levels])
            return np.take(table, coded.filled(-1), mode="wrap")
        assert self.edges is not None
        codes = np.searchsorted(self.edges, values.of_kind(self.values.kind).data)
        return codes if gone is None else np.where(gone, self.rest, codes)


def learnt_bins(sample: Sample, min_size: int) -> dict[Name, Bins]:
    """Return bins of each column of a sample, with at least ``min_size`` of its rows each."""
    return {
        name: (_number_bins if values.kind in ("float", "integer") else _level_bins)(
            values, sample, min_size
        )
        for name, values in sample.columns.items()
    }


def _number_bins(values: Values, sample: Sample, min_size: int) -> Bins:
    """Return bins of about equally many rows; a value is never split."""
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    there = np.flatnonzero(~gone)
    atoms, back = np.unique(values.data[there], return_inverse=True)
    counts = np.bincount(back.ravel(), sample.counts[there])
    weights = np.bincount(back.ravel(), sample.weights[there])
    of_atom = _runs(counts, weights, min_size)
    n_bins = int(of_atom[-1]) + 1 if len(of_atom) else 0
    groups = np.empty(len(values), dtype=np.intp)
    groups[there] = of_atom[back.ravel()]
    has_own_bin = sample.counts[gone].sum() >= min_size  # of missing values; else the median's bin
    below = np.cumsum(weights)
    rest = n_bins if has_own_bin else int(of_atom[np.searchsorted(below, below[-1] / 2)])
    groups[gone] = rest
    n_groups = n_bins + bool(has_own_bin and gone.any())
    counted = np.where(gone & (not has_own_bin), 0, sample.weights)
    edges = atoms[np.flatnonzero(np.diff(of_atom))]
    return Bins(typical(values, groups, counted, n_groups), edges, None, rest)


def _runs(counts: Array, weights: Array, min_size: int) -> IntArray:
    """Return the bin of each distinct value, ascending, with at least ``min_size`` rows."""
    bins, n_bins = np.zeros(len(counts), dtype=np.intp), 0
    least, rows, weight = weights.sum() / MOST_BINS, 0, 0
    for k, (count, each) in enumerate(zip(counts.tolist(), weights.tolist(), strict=True)):
        bins[k], rows, weight = n_bins, rows + count, weight + each
        if rows >= min_size and weight >= least:
            n_bins, rows, weight = n_bins + 1, 0, 0
    if rows < min_size and n_bins:  # a last bin that is too small joins the one before
        bins[bins == n_bins] = n_bins - 1
    return bins


def _level_bins(values: Values, sample: Sample, min_size: int) -> Bins:
    """Return a bin for each frequent category, and one for all others.

    If the others have too few rows, the least frequent of the frequent ones joins them.
    """
    coded = values.as_levels()
    levels = (*(coded.levels or ()), None)
    codes = coded.filled(-1) % len(levels)
    counts = np.bincount(codes, sample.counts, len(levels))
    by_size = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n_apart = int((counts[by_size] >= min_size).sum())
    left = counts[by_size[n_apart:]].sum()
    if 0 < left < min_size:
        n_apart -= 1
    place = np.full(len(levels), n_apart, dtype=np.intp)
    place[by_size[:n_apart]] = np.arange(n_apart)
    n_bins = min(n_apart + 1, len(by_size))
    released = typical(values, place[codes], sample.weights, n_bins)
    code_of = {levels[k]: int(place[k]) for k in by_size}
    return Bins(released, None, code_of, n_bins - 1)


@dataclass(frozen=True, eq=False)
class ColumnSampler:
    """Draws the columns of a released row.

    Attributes
    ----------
    values : dict of Values
        For each column the released value of each bin.
    counts : dict of ndarray of int64 of shape (n_prototypes, n_bins)
        Fitted rows of each cell in each bin; no cell is empty.
    """

    values: Mapping[Name, Values]
    counts: Mapping[Name, IntArray]

    def draw(self, codes: IntArray, source: Any) -> dict[Name, IntArray]:
        """Draw the bin of each column of rows that are released as these prototypes.

        Parameters
        ----------
        codes : ndarray of int of shape (n,)
        source : object
            Its method ``words`` gives, for each column in turn, a word of 64 fair bits a row.

        Notes
        -----
        *Formal guarantees.* The probability of a bin is its share of the rows of the cell, up to
        2^-52 of it, which the largest makes up for.
        """
        size = len(codes)
        return {
            name: rows.sampler().draw(codes, np.asarray(source.words(size)))
            for name, rows in self._shares.items()
        }

    @cached_property
    def _shares(self) -> dict[Name, IntegerRows]:
        """Counts as shares of 2^62, with as many rows as targets: those behind are padding."""
        found = {}
        for name, counts in self.counts.items():
            (n_cells, n_bins), shares = counts.shape, np.eye(max(counts.shape))
            shares[:n_cells] = 0.0
            shares[:n_cells, :n_bins] = counts / counts.sum(axis=1, keepdims=True)
            found[name] = whole_rows(shares)
        return found


def column_sampler(
    bins: Mapping[Name, Bins],
    n_prototypes: int,
    columns: Mapping[Name, Values],
    codes: IntArray,
    weights: Array | None = None,
) -> ColumnSampler:
    """Return how columns are drawn, by all fitted rows, whose prototypes are ``codes``."""
    counts = {}
    for name, of in bins.items():
        shape = n_prototypes, len(of.values)
        cells = codes * shape[1] + of.codes(columns[name])
        found = np.bincount(cells, weights, math.prod(shape))
        counts[name] = found.astype(np.int64).reshape(shape)
    return ColumnSampler({name: of.values for name, of in bins.items()}, counts)


def fitted_row_loss(
    counts: IntArray, sizes: IntArray, channel: FloatArray, n_columns: int
) -> float:
    r"""Return the bound on the extra loss of drawn columns of a fitted row.

    Infinite if a prototype has no more than ``n_columns`` rows.

    Parameters
    ----------
    counts : ndarray of int of shape (n_prototypes, n_secrets)
        Rows of each protected secret.
    sizes : ndarray of int of shape (n_prototypes,)
        All rows, at least two of each prototype.
    channel : ndarray of shape (n_prototypes, n_prototypes)
        K, with rows that sum to 1.
    n_columns : int
        Columns that the reader sees together.

    Notes
    -----
    For a row that was not fitted, and for a reader who holds the fitted rows, the draw is a
    function of the released cell and adds no loss. A fitted row is itself among those that are
    drawn from. Let :math:`n_b` be the number of rows of cell b, :math:`q_s(b)` the share of secret
    s among them, and :math:`\pi_s(b)` the probability that a row of secret s that is released as b
    is of cell b. To a reader who knows the distribution of values, but not who was fitted, d
    columns of a fitted row lose at most

    .. math:: \max_{b, s} \log \frac{n_b + d \min(1 / q_s(b) - 1,\; \pi_s(b) / q_s(b))}{n_b - d}

    besides, however columns depend on each other within a cell. Proof: let F(m, C) be the expected
    product over the columns C of how many of m independent rows of the cell lie in a given bin: a
    sum over the partitions of C into k blocks, each weighted by :math:`m (m - 1) \dots (m - k +
    1)`. So :math:`F(n - 1, C) \ge (1 - d / n) F(n, C)`. Let :math:`p_S` be the probability that a
    row of the cell lies in the bins of the columns S, and :math:`r_S` that of a row of secret s, so
    that :math:`q_s r_S \le p_S`. Then :math:`F(n, C) = \sum_S p_S F(n - 1, C \setminus S)`, and
    with r in the place of p this is the product if one of the n rows has secret s: at most
    :math:`F(n, C) (1 + (1 / q_s - 1) d / n)`, and at least :math:`F(n - 1, C)`.

    Examples
    --------
    >>> counts = np.array([[20, 10], [10, 20]])
    >>> round(fitted_row_loss(counts, np.array([30, 30]), np.eye(2), n_columns=1), 3)
    0.098
    >>> round(fitted_row_loss(counts, np.array([30, 30]), np.eye(2), n_columns=5), 3)
    0.47
    """
    if n_columns >= sizes.min():
        return float("inf")
    stays = (sizes * np.diag(channel))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        own = sizes[:, None] / counts - 1.0
        released = channel.T @ counts  # of each secret: where nobody is, nobody loses
        told = np.where((stays > 0.0) & (released > 0.0), stays / released, 0.0)
    rows = sizes[:, None]
    worst = (rows + n_columns * np.minimum(own, told)) / (rows - n_columns)
    return float(np.log(worst.max()))
