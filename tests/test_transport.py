"""Couplings: their marginals are the priors to the last count, and the best is the best."""

from itertools import chain, combinations
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._strategies import couplings, ground_cost, monotone, transport
from sklearn_puffer.couplings import w_infinity
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.priors import Discrete, PriorPair

counts = st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any)
masses = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=8)


def _random_rows(rng, size, n_axes=2, levels=4):
    rows = np.unique(rng.integers(0, levels, (size, n_axes)), axis=0)
    return Discrete.from_counts(rows, rng.integers(1, 30, len(rows)))


def _assert_exact(plans):
    """Add up the entries of every pair in Python's own integers."""
    for k, (p, q) in enumerate(plans.pairs):
        sources, targets, amounts = plans.of_pair(k)
        total = lcm(p.total, q.total)
        rows, columns = [0] * len(p.atoms), [0] * len(q.atoms)
        for i, j, mass in zip(sources.tolist(), targets.tolist(), amounts.tolist(), strict=True):
            assert mass > 0
            rows[i] += mass
            columns[j] += mass
        assert rows == [c * (total // p.total) for c in p.counts.tolist()]
        assert columns == [c * (total // q.total) for c in q.counts.tolist()]


@given(counts, counts)
def test_the_marginals_of_a_monotone_coupling_are_the_priors_exactly(a, b):
    p, q = (Discrete.from_counts(np.arange(len(c)), c) for c in (a, b))
    plans = monotone([PriorPair(p, q)])
    _assert_exact(plans)
    assert np.all(np.diff(plans.sources) >= 0)
    assert np.all(np.diff(plans.targets) >= 0)


@given(masses, masses)
def test_the_marginals_of_floats_are_exact_too_where_64_bits_do_not_hold_them(a, b):
    p, q = (Discrete(np.arange(len(m)), np.array(m) / np.sum(m)) for m in (a, b))
    _assert_exact(monotone([PriorPair(p, q)]))


def test_pairs_of_any_size_are_coupled_in_one_go():
    rng = np.random.default_rng(0)
    tiny = [Discrete(np.arange(5), rng.dirichlet(np.ones(5))) for _ in range(4)]
    huge = [Discrete.from_counts(np.arange(3), rng.integers(1, 2**40, 3)) for _ in range(4)]
    small = [Discrete.from_counts(np.arange(6), rng.integers(1, 9, 6)) for _ in range(4)]
    pairs = [PriorPair(p, q) for p in (*small, *huge, *tiny) for q in (*tiny, *small, *huge)]
    plans = monotone(pairs)
    _assert_exact(plans)
    for k, pair in enumerate(pairs):
        alone = monotone([pair])
        for together, single in zip(plans.of_pair(k), alone.of_pair(0), strict=True):
            assert together.tolist() == single.tolist()


@pytest.mark.parametrize("scale", [1, 10**9 + 7, 2**61 - 1, 3**150])
def test_every_coupling_of_rows_has_exact_marginals(scale):
    rng = np.random.default_rng(1)
    pairs = []
    for _ in range(5):
        p, q = _random_rows(rng, 12), _random_rows(rng, 9)
        pairs.append(
            PriorPair(Discrete.from_counts(p.atoms, p.counts.astype(object) * scale + 1), q)
        )
    for plans in couplings(pairs, Laplace((1.0, 2.0))):
        _assert_exact(plans)


def test_equal_priors_stay_where_they_are_however_they_were_counted():
    x, c = [0.0, 0.1, 0.3, 7.0], np.array([1, 2, 3, 4])
    p, q = Discrete(x, c / 10), Discrete.from_counts(x, 7 * c)
    assert w_infinity(p, q) == 0.0
    for plans in couplings([PriorPair(*_as_rows(p, q))], Laplace((1.0, 1.0))):
        assert not plans.shifts.any()


def _as_rows(*priors):
    return [Discrete.from_counts(np.column_stack([p.atoms, -p.atoms]), p.counts) for p in priors]


def test_dust_of_cumulative_floats_is_no_support_point():
    p = Discrete(np.arange(10), np.full(10, 0.1))
    q = Discrete.from_counts(np.arange(10), np.ones(10, int))
    assert np.cumsum(np.full(10, 0.1))[-1] != 1.0
    assert w_infinity(p, q) == 0.0


def test_lemma_3_of_001_needs_quantile_breakpoints_on_irregular_atoms():
    x = [0, 1, 10]
    assert w_infinity(Discrete(x, [0.5, 0, 0.5]), Discrete(x, [0.6, 0.4, 0])) == 10.0


def test_w_infinity_is_the_largest_gap_of_the_quantile_functions():
    rng = np.random.default_rng(2)
    for _ in range(200):
        p, q = (
            Discrete.from_counts(
                np.cumsum(rng.exponential(size=5)), rng.integers(0, 5, 5) + np.eye(5, dtype=int)[2]
            )
            for _ in "pq"
        )
        # every multiple of 1/total is met halfway, so that no breakpoint is
        at = (2 * np.arange(lcm(p.total, q.total)) + 1) / (2 * lcm(p.total, q.total))
        quantiles = [d.atoms[np.searchsorted(np.cumsum(d.counts) / d.total, at)] for d in (p, q)]
        assert w_infinity(p, q) == np.abs(quantiles[0] - quantiles[1]).max()


def test_w_infinity_refuses_rows():
    rows = Discrete([[0, 0], [1, 1]], [0.5, 0.5])
    with pytest.raises(ValueError, match="over one column"):
        w_infinity(rows, rows)


def test_a_bottleneck_coupling_is_the_best_by_halls_condition():
    rng = np.random.default_rng(3)
    noise = Laplace((1.0, 0.3))
    for _ in range(30):
        pair = PriorPair(_random_rows(rng, 6), _random_rows(rng, 6))
        known = couplings([pair], noise)
        found = noise.max_divergence(known[0].shifts).max()
        assert found == _smallest_bottleneck(pair, noise)
        assert all(found <= noise.max_divergence(plans.shifts).max() for plans in known)


def _smallest_bottleneck(pair, noise):
    """Try thresholds in turn: a coupling exists if no set of sources outweighs its neighbours."""
    p, q = pair
    costs = noise.max_divergence(p.rows[:, None, :] - q.rows[None, :, :])
    supply, demand = p.counts * q.total, q.counts * p.total
    sets = [
        list(s)
        for s in chain.from_iterable(
            combinations(range(len(supply)), r) for r in range(1, len(supply) + 1)
        )
    ]
    for threshold in np.unique(costs):
        near = costs <= threshold
        if all(supply[s].sum() <= demand[near[s].any(axis=0)].sum() for s in sets):
            return threshold
    raise AssertionError("the largest cost always allows a coupling")


def test_a_bottleneck_coupling_moves_little_where_it_may():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(40, 3))
    c = rng.integers(50, 60, 40)
    other = c.copy()
    other[0] += 1
    pair = PriorPair(Discrete.from_counts(rows, c), Discrete.from_counts(rows, other))
    plans = couplings([pair], Laplace((1.0, 1.0, 1.0)))[0]
    moved = plans.masses[plans.shifts.any(axis=1)].sum()
    assert moved < 0.5 * plans.masses.sum()


def test_pairs_beyond_the_limits_keep_a_north_west_coupling(monkeypatch):
    rng = np.random.default_rng(5)
    pairs = [PriorPair(_random_rows(rng, 12), _random_rows(rng, 12)) for _ in range(4)]
    noise = Laplace((1.0, 1.0))
    monkeypatch.setattr(transport, "BOTTLENECK_CELLS", 0)
    plans = couplings(pairs, noise)
    _assert_exact(plans[0])
    assert plans[0].masses.tolist() == monotone(pairs).masses.tolist()


def test_a_coupling_of_one_atom_is_the_product():
    p, q = Discrete([[2, 2]], [1.0]), Discrete([[0, 1], [1, 0], [3, 3]], [0.25, 0.25, 0.5])
    (plans,) = couplings([PriorPair(p, q)], Laplace((1.0, 1.0)))
    assert plans.masses.tolist() == [1, 1, 2]


def test_the_ground_cost_is_the_loss_of_a_shift_or_its_renyi_divergence():
    shifts, scales = np.array([[3.0, 4.0], [0.0, 0.5]]), (1.5, 0.5)
    parts = shifts / scales
    assert ground_cost(Laplace(scales), shifts) == pytest.approx(parts.sum(axis=1), rel=1e-12)
    squares = (parts**2).sum(axis=1)
    assert ground_cost(Gaussian(scales), shifts) == pytest.approx(squares, rel=1e-12)
    areas = 2.0 * np.arcsinh(parts / 2.0).sum(axis=1)
    assert ground_cost(Cauchy(scales), shifts) == pytest.approx(areas, rel=1e-12)
