"""Exact losses for every noise and notion against 50-digit quadrature and closed forms."""

import json
import math
from itertools import product
from pathlib import Path

import loss_oracle as oracle
import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sklearn_puffer._losses import Panels, quadrature
from sklearn_puffer._losses.discrete_distributions import DiscretePair
from sklearn_puffer._losses.divergences import (
    divergence_interval,
    gaps,
)
from sklearn_puffer.accounting import LossTable, is_computable, privacy_loss
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

GOLDEN = json.loads(Path(__file__).with_name("golden_losses.json").read_text(encoding="utf-8"))
NOISES = [Laplace(0.8), Gaussian(0.8), Cauchy(0.8), GeneralizedCauchy(0.8, 3.5)]
NOTIONS = [Pufferfish(1.0), Pufferfish(0.3, 1e-5), RenyiPufferfish(1.0, 2.0)]
NAMES = {Laplace: "laplace", Gaussian: "gaussian", Cauchy: "cauchy", GeneralizedCauchy: "k"}
SUM_NOTIONS = NOTIONS[1:]
ANGLES = np.linspace(0.0, np.pi, 7)

noises = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: NAMES[type(noise)])
notions = pytest.mark.parametrize("notion", NOTIONS, ids=["pure", "delta", "renyi"])


def ends(p, q, noise, notion):
    lower, upper = LossTable([PriorPair(p, q)], notion).intervals(noise)
    return lower[0], upper[0]


def truth(p, q, noise, notion):
    if isinstance(notion, RenyiPufferfish):
        return oracle.renyi(p, q, noise, notion.alpha)
    if notion.delta > 0.0:
        return oracle.delta(p, q, noise, notion.epsilon)
    return oracle.supremum(p, q, noise)


def assert_holds_the_truth(p, q, noise, notion):
    exact = truth(p, q, noise, notion)
    lower, upper = (end[0] for end in ends(p, q, noise, notion))
    dust = mpmath.mpf(10) ** -30
    assert exact <= upper + dust
    if notion.budget == notion.epsilon and isinstance(notion, Pufferfish):
        if lower == math.inf:  # of the oracle's points none lies at infinity
            assert isinstance(noise, Gaussian)
            return
        # and so it may be a hair too small
        assert lower <= exact + mpmath.mpf(10) ** -15 * (1 + exact)
    else:
        assert lower - dust <= exact
    if isinstance(notion, RenyiPufferfish):
        assert upper - lower <= 1e-8 * upper + 1e-11 * (1.0 + 1.0 / (notion.alpha - 1.0))
    else:
        assert upper - lower <= 1e-9 * upper + 1e-14


def takes_long(noise, notion):
    """Whether a quadrature of powers takes a second."""
    return notion == NOTIONS[2] and not isinstance(noise, Laplace)


@pytest.mark.parametrize(
    ("noise", "notion"),
    [
        pytest.param(*case, marks=pytest.mark.slow if takes_long(*case) else ())
        for case in product(NOISES, NOTIONS)
    ],
)
def test_the_interval_holds_a_50_digit_quadrature(noise, notion):
    p, q = Discrete.from_counts([0, 1], [3, 1]), Discrete.from_counts([0, 1], [1, 4])
    assert_holds_the_truth(p, q, noise, notion)


def random_case(rng):
    """Few atoms, scales from a hundredth to ten times the range, all families and notions."""
    size = int(rng.integers(2, 5))
    atoms = np.sort(rng.choice(np.arange(12), size, replace=False)) * rng.choice([1.0, 0.37, 100.0])
    counts = rng.integers(0, 9, (2, size))
    counts[0, 0] += 1
    counts[1, -1 if rng.random() < 0.3 else 0] += 1
    if rng.random() < 0.5:
        counts[:, -1] += 1
    scale = float((atoms[-1] - atoms[0]) * 10.0 ** rng.uniform(-1.5, 1.0))
    k = float(rng.uniform(1.5, 6.0))
    noise = [Laplace(scale), Gaussian(scale), Cauchy(scale), GeneralizedCauchy(scale, k)]
    notion = [
        Pufferfish(1.0),
        Pufferfish(float(rng.choice([0.05, 0.3, 1.0, 2.0])), 1e-5),
        RenyiPufferfish(1.0, float(rng.choice([1.1, 2.0, 5.0, 20.0]))),
    ]
    p, q = (Discrete.from_counts(atoms, row) for row in counts)
    return p, q, noise[int(rng.integers(4))], notion[int(rng.integers(3))]


@pytest.mark.slow
def test_random_pairs_hold_50_digit_quadratures():
    rng = np.random.default_rng(1)
    for _ in range(4):
        assert_holds_the_truth(*random_case(rng))


# Closed forms: one atom each is a shift.


def shift(z):
    return Discrete.from_counts([0.0], [1]), Discrete.from_counts([z], [1])


@pytest.mark.parametrize(("z", "epsilon"), [(1.0, 0.5), (3.0, 0.1), (0.2, 0.19), (40.0, 2.0)])
def test_a_laplace_shift_loses_its_closed_delta(z, epsilon):
    lower, upper = ends(*shift(z), Laplace(1.0), Pufferfish(epsilon, 1e-5))
    exact = -mpmath.expm1((mpmath.mpf(epsilon) - mpmath.mpf(z)) / 2)
    assert np.all(lower <= float(exact) * (1 + 1e-15))
    assert np.all(upper >= float(exact) * (1 - 1e-15))
    assert upper == pytest.approx(float(exact), rel=1e-12)


def test_the_delta_of_design_6_11_is_reproduced():
    loss = privacy_loss(*shift(1.0), Laplace(1.0), Pufferfish(0.5, 1e-5))
    assert loss.upper == pytest.approx(0.221199216928595, rel=1e-13)


@pytest.mark.parametrize(("z", "epsilon"), [(1.0, 0.5), (0.1, 1.0), (5.0, 3.0), (0.3, 2.5)])
def test_a_gaussian_shift_loses_its_closed_delta_down_to_1e_15(z, epsilon):
    lower, upper = ends(*shift(z), Gaussian(1.0), Pufferfish(epsilon, 1e-5))
    with mpmath.workdps(50):
        u, e = mpmath.mpf(z), mpmath.mpf(epsilon)
        tail = mpmath.ncdf(-e / u + u / 2) - mpmath.exp(e) * mpmath.ncdf(-e / u - u / 2)
    assert np.all(lower <= tail)
    assert np.all(tail <= upper)
    assert np.all(upper - lower <= 1e-8 * upper)


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 2.0, 30.0, 1000.0])
@pytest.mark.parametrize("z", [0.1, 2.0])
def test_gaussian_and_laplace_shifts_lose_their_closed_renyi_divergences(alpha, z):
    width = 1e-9 + 1e-11 / (alpha - 1.0)
    lower, upper = ends(*shift(z), Gaussian(1.0), RenyiPufferfish(1.0, alpha))
    assert np.all(lower <= alpha * z * z / 2 * (1 + 1e-15))
    assert np.all(upper >= alpha * z * z / 2 * (1 - 1e-15))
    assert np.all(upper - lower <= width * (1 + upper))
    with mpmath.workdps(50):
        a, t = mpmath.mpf(alpha), mpmath.mpf(z)
        parts = a * mpmath.exp((a - 1) * t) + (a - 1) * mpmath.exp(-a * t)
        exact = mpmath.log(parts / (2 * a - 1)) / (a - 1)
    lower, upper = ends(*shift(z), Laplace(1.0), RenyiPufferfish(1.0, alpha))
    assert np.all(lower <= exact)
    assert np.all(exact <= upper)
    assert np.all(upper - lower <= width * (1 + upper))


@pytest.mark.parametrize("k", [1.5, 2.0, 7.0])
@pytest.mark.parametrize("z", [1e-3, 1.0, 1e4])
def test_a_cauchy_shift_loses_k_times_the_area_sine(k, z):
    noise = Cauchy(1.0) if k == 2.0 else GeneralizedCauchy(1.0, k)
    lower, upper = ends(*shift(z), noise, Pufferfish(1.0))
    exact = k * math.asinh(z / 2.0)
    assert lower == pytest.approx(exact, rel=1e-9)
    assert np.all(upper >= exact * (1 - 1e-15))
    assert upper == pytest.approx(exact, rel=1e-9)


# Gaussian noise has a pure loss if and only if the outermost atoms are shared.


def test_pure_loss_with_gaussian_noise_needs_shared_ends_in_the_direction_asked_for():
    p = Discrete.from_counts([0, 1, 2], [1, 2, 1])
    q = Discrete.from_counts([0, 1, 2, 3], [1, 1, 1, 1])
    lower, upper = ends(p, q, Gaussian(1.0), Pufferfish(1.0))
    assert np.isfinite(upper[0])
    assert lower[1] == upper[1] == math.inf
    same_ends = Discrete.from_counts([0, 1, 2, 3], [4, 0, 1, 2])
    lower, upper = ends(same_ends, q, Gaussian(1.0), Pufferfish(1.0))
    assert np.all(upper - lower <= 1e-9)
    assert upper[0] >= math.log(16 / 7) * (1 - 1e-12)  # the limit at minus infinity


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
def test_the_limits_at_infinity_count(scale):
    p = Discrete.from_counts([0, 1], [9, 1])
    q = Discrete.from_counts([0, 1], [5, 5])
    lower, upper = ends(p, q, Gaussian(scale), Pufferfish(1.0))
    assert upper == pytest.approx([math.log(1.8), math.log(5.0)], rel=1e-9)
    assert lower == pytest.approx(upper, rel=1e-9)


# Distributions that hold for every noise and notion.


@st.composite
def discrete(draw):
    atoms = draw(st.lists(st.integers(-8, 8), min_size=1, max_size=4, unique=True))
    counts = draw(st.lists(st.integers(0, 20), min_size=len(atoms), max_size=len(atoms)))
    assume(any(counts))
    return Discrete.from_counts(np.array(atoms) / 4.0, counts)


COMBINATIONS = st.sampled_from(list(product(NOISES, NOTIONS)))
SCALES = st.floats(0.02, 50.0)
few = settings(max_examples=25)
fewer = settings(max_examples=10)


@few
@given(discrete(), discrete(), COMBINATIONS, SCALES, st.floats(1.0, 20.0))
def test_more_noise_never_loses_more(p, q, combination, scale, factor):
    noise, notion = combination
    less = ends(p, q, noise.with_scale(scale), notion)
    more = ends(p, q, noise.with_scale(scale * factor), notion)
    assert np.all(more[0] <= less[1])


@few
@given(discrete(), discrete(), COMBINATIONS, SCALES)
def test_swapping_the_priors_swaps_the_directions(p, q, combination, scale):
    noise, notion = combination
    one = ends(p, q, noise.with_scale(scale), notion)
    two = ends(q, p, noise.with_scale(scale), notion)
    assert np.all(one[0] <= two[1][::-1])
    assert np.all(two[0][::-1] <= one[1])


@pytest.mark.slow
@few
@given(discrete(), discrete(), COMBINATIONS, SCALES, st.integers(-30, 30), st.integers(-9, 9))
def test_units_and_origin_of_a_column_do_not_matter(p, q, combination, scale, power, origin):
    noise, notion = combination
    unit = 2.0**power
    moved = [Discrete.from_counts((r.atoms + origin) * unit, r.counts) for r in (p, q)]
    one = ends(p, q, noise.with_scale(scale), notion)
    two = ends(*moved, noise.with_scale(scale * unit), notion)
    finite = np.isfinite(one[1])
    np.testing.assert_array_equal(finite, np.isfinite(two[1]))
    np.testing.assert_allclose(one[1][finite], two[1][finite], rtol=1e-9, atol=1e-12)


@few
@given(discrete(), discrete(), COMBINATIONS, SCALES)
def test_noise_never_loses_more_than_no_noise(p, q, combination, scale):
    noise, notion = combination
    table = LossTable([PriorPair(p, q)], notion)
    assert np.all(table.intervals(noise.with_scale(scale))[0] <= table.without_noise())


@pytest.mark.slow
@fewer
@given(discrete(), discrete(), st.sampled_from(NOISES), SCALES)
def test_the_notions_agree_with_each_other(p, q, noise, scale):
    noise = noise.with_scale(scale)
    pure = ends(p, q, noise, Pufferfish(1.0))
    orders = [ends(p, q, noise, RenyiPufferfish(1.0, alpha)) for alpha in (1.5, 3.0, 20.0)]
    for smaller, larger in zip(orders, [*orders[1:], pure], strict=True):
        assert np.all(smaller[0] <= larger[1])
    deltas = [ends(p, q, noise, Pufferfish(epsilon, 1e-5)) for epsilon in (0.2, 0.5, 2.0)]
    for smaller, larger in zip(deltas[1:], deltas, strict=False):
        assert np.all(smaller[0] <= larger[1])
    beyond = np.where(pure[1] < 0.5, deltas[1][0], 0.0)
    assert np.all(beyond == 0.0)
    # delta >= 1 - e^(epsilon - D) fails only for orders below infinity: P(f > 0.5) is positive
    assert np.all((pure[0] <= 0.5) | (deltas[1][1] > 0.0))


@noises
@notions
def test_equal_priors_lose_nothing(noise, notion):
    p = Discrete.from_counts(np.arange(50.0) ** 2, np.arange(1, 51))
    q = Discrete.from_counts(np.arange(50.0) ** 2, 3 * np.arange(1, 51))
    lower, upper = ends(p, q, noise, notion)
    assert lower.tolist() == [0.0, 0.0]
    assert np.all(upper < 1e-12)
    assert LossTable([PriorPair(p, q)], notion).without_noise().max() < 1e-12


@noises
@notions
@pytest.mark.parametrize(
    "relative", [1e-12, 1e12, *(pytest.param(x, marks=pytest.mark.slow) for x in (1e-6, 1e6))]
)
def test_extreme_scales_give_their_limits(noise, notion, relative):
    p, q = Discrete.from_counts([0, 1, 4], [3, 1, 2]), Discrete.from_counts([0, 1, 4], [1, 3, 2])
    table = LossTable([PriorPair(p, q)], notion)
    lower, upper = table.intervals(noise.with_scale(4.0 * relative))
    limit = table.without_noise()
    assert np.all(lower <= upper)
    if relative < 1.0:
        # the tails of Cauchy noise reach the other atoms even at a millionth of the range
        np.testing.assert_allclose(upper, limit, rtol=2e-5, atol=1e-12)
        # a Renyi interval is wider where a scale is near the resolution of floats
        np.testing.assert_allclose(lower, limit, rtol=5e-4, atol=1e-12)
    elif isinstance(noise, Gaussian) and notion == NOTIONS[0]:
        assert upper.max() == pytest.approx(math.log(3.0), rel=1e-6)
    else:
        assert np.all(upper <= 1e-5)


@pytest.mark.slow
@noises
@notions
def test_disjoint_supports_at_a_tiny_scale_lose_all(noise, notion):
    p, q = Discrete.from_counts([0, 2], [1, 1]), Discrete.from_counts([1, 3], [1, 1])
    lower, upper = ends(p, q, noise.with_scale(1e-9), notion)
    limit = LossTable([PriorPair(p, q)], notion).without_noise()
    if notion.delta > 0.0:
        assert np.all(lower > 1.0 - 1e-4)
        assert limit.tolist() == [[1.0, 1.0]]
    else:
        assert np.all(lower > 30.0)
        assert np.all(limit == math.inf)
    assert np.all(lower <= upper)


@pytest.mark.slow
@noises
@notions
def test_masses_below_the_range_of_floats_break_nothing(noise, notion):
    p = Discrete.from_counts([0, 1, 3], [10**400, 5, 10**399])
    q = Discrete.from_counts([0, 1, 3], [10**400, 10**320, 10**399])
    lower, upper = ends(p, q, noise, notion)
    assert np.all(lower <= upper)
    assert np.all(upper < 1e-3)
    assert np.all(lower < 1e-12)
    limit = LossTable([PriorPair(p, q)], notion).without_noise()[0]
    if notion == NOTIONS[0]:
        assert limit[1] == pytest.approx(math.log(2.0) + 319 * math.log(10.0), rel=1e-12)


@noises
def test_a_huge_epsilon_leaves_what_it_must(noise):
    p, q = Discrete.from_counts([0.0], [1]), Discrete.from_counts([2000.0], [1])
    lower, upper = ends(p, q, noise.with_scale(1.0), Pufferfish(750.0, 1e-5))
    exact = float(noise.with_scale(1.0).hockey_stick([2000.0], 750.0))
    assert np.all(lower <= exact * (1 + 1e-9))
    assert np.all(upper >= exact * (1 - 1e-9))


def test_tiny_deltas_keep_their_relative_accuracy():
    p, q = Discrete.from_counts([0, 1], [1, 1]), Discrete.from_counts([0, 1, 2], [2, 1, 1])
    for scale in (0.4, 0.7, 1.0):
        lower, upper = ends(p, q, Gaussian(scale), Pufferfish(12.0, 1e-5))
        assert np.all(upper - lower <= 1e-8 * upper + 1e-300)
    assert 0.0 < upper[1] < 1e-15


def test_atoms_far_apart_keep_ten_digits_at_a_high_order():
    alpha, (p, q) = 100.0, (Discrete([0, x], [0.5, 0.5]) for x in (500, 700))
    lower, upper = ends(p, q, Gaussian(1.0), RenyiPufferfish(1.0, alpha))
    with mpmath.workdps(25):
        h, g = (oracle.density(each, Gaussian(1.0)) for each in (p, q))
        steps = [mpmath.mpf(k) / 10**4 for k in (-100, -40, -15, -5, 0, 5, 15, 40, 100)]
        # where 0 and 700 are equally likely under q the ratio turns at once from rise to fall
        peak = mpmath.quad(
            lambda y: h(y) ** alpha * g(y) ** (1 - alpha), [350 + t for t in steps], maxdegree=4
        )
        forward = float(mpmath.log(peak) / (alpha - 1))
    # backwards it is the shift from 500 to 700 that counts
    backward = alpha * 200.0**2 / 2 + math.log(0.5) / (alpha - 1.0)
    for k, exact in enumerate((forward, backward)):
        assert lower[k] * (1 - 1e-12) <= exact <= upper[k] * (1 + 1e-12)
        assert upper[k] - lower[k] <= 1e-10 * upper[k]


@pytest.mark.parametrize("alpha", [1.5, 3.0])
def test_tails_too_heavy_to_be_followed_to_their_end_leave_a_tight_interval(alpha):
    p, q = Discrete([0, 1, 50], [0.1, 0.3, 0.6]), Discrete([0, 3, 50], [0.2, 0.3, 0.5])
    loss = privacy_loss(p, q, GeneralizedCauchy(100.0, k=1.001), RenyiPufferfish(1.0, alpha))
    assert 0.0 < loss.lower <= loss.upper <= loss.lower + 1e-6


# Panels, for sums over columns.


@noises
@notions
def test_the_panels_cover_everything_and_give_the_loss(noise, notion):
    p, q = Discrete.from_counts([0, 1, 3], [3, 1, 2]), Discrete.from_counts([0, 1, 3], [1, 4, 1])
    table = LossTable([PriorPair(p, q)], notion)
    panels = table.panels(noise)[0]
    for name in "pq":
        assert getattr(panels, f"{name}_low").sum() <= 1.0 <= getattr(panels, f"{name}_high").sum()
        assert getattr(panels, f"{name}_low").sum() >= 1.0 - 1e-9
    lower, upper = (end[0] for end in table.intervals(noise))
    for k, side in enumerate((panels, panels.swapped())):
        low, high = divergence_interval(side, notion)
        assert low <= upper[k]
        assert lower[k] <= high
        if notion.is_chance:  # which they are for
            assert high - low <= 1e-3 * high


@noises
def test_panels_hold_the_log_ratio_at_any_point(noise):
    p, q = Discrete.from_counts([0, 1, 3], [3, 1, 2]), Discrete.from_counts([0, 1, 4], [1, 4, 1])
    panels = LossTable([PriorPair(p, q)], NOTIONS[1]).panels(noise)[0]
    for y in np.linspace(-3.0, 7.0, 41):
        ratio = float(oracle.log_ratio(p, q, noise, y))
        assert np.any((panels.log_low <= ratio) & (ratio <= panels.log_high))


@pytest.mark.parametrize("noise", [Laplace(10.0), Gaussian(10.0), Cauchy(10.0)])
def test_panels_far_outside_the_atoms_hold_the_log_ratio(noise):
    # nearly equal distributions let the tails be cut
    p, q = Discrete([0, 1], [0.45, 0.55]), Discrete([0, 1], [0.5, 0.5])
    panels = LossTable([PriorPair(p, q)], Pufferfish(0.05, 1e-6)).panels(noise)[0]
    assert panels.log_high.max() <= math.log(1.1) + 1e-12
    assert panels.log_low.min() >= math.log(0.9) - 1e-12
    top = float(oracle.supremum(p, q, Laplace(10.0)))
    if isinstance(noise, Laplace):
        assert panels.log_high.max() <= top * (1 + 1e-9)


def test_a_product_of_e_to_the_epsilon_beyond_floats_is_no_infinity():
    # e^710 q is 1e-12 here although e^710 alone is infinite
    tiny = np.array([1e-320])
    one = Panels(np.ones(1), np.ones(1), tiny, tiny, np.array([736.0]), np.array([737.5]))
    low, high = divergence_interval(one, Pufferfish(710.0, 1e-5))
    assert high > 1.0 - 1e-9
    assert low > 0.9


def test_gaps_are_zero_where_nothing_is_open():
    half = np.full(2, 0.5)
    ratio = np.zeros(2)
    closed = Panels(half, half, half, half, ratio, ratio)
    for notion in SUM_NOTIONS:
        assert np.all(np.abs(gaps(closed, notion)) < 1e-12)


def test_the_nodes_of_the_quadrature_are_as_accurate_as_the_proof_assumes():
    with mpmath.workdps(40):
        for node, weight in zip(quadrature._NODES, quadrature._WEIGHTS, strict=True):
            exact = mpmath.findroot(lambda x: mpmath.legendre(20, x), mpmath.mpf(node))
            slope = mpmath.diff(lambda x: mpmath.legendre(20, x), exact)
            assert abs(node - exact) <= mpmath.mpf(2) ** -53
            expected = 2 / ((1 - exact**2) * slope**2)
            assert abs(weight / expected - 1) <= mpmath.mpf(2) ** -53


# Mixtures.


@pytest.mark.parametrize("notion", SUM_NOTIONS, ids=["delta", "renyi"])
def test_gaussian_priors_of_one_width_with_gaussian_noise_are_a_shift(notion):
    p, q = GaussianMixture([1.0], [0.0], [0.6]), GaussianMixture([1.0], [1.5], [0.6])
    lower, upper = ends(p, q, Gaussian(0.8), notion)
    alone = ends(*shift(1.5), Gaussian(1.0), notion)
    assert np.all(lower <= alone[1])
    assert np.all(alone[0] <= upper)
    np.testing.assert_allclose(upper, lower, rtol=1e-6)
    limit = LossTable([PriorPair(p, q)], notion).without_noise()
    closed = ends(*shift(1.5), Gaussian(0.6), notion)[1]
    np.testing.assert_allclose(limit[0], closed, rtol=1e-6)


def mixtures():
    known = GOLDEN["hungarian_mixtures"]
    sides = (known[side] for side in "PQ")
    return known, [GaussianMixture(np.array(w) / sum(w), m, s) for w, m, s in sides]


def test_mixtures_lose_the_golden_figures():
    known, (p, q) = mixtures()
    for delta, scale in known["exact"].items():
        found = ends(p, q, Laplace(scale), Pufferfish(1.0, float(delta)))[1].max()
        assert found == pytest.approx(float(delta), rel=1e-8)
    found = ends(p, q, Laplace(known["pure_exact"]), Pufferfish(1.0))[1].max()
    assert found == pytest.approx(1.0, rel=1e-9)


def test_gaussian_priors_lose_the_golden_figure():
    known = GOLDEN["hungarian_gaussian"]
    p, q = (GaussianMixture([1.0], [m], [s]) for m, s in zip(known["mu"], known["sd"], strict=True))
    found = ends(p, q, Laplace(known["pure_exact_eps1"]), Pufferfish(1.0))[1].max()
    assert found == pytest.approx(1.0, rel=1e-8)


# Real tables.


def table(name):
    return [Discrete.from_counts(t["atoms"], t["counts"]) for t in GOLDEN[name].values()]


@pytest.mark.parametrize("pair", sorted(GOLDEN["heart_scales_alpha2_eps1"]))
def test_the_heart_table_loses_exactly_epsilon_at_the_golden_scales(pair):
    priors = table("heart_age_by_diagnosis")
    p, q = (priors[int(k)] for k in pair.split("|"))
    known = GOLDEN["heart_scales_alpha2_eps1"][pair]
    notion = RenyiPufferfish(1.0, 2.0)
    assert ends(p, q, Gaussian(known["gaussian"]), notion)[1].max() == pytest.approx(1.0, rel=1e-9)
    if known["cauchy"] > 0.0:  # 0 is below the floor of that search
        found = ends(p, q, Cauchy(known["cauchy"]), notion)[1].max()
        assert found == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("adult_education_by_race", "adult_laplace"),
        ("hungarian_chol_by_sex", "hungarian_laplace"),
    ],
)
def test_empirical_priors_lose_the_golden_deltas_at_epsilon_1(name, figures):
    p, q = table(name)
    for delta, scale in GOLDEN[figures]["eps1_delta"].items():
        found = ends(p, q, Laplace(scale), Pufferfish(1.0, float(delta)))[1].max()
        assert found == pytest.approx(float(delta), rel=1e-9)
    found = ends(p, q, Laplace(GOLDEN[figures]["exact_pure_eps1"]), Pufferfish(1.0))[1].max()
    assert found == pytest.approx(1.0, rel=1e-9)


# What is computed, and what is refused.


def test_every_single_column_is_computable_but_mixtures_under_cauchy_kinds():
    column = Discrete.from_counts([0, 1], [1, 1])
    mixture = GaussianMixture([1.0], [0.0], [1.0])
    for noise, notion in product(NOISES, NOTIONS):
        assert is_computable([column, column], noise, notion)
        # of mixtures under Cauchy kinds there is a bound alone
        assert is_computable([mixture, mixture], noise, notion) == (noise.power is None)
    assert not is_computable([column, mixture], NOISES[0], NOTIONS[0])


def test_two_columns_are_computed_where_the_boxes_are():
    rows = [[0, 0], [1, 1], [2, 0]]
    p, q = Discrete.from_counts(rows, [1, 3, 2]), Discrete.from_counts(rows, [2, 1, 2])
    notion = Pufferfish(0.5, 1e-5)
    assert is_computable([p, q], Gaussian(1.0), notion)
    lower, upper = ends(p, q, Gaussian(1.0), notion)
    assert np.all(lower <= upper)
    assert np.all(upper <= LossTable([PriorPair(p, q)], notion).without_noise()[0])
    assert not is_computable([p, q], Gaussian(1.0), Pufferfish(0.5))
    with pytest.raises(ValueError, match=r"joint columns is not computed.*fewer bins"):
        ends(p, q, Gaussian(1.0), Pufferfish(0.5))


def test_rows_of_gaussians_are_computed_in_closed_form():
    p = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    q = GaussianMixture([1.0], [[1.0, 0.0]], [np.eye(2)])
    notion = RenyiPufferfish(1.0, 2.0)
    assert is_computable([p, q], Gaussian(1.0), notion)
    assert ends(p, q, Gaussian(1.0), notion)[1] == pytest.approx([0.5, 0.5])
    assert not is_computable([p, q], Cauchy(1.0), notion)
    with pytest.raises(ValueError, match="no panels"):
        LossTable([PriorPair(p, q)], notion).panels(Gaussian(1.0))


def test_priors_of_two_kinds_are_refused():
    column, mixture = Discrete.from_counts([0, 1], [1, 1]), GaussianMixture([1.0], [0.0], [1.0])
    with pytest.raises(TypeError, match="of one kind"):
        LossTable([PriorPair(column, mixture)])


def test_an_interval_asked_with_a_budget_is_remembered_for_the_certificate(monkeypatch):
    notion = Pufferfish(0.3, delta=1e-5)
    pair = PriorPair(Discrete([0, 1, 2], [0.2, 0.5, 0.3]), Discrete([0, 1, 2], [0.3, 0.4, 0.3]))
    table = LossTable([pair], notion)
    asked = table.interval(0, Gaussian(2.0), 1e-5)
    monkeypatch.setattr(DiscretePair, "look", None)  # nothing is computed again
    lower, upper = table.intervals(Gaussian(2.0))
    assert np.array_equal(lower[0], asked[0])
    assert np.array_equal(upper[0], asked[1])


@pytest.mark.parametrize("noise", [Gaussian(0.7), Cauchy(0.7), GeneralizedCauchy(0.7, k=3.5)])
def test_log_densities_and_their_slopes_are_those_of_50_digits(noise):
    # the slopes bound how far the quadrature may be off
    p, q = Discrete.from_counts([0, 1, 3], [3, 1, 2]), Discrete.from_counts([0, 1, 3], [1, 4, 1])
    masses = np.array([p.probabilities, q.probabilities])
    at = np.array([-4.0, -0.2, 0.6, 1.9, 2.9, 7.5])
    pair = DiscretePair(np.array([0.0, 1.0, 3.0]), masses, np.log(masses), noise)
    found = pair.densities(at, at)
    for k, prior in enumerate((p, q)):
        with mpmath.workdps(50):
            density = oracle.density(prior, noise)
            values = [float(mpmath.log(density(mpmath.mpf(y)))) for y in at]
            slopes = [float(mpmath.diff(density, y) / density(mpmath.mpf(y))) for y in at]
        np.testing.assert_allclose(found.value[k] + found.base, values, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.slope[k], slopes, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("p_power", "q_power"), [(-1, -1000), (-900, -1000), (-1000, -1000)])
def test_masses_of_any_size_never_have_a_larger_ratio_than_at_50_digits(p_power, q_power):
    # the roundings of two logs are as large as the logs, however near these are to each other
    rng = np.random.default_rng(0)
    for _ in range(100):
        q, p = sorted((1.0 + rng.random(2)) * 2.0 ** np.array([q_power, p_power]))
        with mpmath.workdps(50):
            exact = mpmath.log(mpmath.mpf(p) / mpmath.mpf(q))
        panels = Panels(*(np.array([end]) for end in (p, p, q, q, 0.0, 1e3)))
        assert 0.0 <= divergence_interval(panels, Pufferfish(1.0))[0] <= exact


@pytest.mark.parametrize("noise", [Gaussian(0.7), Cauchy(0.7), GeneralizedCauchy(0.7, k=3.5)])
def test_integrands_grow_no_more_around_panels_than_stated_in_any_unit(noise):
    p, q = Discrete.from_counts([0, 1, 3], [3, 1, 2]), Discrete.from_counts([0, 1, 3], [1, 4, 1])
    masses = np.array([p.probabilities, q.probabilities])
    atoms, middles, alpha = np.array([0.0, 1.0, 3.0]), np.array([-0.4, 0.6, 2.9]), 2.5
    radii = np.full(3, 0.05)
    found = []
    for unit in (2.0**-40, 1.0, 2.0**40):
        pair = DiscretePair(atoms * unit, masses, np.log(masses), noise.scaled(unit))
        at = pair.densities(middles * unit, middles * unit)
        found.append(pair.growth(middles * unit, radii * unit, at, alpha))
    assert np.isfinite(found[1]).all()
    np.testing.assert_allclose(np.array(found), np.array(found[1:2] * 3), rtol=1e-6)
    densities = [oracle.density(prior, noise) for prior in (p, q)]
    for k, middle in enumerate(middles):
        turns = quadrature.REACH * np.cos(ANGLES) + 1j * quadrature.RISE * np.sin(ANGLES)
        for z in middle + radii[k] * turns:
            grown = [mpmath.log(abs(h(mpmath.mpc(z)) / h(mpmath.mpf(middle)))) for h in densities]
            for side, (own, other) in enumerate((grown, grown[::-1])):
                assert alpha * own - (alpha - 1.0) * other <= found[1][side, k]


def test_losses_of_very_many_values_are_as_narrow_as_those_of_few_where_noise_reaches_few():
    counts = np.random.default_rng(2).integers(1, 20, (2, 30_000))
    p, q = (Discrete.from_counts(np.arange(30_000), each) for each in counts)
    kernel = np.exp(-0.5 * np.square(np.arange(-120, 121) / 3.0))
    logs = [np.log(np.convolve(each / each.sum(), kernel, mode="same")) for each in counts]
    seen = float(np.abs(logs[0] - logs[1]).max())  # at the values themselves
    loss = privacy_loss(p, q, Gaussian(3.0), Pufferfish(1.0))
    assert seen <= loss.upper <= loss.lower * (1.0 + 1e-9)
    assert loss.upper < 1.01 * seen
