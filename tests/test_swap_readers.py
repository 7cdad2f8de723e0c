"""What readers of swapped real tables find out: TRUE odds of the people whom they pick.

A reader picks people by what he sees, and never by their secrets. Of those whom he picks the true
secrets are counted, against their shares in the table (or in the stratum), with binomial error.
"""

import copy
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import PufferfishSwap

pytestmark = pytest.mark.slow

ADULT = ["age", "marital-status", "education-num", "hours-per-week", "occupation", "capital-gain"]
RELEASES = 4


@pytest.fixture(
    params=["Adult, sex", "Adult, race", "bank, marital", "student, sex", "diabetes, sex"]
)
def people(request, table):
    """Return people with a secret, the columns to exchange, and a label."""
    kind = request.param.split(",")[0]
    if kind == "diabetes":
        rows = load_diabetes(as_frame=True, scaled=False).frame
        rows = rows.assign(secret=rows["sex"].astype(str), label=rows["target"] > 140)
        columns = ["age", "bmi", "bp", "s1", "s3", "s5"]
    elif kind == "student":
        rows = table("student-por")
        rows = rows.assign(secret=rows["sex"], label=rows["G3"] > 11)
        columns = ["age", "studytime", "Walc", "freetime", "Mjob", "absences"]
    elif kind == "bank":
        rows = table("bank-full").sample(3000, random_state=1)
        rows = rows.assign(secret=rows["marital"], label=rows["y"] == "yes")
        columns = ["age", "job", "education", "balance", "housing", "duration"]
    else:
        rows = table("adult").sample(3000, random_state=1)
        rows = rows.assign(
            secret=rows[request.param.split(", ")[1]], label=rows["income"] == ">50K"
        )
        columns = ADULT
    return rows[["secret", "label", *columns]].reset_index(drop=True), columns


def released_often(people, columns, times=RELEASES, **params):
    rows = people.assign(client=people.index)
    params = {"sensitive": "secret", "ids": "client", "public": [*columns, "secret"]} | params
    fitted = PufferfishSwap(1.0, **params).fit(rows)
    return fitted, [copy.copy(fitted).transform(rows) for _ in range(times)]


def as_numbers(rows):
    return rows.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else pd.factorize(c)[0])


def stack(rows, is_it):
    """Return chances of a secret by three models of the true rows, which have not seen the row."""
    models = [
        HistGradientBoostingClassifier(max_iter=15, random_state=0),
        RandomForestClassifier(15, min_samples_leaf=10, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ]
    features = as_numbers(rows)
    said = [
        cross_val_predict(m, features, is_it, cv=2, method="predict_proba")[:, 1] for m in models
    ]
    return np.mean(said, axis=0)


def beyond(is_it, base, most):
    """Return how many binomial errors the log odds of some people are beyond the most allowed.

    `base` are the chances they had before.
    """
    n, p, q = len(is_it), is_it.mean(), base.mean()
    ways = []
    for share, start in ((p, q), (1.0 - p, 1.0 - q)):
        odds = math.exp(most) * start / (1.0 - start)
        allowed = odds / (1.0 + odds)
        ways.append((share - allowed) / math.sqrt(allowed * (1.0 - allowed) / n))
    return max(ways)


def test_whoever_has_the_list_and_the_best_models_shifts_no_true_odds_beyond_epsilon(people):
    """He knows the secret of each row, and what three models say of it."""
    rows, columns = people
    fitted, releases = released_often(rows, columns)
    for secret in fitted.flows_.columns[:2]:
        is_it = (rows["secret"] == secret).to_numpy()
        says = pd.Series(stack(rows[columns], is_it), _keys(rows, columns)).groupby(level=0).mean()
        claims = np.concatenate([says[_keys(released, columns)] for released in releases])
        knows = np.concatenate([released["secret"] == secret for released in releases])
        for row_has_it in (True, False):
            picked = np.flatnonzero(knows == row_has_it)
            for who in np.array_split(picked[np.argsort(claims[picked], kind="stable")], 6):
                truth = np.tile(is_it, len(releases))[who]
                assert len(who) < 60 or beyond(truth, np.full(len(who), is_it.mean()), 1.0) < 4.5


def _keys(rows, columns):
    """Return what a row is found by in the list."""
    return pd.util.hash_pandas_object(rows[[*columns, "secret"]], index=False).to_numpy()


# --------------------------------------------------------------- who knows more than the list


def shifts(own, released, secrets, most, picked, base):
    """Return how far the true odds of picked people are beyond, by the secret of their row."""
    found = []
    for secret in secrets:
        who = picked & (released["secret"] == secret).to_numpy()
        truth = (own["secret"] == secrets[0]).to_numpy()[who]
        found += [beyond(truth, base[who], most)] if who.sum() >= 60 else []
    return max(found)


def outcomes(rows, columns, times, **params):
    """Return people and what they hold, over releases, and the two secrets."""
    _, releases = released_often(rows, columns, times, **params)
    own = pd.concat([rows] * times, ignore_index=True)
    return own, pd.concat(releases, ignore_index=True), sorted(rows["secret"].unique())


@pytest.fixture
def adults(table):
    rows = table("adult").sample(3000, random_state=1).reset_index(drop=True)
    rows = rows.assign(secret=rows["sex"], label=rows["income"], whose=np.arange(3000) * 1.0)
    return rows[["secret", "label", "whose", *ADULT]]


def test_a_label_that_is_joined_later_is_beyond_and_as_a_stratum_within(adults):
    own, released, secrets = outcomes(adults, [*ADULT, "label"], 5, insiders=None)
    base = np.full(len(own), (own["secret"] == secrets[0]).mean())
    unlike = (own["label"] != released["label"]).to_numpy()
    assert shifts(own, released, secrets, 1.0, unlike, base) > 10
    own, released, secrets = outcomes(adults, ADULT, 5, known="label")
    base = (own["secret"] == secrets[0]).groupby(own["label"]).transform("mean").to_numpy()
    for label in own["label"].unique():
        there = (own["label"] == label).to_numpy()
        assert shifts(own, released, secrets, 1.0, there, base) < 4.5


@pytest.mark.parametrize("matching", ["nearest", "parts", "random"])
def test_insiders_shift_true_odds_within_their_budget_and_without_one_find_secrets_out(
    adults, matching
):
    """They find their own rows with others, whom nobody else knows to have moved."""
    for insiders in ("double", None):
        params = {"insiders": insiders, "matching": matching, "weights": {"whose": 1e9}}
        own, released, secrets = outcomes(adults, [*ADULT, "whose"], 3, **params)
        base = np.full(len(own), (own["secret"] == secrets[0]).mean())
        elsewhere = (own["whose"] != released["whose"]).to_numpy()
        found = shifts(own, released, secrets, 2.0, elsewhere, base)
        assert found < 4.5 if insiders else found > 10


@pytest.mark.parametrize("matching", ["nearest", "parts"])
def test_third_parties_are_told_of_by_near_matches_and_by_parts_are_not(matching):
    """A reader looks who holds rows that are much nearer to his own than the one that he got."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"secret": rng.choice(["a", "b"], 400), "at": rng.normal(size=400)})
    own, released, _ = outcomes(rows, ["at"], 50, matching=matching)
    nearer = np.zeros(len(own), dtype=bool)
    for start in range(0, len(own), 400):
        here = slice(start, start + 400)
        mine, got = own["at"].to_numpy()[here], released["at"].to_numpy()[here]
        from_a = (own["secret"][here] == "a").to_numpy()
        of_b = (released["secret"][here] == "b").to_numpy()
        for reader in np.flatnonzero(from_a & of_b):
            apart = np.abs(got - mine[reader])
            between = of_b & (apart < apart[reader] / 4)
            nearer[start + np.flatnonzero(between)] = True
    of_b = (released["secret"] == "b").to_numpy()
    share, wanted = ((own["secret"] == "a")[who].mean() for who in (nearer & of_b, of_b))
    told = (wanted - share) / math.sqrt(wanted * (1 - wanted) / (nearer & of_b).sum())
    assert told > 1.0 if matching == "nearest" else abs(told) < 4.0  # 5 on average, and 0


@pytest.mark.parametrize("matching", ["nearest", "parts", "random"])
def test_of_every_single_row_the_holder_has_a_secret_as_often_as_the_flows_say(matching):
    n, times = 14, 120
    secret = np.array(["a", "b", "a", "a", "b", "a", "a"] * 2)
    at = np.random.default_rng(1).normal(size=n) + (secret == "b")
    rows = pd.DataFrame({"secret": secret, "at": at, "whose": np.arange(n) * 1.0})
    weights = {"whose": 1e9}
    fitted, releases = released_often(
        rows, ["at", "whose"], times, matching=matching, weights=weights
    )
    held = np.zeros(n)
    for released in releases:
        held[released["whose"].to_numpy().astype(int)] += secret == "a"
    sizes = pd.Series(secret).value_counts()
    for row, b in enumerate(secret):
        wanted = fitted.flows_.loc["a", b] * sizes["a"] / sizes[b]
        assert abs(held[row] / times - wanted) < 5.0 * math.sqrt(wanted * (1.0 - wanted) / times)


NINE = ["age", "workclass", "education-num", "marital-status", "occupation", "relationship"]
NINE += ["capital-gain", "capital-loss", "hours-per-week"]


def test_parts_of_real_rows_change_less_than_a_sixth_of_a_standard_deviation(table):
    """Cut along single columns they would change by .165, at random by .27."""
    rows = table("adult").sample(20_000, random_state=0).reset_index(drop=True)
    rows = rows[[*NINE, "sex"]].assign(client=rows.index)
    swap = PufferfishSwap(1.0, sensitive="sex", ids="client", public=NINE, matching="parts")
    released = swap.fit_transform(rows)
    numbers = rows[NINE].select_dtypes("number")
    apart = [((rows[c] - released[c]).abs().mean() / rows[c].std()) for c in numbers]
    apart += [(rows[c] != released[c]).mean() for c in NINE if c not in numbers]
    assert np.mean(apart) <= 0.155
    assert np.mean(apart) == pytest.approx(swap.utility_["change_sd"].mean(), abs=0.01)
