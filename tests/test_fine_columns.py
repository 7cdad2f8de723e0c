"""Columns of very many numbers: what an engine refuses of them."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from engine_cases import duckdb_relation, outcome, polars_lazy

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._engines import lazy_table

N = 1500


def _columns():
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, N)
    normal = rng.normal(size=N) + 3 * secret
    frame = pd.DataFrame({"s": secret, "normal": normal})
    frame["whole"] = rng.integers(-400, 400, N) + 300 * secret
    frame["ties"] = np.where(rng.random(N) < 0.4 + 0.5 * secret, -0.0, normal)
    return frame


FRAME = _columns()


@pytest.fixture(params=[polars_lazy, duckdb_relation])
def lazy(request):
    return request.param


def test_a_fit_on_an_engine_is_that_of_one_in_memory(lazy):
    options = {"sensitive": "s", "public": ["normal", "whole", "ties"], "n_bins": 4}
    options["dependence"] = "independent"
    assert outcome(lazy(FRAME), **options) == outcome(FRAME, **options)


def test_columns_of_more_values_than_are_fetched_are_refused_by_name(lazy, monkeypatch):
    monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", 64)
    labels = FRAME.assign(word=[f"w{k}" for k in range(N)])
    public = ["normal", "whole"]
    for n_bins, dependence in (({"whole": 4}, "joint"), (None, "independent")):
        noiser = PufferfishNoiser(1.0, sensitive="s", public=public, n_bins=n_bins)
        noiser.set_params(dependence=dependence)
        with pytest.raises(ValueError, match=r"'normal' has more than 64 distinct.*round"):
            noiser.fit(lazy(FRAME))
    with pytest.raises(ValueError, match="'word' has more than 64 distinct"):
        PufferfishNoiser(1.0, sensitive="s", public=["word"], n_bins=4).fit(lazy(labels))


def test_columns_that_are_too_fine_are_known_from_their_first_rows(monkeypatch):
    monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", 1000)
    # nobody waits for the groups of all of them
    rows = "range(100000000000000) t(i)"
    endless = duckdb.connect().sql(f"select i % 2 as s, i::double as x from {rows}")
    table = lazy_table(endless)
    assert not table.count(["s", "x"])
    with pytest.raises(ValueError, match="'x' has more than 1,000 distinct"):
        table.values("x")


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [9, 10, 21, 22, 23, 60])
def test_rows_beyond_the_first_ones_are_counted_with_them(lazy, monkeypatch, n_rows):
    monkeypatch.setattr("sklearn_puffer._engines.lazy.MOST_CELLS", 10)
    rows = np.arange(n_rows)
    frame = pd.DataFrame({"s": rows % 2, "x": rows * 10 // n_rows / 2.0})
    table = lazy_table(lazy(frame))
    assert table.count(["x"])
    of_group = table.values("x")
    found = dict(zip(of_group.data.tolist(), of_group.counts.tolist(), strict=True))
    assert found == frame["x"].value_counts().to_dict()
