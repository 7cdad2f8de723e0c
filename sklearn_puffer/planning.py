"""From priors to scales: what each secret pair needs, the noise that gives it, and its proof.

The groups of columns are independent given the secret, so their losses add up, direction by
direction. Within a group a row shows which part it is, so the worst part counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from sklearn_puffer._bound_types import Impossible
from sklearn_puffer._divergences import Panels
from sklearn_puffer.accounting import LossTable, is_computable
from sklearn_puffer.bounds import (
    Bound,
    Relaxed,
    Strategy,
    approximate,
    distribution_aware,
    sensitivity,
    tightest,
    wasserstein,
)
from sklearn_puffer.calibration import exact, smallest_factor
from sklearn_puffer.composition import compose
from sklearn_puffer.frame import Name
from sklearn_puffer.learning import Group, Part
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, RenyiPufferfish
from sklearn_puffer.priors import Discrete, Prior, PriorPair
from sklearn_puffer.repeats import Repeated, drawn_scales, factor_below, single
from sklearn_puffer.sampling import RELATIVE_ERROR, coarse_enough, grid_step, to_steps

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
# the smallest factor that serves a set of priors, from the problem, the notion that continuous laws
# must keep, the grids (None before there are any), the budget and a tolerance
SetSearch = Callable[[Any, Notion, FloatArray | None, float, float], float]

# strategies whose bound is a theorem, besides `Relaxed`; `exact` falls back on `tightest`
_PROVEN = (sensitivity, wasserstein, approximate, distribution_aware, exact)
# what the search leaves for the outward rounding of the certificate's own sums
_ROUNDING = 4e-12
_TOLERANCE, _COMPOSED = 1e-12, 1e-5
_NUDGES = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)  # what a factor grows by where its proof is that wide
# values off the grid are rounded to it: the noise then hides a move of half a step, whose log
# density ratio is bounded over this many scales; what lies further out has a mass below 1e-800
# under Gaussian noise, and is no steeper under the others
_STEEP_SCALES = 64.0
# panels to be composed are cut until a Renyi divergence of this order is known, but for this delta
_CUT_ALPHA, _CUT_DELTA, _LEAST_CUT_DELTA = 2.0, 1e-3, 1e-300
SPARE = 2e-10  # of epsilon, for the sampler's error of further draws
FINEST = 2.0**-39  # a grid step in scales, where the range does not ask for a coarser one


@dataclass(frozen=True, eq=False)
class Plan:
    """The scales of all columns and the losses they leave.

    Attributes
    ----------
    theta, grids : ndarray of shape (n_columns,)
        Scale and grid step of each column; both 0 where the column is released unchanged.
    together : ndarray of shape (n_columns,)
        Scale at which one release tells at least as much as all releases at theta, where there is
        such a scale (`repeats`); theta itself for one release.
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


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be calibrated.

    Attributes
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
    notion, strategy, n_jobs
        As in `PufferfishNoiser`.
    noise : Noise
        That of all releases together (`repeats.together`).
    reach : ndarray of shape (n_columns,)
        A bound on |x| over values that no prior of the pairs knows, and that may be released.
    sets : callable, optional
        Gives the smallest factor that also serves every prior of a set.
    releases : int
        How often the same rows are released.
    """

    groups: Sequence[Group]
    n_pairs: int
    weights: FloatArray
    whole: Array
    names: Sequence[Name]
    notion: Notion
    strategy: Strategy
    noise: Noise
    reach: FloatArray | float = 0.0
    sets: SetSearch | None = None
    n_jobs: int | None = None
    releases: int = 1

    @property
    def draws(self) -> int:
        """How often each column may be drawn, as far as the sampler's error is paid for.

        More often than it is planned: a ledger may choose more releases, at larger scales.
        """
        each = sampler_loss(len(self.weights))
        if isinstance(self.notion, RenyiPufferfish):
            each = float(self.notion.of_samples(np.zeros(1), each)[0])
        return self.releases + math.floor(SPARE * self.notion.epsilon / each)

    @property
    def drawing_loss(self) -> float:
        """What the sampler's error of all these draws adds to a pure loss, in nats."""
        return sampler_loss(len(self.weights) * self.draws)


def make_plan(problem: Problem) -> Plan:
    """Calibrate the common factor of all scales, put the atoms on the grid, and prove the result.

    Notes
    -----
    *Formal guarantees.* ``upper`` bounds the loss of all releases together, as they are drawn, the
    error of the sampler's atoms and the rounding of values to the grid included.
    """
    drawing = _Drawing(problem)
    ratio = drawing.finest()
    solution = _solve(problem, ratio)
    factor = max(solution.factor, _solve_sets(problem, ratio))
    if factor == 0.0:
        return _prove(problem, solution, 0.0, np.zeros_like(problem.weights))
    plan = _drawn(problem, drawing, solution, factor)
    for more in _NUDGES:
        # computed losses fall with the factor up to the width of their intervals only
        if not 0.0 < plan.upper.max() / problem.notion.budget - 1.0 < _NUDGES[-1]:
            break
        plan = _drawn(problem, drawing, solution, plan.factor * (1.0 + more))
    return plan


def _drawn(problem: Problem, drawing: _Drawing, solution: _Solution, factor: float) -> Plan:
    """Put the atoms on the grid of the noise, at no smaller a factor, and prove the result."""
    groups, grids, ratio = problem.groups, drawing.grids(factor), solution.ratio
    while not (_on_grid(groups, grids) and drawing.loss(groups, factor, grids) <= ratio):
        groups = [[_rounded_part(part, grids) for part in group] for group in problem.groups]
        ratio = max(ratio, drawing.loss(groups, factor, grids))
        # more noise is never less private, so the larger of the two factors serves the rounded rows
        solution = _solve(replace(problem, groups=groups), ratio)
        factor = max(factor, solution.factor, _solve_sets(problem, ratio, grids))
        # which may ask for a coarser grid, and the rows for yet another rounding
        grids = drawing.grids(factor)
    return _prove(replace(problem, groups=groups), solution, factor, grids)


def needed_factor(problem: Problem, tolerance: float) -> float:
    """Return the factor a problem asks for before anything is put on a grid, for comparisons."""
    ratio = _Drawing(problem).finest()
    own = _solve(problem, ratio, tolerance).factor
    return max(own, _solve_sets(problem, ratio, tolerance=tolerance))


def losses_at(
    problem: Problem, notion: Notion, factor: float
) -> tuple[FloatArray, FloatArray, Array]:
    """Return the interval of each pair's loss at a factor, and whether its upper end is exact.

    Nothing is calibrated, and nothing of the drawing included: it is the continuous law's.
    """
    bounds = _Bounds(problem, notion).whole()
    return _Certifier(problem, _Solution(factor, bounds, notion, 0.0)).interval(factor)


def drawing_ratio(
    problem: Problem, groups: Sequence[Group], factor: float, grids: FloatArray
) -> float:
    """Return what drawing on these grids adds to a pure loss, in nats."""
    return _Drawing(problem).loss(groups, factor, grids)


def sampler_loss(n_draws: int) -> float:
    """Return what the relative error of the sampler's atoms adds to a pure loss, in nats.

    A row is as many draws as it has columns, each time it is released.
    """
    return n_draws * 2.0 * math.log1p(2.0 * RELATIVE_ERROR / (1.0 - RELATIVE_ERROR))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """How values and noise meet on the grid of each column."""

    problem: Problem

    def scales(self, factor: float) -> FloatArray:
        """Return the scale that each release of each column is drawn at."""
        problem = self.problem
        return drawn_scales(problem.noise, factor * problem.weights, problem.releases)

    def finest(self) -> float:
        """Return what drawing adds on grids as fine as they can be, whatever the factor."""
        return self.loss(self.problem.groups, 1.0, FINEST * self.scales(1.0))

    def grids(self, factor: float) -> FloatArray:
        """Return each column's grid step: as fine as 64 bits allow for its alphabet."""
        problem = self.problem
        reach = _reach(problem.groups, problem.reach, len(problem.weights))
        theta = self.scales(factor).tolist()
        columns = zip(theta, problem.whole.tolist(), reach.tolist(), problem.names, strict=True)
        return np.array([_grid(*column) for column in columns])

    def loss(self, groups: Sequence[Group], factor: float, grids: FloatArray) -> float:
        """Return what drawing on the grid adds to a pure loss: the sampler's error, and rounding.

        A value off the grid moves by at most half a step, under either secret. Whole numbers are
        on a grid of step 1 or less. Every release has the sampler's error once more; the value is
        rounded once for all of them, and what its rounding changes is seen through the noise of
        all releases together.
        """
        problem = self.problem
        free = {k for group in groups for part in group if part.is_free for k in part.members}
        moved = [k for k in sorted(free) if not (problem.whole[k] and grids[k] <= 1.0)]
        steps = sum(float(grids[k] / (factor * problem.weights[k])) for k in moved)
        # under a Renyi promise the mean lies further out: for Gaussian noise by that many scales
        tilt = math.sqrt(2.0 * getattr(problem.notion, "alpha", 0.0) * problem.notion.epsilon)
        far = _STEEP_SCALES + 2.0 * tilt
        steepest = float(problem.noise.with_scale(1.0).steepest(0.0, far))
        return problem.drawing_loss + steepest * steps


class _Solution(NamedTuple):
    """The factor that the priors ask for, and the bounds it was found with.

    The continuous law keeps the notion ``inner``, and what is drawn the one that was asked for,
    because their probabilities differ by e^ratio at most.
    """

    factor: float
    bounds: list[Any]
    inner: Notion
    ratio: float


def _solve(problem: Problem, ratio: float, tolerance: float = _TOLERANCE) -> _Solution:
    inner = problem.notion.for_law(ratio)
    bounds = _Bounds(problem, inner).whole()
    if any(isinstance(bound, _Composed) for bound in bounds):
        tolerance = max(tolerance, _COMPOSED)  # the composed interval is wider than that
    factor = smallest_factor(bounds, _within(inner), tolerance=tolerance)
    return _Solution(factor, bounds, inner, ratio)


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


def _prove(problem: Problem, solution: _Solution, factor: float, grids: FloatArray) -> Plan:
    bound = np.sum([b.losses(factor) for b in solution.bounds], axis=0)
    certifier = _Certifier(problem, solution)
    lower, upper, recomputed = certifier.interval(factor)
    if problem.releases > 1:
        below = factor_below(problem.noise, solution.inner, problem.releases)
        lower = certifier.interval(below * factor)[0]
    if factor > 0.0:
        upper = np.nextafter(problem.notion.of_samples(upper, solution.ratio), np.inf)
    # a column of one value is released as it is; its factor changes no loss
    moving = _moving(problem.groups, len(problem.weights))
    return Plan(
        theta=np.where(moving, _Drawing(problem).scales(factor), 0.0),
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
class _Bounds:
    """The bounds of a problem under a notion."""

    problem: Problem
    notion: Notion

    def whole(self) -> list[Any]:
        """Return bounds whose sum is the loss of the whole row."""
        groups = self.problem.groups
        if self.notion.adds_up or len(groups) == 1:
            return [self._of_group(group, self.notion) for group in groups]
        shared = [self._of_group(group, self.notion.shared(len(groups))) for group in groups]
        if self.problem.strategy is exact and _composable(self.problem, self.notion):
            return [_Composed(self.problem, self.notion, max(b.guess for b in shared))]
        return shared

    def _of_group(self, group: Group, notion: Notion) -> WorstPart:
        problem = self.problem
        prepared = Parallel(n_jobs=problem.n_jobs, prefer="threads")(
            delayed(self._of_part)(part, notion) for part in group
        )
        return WorstPart(list(prepared), [part.owners for part in group], problem.n_pairs)

    def _of_part(self, part: Part, notion: Notion) -> Bound:
        problem, noise = self.problem, template(self.problem, part)
        if problem.strategy is not exact or _known(problem, part, notion):
            return problem.strategy(part.pairs, noise, notion)
        bound = tightest(part.pairs, noise, notion)
        if isinstance(bound, Impossible):
            return Impossible(
                f"strategy='exact' is not computed for rows of {len(part.members)} columns under "
                f"this noise and notion, and no bound takes its place: {bound.reason}",
                len(part.pairs),
            )
        return bound


@dataclass(frozen=True, eq=False)
class _Certifier:
    """The losses recomputed without the strategy, as far as they are computable."""

    problem: Problem
    solution: _Solution

    def interval(self, factor: float) -> tuple[FloatArray, FloatArray, Array]:
        """Return the interval of the whole row's loss, and whether it was recomputed."""
        problem, inner, n_pairs = self.problem, self.solution.inner, self.problem.n_pairs
        alone = inner.adds_up or len(problem.groups) == 1
        if not alone and _composable(problem, inner):
            lower, upper = _Composed(problem, inner, 1.0).intervals(factor)
            return lower, upper, np.ones(n_pairs, dtype=bool)
        own = inner if alone else inner.shared(len(problem.groups))
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
        return *_outwards(lower, upper, len(problem.groups), inner), recomputed

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
        if _known(self.problem, part, notion):
            low, high = _recompute(part.pairs, template(self.problem, part), notion, factor)
            if not _has_no_exact_loss(notion):
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

    def _theorem(self, part: Part, bound: Bound, factor: float, notion: Notion) -> FloatArray:
        """Return a bound with a proof: no strategy from elsewhere is taken at its word."""
        asked = self.problem.strategy
        proven = isinstance(asked, Relaxed) or asked in _PROVEN
        own = bound if proven else tightest(part.pairs, template(self.problem, part), notion)
        return own.losses(factor)

    def _marginal_lower(self, part: Part, factor: float, notion: Notion) -> FloatArray:
        """Return the largest loss of one release of a single column.

        Dropping columns, or releases, only loses information.
        """
        problem = replace(self.problem, noise=single(self.problem.noise))
        lower = np.zeros((len(part.pairs), 2))
        if len(part.members) == 1 and problem.noise is self.problem.noise:
            return lower  # its loss is not known
        for axis in range(len(part.members)):
            one = part.marginal(axis)
            if _known(problem, one, notion):
                noise = template(problem, one)
                np.maximum(lower, _recompute(one.pairs, noise, notion, factor)[0], out=lower)
        return lower


@dataclass(frozen=True, eq=False)
class WorstPart:
    """The bound of a group: for each secret pair that of its worst part."""

    bounds: list[Any]
    owners: list[Array]
    n_pairs: int

    @property
    def guess(self) -> float:
        """The largest of the parts' guesses."""
        return max((bound.guess for bound in self.bounds), default=1.0)

    @property
    def reason(self) -> str:
        """Why no factor is enough, where that is known."""
        reasons = [getattr(bound, "reason", "") for bound in self.bounds]
        return next((reason for reason in reasons if reason), "")

    def losses(self, factor: float) -> FloatArray:
        """Return the loss of each pair's worst part, shape (n_pairs, 2)."""
        worst = np.zeros((self.n_pairs, 2))
        for bound, owners in zip(self.bounds, self.owners, strict=True):
            np.maximum.at(worst, owners, bound.losses(factor))
        return worst


@dataclass(frozen=True, eq=False)
class _Composed:
    """The loss of independent columns together under a delta, which does not add up."""

    problem: Problem
    notion: Notion
    guess: float

    def losses(self, factor: float) -> FloatArray:
        return self.intervals(factor)[1]

    def intervals(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """Return proven ends of the losses of all pairs, shape (n_pairs, 2) each."""
        lower, upper = np.zeros((2, self.problem.n_pairs, 2))
        panels = self._panels(factor)
        for owner in range(self.problem.n_pairs):
            forward = [of_group[owner] for of_group in panels if owner in of_group]
            if not forward:  # no column is shared by the two secrets
                continue
            for way, parts in enumerate([forward, [each.swapped() for each in forward]]):
                lower[owner, way], upper[owner, way] = compose(parts, self.notion)
        if upper.max() > self.notion.budget:  # tiny deltas may be lost in the panels' roughness
            upper = np.minimum(upper, self._shared(factor))
        return lower, upper

    def _shared(self, factor: float) -> FloatArray:
        """Return upper ends by basic composition: epsilon and delta in equal shares."""
        problem = self.problem
        own = self.notion.shared(len(problem.groups))
        upper = np.zeros((problem.n_pairs, 2))
        for [part] in problem.groups:
            upper[part.owners] += _recompute(part.pairs, template(problem, part), own, factor)[1]
        return _outwards(upper, upper, len(problem.groups), own)[1]

    def _panels(self, factor: float) -> list[dict[int, Panels]]:
        """Return the panels of each group, by secret pair."""
        found = []
        for [part] in self.problem.groups:
            if factor > 0.0:
                noise = template(self.problem, part).scaled(factor)
                panels = LossTable(part.pairs, self._panels_for(part)).panels(noise)
            else:
                panels = [bare_panels(pair) for pair in part.pairs]
            found.append(dict(zip(part.owners.tolist(), panels, strict=True)))
        return found

    def _panels_for(self, part: Part) -> Notion:
        """Return the notion that a part's panels are cut for; any of these is sound.

        A hockey stick is indifferent to losses below epsilon, which add up to more; a Renyi
        divergence is not. With a delta, however small, its panels have bounds that hold for every
        notion; those of two columns have not.
        """
        if len(part.members) > 1:
            return self.notion
        left_out = max(_CUT_DELTA * self.notion.delta, _LEAST_CUT_DELTA)
        return RenyiPufferfish(self.notion.epsilon, _CUT_ALPHA, left_out)


def bare_panels(pair: PriorPair) -> Panels:
    """Return the atoms of two discrete priors as panels: the release without noise."""
    rows, places = np.unique(
        np.concatenate([pair.p.rows, pair.q.rows]), axis=0, return_inverse=True
    )
    p, q = np.zeros((2, len(rows)))
    p[places.ravel()[: len(pair.p.rows)]] = pair.p.probabilities
    q[places.ravel()[len(pair.p.rows) :]] = pair.q.probabilities
    some = (p > 0.0) | (q > 0.0)
    p, q = p[some], q[some]
    with np.errstate(divide="ignore"):
        ratio = np.log(p) - np.log(q)
    error = np.where(np.isfinite(ratio), 2.0**-50 * (1.0 + np.abs(ratio)), 0.0)
    outwards = 1.0 + 2.0**-52  # counts over a total, rounded once
    return Panels(
        p / outwards, p * outwards, q / outwards, q * outwards, ratio - error, ratio + error
    )


def template(problem: Problem, part: Part) -> Noise:
    """Return the noise of a part's columns at factor 1."""
    return problem.noise.with_scale(tuple(problem.weights[list(part.members)]))


def _known(problem: Problem, part: Part, notion: Notion) -> bool:
    """Return whether the exact loss of a part is computable, pair by pair."""
    noise = template(problem, part)
    return not isinstance(noise, Repeated) and all(
        is_computable(pair, noise, notion) for pair in part.pairs
    )


def _composable(problem: Problem, notion: Notion) -> bool:
    """Return whether the groups' panels are known, with and without noise."""
    if _has_no_exact_loss(notion):
        return False
    parts = [part for group in problem.groups for part in group]
    one_each = len(parts) == len(problem.groups)
    return one_each and all(not part.is_free and _known(problem, part, notion) for part in parts)


def _has_no_exact_loss(notion: Notion) -> bool:
    """Whether only upper ends are known: of approximate Renyi privacy, about unnamed events."""
    return not notion.adds_up and notion.budget == notion.epsilon


def _within(notion: Notion) -> float:
    """Return the budget less what the certificate's own roundings may add."""
    spare = notion.budget if notion.budget == notion.delta else 1.0 + notion.budget
    return notion.budget - _ROUNDING * spare


def _recompute(
    pairs: Sequence[PriorPair], template: Noise, notion: Notion, factor: float
) -> tuple[FloatArray, FloatArray]:
    table = LossTable(pairs, notion)
    if factor == 0.0:
        return table.without_noise(), table.without_noise()
    return table.intervals(template.scaled(factor))


def _outwards(
    lower: FloatArray, upper: FloatArray, n_groups: int, notion: Notion
) -> tuple[FloatArray, FloatArray]:
    """Round sums over groups outwards, and the few operations of a loss without noise."""
    rounding = (n_groups + 8) * 2.0**-52
    # a difference of logarithms is off by as much however small; a delta may itself be far smaller
    spare = 2.0**-50 if notion.budget == notion.epsilon else 0.0
    low = lower * (1.0 - rounding) - spare
    return low, np.where(upper > 0.0, upper * (1.0 + rounding) + spare, upper)


def _rounded_part(part: Part, grids: FloatArray) -> Part:
    if part.is_free:
        return part
    steps = grids[list(part.members)]
    return part.mapped(lambda prior: prior.moved(on_steps(prior.rows, steps)), part.members)


def on_steps(rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Round each column of ``rows`` to whole multiples of its step, half-way up."""
    columns = zip(rows.T, steps, strict=True)
    return np.stack([to_steps(column, step) * step for column, step in columns], axis=1)


def _grid(theta: float, whole: bool, reach: float, name: Name) -> float:
    try:
        return coarse_enough(grid_step(theta, integer=whole), theta, reach)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _reach(groups: Sequence[Group], known: FloatArray | float, n_columns: int) -> FloatArray:
    """Return how far from 0 the values of each column may lie."""
    low, high = _ranges(groups, n_columns)
    ends = np.maximum(np.abs(low), np.abs(high))
    # a column that no pair of secrets shares has no ends
    reach: FloatArray = np.maximum(known, np.where(np.isfinite(ends), ends, 0.0))
    return reach


def _ranges(groups: Sequence[Group], n_columns: int) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest atom of each column among all priors.

    Of a mixture: what lies within `_STEEP_SCALES` standard deviations of its means.
    """
    low, high = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    for group in groups:
        for part in group:
            members = list(part.members)
            for prior in part.priors():
                least, most = _ends(prior)
                low[members] = np.minimum(low[members], least)
                high[members] = np.maximum(high[members], most)
    return low, high


def _ends(prior: Prior) -> tuple[FloatArray, FloatArray]:
    if isinstance(prior, Discrete):
        return prior.rows.min(axis=0), prior.rows.max(axis=0)
    spread = _STEEP_SCALES * np.sqrt(np.diagonal(prior.covariances, axis1=1, axis2=2))
    return (prior.rows - spread).min(axis=0), (prior.rows + spread).max(axis=0)


def _moving(groups: Sequence[Group], n_columns: int) -> Array:
    """Return which columns have more than one value: only those need noise."""
    low, high = _ranges(groups, n_columns)
    moving: Array = low < high
    return moving


def _on_grid(groups: Sequence[Group], grids: FloatArray) -> bool:
    return all(
        part.is_free or np.array_equal(on_steps(prior.rows, grids[list(part.members)]), prior.rows)
        for group in groups
        for part in group
        for prior in part.priors()
    )
