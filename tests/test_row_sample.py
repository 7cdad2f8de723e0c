"""A fit on a stated sample (`max_rows`): which rows it takes, what it promises, what it refuses."""

import math
import re
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine_cases import GAPS, LABEL_GAPS, TABLE, in_pandas, in_polars, lengths_fetched, outcome
from scipy import stats

from sklearn_puffer import PufferfishNoiser, PufferfishRelease, report
from sklearn_puffer._tables import Values, engine, lazy_table, row_digests, sample_rows
from sklearn_puffer.fits import MixtureFit

pytestmark = pytest.mark.usefixtures("thin_cells")


def _in_duckdb(frame):
    return duckdb.from_arrow(in_polars(frame).to_arrow())


@pytest.fixture(params=["polars", "duckdb"])
def lazy(request):
    return _in_duckdb if request.param == "duckdb" else lambda frame: in_polars(frame).lazy()


def _fit(X, public, most, weight=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(sensitive="s", public=public, max_rows=most, **options)
        return noiser.fit(X, sample_weight=weight)


def _told(noiser):
    """Return the sentence about the sample, and the numbers in it."""
    [said] = [each for each in noiser.certificate_.assumptions if "max_rows=" in each]
    return said, [float(each.rstrip("%.")) for each in re.findall(r"\d[\d.]*%?", said)]


CASES = {
    "rows": (TABLE, {"public": ["age", "x"], "max_rows": 20}),
    "bins": (TABLE, {"public": ["age", "x"], "max_rows": 60, "n_bins": 3}),
    "labels": (GAPS, {"public": ["x", "job"], "max_rows": 40, "missing": "propagate"}),
    "gaps": (LABEL_GAPS, {"public": ["flag", "job"], "max_rows": 7, "missing": "category"}),
    "two secrets": (TABLE, {"sensitive": ["t", "s"], "public": ["age", "flag"], "max_rows": 8}),
    "apart": (TABLE, {"public": ["x", "short"], "max_rows": 50, "dependence": "independent"}),
    "a mixture": (
        TABLE,
        {"public": ["x"], "max_rows": 20, "prior": MixtureFit(n_components=2, n_init=1)},
    ),
    "all rows": (TABLE, {"public": ["age", "flag"], "max_rows": 1000}),
    "a secret that is lost": (TABLE, {"sensitive": "x", "public": ["age"], "max_rows": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fit_on_a_sample_is_the_same_in_every_engine_to_the_byte(name, lazy):
    frame, options = CASES[name]
    options = {"sensitive": "s", **options}
    assert outcome(lazy(frame), **options) == in_pandas(frame, options)


def test_a_channel_on_a_sample_is_the_same_in_every_engine(lazy):
    options = {"noise": "optimal"}
    expected = _fit(TABLE, ["age", "flag", "t"], 12, **options)
    found = _fit(lazy(TABLE), ["age", "flag", "t"], 12, **options)
    assert len(expected.channel_.cells) == 12
    assert (found.channel_.numerators != expected.channel_.numerators).nnz == 0
    assert found.certificate_.to_dict()["pairs"] == expected.certificate_.to_dict()["pairs"]
    assert found.certificate_.assumptions == expected.certificate_.assumptions
    assert "of a sample of" in str(found.certificate_).splitlines()[0]


def test_no_order_of_rows_or_columns_and_no_cut_of_the_table_changes_the_sample(tmp_path):
    options = {"sensitive": "s", "public": ["age", "x", "job"], "max_rows": 30}
    shuffled = TABLE.sample(frac=1.0, random_state=3)
    assert outcome(shuffled, **options) == in_pandas(TABLE, options)
    for part in range(5):
        in_polars(shuffled)[part::5].write_parquet(tmp_path / f"{part}.parquet")
    assert outcome(str(tmp_path), **options) == in_pandas(TABLE, options)
    backwards = _fit(TABLE[TABLE.columns[::-1]], ["x", "age"], 30)
    forwards = _fit(TABLE, ["age", "x"], 30)
    assert _told(backwards)[0] == _told(forwards)[0]


def test_types_of_numbers_and_ways_to_hold_labels_have_no_part_in_it():
    options = {"public": ["age", "job"], "most": 9}
    told = _told(_fit(TABLE, **options))[0]
    for frame in (
        TABLE.astype({"age": np.float32}),
        TABLE.astype({"age": "UInt8", "job": "category"}),
        in_polars(TABLE).with_columns(
            pl.col("job").cast(pl.Enum(["none", "nurse", "Smith", "clerk"]))
        ),
    ):
        assert _told(_fit(frame, **options))[0] == told


def test_enumerated_labels_of_duckdb_keep_their_order(lazy):
    order = pl.Enum(["nurse", "none", "Smith", "clerk"])
    frame = in_polars(TABLE).with_columns(pl.col("job").cast(order))
    table = frame.lazy() if lazy is not _in_duckdb else duckdb.from_arrow(frame.to_arrow())
    if lazy is _in_duckdb:
        table = table.project("* replace (job::enum('nurse', 'none', 'Smith', 'clerk') as job)")
    options = {"sensitive": "s", "public": ["job", "age"], "max_rows": 9}
    assert outcome(table, **options) == outcome(frame, **options)


def _kept(noiser):
    """Return the public rows that the laws know, from the laws themselves."""
    rows = {}
    for secret, laws in noiser.priors_["s"].items():
        for law in laws.values():
            for row, count in zip(law.rows.tolist(), law.counts.tolist(), strict=True):
                if count:
                    rows.setdefault(tuple(row), {})[secret] = count
    return rows


def test_all_copies_and_secrets_of_a_row_are_kept_so_that_its_odds_are_those_of_the_table():
    kept = _kept(_fit(TABLE, ["t", "age"], 6))
    counts = TABLE.groupby(["t", "age", "s"]).size()
    assert len(kept) == 6
    for (t, age), of_secrets in kept.items():
        assert of_secrets == counts.loc[int(t), int(age)].to_dict()


def test_the_certificate_says_how_many_rows_were_chosen_how_and_what_follows():
    noiser = _fit(TABLE, ["t", "age"], 6)
    kept = _kept(noiser)
    inside = [row in kept for row in zip(TABLE["t"] * 1.0, TABLE["age"] * 1.0, strict=True)]
    shares = TABLE.assign(inside=inside).groupby("s")["inside"].mean()
    said, [n_rows, n_whole, n_distinct, least, most, besides] = _told(noiser)
    assert (n_rows, n_whole, n_distinct) == (sum(inside), len(TABLE), 6)
    assert (least, most) == (round(100 * shares.min(), 2), round(100 * shares.max(), 2))
    ratio = math.log(shares.max() / shares.min())
    assert ratio <= besides <= ratio + 1e-4
    assert "no order of the rows and no secret has a part in the choice" in said
    assert "NOTHING is promised of one that is released all the same" in said
    assert f"counted prior of a sample of {sum(inside)} of 240 rows" in str(noiser.certificate_)
    assert noiser.certificate_.n_rows == sum(inside)
    assert noiser.certificate_.over_set is None


def test_the_bound_on_what_being_in_the_sample_tells_holds_for_every_released_row():
    noiser = _fit(TABLE, ["t", "age"], 6, noise="optimal")
    kept = _kept(noiser)
    besides = _told(noiser)[1][-1]
    cells = [tuple(map(float, row)) for row in noiser.channel_.cells.to_numpy()]
    joint = {}  # P(y, in the sample | s), of all rows of the table
    for secret, of_secret in TABLE.groupby("s"):
        law = np.array([kept[cell].get(secret, 0) for cell in cells]) / len(of_secret)
        joint[secret] = law @ noiser.channel_.matrix.toarray()
    released = np.stack(list(joint.values()))
    logs = np.log(released[:, released.any(axis=0)])
    assert 0.9 < np.ptp(logs, axis=0).max() <= noiser.certificate_.loss + besides + 1e-9


def test_the_same_table_is_fitted_whole_where_it_has_no_more_rows():
    options = {"sensitive": "s", "public": ["age", "x"]}
    assert outcome(TABLE, **options, max_rows=240) == in_pandas(TABLE, options)


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
    expected = set(_kept(_fit(TABLE, ["t", "age"], 6)))
    assert set(zip(rows["t"] * 1.0, rows["age"] * 1.0, strict=True)) == expected
    inside = [row in expected for row in zip(TABLE["t"], TABLE["age"], strict=True)]
    assert counts.sum() == sum(inside)


def test_what_is_fetched_of_a_large_table_grows_with_the_sample_and_not_with_the_rows(
    lazy, monkeypatch
):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(20_000, 3)), columns=list("abc"))
    table = lazy(wide.assign(s=rng.integers(0, 2, len(wide))))
    fetched = lengths_fetched(monkeypatch)
    noiser = _fit(table, ["a", "b", "c"], 100, n_bins=2, noise="optimal")
    assert noiser.certificate_.n_rows == 100
    assert sum(fetched) < 500


def test_rows_that_count_often_or_never_are_counted_so(lazy):
    weights = np.arange(len(TABLE)) % 4
    expected = _fit(TABLE, ["age", "x"], 25, weights)
    found = _fit(lazy(TABLE.assign(w=weights)), ["age", "x"], 25, "w")
    assert found.theta_.to_dict() == expected.theta_.to_dict()
    assert _told(found) == _told(expected)
    assert _told(found)[1][1] == weights.sum()
    only = _fit(TABLE[weights > 0], ["age", "x"], 25, weights[weights > 0])
    assert _told(only) == _told(expected)


def test_secrets_beside_the_table_go_with_their_rows():
    inside = _fit(TABLE, ["t", "age"], 6)
    beside = PufferfishNoiser(public=["t", "age"], max_rows=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beside.fit(TABLE[["t", "age"]], sensitive_features=TABLE["s"])
    assert beside.theta_.to_dict() == inside.theta_.to_dict()
    assert _told(beside) == _told(inside)


def test_recipients_are_told_of_the_sample_as_far_as_the_settings_say():
    noiser = _fit(TABLE, ["t", "age"], 6)
    form = PufferfishRelease.from_json(noiser.to_json())
    for each, words in ((noiser, "at most 6 distinct rows"), (form, "a sample of the rows")):
        told = str(report(each, kind="external"))
        assert f"The laws were learnt from {words}, chosen by the values" in told
        assert not re.search(rf"\b({noiser.certificate_.n_rows}|240)\b", told)
    assert "laws were learnt" not in str(report(_fit(TABLE, ["age"], None), kind="external"))


REFUSED = {
    "too few": (1, {}, r"max_rows must be at least 2"),
    "no number": ("many", {}, r"max_rows must be"),
    "sets": (9, {"adversaries": "confidence"}, r"max_rows=9 fits rows that are chosen by what.*"),
    "a lost secret": (2, {}, r"max_rows=2: none of the \d+ row\(s\) with '[abc].*raise max_rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_sample_cannot_be_is_refused_by_name(name):
    most, options, sentence = REFUSED[name]
    frame = TABLE.assign(age=np.arange(len(TABLE)))
    with pytest.raises((TypeError, ValueError), match=sentence):
        _fit(frame, ["age"], most, **options)


def test_more_rows_of_so_few_public_ones_than_are_fetched_are_refused(lazy, monkeypatch):
    monkeypatch.setattr(engine, "MOST_CELLS", 3)
    with pytest.raises(ValueError, match=r"max_rows=4: so many rows .* more than 3 different rows"):
        _fit(lazy(TABLE), ["age"], 4)


def test_a_table_too_wide_for_a_channel_is_refused_with_the_sample_as_the_way_out(
    lazy, monkeypatch
):
    monkeypatch.setattr(engine, "MOST_CELLS", 60)
    with pytest.raises(ValueError, match=r"state a sample of the rows \(max_rows=100_000\)"):
        _fit(lazy(TABLE), ["age", "x"], None, noise="optimal")
    assert len(_fit(lazy(TABLE), ["age", "x"], 15, noise="optimal").channel_.cells) == 15


def test_rows_outside_of_the_sample_are_refused_or_moved_and_estimated():
    noiser = _fit(TABLE, ["age", "x"], 30, noise="optimal")
    with pytest.raises(ValueError, match="fit"):
        noiser.transform(TABLE)
    with pytest.warns(UserWarning, match=r'unknown="nearest" moved \d+ of 240 rows'):
        noiser.set_params(unknown="nearest").transform(TABLE, on_drift="ignore")
    new = {*zip(TABLE["age"], TABLE["x"], strict=True)} - {*_kept(noiser)}
    outside = [row in new for row in zip(TABLE["age"], TABLE["x"], strict=True)]
    assert noiser.certificate_.check(TABLE).new_rows == np.mean(outside)
