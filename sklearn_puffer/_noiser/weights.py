"""The proportions of the columns' scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sklearn_puffer._base import FloatArray, listed, task
from sklearn_puffer._noiser.problems import Problem
from sklearn_puffer._noiser.scales import needed_factor

_EVALUATIONS = 8  # of the joint factor, for each column
_ROUGHLY, _TOLERANCE = 1e-2, 1e-3  # of a factor that is only compared, on the way and at the end
_CLOSE = 5e-2  # proportions this close, in logarithms, are as good: errors differ by its square


def weighted(problem: Problem, weights: Mapping[Any, float] | str, spreads: FloatArray) -> Problem:
    r"""Return the problem with the proportions asked for.

    Parameters
    ----------
    problem : Problem
        With each column's spread for its weight.
    weights : "spread", "optimal" or mapping
        As in `PufferfishNoiser`.
    spreads : ndarray of shape (n_columns,)

    Notes
    -----
    "optimal" minimises the expected error per unit of spread, which is proportional to

    .. math:: f(w) \sum_k w_k / \mathrm{spread}_k,

    over the proportions w, with f(w) the factor that the joint loss asks for. The minimum is a
    local one, found by the simplex method of Nelder and Mead from the spreads themselves, to about
    a hundredth of the error, in at most 8 evaluations a column: it is never worse than
    theirs, up to 1e-3. The proportions are functions of the priors, as theta is.

    Raises
    ------
    ValueError
        If a mapping names a column that is not public, or leaves one out.
    """
    if isinstance(weights, Mapping):
        return replace(problem, weights=_named(problem, weights))
    if weights == "spread" or len(problem.weights) == 1:
        return problem
    return replace(problem, weights=_optimal(problem, spreads))


def _named(problem: Problem, weights: Mapping[Any, float]) -> FloatArray:
    strange = [name for name in weights if name not in problem.names]
    noisy = [bool(weight) for weight in problem.weights]
    needed = [name for name, some in zip(problem.names, noisy, strict=True) if some]
    lacking = [name for name in needed if name not in weights]
    if strange or lacking:
        what = f"names {strange[0]!r}, which is not public" if strange else f"lacks {lacking[0]!r}"
        raise ValueError(
            f"weights {what}; give a positive number for each of {listed(list(problem.names), 10)}."
        )
    named = zip(problem.names, noisy, strict=True)
    return np.array([float(weights[name]) if some else 0.0 for name, some in named])


def _optimal(problem: Problem, spreads: FloatArray) -> FloatArray:
    moving = np.flatnonzero((spreads > 0.0) & (problem.weights > 0.0))
    if len(moving) < 2:
        return problem.weights
    search = _Search(problem, spreads, moving)
    if search.factor == 0.0:
        return problem.weights
    start = np.zeros(len(moving) - 1)
    most = _EVALUATIONS * len(moving)
    # a simplex of a factor of two to begin with: proportions are a matter of orders of magnitude
    simplex = np.vstack([start, 0.7 * np.eye(len(start))])
    with task("column weights tried, at most", most) as done:

        def log_error(logs: FloatArray) -> float:
            found = search.log_error(logs, _ROUGHLY)
            done()
            return found

        found = minimize(
            log_error,
            start,
            method="Nelder-Mead",
            options={
                "initial_simplex": simplex,
                "maxfev": most,
                "xatol": _CLOSE,
                "fatol": _CLOSE / 10.0,
            },
        )
    better = search.log_error(found.x, _TOLERANCE) < search.log_error(start, _TOLERANCE)
    return search.proportions(found.x) if better else problem.weights


class _Search:
    """The error that proportions lead to; each search for a factor begins at the last one."""

    def __init__(self, problem: Problem, spreads: FloatArray, moving: NDArray[np.intp]) -> None:
        self._problem, self._moving = problem, moving
        self._spreads = spreads[moving]
        mixed = np.array([mixing is not None for mixing in problem.mixings], dtype=bool)
        self._unordered = mixed[moving] if mixed.size else np.zeros(len(moving), dtype=bool)
        self.factor = needed_factor(problem, _ROUGHLY)

    def proportions(self, logs: FloatArray) -> FloatArray:
        """Return the weights; the first of those that move stays as it is."""
        changed = self._problem.weights.copy()
        changed[self._moving[1:]] *= np.exp(logs)
        return changed

    def log_error(self, logs: FloatArray, tolerance: float) -> float:
        """Return the log of the mean error per unit of spread."""
        tried = self.proportions(logs)
        changed = replace(self._problem, weights=tried)
        self.factor = needed_factor(changed, tolerance, self.factor)
        errors = self.factor * tried[self._moving] / self._spreads
        errors = np.where(self._unordered, -np.expm1(-errors), errors)
        return math.log(max(float(errors.mean()), 1e-300))
