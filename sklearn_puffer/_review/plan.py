"""A plan: what its columns and settings are, and what was measured on rows that nobody fitted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_puffer._base import (
    Document,
    Page,
    Section,
    check_count,
    counted,
    on_one_line,
    quoted,
    shown,
)
from sklearn_puffer._review.exact_tests import Budget
from sklearn_puffer._review.measured import Attacked
from sklearn_puffer._tables import (
    Name,
    Table,
    Values,
    hardly_repeats,
    identifier_kind,
    named_frame,
    present,
    recoded,
    records_frame,
)
from sklearn_puffer.accounting import MAX_CELLS

Use = Literal["sensitive", "release", "leave out", "not asked for"]

_NUMBERS = ("float", "integer")


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is, and what the plan does with it.

    Attributes
    ----------
    name : str or int
    use : {"sensitive", "release", "leave out", "not asked for"}
    kind : str
        In words: "number", "whole number", "yes or no", "order", "category", "date", "days",
        "identifier" (whole numbers), "text", "constant", "nothing" or "unreadable".
    distinct, missing : int
        How many different values it has, and in how many rows it has none.
    remark : str
        What there is to say of it, such as why it is left out.
    constant : float
        What a constant in its place changes, in standard deviations.
    """

    name: Name
    use: Use
    kind: str
    distinct: int = 0
    missing: int = 0
    remark: str = ""
    constant: float = float("nan")

    @property
    def numeric(self) -> bool:
        """Whether bins are possible."""
        return self.kind in ("number", "whole number", "days", "identifier")

    @property
    def hardly_repeats(self) -> bool:
        """Whether it is proposed for bins because its values are too many."""
        return self.remark.startswith(_BINS)


_BINS = "hardly repeats"


def read_columns(
    table: Table,
    sensitive: Sequence[Name],
    public: Collection[Name] | None,
    dates: Collection[Name],
    days: Collection[Name],
    orders: Mapping[Any, Any],
) -> list[ColumnFacts]:
    """Return what the columns are, in the order of the table.

    Parameters
    ----------
    table : Table
    sensitive : sequence of names
    public : collection of names or None
        The columns to release, proposed whatever they look like; None for all that suit.
    dates : collection of names
        Columns of dates, times and durations.
    days : collection of names
        Columns of dates that were turned into whole days.
    orders : mapping
        The declared values of some columns, as in ``categories=``.
    """
    facts = []
    for name in table.names:
        if name in dates:
            facts.append(_date(name, sensitive))
            continue
        try:
            values = table.values(name)
        except (TypeError, ValueError) as error:
            facts.append(ColumnFacts(name, _use(name, sensitive), "unreadable", remark=str(error)))
            continue
        named = public is not None and name in public
        fact = _read(name, values, sensitive, named=named, ordered=name in orders)
        fact = _in_days(fact) if name in days else fact
        skipped = fact.use != "sensitive" and public is not None and not named
        facts.append(ColumnFacts(name, "not asked for", fact.kind) if skipped else fact)
    return facts


def without_odd_gaps(facts: Sequence[ColumnFacts]) -> list[ColumnFacts]:
    """Leave out numbers with gaps beside secrets with gaps: no setting allows both."""
    if not any(fact.missing for fact in facts if fact.use == "sensitive"):
        return list(facts)
    remark = "it has missing values beside those of a sensitive column; fill or drop one of them"
    return [
        replace(fact, use="leave out", remark=remark)
        if fact.use == "release" and fact.numeric and fact.missing
        else fact
        for fact in facts
    ]


def _use(name: Name, sensitive: Sequence[Name]) -> Use:
    return "sensitive" if name in sensitive else "leave out"


def _in_days(fact: ColumnFacts) -> ColumnFacts:
    """Return what a column of days is: no identifier, even if every row has its own day."""
    if fact.kind == "identifier":
        return replace(fact, use="release", kind="days", remark=f"{_BINS}: it goes into bins")
    return replace(fact, kind="days") if fact.kind == "whole number" else fact


def _date(name: Name, sensitive: Sequence[Name]) -> ColumnFacts:
    remark = 'dates="days" makes whole days of dates, and numbers can be released'
    return ColumnFacts(name, _use(name, sensitive), "date", remark=remark)


def _read(
    name: Name, values: Values, sensitive: Sequence[Name], *, named: bool, ordered: bool
) -> ColumnFacts:
    data = present(values)
    atoms = np.unique(data)
    counts = {"distinct": len(atoms), "missing": values.n_missing}
    if name in sensitive:
        kind = _kind(values, ordered=ordered)
        remark = f"{_BINS}: its values have few rows each" if _many(atoms, values) else ""
        return ColumnFacts(name, "sensitive", kind, **counts, remark=remark)
    kind, remark, out = _judged(values, data, atoms, ordered=ordered)
    possible = kind not in ("nothing", "unreadable", "text", "date")
    use: Use = "leave out" if out and not (named and possible) else "release"
    return ColumnFacts(name, use, kind, **counts, remark=remark)


def _kind(values: Values, *, ordered: bool) -> str:
    if values.kind == "category":
        return "order" if ordered or values.ordered else "category"
    if ordered:
        return "order"
    return {"boolean": "yes or no", "integer": "whole number", "float": "number"}[values.kind]


def _many(atoms: Any, values: Values) -> bool:
    return hardly_repeats(len(atoms), len(values))


def _judged(values: Values, data: Any, atoms: Any, *, ordered: bool) -> tuple[str, str, bool]:
    """Return what a column is, what there is to say of it, and whether that keeps it out."""
    kind = _kind(values, ordered=ordered)
    if not len(data):
        return "nothing", "every value is missing", True
    if values.kind == "float" and not np.isfinite(atoms).all():
        return "unreadable", "it contains infinity; drop or replace such values", True
    what = identifier_kind(values)
    if what == "date":
        return "date", 'its categories are dates; make dates of them, and pass dates="days"', True
    if what == "text" or (what and not ordered):
        remark = f"{len(atoms)} different values in {len(data)} rows look like an identifier"
        way = "" if what == "text" else "; name it in public= if it is to be released"
        return ("identifier" if way else "text"), remark + way, True
    if len(atoms) == 1 and values.missing is None:
        return "constant", "it has one value only, and tells nothing", False
    if values.kind in _NUMBERS and not ordered and _many(atoms, values):
        return kind, f"{_BINS}: it goes into bins", False
    return kind, "", False


BINS = 5
_FEW = 200  # values of a number, up to which noise is tried without bins

ROW = "who reads one row"
GROUP = "who reads the rows of one group"


@dataclass(frozen=True)
class Candidate:
    """One setting that is measured.

    Attributes
    ----------
    epsilon : float
    label : str
        What it is, in words.
    promise : str
        Whom the guarantee is for.
    params : mapping
        Of `PufferfishNoiser`, but ``epsilon``.
    """

    epsilon: float
    label: str
    promise: str
    params: Mapping[str, Any] = field(default_factory=dict)


def candidates_of(
    epsilon: float, fixed: Mapping[str, Any], columns: Sequence[ColumnFacts], lookup: Sequence[Any]
) -> list[Candidate]:
    """Return the settings to try for some columns; what the caller fixed is not varied.

    >>> [each.label for each in candidates_of(1.0, {"noise": "laplace"}, [], ["age"])]
    ['laplace, lookup= known', 'laplace']
    """
    reader = GROUP if "groups" in fixed else ROW
    candidates = [
        Candidate(epsilon, label, reader, {**fixed, **params})
        for label, params in _settings(fixed, columns)
    ]
    alike = [_with_known(candidate, tuple(lookup)) for candidate in candidates if lookup]
    return [*alike, *candidates]


def _with_known(candidate: Candidate, lookup: tuple[Any, ...]) -> Candidate:
    params, suffix = {**candidate.params, "known": lookup}, ", lookup= known"
    label, promise = candidate.label + suffix, candidate.promise + suffix
    return Candidate(candidate.epsilon, label, promise, params)


def _settings(
    fixed: Mapping[str, Any], columns: Sequence[ColumnFacts]
) -> list[tuple[str, dict[str, Any]]]:
    """Return labels and parameters, without side information."""
    if "noise" in fixed:
        noise = fixed["noise"]
        return [(noise if isinstance(noise, str) else quoted(noise), {})]
    tried: list[tuple[str, dict[str, Any]]] = []
    if _cells(columns, BINS) <= MAX_CELLS:
        tried.append((f"Laplace noise, {BINS} bins", {"noise": "laplace", "n_bins": BINS}))
    if _cells(columns, None) <= MAX_CELLS and all(each.distinct <= _FEW for each in columns):
        tried.append(("Laplace noise", {"noise": "laplace"}))
    return [setting for setting in tried if not (set(setting[1]) - {"noise"}) & set(fixed)]


def _cells(columns: Sequence[ColumnFacts], bins: int | None) -> float:
    """Return how many combinations of values there may be, with numbers in so many bins."""
    return math.prod(
        float(min(column.distinct, bins) if bins and column.numeric else max(column.distinct, 1))
        for column in columns
    )


INTERNAL = (
    "This plan is computed from the raw rows, sensitive columns included, without noise: keep it "
    "where you keep the table, and do not release it."
)
CHOSEN = (
    "Who chooses a setting by it makes the choice a function of the rows, and no certificate "
    "covers what the choice tells. Plan on other rows of the same kind where that matters."
)
ESTIMATES = (
    "Figures are estimates, measured on rows that were not fitted: other attacks may find more. "
    "The loss is proven, under the conditions that each certificate lists."
)
VERDICTS = ("holds", "struck out", "does not hold", "refused", "not tried")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
_TABLE = (
    "setting", "promise", "verdict", "change", "equal", "rows_equal", "attack", "low", "high",
    "allowed", "task", "payer", "payer_kept", "unique", "smallest", "loss", "seconds", "reason",
)  # fmt: skip
_COLUMNS = ("use", "kind", "distinct", "missing", "constant", "remark")


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
        The best attack that was found; None where there is nothing to attack.
    allowed : float
        The AUC that the guarantee allows.
    task : float
        Score on true rows; NaN without a task.
    payer : tuple
        Sensitive column, secret, and the share of its rows that stay: the secret that pays most.
    groups : tuple
        Share of rows that are unique in the released columns, and the smallest group.
    loss : float
        As the certificate has it: proven, of the fitted rows.
    seconds : float
    noiser : PufferfishNoiser
        As it was measured.
    """

    label: str
    candidate: Candidate | None = None
    verdict: str = "holds"
    reason: str = ""
    change: float = math.nan
    equal: float = math.nan
    rows_equal: float = math.nan
    attack: Attacked | None = None
    allowed: float = math.nan
    task: float = math.nan
    payer: tuple[Any, Any, float] = ("", "", math.nan)
    groups: tuple[float, int] = (math.nan, 0)
    loss: float = math.nan
    seconds: float = field(default=0.0, compare=False)
    noiser: Any = field(default=None, compare=False, repr=False)

    def judged(self, *, holds: bool) -> Row:
        """Return the row with what speaks against it."""
        if not holds:
            return replace(self, verdict="does not hold", reason="its certificate does not hold")
        attack = self.attack
        if attack is None or attack.least <= self.allowed:
            return self
        reason = (
            f"on rows that were not fitted the attack {shown(attack.attacker)} reaches AUC "
            f"{attack.auc:.3f}, for certain more than {attack.least:.3f} (95 %, corrected for all "
            f"attacks), and {self.allowed:.3f} is allowed"
        )
        return replace(self, verdict="struck out", reason=reason)

    @property
    def promise(self) -> str:
        """Whom the guarantee is for; nobody where there is none."""
        return "" if self.candidate is None else self.candidate.promise

    @property
    def ends(self) -> tuple[float, float, float]:
        """The AUC of the best attack, and its interval."""
        attack = self.attack
        return (0.5, 0.5, 0.5) if attack is None else (attack.auc, attack.low, attack.high)


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
        Measured ways out, where no setting is kept.
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
        Rows given, fitted and held out, and by which seed they were split.
    days : tuple of names
        Columns of dates that become days first.
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
    >>> found = plan(table, "sex", public=["bmi", "bp"], n_bins=5)
    >>> found.noiser(0, refit=table).certificate_.n_rows
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
    days: tuple[Name, ...] = ()
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

        ``attack`` is the AUC of the best attack found, ``low`` and ``high`` its 95 % interval,
        ``allowed`` what the guarantee allows; ``payer`` the secret whose rows change most, and
        ``payer_kept`` the share of them that do not; ``unique`` and ``smallest`` say how many rows
        no other one equals, and how many the smallest group of equal rows has (k). The two rows
        above have the index "".
        """
        records = [self._record(row) for row in (self.raw, self.bare, *self.trials)]
        frame = records_frame(records, _TABLE)
        frame.index = ["", "", *range(len(self.trials))]
        return frame

    def _record(self, row: Row) -> tuple[Any, ...]:
        verdict = "" if row.candidate is None else row.verdict
        attack = row.ends if math.isfinite(row.change) else (math.nan,) * 3
        labels, figures = (row.label, row.promise, verdict), (row.change, row.equal, row.rows_equal)
        payer = (str(row.payer[1]), row.payer[2], *row.groups)
        known = (row.allowed, row.task, *payer, row.loss, round(row.seconds, 2))
        return (*labels, *figures, *attack, *known, row.reason)

    def noiser(self, k: int, *, refit: Any = None) -> Any:
        """Return the noiser of a row of ``table``, as it was measured: fitted, for new rows.

        Parameters
        ----------
        k : int
            The number of the row.
        refit : DataFrame, default=None
            Rows to fit the same settings to, all of them for example; none of the figures of the
            plan are about that fit.

        Returns
        -------
        PufferfishNoiser or Pipeline
            A pipeline, not fitted anew, where dates become days first.

        Raises
        ------
        IndexError
            If there is no such row.
        ValueError
            If it was refused, or not tried.
        """
        row = self._row(k)
        if row.noiser is None:
            raise ValueError(f"row {k} was {row.verdict}: {row.reason.rstrip('.')}; take another.")
        noiser = row.noiser
        if refit is not None:
            frame = recoded(refit, days=self.days) if self.days else refit
            noiser = clone(noiser).fit(frame)
        if not self.days:
            return noiser
        recoding = FunctionTransformer(recoded, kw_args={"days": list(self.days)})
        return Pipeline([("recoded", recoding), ("noiser", noiser)])

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
        title = f"Row {k}, {row.label} (for {row.promise})"
        if not math.isfinite(row.change):
            return f"{title} was {row.verdict}: {row.reason.rstrip('.')}."
        sentences = [f"{title}: {self._figures(row)}."]
        if row.reason:
            sentences.append(f"It is {row.verdict}, since {row.reason.rstrip('.')}.")
        return " ".join(sentences)

    def _figures(self, row: Row) -> str:
        auc, low, high = row.ends
        task = (
            "" if math.isnan(row.task) else f", {self.score} {row.task:.3f} for {shown(self.task)}"
        )
        return (
            f"a value changes by {row.change:.3g} standard deviations, {row.rows_equal:.0%} of the "
            f"rows stay as they are{task}; the best attack found reaches AUC {auc:.3f} ({low:.3f} "
            f"to {high:.3f}), and {row.allowed:.3f} is allowed"
        )

    def _row(self, k: int) -> Row:
        if check_count(k, "k", minimum=0) >= len(self.trials):
            raise IndexError(
                f"k={quoted(k)} is no row of this plan, which has {len(self.trials)}; look at "
                "its .table."
            )
        return self.trials[k]

    @property
    def needed(self) -> bool:
        """Whether the rows as they are may tell more than is allowed, for all that was measured."""
        return self.raw.attack is None or self.raw.attack.most > self.raw.allowed

    @property
    def proposed(self) -> int | None:
        """The row to release with; None where none is kept, or constants change less."""
        return 0 if self.trials and self._useful(self.trials[0]) else None

    def advice(self) -> str:
        """Return what to do, in one sentence.

        Returns
        -------
        str
            That nothing is needed, which row to release with, or what to give up.
        """
        if not self.needed:
            auc, low, high = self.raw.ends
            safe = self.proposed
            proof = "" if safe is None else f"; row {safe} proves it, where a proof is wanted"
            return (
                f"Nothing is needed: the rows as they are tell at most AUC {high:.3f} (estimate "
                f"{auc:.3f}, 95 % interval {low:.3f} to {high:.3f}) by the attacks tried, and "
                f"{self.raw.allowed:.3f} is allowed{proof}."
            )
        if self.proposed is not None:
            row = self.trials[0]
            figures = f"{row.label}: {self._figures(row)} (estimates)"
            return f"Release with row {self.proposed}, {figures}.{self._doubt()}"
        ways = "; ".join(self.out) or "neither a column less nor twice the epsilon does"
        return f"No setting keeps both the guarantee and the rows: {ways}."

    def _doubt(self) -> str:
        """Return a warning where the estimate lies above what is allowed, and the interval not."""
        row = self.trials[0]
        if row.ends[0] <= row.allowed:
            return ""
        rows = enumerate(self.trials)
        below = [k for k, r in rows if self._useful(r) and r.ends[0] <= r.allowed]
        advice = f", or take row {below[0]}, which stays below" if below else ""
        return (
            " That estimate lies above what is allowed, but by no more than chance makes of so "
            f"many attacks: hold out more rows{advice}."
        )

    def _useful(self, row: Row) -> bool:
        return row.verdict == "holds" and row.change <= self.bare.change

    def recommended(self) -> list[tuple[int, str]]:
        """Return the row to look at first, and what was measured of it.

        Returns
        -------
        list of (int, str)
            Empty where no setting is kept.
        """
        return [] if self.proposed is None else [(self.proposed, self.why(self.proposed))]

    def curve(self, k: int = 0, epsilons: Sequence[float] = EPSILONS) -> Any:
        """Return change, attack and task of a row at other budgets, on the rows held out.

        Parameters
        ----------
        k : int, default=0
            The number of the row.
        epsilons : sequence of float
            By default from .1 to 4, each of which is fitted anew.

        Returns
        -------
        DataFrame
            With ``epsilon``, ``change``, ``equal``, ``rows_equal``, ``attack``, ``low``, ``high``,
            ``allowed``, ``task`` and the proven ``loss``; `UtilityDisplay` draws it.

        Raises
        ------
        ValueError
            If the plan holds no rows, as one that was read from JSON, or the row was not measured.
        """
        row = self._row(k)
        if row.noiser is None or self.measurer is None:
            raise ValueError(f"row {k} was not measured, so there is no curve; take another.")
        records = [self._at(row, float(e)) for e in counted(list(epsilons), "budgets")]
        head = ("epsilon", "change", "equal", "rows_equal", "attack", "low", "high", "allowed")
        return records_frame(records, (*head, "task", "loss"))

    def _at(self, row: Row, epsilon: float) -> tuple[Any, ...]:
        candidate, measurer = row.candidate, self.measurer
        assert candidate is not None
        guarantee = Budget(epsilon, row.noiser.delta, row.noiser.alpha)
        measurer = replace(measurer, allowed=guarantee.auc())
        result = measurer.tried(replace(candidate, epsilon=epsilon))
        figures = (result.change, result.equal, result.rows_equal, *result.ends)
        return (epsilon, *figures, guarantee.auc(), result.task, result.loss)

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
            "kind": "sklearn_puffer.plan/2",
            "internal": INTERNAL,
            "chosen": CHOSEN,
            "advice": self.advice(),
            "sensitive": [_plain(name) for name in self.sensitive],
            "task": _plain(self.task),
            **{key: _plain(getattr(self, key)) for key in (*keys, *counts)},
            "days": [_plain(name) for name in self.days],
            "columns": [
                {key: _plain(value) for key, value in asdict(fact).items()} for fact in self.facts
            ],
            "raw": self._written(self.raw),
            "constants": self._written(self.bare),
            "settings": [{"row": k, **self._written(row)} for k, row in enumerate(self.trials)],
            "notes": list(self.notes),
        }

    def _written(self, row: Row) -> dict[str, Any]:
        record = dict(zip(_TABLE, map(_plain, self._record(row)), strict=True))
        params = {} if row.candidate is None else row.candidate.params
        return {**record, "params": {key: on_one_line(repr(v)) for key, v in params.items()}}

    def _page(self) -> Page:
        return Page(self._headline(), self._lines(), self._sections())

    def _headline(self) -> str:
        about = f" of {shown(self.name)}" if self.name else ""
        names = ", ".join(shown(name) for name in self.sensitive)
        return f"Plan for a release{about} that protects {names} at epsilon {self.epsilon:g}."

    def _lines(self) -> list[str]:
        rows = (
            f"Settings were fitted to {self.n_fitted:,} rows and measured on {self.n_held:,} "
            f"others, split by seed {self.seed}."
        )
        return [self.advice(), rows, ESTIMATES, INTERNAL, CHOSEN]

    def _sections(self) -> list[Section]:
        struck = [
            f"row {k}, {row.label}: {row.verdict}, {row.reason.rstrip('.')}."
            for k, row in enumerate(self.trials)
            if row.verdict != "holds"
        ]
        way = "plan.noiser(k) is the noiser of row k as it was measured; plan.curve() has budgets."
        return [
            self._table_section(),
            *([Section("Not proposed", sentences=struck)] if struck else []),
            Section("What else to know", sentences=[*self.notes, way]),
            _columns_section(self.facts),
        ]

    def _table_section(self) -> Section:
        task = f"; {self.score} for {shown(self.task)}" if self.task is not None else ""
        base = f", base rate {self.base:.2f}" if task and self.score == "AUC" else ""
        note = (
            "change in standard deviations; equal values and rows; attack: AUC of the best one "
            f"found with its 95 % interval, beside the one allowed{task}{base}; kept: unchanged "
            "rows of the secret that pays most; unique rows, and the smallest group of equal rows "
            "(k)"
        )
        head = ["row", "setting", "change", "values", "rows", "attack", "allowed", "kept"]
        head += ["unique", "k", "for whom", "seconds"]
        if task:
            head.insert(7, "task")
        named = [("", self.raw), ("", self.bare)]
        named += [(str(k), row) for k, row in enumerate(self.trials) if math.isfinite(row.change)]
        return Section("Settings", note, [head, *(self._cells(*each) for each in named)])

    def _cells(self, k: str, row: Row) -> list[str]:
        auc, low, high = row.ends
        cells = [
            k + " (no)" * (row.verdict != "holds"),
            row.label,
            f"{row.change:.3f}",
            f"{row.equal:.0%}",
            f"{row.rows_equal:.0%}",
            f"{auc:.3f} ({low:.3f} to {high:.3f})",
            f"{row.allowed:.3f}",
            f"{row.payer[2]:.0%} ({shown(row.payer[1])})",
            f"{row.groups[0]:.0%}",
            str(row.groups[1]),
            row.promise,
            f"{row.seconds:.1f}",
        ]
        if self.task is not None:
            cells.insert(7, f"{row.task:.3f}")
        return cells


def ranked(rows: Sequence[Row], bare: Row, width: float) -> list[Row]:
    """Return rows by rank: those kept that change less than constants, by the task, by change.

    Scores that differ from the best by less than ``width`` are alike: there change decides.
    """
    useful = [row for row in rows if row.verdict == "holds" and row.change <= bare.change]
    best = max((row.task for row in useful), default=math.nan)

    def order(row: Row) -> tuple[Any, ...]:
        change = math.inf if math.isnan(row.change) else row.change
        behind = 0.0 if not row.task < best - width else best - row.task
        return row not in useful, VERDICTS.index(row.verdict), behind, change, row.label

    return sorted(rows, key=order)


def _columns_section(facts: Sequence[ColumnFacts]) -> Section:
    listed_facts = [fact for fact in facts if fact.use != "not asked for"]
    note = "constant: what one in its place would change, in standard deviations"
    if len(listed_facts) < len(facts):
        note += f"; {len(facts) - len(listed_facts)} more columns are not released"
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
        for fact in listed_facts
    ]
    return Section("Columns", note, [head, *cells])


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: infinity is a word, and what is not known None."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else "infinity"
    return value if isinstance(value, str | int | bool) or value is None else str(value)
