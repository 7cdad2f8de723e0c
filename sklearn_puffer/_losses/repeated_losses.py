r"""The loss of several draws for the same row from one channel.

The draws :math:`y_1, ..., y_j` have the law :math:`\sum_x p_s(x) \prod_i W(y_i | x)`, in which
their order does not count. Where there are not too many of them, this is computed. Otherwise there
is a bound for units of cells that lead to the same outputs, all of them to all: with
:math:`\lambda` the largest log ratio of two shares of one output in the unit, each further draw,
whose law given those before is a mean of rows, adds at most :math:`\lambda`, and j draws add j of
them to what the unit tells. Nothing is known of other channels: two draws may then tell everything.

The loss of a released cell, recomputed from the whole numbers of channel and laws.

Nothing here knows how the channel was found.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
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
from sklearn_puffer._losses.divergences import apart
from sklearn_puffer._noise import WHOLE, IntegerRows

_SUM_MARGIN = 2.0**-44  # of a sum of terms of one sign, which numpy adds up in pairs
_HALF = 2**32


def channel_losses(
    rows: IntegerRows, masses: IntArray, cells: Array | None, pairs: Array, notion: Notion
) -> FloatArray:
    r"""Return proven ends of the loss of each pair of laws, of what a channel releases of them.

    .. math:: q_s(y) = \sum_x p_s(x) W(y|x), \qquad
              \max_y \log \frac{q_s(y)}{q_{s'}(y)}
              \quad\text{or}\quad \sum_y (q_s(y) - e^{\varepsilon} q_{s'}(y))_+

    Parameters
    ----------
    rows : IntegerRows
        W.
    masses : ndarray of int64 or of Python's int of shape (k, m)
        Law s is masses[s] / masses[s].sum().
    cells : ndarray of shape (m,) or None
        The cells that the laws are over, all different; None for all.
    pairs : ndarray of shape (n_pairs, 2)
        Which laws to compare.
    notion : Notion
        Pure, or with a delta.

    Returns
    -------
    ndarray of shape (n_pairs, 2, 2)
        For each pair and direction (from the first to the second, and back) the lower and the
        upper end: in nats, infinite where only one law releases a cell; or delta.

    Raises
    ------
    TypeError, ValueError
        If the masses are no laws in whole numbers over those cells, or the notion is another one.

    Notes
    -----
    *Formal guarantees.* The loss of the laws and the channel as they are written, in whole numbers,
    lies between the ends: all roundings are counted.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [WHOLE // 4, 3 * WHOLE // 4] * 2)
    >>> masses = np.array([[1, 0], [0, 1]])  # two secrets, told apart by their cells
    >>> channel_losses(rows, masses, None, [[0, 1]], Pufferfish(1.0)).round(9).tolist()
    [[[0.0, 0.0], [0.0, 0.0]]]
    """
    return losses_of(released(outcomes(rows, cells), checked(rows, masses, cells)), pairs, notion)


class Outcomes(NamedTuple):
    """What comes of each cell: entries of (place of a cell, number of an outcome, chance).

    ``roundings`` says how often a chance was rounded, at most.
    """

    places: IntArray
    numbers: IntArray
    chances: FloatArray
    roundings: int


class Released(NamedTuple):
    """Probabilities of the outcomes given each law, shape (k, n), and what they are off by (n,)."""

    laws: FloatArray
    off: FloatArray


def checked(rows: IntegerRows, masses: Any, cells: Array | None) -> IntArray:
    """Return masses that are laws over these cells."""
    given = np.asarray(masses)
    n_cells = rows.n_cells if cells is None else len(cells)
    large = given.dtype == object and all(isinstance(mass, int) for mass in given.flat)
    if given.dtype.kind not in "iu" and not large:
        raise TypeError(f"masses must be whole numbers, got {given.dtype}; count, or round them.")
    if given.ndim != 2 or given.shape[1] != n_cells:
        raise ValueError(
            f"masses must have a line for each law and a column for each of {n_cells} cells, got "
            f"shape {given.shape}; name the cells that they are over."
        )
    if (given < 0).any() or not (given > 0).any(axis=1).all():
        raise ValueError("masses must not be negative, and not all of them 0; leave that law out.")
    if cells is not None and np.unique(cells).size != n_cells:
        raise ValueError("cells must be different ones; add up the masses of a cell.")
    return given


def entries_of(rows: IntegerRows, cells: Array | None) -> tuple[IntArray, IntArray]:
    """Return the entries of the cells' rows, one row after the other, and the place of each."""
    cells = np.arange(rows.n_cells) if cells is None else np.asarray(cells)
    first, lengths = rows.starts[cells], np.diff(rows.starts)[cells]
    places = np.repeat(np.arange(len(cells)), lengths)
    within = np.arange(places.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return within + np.repeat(first, lengths), places


def outcomes(rows: IntegerRows, cells: Array | None) -> Outcomes:
    """Return what one draw makes of each cell."""
    entries, places = entries_of(rows, cells)
    numbers = np.unique(rows.targets[entries], return_inverse=True)[1]
    return Outcomes(places, numbers, rows.shares[entries] / WHOLE, 1)


def released(drawn: Outcomes, masses: IntArray) -> Released:
    """Return the probability of each outcome given each law."""
    sums = [
        np.bincount(drawn.numbers, weights=law.astype(float)[drawn.places] * drawn.chances)
        / _total(law)
        for law in masses
    ]
    terms = np.bincount(drawn.numbers).astype(float)
    return Released(np.array(sums), (terms + drawn.roundings + 7.0) * ULP)


def _total(law: NDArray[Any]) -> float:
    """Return the sum of whole numbers, which may be beyond 64 bits, rounded once."""
    if law.dtype == object:
        return float(sum(law.tolist()))
    high, low = np.divmod(law, _HALF)
    return float(int(high.sum()) * _HALF + int(low.sum()))


def losses_of(given: Released, pairs: Array, notion: Notion) -> FloatArray:
    """Return ends of the loss of each pair, both ways, shape (n_pairs, 2, 2)."""
    laws = given.laws
    ends = [
        [_ends(laws[s], laws[t], given.off, notion) for s, t in ((one, two), (two, one))]
        for one, two in np.asarray(pairs, dtype=np.intp).reshape(-1, 2).tolist()
    ]
    return np.array(ends, dtype=float).reshape(-1, 2, 2)


def _ends(p: FloatArray, q: FloatArray, off: FloatArray, notion: Notion) -> tuple[float, float]:
    divergence = notion.divergence
    if isinstance(divergence, Supremum):
        low, high = log_ratios(p, q, off)
        return float(low.max(initial=0.0)), float(high.max(initial=0.0))
    if isinstance(divergence, HockeyStick):
        return excess(p, q, off, divergence.epsilon)
    raise ValueError(
        f"notion must be pure or have a delta for a channel, got {notion!r}; use "
        "Pufferfish(epsilon) or Pufferfish(epsilon, delta)."
    )


def log_ratios(p: FloatArray, q: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on log p / q of each outcome; -inf where p is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(p > 0.0, np.log(p / q), -np.inf)  # inf where q alone is 0
    slack = 2.5 * off + 4.0 * ULP * (1.0 + np.abs(np.where(np.isfinite(logs), logs, 0.0)))
    return logs - slack, logs + slack


def excess(p: FloatArray, q: FloatArray, off: FloatArray, epsilon: float) -> tuple[float, float]:
    """Return bounds on the sum of (p - e^epsilon q)_+."""
    least = apart(p * (1.0 - off), q * (1.0 + off), epsilon, -1.0).sum()
    most = apart(p * (1.0 + off), q * (1.0 - off), epsilon, 1.0).sum()
    return float(least * (1.0 - _SUM_MARGIN)), min(float(most * (1.0 + _SUM_MARGIN)), 1.0)


MOST_OUTCOMES = 2**21
"""Most sequences of draws, apart from their order, of which the law is computed."""

_MOST_DRAWS = 14  # products of 2^-62 are floats, and so are ratios of them


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
