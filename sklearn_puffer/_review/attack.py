"""Attackers: which rows they learn from, how they read rows, and groups of rows seen as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer
from sklearn.utils import shuffle

from sklearn_puffer._base import Array, FloatArray, IntArray, quoted
from sklearn_puffer._fits import learnable
from sklearn_puffer._tables import Features, Name, first_values, frame_table, in_days

TRAIN, CHOOSE = 0.4, 0.2
COPIES = "copies in the release"


@dataclass(frozen=True)
class RowSplit:
    """Which rows train, choose and test: drawn by a seed, whatever they hold, secrets included."""

    train: Array
    choose: Array
    test: Array

    @property
    def all(self) -> tuple[Array, Array, Array]:
        """All three of them."""
        return self.train, self.choose, self.test

    @classmethod
    def of(cls, n_rows: int, seed: int) -> RowSplit:
        """Return the parts of so many rows.

        >>> parts = RowSplit.of(100, 0)
        >>> len(parts.train), len(parts.choose), len(parts.test)
        (40, 20, 40)
        """
        rows = shuffle(np.arange(n_rows), random_state=seed)
        ends = [int(TRAIN * n_rows), int(TRAIN * n_rows) + int(CHOOSE * n_rows)]
        return cls(*np.split(rows, ends))


def with_copies(rows: Any) -> Any:
    """Return rows with a column of how often each occurs among them, if that differs."""
    names = list(rows.columns)
    groups = rows.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
    copies = np.bincount(groups)[groups]
    if (copies == copies[:1]).all():
        return rows
    extended = rows.copy()
    extended[beside(names, COPIES)] = copies
    return extended


def beside(names: Sequence[Any], name: str) -> Any:
    """Return a name for one more column, of the type of the others."""
    if isinstance(names[0], str):
        return name + "'" * sum(name in str(other) for other in names)
    return int(max(names)) + 1


def twice_below(x: FloatArray, y: FloatArray) -> Array:
    """Return for each x twice the number of y below it, ties as one half."""
    ranked = np.sort(y)
    return np.searchsorted(ranked, x, side="left") + np.searchsorted(ranked, x, side="right")


MOST_LEVELS = 250
"""Categories of a column that a boosted classifier takes; of more it is given ranks."""
_QUANTILES = 200
_NEIGHBOURS = 25
_LEAST = 1e-12


def seen(rows: Any, columns: Sequence[Name]) -> Any:
    """Return rows as attackers are given them."""
    source = frame_table(rows)
    features = Features.of({name: in_days(first_values(source, name)) for name in columns})
    return features.without_many_levels(MOST_LEVELS).frame


def attackers_of(attackers: Any) -> dict[str, Any]:
    """Return the classifiers by name: the default ones, or those that are given.

    >>> list(attackers_of(None))
    ['boosted', 'neighbours', 'linear']
    """
    if attackers is None:
        return _default_attackers()
    if isinstance(attackers, Mapping):
        named = {str(name): model for name, model in attackers.items()}
    else:
        models = list(attackers) if isinstance(attackers, Sequence) else [attackers]
        named = {}
        for model in models:
            kind = type(model).__name__
            count = sum(name.partition(" ")[0] == kind for name in named)
            named[kind if not count else f"{kind} {count + 1}"] = model
    for name, model in named.items():
        if not hasattr(model, "fit") or isinstance(model, type) or not is_classifier(model):
            raise TypeError(
                f"attackers holds {quoted(model)} ({quoted(name)}), which is no classifier; "
                "give objects such as sklearn.linear_model.LogisticRegression()."
            )
    if not named:
        raise ValueError(
            "attackers is empty; give at least one classifier, or None for the default ones."
        )
    return named


def _default_attackers() -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression  # heavy, and few ask for it
    from sklearn.neighbors import KNeighborsClassifier

    return {
        "boosted": boosted(60),
        "neighbours": KNeighborsClassifier(_NEIGHBOURS),
        "linear": LogisticRegression(max_iter=300),
    }


class _AsTheyCome(Pipeline):
    """A pipeline that takes any columns; one that a user gives may be made for some."""


def boosted(max_iter: int) -> Any:
    """Return boosted trees that take columns as they are."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # heavy, and few ask for it

    model = HistGradientBoostingClassifier(
        max_iter=max_iter,
        max_leaf_nodes=15,
        early_stopping=False,
        categorical_features="from_dtype",
    )
    return as_they_come(model)


def as_they_come(model: Any) -> Any:
    """Return a model that is given columns as they are, words as ``category``."""
    return _AsTheyCome([("model", model)])


def trained(attacker: Any, rows: Any, labels: Array) -> Any:
    """Return a fitted copy; a pipeline is given the rows as they are, and others numbers."""
    model, rows = clone(attacker), learnable(rows)
    if not isinstance(model, Pipeline):
        neighbours = getattr(model, "n_neighbors", None)
        if isinstance(neighbours, int) and neighbours > len(rows):
            model.set_params(n_neighbors=len(rows))
        model = make_pipeline(encoder(rows), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an attack that is not over is one
        return model.fit(rows, labels)


def encoder(rows: Any) -> Any:
    """Return what makes numbers between 0 and 1 of columns, by rank: noise may have heavy tails."""
    words = [name for name, kind in rows.dtypes.items() if str(kind) == "category"]
    others = [name for name in rows.columns if name not in words]
    ranks = QuantileTransformer(n_quantiles=min(_QUANTILES, len(rows)), subsample=None)
    gaps = SimpleImputer(strategy="constant", fill_value=0.5, add_indicator=True)
    one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=MOST_LEVELS)
    return ColumnTransformer(
        [("ranks", make_pipeline(ranks, gaps), others), ("is", one_hot, words)]
    )


def scored(model: Any, rows: Any, secret: int, against: int) -> FloatArray:
    """Return how much more each row looks like one secret than like the other."""
    seen = looks(model, rows)
    if hasattr(model, "predict_proba"):
        seen = np.log(np.maximum(seen, _LEAST))
    classes = list(model.classes_)
    more: FloatArray = seen[:, classes.index(secret)] - seen[:, classes.index(against)]
    return more


def looks(model: Any, rows: Any) -> FloatArray:
    """Return how much each row looks like each class, in whatever unit the model has."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(rows), dtype=float)
    if hasattr(model, "decision_function"):
        margin = np.asarray(model.decision_function(rows), dtype=float)
        margin = np.stack([-margin, margin], axis=1) if margin.ndim == 1 else margin
        if margin.shape[1] == len(model.classes_):  # and not one of each pair of classes
            return margin
    guesses = np.asarray(model.predict(rows))
    return np.asarray(guesses[:, None] == np.asarray(model.classes_), dtype=float)


SIZE = "rows of the group"
ROW_BY_ROW = "row by row"


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
    def of(cls, codes: Array) -> WideRows:
        """Return the rows of groups by their codes.

        >>> WideRows.of(np.array([1, 0, 1])).places.tolist()
        [[1, -1], [0, 2]]
        """
        order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
        within = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = np.full((len(sizes), int(sizes.max())), -1, dtype=np.int64)
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


def of_place(name: Name, k: int) -> str:
    """Return the name of a column of the k-th row of a group.

    >>> of_place("age", 0)
    'age #1'
    """
    return f"{name} #{k + 1}"


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


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of some rows.

    Attributes
    ----------
    wide : WideRows
    """

    wide: WideRows

    @classmethod
    def of(cls, codes: Array) -> Groups:
        """Return those of a number for each row, the same for the rows of one group."""
        return cls(WideRows.of(np.unique(codes, return_inverse=True)[1].ravel()))

    @property
    def codes(self) -> Array:
        """The number of the group of each row."""
        there = self.wide.places >= 0
        codes = np.empty(int(there.sum()), dtype=np.intp)
        codes[self.wide.places[there]] = np.nonzero(there)[0]
        return codes

    def of_rows(self, rows: Array) -> Groups:
        """Return those of some rows, which are numbered anew."""
        return Groups.of(self.codes[rows])

    def __len__(self) -> int:
        return len(self.wide)

    def among(self, rows: Array) -> Array:
        """Return the groups whose rows are among these, which have all rows of a group or none."""
        return np.flatnonzero(np.isin(self.wide.first, rows))

    def rows(self, groups: Array) -> Array:
        """Return the rows of some groups, ascending."""
        places = self.wide.places[groups]
        return np.sort(places[places >= 0])

    def seen(self, frame: Any) -> Any:
        """Return what attackers see of groups: their rows side by side, and how many they are."""
        wide = type(frame)(
            {
                of_place(name, k): _taken(frame[name], rows)
                for name in frame.columns
                for k, rows in enumerate(self.wide.places.T)
            }
        )
        if self.wide.width > 1:
            wide[SIZE] = self.wide.sizes
        return wide

    def attackers(self, attackers: Mapping[str, Any], columns: Sequence[Name]) -> dict[str, Any]:
        """Return attackers of groups: those given, and one that adds up what single rows tell."""
        if self.wide.width == 1:
            return dict(attackers)
        return {**attackers, ROW_BY_ROW: as_they_come(RowByRow(boosted(60), list(columns), SIZE))}


def _taken(column: Any, rows: Array) -> Any:
    """Return the values of some rows, missing where the row is -1."""
    values = column.iloc[np.maximum(rows, 0)].reset_index(drop=True)
    if (rows >= 0).all():
        return values
    return (values if str(values.dtype) == "category" else values.astype(float)).where(rows >= 0)
