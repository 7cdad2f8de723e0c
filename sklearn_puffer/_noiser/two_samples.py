r"""How surprising it is that rows of two samples share what they have in such proportions.

If the n + m rows of two samples are exchangeable, for instance because all are independent draws of
one law, then of any c + d of them that are picked without a look at which sample they are in, the
number X in the second sample has the hypergeometric law. Its masses are log-concave, so that beyond
the mode the tail is at most a geometric series,

.. math:: P(X \ge d) \le \frac{P(X = d)}{1 - r}, \qquad
          P(X = d) = \frac{\binom{m}{d} \binom{n}{c}}{\binom{n + m}{c + d}}, \qquad
          r = \frac{P(X = d + 1)}{P(X = d)} = \frac{(m - d)\, c}{(d + 1)(n - c + 1)} < 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from sklearn_puffer._base import ULP, FloatArray, IntArray

_ROUNDINGS = 16.0
_LEAST = -700.0  # below which an exponential is no normal float


def too_many(d: IntArray, m: int, c: IntArray, n: int) -> FloatArray:
    """Return a bound on the chance that the second sample has at least d of the c + d rows.

    Parameters
    ----------
    d, c : ndarray of int64 of shape (k,)
        Of the picked rows, those in the second and in the first sample.
    m, n : int
        Rows of the second and of the first sample.

    Notes
    -----
    *Formal guarantees.* Never below that chance: Fisher's exact test, one-sided (R. A. Fisher,
    1935), by the series above; what logarithms of factorials may be off by is added.

    Examples
    --------
    Of 20 rows in two halves, the 10 that are picked are all in the second one:

    >>> from math import comb
    >>> bound = too_many(np.array([10]), 10, np.array([0]), 10)
    >>> bool(abs(bound[0] * comb(20, 10) - 1.0) < 1e-9)
    True
    """
    some, others = d.astype(float), c.astype(float)
    terms = [_log_choose(m, some), _log_choose(n, others), -_log_choose(n + m, some + others)]
    size = float(n + m + 2)
    log_mass = sum(terms) + _ROUNDINGS * ULP * size * np.log(size)
    ratio = (m - some) * others / ((some + 1.0) * (n - others + 1.0))
    beyond = ratio < 1.0
    bound = np.exp(np.clip(log_mass, _LEAST, 0.0)) / np.where(beyond, 1.0 - ratio, 1.0)
    found: FloatArray = np.where(beyond & (some > 0.0), np.minimum(bound, 1.0), 1.0)
    return found


def _log_choose(n: int, k: FloatArray) -> FloatArray:
    found: FloatArray = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return found
