"""Readers of an audit find mechanisms that are broken on purpose, and let honest ones be."""

import sys

import numpy as np
import pandas as pd
import pytest
from attacking import audit
from old_swap import swap as old_swap
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
)
from sklearn_puffer._review import readers
from sklearn_puffer._review.readers import boosted
from sklearn_puffer.datasets import make_people

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("seeded_draws"),
]
QUICK = {"quick": LogisticRegression()}
N = 900


@pytest.fixture
def findings_alone(monkeypatch):
    """Leave out of an audit what no finding depends on, and most trees: so many can be made."""
    monkeypatch.setattr(readers, "boosted", lambda _: boosted(15))
    module = sys.modules["sklearn_puffer._review.audit"]
    monkeypatch.setattr(module, "_notes", lambda *_: [])
    monkeypatch.setattr(module, "reidentified", lambda *_: [])


def people(seed, n=N):
    """Return people whose pulse and age tell much of the secret; the number says nothing."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "client": rng.permutation(n) + 10_000,
            "ill": ill,
            "age": rng.integers(20, 60, n) + 12 * ill,
            "pulse": np.round(60 + 10 * ill + rng.normal(0, 6, n), 2),
            "renewed": rng.random(n) < 0.3 + 0.4 * ill,
        }
    )


PUBLIC = ["age", "pulse"]


def swapped(table, kind=PufferfishSwap, **more):
    return kind(1.0, sensitive="ill", ids="client", public=PUBLIC, **more).fit(table)


def typical(table, kind=PufferfishMicroaggregator, **more):
    more = {"n_prototypes": 8, **more}
    return kind(1.0, sensitive="ill", public=PUBLIC, **more).fit(table)


class RandomSwap(PufferfishSwap):
    """Hands on the rows of a third of the people among themselves, at random."""

    def transform(self, X, **settings):
        released = X[["client", *PUBLIC]].copy()
        rng = np.random.default_rng(len(X))
        moved = np.sort(rng.choice(len(X), len(X) // 3, replace=False))
        source = np.arange(len(X))
        source[moved] = rng.permutation(moved)
        for name in PUBLIC:
            released[name] = X[name].to_numpy()[source]
        return released


class OldSwap(PufferfishSwap):
    """Exchanges rows as the swap of 0.2 did."""

    def transform(self, X, **settings):
        released = X[["client", *PUBLIC]].copy()
        model, rng = LogisticRegression(max_iter=500), np.random.default_rng(len(X))
        rows = ((X[PUBLIC] - X[PUBLIC].mean()) / X[PUBLIC].std()).to_numpy()
        found = old_swap(rows, X["ill"].to_numpy().astype(int), model, 1.0, 6, rng)
        for name in PUBLIC:
            released[name] = X[name].to_numpy()[found.gets]
        return released


class NoChannel(PufferfishMicroaggregator):
    """Releases the typical row that is nearest, and moves none."""

    def transform(self, X, **settings):
        return self.prototypes_.iloc[self.assign(X)].set_axis(X.index)


class HalfNoise(PufferfishNoiser):
    """Draws from half the scale that was certified, which loses twice as much."""

    def transform(self, X, **settings):
        loose = PufferfishNoiser(2.0, sensitive="ill", public="level").fit(self.table_)
        return loose.transform(X, **settings)


def answers(seed, n=N):
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.5
    return pd.DataFrame({"ill": ill, "level": np.where(ill, "high", "low")})


def noised(table, kind=PufferfishNoiser):
    noiser = kind(1.0, sensitive="ill", public="level").fit(table)
    noiser.table_ = table
    return noiser


BROKEN = {
    "random swap": (swapped, RandomSwap, people),
    "old swap": (swapped, OldSwap, people),
    "no channel": (typical, NoChannel, people),
    "half the noise": (noised, HalfNoise, answers),
}


def found_in(made, kind, rows, seed, n=N):
    estimator = made(rows(seed), kind)
    return bool(audit(estimator, rows(seed + 1000, n), random_state=seed, **QUICK).findings)


@pytest.mark.slow
@pytest.mark.usefixtures("findings_alone")
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_on_purpose_is_found_in_19_of_20_audits(name):
    assert sum(found_in(*BROKEN[name], seed) for seed in range(20)) >= 19


@pytest.mark.slow
@pytest.mark.usefixtures("findings_alone")
def test_what_is_broken_on_purpose_is_found_in_some_audits_of_300_rows():
    broken = ["random swap", "half the noise"]
    assert sum(found_in(*BROKEN[name], seed, 300) for name in broken for seed in range(5)) >= 3


HONEST = {
    "swap": (swapped, PufferfishSwap, people),
    "typical rows": (typical, PufferfishMicroaggregator, people),
    "noise": (noised, PufferfishNoiser, answers),
}


@pytest.mark.slow
@pytest.mark.usefixtures("findings_alone")
@pytest.mark.parametrize("name", HONEST)
def test_of_20_honest_releases_at_most_one_is_a_finding(name):
    sizes = [120, N] * 10
    assert sum(found_in(*HONEST[name], seed, n) for seed, n in enumerate(sizes)) <= 1


@pytest.mark.slow
def test_each_reader_says_what_he_knows_what_he_reached_what_is_allowed_and_the_power():
    table = people(0)
    found = audit(swapped(table), table, task="renewed", **QUICK)
    readers = found.readers.set_index("reader")
    assert readers.index[:4].tolist() == [
        "fresh models",
        "holds the list",
        "better model",
        "insider",
    ]
    assert readers["allowed"].iloc[:4].tolist() == [1.0, 1.0, 1.0, 2.0]
    holder = readers.loc["holds the list"]
    # the release is drawn anew each time: some four standard errors
    assert holder["log_odds"] == pytest.approx(1.0, abs=holder["high"] - holder["low"])
    assert readers["knows"].str.len().min() > 10
    assert holder["low"] < holder["findable"] > 1.0
    joined = readers.index.str.startswith("joins renewed")
    assert joined.sum() == 2
    assert readers.loc[joined, "allowed"].isna().all()
    assert "not covered" in str(found)
    assert {"unique rows", "distance to the closest record"} <= set(found.utility["what"])


@pytest.mark.slow
def test_a_label_that_the_guarantee_covers_is_tested_within_its_values():
    table = people(1)
    found = audit(swapped(table, known="renewed"), table, task="renewed", **QUICK)
    joined = found.table["view"].str.startswith("joins renewed")
    assert (found.table.loc[joined, "allowed"] == 1.0).all()
    assert "Readers know 'renewed' anyway" in str(found)
    assert not found.findings


@pytest.mark.slow
def test_an_insider_who_is_left_out_is_shown_and_is_no_finding():
    table = people(2)
    found = audit(swapped(table, insiders=None), table, **QUICK)
    insider = found.readers.set_index("reader").loc["insider"]
    assert np.isnan(insider["allowed"])
    assert insider["log_odds"] > 1.5


@pytest.mark.slow
def test_typical_rows_are_read_by_who_has_counts_and_channel_also_beside_secrets():
    table = people(3)
    rows = PufferfishMicroaggregator(n_prototypes=8, public=PUBLIC)
    rows.fit(table[PUBLIC], sensitive_features=table["ill"])
    held = people(4)
    found = audit(rows, held[PUBLIC], sensitive_features=held["ill"], **QUICK)
    assert set(found.table["view"]) == {"fresh models", "knows the fit", "better model"}
    assert found.caught
    untried = "Nor was who knows the fit: that takes the fitted estimator itself, not its file."
    assert "Nobody who holds a list of the people in the released file was tried." in str(found)
    assert untried not in str(found)
    file = PufferfishRelease.from_json(rows.to_json())
    saved = audit(file, held[PUBLIC], sensitive_features=held["ill"], **QUICK)
    assert set(saved.table["view"]) == {"fresh models", "better model"}
    assert untried in str(saved)


class NoChannelBesideKnown(NoChannel):
    """Does so within strata, too."""

    def transform(self, X, **settings):
        return super().transform(X, **settings).assign(renewed=X["renewed"])


@pytest.mark.slow
def test_who_has_counts_and_channels_reads_typical_rows_within_strata():
    for kind, broken in ((PufferfishMicroaggregator, False), (NoChannelBesideKnown, True)):
        found = audit(typical(people(6), kind, known="renewed"), people(7), **QUICK)
        holder = found.readers.set_index("reader").loc["knows the fit"]
        assert holder["attacker"] == "Bayes"
        assert holder["allowed"] == 1.0
        assert bool(found.findings) == broken
        assert holder["log_odds"] > 1.3 or not broken


def test_who_has_counts_and_channels_reads_rows_whose_known_value_is_missing():
    table, held = (
        people(seed).assign(renewed=lambda t: np.where(t.index % 3 > 0, t["renewed"], np.nan))
        for seed in (6, 7)
    )
    found = audit(typical(table, known="renewed"), held, **QUICK)
    n = found.table.set_index("view")["n"]
    assert n["knows the fit"].iloc[0] == n["fresh models"].iloc[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:random_state:sklearn_puffer.PufferfishWarning")
def test_combinations_of_secrets_of_a_swap_are_audited():
    table = people(5)
    # an honest release has a finding in one audit of twenty: of this one it is known
    both = PufferfishSwap(
        sensitive=["ill", "renewed"], ids="client", public=PUBLIC, random_state=0
    ).fit(table)
    found = audit(both, table, **QUICK)
    assert {a.secret for a in found.attacks} <= {
        (x, y) for x in (False, True) for y in (False, True)
    }
    assert not found.findings


def test_one_row_of_each_group_is_audited_and_several_are_refused():
    homes = answers(8, 300).assign(home=np.arange(300))
    rows = homes.loc[homes.index.repeat(2)].reset_index(drop=True)
    noiser = PufferfishNoiser(1.0, sensitive="ill", public="level", groups="home", max_group=2)
    with pytest.raises(ValueError, match="audit reads one row of each; give one"):
        audit(noiser.fit(rows), rows, **QUICK)
    assert audit(noiser, rows.drop_duplicates("home"), **QUICK).rows["released"] == 300


def test_an_audit_says_whether_its_rows_may_be_the_fitted_ones():
    rows, more = answers(8, 300), answers(9, 200)
    noiser = PufferfishNoiser(1.0, sensitive="ill", public="level").fit(rows)
    told = "300 rows, as many as fit had: an audit of fitted rows says nothing"
    assert told in str(audit(noiser, rows))
    assert "as many as fit had" not in str(audit(noiser, more, **QUICK))


@pytest.mark.slow
def test_dates_are_numbers_to_attackers():
    table = make_people(300, 0)
    swap = PufferfishSwap(1.0, sensitive="ill", ids=["client", "mail"], public=["since", "visits"])
    noon = table.assign(since=table["since"].dt.tz_localize("UTC") + pd.Timedelta(hours=12))
    told, again = (audit(clone(swap).fit(rows), rows, **QUICK).control for rows in (table, noon))
    assert [each.log_odds for each in again] == pytest.approx([each.log_odds for each in told])


@pytest.mark.slow
def test_a_label_of_tied_numbers_is_joined_by_the_quarters_that_there_are():
    table = make_people(600, 0)
    hours = np.where(np.arange(600) % 5 < 3, 40, 20 + np.arange(600) % 37)
    swap = PufferfishSwap(1.0, sensitive="ill", ids=["client", "mail"], public=["age", "visits"])
    found = audit(swap.fit(table), table.assign(hours=hours), task="hours", **QUICK)
    joined = [reader for reader in found.readers["reader"] if reader.startswith("joins")]
    assert 0 < len(joined) < 4


def wine():
    table = load_wine(as_frame=True).frame
    return table.assign(target=table["target"].map({0: "A", 1: "B", 2: "C"}))


WINE = {
    "typical rows": PufferfishMicroaggregator(1.0, sensitive="target"),
    "swap": PufferfishSwap(1.0, sensitive="target"),
    "noise": PufferfishNoiser(1.0, sensitive="target", public=["alcohol", "hue"], n_bins=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WINE)
def test_a_table_of_178_rows_is_audited_and_what_would_have_been_found_is_said_in_words(name):
    table = wine()
    found = audit(clone(WINE[name]).fit(table), table, GaussianNB())
    page = str(found).partition("Readers:")[0]
    assert found.caught
    assert not found.untested
    assert "2.72 times allowed" in page or "7.39 times allowed" in page  # an insider
    assert "so few that only a leak of" in page or "may be missed" in page
    assert "would have been found" in page
    assert "nats" not in page
    assert ("so audit others, too" in page) == (name != "swap")
