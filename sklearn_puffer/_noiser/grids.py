"""How values and noise meet on the grid of each column, and what that adds to a loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noise import FINEST, Mixing, coarse_enough, grid_step, to_steps
from sklearn_puffer._noiser.conditional_priors import Group, Part
from sklearn_puffer._noiser.problems import Problem
from sklearn_puffer._releases import drawn_scales, factor_below
from sklearn_puffer._tables import Name
from sklearn_puffer.notions import Notion, PowerMean
from sklearn_puffer.priors import Discrete, Prior

# values off the grid are rounded to it: the noise then hides a move of half a step, whose log
# density ratio is bounded over this many scales; what lies further out has a mass below 1e-800
# under Gaussian noise, and is no steeper under the others
_STEEP_SCALES = 64.0


@dataclass(frozen=True, eq=False)
class Grids:
    """How values and noise meet on the grid of each column."""

    problem: Problem

    def scales(self, factor: float) -> FloatArray:
        """Return the scale that each release of each column is drawn at."""
        problem = self.problem
        scales = factor * problem.weights
        return drawn_scales(problem.noise, scales, problem.releases, problem.mixings)

    def below(self, notion: Notion, factor: float) -> float:
        """Return by how much one release has more noise if it tells no more than all of them."""
        problem, scales = self.problem, factor * self.problem.weights
        if not any(problem.mixings) or problem.releases == 1:
            return factor_below(problem.noise, notion, problem.releases)
        # it is one of them
        noisy = scales > 0.0
        ratios = self.scales(factor)[noisy] / scales[noisy]
        return float(ratios.max(initial=1.0)) * (1.0 + 2.0**-50)

    def finest(self) -> float:
        """Return what drawing adds on grids as fine as they can be, whatever the factor."""
        return self.loss(self.problem.groups, 1.0, FINEST * self.scales(1.0))

    def grids(self, factor: float) -> FloatArray:
        """Return each column's grid step: as fine as 64 bits allow for its alphabet.

        It is 0 of a column that stays as it is.
        """
        problem = self.problem
        reach = _reach(problem.groups, problem.reach, len(problem.weights))
        theta = self.scales(factor).tolist()
        columns = zip(theta, problem.whole.tolist(), reach.tolist(), problem.names, strict=True)
        mixed = problem.mixings or (None,) * len(theta)
        return np.array([_step(mix, *column) for mix, column in zip(mixed, columns, strict=True)])

    def loss(self, groups: Sequence[Group], factor: float, grids: FloatArray) -> float:
        """Return what drawing on the grid adds to a pure loss: the sampler's error, and rounding.

        A value off the grid moves by at most half a step, under either secret. Whole numbers are
        on a grid of step 1 or less. Every release has the sampler's error once more; the value is
        rounded once for all of them, and what its rounding changes is seen through the noise of
        all releases together. Rows that count together have all of it each.
        """
        problem = self.problem
        free = {k for group in groups for part in group if part.is_free for k in part.members}
        moved = [k for k in sorted(free) if not (problem.whole[k] and grids[k] <= 1.0)]
        steps = sum(float(grids[k] / (factor * problem.weights[k])) for k in moved)
        # under a Renyi promise the mean lies further out: for Gaussian noise by that many scales
        divergence = problem.notion.divergence
        alpha = divergence.alpha if isinstance(divergence, PowerMean) else 0.0
        tilt = math.sqrt(2.0 * alpha * problem.notion.epsilon)
        far = _STEEP_SCALES + 2.0 * tilt
        steepest = float(problem.noise.with_scale(1.0).steepest(0.0, far))
        return problem.drawing_loss + problem.n_rows * steepest * steps


def on_steps(rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Round each column of ``rows`` to whole multiples of its step, half-way up; 0 changes none."""
    columns = zip(rows.T, steps, strict=True)
    rounded = [to_steps(column, step) * step if step else column for column, step in columns]
    return np.stack(rounded, axis=1)


def rounded_part(part: Part, grids: FloatArray) -> Part:
    """Return a part with the rows of its discrete priors on the grid."""
    if part.is_free:
        return part
    steps = grids[list(part.members)]
    return part.mapped(lambda prior: prior.moved(on_steps(prior.rows, steps)), part.members)


def moving_columns(groups: Sequence[Group], n_columns: int) -> Array:
    """Return which columns have more than one value: only those need noise."""
    low, high = _ranges(groups, n_columns)
    moving: Array = low < high
    return moving


def on_grid(groups: Sequence[Group], grids: FloatArray) -> bool:
    """Return whether all rows of discrete priors lie on the grid."""
    return all(
        part.is_free or np.array_equal(on_steps(prior.rows, grids[list(part.members)]), prior.rows)
        for group in groups
        for part in group
        for prior in part.priors()
    )


def _step(mixing: Mixing | None, theta: float, whole: bool, reach: float, name: Name) -> float:
    if theta == 0.0:
        return 0.0
    return 1.0 if mixing is not None else _grid(theta, whole, reach, name)


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
