"""What the certificate states beside the proof, against simulations of its own."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prototype_oracle import counted, dense, odds, rows_of

from sklearn_puffer import PufferfishMicroaggregator
from sklearn_puffer._microaggregator.certificate import (
    fitted_flows,
    odds_of,
    table_loss,
)


def instance(seed, n=4, k=2):
    rng = np.random.default_rng(seed)
    group = counted(rng.integers(5, 60, (n, k)))
    return group, rows_of(rng.random((n, n)) + 2.0 * np.eye(n))


@given(st.integers(0, 10**6), st.integers(2, 4))
def test_odds_are_those_of_the_largest_pair(seed, k):
    group, rows = instance(seed, k=k)
    each = odds(group.counts, dense(rows), group.pairs.tolist())
    found = odds_of(group.counts.astype(float), dense(rows), group.pairs)
    np.testing.assert_allclose(found, each.max(axis=0), atol=1e-12)


@given(st.integers(0, 10**6))
def test_flows_sum_to_what_is_known_and_keep_the_odds_ratios(seed):
    rng = np.random.default_rng(seed)
    flows = rng.random((4, 4)) + 0.1
    rows, columns = rng.multinomial(200, [0.25] * 4), rng.multinomial(200, [0.25] * 4)
    scaled = fitted_flows(flows, rows, columns)
    np.testing.assert_allclose(scaled.sum(axis=1), rows, rtol=1e-5)
    np.testing.assert_allclose(scaled.sum(axis=0), columns, rtol=1e-4, atol=1e-4)
    crossed = flows[0, 0] * flows[1, 1] / (flows[0, 1] * flows[1, 0])
    again = scaled[0, 0] * scaled[1, 1] / (scaled[0, 1] * scaled[1, 0])
    assert again == pytest.approx(crossed, rel=1e-9)


def test_the_flows_are_near_the_mean_of_all_tables_with_these_counts():
    """Of drawn tables, those with the same counts: where the people of each prototype went."""
    rng, sizes = np.random.default_rng(0), np.array([12, 8])
    channel, seen = np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([13, 7])
    stay = rng.binomial(sizes[0], channel[0, 0], 200_000)
    moved = rng.binomial(sizes[1], channel[1, 0], 200_000)
    mean = stay[stay + moved == seen[0]].mean()
    found = fitted_flows(sizes[:, None] * channel, sizes, seen)
    assert found[0, 0] == pytest.approx(mean, abs=0.15)


def test_a_whole_table_tells_more_than_one_row_and_less_the_larger_it_is():
    group, rows = instance(5)
    single = odds_of(group.counts.astype(float), dense(rows), group.pairs).max()
    large = counted(group.counts * 100)
    small_loss = table_loss(rows, group.sizes, [group])
    large_loss = table_loss(rows, large.sizes, [large])
    assert single < large_loss < small_loss
    assert large_loss < single + 0.2


@pytest.mark.slow
def test_tables_of_very_many_rows_are_drawn_without_holding_these():
    channel = rows_of([[3.0, 1.0], [1.0, 3.0]])
    many = counted(np.array([[300, 100], [100, 300]]) * 10**12)
    one_row = np.log(np.array([10.0, 6.0]) / np.array([6.0, 10.0])).max()
    assert table_loss(channel, many.sizes, [many]) == pytest.approx(one_row, abs=0.01)
    fewer = counted(np.array([[300, 100], [100, 300]]) * 5000)  # a little more than at once
    assert table_loss(channel, fewer.sizes, [fewer]) == pytest.approx(one_row, abs=0.01)


def test_readers_of_a_whole_file_who_join_a_label_are_simulated_too():
    rng = np.random.default_rng(0)
    sick, few = rng.random(400) < 0.5, rng.random(400) < 0.2
    X = pd.DataFrame({"x": np.where(few, 2.5, 0.3) * sick + rng.normal(size=400)})
    X = X.assign(y=rng.normal(size=400), sick=sick, label=np.where(few, "few", "many"))
    rows = PufferfishMicroaggregator(
        epsilon=3.0, sensitive="sick", joined="label", min_size=20, n_prototypes=6
    ).fit(X)
    facts = rows.certificate_.prototypes
    assert facts.table > facts.counted > 2.0
    assert "with 'label' or without" in rows.certificate_.details()
