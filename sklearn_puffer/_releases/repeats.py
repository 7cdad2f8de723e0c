r"""The same rows released several times: what all releases tell together.

Laplace and Gaussian noise. Independent releases of X at scales theta_1, ..., theta_k are a
post-processing of one release at the scale s, where precisions add up,

.. math:: \frac1s = \sum_r \frac1{\theta_r} \text{ (Laplace)}, \qquad
          \frac1{s^2} = \sum_r \frac1{\theta_r^2} \text{ (Gaussian)},

for any law of X, prior, strategy and notion, column by column. (Gaussian: the mean weighted by
precision is sufficient. Laplace: w = prod e^(-|y_r - x| / theta_r) as a function of x satisfies
w - s^2 w'' >= 0, so w is a mixture of e^(-|y - x| / s) over y.) So k releases at k s, or at
sqrt(k) s, lose at most what one release at s does, and that one is calibrated and certified.

Cauchy kinds have no such rule. There k releases are a release of the row (x, ..., x) under
independent noise on k columns: the losses of a shift add up over releases, and a bound that
averages the losses of shifts over one coupling holds for them (004, Thm 4.5 with q = 1).

Either way values are rounded to the grid of the noise that is drawn, once, and each release is
drawn on that grid: a rounding of the continuous releases of the rounded value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base.types import Array, FloatArray
from sklearn_puffer._strategies.plan_bounds import is_pure
from sklearn_puffer._validation import check_count, quoted
from sklearn_puffer.bounds import Strategy, distribution_aware, sensitivity, wasserstein
from sklearn_puffer.noise import Gaussian, Laplace, Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import GaussianMixture, PriorPair
from sklearn_puffer.spending import Averages, Axis, Precisions, Refused, Rule, scale_for_releases
from sklearn_puffer.transport import monotone

MOST_RELEASES = 10**9
"""Largest number of releases that can be planned: the sampler's error is paid for each."""

MOST_MOVES = 10**6
"""Largest number of moves that are kept for the rule of how Cauchy releases add up."""

# bounds that average or maximise what shifts lose over one coupling
_COUPLED = (sensitivity, wasserstein, distribution_aware)

#: The power of the scale in what adds up over releases.
POWERS: dict[type, int] = {Laplace: 1, Gaussian: 2}


@dataclass(frozen=True)
class Repeated:
    """Independent noise of one family on a row (x, ..., x): what several releases of x are.

    It has only what bounds by a coupling ask of a noise: what shifts of x lose.

    Attributes
    ----------
    each : Noise
        The noise of each release.
    times : int
        Number of releases.

    Notes
    -----
    *Formal guarantees.* Max-divergences and Renyi divergences of independent columns add up, so
    those of a shift of x are ``times`` those of one release, exactly.

    Examples
    --------
    >>> from sklearn_puffer.noise import Cauchy
    >>> one, three = Cauchy(2.0), Repeated(Cauchy(2.0), 3)
    >>> float(three.max_divergence([1.0])) == 3 * float(one.max_divergence([1.0]))
    True
    """

    each: Noise
    times: int

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The scale of each release."""
        return self.each.scale

    def scaled(self, factor: float) -> Repeated:
        """Return the same with every scale multiplied by ``factor``."""
        return replace(self, each=self.each.scaled(factor))

    def with_scale(self, scale: float | tuple[float, ...]) -> Repeated:
        """Return the same with another scale."""
        return replace(self, each=self.each.with_scale(scale))

    def axis_scales(self, n_axes: int) -> FloatArray:
        """Return the scales, shape (n_axes,)."""
        return self.each.axis_scales(n_axes)

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return the max-divergence of all releases together for shifts (..., d)."""
        return self.times * self.each.max_divergence(shift)

    def renyi_divergence(self, shift: ArrayLike, alpha: float) -> FloatArray:
        """Return the Renyi divergence of all releases together for shifts (..., d)."""
        return self.times * self.each.renyi_divergence(shift, alpha)

    def steepest(self, near: ArrayLike, far: ArrayLike) -> FloatArray:
        """Return max |slope in x| of the log density of all releases, each this far from x."""
        return self.times * self.each.steepest(near, far)


def together(noise: Noise, releases: int) -> Noise:
    """Return the noise under which all releases are calibrated and certified as one.

    Examples
    --------
    >>> together(Laplace(2.0), 3)
    Laplace(scale=2.0)
    """
    if releases == 1 or type(noise) in POWERS:
        return noise
    # bounds by a coupling, the only ones that are let near it, ask a noise for nothing else
    return cast(Noise, Repeated(noise, releases))


def single(noise: Noise) -> Noise:
    """Return the noise of each release, at the scales of ``noise``."""
    return noise.each if isinstance(noise, Repeated) else noise


def check_releases(releases: Any) -> int:
    """Return the number of releases as an integer from 1 to `MOST_RELEASES`."""
    if check_count(releases, "releases") > MOST_RELEASES:
        raise ValueError(
            f"releases must be at most {MOST_RELEASES:,}, got {quoted(releases)}; the error of the "
            "sampler is paid for each of them."
        )
    return int(releases)


def drawn_scales(noise: Noise, scales: FloatArray, releases: int) -> FloatArray:
    r"""Return the scales that each of several releases is drawn at, shape of ``scales``.

    Parameters
    ----------
    noise : Noise
        As `together` returns it.
    scales : ndarray of shape (n_columns,)
        At which all releases together are as one.
    releases : int

    Notes
    -----
    *Formal guarantees.* :math:`k/\theta \le 1/s`, for Gaussian noise
    :math:`k/\theta^2 \le 1/s^2`, holds exactly between the floats.

    Examples
    --------
    >>> drawn_scales(Laplace(), np.array([2.0]), 3).tolist()
    [6.0]
    >>> drawn_scales(Gaussian(), np.array([1.0]), 4).tolist()
    [2.0]
    """
    power = POWERS.get(type(noise))
    if releases == 1 or power is None:
        return scales
    return np.array([scale_for_releases(scale, releases, power) for scale in scales.tolist()])


def factor_below(noise: Noise, notion: Notion, releases: int) -> float:
    """Return by how much one release has more noise if it is to tell no more than all of them.

    All Gaussian releases tell as much as their mean, and Laplace releases that all fall on one
    point y have the likelihood ratios of one release that falls there: their pure losses are equal,
    but for the rounding of the scales. Otherwise it is one of the releases.

    Examples
    --------
    >>> from sklearn_puffer.notions import RenyiPufferfish
    >>> round(factor_below(Laplace(), RenyiPufferfish(1.0, alpha=2.0), releases=3), 9)
    3.0
    """
    if releases == 1 or isinstance(noise, Repeated):
        return 1.0
    same = type(noise) is Gaussian or is_pure(notion)
    return (1.0 if same else releases) * (1.0 + 2.0**-50)


def why_not(noise: Noise, notion: Notion, strategy: Strategy, mixtures: bool) -> str | None:
    """Return why several releases have no bound together, and the way out, or None.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> why_not(Laplace(), Pufferfish(1.0), wasserstein, mixtures=False) is None
    True
    """
    if type(noise) in POWERS:
        return None
    name = type(noise).__name__
    if notion.delta > 0.0:
        return f"{name} releases do not add up under delta=; leave it out, or use noise='laplace'."
    if mixtures:
        return (
            f"{name} releases add up along couplings of discrete laws, and not under Gaussian and "
            "mixture priors; use noise='laplace', or prior='empirical'."
        )
    if strategy not in _COUPLED:
        return (
            f"{name} releases add up along one coupling only, which this strategy does not keep "
            "to; use strategy='distribution_aware' or noise='laplace'."
        )
    return None


@dataclass(frozen=True, eq=False)
class Promise:
    """A promise that holds, as far as it decides what further releases cost.

    Attributes
    ----------
    noise : Noise
        The family, of each release.
    notion : Notion
        What the continuous law keeps, whose samples keep the promise.
    strategy : Strategy
    releases : int
        How many releases are promised for.
    scales : dict of axis to float
        Scale of each column at which all releases together are as one (that of each release, for
        Cauchy kinds); 0 where a column is released unchanged.
    pairs : sequence of PriorPair
        Where there is a single column: all pairs of laws on its grid.
    around : bool
        Whether it is also about priors around those of the pairs.
    draws : int
        Number of releases, at larger scales, whose sampler's error the budget has room for.
    """

    noise: Noise
    notion: Notion
    strategy: Strategy
    releases: int
    scales: Mapping[Axis, float]
    pairs: Sequence[PriorPair]
    around: bool
    draws: int

    def rule(self) -> Rule:
        """Return how the releases of the same rows add up.

        Notes
        -----
        *Formal guarantees.* Any history that the rule allows keeps the promise; ``releases``
        releases at the scales they are drawn at are one of them, except where it is `Refused`,
        which allows one. No column may be released more often than ``draws`` times, however large
        the scales: each release has the error of the sampler once more.

        Cauchy noise on several columns, pure epsilon, bounds by a coupling: with x_r = 1/s_r the
        loss asinh(z x_r / 2) is concave in x_r, so n <= k releases of sum x_r <= k x lose at most
        n asinh(z k x / (2 n)) <= k asinh(z x / 2), column by column and move by move.
        """
        if not any(self.scales.values()):
            return Precisions.of_scales(1, self.scales)
        power = POWERS.get(type(self.noise))
        if power is not None:
            return Precisions.of_scales(power, self.scales, self.draws)
        mixtures = any(isinstance(pair.p, GaussianMixture) for pair in self.pairs)
        reason = why_not(self.noise, self.notion, self.strategy, mixtures)
        if self.around and self.strategy is not sensitivity:
            reason = "Cauchy releases have no rule for all priors around a fitted one."
        if reason is None and len(self.scales) == 1:
            return self._averages()
        if reason is None and is_pure(self.notion) and self.releases > 1:
            k = self.releases
            budgets = {a: k / Fraction(s) if s > 0.0 else np.inf for a, s in self.scales.items()}
            return Precisions(1, budgets, k)  # the proof is for at most k of them
        return self._refused(reason or "Cauchy releases of several columns have no rule.")

    def _averages(self) -> Rule:
        [axis] = self.scales
        plans = self._widest() if self.strategy is sensitivity else self._plans()
        if sum(len(distances) for distances, _ in plans) > MOST_MOVES:
            return self._refused(f"Their couplings have more than {MOST_MOVES:,} moves.")
        return Averages(self.noise, self.notion, axis, plans, self.draws)

    def _widest(self) -> list[tuple[Array, Array]]:
        """Return the move across the whole alphabet, which serves every law on it."""
        spans = [np.ptp(np.concatenate([p.rows, q.rows])) for p, q in self.pairs]
        return [(np.array([max(spans)]), np.array([1]))]

    def _plans(self) -> list[tuple[Array, Array]]:
        """Return the distances of the monotone coupling of each pair, and their masses."""
        couplings = monotone(self.pairs)
        stops = [*couplings.starts[1:].tolist(), len(couplings.masses)]
        return [
            _merged(np.abs(couplings.shifts[first:stop, 0]), couplings.masses[first:stop])
            for first, stop in zip(couplings.starts.tolist(), stops, strict=True)
        ]

    def _refused(self, reason: str) -> Refused:
        return Refused(reason, self.scales)


def _merged(distances: FloatArray, masses: Array) -> tuple[Array, Array]:
    """Return the distinct distances, and the mass of each."""
    order = np.argsort(distances, kind="stable")
    found, first = np.unique(distances[order], return_index=True)
    return found, np.add.reduceat(masses[order], first)
