"""Priors drawn around fitted ones and classifiers, where no set of priors has a proof."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sklearn_puffer._base import FloatArray, Integers
from sklearn_puffer._losses import LossTable, all_computable
from sklearn_puffer._noiser.conditional_priors import Adversary, Group, make_groups
from sklearn_puffer._noiser.problems import Problem, template
from sklearn_puffer._noiser.scales import Calibrated
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import SetLoss
from sklearn_puffer._tables import Name, Pair
from sklearn_puffer.calibration import smallest_factor
from sklearn_puffer.fits import bootstrap
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion

N_DRAWS = 20
"""Priors drawn around fitted ones: what 95 % of them do not exceed is what none does."""

CLOSE = 1e-4
"""Relative width of a search whose losses are not exact."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Priors drawn around the fitted ones: what is said of them is an estimate.

    The loss over them is that which a share ``level`` of the draws does not exceed.
    """

    level: float
    groups: list[Group]
    draw_of: Integers  # of each pair

    @property
    def remarks(self) -> list[str]:
        """Nothing: that it is an estimate stands in the certificate."""
        return []

    def within(self, problem: Problem) -> Problem:
        """Return the problem with the draws in it."""
        return replace(problem, sets=self.factor)

    def factor(
        self,
        problem: Problem,
        notion: Notion,
        grids: FloatArray | None,
        budget: float,
        tolerance: float,
    ) -> float:
        """Return a factor that serves the share of the draws.

        The draw that just counts is calibrated alone, and again while another one takes its place.
        """
        close = max(tolerance, CLOSE)
        factor = 0.0
        for _ in range(N_DRAWS):
            losses = self.losses(problem, notion, factor)
            if self._quantile(losses) <= budget:
                break
            counts = int(np.argsort(losses)[self._rank])
            alone = [_Draw(self, problem, notion, counts)]
            factor = max(smallest_factor(alone, budget, tolerance=close), factor * (1.0 + close))
        return factor

    def loss(self, problem: Problem, calibrated: Calibrated) -> SetLoss:
        """Return the loss that the share of the draws does not exceed at these scales."""
        inner = problem.notion.for_law(problem.drawing_loss)
        found = self._quantile(self.losses(problem, inner, calibrated.factor))
        return SetLoss(self.level, found, False, True, calibrated.share, ())

    def losses(
        self, problem: Problem, notion: Notion, factor: float, draw: int | None = None
    ) -> FloatArray:
        """Return the loss of the worst pair of each draw, or of a single one."""
        own = notion if notion.adds_up else notion.shared(len(self.groups))
        total = np.zeros((len(self.draw_of), 2))
        for part in (part for group in self.groups for part in group):
            kept = np.arange(len(part.pairs))
            if draw is not None:
                kept = kept[self.draw_of[part.owners] == draw]
            noise = template(problem, part)
            table = LossTable([part.pairs[k] for k in kept], own)
            found = table.losses(noise.scaled(factor)) if factor > 0.0 else table.without_noise()
            np.add.at(total, part.owners[kept], found)
        worst = np.zeros(self.draw_of.max() + 1)
        np.maximum.at(worst, self.draw_of, total.max(axis=1))
        return worst

    def computable(self, noise: Noise, notion: Notion) -> bool:
        """Return whether the exact loss of all of them is computed."""
        return all(
            all_computable(part.pairs, noise.with_scale((1.0,) * len(part.members)), notion)
            for group in self.groups
            for part in group
        )

    @property
    def _rank(self) -> int:
        """The place, among sorted losses, of the first that the share does not exceed."""
        return math.ceil(self.level * (N_DRAWS - 1))

    def _quantile(self, losses: FloatArray) -> float:
        return float(np.sort(losses)[self._rank])


@dataclass(frozen=True, eq=False)
class _Draw:
    """The losses of a single draw, for a search."""

    draws: Draws
    problem: Problem
    notion: Notion
    draw: int
    guess: float = 1.0

    def losses(self, factor: float) -> FloatArray:
        found = self.draws.losses(self.problem, self.notion, factor, self.draw)
        return np.full((1, 2), found[self.draw])


def drawn_around(
    settings: Settings,
    counted: Adversary,
    pairs: Mapping[Name, Sequence[Pair]],
    groups: Sequence[Sequence[int]],
    level: float,
) -> Draws:
    """Return priors drawn around the fitted ones, as adversaries of their own."""
    if settings.fit.covariance == "common":
        raise ValueError(
            "adversaries asks for draws of the fitted priors, and those with a common covariance "
            "are not drawn anew; use prior=fits.GaussianFit(), or leave adversaries out."
        )
    drawn: list[Adversary] = [
        {name: {label: {} for label in of} for name, of in counted.items()} for _ in range(N_DRAWS)
    ]
    for name, of_secrets in counted.items():
        for label, laws in of_secrets.items():
            for members, law in laws.items():
                some = law.counts > 0
                own = bootstrap(settings.fit, law.rows[some], law.counts[some], N_DRAWS)
                for k, prior in enumerate(own):
                    drawn[k][name][label][members] = prior
    draws = draws_of(drawn, pairs, groups, level)
    if not draws.computable(settings.noise, settings.notion):
        raise ValueError(
            "adversaries asks for draws of the fitted priors, and the exact loss of such rows "
            'is not computed; use dependence="independent".'
        )
    return draws


def draws_of(
    drawn: Sequence[Adversary],
    pairs: Mapping[Name, Sequence[Pair]],
    groups: Sequence[Sequence[int]],
    level: float,
) -> Draws:
    """Return adversaries that were drawn, as priors around a fitted one."""
    pairs_drawn, parts = make_groups(drawn, pairs, groups)
    return Draws(level, parts, np.array([pair.adversary for pair in pairs_drawn]))
