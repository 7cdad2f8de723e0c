"""From priors to scales: the noise that every secret pair needs, and its proof.

Groups of columns are independent given the secret, so that their losses add up, direction by
direction. A row shows one part of a group (the columns that are present), so that the worst part
counts. Proportions of the columns' scales, and refusals where no scale is enough, are here, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noiser.priors import Group, Part, on_steps
from sklearn_puffer._noiser.problem import (
    Bounds,
    Composed,
    Problem,
    WorstPart,
    composable,
    has_exact_loss,
    outwards,
    recompute,
    template,
)
from sklearn_puffer._numerics import coarse_up
from sklearn_puffer._strategies import of_pair, reason_of
from sklearn_puffer._words import listed, quoted
from sklearn_puffer.bounds import (
    Bound,
    Relaxed,
    approximate,
    distribution_aware,
    sensitivity,
    tightest,
    wasserstein,
)
from sklearn_puffer.calibration import ExactLosses, exact, smallest_factor
from sklearn_puffer.notions import Notion

# strategies whose bound is a theorem, besides `Relaxed`; `exact` falls back on `tightest`
_PROVEN = (sensitivity, wasserstein, approximate, distribution_aware, exact)
# margin that the search leaves for the outward rounding of the certificate's sums
_ROUNDING = 4e-12
_TOLERANCE, _COMPOSED = 1e-12, 1e-5
_OVER_SETS = 1e-4  # where losses over sets of priors are not exact
# relative growth of a factor whose recomputed loss is just above the budget: intervals of losses
# over boxes have a relative width of a thousandth
_NUDGES = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The scales of all columns, and their losses."""

    # scale and grid step of each column; both 0 where the column is released unchanged; shape
    # (n_columns,)
    theta: FloatArray
    grids: FloatArray
    # scale at which one release loses at least as much as all releases at theta, which is theta
    # itself for a single one; shape (n_columns,)
    together: FloatArray
    # the strategy's bound and the interval of the exact loss, forward and backward, in the unit of
    # the notion; shape (n_pairs, 2)
    bound: FloatArray
    lower: FloatArray
    upper: FloatArray
    # whether ``upper`` was recomputed; otherwise it is the bound's theorem; shape (n_pairs,)
    recomputed: Array
    share: float  # the part of ``theta`` that the priors need; the rest is for sampling error
    factor: float  # the factor of the weights
    sets: Sequence[Group]  # the confidence sets that the noise serves, on the grid


def find_scales(problem: Problem) -> Calibrated:
    """Calibrate the common factor of all scales, put the atoms on the grid, and prove the result.

    Notes
    -----
    *Formal guarantees.* ``upper`` bounds the loss of all releases together, as they are drawn, the
    error of the sampler's atoms and the rounding of values to the grid included.
    """
    ratio = problem.finest()
    solution = _solve(problem, ratio)
    factor = _canonical(problem, max(solution.factor, _solve_sets(problem, ratio)))
    if factor == 0.0:
        return _prove(solution, 0.0, np.zeros_like(problem.weights))
    calibrated = _drawn(solution, factor)
    for more in _NUDGES:
        # computed losses fall with the factor up to the width of their intervals only
        if not 0.0 < calibrated.upper.max() / problem.notion.budget - 1.0 < _NUDGES[-1]:
            break
        wider = _canonical(problem, calibrated.factor * (1.0 + more))
        calibrated = _drawn(solution, wider)
    return calibrated


def _drawn(solution: Solution, factor: float) -> Calibrated:
    """Put the atoms on the grid of the noise, at no smaller a factor, and prove the result."""
    problem = solution.problem
    grids, ratio = problem.grids(factor), solution.ratio
    while not (
        _on_grid(solution.problem, grids)
        and problem.grid_loss(factor, grids, problem.free) <= ratio
    ):
        drawn = rounded(problem, grids)
        ratio = max(ratio, problem.grid_loss(factor, grids, problem.free))
        # more noise is never less private, so the larger of the two factors serves the rounded rows
        solution = _solve(drawn, ratio)
        factor = max(factor, _canonical(problem, max(solution.factor, _solve_sets(drawn, ratio))))
        # a larger factor may need a coarser grid, and the rows another rounding
        grids = problem.grids(factor)
    return _prove(solution, factor, grids)


def rounded(problem: Problem, grids: FloatArray) -> Problem:
    """Return the problem with all atoms on the grid."""
    groups = [[part.rounded(grids) for part in group] for group in problem.groups]
    sets = [[part.rounded(grids) for part in group] for group in problem.sets]
    return replace(problem, groups=groups, sets=sets)


def _on_grid(problem: Problem, grids: FloatArray) -> bool:
    """Return whether all rows of discrete priors lie on the grid."""
    return all(
        part.is_free or np.array_equal(on_steps(prior.rows, grids[list(part.members)]), prior.rows)
        for group in problem.groups
        for part in group
        for prior in part.priors
    )


def _canonical(problem: Problem, factor: float) -> float:
    """Round the factor up to digits that are the same on every processor, where that is cheap."""
    return float(coarse_up(factor)) if problem.notion.is_pure else factor


@dataclass(frozen=True, eq=False)
class Solution:
    """The factor that the priors need, and the losses, recomputed as far as they are computable.

    The continuous distribution keeps the notion ``inner``, and so draws keep the problem's: their
    probabilities differ by e^ratio at most. The ``bounds`` are the strategy's.
    """

    problem: Problem
    factor: float
    bounds: list[Any]
    inner: Notion
    ratio: float

    def interval(self, factor: float) -> tuple[FloatArray, FloatArray, Array]:
        """Return the interval of the whole row's loss, and whether it was recomputed."""
        problem, inner, n_pairs = self.problem, self.inner, self.problem.n_pairs
        alone = inner.adds_up or problem.n_blocks == 1
        if not alone and composable(problem, inner):
            lower, upper = Composed(problem, inner, 1.0).intervals(factor)
            return lower, upper, np.ones(n_pairs, dtype=bool)
        notion = inner if alone else inner.shared(problem.n_blocks)
        shares = notion != inner
        lower, upper = np.zeros((n_pairs, 2)), np.zeros((n_pairs, 2))
        recomputed = np.ones(n_pairs, dtype=bool)
        for group, bound in zip(problem.groups, self.bounds, strict=True):
            low, high, known = self._of_group(group, bound, factor, notion)
            # a group has a larger loss under a share of epsilon than under all of it
            low = self._of_group(group, bound, factor, inner)[0] if shares else low
            # where losses do not add up, dropping columns only loses information
            lower = lower + low if inner.adds_up else np.maximum(lower, low)
            upper, recomputed = upper + high, recomputed & known
        n_rows = problem.n_rows
        lower = n_rows * lower if inner.adds_up else lower
        return *outwards(lower, n_rows * upper, problem.n_blocks, inner, n_rows), recomputed

    def as_drawn(self, factor: float) -> tuple[FloatArray, FloatArray, Array]:
        """Return the same of all releases together, as they are drawn.

        One release at their joint scale has upper ends for all of them, but no lower ones.
        """
        problem = self.problem
        lower, upper, recomputed = self.interval(factor)
        if problem.releases > 1:
            lower = self.interval(problem.below(self.inner, factor) * factor)[0]
        if factor > 0.0 < self.ratio:
            upper = np.nextafter(problem.notion.of_samples(upper, self.ratio), np.inf)
        return np.maximum(lower, 0.0), upper, recomputed

    def _of_group(
        self, group: Group, of_group: WorstPart, factor: float, notion: Notion
    ) -> tuple[FloatArray, FloatArray, Array]:
        lower, upper = np.full((2, self.problem.n_pairs, 2), -np.inf)
        recomputed = np.ones(self.problem.n_pairs, dtype=bool)
        for part, bound in zip(group, of_group.bounds, strict=True):
            low, high, known = self._of_part(part, bound, factor, notion)
            recomputed[part.owners] &= known
            np.maximum.at(lower, part.owners, low)
            np.maximum.at(upper, part.owners, high)
        absent = np.isneginf(upper)
        lower[absent], upper[absent] = 0.0, 0.0
        return lower, upper, recomputed

    def _of_part(
        self, part: Part, bound: Bound, factor: float, notion: Notion
    ) -> tuple[FloatArray, FloatArray, Array]:
        """Return the interval of each pair, and whether its upper end was recomputed."""
        if self.problem.rows_dependent:  # which includes independent rows
            low = self._lower(part, factor, notion)
            return low, bound.losses(factor), np.zeros(len(low), dtype=bool)
        if has_exact_loss(self.problem, part, notion):
            noise = template(self.problem, part)
            if isinstance(bound, ExactLosses) and (bound.notion, bound.noise) == (notion, noise):
                low, high = bound.intervals(factor)
            else:
                low, high = recompute(part.pairs, noise, notion, factor)
            if high.max() <= notion.budget or not self._is_proven:
                return low, high, np.ones(len(low), dtype=bool)
        else:
            low = self._lower(part, factor, notion)
            high = np.full_like(low, np.inf)
        if not self._is_proven:  # a strategy of the caller's own is not trusted
            bound = tightest(part.pairs, template(self.problem, part), notion)
        theorem = bound.losses(factor)
        recomputed = (high <= theorem).all(axis=1) & np.isfinite(high[:, 0])
        return low, np.minimum(high, theorem), recomputed

    @property
    def _is_proven(self) -> bool:
        return isinstance(self.problem.strategy, Relaxed) or self.problem.strategy in _PROVEN

    def _lower(self, part: Part, factor: float, notion: Notion) -> FloatArray:
        """Return a lower bound on each loss: itself, or that of the column that tells most.

        Dropping columns only loses information. It is 0 where no such loss is computable.
        """
        lower = np.zeros((len(part.pairs), 2))
        columns = (part.marginal(axis) for axis in range(len(part.members)))
        for seen in [part] if has_exact_loss(self.problem, part, notion) else columns:
            if has_exact_loss(self.problem, seen, notion):
                noise = template(self.problem, seen)
                lower = np.maximum(lower, recompute(seen.pairs, noise, notion, factor)[0])
        return lower


def _solve(problem: Problem, ratio: float) -> Solution:
    inner = problem.notion.for_distribution(ratio)
    bounds, tolerance = Bounds(problem, inner).whole(), _TOLERANCE
    if any(isinstance(bound, Composed) for bound in bounds):
        tolerance = _COMPOSED  # the composed interval is wider than that
    if any(map(reason_of, bounds)):
        without_noise = np.sum([bound.losses(0.0) for bound in bounds], axis=0).max()
        if without_noise > _within(inner):
            raise ValueError(refusal_of(problem))
    factor = smallest_factor(bounds, _within(inner), tolerance=tolerance)
    return Solution(problem, factor, bounds, inner, ratio)


_USED_UP = (
    "epsilon={0.epsilon:g} leaves nothing of delta={0.delta:g}, as what is set aside for rounding "
    "grows with epsilon; take at most 10, beyond which nothing is guaranteed in effect."
)


def refusal_of(problem: Problem) -> str:
    """Return the refusal: which secrets have no bound in which columns, why, and the way out."""
    bounds, notion = Bounds(problem, problem.notion), problem.notion
    shared = notion if notion.adds_up else notion.shared(problem.n_blocks)
    for part in (part for group in problem.groups for part in group):
        for k, pair in enumerate(part.pairs):
            alone = Part(part.members, [pair], part.owners[k : k + 1])
            reason, owner = reason_of(bounds.of_part(alone, shared)), int(part.owners[k])
            if not reason:
                continue
            columns, secrets = [problem.names[k] for k in part.members], f"secret pair {owner}"
            if owner < len(problem.secret_pairs):
                told = problem.secret_pairs[owner]
                values = f"{quoted(told.secret)} and {quoted(told.against)}"
                secrets = f"secrets {values} of {quoted(told.sensitive)}"
            return of_pair(reason, f"{secrets} in column(s) {listed(columns, len(columns))}")
    return next(filter(None, map(reason_of, bounds.whole())), _USED_UP.format(notion))


def _solve_sets(problem: Problem, ratio: float) -> float:
    """Return the smallest factor that serves every prior of the confidence sets."""
    if not problem.sets:
        return 0.0
    inner = problem.notion.for_distribution(ratio)
    bounds, tolerance = Bounds(problem, inner).over_sets(), _TOLERANCE
    if not exact_over_sets(problem, bounds):
        # integrals over the sets have bounds of that width: a finer search would follow their steps
        tolerance = _OVER_SETS
    tolerance = max(tolerance, *(bound.tolerance for bound in bounds))
    return smallest_factor(bounds, _within(inner), tolerance=tolerance)


def exact_over_sets(problem: Problem, bounds: Sequence[WorstPart]) -> bool:
    """Return whether bounds over confidence sets are the worst losses themselves."""
    alone = problem.notion.adds_up or len(problem.sets) == 1
    return alone and all(part.exact for bound in bounds for part in bound.bounds)


def _prove(solution: Solution, factor: float, grids: FloatArray) -> Calibrated:
    problem = solution.problem
    bound = np.sum([b.losses(factor) for b in solution.bounds], axis=0)
    lower, upper, recomputed = solution.as_drawn(factor)
    if problem.notion.is_pure:  # rounded up to digits that are the same on every processor
        coarse, budget = coarse_up(upper), problem.notion.budget
        upper = np.where(upper <= budget, np.minimum(coarse, budget), coarse)
    # a column of one value is released as it is, and changes no loss
    return Calibrated(
        theta=np.where(problem.moving, problem.scales(factor), 0.0),
        grids=np.where(problem.moving, grids, 0.0),
        together=np.where(problem.moving, factor * problem.weights, 0.0),
        bound=bound,
        lower=lower,
        upper=upper,
        recomputed=recomputed,
        share=solution.factor / factor if factor > 0.0 else 1.0,
        factor=factor,
        sets=problem.sets,
    )


def _within(notion: Notion) -> float:
    """Return the budget less what the roundings of the certificate may add."""
    spare = notion.budget if notion.is_chance else 1.0 + notion.budget
    return notion.budget - _ROUNDING * spare


def weighted(problem: Problem, weights: Mapping[Any, float] | str) -> Problem:
    """Return the problem, which has the spreads for weights, with the proportions asked for.

    Raises
    ------
    ValueError
        If a mapping names a column that is not public, or leaves one out.
    """
    if not isinstance(weights, Mapping):
        return problem
    names, noisy = list(problem.names), [bool(weight) for weight in problem.weights]
    strange = [name for name in weights if name not in names]
    lacking = [n for n, needs in zip(names, noisy, strict=True) if needs and n not in weights]
    if strange or lacking:
        what = f"names {strange[0]!r}, which is not public" if strange else f"lacks {lacking[0]!r}"
        raise ValueError(f"weights {what}; give a positive number for each of {listed(names, 10)}.")
    named = zip(names, noisy, strict=True)
    return replace(
        problem, weights=np.array([float(weights[name]) if needs else 0.0 for name, needs in named])
    )
