"""Strategies over every family of priors, noise and notion, against what is truly lost.

For pure epsilon and Laplace noise the truth is known in 50 digits. For other noises and notions it
is brute force over cells of the released value, which is never above the true loss, and single
moves are held against 50 digits. A new strategy, noise, notion or family of priors is one line in
one of the tables below; its bounds are made once, and asked for everything that is guaranteed of
them.
"""

from __future__ import annotations

import itertools
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import loss_oracle_small
import mpmath
import numpy as np
import oracle
import pytest
from all_pairs import pairs_first
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer._strategies import ground_cost, monotone
from sklearn_puffer.bounds import (
    Impossible,
    Relaxed,
    approximate,
    distribution_aware,
    monge,
    sensitivity,
    tightest,
    wasserstein,
)
from sklearn_puffer.calibration import STRATEGIES, calibrate, exact
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

DRAWN = 116  # of each family in one column; a third of it for the slower rows


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
ORDER = ("exact", "relaxed", "distribution_aware", "wasserstein", "sensitivity")
PURE_BOUNDS = {
    **{name: STRATEGIES[name] for name in PURE},
    "relaxed, Eq. 11": Relaxed("eq11"),
    "relaxed, Eq. 12": Relaxed("eq12"),
    "tightest": tightest,
}
DUST = mpmath.mpf(10) ** -45  # what the 50 digits of the oracle leave of an exact zero

# the fast run draws an eighth of the pairs
shares = pytest.mark.parametrize("share", [8, pytest.param(2, marks=pytest.mark.slow)])


# Pure epsilon and Laplace noise, in 50 digits


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
def instances(family, share):
    rng = np.random.default_rng([0, sorted(PRIORS).index(family)])
    pairs = [PriorPair(*PRIORS[family](rng)) for _ in range(DRAWN // share)]
    pairs = pairs if pairs[0].p.n_axes == 1 else pairs[: DRAWN // share // 3]
    template = Laplace(tuple(rng.uniform(0.5, 2.0, pairs[0].p.n_axes)))
    spans = [np.ptp(np.concatenate([p.rows, q.rows]), axis=0) for p, q in pairs]
    reach = float(np.median(template.max_divergence(np.array(spans))))
    # few factors, so that all pairs are asked at once
    factors = reach * 10.0 ** rng.uniform(-1.0, 0.5, 8)
    return [_instance(pair, template, float(rng.choice(factors))) for pair in pairs]


def _instance(pair, template, factor):
    scales = tuple(theta * factor for theta in template.scale)
    return Instance(pair, template, factor, oracle.directed_losses(*pair, scales))


@pytest.mark.parametrize("family", PRIORS)
@shares
def test_derived_bounds_are_never_below_the_loss_and_in_the_order_of_the_theorems(family, share):
    drawn = instances(family, share)
    pairs = [each.pair for each in drawn]
    bounds = {
        name: strategy(pairs, drawn[0].template, Pufferfish(1.0))
        for name, strategy in PURE_BOUNDS.items()
    }
    factors = sorted({each.factor for each in drawn})
    for name, bound in bounds.items():
        found = {factor: bound.losses(factor) for factor in factors}
        for k, instance in enumerate(drawn):
            losses = found[instance.factor]
            assert losses.shape == (len(drawn), 2)
            for one, truth in zip(losses[k], instance.losses, strict=True):
                assert mpmath.mpf(float(one)) >= truth - DUST, name
    for level in (0.0, factors[0] / 10.0, *factors, 10.0 * factors[-1]):
        for smaller, larger in pairwise([bounds[name].losses(level) for name in ORDER]):
            assert np.all(smaller <= larger * (1.0 + 1e-12) + 1e-13)


@pytest.mark.parametrize("family", PRIORS)
@shares
def test_pure_calibration_keeps_the_budget_and_exact_finds_the_smallest_scale(family, share):
    for k, instance in enumerate(instances(family, share)):
        budget = _budget(instance)
        for name, strategy in PURE_BOUNDS.items():
            if name == "exact" or k % 8 == 0:
                found = _calibrated([instance.pair], budget, instance.template, strategy)
                assert found.bound <= budget
                assert _loss_at(instance, found.scale) <= budget, name
            if name == "exact" and found.scale:
                # the exact loss is itself an interval some 1e-14 wide
                assert instance.loss_at(found.scale * (1.0 - 1e-9)) > budget - 1e-13


@pytest.mark.parametrize("strategy", PURE_BOUNDS)
@shares
def test_several_pairs_need_what_the_worst_of_them_needs(strategy, share):
    pairs = [instance.pair for instance in instances("with zero masses", share)]
    chosen, one = PURE_BOUNDS[strategy], Laplace(1.0)
    single = [_calibrated([pair], 0.7, one, chosen).scale for pair in pairs]
    together = _calibrated(pairs, 0.7, one, chosen)
    assert together.scale == pytest.approx(max(single), rel=1e-11)
    assert single[together.worst_pair] == pytest.approx(max(single), rel=1e-9)


def _calibrated(pairs, epsilon, template, strategy):
    return calibrate(pairs, Pufferfish(epsilon), noise=template, strategy=strategy)


def _loss_at(instance, scale):
    return instance.loss_at(scale) if scale else _loss_without_noise(instance.pair)


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


# Every noise and notion, against cells

NOISES = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "cauchy": Cauchy,
    "generalised cauchy": partial(GeneralizedCauchy, k=3.5),
}
NOTIONS = {
    "pure": Pufferfish(1.0),
    "delta": Pufferfish(0.5, delta=1e-3),
    "tiny delta": Pufferfish(1.0, delta=1e-10),
    "Renyi 2": RenyiPufferfish(1.0, alpha=2.0),
    "Renyi 1.2": RenyiPufferfish(0.3, alpha=1.2),
    "Renyi 20": RenyiPufferfish(3.0, alpha=20.0),
}
SOUND = {
    name: strategy for name, strategy in STRATEGIES.items() if name not in ("exact", "monge")
} | {"tightest": tightest}
ROWS = ("rows on a grid", "scattered rows")
LINES = tuple(family for family in PRIORS if "rows" not in family)

every_noise = pytest.mark.parametrize("noise", NOISES)
every_notion = pytest.mark.parametrize("notion", NOTIONS)
every_bound = pytest.mark.parametrize(
    ("noise", "notion", "strategy", "rows"),
    pairs_first(  # of each three, lines or rows in turn
        (noise, notion, strategy, (i + j + k) % 2 > 0)
        for i, noise in enumerate(NOISES)
        for j, notion in enumerate(NOTIONS)
        for k, strategy in enumerate(SOUND)
    ),
)


@cache
def drawn(families):
    """Return a pair of each family."""
    rng = np.random.default_rng(11)
    return [PriorPair(*PRIORS[family](rng)) for family in families]


@cache
def bound_of(strategy, noise, notion, rows=False):
    template = NOISES[noise]((1.3, 0.6)) if rows else NOISES[noise](1.3)
    pairs = drawn(ROWS) if rows else drawn(LINES)
    return {**STRATEGIES, **SOUND}[strategy](pairs, template, NOTIONS[notion])


def level_of(noise, factor, rows=False):
    return NOISES[noise]((1.3 * factor, 0.6 * factor) if rows else 1.3 * factor)


@cache
def masses_of(noise, factor, rows=False):
    pairs, n = (drawn(ROWS), 100) if rows else (drawn(LINES), 1000)
    return [loss_oracle_small.coarsened(*pair, level_of(noise, factor, rows), n) for pair in pairs]


def truth_of(noise, notion, factor, rows=False):
    """Return lower ends of the true losses of all pairs, shape (n_pairs, 2)."""
    found = masses_of(noise, factor, rows)
    return np.array([loss_oracle_small.both_losses(masses, NOTIONS[notion]) for masses in found])


def exists(bound):
    return not isinstance(bound, Impossible)


@pytest.mark.slow
@every_noise
@every_notion
def test_a_bound_is_never_below_the_loss_and_averages_are_below_maxima(noise, notion):
    for rows, factors in ((False, (0.3, 4.0)), (True, (0.5, 4.0))):
        bounds = {name: bound_of(name, noise, notion, rows) for name in SOUND}
        for factor in factors:
            truth = truth_of(noise, notion, factor, rows)
            for name, bound in bounds.items():
                found = bound.losses(factor)
                assert found.shape == truth.shape
                assert np.all(found >= truth * (1 - 1e-9) - 1e-14), name
        assert_ordered(bounds)


def assert_ordered(bounds):
    """Hold averages of moves below their maxima, and these below the sensitivity."""
    names = ["relaxed", "distribution_aware", "approximate", "wasserstein", "sensitivity"]
    kept = [bounds[name] for name in names if exists(bounds[name])]
    assert len(kept) >= 2 or not exists(bounds["sensitivity"])
    for factor in (0.0, 1e-5, 0.3, 3.0, 1e5):
        for smaller, larger in pairwise([bound.losses(factor) for bound in kept]):
            assert np.all(smaller <= larger * (1 + 1e-12) + 1e-300)
        if exists(bounds["distribution_aware"]):  # whatever lies between them above
            averages, maxima = bounds["distribution_aware"], bounds["wasserstein"]
            assert np.all(averages.losses(factor) <= maxima.losses(factor))


FEW = tuple(family for family in LINES if family in ("counted", "with zero masses", "disjoint"))


@every_noise
@pytest.mark.parametrize(
    "notion",
    ["pure", *(pytest.param(n, marks=pytest.mark.slow) for n in ("delta", "Renyi 2", "Renyi 1.2"))],
)
def test_the_exact_loss_and_scale_are_below_every_bound_and_above_what_is_left_in_cells(
    noise, notion
):
    pairs, level = drawn(FEW), level_of(noise, 2.0)
    precise = exact(pairs, level, NOTIONS[notion]).losses(1.0)
    for k, pair in enumerate(pairs):
        masses = loss_oracle_small.coarsened(*pair, level)
        truth = loss_oracle_small.both_losses(masses, NOTIONS[notion])
        assert np.all(precise[k] >= np.array(truth) * (1 - 1e-9) - 1e-14)
    for strategy in SOUND.values():
        bound = strategy(pairs, level, NOTIONS[notion])
        # an exact loss is itself the upper end of an interval
        assert np.all(precise <= bound.losses(1.0) * (1 + 1e-3) + 1e-9)
    for pair in pairs:
        assert_exact_scale_is_the_smallest(pair, NOISES[noise](1.0), NOTIONS[notion])


def assert_exact_scale_is_the_smallest(pair, template, notion):
    """Hold the exact scale against a little less noise, and against that of every bound."""
    bound = exact([pair], template, notion)
    if bound.reason:
        assert np.isinf(bound.losses(1e6)).any()
        return
    found = calibrate([pair], notion, noise=template)
    assert found.bound == bound.losses(found.scale).max() <= notion.budget
    if found.scale > 0.0:
        assert bound.losses(0.999 * found.scale).max() > notion.budget
    for strategy in SOUND.values():
        if exists(strategy([pair], template, notion)):
            scale = calibrate([pair], notion, noise=template, strategy=strategy).scale
            assert found.scale <= scale * (1 + 1e-3)


@every_bound
def test_a_bound_falls_with_the_noise_and_its_scale_is_the_smallest_that_keeps_the_budget(
    noise, notion, strategy, rows
):
    template, budget = level_of(noise, 1.0, rows), NOTIONS[notion].budget
    pairs = drawn(ROWS) if rows else drawn(LINES)
    bound = SOUND[strategy](pairs, template, NOTIONS[notion])
    assert_falling(bound)
    if not exists(bound):
        with pytest.raises(ValueError, match=r"; use |; give "):
            calibrate(pairs, NOTIONS[notion], noise=template, strategy=SOUND[strategy])
        return
    found = calibrate(pairs, NOTIONS[notion], noise=template, strategy=SOUND[strategy])
    assert found.bound == bound.losses(found.scale).max() <= budget
    assert found.scale > 0.0
    assert bound.losses(found.scale * (1 - 1e-9)).max() > budget
    assert bound.losses(found.scale)[found.worst_pair].max() == found.bound


def assert_falling(bound):
    """Hold a bound against less noise, at factors of any size."""
    factors = [0.0, 1e-300, 1e-12, *np.geomspace(1e-2, 1e3, 6), 1e12, 1e299]
    losses = [bound.losses(factor) for factor in factors]
    for less, more in pairwise(losses):
        assert np.all(more <= less * (1 + 1e-11) + 1e-300)
    assert not any(np.isnan(each).any() for each in losses)


# Single moves: no coupling is between the bound and the loss


MOVES = [1e-5, 0.03, 0.5, 1.0, 1.7, 4.0, 30.0, 700.0]


def takes_long(noise, notion):
    """Whether 50 digits of an integral take their time."""
    return "cauchy" in noise and "Renyi" in notion


@pytest.mark.parametrize(
    ("noise", "notion"),
    [
        pytest.param(*case, marks=pytest.mark.slow if takes_long(*case) else ())
        for case in itertools.product(NOISES, NOTIONS)
    ],
)
def test_the_loss_of_a_single_move_is_right_and_never_low(noise, notion):
    name = "cauchy" if "cauchy" in noise else noise
    k = 3.5 if noise == "generalised cauchy" else 2.0
    for z in MOVES[1::3] if takes_long(noise, notion) else MOVES:
        truth = loss_oracle_small.shift_loss(name, z, NOTIONS[notion], k)
        pair = PriorPair(Discrete([0.0], [1.0]), Discrete([z], [1.0]))
        for strategy in (sensitivity, wasserstein, distribution_aware, approximate):
            bound = strategy([pair], NOISES[noise](1.0), NOTIONS[notion])
            found = float(bound.losses(1.0).max())
            if not exists(bound):
                assert found == np.inf
                continue
            assert mpmath.mpf(found) >= truth
            # a delta as small as 1e-250 moves 1,000 times as fast as the move, and one at the edge
            # of the odds e^epsilon vanishes
            edge = 1e-12 if name != "gaussian" else 2e-300
            assert found <= float(truth) * (1 + 1e-8) + edge


@pytest.mark.parametrize("delta", [1e-298, 1e-100, 1e-15])
@every_noise
def test_the_smallest_deltas_have_a_scale(noise, delta):
    pair = PriorPair(Discrete([0.0, 1.0], [0.5, 0.5]), Discrete([3.0], [1.0]))
    for strategy in ("distribution_aware", "approximate", "wasserstein", "sensitivity"):
        notion = Pufferfish(0.5, delta)
        found = calibrate([pair], notion, noise=NOISES[noise](1.0), strategy=strategy)
        pure = 3.0 if noise == "laplace" else 1e3
        assert 0.0 < found.scale <= pure / 0.5 * (1 + 1e-9)
        assert found.bound <= delta


@every_noise
def test_a_huge_epsilon_asks_for_little_noise(noise):
    pair = PriorPair(Discrete([0.0, 1.0], [0.5, 0.5]), Discrete([0.0, 2.0], [0.5, 0.5]))
    for notion in (
        Pufferfish(800.0, 1e-6),
        RenyiPufferfish(800.0, 2.0),
        RenyiPufferfish(800.0, 90.0),
    ):
        found = calibrate([pair], notion, noise=NOISES[noise](1.0), strategy="distribution_aware")
        assert 0.0 < found.scale < 1.0
        assert found.bound <= notion.budget


# Approximate Renyi: the event is what the coupling keeps


def conditioned(pair, delta):
    """Return both priors given that the move of the monotone coupling is not among the largest."""
    plans = monotone([pair])
    sources, targets, masses = plans.of_pair(0)
    order = np.argsort(-np.abs(plans.shifts[:, 0]), kind="stable")
    total = sum(masses.tolist())
    gone = np.cumsum([int(m) for m in masses[order]])
    kept = np.sort(order[[g / total > delta for g in gone]])
    assert sum(masses[kept].tolist()) / total >= 1 - delta
    return (
        Discrete.from_counts(pair.p.atoms[sources[kept]], masses[kept]),
        Discrete.from_counts(pair.q.atoms[targets[kept]], masses[kept]),
    )


# Ground costs


def test_the_ground_cost_follows_the_noise():
    shifts = np.array([[3.0, -4.0], [0.0, 0.0], [1e-3, 2.0]])
    scales = (2.0, 0.5)
    units = np.abs(shifts) / scales
    assert ground_cost(Laplace(scales), shifts) == pytest.approx(units.sum(axis=1))
    assert ground_cost(Gaussian(scales), shifts) == pytest.approx((units**2).sum(axis=1))
    for noise, k in ((Cauchy(scales), 2.0), (GeneralizedCauchy(scales, 3.5), 3.5)):
        expected = (k * np.arcsinh(units / 2)).sum(axis=1)
        assert ground_cost(noise, shifts) == pytest.approx(expected)


def test_an_l1_ground_cost_would_be_unsound_for_cauchy_noise():
    # ten columns a tenth as far lose more than one column by the whole
    one, spread = np.zeros(10), np.full(10, 0.1)
    one[0] = 1.0
    assert one.sum() == pytest.approx(spread.sum())
    losses = ground_cost(Cauchy(0.1), np.array([one, spread]))
    assert losses[1] > 2 * losses[0]
    pair = PriorPair(Discrete([np.zeros(10)], [1.0]), Discrete([spread], [1.0]))
    bound = wasserstein([pair], Cauchy(0.1), Pufferfish(1.0)).losses(1.0).max()
    assert bound == pytest.approx(10 * 2 * np.arcsinh(0.5))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(NOISES)))
def test_more_of_a_move_in_any_column_costs_and_loses_no_less(seed, noise):
    rng = np.random.default_rng(seed)
    near = 10.0 ** rng.uniform(-3, 3, (20, 3))
    far = near * rng.choice([1.0, 1.5], near.shape)
    family = NOISES[noise](tuple(10.0 ** rng.uniform(-1, 1, 3)))
    assert np.all(ground_cost(family, near) <= ground_cost(family, far) * (1 + 1e-12))
    for notion in NOTIONS.values():
        low, high = (notion.shift_loss(family, shifts) for shifts in (near, far))
        assert np.all(low <= high * (1 + 1e-11) + 1e-300)


# Combinations that do not exist


IMPOSSIBLE = [
    (
        sensitivity,
        "gaussian",
        "pure",
        "Gaussian noise.*use delta=1e-05, alpha=2.0 or noise='laplace'",
    ),
    (wasserstein, "gaussian", "pure", "every shift loses all"),
    (distribution_aware, "gaussian", "pure", "every shift loses all"),
    (tightest, "gaussian", "pure", "every shift loses all"),
    *(
        (Relaxed(), noise, "pure", "bound for Laplace noise")
        for noise in NOISES
        if noise != "laplace"
    ),
    *((Relaxed(), "laplace", notion, "pure epsilon") for notion in NOTIONS if notion != "pure"),
    *((approximate, "laplace", notion, "give delta=1e-05") for notion in ("pure", "Renyi 2")),
    (monge, "laplace", "pure", "these are discrete.* use strategy='exact'"),
]


@pytest.mark.parametrize(("strategy", "noise", "notion", "words"), IMPOSSIBLE)
def test_what_does_not_exist_is_infinite_and_says_what_to_use_instead(
    strategy, noise, notion, words
):
    pairs = drawn(LINES)
    bound = strategy(pairs, NOISES[noise](1.0), NOTIONS[notion])
    assert isinstance(bound, Impossible)
    for factor in (0.0, 1.0, 1e300):
        assert np.all(bound.losses(factor) == np.inf)
        assert bound.losses(factor).shape == (len(pairs), 2)
    with pytest.raises(ValueError, match=words):
        calibrate(pairs, NOTIONS[notion], noise=NOISES[noise](1.0), strategy=strategy)


def test_equal_priors_need_no_noise_even_where_no_shift_has_a_pure_loss():
    p, q = Discrete([0, 1], [0.5, 0.5]), Discrete.from_counts([0, 1], [3, 3])
    for strategy in ("wasserstein", "distribution_aware"):
        assert (
            calibrate([(p, q)], Pufferfish(1.0), noise="gaussian", strategy=strategy).scale == 0.0
        )
    point = Discrete([4.0], [1.0])
    found = calibrate([(point, point)], Pufferfish(1.0), noise="gaussian", strategy="sensitivity")
    assert found.scale == 0.0


@pytest.mark.slow
def test_exact_has_pure_epsilon_with_gaussian_noise_where_the_extremes_are_shared():
    p, q = Discrete([0, 1, 2], [0.3, 0.4, 0.3]), Discrete([0, 1.5, 2], [0.3, 0.4, 0.3])
    found = calibrate([(p, q)], Pufferfish(0.5), noise="gaussian")
    assert 0.0 < found.scale < np.inf
    # far out the odds are those of moment generating functions, at every scale
    t = np.linspace(-20, 20, 2001)
    mgf = [np.exp(np.outer(t, prior.atoms)) @ prior.probabilities for prior in (p, q)]
    floor = np.abs(np.log(mgf[0] / mgf[1])).max()
    assert 0.1 < floor < 0.5
    losses = exact([PriorPair(p, q)], Gaussian(1e6), Pufferfish(0.5)).losses(1.0)
    assert losses.max() == pytest.approx(floor, rel=1e-3)
    with pytest.raises(ValueError, match="use another noise or notion"):
        calibrate([(p, q)], Pufferfish(0.1), noise="gaussian")
    for a, b in ((p, Discrete([0, 1], [0.5, 0.5])), (Discrete([-1, 2], [0.5, 0.5]), p)):
        with pytest.raises(ValueError, match="smallest or largest atom, as those of pair 1 do"):
            calibrate([(p, q), (a, b)], Pufferfish(0.1), noise="gaussian")


def test_without_noise_the_mean_delta_is_the_mass_that_moves():
    p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75])
    for strategy, expected in ((distribution_aware, 0.25), (approximate, 0.25), (wasserstein, 1.0)):
        bound = strategy([PriorPair(p, q)], Laplace(), Pufferfish(1.0, delta=0.1))
        assert bound.losses(0.0) == pytest.approx(expected)
    found = calibrate([(p, q)], Pufferfish(1.0, delta=0.25), strategy="approximate")
    assert found.scale == 0.0


def test_masses_too_small_for_a_float_still_count():
    # the far atoms have probability below 1e-600 in the coupling, and the Renyi loss sees them
    huge = 10**700
    p = Discrete.from_counts([0, 1e9], [huge, 1])
    q = Discrete.from_counts([0], [1])
    bound = distribution_aware([PriorPair(p, q)], Laplace(), RenyiPufferfish(1.0, 2.0))
    truth = 1e9 - 700 * np.log(10)  # log(1 + e^(10^9) 10^-700 2/3), roughly
    assert bound.losses(1.0).max() >= truth
    assert bound.losses(0.0).max() == np.inf


@pytest.mark.parametrize("noise", ["gaussian", "cauchy"])
@pytest.mark.parametrize("notion", ["delta", "Renyi 2"])
def test_scales_and_atoms_of_any_size_give_the_same_scale_in_their_unit(noise, notion):
    for strategy in ("distribution_aware", "approximate", "wasserstein"):
        if strategy == "approximate" and notion == "Renyi 2":
            continue
        scales = []
        for unit in (1e-12, 1.0, 1e12):
            pair = Discrete([0, unit], [0.5, 0.5]), Discrete([0, 3 * unit], [0.4, 0.6])
            template = NOISES[noise](1e-3)
            found = calibrate([pair], NOTIONS[notion], noise=template, strategy=strategy)
            scales.append(found.scale / unit)
        assert scales == pytest.approx([scales[1]] * 3, rel=1e-9)
