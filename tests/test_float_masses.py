"""Priors of float masses, and their couplings, against Python's fractions."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer._strategies import couplings, monotone
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair, rational_counts

powers = st.builds(lambda e: 10.0**-e, st.integers(0, 300))
masses = st.floats(1e-300, 1.0) | st.floats(0.0, 1e-300) | powers | st.sampled_from([0.0, 5e-324])
weights = st.lists(masses, min_size=1, max_size=8).filter(lambda w: max(w) > 1e-290)


def _prior(weights, atoms=None):
    """Return the prior of some weights, whose floats add up to 1 up to a few ulp."""
    whole = math.fsum(weights)
    return Discrete(range(len(weights)) if atoms is None else atoms, np.array(weights) / whole)


@given(weights)
def test_counts_of_floats_are_the_floats_themselves(drawn):
    floats = np.array(drawn) / math.fsum(drawn)
    counts = [int(count) for count in rational_counts(floats)]
    # each is the float to the last bit, unless all are read as simple fractions that round to them
    exact = [Fraction(value) for value in floats.tolist()]
    shares = [Fraction(count, sum(counts)) for count in counts]
    assert (
        shares == [value / sum(exact) for value in exact]
        or [float(share) for share in shares] == floats.tolist()
    )


def _brute_force(p, q):
    """Return the pieces of the monotone coupling as {(source, target): mass}, in fractions."""
    left, right = (
        [Fraction(int(count), prior.total) for count in prior.counts.tolist()] for prior in (p, q)
    )
    found, i, j = {}, 0, 0
    while i < len(left) and j < len(right):
        moved = min(left[i], right[j])
        if moved:
            found[i, j] = moved
        left[i], right[j] = left[i] - moved, right[j] - moved
        i, j = i + (left[i] == 0), j + (right[j] == 0)
    return found


def _assert_is_brute_force(plans):
    for k, (p, q) in enumerate(plans.pairs):
        total = math.lcm(p.total, q.total)
        sources, targets, amounts = (column.tolist() for column in plans.of_pair(k))
        entries = dict(zip(zip(sources, targets, strict=True), amounts, strict=True))
        assert len(entries) == len(amounts)
        assert {cell: Fraction(mass, total) for cell, mass in entries.items()} == _brute_force(p, q)
        assert all(type(mass) is int for mass in amounts)


@settings(max_examples=30)
@given(weights, weights)
def test_the_monotone_coupling_of_floats_is_that_of_fractions(a, b):
    _assert_is_brute_force(monotone([PriorPair(_prior(a), _prior(b))]))


@settings(max_examples=15)
@given(st.lists(st.tuples(weights, weights), min_size=1, max_size=4))
def test_several_pairs_are_coupled_as_if_each_were_alone(pairs):
    _assert_is_brute_force(monotone([PriorPair(_prior(a), _prior(b)) for a, b in pairs]))


@settings(max_examples=30)
@given(weights, st.randoms(use_true_random=False))
def test_equal_floats_in_another_order_meet_exactly(drawn, random):
    half = len(drawn) // 2
    first, second = drawn[:half], drawn[half:]
    random.shuffle(first)
    p, q = _prior(drawn), _prior([*first, *second])
    _assert_is_brute_force(monotone([PriorPair(p, q), PriorPair(p, p)]))
    assert not monotone([PriorPair(p, p)]).shifts.any()


@settings(max_examples=30)
@given(weights, st.integers(-3, 3))
def test_masses_that_miss_one_by_an_ulp_are_taken_as_they_are(drawn, ulps):
    floats = _prior(drawn).probabilities.copy()
    worst = int(floats.argmax())
    for _ in range(abs(ulps)):
        floats[worst] = np.nextafter(floats[worst], 2.0 * (ulps > 0))
    p, q = Discrete(range(len(drawn)), floats), _prior(drawn)
    _assert_is_brute_force(monotone([PriorPair(p, q), PriorPair(q, p)]))


@pytest.mark.parametrize("n", [1, 2, 300, 1000])
def test_many_atoms_whose_sums_nearly_meet_are_told_apart(n):
    rng = np.random.default_rng(n)
    shares = rng.dirichlet(np.ones(n))
    bent = shares * (1.0 + rng.integers(-1, 2, n) * 2.0**-52)
    tiny = np.where(rng.random(n) < 0.5, shares, shares * 1e-200)
    priors = [_prior(values.tolist()) for values in (shares, bent, tiny)]
    _assert_is_brute_force(monotone([PriorPair(p, q) for p in priors for q in priors]))


def test_huge_counts_and_floats_meet_in_one_batch():
    rng = np.random.default_rng(0)
    counted = [
        Discrete.from_counts(range(4), rng.integers(0, 2**60, 4)),
        Discrete.from_counts(range(3), [3**150, 0, 2**200]),
        Discrete.from_counts(range(2), np.array([2**61, 2**60])),
    ]
    floats = [_prior(rng.dirichlet(np.ones(5)).tolist()), _prior([1e-300, 0.0, 1.0])]
    priors = [*counted, *floats]
    _assert_is_brute_force(monotone([PriorPair(p, q) for p in priors for q in priors]))


def test_repeated_atoms_are_merged_exactly():
    rng = np.random.default_rng(1)
    floats, atoms = rng.dirichlet(np.ones(50)), rng.integers(0, 9, 50)
    prior = Discrete(atoms, floats)
    shares = {
        x: sum(Fraction(f) for f in floats[atoms == x].tolist()) for x in prior.atoms.tolist()
    }
    whole = sum(shares.values())
    assert [Fraction(c, prior.total) for c in prior.counts.tolist()] == [
        share / whole for share in shares.values()
    ]
    assert prior.total == sum(prior.counts.tolist())


def test_a_prior_that_was_pickled_is_coupled_alike():
    rng = np.random.default_rng(2)
    p, q = (_prior(rng.dirichlet(np.ones(40)).tolist()) for _ in "pq")
    again = pickle.loads(pickle.dumps(p))
    assert again == p
    first, second = (monotone([PriorPair(prior, q)]) for prior in (p, again))
    assert first.masses.tolist() == second.masses.tolist()
    assert first.sources.tolist() == second.sources.tolist()


def test_couplings_of_rows_of_floats_have_the_right_marginals():
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 4, (12, 2)).astype(float)
    p, q = (Discrete(rows, rng.dirichlet(np.ones(12))) for _ in "pq")
    total = math.lcm(p.total, q.total)
    for plans in couplings([PriorPair(p, q)], Laplace((1.0, 2.0))):
        sources, targets, amounts = plans.of_pair(0)
        for prior, places in ((p, sources), (q, targets)):
            sums = [sum(amounts[places == k].tolist()) for k in range(len(prior.atoms))]
            assert sums == [count * (total // prior.total) for count in prior.counts.tolist()]


def test_the_relaxed_scale_of_floats_is_that_of_the_same_counts():
    rng = np.random.default_rng(5)
    counts = [rng.integers(0, 2**50, 200) for _ in "pq"]
    atoms = np.sort(rng.normal(size=200))
    # over a power of two, floats are those counts exactly, but for totals that are not equal
    tops = [int(2**58 - c.sum()) for c in counts]
    whole = [np.append(c, top) for c, top in zip(counts, tops, strict=True)]
    grid = np.append(atoms, 9.0)
    as_counts = PriorPair(*(Discrete.from_counts(grid, c) for c in whole))
    tiny = 2.0**-140  # too fine for 64 bits, and too small to matter
    as_floats = PriorPair(
        *(Discrete(np.append(grid, 9.5), np.append(c / 2.0**58, tiny)) for c in whole)
    )
    assert as_floats.p.counts.dtype == object
    scales = [
        calibrate([pair], Pufferfish(1.0), strategy="relaxed").scale
        for pair in (as_counts, as_floats)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=1e-9)
