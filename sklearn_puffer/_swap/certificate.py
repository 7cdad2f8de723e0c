"""What a swap by secrets guarantees, for which reader, and what it does to the rows, on average."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    Array,
    FloatArray,
    IntArray,
    Section,
    __version__,
    listed,
    plain_record,
    quoted,
    short_number,
    shown,
    utc_now,
)
from sklearn_puffer._release import (
    Certificate,
    ColumnUtility,
    PairLoss,
    Refused,
    RowGroups,
    Terms,
    changes_of,
    measured_utility,
    utility_section,
)
from sklearn_puffer._tables import CHANGED, Name, Values, named_frame, present, series

_OF_DISTANCE = ", to the power of their distance"
_MANY_ALONE = 0.05  # people in strata of one secret, of whom the headline tells


@dataclass(frozen=True)
class Kept:
    """The share of the people with one secret who keep their own row."""

    sensitive: Name
    secret: Any
    share: float


@dataclass(frozen=True)
class ExchangeFacts:
    """What a swap does to rows, by its mean flows, and what known columns tell by themselves.

    Attributes
    ----------
    stay : float
        The share of people who keep their own row, on average.
    kept : tuple of Kept
        The same by secret.
    unchanged : bool
        Whether the table must come out as it went in.
    insiders, insider_loss : float or None
        The budget of people in the table, and what they lose; None where they are left out.
    rare : float
        The share of people whose secret one other person alone has, in their stratum: what they
        learn of that person, where they find their own row with somebody, is not bounded.
    matching : {"nearest", "parts", "random"}
    strata : tuple of str
        Columns that stay with people and that readers may know.
    n_strata : int
    one_secret, alone, below_ten, beyond : float
        Shares of people: in strata of one secret, of one person, of fewer than ten, and in strata
        whose odds of two secrets are beyond e^epsilon times those of the table.
    travelling : tuple of str
        Sensitive columns that are released with their rows.
    distances : tuple of float
        By which the budget of each pair is multiplied; empty where it is one for all. Losses are
        those of a unit of distance.
    merged : bool
        Whether values of a sensitive column are read as one secret.
    """

    stay: float
    kept: tuple[Kept, ...]
    unchanged: bool
    insiders: float | None
    insider_loss: float | None
    rare: float
    matching: str
    strata: tuple[str, ...]
    n_strata: int
    one_secret: float
    alone: float
    below_ten: float
    beyond: float
    travelling: tuple[str, ...]
    distances: tuple[float, ...] = ()
    merged: bool = False


@dataclass(frozen=True)
class ExchangeCertificate(Certificate):
    """The certificate of a table whose rows people of different secrets exchange.

    Attributes
    ----------
    exchange : ExchangeFacts

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True: let people be exchangeable within their stratum
    given the list of all rows with their secrets, so that order, index and ids tell nothing. For a
    reader who has this list, the mean flows and this procedure, and sees the whole released table,
    the secret of whoever holds a row of secret b is s with chance F(s, b) / n_b. So the odds of no
    person move by more than the budget from the shares in the stratum, whatever model of the rows
    the reader has, and under each rule by which rows are matched.
    """

    exchange: ExchangeFacts | None = None

    @property
    def facts(self) -> ExchangeFacts:
        """What the swap does to rows."""
        assert self.exchange is not None
        return self.exchange

    @property
    def holds(self) -> bool:
        """Whether the proven loss of each pair is within its own budget."""
        distances = self.facts.distances
        if not distances or self.delta:
            return super().holds
        budgets = zip(self.pairs, distances, strict=True)
        return all(pair.upper <= self.epsilon * d for pair, d in budgets)

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        if not self.holds:
            return super().promise()
        holder = "whoever holds a row" if self.groups is None else "the group that holds a row"
        shift = self._shift(f" of {holder}")
        if self.facts.distances:
            shift += _OF_DISTANCE
        shares = "the table"
        if self.facts.strata:
            shares = f"the stratum, which is given by {listed(self.facts.strata, 100)}"
        return (
            "Whoever holds the list of all rows with their secrets, but not whose is which, and "
            f"sees the whole released table, can {shift}, against the shares of secrets in "
            f"{shares}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        facts = asdict(self.facts)
        kept = [plain_record(each) for each in facts.pop("kept")]
        return {**super().to_dict(), "exchange": {**plain_record(facts), "kept": kept}}

    def _what_changes(self) -> list[str]:
        facts = self.facts
        known = [_strata(facts)] if facts.strata else []
        return [_insiders(facts), self._moves(), *known, *not_covered(facts)]

    def _moves(self) -> str:
        who = "people keep their own row" if self.groups is None else "groups keep their own rows"
        stay = f"{self.facts.stay:.1%} of the {who}, on average"
        if self.facts.unchanged:
            return f"{stay}."
        most = max(self.utility, key=lambda column: column.change_sd)
        mean = np.mean([column.change_sd for column in self.utility])
        return (
            f"{stay}; a column changes by {mean:.3g} standard deviations, {shown(most.name)} most "
            f"({most.change_sd:.3g})."
        )

    def _risks(self) -> list[str]:
        return []

    def _told_below(self) -> list[str]:
        return self._what_changes()

    def _kept(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        changed = "nothing was changed; " if self.facts.unchanged else ""
        alone = ""
        if self.facts.one_secret > _MANY_ALONE:
            alone = (
                f"; but {self.facts.one_secret:.0%} of the people are in strata of one secret, "
                "which tell it by themselves"
            )
        return f"{changed}{verdict} for readers who hold the list of rows with their secrets{alone}"

    def _sections(self) -> list[Section]:
        kept = [[label_of(each.secret), f"{each.share:.1%}"] for each in self.facts.kept]
        return [
            Section(
                "Who keeps the own row",
                "shares of people by mean flows; those of a release are never told",
                [["secret", "stays"], *kept],
            ),
            utility_section(self.utility),
            self._pairs_section("recomputed from mean flows in whole numbers, without the solver"),
            Section("Assumptions", sentences=self.assumptions),
        ]


def _insiders(facts: ExchangeFacts) -> str:
    told = about_insiders(facts)
    if facts.insider_loss is None:
        return told
    rare = f"; they are {facts.rare:.2g} of the people" if facts.rare else ""
    return f"{told} (Proven: {short_number(facts.insider_loss)}{rare}.)"


def about_insiders(facts: ExchangeFacts) -> str:
    """Return what people in the table may learn of each other."""
    if facts.insiders is None:
        return (
            "Not covered: insiders. Who finds the own row with somebody else may learn the "
            "holder's secret; insiders= bounds that."
        )
    return (
        "An insider who finds the own row with somebody, and goes by nothing else (not even by the "
        f"row he holds himself), shifts the odds about the holder by at most e^{facts.insiders:g}"
        f"{_OF_DISTANCE if facts.distances else ''}. Those "
        "whose secret just one other person of their stratum has learn that it is not he."
    )


def _strata(facts: ExchangeFacts) -> str:
    known = listed(facts.strata, 100)
    return (
        f"{known} stay with people and tell by themselves: {facts.one_secret:.1%} of the people "
        f"are in strata of one secret, {facts.alone:.1%} alone in theirs, "
        f"{facts.below_ten:.1%} in strata below 10, {facts.beyond:.1%} in strata whose odds are "
        "beyond e^epsilon of the table's."
    )


def not_covered(facts: ExchangeFacts) -> list[str]:
    """Return what the guarantee does not cover, a line each."""
    nearest = [
        "Not covered: what a person in the table infers about third parties, from the rows that "
        'were not matched; matching="parts" leaves only counts to tell.'
    ]
    return [
        *(nearest if facts.matching == "nearest" else []),
        "Not covered: a second swap of the same people, which undoes this one; keep this one.",
        "Not covered: labels and other facts of a person that are not named in known=.",
    ]


def terms(facts: ExchangeFacts) -> Terms:
    """Return what a report says of an exchange of rows, by its settings."""
    return Terms(
        how="exchanged with its row",
        about="people exchange whole rows; every row of the table is released with somebody",
        granted=(
            "The reader knows what is named above, and nothing else about a row.",
            "Ids, order and index say nothing of a row.",
            "A person is one row, or one group of rows in groups=.",
            "The table is exchanged once: two swaps of the same people undo each other.",
            about_insiders(facts),
        ),
        left_out=not_covered(facts),
        whole="Who gets the whole file is covered, and may hold the list of its rows with their "
        "secrets: the guarantee is about all released rows together.",
        again="these people once: keep this table, and do not exchange them again",
    )


TAKEN = [
    "Ids, order and index say nothing of a row (numbers given by date do: name what they say in "
    "known=).",
    "The released table has the rows of the original one, so it tells the shares of secrets with "
    "whatever its columns tell of them; the guarantee is against those shares.",
    "Released whole flows are drawn anew around the mean flows that are certified here, and are "
    "told nowhere.",
]
ALONE = (
    "A person is one row: rows of one person or household tell more together; groups= exchanges "
    "them together."
)
TOGETHER = (
    "Sizes of groups, and which rows are in one, stay and are known. The rows of a group have one "
    "secret, and go at random to members of the other group of whom the same is known; those of a "
    "group that stays are dealt among its own members, too."
)
INSIDE = (
    "Secrets are bins or merged values: within one of them rows may stay, and exact numbers or "
    "merged values are not protected from each other."
)
NO_MORE = "two swaps of the same people undo each other; keep the first one."


def label_of(label: Any) -> str:
    """Return a secret in a word.

    >>> label_of(("yes", 3)), label_of("no")
    ("'yes' and 3", "'no'")
    """
    return " and ".join(map(quoted, label)) if isinstance(label, tuple) else quoted(label)


@dataclass(frozen=True, eq=False)
class Figures:
    """What is said of a swap of some rows: all of it from mean flows.

    Attributes
    ----------
    mechanism : RowExchange
    people : ndarray of int of shape (n_strata, n_secrets)
        How many have each secret.
    n_rows : int
    flows : ndarray of shape (n_secrets, n_secrets)
        How many people of each secret receive rows of each, on average.
    others : ndarray of shape (n_secrets,)
        How many of those who keep their secret receive another person's row.
    losses : ndarray of shape (n_pairs,)
    insider_loss : float
    changes : bool
        Whether somebody may receive a row that is not equal to the own one.
    utility : list of ColumnUtility
    """

    mechanism: Any
    people: IntArray
    n_rows: int
    flows: FloatArray
    others: FloatArray
    losses: FloatArray
    insider_loss: float
    changes: bool
    utility: Sequence[ColumnUtility]

    @classmethod
    def of(cls, mechanism: Any, rows: Any, solved: Any) -> Figures:
        """Return the figures of rows whose flows are solved."""
        people = np.zeros((rows.strata.max() + 1, len(mechanism.secret.labels)), dtype=np.int64)
        np.add.at(people, (rows.strata, rows.codes), 1)
        return cls.merged(mechanism, people, [mechanism.figures(rows, solved)])

    @classmethod
    def merged(cls, mechanism: Any, people: IntArray, texts: Sequence[str]) -> Figures:
        """Return the figures of a table of so many people, given those of its parts."""
        parts = [json.loads(each) for each in texts]
        each = {name: np.array([part[name] for part in parts]) for name in parts[0]}
        if round(each["flows"].sum()) != people.sum():
            raise ValueError(CHANGED)
        n_rows = each["n_rows"]
        utility = np.average(each["utility"], 0, n_rows).tolist()
        return cls(
            mechanism,
            people,
            int(n_rows.sum()),
            each["flows"].sum(axis=0),
            each["others"].sum(axis=0),
            each["losses"].max(axis=0),
            float(each["insiders"].max()),
            bool(each["changes"].any()),
            [ColumnUtility(c.name, *u) for c, u in zip(mechanism.columns, utility, strict=True)],
        )

    def attributes(self) -> dict[str, Any]:
        """Return the mean flows as an estimator shows them."""
        labels = self.mechanism.secret.labels
        shares = self.flows / np.maximum(self.sizes(), 1)[:, None]
        rows = (dict(zip(labels, row, strict=True)) for row in shares)
        flows = dict(zip(labels, rows, strict=True))
        stays = dict(zip(labels, self.stays(), strict=True))
        return {"flows_": named_frame(flows, labels), "stays_": series(stays, "stays")}

    def certificate(
        self, n_columns: int, told: Sequence[str], groups: RowGroups | None
    ) -> ExchangeCertificate:
        """Return the certificate, without a fingerprint yet."""
        secret, budget = self.mechanism.secret, self.mechanism.budget
        units = np.ones(len(self.losses)) if budget.delta else self.mechanism.factors
        inside = [INSIDE] if secret.edges or secret.merged else []
        return ExchangeCertificate(
            epsilon=budget.epsilon,
            delta=budget.delta,
            loss=float((self.losses / units).max(initial=0.0)),
            pairs=tuple(self._pairs()),
            columns=(),
            assumptions=[*TAKEN, ALONE if groups is None else TOGETHER, *inside, *told],
            strategy="least change",
            noise="exchange",
            dependence="joint",
            n_rows=self.n_rows,
            rule=Refused(NO_MORE),
            groups=None if groups is None else groups.for_certificate(),
            prior="the list of rows with their secrets",
            n_columns=n_columns,
            version=__version__,
            date=utc_now(),
            utility=tuple(self.utility),
            exchange=self.facts(),
        )

    def _pairs(self) -> list[PairLoss]:
        """Return the loss of each pair, both ways: the larger one stands for each."""
        mechanism, losses = self.mechanism, []
        labels, (epsilon, delta, _) = mechanism.secret.labels, mechanism.budget
        each = zip(mechanism.pairs, mechanism.factors.tolist(), self.losses.tolist(), strict=True)
        for (s, t), d, upper in each:
            ends = max(delta or epsilon * d, upper), max(upper * (1.0 - 2.0**-23), 0.0), upper
            for first, second in ((s, t), (t, s)):
                of = mechanism.secret.name, labels[first], labels[second], 0
                losses.append(PairLoss(*of, *ends, "recomputed"))
        return losses

    def sizes(self) -> Array:
        """Return how many people have each secret."""
        return np.asarray(self.people.sum(axis=0))

    def stays(self) -> FloatArray:
        """Return the share of people of each secret who keep their own row, on average."""
        return np.asarray((np.diag(self.flows) - self.others) / np.maximum(self.sizes(), 1))

    def facts(self) -> ExchangeFacts:
        """Return what the swap does to rows."""
        mechanism, stays, people = self.mechanism, self.stays(), self.people
        insiders, labels = mechanism.budget.insiders, mechanism.secret.labels
        rows, n_secrets = people.sum(axis=1), (people > 0).sum(axis=1)
        rare = people[n_secrets > 1]

        def share(count: Any) -> float:
            return float(count / people.sum())

        return ExchangeFacts(
            stay=float(stays @ self.sizes() / people.sum()),
            kept=tuple(map(partial(Kept, mechanism.secret.name), labels, stays.tolist())),
            unchanged=not self.changes,
            insiders=insiders,
            insider_loss=None if insiders is None else self.insider_loss,
            rare=share(rare[rare == 2].sum()),
            matching=mechanism.matching,
            strata=tuple(map(mechanism.coarse.named, mechanism.strata)),
            n_strata=len(people),
            one_secret=share(rows[n_secrets == 1].sum()),
            alone=share((rows == 1).sum()),
            below_ten=share(rows[rows < 10].sum()),
            beyond=share(rows[self._beyond()].sum()),
            travelling=tuple(
                str(c.name) for c in mechanism.columns if c.name in mechanism.secret.names
            ),
            distances=tuple(np.repeat(mechanism.distances, 2).tolist()),
            merged=bool(mechanism.secret.merged),
        )

    def _beyond(self) -> Array:
        """Return which strata tell more than the budget by themselves."""
        table, beyond = self.sizes().astype(float), np.zeros(len(self.people), dtype=bool)
        factor = math.exp(min(self.mechanism.budget.epsilon, 600.0))
        for s, t in self.mechanism.pairs:
            one, two = self.people[:, s] * table[t], self.people[:, t] * table[s]
            beyond |= np.asarray((one > factor * two) | (two > factor * one))
        return beyond


def moved_utility(
    name: Name, values: Values, who: Array, what: Array, weight: FloatArray
) -> ColumnUtility:
    """Return what survives of one column, if some people receive some rows, and the rest their own.

    Parameters
    ----------
    name : str or int
    values : Values
    who, what : ndarray of int of shape (n_pairs,)
        People, and whose rows they receive.
    weight : ndarray of shape (n_pairs,)
        The share of all people for whom each pair stands.
    """
    unit = 1.0
    if values.kind in ("float", "integer"):
        numbers = present(values).astype(np.float64)
        unit = float(numbers[np.isfinite(numbers)].std()) if len(numbers) else 1.0
    changes = changes_of(values.taken(who), values.taken(what), unit or 1.0)
    changes, weights = np.append(changes, 0.0), np.append(weight, 1.0 - weight.sum())
    ones = np.ones(len(values))
    return measured_utility(name, unit or 1.0, changes, weights, values, ones)
