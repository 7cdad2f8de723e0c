"""The one call of the solver: HiGHS, through scipy; and how long it may take."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, OptimizeWarning, linprog

from sklearn_puffer._base import FloatArray

_OUT_OF_TIME = 1  # of scipy's status


@dataclass(frozen=True)
class Clock:
    """A deadline, in seconds of `monotonic`."""

    deadline: float = inf

    @classmethod
    def of(cls, time_limit: float | None) -> Clock:
        """Return the deadline of a time limit that begins now."""
        return cls() if time_limit is None else cls(monotonic() + time_limit)

    @property
    def left(self) -> float | None:
        """The seconds left, 0 at least; None where there is no deadline."""
        return None if self.deadline == inf else max(self.deadline - monotonic(), 0.0)

    def part(self, share: float) -> Clock:
        """Return the deadline by which this share of the time left is over."""
        return self if self.left is None else Clock(monotonic() + share * self.left)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return monotonic() >= self.deadline


def solved(
    objective: FloatArray,
    *,
    most: tuple[Any, FloatArray] | None = None,
    equal: tuple[Any, FloatArray],
    interior: bool = False,
    time_limit: float | None = None,
) -> OptimizeResult | None:
    """Minimise over variables of 0 or more; where an interior point fails, ask the simplex method.

    ``most`` and ``equal`` are pairs of matrix and right-hand side. None where nothing came back.
    """
    A_ub, b_ub = (None, None) if most is None else most
    options: dict[str, object] = {} if time_limit is None else {"time_limit": time_limit}
    if interior:
        options |= {"run_crossover": "off"}  # HiGHS knows it, and scipy hands it on with a warning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        method = "highs-ipm" if interior else "highs-ds"
        solver: Any = linprog  # whose types know no sparse arrays
        A_eq, b_eq = equal
        result: OptimizeResult = solver(
            np.asarray(objective), A_ub, b_ub, A_eq, b_eq, method=method, options=options
        )
    if result.x is None and interior and result.status != _OUT_OF_TIME:
        return solved(objective, most=most, equal=equal, time_limit=time_limit)
    return None if result.x is None else result
