"""Faults that an attack of swaps has found, each with the test that would have found it."""

import numpy as np
import pandas as pd
import pytest
from test_swap_noiser import IDS, KEY, NOISER, TABLE, people, quick, rows_of, swap
from test_swap_program import cost_of, least_cost

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import SwapDistributions, swap_losses
from sklearn_puffer._swaps import SwapProblem, mean_flows
from sklearn_puffer.noise import RecordSwap
from sklearn_puffer.notions import Pufferfish

pytestmark = pytest.mark.filterwarnings("ignore:within the")
PAIR = np.array([[0, 1]])


def log_odds(share):
    return np.log(share / (1 - share))


def test_1_values_of_which_other_values_say_nothing_are_not_certified_unseen():
    rng = np.random.default_rng(12)
    x, p = rng.integers(0, 12, 3000), np.where(rng.random(12) < 0.5, 0.1, 0.9)
    ill = rng.random(3000) < p[x]
    table = pd.DataFrame({"ill": ill, "x": [f"v{k}" for k in x]})
    noiser = PufferfishNoiser(0.5, sensitive="ill", noise="swap")
    released = noiser.fit_transform(table)["x"]
    odds = log_odds(pd.Series(ill).groupby(released).mean()) - log_odds(ill.mean())
    within = noiser.certificate_.swap.within
    assert abs(odds).median() < 0.8 or (within is not None and within[1] > 0.1)


def test_2_whoever_knows_a_column_whose_values_were_joined_learns_no_more_than_is_guaranteed():
    rng = np.random.default_rng(0)
    ill = rng.random(3000) < 0.5
    x, town = (rng.normal(0, 1, 3000) + 1.5 * ill).round(3), rng.integers(0, 150, 3000)
    table = pd.DataFrame({"ill": ill, "x": x, "town": town})
    noiser = quick(0.5, 8, known="town")
    with pytest.raises(ValueError, match="too many of 150 values have fewer than 30 rows"):
        noiser.fit_transform(table)
    few = table.assign(town=np.where(town < 140, town % 10, town))
    noiser.fit(few)
    facts = noiser.certificate_.swap
    assert 10 <= facts.n_strata < facts.n_values == 20
    assert "the class of 'town' (one of" in noiser.certificate_.promise()


def test_3_a_table_without_one_of_the_secrets_is_swapped():
    table = pd.DataFrame(
        {
            "ill": [*"ab"] * 200 + ["a"] * 100 + ["c"] * 100,
            "x": [0, 1] * 200 + [2] * 100 + [1] * 100,
        }
    )
    noiser = swap(cells="values").fit(table)
    later = table[table["x"] != 1]  # where nobody has secret c
    assert rows_of(noiser.transform(later)) == rows_of(later[["x"]])


def test_3_boxes_that_begin_at_nothing_are_no_reason_to_lose_nothing():
    boxes = np.array([[[0.5, 0.2], [0.0, 0.0]], [[0.9, 0.8], [0.3, 0.3]]])
    distributions = SwapDistributions(np.array([[3, 1], [1, 3]]), PAIR, boxes)
    told = swap_losses(np.diag([4, 4]), np.array([4, 4]), distributions, Pufferfish(1.0))[0, :, 1]
    assert told[0] == np.inf  # nan
    assert told[1] == pytest.approx(np.log(1.1 / 0.2))  # 0


@pytest.mark.slow
def test_4_what_is_left_within_cells_is_said_of_every_sensitive_column():
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 3000)) < 0.5
    x, y = rng.normal(0, 1, (2, 3000)) + 2 * np.array([a, b])
    table = pd.DataFrame({"a": a, "b": b, "x": x, "y": y})
    found = []
    for order in (["a", "b"], ["b", "a"]):
        noiser = swap(0.5, 8, sensitive=order, prior=seeing_one_column()).fit(table)
        found.append(noiser.certificate_.swap.within)
    assert found[0][1] == pytest.approx(found[1][1], abs=0.05)  # -.008 and .33


def seeing_one_column():
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(make_column_transformer(("passthrough", ["x"])), LogisticRegression())


def test_5_where_a_fresh_model_could_not_be_fitted_nothing_is_said_of_what_it_finds():
    rng = np.random.default_rng(0)
    s = rng.random(60) < 0.5
    table = pd.DataFrame({"s": s, "x": np.where(rng.random(60) < 0.7, s, ~s) + 0.0})
    noiser = PufferfishNoiser(sensitive="s", noise=RecordSwap(cells=4)).fit(table)
    assert "0.000 nats" not in noiser.certificate_.details()  # -inf to inf


@pytest.mark.slow
def test_6_the_fingerprint_does_not_depend_on_the_order_of_the_fitted_rows():
    told = set()
    for seed in range(6):
        table = people(600).sample(frac=1.0, random_state=seed)
        told.add(quick(cells=6).fit(table).certificate_.fingerprint)
    assert len(told) == 1  # standard deviations are sums in the order of the rows


def test_7_weighted_rows_cost_what_so_many_copies_cost():
    weights = np.random.default_rng(0).integers(1, 4, len(TABLE))
    first = quick().fit(TABLE, sample_weight=weights)
    second = quick().fit(TABLE.loc[np.repeat(TABLE.index, weights)])
    np.testing.assert_allclose(first.swap_.costs, second.swap_.costs, rtol=1e-9)


def test_8_another_dataset_is_no_way_to_a_second_swap():
    first, again = (
        NOISER.transform(IDS, row_id="client", key=KEY, dataset=name) for name in ("", "again")
    )
    assert again.equals(first)  # and not another swap of the same people


def test_10_rows_that_are_all_alike_are_refused_as_such():
    with pytest.raises(ValueError, match="alike"):
        swap().fit(TABLE.assign(age=1, pay=0.0, job="x"))


def test_11_small_cells_beside_large_ones_cost_no_more_than_they_must():
    distributions = SwapDistributions(np.array([[19, 6, 26, 24], [0, 21, 12, 0]]), PAIR)
    costs = abs(np.arange(4.0)[:, None] - np.arange(4.0))
    sizes = np.array([6677, 1, 1, 50077])
    own = SwapProblem(sizes, [distributions], costs, np.ones(4), Pufferfish(0.5))
    assert cost_of(mean_flows(own), own) <= least_cost(own) * 1.001  # 8.99, 5.45
