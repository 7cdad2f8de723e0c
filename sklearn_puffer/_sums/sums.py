r"""A sum over users: its secret pairs, the scales that they need, and the noise of its answers.

*Discrete users.* The n users of a class may leave or change together. That is a chain of n changes
of single users, for each of whom the rest of the class are other users. So with w(theta) the loss
of one of its users in the worst case over all others,

.. math:: \text{loss of the class} \le n \, w(\theta).

Far to either side the loss tends to n times the difference of log E[e^(x/theta)], or of
log E[e^(-x/theta)], of the two distributions of one user. That equals the bound where the reports
of a class have one sign, or its pairs are values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._certificates import factor_below, scale_for_releases
from sklearn_puffer._noise import FINEST, coarse_enough, grid_step, sampler_loss
from sklearn_puffer._numerics import rounded_up
from sklearn_puffer._sums.gaussian import (
    GaussianSum,
    read_gaussians,
)
from sklearn_puffer._sums.losses import (
    MAX_STEPS,
    Losses,
    SumLosses,
    least_loss,
    sum_scale,
    worst_case_scale,
)
from sklearn_puffer._sums.published import conditions
from sklearn_puffer._sums.reports import PUBLISHED, Reporters, SumSettings, UserSum, read_reports
from sklearn_puffer._sums.users import User, UserPair, check_users, user_pairs, with_mass
from sklearn_puffer._tables import is_frame
from sklearn_puffer._words import on_one_line
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

_EXACT_WIDTH, _EXACT_WIDTH_OF_CLASS = 1e-9, 1e-6  # of intervals that count as exact, relatively
_MOST_WORK = 2**17  # pairs times steps of the sum up to which every loss is computed
_ABSENT = User(Discrete.from_counts([0.0], [1]))


class DiscreteSum(UserSum):
    """All users, in whole steps, and the pairs of secrets that are protected."""

    whole = True  # sums are whole numbers of steps

    @cached_property
    def present_users(self) -> list[User]:
        """The users, with a report of 0 for each who may be absent.

        Other users never increase a loss. So the largest loss over all sets of absent users is the
        loss among the users who are always present.
        """
        pairs = zip(self.reports.users_in_steps, self.reports.always_present.tolist(), strict=True)
        return [user if always_present else _ABSENT for user, always_present in pairs]

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale, in steps, of every condition that applies.

        "exact" is for the given users, "worst_case" for any other users. For classes that leave
        together both are the scale of the bound above. Unless ``exact`` is asked for, "exact" is
        left out where values lie too many steps apart.
        """
        groups: dict[int, list[UserPair]] = {}
        for pair in self.pairs:
            groups.setdefault(pair.user if self.together else 0, []).append(pair)
        each = []
        for pairs in groups.values():
            # of n users who leave together, each gets an equal part of epsilon
            n = self.reports.users_in_steps[pairs[0].user].count if self.together else 1
            worst = worst_case_scale(pairs, notion.epsilon / n).scale
            priors = [pair.priors for pair in pairs]
            published = conditions(priors, self.reports.secrets, notion.epsilon / n)
            each.append({"worst_case": worst} | published)
        shared = [name for name in each[0] if all(name in of for of in each)]
        scales = {name: max(of[name] for of in each) for name in shared}
        if self.together:
            return {"exact": scales["worst_case"]} | scales
        if exact or self._is_computable:
            found = sum_scale(self.present_users, self.pairs, notion.epsilon).scale
            return {"exact": found} | scales
        return scales

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return the losses with noise of a scale in steps.

        Where exact losses take long, they are computed only for pairs whose worst case exceeds the
        budget; the other pairs keep that.
        """
        losses, everybody = self._pair_losses, range(len(self.pairs))
        worst = np.stack([losses.worst_case_of(k, theta)[1] for k in everybody])
        counts = np.ones((len(self.pairs), 1))
        if self.together:
            counts[:, 0] = [self.reports.users_in_steps[pair.user].count for pair in self.pairs]
            worst = np.nextafter(counts * worst, np.inf)
        least = np.stack([least_loss(pair, theta) for pair in self.pairs])
        lower = np.clip(counts * least, 0.0, worst)
        upper = worst.copy()
        # the interval of a class of n users is n times as wide as that of one
        width = _EXACT_WIDTH_OF_CLASS if self.together else _EXACT_WIDTH
        exact = np.all(upper * (1.0 - width) <= lower, axis=1)  # intervals that are one number
        # pairs whose loss is computed for the given users
        is_computed = not self.together and self._is_computable
        chosen = np.flatnonzero(~exact) if is_computed else np.array([], dtype=int)
        if len(chosen) * sum(losses.spans_in_steps) > _MOST_WORK:
            chosen = chosen[worst[chosen].max(axis=1) > notion.epsilon]
        for k in chosen.tolist():
            least, most = losses.interval_of(k, theta)
            lower[k], upper[k] = np.maximum(lower[k], least), np.minimum(upper[k], most)
            exact[k] = theta == 0.0 or losses.allows_for_all(k)
        return Losses(lower, upper, worst, exact)

    @cached_property
    def _pair_losses(self) -> SumLosses:
        return SumLosses(self.present_users, self.pairs)

    @property
    def _is_computable(self) -> bool:
        """Whether the exact loss of every pair can be computed; that of two values always can."""
        return self._pair_losses.spans_in_steps[0] <= MAX_STEPS


SumOfUsers = DiscreteSum | GaussianSum


def read_sum(X: Any, settings: SumSettings) -> SumOfUsers:
    """Return the sum over users, who are given or the classes of a table, and its secret pairs."""
    users = [] if is_frame(X) else check_users(X)
    if any(isinstance(x, GaussianMixture) for user in users for x in (user.law, user.alternative)):
        gaussians = read_gaussians(users, settings)
        return GaussianSum(gaussians, secret_pairs(gaussians, settings), settings.together)
    reports = read_reports(users or X, settings)
    return DiscreteSum(reports, secret_pairs(reports, settings), settings.together)


# ----------------------------------------------------------------------------- the pairs of secrets


def secret_pairs(reporters: Reporters, settings: SumSettings) -> list[UserPair]:
    """Return the pairs of secrets to protect, in words, and with distributions in whole steps."""
    _check_fitting(reporters, settings)
    pairs = user_pairs(reporters.users_in_steps, settings.secrets)
    return [_in_words(reporters, pair, settings) for pair in pairs]


def _check_fitting(reporters: Reporters, settings: SumSettings) -> None:
    """Refuse arguments that do not apply to the secrets, or contradict them."""
    secrets = settings.secrets
    sure = [k for k, user in enumerate(reporters.users) if user.presence == 1.0]
    if "absence" in secrets and sure:
        name = on_one_line(reporters.named(sure[0], settings.together))
        raise ValueError(
            f"secrets={secrets!r} protects whether {name} is present, and presence=1 says that "
            "this is certain: a missing report would be refused and any other answered, which "
            "tells the two apart; declare a presence below 1 (how far below does not matter), "
            "leave presence out, or protect secrets='value'."
        )
    alternatives = settings.table["alternatives"]
    if alternatives is not None and secrets != "distribution":
        raise ValueError(
            f"alternatives={alternatives!r} goes with secrets='distribution', and secrets is "
            f"{secrets!r}; leave one of them out."
        )


def _in_words(reporters: Reporters, pair: UserPair, settings: SumSettings) -> UserPair:
    secrets = settings.secrets
    name = reporters.named(pair.user, settings.together)
    if secrets.startswith("value"):
        first, second = (float(with_mass(x)[0]) * reporters.step for x in pair.priors)
        against = f"reports {second:g}" if secrets == "value" else "is absent"
        return replace(pair, secret=f"{name} reports {first:g}", against=f"{name} {against}")
    if secrets == "distribution-absence":
        return replace(pair, secret=f"{name} is present", against=f"{name} is absent")
    against = f"{name} follows its alternative"
    return replace(pair, secret=f"{name} follows its distribution", against=against)


# --------------------------------------------------------------------- the noise of all answers

# The unit of an answer is a float, and so are the scales in the certificate. Both the joint scale s
# and the scale k s of each of k answers are rounded up in that unit. The noise that is drawn, in
# steps, is no less than that.


_SLACK = 1e-13  # of the budget, for the roundings between a calibration and its certificate
_SLACK_OF_DELTA = 1e-9
_ROUNDING_EXCESS = 1.0 + 1e-4  # the scale is raised where a loss exceeds the budget by less,
_RAISES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5)  # by these, relatively


@dataclass(frozen=True, eq=False)
class Answers:
    """The noise, in steps, and the losses with it.

    Each answer has noise of scale ``theta`` on the ``grid``; 0 where no noise is needed. All
    answers together lose no more than one answer of scale ``joint_scale``, which has these
    ``losses``. Drawing the noise of all answers adds ``sampler_loss`` to a pure loss. ``unit`` is
    the size of a step in an answer, and ``scales`` are those of the conditions.
    """

    joint_scale: float
    theta: float
    grid: float
    unit: float
    sampler_loss: float
    scales: dict[str, float]
    settings: SumSettings
    losses: Losses

    @property
    def certified(self) -> float:
        """``joint_scale`` in the unit of an answer, rounded up."""
        return rounded_up(Fraction(self.joint_scale) * Fraction(self.unit))

    @property
    def loss(self) -> float:
        """Proven upper end of the loss for the given users."""
        return self.of_samples(float(self.losses.upper.max()))

    @property
    def worst(self) -> float:
        """A bound on the loss for any other users."""
        return self.of_samples(float(self.losses.worst.max()))

    @property
    def exceeds_by_rounding(self) -> bool:
        """Whether a loss exceeds the budget, by no more than rounding explains."""
        budget, losses = self.settings.notion.budget, [self.loss]
        if self.settings.strategy != "exact":  # most strategies guarantee the worst case
            losses.append(self.worst)
        return any(budget < loss < budget * _ROUNDING_EXCESS for loss in losses)

    def of_samples(self, loss: float) -> float:
        """Return a bound on the loss of drawn answers, from that of continuous noise."""
        if loss == 0.0 and self.theta == 0.0:
            return 0.0
        samples = self.settings.notion.of_samples(np.array(loss), self.sampler_loss)
        return math.nextafter(float(samples), math.inf)


def answers_about(system: SumOfUsers, settings: SumSettings) -> Answers:
    """Calibrate the noise, choose the grid it is drawn on, and recompute the loss."""
    releases, reports = settings.releases, system.reports
    unit = reports.step / (reports.n_reports if settings.query == "mean" else 1)
    sampled = sampler_loss(settings.draws)
    drawing = sampled if system.whole else sampled + 1.01 * FINEST * releases
    while True:
        inner = settings.notion_for_distribution(drawing)
        target = Pufferfish(inner.epsilon * (1.0 - _SLACK))
        if inner.delta > 0.0:
            target = Pufferfish(inner.epsilon, inner.delta * (1.0 - _SLACK_OF_DELTA))
        scales = system.scales(target, exact=settings.strategy == "exact")
        least = _chosen(scales, settings)
        if least == 0.0:
            losses = system.losses(0.0, settings.notion)
            return Answers(0.0, 0.0, 0.0, unit, 0.0, scales, settings, losses)
        for more in (0.0, *_RAISES):
            joint_scale = least * (1.0 + more)
            # no less noise is drawn than the certificate states in the unit
            certified = rounded_up(Fraction(joint_scale) * Fraction(unit))
            theta = rounded_up(Fraction(scale_for_releases(certified, releases)) / Fraction(unit))
            grid = coarse_enough(grid_step(theta), theta, reports.reach)
            added = sampled
            if not (system.whole and grid <= 1.0):  # whole numbers are on grids of step 1 or less
                added += grid / joint_scale * (1.0 + 2.0**-50)  # half a step under either secret
            losses = system.losses(joint_scale, inner)
            answers = Answers(joint_scale, theta, grid, unit, added, scales, settings, losses)
            if not answers.exceeds_by_rounding:
                break
        if added <= drawing:
            break
        drawing = 2.0 * added
    if releases == 1 and settings.notion.delta == 0.0:
        return answers
    # lower ends are for all answers together, under the notion itself
    below = factor_below(Laplace(), settings.notion, releases)
    lower = system.losses(below * joint_scale, settings.notion).lower
    return replace(answers, losses=replace(losses, lower=lower))


def _chosen(scales: Mapping[str, float], settings: SumSettings) -> float:
    strategy, scales = settings.strategy, dict(scales)
    if strategy == "published":
        scales[strategy] = min(scale for name, scale in scales.items() if name in PUBLISHED)
    if strategy not in scales:
        raise ValueError(
            f"strategy={strategy!r} does not apply to secrets={settings.secrets!r} of "
            f"these users; those that do are {sorted(scales)}."
        )
    if math.isinf(scales[strategy]):
        raise ValueError(
            f"strategy={strategy!r} has no scale for these users without a delta; pass delta=, or "
            'use strategy="exact".'
        )
    return scales[strategy]
