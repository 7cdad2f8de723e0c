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
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.optimize import brentq, linear_sum_assignment
from scipy.special import gammaln

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses import Exchange

PART = 500
"""Leavers and places that are matched at once; more are cut into random parts."""

_SEEN = 1_000  # rows of each secret by which an axis is chosen
_MANY = 8  # secrets, of which not all rectangles are taken
_BITS = 62  # of the chance of each number of exchanged rows

Pair = tuple[Array, Array]

Costs = Callable[[Array, Array], FloatArray]
"""The change for people with some rows who receive others, shape (n, m)."""


class Draws(Protocol):
    """A source of uniform choices."""

    def below(self, end: int) -> int:
        """Return a whole number from 0 to ``end - 1``, each as probable as any other."""

    def shuffled(self, count: int) -> Array:
        """Return the numbers below ``count`` in an order, each as probable as any other."""


def exchanged(
    groups: Sequence[Array], flows: IntArray, moved: IntArray, costs: Costs | None, draws: Draws
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
    draws : Draws
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
                received[who] = what[_matched(who, what, costs)]
        else:
            left = going
        leavers.append(_dealt(going, targets, draws))
        places.append(_dealt(left, sources, draws))
    for a, b in np.argwhere(flows):
        if a != b:
            who, what = leavers[a][b], places[b][a]
            received[who] = what[_matched(who, what, costs)]
    return received


def _crossed(going: Array, moved: int, draws: Draws) -> tuple[Array, Array, list[Pair]]:
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


def _deranged(people: Array, draws: Draws) -> Array:
    """Return people in random order, none of them in his own place.

    Where all who move keep their secret, halves may not be equal; and matching the nearest would
    give people of a few rows their own ones.
    """
    while True:
        places = people[draws.shuffled(len(people))]
        if not (places == people).any():
            return places


def _dealt(going: Array, counts: IntArray, draws: Draws) -> list[Array]:
    return np.split(going[draws.shuffled(len(going))], np.cumsum(counts)[:-1])


def _matched(who: Array, what: Array, costs: Costs | None) -> Array:
    """Return for each leaver the index of his place; both are in random order already."""
    matched = np.arange(len(who))
    if costs is None:
        return matched
    n_parts = -(-len(who) // PART)
    for part in np.array_split(matched.copy(), max(n_parts, 1)):
        rows, columns = linear_sum_assignment(costs(who[part], what[part]))
        matched[part[rows]] = part[columns]
    return matched


def cut(
    groups: Sequence[Array], axes: Sequence[tuple[Array, float | None]], n_pieces: int
) -> list[list[Array]]:
    """Cut the rows of each secret at their own medians, along axes that all of them share.

    Each cut halves all pieces, along the axis on which it brings random rows of one secret nearest
    to each other. Equal values are cut in the order of the rows, which has to be random. Piece
    q has the sizes of `sizes_of_piece`.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The rows of each secret, in random order.
    axes : sequence of (ndarray of shape (n_rows,), float or None)
        The coordinates of all rows; where there is a unit, only whether they are equal counts.
    n_pieces : int
        A power of two.

    Examples
    --------
    >>> height = np.array([1.0, 5.0, 4.0, 2.0, 9.0])
    >>> [[x.tolist() for x in piece] for piece in cut([np.arange(5)], [(height, None)], 2)]
    [[[0, 2, 3]], [[1, 4]]]
    """
    if n_pieces == 1:
        return [list(groups)]
    some = [group[:_SEEN] for group in groups]
    values = max(axes, key=lambda axis: _gain(some, *axis))[0]
    halves = zip(*(_halves(group, values) for group in groups), strict=True)
    lower, upper = (cut(half, axes, n_pieces // 2) for half in halves)
    return [piece for both in zip(lower, upper, strict=True) for piece in both]


def _halves(group: Array, values: Array) -> list[Array]:
    """Return the rows of lower and of higher values, both in the order that they came in."""
    order = np.argsort(values[group], kind="stable")
    return [group[np.sort(half)] for half in np.split(order, [-(-len(order) // 2)])]


def _gain(groups: Sequence[Array], values: Array, unit: float | None) -> float:
    """Return by how much a cut along an axis shortens the distances along it, in all."""

    def apart(rows: Array) -> float:
        here = values[rows]
        steps = here[1:] - here[:-1]  # of rows in random order
        return float(np.abs(steps).sum() if unit is None else unit * (steps != 0).sum())

    return sum(apart(group) - sum(map(apart, _halves(group, values))) for group in groups)


# ----------------------------------------------------------------------------------- whole flows


def drawn_flows(exchange: Exchange, draws: Draws) -> tuple[IntArray, IntArray]:
    """Return G, whole flows with mean F, and of those who keep their secret how many move."""
    if len(exchange.sizes) == 2:
        flows = _of_two(exchange, draws)
    else:
        flows = _spread(_rounded(exchange, draws), exchange, draws)
    moved = [_movers(exchange, secret, flows, draws) for secret in range(len(flows))]
    return flows, np.array(moved, dtype=np.int64)


def _of_two(exchange: Exchange, draws: Draws) -> IntArray:
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


def _rounded(exchange: Exchange, draws: Draws) -> IntArray:
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


def _spread(flows: IntArray, exchange: Exchange, draws: Draws) -> IntArray:
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


def _movers(exchange: Exchange, secret: int, flows: IntArray, draws: Draws) -> int:
    """Return how many of those who keep their secret receive the row of another person.

    The mean is S in the mean of all flows: of those who keep their secret the same share moves.
    Where nobody leaves, fewer than three would have to exchange their rows in pairs, or could not.
    """
    keeping, kept = int(flows[secret, secret]), int(exchange.flows[secret, secret])
    wanted = keeping * int(exchange.others[secret])
    if not wanted:
        return 0
    nobody_leaves = keeping == int(exchange.sizes[secret])
    if nobody_leaves and wanted < 3 * kept:
        return 3 if draws.below(3 * kept) < wanted else 0
    whole, rest = divmod(wanted, kept)
    return whole + (draws.below(kept) < rest)
