"""What released rows tell and what they are still good for: figures, without a test of a guarantee.

`attacked` cuts rows in two halves. Attackers learn on the first and are judged on the second, and
which attacker and pair of secrets is reported is chosen within the first: so choosing adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import pairwise_distances
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_puffer._base import Array, FloatArray, counted, plain, quoted
from sklearn_puffer._fits import learnable
from sklearn_puffer._review.attack import (
    RowSplit,
    encoder,
    looks,
    scored,
    trained,
    twice_below,
    with_copies,
)
from sklearn_puffer._tables import (
    MOST_SECRETS,
    Name,
    Table,
    as_pandas,
    bins_of,
    date_columns,
    edges_of,
    frame_table,
    in_intervals,
    is_frame,
    is_lazy,
    readable,
    recoded,
    resolve,
)


def in_memory(table: Any, who: str) -> Any:
    """Return the table as a pandas DataFrame.

    Parameters
    ----------
    table : DataFrame
    who : str
        Who looks at it, such as "a plan".

    Raises
    ------
    TypeError
        If it is lazy, or no DataFrame.
    """
    if is_lazy(table):
        raise TypeError(
            f"table is lazy ({type(table).__name__}), and {who} looks at rows many times; collect "
            "it, or some thousand rows of it, into memory first."
        )
    table = readable(table, "table")
    if not is_frame(table):
        raise TypeError(
            f"table must be a DataFrame, got {type(table).__name__}; give its columns names, such "
            "as pandas.DataFrame(table, columns=[...])."
        )
    return as_pandas(table)


LEAST = 10
"""Rows of a secret in each half, below which it is not attacked."""

WIDEST = 0.15
"""Half the width of the 95 % interval at chance, above which there are too few rows."""


@dataclass(frozen=True, eq=False)
class Secrets:
    """The secrets of the rows, of a column or a combination, and the pairs that are attacked."""

    name: Any
    labels: Sequence[Any]
    codes: Array
    pairs: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Attacked:
    """The best attack that was found: an estimate, on rows that nobody fitted.

    Attributes
    ----------
    sensitive, secret, against, attacker
        Whom it told from whom.
    auc, low, high : float
        Area under the ROC curve, and its 95 % interval (DeLong's).
    least, most : float
        The largest lower and upper end over all attackers and pairs, at a level that is corrected
        for their number (Bonferroni's).
    """

    sensitive: Name
    secret: Any
    against: Any
    attacker: str
    auc: float
    low: float
    high: float
    least: float
    most: float


def pairs_to_attack(secrets: Secrets, halves: Sequence[Array]) -> list[tuple[int, int]]:
    """Return the pairs of secrets with rows enough in each half; of missing ones the code is -1."""
    n = len(secrets.labels)
    counts = np.min([np.bincount(secrets.codes[h] + 1, minlength=n + 1) for h in halves], axis=0)
    return [(i, j) for i, j in combinations(range(n), 2) if min(counts[[i + 1, j + 1]]) >= LEAST]


def half_width(n: int, m: int) -> float:
    """Return half the width of the 95 % interval of an AUC of .5 with so many rows of each.

    >>> round(half_width(100, 100), 3)
    0.08
    """
    return 1.96 * math.sqrt((n + m + 1) / (12.0 * n * m))


def attacked(
    rows: Any,
    secrets: Sequence[Secrets],
    rounds: Sequence[tuple[Array, Array]],
    attackers: Mapping[str, Any],
    *,
    copies: bool,
    groups: Array | None = None,
) -> Attacked:
    """Return the best attack on released rows, as `seen` returns them.

    In each round attackers learn on the first rows, and are judged on the second. What is reported
    was chosen within the first, so that its figure is unbiased and its interval that of rows drawn
    anew; or of groups drawn anew, where ``groups`` has a number for each row: then rounds have
    whole groups. Of several rounds it is the mean; they share rows, so the standard error is the
    mean of theirs, which is right however they hang together.
    """
    seen_rows = with_copies(rows) if copies else rows
    groups = np.arange(len(rows)) if groups is None else groups
    each = [_round(seen_rows, secrets, halves, attackers, groups) for halves in rounds]
    attempts = [(s, name, pair) for s in secrets for name in attackers for pair in s.pairs]
    best = [choosing.argmax() for choosing, _, _ in each]
    secret, name, (i, j) = attempts[max(best, key=best.count)]
    found = [(areas[k], errors[k]) for k, (_, areas, errors) in zip(best, each, strict=True)]
    auc, error = (float(mean) for mean in np.mean(found, axis=0))
    areas, errors = (np.mean([judged[k] for judged in each], axis=0) for k in (1, 2))
    wide = float(ndtri(1.0 - 0.05 / (2 * len(attempts)))) * errors
    return Attacked(
        secret.name,
        secret.labels[i],
        secret.labels[j],
        name,
        auc,
        max(auc - 1.96 * error, 0.0),
        min(auc + 1.96 * error, 1.0),
        float((areas - wide).max()),
        float((areas + wide).max()),
    )


def _round(
    rows: Any,
    secrets: Sequence[Secrets],
    halves: tuple[Array, Array],
    attackers: Mapping[str, Any],
    groups: Array,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what each attempt seems worth on the first half, and its AUC and error on the second.

    Attempts are in the order of secrets, attackers and pairs.
    """
    chosen, judged = [], []
    for secret in secrets:
        for attacker in counted(list(attackers.values()), "attackers"):
            chosen.append(_areas(rows, secret, _cut(halves[0], secret, groups), attacker, groups))
            judged.append(_areas(rows, secret, halves, attacker, groups))
    choosing, judging = np.concatenate(chosen), np.concatenate(judged)
    least = choosing[:, 0] - np.sqrt(choosing[:, 1])
    return least, judging[:, 0], np.sqrt(judging[:, 1])


def _cut(rows: Array, secret: Secrets, groups: Array) -> tuple[Array, Array]:
    """Return two halves of rows, with as many groups of each secret in both."""
    _, firsts, back = np.unique(groups[rows], return_index=True, return_inverse=True)
    ordered = np.argsort(secret.codes[rows[firsts]], kind="stable")
    ranks = np.empty(len(ordered), dtype=np.intp)
    ranks[ordered] = np.arange(len(ordered))
    ranks = ranks[back.ravel()]
    in_order = np.argsort(ranks, kind="stable")
    first = ranks[in_order] % 2 == 0
    return rows[in_order[first]], rows[in_order[~first]]


def _areas(
    rows: Any, secret: Secrets, halves: tuple[Array, Array], attacker: Any, groups: Array
) -> FloatArray:
    """Return AUC and its variance of each pair, learnt on the first half, judged on the second."""
    codes = np.unique(np.array(secret.pairs))
    learn, judge = (half[np.isin(secret.codes[half], codes)] for half in halves)
    model = trained(attacker, rows.iloc[learn], secret.codes[learn])
    areas = np.empty((len(secret.pairs), 2))
    for k, (i, j) in enumerate(secret.pairs):
        x, y = (judge[secret.codes[judge] == code] for code in (i, j))
        both = np.concatenate([x, y])
        scores = scored(model, rows.iloc[both], i, j)
        areas[k] = area(scores[: len(x)], scores[len(x) :], groups[both])
    return areas


def area(x: FloatArray, y: FloatArray, groups: Array | None = None) -> tuple[float, float]:
    """Return the area under the ROC curve of x above y, and its variance.

    E. DeLong, D. DeLong and D. Clarke-Pearson, 1988; where it is 0, what one pair of rows makes.
    Of groups, a number for each x and then for each y, it is N. Obuchowski's (1997): what rows of
    one group add is summed before it is squared.

    >>> area(np.array([1.0, 2.0]), np.array([0.0, 1.0]))[0]
    0.875
    """
    above, below = twice_below(x, y) / (2.0 * len(y)), 1.0 - twice_below(y, x) / (2.0 * len(x))
    least = 0.25 / (len(x) * len(y))
    if groups is None or len(np.unique(groups)) == len(groups):
        variance = above.var() / max(len(x) - 1, 1) + below.var() / max(len(y) - 1, 1)
        return float(above.mean()), float(variance + least)
    parts = [(values - values.mean()) / max(len(values) - 1, 1) for values in (above, below)]
    group_codes = np.unique(groups, return_inverse=True)[1].ravel()
    sums = np.bincount(group_codes, np.concatenate(parts))
    return float(above.mean()), float(sums @ sums + least)


def task_score(task: Task, raw: Any, released: Any, halves: tuple[Array, Array]) -> float:
    """Return the score on true rows of a model that learnt on released ones: AUC or R^2."""
    scores = [
        score_of(task, released, task.target, raw, train, test)
        for test, train in (halves, halves[::-1])
    ]
    return float(np.mean(scores))


def changes(raw: Any, released: Any, columns: Sequence[Name]) -> tuple[float, Any]:
    """Return the mean change in standard deviations, and which values come out equal."""
    raw, released = (in_days_of(each[list(columns)]) for each in (raw, released))
    means, equal = [], np.ones((len(raw), len(columns)), dtype=bool)
    for k, name in enumerate(columns):
        before, after = raw[name], released[name]
        equal[:, k] = same = _equal(before, after)
        if before.nunique(dropna=False) <= 1:
            continue
        if _is_number(before) and _is_number(after) and (before.notna() & after.notna()).any():
            differences = np.abs(before.astype(float) - after.astype(float))
            spread = float(before.astype(float).std(ddof=0))
            means.append(float(np.nanmean(differences) / max(spread, 1e-300)))
        else:
            means.append(float(1.0 - same.mean()))
    return float(np.mean(means)) if means else 0.0, equal


def in_days_of(rows: Any) -> Any:
    """Return rows with dates as whole days, which are numbers."""
    return recoded(rows, days=date_columns(rows))


def _equal(before: Any, after: Any) -> Array:
    """Return which values are equal, or both missing."""
    same = (before.astype(object) == after.astype(object)) | (before.isna() & after.isna())
    return np.asarray(same, dtype=bool)


def _is_number(column: Any) -> bool:
    return getattr(column.dtype, "kind", "") in "iuf"


def constants(raw: Any, columns: Sequence[Name]) -> Any:
    """Return rows of constants: medians, and the most frequent value of what has no order."""
    blank, dates = raw[list(columns)].copy(), date_columns(raw)
    for name in columns:
        values = raw[name].dropna()
        if len(values):
            ordered = _is_number(values) or name in dates
            middle = values.quantile(0.5, "lower") if ordered else values.mode().iloc[0]
            blank[name] = [middle] * len(raw)
    return blank


def groups(rows: Any, columns: Sequence[Name]) -> tuple[float, int]:
    """Return the share of rows that no other one equals, and the smallest number of equal ones."""
    sizes = rows.groupby(list(columns), dropna=False, observed=True, sort=False).size()
    return float((sizes == 1).sum() / len(rows)), int(sizes.min())


def stacked(frames: Sequence[Any]) -> Any:
    """Return the rows of frames of the same columns, one below the other."""
    first = frames[0]
    rows_below = first.iloc[[0] * sum(map(len, frames))].reset_index(drop=True)
    for name in first.columns:
        rows_below[name] = [value for frame in frames for value in frame[name].tolist()]
    types = {name: first[name].dtype for name in first.columns if not is_words(first[name])}
    return rows_below.astype(types)


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
    figures = []
    for name in columns:
        before, after = raw[name], released[name]
        if is_words(before) != is_words(after):
            continue  # codes of words, where they come out as numbers
        figures.append(Survived("unchanged share", name, 1.0, float(_equal(before, after).mean())))
        if not is_words(before):
            a, b = before.astype(float), after.astype(float)
            figures.append(Survived("median", name, float(a.median()), float(b.median())))
            figures.append(Survived("standard deviation", name, float(a.std()), float(b.std())))
            continue
        top = before.value_counts().index[0] if before.notna().any() else None
        shares = [float((column.astype(object) == top).mean()) for column in (before, after)]
        figures.append(Survived(f"share of {quoted(top)}", name, *shares))
    return figures


def correlations(raw: Any, released: Any, columns: Sequence[Name]) -> list[Survived]:
    """Return the rank correlation of each pair of numbers that changes most, three at most."""
    numbers = [n for n in columns if not is_words(raw[n]) and not is_words(released[n])]
    a, b = (frame[numbers].astype(float).corr("spearman") for frame in (raw, released))
    figures = [
        Survived("rank correlation", f"{x} and {y}", float(a.loc[x, y]), float(b.loc[x, y]))
        for x, y in combinations(numbers, 2)
    ]
    figures = [figure for figure in figures if not math.isnan(figure.before - figure.after)]
    return sorted(figures, key=lambda figure: -abs(figure.before - figure.after))[:3]


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
    if not len(known_rows(target)):
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
    task: Task, raw: Any, released: Any, columns: Sequence[Name], parts: RowSplit
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
    test = np.intersect1d(parts.test, known_rows(task.target))
    noisy = _target(task, released, columns)
    scores = [
        score_of(
            task, rows[features], target, raw[features], np.intersect1d(learnt, rows_known), test
        )
        for rows, target in ((raw, task.target), (released, noisy))
        for rows_known in [np.intersect1d(known_rows(target), known_rows(task.target))]
    ]
    if is_regressor(task.model):
        return [Survived("R2 on true rows", task.name, *scores)]
    labels, counts = np.unique(task.target[test], return_counts=True)
    rate = float(counts.max() / len(test))
    base = f"base rate of {quoted(labels[counts.argmax()])}"
    return [Survived("AUC on true rows", task.name, *scores), Survived(base, task.name, rate, rate)]


def known_rows(target: Array) -> Array:
    """Return the rows whose target is not missing."""
    there = [value == value and value is not None for value in target]  # NaN is not itself
    return np.flatnonzero(np.array(there, dtype=bool))


def _target(task: Task, released: Any, columns: Sequence[Name]) -> Array:
    if not task.by_column or task.name not in columns:
        return task.target
    if is_words(released[task.name]) == (task.target.dtype.kind not in "biuf"):
        return np.asarray(released[task.name]).astype(task.target.dtype)
    return task.target


def score_of(task: Task, rows: Any, target: Array, true: Any, train: Array, test: Array) -> float:
    """Return the score on true rows of a model that learnt from others."""
    model, learnt = clone(task.model), learnable(rows.iloc[train])
    if not isinstance(model, Pipeline):
        model = make_pipeline(encoder(learnt), model)
    model.fit(learnt, target[train])
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


# ------------------------------------------------------------------------------ re-identification

_MOST_LINKED = 1_000
_NEAREST_BY = 1e-9


def reidentified(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return how many rows point to one person: uniques, equal rows, and how near records are.

    The distance to the closest record is the median over rows, in ranks between 0 and 1 summed over
    columns: of raw rows to the closest other one, of released rows to the closest raw one.
    """
    columns = list(after.columns)
    alone, fewest = zip(*(groups(each, columns) for each in (before, after)), strict=True)
    return [
        Survived("unique rows", "all", *alone),
        Survived("fewest equal rows (k)", "all", *map(float, fewest)),
        *_linked(before, after, rows[:_MOST_LINKED]),
    ]


def _linked(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return which share of rows is nearest to the row that it came from, ties as fractions."""
    if any(is_words(before[name]) != is_words(after[name]) for name in before.columns):
        return []  # codes of words
    model = encoder(before).fit(learnable(before))
    blocks = [model.transform(block.iloc[rows]) for block in (before, after)]
    before_rows, after_rows = (b.toarray() if hasattr(b, "toarray") else b for b in blocks)
    shares, nearest = [], []
    for block in (before_rows, after_rows):
        distances = pairwise_distances(block, before_rows, metric="manhattan")
        near = distances <= distances.min(axis=1, keepdims=True) + _NEAREST_BY
        shares.append(float((np.diag(near) / near.sum(axis=1)).mean()))
        if block is before_rows:
            np.fill_diagonal(distances, np.inf)
        nearest.append(float(np.median(distances.min(axis=1))))
    return [
        Survived(f"nearest to its own of {len(rows)}", "all", *shares),
        Survived("distance to the closest record", "all", *nearest),
    ]


# ---------------------------------------------------------------------------------- the secrets

SCARCE = 20
"""Rows of a secret, of which some are held out and few are left to fit."""


def secrets_of(frame: Any, name: Any) -> Secrets:
    """Return the secrets of the rows, or combinations of them; of missing ones the code is -1."""
    if isinstance(name, tuple):
        return _combined(name, [secrets_of(frame, each) for each in name])
    values = frame_table(frame).values(name)
    data = np.asarray(values.data)
    there = np.ones(len(frame), dtype=bool)
    if values.n_missing:
        there = frame[name].notna().to_numpy()
    codes = np.full(len(frame), -1)
    atoms, codes[there] = np.unique(data[there], return_inverse=True)
    levels = values.levels
    labels = atoms.tolist() if levels is None else [plain(levels[int(c)]) for c in atoms]
    return Secrets(name, labels, codes, [])


def _combined(names: tuple[Name, ...], parts: Sequence[Secrets]) -> Secrets:
    """Return the combinations of secrets that occur."""
    every = np.stack([part.codes for part in parts], axis=1)
    there, codes = (every >= 0).all(axis=1), np.full(len(every), -1)
    kinds, codes[there] = np.unique(every[there], axis=0, return_inverse=True)
    labels = [
        tuple(part.labels[code] for part, code in zip(parts, kind, strict=True))
        for kind in kinds.tolist()
    ]
    return Secrets(names, labels, codes, [])


def with_intervals(frame: Any, sensitive: Any) -> Any:
    """Return a table with intervals for secrets that are read in bins."""
    table = frame_table(frame)
    for name, bins in bins_of(sensitive, table.names).items():
        frame = _in_intervals(frame, name, edges_of(name, table.values(name), bins, None))
    return frame


def _in_intervals(frame: Any, name: Name, edges: tuple[float, ...]) -> Any:
    values = in_intervals(name, frame_table(frame).values(name), edges)
    assert values.levels is not None
    labels = np.array([*values.levels, None], dtype=object)
    changed = frame.copy()
    changed[name] = labels[values.filled(-1)]
    return changed


def rare_secrets(frame: Any, hidden: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the values that too few rows have, of columns with two others at least."""
    rare = {}
    for name in hidden:
        secret = secrets_of(frame, name)
        counts = np.bincount(secret.codes[secret.codes >= 0], minlength=len(secret.labels))
        few = [label for label, count in zip(secret.labels, counts, strict=True) if count < SCARCE]
        if few and len(few) + 2 <= len(counts) <= MOST_SECRETS:
            rare[name] = few
    return rare


def rows_without(frame: Any, rare: Mapping[Any, Sequence[Any]]) -> Array:
    """Return which rows of a table have none of those values."""
    kept = np.ones(len(frame), dtype=bool)
    for name, labels in rare.items():
        secret = secrets_of(frame, name)
        codes = [code for code, label in enumerate(secret.labels) if label in labels]
        kept &= ~np.isin(secret.codes, codes)
    return kept
