"""How far floats are off, and numbers rounded to the side that is safe."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np

from sklearn_puffer._base.types import FloatArray

#: From 1 to the next float: what two numbers of a last place may be apart, relatively.
ULP = 2.0**-52
#: Unit roundoff: what one operation is off by at most, relatively.
UNIT = 2.0**-53
#: Bits of a number that is computed alike on every processor, though its last digits are not.
COARSE_BITS = 34

LN2 = math.log(2.0)


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below, or infinity.

    >>> rounded_up(Fraction(1, 2)), rounded_up(Fraction(1, 10)) >= Fraction(1, 10)
    (0.5, True)
    """
    return quotient_rounded_up(exact.numerator, exact.denominator)


def quotient_rounded_up(part: int, whole: int) -> float:
    """Return the smallest float that is not below part / whole, or infinity; whole > 0.

    >>> quotient_rounded_up(1, 2), quotient_rounded_up(10**400, 1)
    (0.5, inf)
    """
    try:
        nearest = part / whole  # correctly rounded, for integers of any size
    except OverflowError:
        return math.inf if part > 0 else -sys.float_info.max
    numerator, denominator = nearest.as_integer_ratio()
    short = numerator * whole < part * denominator
    return math.nextafter(nearest, math.inf) if short else nearest


def rounded_down(exact: Fraction) -> float:
    """Return the largest float that is not above, or minus infinity.

    >>> rounded_down(Fraction(1, 2)), rounded_down(Fraction(2, 3)) <= Fraction(2, 3)
    (0.5, True)
    """
    return -rounded_up(-exact) + 0.0  # no negative zero


def coarse_up(values: FloatArray | float) -> FloatArray:
    """Return the smallest floats of `COARSE_BITS` bits that are not below; values >= 0.

    What two processors compute to nearly the same last digit is thereby the same number.

    >>> float(coarse_up(0.75)), bool(coarse_up(0.1) == coarse_up(0.1 + 1e-15) >= 0.1)
    (0.75, True)
    """
    part, power = np.frexp(values)
    coarse: FloatArray = np.ldexp(np.ceil(np.ldexp(part, COARSE_BITS)), power - COARSE_BITS)
    return coarse


def sum_by_halves(values: FloatArray) -> float:
    """Return the sum of a vector, added in an order that no width of vector instructions changes.

    >>> sum_by_halves(np.array([1.0, 2.0, 3.0])), sum_by_halves(np.array([]))
    (6.0, 0.0)
    """
    while len(values) > 1:
        half = len(values) // 2
        odd = values[2 * half :]
        values = np.concatenate([values[:half] + values[half : 2 * half], odd])
    return float(values[0]) if len(values) else 0.0


def log_sum(logs: FloatArray, axis: int = -1) -> FloatArray:
    """Return the log of the sum along an axis, to the nearest; -inf for nothing.

    >>> log_sum(np.log([[1.0, 3.0], [0.5, 0.5]])).round(9).tolist(), float(log_sum(np.array([])))
    ([1.386294361, 0.0], -inf)
    """
    top = logs.max(axis=axis, keepdims=True, initial=-math.inf)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        total: FloatArray = safe + np.log(np.exp(logs - safe).sum(axis=axis, keepdims=True))
    return np.where(top == math.inf, math.inf, total).squeeze(axis=axis)
