"""The rows of a swap, its random choices, and rows on engines.

*On an engine* a function is applied to the parts of a lazy table, and gives each row a random
number: by the key, or in a fit by its content. The engine counts the people of each stratum and
secret. For strata that are cut into shards it counts intervals of the numbers, until the first row
of each shard is found. Then one task gets all rows of a shard, or of some strata, and does what is
done in memory. The driver holds counts, and a few thousand digests by which it recognises a table.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._certificates import OverspentError
from sklearn_puffer._codes import NO_SECRETS, Secret
from sklearn_puffer._documents import digest
from sklearn_puffer._engines import CHANGED, LazyTable, lazy_table, plans, row_ids
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._numerics import combinations_of
from sklearn_puffer._release import (
    FittedMechanism,
    KeyedPart,
    KeyedRows,
    Keying,
    check_ids,
    read_lazily,
)
from sklearn_puffer._swap.exchange import ScaledRows, StratumProblem, sizes_of_piece
from sklearn_puffer._tables import Name, Table, Values, frame_table, row_hashes
from sklearn_puffer._words import quoted

_FARTHEST = 6.0  # standard deviations, at which numbers are clipped for distances
_ADDED = ("stratum", "secret", "first", "second", "mark", "interval", "number", "rank", "shard")
_TEXT = "figures"
_NEAR = 256  # rows of one secret in the last interval that is searched for the first of a shard
_MARKS = 4096  # digests by which a table is recognised
_END = 1 << 63


@dataclass(eq=False)
class SwapRows:
    """The rows of a table, and the units that are exchanged: rows, or groups of them.

    Attributes
    ----------
    columns : dict of Values
        The values of each row.
    secret : Secret
    seen : list of ndarray of int64 of shape (n_rows,)
        What keyed choices depend on: the digest of the values of a row, that of its known values,
        and the code of its secret.
    known : ndarray of int of shape (n_rows,)
        The code of its known values.
    marks : ndarray of int64 of shape (n_rows,)
        The digest of its ids, or of all of it without ids.
    group : ndarray of int of shape (n_rows,), or None
        The group of each row, of one secret each, if groups are exchanged.
    points : ScaledRows
        Of units.
    places : ndarray of int of shape (n_units, width)
        The rows of each unit, in the order of their known values; -1 behind them.
    codes, strata, digests : ndarray of int of shape (n_units,)
        The secret, stratum and digest of each unit.
    """

    columns: Mapping[Name, Values]
    secret: Secret
    seen: Sequence[IntArray]
    known: IntArray
    marks: IntArray
    group: IntArray | None
    points: ScaledRows

    def __post_init__(self) -> None:
        """Make units of rows, or of groups."""
        self.digests, _, self.codes = self.seen
        self.strata = self.known
        self.places: Array = np.arange(len(self.marks))[:, None]
        if self.group is not None:
            places = self.places = group_members(self.group, self.known, self.digests)
            each = self.known, self.digests
            known, digests = (np.where(places >= 0, of[places], -1) for of in each)
            self.strata = combinations_of(list(known.T), len(places))
            self.points, self.codes = self.points.grouped(places), self.codes[places[:, 0]]
            self.digests = row_hashes(*digests.T)

    def rows_of(self, received: Array, solved: Sequence[Any], choices: RowChoices) -> Array:
        """Return the row that each row receives, from the unit that each unit receives.

        The rows of a group are shuffled among members with the same known values, also if the group
        stays: else the order of its members would reveal which groups moved.
        """
        if self.group is None:
            return received
        dealt = group_members(self.group, self.known, choices.ranks(len(self.group)))
        may_move = [group for each in solved if each.moves for group in each.groups]
        units = np.concatenate([np.zeros(0, dtype=np.intp), *may_move])
        rows, there = np.arange(len(self.group)), dealt[units] >= 0
        rows[dealt[units][there]] = self.places[received[units]][there]
        return rows

    def pairs_of_rows(self, who: Array, what: Array, weight: FloatArray) -> tuple[Array, ...]:
        """Return rows, the rows that they receive, and the share of all rows of each."""
        dealt = self.places
        if self.group is not None:  # members in an order independent of that of places
            dealt = group_members(self.group, self.known, distinct_hashes(self.seen[0]))
        there = dealt[who] >= 0
        shares = np.broadcast_to(weight[:, None] * len(self.codes) / len(self.marks), there.shape)
        return dealt[who][there], self.places[what][there], shares[there]

    def some(self, rows: Array, most: int) -> Array:
        """Return at most ``most`` of some units, chosen and ordered by their content alone."""
        return rows[np.argsort(distinct_hashes(self.digests[rows]), kind="stable")[:most]]

    def grouped(
        self, order: Array, shards: IntArray | None = None
    ) -> list[tuple[int, dict[int, Array]]]:
        """Return the units of each stratum and shard by secret, in the given order."""
        shards = np.zeros_like(self.codes) if shards is None else shards
        keys = np.stack([self.strata, shards, self.codes])[:, order]
        by_key = np.lexsort(keys[::-1])
        rows, keys = order[by_key], keys[:, by_key]
        starts = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        grouped: dict[tuple[int, int], dict[int, Array]] = {}
        for group in np.split(rows, starts):
            stratum, shard, secret = (int(x[group[0]]) for x in (self.strata, shards, self.codes))
            grouped.setdefault((stratum, shard), {})[secret] = group
        return [(shard, groups) for (_, shard), groups in grouped.items()]


def distinct_hashes(digests: IntArray) -> IntArray:
    """Return hashes of digests and their repetitions, so that equal rows have distinct ones."""
    order = np.argsort(digests, kind="stable")
    ascending = digests[order]
    before = np.arange(len(order)) - np.searchsorted(ascending, ascending)
    hashes = np.empty(len(order), dtype=np.int64)
    hashes[order] = row_hashes(ascending, before)
    return hashes


def group_members(codes: Array, *keys: Array) -> Array:
    """Return the rows of each group, sorted by the first key, then by the next; -1 behind them.

    >>> group_members(np.array([0, 1, 0]), np.array([5, 5, 3])).tolist()
    [[2, 0], [1, -1]]
    """
    order, sizes = np.lexsort((*keys[::-1], codes)), np.bincount(codes)
    places = np.full((len(sizes), int(sizes.max())), -1)
    at = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places[codes[order], at] = order
    return places


# ----------------------------------------------------------- units of distance


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of distance of each column: a standard deviation, or 1 for a change of category.

    Attributes
    ----------
    centres, spreads : dict of float
        Mean and standard deviation of numbers and times; 1 if constant.
    given : dict of float
        The units in ``weights=``.
    """

    centres: Mapping[Name, float]
    spreads: Mapping[Name, float]
    given: Mapping[Name, float]

    @classmethod
    def learnt(
        cls, columns: Mapping[Name, Values], given: Mapping[Name, float], table: Any = None
    ) -> Units:
        """Return the units of the rows of columns, or of a lazy table."""
        numbers = {n: v for n, v in columns.items() if v.kind in ("float", "integer")}
        lazy = isinstance(table, LazyTable)
        found = table.moments([*numbers]) if lazy else {n: moments(v) for n, v in numbers.items()}
        centres, spreads = {}, {}
        for name, (mean, spread) in found.items():
            # rounded, so that neither engine nor order of rows matters: the deviation to 24 bits,
            # and 1 for a constant, the mean to a multiple of 2^-8 of it
            mantissa, exponent = math.frexp(spread)
            unit = math.ldexp(round(mantissa * (1 << 24)), exponent - 24)
            centres[name] = round(mean / unit * 256) * unit / 256 if unit else mean
            spreads[name] = unit or 1.0
        return cls(centres, spreads, given)

    def points(self, columns: Mapping[Name, Values]) -> ScaledRows:
        """Return rows in units of distance."""
        numbers, codes, units = [], [], []
        for name, values in columns.items():
            numeric = name in self.spreads and values.kind in ("float", "integer")
            unit = self.spreads[name] if numeric else 1.0
            factor = unit / self.given.get(name, unit)
            other = values.missing if numeric else values.ranks()
            if numeric:
                with np.errstate(over="ignore", invalid="ignore"):
                    z = (values.data.astype(np.float64) - self.centres[name]) / unit
                gone = np.isnan(z) if other is None else np.isnan(z) | other
                z = np.clip(np.where(gone, 0.0, z), -_FARTHEST, _FARTHEST)
                numbers.append(z.astype(np.float32) * factor)
            if other is not None:
                codes.append(other.astype(np.int64))
                units.append(factor)
        n_rows = len(next(iter(columns.values())))
        wide = np.stack(numbers, axis=1) if numbers else np.zeros((n_rows, 1), dtype=np.float32)
        return ScaledRows(wide, codes, units)


def moments(values: Values) -> tuple[float, float]:
    """Return mean and standard deviation of the finite numbers of a column."""
    data = values.present.astype(np.float64)
    data = data[np.isfinite(data)]
    unit = float(np.abs(data).max(initial=0.0)) or 1.0
    data = data / unit if len(data) else np.zeros(1)
    return float(data.mean()) * unit, float(data.std()) * unit


# ---------------------------------------------------------------- choices of rows


class RowChoices:
    """Random choices: from fresh bits, or from a key, and the id and content of each row.

    With a key, choices about some rows are a function of the key and their ids and contents. So a
    table is released alike in any order of its rows, and changed rows get independent choices.

    Parameters
    ----------
    rows : SwapRows
    keyed : KeyedRows or None
    entropy : callable
        A source of fresh bits.

    Attributes
    ----------
    order : ndarray of int of shape (n_units,)
        The units in random order.
    tags : ndarray of uint64 of shape (n_units, 2)
        With a key: the random numbers that order them.
    mark : str
        With a key: equal for the same rows and key.
    """

    def __init__(self, rows: SwapRows, keyed: KeyedRows | None, entropy: Any) -> None:
        self._keyed, self.mark, places = keyed, "", rows.places
        if keyed is None:
            self._choices = Choices(entropy(0))
            self.order = self._choices.shuffled(len(places))
            return
        # one column: a ledger counts the table as one value of every row
        self._rows = keyed.columns(slice(None), [row_hashes(*rows.seen)])[0].tags
        tags = np.where(places[:, :, None] >= 0, self._rows[places], 0)
        self.tags = tags.sum(axis=1, dtype=np.uint64)
        self.order = np.lexsort(self.tags.T)
        sums = [len(self._rows), *halves(self._rows).sum(axis=0).tolist()]
        self.mark = mark_of(keyed.key, keyed.context, sums)
        keyed.note_together(digest("sklearn_puffer.exchanged/1", self.mark))

    def ranks(self, n_rows: int) -> Any:
        """Return numbers whose order is random."""
        return self._choices.shuffled(n_rows) if self._keyed is None else self._rows[:, 1]

    def of(self, units: IntArray, *about: Any) -> Choices:
        """Return the choices about some units, in their order."""
        if self._keyed is None:
            return self._choices
        told = "sklearn_puffer.exchange.rows/2", self._keyed.context, self.tags[units], *about
        return Choices(Stream(hmac.digest(self._keyed.key, digest(*told).encode(), "sha512")))


def halves(tags: NDArray[np.uint64]) -> IntArray:
    """Return 31 bits of both random numbers of each row, whose sums identify a table."""
    return np.asarray((tags >> np.uint64(33)).astype(np.int64))


def mark_of(key: bytes, context: str, sums: Sequence[int]) -> str:
    """Return the mark of keyed choices, by the number of rows and the sums of `halves`."""
    told = digest("sklearn_puffer.exchange.mark/1", context, [int(each) for each in sums])
    return hmac.digest(key, told.encode(), "sha256").hex()


# rows that each object has released, and marks of keyed choices; not in copies and files
_before: WeakKeyDictionary[Any, tuple[Array, set[str]]] = WeakKeyDictionary()
_NOTHING: tuple[Array, set[str]] = np.zeros(0, dtype=np.int64), set()


@contextmanager
def once(by: Any, marks: Array, mark: str, *, by_ids: bool) -> Iterator[None]:
    """Refuse rows that an object has exchanged before, and remember them if they are exchanged now.

    The same keyed choices are allowed again.

    Parameters
    ----------
    by : object
        The releasing estimator.
    marks : ndarray of int64 of shape (n_rows,)
        Digests of the rows.
    mark : str
        That of keyed choices, "" of fresh ones.
    by_ids : bool
        Whether digests are those of ids, of which one is enough; else half of them are.

    Raises
    ------
    OverspentError
        If it has exchanged these people.
    """
    rows, keyed = _before.get(by, _NOTHING)
    share = float(np.isin(marks, rows).mean())
    if mark not in keyed and (share >= 0.5 or (share and by_ids)):
        raise OverspentError(
            f"this {type(by).__name__} has exchanged {share:.0%} of these rows before, and "
            "two swaps of the same people tell more together than either; hand out the first one "
            "(row_id= and a key give it again), or name ids= or take a clone for other people."
        )
    yield
    _before[by] = np.union1d(rows, marks), keyed | {mark} - {""}


# ------------------------------------------------------------------------------------ on engines


class Cut(NamedTuple):
    """How a stratum of an engine's table is cut into shards.

    Attributes
    ----------
    stratum : StratumProblem
    edges : dict of ndarray of int64 of shape (n_shards - 1,)
        For each secret the random numbers of the first rows of all shards but the first.
    first : int
        The index of its first shard among those of all strata.
    exact : bool
        Whether the sizes of shards must be exact, or approximate as in a fit.
    """

    stratum: StratumProblem
    edges: Mapping[int, IntArray]
    first: int
    exact: bool

    def shards(self, secret: int, numbers: IntArray) -> Array:
        """Return the shard of each row of a secret, by random numbers."""
        return self.first + np.searchsorted(self.edges[secret], numbers, side="right")

    def piece(self, shard: int, groups: Mapping[int, Array]) -> tuple[int, list[Array]]:
        """Return the index of a shard within the stratum, and its rows of each secret.

        Raises
        ------
        ValueError
            If there are fewer or more rows than were counted.
        """
        none, number = np.zeros(0, dtype=np.intp), shard - self.first
        rows = [groups.get(secret, none) for secret in self.stratum.secrets]
        sizes = sizes_of_piece(self.stratum.people, self.stratum.shards, number)
        if self.exact and [*map(len, rows)] != sizes.tolist():
            raise ValueError(CHANGED)
        return number, rows


class EngineRows:
    """The rows of a lazy table, which are counted and exchanged by its engine.

    Parameters
    ----------
    exchange : Mechanism
        A `RowExchange`.
    rules : TableRules or None
    X : lazy table
    keyed : tuple
        The arguments of a `KeyedPart`; empty ones in a fit.
    """

    def __init__(
        self, exchange: Any, rules: Any, X: Any, keyed: Any = (None, "", "", None)
    ) -> None:
        self._exchange, self._keyed, self._X = exchange, keyed, X
        moving = (column.name for column in exchange.columns)
        wanted = {*moving, *exchange.ids, *exchange.strata, *exchange.secret.names, keyed[2]}
        self._names = [name for name in lazy_table(X).types if name in wanted]
        for name in exchange.ids:
            lazy_table(X).check_type(name)
        self._added = plans.free_names(self._names, _ADDED)
        self._by = [self._added["stratum"], self._added["secret"]]
        self._task = partial(ShardTask, exchange, rules, keyed, self._added)

    @classmethod
    def keyed(cls, fitted: FittedMechanism, X: Any, keying: Keying) -> EngineRows:
        """Return the rows of a release, whose ids are present and unique."""
        exchange: Any = fitted.mechanism
        keyed = read_lazily(fitted, X, keying)[1]
        if any(name not in lazy_table(X).types for name in exchange.secret.names):
            raise ValueError(NO_SECRETS)
        plans.check_lazy_kinds(X, {str(column.name): column.kind for column in exchange.columns})
        check_ids(X, keyed[2])
        return cls(exchange, fitted.rules, X, keyed)

    def _numbered(self, shift: int = 0) -> Any:
        return plans.planned(self._X, self._names, self._task("numbered", shift))

    @cached_property
    def counts(self) -> tuple[list[int], IntArray, list[int]]:
        """The digests of strata, their people of each secret, and the sums for `mark_of`."""
        rows = self._numbered()
        if self._exchange.ids and self._keyed[2] not in self._exchange.ids:
            counted = row_ids.count_ids(rows, self._added["mark"])
            self._exchange.check_alone(counted.distinct, counted.rows)
        sums = [self._added["first"], self._added["second"]]
        stratum, secret, n, *halves = plans.summed(rows, self._by, sums).values()
        self._exchange.secret.check_several(secret)
        strata, row = np.unique(stratum, return_inverse=True)
        people = np.zeros((len(strata), len(self._exchange.secret.labels)), dtype=np.int64)
        people[row, secret] = n
        return strata.tolist(), people, [int(each.sum()) for each in (n, *halves)]

    @cached_property
    def cuts(self) -> dict[int, Cut]:
        """The strata that are cut into shards, by their digests."""
        problem, both = self._exchange.problem, zip(*self.counts[:2], strict=True)
        every = {of: problem(np.flatnonzero(row).tolist(), row[row > 0]) for of, row in both}
        problems = {stratum: each for stratum, each in every.items() if each.shards > 1}
        edges = self._edges(problems) if problems else {}
        exact, first, cuts = self._keyed[0] is not None, 0, {}
        for stratum, problem in problems.items():
            of = {secret: edges[stratum, secret] for secret in problem.secrets}
            cuts[stratum] = Cut(problem, of, first, exact)
            first += problem.shards
        return cuts

    def _edges(self, problems: Mapping[int, StratumProblem]) -> Mapping[Any, IntArray]:
        """Return the random numbers of the first rows of shards, by stratum and secret."""
        ends, n_people = {}, {}
        for stratum, each in problems.items():
            for secret, n in zip(each.secrets, each.people.tolist(), strict=True):
                sizes = sizes_of_piece(n, each.shards, np.arange(each.shards - 1))
                ends[stratum, secret], n_people[stratum, secret] = np.cumsum(sizes), n
        if self._keyed[0] is None:  # approximately, which is enough for a fit
            return {of: (ends[of] * (_END / n)).astype(np.int64) for of, n in n_people.items()}
        shift = 63 - int(self.counts[1].max() // _NEAR).bit_length()
        numbers = self._added["number"], self._added["interval"]
        return plans.at_ranks(self._numbered(shift), self._by, *numbers, ends)

    def _together(self, do: str, rank: str = "") -> Any:
        """Return the results of a task on all rows of each shard, or of some strata."""
        cut = [each.stratum for each in self.cuts.values()]
        first = sum(each.shards for each in cut)
        rest = int(self.counts[1].sum() - sum(each.people.sum() for each in cut))
        others = max(-(-rest // self._exchange.shard), 1)
        sharded = self._task("sharded", (self.cuts, first, others))
        rows = plans.planned(self._X, self._names, sharded)
        task = self._task(do, self.cuts)
        return plans.together(rows, self._added["shard"], first + others, task, rank)

    def figures(self) -> tuple[IntArray, list[str]]:
        """Return the people of each stratum and secret, and the figures of each task."""
        return self.counts[1], plans.texts(self._together("figures"), _TEXT)

    def told(self) -> list[str]:
        """Return a sentence on large strata that a rare secret keeps in few shards."""
        strata, people, _ = self.counts
        rows = people.sum(axis=1)
        cut = [self.cuts[each].stratum.shards if each in self.cuts else 1 for each in strata]
        large = np.flatnonzero(rows >= 2 * self._exchange.shard * np.array(cut)).tolist()
        if not large:
            return []
        most = max(large, key=lambda k: rows[k] / cut[k])
        few = np.where(people[most] > 0, people[most], rows[most]).argmin()
        return [
            f"{len(large)} large stratum or strata are cut into few shards, each of which a worker "
            f"holds whole: one of {rows[most]:,} rows into {cut[most]}, as its secret "
            f"{quoted(self._exchange.secret.labels[few])} has {people[most, few]:,} of them."
        ]

    def plan(self, by: Any) -> Any:
        """Return the released rows as a lazy table, in random order.

        Raises
        ------
        OverspentError
            If ``by`` has released some of these people before.
        """
        sums = self.counts[2]
        mark = mark_of(self._keyed[0].read(), self._keyed[1], sums)
        limit = _END // max(sums[0] // _MARKS, 1) - 1
        marks = plans.numbers_up_to(self._numbered(), self._added["mark"], limit)
        with once(by, marks, mark, by_ids=bool(self._exchange.ids)):
            return self._together("released", self._added["rank"])


class ShardTask(KeyedPart):
    """A task on a part of a lazy table, or on all rows of a shard.

    Parameters
    ----------
    exchange : Mechanism
    rules : TableRules or None
    keyed : tuple
        The arguments of a `KeyedPart`.
    added : dict
        The names of columns that are added.
    do : str
        A method of this class.
    about : object
        Its argument.
    """

    def __init__(
        self, exchange: Any, rules: Any, keyed: Any, added: Any, do: str, about: Any
    ) -> None:
        super().__init__(*keyed)
        self._exchange, self._rules, self._added = exchange, rules, added
        self._do, self._about = do, about

    def _bits(self) -> Any:
        return None if self._key is None else super()._bits()

    def made(self, part: Any, bits: Any) -> Any:
        """Return the result for a part."""
        table = frame_table(part)
        rows = self._exchange.read(table)
        if bits is None:  # a fit
            hashes = row_hashes(rows.marks, np.arange(table.n_rows)).view(np.uint64)
            choices: Any = SimpleNamespace(tags=np.stack([hashes, hashes], axis=1), order=None)
        else:
            choices = RowChoices(rows, self.keyed(table, bits), None)
        return getattr(self, self._do)(part, table, rows, choices)

    def _with(self, part: Any, numbers: Mapping[str, IntArray]) -> Any:
        return plans.with_numbers(part, {self._added[name]: n for name, n in numbers.items()})

    def numbered(self, part: Any, table: Table, rows: SwapRows, choices: Any) -> Any:
        """Return the part with the columns that the engine counts."""
        numbers = _numbers(choices.tags)
        counted = rows.seen[1], rows.codes, *halves(choices.tags).T, rows.marks
        found = *counted, numbers >> self._about, numbers
        return self._with(part, dict(zip(_ADDED, found, strict=False)))

    def sharded(self, part: Any, table: Table, rows: SwapRows, choices: Any) -> Any:
        """Return the part with the shard of each row."""
        cuts, first, n_others = self._about
        shard, numbers = first + rows.seen[1] % n_others, _numbers(choices.tags)
        for stratum in {*np.unique(rows.seen[1]).tolist()} & {*cuts}:
            for secret in cuts[stratum].stratum.secrets:
                here = np.flatnonzero((rows.seen[1] == stratum) & (rows.codes == secret))
                shard[here] = cuts[stratum].shards(secret, numbers[here])
        return self._with(part, {"shard": shard})

    def _solved(self, table: Table, rows: SwapRows, choices: Any) -> Any:
        shards = table.values(self._added["shard"]).data
        if not len(shards):
            return []
        return self._exchange.solved(rows, choices.order, self._about, shards)

    def figures(self, part: Any, table: Table, rows: SwapRows, choices: Any) -> Any:
        """Return the figures of all rows of a shard."""
        solved = self._solved(table, rows, choices)
        told = [self._exchange.figures(rows, solved)] if solved else []
        return plans.with_texts(part, _TEXT, told)

    def released(self, part: Any, table: Table, rows: SwapRows, choices: Any) -> Any:
        """Return the rows of a shard, exchanged."""
        received = self._exchange.permutation(rows, self._solved(table, rows, choices), choices)
        whole = self._exchange.written(table, self._rules, received)
        return self._with(whole, {"rank": _numbers(choices.tags[:, ::-1])})


def _numbers(tags: Any) -> IntArray:
    """Return random numbers of 63 bits, in the order of tags."""
    return np.asarray((tags[:, 1] >> np.uint64(1)).astype(np.int64))
