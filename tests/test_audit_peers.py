"""Peers of an audit: their rows are what they say, and they have no promise and no finding."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom
from sklearn.naive_bayes import GaussianNB

from sklearn_puffer import PufferfishNoiser, TradeoffDisplay, audit
from sklearn_puffer._signoff.peers import remove_correlations, respond

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PLAIN = {"repeats": 1, "knows": []}
BOTH = ["randomised response", "correlation remover"]


def mixed(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n_rows)
    visits = rng.integers(0, 4, n_rows) + 3 * (group == "a")
    town = rng.choice(["x", "y", None], n_rows)
    return pd.DataFrame({"group": group, "visits": visits, "town": town, "late": visits > 3})


def released(table, **more):
    options = {"sensitive": "group", "public": ["visits", "town"], "missing": "category"}
    return PufferfishNoiser(1.0, **options, **more).fit(table)


def test_a_value_stays_or_becomes_any_other_with_the_chances_of_randomised_response():
    n, epsilon = 20_000, 2.0
    one = pd.DataFrame({"x": np.arange(n) % 3, "same": 1, "y": [0.5, None] * (n // 2)})
    found = respond(one, [], epsilon)
    assert found.after.dtypes.equals(one.dtypes)
    assert (found.after["same"] == 1).all()
    for name, k in (("x", 3), ("y", 2)):  # half of epsilon for each of two columns
        chance = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + k - 1)
        same = (found.after[name] == one[name]) | (found.after[name].isna() & one[name].isna())
        assert binom.ppf(1e-6, n, chance) <= same.sum() <= binom.isf(1e-6, n, chance)
    other = found.after["x"][(found.after["x"] != one["x"]) & (one["x"] == 0)].value_counts()
    assert binom.ppf(1e-6, other.sum(), 0.5) <= other.min()
    assert "epsilon 1 a column (2 over 2)" in found.about


def test_the_remover_leaves_nothing_linear_in_the_secret():
    table = mixed()
    group = (table["group"] == "a").to_numpy().astype(int)
    frame = pd.DataFrame({"visits": table["visits"], "town": table["town"].astype("category")})
    found = remove_correlations(frame, [group], 1.0)
    assert set(found.after) == {"visits", "town = x", "town = y"}
    assert found.origin["town = x"] == "town"
    for name in found.after:
        assert abs(np.corrcoef(found.after[name], group)[0, 1]) < 1e-9
    assert abs(np.corrcoef(found.before["visits"], group)[0, 1]) > 0.5


def test_peers_are_rows_of_the_table_without_a_p_value_and_never_findings():
    table = mixed()
    found = audit(released(table), table, GaussianNB(), task="late", peers=BOTH, **PLAIN)
    ours, theirs = found.table[: len(found.attacks)], found.table[len(found.attacks) :]
    assert set(theirs["view"]) == {f"peer: {name}" for name in BOTH}
    assert (ours["view"] == "released").all()
    assert theirs[["p", "p_all", "certified", "findable"]].isna().all(axis=None)
    assert theirs["auc"].notna().all()
    assert not found.findings
    scores = found.utility.set_index("what").loc["AUC on true rows"]
    assert scores[[f"peer: {name}" for name in BOTH]].between(0.0, 1.0).all()
    assert "HAVE NO SUCH PROMISE" in str(found)
    assert [each["name"] for each in json.loads(found.to_json())["peers"]] == BOTH


def test_a_peer_that_tells_everything_reaches_what_the_control_does_and_is_no_finding():
    table = mixed()
    for kind in (lambda frame: frame, pl.from_pandas):
        given = {"nothing hidden": kind(table)}
        found = audit(released(table), table, GaussianNB(), task="visits", peers=given, **PLAIN)
        (peer,) = found.peers
        assert [a.auc for a in peer.attacks] == pytest.approx([a.auc for a in found.control])
        assert set(found.utility.loc[:1, "peer: nothing hidden"]) <= {1.0, table["visits"].median()}
        assert not found.findings


def test_attack_against_utility_has_a_point_without_a_promise_for_each_peer():
    table = mixed()
    found = audit(released(table), table, GaussianNB(), task="late", peers=BOTH, **PLAIN)
    display = TradeoffDisplay.from_audits(found)
    assert display.names == ["release", *BOTH]
    assert display.is_peer.tolist() == [False, True, True]
    assert np.isnan(display.allowed).tolist() == [False, True, True]
    assert TradeoffDisplay.from_audits([found, found]).names[1:3] == [
        f"{name}, beside release 1" for name in BOTH
    ]


def test_several_secrets_and_few_of_the_rows_have_peers_too():
    table = mixed(600)
    both = PufferfishNoiser(sensitive=["group", "late"], missing="category").fit(table)
    found = audit(both, table, GaussianNB(), peers=BOTH, max_rows=300, **PLAIN)
    assert {each.sensitive for peer in found.peers for each in peer.attacks} == {"group", "late"}


@pytest.mark.parametrize(
    ("peers", "error", "message"),
    [
        ("anonymeter", ValueError, "peers holds 'anonymeter'; name 'randomised response'"),
        (3, ValueError, "peers holds 3"),
        ([["x"]], ValueError, "peers holds"),
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


def test_without_fairlearn_the_way_to_it_is_named(monkeypatch):
    table = mixed()
    monkeypatch.setitem(sys.modules, "fairlearn.preprocessing", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "sklearn-puffer\[peers\]"'):
        audit(released(table), table, GaussianNB(), peers="correlation remover")
