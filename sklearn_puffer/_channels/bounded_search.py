"""Finding a channel for all laws between bounds: rounds of a program over promising moves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray
from sklearn_puffer._channels.bounded_problem import BoundedProblem
from sklearn_puffer._channels.bounded_program import BoundedProgram, BoundedSolved, gain_of
from sklearn_puffer._channels.highs import Clock

_NEAREST = 4
_PRICED = 6  # moves a round, of each cell and to each output
_LITTLE = 0.05  # of the cost
_OUTPUTS = 4  # whose b is let in at once; twice as many after each round that saves little
_STALLS = 5


def find_bounded(
    bounded: BoundedProblem, *, gap: float = 1e-3, time_limit: float | None = None
) -> FloatArray:
    """Return a channel of shape (n, m) that changes little; nothing of it is to be believed.

    Parameters
    ----------
    bounded : BoundedProblem
    gap : float, optional
        Rounds that save less, as a part of the cost, are the last ones.
    time_limit : float, optional
        Seconds after which the best channel so far is returned; the constant one where there is
        none.
    """
    clock = Clock.of(time_limit)
    best: FloatArray = np.zeros(bounded.costs.shape)
    best[:, bounded.sink] = 1.0
    added, kept = _first_moves(bounded)
    gain, before, stalls = gain_of(bounded), math.inf, 0
    while stalls < _STALLS:
        found = None if clock.is_over else BoundedProgram(bounded, added, kept).solve(clock.left)
        if found is None:
            break
        best, saved = found.channel, _to_save(found, gain)
        stalls = stalls + 1 if before - found.cost <= gap * found.cost else 0
        before = found.cost
        early = stalls == 0 and saved.rows.sum() > _LITTLE * found.cost
        more = _promising(found, gain, 0 if early else _OUTPUTS << stalls)
        if saved.sum() <= gap * found.cost or not ((more & ~np.array([added, kept])).any()):
            break
        added, kept = added | more[0], kept | more[1]
    return best


def _first_moves(bounded: BoundedProblem) -> tuple[BoolArray, BoolArray]:
    """Return the moves to near outputs, and those to the one that is cheapest for all."""
    costs = bounded.costs / bounded.problem.weights[:, None]
    n_near = min(_NEAREST, costs.shape[1])
    near = np.argpartition(costs, n_near - 1, axis=1)[:, :n_near]
    added, kept = np.zeros((2, *costs.shape), dtype=bool)
    np.put_along_axis(added, near, True, axis=1)
    kept[:, bounded.sink] = added[:, bounded.sink] = True
    return added, kept


class _ToSave(NamedTuple):
    """What moves might save at most: each row sums to 1, and no b is above 1."""

    rows: FloatArray
    outputs: FloatArray

    def sum(self) -> float:
        """Return what all moves together might save."""
        return float(self.rows.sum() + self.outputs.sum())


def _to_save(found: BoundedSolved, gain: float | None) -> _ToSave:
    """Return what is to save; a move that is capped by b pays for what it makes of b."""
    capped, times = (found.kept, 1.0) if gain is None else (found.added, gain)
    paid = found.constant + times * np.minimum(capped, 0.0).sum(axis=0)
    free = found.added.min(axis=1) if gain is None else np.zeros(len(capped))
    return _ToSave(-np.minimum(free, 0.0), -np.minimum(paid, 0.0))


def _promising(found: BoundedSolved, gain: float | None, n_outputs: int) -> BoolArray:
    """Return the moves of both kinds that may save something, shape (2, n, m).

    Those that are capped by b only of the few outputs where that would save most.
    """
    least = 1e-9 * max(found.cost, 1e-12) / len(found.added)
    saved = _to_save(found, gain).outputs
    outputs = saved > least
    outputs[np.argsort(-saved)[n_outputs:]] = False
    chosen = np.zeros((2, *found.added.shape), dtype=bool)
    if gain is not None:
        chosen[0] = (found.added < 0.0) & outputs
        return chosen
    for axis in (0, 1):
        n_best = min(_PRICED, found.added.shape[axis])
        best = np.argpartition(found.added, n_best - 1, axis=axis)
        np.put_along_axis(chosen[0], best.take(np.arange(n_best), axis=axis), True, axis=axis)
    chosen[0] &= found.added < -least
    chosen[1] = (found.kept < 0.0) & outputs
    return chosen
