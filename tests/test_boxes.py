"""Losses of rows of two columns: the plane in boxes, against closed forms and dense sums."""

from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import directed_losses

from sklearn_puffer._losses import boxes
from sklearn_puffer._losses.boxes import MOST_VALUES, box_panels, boxes_computable
from sklearn_puffer._losses.divergences import divergence_interval
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete

FAMILIES = [
    Laplace(1.0),
    Gaussian(1.0),
    Cauchy(1.0),
    GeneralizedCauchy(1.0, 5.0),
    Laplace((0.4, 2.0)),
    Gaussian((2.0, 0.7)),
    Cauchy((0.5, 1.5)),
]
# of the first four, the last takes seconds at extreme scales
HEAVY_LAST = [*FAMILIES[:3], pytest.param(FAMILIES[3], marks=pytest.mark.slow)]
NOTIONS = [Pufferfish(0.3, 1e-3), RenyiPufferfish(0.5, 2.0), RenyiPufferfish(0.5, 6.0)]


def interval(p, q, noise, notion):
    """Return both directions' intervals."""
    panels = box_panels(p, q, noise, notion)
    return divergence_interval(panels, notion), divergence_interval(panels.swapped(), notion)


def point(*row):
    return Discrete([row], [1.0])


def random_prior(rng, shape, zeros=0.2):
    cells = np.array(list(product(*map(range, shape))), dtype=float)
    counts = rng.integers(1, 9, len(cells)) * (rng.random(len(cells)) > zeros)
    counts[rng.integers(len(cells))] += 1
    return Discrete.from_counts(cells, counts)


def assert_tight(ends, exact, width):
    low, high = ends
    assert low <= exact <= high
    assert high - low <= width * high


@pytest.mark.parametrize(
    ("rows", "counts", "scale", "alpha"),
    [
        ([[0, 1], [2, 0], [2, 2]], [[6, 9, 6], [4, 9, 1]], 0.02, 5.0),
        ([[0, 1], [2, 1], [3, 0], [3, 3]], [[3, 4, 4, 5], [5, 9, 6, 2]], 0.01, 2.0),
        ([[0, 2], [1, 1], [1, 2]], [[1, 1, 7], [7, 5, 1]], 0.02, 100.0),
    ],
)
def test_narrow_gaussian_noise_leaves_the_renyi_loss_of_the_masses(rows, counts, scale, alpha):
    p, q = (Discrete.from_counts(rows, row) for row in counts)
    masses = [np.array(row) / sum(row) for row in counts]
    found = interval(p, q, Gaussian(scale), RenyiPufferfish(1.0, alpha))
    for ends, (one, two) in zip(found, (masses, masses[::-1]), strict=True):
        exact = np.log(np.sum(one**alpha * two ** (1.0 - alpha))) / (alpha - 1.0)
        assert_tight(ends, exact, 1e-3)


def gaussian_delta(norm, epsilon):
    with mpmath.workdps(50):
        mu, eps = mpmath.mpf(norm), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


def log_kernel(noise, axis):
    """Return log K of one axis in mpmath, unnormalised, and the log of its integral."""
    scale = mpmath.mpf(float(noise.axis_scales(2)[axis]))
    if isinstance(noise, Laplace):
        return lambda z: -abs(z) / scale, mpmath.log(2 * scale)
    if isinstance(noise, Gaussian):
        return lambda z: -((z / scale) ** 2) / 2, mpmath.log(2 * mpmath.pi) / 2 + mpmath.log(scale)
    k = mpmath.mpf(getattr(noise, "k", 2))
    total = mpmath.log(scale * mpmath.sqrt(mpmath.pi)) + mpmath.loggamma((k - 1) / 2)
    return lambda z: -k / 2 * mpmath.log1p((z / scale) ** 2), total - mpmath.loggamma(k / 2)


def line_density(masses, noise):
    shape = line_kernel(noise)
    return lambda y: mpmath.fsum(w * shape(y - x) for x, w in masses)


@cache
def line_kernel(noise):
    """Return the density of the noise in one column, computed once at each point."""
    kernel, total = log_kernel(noise, 0)
    return cache(lambda z: mpmath.exp(kernel(z) - total))


def line_renyi(p, q, noise, alpha):
    """Return the Renyi divergence of two distributions of one column, by quadrature."""
    with mpmath.workdps(20):
        h_p, h_q = line_density(p, noise), line_density(q, noise)
        atoms = sorted({x for x, _ in p + q})
        ends = [-mpmath.inf, *(atoms[0] - mpmath.mpf(10), *atoms), atoms[-1] + 10, mpmath.inf]
        if isinstance(noise, Gaussian):
            ends = [atoms[0] - 40, *range(int(atoms[0]) - 12, int(atoms[-1]) + 13, 3), 52]
        total = mpmath.quad(lambda y: h_p(y) ** alpha * h_q(y) ** (1 - alpha), ends)
        return mpmath.log(total) / (alpha - 1)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("move", [(1.0, 0.7), (0.2, 0.0), (3.0, -2.0)])
def test_a_gaussian_shift_has_the_delta_of_its_norm(move, epsilon):
    noise, notion = Gaussian((1.0, 0.5)), Pufferfish(epsilon, 1e-4)
    exact = gaussian_delta(np.hypot(move[0], move[1] / 0.5), epsilon)
    for ends in interval(point(0.0, 0.0), point(*move), noise, notion):
        assert_tight(ends, exact, 2e-3 if exact > 1e-4 else 1.0)


@pytest.mark.parametrize("noise", FAMILIES, ids=str)
@pytest.mark.parametrize("alpha", [1.5, 6.0])
def test_a_shift_has_the_sum_of_its_columns_renyi_losses(noise, alpha):
    exact = float(noise.renyi_divergence([1.0, 0.5], alpha))
    for low, high in interval(point(0, 0), point(1.0, 0.5), noise, RenyiPufferfish(1.0, alpha)):
        assert low <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= high
        assert high - low <= 3e-3 * high


@pytest.mark.parametrize("noise", [f for f in FAMILIES if not isinstance(f, Gaussian)], ids=str)
def test_a_shift_has_the_sum_of_its_columns_pure_losses(noise):
    exact = float(noise.max_divergence([1.0, 0.5]))
    for low, high in interval(point(0, 0), point(1.0, 0.5), noise, Pufferfish(1.0)):
        assert low <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= high
        assert high - low <= 3e-3 * high


@pytest.mark.parametrize("seed", range(4))
def test_pure_laplace_losses_are_those_of_the_vertices(seed):
    rng = np.random.default_rng(seed)
    p, q = random_prior(rng, (4, 3)), random_prior(rng, (4, 3))
    theta = (0.7, 1.3)
    exact = directed_losses(p, q, theta)
    for ends, loss in zip(interval(p, q, Laplace(theta), Pufferfish(1.0)), exact, strict=True):
        assert_tight(ends, loss, 2e-3)


@pytest.mark.parametrize("noise", HEAVY_LAST, ids=str)
@pytest.mark.parametrize("alpha", [3])
def test_a_column_that_says_nothing_leaves_the_loss_of_the_other(noise, alpha):
    p = [(0, mpmath.mpf("0.5")), (1, mpmath.mpf("0.25")), (3, mpmath.mpf("0.25"))]
    q = [(0, mpmath.mpf("0.25")), (1, mpmath.mpf("0.5")), (3, mpmath.mpf("0.25"))]
    exact = line_renyi(p, q, noise, alpha), line_renyi(q, p, noise, alpha)
    rows = [[x, y] for x, _ in p for y in (0, 2)]
    joint = [
        Discrete(rows, [float(w) * share for _, w in distribution for share in (0.25, 0.75)])
        for distribution in (p, q)
    ]
    found = interval(*joint, noise, RenyiPufferfish(1.0, alpha))
    for ends, loss in zip(found, exact, strict=True):
        assert_tight(ends, loss, 3e-3)


def dense(p, q, noise, notion, n=500):
    """Return the loss by a midpoint sum over a wide grid, graded by a cubic change of variable."""
    axes, weights = [], []
    for scale in noise.axis_scales(2):
        t = (np.arange(n) + 0.5) / n * 2.0 - 1.0
        heavy = isinstance(noise, Cauchy)
        reach = 4000.0 * scale if heavy else 14.0 * scale + 3.0
        power = 5 if heavy else 1
        axes.append(2.0 + reach * t**power)
        weights.append(reach * power * t ** (power - 1) * 2.0 / n)
    kernels = [
        lambda x, k=k, s=s: np.exp(noise.with_scale(s).log_density((axes[k] - x)[:, None]))
        for k, s in enumerate(float(s) for s in noise.axis_scales(2))
    ]
    h = []
    for prior in (p, q):
        total = np.zeros((n, n))
        for row, w in zip(prior.rows, prior.probabilities, strict=True):
            total += w * np.outer(kernels[0](row[0]), kernels[1](row[1]))
        h.append(total * np.outer(*weights))
    if isinstance(notion, Pufferfish):
        return np.maximum(h[0] - np.exp(notion.epsilon) * h[1], 0.0).sum()
    # less 1 + alpha (r - 1), whose mean is 1: what the sum lacks of mass does not count
    ratio = h[0][h[1] > 1e-280] / h[1][h[1] > 1e-280]
    terms = ratio**notion.alpha - 1.0 - notion.alpha * (ratio - 1.0)
    return np.log1p((h[1][h[1] > 1e-280] * terms).sum()) / (notion.alpha - 1.0)


@pytest.mark.parametrize(
    "noise", [n for n in FAMILIES if not isinstance(n, GeneralizedCauchy)], ids=str
)
@pytest.mark.parametrize("notion", NOTIONS[:2], ids=str)
def test_joint_distributions_agree_with_dense_sums(noise, notion):
    rng = np.random.default_rng(5)
    p, q = random_prior(rng, (4, 3)), random_prior(rng, (4, 3))
    found = interval(p, q, noise, notion)
    for (low, high), pair in zip(found, ((p, q), (q, p)), strict=True):
        about = dense(*pair, noise, notion)
        assert low - 3e-3 * about <= about <= high + 3e-3 * about
        assert high - low <= 5e-3 * high


@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.integers(0, 10**6),
    st.sampled_from(FAMILIES),
    st.sampled_from([*NOTIONS, Pufferfish(0.5)]),
    st.floats(-1.0, 1.0),
)
def test_the_interval_is_in_order_and_shrinks_with_the_noise(seed, noise, notion, log_factor):
    # Gaussian noise has no pure epsilon
    assume(notion != Pufferfish(0.5) or not isinstance(noise, Gaussian))
    rng = np.random.default_rng(seed)
    p, q = random_prior(rng, (3, 3)), random_prior(rng, (3, 3))
    less = noise.scaled(10.0**log_factor)
    for near, far in zip(
        interval(p, q, less, notion), interval(p, q, less.scaled(1.5), notion), strict=True
    ):
        assert 0.0 <= near[0] <= near[1]
        assert far[0] <= near[1]


@pytest.mark.parametrize("noise", FAMILIES, ids=str)
@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_equal_priors_lose_next_to_nothing(noise, notion):
    prior = random_prior(np.random.default_rng(1), (3, 4))
    for low, high in interval(prior, prior, noise, notion):
        assert low == 0.0
        assert high < 1e-8


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("noise", HEAVY_LAST, ids=str)
def test_extreme_scales_give_sound_intervals(noise, factor):
    p, q = point(0.0, 0.0), point(1.0, 0.5)
    for notion in (Pufferfish(0.3, 1e-3), RenyiPufferfish(0.5, 2.0)):
        exact = notion.shift_loss(noise.scaled(factor), [1.0, 0.5])
        for low, high in interval(p, q, noise.scaled(factor), notion):
            assert low <= exact * (1 + 1e-9)
            if isinstance(notion, RenyiPufferfish):
                assert exact * (1 - 1e-9) <= high


KINKS = [Pufferfish(0.5), Pufferfish(0.3, 1e-3), RenyiPufferfish(0.5, 2.0)]


@pytest.mark.parametrize("notion", KINKS, ids=repr)
@pytest.mark.parametrize("seed", range(2))
def test_boxes_with_kinks_inside_hold_the_loss(notion, seed, monkeypatch):
    """Few edges are atoms, and no box is cut: the loss lies within wide ends all the same."""
    rng = np.random.default_rng(seed)
    p, q = (random_prior(rng, (6, 5)) for _ in "pq")
    noise = Laplace((0.9, 1.7))
    known = np.array(interval(p, q, noise, notion))
    monkeypatch.setattr(boxes, "_MOST_FIRST", 1 + seed)
    for most in (1, 2**11):
        monkeypatch.setattr(boxes, "MAX_BOXES", most)
        wide = np.array(interval(p, q, noise, notion))
        assert (wide[:, 0] <= known[:, 1]).all()
        assert (known[:, 0] <= wide[:, 1]).all()
        if notion.is_pure:
            exact = directed_losses(p, q, (0.9, 1.7))
            assert (wide[:, 0] <= np.array(exact) * (1.0 + 1e-12)).all()
            assert (exact <= wide[:, 1] * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("noise", FAMILIES, ids=str)
def test_the_mass_of_all_boxes_is_one(noise):
    rng = np.random.default_rng(2)
    p, q = random_prior(rng, (5, 4)), random_prior(rng, (5, 4))
    panels = box_panels(p, q, noise, Pufferfish(0.3, 1e-3))
    assert panels.p_low.sum() <= 1.0 <= panels.p_high.sum() <= 1.0 + 1e-8
    assert panels.q_low.sum() <= 1.0 <= panels.q_high.sum() <= 1.0 + 1e-8
    with np.errstate(divide="ignore"):
        mean = np.log(panels.p_high) - np.log(panels.q_low)
        other = np.log(panels.p_low) - np.log(panels.q_high)
    assert np.all(panels.log_low <= mean)
    assert np.all(other <= panels.log_high)


def test_what_is_computable_is_said_beforehand():
    small, line = point(0, 0), Discrete([0], [1.0])
    side = MOST_VALUES + 1
    large = Discrete(np.stack([np.arange(side)] * 2, axis=1), np.full(side, 1.0 / side))
    approximate = Pufferfish(1.0, 1e-5)
    assert boxes_computable([small, small], Gaussian(1.0), approximate)
    assert boxes_computable([small], Cauchy(1.0), Pufferfish(1.0))
    assert not boxes_computable([small], Gaussian(1.0), Pufferfish(1.0))
    assert not boxes_computable([line], Gaussian(1.0), approximate)
    assert not boxes_computable([large], Gaussian(1.0), approximate)


SMALL_BUDGETS = [
    (Gaussian(1600.0), Pufferfish(1e-3, 1e-5)),
    (Gaussian(6.6e7), Pufferfish(1e-8, 1e-9)),
    (Gaussian(2236.0), RenyiPufferfish(1e-7, 2.0)),
    (Gaussian((46_000.0, 15.0)), Pufferfish(0.1, 1e-5)),
    (Cauchy(1000.0), Pufferfish(1e-3)),
    (Cauchy(4.8e7), Pufferfish(1e-8, 1e-9)),
    (GeneralizedCauchy(2000.0, 5.0), RenyiPufferfish(1e-6, 8.0)),
]


@pytest.mark.parametrize(("noise", "notion"), SMALL_BUDGETS, ids=str)
def test_small_budgets_are_told_as_closely_as_large_ones(noise, notion):
    # far out, where little noise would matter, there is nothing to lose under much noise
    p = Discrete.from_counts([[0, 0], [1, 0], [0, 1]], [2, 1, 1])
    q = Discrete.from_counts([[1, 0], [0, 1], [1, 1]], [1, 1, 2])
    for low, high in interval(p, q, noise, notion):
        assert low > 0.0
        # masses are known to 1e-12
        assert high - low <= 1e-3 * max(high, 1e-2 * notion.budget) + 6e-12 * (notion.delta > 0.0)
    if isinstance(notion, Pufferfish) and notion.delta == 0.0:
        seen = float(supremum_on_the_diagonal(p, q, noise))
        assert low <= seen * (1 + 1e-4)
        assert seen <= high
    elif isinstance(noise, Gaussian) and notion.delta > 0.0:
        about = dense(q, p, noise, notion)
        assert low - 3e-3 * about <= about <= high + 3e-3 * about


def supremum_on_the_diagonal(p, q, noise):
    """Return the largest log ratio seen at points (y, y), in 30 digits."""
    s = mpmath.mpf(float(noise.axis_scales(2)[0]))

    def density(prior, y):
        return mpmath.fsum(
            int(count)
            / mpmath.mpf(int(prior.total))
            / mpmath.fprod(1 + ((y - float(x)) / s) ** 2 for x in row)
            for row, count in zip(prior.rows, prior.counts, strict=True)
        )

    with mpmath.workdps(30):
        places = [s * (1 + mpmath.mpf(k) / 50) * sign for k in range(-10, 11) for sign in (-1, 1)]
        return max(mpmath.log(density(p, y) / density(q, y)) for y in places)


def test_a_column_that_never_varies_has_no_tail_to_lose_in():
    one, two = (Discrete.from_counts([[15, 5], [15, 10]], counts) for counts in ([0, 19], [9, 4]))
    notion = RenyiPufferfish(4.0, 10.0)
    forward, backward = interval(one, two, Gaussian((0.5, 0.72)), notion)
    assert 1.178 < forward[0] <= forward[1] < np.log(13.0 / 4.0)  # hardly below the largest ratio
    assert backward[0] > 100.0
    assert not np.isnan(backward[1])
