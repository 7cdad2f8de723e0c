"""The mechanism: rows are exchanged between people of different secrets, stratum by stratum.

A table is read, its mean flows are solved and checked against the budget, whole flows are drawn,
and rows are exchanged. All figures of a release are those of mean flows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import product
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, counted
from sklearn_puffer._certificates import (
    ColumnUtility,
    UncertifiedError,
    changes_of,
    measured_utility,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._codes import Coarse, Column, SecretRule
from sklearn_puffer._documents import Fields, digest, plain_tree, read_tree
from sklearn_puffer._losses import Exchange, together
from sklearn_puffer._numerics import combinations_of
from sklearn_puffer._release import (
    Draw,
    FittedMechanism,
    Keying,
    Mechanism,
    Released,
    TableRules,
    Terms,
    read_column,
    written_column,
)
from sklearn_puffer._rows import (
    RowOrder,
    check_one_secret,
    group_codes,
    order_told,
    rows_of,
)
from sklearn_puffer._swap.certificate import ExchangeCertificate, certified
from sklearn_puffer._swap.exchange import (
    PART,
    ROW,
    Budget,
    ExchangeProblem,
    StratumProblem,
    cut,
    drawn_flows,
    exchange_rows,
    least_exchange,
    matched_sample,
    mean_costs,
    most_pieces,
    sizes_of_piece,
)
from sklearn_puffer._swap.rows import EngineRows, RowChoices, SwapRows, Units, moments, once
from sklearn_puffer._tables import (
    LARGEST_DIGEST,
    Finished,
    Name,
    Table,
    Values,
    alike,
    first_values,
    id_values,
    row_digests,
    row_hashes,
)
from sklearn_puffer._words import listed

MOST_COMBINATIONS = 50
"""The most secrets, or combinations of them."""

PEERS = 50
"""Rows in a part with ``matching="parts"``."""

_PIECES = 16  # parts, at most about so many, by which changes are estimated
# fields of an artifact: plain ones, and those that consist of several fields
_PLAIN = ("ids", "strata", "group", "pairs", "distances", "matching")
_VALUES: dict[str, Any] = {"coarse": Coarse, "secret": SecretRule, "measure": Units}


@dataclass(frozen=True, eq=False)
class Solved:
    """The mean flows of a shard; most strata are one shard.

    Attributes
    ----------
    stratum : StratumProblem
    groups : list of Array
        The rows of the shard by secret, in random order.
    flows : list of Exchange
        The flows of each part.
    exchange : Exchange
        The sum over parts.
    losses : ndarray of shape (2, n_pairs)
        The losses of each pair to outsiders and to insiders, in the worst part; or the delta of
        the stratum.
    samples : list of list of Array
        Rows of each secret in some parts, from which changes are estimated.
    """

    stratum: StratumProblem
    groups: Sequence[Array]
    flows: Sequence[Exchange]
    exchange: Exchange
    losses: FloatArray
    samples: Sequence[Sequence[Array]]

    @property
    def moves(self) -> bool:
        """Whether anybody receives another person's row."""
        flows = self.exchange.flows
        return bool(self.exchange.others.any() or (flows != np.diag(np.diag(flows))).any())


# --------------------------------------------------------------------------------- the mechanism


@dataclass(frozen=True, eq=False)
class RowExchange(Mechanism):
    """Exchanges the rows of a table between people of different secrets.

    Attributes
    ----------
    columns : list of Column
        The columns that are exchanged, unchanged.
    ids, strata : tuple of names
        Columns that stay with people: those that say nothing of them, and known ones.
    coarse : Coarse
        How known values are coarsened.
    secret : SecretRule
    group : str, int or None
        The column of ids of groups.
    pairs : tuple of tuple of int
        The protected pairs, as indices of the labels of ``secret``.
    distances : tuple of float
        The distance of each pair, which multiplies its budget; empty if all are 1.
    measure : Units
    budget : Budget
    matching : {"nearest", "parts", "random"}
    people : tuple of names
        With groups: the ids by which a person in several groups is found.
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
    people: tuple[Name, ...] = ()

    kind: ClassVar[str] = "exchange"
    by_row: ClassVar[bool] = False
    takes_secrets: ClassVar[bool] = True
    certificate: ClassVar[type[ExchangeCertificate]] = ExchangeCertificate
    #: The most rows of a shard; larger strata are cut at random.
    shard: ClassVar[int] = 1 << 16
    untested: ClassVar[str] = (
        'on_drift="raise" is for columns that noise releases, and rows are exchanged whatever '
        'their distribution; pass on_drift="ignore".'
    )

    @property
    def factors(self) -> FloatArray:
        """The distance of each pair."""
        return np.array(self.distances or [1.0] * len(self.pairs))

    @property
    def released_columns(self) -> Sequence[Column]:
        """The columns that are exchanged."""
        return self.columns

    def read(self, table: Table, beside: Mapping[Name, Values] | None = None) -> SwapRows:
        """Return the rows of a table, with their secrets in it or beside it.

        Raises
        ------
        TypeError, ValueError
            If secrets are absent, were not seen in `fit`, or cannot be read.
        """
        secret = self.secret.found(table, beside)
        codes = secret.codes(table.n_rows)
        columns = {column.name: first_values(table, column.name) for column in self.columns}
        known = {name: self.coarse.of(name, first_values(table, name)) for name in self.strata}
        digests = row_digests(columns)
        of_known = np.broadcast_to(row_digests(known), table.n_rows)
        marks, group = row_hashes(digests, of_known, codes) & LARGEST_DIGEST, None
        if self.ids:
            marks = row_digests({name: id_values(table, name) for name in self.ids})
        if self.group is not None:
            group = group_codes(table, self.group)
            check_one_secret(group, self.group, {secret.name: codes})
        strata = combinations_of([x.ranks() for x in known.values()], table.n_rows)
        seen = [digests, of_known, codes]
        points = self.measure.points(columns)
        return SwapRows(columns, secret, seen, strata, marks, group, points)

    def whole(self, table: Table, beside: Mapping[Name, Values] | None) -> SwapRows:
        """Return the rows of a whole table, if no person has several rows or groups."""
        rows = self.read(table, beside)
        self.check_alone(len(np.unique(rows.marks)), len(rows.marks))
        if not self.people:
            return rows
        marks = row_digests({name: id_values(table, name) for name in self.people})
        n_people, n_places = len(np.unique(marks)), len(np.unique([marks, rows.group], axis=1).T)
        if n_people < n_places:
            raise ValueError(
                f"ids ({listed(self.people)}) stand in {n_places - n_people} more group(s) than "
                "one each, and groups of one person tell more together; put these in one group, "
                f"or, if ids are numbers within a group, name {self.group!r} in ids= as well."
            )
        return rows

    def check_alone(self, n_marks: int, n_rows: int) -> None:
        """Refuse rows that share their ids with others, unless groups are exchanged."""
        if self.ids and self.group is None and n_marks < n_rows:
            raise ValueError(
                f"{n_rows - n_marks} row(s) have the ids "
                f"({listed(list(self.ids))}) of another one, and rows of one person tell more "
                "together; exchange them together (groups=), or name ids that tell people apart."
            )

    def solved(
        self, rows: SwapRows, order: Any = None, cuts: Any = None, shards: Any = None
    ) -> list[Solved]:
        """Return the mean flows of each shard of each stratum, proven to be within the budget.

        Parameters
        ----------
        rows : SwapRows
        order : ndarray of int, optional
            A random order of the units, by which they are cut into shards.
        cuts : mapping of `Cut`, optional
            Strata, by their digests, of which the rows are some shards.
        shards : ndarray of int64 of shape (n_rows,), optional
            The shard of each row in such strata.

        Raises
        ------
        UncertifiedError
            If those of some shard exceed it.
        """
        every = np.arange(len(rows.codes))
        order = rows.some(every, len(every)) if order is None else order
        solved: list[Solved] = []
        for shard, groups in counted(rows.grouped(order, shards), "strata solved"):
            stratum = int(rows.seen[1][next(iter(groups.values()))[0]])
            if cut := (cuts or {}).get(stratum):
                solved.append(self._solved(rows, cut.stratum, *cut.piece(shard, groups)))
                continue
            problem = self.problem([*groups], np.array([*map(len, groups.values())]))
            each = zip(*(np.array_split(x, problem.shards) for x in groups.values()), strict=True)
            solved += [self._solved(rows, problem, n, piece) for n, piece in enumerate(each)]
        return solved

    def problem(self, secrets: Sequence[int], people: IntArray) -> StratumProblem:
        """Return the problem of a stratum, by its people of each secret."""
        at = {secret: place for place, secret in enumerate(secrets)}
        every = zip(self.pairs, self.factors.tolist(), strict=True)
        pairs = [(at[s], at[t], apart) for (s, t), apart in every if s in at and t in at]
        if not pairs:
            return StratumProblem(secrets, people, pairs, 1, 1)
        least = min(apart for *_, apart in pairs)
        most, n_rows = most_pieces(people, self.budget, least), int(people.sum())
        shards, parts = min(max(n_rows // self.shard, 1), most), 1
        wanted = n_rows / (shards * PEERS) if self.matching == "parts" else 1.0
        while parts * 2 <= most // shards and parts * math.sqrt(2.0) <= wanted:
            parts *= 2
        return StratumProblem(secrets, people, pairs, shards, parts)

    def _solved(
        self, rows: SwapRows, stratum: StratumProblem, shard: int, groups: Sequence[Array]
    ) -> Solved:
        """Return the checked flows of a shard of a stratum."""
        secrets, people, pairs, shards, parts = stratum
        samples = self._samples(groups, rows, parts) if pairs else []
        nearest = self.matching == "nearest"
        costs = mean_costs(samples, len(secrets), rows.points, nearest=nearest)
        numbers = range(shard, shards * parts, shards)
        sizes = [sizes_of_piece(people, shards * parts, n) for n in numbers]
        unlike, which, often = np.unique(sizes, axis=0, return_inverse=True, return_counts=True)
        budget, flows, found = self.budget.share(shards * parts), [], []
        for size in unlike:
            problem = ExchangeProblem(size, *costs, pairs, budget, people)
            flows.append(least_exchange(problem))
            if not problem.holds(flows[-1]):
                raise UncertifiedError(_NOT_WITHIN)
            found.append(problem.losses(flows[-1]))
        losses = np.max(found, axis=0)
        if budget.delta:  # delta adds up over all parts of all shards
            each = np.array(found)[:, 0] * (shards * often)[:, None]
            losses[0] = each.sum(axis=0) * (1.0 + 2.0**-45)
        of_parts = [flows[at] for at in which.ravel()]
        whole = together(of_parts, sizes_of_piece(people, shards, shard))
        return Solved(stratum, groups, of_parts, whole, losses, samples)

    def _samples(self, groups: Sequence[Array], rows: SwapRows, parts: int) -> list[list[Array]]:
        """Return rows of each secret in some parts of a shard, chosen by their content alone."""
        whole = [rows.some(group, PART if parts == 1 else len(group)) for group in groups]
        # an odd step takes parts from both halves of each cut
        return cut(whole, rows.points, parts)[:: parts // _PIECES | 1]

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return the exchanged table in the caller's own type; secrets are in it, or in ``draw``.

        Raises
        ------
        OverspentError
            If ``draw.by`` has released some of these people before.
        """
        rows = self.whole(table, draw.secrets)
        self.secret.check_several(rows.codes)
        choices = RowChoices(rows, draw.keyed, draw.entropy)
        with once(draw.by, rows.marks, choices.mark, by_ids=bool(self.ids)):
            solved = self.solved(rows, choices.order)
            received = rows.rows_of(self.permutation(rows, solved, choices), solved, choices)
            whole = self.written(table, rules, received)
        self._certify(draw.by, self.order(table, rows).sentences(), *self.told(rows, solved))
        return whole, None

    def order(self, table: Table, rows: SwapRows) -> RowOrder:
        """Return what the order of the rows, and of their ids, reveals of secrets."""
        ids = {name: id_values(table, name).ranks() for name in self.ids}
        about = ids, rows.seen[2], rows.known, rows.group
        return order_told(rows_of(table, None), [rows.secret], *about)

    def _certify(
        self, by: Any, told: Sequence[str], people: IntArray, figures: Sequence[str]
    ) -> None:
        """Give what has released rows the certificate of these, instead of that of fitted ones."""
        before, told = by._fitted, [*by._told_of_settings(), *told]
        about = before.certificate.n_columns, told, before.rules.groups
        by._recertified(*certified(self, *about, people, figures))

    def permutation(self, rows: SwapRows, solved: Sequence[Solved], choices: RowChoices) -> Array:
        """Return the unit that each unit receives; those of a shard are in random order."""
        received = np.arange(len(rows.codes))
        points = rows.points if self.matching == "nearest" else None
        for each in counted([each for each in solved if each.moves], "strata exchanged"):
            parts = cut(each.groups, rows.points, len(each.flows))
            flows = [(flow.sizes, flow.flows, flow.others) for flow in each.flows]
            draws = choices.of(np.concatenate(each.groups), each.stratum.people, flows)
            for flow, part in zip(each.flows, parts, strict=True):
                exchange_rows(received, part, *drawn_flows(flow, draws), points, draws)
        return received

    def told(self, rows: SwapRows, solved: Sequence[Solved]) -> tuple[IntArray, list[str]]:
        """Return the people of each stratum and secret, and the figures of all rows."""
        people = np.zeros((rows.strata.max() + 1, len(self.secret.labels)), dtype=np.int64)
        np.add.at(people, (rows.strata, rows.codes), 1)
        return people, [self.figures(rows, solved)]

    def figures(self, rows: SwapRows, solved: Sequence[Solved]) -> str:
        """Return the figures of some rows as JSON; see `certified`."""
        k, pairs = len(self.secret.labels), np.array(self.pairs).reshape(-1, 2)
        flows, others, losses = np.zeros((k, k)), np.zeros(k), np.zeros((2, len(pairs)))
        changes = False
        for each in solved:
            secrets = each.stratum.secrets
            flows[np.ix_(secrets, secrets)] += each.exchange.flows / ROW
            others[secrets] += each.exchange.others / ROW
            if each.moves:  # somebody may receive a row that differs from his own
                places = rows.places[np.concatenate(each.groups)]
                digests = rows.seen[0][places[places >= 0]]
                changes |= bool((digests != digests[0]).any())
            there = np.isin(pairs, secrets).all(axis=1)
            losses[:, there] = np.maximum(losses[:, there], each.losses)
        # rounded up, so that neither shards nor solvers change the fingerprint
        steps = (self.budget.delta or self.budget.epsilon * self.factors) * 2.0**-24
        figures = {
            "n_rows": len(rows.marks),
            "flows": flows.tolist(),
            "others": others.tolist(),
            "losses": np.maximum(np.ceil(losses[0] / steps) * steps, losses[0]).tolist(),
            "insiders": float((losses[1] / self.factors).max(initial=0.0)),
            "changes": changes,
            "utility": [astuple(each)[1:] for each in _utilities(self, rows, solved)],
        }
        return json.dumps(figures)

    def planned(self, by: Any, fitted: FittedMechanism, X: Any, keying: Keying) -> Any:
        """Return the release of a lazy table as a lazy table."""
        rows = EngineRows.keyed(fitted, X, keying)
        plan = rows.plan(by)
        self._certify(by, [*RowOrder().sentences(), *rows.told()], *rows.figures())
        return plan

    def written(self, table: Table, rules: TableRules, received: Array) -> Any:
        """Return a table with its rows exchanged, and equal values in one form."""
        moving = {column.name for column in self.columns}

        def column(name: Name) -> Finished:
            if name in {*self.coarse.bins, *self.coarse.known}:
                values = self.coarse.of(name, first_values(table, name))
                return Finished(values.data, values.missing, values.levels, unit=values.unit)
            own = table.original(name, received if name in moving else None)
            own = own if name in self.ids else alike(own)
            return Finished(own, passed=True, fresh=name in moving)

        return table.build({name: column(name) for name in rules.order})

    def terms(self, release: Any) -> Terms:
        """Return the terms of the release for a report."""
        facts = release.certificate_.exchange
        open_to_insiders = facts.insiders is None
        insiders = facts.about_insiders(release.certificate_.who)
        nobodys = (
            " There are no ids: unless the index says whose row is whose, leaving the secret out "
            "and shuffling the rows is the same release."
        )
        distance = "Epsilon is the budget at distance 1; pairs have it times their distance."
        sizes = "Sizes of groups, and which rows are in one, stay and are known."
        return Terms(
            name="a swap",
            how="exchanged with its row, or kept with it",
            about="some people exchange whole rows, missing values with them, and others, often "
            "most, keep their own; every row of the table is released with somebody",
            granted=(
                "The reader knows what is named above, and nothing else about a row.",
                "It is assumed that ids, order and index tell nothing of secrets and values (whose "
                "a row is they may)." + nobodys * (not self.ids and not self.strata),
                "A person is one row, or in one group of rows that are exchanged together.",
                *([] if release.certificate_.groups is None else [sizes]),
                "The table is exchanged once: two swaps together tell more than either.",
                *([distance] if facts.distances else []),
            ),
            left_out=[*([insiders] if open_to_insiders else []), *facts.not_covered()],
            whole="Who gets the whole file is covered, and may hold the list of its rows with all "
            "secrets, but NO other fact of a person." + f" {insiders}" * (not open_to_insiders),
            again="these people once: keep this table, never exchange again",
            beyond=", but NOT for people in the table" * open_to_insiders
            + say.BY_THEMSELVES * bool(self.strata),
            known=self.strata,
            coarse=[*self.coarse.bins, *self.coarse.known],
            ids=self.ids,
            apart=bool(facts.distances),
            limit=", for secrets at distance 1" * bool(facts.distances),
        )

    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of the mechanism, and of ``about``."""
        if certificate.noise != "exchange":
            return ""
        return digest("sklearn_puffer.exchange/1", self._told(), *about)

    def context(self, fingerprint: str, keying: Keying) -> str:
        """Return the digest of the mechanism, the context of keyed choices.

        Neither the name of the data set nor the certificate counts: they would make a second,
        different swap of the same people.
        """
        return digest("sklearn_puffer.exchange.keyed/1", self._told())

    def _told(self) -> list[Any]:
        rules = (self.pairs, self.distances, tuple(self.budget), self.matching)
        read = (tuple(vars(each).values()) for each in (self.coarse, self.secret, self.measure))
        names = [column.name for column in self.columns]
        return [names, self.ids, self.strata, self.group, *read, rules]

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact."""
        told = {name: getattr(self, name) for name in _PLAIN} | vars(self.secret)
        told |= vars(self.measure) | {"budget": tuple(self.budget)} | vars(self.coarse)
        told |= {"people": self.people} if self.people else {}  # files of before have none
        columns = [written_column(column) for column in self.columns]
        return {"columns": columns, "exchange": plain_tree(told)}

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> RowExchange:
        """Return the mechanism that was written."""
        told = Fields(record.read("exchange", dict), record.named("exchange"))
        read = {name: read_tree(value) for name, value in told.rest().items()}
        values = {
            name: kind(**{each.name: read.pop(each.name) for each in fields(kind)})
            for name, kind in _VALUES.items()
        }
        budget = Budget(*read.pop("budget"))
        return cls(columns=[*map(read_column, columns)], budget=budget, **values, **read)


_NOT_WITHIN = (
    "no flows in whole fractions of a row are within the budget, which is as small as their "
    "rounding errors; choose a larger epsilon."
)


# ------------------------------------------------------------------------------------ the figures


def _utilities(
    mechanism: RowExchange, rows: SwapRows, solved: Sequence[Solved]
) -> list[ColumnUtility]:
    """Return the utility of each column, estimated from matched samples of the rows."""
    parts = [(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0))]
    n_rows, points = len(rows.codes), rows.points if mechanism.matching == "nearest" else None
    for each in (each for each in solved if each.moves):
        people, samples = each.exchange.flows / ROW, each.samples
        np.fill_diagonal(people, each.exchange.others / ROW)
        met = []
        for sample, (a, b) in product(samples, np.argwhere(people > 0.0).tolist()):
            at_once = people[a, b] / (1 + (a == b))  # a half within a secret
            most = min(max(round(at_once), 1), PART)
            met.append((people[a, b], *matched_sample(sample, a, b, most, points)))
        if rows.group is not None:  # members exchange rows in groups that stay, too
            stay = np.diag(each.exchange.flows - np.diag(each.exchange.others)) / ROW
            stays = product(samples, enumerate(stay))
            met += [(groups, sample[a], sample[a]) for sample, (a, groups) in stays]
        for n, who, what in met:
            share = n / (max(len(who), 1) * len(samples) * n_rows)
            parts.append((who, what, np.full(len(who), share)))
    moved = map(np.concatenate, zip(*parts, strict=True))
    who, what, weight = rows.pairs_of_rows(*moved)
    weights, found = np.append(weight, 1.0 - weight.sum()), []  # the rest keep their own
    for name, values in rows.columns.items():
        unit = (moments(values)[1] if values.kind in ("float", "integer") else 1.0) or 1.0
        changes = np.append(changes_of(values.taken(who), values.taken(what), unit), 0.0)
        every = np.ones(len(values))
        found.append(measured_utility(name, unit, changes, weights, values, every))
    return found
