"""Adversaries who know public columns of a row besides, under additive noise.

The oracle sums, over rows and fine panels of numbers, the masses of what is released. Panels that
are looked at as a whole tell no more than their points, so what it finds is a lower end.
"""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
from sklearn_puffer._noise import MixedNoise, Mixing, Unchanged
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.fits import ClassifierFit
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

pytestmark = [
    pytest.mark.filterwarnings("ignore:column.* tell nothing any more"),
    pytest.mark.filterwarnings("ignore:Column.* need no noise"),
    pytest.mark.filterwarnings("ignore:no row needs to change"),
]

FAMILIES = {"laplace": stats.laplace, "gaussian": stats.norm, "cauchy": stats.cauchy}
EDGES = np.array([-np.inf, *np.linspace(-60.0, 62.0, 977), np.inf])


def people(n_rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rows in which two columns together tell more than each."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n_rows)
    one = rng.integers(0, 3, n_rows)
    two = np.where(rng.random(n_rows) < 0.3, rng.integers(0, 3, n_rows), (one + ill) % 3)
    job = np.where(rng.random(n_rows) < 0.6, rng.integers(0, 3, n_rows), (one + ill) % 3)
    names = np.array([*"xyz"])
    return pd.DataFrame({"ill": ill, "one": one, "two": two, "job": names[job], "kin": names[one]})


TABLE = people()
NUMBERS, THREE = TABLE[["ill", "one", "two"]], TABLE[["ill", "one", "two", "job"]]


def masses_of(values, theta, noise="laplace", edges=EDGES):
    """Return the mass between edges of each value plus noise, without cancellation."""
    away = (edges - np.asarray(values, dtype=float)[:, None]) / theta
    below, above = FAMILIES[noise].cdf(away), FAMILIES[noise].sf(away)
    right = away[:, :-1] > 0.0
    return np.where(right, above[:, :-1] - above[:, 1:], below[:, 1:] - below[:, :-1])


def distribution_of(noiser, rows, noise="laplace", table=TABLE, edges=EDGES):
    """Return the masses of released rows: an axis a column, and numbers in panels."""
    parts = []
    for name in noiser.theta_.index:
        theta, values = float(noiser.theta_[name]), rows[name].to_numpy()
        if name in ("job", "kin") or theta == 0.0:
            alphabet, counts = np.unique(table[name], return_counts=True)
            kept = (values[:, None] == alphabet).astype(float)
            shares = counts + 1.0
            parts.append(math.exp(-theta) * kept - math.expm1(-theta) * shares / shares.sum())
        else:
            parts.append(masses_of(values, theta, noise, edges))
    letters = "abc"[: len(parts)]
    return np.einsum(",".join(f"r{k}" for k in letters) + "->" + letters, *parts) / len(rows)


def loss_of(p, q, *, delta=None, alpha=None, epsilon=1.0):
    """Return the larger loss of two distributions, in the unit of the guarantee."""
    found = []
    for a, b in ((p, q), (q, p)):
        some = (a > 0.0) & (a + b > 1e-30)
        with np.errstate(divide="ignore", over="ignore"):
            if delta is not None:
                found.append(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())
            elif alpha is not None:
                powers = a[some] ** alpha * b[some] ** (1.0 - alpha)
                found.append(np.log(powers.sum()) / (alpha - 1.0))
            else:
                found.append(np.log(a[some] / b[some]).max())
    return float(max(found))


def losses(noiser, known, noise="laplace", table=TABLE, edges=EDGES, **promise):
    """Return what is lost to who knows nothing else, and at worst given a value of the columns."""
    secrets = np.unique(table["ill"])
    cases = [("", table), *((names, own) for names in known for _, own in table.groupby(names))]
    worst: dict[bool, float] = {False: 0.0, True: 0.0}
    for names, own in cases:
        distributions = [
            distribution_of(noiser, own[own["ill"] == s], noise, table, edges) for s in secrets
        ]
        lost = max(loss_of(p, q, **promise) for p, q in itertools.combinations(distributions, 2))
        worst[bool(names)] = max(worst[bool(names)], lost)
    return worst[False], worst[True]


def fitted(epsilon=1.0, table=NUMBERS, **options):
    return PufferfishNoiser(epsilon, sensitive="ill", **options).fit(table)


# --------------------------------------------------------------------------------- the guarantee


PROMISES = [
    ("laplace", {}),
    ("gaussian", {"delta": 1e-2}),
    ("cauchy", {"alpha": 3.0}),
    ("laplace", {"delta": 1e-2}),
    ("laplace", {"alpha": 3.0}),
    ("gaussian", {"alpha": 3.0}),
    ("cauchy", {}),
]
COLUMNS = [("one", "two"), ("kin", "two"), ("one", "job")]
QUICK = [(*PROMISES[k], *COLUMNS[k]) for k in range(3)]
MORE = [(*promise, *names) for promise in PROMISES for names in COLUMNS]


@pytest.mark.parametrize(
    ("noise", "promise", "known", "other"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE if each not in QUICK)],
)
def test_what_is_known_stays_and_the_budget_holds_given_it_or_not(noise, promise, known, other):
    options = {"noise": noise, "output": "noisy", **promise}
    noiser = fitted(table=TABLE[["ill", known, other]], known=known, **options)
    told, given = losses(noiser, [[known]], noise, **promise)
    budget = promise.get("delta", 1.0)
    assert noiser.theta_[known] == 0.0
    assert noiser.certificate_.holds
    assert max(told, given) <= budget * (1.0 + 1e-6)
    assert max(told, given) >= 0.97 * budget  # and no more noise than that needs
    assert noiser.certificate_.loss == pytest.approx(max(told, given), rel=0.03)


@pytest.mark.parametrize("known", [["one", "job"], [("one", "job")], [("one", "job"), "one"]])
def test_several_columns_may_be_known_each_by_itself_or_together(known):
    noiser = fitted(2.5, THREE, known=known)
    names = [list(each) if isinstance(each, tuple) else [each] for each in known]
    told, given = losses(noiser, names)
    assert max(told, given) <= 2.5
    assert max(told, given) >= 2.3
    kept = {name for each in names for name in each}
    assert (noiser.theta_[[*kept]] == 0.0).all()
    assert (noiser.theta_.drop([*kept]) > 0.0).all()


def rows_of(*counted):
    """Return a table of rows with their counts: ill, one, two, three."""
    rows = [row for *row, count in counted for _ in range(count)]
    return pd.DataFrame(rows, columns=["ill", "one", "two", "three"])


# given one = 2, three is 1 with chances 16/60 and 10/100, and the share of one = 2 hides that
TELLING = [(0, 2, 0, 44), (0, 2, 1, 16), (1, 2, 0, 90), (1, 2, 1, 10)]
SILENT = [(s, 0, three, 470 - 20 * s) for s in (0, 1) for three in (0, 1)]


def told_given(theta, own, name="three"):
    """Return what a column of zeros and ones tells of some rows: the loss is worst at these."""
    zero, one = (own[name][own["ill"] == s].mean() for s in (0, 1))
    far = math.exp(-1.0 / theta) if theta else 0.0
    distributions = [np.array([1 - p + p * far, p + (1 - p) * far]) for p in (zero, one)]
    return float(np.abs(np.log(distributions[0] / distributions[1])).max())


@pytest.mark.parametrize("known", ["one", ("one", "two"), ["one", "two"]])
@pytest.mark.parametrize("missing", [False, True])
def test_what_is_known_together_counts_across_groups_and_where_some_of_it_is_missing(
    known, missing
):
    both = [(s, one, two, t, n) for two in (0.0, 1.0) for s, one, t, n in TELLING + SILENT]
    gaps = [(s, one, np.nan, t, n) for s, one, t, n in TELLING + SILENT]
    full = [
        (s, one, two, t, 50) for s in (0, 1) for one in (0, 1) for two in (0.0, 1.0) for t in (0, 1)
    ]
    table = rows_of(*gaps, *full) if missing else rows_of(*both)
    options = {"missing": "propagate"} if missing else {"dependence": [["one", "three"], ["two"]]}
    noiser = fitted(0.75, table, known=known, **options)
    own = table[(table["one"] == 2) & (table["two"].isna() if missing else table["two"] == 0.0)]
    assert told_given(0.0, own) > 0.98
    assert 0.74 < told_given(noiser.theta_["three"], own) <= 0.75


@pytest.mark.parametrize("known", ["one", ("kin", "one"), ["kin", "one"]])
def test_known_values_that_do_not_occur_together_are_no_obstacle(known):
    rows = [("x", 0, 0, 9, 5), ("x", 0, 1, 5, 9), ("y", 0, 0, 7, 8), ("y", 0, 1, 8, 6)]
    rows += [("y", 1, 0, 3, 9), ("y", 1, 1, 6, 4)]  # and none of x and 1
    counted = [(s, *row, n[s]) for *row, m, k in rows for n in [(m, k)] for s in (0, 1)]
    table = pd.DataFrame(
        [row for *row, n in counted for _ in range(n)], columns=["ill", "kin", "one", "two"]
    )
    noiser = fitted(0.72, table, known=known)
    names = [list(known)] if isinstance(known, tuple) else [[each] for each in known]
    told, given = losses(noiser, [["one"]] if known == "one" else names, table=table)
    assert max(told, given) <= 0.72
    assert noiser.certificate_.loss == pytest.approx(max(told, given), abs=1e-6)


def test_what_is_known_together_of_two_groups_adds_up():
    own = rows_of(*[(s, one, 0, three, n) for s, one, three, n in TELLING + SILENT])
    rows = [
        (s, one, three, kin, four, n * m)
        for s, one, three, n in TELLING + SILENT
        for t, kin, four, m in TELLING + SILENT
        if s == t
    ]
    table = pd.DataFrame(rows, columns=["ill", "one", "three", "kin", "four", "count"])
    groups = [["one", "three"], ["kin", "four"]]
    noiser = PufferfishNoiser(1.6, sensitive="ill", known=("one", "kin"), dependence=groups)
    noiser.fit(table.drop(columns="count"), sample_weight=table["count"])
    lost = [told_given(noiser.theta_[name], own[own["one"] == 2]) for name in ("three", "four")]
    assert 1.59 < sum(lost) <= 1.6


def test_without_known_who_knows_a_value_learns_more_than_was_guaranteed():
    # the noise is one that the known column shares, and given its value it is that of the other
    plain = fitted()
    given = 0.0
    for _, own in NUMBERS.groupby("one"):
        distributions = [
            distribution_of(plain, own[own["ill"] == s], edges=EDGES[::8]) for s in (0, 1)
        ]
        given = max(given, loss_of(*distributions))
    assert given > 1.02


def test_three_secrets_and_their_pairs_keep_the_guarantee():
    rng = np.random.default_rng(3)
    table = TABLE.assign(ill=TABLE["ill"] + (rng.random(len(TABLE)) < 0.3))
    noiser = fitted(1.5, table[["ill", "one", "two"]], known="one")
    told, given = losses(noiser, [["one"]], table=table)
    assert 1.4 <= max(told, given) <= 1.5


@pytest.mark.slow
def test_two_numbers_beside_a_known_column_keep_a_delta():
    rng = np.random.default_rng(1)
    far = (rng.random(len(TABLE)) < 0.3 + 0.4 * TABLE["ill"]).astype(int)
    table = NUMBERS.assign(one=NUMBERS["one"] // 2, two=NUMBERS["two"] // 2, far=far)
    noiser = fitted(1.0, table, known="one", noise="gaussian", delta=0.05)
    assert noiser.certificate_.holds
    edges = np.array([-np.inf, *np.linspace(-25.0, 27.0, 105), np.inf])
    delta, distributions = 0.0, []
    for _, own in table.groupby("ill"):
        kept = (own["one"].to_numpy()[:, None] == [0, 1]).astype(float)
        parts = [
            masses_of(own[name], noiser.theta_[name], "gaussian", edges) for name in ("two", "far")
        ]
        distributions.append(np.einsum("ra,rb,rc->abc", kept, *parts) / len(own))
    for p, q in (distributions, distributions[::-1]):
        delta = max(delta, float(np.maximum(p - math.e * q, 0.0).sum()))
    given = [
        np.maximum(p[v] / p[v].sum() - math.e * q[v] / q[v].sum(), 0.0).sum()
        for p, q in (distributions, distributions[::-1])
        for v in range(2)
    ]
    assert 0.045 <= max(delta, *given) <= 0.05
    assert set(noiser.certificate_.table["source"]) == {"recomputed"}


@pytest.mark.parametrize("options", [{}, {"delta": 1e-2}])
def test_independent_columns_keep_the_budget_given_what_is_known(options):
    noiser = fitted(known="one", dependence="independent", table=NUMBERS, **options)
    distributions = []
    for _, own in NUMBERS.groupby("ill"):
        shares = own["one"].value_counts(normalize=True).sort_index().to_numpy()
        distributions.append(np.outer(shares, distribution_of(noiser, own).sum(axis=0)))
    told = loss_of(*distributions, **options)
    assert told <= options.get("delta", 1.0)
    assert noiser.certificate_.holds
    assert noiser.certificate_.loss >= told - 1e-9


def test_what_only_one_secret_has_is_a_delta_whatever_the_noise():
    table = pd.concat([NUMBERS] * 5, ignore_index=True)
    table.loc[table.index[table["ill"] == 1][:2], "one"] = 7
    noiser = fitted(2.0, table, known="one", delta=0.02)
    gone = 2 / (table["ill"] == 1).sum()
    assert gone < noiser.certificate_.loss <= 0.02
    theta, distributions = float(noiser.theta_["two"]), []
    for _, own in table.groupby("ill"):
        kept = own["one"].to_numpy()[:, None] == [0, 1, 2, 7]
        masses = masses_of(own["two"], theta)
        distributions.append(np.einsum("ra,rb->ab", kept.astype(float), masses) / len(own))
    told = loss_of(*distributions, delta=0.02, epsilon=2.0)
    assert gone < told <= noiser.certificate_.loss * (1 + 1e-9)
    for promise in ({}, {"alpha": 3.0}):
        with pytest.raises(ValueError, match=r"already tells inf .*allow a delta"):
            fitted(2.0, table, known="one", **promise)


def test_the_certificate_is_about_what_is_released_and_not_about_the_raw_noise():
    # of whole numbers, the distributions of the whole numbers that come out
    noiser = fitted(known="one")
    edges, distributions = np.arange(-40, 45) - 0.5, []
    for _, own in NUMBERS.groupby("ill"):
        masses = masses_of(own["two"], float(noiser.theta_["two"]), edges=edges)
        kept = own["one"].to_numpy()[:, None] == [0, 1, 2]
        distributions.append(np.einsum("ra,rb->ab", kept.astype(float), masses) / len(own))
    p, q = distributions
    assert np.abs(np.log(p / q)).max() <= 1.0
    given = np.log(p / p.sum(axis=1, keepdims=True)) - np.log(q / q.sum(axis=1, keepdims=True))
    assert np.abs(given).max() <= 1.0 + 1e-9


# --------------------------------------------------------------------------- what is released


def test_known_values_come_out_exactly_as_they_came():
    rng = np.random.default_rng(5)
    columns = {
        "small": rng.integers(-3, 3, 300).astype(np.int8),
        "half": (rng.integers(0, 4, 300) / 10).astype(np.float32),
        "flag": rng.random(300) < 0.5,
        "kind": pd.Categorical(rng.choice([*"uvw"], 300)),
        "gaps": pd.array(rng.integers(0, 3, 300), dtype="Int16"),
    }
    table = pd.DataFrame(columns, index=np.arange(300) * 7)
    table["two"] = rng.integers(0, 4, 300)
    table["ill"] = (rng.random(300) < 0.2 + 0.2 * table["two"]).astype(int)
    for name in columns:
        noiser = fitted(1.0, table[["ill", name, "two"]], known=name)
        released = noiser.transform(table.drop(columns="ill"))
        pd.testing.assert_series_equal(released[name], table[name])
        assert not released["two"].equals(table["two"])


def test_of_a_binned_column_the_representative_is_what_may_be_known():
    rng = np.random.default_rng(6)
    table = NUMBERS.assign(age=rng.integers(0, 60, len(TABLE)))
    noiser = fitted(2.0, table, known="age", n_bins={"age": 3}, public=["age", "two"])
    released = noiser.transform(table)["age"]
    assert released.nunique() == 3
    assert released.dtype == table["age"].dtype
    assert (released.groupby(released).transform("size") > 50).all()
    assert (released.to_numpy()[table["age"] == 0] == released.min()).all()
    assert any("representative of their bin" in s for s in noiser.certificate_.assumptions)
    assert not any("plus noise" in s for s in noiser.certificate_.assumptions)
    told, given = losses(noiser, [["age"]], table=table.assign(age=released.to_numpy()))
    assert max(told, given) <= 2.0


def test_utility_and_theta_say_that_known_columns_are_unchanged():
    noiser = fitted(known="one")
    assert noiser.utility_.loc["one", ["change", "unchanged"]].tolist() == [0.0, 1.0]
    assert noiser.theta_["one"] == 0.0 < noiser.theta_["two"]


def test_weights_are_those_of_the_other_columns():
    given = fitted(2.5, THREE, known="one", weights={"two": 2.0, "job": 1.0})
    assert given.theta_["one"] == 0.0
    assert given.theta_["two"] == pytest.approx(2.0 * given.theta_["job"])
    assert max(losses(given, [["one"]])) <= 2.5


# ------------------------------------------------------------------------- again, and elsewhere


def test_a_known_value_costs_its_loss_once_however_often_it_is_released():
    noiser = fitted(known="one", releases=2)
    theta, worst = float(noiser.theta_["two"]), 0.0
    points = np.arange(-30, 35)
    for given in (False, True):
        distributions = []
        for _, own in NUMBERS.groupby("ill"):
            masses = stats.laplace.pdf(points, own["two"].to_numpy()[:, None], theta)
            kept = own["one"].to_numpy()[:, None] == [0, 1, 2]
            distribution = np.einsum("ra,rb,rc->abc", kept.astype(float), masses, masses) / len(own)
            distributions.append(
                distribution / distribution.sum(axis=(1, 2), keepdims=True)
                if given
                else distribution
            )
        worst = max(worst, float(np.abs(np.log(distributions[0] / distributions[1])).max()))
    assert 0.9 <= worst <= 1.0 + 1e-6


def test_a_ledger_counts_the_noise_of_the_others_and_no_known_column(tmp_path):
    noiser = fitted(known="one", releases=2)
    ledger = Ledger.create(tmp_path / "a.ledger", noiser)
    for _ in range(2):
        assert ledger.transform(noiser, NUMBERS)["one"].equals(NUMBERS["one"])
    with pytest.raises(OverspentError, match="0 are left"):
        ledger.transform(noiser, NUMBERS)


CELLS = [(a, b, c) for a in range(3) for b in range(3) for c in range(2)]
WHOM = ["one", ["one", "two"], [("one", "two")], ["one", ("one", "two")]]


def some_prior(seed: int) -> dict[int, Discrete]:
    """Two distributions over all rows, without mass in a row or two."""
    rng = np.random.default_rng(seed)
    distributions = rng.dirichlet(np.full(len(CELLS), 2.0), 2)
    distributions[:, rng.integers(0, len(CELLS), seed % 3)] = 0.0
    return {
        s: Discrete(CELLS, distribution / distribution.sum())
        for s, distribution in enumerate(distributions)
    }


def lost_under(noiser, prior, known, released, **promise):
    """Return what is lost under a prior to who sees rows, and given each value of the columns.

    ``released(cells)`` is what rows become, an axis of cells first.
    """
    rows = np.array(CELLS)
    seen = released(noiser, rows)
    masses = [
        dict(zip(map(tuple, distribution.rows), distribution.probabilities, strict=True))
        for distribution in prior
    ]
    distributions = np.array([[of.get(cell, 0.0) for cell in CELLS] for of in masses])
    names = list(noiser.certificate_.fitted.columns)
    places = {column.name: k for k, column in enumerate(names)}
    cases = [np.zeros(len(rows), dtype=int)]
    for each in known if isinstance(known, list) else [known]:
        own = [places[name] for name in ([each] if isinstance(each, str) else each)]
        cases.append(np.unique(rows[:, own], axis=0, return_inverse=True)[1].ravel())
    worst = 0.0
    for case in cases:
        for value in np.unique(case):
            given = distributions * (case == value)
            if given.sum(axis=1).all():
                p, q = given / given.sum(axis=1, keepdims=True) @ seen
                worst = max(worst, loss_of(p, q, **promise))
    return worst


def with_noise(noise, looked_at="abc"):
    """Return how rows come out under noise, seen in the first columns."""

    def released(noiser, rows):
        parts = []
        for theta, values in zip(noiser.theta_, rows.T, strict=True):
            kept = (values[:, None] == np.arange(3)).astype(float)
            parts.append(masses_of(values, theta, noise, COARSE) if theta > 0.0 else kept)
        letters = ",".join(f"r{k}" for k in looked_at)
        seen = np.einsum(f"{letters}->r{looked_at}", *parts[: len(looked_at)])
        return seen.reshape(len(rows), -1)

    return released


COARSE = np.array([-np.inf, *np.linspace(-40.0, 42.0, 411), np.inf])


def weakly_ill(seed: int) -> pd.DataFrame:
    """Rows that have every cell, in which no column tells much."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.array([(s, *cell) for s in (0, 1) for cell in CELLS]), 40, axis=0)
    table = pd.DataFrame(rows, columns=["ill", "one", "two", "three"])
    moved = (rng.random(len(table)) < 0.2) & (table["ill"] == 1)
    return table.assign(three=np.where(moved, 1, table["three"]))


UNDER = [
    ({"noise": "laplace"}, {}),
    ({"noise": "gaussian", "delta": 1e-3}, {"delta": 1e-3}),
    ({"noise": "laplace", "alpha": 3.0}, {"alpha": 3.0}),
    ({"noise": "cauchy"}, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize("known", WHOM)
@pytest.mark.parametrize(("options", "promise"), UNDER)
def test_against_another_prior_is_the_loss_to_who_holds_it_and_may_know_values(
    options, promise, known
):
    released = with_noise(options["noise"])
    noiser = fitted(0.1, weakly_ill(0), known=known, output="noisy", **options)
    prior = some_prior(0)
    lost = lost_under(noiser, list(prior.values()), known, released, epsilon=0.1, **promise)
    told = noiser.certificate_.against(prior)
    assert told.loss >= lost * (1.0 - 1e-9)
    assert told.loss == pytest.approx(lost, rel=2e-2, abs=1e-9)
    assert len(told.pairs) == len(told.table) == 2
    assert told.loss == max(pair.upper for pair in told.pairs)


@pytest.mark.parametrize("options", [{}, {"noise": "gaussian", "delta": 1e-3}])
def test_a_prior_whose_whole_rows_tell_less_than_rows_of_a_known_value(options):
    rows = [(s, x, y) for s in "ab" for x in (0, 1) for y in (0, 1)]
    table = pd.DataFrame(rows * 10, columns=["s", "x", "y"])
    cells = [(0, 0), (1, 0), (0, 1), (1, 1)]
    prior = {
        "a": Discrete(cells, [0.4 * 0.018, 0.4 * 0.982, 0.3, 0.3]),
        "b": Discrete(cells, [0.6 * 0.01, 0.6 * 0.99, 0.2, 0.2]),
    }
    told = PufferfishNoiser(0.5, sensitive="s", known=["y"], **options).fit(table)
    lost = told.certificate_.against(prior).loss
    at_0 = 0.018 - math.exp(0.5) * 0.01  # given y = 0, the excess of x = 0
    assert lost == pytest.approx(at_0 if "delta" in options else math.log(1.8), rel=1e-6)
    blind = PufferfishNoiser(0.5, sensitive="s", **options).fit(table).certificate_.against(prior)
    whole = math.log(0.6 * 0.99 / (0.4 * 0.982))
    assert blind.loss == pytest.approx(0.0 if "delta" in options else whole, abs=1e-6)


def test_against_a_further_adversary_is_what_fit_proved_of_him():
    prior = {
        s: Discrete(CELLS, (distribution.probabilities + 1.0) / 19.0)
        for s, distribution in some_prior(1).items()
    }
    noiser = fitted(1.0, weakly_ill(1), known=["one", "two"], adversaries=[prior])
    alone = fitted(1.0, weakly_ill(1), prior=prior, known="one")
    told = noiser.certificate_.against(prior)
    assert told.holds
    assert alone.certificate_.against(prior).loss == pytest.approx(alone.certificate_.loss)


def hidden_by_one(name: str) -> pd.DataFrame:
    """Rows where a 0 in a column tells, given one = 0, and one itself hides it."""
    counts = [12, 28, 60, 3, 57, 40]
    cells = [(s, one, other) for s in (0, 1) for one, other in ((0, 0), (0, 1), (1, 1))]
    rows = pd.DataFrame(np.repeat(cells, counts, axis=0), columns=["ill", "one", name])
    rest = {"two", "three"} - {name}
    return rows.assign(**dict.fromkeys(rest, np.arange(len(rows)) % 2))[
        ["ill", "one", "two", "three"]
    ]


def test_another_prior_loses_what_it_tells_who_knows_a_value_of_rows():
    noiser, new = fitted(3.0, weakly_ill(0), known="one"), hidden_by_one("three")
    released = with_noise("laplace")
    prior = [
        Discrete.from_counts(
            *np.unique(own[["one", "two", "three"]].to_numpy(), axis=0, return_counts=True)
        )
        for _, own in new.groupby("ill")
    ]
    lost = lost_under(noiser, prior, "one", released)
    told = noiser.certificate_.against(dict(enumerate(prior)))
    assert told.loss == pytest.approx(lost, rel=2e-2)
    assert lost > 1.01 * lost_under(noiser, prior, [], released)


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"noise": "cauchy"}, marks=pytest.mark.slow), {"alpha": 3.0}],
    ids=str,
)
def test_a_prior_with_a_known_value_of_one_secret_alone_loses_it_whatever_the_noise(options):
    noiser, (first, _) = fitted(0.1, weakly_ill(0), known="one", **options), some_prior(0).values()
    rest = first.rows[:, 0] > 0
    other = Discrete.from_counts(first.rows[rest], first.counts[rest])
    there, back = noiser.certificate_.against({0: first, 1: other}).pairs
    assert (there.lower, there.upper) == (math.inf, math.inf)
    assert 0.0 < back.lower <= back.upper < math.inf


def test_a_classifier_may_know_a_column_too():
    model = ClassifierFit(DecisionTreeClassifier(min_samples_leaf=5), cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what counting knows more
        noiser = fitted(2.0, NUMBERS, known="one", prior=model)
    assert noiser.certificate_.holds
    assert noiser.theta_["one"] == 0.0
    assert {each.adversary for each in noiser.certificate_.pairs} == {0, 1, 2, 3}
    assert noiser.certificate_.counted  # what counting the same release tells


@pytest.mark.slow
def test_what_counting_tells_is_told_to_who_knows_a_value_too():
    table = pd.concat([weakly_ill(2), *[hidden_by_one("two")] * 30])
    model = ClassifierFit(DecisionTreeClassifier(max_depth=1), cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what counting knows more
        noiser = fitted(1.0, table, known="one", prior=model)
    distributions = [
        Discrete.from_counts(*np.unique(own[["one", "two", "three"]], axis=0, return_counts=True))
        for _, own in table.groupby("ill")
    ]

    released = with_noise("laplace", "ab")  # the third column is not looked at
    [told] = [c for c in noiser.certificate_.counted if c.columns == ("one", "two")]
    lost = lost_under(noiser, distributions, "one", released)
    assert told.loss == pytest.approx(lost, rel=2e-2)
    assert lost > 1.001 * lost_under(noiser, distributions, [], released)


def test_given_priors_are_known_given_a_value():
    atoms = [[a, b] for a in (0, 1) for b in (0, 1)]
    prior = {0: Discrete(atoms, [0.4, 0.1, 0.1, 0.4]), 1: Discrete(atoms, [0.1, 0.4, 0.4, 0.1])}
    table = pd.DataFrame({"ill": [0, 1] * 4, "one": [0, 0, 1, 1] * 2, "two": [0, 1] * 4})
    noiser = PufferfishNoiser(0.5, sensitive="ill", prior=prior, known="one").fit(table)
    # given one = 0, two is 0 with chances 0.8 and 0.2
    theta = float(noiser.theta_["two"])
    share = math.exp(-1.0 / theta)
    assert math.log((0.8 + 0.2 * share) / (0.2 + 0.8 * share)) == pytest.approx(0.5, abs=1e-6)


def test_the_certificate_says_who_knows_what():
    certificate = fitted(3.0, known=["one", ("one", "two")]).certificate_
    assert certificate._headline().endswith("prior, also to who knows one or one and two")
    said = " ".join(certificate.assumptions)
    assert "if the adversary knows one or one and two of a row" in said
    assert "'one', 'two', is released without noise" in said
    assert "need no noise" not in said


# ------------------------------------------------------------------------------- the refusals


def test_a_column_that_tells_too_much_by_itself_is_refused_by_name():
    table = pd.DataFrame({"ill": [0] * 9 + [1] * 9, "one": [0] * 8 + [1] + [0] * 3 + [1] * 6})
    table["two"] = [0, 1] * 9
    message = r"known='one' leaves 'one' unchanged, and by itself that already tells 1.79 \(nats\) "
    message += r"about 'ill', more than epsilon = 1 allows; leave columns out of "
    with pytest.raises(ValueError, match=message + r".*n_bins, categories.*larger epsilon"):
        fitted(1.0, table, known="one")
    assert fitted(1.8, table, known="one").certificate_.holds


def test_columns_that_tell_too_much_together_are_refused_together():
    with pytest.raises(ValueError, match="leaves 'one', 'two' unchanged, and together they alread"):
        fitted(known=["one", "two"])
    with pytest.raises(ValueError, match=r"together they already tell .* \(delta\)"):
        fitted(known=[("one", "two")], delta=1e-3)


@pytest.mark.parametrize("strategy", ["relaxed", "wasserstein", "sensitivity"])
def test_other_strategies_have_no_bound_for_what_stays(strategy):
    with pytest.raises(
        ValueError, match=f"exact loss and no other bound, got strategy='{strategy}"
    ):
        fitted(known="one", strategy=strategy)


def test_rows_too_wide_for_the_exact_loss_are_refused_before_they_are_searched():
    rng = np.random.default_rng(2)
    table = NUMBERS.assign(**{name: rng.integers(0, 3, len(TABLE)) for name in "abc"})
    message = (
        r"known='one' keeps columns unchanged, which needs the exact loss of .*Microaggregator"
    )
    with pytest.raises(ValueError, match=message):
        fitted(3.0, table, known="one", noise="gaussian", delta=1e-2)


def test_known_values_make_too_many_pairs_by_name():
    table = pd.DataFrame({"ill": np.arange(120) % 60, "one": np.arange(120) % 2})
    with pytest.raises(ValueError, match=r"given each value of what may be known.*known="):
        PufferfishNoiser(
            1.0,
            sensitive="ill",
            delta=0.1,
            known="one",
            secret_pairs=[(a, a + 1) for a in range(59)] * 20,
        ).fit(table)


# ------------------------------------------------------------------- the losses, at the source


def small_distributions(seed):
    rng = np.random.default_rng(seed)
    rows = [[v, c, x] for v in (0.0, 2.5) for c in (0.0, 1.0) for x in (0.0, 1.0, 3.0)]
    counts = rng.integers(0, 9, (2, len(rows))) + (np.arange(len(rows)) % 5 == 0)
    return [Discrete.from_counts(rows, own) for own in counts]


@pytest.mark.parametrize(
    "notion", [Pufferfish(0.3), Pufferfish(0.3, 1e-3), RenyiPufferfish(0.5, 2.5)]
)
@pytest.mark.parametrize("seed", range(3))
def test_an_unchanged_axis_beside_a_kernel_and_a_number_has_the_summed_loss(notion, seed):
    p, q = small_distributions(seed)
    mixing = Mixing.of_counts([0.0, 1.0], [5, 2])
    family = Gaussian if notion.divergence != Pufferfish(0.3).divergence else Laplace
    noise = MixedNoise(family((1.0, 0.7, 1.5)), (Unchanged.of_values([0.0, 2.5]), mixing, None))
    lower, upper = LossTable([PriorPair(p, q)], notion).intervals(noise)
    pdf = stats.norm.pdf if family is Gaussian else stats.laplace.pdf
    points = np.linspace(-30.0, 33.0, 6301)
    distributions = []
    for distribution in (p, q):
        rows, masses = distribution.rows, distribution.probabilities
        kept = rows[:, :1] == [0.0, 2.5]
        drawn = math.exp(-0.7) * (rows[:, 1:2] == [0.0, 1.0])
        drawn = drawn - math.expm1(-0.7) * mixing.probabilities
        lines = pdf(points, rows[:, 2:], 1.5) * 0.01
        distributions.append(np.einsum("r,ra,rb,rc->abc", masses, kept.astype(float), drawn, lines))
    way = {"epsilon": 0.3, "delta": 1e-3} if notion.delta else {}
    way = {"alpha": 2.5} if isinstance(notion, RenyiPufferfish) else way
    expected = loss_of(*distributions, **way)
    assert lower.max() <= upper.max()
    assert upper.max() == pytest.approx(expected, rel=2e-3)


def test_equal_distributions_at_a_place_are_one_panel():
    # there is no noise to look through, be it ever so little
    p, q = Discrete([0.0, 1.0], [0.25, 0.75]), Discrete([0.0, 1.0], [0.5, 0.5])
    noise = MixedNoise(Laplace((1.0,)), (Unchanged.of_values([0.0, 1.0]),))
    [panels] = LossTable([PriorPair(p, q)], Pufferfish(0.1, 1e-3)).panels(noise)
    assert len(panels.p_low) == 2
    assert (panels.p_low <= [0.25, 0.75]).all()
    assert (panels.p_high >= [0.25, 0.75]).all()


def test_what_stays_alone_loses_what_its_shares_do():
    p, q = Discrete([0.0, 1.0], [0.25, 0.75]), Discrete([0.0, 1.0], [0.5, 0.5])
    noise = MixedNoise(Laplace((1.0,)), (Unchanged.of_values([0.0, 1.0]),))
    for notion, expected in (
        (Pufferfish(1.0), math.log(2.0)),
        (Pufferfish(0.1, 1e-3), 0.5 - math.exp(0.1) * 0.25),
        (RenyiPufferfish(1.0, 2.0), math.log(4.0 / 3.0)),
    ):
        for factor in (1e-3, 1.0, 1e6):
            lower, upper = LossTable([PriorPair(p, q)], notion).intervals(noise.scaled(factor))
            assert lower.max() == pytest.approx(expected, rel=1e-9)
            assert upper.max() == pytest.approx(expected, rel=1e-9)
            assert lower.max() <= expected * (1 + 1e-15) <= upper.max() * (1 + 1e-15)


@pytest.mark.parametrize("notion", [Pufferfish(1.0), RenyiPufferfish(1.0, 2.0)], ids=str)
def test_what_stays_and_only_one_secret_has_is_lost_beyond_bounds_whatever_the_noise(notion):
    p, q = Discrete([0.0, 1.0], [0.25, 0.75]), Discrete([0.0], [1.0])
    noise = MixedNoise(Laplace((1.0,)), (Unchanged.of_values([0.0, 1.0]),))
    for factor in (1e-3, 1.0, 1e6):
        lower, upper = LossTable([PriorPair(p, q)], notion).intervals(noise.scaled(factor))
        assert lower.tolist() == [[math.inf, pytest.approx(math.log(4.0))]]
        assert upper.tolist() == [[math.inf, pytest.approx(math.log(4.0))]]
