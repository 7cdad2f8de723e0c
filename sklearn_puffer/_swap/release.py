"""A table released by exchanging rows between people of different secrets, stratum by stratum.

Here a table is read (whose secret is which, who knows what of whom), its
flows are solved and held to the budget, whole flows are drawn, rows change hands, and all that is
said of it is said of mean flows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, product
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import (
    Array,
    FloatArray,
    IntArray,
    __version__,
    counted,
    digest,
    listed,
    utc_now,
)
from sklearn_puffer._losses import Exchange, insider_loss, outsider_delta, outsider_loss
from sklearn_puffer._release import (
    ColumnUtility,
    Draw,
    Fields,
    Kept,
    Keying,
    Lots,
    Mechanism,
    PairLoss,
    Points,
    Refused,
    Released,
    RowGroups,
    TableRules,
    Terms,
    UncertifiedError,
    Units,
    certificate_from_dict,
    check_first,
    check_one_secret,
    group_codes,
    joined,
    moved_utility,
    note,
    places_of,
    plain_tree,
    read_column,
    read_tree,
    written_column,
)
from sklearn_puffer._swap.certificate import (
    ALONE,
    INSIDE,
    NO_MORE,
    TAKEN,
    TOGETHER,
    ExchangeCertificate,
    ExchangeFacts,
    terms,
)
from sklearn_puffer._swap.exchange import PART, cut, exchanged
from sklearn_puffer._swap.program import (
    ROW,
    Budget,
    ExchangeProblem,
    Solved,
    least_exchange,
    mean_costs,
    meeting,
    most_pieces,
    sizes_of_pieces,
)
from sklearn_puffer._swap.whole_flows import drawn_flows
from sklearn_puffer._tables import (
    NO_SECRETS,
    Coarse,
    CodeArray,
    Column,
    Finished,
    Name,
    Secret,
    SecretRule,
    Table,
    Values,
    alike,
    first_values,
    row_digests,
    row_hashes,
    strata_of,
)

MOST_COMBINATIONS = 50
"""Secrets, or combinations of them, that rows are exchanged between."""

SHARD = 1 << 16
"""Rows of a stratum that are exchanged at once; more are cut at random."""

PEERS = 50
"""Rows of a part within which people exchange at random."""

_PIECES = 16  # by which changes are estimated
_PLAIN = ("ids", "strata", "group", "pairs", "distances", "matching")  # fields of an artifact


# ------------------------------------------------------------------------------------- the rows


@dataclass(frozen=True, eq=False)
class SwapRows:
    """The rows of a table as they were read, and what is exchanged: rows, or groups of them.

    Attributes
    ----------
    columns : dict of Values
        The values of each row.
    seen : list of ndarray of int64 of shape (n_rows,)
        All of a row that keyed choices depend on; the secret comes last.
    known : ndarray of int of shape (n_rows,)
        What is known of it, as a code.
    marks : ndarray of int64 of shape (n_rows,)
        A digest of its ids, or of all of it.
    group : ndarray of int of shape (n_rows,), or None
        The group of each row, where whole groups are exchanged.
    places : ndarray of int of shape (n_units, width)
        The rows of what is exchanged together, in the order of what is known of them.
    points : Points
        Of what is exchanged, as all below.
    codes, strata, digests : ndarray of int of shape (n_units,)
    """

    columns: Mapping[Name, Values]
    seen: Sequence[IntArray]
    known: IntArray
    marks: IntArray
    group: IntArray | None
    places: Array
    points: Points
    codes: IntArray
    strata: IntArray
    digests: IntArray

    @classmethod
    def of(
        cls,
        columns: Mapping[Name, Values],
        seen: Sequence[IntArray],
        known: IntArray,
        marks: IntArray,
        group: IntArray | None,
        points: Points,
    ) -> SwapRows:
        """Return rows, or groups of rows with one secret each."""
        rows = columns, seen, known, marks, group
        if group is None:
            alone = np.arange(len(marks))[:, None]
            return cls(*rows, alone, points, seen[-1], known, seen[0])
        places = places_of(group, known, seen[0])
        strata = np.unique(joined(known, places), axis=0, return_inverse=True)[1].ravel()
        digests = row_hashes(*joined(seen[0], places).T)
        codes = seen[-1][places[:, 0]]
        return cls(*rows, places, points.together(places), codes, strata, digests)

    def rows_of(self, received: Array, lots: Lots) -> Array:
        """Return whose row each row is released with, from the groups that groups receive.

        The rows of a group are dealt at random among those of whom the same is known.
        """
        if self.group is None:
            return received
        dealt = places_of(self.group, self.known, lots.ranks(len(self.group)))
        moved = received != np.arange(len(received))
        rows, there = np.arange(len(self.group)), dealt[moved] >= 0
        rows[dealt[moved][there]] = self.places[received[moved]][there]
        return rows

    def pairs_of_rows(self, who: Array, what: Array, weight: FloatArray) -> tuple[Array, ...]:
        """Return rows and those that they receive, and the share of all rows they stand for."""
        there = self.places[who] >= 0
        shares = np.broadcast_to(weight[:, None] * len(self.codes) / len(self.marks), there.shape)
        return self.places[who][there], self.places[what][there], shares[there]

    @cached_property
    def spread(self) -> IntArray:
        """Rows that are of equal values have different ones, in any order of the rows."""
        order = np.argsort(self.digests, kind="stable")
        ascending = self.digests[order]
        before = np.arange(len(order)) - np.searchsorted(ascending, ascending)
        hashes = np.empty(len(order), dtype=np.int64)
        hashes[order] = row_hashes(ascending, before)
        return hashes

    def some(self, rows: Array, most: int) -> Array:
        """Return at most so many of some rows, chosen and ordered by their content alone."""
        return rows[np.argsort(self.spread[rows], kind="stable")[:most]]

    def grouped(self, order: Array | None = None) -> dict[tuple[int, int], Array]:
        """Return the rows of each stratum and secret, in the order of the table or another one."""
        order = np.arange(len(self.codes)) if order is None else order
        rows = order[np.lexsort((self.codes[order], self.strata[order]))]
        keys = np.stack([self.strata[rows], self.codes[rows]], axis=1)
        starts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        groups = np.split(rows, starts)
        firsts = keys[np.concatenate([[0], starts])].tolist()
        return {(k, s): group for (k, s), group in zip(firsts, groups, strict=True)}


# --------------------------------------------------------------------------------- the mechanism


@dataclass(frozen=True, eq=False)
class RowExchange(Mechanism):
    """Exchanges the rows of a table between people of different secrets.

    Attributes
    ----------
    columns : list of Column
        What is exchanged: any value goes with its row, as it is.
    ids, strata : tuple of names
        What stays with people, and says nothing of them, or is known of them.
    coarse : Coarse
        What stands for known values.
    secret : SecretRule
    group : str, int or None
        The column of ids of rows that are exchanged together.
    pairs : tuple of tuple of int
        The protected pairs among its labels.
    distances : tuple of float
        By which the budget of each is multiplied; empty where it is one for all.
    measure : Units
    budget : Budget
    matching : {"nearest", "random"}
    """

    columns: list[Column]
    ids: tuple[Name, ...]
    strata: tuple[Name, ...]
    coarse: Coarse
    secret: SecretRule
    group: Name | None
    pairs: tuple[tuple[int, int], ...]
    distances: tuple[float, ...]
    measure: Units
    budget: Budget
    matching: str

    kind: ClassVar[str] = "exchange"
    by_row: ClassVar[bool] = False
    takes_secrets: ClassVar[bool] = True
    untested: ClassVar[str] = "rows are exchanged as they are, whatever their distribution."

    @property
    def released_columns(self) -> Sequence[Column]:
        """The columns that are exchanged."""
        return self.columns

    def read(self, table: Table, beside: Mapping[Name, Values] | None = None) -> SwapRows:
        """Return the rows of a table, with their secrets in it or beside it.

        Raises
        ------
        TypeError, ValueError
            If secrets are not there, were not seen in `fit`, or cannot be read.
        """
        codes = self.secret.codes(self.secret.columns(table, beside))
        columns = {column.name: first_values(table, column.name) for column in self.columns}
        return self.read_columns(columns, table, codes)

    def read_columns(
        self, columns: Mapping[Name, Values], table: Table, codes: IntArray
    ) -> SwapRows:
        """Return the rows of a table, whose columns and secrets were read before."""
        known = {name: self.coarse.of(name, first_values(table, name)) for name in self.strata}
        digests = row_digests(columns)
        of_known = np.broadcast_to(row_digests(known), table.n_rows)
        marks, group = row_hashes(digests, of_known, codes), None
        if self.ids:
            marks = row_digests({name: table.values(name) for name in self.ids})
        if self.group is not None:
            group = group_codes(table, self.group)
            check_one_secret(group, self.group, {" and ".join(map(str, self.secret.names)): codes})
        elif self.ids and len(np.unique(marks)) < len(marks):
            raise ValueError(
                f"{len(marks) - len(np.unique(marks))} row(s) have the ids "
                f"({listed(list(self.ids))}) of another one, and rows of one person tell more "
                "together; exchange them together (groups=), or name ids that tell people apart."
            )
        strata, points = strata_of(list(known.values()), table.n_rows), self.measure.points(columns)
        return SwapRows.of(columns, [digests, of_known, codes], strata, marks, group, points)

    def secret_of(self, rows: SwapRows) -> Secret:
        """Return the secret of each row."""
        return Secret(
            " and ".join(map(str, self.secret.names)), self.secret.labels, CodeArray(rows.seen[-1])
        )

    def solved(self, rows: SwapRows) -> list[Solved]:
        """Return the mean flows of each stratum, proven to be within the budget.

        Raises
        ------
        UncertifiedError
            If those of some stratum are not.
        """
        grouped = rows.grouped()
        secrets: dict[int, list[int]] = {}
        for stratum, secret in grouped:
            secrets.setdefault(stratum, []).append(secret)
        solved = [
            self._solved(stratum, there, grouped, rows)
            for stratum, there in counted(list(secrets.items()), "strata solved")
        ]
        if not all(each.holds() for each in solved):
            raise UncertifiedError(_NOT_WITHIN)
        return solved

    def _solved(
        self,
        stratum: int,
        secrets: list[int],
        grouped: Mapping[tuple[int, int], Array],
        rows: SwapRows,
    ) -> Solved:
        groups = [grouped[stratum, secret] for secret in secrets]
        people = np.array([len(group) for group in groups], dtype=np.int64)
        at = {secret: place for place, secret in enumerate(secrets)}
        there = [s in at and t in at for s, t in self.pairs]
        pairs = [(at[s], at[t]) for s, t in compress(self.pairs, there)]
        distances = [*compress(self.distances, there)]
        k = len(secrets)
        if not pairs:
            nobody = Exchange(people, np.diag(people * ROW), np.zeros(k, dtype=np.int64), ROW)
            problem = ExchangeProblem(people, np.zeros((k, k)), np.zeros(k), [], self.budget)
            solution = {tuple(people.tolist()): (problem, nobody)}
            return Solved(stratum, secrets, people, 1, 1, solution, [])
        shards, parts = self._cuts(people, min(distances, default=1.0))
        samples = self._samples(groups, rows, shards, parts)
        costs = mean_costs(samples, rows.points, nearest=self.matching == "nearest")
        budget = self.budget.share(shards * parts)
        solutions = {}
        for sizes in {*sizes_of_pieces(people, shards * parts)}:
            problem = ExchangeProblem(np.array(sizes), *costs, pairs, budget, distances, people)
            try:
                solutions[sizes] = problem, least_exchange(problem)
            except RuntimeError:
                raise UncertifiedError(_NOT_WITHIN) from None
        return Solved(stratum, secrets, people, shards, parts, solutions, samples)

    def _cuts(self, people: IntArray, least: float) -> tuple[int, int]:
        """Return into how many shards a stratum is cut, and into how many parts each of them."""
        most, n_rows = most_pieces(people, self.budget, least), int(people.sum())
        shards = min(max(n_rows // SHARD, 1), most)
        wanted = n_rows / (shards * PEERS) if self.matching == "parts" else 1.0
        parts = 1
        while parts * 2 <= most // shards and parts * math.sqrt(2.0) <= wanted:
            parts *= 2
        return shards, parts

    def _samples(
        self, groups: Sequence[Array], rows: SwapRows, shards: int, parts: int
    ) -> list[list[Array]]:
        """Return rows of each secret of some pieces, by their content alone."""
        if parts == 1:
            return [[rows.some(group, PART) for group in groups]]
        shard = [rows.some(group, len(group))[::shards] for group in groups]
        return cut(shard, rows.points.axes(), parts)[:: parts // _PIECES | 1]  # of all halves

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table in the caller's own type; its secrets are columns of it, or beside it."""
        return self.exchanged(table, rules, draw)[0], None

    def exchanged(
        self, table: Table, rules: TableRules, draw: Draw
    ) -> tuple[Any, SwapRows, list[Solved]]:
        """Return the released table, its rows as they were read, and the mean flows.

        Raises
        ------
        OverspentError
            If ``draw.by`` has released some of these people before.
        """
        rows = self.read(table, draw.secrets)
        if (rows.codes == rows.codes[0]).all():
            raise ValueError(NO_SECRETS)
        lots = Lots(rows.seen, rows.places, draw.keyed, draw.entropy)
        check_first(draw.by, rows.marks, lots.mark, by_ids=bool(self.ids))
        solved = self.solved(rows)
        whole = self.written(table, rules, rows.rows_of(self.permutation(rows, solved, lots), lots))
        note(draw.by, rows.marks, lots.mark)
        return whole, rows, solved

    def permutation(self, rows: SwapRows, solved: Sequence[Solved], lots: Lots) -> Array:
        """Return whose row each person receives."""
        received = np.arange(len(rows.codes))
        grouped = rows.grouped(lots.order)
        for each in counted([each for each in solved if each.moves], "strata exchanged"):
            groups = each.groups(grouped)
            for shard in range(each.shards):
                there = [group[shard :: each.shards] for group in groups]
                self._exchange(each, shard, there, rows, lots, received)
        return received

    def _exchange(
        self,
        solved: Solved,
        shard: int,
        groups: list[Array],
        rows: SwapRows,
        lots: Lots,
        received: Array,
    ) -> None:
        """Say whose rows the people of a shard receive, who are in random order."""
        parts = cut(groups, rows.points.axes(), solved.parts)
        flows = [solved.piece(shard + number * solved.shards)[1] for number in range(solved.parts)]
        told = [(each.sizes, each.flows, each.others) for each in flows]
        draws = lots.of(np.concatenate(groups), solved.people, told)
        for exchange, part in zip(flows, parts, strict=True):
            people = np.concatenate(part)
            ends = np.cumsum([len(group) for group in part])[:-1]
            costs = _Costs(rows.points, people).between if self.matching == "nearest" else None
            whole, moved = drawn_flows(exchange, draws)
            numbered = np.split(np.arange(len(people)), ends)
            received[people] = people[exchanged(numbered, whole, moved, costs, draws)]

    def written(self, table: Table, rules: TableRules, received: Array) -> Any:
        """Return a table with its rows exchanged, and equal values written alike."""
        moving = {column.name for column in self.columns}

        def column(name: Name) -> Finished:
            if name in {*self.coarse.bins, *self.coarse.merged}:
                values = self.coarse.of(name, first_values(table, name))
                return Finished(values.data, values.missing, values.levels, unit=values.unit)
            own = table.original(name, received if name in moving else None)
            return Finished(own if name in self.ids else alike(own), passed=True)

        return table.build({name: column(name) for name in rules.order})

    def terms(self, release: Any) -> Terms:
        """Return what a report says of an exchange."""
        return terms(release.certificate_.facts)

    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of how rows are exchanged, and of what else counts."""
        if certificate.noise != "exchange":
            return ""
        return digest("sklearn_puffer.exchange/1", self._told(), *about)

    def context(self, fingerprint: str, keying: Keying) -> str:
        """Return the digest of how rows are exchanged.

        Neither the name of the data set nor the certificate of other rows counts: the same people
        would be exchanged anew.
        """
        return digest("sklearn_puffer.exchange.keyed/1", self._told())

    def _told(self) -> list[Any]:
        names = [column.name for column in self.columns]
        read = self.secret
        secret = (read.names, dict(read.edges), read.missing, read.labels, read.merged)
        known = (self.coarse.bins, self.coarse.merged)
        units = (dict(self.measure.centres), dict(self.measure.spreads), dict(self.measure.given))
        rules = (self.pairs, self.distances, tuple(self.budget), self.matching)
        return [names, self.ids, self.strata, self.group, known, secret, units, rules]

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact."""
        secret, measure, coarse = self.secret, self.measure, self.coarse
        told = {
            **{name: getattr(self, name) for name in _PLAIN},
            "budget": tuple(self.budget),
            "bins": coarse.bins,
            "known": coarse.merged,
            **{name: getattr(secret, name) for name in ("names", "edges", "labels", "merged")},
            "missing": secret.missing,
            **{name: getattr(measure, name) for name in ("centres", "spreads", "given")},
        }
        columns = [written_column(column) for column in self.columns]
        return {"columns": columns, "exchange": plain_tree(told)}

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> RowExchange:
        """Return the mechanism whose fields were written."""
        told = Fields(record.read("exchange", dict), record.named("exchange"))
        read = {name: read_tree(value) for name, value in told.rest().items()}
        parts = (read.pop(name) for name in ("names", "edges", "missing", "labels", "merged"))
        return cls(
            columns=[read_column(column) for column in columns],
            coarse=Coarse(read.pop("bins"), read.pop("known")),
            secret=SecretRule(*parts),
            measure=Units(*(read.pop(name) for name in ("centres", "spreads", "given"))),
            budget=Budget(*read.pop("budget")),
            **read,
        )

    @classmethod
    def read_certificate(cls, record: Mapping[str, Any], *, awaited: bool) -> Any:
        """Return the certificate that ``to_dict`` wrote."""
        return certificate_from_dict(record, awaited=awaited, kind=ExchangeCertificate)


@dataclass(frozen=True, eq=False)
class _Costs:
    """Distances of people who are numbered anew."""

    points: Points
    people: Array

    def between(self, who: Array, what: Array) -> FloatArray:
        return self.points.between(self.people[who], self.people[what])


_NOT_WITHIN = (
    "no flows in whole parts of a row are within the budget, which is as small as their roundings; "
    "choose a larger epsilon."
)


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
                *TAKEN,
                *self._about(groups),
                *told,
            ],
            strategy="least change",
            noise="exchange",
            dependence="joint",
            n_rows=n_rows,
            rule=Refused(NO_MORE),
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
            coarse.append(INSIDE)
        return [ALONE if groups is None else TOGETHER, *coarse]

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
            for s, t, d in problem.apart()
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
            rare=self._share(lambda s: s[s == 2].sum() if len(s) > 1 else 0),
            matching=mechanism.matching,
            strata=tuple(map(mechanism.coarse.named, mechanism.strata)),
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

    def _beyond(self) -> float:
        """Return the share of people in strata that tell more than the budget by themselves."""
        table, factor, count = self.sizes(), math.exp(min(self.mechanism.budget.epsilon, 600.0)), 0
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
                met = meeting(sample, a, b, self.rows.points, most, nearest=nearest)
                share = people[a, b] / (max(len(met[0]), 1) * len(each.samples) * n_rows)
                parts.append((*met, np.full(len(met[0]), share)))
        if not parts:
            return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0)
        who, what, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.rows.pairs_of_rows(who, what, weight)
