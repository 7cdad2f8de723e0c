"""Peers of an audit: their rows are what they say, and they have no guarantee and no finding."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import PufferfishNoiser, audit
from sklearn_puffer.displays import TradeoffDisplay

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
TREE = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
BOTH = ["nothing but constants", "mean removed"]


def mixed(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n_rows)
    visits = rng.integers(0, 4, n_rows) + 3 * (group == "a")
    town = rng.choice(["x", "y", None], n_rows)
    return pd.DataFrame({"group": group, "visits": visits, "town": town, "late": visits > 3})


def released(table, **more):
    options = {"sensitive": "group", "public": ["visits", "town"], "missing": "category"}
    return PufferfishNoiser(1.0, **options, **more).fit(table)


def beside(table):
    """Return rows as two other ways release them, of which one lacks a column."""
    mean = table.groupby("group")["visits"].transform("mean")
    return {
        "nothing but constants": table.assign(visits=2, town="x"),
        "mean removed": (table["visits"] - mean).round(1).to_frame(),
    }


@pytest.mark.slow
def test_peers_are_rows_of_the_table_without_a_p_value_and_never_findings():
    table = mixed()
    found = audit(released(table), table, TREE, task="late", peers=beside(table))
    ours, theirs = found.table[: len(found.attacks)], found.table[len(found.attacks) :]
    assert set(theirs["view"]) == {f"peer: {name}" for name in BOTH}
    assert set(ours["view"]) == {"fresh models", "better model"}
    assert theirs[["p", "p_all", "certified", "findable"]].isna().all(axis=None)
    assert theirs["auc"].notna().all()
    assert not found.findings
    constants, moved = found.peers
    assert {each.auc for each in constants.attacks} == {0.5}
    assert max(each.auc for each in moved.attacks) > 0.9  # one lattice of values for each secret
    scores = found.utility.set_index("what").loc["AUC on true rows"]
    assert scores[[f"peer: {name}" for name in BOTH]].between(0.0, 1.0).all()
    assert "HAVE NO SUCH PROMISE" in str(found)
    assert [each["name"] for each in json.loads(found.to_json())["peers"]] == BOTH


@pytest.mark.slow
def test_a_peer_that_tells_everything_reaches_what_the_control_does_and_is_no_finding():
    table = mixed()
    given = {"nothing hidden": table, "nor in polars": pl.from_pandas(table)}
    found = audit(released(table), table, GaussianNB(), task="visits", peers=given)
    assert not found.findings
    for name, peer in zip(given, found.peers, strict=True):
        assert [a.auc for a in peer.attacks] == pytest.approx([a.auc for a in found.control])
        kept = found.utility.set_index(["what", "column"])[f"peer: {name}"]
        assert kept["unchanged share", "visits"] == 1.0
        assert kept["median", "visits"] == table["visits"].median()


@pytest.mark.slow
def test_attack_against_utility_has_a_point_without_a_guarantee_for_each_peer():
    table = mixed()
    found = audit(released(table), table, TREE, task="late", peers=beside(table))
    display = TradeoffDisplay.from_audits(found)
    assert display.names == ["release", *BOTH]
    assert display.is_peer.tolist() == [False, True, True]
    assert np.isnan(display.allowed).tolist() == [False, True, True]
    assert TradeoffDisplay.from_audits([found, found]).names[1:3] == [
        f"{name}, beside release 1" for name in BOTH
    ]


@pytest.mark.slow
def test_several_secrets_and_few_of_the_rows_have_peers_too():
    table = mixed(600)
    both = PufferfishNoiser(sensitive=["group", "late"], missing="category").fit(table)
    found = audit(both, table, TREE, peers=beside(table), max_rows=300)
    assert {each.sensitive for peer in found.peers for each in peer.attacks} == {"group", "late"}


@pytest.mark.parametrize(
    ("peers", "error", "message"),
    [
        ("randomised response", TypeError, "peers is 'randomised response'; give {name: DataFr"),
        ([mixed()], TypeError, r"peers is \[.*; give {name: DataFrame}"),
        ({"mine": [1, 2]}, TypeError, "peers gives 'mine' as list; give a DataFrame"),
        ({"mine": None}, TypeError, "peers gives 'mine' as NoneType"),
        ({"mine": mixed(5)}, ValueError, "peers gives 'mine' 5 rows beside 400"),
        ({"mine": mixed()[["late"]]}, ValueError, "without any of the released columns 'visits'"),
    ],
)
def test_what_is_no_peer_is_refused_by_name(peers, error, message):
    table = mixed()
    with pytest.raises(error, match=message):
        audit(released(table), table, GaussianNB(), peers=peers)
