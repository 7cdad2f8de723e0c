"""From priors to scales: what each secret pair needs, the noise that gives it, and its proof.

The groups of columns are independent given the secret, so their losses add up, direction by
direction. Within a group a row shows which part it is, so the worst part counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from sklearn_puffer._base import Array, FloatArray, coarse_up, smallest_within
from sklearn_puffer._losses import corner_losses, lumped_lower
from sklearn_puffer._noiser.conditional_priors import Group, Part
from sklearn_puffer._noiser.grids import Grids, moving_columns, on_grid, rounded_part
from sklearn_puffer._noiser.problems import (
    Bounds,
    Composed,
    Problem,
    WorstPart,
    composable,
    known,
    outwards,
    recompute,
    template,
)
from sklearn_puffer._noiser.refusals import refusal_of
from sklearn_puffer._strategies import reason_of
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
from sklearn_puffer.notions import Notion, Supremum
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair

# strategies whose bound is a theorem, besides `Relaxed`; `exact` falls back on `tightest`
_PROVEN = (sensitivity, wasserstein, approximate, distribution_aware, exact)
# what the search leaves for the outward rounding of the certificate's own sums
_ROUNDING = 4e-12
_TOLERANCE, _COMPOSED = 1e-12, 1e-5
_LEAST_TOLERANCE, _LEAST_SHARE = 1e-3, 1e-3
# pairs of secrets whose rows are looked at coarsely: all, or of more a few
_MOST_VIEWS, _FEW_VIEWS = 64, 16
_NUDGES = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)  # what a factor grows by where its proof is that wide


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The scales of all columns and the losses they leave.

    Attributes
    ----------
    theta, grids : ndarray of shape (n_columns,)
        Scale and grid step of each column; both 0 where the column is released unchanged.
    together : ndarray of shape (n_columns,)
        Scale at which one release tells at least as much as all releases at theta; theta itself
        for one release.
    bound, lower, upper : ndarray of shape (n_pairs, 2)
        The strategy's bound and the interval of the exact loss, forward and backward, in the unit
        of the notion.
    recomputed : ndarray of bool of shape (n_pairs,)
        Whether ``upper`` was recomputed; otherwise it is the bound's theorem.
    share : float
        The part of ``theta`` that the priors alone ask for; the rest is for sampling error.
    factor : float
        What the weights were multiplied by.
    groups : sequence of Group
        The laws of what is released, on the grid.
    least : float or None
        Where a theorem stands in for the exact loss: the part of ``theta`` that is surely needed.
    """

    theta: FloatArray
    grids: FloatArray
    together: FloatArray
    bound: FloatArray
    lower: FloatArray
    upper: FloatArray
    recomputed: Array
    share: float
    factor: float
    groups: Sequence[Group]
    least: float | None = None


def find_scales(problem: Problem) -> Calibrated:
    """Calibrate the common factor of all scales, put the atoms on the grid, and prove the result.

    Notes
    -----
    *Formal guarantees.* ``upper`` bounds the loss of all releases together, as they are drawn, the
    error of the sampler's atoms and the rounding of values to the grid included.
    """
    steps = Grids(problem)
    ratio = steps.finest()
    solution = _solve(problem, ratio)
    factor = _canonical(problem, max(solution.factor, _solve_sets(problem, ratio)))
    if factor == 0.0:
        return _prove(problem, solution, 0.0, np.zeros_like(problem.weights))
    calibrated = _drawn(problem, steps, solution, factor)
    for more in _NUDGES:
        # computed losses fall with the factor up to the width of their intervals only
        if not 0.0 < calibrated.upper.max() / problem.notion.budget - 1.0 < _NUDGES[-1]:
            break
        wider = _canonical(problem, calibrated.factor * (1.0 + more))
        calibrated = _drawn(problem, steps, solution, wider)
    return _with_least(problem, solution, calibrated)


def _with_least(problem: Problem, solution: _Solution, calibrated: Calibrated) -> Calibrated:
    """Say how much of the noise is surely needed, where the exact loss was asked for in vain.

    *Formal guarantees.* At ``least`` times theta some lower end is above the budget, and so is the
    loss at every smaller scale. 0 where that is less than a thousandth, if it is so at all.
    """
    if problem.strategy is not exact or calibrated.recomputed.all():
        return calibrated
    certifier = _Certifier(problem, solution)
    steps = Grids(problem)

    def lower(factor: float) -> float:
        return float(certifier.lower(steps.below(solution.inner, factor) * factor).max())

    if lower(_LEAST_SHARE * calibrated.factor) <= problem.notion.budget:
        return replace(calibrated, least=0.0)
    enough = smallest_within(
        lower, problem.notion.budget, 0.7 * calibrated.factor, _LEAST_TOLERANCE
    )
    return replace(
        calibrated, least=min(enough * (1.0 - _LEAST_TOLERANCE) / calibrated.factor, 1.0)
    )


def _drawn(problem: Problem, steps: Grids, solution: _Solution, factor: float) -> Calibrated:
    """Put the atoms on the grid of the noise, at no smaller a factor, and prove the result."""
    groups, grids, ratio = problem.groups, steps.grids(factor), solution.ratio
    while not (on_grid(groups, grids) and steps.loss(groups, factor, grids) <= ratio):
        groups = [[rounded_part(part, grids) for part in group] for group in problem.groups]
        ratio = max(ratio, steps.loss(groups, factor, grids))
        # more noise is never less private, so the larger of the two factors serves the rounded rows
        solution = _solve(replace(problem, groups=groups), ratio)
        needed = max(solution.factor, _solve_sets(problem, ratio, grids))
        factor = max(factor, _canonical(problem, needed))
        # which may ask for a coarser grid, and the rows for yet another rounding
        grids = steps.grids(factor)
    return _prove(replace(problem, groups=groups), solution, factor, grids)


def _canonical(problem: Problem, factor: float) -> float:
    """Return a factor, not below, that is the same on every processor, where that is cheap."""
    return float(coarse_up(factor)) if _is_cheap(problem) else factor


def _is_cheap(problem: Problem) -> bool:
    """Return whether losses are quickly computed once more, at a factor of fewer digits."""
    return isinstance(problem.notion.divergence, Supremum)


def _stated(losses: FloatArray, budget: float) -> FloatArray:
    """Return proven losses, not below, as every processor states them."""
    coarse = coarse_up(losses)
    return np.where(losses <= budget, np.minimum(coarse, budget), coarse)


def needed_factor(problem: Problem, tolerance: float, start: float | None = None) -> float:
    """Return the factor a problem asks for before anything is put on a grid, for comparisons."""
    ratio = Grids(problem).finest()
    own = _solve(problem, ratio, tolerance, start).factor
    return max(own, _solve_sets(problem, ratio, tolerance=tolerance))


def losses_at(
    problem: Problem, notion: Notion, factor: float
) -> tuple[FloatArray, FloatArray, Array]:
    """Return the interval of each pair's loss at a factor, and whether its upper end is exact.

    Nothing is calibrated, and nothing of the drawing included: it is the continuous law's.
    """
    bounds = Bounds(problem, notion).whole()
    return _Certifier(problem, _Solution(factor, bounds, notion, 0.0)).interval(factor)


class _Solution(NamedTuple):
    """The factor that the priors ask for, and the bounds it was found with.

    The continuous law keeps the notion ``inner``, and what is drawn the one that was asked for,
    because their probabilities differ by e^ratio at most.
    """

    factor: float
    bounds: list[Any]
    inner: Notion
    ratio: float


def _solve(
    problem: Problem, ratio: float, tolerance: float = _TOLERANCE, start: float | None = None
) -> _Solution:
    inner = problem.notion.for_law(ratio)
    bounds = Bounds(problem, inner).whole()
    if any(isinstance(bound, Composed) for bound in bounds):
        tolerance = max(tolerance, _COMPOSED)  # the composed interval is wider than that
    if any(map(reason_of, bounds)) and _without_noise(bounds) > _within(inner):
        raise ValueError(refusal_of(problem))
    factor = smallest_factor(bounds, _within(inner), tolerance=tolerance, start=start)
    return _Solution(factor, bounds, inner, ratio)


def _without_noise(bounds: Sequence[Any]) -> float:
    return float(np.sum([bound.losses(0.0) for bound in bounds], axis=0).max())


def _solve_sets(
    problem: Problem,
    ratio: float,
    grids: FloatArray | None = None,
    tolerance: float = _TOLERANCE,
) -> float:
    """Return the smallest factor that serves every prior of the sets."""
    if problem.sets is None:
        return 0.0
    inner = problem.notion.for_law(ratio)
    return problem.sets(problem, inner, grids, _within(inner), tolerance)


def _prove(problem: Problem, solution: _Solution, factor: float, grids: FloatArray) -> Calibrated:
    bound = np.sum([b.losses(factor) for b in solution.bounds], axis=0)
    certifier = _Certifier(problem, solution)
    lower, upper, recomputed = certifier.interval(factor)
    if problem.releases > 1:
        lower = certifier.interval(Grids(problem).below(solution.inner, factor) * factor)[0]
    if factor > 0.0:
        upper = np.nextafter(problem.notion.of_samples(upper, solution.ratio), np.inf)
    if _is_cheap(problem):
        upper = _stated(upper, problem.notion.budget)
    # a column of one value is released as it is; its factor changes no loss
    moving = moving_columns(problem.groups, len(problem.weights))
    return Calibrated(
        theta=np.where(moving, Grids(problem).scales(factor), 0.0),
        grids=np.where(moving, grids, 0.0),
        together=np.where(moving, factor * problem.weights, 0.0),
        bound=bound,
        lower=np.maximum(lower, 0.0),
        upper=upper,
        recomputed=recomputed,
        share=solution.factor / factor if factor > 0.0 else 1.0,
        factor=factor,
        groups=problem.groups,
    )


@dataclass(frozen=True, eq=False)
class _Certifier:
    """The losses recomputed without the strategy, as far as they are computable."""

    problem: Problem
    solution: _Solution

    def interval(self, factor: float) -> tuple[FloatArray, FloatArray, Array]:
        """Return the interval of the whole row's loss, and whether it was recomputed."""
        problem, inner, n_pairs = self.problem, self.solution.inner, self.problem.n_pairs
        alone = inner.adds_up or problem.n_blocks == 1
        if not alone and composable(problem, inner):
            lower, upper = Composed(problem, inner, 1.0).intervals(factor)
            return lower, upper, np.ones(n_pairs, dtype=bool)
        own = inner if alone else inner.shared(problem.n_blocks)
        shares = own != inner
        lower, upper = np.zeros((n_pairs, 2)), np.zeros((n_pairs, 2))
        recomputed = np.ones(n_pairs, dtype=bool)
        for group, bound in zip(problem.groups, self.solution.bounds, strict=True):
            low, high, known = self._of_group(group, bound, factor, own)
            # under a share of epsilon, a group loses more than it does under the whole of it
            low = self._of_group(group, bound, factor, inner)[0] if shares else low
            # where losses do not add up, dropping columns only loses information
            lower = lower + low if inner.adds_up else np.maximum(lower, low)
            upper, recomputed = upper + high, recomputed & known
        n_rows = problem.n_rows
        lower = n_rows * lower if inner.adds_up else lower
        return *outwards(lower, n_rows * upper, problem.n_blocks, inner, n_rows), recomputed

    def lower(self, factor: float) -> FloatArray:
        """Return a lower bound on each pair's loss, that of the largest group, without theorems."""
        lower = np.zeros((self.problem.n_pairs, 2))
        for group in self.problem.groups:
            for part in group:
                low = self._row_lower(part, factor, self.solution.inner)
                np.maximum.at(lower, part.owners, low)
        return self.problem.n_rows * lower if self.solution.inner.adds_up else lower

    def _row_lower(self, part: Part, factor: float, notion: Notion) -> FloatArray:
        if not known(self.problem, part, notion):
            return self._marginal_lower(part, factor, notion)
        return recompute(part.pairs, template(self.problem, part), notion, factor)[0]

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
        if self.problem.hangs_together:  # and one way to do that is independently
            low = self._row_lower(part, factor, notion)
            return low, bound.losses(factor), np.zeros(len(low), dtype=bool)
        if known(self.problem, part, notion):
            low, high = self._exact(part, bound, factor, notion)
            if not notion.leaves_events_out and (
                high.max() <= notion.budget or not self._is_proven
            ):
                return low, high, np.ones(len(low), dtype=bool)
        else:
            low = self._marginal_lower(part, factor, notion)
            high = np.full_like(low, np.inf)
        theorem = self._theorem(part, bound, factor, notion)
        return (
            low,
            np.minimum(high, theorem),
            (high <= theorem).all(axis=1) & np.isfinite(high[:, 0]),
        )

    def _exact(
        self, part: Part, bound: Bound, factor: float, notion: Notion
    ) -> tuple[FloatArray, FloatArray]:
        """Return the exact intervals; `exact` has computed them by the very same code."""
        noise = template(self.problem, part)
        if isinstance(bound, ExactLosses) and (bound.notion, bound.noise) == (notion, noise):
            return bound.intervals(factor)
        return recompute(part.pairs, noise, notion, factor)

    def _theorem(self, part: Part, bound: Bound, factor: float, notion: Notion) -> FloatArray:
        """Return a bound with a proof: no strategy from elsewhere is taken at its word."""
        own = (
            bound if self._is_proven else tightest(part.pairs, template(self.problem, part), notion)
        )
        return own.losses(factor)

    @property
    def _is_proven(self) -> bool:
        asked = self.problem.strategy
        return isinstance(asked, Relaxed) or asked in _PROVEN

    def _marginal_lower(self, part: Part, factor: float, notion: Notion) -> FloatArray:
        """Return the largest loss of a single column, or of a coarse view of all.

        Dropping columns only loses information.
        """
        problem = self.problem
        lower = np.zeros((len(part.pairs), 2))
        some = _far_apart(part.pairs)  # of the others nothing is claimed
        if len(part.members) == 1:
            return lower  # its loss is not known
        for axis in _telling_axes(part):
            one = part.marginal(axis)
            if known(problem, one, notion):
                noise = template(problem, one)
                pairs = [one.pairs[k] for k in some]
                lower[some] = np.maximum(lower[some], recompute(pairs, noise, notion, factor)[0])
        noise = template(problem, part)
        if part.is_free and factor > 0.0 and notion.is_pure and noise.is_exponential:
            used = noise.scaled(factor)
            views = [corner_losses(*_both_mixed(part.pairs[k]), used) for k in some]
            lower[some] = np.maximum(lower[some], views)
        if not part.is_free and factor > 0.0 and not noise.mixings:
            noise = noise.scaled(factor)
            pairs = [part.pairs[k] for k in some]
            views = [lumped_lower(*_both_discrete(pair), noise, notion) for pair in pairs]
            lower[some] = np.maximum(lower[some], views)
        return lower


def _telling_axes(part: Part) -> Sequence[int]:
    """Return all columns; of continuous priors, whose losses are work, the one that tells most."""
    if not part.is_free:
        return range(len(part.members))
    told = np.array(
        [_told(cast(GaussianMixture, p), cast(GaussianMixture, q)) for p, q in part.pairs]
    )
    return [int(told.max(axis=0).argmax())]


def _told(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return twice Bhattacharyya's distance of normal laws with these moments, one a column."""
    (one, v), (other, w) = _moments(p), _moments(q)
    apart: FloatArray = 0.5 * np.square(one - other) / (v + w)
    return apart + np.log(0.5 * (v + w)) - 0.5 * np.log(v) - 0.5 * np.log(w)


def _moments(prior: GaussianMixture) -> tuple[FloatArray, FloatArray]:
    """Return means and variances of the columns."""
    mean = prior.weights @ prior.rows
    within = np.diagonal(prior.covariances, axis1=1, axis2=2)
    return mean, prior.weights @ (within + np.square(prior.rows - mean))


def _far_apart(pairs: Sequence[PriorPair]) -> Array:
    """Return the places of pairs that may lose most: all, or of many those with means far apart."""
    if len(pairs) <= _MOST_VIEWS:
        return np.arange(len(pairs))
    moves = np.array([_mean(p) - _mean(q) for p, q in pairs])
    spread = np.maximum(np.abs(moves).max(axis=0), 1e-300)
    return np.argsort(-np.abs(moves / spread).sum(axis=1), kind="stable")[:_FEW_VIEWS]


def _mean(law: Prior) -> FloatArray:
    return (law.probabilities if isinstance(law, Discrete) else law.weights) @ law.rows


def _both_discrete(pair: PriorPair) -> tuple[Discrete, Discrete]:
    return cast(Discrete, pair.p), cast(Discrete, pair.q)


def _both_mixed(pair: PriorPair) -> tuple[GaussianMixture, GaussianMixture]:
    return cast(GaussianMixture, pair.p), cast(GaussianMixture, pair.q)


def _within(notion: Notion) -> float:
    """Return the budget less what the certificate's own roundings may add."""
    spare = notion.budget if notion.is_chance else 1.0 + notion.budget
    return notion.budget - _ROUNDING * spare
