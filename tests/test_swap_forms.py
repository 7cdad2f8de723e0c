"""Swaps of values that are equal and look different: their look tells nobody who has moved."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.fits import ClassifierFit
from sklearn_puffer.noise import RecordSwap

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROWS = np.random.default_rng(0)
SECRET = ROWS.integers(0, 2, 1000)
HALF = ROWS.random(1000) < 0.5
# of the other half the second form is common under one secret, and rare under the other
SECOND = ~HALF & (ROWS.random(1000) < np.where(SECRET == 1, 0.95, 0.05))


def objects(first, second, other):
    cells = np.empty(1000, dtype=object)
    cells[:] = [
        other if half else second if odd else first for half, odd in zip(HALF, SECOND, strict=True)
    ]
    return cells


def numbers(first, second):
    return np.where(HALF, 1.0 + (np.arange(1000) % 2), np.where(SECOND, second, first))


def in_pandas(cells, dtype=None):
    return pd.DataFrame({"s": SECRET, "x": pd.Series(cells, dtype=dtype)})


def arrow_floats():
    values = [
        None if odd else x for x, odd in zip(numbers(np.nan, 0).tolist(), SECOND, strict=True)
    ]
    return pa.array(values, type=pa.float64(), from_pandas=False)


TABLES = {
    "zeros": lambda: in_pandas(numbers(0.0, -0.0)),
    "zeros of float32": lambda: in_pandas(numbers(0.0, -0.0), "float32"),
    "zeros of Float64": lambda: in_pandas(numbers(0.0, -0.0), "Float64"),
    "zeros of an array": lambda: np.column_stack([SECRET, numbers(0.0, -0.0)]),
    "None and NaN": lambda: in_pandas(objects(None, np.nan, "a"), object),
    "NA and NaN": lambda: in_pandas(objects(pd.NA, np.nan, "a"), object),
    "whole floats": lambda: in_pandas(objects(1, 1.0, 2), object),
    "whole numbers of numpy": lambda: in_pandas(objects(1, np.int64(1), 2), object),
    "strings of numpy": lambda: in_pandas(objects("a", np.str_("a"), "b"), object),
    "null and NaN of polars": lambda: pl.DataFrame({"s": SECRET, "x": arrow_floats()}),
    "null and NaN of Arrow": lambda: pa.table({"s": SECRET, "x": arrow_floats()}),
    "zeros of polars": lambda: pl.DataFrame({"s": SECRET, "x": numbers(0.0, -0.0)}),
}


def looks(table):
    """Return how each value of the last column looks: its type and how it is written."""
    if isinstance(table, np.ndarray):
        cells = table[:, -1].tolist()
    elif isinstance(table, pd.DataFrame):
        cells = table["x"].tolist()
    else:
        cells = table["x"].to_pylist() if isinstance(table, pa.Table) else table["x"].to_list()
    return [(type(each), repr(each)) for each in cells]


@pytest.mark.parametrize("cells", ["auto", 4])
@pytest.mark.parametrize("case", TABLES)
def test_equal_values_look_alike_once_they_are_swapped(case, cells):
    table = TABLES[case]()
    noiser = PufferfishNoiser(
        1.0, sensitive=0 if isinstance(table, np.ndarray) else "s", noise=RecordSwap(cells=cells)
    )
    n_looks = len(set(looks(table)))
    for released in (noiser.fit_transform(table), noiser.transform(table)):
        told = Counter(looks(released))
        assert len(told) == n_looks - 1  # one of the values came in two forms
        assert (~HALF).sum() in told.values()


def test_a_row_that_is_served_looks_like_a_donor():
    table = in_pandas(numbers(0.0, -0.0))
    noiser = PufferfishNoiser(1.0, sensitive="s", noise=RecordSwap(donors=0.4)).fit(table)
    released = pd.concat([noiser.transform(table[k : k + 20]) for k in range(0, 100, 20)])
    assert not np.signbit(released["x"]).any()


@pytest.mark.parametrize("dtype", ["int64", "Int64", "category"])
def test_whole_numbers_that_a_classifier_cannot_tell_apart_are_refused(dtype):
    large = pd.Series(2**53 + HALF.astype(np.int64), dtype=dtype)
    noiser = PufferfishNoiser(1.0, sensitive="s", noise="swap")
    with pytest.raises(ValueError, match=r"'x' holds whole numbers beyond 2\^53.*leave the column"):
        noiser.fit(in_pandas(large))


def test_a_classifier_that_is_fitted_again_does_not_change_a_fitted_swap():
    x = ROWS.normal(size=1000) + SECRET
    table = pd.DataFrame({"s": SECRET, "x": x})
    model = LogisticRegression().fit(table[["x"]], SECRET)
    prior = ClassifierFit(model, cv="prefit")
    noiser = PufferfishNoiser(1.0, sensitive="s", noise=RecordSwap(cells=8), prior=prior)
    noiser.fit(table)
    [held] = noiser._fitted.mechanism.cells.models[0].models
    before = held.coef_.copy()
    model.fit(table[["x"]], 1 - SECRET)
    assert np.array_equal(held.coef_, before)
    assert not np.array_equal(model.coef_, before)
