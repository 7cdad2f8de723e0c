"""Gaussians plus Cauchy noise of any width, held against the Faddeeva function at 150 digits."""

import math
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import voigt_profile

from sklearn_puffer._losses.gaussian_mixtures import distribution_of
from sklearn_puffer._losses.gaussian_student import _NODES, _RULE, _WEIGHTS, gaussian_student
from sklearn_puffer._losses.line import loss_interval
from sklearn_puffer._losses.mixtures import DistributionPair
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Cauchy, GeneralizedCauchy
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import GaussianMixture

SCALES = [1e-30, 1e-12, 1e-6, 1e-3, 0.05, 0.3, 1.0, 3.0, 7.9, 8.1, 100.0, 1e6, 1e12]
NEAR = [0.0, 0.3, 1.4, 4.3, 5.5, 7.5, 8.5, 12.0, 30.0]
POINTS = np.array([*NEAR, 1e4, 1e7])
PAIR = (
    GaussianMixture([0.9, 0.1], [0.0, 2.0], [1.0, 2.0]),
    GaussianMixture([0.8, 0.2], [0.0, 3.0], [1.1, 2.2]),
)


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(150):
        yield


def faddeeva(z):
    return mp.exp(-z * z) * mp.erfc(-1j * z)


def exact_density(t, a, k):
    """Return the density of N(0, 1) plus noise: that of k = 4 is V - a dV/da, V that of k = 2."""
    t, a, root = mp.mpf(t), mp.mpf(a), mp.sqrt(2)
    z = (t + 1j * a) / root
    w = faddeeva(z)
    if k == 4.0:
        w -= a * (2j / mp.sqrt(mp.pi) - 2 * z * w) * 1j / root
    return w.real / mp.sqrt(2 * mp.pi)


def exact_logs(t, a, k):
    """Return log h, its slope and its curvature by central differences."""
    step = mp.mpf("1e-25") * max(mp.mpf(t), 1)
    logs = [mp.log(exact_density(mp.mpf(t) + j * step, a, k)) for j in (-1, 0, 1)]
    return logs[1], (logs[2] - logs[0]) / (2 * step), (logs[2] - 2 * logs[1] + logs[0]) / step**2


def family(k):
    return Cauchy if k == 2.0 else lambda scale: GeneralizedCauchy(scale, k)


@pytest.mark.parametrize("k", [2.0, 4.0])
@pytest.mark.parametrize("a", [1e-20, 1e-3, 1.0, 7.9, 8.1, 1e12])
def test_a_convolution_holds_the_density_and_both_derivatives(a, k):
    found = gaussian_student(a, k).moments(POINTS)
    for n, t in enumerate(POINTS):
        log, slope, bend = exact_logs(t, a, k)
        error = found.error[n] + 1e-15 * t * t * found.first[n]  # t^2 in floats
        assert abs(found.log[n] - log) <= error
        assert error <= 1e-11
        first = found.first[n]
        assert abs(2 * mp.mpf(t) * first + slope) <= 2 * error * abs(slope) + mp.mpf("1e-40")
        own = 4 * mp.mpf(t) ** 2 * (found.second[n] - mp.mpf(first) ** 2) - 2 * first
        size = 2 * first + 4 * t * t * found.second[n]
        assert abs(own - bend) <= 6 * error * size + mp.mpf("1e-40")


@pytest.mark.slow
@pytest.mark.parametrize(("a", "k"), [(1e-9, 1.2), (0.02, 7.5), (1.0, 60.0)])
def test_a_density_of_any_exponent_is_the_convolution(a, k):
    top = mp.gamma(mp.mpf(k) / 2) / mp.gamma((mp.mpf(k) - 1) / 2) / mp.sqrt(mp.pi) / a

    def kernel(z):
        return top * (1 + (z / a) ** 2) ** (-mp.mpf(k) / 2)

    distribution = gaussian_student(a, k)
    with mp.workdps(25):
        for t in (0.0, 6.0):
            cuts = {t + sign * a * mp.mpf(1.8) ** j for j in range(-9, 42) for sign in (-1, 1)}
            cuts = {c for c in cuts if abs(c) < 24}
            points = sorted({*(mp.mpf(j) / 2 for j in range(-48, 49)), mp.mpf(t), *cuts})
            exact = mp.quad(lambda x, t=t: mp.npdf(x) * kernel(t - x), points, maxdegree=4)
            found = distribution.moments(np.array([t]))
            # the quadrature itself is good to 1e-11
            assert abs(found.log[0] - mp.log(exact)) <= found.error[0] + mp.mpf("1e-11")
            assert found.error[0] < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "k"), [(1e-12, 2.0), (1e-3, 4.0), (0.3, 2.0), (1.0, 4.0), (1e6, 2.0)]
)
def test_masses_of_a_convolution_hold_the_integral(a, k):
    distribution, size = gaussian_student(a, k), max(a, 1.0)
    ends = [(0.0, 1e-9), (0.0, 0.7), (0.3, 0.3001), (1.0, 3.0), (2.0, 9.0), (5.0, 5.3), (9.0, 40.0)]
    left, right = np.array(ends).T * size
    mass, error = distribution.masses(left, right, right - left)
    with mp.workdps(40):
        for n in range(len(left)):
            inner = [e * size for e in (0.5, 2, 4, 5, 6, 7, 8, 10, 15) if left[n] < e * size]
            points = [left[n], *(e for e in inner if e < right[n]), right[n]]
            exact = mp.quad(lambda t: exact_density(t, a, k), points)
            assert abs(mass[n] - exact) <= error[n] + 4e-16 * mass[n]
            assert error[n] <= 1e-10 * mass[n] + 1e-300


@pytest.mark.parametrize("k", [1.3, 2.0, 4.0, 40.0])
@pytest.mark.parametrize("a", SCALES)
def test_all_the_masses_of_a_convolution_add_up_to_a_half(a, k):
    distribution = gaussian_student(a, k)
    cuts = max(a, 1.0) * np.array([0.0, 1e-6, 0.4, 3.0, 3.5, 8.0, 20.0, 1e5, 1e11, np.inf])
    mass, error = distribution.masses(cuts[:-1], cuts[1:], np.diff(cuts))
    assert abs(mass.sum() - 0.5) <= error.sum() + 1e-15
    assert error.sum() < 1e-10
    tails, tail_errors = distribution.masses(cuts[:-1], np.full(9, np.inf), np.full(9, np.inf))
    for n in range(8):
        rest = mass[n:].sum()
        assert abs(tails[n] - rest) <= tail_errors[n] + error[n:].sum() + 1e-15 * rest


def test_the_rule_of_the_masses_is_that_of_legendre():
    with mp.workdps(40):
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            root = mp.findroot(lambda x: mp.legendre(9, x), mp.mpf(node))
            slope = mp.diff(lambda x: mp.legendre(9, x), root)
            assert abs(root - node) < 1e-16
            assert abs(2 / ((1 - root**2) * slope**2) / weight - 1) < 0.5 * _RULE


def test_the_faddeeva_function_of_scipy_agrees():
    t = np.linspace(0.0, 12.0, 400)
    for a in (1e-6, 0.1, 2.0):
        found = gaussian_student(a, 2.0).moments(t)
        assert np.abs(found.log - np.log(voigt_profile(t, 1.0, a))).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "k"), [(1e-8, 4.0), (0.03, 2.0), (0.5, 4.0), (20.0, 2.0)])
def test_panels_of_a_distribution_under_narrow_noise_hold_the_truth(scale, k):
    prior = PAIR[1]
    distribution = distribution_of(prior, family(k)(scale))
    edges = np.array([-1e5, -60.0, -9.0, -5.0, -4.9, -1.0, 0.0, 0.01, 2.9, 7.0, 15.0, 15.3, 1e6])
    low, high = edges[:-1], edges[1:]
    (a, a_slope, a_error, a_off), (b, b_slope, b_error, b_off), curve = distribution.ends(low, high)
    for share in (0.0, 0.2, 0.6, 1.0):
        for n, y in enumerate(low + share * (high - low)):
            exact = mp.log(exact_mixture(prior, mp.mpf(y), scale, k))
            left, right = mp.mpf(y) - low[n], mp.mpf(high[n]) - y
            part, bend = left / (left + right), mp.mpf(curve[n])
            room = a_error[n] + b_error[n] + mp.mpf("1e-12")
            assert exact <= (1 - part) * a[n] + part * b[n] + bend * left * right / 2 + room
            for value, slope, off, away in (
                (a[n], a_slope[n], a_off[n], left),
                (b[n], b_slope[n], b_off[n], -right),
            ):
                tangent = value + slope * away - bend * away**2 / 2
                assert exact >= tangent - room - off * abs(away)


def exact_mixture(prior, y, scale, k):
    parts = zip(prior.weights, prior.means, prior.scales, strict=True)
    return sum(
        w / s * exact_density((y - m) / mp.mpf(s), scale / mp.mpf(s), k) for w, m, s in parts
    )


def losses(pair, noise, notion):
    return loss_interval(
        DistributionPair(*(distribution_of(prior, noise) for prior in pair), 1024), notion
    )


def summed(function, cuts):
    """Return an integral by Gauss-Legendre sums between cuts."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    ends = np.unique(cuts)
    middles, radii = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    return sum(
        r * w * function(m + r * x)
        for m, r in zip(middles, radii, strict=True)
        for x, w in zip(nodes, weights, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "k"), [(1e-6, 2.0), (0.4, 4.0)])
def test_every_loss_holds_that_of_fifty_digits(scale, k):
    noise, alpha, epsilon = family(k)(scale), 2.0, 0.3
    ends = [losses(PAIR, noise, n) for n in (Pufferfish(1.0), RenyiPufferfish(1.0, alpha))]
    low, high = losses(PAIR, noise, Pufferfish(epsilon, 0.01))
    with mp.workdps(50):
        h = [cache(lambda y, p=prior: exact_mixture(p, mp.mpf(y), scale, k)) for prior in PAIR]
        seen = max(mp.log(h[0](y) / h[1](y)) for y in np.linspace(-25.0, 25.0, 101))
        assert seen <= ends[0][1][0]
        cuts = [
            *np.arange(-20.0, 24.5, 0.5),
            *(s * 24.0 * 1.5**j for j in range(45) for s in (-1, 1)),
        ]
        total = summed(lambda y: h[0](y) ** 2 / h[1](y), cuts)

        def excess(y):
            return mp.log(h[0](y) / h[1](y)) - epsilon

        signs = [(y, y + 0.5) for y in cuts[:88] if excess(y) * excess(y + 0.5) < 0]
        roots = [float(mp.findroot(excess, ends, "anderson", tol=1e-25)) for ends in signs]
        delta = summed(lambda y: max(h[0](y) - mp.exp(epsilon) * h[1](y), 0), [*cuts, *roots])
        renyi = mp.log(total) / (alpha - 1)
        off = mp.mpf("1e-8")  # beyond the cuts, and what the rule leaves
    assert ends[1][0][0] - off <= renyi <= ends[1][1][0] + off
    assert low[0] - off <= delta <= high[0] + off
    for lower, upper in (*ends, (low, high)):
        assert np.all(upper - lower <= 1e-4 * upper + 1e-12)


@pytest.mark.parametrize("deviation", [1e150, 1e-150])
@pytest.mark.parametrize("turned", [False, True])
def test_a_component_far_from_the_noise_leaves_what_is_lost_without_noise(deviation, turned):
    priors = [GaussianMixture([1.0], [0.0], [own]) for own in (1.0, deviation)]
    loss = privacy_loss(*priors[:: -1 if turned else 1], Cauchy(1.0), Pufferfish(1.0))
    assert (loss.lower, loss.upper) == (0.0, math.inf)


@pytest.mark.slow
@settings(max_examples=4)
@given(st.floats(-14.0, 2.0), st.floats(0.01, 2.0), st.sampled_from([1.5, 2.0, 4.0]))
def test_no_loss_under_heavy_noise_grows_with_its_scale(exponent, step, k):
    noises = [family(k)(10.0**exponent), family(k)(10.0 ** (exponent + step))]
    for notion in (Pufferfish(1.0), Pufferfish(0.2, 0.01), RenyiPufferfish(1.0, 2.0)):
        (_, upper), (lower, _) = (losses(PAIR, noise, notion) for noise in noises)
        assert np.all(lower <= upper)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_the_smallest_cauchy_scale_spends_the_whole_budget_however_narrow(epsilon):
    notion = Pufferfish(epsilon)
    scale = calibrate([PAIR], notion, noise="cauchy").scale
    lower, upper = losses(PAIR, Cauchy(scale), notion)
    assert epsilon * (1.0 - 1e-8) <= lower.max() <= upper.max() <= epsilon
    if epsilon == 12.0:
        assert scale < 1e-6
