"""A plan believes what was measured on rows that nobody fitted, and says for whom it is proven."""

from __future__ import annotations

import json
import math
import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishSwap,
    PufferfishWarning,
    plan,
)
from sklearn_puffer._review import candidates, measured
from sklearn_puffer._review.candidates import _fact, _notes
from sklearn_puffer._review.exact_tests import Budget, RowSplit, Secrets
from sklearn_puffer._review.measured import Task
from sklearn_puffer._review.plan import Candidate, ranked
from sklearn_puffer._review.readers import seen
from sklearn_puffer._tables import frame_table, in_whole_days
from sklearn_puffer.datasets import make_people

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("quick_attackers"),
]

QUICK = {
    "linear": LogisticRegression(max_iter=200),
    "neighbours": KNeighborsClassifier(7),
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
}
FEW = {"n_prototypes": 8, "n_bins": 4}


def people(n_rows=1200, seed=0, told=1.5):
    """Return rows in which a number and a word tell of a group, and of who is well."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n_rows, p=[0.6, 0.4])
    score = np.round(rng.normal(size=n_rows) + told * (group == "a"), 2)
    return pd.DataFrame(
        {
            "client": rng.permutation(n_rows) + 7000,
            "group": group,
            "score": score,
            "town": rng.choice(["x", "y", "z"], n_rows),
            "visits": rng.integers(0, 4, n_rows),
            "well": np.where(score + rng.normal(size=n_rows) > 0.5, "yes", "no"),
        }
    )


def labels_of(found):
    return found.table["setting"].tolist()[2:]


@pytest.fixture(scope="module")
def found(quick_attackers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plan(people(), "group", task="well", ids="client", **FEW)


@pytest.fixture(scope="module")
def small(quick_attackers):
    return plan(load_iris(as_frame=True).frame, "target", epsilon=2.0)


# ------------------------------------------------------------------------------ what is measured


@pytest.mark.slow
def test_the_same_table_and_seed_give_the_same_figures_twice(found):
    again = plan(people(), "group", task="well", ids="client", **FEW)
    assert again == found
    pd.testing.assert_frame_equal(found.table, again.table)


@pytest.mark.parametrize("number", [True, False])
def test_rows_whose_task_is_missing_are_left_out_of_its_score(number):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=300)})
    y = 2.0 * rows["x"].to_numpy() + rng.normal(size=300)
    y = y if number else np.where(y > 0, "yes", "no").astype(object)
    gone = np.arange(300) % 5 == 0
    target = y.copy()
    target[gone] = np.nan if number else None
    model = LinearRegression() if number else GaussianNB()
    task = measured.Task("y", Pipeline([("model", model)]), target)
    halves = np.arange(150), np.arange(150, 300)
    score = task.score(rows, rows, RowSplit(halves[0], halves[0][:0], halves[1]))
    scores = []
    for train, test in (halves, halves[::-1]):
        train, test = (part[~gone[part]] for part in (train, test))
        own = clone(model).fit(rows.iloc[train], y[train])
        if number:
            scores.append(own.score(rows.iloc[test], y[test]))
        else:
            scores.append(roc_auc_score(y[test], own.predict_proba(rows.iloc[test])[:, 1]))
    assert score == pytest.approx(np.mean(scores))


@pytest.mark.slow
def test_a_plan_takes_a_task_that_has_missing_values():
    table = people().assign(well=lambda rows: rows["well"].where(rows.index % 5 > 0, None))
    found = plan(table, "group", public=["score", "visits"], task="well", **FEW)
    assert found.raw.task > 0.7 > found.bare.task


@pytest.mark.slow
def test_no_row_of_a_large_table_is_fitted_and_measured(found):
    parts = found.measurer
    assert (found.n_rows, found.n_fitted, found.n_held) == (1200, 720, 480)
    assert sorted([*parts.fitted["client"], *parts.held["client"]]) == sorted(people()["client"])


def test_the_rows_as_they_are_and_constants_stand_above_without_a_number(found):
    table = found.table
    assert table["setting"].tolist()[:2] == ["the rows as they are", "nothing but constants"]
    assert table.index.tolist() == ["", "", *range(len(table) - 2)]
    raw, bare = table.iloc[0], table.iloc[1]
    assert (raw["change"], raw["rows_equal"]) == (0.0, 1.0)
    assert (bare["attack"], bare["task"]) == (0.5, 0.5)


def test_the_estimator_of_a_row_is_the_one_that_was_measured(found):
    own = found.measurer
    for k, row in enumerate(found.trials):
        estimator = found.estimator(k)
        assert estimator is row.estimator is found.noiser(k)
        assert estimator.random_state is None
        assert estimator.certificate_.n_rows == found.n_fitted
        assert estimator.certificate_.loss == row.loss <= 1.0
        released = own.released(row)
        change, equal = measured.changes(own.held, released, own.roles["public"])
        assert change == row.change
        assert equal.all(axis=1).mean() == row.rows_equal


def test_an_estimator_releases_new_rows_and_can_be_fitted_to_all(found):
    for k, row in enumerate(found.trials):
        again = found.estimator(k, refit=people())
        assert again.certificate_.n_rows == 1200
        assert again.get_params() == row.estimator.get_params()
        assert row.estimator.certificate_.n_rows == 720
        assert len(again.transform(people(300, seed=5))) == 300


def test_a_fit_to_other_rows_warns_as_any_fit_does(found):
    ordered = people().sort_values("group", ignore_index=True)
    with pytest.warns(PufferfishWarning, match="order") as told:
        found.estimator(labels_of(found).index("typical rows"), refit=ordered)
    assert {warning.filename for warning in told} == {__file__}  # and not a line of the package


@pytest.mark.slow
def test_the_task_is_learnt_on_released_rows_and_tested_on_true_ones(found):
    own, row = found.measurer, found.trials[0]
    released, held = own.released(row), own.held
    scores = []
    parts = own.split.shown, own.split.test
    for test, train in (parts, parts[::-1]):
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
def test_a_small_table_is_measured_whole_by_fits_that_have_not_seen_the_rows(small):
    own, table = small.measurer, load_iris(as_frame=True).frame
    assert small.n_held == small.n_fitted == len(table)
    assert sorted(np.concatenate(own.folds)) == list(range(150))
    row = next(row for row in small.trials if row.setting == "typical rows")
    assert row.estimator.certificate_.n_rows == 150
    released = own.released(row)
    for fold in own.folds:
        others = table.drop(index=fold)
        fitted = PufferfishMicroaggregator(2.0, sensitive="target").fit(others)
        possible = {tuple(each) for each in fitted.prototypes_.to_numpy()}
        assert {tuple(each) for each in released.iloc[fold].to_numpy()} <= possible
    widest = max(row.high - row.low for row in (small.raw, *small.trials))
    assert widest > 0.02
    told = f"150 rows are measured, which makes 95 % intervals of attacks up to {widest:.2f} wide"
    assert any(told in note for note in small.notes)
    assert len(own.split.rounds) == 6  # the tested rows, and folds of the others
    assert small.raw.high - small.raw.low < 0.25


@pytest.mark.slow
def test_the_swap_of_a_small_table_is_measured_on_the_whole_table_that_it_exchanges():
    told = plan(people(300), "group", public=["score", "town"], ids="client", **FEW)
    assert len(told.measurer.folds) == 5
    row = next(row for row in told.trials if row.kind is PufferfishSwap)
    drawn = clone(row.estimator).set_params(random_state=0).fit(people(300))
    again = drawn.transform(people(300))
    pd.testing.assert_frame_equal(told.measurer.released(row), again)


@pytest.mark.slow
def test_the_change_of_a_swap_of_a_few_people_is_a_mean_over_draws():
    table = people(60)
    told = plan(table, "group", public=["score", "town"], ids="client", **FEW)
    swap = next(row for row in told.trials if row.kind is PufferfishSwap)
    own = told.measurer
    draws = [own.released(swap, draw) for draw in range(measured.DRAWS)]
    moved = [measured.changes(table, each, ["score", "town"]) for each in draws]
    assert swap.change == pytest.approx(np.mean([change for change, _ in moved]))
    assert swap.rows_equal == pytest.approx(np.mean([same.all(1).mean() for _, same in moved]))
    assert len({change for change, _ in moved}) > 1
    exact = swap.estimator.certificate_.facts.stay
    assert swap.rows_equal == pytest.approx(exact, abs=0.1)


@pytest.mark.slow
def test_a_table_of_a_hundred_rows_gets_a_plan():
    table = load_iris(as_frame=True).frame.sample(120, random_state=0, ignore_index=True)
    told = plan(table, "target", public=["sepal width (cm)"], n_prototypes=3)
    assert math.isfinite(told.trials[0].change)
    assert told.estimator(0).certificate_.holds


@pytest.mark.slow
def test_where_rows_are_too_few_to_attack_that_is_said():
    told = plan(people(40), "group", public=["town"], n_bins=2)
    assert math.isnan(told.table["attack"].iloc[0])
    assert any("too few to judge an attack" in note for note in told.notes)


@pytest.mark.slow
def test_wine_and_breast_cancer_get_a_plan_that_never_recommends_what_changes_as_constants_do():
    few = load_breast_cancer(as_frame=True).frame.iloc[::2, 20:]
    for table in (load_wine(as_frame=True).frame, few):
        told = plan(table, "target", n_prototypes=6)
        said = told.advice()
        if told.proposed is None:
            assert said.startswith("No setting keeps both the guarantee and the rows")
        else:
            assert told.trials[0].change < told.bare.change
            assert ("nearly what constants change" in said) == (
                told.trials[0].change > 0.9 * told.bare.change
            )


def test_where_constants_change_about_as_little_a_plan_says_what_may_keep_more(found):
    row = replace(found.trials[0], change=0.95 * found.bare.change)
    for rows in ((row,), (replace(row, change=9.0),)):
        said = replace(found, trials=rows).advice()
        assert "was not measured: plan for fewer, or try other budgets." in said
    assert "No setting keeps both" in said
    assert "other budgets" not in found.advice()


def test_a_swap_of_numbered_rows_is_named_where_constants_change_about_as_little(found):
    rows = [row for row in found.trials if row.setting != "swap"]
    nearly = replace(rows[0], change=0.95 * found.bare.change)
    for first in (nearly, replace(nearly, change=9.0)):
        said = replace(found, trials=(first, *rows[1:])).advice()
        assert 'table.insert(0, "id", range(len(table))), ids="id"' in said
        assert "hides whose each is, not what it says" in said
    swap = next(row for row in found.trials if row.setting == "swap")
    assert "A swap was not" not in replace(found, trials=(nearly, swap)).advice()
    much = replace(rows[0], change=0.5 * found.bare.change)
    assert "A swap was not" not in replace(found, trials=(much,)).advice()


def test_the_first_sentence_says_that_ids_which_were_named_are_not_released(found):
    swap, rows = (
        [row for row in found.trials if (row.setting == "swap") is is_swap]
        for is_swap in (True, False)
    )
    said = replace(found, trials=(*rows, *swap)).advice().partition(". ")[0]
    kept = f" (row {len(rows)}, swap, releases the whole table with them), which is proven"
    assert f"Release with row 0, {rows[0].setting}, without 'client'{kept}" in said
    refused = replace(swap[0], verdict="refused")
    said = replace(found, trials=(*rows, refused)).advice()
    assert f"row 0, {rows[0].setting}, without 'client', which is proven" in said
    assert "without 'client'" not in replace(found, trials=(*swap, *rows)).advice()


def test_a_page_without_notes_has_no_heading_for_them(found):
    assert "\nWhat else to know:\n  - " in str(found)
    assert "What else to know" not in str(replace(found, notes=()))


def test_the_advice_ends_in_what_only_an_audit_tests(found):
    assert found.advice().endswith("the guarantee was not tested: an audit does that.")


@pytest.mark.slow
def test_where_nothing_keeps_much_a_plan_names_the_column_that_tells_most_by_itself(found):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 7)), columns=list("abcdefg")).round(2)
    table["ill"] = rng.random(150) < 0.4
    table["d"] += 4.0 * table["ill"]
    told = plan(table, "ill", n_prototypes=3)
    assert not told.trials[0].change < 0.9 * told.bare.change
    assert "by itself 'd' tells most" in told.notes[-1]
    assert "tells most" not in str(found.notes)


# ------------------------------------------------------------------------------- what is tried


def test_a_swap_is_tried_where_something_says_whose_row_is_whose(found):
    assert set(labels_of(found)) == {
        "typical rows",
        "typical rows, grouped for well",
        "swap",
        "Laplace noise, n_bins=4",
    }
    kinds = {row.setting: type(row.estimator) for row in found.trials}
    assert kinds["swap"] is PufferfishSwap
    assert kinds["Laplace noise, n_bins=4"] is PufferfishNoiser
    assert found.columns.loc["client", "use"] == "stays with people"


@pytest.mark.slow
def test_without_ids_no_swap_is_tried_and_an_index_does_as_well():
    table = people(400).drop(columns=["client", "well"])
    told = plan(table, "group", **FEW)
    assert "swap" not in labels_of(told)
    assert "A swap was not tried" in str(told)
    named = table.set_index(pd.Index([f"p{k}" for k in range(400)]))
    assert "swap" in labels_of(plan(named, "group", **FEW))


@pytest.mark.slow
def test_known_columns_stay_with_people_and_no_attack_on_them_strikes_out():
    table = people(600).assign(town=lambda t: np.where(t["group"] == "a", "x", t["town"]))
    told = plan(table.drop(columns=["client", "well"]), "group", known="town", **FEW)
    swap = next(row for row in told.trials if row.setting == "swap")
    assert swap.verdict == "holds"
    assert swap.least > 1 / (1 + math.exp(-1))  # by what the town itself tells
    assert list(swap.estimator.known) == ["town"]
    noise = next(row for row in told.trials if row.kind is PufferfishNoiser)
    assert noise.params["known"] == ("town",)
    assert "by itself that already tells" in noise.reason
    assert "town" not in told.measurer.roles["public"]
    assert any("readers know 'town' anyway" in note for note in told.notes)


@pytest.mark.slow
def test_a_label_that_readers_know_is_a_task_that_is_not_told_by_itself(found):
    assert any("'well' is not released" in n and "in known=, too" in n for n in found.notes)
    table = people(400).drop(columns=["client"])
    told = plan(table, "group", task="well", known="well", n_bins=3, n_prototypes=4)
    assert not any("is not released" in note for note in told.notes)
    assert told.columns.loc["well", "use"] == "stays with people"
    assert 0.6 < told.raw.task < 0.99
    assert told.bare.task == 0.5
    swap = next(row for row in told.trials if row.setting == "swap")
    assert swap.estimator.known == ["well"]
    assert swap.verdict == "holds"


def test_each_guarantee_says_for_whom_it_holds(found):
    said = found.table.set_index("setting")["promise"]
    assert "list of all rows with their secrets" in said["swap"]
    assert "one released row" in said["typical rows"]
    page = str(found)
    assert "For whom each guarantee holds" in page
    assert f"proven for a reader {found.trials[0].promise}" in found.advice()


def test_noise_is_tried_on_few_columns_alone(found):
    wide = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (300, 9))).add_prefix("c")
    facts = [each for each in found.facts if each.use == "release"]
    few = candidates.candidates_of({"epsilon": 1.0, "public": ["score"]}, facts)
    assert [each.setting for each in few] == ["typical rows", "Laplace noise, 5 bins"]
    many = [replace(facts[0], name=name) for name in wide]
    told = candidates.candidates_of({"epsilon": 1.0, "public": list(wide)}, many)
    assert [each.setting for each in told] == ["typical rows"]


def test_settings_go_to_the_estimators_that_have_them_and_are_not_varied():
    asked = {"epsilon": 1.0, "public": ["x"], "n_prototypes": 5, "delta": 1e-5, "n_bins": 3}
    told = candidates.candidates_of(asked, [], owned=True)
    params = {each.setting: each.params for each in told}
    assert params["typical rows"]["n_prototypes"] == 5
    assert "delta" not in params["typical rows"]
    assert params["swap"]["delta"] == 1e-5
    assert params["Laplace noise, n_bins=3"]["n_bins"] == 3
    allowed = {each.setting: each.allowed for each in told}
    assert allowed["typical rows"] == Budget(1.0).auc() < allowed["swap"] == Budget(1.0, 1e-5).auc()


@pytest.mark.parametrize(
    "more",
    [
        {"metric": "steps"},
        {"secret_groups": {"ill": ["a", "b"]}},
        {"known": ["x"]},
        {"secret_pairs": [("a", "b")]},
    ],
)
def test_no_setting_is_struck_out_by_pairs_of_which_its_guarantee_leaves_more(more):
    made = Candidate("swap", "", PufferfishSwap, {"epsilon": 1.0}, attack=0.99, least=0.97)
    assert made.judged(holds=True).verdict == "struck out"
    assert replace(made, params={"epsilon": 1.0, **more}).judged(holds=True).verdict == "holds"


@pytest.mark.parametrize("named", [False, True])
def test_durations_are_dates_which_are_released_where_they_are_named(named):
    spans = frame_table(pd.DataFrame({"stay": pd.to_timedelta([2.5, None, -1.0], "D")}))
    fact = _fact(spans, "stay", "", named=named, ordered=False)
    assert (fact.kind, fact.use) == ("date", "release" if named else "leave out")
    assert fact.remark == "name it in public= if dates are to be released" * (not named)


# ------------------------------------------------------------------------------- how it is ranked


def row(label, change, task=math.nan, least=0.5, holds=True):
    own = {"attack": least + 0.05, "low": least, "high": least + 0.1, "least": least}
    made = Candidate(label, "", PufferfishNoiser, {"epsilon": 1.0})
    return replace(made, change=change, task=task, **own).judged(holds=holds)


def test_what_is_caught_is_struck_out_with_the_reason_and_comes_after_what_is_kept():
    caught = row("caught", 0.01, least=0.74)
    assert caught.verdict == "struck out"
    assert "AUC 0.790, for certain more than 0.740" in caught.reason
    bare = row("constants", 1.0)
    rows = [caught, row("broken", 0.0, holds=False), row("large", 2.0), row("kept", 0.5)]
    told = [each.setting for each in ranked([*rows, row("same", 1.0)], bare, 0.01)]
    assert told == ["kept", "same", "large", "caught", "broken"]


def test_an_attack_that_chance_may_have_taken_beyond_what_is_allowed_strikes_nothing_out():
    lucky = row("lucky", 0.01, least=0.7)
    assert lucky.attack > lucky.allowed > lucky.least
    assert lucky.verdict == "holds"


def test_scores_that_hardly_differ_are_alike_and_change_decides_between_them():
    rows = [row("c", 0.1, 0.80), row("a", 0.3, 0.895), row("b", 0.2, 0.89), row("d", 0.05, 0.7)]
    told = [each.setting for each in ranked(rows, row("", 1.0), 0.02)]
    assert told == ["b", "a", "c", "d"]


def test_what_is_recommended_says_which_ways_the_task_does_not_tell_apart(found):
    scores = [0.80, 0.89, 0.70]
    told = [replace(found.trials[0], change=0.1, task=score) for score in scores]
    told = replace(found, trials=(*told,), task="well", score="AUC", within=0.1)
    assert "Rows whose AUC is within 0.1 of the best, as chance has it on" in told.advice()
    assert "are alike" not in replace(told, trials=told.trials[:1]).advice()


@pytest.mark.parametrize(("n", "share"), [(100, 0.5), (400, 0.1), (1000, 0.02)])
def test_scores_that_tell_nothing_differ_by_less_than_chance_is_said_to_make(n, share):
    rng = np.random.default_rng(0)
    target = np.arange(n) < share * n
    chance = Task("y", LogisticRegression(), target).chance(np.arange(n))
    areas = [roc_auc_score(target, rng.random(n)) for _ in range(400)]
    assert 1.8 * np.std(areas) < chance < 2.2 * np.std(areas)
    several = rng.integers(0, 5, n)
    chance = Task("y", LogisticRegression(), several).chance(np.arange(n))
    means = []
    for _ in range(200):
        seen = rng.dirichlet(np.ones(5), n)
        means.append(np.mean([roc_auc_score(several == k, seen[:, k]) for k in range(5)]))
    assert 1.8 * np.std(means) < chance < 3.0 * np.std(means)
    regressed = Task("y", LinearRegression(), rng.random(n))
    assert regressed.chance(np.arange(n)) == pytest.approx(1.5 / math.sqrt(n))


def test_the_first_sentence_says_what_to_release_with_and_what_it_changes(found):
    said = str(found).splitlines()[1]
    assert said.startswith(f"Release with row 0, {found.trials[0].setting}, which is proven for a")
    assert f"(a constant in its place: {found.bare.change:.3g})" in said


@pytest.mark.slow
def test_rows_that_tell_little_are_no_reason_to_release_them_as_they_are():
    """A mean attack below the limit for rows once said "Nothing is needed"."""
    told = plan(people(400, told=0.0).drop(columns=["client", "well"]), "group", **FEW)
    assert told.raw.high < 0.75
    assert "Nothing is needed" not in str(told)
    assert "which proves nothing of any single one" in str(told)
    assert told.proposed == 0
    assert told.trials[0].kind is not None


# --------------------------------------------------------------------------------------- curves


@pytest.mark.slow
def test_a_curve_is_that_of_fits_at_each_budget(found):
    curve = found.curve(0, [0.5, 2.0])
    row = found.trials[0]
    for epsilon, loss in zip(curve["epsilon"], curve["loss"], strict=True):
        own = row.at(epsilon=epsilon).fit(found.measurer.fitted)
        assert own.certificate_.loss == loss <= epsilon
    assert curve["change"].is_monotonic_decreasing
    figures = ["change", "rows_equal", "attack", "low", "high", "task", "loss"]
    assert list(curve) == ["epsilon", *figures]
    assert "..." not in str(curve)


@pytest.mark.slow
def test_a_curve_over_typical_rows_is_that_of_their_numbers(found):
    k = labels_of(found).index("typical rows")
    curve = found.curve(k, n_prototypes=[2, 8])
    assert curve["n_prototypes"].tolist() == [2, 8]
    assert curve["change"][1] == round(found.trials[k].change, 3) < curve["change"][0]
    with pytest.raises(ValueError, match="has no n_prototypes; take typical rows"):
        found.curve(labels_of(found).index("swap"), n_prototypes=[2])


# ------------------------------------------------------------------------------- what else is said


@pytest.mark.slow
def test_rare_secrets_are_named_and_not_attacked():
    table = people(1200)
    table.loc[:23, "group"] = "rare"
    table.loc[25:30, "group"] = "rarer"
    told = plan(table, "group", public=["score"], **FEW)
    assert any("'rare'" in note and "too few rows" in note for note in told.notes)
    assert any("'rarer'" in note and "too few rows" in note for note in told.notes)


@pytest.mark.slow
def test_pairs_that_are_not_protected_are_not_attacked():
    table = people(300).assign(group=np.tile(["a", "b", "c"], 100))
    told = plan(
        table, "group", public=["town"], secret_pairs=[("a", "c")], n_prototypes=3, n_bins=2
    )
    assert [each.pairs for each in told.measurer.secrets] == [[(0, 2)]]


@pytest.mark.parametrize("pair", [("a", "z"), ("a", "b", "c"), ([1], [2])])
def test_protected_pairs_that_no_secrets_make_are_refused_before_anything_is_fitted(pair):
    with pytest.raises((TypeError, ValueError), match="secret_pairs"):
        plan(people(300), "group", public=["town"], secret_pairs=[pair], **FEW)


@pytest.mark.slow
def test_invented_people_with_ids_mails_dates_and_gaps_are_planned_as_they_come():
    table = make_people(1000, random_state=0)
    public = ["since", "age", "region", "visits", "weight", "pulse", "smoker"]
    told = plan(table, "ill", ids=["client"], task="renewed", public=public, n_prototypes=8)
    assert told.columns["use"].to_dict() == {
        "client": "stays with people",
        "mail": "not asked for",
        "since": "release",
        "age": "release",
        "region": "release",
        "visits": "release",
        "weight": "release",
        "pulse": "release",
        "smoker": "release",
        "ill": "sensitive",
        "renewed": "not asked for",
    }
    assert {"typical rows", "swap"} <= set(labels_of(told))
    assert not (told.table["verdict"] == "refused").any()
    assert told.columns.loc["since", "kind"] == "date"
    held = told.measurer.held
    blank = measured.constants(held, ["since"])
    assert measured.changes(held, blank, ["since"])[0] < 1.0  # the median day, and not a usual one
    assert plan(table, "ill", n_prototypes=8).columns.loc["since", "use"] == "leave out"


def wine():
    table = load_wine(as_frame=True).frame
    days = np.datetime64("2020-01-01") + np.arange(len(table)) % 50
    return table.assign(target=table["target"].map(str), picked=days.astype("datetime64[s]"))


TABLES = {
    "people": (
        lambda: make_people(400, random_state=1),
        {"sensitive": "ill", "task": "renewed", "ids": ["client", "mail"]},
        ["since", "age", "region", "visits", "weight", "pulse", "smoker"],
    ),
    "people by region": (
        lambda: make_people(400, random_state=1),
        {"sensitive": "ill", "task": "renewed", "known": "region"},
        ["since", "age", "smoker"],
    ),
    "wine": (wine, {"sensitive": "target"}, ["alcohol", "picked", "hue"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_a_plan_fits_and_releases_the_table_that_it_planned_for(name):
    made, how, public = TABLES[name]
    table = made()
    told = plan(table, public=public, n_bins=3, n_prototypes=4, max_rows=None, **how)
    assert len(told.trials) >= 2
    for k in range(len(told.trials)):
        for estimator in (told.estimator(k), told.estimator(k, refit=table)):
            again = estimator.transform(table)
            assert len(again) == len(table)
            assert (again[public].dtypes == table[public].dtypes).all()
            assert estimator.certificate_.holds


@pytest.mark.slow
def test_a_plan_says_where_the_order_of_the_rows_or_their_index_tells_the_secret():
    table = people(400)
    rows = table.sort_values("group").reset_index(drop=True)
    tables = {"": table, "order": rows, "index": rows.sample(frac=1, random_state=0)}
    for told, given in tables.items():
        notes = plan(given, "group", public=["score", "town"], n_prototypes=4, n_bins=2).notes
        found = [note.partition(" of the rows tells 'group'") for note in notes]
        assert [start for start, is_told, _ in found if is_told] == [f"The {told}"] * bool(told)


@pytest.mark.slow
def test_typical_rows_are_proposed_for_a_sample_of_adult_and_keep_the_task(table):
    adult = table("adult").drop(columns=["fnlwgt", "education"]).head(2000)
    told = plan(adult, "sex", task="income", n_prototypes=24)
    assert told.raw.least > 0.8
    assert told.trials[0].setting.startswith("typical rows")
    assert told.trials[0].high < told.raw.least
    assert told.trials[0].change < 0.85 * told.bare.change
    assert told.trials[0].task > 0.5 + 0.6 * (told.raw.task - 0.5)
    assert "A swap was not tried" in str(told)


@pytest.mark.slow
def test_secrets_that_are_read_in_bins_are_read_so_by_the_estimator_too():
    table = people(400).drop(columns=["client", "well", "group"])
    told = plan(table, {"score": 2}, ids=None, n_prototypes=4, n_bins=2)
    rows = told.estimator(labels_of(told).index("typical rows"), refit=table)
    assert {str(pair) for pair in rows.certificate_.table["secret"]} == {
        str(label) for label in told.measurer.secrets[0].labels
    }


@pytest.mark.slow
def test_combinations_of_columns_are_protected_and_attacked_together():
    table = people(600).drop(columns=["client", "well"])
    told = plan(table, [("group", "town")], public=["score"], n_prototypes=4, n_bins=2)
    [secret] = told.measurer.secrets
    assert set(secret.labels) == {(x, y) for x in "ab" for y in "xyz"}
    rows = told.estimator(labels_of(told).index("typical rows"))
    assert {pair.secret for pair in rows.certificate_.pairs} == set(secret.labels)
    swap = plan(table, [("group", "town")], public=["score"], known="visits", n_prototypes=4)
    assert "swap" in labels_of(swap)


@pytest.mark.slow
def test_missing_values_are_planned_with():
    table = people(400)
    table.loc[::9, "town"] = None
    table.loc[::7, "group"] = None
    told = plan(table, "group", public=["town", "visits"], ids="client", **FEW)
    assert (told.table["verdict"].iloc[2:] == "holds").all()


@pytest.mark.parametrize(("ids", "several"), [(["client", "town"], False), (["town"], True)])
def test_people_have_several_rows_only_where_no_ids_together_tell_them_apart(ids, several):
    roles = {"ids": ids, "known": [], "task": []}
    measurer = SimpleNamespace(held=people(60), roles=roles, secrets=[], folds=[])
    swap = Candidate("swap", kind=PufferfishSwap, low=0.4, high=0.6)
    notes = list(_notes(measurer, [], [swap]))
    assert any("several rows, by 'town'" in note for note in notes) == several == bool(notes)


def test_a_number_that_looks_like_an_identifier_is_left_out_with_both_ways_to_name_it():
    told = _fact(frame_table(people(60)), "client", "", named=False, ordered=False)
    assert told.use == "leave out"
    assert "in ids= if it says whose row is whose, or in public= to release it" in told.remark


# ----------------------------------------------------------------------------- refusals, and JSON


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"time_limit": 60}, TypeError, "plan has no setting 'time_limit'"),
        ({"lookup": "town"}, TypeError, "plan has no setting 'lookup'"),
        ({"n_prototype": 8}, TypeError, "plan has no setting 'n_prototype'.*n_prototypes"),
        ({"task": "group"}, ValueError, "'group' is named in sensitive= and in task="),
        (
            {"task": "town", "public": ["town"]},
            ValueError,
            "'town' is named in task=",
        ),
        ({"ids": "town", "public": ["town"]}, ValueError, "named in ids= and in public="),
        ({"ids": "nobody"}, ValueError, "nobody"),
        ({"epsilon": [0.5, 1.0]}, TypeError, "epsilon"),
        ({"groups": "client"}, TypeError, "plan has no setting 'groups'"),
        ({"public": ["well"], "random_state": -1}, ValueError, "random_state"),
        ({"max_rows": 0}, ValueError, "max_rows"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_way_out(how, error, message):
    with pytest.raises(error, match=message):
        plan(people(300), "group", **how)


def test_a_plan_that_protects_nothing_is_refused_with_an_example():
    with pytest.raises(ValueError, match=r'sensitive is missing; .*such as sensitive="race"'):
        plan(people(300))


def test_a_table_without_rows_is_refused(found):
    for planned in (
        lambda: plan(people(300)[:0], "group"),
        lambda: found.estimator(0, refit=people(300)[:0]),
    ):
        with pytest.raises(ValueError, match="table has 0 rows, and a plan measures some"):
            planned()


def test_a_secret_of_one_value_is_refused():
    with pytest.raises(ValueError, match="has one value only"):
        plan(people(300).assign(group="a"), "group")


def test_a_refused_setting_is_told_in_its_row(found):
    told = plan(people(300), "group", public=["town"], values="wrong", n_bins=2)
    k = labels_of(told).index("typical rows")
    assert told.trials[k].verdict == "refused"
    assert "values must be one of" in told.trials[k].reason
    with pytest.raises(ValueError, match=f"row {k} was refused"):
        told.estimator(k)
    assert f"row {k}, typical rows: refused" in str(told)
    with pytest.raises(ValueError, match="k is None: this plan proposes no setting"):
        found.estimator(None)
    with pytest.raises(IndexError, match="is no row of this plan"):
        found.estimator(99)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"k": "1"}, "k must be an integer of at least 0, got '1'."),
        ({"epsilons": 2.0}, "epsilons must be a list, got 2.0; give one"),
        ({"epsilons": ["1"]}, "epsilons must be a positive number, got '1'"),
        ({"n_prototypes": 4}, "n_prototypes must be a list, got 4; give one"),
    ],
)
def test_a_curve_of_what_is_no_list_of_numbers_is_refused_before_any_fit(found, how, message):
    k = labels_of(found).index("typical rows")
    with pytest.raises(TypeError, match=re.escape(message)):
        found.curve(**{"k": k, **how})


def test_a_plan_is_json_without_rows(found):
    told = json.loads(found.to_json())
    assert told["advice"] == found.advice()
    assert [each["row"] for each in told["settings"]] == list(range(len(found.trials)))
    assert {each["estimator"] for each in told["settings"]} == {
        "PufferfishMicroaggregator",
        "PufferfishNoiser",
        "PufferfishSwap",
    }
    assert "measurer" not in told


# ----------------------------------------------------------------------- the statistics of attacks


@pytest.mark.slow
def test_the_best_of_many_attackers_on_nothing_is_as_good_as_a_guess():
    found, draws, n = [], 10, 240  # of more rows attackers are less often lucky
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        rows = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 5, n)})
        codes, split = rng.integers(0, 3, n), RowSplit.of(n, seed)
        own = Secrets("s", ["x", "y", "z"], codes, [(0, 1), (0, 2), (1, 2)])
        own = own.with_rows(measured.LEAST, *vars(split).values())
        given = seen(rows, ["a", "b"])
        found.append(measured.attacked(given, [own], split, QUICK))
    figures = np.array([each["attack"] for each in found])
    assert abs(figures.mean() - 0.5) < 3.5 * figures.std() / math.sqrt(len(found))
    assert sum(each["low"] <= 0.5 <= each["high"] for each in found) >= 0.85 * draws
    assert sum(each["least"] > 0.5 for each in found) <= 0.15 * draws


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


def test_a_pair_is_attacked_where_each_part_of_the_rows_has_ten_of_both():
    split = RowSplit(*np.split(np.arange(90), 3))
    for last, pairs in ((9, []), (10, [(0, 1)])):
        codes = np.r_[np.repeat([0, 1], 30), np.where(np.arange(30) < last, 0, 1)]
        codes[:60] = np.tile(np.repeat([0, 1], 15), 2)
        own = Secrets("s", ["x", "y"], codes, [(0, 1)])
        assert own.with_rows(measured.LEAST, *vars(split).values()).pairs == pairs


def test_a_change_is_in_standard_deviations_of_numbers_and_the_share_of_unequal_words():
    raw = pd.DataFrame({"n": [0.0, 2.0, np.nan, 4.0], "w": ["u", "v", None, "u"], "c": [1] * 4})
    released = pd.DataFrame({"n": [1.0, 2.0, np.nan, 1.0], "w": ["u", "u", None, None], "c": 2})
    change, equal = measured.changes(raw, released, ["n", "w", "c"])
    assert change == pytest.approx((4 / 3 / np.std([0.0, 2.0, 4.0]) + 0.5) / 2)
    assert equal.tolist() == [
        [False, True, False],
        [True, False, False],
        [True, True, False],
        [False, False, False],
    ]
    assert measured.constants(raw, ["n", "w"])[["n", "w"]].iloc[0].tolist() == [2.0, "u"]


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
        days = in_whole_days(frame[[name]])[name]
        assert [None if pd.isna(day) else int(day) for day in days] == [2, None, -1], name
