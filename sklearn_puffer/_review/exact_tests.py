r"""What counts of an event say about a guarantee, exactly and at any number of rows.

An attacker's event E, fixed before the test rows are looked at, occurs in k of n rows with one
secret and in h of m rows with the other. Rows that are independent given their secrets make these
binomial, with chances p and q. A guarantee allows p at most some increasing function of q.

Whether a row is in an event may also depend on the whole release, as on how often it occurs there.
Then rows are in it together, and what is counted is how many of those in it have the one secret:
given the release their secrets are independent of each other, whatever the event is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaincinv, expit, logit

from sklearn_puffer._base import Array, FloatArray

_STEPS = 60
_FINE = 20_001
_MOST_LOSS = 50.0
_KEPT = 4096
_SPARED = 1e-9
_NOTHING = 1e-12
POWER = 0.8
"""The chance with which a loss must be found to be called findable."""


@dataclass(frozen=True)
class Budget:
    r"""How probable an event may be under one secret, given how probable it is under the other.

    Pure or with a delta :math:`p \le e^\varepsilon q + \delta`. Under Renyi privacy of order alpha
    an event is a release of one bit, so :math:`p^\alpha q^{1 - \alpha} \le e^{(\alpha - 1)
    \varepsilon}`, and :math:`p \le (e^\varepsilon q)^{(\alpha - 1)/\alpha}`; with a delta besides
    that holds of the parts of both distributions of mass 1 - delta.

    >>> round(float(Budget(math.log(3.0)).most(0.25)), 9)
    0.75
    """

    epsilon: float
    delta: float = 0.0
    alpha: float | None = None

    def most(self, q: Any) -> Any:
        """Return the largest chance that is allowed."""
        return np.minimum(1.0, self._kept * self._raised(q) + self.delta)

    def least(self, p: Any) -> Any:
        """Return the smallest chance under the other secret."""
        part = np.maximum(np.asarray(p) - self.delta, 0.0) / self._kept
        return self._kept * part ** (1.0 / self._power) * math.exp(-self.epsilon)

    def tilted(self, prior: Any) -> Any:
        """Return the largest chance of a secret given a release, delta aside."""
        return expit(logit(prior) + self.epsilon)

    def spared(self, n: int) -> int:
        """Return of how many of n rows delta may tell everything, but for a chance of 1e-9."""
        k = 0
        while self.delta > 0.0 and at_least(k + 1, n, self.delta) > _SPARED:
            k += 1
        return k

    def auc(self) -> float:
        """Return the largest area under a ROC curve: of (epsilon, delta) in closed form."""
        if self.alpha is None:
            return 1.0 - (1.0 - self.delta) ** 2 / (1.0 + math.exp(self.epsilon))
        return float(self._curve()[1:].mean())  # it increases, so right ends are above it

    def advantage(self) -> float:
        """Return the largest difference of the two chances, of the true and the false alarm."""
        grid = np.linspace(0.0, 1.0, _FINE)
        if self.alpha is None:
            return 1.0 - 2.0 * (1.0 - self.delta) / (1.0 + math.exp(self.epsilon))
        return float((self._curve()[1:] - grid[:-1]).max())

    def _curve(self) -> FloatArray:
        grid = np.linspace(0.0, 1.0, _FINE)
        curve: FloatArray = np.minimum(self.most(grid), 1.0 - self.least(1.0 - grid))
        return curve

    @property
    def _kept(self) -> float:
        return 1.0 if self.alpha is None else 1.0 - self.delta

    @property
    def _power(self) -> float:
        return 1.0 if self.alpha is None else (self.alpha - 1.0) / self.alpha

    def _raised(self, q: Any) -> Any:
        # as a logarithm: e^epsilon may be no float
        with np.errstate(divide="ignore"):
            log = self.epsilon + np.log(np.minimum(np.asarray(q) / self._kept, 1.0))
        return np.exp(np.minimum(self._power * log, 1.0))


def at_least(k: Any, n: Any, p: Any) -> Any:
    """Return the chance that k or more of n rows are in an event of chance p.

    >>> round(float(at_least(2, 2, 0.5)), 3)
    0.25
    """
    k = np.asarray(k)
    inside = betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), p)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, inside))


def at_most(k: Any, n: Any, p: Any) -> Any:
    """Return the chance that k or fewer of n rows are.

    >>> round(float(at_most(0, 2, 0.5)), 3)
    0.25
    """
    k = np.asarray(k)
    inside = betaincc(np.maximum(k + 1, 1), np.maximum(n - k, 1), p)
    return np.where(k >= n, 1.0, np.where(k < 0, 0.0, inside))


def lower(k: Any, n: Any, alpha: float) -> Any:
    """Return the lower end of Clopper and Pearson's interval, which misses with chance alpha."""
    k = np.asarray(k)
    return np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1), np.maximum(n - k + 1, 1), alpha))


def upper(k: Any, n: Any, alpha: float) -> Any:
    """Return the upper end, which misses with chance alpha.

    >>> round(float(upper(0, 10, 0.05)), 3)
    0.259
    """
    k = np.asarray(k)
    ends = betaincinv(np.maximum(k + 1, 1), np.maximum(n - k, 1), 1.0 - alpha)
    return np.where(k >= n, 1.0, ends)


@lru_cache(maxsize=_KEPT)  # pairs of secrets often have as many rows as each other
def p_value(
    guarantee: Budget, k: int, n: int, h: int, m: int, whole: tuple[int, int] | None = None
) -> float:
    r"""Return a p-value of "the guarantee is kept", which may be too large but never too small.

    Parameters
    ----------
    guarantee : Budget
    k, n, h, m : int
        Tested rows in the event and in all, of either secret.
    whole : (int, int), optional
        How many rows the whole release has of either secret, where the event may depend on all of
        it; not with an alpha.

    Notes
    -----
    *Formal guarantees.* For every q let A(q) be the chance that k or more of n rows are in an event
    of the largest chance allowed, which increases in q, and B(q) that h or fewer of m are in one of
    chance q, which decreases. What is returned is at least :math:`2 \min_q \max(A(q), B(q))`. At
    the true q* each q above has :math:`A(q) \ge A(q^*)` and each q below :math:`B(q) \ge B(q^*)`,
    so that this minimum is at least :math:`\min(A(q^*), B(q^*))`; A(q*) is at least the p-value of
    the true p, and so each of the two is below x with a chance of x at most, and twice the smaller
    one, too.

    With ``whole`` let rows and their secrets be independent draws of one distribution, and the
    tested ones chosen whatever they hold. Given the release, and the secrets of the rows that the
    event was chosen by, each tested row has the one secret by itself, at odds of at most e^epsilon
    times q/(1 - q), q being the share of that secret among the two. So A(q) is that k or more of
    the k + h rows in the event have it, of chance `Budget.tilted`, and B(q) that so few or fewer
    of the whole release have it. With a delta both distributions are pure ones in all but a part
    delta (P. Kairouz, S. Oh and P. Viswanath, 2015): `Budget.spared` rows, which may be of it,
    come off k.

    Examples
    --------
    >>> p_value(Budget(1.0), 95, 100, 5, 100) < 1e-6, p_value(Budget(1.0), 70, 100, 30, 100)
    (True, 1.0)
    """
    if whole is None:
        return _worst(lambda q: at_least(k, n, guarantee.most(q)), lambda q: at_most(h, m, q))
    events, total = k - guarantee.spared(n + m), sum(whole)
    worst = _worst(
        lambda q: at_least(events, events + h, guarantee.tilted(q)),
        lambda q: at_most(whole[0], total, q),
    )
    return min(1.0, worst + _SPARED * (guarantee.delta > 0.0))


def _worst(rising: Callable[[float], Any], falling: Callable[[float], Any]) -> float:
    """Return twice the least of the larger of two chances, no less than it is."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < falling(middle) else (low, middle)
    return min(1.0, 2.0 * float(max(rising(high), falling(low))))


def least_p(guarantee: Budget, n: int, m: int, whole: tuple[int, int] | None = None) -> float:
    """Return the p-value of an attack that is always right: no other is smaller."""
    return p_value(guarantee, n, n, 0, m, whole)


def rows_needed(guarantee: Budget, level: float, share: float | None = None) -> int:
    """Return of how many rows of each secret an attack that is always right is significant.

    Of events of the whole release these are a ``share`` of all rows.

    >>> rows_needed(Budget(1.0), 0.05)
    12
    """

    def least(n: int) -> float:
        whole = None if share is None else (round(n / share),) * 2
        return least_p(guarantee, n, n, whole)

    n = 1
    while least(n) > level:
        n *= 2
        if n > 1 << 40:
            return n
    below = n // 2
    while n - below > 1:
        middle = (n + below) // 2
        below, n = (below, middle) if least(middle) <= level else (middle, n)
    return n


def power(
    guarantee: Budget,
    p: float,
    q: float,
    n: int,
    m: int,
    level: float,
    whole: tuple[int, int] | None = None,
) -> float:
    """Return the chance that an event of chances p and q is significant at a level.

    >>> round(power(Budget(1.0), 0.99, 0.01, 100, 100, 0.05), 3)
    1.0
    """
    counts = np.arange(m + 1)
    masses = np.diff(at_most(counts, m, q), prepend=0.0)
    counts, masses = (values[masses > _NOTHING] for values in (counts, masses))
    tail = _tails(guarantee, counts, n, m, level, whole)
    low, high = np.zeros(len(counts), dtype=int), np.full(len(counts), n + 1)
    while (high - low > 1).any():
        middle = (low + high) // 2
        small = tail(middle) <= level / 2.0
        low, high = np.where(small, low, middle), np.where(small, middle, high)
    return float(masses @ at_least(high, n, p))


def _tails(
    guarantee: Budget, counts: Array, n: int, m: int, level: float, whole: tuple[int, int] | None
) -> Callable[[Array], Any]:
    """Return the chances of so many rows in the event, for each count of the other secret."""
    if whole is None:
        most = guarantee.most(upper(counts, m, level / 2.0))
        return lambda k: at_least(k, n, most)
    share = guarantee.tilted(upper(whole[0], sum(whole), level / 2.0))
    spared_rows, spared = guarantee.spared(n + m), _SPARED * (guarantee.delta > 0.0)
    return lambda k: at_least(k - spared_rows, k - spared_rows + counts, share) + spared / 2.0


@lru_cache(maxsize=_KEPT)
def findable(
    guarantee: Budget,
    q: float | None,
    n: int,
    m: int,
    level: float,
    whole: tuple[int, int] | None = None,
) -> float:
    r"""Return the smallest loss that is found with a chance of 80 %, or infinity.

    The loss is that of the event: log p/q, above the delta. Without a q it is that of randomised
    response, :math:`p = 1 - q = e^\lambda/(1 + e^\lambda)`, the best case for an attacker.

    >>> 1.0 < findable(Budget(1.0), None, 500, 500, 0.05) < 1.6
    True
    """

    def enough(loss: float) -> bool:
        share = 1.0 / (1.0 + math.exp(loss)) if q is None else q
        p = min(1.0, guarantee.delta + share * math.exp(loss))
        return power(guarantee, p, share, n, m, level, whole) >= POWER

    low, high = guarantee.epsilon, _most_loss(guarantee, q)
    if high <= low or not enough(high):
        return math.inf
    while high - low > 4e-3:
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _most_loss(guarantee: Budget, q: float | None) -> float:
    if q is None:
        return guarantee.epsilon + _MOST_LOSS
    return -math.log(q) if q > 0.0 else 0.0
