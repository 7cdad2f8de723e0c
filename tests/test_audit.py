"""An audit: its statistics are exact, what leaks is found, and what cannot be found is said."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from attacking import audit
from scipy.special import expit, logit
from scipy.stats import beta, binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.utils import shuffle
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_puffer import Audit, PufferfishNoiser, PufferfishRelease
from sklearn_puffer._review.exact_tests import (
    Attack,
    Budget,
    Judge,
    Reader,
    RowSplit,
    Secrets,
    best_event,
    corrected,
    findable,
    lower,
    p_value,
    shares,
    upper,
)
from sklearn_puffer._review.measured import Task, reidentified, task_figures
from sklearn_puffer._review.readers import threads_for, with_copies
from sklearn_puffer.notions import RenyiPufferfish

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("seeded_draws"),
]


class Looks(ClassifierMixin, BaseEstimator):
    """Guesses the secret from one word, and learns nothing: the best attacker of `answers`."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        yes = np.where(X["word"] == "u", 0.9, 0.1)
        return np.stack([yes, 1.0 - yes], axis=1)


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


NOBODY = Reader("nobody", "nothing", Secrets("s", ["a", "b"], (np.arange(400) >= 160) * 1), {})


def test_base_odds_are_taken_as_large_as_they_may_be_but_for_a_tenth_of_the_level_over_all_tests():
    judge, error = Judge(RowSplit.of(400, 0)), 0.05 / 100  # ten tests
    base, most = judge.base(NOBODY, (0, 1), error)
    assert base == pytest.approx(math.log(160 / 240))
    share = 1.0 / (1.0 + math.exp(-most[0]))
    assert binom.cdf(160, 400, share) == pytest.approx(error)
    assert judge.base(NOBODY, (0, 1), 0.0)[1] == pytest.approx(math.log(160 / 240))


@pytest.mark.parametrize("exchanged", [False, True])
def test_each_judge_asks_for_a_tenth_of_the_level_over_its_tests_and_for_none_of_known_odds(
    exchanged, monkeypatch
):
    errors = []
    own = Judge.base
    monkeypatch.setattr(Judge, "base", lambda *given: errors.append(given[-1]) or own(*given))
    asked = replace(NOBODY.secrets, pairs=[(0, 1), (1, 0)])
    ways = {way: np.zeros((400, 2)) for way in "abcde"}
    Judge(RowSplit.of(400, 0), exchanged=exchanged).attacks(
        [replace(NOBODY, secrets=asked, claims=ways)]
    )
    assert errors == pytest.approx([0.0 if exchanged else 0.05 / 100] * 10)


@pytest.mark.parametrize(("k", "h"), [(9, 1), (30, 3), (5, 0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_a_p_value_is_the_tail_of_coins_of_the_largest_chance(epsilon, k, h):
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    want = sum(
        math.comb(k + h, j) * chance**j * (1 - chance) ** (k + h - j) for j in range(k, k + h + 1)
    )
    assert p_value(Budget(epsilon), (k, h), 85, chance) == pytest.approx(
        want if k >= (k + h) * chance + 1.0 else 1.0
    )


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
def test_an_order_alpha_is_audited_by_the_budget_of_single_rows_that_follows(alpha):
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, q = rng.dirichlet(np.full(4, 0.3), 2) + 1e-12
        orders = [np.log((a**alpha * b ** (1.0 - alpha)).sum()) for a, b in ((p, q), (q, p))]
        found = Budget.of(max(orders) / (alpha - 1.0), alpha=alpha)
        for one, other in ((p, q), (q, p)):
            beyond = np.maximum(one - math.exp(found.epsilon) * other, 0.0).sum()
            assert beyond <= found.delta == 1e-3
    assert Budget.of(1.0, 0.2) == Budget(1.0, 0.2)


def test_unlike_coins_are_beyond_their_mean_with_the_stated_chance_at_most():
    """The holders of exchanged rows have unlike chances, and so many of each secret in all."""
    rng, level = np.random.default_rng(0), 0.2
    chances = np.repeat([0.1, 0.5, 0.9], 30)
    coins = rng.random((60_000, 90)) < chances
    coins = coins[coins.sum(axis=1) == 45]  # who has which secret in all is known
    event = np.arange(90) % 3 > 0
    most, total = float(chances[event].mean()), int(event.sum())
    found = [
        p_value(Budget(0.0), (int(k), total - int(k)), 90, most)
        for k in coins[:, event].sum(axis=1)
    ]
    assert len(found) > 4000
    for each in (0.01, 0.05, level):
        assert (np.array(found) <= each).mean() <= each


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
    error = 0.001
    share = upper(int(secrets.sum()), n_rows, error)
    most = float(expit(logit(share) + promise.epsilon))
    return p_value(promise, (k, h), int(tested.sum()), most) + error


COPIES = [(Budget(1.0), 3), (Budget(0.1), 30), (Budget(0.5, 0.02), 30)]
MORE_COPIES = [(Budget(1.0), 30), (Budget(0.1), 3)]


@pytest.mark.parametrize(
    ("promise", "n_values"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in [COPIES[2], *MORE_COPIES[:2]]],
)
def test_events_that_count_copies_are_refused_with_the_stated_chance_at_most(promise, n_values):
    rng = np.random.default_rng(0)
    found = np.array([events_of_whole_releases(promise, n_values, rng) for _ in range(200)])
    for level in (0.05, 0.2, 0.5):
        assert (found <= level).mean() <= level


def test_what_is_findable_is_found_with_that_power_and_less_is_not():
    promise, rows, tested, most, level = Budget(1.0), 200, 350, 0.76, 0.01
    loss = findable(promise, rows, tested, most, 0.5, level)
    few = min(k for k in range(rows) if p_value(promise, (k, rows - k), tested, most) <= level)
    chances = [1.0 / (1.0 + math.exp(-each)) for each in (loss + 1e-6, loss - 0.02)]
    found = [binom.sf(few - 1, rows, chance) for chance in chances]
    assert found[0] >= 0.8 > found[1]
    assert findable(promise, 3, tested, most, 0.5, level) == math.inf


def test_clopper_and_pearson_ends_are_where_tails_are_as_large_as_asked():
    assert binom.sf(6, 20, lower(7, 20, 0.03)) == pytest.approx(0.03)
    assert binom.cdf(7, 20, upper(7, 20, 0.03)) == pytest.approx(0.03)
    assert (lower(0, 20, 0.03), upper(20, 20, 0.03)) == (0.0, 1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (2.0, 0.1)])
def test_the_largest_auc_is_that_of_the_curve(epsilon, delta):
    grid = np.linspace(0.0, 1.0, 200_001)
    curve = np.minimum(np.exp(epsilon) * grid + delta, 1.0 - (1.0 - grid - delta) / np.exp(epsilon))
    curve = np.minimum(curve, 1.0)
    promise = Budget(epsilon, delta)
    assert promise.auc() == pytest.approx(np.trapezoid(curve, grid), abs=1e-5)


def test_of_few_rows_the_same_ones_train_and_choose_and_no_row_is_read_by_a_model_of_it():
    for n in (40, 999, 1000, 5000):
        parts = RowSplit.of(n, 1)
        read = np.concatenate([rows for _, rows in parts.rounds])
        assert sorted(read.tolist()) == sorted({*parts.choose.tolist(), *parts.test.tolist()})
        for learnt_from, rows in parts.rounds:
            assert not np.intersect1d(learnt_from, rows).size
            assert not np.intersect1d(learnt_from, parts.test).size
        assert not np.intersect1d(parts.shown, parts.test).size
        assert len(parts.shown) + len(parts.test) == n


@pytest.mark.parametrize(("n", "sizes"), [(40, (16, 16, 24)), (5000, (2000, 1000, 2000))])
def test_two_fifths_train_a_fifth_chooses_and_the_rest_is_judged(n, sizes):
    parts = RowSplit.of(n, 1)
    assert tuple(map(len, (parts.train, parts.choose, parts.test))) == sizes
    assert len(parts.rounds) == (6 if n < 1000 else 1)


@pytest.mark.parametrize(("k", "h", "delta"), [(60, 9, 0.01), (60, 9, 0.1), (90, 2, 0.02)])
def test_rows_of_which_delta_may_tell_everything_come_off_the_event(k, h, delta):
    spared = next(s for s in range(200) if binom.sf(s, 200, delta) <= 1e-9)
    tail = binom.sf(k - spared - 1, k - spared + h, 0.7)
    want = tail + 1e-9 if k - spared >= (k - spared + h) * 0.7 + 1.0 else 1.0
    assert p_value(Budget(1.0, delta), (k, h), 200, 0.7) == pytest.approx(want)


def worth(event, first, base, choose):
    """Return by how much the odds of an event exceed the base odds at least, written out."""
    rows = choose[event[choose]]
    k, n = int(first[rows].sum()), len(rows)
    least = beta.ppf(0.05, k, n - k + 1) if k else 0.0
    return logit(least) - logit(expit(base[rows]).mean())


@pytest.mark.parametrize("seed", range(9))
def test_the_event_that_is_chosen_is_worth_what_is_said_and_no_simple_one_is_worth_more(seed):
    rng = np.random.default_rng(seed)
    scores, cells = rng.choice([-1.0, 0.0, 2.5], 900), rng.integers(-1, 4, 900)
    teeth = [(cells + (scores > 0)) % 2, scores / 2.5, scores == 0.0][seed % 3]
    first = rng.random(900) < expit(2.0 * teeth - 1.0)
    base, choose = rng.choice([-0.3, 0.4], 900), rng.permutation(900)[:500]
    event, value = best_event(scores, first, base, choose, cells)
    assert value == pytest.approx(worth(event, first, base, choose))
    simple = [scores >= each for each in (-1.0, 0.0, 2.5)] + [scores == each for each in (-1, 0)]
    inside = [cells == each for each in range(4)]
    simple += inside + [a & b for a in inside for b in simple[2:]]
    assert value >= max(worth(each, first, base, choose) for each in simple) - 1e-12


@pytest.mark.parametrize("strata", [None, np.arange(2000) % 2])
def test_what_came_of_a_claim_is_counted_on_the_tested_rows_alone(strata):
    rng = np.random.default_rng(3)
    first = rng.random(2000) < (0.3 if strata is None else 0.3 + 0.2 * strata)
    scores = np.where(rng.random(2000) < np.where(first, 0.8, 0.1), 1.0, 0.0)
    secrets = Secrets("s", ["a", "b"], np.where(first, 0, 1), [(0, 1)])
    parts, claims = RowSplit.of(2000, 0), {"way": np.stack([scores, np.zeros(2000)], axis=1)}
    reader = Reader("r", "", secrets, claims, Budget(0.5))
    [attack] = Judge(parts, {("s", "a", "b"): 0.4}, strata).attacks([reader])
    event, n = parts.test[scores[parts.test] == 1.0], int(first[parts.test].sum())
    k, kinds, m = int(first[event].sum()), np.zeros(2000, int), len(parts.test) - n
    kinds = kinds if strata is None else strata
    shares, most = np.zeros(2000), np.zeros(2000)
    error = 0.05 / 10
    for kind in np.unique(kinds):
        own = kinds == kind
        total, ours = int(own.sum()), int(first[own].sum())
        shares[own] = ours / total
        end = beta.ppf(1 - error / len(np.unique(kinds)), ours + 1, total - ours)
        most[own] = expit(logit(end) + 0.5)
    base = logit(shares[event].mean())
    ends = beta.ppf(0.025, k, len(event) - k + 1), beta.ppf(0.975, k + 1, len(event) - k)
    assert (attack.n, attack.n_against, attack.certified, attack.allowed) == (n, m, 0.4, 0.5)
    assert attack.log_odds == pytest.approx(logit(k / len(event)) - base)
    assert (attack.low, attack.high) == pytest.approx([logit(end) - base for end in ends])
    assert attack.share == len(event) / len(parts.test)
    tail = binom.sf(k - 1, len(event), most[event].mean())
    assert attack.p == pytest.approx(tail + error)
    assert attack.p_all == pytest.approx(attack.p)  # one test has all of the level
    assert attack.findable > 0.5


def test_a_pair_whose_certified_loss_is_larger_is_allowed_it():
    scores = np.where(np.arange(1000) < 500, 1.0, 0.0)
    secrets = Secrets("s", ["a", "b"], (np.arange(1000) >= 500) * 1, [(0, 1)])
    claims = {"way": np.stack([scores, np.zeros(1000)], axis=1)}
    reader = Reader("r", "", secrets, claims, Budget(2.0))
    for certified, allowed in ((0.9, 2.0), (1.5, 3.0)):
        own = Judge(RowSplit.of(1000, 0), {("s", "a", "b"): certified}, epsilon=1.0)
        assert own.attacks([reader])[0].allowed == pytest.approx(allowed)


def test_half_the_level_is_for_the_claim_of_each_reader_that_looks_best_and_half_for_all():
    claims = [("x", 0.1), ("x", 0.5), ("y", -math.inf), ("y", -math.inf)]
    assert shares(claims, 4, 2) == pytest.approx([0.125, 0.375, 0.375, 0.125])
    assert sum(shares(claims, 8, 3)) < 1.0  # what could not be tested is paid for, too


def test_p_values_by_shares_of_the_level_are_those_of_all_intersections():
    """Of closed testing: each set of hypotheses is tested at the shares of its own, written out."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        p, shares_of = rng.random(4) ** 3, rng.dirichlet(np.ones(4))
        attacks = [Attack(*"abcde", *[0.0] * 8, p=each) for each in p]
        found = [attack.p_all for attack in corrected(attacks, shares_of.tolist())]
        sets = [np.array(s) for n in range(1, 5) for s in combinations(range(4), n)]
        worst = [
            max(min(1.0, (p[s] / shares_of[s]).min() * shares_of[s].sum()) for s in sets if k in s)
            for k in range(4)
        ]
        assert found == pytest.approx(worst)


@pytest.mark.slow
def test_randomised_response_at_its_budget_gives_figures_near_the_allowed_ones():
    noiser = honest()
    assert noiser.certificate_.loss == pytest.approx(1.0, abs=1e-6)
    found = audit(noiser, answers(8000), LOOKS)
    row = found.table.iloc[0]
    assert row["log_odds"] == pytest.approx(1.0, abs=0.2)
    assert row["certified"] == pytest.approx(1.0, abs=1e-6)
    assert row["low"] < row["log_odds"] < row["high"]
    assert found.findings == () or found.findings[0].p > 1e-4
    assert found.caught


@pytest.mark.slow
def test_a_release_that_loses_more_than_it_says_is_a_finding_with_a_p_value():
    found = audit(lying(), answers(3000), LOOKS, GaussianNB())
    assert found.findings[0].low > 1.0
    assert "MORE THAN WAS PROMISED" in str(found).partition("\n")[0]
    assert "Either the release loses more" in str(found)
    assert str(found.findings[0]) in str(found)
    assert repr(found).startswith("<Audit: ")
    assert len(repr(found)) < 100


@pytest.mark.slow
def test_p_values_are_corrected_over_all_tests_and_never_smaller_than_alone():
    table = audit(lying(), answers(600), LOOKS, LogisticRegression()).table
    assert (table["p_all"] >= table["p"]).all()


@pytest.mark.slow
def test_rows_that_tell_nothing_are_said_to_leave_nothing_to_find():
    table = answers(400).assign(word=["u", "v", "v", "u"] * 100)
    found = audit(lying(), table, LogisticRegression())
    assert not found.caught
    assert not found.findings
    said = (
        "COULD NOT HAVE FOUND IT: they find nothing for certain in the rows as they are; 240 rows"
    )
    assert said in str(found)


def rows_of(*counts):
    return dict(zip(("given", "released", "train", "choose", "test"), counts, strict=True))


def made(*attacks, caught=True):
    """Return an audit of these attacks, each given by what differs from one that reached little."""
    usual = {"log_odds": 0.5, "low": 0.1, "high": 0.9, "allowed": 1.0, "findable": 2.0}
    usual |= {"p": 1.0, "p_all": 1.0, "share": 0.5}
    one = Attack(*"vasij", *[0.0] * 8, p=1.0, findable=0.0)
    control = replace(one, p_all=0.01 if caught else 1.0)
    attacks = [replace(one, **usual | each) for each in attacks]
    return Audit(tuple(attacks), (control,), "", rows_of(9, 9, 3, 3, 3))


def test_the_first_line_says_which_leak_would_have_been_found_and_its_reader_has_it_beside_him():
    found = made({"findable": 3.0}, {"findable": 2.0}, {"view": "w", "findable": math.inf})
    first, *lines = str(found).splitlines()
    told = (
        "no attack tells for certain more than was guaranteed; 3 rows judged; a leak of 7.39 times "
        "to 'v', 2.72 times allowed, would have been found (chance 80%), less may be missed."
    )
    assert first == f"Audit: {told}"
    assert found.readers["findable"].tolist() == [2.0, math.inf]
    assert sum("7.39 times" in line for line in lines) == 1  # the line of its reader


def test_an_audit_that_could_not_find_any_leak_says_so_in_its_first_line():
    blind = made({"findable": math.inf})
    weak = made({"findable": 2.0}, caught=False)
    few = "rows are too few to find any leak, however large"
    same = "they find nothing for certain in the rows as they are"
    for found, why in ((blind, few), (weak, same)):
        first = str(found).partition("\n")[0]
        assert first.endswith(f"COULD NOT HAVE FOUND IT: {why}; 3 rows judged.")
        assert "Power: " not in str(found)
        assert "may be missed" not in str(found)


def test_no_page_says_beside_a_finding_that_nothing_could_have_been_found():
    found = made({"p_all": 0.01, "findable": math.inf}, caught=False)
    assert "MORE THAN WAS PROMISED" in str(found)
    assert "would have been found" not in str(found)
    assert "COULD NOT" not in str(found)


def test_beside_the_surest_attack_stands_the_one_on_the_rows_as_they_are_by_its_secrets():
    own, other = {"sensitive": "s", "low": 0.7}, {"sensitive": "t", "low": 0.9}
    less, reverse = own | {"low": 0.6}, other | {"sensitive": "s", "secret": "j", "against": "i"}
    found = made(own)
    control = [replace(found.control[0], **each) for each in (less, own, reverse, other)]
    assert replace(found, control=tuple(control))._as_they_are() == control[1]
    assert replace(found, control=tuple(control[2:]))._as_they_are() is None
    assert replace(found, attacks=())._as_they_are() is None


def test_few_rows_are_said_to_train_and_choose():
    few = replace(made({}), rows=rows_of(100, 100, 40, 40, 60))
    many = replace(few, rows=rows_of(1000, 1000, 400, 200, 400))
    assert "chose what to claim on 40 (the same, each read by a model of others) and" in str(few)
    assert "chose what to claim on 200 and were judged on 400" in str(many)


def test_what_is_beyond_the_allowed_line_and_no_finding_is_said_to_be_within_chance():
    for p, count in ((1.0, 2), (0.01, 0)):  # nearest to its limit, and its reader
        found = made({"log_odds": 1.4, "low": 0.2, "high": 2.0, "p_all": p})
        assert str(found).count("4.06 times, within chance") == count
    assert "times, within chance" not in str(made({}))


def test_the_attack_nearest_to_its_own_limit_is_named():
    insider = {"view": "insider", "low": 1.3, "high": 3.0, "log_odds": 1.4, "allowed": 2.0}
    assert "7.39 times allowed" in str(made(insider, {"low": -3.0}))
    nearer = made(insider, {"low": 0.9, "log_odds": 0.95})  # .1 below its limit, and the other .7
    assert "Nearest to its limit: v (a)" in str(nearer)


def test_of_findings_alike_in_p_the_one_furthest_beyond_its_limit_is_the_surest_everywhere():
    sure = {"p": 0.01, "p_all": 0.01, "high": 4.0, "log_odds": 3.5}
    found = made({**sure, "low": 1.5}, {**sure, "low": 3.0})
    assert [finding.low for finding in found.findings] == [3.0, 1.5]
    assert found._surest().low == 3.0


def test_an_audit_is_saved_as_what_its_name_ends_in_and_never_replaces_a_file(tmp_path):
    found = made({})
    found.save(tmp_path / "audit.json")
    found.save(str(tmp_path / "audit.txt"))
    assert json.loads((tmp_path / "audit.json").read_text()) == found.to_dict()
    assert (tmp_path / "audit.txt").read_text() == f"{found}\n"
    with pytest.raises(FileExistsError):
        found.save(tmp_path / "audit.txt")
    with pytest.raises(ValueError, match=r"path must end in \.html, \.json"):
        found.save(tmp_path / "audit.pdf")


@pytest.mark.slow
def test_other_distributions_than_the_fitted_one_are_named_beside_a_finding():
    fitted = answers(200)
    fitted["word"] = ["u", "v", "v", "u"] * 50  # tells nothing, so there is no noise
    noiser = PufferfishNoiser(0.5, sensitive="s").fit(fitted)
    found = audit(noiser, answers(400), LOOKS)
    assert found.findings
    assert "do not follow the distribution that was fitted" in str(found)


def test_copies_are_counted_in_what_each_reader_sees_and_never_hide_a_column():
    rows = pd.DataFrame({"copies in the release": [1.0, 2.0, 2.0, np.nan, np.nan]})
    assert with_copies(rows).iloc[:, 1].tolist() == [1, 2, 2, 2, 2]
    assert with_copies(rows).columns[1] == "copies in the release'"
    assert with_copies(rows[:2]).shape == (2, 1)  # each as often as the other


@pytest.mark.slow
def test_the_split_is_the_seeds_and_the_noise_is_not():
    noiser = honest()
    found = [audit(noiser, answers(400), LOOKS, random_state=3).table for _ in range(4)]
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
    found = audit(noiser, kind(data), task="late")
    assert set(found.table["attacker"]) == {"boosted", "neighbours", "linear"}
    assert {"unique rows", "AUC on true rows"} <= set(found.utility["what"])


@pytest.mark.slow
def test_a_task_that_is_a_number_learns_from_released_rows():
    table = mixed(800)
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    task = table.assign(y=2.0 * table["visits"] + np.arange(800) % 50 / 1000)
    found = audit(noiser, task, GaussianNB(), task="y").utility
    before, after = found.set_index("what").loc["R2 on true rows", ["before", "after"]]
    assert before == pytest.approx(1.0, abs=0.1)
    assert after < before


@pytest.mark.slow
def test_a_task_that_nothing_tells_has_the_area_of_chance_and_not_its_base_rate():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"word": ["u", "v", "v", "u"] * 300, "s": ["a", "b", "b", "a"] * 300})
    table["rare"] = np.where(rng.random(1200) < 0.11, "yes", "no")
    found = audit(honest(), table, LOOKS, task="rare")
    figures = found.utility.set_index("what")
    assert "accuracy" not in str(found)
    assert figures.loc["AUC on true rows", ["before", "after"]].between(0.4, 0.6).all()
    assert "by chance an AUC is 0.5, and an R2 0" in str(found)


@pytest.mark.parametrize("names", [["no", "yes"], [3, 1, 2], ["x", "y", "z", "only here"]])
def test_the_area_of_a_task_is_the_mean_over_its_classes_each_against_the_rest(names):
    rng = np.random.default_rng(1)
    y = rng.integers(0, len(names), 400)
    rows = pd.DataFrame({"x": rng.normal(y, 1.5), "z": rng.normal(size=400)})
    target = np.array(names)[y]
    train = np.flatnonzero(target != "only here")[:200]  # a class is met later that was not learnt
    halves = train, np.arange(200, 400)
    parts = RowSplit(train, train[:0], halves[1])
    task = Task("y", Pipeline([("model", GaussianNB())]), target)
    [area] = task_figures(task, rows, rows, parts)
    found = []
    for train, test in (halves, halves[::-1]):
        learnt, areas = GaussianNB().fit(rows.iloc[train], target[train]), []
        for label in np.unique(target[test]):
            own = target[test] == label
            score = looks_like(learnt, rows.iloc[test], label)
            right = np.subtract.outer(score[own], score[~own])
            areas.append(((right > 0) + 0.5 * (right == 0)).mean())
        found.append(np.mean(areas))
    assert area.before == area.after == pytest.approx(np.mean(found))


def looks_like(model, rows, label):
    """Return how much each row looks like one class; like a class not learnt none does."""
    if label not in model.classes_:
        return np.zeros(len(rows))
    return model.predict_proba(rows)[:, list(model.classes_).index(label)]


def test_a_task_that_no_audited_row_has_a_value_of_is_refused_before_anything_is_released():
    table = pd.DataFrame({"group": ["a", "b"] * 300, "x": [0, 1, 2] * 200, "label": None})
    noiser = PufferfishNoiser(sensitive="group", public=["x"]).fit(table)
    left = np.setdiff1d(np.arange(600), shuffle(np.arange(600), random_state=0)[:200])
    table.loc[left[0], "label"] = "rare"
    with pytest.raises(ValueError, match="names column 'label', which has no value"):
        audit(noiser, table, task="label", max_rows=200)


def test_a_task_with_one_class_among_its_test_rows_has_no_area():
    rows = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    task = Task("y", GaussianNB(), np.array(["a", "b", "a", "a"]))
    parts = RowSplit(np.array([0, 1]), np.zeros(0, dtype=int), np.array([2, 3]))
    [area] = task_figures(task, rows, rows, parts)
    assert math.isnan(area.before)


@pytest.mark.slow
def test_a_task_whose_released_target_has_gaps_learns_from_the_rows_without():
    table = mixed()
    noiser = PufferfishNoiser(sensitive="group", missing="category", public=["visits", "town"])
    found = audit(noiser.fit(table), table, GaussianNB(), task="town").utility
    assert found.set_index("what").loc["AUC on true rows", "after"] <= 1.0


def test_rows_are_linked_to_themselves_without_noise_and_by_chance_under_much():
    rng = np.random.default_rng(0)
    raw = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    other = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    same, apart = (
        {figure.what: figure for figure in reidentified(raw, each, np.arange(300))}
        for each in (raw, other)
    )
    assert (apart["unique rows"].after, apart["fewest equal rows (k)"].after) == (1.0, 1.0)
    assert (
        same["distance to the closest record"].after
        == 0.0
        < apart["distance to the closest record"].after
    )
    same, apart = (each["nearest to its own of 300"] for each in (same, apart))
    assert (same.before, same.after) == (1.0, 1.0)
    assert apart.after < 0.03


@pytest.mark.slow
def test_words_that_come_out_as_codes_are_attacked_and_not_compared():
    table = mixed()
    noiser = PufferfishNoiser(
        sensitive="group", public=["visits", "town"], missing="category", output="noisy"
    )
    found = audit(noiser.fit(table), table, GaussianNB(), task="late")
    assert "town" not in set(found.utility["column"])
    assert "AUC on true rows" in set(found.utility["what"])


@pytest.mark.slow
def test_several_sensitive_columns_and_secrets_beside_the_table():
    table = mixed(600).drop(columns="town")
    both = PufferfishNoiser(sensitive=["group", "late"]).fit(table)
    assert set(audit(both, table, GaussianNB()).table["sensitive"]) == {"group", "late"}
    apart = PufferfishNoiser().fit(table[["visits"]], sensitive_features=table["group"])
    found = audit(apart, table[["visits"]], GaussianNB(), sensitive_features=table["group"])
    assert len(found.table) == 4


@pytest.mark.slow
def test_a_delta_and_an_order_are_audited_too():
    table = mixed(600)
    for more in ({"delta": 0.05}, {"alpha": 2.0, "noise": "gaussian", "strategy": "wasserstein"}):
        noiser = PufferfishNoiser(sensitive="group", public=["visits"], **more).fit(table)
        found = audit(noiser, table, GaussianNB())
        follows = RenyiPufferfish(1.0, 2.0).to_pufferfish(1e-3).epsilon
        assert (found.table["allowed"] == (follows if "alpha" in more else 1.0)).all()
        assert not found.findings


@pytest.mark.slow
def test_an_audit_is_json_text_and_inert_html():
    table = mixed().rename(columns={"visits": "<script>x"})
    table["group"] = table["group"].replace({"a": "<b>\n"})
    noiser = PufferfishNoiser(sensitive="group", public=["<script>x"]).fit(table)
    found = audit(noiser, table, GaussianNB()).named("<u>")
    kept = json.loads(found.to_json())
    assert kept["schema"] == "sklearn_puffer.audit/9"
    assert {each["attacker"] for each in kept["attacks"]} == {"GaussianNB", "boosted"}
    for tag in ("<script>", "<b>", "<u>"):
        assert tag not in found._repr_html_()


@pytest.mark.slow
def test_a_release_read_from_its_form_is_attacked_like_its_noiser():
    table = mixed()
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    release = PufferfishRelease.from_json(noiser.to_json())
    own, other = (audit(each, table, GaussianNB()) for each in (noiser, release))
    for name in ("sensitive", "secret", "against", "n", "n_against", "allowed", "certified"):
        assert own.table[name].tolist() == other.table[name].tolist()


@pytest.mark.slow
def test_secrets_of_other_types_than_the_fitted_ones_are_said_not_to_fit():
    table = answers(200).assign(s=[0, 1] * 100)
    noiser = PufferfishNoiser(sensitive="s").fit(table)
    for each in (noiser, PufferfishRelease.from_json(noiser.to_json())):
        assert len(audit(each, table, LOOKS).table) == 4
        with pytest.raises(ValueError, match="do not fit together: column 's' has"):
            audit(each, answers(200), LOOKS)


@pytest.mark.slow
def test_few_rows_of_one_pair_are_named_and_the_others_are_tested():
    table = mixed()
    table.loc[:5, "group"] = "c"
    noiser = PufferfishNoiser(sensitive="group", public=["visits"]).fit(table)
    found = audit(noiser, table, GaussianNB())
    assert len(found.table) == 4
    assert len(found.untested) == 2
    assert "'c'" in found.untested[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": PufferfishNoiser(sensitive="s")}, "not fitted"),
        (
            {"estimator": "epsilon"},
            "estimator must be a fitted PufferfishNoiser, PufferfishMicroaggregator or",
        ),
        (
            {"table": answers(200).to_numpy()},
            "table must be a DataFrame in memory, as an audit looks .* got ndarray; collect",
        ),
        ({"table": pl.DataFrame(answers(200)).lazy()}, "got LazyFrame; collect some"),
        ({"table": answers(200)[:0]}, "table has 0 rows"),
        (
            {"table": answers(8)},
            "too few rows to audit .s: 'a', 'b'.; give some twenty",
        ),
        ({"table": answers(200)[["word"]]}, "table lacks the sensitive column 's'"),
        ({"task": LogisticRegression()}, "task must hold column names"),
        ({"task": "wurd"}, "task names column 'wurd'"),
        ({"task": "s"}, "task='s' is a sensitive column, which the release hides; name a column"),
        (
            {"table": answers(200).assign(none=np.nan), "task": "none"},
            "task names column 'none', w",
        ),
        ({"max_rows": 0}, "max_rows must be at least 1"),
        ({"random_state": "a"}, "random_state"),
        ({"verbose": "loud"}, "verbose"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_name(changes, message):
    given = {"estimator": honest(), "table": answers(200), **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        audit(given.pop("estimator"), given.pop("table"), **given)


@pytest.mark.parametrize(("n_rows", "threads"), [(178, 1), (100_000, 2)])
def test_models_of_few_rows_are_fitted_by_one_thread_as_others_wait_in_loops(n_rows, threads):
    with threadpool_limits(2, user_api="openmp"), threads_for(np.zeros((n_rows, 1))):
        used = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    assert set(used) == {threads}
