"""An audit: its statistics are exact, what leaks is found, and what cannot be found is said."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC

from sklearn_puffer import PufferfishNoiser, PufferfishRelease, audit
from sklearn_puffer._release.drift import Drift
from sklearn_puffer._review import auditing
from sklearn_puffer._review.attack import SIZE, Groups, RowByRow, RowSplit, with_copies
from sklearn_puffer._review.auditing import averaged, linked
from sklearn_puffer._review.exact_tests import (
    Budget,
    findable,
    least_p,
    lower,
    p_value,
    power,
    rows_needed,
    upper,
)
from sklearn_puffer._review.measured import Task, task_figures

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Looks(ClassifierMixin, BaseEstimator):
    """Guesses the secret from one word, and learns nothing: the best attacker of `answers`."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        yes = np.where(X["word"] == "u", 0.9, 0.1)
        return np.stack([yes, 1.0 - yes], axis=1)


PLAIN = {"repeats": 1, "knows": []}  # no other readers, which take time
LOOKS = Pipeline([("looks", Looks())])


class Twice(PufferfishNoiser):
    """Releases with another noiser than the one that was certified."""

    def transform(self, X, **settings):
        return self.other_.transform(X, **settings)


def answers(n_rows):
    """Return a table in which the word says the secret: released, it is randomised response."""
    half = n_rows // 2
    return pd.DataFrame({"s": ["a", "b"] * half, "word": ["u", "v"] * half})


def honest(epsilon=1.0):
    return PufferfishNoiser(epsilon, sensitive="s").fit(answers(200))


def lying(epsilon=1.0, real=2.0):
    noiser = Twice(epsilon, sensitive="s").fit(answers(200))
    noiser.other_ = honest(real)
    return noiser


def mixed(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n_rows)
    visits = rng.integers(0, 4, n_rows) + 2 * (group == "a")
    town = rng.choice(["x", "y", None], n_rows)
    return pd.DataFrame({"group": group, "visits": visits, "town": town, "late": visits > 2})


@pytest.mark.parametrize(
    ("k", "n", "h", "m"), [(9, 10, 1, 12), (30, 40, 3, 40), (5, 5, 0, 9), (1, 8, 0, 8)]
)
@pytest.mark.parametrize("promise", [Budget(0.3), Budget(1.0, 0.05), Budget(0.5, 0.0, 2.0)])
def test_a_p_value_is_that_of_the_worst_chances_within_the_guarantee(promise, k, n, h, m):
    grid = np.linspace(0.0, 1.0, 40_001)
    most = np.minimum(1.0, np.exp(promise.epsilon) * grid + promise.delta)  # written out again
    if promise.alpha is not None:
        most = np.minimum(1.0, (np.exp(promise.epsilon) * grid) ** (1.0 - 1.0 / promise.alpha))
    worst = 2.0 * np.maximum(binom.sf(k - 1, n, most), binom.cdf(h, m, grid)).min()
    assert p_value(promise, k, n, h, m) == pytest.approx(min(1.0, worst), rel=0.01)
    assert p_value(promise, k, n, h, m) <= min(1.0, worst) + 1e-12


def p_values(promise, n, m):
    """Return the p-value of each pair of counts."""
    return np.array([[p_value(promise, k, n, h, m) for h in range(m + 1)] for k in range(n + 1)])


def masses(n, p, m, q):
    return np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(m + 1), m, q))


@pytest.mark.parametrize("promise", [Budget(0.7), Budget(0.4, 0.1), Budget(0.5, 0.0, 3.0)])
def test_a_kept_guarantee_is_refused_with_the_stated_chance_at_most(promise):
    n, m = 9, 11
    found = p_values(promise, n, m)
    for q in np.linspace(0.0, 1.0, 101):
        own = masses(n, float(promise.most(q)), m, q)
        for level in (0.01, 0.05, 0.2, 0.5):
            assert own[found <= level].sum() <= level


def events_of_whole_releases(promise, n_values, rng, n_rows=120):
    """Return a p-value of rows that keep a guarantee to the last, and whose event counts copies."""
    secrets = rng.integers(0, 2, n_rows)
    told = rng.random(n_rows) < promise.delta
    kept = rng.random(n_rows) < 1.0 / (1.0 + math.exp(-promise.epsilon))
    words = np.where(told, secrets + 2, np.where(kept, secrets, 1 - secrets))
    rows = 4 * rng.integers(0, n_values, n_rows) + words
    event = (np.bincount(rows)[rows] >= n_rows // (3 * n_values)) & np.isin(words, (1, 3))
    tested = np.arange(n_rows) >= 0.6 * n_rows
    k, h = (int((event & tested & (secrets == own)).sum()) for own in (1, 0))
    n, m = (int((tested & (secrets == own)).sum()) for own in (1, 0))
    return p_value(promise, k, n, h, m, (int(secrets.sum()), int(n_rows - secrets.sum())))


COPIES = [(Budget(1.0), 3), (Budget(0.1), 30), (Budget(0.5, 0.02), 30)]
MORE_COPIES = [*COPIES[:2], (Budget(1.0), 30), (Budget(0.1), 3)]


@pytest.mark.parametrize(
    ("promise", "n_values"),
    [COPIES[2], *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_COPIES)],
)
def test_events_that_count_copies_are_refused_with_the_stated_chance_at_most(promise, n_values):
    rng = np.random.default_rng(0)
    found = np.array([events_of_whole_releases(promise, n_values, rng) for _ in range(400)])
    for level in (0.05, 0.2, 0.5):
        assert (found <= level).mean() <= level


@pytest.mark.slow
def test_events_that_count_copies_have_the_power_that_is_stated():
    promise, n, m, level, whole = Budget(0.5), 14, 16, 0.05, (40, 40)
    found = [
        [p_value(promise, k, n, h, m, whole) <= level for h in range(m + 1)] for k in range(n + 1)
    ]
    expected = masses(n, 0.9, m, 0.1)[np.array(found)].sum()
    assert 0.1 < expected < 1.0
    assert power(promise, 0.9, 0.1, n, m, level, whole) == pytest.approx(expected, abs=1e-6)
    assert Budget(1.0, 0.01).spared(200) == binom.isf(1e-9, 200, 0.01)


def test_the_power_is_the_chance_of_significant_counts():
    promise, n, m, level = Budget(0.5), 12, 10, 0.05
    expected = masses(n, 0.9, m, 0.1)[p_values(promise, n, m) <= level].sum()
    assert expected > 0.1
    assert power(promise, 0.9, 0.1, n, m, level) == pytest.approx(expected, abs=1e-6)


def test_what_is_findable_has_that_power_and_less_has_not():
    promise = Budget(1.0)
    loss = findable(promise, None, 200, 150, 0.01)
    chances = [1.0 / (1.0 + math.exp(-each)) for each in (loss, loss - 0.02)]
    found = [power(promise, p, 1.0 - p, 200, 150, 0.01) for p in chances]
    assert found[0] >= 0.8 > found[1]
    assert findable(promise, 0.5, 200, 150, 0.01) == math.inf  # e times a half is more than one


def test_clopper_and_pearson_ends_are_where_tails_are_as_large_as_asked():
    assert binom.sf(6, 20, lower(7, 20, 0.03)) == pytest.approx(0.03)
    assert binom.cdf(7, 20, upper(7, 20, 0.03)) == pytest.approx(0.03)
    assert (lower(0, 20, 0.03), upper(20, 20, 0.03)) == (0.0, 1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (2.0, 0.1)])
def test_the_largest_auc_and_advantage_are_those_of_the_curve(epsilon, delta):
    grid = np.linspace(0.0, 1.0, 200_001)
    curve = np.minimum(np.exp(epsilon) * grid + delta, 1.0 - (1.0 - grid - delta) / np.exp(epsilon))
    curve = np.minimum(curve, 1.0)
    promise = Budget(epsilon, delta)
    assert promise.auc() == pytest.approx(np.trapezoid(curve, grid), abs=1e-5)
    assert promise.advantage() == pytest.approx((curve - grid).max(), abs=1e-5)


def test_renyi_privacy_of_a_large_order_allows_what_the_pure_guarantee_allows():
    large, pure = Budget(1.0, 0.0, 1e7), Budget(1.0)
    assert large.auc() == pytest.approx(pure.auc(), abs=1e-3)
    assert large.advantage() == pytest.approx(pure.advantage(), abs=1e-3)
    assert Budget(1.0, 0.0, 2.0).auc() > pure.auc()


def test_so_many_rows_are_needed_and_not_one_less():
    for promise in (Budget(0.1), Budget(3.0), Budget(1.0, 0.01)):
        needed = rows_needed(promise, 0.01)
        assert least_p(promise, needed, needed) <= 0.01 < least_p(promise, needed - 1, needed - 1)


@pytest.mark.slow
def test_randomised_response_at_its_budget_gives_figures_near_the_allowed_ones():
    noiser = honest()
    assert noiser.certificate_.loss == pytest.approx(1.0, abs=1e-6)
    found = audit(noiser, answers(8000), LOOKS, **PLAIN)
    row = found.table.iloc[0]
    assert row["auc"] == pytest.approx(row["auc_allowed"], abs=0.03)
    assert row["advantage"] == pytest.approx(row["advantage_allowed"], abs=0.05)
    assert row["log_odds"] == pytest.approx(1.0, abs=0.2)
    assert row["certified"] == pytest.approx(1.0, abs=1e-6)
    assert row["low"] < row["log_odds"] < row["high"]
    assert found.findings == () or found.findings[0].attack.p > 1e-4
    assert found.caught


def test_a_release_that_loses_more_than_it_says_is_a_finding_with_a_p_value():
    found = audit(lying(), answers(3000), [LOOKS, GaussianNB()], **PLAIN)
    assert found.findings[0].attack.low > 1.0
    assert "MORE THAN WAS PROMISED" in str(found).partition("\n")[0]
    assert "over 4 tests. Either the release loses more" in str(found.findings[0])


def test_p_values_are_corrected_over_all_tests_and_never_smaller_than_alone():
    table = audit(lying(), answers(600), [LOOKS, LogisticRegression()], **PLAIN).table
    ranked = table.sort_values("p")
    assert (ranked["p_all"] >= ranked["p"]).all()
    assert ranked["p_all"].is_monotonic_increasing
    assert ranked["p_all"].iloc[0] == pytest.approx(min(1.0, 4 * ranked["p"].iloc[0]))


def test_attackers_that_learn_nothing_are_called_too_weak():
    class Blind(Looks):
        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    found = audit(lying(), answers(400), Pipeline([("blind", Blind())]))
    assert not found.caught
    assert not found.findings
    assert "COULD NOT HAVE FOUND IT" in str(found)
    assert "too weak" in str(found)


def test_rows_of_fit_are_recognised_and_said_to_hide_differences():
    table = mixed()
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    same, other = (audit(noiser, each, GaussianNB(), **PLAIN) for each in (table, mixed(seed=1)))
    assert same.fitted
    assert "These look like the very rows of fit" in str(same)
    assert not other.fitted
    assert "None of these rows may have been in fit" in str(other)


def test_other_distributions_than_the_fitted_one_are_named_beside_a_finding():
    fitted = answers(200)
    fitted["word"] = ["u", "v", "v", "u"] * 50  # tells nothing, so there is no noise
    noiser = PufferfishNoiser(0.5, sensitive="s").fit(fitted)
    found = audit(noiser, answers(400), LOOKS, **PLAIN)
    assert found.findings
    assert found.drifted
    assert "do not follow the distribution that was fitted" in str(found.findings[0])
    assert found.exact == math.inf or found.exact > 2.0


def test_copies_are_counted_in_what_each_reader_sees_and_never_hide_a_column():
    rows = pd.DataFrame({"copies in the release": [1.0, 2.0, 2.0, np.nan, np.nan]})
    assert with_copies(rows).iloc[:, 1].tolist() == [1, 2, 2, 2, 2]
    assert with_copies(rows).columns[1] == "copies in the release'"
    assert with_copies(rows.set_axis([7], axis=1)).columns.tolist() == [7, 8]
    assert with_copies(rows[:2]).shape == (2, 1)  # each as often as the other


def test_the_split_is_the_seeds_and_the_noise_is_not():
    noiser = honest()
    found = [audit(noiser, answers(400), LOOKS, random_state=3, **PLAIN).table for _ in range(4)]
    assert len({tuple(each["n"]) for each in found}) == 1
    assert len({tuple(each["log_odds"]) for each in found}) > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_mixed_columns_with_gaps_are_attacked_in_every_kind_of_table(kind):
    table = mixed()
    data = {name: table[name].astype(object).where(table[name].notna(), None) for name in table}
    data = {name: column.tolist() for name, column in data.items()}
    noiser = PufferfishNoiser(sensitive="group", missing="category", public=["visits", "town"])
    noiser.fit(kind(data))
    found = audit(noiser, kind(data), task="late", **PLAIN)
    assert list(found.table["attacker"].unique()) == ["boosted", "neighbours", "linear"]
    assert {"unchanged share", "AUC on true rows"} <= set(found.utility["what"])


@pytest.mark.slow
def test_a_task_with_a_model_of_its_own_learns_from_released_rows():
    table = mixed(800)
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    y = 2.0 * table["visits"] + 1.0
    found = audit(noiser, table, GaussianNB(), task=(LinearRegression(), y)).utility
    before, after = found.set_index("what").loc["R2 on true rows", ["before", "after"]]
    assert before == pytest.approx(1.0, abs=0.1)
    assert after < before


def test_a_task_that_nothing_tells_has_the_area_of_chance_beside_its_base_rate():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"word": ["u", "v", "v", "u"] * 300, "s": ["a", "b", "b", "a"] * 300})
    table["rare"] = np.where(rng.random(1200) < 0.11, "yes", "no")
    found = audit(honest(), table, LOOKS, task="rare", **PLAIN)
    figures = found.utility.set_index("what")
    assert "accuracy" not in str(found)
    assert figures.loc["AUC on true rows", ["before", "after"]].between(0.4, 0.6).all()
    assert figures.loc["base rate of 'no'", "before"] == pytest.approx(0.89, abs=0.03)
    assert "by chance an AUC is 0.5, and an R2 0" in str(found)


class Guess(GaussianNB):
    """Says which class a row is of, and not how much it looks like it."""

    predict_proba = property()


@pytest.mark.parametrize("model", [GaussianNB(), LinearSVC(), Guess(), SVC()])
@pytest.mark.parametrize("names", [["no", "yes"], [3, 1, 2], ["x", "y", "z", "only here"]])
def test_the_area_of_a_task_is_the_mean_over_its_classes_each_against_the_rest(model, names):
    rng = np.random.default_rng(1)
    y = rng.integers(0, len(names), 400)
    rows = pd.DataFrame({"x": rng.normal(y, 1.5), "z": rng.normal(size=400)})
    target = np.array(names)[y]
    train = np.flatnonzero(target != "only here")[:200]  # a class is met later that was not learnt
    parts = RowSplit(train, train[:0], np.arange(200, 400))
    task = Task("y", Pipeline([("model", model)]), target, by_column=False)
    area, base = task_figures(task, rows, rows, ["x", "z"], parts)
    test, learnt = rows[200:], clone(model).fit(rows.iloc[train], target[train])
    found = []
    for label in names:
        own = target[200:] == label
        score = looks_like(learnt, test, label)
        right = np.subtract.outer(score[own], score[~own])
        found.append(((right > 0) + 0.5 * (right == 0)).mean())
    assert area.before == area.after == pytest.approx(np.mean(found))
    assert base.before == max(np.mean(target[200:] == label) for label in names)


def looks_like(model, rows, label):
    """Return how much each row looks like one class; like a class not learnt none does."""
    if label not in model.classes_:
        return np.zeros(len(rows))
    place = list(model.classes_).index(label)
    if isinstance(model, Guess):
        return (model.predict(rows) == label).astype(float)
    if isinstance(model, GaussianNB):
        return model.predict_proba(rows)[:, place]
    margin = model.decision_function(rows)
    return margin * (2 * place - 1) if margin.ndim == 1 else margin[:, place]


def test_a_task_with_one_class_among_its_test_rows_has_no_area():
    rows = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    task = Task("y", GaussianNB(), np.array(["a", "b", "a", "a"]), by_column=False)
    parts = RowSplit(np.array([0, 1]), np.zeros(0, dtype=int), np.array([2, 3]))
    area, base = task_figures(task, rows, rows, ["x"], parts)
    assert math.isnan(area.before)
    assert (base.what, base.before) == ("base rate of 'a'", 1.0)


def test_an_infinite_estimate_is_said_to_come_of_few_rows():
    found = audit(honest(), answers(400), LOOKS, **PLAIN)
    for told in (replace(found, exact=math.inf), replace(found, exact=2.0)):
        assert "infinite" not in str(told)
        assert ("No loss is estimated" in str(told)) == math.isinf(told.exact)
        assert ("the loss is 2" in str(told)) != math.isinf(told.exact)


def test_a_task_whose_released_target_has_gaps_learns_from_the_rows_without():
    table = mixed()
    noiser = PufferfishNoiser(sensitive="group", missing="category", public=["visits", "town"])
    found = audit(noiser.fit(table), table, GaussianNB(), task="town", **PLAIN).utility
    assert found.set_index("what").loc["AUC on true rows", "after"] <= 1.0


def test_averaging_fresh_releases_tells_more_and_keyed_noise_stays_the_same():
    found = audit(honest(0.5), answers(1200), LOOKS, repeats=15, knows=[])
    own, reader = found.table.iloc[0], found.readers.iloc[0]
    assert reader["view"] == "average of 15 releases"
    assert reader["auc"] > own["auc_allowed"] + 0.1
    assert "Keyed noise (row_id=) came out the same when asked again" in str(found)


def test_averages_are_means_and_the_most_frequent_word():
    words = pd.CategoricalDtype(["u", "v"])
    frames = [
        pd.DataFrame({"x": [1.0, n], "word": pd.Series([w, "u"], dtype=words)})
        for n, w in [(3.0, "v"), (6.0, "u"), (9.0, "v")]
    ]
    found = averaged(frames)
    assert found["x"].tolist() == [1.0, 6.0]
    assert found["word"].tolist() == ["v", "u"]


def test_who_knows_the_column_that_tells_the_secret_needs_no_release():
    found = audit(honest(), answers(400), LOOKS, repeats=1, knows="word").readers
    assert found["view"].unique().tolist() == [
        "knows word, no release",
        "knows word, and the release",
    ]
    assert (found["auc"] == 1.0).all()


def test_rows_are_linked_to_themselves_without_noise_and_by_chance_under_much():
    rng = np.random.default_rng(0)
    raw = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    other = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    ((same,), (apart,)) = (linked(raw, each, np.arange(300)) for each in (raw, other))
    assert (same.before, same.after) == (1.0, 1.0)
    assert apart.after < 0.03


def test_words_that_come_out_as_codes_are_attacked_and_not_compared():
    table = mixed()
    noiser = PufferfishNoiser(
        sensitive="group", public=["visits", "town"], missing="category", output="noisy"
    )
    found = audit(noiser.fit(table), table, GaussianNB(), task="late", **PLAIN)
    assert "town" not in set(found.utility["column"])
    assert "AUC on true rows" in set(found.utility["what"])


@pytest.mark.slow
def test_several_sensitive_columns_and_secrets_beside_the_table():
    table = mixed(600).drop(columns="town")
    both = PufferfishNoiser(sensitive=["group", "late"]).fit(table)
    assert set(audit(both, table, GaussianNB(), **PLAIN).table["sensitive"]) == {"group", "late"}
    apart = PufferfishNoiser().fit(table[["visits"]], sensitive_features=table["group"])
    found = audit(
        apart, table[["visits"]], GaussianNB(), sensitive_features=table["group"], **PLAIN
    )
    assert len(found.table) == 2
    assert found.exact is not None


@pytest.mark.slow
def test_a_delta_and_an_order_are_audited_too():
    table = mixed(600)
    for more in ({"delta": 0.05}, {"alpha": 2.0, "noise": "gaussian", "strategy": "wasserstein"}):
        noiser = PufferfishNoiser(sensitive="group", public=["visits"], **more).fit(table)
        found = audit(noiser, table, GaussianNB(), **PLAIN)
        assert 0.5 < found.table["auc_allowed"].iloc[0] < 1.0
        assert not found.findings


def test_an_audit_is_json_text_and_inert_html():
    table = mixed().rename(columns={"visits": "<script>x"})
    table["group"] = table["group"].replace({"a": "<b>\n"})
    noiser = PufferfishNoiser(sensitive="group", public=["<script>x"]).fit(table)
    found = audit(noiser, table, {"<i>": GaussianNB()}).named("<u>")
    kept = json.loads(found.to_json())
    assert kept["schema"] == "sklearn_puffer.audit/4"
    assert len(kept["attacks"]) == 2
    for tag in ("<script>", "<b>", "<i>", "<u>"):
        assert tag not in found._repr_html_()


@pytest.mark.slow
def test_a_release_read_from_its_form_is_attacked_like_its_noiser():
    table = mixed()
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    release = PufferfishRelease.from_json(noiser.to_json())
    own, other = (audit(each, table, GaussianNB(), **PLAIN) for each in (noiser, release))
    for name in ("sensitive", "secret", "against", "n", "n_against", "allowed", "certified"):
        assert own.table[name].tolist() == other.table[name].tolist()
    assert own.fitted
    assert other.fitted
    assert other.exact is None
    assert "holds no distributions of secrets" in str(other)


def test_secrets_of_other_types_than_the_fitted_ones_are_said_not_to_fit():
    table = answers(200).assign(s=[0, 1] * 100)
    noiser = PufferfishNoiser(sensitive="s").fit(table)
    for each in (noiser, PufferfishRelease.from_json(noiser.to_json())):
        assert len(audit(each, table, LOOKS, **PLAIN).table) == 2
        with pytest.raises(ValueError, match="do not fit together: column 's' has"):
            audit(each, answers(200), LOOKS)


def test_few_rows_of_one_pair_are_named_and_the_others_are_tested():
    table = mixed()
    table.loc[:5, "group"] = "c"
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    found = audit(noiser, table, GaussianNB(), **PLAIN)
    assert len(found.table) == 2
    assert len(found.untested) == 2
    assert "'c'" in found.untested[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noiser": PufferfishNoiser(sensitive="s")}, "not fitted"),
        (
            {"noiser": "epsilon"},
            "noiser must be a fitted PufferfishNoiser, or a PufferfishRelease, got str",
        ),
        ({"table": answers(200).to_numpy()}, "table must be a DataFrame, got ndarray"),
        ({"table": pl.DataFrame(answers(200)).lazy()}, "table is lazy"),
        ({"table": answers(200)[:0]}, "table has 0 rows"),
        ({"table": answers(200).set_axis(range(2), axis=1)}, "table has a column called 0, and an"),
        ({"table": answers(8)}, "table has too few rows for 2 tests at level=0.05: of column 's'"),
        ({"table": answers(200)[["word"]]}, "table lacks the sensitive column 's'"),
        ({"attackers": []}, "attackers is empty"),
        ({"attackers": [LinearRegression()]}, "which is no classifier"),
        ({"attackers": LogisticRegression}, "which is no classifier"),
        ({"task": "wurd"}, "task names column 'wurd'"),
        (
            {"table": answers(200).assign(none=np.nan), "task": "none"},
            "task names column 'none', w",
        ),
        ({"task": (LogisticRegression(), [1])}, r"task has a y of shape \(1,\) beside 200 rows"),
        ({"task": ("word", 3, 4)}, "task must be the name of a column"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"knows": "s"}, "knows names the sensitive column 's'"),
        ({"knows": "wort"}, "knows names column 'wort'"),
        ({"level": 0.0}, "level"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"max_rows": 0}, "max_rows must be at least 1"),
        ({"random_state": "a"}, "random_state"),
        ({"verbose": "loud"}, "verbose"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(changes, message):
    given = {"noiser": honest(), "table": answers(200), "attackers": LOOKS, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        audit(given.pop("noiser"), given.pop("table"), **given)


@pytest.fixture
def attacks_alone(monkeypatch):
    """Leave out of an audit what no finding depends on, so that many can be made."""
    monkeypatch.setattr(auditing, "_drift", lambda *_: Drift((), 0, 0))
    monkeypatch.setattr(auditing, "_notes", lambda *_: [])
    monkeypatch.setattr(auditing._AuditedRows, "survived", lambda *_: [])


@pytest.mark.slow
@pytest.mark.usefixtures("attacks_alone")
def test_of_250_releases_within_the_guarantee_at_most_the_stated_share_is_a_false_alarm():
    noiser, held = honest(), answers(200)
    alarms = sum(
        bool(audit(noiser, held, LOOKS, level=0.1, random_state=k, **PLAIN).findings)
        for k in range(250)
    )
    assert alarms <= binom.isf(1e-4, 250, 0.1)  # the loss is the guarantee itself


@pytest.mark.slow
@pytest.mark.usefixtures("attacks_alone")
def test_of_30_releases_that_three_attackers_count_few_are_false_alarms():
    rng = np.random.default_rng(0)
    held = answers(300).assign(x=rng.choice(4, 300, p=[0.6, 0.2, 0.15, 0.05]))  # copies differ
    noiser = PufferfishNoiser(1.0, sensitive="s", public=["word", "x"]).fit(held)
    assert noiser.certificate_.loss == pytest.approx(1.0, abs=1e-6)
    alarms = sum(
        bool(audit(noiser, held, level=0.2, random_state=k, **PLAIN).findings) for k in range(30)
    )
    assert alarms <= binom.isf(1e-4, 30, 0.2)


@pytest.mark.slow
@pytest.mark.usefixtures("attacks_alone")
def test_a_release_with_twice_the_guaranteed_loss_is_found_with_the_stated_power():
    noiser, held = lying(), answers(1000)
    found = [audit(noiser, held, LOOKS, random_state=k, **PLAIN) for k in range(100)]
    assert found[0].best < 2.0
    caught = sum(bool(each.findings) for each in found)
    assert caught >= binom.ppf(1e-4, 100, 0.8)


def test_single_rows_that_are_added_up_tell_what_bayes_tells_of_independent_rows():
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 4, 3000)
    codes = np.repeat(np.arange(3000), sizes)
    ill = rng.integers(0, 2, 3000)
    value = (rng.random(len(codes)) < np.where(ill[codes], 0.8, 0.4)).astype(float)
    groups = Groups.of(codes)
    seen = groups.seen(pd.DataFrame({"value": value}))
    model = RowByRow(LogisticRegression(C=1e6), ["value"], SIZE)
    said = model.fit(seen, ill).predict_proba(seen)[:, 1]
    ones = np.bincount(codes, value)
    odds = 2.0**ones * (0.2 / 0.6) ** (sizes - ones)
    np.testing.assert_allclose(said, odds / (1 + odds), atol=0.06)


@pytest.fixture(scope="module")
def told_apart():
    """Return people with three rows each, of which all together tell most of who is ill."""
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(1_200), 3)
    ill = rng.integers(0, 2, 1_200)[person]
    score = (rng.random(len(person)) < np.where(ill, 0.75, 0.35)).astype(int)
    return pd.DataFrame({"person": person, "ill": ill, "score": score})


@pytest.mark.slow
def test_an_audit_attacks_whole_groups_of_a_noiser_that_has_groups(told_apart):
    noiser = PufferfishNoiser(1.0, sensitive="ill", groups="person", max_group=3, public="score")
    found = audit(noiser.fit(told_apart), told_apart, repeats=1, knows=[])
    assert found.findings == ()
    assert "Attackers saw all released rows of a group, and had 1,200 groups" in str(found)
    assert {each.attacker for each in found.attacks} >= {"row by row", "boosted"}
    assert all(each.n + each.n_against == 480 for each in found.attacks)
    assert max(each.auc for each in found.control) > 0.8  # what three rows tell: one tells .7


@pytest.mark.slow
def test_an_audit_of_single_rows_takes_one_row_of_each_group(told_apart):
    noiser = PufferfishNoiser(1.0, sensitive="ill", public="score").fit(told_apart)
    found = audit(noiser, told_apart, groups="person", repeats=1, knows=[])
    assert found.n_rows == 1_200
    assert "One row of each of 1,200 groups of 'person' was audited" in str(found)
    assert max(each.auc for each in found.control) < 0.78


def test_an_audit_of_groups_refuses_others_and_torn_ones(told_apart):
    held = told_apart[:900].assign(other=lambda t: t["person"])
    noiser = PufferfishNoiser(1.0, sensitive="ill", groups="person", max_group=3, public="score")
    noiser.fit(held)
    with pytest.raises(ValueError, match="noiser guarantees groups of 'person'"):
        audit(noiser, held, groups="other")
    with pytest.raises(ValueError, match="different 'ill'"):
        audit(noiser, held.assign(ill=held.index % 2))
