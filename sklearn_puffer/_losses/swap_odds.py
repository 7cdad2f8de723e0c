r"""What a swap by secrets tells of a person, counted in whole numbers.

People of each secret receive rows of each secret: :math:`F(s, b)` people of secret s hold a row
whose owner has secret b, on average. A reader who has the list of all rows with their secrets
learns from row k of secret b that its holder has secret s with chance :math:`F(s, b) / n_b`. So
all that a release tells stands in F, and is a ratio of whole numbers. (DESIGN: the swap.)

*Pieces.* The rows of a stratum may be cut into pieces p, of :math:`n_{s,p}` rows of each secret, by
any rule that sees rows, secrets and its own bits; people exchange rows within their piece.
*Claim:* a row moves the odds against the shares :math:`n_s / n` of the stratum by at most epsilon
if, in each piece, with the sizes of the stratum,

.. math:: F_p(s, b) / n_s \le e^\varepsilon F_p(t, b) / n_t

*Proof.* Owners are uniform given the list, also given the cut, which sees no owner; so within its
piece a row of secret b is held by secret s with chance :math:`F_p(s, b) / n_{b,p}`, as in a whole
stratum. Divided by the shares, :math:`n_{b,p}` and n cancel from the odds. A random cut is a
mixture of cuts, and the inequality is linear in the chances. The same holds for insiders, with
:math:`N_b(s)` of the stratum. Such flows exist if and only if
:math:`n_{s,p} / n_s \le e^\varepsilon n_{t,p} / n_t`: sum over b; and
:math:`F_p(s, b) = n_{s,p} n_{b,p} / n_p` is one. So pieces need not be exact parts. If sizes differ
by one row at most and m is the least, that ratio is below :math:`(1 + 1/m)^2`: for outsiders
:math:`2 / m \le \varepsilon` is enough, for insiders :math:`2 / m + 1 / (m - 1)` within their
budget. A delta adds up over pieces.
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
    r"""Mean flows of people between the secrets of a stratum, or of a piece of it.

    Attributes
    ----------
    sizes : ndarray of int64 of shape (n_secrets,)
        People of each secret, at least one.
    flows : ndarray of int64 of shape (n_secrets, n_secrets)
        :math:`F(s, b)`: people of secret s who receive a row of secret b, in parts of a row.
    others : ndarray of int64 of shape (n_secrets,)
        :math:`S_s`: those of F(s, s) who receive a row of another person, in the same parts.
    unit : int
        The parts of one row.
    people : ndarray of int64 of shape (n_secrets,)
        :math:`n_s`: those of the whole stratum, of which these are all or a piece.
    """

    sizes: IntArray
    flows: IntArray
    others: IntArray
    unit: int
    people: IntArray

    def __post_init__(self) -> None:
        wanted = [int(size) * self.unit for size in self.sizes]
        rows, columns = ([sum(map(int, line)) for line in m] for m in (self.flows, self.flows.T))
        if (self.flows < 0).any() or rows != wanted or columns != wanted:
            raise ValueError("flows must be no less than 0 and have the sizes of the secrets.")
        if (self.others < 0).any() or (self.others > np.diag(self.flows)).any():
            raise ValueError("others must lie between 0 and the flows that keep their secret.")
        if any(own > all_ for own, all_ in zip(self.sizes, self.people, strict=True)):
            raise ValueError("a piece must have no more people than its stratum.")


def together(pieces: Sequence[Exchange], sizes: IntArray | None = None) -> Exchange:
    """Return the flows of a stratum from those of its pieces.

    With ``sizes`` they are those of a part of it, in which so many people have each secret.

    Raises
    ------
    ValueError
        If the pieces are not all of one stratum, or of that part, in whole numbers.

    Examples
    --------
    >>> flows, stratum = np.array([[1, 1], [1, 0]]), np.array([4, 2])
    >>> piece = Exchange(np.array([2, 1]), flows, np.zeros(2, int), 1, stratum)
    >>> together([piece, piece]).flows.tolist()
    [[2, 2], [2, 0]]
    """
    first = pieces[0]
    if any(each.unit != first.unit or (each.people != first.people).any() for each in pieces):
        raise ValueError("pieces must be of one stratum.")
    flows = np.sum([each.flows for each in pieces], axis=0)
    others = np.sum([each.others for each in pieces], axis=0)
    whole = first.people if sizes is None else sizes
    return Exchange(whole, flows, others, first.unit, first.people)


def outsider_loss(exchange: Exchange, pairs: Sequence[tuple[int, int]]) -> float:
    r"""Return the largest log odds that any released row tells an outsider, rounded up.

    .. math:: \max_{b, (s, t)} \left| \log \frac{F(s, b) / n_s}{F(t, b) / n_t} \right|

    Examples
    --------
    >>> flows = np.array([[3, 1], [1, 3]])
    >>> people = np.array([4, 4])
    >>> told = Exchange(people, flows, np.array([3, 3]), 1, people)
    >>> round(outsider_loss(told, [(0, 1)]), 6)
    1.098612
    """
    n, columns = exchange.people.tolist(), exchange.flows.T.tolist()
    told = (_log_odds(f[s] * n[t], f[t] * n[s]) for f in columns for s, t in pairs)
    return max(told, default=0.0)


def insider_loss(exchange: Exchange, pairs: Sequence[tuple[int, int]]) -> float:
    r"""Return the largest log odds that a person learns of whoever holds his row, rounded up.

    The person is not the holder, so that of his own secret one candidate less is left:

    .. math:: \max_{b, (s, t)} \left| \log \frac{F^*(s, b) / N_b(s)}{F^*(t, b) / N_b(t)} \right|,
              \quad N_b(s) = n_s - [s = b], \quad F^*(b, b) = S_b

    If he is the only person of his secret, nobody else has it for him: pairs with it tell him
    nothing. If one other person has it, that person cannot have received his row unless both moved,
    so pairs with his own secret are left out here, and no bound of them holds.
    """
    loss = 0.0
    for b, column in enumerate(exchange.flows.T):
        foreign = [int(flow) for flow in column]
        foreign[b] = int(exchange.others[b])
        left = [size - (s == b) for s, size in enumerate(exchange.people.tolist())]
        for s, t in pairs:
            if b not in (s, t) or left[b] > 1:
                loss = max(loss, _log_odds(foreign[s] * left[t], foreign[t] * left[s]))
    return loss


def outsider_delta(exchange: Exchange, pairs: Sequence[tuple[int, int]], epsilon: float) -> float:
    r"""Return the largest delta at epsilon between two secrets, rounded up.

    .. math:: \max_{(s, t)} \sum_b \left( F(s, b) / n_s - e^\epsilon F(t, b) / n_t \right)_+
    """
    # beyond 700 a smaller factor tells no less
    factor = Fraction(math.exp(min(epsilon, 700.0))) * (1 - Fraction(1, 2**50))
    worst, flows = Fraction(0), exchange.flows.tolist()
    for s, t in [*pairs, *((t, s) for s, t in pairs)]:
        ends = (
            [Fraction(flow, int(exchange.people[each]) * exchange.unit) for flow in flows[each]]
            for each in (s, t)
        )
        excess = (max(p - factor * q, Fraction(0)) for p, q in zip(*ends, strict=True))
        worst = max(worst, sum(excess, Fraction(0)))
    return math.nextafter(float(worst), math.inf) if worst else 0.0


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
