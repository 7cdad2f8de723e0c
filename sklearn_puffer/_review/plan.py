"""A plan: candidates, what was measured of each on rows that nobody fitted, and what to do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn_puffer._base import check_count, check_positive, counted
from sklearn_puffer._documents import Document, Page, Section, __version__, jsonable, utc_now
from sklearn_puffer._review.exact_tests import Budget
from sklearn_puffer._review.readers import in_memory
from sklearn_puffer._tables import Name, records_frame
from sklearn_puffer._words import listed, on_one_line, quoted, shown

INTERNAL = (
    "This plan is computed from the raw rows, sensitive columns included, without noise: keep it "
    "where you keep the table, and do not release it. What a choice by it tells no certificate "
    "covers: plan on other rows of the same kind where that matters."
)
ESTIMATES = (
    "Change, task and attack are estimates; an attack is a mean over rows, which proves nothing "
    "of any single one, and other attacks may find more. What is proven is how far odds move at "
    "most, for the reader named in each certificate."
)
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
UNOWNED = (
    "A swap was not tried, as nothing says whose row is whose. It keeps rows exact and hides whose "
    "each is, not what it says. Where readers know people by a number alone, name it in ids=, or "
    'shuffle the rows and number them: table.insert(0, "id", range(len(table))), ids="id".'
)
NEARLY = 0.9  # share of what constants change, from which on the advice says so
VERDICTS = ("holds", "struck out", "does not hold", "refused")
_ESTIMATED = ["change", "rows_equal", "attack", "low", "high", "task"]
_TABLE = ["setting", "promise", "verdict", *_ESTIMATED, "loss", "reason"]


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is, and what the plan does with it.

    Attributes
    ----------
    name : str or int
    use : {"sensitive", "release", "stays with people", "leave out", "not asked for"}
    kind : str
        In words: "number", "whole number", "yes or no", "order", "category", "date",
        "identifier" (whole numbers), "text", "nothing" or "unreadable".
    distinct, missing : int
        How many different values it has, and in how many rows it has none.
    remark : str
        What there is to say of it, such as why it is left out.
    """

    name: Name
    use: str
    kind: str
    distinct: int = 0
    missing: int = 0
    remark: str = ""


@dataclass(frozen=True)
class Candidate:
    """One way to release rows, and what was measured of it.

    Attributes
    ----------
    setting, promise : str
        What it is, in words, and for whom its guarantee holds.
    kind : type or None
        The class of the estimator; None of the rows as they are, and of constants.
    params : mapping
        Of the estimator.
    label_column : str, int or None
        The column that is given as y.
    verdict : {"holds", "struck out", "does not hold", "refused", ""}
        Empty where there is no estimator.
    reason : str
        Why it is not proposed.
    change, rows_equal : float
        Mean change in standard deviations, and the share of rows that are equal.
    attacker : str
        The best attack that was found on rows that nobody fitted.
    attack, low, high : float
        Its area under the ROC curve, an estimate, with the 95 % interval (DeLong's); NaN where
        rows are too few.
    least : float
        The largest lower end over all attackers and pairs, at a level that is corrected for their
        number (Bonferroni's).
    task : float
        Score on true rows; NaN without a task.
    loss : float
        As the certificate has it: proven, of the fitted rows.
    estimator : PufferfishNoiser, PufferfishMicroaggregator or PufferfishSwap
        Fitted.
    """

    setting: str
    promise: str = ""
    kind: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    label_column: Name | None = None
    verdict: str = "holds"
    reason: str = ""
    change: float = math.nan
    rows_equal: float = math.nan
    attacker: str = ""
    attack: float = math.nan
    low: float = math.nan
    high: float = math.nan
    least: float = math.nan
    task: float = math.nan
    loss: float = math.nan
    estimator: Any = field(default=None, compare=False, repr=False)

    def at(self, **changed: Any) -> Candidate:
        """Return the same with other parameters, of which nothing was measured."""
        params = {**self.params, **changed}
        return Candidate(self.setting, self.promise, self.kind, params, self.label_column)

    def fit(self, rows: Any) -> Any:
        """Return the fitted estimator."""
        y = None if self.label_column is None else rows[self.label_column]
        return self.kind(**self.params).fit(rows, y)

    @property
    def allowed(self) -> float:
        """The AUC that the guarantee leaves a reader of any two secrets.

        NaN where it leaves more of some pairs, or known columns tell by themselves.
        """
        params, more = self.params, ("known", "metric", "secret_groups")
        pairs = params.get("secret_pairs", "all")
        if pairs != "all" or any(params.get(name) is not None for name in more):
            return math.nan
        return Budget.of(params["epsilon"], params.get("delta", 0.0), params.get("alpha")).auc()

    @property
    def attack_found(self) -> str:
        """The best attack with its interval, in words; empty where there is none."""
        found = f"{self.attack:.3f} ({self.low:.3f} to {self.high:.3f})"
        return "" if math.isnan(self.attack) else found

    @property
    def standing(self) -> str:
        """For whom it is proven, or why it is not proposed."""
        if self.verdict == "holds":
            return f"a reader {self.promise}"
        return f"{self.verdict}, {self.reason.rstrip('.')}"

    def judged(self, *, holds: bool) -> Candidate:
        """Return it with its verdict, and the reason where it is not to be proposed."""
        if not holds:
            return replace(self, verdict="does not hold", reason="its certificate does not hold")
        allowed = self.allowed
        if not self.least > allowed:
            return self
        reason = (
            f"on rows that were not fitted the attack {shown(self.attacker)} reaches AUC "
            f"{self.attack:.3f}, for certain more than {self.least:.3f} (95 %, corrected for all "
            f"attacks), where such a guarantee leaves {allowed:.3f}"
        )
        return replace(self, verdict="struck out", reason=reason)

    def is_useful(self, bare: Candidate, share: float = 1.0) -> bool:
        """Return whether it is kept, and changes less than constants do, or a share of that."""
        return self.verdict == "holds" and self.change < share * bare.change

    def to_dict(self) -> dict[str, Any]:
        """Return the row of a plan's table, and the estimator with its parameters, for JSON."""
        [record] = records([self], _TABLE)
        named = {} if self.kind is None else {"estimator": self.kind.__name__}
        params = {key: on_one_line(repr(value)) for key, value in self.params.items()}
        return {**record, **named, "params": params}


def flat(units: Sequence[Any]) -> list[Name]:
    """Return the columns of combinations of columns."""
    parts = [unit if isinstance(unit, tuple) else (unit,) for unit in units]
    return list(dict.fromkeys(name for part in parts for name in part))


def ranked(rows: Sequence[Candidate], bare: Candidate, width: float) -> list[Candidate]:
    """Return rows by rank: those kept that change less than constants, by the task, by change.

    Scores that differ from the best by less than ``width`` are alike: there change decides.
    """
    best = max((row.task for row in rows if row.is_useful(bare)), default=math.nan)

    def order(row: Candidate) -> tuple[Any, ...]:
        change = math.inf if math.isnan(row.change) else row.change
        behind = 0.0 if not row.task < best - width else best - row.task
        return not row.is_useful(bare), VERDICTS.index(row.verdict), behind, change, row.setting

    return sorted(rows, key=order)


@dataclass(frozen=True)
class Plan(Document):
    """What `plan` measured, before anything is released.

    Parameters
    ----------
    sensitive : tuple of names
        The columns that are protected.
    facts : tuple of ColumnFacts
        What each column is.
    raw, bare : Candidate
        The rows as they are, and constants in their place.
    trials : tuple of Candidate
        What was measured of each setting, as ``table`` ranks them.
    notes : tuple of str
        What there is to know of columns, secrets and rows.
    epsilon : float
        The budget of every setting.
    task : str, int or None
        The column that is told from the released ones.
    score : {"AUC", "R2"}
        What measures the task.
    within : float
        Scores that differ by less are alike, and change ranks these settings.
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
    raw: Candidate
    bare: Candidate
    trials: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()
    epsilon: float = 1.0
    task: Name | None = None
    score: str = "AUC"
    within: float = 0.0
    n_rows: int = 0
    n_fitted: int = 0
    n_held: int = 0
    seed: int = 0
    measurer: Any = field(default=None, compare=False, repr=False)
    version: str = __version__
    date: str = field(default_factory=utc_now, compare=False)
    name: str = field(default="", compare=False)

    @property
    def columns(self) -> Any:
        """What each column is: a DataFrame, by name.

        ``use`` says what the plan does with it, and ``kind`` what it holds.
        """
        frame = framed(self.facts, list(ColumnFacts.__dataclass_fields__))
        return frame.set_index("name").rename_axis(None)

    @property
    def table(self) -> Any:
        """The settings as a DataFrame, numbered by rank, below the rows as they are and constants.

        ``promise`` says for whom the guarantee holds, ``loss`` what is proven. ``attack`` is the
        AUC of the best attack found, ``low`` and ``high`` its 95 % interval: estimates, and means
        over rows. The two rows above have the index "".
        """
        frame = framed((self.raw, self.bare, *self.trials), _TABLE)
        frame.index = ["", "", *range(len(self.trials))]
        return frame

    def estimator(self, k: int | None, *, refit: Any = None) -> Any:
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
            If it was refused, or k is None, as ``proposed`` is where no setting is.
        """
        row = self._row(k)
        if row.estimator is None:
            raise ValueError(f"row {k} was {row.standing}; take another.")
        if refit is None:
            return row.estimator
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fitted = row.fit(in_memory(refit, "a plan"))
        for message, kind in [(each.message, each.category) for each in told]:
            warnings.warn(message, kind, stacklevel=2)  # about the line that asked for the fit
        return fitted

    noiser = estimator  # as it was called before there were three

    def _row(self, k: int | None) -> Candidate:
        if k is None:
            raise ValueError(
                "k is None: this plan proposes no setting; see its advice(), and choose a row of "
                "its .table yourself, such as k=0."
            )
        if check_count(k, "k", minimum=0) >= len(self.trials):
            raise IndexError(
                f"k={quoted(k)} is no row of this plan, which has {len(self.trials)}; look at "
                "its .table."
            )
        return self.trials[int(k)]

    @property
    def proposed(self) -> int | None:
        """The row to release with; None where none is kept, or constants change less."""
        return 0 if self.trials and self.trials[0].is_useful(self.bare) else None

    def advice(self) -> str:
        """Return what to do, in a few sentences.

        Returns
        -------
        str
            Which row to release with and for which reader that is proven, or what to give up.
        """
        if all(row.estimator is None for row in self.trials):
            reasons = [f"{row.setting} {row.standing}" for row in self.trials]
            return f"No setting could be measured: {'; '.join(reasons) or 'there is none'}."
        more = (
            "Fewer columns may keep more, which was not measured: plan for fewer, or try other "
            "budgets."
        )
        if all(row.setting != "swap" for row in self.trials):
            more += f" {UNOWNED}"
        if self.proposed is None:
            return (
                "No setting keeps both the guarantee and the rows, as nothing but constants would "
                f"change less ({self.bare.change:.3g} standard deviations). {more}"
            )
        row = self.trials[0]
        task = f", {self.score} {row.task:.3f} for {shown(self.task)}"
        task = "" if math.isnan(row.task) else task
        attack = f", and the best attack found reaches AUC {row.attack_found}"
        said = [
            f"Release with row 0, {row.setting}{self._dropped_ids()}, which is proven for "
            f"{row.standing}: a value changes by {row.change:.3g} standard deviations (a constant "
            f"in its place: {self.bare.change:.3g}), {row.rows_equal:.0%} of the rows stay as they "
            f"are{task}{attack if row.attack_found else ''} (estimates)."
        ]
        if task and len(self.trials) > 1:
            said.append(
                f"Rows whose {self.score} is within {self.within:.2g} of the best, as chance has "
                "it on the rows that were measured, are alike: there the least change decides."
            )
        if not row.is_useful(self.bare, NEARLY):
            said.append(f"That is nearly what constants change. {more}")
        said.append("Whether its releases keep the guarantee was not tested: an audit does that.")
        return " ".join(said)

    def _dropped_ids(self) -> str:
        """Return which ids row 0 does not release, and the row that does; empty where it does."""
        for k, row in enumerate(self.trials[1:], 1):
            if "ids" in row.params:  # the swap
                kept = f" (row {k}, {row.setting}, releases the whole table with them)"
                return f", without {listed(row.params['ids'])}{kept * row.is_useful(self.bare)}"
        return ""

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
            ``high``, ``task`` and the proven ``loss``; estimates have three decimals.

        Raises
        ------
        ValueError
            If the row was not measured, or its estimator has no typical rows.
        """
        row, has = self._row(k), self.estimator(k).get_params()
        name, argument, values = "epsilon", "epsilons", epsilons
        check: Any = check_positive if n_prototypes is None else check_count
        if n_prototypes is not None:
            name, argument, values = "n_prototypes", "n_prototypes", n_prototypes
        if name not in has:
            raise ValueError(f"row {k}, {row.setting}, has no {name}; take typical rows.")
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TypeError(f"{argument} must be a list, got {quoted(values)}; give one: [1, 2].")
        values = [check(each, argument) for each in values]
        found = [self.measurer.tried(row.at(**{name: each})) for each in counted(values, "fits")]
        # three decimals, so that it is printed on lines of 80
        frame = framed(found, [*_ESTIMATED, "loss"]).round(dict.fromkeys(_ESTIMATED, 3))
        frame.insert(0, name, values)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON.

        Returns
        -------
        dict
            With the advice, the columns, the settings by rank, and how the rows were split;
            figures that are not known are None.
        """
        keys = ["sensitive", "notes", "task", "name", "version", "date", "epsilon", "score", "seed"]
        [own] = records([self], [*keys, "n_rows", "n_fitted", "n_held"])
        return {
            "kind": "sklearn_puffer.plan/7",
            "internal": INTERNAL,
            "advice": self.advice(),
            **own,
            "columns": records(self.facts),
            "raw": self.raw.to_dict(),
            "constants": self.bare.to_dict(),
            "settings": [{"row": k, **row.to_dict()} for k, row in enumerate(self.trials)],
        }

    def _page(self) -> Page:
        about = f" of {shown(self.name)}" if self.name else ""
        names = ", ".join(shown(name) for name in self.sensitive)
        title = f"Plan for a release{about} that protects {names} at epsilon {self.epsilon:g}."
        how = f"fitted to {self.n_fitted:,} rows and measured on {self.n_held:,} others"
        if folds := len(self.measurer.folds):
            how = f"measured on all {self.n_held:,} rows in {folds} parts, each by a fit of others"
        split = f"Settings were {how}, split by seed {self.seed}."
        if found := self.raw.attack_found:
            split += f" Of the rows as they are, the best attack found reaches AUC {found}."
        told = [f"row {k}, {row.setting}: {row.standing}." for k, row in enumerate(self.trials)]
        sections = [
            self._settings(),
            Section("For whom each guarantee holds", sentences=told),
            *([Section("What else to know", sentences=self.notes)] if self.notes else []),
        ]
        return Page(title, [self.advice(), split, ESTIMATES, INTERNAL], sections)

    def _settings(self) -> Section:
        """Return the table of what was measured."""
        task = "none, name a column as task"
        if self.task is not None:
            task = f"{self.score} for {shown(self.task)}"
        note = (
            f"change in standard deviations; rows that stay equal; task: {task}; attack: AUC of "
            "the best one found with its 95 % interval; loss: how far log odds move at most, proven"
        )
        cells = [["row", "way", "change", "rows", "task", "attack", "loss"]]
        of = [(str(k), row) for k, row in enumerate(self.trials) if math.isfinite(row.change)]
        for k, row in [("", self.raw), ("", self.bare), *of]:
            told = [row.setting, f"{row.change:.3f}", f"{row.rows_equal:.0%}"]
            told += [_figure(row.task, ".3f"), row.attack_found, _figure(row.loss, ".3g")]
            cells.append([k + " (no)" * (row.verdict in VERDICTS[1:]), *told])
        return Section("Settings", note, cells)


def _figure(value: float, form: str) -> str:
    if 0.0 < value < 1e-13:  # rounding errors, or as good as nothing
        return "below 1e-13"
    return "" if math.isnan(value) else format(value, form)


def framed(figures: Iterable[Any], names: Sequence[str]) -> Any:
    """Return fields of dataclasses as a DataFrame."""
    return records_frame([tuple(getattr(each, name) for name in names) for each in figures], names)


def records(figures: Iterable[Any], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return fields of dataclasses for JSON, all of them if none are named."""
    return [{key: plain(getattr(each, key)) for key in names or vars(each)} for each in figures]


def plain(value: Any) -> Any:
    """Return a value for JSON: None where a number has no meaning."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return "-infinity" if value == -math.inf else jsonable(value)
