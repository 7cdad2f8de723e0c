"""Notions that the package does not have, added by the recipe of CONTRIBUTING and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from all_pairs import pairs_first
from brute_force import lies_in

from sklearn_puffer._losses import compose
from sklearn_puffer._sets import SetLosses, error_share
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer._strategies import reason_of
from sklearn_puffer.accounting import LossTable, privacy_loss
from sklearn_puffer.calibration import STRATEGIES, calibrate
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair


@dataclass(frozen=True)
class TotalVariation(Notion):
    """No set of outcomes is more probable by more than delta under one secret than another."""

    delta: float
    epsilon = 0.0

    @property
    def divergence(self):
        return HockeyStick(0.0)

    @property
    def budget(self):
        return self.delta

    def shared(self, n_groups):
        return replace(self, delta=self.delta / n_groups)

    def for_distribution(self, ratio):
        # where p' <= a p and q' >= b q, a/b = e^ratio: p' - q' <= a (p - q) + (a - b) q
        return replace(self, delta=(self.delta - math.expm1(ratio)) * math.exp(-ratio))

    def of_samples(self, loss, ratio):
        return np.minimum(loss * math.exp(ratio) + math.expm1(ratio), 1.0)

    def promise(self):
        return f"tell two secrets apart with an advantage of at most {self.delta:g}"

    def budget_name(self):
        return f"total variation = {self.delta:g}"


@dataclass(frozen=True)
class Concentrated(Notion):
    """The Renyi divergence of one order is at most rho times that order."""

    rho: float
    alpha: float = 2.0
    delta = 0.0

    @property
    def epsilon(self):
        return self.rho * self.alpha

    @property
    def divergence(self):
        return PowerMean(self.alpha)

    @property
    def budget(self):
        return self.rho * self.alpha

    def shared(self, n_groups):
        return replace(self, rho=self.rho / n_groups)

    def for_distribution(self, ratio):
        budget = self.budget - ratio * self.alpha / (self.alpha - 1.0)
        return replace(self, rho=budget / self.alpha)

    def of_samples(self, loss, ratio):
        return loss + ratio * self.alpha / (self.alpha - 1.0)

    def promise(self):
        return f"shift their odds in the mean of order {self.alpha:g} by rho = {self.rho:g}"

    def budget_name(self):
        return f"rho = {self.rho:g} at order {self.alpha:g}"


NOTIONS = [TotalVariation(0.2), Concentrated(0.25)]
NOISES = [Laplace(1.5), Gaussian(1.5), Cauchy(1.5), GeneralizedCauchy(1.5, 4.0)]
COUNTED = PriorPair(Discrete([0, 1, 3], [0.5, 0.3, 0.2]), Discrete([0, 1, 3], [0.2, 0.2, 0.6]))
MIXED = PriorPair(
    GaussianMixture([0.5, 0.5], [0.0, 2.0], [1.0, 1.0]), GaussianMixture([1.0], [1.5], [1.0])
)
ROWS = PriorPair(Discrete([[0, 0], [1, 2]], [0.6, 0.4]), Discrete([[0, 0], [1, 2]], [0.1, 0.9]))
PAIRS = {"column": COUNTED, "mixtures": MIXED, "rows": ROWS}
ALWAYS = ["distribution_aware", "exact"]
LINE = np.linspace(-60.0, 64.0, 40_001)
PLANE = np.linspace(-25.0, 27.0, 401)
named = pytest.mark.parametrize("notion", NOTIONS, ids=lambda notion: type(notion).__name__)
noisy = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)


def density(prior, noise):
    """Return the released density: of discrete or mixture priors on ``LINE`` or ``PLANE``."""
    if isinstance(prior, GaussianMixture):
        step = LINE[1] - LINE[0]
        z = (LINE[:, None] - prior.means) / prior.scales
        distribution = np.exp(-0.5 * z * z) @ (prior.weights / prior.scales / math.sqrt(math.tau))
        spread = np.arange(-len(LINE) + 1, len(LINE)) * step
        kernel = np.exp(noise.log_density(spread[:, None]))
        n = 2 ** math.ceil(math.log2(len(distribution) + len(kernel)))
        whole = np.fft.irfft(np.fft.rfft(distribution, n) * np.fft.rfft(kernel, n), n) * step
        return np.maximum(whole[len(LINE) - 1 : 2 * len(LINE) - 1], 0.0)
    if prior.n_axes == 1:
        moves = LINE[:, None, None] - prior.atoms[:, None]
        return np.exp(noise.log_density(moves)) @ prior.probabilities
    places = np.stack(np.meshgrid(PLANE, PLANE, indexing="ij"), axis=-1)
    return sum(
        weight * np.exp(noise.log_density(places - row))
        for row, weight in zip(prior.rows, prior.probabilities, strict=True)
    )


def measured(p, q, notion, cell):
    """Return the loss from one density to another, by summing over cells, and what is missed."""
    tail = max(1.0 - p.sum() * cell, 1.0 - q.sum() * cell, 0.0)
    if isinstance(notion, TotalVariation):
        return np.maximum(p - q, 0.0).sum() * cell, tail
    some = (p > 1e-14) & (q > 1e-14)  # below, the density of mixtures is rounding
    total = (p[some] ** notion.alpha * q[some] ** (1.0 - notion.alpha)).sum() * cell
    return math.log(total) / (notion.alpha - 1.0), 4.0 * tail


def brute_force(pair, noise, notion):
    p, q = (density(prior, noise) for prior in pair)
    cell = LINE[1] - LINE[0] if p.ndim == 1 else (PLANE[1] - PLANE[0]) ** 2
    ends = [measured(p, q, notion, cell), measured(q, p, notion, cell)]
    return max(loss for loss, _ in ends), max(tail for _, tail in ends)


@named
@noisy
@pytest.mark.parametrize("pair", [COUNTED, ROWS], ids=["column", "rows"])
def test_the_exact_loss_is_that_of_a_sum_over_cells(pair, noise, notion):
    loss = privacy_loss(*pair, noise, notion)
    expected, missed = brute_force(pair, noise, notion)
    assert 0.0 < loss.lower <= loss.upper
    assert expected == pytest.approx(loss.upper, rel=5e-3, abs=2e-5 + missed)


@named
@pytest.mark.parametrize("noise", NOISES[:2], ids=lambda noise: type(noise).__name__)
def test_the_exact_loss_of_mixtures_is_that_of_a_sum_over_cells(noise, notion):
    loss = privacy_loss(*MIXED, noise, notion)
    expected, missed = brute_force(MIXED, noise, notion)
    assert expected == pytest.approx(loss.upper, rel=1e-3, abs=1e-4 + missed)


def is_quick(pair, strategy, noise, notion):
    """Whether it takes no seconds: of the exact losses of mixtures one does."""
    return (pair, strategy) != ("mixtures", "exact") or (noise, notion) == (NOISES[0], NOTIONS[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "strategy", "noise", "notion"),
    pairs_first(product(PAIRS, STRATEGIES, NOISES, NOTIONS), is_quick),
)
def test_every_strategy_keeps_the_budget_or_refuses_by_name(pair, strategy, noise, notion):
    pair = PAIRS[pair]
    if strategy not in ALWAYS and reason_of(STRATEGIES[strategy]([pair], noise, notion)):
        with pytest.raises(ValueError, match=f"strategy='{strategy}'"):
            calibrate([pair], notion, noise=noise, strategy=strategy)
        return
    found = calibrate([pair], notion, noise=noise, strategy=strategy)
    expected, missed = brute_force(pair, noise.scaled(found.scale), notion)
    assert found.bound <= notion.budget
    assert expected <= found.bound * (1.0 + 5e-3) + 2e-5 + missed


@named
@pytest.mark.parametrize("noise", NOISES[:2], ids=lambda noise: type(noise).__name__)
def test_independent_columns_compose_to_the_loss_of_the_row(noise, notion):
    other = PriorPair(Discrete([0, 2], [0.5, 0.5]), Discrete([0, 2], [0.7, 0.3]))
    tables = [LossTable([pair], notion) for pair in (COUNTED, other)]
    if notion.adds_up:
        low, high = (sum(ends) for ends in zip(*(t.intervals(noise) for t in tables), strict=True))
        low, high = low[0, 0], high[0, 0]
    else:
        low, high = compose([table.panels(noise)[0] for table in tables], notion)
    rows = [
        Discrete(
            [[x, y] for x in one.atoms for y in two.atoms],
            np.outer(one.probabilities, two.probabilities).ravel(),
        )
        for one, two in zip(COUNTED, other, strict=True)
    ]
    p, q = (density(prior, noise) for prior in rows)
    expected, missed = measured(p, q, notion, (PLANE[1] - PLANE[0]) ** 2)
    assert low <= high <= low + 1e-3
    assert expected == pytest.approx(high, rel=5e-3, abs=2e-5 + missed)


@named
@noisy
def test_no_distribution_of_a_confidence_set_loses_more_than_the_bound_over_the_set(noise, notion):
    share = error_share(0.95, [3, 3])
    counts = [[50, 30, 20], [20, 20, 60]]
    sets = tuple(set_around_counts([[0, 1, 3]], row, share) for row in counts)
    bound = float(SetLosses([sets], noise, notion).losses(1.0).max())
    rng = np.random.default_rng(0)
    distributions = [
        [x for x in rng.dirichlet(row, 200) if lies_in(each, x)]
        for row, each in zip(counts, sets, strict=True)
    ]
    for p, q in zip(distributions[0][:3], distributions[1][:3], strict=True):
        drawn = PriorPair(Discrete([0, 1, 3], p), Discrete([0, 1, 3], q))
        assert privacy_loss(*drawn, noise, notion).lower <= bound
    assert bound <= float(notion.shift_loss(noise, [3.0])) * (1.0 + 1e-9)


@named
@pytest.mark.parametrize("ratio", [1e-6, 1e-2])
def test_samples_whose_chances_are_off_keep_what_their_distribution_was_held_to(notion, ratio):
    rng = np.random.default_rng(7)
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    drawn = [x * np.exp(rng.uniform(-ratio / 4.0, ratio / 4.0, 8)) for x in (p, q)]
    drawn = [x / x.sum() for x in drawn]
    distribution, sampled = measured(p, q, notion, 1.0)[0], measured(*drawn, notion, 1.0)[0]
    assert sampled <= notion.of_samples(np.array(distribution), ratio) + 1e-15
    inner = notion.for_distribution(ratio)
    assert notion.of_samples(np.array(inner.budget), ratio) <= notion.budget * (1.0 + 1e-15)


def test_a_notion_of_another_divergence_is_refused_by_name():
    @dataclass(frozen=True)
    class MeanLoss(TotalVariation):
        @property
        def divergence(self):
            return "the mean log ratio"

    wanted = "notion must hold a Supremum, HockeyStick or PowerMean, got .*MeanLoss"
    for ask in (
        lambda notion: privacy_loss(*COUNTED, Laplace(), notion),
        lambda notion: calibrate([COUNTED], notion),
    ):
        with pytest.raises(TypeError, match=wanted):
            ask(MeanLoss(0.1))


def test_a_notion_that_lacks_a_method_cannot_be_made():
    class Half(Notion):
        pass

    with pytest.raises(TypeError, match=r"abstract methods .*budget.*divergence"):
        Half()
