"""The rows of a group side by side: one wide row, which a swap exchanges as a whole.

A wide row has its group's public columns once for each of its rows, in the order of the table. That
order is a part of it: it goes with the rows to whoever gets them, and models see it, so that
nothing of it stays with the owner. What stays are how many rows the group has, and known and passed
columns, row by row: groups are exchanged among those that are alike in these.

`RowByRow` adds up what the single rows of a group tell of their common secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noiser.groups import RowGroups, check_sizes, group_codes
from sklearn_puffer._noiser.swap_rows import Columns, columns_of
from sklearn_puffer._tables import Name, Source, Values

_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class WideRows:
    """Which rows are those of each group.

    Attributes
    ----------
    places : ndarray of int of shape (n_groups, width)
        The rows of each group in the order of the table, and -1 behind them.
    """

    places: IntArray

    @classmethod
    def of(cls, codes: Array, width: int | None = None) -> WideRows:
        """Return those of the codes of groups, as many side by side as the largest group has.

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
        """Return wide columns; those of rows that a group does not have are missing."""
        return {
            of_place(name, k): _taken(values, rows)
            for name, values in columns.items()
            for k, rows in enumerate(self.places.T)
        }

    def rows(self, gets: Array, groups: Array | None = None) -> tuple[Array, Array]:
        """Return the rows of groups, and whose rows these get where they get those of others.

        Parameters
        ----------
        gets : ndarray of int of shape (n,)
            Groups of as many rows each.
        groups : ndarray of int of shape (n,), optional
            Who gets them; None for all groups in their order.
        """
        own = self.places if groups is None else self.places[groups]
        others, there = self.places[gets], own >= 0
        if not np.array_equal(there, others >= 0):
            raise AssertionError("groups of different sizes were exchanged")
        return own[there], others[there]

    def row_by_row(self, gets: Array) -> Array:
        """Return whose row each row gets, where all groups get those of others."""
        own, others = self.rows(gets)
        found = np.empty(len(own), dtype=np.intp)
        found[own] = others
        return found


@dataclass(frozen=True, eq=False)
class WideForm:
    """How the rows of groups were set side by side in `fit`.

    Attributes
    ----------
    column : str or int
        Of the ids of groups.
    width : int
        Rows of the largest group.
    public, passed : list of names
        The columns that are exchanged, and those that stay with their owners.
    """

    column: Name
    width: int
    public: list[Name]
    passed: list[Name]

    def read(self, table: Source) -> tuple[WideRows, Columns]:
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
        """Return the columns of wide rows, how many rows each group has among them."""
        sizes = Values("integer", wide.sizes)
        return {**wide.columns(columns), size_of(self.column): sizes}

    def names(self, names: Sequence[Name]) -> list[Name]:
        """Return the names that columns have in wide rows."""
        return [of_place(name, k) for name in names for k in range(self.width)]

    def settings(self, given: Mapping[Name, Any]) -> dict[Name, Any]:
        """Return what is set for columns as it is set for those of wide rows."""
        return {own: value for name, value in given.items() for own in self.names([name])}


def size_of(column: Name) -> str:
    """Return the name of the column that says how many rows a group has."""
    return f"{column} (size)"


def of_place(name: Name, k: int) -> str:
    """Return the name of a column of the k-th row of a group.

    >>> of_place("age", 0)
    'age #1'
    """
    return f"{name} #{k + 1}"


def _taken(values: Values, rows: Array) -> Values:
    """Return values of some rows, missing where the row is -1."""
    found, absent = values.taken(np.maximum(rows, 0)), rows < 0
    if not absent.any():
        return found
    missing = absent if found.missing is None else absent | found.missing
    data = np.where(absent, np.nan, found.data) if values.kind == "float" else found.data
    return replace(found, data=data, missing=missing)


class RowByRow(ClassifierMixin, BaseEstimator):
    r"""Tell a group's secret by its rows, as if they were independent given it.

    .. math:: \log P(s \mid x_1, \ldots, x_g) = \sum_k \log \frac{P(s \mid x_k)}{P(s)} + \log P(s)

    up to a constant, with each P(s | x) of a classifier of single rows.

    Parameters
    ----------
    estimator : classifier
    columns : list of names
        Of single rows; those of the k-th row of a group are named as `of_place` does.
    size : str
        The column that says how many rows a group has.
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
            name: _below([X[of_place(name, k)].iloc[own] for k, own in enumerate(there)])
            for name in self.columns
        }
        return type(X)(rows), np.concatenate(there)


def _below(columns: Sequence[Any]) -> Any:
    """Return columns of one kind, one below the other."""
    first = columns[0]
    if str(first.dtype) != "category":
        return np.concatenate([np.asarray(each, dtype=float) for each in columns])
    codes = np.concatenate([np.asarray(each.cat.codes) for each in columns])
    return type(first.array).from_codes(codes, dtype=first.dtype)


def _shares(labels: Array, classes: Array) -> FloatArray:
    return np.asarray([(labels == each).mean() for each in classes])
