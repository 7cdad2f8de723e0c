"""A plan believes what was measured on rows that nobody fitted, and says the same twice."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import PufferfishNoiser, plan
from sklearn_puffer._review import measured, planning
from sklearn_puffer._review.attack import seen
from sklearn_puffer._review.exact_tests import Budget
from sklearn_puffer._review.measured import Attacked, area
from sklearn_puffer._review.plan import ColumnFacts, Row, candidates_of, ranked
from sklearn_puffer._tables import recoded

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

BINNED = {"noise": "laplace", "n_bins": 5}
QUICK = {
    "linear": LogisticRegression(max_iter=200),
    "neighbours": KNeighborsClassifier(7),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
}


def people(n_rows=900, seed=0, told=1.5):
    """Return rows in which a number and a word tell of a group, and of who is well."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n_rows, p=[0.6, 0.4])
    score = np.round(rng.normal(size=n_rows) + told * (group == "a"), 2)
    return pd.DataFrame(
        {
            "group": group,
            "score": score,
            "town": rng.choice(["x", "y", "z"], n_rows),
            "visits": rng.integers(0, 4, n_rows),
            "well": np.where(score + rng.normal(size=n_rows) > 0.5, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def found():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plan(people(), "group", task="well", lookup=["town"])


@pytest.mark.slow
def test_the_same_table_and_seed_give_the_same_figures_twice(found):
    again = plan(people(), "group", task="well", lookup=["town"])
    assert again == found
    own, other = (each.table.drop(columns="seconds") for each in (found, again))
    pd.testing.assert_frame_equal(own, other)


@pytest.mark.slow
def test_no_row_is_fitted_and_measured(found):
    own = found.measurer
    assert found.n_fitted + found.n_held == found.n_rows == 900
    assert found.n_held == 360
    both = pd.concat([own.fitted[["score", "visits"]], own.held[["score", "visits"]]])
    assert sorted(map(tuple, both.values)) == sorted(
        map(tuple, people()[["score", "visits"]].values)
    )


def test_noise_is_tried_in_bins_and_with_what_is_looked_up(found):
    labels = found.table["setting"].tolist()
    assert "Laplace noise, 5 bins" in labels
    assert "Laplace noise, 5 bins, lookup= known" in labels


def test_the_rows_as_they_are_and_constants_stand_above_without_a_number(found):
    table = found.table
    assert table["setting"].tolist()[:2] == ["the rows as they are", "nothing but constants"]
    assert table.index.tolist() == ["", "", *range(len(table) - 2)]
    raw, bare = table.iloc[0], table.iloc[1]
    assert (raw["change"], raw["equal"], raw["rows_equal"]) == (0.0, 1.0, 1.0)
    assert (bare["attack"], bare["task"]) == (0.5, 0.5)


@pytest.mark.slow
def test_the_noiser_of_a_row_is_the_one_that_was_measured(found):
    for k, row in enumerate(found.trials):
        if row.noiser is None:
            continue
        noiser = found.noiser(k)
        assert noiser is row.noiser
        assert noiser.random_state is None
        assert noiser.certificate_.n_rows == found.n_fitted
        assert noiser.certificate_.loss == row.loss <= 1.0
        released = found.measurer.released(noiser)
        change, equal = measured.changes(found.measurer.held, released, found.measurer.columns)
        assert change == row.change
        assert equal.all(axis=1).mean() == row.rows_equal


def test_a_noiser_releases_rows_to_come_and_can_be_fitted_to_all(found):
    assert len(found.noiser(0).transform(people(300, seed=5))) == 300
    again = found.noiser(0, refit=people())
    assert again.certificate_.n_rows == 900
    assert again.get_params() == found.noiser(0).get_params()
    assert found.noiser(0).certificate_.n_rows == 540


def test_the_task_is_learnt_on_released_rows_and_tested_on_true_ones(found):
    own = found.measurer
    row = found.trials[0]
    released, held = own.released(row.noiser), own.held
    scores = []
    for test, train in (own.halves, own.halves[::-1]):
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=15, early_stopping=False, categorical_features="from_dtype"
        )
        coded = [
            pd.DataFrame(
                {
                    "score": rows["score"],
                    "town": rows["town"].astype(pd.CategoricalDtype(["x", "y", "z"])),
                    "visits": rows["visits"],
                }
            )
            for rows in (released, held)
        ]
        model.fit(coded[0].iloc[train], held["well"].iloc[train])
        chances = model.predict_proba(coded[1].iloc[test])[:, 1]
        scores.append(roc_auc_score(held["well"].iloc[test] == "yes", chances))
    assert row.task == pytest.approx(np.mean(scores), abs=0.02)


@pytest.mark.slow
def test_the_best_of_many_attackers_on_nothing_is_as_good_as_a_guess():
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = pd.DataFrame({"a": rng.normal(size=240), "b": rng.integers(0, 5, 240)})
        codes = rng.integers(0, 3, 240)
        halves = measured.halves_of(240, seed)
        own = measured.Secrets("s", ["x", "y", "z"], codes)
        own = replace(own, pairs=measured.pairs_to_attack(own, halves))
        given = seen(rows, ["a", "b"])
        found.append(measured.attacked(given, [own], halves, QUICK, copies=True))
    figures = np.array([each.auc for each in found])
    assert abs(figures.mean() - 0.5) < 3.5 * figures.std() / math.sqrt(len(found))
    assert sum(each.low <= 0.5 <= each.high for each in found) >= 34
    assert sum(each.least > 0.5 for each in found) <= 6


def test_the_area_and_its_variance_are_those_of_all_pairs_and_of_drawing_anew():
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.7, 1.0, 150).round(1), rng.normal(0.0, 1.0, 90).round(1)
    auc, variance = measured.area(x, y)
    pairs = (x[:, None] > y).mean() + 0.5 * (x[:, None] == y).mean()
    assert auc == pytest.approx(pairs, abs=1e-12)
    drawn = [
        measured.area(rng.normal(0.7, 1.0, 150).round(1), rng.normal(0.0, 1.0, 90).round(1))[0]
        for _ in range(2000)
    ]
    assert variance == pytest.approx(np.var(drawn), rel=0.25)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (1.0, 0.0), (1.0, 0.1), (2.0, 0.3)])
def test_the_area_that_is_allowed_is_reached_by_randomised_response_and_beaten_by_no_distribution(
    epsilon, delta
):
    allowed = Budget(epsilon, delta).auc()
    kept = (1.0 - delta) / (1.0 + math.exp(epsilon))
    own = np.array([delta, 1.0 - delta - kept, kept, 0.0])  # what only one secret shows, at the end
    reached = area_of(own, own[::-1])
    assert reached == pytest.approx(allowed, abs=1e-12)
    if not delta:
        assert allowed == pytest.approx(math.exp(epsilon) / (1.0 + math.exp(epsilon)), abs=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(300):
        q = rng.dirichlet(np.full(6, 0.5))
        p = q * np.exp(rng.choice([-epsilon, epsilon], 6) * rng.choice([1.0, rng.random()]))
        p /= p.sum()
        first, second = (
            np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p))
        )
        if max(first, second) <= delta + 1e-15:
            assert area_of(p, q) <= allowed + 1e-12


def area_of(p, q):
    """Return the largest area under the ROC curve of two distributions on a few outcomes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(q > 0, p / q, np.inf))
    p, q = p[order], q[order]
    below = np.concatenate([[0.0], np.cumsum(q)[:-1]])
    return float(p @ (below + q / 2.0))


def row(label, change, task=math.nan, least=0.5, holds=True, allowed=0.73):
    own = Attacked("s", "a", "b", "boosted", least + 0.05, least, least + 0.1, least, least + 0.2)
    told = Row(label, change=change, task=task, attack=own, allowed=allowed)
    return told.judged(holds=holds)


def test_what_is_caught_is_struck_out_with_the_reason_and_comes_after_what_is_kept():
    caught = row("caught", 0.01, least=0.74)
    assert caught.verdict == "struck out"
    assert "AUC 0.790, for certain more than 0.740" in caught.reason
    bare = row("constants", 1.0)
    rows = [caught, row("broken", 0.0, holds=False), row("large", 2.0), row("kept", 0.5)]
    told = [each.label for each in ranked(rows, bare, 0.01)]
    assert told == ["kept", "large", "caught", "broken"]


def test_scores_that_hardly_differ_are_alike_and_change_decides_between_them():
    rows = [row("c", 0.1, 0.80), row("a", 0.3, 0.895), row("b", 0.2, 0.89), row("d", 0.05, 0.7)]
    told = [each.label for each in ranked(rows, row("", 1.0), 0.02)]
    assert told == ["b", "a", "c", "d"]


def test_the_first_sentence_says_to_release_where_the_rows_tell_too_much(found):
    assert str(found).splitlines()[1].startswith("Release with row 0, ")
    assert found.raw.attack.least > found.raw.allowed
    assert found.recommended()[0][0] == 0


@pytest.mark.slow
def test_the_first_sentence_says_that_nothing_is_needed_where_the_rows_tell_less():
    told = plan(people(told=0.0), "group", public=["score"], **BINNED)
    assert str(told).splitlines()[1].startswith("Nothing is needed: the rows as they are tell at")


@pytest.mark.slow
def test_where_nothing_is_kept_ways_out_are_measured(found):
    caught = tuple(replace(each, verdict="struck out", reason="x") for each in found.trials)
    told = replace(found, trials=caught, out=("give up column 'score' (measured)",))
    said = told.advice()
    assert said.startswith("No setting keeps both")
    assert "give up column 'score'" in said
    assert told.proposed is None
    ways = planning._ways_out(found.measurer, found.trials, found.bare)
    assert any(way.startswith("give up column 'score' (") for way in ways)
    assert any(way.startswith("take epsilon 2 (") for way in ways)


@pytest.mark.slow
def test_the_curve_of_noise_is_that_of_fits_at_each_budget():
    told = plan(people(), "group", public=["visits", "town"], noise="laplace")
    curve = told.curve(0, [0.5, 2.0])
    for epsilon, loss in zip(curve["epsilon"], curve["loss"], strict=True):
        own = PufferfishNoiser(epsilon, **told.trials[0].candidate.params)
        assert own.fit(told.measurer.fitted).certificate_.loss == loss


@pytest.mark.slow
def test_columns_that_are_weights_or_say_what_others_say_are_named():
    table = people(600)
    table["sample_weight"] = np.random.default_rng(0).integers(1, 99, 600)
    table["place"] = table["town"].map({"x": 3, "y": 1, "z": 2})
    told = " ".join(plan(table, "group", **BINNED).notes)
    assert "'sample_weight' looks like a weight" in told
    assert "'town' says what 'place' says" in told
    assert "'visits' says" not in told


def test_unique_rows_and_the_smallest_group_are_counted_before_and_after(found):
    own = found.measurer
    sizes = own.held[list(own.columns)].value_counts()
    assert found.table["unique"].iloc[0] == (sizes == 1).sum() / len(own.held)
    assert found.table["smallest"].iloc[0] == sizes.min()


@pytest.mark.slow
def test_whole_groups_are_held_out():
    table = people(900).assign(person=np.repeat(np.arange(300), 3))
    how = {"public": ["score"], **BINNED}
    told = plan(table, "group", groups="person", **how)
    own = told.measurer
    held = set(own.held["person"])
    assert held.isdisjoint(table.loc[own.fitted.index, "person"])
    assert len(held) == 120
    learnt, judged = (set(own.held["person"].iloc[half]) for half in own.halves)
    assert learnt.isdisjoint(judged)
    assert any("max_group= makes guarantees about all rows" in note for note in told.notes)
    assert told.noiser(0).groups is None


@pytest.mark.slow
def test_whole_groups_are_guaranteed_and_attacked_where_they_are_asked_for():
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(600), 3)
    ill = rng.integers(0, 2, 600)[person]
    table = pd.DataFrame({"person": person, "ill": ill})
    table["score"] = (rng.normal(0, 1, len(person)) + 0.8 * ill).round(1)
    singly = plan(table, "ill", groups="person", **BINNED)
    told = plan(table, "ill", groups="person", max_group=3, **BINNED, max_rows=1000)
    noiser = told.noiser(0)
    assert (noiser.groups, noiser.max_group) == ("person", 3)
    assert "that all rows of a group of person share" in noiser.certificate_.promise()
    assert told.n_fitted == 999
    assert told.raw.attack.auc > singly.raw.attack.auc + 0.05  # what three rows tell, and not one
    assert told.trials[0].verdict == "holds"
    assert told.curve(0, [0.5])["loss"][0] <= 0.5
    assert "score" in told.measurer.columns
    assert "person" not in told.measurer.columns


def test_rows_of_one_group_count_as_one_in_the_error_of_an_attack():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.5, 1, 80), rng.normal(0, 1, 60)
    alone = area(x, y)
    twice = area(np.repeat(x, 2), np.repeat(y, 2), np.repeat(np.arange(140), 2))
    assert twice[0] == pytest.approx(alone[0])
    assert twice[1] == pytest.approx(alone[1], rel=0.03)
    assert area(np.repeat(x, 2), np.repeat(y, 2))[1] < 0.6 * alone[1]


@pytest.mark.slow
def test_a_table_that_is_held_out_and_follows_another_distribution_is_named():
    other = people(600, seed=3).assign(score=lambda t: t["score"] + 2.0)
    told = plan(people(600), "group", public=["score", "town"], holdout=other, **BINNED)
    assert any("another distribution" in note and "'score'" in note for note in told.notes)
    alike = people(600, seed=4)
    told = plan(people(600), "group", public=["score", "town"], holdout=alike, **BINNED)
    assert not any("another distribution" in note for note in told.notes)
    assert (told.n_fitted, told.n_held) == (600, 600)


@pytest.mark.slow
def test_rare_secrets_are_named_and_not_attacked():
    table = people(900)
    table.loc[:30, "group"] = "rare"
    told = plan(table, "group", public=["score"], **BINNED)
    assert any("'rare'" in note and "too few rows" in note for note in told.notes)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"time_limit": 60}, TypeError, "time_limit is gone: .* max_rows= says"),
        ({"holdout": 1.5}, ValueError, "holdout=1.5 is no share of the rows"),
        ({"holdout": 0.02}, ValueError, "too few to attack: about 29 of each"),
        ({"task": "group"}, ValueError, "task='group' is also sensitive"),
        ({"task": "town", "public": ["town"]}, ValueError, "task='town' is also released"),
        ({"lookup": "nobody"}, ValueError, "nobody"),
        ({"lookup": "town", "public": ["score"]}, ValueError, "which is not released"),
        ({"epsilon": [0.5, 1.0]}, TypeError, "epsilon"),
        ({"groups": [1, 2]}, ValueError, "groups has shape"),
        ({"groups": [1] * 300, "max_group": 2}, ValueError, "groups= must name"),
        ({"groups": [1] * 300, "holdout": people(100)}, ValueError, "name a column of both"),
        ({"holdout": people(100)[["group"]]}, ValueError, "holdout lacks column"),
        ({"nois": "laplace"}, TypeError, "plan has no setting 'nois'"),
        ({"public": ["well"], "random_state": -1}, ValueError, "random_state"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_way_out(how, error, message):
    with pytest.raises(error, match=message):
        plan(people(300), "group", **how)


def test_what_the_caller_fixes_is_not_varied():
    columns = [ColumnFacts("x", "release", "whole number", 4)]
    told = candidates_of(1.0, {"n_bins": 3}, columns, [])
    assert {each.params["n_bins"] for each in told} == {3}
    assert [each.label for each in candidates_of(1.0, {"noise": "laplace"}, columns, [])] == [
        "laplace"
    ]


def test_a_refused_setting_is_told_in_its_row(found):
    how = {"adversaries": "confidence", "known": "score"}  # which do not go together
    told = plan(people(300), "group", public=["score"], **BINNED, **how)
    assert {row.verdict for row in told.trials} == {"refused"}
    with pytest.raises(ValueError, match="row 0 was refused"):
        told.noiser(0)
    with pytest.raises(IndexError, match="is no row of this plan"):
        found.noiser(99)


@pytest.mark.slow
def test_a_plan_that_is_interrupted_keeps_what_is_done(monkeypatch):
    done = []
    first = planning.Measurer.tried

    def tried(self, candidate):
        if done:
            raise KeyboardInterrupt
        done.append(candidate)
        return first(self, candidate)

    monkeypatch.setattr(planning.Measurer, "tried", tried)
    told = plan(people(300), "group", public=["score"])
    assert [row.verdict for row in told.trials].count("not tried") == len(told.trials) - 1
    assert told.trials[0].label == "Laplace noise, 5 bins"


@pytest.mark.slow
def test_dates_become_days_in_the_pipeline_of_a_row():
    table = people(300)[["group", "score"]]
    table["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(300) % 9, "D")
    told = plan(table, "group", dates="days", **BINNED)
    released = told.noiser(0).transform(table)
    assert set(released["since"]) <= set(range(18262, 18271))
    assert plan(table, "group", **BINNED).columns.loc["since", "use"] == "leave out"


def test_a_plan_is_json_without_rows(found):
    told = json.loads(found.to_json())
    assert told["advice"] == found.advice()
    assert [each["row"] for each in told["settings"]] == list(range(len(found.trials)))
    assert "measurer" not in told


@pytest.mark.slow
def test_missing_values_are_planned_with():
    table = people(400)
    table.loc[::9, "town"] = None
    table.loc[::7, "group"] = None
    told = plan(table, "group", public=["town", "visits"], **BINNED)
    assert told.trials[0].verdict == "holds"


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
    assert own["since"].to_list() == recoded(frame, days=["since"])["since"].tolist()
    assert own["k"].to_list() == [1, 1, 1, 1]
