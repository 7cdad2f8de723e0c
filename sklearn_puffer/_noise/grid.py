r"""The grid of a release: its step, and values as whole numbers of steps.

The distribution drawn is the continuous one rounded to a grid of step g,
:math:`K = \lfloor N/g \rfloor`, so with X on the grid ``X + g K`` is a rounding of ``X + N``: a
post-processing of the continuous release, which inherits its privacy loss.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_puffer._base import FloatArray, IntArray, check_positive

GRID_BITS = 40
"""A grid step is at most 2^-39 of the scale of the noise (unless the data's range forbids it)."""

MAX_STEPS = 2**62
"""Values lie within this many steps of 0, so that value plus noise never leaves 64 bits."""

FINEST = 2.0**-39  # a grid step in scales, where the range does not ask for a coarser one
_COARSEST = 10  # a coarsened step is at most 2^-10 of the scale


def grid_step(scale: float, *, integer: bool = False) -> float:
    r"""Return the step of the grid on which noise of a scale theta is drawn, a power of two.

    .. math:: g = 2^{\lceil \log_2(\theta / 2^{40}) \rceil}, \qquad \max(g, 1) \text{ for integers}

    So of a column of whole numbers it is 1 up to a scale of 2^40.

    >>> grid_step(1.0) == 2.0**-40, grid_step(3.0, integer=True)
    (True, 1.0)
    """
    step = math.ldexp(1.0, _grid_exponent(check_positive(scale, "scale")))
    if step == 0.0:
        raise ValueError(f"scale must be at least 2**-1034, got {scale!r}; rescale the column.")
    return max(step, 1.0) if integer else step


def coarse_enough(step: float, scale: float, reach: float) -> float:
    r"""Return the smallest step, not below ``step``, at which a range fits into 2^62 steps.

    It has :math:`|x| \le 2^{61} \cdot \text{step}` for the ``reach`` of all values that may ever be
    released, which must not be computed from the rows that are. A step of more than scale / 2^10 is
    refused.

    >>> coarse_enough(2.0**-40, 1.0, 1e6) == 2.0**-40
    True
    >>> coarse_enough(2.0**-40, 1.0, 2.0**30) == 2.0**-31
    True
    """
    _exponent_of(step)
    if not (math.isfinite(reach) and reach >= 0.0):
        raise ValueError(f"reach must be finite and not negative, got {reach!r}.")
    mantissa, exponent = math.frexp(reach)
    needed = math.ldexp(1.0, exponent - 61 - (mantissa == 0.5)) if reach else 0.0
    if needed <= step:
        return step
    if needed > math.ldexp(check_positive(scale, "scale"), -_COARSEST):
        raise ValueError(
            f"scale {scale!r} is too small for values of up to {reach!r}: in 64 bits they need "
            f"steps of {needed!r}; remove outlying values, bin the column, or shift it towards 0."
        )
    return needed


def to_indices(x: ArrayLike, step: float) -> IntArray:
    r"""Return :math:`\lfloor x/g + 1/2 \rfloor`, exactly: halves go up, never to the even side.

    >>> to_indices([0.5, 1.5, -0.5, 0.49999999999999994], 1.0).tolist()
    [1, 2, 0, 0]
    >>> to_indices([3, 5], 2.0).tolist()
    [2, 3]
    """
    exponent = _exponent_of(step)
    values = np.asarray(x)
    if values.dtype.kind in "iub":
        return _integers_to_steps(values, exponent)
    with np.errstate(over="ignore", under="ignore"):
        quotient: FloatArray = np.divide(values, step, dtype=np.float64)
    if not np.all(np.abs(quotient) <= MAX_STEPS):
        raise _too_far(step)
    # x/g - floor(x/g) is exact where it decides, which x/g + 1/2 is not: see the example
    floor = np.floor(quotient)
    upper = np.subtract(quotient, floor, out=quotient) >= 0.5
    return floor.astype(np.int64) + upper


def _integers_to_steps(values: NDArray[Any], exponent: int) -> IntArray:
    step = math.ldexp(1.0, exponent)
    farthest = max(-int(values.min()), int(values.max())) if values.size else 0
    if farthest > min(MAX_STEPS * step, 2**63 - 1):
        raise _too_far(step)
    whole: IntArray = values.astype(np.int64)
    if exponent <= 0:
        return whole << min(-exponent, 62)
    return ((whole >> min(exponent - 1, 63)) + 1) >> 1


def _too_far(step: float) -> ValueError:
    return ValueError(
        f"x must be finite and within 2**62 steps of {step!r} around 0; take a coarser step."
    )


def _grid_exponent(scale: float) -> int:
    mantissa, exponent = math.frexp(scale)
    return exponent - GRID_BITS - (mantissa == 0.5)


def _exponent_of(step: float) -> int:
    mantissa, exponent = math.frexp(step)
    if mantissa != 0.5:
        raise ValueError(
            f"step must be a positive power of two, got {step!r}; take it from grid_step."
        )
    return exponent - 1


class Grid(NamedTuple):
    """The grid wanted, of step ``2^(fine + shift)``, and the finer one that is drawn on."""

    fine: int
    shift: int
    nearest: bool


def grid_of(scale: float, step: float, nearest: bool) -> Grid:
    """Return the grid of a step; it must be no finer than that of the scale."""
    finest, exponent = _grid_exponent(scale), _exponent_of(step)
    if exponent < finest:
        raise ValueError(f"step must be at least grid_step({scale!r}), got {step!r}.")
    fine = min(finest, exponent - nearest)
    return Grid(fine, exponent - fine, nearest)
