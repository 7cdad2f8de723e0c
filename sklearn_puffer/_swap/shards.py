"""Rows that are exchanged with others, on an engine: they come together in shards.

The rows of a lazy table pass through Python part by part, and get random numbers by the key (or, in
a fit, by their content). The engine counts how many people each stratum and secret has. Of strata
that are cut into shards it counts intervals of the numbers, until the first row of each shard is
known. Then all rows of a shard, or of some strata, come to one task, which does with them what is
done in memory. The driver holds counts, and a few thousand digests by which it knows a table again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sklearn_puffer._base import Array, IntArray, quoted
from sklearn_puffer._release import FittedMechanism, KeyedPart, Keying, check_ids, read_lazily
from sklearn_puffer._swap.exchange import Lots, check_first, halves, mark_of, note
from sklearn_puffer._tables import (
    CHANGED,
    LARGEST_DIGEST,
    NO_SECRETS,
    Name,
    Table,
    frame_table,
    lazy_table,
    plans,
    row_hashes,
    row_ids,
)

_ADDED = ("stratum", "secret", "first", "second", "mark", "interval", "number", "rank", "shard")
_TEXT = "figures"
_NEAR = 256  # rows of one secret among which the first one of a shard is looked for
_MARKS = 4096  # rows by which a table is known again
_END = 1 << 63


def sizes_of_piece(people: IntArray, n_pieces: int, piece: int) -> IntArray:
    """Return how many people of each secret a piece has: one more in the first ones.

    >>> [sizes_of_piece(np.array([7, 2]), 3, piece).tolist() for piece in range(3)]
    [[3, 1], [2, 1], [2, 0]]
    """
    return np.asarray((people - piece + n_pieces - 1) // n_pieces)


class StratumProblem(NamedTuple):
    """What is to be solved for a stratum: its people, and into how many shards and parts it is cut.

    The pairs are places among its secrets.
    """

    secrets: Sequence[int]
    people: IntArray
    pairs: Sequence[tuple[int, int]]
    distances: Sequence[float]
    shards: int
    parts: int


@dataclass(frozen=True, eq=False)
class Cut:
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

    def pieces(
        self, groups: Mapping[int, Array], shards: IntArray
    ) -> Iterator[tuple[int, list[Array]]]:
        """Yield each shard that is here, and its rows by secret.

        Parameters
        ----------
        groups : mapping of ndarray of int
            The rows of each secret.
        shards : ndarray of int of shape (n_rows,)
            Of all rows, among those of all strata.

        Raises
        ------
        ValueError
            If rows are lacking, or there are more than there were.
        """
        none = np.zeros(0, dtype=np.intp)
        rows = [groups.get(secret, none) for secret in self.stratum.secrets]
        for shard in np.unique(shards[np.concatenate(rows)]).tolist():
            there = [group[shards[group] == shard] for group in rows]
            number = shard - self.first
            sizes = sizes_of_piece(self.stratum.people, self.stratum.shards, number)
            if self.exact and [*map(len, there)] != sizes.tolist():
                raise ValueError(CHANGED)
            yield number, there


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
        self._exchange, self._rules, self._keyed, self._X = exchange, rules, keyed, X
        moving = (column.name for column in exchange.columns)
        wanted = {*moving, *exchange.ids, *exchange.strata, *exchange.secret.names, keyed[2]}
        self._names = [name for name in plans.lazy_names(X) if name in wanted]
        for name in exchange.ids:
            lazy_table(X).check_type(name)
        added: dict[str, str] = {}
        for name in _ADDED:
            added[name] = plans.free_name([*map(str, self._names), *added.values()], name)
        self._added = added

    @classmethod
    def keyed(cls, fitted: FittedMechanism, X: Any, keying: Keying) -> EngineRows:
        """Return the rows of a release, whose ids are present and unique."""
        exchange: Any = fitted.mechanism
        keyed = read_lazily(fitted, X, keying)[1]
        if any(name not in plans.lazy_names(X) for name in exchange.secret.names):
            raise ValueError(NO_SECRETS)
        kinds = {str(column.name): column.kind for column in exchange.columns}
        plans.check_lazy_kinds(X, kinds)
        check_ids(X, keyed[2])
        return cls(exchange, fitted.rules, X, keyed)

    def _task(self, do: str, about: Any = None) -> ShardTask:
        return ShardTask(do, self._exchange, self._rules, self._keyed, self._added, about)

    def _numbered(self, shift: int = 0) -> Any:
        return plans.planned(self._X, self._names, self._task("numbered", shift))

    @cached_property
    def counts(self) -> list[Array]:
        """Strata, secrets and how many people they have, and the sums that `mark_of` takes."""
        rows = self._numbered()
        if self._exchange.ids and self._keyed[2] not in self._exchange.ids:
            counted = row_ids.count_ids(rows, self._added["mark"])
            self._exchange.check_alone(counted.distinct, counted.rows)
        stratum, secret, *of = (self._added[name] for name in _ADDED[:4])
        return [*plans.summed(rows, [stratum, secret], of).values()]

    @cached_property
    def people(self) -> IntArray:
        """How many people have each secret, by strata in the order of their digests."""
        stratum, secret, n, _, _ = self.counts
        at, row = np.unique(stratum, return_inverse=True)
        people = np.zeros((len(at), len(self._exchange.secret.labels)), dtype=np.int64)
        people[row, secret] = n
        if (people.sum(axis=0) > 0).sum() < 2:
            raise ValueError(NO_SECRETS)
        return people

    @cached_property
    def cuts(self) -> dict[int, Cut]:
        """The strata that are cut into shards, by their digests."""
        problems, cuts, first = {}, {}, 0
        places: dict[Any, tuple[IntArray, int]] = {}
        for stratum, row in zip(np.unique(self.counts[0]).tolist(), self.people, strict=True):
            secrets = np.flatnonzero(row).tolist()
            problem = self._exchange.problem(secrets, row[secrets])
            if problem.shards > 1:
                problems[stratum] = problem
                sizes = [sizes_of_piece(row, problem.shards, k) for k in range(problem.shards - 1)]
                ends = np.cumsum(sizes, axis=0)
                places |= {(stratum, s): (ends[:, s], row[s]) for s in secrets}
        edges, exact = self._edges(places) if places else {}, self._keyed[0] is not None
        for stratum, problem in problems.items():
            of = {secret: edges[stratum, secret] for secret in problem.secrets}
            cuts[stratum] = Cut(problem, of, first, exact)
            first += problem.shards
        return cuts

    def _edges(self, places: Mapping[Any, tuple[IntArray, int]]) -> Mapping[Any, IntArray]:
        """Return the numbers that come at some places of strata and secrets of so many people."""
        if self._keyed[0] is None:  # about there: the rows of a fit are in any random order
            return {of: (ends * (_END / n)).astype(np.int64) for of, (ends, n) in places.items()}
        shift = 63 - int(self.people.max() // _NEAR).bit_length()
        stratum, secret, *_, interval, number = (self._added[name] for name in _ADDED[:7])
        rows, wanted = self._numbered(shift), {of: ends for of, (ends, _) in places.items()}
        return plans.at_ranks(rows, [stratum, secret], number, interval, wanted)

    def _together(self, do: str, rank: str = "") -> Any:
        """Return what a task makes of all rows of each shard, or of some strata."""
        first = sum(cut.stratum.shards for cut in self.cuts.values())
        rest = int(self.people.sum() - sum(cut.stratum.people.sum() for cut in self.cuts.values()))
        others = -(-rest // self._exchange.shard)
        about = self.cuts, first, max(others, 1)
        rows = plans.planned(self._X, self._names, self._task("sharded", about))
        task = self._task(do, self.cuts)
        return plans.together(rows, self._added["shard"], first + others, task, rank)

    def figures(self) -> list[str]:
        """Return the figures of each task, as the mechanism writes them."""
        return plans.texts(self._together("figures"), _TEXT)

    def told(self) -> list[str]:
        """Return which large strata are cut into few shards, or are one, by a rare secret."""
        rows, digests = self.people.sum(axis=1), np.unique(self.counts[0]).tolist()
        cut = [self.cuts[each].stratum.shards if each in self.cuts else 1 for each in digests]
        large = np.flatnonzero(rows >= 2 * self._exchange.shard * np.array(cut)).tolist()
        if not large:
            return []
        most = max(large, key=lambda k: rows[k] / cut[k])
        few = np.where(self.people[most] > 0, self.people[most], rows[most]).argmin()
        return [
            f"{len(large)} large stratum or strata are cut into few shards, each of which a worker "
            f"holds whole: one of {rows[most]:,} rows into {cut[most]}, as its secret "
            f"{quoted(self._exchange.secret.labels[few])} has {self.people[most, few]:,} of them."
        ]

    def plan(self, by: Any) -> Any:
        """Return the released rows as a lazy table, in an order that shows no shard.

        Raises
        ------
        OverspentError
            If ``by`` has released some of these people before.
        """
        key, context = self._keyed[0].read(), self._keyed[1]
        sums = [int(each.sum()) for each in self.counts[2:]]
        mark, limit = mark_of(key, context, sums), _END // max(sums[0] // _MARKS, 1) - 1
        marks = plans.numbers_up_to(self._numbered(), self._added["mark"], limit)
        check_first(by, marks, mark, by_ids=bool(self._exchange.ids))
        plan = self._together("released", self._added["rank"])
        note(by, marks, mark)
        return plan


class ShardTask(KeyedPart):
    """What is done with some rows of a lazy table, or with all rows of a shard.

    Parameters
    ----------
    do : str
        A method of this class, called ``_do_`` and that.
    exchange : Mechanism
    rules : TableRules or None
    keyed : tuple
        The arguments of a `KeyedPart`.
    added : dict
        The names of columns that are added.
    about : object
        What the method goes by.
    """

    way_out = "fit again, on rows that have such values"

    def __init__(
        self, do: str, exchange: Any, rules: Any, keyed: Any, added: Any, about: Any
    ) -> None:
        super().__init__(*keyed)
        self._do, self._exchange, self._rules = do, exchange, rules
        self._added, self._about = added, about

    def _bits(self) -> Any:
        return None if self._key is None else super()._bits()

    def at_fault(self, part: Any) -> list[Name]:
        """Return no column: secrets and ids may be at fault as well."""
        return []

    def made(self, part: Any, bits: Any) -> Any:
        """Return what is made of a part."""
        table = frame_table(part)
        rows = self._exchange.read(table)
        if bits is None:  # a fit
            lots, hashes = None, row_hashes(rows.marks, np.arange(table.n_rows)).view(np.uint64)
            tags = np.stack([hashes, hashes], axis=1)
        else:
            lots = Lots(rows.seen, rows.places, self.keyed(table, bits), _no_bits)
            tags = lots.tags
        return getattr(self, f"_do_{self._do}")(part, table, rows, tags, lots)

    def _with(self, part: Any, numbers: Mapping[str, IntArray]) -> Any:
        return plans.with_numbers(part, {self._added[name]: n for name, n in numbers.items()})

    def _do_numbered(self, part: Any, table: Table, rows: Any, tags: Any, lots: Any) -> Any:
        numbers, marks = _numbers(tags), rows.marks & LARGEST_DIGEST
        found = rows.seen[1], rows.codes, *halves(tags).T, marks, numbers >> self._about, numbers
        return self._with(part, dict(zip(_ADDED, found, strict=False)))

    def _do_sharded(self, part: Any, table: Table, rows: Any, tags: Any, lots: Any) -> Any:
        cuts, first, n_others = self._about
        shard, numbers = first + rows.seen[1] % n_others, _numbers(tags)
        for stratum in {*np.unique(rows.seen[1]).tolist()} & {*cuts}:
            for secret in cuts[stratum].stratum.secrets:
                here = np.flatnonzero((rows.seen[1] == stratum) & (rows.codes == secret))
                shard[here] = cuts[stratum].shards(secret, numbers[here])
        return self._with(part, {"shard": shard})

    def _solved(self, table: Table, rows: Any, order: IntArray) -> Any:
        shards = table.values(self._added["shard"]).data
        return self._exchange.solved(rows, order, self._about, shards) if table.n_rows else []

    def _do_figures(self, part: Any, table: Table, rows: Any, tags: Any, lots: Any) -> Any:
        solved = self._solved(table, rows, np.lexsort(tags.T))
        told = [self._exchange.figures(rows, solved)] if table.n_rows else []
        return plans.with_texts(part, _TEXT, told)

    def _do_released(self, part: Any, table: Table, rows: Any, tags: Any, lots: Any) -> Any:
        received = self._exchange.permutation(rows, self._solved(table, rows, lots.order), lots)
        whole = self._exchange.written(table, self._rules, received)
        return self._with(whole, {"rank": _numbers(tags[:, ::-1])})


def _numbers(tags: Any) -> IntArray:
    """Return random numbers of 63 bits, in the order of those that order rows."""
    return np.asarray((tags[:, 1] >> np.uint64(1)).astype(np.int64))


def _no_bits(column: int) -> NoReturn:
    raise RuntimeError("a task of a plan draws by its key alone.")
