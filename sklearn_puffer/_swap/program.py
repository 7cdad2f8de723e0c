r"""How many people of each secret receive rows of each secret: a small linear program.

:math:`F(a, b)` people of secret a receive rows of secret b, and :math:`S_a` of those of
:math:`F(a, a)` receive a row that is not their own. With k secrets there are :math:`k^2 + k`
variables. The solution is not trusted: it is rounded to whole parts of a row, and the checker
compares these with the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._losses import (
    Exchange,
    insider_loss,
    outsider_delta,
    outsider_loss,
)

ROW = 1 << 32
"""Flows are whole numbers of this part of a row."""

LEAST_PEOPLE = 3
"""Of a secret, for whom insiders are held to their budget: fewer cannot all hold another's row."""

_INSIDE = (0.0, 1e-9, 1e-7, 1e-5, 1e-3)  # shares of the budget that the solver does not get
_MIXED = (1e-6, 1e-4, 1e-2, 0.1, 0.3, 1.0)  # shares of the flows that tell nothing


class Budget(NamedTuple):
    """What outsiders and insiders may learn, in nats; insiders None where they are left out."""

    epsilon: float
    delta: float
    insiders: float | None


@dataclass(frozen=True, eq=False)
class ExchangeProblem:
    """The people of one stratum, what exchanging their rows costs, and the budget.

    Attributes
    ----------
    sizes : ndarray of int64 of shape (n_secrets,)
        People of each secret, at least one.
    cost : ndarray of shape (n_secrets, n_secrets)
        Change of a row, where a person of one secret receives a row of the other.
    within : ndarray of shape (n_secrets,)
        Change of a row, where a person receives a row of another person of the same secret.
    pairs : sequence of tuple of int
        The secrets that are protected from each other.
    budget : Budget
    """

    sizes: IntArray
    cost: FloatArray
    within: FloatArray
    pairs: Sequence[tuple[int, int]]
    budget: Budget

    @property
    def insider_pairs(self) -> list[tuple[int, int]]:
        """The pairs whose insiders are held to their budget."""
        return [(s, t) for s, t in self.pairs if min(self.sizes[[s, t]]) >= LEAST_PEOPLE]

    def holds(self, exchange: Exchange) -> bool:
        """Return whether the checker finds flows within the budget."""
        epsilon, delta, insiders = self.budget
        if delta and outsider_delta(exchange, self.pairs, epsilon) > delta:
            return False
        if not delta and outsider_loss(exchange, self.pairs) > epsilon:
            return False
        return insiders is None or insider_loss(exchange, self.insider_pairs) <= insiders


def least_exchange(problem: ExchangeProblem) -> Exchange:
    """Return the flows that cost least, in whole parts of a row.

    Raises
    ------
    RuntimeError
        If not even the flows that tell nothing are within the budget, in whole parts.

    Examples
    --------
    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> problem = ExchangeProblem(
    ...     np.array([50, 50]), cost, np.ones(2), [(0, 1)], Budget(1.0, 0.0, None)
    ... )
    >>> (least_exchange(problem).flows / ROW).round(2).tolist()
    [[36.55, 13.45], [13.45, 36.55]]
    """
    sizes = problem.sizes
    apart = np.outer(sizes, sizes / sizes.sum()), sizes * (sizes - 1) / sizes.sum()
    solution = None
    for inside in _INSIDE:
        solution = _solved(problem, 1.0 - inside)
        if solution is not None and problem.holds(whole := _whole(*solution, sizes)):
            return whole
    flows, others = apart if solution is None else solution
    for share in _MIXED:
        mixed = (1 - share) * flows + share * apart[0], (1 - share) * others + share * apart[1]
        if problem.holds(whole := _whole(*mixed, sizes)):
            return whole
    raise RuntimeError("no flows in whole parts of a row are within the budget.")


def _solved(problem: ExchangeProblem, share: float) -> tuple[FloatArray, FloatArray] | None:
    """Return the solver's flows for a share of the budget, in rows; None where it finds none."""
    k = len(problem.sizes)
    equal, right = _margins(problem.sizes)
    most, bound = _limits(problem, share)
    away = problem.cost * (1.0 - np.eye(k))
    costs = np.concatenate([away.ravel(), problem.within, np.zeros(most.shape[1] - k * k - k)])
    scale = max(np.abs(costs).max(), 1e-300)
    answer = linprog(
        costs / scale, A_ub=most, b_ub=bound, A_eq=_wide(equal, most.shape[1]), b_eq=right
    )
    if answer.x is None:
        return None
    variables = np.maximum(answer.x, 0.0)
    return variables[: k * k].reshape(k, k), variables[k * k : k * k + k]


def _margins(sizes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the equations: as many people of a secret receive rows as there are, and give them."""
    k = len(sizes)
    rows = np.kron(np.eye(k), np.ones(k))
    columns = np.kron(np.ones(k), np.eye(k))
    return np.vstack([rows, columns]), np.tile(sizes, 2).astype(float)


def _wide(matrix: FloatArray, width: int) -> FloatArray:
    return np.pad(matrix, ((0, 0), (0, width - matrix.shape[1])))


def _limits(problem: ExchangeProblem, share: float) -> tuple[FloatArray, FloatArray]:
    """Return the rows of what must not be positive, and their right-hand sides."""
    k, sizes = len(problem.sizes), problem.sizes.astype(float)
    epsilon, delta, insiders = problem.budget
    both = [*problem.pairs, *((t, s) for s, t in problem.pairs)]
    slack = len(both) * k if delta else 0
    width = k * k + k + slack
    rows: list[FloatArray] = []
    right: list[float] = []

    def add(entries: dict[int, float], most: float = 0.0) -> None:
        row = np.zeros(width)
        for place, value in entries.items():
            row[place] += value
        rows.append(row)
        right.append(most)

    for a in range(k):  # of those who keep their secret
        add({k * k + a: 1.0, a * k + a: -1.0})
    for pair, (s, t) in enumerate(both):
        for b in range(k):
            entries = {s * k + b: 1.0 / sizes[s], t * k + b: -exp(epsilon * share) / sizes[t]}
            if delta:  # what is beyond e^epsilon, by which delta is spent
                entries[k * k + k + pair * k + b] = -1.0
            add(entries)
        if delta:
            start = k * k + k + pair * k
            add(dict.fromkeys(range(start, start + k), 1.0), delta * share)
    if insiders is not None:
        protected = problem.insider_pairs
        for s, t in [*protected, *((t, s) for s, t in protected)]:
            for b in range(k):
                first, second = (k * k + b if each == b else each * k + b for each in (s, t))
                left, against = sizes[s] - (s == b), sizes[t] - (t == b)
                add({first: 1.0 / left, second: -exp(insiders * share) / against})
    return np.array(rows), np.array(right)


def _whole(flows: FloatArray, others: FloatArray, sizes: IntArray) -> Exchange:
    """Return flows in whole parts of a row, with the sizes as margins, exactly.

    All entries are scaled down until no margin is too large, and rounded down; what is lacking, a
    few parts of a row in each margin, is filled in, secret after secret.
    """
    for axis in (1, 0):
        sums = flows.sum(axis=axis, keepdims=True)
        flows = flows * np.minimum(sizes.reshape(sums.shape) / np.maximum(sums, 1e-300), 1.0)
    whole = np.floor(flows * (ROW * (1.0 - 2.0**-44))).astype(np.int64)
    lacking = [sizes * ROW - whole.sum(axis=axis) for axis in (1, 0)]
    ends = [np.cumsum(lacks) for lacks in lacking]
    cuts = np.union1d(*ends)
    amounts = np.diff(cuts, prepend=0)
    sources, targets = (np.searchsorted(lacks, cuts[amounts > 0]) for lacks in ends)
    np.add.at(whole, (sources, targets), amounts[amounts > 0])
    kept = np.minimum(np.rint(others * ROW).astype(np.int64), np.diag(whole))
    return Exchange(sizes, whole, kept, ROW)
