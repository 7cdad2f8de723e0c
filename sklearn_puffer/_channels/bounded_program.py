r"""The linear program over laws between bounds, restricted to some moves.

With :math:`W(y|x) = w^+ + v`, where :math:`0 \le w^+` and :math:`0 \le v \le b_y`, every law p of
sum 1 with l <= p <= h has

.. math:: (1 - \textstyle\sum h) b_y + l w^+ + h v \le p \cdot w_y
          \le (1 - \textstyle\sum l) b_y + h w^+ + l v,

since p . w_y = b_y + p . w^+ - p . (b_y - v). (With a floor v = b_y, and w^+ is at most
:math:`(e^\lambda - 1) b_y`.) The upper ends U and the lower ends L must keep the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sklearn_puffer._base import Array, BoolArray, FloatArray
from sklearn_puffer._channels.bounded_problem import BoundedProblem
from sklearn_puffer._channels.highs import solved

Sparse = Any  # scipy's sparse arrays, of any format

_SPARED = 1e-6  # of e^epsilon - 1
_LARGEST = 1e6  # beyond, a solver's tolerance is all that counts, and hardly anything is saved


class BoundedSolved(NamedTuple):
    """An optimum over some moves, and what all others would save.

    Attributes
    ----------
    channel : ndarray of shape (n, m)
    cost : float
    added, kept : ndarray of shape (n, m)
        The reduced costs of w+, and of v (0 with a floor), as if no cap were felt.
    constant : ndarray of shape (m,)
        Those of b, likewise.
    """

    channel: FloatArray
    cost: float
    added: FloatArray
    kept: FloatArray
    constant: FloatArray


@dataclass(frozen=True, eq=False)
class BoundedProgram:
    """The program over some moves of both kinds, masks of shape (n, m).

    With a floor there is no v, and its moves are not looked at.
    """

    bounded: BoundedProblem
    added: BoolArray
    kept: BoolArray

    def solve(self, time_limit: float | None) -> BoundedSolved | None:
        """Return the optimum, or None where none was found in time."""
        unit = float(self.bounded.costs.max()) or 1.0
        most = (self._rows, self._sides)
        equal = (self._sums, np.ones(self._n))
        found = solved(self._objective / unit, most=most, equal=equal, time_limit=time_limit)
        if found is None:
            return None
        reduced = self._reduced(found.eqlin.marginals * unit, -found.ineqlin.marginals * unit)
        return BoundedSolved(self._channel(found.x), found.fun * unit, *reduced)

    @property
    def _n(self) -> int:
        return self.bounded.problem.n_cells

    @property
    def _m(self) -> int:
        return len(self.bounded.outputs)

    @cached_property
    def gain(self) -> float | None:
        """By how much shares may exceed b, as a part of it; None without a floor."""
        return gain_of(self.bounded)

    @property
    def _factor(self) -> float:
        """A little less than e^epsilon, so that tolerances and rounding need no mending."""
        return 1.0 + (min(self.bounded.factor, _LARGEST) - 1.0) * (1.0 - _SPARED)

    @cached_property
    def _moves(self) -> list[tuple[Array, Array]]:
        """From where, and to which place among the outputs, moves of each kind lead."""
        kinds = [self.added] if self.gain is not None else [self.added, self.kept]
        return [(xs, ys) for xs, ys in (kind.nonzero() for kind in kinds)]

    @cached_property
    def _scales(self) -> FloatArray:
        """By what the rows of an output are divided, so that tolerances are small parts of it."""
        scales: FloatArray = self.bounded.upper[:, self.bounded.outputs].max(axis=0)
        return np.where(scales > 0.0, scales, 1.0)

    # --------------------------------------------------- variables: b, w+, (v), U, L, (excesses)

    @cached_property
    def _objective(self) -> FloatArray:
        costs = self.bounded.costs
        constant = np.zeros(self._m) if self.gain is None else costs.sum(axis=0)
        own = np.concatenate([constant, *(costs[moves] for moves in self._moves)])
        return np.concatenate([own, np.zeros(self._rows.shape[1] - own.size)])

    @cached_property
    def _sums(self) -> Sparse:
        """The rows that sum to 1."""
        constant = (
            np.zeros((self._n, self._m)) if self.gain is None else np.ones((self._n, self._m))
        )
        moves = [_incidence(xs, self._n) for xs, _ in self._moves]
        own = sparse.hstack([sparse.csr_array(constant), *moves])
        rest = sparse.csr_array((self._n, self._rows.shape[1] - own.shape[1]))
        return sparse.csr_array(sparse.hstack([own, rest]))

    @cached_property
    def _rows(self) -> Sparse:
        """What must not exceed `_sides`: ends, pairs, caps of moves, and sums of excesses."""
        lower, upper = self.bounded.lower, self.bounded.upper
        one = sparse.eye_array(len(lower) * self._m)
        most = [self._of(bounds, k) for k, bounds in enumerate((upper, lower)[: len(self._moves)])]
        least = [self._of(bounds, k) for k, bounds in enumerate((lower, upper)[: len(self._moves)])]
        first, second = self._pairs
        nothing = [None] * len(self._moves)
        blocks = [
            [self._constant(lower), *most, -one, None],
            [-self._constant(upper), *(-each for each in least), None, one],
            [None, *nothing, first, -self._factor * second],
            self._caps,
        ]
        if self.bounded.problem.delta > 0.0:
            blocks = [[*block, None] for block in blocks]
            blocks[2][-1] = -sparse.eye_array(first.shape[0])
            blocks.append([None] * (len(blocks[0]) - 1) + [self._sum_of_excesses])
        return sparse.csr_array(sparse.block_array(blocks))

    @cached_property
    def _sides(self) -> FloatArray:
        sides = np.zeros(self._rows.shape[0])
        delta = self.bounded.problem.delta
        if delta > 0.0:
            sides[len(sides) - len(self.bounded.pairs) :] = delta
        return sides

    def _parts(self, bounds: FloatArray) -> FloatArray:
        """Return the part of b_y that an end has."""
        return 1.0 - bounds.sum(axis=1) if self.gain is None else np.ones(len(bounds))

    def _constant(self, bounds: FloatArray) -> Sparse:
        """Return what b_y adds to an end of each law and output."""
        outputs = sparse.diags_array(1.0 / self._scales)
        return sparse.csr_array(sparse.kron(self._parts(bounds)[:, None], outputs))

    def _of(self, bounds: FloatArray, kind: int) -> Sparse:
        """Return what each move of a kind adds to an end of each law and output."""
        (xs, ys), k = self._moves[kind], len(bounds)
        rows = (np.arange(k)[:, None] * self._m + ys).ravel()
        values = (bounds[:, xs] / self._scales[ys]).ravel()
        shape = (k * self._m, len(xs))
        return sparse.csr_array((values, (rows, np.tile(np.arange(len(xs)), k))), shape)

    @cached_property
    def _pairs(self) -> tuple[Sparse, Sparse]:
        """The law that is first in each pair, and the second, at each output."""
        outputs, k = sparse.eye_array(self._m), len(self.bounded.lower)
        first, second = (_incidence(laws, k).T for laws in self.bounded.pairs.T)
        return sparse.kron(first, outputs).tocsr(), sparse.kron(second, outputs).tocsr()

    @cached_property
    def _caps(self) -> list[Sparse | None]:
        """Return v <= b, or w+ <= (e^floor - 1) b."""
        own = _incidence(self._moves[-1][1], self._m).T
        times = 1.0 if self.gain is None else self.gain
        between = [None] * (len(self._moves) - 1)
        return [-times * own, *between, sparse.eye_array(own.shape[0]), None, None]

    @cached_property
    def _sum_of_excesses(self) -> Sparse:
        every = sparse.eye_array(len(self.bounded.pairs))
        return sparse.csr_array(sparse.kron(every, self._scales[None]))

    # ---------------------------------------------------------------------------- what was found

    def _channel(self, x: FloatArray) -> FloatArray:
        channel: FloatArray = np.zeros((self._n, self._m))
        if self.gain is not None:
            channel += np.maximum(x[: self._m], 0.0)
        first = self._m
        for moves in self._moves:
            channel[moves] += np.maximum(x[first : first + len(moves[0])], 0.0)
            first += len(moves[0])
        return channel

    def _reduced(
        self, prices: FloatArray, rows: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        lower, upper = self.bounded.lower, self.bounded.upper
        size = lower.shape[0] * self._m
        parts = rows[:size], rows[size : 2 * size]
        a, b = (part.reshape(-1, self._m) / self._scales for part in parts)
        left = self.bounded.costs - prices[:, None]
        constant = self._parts(lower) @ a - self._parts(upper) @ b
        if self.gain is not None:
            constant = constant + left.sum(axis=0)
        kept = np.zeros_like(left) if self.gain is not None else left + lower.T @ a - upper.T @ b
        return left + upper.T @ a - lower.T @ b, kept, constant


def gain_of(bounded: BoundedProblem) -> float | None:
    """Return by how much shares may exceed b, as a part of it; None without a floor."""
    floor = bounded.problem.floor
    return None if floor is None else math.expm1(min(floor * (1.0 - 1e-9), 500.0))


def _incidence(places: Array, n: int) -> Sparse:
    """Return which column is at which of n places."""
    every = np.arange(len(places))
    return sparse.csr_array((np.ones(every.size), (places, every)), (n, every.size))
