"""The noise families against their definitions, in 50 digits.

The oracle knows the densities and nothing of the package's formulas: Renyi divergences by
quadrature of their definition, hockey sticks and masses by differences of distribution functions
with so many digits that the cancellation does not matter.
"""

from __future__ import annotations

import importlib
import math
import pickle
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._formulas import QUADRATURE_MARGIN
from sklearn_puffer.noise import FAMILIES, ROUNDING, Cauchy, Gaussian, GeneralizedCauchy, Laplace

KINDS = (*FAMILIES.values(), GeneralizedCauchy)
DIGITS = 50
UNITS = [
    Laplace(1.0),
    Gaussian(1.0),
    Cauchy(1.0),
    GeneralizedCauchy(1.0, k=1.5),
    GeneralizedCauchy(1.0, k=3.0),
    GeneralizedCauchy(1.0, k=7.3),
]
HEAVY = [noise for noise in UNITS if not isinstance(noise, (Laplace, Gaussian))]
SHIFTS = [1e-6, 1e-2, 0.7, 3.0, 40.0, 1e6]
UP = mpf(1) + mpf(ROUNDING)
DOWN = mpf(1) - mpf(ROUNDING)


def exponent(noise):
    return 2.0 if isinstance(noise, Cauchy) else noise.k


# --- the oracle -----------------------------------------------------------------------------------


def log_density(noise, y):
    """Log density of noise of scale 1."""
    if isinstance(noise, Laplace):
        return -abs(y) - mpmath.log(2)
    if isinstance(noise, Gaussian):
        return -y * y / 2 - mpmath.log(2 * mpmath.pi) / 2
    k = mpf(exponent(noise))
    return log_density_at_0(k, mp.prec) - k / 2 * mpmath.log1p(y * y)


@cache
def log_density_at_0(k, prec):
    """Log density of heavy-tailed noise at 0, once for each precision."""
    return mpmath.loggamma(k / 2) - mpmath.loggamma((k - 1) / 2) - mpmath.log(mpmath.pi) / 2


def tail(noise, y):
    """P(N > y) for noise of scale 1, with a small relative error where y > 0."""
    if y < 0:
        return 1 - tail(noise, -y)
    if y == mpmath.inf:
        return mpf(0)
    if isinstance(noise, Laplace):
        return mpmath.exp(-y) / 2
    if isinstance(noise, Gaussian):
        return mpmath.erfc(y / mpmath.sqrt(2)) / 2
    k = mpf(exponent(noise))
    if k == 2:
        return mpmath.atan2(1, y) / mpmath.pi
    return mpmath.betainc((k - 1) / 2, mpf(1) / 2, 0, 1 / (1 + y * y), regularized=True) / 2


def mass(noise, low, high, digits=120):
    """P(low <= N <= high) for noise of scale 1, from the side that cancels less."""
    with mp.workdps(digits):
        low, high = mpf(low), mpf(high)
        if -low > high:
            low, high = -high, -low
        return tail(noise, low) - tail(noise, high)


def set_of_large_ratios(noise, u, epsilon):
    """The interval on which log K(y) / K(y - u) exceeds epsilon, or None."""
    if isinstance(noise, Laplace):
        return None if u <= epsilon else (-mpmath.inf, (u - epsilon) / 2)
    if isinstance(noise, Gaussian):
        return -mpmath.inf, u / 2 - epsilon / u
    c = mpmath.exp(2 * epsilon / mpf(exponent(noise)))
    if c == 1:
        return -mpmath.inf, u / 2
    square = u * u - (c - 1) * ((c - 1) - u * u)  # (c - 1) y^2 + 2 u y + (c - 1) - u^2 < 0
    if square <= 0:
        return None
    return (-u - mpmath.sqrt(square)) / (c - 1), (-u + mpmath.sqrt(square)) / (c - 1)


def hockey_stick(noise, u, epsilon, digits=250):
    with mp.workdps(digits):
        u, epsilon = mpf(u), mpf(epsilon)
        if isinstance(noise, Laplace):  # the density falls by e^epsilon beyond the set as well
            return max(mpf(0), 1 - mpmath.exp((epsilon - u) / 2))
        ends = set_of_large_ratios(noise, u, epsilon)
        if ends is None:
            return mpf(0)
        low, high = ends
        there = between(noise, low - u, high - u)
        return between(noise, low, high) - mpmath.exp(epsilon) * there


def between(noise, low, high):
    """P(low < N <= high), mirrored where both tails are near 1 and cancel."""
    low, high = (-high, -low) if high < 0 else (low, high)
    return tail(noise, low) - tail(noise, high)


def gauss_nodes(n=30):
    with mp.workdps(DIGITS):
        roots = []
        for i in range(n):
            x = mpmath.cos(mpmath.pi * (i + mpf(3) / 4) / (n + mpf(1) / 2))
            for _ in range(7):
                p, slope = legendre_pair(n, x)
                x -= p / slope
            _, slope = legendre_pair(n, x)
            roots.append((x, 2 / ((1 - x * x) * slope**2)))
        return roots


def legendre_pair(n, x):
    before, now = mpf(1), x
    for j in range(2, n + 1):
        before, now = now, ((2 * j - 1) * x * now - (j - 1) * before) / j
    return now, n * (x * now - before) / (x * x - 1)


NODES = gauss_nodes()


def renyi(noise, u, alpha):
    """Quadrature of the definition over v with y = sinh v, panel by panel."""
    with mp.workdps(DIGITS):
        u, alpha = mpf(u), mpf(alpha)
        kinks = [mpf(0), mpmath.asinh(u / 2), mpmath.asinh(u)]
        reach = 6 + mpmath.asinh(u) + mpmath.asinh(alpha * u)
        if noise in HEAVY:
            reach = mpmath.asinh(u) + 60 / (mpf(exponent(noise)) - 1)
        fine = [mpf(i) / 2 for i in range(-8, 9)]
        edges = sorted({*kinks, *fine, *mpmath.linspace(-reach, reach, int(reach) + 2)})
        total = mpmath.fsum(
            (b - a) / 2 * weight * renyi_integrand(noise, (a + b) / 2 + (b - a) / 2 * x, u, alpha)
            for a, b in pairwise(edges)
            for x, weight in NODES
        )
        return mpmath.log(total) / (alpha - 1)


def renyi_integrand(noise, v, u, alpha):
    y = mpmath.sinh(v)
    here, there = log_density(noise, y), log_density(noise, y - u)
    return mpmath.cosh(v) * mpmath.exp(alpha * here + (1 - alpha) * there)


def assert_close(value, exact, tolerance):
    assert abs(mpf(float(value)) - exact) <= mpf(tolerance) * abs(exact)


# --- Renyi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("u", "alpha"),
    [
        pytest.param(1e-3, 1.5, marks=pytest.mark.slow),
        (0.7, 2.0),
        pytest.param(6.0, 5.3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "noise",
    [pytest.param(x, marks=pytest.mark.slow if x in UNITS[3:5] else ()) for x in UNITS],
    ids=repr,
)
def test_renyi_divergences_agree_with_quadrature_of_the_definition(noise, u, alpha):
    exact = renyi(noise, u, alpha)
    value = noise.renyi_divergence([u], alpha)
    assert_close(value, exact, 2 * QUADRATURE_MARGIN)
    assert mpf(float(value)) >= exact * DOWN


@pytest.mark.parametrize("alpha", [1.001, 1.5, 2.0, 3.0, 7.5, 64.0])
@pytest.mark.parametrize("u", [*SHIFTS, 1e-12, 1e12])
def test_a_cauchy_shift_has_the_renyi_divergence_of_the_legendre_function(u, alpha):
    with mp.workdps(DIGITS):
        legendre = mpmath.legenp(mpf(alpha) - 1, 0, 1 + mpf(u) ** 2 / 2, type=3)
        exact = mpmath.log(legendre) / (mpf(alpha) - 1)
    value = Cauchy(1.0).renyi_divergence([u], alpha)
    assert_close(value, exact, 2 * QUADRATURE_MARGIN)
    assert mpf(float(value)) >= exact * DOWN


@pytest.mark.parametrize("alpha", [1.0 + 1e-9, 1.001, 2.0, 3.3, 64.0, 1e4])
def test_a_laplace_shift_has_the_renyi_divergence_of_corollary_3_1(alpha):
    for u in np.logspace(-12, 12, 25):
        with mp.workdps(DIGITS):
            a, z = mpf(alpha), mpf(u)
            far, near = mpmath.exp((a - 1) * z), mpmath.exp(-a * z)
            exact = mpmath.log((a * far + (a - 1) * near) / (2 * a - 1)) / (a - 1)
        assert_close(Laplace(1.0).renyi_divergence([u], alpha), exact, ROUNDING)


@pytest.mark.parametrize("k", [1.01, 2.0, 3.0, 6.0, 40.0])
def test_the_finite_sum_and_the_quadrature_agree_where_they_meet(k):
    u = np.logspace(-9, 9, 19)[:, None]
    for m in (1, 3, 20):
        alpha = 1.0 + 2.0 * m / k
        below = GeneralizedCauchy(1.0, k).renyi_divergence(u, alpha * (1.0 - 1e-14))
        above = GeneralizedCauchy(1.0, k).renyi_divergence(u, alpha * (1.0 + 1e-14))
        whole = GeneralizedCauchy(1.0, k).renyi_divergence(u, alpha)
        assert np.all(np.abs(below / whole - 1.0) < 2 * QUADRATURE_MARGIN)
        assert np.all(np.abs(above / whole - 1.0) < 2 * QUADRATURE_MARGIN)


# seed004.audit of the golden numbers: the exact columns of Lemma D.1, and Corollary 3.1.
LEMMA_D1 = [
    (2, 2, 1, 1, 0.405465108108),
    (2, 2, 1, 0.1, 3.93182563272),
    (2, 2, 1, 10, 0.00498754151104),
    (2, 3, 1, 1, 0.528026337125),
    (4, 2, 1, 1, 1.28785428831),
    (4, 2, 0.01, 1, 0.000199986251417),
    (6, 2, 1, 2, 0.760413301654),
    (3, 2, 1, 1, 0.851435591257),
]


@pytest.mark.parametrize(("k", "alpha", "z", "scale", "exact"), LEMMA_D1)
def test_the_exact_values_of_lemma_d1_are_reproduced(k, alpha, z, scale, exact):
    value = GeneralizedCauchy(scale, k).renyi_divergence([z], alpha)
    assert value == pytest.approx(exact, rel=2 * QUADRATURE_MARGIN)
    if k == 2:
        assert Cauchy(scale).renyi_divergence([z], alpha) == value


def test_the_printed_rate_of_definition_4_6_would_lose_almost_all_privacy():
    # Counterexample 004-Def4.6/LemmaD.1: lambda = 10 is a rate, so the scale is 0.1.
    assert Cauchy(0.1).renyi_divergence([1.0], 2.0) == pytest.approx(3.931826, abs=1e-6)
    assert Cauchy(10.0).renyi_divergence([1.0], 2.0) < 0.00995033


def test_in_three_columns_corollary_4_1_divides_by_the_number_of_columns_once():
    # Counterexample 004-Cor4.1-d: printed 0.863046.
    value = Cauchy(1.0).renyi_divergence([1.0, 1.0, 1.0], 2.0)
    assert value == pytest.approx(1.216395, abs=1e-6)
    assert value == pytest.approx(3 * math.log1p(3 / (2 * 3)), rel=1e-12)


def test_corollary_3_1_has_the_corrected_second_derivative():
    # seed004.audit.cor31_second_derivative: published 0.408135441124.
    at, h = 0.7, 1e-3
    below, here, above = (Laplace(1.0).renyi_divergence([at + s], 3.0) for s in (-h, 0.0, h))
    assert (below - 2.0 * here + above) / h**2 == pytest.approx(0.241810789721, rel=1e-5)


# --- hockey stick ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "epsilon"),
    [
        pytest.param(noise, epsilon, marks=pytest.mark.slow if (i + k) % 2 else ())
        for i, noise in enumerate(UNITS)
        for k, epsilon in enumerate([0.0, 1e-9, 0.3, 1.0, 5.0, 50.0])
    ],
    ids=repr,
)
def test_hockey_sticks_agree_with_differences_of_distribution_functions(noise, epsilon):
    k = exponent(noise) if noise in HEAVY else 1.0
    edge = {Laplace: epsilon, Gaussian: epsilon / 12.0}.get(type(noise))
    edge = 2.0 * math.sinh(min(epsilon / k, 40.0)) if edge is None else edge
    for u in {*SHIFTS, 0.9 * edge, 1.000001 * edge, 1.1 * edge, 3.0 * edge} - {0.0}:
        low = hockey_stick(noise, mpf(u) * DOWN, epsilon) * DOWN
        high = hockey_stick(noise, mpf(u) * UP, epsilon) * UP
        value = mpf(float(noise.hockey_stick([u], epsilon)))
        assert low - mpf(1e-300) <= value <= high + mpf(1e-300)


def test_the_gaussian_hockey_stick_keeps_its_digits_down_to_1e_300():
    smallest = 1.0
    for epsilon in (1e-6, 1.0, 100.0, 1e3):
        for t in (5.0, 20.0, 37.0):
            u = math.sqrt(t * t + 2.0 * epsilon) - t  # epsilon/u - u/2 = t
            exact = hockey_stick(Gaussian(1.0), u, epsilon, digits=100)
            value = Gaussian(1.0).hockey_stick([u], epsilon)
            smallest = min(smallest, value)
            assert_close(value, exact, 1e-12)
    assert 0.0 < smallest < 1e-290


@pytest.mark.parametrize("noise", UNITS, ids=repr)
def test_at_epsilon_0_the_hockey_stick_is_the_total_variation(noise):
    for u in SHIFTS:
        with mp.workdps(DIGITS):
            variation = 1 - 2 * tail(noise, mpf(u) / 2)
        assert_close(noise.hockey_stick([u], 0.0), variation, ROUNDING)


@pytest.mark.parametrize("noise", [noise for noise in UNITS if not isinstance(noise, Gaussian)])
def test_beyond_the_max_divergence_nothing_is_left(noise):
    loss = noise.max_divergence([3.0])
    assert noise.hockey_stick([3.0], loss * (1.0 + 1e-12)) == 0.0
    assert noise.hockey_stick([3.0], loss * (1.0 - 1e-6)) > 0.0


def test_a_negative_epsilon_is_refused():
    for kind in KINDS:
        with pytest.raises(ValueError, match=r"epsilon must not be negative, got -1\.0"):
            kind(1.0).hockey_stick([1.0], -1.0)


# --- several columns ------------------------------------------------------------------------------


def quantiles(noise, n):
    levels = (np.arange(n) + 0.5) / n
    if isinstance(noise, Laplace):
        return np.where(levels < 0.5, np.log(2 * levels), -np.log(2 - 2 * levels))
    if isinstance(noise, Cauchy):
        return np.tan(np.pi * (levels - 0.5))
    grid = np.linspace(-40.0, 40.0, 400_001)
    below = np.cumsum(np.exp(noise.log_density(grid[:, None])))
    return np.interp(levels, below / below[-1], grid)


def brute_force_two_columns(noise, shift, epsilon, n=1200):
    """E_P (1 - e^(epsilon - L))_+ over a grid of quantiles: off by about 1/n."""
    y = quantiles(noise, n)[:, None]
    ratios = [noise.log_density(y) - noise.log_density(y - u) for u in shift]
    total = ratios[0][:, None] + ratios[1][None, :]
    return -np.expm1(np.minimum(epsilon - total, 0.0)).mean()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("shift", [(1.0, 1.0), (0.3, 2.0), (4.0, 1.5)])
@pytest.mark.parametrize(
    "noise", [Laplace(1.0), Gaussian(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 4.0)], ids=repr
)
def test_in_two_columns_the_hockey_stick_is_never_below_brute_force(noise, shift, epsilon):
    brute = brute_force_two_columns(noise, shift, epsilon)
    bound = float(noise.hockey_stick(shift, epsilon))
    assert brute <= bound + 2e-3
    if isinstance(noise, Gaussian):
        assert brute == pytest.approx(bound, abs=2e-3)
    single = max(noise.hockey_stick([[shift[0]], [shift[1]]], epsilon))
    assert single * (1.0 - ROUNDING) <= bound <= 1.0


def test_columns_that_do_not_move_cost_nothing():
    for noise in UNITS:
        alone = noise.hockey_stick([3.0], 0.7)
        assert noise.hockey_stick([0.0, 3.0, 0.0], 0.7) == pytest.approx(alone, rel=1e-12)


def test_cauchy_noise_in_two_columns_is_never_above_a_randomised_response():
    noise, shift, epsilon = Cauchy((1.0, 2.0)), [1.0, 3.0], 0.4
    total = float(noise.max_divergence(shift))
    response = (math.exp(total) - math.exp(epsilon)) / (1.0 + math.exp(total))
    assert noise.hockey_stick(shift, epsilon) <= response * (1.0 + 1e-12)


def test_scales_of_columns_divide_their_shifts():
    for kind in KINDS:
        apart = kind((2.0, 0.5))
        units = kind(1.0)
        assert apart.renyi_divergence([4.0, 1.0], 3.0) == units.renyi_divergence([2.0, 2.0], 3.0)
        assert apart.hockey_stick([4.0, 1.0], 1.0) == units.hockey_stick([2.0, 2.0], 1.0)
        both = units.renyi_divergence([[2.0], [2.0]], 3.0).sum()
        assert apart.renyi_divergence([4.0, 1.0], 3.0) == pytest.approx(both, rel=1e-14)


def test_an_l1_cost_would_be_unsound_for_cauchy_noise():
    # A shift of 2 sinh 2 in one column loses 4; half of it in each of two columns loses 5.4.
    shift = 2.0 * math.sinh(2.0)
    assert Cauchy(1.0).max_divergence([shift]) == pytest.approx(4.0)
    assert Cauchy(1.0).max_divergence([0.5 * shift] * 2) == pytest.approx(5.428, abs=1e-3)
    assert Cauchy(1.0).renyi_divergence([0.5 * shift] * 2, 64.0) > 4.0


# --- distributions that hold for every family
# --------------------------------------------------------------

sizes = st.floats(-6.0, 6.0).map(lambda power: 10.0**power)
noises = st.sampled_from(UNITS)


@pytest.mark.slow
@given(noises, sizes, st.floats(1.001, 64.0), st.floats(0.0, 50.0), st.integers(-40, 40))
def test_losses_depend_on_the_shift_in_units_of_the_scale(noise, u, alpha, epsilon, power):
    other, shift = noise.scaled(2.0**power), [u * 2.0**power]
    assert other.max_divergence(shift) == noise.max_divergence([u])
    assert other.renyi_divergence(shift, alpha) == noise.renyi_divergence([u], alpha)
    assert other.hockey_stick(shift, epsilon) == noise.hockey_stick([u], epsilon)


@pytest.mark.slow
@given(noises, sizes, st.floats(1.0, 100.0), st.floats(1.001, 64.0), st.floats(0.0, 20.0))
def test_losses_never_fall_with_the_shift_nor_rise_with_the_scale(noise, u, more, alpha, epsilon):
    for loss in (
        lambda noise, u: noise.max_divergence([u]),
        lambda noise, u: noise.renyi_divergence([u], alpha),
        lambda noise, u: noise.hockey_stick([u], epsilon),
    ):
        slack = 1.0 + 2.0 * QUADRATURE_MARGIN
        assert loss(noise, u) <= loss(noise, u * more * (1.0 + ROUNDING)) * slack
        assert loss(noise.scaled(more * (1.0 + ROUNDING)), u) <= loss(noise, u) * slack


@pytest.mark.slow
@given(noises, sizes, st.floats(1.001, 64.0), st.floats(1.0, 4.0))
def test_renyi_divergences_rise_with_the_order_to_the_max_divergence(noise, u, alpha, more):
    low, high = (noise.renyi_divergence([u], order) for order in (alpha, alpha * more))
    assert low <= high * (1.0 + 2.0 * QUADRATURE_MARGIN)
    assert high <= noise.max_divergence([u]) * (1.0 + ROUNDING)


@pytest.mark.parametrize("noise", [noise for noise in UNITS if not isinstance(noise, Gaussian)])
def test_a_huge_order_comes_near_the_max_divergence(noise):
    for u in (0.7, 40.0, 1e6):
        top = noise.max_divergence([u])
        assert top * 0.999 <= noise.renyi_divergence([u], 1e5) <= top * (1.0 + ROUNDING)


@pytest.mark.parametrize("noise", UNITS, ids=repr)
def test_losses_take_shifts_of_any_shape_sign_and_number(noise):
    shifts = np.array([[[1.0], [-2.0]], [[0.0], [2.0]]])
    for loss in (
        noise.max_divergence,
        lambda shift: noise.renyi_divergence(shift, 2.5),
        lambda shift: noise.hockey_stick(shift, 0.5),
    ):
        values = np.asarray(loss(shifts))
        assert values.shape == (2, 2)
        assert values[1, 0] == 0.0
        assert values[0, 1] == values[1, 1] == loss([2.0])
        assert np.asarray(loss(np.zeros((0, 1)))).shape == (0,)


@pytest.mark.parametrize("kind", KINDS)
def test_shifts_beyond_all_floats_have_a_loss_without_a_warning(kind):
    noise = kind(1e-300)
    shifts = [[1e300], [1e-300], [1e-320], [0.0]]
    deltas = noise.hockey_stick(shifts, 1.0)
    losses = noise.renyi_divergence(shifts, 2.5)
    assert deltas[0] == 1.0
    assert losses[0] > 1000.0
    assert deltas[3] == losses[3] == 0.0
    assert not np.isnan(deltas).any()
    assert np.all(losses <= noise.max_divergence(shifts))


# --- one column -----------------------------------------------------------------------------------

PANELS = [
    (-1.0, 1.0),
    (-0.3, 0.31),
    (-1e-9, 2e-9),
    (0.0, 1e-12),
    (0.5, 0.5 + 2.0**-40),
    (1.0, 30.0),
    (-5.0, -4.0),
    (-2.0, 1e3),
    (6.0, 6.001),
    (30.0, 30.5),
    (-31.0, -30.0),
    (300.0, 301.0),
    (1e6, 1e6 + 2.0**-20),
    (1e12, 1.5e12),
    (4.0, math.inf),
    (-math.inf, -25.0),
    (-math.inf, 3.0),
]


@pytest.mark.parametrize("noise", [*UNITS, GeneralizedCauchy(1.0, 1.01), GeneralizedCauchy(1, 300)])
def test_masses_keep_their_relative_accuracy_in_the_tails_and_in_narrow_panels(noise):
    low, high = np.array(PANELS).T
    checked = 0
    for a, b, value in zip(low, high, noise.mass(low, high), strict=True):
        exact = mass(noise, a, b, digits=700 if isinstance(noise, Gaussian) else 120)
        if exact < mpf(1e-300):
            assert value <= 1e-299
        else:
            assert_close(value, exact, ROUNDING)
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize("kind", KINDS)
def test_panels_that_cover_the_line_have_mass_one_and_empty_ones_none(kind):
    noise = kind(3.0)
    edges = np.array([-np.inf, -1e9, -7.0, -1.0, 0.0, 1e-9, 2.0, 50.0, np.inf])
    assert noise.mass(edges[:-1], edges[1:]).sum() == pytest.approx(1.0, abs=1e-14)
    assert noise.mass(-np.inf, np.inf) == 1.0
    low, high = [0.0, np.inf, -np.inf, 2.0, 1.0], [0.0, np.inf, -np.inf, 1.0, -2.0]
    assert noise.mass(low, high).tolist() == [0.0] * 5
    assert kind(1e-300).mass(-1e308, 1e308) == 1.0


@given(noises, st.floats(-50.0, 50.0), st.floats(1e-280, 20.0), st.integers(-40, 40))
def test_masses_are_symmetric_and_depend_on_units_of_the_scale(noise, low, width, power):
    factor = 2.0**power
    value = noise.mass(low, low + width)
    assert noise.mass(-(low + width), -low) == value
    assert noise.scaled(factor).mass(low * factor, (low + width) * factor) == value


@pytest.mark.parametrize("noise", UNITS, ids=repr)
def test_log_densities_and_scores_agree_with_the_definition(noise):
    scaled = noise.scaled(3.0)
    for z in (-1e6, -40.0, -3.0, -0.2, 1e-5, 0.7, 3.0, 11.0, 1e6):
        with mp.workdps(DIGITS):
            exact = log_density(noise, mpf(z) / 3) - mpmath.log(3)
            slope = mpmath.diff(lambda y: log_density(noise, y / 3), mpf(z))
        assert_close(scaled.log_density([z]), exact, 1e-14)
        assert_close(scaled.score(z), slope, 1e-13)


@pytest.mark.parametrize("k", [1.0001, 1.7, 2.0, 150.0, 301.5, 1e4])
def test_the_density_is_normalised_for_small_and_large_exponents(k):
    with mp.workdps(DIGITS):
        exact = log_density(GeneralizedCauchy(1.0, k), mpf(0))
    assert float(GeneralizedCauchy(1.0, k).log_density([0.0])) == pytest.approx(
        float(exact), abs=2e-14
    )


@given(
    noises, st.floats(0.0, 8.0), st.one_of(st.floats(0.0, 30.0), st.just(math.inf)), st.floats(0, 1)
)
def test_no_score_and_no_curvature_lies_outside_the_stated_range(noise, near, width, share):
    noise, near, far = noise.scaled(2.0), 2.0 * near, 2.0 * (near + width)
    z = near + share * min(far - near, 100.0)
    steepest = noise.steepest(near, far)
    lowest, highest = noise.curvature(near, far)
    assert abs(noise.score(z)) <= steepest * (1.0 + 1e-14)
    if z > 1e-3:
        with mp.workdps(30):
            bend = float(mpmath.diff(lambda y: log_density(noise, y / 2), mpf(z), 2))
        assert lowest - 1e-12 <= bend <= highest + 1e-12


@pytest.mark.parametrize("noise", UNITS, ids=repr)
def test_no_third_derivative_is_above_the_stated_bound(noise):
    noise = noise.scaled(2.0)
    z = np.concatenate([np.linspace(1e-3, 8.0, 60), [30.0, 1e3]])
    with mp.workdps(40):
        turns = [abs(mpmath.diff(lambda y: log_density(noise, y / 2), mpf(y), 3)) for y in z]
    found = noise.turning(z)
    assert np.all(np.array(turns, dtype=float) <= found * (1.0 + 1e-12) + 1e-15)
    assert np.all(np.diff(found) <= 0.0)


@pytest.mark.parametrize("noise", UNITS, ids=repr)
def test_the_stated_ranges_of_score_and_curvature_are_attained(noise):
    for near, far in [(0.0, 0.5), (0.0, 5.0), (1.2, 1.5), (1.5, 9.0), (3.0, 4.0)]:
        z = np.linspace(near, far, 20_001)
        assert np.abs(noise.score(z)).max() == pytest.approx(noise.steepest(near, far), rel=1e-6)
        bends = np.diff(noise.score(z)[1:]) / np.diff(z[1:])
        assert (bends.min(), bends.max()) == pytest.approx(noise.curvature(near, far), abs=2e-3)


@pytest.mark.parametrize("noise", UNITS, ids=repr)
@pytest.mark.parametrize("near", [0.0, 0.8, 2.0, 30.0])
@pytest.mark.parametrize("span", [0.01, 1.5, 40.0])
def test_no_log_ratio_drifts_further_than_stated(noise, near, span):
    scaled, further = noise.scaled(2.0), [0.3, 4.0, 100.0, 1e4]
    stated = float(scaled.drift(2.0 * near, 2.0 * span))
    with mp.workdps(DIGITS):
        for x in (span, 0.4 * span):
            ratios = [
                log_density(noise, mpf(y)) - log_density(noise, mpf(y) + mpf(x))
                for y in (near, *(near + more for more in further))
            ]
            assert all(abs(ratio - ratios[0]) <= stated for ratio in ratios)


def test_the_steepest_slopes_are_the_lipschitz_constants_of_the_log_ratio():
    assert Laplace(2.0).steepest(0.0, 0.0) == 0.5
    assert Laplace(2.0).steepest(0.0, math.inf) == 0.5
    assert Gaussian(2.0).steepest(0.0, 8.0) == 2.0
    assert Gaussian(2.0).steepest(0.0, math.inf) == math.inf
    assert Cauchy(2.0).steepest(0.0, math.inf) == pytest.approx(0.5)
    assert GeneralizedCauchy(2.0, 5.0).steepest(0.0, math.inf) == pytest.approx(1.25)
    assert Laplace(2.0).curvature(0.0, 1.0) == (0.0, 0.0)


# --- values ---------------------------------------------------------------------------------------


def test_the_table_of_names_holds_the_families_without_a_further_parameter():
    named = {"laplace": Laplace, "gaussian": Gaussian, "cauchy": Cauchy}
    assert named == FAMILIES


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_is_a_value(kind):
    noise = kind((1.0, 2.0))
    assert noise == kind([1.0, 2.0]) == kind(np.array([1.0, 2.0]))
    assert hash(noise) == hash(kind((1.0, 2.0)))
    assert pickle.loads(pickle.dumps(noise)) == noise
    assert noise.scaled(3.0) == kind((3.0, 6.0)) == noise.with_scale((3.0, 6.0))
    assert noise.with_scale(4) == kind(4.0)
    assert noise != Laplace(1.0)
    with pytest.raises(AttributeError):
        noise.scale = 1.0


def test_a_family_is_called_by_its_class_and_its_parameters():
    assert [kind(2.0).name for kind in FAMILIES.values()] == list(FAMILIES)
    assert GeneralizedCauchy(1.0, k=3.5).name == "generalizedcauchy(k=3.5)"


def test_another_scale_keeps_the_exponent():
    noise = GeneralizedCauchy(1.0, k=3.5)
    assert noise.scaled(2.0) == GeneralizedCauchy(2.0, 3.5)
    assert noise.with_scale((1.0, 4.0)) == GeneralizedCauchy((1.0, 4.0), 3.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, (1.0, 0.0), ()])
def test_scales_that_are_not_positive_and_finite_are_refused(kind, scale):
    with pytest.raises(ValueError, match="scale must"):
        kind(scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", ["1", None, True])
def test_scales_that_are_no_numbers_are_refused(kind, scale):
    with pytest.raises(TypeError, match="scale must be a positive number"):
        kind(scale)


@pytest.mark.parametrize("k", [1.0, 0.5, -2.0, math.inf, math.nan])
def test_exponents_without_a_finite_distribution_are_refused(k):
    with pytest.raises(ValueError, match="k must be finite and above 1"):
        GeneralizedCauchy(1.0, k)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_number_of_scales_is_refused(kind):
    noise = kind((1.0, 2.0))
    for ask in (
        lambda: noise.max_divergence([1.0]),
        lambda: noise.hockey_stick([1.0, 2.0, 3.0], 1.0),
        lambda: noise.mass(0.0, 1.0),
        lambda: noise.score(0.0),
    ):
        with pytest.raises(ValueError, match="scale has 2 entries"):
            ask()


@pytest.mark.parametrize("alpha", [1.0, 0.5, math.inf, math.nan])
def test_orders_that_are_not_above_one_are_refused(alpha):
    for kind in KINDS:
        with pytest.raises(ValueError, match="alpha must be finite and above 1"):
            kind(1.0).renyi_divergence([1.0], alpha)


# ----------------------------------------------------------------------- what there is no more


def test_what_there_is_no_more_is_refused_with_what_took_its_place():
    table = pd.DataFrame({"s": [0, 1] * 30, "x": [0, 0, 1] * 20})
    told = "is gone: PufferfishMicroaggregator releases rows of many columns; use it"
    with pytest.raises(ValueError, match=rf"^noise='optimal' {told}, or noise='laplace'\.$"):
        PufferfishNoiser(sensitive="s", noise="optimal").fit(table)
    with pytest.raises(ImportError, match=rf"^noise\.OptimalChannel {told}, or noise='laplace'\.$"):
        _ = importlib.import_module("sklearn_puffer.noise").OptimalChannel
    with pytest.raises(ImportError, match=told):
        exec("from sklearn_puffer.noise import OptimalChannel")
    with pytest.raises(AttributeError, match="has no attribute 'Uniform'"):
        _ = importlib.import_module("sklearn_puffer.noise").Uniform
    with pytest.raises(ValueError, match=r"^output='remapped' is gone: use output='native'"):
        PufferfishNoiser(sensitive="s", output="remapped").fit(table)
