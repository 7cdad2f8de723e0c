"""Channels in blocks, solved again across them: for tables too wide or too long for one program.

Each block is solved alone; then the cells are put into other groups, again and again, and each
group is solved with what crosses its border held constant in q_s(y). What was found before is
feasible there, so the cost never rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from sklearn_puffer._base import Array, FloatArray, counted
from sklearn_puffer._channels.blocks import feasible_blocks, mixed_groups, places_of
from sklearn_puffer._channels.budget_rows import Multipliers
from sklearn_puffer._channels.dual import lower_bound
from sklearn_puffer._channels.group_program import Budget, Group, Law, Moves, best_moves, budget_of
from sklearn_puffer._channels.highs import Clock
from sklearn_puffer._channels.problem import ChannelProblem, Found

BLOCK_SIZE = 400
"""Cells of a block to begin with."""

QUICK_SIZE = 100
"""Cells of a block to begin with where there is little time."""

QUICK_TIME = 0.02
"""Less time than so many seconds for each cell and thread is little."""

LARGEST_GROUP = 1500
"""Cells of the largest group that is solved again."""

FACTOR = 2
"""How much larger the first groups are than blocks: they begin with what was found."""

PROGRAM_ROWS = 40_000
"""Rows of the budget in the largest program."""

CONSTANTS = 400
"""Outputs of a block tried for its constant channel."""

WORTH = 0.015
"""A turn that saves a smaller part of the cost is followed by larger groups."""

ENOUGH = 0.005
"""A turn of the largest groups that saves a smaller part is the last one."""

BOUND_CELLS = 20_000
"""Up to so many cells all moves are priced for the lower bound."""

STEP = 0.3
"""How far the multipliers of all turns so far move towards those of the last."""

PARTIAL = 5
"""A group of a part of the cells is solved to a gap so many times larger: it is not the last."""


@dataclass(frozen=True, eq=False)
class Flow:
    """A channel: shares of moves from x to y, sorted; and multipliers (r, n) for each family.

    Those of the last turn are sharp where a group was a whole place, and wild where others send
    much to an output; the means over turns are not.
    """

    xs: Array
    ys: Array
    shares: FloatArray
    multipliers: list[FloatArray] | None = None
    last: list[FloatArray] | None = None


@dataclass(frozen=True, eq=False)
class _Task:
    """A problem, and what is computed of it once."""

    problem: ChannelProblem
    gap: float
    clock: Clock
    n_jobs: int | None

    @cached_property
    def laws(self) -> list[FloatArray]:
        n = self.problem.n_cells
        return [family.over(n) for family in self.problem.families]

    @cached_property
    def budgets(self) -> list[Budget]:
        # a trifle below the budget: rounding of what is found is no reason to repair it
        problem = self.problem
        return [budget_of(f, problem.epsilon - 1e-9, problem.delta) for f in problem.families]

    @cached_property
    def largest(self) -> int:
        """Cells of the largest group: fewer where an output has many rows in a program."""
        families = zip(self.problem.families, self.budgets, strict=True)
        cells = sum(len(b.rows) * (f.masses.shape[1] / self.problem.n_cells) for f, b in families)
        return min(LARGEST_GROUP, max(int(PROGRAM_ROWS / cells), 10))

    def cost(self, flow: Flow) -> float:
        along = self.problem.costs.along(flow.xs, flow.ys)
        return float(self.problem.weights[flow.xs] * along @ flow.shares)


def channel_in_blocks(
    problem: ChannelProblem,
    *,
    gap: float = 1e-3,
    block_size: int | str = "auto",
    clock: Clock | None = None,
    n_jobs: int | None = None,
) -> Found:
    """Return a channel found in blocks, and across them where no floor binds it to blocks."""
    task = _Task(problem, gap, clock or Clock(), n_jobs)
    size = _size_of(task) if isinstance(block_size, str) else block_size
    blocks = feasible_blocks(problem, size)
    flow = _first(task, constant_flow(problem, blocks), blocks, size)
    if problem.floor is None:
        flow = _again(task, flow, FACTOR * size)
        blocks = _labels(problem)
    return _found(task, flow, blocks)


def _size_of(task: _Task) -> int:
    left, threads = task.clock.left, effective_n_jobs(task.n_jobs)
    quick = left is not None and left * threads < QUICK_TIME * task.problem.n_cells
    return min(QUICK_SIZE if quick else BLOCK_SIZE, task.largest)


def constant_flow(problem: ChannelProblem, blocks: Array) -> Flow:
    """Release for all cells of a block one that costs least, of a number of them."""
    n = problem.n_cells
    ys = np.empty(n, dtype=np.intp)
    for block in range(int(blocks.max()) + 1):
        cells = np.flatnonzero(blocks == block)
        some = cells[:: -(-len(cells) // CONSTANTS)]
        costs = problem.weights[cells] @ problem.costs.between(cells, some)
        ys[cells] = some[np.argmin(costs)]
    return Flow(np.arange(n), ys, np.ones(n))


def _first(task: _Task, constant: Flow, blocks: Array, size: int) -> Flow:
    """Solve each block alone; one too large for a program keeps its constant channel at first.

    Then its groups leave that one after the other, each together with the output that all had.
    """
    large = np.bincount(blocks) > max(task.largest, size)
    alone = np.where(large[blocks], -1, blocks)
    flow = constant if large.all() else _turn(task, constant, alone, "blocks of a channel")
    if task.problem.floor is not None or not large.any():
        return flow
    groups = mixed_groups(task.problem, min(BLOCK_SIZE, size), 0)
    pairs = np.unique(np.stack([blocks, groups])[:, large[blocks]], axis=1)
    for block, group in counted(list(pairs.T), "groups of a block"):
        inside = (blocks == block) & (groups == group)
        inside[constant.ys[inside]] = True
        flow = _turn(task, flow, np.where(inside, 0, -1), "group")
    return flow


def _again(task: _Task, flow: Flow, size: int) -> Flow:
    """Solve again in other groups, larger ones where little is won, until nothing is."""
    cost, turn, saved = task.cost(flow), 0, ""
    largest = min(task.largest, task.problem.n_cells)
    size = min(size, largest)
    while not task.clock.is_over and cost > 0:
        turn += 1
        flow = _turn(
            task, flow, mixed_groups(task.problem, size, turn), f"turn {turn} across blocks{saved}"
        )
        before, cost = cost, task.cost(flow)
        saved = f" (the last one saved {(before - cost) / before:.1%})"
        if before - cost > WORTH * before:
            continue
        if size >= largest and before - cost <= ENOUGH * before:
            break
        size = min(2 * size, largest)
    return flow


def _turn(task: _Task, flow: Flow, label: Array, what: str) -> Flow:
    """Solve each group with the rest held; keep what it had where nothing better is found.

    Cells of the label -1 are in no group.
    """
    cross = (label[flow.xs] != label[flow.ys]) | (label[flow.xs] < 0)
    crossing = Flow(flow.xs[cross], flow.ys[cross], flow.shares[cross])
    inner = Flow(flow.xs[~cross], flow.ys[~cross], flow.shares[~cross], flow.multipliers)
    held = [_received(law, crossing) for law in task.laws]
    spares = _spares(task, flow, label)
    members = _members(label)
    parts = _members(label[inner.xs], len(members))
    jobs = (
        delayed(_solve_group)(task, cells, _at(inner, part), held, [s[:, g] for s in spares])
        for g, (cells, part) in enumerate(zip(members, parts, strict=True))
    )
    results = Parallel(n_jobs=task.n_jobs, prefer="threads", return_as="generator")(jobs)
    return _joined(task, flow, crossing, members, list(counted(results, what, len(members))))


def _members(label: Array, count: int | None = None) -> list[Array]:
    """Return where each label is, of which some may be nowhere."""
    order = np.argsort(label, kind="stable")
    order = order[label[order] >= 0]
    count = int(label.max()) + 1 if count is None else count
    return np.split(order, np.searchsorted(label[order], np.arange(1, count)))


def _at(flow: Flow, part: Array) -> Flow:
    return replace(flow, xs=flow.xs[part], ys=flow.ys[part], shares=flow.shares[part])


def _received(law: FloatArray, flow: Flow) -> FloatArray:
    """Return q_s(y), what the outputs receive, for each law."""
    n = law.shape[1]
    return np.stack([np.bincount(flow.ys, row[flow.xs] * flow.shares, n) for row in law])


def _spares(task: _Task, flow: Flow, label: Array) -> list[FloatArray]:
    """Return the excess allowed to each group, per family: what it uses, and part of the rest.

    The rest of delta is shared by p_s(B); groups that mix differently at each turn exchange it.
    """
    if task.problem.delta == 0.0:
        return [np.zeros((0, int(label.max()) + 1)) for _ in task.laws]
    spares = []
    for law, budget, family in zip(task.laws, task.budgets, task.problem.families, strict=True):
        excess = np.maximum(budget.rows @ _received(law, flow), 0.0)
        inside = label >= 0
        used = np.stack([np.bincount(label[inside], row[inside]) for row in excess])
        masses = [law[s, inside] for s, _ in family.ordered_pairs]
        parts = np.stack([np.bincount(label[inside], row) for row in masses])
        left = task.problem.delta * (1 - 1e-9) - excess.sum(axis=1, keepdims=True)
        left = np.maximum(left, 0.0)
        spares.append(used + left * parts)
    return spares


def _solve_group(
    task: _Task, cells: Array, inner: Flow, held: list[FloatArray], spares: list[FloatArray]
) -> Moves:
    """Return the moves of one group, in positions within it; multipliers where they are new."""
    problem, m = task.problem, len(cells)
    xs, ys = np.searchsorted(cells, inner.xs), np.searchsorted(cells, inner.ys)
    costs = problem.costs.between(cells, cells) * problem.weights[cells][:, None]
    now = Moves(xs, ys, inner.shares, float(costs[xs, ys] @ inner.shares))
    if task.clock.is_over or now.cost <= 0.0:
        return now
    used = [i for i, law in enumerate(task.laws) if law[:, cells].any()]
    laws = [
        Law(
            task.laws[i][:, cells],
            task.budgets[i],
            held[i][:, cells],
            spares[i] if problem.delta else None,
        )
        for i in used
    ]
    free = np.bincount(xs, inner.shares, m).astype(np.float64)
    gap = task.gap if m == problem.n_cells else PARTIAL * task.gap
    group = Group(costs, free, laws, problem.floor, gap, task.clock)
    before = inner.multipliers
    known = None if before is None else [before[i][:, cells] for i in used]
    found = best_moves(group, xs * m + ys, known)
    if found is None or found.cost > now.cost:
        return now
    return replace(found, multipliers=_for_all(found.multipliers, used, task, m))


def _for_all(
    multipliers: list[FloatArray], used: Sequence[int], task: _Task, m: int
) -> list[FloatArray]:
    """Return multipliers for every family: 0 where it has no mass in the group."""
    every = [np.zeros((len(budget.rows), m)) for budget in task.budgets]
    for i, own in zip(used, multipliers, strict=True):
        every[i] = own
    return every


def _joined(
    task: _Task, flow: Flow, crossing: Flow, members: list[Array], results: list[Moves]
) -> Flow:
    """Put the groups' moves and what crossed their borders together again."""
    every = [crossing] + [
        Flow(cells[moves.xs], cells[moves.ys], moves.shares)
        for cells, moves in zip(members, results, strict=True)
    ]
    xs = np.concatenate([part.xs for part in every])
    ys = np.concatenate([part.ys for part in every])
    order = np.lexsort((ys, xs))
    shares = np.concatenate([part.shares for part in every])[order]
    mean, last = _moved(task, flow.multipliers, members, results), flow.last
    if any(moves.multipliers for moves in results):
        last = _moved(task, None, members, results)
    return Flow(xs[order], ys[order], shares, mean, last)


def _moved(
    task: _Task, before: list[FloatArray] | None, members: list[Array], results: list[Moves]
) -> list[FloatArray]:
    """Return multipliers moved a step towards the new ones, which they are to begin with."""
    n, step = task.problem.n_cells, 1.0 if before is None else STEP
    old = before or [np.zeros((len(budget.rows), n)) for budget in task.budgets]
    moved = [own.copy() for own in old]
    for cells, moves in zip(members, results, strict=True):
        for every, own in zip(moved, moves.multipliers, strict=False):
            every[:, cells] += step * (own - every[:, cells])
    return moved


def _labels(problem: ChannelProblem) -> Array:
    """Return the place of each cell, counted from 0."""
    return _label(problem.n_cells, places_of(problem))


def _label(n: int, parts: Sequence[Array]) -> Array:
    label = np.zeros(n, dtype=np.intp)
    for number, cells in enumerate(parts):
        label[cells] = number
    return label


def _found(task: _Task, flow: Flow, blocks: Array) -> Found:
    problem = task.problem
    starts = np.searchsorted(flow.xs, np.arange(problem.n_cells + 1)).astype(np.int64)
    return Found(starts, flow.ys.astype(np.int64), flow.shares, blocks, _bound(task, flow))


def _bound(task: _Task, flow: Flow) -> float | None:
    """Return the better lower bound of the multipliers; None where it says nothing."""
    if task.problem.n_cells > BOUND_CELLS or task.clock.is_over:
        return None
    found = [each for each in (flow.multipliers, flow.last) if each is not None]
    bounds = [lower_bound(task.problem, _as_multipliers(task, each)) for each in found]
    best = max(bounds, default=0.0)
    return best if best > 0.0 or task.cost(flow) == 0.0 else None


def _as_multipliers(task: _Task, rows: list[FloatArray]) -> list[Multipliers]:
    """Under delta an excess costs the largest multiplier of its pair."""
    delta = task.problem.delta
    return [Multipliers(own, own.max(axis=1) if delta else own[:0, 0]) for own in rows]
