"""`audit`: what each reader found out from released rows, and what the rows are still good for."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    Array,
    PufferfishWarning,
    __version__,
    check_above,
    check_count,
    check_seed,
    check_verbose,
    counted,
    listed,
    listening,
    quoted,
    utc_now,
)
from sklearn_puffer._base import task as reported
from sklearn_puffer._release import (
    TableRelease,
    group_codes,
)
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
from sklearn_puffer._review.findings import (
    CONTROL,
    Audit,
    Peer,
    Survived,
    correlations,
    margins,
    pair_names,
    reidentified,
    task_figures,
)
from sklearn_puffer._review.given import (
    check_aligned,
    chosen_rows,
    frame_of,
    pairs_of,
    peers_of,
    secrets_in,
)
from sklearn_puffer._review.measured import Task, task_of
from sklearn_puffer._review.readers import (
    Groups,
    Release,
    Secrets,
    attackers_of,
    averaged,
    averaging,
    covered,
    equal_rows,
    fresh,
    joining,
    seen,
)
from sklearn_puffer._tables import (
    Name,
    as_pandas,
    frame_table,
    is_frame,
)

_MOST_ROWS = 20_000
_ROUNDED = 2e-3


def audit(
    estimator: Any,
    table: Any,
    attackers: Any = None,
    task: Any = None,
    *,
    sensitive_features: Any = None,
    level: float = 0.05,
    repeats: int = 5,
    peers: Any = None,
    groups: Any = None,
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
        other, or groups of them where the estimator has groups: else keep one row of each person,
        or name ``groups``.
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
    level : float, default=0.05
        The chance of a false alarm over all tests, and of each interval to miss.
    repeats : int, default=5
        Releases that a further reader of rows that are released one by one averages; 1 for none.
    peers : {name: DataFrame}, default=None
        The rows of ``table`` as other ways released them, as many and in the same order: the same
        fresh models learn from these. They have no such guarantee, and no findings.
    groups : str or int, default=None
        The column of groups of rows that depend on each other. A noiser with ``groups=`` has one:
        attackers then see all released rows of a group. Of others one row of each group is audited,
        by lot.
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
    there is a finding with a chance of ``level`` at most, whatever the readers do: the p-value
    holds at any number of rows, and those of all readers, pairs and directions are corrected
    together (S. Holm, 1979): half the level is for the claim of each reader that looked best
    before it was judged, and half for all alike. A tenth of each share is for base odds that are
    larger than they are taken to be. `sklearn_puffer._review.exact_tests` has the proof. Intervals
    are those of C. Clopper and E. Pearson (1934); the area under the ROC curve has W. Hoeffding's
    interval (1963, section 5) for two samples. Each misses with a chance of ``level`` at most by
    itself, not all together.

    The readers whom a guarantee covers: *fresh models* learn from released rows of others, and know
    how often each row occurs (but for guarantees of an order alpha). Who *holds the list* of rows
    with their secrets knows what the mechanism publishes, too: the mean flows of a swap, by the
    secret of the row that somebody holds; the channel and the counts of typical rows. Who has a
    *better model* learnt it from raw rows of others. An *insider* of a swap finds his own row with
    somebody else. Who *joins a label* is covered where ``known=`` or ``joined=`` names it. Who
    averages releases is not, so that what he finds is shown and no finding.

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
    0           fresh models      4.0
    1           better model      4.0
    2  average of 5 releases      NaN
    """
    _check_fitted(estimator)
    chosen = attackers_of(attackers)
    if check_above(level, 0.0, "level") >= 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {quoted(level)}; such as 0.05.")
    seed = check_seed(random_state) or 0
    frame = frame_of(table)
    source = frame_table(frame, "table")
    check_aligned(table, task, peers)
    secrets = secrets_in(estimator, source, sensitive_features, frame)
    rows, column, told = chosen_rows(estimator, source, secrets, groups, max_rows, seed)
    work = task_of(task, source)
    columns = list(estimator.utility_.index)
    repeats = check_count(repeats, "repeats")
    others = peers_of(peers, source.n_rows, columns)
    stages = reported("stages of an audit", _STAGES)
    with listening(check_verbose(verbose), "audit"), stages as done:
        beside = None if sensitive_features is None else _taken(sensitive_features, rows)
        audited = _Audited.of(estimator, frame.iloc[rows], column, beside, columns, seed)
        audited = replace(audited, task=None if work is None else work.of(rows))
        hidden = [replace(secret, codes=secret.codes[rows]) for secret in secrets]
        done()
        asked, few = _asked(audited, hidden)
        readings = [_Reading.of(audited, secret, chosen) for secret in hidden]
        fields = _fields(audited, readings, asked, float(level))
        done()
        both = list(zip(readings, fields, strict=True))
        attacks = _judged([(r.covered, field) for r, field in both])
        control = _judged([([r.control(chosen)], field) for r, field in both])
        done()
        further = _judged([(r.further(chosen, repeats), field) for r, field in both])
        done()
        drift = None
        if estimator.certificate_.fitted is not None:
            drift = estimator.certificate_.check(frame)
        survived = audited.survived(audited.release.before, audited.release.after)
        beside_ours = [
            _peer(audited, readings, fields, chosen, name, peer.iloc[rows])
            for name, peer in counted(list(others.items()), "peers")
        ]
        done()
    parts = audited.rows_of_parts
    return Audit(
        attacks=tuple(attacks),
        control=tuple(control),
        others=tuple(further),
        level=float(level),
        promise=estimator.certificate_.promise(),
        n_rows=len(rows),
        n_given=len(frame),
        n_train=len(parts.train),
        n_choose=len(parts.choose),
        n_test=len(parts.test),
        survived=tuple(survived),
        peers=tuple(beside_ours),
        drifted=drift is not None and drift.drifted,
        fitted=_rows_of_fit(drift) if drift is not None else _counted_alike(estimator, frame),
        untested=pair_names(few),
        knows=tuple(dict(pair for reading in readings for pair in reading.names).items()),
        released_by=estimator.certificate_.released_by,
        notes=(*told, *_notes(audited, estimator)),
        version=__version__,
        date=utc_now(),
    )


# the release, what readers learn, attacks, further readers, and what survived with peers
_STAGES = 5


@dataclass(frozen=True, eq=False)
class _Audited:
    """The rows that are audited, released once.

    ``rows_of_parts`` are rows that train, choose and test. Where groups of rows are attacked as a
    whole, the parts of ``release`` are those of the groups.
    """

    release: Release
    rows_of_parts: RowSplit
    columns: Sequence[Name]
    beside: Any = None
    groups: Groups | None = None
    task: Task | None = None

    @classmethod
    def of(
        cls, estimator: Any, frame: Any, column: Name | None, beside: Any, columns: Any, seed: int
    ) -> _Audited:
        """Return a release of rows in parts, whole groups of them where a column has these."""
        groups, parts = None, RowSplit.of(len(frame), seed)
        units = parts
        if column is not None:
            groups = Groups.of(group_codes(frame_table(frame), column))
            units = RowSplit.of(len(groups), seed)
            parts = RowSplit(*map(groups.rows, (units.train, units.choose, units.test)))
        released, released_with = _release(estimator, frame, beside, parts)
        names = [name for name in released.columns if name in columns]
        certificate = estimator.certificate_
        release = Release(
            estimator=released_with,
            raw=frame,
            released=released,
            before=seen(frame, names),
            after=seen(released, names),
            parts=units,
            budget=Budget(certificate.epsilon, certificate.delta, certificate.alpha),
            exchanged=not estimator._fitted.mechanism.by_row,
        )
        return cls(release, parts, columns, beside, groups)

    def view(self, rows: Any) -> Any:
        """Return what readers see of rows, or of groups of them."""
        return rows if self.groups is None else self.groups.seen(rows)

    @property
    def seen(self) -> Release:
        """The release as readers see it."""
        before, after = (self.view(each) for each in (self.release.before, self.release.after))
        return replace(self.release, before=before, after=after)

    def codes(self, secret: Secrets) -> Array:
        """Return the secret of each row, or group of rows."""
        return secret.codes if self.groups is None else secret.codes[self.groups.wide.first]

    def strata(self) -> Array | None:
        """Return what known columns say of each row; the tested rows of an exchange are apart."""
        names = _strata_of(self.release)
        if not (names or self.release.exchanged):
            return None
        rows = np.zeros(len(self.release.after), dtype=np.intp)
        if names:
            rows = equal_rows(self.release.released[names])
        if self.groups is not None:
            rows = rows[self.groups.wide.first]
        if self.release.exchanged:
            rows = 2 * rows
            rows[self.release.parts.test] += 1
        return rows

    def again(self) -> Any:
        """Return another release of the same rows, as readers see it."""
        released, _ = _release(
            self.release.estimator, self.release.raw, self.beside, self.rows_of_parts
        )
        return self.view(seen(released, list(self.release.after.columns)))

    def survived(self, before: Any, after: Any) -> list[Survived]:
        """Return what released rows are still good for, and which persons they point to."""
        columns = list(after.columns)
        before = before[columns]
        figures = reidentified(before, after, self.rows_of_parts.test)
        if self.task is not None:
            figures = [
                *task_figures(self.task, before, after, columns, self.rows_of_parts),
                *figures,
            ]
        figures += correlations(before, after, columns)
        return [*figures, *margins(before, after, columns)]


def _release(estimator: Any, frame: Any, beside: Any, parts: RowSplit) -> tuple[Any, Any]:
    """Return a release, and a copy of the estimator that made it: the audit's own is no release.

    Where rows are exchanged as a whole, the tested ones are a table of their own, the last.
    """
    if estimator._fitted.mechanism.by_row:
        own = copy.copy(estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferfishWarning)
            return own.transform(frame, on_drift="ignore"), own
    pieces = []
    for rows in (parts.shown, np.sort(parts.test)):
        own = copy.copy(estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferfishWarning)
            secrets = {} if beside is None else {"sensitive_features": _taken(beside, rows)}
            pieces.append((rows, own.transform(frame.iloc[rows], **secrets)))
    released = frame[list(pieces[0][1].columns)].copy()
    for name in released.columns:
        values = released[name].array.copy()
        for rows, piece in pieces:
            values[rows] = piece[name].array
        released[name] = values
    return released, own


def _taken(beside: Any, rows: Array) -> Any:
    """Return some rows of what is given beside a table."""
    if is_frame(beside):
        beside = as_pandas(beside)
    return beside.iloc[rows] if hasattr(beside, "iloc") else np.asarray(beside)[rows]


def _strata_of(release: Release) -> list[Name]:
    """Return the columns that the guarantee takes as known."""
    strata = getattr(getattr(release.estimator.certificate_, "facts", None), "strata", None) or ()
    known = getattr(strata, "known", strata)
    return [name for name in release.released.columns if str(name) in known]


# ------------------------------------------------------------------------------ what readers find


@dataclass(frozen=True, eq=False)
class _Reading:
    """The readers of one sensitive column whom the guarantee covers."""

    audited: _Audited
    secret: Secrets
    codes: Array
    readers: Sequence[Reader]
    names: list[tuple[str, str]]

    @classmethod
    def of(cls, audited: _Audited, secret: Secrets, attackers: Mapping[str, Any]) -> _Reading:
        codes, release = audited.codes(secret), audited.seen
        if audited.groups is None:
            every = covered(release, secret, codes, attackers)
        else:
            more = audited.groups.attackers(attackers, list(audited.release.after.columns))
            every = [fresh(release, secret, codes, more)]
        label = _label_of(audited)
        if label is not None and _covers(release, label[0]):
            every += list(joining(release, secret, codes, label, release.budget))
        return cls(audited, secret, codes, every, [(r.name, r.knows) for r in every])

    @property
    def covered(self) -> list[Reader]:
        """The readers whom the guarantee covers."""
        return [reader for reader in self.readers if reader.budget is not None]

    def control(self, attackers: Mapping[str, Any]) -> Reader:
        """Return fresh models of the rows as they are."""
        release = self.audited.seen
        if self.audited.groups is not None:
            attackers = dict(list(attackers.items())[:1])
        reader = fresh(release, self.secret, self.codes, attackers, release.before)
        return replace(reader, name=CONTROL)

    def further(self, attackers: Mapping[str, Any], repeats: int) -> list[Reader]:
        """Return the readers whom the guarantee does not cover."""
        release, secret, codes = self.audited.seen, self.secret, self.codes
        every = [reader for reader in self.readers if reader.budget is None]
        label = _label_of(self.audited)
        if label is not None and not _covers(release, label[0]):
            every += list(joining(release, secret, codes, label, None))
        if repeats > 1 and not release.exchanged:
            more = [self.audited.again() for _ in counted(range(repeats - 1), "releases")]
            seen_rows = averaged([release.after, *more])
            every.append(averaging(release, secret, codes, seen_rows, repeats, attackers))
        self.names.extend((reader.name, reader.knows) for reader in every)
        return every


def _judged(asked: Sequence[tuple[Sequence[Reader], Field]]) -> list[Attack]:
    """Return what readers find out, by the field of each, with p-values over all of it."""
    tests = sum(len(r.claims) * len(field.questions) for readers, field in asked for r in readers)
    names = {reader.name for readers, _ in asked for reader in readers}
    claims = [
        (claim, field)
        for readers, field in asked
        for reader in readers
        for claim in claims_of(reader, field)
    ]
    weights = shares([claim for claim, _ in claims], tests, len(names))
    attacks = [
        judged(claim, field, share) for (claim, field), share in zip(claims, weights, strict=True)
    ]
    return corrected(attacks, weights)


def _label_of(audited: _Audited) -> tuple[Name, Array] | None:
    """Return the label that a reader may join."""
    if audited.task is None or audited.groups is not None:
        return None
    return audited.task.name, audited.task.target


def _covers(release: Release, label: Name) -> bool:
    """Return whether the guarantee covers readers who join this label."""
    facts = getattr(release.estimator.certificate_, "facts", None)
    joined = getattr(facts, "joined", ())
    return str(label) in {*map(str, _strata_of(release)), *joined}


def _peer(
    audited: _Audited,
    readings: Sequence[_Reading],
    fields: Sequence[Field],
    attackers: Mapping[str, Any],
    name: str,
    rows: Any,
) -> Peer:
    """Return what the same fresh models find out of rows that are hidden in another way."""
    after, attacks, none = seen(rows, list(rows.columns)), [], math.nan
    for reading, asked in zip(readings, fields, strict=True):
        release = replace(audited.seen, after=audited.view(after))
        reader = fresh(release, reading.secret, reading.codes, attackers)
        reader = replace(reader, name=f"peer: {name}")
        attacks += [
            replace(attack, p=none, p_all=none, certified=none, findable=none)
            for attack in _judged([([reader], asked)])
        ]
    survived = audited.survived(audited.release.before, after)
    return Peer(name, tuple(attacks), tuple(survived))


_Few = tuple[Name, Any, Any, int]


def _asked(
    audited: _Audited, secrets: Sequence[Secrets]
) -> tuple[list[list[Question]], list[_Few]]:
    """Return what is asked of each sensitive column, and the pairs with too few rows to ask."""
    pairs, asked, few = pairs_of(audited.release.estimator), [], []
    for secret in secrets:
        every = list(_questions(secret, pairs[secret.name]))
        rows = [_rows_to_learn(audited, secret, question) for question in every]
        asked.append([q for q, n in zip(every, rows, strict=True) if n >= LEAST])
        few += [
            (q.sensitive, q.secret, q.against, n)
            for q, n in list(zip(every, rows, strict=True))[::2]
            if n < LEAST
        ]
    if not any(asked):
        raise ValueError(_too_few(few))
    return asked, few


def _fields(
    audited: _Audited,
    readings: Sequence[_Reading],
    asked: Sequence[Sequence[Question]],
    level: float,
) -> list[Field]:
    """Return what all attacks on each sensitive column share."""
    release, certificate = audited.release, audited.release.estimator.certificate_
    ways = [sum(len(reader.claims) for reader in reading.covered) for reading in readings]
    tests = sum(n * len(questions) for n, questions in zip(ways, asked, strict=True))
    pure = certificate.holds and release.budget.alpha is None and not release.budget.delta
    return [
        Field(
            reading.codes,
            release.parts,
            questions,
            _certified(certificate.pairs, reading.secret.name),
            level,
            tests,
            audited.strata(),
            release.exchanged,
            release.budget.epsilon if pure else math.inf,
        )
        for reading, questions in zip(readings, asked, strict=True)
    ]


LEAST = 5
"""Rows of a secret to learn from, and to choose events by, below which it is not told."""


def _rows_to_learn(audited: _Audited, secret: Secrets, question: Question) -> int:
    """Return how many rows of the rarer secret readers learn from, or choose events by."""
    codes, parts = audited.codes(secret), audited.release.parts
    return min(
        int((codes[rows] == code).sum())
        for rows in (parts.train, parts.choose)
        for code in (question.i, question.j)
    )


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


def _counted_alike(estimator: Any, frame: Any) -> bool:
    """Return whether each typical row is nearest to as many rows as in `fit`, where that is had."""
    counts, assign = (getattr(estimator, name, None) for name in ("counts_", "assign"))
    if counts is None or assign is None:
        return False
    if counts.columns.nlevels > 1:
        counts = counts[counts.columns[0][0]]
    of_fit = counts.sum(axis=1).groupby(level=-1).sum()
    return bool((np.bincount(assign(frame), minlength=len(of_fit)) == of_fit.to_numpy()).all())


def _notes(audited: _Audited, estimator: Any) -> list[str]:
    release = audited.release
    passed = [name for name in release.released.columns if name not in audited.columns]
    strata = _strata_of(release)
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
