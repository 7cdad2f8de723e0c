"""Arrays of the released columns alone are released as the columns of fit are."""

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser, PufferfishRelease

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")

N = 240
RNG = np.random.default_rng(3)
ROWS = np.column_stack([RNG.integers(0, 2, N), RNG.integers(0, 4, (N, 4))])
NAMES = ["secret", "a", "b", "c", "d"]
KEY = b"blake2b:" + bytes(32)


def fitted(rows=ROWS, **params):
    settings = {"sensitive": 0, "public": [1, 3]} | params
    return PufferfishNoiser(1.0, **settings).fit(rows)


@pytest.mark.parametrize(
    ("params", "columns"),
    [
        ({}, [1, 3]),
        ({"remainder": "passthrough"}, [1, 2, 3, 4]),
        ({"public": [3, 1]}, [1, 3]),
        ({"known": 3}, [1, 3]),
    ],
)
def test_an_array_of_the_released_columns_is_released_as_the_whole_one(params, columns):
    noiser, ids = fitted(**params), np.arange(N)
    for release in (noiser, PufferfishRelease.from_json(noiser.to_json())):
        whole = release.transform(ROWS, row_id=ids, key=KEY)
        narrow = release.transform(ROWS[:, columns], row_id=ids, key=KEY)
        assert np.array_equal(whole, narrow)
    assert np.asarray(noiser.transform(ROWS[:2, columns].tolist())).shape == (2, len(columns))


def test_a_noiser_of_a_data_frame_takes_arrays_of_its_released_columns():
    noiser = fitted(pd.DataFrame(ROWS, columns=NAMES), sensitive="secret", public=["a", "c"])
    assert noiser.transform([[1, 3], [2, 0]]).shape == (2, 2)


@pytest.mark.parametrize("width", [1, 3, 4, 6])
def test_any_other_width_is_refused_with_both_numbers(width):
    rows = np.ones((3, width), dtype=int)
    told = rf"X has {width} features, but PufferfishNoiser is expecting 5 .* or the 2 that it rel"
    with pytest.raises(ValueError, match=told):
        fitted().transform(rows)


def test_where_both_numbers_are_one_columns_are_those_of_fit():
    noiser = PufferfishNoiser(1.0).fit(ROWS[:, 1:3], sensitive_features=ROWS[:, 0])
    assert noiser.transform(ROWS[:, 1:3]).shape == (N, 2)


def test_values_that_are_unseen_are_refused_by_the_column_of_fit():
    with pytest.raises(ValueError, match="column 3"):
        fitted(unknown="error").transform(np.array([[1, 99]]))


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"known": 1}, [1, 2, 3, 4]),
        ({"public": [3], "remainder": "passthrough"}, [1, 2, 3, 4]),
        ({"public": [2], "known": 1}, [1, 2]),
    ],
)
def test_columns_without_names_whose_order_in_fit_and_release_differs_are_refused(params, kept):
    """A public column was taken for a known or passed one, and came out as it was."""
    rows = PufferfishMicroaggregator(sensitive=0, **params).fit(ROWS)
    for release in (rows, PufferfishRelease.from_json(rows.to_json())):
        with pytest.raises(ValueError, match="which is which cannot be told: fit saw them as 1"):
            release.transform(ROWS[:, kept])
        with pytest.raises(ValueError, match="may stand for others"):
            release.transform(pd.DataFrame(ROWS[:, kept]))


def test_a_table_that_counts_its_own_columns_is_taken_where_these_are_released_alone():
    first = PufferfishMicroaggregator(sensitive=4, public=[0, 1]).fit(ROWS)
    assert list(first.transform(pd.DataFrame(ROWS[:, :2]))) == [0, 1]
    later = PufferfishMicroaggregator(sensitive=0, public=[1, 2]).fit(ROWS)
    with pytest.raises(ValueError, match="may stand for others"):
        later.transform(pd.DataFrame(ROWS[:, 1:4]))  # 1 and 2 are there, and are other columns
