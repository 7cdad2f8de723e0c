"""A plan: what its columns and settings are, and what was measured on rows that nobody fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from sklearn_puffer._base import check_count, counted
from sklearn_puffer._documents import Document, Page, Section
from sklearn_puffer._review.given import ColumnFacts, in_memory
from sklearn_puffer._tables import Name, named_frame, records_frame
from sklearn_puffer._words import on_one_line, quoted, shown

INTERNAL = (
    "This plan is computed from the raw rows, sensitive columns included, without noise: keep it "
    "where you keep the table, and do not release it."
)
CHOSEN = (
    "Who chooses a setting by it makes the choice a function of the rows, and no certificate "
    "covers what the choice tells. Plan on other rows of the same kind where that matters."
)
ESTIMATES = (
    "Change, task and attack are estimates; an attack is a mean over rows, which proves nothing "
    "of any single one, and other attacks may find more. What is proven is the loss in each "
    "certificate, for the reader named there."
)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
NEARLY = 0.9  # of what constants change, from which on that is said
_CURVE = ("change", "rows_equal", "attack", "low", "high", "task", "loss", "allowed")
_DECIMALS = 3  # of estimates, so that a curve is printed on lines of 80
_COLUMNS = ("use", "kind", "distinct", "missing", "constant", "remark")


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


VERDICTS = ("holds", "struck out", "does not hold", "refused", "not tried")


@dataclass(frozen=True)
class Row:
    """What was measured of one setting.

    Attributes
    ----------
    label : str
    candidate : Candidate or None
        None of the rows as they are, and of constants.
    verdict : {"holds", "struck out", "does not hold", "refused", "not tried"}
    reason : str
        Why it is not proposed.
    change, equal, rows_equal : float
        Mean change in standard deviations, and the shares of values and of rows that are equal.
    attack : Attacked or None
        The best attack that was found; None where rows are too few.
    task : float
        Score on true rows; NaN without a task.
    groups : tuple
        Share of rows that are unique in the released columns, and the smallest group.
    loss : float
        As the certificate has it: proven, of the fitted rows.
    seconds : float
    estimator : PufferfishNoiser, PufferfishMicroaggregator or PufferfishSwap
        Fitted.
    """

    label: str
    candidate: Any = None
    verdict: str = "holds"
    reason: str = ""
    change: float = math.nan
    equal: float = math.nan
    rows_equal: float = math.nan
    attack: Attacked | None = None
    task: float = math.nan
    groups: tuple[float, int] = (math.nan, 0)
    loss: float = math.nan
    seconds: float = field(default=0.0, compare=False)
    estimator: Any = field(default=None, compare=False, repr=False)

    def judged(self, *, holds: bool) -> Row:
        """Return the row with what speaks against it."""
        if not holds:
            return replace(self, verdict="does not hold", reason="its certificate does not hold")
        attack, allowed = self.attack, self.allowed
        if attack is None or math.isnan(allowed) or attack.least <= allowed:
            return self
        reason = (
            f"on rows that were not fitted the attack {shown(attack.attacker)} reaches AUC "
            f"{attack.auc:.3f}, for certain more than {attack.least:.3f} (95 %, corrected for all "
            f"attacks), where such a guarantee leaves {allowed:.3f}"
        )
        return replace(self, verdict="struck out", reason=reason)

    @property
    def promise(self) -> str:
        """For whom the guarantee holds; for nobody where there is none."""
        return "" if self.candidate is None else self.candidate.promise

    @property
    def allowed(self) -> float:
        """The AUC that the guarantee leaves; NaN where it leaves any."""
        return math.nan if self.candidate is None else self.candidate.allowed

    def record(self) -> dict[str, Any]:
        """Return the row of a plan's table."""
        return {
            "setting": self.label,
            "promise": self.promise,
            "verdict": "" if self.candidate is None else self.verdict,
            **{name: getattr(self, name) for name in ("change", "equal", "rows_equal")},
            **dict(zip(("attack", "low", "high"), self.ends, strict=True)),
            "task": self.task,
            **dict(zip(("unique", "smallest"), self.groups, strict=True)),
            "loss": self.loss,
            "seconds": round(self.seconds, 2),
            "reason": self.reason,
        }

    @property
    def ends(self) -> tuple[float, float, float]:
        """The AUC of the best attack, and its interval."""
        attack = self.attack
        return (math.nan,) * 3 if attack is None else (attack.auc, attack.low, attack.high)


def ranked(rows: Sequence[Row], bare: Row, width: float) -> list[Row]:
    """Return rows by rank: those kept that change less than constants, by the task, by change.

    Scores that differ from the best by less than ``width`` are alike: there change decides.
    """
    useful = [row for row in rows if is_useful(row, bare)]
    best = max((row.task for row in useful), default=math.nan)

    def order(row: Row) -> tuple[Any, ...]:
        change = math.inf if math.isnan(row.change) else row.change
        behind = 0.0 if not row.task < best - width else best - row.task
        return row not in useful, VERDICTS.index(row.verdict), behind, change, row.label

    return sorted(rows, key=order)


def is_useful(row: Row, bare: Row, share: float = 1.0) -> bool:
    """Return whether a row is kept, and changes less than constants do, or a share of that."""
    return row.verdict == "holds" and row.change < share * bare.change


@dataclass(frozen=True)
class Plan(Document):
    """What `plan` measured, before anything is released.

    Parameters
    ----------
    sensitive : tuple of names
        The columns that are protected.
    facts : tuple of ColumnFacts
        What each column is.
    raw, bare : Row
        The rows as they are, and constants in their place.
    trials : tuple of Row
        What was measured of each setting, as ``table`` ranks them.
    out : tuple of str
        Measured ways out, where no setting is kept, or the best changes nearly what constants do.
    notes : tuple of str
        What there is to know of columns, secrets and rows.
    epsilon : float
        The budget of every setting.
    task : str, int or None
        The column that is told from the released ones.
    score : {"AUC", "R2"}
        What measures the task.
    base : float
        The share of the most frequent class; 0 of a number.
    n_rows, n_fitted, n_held, seed : int
        Rows given, fitted and measured, and by which seed they were split.
    measurer : object
        The rows, for `curve`; it is not written to JSON.
    version, date : str
        Of the library, and the time of the plan (UTC, ISO 8601).
    name : str
        Of the table, where `named` gave one.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_puffer import plan
    >>> table = load_diabetes(as_frame=True, scaled=False).data
    >>> found = plan(table, "sex", public=["bmi", "bp"], n_prototypes=8, n_bins=4)
    >>> found.estimator(0, refit=table).certificate_.n_rows
    442
    """

    sensitive: tuple[Name, ...]
    facts: tuple[ColumnFacts, ...]
    raw: Row
    bare: Row
    trials: tuple[Row, ...]
    out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    epsilon: float = 1.0
    task: Name | None = None
    score: str = "AUC"
    base: float = math.nan
    n_rows: int = 0
    n_fitted: int = 0
    n_held: int = 0
    seed: int = 0
    measurer: Any = field(default=None, compare=False, repr=False)
    version: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    @property
    def columns(self) -> Any:
        """What each column is: a DataFrame, by name.

        ``use`` says what the plan does with it, ``kind`` what it holds, and ``constant`` what a
        constant in its place would change, in standard deviations.
        """
        records = [tuple(getattr(fact, key) for key in _COLUMNS) for fact in self.facts]
        frame = records_frame(records, _COLUMNS)
        frame.index = named_frame({fact.name: {} for fact in self.facts}, []).index
        return frame

    @property
    def table(self) -> Any:
        """The settings as a DataFrame, numbered by rank, below the rows as they are and constants.

        ``promise`` says for whom the guarantee holds, ``loss`` what is proven. ``attack`` is the
        AUC of the best attack found, ``low`` and ``high`` its 95 % interval: estimates, and means
        over rows. ``unique`` and ``smallest`` say how many rows no other one equals, and how many
        the smallest group of equal rows has (k). The two rows above have the index "".
        """
        records = [row.record() for row in (self.raw, self.bare, *self.trials)]
        frame = records_frame([tuple(each.values()) for each in records], tuple(records[0]))
        frame.index = ["", "", *range(len(self.trials))]
        return frame

    def estimator(self, k: int, *, refit: Any = None) -> Any:
        """Return the estimator of a row of ``table``: fitted, for new rows.

        Parameters
        ----------
        k : int
            The number of the row.
        refit : DataFrame, default=None
            Rows to fit the same settings to, all of them for example; none of the figures of the
            plan are about that fit.

        Returns
        -------
        PufferfishNoiser, PufferfishMicroaggregator or PufferfishSwap
            As it was measured; of a table of fewer than 1,000 rows, of which folds were measured,
            fitted to all of them.

        Raises
        ------
        IndexError
            If there is no such row.
        ValueError
            If it was refused, or not tried.
        """
        row = self._row(k)
        if row.estimator is None:
            raise ValueError(f"row {k} was {row.verdict}: {row.reason.rstrip('.')}; take another.")
        if refit is not None:
            assert row.candidate is not None
            return row.candidate.fit(in_memory(refit, "a plan"))
        return row.estimator

    noiser = estimator  # as it was called before there were three

    def why(self, k: int) -> str:
        """Return what was measured of a row of ``table``, in sentences.

        Parameters
        ----------
        k : int
            The number of the row.

        Returns
        -------
        str
            Its figures, and why it was struck out, if it was.
        """
        row = self._row(k)
        title = f"Row {k}, {row.label} (for a reader {row.promise})"
        if not math.isfinite(row.change):
            return f"{title} was {row.verdict}: {row.reason.rstrip('.')}."
        told = f"{title}: {self._told(row)}."
        return told if not row.reason else f"{told} It is {row.verdict}, since {row.reason}."

    def _told(self, row: Row) -> str:
        auc, low, high = row.ends
        task = f", {self.score} {row.task:.3f} for {shown(self.task)}"
        attack = f", and the best attack found reaches AUC {auc:.3f} ({low:.3f} to {high:.3f})"
        return (
            f"a value changes by {row.change:.3g} standard deviations (a constant in its place: "
            f"{self.bare.change:.3g}), {row.rows_equal:.0%} of the rows stay as they are"
            f"{'' if math.isnan(row.task) else task}{'' if math.isnan(auc) else attack}"
        )

    def _row(self, k: int) -> Row:
        if check_count(k, "k", minimum=0) >= len(self.trials):
            raise IndexError(
                f"k={quoted(k)} is no row of this plan, which has {len(self.trials)}; look at "
                "its .table."
            )
        return self.trials[k]

    @property
    def proposed(self) -> int | None:
        """The row to release with; None where none is kept, or constants change less."""
        return 0 if self.trials and is_useful(self.trials[0], self.bare) else None

    def advice(self) -> str:
        """Return what to do, in a few sentences.

        Returns
        -------
        str
            Which row to release with and for which reader that is proven, or what to give up.
        """
        if self.proposed is None:
            return self._without()
        row = self.trials[0]
        advice = (
            f"Release with row 0, {row.label}, which is proven for a reader {row.promise}: "
            f"{self._told(row)} (estimates)."
        )
        if is_useful(row, self.bare, NEARLY):
            return advice
        return f"{advice} That is nearly what constants change. {self._tried()}"

    def _tried(self) -> str:
        """Return what keeps more, as measured, or that nothing does that was tried."""
        if self.out:
            return f"More is kept, as measured, by one of these: {'; '.join(self.out)}."
        return "Neither twice the epsilon nor fewer columns, as far as tried, keep more."

    def _without(self) -> str:
        """Return what to give up, where no setting is kept."""
        if all(row.estimator is None for row in self.trials):
            reasons = [f"{row.label} {row.verdict}, {row.reason}" for row in self.trials]
            return f"No setting could be measured: {'; '.join(reasons) or 'there is none'}."
        return (
            "No setting keeps both the guarantee and the rows, as nothing but constants would "
            f"change less ({self.bare.change:.3g} standard deviations). {self._tried()}"
        )

    def curve(
        self,
        k: int = 0,
        epsilons: Sequence[float] = EPSILONS,
        *,
        n_prototypes: Sequence[int] | None = None,
    ) -> Any:
        """Return change, attack and task of a row at other budgets, or numbers of typical rows.

        Parameters
        ----------
        k : int, default=0
            The number of the row.
        epsilons : sequence of float
            By default from .1 to 4. Each is fitted anew.
        n_prototypes : sequence of int, default=None
            How many typical rows there are at most, in the place of ``epsilons``; of a
            `PufferfishMicroaggregator`.

        Returns
        -------
        DataFrame
            With ``epsilon`` or ``n_prototypes``, ``change``, ``rows_equal``, ``attack``, ``low``,
            ``high``, ``task``, the proven ``loss``, and ``allowed``, the AUC that the guarantee
            leaves; estimates have three decimals. `UtilityDisplay` draws it.

        Raises
        ------
        ValueError
            If the plan holds no rows, as one that was read from JSON, the row was not measured, or
            its estimator has no typical rows.
        """
        row = self._row(k)
        if row.estimator is None or self.measurer is None or row.candidate is None:
            raise ValueError(f"row {k} was not measured, so there is no curve; take another.")
        if n_prototypes is not None and "n_prototypes" not in row.estimator.get_params():
            raise ValueError(f"row {k}, {row.label}, has no n_prototypes; take typical rows.")
        name = "epsilon" if n_prototypes is None else "n_prototypes"
        values = epsilons if n_prototypes is None else n_prototypes
        records = []
        for value in counted(list(values), "fits"):
            found = self.measurer.tried(row.candidate.at(**{name: value}))
            figures = (found.change, found.rows_equal, *found.ends, found.task)
            rounded = (round(figure, _DECIMALS) for figure in figures)
            records.append((value, *rounded, found.loss, found.allowed))
        return records_frame(records, (name, *_CURVE))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON.

        Returns
        -------
        dict
            With the advice, the columns, the settings by rank, and how the rows were split;
            figures that are not known are None.
        """
        keys = ("name", "version", "date", "epsilon", "score", "base", "seed")
        counts = ("n_rows", "n_fitted", "n_held")
        return {
            "kind": "sklearn_puffer.plan/4",
            "internal": INTERNAL,
            "chosen": CHOSEN,
            "advice": self.advice(),
            "sensitive": [_plain(name) for name in self.sensitive],
            "task": _plain(self.task),
            **{key: _plain(getattr(self, key)) for key in (*keys, *counts)},
            "columns": [
                {key: _plain(value) for key, value in asdict(fact).items()} for fact in self.facts
            ],
            "raw": _written(self.raw),
            "constants": _written(self.bare),
            "settings": [{"row": k, **_written(row)} for k, row in enumerate(self.trials)],
            "notes": list(self.notes),
        }

    def _page(self) -> Page:
        about = f" of {shown(self.name)}" if self.name else ""
        names = ", ".join(shown(name) for name in self.sensitive)
        title = f"Plan for a release{about} that protects {names} at epsilon {self.epsilon:g}."
        lines = [self.advice(), self._of_rows(), ESTIMATES, INTERNAL, CHOSEN]
        return Page(title, lines, self._sections())

    def _of_rows(self) -> str:
        auc, low, high = self.raw.ends
        raw = ""
        if not math.isnan(auc):
            raw = (
                f" Of the rows as they are, the best attack found reaches AUC {auc:.3f} "
                f"({low:.3f} to {high:.3f})."
            )
        how = f"fitted to {self.n_fitted:,} rows and measured on {self.n_held:,} others"
        if self.measurer is not None and self.measurer.parts.folds:
            folds = len(self.measurer.parts.folds)
            how = f"measured on all {self.n_held:,} rows, each {folds}th by a fit of the others"
        return f"Settings were {how}, split by seed {self.seed}.{raw}"

    def _sections(self) -> list[Section]:
        struck = [
            f"row {k}, {row.label}: {row.verdict}, {row.reason.rstrip('.')}."
            for k, row in enumerate(self.trials)
            if row.verdict != "holds"
        ]
        way = "plan.estimator(k) is the estimator of row k; plan.curve(k) has other budgets."
        return [
            self._ways(),
            Section("For whom each guarantee holds", sentences=self._readers()),
            *([Section("Not proposed", sentences=struck)] if struck else []),
            Section("What else to know", sentences=[*self.notes, way]),
            _columns_section(self.facts),
        ]

    def _readers(self) -> list[str]:
        """Return one sentence for each reader, with the rows whose guarantee is for it."""
        kept = [(k, row) for k, row in enumerate(self.trials) if row.verdict == "holds"]
        kept.sort(key=lambda each: each[1].promise)
        told = []
        for promise, rows in groupby(kept, key=lambda each: each[1].promise):
            numbers = [str(k) for k, _ in rows]
            told.append(f"row{'s'[: len(numbers) > 1]} {', '.join(numbers)}: a reader {promise}.")
        return told or ["nobody, as no setting is kept."]

    def _ways(self) -> Section:
        task = f"; {self.score} for {shown(self.task)}" if self.task is not None else ""
        base = f", base rate {self.base:.2f}" if task and self.score == "AUC" else ""
        note = (
            f"change in standard deviations; rows that stay equal{task}{base}; attack: AUC of the "
            "best one found with its 95 % interval; unique rows, and the smallest group of equal "
            "rows (k); loss: proven"
        )
        head = ["row", "way", "change", "rows", "attack", "unique", "k", "loss"]
        named = [("", self.raw), ("", self.bare)]
        named += [(str(k), row) for k, row in enumerate(self.trials) if math.isfinite(row.change)]
        cells = [self._cells(*each) for each in named]
        if task:
            head.insert(4, "task")
            for line, (_, row) in zip(cells, named, strict=True):
                line.insert(4, f"{row.task:.3f}")
        return Section("Settings", note, [head, *cells])

    def _cells(self, k: str, row: Row) -> list[str]:
        auc, low, high = row.ends
        return [
            k + " (no)" * (row.verdict != "holds"),
            row.label,
            f"{row.change:.3f}",
            f"{row.rows_equal:.0%}",
            "" if math.isnan(auc) else f"{auc:.3f} ({low:.3f} to {high:.3f})",
            f"{row.groups[0]:.0%}",
            str(row.groups[1]),
            "" if math.isnan(row.loss) else f"{row.loss:.3g}",
        ]


def _columns_section(facts: Sequence[ColumnFacts]) -> Section:
    """Return the table of the columns, for a page."""
    told = [fact for fact in facts if fact.use != "not asked for"]
    note = "constant: what one in its place would change, in standard deviations"
    if len(told) < len(facts):
        more = len(facts) - len(told)
        note += f"; {more} more {'column is' if more == 1 else 'columns are'} not released"
    head = ["column", "use", "what it is", "values", "missing", "constant", "remark"]
    cells = [
        [
            shown(fact.name),
            fact.use,
            fact.kind,
            str(fact.distinct),
            str(fact.missing),
            "" if math.isnan(fact.constant) else f"{fact.constant:.2f}",
            fact.remark,
        ]
        for fact in told
    ]
    return Section("Columns", note, [head, *cells])


def _written(row: Row) -> dict[str, Any]:
    """Return what was measured of a row, and its parameters, for JSON."""
    record = {key: _plain(value) for key, value in row.record().items()}
    if row.candidate is None:
        return {**record, "params": {}}
    params = {key: on_one_line(repr(v)) for key, v in row.candidate.params.items()}
    return {**record, "estimator": row.candidate.kind.__name__, "params": params}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: infinity is a word, and what is not known None."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else "infinity"
    return value if isinstance(value, str | int | bool) or value is None else str(value)
