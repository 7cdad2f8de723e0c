"""Values that are read as others: merged secrets, coarse known columns, distances of secrets."""

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer._codes.secrets import (
    Coarse,
    SecretRule,
    distances_of,
    merged_values,
    merges_of,
)
from sklearn_puffer._tables import Values, frame_table


def columns(**listed):
    table = frame_table(pd.DataFrame(listed))
    return {name: table.values(name) for name in listed}


def read(values):
    """Return a column as a list; None is missing."""
    levels = values.levels
    data = values.filled(-1).tolist()
    return data if levels is None else [None if k < 0 else levels[k] for k in data]


ILL = ["flu", "none", "cold", "flu", "ulcer"]
MERGED = {"flu": "airways", "cold": "airways"}


def test_groups_of_secrets_are_of_one_column_or_of_each_that_is_named():
    groups = {"airways": ["flu", "cold"]}
    assert merges_of(None, ["ill"]) == {}
    assert merges_of(groups, ["ill"]) == {"ill": MERGED}
    assert merges_of({"ill": groups}, ["ill"]) == {"ill": MERGED}
    assert merges_of({"ill": groups}, ["sex", "ill"]) == {"ill": MERGED}
    numbers = merges_of({"low": [np.int64(1), 2]}, ["x"])["x"]
    assert numbers == {1: "low", 2: "low"}
    for argument, names, error, message in (
        ({}, ["ill"], TypeError, "secret_groups must be"),
        (["flu"], ["ill"], TypeError, "secret_groups must be"),
        (groups, ["sex", "ill"], ValueError, "name the column"),
        ({"age": groups}, ["sex", "ill"], ValueError, "secret_groups names column 'age'"),
        ({"a": "flu"}, ["ill"], TypeError, r"secret_groups\['a'\] must be a list of values"),
        ({"a": 3}, ["ill"], TypeError, r"secret_groups\['a'\] must be a list of values"),
        ({"a": ["x"], "b": ["x"]}, ["ill"], ValueError, "has 'x' twice"),
    ):
        with pytest.raises(error, match=message):
            merges_of(argument, names)


@pytest.mark.parametrize("gap", [False, True])
def test_merged_values_are_those_of_a_mapping_and_others_stay(gap):
    listed = [None if gap and k == 1 else word for k, word in enumerate(ILL)]
    [values] = columns(ill=listed).values()
    merged = merged_values(values, MERGED)
    assert read(merged) == [MERGED.get(word, word) for word in listed]
    assert len({*merged.levels}) == len(merged.levels)
    assert merged_values(values, {}) is values
    numbers = merged_values(Values("integer", np.array([3, 1, 2])), {3: 1})
    assert read(numbers) == [1, 1, 2]


def test_known_columns_are_in_bins_merged_or_as_they_are():
    of = columns(age=[20, 30, 40, 50], ill=ILL[:4], town=list("abab"), passed=[1, 2, 3, 4])
    coarse = Coarse.learnt({"age": 2, "ill": MERGED, "town": None}, of)
    assert read(coarse.of("age", of["age"])) == [20, 20, 40, 40]
    assert coarse.of("age", of["age"]).data.dtype == of["age"].data.dtype
    assert read(coarse.of("ill", of["ill"])) == ["airways", "none", "airways", "airways"]
    assert coarse.of("town", of["town"]) is of["town"]
    assert [coarse.named(name) for name in of] == [
        "age (in bins)",
        "ill (merged)",
        "town",
        "passed",
    ]
    gone = Values("integer", np.array([99, 40]), np.array([True, False]))
    binned = coarse.of("age", gone)
    assert binned.missing.tolist() == [True, False]
    assert binned.data[1] == 40
    for how in (["age"], None):
        nothing = Coarse.learnt(how, of)
        assert not nothing.bins
        assert not nothing.known
    for bad in (1, 1001, True, 2.5, "3"):
        with pytest.raises(ValueError, match=r"known\['age'\] must be from 2 to 1000 bins"):
            Coarse.learnt({"age": bad}, of)
    assert Coarse.learnt({"age": 1000}, of).bins
    with pytest.raises(ValueError, match=r"known\['ill'\] names 'gout', which column 'ill'"):
        Coarse.learnt({"age": 2, "ill": {"gout": "other"}}, of)


def rule_of(of, bins=None, merged=None, missing="error"):
    return SecretRule.learnt(of, bins or {}, missing, merged or {})


def test_secrets_are_combinations_of_what_each_column_is_read_as():
    of = columns(score=[1.0, 2.0, 3.0, 4.0, 1.0], ill=ILL)
    rule, secret = rule_of(of, {"score": [2.0]}, {"ill": MERGED})
    labels = [secret.labels[code] for code in secret.codes(5)]
    assert [low for low, _ in labels] == [labels[0][0]] * 2 + [labels[2][0]] * 2 + [labels[0][0]]
    assert [ill for _, ill in labels] == ["airways", "none", "airways", "airways", "ulcer"]
    assert rule.name == secret.name == "score and ill"
    assert rule.labels == secret.labels
    alone, own = rule_of(columns(ill=ILL))
    assert (alone.name, own.labels) == ("ill", ("cold", "flu", "none", "ulcer"))
    with pytest.raises(ValueError, match="secret_groups names 'gout'"):
        rule_of(columns(ill=ILL), merged={"ill": {"gout": "x"}})
    with pytest.raises(ValueError, match="has one value only"):
        rule_of(columns(ill=["flu", "flu"]))
    _, gaps = rule_of(columns(ill=["flu", None]), missing="category")
    assert set(gaps.labels) == {"flu", "missing"}


def test_secrets_of_new_rows_have_the_codes_of_fit_wherever_they_are_given():
    rule, _ = rule_of(columns(ill=ILL))
    table = frame_table(pd.DataFrame({"ill": ["none", "flu"], "x": [1, 2]}))
    assert rule.found(table, None).codes(2).tolist() == [2, 1]
    assert rule.found(table, None).labels == rule.labels
    bare = frame_table(pd.DataFrame({"x": [1, 2]}))
    for name in ("ill", "sensitive_feature"):
        beside = columns(**{name: ["ulcer", "cold"]})
        assert rule.found(bare, beside).codes(2).tolist() == [3, 0]
    nobody = rule.found(frame_table(pd.DataFrame({"ill": [], "x": []})), None)
    assert (nobody.labels, nobody.codes(0).tolist()) == (rule.labels, [])
    with pytest.raises(ValueError, match="give the sensitive column"):
        rule.found(bare, None)
    with pytest.raises(ValueError, match=r"X has 1 secret\(s\) that fit has not seen"):
        rule.found(bare, columns(ill=["gout", "flu"]))
    both, _ = rule_of(columns(ill=ILL, sex=list("mfmfm")))
    for beside in (columns(ill=["flu", "flu"]), columns(a=["flu"], b=["m"])):
        with pytest.raises(ValueError, match="sensitive_features has the column"):
            both.found(bare, beside)
    two = columns(sex=["f", "m"], ill=["none", "flu"])
    found = both.found(bare, two)
    assert [found.labels[k] for k in found.codes(2)] == [("none", "f"), ("flu", "m")]


def test_distances_of_secrets_are_steps_or_those_of_a_symmetric_function():
    rule, secret = rule_of(columns(score=[1.0, 2.0, 3.0, 4.0]), {"score": [1.0, 2.0, 3.0]})
    names = secret.labels
    pairs = [(names[0], names[3]), (names[2], names[1])]
    assert distances_of(None, rule, pairs) == ()
    assert distances_of("steps", rule, pairs) == (3.0, 1.0)
    assert distances_of(lambda a, b: 2 + abs(len(a) - len(b)), rule, pairs[1:]) == (2.0,)
    words, _ = rule_of(columns(ill=ILL))
    with pytest.raises(ValueError, match='metric="steps" counts the bins'):
        distances_of("steps", words, [("flu", "cold")])
    for metric in ("leaps", 3):
        with pytest.raises(TypeError, match='metric must be "steps" or a function'):
            distances_of(metric, rule, pairs)
    for bad in (lambda a, b: a < b, lambda a, b: 0.0, lambda a, b: np.inf, lambda a, b: -1.0):
        with pytest.raises(ValueError, match="must be symmetric, positive and finite"):
            distances_of(bad, words, [("flu", "cold")])
