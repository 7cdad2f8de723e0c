"""Probabilities of the secrets for each row, from classifiers that are fitted to other rows.

Nothing is learnt from the order of rows: folds are dealt by what rows hold, and every model is
given its rows in an order of their values.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from sklearn_puffer._base import Array, FloatArray, counted, listed, on_one_line, plain, quoted
from sklearn_puffer._fits.observed import Observed, targets

MOST_ROWS = 1 << 21
"""Up to here a row that counts k times is given to a model k times, and beyond with weight k."""

_SUM_TOLERANCE = 1e-3  # of probabilities, some of which are single floats


def cross_fitted(estimator: Any, observed: Observed, folds: Sequence[Fold]) -> FloatArray:
    """Return the probability of each secret for each row, from models that did not see the row.

    Shape (n_rows, n_secrets).
    """
    posteriors = np.empty((len(observed.codes), len(observed.labels)))
    for train, test in counted(folds, "models of a prior"):
        model = fitted(estimator, observed, observed.in_order(train))
        posteriors[test] = _of_contents(model, observed, test, targets(observed.labels))
    return posteriors


def predicted(model: Any, observed: Observed) -> FloatArray:
    """Return the same from a model that was fitted elsewhere."""
    rows = np.arange(len(observed.codes))
    known = getattr(model, "feature_names_in_", None)
    if known is not None:
        _check_features(list(known), observed)
        observed = replace(observed, rows=observed.rows.chosen(known))
    return _of_contents(model, observed, rows, list(observed.labels))


def fitted(estimator: Any, observed: Observed, train: Array) -> Any:
    """Return a clone that learnt from some rows, each as often as it counts."""
    model = clone(estimator)
    # every random_state that is None becomes 0: the same rows give the same distributions
    loose = [name for name, value in model.get_params().items() if value is None]
    fixed = [name for name in loose if name.split("__")[-1] == "random_state"]
    if fixed:
        model.set_params(**dict.fromkeys(fixed, 0))
    codes, weights = observed.codes[train], observed.weights[train]
    arguments: dict[str, Any] = {}
    if weights.sum() <= MOST_ROWS:
        train, codes = np.repeat(train, weights), np.repeat(codes, weights)
    else:
        firsts, arguments = _merged(model, observed, train)
        train, codes = train[firsts], codes[firsts]
    y = targets(observed.labels)[codes]
    try:
        return model.fit(learnable(observed.rows.take(train)), y, **arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name_of(estimator)} could not be fitted to the public columns "
            f"{listed(list(observed.rows.frame.columns), 10)}: {on_one_line(error)}; it is given a "
            "DataFrame in which strings are category columns, so put an encoder before it "
            "(make_pipeline) where it needs numbers."
        ) from error


def learnable(rows: Any) -> Any:
    """Return the rows that a model learns from, with 0 in columns of numbers without any value.

    Such a column tells nothing, and boosted trees and ranks cannot take it. Few values of a column
    may all be in another fold. Strings have a place for what is missing.
    """
    empty = rows.isna().all().to_numpy()
    if not empty.any():
        return rows
    filled = rows.copy()
    for name in rows.columns[empty]:
        if str(rows[name].dtype) != "category":
            filled[name] = 0.0
    return filled


def _merged(model: Any, observed: Observed, train: Array) -> tuple[Array, dict[str, Any]]:
    """Return the indices of distinct rows among ``train``, and what each weighs."""
    if not has_fit_parameter(model, "sample_weight"):
        raise ValueError(
            f"{name_of(model)} takes no sample_weight, and {int(observed.weights.sum())} rows are "
            f"more than the {MOST_ROWS} that are given to it one by one; divide sample_weight by a "
            "common factor, or take a classifier that knows weights."
        )
    contents, codes = observed.contents[train], observed.codes[train]
    new = np.append(True, (np.diff(contents) != 0) | (np.diff(codes) != 0))
    firsts = np.flatnonzero(new)
    return firsts, {"sample_weight": np.add.reduceat(observed.weights[train], firsts)}


def _of_contents(model: Any, observed: Observed, rows: Array, names: Any) -> FloatArray:
    """Return what a model predicts for some rows, once for each content, in order."""
    contents, back = np.unique(observed.contents[rows], return_inverse=True)
    X = observed.rows.take(observed.firsts[contents])
    return posteriors_of(model, X, list(names), observed.name)[back.ravel()]


def posteriors_of(model: Any, X: Any, labels: Sequence[Any], column: str) -> FloatArray:
    """Return the probability of each secret for each row of a DataFrame, in the order of labels.

    Parameters
    ----------
    model : fitted classifier
    X : DataFrame
    labels : sequence
        The secrets, as the model was given them.
    column : str
        The sensitive column, as an error shows it.
    """
    with warnings.catch_warnings():
        # a model that was fitted to an array has no names to compare
        warnings.filterwarnings("ignore", "X has feature names, but", UserWarning)
        try:
            posteriors = np.asarray(model.predict_proba(X), dtype=float)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{name_of(model)} could not be asked about the public columns "
                f"{listed(list(X.columns), 10)}: {on_one_line(error)}; let its encoder take values "
                'that it was not fitted to (handle_unknown="ignore" or "use_encoded_value").'
            ) from error
    classes = list(model.classes_)
    if posteriors.shape != (len(X), len(classes)):
        raise ValueError(
            f"predict_proba of {name_of(model)} returned an array of shape {posteriors.shape} for "
            f"{len(X)} rows and {len(classes)} classes; it must give each its probability."
        )
    good = (np.isfinite(posteriors) & (posteriors >= 0.0)).all(axis=1)
    good &= abs(posteriors.sum(axis=1) - 1.0) <= _SUM_TOLERANCE
    if not good.all():
        raise ValueError(
            f"predict_proba of {name_of(model)} must give probabilities that sum to one, got "
            f"{posteriors[np.argmin(good)].tolist()!r}; calibrate it "
            "(sklearn.calibration.CalibratedClassifierCV)."
        )
    columns = [_class_of(label, classes, model, column) for label in labels]
    return np.asarray(np.minimum(posteriors[:, columns], 1.0))


def _class_of(label: Any, classes: Sequence[Any], model: Any, column: str) -> int:
    """Return where a secret is among the classes, whatever the type that they were learnt in."""
    known, secret = [plain(name) for name in classes], plain(label)
    same = [k for k, name in enumerate(known) if name == secret]
    same = same or [k for k, name in enumerate(known) if str(name) == str(secret)]
    if len(same) != 1:
        raise ValueError(
            f"{name_of(model)} does not know secret {quoted(label)} of column {column}; its "
            f"classes are {listed(known, 10)}; take one that was fitted to rows of all secrets."
        )
    return same[0]


def _check_features(known: Sequence[Any], observed: Observed) -> None:
    columns = list(observed.rows.frame.columns)
    absent = [name for name in known if name not in columns]
    if absent:
        raise ValueError(
            f"the classifier for column {observed.name} was fitted with column "
            f"{quoted(plain(absent[0]))}, which is not public; the public columns are "
            f"{listed(columns, 10)}."
        )


def name_of(estimator: Any) -> str:
    """Return what to call a model: its type, and that of the last step of a pipeline."""
    steps: Iterator[Any] = iter(getattr(estimator, "steps", ()) or ())
    kinds = [type(step).__name__ for _, step in steps if step is not None and step != "passthrough"]
    return " after ".join(reversed(kinds)) if kinds else type(estimator).__name__


# ---------------------------------------------------------------------------------------- the folds


Fold = tuple[Array, Array]  # rows to fit, and rows to predict


def folds_of(cv: Any, observed: Observed) -> tuple[Observed, list[Fold]]:
    """Return the rows to predict, and their folds.

    Raises
    ------
    ValueError
        If a splitter does not predict every row once, from others, or a secret is not among the
        rows of every model.
    """
    if isinstance(cv, int):
        least = int(np.argmin(observed.tallies))
        if observed.tallies[least] < cv:
            raise ValueError(
                f"secret {quoted(observed.labels[least])} of column {observed.name} has "
                f"{observed.tallies[least]} row(s), fewer than the cv={cv} folds of its "
                "classifier; merge rare secrets, take a smaller cv, or fit elsewhere "
                '(cv="prefit").'
            )
        return _in_turn(cv, observed.merged)
    folds = _split(cv, observed)
    for train, _ in folds:
        absent = np.setdiff1d(np.arange(len(observed.labels)), observed.codes[train])
        if absent.size:
            raise ValueError(
                f"secret {quoted(observed.labels[absent[0]])} of column {observed.name} is not "
                "among the rows that one of the cross-fitted classifiers would learn from, as all "
                "of its rows are in one fold; take a splitter that spreads them, merge rare "
                'secrets, or fit elsewhere (cv="prefit").'
            )
    return observed, folds


def _in_turn(n_folds: int, merged: Observed) -> tuple[Observed, list[Fold]]:
    """Deal out all copies of rows over the folds, one after the other, those of a secret together.

    Rows come in the order of a digest of their values, which has nothing to do with what they
    are; equal ones are one after the other, so that each fold has its share of them. What has a
    digest is what is dealt, and no row of the table: their order decides nothing, and a row that
    counts k times is k rows.
    """
    keys = np.ascontiguousarray(merged.rows.keys[merged.firsts], dtype="<i8")
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in keys]
    keys = np.frombuffer(b"".join(digests), dtype=">u8")[merged.contents]
    order = np.lexsort((keys, merged.codes))
    ends = np.empty(len(order), dtype=np.int64)
    ends[order] = np.cumsum(merged.weights[order])
    until = [(ends - k - 1) // n_folds for k in range(n_folds)]
    since = [(ends - merged.weights - k - 1) // n_folds for k in range(n_folds)]
    copies = np.stack(until, axis=1) - np.stack(since, axis=1)
    rows, fold = np.nonzero(copies)
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
    return merged.taken(rows, copies[rows, fold]), folds


def _split(splitter: Any, observed: Observed) -> list[Fold]:
    """Return the folds of a splitter, which is given the rows as they stand in the table."""
    n_rows = len(observed.codes)
    y = targets(observed.labels)[observed.codes]
    try:
        folds = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(observed.rows.frame, y)]
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"cv={on_one_line(splitter)} does not split the rows: {on_one_line(error)}; where it "
            "needs groups, give the fold of each row, "
            "cv=sklearn.model_selection.PredefinedSplit(folds)."
        ) from error
    tested = np.concatenate([test for _, test in folds]) if folds else np.zeros(0, dtype=int)
    once = tested.size == n_rows and np.array_equal(np.sort(tested), np.arange(n_rows))
    if not once or any(np.intersect1d(*fold).size for fold in folds):
        raise ValueError(
            f"cv={on_one_line(splitter)} must put each of the {n_rows} rows to the test once, by a "
            "model that did not see it; take a splitter that does, such as KFold(5, shuffle=True)."
        )
    return folds
