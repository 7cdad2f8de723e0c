"""Prototypes that part what a label needs: scores as further coordinates, which need no label."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_puffer import PufferfishMicroaggregator
from sklearn_puffer._microaggregator import fit
from sklearn_puffer._microaggregator.coordinates import Coordinates, sample_rows
from sklearn_puffer._microaggregator.prototypes import Prototypes, mean_changes, with_scores
from sklearn_puffer._microaggregator.release import read, written
from sklearn_puffer._tables import frame_table


def table_of(n_rows=300, seed=0):
    """Return columns of which the second matters least to distances and most to the label."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    X["job"] = rng.choice(["cook", "clerk", "smith"], n_rows)
    y = np.where(X["b"] + 0.1 * rng.normal(size=n_rows) > 0.5, "yes", "no")
    return X, y


def learnt(X, y, weight=2.0):
    table = frame_table(X)
    columns = {name: table.values(name) for name in table.names}
    labels = None if y is None else frame_table(pd.DataFrame({"y": y})).values("y")
    sample = sample_rows(columns, labels)
    return table, sample, with_scores(Coordinates.learnt(sample), sample, weight)


def prototypes_of(X, y, n_prototypes=6, weight=2.0):
    _, sample, space = learnt(X, y, weight)
    return Prototypes.learnt(space, sample, n_prototypes, 5)


def codes_of(prototypes, X):
    return prototypes.assign(prototypes.coordinates.read(frame_table(X)))


def without_scores(table, space):
    return Coordinates(space.axes).read(table).dense()


@pytest.mark.parametrize("kind", ["classes", "booleans", "whole", "numbers"])
def test_a_score_is_the_standardised_line_of_a_regression(kind):
    X, y = table_of()
    y = {
        "classes": y,
        "booleans": y == "yes",
        "whole": (y == "yes").astype(int),
        "numbers": X["b"] ** 2 + X["a"],
    }[kind]
    table, _, space = learnt(X, y)
    points = without_scores(table, space)
    model = Ridge() if kind == "numbers" else LogisticRegression(max_iter=200)
    rarest = y if kind == "numbers" else y == min(set(y), key=list(y).count)
    model.fit(points, rarest)
    heights = points @ model.coef_.ravel() + model.intercept_
    expected = 2.0 * np.clip((heights - heights.mean()) / heights.std(), -4.0, 4.0)
    assert np.allclose(space.read(table).dense()[:, 4], expected, atol=1e-2)
    assert np.corrcoef(space.read(table).dense()[:, 4], expected)[0, 1] > 0.99999


def test_each_class_but_the_most_frequent_has_a_score():
    X, _ = table_of()
    y = np.select([X["b"] > 1, X["b"] > 0, X["a"] > 0], ["x", "y", "z"], "w")
    table, _, space = learnt(X, y)
    assert len(space.scores) == 3
    most = max(set(y), key=list(y).count)
    scores = space.read(table).dense()[:, 4:7]
    for name in set(y) - {most}:
        assert max(np.corrcoef(column, y == name)[0, 1] for column in scores.T) > 0.4


def test_classes_are_many_only_up_to_a_limit():
    X, _ = table_of()
    y = np.array([f"class {k % 40}" for k in range(300)])
    assert len(learnt(X, y)[2].scores) == 10


@given(st.permutations(range(60)), st.sampled_from(["classes", "numbers"]))
@pytest.mark.slow
def test_the_order_of_rows_does_not_matter_to_scores(order, kind):
    X, y = table_of(60)
    y = pd.Series(y if kind == "classes" else X["b"] ** 2)
    first = prototypes_of(X, y)
    turned = X.iloc[order].reset_index(drop=True)
    other = prototypes_of(turned, y.iloc[order].reset_index(drop=True))
    assert written(other) == written(first)


@pytest.mark.slow
def test_the_more_labels_weigh_the_more_rows_of_different_ones_are_parted():
    X, y = table_of(2000)
    mixed = []
    for weight in (0.0, 1.0, 2.0, 4.0):
        codes = codes_of(prototypes_of(X, y, 12, weight), X)
        shares = pd.Series(y == "yes").groupby(codes).transform("mean")
        mixed.append(float((shares * (1 - shares)).mean()))
    assert mixed == sorted(mixed, reverse=True)
    assert mixed[-1] < mixed[0] / 3


def test_the_score_of_a_row_needs_no_label_and_comes_back_from_json():
    X, y = table_of()
    prototypes = prototypes_of(X, y)
    text = json.dumps(written(prototypes), allow_nan=False)
    again = read(json.loads(text))
    assert again.coordinates == prototypes.coordinates
    assert codes_of(again, X).tolist() == codes_of(prototypes, X).tolist()
    assert "yes" not in text
    assert '"no"' not in text


def test_scores_are_clipped_at_four_weights():
    X, y = table_of()
    _, _, space = learnt(X, y, weight=0.5)
    far = X.assign(b=1e6)
    assert np.abs(space.read(frame_table(far)).dense()[:, 4]).max() <= 2.0


@pytest.mark.parametrize("y", ["yes", 1.5, None])
def test_labels_of_one_value_and_none_at_all_leave_coordinates_as_they_are(y):
    X, _ = table_of(50)
    assert learnt(X, np.full(50, y, dtype=object))[2].scores is None
    assert learnt(X, None)[2].scores is None


def test_a_weight_of_nothing_leaves_labels_out():
    X, y = table_of(50)
    assert learnt(X, y, weight=0.0)[2].scores is None


def test_columns_that_say_nothing_of_a_label_have_no_score():
    X = pd.DataFrame({"a": np.ones(40)})
    assert learnt(X, np.tile([0, 1], 20))[2].scores is None


def test_rows_without_a_label_are_left_out():
    X, y = table_of()
    gaps = pd.Series(y).where(np.arange(300) % 5 > 0)
    _, _, space = learnt(X, gaps)
    assert len(space.scores) == 1


def test_infinite_labels_are_refused():
    X, _ = table_of(50)
    with pytest.raises(ValueError, match="column 'y' contains infinity"):
        learnt(X, np.where(np.arange(50) == 3, np.inf, 1.0))


def test_mean_changes_leave_scores_out():
    X, y = table_of()
    prototypes = prototypes_of(X, y)
    rows = prototypes.coordinates.read(frame_table(X))
    codes = prototypes.assign(rows)
    changes = mean_changes(prototypes, rows.points(slice(0, len(rows))), codes)
    points = without_scores(frame_table(X), prototypes.coordinates)
    places = Coordinates(prototypes.coordinates.axes).rows(prototypes.rows).dense()
    expected = [
        [np.abs(points[codes == a] - place).sum(axis=1).mean() for place in places]
        for a in range(len(prototypes))
    ]
    assert np.allclose(changes.distances, expected, atol=1e-12)
    heights, own = (
        of[:, 4] for of in (rows.dense(), prototypes.coordinates.rows(prototypes.rows).dense())
    )
    apart = [[np.abs(heights[codes == a] - place).mean() for place in own] for a in range(len(own))]
    assert np.allclose(changes.scores, apart, atol=1e-12)
    plain = prototypes_of(X, None)
    rows = plain.coordinates.read(frame_table(X))
    assert not mean_changes(plain, rows.points(slice(0, len(rows))), codes % 2).scores.any()


def test_the_channel_keeps_what_a_label_makes_of_rows(monkeypatch):
    rng = np.random.default_rng(3)
    b = rng.integers(0, 4, 900) / 3.0
    X = pd.DataFrame(
        {"b": b, "ill": rng.random(900) < 0.2 + 0.5 * b, "place": rng.integers(0, 3, 900)}
    )
    y = b + 0.1 * rng.normal(size=900) > 0.5
    moved = []
    for weight in (1.0, 0.0):

        def changes(*about, weight=weight):
            found = mean_changes(*about)
            return replace(found, scores=weight * found.scores)

        monkeypatch.setattr(fit, "mean_changes", changes)
        rows = PufferfishMicroaggregator(0.3, sensitive="ill", n_prototypes=12).fit(X, y)
        codes, channel = rows.labels_, rows.channel_.toarray()
        heights = (rows.prototypes_["b"] > 0.5).to_numpy()
        moved.append(channel[codes] @ heights @ np.where(y, -1.0, 1.0))
        assert rows.certificate_.loss <= 0.3
    assert moved[0] < moved[1]


def test_scores_are_exact_sums_whatever_the_order():
    X, y = table_of()
    table, _, space = learnt(X, y)
    points, slopes = without_scores(table, space), np.array(space.scores.slopes[0])
    forth, back = (sum(column * s for column, s in zip(p.T, t, strict=True))
                   for p, t in ((points, slopes), (points[:, ::-1], slopes[::-1])))  # fmt: skip
    assert np.array_equal(forth, back)
    assert np.array_equal(forth, points @ slopes)
