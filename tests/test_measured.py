"""Figures of rows before and after a release, beside plain counts of rows and pairs."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline

from sklearn_puffer._review.exact_tests import RowSplit, Secrets
from sklearn_puffer._review.measured import (
    FOLDS,
    LEAST,
    Task,
    _auc,
    area,
    attacked,
    changes,
    constants,
    parted,
    reidentified,
    task_of,
)
from sklearn_puffer._review.readers import boosted, known_rows, seen
from sklearn_puffer._tables import frame_table, put_together


@pytest.mark.parametrize("seed", range(20))
def test_an_area_and_its_variance_are_those_of_all_pairs_of_rows(seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(0, 5, int(rng.integers(2, 9))).astype(float) for _ in range(2))
    wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    found, variance = area(x, y)
    assert found == pytest.approx(wins.mean())
    of_x, of_y = (wins.mean(axis=k).var(ddof=1) for k in (1, 0))
    wanted = of_x / len(x) + of_y / len(y) + 0.25 / (len(x) * len(y))
    assert variance == pytest.approx(wanted)


BEFORE = pd.DataFrame(
    {
        "age": [10, 20, 30, 40],
        "pay": [1.0, np.nan, 3.0, 5.0],
        "job": ["a", "b", None, "a"],
        "same": [7, 7, 7, 7],
    }
)


def test_numbers_change_in_standard_deviations_and_words_by_shares():
    after = BEFORE.assign(
        age=[10, 30, 30, 40], pay=[2.0, 9.0, np.nan, 5.0], job=["a", "a", None, "b"]
    )
    spread = np.std([1.0, 3.0, 5.0])
    parts = {
        "age": 2.5 / np.std([10, 20, 30, 40]),
        "pay": 0.5 / spread,
        "job": 0.5,
    }
    for names in (["age"], ["pay"], ["job"], ["age", "pay", "job", "same"]):
        change, same = changes(BEFORE, after, names)
        assert change == pytest.approx(np.mean([parts[k] for k in names if k != "same"]))
        assert same.shape == (4, len(names))
    assert same.T.tolist() == [
        [True, False, True, True],
        [False, False, False, True],
        [True, False, True, False],
        [True] * 4,
    ]
    assert changes(BEFORE, BEFORE.assign(same=9), ["same"])[0] == 0.0
    assert changes(BEFORE, BEFORE, list(BEFORE))[0] == 0.0
    two = pd.DataFrame({"x": list("mfmf")})
    assert changes(two, two.assign(x=list("mmmf")), ["x"])[0] == 0.25
    words = BEFORE.assign(age=["x", "20", "30", "40"])
    assert changes(BEFORE, words, ["age"])[0] == 1.0  # numbers that became words are others
    gone = BEFORE.assign(age=[None, None, None, None])
    assert changes(BEFORE, gone, ["age"])[0] == 1.0


def test_values_are_equal_if_they_are_or_both_are_missing():
    one = pd.DataFrame({"n": pd.Series([1, 2, None, None], dtype="Int64")})
    other = pd.DataFrame({"n": [1.0, 3.0, None, 4.0]})
    assert changes(one, other, ["n"])[1].ravel().tolist() == [True, False, True, False]


def test_constants_are_lower_medians_and_the_most_frequent_words():
    days = pd.to_datetime(["2020-01-01", "2020-01-03", "2020-01-09", "2020-01-04"])
    table = BEFORE.assign(day=days, none=[None] * 4)
    blank = constants(table, ["age", "pay", "job", "day", "none"])
    assert blank["age"].tolist() == [20] * 4
    assert blank["pay"].tolist() == [3.0] * 4
    assert blank["job"].tolist() == ["a"] * 4
    assert blank["day"].tolist() == [days[1]] * 4
    assert blank["none"].isna().all()
    assert list(table["age"]) == [10, 20, 30, 40]


def test_equal_rows_are_counted_missing_values_among_them():
    rows = pd.DataFrame({"a": [1, 1, 2, None, None, 3], "b": list("xxyzzx")})
    for some, columns, counts in [
        (rows, ["a", "b"], [4.0, 2 / 6, 1.0]),
        (rows, ["b"], [3.0, 1 / 6, 1.0]),
        (rows.iloc[[0, 1, 3, 4]], ["a", "b"], [2.0, 0.0, 2.0]),
    ]:
        told = seen(some.reset_index(drop=True), columns)
        figures = reidentified(told, told, np.arange(len(told)))[:3]
        assert [figure.before for figure in figures] == counts
        assert [figure.after for figure in figures] == counts


def test_parts_of_a_table_come_together_in_its_order_and_types():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": np.arange(9), "y": np.arange(9) / 2, "w": list("abcdefghi")})
    table = table.assign(
        small=np.arange(9, dtype=np.int8),
        gaps=pd.array([1, None] * 4 + [3], "Int64"),
        size=pd.Categorical(list("smlsmlsml"), list("sml"), ordered=True),
    )
    parts = [np.sort(part) for part in np.array_split(rng.permutation(9), 3)]
    frames = [table.iloc[part] for part in parts]
    pd.testing.assert_frame_equal(put_together(frames, parts), table)


def test_a_small_table_is_folds_of_itself_and_a_large_one_is_divided():
    fitted, held, folds = parted(903, None, 3)
    assert fitted.tolist() == held.tolist() == [*range(903)]
    assert len(folds) == FOLDS
    assert sorted(map(len, folds)) == [180, 180, 181, 181, 181]
    assert sorted(np.concatenate(folds)) == [*range(903)]
    assert all((np.diff(fold) > 0).all() for fold in folds)
    for most, n_fitted in ((None, 30_000), (700, 700)):
        fitted, held, folds = parted(50_000, most, 3)
        assert (len(held), len(fitted), len(folds)) == (20_000, n_fitted, 0)
        assert not {*held} & {*fitted}
        assert (np.diff(held) > 0).all()
        assert (np.diff(fitted) > 0).all()


def test_pairs_with_enough_rows_in_each_part_are_attacked():
    n = 3 * LEAST
    codes = np.repeat([0, 1, 2], [n, n, n - 1])
    rows = np.arange(len(codes))
    thirds = [np.array([k for k in rows if k % 3 == part]) for part in range(3)]
    secrets = Secrets("s", ("a", "b", "c"), codes, [(0, 1), (0, 2), (2, 1)])
    assert secrets.with_rows(LEAST, *thirds).pairs == [(0, 1)]


def test_rows_with_a_target_are_those_in_which_it_is_not_missing():
    assert known_rows(np.array([1.0, np.nan, 0.0])).tolist() == [0, 2]
    assert known_rows(np.array(["a", None, "", np.nan], dtype=object)).tolist() == [0, 2]


class Known:
    """A model that knows classes a and b, by the first column."""

    classes_ = np.array(["a", "b"])

    def predict_proba(self, rows):
        return np.column_stack([1.0 - rows, rows])


def test_the_area_of_classes_is_a_mean_and_half_for_those_that_were_not_learnt():
    rows = np.array([0.1, 0.9, 0.8, 0.2])
    assert _auc(Known(), rows, np.array(["a", "b", "b", "a"])) == 1.0
    assert _auc(Known(), rows, np.array(["a", "b", "a", "b"])) == 0.75
    assert math.isnan(_auc(Known(), rows, np.array(["a"] * 4)))
    with_c = _auc(Known(), rows, np.array(["a", "b", "c", "a"]))
    assert with_c == pytest.approx((1.0 + 1.0 + 0.5) / 3)
    one = boosted(2).fit(pd.DataFrame({"x": rows}), ["a"] * 4)  # trees give its chances two columns
    assert _auc(one, pd.DataFrame({"x": rows}), np.array(["a", "b", "a", "b"])) == 0.5


def test_a_task_is_a_column_or_a_model_with_its_target():
    table = frame_table(BEFORE.assign(many=[1, 2, 3, 4], gone=[np.nan] * 4))
    assert task_of(None, table) is None
    column = task_of("age", table)
    assert (column.name, column.target.tolist()) == ("age", [10, 20, 30, 40])
    wide = frame_table(pd.DataFrame({"x": np.arange(21), "few": np.arange(21) % 20}))
    assert [is_regressor(task_of(name, wide).model) for name in ("x", "few")] == [True, False]
    for bad, error, message in (
        ("gone", ValueError, "'gone', which has no value"),
        ((LogisticRegression(), [0, 1, 0, 1]), TypeError, "task must hold column names"),
    ):
        with pytest.raises(error, match=message):
            task_of(bad, table)


def test_a_task_is_scored_on_true_rows_by_a_model_of_others_without_missing_targets():
    true = pd.DataFrame({"x": np.arange(8.0)})
    target = np.array([0.0, 2.0, 4.0, 6.0, 8.0, np.nan, 12.0, 14.0])
    task = Task("y", Pipeline([("model", LinearRegression())]), target)
    even, odd = np.arange(0, 8, 2), np.arange(1, 8, 2)
    split = RowSplit(even, even[:0], odd)
    assert task.score(true, true, split) == pytest.approx(1.0)
    shifted = np.where(np.arange(8) == 6, np.nan, target + 1.0)
    scores = [1.0 - 1.0 / np.nanvar(target[part]) for part in (even, odd)]
    assert task.score(true.assign(y=shifted), true, split) == pytest.approx(np.mean(scores))


def test_a_score_is_the_mean_over_both_halves_each_learnt_from_the_other():
    rng = np.random.default_rng(0)
    true = pd.DataFrame({"x": rng.normal(size=60)})
    target = true["x"].to_numpy() + rng.normal(size=60)
    task, split = Task("y", Pipeline([("model", LinearRegression())]), target), RowSplit.of(60, 0)
    released = true + rng.normal(size=(60, 1))
    scores = []
    for train, test in ((split.shown, split.test), (split.test, split.shown)):
        model = LinearRegression().fit(released.iloc[train], target[train])
        scores.append(model.score(true.iloc[test], target[test]))
    assert task.score(released, true, split) == pytest.approx(np.mean(scores))


def test_a_release_of_codes_of_words_alone_has_no_score():
    words = pd.DataFrame({"job": pd.Categorical(list("abab"))})
    task = Task("y", LinearRegression(), np.arange(4.0))
    codes = words.assign(job=[0.5, 1.0, 0.0, 2.0])
    assert math.isnan(task.score(codes, words, RowSplit.of(4, 0)))


def test_an_attack_has_the_interval_of_its_area_and_a_least_end_over_all_pairs():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 900)
    rows = pd.DataFrame({"x": rng.normal(size=900) + 0.6 * (codes == 1)})
    split = RowSplit.of(900, 0)
    secret = Secrets("s", "abc", codes, [(1, 0), (1, 2)])
    found = attacked(rows, [secret], split, {"linear": LogisticRegression()})
    x, labels = rows["x"].to_numpy()[split.test], codes[split.test]
    areas = []
    for other in (0, 2):
        wins = np.sign(x[labels == 1][:, None] - x[labels == other]) / 2 + 0.5
        n, m = wins.shape
        spread = wins.mean(axis=1).var(ddof=1) / n + wins.mean(axis=0).var(ddof=1) / m
        areas.append((wins.mean(), math.sqrt(spread + 0.25 / (n * m))))
    auc, error = min(areas, key=lambda each: abs(each[0] - found["attack"]))
    assert found["attacker"] == "linear"
    assert found["attack"] == pytest.approx(auc, abs=0.01)
    assert found["high"] - found["attack"] == pytest.approx(1.96 * error, rel=0.05)
    assert found["attack"] - found["low"] == pytest.approx(found["high"] - found["attack"])
    least = max(area - stats.norm.isf(0.05 / 4) * error for area, error in areas)
    assert found["least"] == pytest.approx(least, abs=0.01)
