"""What a channel loses at most for laws that are not known, but lie between bounds.

Nothing here knows how the channel was found.
"""

# Rounding, u = 2^-53. Masses are whole numbers of 2^-60, and the law that fills up to one is found
# in whole numbers, exactly: no sum of masses is ever above 2^60. A mass, a share and their product
# are off by u each, and a sum of n terms that are not negative by (n - 1) u: a probability is off
# by a factor within (1 +- u)^(n + 2), and (n + 8) ULP leaves room for what is rounded later.

from __future__ import annotations

import math

import numpy as np

from sklearn_puffer._base import ULP, Array, FloatArray, HockeyStick, IntArray, Notion, Supremum
from sklearn_puffer._losses.channel_losses import excess, log_ratios
from sklearn_puffer._losses.repeated_losses import channel_floor
from sklearn_puffer._noise import WHOLE, IntegerRows

UNIT = 1 << 60
"""What the masses of a law sum to."""

_HALF = 30
_LOW = (1 << _HALF) - 1


def bounded_losses(
    rows: IntegerRows,
    lower: IntArray,
    upper: IntArray,
    pairs: Array,
    notion: Notion,
    n_draws: int = 1,
) -> FloatArray:
    r"""Return proven bounds on the loss of each pair of laws, whatever they are between bounds.

    .. math:: \max_{y} \log \frac{\max_{p \in P_s} p \cdot w_y}{\min_{p \in P_{s'}} p \cdot w_y}
              \quad\text{or}\quad
              \sum_y \left(\max_{P_s} p \cdot w_y - e^{\varepsilon} \min_{P_{s'}} p \cdot w_y
              \right)_+, \qquad P_s = \{p : l_s \le p \le h_s, \textstyle\sum p = 1\}

    Parameters
    ----------
    rows : IntegerRows
        W.
    lower, upper : ndarray of int64 of shape (k, n)
        l and h, in units of 2^-60.
    pairs : ndarray of shape (n_pairs, 2)
        Which laws to compare.
    notion : Notion
        Pure, or with a delta.
    n_draws : int, default=1
        Draws for the same row, together; each after the first tells the channel's floor at most.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
        From the first to the second law, and back: in nats, or delta.

    Raises
    ------
    TypeError, ValueError
        If the bounds are no whole numbers between which laws lie, or the notion is another one.

    Notes
    -----
    *Formal guarantees.* No laws between the bounds lose more. For the pure promise and one draw
    some lose as much, up to rounding, since those of two secrets vary by themselves.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> rows = IntegerRows([0, 1, 2], [0, 1], [WHOLE, WHOLE])  # every cell stays
    >>> lower = np.array([[UNIT // 2, UNIT // 4], [UNIT // 4, UNIT // 2]])
    >>> upper = UNIT - lower[:, ::-1]
    >>> bounded_losses(rows, lower, upper, [[0, 1]], Pufferfish(1.0)).round(6).tolist()
    [[1.098612, 1.098612]]
    """
    lower, upper = _checked(rows, lower, upper)
    shares = _dense(rows)
    order = np.argsort(shares, axis=0, kind="stable")
    most = np.array([_end(shares, order[::-1], *law) for law in zip(lower, upper, strict=True)])
    least = np.array([_end(shares, order, *law) for law in zip(lower, upper, strict=True)])
    further = (n_draws - 1) * channel_floor(rows) * (1.0 + 4.0 * ULP) if n_draws > 1 else 0.0
    off = np.full(shares.shape[1], (rows.n_cells + 8.0) * ULP)
    return np.array(
        [
            [_loss(most[s], least[t], off, notion, further) for s, t in ((one, two), (two, one))]
            for one, two in np.asarray(pairs, dtype=np.intp).reshape(-1, 2).tolist()
        ],
        dtype=float,
    ).reshape(-1, 2)


def _checked(rows: IntegerRows, lower: IntArray, upper: IntArray) -> tuple[IntArray, IntArray]:
    low, high = np.asarray(lower), np.asarray(upper)
    if low.dtype.kind != "i" or high.dtype.kind != "i":
        raise TypeError(f"bounds must be whole numbers, got {low.dtype} and {high.dtype}; round.")
    if low.ndim != 2 or low.shape != high.shape or low.shape[1] != rows.n_cells:
        raise ValueError(
            f"bounds must have a line for each law and a column for each of {rows.n_cells} cells, "
            f"got shapes {low.shape} and {high.shape}."
        )
    in_order = (low >= 0).all() and (low <= high).all() and (high <= UNIT).all()
    sums = [(sum(map(int, a)), sum(map(int, b))) for a, b in zip(low, high, strict=True)]
    if not in_order or any(not least <= UNIT <= most for least, most in sums):
        raise ValueError("no law lies between these bounds; check lower and upper.")
    return low.astype(np.int64), high.astype(np.int64)


def _dense(rows: IntegerRows) -> IntArray:
    """Return the shares of the cells that are ever released, shape (n, m)."""
    used, places = np.unique(rows.targets, return_inverse=True)
    shares = np.zeros((rows.n_cells, used.size), dtype=np.int64)
    shares[np.repeat(np.arange(rows.n_cells), np.diff(rows.starts)), places] = rows.shares
    return shares


def _end(shares: IntArray, order: Array, lower: IntArray, upper: IntArray) -> FloatArray:
    """Return p . w_y where p has its lower bounds, and what is left in the first of an order."""
    left = UNIT - sum(map(int, lower))
    room = (upper - lower)[order]
    law = lower[order] + np.diff(_reached(room, left), axis=0, prepend=np.int64(0))
    sorted_shares = np.take_along_axis(shares, order, axis=0)
    found: FloatArray = (law / UNIT * (sorted_shares / WHOLE)).sum(axis=0)
    return found


def _reached(room: IntArray, left: int) -> IntArray:
    """Return the cumulative sums of masses, none above ``left``; those may be beyond 64 bits."""
    high, low = np.cumsum(room >> _HALF, axis=0), np.cumsum(room & _LOW, axis=0)
    high += low >> _HALF
    low &= _LOW
    small = np.minimum(high, left >> _HALF)
    return np.where(high > small, left, np.minimum((small << _HALF) + low, left))


def _loss(
    most: FloatArray, least: FloatArray, off: FloatArray, notion: Notion, further: float
) -> float:
    divergence = notion.divergence
    if isinstance(divergence, Supremum):
        ratios = log_ratios(most, least, off)[1]
        return (float(ratios.max(initial=0.0)) + further) * (1.0 + 4.0 * ULP)
    if isinstance(divergence, HockeyStick):
        if math.isinf(further):
            return 1.0
        return excess(most, least, off, divergence.epsilon - further)[1]
    raise ValueError(
        f"notion must be pure or have a delta for a channel, got {notion!r}; use "
        "Pufferfish(epsilon) or Pufferfish(epsilon, delta)."
    )
