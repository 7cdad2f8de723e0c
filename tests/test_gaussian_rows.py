"""Rows of Gaussian priors: closed forms against fifty digits, in coordinates that hide them."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from sklearn_puffer._losses import row_interval
from sklearn_puffer._losses.gaussian_rows import rows_computable
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import GaussianMixture


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def gaussian(mean, covariance):
    return GaussianMixture([1.0], [mean], [covariance])


def random_covariance(rng, d, scale=1.0):
    factor = rng.normal(size=(d, d))
    square = factor @ factor.T + 0.1 * np.eye(d)
    return scale * (square + square.T) / 2.0


def hidden(mean_p, spread_p, mean_q, spread_q, turn):
    """Return two priors with diagonal covariances, seen through a linear map of integers."""
    pair = []
    for mean, spread in ((mean_p, spread_p), (mean_q, spread_q)):
        covariance = turn @ np.diag(spread) @ turn.T
        pair.append(gaussian(turn @ np.asarray(mean), (covariance + covariance.T) / 2.0))
    return pair


def exact_renyi(p, q, added, alpha):
    """Return the Renyi divergence of two Gaussians at fifty digits, or infinity."""
    alpha = mp.mpf(alpha)
    first, second = (
        mp.matrix(g.covariances[0].tolist()) + mp.diag([mp.mpf(s) ** 2 for s in added])
        for g in (p, q)
    )
    shift = mp.matrix(p.rows[0].tolist()) - mp.matrix(q.rows[0].tolist())
    mixed = alpha * second + (1 - alpha) * first
    try:
        mp.cholesky(mixed)
    except ValueError:
        return mp.inf
    logs = mp.log(mp.det(mixed)) - (1 - alpha) * mp.log(mp.det(first))
    logs -= alpha * mp.log(mp.det(second))
    return alpha / 2 * (shift.T * mixed**-1 * shift)[0] - logs / (2 * (alpha - 1))


@cache
def line_delta(mean, deviation, epsilon):
    """Return the hockey stick of N(mean, deviation^2) and N(0, 1) from the roots of f = epsilon."""
    mean, deviation = mp.mpf(mean), mp.mpf(deviation)
    bend, lead = 1 - 1 / deviation**2, mean / deviation**2
    level = -(mean**2) / (2 * deviation**2) - mp.log(deviation) - mp.mpf(epsilon)
    under = lead**2 - 2 * bend * level
    if under <= 0:
        return mp.mpf(0)
    root = mp.sqrt(under)
    low, high = sorted(((-lead - root) / bend, (-lead + root) / bend))

    def tails(centre, scale):
        return mp.ncdf((low - centre) / scale), mp.ncdf((centre - high) / scale)

    under_p, under_q = sum(tails(mean, deviation)), sum(tails(0, 1))
    if bend < 0:
        under_p, under_q = 1 - under_p, 1 - under_q
    return under_p - mp.exp(epsilon) * under_q


def ball_delta(deviation, d, epsilon):
    """Return the hockey stick of N(0, deviation^2 I) and N(0, I), deviation above 1."""
    square = 2 * (mp.mpf(epsilon) + d * mp.log(deviation)) / (1 - mp.mpf(deviation) ** -2)

    def outside(at):
        return mp.gammainc(mp.mpf(d) / 2, at / 2, mp.inf, regularized=True)

    return outside(square / mp.mpf(deviation) ** 2) - mp.exp(epsilon) * outside(square)


def moved_delta(distance, epsilon):
    distance = mp.mpf(distance)
    near, far = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
    return mp.ncdf(near) - mp.exp(epsilon) * mp.ncdf(far)


def assert_around(interval, exact, width):
    low, high = (float(end) for end in interval)
    assert low <= exact <= high
    assert high - low <= width * exact


TURNS = [
    np.array([[1.0, 2.0], [0.0, 1.0]]),
    np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]]),
    np.eye(5) + np.diag([1.0, 2.0, 3.0, 1.0], 1) + np.diag([1.0, 1.0], -3),
]
BY_SIZE = pytest.mark.parametrize("turn", TURNS, ids=["d2", "d3", "d5"])


@BY_SIZE
@pytest.mark.parametrize("sigma", [None, 0.7])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 30.0])
def test_renyi_divergences_match_fifty_digits(turn, sigma, alpha):
    d = len(turn)
    rng = np.random.default_rng(d)
    noise = None if sigma is None else Gaussian(sigma)
    for k in range(4):
        first = random_covariance(rng, d)
        second = first if k == 0 else random_covariance(rng, d, 20.0**k) + first * (k > 1)
        p, q = gaussian(rng.normal(size=d), first), gaussian(rng.normal(size=d), second)
        lower, upper = row_interval(p, q, noise, RenyiPufferfish(1.0, alpha))
        added = [sigma or 0.0] * d
        for side, pair in enumerate(((p, q), (q, p))):
            exact = exact_renyi(*pair, added, alpha)
            if exact == mp.inf:
                assert upper[side] == np.inf
            else:
                assert_around((lower[side], upper[side]), exact, 1e-9)


@pytest.mark.parametrize("ratio", [1.99, 2.0 - 2.0**-51, 2.0, 2.01, 2.99])
def test_a_variance_near_the_largest_that_the_order_allows_has_its_loss(ratio):
    # at order 2 the integral of p^2 / q ends where the variance of p is twice that of q
    p, q = gaussian(np.zeros(2), np.diag([ratio, 1.0])), gaussian(np.zeros(2), np.eye(2))
    lower, upper = row_interval(p, q, None, RenyiPufferfish(1.0, 2.0))
    exact = exact_renyi(p, q, [0.0, 0.0], 2.0)
    assert (exact == mp.inf) == (ratio >= 2.0)
    assert lower[0] <= exact <= upper[0]


def test_a_renyi_divergence_that_does_not_exist_is_infinite_below_too():
    p, q = gaussian([0.0, 0.0], 4.0 * np.eye(2)), gaussian([0.0, 0.0], np.eye(2))
    lower, upper = row_interval(p, q, None, RenyiPufferfish(1.0, 2.0))
    assert lower[0] == upper[0] == np.inf
    assert 0.0 < lower[1] <= upper[1] < np.inf


@pytest.mark.parametrize("near", [1e-3, 1e-6, 1e-9])
def test_nearly_equal_covariances_keep_their_relative_accuracy(near):
    square = np.array([[2.0, 0.5], [0.5, 1.0]])
    p, q = gaussian([0.0, 0.0], square), gaussian([0.0, 0.0], square * (1.0 + near))
    lower, upper = row_interval(p, q, None, RenyiPufferfish(1.0, 2.0))
    exact = exact_renyi(p, q, [0.0, 0.0], 2.0)
    assert lower[0] <= exact <= upper[0]
    assert upper[0] - lower[0] <= 1e-12 * near


@BY_SIZE
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_translation_has_the_delta_of_the_analytic_gaussian_mechanism(turn, epsilon):
    d = len(turn)
    shift = np.arange(1.0, d + 1.0)
    spread = np.arange(2.0, d + 2.0)
    p, q = hidden(shift, spread, np.zeros(d), spread, turn)
    distance = mp.sqrt(sum(mp.mpf(m) ** 2 / mp.mpf(s) for m, s in zip(shift, spread, strict=True)))
    lower, upper = row_interval(p, q, None, Pufferfish(epsilon, 1e-5))
    for side in (0, 1):
        assert_around((lower[side], upper[side]), moved_delta(distance, epsilon), 1e-9)


@BY_SIZE
@pytest.mark.parametrize(("mean", "deviation"), [(0.5, 2.0), (3.0, 0.5), (0.0, 1.1), (-1.0, 1.01)])
@pytest.mark.parametrize("epsilon", [0.2, 2.0, 20.0])
def test_a_difference_in_one_direction_has_the_delta_of_a_line(turn, mean, deviation, epsilon):
    rest = len(turn) - 1
    p, q = hidden(
        [mean] + [1.0] * rest,
        [deviation**2] + [2.0] * rest,
        [0.0] + [1.0] * rest,
        [1.0] + [2.0] * rest,
        turn,
    )
    lower, upper = row_interval(p, q, None, Pufferfish(epsilon, 1e-5))
    exact = line_delta(mean, mp.sqrt(mp.mpf(deviation**2)), epsilon)
    assert lower[0] <= exact <= upper[0]
    # one coordinate that differs is the hardest: F falls most slowly
    assert upper[0] - lower[0] <= 2e-3 * exact + 1e-30


@BY_SIZE
@pytest.mark.parametrize(("deviation", "epsilon"), [(2.0, 1.0), (1.25, 3.0), (3.0, 12.0)])
def test_a_wider_ball_has_the_delta_of_its_radius(turn, deviation, epsilon):
    d = len(turn)
    p, q = hidden(np.zeros(d), [deviation**2] * d, np.zeros(d), [1.0] * d, turn)
    lower, upper = row_interval(p, q, None, Pufferfish(epsilon, 1e-5))
    assert_around((lower[0], upper[0]), ball_delta(deviation, d, epsilon), 1e-5)


@pytest.mark.slow
def test_general_pairs_match_a_dense_grid_in_the_plane():
    rng = np.random.default_rng(7)
    sigmas = (0.5, 0.8)
    for _ in range(3):
        p, q = (gaussian(rng.normal(size=2), random_covariance(rng, 2)) for _ in range(2))
        lower, upper = row_interval(p, q, Gaussian(sigmas), Pufferfish(0.5, 1e-5))
        for side, pair in enumerate(((p, q), (q, p))):
            estimate = plane_delta(*pair, sigmas, 0.5)
            assert lower[side] == pytest.approx(estimate, rel=1e-4)
            assert upper[side] == pytest.approx(estimate, rel=1e-4)


def plane_delta(p, q, sigmas, epsilon):
    axis = np.linspace(-9.0, 9.0, 601)
    spread = np.diag(np.square(sigmas))
    first, second = p.covariances[0] + spread, q.covariances[0] + spread
    apart = p.rows[0] - q.rows[0]
    turn = np.linalg.cholesky(first + second + np.outer(apart, apart))
    grid = np.stack(np.meshgrid(axis, axis), axis=-1) @ turn.T + (p.rows[0] + q.rows[0]) / 2.0

    def density(mean, covariance):
        moved = grid - mean
        squares = np.einsum("...i,ij,...j", moved, np.linalg.inv(covariance), moved)
        return np.exp(-0.5 * squares) / (2.0 * np.pi * np.sqrt(np.linalg.det(covariance)))

    rest = density(p.rows[0], first) - np.exp(epsilon) * density(q.rows[0], second)
    cell = (axis[1] - axis[0]) ** 2 * abs(np.linalg.det(turn))
    return np.maximum(rest, 0.0).sum() * cell


def test_the_pure_loss_of_a_translation_with_laplace_noise_is_reached_in_a_corner():
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    p, q = gaussian([1.0, -2.0], covariance), gaussian([0.0, 0.0], covariance)
    lower, upper = row_interval(p, q, Laplace((0.5, 4.0)), Pufferfish(1.0))
    assert_around((lower[0], upper[0]), mp.mpf("2.5"), 1e-11)
    assert lower[1] == lower[0]
    # far out in the corner (+, -): 2.5, from a sum over a fine grid of the prior
    axis = np.linspace(-12.0, 12.0, 601)
    x = np.stack(np.meshgrid(axis, axis), axis=-1)
    prior = np.exp(-0.5 * np.einsum("...i,ij,...j", x, np.linalg.inv(covariance), x))

    def density(y):
        return (prior * np.exp(Laplace((0.5, 4.0)).log_density(y - x))).sum()

    corner = np.array([30.0, -30.0])
    assert np.log(density(corner - [1.0, -2.0]) / density(corner)) == pytest.approx(2.5, abs=1e-3)


def test_gaussians_that_differ_have_no_pure_loss():
    p, q = gaussian([0.0, 0.0], np.eye(2)), gaussian([0.0, 1e-9], np.eye(2))
    lower, upper = row_interval(p, q, Gaussian(1.0), Pufferfish(1.0))
    assert np.all(lower == np.inf)
    assert np.all(upper == np.inf)


@pytest.mark.parametrize(
    "notion", [Pufferfish(1.0), Pufferfish(1.0, 1e-5), RenyiPufferfish(1.0, 2.0)], ids=str
)
def test_equal_priors_lose_nothing(notion):
    p = gaussian([1.0, 2.0], np.eye(2))
    lower, upper = row_interval(p, p, Gaussian(1.0), notion)
    assert np.all(lower == 0.0)
    assert np.all(upper == 0.0)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.floats(0.01, 5.0),
    st.floats(0.2, 4.0),
    st.floats(0.1, 10.0),
    st.integers(0, 2**31),
)
def test_no_loss_grows_with_the_noise(sigma, factor, epsilon, seed):
    rng = np.random.default_rng(seed)
    p, q = (gaussian(rng.normal(size=3), random_covariance(rng, 3)) for _ in range(2))
    for notion in (Pufferfish(epsilon, 1e-5), RenyiPufferfish(1.0, 3.0)):
        lower = row_interval(p, q, Gaussian(sigma * (1.0 + factor)), notion)[0]
        upper = row_interval(p, q, Gaussian(sigma), notion)[1]
        assert np.all(lower <= upper)


@given(st.integers(0, 2**31), st.floats(-12.0, 12.0))
def test_units_do_not_matter(seed, power):
    rng = np.random.default_rng(seed)
    units = np.array([10.0**power, 1.0])
    pairs = []
    for _ in range(2):
        mean, square = rng.normal(size=2), random_covariance(rng, 2)
        other = square * np.outer(units, units)
        pairs.append(((mean, square), (mean * units, (other + other.T) / 2.0)))
    try:
        ends = [
            row_interval(gaussian(*a), gaussian(*b), None, RenyiPufferfish(1.0, 1.5))
            for a, b in zip(*pairs, strict=True)
        ]
    except ValueError:  # a covariance that eigenvalues cannot tell from a singular one
        reject()
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9)


def test_a_badly_conditioned_pair_gets_a_wide_interval_and_no_wrong_one():
    near = np.array([[1.0, 1.0 - 2.0**-40], [1.0 - 2.0**-40, 1.0]])
    p, q = gaussian([0.0, 0.0], near), gaussian([1.0, 1.0], 1.5 * near)
    lower, upper = row_interval(p, q, None, RenyiPufferfish(1.0, 2.0))
    assert lower[0] <= exact_renyi(p, q, [0.0, 0.0], 2.0) <= upper[0]


def test_what_has_no_closed_form_is_not_computable():
    p, q = gaussian([0.0, 0.0], np.eye(2)), gaussian([0.0, 1.0], 2.0 * np.eye(2))
    mixture = GaussianMixture([0.5, 0.5], np.eye(2), [np.eye(2)] * 2)
    assert not rows_computable(p, q, Laplace(1.0), Pufferfish(1.0))
    assert not rows_computable(p, p, Laplace(1.0), RenyiPufferfish(1.0, 2.0))
    assert not rows_computable(p, q, Cauchy(1.0), Pufferfish(1.0))
    assert not rows_computable(p, mixture, Gaussian(1.0), RenyiPufferfish(1.0, 2.0))
    with pytest.raises(ValueError, match="no closed form"):
        row_interval(p, q, Laplace(1.0), Pufferfish(1.0))
