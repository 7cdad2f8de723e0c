"""Behind `fits.ClassifierFit`: rows with their secrets, and classifiers fitted to them.

Models learn from the rows and predict their secrets. The distribution of the cells given secret s
follows by Bayes' rule on these rows: the sum of weight times probability of s over the rows of a
cell, divided by the sum over all rows.

Nothing depends on the order of rows: folds are dealt by a digest of their values, and every model
is given its rows in an order of their values.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from sklearn_puffer._base import Array, FloatArray, counted
from sklearn_puffer._words import listed, on_one_line, plain, quoted

MOST_ROWS = 1 << 21
"""Up to this total a row that counts k times is given to a model k times, else with weight k."""

_SUM_TOLERANCE = 1e-3  # of the sum of probabilities, which some models give as single floats


@dataclass(frozen=True, eq=False)
class Observed:
    """Rows with their secrets, and how often each counts.

    Attributes
    ----------
    rows : Features
        Of the tables, which this module does not import.
    codes : ndarray of int of shape (n_rows,)
        The index of the secret of each row in ``labels``.
    labels : sequence
    weights : ndarray of int of shape (n_rows,)
        Positive.
    name : str
        Of the sensitive column, as an error shows it.
    """

    rows: Any
    codes: Array
    labels: Sequence[Any]
    weights: Array
    name: str

    @cached_property
    def order(self) -> Array:
        """The rows in the order of their values and secrets."""
        return np.lexsort((self.codes, *self.rows.keys.T[::-1]))

    @cached_property
    def contents(self) -> Array:
        """A number for each row, the same for equal public values, ascending in ``order``."""
        return numbered(self.rows.keys, self.order)

    @cached_property
    def firsts(self) -> Array:
        """One row of each content, in ``order``."""
        return self.order[np.unique(self.contents[self.order], return_index=True)[1]]

    @cached_property
    def tallies(self) -> Array:
        """How many rows each secret has."""
        # through floats, which hold the sum of all weights
        return np.bincount(self.codes, self.weights, len(self.labels)).astype(np.int64)

    @property
    def shares(self) -> FloatArray:
        """The prior class frequencies: the share of rows of each secret."""
        return np.asarray(self.tallies / self.tallies.sum())

    @cached_property
    def groups(self) -> Array:
        """A number for each row, the same for equal public values and secrets, by ``order``."""
        return numbered(np.stack([self.contents, self.codes], axis=1), self.order)

    @cached_property
    def merged(self) -> Observed:
        """The same with one row for each of ``groups``, in ``order``, and summed weights."""
        firsts = self.order[np.unique(self.groups[self.order], return_index=True)[1]]
        totals = np.bincount(self.groups, self.weights).astype(np.int64)
        return self.taken(firsts, totals)

    def taken(self, index: Array, weights: Array) -> Observed:
        """Return the rows with these indices and weights."""
        rows, codes = self.rows.taken(index), self.codes[index]
        return replace(self, rows=rows, codes=codes, weights=weights)

    def in_order(self, rows: Array) -> Array:
        """Return some rows in the order of their values and secrets."""
        return self.order[np.isin(self.order, rows)]


def numbered(rows: Array, order: Array) -> Array:
    """Return a number for each row, the same for equal ones, ascending in an order that sorts them.

    >>> numbered(np.array([[5, 1], [2, 9], [5, 1]]), np.array([1, 0, 2])).tolist()
    [1, 0, 1]
    """
    numbers = np.zeros(len(rows), dtype=np.intp)
    numbers[order[1:]] = np.cumsum((rows[order[1:]] != rows[order[:-1]]).any(axis=1))
    return numbers


def targets(labels: Sequence[Any]) -> Array:
    """Return the classes that a model predicts: names of secrets, or their indices."""
    names = np.array(list(labels))
    whole = names.dtype.kind in "biu" or (
        names.dtype.kind == "f" and bool((np.floor(names) == names).all())
    )
    strings = all(isinstance(label, str) for label in labels)
    return names if whole or strings else np.arange(len(labels))


# ------------------------------------------------------------------------ probabilities from models


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
    """Return the same from a prefitted model."""
    rows = np.arange(len(observed.codes))
    known = getattr(model, "feature_names_in_", None)
    if known is not None:
        columns = list(observed.rows.frame.columns)
        absent = [name for name in known if name not in columns]
        if absent:
            raise ValueError(
                f"the classifier for column {observed.name} was fitted with column "
                f"{quoted(plain(absent[0]))}, which is not public; the public columns are "
                f"{listed(columns, 10)}."
            )
        observed = replace(
            observed, rows=replace(observed.rows, frame=observed.rows.frame[list(known)])
        )
    return _of_contents(model, observed, rows, list(observed.labels))


def fitted(estimator: Any, observed: Observed, train: Array) -> Any:
    """Return a clone fitted to some rows, each as often as it counts."""
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
    """Return the rows that a model learns from, with 0 in numeric columns that have no value.

    The few values of a column may all be in another fold, and some models refuse an empty column.
    Categories have a code for missing values.
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
    """Return the indices of distinct rows among ``train``, and their weights."""
    if not has_fit_parameter(model, "sample_weight"):
        raise ValueError(
            f"{name_of(model)} takes no sample_weight, and {int(observed.weights.sum())} rows are "
            f"more than the {MOST_ROWS} that are given to it one by one; divide sample_weight by a "
            "common factor, or take a classifier that knows weights."
        )
    firsts = np.unique(observed.groups[train], return_index=True)[1]
    return firsts, {"sample_weight": np.add.reduceat(observed.weights[train], firsts)}


def _of_contents(model: Any, observed: Observed, rows: Array, names: Any) -> FloatArray:
    """Return the predictions of a model for some rows; equal public values are predicted once."""
    contents, back = np.unique(observed.contents[rows], return_inverse=True)
    X = observed.rows.take(observed.firsts[contents])
    return posteriors_of(model, X, list(names), observed.name)[back.ravel()]


def posteriors_of(model: Any, X: Any, labels: Sequence[Any], column: str) -> FloatArray:
    """Return the probability of each secret (as the model knows it) for each row of a DataFrame."""
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
    """Return the index of a secret among the classes, of whatever type."""
    known, secret = [plain(name) for name in classes], plain(label)
    same = [k for k, name in enumerate(known) if name == secret]
    same = same or [k for k, name in enumerate(known) if str(name) == str(secret)]
    if len(same) != 1:
        raise ValueError(
            f"{name_of(model)} does not know secret {quoted(label)} of column {column}; its "
            f"classes are {listed(known, 10)}; take one that was fitted to rows of all secrets."
        )
    return same[0]


def name_of(estimator: Any) -> str:
    """Return the name of a model: its type, or those of a pipeline's steps, the last first."""
    steps: Iterator[Any] = iter(getattr(estimator, "steps", ()) or ())
    kinds = [type(step).__name__ for _, step in steps if step is not None and step != "passthrough"]
    return " after ".join(reversed(kinds)) if kinds else type(estimator).__name__


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
    """Deal all copies of rows over the folds in turn, secret by secret.

    Rows are dealt in the order of a digest of their values, equal rows one after the other, so that
    each fold has its share of them. The order of the table decides nothing, and a row that counts k
    times is k rows.
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
    """Return the folds of a splitter, which is given the rows in the order of the table."""
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


# -------------------------------------------------------------------- masses, and how good they are


UNIT = 1 << 32
"""Masses are whole numbers of 1/UNIT of a row."""

MOST_WEIGHT = 1 << 29
"""Largest sum of weights for which sums of masses are certainly 64-bit numbers."""

_NOISE = 3.0  # standard errors above which one log loss is lower than another


def whole_masses(probabilities: FloatArray, weights: Array) -> Array:
    """Return the mass of each row for each secret, in units of 2^-32, shape (n_secrets, n_rows).

    A positive probability is never rounded to 0, and 0 stays 0.

    >>> whole_masses(np.array([[0.25, 0.75], [1e-30, 0.0]]), np.array([1, 2])).tolist()
    [[1073741824, 2], [3221225472, 0]]
    """
    units = np.rint(probabilities * UNIT).astype(np.int64)
    units[(units == 0) & (probabilities > 0.0)] = 1
    return np.asarray(np.ascontiguousarray(units.T) * weights.astype(np.int64))


def cell_masses(masses: Array, cells: Array, n_cells: int) -> Array:
    """Return the mass of each cell for each secret, (n_secrets, n_cells), from that of rows.

    >>> cell_masses(np.array([[1, 2, 3]]), np.array([0, 1, 0]), 2).tolist()
    [[4, 2]]
    """
    sums = np.zeros((len(masses), n_cells), dtype=np.int64)
    for row, total in zip(masses, sums, strict=True):
        np.add.at(total, cells, row)
    return sums


def spread_masses(masses: Array, fitted: Observed, rows: Observed) -> Array:
    """Return the masses of rows from those of the fitted rows, which have the same contents.

    Of equal rows the first has the mass of all.
    """
    spread = np.zeros((len(masses), len(rows.codes)), dtype=np.int64)
    spread[:, rows.firsts] = cell_masses(masses, fitted.contents, len(rows.firsts))
    return spread


@dataclass(frozen=True, eq=False)
class Quality:
    """How well probabilities predict the secrets of the rows, beside the class frequencies.

    Attributes
    ----------
    log_loss, constant_log_loss : float
        In nats for each row; infinite where the secret of a row has probability 0. The constant
        is the share of each secret.
    auc, auc_error : float
        Of one secret against the rest, the mean over the secrets (that of a constant is 0.5), and
        a bound on its standard error.
    losses : ndarray of shape (n_groups,)
        The mean log loss of the rows of equal values and secrets, as `Observed.groups` has them.
    """

    log_loss: float
    constant_log_loss: float
    auc: float
    auc_error: float
    losses: FloatArray

    @property
    def tells_apart(self) -> bool:
        """Whether its AUC is significantly above 0.5."""
        return self.auc - 0.5 > _NOISE * self.auc_error

    def knows_more(self, other: Quality, weights: Array) -> bool:
        """Return whether it is significantly better than another one."""
        noise = _NOISE * math.hypot(self.auc_error, other.auc_error)
        return self.auc - other.auc > noise or is_better(self.losses, other.losses, weights)


def quality_of(probabilities: FloatArray, observed: Observed) -> Quality:
    """Return how well the probabilities predict the secrets of the rows."""
    shares = observed.shares
    likelihoods = probabilities[np.arange(len(observed.codes)), observed.codes]
    with np.errstate(divide="ignore"):
        losses = _of_groups(-np.log(likelihoods), observed)
    constant = -sum(float(share) * math.log(share) for share in shares if share > 0.0)
    aucs = [_auc(probabilities[:, s], observed, s) for s in range(len(shares))]
    auc, error = (float(np.mean(part)) for part in zip(*aucs, strict=True))
    return Quality(mean_loss(losses, observed.merged.weights), constant, auc, error, losses)


def _of_groups(losses: FloatArray, observed: Observed) -> FloatArray:
    sums = np.bincount(observed.groups, losses * observed.weights)
    return np.asarray(sums / observed.merged.weights)


def is_better(losses: FloatArray | float, others: FloatArray | float, weights: Array) -> bool:
    """Return whether the mean loss is significantly lower than that of others.

    One of the two may be the same for all rows.

    >>> few, many = np.array([1.0, 2.0]), np.tile([1.0, 1.2], 500)
    >>> ones = np.ones(1000, dtype=int)
    >>> is_better(few, few + 1.0, ones[:2]), is_better(many, many + [0.1, -0.09] * 500, ones)
    (True, False)
    """
    if np.isinf(losses).any():
        return False
    if np.isinf(others).any():
        return True
    gains: FloatArray = np.asarray(others - losses)
    mean, total = mean_loss(gains, weights), float(weights.sum())
    deviation = math.sqrt(mean_loss((gains - mean) ** 2, weights) / total)
    return mean > _NOISE * deviation + 1e-12


def counted_losses(observed: Observed, cells: Array) -> FloatArray:
    """Return the log loss of each group of equal rows, predicted by counts of the rest of its cell.

    ``cells`` has the cell of each row. The class frequencies count as one further row.
    """
    n_cells, k = int(cells.max()) + 1, len(observed.labels)
    counts = np.bincount(cells * k + observed.codes, observed.weights, n_cells * k)
    table = counts.reshape(n_cells, k)
    counted = table[cells, observed.codes] - 1.0 + observed.shares[observed.codes]
    return _of_groups(-np.log(counted / table[cells].sum(axis=1)), observed)


def mean_loss(values: FloatArray, weights: Array) -> float:
    """Return the weighted mean, the same for rows in any order."""
    return math.fsum((values * weights).tolist()) / float(weights.sum())


def _auc(scores: FloatArray, observed: Observed, secret: int) -> tuple[float, float]:
    """Return the chance that a row with the secret scores higher than one without; ties half.

    And the largest standard error that it can have (van Dantzig 1951).
    """
    from sklearn.metrics import roc_auc_score  # heavy, and few have classifiers as priors

    weights, mine = observed.weights, observed.codes == secret
    auc = float(roc_auc_score(mine, scores, sample_weight=weights))
    fewest = min(int(weights[mine].sum()), int(weights[~mine].sum()))
    return auc, math.sqrt(max(auc * (1.0 - auc), 0.0) / fewest)
