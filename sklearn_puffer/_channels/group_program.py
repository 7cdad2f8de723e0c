"""The linear program of a group of cells: moves within it, while what others send there is held.

Variables are the shares f of the moves listed, and, where there is a floor, b_y, the share of y in
every row: W(y|x) = b_y + f_xy, f_xy <= (e^floor - 1) b_y. Moves are added by reduced cost, which
is known for all of the group from the prices of its budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import block_array, coo_array, csr_array, eye_array, kron

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels.highs import Clock, asked
from sklearn_puffer._channels.problem import Family

NEAREST = 4
"""Moves of a cell to begin with."""

MOVES = 10
"""Moves added for each cell, and to each cell, in a round."""

ROUNDS = 6
"""Most programs solved for a group."""

TOLERANCE = 1e-9
"""By how much a row of a program may fail, in units of the mean mass of a cell."""


@dataclass(frozen=True, eq=False)
class Budget:
    """What one family asks at each output y: rows . q(y) + middle m(y) <= excess(y).

    Attributes
    ----------
    rows : ndarray of shape (r, k)
        q_s - e^epsilon q_s' for each pair, or bounds by a variable m(y) that lies between.
    middle : ndarray of shape (r,)
        The coefficients of m(y); zeros where there is none.
    """

    rows: FloatArray
    middle: FloatArray

    @property
    def has_middle(self) -> bool:
        """Whether there is a variable m(y)."""
        return bool(self.middle.any())


def budget_of(family: Family, epsilon: float, delta: float) -> Budget:
    """Return q_s <= e^epsilon m and m <= q_s where all pairs are protected, else one row a pair.

    Under delta every ordered pair has an excess of its own: one row each, too.
    """
    k, ratio = len(family.masses), np.exp(epsilon)
    if delta == 0.0 and family.pairs is None:
        middle = np.repeat([-ratio, 1.0], k)
        return Budget(np.concatenate([np.eye(k), -np.eye(k)]), middle)
    pairs = family.ordered_pairs
    rows = np.eye(k)[pairs[:, 0]] - ratio * np.eye(k)[pairs[:, 1]]
    return Budget(rows, np.zeros(len(pairs)))


@dataclass(frozen=True, eq=False)
class Law:
    """One family over the cells of a group."""

    masses: FloatArray  # (k, m): p_s(x)
    budget: Budget
    held: FloatArray  # (k, m): what q_s(y) receives from other cells
    spare: FloatArray | None  # (r,): the excess allowed to the group; None for pure budgets

    @property
    def scale(self) -> float:
        """What makes masses of about 1 of it, so that tolerances have a meaning."""
        return 1.0 / max(float(self.masses.mean()), 1e-300)


@dataclass(frozen=True, eq=False)
class Group:
    """Cells, what moves between them cost, and how much of each cell is free to move."""

    costs: FloatArray  # (m, m): pi(x) c(x, y)
    free: FloatArray  # (m,)
    laws: Sequence[Law]
    floor: float | None = None
    gap: float = 1e-3
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, eq=False)
class Moves:
    """Shares of moves from x to y, what they cost, and the multipliers of each law's budget."""

    xs: Array
    ys: Array
    shares: FloatArray
    cost: float
    multipliers: list[FloatArray] = field(default_factory=list)  # (r, m), not negative


def best_moves(
    group: Group, at: Array, multipliers: Sequence[FloatArray] | None = None
) -> Moves | None:
    """Return the cheapest moves; None if no program was solved.

    ``at`` holds moves x m + y that keep the budget with suitable shares; the multipliers of
    an earlier program say which others to begin with.
    """
    at = np.union1d(at, _cheapest(_with_itself(group.costs), NEAREST))
    if multipliers is not None:
        at = np.union1d(at, _cheapest(_reduced(group, multipliers), MOVES))
    best = None
    for _ in range(ROUNDS):
        moves = None if group.clock.is_over else _solved(group, at)
        if moves is None:
            break
        won = np.inf if best is None else best.cost - moves.cost
        best = moves
        if won <= group.gap * moves.cost:
            break
        new = _improving(group, at, moves)
        if not len(new):
            break
        at = np.union1d(at, new)
    return best


def reduced_costs(
    costs: FloatArray, laws: Iterable[FloatArray], prices: Iterable[FloatArray]
) -> FloatArray:
    """Return pi(x) c(x, y) + sum_s p_s(x) mu_s(y), what a move costs with the budget's price."""
    total = costs.copy()
    for law, price in zip(laws, prices, strict=True):
        total += law.T @ price
    return total


def _reduced(group: Group, multipliers: Sequence[FloatArray]) -> FloatArray:
    pairs = zip(group.laws, multipliers, strict=True)
    prices = [law.budget.rows.T @ own for law, own in pairs]
    return reduced_costs(group.costs, (law.masses for law in group.laws), prices)


def _improving(group: Group, at: Array, moves: Moves) -> Array:
    """Return moves that make the program cheaper; none where they cannot win the gap."""
    m = len(group.free)
    reduced = _reduced(group, moves.multipliers)
    cheapest = np.full(m, np.inf)
    np.minimum.at(cheapest, at // m, reduced.ravel()[at])
    reduced -= cheapest[:, None]
    won = -np.minimum(reduced.min(axis=1), 0.0) @ group.free
    if won <= group.gap * moves.cost / 2:
        return at[:0]
    new = _cheapest(reduced, MOVES)
    return np.setdiff1d(new[reduced.ravel()[new] < 0.0], at)


def _with_itself(costs: FloatArray) -> FloatArray:
    """Put staying first, also where other cells are at no distance."""
    costs = costs.copy()
    np.fill_diagonal(costs, -1.0)
    return costs


def _cheapest(costs: FloatArray, count: int) -> Array:
    """Return the ``count`` cheapest moves from each cell, and to each cell."""
    m = len(costs)
    count, cells = min(count, m), np.arange(m)
    ys = np.argpartition(costs, count - 1, axis=1)[:, :count]
    xs = np.argpartition(costs, count - 1, axis=0)[:count]
    return np.union1d(cells[:, None] * m + ys, xs * m + cells)


def _solved(group: Group, at: Array) -> Moves | None:
    """Solve the program with the moves ``at`` alone."""
    m, n, laws = len(group.free), len(at), group.laws
    xs, ys = at // m, at % m
    unit = float(group.costs[xs, ys].max()) or 1.0
    objective = [group.costs[xs, ys] / unit]
    base: list[Any] = []
    if group.floor is not None:
        objective.append(group.costs.sum(axis=0) / unit)
        base = [csr_array(np.ones((m, m)))]
    extras = [_extra(law, m) for law in laws]
    width = sum(extra.shape[1] for extra in extras)
    rows, limits = _budget_rows(group, xs, ys, extras)
    if group.floor is not None:
        above = csr_array((np.full(n, -np.expm1(group.floor)), (np.arange(n), ys)), (n, m))
        rows.append([eye_array(n), above, *[None] * len(laws)])
        limits.append(np.zeros(n))
    starts = csr_array((np.ones(n), (xs, np.arange(n))), (m, n))
    equal = block_array([[starts, *base, *[csr_array((m, e.shape[1])) for e in extras]]])
    result = asked(
        np.concatenate([*objective, np.zeros(width)]),
        (block_array(rows, format="csc"), np.concatenate(limits)),
        (equal.tocsc(), group.free),
        "highs-ds",
        {"primal_feasibility_tolerance": TOLERANCE, "time_limit": group.clock.left},
    )
    if result.status != 0:
        return None
    multipliers = _multipliers(laws, -unit * result.ineqlin.marginals, m)
    return _moves(group, xs, ys, result.x, multipliers)


def _extra(law: Law, m: int) -> csr_array:
    """Return the columns of m(y), or of the excesses, in the rows of a family's budget."""
    if law.spare is not None:
        return csr_array(-eye_array(len(law.budget.rows) * m))
    if law.budget.has_middle:
        return csr_array(kron(law.budget.middle[:, None], eye_array(m)))
    return csr_array((len(law.budget.rows) * m, 0))


def _budget_rows(
    group: Group, xs: Array, ys: Array, extras: list[csr_array]
) -> tuple[list[list[Any]], list[FloatArray]]:
    """Return the rows of all families, a block for each kind of variable, and their limits."""
    m, n, rows, limits = len(group.free), len(xs), [], []
    spares: list[list[Any]] = []
    for number, law in enumerate(group.laws):
        parts = law.budget.rows @ law.masses * law.scale
        r = len(parts)
        places = (np.arange(r)[:, None] * m + ys).ravel(), np.tile(np.arange(n), r)
        moves = csr_array(coo_array((parts[:, xs].ravel(), places), (r * m, n)))
        moves.eliminate_zeros()
        base = [kron(parts.sum(axis=1)[:, None], eye_array(m))] if group.floor is not None else []
        rows.append([moves, *base, *_only(extras, number, r * m)])
        limits.append(-(law.budget.rows @ law.held * law.scale).ravel())
        if law.spare is not None:
            totals = kron(eye_array(r), np.ones((1, m)))
            empty = [csr_array((r, n)), *([csr_array((r, m))] if base else [])]
            spares.append([*empty, *_only(extras, number, r, totals)])
            limits_of_spare = law.spare * law.scale
            spares[-1].append(limits_of_spare)
    for row in spares:
        limits.append(row.pop())
        rows.append(row)
    return rows, limits


def _only(extras: list[csr_array], number: int, height: int, own: Any = None) -> list[Any]:
    """Return one family's own columns, and nothing in those of the others."""
    own = extras[number] if own is None else own
    return [
        own if i == number else csr_array((height, extra.shape[1]))
        for i, extra in enumerate(extras)
    ]


def _multipliers(laws: Sequence[Law], values: FloatArray, m: int) -> list[FloatArray]:
    """Return the multipliers of each family's rows, in units of its laws."""
    sizes = [len(law.budget.rows) * m for law in laws]
    parts = np.split(values[: sum(sizes)], np.cumsum(sizes)[:-1])
    return [
        np.maximum(part.reshape(-1, m), 0.0) * law.scale
        for law, part in zip(laws, parts, strict=True)
    ]


def _moves(
    group: Group, xs: Array, ys: Array, solution: FloatArray, multipliers: list[FloatArray]
) -> Moves:
    """Read the moves off a solution, and let each row sum to what is free."""
    m, n = len(group.free), len(xs)
    dense = np.zeros((m, m))
    if group.floor is not None:
        dense += np.maximum(solution[n : n + m], 0.0)
    dense[xs, ys] += np.maximum(solution[:n], 0.0)
    sums = dense.sum(axis=1)
    dense *= np.divide(group.free, sums, out=np.zeros(m), where=sums > 0)[:, None]
    at = np.flatnonzero(dense > 1e-13)
    shares = dense.ravel()[at]
    return Moves(at // m, at % m, shares, float(group.costs.ravel()[at] @ shares), multipliers)
