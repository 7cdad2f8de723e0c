"""Losses of channels between prototypes against programs, corners and draws of the masses."""

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prototype_oracle import GOLDEN, counted, dense, odds, rows_of, worst

from sklearn_puffer._losses import MassBoxes, prototype_losses
from sklearn_puffer._microaggregator.program import ONE
from sklearn_puffer._noise import WHOLE, IntegerRows


def loss(rows, boxes, pairs=((0, 1),)):
    return float(prototype_losses(rows, boxes, pairs).max())


@pytest.mark.parametrize("instance", GOLDEN["instances"])
def test_losses_over_the_set_are_those_of_the_golden_file(instance):
    group = counted(instance["counts"])
    rows = rows_of(instance["some_channel"])
    found = loss(rows, group.boxes(0.05), group.pairs)
    assert found == pytest.approx(instance["loss_over_set_of_some_channel"], abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_losses_are_those_of_linear_programs(seed):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(2, 6), rng.integers(2, 4)
    group = counted(rng.integers(1, 60, (n, k)))
    rows = rows_of(rng.random((n, n)) ** 3 + 1e-3)
    boxes = group.boxes(0.05)
    found = loss(rows, boxes, group.pairs)
    assert found == pytest.approx(worst(boxes, group.pairs, dense(rows)), abs=1e-8)


@pytest.mark.parametrize("n", [12, 14, 25])
def test_bounds_of_few_rows_in_many_prototypes_are_no_error(n):
    counts = np.zeros((n, 2), dtype=np.int64)
    counts[:5, 1] = [1, 2, 2, 1, 3]  # each may be most of the rows: 14 such bounds sum to 10
    boxes = counted(counts).joint_boxes(6e-4)
    assert (boxes.high.astype(object).sum(axis=0) > 2**63).all()
    rows = rows_of(np.random.default_rng(n).random((n, n)) ** 3 + 1e-3)
    expected = worst(boxes, [(0, 1)], dense(rows))
    assert loss(rows, boxes) == pytest.approx(expected, abs=1e-8)


@st.composite
def instances(draw):
    n, k = draw(st.integers(1, 5)), draw(st.integers(2, 3))
    numbers = st.lists(st.integers(0, 9), min_size=k, max_size=k)
    low = np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    high = low + np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    ends = zip(low.sum(axis=0).tolist(), np.maximum(high.sum(axis=0), 1).tolist(), strict=True)
    sums = [sorted(draw(st.tuples(st.integers(a, b), st.integers(a, b)))) for a, b in ends]
    high[0] += (high.sum(axis=0) == 0).astype(int)
    share_low, share_high = np.array(sums).T
    share_high = np.maximum(share_high, 1)
    part = st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any)
    channel = draw(st.lists(part, min_size=n, max_size=n))
    return MassBoxes(low, high, share_low, share_high), rows_of(channel)


def filled(boxes, secret, total, order):
    """Return masses of a sum: the least ones, filled up in some order."""
    masses = boxes.low[:, secret].tolist()
    for a in order:
        masses[a] = min(int(boxes.high[a, secret]), masses[a] + total - sum(masses))
    return masses


@pytest.mark.slow
@given(instances(), st.data())
def test_no_masses_in_the_boxes_lose_more_and_whole_ones_reach_it(instance, data):
    """All sums are tried, in the order that a channel's own shares ask for, and in any other."""
    boxes, rows = instance
    found = prototype_losses(rows, boxes, [(0, 1)])
    columns = [[Fraction(int(share * WHOLE), WHOLE) for share in c] for c in dense(rows).T]
    any_order = data.draw(st.permutations(range(rows.n_cells)))
    for b, column in enumerate(columns):
        quotients = {}
        for s in (0, 1):
            first = max(int(boxes.share_low[s]), int(boxes.low[:, s].sum()), 1)
            last = min(int(boxes.share_high[s]), int(boxes.high[:, s].sum()))
            rising = sorted(range(len(column)), key=column.__getitem__)
            quotients[s] = [
                sum(m * k for m, k in zip(masses, column, strict=True)) / total
                for total in range(first, last + 1)
                for order in (rising, rising[::-1], any_order)
                for masses in [filled(boxes, s, total, order)]
            ]
        for way, (s, t) in enumerate([(0, 1), (1, 0)]):
            most, least = max(quotients[s]), min(quotients[t])
            exact = -inf if most == 0 else inf if least == 0 else log(most) - log(least)
            assert found[0, way, b] == pytest.approx(exact, abs=1e-12)
            assert exact in (-inf, inf) or found[0, way, b] >= exact - 1e-15


@pytest.mark.slow
@given(instances(), st.integers(0, 4))
def test_larger_boxes_lose_no_less(instance, more):
    boxes, rows = instance
    larger = MassBoxes(
        np.maximum(boxes.low - more, 0),
        boxes.high + more,
        np.maximum(boxes.share_low - more, 0),
        boxes.share_high + more,
    )
    assert (
        prototype_losses(rows, larger, [(0, 1)]) >= prototype_losses(rows, boxes, [(0, 1)]) - 1e-13
    ).all()


def test_masses_without_room_lose_what_is_counted():
    rng = np.random.default_rng(3)
    group, rows = counted(rng.integers(1, 50, (4, 3))), rows_of(rng.random((4, 4)))
    found = prototype_losses(rows, group.as_counted(), group.pairs)
    expected = odds(group.counts, dense(rows), group.pairs.tolist()).reshape(3, 2, 4)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_unit_of_masses_does_not_count():
    low, high = np.array([[3, 1], [1, 4]]), np.array([[5, 2], [2, 6]])
    boxes = MassBoxes(low, high, np.array([5, 6]), np.array([6, 7]))
    bounds = (low, high, boxes.share_low, boxes.share_high)
    finer = MassBoxes(*(ONE // 64 * each for each in bounds))
    rows = rows_of([[3, 1], [1, 3]])
    assert loss(rows, boxes) == pytest.approx(loss(rows, finer), abs=1e-15)


def test_a_constant_channel_loses_nothing_over_any_masses():
    rows = rows_of([[1, 2, 4]] * 3)
    boxes = counted([[9, 0], [4, 5], [0, 7]]).boxes(0.05)
    assert 0.0 <= loss(rows, boxes) < 1e-14


def test_a_prototype_that_one_secret_alone_may_lead_to_is_an_infinite_loss():
    boxes = MassBoxes.as_counted(np.array([[5, 0], [3, 4]]))
    rows = IntegerRows([0, 1, 2], [0, 1], [WHOLE, WHOLE])
    found = prototype_losses(rows, boxes, [(0, 1)])
    assert found[0, 0].tolist() == [inf, pytest.approx(log(3 / 8))]
    assert found[0, 1].tolist() == [-inf, pytest.approx(log(8 / 3))]


def test_a_prototype_that_nobody_becomes_loses_nothing():
    rows = IntegerRows([0, 1, 2], [0, 0], [WHOLE, WHOLE])
    found = prototype_losses(rows, MassBoxes.as_counted(np.array([[5, 1], [3, 4]])), [(0, 1)])
    assert (found[..., 1] == -inf).all()
    assert found[..., 0].max() < 1e-14


def test_a_chance_of_less_than_a_part_of_two_to_the_62_is_told_too():
    rows = IntegerRows([0, 2, 3], [0, 1, 0], [WHOLE - 1, 1, WHOLE])
    boxes = MassBoxes.as_counted(np.array([[30, 10], [10, 30]]))
    losses = prototype_losses(rows, boxes, [(0, 1)])
    np.testing.assert_allclose(losses[0, :, 1], [np.log(3), -np.log(3)])


def test_the_transposed_channel_is_another_one():
    boxes = MassBoxes.as_counted(np.array([[30, 2], [10, 30], [1, 9]]))
    rows = rows_of([[8, 1, 1], [4, 4, 1], [1, 1, 1]])
    assert abs(loss(rows, boxes) - loss(rows_of(dense(rows).T), boxes)) > 0.1


def test_every_bound_counts():
    """Without one of its boxes, or the range of the shares, the set is another one."""
    rng = np.random.default_rng(5)
    group, rows = (
        counted(rng.integers(10, 40, (8, 2))),
        rows_of(rng.random((8, 8)) + 50 * np.eye(8)),
    )
    boxes = group.boxes(0.05)
    full = loss(rows, boxes)
    known = (group.counts / group.sizes.sum() * ONE).astype(np.int64)
    for a in range(8):
        low, high = boxes.low.copy(), boxes.high.copy()
        low[a] = high[a] = known[a]
        assert loss(rows, MassBoxes(low, high, boxes.share_low, boxes.share_high)) < full - 1e-4
    free = MassBoxes(boxes.low, boxes.high, boxes.low.sum(axis=0), boxes.high.sum(axis=0))
    assert loss(rows, free) > full + 1e-3


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [
        ([[2, 1]], [[1, 1]], [1, 1], [1, 1]),
        ([[-1, 1]], [[1, 1]], [1, 1], [1, 1]),
        ([[1, 1]], [[2, 2]], [3, 1], [4, 2]),
        ([[0, 1]], [[0, 2]], [0, 1], [0, 2]),
    ],
)
def test_boxes_without_masses_are_refused(low, high, least, most):
    with pytest.raises(ValueError, match="no positive masses of secret 0; count it"):
        MassBoxes(*map(np.array, (low, high, least, most)))
