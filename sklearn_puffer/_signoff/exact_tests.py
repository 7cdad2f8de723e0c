r"""What counts of an event say about a promise, exactly and at any number of rows.

An attacker's event E, fixed before the test rows are looked at, occurs in k of n rows with one
secret and in h of m rows with the other. Rows that are independent given their secrets make these
binomial, with chances p and q. A promise allows p at most some increasing function of q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaincinv

from sklearn_puffer._base import FloatArray

_STEPS = 60
_FINE = 20_001
_MOST_LOSS = 50.0
_KEPT = 4096
POWER = 0.8
"""The chance with which a loss must be found to be called findable."""


@dataclass(frozen=True)
class Promise:
    r"""How probable an event may be under one secret, given how probable it is under the other.

    Pure or with a delta :math:`p \le e^\varepsilon q + \delta`. Under Renyi privacy of order alpha
    an event is a release of one bit, so :math:`p^\alpha q^{1 - \alpha} \le e^{(\alpha - 1)
    \varepsilon}`, and :math:`p \le (e^\varepsilon q)^{(\alpha - 1)/\alpha}`; with a delta besides
    that holds of the parts of both laws of mass 1 - delta.

    >>> round(float(Promise(math.log(3.0)).most(0.25)), 9)
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
        found: FloatArray = np.minimum(self.most(grid), 1.0 - self.least(1.0 - grid))
        return found

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
def p_value(promise: Promise, k: int, n: int, h: int, m: int) -> float:
    r"""Return a p-value of "the promise is kept", which may be too large but never too small.

    Notes
    -----
    *Formal guarantees.* For every q let A(q) be the chance that k or more of n rows are in an event
    of the largest chance allowed, which increases in q, and B(q) that h or fewer of m are in one of
    chance q, which decreases. What is returned is at least :math:`2 \min_q \max(A(q), B(q))`. At
    the true q* each q above has :math:`A(q) \ge A(q^*)` and each q below :math:`B(q) \ge B(q^*)`,
    so that this minimum is at least :math:`\min(A(q^*), B(q^*))`; A(q*) is at least the p-value of
    the true p, and so each of the two is below x with a chance of x at most, and twice the smaller
    one, too.

    Examples
    --------
    >>> p_value(Promise(1.0), 95, 100, 5, 100) < 1e-6, p_value(Promise(1.0), 70, 100, 30, 100)
    (True, 1.0)
    """
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if at_least(k, n, promise.most(middle)) < at_most(h, m, middle):
            low = middle
        else:
            high = middle
    ends = max(at_least(k, n, promise.most(high)), at_most(h, m, low))
    return min(1.0, 2.0 * float(ends))


def least_p(promise: Promise, n: int, m: int) -> float:
    """Return the p-value of an attack that is always right: no other is smaller."""
    return p_value(promise, n, n, 0, m)


def rows_needed(promise: Promise, level: float) -> int:
    """Return of how many rows of each secret an attack that is always right is significant.

    >>> rows_needed(Promise(1.0), 0.05)
    12
    """
    n = 1
    while least_p(promise, n, n) > level:
        n *= 2
        if n > 1 << 40:
            return n
    below = n // 2
    while n - below > 1:
        middle = (n + below) // 2
        below, n = (below, middle) if least_p(promise, middle, middle) <= level else (middle, n)
    return n


def power(promise: Promise, p: float, q: float, n: int, m: int, level: float) -> float:
    """Return the chance that an event of chances p and q is significant at a level.

    >>> round(power(Promise(1.0), 0.99, 0.01, 100, 100, 0.05), 3)
    1.0
    """
    counts = np.arange(m + 1)
    masses = np.diff(at_most(counts, m, q), prepend=0.0)
    least = _least_significant(promise, upper(counts, m, level / 2.0), n, level)
    return float(masses @ at_least(least, n, p))


def _least_significant(promise: Promise, ends: FloatArray, n: int, level: float) -> Any:
    """Return for each count of the one event how many of the other are significant."""
    most = promise.most(ends)
    low, high = np.zeros(len(ends), dtype=int), np.full(len(ends), n + 1)
    while (high - low > 1).any():
        middle = (low + high) // 2
        small = at_least(middle, n, most) <= level / 2.0
        low, high = np.where(small, low, middle), np.where(small, middle, high)
    return high


@lru_cache(maxsize=_KEPT)
def findable(promise: Promise, q: float | None, n: int, m: int, level: float) -> float:
    r"""Return the smallest loss that is found with a chance of 80 %, or infinity.

    The loss is that of the event: log p/q, above the delta. Without a q it is that of randomised
    response, :math:`p = 1 - q = e^\lambda/(1 + e^\lambda)`, the best case for an attacker.

    >>> 1.0 < findable(Promise(1.0), None, 500, 500, 0.05) < 1.6
    True
    """

    def enough(loss: float) -> bool:
        own = 1.0 / (1.0 + math.exp(loss)) if q is None else q
        p = min(1.0, promise.delta + own * math.exp(loss))
        return power(promise, p, own, n, m, level) >= POWER

    low, high = promise.epsilon, _most_loss(promise, q)
    if high <= low or not enough(high):
        return math.inf
    while high - low > 4e-3:
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _most_loss(promise: Promise, q: float | None) -> float:
    if q is None:
        return promise.epsilon + _MOST_LOSS
    return -math.log(q) if q > 0.0 else 0.0
