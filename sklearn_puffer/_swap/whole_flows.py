r"""Flows in whole rows, drawn anew for each release, with the mean flows as their means.

Fixed flows would tell a reader who knows the secrets of nearly everybody those of the last ones.
Two secrets: with x rows exchanged each way, :math:`P(x) \propto \omega^x / ((n_1 - x)! \, x!^2 \,
(n_2 - x)!)`, which is randomised response given the margins (Fisher's noncentral hypergeometric
distribution). More secrets: flows are rounded without bias and then moved along rectangles by
steps that are symmetric, so that every mean stays what it is, whatever the number of steps.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses import Exchange

_MANY = 8  # secrets, of which not all rectangles are taken
_BITS = 62  # of the chance of each number of exchanged rows


class Draws(Protocol):
    """A source of uniform choices."""

    def below(self, end: int) -> int:
        """Return a whole number from 0 to ``end - 1``, each as probable as any other."""

    def shuffled(self, count: int) -> Array:
        """Return the numbers below ``count`` in an order, each as probable as any other."""


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
