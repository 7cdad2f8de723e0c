"""Numbers near the ends of their type: no infinity is released, and no message is numpy's."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sklearn_puffer import PufferfishNoiser

N_ROWS = 600
RNG = np.random.default_rng(4)
SECRET = RNG.integers(0, 2, N_ROWS)
UP = RNG.random(N_ROWS) < 0.3 + 0.4 * SECRET
NODATA = np.where(RNG.random(N_ROWS) < 0.3, -3.4e38, UP).astype(np.float32)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TABLES = {
    "pandas": lambda x: pd.DataFrame({"s": SECRET, "x": x}),
    "Float32": lambda x: pd.DataFrame({"s": SECRET, "x": pd.array(x, dtype="Float32")}),
    "polars": lambda x: pl.DataFrame({"s": SECRET, "x": x}),
    "arrow": lambda x: pa.table({"s": SECRET, "x": x}),
    "array": lambda x: np.column_stack([x, SECRET]).astype(np.float32),
    "lazy": lambda x: pl.DataFrame({"s": SECRET, "x": x}).lazy(),
}
OPTIONS = {
    "counted": {},
    "bins": {"n_bins": 4},
    "normal": {"prior": "gaussian", "delta": 1e-3},
    "cauchy": {"noise": "cauchy"},
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("way", OPTIONS)
def test_single_floats_near_their_largest_are_refused_by_name(kind, way):
    sensitive = 1 if kind == "array" else "s"
    noiser = PufferfishNoiser(1.0, sensitive=sensitive, **OPTIONS[way])
    with pytest.raises(ValueError, match=r"holds -3\.4e\+38 as float32.* missing .*astype\(float"):
        noiser.fit(TABLES[kind](NODATA))


@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind != "lazy"])
@pytest.mark.parametrize(
    ("way", "gaps"),
    [
        pytest.param(way, gaps, marks=[pytest.mark.slow] * (way == "cauchy"))
        for way, gaps in product(OPTIONS, [False, True])
        if gaps or way == "counted"
    ],
)
def test_no_release_of_single_floats_is_infinite(kind, way, gaps):
    """Cauchy noise of any scale leaves every type now and then."""
    column = (1e29 * RNG.integers(0, 4, N_ROWS) + 1e29 * SECRET).astype(np.float32)
    column[::9] = np.nan if gaps else 0.0
    sensitive = 1 if kind == "array" else "s"
    noiser = PufferfishNoiser(
        1e-8, sensitive=sensitive, missing="propagate", random_state=2, **OPTIONS[way]
    )
    released = noiser.fit_transform(TABLES[kind](column))
    numbers = released[:, 0] if kind == "array" else released["x"]
    numbers = np.array([np.nan if pd.isna(x) else float(x) for x in np.asarray(numbers, object)])
    assert not np.isinf(numbers).any()
    assert np.isnan(numbers).sum() == (np.isnan(column).sum() if gaps else 0)


@pytest.mark.parametrize("values", [(5e-324, 1e-310), (0.0, 5e-324), (1e-310, 3e-308)])
@pytest.mark.parametrize("noise", ["laplace", "cauchy", "gaussian"])
@pytest.mark.parametrize("n_bins", [None, 3])
def test_denormals_are_refused_by_their_unit(values, noise, n_bins):
    table = pd.DataFrame({"s": SECRET, "x": np.where(UP, *values)})
    delta = 1e-3 if noise == "gaussian" else 0.0
    noiser = PufferfishNoiser(1.0, delta=delta, sensitive="s", noise=noise, n_bins=n_bins)
    with pytest.raises(ValueError, match=r"column 'x' are at most .* apart, .* in another unit"):
        noiser.fit(table)
