"""Losses of a sum of Gaussian reports under two secrets, beside closed forms of many digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr

from sklearn_puffer._sums.gaussian import (
    GaussianPair,
    _corollary_1a,
    exact_sum,
    largest_scale,
    leave_one_out,
)
from sklearn_puffer.notions import Pufferfish

# mean and deviation of the user's report, and the scale of the noise
CASES = [(1.0, 2.0, 3.0), (0.0, 1.0, 0.7), (2.5, 0.3, 1.0), (1e-6, 1e-3, 5.0), (3e8, 1e8, 2e8)]
cases = pytest.mark.parametrize(("m", "s", "theta"), CASES)


def far_out(m, s, theta):
    return m / mpmath.mpf(theta) + (s / mpmath.mpf(theta)) ** 2 / 2


def in_the_centre(m, s, theta):
    """Return -log E e^(-|G|/theta)."""
    m, s = mpmath.mpf(m) / theta, mpmath.mpf(s) / theta
    halves = [mpmath.exp(side * m) * mpmath.ncdf(-side * m / s - s) for side in (-1, 1)]
    halves[0] = mpmath.exp(-m) * mpmath.ncdf(m / s - s)
    return -(s * s / 2 + mpmath.log(halves[0] + halves[1]))


@cases
@mpmath.workdps(40)
def test_pure_losses_without_other_users_are_known_to_twelve_digits(m, s, theta):
    for low, high, exact in zip(
        *GaussianPair(m, s, 0.0).worst_case(theta, Pufferfish(1.0)),
        (far_out(m, s, theta), in_the_centre(m, s, theta)),
        strict=True,
    ):
        assert low <= exact <= high
        assert high - low <= 2.1e-12 * (1.0 + m / theta + (s / theta) ** 2)


@pytest.mark.parametrize("theta", [1e-3, 1.0, 1e6])
@mpmath.workdps(40)
def test_the_loss_in_the_centre_is_at_most_the_mean_of_the_move_however_small(theta):
    m, s = 1e-9, 1e-12
    high = GaussianPair(m, s, 0.0).worst_case(theta, Pufferfish(1.0))[1][1]
    exact = in_the_centre(m, s, theta)
    assert exact <= high <= exact * (1 + 1e-6)


@cases
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_a_search_starts_at_the_root_of_the_loss_far_out(m, s, theta, epsilon):
    pair = GaussianPair(m, s, 0.0)
    assert far_out(m, s, pair.guess(epsilon)) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("shift", [1e-6, 1.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.1, 2.0])
@mpmath.workdps(40)
def test_translations_lose_their_closed_forms(shift, epsilon):
    pair, theta = GaussianPair(shift, 0.0, 0.0), 1.5
    exact = mpmath.mpf(shift) / theta
    delta = -mpmath.expm1(min((epsilon - exact) / 2, 0))
    for notion, loss in ((Pufferfish(epsilon), exact), (Pufferfish(epsilon, 1e-3), delta)):
        low, high = pair.worst_case(theta, notion)
        assert (low <= loss).all()
        assert (loss <= high).all()
        assert (high - low <= 1e-14 * (1 + loss)).all()
    if exact < epsilon:
        assert not high.any()


@pytest.mark.slow
@pytest.mark.parametrize("others", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_other_users_never_widen_the_loss_and_a_bound_is_its_larger_upper_end(others, delta):
    for m, s, theta in CASES[1:3]:
        pair, notion = GaussianPair(m, s, others), Pufferfish(0.5, delta)
        low, high = pair.intervals(theta, notion)
        least, worst = pair.worst_case(theta, notion)
        assert (low >= 0.0).all()
        assert (low <= high).all()
        assert (high <= worst).all()
        assert (high - low <= 1e-8 * high + 3e-12).all()
        if others == 0.0:
            assert np.array_equal(low, least)
            assert np.array_equal(high, worst)
        bound = pair.bound(theta, notion)
        assert high.max() <= bound <= worst.max()
        if bound > notion.budget:
            assert bound == high.max()
        if delta == 0.0:
            assert high[0] == pytest.approx(float(far_out(m, s, theta)), rel=1e-13)


@pytest.mark.parametrize(("m", "s", "theta"), CASES[:3])
@pytest.mark.parametrize("others", [0.0, 0.8])
def test_deltas_are_those_of_the_two_densities(m, s, theta, others):
    notion = Pufferfish(0.3, 1e-3)
    low, high = GaussianPair(m, s, others).intervals(theta, notion)
    width = max(s, others, theta)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.unique(np.concatenate([np.linspace(-45 * width, m + 45 * width, 6000), [0.0, m]]))
    half = np.diff(ends)[:, None] / 2.0
    y = (ends[:-1, None] + half * (1.0 + nodes)).ravel()
    mass = (half * weights).ravel()
    with_user = laplace_around(y - m, math.hypot(s, others), theta)
    without = laplace_around(y, others, theta)
    for k, (p, q) in enumerate(((with_user, without), (without, with_user))):
        exact = np.maximum(p - math.exp(0.3) * q, 0.0) @ mass
        assert low[k] - 1e-6 <= exact <= high[k] + 1e-6
        assert high[k] - low[k] <= 1e-9


def laplace_around(y, sd, theta):
    """Return the density of a centred Gaussian plus Laplace noise."""
    if sd == 0.0:
        return np.exp(-np.abs(y) / theta) / (2.0 * theta)
    c = sd / theta
    halves = [side * y / theta + log_ndtr(-side * y / sd - c) for side in (-1.0, 1.0)]
    return np.exp(c * c / 2.0 + np.logaddexp(*halves)) / (2.0 * theta)


def test_no_change_loses_nothing_and_no_noise_everything():
    for notion, most in ((Pufferfish(1.0), np.inf), (Pufferfish(1.0, 0.1), 1.0)):
        for others in (0.0, 1.0):
            assert not GaussianPair(0.0, 0.0, others).worst_case(0.0, notion)[1].any()
            assert not GaussianPair(0.0, 0.0, others).intervals(2.0, notion)[1].any()
        for spread in (0.0, 1.0):
            assert (GaussianPair(1.0, spread, 0.0).intervals(0.0, notion)[1] == most).all()
    assert largest_scale([GaussianPair(0.0, 0.0, 1.0)], Pufferfish(1.0)).scale == 0.0


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_the_deviation_of_all_but_one_is_that_of_the_list(unit):
    spreads, counts = np.array([3.0, 0.0, 1e-9, 2.0]) * unit, np.array([2.0, 1.0, 4.0, 1.0])
    listed = np.repeat(np.arange(4), counts.astype(int))
    found = leave_one_out(spreads, counts)
    for k in range(4):
        rest = list(listed)
        rest.remove(k)
        exact = unit * math.sqrt(math.fsum((spreads[j] / unit) ** 2 for j in rest))
        assert found[k] == pytest.approx(exact, rel=1e-15)
    assert leave_one_out(np.array([1.0, 2.0]), np.array([0.0, 1.0])).tolist() == [2.0, 0.0]


def test_a_sum_of_floats_of_any_size_is_exact():
    rng = np.random.default_rng(0)
    values = rng.normal(size=300) * 10.0 ** rng.uniform(-300.0, 300.0, 300)
    values[:3] = [5e-324, 0.0, -1.7e308]
    assert exact_sum(values) == sum(map(Fraction, values.tolist()))


@pytest.mark.parametrize("delta", [1e-6, 0.3])
@pytest.mark.parametrize("counts", [[1, 1], [3, 7]])
@mpmath.workdps(30)
def test_the_published_scales_are_those_of_their_formulas(delta, counts):
    notion, tau = Pufferfish(0.7, delta), -mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(delta) - 1)
    means, sds = [1.0, -4.0], [2.0, 0.5]
    whole = mpmath.sqrt(sum(c * mpmath.mpf(s) ** 2 for c, s in zip(counts, sds, strict=True)))
    sizes = [
        abs(m) + (whole - mpmath.sqrt(whole**2 - mpmath.mpf(s) ** 2)) * tau
        for m, s in zip(means, sds, strict=True)
    ]
    means, sds, counts = (np.array(row, dtype=float) for row in (means, sds, counts))
    found = _corollary_1a(means, sds, leave_one_out(sds, counts), notion)
    exact = max(sizes) / mpmath.mpf(0.7)
    assert exact <= found <= exact * (1 + 2e-12)


def test_without_a_delta_the_published_scales_are_for_known_values():
    known, unknown = (
        _corollary_1a(*(np.array([x]) for x in (3.0, sd, 1.0)), Pufferfish(0.5))
        for sd in (0.0, 1e-9)
    )
    assert known == pytest.approx(6.0, rel=2e-12)
    assert known >= 6.0
    assert unknown == np.inf
