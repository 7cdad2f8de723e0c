r"""The loss of several draws for the same row from one channel.

The draws :math:`y_1, ..., y_j` have the law :math:`\sum_x p_s(x) \prod_i W(y_i | x)`, in which
their order does not count. Where there are not too many of them, this is computed. Otherwise there
is a bound for units of cells that lead to the same outputs, all of them to all: with
:math:`\lambda` the largest log ratio of two shares of one output in the unit, each further draw,
whose law given those before is a mean of rows, adds at most :math:`\lambda`, and j draws add j of
them to what the unit tells. Nothing is known of other channels: two draws may then tell everything.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sklearn_puffer._base import (
    ULP,
    Array,
    FloatArray,
    HockeyStick,
    IntArray,
    Integers,
    Notion,
    Supremum,
    check_count,
)
from sklearn_puffer._losses.channel_losses import (
    Outcomes,
    Released,
    channel_losses,
    checked,
    entries_of,
    log_ratios,
    losses_of,
    outcomes,
    released,
)
from sklearn_puffer._losses.divergences import apart
from sklearn_puffer._noise import WHOLE, IntegerRows

MOST_OUTCOMES = 2**21
"""Most sequences of draws, apart from their order, of which the law is computed."""

_MOST_DRAWS = 14  # products of 2^-62 are floats, and so are ratios of them
_SUM_MARGIN = 2.0**-44


def repeated_losses(
    rows: IntegerRows,
    masses: IntArray,
    cells: Array | None,
    pairs: Array,
    notion: Notion,
    n_draws: int,
) -> FloatArray:
    """Return proven ends of the loss of several draws for the same row, together.

    Parameters
    ----------
    rows, masses, cells, pairs, notion
        As in `channel_losses`.
    n_draws : int
        How often each row is drawn for, each time anew.

    Returns
    -------
    ndarray of shape (n_pairs, 2, 2)
        As in `channel_losses`. The ends lie together where the law of the draws is computed. Else
        the lower one is that of a single draw, and the upper one infinite (or 1, under a delta)
        where rows that share an output do not share all of them.

    Raises
    ------
    TypeError, ValueError
        As `channel_losses`; if ``n_draws`` is no count.

    Examples
    --------
    The first cell alone leads to both outputs; a single draw tells nothing, and two everything:

    >>> from sklearn_puffer.notions import Pufferfish
    >>> rows = IntegerRows([0, 2, 3, 4], [1, 2, 1, 2], [WHOLE // 2, WHOLE // 2, WHOLE, WHOLE])
    >>> masses = np.array([[1, 0, 0], [0, 1, 1]])
    >>> for j in (1, 2):
    ...     losses = repeated_losses(rows, masses, None, [[0, 1]], Pufferfish(1.0), j)
    ...     print(losses[0, 0, 1].round(9))
    0.0
    inf
    """
    n_draws = check_count(n_draws, "n_draws")
    if n_draws == 1:
        return channel_losses(rows, masses, cells, pairs, notion)
    masses = checked(rows, masses, cells)
    cells = np.arange(rows.n_cells) if cells is None else np.asarray(cells)
    some = (masses > 0).any(axis=0)
    masses, cells = masses[:, some], cells[some]
    if n_draws <= _MOST_DRAWS and _n_outcomes(rows, cells, n_draws) <= MOST_OUTCOMES:
        return losses_of(released(_drawn(rows, cells, n_draws), masses), pairs, notion)
    single = channel_losses(rows, masses, cells, pairs, notion)
    single[..., 1] = _bounds(rows, masses, cells, pairs, notion, n_draws)
    return single


def channel_floor(rows: IntegerRows) -> float:
    """Return the most that a release of a cell tells anybody about which cell of its unit it is.

    In nats, rounded up; infinite where rows that share an output do not share all of them.

    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [WHOLE // 4, 3 * WHOLE // 4] * 2)
    >>> channel_floor(rows) < 1e-14
    True
    """
    return float(_units(rows).told.max())


# ------------------------------------------------------------------------------------ exact losses


def _n_outcomes(rows: IntegerRows, cells: IntArray, n_draws: int) -> float:
    """Return how many sequences of draws all rows have, apart from their order."""
    lengths = np.diff(rows.starts)[cells].astype(float)
    steps = [(lengths + k) / (k + 1.0) for k in range(n_draws)]
    return float(np.prod(steps, axis=0).sum())


def _drawn(rows: IntegerRows, cells: IntArray, n_draws: int) -> Outcomes:
    """Return what several draws make of each cell: each sequence in order of the entries.

    In the chance of a sequence all its orders are counted, j! over the factorials of how often each
    output occurs: with each draw that is the k-th of the same ones in a row, times i / k for the
    i-th of all.
    """
    entries, places = entries_of(rows, cells)
    shares, targets = rows.shares[entries] / WHOLE, rows.targets[entries]
    ends = np.cumsum(np.bincount(places))  # each cell has an entry
    last, chances = np.arange(places.size), shares
    numbers, run = np.unique(targets, return_inverse=True)[1], np.ones(places.size)
    for i in range(2, n_draws + 1):
        further = ends[places] - last
        old = np.repeat(np.arange(last.size), further)
        offset = np.arange(old.size) - np.repeat(np.cumsum(further) - further, further)
        last, places = last[old] + offset, places[old]
        run = np.where(offset == 0, run[old] + 1.0, 1.0)
        chances = chances[old] * shares[last] * (i / run)
        names = numbers[old] * rows.n_cells + targets[last]
        numbers = np.unique(names, return_inverse=True)[1]
    return Outcomes(places, numbers, chances, 4 * n_draws)


# ------------------------------------------------------------------------------------------ bounds


class _Units(NamedTuple):
    """The unit of each cell, and what a draw tells within each at most."""

    of_cell: Integers
    told: FloatArray


def _units(rows: IntegerRows) -> _Units:
    n = rows.n_cells
    cells = np.repeat(np.arange(n), np.diff(rows.starts))
    ends = (cells, n + rows.targets)
    links = sparse.coo_array((np.ones(cells.size), ends), shape=(2 * n, 2 * n))
    count, unit = connected_components(links, directed=False)
    least, most = np.full(n, float(WHOLE)), np.ones(n)
    np.minimum.at(least, rows.targets, rows.shares)
    np.maximum.at(most, rows.targets, rows.shares)
    used = np.unique(rows.targets)
    told = np.zeros(count)
    ratio = np.log(most[used] / least[used])
    np.maximum.at(told, unit[n + used], ratio + 8.0 * ULP * (1.0 + ratio))
    n_rows = np.bincount(unit[:n], minlength=count)
    n_outputs = np.bincount(unit[n + used], minlength=count)
    some = np.bincount(unit[cells], minlength=count) < n_rows * n_outputs
    return _Units(unit[:n], np.where(some, math.inf, told))


def _bounds(
    rows: IntegerRows, masses: IntArray, cells: Array, pairs: Array, notion: Notion, n_draws: int
) -> FloatArray:
    """Return upper ends of the loss of several draws, shape (n_pairs, 2)."""
    units = _units(rows)
    used, number = np.unique(units.of_cell[cells], return_inverse=True)
    whole = released(Outcomes(np.arange(cells.size), number, np.ones(cells.size), 0), masses)
    drawn = outcomes(rows, cells)
    single = released(drawn, masses)
    of_outcome = np.zeros(single.off.size, dtype=np.int64)
    of_outcome[drawn.numbers] = number[drawn.places]
    each = _Repeated(whole, single, of_outcome, units.told[used], n_draws, notion)
    both = [(s, t) for one, two in np.asarray(pairs).tolist() for s, t in ((one, two), (two, one))]
    return np.array([each.bound(s, t) for s, t in both], dtype=float).reshape(-1, 2)


class _Repeated(NamedTuple):
    """What units are under each law, what single draws from them are, and what these tell."""

    whole: Released
    single: Released
    unit: IntArray
    told: FloatArray
    n_draws: int
    notion: Notion

    def bound(self, s: int, t: int) -> float:
        """Return an upper end of the loss from law s to law t."""
        divergence = self.notion.divergence
        if isinstance(divergence, Supremum):
            return float(self._ratio(s, t).max(initial=0.0))
        assert isinstance(divergence, HockeyStick)  # as the loss of a single draw was computed
        return min(self._excess(s, t, divergence.epsilon) * (1.0 + _SUM_MARGIN), 1.0)

    def _ratio(self, s: int, t: int) -> FloatArray:
        """Return what all draws together tell, in each unit."""
        drawn = np.full(self.told.size, -math.inf)  # and so it stays where s has no mass
        np.maximum.at(drawn, self.unit, self._of(self.single, s, t))
        told = np.where(drawn > -math.inf, self.told, 0.0)
        by_drawn = drawn + (self.n_draws - 1) * told
        by_unit = self._of(self.whole, s, t) + self.n_draws * told
        least: FloatArray = np.minimum(by_drawn, by_unit)
        return least * (1.0 + 4.0 * ULP)

    def _of(self, given: Released, s: int, t: int) -> FloatArray:
        return log_ratios(given.laws[s], given.laws[t], given.off)[1]

    def _excess(self, s: int, t: int, epsilon: float) -> float:
        r"""Return the sum over units of what exceeds the factor e^epsilon.

        As :math:`q_t(y_2, ..., y_j | y_1) \ge e^{-(j - 1) \lambda} q_s(y_2, ..., y_j | y_1)`, that
        of all draws is at most that of the first one for epsilon less (j - 1) lambda.
        """
        least = epsilon - (self.n_draws - 1) * self.told * (1.0 + 4.0 * ULP)
        drawn = self._apart(self.single, s, t, least[self.unit])
        by_drawn = np.bincount(self.unit, weights=drawn, minlength=self.told.size)
        least = epsilon - self.n_draws * self.told * (1.0 + 4.0 * ULP)
        by_unit = self._apart(self.whole, s, t, least)
        return float(np.minimum(by_drawn, by_unit).sum())

    def _apart(self, given: Released, s: int, t: int, epsilon: FloatArray) -> FloatArray:
        p, q = given.laws[s] * (1.0 + given.off), given.laws[t] * (1.0 - given.off)
        return apart(p, q, epsilon, 1.0)
