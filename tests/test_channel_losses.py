"""Losses of channels in whole numbers against fractions."""

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from channel_oracle import channel, distributions_released, exact, from_shares
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._losses import channel_losses
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish


def check(rows, masses, notion, width=1e-12):
    """Hold both ends of every loss against the exact one."""
    distributions = distributions_released(rows, masses)
    pairs = np.array(list(combinations(range(len(masses)), 2)))
    found = channel_losses(rows, masses, pairs, notion)
    assert found.shape == (len(pairs), 2, 2)
    for (s, t), both in zip(pairs, found, strict=True):
        for (a, b), (low, high) in zip(((s, t), (t, s)), both, strict=True):
            loss = exact(distributions[a], distributions[b], notion)
            assert 0.0 <= low <= loss <= high
            assert low == high == np.inf or high - low <= width * (1.0 + high)


NOTIONS = [Pufferfish(1.0), Pufferfish(0.3, 0.01), Pufferfish(2.0, 1e-9), Pufferfish(1e-3, 0.5)]
counts = st.integers(0, 5) | st.integers(0, 2**62)
parts = st.just(0) | st.integers(1, 3) | st.integers(1, 2**62)


@st.composite
def instances(draw):
    n, k = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    row = st.lists(parts, min_size=n, max_size=n).filter(any)
    distribution = st.lists(counts, min_size=n, max_size=n).filter(any)
    matrix = draw(st.lists(row, min_size=n, max_size=n))
    masses = np.array(draw(st.lists(distribution, min_size=k, max_size=k)))
    return channel(matrix), masses


@pytest.mark.slow
@given(instances(), st.sampled_from(NOTIONS))
def test_the_exact_loss_lies_between_the_ends(instance, notion):
    check(*instance, notion)


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
@pytest.mark.parametrize("n_secrets", [2, 3, 7])
def test_the_exact_loss_of_larger_channels_lies_between_the_ends(notion, n_secrets):
    rng = np.random.default_rng(n_secrets)
    for n in (1, 2, 10, 20):
        matrix = rng.integers(0, 1000, (n, n)) * (rng.random((n, n)) < 0.4) + np.eye(n, dtype=int)
        masses = rng.integers(0, 2**32, (n_secrets, n)) * (rng.random((n_secrets, n)) < 0.9)
        masses[:, 0] += 1
        check(channel(matrix), masses, notion)


@pytest.mark.parametrize("notion", [Pufferfish(1.0), Pufferfish(1e-6, 0.5)], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_many_entries_are_off_by_no_more_than_is_counted(seed, notion):
    rng, n = np.random.default_rng(seed), 20_000
    first = rng.integers(1, WHOLE, n)
    targets = np.tile([0, 1], n)
    rows = IntegerRows(
        2 * np.arange(n + 1), targets, np.column_stack([first, WHOLE - first]).ravel()
    )
    masses = rng.integers(0, 2**53, (2, n))
    flows = [
        sum(p * w for p, w in zip(distribution, first.tolist(), strict=True))
        for distribution in masses.tolist()
    ]
    distributions = []
    for distribution, flow in zip(masses.tolist(), flows, strict=True):
        share = Fraction(flow, sum(distribution) * WHOLE)
        distributions.append([share, 1 - share])
    found = channel_losses(rows, masses, [[0, 1]], notion)
    for (a, b), (low, high) in zip(((0, 1), (1, 0)), found[0], strict=True):
        assert low <= exact(distributions[a], distributions[b], notion) <= high


def test_the_order_of_pairs_and_of_cells_does_not_matter():
    rng = np.random.default_rng(0)
    matrix, masses = rng.integers(1, 9, (5, 5)), rng.integers(1, 9, (3, 5))
    pairs = np.array([[0, 1], [1, 2]])
    losses = channel_losses(channel(matrix), masses, pairs, Pufferfish(1.0))
    turned = channel_losses(channel(matrix), masses, pairs[:, ::-1], Pufferfish(1.0))
    moved = channel_losses(channel(matrix[::-1]), masses[:, ::-1], pairs, Pufferfish(1.0))
    assert np.array_equal(losses, turned[:, ::-1])
    assert np.allclose(losses, moved, rtol=1e-12)


def test_no_pairs_lose_nothing():
    rows = channel(np.eye(2, dtype=int))
    pairs = np.empty((0, 2), dtype=int)
    assert channel_losses(rows, np.eye(2, dtype=int), pairs, Pufferfish(1.0)).size == 0


# ---------------------------------------------------------------------------------- forged channels


def test_an_outcome_that_one_secret_alone_can_have_is_an_infinite_loss_however_thin():
    """A program with tolerances of 1e-7 calls this optimal: 1 of 2^62, of a mass of 1 in 2^62."""
    shares = np.array([[WHOLE - 1, 1, 0], [WHOLE - 1, 1, 0], [WHOLE - 1, 0, 1]])
    masses = np.array([[2**61, 2**61, 1], [2**61, 2**61, 0]])
    losses = channel_losses(from_shares(shares), masses, [[0, 1]], Pufferfish(1.0))
    assert losses[0, 0].tolist() == [np.inf, np.inf]
    assert losses[0, 1, 1] <= 1e-14
    soft = channel_losses(from_shares(shares), masses, [[0, 1]], Pufferfish(1.0, 1e-30))
    assert 0.0 < soft[0, 0, 0] <= 2.0**-124 <= soft[0, 0, 1] <= 2.0**-123


def test_a_channel_a_millionth_above_the_budget_is_above_it():
    budget = float(np.log(3.0))
    masses = np.array([[3_000_001, 1_000_000], [1_000_000, 3_000_001]])
    same = channel(np.eye(2, dtype=int))
    losses = channel_losses(same, masses, [[0, 1]], Pufferfish(budget))
    assert (losses[..., 0] > budget).all()


def test_a_constant_channel_loses_nothing_and_the_identity_what_the_distributions_tell():
    masses = np.array([[1, 2, 5], [4, 2, 2]])
    constant = channel([[1, 1, 2]] * 3)
    assert channel_losses(constant, masses, [[0, 1]], Pufferfish(1.0))[..., 1].max() <= 1e-14
    told = channel_losses(channel(np.eye(3, dtype=int)), masses, [[0, 1]], Pufferfish(1.0))
    assert np.allclose(told[0], np.log([[2.5, 2.5], [4.0, 4.0]]), rtol=1e-14)


def test_masses_whose_total_is_beyond_64_bits_are_added_up_right():
    masses = np.full((2, 4), 2**62)
    masses[1, 0] = 2**61
    check(channel(np.eye(4, dtype=int)), masses, Pufferfish(1.0))


@pytest.mark.parametrize("order", list(permutations(range(3)))[:3])
def test_thin_masses_beside_thick_ones_keep_their_digits(order):
    shares = np.array([[1, WHOLE - 1, 0], [0, WHOLE, 0], [3, WHOLE - 3, 0]])
    masses = np.array([[1, 2**62, 0], [1, 2**62, 1]])
    check(from_shares(shares[list(order)]), masses[:, order], Pufferfish(1.0))


# ----------------------------------------------------------------------------------- bad arguments

BAD = {
    "masses must be whole numbers, got float64": [[0.5, 0.5], [0.5, 0.5]],
    "a column for each of 2 cells, got shape": [[1, 1, 1], [1, 1, 1]],
    "must not be negative": [[1, -1], [1, 1]],
    "not all of them 0": [[1, 1], [0, 0]],
}


@pytest.mark.parametrize("message", BAD)
def test_what_are_no_distributions_is_refused(message):
    rows, masses = channel(np.eye(2, dtype=int)), np.array(BAD[message])
    with pytest.raises((TypeError, ValueError), match=message):
        channel_losses(rows, masses, [[0, 1]], Pufferfish(1.0))


def test_a_notion_of_another_divergence_is_refused():
    rows, masses = channel(np.eye(2, dtype=int)), np.ones((2, 2), dtype=int)
    with pytest.raises(ValueError, match="use Pufferfish"):
        channel_losses(rows, masses, [[0, 1]], RenyiPufferfish(1.0, 2.0))


def test_counts_of_any_size_lose_what_fractions_say():
    rng = np.random.default_rng(0)
    for bits in (10, 53, 61, 70, 140):
        rows = channel(rng.integers(0, 5, (5, 5)) + np.eye(5, dtype=int))
        masses = np.array(
            [[1 + int(rng.integers(0, 2**10)) * 2 ** (bits - 10) for _ in range(5)] for _ in "abc"],
            dtype=np.int64 if bits < 60 else object,
        )
        masses[0, 0], masses[1, 1] = 1, 1
        for notion in (Pufferfish(1.0), Pufferfish(0.1, 1e-3)):
            pairs = np.array([[0, 1], [1, 2]])
            losses = channel_losses(rows, masses, pairs, notion)
            distributions = distributions_released(rows, masses)
            for (s, t), both in zip(pairs.tolist(), losses.tolist(), strict=True):
                for (a, b), (low, high) in zip(((s, t), (t, s)), both, strict=True):
                    loss = exact(distributions[a], distributions[b], notion)
                    assert low <= loss <= high
                    assert high == math.inf or high - low <= 1e-12 * (1.0 + high)
