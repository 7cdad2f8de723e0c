"""Strategies for every noise and notion: sound, ordered, monotone, and refused where there is none.

Losses are held against brute force over cells of the released value, which is never above the true
loss, and single moves against 50 digits.
"""

from __future__ import annotations

import itertools
from functools import cache, partial
from itertools import pairwise

import loss_oracle_small as oracle
import mpmath
import numpy as np
import pytest
from all_pairs import pairs_first
from hypothesis import given, settings
from hypothesis import strategies as st
from test_product import PRIORS

from sklearn_puffer._strategies import ground_cost, monotone
from sklearn_puffer.bounds import (
    Impossible,
    Relaxed,
    approximate,
    distribution_aware,
    monge,
    sensitivity,
    tightest,
    wasserstein,
)
from sklearn_puffer.calibration import STRATEGIES, calibrate, exact
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

NOISES = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "cauchy": Cauchy,
    "generalised cauchy": partial(GeneralizedCauchy, k=3.5),
}
NOTIONS = {
    "pure": Pufferfish(1.0),
    "delta": Pufferfish(0.5, delta=1e-3),
    "tiny delta": Pufferfish(1.0, delta=1e-10),
    "Renyi 2": RenyiPufferfish(1.0, alpha=2.0),
    "Renyi 1.2": RenyiPufferfish(0.3, alpha=1.2),
    "Renyi 20": RenyiPufferfish(3.0, alpha=20.0),
    "approximate Renyi": RenyiPufferfish(0.5, alpha=3.0, delta=0.08),
}
SOUND = {
    name: strategy for name, strategy in STRATEGIES.items() if name not in ("exact", "monge")
} | {"tightest": tightest}
ROWS = ("rows on a grid", "scattered rows")
LINES = tuple(family for family in PRIORS if "rows" not in family)
PAIRS = 2  # of each family

every_noise = pytest.mark.parametrize("noise", NOISES)
every_notion = pytest.mark.parametrize("notion", NOTIONS)
every_bound = pytest.mark.parametrize(
    ("noise", "notion", "strategy", "rows"),
    pairs_first(itertools.product(NOISES, NOTIONS, SOUND, [False, True])),
)


@cache
def drawn(families, n_pairs=PAIRS):
    rng = np.random.default_rng(11)
    return [PriorPair(*PRIORS[family](rng)) for family in families for _ in range(n_pairs)]


@cache
def bound_of(strategy, noise, notion, rows=False):
    template = NOISES[noise]((1.3, 0.6)) if rows else NOISES[noise](1.3)
    pairs = drawn(ROWS, 2) if rows else drawn(LINES)
    return {**STRATEGIES, **SOUND}[strategy](pairs, template, NOTIONS[notion])


def level_of(noise, factor, rows=False):
    return NOISES[noise]((1.3 * factor, 0.6 * factor) if rows else 1.3 * factor)


@cache
def masses_of(noise, factor, rows=False):
    pairs, n = (drawn(ROWS, 2), 100) if rows else (drawn(LINES), 1000)
    return [oracle.lumped(*pair, level_of(noise, factor, rows), n) for pair in pairs]


def truth_of(noise, notion, factor, rows=False):
    """Return lower ends of the true losses of all pairs, shape (n_pairs, 2)."""
    found = masses_of(noise, factor, rows)
    return np.array([oracle.both_losses(masses, NOTIONS[notion]) for masses in found])


def exists(bound):
    return not isinstance(bound, Impossible)


@every_noise
@every_notion
def test_a_bound_is_never_below_the_loss_of_any_pair_in_any_direction(noise, notion):
    if notion == "approximate Renyi":
        pytest.skip("its loss is that given an event, which has a test of its own")
    for factor in (0.3, 2.0, 20.0):
        truth = truth_of(noise, notion, factor)
        for strategy in SOUND:
            bound = bound_of(strategy, noise, notion).losses(factor)
            assert bound.shape == truth.shape
            assert np.all(bound >= truth * (1 - 1e-9) - 1e-14), strategy


@every_noise
@every_notion
def test_a_bound_on_rows_is_never_below_their_loss(noise, notion):
    if notion == "approximate Renyi":
        pytest.skip("its loss is that given an event, which has a test of its own")
    for factor in (0.5, 4.0):
        truth = truth_of(noise, notion, factor, rows=True)
        for strategy in SOUND:
            bound = bound_of(strategy, noise, notion, rows=True).losses(factor)
            assert np.all(bound >= truth * (1 - 1e-9) - 1e-14), strategy


@pytest.mark.parametrize(
    ("noise", "notion", "rows"), pairs_first(itertools.product(NOISES, NOTIONS, [False, True]))
)
def test_averages_are_below_maxima_and_these_below_sensitivity(noise, notion, rows):
    names = ["relaxed", "distribution_aware", "approximate", "wasserstein", "sensitivity"]
    bounds = [bound_of(name, noise, notion, rows) for name in names]
    kept = [bound for bound in bounds if exists(bound)]
    assert len(kept) >= 2 or not exists(bounds[-1])
    for factor in (0.0, 1e-5, 0.3, 3.0, 1e5):
        for smaller, larger in pairwise([bound.losses(factor) for bound in kept]):
            assert np.all(smaller <= larger * (1 + 1e-12) + 1e-300)
        if exists(bounds[1]):  # the first of those that exist, whatever their order above
            assert np.all(bounds[1].losses(factor) <= bounds[3].losses(factor))


FEW = tuple(family for family in LINES if family in ("counted", "with zero masses", "disjoint"))
exact_notions = pytest.mark.parametrize(
    "notion",
    ["pure", "delta", *(pytest.param(n, marks=pytest.mark.slow) for n in ("Renyi 2", "Renyi 1.2"))],
)


@every_noise
@exact_notions
def test_the_exact_loss_is_below_every_bound_and_above_what_is_left_of_it_in_cells(noise, notion):
    pairs, level = drawn(FEW, 1), level_of(noise, 2.0)
    precise = exact(pairs, level, NOTIONS[notion]).losses(1.0)
    for k, pair in enumerate(pairs):
        truth = oracle.both_losses(oracle.lumped(*pair, level), NOTIONS[notion])
        assert np.all(precise[k] >= np.array(truth) * (1 - 1e-9) - 1e-14)
    for strategy in SOUND.values():
        bound = strategy(pairs, level, NOTIONS[notion])
        # an exact loss is itself the upper end of an interval
        assert np.all(precise <= bound.losses(1.0) * (1 + 1e-3) + 1e-9)


@every_noise
@exact_notions
def test_the_exact_scale_is_the_smallest(noise, notion):
    for pair in drawn(FEW, 1):
        bound = exact([pair], NOISES[noise](1.0), NOTIONS[notion])
        if bound.reason:
            assert np.isinf(bound.losses(1e6)).any()
            continue
        found = calibrate([pair], NOTIONS[notion], noise=NOISES[noise](1.0))
        assert found.bound == bound.losses(found.scale).max() <= NOTIONS[notion].budget
        if found.scale > 0.0:
            assert bound.losses(0.999 * found.scale).max() > NOTIONS[notion].budget
        for strategy in SOUND.values():
            if exists(strategy([pair], NOISES[noise](1.0), NOTIONS[notion])):
                scale = calibrate(
                    [pair], NOTIONS[notion], noise=NOISES[noise](1.0), strategy=strategy
                ).scale
                assert found.scale <= scale * (1 + 1e-3)


@every_bound
def test_no_bound_increases_with_the_noise(noise, notion, strategy, rows):
    bound = bound_of(strategy, noise, notion, rows)
    factors = [0.0, 1e-300, 1e-12, *np.geomspace(1e-2, 1e3, 6), 1e12, 1e299]
    losses = [bound.losses(factor) for factor in factors]
    for less, more in pairwise(losses):
        assert np.all(more <= less * (1 + 1e-11) + 1e-300)
    assert not any(np.isnan(each).any() for each in losses)


@every_bound
def test_the_bound_at_the_calibrated_scale_is_within_the_budget_and_just_below_it_is_not(
    noise, notion, strategy, rows
):
    chosen, template = SOUND[strategy], NOISES[noise]((1.3, 0.6)) if rows else NOISES[noise](1.3)
    budget = NOTIONS[notion].budget
    pairs = drawn(ROWS, 1) if rows else drawn(LINES, 1)
    bound = chosen(pairs, template, NOTIONS[notion])
    if not exists(bound):
        with pytest.raises(ValueError, match=r"; use |; give "):
            calibrate(pairs, NOTIONS[notion], noise=template, strategy=chosen)
        return
    found = calibrate(pairs, NOTIONS[notion], noise=template, strategy=chosen)
    assert found.bound == bound.losses(found.scale).max() <= budget
    assert found.scale > 0.0
    assert bound.losses(found.scale * (1 - 1e-9)).max() > budget
    assert bound.losses(found.scale)[found.worst_pair].max() == found.bound


# Single moves: no coupling is between the bound and the loss


MOVES = [1e-5, 0.03, 0.5, 1.0, 1.7, 4.0, 30.0, 700.0]


def takes_long(noise, notion):
    """Whether 50 digits of an integral take their time."""
    return "cauchy" in noise and "Renyi" in notion


@pytest.mark.parametrize(
    ("noise", "notion"),
    [
        pytest.param(*case, marks=pytest.mark.slow if takes_long(*case) else ())
        for case in itertools.product(NOISES, NOTIONS)
    ],
)
def test_the_loss_of_a_single_move_is_right_and_never_low(noise, notion):
    name = "cauchy" if "cauchy" in noise else noise
    k = 3.5 if noise == "generalised cauchy" else 2.0
    for z in MOVES[1::3] if takes_long(noise, notion) else MOVES:
        truth = oracle.shift_loss(name, z, NOTIONS[notion], k)
        pair = PriorPair(Discrete([0.0], [1.0]), Discrete([z], [1.0]))
        for strategy in (sensitivity, wasserstein, distribution_aware, approximate):
            bound = strategy([pair], NOISES[noise](1.0), NOTIONS[notion])
            found = float(bound.losses(1.0).max())
            if not exists(bound):
                assert found == np.inf
                continue
            assert mpmath.mpf(found) >= truth
            # a delta as small as 1e-250 moves 1,000 times as fast as the move, and one at the edge
            # of the odds e^epsilon vanishes
            edge = 1e-12 if name != "gaussian" else 2e-300
            assert found <= float(truth) * (1 + 1e-8) + edge


@pytest.mark.parametrize("delta", [1e-298, 1e-100, 1e-15])
@every_noise
def test_the_smallest_deltas_have_a_scale(noise, delta):
    pair = PriorPair(Discrete([0.0, 1.0], [0.5, 0.5]), Discrete([3.0], [1.0]))
    for strategy in ("distribution_aware", "approximate", "wasserstein", "sensitivity"):
        notion = Pufferfish(0.5, delta)
        found = calibrate([pair], notion, noise=NOISES[noise](1.0), strategy=strategy)
        pure = 3.0 if noise == "laplace" else 1e3
        assert 0.0 < found.scale <= pure / 0.5 * (1 + 1e-9)
        assert found.bound <= delta


@every_noise
def test_a_huge_epsilon_asks_for_little_noise(noise):
    pair = PriorPair(Discrete([0.0, 1.0], [0.5, 0.5]), Discrete([0.0, 2.0], [0.5, 0.5]))
    for notion in (
        Pufferfish(800.0, 1e-6),
        RenyiPufferfish(800.0, 2.0),
        RenyiPufferfish(800.0, 90.0),
    ):
        found = calibrate([pair], notion, noise=NOISES[noise](1.0), strategy="distribution_aware")
        assert 0.0 < found.scale < 1.0
        assert found.bound <= notion.budget


# Approximate Renyi: the event is what the coupling keeps


def conditioned(pair, delta):
    """Return both priors given that the move of the monotone coupling is not among the largest."""
    plans = monotone([pair])
    sources, targets, masses = plans.of_pair(0)
    order = np.argsort(-np.abs(plans.shifts[:, 0]), kind="stable")
    total = sum(masses.tolist())
    gone = np.cumsum([int(m) for m in masses[order]])
    kept = np.sort(order[[g / total > delta for g in gone]])
    assert sum(masses[kept].tolist()) / total >= 1 - delta
    return (
        Discrete.from_counts(pair.p.atoms[sources[kept]], masses[kept]),
        Discrete.from_counts(pair.q.atoms[targets[kept]], masses[kept]),
    )


@every_noise
def test_given_the_moves_that_are_kept_the_renyi_loss_is_within_the_bound(noise):
    notion = NOTIONS["approximate Renyi"]
    plain = RenyiPufferfish(notion.epsilon, notion.alpha)
    bound, factor = bound_of("approximate", noise, "approximate Renyi"), 2.0
    smaller, level = 0, level_of(noise, factor)
    for k, pair in enumerate(drawn(LINES)):
        p, q = conditioned(pair, notion.delta)
        truth = max(oracle.both_losses(oracle.lumped(p, q, level), plain))
        assert bound.losses(factor)[k].min() >= truth * (1 - 1e-9) - 1e-14
        whole = max(oracle.both_losses(oracle.lumped(*pair, level), plain))
        smaller += bound.losses(factor)[k].max() < whole
    assert smaller  # leaving moves out does buy something


# Ground costs


def test_the_ground_cost_follows_the_noise():
    shifts = np.array([[3.0, -4.0], [0.0, 0.0], [1e-3, 2.0]])
    scales = (2.0, 0.5)
    units = np.abs(shifts) / scales
    assert ground_cost(Laplace(scales), shifts) == pytest.approx(units.sum(axis=1))
    assert ground_cost(Gaussian(scales), shifts) == pytest.approx((units**2).sum(axis=1))
    for noise, k in ((Cauchy(scales), 2.0), (GeneralizedCauchy(scales, 3.5), 3.5)):
        expected = (k * np.arcsinh(units / 2)).sum(axis=1)
        assert ground_cost(noise, shifts) == pytest.approx(expected)


def test_an_l1_ground_cost_would_be_unsound_for_cauchy_noise():
    # ten columns a tenth as far lose more than one column by the whole
    one, spread = np.zeros(10), np.full(10, 0.1)
    one[0] = 1.0
    assert one.sum() == pytest.approx(spread.sum())
    losses = ground_cost(Cauchy(0.1), np.array([one, spread]))
    assert losses[1] > 2 * losses[0]
    pair = PriorPair(Discrete([np.zeros(10)], [1.0]), Discrete([spread], [1.0]))
    bound = wasserstein([pair], Cauchy(0.1), Pufferfish(1.0)).losses(1.0).max()
    assert bound == pytest.approx(10 * 2 * np.arcsinh(0.5))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(NOISES)))
def test_more_of_a_move_in_any_column_costs_and_loses_no_less(seed, noise):
    rng = np.random.default_rng(seed)
    near = 10.0 ** rng.uniform(-3, 3, (20, 3))
    far = near * rng.choice([1.0, 1.5], near.shape)
    family = NOISES[noise](tuple(10.0 ** rng.uniform(-1, 1, 3)))
    assert np.all(ground_cost(family, near) <= ground_cost(family, far) * (1 + 1e-12))
    for notion in NOTIONS.values():
        low, high = (notion.shift_loss(family, shifts) for shifts in (near, far))
        assert np.all(low <= high * (1 + 1e-11) + 1e-300)


# Combinations that do not exist


IMPOSSIBLE = [
    (sensitivity, "gaussian", "pure", "Gaussian noise.*use noise='laplace', .*Pufferfish"),
    (wasserstein, "gaussian", "pure", "every shift loses all"),
    (distribution_aware, "gaussian", "pure", "every shift loses all"),
    (tightest, "gaussian", "pure", "every shift loses all"),
    *(
        (Relaxed(), noise, "pure", "bound for Laplace noise")
        for noise in NOISES
        if noise != "laplace"
    ),
    *((Relaxed(), "laplace", notion, "pure epsilon") for notion in NOTIONS if notion != "pure"),
    *(
        (approximate, "laplace", notion, "use notion=.*delta=1e-05")
        for notion in ("pure", "Renyi 2")
    ),
    (
        distribution_aware,
        "cauchy",
        "approximate Renyi",
        "strategy='approximate' or strategy='wasserstein'",
    ),
    (exact, "laplace", "approximate Renyi", "strategy='approximate' or strategy='wasserstein'"),
    (monge, "laplace", "pure", "for discrete ones .* use strategy='exact'"),
]


@pytest.mark.parametrize(("strategy", "noise", "notion", "words"), IMPOSSIBLE)
def test_what_does_not_exist_is_infinite_and_says_what_to_use_instead(
    strategy, noise, notion, words
):
    pairs = drawn(LINES)
    bound = strategy(pairs, NOISES[noise](1.0), NOTIONS[notion])
    assert isinstance(bound, Impossible)
    for factor in (0.0, 1.0, 1e300):
        assert np.all(bound.losses(factor) == np.inf)
        assert bound.losses(factor).shape == (len(pairs), 2)
    with pytest.raises(ValueError, match=words):
        calibrate(pairs, NOTIONS[notion], noise=NOISES[noise](1.0), strategy=strategy)


def test_equal_priors_need_no_noise_even_where_no_shift_has_a_pure_loss():
    p, q = Discrete([0, 1], [0.5, 0.5]), Discrete.from_counts([0, 1], [3, 3])
    for strategy in ("wasserstein", "distribution_aware"):
        assert (
            calibrate([(p, q)], Pufferfish(1.0), noise="gaussian", strategy=strategy).scale == 0.0
        )
    point = Discrete([4.0], [1.0])
    found = calibrate([(point, point)], Pufferfish(1.0), noise="gaussian", strategy="sensitivity")
    assert found.scale == 0.0


def test_exact_has_pure_epsilon_with_gaussian_noise_where_the_extremes_are_shared():
    p, q = Discrete([0, 1, 2], [0.3, 0.4, 0.3]), Discrete([0, 1.5, 2], [0.3, 0.4, 0.3])
    found = calibrate([(p, q)], Pufferfish(0.5), noise="gaussian")
    assert 0.0 < found.scale < np.inf
    # far out the odds are those of moment generating functions, at every scale
    t = np.linspace(-20, 20, 2001)
    mgf = [np.exp(np.outer(t, prior.atoms)) @ prior.probabilities for prior in (p, q)]
    floor = np.abs(np.log(mgf[0] / mgf[1])).max()
    assert 0.1 < floor < 0.5
    losses = exact([PriorPair(p, q)], Gaussian(1e6), Pufferfish(0.5)).losses(1.0)
    assert losses.max() == pytest.approx(floor, rel=1e-3)
    with pytest.raises(ValueError, match="use another noise or notion"):
        calibrate([(p, q)], Pufferfish(0.1), noise="gaussian")
    for a, b in ((p, Discrete([0, 1], [0.5, 0.5])), (Discrete([-1, 2], [0.5, 0.5]), p)):
        with pytest.raises(ValueError, match="smallest or largest atom, as those of pair 1 do"):
            calibrate([(p, q), (a, b)], Pufferfish(0.1), noise="gaussian")


def test_without_noise_the_mean_delta_is_the_mass_that_moves():
    p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75])
    for strategy, expected in ((distribution_aware, 0.25), (approximate, 0.25), (wasserstein, 1.0)):
        bound = strategy([PriorPair(p, q)], Laplace(), Pufferfish(1.0, delta=0.1))
        assert bound.losses(0.0) == pytest.approx(expected)
    found = calibrate([(p, q)], Pufferfish(1.0, delta=0.25), strategy="approximate")
    assert found.scale == 0.0


def test_masses_too_small_for_a_float_still_count():
    # the far atoms have probability below 1e-600 in the coupling, and the Renyi loss sees them
    huge = 10**700
    p = Discrete.from_counts([0, 1e9], [huge, 1])
    q = Discrete.from_counts([0], [1])
    bound = distribution_aware([PriorPair(p, q)], Laplace(), RenyiPufferfish(1.0, 2.0))
    truth = 1e9 - 700 * np.log(10)  # log(1 + e^(10^9) 10^-700 2/3), roughly
    assert bound.losses(1.0).max() >= truth
    assert bound.losses(0.0).max() == np.inf


@pytest.mark.parametrize("noise", ["gaussian", "cauchy"])
@pytest.mark.parametrize("notion", ["delta", "Renyi 2"])
def test_scales_and_atoms_of_any_size_give_the_same_scale_in_their_unit(noise, notion):
    for strategy in ("distribution_aware", "approximate", "wasserstein"):
        if strategy == "approximate" and notion == "Renyi 2":
            continue
        scales = []
        for unit in (1e-12, 1.0, 1e12):
            pair = Discrete([0, unit], [0.5, 0.5]), Discrete([0, 3 * unit], [0.4, 0.6])
            template = NOISES[noise](1e-3)
            found = calibrate([pair], NOTIONS[notion], noise=template, strategy=strategy)
            scales.append(found.scale / unit)
        assert scales == pytest.approx([scales[1]] * 3, rel=1e-9)
