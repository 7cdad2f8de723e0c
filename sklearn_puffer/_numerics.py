"""Numbers on the safe side: rounded outwards, the smallest sufficient factor, linear programs."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning, brentq, linprog

from sklearn_puffer._base import Array, FloatArray, IntArray, counted, task

#: The gap from 1 to the next float: the largest relative distance of two neighbouring floats.
ULP = 2.0**-52
#: Unit roundoff: the largest relative error of one operation.
UNIT = 2.0**-53
#: Bits that computed numbers are rounded to where every processor must get the same number.
COARSE_BITS = 34

LN2 = math.log(2.0)


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float at or above a fraction, or infinity.

    >>> rounded_up(Fraction(1, 2)), rounded_up(Fraction(1, 10)) >= Fraction(1, 10)
    (0.5, True)
    """
    return quotient_rounded_up(exact.numerator, exact.denominator)


def quotient_rounded_up(part: int, whole: int) -> float:
    """Return the smallest float at or above part / whole, or infinity; whole > 0.

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


def coarse_up(values: FloatArray | float) -> FloatArray:
    """Return the smallest floats of `COARSE_BITS` bits at or above the values, which are >= 0.

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


SMALLEST, LARGEST = 1e-300, 1e300
"""The factors that are tried at all."""

_LINE_STEPS = 5  # steps down along lines, after which each step squares the one before


def smallest_within(
    total: Callable[[float], float], budget: float, start: float, tolerance: float
) -> float:
    r"""Return the smallest factor in [1e-300, 1e300] with ``total(factor)`` within ``budget``.

    Parameters
    ----------
    total : callable
        Never negative, may be infinite, and never increases with the factor.
    budget : float
        Positive.
    start : float
        A factor to start from; any value is sound.
    tolerance : float
        Relative width of the final bracket.

    Returns
    -------
    float
        The upper end of the final bracket; infinite where no factor is enough.

    Notes
    -----
    *Formal guarantees.* ``total`` has been evaluated at the returned factor and is within the
    budget there. Near the start it takes about 4 evaluations where the total is inversely
    proportional to the factor, 8 to 15 where it is smooth, and up to 50 at a jump, which only
    halving can close in on; each factor of 1e100 that the start is off adds about 10.

    Examples
    --------
    >>> round(smallest_within(lambda factor: 3.0 / factor, 1.0, start=0.1, tolerance=1e-12), 9)
    3.0
    """
    with task("noise scales tried") as done:

        def reported(factor: float) -> float:
            value = total(factor)
            done()
            return value

        search = _Search(reported, budget)
        search.bracket(min(max(start, SMALLEST), LARGEST), tolerance)
        if search.high < math.inf:
            search.close(tolerance)
    return search.high


def smallest_for_all(
    total: Callable[[int, float], float],
    tasks: Sequence[int],
    budget: float,
    start: float,
    tolerance: float,
) -> float:
    """Return the smallest factor at which the totals of all tasks are within ``budget``.

    It is the largest factor that a task needs. Each task is first evaluated at the factor of the
    tasks before it, and a search begins only if that is not enough. In any order, this takes about
    one evaluation for each task, and a few searches.

    Parameters
    ----------
    total : callable
        Of a task and a factor, as in `smallest_within`.
    tasks : sequence of int
        None of them is within the budget at factor 0.
    budget, start, tolerance : float
        As in `smallest_within`.

    Examples
    --------
    >>> needs = [1.0, 3.0, 2.0]
    >>> found = smallest_for_all(lambda k, factor: needs[k] / factor, range(3), 1.0, 1.0, 1e-12)
    >>> round(found, 9)
    3.0
    """
    factor = 0.0
    for k in counted(tasks, "secret pairs"):
        if factor == 0.0 or total(k, factor) > budget:
            factor = smallest_within(partial(total, k), budget, factor or start, tolerance)
    return factor


class _Search:
    """A bracket [low, high] of the smallest sufficient factor; only evaluations move its ends."""

    def __init__(self, total: Callable[[float], float], budget: float) -> None:
        self.total, self.budget = total, budget
        self.low, self.high = 0.0, math.inf
        self.low_excess, self.high_excess = 700.0, -1.0

    def excess(self, factor: float) -> float:
        """Return a measure of the total beyond the budget; negative within it, and never zero.

        Beyond the budget it is log(total / budget), so that tails of many orders of magnitude
        become smooth; within, total / budget - 1, for a total that vanishes has no logarithm. The
        two have the same slope where they meet.
        """
        value = self.total(factor)
        if value <= self.budget:
            excess = min(value / self.budget - 1.0, -1e-15)
            if factor < self.high:
                self.high, self.high_excess = factor, excess
        else:
            excess = min(max(math.log(value / self.budget), 1e-15), 700.0)
            if factor > self.low:
                self.low, self.low_excess = factor, excess
        return excess

    def bracket(self, factor: float, tolerance: float) -> None:
        """Enclose the factor, from a first guess at it; leave ``high`` infinite if none is enough.

        The first steps are those that would reach a root of a total that falls with the factor's
        inverse; where they do not, steps grow like squares.
        """
        excess = self.excess(factor)
        step = max(min(2.0 * excess, 1.0), 1e-12)
        while excess > 0.0:
            if factor >= LARGEST:
                return
            factor = min(factor * (1.0 + step), LARGEST)
            step = 8.0 * step if step < 1.0 else step * step + 1.0
            excess = self.excess(factor)
        # a hair below the root, where the guess is the root itself
        ratio = max(1.0 + excess, math.exp(-1.0)) * (1.0 - 0.5 * tolerance)
        tries = 0
        while self.high > SMALLEST and self.low == 0.0:
            before = self.high_excess
            self.excess(max(self.high * ratio, SMALLEST))
            tries += 1
            ratio = (
                self._along_line(ratio, before) if tries < _LINE_STEPS else min(ratio * ratio, 0.5)
            )

    def _along_line(self, ratio: float, before: float) -> float:
        """Return the next step down: half as far again as a line through the last two points tells.

        On logarithmic scales, on which most totals bend so that the line falls short; at most the
        square of the last step.
        """
        last, first = (math.log1p(max(x, -1.0 + 1e-15)) for x in (self.high_excess, before))
        step = 1.5 * last * math.log(ratio)
        return math.exp(-min(step / max(last - first, 1e-300), -2.0 * math.log(ratio)))

    def close(self, tolerance: float) -> None:
        """Narrow the bracket by Brent's method, on logarithmic scales."""
        if self.low == 0.0:
            return
        if not self._is_closed(tolerance):
            low, high = math.log(self.low), math.log(self.high)
            # the ends are known, and e^log(end) is not quite the end
            end_excess = {low: self.low_excess, high: self.high_excess}

            def excess(log_factor: float) -> float:
                value = end_excess.get(log_factor)
                if value is None:
                    value = self.excess(math.exp(log_factor))
                    if self._is_closed(tolerance):
                        raise _ClosedError
                return value

            # it would go on to a root, where a bracket is enough
            with suppress(_ClosedError):
                brentq(
                    excess, low, high, xtol=tolerance / 4.0, rtol=8.9e-16, maxiter=200, disp=False
                )
        while not self._is_closed(tolerance):
            self.excess(math.sqrt(self.low) * math.sqrt(self.high))

    def _is_closed(self, tolerance: float) -> bool:
        return self.high <= self.low * (1.0 + tolerance)


class _ClosedError(Exception):
    """The bracket is narrow enough."""


def solved(
    objective: FloatArray,
    *,
    most: tuple[Any, FloatArray] | None = None,
    equal: tuple[Any, FloatArray],
    interior: bool = False,
) -> OptimizeResult | None:
    """Minimise over variables of 0 or more; where an interior point fails, ask the simplex method.

    ``most`` and ``equal`` are pairs of matrix and right-hand side. None where nothing came back.
    """
    costs = np.asarray(objective)
    method = "highs-ipm" if interior else "highs-ds"
    # HiGHS knows it, and scipy hands it on with a warning
    options = {"run_crossover": "off"} if interior else {}
    solver: Any = linprog  # whose types know no sparse arrays
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        # HiGHS cannot be stopped through scipy: an interrupt takes effect when it is done
        result: OptimizeResult = solver(
            costs, *(most or (None, None)), *equal, method=method, options=options
        )
    if result.x is None and interior:
        return solved(objective, most=most, equal=equal)
    return None if result.x is None else result


def combinations_of(codes: Sequence[Array], n_rows: int) -> IntArray:
    """Return the combination of codes of each row, numbered alike in any order of the rows.

    >>> combinations_of([np.array([5, 5, 3]), np.array([1, 0, 1])], 3).tolist()
    [2, 1, 0]
    """
    kinds = np.zeros(n_rows, dtype=np.int64)
    for each in codes:
        values, ranks = np.unique(each, return_inverse=True)
        kinds = np.unique(kinds * len(values) + ranks.ravel(), return_inverse=True)[1].ravel()
    return kinds
