r"""Losses of released cells of swaps.

They are recomputed from whole numbers; nothing here knows how flows were found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import (
    ULP,
    Array,
    FloatArray,
    HockeyStick,
    IntArray,
    Notion,
    Supremum,
)

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
