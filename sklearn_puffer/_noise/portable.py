r"""exp and log that are the same on every machine, bit for bit.

The exp of a C library, and that of numpy, may be off by one unit in the last place on one machine
and not on another. These are made of sums, products, quotients, roundings and powers of two, which
IEEE 754 fixes to the last bit, in a fixed order; so is what is drawn by comparing with them.

Rounding
--------
With u = 2^-53: :math:`x = n \log 2 + r` with r right to u/2, as n times the upper part of log 2 is
exact; :math:`e^r - 1 = r q(r)`, whose 13 terms (8 for expm1) leave less than 2^-57 of it. So exp
and expm1 are right to 3 u. log takes a series in :math:`s = (m - 1)/(m + 1)`, \|s\| < 0.172, with
11 terms and s right to 3/2 u: with the part n log 2, which cancels no more than two thirds of it,
to 6 u. log1p makes up for the rounding of 1 + x: to 8 u.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray

_LOG_2 = math.log(2.0)
_PER_LOG_2 = 1.4426950408889634
_UPPER, _LOWER = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # of log 2
_LEAST = -1100.0  # e^x is 0 from here down
_EXP_TERMS = [1.0 / math.factorial(k) for k in range(1, 14)]
_LOG_TERMS = [2.0 / (2 * k + 1) for k in range(11)]
_SQRT_HALF = 0.7071067811865476


def exp(x: Any) -> FloatArray:
    """Return e^x for x up to 700.

    >>> round(float(exp(1.0)), 12)
    2.718281828459
    """
    x = np.maximum(x, _LEAST)
    n = np.rint(x * _PER_LOG_2)
    r = (x - n * _UPPER) - n * _LOWER
    power: FloatArray = np.ldexp(1.0 + r * _polynomial(r, _EXP_TERMS), n.astype(np.int32))
    return power


def expm1(x: Any) -> FloatArray:
    r"""Return e^x - 1 for \|x\| up to 1/64."""
    return np.asarray(x * _polynomial(x, _EXP_TERMS[:8]))


def exp2(x: Any) -> FloatArray:
    """Return 2^x for x from -1 to 1."""
    return exp(x * _LOG_2)


def log(x: Any) -> FloatArray:
    """Return log x for x > 0.

    >>> float(log(1.0))
    0.0
    """
    m, n = np.frexp(x)
    low = m < _SQRT_HALF
    m, n = np.where(low, m + m, m), n - low
    s = (m - 1.0) / (m + 1.0)
    return np.asarray(n * _UPPER + (n * _LOWER + s * _polynomial(s * s, _LOG_TERMS)))


def log1p(x: Any) -> FloatArray:
    """Return log(1 + x) for x >= 0."""
    whole = 1.0 + x
    kept = whole - 1.0
    off = np.where(kept > 0.0, x / np.where(kept > 0.0, kept, 1.0), 1.0)
    return np.where(kept > 0.0, log(whole) * off, x)


def _polynomial(x: Any, terms: list[float]) -> Any:
    total = terms[-1]
    for term in terms[-2::-1]:
        total = total * x + term
    return total
