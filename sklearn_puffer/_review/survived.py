"""What released rows are still good for: margins, correlations, and a task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_puffer._base import Array, quoted
from sklearn_puffer._review.attack import Parts, encoder, looks
from sklearn_puffer._tables import Name, Table, resolve

_CLASSES = 20  # a number with more values is regressed


@dataclass(frozen=True)
class Survived:
    """One figure, before and after the release.

    Attributes
    ----------
    what : str
    column : str or int
        What it is about.
    before, after : float
        NaN where it has no meaning.
    """

    what: str
    column: Name
    before: float
    after: float


def margins(raw: Any, released: Any, columns: Sequence[Name]) -> list[Survived]:
    """Return for each column how many values stay, and what its values are on average."""
    found = []
    for name in columns:
        own, other = raw[name], released[name]
        if is_words(own) != is_words(other):
            continue  # codes of words, where they come out as numbers
        same = (own.astype(object) == other.astype(object)) | (own.isna() & other.isna())
        found.append(Survived("unchanged share", name, 1.0, float(same.mean())))
        if not is_words(own):
            a, b = own.astype(float), other.astype(float)
            found.append(Survived("median", name, float(a.median()), float(b.median())))
            found.append(Survived("standard deviation", name, float(a.std()), float(b.std())))
            continue
        top = own.value_counts().index[0] if own.notna().any() else None
        shares = [float((each.astype(object) == top).mean()) for each in (own, other)]
        found.append(Survived(f"share of {quoted(top)}", name, *shares))
    return found


def correlations(raw: Any, released: Any, columns: Sequence[Name]) -> list[Survived]:
    """Return the rank correlation of each pair of numbers that changes most, three at most."""
    numbers = [n for n in columns if not is_words(raw[n]) and not is_words(released[n])]
    a, b = (each[numbers].astype(float).corr("spearman") for each in (raw, released))
    found = [
        Survived("rank correlation", f"{x} and {y}", float(a.loc[x, y]), float(b.loc[x, y]))
        for x, y in combinations(numbers, 2)
    ]
    found = [each for each in found if not math.isnan(each.before - each.after)]
    return sorted(found, key=lambda each: -abs(each.before - each.after))[:3]


def is_words(column: Any) -> bool:
    """Return whether a column holds categories, and no numbers."""
    return str(column.dtype) == "category"


@dataclass(frozen=True, eq=False)
class Task:
    """What the rows are used for: a model, and what it predicts."""

    name: Name
    model: Any
    target: Array
    by_column: bool

    def of(self, rows: Array) -> Task:
        """Return the same of some rows."""
        return replace(self, target=self.target[rows])


def task_of(task: Any, table: Table) -> Task | None:
    """Return a task that is given by the name of a column, or by an estimator and its target."""
    if task is None:
        return None
    if isinstance(task, tuple):
        return _given(task, table.n_rows)
    (name,) = resolve([task], table.names, "task")
    target = np.asarray(table.original(name))
    if not len(_known(target)):
        raise ValueError(
            f"task names column {quoted(name)}, which has no value that is not missing; name one "
            "that has."
        )
    return Task(name, _default(target), target, by_column=True)


def _given(task: tuple[Any, ...], n_rows: int) -> Task:
    if len(task) != 2 or not (is_classifier(task[0]) or is_regressor(task[0])):
        raise TypeError(
            f"task must be the name of a column, or (estimator, y) with a classifier or a "
            f"regressor, got {quoted(task)}."
        )
    target = np.asarray(task[1])
    if target.shape != (n_rows,):
        raise ValueError(
            f"task has a y of shape {target.shape} beside {n_rows} rows; give one value a row."
        )
    return Task("y", task[0], target, by_column=False)


def _default(target: Array) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    modest = {"max_iter": 60, "max_leaf_nodes": 15, "early_stopping": False}
    numbers = target.dtype.kind in "iuf" and len(np.unique(target)) > _CLASSES
    model = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    return Pipeline([("boosted", model(categorical_features="from_dtype", **modest))])


def task_figures(
    task: Task, raw: Any, released: Any, columns: Sequence[Name], parts: Parts
) -> list[Survived]:
    """Return how well a model does on true rows that learnt from true, or from released rows.

    A target that is a released column is learnt from as it is released. Beside an AUC stands the
    share of the most frequent class, which who knows nothing gets right.
    """
    features = [name for name in columns if not (task.by_column and name == task.name)]
    features = [name for name in features if is_words(raw[name]) == is_words(released[name])]
    if not features:
        return []
    learnt = np.concatenate([parts.train, parts.choose])
    test = np.intersect1d(parts.test, _known(task.target))
    noisy = _target(task, released, columns)
    scores = [
        score_of(task, rows[features], target, raw[features], np.intersect1d(learnt, own), test)
        for rows, target in ((raw, task.target), (released, noisy))
        for own in [np.intersect1d(_known(target), _known(task.target))]
    ]
    if is_regressor(task.model):
        return [Survived("R2 on true rows", task.name, *scores)]
    labels, counts = np.unique(task.target[test], return_counts=True)
    rate = float(counts.max() / len(test))
    base = f"base rate of {quoted(labels[counts.argmax()])}"
    return [
        Survived("AUC on true rows", task.name, *scores),
        Survived(base, task.name, rate, rate),
    ]


def _known(target: Array) -> Array:
    """Return the rows whose target is not missing."""
    known = [each == each and each is not None for each in target]  # NaN is not itself
    return np.flatnonzero(np.array(known, dtype=bool))


def _target(task: Task, released: Any, columns: Sequence[Name]) -> Array:
    if not task.by_column or task.name not in columns:
        return task.target
    if is_words(released[task.name]) == (task.target.dtype.kind not in "biuf"):
        return np.asarray(released[task.name]).astype(task.target.dtype)
    return task.target


def score_of(task: Task, rows: Any, target: Array, true: Any, train: Array, test: Array) -> float:
    """Return the score on true rows of a model that learnt from others."""
    model = clone(task.model)
    if not isinstance(model, Pipeline):
        model = make_pipeline(encoder(rows.iloc[train]), model)
    model.fit(rows.iloc[train], target[train])
    if is_regressor(task.model):
        return float(model.score(true.iloc[test], task.target[test]))
    return _auc(model, true.iloc[test], task.target[test])


def _auc(model: Any, rows: Any, target: Array) -> float:
    """Return the area under the ROC curve of each class against the rest, on average.

    A class that the model has not learnt is told by chance; of one class alone there is no area.
    """
    from sklearn.metrics import roc_auc_score

    classes, labels = list(model.classes_), np.unique(target)
    if len(labels) < 2:
        return math.nan
    seen = looks(model, rows)
    areas = [
        roc_auc_score(target == label, seen[:, classes.index(label)]) if label in classes else 0.5
        for label in labels
    ]
    return float(np.mean(areas))
