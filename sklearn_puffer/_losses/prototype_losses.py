r"""Exact losses of a channel between prototypes, over a whole set of masses, in whole numbers.

A row of prototype a is released as prototype b with probability K(b|a). Secret s has mass
:math:`m_s(a)` in prototype a, which is only known to lie in :math:`[l_s(a), u_s(a)]`, while the sum
lies in :math:`[p_s^-, p_s^+]`. For every prototype b

.. math:: U_s(b) = \max_m \frac{\sum_a m_s(a) K(b|a)}{\sum_a m_s(a)}, \qquad
          L_t(b) = \min_m \frac{\sum_a m_t(a) K(b|a)}{\sum_a m_t(a)},

and the loss of the ordered pair (s, t) at b is :math:`\log U_s(b) / L_t(b)`.

For a given sum T the best masses are the least ones, filled up from the largest K(b|a) on: a
piecewise linear concave function of T. Its quotient by T rises and then falls, so that the maximum
lies where a prototype is full, or at an end of the range of T. All of these are looked at, with
Python's integers: the two quotients are exact until they are rounded, outwards, to floats.

Nothing here knows how the channel was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._numerics import ULP

_LIKE_ONE = 8.0 * ULP  # covers a quotient of two floats and its logarithm, relatively and near 0


@dataclass(frozen=True, eq=False)
class MassBoxes:
    """All masses of secrets in prototypes that lie between bounds, in any common unit.

    Attributes
    ----------
    low, high : ndarray of int64 of shape (n_prototypes, n_secrets)
        Bounds on each mass.
    share_low, share_high : ndarray of int64 of shape (n_secrets,)
        Bounds on the sum of the masses of a secret.

    Raises
    ------
    ValueError
        If a secret has no masses within all bounds, or only masses of sum 0.

    Examples
    --------
    >>> low, high = np.array([[1, 2], [3, 1]]), np.array([[2, 4], [5, 2]])
    >>> MassBoxes(low, high, np.array([5, 3]), np.array([6, 6])).n_secrets
    2
    """

    low: IntArray
    high: IntArray
    share_low: IntArray
    share_high: IntArray

    def __post_init__(self) -> None:
        least = np.maximum(self.share_low, self.low.sum(axis=0))
        # many wide bounds are more together than 64 bits hold
        most = np.minimum(self.share_high, self.high.astype(object).sum(axis=0))
        wrong = (self.low < 0).any(axis=0) | (self.low > self.high).any(axis=0) | (least > most)
        if (wrong | (most <= 0)).any():
            secret = int(np.flatnonzero(wrong | (most <= 0))[0])
            raise ValueError(
                f"boxes hold no positive masses of secret {secret}; count it in some prototype, or "
                "leave it out."
            )

    @property
    def n_secrets(self) -> int:
        """How many secrets there are."""
        return len(self.share_low)

    @classmethod
    def as_counted(cls, counts: IntArray) -> MassBoxes:
        """Return the counts themselves, which nothing may differ from."""
        return cls(counts, counts, counts.sum(axis=0), counts.sum(axis=0))


def prototype_losses(rows: IntegerRows, boxes: MassBoxes, pairs: Array) -> FloatArray:
    r"""Return the loss of each ordered pair at each prototype, over all masses in the boxes.

    Parameters
    ----------
    rows : IntegerRows
        K, as shares of 2^62.
    boxes : MassBoxes
    pairs : array-like of shape (n_pairs, 2)
        Numbers of secrets.

    Returns
    -------
    ndarray of shape (n_pairs, 2, n_prototypes)
        :math:`\log U_s(b) / L_t(b)` for the pair (s, t), and behind it that of (t, s): in nats,
        infinite where only one of the two may release b, minus infinite where nobody does.

    Notes
    -----
    *Formal guarantees.* Each number is at least the exact maximum over all masses in the boxes, and
    above it by the rounding of two quotients and one logarithm at most. The two secrets of a pair
    are taken to be free of each other.

    Examples
    --------
    Rows that are released alike tell nothing, others what their prototypes tell:

    >>> from sklearn_puffer._noise import WHOLE
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [3 * WHOLE // 4, WHOLE // 4] * 2)
    >>> counts = np.array([[30, 10], [10, 30]])
    >>> bool(prototype_losses(rows, MassBoxes.as_counted(counts), [(0, 1)]).max() < 1e-14)
    True
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [3, 1, 1, 3] * np.array(WHOLE // 4))
    >>> prototype_losses(rows, MassBoxes.as_counted(counts), [(0, 1)]).round(6).tolist()
    [[[0.510826, -0.510826], [-0.510826, 0.510826]]]
    """
    most, least = _extremes(rows, boxes)
    first, second = np.asarray(pairs, dtype=np.intp).reshape(-1, 2).T
    return np.stack([_logs(most[first], least[second]), _logs(most[second], least[first])], axis=1)


def _logs(most: FloatArray, least: FloatArray) -> FloatArray:
    """Return the logarithms of quotients, rounded up."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(most > 0.0, np.log(most / least), -np.inf)
    return np.asarray(logs + _LIKE_ONE * (1.0 + np.where(np.isfinite(logs), np.abs(logs), 0.0)))


def _extremes(rows: IntegerRows, boxes: MassBoxes) -> tuple[FloatArray, FloatArray]:
    """Return U_s(b), rounded up, and L_s(b), rounded down, in units of 2^-62: (n_secrets, n)."""
    most, least = np.empty((2, boxes.n_secrets, rows.n_cells))
    for b, shares in enumerate(_dense(rows).T):
        order = np.argsort(shares, kind="stable")
        for s in range(boxes.n_secrets):
            most[s, b] = max(_quotients(shares, order[::-1], boxes, s))
            least[s, b] = min(_quotients(shares, order, boxes, s))
    up, down = np.nextafter(most, np.inf), np.nextafter(least, 0.0)
    return np.where(most > 0.0, up, 0.0), down


def _quotients(shares: IntArray, order: Array, boxes: MassBoxes, secret: int) -> list[float]:
    """Return the quotients at the corners of the masses that are filled up in an order.

    Each is an exact fraction, rounded once.
    """
    low, high = boxes.low[order, secret], boxes.high[order, secret]
    sums = np.cumsum(np.append(low.sum(), high - low).astype(object))
    worth = shares[order].astype(object)
    values = np.cumsum(np.append((worth * low).sum(), worth * (high - low)))
    first = max(int(boxes.share_low[secret]), sums[0], 1)  # below 1 the quotient is that of 1
    last = min(int(boxes.share_high[secret]), sums[-1])
    corners = [
        value / total for value, total in zip(values, sums, strict=True) if first <= total <= last
    ]
    return corners + [_at(total, sums, values, worth) / total for total in (first, last)]


def _at(total: int, sums: Any, values: Any, worth: Any) -> int:
    """Return what masses of a sum are worth: the corner before it, and a part of the next."""
    before = max(int(np.searchsorted(sums, total, side="right")) - 1, 0)
    if before == len(worth):
        return int(values[before])
    return int(values[before] + (total - sums[before]) * worth[before])


def _dense(rows: IntegerRows) -> IntArray:
    dense = np.zeros((rows.n_cells, rows.n_cells), dtype=np.int64)
    starts = np.repeat(np.arange(rows.n_cells), np.diff(rows.starts))
    dense[starts, rows.targets] = rows.shares
    return dense
