"""A plan: what the columns are, what the settings would do, and which is best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_puffer._base import (
    Document,
    Page,
    Section,
    check_count,
    listed,
    on_one_line,
    quoted,
    shown,
)
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._releases import sentences
from sklearn_puffer._signoff.columns import ColumnFacts
from sklearn_puffer._signoff.promises import WHOLE_ROW
from sklearn_puffer._signoff.trials import Trial, best_of
from sklearn_puffer._tables import Name, named_frame, recoded, records_frame

INTERNAL = (
    "This plan is computed from the raw rows, those of the sensitive columns included, and is not "
    "noisy: keep it where you keep the table, and do not release it."
)
CHOSEN = (
    "Choosing a setting by it makes the choice a function of the rows; no certificate covers what "
    "the choice itself tells. Plan on other rows of the same kind where that matters."
)
_FIGURES = ("change", "unchanged", "worse", "loss", "proven", "seconds")
_TABLE = ("best", "epsilon", "setting", "promise", "verdict", *_FIGURES, "reason")
_COLUMNS = ("use", "kind", "distinct", "missing", "noise", "share", "constant", "remark")


@dataclass(frozen=True)
class Plan(Document):
    """What `plan` found, before anything is released.

    Parameters
    ----------
    sensitive : tuple of names
        The columns that are protected.
    facts : tuple of ColumnFacts
        What each column is.
    trials : tuple of Trial
        What came of each setting, as ``table`` sorts them.
    cliffs : tuple of str
        What asks for most of the noise, or ends what can be proven, in sentences.
    n_rows, n_tried : int
        Rows of the table, and of the part of it that settings were fitted to.
    days : tuple of names
        Columns of dates that become days first.
    time_limit : float or None
        Seconds, after which no setting was tried.
    promise : str
        What is promised by the settings that change nothing but noise, bins and output.
    version, date : str
        Of the library, and the time of the plan (UTC, ISO 8601).
    name : str
        Of the table, where `named` gave one.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import plan
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> found = plan(table, sensitive="loan", epsilon=1.0)
    >>> found.noiser(0).fit(table).certificate_.holds
    True
    """

    sensitive: tuple[Name, ...]
    facts: tuple[ColumnFacts, ...]
    trials: tuple[Trial, ...]
    cliffs: tuple[str, ...]
    n_rows: int
    n_tried: int
    days: tuple[Name, ...] = ()
    time_limit: float | None = None
    promise: str = WHOLE_ROW
    version: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    @property
    def columns(self) -> Any:
        """What each column is: a DataFrame, by name.

        ``use`` says what the plan does with it, ``kind`` what it holds; ``noise`` is what it asks
        for by itself in standard deviations (of columns without an order in what stands for one),
        ``share`` its part of the sum, and ``constant`` what a constant in its place would change.
        """
        records = [tuple(getattr(each, key) for key in _COLUMNS) for each in self.facts]
        frame = records_frame(records, _COLUMNS)
        frame.index = named_frame({each.name: {} for each in self.facts}, []).index
        return frame

    @property
    def table(self) -> Any:
        """The settings as a DataFrame, the best first; its row k is that of `noiser` and `why`.

        ``best`` marks the best setting of each budget among those that promise the same;
        ``change`` is the expected change of a value in standard deviations of its column, and
        ``unchanged`` the share of values that come out as they were, averaged over the proposed
        columns; ``worse`` says in how many of them a constant would change less, and ``proven``
        whether the ``loss`` is exact or a bound.
        """
        return records_frame([self._record(trial) for trial in self.trials], _TABLE)

    def _record(self, trial: Trial) -> tuple[Any, ...]:
        own = trial.candidate
        told = (self._is_best(trial), own.epsilon, own.label, own.promise, trial.verdict)
        figures = (trial.change, trial.unchanged, trial.worse, trial.loss, trial.proven)
        return (*told, *figures, round(trial.seconds, 2), trial.reason)

    def _is_best(self, trial: Trial) -> bool:
        own = trial.candidate
        return best_of(self.trials).get((own.epsilon, own.promise)) is trial

    def noiser(self, k: int) -> Any:
        """Return the estimator of a row of ``table``, not fitted.

        Parameters
        ----------
        k : int
            The number of the row.

        Returns
        -------
        PufferfishNoiser or Pipeline
            A pipeline where dates become days or values are merged first. Fitted to the rows that
            the plan was made from, it has the figures of its row. Other rows it refuses where
            ``fit`` has not seen their values, unless ``unknown="nearest"`` is set.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        own = self._trial(k).candidate
        noiser = clone(PufferfishNoiser(own.epsilon, **own.params))
        if not (self.days or own.merged):
            return noiser
        how = {"days": list(self.days), "merged": {n: dict(v) for n, v in own.merged.items()}}
        recoding = FunctionTransformer(recoded, kw_args=how)
        return Pipeline([("recoded", recoding), ("noiser", noiser)])

    def why(self, k: int) -> str:
        """Return what came of a row of ``table``, and what its promise rests on.

        Parameters
        ----------
        k : int
            The number of the row.

        Returns
        -------
        str
            Sentences.
        """
        trial = self._trial(k)
        own = trial.candidate
        told = f"At epsilon {own.epsilon:g}, {own.label} ({own.promise})"
        if not trial.fitted:
            return f"{told} was {trial.verdict}: {trial.reason.rstrip('.')}."
        figures = (
            f"{told} changes a value by {trial.change:.3g} standard deviations on average and "
            f"leaves {trial.unchanged:.0%} of the values as they are; "
            f"the certificate {trial.verdict}{self._rank(trial)}."
        )
        return " ".join([figures, *_remarks(trial)])

    def _in_short(self, k: int) -> str:
        """Return the figures of a row in one sentence."""
        trial = self.trials[k]
        own = trial.candidate
        return (
            f"epsilon {own.epsilon:g}: row {k}, {own.label}; a value changes by {trial.change:.3g} "
            f"standard deviations on average, {trial.unchanged:.0%} of the values stay as they are"
            f"{self._rank(trial)}."
        )

    def _rank(self, trial: Trial) -> str:
        peers = [t for t in self.trials if t.verdict == "holds" and _alike(t, trial)]
        if trial.verdict != "holds" or len(peers) < 2:
            return ""
        other = peers[1] if trial is peers[0] else peers[0]
        word = "the next best" if trial is peers[0] else "the best"
        told = f"{word} with this budget and promise, {other.candidate.label}"
        return f"; {told}, changes it by {other.change:.3g}"

    def _trial(self, k: int) -> Trial:
        if check_count(k, "k", minimum=0) >= len(self.trials):
            raise IndexError(
                f"k={quoted(k)} is no row of this plan, which has {len(self.trials)}; look at "
                "its .table."
            )
        return self.trials[k]

    def recommended(self) -> list[tuple[int, str]]:
        """Return the row to look at first for each budget, and a sentence on why.

        Returns
        -------
        list of (int, str)
            The best among settings with the plain promise under which most rows do not occur once:
            elsewhere the law that is counted is the table itself.
        """
        rows = []
        for epsilon in sorted({trial.candidate.epsilon for trial in self.trials}):
            trial = self._first_choice(epsilon)
            if trial is not None:
                k = next(k for k, each in enumerate(self.trials) if each is trial)
                rows.append((k, self.why(k)))
        return rows

    def _first_choice(self, epsilon: float) -> Trial | None:
        own = [t for t in self.trials if t.verdict == "holds" and t.candidate.epsilon == epsilon]
        own = [t for t in own if not t.weak]
        plain = [t for t in own if t.candidate.promise == self.promise]
        counted = [t for t in plain if not _memorised(t)]
        return next(iter([*counted, *plain, *own]), None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON.

        Returns
        -------
        dict
            With the columns, the settings in their order, the cliffs, and what was tried on how
            many rows; figures that are not known are None.
        """
        return {
            "kind": "sklearn_puffer.plan/1",
            "internal": INTERNAL,
            "chosen": CHOSEN,
            "name": self.name,
            "version": self.version,
            "date": self.date,
            "sensitive": [_plain(name) for name in self.sensitive],
            "n_rows": self.n_rows,
            "n_tried": self.n_tried,
            "time_limit": _plain(self.time_limit),
            "days": [_plain(name) for name in self.days],
            "columns": [
                {key: _plain(value) for key, value in asdict(each).items()} for each in self.facts
            ],
            "settings": [self._setting(k) for k in range(len(self.trials))],
            "recommended": [{"row": k, "why": why} for k, why in self.recommended()],
            "cliffs": list(self.cliffs),
        }

    def _setting(self, k: int) -> dict[str, Any]:
        trial = self.trials[k]
        record = dict(zip(_TABLE, self._record(trial), strict=True))
        record = {key: _plain(value) for key, value in record.items()}
        params = {key: on_one_line(repr(v)) for key, v in trial.candidate.params.items()}
        return {"row": k, **record, "params": params, "warnings": list(trial.warnings)}

    def _page(self) -> Page:
        return Page(self._headline(), self._lines(), self._sections())

    def _headline(self) -> str:
        about = f" of {shown(self.name)}" if self.name else ""
        names = ", ".join(shown(name) for name in self.sensitive)
        fitted = sum(trial.fitted for trial in self.trials)
        return f"Plan for a release{about} that protects {names}: {fitted} settings compared."

    def _lines(self) -> list[str]:
        lines = []
        if self.n_tried < self.n_rows:
            lines.append(
                f"Settings were fitted to {self.n_tried:,} of {self.n_rows:,} rows, chosen by what "
                "they hold, each value of the sensitive columns with its share: on all rows "
                "figures differ, and fits take longer."
            )
        left = sum(trial.verdict == "not tried" for trial in self.trials)
        if left:
            lines.append(
                f"{left} settings were not tried within {self.time_limit:g} s; pass a larger "
                "time_limit=, or None."
            )
        if not any(each.use == "release" for each in self.facts):
            lines.append(
                "There is nothing to compare: no column is proposed for the release, for the "
                "reasons below; name those to release in public=."
            )
        return [*lines, INTERNAL, CHOSEN]

    def _sections(self) -> list[Section]:
        return [
            *([Section("What to look at first", sentences=self._advice())] if self.trials else []),
            *([Section("Cliffs", sentences=self.cliffs)] if self.cliffs else []),
            _columns_section(self.facts),
            *self._budgets(),
            *self._others(),
        ]

    def _advice(self) -> list[str]:
        rows = [k for k, _ in self.recommended()]
        weak = [str(k) for k, trial in enumerate(self.trials) if trial.weak]
        if not rows:
            return ["no setting is known to hold: see the reasons below."]
        remarks = [said for k in rows for said in _remarks(self.trials[k])]
        way = "plan.noiser(k) is the estimator of row k, and plan.why(k) says what it rests on."
        if weak:
            remarks.append(
                f"Rows {', '.join(weak)} promise against a classifier that knows less of the "
                "sensitive column than others would, or nothing: do not rely on them."
            )
        return [*map(self._in_short, rows), *dict.fromkeys(remarks), way]

    def _budgets(self) -> list[Section]:
        note = (
            "change in standard deviations of a column, averaged over the proposed columns; "
            "unchanged is the share of values that come out as they were; worse, in how many "
            "columns a constant would change less; * marks the best of those that promise the same"
        )
        head = ["row", "", "setting", "change", "unchanged", "worse", "promise", "holds", "seconds"]
        sections = []
        for epsilon in sorted({trial.candidate.epsilon for trial in self.trials}):
            own = [
                (k, trial)
                for k, trial in enumerate(self.trials)
                if trial.fitted and trial.candidate.epsilon == epsilon
            ]
            cells = [self._cells(k, trial) for k, trial in own]
            if cells:
                title = f"At epsilon {epsilon:g} (an even chance becomes at most {_even(epsilon)})"
                sections.append(Section(title, note, [head, *cells]))
                note = ""
        return sections

    def _cells(self, k: int, trial: Trial) -> list[str]:
        return [
            str(k),
            "*" if self._is_best(trial) else "",
            trial.candidate.label,
            f"{trial.change:.3f}",
            f"{trial.unchanged:.1%}",
            str(trial.worse),
            trial.candidate.promise + " (too weak)" * trial.weak,
            "yes" if trial.verdict == "holds" else "no",
            f"{trial.seconds:.1f}",
        ]

    def _others(self) -> list[Section]:
        """Return what has no figures, each reason once."""
        own = [(k, t) for k, t in enumerate(self.trials) if not t.fitted]
        by_reason: dict[tuple[str, str], dict[str, list[str]]] = {}
        for k, trial in own:
            labels = by_reason.setdefault((trial.verdict, trial.reason), {})
            labels.setdefault(trial.candidate.label, []).append(str(k))
        said = [
            f"{verdict}: {reason.rstrip('.')} - "
            + "; ".join(f"{label} (row {', '.join(rows)})" for label, rows in labels.items())
            for (verdict, reason), labels in by_reason.items()
        ]
        return [Section("Refused, or not tried", sentences=said)] if said else []


def _columns_section(facts: Sequence[ColumnFacts]) -> Section:
    note = (
        "noise is what a column asks for if it is released by itself, in standard deviations, and "
        "share its part of the sum"
    )
    shown_facts = [each for each in facts if each.use != "not asked for"]
    if len(shown_facts) < len(facts):
        note += f"; {len(facts) - len(shown_facts)} more columns were not asked for"
    head = ["column", "use", "what it is", "values", "missing", "noise", "share", "remark"]
    cells = [
        [
            shown(each.name),
            each.use,
            each.kind,
            str(each.distinct),
            str(each.missing),
            "" if math.isnan(each.noise) else f"{each.noise:.2f}",
            "" if math.isnan(each.share) else f"{each.share:.0%}",
            each.remark,
        ]
        for each in shown_facts
    ]
    return Section("Columns", note, [head, *cells])


def _remarks(trial: Trial) -> list[str]:
    own = trial.candidate
    said = [own.trusts] if own.trusts else []
    if own.left_out:
        said.append(f"It leaves out {listed(own.left_out)}, as if a constant stood in the place.")
    if _memorised(trial):
        said.append(
            "Most rows occur once, so that the counted law is this table: a promise against it "
            'says little about what can be learnt; noise="swap" is for such tables.'
        )
    if trial.fitted and trial.change == 0.0:
        said.append(
            "It changes nothing: the prior itself is within the budget, as far as its rows tell; a "
            'confidence set (adversaries="confidence") says how far that is.'
        )
    if trial.worse:
        columns = "one column" if trial.worse == 1 else f"{trial.worse} columns"
        said.append(f"In {columns} a constant would change less.")
    if trial.weak:
        said.append(
            "Its classifier knows too little to be an adversary: this promise means little."
        )
    if trial.proven == "bound":
        said.append("Its loss is a proven bound, not the exact one.")
    return said


def _alike(one: Trial, other: Trial) -> bool:
    """Return whether two settings have the same budget and promise."""
    first, second = one.candidate, other.candidate
    return first.epsilon == second.epsilon and first.promise == second.promise


def _memorised(trial: Trial) -> bool:
    """Return whether most rows occur once, so that the counted law is the table itself."""
    return any(sentences.OCCUR_ONCE in said for said in trial.warnings)


def _even(epsilon: float) -> str:
    return f"{1.0 / (1.0 + math.exp(-epsilon)):.0%}"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: infinity is a word, and what is not known None."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else "infinity"
    return value if isinstance(value, str | int | bool) or value is None else str(value)
