r"""What a swap by secrets tells of a person, counted in whole numbers.

People of each secret receive rows of each secret: :math:`F(s, b)` people of secret s hold a row
whose owner has secret b, on average. A reader who has the list of all rows with their secrets
learns from row k of secret b that its holder has secret s with chance :math:`F(s, b) / n_b`. So
all that a release tells stands in F, and is a ratio of whole numbers. (DESIGN: the swap.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sklearn_puffer._base import IntArray


@dataclass(frozen=True, eq=False)
class Exchange:
    r"""Mean flows of people between the secrets of one stratum.

    Attributes
    ----------
    sizes : ndarray of int64 of shape (n_secrets,)
        :math:`n_s`: people of each secret, at least one.
    flows : ndarray of int64 of shape (n_secrets, n_secrets)
        :math:`F(s, b)`: people of secret s who receive a row of secret b, in parts of a row.
    others : ndarray of int64 of shape (n_secrets,)
        :math:`S_s`: those of F(s, s) who receive a row of another person, in the same parts.
    unit : int
        The parts of one row.
    """

    sizes: IntArray
    flows: IntArray
    others: IntArray
    unit: int

    def __post_init__(self) -> None:
        wanted = [int(size) * self.unit for size in self.sizes]
        rows, columns = ([sum(map(int, line)) for line in m] for m in (self.flows, self.flows.T))
        if (self.flows < 0).any() or rows != wanted or columns != wanted:
            raise ValueError("flows must be no less than 0 and have the sizes of the secrets.")
        if (self.others < 0).any() or (self.others > np.diag(self.flows)).any():
            raise ValueError("others must lie between 0 and the flows that keep their secret.")


def outsider_loss(exchange: Exchange, pairs: Sequence[tuple[int, int]]) -> float:
    r"""Return the largest log odds that any released row tells an outsider, rounded up.

    .. math:: \max_{b, (s, t)} \left| \log \frac{F(s, b) / n_s}{F(t, b) / n_t} \right|

    Examples
    --------
    >>> flows = np.array([[3, 1], [1, 3]])
    >>> told = Exchange(np.array([4, 4]), flows, np.array([3, 3]), 1)
    >>> round(outsider_loss(told, [(0, 1)]), 6)
    1.098612
    """
    sizes = [int(size) for size in exchange.sizes]
    return max(
        (
            _log_odds(int(column[s]) * sizes[t], int(column[t]) * sizes[s])
            for column in exchange.flows.T
            for s, t in pairs
        ),
        default=0.0,
    )


def insider_loss(exchange: Exchange, pairs: Sequence[tuple[int, int]]) -> float:
    r"""Return the largest log odds that a person learns of whoever holds his row, rounded up.

    The person is not the holder, so that of his own secret one candidate less is left:

    .. math:: \max_{b, (s, t)} \left| \log \frac{F^*(s, b) / N_b(s)}{F^*(t, b) / N_b(t)} \right|,
              \quad N_b(s) = n_s - [s = b], \quad F^*(b, b) = S_b

    Pairs of a secret whose only person he is have nothing to tell him.
    """
    loss = 0.0
    for b, column in enumerate(exchange.flows.T):
        foreign = [int(flow) for flow in column]
        foreign[b] = int(exchange.others[b])
        left = [int(size) - (s == b) for s, size in enumerate(exchange.sizes)]
        for s, t in pairs:
            if left[s] and left[t]:
                loss = max(loss, _log_odds(foreign[s] * left[t], foreign[t] * left[s]))
    return loss


def outsider_delta(exchange: Exchange, pairs: Sequence[tuple[int, int]], epsilon: float) -> float:
    r"""Return the largest delta at epsilon between two secrets, rounded up.

    .. math:: \max_{(s, t)} \sum_b \left( F(s, b) / n_s - e^\epsilon F(t, b) / n_t \right)_+
    """
    factor = Fraction(math.exp(epsilon)) * (1 - Fraction(1, 2**50))
    worst = Fraction(0)
    for s, t in [*pairs, *((t, s) for s, t in pairs)]:
        ends = [_shares(exchange, each) for each in (s, t)]
        excess = (max(p - factor * q, Fraction(0)) for p, q in zip(*ends, strict=True))
        worst = max(worst, sum(excess, Fraction(0)))
    return math.nextafter(float(worst), math.inf) if worst else 0.0


def _shares(exchange: Exchange, secret: int) -> list[Fraction]:
    total = int(exchange.sizes[secret]) * exchange.unit
    return [Fraction(int(flow), total) for flow in exchange.flows[secret]]


def _log_odds(first: int, second: int) -> float:
    """Return the absolute log of a ratio of whole numbers, rounded up; infinite if one is 0."""
    if first == second:
        return 0.0
    if not first or not second:
        return math.inf
    more, less = max(first, second), min(first, second)
    # 1 + x, and not the ratio itself, so that nearly equal numbers lose no digits; quotients of
    # Python integers are rounded correctly
    log = math.log1p((more - less) / less)
    return log * (1.0 + 2.0**-50) if math.isfinite(log) else math.inf
