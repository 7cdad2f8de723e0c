"""What a swap by secrets guarantees, for which reader, and what it does to the rows, on average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    made_line,
    marked_risks,
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
    matched_sample,
)
from sklearn_puffer._tables import Name, Values

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
    matching : {"nearest", "random"}
    strata : tuple of str
        Columns that stay with people and that readers may know.
    n_strata : int
    one_secret, alone, below_ten, beyond : float
        Shares of people: in strata of one secret, of one person, of fewer than ten, and in strata
        whose odds of two secrets are beyond e^epsilon times those of the table.
    travelling : tuple of str
        Sensitive columns that are released with their rows.
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

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        if not self.holds:
            return super().promise()
        sensitive = sorted({shown(pair.sensitive) for pair in self.pairs})
        whose = f"secrets of {' or of '.join(sensitive)} of whoever holds a row"
        shift = self.notion.promise().replace("secrets", whose)
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
        stay = f"{self.facts.stay:.1%} of the people keep their own row, on average"
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
        'were not matched; matching="random" leaves only counts to tell.'
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
    "A person is one row: rows of one person or household tell more together.",
    "Released whole flows are drawn anew around the mean flows that are certified here, and are "
    "told nowhere.",
]
_NO_MORE = "two swaps of the same people undo each other; keep the first one."


# ------------------------------------------------------------------------------------ the figures


@dataclass(frozen=True, eq=False)
class Figures:
    """What is said of a swap of some rows: all of it from mean flows."""

    mechanism: RowExchange
    rows: SwapRows
    solved: Sequence[Solved]

    def certificate(
        self, sensitive: Name, n_columns: int, told: Sequence[str]
    ) -> ExchangeCertificate:
        """Return the certificate, without a fingerprint yet."""
        budget, n_rows = self.mechanism.budget, len(self.rows.codes)
        pairs = self._pairs(sensitive)
        return ExchangeCertificate(
            epsilon=budget.epsilon,
            delta=budget.delta,
            loss=max((pair.upper for pair in pairs), default=0.0),
            pairs=tuple(pairs),
            columns=(),
            assumptions=[*_TAKEN, *told],
            strategy="least change",
            noise="exchange",
            dependence="joint",
            n_rows=n_rows,
            rule=Refused(_NO_MORE),
            prior="the list of rows with their secrets",
            n_columns=n_columns,
            version=__version__,
            date=utc_now(),
            utility=tuple(self.utilities()),
            exchange=self.facts(sensitive),
        )

    def _pairs(self, sensitive: Name) -> list[PairLoss]:
        losses, budget = [], self.mechanism.budget
        labels = self.mechanism.secret.labels
        bound = budget.delta or budget.epsilon
        worst = dict.fromkeys(self.mechanism.pairs, 0.0)
        for each in self.solved:
            for s, t in worst:
                if s in each.secrets and t in each.secrets:
                    at = [(each.secrets.index(s), each.secrets.index(t))]
                    loss = (
                        outsider_delta(each.exchange, at, budget.epsilon)
                        if budget.delta
                        else outsider_loss(each.exchange, at)
                    )
                    worst[s, t] = max(worst[s, t], loss)
        for (s, t), upper in worst.items():
            for first, second in ((s, t), (t, s)):
                # the larger of both ways stands for each
                both = max(bound, upper), max(upper * (1.0 - 2.0**-40), 0.0)
                losses.append(
                    PairLoss(
                        sensitive, labels[first], labels[second], 0, *both, upper, "recomputed"
                    )
                )
        return losses

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

    def facts(self, sensitive: Name) -> ExchangeFacts:
        """Return what the swap does to rows."""
        mechanism, stays, sizes = self.mechanism, self.stays(), self.sizes()
        insiders = mechanism.budget.insiders
        labels = mechanism.secret.labels
        losses = (insider_loss(s.exchange, s.problem.insider_pairs) for s in self.solved)
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
            _utility(name, values, who, what, weight) for name, values in self.rows.columns.items()
        ]

    def _sample(self) -> tuple[Array, Array, FloatArray]:
        """Return people, the rows that such people receive, and for how many of all they stand."""
        grouped = self.rows.grouped()
        parts: list[tuple[Array, Array, FloatArray]] = []
        for each in (each for each in self.solved if each.moves):
            groups = each.groups(grouped)
            people = each.exchange.flows / ROW
            np.fill_diagonal(people, each.exchange.others / ROW)
            for a, b in np.argwhere(people > 0.0):
                pair = self._pair(groups[a], groups[b], float(people[a, b]), same=bool(a == b))
                if len(pair[0]):
                    share = people[a, b] / len(pair[0]) / len(self.rows.codes)
                    parts.append((*pair, np.full(len(pair[0]), share)))
        if not parts:
            return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0)
        who, what, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
        return who, what, weight

    def _pair(self, some: Array, others: Array, people: float, *, same: bool) -> Any:
        most = min(max(round(people), 1), PART)
        sample = self.rows.some(some, PART if same else most)
        if same:
            return (sample, np.roll(sample, 1)) if len(sample) > 1 else (sample[:0], sample[:0])
        sample_of_others = self.rows.some(others, most)
        if self.mechanism.matching == "random":
            size = min(len(sample), len(sample_of_others))
            return sample[:size], sample_of_others[:size]
        return matched_sample(sample, sample_of_others, self.rows)


@dataclass(frozen=True, eq=False)
class _Scale:
    """A column as numbers, or as codes without an order; NaN where a number is missing."""

    numbers: FloatArray
    unit: float
    ordered: bool

    @classmethod
    def of(cls, values: Values) -> _Scale:
        """Return a column: of what is no number, or infinite, each change counts one unit."""
        numbers = values.filled(-1 if values.levels is not None else 0).astype(np.float64)
        ordered = values.kind in ("float", "integer")
        if values.missing is not None:
            numbers[values.missing] = np.nan if ordered else -1.0
        numbers[np.isinf(numbers)] = np.nan
        there = numbers[~np.isnan(numbers)]
        return cls(numbers, (float(there.std()) if ordered and len(there) else 1.0) or 1.0, ordered)

    def constant(self) -> float:
        """Return the median of numbers, or the most frequent code."""
        there = np.sort(self.numbers[~np.isnan(self.numbers)])
        if self.ordered:
            return float(there[len(there) // 2]) if len(there) else math.nan
        kinds, counts = np.unique(there, return_counts=True)
        return float(kinds[counts.argmax()])

    def apart(self, some: Any, others: Any) -> FloatArray:
        """Return how far values are from others."""
        gone, other = np.isnan(some), np.isnan(others)
        changes = np.abs(some - others) if self.ordered else (some != others).astype(float)
        return np.where(gone | other, np.where(gone == other, 0.0, self.unit), changes)


def _utility(
    name: Name, values: Values, who: Array, what: Array, weight: FloatArray
) -> ColumnUtility:
    """Return what survives of one column, if some people receive some rows."""
    scale = _Scale.of(values)
    changes = scale.apart(scale.numbers[who], scale.numbers[what])
    constant = scale.apart(scale.numbers, scale.constant())
    order = np.argsort(changes, kind="stable")
    at_most = 1.0 - weight.sum() + np.cumsum(weight[order])  # after those who keep their own
    half = order[np.searchsorted(at_most[:-1], 0.5)] if weight.sum() > 0.5 else None
    return ColumnUtility(
        name=name,
        change=float(changes @ weight),
        change_sd=float(changes @ weight) / scale.unit,
        median_change=0.0 if half is None else float(changes[half]),
        unchanged=1.0 - float(weight[changes > 0.0].sum()),
        constant=float(constant.mean()),
        constant_sd=float(constant.mean()) / scale.unit,
        constant_median=float(np.median(constant)),
        constant_unchanged=float((constant == 0.0).mean()),
    )
