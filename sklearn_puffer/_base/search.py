"""The smallest sufficient factor of a quantity that never increases with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from scipy.optimize import brentq

from sklearn_puffer._base.progress import counted, task

SMALLEST, LARGEST = 1e-300, 1e300
"""The factors that are tried at all."""


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

    The largest of what the tasks need each on its own. The next one is asked about at the factor
    that serves those before it, and only where that does not serve it a search begins: in whatever
    order they come, about one evaluation each, and a few searches.

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
        """Return how far the total is beyond the budget; negative within it, and never zero.

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
        while self.high > SMALLEST and self.low == 0.0:
            self.excess(max(self.high * ratio, SMALLEST))
            ratio = min(ratio * ratio, 0.5)

    def close(self, tolerance: float) -> None:
        """Narrow the bracket by Brent's method, on logarithmic scales."""
        if self.low == 0.0:
            return
        if self.high > self.low * (1.0 + tolerance):
            low, high = math.log(self.low), math.log(self.high)
            # the ends are known, and e^log(end) is not quite the end
            known = {low: self.low_excess, high: self.high_excess}

            def excess(log_factor: float) -> float:
                value = known.get(log_factor)
                return self.excess(math.exp(log_factor)) if value is None else value

            brentq(excess, low, high, xtol=tolerance / 4.0, rtol=8.9e-16, maxiter=200, disp=False)
        while self.high > self.low * (1.0 + tolerance):
            self.excess(math.sqrt(self.low) * math.sqrt(self.high))
