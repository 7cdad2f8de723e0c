"""What is calibrated: groups of columns, their bounds, and the exact losses of their parts.

Also here: the grid of each column, and the groups that are too wide for the exact loss. The number
of bins that is named for these is computed from the alphabets alone.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._certificates import factor_below, mixing_scale, scale_for_releases
from sklearn_puffer._codes import Column
from sklearn_puffer._losses import (
    MOST_VALUES,
    LossTable,
    Panels,
    all_computable,
    bare_panels,
    compose,
    kept_axes,
    layer_count,
    on_others,
    pairs_given_kept,
    plane_cells,
)
from sklearn_puffer._noise import (
    FINEST,
    SPARE,
    MixedNoise,
    Mixing,
    Unchanged,
    coarse_enough,
    grid_step,
    sampler_loss,
)
from sklearn_puffer._noiser.priors import Group, Part, SecretPair
from sklearn_puffer._numerics import ULP
from sklearn_puffer._rows import RowGroups
from sklearn_puffer._sets import SetLosses
from sklearn_puffer._strategies import Impossible, dependent_rows, reason_of
from sklearn_puffer._tables import Name
from sklearn_puffer.accounting import MAX_CELLS, is_computable
from sklearn_puffer.bounds import Bound, Strategy, tightest
from sklearn_puffer.calibration import bound_of, exact
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

# limit of the work on boxes: square roots of numbers of cells, summed over pairs; ten seconds
MOST_WORK = 1200.0
# limit of lines: one for each combination of categories, summed over pairs
MOST_LINES = 200
# limit of values of unchanged columns, summed over pairs
MOST_PLACES = 2000
_MOST_DRAWS = 2.0**62  # finite whatever epsilon is
# A value off the grid is rounded to it, and moves by half a step. The log density ratio of that is
# bounded over this many scales: beyond, Gaussian noise has a mass below 1e-800, and others are no
# steeper.
_STEEP_SCALES = 64.0


@dataclass(frozen=True, eq=False)
class Problem:
    """A calibration problem."""

    groups: Sequence[Group]
    n_pairs: int  # number of secret pairs; ``Part.owners`` are below it
    # proportions of the scales; 0 of a column that stays as it is; shape (n_columns,)
    weights: FloatArray
    whole: Array  # columns that are released on whole numbers; shape (n_columns,)
    names: Sequence[Name]  # what to call the columns in an error
    # as in `PufferfishNoiser`
    notion: Notion
    strategy: Strategy
    noise: Noise  # its scales are those of all releases together
    # a bound on |x| over the values that may be released, beside those of the priors; shape
    # (n_columns,)
    reach: FloatArray | float = 0.0
    # confidence sets of the secrets whose every prior is to be served; empty without any
    sets: Sequence[Group] = ()
    n_jobs: int | None = None
    releases: int = 1  # how often the same rows are released
    # what to call the secret pairs in an error, where they have names
    secret_pairs: Sequence[SecretPair] = ()
    # one a column: what an unordered one is redrawn from, None for one of numbers; or empty
    mixings: tuple[Mixing | None, ...] = ()
    # rows that share their secret, whose losses add up; None where each row counts by itself
    row_groups: RowGroups | None = None

    @property
    def n_rows(self) -> int:
        """How many rows share their secret at most."""
        return 1 if self.row_groups is None else self.row_groups.max_group or 1

    @property
    def n_blocks(self) -> int:
        """The number of independent groups of columns, over all these rows."""
        return self.n_rows * len(self.groups)

    @property
    def rows_dependent(self) -> bool:
        """Whether rows that share their secret may depend on each other in any way."""
        groups = self.row_groups
        return self.n_rows > 1 and groups is not None and groups.within_group == "any"

    @property
    def draws(self) -> int:
        """How many draws of each column the sampler's error is paid for.

        More than ``releases``: a ledger may choose more of them, at larger scales.
        """
        share = self.notion.spent_on(sampler_loss(len(self.weights) * self.n_rows))
        return self.releases + math.floor(min(SPARE * self.notion.epsilon / share, _MOST_DRAWS))

    @property
    def drawing_loss(self) -> float:
        """What the sampler's error of all these draws adds to a pure loss, in nats."""
        return sampler_loss(len(self.weights) * self.n_rows * self.draws)

    @cached_property
    def free(self) -> list[int]:
        """The columns with continuous priors, in which any number may occur."""
        parts = [part for group in self.groups for part in group if part.is_free]
        return sorted({k for part in parts for k in part.members})

    @property
    def moving(self) -> Array:
        """Which columns have more than one value: only those need noise."""
        return np.asarray(self._ranges[0] < self._ranges[1])

    @cached_property
    def _ranges(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest atom of each column among all priors.

        Of a mixture these are the ends of `_STEEP_SCALES` standard deviations around its means.
        """
        low, high = np.full(len(self.weights), np.inf), np.full(len(self.weights), -np.inf)
        for part in (part for group in self.groups for part in group):
            members = list(part.members)
            for prior in part.priors:
                spread: Any = 0.0
                if not isinstance(prior, Discrete):
                    variances = np.diagonal(prior.covariances, axis1=1, axis2=2)
                    spread = _STEEP_SCALES * np.sqrt(variances)
                low[members] = np.minimum(low[members], (prior.rows - spread).min(axis=0))
                high[members] = np.maximum(high[members], (prior.rows + spread).max(axis=0))
        return low, high

    @property
    def kept(self) -> list[int]:
        """The columns that stay as they are, as side information."""
        return [k for k, mixing in enumerate(self.mixings) if isinstance(mixing, Unchanged)]

    def scales(self, factor: float) -> FloatArray:
        """Return the scale of each column in a single release."""
        return drawn_scales(self.noise, factor * self.weights, self.releases, self.mixings)

    def below(self, notion: Notion, factor: float) -> float:
        """Return the factor on the noise at which one release loses no more than all of them."""
        scales = factor * self.weights
        if not any(self.mixings) or self.releases == 1:
            return factor_below(self.noise, notion, self.releases)
        # a single release at its own scale is one of them
        noisy = scales > 0.0
        ratios = self.scales(factor)[noisy] / scales[noisy]
        return float(ratios.max(initial=1.0)) * (1.0 + 2.0**-50)

    def grids(self, factor: float) -> FloatArray:
        """Return each column's grid step: as fine as 64 bits allow for its alphabet.

        A column that stays as it is has step 0.
        """
        ends = np.maximum(*map(np.abs, self._ranges))
        # a column of which no pair of secrets has priors has no ends
        reach = np.maximum(self.reach, np.where(np.isfinite(ends), ends, 0.0))
        scales = self.scales(factor)
        grids = np.asarray(scales != 0.0, dtype=float)  # 1 of an unordered column
        for k, theta in enumerate(scales.tolist()):
            if theta != 0.0 and not (self.mixings and self.mixings[k]):
                try:
                    step = grid_step(theta, integer=bool(self.whole[k]))
                    grids[k] = coarse_enough(step, theta, float(reach[k]))
                except ValueError as error:
                    raise ValueError(f"column {self.names[k]!r}: {error}") from None
        return grids

    def finest(self) -> float:
        """Return what drawing adds to a pure loss on the finest grids, whatever the factor."""
        return self.grid_loss(1.0, FINEST * self.scales(1.0), self.free)

    def grid_loss(self, factor: float, grids: FloatArray, free: Sequence[int]) -> float:
        """Return what drawing on the grid adds to a pure loss: the sampler's error, and rounding.

        A value of a free column that is off the grid moves by at most half a step, under either
        secret. Whole numbers are on a grid of step 1 or less. The sampler's error counts once for
        every release. The value is rounded once for all releases, so that rounding counts under the
        noise of all of them. Both count for each row that shares the secret.
        """
        moved = [k for k in free if not (self.whole[k] and grids[k] <= 1.0)]
        steps = sum(float(grids[k] / (factor * self.weights[k])) for k in moved)
        # a Renyi divergence weighs the tails more: the mean lies this many Gaussian scales further
        divergence = self.notion.divergence
        alpha = divergence.alpha if isinstance(divergence, PowerMean) else 0.0
        far = _STEEP_SCALES + 2.0 * math.sqrt(2.0 * alpha * self.notion.epsilon)
        steepest = float(self.noise.with_scale(1.0).steepest(0.0, far))
        return self.drawing_loss + self.n_rows * steepest * steps


Mixings = Sequence[Mixing | None]
"""What each unordered column is redrawn from, None for one of numbers; empty without any."""


def template(problem: Problem, part: Part) -> Noise:
    """Return the noise of a part's columns at factor 1."""
    return noise_of(problem.noise, problem.mixings, part.members, problem.weights)


def noise_of(noise: Noise, mixings: Mixings, members: Sequence[int], weights: FloatArray) -> Noise:
    """Return the noise of some columns at factor 1, with the mixings of those without an order."""
    of_members = tuple(mixings[k] for k in members) if mixings else ()
    scales = weights[list(members)]
    scaled = noise.with_scale(tuple(np.where(scales > 0.0, scales, 1.0)))
    return MixedNoise(scaled, of_members) if any(of_members) else scaled


def has_exact_loss(problem: Problem, part: Part, notion: Notion) -> bool:
    """Return whether the exact losses of a part are computable in reasonable time."""
    noise = template(problem, part)
    return all_computable(part.pairs, noise, notion) and (
        part.is_free
        or (noise.has_vertices and notion.is_pure)  # losses at the vertices of a grid cost little
        or _is_little(part.pairs, noise, notion)
    )


def _is_little(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> bool:
    """Return whether exact losses of discrete priors take some ten seconds at most."""
    axes = kept_axes(noise.mixings)
    if axes:
        others = on_others(noise, pairs[0].p.n_axes)
        placed = pairs_given_kept(cast(Any, pairs), axes)
        return len(placed) <= MOST_PLACES and (not placed or _is_little(placed, others, notion))
    if any(noise.mixings):
        return layer_count(pairs, noise) <= MOST_LINES
    # boxes are cut four times as often under Renyi
    most = MOST_WORK / (4.0 if isinstance(notion.divergence, PowerMean) else 1.0)
    cells = (plane_cells(cast(Sequence[Discrete], pair)) for pair in pairs)
    return sum(min(math.sqrt(n), 64.0 + math.sqrt(n) / 8.0) for n in cells) <= most


def composable(problem: Problem, notion: Notion) -> bool:
    """Return whether losses of the groups compose by their panels."""
    if any(len(group) != 1 for group in problem.groups):
        return False
    if problem.rows_dependent:  # panels compose for rows that are independent given the secret
        return False
    return all(
        not part.is_free and has_exact_loss(problem, part, notion) for [part] in problem.groups
    )


def recompute(
    pairs: Sequence[PriorPair], template: Noise, notion: Notion, factor: float
) -> tuple[FloatArray, FloatArray]:
    """Return the interval of each pair's exact loss at a factor."""
    table = LossTable(pairs, notion)
    if factor == 0.0:
        return table.without_noise(), table.without_noise()
    return table.intervals(template.scaled(factor))


def outwards(
    lower: FloatArray, upper: FloatArray, n_groups: int, notion: Notion, n_rows: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Round outwards sums over groups, and the losses without noise of rows."""
    rounding = (n_groups + 8) * ULP
    # the error of a difference of logarithms is absolute; a delta may itself be far smaller
    spare = 0.0 if notion.is_chance else n_rows * 2.0**-50
    low = lower * (1.0 - rounding) - spare
    return low, np.where(upper > 0.0, upper * (1.0 + rounding) + spare, upper)


@dataclass(frozen=True, eq=False)
class Bounds:
    """The bounds of a problem under a notion."""

    problem: Problem
    notion: Notion

    def whole(self) -> list[Any]:
        """Return bounds whose sum bounds the loss of the whole row, or of all rows of a group."""
        groups, n_blocks = self.problem.groups, self.problem.n_blocks
        if self.notion.adds_up or n_blocks == 1:
            return [self._of_group(group, self.notion) for group in groups]
        shared: list[Any] = [
            self._of_group(group, self.notion.shared(n_blocks)) for group in groups
        ]
        if not composable(self.problem, self.notion):
            return shared  # the certificate would not recompute anything else
        if self.problem.strategy is exact:
            return [Composed(self.problem, self.notion, max(b.guess for b in shared))]
        divergence = self.notion.divergence
        # a pure epsilon needs no delta; a pure loss of 0 needs endless noise
        if isinstance(divergence, HockeyStick) and divergence.epsilon > 0.0:
            pure = [self._of_group(group, Pufferfish(divergence.epsilon)) for group in groups]
            if not any(map(reason_of, pure)):
                return [OrPure(shared, pure, divergence.epsilon)]
        return shared

    def over_sets(self) -> list[WorstPart]:
        """Return bounds over the confidence sets whose sum bounds the loss of the whole row."""
        problem, notion = self.problem, self.notion
        if not notion.adds_up:
            notion = notion.shared(len(problem.sets))
        return [
            WorstPart(
                [SetLosses(part.pairs, template(problem, part), notion) for part in group],
                [part.owners for part in group],
                problem.n_pairs,
            )
            for group in problem.sets
        ]

    def _of_group(self, group: Group, notion: Notion) -> WorstPart:
        problem = self.problem
        prepared = Parallel(n_jobs=problem.n_jobs, require="sharedmem")(
            delayed(self.of_part)(part, notion) for part in group
        )
        owners = [part.owners for part in group]
        return WorstPart(list(prepared), owners, problem.n_pairs, problem.n_rows)

    def of_part(self, part: Part, notion: Notion) -> Bound:
        """Return the bound of a part's pairs; it may be `Impossible`."""
        problem, noise = self.problem, template(self.problem, part)
        if problem.rows_dependent:
            return dependent_rows(part.pairs, noise, notion, problem.n_rows)
        if problem.strategy is not exact or has_exact_loss(problem, part, notion):
            return bound_of(problem.strategy, part.pairs, noise, notion)
        bound = tightest(part.pairs, noise, notion)
        if isinstance(bound, Impossible):
            return Impossible(
                f"strategy='exact' is not computed for these priors of {len(part.members)} "
                f"column(s) under {type(noise).__name__} noise and {notion!r}, and no bound takes "
                f"its place: "
                f"{bound.reason}",
                len(part.pairs),
            )
        return bound


@dataclass(frozen=True, eq=False)
class WorstPart:
    """The bound of a group of columns: for each secret pair that of its worst part, times the rows.

    Losses of rows add up as those of groups of columns do: rows are independent given the secret,
    or their bound allows for dependence.
    """

    bounds: list[Any]
    owners: list[Array]
    n_pairs: int
    n_rows: int = 1

    @property
    def guess(self) -> float:
        """The largest of the parts' guesses."""
        return self.n_rows * max((bound.guess for bound in self.bounds), default=1.0)

    @property
    def reason(self) -> str:
        """Why no factor is enough, where that is known."""
        return next(filter(None, map(reason_of, self.bounds)), "")

    @property
    def one_by_one(self) -> bool:
        """Whether a pair costs as much alone as among the others."""
        return any(getattr(bound, "one_by_one", False) for bound in self.bounds)

    @property
    def distances(self) -> FloatArray:
        """The approximate distance of each pair's priors: the most distant is searched first."""
        distances = np.zeros(self.n_pairs)
        for bound, owners in zip(self.bounds, self.owners, strict=True):
            if hasattr(bound, "distances"):
                np.maximum.at(distances, owners, bound.distances)
        return distances

    @property
    def tolerance(self) -> float:
        """The relative width at which a search over factors may stop."""
        return max((getattr(bound, "tolerance", 0.0) for bound in self.bounds), default=0.0)

    def of_pair(self, k: int, factor: float, budget: float | None) -> FloatArray:
        """Return the loss of one pair's worst part, shape (2,), as `ExactLosses` does."""
        worst, share = np.zeros(2), None if budget is None else budget / self.n_rows
        for part, (bound, owners) in enumerate(zip(self.bounds, self.owners, strict=True)):
            apart = getattr(bound, "one_by_one", False)
            for index in np.flatnonzero(owners == k).tolist():
                if not apart and self._last.get(part, (None,))[0] != factor:
                    self._last[part] = factor, bound.losses(factor)
                of_row = (
                    bound.of_pair(index, factor, share) if apart else self._last[part][1][index]
                )
                worst = np.maximum(worst, of_row)
        return self.n_rows * worst

    @cached_property
    def _last(self) -> dict[int, Any]:
        """The last factor and its losses, of each part whose pairs are computed together."""
        return {}

    def losses(self, factor: float) -> FloatArray:
        """Return the loss of each pair's worst part, shape (n_pairs, 2)."""
        worst = np.zeros((self.n_pairs, 2))
        for bound, owners in zip(self.bounds, self.owners, strict=True):
            np.maximum.at(worst, owners, bound.losses(factor))
        return self.n_rows * worst


@dataclass(frozen=True, eq=False)
class OrPure:
    """Bounds of independent groups: equal shares of epsilon and delta, or a pure epsilon.

    Equal shares may need more noise than a pure epsilon, where the losses of the groups differ.
    """

    shared: Sequence[WorstPart]
    pure: Sequence[WorstPart]
    epsilon: float

    @property
    def guess(self) -> float:
        """The smaller guess of the two."""
        return min(max(b.guess for b in self.shared), sum(b.guess for b in self.pure))

    def losses(self, factor: float) -> FloatArray:
        """Return 0 where pure losses add up to at most epsilon, else the sum of the shares."""
        total: FloatArray = np.sum([bound.losses(factor) for bound in self.shared], axis=0)
        pure = np.sum([bound.losses(factor) for bound in self.pure], axis=0)
        spare = 1e-11 * (1.0 + self.epsilon)  # for the certificate's own sums
        return np.where(pure <= self.epsilon - spare, 0.0, total)


@dataclass(frozen=True, eq=False)
class Composed:
    """The loss of independent columns together under a delta, which does not add up."""

    problem: Problem
    notion: Notion
    guess: float

    def losses(self, factor: float) -> FloatArray:
        """Return upper ends of the losses of all pairs, shape (n_pairs, 2)."""
        return self.intervals(factor)[1]

    def intervals(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """Return proven ends of the losses of all pairs, shape (n_pairs, 2) each."""
        lower, upper = np.zeros((2, self.problem.n_pairs, 2))
        panels = self._panels(factor)
        for owner in range(self.problem.n_pairs):
            forward = [of_group[owner] for of_group in panels if owner in of_group]
            if not forward:  # no column is shared by the two secrets
                continue
            for way, parts in enumerate([forward, [panels.swapped() for panels in forward]]):
                ends = compose(parts * self.problem.n_rows, self.notion)
                lower[owner, way], upper[owner, way] = ends
        if upper.max() > self.notion.budget:  # panels may be too coarse for tiny deltas
            # basic composition: epsilon and delta in equal shares
            problem, notion = self.problem, self.notion.shared(self.problem.n_blocks)
            sums = np.zeros_like(upper)
            for [part] in problem.groups:
                noise = template(problem, part)
                sums[part.owners] += recompute(part.pairs, noise, notion, factor)[1]
            shared = outwards(sums, problem.n_rows * sums, problem.n_blocks, notion)[1]
            upper = np.minimum(upper, shared)
        return lower, upper

    def _panels(self, factor: float) -> list[dict[int, Panels]]:
        """Return the panels of each group, by secret pair."""
        of_groups = []
        for [part] in self.problem.groups:
            if factor > 0.0:
                noise = template(self.problem, part).scaled(factor)
                panels = LossTable(part.pairs, self.notion).panels(noise)
            else:
                panels = [bare_panels(*cast(Any, pair)) for pair in part.pairs]
            of_groups.append(dict(zip(part.owners.tolist(), panels, strict=True)))
        return of_groups


def cells_of(columns: Sequence[Column]) -> int:
    """Return how many cells the joint grid of columns has."""
    return prod(len(column.atoms) for column in columns)


def too_wide(columns: Sequence[Column]) -> bool:
    """Return whether the joint grid has more cells than the exact loss is computed on."""
    return len(columns) > 1 and not columns[0].free and cells_of(columns) > MAX_CELLS


def exact_bins(columns: Sequence[Column], noise: Noise, notion: Notion) -> int:
    """Return the largest number of bins for which the loss is exact; 0 where none is known."""
    n, numbers = len(columns), ("float", "integer")
    most = MAX_CELLS
    if not (noise.has_vertices and notion.is_pure):  # two numbers are, and few values of each
        row = Discrete(np.array([[0.0] * n, [1.0] * n]), np.array([0.5, 0.5]))
        known = is_computable([row, row], noise.with_scale((1.0,) * n), notion)
        if not known or any(column.kind not in numbers for column in columns):
            return 0  # however small the grid
        most = MOST_VALUES + 1

    def size(column: Column, n_bins: int) -> int:
        if column.kind in numbers and column.merged:
            return n_bins  # the number of values before binning is not known here
        n_atoms = len(column.atoms)
        return min(n_bins, n_atoms) if column.kind in numbers else n_atoms

    grids = range(2, most)
    bins = bisect_right(grids, MAX_CELLS, key=lambda n: prod(size(c, n) for c in columns))
    return bins + 1 if bins else 0


def drawn_scales(
    noise: Noise, scales: FloatArray, releases: int, mixings: Mixings = ()
) -> FloatArray:
    r"""Return the scales of each of several releases that together are as one at ``scales``.

    Those of unordered columns, which have a mixing, are -log(1 - rho).

    Notes
    -----
    *Formal guarantees.* :math:`k/\theta \le 1/s`, for Gaussian noise
    :math:`k/\theta^2 \le 1/s^2`, holds exactly between the floats.

    Examples
    --------
    >>> from sklearn_puffer.noise import Gaussian, Laplace
    >>> drawn_scales(Laplace(), np.array([2.0]), 3).tolist()
    [6.0]
    >>> drawn_scales(Gaussian(), np.array([1.0]), 4).tolist()
    [2.0]
    """
    if releases == 1:
        return scales
    power = cast(int, noise.precision_power)
    return np.array(
        [
            mixing_scale(mixing.least, scale, releases)
            if mixing is not None
            else scale_for_releases(scale, releases, power)
            for scale, mixing in zip(scales.tolist(), mixings or [None] * len(scales), strict=True)
        ]
    )
