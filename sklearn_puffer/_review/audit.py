"""`audit`: what each reader found out from released rows, and what the rows are still good for."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    Array,
    PufferfishWarning,
    check_seed,
    check_verbose,
    listening,
)
from sklearn_puffer._base import task as reported
from sklearn_puffer._documents import __version__, utc_now
from sklearn_puffer._release import TableRelease
from sklearn_puffer._review.exact_tests import TRAIN, Reader, RowSplit, Secrets
from sklearn_puffer._review.findings import CONTROL, Audit, Survived, survived
from sklearn_puffer._review.given import chosen_rows, in_memory, pairs_of, secrets_in
from sklearn_puffer._review.measured import task_of, together
from sklearn_puffer._review.readers import LIST, Release, attackers_of, fresh, readers_of, seen
from sklearn_puffer._tables import Name, as_pandas, frame_table, is_frame
from sklearn_puffer._words import listed, quoted, shown

_MOST_ROWS = 20_000


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
        of yours have one column more, how often each row occurs, where that differs. Each needs
        ``predict_proba``, which `sklearn.calibration.CalibratedClassifierCV` gives to others.
    task : name of a column, default=None
        What the rows are used for: how well boosted trees predict it on true rows that learnt from
        released ones, next to those that learnt from true ones: the area under their ROC curve, or
        R2 of a number. One reader joins it to the released rows.
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
        ``findings``, ``readers``, ``table`` and ``utility``; printed, it says all that in words.

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
    _check_fitted(estimator)
    models, seed = attackers_of(attackers), check_seed(random_state) or 0
    stages = reported("stages of an audit", 4)  # release, readers, attacks, what survived
    with listening(check_verbose(verbose), "audit"), stages as done:
        release = _released(estimator, table, task, sensitive_features, max_rows, models, seed)
        done()
        readers = [reader for secret in release.secrets for reader in readers_of(release, secret)]
        done()
        judge = release.judge()
        attacks = judge.attacks([reader for reader in readers if reader.budget is not None])
        others = judge.attacks([reader for reader in readers if reader.budget is None])
        control = judge.attacks(_control(release))
        done()
        figures = _survived(release)
        done()
    certificate, parts = estimator.certificate_, release.rows
    return Audit(
        attacks=tuple(attacks),
        control=tuple(control),
        others=tuple(others),
        survived=tuple(figures),
        untested=tuple(
            f"{shown(name)}: {listed([a, b])} ({n} rows to learn from)"
            for name, a, b, n in release.few
        ),
        knows=tuple({reader.name: reader.knows for reader in readers}.items()),
        promise=certificate.promise(),
        n_rows=len(release.raw),
        n_given=len(release.table),
        n_train=len(parts.train),
        n_choose=len(parts.choose),
        n_test=len(parts.test),
        notes=(*release.notes, *_notes(release, estimator, readers)),
        version=__version__,
        date=utc_now(),
    )


def _control(release: Release) -> list[Reader]:
    """Return the fresh models on the rows as they are."""
    return [fresh(release, secret, release.before, CONTROL) for secret in release.secrets]


def _survived(release: Release) -> list[Survived]:
    """Return what survived, of rows as attackers are given them."""
    before, after = (seen(rows, release.columns) for rows in (release.raw, release.released))
    return survived(before, after, release.rows, release.task)


def _released(
    estimator: Any, table: Any, task: Any, beside: Any, max_rows: Any, attackers: Any, seed: int
) -> Release:
    """Return a release of rows of a table, or say what cannot be audited."""
    frame = in_memory(table, "an audit")
    source = frame_table(frame, "table")
    every = secrets_in(estimator, source, beside, frame)
    chosen, size, notes = chosen_rows(estimator, source, every, max_rows, seed)
    work, units = task_of(task, source), chosen[::size]
    parts = RowSplit.of(len(units), seed)
    rows = parts.at(lambda part: (part[:, None] * size + np.arange(size)).ravel())
    secrets, few = _with_pairs([secret.of(units) for secret in every], pairs_of(estimator), parts)
    raw, beside = frame.iloc[chosen], None if beside is None else _taken(beside, chosen)
    released, own = _drawn(estimator, raw, beside, rows)
    work = None if work is None else work.of(chosen)
    settings = secrets, attackers, work, size, frame, few, notes
    return Release(own, raw, released, rows, parts, *settings)


def _drawn(estimator: Any, raw: Any, beside: Any, rows: RowSplit) -> tuple[Any, Any]:
    """Return released rows, and the copy of the estimator that released them.

    Where rows are exchanged as a whole, the tested ones are a table of their own, the last.
    """
    by_row, released = estimator._fitted.mechanism.by_row, []
    pieces = [np.arange(len(raw))] if by_row else [rows.shown, np.sort(rows.test)]
    for piece in pieces:
        own, more = copy.copy(estimator), {"on_drift": "ignore"} if by_row else {}
        if beside is not None and not by_row:
            more["sensitive_features"] = _taken(beside, piece)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferfishWarning)
            released.append(own.transform(raw.iloc[piece], **more))
    return together(released, pieces), own


def _taken(beside: Any, rows: Array) -> Any:
    """Return some rows of what is given beside a table."""
    if is_frame(beside):
        beside = as_pandas(beside)
    return beside.iloc[rows] if hasattr(beside, "iloc") else np.asarray(beside)[rows]


LEAST = 5
"""Rows of a secret to learn from, and to choose events on, below which it is not attacked."""


def _with_pairs(
    secrets: Sequence[Secrets], pairs: Any, parts: RowSplit
) -> tuple[list[Secrets], list[tuple[Name, Any, Any, int]]]:
    """Return secrets with the pairs that are attacked, both ways, and pairs with too few rows."""
    told, few = [], []
    for secret in secrets:
        code = {label: k for k, label in enumerate(secret.labels)}
        rows = np.minimum(secret.counts(parts.train), secret.counts(parts.choose))
        attacked = list[tuple[int, int]]()
        for a, b in pairs[secret.name]:
            n = min(int(rows[code[label]]) if label in code else 0 for label in (a, b))
            if n < LEAST:
                few.append((secret.name, a, b, n))
            else:
                attacked += [(code[a], code[b]), (code[b], code[a])]
        told.append(replace(secret, pairs=attacked))
    if any(secret.pairs for secret in told):
        return told, few
    name, a, b, n = max(few, key=lambda pair: pair[-1])
    raise ValueError(
        f"table has too few rows to audit: of column {quoted(name)} {listed([a, b])} have {n} "
        f"rows to learn from, where {LEAST} of each are needed; give some "
        f"{math.ceil(LEAST / TRAIN) + LEAST} rows of each."
    )


def _notes(release: Release, estimator: TableRelease, readers: Sequence[Reader]) -> list[str]:
    columns, strata = [*estimator.utility_.index], release.known
    typical = getattr(estimator.certificate_, "prototypes", None) is not None
    holds_list = any(reader.name == LIST for reader in readers)
    unprotected = [name for name in release.released if name not in (*columns, *strata)]
    notes = {
        f"Attackers did not look at {listed(unprotected)}, which no guarantee covers: values there "
        "may tell everything.": unprotected,
        f"What {listed(strata)} tell by themselves is taken as known: shifts are from the odds "
        "among rows of equal values.": strata,
        "Rows that readers were judged on were exchanged as a table of their own: readers know "
        "secrets of people of another table.": release.exchanged,
        "Nobody who holds the list of fitted people was tried: that takes the counts and the "
        "channel of the fitted estimator itself, and typical rows that are not drawn column by "
        "column.": (typical and not holds_list),
        "Rows that were in fit do not show how other rows differ: hold the audited ones out.": (
            not release.exchanged
        ),
        "The estimator has a random_state: who knows it can undo the release, which these "
        "readers do not try.": estimator.random_state is not None,
    }
    return [note for note, applies in notes.items() if applies]


def _check_fitted(estimator: Any) -> None:
    if not isinstance(estimator, TableRelease):
        raise TypeError(
            "estimator must be a fitted PufferfishNoiser, PufferfishMicroaggregator or "
            f"PufferfishSwap, or a PufferfishRelease, got {type(estimator).__name__}; of a "
            "pipeline give its last step and the table as it comes there."
        )
    check_is_fitted(estimator)
