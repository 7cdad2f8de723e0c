"""What a swap by secrets guarantees, for which reader, and what it does to the rows, on average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    Array,
    FloatArray,
    Page,
    Section,
    __version__,
    listed,
    short_number,
    shown,
    utc_now,
)
from sklearn_puffer._losses import insider_loss, outsider_delta, outsider_loss
from sklearn_puffer._release import (
    Certificate,
    ColumnUtility,
    Kept,
    PairLoss,
    Refused,
    RowGroups,
    made_line,
    marked_risks,
    moved_utility,
    pair_cells,
    plain_record,
    utility_section,
)
from sklearn_puffer._swap.exchange import PART
from sklearn_puffer._swap.program import LEAST_PEOPLE, ROW
from sklearn_puffer._swap.release import (
    RowExchange,
    Solved,
    SwapRows,
    label_of,
    meeting,
)
from sklearn_puffer._tables import Name

_MANY_ALONE = 0.05  # people in strata of one secret, of whom the headline tells


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
        The share of people whose secret fewer than three have, in their stratum: no insiders'
        budget holds for them.
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
        sensitive = sorted({shown(pair.sensitive) for pair in self.pairs})
        holder = "whoever holds a row" if self.groups is None else "the group that holds a row"
        whose = f"secrets of {' or of '.join(sensitive)} of {holder}"
        shift = self.notion.promise().replace("secrets", whose)
        if self.facts.distances:
            shift += ", to the power of their distance"
        shares = "the table"
        if self.facts.strata:
            shares = f"the stratum, which is given by {_every(self.facts.strata)}"
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

    def _first_screen(self) -> Page:
        of = f" of {shown(self.name)}" if self.name else ""
        lines = [
            self.promise(),
            _insiders(self.facts),
            *self._what_changes(),
            *([_strata(self.facts)] if self.facts.strata else []),
            *(f"Risk: {risk}" for risk in marked_risks(self.assumptions)[:1]),
            *not_covered(self.facts),
            f"Budget: {self.notion.budget_name()}; proven loss {short_number(self.loss)}.",
            made_line(self.version, self.date, f"{self.n_rows} rows", self.n_columns),
            f"certificate_.details() has losses and {len(self.assumptions)} assumptions.",
        ]
        return Page(f"Certificate{of}: {self._kept()}", lines, [])

    def _what_changes(self) -> list[str]:
        who = "people keep their own row" if self.groups is None else "groups keep their own rows"
        stay = f"{self.facts.stay:.1%} of the {who}, on average"
        if self.facts.unchanged:
            return [f"{stay}."]
        most = max(self.utility, key=lambda column: column.change_sd)
        mean = np.mean([column.change_sd for column in self.utility])
        return [
            f"{stay}; a column changes by {mean:.3g} standard deviations, {shown(most.name)} most "
            f"({most.change_sd:.3g})."
        ]

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

    def _beyond(self) -> str:
        return ""

    def _told_below(self) -> list[str]:
        facts = self.facts
        known = [_strata(facts)] if facts.strata else []
        return [_insiders(facts), *self._what_changes(), *known, *not_covered(facts)]

    def _sections(self) -> list[Section]:
        kept = [[label_of(each.secret), f"{each.share:.1%}"] for each in self.facts.kept]
        return [
            Section(
                "Who keeps the own row",
                "shares of people by mean flows; those of a release are never told",
                [["secret", "stays"], *kept],
            ),
            utility_section(self.utility),
            Section(
                f"Worst pairs of secrets (of {len(self.pairs)})",
                "recomputed from mean flows in whole numbers, without the solver",
                pair_cells(self._worst()),
            ),
            Section("Assumptions", sentences=self.assumptions),
        ]


def _every(names: Sequence[Any]) -> str:
    return listed(list(names), len(names))


def _insiders(facts: ExchangeFacts) -> str:
    if facts.insiders is None or facts.insider_loss is None:
        return (
            "Not covered: insiders. Who finds the own row with somebody else may learn the "
            "holder's secret; insiders= bounds that."
        )
    rare = ""
    if facts.rare:
        rare = (
            f", but for the {facts.rare:.2g} of the people whose secret fewer than three have in "
            "their stratum"
        )
    return (
        "An insider who finds the own row with somebody, and knows nothing else, shifts the odds "
        f"about the holder by at most e^{facts.insiders:g} (proven "
        f"{short_number(facts.insider_loss)}){rare}."
    )


def _strata(facts: ExchangeFacts) -> str:
    return (
        f"{_every(facts.strata)} stay with people and tell by themselves: {facts.one_secret:.1%} "
        f"of the people are in strata of one secret, {facts.alone:.1%} alone in theirs, "
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


_TAKEN = [
    "Ids, order and index say nothing of a row (numbers given by date do: name what they say in "
    "known=).",
    "The released table has the rows of the original one, so it tells the shares of secrets with "
    "whatever its columns tell of them; the guarantee is against those shares.",
    "Released whole flows are drawn anew around the mean flows that are certified here, and are "
    "told nowhere.",
]
_ALONE = (
    "A person is one row: rows of one person or household tell more together; groups= exchanges "
    "them together."
)
_TOGETHER = (
    "Sizes of groups, and which rows are in one, stay and are known. The rows of a group have one "
    "secret, and go at random to members of the other group of whom the same is known."
)
_INSIDE = (
    "Secrets are bins or merged values: within one of them rows may stay, and exact numbers or "
    "merged values are not protected from each other."
)
_NO_MORE = "two swaps of the same people undo each other; keep the first one."


# ------------------------------------------------------------------------------------ the figures


@dataclass(frozen=True, eq=False)
class Figures:
    """What is said of a swap of some rows: all of it from mean flows."""

    mechanism: RowExchange
    rows: SwapRows
    solved: Sequence[Solved]

    def certificate(
        self, sensitive: Name, n_columns: int, told: Sequence[str], groups: RowGroups | None
    ) -> ExchangeCertificate:
        """Return the certificate, without a fingerprint yet."""
        budget, n_rows = self.mechanism.budget, len(self.rows.marks)
        pairs, distances = self._pairs(sensitive), np.repeat(self._distances(), 2).tolist()
        units = distances if not budget.delta else [1.0] * len(pairs)
        return ExchangeCertificate(
            epsilon=budget.epsilon,
            delta=budget.delta,
            loss=max((pair.upper / d for pair, d in zip(pairs, units, strict=True)), default=0.0),
            pairs=tuple(pairs),
            columns=(),
            assumptions=[
                *_TAKEN,
                *self._about(groups),
                *told,
            ],
            strategy="least change",
            noise="exchange",
            dependence="joint",
            n_rows=n_rows,
            rule=Refused(_NO_MORE),
            groups=None if groups is None else groups.for_certificate(),
            prior="the list of rows with their secrets",
            n_columns=n_columns,
            version=__version__,
            date=utc_now(),
            utility=tuple(self.utilities()),
            exchange=self.facts(sensitive, distances if self.mechanism.distances else []),
        )

    def _about(self, groups: RowGroups | None) -> list[str]:
        """Return what is said of groups, and of secrets in bins, or that were merged."""
        secret, coarse = self.mechanism.secret, []
        if secret.edges or secret.merged:
            coarse.append(_INSIDE)
        return [_ALONE if groups is None else _TOGETHER, *coarse]

    def _pairs(self, sensitive: Name) -> list[PairLoss]:
        """Return the loss of each pair, both ways: the larger one stands for each."""
        mechanism, losses = self.mechanism, []
        labels, (epsilon, delta, _) = mechanism.secret.labels, mechanism.budget
        for (s, t), d in zip(mechanism.pairs, self._distances(), strict=True):
            upper = 0.0
            for each in self.solved:
                if s in each.secrets and t in each.secrets:
                    pair = each.secrets.index(s), each.secrets.index(t)
                    upper = max(upper, self._loss(each, [pair], epsilon * d))
            ends = max(delta or epsilon * d, upper), max(upper * (1.0 - 2.0**-40), 0.0), upper
            for first, second in ((s, t), (t, s)):
                of = sensitive, labels[first], labels[second], 0
                losses.append(PairLoss(*of, *ends, "recomputed"))
        return losses

    def _distances(self) -> Sequence[float]:
        return self.mechanism.distances or [1.0] * len(self.mechanism.pairs)

    def _loss(self, solved: Solved, pair: Sequence[tuple[int, int]], epsilon: float) -> float:
        """Return the loss of a pair in a stratum: the worst one of its pieces, or all delta."""
        if not self.mechanism.budget.delta:
            return max(outsider_loss(exchange, pair) for _, exchange, _ in solved.pieces)
        parts = (n * outsider_delta(each, pair, epsilon) for _, each, n in solved.pieces)
        return math.fsum(parts) * (1.0 + 2.0**-45)

    def flows(self) -> FloatArray:
        """Return how many people of each secret receive rows of each, on average."""
        n = len(self.mechanism.secret.labels)
        total = np.zeros((n, n))
        for each in self.solved:
            total[np.ix_(each.secrets, each.secrets)] += each.exchange.flows / ROW
        return total

    def stays(self) -> FloatArray:
        """Return the share of people of each secret who keep their own row, on average."""
        kept = np.zeros(len(self.mechanism.secret.labels))
        for each in self.solved:
            kept[each.secrets] += (np.diag(each.exchange.flows) - each.exchange.others) / ROW
        return np.asarray(kept / np.maximum(self.sizes(), 1))

    def sizes(self) -> Array:
        """Return how many people have each secret."""
        return np.bincount(self.rows.codes, minlength=len(self.mechanism.secret.labels))

    def facts(self, sensitive: Name, distances: Sequence[float]) -> ExchangeFacts:
        """Return what the swap does to rows."""
        mechanism, stays, sizes = self.mechanism, self.stays(), self.sizes()
        insiders = mechanism.budget.insiders
        labels = mechanism.secret.labels
        losses = (
            insider_loss(exchange, [(s, t)]) / d
            for each in self.solved
            for problem, exchange, _ in each.pieces
            for s, t, d in problem.inside()
        )
        return ExchangeFacts(
            stay=float(stays @ sizes / sizes.sum()),
            kept=tuple(
                Kept(sensitive, label, float(share))
                for label, share in zip(labels, stays, strict=True)
            ),
            unchanged=not any(map(self._changes, self.solved)),
            insiders=insiders,
            insider_loss=None if insiders is None else max(losses, default=0.0),
            rare=self._share(lambda s: self._rare(s)),
            matching=mechanism.matching,
            strata=tuple(map(str, mechanism.strata)),
            n_strata=len(self.solved),
            one_secret=self._share(lambda s: s.sum() if len(s) == 1 else 0),
            alone=self._share(lambda s: s.sum() if s.sum() == 1 else 0),
            below_ten=self._share(lambda s: s.sum() if s.sum() < 10 else 0),
            beyond=self._beyond(),
            travelling=tuple(
                str(c.name) for c in mechanism.columns if c.name in mechanism.secret.names
            ),
            distances=tuple(distances),
            merged=bool(mechanism.secret.merged),
        )

    def _changes(self, solved: Solved) -> bool:
        """Return whether somebody may receive a row that is not equal to the own one."""
        if not solved.moves:
            return False
        digests = self.rows.digests[self.rows.strata == solved.stratum]
        return bool((digests != digests[0]).any())

    def _share(self, of: Any) -> float:
        counts = [int(of(each.exchange.sizes)) for each in self.solved]
        return sum(counts) / len(self.rows.codes)

    @staticmethod
    def _rare(sizes: Array) -> int:
        return int(sizes[sizes < LEAST_PEOPLE].sum()) if len(sizes) > 1 else 0

    def _beyond(self) -> float:
        """Return the share of people in strata that tell more than the budget by themselves."""
        table, factor, count = self.sizes(), math.exp(self.mechanism.budget.epsilon), 0
        for each in self.solved:
            sizes = np.zeros(len(table))
            sizes[each.secrets] = each.exchange.sizes
            for s, t in self.mechanism.pairs:
                one, two = sizes[s] * table[t], sizes[t] * table[s]
                if one > factor * two or two > factor * one:
                    count += int(each.exchange.sizes.sum())
                    break
        return count / len(self.rows.codes)

    # ---------------------------------------------------------------------------- what survives

    def utilities(self) -> list[ColumnUtility]:
        """Return what survives of each column, estimated from matched samples of the rows."""
        who, what, weight = self._sample()
        return [
            moved_utility(name, values, who, what, weight)
            for name, values in self.rows.columns.items()
        ]

    def _sample(self) -> tuple[Array, ...]:
        """Return people, the rows that such people receive, and for how many of all they stand."""
        parts: list[tuple[Array, Array, FloatArray]] = []
        nearest, n_rows = self.mechanism.matching == "nearest", len(self.rows.codes)
        for each in (each for each in self.solved if each.moves):
            people = each.exchange.flows / ROW
            np.fill_diagonal(people, each.exchange.others / ROW)
            for sample, (a, b) in product(each.samples, np.argwhere(people > 0.0).tolist()):
                most = min(max(round(people[a, b]), 1), PART)
                met = meeting(sample, a, b, self.rows, most, nearest=nearest)
                share = people[a, b] / (max(len(met[0]), 1) * len(each.samples) * n_rows)
                parts.append((*met, np.full(len(met[0]), share)))
        if not parts:
            return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0)
        who, what, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.rows.pairs_of_rows(who, what, weight)
