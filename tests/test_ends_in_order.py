"""Lower ends of losses are never above upper ends: nothing that contradicts itself is hidden."""

from itertools import product

import numpy as np
import pytest

from sklearn_puffer._losses import LossTable
from sklearn_puffer._losses.divergences import Panels, both_intervals
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
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("family", "notion"), list(product(FAMILIES, NOTIONS)), ids=lambda case: repr(case)
)
def test_no_lower_end_is_above_its_upper_end(family, notion, seed):
    rng = np.random.default_rng(seed)
    unit, ratio = 10.0 ** rng.uniform(-12.0, 12.0), 10.0 ** rng.uniform(-2.0, 2.0)
    make = (discrete, mixtures)[seed % 2]
    pair = make(rng, int(rng.integers(2, 4)), unit)
    lower, upper = LossTable([pair], notion).intervals(family.scaled(unit * ratio))
    assert (lower <= upper).all()
    assert (lower >= 0.0).all()


def test_no_panels_of_points_contradict_themselves_and_all_hold_the_loss():
    """Against sums in extended precision, of distributions that are cut in any way."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        p, q = (rng.random((2, 12)) ** rng.choice([1.0, 8.0])).astype(np.longdouble)
        p, q = p / p.sum(), q / q.sum()
        owner = np.arange(12) // rng.choice([1, 1, 2, 5, 12])
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        f = np.log(p / q)
        blur = 1e-15 + 10.0 ** -rng.uniform(2.0, 20.0)
        ends = []
        for whole in (np.add.reduceat(p, starts), np.add.reduceat(q, starts)):
            ends += [(whole * (1.0 - blur)).astype(float), (whole * (1.0 + blur)).astype(float)]
        off = blur * (1.0 + np.abs(f))
        low = np.minimum.reduceat(f - off, starts).astype(float)
        high = np.maximum.reduceat(f + off, starts).astype(float)
        panels = Panels(*ends, low, high)
        fine = len(starts) == 12 and blur < 1e-13
        for notion in NOTIONS:
            found = np.transpose(both_intervals(panels, notion))
            for (lower, upper), (one, two) in zip(found, ((p, q), (q, p)), strict=True):
                exact = divergence(one, two, notion)
                assert lower <= exact <= upper
                order = getattr(notion, "alpha", 2.0) - 1.0
                assert not fine or upper - lower <= 1e-11 * (1.0 + upper) / min(order, 1.0)


def divergence(p, q, notion):
    if isinstance(notion, RenyiPufferfish):
        order = np.longdouble(notion.alpha) - 1
        return np.log(np.sum(p * np.exp(order * np.log(p / q)))) / order
    if notion.delta > 0.0:
        return np.maximum(p - np.exp(np.longdouble(notion.epsilon)) * q, 0.0).sum()
    return np.log(p / q).max()
