"""Bounds on masses of secrets against fractions, and how often they miss."""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prototype_oracle import GOLDEN, counted

from sklearn_puffer._microaggregator.certificate import as_matrix
from sklearn_puffer._microaggregator.program import (
    ONE,
    ChannelProblem,
    SecretCounts,
    SecretMasses,
    clopper_pearson,
    drawn_losses,
    for_new_people,
    least_change,
)

BOUNDS = ("low", "high", "share_low", "share_high")


@pytest.mark.parametrize("instance", GOLDEN["instances"])
def test_bounds_are_those_of_the_golden_file(instance):
    boxes = counted(instance["counts"]).boxes(0.05)
    for ours, theirs in zip(
        BOUNDS, ("mass_low", "mass_high", "share_low", "share_high"), strict=True
    ):
        np.testing.assert_allclose(getattr(boxes, ours) / ONE, instance[theirs], atol=1e-11)


def binomial_tail(n, chance, least):
    return sum(comb(n, j) * chance**j * (1.0 - chance) ** (n - j) for j in range(least, n + 1))


@given(st.integers(2, 60), st.data(), st.sampled_from([0.05, 0.003, 1e-5]))
def test_each_bound_is_the_chance_at_which_its_side_misses(n, data, error):
    hits = data.draw(st.integers(2, n - 2)) if n > 3 else data.draw(st.sampled_from([0, n]))
    low, high = clopper_pearson(np.array(hits), np.array(n), error)
    if hits:
        assert binomial_tail(n, float(low), hits) == pytest.approx(error / 2.0, rel=1e-9)
    else:
        assert low == 0.0
    if hits < n:
        missed = 1.0 - binomial_tail(n, float(high), hits + 1)
        assert missed == pytest.approx(error / 2.0, rel=1e-6)
    else:
        assert high == 1.0


def missed(chances, error):
    """Return how likely it is that the mean of unequal chances is below or above its bounds."""
    distribution = np.array([1.0])
    for chance in chances:
        distribution = np.convolve(distribution, [1.0 - chance, chance])
    n = len(chances)
    low, high = clopper_pearson(np.arange(n + 1), np.array(n), error)
    mean = np.mean(chances)
    return distribution[mean < low].sum(), distribution[mean > high].sum()


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.3, 0.05, 0.002])
def test_bounds_hold_for_trials_of_unequal_chances(error):
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 8):
        for _ in range(150):
            chances = rng.beta(0.3, rng.choice([0.3, 1.0, 9.0]), n) ** rng.choice([1, 4])
            assert max(missed(chances, error)) <= error / 2.0 * (1.0 + 1e-9)
        for chance in np.append(np.linspace(0.0, error / 2.0 * 1.01, 200), error / 2.0):
            for others in ([0.0], [1.0]):
                assert max(missed([chance, *others * (n - 1)], error)) <= error / 2.0 * (1 + 1e-9)


def test_the_plain_bound_of_one_event_misses_too_often_where_chances_are_unequal():
    """Why the error is lowered there."""
    error = 0.3
    plain = 1.0 - (1.0 - error / 2.0) ** (1.0 / 5)  # the usual bound of one of five
    chances = np.array([5 * plain * (1.0 - 1e-12), 0.0, 0.0, 0.0, 0.0])
    assert chances[0] > error / 2.0 * 1.05  # so likely is an event, with the mean below the bound


def test_one_of_two_secrets_shares_its_bounds_with_the_other():
    boxes = counted([[9, 11], [2, 8]]).boxes(0.05)
    masses = np.array([20, 10]) / 30 * ONE
    np.testing.assert_allclose(boxes.low[:, 0] + boxes.high[:, 1], masses, rtol=1e-11)
    assert boxes.share_low[0] + boxes.share_high[1] == pytest.approx(ONE, rel=1e-11)


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=5))
def test_what_was_counted_lies_within_all_bounds(counts):
    counts = np.array(counts)
    counts[0] += 1
    group = counted(counts)
    for boxes in (group.boxes(0.05), group.joint_boxes(0.05)):
        masses = counts / counts.sum()
        assert (boxes.low / ONE <= masses).all()
        assert (masses <= boxes.high / ONE).all()
        assert (boxes.share_low / ONE <= masses.sum(axis=0)).all()
        assert (masses.sum(axis=0) <= boxes.share_high / ONE).all()


def test_the_error_is_shared_over_all_bounds():
    """Each bound of two prototypes is that of a single one at half the error."""
    one, two = counted([[9, 11, 5]]), counted([[9, 11, 5], [9, 11, 5]])
    np.testing.assert_allclose(two.boxes(0.05).low[0] * 2, one.boxes(0.025).low[0], rtol=1e-9)
    narrow, wide = two.boxes(0.05), two.boxes(0.05 / 4)
    assert (wide.low < narrow.low).all()
    assert (wide.high > narrow.high).all()
    assert (wide.share_low < narrow.share_low).all()


def test_prototypes_without_rows_ask_for_no_error():
    few, more = counted([[9, 11, 5]]), counted([[9, 11, 5], [0, 0, 0]])
    assert (few.boxes(0.05).low[0] == more.boxes(0.05).low[0]).all()
    assert (more.boxes(0.05).high[1] == 0).all()
    assert (more.joint_boxes(0.05).high[1] > 0).all()


def test_rows_of_other_secrets_are_in_the_masses_of_none():
    all_rows = SecretCounts(np.array([[9, 11], [3, 5]]), np.array([40, 10]), np.array([[0, 1]]))
    boxes = all_rows.boxes(0.05)
    assert (boxes.low[0] / ONE < [9 / 50, 11 / 50]).all()
    assert boxes.low[0, 0] + boxes.high[0, 1] != pytest.approx(40 / 50 * ONE, rel=1e-3)
    assert (boxes.share_high < 30 / 50 * ONE).all()


# ----------------------------------------------------------------------------- how often they hold


def held(boxes, masses):
    inside = (boxes.low <= masses * ONE).all() and (masses * ONE <= boxes.high).all()
    sums = masses.sum(axis=0) * ONE
    return inside and (boxes.share_low <= sums).all() and (sums <= boxes.share_high).all()


def misses(chances, sizes, n_tables, seed, joint=False):
    """Return how many drawn tables of known chances (n, k) lie outside their bounds."""
    rng, count = np.random.default_rng(seed), 0
    shares = sizes / sizes.sum()
    for _ in range(n_tables):
        drawn = rng.multinomial(sizes.sum(), shares) if joint else sizes
        table = counted([rng.multinomial(m, p) for m, p in zip(drawn, chances, strict=True)])
        boxes = table.joint_boxes(0.05) if joint else table.boxes(0.05)
        count += not held(boxes, shares[:, None] * chances)
    return count


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("k", [2, 5])
def test_bounds_hold_all_at_once_in_95_of_100_tables(k, joint):
    rng = np.random.default_rng(k)
    chances, sizes = rng.dirichlet(np.full(k, 0.5), 8), rng.integers(30, 200, 8)
    assert misses(chances, sizes, 300, 1, joint) <= 15 + 3 * np.sqrt(300 * 0.05 * 0.95)


def test_bounds_that_do_not_share_the_error_miss_far_more_often():
    """What the test above would see."""
    rng, missing = np.random.default_rng(2), 0
    chances, sizes = rng.dirichlet(np.ones(2), 20), np.full(20, 100)
    for _ in range(200):
        counts = np.array([rng.multinomial(m, p) for m, p in zip(sizes, chances, strict=True)])
        low, high = clopper_pearson(counts, sizes[:, None], 0.05)
        missing += not ((low <= chances) & (chances <= high)).all()
    assert missing > 60


# --------------------------------------------------------------------------- what chance does


def beyond(channel, table, epsilon, n_tables=2000):
    """Return in what share of tables, drawn row by row, odds shift further than epsilon."""
    rng, total = np.random.default_rng(3), table.counts.sum()
    drawn = rng.multinomial(total, (table.counts / total).ravel(), n_tables)
    drawn = drawn.reshape(n_tables, *table.counts.shape)
    released = np.einsum("tas,ab->tsb", drawn / drawn.sum(axis=1, keepdims=True), channel)
    odds = np.log(released[:, :, None] / released[:, None])
    return (np.abs(odds).max(axis=(1, 2, 3)) > epsilon).mean()


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("error", [0.05, 0.0125])
def test_the_channel_keeps_the_budget_in_drawn_tables_but_a_share_of_them(k, error):
    rng = np.random.default_rng(k)
    table = counted(rng.multinomial(2000, rng.dirichlet(np.ones(12 * k)), 1).reshape(12, k))
    bounded = [SecretMasses(table.as_counted(), table.pairs)]
    problem = ChannelProblem(bounded, table.sizes, rng.random((12, 12)) * (1 - np.eye(12)), 0.5)
    before = as_matrix(least_change(problem)).toarray()
    assert beyond(before, table, 0.5) > 0.3  # what the program alone lets chance do
    rows = for_new_people(problem, before, [table], error)
    after = as_matrix(rows).toarray()
    assert beyond(after, table, 0.5) <= 1.5 * error
    assert problem.loss(rows) <= 0.5
    losses = drawn_losses(after, table, error)
    assert np.quantile(losses, 1.0 - error, method="higher") == pytest.approx(0.5)
    assert for_new_people(problem, after, [table], error) is None  # it needs no more
    assert problem.cost(after) < problem.cost(np.broadcast_to(problem.shares, after.shape))


def test_a_constant_channel_is_left_as_it_is_whatever_chance_does():
    table = counted(np.array([[40, 2], [3, 30]]))
    bounded = [SecretMasses(table.as_counted(), table.pairs)]
    problem = ChannelProblem(bounded, table.sizes, 1.0 - np.eye(2), 1e-6)
    constant = np.broadcast_to(problem.shares, (2, 2))
    assert for_new_people(problem, constant, [table], 0.05) is None
    assert drawn_losses(constant, table, 0.05).max() == pytest.approx(0.0, abs=1e-12)


def test_products_of_small_tables_are_counted_in_full():
    """All tables of two prototypes of three rows each: the exact chance of a miss."""
    chances, error, missing = np.array([0.3, 0.8]), 0.2, 0.0
    for hits in product(range(4), repeat=2):
        counts = np.array([[h, 3 - h] for h in hits])
        boxes = counted(counts).boxes(error)
        likely = np.prod(
            [comb(3, h) * p**h * (1 - p) ** (3 - h) for h, p in zip(hits, chances, strict=True)]
        )
        missing += likely * (not held(boxes, np.stack([chances, 1 - chances], axis=1) / 2.0))
    assert missing <= error
