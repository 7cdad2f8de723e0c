"""The rows of a lazy table that a swap learns from: those whose digests are the smallest."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from engine_cases import TABLE, in_polars
from scipy import stats

from sklearn_puffer._tables import Values, engine, lazy_table, row_digests, sample_rows


def _in_duckdb(frame):
    return duckdb.from_arrow(in_polars(frame).to_arrow())


@pytest.fixture(params=["polars", "duckdb"])
def lazy(request):
    return _in_duckdb if request.param == "duckdb" else lambda frame: in_polars(frame).lazy()


def test_each_distinct_row_is_as_likely_to_be_kept_as_any_other():
    n_rows, most, n_worlds = 60, 15, 600
    kept = np.zeros(n_rows)
    for world in range(n_worlds):  # other names have other digests
        column = Values("integer", np.arange(n_rows))
        digests = row_digests({f"a{world}": column, "b": Values("float", np.zeros(n_rows))})
        kept[np.argsort(digests)[:most]] += 1
    share = most / n_rows
    spread = (kept - n_worlds * share) ** 2 / (n_worlds * share * (1 - share))
    # the counts sum up to a constant: their squares have the law of n - 1 of them
    assert stats.chi2.sf(spread.sum() * (1 - 1 / n_rows), n_rows - 1) > 1e-3
    assert stats.chi2.cdf(spread.sum() * (1 - 1 / n_rows), n_rows - 1) > 1e-3


def test_digests_are_even_whatever_the_values_are_and_stay_what_they_are():
    for data in (np.arange(20_000), np.linspace(0, 1e-9, 20_000), 2.0 ** np.arange(-500, 500)):
        kind = "integer" if data.dtype.kind == "i" else "float"
        digests = row_digests({"a": Values(kind, data)})
        assert len(np.unique(digests)) == len(data)
        assert stats.kstest(digests / 2.0**63, "uniform").pvalue > 1e-3
        assert abs(stats.spearmanr(data, digests).statistic) < 4 / np.sqrt(len(data))
    labels = Values("category", np.array([0, 1, -1]), np.array([False, False, True]), ("x", "y"))
    ages = Values("integer", np.array([1, -2, 3]))
    # another number here is another sample for everybody
    assert row_digests({"a": ages, "é": labels}).tolist() == GOLDEN


GOLDEN = [2987005145233842620, 3460078846843718375, 968482284742520231]


def test_rows_that_differ_in_one_value_or_by_an_exchange_have_other_digests():
    one, two = (Values("integer", np.array(row)) for row in ([1, 2, 1], [2, 1, 1]))
    gone = Values("integer", np.array([1, 1, 1]), np.array([False, True, False]))
    found = row_digests({"a": one, "b": two, "c": gone})
    assert len(set(found.tolist())) == 3
    assert row_digests({"b": two, "c": gone, "a": one}).tolist() == found.tolist()
    zeros = row_digests({"a": Values("float", np.array([0.0, -0.0, np.nan]))})
    assert zeros[0] == zeros[1] != zeros[2]


@pytest.mark.parametrize("n_rows", [1, 240, 10**6, 10**12])
@pytest.mark.parametrize("most_cells", [1 << 23, 24])
def test_the_sample_of_an_engine_does_not_depend_on_where_the_search_begins(
    monkeypatch, n_rows, most_cells, lazy
):
    monkeypatch.setattr(engine, "MOST_CELLS", most_cells)
    table = lazy_table(lazy(TABLE))
    assert sample_rows(table, ["s"], ["t", "age"], 6, n_rows) == 6
    columns, counts = table.rows(["s", "t", "age"])
    rows = pd.DataFrame({name: values.data for name, values in columns.items()})
    digests = row_digests(
        {name: Values("integer", TABLE[name].to_numpy(dtype=int)) for name in ("t", "age")}
    )
    inside = np.isin(digests, np.unique(digests)[:6])
    expected = {*zip(TABLE["t"][inside] * 1.0, TABLE["age"][inside] * 1.0, strict=True)}
    assert set(zip(rows["t"] * 1.0, rows["age"] * 1.0, strict=True)) == expected
    assert counts.sum() == inside.sum()


def test_more_rows_of_so_few_public_ones_than_are_fetched_are_refused(lazy, monkeypatch):
    monkeypatch.setattr(engine, "MOST_CELLS", 3)
    with pytest.raises(ValueError, match=r"^4 rows of the public columns .* than 3 different rows"):
        sample_rows(lazy_table(lazy(TABLE)), ["s"], ["age"], 4, 240)
