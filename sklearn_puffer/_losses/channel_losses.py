r"""Losses of released cells: of channels, of repeated draws, of swaps, and of counted copies.

They are recomputed from whole numbers; nothing here knows how channels and flows were found.

*Several draws for the same row.* The draws :math:`y_1, ..., y_j` have the distribution
:math:`\sum_x p_s(x) \prod_i W(y_i | x)`, in which their order does not count. Where there are not
too many of them, this is computed. Otherwise there is a bound for units of cells that lead to the
same outputs, all of them to all: with :math:`\lambda` the largest log ratio of two shares of one
output in the unit, each further draw, whose distribution given those before is a mean of rows, adds
at most :math:`\lambda`, and j draws add j of them to what the unit tells. Nothing is known of other
channels: two draws may then tell everything.

*Copies.* A reader who has the list of rows counts the copies of one released value. The released
table has n rows, drawn independently from a channel W; the reader knows how many rows
:math:`n_x` each cell x has, but not which is whose, and sees that :math:`c` rows came out as y.
Their number is :math:`C = \sum_x K_x`, where :math:`K_x`, how many of them came from cell x, is
binomial, :math:`B(n_x, W(y|x))`, and all are independent. Nothing tells the c rows apart, so one of
them came from x with probability :math:`E[K_x | C = c] / c`, and its owner has secret s with

.. math:: r_s(y, c) = \sum_x \frac{E[K_x | C = c]}{c} P(s|x), \qquad
          P(s|x) = \frac{P(s) p_s(x)}{\sum_t P(t) p_t(x)}.

Before the release it was :math:`P(s|\text{list}) = \sum_x n_x P(s|x) / n`, which is P(s) where the
distributions are counted from the same rows. Of n released rows :math:`\sum_c c P(C = c)` are
expected to be copies of y, and c P(C = c) to be seen with count c.

Rows seen once were not moved: where cells have few rows, the count tells this. Where they have
many, C hardly leaves its mean, and :math:`r_s` is what the value alone tells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln, xlog1py, xlogy

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


def channel_losses(rows: IntegerRows, masses: IntArray, pairs: Array, notion: Notion) -> FloatArray:
    r"""Return proven ends of the loss of each pair of distributions through a channel.

    .. math:: q_s(y) = \sum_x p_s(x) W(y|x), \qquad
              \max_y \log \frac{q_s(y)}{q_{s'}(y)}
              \quad\text{or}\quad \sum_y (q_s(y) - e^{\varepsilon} q_{s'}(y))_+

    Parameters
    ----------
    rows : IntegerRows
        W.
    masses : ndarray of int64 or of Python's int of shape (k, n_cells)
        Distribution s is masses[s] / masses[s].sum().
    pairs : ndarray of shape (n_pairs, 2)
        Which distributions to compare.
    notion : Notion
        Pure, or with a delta.

    Returns
    -------
    ndarray of shape (n_pairs, 2, 2)
        For each pair and direction (from the first to the second, and back) the lower and the
        upper end: in nats, infinite where only one distribution releases a cell; or delta.

    Raises
    ------
    TypeError, ValueError
        If the masses are no distributions in whole numbers over all cells, or the notion is
        another one.

    Notes
    -----
    *Formal guarantees.* The loss of the distributions and the channel as they are written, in whole
    numbers, lies between the ends: all roundings are counted.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [WHOLE // 4, 3 * WHOLE // 4] * 2)
    >>> masses = np.array([[1, 0], [0, 1]])  # two secrets, told apart by their cells
    >>> channel_losses(rows, masses, [[0, 1]], Pufferfish(1.0)).round(9).tolist()
    [[[0.0, 0.0], [0.0, 0.0]]]
    """
    masses = _checked(rows, masses)
    return _losses(_released(_outcomes(rows, np.arange(rows.n_cells)), masses), pairs, notion)


class _Outcomes(NamedTuple):
    """What comes of each cell: entries of (index of a cell, number of an outcome, chance).

    ``roundings`` says how often a chance was rounded, at most.
    """

    cells: IntArray
    numbers: IntArray
    chances: FloatArray
    roundings: int


class _Released(NamedTuple):
    """Probabilities of outcomes by distribution, shape (k, n), and their errors (n,)."""

    distributions: FloatArray
    off: FloatArray


def _checked(rows: IntegerRows, masses: Any) -> IntArray:
    """Return masses that are distributions over the cells."""
    masses = np.asarray(masses)
    large = masses.dtype == object and all(isinstance(mass, int) for mass in masses.flat)
    if masses.dtype.kind not in "iu" and not large:
        raise TypeError(f"masses must be whole numbers, got {masses.dtype}; count, or round them.")
    if masses.ndim != 2 or masses.shape[1] != rows.n_cells:
        raise ValueError(
            f"masses must have a line for each distribution and a column for each of "
            f"{rows.n_cells} cells, got shape {masses.shape}; put 0 for a cell without mass."
        )
    if (masses < 0).any() or not (masses > 0).any(axis=1).all():
        raise ValueError(
            "masses must not be negative, and not all of them 0; leave that distribution out."
        )
    return np.asarray(masses)


def _entries_of(rows: IntegerRows, cells: IntArray) -> tuple[IntArray, IntArray]:
    """Return the entries of the rows of some cells, in order, and which cell each belongs to."""
    first, lengths = rows.starts[cells], np.diff(rows.starts)[cells]
    owners = np.repeat(np.arange(len(cells)), lengths)
    within = np.arange(owners.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return within + np.repeat(first, lengths), owners


def _outcomes(rows: IntegerRows, cells: IntArray) -> _Outcomes:
    """Return what one draw makes of each cell."""
    entries, owners = _entries_of(rows, cells)
    numbers = np.unique(rows.targets[entries], return_inverse=True)[1]
    return _Outcomes(owners, numbers, rows.shares[entries] / WHOLE, 1)


def _released(drawn: _Outcomes, masses: IntArray) -> _Released:
    """Return the probability of each outcome given each distribution."""
    sums = [
        np.bincount(drawn.numbers, weights=distribution.astype(float)[drawn.cells] * drawn.chances)
        / _total(distribution)
        for distribution in masses
    ]
    terms = np.bincount(drawn.numbers).astype(float)
    return _Released(np.array(sums), (terms + drawn.roundings + 7.0) * ULP)


def _total(distribution: NDArray[Any]) -> float:
    """Return the sum of whole numbers, which may be beyond 64 bits, rounded once."""
    if distribution.dtype == object:
        return float(sum(distribution.tolist()))
    high, low = np.divmod(distribution, _HALF)
    return float(int(high.sum()) * _HALF + int(low.sum()))


def _losses(released: _Released, pairs: Array, notion: Notion) -> FloatArray:
    """Return ends of the loss of each pair, both ways, shape (n_pairs, 2, 2)."""
    p, off = released
    ends = [
        [_ends(p[s], p[t], off, notion), _ends(p[t], p[s], off, notion)]
        for s, t in np.asarray(pairs, dtype=np.intp).reshape(-1, 2).tolist()
    ]
    return np.array(ends, dtype=float).reshape(-1, 2, 2)


def _ends(p: FloatArray, q: FloatArray, off: FloatArray, notion: Notion) -> tuple[float, float]:
    divergence = notion.divergence
    if isinstance(divergence, Supremum):
        low, high = _log_ratios(p, q, off)
        return float(low.max(initial=0.0)), float(high.max(initial=0.0))
    if isinstance(divergence, HockeyStick):
        return _excess(p, q, off, divergence.epsilon)
    raise ValueError(
        f"notion must be pure or have a delta for a channel, got {notion!r}; use "
        "Pufferfish(epsilon) or Pufferfish(epsilon, delta)."
    )


def _log_ratios(p: FloatArray, q: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on log p / q of each outcome; -inf where p is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(p > 0.0, np.log(p / q), -np.inf)  # inf where q alone is 0
    slack = 2.5 * off + 4.0 * ULP * (1.0 + np.abs(np.where(np.isfinite(logs), logs, 0.0)))
    return logs - slack, logs + slack


def _excess(p: FloatArray, q: FloatArray, off: FloatArray, epsilon: float) -> tuple[float, float]:
    """Return bounds on the sum of (p - e^epsilon q)_+."""
    least = apart(p * (1.0 - off), q * (1.0 + off), epsilon, -1.0).sum()
    most = apart(p * (1.0 + off), q * (1.0 - off), epsilon, 1.0).sum()
    return float(least * (1.0 - _SUM_MARGIN)), min(float(most * (1.0 + _SUM_MARGIN)), 1.0)


MOST_OUTCOMES = 2**21
"""Most sequences of draws, up to order, whose distribution is computed."""

_MOST_DRAWS = 14  # products of 2^-62 are floats, and so are ratios of them


def repeated_losses(
    rows: IntegerRows, masses: IntArray, pairs: Array, notion: Notion, n_draws: int
) -> FloatArray:
    """Return proven ends of the loss of several draws for the same row, together.

    Parameters
    ----------
    rows, masses, pairs, notion
        As in `channel_losses`.
    n_draws : int
        How often each row is drawn for, each time anew.

    Returns
    -------
    ndarray of shape (n_pairs, 2, 2)
        As in `channel_losses`. The ends lie together where the distribution of the draws is
        computed. Else the lower one is that of a single draw, and the upper one infinite (or 1,
        under a delta) where rows that share an output do not share all of them.

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
    ...     losses = repeated_losses(rows, masses, [[0, 1]], Pufferfish(1.0), j)
    ...     print(losses[0, 0, 1].round(9))
    0.0
    inf
    """
    n_draws = check_count(n_draws, "n_draws")
    if n_draws == 1:
        return channel_losses(rows, masses, pairs, notion)
    masses = _checked(rows, masses)
    cells = np.flatnonzero((masses > 0).any(axis=0))
    masses = masses[:, cells]
    if n_draws <= _MOST_DRAWS and _n_outcomes(rows, cells, n_draws) <= MOST_OUTCOMES:
        return _losses(_released(_drawn(rows, cells, n_draws), masses), pairs, notion)
    repeated = _repeated(rows, masses, cells, n_draws, notion)
    losses = _losses(repeated.single, pairs, notion)
    bounds = [[repeated.bound(s, t), repeated.bound(t, s)] for s, t in np.asarray(pairs)]
    losses[..., 1] = np.reshape(bounds, (-1, 2))
    return losses


def channel_floor(rows: IntegerRows) -> float:
    """Return the most that a release of a cell tells anybody about which cell of its unit it is.

    In nats, rounded up; infinite where rows that share an output do not share all of them.

    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [WHOLE // 4, 3 * WHOLE // 4] * 2)
    >>> channel_floor(rows) < 1e-14
    True
    """
    return float(_units(rows).floor.max())


# ------------------------------------------------------------------------------------ exact losses


def _n_outcomes(rows: IntegerRows, cells: IntArray, n_draws: int) -> float:
    """Return how many sequences of draws all rows have, apart from their order."""
    lengths = np.diff(rows.starts)[cells].astype(float)
    factors = [(lengths + k) / (k + 1.0) for k in range(n_draws)]
    return float(np.prod(factors, axis=0).sum())


def _drawn(rows: IntegerRows, cells: IntArray, n_draws: int) -> _Outcomes:
    """Return what several draws make of each cell: each sequence in order of the entries.

    In the chance of a sequence all its orders are counted, j! over the factorials of how often each
    output occurs: with each draw that is the k-th of the same ones in a row, times i / k for the
    i-th of all.
    """
    entries, owners = _entries_of(rows, cells)
    shares, targets = rows.shares[entries] / WHOLE, rows.targets[entries]
    ends = np.cumsum(np.bincount(owners))  # each cell has an entry
    last, chances = np.arange(owners.size), shares
    numbers, run = np.unique(targets, return_inverse=True)[1], np.ones(owners.size)
    for i in range(2, n_draws + 1):
        further = ends[owners] - last
        old = np.repeat(np.arange(last.size), further)
        offset = np.arange(old.size) - np.repeat(np.cumsum(further) - further, further)
        last, owners = last[old] + offset, owners[old]
        run = np.where(offset == 0, run[old] + 1.0, 1.0)
        chances = chances[old] * shares[last] * (i / run)
        names = numbers[old] * rows.n_cells + targets[last]
        numbers = np.unique(names, return_inverse=True)[1]
    return _Outcomes(owners, numbers, chances, 4 * n_draws)


# ------------------------------------------------------------------------------------------ bounds


class _Units(NamedTuple):
    """The unit of each cell, and what a draw tells within each unit at most."""

    of_cell: Integers
    floor: FloatArray


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
    floor = np.zeros(count)
    ratio = np.log(most[used] / least[used])
    np.maximum.at(floor, unit[n + used], ratio + 8.0 * ULP * (1.0 + ratio))
    n_rows = np.bincount(unit[:n], minlength=count)
    n_outputs = np.bincount(unit[n + used], minlength=count)
    incomplete = np.bincount(unit[cells], minlength=count) < n_rows * n_outputs
    return _Units(unit[:n], np.where(incomplete, math.inf, floor))


def _repeated(
    rows: IntegerRows, masses: IntArray, cells: IntArray, n_draws: int, notion: Notion
) -> _Repeated:
    units = _units(rows)
    used, number = np.unique(units.of_cell[cells], return_inverse=True)
    whole = _released(_Outcomes(np.arange(cells.size), number, np.ones(cells.size), 0), masses)
    drawn = _outcomes(rows, cells)
    single = _released(drawn, masses)
    of_outcome = np.zeros(single.off.size, dtype=np.int64)
    of_outcome[drawn.numbers] = number[drawn.cells]
    return _Repeated(whole, single, of_outcome, units.floor[used], n_draws, notion)


class _Repeated(NamedTuple):
    """Units under each distribution, single draws from them, and what these tell."""

    whole: _Released
    single: _Released
    unit: IntArray
    floor: FloatArray
    n_draws: int
    notion: Notion

    def bound(self, s: int, t: int) -> float:
        """Return an upper end of the loss from distribution s to distribution t."""
        divergence = self.notion.divergence
        if isinstance(divergence, Supremum):
            return float(self._ratio(s, t).max(initial=0.0))
        assert isinstance(divergence, HockeyStick)  # as the loss of a single draw was computed
        return min(self._excess(s, t, divergence.epsilon) * (1.0 + _SUM_MARGIN), 1.0)

    def _ratio(self, s: int, t: int) -> FloatArray:
        """Return what all draws together tell, in each unit."""
        drawn = np.full(self.floor.size, -math.inf)  # and so it stays where s has no mass
        np.maximum.at(drawn, self.unit, self._of(self.single, s, t))
        floor = np.where(drawn > -math.inf, self.floor, 0.0)
        by_drawn = drawn + (self.n_draws - 1) * floor
        by_unit = self._of(self.whole, s, t) + self.n_draws * floor
        least: FloatArray = np.minimum(by_drawn, by_unit)
        return least * (1.0 + 4.0 * ULP)

    def _of(self, released: _Released, s: int, t: int) -> FloatArray:
        return _log_ratios(released.distributions[s], released.distributions[t], released.off)[1]

    def _excess(self, s: int, t: int, epsilon: float) -> float:
        r"""Return the sum over units of what exceeds the factor e^epsilon.

        As :math:`q_t(y_2, ..., y_j | y_1) \ge e^{-(j - 1) \lambda} q_s(y_2, ..., y_j | y_1)`, that
        of all draws is at most that of the first one for epsilon less (j - 1) lambda.
        """
        least = epsilon - (self.n_draws - 1) * self.floor * (1.0 + 4.0 * ULP)
        drawn = self._apart(self.single, s, t, least[self.unit])
        by_drawn = np.bincount(self.unit, weights=drawn, minlength=self.floor.size)
        least = epsilon - self.n_draws * self.floor * (1.0 + 4.0 * ULP)
        by_unit = self._apart(self.whole, s, t, least)
        return float(np.minimum(by_drawn, by_unit).sum())

    def _apart(self, released: _Released, s: int, t: int, epsilon: FloatArray) -> FloatArray:
        masses, off = released
        return apart(masses[s] * (1.0 + off), masses[t] * (1.0 - off), epsilon, 1.0)


# Rounding, u = 2^-53. Flows below 2^63 and counts below 2^53 are off by u as floats. All terms are
# non-negative, so errors are relative: a share, a product and a quotient add u each, and a sum of n
# terms in any order at most n u. So masses are off by a factor within (1 +- u)^(n + 8) of each
# other, and their quotient by twice that; 4 (n + 16) ULP leaves room for the log and the product.


@dataclass(frozen=True, eq=False)
class SwapDistributions:
    r"""What the cell of a row tells of one sensitive column.

    Attributes
    ----------
    counts : ndarray of int64 of shape (n_secrets, n_cells)
        How many counted rows of each cell have each secret: :math:`q_s(a)` is its share of them.
    pairs : ndarray of int of shape (n_pairs, 2)
        The secrets to be held against each other, both ways.
    boxes : ndarray of float of shape (2, n_secrets, n_cells) or None
        Instead of the shares counted, all those between these ends, cell by cell and secret by
        secret; that they sum to one is not used, so that a loss over them is an upper bound.
    """

    counts: IntArray
    pairs: Array
    boxes: FloatArray | None = None

    @property
    def shares(self) -> FloatArray:
        """The counted posteriors q, shape (n_secrets, n_cells)."""
        return np.asarray(self.counts / self.counts.sum(axis=0))


def swap_losses(
    flows: IntArray, sizes: IntArray, distributions: SwapDistributions, notion: Notion
) -> FloatArray:
    r"""Return proven ends of the loss of each pair, both ways, when all swapped rows are released.

    With :math:`g_s(b) = \sum_a F(a, b) q_s(a) / \sum_a N_a q_s(a)`,

    .. math:: \max_b \log \frac{g_s(b)}{g_{s'}(b)}
              \quad\text{or}\quad \sum_b (g_s(b) - e^{\varepsilon} g_{s'}(b))_+

    Parameters
    ----------
    flows : ndarray of int64 of shape (n_cells, n_cells)
        F on average, in any unit.
    sizes : ndarray of int64 of shape (n_cells,)
        N, the released rows in each cell; rows and columns of F are proportional to it.
    distributions : SwapDistributions
    notion : Notion
        Pure, or with a delta.

    Returns
    -------
    ndarray of shape (n_pairs, 2, 2)
        For each pair and direction the lower and the upper end: in nats, infinite where only one
        secret leads to a cell; or delta. Over boxes the lower end is 0.

    Raises
    ------
    ValueError
        If margins of the flows are not those of the sizes: then they are no swap.

    Notes
    -----
    *Formal guarantees.* The loss of the flows as they are written lies between the ends, and that
    under any posteriors in the boxes below the upper one: all roundings are counted.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> shares = SwapDistributions(np.array([[3, 1], [1, 3]]), np.array([[0, 1]]))
    >>> stay, mixed = np.diag([4, 4]), np.array([[2, 2], [2, 2]])
    >>> sizes = np.array([4, 4])
    >>> [swap_losses(f, sizes, shares, Pufferfish(1.0)).max().round(6) for f in (stay, mixed)]
    [np.float64(1.098612), np.float64(0.0)]
    """
    _check_margins(flows, sizes)
    if distributions.boxes is None:
        masses = _masses(flows, sizes, distributions.shares)
        lower, upper = masses, masses
    else:
        low, high = distributions.boxes
        lower, upper = (_worst(flows, sizes, low, high, sign) for sign in (-1.0, 1.0))
    first, second = np.asarray(distributions.pairs).T
    off = 4.0 * (len(sizes) + 16) * ULP
    losses = np.zeros((len(first), 2, 2))
    there = (upper.sum(axis=1) > 0.0)[:, None]
    for way, (s, against) in enumerate([(first, second), (second, first)]):
        both = there[s] & there[against]  # no loss is counted of a secret that nobody has
        mass, least = upper[s] * both, lower[against]
        losses[:, way, 1] = _loss(mass * (1.0 + off), least * (1.0 - off), notion)
        if distributions.boxes is None:
            losses[:, way, 0] = _loss(mass * (1.0 - off), least * (1.0 + off), notion)
    return losses


def _check_margins(flows: IntArray, sizes: IntArray) -> None:
    """Refuse flows that are no exchange: as many rows must come into a cell as leave it."""
    rows, columns = flows.sum(axis=1), flows.sum(axis=0)
    unit = int(rows[0]) // max(int(sizes[0]), 1)
    if (flows < 0).any() or not ((rows == sizes * unit) & (columns == rows)).all():
        raise ValueError("flows must be no less than 0 and have the sizes of the cells as margins.")


def _masses(flows: IntArray, sizes: IntArray, shares: FloatArray) -> FloatArray:
    """Return how probable each cell is after the swap, given each secret."""
    rows = flows / flows.sum() * sizes.sum()
    totals = (shares @ sizes)[:, None]
    masses = shares @ rows
    # of a secret that is in none of these cells there is nothing to tell
    return np.asarray(np.divide(masses, totals, out=np.zeros(masses.shape), where=totals > 0.0))


def _worst(
    flows: IntArray, sizes: IntArray, low: FloatArray, high: FloatArray, sign: float
) -> FloatArray:
    r"""Return the largest, or the smallest, probability of each cell over the boxes.

    :math:`\sum_a N_a q(a) K(a) / \sum_a N_a q(a)` is largest where q is at its upper end for all a
    with K(a) above some bound, and at its lower end for all others: each bound is tried.
    """
    rows = flows / flows.sum() * sizes.sum()
    order = np.argsort(-sign * rows / sizes[:, None], axis=0, kind="stable")
    worst = np.empty((len(low), len(sizes)))
    for s, (least, most) in enumerate(zip(low, high, strict=True)):
        tops = _cut_sums(rows, order, least, most)
        bottoms = _cut_sums(np.broadcast_to(sizes[:, None], rows.shape), order, least, most)
        # where all shares of a cut are 0 nobody has the secret, which is no posterior of the set
        possible = bottoms > 0.0
        ends = np.divide(sign * tops, bottoms, out=np.full(tops.shape, -np.inf), where=possible)
        worst[s] = np.where(possible.any(axis=0), sign * ends.max(axis=0), 0.0)
    return worst


def _cut_sums(terms: FloatArray, order: Array, least: FloatArray, most: FloatArray) -> FloatArray:
    """Return for each cut of the order the sum of terms, those before it with the upper end.

    All of these are sums of non-negative terms: differences would lose digits.
    """
    least, most = (np.broadcast_to(np.reshape(q, (-1, 1)), terms.shape) for q in (least, most))
    high = np.take_along_axis(terms * most, order, axis=0)
    low = np.take_along_axis(terms * least, order, axis=0)
    zero = np.zeros((1, terms.shape[1]))
    before = np.concatenate([zero, np.cumsum(high, axis=0)])
    after = np.concatenate([np.cumsum(low[::-1], axis=0)[::-1], zero])
    return np.asarray(before + after)


def _loss(mass: FloatArray, against: FloatArray, notion: Notion) -> FloatArray:
    """Return the loss of masses of cells against others; the caller widens it for rounding."""
    if isinstance(notion.divergence, HockeyStick):
        factor = np.exp(notion.divergence.epsilon)
        return np.asarray(np.maximum(mass - factor * against, 0.0).sum(axis=1))
    assert isinstance(notion.divergence, Supremum)
    with np.errstate(divide="ignore"):
        ratios = np.divide(mass, against, out=np.full(mass.shape, np.inf), where=against > 0.0)
        losses = np.log(np.where(mass > 0.0, ratios, 0.0))
    return np.asarray(np.maximum(losses.max(axis=1), 0.0))


_SURE = 1e-9  # counts of less chance are taken to tell everything
_MOST = 26  # bits of the rows of a cell: of more, a part is taken, whose count tells no less
_SHORT = 256  # below, a sum of products is quicker than three Fourier transforms


@dataclass(frozen=True, eq=False)
class Readers:
    """Whom the count may tell something: the distributions of one adversary about one column.

    Attributes
    ----------
    distributions : ndarray of shape (k, n)
        :math:`p_s` over the cells, each of sum 1.
    secrets : ndarray of shape (k,)
        How many rows have each secret.
    pairs : ndarray of intp of shape (n_pairs, 2)
        Those that must not be told apart.
    """

    distributions: FloatArray
    secrets: IntArray
    pairs: Array


def moved_by_copies(rows: IntegerRows, counts: IntArray, readers: Readers, bound: float) -> float:
    r"""Return how many released rows lose more than a bound by their copies, in expectation.

    Parameters
    ----------
    rows : IntegerRows
        The channel.
    counts : ndarray of int64 of shape (n,)
        :math:`n_x`, how many rows each cell has.
    readers : Readers
    bound : float
        What :math:`|\log r_s / P(s|list) - \log r_t / P(t|list)|` may be for a protected pair s, t.

    Returns
    -------
    float
        Rows in expectation, at pairs of value and count where some pair is beyond the bound. Pairs
        that the value alone tells more of, as a delta allows, are not counted there.

    Notes
    -----
    Counts of a chance below 1e-9 are taken to tell all. Where a cell has more than 2^26 rows, one
    in 2, 4, 8 ... of all rows is looked at, and the answer is about as many.

    Examples
    --------
    >>> half = WHOLE // 2
    >>> rows = IntegerRows(np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([WHOLE, half, half]))
    >>> distributions = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> readers = Readers(distributions, np.array([4, 4]), np.array([[0, 1]]))
    >>> moved = moved_by_copies(rows, np.array([4, 4]), readers, 0.6)
    >>> round(moved, 6)  # where 4 or 5 copies are seen
    1.5
    """
    halved = max(int(counts.max()).bit_length() - _MOST, 0)
    counts = counts >> halved
    posteriors = _posteriors(readers)
    before = posteriors @ counts / max(counts.sum(), 1)
    owners, chances = np.repeat(np.arange(len(counts)), np.diff(rows.starts)), rows.shares / WHOLE
    kept = counts[owners] > 0
    order = np.flatnonzero(kept)[np.argsort(rows.targets[kept], kind="stable")]
    firsts = np.flatnonzero(np.diff(rows.targets[order], prepend=-1))
    beyond = sum(
        _beyond(counts[owners[of]], chances[of], posteriors[:, owners[of]], before, readers, bound)
        for of in np.split(order, firsts[1:])
        if len(of)
    )
    return beyond * 2.0**halved


def _posteriors(readers: Readers) -> FloatArray:
    """Return P(s|x), shape (k, n): that of all rows where no distribution has mass."""
    joint = readers.distributions * readers.secrets[:, None]
    total = joint.sum(axis=0)
    shares = readers.secrets / readers.secrets.sum()
    of_all = np.repeat(shares[:, None], len(total), axis=1)
    return np.asarray(np.divide(joint, total, out=of_all, where=total > 0.0))


def _beyond(
    counts: IntArray,
    chances: FloatArray,
    posteriors: FloatArray,
    before: FloatArray,
    readers: Readers,
    bound: float,
) -> float:
    """Return how many copies of one value lose more than the bound, from cells that lead there.

    ``posteriors`` has shape (k, m), counts and chances (m,).
    """
    distribution, expected = copies_distribution(counts, chances, posteriors)
    ratios = np.log(_positive(expected)) - np.log(_positive(before))[:, None]
    alone = posteriors @ (counts * chances)
    by_value = np.log(_positive(alone)) - np.log(_positive(before))
    beyond = np.zeros(len(distribution), dtype=bool)
    for s, t in readers.pairs:
        if before[s] > 0.0 and before[t] > 0.0 and abs(by_value[s] - by_value[t]) <= bound:
            beyond |= ~(np.abs(ratios[s] - ratios[t]) <= bound)
    return float(expected.sum(axis=0)[beyond | (distribution < _SURE)].sum())


def _positive(numbers: FloatArray) -> FloatArray:
    return np.maximum(numbers, 1e-300)


def copies_distribution(
    counts: IntArray, chances: FloatArray, posteriors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the distribution of how many rows come out as one value, and which secrets they have.

    Parameters
    ----------
    counts : ndarray of int64 of shape (m,)
        Rows of each cell, at least 1.
    chances : ndarray of shape (m,)
        Of each of them to be released as that value, all positive.
    posteriors : ndarray of shape (k, m)
        P(s|x).

    Returns
    -------
    distribution : ndarray of shape (n,)
        P(C = c) of consecutive c: all but 2e-13 for each chance that cells have.
    expected : ndarray of shape (k, n)
        E[rows with secret s among the copies; C = c]: over s they sum to c P(C = c).

    Notes
    -----
    Convolutions of the chances :math:`b_x(k) = P(K_x = k)`, and of expected rows: with f and g_s of
    the cells before, those with cell x are f * b_x and g_s * b_x + P(s|x) f * (k b_x). Cells with
    the same W(y|x) are taken as one, of which each row is as likely as any other.

    Examples
    --------
    >>> chances, expected = copies_distribution(np.array([1, 1]), np.array([1.0, 0.5]), np.eye(2))
    >>> chances.tolist(), expected.tolist()
    ([0.5, 0.5], [[0.5, 0.5], [0.0, 0.5]])
    """
    kinds, of_cells = np.unique(chances, return_inverse=True)
    distribution, expected = np.ones(1), np.zeros((len(posteriors), 1))
    for kind, chance in enumerate(kinds.tolist()):
        same = of_cells.ravel() == kind
        n = int(counts[same].sum())
        mean = posteriors[:, same] @ (counts[same] / n)
        number, binomial = _binomial(n, chance)
        copies = _convolved(distribution, number * binomial)
        expected = np.stack([_convolved(of_secret, binomial) for of_secret in expected])
        expected += mean[:, None] * copies
        distribution = _convolved(distribution, binomial)
    return np.maximum(distribution, 0.0), np.maximum(expected, 0.0)


def _binomial(n: int, chance: float) -> tuple[FloatArray, FloatArray]:
    """Return numbers and their chances: all but 2 e^-30, which Bernstein's inequality leaves."""
    if chance >= 1.0:
        return np.array([float(n)]), np.ones(1)
    mean = n * chance
    far = np.sqrt(60.0 * mean * (1.0 - chance)) + 20.0
    number = np.arange(max(np.floor(mean - far), 0.0), min(np.ceil(mean + far), n) + 1.0)
    ways = gammaln(n + 1.0) - gammaln(number + 1.0) - gammaln(n - number + 1.0)
    return number, np.exp(ways + xlogy(number, chance) + xlog1py(n - number, -chance))


def _convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    if min(len(one), len(other)) <= _SHORT:
        return np.convolve(one, other)
    n = len(one) + len(other) - 1
    return np.asarray(np.fft.irfft(np.fft.rfft(one, n) * np.fft.rfft(other, n), n))
