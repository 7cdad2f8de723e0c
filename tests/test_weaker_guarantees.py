"""A delta or an order alpha promises less than a pure guarantee, and never asks for more noise."""

from __future__ import annotations

import warnings
from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer import PufferfishWarning
from sklearn_puffer._losses.boxes import split_edges
from sklearn_puffer._strategies.derived_bounds import two_points
from sklearn_puffer.bounds import tightest
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

CUBE = [[i, j, k] for i, j, k in product((0, 1), repeat=3)]
NOISES = [Laplace(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 4.0), Gaussian(1.0)]


def of_cube(rng):
    return tuple(Discrete.from_counts(CUBE, rng.integers(1, 9, 8).tolist()) for _ in "pq")


def of_plane(rng):
    rows = [[i, j] for i, j in product(range(3), (0.0, 0.7))]
    return tuple(Discrete.from_counts(rows, rng.integers(1, 9, 6).tolist()) for _ in "pq")


def of_line(rng):
    return tuple(Discrete.from_counts(range(4), rng.integers(1, 9, 4).tolist()) for _ in "pq")


def of_mixed_line(rng):
    return tuple(GaussianMixture([0.6, 0.4], rng.normal(size=2), [1.0, 1.3]) for _ in "pq")


def of_mixed_rows(rng):
    def prior():
        return GaussianMixture([0.6, 0.4], rng.normal(size=(2, 2)), [np.eye(2), 1.3 * np.eye(2)])

    return prior(), prior()


PRIORS = [of_cube, of_plane, of_line, of_mixed_line, of_mixed_rows]


def scale_of(pair, notion, noise, strategy):
    """Return the smallest scale, infinite where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)  # `exact` falls back on `tightest`
        try:
            return calibrate([pair], notion, noise=noise, strategy=strategy).scale
        except ValueError:
            return np.inf


def of_rising(pair, notions, noise, strategy):
    """Return the scales of notions, each of which promises more than the one before it."""
    scales = [scale_of(pair, notion, noise, strategy) for notion in notions]
    # of two columns losses are known to a part in a thousand
    for weaker, stronger in pairwise(scales):
        assert weaker <= stronger * (1.0 + 2e-3), (pair, notions, scales)
    return scales


WEAKER = {
    "delta": [Pufferfish(0.5, delta) for delta in (0.2, 1e-2, 1e-6, 1e-12)],
    "alpha": [RenyiPufferfish(0.5, alpha) for alpha in (1.1, 2.0, 8.0, 64.0)],
}
BY = ["exact", tightest, "distribution_aware", "wasserstein"]
QUICK = list(product([of_cube], NOISES[:1], BY, WEAKER))
# every two of a prior, a noise, a strategy and a guarantee meet
SLOW = [
    pytest.param(*case, marks=pytest.mark.slow)
    for case in all_pairs(product(PRIORS, NOISES, BY, WEAKER))
    if case not in QUICK
]


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "noise", "strategy", "weaker"), [*QUICK, *SLOW])
def test_noise_rises_with_what_is_promised_and_is_never_above_that_of_the_pure_guarantee(
    prior, noise, strategy, weaker
):
    pair = prior(np.random.default_rng(3))
    of_rising(pair, [*WEAKER[weaker], Pufferfish(0.5)], noise, strategy)


@pytest.mark.slow
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), epsilon=st.sampled_from([0.1, 0.5, 2.0]))
def test_noise_of_three_columns_rises_with_what_is_promised(seed, epsilon):
    pair = of_cube(np.random.default_rng(seed))
    pure = Pufferfish(epsilon)
    of_rising(
        pair, [Pufferfish(epsilon, 1e-2), Pufferfish(epsilon, 1e-6), pure], "laplace", "exact"
    )
    of_rising(pair, [RenyiPufferfish(epsilon, 2.0), pure], "laplace", "exact")


def test_three_columns_of_bits_need_no_more_noise_for_less():
    """A coupling alone asks for 2.000 with a delta of 1e-6, and for 1.924 at order 64."""
    counts = [2, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 4]
    pair = tuple(Discrete.from_counts(CUBE, each) for each in counts)
    notions = RenyiPufferfish(0.5, 64.0), Pufferfish(0.5, 1e-6), Pufferfish(0.5)
    scales = of_rising(pair, notions, "laplace", "exact")
    assert scales == pytest.approx([1.1068, 1.12834, 1.12834], abs=1e-4)


@pytest.mark.parametrize("notion", [Pufferfish(0.3, 0.1), RenyiPufferfish(1.0, 3.0)])
def test_the_bound_of_rows_is_above_the_loss_of_all_rows_of_a_fine_grid(notion):
    rng = np.random.default_rng(5)
    for _ in range(3):
        p, q = of_cube(rng)
        bound = tightest([PriorPair(p, q)], Laplace(1.0), notion).losses(1.0)[0]
        assert (bound >= coarse_losses(p, q, notion) - 1e-12).all()


def coarse_losses(p, q, notion):
    """Return the losses of rows of which only a cell of a grid is told, under noise of scale 1."""
    edges = np.concatenate([[-np.inf], np.linspace(-2.0, 3.0, 26), [np.inf]])
    below = np.where(edges < 0, 0.5 * np.exp(edges), 1.0 - 0.5 * np.exp(-edges))
    of_zero = np.diff(below)
    below = np.where(edges < 1, 0.5 * np.exp(edges - 1), 1.0 - 0.5 * np.exp(1 - edges))
    of_bits = np.stack([of_zero, np.diff(below)])
    a, b = (
        np.einsum("ijk,ix,jy,kz->xyz", x.probabilities.reshape(2, 2, 2), *[of_bits] * 3)
        for x in (p, q)
    )
    if notion.is_chance:
        factor = np.exp(notion.epsilon)
        return np.array([np.maximum(x - factor * y, 0.0).sum() for x, y in ((a, b), (b, a))])
    alpha = notion.alpha
    means = [(x**alpha * y ** (1.0 - alpha)).sum() for x, y in ((a, b), (b, a))]
    return np.log(means) / (alpha - 1.0)


@pytest.mark.parametrize("alpha", [1.01, 2.0, 64.0])
@pytest.mark.parametrize(("high", "low"), [(1e-9, 1e-8), (1e-4, 3e-4), (0.3, 0.49), (0.6, 20.0)])
def test_two_points_are_rounded_up_and_hardly_so(high, low, alpha):
    with mp.workdps(60):
        e_high, e_low = mp.exp(mp.mpf(high)), mp.exp(-mp.mpf(low))
        share = (1 - e_low) / (e_high - e_low)
        mean = share * e_high ** mp.mpf(alpha) + (1 - share) * e_low ** mp.mpf(alpha)
        renyi = mp.log(mean) / (mp.mpf(alpha) - 1)
        delta = share * max(e_high - mp.exp(mp.mpf("1e-5")), 0)
    ends = np.array([high]), np.array([low])
    found = float(two_points(*ends, RenyiPufferfish(1.0, alpha))[0])
    assert renyi <= found <= renyi * (1 + mp.mpf(1e-6)) + mp.mpf(1e-10)
    found = float(two_points(*ends, Pufferfish(1e-5, 0.1))[0])
    assert delta <= found <= delta * (1 + mp.mpf(1e-9))


def test_no_loss_and_every_loss_have_two_points_of_their_own():
    ends = np.array([0.0, 0.0, np.inf, np.inf, 2.0]), np.array([0.0, 1.0, np.inf, 1.0, np.inf])
    renyi = two_points(*ends, RenyiPufferfish(1.0, 2.0))
    assert renyi.tolist() == [0.0, 0.0, np.inf, np.inf, pytest.approx(2.0)]
    delta = two_points(*ends, Pufferfish(1.0, 0.5))
    expected = [0.0, 0.0, 1.0, 1.0 - np.exp(-1.0), 1.0 - np.exp(-1.0)]
    assert delta == pytest.approx(expected, abs=1e-12)


def of_grid(n, m):
    """Return two correlated distributions over n times m values, a little apart."""
    rows = np.array(list(product(np.linspace(-3.0, 3.0, n), np.linspace(-3.0, 3.0, m))))
    priors = []
    for mean, slope in ((0.0, 0.3), (0.4, 0.6)):
        x, y = (rows - mean).T
        weights = np.exp(-0.5 * x * x - 0.5 * np.square(y - slope * x))
        counts = np.maximum(1e6 * weights / weights.sum(), 1.0).astype(int)
        priors.append(Discrete.from_counts(rows, counts.tolist()))
    return tuple(priors)


@pytest.mark.slow
@pytest.mark.parametrize("notion", [Pufferfish(0.5, 1e-3), RenyiPufferfish(0.5, 8.0)])
def test_one_more_value_beyond_a_thousand_cells_changes_the_scale_by_little(notion):
    scales = [calibrate([of_grid(n, 32)], notion).scale for n in (32, 33)]
    assert scales[1] == pytest.approx(scales[0], rel=0.05)


@pytest.mark.slow
def test_no_noise_is_added_where_rows_of_many_columns_lose_little_without_it():
    p, q = (Discrete.from_counts(CUBE, 9 + np.arange(8) % n) for n in (2, 3))
    for notion in (Pufferfish(0.5), Pufferfish(0.5, 1e-6), RenyiPufferfish(0.5, 2.0)):
        for noise in NOISES:
            assert calibrate([(p, q)], notion, noise=noise, strategy=tightest).scale == 0.0
    with pytest.raises(ValueError, match="every shift loses all"):
        calibrate([(p, q)], Pufferfish(0.01), noise="gaussian", strategy=tightest)


def test_a_grid_that_begins_with_too_many_boxes_is_cut_no_further():
    edges = [np.arange(601.0), np.arange(601.0)]
    assert split_edges(edges, [np.ones(600), np.ones(600)]) is None
