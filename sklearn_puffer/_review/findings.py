"""An audit: what readers found out, and what the rows are still good for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import pairwise_distances

from sklearn_puffer._base import Array
from sklearn_puffer._documents import Bar, Bars, Document, Page, Section, jsonable
from sklearn_puffer._fits import learnable
from sklearn_puffer._review.exact_tests import LEVEL, POWER, Attack, RowSplit
from sklearn_puffer._review.measured import Task, equal, groups
from sklearn_puffer._review.readers import encoder, equal_rows, is_words
from sklearn_puffer._tables import Name, records_frame
from sklearn_puffer._words import shown, times

SCHEMA = "sklearn_puffer.audit/8"
CONTROL = "no release"
DISTINCT = "different rows"
INTERNAL = (
    "This audit is computed from the raw rows, and its own releases of them were "
    "dropped: keep it where you keep the table, and do not release it."
)
NO_PROOF = (
    "No finding is no proof: other attackers, or more rows, may find more. The certificate says "
    "what is guaranteed."
)
_FACTS = ["name", "version", "date", "promise"]
_FACTS += ["n_rows", "n_given", "n_train", "n_choose", "n_test"]


@dataclass(frozen=True)
class Finding:
    """An attack that tells more than was guaranteed, beyond what chance explains.

    Attributes
    ----------
    attack : Attack
    n_tests : int
        Over which its p-value is corrected.
    """

    attack: Attack
    n_tests: int

    def __str__(self) -> str:
        attack = self.attack
        return (
            f"{attack.view} ({attack.attacker}) finds {_about(attack)}, where "
            f"{times(attack.allowed)} were guaranteed: p = {attack.p_all:.2g} (tests: "
            f"{self.n_tests}). Either the release loses more than its certificate says, or these "
            "rows do not follow the distribution that was fitted."
        )


@dataclass(frozen=True, repr=False)
class Audit(Document):
    """What `audit` found.

    Parameters
    ----------
    attacks : tuple of Attack
        By readers whom the guarantee covers: one for each pair in each direction, each reader and
        each way in which he reads rows.
    control : tuple of Attack
        Those of fresh models on the rows as they are.
    promise : str
        What was guaranteed.
    n_rows, n_given : int
        Rows that were released, and rows of the table.
    n_train, n_choose, n_test : int
        Rows that attackers learnt from, chose events on, and were judged on.
    survived : tuple of Survived
        What the rows were good for before, and are after.
    others : tuple of Attack
        By readers whom the guarantee does not cover.
    untested : tuple of str
        Pairs with too few rows.
    knows : tuple of (str, str)
        The readers, and what each of them knows.
    notes : tuple of str
        What else to know.
    version, date, name : str
        Of the library, the time (UTC, ISO 8601), and the name that `named` gave the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, audit
    >>> cars = [0, 5, 2, 4, 5, 0, 1, 9, 0, 3]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 5000, "cars": cars * 1000})
    >>> noiser = PufferfishNoiser(4.0, sensitive="loan").fit(table)
    >>> found = audit(noiser, table)
    >>> found.caught, len(found.table)
    (True, 8)
    """

    attacks: tuple[Attack, ...]
    control: tuple[Attack, ...]
    promise: str
    n_rows: int
    n_given: int
    n_train: int
    n_choose: int
    n_test: int
    survived: tuple[Survived, ...] = ()
    others: tuple[Attack, ...] = ()
    untested: tuple[str, ...] = ()
    knows: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    version: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    def __repr__(self) -> str:
        """Return the first line: the fields are long."""
        return f"<{self._headline()} print() shows all of it>"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The attacks beyond the guarantee, at the level over all tests, the surest first."""
        beyond = sorted((a for a in self.attacks if a.p_all <= LEVEL), key=_order)
        return tuple(Finding(a, len(self.attacks)) for a in beyond)

    @property
    def caught(self) -> bool:
        """Whether the same attacks catch rows without noise: else they are too weak to tell."""
        return any(attack.p_all <= LEVEL for attack in self.control)

    @property
    def table(self) -> Any:
        """The attacks as a DataFrame: a row for each pair in each direction, and each attacker."""
        return _frame(self.attacks, tuple(Attack.__dataclass_fields__))

    @property
    def readers(self) -> Any:
        """A row for each reader: what he reached (in nats), what is allowed, power, what he knows.

        Of each the attack with the smallest p-value, of several the one that is proven to come
        nearest to what is allowed; where nothing is guaranteed to him ``allowed`` is NaN.
        ``findable`` is the smallest shift that any of his attacks would have found.
        """
        names = ["view", "log_odds", "low", "high", "allowed", "findable", "p_all"]
        best = self._by_reader()
        frame = _frame(best, [*names, "attacker", "secret", "against", "auc"])
        knows = [self._knows(attack) for attack in best]
        return frame.rename(columns={"view": "reader"}).assign(knows=knows)

    def _by_reader(self) -> list[Attack]:
        """Return the attack of each reader that counts, with the power of all that are his."""
        of: dict[str, list[Attack]] = {}
        for attack in (*self.attacks, *self.others):
            of.setdefault(attack.view, []).append(attack)
        return [
            replace(min(own, key=_order), findable=min(each.findable for each in own))
            for own in of.values()
        ]

    def _knows(self, attack: Attack) -> str:
        return dict(self.knows).get(attack.view, "")

    @property
    def utility(self) -> Any:
        """What survived as a DataFrame: what was measured, before and after."""
        return _frame(self.survived, ["what", "column", "before", "after"])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON.

        Returns
        -------
        dict
            With all attacks, and the findings as sentences.
        """
        return {
            "schema": SCHEMA,
            "internal": INTERNAL,
            "level": LEVEL,
            **{key: getattr(self, key) for key in _FACTS},
            "findings": [*map(str, self.findings)],
            "caught_without_noise": self.caught,
            **{key: _records(getattr(self, key)) for key in ("attacks", "control", "others")},
            "utility": _records(self.survived),
            "readers": [
                {"reader": attack.view, "knows": self._knows(attack), **_records([attack])[0]}
                for attack in self._by_reader()
            ],
            "untested": list(self.untested),
            "notes": list(self.notes),
        }

    def _surest(self) -> Attack | None:
        """Return the surest finding, else the attack that is nearest to its limit."""
        return min(self.attacks, key=_order, default=None)

    def _findable(self) -> str:
        """Return the power of the audit: the smallest shift that any attack would have found."""
        if not self._sees():
            which = "no leak, however large," if self.caught else "not even the rows as they are"
            return f"{which} would have been found"
        best = min(self.attacks, key=lambda attack: attack.findable)
        leak = f"a leak of {times(best.findable)} or more, where {times(best.allowed)} are allowed,"
        return f"{leak} would have been found, and less may be missed"

    def _picture(self) -> Bars:
        """Return the area of the surest attack beside a guess and the rows as they are."""
        attack = self._surest()
        assert attack is not None
        same = [other.auc for other in self.control if _pair(other) == _pair(attack)]
        areas = {"a guess": 0.5, f"{attack.view}, on the release": attack.auc}
        areas |= {"models of the rows as they are": max(same)} if same else {}
        rows = [Bar(name, area, f"{area:.3f}") for name, area in areas.items()]
        secrets = f"{shown(attack.secret)} ({attack.n} people) from {shown(attack.against)}"
        told = (
            f"How well attackers tell {shown(attack.sensitive)} {secrets} ({attack.n_against}): "
            "area under the ROC curve "
            f"({attack.auc_low:.2f} to {attack.auc_high:.2f} on the release)"
        )
        if math.isnan(attack.auc_allowed):  # as where known columns tell by themselves
            return Bars(told, rows)
        beyond = attack.auc > attack.auc_allowed and attack.p_all > LEVEL
        told += f"; the line is what the guarantee allows, {attack.auc_allowed:.3f}"
        told += "; more than that is within chance here" * beyond
        return Bars(told, rows, attack.auc_allowed)

    def _page(self) -> Page:
        return Page(self._headline(), self._lines(), self._sections())

    def _headline(self) -> str:
        about = f"Audit of {shown(self.name)}" if self.name else "Audit"
        if count := len(self.findings):
            subject = "one attack tells" if count == 1 else f"{count} attacks tell"
            return f"{about}: {subject} MORE THAN WAS PROMISED."
        if self._sees():
            return f"{about}: no attack tells more than was guaranteed; {self._findable()}."
        why = "BUT THESE ATTACKERS COULD NOT HAVE FOUND IT"
        return f"{about}: nothing found, {why}: {self._findable()}."

    def _sees(self) -> bool:
        """Return whether some leak, however large, would have been found."""
        return self.caught and any(math.isfinite(attack.findable) for attack in self.attacks)

    def _lines(self) -> list[str]:
        return [
            f"Promised: {self.promise}",
            *self._most(),
            self._released(),
            *self._power_lines(),
            *self.notes,
            INTERNAL,
        ]

    def _most(self) -> list[str]:
        """Return the attack that came nearest to what is allowed, and what that is."""
        best = self._surest()
        if best is None:
            return []
        return [
            f"Nearest to its limit: {best.view} ({best.attacker}) claims {_about(best)}; "
            f"allowed are {times(best.allowed)}."
        ]

    def _released(self) -> str:
        """Return how many rows were released, and who saw which."""
        part = "" if self.n_rows == self.n_given else f" (of {self.n_given:,})"
        folds = ", the same, by models of other rows," * (self.n_train == self.n_choose)
        return (
            f"Released: {self.n_rows:,} rows{part}. Readers learnt from {self.n_train:,}, chose "
            f"what to claim on {self.n_choose:,}{folds} and were judged on {self.n_test:,}; "
            f"tests: {len(self.attacks)}, with a chance of {LEVEL:.0%} at most of a false alarm, "
            "if rows are independent and the guarantee is kept."
        )

    def _power_lines(self) -> list[str]:
        if self.findings and not self._sees():
            return []  # what was found has been seen
        control = "rows are too few to see a breach"
        if not self.caught:
            control = "attackers are too weak, rows too few, or columns hardly tell the secrets"
        elif self._sees():
            control = "so these attackers can see a breach"
        sure = "audit more rows"
        if self._sees():
            sure = (
                f"with a chance of {POWER:.0%}, of the reader who finds most easily, if he claims "
                "a secret as often as it occurs"
            )
        more = "more than is allowed" if self.caught else "no more than was guaranteed"
        told = f"Control: from the rows AS THEY ARE fresh models tell {more}: {control}."
        return [f"Power: {self._findable()}; {sure}.", told, *([] if self.findings else [NO_PROOF])]

    def _sections(self) -> list[Section]:
        cells = [_READERS, *([a.view, self._knows(a), *_words(a)] for a in self._by_reader())]
        return [
            *[Section("Findings", sentences=[*map(str, self.findings)])] * bool(self.findings),
            Section("Readers", _OF_READERS, cells),
            *self._utility_section(),
            *[Section("Not tested: too few rows", sentences=self.untested)] * bool(self.untested),
        ]

    def _utility_section(self) -> list[Section]:
        if not self.survived:
            return []
        cells = [["what", "column", "before", "after"]]
        for figure in self.survived:
            ends = figure.before, figure.after
            texts = ["" if math.isnan(value) else f"{value:.4g}" for value in ends]
            cells.append([figure.what, shown(figure.column), *texts])
        return [Section("What survives", _OF_UTILITY, cells)]


_OF_READERS = (
    "odds shifted: how many times the base odds of two secrets are where the reader claims one, "
    f"with the {1.0 - LEVEL:.0%} interval, and what is allowed; within chance: beyond that, as an "
    f"honest release may be; found from: the smallest shift that is found with a chance of "
    f"{POWER:.0%}, if he claims a secret as often as it occurs; p: that of the guarantee, over all "
    "tests; .table has all attacks"
)
_OF_UTILITY = (
    "what the rows say before the release, and after; by chance an AUC is 0.5, and an R2 0"
)
_READERS = ["reader", "knows", "odds shifted", "interval", "allowed", "found from", "p"]


def _words(attack: Attack) -> list[str]:
    """Return what a table for people says of an attack."""
    covered = not math.isnan(attack.allowed)
    return [
        shift(attack) + within_chance(attack),
        ends(attack),
        times(attack.allowed) if covered else "not covered",
        times(attack.findable) if math.isfinite(attack.findable) else "-",
        f"{attack.p_all:.2g}" if covered else "-",
    ]


def _pair(attack: Attack) -> tuple[Name, Any, Any]:
    return attack.sensitive, attack.secret, attack.against


def within_chance(attack: Attack) -> str:
    """Return the words about a shift beyond what is allowed that is no finding."""
    beyond = attack.log_odds > attack.allowed and attack.p_all > LEVEL
    return ", within chance" * beyond


def _about(attack: Attack) -> str:
    """Return what a reader claims, and how far odds are from the base odds."""
    return (
        f"{shown(attack.sensitive)} = {shown(attack.secret)} against {shown(attack.against)}: odds "
        f"shifted {shift(attack)} ({ends(attack)}){within_chance(attack)}"
    )


def shift(attack: Attack) -> str:
    """Return how far odds are from the base odds; where all rows have the secret, in words."""
    return "without limit" if attack.log_odds == math.inf else times(attack.log_odds)


def _order(attack: Attack) -> tuple[float, float]:
    """Return the sort key: by p-value, then by how far the interval is beyond what is allowed."""
    if math.isnan(attack.p_all):
        return 1.0, -attack.low
    return attack.p_all, attack.allowed - attack.low


def ends(attack: Attack) -> str:
    """Return the ends of the interval of a shift, if any row was claimed."""
    if not attack.share:
        return "no row"
    low = times(attack.low, at_least=True).removesuffix(" times")
    return f"{low} or more" if attack.high == math.inf else f"{low} to {times(attack.high)}"


def _frame(figures: Iterable[Any], names: Sequence[str]) -> Any:
    return records_frame([tuple(getattr(each, name) for name in names) for each in figures], names)


def _records(figures: Iterable[Any]) -> list[dict[str, Any]]:
    return [{key: _plain(value) for key, value in vars(each).items()} for each in figures]


def _plain(value: Any) -> Any:
    """Return a value for JSON: None where a number has no meaning."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinity" if value > 0.0 else "-infinity"
    return jsonable(value)


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


def survived(raw: Any, released: Any, parts: RowSplit, task: Task | None) -> list[Survived]:
    """Return the task's score, how many rows point to one person, and the unchanged values."""
    raw = raw[list(released.columns)]
    of_task = [] if task is None else task_figures(task, raw, released, parts)
    comparable = [name for name in raw if is_words(raw[name]) == is_words(released[name])]
    unchanged = [
        Survived("unchanged share", name, 1.0, float(equal(raw[name], released[name]).mean()))
        for name in comparable  # and no words that come out as codes
    ]
    return [*of_task, *reidentified(raw, released, parts.test), *unchanged]


def task_figures(task: Task, raw: Any, released: Any, parts: RowSplit) -> list[Survived]:
    """Return how well a model does on true rows that learnt from true, or from released rows.

    A target that is a released column is learnt from as it is released.
    """
    alike = [name for name in raw if is_words(raw[name]) == is_words(released[name])]
    features = [name for name in alike if name != task.name]
    if not features:
        return []
    learnt = [(raw, task.target), (released, _target(task, released))]
    scores = [
        task.score(rows[features], target, raw[features], parts.shown, parts.test)
        for rows, target in learnt
    ]
    score = "R2" if is_regressor(task.model) else "AUC"
    return [Survived(f"{score} on true rows", task.name, *scores)]


def _target(task: Task, released: Any) -> Array:
    words = task.target.dtype.kind not in "biuf"
    if task.name not in released or is_words(released[task.name]) != words:
        return task.target
    return np.asarray(released[task.name]).astype(task.target.dtype)


_MOST_LINKED = 1_000
_NEAREST_BY = 1e-9


def reidentified(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return how many rows point to one person: uniques, equal rows, and how near records are.

    The distance to the closest record is the median over rows, in ranks between 0 and 1 summed over
    columns: of raw rows to the closest other one, of released rows to the closest raw one.
    """
    columns, both = list(after.columns), (before, after)
    alone, fewest = zip(*(groups(each, columns) for each in both), strict=True)
    return [
        Survived(DISTINCT, "all", *(float(equal_rows(each).max() + 1) for each in both)),
        Survived("unique rows", "all", *alone),
        Survived("fewest equal rows (k)", "all", *map(float, fewest)),
        *_linked(before, after, rows[:_MOST_LINKED]),
    ]


def _linked(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return which share of rows is nearest to the row that it came from, ties as fractions."""
    if any(is_words(before[name]) != is_words(after[name]) for name in before.columns):
        return []  # codes of words
    model = encoder(before).set_params(sparse_threshold=0.0).fit(learnable(before))
    true, _ = blocks = [model.transform(block.iloc[rows]) for block in (before, after)]
    shares, nearest = [], []
    for block in blocks:
        distances = pairwise_distances(block, true, metric="manhattan")
        near = distances <= distances.min(axis=1, keepdims=True) + _NEAREST_BY
        shares.append(float((np.diag(near) / near.sum(axis=1)).mean()))
        if block is true:
            np.fill_diagonal(distances, np.inf)
        nearest.append(float(np.median(distances.min(axis=1))))
    return [
        Survived(f"nearest to its own of {len(rows)}", "all", *shares),
        Survived("distance to the closest record", "all", *nearest),
    ]
