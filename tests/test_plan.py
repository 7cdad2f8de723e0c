"""A plan: what it says of columns and settings is what fitting them says, and nothing is drawn."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_puffer import Plan, PufferfishNoiser, plan
from sklearn_puffer._noiser import estimator
from sklearn_puffer._releases.sentences import OCCUR_ONCE
from sklearn_puffer._tables import canonical_rows, frame_table, recoded

pytestmark = [
    pytest.mark.usefixtures("thin_cells"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def small(n_rows=240, seed=0):
    """Return a table with three secrets, one of them rare, and columns of every easy kind."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n_rows, p=[0.6, 0.3, 0.1])
    visits = rng.integers(0, 4, n_rows) + (group == "a") * rng.integers(0, 3, n_rows)
    return pd.DataFrame(
        {
            "group": group,
            "visits": visits,
            "town": rng.choice(["x", "y", "z"], n_rows),
        }
    )


@pytest.fixture(scope="module")
def found():
    return plan(small(), "group", public=["visits"], epsilon=[0.5, 1.0], time_limit=None)


def figures(noiser):
    """Return the certificate but for its date, as plain values."""
    told = json.loads(noiser.certificate_.to_json())
    return {key: value for key, value in told.items() if key != "date"}


def last_step(fitted):
    return fitted[-1] if hasattr(fitted, "steps") else fitted


def test_rows_of_a_plan_are_what_their_noisers_say_when_they_are_fitted(found):
    assert_rows_are_fits(found, small(), found.table.iloc[::6])


@pytest.mark.slow
def test_every_row_of_a_plan_of_two_columns_is_what_its_noiser_says_when_it_is_fitted():
    told = plan(small(), "group", epsilon=[0.5, 1.0], time_limit=None)
    assert_rows_are_fits(told, small(), told.table)


def assert_rows_are_fits(found, table, rows):
    for k, row in rows.iterrows():
        if row["verdict"] != "holds" or "without" in row["setting"]:
            continue
        noiser = last_step(found.noiser(k).fit(table))
        utility = noiser.utility_
        assert noiser.certificate_.loss == row["loss"]
        assert noiser.certificate_.holds == (row["verdict"] == "holds")
        assert utility["change_sd"].mean() == pytest.approx(row["change"], rel=1e-12)
        assert utility["unchanged"].mean() == pytest.approx(row["unchanged"], rel=1e-12)
        assert row["worse"] == (utility["change"] > utility["constant"] * (1 + 1e-9)).sum() or (
            np.isinf(utility["change"]).any()
        )


def test_the_noiser_of_a_row_is_not_fitted_and_each_time_a_new_one(found):
    first, second = found.noiser(0), found.noiser(0)
    assert first is not second
    assert not hasattr(first, "certificate_")


def test_a_plan_draws_nothing_and_releases_nothing(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("a plan is a dry run")

    monkeypatch.setattr(estimator, "system_entropy", refused)
    monkeypatch.setattr(estimator, "seeded_entropy", refused)
    monkeypatch.setattr(PufferfishNoiser, "transform", refused)
    assert plan(small(60), "group", public=["town"], epsilon=1.0).table["best"].any()


def test_settings_that_hold_come_first_and_then_what_changes_least(found):
    table = found.table
    assert set(table["verdict"]) == {"holds", "refused"}
    ranks = table["verdict"].map({"holds": 0, "refused": 1})
    assert ranks.is_monotonic_increasing
    assert table.loc[table["verdict"] == "holds", "change"].is_monotonic_increasing


def test_the_best_of_each_budget_is_marked_once_for_each_promise(found):
    held = found.table[found.table["verdict"] == "holds"]
    for _, peers in held.groupby(["epsilon", "promise"]):
        assert peers["best"].sum() == 1
        assert peers["change"][peers["best"]].item() == peers["change"].min()


def test_weaker_promises_are_never_compared_with_the_plain_one(found):
    table = found.table
    apart = table["setting"].str.contains("apart|against")
    assert (table["promise"][apart] != "whole row").all()
    assert {"whole row, fewer pairs", "whole row, against the rest as one"} <= {*table["promise"]}


def test_what_is_recommended_keeps_the_plain_promise(found):
    told = found.recommended()
    assert [found.table["epsilon"][k] for k, _ in told] == [0.5, 1.0]
    assert {found.table["promise"][k] for k, _ in told} == {"whole row"}


def test_what_is_recommended_is_not_fitted_to_rows_that_occur_once_where_other_settings_are(found):
    own = [t for t in found.trials if t.candidate.epsilon == 1.0 and t.verdict == "holds"]
    plain = [t for t in own if t.candidate.promise == "whole row"]
    for gone, expected in (([], plain[0]), (plain[:1], plain[1]), (plain, plain[0])):
        once = {id(t): replace(t, warnings=(f"rows {OCCUR_ONCE}",)) for t in gone}
        told = replace(found, trials=tuple(once.get(id(t), t) for t in found.trials))
        places = [k for k, _ in told.recommended() if told.table["epsilon"][k] == 1.0]
        assert [found.trials[k] for k in places] == [expected]


def test_merged_secrets_are_merged_by_the_noiser_of_the_row(found):
    merged = found.table["promise"] == "whole row, against the rest as one"
    fitted = found.noiser(int(merged.idxmax())).fit(small())
    assert fitted[-1].secret_pairs_ == {"group": [("a", "not a")]}
    released = fitted.transform(small().drop(columns="group"))
    assert list(released.columns) == ["visits"]


def test_a_reason_stands_where_a_setting_is_refused():
    table = pd.DataFrame({"s": [0, 1] * 20, "x": [0, 1, 2, 3] * 10})
    told = plan(table, sensitive="s", epsilon=0.5, time_limit=None, delta=0.0, n_bins={"y": 3})
    assert set(told.table["verdict"]) == {"refused"}
    assert told.table["reason"].str.contains("'y'").all()
    assert "no setting is known to hold" in str(told)


def test_what_the_caller_fixes_is_not_varied():
    told = plan(small(80), "group", epsilon=1.0, noise="laplace", n_bins=3, time_limit=None)
    assert not told.table["setting"].str.contains("channel|Cauchy|Gaussian").any()
    assert told.table["setting"].str.contains("3 bins").all()


def test_columns_are_told_apart_by_what_they_hold():
    n_rows = 60
    table = pd.DataFrame(
        {
            "secret": ["a", "b"] * 30,
            "number": np.linspace(0.0, 1.0, n_rows) ** 2,
            "whole": np.arange(n_rows) % 7,
            "yes": np.arange(n_rows) % 3 == 0,
            "job": ["cook", "smith", "clerk"] * 20,
            "size": pd.Categorical(["s", "m", "l"] * 20, ["s", "m", "l"], ordered=True),
            "id": [f"p{k}" for k in range(n_rows)],
            "key": np.arange(n_rows),
            "since": pd.date_range("2020-01-01", periods=n_rows),
            "same": 1,
            "none": [None] * n_rows,
            "mixed": [1, "x"] * 30,
            "endless": [np.inf, 1.0] * 30,
        }
    )
    columns = plan(table, "secret", epsilon=1.0, time_limit=0).columns
    assert columns["kind"].to_dict() == {
        "secret": "category",
        "number": "number",
        "whole": "whole number",
        "yes": "yes or no",
        "job": "category",
        "size": "order",
        "id": "identifier",
        "key": "identifier",
        "since": "date",
        "same": "constant",
        "none": "nothing",
        "mixed": "unreadable",
        "endless": "unreadable",
    }
    released = columns.index[columns["use"] == "release"]
    assert list(released) == ["number", "whole", "yes", "job", "size", "same"]


def test_columns_that_are_asked_for_are_proposed_whatever_they_look_like():
    table = small(60).assign(id=[f"p{k}" for k in range(60)])
    columns = plan(table, "group", public=["id", "town"], epsilon=1.0, time_limit=0).columns
    assert columns["use"].to_dict() == {
        "group": "sensitive",
        "visits": "not asked for",
        "town": "release",
        "id": "release",
    }


def test_dates_become_days_on_request_and_in_the_pipeline_of_a_row():
    table = small(100).drop(columns="town")
    table["since"] = pd.Timestamp("2020-01-01 09:30") + pd.to_timedelta(table["visits"] % 3, "D")
    told = plan(table, "group", epsilon=1.0, dates="days", time_limit=None, noise="laplace")
    assert told.days == ("since",)
    fitted = told.noiser(0).fit(table)
    days = table.assign(since=18262 + table["visits"] % 3)
    plain = fitted[-1].__class__(**fitted[-1].get_params()).fit(days)
    assert figures(plain) == figures(fitted[-1])
    assert len(pickle.loads(pickle.dumps(fitted)).transform(table)) == 100


def test_dates_are_left_out_otherwise_and_the_way_in_is_named():
    table = small(60).assign(since=pd.Timestamp("2020-01-01"))
    columns = plan(table, "group", epsilon=1.0, time_limit=0).columns
    assert columns.loc["since", "use"] == "leave out"
    assert 'dates="days"' in columns.loc["since", "remark"]


def test_days_are_those_of_the_calendar_for_every_kind_of_date():
    stamps = [pd.Timestamp("1970-01-03 23:59"), None, pd.Timestamp("1969-12-31")]
    frame = pd.DataFrame(
        {
            "plain": pd.Series(stamps),
            "zoned": pd.Series(stamps).dt.tz_localize("UTC"),
            "object": pd.Series([None if s is None else s.date() for s in stamps], dtype=object),
            "span": pd.Series(pd.to_timedelta([2.5, None, -1.0], "D")),
        }
    )
    for name in frame:
        days = recoded(frame, days=[name])[name]
        assert [None if pd.isna(day) else int(day) for day in days] == [2, None, -1], name


def test_days_of_a_polars_table_are_those_of_pandas():
    frame = pd.DataFrame({"since": pd.date_range("2020-01-01", periods=4, freq="36h"), "k": 1})
    own = recoded(pl.from_pandas(frame), days=["since"])
    assert isinstance(own, pl.DataFrame)
    assert own["since"].to_list() == recoded(frame, days=["since"])["since"].tolist()
    assert own["k"].to_list() == [1, 1, 1, 1]


@pytest.mark.slow
def test_a_table_of_polars_has_the_plan_of_the_same_rows_in_pandas():
    table = small(80)
    ours, theirs = (
        plan(t, "group", epsilon=1.0, time_limit=None, noise="laplace")
        for t in (table, as_polars(table))
    )
    pd.testing.assert_frame_equal(without_times(ours), without_times(theirs))


def as_polars(table):
    return pl.DataFrame({name: table[name].tolist() for name in table})


def without_times(told):
    return told.table.drop(columns="seconds")


@pytest.mark.slow
def test_a_plan_does_not_depend_on_the_order_of_the_rows_even_where_it_takes_some_of_them():
    table = small(600)
    shuffled = table.sample(frac=1.0, random_state=1)
    ours, theirs = (
        plan(t, "group", epsilon=1.0, max_rows=150, time_limit=None, noise="laplace")
        for t in (table, shuffled)
    )
    assert ours.n_tried == theirs.n_tried < 600
    assert ours.cliffs == theirs.cliffs
    pd.testing.assert_frame_equal(without_times(ours), without_times(theirs))
    assert "150" in str(ours) or "151" in str(ours) or "152" in str(ours)


def test_some_of_the_rows_have_the_shares_of_the_secrets_and_copies_are_not_taken_together():
    table = pd.DataFrame({"secret": ["a"] * 900 + ["b"] * 99 + ["c"], "x": [7] * 1000})
    source = frame_table(table)
    rows = canonical_rows([source.values("x")], [source.values("secret")], 100)
    assert table["secret"].iloc[rows].value_counts().to_dict() == {"a": 90, "b": 10, "c": 1}
    assert len(set(rows.tolist())) == len(rows)


def test_a_rare_secret_is_never_lost_where_few_rows_are_taken():
    table = small(2000)
    table.loc[17, "group"] = "rare"
    told = plan(table, "group", epsilon=1.0, max_rows=50, time_limit=None, noise="laplace")
    assert any("'rare' (1)" in cliff for cliff in told.cliffs)
    assert told.table["best"].any()


def test_no_time_at_all_lists_every_setting_as_not_tried():
    told = plan(small(), "group", time_limit=0)
    assert set(told.table["verdict"]) == {"not tried"}
    assert told.table["reason"].str.contains("time limit of 0 s").all()
    assert not told.table["best"].any()
    assert told.recommended() == []
    assert "not tried" in told.why(0)


def test_a_column_that_asks_for_most_of_the_noise_is_named_and_left_out_in_a_setting():
    rng = np.random.default_rng(4)
    secret = np.arange(400) % 2
    table = pd.DataFrame({"secret": secret, "told": rng.integers(0, 3, 400)})
    table["tells"] = np.where(rng.random(400) < 0.98, secret, 1 - secret)
    table["other"] = rng.integers(0, 3, 400)
    told = plan(table, "secret", epsilon=1.0, noise="laplace", time_limit=None)
    together = PufferfishNoiser(1.0, sensitive="secret").fit(table)
    spared = PufferfishNoiser(1.0, sensitive="secret", public=["told", "other"]).fit(table)
    alone = {
        name: PufferfishNoiser(1.0, sensitive="secret", public=[name], n_bins=5).fit(table)
        for name in ("told", "tells", "other")
    }
    noise = {name: fitted.theta_[name] / table[name].std(ddof=0) for name, fitted in alone.items()}
    share = noise["tells"] / sum(noise.values())
    assert share > 0.5
    assert told.columns.loc["tells", "share"] == pytest.approx(share, rel=1e-9)
    less = 1.0 - spared.theta_["told"] / together.theta_["told"]
    assert any(cliff.startswith(f"'tells' alone asks for {less:.0%}") for cliff in told.cliffs)
    left = told.table[told.table["setting"].str.contains("without 'tells'")]
    assert set(left["verdict"]) == {"holds"}
    fitted = told.noiser(int(left.index[0])).fit(table)
    median = table["tells"].sort_values().iloc[199]
    constant = (table["tells"] - median).abs().mean() / table["tells"].std(ddof=0)
    kept = fitted.utility_["change_sd"].sum()
    assert left["change"].iloc[0] == pytest.approx((kept + constant) / 3, rel=1e-9)


def test_cells_beyond_the_exact_are_named():
    rng = np.random.default_rng(0)
    columns = {f"c{k}": rng.integers(0, 5, 60) for k in range(8)}
    table = pd.DataFrame({"secret": np.arange(60) % 2, **columns})
    told = plan(table, "secret", epsilon=1.0, time_limit=0)
    assert any("8 columns span 3.9e+05 cells" in cliff for cliff in told.cliffs)
    assert told.table["setting"].str.contains("column groups").any()


def test_secrets_with_few_rows_are_named_and_others_are_not():
    table = small(3000)
    table.loc[:20, "group"] = "d"
    (cliff,) = (c for c in plan(table, "group", epsilon=1.0, time_limit=0).cliffs if "few" in c)
    assert "'d' (21)" in cliff
    assert "'a'" not in cliff


def test_a_noise_that_says_less_than_constants_is_a_cliff():
    rng = np.random.default_rng(0)
    secret = np.arange(300) % 2
    table = pd.DataFrame({"secret": secret, "x": secret * 5 + rng.integers(0, 2, 300)})
    told = plan(table, "secret", epsilon=0.1, noise="laplace", time_limit=None)
    assert any("changes every column more than a constant" in cliff for cliff in told.cliffs)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"s": [0, 0, 0], "x": [1, 2, 1]}, "one value only"),
        ({"s": [0, 1, 0], "x": [1, 1, 1]}, "constant"),
        ({"s": [0, 1, 0], "x": [None, None, None]}, "every value is missing"),
        ({"s": [0, 1, 0, 1], "x": [1.0, None, 2.0, 1.0]}, "whole row"),
        ({"s": ["a", None, "b", "a"], "x": ["u", "u", "v", None]}, "whole row"),
        ({"s": ["a", None, "b", "a"], "x": [1.0, 2.0, None, 1.0]}, "missing"),
    ],
)
def test_tables_with_little_in_them_are_planned_all_the_same(columns, said):
    told = plan(pd.DataFrame(columns), "s", epsilon=1.0, time_limit=None)
    assert said in str(told)
    json.loads(told.to_json())


def test_a_table_of_identifiers_alone_proposes_nothing():
    table = pd.DataFrame({"s": [0, 1] * 20, "id": [f"p{k}" for k in range(40)]})
    told = plan(table, "s", epsilon=1.0)
    assert told.trials == ()
    assert told.table.empty
    assert "nothing" in str(told)


def test_two_hundred_columns_are_read_and_planned_within_the_time():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{k}": rng.integers(0, 3, 40) for k in range(200)})
    table["secret"] = np.arange(40) % 2
    told = plan(table, "secret", epsilon=1.0, time_limit=1.0)
    assert len(told.columns) == 201
    assert "e+95 cells" in str(told)


def test_names_and_values_are_inert_in_text_and_html():
    evil = "<script>alert(1)</script>\n\x1b[31m"
    table = pd.DataFrame({evil: [evil, "b"] * 20, f"{evil}2": [1, 2, 3, 4] * 10})
    told = plan(table, evil, epsilon=1.0, noise="laplace", time_limit=None)
    page = told._repr_html_()
    assert "<script>" not in page
    assert "\x1b" not in page + str(told) + told.why(0)
    assert "\x1b" not in " ".join(told.cliffs)


def test_a_plan_says_that_it_is_internal_and_what_no_certificate_covers(found):
    for text in (str(found), found._repr_html_(), found.to_json()):
        assert "do not release it" in text
        assert "no certificate covers what the choice itself tells" in text


def test_the_json_of_a_plan_has_its_table_and_words_for_what_no_number_is(found):
    told = json.loads(found.to_json())
    assert [each["setting"] for each in told["settings"]] == found.table["setting"].tolist()
    assert told["kind"] == "sklearn_puffer.plan/1"
    changes = [each["change"] for each in told["settings"]]
    assert "infinity" in changes  # Cauchy noise
    assert math.isinf(found.table["change"].max())
    assert found.named("clients").to_dict()["name"] == "clients"


def test_a_plan_is_a_value_that_can_be_saved(found):
    assert isinstance(found, Plan)
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()


def test_a_bug_in_a_fit_is_a_row_and_ends_no_plan(monkeypatch):
    def broken(self, *args, **kwargs):
        raise ZeroDivisionError("no luck\n")

    monkeypatch.setattr(PufferfishNoiser, "fit", broken)
    told = plan(small(40), "group", epsilon=1.0, public=["town"])
    assert set(told.table["verdict"]) == {"failed"}
    assert set(told.table["reason"]) == {"ZeroDivisionError: no luck\\n"}


def test_an_interrupt_is_none_of_the_plans_business(monkeypatch):
    def stopped(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(PufferfishNoiser, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        plan(small(40), "group", epsilon=1.0)


def test_the_plan_leaves_the_table_as_it_was():
    table = small(60).assign(since=pd.Timestamp("2020-01-01"))
    before = table.copy(deep=True)
    plan(table, "group", epsilon=1.0, dates="days", public=["since"], noise="laplace")
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"sensitive": None}, ValueError, "sensitive is missing"),
        ({"sensitive": "grup"}, ValueError, "did you mean 'group'"),
        ({"epsilon": 0.0}, ValueError, "epsilon must be positive"),
        ({"epsilon": []}, ValueError, "epsilon is empty"),
        ({"epsilon": "1"}, TypeError, "a number or a list of numbers"),
        ({"dates": "years"}, ValueError, "dates must be one of"),
        ({"max_rows": 1}, ValueError, "max_rows must be at least 2"),
        ({"max_rows": "all"}, ValueError, "max_rows must be one of"),
        ({"time_limit": -1.0}, ValueError, "time_limit must be positive"),
        ({"verbose": -1}, ValueError, "verbose must be at least 0"),
        ({"n_bin": 5}, TypeError, "did you mean 'n_bins'"),
        ({"random_state": 0}, TypeError, "plan has no setting 'random_state'"),
        ({"public": ["group"]}, ValueError, "both sensitive and public"),
    ],
)
def test_bad_arguments_are_refused_by_name_before_anything_is_fitted(
    given, error, said, monkeypatch
):
    monkeypatch.setattr(PufferfishNoiser, "fit", None)
    with pytest.raises(error, match=said):
        plan(small(40), **{"sensitive": "group", **given})


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        (np.zeros((4, 2)), TypeError, "must be a DataFrame"),
        (small(1), ValueError, "1 row"),
        (as_polars(small(4)).lazy(), TypeError, "is lazy"),
        (None, TypeError, "must be a DataFrame"),
    ],
)
def test_what_is_no_table_in_memory_is_refused_with_the_way_out(table, error, said):
    with pytest.raises(error, match=said):
        plan(table, "group")


@pytest.mark.parametrize("k", [-1, 10**6, "0", True])
def test_a_row_that_is_not_there_is_refused(found, k):
    with pytest.raises((IndexError, TypeError, ValueError), match="k"):
        found.noiser(k)


def test_warnings_of_fits_are_kept_and_not_printed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = plan(small(60), "group", epsilon=0.1, time_limit=None, noise="laplace")
    assert any(trial.warnings for trial in told.trials)


def test_progress_is_told_on_request(monkeypatch, capsys):
    from sklearn_puffer._base import progress

    monkeypatch.setattr(progress, "EVERY", 0.0)
    plan(small(40), "group", epsilon=1.0, public=["town"], noise="laplace", verbose=1)
    told = capsys.readouterr().err
    assert "settings: " in told
    assert "'a'" not in told


@pytest.mark.tables
@pytest.mark.slow
def test_the_plan_of_adult_names_its_cliff_and_what_to_look_at_first(table):
    adult = table("adult")
    told = plan(
        adult,
        "race",
        public=["hours-per-week", "native-country"],
        epsilon=1.0,
        time_limit=40.0,
    )
    assert any(cliff.startswith("'native-country' alone asks for") for cliff in told.cliffs)
    assert told.n_rows == told.n_tried == len(adult)
    ((k, why),) = told.recommended()
    assert told.table["setting"][k].startswith("optimal channel")
    assert "A channel takes for granted" in why
    laplace = told.table[told.table["setting"] == "Laplace noise, 5 bins"]
    assert told.table["change"][k] < 0.5 * laplace["change"].item()


def test_days_count_from_1970_in_every_century_and_the_day_is_that_of_utc():
    late = pd.Timestamp("1969-12-31 23:00", tz="America/New_York")
    frame = pd.DataFrame(
        {
            "old": pd.Series([np.datetime64("0900-03-01T12", "s")] * 2),
            "before": pd.Series([pd.Timestamp("1969-12-31 12:00"), pd.Timestamp("1970-01-01")]),
            "zoned": pd.Series([late, late]),
            "mixed": pd.Series([late.to_pydatetime(), late.date()], dtype=object),
            "month": pd.Series(pd.PeriodIndex(["1970-02", "1970-03"], freq="M")),
        }
    )
    days = recoded(frame, days=list(frame))
    assert days["old"].tolist() == [date(900, 3, 1).toordinal() - date(1970, 1, 1).toordinal()] * 2
    assert days["before"].tolist() == [-1, 0]
    assert days["zoned"].tolist() == [0, 0]
    assert days["mixed"].tolist() == [0, -1]
    assert days["month"].tolist() == [31, 59]


def test_days_are_no_identifiers_even_if_each_row_has_its_own():
    since = pd.date_range("2020-01-01", periods=60)
    told = plan(small(60).assign(since=since), "group", epsilon=1.0, dates="days", time_limit=0)
    assert told.columns.loc["since", ["use", "kind"]].tolist() == ["release", "days"]


def test_numbers_with_gaps_beside_secrets_with_gaps_are_left_out():
    table = small(60)
    table["group"] = table["group"].where(table.index % 9 > 0)
    table["visits"] = table["visits"].where(table.index % 7 > 0)
    told = plan(table, "group", epsilon=1.0, noise="laplace", time_limit=None)
    assert told.columns.loc["visits", "use"] == "leave out"
    assert "missing" in told.columns.loc["visits", "remark"]
    assert (told.table["verdict"] == "holds").any()


def test_a_channel_leaves_out_numbers_with_gaps_and_counts_them_as_constants():
    table = small(60)
    table["visits"] = table["visits"].where(table.index % 7 > 0)
    told = plan(table, "group", epsilon=1.0, noise="optimal", time_limit=None)
    channel = told.table["setting"] == "optimal channel, without 'visits'"
    assert channel.any()
    k = int(channel.idxmax())
    assert "leaves out 'visits', as if a constant" in told.why(k)
    noiser = told.noiser(k).fit(table)
    present = table["visits"].dropna()
    spread = present.std(ddof=0)
    constant = (present - present.sort_values().iloc[(len(present) - 1) // 2]).abs().mean() / spread
    expected = (constant + noiser.utility_.loc["town", "change_sd"]) / 2
    assert told.table["change"][k] == pytest.approx(expected, rel=1e-9)


def test_what_is_recommended_promises_what_the_caller_asks_of_all_settings():
    fixed = {"adversaries": "confidence", "noise": "laplace"}
    told = plan(small(80), "group", epsilon=1.0, public=["town"], time_limit=None, **fixed)
    ((k, _),) = told.recommended()
    assert told.table["promise"][k] == told.promise == "whole row, sampling error included"


def test_a_column_that_occurs_twice_is_refused_by_name():
    with pytest.raises(ValueError, match=r"column 'a' occurs more than once in table"):
        plan(pd.DataFrame(np.zeros((4, 2)), columns=["a", "a"]), "a")


def test_a_secret_that_is_missing_here_and_there_is_a_secret_against_which_the_rest_is_protected():
    table = small(90)
    table["group"] = table["group"].where(table.index % 5 > 0)
    told = plan(table, "group", public=["town"], epsilon=1.0, noise="optimal", time_limit=None)
    pairs = told.table["promise"] == "whole row, fewer pairs"
    fitted = told.noiser(int(pairs.idxmax())).fit(table)
    assert {pair[1] for pair in fitted.secret_pairs_["group"]} == {"b", "c", "missing"}
    assert not told.table["promise"].str.contains("the rest").any()


def test_a_column_without_which_the_others_need_as_much_noise_is_no_cliff():
    rng = np.random.default_rng(1)
    secret = np.arange(400) % 2
    fair = rng.integers(0, 2, 400)
    table = pd.DataFrame({"secret": secret, "one": fair, "other": fair ^ secret})
    table["third"] = np.where(rng.random(400) < 0.45, secret, rng.integers(0, 2, 400))
    told = plan(table, "secret", epsilon=1.0, noise="laplace", time_limit=None)
    assert told.columns.loc["third", "share"] > 0.5
    assert told.table["setting"].str.contains("without 'third'").any()
    assert not any("alone asks" in cliff for cliff in told.cliffs)


def many_numbers(n_rows=1500):
    """Return rows of four numbers with many values, two of which tell of the secret."""
    rng = np.random.default_rng(3)
    secret = rng.random(n_rows) < 0.5
    shifts = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0}
    table = {name: rng.normal(size=n_rows) + shift * secret for name, shift in shifts.items()}
    return pd.DataFrame({"secret": np.where(secret, "yes", "no"), **table})


def test_channels_are_tried_in_few_bins_and_refused_where_cells_are_not_filled():
    found = plan(many_numbers(), "secret", epsilon=1.0, time_limit=0)
    assert "optimal channel, 3 bins" in list(found.table["setting"])
    told = plan(many_numbers(), "secret", epsilon=1.0, noise="optimal", time_limit=None)
    k = list(told.table["setting"]).index("optimal channel, 5 bins")
    assert told.table["verdict"][k] == "refused"
    assert 'noise="swap"' in told.why(k)


def test_channels_are_not_tried_in_fewer_bins_than_the_caller_fixes():
    told = plan(many_numbers(), "secret", epsilon=1.0, n_bins=5, time_limit=0).table
    assert not told["setting"].str.contains("3 bins").any()


def test_what_the_caller_fixes_is_not_tried_twice_under_another_name():
    fixed = {"adversaries": "confidence", "dependence": "independent", "strategy": "relaxed"}
    told = plan(small(), "group", epsilon=1.0, time_limit=0, **fixed).table
    for words in ("confidence set", "each column apart", "strategy"):
        assert not told["setting"].str.contains(words).any()
    assert told["setting"].is_unique
