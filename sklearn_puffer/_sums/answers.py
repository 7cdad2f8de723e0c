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
from typing import Any, Protocol

import numpy as np

from sklearn_puffer._base import check_choice, check_delta, check_positive, check_seed, rounded_up
from sklearn_puffer._noise import FINEST, SPARE, coarse_enough, grid_step, sampler_loss
from sklearn_puffer._releases import MOST_RELEASES, check_releases, factor_below, scale_for_releases
from sklearn_puffer._sums.reports import TableChoice
from sklearn_puffer._sums.user_losses import CONDITIONS, Asked, Losses
from sklearn_puffer._sums.users import SECRETS
from sklearn_puffer._tables import Name
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish

_LEAST_EPSILON = 1e-8  # less is lost in the rounding of the noise
_MOST_EPSILON = 1e100
_STRATEGIES = ("exact", "worst_case", "published", *CONDITIONS)
_SLACK = 1e-13  # of the budget, for the roundings between a calibration and its certificate
_SLACK_OF_DELTA = 1e-9
_HARDLY, _NUDGES = 1.0 + 1e-4, (1e-12, 1e-10, 1e-8, 1e-6, 1e-5)  # where that is not enough


@dataclass(frozen=True)
class SumSettings:
    """The estimator's parameters, checked as far as that needs no data."""

    notion: Pufferfish
    secrets: str
    query: str
    strategy: str
    together: bool
    columns: TableChoice
    releases: int
    seed: int | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> SumSettings:
        """Return the parameters.

        Raises
        ------
        TypeError, ValueError
            Naming the argument, its value and the way out.
        """
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        epsilon = check_positive(params["epsilon"], "epsilon")
        if epsilon < _LEAST_EPSILON:
            raise ValueError(
                f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}: less is lost in "
                "the rounding of the noise; choose a larger budget."
            )
        if epsilon > _MOST_EPSILON:
            raise ValueError(
                f"epsilon must be at most {_MOST_EPSILON:g}, got {epsilon!r}, which promises "
                "nothing; choose a budget in nats, such as 1.0."
            )
        return cls(
            notion=Pufferfish(epsilon, check_delta(params["delta"], "delta")),
            secrets=check_choice(params["secrets"], "secrets", SECRETS),
            query=check_choice(params["query"], "query", ["sum", "mean", "count"]),
            strategy=check_choice(params["strategy"], "strategy", _STRATEGIES),
            together=check_choice(params["unit"], "unit", ["row", "class"]) == "class",
            columns=TableChoice(
                **{name: params[name] for name in TableChoice.__dataclass_fields__}
            ),
            releases=check_releases(params["releases"]),
            seed=check_seed(params["random_state"]),
        )

    @property
    def draws(self) -> int:
        """How many answers there may be, as far as the sampler's error is paid for.

        More than are planned: a ledger may choose more of them, at larger scales.
        """
        spare = SPARE * self.notion.epsilon / sampler_loss(1)
        return self.releases + math.floor(min(spare, MOST_RELEASES))

    def notion_for_law(self, drawing: float) -> Pufferfish:
        """Return what the continuous law must keep, where drawing adds this much to a pure loss."""
        if not drawing < self.notion.epsilon:
            raise ValueError(
                f"epsilon={self.notion.epsilon!r} is less than the {drawing:.3g} that drawing the "
                f"noise of releases={self.releases} may lose; raise epsilon, or plan fewer "
                "releases."
            )
        return self.notion.for_law(drawing)


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
class SumPlan:
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


def make_sum_plan(system: SumOfUsers, settings: SumSettings, reach: float, unit: float) -> SumPlan:
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
            return SumPlan(0.0, 0.0, 0.0, unit, 0.0, scales, settings, losses)
        for more in (0.0, *_NUDGES):
            together = least * (1.0 + more)
            theta = _drawn(together, unit, settings.releases)
            grid = coarse_enough(grid_step(theta), theta, reach)
            added = sampled + _of_rounding(grid, together, system.whole)
            losses = system.losses(together, inner)
            plan = SumPlan(together, theta, grid, unit, added, scales, settings, losses)
            if not plan.is_hardly_above:
                break
        if added <= drawing:
            return _with_lower_ends(plan, system)
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


def _with_lower_ends(plan: SumPlan, system: SumOfUsers) -> SumPlan:
    """Return the plan with lower ends for all its answers together, under the notion itself."""
    notion, releases = plan.settings.notion, plan.settings.releases
    if releases == 1 and notion.delta == 0.0:
        return plan
    below = factor_below(Laplace(), notion, releases)
    lower = system.losses(below * plan.together, notion).lower
    return replace(plan, losses=replace(plan.losses, lower=lower))


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
