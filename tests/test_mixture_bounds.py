"""Strategies on Gaussian mixtures: plans between components, means of Gaussian shifts, bounds."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import mpmath as mp
import numpy as np
import pytest
from all_pairs import pairs_first
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from scipy.special import log_ndtr

from sklearn_puffer import bounds
from sklearn_puffer._strategies.shift_means import log_exponential_means, mean_losses, tails
from sklearn_puffer._strategies.transport import (
    Network,
    bottleneck_coupling,
    cheapest_coupling,
    shortest_coupling,
    squared_distances,
    stretches,
)
from sklearn_puffer.bounds import Impossible, Relaxed
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair, rational_counts

NOISES = [Laplace(1.0), Gaussian(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 4.0)]
PURE, CHANCE = Pufferfish(1.0), Pufferfish(1.0, 1e-3)
RENYI = RenyiPufferfish(1.0, alpha=2.0)


def gaussian(mean, sd):
    return GaussianMixture([1.0], [mean], [sd])


PAIR = PriorPair(
    GaussianMixture([0.3, 0.7], [0.0, 4.0], [1.0, 0.5]),
    GaussianMixture([0.6, 0.4], [1.0, 4.5], [1.2, 0.7]),
)
STILL = PriorPair(
    GaussianMixture([0.25, 0.75], [0.0, 4.0], [1.0, 2.0]),
    GaussianMixture([0.75, 0.25], [5.0, 0.5], [2.0, 1.0]),
)


@st.composite
def mixtures(draw, most=3):
    size = draw(st.integers(1, most))
    counts = draw(st.lists(st.integers(1, 20), min_size=size, max_size=size))
    means = draw(st.lists(st.floats(-5.0, 5.0), min_size=size, max_size=size))
    scales = draw(st.lists(st.floats(0.05, 3.0), min_size=size, max_size=size))
    return GaussianMixture(np.array(counts) / sum(counts), means, scales)


# ---------------------------------------------------------------------------------------- the plan


@given(mixtures(5), mixtures(5), st.integers(0, 10**6))
@settings(max_examples=40)
def test_the_cheapest_plan_keeps_both_marginals_exactly_and_costs_least(p, q, seed):
    costs = np.random.default_rng(seed).integers(0, 9, (p.n_components, q.n_components)) + 0.0
    plan = cheapest_coupling(p, q, costs)
    for side, ends in ((p, plan.sources), (q, plan.targets)):
        held = [sum(plan.masses[ends == k].tolist()) for k in range(side.n_components)]
        counts = rational_counts(side.weights).tolist()
        assert [h * sum(counts) for h in held] == [n * sum(held) for n in counts]
    rows = np.kron(np.eye(len(p.weights)), np.ones(len(q.weights)))
    columns = np.kron(np.ones(len(p.weights)), np.eye(len(q.weights)))
    best = linprog(
        costs.ravel(),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([p.weights, q.weights]),
        method="highs",
    )
    mean = plan.weights @ costs[plan.sources, plan.targets]
    assert mean == pytest.approx(best.fun, abs=1e-9)


@given(
    st.lists(st.integers(1, 30), min_size=4, max_size=4),
    st.lists(st.integers(0, 15), min_size=16, max_size=16),
)
def test_a_flow_over_allowed_cells_exists_if_and_only_if_halls_condition_holds(left, bits):
    allowed = np.array(bits).reshape(4, 4) > 6
    right = left[::-1]
    costs = np.where(allowed, 1.0, np.inf)
    flow = Network(
        costs, *(np.array(side, dtype=object) for side in (left, right))
    ).bottleneck_flow()
    rows = [[i for i in range(4) if chosen >> i & 1] for chosen in range(16)]
    feasible = all(
        sum(left[i] for i in some)
        <= sum(right[j] for j in range(4) if any(allowed[i, j] for i in some))
        for some in rows
    )
    assert bool(allowed[flow > 0].all()) == feasible
    assert flow.min() >= 0
    assert flow.sum(axis=1).tolist() == left
    assert flow.sum(axis=0).tolist() == right


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_the_shortest_plan_of_equal_weights_is_the_best_assignment(size, seed):
    random = np.random.default_rng(seed)
    p, q = (
        GaussianMixture(
            np.full(size, 1 / size), random.normal(size=size), random.uniform(0.1, 2.0, size)
        )
        for _ in range(2)
    )
    costs = squared_distances(p, q)
    plan = shortest_coupling(p, q)
    best = costs[linear_sum_assignment(costs)].mean()
    assert float(plan.weights @ costs[plan.sources, plan.targets]) == pytest.approx(best, abs=1e-9)


@given(st.integers(1, 5), st.integers(0, 10**6))
def test_the_bottleneck_plan_has_the_smallest_maximum(size, seed):
    random = np.random.default_rng(seed)
    p, q = (GaussianMixture(np.full(size, 1 / size), np.zeros(size), np.ones(size)) for _ in "pq")
    costs = random.integers(0, 9, size=(size, size)).astype(float)
    plan = bottleneck_coupling(p, q, costs)
    worst = [max(costs[i, j] for i, j in enumerate(order)) for order in permutations(range(size))]
    assert costs[plan.sources, plan.targets].max() == min(worst)


@given(mixtures(5), mixtures(5))
@settings(max_examples=40)
def test_the_shortest_plan_has_the_marginals_of_the_mixtures(p, q):
    plan = shortest_coupling(p, q)
    dense = np.zeros((p.n_components, q.n_components))
    dense[plan.sources, plan.targets] = plan.weights
    np.testing.assert_allclose(dense.sum(axis=1), p.weights, rtol=1e-14)
    np.testing.assert_allclose(dense.sum(axis=0), q.weights, rtol=1e-14)


def test_masses_far_below_rounding_are_moved_as_well():
    p = GaussianMixture([1.0 - 1e-12, 1e-12 * (1 - 1e-8), 1e-20], [0.0, 1.0, 50.0], [1.0, 1.0, 1.0])
    plan = shortest_coupling(p, gaussian(0.0, 1.0))
    assert set(plan.shifts.ravel()) == {0.0, 1.0, 50.0}
    assert plan.weights.min() == pytest.approx(1e-20, rel=1e-6)


def test_weights_that_differ_in_their_last_digit_do_not_fake_a_far_move():
    third = [0.1 + 0.2, 0.7]  # 0.30000000000000004
    p, q = (GaussianMixture(w, [0.0, 100.0], [1.0, 1.0]) for w in (third, [0.3, 0.7]))
    plan = shortest_coupling(p, q)
    far = plan.weights[np.abs(plan.shifts[:, 0]) > 0.0]
    assert far.sum() < 1e-15  # what the weights differ by, and no more
    same = shortest_coupling(p, p)
    assert not same.shifts.any()


def test_rows_are_coupled_by_the_bures_distance():
    a, b = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 0.0], [0.0, 3.0]])
    p, q = GaussianMixture([1.0], [[0.0, 1.0]], [a]), GaussianMixture([1.0], [[2.0, 1.0]], [b])
    root = np.array(mp.sqrtm(mp.matrix(a)).tolist(), dtype=float)
    cross = np.array(mp.sqrtm(mp.matrix(root @ b @ root)).tolist(), dtype=float)
    expected = 4.0 + np.trace(a + b - 2.0 * cross)
    assert squared_distances(p, q)[0, 0] == pytest.approx(expected, rel=1e-12)
    assert stretches(p, q).tolist() == [[np.inf]]
    assert stretches(p, p).tolist() == [[0.0]]


# ------------------------------------------------------------------------- means of Gaussian shifts


def stick(noise, z, epsilon):
    """Return the hockey stick of a shift at scale 1, from closed forms."""
    z = abs(z)
    if isinstance(noise, Laplace):
        return max(mp.mpf(0), 1 - mp.e ** ((epsilon - z) / 2))
    return mp.ncdf(z / 2 - epsilon / z) - mp.e**epsilon * mp.ncdf(-z / 2 - epsilon / z)


def power(noise, z, alpha):
    """Return e^((alpha - 1) D_alpha) of a shift at scale 1, from closed forms."""
    z, c = abs(z), mp.mpf(alpha) - 1
    if isinstance(noise, Laplace):
        return (alpha * mp.e ** (c * z) + c * mp.e ** (-alpha * z)) / (2 * alpha - 1)
    return mp.e ** (alpha * c * z * z / 2)


def gaussian_mean(function, m, s, kinks=()):
    with mp.workdps(18):
        edges = [-12, -6, -3, -1, 0, 1, 3, 6, 12]
        turns = [(sign * kink - m) / s for kink in kinks for sign in (-1, 1)]
        points = sorted({mp.mpf(e) for e in edges} | {mp.mpf(t) for t in turns if abs(t) < 12})
        return mp.quad(lambda t: mp.npdf(t) * function(m + s * t), points)


@pytest.mark.parametrize(
    ("noise", "epsilon", "move"),
    pairs_first(
        product([Laplace(1.0)], [0.3, 4.0], [(2.0, 0.3), (0.5, 4.0), (3.0, 1e-3)]),
        lambda noise, epsilon, move: move[1] > 0.1,
    ),
)
def test_the_mean_hockey_stick_is_bounded_closely(noise, epsilon, move):
    m, s = move
    notion = Pufferfish(epsilon, 1e-4)
    exact = float(gaussian_mean(lambda z: stick(noise, z, epsilon), m, s, [epsilon]))
    for factor in (1.0, 0.5, 40.0):
        moves = np.array([m * factor]), np.array([s * factor])
        got = mean_losses(*moves, noise, factor, notion)[0]
        assert exact * (1.0 - 1e-9) <= got <= exact + 1e-11 * max(exact, notion.delta) + 1e-290


@pytest.mark.parametrize(
    ("noise", "alpha", "move"),
    pairs_first(product(NOISES[:2], [1.125, 2.0, 3.5], [(1.0, 0.1), (3.0, 1e-3), (1e-3, 1e-4)])),
)
def test_the_mean_power_is_bounded_closely(noise, alpha, move):
    m, s = move
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)  # no kink, and analytic far around
    powers = [power(noise, m + s * mp.mpf(float(node)), alpha) for node in nodes]
    extra = mp.fsum(float(w) * (p - 1) for w, p in zip(weights, powers, strict=True))
    exact = float(mp.log1p(extra / mp.sqrt(2 * mp.pi)))
    moves = np.array([m]), np.array([s])
    got = mean_losses(*moves, noise, 1.0, RenyiPufferfish(1.0, alpha))
    assert exact * (1.0 - 1e-9) - 1e-15 <= got[0] <= exact * (1.0 + 1e-3) + 1e-13


def test_the_mean_power_of_gaussian_noise_is_infinite_from_its_limit_on():
    limit, given = np.sqrt(0.5), (Gaussian(1.0), 1.0, RenyiPufferfish(1.0, 2.0))
    least, most = (np.array([s]) for s in (limit * (1.0 - 1e-9), limit))  # finite while 2 s^2 < 1
    assert np.isfinite(mean_losses(np.array([1.0]), least, *given))[0]
    assert np.isinf(mean_losses(np.array([1.0]), most, *given))[0]


@given(st.floats(-50.0, 50.0), st.floats(0.0, 60.0), st.floats(1e-3, 20.0))
@settings(max_examples=60)
def test_exponential_means_and_tails_are_rounded_up(c, m, s):
    with mp.workdps(50):
        cm, ms, ss = mp.mpf(c), mp.mpf(m), mp.mpf(s)
        sides = [
            mp.e ** (sign * cm * ms + (cm * ss) ** 2 / 2) * mp.ncdf(sign * ms / ss + cm * ss)
            for sign in (1, -1)
        ]
        exact = float(mp.log(sum(sides)))
        tail = float(mp.ncdf((ms - 2) / ss) + mp.ncdf((-ms - 2) / ss))
    got = float(log_exponential_means(c, np.array([m]), np.array([s]))[0])
    assert (
        exact - 1e-15 * (1 + abs(exact)) <= got <= exact + 1e-9 * (1.0 + abs(exact))
        or c < 0 <= got + 1e-9
    )
    assert tail * (1.0 - 1e-15) <= tails(np.array([2.0]), np.array([m]), np.array([s]))[0]


# ------------------------------------------------------------------------------------ the true loss


def log_density(prior, noise, y):
    """Return the log density of a mixture plus Laplace or Gaussian noise."""
    b = noise.scale
    if isinstance(noise, Gaussian):
        sd = np.hypot(prior.scales, b)
        t = (y[:, None] - prior.means) / sd
        parts = -0.5 * t * t - np.log(sd * np.sqrt(2.0 * np.pi))
    else:
        t, c = (y[:, None] - prior.means) / prior.scales, prior.scales / b
        parts = np.logaddexp(-c * t + log_ndtr(t - c), c * t + log_ndtr(-t - c))
        parts = parts + c * c / 2.0 - np.log(2.0 * b)
    return np.logaddexp.reduce(np.log(prior.weights) + parts, axis=1)


def true_loss(p, q, noise, notion):
    """Return the loss of p against q by quadrature on a grid, from below but for its error."""
    means = np.concatenate([p.means, q.means])
    width = 40.0 * noise.scale + 12.0 * max(p.scales.max(), q.scales.max())
    y = np.linspace(means.min() - width, means.max() + width, 20_001)
    log_p, log_q = log_density(p, noise, y), log_density(q, noise, y)
    if isinstance(notion, RenyiPufferfish):
        logs = notion.alpha * log_p - (notion.alpha - 1.0) * log_q
        return np.log(np.trapezoid(np.exp(logs), y)) / (notion.alpha - 1.0)
    if notion.delta == 0.0:
        return float((log_p - log_q).max())
    excess = np.exp(log_p) * -np.expm1(np.minimum(notion.epsilon + log_q - log_p, 0.0))
    return float(np.trapezoid(excess, y))


@pytest.mark.slow
@given(mixtures(), mixtures(), st.floats(0.3, 5.0), st.floats(0.05, 3.0), st.booleans())
@settings(max_examples=20)
def test_no_bound_is_below_the_true_hockey_stick(p, q, b, epsilon, of_laplace):
    noise, notion = (Laplace if of_laplace else Gaussian)(1.0), Pufferfish(epsilon, 1e-3)
    level = noise.with_scale(b)
    for strategy in (bounds.approximate, bounds.distribution_aware):
        forward, backward = strategy([PriorPair(p, q)], noise, notion).losses(b)[0]
        assert forward >= true_loss(p, q, level, notion) * (1.0 - 1e-4) - 1e-9
        assert backward >= true_loss(q, p, level, notion) * (1.0 - 1e-4) - 1e-9


@pytest.mark.slow
@given(
    mixtures(), mixtures(), st.floats(0.5, 5.0), st.sampled_from([1.25, 2.0, 4.0]), st.booleans()
)
@settings(max_examples=30)
def test_no_average_is_below_the_true_renyi_divergence(p, q, b, alpha, of_laplace):
    noise, notion = (Laplace if of_laplace else Gaussian)(1.0), RenyiPufferfish(1.0, alpha)
    bound = bounds.distribution_aware([PriorPair(p, q)], noise, notion).losses(b)[0]
    level = noise.with_scale(b)
    assume(np.any(bound < 20.0))  # quadratures overflow beyond
    for (one, other), loss in zip(((p, q), (q, p)), bound, strict=True):
        if loss < 20.0:
            assert loss >= true_loss(one, other, level, notion) * (1.0 - 1e-4) - 1e-6


@pytest.mark.slow
@given(mixtures(), mixtures(), st.floats(0.3, 5.0))
@settings(max_examples=30)
def test_relaxed_is_never_below_the_true_pure_loss_in_either_direction(p, q, b):
    bound = Relaxed()([PriorPair(p, q)], Laplace(1.0), PURE).losses(b)[0]
    for (one, other), loss in zip(((p, q), (q, p)), bound, strict=True):
        assert loss >= true_loss(one, other, Laplace(b), PURE) * (1.0 - 1e-9) - 1e-9


@pytest.mark.parametrize(
    ("m", "variance", "b"), [(1.0, 3.0, 2.0), (0.0, 1.0, 1.0), (2.0, 0.1, 5.0)]
)
def test_relaxed_of_gaussians_is_the_mean_over_the_difference_of_the_variances(m, variance, b):
    pair = PriorPair(gaussian(m, np.sqrt(2.0 + variance)), gaussian(0.0, np.sqrt(2.0)))
    exact = mp.log(gaussian_mean(lambda z: mp.e ** (abs(z) / b), m, mp.sqrt(variance), [0]))
    for way in (pair, PriorPair(pair.q, pair.p)):
        losses = Relaxed()([way], Laplace(1.0), PURE).losses(b)
        assert losses[0] == pytest.approx([float(exact)] * 2, rel=1e-9)


# --------------------------------------------------------------------------------------- the bounds


PAIRS = {"stretched": PAIR, "translated": STILL}


@pytest.mark.parametrize(
    ("noise", "notion", "pair"), pairs_first(product(NOISES, [CHANCE, RENYI], PAIRS))
)
def test_bounds_never_rise_with_the_noise(noise, notion, pair):
    factors = np.concatenate([[0.0], np.logspace(-3, 4, 36)])
    strategies = [bounds.approximate, bounds.distribution_aware, bounds.wasserstein]
    for strategy in strategies:
        bound = strategy([PAIRS[pair]], noise, notion)
        losses = np.array([bound.losses(float(factor)).max() for factor in factors])
        assert (losses[1:] <= losses[:-1] * (1.0 + 1e-9) + 1e-290).all()
        if not isinstance(bound, Impossible):
            assert losses[-1] < losses[0]


@pytest.mark.parametrize("noise", NOISES[:2], ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("pair", [PAIR, STILL], ids=["stretched", "translated"])
@pytest.mark.parametrize(
    "factor", [2.0, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.3, 9.0))]
)
def test_the_average_is_within_the_tail_form_and_the_largest_move(noise, pair, factor):
    for notion, other in [
        (CHANCE, bounds.approximate),
        (CHANCE, bounds.wasserstein),
        (RENYI, bounds.wasserstein),
    ]:
        bound = bounds.distribution_aware([pair], noise, notion)
        if isinstance(bound, Impossible):  # the mean of a stretch that is not known
            assert pair is PAIR
            assert notion is CHANCE
            continue
        average = bound.losses(factor)
        assert (average <= other([pair], noise, notion).losses(factor) * (1.0 + 1e-4)).all()


def test_without_a_stretch_the_average_is_that_of_the_shifts():
    # the plan of translations and the shortest one are the same here
    noise, m = Laplace(1.0), np.array([0.5, 1.0])
    expected = 0.25 * stick(noise, m[0] / 0.4, 1.0) + 0.75 * stick(noise, m[1] / 0.4, 1.0)
    average = bounds.distribution_aware([STILL], noise, CHANCE).losses(0.4)
    assert average[0] == pytest.approx([float(expected)] * 2, rel=1e-10)
    powers = 0.25 * power(noise, m[0] / 0.4, 2) + 0.75 * power(noise, m[1] / 0.4, 2)
    average = bounds.distribution_aware([STILL], noise, RENYI).losses(0.4)
    assert average[0] == pytest.approx([float(mp.log(powers))] * 2, rel=1e-10)


def test_translations_lose_the_largest_shift_under_every_notion():
    assert bounds.wasserstein([STILL], Laplace(1.0), PURE).losses(2.0)[0] == pytest.approx(0.5)
    pure = bounds.wasserstein([STILL], Cauchy(1.0), PURE).losses(2.0)[0]
    assert pure == pytest.approx(2.0 * np.arcsinh(0.25))
    same = bounds.distribution_aware([STILL], Cauchy(1.0), PURE).losses(2.0)
    assert (same[0] == pure).all()
    renyi = bounds.wasserstein([STILL], Gaussian(1.0), RENYI).losses(2.0)[0]
    assert renyi == pytest.approx(0.25)


def test_the_largest_move_is_taken_over_translations_even_where_a_shorter_plan_stretches():
    p = GaussianMixture([0.5, 0.5], [0.0, 10.0], [1.0, 1.1])
    q = GaussianMixture([0.5, 0.5], [0.0, 10.0], [1.1, 1.0])
    assert shortest_coupling(p, q).stretches.max() > 0.0
    pair = PriorPair(p, q)
    assert bounds.wasserstein([pair], Laplace(1.0), PURE).losses(10.0)[0] == pytest.approx(1.0)
    close = bounds.distribution_aware([pair], Laplace(1.0), CHANCE).losses(1.0)
    assert close.max() < 0.2  # by the shortest plan


@pytest.mark.parametrize("strategy", [bounds.approximate, bounds.distribution_aware])
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_equal_priors_lose_nothing_at_all_even_without_noise(strategy, noise):
    pair = PriorPair(PAIR.p, PAIR.p)
    for factor in (0.0, 1e-9, 1.0):
        assert not strategy([pair], noise, CHANCE).losses(factor).any()
        assert not bounds.wasserstein([pair], noise, PURE).losses(factor).any()
    assert not Relaxed()([pair], Laplace(1.0), PURE).losses(0.0).any()


def test_without_noise_what_moves_is_lost():
    partly = PriorPair(
        GaussianMixture([0.25, 0.75], [0.0, 3.0], [1.0, 1.0]),
        GaussianMixture([0.25, 0.75], [1.0, 3.0], [1.0, 1.0]),
    )
    for strategy in (bounds.approximate, bounds.distribution_aware):
        losses = strategy([partly], Laplace(1.0), Pufferfish(1.0, 0.1)).losses(0.0)
        assert losses[0] == pytest.approx([0.25] * 2)
    assert np.isinf(bounds.wasserstein([partly], Laplace(1.0), PURE).losses(0.0)).all()
    assert np.isinf(bounds.distribution_aware([partly], Laplace(1.0), RENYI).losses(0.0)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "unit", "budget"),
    pairs_first(product(NOISES, [1e-12, 1e12], [(1e-6, 0.9), (1.0, 1e-300), (800.0, 1e-9)])),
)
def test_extreme_units_and_budgets_give_sound_numbers_without_warnings(noise, unit, budget):
    p = GaussianMixture([0.5, 0.5], [0.0, unit], [unit, 1e-9 * unit])
    q = GaussianMixture([0.5, 0.5], [0.0, unit], [2.0 * unit, 1e-9 * unit])
    for strategy in (bounds.approximate, bounds.distribution_aware):
        bound = strategy([PriorPair(p, q)], noise, Pufferfish(*budget))
        assert 0.0 < bound.guess < np.inf
        for factor in (0.0, 1e-300, 1e-12, 1.0, 1e12, 1e300):
            losses = bound.losses(factor)
            most = np.inf if isinstance(bound, Impossible) else 1.0
            assert ((losses >= 0.0) & (losses <= most)).all()
    for alpha in (1.01, 20.0):
        bound = bounds.distribution_aware([PriorPair(p, q)], noise, RenyiPufferfish(1.0, alpha))
        for factor in (0.0, 1e-300, 1e-12, 1e12, 1e300):
            assert (bound.losses(factor) >= 0.0).all()


@pytest.mark.parametrize(
    ("noise", "notion"), [c for c in product(NOISES, [CHANCE, RENYI]) if c != (NOISES[1], CHANCE)]
)
def test_stretched_moves_lose_no_more_under_noise_of_absurd_size(noise, notion):
    pair = PriorPair(gaussian(0.0, 1e-12), gaussian(1e6, 1e6))
    bound = bounds.distribution_aware([pair], noise, notion)
    factors = [1e12, 1e100, 1e140, 1e155, 1e200, 1e300]
    worst = [float(bound.losses(factor).max()) for factor in factors]
    assert max(worst) <= worst[0] * (1.0 + 1e-4) < 1e-11


@pytest.mark.parametrize(
    "noise",
    [*NOISES[:2], *(pytest.param(noise, marks=pytest.mark.slow) for noise in NOISES[2:])],
    ids=lambda noise: type(noise).__name__,
)
def test_renyi_losses_beyond_floats_are_infinite_without_warnings(noise):
    pair = PriorPair(gaussian(0.0, 1.0), gaussian(1e6, 1.0))
    steep = RenyiPufferfish(1.0, alpha=1e4)
    assert np.all(bounds.distribution_aware([pair], noise, steep).losses(1e-299) > 1e3)
    rows = [GaussianMixture([1.0], [[mean, 0.0]], [np.eye(2)]) for mean in (0.0, 1e6)]
    assert np.all(bounds.distribution_aware([PriorPair(*rows)], noise, steep).losses(1e-299) > 1e3)


def test_bounds_keep_pairs_apart():
    together = bounds.distribution_aware([PAIR, STILL, PAIR], Laplace(1.0), CHANCE).losses(2.0)
    alone = bounds.distribution_aware([PAIR], Laplace(1.0), CHANCE).losses(2.0)
    assert (together[0] == alone[0]).all()
    assert (together[2] == alone[0]).all()
    assert (together[1] != alone[0]).all()


# --------------------------------------------------------------------------------------------- rows


ROWS = PriorPair(
    GaussianMixture([1.0], [[0.0, 0.0]], [[[1.0, 0.5], [0.5, 2.0]]]),
    GaussianMixture([1.0], [[1.0, -2.0]], [[[1.0, 0.5], [0.5, 2.0]]]),
)
TURNED = PriorPair(ROWS.p, GaussianMixture([1.0], [[1.0, -2.0]], [[[1.0, 0.0], [0.0, 2.0]]]))


def test_rows_with_a_common_covariance_lose_the_shift_of_their_means():
    noise = Laplace((2.0, 1.0))
    assert bounds.wasserstein([ROWS], noise, PURE).losses(1.0)[0] == pytest.approx(2.5)
    assert Relaxed()([ROWS], noise, PURE).losses(1.0)[0] == pytest.approx(2.5)
    gaussian_noise, z = Gaussian((2.0, 1.0)), np.hypot(0.5, 2.0)
    for strategy in (bounds.distribution_aware, bounds.approximate):
        exact = float(stick(Gaussian(1.0), mp.mpf(z), 1.0))
        assert strategy([ROWS], gaussian_noise, CHANCE).losses(1.0)[0] == pytest.approx(exact)
    renyi = bounds.distribution_aware([ROWS], gaussian_noise, RENYI).losses(1.0)[0]
    assert renyi == pytest.approx(z * z)


def test_rows_leave_out_far_moves_of_small_probability():
    covariance = np.eye(2)
    p = GaussianMixture([0.995, 0.005], [[0.0, 0.0], [5.0, 5.0]], [covariance] * 2)
    q = GaussianMixture([0.995, 0.005], [[0.5, 0.0], [50.0, 5.0]], [covariance] * 2)
    notion = Pufferfish(1.0, 0.01)
    chance = bounds.approximate([PriorPair(p, q)], Laplace(1.0), notion).losses(1.0)[0]
    assert chance == pytest.approx([0.005] * 2, rel=0.1)


def test_rows_that_are_no_translations_are_refused_with_the_ways_out():
    bound = bounds.approximate([TURNED], Laplace(1.0), CHANCE)
    assert isinstance(bound, Impossible)
    assert "use noise='laplace' with strategy='exact'" in bound.reason
    assert bound.losses(1.0).tolist() == [[np.inf, np.inf]]


# ------------------------------------------------------------------------------------- the refusals


REFUSED = [
    (bounds.sensitivity, STILL, Laplace(1.0), PURE, "alphabet"),
    (bounds.wasserstein, PAIR, Laplace(1.0), PURE, "equal scales"),
    (bounds.distribution_aware, PAIR, Laplace(1.0), PURE, "'distribution_aware'"),
    (bounds.wasserstein, STILL, Gaussian(1.0), PURE, "every shift loses all"),
    (Relaxed(), TURNED, Laplace(1.0), PURE, "equal covariances"),
    (Relaxed(), PAIR, Gaussian(1.0), CHANCE, "Laplace noise"),
    (bounds.approximate, PAIR, Laplace(1.0), PURE, "delta="),
    (bounds.approximate, PAIR, Laplace(1.0), RENYI, "give delta=1e-05 with alpha=None"),
    (bounds.monge, PAIR, Gaussian(1.0), CHANCE, "Laplace noise"),
    (bounds.monge, PAIR, Laplace(1.0), RENYI, "(epsilon, delta)"),
    (bounds.monge, PAIR, Laplace(1.0), PURE, "same weights and scales"),
    (bounds.monge, ROWS, Laplace(1.0), CHANCE, "one column"),
]


@pytest.mark.parametrize(("strategy", "pair", "noise", "notion", "words"), REFUSED)
def test_what_does_not_exist_is_refused_with_the_reason(strategy, pair, noise, notion, words):
    bound = strategy([pair, pair], noise, notion)
    assert isinstance(bound, Impossible)
    assert words in bound.reason
    assert "use " in bound.reason or "give " in bound.reason
    assert np.isinf(bound.losses(3.0)).all()
    assert bound.losses(3.0).shape == (2, 2)


def test_the_claim_of_monge_scales_with_the_template():
    notion = Pufferfish(0.5, 0.01)
    one = bounds.monge([PAIR], Laplace(1.0), notion).losses(3.0)
    assert bounds.monge([PAIR], Laplace(1.5), notion).losses(2.0) == pytest.approx(one)
    assert bounds.monge([PAIR], Laplace(1.0), notion).losses(0.0).tolist() == [[np.inf] * 2]


def test_the_masses_of_a_plan_are_fractions_of_the_weights():
    p = GaussianMixture([0.3, 0.7], [0.0, 9.0], [1.0, 1.0])
    q = GaussianMixture([0.5, 0.5], [0.0, 9.0], [1.0, 1.0])
    exact = {Fraction(3, 10), Fraction(1, 5), Fraction(1, 2)}
    assert set(shortest_coupling(p, q).weights) == {float(part) for part in exact}
