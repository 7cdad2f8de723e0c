"""From priors to scales: what each secret pair needs, the noise that gives it, and its proof.

The groups of columns are independent given the secret, so their losses add up, direction by
direction. Within a group a row shows which part it is, so the worst part counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from sklearn_puffer.accounting import MAX_CELLS, LossTable, grid_cells
from sklearn_puffer.bounds import Bound, Relaxed, Strategy, sensitivity, tightest, wasserstein
from sklearn_puffer.calibration import exact, smallest_factor
from sklearn_puffer.frame import Name
from sklearn_puffer.learning import Group, Part
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import PriorPair
from sklearn_puffer.sampling import RELATIVE_ERROR, coarse_enough, grid_step, to_steps

Array = NDArray[Any]
FloatArray = NDArray[np.float64]

# strategies whose bound is a theorem, besides `Relaxed`; `exact` falls back on `tightest`
_PROVEN = (sensitivity, wasserstein, exact)
# what the search leaves for the outward rounding of the certificate's own sums
_ROUNDING = 4e-12


@dataclass(frozen=True, eq=False)
class Plan:
    """The scales of all columns and the losses they leave.

    Attributes
    ----------
    theta, grids : ndarray of shape (n_columns,)
        Scale and grid step of each column; both 0 where the column is released unchanged.
    bound, lower, upper : ndarray of shape (n_pairs, 2)
        The strategy's bound and the interval of the exact loss, forward and backward.
    proven : ndarray of bool of shape (n_pairs,)
        Whether ``upper`` was recomputed; otherwise it is the bound's theorem.
    """

    theta: FloatArray
    grids: FloatArray
    bound: FloatArray
    lower: FloatArray
    upper: FloatArray
    recomputed: Array


def make_plan(
    groups: Sequence[Group],
    n_pairs: int,
    weights: FloatArray,
    whole: Array,
    names: Sequence[Name],
    *,
    notion: Pufferfish,
    strategy: Strategy,
    noise: Noise,
    reach: FloatArray | float = 0.0,
    n_jobs: int | None = None,
) -> Plan:
    """Calibrate the common factor of all scales, put the atoms on the grid, and prove the result.

    Parameters
    ----------
    groups : sequence of Group
    n_pairs : int
        Number of secret pairs; ``Part.owners`` are below it.
    weights : ndarray of shape (n_columns,)
        Proportions of the scales.
    whole : ndarray of bool of shape (n_columns,)
        Columns that are released on whole numbers.
    names : sequence of str or int
        What to call the columns in an error.
    notion, strategy, noise, n_jobs
        As in `PufferfishNoiser`.
    reach : ndarray of shape (n_columns,)
        A bound on |x| over values that no prior of the pairs knows, and that may be released.

    Notes
    -----
    *Formal guarantees.* ``upper`` bounds the loss of the release as drawn, the error of the
    sampler's atoms included.
    """
    solver = _Solver(n_pairs, weights, notion, strategy, noise, n_jobs)
    factor, bounds = solver.solve(groups)
    if factor == 0.0:
        return solver.prove(groups, bounds, 0.0, np.zeros_like(weights))
    unrounded = groups
    ends = np.abs(_ranges(groups, len(weights))).max(axis=0)
    # a column that no pair of secrets shares has no ends
    reach = np.maximum(reach, np.where(np.isfinite(ends), ends, 0.0))
    grids = _grids(factor * weights, whole, reach, names)
    while not _on_grid(groups, grids):
        groups = [[_rounded_part(part, grids) for part in group] for group in unrounded]
        # more noise is never less private, so the larger of the two factors serves the rounded rows
        on_grid, bounds = solver.solve(groups)
        factor = max(factor, on_grid)
        # which may ask for a coarser grid, and the rows for yet another rounding
        grids = _grids(factor * weights, whole, reach, names)
    return solver.prove(groups, bounds, factor, grids)


def sampler_loss(n_columns: int) -> float:
    """Return what the relative error of the sampler's atoms adds to a pure loss, in nats."""
    return n_columns * 2.0 * math.log1p(2.0 * RELATIVE_ERROR / (1.0 - RELATIVE_ERROR))


@dataclass(frozen=True, eq=False)
class _Solver:
    n_pairs: int
    weights: FloatArray
    notion: Pufferfish
    strategy: Strategy
    noise: Noise
    n_jobs: int | None

    def solve(self, groups: Sequence[Group]) -> tuple[float, list[_WorstPart]]:
        bounds = [self._bound(group) for group in groups]
        spare = _ROUNDING * (1.0 + self.notion.budget) + sampler_loss(len(self.weights))
        return smallest_factor(bounds, self.notion.budget - spare), bounds

    def prove(
        self,
        groups: Sequence[Group],
        bounds: Sequence[_WorstPart],
        factor: float,
        grids: FloatArray,
    ) -> Plan:
        bound = np.sum([b.losses(factor) for b in bounds], axis=0)
        lower, upper = np.zeros_like(bound), np.zeros_like(bound)
        recomputed = np.ones(self.n_pairs, dtype=bool)
        for group, of_group in zip(groups, bounds, strict=True):
            low, high, known = self._interval(group, of_group, factor)
            lower, upper, recomputed = lower + low, upper + high, recomputed & known
        lower, upper = _outwards(lower, upper, len(groups))
        if factor > 0.0:
            upper = np.nextafter(upper + sampler_loss(len(self.weights)), np.inf)
        # a column of one value is released as it is; its factor changes no loss
        low, high = _ranges(groups, len(self.weights))
        moving = low < high
        theta = np.where(moving, factor * self.weights, 0.0)
        return Plan(
            theta, np.where(moving, grids, 0.0), bound, np.maximum(lower, 0.0), upper, recomputed
        )

    def _bound(self, group: Group) -> _WorstPart:
        prepared = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self._strategy_of(part))(part.pairs, self._template(part), self.notion)
            for part in group
        )
        return _WorstPart(list(prepared), [part.owners for part in group], self.n_pairs)

    def _strategy_of(self, part: Part) -> Strategy:
        return tightest if self.strategy is exact and not is_exact(part) else self.strategy

    def _template(self, part: Part) -> Noise:
        return self.noise.with_scale(tuple(self.weights[list(part.members)]))

    def _interval(
        self, group: Group, of_group: _WorstPart, factor: float
    ) -> tuple[FloatArray, FloatArray, Array]:
        lower = np.full((self.n_pairs, 2), -np.inf)
        upper = np.full((self.n_pairs, 2), -np.inf)
        recomputed = np.ones(self.n_pairs, dtype=bool)
        for part, bound in zip(group, of_group.bounds, strict=True):
            if is_exact(part):
                low, high = _recompute(part.pairs, self._template(part), factor)
            else:
                low, high = self._marginal_lower(part, factor), self._theorem(part, bound, factor)
                recomputed[part.owners] = False
            np.maximum.at(lower, part.owners, low)
            np.maximum.at(upper, part.owners, high)
        absent = np.isneginf(upper)
        lower[absent], upper[absent] = 0.0, 0.0
        return lower, upper, recomputed

    def _theorem(self, part: Part, bound: Bound, factor: float) -> FloatArray:
        """Return a bound with a proof: no strategy from elsewhere is taken at its word."""
        proven = isinstance(self.strategy, Relaxed) or self.strategy in _PROVEN
        own = bound if proven else tightest(part.pairs, self._template(part), self.notion)
        return own.losses(factor)

    def _marginal_lower(self, part: Part, factor: float) -> FloatArray:
        """Return the largest loss of a single column: dropping columns only loses information."""
        lower = np.zeros((len(part.pairs), 2))
        for axis in range(len(part.members)):
            one = part.marginal(axis)
            np.maximum(lower, _recompute(one.pairs, self._template(one), factor)[0], out=lower)
        return lower


@dataclass(frozen=True, eq=False)
class _WorstPart:
    """The bound of a group: for each secret pair that of its worst part."""

    bounds: list[Bound]
    owners: list[Array]
    n_pairs: int

    @property
    def reach(self) -> float:
        return max((bound.reach for bound in self.bounds), default=0.0)

    def losses(self, factor: float) -> FloatArray:
        worst = np.zeros((self.n_pairs, 2))
        for bound, owners in zip(self.bounds, self.owners, strict=True):
            np.maximum.at(worst, owners, bound.losses(factor))
        return worst


def is_exact(part: Part) -> bool:
    """Return whether the exact loss is computable: in one column always, else up to MAX_CELLS."""
    return len(part.members) == 1 or grid_cells(part.priors()) <= MAX_CELLS


def _recompute(
    pairs: Sequence[PriorPair], template: Noise, factor: float
) -> tuple[FloatArray, FloatArray]:
    table = LossTable(pairs)
    if factor == 0.0:
        return table.without_noise(), table.without_noise()
    return table.intervals(template.scaled(factor))


def _outwards(lower: FloatArray, upper: FloatArray, n_groups: int) -> tuple[FloatArray, FloatArray]:
    """Round sums over groups outwards, and the few operations of a loss without noise."""
    rounding = (n_groups + 8) * 2.0**-52
    low = lower * (1.0 - rounding) - 2.0**-50
    return low, np.where(upper > 0.0, upper * (1.0 + rounding) + 2.0**-50, upper)


def _rounded_part(part: Part, grids: FloatArray) -> Part:
    steps = grids[list(part.members)]
    return part.mapped(lambda prior: prior.moved(_on_steps(prior.rows, steps)), part.members)


def _on_steps(rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Round each column of ``rows`` to whole multiples of its step, half-way up."""
    columns = zip(rows.T, steps, strict=True)
    return np.stack([to_steps(column, step) * step for column, step in columns], axis=1)


def _grids(theta: FloatArray, whole: Array, reach: FloatArray, names: Sequence[Name]) -> FloatArray:
    """Return each column's grid step: as fine as 64 bits allow for its alphabet."""
    columns = zip(theta.tolist(), whole.tolist(), reach.tolist(), names, strict=True)
    return np.array([_grid(*column) for column in columns])


def _grid(theta: float, whole: bool, reach: float, name: Name) -> float:
    try:
        return coarse_enough(grid_step(theta, integer=whole), theta, reach)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _ranges(groups: Sequence[Group], n_columns: int) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest atom of each column among all priors."""
    low, high = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    for group in groups:
        for part in group:
            members = list(part.members)
            for prior in part.priors():
                low[members] = np.minimum(low[members], prior.rows.min(axis=0))
                high[members] = np.maximum(high[members], prior.rows.max(axis=0))
    return low, high


def _on_grid(groups: Sequence[Group], grids: FloatArray) -> bool:
    return all(
        np.array_equal(_on_steps(prior.rows, grids[list(part.members)]), prior.rows)
        for group in groups
        for part in group
        for prior in part.priors()
    )
