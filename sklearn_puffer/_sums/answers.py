r"""From users to the noise of their sum: the parameters, the scale of each answer, and its losses.

Several answers from the same reports are as one answer at the scale s, where precisions add up
(`repeats`): that one is calibrated and certified, and each of k is drawn at k s. The sampler's
error is paid for every answer, and the rounding of the sum to the grid once, seen through noise of
scale s.
"""

# The unit of an answer is a float, and so are the scales on record: s is rounded up in that unit,
# k s up from there, and what is drawn, in steps, is no less noise than what is on record.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, rounded_up
from sklearn_puffer._noise import FINEST, coarse_enough, grid_step, sampler_loss
from sklearn_puffer._releases import factor_below, scale_for_releases
from sklearn_puffer._sums.secrets import Asked
from sklearn_puffer._sums.settings import CONDITIONS, SumSettings
from sklearn_puffer._tables import Name
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish

_SLACK = 1e-13  # of the budget, for the roundings between a calibration and its certificate
_SLACK_OF_DELTA = 1e-9
_HARDLY, _NUDGES = 1.0 + 1e-4, (1e-12, 1e-10, 1e-8, 1e-6, 1e-5)  # where that is not enough


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses at a scale, for each pair in both directions, shape (n_pairs, 2): nats, or deltas.

    ``lower`` and ``upper`` hold the loss for the given users, the largest over who of the others is
    present, and ``worst`` is a bound over all other users. ``recomputed`` says of each pair whether
    that interval is the loss itself, and not only a bound on it.
    """

    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    recomputed: BoolArray


class SumOfUsers(Protocol):
    """All users and the pairs of secrets that are asked for, whatever kind of laws they have."""

    @property
    def asked(self) -> list[Asked]:
        """The pairs of secrets."""

    @property
    def whole(self) -> bool:
        """Whether sums are whole numbers of steps."""

    @property
    def bounded(self) -> bool:
        """Whether the losses of classes may be bounds only."""

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale, in steps, of every condition that applies."""

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return what is lost with noise of a scale in steps."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The noise, in steps, and what is lost with it.

    Attributes
    ----------
    together : float
        Scale of one answer that tells at least as much as all answers.
    theta : float
        Scale that each answer is drawn at; 0 where no noise is needed.
    grid : float
        Step of the grid of the noise.
    unit : float
        What a step is worth in an answer.
    drawing : float
        What drawing all answers adds to a pure loss.
    scales : dict
        What each condition asks for, for one answer.
    settings : SumSettings
    losses : Losses
        Of one answer at ``together``, under `SumSettings.notion_for_law`.
    """

    together: float
    theta: float
    grid: float
    unit: float
    drawing: float
    scales: dict[str, float]
    settings: SumSettings
    losses: Losses

    @property
    def certified(self) -> float:
        """``together`` in the unit of an answer, rounded up."""
        return rounded_up(Fraction(self.together) * Fraction(self.unit))

    @property
    def each(self) -> float:
        """Scale of each answer in its unit: no more than that of the noise that is drawn."""
        return scale_for_releases(self.certified, self.settings.releases)

    @property
    def loss(self) -> float:
        """Proven upper end of the loss for the given users."""
        return self.of_samples(float(self.losses.upper.max()))

    @property
    def worst(self) -> float:
        """A bound on the loss over all other users."""
        return self.of_samples(float(self.losses.worst.max()))

    @property
    def is_hardly_above(self) -> bool:
        """Whether a loss exceeds the budget by no more than the width of its interval."""
        budget, losses = self.settings.notion.budget, [self.loss]
        if self.settings.strategy != "exact":  # most of the others promise the worst case too
            losses.append(self.worst)
        return any(budget < loss < budget * _HARDLY for loss in losses)

    @property
    def asked(self) -> dict[Name, float]:
        """What each condition asks for, in steps, for each of several answers."""
        k = self.settings.releases
        return {
            name: scale_for_releases(scale, k) if scale < math.inf else scale
            for name, scale in self.scales.items()
        }

    def of_samples(self, loss: float) -> float:
        """Return what a loss of the continuous law is at most for the answers as drawn."""
        if loss == 0.0 and self.theta == 0.0:
            return 0.0
        samples = self.settings.notion.of_samples(np.array(loss), self.drawing)
        return math.nextafter(float(samples), math.inf)


def answers_about(system: SumOfUsers, settings: SumSettings, reach: float, unit: float) -> Answers:
    """Calibrate the noise, choose the grid it is drawn on, and recompute the loss.

    Parameters
    ----------
    system : SumOfUsers
    settings : SumSettings
    reach : float
        A bound, in steps, on the sum.
    unit : float
        What a step is worth in an answer.
    """
    sampled = sampler_loss(settings.draws)
    drawing = sampled if system.whole else sampled + 1.01 * FINEST * settings.releases
    while True:
        inner = settings.notion_for_law(drawing)
        scales = system.scales(_target(inner), exact=settings.strategy == "exact")
        least = _chosen(scales, settings)
        if least == 0.0:
            losses = system.losses(0.0, settings.notion)
            return Answers(0.0, 0.0, 0.0, unit, 0.0, scales, settings, losses)
        for more in (0.0, *_NUDGES):
            together = least * (1.0 + more)
            theta = _drawn(together, unit, settings.releases)
            grid = coarse_enough(grid_step(theta), theta, reach)
            added = sampled + _of_rounding(grid, together, system.whole)
            losses = system.losses(together, inner)
            answers = Answers(together, theta, grid, unit, added, scales, settings, losses)
            if not answers.is_hardly_above:
                break
        if added <= drawing:
            return _with_lower_ends(answers, system)
        drawing = 2.0 * added


def _target(inner: Pufferfish) -> Pufferfish:
    if inner.delta == 0.0:
        return Pufferfish(inner.epsilon * (1.0 - _SLACK))
    return Pufferfish(inner.epsilon, inner.delta * (1.0 - _SLACK_OF_DELTA))


def _drawn(together: float, unit: float, releases: int) -> float:
    """Return the scale to draw at, in steps: no less noise than is on record in the unit."""
    certified = rounded_up(Fraction(together) * Fraction(unit))
    return rounded_up(Fraction(scale_for_releases(certified, releases)) / Fraction(unit))


def _of_rounding(grid: float, together: float, whole: bool) -> float:
    """Return what rounding the sum to the grid adds to a loss: half a step under either secret.

    A whole number is on every grid of step 1 or less.
    """
    return 0.0 if whole and grid <= 1.0 else grid / together * (1.0 + 2.0**-50)


def _with_lower_ends(answers: Answers, system: SumOfUsers) -> Answers:
    """Return the answers with lower ends for all its answers together, under the notion itself."""
    notion, releases = answers.settings.notion, answers.settings.releases
    if releases == 1 and notion.delta == 0.0:
        return answers
    below = factor_below(Laplace(), notion, releases)
    lower = system.losses(below * answers.together, notion).lower
    return replace(answers, losses=replace(answers.losses, lower=lower))


def _chosen(scales: Mapping[str, float], settings: SumSettings) -> float:
    strategy, found = settings.strategy, dict(scales)
    if strategy == "published":
        found[strategy] = min(scale for name, scale in scales.items() if name in CONDITIONS)
    if strategy not in found:
        raise ValueError(
            f"strategy={strategy!r} does not apply to secrets={settings.secrets!r} of "
            f"these users; those that do are {sorted(scales)}."
        )
    if math.isinf(found[strategy]):
        raise ValueError(
            f"strategy={strategy!r} has no scale for these users without a delta; pass delta=, or "
            'use strategy="exact".'
        )
    return found[strategy]
