"""Lower ends of losses are never above upper ends: nothing that contradicts itself is hidden."""

from itertools import product

import mpmath
import numpy as np
import pytest

from sklearn_puffer._losses import LossTable
from sklearn_puffer._losses.divergences import Panels, apart, both_intervals
from sklearn_puffer._losses.gaussian_mixtures import has_distribution
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

NOTIONS = [Pufferfish(0.1), Pufferfish(0.02, 1e-6), Pufferfish(2.0, 1e-6)]
NOTIONS += [RenyiPufferfish(1.0, alpha) for alpha in (1.0001, 1.5, 100.0)]
FAMILIES = [Laplace(1.0), Gaussian(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 3.5)]


def discrete(rng, size, unit):
    atoms = np.unique(rng.normal(size=size).round(int(rng.integers(1, 4))))
    counts = rng.integers(0, 9, (2, len(atoms))) * 10 ** rng.integers(0, 6, (2, len(atoms)))
    counts[:, rng.integers(len(atoms))] += 1
    return PriorPair(*(Discrete.from_counts(atoms * unit, row) for row in counts))


def mixtures(rng, size, unit):
    def prior():
        means, deviations = rng.normal(size=size), 10.0 ** rng.uniform(-1.0, 1.0, size)
        return GaussianMixture(rng.dirichlet(np.ones(size)), unit * means, unit * deviations)

    return PriorPair(prior(), prior())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "notion", "seed"),
    # each with a discrete pair and a pair of mixtures, of six units and numbers of digits
    [
        (family, notion, (2 * (i + k) + j) % 6)
        for (i, family), (k, notion), j in product(enumerate(FAMILIES), enumerate(NOTIONS), (0, 1))
        if not j or has_distribution(family)  # else mixtures have a bound and no loss
    ],
    ids=repr,
)
def test_no_lower_end_is_above_its_upper_end(family, notion, seed):
    rng = np.random.default_rng(seed)
    unit, ratio = 10.0 ** rng.uniform(-12.0, 12.0), 10.0 ** rng.uniform(-2.0, 2.0)
    make = (discrete, mixtures)[seed % 2]
    pair = make(rng, int(rng.integers(2, 4)), unit)
    lower, upper = LossTable([pair], notion).intervals(family.scaled(unit * ratio))
    assert (lower <= upper).all()
    assert (lower >= 0.0).all()


def random_points(rng):
    """Return two distributions on 12 points; now and then one of them misses a point."""
    p, q = (rng.random((2, 12)) ** rng.choice([1.0, 8.0])).astype(np.longdouble)
    if rng.random() < 0.3:
        (p, q)[rng.integers(2)][rng.integers(12)] = 0.0
    return p / p.sum(), q / q.sum()


def in_panels(p, q, size, blur):
    """Put so many neighbouring points into a panel each, with bounds that are off by ``blur``."""
    starts = np.arange(0, 12, size)
    with np.errstate(divide="ignore"):
        f = np.log(p / q)
    off = blur * (1.0 + np.abs(np.where(np.isfinite(f), f, 0.0)))
    ends = []
    for whole in (np.add.reduceat(p, starts), np.add.reduceat(q, starts)):
        ends += [(whole * (1.0 - blur)).astype(float), (whole * (1.0 + blur)).astype(float)]
    low = np.minimum.reduceat(f - off, starts).astype(float)
    return Panels(*ends, low, np.maximum.reduceat(f + off, starts).astype(float))


def test_bounds_from_panels_hold_the_loss_in_order_however_points_are_put_together():
    """Against sums in extended precision."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        p, q = random_points(rng)
        size, blur = int(rng.choice([1, 1, 2, 5, 12])), 1e-15 + 10.0 ** -rng.uniform(2.0, 20.0)
        panels = in_panels(p, q, size, blur)
        for notion in NOTIONS:
            found = np.transpose(both_intervals(panels, notion))
            for (lower, upper), (one, two) in zip(found, ((p, q), (q, p)), strict=True):
                exact = divergence(one, two, notion)
                assert 0.0 <= lower <= exact <= upper
                if size == 1 and blur < 1e-13 and np.isfinite(exact):
                    order = getattr(notion, "alpha", 2.0) - 1.0
                    assert upper - lower <= 1e-11 * (1.0 + float(exact)) / min(order, 1.0)


def divergence(p, q, notion):
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.log(p / q)
        if isinstance(notion, RenyiPufferfish):
            order = np.longdouble(notion.alpha) - 1
            return np.log(np.sum(np.where(p > 0.0, p * np.exp(order * f), 0.0))) / order
    if notion.delta > 0.0:
        return np.maximum(p - np.exp(np.longdouble(notion.epsilon)) * q, 0.0).sum()
    return f.max()


@mpmath.workdps(40)
def test_differences_of_masses_are_rounded_outwards_by_a_few_ulps():
    rng = np.random.default_rng(2)
    p, q = 10.0 ** rng.uniform(-200.0, 0.0, (2, 100))
    q[:5] = 0.0
    factor = np.log(p) - np.log(np.where(q > 0.0, q, 1.0)) - rng.exponential(size=100)
    ends = [apart(p, q, factor, side) for side in (-1.0, 1.0)]
    for k in range(100):
        taken = mpmath.exp(mpmath.mpf(factor[k])) * mpmath.mpf(q[k])
        exact = mpmath.mpf(p[k]) - taken
        assert ends[0][k] <= exact <= ends[1][k]
        size = 2.0 * abs(factor[k]) + (abs(np.log(q[k])) if q[k] else 0.0)
        room = 2.0**-52 * (float(taken) * (4.0 + size) + 4.0 * p[k])
        assert exact - ends[0][k] <= 1.7 * room
        assert ends[1][k] - exact <= 1.7 * room
