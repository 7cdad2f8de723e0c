"""The rows of a lazy table that a swap learns from: those whose digests are the smallest."""

import numpy as np
from scipy import stats

from sklearn_puffer._tables import Values, row_digests, smallest


def test_each_distinct_row_is_as_likely_to_be_kept_as_any_other():
    n_rows, most, n_worlds = 60, 15, 600
    kept = np.zeros(n_rows)
    for world in range(n_worlds):  # other names have other digests
        column = Values("integer", np.arange(n_rows))
        digests = row_digests({f"a{world}": column, "b": Values("float", np.zeros(n_rows))})
        kept += smallest(digests, most)
    share = most / n_rows
    spread = (kept - n_worlds * share) ** 2 / (n_worlds * share * (1 - share))
    # the counts sum up to a constant: their squares have the distribution of n - 1 of them
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
