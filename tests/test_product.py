"""Every pure strategy for Laplace noise, on every family of priors, against 50 digits.

A new strategy or family of priors is one line in one of the tables below. The other noises and
notions have a product of their own, in `test_strategies`.
"""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import mpmath
import numpy as np
import oracle
import pytest

from sklearn_puffer.bounds import Relaxed, tightest
from sklearn_puffer.calibration import STRATEGIES, calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

PAIRS = 115  # of each family in one column; a third of it for the slower rows


def irregular(rng):
    p, q = (_irregular_atoms(rng, size) for size in rng.integers(2, 7, 2))
    return Discrete(p, rng.dirichlet(np.ones(p.size))), Discrete(q, rng.dirichlet(np.ones(q.size)))


def counted(rng):
    atoms = np.arange(rng.integers(2, 7))
    return tuple(Discrete.from_counts(atoms, 1 + rng.poisson(20, atoms.size)) for _ in "pq")


def with_zero_masses(rng):
    atoms = _irregular_atoms(rng, 6)
    counts = rng.poisson(1.0, (2, 6))
    counts[np.arange(2), rng.integers(0, 6, 2)] += 1
    return tuple(Discrete.from_counts(atoms, each) for each in counts)


def with_tiny_masses(rng):
    atoms = _irregular_atoms(rng, 5)
    return tuple(Discrete(atoms, _tiny(rng, 5)) for _ in "pq")


def nearly_equal(rng):
    counts = rng.integers(1, 1000, 6)
    other = counts.copy()
    other[rng.integers(6)] += 1
    atoms = _irregular_atoms(rng, 6)
    return Discrete.from_counts(atoms, counts), Discrete.from_counts(atoms, other)


def equal(rng):
    atoms, counts = _irregular_atoms(rng, 5), rng.integers(1, 10, 5)
    return Discrete.from_counts(atoms, counts), Discrete.from_counts(atoms, 3 * counts)


def disjoint(rng):
    atoms = _irregular_atoms(rng, 7)
    return (
        Discrete.from_counts(atoms[::2], rng.integers(1, 9, 4)),
        Discrete.from_counts(atoms[1::2], rng.integers(1, 9, 3)),
    )


def one_atom_against_many(rng):
    p = Discrete([rng.normal()], [1.0])
    q = Discrete(_irregular_atoms(rng, 4), rng.dirichlet(np.ones(4)))
    return (p, q) if rng.random() < 0.5 else (q, p)


def rows_on_a_grid(rng):
    rows = np.array([[i, j] for i in range(3) for j in (0.0, 0.7)])
    return tuple(Discrete.from_counts(rows, 1 + rng.poisson(2.0, 6)) for _ in "pq")


def scattered_rows(rng):
    rows = rng.integers(0, 3, (2, 3, 2)) * [1.0, 2.5]
    counts = rng.integers(1, 9, (2, 3))
    return tuple(Discrete.from_counts(*each) for each in zip(rows, counts, strict=True))


def rows_of_three_columns(rng):
    rows = rng.integers(0, 2, (2, 3, 3)) * [1.0, 0.1, 3.0]
    return tuple(Discrete(each, _tiny(rng, 3)) for each in rows)


def _irregular_atoms(rng, size):
    gaps = 10.0 ** rng.uniform(-2.0, 1.0, size)
    return np.cumsum(gaps) - gaps.sum() / 2.0


def _tiny(rng, size):
    masses = 10.0 ** rng.uniform(-12.0, 0.0, size)
    return masses / masses.sum()


PRIORS = {
    maker.__name__.replace("_", " "): maker
    for maker in (
        irregular,
        counted,
        with_zero_masses,
        with_tiny_masses,
        nearly_equal,
        equal,
        disjoint,
        one_atom_against_many,
        rows_on_a_grid,
        scattered_rows,
        rows_of_three_columns,
    )
}
PURE = ("sensitivity", "wasserstein", "relaxed", "distribution_aware", "exact")
BOUNDS = {
    **{name: STRATEGIES[name] for name in PURE},
    "relaxed, Eq. 11": Relaxed("eq11"),
    "relaxed, Eq. 12": Relaxed("eq12"),
    "tightest": tightest,
}
NOISES = {"laplace": Laplace}

# the fast run draws a third of the pairs
shares = pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.slow)])
product_of_all = pytest.mark.parametrize(
    ("noise", "family", "strategy"),
    [(noise, family, strategy) for noise in NOISES for family in PRIORS for strategy in BOUNDS],
)


DUST = mpmath.mpf(10) ** -45  # what the 50 digits of the oracle leave of an exact zero


class Instance(NamedTuple):
    """A pair, a template with a scale for each axis, a factor, and the true losses there."""

    pair: PriorPair
    template: Any
    factor: float
    losses: tuple[mpmath.mpf, mpmath.mpf]

    def loss_at(self, factor):
        scales = tuple(theta * factor for theta in self.template.scale)
        return oracle.loss(*self.pair, scales)


@cache
def instances(noise, family, share):
    seed = [sorted(NOISES).index(noise), sorted(PRIORS).index(family)]
    rng = np.random.default_rng(seed)
    pairs = [PriorPair(*PRIORS[family](rng)) for _ in range(PAIRS // share)]
    pairs = pairs if pairs[0].p.n_axes == 1 else pairs[: PAIRS // share // 3]
    template = NOISES[noise](tuple(rng.uniform(0.5, 2.0, pairs[0].p.n_axes)))
    spans = [np.ptp(np.concatenate([p.rows, q.rows]), axis=0) for p, q in pairs]
    reach = float(np.median(template.max_divergence(np.array(spans))))
    # few factors, so that all pairs are asked at once
    factors = reach * 10.0 ** rng.uniform(-1.0, 0.5, 8)
    return [_instance(pair, template, float(rng.choice(factors))) for pair in pairs]


def _instance(pair, template, factor):
    scales = tuple(theta * factor for theta in template.scale)
    return Instance(pair, template, factor, oracle.directed_losses(*pair, scales))


@cache
def _bound_on_all(noise, family, strategy, share):
    drawn = instances(noise, family, share)
    return BOUNDS[strategy]([each.pair for each in drawn], drawn[0].template, Pufferfish(1.0))


@pytest.mark.slow
def test_there_are_a_thousand_random_pairs():
    drawn = [instances(noise, family, 1) for noise in NOISES for family in PRIORS]
    assert sum(map(len, drawn)) >= 1000 * len(NOISES)


@product_of_all
@shares
def test_a_bound_is_never_below_the_loss_in_either_direction(noise, family, strategy, share):
    drawn = instances(noise, family, share)
    bound = _bound_on_all(noise, family, strategy, share)
    found = {factor: bound.losses(factor) for factor in {each.factor for each in drawn}}
    for k, instance in enumerate(drawn):
        losses = found[instance.factor]
        assert losses.shape == (len(drawn), 2)
        assert mpmath.mpf(float(losses[k, 0])) >= instance.losses[0] - DUST
        assert mpmath.mpf(float(losses[k, 1])) >= instance.losses[1] - DUST


@product_of_all
@shares
def test_the_loss_at_the_calibrated_scale_is_within_the_budget(noise, family, strategy, share):
    for instance in instances(noise, family, share)[::8]:
        epsilon = _budget(instance)
        found = calibrate(
            [instance.pair],
            Pufferfish(epsilon),
            noise=instance.template,
            strategy=BOUNDS[strategy],
        )
        assert found.bound <= epsilon
        if found.scale:
            assert instance.loss_at(found.scale) <= epsilon
        else:
            assert _loss_without_noise(instance.pair) <= epsilon


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("family", PRIORS)
@shares
def test_exact_calibration_finds_the_smallest_scale_and_never_less(noise, family, share):
    for instance in instances(noise, family, share):
        epsilon = _budget(instance)
        found = calibrate([instance.pair], Pufferfish(epsilon), noise=instance.template)
        if found.scale == 0.0:
            assert _loss_without_noise(instance.pair) <= epsilon
            continue
        assert instance.loss_at(found.scale) <= epsilon
        # the exact loss is itself an interval some 1e-14 wide
        assert instance.loss_at(found.scale * (1.0 - 1e-9)) > epsilon - 1e-13


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("family", PRIORS)
@shares
def test_exact_is_below_relaxed_below_wasserstein_below_sensitivity(noise, family, share):
    names = ["exact", "relaxed", "distribution_aware", "wasserstein", "sensitivity"]
    made = [_bound_on_all(noise, family, name, share) for name in names]
    factors = {instance.factor for instance in instances(noise, family, share)}
    for level in (0.0, min(factors) / 10.0, *factors, 10.0 * max(factors)):
        for smaller, larger in pairwise([bound.losses(level) for bound in made]):
            assert np.all(smaller <= larger * (1.0 + 1e-12) + 1e-13)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("strategy", BOUNDS)
@shares
def test_several_pairs_need_what_the_worst_of_them_needs(noise, strategy, share):
    pairs = [instance.pair for instance in instances(noise, "with zero masses", share)]
    single = [_scale([pair], noise, strategy) for pair in pairs]
    together = calibrate(
        pairs, Pufferfish(0.7), noise=NOISES[noise](1.0), strategy=BOUNDS[strategy]
    )
    assert together.scale == pytest.approx(max(single), rel=1e-11)
    assert single[together.worst_pair] == pytest.approx(max(single), rel=1e-9)


def _scale(pairs, noise, strategy):
    template = NOISES[noise](1.0)
    return calibrate(pairs, Pufferfish(0.7), noise=template, strategy=BOUNDS[strategy]).scale


def _budget(instance):
    """Return the loss at the instance's factor, so that the smallest scale is known to be there."""
    loss = max(instance.losses)
    return float(loss) * (1.0 + 1e-15) if loss > 1e-9 else 0.1


def _loss_without_noise(pair):
    masses = [
        {tuple(row): int(c) for row, c in zip(each.rows.tolist(), each.counts, strict=True) if c}
        for each in pair
    ]
    if masses[0].keys() != masses[1].keys():
        return mpmath.inf
    scale = mpmath.mpf(pair.q.total) / pair.p.total
    return max(abs(mpmath.log(scale * masses[0][x] / masses[1][x])) for x in masses[0])
