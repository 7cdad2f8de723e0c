"""The certificate of a swap: what it guarantees to which reader, and figures of mean flows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._certificates import (
    Certificate,
    ColumnUtility,
    Guaranteed,
    Made,
    Method,
    PairLoss,
    Proof,
    Refused,
    utility_section,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._documents import Section, jsonable
from sklearn_puffer._engines import CHANGED
from sklearn_puffer._rows import RowGroups
from sklearn_puffer._tables import Name, named_frame, series
from sklearn_puffer._words import listed, quoted, shown, times
from sklearn_puffer.notions import Pufferfish

_OF_DISTANCE = ", to the power of their distance"


@dataclass(frozen=True)
class Kept:
    """The share of the people with one secret who keep their own row."""

    sensitive: Name
    secret: Any
    share: float


@dataclass(frozen=True)
class ExchangeFacts:
    """Facts of a swap, by its mean flows, and of its strata.

    Attributes
    ----------
    stay : float
        The share of people who keep their own row, on average.
    unchanged : bool
        Whether no release can differ from the table.
    insiders, insider_loss : float or None
        The budget of insiders, and the loss to them; None if they are left out.
    rare : float
        The share of people whose secret just one other person of their stratum has: what they learn
        of that person if they find their own row with somebody is not bounded. All shares are of
        groups, if groups are exchanged.
    matching : {"nearest", "parts", "random"}
    strata : tuple of str
        Columns that stay with people and that readers may know.
    n_strata : int
    one_secret, alone, below_ten, beyond : float
        The shares of people in strata with one secret, with one person, with fewer than ten, and in
        strata whose odds of a pair differ from the table's by more than a factor of e^epsilon.
    distances : tuple of float
        The distance of each pair, which multiplies its budget; empty if all are 1. Losses are per
        unit of distance.
    kept : tuple of Kept
        ``stay`` by secret.
    """

    RETIRED: ClassVar[tuple[str, ...]] = ("travelling", "merged")

    stay: float
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
    distances: tuple[float, ...] = ()
    kept: tuple[Kept, ...] = ()

    def about_insiders(self, who: str = "people") -> str:
        """Return what insiders may learn of each other, whatever the rows are.

        ``who`` may be "groups".
        """
        if self.insiders is None:
            return "Not covered: insiders. Who finds the own row may learn that person's secret."
        return (
            "An insider, who is in the table and finds his own row with somebody, its holder, "
            f"shifts the odds about the holder at most {times(self.insiders)}"
            f"{_OF_DISTANCE if self.distances else ''}, if he goes by nothing else (not by the row "
            f"he holds himself). Of two {who} who alone have a secret, each learns that the holder "
            "has another."
        )

    def proven_of_insiders(self, who: str) -> str:
        """Return what is proven of the limit for insiders, and how many are two with a secret."""
        if self.insiders is None:
            return ""
        pairs = f", and a share of {self.rare:.2g} of the {who} are such two"
        shift = times(self.insider_loss or 0.0)
        return f"; proven of insiders: {shift}{pairs if self.rare > 0.0 else ''}"

    def not_covered(self) -> list[str]:
        """Return what the guarantee does not cover, a line each."""
        told = [
            "what a person in the table infers about third parties, from rows not matched.",
            "a second swap of the same people: both tell more together than either; keep this one.",
            "who knows one more fact (or label) of a person that is not named as known: no limit, "
            "as he sees if the row is that person's own; with a list he may be nearly certain.",
        ]
        told = told if self.matching == "nearest" else told[1:]
        return [f"Not covered: {sentence}" for sentence in told]


@dataclass(frozen=True, kw_only=True)
class ExchangeCertificate(Certificate):
    """The certificate of a swap.

    Attributes
    ----------
    exchange : ExchangeFacts

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True: let people be exchangeable within their stratum
    given the list of all rows with their secrets, so that order, index and ids tell nothing. For a
    reader who has this list, the mean flows and this procedure, and sees the whole released table,
    the holder of a row of secret b has secret s with probability F(s, b) / n_b. So the log odds of
    no person differ by more than the budget from those of the shares in the stratum, whatever model
    of the rows the reader has, and under any rule by which rows are matched.
    """

    exchange: ExchangeFacts

    @property
    def facts(self) -> ExchangeFacts:
        """The facts of the swap."""
        return self.exchange

    @property
    def holds(self) -> bool:
        """Whether the proven loss of each pair is within its own budget."""
        distances = self.exchange.distances
        if not distances or self.delta:
            return super().holds
        budgets = zip(self.pairs, distances, strict=True)
        return all(pair.upper <= self.epsilon * d for pair, d in budgets)

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        if not self.holds:
            return super().promise()
        holder = f" of the {'group' if self.groups else 'person'} with whom a row is released"
        power = _OF_DISTANCE if self.exchange.distances else ""
        same = self._staying.replace("the size of the group", "size")
        where = f"among {self.who} of the same {same}" if same else "in the table"
        return (
            "Whoever holds the list of all rows with their secrets, but not which person each row "
            f"belongs to, and sees the whole released table, can {self._shift(holder)}{power}, "
            f"against the shares of secrets {where}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        return {**super().to_dict(), "exchange": jsonable(asdict(self.exchange))}

    @property
    def _staying(self) -> str:
        """What strata are given by: the size of a group, and known columns."""
        known = listed(self.exchange.strata, 100)
        return known if self.groups is None else f"the size of the group{known and ' and '}{known}"

    @property
    def who(self) -> str:
        """Who exchange rows: "people" or "groups"."""
        return "people" if self.groups is None else "groups"

    def _what_changes(self) -> list[str]:
        facts, who = self.exchange, self.who
        known = (
            f"What stays ({self._staying}) tells by itself: {facts.one_secret:.1%} of the {who} "
            f"are in strata ({who} of whom the same stays) of one secret, {facts.alone:.1%} alone "
            f"in theirs, {facts.below_ten:.1%} in strata below 10, {facts.beyond:.1%} in strata "
            "whose odds are beyond e^epsilon of the table's."
        )
        moves = f"{facts.stay:.1%} of the {who} keep their own rows, on average"
        if not facts.unchanged:
            most = max(self.utility, key=lambda column: column.change_sd)
            mean = np.mean([column.change_sd for column in self.utility])
            moves += (
                f"; a column changes by {mean:.3g} standard deviations, {shown(most.name)} most "
                f"({most.change_sd:.3g})"
            )
        told = [facts.about_insiders(who), f"{moves}{facts.proven_of_insiders(who)}."]
        return [*told, *([known] if self._staying else []), *facts.not_covered()]

    _told_below = _what_changes

    def _risks(self) -> list[str]:
        return []

    def _decisions(self, ids: Sequence[Name]) -> list[str]:
        """Return that one more fact of a person shows the own row, and what ids are."""
        return say.about_own_rows(self.exchange.stay, ids, self.utility[0].name)

    def _kept(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        alone = say.about_one_secret(self.exchange.one_secret, self.who)
        return f"{verdict} for readers who hold the list of rows with their secrets{alone}"

    def _sections(self) -> list[Section]:
        about = "shares of people on average over releases; those of one release are never told"
        kept = []
        for each in self.exchange.kept:
            parts = each.secret if isinstance(each.secret, tuple) else (each.secret,)
            kept.append([" and ".join(map(quoted, parts)), f"{each.share:.1%}"])
        return [
            Section("Who keeps the own row", about, [["secret", "stays"], *kept]),
            utility_section(self.utility),
            self._pairs_section(
                "recomputed from average numbers of exchanged rows, without the solver"
            ),
            Section("Assumptions", sentences=self.assumptions),
        ]


def _assumptions(mechanism: Any, together: RowGroups | None) -> list[str]:
    """Return the assumptions that apply, by how groups and known columns are read."""
    told = [
        "Ids, order and index say nothing of a row (numbers given by date do: name what they say "
        "as known).",
        "The released table has the rows of the original one, so it tells the shares of secrets "
        "with whatever its columns tell of them; the guarantee is against those shares.",
        "How many rows go from secret to secret on average is certified here, and readers may know "
        "it; how many really go is drawn anew for each release, and told nowhere.",
    ]
    if together is None:
        told.append(
            "A person is one row: rows of one person or household tell more together, unless they "
            "are exchanged as groups."
        )
    else:
        told.append(
            "A person is in one group. Sizes of groups, and which rows are in one, stay and are "
            "known. The rows of a group have one secret, and go at random to members of the other "
            "group of whom the same is known; those of a group that stays are dealt among its own "
            "members, too."
        )
    return [*told, *say.about_finer([*mechanism.coarse.bins, *mechanism.coarse.known])]


# ------------------------------------------------------------------------------------ the figures


def certified(
    mechanism: Any,
    n_columns: int,
    told: Sequence[str],
    together: RowGroups | None,
    people: IntArray,
    texts: Sequence[str],
) -> tuple[ExchangeCertificate, dict[str, Any]]:
    """Return the certificate, without a fingerprint, and the fitted attributes of mean flows.

    Parameters
    ----------
    mechanism : RowExchange
    n_columns, told, together
        Columns of the table, further assumptions, and the groups that are exchanged.
    people : ndarray of int of shape (n_strata, n_secrets)
        People of each secret in each stratum.
    texts : sequence of str
        The figures of each part of the table: `RowExchange.figures`.
    """
    parts = [json.loads(each) for each in sorted(texts)]
    each = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    flows, losses = each["flows"].sum(axis=0), each["losses"].max(axis=0)
    if round(flows.sum()) != people.sum():
        raise ValueError(CHANGED)
    secret, budget, sizes = mechanism.secret, mechanism.budget, people.sum(axis=0)
    stays = (np.diag(flows) - each["others"].sum(axis=0)) / np.maximum(sizes, 1)
    facts = ExchangeFacts(
        stay=float(stays @ sizes / people.sum()),
        kept=tuple(map(partial(Kept, secret.name), secret.labels, stays.tolist())),
        unchanged=not each["changes"].any(),
        insiders=budget.insiders,
        insider_loss=None if budget.insiders is None else float(each["insiders"].max()),
        matching=mechanism.matching,
        strata=tuple(map(mechanism.coarse.named, mechanism.strata)),
        n_strata=len(people),
        distances=tuple(np.repeat(mechanism.distances, 2).tolist()),
        **_of_strata(mechanism, people),
    )
    units = np.ones(len(losses)) if budget.delta else mechanism.factors
    with np.errstate(over="ignore"):  # an overflow is infinite
        changes = np.average(each["utility"], 0, each["n_rows"]).tolist()
    utility = zip(mechanism.columns, changes, strict=True)
    loss, pairs = float((losses / units).max(initial=0.0)), tuple(_pairs(mechanism, losses))
    rule = Refused("two swaps of the same people tell more than either; keep the first one.")
    notion, prior = Pufferfish(budget.epsilon, budget.delta), "the list of rows with their secrets"
    certificate = ExchangeCertificate(
        Guaranteed(notion, prior, groups=together),
        Proof(loss, pairs, rule),
        Method("least change", "exchange"),
        Made.now(int(each["n_rows"].sum()), n_columns),
        [*_assumptions(mechanism, together), *told],
        utility=tuple(ColumnUtility(column.name, *change) for column, change in utility),
        exchange=facts,
    )
    shares, labels = flows / np.maximum(sizes, 1)[:, None], secret.labels
    rows = {a: dict(zip(labels, row, strict=True)) for a, row in zip(labels, shares, strict=True)}
    stay = series(dict(zip(labels, stays, strict=True)), "stays")
    counts = {(secret.name, label): n for label, n in zip(labels, sizes.tolist(), strict=True)}
    shown = {"flows_": named_frame(rows, labels), "stays_": stay, "_secret_rows": counts}
    return certificate, shown


def _pairs(mechanism: Any, losses: FloatArray) -> list[PairLoss]:
    """Return the loss of each pair in both directions, the larger of them for either."""
    found, secret, (epsilon, delta, _) = [], mechanism.secret, mechanism.budget
    each = zip(mechanism.pairs, mechanism.factors.tolist(), losses.tolist(), strict=True)
    for (s, t), d, upper in each:
        ends = max(delta or epsilon * d, upper), max(upper * (1.0 - 2.0**-23), 0.0), upper
        for first, second in ((s, t), (t, s)):
            of = secret.name, secret.labels[first], secret.labels[second], 0
            found.append(PairLoss(*of, *ends, "recomputed"))
    return found


def _of_strata(mechanism: Any, people: IntArray) -> dict[str, float]:
    """Return the shares of people in strata that tell much by themselves."""
    rows, n_secrets, table = people.sum(axis=1), (people > 0).sum(axis=1), people.sum(axis=0)
    several, beyond = people[n_secrets > 1], np.zeros(len(people), dtype=bool)
    factor = math.exp(min(mechanism.budget.epsilon, 600.0))
    for s, t in mechanism.pairs:
        one, two = people[:, s] * float(table[t]), people[:, t] * float(table[s])
        beyond |= np.asarray((one > factor * two) | (two > factor * one))
    counts = {
        "rare": several[several == 2].sum(),
        "one_secret": rows[n_secrets == 1].sum(),
        "alone": (rows == 1).sum(),
        "below_ten": rows[rows < 10].sum(),
        "beyond": rows[beyond].sum(),
    }
    return {name: float(count / people.sum()) for name, count in counts.items()}
