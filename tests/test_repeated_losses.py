"""Several draws for one row: every sequence of them in fractions, and the bound of the floor."""

import importlib
from itertools import combinations

import numpy as np
import pytest
from channel_oracle import channel, distributions_released, exact, from_shares
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer._losses import channel_floor, channel_losses, repeated_losses
from sklearn_puffer._noise import WHOLE
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish

NOTIONS = [Pufferfish(1.0), Pufferfish(0.3, 0.01), Pufferfish(2.0, 1e-9)]


def ends_and_losses(rows, masses, notion, n_draws):
    """Yield both ends of each loss, and the exact one."""
    distributions = distributions_released(rows, masses, n_draws)
    pairs = list(combinations(range(len(masses)), 2))
    found = repeated_losses(rows, masses, pairs, notion, n_draws)
    assert found.shape == (len(pairs), 2, 2)
    for (s, t), both in zip(pairs, found, strict=True):
        for (a, b), (low, high) in zip(((s, t), (t, s)), both, strict=True):
            yield low, high, exact(distributions[a], distributions[b], notion)


@pytest.fixture
def only_bounds(monkeypatch):
    module = importlib.import_module("sklearn_puffer._losses.channel_losses")
    monkeypatch.setattr(module, "MOST_OUTCOMES", 0)


parts = st.just(0) | st.integers(1, 3) | st.integers(1, 2**62)
counts = st.integers(0, 5) | st.integers(0, 2**62)


@st.composite
def instances(draw):
    n = draw(st.integers(1, 3))
    row = st.lists(parts, min_size=n, max_size=n).filter(any)
    distribution = st.lists(counts, min_size=n, max_size=n).filter(any)
    matrix = draw(st.lists(row, min_size=n, max_size=n))
    masses = np.array(draw(st.lists(distribution, min_size=2, max_size=3)))
    return channel(matrix), masses


@pytest.mark.slow
@settings(max_examples=60)
@given(instances(), st.sampled_from(NOTIONS), st.integers(1, 4))
def test_the_loss_of_all_sequences_of_draws_lies_between_the_ends(instance, notion, n_draws):
    for low, high, loss in ends_and_losses(*instance, notion, n_draws):
        assert low <= loss <= high
        assert low == high == np.inf or high - low <= 1e-12 * (1.0 + high)


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
@pytest.mark.parametrize("n_draws", [2, 3])
def test_many_entries_and_cells_without_mass_are_counted_right(notion, n_draws):
    rng = np.random.default_rng(n_draws)
    rows = channel(rng.integers(0, 9, (6, 6)) + np.eye(6, dtype=int))
    masses = rng.integers(0, 2**40, (3, 6))
    masses[:, 2] = 0
    for low, high, loss in ends_and_losses(rows, masses, notion, n_draws):
        assert low <= loss <= high <= low + 1e-12 * (1.0 + low)


def test_a_channel_without_a_floor_keeps_one_draw_and_loses_39_in_two():
    masses = np.array([[1, 0, 0], [1, 2**55, 2**55]])
    half = WHOLE // 2
    rows = from_shares(np.array([[0, half, half], [0, WHOLE, 0], [0, 0, WHOLE]]))
    once = channel_losses(rows, masses, [[0, 1]], Pufferfish(0.5))
    twice = repeated_losses(rows, masses, [[0, 1]], Pufferfish(0.5), 2)
    assert once.max() < 1e-14
    assert np.allclose(twice[0, 0], np.log(2.0**56 + 1.0))  # 38.8
    assert channel_floor(rows) == np.inf


def test_the_first_row_that_is_drawn_for_once_is_as_before():
    rows, masses = channel([[1, 2], [2, 1]]), np.array([[3, 1], [1, 3]])
    for notion in NOTIONS:
        once = channel_losses(rows, masses, [[0, 1]], notion)
        assert np.array_equal(repeated_losses(rows, masses, [[0, 1]], notion, 1), once)


# ---------------------------------------------------------------------------------------- the bound


def with_floor(rng, sizes, floor):
    """Return a channel of blocks in which shares of an output differ by at most e^floor."""
    n = sum(sizes)
    matrix, start = np.zeros((n, n), dtype=object), 0
    for size in sizes:
        least = rng.integers(10**6, 10**7, size)
        for x in range(start, start + size):
            raised = least * (1.0 + 0.9 * np.expm1(floor / 2.0) * rng.random(size))
            matrix[x, start : start + size] = (raised * 1e6).astype(np.int64)
        start += size
    return channel(matrix)


@pytest.mark.usefixtures("only_bounds")
@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
@pytest.mark.parametrize("sizes", [(3,), (2, 1), (1, 1, 2), (4,)])
@pytest.mark.parametrize("floor", [0.01, 0.5])
def test_the_bound_of_a_floor_is_above_the_loss_of_all_sequences(notion, sizes, floor):
    rng = np.random.default_rng([*sizes, int(100 * floor)])
    rows = with_floor(rng, sizes, floor)
    told = channel_floor(rows)
    assert 0.0 < told <= floor or max(sizes) == 1
    masses = rng.integers(0, 9, (3, sum(sizes))) + 1
    for n_draws in (2, 3, 4):
        for low, high, loss in ends_and_losses(rows, masses, notion, n_draws):
            assert low <= loss <= high


@pytest.mark.usefixtures("only_bounds")
def test_without_blocks_j_draws_tell_j_floors_at_most_and_one_loss_and_the_rest():
    rng = np.random.default_rng(0)
    rows, masses = with_floor(rng, (4,), 0.3), rng.integers(1, 99, (2, 4))
    told = channel_floor(rows)
    once = channel_losses(rows, masses, [[0, 1]], Pufferfish(1.0))[..., 1].max()
    for n_draws in (2, 5, 100):
        bound = repeated_losses(rows, masses, [[0, 1]], Pufferfish(1.0), n_draws)[..., 1]
        least = min(once + (n_draws - 1) * told, n_draws * told)
        assert bound.max() <= least * (1.0 + 1e-9) + 1e-12


@pytest.mark.usefixtures("only_bounds")
def test_blocks_of_constant_rows_tell_the_block_however_often_they_are_drawn():
    """So j floors, which are 0 here, are no bound where there are blocks."""
    rows = channel([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    masses = np.array([[1, 1, 1], [1, 1, 2]])
    for n_draws in (2, 50):
        bound = repeated_losses(rows, masses, [[0, 1]], Pufferfish(1.0), n_draws)
        assert np.allclose(bound[0, :, 1], np.log([4 / 3, 3 / 2]), rtol=1e-9)


@pytest.mark.usefixtures("only_bounds")
def test_without_a_floor_nothing_is_known_but_that_it_is_no_less_than_once():
    rows = channel([[1, 2, 0], [2, 1, 0], [1, 0, 1]])
    masses = np.array([[3, 1, 1], [1, 3, 1]])
    for notion, worst in ((Pufferfish(1.0), np.inf), (Pufferfish(1.0, 0.1), 1.0)):
        found = repeated_losses(rows, masses, [[0, 1]], notion, 2)
        once = channel_losses(rows, masses, [[0, 1]], notion)
        assert np.array_equal(found[..., 0], once[..., 0])
        assert np.allclose(found[..., 1], worst)


@pytest.mark.usefixtures("only_bounds")
def test_a_unit_without_a_floor_that_one_distribution_has_no_mass_in_does_not_count_for_it():
    rows = channel([[1, 2, 0], [0, 1, 0], [0, 0, 1]])
    masses = np.array([[0, 0, 1], [1, 1, 4]])
    found = repeated_losses(rows, masses, [[0, 1]], Pufferfish(1.0), 3)
    assert np.allclose(found[0, 0, 1], np.log(1.5))
    assert found[0, 1, 1] == np.inf


@pytest.mark.parametrize("n_draws", [0, -1, 1.5, True, None])
def test_what_is_no_count_of_draws_is_refused(n_draws):
    rows = channel([[1, 1], [1, 1]])
    with pytest.raises((TypeError, ValueError), match="n_draws must be"):
        repeated_losses(rows, np.ones((2, 2), int), [[0, 1]], Pufferfish(1.0), n_draws)


@pytest.mark.parametrize("n_draws", [2, 10**6])
def test_a_notion_of_another_divergence_is_refused(n_draws):
    rows, masses = channel([[1, 1], [1, 1]]), np.ones((2, 2), dtype=int)
    with pytest.raises(ValueError, match="use Pufferfish"):
        repeated_losses(rows, masses, [[0, 1]], RenyiPufferfish(1.0, 2.0), n_draws)
