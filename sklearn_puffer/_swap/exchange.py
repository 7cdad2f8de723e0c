r"""Who receives whose row: whole flows, leavers and places by lot, then matches of least change.

*Whole flows* are drawn anew for each release, with the mean flows as their means: fixed ones would
tell a reader who knows the secrets of nearly everybody those of the last ones. Two secrets: with x
rows exchanged each way,

.. math:: P(x) \propto \omega^x / ((n_1 - x)! \, x!^2 \, (n_2 - x)!)

which is randomised response given the margins (Fisher's noncentral hypergeometric distribution).
More secrets: flows are rounded without bias and then moved along rectangles by steps that are
symmetric, so that every mean stays what it is, whatever the number of steps.

Of each secret a uniformly random set of people leaves, and the places they vacate are dealt
uniformly at random to the secrets that receive them. Whatever rule then matches leavers with
places, it cannot tell more of a holder than the flows do, as long as it sees rows, secrets and its
own bits, and never ids or the order of the file: so everything is put in random order first.

Who keeps his secret, and receives the row of another person of it, is of a random half of those
who leave, and receives a place of the other half. So nobody receives his own row, near rows can be
matched there, too, and what a person receives says nothing of who received his own row.

Below it is what these choices are made of: the lots of rows, fresh or keyed, the rows that were
exchanged before, and the distances of rows.
"""

from __future__ import annotations

import hmac
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from sklearn_puffer._base import Array, FloatArray, IntArray, digest
from sklearn_puffer._losses import Exchange
from sklearn_puffer._noise import Choices, Entropy, Stream
from sklearn_puffer._release import KeyedRows, OverspentError
from sklearn_puffer._tables import LazyTable, Name, Values, present, row_hashes, value_codes

PART = 500
"""Leavers and places that are matched at once; more are cut into parts of rows that are near."""

_STEPS = 4  # towards the axis along which rows are cut
_DIGITS = 9  # of rows' places along it
_MANY = 8  # secrets, of which not all rectangles are taken
_BITS = 62  # of the chance of each number of exchanged rows

Costs = Callable[[Array, Array], FloatArray]
"""The change for people with some rows who receive others, shape (n, m)."""


def exchanged(
    groups: Sequence[Array],
    flows: IntArray,
    moved: IntArray,
    costs: Costs | None,
    draws: Choices,
    points: Points | None = None,
) -> Array:
    """Return for each person the person whose row he receives.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The people of each secret, numbered from 0 over all groups.
    flows : ndarray of int64 of shape (n_secrets, n_secrets)
        People of each secret who receive rows of each secret.
    moved : ndarray of int64 of shape (n_secrets,)
        Those of them who keep their secret and receive another person's row.
    costs : callable or None
        What is least in the sum; None matches at random.
    draws : Choices
    points : Points, optional
        By which more than `PART` rows are cut.
    """
    received = np.empty(sum(map(len, groups)), dtype=np.intp)
    leavers, places = [], []
    for secret, people in enumerate(groups):
        going = people[draws.shuffled(len(people))]
        staying, going = np.split(going, [int(flows[secret, secret] - moved[secret])])
        received[staying] = staying
        targets, sources = flows[secret].copy(), flows[:, secret].copy()
        targets[secret] = sources[secret] = 0
        if moved[secret] == len(going):
            received[going] = _deranged(going, draws)
            going = left = going[:0]
        elif moved[secret]:
            going, left, halves = _crossed(going, int(moved[secret]), draws)
            for who, what in halves:
                _match(received, who, what, costs, points)
        else:
            left = going
        leavers.append(_dealt(going, targets, draws))
        places.append(_dealt(left, sources, draws))
    for a, b in np.argwhere(flows):
        if a != b:
            _match(received, leavers[a][b], places[b][a], costs, points)
    return received


def _crossed(going: Array, moved: int, draws: Choices) -> tuple[Array, Array, list[Any]]:
    """Return who leaves his secret, the places left to others, and whom to match within the secret.

    The people come in random order. Of two random halves of them each takes places of the other,
    so which places are left is independent of who leaves.
    """
    more, less = moved - moved // 2, moved // 2
    first, second = np.split(going, [len(going) - len(going) // 2])
    ones = first[draws.shuffled(len(first))]
    others = second[draws.shuffled(len(second))]
    leaving = np.concatenate([first[more:], second[less:]])
    left = np.concatenate([ones[less:], others[more:]])
    return leaving, left, [(first[:more], others[:more]), (second[:less], ones[:less])]


def _deranged(people: Array, draws: Choices) -> Array:
    """Return people in random order, none of them in his own place.

    Where all who move keep their secret, halves may not be equal; and matching the nearest would
    give people of a few rows their own ones.
    """
    while True:
        places = people[draws.shuffled(len(people))]
        if not (places == people).any():
            return places


def _dealt(going: Array, counts: IntArray, draws: Choices) -> list[Array]:
    return np.split(going[draws.shuffled(len(going))], np.cumsum(counts)[:-1])


def _match(received: Array, who: Array, what: Array, costs: Costs | None, points: Any) -> None:
    """Give places to leavers; both are in random order already."""
    if costs is None:
        received[who] = what
        return
    n_parts = 1 << (max(len(who) - 1, 0) // PART).bit_length()
    for some, others in cut([who, what], points, n_parts):
        rows, columns = linear_sum_assignment(costs(some, others))
        received[some[rows]] = others[columns]


def cut(groups: Sequence[Array], points: Points, n_pieces: int) -> list[list[Array]]:
    """Cut the rows of each secret at their own medians, along axes that all of them share.

    Each cut halves all pieces, along the axis on which rows of one secret lie farthest apart. Equal
    rows are cut in the order that they come in, which has to be random. Piece q has the sizes of
    `sizes_of_piece`.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The rows of each secret, in random order.
    points : Points
    n_pieces : int
        A power of two.

    Examples
    --------
    >>> height = Points(np.array([[1.0], [5.0], [4.0], [2.0], [9.0]]), [], [])
    >>> [[x.tolist() for x in piece] for piece in cut([np.arange(5)], height, 2)]
    [[[0, 2, 3]], [[1, 4]]]
    """
    if n_pieces == 1:
        return [list(groups)]
    sizes = [*map(len, groups)]
    along = _longest_axis(points.taken(np.concatenate(groups)), np.repeat(range(len(sizes)), sizes))
    values = np.split(along, np.cumsum(sizes)[:-1])
    halves = zip(*map(_halves, groups, values), strict=True)
    lower, upper = (cut(half, points, n_pieces // 2) for half in halves)
    return [piece for both in zip(lower, upper, strict=True) for piece in both]


def _halves(group: Array, values: FloatArray) -> list[Array]:
    """Return the rows of lower and of higher values, both in the order that they came in."""
    order = np.argsort(values, kind="stable")
    return [group[np.sort(half)] for half in np.split(order, [-(-len(order) // 2)])]


def _longest_axis(points: Points, secrets: IntArray) -> FloatArray:
    """Return rows' places along the principal axis within secrets, nearly: by power iteration.

    Numbers and, for each value of another column, whether a row has it, are the coordinates.
    """
    codes = [np.unique(each, return_inverse=True)[1] for each in points.codes]
    numbers = points.numbers.astype(np.float64)
    along: FloatArray = sum(k * column for k, column in enumerate([*numbers.T, *codes], 1))
    for _ in range(_STEPS):
        along = along - (np.bincount(secrets, along) / np.bincount(secrets))[secrets]
        moved = numbers @ (numbers.T @ along)
        for of_row, unit in zip(codes, points.units, strict=True):
            moved += unit**2 * np.bincount(of_row, along)[of_row]
        along = moved / (np.abs(moved).max() or 1.0)
    return np.round(along, _DIGITS)  # so that equal rows are equal, whatever is added first


# ----------------------------------------------------------------------------------- whole flows


def drawn_flows(exchange: Exchange, draws: Choices) -> tuple[IntArray, IntArray]:
    """Return G, whole flows with mean F, and of those who keep their secret how many move."""
    if len(exchange.sizes) == 2:
        flows = _of_two(exchange, draws)
    else:
        flows = _spread(_rounded(exchange, draws), exchange, draws)
    moved = [_movers(exchange, secret, flows, draws) for secret in range(len(flows))]
    return flows, np.array(moved, dtype=np.int64)


def _of_two(exchange: Exchange, draws: Choices) -> IntArray:
    first, second = map(int, exchange.sizes)
    start, parts = response(first, second, int(exchange.flows[0, 1]) / exchange.unit)
    drawn = draws.below(1 << _BITS)
    exchanged = start + int(np.searchsorted(np.cumsum(parts), drawn, side="right"))
    return np.array([[first - exchanged, exchanged], [exchanged, second - exchanged]])


@lru_cache(maxsize=64)
def response(first: int, second: int, mean: float) -> tuple[int, IntArray]:
    """Return the least number of exchanged rows, and the chances of it and the next ones.

    The chances are whole parts of 2^-62, which sum to 1; numbers whose chance is below one part
    are left out at both ends.

    >>> start, parts = response(3, 2, 1.0)
    >>> start, (parts / 2**62).round(3).tolist()
    (0, [0.183, 0.634, 0.183])
    """
    numbers = np.arange(min(first, second) + 1)
    if mean in (0.0, float(numbers[-1])):
        return int(mean), np.array([1 << _BITS])
    base = -gammaln(first - numbers + 1) - 2 * gammaln(numbers + 1) - gammaln(second - numbers + 1)

    def chances(slope: float) -> FloatArray:
        logs = base + slope * numbers
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    slope = brentq(lambda s: float(chances(s) @ numbers) - mean, -800.0, 800.0, xtol=1e-14)
    parts = np.floor(chances(slope) * (1 << _BITS)).astype(np.int64)
    parts[parts.argmax()] += (1 << _BITS) - int(parts.sum())
    there = np.flatnonzero(parts)
    return int(there[0]), parts[there[0] : there[-1] + 1]


def _rounded(exchange: Exchange, draws: Choices) -> IntArray:
    """Return flows in whole rows whose means are the flows, by Cox's cycles (1987)."""
    unit = exchange.unit
    table = np.array(exchange.flows, dtype=np.int64)
    while (open_ := table % unit > 0).any():
        cycle = _cycle(open_)
        signs = np.tile([1, -1], len(cycle) // 2)
        where = tuple(np.array(cycle).T)
        below, above = table[where] % unit, unit - table[where] % unit
        up = int(np.where(signs > 0, above, below).min())
        down = int(np.where(signs > 0, below, above).min())
        step = up if draws.below(up + down) < down else -down
        table[where] += signs * step
    return table // unit


def _cycle(open_: Array) -> list[tuple[int, int]]:
    """Return a cycle of open entries that turns at each: two in every row and column it visits."""
    path: list[tuple[int, int]] = []
    row = int(np.flatnonzero(open_.any(axis=1))[0])
    seen: dict[int, int] = {}
    column = -1
    while row not in seen:
        seen[row] = len(path)
        column = next(int(c) for c in np.flatnonzero(open_[row]) if c != column)
        path.append((row, column))
        row = next(int(r) for r in np.flatnonzero(open_[:, column]) if r != row)
        path.append((row, column))
    # the walk may come back along the column by which it first left this row
    cycle = path[seen[row] :]
    return cycle if cycle[0][1] != cycle[-1][1] else cycle[1:-1]


def _spread(flows: IntArray, exchange: Exchange, draws: Choices) -> IntArray:
    """Return flows after a symmetric step along rectangles of two secrets by two.

    A step is as long as randomised response within the rectangle would spread. The rectangles share
    entries, so each gets its part of the variance. Of many secrets they are only those of each two
    with themselves and with neighbours, which join all entries, too.
    """
    table, k = flows.tolist(), len(flows)
    means = (exchange.flows / exchange.unit).tolist()
    pairs = list(itertools.combinations(range(k), 2))
    near = [*itertools.pairwise(range(k)), (0, k - 1)]
    shared = (k - 1) * (k - 1 if k <= _MANY else 3)
    for i, j in pairs:
        for a, b in pairs if k <= _MANY else [(i, j), *near]:
            least = min(table[i][a], table[j][b], table[i][b], table[j][a])
            expected = means[i][a], means[j][b], means[i][b], means[j][a]
            if least and min(expected) > 0.0:
                variance = 1.0 / sum(1.0 / mean for mean in expected) / shared
                reach = min(least, math.ceil(math.sqrt(3.0 * variance)))
                step = draws.below(2 * reach + 1) - reach
                table[i][a] += step
                table[j][b] += step
                table[i][b] -= step
                table[j][a] -= step
    return np.array(table)


def _movers(exchange: Exchange, secret: int, flows: IntArray, draws: Choices) -> int:
    """Return how many of those who keep their secret receive the row of another person.

    The mean is S in the mean of all flows: of those who keep their secret the same share moves.
    Each half is rounded by itself: if one person alone moved, whoever holds another row of his own
    secret would know that his own row is held by the other one. Where nobody leaves, fewer than
    three would have to exchange their rows in pairs, or could not.
    """
    keeping, kept = int(flows[secret, secret]), int(exchange.flows[secret, secret])
    wanted = keeping * int(exchange.others[secret])
    if not wanted:
        return 0
    nobody_leaves = keeping == int(exchange.sizes[secret])
    if nobody_leaves and wanted < 3 * kept:
        return 3 if draws.below(3 * kept) < wanted else 0
    half, part = divmod(wanted, 2 * kept)
    if not nobody_leaves and 2 * half + 2 <= keeping:
        return 2 * half + sum(draws.below(2 * kept) < part for _ in range(2))
    whole, rest = divmod(wanted, kept)
    return whole + (draws.below(kept) < rest)


# ------------------------------------------------------------- lots of rows, and their distances


class Lots:
    """Where choices come from: fresh bits, or a key, an id and all that is seen of each row.

    Under a key choices about some rows are a function of key, ids, and all that is seen of these
    rows: the same table is the same release in any order, and other rows are drawn for anew.

    Parameters
    ----------
    seen : sequence of ndarray of int64 of shape (n_rows,)
        What keyed choices depend on.
    places : ndarray of int of shape (n_units, width)
        The rows that choices are about together, -1 behind them.
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

    def __init__(
        self,
        seen: Sequence[IntArray],
        places: IntArray,
        keyed: KeyedRows | None,
        entropy: Callable[[int], Entropy],
    ) -> None:
        self._keyed, self.mark = keyed, ""
        if self._keyed is None:
            self._choices = Choices(entropy(0))
            self.order = self._choices.shuffled(len(places))
            return
        # one column, as a ledger takes the table for one value of every row
        self._rows = self._keyed.columns(slice(None), [row_hashes(*seen)])[0].tags
        tags = np.where(places[:, :, None] >= 0, self._rows[places], 0)
        self.tags = tags.sum(axis=1, dtype=np.uint64)
        self.order = np.lexsort(self.tags.T)
        sums = [len(self._rows), *halves(self._rows).sum(axis=0).tolist()]
        self.mark = mark_of(self._keyed.key, self._keyed.context, sums)
        self._keyed.note_together(digest("sklearn_puffer.exchanged/1", self.mark))

    def ranks(self, n_rows: int) -> Any:
        """Return numbers by which rows are in random order."""
        return self._choices.shuffled(n_rows) if self._keyed is None else self._rows[:, 1]

    def of(self, units: IntArray, *about: Any) -> Choices:
        """Return the choices for some units, in their order."""
        if self._keyed is None:
            return self._choices
        return Choices(Stream(self._seed(units, *about)))

    def _seed(self, units: IntArray, *about: Any) -> bytes:
        assert self._keyed is not None
        told = "sklearn_puffer.exchange.rows/2", self._keyed.context, self.tags[units], *about
        return hmac.digest(self._keyed.key, digest(*told).encode(), "sha512")


def halves(tags: NDArray[np.uint64]) -> IntArray:
    """Return 31 bits of each of the two random numbers of rows, whose sums tell tables apart."""
    return np.asarray((tags >> np.uint64(33)).astype(np.int64))


def mark_of(key: bytes, context: str, sums: Sequence[int]) -> str:
    """Return the mark of keyed choices about all rows, by the sums of `halves` and how many."""
    told = digest("sklearn_puffer.exchange.mark/1", context, [int(each) for each in sums])
    return hmac.digest(key, told.encode(), "sha256").hex()


@dataclass
class _Before:
    """What one object has released: marks of rows, and those of keyed choices."""

    rows: Array
    keyed: set[str]


# beside the objects, so that it is in no copy and no file
_before: WeakKeyDictionary[Any, _Before] = WeakKeyDictionary()


def check_first(by: Any, marks: Array, mark: str, *, by_ids: bool) -> None:
    """Refuse rows that an object has exchanged before, but for the same keyed choices.

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
    before = _before.get(by)
    if before is None or (mark and mark in before.keyed):
        return
    share = float(np.isin(marks, before.rows).mean())
    if share >= 0.5 or (share and by_ids):
        raise OverspentError(
            f"this {type(by).__name__} has exchanged {share:.0%} of these rows before, and "
            "two swaps of the same people undo each other; hand out the first one (row_id= and "
            "a key give it again), or name ids= or take a clone for other people."
        )


def note(by: Any, marks: Array, mark: str) -> None:
    """Remember that an object has exchanged rows."""
    before = _before.setdefault(by, _Before(np.zeros(0, dtype=np.int64), set()))
    before.rows = np.union1d(before.rows, marks)
    before.keyed |= {mark} - {""}


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


_FARTHEST = 6.0  # standard deviations, at which numbers are cut off where distances are computed


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
        if isinstance(table, LazyTable):
            both = {n: rounded_unit(*each) for n, each in table.moments([*numbers]).items()}
        else:
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
                codes.append(value_codes(values))
                units.append(1.0 if unit is None else 1.0 / unit)
        n_rows = len(next(iter(columns.values())))
        wide = np.stack(numbers, axis=1) if numbers else np.zeros((n_rows, 1), dtype=np.float32)
        return Points(wide, codes, units)

    def _standardised(self, name: Name, values: Values) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            z = (values.data.astype(np.float64) - self.centres[name]) / self.spreads[name]
        z = np.where(np.isnan(z) | (values.missing if values.missing is not None else False), 0, z)
        return np.clip(z, -_FARTHEST, _FARTHEST).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Points:
    """Rows in units of distance: numbers, of single precision, and codes that are equal or not."""

    numbers: Array
    codes: Sequence[IntArray]
    units: Sequence[float]

    def together(self, places: Array) -> Points:
        """Return the rows of each group as one wide row."""
        there = places >= 0
        numbers = np.where(there[:, :, None], self.numbers[places], 0.0).reshape(len(places), -1)
        codes = [joined(each, places) for each in self.codes]
        units = [unit for unit in self.units for _ in range(places.shape[1])]
        return Points(numbers, [column for each in codes for column in each.T], units)

    def taken(self, rows: Array) -> Points:
        """Return some rows."""
        return Points(self.numbers[rows], [codes[rows] for codes in self.codes], self.units)

    def between(self, some: Array, others: Array) -> FloatArray:
        """Return the distances of some rows from others, summed over columns."""
        total: FloatArray = cdist(self.numbers[some], self.numbers[others], "cityblock")
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some][:, None] != codes[others][None, :])
        return total

    def apart(self, some: Array, others: Array) -> float:
        """Return the mean distance of rows from as many others, each from its own one."""
        total: FloatArray = np.abs(self.numbers[some] - self.numbers[others]).sum(
            axis=1, dtype=np.float64
        )
        for codes, unit in zip(self.codes, self.units, strict=True):
            total += unit * (codes[some] != codes[others])
        return float(total.mean()) if len(total) else 0.0


def joined(values: Array, places: Array) -> Array:
    """Return the values of the rows of each group, -1 where there are no more rows."""
    return np.where(places >= 0, values[places], -1)


def _mean_and_spread(values: Values) -> tuple[float, float]:
    """Return mean and standard deviation as `rounded_unit` has them."""
    data = present(values).astype(np.float64)
    data = data[np.isfinite(data)]
    unit = float(np.abs(data).max(initial=0.0))
    if not unit:
        return 0.0, 1.0
    data /= unit
    return rounded_unit(float(data.mean()) * unit, float(data.std()) * unit)


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
