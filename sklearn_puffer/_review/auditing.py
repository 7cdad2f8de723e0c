"""From a fitted noiser and rows held out to an audit: release, split, attack, judge, sum up.

Readers whom the guarantee does not cover, and peers, which have none, come last: what is found of
them is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import train_test_split
from sklearn.utils import shuffle
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    Array,
    __version__,
    check_above,
    check_count,
    check_same_index,
    check_seed,
    check_verbose,
    counted,
    listed,
    listening,
    quoted,
    utc_now,
)
from sklearn_puffer._base import task as reported
from sklearn_puffer._fits import learnable
from sklearn_puffer._release import PufferfishRelease, TableRelease, check_one_secret, group_codes
from sklearn_puffer._review.attack import (
    CHOOSE,
    TRAIN,
    Attack,
    Field,
    Groups,
    Question,
    RowSplit,
    attackers_of,
    attacks_on,
    beside,
    boosted,
    corrected,
    encoder,
    enough_rows,
    seen,
)
from sklearn_puffer._review.audit import (
    CONTROL,
    RELEASED,
    Audit,
    Peer,
    check_told_of,
    pair_names,
)
from sklearn_puffer._review.exact_tests import Budget, findable, rows_needed
from sklearn_puffer._review.measured import (
    Secrets,
    Survived,
    Task,
    correlations,
    in_memory,
    is_words,
    margins,
    task_figures,
    task_of,
)
from sklearn_puffer._tables import (
    Name,
    Table,
    as_pandas,
    frame_table,
    in_intervals_of,
    is_frame,
    is_lazy,
    read_secret,
    resolve,
    secret_columns,
)

_MOST_ROWS = 20_000
_ROUNDED = 2e-3


def audit(
    noiser: Any,
    table: Any,
    attackers: Any = None,
    task: Any = None,
    *,
    sensitive_features: Any = None,
    level: float = 0.05,
    repeats: int = 5,
    knows: Any = None,
    peers: Any = None,
    groups: Any = None,
    max_rows: int | None = _MOST_ROWS,
    random_state: int = 0,
    verbose: int = 0,
) -> Audit:
    r"""Attack what a fitted noiser releases, on rows that were held out of `fit`.

    The rows are released once, with fresh noise. Attackers learn from some released rows to tell
    the secrets apart, choose an event for each pair (a score above a threshold) on others, and are
    judged on the rest: there the chances p and q of the event under the two secrets are compared
    with :math:`p \le e^\varepsilon q + \delta`, or what Renyi privacy of order alpha allows of it.

    Parameters
    ----------
    noiser : PufferfishNoiser or PufferfishRelease
        Fitted, or read from its release artifact, which holds no distributions: what needs these
        is left out, and said.
    table : DataFrame
        In memory, of pandas, polars or pyarrow: rows that were not in `fit`, with the sensitive
        columns and those that are released. Rows must be independent of each other, or groups of
        them where the noiser has groups: else keep one row of each person, or name ``groups``.
    attackers : classifier, list or {name: classifier}, default=None
        None for boosted trees, nearest neighbours and logistic regression. A pipeline is given the
        released columns as a DataFrame, with words as ``category``; any other classifier numbers
        (ranks between 0 and 1, and an indicator of each word). All but pipelines of yours have one
        column more, how often each row occurs, where that differs. Classifiers without
        ``predict_proba`` or ``decision_function`` have one threshold.
    task : name of a column, or (estimator, y), default=None
        What the rows are used for: how well a model does on true rows that learnt from released
        ones, next to one that learnt from true ones: the area under its ROC curve, or R2 of a
        regressor.
    sensitive_features : Series, DataFrame or array-like of n_rows, default=None
        The secrets, where `fit` had them beside the table.
    level : float, default=0.05
        The chance of a false alarm over all tests, and of each interval to miss.
    repeats : int, default=5
        Releases that a further reader averages; 1 for no such reader.
    knows : str, int or list of these, default=None
        Columns whose true values a further reader knows, each by itself; None for the first three
        that are released, an empty list for none.
    peers : {name: DataFrame}, default=None
        The rows of ``table`` as other ways released them, as many and in the same order: the same
        attackers learn from these. They have no such guarantee, and no findings.
    groups : str or int, default=None
        The column of groups of rows that depend on each other. A noiser with ``groups=`` has one:
        attackers then see all released rows of a group, and one adds up what single rows tell. Of
        other noisers one row of each group is audited, by lot.
    max_rows : int or None, default=20000
        Most rows that are released, drawn from the table, whole groups of them; None for all.
    random_state : int, default=0
        Draws which rows train, choose and test; never noise.
    verbose : int, default=0
        1 prints to standard error how far it has come.

    Returns
    -------
    Audit
        ``findings``, ``table``, ``utility`` and ``power``; printed, it says all that in words.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its value and the way out; of rows that `transform` refuses; and if
        too few rows have the secrets for any attack to exceed the guarantee.
    UncertifiedError
        If the certificate does not hold.

    Notes
    -----
    *Formal guarantees.* If the rows with their secrets are independent draws of one distribution,
    and if the release of each keeps the guarantee under it, there is a finding with a chance of
    ``level`` at most, whatever the attackers do: of the tested rows in an event that was chosen on
    other rows, so many have the one secret as draws at the best odds allowed, also where the event
    depends on the whole release; the p-value holds at any number of rows, and those of all pairs,
    directions and attackers are corrected together (S. Holm, 1979). Intervals of p and q are those
    of C. Clopper and E. Pearson (1934), the log odds combine the two with half the error each, and
    the area under the ROC curve has W. Hoeffding's interval (1963, section 5) for two samples. Each
    interval misses with a chance of ``level`` at most by itself, not all together, and if equal
    rows are few.

    A table is released as a whole, so attackers know how often each row occurs in it (but for
    guarantees of an order alpha, of which no such test is known). Additive noise makes that
    worthless.

    The certificate is about the distribution that was fitted, and held-out rows follow the true
    one. So a finding says that *either* the release loses more than was certified, *or* these rows
    follow another distribution; the loss under the distributions counted from them stands beside
    it, an estimate. What is allowed for a pair: an area under the ROC curve of
    :math:`1 - (1 - \delta)^2/(1 + e^\varepsilon)`, and a difference of chances of
    :math:`1 - 2 (1 - \delta)/(1 + e^\varepsilon)`.

    Further readers: one averages ``repeats`` fresh releases of the same rows, with the first
    attacker; the other knows the true values of a column, with boosted trees. The guarantee covers
    neither (but for as many releases as ``releases=`` plans, and for columns in ``known=``), so
    what they find out is shown and never a finding.

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
    >>> found.table[["secret", "against", "allowed", "auc_allowed"]].round(3)
      secret against  allowed  auc_allowed
    0     no     yes      4.0        0.982
    1    yes      no      4.0        0.982
    """
    _check_noiser(noiser)
    chosen = attackers_of(attackers)
    if check_above(level, 0.0, "level") >= 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {quoted(level)}; such as 0.05.")
    seed = check_seed(random_state) or 0
    frame = _frame(table)
    source = frame_table(frame, "table")
    _check_aligned(table, task, peers)
    secrets = _secrets(noiser, source, sensitive_features, frame)
    rows, grouped, told = _chosen(noiser, source, secrets, groups, max_rows, seed)
    work = task_of(task, source)
    columns = list(noiser.utility_.index)
    known = columns[:MOST_KNOWN] if knows is None else _known(noiser, source, knows)
    repeats = check_count(repeats, "repeats")
    peers = peers_of(peers, source.n_rows, columns)
    stages = reported("stages of an audit", _STAGES)
    with listening(check_verbose(verbose), "audit"), stages as done:
        audited = _AuditedRows.of(noiser, frame.iloc[rows], grouped, chosen, seed)
        audited = replace(audited, task=None if work is None else work.of(rows))
        hidden = [replace(secret, codes=secret.codes[rows]) for secret in secrets]
        fields, few = _fields(audited, hidden, float(level))
        released = audited.released()
        done()
        names = [name for name in released.columns if name in columns]
        before, after = seen(audited.frame, names), seen(released, names)
        attacks = corrected(audited.attacked(fields, after, RELEASED))
        done()
        control = corrected(audited.attacked(fields, before, CONTROL))
        done()
        drift = _drift(noiser, frame, secrets)
        others = audited.averaging(fields, after, repeats) + audited.knowing(fields, after, known)
        done()
        survived = audited.survived(before, after)
        done()
        beside = [
            audited.peer(fields, name, before, seen(peer.iloc[rows], list(peer.columns)))
            for name, peer in counted(list(peers.items()), "peers")
        ]
        done()
    return Audit(
        attacks=tuple(attacks),
        control=tuple(control),
        others=tuple(others),
        level=float(level),
        promise=noiser.certificate_.promise(),
        n_rows=len(rows),
        n_given=len(frame),
        n_train=len(audited.parts.train),
        n_choose=len(audited.parts.choose),
        n_test=len(audited.parts.test),
        survived=tuple(survived),
        peers=tuple(beside),
        exact=drift.loss,
        drifted=drift.drifted,
        fitted=_rows_of_fit(drift),
        best=min(_best(field) for field in fields),
        untested=pair_names(few),
        notes=(*told, *_notes(noiser, audited.frame, released, names)),
        version=__version__,
        date=utc_now(),
    )


# the release, attacks on it and on what has no noise, other readers, what survived, and peers
_STAGES = 6


@dataclass(frozen=True, eq=False)
class _AuditedRows:
    """The rows that are audited, and what attackers and other readers make of them.

    ``parts`` are rows that train, choose and test. Where groups of rows are attacked as a whole,
    ``units`` are the parts of these ``groups``; else they are the parts of the rows.
    """

    noiser: Any
    frame: Any
    attackers: Mapping[str, Any]
    parts: RowSplit
    units: RowSplit
    groups: Groups | None = None
    task: Task | None = None

    @classmethod
    def of(
        cls, noiser: Any, frame: Any, column: Name | None, attackers: Mapping[str, Any], seed: int
    ) -> _AuditedRows:
        """Return rows in parts, whole groups of them where a column has these."""
        if column is None:
            parts = RowSplit.of(len(frame), seed)
            return cls(noiser, frame, attackers, parts, parts)
        groups = Groups.of(group_codes(frame_table(frame), column))
        units = RowSplit.of(len(groups), seed)
        parts = RowSplit(*map(groups.rows, units.all))
        attackers = groups.attackers(attackers, list(noiser.utility_.index))
        return cls(noiser, frame, attackers, parts, units, groups)

    def view(self, frame: Any) -> Any:
        """Return what attackers see of rows, or of groups of them."""
        return frame if self.groups is None else self.groups.seen(frame)

    def attacked(self, fields: Sequence[Field], rows: Any, view: str) -> list[Attack]:
        """Return what all attackers find out of rows."""
        seen_rows = self.view(rows)
        return [a for field in fields for a in attacks_on(field, seen_rows, self.attackers, view)]

    def released(self) -> Any:
        """Return a release."""
        return self.noiser.transform(self.frame, on_drift="ignore")

    def survived(self, before: Any, after: Any) -> list[Survived]:
        """Return what released rows are still good for."""
        columns = list(after.columns)
        before = before[columns]
        figures = [*margins(before, after, columns), *correlations(before, after, columns)]
        if self.task is not None:
            figures += task_figures(self.task, before, after, columns, self.parts)
        return [*figures, *linked(before, after, self.parts.test)]

    def averaging(self, fields: Sequence[Field], after: Any, repeats: int) -> list[Attack]:
        """Return what the first attacker finds out of the average of several fresh releases."""
        if repeats == 1:
            return []
        columns = list(after.columns)
        more = [seen(self.released(), columns) for _ in counted(range(repeats - 1), "releases")]
        rows = averaged([self.view(rows_seen) for rows_seen in (after, *more)])
        first = dict(list(self.attackers.items())[:1])
        view = f"average of {repeats} releases"
        return [a for field in fields for a in attacks_on(field, rows, first, view)]

    def knowing(self, fields: Sequence[Field], after: Any, columns: Sequence[Name]) -> list[Attack]:
        """Return what a reader who knows the true values of a column finds out, before and after.

        The difference is what the release adds. The columns are not those of the release, so that
        the classifier must take any.
        """
        attackers, released = {"boosted": boosted(20)}, self.view(after)
        attacks = []
        for name in counted(list(columns), "readers"):
            known = self.view(seen(self.frame, [name]))
            both, was = released.copy(), {}
            for column in known.columns:
                was[column] = beside(both.columns, f"{column} as it was")
                both[was[column]] = known[column].array
            alone = known.rename(columns=was)
            for field in fields:
                attacks += attacks_on(field, alone, attackers, f"knows {name}, no release")
                attacks += attacks_on(field, both, attackers, f"knows {name}, and the release")
        return attacks

    def peer(self, fields: Sequence[Field], name: str, before: Any, after: Any) -> Peer:
        """Return what the same attackers find out of rows that are hidden in another way."""
        none = math.nan
        attacks = [
            replace(attack, p=none, p_all=none, certified=none, findable=none)
            for attack in self.attacked(fields, after, f"peer: {name}")
        ]
        return Peer(name, tuple(attacks), tuple(self.survived(before, after)))


_Few = tuple[Name, Any, Any, int, int]


def _pairs(noiser: Any) -> dict[Name, list[tuple[Any, Any]]]:
    """Return the protected pairs, without order; an artifact has them in its certificate alone."""
    if hasattr(noiser, "secret_pairs_"):
        return dict(noiser.secret_pairs_)
    pairs: dict[Name, dict[tuple[Any, Any], None]] = {}
    for loss in noiser.certificate_.pairs:
        of_column = pairs.setdefault(loss.sensitive, {})
        if (loss.against, loss.secret) not in of_column:
            of_column[loss.secret, loss.against] = None
    return {name: list(of_column) for name, of_column in pairs.items()}


def _fields(
    rows: _AuditedRows, secrets: Sequence[Secrets], level: float
) -> tuple[list[Field], list[_Few]]:
    """Return what is asked of each sensitive column, and the pairs with too few rows to ask."""
    certificate, parts = rows.noiser.certificate_, rows.units
    guarantee = Budget(certificate.epsilon, certificate.delta, certificate.alpha)
    pairs = _pairs(rows.noiser)
    tests = 2 * len(rows.attackers) * sum(map(len, pairs.values()))
    fields, few = [], []
    for secret in secrets:
        codes = secret.codes if rows.groups is None else secret.codes[rows.groups.wide.first]
        losses = _certified(certificate.pairs, secret.name)
        field = Field(codes, parts, (), guarantee, losses, level, tests)
        questions = []
        for question in _questions(secret, pairs[secret.name]):
            n, m = (_usable(parts, codes, code) for code in (question.i, question.j))
            if min(n, m) > 0 and enough_rows(field, question):
                questions.append(question)
            elif question.i < question.j:
                few.append((secret.name, question.secret, question.against, n, m))
        if questions:
            fields.append(replace(field, questions=questions))
    if not fields:
        share = None if guarantee.alpha is not None else 1.0 - TRAIN - CHOOSE
        needed = rows_needed(guarantee, level / tests, share)
        raise ValueError(_too_few(few, needed, tests, level))
    return fields, few


def _usable(parts: RowSplit, codes: Array, code: int) -> int:
    """Return the number of test rows of a secret; 0 if it has none to learn from."""
    counts = [int((codes[rows] == code).sum()) for rows in (parts.train, parts.choose, parts.test)]
    return counts[-1] if min(counts) > 0 else 0


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


def _too_few(few: Sequence[_Few], needed: int, tests: int, level: float) -> str:
    name, a, b, n, m = max(few, key=lambda pair: min(pair[3:]))
    rows = math.ceil(needed / (1.0 - TRAIN - CHOOSE)) + 1
    return (
        f"table has too few rows for {tests} tests at level={level:g}: of column {quoted(name)} "
        f"{listed([a, b])} have {n} and {m} test rows, and even an attack that is always right "
        f"needs {needed} of each; give some {rows:,} rows of each, fewer attackers, or a larger "
        "level."
    )


def _known(noiser: Any, source: Table, knows: Any) -> list[Name]:
    """Return the columns that a further reader knows, each by itself."""
    if isinstance(knows, list | tuple) and not knows:
        return []
    names = resolve(knows, source.names, "knows")
    hidden = [name for name in names if name in _pairs(noiser)]
    if hidden:
        raise ValueError(
            f"knows names the sensitive column {quoted(hidden[0])}, which attackers are to find "
            "out; name others."
        )
    return names


def _drift(noiser: Any, frame: Any, secrets: Sequence[Secrets]) -> Any:
    """Return how the rows differ from those of `fit`, with the loss under their own counts."""
    if isinstance(noiser, PufferfishRelease):
        return noiser.certificate_.check(frame)
    names = [secret.name for secret in secrets]
    if set(names) <= set(frame.columns):
        return noiser.certificate_.check(frame, names)
    if len(secrets) > 1:
        return noiser.certificate_.check(frame)
    (secret,) = secrets
    return noiser.certificate_.check(frame, np.array(secret.labels, dtype=object)[secret.codes])


def _rows_of_fit(drift: Any) -> bool:
    """Return whether all counts are those of `fit`, as far as these are kept: in thousandths."""
    sizes = [margin.n_rows == margin.n_fitted for margin in drift.secrets]
    same = [
        margin.distance <= _ROUNDED
        for margin in (*drift.columns, *(s.column for s in drift.secrets))
    ]
    return bool(drift.n_rows == drift.n_fitted and same and all([*sizes, *same]))


def _best(field: Field) -> float:
    """Return the loss of randomised response that is found with the usual chance."""
    codes = field.codes[field.parts.test]
    sizes = {q: (int((codes == q.i).sum()), int((codes == q.j).sum())) for q in field.questions}
    best = max(field.questions, key=lambda q: min(sizes[q]))
    level = field.level / field.tests
    return findable(field.guarantee, None, *sizes[best], level, field.whole(best))


def _notes(noiser: Any, part: Any, released: Any, columns: Sequence[Name]) -> list[str]:
    passed = [name for name in released.columns if name not in columns]
    notes = []
    if passed:
        notes.append(
            f"Attackers did not look at {listed(passed)}, which are passed through, and which no "
            "guarantee covers: they may tell everything."
        )
    if noiser.random_state is not None:
        notes.append(
            "The noiser has a random_state: who knows it can remove the noise, which these "
            "attackers do not try."
        )
    if isinstance(noiser, PufferfishRelease):
        notes.append(
            "A release artifact holds no distributions of secrets: only the noiser tells the loss "
            "under the distributions counted from these rows."
        )
    keyed = same_when_keyed(noiser, part)
    if keyed is not None:
        notes.append(
            "Keyed noise (row_id=) came out the same when asked again, so averaging wins nothing."
            if keyed
            else "KEYED NOISE CAME OUT DIFFERENT WHEN ASKED AGAIN: each such release is one more."
        )
    return notes


def _check_noiser(noiser: Any) -> None:
    if not isinstance(noiser, TableRelease):
        raise TypeError(
            f"noiser must be a fitted PufferfishNoiser, or a PufferfishRelease, got "
            f"{type(noiser).__name__}; of a pipeline give its last step and the table as it comes "
            "there."
        )
    check_is_fitted(noiser)
    check_told_of(noiser, "audit")


def _frame(table: Any) -> Any:
    """Return the table as a pandas DataFrame, in memory."""
    frame = in_memory(table, "an audit")
    if not len(frame):
        raise ValueError("table has 0 rows; give some hundred that were not in fit.")
    odd = [label for label in frame.columns if not isinstance(label, str)]
    if odd:
        raise TypeError(
            f"table has a column called {odd[0]!r}, and an audit needs strings; fit and audit it "
            "with table.columns = table.columns.astype(str)."
        )
    return frame


def _check_aligned(table: Any, task: Any, peers: Any) -> None:
    """Refuse targets and peers whose row labels say that they are in another order."""
    if isinstance(task, tuple):
        check_same_index(task[-1], "y of task", table, "table")
    for name, rows in peers.items() if isinstance(peers, Mapping) else ():
        check_same_index(rows, f"peers[{name!r}]", table, "table")


def _secrets(noiser: Any, source: Table, given: Any, frame: Any) -> list[Secrets]:
    columns = {} if given is None else secret_columns(given, source.n_rows, frame)
    secrets = []
    for name, pairs in _pairs(noiser).items():
        if name not in columns and name not in source.names:
            raise ValueError(
                f"table lacks the sensitive column {quoted(name)}, which attackers are to tell; "
                "give it, or sensitive_features as in fit."
            )
        values = columns[name] if name in columns else source.values(name)
        labels = dict.fromkeys(label for pair in pairs for label in pair)
        values = in_intervals_of(labels, values)
        secret = read_secret(name, values, noiser._fitted.rules.missing)
        codes = np.empty(source.n_rows, dtype=np.intp)
        secret.source.codes(slice(None), codes)
        _check_values(name, secret.labels, {label for pair in pairs for label in pair})
        secrets.append(Secrets(name, secret.labels, codes))
    return secrets


def _check_values(name: Name, labels: Sequence[Any], fitted: set[Any]) -> None:
    """Refuse a table without two of the secrets that were fitted: it is another one."""
    if len(fitted.intersection(labels)) < 2:
        raise ValueError(
            f"noiser and table do not fit together: column {quoted(name)} has the values "
            f"{listed(list(labels), 5)} in table, and noiser protects "
            f"{listed(sorted(fitted, key=str), 5)}; give rows with values as in fit."
        )


_Chosen = tuple[Array, Name | None, tuple[str, ...]]


def _chosen(
    noiser: Any, source: Table, secrets: Sequence[Secrets], groups: Any, max_rows: Any, seed: int
) -> _Chosen:
    """Return the rows to audit, the column of the groups that are attacked, and what to say."""
    rules = noiser._fitted.rules
    column = None if rules.groups is None else rules.groups.column
    if column is None and groups is None:
        return _rows(source.n_rows, max_rows, seed), None, ()
    [name] = resolve(column if groups is None else groups, source.names, "groups")
    if column not in (None, name):
        raise ValueError(
            f"groups={quoted(name)}, and noiser guarantees groups of {quoted(column)}; leave "
            "groups out."
        )
    codes = group_codes(source, name)
    units = Groups.of(codes)
    if column is None:
        note = f"One row of each of {len(units):,} groups of {quoted(name)} was audited, by lot."
        order = shuffle(np.arange(source.n_rows), random_state=seed)
        alone = np.sort(order[np.unique(codes[order], return_index=True)[1]])
        return alone[_rows(len(alone), max_rows, seed)], None, (note,)
    check_one_secret(codes, column, {each.name: each.codes for each in secrets})
    return _chosen_groups(noiser, column, units, max_rows, seed)


def _chosen_groups(noiser: Any, column: Name, units: Groups, max_rows: Any, seed: int) -> _Chosen:
    """Return the rows of groups, all of one size where no guarantee hides their sizes."""
    sizes, which = units.wide.sizes, ""
    kept = np.arange(len(units))
    if len(np.unique(sizes)) > 1:
        size = int(np.argmax(np.bincount(sizes) * np.arange(sizes.max() + 1)))
        kept = np.flatnonzero(sizes == size)
        which = f", those of {size} rows, since sizes of groups are taken to be known"
    if max_rows is not None:
        most = check_count(max_rows, "max_rows")
        share = max(most * len(kept) // int(sizes[kept].sum()), 2)
        kept = kept[_rows(len(kept), share, seed)]
    note = (
        f"Attackers saw all released rows of a group, and had {len(kept):,} groups of "
        f"{quoted(column)}{which}."
    )
    return units.rows(kept), column, (note,)


def _rows(n_rows: int, max_rows: Any, seed: int) -> Array:
    every = np.arange(n_rows)
    if max_rows is None or check_count(max_rows, "max_rows") >= n_rows:
        return every
    chosen: Array = np.sort(train_test_split(every, train_size=max_rows, random_state=seed)[0])
    return chosen


MOST_KNOWN = 3
_MOST_LINKED = 1_000
_NEAREST_BY = 1e-9
_KEY = b"blake2b:" + bytes(32)  # no secret: what is drawn with it is compared, and dropped


def averaged(frames: Sequence[Any]) -> Any:
    """Return the means of numbers, and the most frequent of words."""
    means = frames[0].copy()
    for name in means.columns:
        columns, first = [frame[name] for frame in frames], frames[0][name]
        if not is_words(first):
            means[name] = np.mean([np.asarray(values, dtype=float) for values in columns], axis=0)
            continue
        codes = np.stack([np.asarray(values.cat.codes) for values in columns])
        often = np.stack([(codes == kind).sum(axis=0) for kind in codes])
        chosen = np.take_along_axis(codes, often.argmax(axis=0)[None], axis=0)[0]
        means[name] = type(first.array).from_codes(chosen, dtype=first.dtype)
    return means


def same_when_keyed(noiser: Any, part: Any) -> bool | None:
    """Return whether two keyed releases are the same; None where there are none."""
    ids = np.arange(len(part))
    try:
        first, second = (
            noiser.transform(part, row_id=ids, key=_KEY, on_drift="ignore") for _ in range(2)
        )
    except (TypeError, ValueError):  # a seed, or noise of a kind that is not drawn by key
        return None
    return bool(first.equals(second))


def linked(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return which share of rows is nearest to the row that it came from, ties as fractions."""
    rows = rows[:_MOST_LINKED]
    if any(is_words(before[name]) != is_words(after[name]) for name in before.columns):
        return []  # codes of words
    model = encoder(before).fit(learnable(before))
    blocks = [model.transform(block.iloc[rows]) for block in (before, after)]
    before_rows, after_rows = (b.toarray() if hasattr(b, "toarray") else b for b in blocks)
    shares = []
    for block in (before_rows, after_rows):
        distances = pairwise_distances(block, before_rows, metric="manhattan")
        near = distances <= distances.min(axis=1, keepdims=True) + _NEAREST_BY
        shares.append(float((np.diag(near) / near.sum(axis=1)).mean()))
    return [Survived(f"nearest to its own of {len(rows)}", "all", *shares)]


def peers_of(peers: Any, n_rows: int, columns: Sequence[Name]) -> dict[str, Any]:
    """Return by name those of the released columns that each peer has, as pandas DataFrames."""
    if peers is None:
        return {}
    if not isinstance(peers, Mapping):
        raise TypeError(
            f"peers is {quoted(peers)}; give {{name: DataFrame}}, the rows of table as another way "
            "released them (examples/peers_of_a_release.py makes some)."
        )
    return {str(name): _given(name, rows, n_rows, columns) for name, rows in peers.items()}


def _given(name: Any, rows: Any, n_rows: int, columns: Sequence[Name]) -> Any:
    if is_lazy(rows) or not is_frame(rows):
        raise TypeError(
            f"peers gives {quoted(name)} as {type(rows).__name__}; give a DataFrame in memory, of "
            "the rows of table as this peer released them."
        )
    if len(frame := as_pandas(rows)) != n_rows:
        raise ValueError(
            f"peers gives {quoted(name)} {len(frame)} rows beside {n_rows} of table; give every "
            "row of table as it was released, in the same order."
        )
    if not (names := [column for column in columns if column in frame.columns]):
        raise ValueError(
            f"peers gives {quoted(name)} without any of the released columns "
            f"{listed(list(columns), 5)}; give these, as the peer released them."
        )
    return frame[names]
