"""The loss of independent groups of columns, against closed forms and brute force."""

from itertools import pairwise, product
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._losses import Panels, compose
from sklearn_puffer._losses.divergences import divergence_interval
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish

ERROR = 1e-11  # of the masses and ratios that the tests compute in floats


def outcomes(p, q):
    """Return the panels of two distributions on the same outcomes, each a panel of its own."""
    p, q = np.array(p, dtype=float), np.array(q, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(np.log(p) - np.log(q), nan=0.0, posinf=np.inf, neginf=-np.inf)
    margin = ERROR * (1.0 + np.abs(np.where(np.isfinite(ratio), ratio, 0.0)))
    return Panels(
        p * (1 - ERROR), p * (1 + ERROR), q * (1 - ERROR), q * (1 + ERROR), ratio - margin,
        ratio + margin,
    )  # fmt: skip


def shift(noise, move, edges):
    """Return the panels of one column of noise that moves by ``move``."""
    low, high = edges[:-1], edges[1:]
    p, q = noise.mass(low - move, high - move), noise.mass(low, high)
    if isinstance(noise, Gaussian):
        ratio = move * (edges - move / 2.0) / noise.scale**2
    else:
        inner = np.clip(edges, 0.0, move)
        ratio = (2.0 * inner - move) / noise.scale
    size = ERROR * (1.0 + np.abs(np.where(np.isfinite(ratio), ratio, 0.0)))
    below, above = (ratio - size)[:-1], (ratio + size)[1:]
    return Panels(p * (1 - ERROR), p * (1 + ERROR), q * (1 - ERROR), q * (1 + ERROR), below, above)


def gaussian_shift(move, n=3000):
    edges = np.linspace(-12.0, 12.0 + move, n)
    return shift(Gaussian(1.0), move, np.concatenate([[-np.inf], edges, [np.inf]]))


def laplace_shift(move, n=1000):
    edges = np.concatenate([[-np.inf], np.linspace(0.0, move, n), [np.inf]])
    return shift(Laplace(1.0), move, edges)


def gaussian_delta(norm, epsilon):
    with mpmath.workdps(50):
        mu, eps = mpmath.mpf(norm), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


def two_laplace_delta(first, second, epsilon):
    """Two shifted Laplace columns, scale 1: the mean over the first of the second's delta."""
    with mpmath.workdps(20):
        a, b, eps = mpmath.mpf(first), mpmath.mpf(second), mpmath.mpf(epsilon)

        def one(rest):  # int (K(y - b) - e^rest K(y))_+, exact
            if rest >= b:
                return mpmath.mpf(0)
            if rest <= -b:
                return 1 - mpmath.exp(rest)
            return 1 - mpmath.exp((rest - b) / 2)

        def within(y):  # the first column at y in [0, a], whose ratio is e^(2y - a)
            return mpmath.exp(y - a) / 2 * one(eps - (2 * y - a))

        kinks = sorted({0, a, *(min(max((eps + a + s * b) / 2, 0), a) for s in (1, -1))})
        ends = mpmath.exp(-a) / 2 * one(eps + a) + one(eps - a) / 2
        return ends + mpmath.quad(within, kinks)


def brute_force(groups, epsilon):
    """Return the hockey stick of the product of discrete distributions, term by term."""
    with mpmath.workdps(50):
        power = mpmath.exp(mpmath.mpf(epsilon))
        total = mpmath.mpf(0)
        for cells in product(*(zip(p, q, strict=True) for p, q in groups)):
            p = mpmath.fprod(mpmath.mpf(cell[0]) for cell in cells)
            q = mpmath.fprod(mpmath.mpf(cell[1]) for cell in cells)
            total += max(p - power * q, 0)
        return min(total, 1)  # the masses, in floats, may add up to a little more


def assert_holds(interval, exact, width):
    low, high = interval
    assert low <= exact <= high
    assert high - low <= width * exact


@pytest.mark.parametrize(
    ("moves", "epsilon", "width"),
    [
        ([0.3] * 10, 1.0, 1e-3),
        ([0.3] * 10, 4.0, 2e-3),
        ([0.1, 0.5, 1.0, 0.2], 3.0, 1e-3),
        ([0.3] * 10, 10.0, 2e-2),
        ([3.0, 0.01], 0.5, 1e-3),
        ([6.0, 6.0, 6.0], 60.0, 5e-3),
    ],
)
def test_gaussian_shifts_compose_to_the_shift_by_their_norm(moves, epsilon, width):
    groups = [gaussian_shift(move) for move in moves]
    norm = mpmath.sqrt(mpmath.fsum(mpmath.mpf(move) ** 2 for move in moves))
    exact = gaussian_delta(norm, epsilon)
    assert_holds(compose(groups, Pufferfish(epsilon, 1e-5)), exact, width)


@pytest.mark.parametrize(
    ("first", "second", "epsilon"), [(1.0, 1.0, 0.5), (1.0, 0.3, 1.0), (2.0, 0.1, 0.05)]
)
def test_two_laplace_shifts_compose_to_their_integral(first, second, epsilon):
    groups = [laplace_shift(first), laplace_shift(second)]
    exact = two_laplace_delta(first, second, epsilon)
    assert_holds(compose(groups, Pufferfish(epsilon, 1e-5)), exact, 2e-3)


@pytest.mark.parametrize(("k", "bias"), [(2, 1.0), (5, 0.3), (12, 0.2), (30, 0.1)])
@pytest.mark.parametrize("share", [0.15, 0.5, 0.83])
def test_randomised_responses_compose_to_a_binomial_sum(k, bias, share):
    p = 1.0 / (1.0 + np.exp(-bias))
    answer = outcomes([p, 1.0 - p], [1.0 - p, p])
    epsilon = share * k * bias
    with mpmath.workdps(50):
        true, false = mpmath.mpf(p), 1 - mpmath.mpf(p)
        exact = mpmath.fsum(
            comb(k, j)
            * max(
                true**j * false ** (k - j)
                - mpmath.exp(mpmath.mpf(epsilon)) * false**j * true ** (k - j),
                0,
            )
            for j in range(k + 1)
        )
    assert_holds(compose([answer] * k, Pufferfish(epsilon, 1e-5)), exact, 2e-3)


distributions = st.integers(2, 5).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 6), min_size=n, max_size=n)] * 2).filter(
        lambda pair: sum(pair[0]) > 0 and sum(pair[1]) > 0
    )
)


@pytest.mark.slow
@given(st.lists(distributions, min_size=1, max_size=4), st.floats(0.001, 5.0))
def test_the_interval_holds_the_loss_of_any_discrete_distributions(counts, epsilon):
    groups = [
        (np.array(p, dtype=float) / sum(p), np.array(q, dtype=float) / sum(q)) for p, q in counts
    ]
    panels = [outcomes(p, q) for p, q in groups]
    low, high = compose(panels, Pufferfish(epsilon, 1e-5))
    exact = brute_force(groups, epsilon)
    assert low <= exact + 1e-9 * exact + 1e-15
    assert exact <= high
    assert high - low <= 5e-3 * (exact + 1e-3)


@pytest.mark.parametrize("gap", np.geomspace(1e-8, 1e-2, 13))
def test_what_lies_just_above_epsilon_is_not_lost_between_two_places_of_the_grid(gap):
    answer = ([0.75, 0.25], [0.25, 0.75])
    epsilon = 2.0 * np.log(3.0) - gap  # below the largest loss, which alone exceeds it
    low, high = compose([outcomes(*answer)] * 2, Pufferfish(float(epsilon), 0.1))
    assert low <= brute_force([answer] * 2, epsilon) <= high


@pytest.mark.slow
@given(st.lists(distributions, min_size=2, max_size=3), st.floats(0.001, 3.0), st.integers(2, 4))
def test_coarser_panels_only_widen_the_interval(counts, epsilon, size):
    groups = [
        (np.array(p, dtype=float) / sum(p), np.array(q, dtype=float) / sum(q)) for p, q in counts
    ]
    low, high = compose([_merged(outcomes(*g), size) for g in groups], Pufferfish(epsilon, 1e-5))
    exact = brute_force(groups, epsilon)
    assert low <= exact + 1e-9 * exact + 1e-15
    assert exact <= high


def _merged(panels, size):
    """Put ``size`` neighbouring panels into one."""
    starts = np.arange(0, panels.p_low.size, size)
    used = (panels.p_high > 0.0) | (panels.q_high > 0.0)
    return Panels(
        *(np.add.reduceat(getattr(panels, n), starts) for n in ("p_low", "p_high")),
        *(np.add.reduceat(getattr(panels, n), starts) for n in ("q_low", "q_high")),
        np.minimum.reduceat(np.where(used, panels.log_low, np.inf), starts),
        np.maximum.reduceat(np.where(used, panels.log_high, -np.inf), starts),
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_loose_masses_give_a_wider_interval_that_still_holds(epsilon):
    groups = [gaussian_shift(move, 200) for move in (0.5, 0.7)]
    loose = [
        Panels(
            g.p_low * 0.9, g.p_high * 1.05, g.q_low * 0.95, g.q_high * 1.1, g.log_low, g.log_high
        )
        for g in groups
    ]
    tight, wide = (compose(these, Pufferfish(epsilon, 0.1)) for these in (groups, loose))
    assert wide[0] <= tight[0] <= gaussian_delta(np.hypot(0.5, 0.7), epsilon) <= tight[1] <= wide[1]


def test_the_loss_falls_with_epsilon_and_grows_with_every_group():
    groups = [gaussian_shift(0.5, 400), laplace_shift(0.5, 200), outcomes([0.6, 0.4], [0.4, 0.6])]
    ends = [compose(groups, Pufferfish(eps, 0.1)) for eps in (0.1, 0.5, 1.0, 2.0)]
    assert all(later[0] <= earlier[1] for earlier, later in pairwise(ends))
    for k in (1, 2):
        assert compose(groups[:k], Pufferfish(1.0, 0.1))[0] <= ends[2][1]


def test_groups_without_a_loss_change_nothing():
    alike = outcomes([0.3, 0.7], [0.3, 0.7])
    alone = divergence_interval(gaussian_shift(1.0), Pufferfish(1.0, 0.1))
    low, high = compose([gaussian_shift(1.0), alike, alike], Pufferfish(1.0, 0.1))
    assert low <= alone[1]
    assert alone[0] <= high
    assert high - low <= 1e-4 * high
    assert compose([alike, alike], Pufferfish(0.1, 0.1)) == (0.0, 0.0)


def test_disjoint_supports_lose_everything():
    apart = outcomes([1.0, 0.0], [0.0, 1.0])
    low, high = compose([apart, gaussian_shift(1.0, 100)], Pufferfish(3.0, 0.1))
    assert 1.0 - 1e-9 <= low <= high == 1.0


def test_what_only_one_distribution_can_say_adds_up_like_probabilities():
    half = outcomes([0.5, 0.5, 0.0], [0.0, 0.5, 0.5])
    low, high = compose([half, half, half], Pufferfish(700.0, 0.1))
    assert low <= 1.0 - 0.5**3 <= high
    assert high - low < 1e-9


def test_no_loss_beyond_the_largest_sum_of_log_ratios():
    groups = [laplace_shift(1.0), laplace_shift(0.5)]
    assert compose(groups, Pufferfish(1.5001, 1e-9)) == (0.0, 0.0)
    assert compose(groups, Pufferfish(1.4999, 1e-9))[1] < 1e-4


@pytest.mark.parametrize("epsilon", [1e-9, 699.0])
def test_extreme_losses_stay_inside_the_interval(epsilon):
    p = np.exp(-np.array([0.0, 600.0]))
    groups = [(p, p[::-1]), (np.array([0.5, 0.5]), np.array([0.5 + 1e-13, 0.5 - 1e-13]))]
    low, high = compose([outcomes(*g) for g in groups] * 2, Pufferfish(epsilon, 0.1))
    assert low <= brute_force(groups * 2, epsilon) * (1 + mpmath.mpf(10) ** -9)
    assert brute_force(groups * 2, epsilon) <= high


def test_tiny_deltas_keep_their_relative_accuracy():
    groups = [gaussian_shift(move, 6000) for move in (0.5, 0.5)]
    exact = gaussian_delta(np.sqrt(0.5), 8.0)
    assert exact < 1e-28
    low, high = compose(groups, Pufferfish(8.0, 1e-9))
    assert exact * (1 - mpmath.mpf("0.02")) <= low <= exact <= high <= exact * mpmath.mpf("1.05")


def test_one_group_is_its_own_interval():
    group, notion = gaussian_shift(1.0, 100), Pufferfish(1.0, 0.1)
    assert compose([group], notion) == divergence_interval(group, notion)


def test_no_group_is_refused():
    with pytest.raises(ValueError, match="at least one group"):
        compose([], Pufferfish(1.0))
