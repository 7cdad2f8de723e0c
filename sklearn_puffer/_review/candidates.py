"""`plan`: settings of the three estimators, tried on rows that nobody fitted."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from time import monotonic
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import shuffle

from sklearn_puffer._base import (
    Array,
    __version__,
    check_count,
    check_positive,
    check_same_index,
    check_verbose,
    counted,
    listed,
    listening,
    meant,
    on_one_line,
    quoted,
    shown,
    utc_now,
)
from sklearn_puffer._microaggregator import PufferfishMicroaggregator
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._review import measured
from sklearn_puffer._review.attack import Groups, attackers_of, boosted, seen
from sklearn_puffer._review.exact_tests import Budget
from sklearn_puffer._review.measured import (
    Attacked,
    Secrets,
    Task,
    known_rows,
    secrets_of,
    task_of,
)
from sklearn_puffer._review.plan import ColumnFacts, Plan, Row, is_useful, ranked
from sklearn_puffer._swap import PufferfishSwap
from sklearn_puffer._tables import (
    Name,
    Table,
    Values,
    bins_of,
    check_few,
    date_columns,
    edges_of,
    first_values,
    frame_table,
    hardly_repeats,
    has_row_labels,
    identifier_kind,
    present,
    public_columns,
    resolve,
)
from sklearn_puffer.accounting import MAX_CELLS

BINS = 5
_FEW = 200  # values of a number, up to which noise is tried without bins
_OF_THE_PLAN = {"epsilon", "sensitive", "public", "ids", "known", "groups", "max_group"}
_OF_A_CALL = {"verbose", "random_state", "on_uncertified", "remainder"}
_PRIORS = {"noise", "prior", "strategy", "dependence"}  # that bins and cells may not concern

TYPICAL = "who knows the fitted table with its secrets, and sees one released row"
EXCHANGED = "who holds the list of all rows with their secrets, and sees the whole released table"
NOISY = "who knows the prior, and sees one released row"
NOISY_GROUP = "who knows the prior, and sees all released rows of a group"


@dataclass(frozen=True)
class Candidate:
    """One setting of an estimator that is measured.

    Attributes
    ----------
    label : str
        What it is, in words.
    promise : str
        For whom the guarantee holds.
    kind : type
        The class of the estimator.
    params : mapping
    label_column : str, int or None
        The column that is given as y.
    """

    label: str
    promise: str
    kind: Any
    params: Mapping[str, Any] = field(default_factory=dict)
    label_column: Name | None = None

    def at(self, **changed: Any) -> Candidate:
        """Return the same with other parameters."""
        return replace(self, params={**self.params, **changed})

    def fit(self, rows: Any) -> Any:
        """Return the fitted estimator."""
        y = None if self.label_column is None else rows[self.label_column]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.kind(**self.params).fit(rows, y)

    @property
    def exchanges(self) -> bool:
        """Whether rows of one table are exchanged, so that nothing is learnt on others."""
        return self.kind is PufferfishSwap

    @property
    def allowed(self) -> float:
        """The AUC that the guarantee leaves a reader; NaN where columns tell by themselves."""
        if self.params.get("known") is not None or self.params.get("secret_pairs", "all") != "all":
            return math.nan
        delta, alpha = self.params.get("delta", 0.0), self.params.get("alpha")
        return Budget(self.params["epsilon"], delta, alpha).auc()


@dataclass(frozen=True)
class Wanted:
    """What all candidates are asked for.

    Attributes
    ----------
    params : mapping
        Parameters, by name: each estimator takes those that it has.
    columns : sequence of ColumnFacts
        The released ones, and those that are known.
    gaps : bool
        Whether secrets are missing.
    owned : bool
        Whether ids, groups, an index or known columns say whose row is whose.
    task : str, int or None
    """

    params: Mapping[str, Any]
    columns: Sequence[ColumnFacts]
    gaps: bool = False
    owned: bool = False
    task: Name | None = None

    def candidates(self) -> list[Candidate]:
        """Return the settings to try; what the caller fixed is not varied."""
        swap = [self._of("swap", EXCHANGED, PufferfishSwap)] if self.owned else []
        if "max_group" in self.params:
            return [*swap, *self._noise()]
        return [*self._typical(), *swap, *self._noise()]

    def _typical(self) -> list[Candidate]:
        if not self._takes_known(PufferfishMicroaggregator):
            return []
        rows = self._of("typical rows", TYPICAL, PufferfishMicroaggregator)
        if self.task is None or self.params.get("label_weight") == 0:
            return [rows]
        label = f"typical rows, parted for {shown(self.task)}"
        return [rows, replace(rows, label=label, label_column=self.task)]

    def _takes_known(self, kind: Any) -> bool:
        return "known" not in self.params or "known" in inspect.signature(kind).parameters

    def _noise(self) -> list[Candidate]:
        noise = self.params.get("noise", "laplace")
        name = noise if isinstance(noise, str) else type(noise).__name__
        label = f"{name.capitalize()} noise"
        reader = NOISY_GROUP if "max_group" in self.params else NOISY
        if "n_bins" in self.params:
            return [self._of(f"{label}, n_bins={quoted(self.params['n_bins'])}", reader)]
        tried = []
        few = all(each.distinct <= _FEW for each in self.columns)
        free = bool(_PRIORS & set(self.params))
        if free or self._cells(BINS) <= MAX_CELLS:
            tried.append(self._of(f"{label}, {BINS} bins", reader).at(n_bins=BINS))
        if free or (few and self._cells(None) <= MAX_CELLS):
            tried.append(self._of(label, reader))
        return tried

    def _cells(self, bins: int | None) -> float:
        """Return how many combinations of values there may be, with numbers in so many bins."""
        return math.prod(
            float(min(each.distinct, bins) if bins and each.numeric else max(each.distinct, 1))
            for each in self.columns
        )

    def _of(self, label: str, promise: str, kind: Any = PufferfishNoiser) -> Candidate:
        """Return a candidate with the parameters that its estimator has."""
        asked = {**self._defaults(kind), **self.params}
        if kind is PufferfishSwap and asked.get("max_group") == "count":
            asked["max_group"] = None  # the largest of the table
        if kind is PufferfishSwap and isinstance(asked.get("sensitive"), list):
            asked["sensitive"] = _flat(asked["sensitive"])  # it protects their combinations
        if kind is PufferfishNoiser and asked.get("known") is not None:
            asked["public"] = [*asked["public"], *asked["known"]]
            asked["known"] = tuple(asked["known"])  # which are known together
        has = inspect.signature(kind).parameters
        return Candidate(label, promise, kind, {k: v for k, v in asked.items() if k in has})

    def _defaults(self, kind: Any) -> dict[str, Any]:
        if kind is PufferfishSwap:
            return {"missing": "category" if self.gaps else "error"}
        if kind is not PufferfishNoiser:
            return {}
        gaps = [each for each in self.columns if each.missing]
        missing = "category" if gaps or self.gaps else "error"
        if any(each.numeric for each in gaps):
            missing = "propagate"  # numbers have no other place for them
        return {"missing": missing, "unknown": "nearest"}


def _flat(units: Sequence[Any]) -> list[Name]:
    """Return the columns of which combinations consist."""
    parts = [unit if isinstance(unit, tuple) else (unit,) for unit in units]
    return list(dict.fromkeys(name for part in parts for name in part))


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of some estimator that hold for all candidates, after a check of names."""
    kinds = (PufferfishMicroaggregator, PufferfishSwap, PufferfishNoiser)
    has = {name for kind in kinds for name in inspect.signature(kind).parameters}
    known = sorted(has - _OF_THE_PLAN - _OF_A_CALL)
    for name in settings:
        if name not in known:
            raise TypeError(
                f"plan has no setting {quoted(name)}{meant(name, known)}; those that can be fixed "
                f"are {listed(known, len(known))}."
            )
    return dict(settings)


@dataclass(frozen=True)
class Asked:
    """What a caller says of columns.

    Attributes
    ----------
    roles : mapping
        The use of columns that are not released: sensitive ones, those that stay with people.
    public : collection of names or None
        The columns to release, proposed whatever they look like; None for all that suit.
    dates : collection of names
        Columns of dates, times and durations.
    orders : mapping
        The declared values of some columns, as in ``categories=``.
    """

    roles: Mapping[Name, str]
    public: Collection[Name] | None = None
    dates: Collection[Name] = ()
    orders: Mapping[Any, Any] = field(default_factory=dict)

    def fact(self, table: Table, name: Name) -> ColumnFacts:
        """Return what a column is."""
        role = self.roles.get(name)
        try:
            fact = self._read(name, first_values(table, name))
        except (TypeError, ValueError) as error:
            return ColumnFacts(name, role or "leave out", "unreadable", remark=str(error))
        if role:
            return replace(fact, use=role, remark="")
        if self.public is not None and name not in self.public:
            return ColumnFacts(name, "not asked for", fact.kind)
        return fact

    def _read(self, name: Name, values: Values) -> ColumnFacts:
        """Return what a column is and whether it suits; text that identifies people never does."""
        kind, remark, suits = _judged(values, ordered=name in self.orders)
        if name in self.dates:
            kind, remark, suits = "date", _DATES, False
        named = self.public is not None and name in self.public
        suits = suits or (named and kind not in ("nothing", "unreadable", "text"))
        counts = {"distinct": len(np.unique(present(values))), "missing": values.n_missing}
        return ColumnFacts(name, "release" if suits else "leave out", kind, **counts, remark=remark)


_DATES = "name it in public= if dates are to be released"
_KINDS = {"boolean": "yes or no", "integer": "whole number", "float": "number"}


def _kind(values: Values, *, ordered: bool) -> str:
    if ordered or values.ordered:
        return "order"
    return _KINDS.get(values.kind, "category")


def _judged(values: Values, *, ordered: bool) -> tuple[str, str, bool]:
    """Return what a column is, what there is to say of it, and whether it suits a release."""
    data = present(values)
    if not len(data):
        return "nothing", "every value is missing", False
    if values.kind == "float" and not np.isfinite(data).all():
        return "unreadable", "it contains infinity; drop or replace such values", False
    kind, n = _kind(values, ordered=ordered), len(np.unique(data))
    what = identifier_kind(values)
    if what == "date":
        return "date", _DATES, False
    if what == "text" or (what and not ordered):
        remark = f"{n} different values in {len(data)} rows look like an identifier"
        if what == "text":
            return "text", remark, False
        return "identifier", f"{remark}; name it in public= if it is to be released", False
    if n == 1 and values.missing is None:
        return "constant", "it has one value only, and tells nothing", True
    few = kind not in ("number", "whole number") or not hardly_repeats(n, len(values))
    return kind, "" if few else "hardly repeats: noise needs bins", True


@dataclass(frozen=True)
class Named:
    """Which columns a plan protects, releases and leaves where they are.

    Attributes
    ----------
    facts : tuple of ColumnFacts
    public, ids, known, grouping : list of names
    task : str, int or None
    """

    facts: tuple[ColumnFacts, ...]
    public: list[Name]
    ids: list[Name]
    known: list[Name]
    grouping: list[Name]
    task: Name | None

    @classmethod
    def of(
        cls,
        frame: Any,
        hidden: Sequence[Name],
        asked: Mapping[str, Any],
        orders: Mapping[Any, Any],
    ) -> Named:
        """Return the columns of a table, by what a caller asks: public, task, ids, known, groups.

        Raises
        ------
        ValueError
            If a column has two roles, or none is left to release.
        """
        table = frame_table(frame)
        names = {
            role: [] if asked[role] is None else resolve(asked[role], table.names, role)
            for role in ("ids", "known", "task", "groups")
        }
        roles: dict[Name, tuple[str, str]] = dict.fromkeys(hidden, ("sensitive", "sensitive"))
        uses = {"ids": _STAYS, "known": _STAYS, "task": "not asked for", "groups": "not asked for"}
        public = public_columns(asked["public"], table.names, hidden)
        named = None if asked["public"] is None else public
        for role, columns in [*names.items(), ("public", named or [])]:
            for name in columns:
                if role == "task" and roles.get(name, ("",))[0] == "known":
                    continue  # a label that readers know
                if name in roles:
                    raise ValueError(_twice(role, name, roles[name][0]))
                if role != "public":
                    roles[name] = role, uses[role]
        dates = date_columns(frame)
        own = Asked({name: use for name, (_, use) in roles.items()}, named, dates, orders)
        facts = tuple(own.fact(table, name) for name in table.names)
        released = [fact.name for fact in facts if fact.use == "release"]
        if not released:
            raise ValueError(
                "no column is proposed for the release: each is sensitive, a task, stays with "
                "people, or looks like an identifier or a date; name those to release in public=."
            )
        task = names["task"][0] if names["task"] else None
        return cls(facts, released, names["ids"], names["known"], names["groups"], task)

    def read(self) -> list[ColumnFacts]:
        """Return the columns that a release shows, but for ids."""
        shown_names = {*self.public, *self.known}
        return [fact for fact in self.facts if fact.name in shown_names]


_STAYS = "stays with people"


def _twice(role: str, name: Name, other: str) -> str:
    if role == "public" and other == "task":
        role, other = other, "released"
    if role == "task":
        return (
            f"task={quoted(name)} is also {other}, so that its score would say nothing of the "
            f"other columns; name another column, or take it out of the {other} ones."
        )
    return f"column {quoted(name)} is named in {other}= and in {role}=; name it in one."


SMALL = 1_000  # rows, below which all of them are measured, a fold at a time
FOLDS = 5
_MEASURED = 8_000
_SHARE = 0.4  # of a larger table
_RARE = 400  # rows of a rare secret that are measured
_REFUSALS = (TypeError, ValueError, ArithmeticError, RuntimeError, ModuleNotFoundError)


# ---------------------------------------------------------------------------------- which rows


@dataclass(frozen=True, eq=False)
class Parts:
    """Which rows are fitted and which are measured.

    Attributes
    ----------
    fitted, held : DataFrame
        The same rows where there are folds.
    fitted_groups, held_groups : ndarray or None
        The group of each row.
    folds : list of ndarray
        Rows of ``held`` that are released by a fit of the others; none with a hold-out.
    """

    fitted: Any
    held: Any
    fitted_groups: Array | None = None
    held_groups: Array | None = None
    folds: Sequence[Array] = ()

    @classmethod
    def of(cls, frame: Any, holdout: Any, groups: Array | None, seed: int) -> Parts:
        """Return the parts of a table: folds of a small one, a share of a large one.

        Rows of a group lie in one part. ``holdout`` is "auto" or a share.
        """
        units = _groups_of(len(frame), groups)
        order = shuffle(np.arange(len(units)), random_state=seed)
        if isinstance(holdout, str) and len(frame) < SMALL:
            folds = [units.rows(part) for part in np.array_split(order, FOLDS)]
            return cls(frame, frame, groups, groups, folds)
        share = _SHARE if isinstance(holdout, str) else float(holdout)
        out = np.zeros(len(frame), dtype=bool)
        out[units.rows(order[: round(share * len(units))])] = True
        if groups is None:
            return cls(frame[~out], frame[out])
        return cls(frame[~out], frame[out], groups[~out], groups[out])

    def fitting(self, max_rows: int | None, seed: int) -> Parts:
        """Return the same with at most so many rows to fit, of groups all or none."""
        if max_rows is None or len(self.fitted) <= max_rows or self.folds:
            return self
        units = _groups_of(len(self.fitted), self.fitted_groups)
        order = shuffle(np.arange(len(units)), random_state=seed)
        few = int((np.cumsum(units.wide.sizes[order]) <= max_rows).sum())
        rows = units.rows(order[: max(few, 1)])
        codes = None if self.fitted_groups is None else self.fitted_groups[rows]
        return replace(self, fitted=self.fitted.iloc[rows], fitted_groups=codes)


def _groups_of(n_rows: int, codes: Array | None) -> Groups:
    """Return the groups of so many rows, each by itself where there are none."""
    return Groups.of(np.arange(n_rows) if codes is None else codes)


def _checked_share(holdout: Any) -> Any:
    """Return a share of rows to hold out, or "auto"."""
    if isinstance(holdout, str) and holdout == "auto":
        return holdout
    if isinstance(holdout, bool) or not isinstance(holdout, Real) or not 0 < float(holdout) < 1:
        raise ValueError(
            f"holdout={quoted(holdout)} is no share of the rows between 0 and 1; give one such as "
            '0.4, or "auto".'
        )
    return float(holdout)


@dataclass(frozen=True, eq=False)
class Measurer:
    """What is measured of released rows, and on which of them.

    Attributes
    ----------
    parts : Parts
    columns, beside : sequence of names
        The released columns, and those that readers know and that stay with people.
    secrets : sequence of Secrets
        Of the rows that are measured.
    halves : tuple of ndarray
        Rows of either half: attackers learn on one and are judged on the other.
    task : Task or None
    seed : int
    groups : Groups or None
        Of the rows that are measured.
    whole : bool
        Whether guarantees and attacks are about all rows of a group together.
    """

    parts: Parts
    columns: Sequence[Name]
    beside: Sequence[Name]
    secrets: Sequence[Secrets]
    halves: tuple[Array, Array]
    task: Task | None
    seed: int
    groups: Groups | None = None
    whole: bool = False

    @classmethod
    def of(
        cls,
        parts: Parts,
        columns: tuple[Sequence[Name], Sequence[Name]],
        secrets: Sequence[Secrets],
        task: Task | None,
        seed: int,
        *,
        whole: bool,
    ) -> Measurer:
        """Return what measures the rows, some thousands of them, in two halves of whole groups."""
        groups = _groups_of(len(parts.held), parts.held_groups)
        chosen = _some(shuffle(np.arange(len(groups)), random_state=seed), secrets, groups)
        sides = np.sort(chosen[::2]), np.sort(chosen[1::2])
        halves = groups.rows(sides[0]), groups.rows(sides[1])
        judged = _of_rows(secrets, groups.wide.first) if whole else secrets
        pairs = [measured.pairs_to_attack(e, sides if whole else halves) for e in judged]
        secrets = [
            replace(e, pairs=[pair for pair in p if pair in e.pairs or not e.pairs])
            for e, p in zip(secrets, pairs, strict=True)
        ]
        own = None if parts.held_groups is None else groups
        return cls(parts, *columns, secrets, halves, task, seed, own, whole)

    @property
    def rounds(self) -> list[tuple[Array, Array]]:
        """Which rows are learnt from, and which are judged; both ways in a small table."""
        return [self.halves, self.halves[::-1]] if self.parts.folds else [self.halves]

    def chance_width(self) -> float:
        """Return how wide the 95 % interval of an attack on nothing is; NaN without an attack."""
        wide = []
        for secret in self.secrets:
            counts = [np.bincount(secret.codes[half] + 1) for half in self.halves]
            for i, j in secret.pairs:
                few = min(counts, key=lambda of: min(of[i + 1], of[j + 1]))
                wide.append(2.0 * measured.half_width(int(few[i + 1]), int(few[j + 1])))
        return min(wide, default=math.nan)

    def tried(self, candidate: Candidate) -> Row:
        """Return what comes of a candidate; an error of its fit is a result, too."""
        began = monotonic()
        try:
            estimator = candidate.fit(self.parts.fitted)
            released = self.released(candidate, estimator)
        except _REFUSALS as error:
            reason = on_one_line(error)
            return Row(candidate.label, candidate, "refused", reason, seconds=monotonic() - began)
        seconds = monotonic() - began
        row = self.measure(candidate.label, released)
        certificate = estimator.certificate_
        found = {"candidate": candidate, "estimator": estimator, "loss": certificate.loss}
        return replace(row, **found, seconds=seconds).judged(holds=certificate.holds)

    def released(self, candidate: Candidate, estimator: Any) -> Any:
        """Return the measured rows as they would be released, the same each time."""
        held, folds = self.parts.held, self.parts.folds
        if not folds or candidate.exchanges:
            return self._transformed(estimator, held)
        frames = []
        for fold in counted(folds, "folds"):
            others = np.setdiff1d(np.arange(len(held)), fold)
            fitted = candidate.fit(held.iloc[others])
            frames.append(self._transformed(fitted, held.iloc[fold]))
        return (
            measured.stacked(frames).iloc[np.argsort(np.concatenate(folds))].reset_index(drop=True)
        )

    def _transformed(self, estimator: Any, rows: Any) -> Any:
        drawn = copy.copy(estimator)
        drawn.random_state = self.seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return drawn.transform(rows)

    def raw(self) -> Row:
        """Return the figures of the rows as they are."""
        return self.measure("the rows as they are", self.parts.held)

    def bare(self) -> Row:
        """Return the figures of constants in the place of the columns, which tell nothing."""
        held = self.parts.held
        blank = measured.constants(held, self.columns)
        for name in self.beside:
            blank[name] = held[name]
        row = self.measure("nothing but constants", blank, blind=not self.beside)
        if self.beside:
            return row
        return replace(row, attack=Attacked("", "", "", "none", *[0.5] * 5))

    def measure(self, label: str, released: Any, *, blind: bool = False) -> Row:
        """Return the figures of released rows; ``blind`` where there is nothing to attack."""
        held, names = self.parts.held, [*self.columns, *self.beside]
        change, equal = measured.changes(held, released, self.columns)
        part = np.sort(np.concatenate(self.halves))
        after, before = (seen(frame.iloc[part], names) for frame in (released, held))
        local, score = self.local(part), math.nan
        if local.task is not None:
            features = [name for name in names if name != local.task.name]
            score = measured.task_score(local.task, before[features], after[features], local.halves)
        return Row(
            label,
            change=change,
            equal=float(equal.mean()),
            rows_equal=float(equal.all(axis=1).mean()),
            attack=None if blind else local.attacked(after, attackers_of(None)),
            task=score,
            groups=measured.groups(released, names),
        )

    def attacked(
        self, rows: Any, attackers: Mapping[str, Any], *, copies: bool = True
    ) -> Attacked | None:
        """Return the best attack on released rows, or on groups of them; None where they are few.

        ``rows`` is what `seen` returns of the rows that are measured.
        """
        secrets, groups = [each for each in self.secrets if each.pairs], self.groups
        if not secrets:
            return None
        if groups is None or not self.whole:
            codes = None if groups is None else groups.codes
            return measured.attacked(
                rows, secrets, self.rounds, attackers, copies=copies, groups=codes
            )
        rounds = [(groups.among(learn), groups.among(judge)) for learn, judge in self.rounds]
        more = groups.attackers(attackers, list(rows.columns))
        of_groups = _of_rows(secrets, groups.wide.first)
        return measured.attacked(groups.seen(rows), of_groups, rounds, more, copies=copies)

    def local(self, part: Array) -> Measurer:
        """Return the same with rows numbered within the part that is measured."""
        halves = np.searchsorted(part, self.halves[0]), np.searchsorted(part, self.halves[1])
        return replace(
            self,
            secrets=_of_rows(self.secrets, part),
            halves=halves,
            task=None if self.task is None else self.task.of(part),
            groups=None if self.groups is None else self.groups.of_rows(part),
        )

    def alone(self) -> dict[Name, float]:
        """Return how much each released column tells by itself: the AUC of boosted trees."""
        part = np.sort(np.concatenate(self.halves))
        local = self.local(part)
        rows = seen(self.parts.held.iloc[part], self.columns)
        trees = {"boosted": boosted(60)}
        found = {}
        for name in counted(list(self.columns), "columns"):
            attack = local.attacked(rows[[name]], trees, copies=False)
            found[name] = 0.5 if attack is None else attack.auc
        return found


def _of_rows(secrets: Sequence[Secrets], rows: Array) -> list[Secrets]:
    return [replace(secret, codes=secret.codes[rows]) for secret in secrets]


def _some(order: Array, secrets: Sequence[Secrets], groups: Groups) -> Array:
    """Return groups of rows to measure: those of some thousand rows, and more of rare secrets."""
    chosen = order[: _MEASURED * len(order) // int(groups.wide.sizes.sum())]
    for secret in secrets:
        codes = secret.codes[groups.wide.first]
        for code in range(len(secret.labels)):
            rare = order[codes[order] == code][:_RARE]
            chosen = np.concatenate([chosen, np.setdiff1d(rare, chosen)])
    return chosen


# ---------------------------------------------------------------------------------- what is given


@dataclass(frozen=True, eq=False)
class Given:
    """The rows that a plan is given, without those of rare secrets.

    Attributes
    ----------
    frame, marked : DataFrame
        The table, and the same with intervals for secrets that are read in bins.
    codes : ndarray or None
        The group of each row.
    hidden : list of names
        The sensitive columns.
    units : list of names, and tuples of names
        What is protected: a column, or a combination of some.
    sensitive : list, or mapping to edges
        The same, as an estimator takes them.
    labelled : bool
        Whether an index says whose row is whose.
    rare : mapping
        Values of sensitive columns whose rows are left out.
    """

    frame: Any
    marked: Any
    codes: Array | None
    hidden: list[Name]
    units: list[Any]
    sensitive: Any
    labelled: bool
    rare: Mapping[Name, Sequence[Any]]

    @classmethod
    def of(cls, table: Any, sensitive: Any, groups: Any) -> Given:
        """Return what is read of a table.

        Raises
        ------
        TypeError, ValueError
            Naming the argument, its value and the way out.
        """
        if sensitive is None:
            raise ValueError(
                'sensitive is missing; name the columns to protect, such as sensitive="race".'
            )
        frame = measured.in_memory(table, "a plan")
        labelled = has_row_labels(frame_table(frame, "table"))
        asked = list(sensitive) if isinstance(sensitive, list | tuple) else [sensitive]
        apart = [resolve(each, frame_table(frame).names, "sensitive") for each in asked]
        units: list[Any] = []
        for each, names in zip(asked, apart, strict=True):
            units += [tuple(names)] if isinstance(each, tuple) else names
        hidden = _flat(units)
        marked = measured.with_intervals(frame, sensitive)
        rare = measured.rare_secrets(marked, units)
        kept = measured.rows_without(marked, rare)
        codes = None if groups is None else _codes(frame, groups)[kept]
        given = _as_given(frame, sensitive, units)
        frame, marked = (each[kept].reset_index(drop=True) for each in (frame, marked))
        return cls(frame, marked, codes, hidden, units, given, labelled, rare)

    def secrets(self, held: Any, pairs: Any) -> list[Secrets]:
        """Return the secrets of rows that are held out, with the pairs that are protected."""
        rows = self.marked.loc[held.index]
        found = [secrets_of(rows, unit) for unit in self.units]
        return [replace(each, pairs=_protected(each, pairs)) for each in found]


def _as_given(frame: Any, sensitive: Any, units: Sequence[Any]) -> Any:
    """Return sensitive columns as estimators take them: bins have edges, those of all rows."""
    table = frame_table(frame)
    bins = bins_of(sensitive, table.names)
    if not bins:
        return list(units)
    edges = {name: list(edges_of(name, table.values(name), bins[name], None)) for name in bins}
    return {name: edges.get(name) for name in units}


def _protected(secret: Secrets, pairs: Any) -> list[tuple[int, int]]:
    """Return the codes of the pairs that are protected; none where all are."""
    if isinstance(pairs, Mapping):
        pairs = pairs.get(secret.name, "all")
    if isinstance(pairs, str):
        return []
    labels = list(secret.labels)
    known = [(a, b) for a, b in pairs if a in labels and b in labels]
    codes = [sorted((labels.index(a), labels.index(b))) for a, b in known]
    return [(i, j) for i, j in codes]


def _codes(frame: Any, groups: Any) -> Array:
    """Return the group of each row."""
    codes = groups if np.ndim(groups) else frame[resolve(groups, frame.columns, "groups")[0]]
    codes = np.asarray(codes)
    if codes.shape != (len(frame),):
        raise ValueError(
            f"groups has shape {codes.shape} beside {len(frame)} rows; give the group of each row, "
            "or the name of a column."
        )
    return codes.astype(str)


def plan(
    table: Any,
    sensitive: Any = None,
    *,
    public: Any = None,
    epsilon: float = 1.0,
    task: Any = None,
    holdout: Any = "auto",
    groups: Any = None,
    max_group: int | str | None = None,
    ids: Any = None,
    known: Any = None,
    max_rows: int | None = 12_000,
    random_state: int = 0,
    verbose: int = 0,
    **settings: Any,
) -> Plan:
    r"""Compare the three estimators on a table, measured on rows that nobody fitted.

    Typical rows (`PufferfishMicroaggregator`) are always tried; a swap (`PufferfishSwap`) where
    something says whose row is whose; noise (`PufferfishNoiser`) where columns are few. Each is
    fitted for real and releases rows that were held out, which are attacked and learnt from.
    Settings whose guarantee holds are ranked by the task and the change. Attacks are estimates;
    one that is for certain beyond

    .. math:: \mathrm{AUC} \le 1 - \frac{(1 - \delta)^2}{1 + e^\varepsilon},

    which follows from the guarantee, strikes its setting out. Nothing is released or spent.

    Parameters
    ----------
    table : DataFrame
        In memory, of pandas, polars or pyarrow.
    sensitive : str, int, list of these, or {column: bins, edges or None}
        The sensitive columns, as in `PufferfishMicroaggregator`: a tuple in a list protects the
        combinations of its columns. Rows of values that fewer than 20
        rows have are left out, and named in the notes.
    public : str, int or list of these, default=None
        The columns to release. None proposes all others but the task's, those that stay with
        people, and those that hold dates, cannot be read, or look like identifiers; text that does
        is left out even if it is named.
    epsilon : float, default=1.0
        The budget; `Plan.curve` has others.
    task : str or int, default=None
        A column that is to be predicted from released rows: neither sensitive nor released, unless
        ``known`` names it as well. Typical rows are also tried with it as their y.
    holdout : "auto" or float, default="auto"
        The share of the rows that are held out, by ``random_state``. "auto" holds out .4; below
        1,000 rows all are measured, a fifth at a time by a fit of the others.
    groups : str, int or array-like of shape (n_rows,), default=None
        Rows of one group are all fitted or all held out, and learnt from or judged: visits of a
        patient, say.
    max_group : int or "count", default=None
        As in `PufferfishNoiser`: noise and a swap alone are then tried, which guarantee whole
        groups, of which ``groups`` names the column. Attackers see all rows of a group.
    ids : str, int or list of these, default=None
        Columns that stay with people and say nothing of them, as in `PufferfishSwap`, which is then
        tried; also where the index of a table says whose row is whose.
    known : str, int or list of these, default=None
        Columns that readers know, together, and that stay with people. The guarantee is then among
        people of equal values.
    max_rows : int or None, default=12000
        Most rows that settings are fitted to, drawn by ``random_state``; None fits all. At most
        some 8,000 are attacked.
    random_state : int, default=0
        The seed of the split, of the halves, and of the releases that are measured. The same seed
        gives the same figures.
    verbose : int, default=0
        1 prints to standard error how far it has come. Ctrl-C keeps the settings that are done.
    **settings : dict
        Parameters of the estimators, such as ``n_prototypes=60``, ``n_bins=`` or ``delta=``: each
        takes those that it has, and what they fix is not varied.

    Returns
    -------
    Plan
        ``table`` compares the settings; `Plan.estimator` is the fitted estimator of a row.
        It is a function of the raw rows: keep it as you keep the table.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its value and the way out, before anything is fitted. What a setting
        is refused for is told in its row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_puffer import plan
    >>> table = load_diabetes(as_frame=True, scaled=False).data
    >>> found = plan(table, "sex", public=["bmi", "bp"], n_prototypes=8, n_bins=4)
    >>> found.estimator(0).certificate_.holds
    True
    >>> found.table["setting"].tolist()[:2]
    ['the rows as they are', 'nothing but constants']
    """
    params: dict[str, Any] = {"epsilon": check_positive(epsilon, "epsilon", _ONE_BUDGET)}
    params |= checked_settings(settings)
    seed = check_count(random_state, "random_state", minimum=0)
    loud = check_verbose(verbose)
    if max_rows is not None:
        check_count(max_rows, "max_rows", minimum=2)
    check_same_index(groups, "groups", table, "table")
    if max_group is not None:
        _check_named(groups, max_group)
        params["max_group"] = max_group
    share = _checked_share(holdout)
    given = Given.of(table, sensitive, groups)
    asked = {"public": public, "task": task, "ids": ids, "known": known}
    asked["groups"] = groups if np.ndim(groups) == 0 else None
    orders = params.get("categories") or {}
    named = Named.of(given.frame, given.hidden, asked, orders)
    _check_secrets(given, all_pairs="secret_pairs" not in params)
    wanted = _wanted(given, named, params)
    with listening(loud, "plan"):
        parts = Parts.of(given.frame, share, given.codes, seed).fitting(max_rows, seed)
        return _planned(given, named, wanted, parts, seed)


_ALIKE = 0.01  # scores of a task that differ by less are alike
_ONE_BUDGET = "choose one budget in nats; Plan.curve has others"


def _check_named(groups: Any, max_group: Any) -> None:
    if groups is None or np.ndim(groups):
        raise ValueError(
            f"max_group={quoted(max_group)} asks for a guarantee about whole groups, whose column "
            "groups= must name; name it, or leave max_group out."
        )


def _check_secrets(given: Given, *, all_pairs: bool) -> None:
    for name in given.units:
        labels = secrets_of(given.marked, name).labels
        if all_pairs:
            check_few(name, len(labels))
        if len(labels) < 2:
            raise ValueError(
                f"sensitive column {quoted(name)} has one value only ({listed(labels)}): there is "
                "nothing to tell apart; name another column."
            )


def _wanted(given: Given, named: Named, params: Mapping[str, Any]) -> Wanted:
    """Return what all candidates are asked for."""
    asked = {**params, "sensitive": given.sensitive, "public": named.public}
    asked |= {"ids": named.ids} if named.ids else {}
    asked |= {"known": named.known} if named.known else {}
    asked |= {"groups": named.grouping[0]} if "max_group" in params else {}
    gaps = any(fact.missing for fact in named.facts if fact.use == "sensitive")
    owned = bool(named.ids or named.known or given.labelled or "max_group" in params)
    return Wanted(asked, named.read(), gaps, owned, named.task)


def _planned(given: Given, named: Named, wanted: Wanted, parts: Parts, seed: int) -> Plan:
    secrets = given.secrets(parts.held, wanted.params.get("secret_pairs", "all"))
    parts = replace(parts, held=parts.held.reset_index(drop=True))
    task = None if named.task is None else task_of(named.task, frame_table(parts.held))
    shown_columns = named.public, named.known
    whole = "max_group" in wanted.params
    measurer = Measurer.of(parts, shown_columns, secrets, task, seed, whole=whole)
    raw, bare = measurer.raw(), measurer.bare()
    rows = _tried(measurer, wanted.candidates())
    rows = ranked(rows, bare, max(_ALIKE, 1.0 / math.sqrt(sum(map(len, measurer.halves)))))
    kept = any(is_useful(row, bare) for row in rows)
    return Plan(
        sensitive=tuple(given.hidden),
        facts=tuple(_with_constants(named, parts.held)),
        raw=raw,
        bare=bare,
        trials=tuple(rows),
        out=() if kept else tuple(_ways_out(measurer, rows, bare)),
        notes=tuple(_notes(given, named, wanted, measurer)),
        epsilon=wanted.params["epsilon"],
        task=named.task,
        score="R2" if task is not None and is_regressor(task.model) else "AUC",
        base=_base(task),
        n_rows=len(given.frame),
        n_fitted=len(parts.fitted),
        n_held=len(parts.held),
        seed=seed,
        measurer=measurer,
        version=__version__,
        date=utc_now(),
    )


def _tried(measurer: Measurer, candidates: Sequence[Candidate]) -> list[Row]:
    """Return what comes of candidates; Ctrl-C leaves the rest as not tried."""
    rows: list[Row] = []
    try:
        rows.extend(measurer.tried(each) for each in counted(candidates, "settings"))
    except KeyboardInterrupt:
        rows += [Row(e.label, e, "not tried", "interrupted") for e in candidates[len(rows) :]]
    return rows


def _ways_out(measurer: Measurer, rows: Sequence[Row], bare: Row) -> list[str]:
    """Return what keeps both, measured by the setting that changes least."""
    fitted = [row for row in rows if row.candidate is not None and row.estimator is not None]
    if not fitted:
        return []
    candidate = min(fitted, key=lambda row: row.change).candidate
    assert candidate is not None
    more = 2.0 * candidate.params["epsilon"]
    tried = [(f"take epsilon {more:g}", measurer, bare, candidate.at(epsilon=more))]
    if len(measurer.columns) > 1:
        alone = measurer.alone()
        name = max(alone, key=lambda name: alone[name])
        left = replace(measurer, columns=[each for each in measurer.columns if each != name])
        public = [each for each in candidate.params["public"] if each != name]
        way = f"give up column {quoted(name)}, which tells most"
        tried.append((way, left, left.bare(), candidate.at(public=public)))
    ways = []
    for way, own, constants, changed in tried:
        row = own.tried(changed)
        if is_useful(row, constants):
            ways.append(
                f"{way} ({row.label}: change {row.change:.3g}, constants {constants.change:.3g})"
            )
    return ways


# --------------------------------------------------------------------------- what stewards ask for


def _base(task: Any) -> float:
    """Return the share of the most frequent class; 0, the R^2 of a constant, of a number."""
    if task is None or is_regressor(task.model):
        return 0.0
    known = task.target[known_rows(task.target)]
    return float(np.unique(known, return_counts=True)[1].max() / len(known))


def _with_constants(named: Named, held: Any) -> list[ColumnFacts]:
    """Return the columns with what a constant in their place changes."""
    blank = measured.constants(held, named.public)
    change = {name: measured.changes(held, blank, [name])[0] for name in named.public}
    return [replace(fact, constant=change.get(fact.name, fact.constant)) for fact in named.facts]


def _notes(given: Given, named: Named, wanted: Wanted, measurer: Measurer) -> list[str]:
    """Return what there is to know of the rows, in sentences."""
    return [
        *_of_secrets(given, measurer),
        *_of_few(measurer),
        *_of_groups(measurer),
        *_of_people(named, wanted, measurer),
    ]


def _of_secrets(given: Given, measurer: Measurer) -> list[str]:
    told = [
        f"{quoted(name)} is read in intervals here, and by estimator(k)."
        for name in given.hidden
        if isinstance(given.sensitive, Mapping) and given.sensitive[name] is not None
    ]
    told += [
        f"rows of {listed(labels, 5)} of {quoted(name)} are left out, as fewer than "
        f"{measured.SCARCE} have it; merge rare values before you fit."
        for name, labels in given.rare.items()
    ]
    for secret in measurer.secrets:
        attacked = {code for pair in secret.pairs for code in pair}
        few = [label for code, label in enumerate(secret.labels) if code not in attacked]
        if few:
            told.append(
                f"values of {quoted(secret.name)} with too few rows to be attacked: "
                f"{listed(few, 5)}; merge them, or give more rows."
            )
    return told


def _of_few(measurer: Measurer) -> list[str]:
    """Say how little so few rows tell."""
    width = measurer.chance_width()
    if width <= 2.0 * measured.WIDEST and not measurer.parts.folds:
        return []
    told = (
        "too few to judge an attack"
        if math.isnan(width)
        else (f"which makes the 95 % interval of an attack that finds nothing {width:.2f} wide")
    )
    return [f"{len(measurer.parts.held)} rows are measured, {told}: plan on more if you can."]


def _of_groups(measurer: Measurer) -> list[str]:
    if measurer.groups is None:
        return []
    if measurer.whole:
        return [
            "guarantees and attacks are about all rows of a group together, and changes about "
            "single rows; attackers see how many rows a group has, which no setting hides."
        ]
    return [
        "groups= keeps the rows of a group on one side, but figures and guarantees are those of "
        "single rows; max_group= makes guarantees about all rows of a group together."
    ]


def _of_people(named: Named, wanted: Wanted, measurer: Measurer) -> list[str]:
    """Say whose row is whose, and what known columns do to the figures."""
    told = []
    if named.known:
        told.append(
            f"{listed(named.known, 5)} are released as they are and tell by themselves: guarantees "
            "are against the shares of secrets among people of equal values, and attacks see them."
        )
    if named.task is not None and named.task not in named.known:
        told.append(
            f"who learns {quoted(named.task)} on released rows has it beside them, and guarantees "
            "are for readers who do not know it; name it in known= as well where they do."
        )
    if not wanted.owned and not measurer.whole:
        told.append(
            "a swap was not tried, as nothing says whose row is whose; name ids= where rows go out "
            "as somebody's."
        )
    told += [
        f"some people have several rows, by {quoted(name)}, and guarantees are about one row of "
        "each; make one row of them, or name groups= and max_group=."
        for name in named.ids
        if measurer.parts.held[name].duplicated().any()
    ]
    return told
