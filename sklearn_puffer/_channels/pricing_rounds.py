"""Whole programs by column generation: moves are added by reduced cost until the gap is closed.

Prices of a program over few moves are wild where little decides them, and so are the moves they
call for. Two remedies: a violation of the budget may be bought, at a price that rises where it is
paid and falls to near what was needed elsewhere; and moves are priced at whatever mean of the last
prices and of the best ones so far gives the best lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_puffer._base import Array, FloatArray, counted, noted
from sklearn_puffer._channels.budget_rows import BudgetRows, Multipliers, budget_rows
from sklearn_puffer._channels.dual import Pricing
from sklearn_puffer._channels.highs import Clock
from sklearn_puffer._channels.problem import ChannelProblem
from sklearn_puffer._channels.restricted import Solved, solve_moves

NEAREST, MORE = 5, 14
"""Moves of a cell to start with; and moves a cell, and an output, in each round."""

ROUNDS = 40

ALL_MOVES = 20_000
"""So few moves are all put into one program."""

_MIXTURES = (0.5, 0.8)
"""How much of the best prices so far is mixed into the last ones."""

_FREE = 4
"""In so many rounds the best prices are those of the last round."""

_UP, _AROUND, _BESIDE = 3.0, 1.5, 0.3
"""A cap that binds rises by a factor; others become some times what was needed, and more."""

_FOR_ROUNDS = 0.7
"""The part of the time that rounds may take; what is left is for the last program."""

_FIRST_CAP = 1.5
"""The first cap, in the same units."""

_USED = 1e-6
"""A share from which on a move is used."""

_KEPT = 0.3
"""Moves of a larger reduced cost are dropped, in what a constant channel costs."""

_PAID = 1e-7
"""A violation paid for that is no more than this part of the cost is rounding."""


@dataclass(frozen=True, eq=False)
class Flows:
    """Moves with their shares, and what every channel costs at least."""

    xs: Array
    ys: Array
    shares: FloatArray
    bound: float


def priced_flows(
    problem: ChannelProblem, sinks: Array, gap: float, clock: Clock, dear: float
) -> Flows | None:
    """Return the flows found; ``sinks`` are the outputs of a constant channel, ``dear`` its cost.

    None where the time was over before anything was found that keeps the budget.
    """
    rounds = _Rounds(problem, sinks, gap, clock, dear)
    n = problem.n_cells
    return rounds.at_once() if n * n <= ALL_MOVES else rounds.by_prices()


@dataclass(frozen=True, eq=False)
class _Rounds:
    problem: ChannelProblem
    sinks: Array
    gap: float
    clock: Clock
    dear: float

    def at_once(self) -> Flows | None:
        """Solve the program over all moves."""
        n, places = self.problem.n_cells, self.problem.places
        xs, ys = np.divmod(np.arange(n * n), n)
        near = slice(None) if places is None else places[xs] == places[ys]
        found = self._solved(xs[near], ys[near], None, self.clock)
        if found is None:
            return None
        bound = Pricing(self.problem, found.multipliers).bound
        return Flows(xs[near], ys[near], found.flows, bound)

    def by_prices(self) -> Flows | None:
        """Add moves in rounds; at the end no violation may be bought any more."""
        xs, ys = self._nearest()
        caps, best, clock = self._first_caps(), None, self.clock.part(_FOR_ROUNDS)
        for turn in counted(iter(range(ROUNDS)), "rounds of a channel for all rows"):
            found = self._solved(xs, ys, caps, clock)
            if found is None:
                break
            chosen = self._chosen(found, best)
            if best is None or turn < _FREE or chosen.bound > best.bound:
                best = chosen
            noted(_gap_in_words(found.cost + found.excess, best.bound))
            if self._is_done(found, best.bound):
                return Flows(xs, ys, found.flows, best.bound)
            caps = self._next_caps(caps, chosen)
            xs, ys = self._next_moves(xs, ys, found.flows, chosen)
        return self._final(xs, ys, best)

    def _final(self, xs: Array, ys: Array, best: Pricing | None) -> Flows | None:
        """Return what keeps the budget over the last moves."""
        found = self._solved(xs, ys, None, self.clock)
        if found is None:
            return None
        last = Pricing(self.problem, found.multipliers).bound
        return Flows(xs, ys, found.flows, last if best is None else max(best.bound, last))

    def _solved(
        self, xs: Array, ys: Array, caps: Sequence[FloatArray] | None, clock: Clock
    ) -> Solved | None:
        return solve_moves(self.problem, xs, ys, caps=caps, time_limit=clock.left)

    def _is_done(self, found: Solved, bound: float) -> bool:
        within = found.cost - bound <= self.gap * found.cost
        return within and found.excess <= _PAID * found.cost

    def _chosen(self, found: Solved, best: Pricing | None) -> Pricing:
        """Return the mixture of prices that has the best bound."""
        last = Pricing(self.problem, found.multipliers)
        if best is None:
            return last
        mixtures = [self._mixed(last, best, share) for share in _MIXTURES]
        return max([last, *mixtures], key=lambda pricing: pricing.bound)

    def _mixed(self, last: Pricing, best: Pricing, share: float) -> Pricing:
        both = zip(best.multipliers, last.multipliers, strict=True)
        return Pricing(self.problem, [one.mixed(other, share) for one, other in both])

    def _nearest(self) -> tuple[Array, Array]:
        """Return the moves to start with: near ones, staying, and a constant channel."""
        none = [
            Multipliers(np.zeros((rows.n_rows, self.problem.n_cells)), np.zeros(rows.n_totals))
            for rows in self._rows
        ]
        _, _, xs, ys = Pricing(self.problem, none).scan(NEAREST)
        return self._with_always(xs, ys)

    def _with_always(self, xs: Array, ys: Array) -> tuple[Array, Array]:
        """Add what keeps the program feasible, and staying."""
        n = self.problem.n_cells
        stays = np.arange(n)
        always = np.concatenate([stays * n + stays, stays * n + self.sinks])
        return np.divmod(np.union1d(xs * n + ys, always), n)

    def _next_moves(
        self, xs: Array, ys: Array, shares: FloatArray, chosen: Pricing
    ) -> tuple[Array, Array]:
        """Keep what is used or nearly worth it, and add what is best."""
        n = self.problem.n_cells
        _, least, *new = chosen.scan(MORE)
        reduced = chosen.along(xs, ys) - least[xs]
        worth = reduced < _KEPT * self.dear * chosen.cell_weights[xs]
        kept = worth | (shares > _USED)
        keys = np.union1d(new[0] * n + new[1], xs[kept] * n + ys[kept])
        return self._with_always(*np.divmod(keys, n))

    @cached_property
    def _rows(self) -> list[BudgetRows]:
        return [budget_rows(self.problem, family) for family in self.problem.families]

    @cached_property
    def _units(self) -> list[FloatArray]:
        """What multipliers of rows are compared to: the cost of all, times the share of a law."""
        shares = [family.masses.sum(axis=1).astype(float) for family in self.problem.families]
        every = zip(self._rows, shares, strict=True)
        return [self.dear * rows.per_row(own / own.sum())[:, None] for rows, own in every]

    def _first_caps(self) -> list[FloatArray]:
        shape = self.problem.n_cells
        return [np.repeat(_FIRST_CAP * unit, shape, axis=1) for unit in self._units]

    def _next_caps(self, caps: list[FloatArray], chosen: Pricing) -> list[FloatArray]:
        """Raise caps that bind, and lower the others to what surrounds the multipliers."""
        every = zip(caps, chosen.multipliers, self._units, strict=True)
        return [
            np.where(own.rows > 0.98 * cap, _UP * cap, _AROUND * own.rows + _BESIDE * unit)
            for cap, own, unit in every
        ]


def _gap_in_words(cost: float, bound: float) -> str:
    return f"gap so far {(cost - bound) / cost:.2%}" if 0.0 < bound <= cost else ""
