"""The rows that are exchanged: as they are read, what choices about them depend on, on engines.

*On an engine* the rows of a lazy table pass through Python part by part, and get random numbers by
the key (or, in a fit, by their content). The engine counts how many people each stratum and secret
has. Of strata that are cut into shards it counts intervals of the numbers, until the first row of
each shard is known. Then all rows of a shard, or of some strata, come to one task, which does with
them what is done in memory. The driver holds counts, and a few thousand digests by which it knows a
table again.
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
from sklearn_puffer._swap.exchange import Points, StratumProblem, sizes_of_piece
from sklearn_puffer._tables import (
    Name,
    Table,
    Values,
    frame_table,
    row_hashes,
)
from sklearn_puffer._words import quoted

_FARTHEST = 6.0  # standard deviations, at which numbers are cut off where distances are computed
_ADDED = ("stratum", "secret", "first", "second", "mark", "interval", "number", "rank", "shard")
_TEXT = "figures"
_NEAR = 256  # rows of one secret among which the first one of a shard is looked for
_MARKS = 4096  # rows by which a table is known again
_END = 1 << 63


@dataclass(eq=False)
class SwapRows:
    """The rows of a table as they were read, and what is exchanged: rows, or groups of them.

    Attributes
    ----------
    columns : dict of Values
        The values of each row.
    secret : Secret
    seen : list of ndarray of int64 of shape (n_rows,)
        All of a row that keyed choices depend on: the digest of its values, that of what is known
        of it, and its secret.
    known : ndarray of int of shape (n_rows,)
        What is known of it, as a code.
    marks : ndarray of int64 of shape (n_rows,)
        A digest of its ids, or of all of it.
    group : ndarray of int of shape (n_rows,), or None
        The group of each row, where whole groups are exchanged, of one secret each.
    points : Points
        Of what is exchanged, as all below.
    places : ndarray of int of shape (n_units, width)
        The rows that are exchanged together, in the order of what is known of them.
    codes, strata, digests : ndarray of int of shape (n_units,)
    """

    columns: Mapping[Name, Values]
    secret: Secret
    seen: Sequence[IntArray]
    known: IntArray
    marks: IntArray
    group: IntArray | None
    points: Points

    def __post_init__(self) -> None:
        """Put rows of a group together."""
        self.digests, _, self.codes = self.seen
        self.strata = self.known
        self.places: Array = np.arange(len(self.marks))[:, None]
        if self.group is not None:
            places = self.places = places_of(self.group, self.known, self.digests)
            each = self.known, self.digests
            known, digests = (np.where(places >= 0, of[places], -1) for of in each)
            self.strata = combinations_of(list(known.T), len(places))
            self.points, self.codes = self.points.together(places), self.codes[places[:, 0]]
            self.digests = row_hashes(*digests.T)

    def rows_of(self, received: Array, solved: Sequence[Any], lots: Lots) -> Array:
        """Return whose row each row is released with, from the groups that groups receive.

        The rows of a group are dealt at random among those of whom the same is known, also of a
        group that stays: else who knows in which order members stand would see which groups moved.
        """
        if self.group is None:
            return received
        dealt = places_of(self.group, self.known, lots.ranks(len(self.group)))
        may_move = [group for each in solved if each.moves for group in each.groups]
        units = np.concatenate([np.zeros(0, dtype=np.intp), *may_move])
        rows, there = np.arange(len(self.group)), dealt[units] >= 0
        rows[dealt[units][there]] = self.places[received[units]][there]
        return rows

    def pairs_of_rows(self, who: Array, what: Array, weight: FloatArray) -> tuple[Array, ...]:
        """Return rows and those that they receive, and the share of all rows they stand for."""
        dealt = self.places  # in the order of another digest than the rows that are dealt to it
        if self.group is not None:
            dealt = places_of(self.group, self.known, spread(self.seen[0]))
        there = dealt[who] >= 0
        shares = np.broadcast_to(weight[:, None] * len(self.codes) / len(self.marks), there.shape)
        return dealt[who][there], self.places[what][there], shares[there]

    def some(self, rows: Array, most: int) -> Array:
        """Return at most so many of some rows, chosen and ordered by their content alone."""
        return rows[np.argsort(spread(self.digests[rows]), kind="stable")[:most]]

    def grouped(
        self, order: Array, shards: IntArray | None = None
    ) -> list[tuple[int, dict[int, Array]]]:
        """Return the rows of each stratum and shard by secret, in some order of all rows."""
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


def spread(digests: IntArray) -> IntArray:
    """Return numbers by which rows of equal digests stand apart, whatever their order is."""
    order = np.argsort(digests, kind="stable")
    ascending = digests[order]
    before = np.arange(len(order)) - np.searchsorted(ascending, ascending)
    hashes = np.empty(len(order), dtype=np.int64)
    hashes[order] = row_hashes(ascending, before)
    return hashes


def places_of(codes: Array, *keys: Array) -> Array:
    """Return the rows of each group, ordered by the first key, then by the next; -1 behind them.

    >>> places_of(np.array([0, 1, 0]), np.array([5, 5, 3])).tolist()
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
    def learnt(
        cls, columns: Mapping[Name, Values], given: Mapping[Name, float], table: Any = None
    ) -> Units:
        """Return the units in which some rows are standardised, which may be those of a table."""
        numbers = {n: v for n, v in columns.items() if v.kind in ("float", "integer")}
        lazy = isinstance(table, LazyTable)
        found = table.moments([*numbers]) if lazy else {n: moments(v) for n, v in numbers.items()}
        both = {name: rounded_unit(*each) for name, each in found.items()}
        centres, spreads = ({name: each[k] for name, each in both.items()} for k in (0, 1))
        return cls(centres, spreads, given)

    def points(self, columns: Mapping[Name, Values]) -> Points:
        """Return rows as points, between which distances are had."""
        numbers, codes, units = [], [], []
        for name, values in columns.items():
            numeric = name in self.spreads and values.kind in ("float", "integer")
            unit = self.spreads[name] if numeric else 1.0
            factor = unit / self.given.get(name, unit)
            other = values.missing if numeric else values.ranks()
            if numeric:
                numbers.append(self._standardised(name, values) * factor)
            if other is not None:
                codes.append(other.astype(np.int64))
                units.append(factor)
        n_rows = len(next(iter(columns.values())))
        wide = np.stack(numbers, axis=1) if numbers else np.zeros((n_rows, 1), dtype=np.float32)
        return Points(wide, codes, units)

    def _standardised(self, name: Name, values: Values) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            z = (values.data.astype(np.float64) - self.centres[name]) / self.spreads[name]
        z = np.where(np.isnan(z) | (values.missing if values.missing is not None else False), 0, z)
        return np.clip(z, -_FARTHEST, _FARTHEST).astype(np.float32)


def moments(values: Values) -> tuple[float, float]:
    """Return mean and standard deviation of the finite numbers of a column."""
    data = values.present.astype(np.float64)
    data = data[np.isfinite(data)]
    unit = float(np.abs(data).max(initial=0.0)) or 1.0
    data = data / unit if len(data) else np.zeros(1)
    return float(data.mean()) * unit, float(data.std()) * unit


def rounded_unit(mean: float, spread: float) -> tuple[float, float]:
    """Return a mean and a spread that depend neither on the engine nor on the order of the rows.

    The spread has 24 bits (of one value it is 1), and the mean is a multiple of its 2^-8.

    >>> [round(each, 6) for each in rounded_unit(0.1, 0.3)]
    [0.099609, 0.3]
    """
    mantissa, exponent = math.frexp(spread)
    spread = math.ldexp(round(mantissa * (1 << 24)), exponent - 24)
    if not spread:
        return mean, 1.0
    return round(mean / spread * 256) * spread / 256, spread


# ---------------------------------------------------------------- lots of rows


class Lots:
    """Where choices come from: fresh bits, or a key, an id and all that is seen of each row.

    Under a key choices about some rows are a function of key, ids, and all that is seen of these
    rows: the same table is the same release in any order, and other rows are drawn for anew.

    Parameters
    ----------
    rows : SwapRows
    keyed : KeyedRows or None
    entropy : callable
        Gives fresh bits.

    Attributes
    ----------
    order : ndarray of int of shape (n_units,)
        A random order of what choices are about.
    tags : ndarray of uint64 of shape (n_units, 2)
        Of keyed choices: the random numbers that order them.
    mark : str
        Of keyed choices: equal for the same rows and key.
    """

    def __init__(self, rows: SwapRows, keyed: KeyedRows | None, entropy: Any) -> None:
        self._keyed, self.mark, places = keyed, "", rows.places
        if keyed is None:
            self._choices = Choices(entropy(0))
            self.order = self._choices.shuffled(len(places))
            return
        # one column, as a ledger takes the table for one value of every row
        self._rows = keyed.columns(slice(None), [row_hashes(*rows.seen)])[0].tags
        tags = np.where(places[:, :, None] >= 0, self._rows[places], 0)
        self.tags = tags.sum(axis=1, dtype=np.uint64)
        self.order = np.lexsort(self.tags.T)
        sums = [len(self._rows), *halves(self._rows).sum(axis=0).tolist()]
        self.mark = mark_of(keyed.key, keyed.context, sums)
        keyed.note_together(digest("sklearn_puffer.exchanged/1", self.mark))

    def ranks(self, n_rows: int) -> Any:
        """Return numbers by which rows are in random order."""
        return self._choices.shuffled(n_rows) if self._keyed is None else self._rows[:, 1]

    def of(self, units: IntArray, *about: Any) -> Choices:
        """Return the choices for some units, in their order."""
        if self._keyed is None:
            return self._choices
        told = "sklearn_puffer.exchange.rows/2", self._keyed.context, self.tags[units], *about
        return Choices(Stream(hmac.digest(self._keyed.key, digest(*told).encode(), "sha512")))


def halves(tags: NDArray[np.uint64]) -> IntArray:
    """Return 31 bits of each of the two random numbers of rows, whose sums tell tables apart."""
    return np.asarray((tags >> np.uint64(33)).astype(np.int64))


def mark_of(key: bytes, context: str, sums: Sequence[int]) -> str:
    """Return the mark of keyed choices about all rows, by the sums of `halves` and how many."""
    told = digest("sklearn_puffer.exchange.mark/1", context, [int(each) for each in sums])
    return hmac.digest(key, told.encode(), "sha256").hex()


# rows that each object has released, and marks of keyed choices: in no copy of it, and no file
_before: WeakKeyDictionary[Any, tuple[Array, set[str]]] = WeakKeyDictionary()
_NOTHING: tuple[Array, set[str]] = np.zeros(0, dtype=np.int64), set()


@contextmanager
def once(by: Any, marks: Array, mark: str, *, by_ids: bool) -> Iterator[None]:
    """Refuse rows that an object has exchanged before, and remember them where they are now.

    The same keyed choices are allowed again.

    Parameters
    ----------
    by : object
        What releases.
    marks : ndarray of int64 of shape (n_rows,)
        Of the rows.
    mark : str
        Of keyed choices, "" of fresh ones.
    by_ids : bool
        Whether marks are those of ids, so that one row is enough; else half of them are.

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
            "two swaps of the same people undo each other; hand out the first one (row_id= and "
            "a key give it again), or name ids= or take a clone for other people."
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
        Of each secret, the numbers of the first rows of all shards but the first one.
    first : int
        The number of its first shard among those of all strata.
    exact : bool
        Whether shards must have as many rows as they should, or are some that are like them.
    """

    stratum: StratumProblem
    edges: Mapping[int, IntArray]
    first: int
    exact: bool

    def shards(self, secret: int, numbers: IntArray) -> Array:
        """Return the shard of each row of a secret, among those of all strata."""
        return self.first + np.searchsorted(self.edges[secret], numbers, side="right")

    def piece(self, shard: int, groups: Mapping[int, Array]) -> tuple[int, list[Array]]:
        """Return the number of a shard within the stratum, and its rows of each secret.

        Raises
        ------
        ValueError
            If rows are lacking, or there are more than there were.
        """
        none, number = np.zeros(0, dtype=np.intp), shard - self.first
        rows = [groups.get(secret, none) for secret in self.stratum.secrets]
        sizes = sizes_of_piece(self.stratum.people, self.stratum.shards, number)
        if self.exact and [*map(len, rows)] != sizes.tolist():
            raise ValueError(CHANGED)
        return number, rows


class EngineRows:
    """The rows of a lazy table, which are counted and exchanged where they are.

    Parameters
    ----------
    exchange : Mechanism
        What exchanges rows: it reads a part (`read`), says what is to be solved for a stratum
        (`problem`), solves it (`solved`), and exchanges rows (`permutation`, `written`).
    rules : TableRules or None
    X : lazy table
    keyed : tuple
        The arguments of a `KeyedPart`; none in a fit.
    """

    def __init__(
        self, exchange: Any, rules: Any, X: Any, keyed: Any = (None, "", "", None)
    ) -> None:
        self._exchange, self._keyed, self._X = exchange, keyed, X
        moving = (column.name for column in exchange.columns)
        wanted = {*moving, *exchange.ids, *exchange.strata, *exchange.secret.names, keyed[2]}
        self._names = [name for name in plans.lazy_names(X) if name in wanted]
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
        if any(name not in plans.lazy_names(X) for name in exchange.secret.names):
            raise ValueError(NO_SECRETS)
        plans.check_lazy_kinds(X, {str(column.name): column.kind for column in exchange.columns})
        check_ids(X, keyed[2])
        return cls(exchange, fitted.rules, X, keyed)

    def _numbered(self, shift: int = 0) -> Any:
        return plans.planned(self._X, self._names, self._task("numbered", shift))

    @cached_property
    def counts(self) -> tuple[list[int], IntArray, list[int]]:
        """The digests of strata, their people of each secret, and the sums that `mark_of` takes."""
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
        """Return the number of the first row of each shard but one, by stratum and secret."""
        ends, n_people = {}, {}
        for stratum, each in problems.items():
            for secret, n in zip(each.secrets, each.people.tolist(), strict=True):
                sizes = sizes_of_piece(n, each.shards, np.arange(each.shards - 1))
                ends[stratum, secret], n_people[stratum, secret] = np.cumsum(sizes), n
        if self._keyed[0] is None:  # about there: the rows of a fit are in any random order
            return {of: (ends[of] * (_END / n)).astype(np.int64) for of, n in n_people.items()}
        shift = 63 - int(self.counts[1].max() // _NEAR).bit_length()
        numbers = self._added["number"], self._added["interval"]
        return plans.at_ranks(self._numbered(shift), self._by, *numbers, ends)

    def _together(self, do: str, rank: str = "") -> Any:
        """Return what a task makes of all rows of each shard, or of some strata."""
        cut = [each.stratum for each in self.cuts.values()]
        first = sum(each.shards for each in cut)
        rest = int(self.counts[1].sum() - sum(each.people.sum() for each in cut))
        others = max(-(-rest // self._exchange.shard), 1)
        sharded = self._task("sharded", (self.cuts, first, others))
        rows = plans.planned(self._X, self._names, sharded)
        task = self._task(do, self.cuts)
        return plans.together(rows, self._added["shard"], first + others, task, rank)

    def figures(self) -> tuple[IntArray, list[str]]:
        """Return how many people have each secret, by strata, and the figures of each task."""
        return self.counts[1], plans.texts(self._together("figures"), _TEXT)

    def told(self) -> list[str]:
        """Return which large strata are cut into few shards, or are one, by a rare secret."""
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
        """Return the released rows as a lazy table, in an order that shows no shard.

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
    """What is done with some rows of a lazy table, or with all rows of a shard.

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
        What the method goes by.
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
        """Return what is made of a part."""
        table = frame_table(part)
        rows = self._exchange.read(table)
        if bits is None:  # a fit
            hashes = row_hashes(rows.marks, np.arange(table.n_rows)).view(np.uint64)
            lots: Any = SimpleNamespace(tags=np.stack([hashes, hashes], axis=1), order=None)
        else:
            lots = Lots(rows, self.keyed(table, bits), None)
        return getattr(self, self._do)(part, table, rows, lots)

    def _with(self, part: Any, numbers: Mapping[str, IntArray]) -> Any:
        return plans.with_numbers(part, {self._added[name]: n for name, n in numbers.items()})

    def numbered(self, part: Any, table: Table, rows: SwapRows, lots: Any) -> Any:
        """Return the part with what the engine counts."""
        numbers = _numbers(lots.tags)
        counted = rows.seen[1], rows.codes, *halves(lots.tags).T, rows.marks
        found = *counted, numbers >> self._about, numbers
        return self._with(part, dict(zip(_ADDED, found, strict=False)))

    def sharded(self, part: Any, table: Table, rows: SwapRows, lots: Any) -> Any:
        """Return the part with the shard of each row."""
        cuts, first, n_others = self._about
        shard, numbers = first + rows.seen[1] % n_others, _numbers(lots.tags)
        for stratum in {*np.unique(rows.seen[1]).tolist()} & {*cuts}:
            for secret in cuts[stratum].stratum.secrets:
                here = np.flatnonzero((rows.seen[1] == stratum) & (rows.codes == secret))
                shard[here] = cuts[stratum].shards(secret, numbers[here])
        return self._with(part, {"shard": shard})

    def _solved(self, table: Table, rows: SwapRows, lots: Any) -> Any:
        shards = table.values(self._added["shard"]).data
        return self._exchange.solved(rows, lots.order, self._about, shards) if len(shards) else []

    def figures(self, part: Any, table: Table, rows: SwapRows, lots: Any) -> Any:
        """Return the figures of all rows of a shard."""
        solved = self._solved(table, rows, lots)
        told = [self._exchange.figures(rows, solved)] if solved else []
        return plans.with_texts(part, _TEXT, told)

    def released(self, part: Any, table: Table, rows: SwapRows, lots: Any) -> Any:
        """Return the rows of a shard, exchanged."""
        received = self._exchange.permutation(rows, self._solved(table, rows, lots), lots)
        whole = self._exchange.written(table, self._rules, received)
        return self._with(whole, {"rank": _numbers(lots.tags[:, ::-1])})


def _numbers(tags: Any) -> IntArray:
    """Return random numbers of 63 bits, in the order of those that order rows."""
    return np.asarray((tags[:, 1] >> np.uint64(1)).astype(np.int64))
