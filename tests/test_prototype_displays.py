"""Pictures of typical rows: log odds held against sums by hand, places against distances."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure

from sklearn_puffer import PufferfishMicroaggregator
from sklearn_puffer.displays import PrototypeDisplay

BITS = np.random.default_rng(5)
N = 1_500
LOAN = BITS.integers(0, 3, N)
TABLE = pd.DataFrame(
    {
        "loan": np.array(["no", "some", "much"])[LOAN],
        "cars": BITS.poisson(1 + LOAN),
        "debt": np.round(BITS.normal(10 + 2 * LOAN, 3, N), 1),
        "home": np.array(["own", "rent"])[BITS.integers(0, 2, N)],
    }
)


@pytest.fixture(scope="module")
def rows():
    options = {"sensitive": "loan", "secret_pairs": [["no", "much"]], "n_prototypes": 6}
    return PufferfishMicroaggregator(0.5, **options).fit(TABLE)


def axes():
    return Figure(layout="constrained").subplots()


@pytest.mark.slow
def test_typical_rows_are_coloured_by_what_they_tell_before_and_after(rows):
    display = PrototypeDisplay.from_microaggregator(rows, ax=axes())
    counts, channel = rows.counts_, rows.channel_.toarray()
    for told, flows in ((display.before, np.eye(len(channel))), (display.after, channel)):
        for b, shown in enumerate(told):
            chances = [
                sum(counts[secret][a] * flows[a, b] for a in range(len(channel)))
                / counts[secret].sum()
                for secret in ("no", "much")
            ]
            assert shown == pytest.approx(abs(np.log(chances[0] / chances[1])))
    assert display.before.max() > display.budget == 0.5
    assert display.after.max() <= 0.5
    assert display.sizes.sum() == N


@pytest.mark.slow
def test_two_typical_rows_lie_as_far_apart_as_they_differ():
    X = np.repeat([[0.0], [1.0]], 100, axis=0)
    secrets = np.repeat([0, 1, 0, 1], [60, 40, 40, 60])
    rows = PufferfishMicroaggregator(1.0, level=None).fit(X, sensitive_features=secrets)
    display = PrototypeDisplay.from_microaggregator(rows, ax=axes())
    apart = np.linalg.norm(display.places[0] - display.places[1])
    assert apart == pytest.approx(1.0 / X.std(), rel=1e-3)
    assert display.explained == pytest.approx((1.0, 0.0))
    drawn = [len(each.get_offsets()) for each in display.ax_.collections[:4]]
    assert drawn == [2, 0, 2, 0]


def test_typical_rows_of_a_copy_and_of_a_lazy_table_are_drawn_as_those_of_the_fit():
    options = {"sensitive": "loan", "n_prototypes": 2, "level": None}
    X = TABLE.loc[:299, ["loan", "cars"]]
    rows = PufferfishMicroaggregator(**options).fit(X)
    copy = pickle.loads(pickle.dumps(rows))
    lazy = PufferfishMicroaggregator(**options).fit(pl.from_pandas(X).lazy())
    sizes = np.bincount(rows.labels_)
    for fitted in (rows, copy, lazy):
        display = PrototypeDisplay.from_microaggregator(fitted, ax=axes())
        assert display.sizes.tolist() == sizes.tolist()


def test_typical_rows_are_drawn_as_large_as_the_weights_of_their_rows():
    X = np.repeat([[0.0], [1.0]], 100, axis=0)
    secrets, weights = np.tile([0, 1], 100), np.repeat([3, 1], 100)
    rows = PufferfishMicroaggregator(level=None).fit(
        X, sensitive_features=secrets, sample_weight=weights
    )
    display = PrototypeDisplay.from_microaggregator(rows, ax=axes())
    assert display.sizes.tolist() == [300, 100]


def test_what_is_no_fitted_microaggregator_is_refused():
    with pytest.raises(TypeError, match="must be a fitted PufferfishMicroaggregator"):
        PrototypeDisplay.from_microaggregator(TABLE, ax=axes())
