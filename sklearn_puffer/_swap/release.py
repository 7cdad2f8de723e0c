"""A table released by exchanging rows between people of different secrets, stratum by stratum.

Here a table is read (whose secret is which, who knows what of whom, how far rows are apart), its
flows are solved and held to the budget, whole flows are drawn, and rows change hands.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy.spatial.distance import cdist

from sklearn_puffer._base import Array, FloatArray, IntArray, counted, digest, listed, quoted
from sklearn_puffer._losses import Exchange
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._release import (
    Draw,
    Fields,
    KeyedRows,
    Keying,
    Mechanism,
    Released,
    TableRules,
    UncertifiedError,
)
from sklearn_puffer._swap.exchange import PART, exchanged
from sklearn_puffer._swap.program import ROW, Budget, ExchangeProblem, least_exchange
from sklearn_puffer._swap.whole_flows import Draws, drawn_flows
from sklearn_puffer._tables import (
    Column,
    Finished,
    Missing,
    Name,
    Secret,
    Table,
    Values,
    alike,
    combined,
    first_values,
    in_intervals,
    present,
    read_secret,
    row_digests,
    row_hashes,
)

MOST_COMBINATIONS = 20
"""Secrets, or combinations of them, that rows are exchanged between."""

_FARTHEST = 6.0  # standard deviations, at which numbers are cut off where distances are computed
_NO_SECRETS = (
    "a swap exchanges people of different secrets: give the sensitive column, or take "
    "PufferfishMicroaggregator."
)


# --------------------------------------------------------------------------------- whose secret


@dataclass(frozen=True, eq=False)
class SecretRule:
    """How the secret of each row is read: the combination of the values of sensitive columns.

    Attributes
    ----------
    names : tuple of names
    edges : dict
        The edges between the intervals of columns that are read in bins.
    missing : {"error", "category"}
    labels : tuple
        The secrets of `fit`; of several columns tuples.
    """

    names: tuple[Name, ...]
    edges: Mapping[Name, tuple[float, ...]]
    missing: Missing
    labels: tuple[Any, ...] = ()

    def read(self, columns: Mapping[Name, Values]) -> Secret:
        """Return the combination of secrets of each row.

        Raises
        ------
        TypeError, ValueError
            If a column is missing values, or does not hold numbers where it is read in bins.
        """
        return combined([self._one(name, columns[name]) for name in self.names])

    def _one(self, name: Name, values: Values) -> tuple[Secret, int]:
        if name in self.edges:
            values = in_intervals(name, values, self.edges[name])
        return read_secret(name, values, self.missing), len(values)

    def columns(self, table: Table, beside: Mapping[Name, Values] | None) -> dict[Name, Values]:
        """Return the sensitive columns of a table, or those that are given beside it."""
        if beside is None:
            if any(name not in table.names for name in self.names):
                raise ValueError(_NO_SECRETS)
            return {name: table.values(name) for name in self.names}
        if {*beside} == {*self.names}:
            return dict(beside)
        if len(beside) == len(self.names) == 1:
            return dict(zip(self.names, beside.values(), strict=True))
        raise ValueError(
            f"sensitive_features has the column(s) {listed(list(beside))}, and those of fit are "
            f"{listed(list(self.names))}; give columns of those names."
        )

    def codes(self, columns: Mapping[Name, Values]) -> IntArray:
        """Return the number of the secret of each row among those of `fit`."""
        secret, n_rows = self.read(columns), len(next(iter(columns.values())))
        code_of = {label: code for code, label in enumerate(self.labels)}
        strange = [label for label in secret.labels if label not in code_of]
        if strange:
            raise ValueError(
                f"X has {len(strange)} secret(s) that fit has not seen; fit on these rows "
                f"(fit_transform), whose pairs of secrets are then protected, too."
            )
        each = np.array([code_of[label] for label in secret.labels], dtype=np.int64)
        return np.asarray(each[secret.codes(n_rows)])


def strata_of(columns: Sequence[Values], n_rows: int) -> IntArray:
    """Return the stratum of each row: the combination of what stays with people."""
    if not columns:
        return np.zeros(n_rows, dtype=np.int64)
    codes = np.stack([_codes_of(values) for values in columns], axis=1)
    which = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    return np.asarray(which, dtype=np.int64)


def _codes_of(values: Values) -> IntArray:
    """Return codes of the values of a column, which do not depend on the order of the rows."""
    if values.levels is not None:
        return np.asarray(values.filled(-1), dtype=np.int64)
    codes = np.unique(values.filled(0), return_inverse=True)[1].ravel()
    return codes if values.missing is None else np.where(values.missing, -1, codes)


# ---------------------------------------------------------------------------- how far rows are


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of distance of each column: a standard deviation, or a change of anything else.

    Attributes
    ----------
    centres, spreads : dict of float
        Of columns of numbers and times; of one value the spread is 1.
    given : dict of float
        What `weights` says of columns.
    """

    centres: Mapping[Name, float]
    spreads: Mapping[Name, float]
    given: Mapping[Name, float]

    @classmethod
    def learnt(cls, columns: Mapping[Name, Values], given: Mapping[Name, float]) -> Units:
        """Return the units in which some rows are standardised."""
        numbers = {n: v for n, v in columns.items() if v.kind in ("float", "integer")}
        both = {name: _mean_and_spread(values) for name, values in numbers.items()}
        centres = {name: centre for name, (centre, _) in both.items()}
        return cls(centres, {name: spread for name, (_, spread) in both.items()}, given)

    def points(self, columns: Mapping[Name, Values]) -> Points:
        """Return rows as points, between which distances are had."""
        numbers, codes, units = [], [], []
        for name, values in columns.items():
            unit = self.given.get(name)
            if name in self.spreads and values.kind in ("float", "integer"):
                factor = 1.0 if unit is None else self.spreads[name] / unit
                numbers.append(self._standardised(name, values) * factor)
                if values.missing is None:
                    continue
                codes.append(values.missing.astype(np.int64))
                units.append(factor)
            else:
                codes.append(_codes_of(values))
                units.append(1.0 if unit is None else 1.0 / unit)
        n_rows = len(next(iter(columns.values())))
        wide = np.stack(numbers, axis=1) if numbers else np.zeros((n_rows, 1))
        return Points(wide, codes, units)

    def _standardised(self, name: Name, values: Values) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            z = (values.data.astype(np.float64) - self.centres[name]) / self.spreads[name]
        z = np.where(np.isnan(z) | (values.missing if values.missing is not None else False), 0, z)
        return np.asarray(np.clip(z, -_FARTHEST, _FARTHEST))


@dataclass(frozen=True, eq=False)
class Points:
    """Rows in units of distance: numbers, and codes of which only equality counts."""

    numbers: FloatArray
    codes: Sequence[IntArray]
    units: Sequence[float]

    def between(self, some: Array, others: Array) -> FloatArray:
        """Return the distances of some rows from others, summed over columns."""
        total: FloatArray = cdist(self.numbers[some], self.numbers[others], "cityblock")
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some][:, None] != codes[others][None, :])
        return total


def _mean_and_spread(values: Values) -> tuple[float, float]:
    """Return mean and standard deviation, to the bit the same in any order of the rows."""
    data = present(values).astype(np.float64)
    data = np.sort(data[np.isfinite(data)])
    unit = float(np.abs(data).max(initial=0.0))
    if not unit:
        return 0.0, 1.0
    spread = float((data / unit).std()) * unit
    return float((data / unit).mean()) * unit, spread or 1.0


# ------------------------------------------------------------------------------------- the rows


@dataclass(frozen=True, eq=False)
class SwapRows:
    """The rows of a table as they were read.

    Attributes
    ----------
    columns : dict of Values
        What is exchanged.
    points : Points
    codes, strata : ndarray of int of shape (n_rows,)
        The secret and the stratum of each.
    digests, marks : ndarray of int64 of shape (n_rows,)
        Of what is exchanged; and of all that is known of a row.
    """

    columns: Mapping[Name, Values]
    points: Points
    codes: IntArray
    strata: IntArray
    digests: IntArray
    marks: IntArray

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


@dataclass(frozen=True, eq=False)
class Solved:
    """The mean flows of a stratum.

    Attributes
    ----------
    stratum : int
    secrets : list of int
        The secrets that occur in it.
    exchange : Exchange
        Flows between them.
    problem : ExchangeProblem
        With the pairs that are protected, and the budget.
    """

    stratum: int
    secrets: list[int]
    exchange: Exchange
    problem: ExchangeProblem

    @property
    def moves(self) -> bool:
        """Whether anybody receives another person's row."""
        flows = self.exchange.flows
        return bool(self.exchange.others.any() or (flows != np.diag(np.diag(flows))).any())

    def groups(self, grouped: Mapping[tuple[int, int], Array]) -> list[Array]:
        """Return its rows by secret."""
        return [grouped[self.stratum, secret] for secret in self.secrets]


def mean_costs(groups: Sequence[Array], rows: SwapRows) -> tuple[FloatArray, FloatArray]:
    """Return what a row changes between secrets, and within each, from samples of them.

    Between secrets it is the mean of the least assignment of as many rows of both.
    """
    most = PART if len(groups) <= 4 else PART // 3
    samples = [rows.some(group, most) for group in groups]
    cost = np.zeros((len(groups), len(groups)))
    for a, b in combinations(range(len(groups)), 2):
        who, what = matched_sample(samples[a], samples[b], rows)
        cost[a, b] = cost[b, a] = _mean_distance(who, what, rows)
    within = [rows.points.between(s, s).sum() / max(len(s) * (len(s) - 1), 1) for s in samples]
    return cost, np.array(within)


def matched_sample(some: Array, others: Array, rows: SwapRows) -> tuple[Array, Array]:
    """Return as many rows of both samples as the smaller has, matched at the least cost."""
    from scipy.optimize import linear_sum_assignment

    size = min(len(some), len(others))
    some, others = some[:size], others[:size]
    at, to = linear_sum_assignment(rows.points.between(some, others))
    return some[at], others[to]


def _mean_distance(some: Array, others: Array, rows: SwapRows) -> float:
    numbers = np.abs(rows.points.numbers[some] - rows.points.numbers[others]).sum()
    for codes, unit in zip(rows.points.codes, rows.points.units, strict=True):
        numbers += unit * (codes[some] != codes[others]).sum()
    return float(numbers) / len(some)


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
    secret : SecretRule
    pairs : tuple of tuple of int
        The protected pairs among its labels.
    measure : Units
    budget : Budget
    matching : {"nearest", "random"}
    """

    columns: list[Column]
    ids: tuple[Name, ...]
    strata: tuple[Name, ...]
    secret: SecretRule
    pairs: tuple[tuple[int, int], ...]
    measure: Units
    budget: Budget
    matching: str

    by_row: ClassVar[bool] = False
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
        known = {name: first_values(table, name) for name in self.strata}
        digests = row_digests(columns)
        if self.ids:
            marks = row_digests({name: table.values(name) for name in self.ids})
        else:
            marks = row_hashes(row_digests({**columns, **known}), codes)
        strata = strata_of(list(known.values()), table.n_rows)
        return SwapRows(columns, self.measure.points(columns), codes, strata, digests, marks)

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
        if not all(each.problem.holds(each.exchange) for each in solved):
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
        sizes = np.array([len(group) for group in groups], dtype=np.int64)
        at = {secret: place for place, secret in enumerate(secrets)}
        pairs = [(at[s], at[t]) for s, t in self.pairs if s in at and t in at]
        k = len(secrets)
        if not pairs:
            nobody = Exchange(sizes, np.diag(sizes * ROW), np.zeros(k, dtype=np.int64), ROW)
            problem = ExchangeProblem(sizes, np.zeros((k, k)), np.zeros(k), [], self.budget)
            return Solved(stratum, secrets, nobody, problem)
        problem = ExchangeProblem(sizes, *mean_costs(groups, rows), pairs, self.budget)
        try:
            return Solved(stratum, secrets, least_exchange(problem), problem)
        except RuntimeError:
            raise UncertifiedError(_NOT_WITHIN) from None

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table in the caller's own type, whose secrets are columns of it."""
        rows = self.read(table)
        solved = self.solved(rows)
        draws, order, _ = self.choices(rows, solved, draw)
        return self.written(table, rules, self.permutation(rows, solved, draws, order)), None

    def choices(
        self, rows: SwapRows, solved: Sequence[Solved], draw: Draw
    ) -> tuple[Draws, Array | None, str]:
        """Return what is drawn with, an order of the rows, and what identifies keyed choices.

        Under a key all choices are a function of key, ids, rows and flows: the same table is the
        same release in any order, and another one is exchanged anew altogether.
        """
        keyed = draw.keyed
        if keyed is None:
            return Choices(draw.entropy(0)), None, ""
        order = np.lexsort(keyed.ids.T)
        seed = hmac.digest(keyed.key, self._all_of(rows, solved, keyed, order), "sha512")
        keyed.note_together(digest("sklearn_puffer.exchanged/1", seed.hex()))
        return Choices(Stream(seed)), order, seed.hex()

    def _all_of(
        self, rows: SwapRows, solved: Sequence[Solved], keyed: KeyedRows, order: Array
    ) -> bytes:
        of_rows = (keyed.ids, rows.strata, rows.codes, rows.digests, rows.marks)
        flows = [(s.stratum, s.secrets, s.exchange.flows, s.exchange.others) for s in solved]
        about = [column[order] for column in of_rows]
        return digest("sklearn_puffer.exchange.rows/1", keyed.context, *about, flows).encode()

    def permutation(
        self, rows: SwapRows, solved: Sequence[Solved], draws: Draws, order: Array | None
    ) -> Array:
        """Return whose row each person receives."""
        received = np.arange(len(rows.codes))
        grouped = rows.grouped(order)
        for stratum in counted([each for each in solved if each.moves], "strata exchanged"):
            groups = stratum.groups(grouped)
            people = np.concatenate(groups)
            numbered = np.split(np.arange(len(people)), np.cumsum([len(g) for g in groups])[:-1])
            flows, moved = drawn_flows(stratum.exchange, draws)
            costs = None if self.matching == "random" else _Costs(rows.points, people).between
            received[people] = people[exchanged(numbered, flows, moved, costs, draws)]
        return received

    def written(self, table: Table, rules: TableRules, received: Array) -> Any:
        """Return a table with its rows exchanged, and equal values written alike."""
        moving = {column.name for column in self.columns}

        def column(name: Name) -> Any:
            if name in self.ids:
                return table.original(name)
            return alike(table.original(name, received if name in moving else None))

        return table.build({n: Finished(column(n), passed=True) for n in rules.order})

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
        secret = (self.secret.names, dict(self.secret.edges), self.secret.missing)
        units = (dict(self.measure.centres), dict(self.measure.spreads), dict(self.measure.given))
        rules = (self.pairs, tuple(self.budget), self.matching)
        return [names, self.ids, self.strata, secret, self.secret.labels, units, rules]

    def to_record(self) -> NoReturn:
        """Refuse: a swap has no artifact yet."""
        raise ValueError(
            "a swap needs the secrets of each table, so it stays with the steward, and there is no "
            "artifact to hand on; save the estimator with joblib."
        )

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> NoReturn:
        """Refuse: no artifact holds a swap."""
        raise NotImplementedError


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


def label_of(label: Any) -> str:
    """Return a secret in a word.

    >>> label_of(("yes", 3)), label_of("no")
    ("'yes' and 3", "'no'")
    """
    return " and ".join(map(quoted, label)) if isinstance(label, tuple) else quoted(label)
