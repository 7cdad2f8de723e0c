"""A table released by exchanging rows between people of different secrets, stratum by stratum.

Here a table is read (whose secret is which, who knows what of whom), its
flows are solved and held to the budget, whole flows are drawn, rows change hands, and all that is
said of it is said of mean flows.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import compress, product
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, counted
from sklearn_puffer._certificates import (
    ColumnUtility,
    UncertifiedError,
    changes_of,
    measured_utility,
)
from sklearn_puffer._codes import CodeArray, Column, Secret, resolve
from sklearn_puffer._documents import Fields, digest, plain_tree, read_tree
from sklearn_puffer._losses import Exchange, together
from sklearn_puffer._release import (
    Draw,
    FittedMechanism,
    Keying,
    Mechanism,
    Released,
    TableRules,
    Terms,
    certificate_from_dict,
    read_column,
    written_column,
)
from sklearn_puffer._rows import RowOrder, check_one_secret, group_codes, order_told, rows_of
from sklearn_puffer._swap.certificate import ExchangeCertificate, certified, terms
from sklearn_puffer._swap.exchange import (
    PART,
    ROW,
    Budget,
    ExchangeProblem,
    StratumProblem,
    cut,
    drawn_flows,
    exchanged,
    least_exchange,
    mean_costs,
    meeting,
    most_pieces,
    sizes_of_piece,
)
from sklearn_puffer._swap.rows import EngineRows, Lots, SwapRows, Units, check_first, moments, note
from sklearn_puffer._swap.secrets import NO_SECRETS, Coarse, SecretRule
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
"""Secrets, or combinations of them, that rows are exchanged between."""

PEERS = 50
"""Rows of a part within which people exchange at random."""

_PIECES = 16  # by which changes are estimated
# fields of an artifact: those that are plain, and those that are values of several fields
_PLAIN = ("ids", "strata", "group", "pairs", "distances", "matching")
_VALUES: dict[str, Any] = {"coarse": Coarse, "secret": SecretRule, "measure": Units}


@dataclass(frozen=True, eq=False)
class Solved:
    """The mean flows of a shard of a stratum, which most strata are in one.

    Attributes
    ----------
    stratum : StratumProblem
    groups : list of Array
        The rows of the shard by secret, in random order.
    flows : list of Exchange
        Of each part.
    exchange : Exchange
        Of all parts together, checked to be those of the shard's people in whole numbers.
    losses : ndarray of shape (2, n_pairs)
        What outsiders learn of each pair, and insiders: in the worst part, or all delta of the
        stratum.
    samples : list of list of Array
        Rows of each secret of some parts, by which changes are estimated.
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
    #: Rows of a stratum that are exchanged at once; more are cut at random.
    shard: ClassVar[int] = 1 << 16
    untested: ClassVar[str] = "rows are exchanged as they are, whatever their distribution."

    @property
    def factors(self) -> FloatArray:
        """By what the budget of each pair is multiplied."""
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
            If secrets are not there, were not seen in `fit`, or cannot be read.
        """
        codes = self.secret.codes(self.secret.columns(table, beside))
        columns = {column.name: first_values(table, column.name) for column in self.columns}
        known = {name: self.coarse.of(name, first_values(table, name)) for name in self.strata}
        digests = row_digests(columns)
        of_known = np.broadcast_to(row_digests(known), table.n_rows)
        marks, group = row_hashes(digests, of_known, codes) & LARGEST_DIGEST, None
        if self.ids:
            marks = row_digests({name: id_values(table, name) for name in self.ids})
        if self.group is not None:
            group = group_codes(table, self.group)
            check_one_secret(group, self.group, {self.secret.name: codes})
        strata, points = _strata_of(known, table.n_rows), self.measure.points(columns)
        return SwapRows.of(points, (columns, [digests, of_known, codes], strata, marks, group))

    def check_people(self, table: Table, rows: SwapRows, named: Any) -> None:
        """Refuse people of several rows, or groups, that would be exchanged each by itself.

        ``named`` is what the steward calls the ids of people, or None.
        """
        self.check_alone(len(np.unique(rows.marks)), len(rows.marks))
        if named is None or rows.group is None:
            return
        ids = resolve(named, table.names, "ids")
        marks = row_digests({name: id_values(table, name) for name in ids})
        n_people, n_places = len(np.unique(marks)), len(np.unique([marks, rows.group], axis=1).T)
        if n_people < n_places:
            raise ValueError(
                f"ids ({listed(ids)}) stand in {n_places - n_people} more group(s) than one each, "
                "and the groups of one person tell more together; put these in one group, or, if "
                f"ids are numbers within a group, name {self.group!r} in ids= as well."
            )

    def check_alone(self, n_marks: int, n_rows: int) -> None:
        """Refuse rows that share their ids with others, unless these are exchanged together."""
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
            A random order, by which they are cut into shards.
        cuts : mapping of `Cut`, optional
            By their digests, strata of which these rows are some shards.
        shards : ndarray of int64 of shape (n_rows,), optional
            The shard of each row of these.

        Raises
        ------
        UncertifiedError
            If those of some shard are not.
        """
        every = np.arange(len(rows.codes))
        order = rows.some(every, len(every)) if order is None else order
        solved: list[Solved] = []
        for shard, groups in counted(rows.grouped(order, shards), "strata solved"):
            stratum = int(rows.seen[1][next(iter(groups.values()))[0]])
            if cut := (cuts or {}).get(stratum):
                solved += self._solved(cut.stratum, [cut.piece(shard, groups)], rows)
                continue
            problem = self.problem([*groups], np.array([*map(len, groups.values())]))
            pieces = (np.array_split(group, problem.shards) for group in groups.values())
            solved += self._solved(problem, enumerate(zip(*pieces, strict=True)), rows)
        return solved

    def problem(self, secrets: Sequence[int], people: IntArray) -> StratumProblem:
        """Return what is to be solved for a stratum of so many people of each secret."""
        at = {secret: place for place, secret in enumerate(secrets)}
        both = [s in at and t in at for s, t in self.pairs]
        pairs = [(at[s], at[t]) for s, t in compress(self.pairs, both)]
        distances = [*compress(self.distances, both)]
        shards, parts = self._cuts(people, min(distances, default=1.0)) if pairs else (1, 1)
        return StratumProblem(secrets, people, pairs, distances, shards, parts)

    def _solved(
        self, stratum: StratumProblem, pieces: Iterable[tuple[int, Sequence[Array]]], rows: SwapRows
    ) -> Iterator[Solved]:
        """Yield the flows of some shards of a stratum, each of which the checker has seen."""
        secrets, people, pairs, distances, shards, parts = stratum
        budget, nearest = self.budget.share(shards * parts), self.matching == "nearest"
        for shard, groups in pieces:
            samples = self._samples(groups, rows, parts) if pairs else []
            costs = mean_costs(samples, len(secrets), rows.points, nearest=nearest)
            numbers = range(shard, shards * parts, shards)
            sizes = [tuple(sizes_of_piece(people, shards * parts, n).tolist()) for n in numbers]
            flows, told = {}, []
            counts = Counter(sizes)
            for size in counts:
                problem = ExchangeProblem(np.array(size), *costs, pairs, budget, distances, people)
                flows[size] = least_exchange(problem)
                if not problem.holds(flows[size]):
                    raise UncertifiedError(_NOT_WITHIN)
                told.append(problem.told(flows[size]))
            losses = np.max(told, axis=0)
            if self.budget.delta:  # which adds up: of a shard as often as there are shards
                each = np.array([shards * count for count in counts.values()])
                losses[0] = (np.array(told)[:, 0] * each[:, None]).sum(axis=0) * (1.0 + 2.0**-45)
            whole = together(
                [(flows[size], count) for size, count in counts.items()],
                sizes_of_piece(people, shards, shard),
            )
            yield Solved(stratum, groups, [flows[size] for size in sizes], whole, losses, samples)

    def _cuts(self, people: IntArray, least: float) -> tuple[int, int]:
        """Return into how many shards a stratum is cut, and into how many parts each of them."""
        most, n_rows = most_pieces(people, self.budget, least), int(people.sum())
        shards = min(max(n_rows // self.shard, 1), most)
        wanted = n_rows / (shards * PEERS) if self.matching == "parts" else 1.0
        parts = 1
        while parts * 2 <= most // shards and parts * math.sqrt(2.0) <= wanted:
            parts *= 2
        return shards, parts

    def _samples(self, groups: Sequence[Array], rows: SwapRows, parts: int) -> list[list[Array]]:
        """Return rows of each secret of some parts of a shard, by their content alone."""
        if parts == 1:
            return [[rows.some(group, PART) for group in groups]]
        whole = [rows.some(group, len(group)) for group in groups]
        return cut(whole, rows.points, parts)[:: parts // _PIECES | 1]  # of all halves

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table in the caller's own type; its secrets are columns of it, or beside it.

        Raises
        ------
        OverspentError
            If ``draw.by`` has released some of these people before.
        """
        rows = self.read(table, draw.secrets)
        # of a saved swap it is not known which of its ids are those of people
        self.check_people(table, rows, getattr(draw.by, "ids", None))
        if (rows.codes == rows.codes[0]).all():
            raise ValueError(NO_SECRETS)
        lots = Lots(rows, draw.keyed, draw.entropy)
        check_first(draw.by, rows.marks, lots.mark, by_ids=bool(self.ids))
        solved = self.solved(rows, lots.order)
        received = rows.rows_of(self.permutation(rows, solved, lots), solved, lots)
        whole = self.written(table, rules, received)
        note(draw.by, rows.marks, lots.mark)
        secrets = Secret(self.secret.name, self.secret.labels, CodeArray(rows.seen[-1]))
        order = order_told(rows_of(table, None), [secrets])

        def told(*about: Any) -> Any:
            return certified(self, self.people(rows), [self.figures(rows, solved)], *about)

        draw.by._tell(told, order.sentences())
        return whole, None

    def permutation(self, rows: SwapRows, solved: Sequence[Solved], lots: Lots) -> Array:
        """Return whose row each person receives; the people of a shard are in random order."""
        received = np.arange(len(rows.codes))
        for each in counted([each for each in solved if each.moves], "strata exchanged"):
            parts = cut(each.groups, rows.points, len(each.flows))
            told = [(flow.sizes, flow.flows, flow.others) for flow in each.flows]
            draws = lots.of(np.concatenate(each.groups), each.stratum.people, told)
            for flow, part in zip(each.flows, parts, strict=True):
                people = np.concatenate(part)
                numbered = np.split(np.arange(len(people)), np.cumsum([*map(len, part)])[:-1])
                points = rows.points.taken(people)
                costs = points.between if self.matching == "nearest" else None
                whose = exchanged(numbered, *drawn_flows(flow, draws), costs, draws, points)
                received[people] = people[whose]
        return received

    def people(self, rows: SwapRows) -> IntArray:
        """Return how many people have each secret, by strata."""
        people = np.zeros((rows.strata.max() + 1, len(self.secret.labels)), dtype=np.int64)
        np.add.at(people, (rows.strata, rows.codes), 1)
        return people

    def figures(self, rows: SwapRows, solved: Sequence[Solved]) -> str:
        """Return the figures of some rows as JSON; see `certified`."""
        k, pairs = len(self.secret.labels), np.array(self.pairs).reshape(-1, 2)
        flows, others, losses = np.zeros((k, k)), np.zeros(k), np.zeros((2, len(pairs)))
        for each in solved:
            secrets = each.stratum.secrets
            flows[np.ix_(secrets, secrets)] += each.exchange.flows / ROW
            others[secrets] += each.exchange.others / ROW
            there = np.isin(pairs, secrets).all(axis=1)
            losses[:, there] = np.maximum(losses[:, there], each.losses)
        # in whole parts of the budget, so that no cut and no solver changes the fingerprint
        parts = (self.budget.delta or self.budget.epsilon * self.factors) * 2.0**-24
        told = {
            "n_rows": len(rows.marks),
            "flows": flows.tolist(),
            "others": others.tolist(),
            "losses": np.maximum(np.ceil(losses[0] / parts) * parts, losses[0]).tolist(),
            "insiders": float((losses[1] / self.factors).max(initial=0.0)),
            "changes": any(_changes(rows, each) for each in solved),
            "utility": [astuple(each)[1:] for each in _utilities(self, rows, solved)],
        }
        return json.dumps(told)

    def planned(self, by: Any, fitted: FittedMechanism, X: Any, keying: Keying) -> Any:
        """Return the release of a lazy table as a lazy table."""
        rows = EngineRows.keyed(fitted, X, keying)
        plan = rows.plan(by)
        told = [*RowOrder().sentences(), *rows.told()]
        by._tell(lambda *about: certified(self, *rows.figures(), *about), told)
        return plan

    def written(self, table: Table, rules: TableRules, received: Array) -> Any:
        """Return a table with its rows exchanged, and equal values written alike."""
        moving = {column.name for column in self.columns}

        def column(name: Name) -> Finished:
            if name in {*self.coarse.bins, *self.coarse.known}:
                values = self.coarse.of(name, first_values(table, name))
                return Finished(values.data, values.missing, values.levels, unit=values.unit)
            own = table.original(name, received if name in moving else None)
            return Finished(
                own if name in self.ids else alike(own), passed=True, fresh=name in moving
            )

        return table.build({name: column(name) for name in rules.order})

    def terms(self, release: Any) -> Terms:
        """Return what a report says of an exchange."""
        return terms(release.certificate_.facts, self.strata, self.ids)

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
        known = (self.coarse.bins, self.coarse.known)
        units = (dict(self.measure.centres), dict(self.measure.spreads), dict(self.measure.given))
        rules = (self.pairs, self.distances, tuple(self.budget), self.matching)
        return [names, self.ids, self.strata, self.group, known, secret, units, rules]

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact."""
        told = {name: getattr(self, name) for name in _PLAIN} | vars(self.secret)
        told |= vars(self.measure) | {"budget": tuple(self.budget)} | vars(self.coarse)
        columns = [written_column(column) for column in self.columns]
        return {"columns": columns, "exchange": plain_tree(told)}

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> RowExchange:
        """Return the mechanism whose fields were written."""
        told = Fields(record.read("exchange", dict), record.named("exchange"))
        read = {name: read_tree(value) for name, value in told.rest().items()}
        values = {
            name: kind(**{each.name: read.pop(each.name) for each in fields(kind)})
            for name, kind in _VALUES.items()
        }
        budget = Budget(*read.pop("budget"))
        return cls(columns=[*map(read_column, columns)], budget=budget, **values, **read)

    @classmethod
    def read_certificate(cls, record: Mapping[str, Any], *, awaited: bool) -> Any:
        """Return the certificate that ``to_dict`` wrote."""
        return certificate_from_dict(record, awaited=awaited, kind=ExchangeCertificate)


_NOT_WITHIN = (
    "no flows in whole parts of a row are within the budget, which is as small as their roundings; "
    "choose a larger epsilon."
)


# ------------------------------------------------------------------------------------ the figures


def _changes(rows: SwapRows, solved: Solved) -> bool:
    """Return whether somebody may receive a row that is not equal to the own one."""
    places = rows.places[np.concatenate(solved.groups) if solved.moves else [0]]
    digests = rows.seen[0][places[places >= 0]]
    return solved.moves and bool((digests != digests[0]).any())


def _utilities(
    mechanism: RowExchange, rows: SwapRows, solved: Sequence[Solved]
) -> list[ColumnUtility]:
    """Return what survives of each column, estimated from matched samples of the rows."""
    parts: list[tuple[Array, Array, FloatArray]] = []
    nearest, n_rows = mechanism.matching == "nearest", len(rows.codes)
    for each in (each for each in solved if each.moves):
        people = each.exchange.flows / ROW
        np.fill_diagonal(people, each.exchange.others / ROW)
        for sample, (a, b) in product(each.samples, np.argwhere(people > 0.0).tolist()):
            at_once = people[a, b] / (1 + (a == b))  # within a secret, by halves
            most = min(max(round(at_once), 1), PART)
            met = meeting(sample, a, b, rows.points, most, nearest=nearest)
            share = people[a, b] / (max(len(met[0]), 1) * len(each.samples) * n_rows)
            parts.append((*met, np.full(len(met[0]), share)))
        if rows.group is not None:  # whose rows change members where they stay, too
            stay = np.diag(each.exchange.flows - np.diag(each.exchange.others)) / ROW
            for sample, (a, groups) in product(each.samples, enumerate(stay)):
                share = groups / (max(len(sample[a]), 1) * len(each.samples) * n_rows)
                parts.append((sample[a], sample[a], np.full(len(sample[a]), share)))
    none = [(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0))]
    moved = (np.concatenate(part) for part in zip(*(parts or none), strict=True))
    found = rows.pairs_of_rows(*moved)
    return [moved_utility(name, values, *found) for name, values in rows.columns.items()]


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
    numeric = values.kind in ("float", "integer")
    unit = (moments(values)[1] if numeric else 1.0) or 1.0
    changes = changes_of(values.taken(who), values.taken(what), unit)
    changes, weights = np.append(changes, 0.0), np.append(weight, 1.0 - weight.sum())
    return measured_utility(name, unit, changes, weights, values, np.ones(len(values)))


def _strata_of(columns: Mapping[Name, Values], n_rows: int) -> IntArray:
    """Return the stratum of each row: the combination of what stays with people."""
    if not columns:
        return np.zeros(n_rows, dtype=np.int64)
    codes = np.stack([values.ranks() for values in columns.values()], axis=1)
    which = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    return np.asarray(which, dtype=np.int64)
