"""`audit`: what each reader found out from released rows, and what the rows are still good for."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    Array,
    PufferfishWarning,
    __version__,
    check_seed,
    check_verbose,
    listed,
    listening,
    quoted,
    utc_now,
)
from sklearn_puffer._base import task as reported
from sklearn_puffer._release import TableRelease, group_codes
from sklearn_puffer._review.exact_tests import (
    TRAIN,
    Attack,
    Budget,
    Field,
    Question,
    Reader,
    RowSplit,
    claims_of,
    corrected,
    judged,
    shares,
)
from sklearn_puffer._review.findings import CONTROL, Audit, Survived, pair_names, survived
from sklearn_puffer._review.given import (
    check_aligned,
    chosen_rows,
    frame_of,
    pairs_of,
    secrets_in,
)
from sklearn_puffer._review.measured import Task, task_of
from sklearn_puffer._review.readers import (
    Groups,
    Release,
    Secrets,
    attackers_of,
    equal_rows,
    fresh,
    readers_of,
    seen,
)
from sklearn_puffer._tables import Name, as_pandas, frame_table, is_frame

_MOST_ROWS = 20_000
_ROUNDED = 2e-3


def audit(
    estimator: Any,
    table: Any,
    attackers: Any = None,
    task: Any = None,
    *,
    sensitive_features: Any = None,
    max_rows: int | None = _MOST_ROWS,
    random_state: int = 0,
    verbose: int = 0,
) -> Audit:
    r"""Attack what a fitted estimator releases, as readers of the release would.

    The rows are released once. Each reader learns from some rows, claims a secret of others, and
    the event that tells most (what he claims above a threshold, in a bin, in a group of rows that
    look alike) is chosen on a fifth of the rows, and judged on the rest by their true secrets:
    within the event the odds of two secrets may differ from the base odds by e^epsilon at most.
    Of fewer than 1,000 rows two fifths train and choose, each read by a model of the others.

    Parameters
    ----------
    estimator : PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap or PufferfishRelease
        Fitted, or read from its release artifact.
    table : DataFrame
        In memory, of pandas, polars or pyarrow: rows that were not in `fit`, with the sensitive
        columns and those that are released; of a swap any rows. Rows must be independent of each
        other: keep one row of each person. An estimator with groups is given whole groups, and
        attackers see all released rows of a group.
    attackers : classifier, list or {name: classifier}, default=None
        Fresh models: None for boosted trees, nearest neighbours and logistic regression. A pipeline
        is given the released columns as a DataFrame, with words as ``category``; any other
        classifier numbers (ranks between 0 and 1, and an indicator of each word). All but pipelines
        of yours have one column more, how often each row occurs, where that differs. Classifiers
        without ``predict_proba`` or ``decision_function`` have one threshold.
    task : name of a column, or (estimator, y), default=None
        What the rows are used for: how well a model does on true rows that learnt from released
        ones, next to one that learnt from true ones: the area under its ROC curve, or R2 of a
        regressor. One reader joins it to the released rows.
    sensitive_features : Series, DataFrame or array-like of n_rows, default=None
        The secrets, where `fit` had them beside the table.
    max_rows : int or None, default=20000
        Most rows that are released, drawn from the table, whole groups of them; None for all.
    random_state : int, default=0
        Draws which rows train, choose and test; never what is released.
    verbose : int, default=0
        1 prints to standard error how far it has come.

    Returns
    -------
    Audit
        ``findings``, ``readers``, ``table``, ``utility`` and ``power``; printed, it says all that
        in words.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its value and the way out; of rows that `transform` refuses; and if
        fewer than five rows of a secret are there to learn from.
    UncertifiedError
        If the certificate does not hold.

    Notes
    -----
    *Formal guarantees.* If the rows with their secrets are independent draws of one distribution
    (or, of a swap, people are exchangeable within strata), and the release keeps its guarantee,
    there is a finding with a chance of 5 % at most, whatever the readers do: the p-value
    holds at any number of rows, and those of all readers, pairs and directions are corrected
    together (S. Holm, 1979): half the level is for the claim of each reader that looked best
    before it was judged, and half for all alike. A tenth of each share is for base odds that are
    larger than they are taken to be. `sklearn_puffer._review.exact_tests` has the proof. Intervals
    are those of C. Clopper and E. Pearson (1934); the area under the ROC curve has W. Hoeffding's
    interval (1963, section 5) for two samples. Each misses with a chance of 5 % at most by itself,
    not all together.

    The readers whom a guarantee covers: *fresh models* learn from released rows of others, and know
    how often each row occurs (but for guarantees of an order alpha). Who *holds the list* of rows
    with their secrets knows what the mechanism publishes, too: the mean flows of a swap, by the
    secret of the row that somebody holds; the channel and the counts of typical rows. Who has a
    *better model* learnt it from raw rows of others. An *insider* of a swap finds his own row with
    somebody else. Who *joins a label* is covered where ``known=`` or ``joined=`` names it; else
    what he finds is shown, and is no finding.

    Rows that are judged are exchanged as a table of their own, so that readers learn from people of
    another table. The certificate is about the distribution that was fitted, and held-out rows
    follow the true one: a finding says that *either* the release loses more than was certified,
    *or* these rows follow another distribution. For a pair an area under the ROC curve
    of :math:`1 - (1 - \delta)^2/(1 + e^\varepsilon)` is allowed.

    The audit draws releases of its own and drops them: to hand one on beside another release of the
    same rows would make two.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_puffer import PufferfishNoiser, audit
    >>> cars = [0, 5, 2, 4, 1, 9, 0, 3] * 2000
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 8000, "cars": cars})
    >>> fitted, held = table[:-2000], table[-2000:]
    >>> noiser = PufferfishNoiser(4.0, sensitive="loan").fit(fitted)
    >>> found = audit(noiser, held, LogisticRegression())
    >>> found.findings, found.caught
    ((), True)
    >>> found.readers[["reader", "allowed"]]
             reader  allowed
    0  fresh models      4.0
    1  better model      4.0
    """
    asked = _Asked.of(estimator, table, attackers, task, sensitive_features, max_rows, random_state)
    stages = reported("stages of an audit", _STAGES)
    with listening(check_verbose(verbose), "audit"), stages as done:
        audited = _Audited.of(asked)
        questions, few = audited.questions()
        done()
        readers = [readers_of(audited.release, secret) for secret in audited.secrets]
        fields = audited.fields(readers, questions)
        done()
        attacks, others = _judged(_covered(readers), fields), _judged(_others(readers), fields)
        control = audited.control(fields)
        done()
        figures = audited.survived()
        done()
    return audited.found(
        attacks=tuple(attacks),
        control=tuple(control),
        others=tuple(others),
        survived=tuple(figures),
        untested=pair_names(few),
        knows=tuple({reader.name: reader.knows for each in readers for reader in each}.items()),
    )


# the release, what readers learn, attacks, and what survived
_STAGES = 4


@dataclass(frozen=True, eq=False)
class _Asked:
    """What an audit is asked, checked before any work.

    ``frame`` has all rows that were given; ``rows`` are those that are audited, and ``secrets`` and
    ``beside``, the secrets that were given beside the table, are of these.
    """

    estimator: TableRelease
    frame: Any
    rows: Array
    column: Name | None
    notes: tuple[str, ...]
    secrets: list[Secrets]
    beside: Any
    attackers: dict[str, Any]
    task: Task | None
    seed: int

    @classmethod
    def of(
        cls,
        estimator: Any,
        table: Any,
        attackers: Any,
        task: Any,
        beside: Any,
        max_rows: Any,
        seed: Any,
    ) -> _Asked:
        """Return it, or say what cannot be audited."""
        _check_fitted(estimator)
        models, seed = attackers_of(attackers), check_seed(seed) or 0
        frame = frame_of(table)
        source = frame_table(frame, "table")
        check_aligned(table, task)
        every = secrets_in(estimator, source, beside, frame)
        rows, column, notes = chosen_rows(estimator, source, every, max_rows, seed)
        secrets = [replace(secret, codes=secret.codes[rows]) for secret in every]
        work = task_of(task, source)
        work = None if work is None else work.of(rows)
        beside = None if beside is None else _taken(beside, rows)
        what = (estimator, frame, rows, column, notes, secrets, beside, models, work, seed)
        return cls(*what)


_Few = tuple[Name, Any, Any, int]


@dataclass(frozen=True, eq=False)
class _Audited:
    """The rows that are audited, released once.

    ``release`` is what attackers see of it, and ``secrets`` are theirs: of rows, or of whole groups
    of them. ``before`` and ``after`` are the rows themselves, of which ``parts`` train, choose and
    test.
    """

    asked: _Asked
    release: Release
    secrets: list[Secrets]
    before: Any
    after: Any
    parts: RowSplit

    @classmethod
    def of(cls, asked: _Asked) -> _Audited:
        """Return a release of rows in parts, whole groups of them where a column has these."""
        frame, groups, secrets = asked.frame.iloc[asked.rows], None, asked.secrets
        parts = units = RowSplit.of(len(frame), asked.seed)
        if asked.column is not None:
            groups = Groups.of(group_codes(frame_table(frame), asked.column))
            units = RowSplit.of(len(groups), asked.seed)
            parts = RowSplit(*map(groups.rows, (units.train, units.choose, units.test)))
            secrets = [replace(each, codes=each.codes[groups.first]) for each in secrets]
        released, drawn = _release(asked.estimator, frame, asked.beside, parts)
        columns = asked.estimator.utility_.index
        names = [name for name in released.columns if name in columns]
        before, after = seen(frame, names), seen(released, names)
        certificate = asked.estimator.certificate_
        release = Release(
            estimator=drawn,
            raw=frame,
            released=released,
            before=_view(groups, before),
            after=_view(groups, after),
            parts=units,
            budget=Budget(certificate.epsilon, certificate.delta, certificate.alpha),
            exchanged=not asked.estimator._fitted.mechanism.by_row,
            attackers=asked.attackers,
            label=None if asked.task is None else (asked.task.name, asked.task.target),
            groups=groups,
        )
        return cls(asked, release, secrets, before, after, parts)

    def strata(self) -> Array | None:
        """Return what known columns say of each row; the tested rows of an exchange are apart."""
        release = self.release
        if not (release.known or release.exchanged):
            return None
        rows = np.zeros(len(self.after), dtype=np.intp)
        if release.known:
            rows = equal_rows(release.released[release.known])
        if release.groups is not None:
            rows = rows[release.groups.first]
        tested = np.isin(np.arange(len(rows)), release.parts.test)
        return 2 * rows + tested if release.exchanged else rows

    def questions(self) -> tuple[list[list[Question]], list[_Few]]:
        """Return what is asked of each column, and the pairs with too few rows to ask."""
        pairs, asked, few = pairs_of(self.asked.estimator), [], []
        for secret in self.secrets:
            every = [(q, self._to_learn(secret, q)) for q in _questions(secret, pairs[secret.name])]
            asked.append([question for question, n in every if n >= LEAST])
            few += [(q.sensitive, q.secret, q.against, n) for q, n in every[::2] if n < LEAST]
        if not any(asked):
            raise ValueError(_too_few(few))
        return asked, few

    def _to_learn(self, secret: Secrets, question: Question) -> int:
        """Return how many rows of the rarer secret readers learn from, or choose events by."""
        parts = self.release.parts
        return min(
            int((secret.codes[rows] == code).sum())
            for rows in (parts.train, parts.choose)
            for code in (question.i, question.j)
        )

    def fields(
        self, readers: Sequence[Sequence[Reader]], questions: Sequence[Sequence[Question]]
    ) -> list[Field]:
        """Return what all attacks on each sensitive column share."""
        release, certificate = self.release, self.asked.estimator.certificate_
        tests = _n_tests(_covered(readers), questions)
        pure = certificate.holds and release.budget.alpha is None and not release.budget.delta
        return [
            Field(
                secret.codes,
                release.parts,
                asked,
                _certified(certificate.pairs, secret.name),
                tests,
                self.strata(),
                release.exchanged,
                release.budget.epsilon if pure else math.inf,
            )
            for secret, asked in zip(self.secrets, questions, strict=True)
        ]

    def control(self, fields: Sequence[Field]) -> list[Attack]:
        """Return what fresh models find out of the rows as they are."""
        rows = self.release.before
        readers = [[fresh(self.release, secret, rows, CONTROL)] for secret in self.secrets]
        return _judged(readers, fields)

    def survived(self) -> list[Survived]:
        """Return what released rows are still good for, and which persons they point to."""
        return survived(self.before, self.after, self.parts, self.asked.task)

    def found(self, **what: Any) -> Audit:
        """Return the audit."""
        asked, certificate, parts = self.asked, self.asked.estimator.certificate_, self.parts
        drift = None if certificate.fitted is None else certificate.check(asked.frame)
        return Audit(
            **what,
            promise=certificate.promise(),
            n_rows=len(asked.rows),
            n_given=len(asked.frame),
            n_train=len(parts.train),
            n_choose=len(parts.choose),
            n_test=len(parts.test),
            drifted=drift is not None and drift.drifted,
            fitted=_counted_alike(asked) if drift is None else _rows_of_fit(drift),
            released_by=certificate.released_by,
            notes=(*asked.notes, *_notes(self.release, asked.estimator)),
            version=__version__,
            date=utc_now(),
        )


def _view(groups: Groups | None, rows: Any) -> Any:
    """Return what attackers see of rows, or of groups of them."""
    return rows if groups is None else groups.seen(rows)


def _release(estimator: Any, frame: Any, beside: Any, parts: RowSplit) -> tuple[Any, Any]:
    """Return a release, and a copy of the estimator that made it: the audit's own is no release.

    Where rows are exchanged as a whole, the tested ones are a table of their own, the last.
    """
    if estimator._fitted.mechanism.by_row:
        return _drawn(estimator, frame, on_drift="ignore")
    pieces = []
    for rows in (parts.shown, np.sort(parts.test)):
        secrets = {} if beside is None else {"sensitive_features": _taken(beside, rows)}
        piece, own = _drawn(estimator, frame.iloc[rows], **secrets)
        pieces.append((rows, piece))
    released = frame[list(piece.columns)].copy()
    for name in released.columns:
        values = released[name].array.copy()
        for rows, piece in pieces:
            values[rows] = piece[name].array
        released[name] = values
    return released, own


def _drawn(estimator: Any, frame: Any, **settings: Any) -> tuple[Any, Any]:
    own = copy.copy(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        return own.transform(frame, **settings), own


def _taken(beside: Any, rows: Array) -> Any:
    """Return some rows of what is given beside a table."""
    if is_frame(beside):
        beside = as_pandas(beside)
    return beside.iloc[rows] if hasattr(beside, "iloc") else np.asarray(beside)[rows]


# ------------------------------------------------------------------------------ what readers find


def _covered(readers: Sequence[Sequence[Reader]]) -> list[list[Reader]]:
    """Return the readers whom the guarantee covers, of each sensitive column."""
    return [[reader for reader in each if reader.budget is not None] for each in readers]


def _others(readers: Sequence[Sequence[Reader]]) -> list[list[Reader]]:
    """Return the readers whom it does not cover."""
    return [[reader for reader in each if reader.budget is None] for each in readers]


def _n_tests(readers: Sequence[Sequence[Reader]], questions: Sequence[Sequence[Question]]) -> int:
    both = zip(readers, questions, strict=True)
    return sum(len(reader.claims) * len(asked) for each, asked in both for reader in each)


def _judged(readers: Sequence[Sequence[Reader]], fields: Sequence[Field]) -> list[Attack]:
    """Return what readers find out, by the field of each column, with p-values over all of it."""
    claims = [
        (claim, field)
        for each, field in zip(readers, fields, strict=True)
        for reader in each
        for claim in claims_of(reader, field)
    ]
    names = {reader.name for each in readers for reader in each}
    tests = _n_tests(readers, [field.questions for field in fields])
    weights = shares([claim for claim, _ in claims], tests, len(names))
    attacks = [judged(*both, share) for both, share in zip(claims, weights, strict=True)]
    return corrected(attacks, weights)


LEAST = 5
"""Rows of a secret to learn from, and to choose events by, below which it is not told."""


def _questions(secret: Secrets, pairs: Sequence[tuple[Any, Any]]) -> Iterator[Question]:
    place = {label: code for code, label in enumerate(secret.labels)}
    for a, b in pairs:
        i, j = place.get(a, -1), place.get(b, -1)
        yield Question(secret.name, a, b, i, j)
        yield Question(secret.name, b, a, j, i)


def _certified(pairs: Sequence[Any], name: Name) -> dict[tuple[Any, Any], float]:
    losses: dict[tuple[Any, Any], float] = {}
    for loss in pairs:
        if loss.sensitive == name:
            key = (loss.secret, loss.against)
            losses[key] = max(loss.upper, losses.get(key, 0.0))
    return losses


def _too_few(few: Sequence[_Few]) -> str:
    name, a, b, n = max(few, key=lambda pair: pair[-1])
    return (
        f"table has too few rows to audit: of column {quoted(name)} {listed([a, b])} have {n} "
        f"rows to learn from, where {LEAST} of each are needed; give some "
        f"{math.ceil(LEAST / TRAIN) + LEAST} rows of each."
    )


def _rows_of_fit(drift: Any) -> bool:
    """Return whether all counts are those of `fit`, as far as these are kept: in thousandths."""
    same = all(column.distance <= _ROUNDED for column in drift.columns)
    return bool(same and drift.n_rows == drift.n_fitted)


def _counted_alike(asked: _Asked) -> bool:
    """Return whether each typical row is nearest to as many rows as in `fit`, where that is had."""
    counts, assign = (getattr(asked.estimator, name, None) for name in ("counts_", "assign"))
    if counts is None or assign is None:
        return False
    if counts.columns.nlevels > 1:
        counts = counts[counts.columns[0][0]]
    of_fit = counts.sum(axis=1).groupby(level=-1).sum()
    return bool(
        (np.bincount(assign(asked.frame), minlength=len(of_fit)) == of_fit.to_numpy()).all()
    )


def _notes(release: Release, estimator: TableRelease) -> list[str]:
    columns, strata = estimator.utility_.index, release.known
    passed = [name for name in release.released.columns if name not in columns]
    notes = []
    if unprotected := [name for name in passed if name not in strata]:
        notes.append(
            f"Attackers did not look at {listed(unprotected)}, which no guarantee covers: they may "
            "tell everything."
        )
    if strata:
        notes.append(
            f"What {listed(strata)} tell by themselves is taken as known: shifts are from the odds "
            "among rows of equal values."
        )
    if release.exchanged:
        notes.append(
            "Rows that readers were judged on were exchanged as a table of their own: readers know "
            "secrets of people of another table."
        )
    if estimator.random_state is not None:
        notes.append(
            "The estimator has a random_state: who knows it can undo the release, which these "
            "readers do not try."
        )
    return notes


def _check_fitted(estimator: Any) -> None:
    if not isinstance(estimator, TableRelease):
        raise TypeError(
            "estimator must be a fitted PufferfishNoiser, PufferfishMicroaggregator or "
            f"PufferfishSwap, or a PufferfishRelease, got {type(estimator).__name__}; of a "
            "pipeline give its last step and the table as it comes there."
        )
    check_is_fitted(estimator)
