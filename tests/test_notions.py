"""Notions: budgets, averages, conversions, and what drawing on a grid adds."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import HockeyStick, PowerMean, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete

NOISES = [Laplace(1.5), Gaussian(1.5), Cauchy(1.0), GeneralizedCauchy(1.0, 4.0)]
NOTIONS = [
    Pufferfish(0.7),
    Pufferfish(0.7, 1e-4),
    RenyiPufferfish(0.7, 2.5),
]


def test_a_loss_is_held_against_epsilon_or_against_delta():
    assert [notion.budget for notion in NOTIONS] == [0.7, 1e-4, 0.7]
    assert [notion.adds_up for notion in NOTIONS] == [True, False, True]


def test_renyi_implies_epsilon_and_delta_as_proven():
    """004, Prop. 2.2."""
    assert RenyiPufferfish(0.5, 3.0).to_pufferfish(1e-6) == Pufferfish(
        math.nextafter(0.5 - math.log(1e-6) / 2.0, math.inf), 1e-6
    )


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("delta", [1e-1, 1e-3, 1e-6])
def test_what_renyi_implies_holds_for_real_priors(noise, alpha, delta):
    p, q = Discrete([0, 1, 3], [0.5, 0.3, 0.2]), Discrete([0, 1, 3], [0.2, 0.2, 0.6])
    renyi = privacy_loss(p, q, noise, RenyiPufferfish(1.0, alpha)).upper
    implied = RenyiPufferfish(renyi, alpha).to_pufferfish(delta)
    assert privacy_loss(p, q, noise, implied).upper <= delta


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pufferfish(0.0), "epsilon must be positive and finite, got 0.0"),
        (lambda: Pufferfish(1.0, 1.0), r"delta must lie in \[0, 1\), got 1.0"),
        (lambda: Pufferfish(1.0, -1e-9), r"delta must lie in \[0, 1\), got -1e-09"),
        (lambda: RenyiPufferfish(1.0, 1.0), "alpha must be finite and above 1, got 1.0"),
        (lambda: RenyiPufferfish(1.0, math.inf), "alpha must be finite and above 1, got inf"),
        (lambda: RenyiPufferfish(1.0, 2.0, 2.0), r"delta must lie in \[0, 1\), got 2.0"),
        (lambda: HockeyStick(-1.0), "epsilon must be at least 0, got -1.0"),
        (lambda: HockeyStick(math.nan), "epsilon must be at least 0, got nan"),
        (lambda: PowerMean(1.0), "alpha must be finite and above 1, got 1.0"),
        (lambda: RenyiPufferfish(1.0, 2.0, 0.1), "delta must be 0.0 with alpha=2.0, got 0.1: ask"),
    ],
)
def test_budgets_out_of_range_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_pickle_of_an_order_with_a_delta_is_refused_as_the_notion_is():
    before = RenyiPufferfish(1.0, 2.0)
    before.__dict__["delta"] = 0.1  # as it was until 0.3
    with pytest.raises(ValueError, match=r"delta must be 0.0 with alpha=2.0, got 0.1"):
        pickle.loads(pickle.dumps(before))
    assert pickle.loads(pickle.dumps(RenyiPufferfish(1.0, 2.0))) == RenyiPufferfish(1.0, 2.0)


numbers = st.floats(0.0, 50.0)


@given(st.lists(st.tuples(numbers, st.floats(1e-6, 1.0)), min_size=1, max_size=6))
@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_an_average_lies_between_the_least_and_the_largest_loss_and_never_below_the_mean(
    notion, entries
):
    losses, weights = (np.array(column) for column in zip(*entries, strict=True))
    losses = losses / 50.0 if notion.budget == notion.delta else losses
    weights = weights / weights.sum()
    [average] = notion.average(losses, weights, np.array([0]))
    assert average <= losses.max() * (1.0 + 1e-12) + 1e-300
    assert average >= (weights * losses).sum() * (1.0 - 1e-12)


@given(st.floats(0.5, 30.0), st.floats(1.01, 40.0), st.floats(0.0, 1.0))
def test_the_renyi_average_is_the_log_mean_of_powers(loss, alpha, weight):
    losses, weights = np.array([0.0, loss]), np.array([1.0 - weight, weight])
    [average] = RenyiPufferfish(1.0, alpha).average(losses, weights, np.array([0]))
    order = alpha - 1.0
    exact = np.logaddexp(
        math.log1p(-weight) if weight < 1.0 else -math.inf,
        math.log(weight) + order * loss if weight > 0.0 else -math.inf,
    )
    assert exact / order <= average + 1e-300
    assert average <= exact / order + 1e-12 * (1.0 + loss + 1.0 / order)


def test_an_average_of_infinite_losses_is_infinite_and_chances_of_zero_do_not_count():
    losses, starts = np.array([1.0, math.inf, math.inf, 2.0]), np.array([0, 2])
    weights = np.array([0.5, 0.5, 0.0, 1.0])
    for notion in (Pufferfish(1.0), RenyiPufferfish(1.0, 2.0)):
        average = notion.average(losses, weights, starts)
        assert average[0] == math.inf
        assert average[1] == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
@pytest.mark.parametrize("ratio", [1e-9, 1e-3, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_samples_off_by_the_ratio_keep_what_the_distribution_was_held_to(notion, ratio, seed):
    """Probabilities of atoms that are off by factors of e^(+-ratio/2), renormalised."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    far = ratio / 4.0  # renormalising moves all probabilities once more by as much
    drawn = [x * np.exp(rng.uniform(-far, far, 8)) for x in (p, q)]
    drawn = [x / x.sum() for x in drawn]
    inner = notion.for_distribution(ratio)
    distribution, sampled = loss_of(p, q, inner), loss_of(*drawn, notion)
    assert sampled <= notion.of_samples(np.array(distribution), ratio) + 1e-15
    assert inner.budget < notion.budget
    assert notion.of_samples(np.array(inner.budget), ratio) <= notion.budget * (1.0 + 1e-15)


def loss_of(p, q, notion):
    if isinstance(notion, RenyiPufferfish):
        return math.log((p**notion.alpha * q ** (1.0 - notion.alpha)).sum()) / (notion.alpha - 1.0)
    if notion.delta > 0.0:
        return float(np.maximum(p - math.exp(notion.epsilon) * q, 0.0).sum())
    return float(np.log(p / q).max())


def test_shares_of_a_budget_add_up_to_it():
    for notion in NOTIONS:
        part = notion.shared(4)
        assert (4 * part.epsilon, 4 * part.delta) == (notion.epsilon, notion.delta)
        assert notion.shared(1) == notion


def test_guarantees_say_what_may_fail():
    assert "e^0.7 = 2.014" in Pufferfish(0.7).promise()
    assert "e^1e-06 = 1 + 1e-06" in Pufferfish(1e-6).promise()
    assert "e^0.0009 = 1 + 0.0009004" in Pufferfish(9e-4).promise()
    assert "plus delta = 0.0001, under one of two secrets" in NOTIONS[1].promise()
    assert "in the mean of Renyi order alpha = 2.5" in NOTIONS[2].promise()
