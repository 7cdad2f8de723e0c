"""Pictures of typical rows: log odds held against sums by hand, places against distances."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure

from sklearn_puffer import PufferfishMicroaggregator, PufferfishRelease
from sklearn_puffer.displays import PrototypeDisplay, PrototypesTriedDisplay, ReleaseDisplay

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


@pytest.mark.slow
def test_the_change_is_drawn_over_the_numbers_that_were_tried():
    rows = PufferfishMicroaggregator(1.0, sensitive="loan", min_size=50, level=None).fit(TABLE)
    display = PrototypesTriedDisplay.from_microaggregator(rows, ax=axes())
    line = display.ax_.lines[0].get_xydata()
    assert [tuple(each) for each in line] == sorted(rows.certificate_.facts.tried)
    assert len(line) > 1
    assert display.changes[display.numbers == display.taken] == display.changes.min()
    assert sum(bar.get_height() for bar in display.ax_.patches) == pytest.approx(
        display.changes.min()
    )


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


def test_a_release_of_typical_rows_has_no_column_of_noise_to_draw(rows):
    with pytest.raises(TypeError, match="must release noise, got PufferfishMicroaggregator"):
        ReleaseDisplay.from_noiser(rows, TABLE, column="cars", ax=axes())


@pytest.mark.parametrize("kind", [PrototypeDisplay, PrototypesTriedDisplay])
def test_what_is_no_fitted_microaggregator_is_refused(kind):
    with pytest.raises(TypeError, match="must be a fitted PufferfishMicroaggregator"):
        kind.from_microaggregator(TABLE, ax=axes())


@pytest.mark.filterwarnings("ignore:typical rows are hardly nearer")
@pytest.mark.slow
@pytest.mark.parametrize("y", [None, TABLE["debt"] > 12.0], ids=["no y", "y"])
def test_the_change_over_epsilon_is_that_of_fits_with_other_budgets(y):
    options = {"sensitive": "loan", "n_prototypes": 6}
    rows = PufferfishMicroaggregator(0.5, **options).fit(TABLE, y)
    display = PrototypesTriedDisplay.from_microaggregator(rows, over="epsilon", ax=axes())
    assert display.numbers.tolist() == [0.125, 0.25, 0.5, 1.0, 2.0]
    assert display.taken == 0.5
    for epsilon, change in zip(display.numbers, display.changes, strict=True):
        facts = PufferfishMicroaggregator(epsilon, **options).fit(TABLE, y).certificate_.facts
        assert change == pytest.approx(facts.grouping + facts.moving, rel=1e-9)
    again = pickle.loads(pickle.dumps(rows))
    drawn = PrototypesTriedDisplay.from_microaggregator(again, over="epsilon", ax=axes())
    assert drawn.changes.tolist() == display.changes.tolist()


def test_budgets_without_a_program_to_solve_again_are_refused(rows):
    read = PufferfishRelease.from_json(rows.to_json())
    with pytest.raises(TypeError, match=r"fitted without known columns.*plan\(table"):
        PrototypesTriedDisplay.from_microaggregator(read, over="epsilon", ax=axes())
