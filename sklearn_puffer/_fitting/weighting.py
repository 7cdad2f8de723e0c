"""The proportions of the columns' scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sklearn_puffer._fitting.planning import needed_factor
from sklearn_puffer._fitting.problems import Problem
from sklearn_puffer._validation import listed

FloatArray = NDArray[np.float64]

_EVALUATIONS = 60  # of the joint loss, for each column
_TOLERANCE = 1e-6  # of a factor that is only compared
_CLOSE = 1e-3  # proportions this close, in logarithms, are as good


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
    local one, found by the simplex method of Nelder and Mead from the spreads themselves: it is
    never worse than theirs. The proportions are functions of the priors, as theta is.

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
    lacking = [name for name in problem.names if name not in weights]
    if strange or lacking:
        what = f"names {strange[0]!r}, which is not public" if strange else f"lacks {lacking[0]!r}"
        raise ValueError(
            f"weights {what}; give a positive number for each of {listed(list(problem.names), 10)}."
        )
    return np.array([float(weights[name]) for name in problem.names])


def _optimal(problem: Problem, spreads: FloatArray) -> FloatArray:
    moving = np.flatnonzero(spreads > 0.0)
    if len(moving) < 2:
        return problem.weights

    def proportions(logs: FloatArray) -> FloatArray:
        changed = problem.weights.copy()
        changed[moving[1:]] *= np.exp(logs)
        return changed

    def log_error(logs: FloatArray) -> float:
        tried = proportions(logs)
        factor = needed_factor(replace(problem, weights=tried), _TOLERANCE)
        return math.log(max(factor * float((tried[moving] / spreads[moving]).mean()), 1e-300))

    start = np.zeros(len(moving) - 1)
    if needed_factor(problem, _TOLERANCE) == 0.0:
        return problem.weights
    # a simplex of a factor of two to begin with: proportions are a matter of orders of magnitude
    simplex = np.vstack([start, 0.7 * np.eye(len(start))])
    found = minimize(
        log_error,
        start,
        method="Nelder-Mead",
        options={
            "initial_simplex": simplex,
            "maxfev": _EVALUATIONS * len(moving),
            "xatol": _CLOSE,
            "fatol": _CLOSE / 10.0,
        },
    )
    return proportions(found.x) if found.fun < log_error(start) else problem.weights
