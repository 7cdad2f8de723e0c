"""`PufferfishNoiser(noise="optimal")`: from settings to channel, certificate and ledger."""

import dataclasses
import json
import math
import pickle
import warnings
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from channel_oracle import Filled
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
from sklearn_puffer._noiser import channel_fit
from sklearn_puffer._noiser.channel_release import DistinctRows
from sklearn_puffer._noiser.mechanism import NoiseOfColumns
from sklearn_puffer._tables import frame_table
from sklearn_puffer.fits import ClassifierFit, GaussianFit
from sklearn_puffer.noise import OptimalChannel
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture

WHOLE = 2**62

# changes worse than a constant are no fault of what is tested here
pytestmark = [
    pytest.mark.filterwarnings("ignore:column.* tell nothing any more"),
    pytest.mark.filterwarnings("ignore:random_state=.* is for tests only"),
]


def people(n_rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Rows of a sensitive column and three public ones that depend on it."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n_rows)
    job = np.where(rng.random(n_rows) < 0.7, rng.integers(0, 3, n_rows), ill + 1)
    return pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "age": rng.integers(0, 3, n_rows) + ill * rng.integers(0, 2, n_rows),
            "job": np.array(["baker", "clerk", "miner"])[job],
            "home": rng.random(n_rows) < 0.4 + 0.2 * ill,
        }
    )


def optimal(epsilon: float = 0.5, **options) -> PufferfishNoiser:
    return Filled(epsilon, **{"sensitive": "ill", "noise": "optimal"} | options)


TABLE = people()
NOISER = optimal().fit(TABLE)


# ---------------------------------------------------------------- an oracle: distributions as
# fractions


def channel_of(noiser):
    """Return W as {cell: {cell: share of 2^62}}, cells as tuples."""
    cells = cells_of(noiser.channel_.cells, *noiser.channel_.cells.columns)
    matrix = noiser.channel_.numerators
    return {
        cell: {
            cells[y]: int(share)
            for y, share in zip(
                matrix.indices[matrix.indptr[x] : matrix.indptr[x + 1]],
                matrix.data[matrix.indptr[x] : matrix.indptr[x + 1]],
                strict=True,
            )
        }
        for x, cell in enumerate(cells)
    }


def distributions_of(noiser, cells, secrets, given=lambda cell: True):
    """Return {secret: {released cell: probability}} of rows with these cells and secrets."""
    channel = channel_of(noiser)
    rows = [(cell, s) for cell, s in zip(cells, secrets, strict=True) if given(cell)]
    distributions = {}
    for secret in {s for _, s in rows}:
        own = Counter(cell for cell, s in rows if s == secret)
        whole, shares = WHOLE * own.total(), Counter()
        for cell, n_rows in own.items():
            for target, share in channel[cell].items():
                shares[target] += n_rows * share
        distributions[secret] = {target: Fraction(n, whole) for target, n in shares.items()}
    return distributions


def max_log_ratio(p, q):
    if any(q.get(y, 0) == 0 for y in p):
        return math.inf
    ratio = max(mass / q[y] for y, mass in p.items())
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def hockey_stick(p, q, epsilon):
    factor = Fraction(math.exp(epsilon))
    return float(sum(max(mass - factor * q.get(y, 0), 0) for y, mass in p.items()))


def cells_of(table, *columns):
    """Return rows as tuples, with None for what is missing."""
    rows = table[list(columns)].itertuples(index=False, name=None)
    return [tuple(None if pd.isna(value) else value for value in row) for row in rows]


def check_losses(noiser, cells, secrets, sensitive="ill", **given):
    """Hold every loss of the certificate against the distributions of what is released."""
    distributions, notion = (
        distributions_of(noiser, cells, secrets, **given),
        noiser.certificate_.notion,
    )
    told = noiser.certificate_.table
    told = told[(told["sensitive"] == sensitive) & (told["known"] == "")]
    assert len(told) == len(distributions) * (len(distributions) - 1)
    for row in told.itertuples():
        p, q = distributions[row.secret], distributions[row.against]
        exact = hockey_stick(p, q, notion.epsilon) if notion.delta else max_log_ratio(p, q)
        assert row.lower - 1e-12 <= exact <= row.upper + 1e-12
        assert row.upper - row.lower < 1e-9
        assert exact <= notion.budget


# ---------------------------------------------------------------- the guarantee


def test_the_released_row_keeps_the_budget_for_every_pair():
    check_losses(NOISER, cells_of(TABLE, "age", "job", "home"), TABLE["ill"])
    assert NOISER.certificate_.holds
    assert 0.49 < NOISER.certificate_.loss <= 0.5  # and no more is changed than that needs


def test_three_secrets_and_a_delta_keep_their_guarantee():
    table = TABLE.assign(ill=[*"abc"] * 100)
    table["age"] += np.where(table["ill"] == "c", 1, 0)
    noiser = optimal(0.3, delta=0.02, public=["age", "home"]).fit(table)
    check_losses(noiser, cells_of(table, "age", "home"), table["ill"])
    pure = optimal(0.3, public=["age", "home"]).fit(table)
    assert noiser.channel_.expected_change < pure.channel_.expected_change


def test_every_one_of_several_sensitive_columns_is_protected():
    rich = np.random.default_rng(3).random(len(TABLE)) < 0.2 + 0.2 * TABLE["age"]
    table = TABLE.assign(rich=np.where(rich, "rich", "poor"))
    noiser = optimal(0.5, sensitive=["ill", "rich"], public=["age", "home"]).fit(table)
    for name in ("ill", "rich"):
        check_losses(noiser, cells_of(table, "age", "home"), table[name], name)
    assert {kept.sensitive for kept in noiser.certificate_.channel.kept} == {"ill", "rich"}


def test_only_the_listed_pairs_are_protected():
    table = TABLE.assign(ill=[*"abc"] * 100)
    table["age"] = np.where(table["ill"] == "c", table["age"] + 9, table["age"])
    noiser = optimal(0.2, secret_pairs=[("a", "b")], public="age").fit(table)
    assert noiser.certificate_.holds
    told = {(row.secret, row.against) for row in noiser.certificate_.table.itertuples()}
    assert told == {("a", "b"), ("b", "a")}
    distributions = distributions_of(noiser, cells_of(table, "age"), table["ill"])
    assert max_log_ratio(distributions["a"], distributions["b"]) <= 0.2
    assert max_log_ratio(distributions["c"], distributions["a"]) > 0.2


@pytest.mark.parametrize("options", [{}, {"delta": 0.01}])
@pytest.mark.parametrize("forged", ["all stay", "thin moves"])
def test_a_solver_that_lies_is_not_believed(options, forged, monkeypatch):
    def found(problem):
        n = problem.n_cells
        shares = np.full((n, n), 1e-9 if forged == "thin moves" else 0.0)
        np.fill_diagonal(shares, 1.0)
        return shares

    monkeypatch.setattr(channel_fit, "find_channel", found)
    noiser = optimal(0.5, **options).fit(TABLE)
    check_losses(noiser, cells_of(TABLE, "age", "job", "home"), TABLE["ill"])
    assert noiser.certificate_.holds


def test_bins_are_what_is_released_and_what_is_protected():
    rng = np.random.default_rng(5)
    table = TABLE.assign(
        pay=np.round(rng.normal(50, 9, len(TABLE)) + 4 * (TABLE["ill"] == "yes"), 2)
    )
    noiser = optimal(0.5, public=["pay", "home"], n_bins=4).fit(table)
    medians = np.sort(noiser.channel_.cells["pay"].unique())
    assert len(medians) == 4
    cells = [*zip(table["home"], medians[_bins(noiser, table["pay"].to_numpy())], strict=True)]
    check_losses(noiser, cells, table["ill"])
    assert set(noiser.transform(table)["pay"]) <= set(medians)
    later = table.assign(pay=table["pay"] + 0.001)  # any number falls into a bin
    assert set(noiser.transform(later)["pay"]) <= set(medians)


def test_missing_categories_and_booleans_are_values_of_their_own():
    table = TABLE.astype({"home": object})
    table.loc[::7, "job"] = None
    table.loc[::11, "home"] = None
    noiser = optimal(0.5, public=["job", "home"], missing="category").fit(table)
    assert noiser.channel_.cells["job"].isna().any()
    cells = cells_of(table, "job", "home")
    check_losses(noiser, cells, table["ill"])
    released = noiser.transform(table)
    assert set(released["job"].dropna()) <= {"baker", "clerk", "miner"}


def test_a_given_prior_may_know_rows_that_fit_has_not_seen():
    atoms = [[a, h] for a in range(4) for h in (0, 1)] + [[9, 1]]
    sick = Discrete(atoms, np.array([1, 2, 1, 2, 1, 2, 3, 3, 1]) / 16)
    well = Discrete(atoms, np.array([3, 2, 2, 2, 2, 2, 1, 1, 1]) / 16)
    prior = {"yes": sick, "no": well}
    noiser = optimal(0.5, prior=prior, public=["age", "home"]).fit(TABLE)
    assert len(noiser.channel_.cells) == 9
    channel = channel_of(noiser)
    distributions = {}
    for secret, distribution in prior.items():
        distributions[secret] = {}
        for (age, home), mass in zip(
            distribution.atoms.tolist(), distribution.counts.tolist(), strict=True
        ):
            for target, share in channel[int(age), bool(home)].items():
                own = distributions[secret]
                own[target] = own.get(target, 0) + Fraction(
                    mass * share, distribution.total * WHOLE
                )
    for s, t in permutations(distributions, 2):
        assert max_log_ratio(distributions[s], distributions[t]) <= 0.5
    assert noiser.certificate_.against(prior).loss == noiser.certificate_.loss
    new = TABLE.assign(age=9, home=True)
    assert len(noiser.transform(new)) == len(TABLE)


def test_further_adversaries_are_protected_against_too():
    shifted = TABLE.assign(age=np.where(TABLE["home"], 3 - TABLE["age"], TABLE["age"]))
    own = optimal(0.5, public=["age", "home"]).fit(shifted)
    distributions = {s: of["age", "home"] for s, of in own.priors_["ill"].items()}
    alone = optimal(0.5, public=["age", "home"]).fit(TABLE)
    both = optimal(0.5, public=["age", "home"], adversaries=[distributions]).fit(TABLE)
    assert set(both.certificate_.table["adversary"]) == {0, 1}
    assert both.certificate_.against(distributions).holds
    assert both.channel_.expected_change >= alone.channel_.expected_change * (1 - 1e-6)


def test_another_prior_is_answered_exactly():
    distributions = {s: of["age", "job", "home"] for s, of in NOISER.priors_["ill"].items()}
    told = NOISER.certificate_.against(distributions)
    assert told.loss == NOISER.certificate_.loss
    rows = [distribution.rows[0] for distribution in distributions.values()]
    assert (
        NOISER.certificate_.against(
            {"no": Discrete([rows[0]], [1.0]), "yes": Discrete([rows[0]], [1.0])}
        ).loss
        <= 1e-12
    )
    with pytest.raises(ValueError, match=r"not seen in\s+fit"):
        NOISER.certificate_.against({s: Discrete([[9, 0, 0]], [1.0]) for s in distributions})
    with pytest.raises(ValueError, match=r"prior names 'maybe'"):
        NOISER.certificate_.against({**distributions, "maybe": distributions["no"]})


def test_an_unknown_row_is_named_where_another_prior_has_it():
    table = pd.DataFrame({"ill": [*"ny"] * 20, "a": [0, 0, 1, 1] * 10, "b": [0, 0, 1, 1] * 10})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = optimal().fit(table)
    with pytest.raises(ValueError, match=r"mass to the row \[0.0, 1.0\] for 'n'"):
        noiser.certificate_.against({s: Discrete([[0, 1]], [1.0]) for s in "ny"})


# ---------------------------------------------------------------- what changes


def binned(n_rows=300):
    """Return rows in bins, of which some are the representatives of theirs."""
    rng = np.random.default_rng(0)
    ill = rng.choice(["no", "yes"], n_rows)
    pay = rng.integers(0, 40, n_rows) + 8 * (ill == "yes")
    return pd.DataFrame({"ill": ill, "pay": pay, "vip": rng.integers(0, 2, n_rows)})


@pytest.mark.parametrize("weighted", [False, True])
def test_unchanged_are_the_rows_that_stay_in_their_bins(weighted):
    table = binned()
    weights = np.arange(len(table)) % 3 + 1 if weighted else np.ones(len(table), dtype=int)
    noiser = optimal(1.0, n_bins=4)
    noiser.fit(table, sample_weight=weights if weighted else None)
    channel = noiser.channel_
    cells = list(map(tuple, channel.cells.to_numpy()))
    chance = dict(zip(cells, channel.matrix.diagonal(), strict=True))
    edges = noiser._fitted.columns[0].column.edges
    middles = np.unique(channel.cells["pay"])
    own = list(zip(middles[np.searchsorted(edges, table["pay"])], table["vip"], strict=True))
    stays = np.array([chance[cell] for cell in own])
    assert channel.unchanged == pytest.approx(np.average(stays, weights=weights))
    yes = np.asarray(table["ill"] == "yes")
    expected = np.average(stays[yes], weights=weights[yes])
    assert channel.unchanged_by_secret["ill"]["yes"] == pytest.approx(expected)
    text = str(noiser.certificate_)
    assert f"{channel.unchanged:.1%} of the rows stay in their cells" in text
    released = np.mean(
        [(noiser.transform(table)["pay"].to_numpy() == table["pay"]).mean() for _ in range(40)]
    )
    assert released == pytest.approx(noiser.utility_.loc["pay", "unchanged"], abs=0.03 + weighted)


def test_a_lazy_table_of_bins_takes_a_number_to_be_as_frequent_in_every_row(monkeypatch):
    monkeypatch.setattr(channel_fit, "_MOST_BEYOND", 1.0)
    table, noiser = binned()[["ill", "pay"]], PufferfishNoiser(0.2, sensitive="ill", n_bins=4)
    noiser.set_params(noise="optimal")
    own, lazy = (clone(noiser).fit(each) for each in (table, pl.from_pandas(table).lazy()))
    assert lazy.channel_.unchanged == own.channel_.unchanged > 0.5
    equal = [noiser.utility_.loc["pay", "unchanged"] for noiser in (lazy, own)]
    assert equal[0] == pytest.approx(equal[1])
    assert 0.0 < equal[1] < 0.5


def test_shares_unchanged_and_costs_are_those_of_the_channel():
    cells, channel = cells_of(TABLE, "age", "job", "home"), channel_of(NOISER)
    stay = {cell: Fraction(row.get(cell, 0), WHOLE) for cell, row in channel.items()}
    assert NOISER.channel_.unchanged == pytest.approx(float(sum(stay[c] for c in cells) / 300))
    for secret, share in NOISER.channel_.unchanged_by_secret["ill"].items():
        own = [stay[c] for c, s in zip(cells, TABLE["ill"], strict=True) if s == secret]
        assert share == pytest.approx(float(sum(own) / len(own)))
        assert f"{secret} {share:.1%}" in str(NOISER.certificate_)
        assert f"{secret} {share:.1%}" in repr(NOISER.channel_)
    spread = TABLE["age"].std(ddof=0)

    def cost(x, y):
        return abs(x[0] - y[0]) / spread + (x[1] != y[1]) + (x[2] != y[2])

    expected = sum(
        Fraction(share, WHOLE) * Fraction(cost(c, y))
        for c in cells
        for y, share in channel[c].items()
    )
    assert NOISER.channel_.expected_change == pytest.approx(float(expected / 300))


@pytest.mark.parametrize("options", [{}, {"n_bins": {"pay": 3}}])
def test_utility_is_summed_up_over_rows_and_shares(options):
    rng = np.random.default_rng(1)
    pay = rng.integers(0, 7, len(TABLE)) + (TABLE["ill"] == "yes")
    table = TABLE.assign(pay=pay)[["ill", "pay", "home"]]
    noiser = optimal(0.4, **options).fit(table)
    values = np.sort(noiser.channel_.cells["pay"].unique())
    atoms = pay if not options else values[_bins(noiser, pay)]
    changes, same = [], Fraction(0)
    alike = Counter(zip(pay, atoms, table["home"], strict=True))
    for (raw, *cell), n_rows in alike.items():
        for (age, _), share in _row(noiser, tuple(cell)):
            mass = Fraction(n_rows * share, WHOLE * len(table))
            changes.append((abs(int(age) - int(raw)), mass))
            same += mass * (age == raw)
    mean = sum(distance * mass for distance, mass in changes)
    told = noiser.utility_.loc["pay"]
    assert told["change"] == pytest.approx(float(mean))
    assert told["unchanged"] == pytest.approx(float(same))
    below = sum(mass for distance, mass in changes if distance <= told["median_change"])
    assert below >= Fraction(1, 2) - Fraction(1, 10**9)
    assert told["constant"] == pytest.approx(np.abs(pay - np.median(pay)).mean(), rel=0.02)


def _bins(noiser, pay):
    """Return the bin of each number: released alone, a number stays within the cells of its bin."""
    columns = {each.column.name: each.column for each in noiser._fitted.channel.columns}
    return np.searchsorted(columns["pay"].edges, pay, side="left")


_CHANNELS: dict = {}


def _row(noiser, cell):
    channel = _CHANNELS.setdefault(id(noiser), (noiser, channel_of(noiser)))[1]
    return channel[cell].items()


def test_units_of_change_say_where_changes_fall():
    age_first = optimal(weights={"age": 100.0}, public=["age", "home"]).fit(TABLE)
    home_first = optimal(weights={"age": 0.01, "home": 100.0}, public=["age", "home"]).fit(TABLE)
    assert age_first.utility_.loc["age", "unchanged"] < home_first.utility_.loc["age", "unchanged"]
    assert (
        age_first.utility_.loc["home", "unchanged"] > home_first.utility_.loc["home", "unchanged"]
    )


def test_balance_weighs_secrets_alike():
    few = TABLE.loc[(TABLE["ill"] == "no") | (np.arange(300) % 8 == 0), ["ill", "age", "job"]]
    plain = optimal(0.3).fit(few)
    even = optimal(0.3, noise=OptimalChannel(balance="secrets")).fit(few)
    assert (
        even.channel_.unchanged_by_secret["ill"]["yes"]
        > plain.channel_.unchanged_by_secret["ill"]["yes"]
    )
    assert plain.channel_.unchanged >= even.channel_.unchanged - 1e-6
    assert "expected change of a secret" in str(even.certificate_)


class Steps:
    """A cost of the caller's own: two for whatever changes at all."""

    def between(self, x, y):
        return 2.0 * (x[:, None] != y[None]).any(axis=2)


class Below(Steps):
    """One that rewards changes."""

    def between(self, x, y):
        return -super().between(x, y)


def test_a_cost_of_the_callers_own_is_minimised():
    noiser = optimal(noise=OptimalChannel(cost=Steps()), public=["age", "home"]).fit(TABLE)
    own = optimal(public=["age", "home"]).fit(TABLE)
    assert noiser.channel_.expected_change == pytest.approx(2 * (1 - noiser.channel_.unchanged))
    assert noiser.channel_.unchanged >= own.channel_.unchanged - 1e-6
    with pytest.raises(ValueError, match="not negative"):
        optimal(noise=OptimalChannel(cost=Below()), public=["age", "home"]).fit(TABLE)


def test_rows_count_as_often_as_their_weights_and_in_any_order():
    table = TABLE[["ill", "age", "home"]].head(60)
    weights = np.arange(60) % 3
    weighted = optimal().fit(table, sample_weight=weights)
    repeated = optimal().fit(
        table.loc[np.repeat(table.index, weights)].sample(frac=1, random_state=1)
    )
    assert weighted.certificate_.fingerprint == repeated.certificate_.fingerprint
    pd.testing.assert_frame_equal(weighted.utility_, repeated.utility_)
    binned = [
        optimal(n_bins=2).fit(each, sample_weight=w).utility_
        for each, w in ((table, weights), (table.loc[np.repeat(table.index, weights)], None))
    ]
    pd.testing.assert_frame_equal(*binned)


# ---------------------------------------------------------------- released tables


def test_rows_are_drawn_from_the_row_of_their_cell():
    row = TABLE[["age", "job", "home"]].iloc[[4]]
    noiser = optimal(random_state=0).fit(TABLE)
    released = noiser.transform(row.loc[row.index.repeat(20_000)])
    distribution = _row(noiser, next(iter(cells_of(row, "age", "job", "home"))))
    seen = released.value_counts(normalize=True)
    for cell, share in distribution:
        chance = share / WHOLE
        assert abs(seen.get(cell, 0.0) - chance) <= 5 * math.sqrt(chance * (1 - chance) / 20_000)


def test_types_index_names_and_order_come_back():
    table = TABLE.astype({"age": "int16", "job": "category"}).set_index(np.arange(300) * 2)
    released = (
        optimal(public=["home", "age", "job"]).fit(table).transform(table[["home", "job", "age"]])
    )
    assert list(released.columns) == ["age", "job", "home"]
    pd.testing.assert_index_equal(released.index, table.index)
    assert (released.dtypes == table[["age", "job", "home"]].dtypes).all()
    frame = pl.from_pandas(TABLE)
    out = optimal().fit(frame).transform(frame)
    assert out.schema == frame.drop("ill").schema
    array = TABLE[["age", "home"]].to_numpy(float)
    noiser = Filled(0.5, noise="optimal").fit(array, sensitive_features=TABLE["ill"])
    out = noiser.transform(array)
    assert out.dtype == float
    assert set(map(tuple, out)) <= set(map(tuple, array))


def test_columns_may_be_passed_through():
    table = TABLE.assign(note=range(300))
    noiser = optimal(public=["age", "home"], remainder="passthrough").fit(table)
    released = noiser.transform(table)
    assert list(released.columns) == ["age", "job", "home", "note"]
    assert (released["note"] == table["note"]).all()
    assert any("NOT protected" in sentence for sentence in noiser.certificate_.assumptions)


def test_a_row_that_fit_has_not_seen_is_refused_with_the_way_out():
    table = TABLE[(TABLE["age"] != 2) | ~TABLE["home"]]
    noiser = optimal(public=["age", "home"]).fit(table)
    new = TABLE[["age", "home"]].head(40)
    strange = int(((new["age"] == 2) & new["home"]).sum())
    with pytest.raises(
        ValueError, match=f'{strange} of 40 rows .* together; pass unknown="nearest"'
    ):
        noiser.transform(new)
    with pytest.raises(ValueError, match=r"column 'age' contains 17.*\n?.*not seen in fit"):
        noiser.transform(new.assign(age=17))


def test_new_rows_become_their_nearest_cell_at_the_same_cost():
    table = TABLE[(TABLE["age"] != 2) | ~TABLE["home"]]
    noiser = optimal(public=["age", "home"], unknown="nearest", weights={"home": 0.1}).fit(table)
    noiser.set_params(random_state=3)
    before = noiser.certificate_.to_json()
    new = pd.DataFrame({"age": [2, 40, 1], "home": [True, False, True]})
    with pytest.warns(UserWarning, match=r"moved 2 of 3 rows.* \(33.3% were seen.*check\(X\)"):
        released = noiser.transform(new)
    assert set(cells_of(released, "age", "home")) <= set(
        cells_of(noiser.channel_.cells, "age", "home")
    )
    assert noiser.certificate_.to_json() == before
    found, moves = noiser._fitted.channel.distance.nearest(np.array([[2.0, 1.0], [40.0, 0.0]]))
    units = np.array([table["age"].std(ddof=0), 0.1])
    cells = noiser.channel_.cells.astype(float).to_numpy()
    for row, cell, move in zip([[2.0, 1.0], [40.0, 0.0]], found, moves, strict=True):
        costs = [abs(row[0] - c[0]) / units[0] + (row[1] != c[1]) / units[1] for c in cells]
        assert move == pytest.approx(min(costs))
        assert costs[cell] == pytest.approx(min(costs))


@pytest.mark.parametrize("declared", [None, {"job": ["miner", "clerk", "baker"]}])
def test_a_row_with_an_unseen_category_becomes_the_nearest_by_its_other_columns(declared):
    table = TABLE[(TABLE["age"] != 2) | ~TABLE["home"]]
    noiser = optimal(unknown="nearest", categories=declared).fit(table)
    channel, cells = noiser._fitted.channel, cells_of(noiser.channel_.cells, "age", "job", "home")
    readers = channel._readers(frame_table(TABLE.assign(job="pilot")), "nearest", "error")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, moved = channel._cells_of(readers, len(TABLE), True)
    assert (moved.n_moved, moved.n_rows) == (300, 300)
    spread = table["age"].std(ddof=0)
    for place, age, home in zip(found, TABLE["age"], TABLE["home"], strict=True):
        costs = [abs(age - x) / spread + (home != z) for x, _, z in cells]
        assert costs[place] == pytest.approx(min(costs))


def test_whatever_is_unseen_is_moved_and_counted():
    noiser = optimal(missing="category").fit(TABLE)
    strange = TABLE.head(5).assign(job=["pilot", None, "clerk", "clerk", "clerk"])
    strange["age"] = [99, 1, 99, 0, 0]
    with pytest.raises(ValueError, match=r"2 values .*\(1\), None \(1\); pass unknown=\"nearest\""):
        noiser.transform(strange)
    with pytest.warns(UserWarning, match="moved 3 of 5 rows"):
        noiser.set_params(unknown="nearest").transform(strange)


@pytest.mark.filterwarnings('ignore:unknown="nearest" moved')
def test_a_search_over_a_channel_scores_new_rows_or_says_how_to():
    table = pd.concat([TABLE.assign(age=TABLE["age"] + 9 * k) for k in range(3)])
    label = np.resize([0, 1], len(table))
    pipeline = make_pipeline(optimal(public=["age", "home"]), StandardScaler(), SGDClassifier())
    grid = {"filled__epsilon": [0.5, 2.0]}
    with pytest.raises(ValueError, match=r'not seen .*pass unknown="nearest"'):
        GridSearchCV(pipeline, grid, cv=KFold(3), error_score="raise").fit(table, label)
    pipeline.set_params(filled__unknown="nearest")
    found = GridSearchCV(pipeline, grid, cv=KFold(3)).fit(table, label)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()


def test_unseen_categories_become_the_one_that_is_named():
    other = optimal(unknown={"job": "miner", "age": "nearest"}).fit(TABLE)
    with pytest.warns(UserWarning, match="moved 3 of 3 rows"):
        other.transform(TABLE.head(3).assign(job="pilot", age=99))


def test_nothing_is_drawn_twice_but_under_a_seed():
    many = TABLE.loc[TABLE.index.repeat(20)]
    assert not NOISER.transform(many).equals(NOISER.transform(many))
    one, two = (optimal(random_state=7).fit(TABLE) for _ in range(2))
    assert one.transform(many).equals(two.transform(many))
    assert not one.transform(many).equals(two.transform(TABLE.loc[many.index]).iloc[::-1])


# ---------------------------------------------------------------- the estimator


def test_it_is_pickled_cloned_and_put_into_pipelines():
    again = pickle.loads(pickle.dumps(NOISER))
    assert again.transform(TABLE).shape == (300, 3)
    assert again.certificate_ == NOISER.certificate_
    assert not hasattr(clone(NOISER), "channel_")
    assert list(NOISER.get_feature_names_out()) == ["age", "job", "home"]
    table = TABLE[["ill", "age", "home"]]
    pipeline = make_pipeline(optimal().set_output(transform="pandas"), StandardScaler())
    assert pipeline.fit_transform(table).shape == (300, 2)
    polars = optimal().set_output(transform="polars").fit(table).transform(table)
    assert isinstance(polars, pl.DataFrame)


def test_theta_names_the_channel_and_a_new_fit_leaves_nothing_behind():
    with pytest.raises(AttributeError, match="look at channel_"):
        NOISER.theta_  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        NOISER.nothing  # noqa: B018
    noiser = optimal(public="age").fit(TABLE)
    noiser.set_params(noise="laplace").fit(TABLE)
    assert not hasattr(noiser, "channel_")
    assert noiser.theta_["age"] > 0
    noiser.set_params(noise="optimal").fit(TABLE)
    assert not hasattr(noiser, "theta_")
    assert noiser.transform(TABLE).shape == (300, 1)


def test_a_channel_has_no_more_noise():
    with pytest.raises(ValueError, match="there is none here"):
        NOISER.noisier(2.0)


def _altered_rows(noiser):
    rows = noiser._fitted.channel.rows
    shares = rows.shares.copy()
    longest = int(np.flatnonzero(np.diff(rows.starts) > 1)[0])
    shares[rows.starts[longest]] += 1
    shares[rows.starts[longest] + 1] -= 1
    altered = dataclasses.replace(rows, shares=shares)
    _put(noiser, dataclasses.replace(noiser._fitted.channel, rows=altered))


def _put(noiser, mechanism):
    noiser._fitted = dataclasses.replace(noiser._fitted, mechanism=mechanism)


TAMPERED = {
    "a share": _altered_rows,
    "a cell": lambda n: n._fitted.channel.cells.codes.__setitem__((0, 0), 1),
    "a value": lambda n: n._fitted.channel.columns[0].column.atoms.__setitem__(0, 17.0),
    "a column less": lambda n: n._fitted.channel.columns.pop(),
    "a column passed": lambda n: n._fitted.rules.passed.append("ill"),
    "no channel": lambda n: _put(n, NoiseOfColumns([], [])),
    "the unit of a move": lambda n: n._fitted.channel.distance.units.__setitem__(0, 9.0),
}


@pytest.mark.parametrize("change", TAMPERED)
def test_nothing_is_released_from_another_channel_than_the_certified_one(change):
    noiser = pickle.loads(pickle.dumps(NOISER))
    TAMPERED[change](noiser)
    with pytest.raises(ValueError, match="not what its certificate_ is about"):
        noiser.transform(TABLE)


def test_channel_attributes_are_copies_that_release_nothing():
    noiser = pickle.loads(pickle.dumps(NOISER))
    noiser.channel_.numerators.data[:] = 1
    assert noiser.transform(TABLE).shape == (300, 3)


# ---------------------------------------------------------------- certificate and ledger


def test_the_verdict_names_the_four_conditions_and_the_key_material():
    headline, *lines = str(NOISER.certificate_).splitlines()
    for words in (
        "neither the channel nor the saved noiser nor the list of fitted rows (key material)",
        "knows nothing else about a row",
        "follow the distribution of the fitted ones",
        "that prior is true: the guarantee is as good as the model behind it",
        "NOT for priors within sampling error",
        "sees ONE released row and not the released table",
        "NOT for who reads the whole released table and counts copies: rows that occur once were "
        "most likely not moved, and tell their secret as if nothing had been done",
    ):
        assert words in headline
    text = "\n".join(lines)
    assert "A second draw of the same rows may tell everything" in text
    assert "theta" not in text
    told = json.loads(NOISER.certificate_.to_json())
    assert told["noise"] == "optimal channel"
    assert "key material" in told["key_material"]
    assert told["channel"]["unchanged"] == NOISER.channel_.unchanged
    assert [kept["secret"] for kept in told["channel"]["kept"]] == ["no", "yes"]
    assert len(told["conditions"]) == 4
    assert "matrix" not in told["channel"]
    assert "known" in told["pairs"][0]
    assert NOISER.certificate_._repr_html_()
    assert NOISER.certificate_.named("x.csv").name == "x.csv"


def test_the_ledger_allows_one_draw(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", NOISER)
    assert ledger.left().releases == 1
    with pytest.raises(ValueError, match="there is none here"):
        ledger.transform(NOISER, TABLE, factor=2)
    ledger.transform(NOISER, TABLE)
    with pytest.raises(OverspentError, match="may tell everything"):
        ledger.transform(NOISER, TABLE)
    again = Ledger.open(tmp_path / "a.ledger", pickle.loads(pickle.dumps(NOISER)))
    assert not again.allows()
    assert not again.allows({"row": 5.0})


def test_with_a_floor_so_many_draws_as_planned_keep_the_budget(tmp_path):
    table = TABLE[["ill", "age"]]
    noiser = optimal(0.6, releases=2, noise=OptimalChannel(floor=0.25)).fit(table)
    cells, secrets = cells_of(table, "age"), table["ill"]
    channel, distributions = channel_of(noiser), {}
    for secret in ("no", "yes"):
        own = [c for c, s in zip(cells, secrets, strict=True) if s == secret]
        distribution = {}
        for cell in own:
            for one, first in channel[cell].items():
                for two, second in channel[cell].items():
                    mass = Fraction(first * second, WHOLE * WHOLE * len(own))
                    distribution[one, two] = distribution.get((one, two), 0) + mass
        distributions[secret] = distribution
    loss = max(
        max_log_ratio(distributions[s], distributions[t]) for s, t in permutations(distributions, 2)
    )
    assert loss <= noiser.certificate_.loss <= 0.6
    assert noiser.channel_.floor <= 0.25 * (1 + 1e-6)
    rows = list(channel.values())
    for x, z in permutations(rows, 2):
        assert all(math.log(x[y] / z[y]) <= noiser.channel_.floor for y in x)
    ledger = Ledger.create(tmp_path / "a.ledger", noiser)
    ledger.spend(releases=2)
    with pytest.raises(OverspentError, match="Each further draw tells"):
        ledger.spend()
    assert "a ledger allows so many" in str(noiser.certificate_)


@given(
    rows=st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=8, max_size=40),
    epsilon=st.sampled_from([0.05, 0.5, 1.0, 3.0]),
    delta=st.sampled_from([0.0, 0.0, 0.05]),
)
@settings(max_examples=10, deadline=None)
def test_any_table_keeps_its_budget(rows, epsilon, delta):
    table = pd.DataFrame(rows, columns=["ill", "a", "b"])
    assume(table["ill"].nunique() > 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = optimal(epsilon, delta=delta).fit(table)
    check_losses(noiser, cells_of(table, "a", "b"), table["ill"])


def test_a_prior_within_the_budget_changes_nothing_and_says_so():
    table = TABLE.assign(age=[0, 0, 1, 1] * 75, ill=[*"ny"] * 150)
    with pytest.warns(UserWarning, match="no row needs to change under this prior"):
        noiser = optimal(public="age").fit(table)
    assert noiser.channel_.unchanged > 1.0 - 1e-6


def test_one_cell_and_distributions_without_a_common_row():
    one = TABLE.assign(age=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert optimal(public="age").fit(one).certificate_.loss <= 1e-12
    apart = TABLE.assign(age=np.where(TABLE["ill"] == "yes", 1, 0))
    noiser = optimal(public="age").fit(apart)
    check_losses(noiser, cells_of(apart, "age"), apart["ill"])


# ---------------------------------------------------------------- refusals

REFUSED = [
    ({"alpha": 2.0}, "no Renyi guarantee, got alpha=2"),
    ({"prior": "gaussian"}, "Gaussian and mixture priors are distributions of all numbers"),
    ({"prior": GaussianFit()}, "Gaussian and mixture priors"),
    ({"adversaries": [{"no": GaussianMixture([1.0], [0.0], [1.0])}]}, "Gaussian and mixture"),
    ({"strategy": "relaxed"}, "got strategy='relaxed'; leave"),
    ({"weights": "optimal"}, 'got weights="optimal"; leave weights out'),
    ({"weights": {"pay": 1.0}}, "weights names 'pay', which is not public"),
    ({"dependence": "independent"}, "got dependence='independent'"),
    ({"dependence": [["age"], ["job", "home"]]}, "got dependence="),
    ({"output": "noisy"}, "got output='noisy'"),
    ({"missing": "propagate"}, 'got missing="propagate"; fill'),
    (
        {"adversaries": "confidence"},
        r'found for one distribution .*got adversaries=.*; use noise="swap"',
    ),
    ({"adversaries": [ConfidenceSet(0.9)]}, r'ConfidenceSet.*; use noise="swap"'),
    ({"known": "age"}, r'know nothing else of a row, got known=.age.; use noise="swap"'),
    ({"prior": LogisticRegression()}, 'and prior is a classifier, .*; use noise="swap", or leave'),
    ({"adversaries": ["empirical", ClassifierFit(LogisticRegression())]}, r"adversaries\[1\] is a"),
    ({"releases": 3}, r"releases=3 needs a floor .*OptimalChannel\(floor="),
    ({"releases": 3, "noise": OptimalChannel(floor=0.25)}, "floor=0.25 leaves nothing"),
    ({"known": "ill", "noise": "laplace"}, "known names column 'ill', which is not public"),
    ({"known": [], "noise": "laplace"}, "known is empty"),
    ({"known": "pay", "noise": "laplace"}, "known names column 'pay', which X does not have"),
    (
        {"known": "age", "noise": "laplace", "prior": "gaussian"},
        "known='age' needs distributions of rows",
    ),
    (
        {"known": "age", "noise": "laplace", "adversaries": "confidence"},
        "known='age' needs distributions",
    ),
    ({"noise": "optimum"}, "noise must be one of .*'optimal'"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_does_not_go_with_a_channel_is_refused_by_name(options, message, monkeypatch):
    def work(*args, **kwargs):
        raise AssertionError("worked before it refused")

    monkeypatch.setattr(channel_fit, "count_cells", work)
    with pytest.raises(ValueError, match=message):
        optimal(**options).fit(TABLE)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"floor": 0.0}, ValueError, "floor must be positive"),
        ({"balance": "all"}, ValueError, "balance must be one of"),
        ({"block_size": 20}, TypeError, "unexpected keyword argument 'block_size'"),
        ({"gap": 1e-3}, TypeError, "unexpected keyword argument 'gap'"),
        ({"time_limit": 60}, TypeError, "unexpected keyword argument 'time_limit'"),
        ({"cost": abs}, TypeError, r"cost must have a method between"),
    ],
)
def test_settings_out_of_range_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        OptimalChannel(**options)


def test_more_cells_than_a_program_is_solved_for_are_refused_before_masses_are_allocated():
    table = pd.DataFrame({"ill": [*"ny"] * 300, "age": range(600)})
    with pytest.raises(ValueError, match=r'600 distinct rows, more than the 256 .*noise="swap"'):
        optimal().fit(table)
    some = table.assign(age=table["age"] % 200)
    with pytest.raises(ValueError, match=r"200 distinct rows, more than the 100 "):
        optimal(noise=OptimalChannel(floor=0.1)).fit(some)
    secrets = table.assign(ill=table["age"] % 40, age=table["age"] % 150)
    with pytest.raises(ValueError, match=r"150 distinct rows, more than the 114 "):
        optimal().fit(secrets)


def test_cells_of_few_rows_are_refused_with_the_swap_as_the_way_out():
    with pytest.raises(
        ValueError, match=r'300 rows lie in .*by more than 1.1 epsilon .*noise="swap"'
    ):
        PufferfishNoiser(0.5, sensitive="ill", noise="optimal").fit(TABLE)


def test_cells_are_found_whatever_the_sizes_of_columns():
    rng = np.random.default_rng(0)
    for sizes in [(3, 4), (2**21, 2**21, 2**21, 2), (1, 5, 1), (2**40, 2**40, 7)]:
        codes = np.stack([rng.integers(0, size, 50) for size in sizes], axis=1)
        cells = DistinctRows.of(codes, sizes)
        asked = np.concatenate([codes, (codes + rng.integers(0, 2, codes.shape)) % sizes])
        found = cells.find(asked)
        rows = {tuple(row): k for k, row in enumerate(cells.codes.tolist())}
        assert found.tolist() == [rows.get(tuple(row), -1) for row in asked.tolist()]
