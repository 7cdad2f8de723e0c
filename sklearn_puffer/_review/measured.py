"""Figures of released rows: the best attack, the change and the score of a task.

`attacked` splits rows as an audit does: attackers learn on some, the best attacker and pair of
secrets are chosen on others, and the figure is measured on the rest, so that the choice does not
bias it. A `Measurer` has all figures of a plan. None of them tests a guarantee.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import is_regressor
from sklearn.metrics import pairwise_distances, roc_auc_score
from sklearn.utils import shuffle

from sklearn_puffer._base import Array, FloatArray, counted
from sklearn_puffer._codes import resolve
from sklearn_puffer._fits import learnable
from sklearn_puffer._review import readers
from sklearn_puffer._review.exact_tests import FOLDS, SMALL, RowSplit, Secrets
from sklearn_puffer._review.plan import Candidate
from sklearn_puffer._tables import Name, Table, frame_table, in_whole_days, put_together
from sklearn_puffer._words import on_one_line, quoted

LEAST = 10
"""Rows of a secret to learn, choose and test by, below which it is not attacked."""

WIDEST = 0.3
"""Width of the 95 % interval of an attack, above which there are too few rows."""


def attacked(
    rows: Any, secrets: Sequence[Secrets], split: RowSplit, models: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the figures of the best attack on released rows, as `seen` has them; {} of few rows.

    It is chosen by rows that are not tested, so that its figure is unbiased.
    """
    names, areas, parts = list[str](), list[Any](), (split.choose, split.test)
    rows = readers.with_copies(rows)
    own = [secret for secret in secrets if secret.pairs]
    for secret, (name, attacker) in product(own, counted(list(models.items()), "attackers")):
        claims = readers.learnt(attacker, rows, rows, split, secret)
        for i, j in secret.pairs:
            names.append(name)
            scores, codes = claims[:, i] - claims[:, j], secret.codes
            of_pair = [scores[part[codes[part] == code]] for part in parts for code in (i, j)]
            areas.append((area(*of_pair[:2]), area(*of_pair[2:])))
    if not names:
        return {}
    chosen, judged = np.array(areas).swapaxes(0, 1)
    best, errors = int(np.argmax(chosen[:, 0] - np.sqrt(chosen[:, 1]))), np.sqrt(judged[:, 1])
    auc, off = float(judged[best, 0]), 1.96 * float(errors[best])
    wide = float(ndtri(1.0 - 0.05 / (2 * len(names)))) * errors
    ends = {"low": max(auc - off, 0.0), "high": min(auc + off, 1.0)}
    least = float((judged[:, 0] - wide).max())
    return {"attacker": names[best], "attack": auc, **ends, "least": least}


def area(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return the area under the ROC curve of x above y, and its variance.

    The variance is that of E. DeLong, D. DeLong and D. Clarke-Pearson (1988), and of half a pair
    of rows, so that it is never 0.

    >>> area(np.array([1.0, 2.0]), np.array([0.0, 1.0]))[0]
    0.875
    """
    above, below = _share_below(x, y), 1.0 - _share_below(y, x)
    variance = above.var(ddof=1) / len(x) + below.var(ddof=1) / len(y)
    return float(above.mean()), float(variance + 0.25 / (len(x) * len(y)))


def _share_below(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return for each x the share of y below it, ties as one half."""
    ranked = np.sort(y)
    places = [np.searchsorted(ranked, x, side=side) for side in ("left", "right")]
    return np.asarray(np.mean(places, axis=0) / len(y))


def changes(raw: Any, released: Any, columns: Sequence[Name]) -> tuple[float, Array]:
    """Return the mean change in standard deviations, and which values come out equal.

    Of what is no number before and after the change is the share of values that differ. Columns of
    one value do not count.
    """
    raw, released = (in_whole_days(each[list(columns)]) for each in (raw, released))
    same = (raw.astype(object) == released.astype(object)) | (raw.isna() & released.isna())
    before, after = (each.select_dtypes("number").astype(float) for each in (raw, released))
    deviations = (before - after).abs().mean() / before.std(ddof=0)
    means = deviations.reindex(columns).fillna(1.0 - same.mean())
    varied = raw.nunique(dropna=False) > 1
    return float(means[varied].mean()) if varied.any() else 0.0, same.to_numpy(dtype=bool)


def constants(raw: Any, columns: Sequence[Name]) -> Any:
    """Return rows with constants: medians, and the most frequent value of what has no order."""
    blank, ordered = raw.copy(), list(in_whole_days(raw).select_dtypes("number"))
    for name in columns:
        values = raw[name].dropna()
        if len(values):
            middle = values.quantile(0.5, "lower") if name in ordered else values.mode().iloc[0]
            blank[name] = [middle] * len(raw)
    return blank


_CLASSES = 20  # a number with more values is regressed


@dataclass(frozen=True, eq=False)
class Task:
    """What the rows are used for: a column, and a model that predicts it."""

    name: Name
    model: Any
    target: Array

    def chance(self, rows: Array) -> float:
        """Return by how much two scores of so many rows may differ by chance.

        Two standard errors: of areas under the ROC curve those of ranks without a signal (H. Mann
        and D. Whitney, 1947), where all but one class have scores of their own; of R2 the largest,
        by Fisher's formula.
        """
        known = np.intersect1d(rows, readers.known_rows(self.target))
        if is_regressor(self.model):
            return 1.5 / math.sqrt(len(known))
        _, counts = np.unique(self.target[known], return_counts=True)
        others = np.maximum(len(known) - counts, 1)
        variance = ((1.0 / counts + 1.0 / others) / 12.0).mean()
        return float(2.0 * math.sqrt(variance / max(len(counts) - 1, 1)))

    @property
    def measure(self) -> str:
        """What a score is: of a number the share of its variance that is told, or an area."""
        return "R2" if is_regressor(self.model) else "AUC"

    def score(self, learnt: Any, true: Any, split: RowSplit) -> float:
        """Return how well a model does on true rows that learnt from others, as `seen` has both.

        The mean over both halves: those that readers are shown, and those that are tested. A target
        among the columns is learnt as it is there. Rows whose target is missing are left out, and
        columns that are words in one of the two alone; without any column there is no score: NaN.
        """
        features = [name for name in _alike(true, learnt) if name != self.name]
        if not features:
            return math.nan
        own, words = self.target, self.target.dtype.kind not in "biuf"
        if self.name in learnt and readers.is_words(learnt[self.name]) == words:
            own = np.asarray(learnt[self.name]).astype(own.dtype)
        scores, there, halves = [], readers.known_rows(self.target), (split.shown, split.test)
        told = np.intersect1d(there, readers.known_rows(own))
        for train, test in (halves, halves[::-1]):
            train, test = np.intersect1d(train, told), np.intersect1d(test, there)
            model = readers.trained(self.model, learnt[features].iloc[train], own[train])
            score = model.score if is_regressor(model) else partial(_auc, model)
            scores.append(score(true[features].iloc[test], self.target[test]))
        return float(np.mean(scores))


def task_of(task: Any, table: Table) -> Task | None:
    """Return the task of a column that is named."""
    if task is None:
        return None
    (name,) = resolve([task], table.names, "task")
    target = np.asarray(table.original(name))
    if not len(readers.known_rows(target)):
        raise ValueError(
            f"task names column {quoted(name)}, which has no value that is not missing; name one "
            "that has."
        )
    numbers = target.dtype.kind in "iuf" and len(np.unique(target)) > _CLASSES
    return Task(name, readers.boosted(60, regressor=numbers), target)


def _auc(model: Any, rows: Any, target: Array) -> float:
    """Return the area under the ROC curve of each class against the rest, on average.

    A class that the model has not learnt counts .5; with one class alone there is no area: NaN.
    """
    labels, unseen = np.unique(target), np.zeros(len(target))
    if len(labels) < 2:
        return math.nan
    seen = dict(zip(model.classes_, model.predict_proba(rows).T, strict=False))
    areas = [roc_auc_score(target == label, seen.get(label, unseen)) for label in labels]
    return float(np.mean(areas))


# ------------------------------------------------------------------------- of a plan, as a whole

MEASURED = 8_000
DRAWS = 10  # of a swap of a small table
_SHARE = 0.4  # of a larger table, held out
_ALIKE = 0.01  # scores of a task that differ by less are alike
_REFUSALS = (TypeError, ValueError, ArithmeticError, RuntimeError, ModuleNotFoundError)


def parted(n_rows: int, max_rows: int | None, seed: int) -> tuple[Array, Array, list[Array]]:
    """Return which rows are fitted, at most ``max_rows`` of many, and which are measured.

    Of a small table all are both: each of the folds, which come last, is released by a fit of the
    others.
    """
    rows = np.arange(n_rows)
    order = shuffle(rows, random_state=seed)
    if n_rows < SMALL:
        return rows, rows, [np.sort(fold) for fold in np.array_split(order, FOLDS)]
    held, others = np.split(order, [round(_SHARE * n_rows)])
    return np.sort(others[:max_rows]), np.sort(held), []


class Measurer:
    """Measures candidates on rows that were held out.

    ``roles`` names columns: those that are "public" are released, those that are "known" stay with
    people. Of a small table all rows are ``held``, and parted in ``folds``. ``split`` says from
    which of them attackers learn, by which they choose and on which they are tested: some thousands
    of a large table. Scores of the task that differ by less than ``within`` are alike.
    """

    def __init__(
        self, frame: Any, roles: Any, secrets: Sequence[Secrets], max_rows: int | None, seed: int
    ) -> None:
        fitted, held, self.folds = parted(len(frame), max_rows, seed)
        self.fitted, self.held = frame.iloc[fitted], frame.iloc[held].reset_index(drop=True)
        self.roles: Mapping[str, list[Name]] = roles
        self.n_rows, self.seed = len(frame), seed
        chosen = shuffle(np.arange(len(held)), random_state=seed)[:MEASURED]
        parts = vars(RowSplit.of(len(chosen), seed))
        self.split = RowSplit(**{name: np.sort(chosen[part]) for name, part in parts.items()})
        own = [secret.of(held) for secret in secrets]
        self.secrets = [each.with_rows(LEAST, *vars(self.split).values()) for each in own]
        self.task = task_of(next(iter(roles["task"]), None), frame_table(self.held))
        self.within = 0.0 if self.task is None else max(_ALIKE, self.task.chance(chosen))

    def tried(self, candidate: Candidate) -> Candidate:
        """Fit a candidate and measure its release; where that fails it is refused."""
        try:
            with warnings.catch_warnings():  # of which the plan tells
                warnings.simplefilter("ignore")
                fitted = replace(candidate, estimator=candidate.fit(self.fitted))
                draws = 1 if fitted.estimator._fitted.mechanism.by_row or not self.folds else DRAWS
                releases = [self.released(fitted, draw) for draw in range(draws)]
        except _REFUSALS as error:
            return replace(candidate, verdict="refused", reason=on_one_line(error))
        certificate = fitted.estimator.certificate_
        found = replace(self.measured(fitted, *releases), loss=certificate.loss)
        return found.judged(holds=certificate.holds)

    def released(self, candidate: Candidate, draw: int = 0) -> Any:
        """Return the held-out rows as a candidate releases them, drawn by the seed and the draw.

        There are no folds for a swap, which exchanges the rows of one table and learns from no
        other.
        """
        held, frames = self.held, []
        folds = self.folds if candidate.estimator._fitted.mechanism.by_row else []
        pieces = folds or [np.arange(len(held))]
        for piece in counted(pieces, "folds"):
            fitted = candidate.fit(held.drop(index=piece)) if folds else candidate.estimator
            drawn = copy.copy(fitted)
            drawn.random_state = self.seed + draw
            frames.append(drawn.transform(held.iloc[piece]))
        return put_together(frames, pieces)

    def measured(self, candidate: Candidate, *releases: Any) -> Candidate:
        """Return a candidate with the figures of released rows.

        Change and equal rows are means over the releases; the first one is attacked and learnt.
        """
        public, known = self.roles["public"], self.roles["known"]
        moved = [changes(self.held, released, public) for released in releases]
        both = (releases[0], self.held)
        after, before = (readers.seen(frame, [*public, *known]) for frame in both)
        return replace(
            candidate,
            change=float(np.mean([change for change, _ in moved])),
            rows_equal=float(np.mean([equal.all(axis=1).mean() for _, equal in moved])),
            task=math.nan if self.task is None else self.task.score(after, before, self.split),
            **attacked(after, self.secrets, self.split, readers.attackers()),
        )


# ------------------------------------------------------------------------------- what survives


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


def _alike(raw: Any, released: Any) -> list[Name]:
    """Return the columns that are words before and after, or neither: not codes of words."""
    return [name for name in raw if readers.is_words(raw[name]) == readers.is_words(released[name])]


def task_figures(task: Task, raw: Any, released: Any, parts: RowSplit) -> list[Survived]:
    """Return how well a model does on true rows that learnt from true, or from released rows."""
    scores = [task.score(rows, raw, parts) for rows in (raw, released)]
    return [Survived(f"{task.measure} on true rows", task.name, *scores)]


_MOST_LINKED = 1_000
_NEAREST_BY = 1e-9


def reidentified(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return how many rows point to one person: uniques, equal rows, and how near records are.

    The distance to the closest record is the median over rows, in ranks between 0 and 1 summed over
    columns: of raw rows to the closest other one, of released rows to the closest raw one.
    """
    both = (before, after)
    alike = [np.bincount(readers.equal_rows(each[list(after)])) for each in both]
    figures = {
        "different rows": [float(len(sizes)) for sizes in alike],
        "unique rows": [float((sizes == 1).sum() / sizes.sum()) for sizes in alike],
        "fewest equal rows (k)": [float(sizes.min()) for sizes in alike],
    }
    if len(_alike(before, after)) == len(list(before)):
        # the share of rows that are nearest to the row that they came from, ties as fractions
        rows, shares, nearest = rows[:_MOST_LINKED], list[float](), list[float]()
        model = readers.encoder(before).set_params(sparse_threshold=0.0).fit(learnable(before))
        true, _ = blocks = [model.transform(block.iloc[rows]) for block in both]
        for block in blocks:
            distances = pairwise_distances(block, true, metric="manhattan")
            near = distances <= distances.min(axis=1, keepdims=True) + _NEAREST_BY
            shares.append(float((np.diag(near) / near.sum(axis=1)).mean()))
            if block is true:
                np.fill_diagonal(distances, np.inf)
            nearest.append(float(np.median(distances.min(axis=1))))
        figures |= {f"nearest to its own of {len(rows)}": shares}
        figures |= {"distance to the closest record": nearest}
    return [Survived(what, "all", *ends) for what, ends in figures.items()]
