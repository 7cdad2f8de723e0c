"""Rows as a swap reads them: the stratum and the cell of each, and the cost of exchanging two."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_puffer._base import Array, FloatArray, IntArray, counted, listed, quoted
from sklearn_puffer._fits import posteriors_of
from sklearn_puffer._release import CountedTable, RowGroups, check_sizes, group_codes
from sklearn_puffer._tables import (
    AnyTable,
    FeatureForm,
    Name,
    Values,
    check_finite,
    check_span,
    present,
    ranks_of,
    row_digests,
)

MOST_LEVELS = 255
"""Levels up to which boosted trees treat a column as categorical; else codes are numbers."""

BLOCK = 1 << 17
"""Rows for which a model predicts at once."""

_TOLD_APART = 1 << 53
_LEAST_ODDS = 1e-9  # of a secret; below, two secrets are distinguished as well as possible
_LEAST_SHARE = 1e-2  # of one of several secrets, below which rows are alike

Columns = Mapping[Name, Values]


def columns_of(table: AnyTable | CountedTable, names: Sequence[Name]) -> dict[Name, Values]:
    """Return columns of a table by name; their numbers must be finite."""
    columns = {name: table.values(name) for name in counted(names, "columns read")}
    for name, values in columns.items():
        if values.kind == "float" and len(numbers := present(values)):
            check_finite(numbers, name)
            check_span(name, float(numbers.min()), float(numbers.max()))
        _check_told_apart(values, name)
    return columns


def _check_told_apart(values: Values, name: Name) -> None:
    """Refuse whole numbers that differ, but not as the floats that a classifier takes."""
    numbers: Sequence[Any] = values.levels or ()
    if values.kind == "integer" and len(values.data):
        numbers = values.data.min(), values.data.max()
    whole = len(numbers) > 0 and isinstance(numbers[0], int | np.integer)  # all are of one kind
    if whole and max(abs(int(number)) for number in numbers) > _TOLD_APART:
        raise ValueError(
            f"column {quoted(name)} holds whole numbers beyond 2^53, of which classifiers take "
            "several for one; they look like ids: leave the column out of public=."
        )


@dataclass(frozen=True, eq=False)
class FoldModels:
    """One adversary's classifiers of one sensitive column, each fitted without one of the folds.

    Attributes
    ----------
    models : sequence of fitted classifiers
        The fold of a row, and so its model, is the digest of its values modulo their number.
    labels : sequence
        The secrets, as the classifiers know them.
    column : str
        The sensitive column, as an error shows it.
    """

    models: Sequence[Any]
    labels: Sequence[Any]
    column: str

    def posteriors(self, form: FeatureForm, columns: Columns, digests: Array) -> FloatArray:
        """Return the probability of each secret for each row, shape (n_rows, n_secrets)."""
        features = form.features(columns).without_many_levels(MOST_LEVELS)
        folds = digests % len(self.models)
        posteriors = np.empty((len(digests), len(self.labels)))
        for fold, model in enumerate(self.models):
            mine = np.flatnonzero(folds == fold)
            for start in range(0, len(mine), BLOCK):
                rows = mine[start : start + BLOCK]
                posteriors[rows] = posteriors_of(
                    model, features.take(rows), self.labels, self.column
                )
        return posteriors


@dataclass(frozen=True, eq=False)
class OddsCells:
    """Cells of two secrets: intervals of the log odds between them, (edge, next edge]."""

    edges: FloatArray

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.edges) + 1

    def of(self, posteriors: Sequence[FloatArray]) -> Array:
        """Return the interval of each row."""
        return np.searchsorted(self.edges, log_odds(posteriors[0]), side="left")


@dataclass(frozen=True, eq=False)
class NearestCells:
    """Cells around centres: of log posteriors of several secrets, without the rarest ones."""

    centres: FloatArray

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.centres)

    def of(self, posteriors: Sequence[FloatArray]) -> Array:
        """Return the nearest centre of each row."""
        return nearest_centres(log_posteriors(posteriors), self.centres)


def learnt_cells(
    posteriors: Sequence[FloatArray], weights: Array, count: int
) -> OddsCells | NearestCells:
    """Return at most ``count`` cells of the rows that have these posteriors.

    For two secrets cells have equally many rows, and fewer towards the ends, where rows tell most;
    else they are clusters. The result depends on the multiset of rows alone, up to the rounding of
    sums.
    """
    if len(posteriors) == 1 and posteriors[0].shape[1] == 2:
        odds = log_odds(posteriors[0])
        order = np.argsort(odds, kind="stable")
        ends = np.cumsum(weights[order])
        even = np.linspace(0.0, 1.0, count + 1)[1:-1]
        levels = (even + np.sin(np.pi * even / 2.0) ** 2) / 2.0
        edges = np.unique(odds[order][np.searchsorted(ends, levels * ends[-1])])
        return OddsCells(edges[edges < odds.max()])
    return NearestCells(learnt_centres(log_posteriors(posteriors), weights, count))


def learnt_centres(points: FloatArray, weights: Array, count: int) -> FloatArray:
    """Return at most ``count`` centres of points, shape (n, d), by k-means."""
    from sklearn.cluster import KMeans  # heavy, and rarely used

    distinct, back = np.unique(points, axis=0, return_inverse=True)
    counts = np.bincount(back.ravel(), weights, minlength=len(distinct))
    means = KMeans(min(count, len(distinct)), n_init=1, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = means.fit(distinct, sample_weight=counts)
    return np.asarray(np.unique(clusters.cluster_centers_, axis=0))


def nearest_centres(points: FloatArray, centres: FloatArray) -> Array:
    """Return the index of the centre that is nearest to each point."""
    square = (centres**2).sum(axis=1) / 2.0
    return np.asarray((square - points @ centres.T).argmin(axis=1))


def log_odds(posterior: FloatArray) -> FloatArray:
    """Return the log odds of the second secret against the first."""
    first, second = np.maximum(posterior, _LEAST_ODDS).T
    return np.asarray(np.log(second) - np.log(first))


def log_posteriors(posteriors: Sequence[FloatArray]) -> FloatArray:
    """Return the log posteriors of all classifiers side by side, each less its mean."""
    logs = [np.log(np.maximum(column, _LEAST_SHARE)) for column in posteriors]
    return np.concatenate([column - column.mean(axis=1, keepdims=True) for column in logs], axis=1)


@dataclass(frozen=True, eq=False)
class _ModelCells:
    """Cells of what classifiers say of a row."""

    form: FeatureForm
    models: Sequence[FoldModels]

    def said(self, columns: Columns, digests: Array) -> list[FloatArray]:
        """Return the posteriors of each classifier, by the model of the fold of each row."""
        return [model.posteriors(self.form, columns, digests) for model in self.models]


@dataclass(frozen=True, eq=False)
class ScoredCells(_ModelCells):
    """The cell of a row by what classifiers say of it."""

    cells: OddsCells | NearestCells

    @property
    def count(self) -> int:
        """How many cells there are."""
        return self.cells.count

    def of(self, columns: Columns, public: Sequence[Name]) -> Array:
        """Return the cell of each row."""
        return self.cells.of(self.said(columns, row_digests({n: columns[n] for n in public})))


@dataclass(frozen=True, eq=False)
class LikeCells(_ModelCells):
    """The cell of a row by what classifiers say of it and by its values: rows of a cell are alike.

    Attributes
    ----------
    distance : Distance
        Gives the units of numbers.
    centres : ndarray of shape (n_cells, n_axes)
    """

    distance: Distance
    centres: FloatArray

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.centres)

    def of(self, columns: Columns, public: Sequence[Name]) -> Array:
        """Return the cell of each row."""
        said = self.said(columns, row_digests({name: columns[name] for name in public}))
        points = likeness(columns, said, self.form, self.distance)
        cells = np.empty(len(points), dtype=np.intp)
        for start in range(0, len(points), BLOCK):
            rows = slice(start, start + BLOCK)
            cells[rows] = nearest_centres(points[rows], self.centres)
        return cells


def likeness(
    columns: Columns, said: Sequence[FloatArray], form: FeatureForm, distance: Distance
) -> FloatArray:
    """Return rows as points: log posteriors, numbers in units of change, and categories.

    Two rows whose category differs are as far apart as those whose number differs by one unit.
    """
    axes = [log_posteriors(said)]
    keys = form.features(columns).keys.T
    for (name, levels), codes in zip(form.levels.items(), keys, strict=True):
        if levels is None:  # not their ranks among these rows, which other rows would change
            codes = np.where(codes < 0, -1, columns[name].data)
        numbers = distance.numbers(name, columns[name]) if name in distance.units else None
        if numbers is not None:
            axes.append(np.nan_to_num(numbers / distance.units[name])[:, None])
        else:
            n_levels = 2 if levels is None else len(levels)
            axes.append((codes[:, None] == np.arange(n_levels)) / np.sqrt(2.0))
    return np.concatenate(axes, axis=1)


@dataclass(frozen=True, eq=False)
class ValueCells:
    """Every combination of values in `fit` is a cell of its own; other rows have no cell."""

    names: Sequence[Name]
    digests: Array

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.digests)

    def of(self, columns: Columns, public: Sequence[Name]) -> Array:
        """Return the cell of each row.

        Raises
        ------
        ValueError
            If a row has a combination of values that `fit` has not seen.
        """
        digests = row_digests({name: columns[name] for name in self.names})
        cells = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        strange = int((self.digests[cells] != digests).sum())
        if strange:
            raise ValueError(
                f"{strange} of {len(digests)} rows have values of column(s) "
                f"{listed(self.names, 10)} "
                "that no row of fit had together, and cells='values' are those of fit; fit on rows "
                "that have them, or take coarser columns."
            )
        return cells


@dataclass(frozen=True, eq=False)
class Strata:
    """Who may swap with whom: rows of the same values of some columns.

    Attributes
    ----------
    names, numbers : list of names
        The columns, none for one stratum; and the numeric ones, whose unseen values belong to the
        nearest one.
    digests : ndarray of int64 of shape (n,)
        Of the combinations of values in `fit`, ascending.
    strata : ndarray of int of shape (n,)
        The stratum of each of them.
    fixed : ndarray of int64 of shape (n,)
        The digest of its other values.
    values : ndarray of shape (n, n_numbers)
        Its numbers.
    """

    names: Sequence[Name]
    numbers: Sequence[Name]
    digests: Array
    strata: Array
    fixed: Array
    values: FloatArray

    @property
    def count(self) -> int:
        """How many strata there are."""
        return int(self.strata.max()) + 1

    def of(self, columns: Columns, n_rows: int) -> Array:
        """Return the stratum of each row.

        Raises
        ------
        ValueError
            If a row has values, other than numbers, that no row of `fit` had together.
        """
        if not self.names:
            return np.zeros(n_rows, dtype=np.intp)
        columns = {name: columns[name] for name in self.names}
        digests = row_digests(columns)
        rows = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        strange = np.flatnonzero(self.digests[rows] != digests)
        if strange.size:
            rows[strange] = self._nearest(columns, strange)
        return self.strata[rows]

    def _nearest(self, columns: Columns, rows: Array) -> Array:
        """Return the combination that is nearest in numbers, with the same other values."""
        fixed, values = fixed_and_numbers(columns, self.numbers)
        nearest = np.empty(len(rows), dtype=np.intp)
        for k, row in enumerate(rows):
            alike = np.flatnonzero(self.fixed == fixed[row])
            if not alike.size:
                others = [name for name in self.names if name not in self.numbers]
                raise ValueError(
                    f"{len(rows)} row(s) have values of column(s) {listed(others, 10)} that no row "
                    "of fit had together, and rows are exchanged among equal values of them; fit "
                    "on rows that have them, or leave columns out of known= and passed ones."
                )
            apart = np.abs(self.values[alike] - values[row]).sum(axis=1)
            nearest[k] = alike[apart.argmin()]
        return nearest


_NONE = np.zeros(1, dtype=np.int64)
ONE_STRATUM = Strata([], [], _NONE, _NONE, _NONE, np.zeros((1, 0)))
"""All rows together."""


def fixed_and_numbers(columns: Columns, numbers: Sequence[Name]) -> tuple[Array, FloatArray]:
    """Return a digest of the other columns of each row, and its numbers, shape (n, n_numbers)."""
    n_rows = len(next(iter(columns.values())))
    others = {name: values for name, values in columns.items() if name not in numbers}
    fixed = row_digests(others) if others else np.zeros(n_rows, dtype=np.int64)
    values = np.array([numbers_of(columns[name]) for name in numbers]).reshape(len(numbers), n_rows)
    gone = np.isnan(values)
    # rows that lack different numbers have other values, too
    fixed = fixed ^ (gone.T @ (1 << np.arange(len(numbers), dtype=np.int64)))
    return fixed, np.where(gone, 0.0, values).T


def numbers_of(values: Values) -> FloatArray:
    """Return the numbers of a column, NaN where they are missing."""
    numbers = values.data.astype(float)
    return numbers if values.missing is None else np.where(values.missing, np.nan, numbers)


@dataclass(frozen=True, eq=False)
class Distance:
    r"""The cost at which a row takes another's place.

    .. math:: c(x, y) = \sum_k |x_k - y_k| / w_k

    over numbers and categories with an order; another value that differs costs 1 / w_k. A number
    that is missing in one of the rows alone costs one unit.

    Attributes
    ----------
    units : dict
        w by name.
    ordered : dict
        The rank of each category, by the name of its column.
    cost : object or None
        The caller's own cost, in its place, with a method ``between``.
    """

    units: Mapping[Name, float]
    ordered: Mapping[Name, Mapping[Any, int]] = field(default_factory=dict)
    cost: Any = None

    def without(self, names: Sequence[Name]) -> Distance:
        """Return the distance in all other columns."""
        kept = {name: unit for name, unit in self.units.items() if name not in names}
        return Distance(kept or self.units, self.ordered, self.cost)

    def points(self, columns: Columns) -> Points:
        """Return rows as points."""
        numbers, codes, units = [], [], []
        for name, unit in self.units.items():
            values = columns[name]
            axis = self.numbers(name, values)
            if axis is None:
                codes.append(ranks_of(values))
                units.append(1.0 / unit)
                continue
            gone = np.isnan(axis)
            numbers.append(np.where(gone, 0.0, axis / unit))
            if gone.any() and self.cost is None:
                codes.append(gone.astype(np.intp))
                units.append(1.0)
        n_rows = len(next(iter(columns.values())))
        empty = np.zeros((0, n_rows))
        whole = np.array(codes, dtype=float) if codes else empty
        return Points(
            np.ascontiguousarray((np.array(numbers) if numbers else empty).T),
            np.ascontiguousarray(whole.T),
            np.array(units),
            self.cost,
        )

    def numbers(self, name: Name, values: Values) -> FloatArray | None:
        """Return the numbers of a column, or the ranks of its categories, NaN where missing."""
        if values.levels is None and values.kind == "boolean":
            return None
        if values.levels is None:
            return numbers_of(values)
        if name not in self.ordered:
            return None
        ranks = [self.ordered[name].get(level, np.nan) for level in (*values.levels, None)]
        numbers = np.array(ranks, dtype=float)[values.data]
        return numbers if values.missing is None else np.where(values.missing, np.nan, numbers)


@dataclass(frozen=True, eq=False)
class Points:
    """Rows as numbers and codes, which have distances."""

    numbers: FloatArray
    codes: FloatArray
    units: FloatArray
    cost: Any = None

    def taken(self, rows: Array) -> Points:
        """Return some of the rows."""
        return Points(self.numbers[rows], self.codes[rows], self.units, self.cost)

    def followed_by(self, other: Points) -> Points:
        """Return these rows and others, which are points of the same kind."""
        numbers = np.concatenate([self.numbers, other.numbers])
        return Points(numbers, np.concatenate([self.codes, other.codes]), self.units, self.cost)

    def between(self, owners: Array, others: Array) -> FloatArray:
        """Return the costs of all pairs, shape (n, m)."""
        if self.cost is not None:
            both = np.concatenate([self.numbers, self.codes], axis=1)
            return np.asarray(self.cost.between(both[owners], both[others]), dtype=float)
        costs = np.zeros((len(owners), len(others)))
        if self.numbers.shape[1]:
            costs += cdist(self.numbers[owners], self.numbers[others], "cityblock")
        if self.codes.shape[1]:
            total = self.units.sum()
            weights = self.units / total
            costs += cdist(self.codes[owners], self.codes[others], "hamming", w=weights) * total
        return costs


_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class WideRows:
    """The rows of each group, side by side.

    Attributes
    ----------
    places : ndarray of int of shape (n_groups, width)
        The rows of each group in the order of the table, and -1 behind them.
    """

    places: IntArray

    @classmethod
    def of(cls, codes: Array, width: int | None = None) -> WideRows:
        """Return the rows of groups by their codes, ``width`` or as many as the largest group has.

        >>> WideRows.of(np.array([1, 0, 1])).places.tolist()
        [[1, -1], [0, 2]]
        """
        order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
        within = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        wide = int(sizes.max()) if width is None else width
        places = np.full((len(sizes), wide), -1, dtype=np.int64)
        places[codes[order], within] = order
        return cls(places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def width(self) -> int:
        """How many rows stand side by side."""
        return int(self.places.shape[1])

    @property
    def first(self) -> Array:
        """The first row of each group."""
        return self.places[:, 0]

    @property
    def sizes(self) -> Array:
        """How many rows each group has."""
        return np.asarray((self.places >= 0).sum(axis=1))

    def columns(self, columns: Columns) -> dict[Name, Values]:
        """Return wide columns; values of rows that a group does not have are missing."""
        return {
            of_place(name, k): _taken(values, rows)
            for name, values in columns.items()
            for k, rows in enumerate(self.places.T)
        }

    def rows(self, gets: Array, groups: Array | None = None) -> tuple[Array, Array]:
        """Return the rows of groups, and the rows that they get from other groups.

        Parameters
        ----------
        gets : ndarray of int of shape (n,)
            The other groups, of equally many rows.
        groups : ndarray of int of shape (n,), optional
            The groups that get them; None for all groups in their order.
        """
        mine = self.places if groups is None else self.places[groups]
        others, there = self.places[gets], mine >= 0
        if not np.array_equal(there, others >= 0):
            raise AssertionError("groups of different sizes were exchanged")
        return mine[there], others[there]

    def row_by_row(self, gets: Array) -> Array:
        """Return whose row each row gets, from the groups that all groups get."""
        owners, sources = self.rows(gets)
        sources_of = np.empty(len(owners), dtype=np.intp)
        sources_of[owners] = sources
        return sources_of


@dataclass(frozen=True, eq=False)
class WideForm:
    """The layout of wide rows in `fit`.

    Attributes
    ----------
    column : str or int
        The column of group ids.
    width : int
        Rows of the largest group.
    public, passed : list of names
        The columns that are exchanged, and those that stay with their owners.
    """

    column: Name
    width: int
    public: list[Name]
    passed: list[Name]

    def read(self, table: AnyTable) -> tuple[WideRows, Columns]:
        """Return the wide rows of a table.

        Raises
        ------
        TypeError, ValueError
            If columns do not fit, ids are missing, or a group is larger than any of `fit`.
        """
        codes = group_codes(table, self.column)
        check_sizes(codes, RowGroups(self.column, self.width, "independent"))
        wide = WideRows.of(codes, self.width)
        return wide, self.columns(wide, columns_of(table, [*self.public, *self.passed]))

    def columns(self, wide: WideRows, columns: Columns) -> dict[Name, Values]:
        """Return the columns of wide rows, including the size of each group."""
        sizes = Values("integer", wide.sizes)
        return {**wide.columns(columns), size_of(self.column): sizes}

    def names(self, names: Sequence[Name]) -> list[Name]:
        """Return the names that columns have in wide rows."""
        return [of_place(name, k) for name in names for k in range(self.width)]

    def settings(self, by_column: Mapping[Name, Any]) -> dict[Name, Any]:
        """Return settings of columns as settings of the columns of wide rows."""
        return {
            wide_name: value
            for name, value in by_column.items()
            for wide_name in self.names([name])
        }


def size_of(column: Name) -> str:
    """Return the name of the column of group sizes."""
    return f"{column} (size)"


def of_place(name: Name, k: int) -> str:
    """Return the name of a column of the k-th row of a group.

    >>> of_place("age", 0)
    'age #1'
    """
    return f"{name} #{k + 1}"


def _taken(values: Values, rows: Array) -> Values:
    """Return values of some rows, missing where the row is -1."""
    taken, absent = values.taken(np.maximum(rows, 0)), rows < 0
    if not absent.any():
        return taken
    missing = absent if taken.missing is None else absent | taken.missing
    data = np.where(absent, np.nan, taken.data) if values.kind == "float" else taken.data
    return replace(taken, data=data, missing=missing)


class RowByRow(ClassifierMixin, BaseEstimator):
    r"""A classifier of groups by their rows, as if these were independent given the secret.

    .. math:: \log P(s \mid x_1, \ldots, x_g) = \sum_k \log \frac{P(s \mid x_k)}{P(s)} + \log P(s)

    up to a constant, with each P(s | x) of a classifier of single rows.

    Parameters
    ----------
    estimator : classifier
    columns : list of names
        Of single rows; those of the k-th row of a group are named as `of_place` does.
    size : str
        The column of group sizes.
    """

    def __init__(self, estimator: Any, columns: Sequence[Name], size: str) -> None:
        self.estimator = estimator
        self.columns = columns
        self.size = size

    def fit(self, X: Any, y: Array) -> RowByRow:
        """Learn from all rows of all groups."""
        rows, groups = self._single(X)
        labels = np.asarray(y)
        self.classes_, counts = np.unique(labels, return_counts=True)
        self.prior_ = np.log(counts / counts.sum())
        self.single_ = np.log(np.maximum(_shares(labels[groups], self.classes_), _LEAST))
        self.model_ = clone(self.estimator).fit(rows, labels[groups])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the chance of each secret for each group."""
        rows, groups = self._single(X)
        logs = np.log(np.maximum(self.model_.predict_proba(rows), _LEAST)) - self.single_
        total = np.tile(self.prior_, (len(X), 1))
        np.add.at(total, groups, logs)
        odds = np.exp(total - total.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """Return the most probable secret of each group."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _single(self, X: Any) -> tuple[Any, Array]:
        """Return the rows of groups one below the other, and the group of each."""
        sizes = X[self.size].to_numpy()
        there = [np.flatnonzero(sizes > k) for k in range(int(sizes.max()))]
        rows = {
            name: _below([X[of_place(name, k)].iloc[group] for k, group in enumerate(there)])
            for name in self.columns
        }
        return type(X)(rows), np.concatenate(there)


def _below(columns: Sequence[Any]) -> Any:
    """Return columns of one type, one below the other."""
    first = columns[0]
    if str(first.dtype) != "category":
        return np.concatenate([np.asarray(column, dtype=float) for column in columns])
    codes = np.concatenate([np.asarray(column.cat.codes) for column in columns])
    return type(first.array).from_codes(codes, dtype=first.dtype)


def _shares(labels: Array, classes: Array) -> FloatArray:
    return np.asarray([(labels == label).mean() for label in classes])
