"""What single rows of a group tell of their common secret, added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noiser.wide_rows import of_place
from sklearn_puffer._tables import Name

_LEAST = 1e-12


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
