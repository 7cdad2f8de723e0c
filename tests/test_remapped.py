"""Noisy values that become values of their column, against sums over the noise."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sklearn_puffer import Ledger, PufferfishNoiser, UtilityWarning
from sklearn_puffer._noiser import ColumnRelease, RawDistribution, remapped, utilities
from sklearn_puffer._noiser.remapping import most_probable
from sklearn_puffer._tables import Column
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.priors import Discrete, GaussianMixture

pytestmark = pytest.mark.usefixtures("thin_cells")

FAMILIES = {
    "laplace": (Laplace, stats.laplace()),
    "gaussian": (Gaussian, stats.norm()),
    "cauchy": (Cauchy, stats.cauchy()),
    "k=5": (lambda s: GeneralizedCauchy(s, k=5.0), stats.t(4.0, scale=0.5)),
}
REACH = 1200
SOME = settings(max_examples=10)


@cache
def chances(family, scale, grid, whole):
    """Return P(K = k) for each k of -REACH to REACH, the tails in the last ones."""
    edges = (np.arange(-REACH, REACH + 2) - (0.5 if whole else 0.0)) * grid / scale
    edges[[0, -1]] = -np.inf, np.inf
    distribution = FAMILIES[family][1]
    right = edges[:-1] >= 0.0  # there differences of survival keep their digits
    return np.where(right, -np.diff(distribution.sf(edges)), np.diff(distribution.cdf(edges)))


def drawn_distribution(places, distribution):
    """Return P(J | x) of all J that matter, a row for each x, and the J."""
    steps = np.arange(places.min() - REACH // 2, places.max() + REACH // 2 + 1)
    rows = [distribution[np.clip(steps - x + REACH, 0, 2 * REACH)] for x in places]
    return np.array(rows), steps


def mapped(family, scale, atoms, shares, grid, whole):
    """Return the release of a column, with its map."""
    column = Column("x", "integer" if whole else "float", atoms, np.ones(len(atoms), dtype=bool))
    release = ColumnRelease(column, FAMILIES[family][0](scale), grid, "native")
    return remapped(release, shares)


distributions = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=7)


def as_distribution(drawn):
    pooled = dict(drawn)
    atoms = np.array(sorted(pooled), dtype=float)
    shares = np.array([pooled[int(atom)] for atom in atoms], dtype=float)
    return atoms, shares / shares.sum()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@SOME
@given(drawn=distributions, scale=st.sampled_from([0.4, 1.0, 3.7, 12.0]))
def test_every_noisy_value_becomes_what_it_is_nearest_to_on_average(family, whole, drawn, scale):
    atoms, shares = as_distribution(drawn)
    release = mapped(family, scale, atoms, shares, 1.0, whole)
    distribution, steps = drawn_distribution(atoms.astype(int), chances(family, scale, 1.0, whole))
    distribution, steps = distribution[:, 200:-200], steps[200:-200]
    known = distribution.max(axis=0) > 1e-15  # further out a map is not looked for
    costs = np.abs(atoms[:, None] - atoms) @ (shares[:, None] * distribution)
    taken = costs[release.remapping.at(steps), np.arange(len(steps))]
    assert (taken <= costs.min(axis=0) * (1.0 + 1e-9))[known].all()


@pytest.mark.parametrize("family", FAMILIES)
@SOME
@given(drawn=distributions, scale=st.sampled_from([0.4, 3.7]))
def test_utility_is_the_sum_over_what_is_drawn(family, drawn, scale):
    atoms, shares = as_distribution(drawn)
    release = mapped(family, scale, atoms, shares, 0.25, whole=False)
    told = utilities([release], [RawDistribution(atoms, shares, 0.75, -np.inf, np.inf)], [2.0])[0]
    distribution, steps = drawn_distribution(
        (4 * atoms).astype(int), chances(family, scale, 0.25, whole=False)
    )
    distribution[:, 0] += 1.0 - distribution.sum(axis=1)  # what lies further out
    errors = np.abs(atoms[:, None] - atoms[release.remapping.at(steps)])
    weights = shares[:, None] * distribution
    out = 1e-9 if family in ("laplace", "gaussian") else 0.02  # ends that are heavy
    assert told.change == pytest.approx((errors * weights).sum(), rel=out, abs=1e-12)
    assert told.unchanged == pytest.approx(0.75 * weights[errors == 0].sum() + 0.25, rel=out)
    assert weights[errors <= told.median_change].sum() >= 0.5 - 1e-9 - out
    assert weights[errors < told.median_change].sum() <= 0.5 + 1e-9 + out


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.3, 1.5, 8.0])
def test_on_the_grid_that_is_drawn_on_no_map_changes_less(family, scale):
    atoms, shares = np.array([-1.0, 0.0, 0.5, 4.0, 4.25]), np.array([0.15, 0.3, 0.2, 0.25, 0.1])
    release = mapped(family, scale, atoms, shares, 2.0**-42 * 8, whole=False)
    told = utilities([release], [RawDistribution(atoms, shares, 1.0, -np.inf, np.inf)], [1.0])[0]
    # the least change is the integral of the least cost at each y; y = sinh(t) reaches far
    t = np.linspace(-20.0, 20.0, 200_001)
    y = np.sinh(t)
    density = FAMILIES[family][1].pdf((y - atoms[:, None]) / scale) / scale
    costs = np.abs(atoms[:, None] - atoms) @ (shares[:, None] * density)
    least = np.trapezoid(costs.min(axis=0) * np.cosh(t), t)
    assert told.change == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@SOME
@given(
    drawn=distributions,
    second=st.lists(st.integers(0, 9), min_size=7, max_size=7),
    seed=st.integers(),
)
def test_no_loss_grows(family, drawn, second, seed):
    atoms, shares = as_distribution(drawn)
    priors = np.array([shares, shares * (1.0 + np.array(second[: len(shares)]))])
    priors /= priors.sum(axis=1, keepdims=True)
    scale = [0.7, 4.0, 20.0][seed % 3]
    release = mapped(family, scale, atoms, shares, 1.0, whole=True)
    distribution, steps = drawn_distribution(
        atoms.astype(int), chances(family, scale, 1.0, whole=True)
    )
    distribution, steps = distribution[:, 200:-200], steps[200:-200]
    raw = priors @ distribution
    became = release.remapping.at(steps)
    out = np.array([np.bincount(became, row, len(atoms)) for row in raw])
    raw, out = raw[:, raw.min(axis=0) > 1e-280], out[:, out.min(axis=0) > 1e-280]
    before, after = (np.abs(np.log(each[0] / each[1])) for each in (raw, out))
    assert after.max() <= before.max() + 1e-9


@given(
    drawn=distributions, kept=st.sampled_from([0.0, 0.05, 0.4, 0.9, 1.0]), seed=st.integers(0, 99)
)
def test_a_category_becomes_the_one_most_probably_behind_it(drawn, kept, seed):
    shares = as_distribution(drawn)[1]
    anew = np.random.default_rng(seed).dirichlet(np.ones(len(shares)))
    joint = shares[:, None] * (kept * np.eye(len(shares)) + (1.0 - kept) * anew)
    found = most_probable(shares, kept, anew).at(np.arange(len(shares)))
    assert joint[found, np.arange(len(shares))] == pytest.approx(joint.max(axis=0), rel=1e-12)


def test_under_heavy_tails_the_map_turns_back_to_the_middle():
    atoms, shares = np.array([0.0, 10.0]), np.array([0.6, 0.4])
    for family, expected in [("cauchy", [0, 1, 0]), ("laplace", [0, 1]), ("gaussian", [0, 1])]:
        release = mapped(family, 3.0, atoms, shares, 1.0, whole=True)
        assert release.remapping.codes.tolist() == expected


def test_values_that_share_a_step_and_values_without_rows_have_a_map():
    atoms, shares = np.array([0.0, 0.1, 0.2, 7.0, 9.0]), np.array([0.1, 0.3, 0.1, 0.5, 0.0])
    for family in FAMILIES:
        release = mapped(family, 2.0, atoms, shares, 1.0, whole=True)
        assert set(release.remapping.codes.tolist()) == {1, 3}
        assert mapped(family, 2.0, atoms[:1], np.ones(1), 1.0, whole=True).remapping.constant


def everything(n_rows=600, seed=3):
    """Return a table with a column of each kind, all of which tell about the secret."""
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n_rows)
    levels = np.array(["a", "b", "c"])[np.minimum(rng.integers(0, 3, n_rows) + secret, 2)]
    return pd.DataFrame(
        {
            "secret": secret,
            "flag": rng.random(n_rows) < 0.3 + 0.5 * secret,
            "kind": levels,
            "rank": pd.Categorical(levels, ["c", "b", "a"], ordered=True),
            "small": (rng.integers(120, 126, n_rows) + secret).astype(np.int8),
            "whole": rng.integers(0, 5, n_rows) + secret,
            "real": (rng.integers(0, 5, n_rows) / 10.0 + secret).astype(np.float32),
            "binned": rng.integers(0, 60, n_rows) + 20 * secret,
        },
        index=np.arange(n_rows) * 7,
    )


KINDS = ["flag", "kind", "rank", "small", "whole", "real", "binned"]


def fitted(X, **parameters):
    options = {"sensitive": "secret", "output": "remapped"} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return PufferfishNoiser(**options).fit(X)


def codes_of(column):
    """Return a column as numbers."""
    if column.dtype == object or str(column.dtype) in ("category", "str"):
        return column.astype(str).map({"a": 0.0, "b": 1.0, "c": 2.0}).to_numpy(float)
    return column.to_numpy(float)


NOISES = [{}, {"noise": "gaussian", "delta": 1e-3}, {"noise": "cauchy"}]
OTHERS = [("binned", NOISES[1]), ("small", NOISES[2]), ("real", NOISES[2])]


@pytest.mark.parametrize(("name", "options"), [*product(KINDS, NOISES[:1]), *OTHERS], ids=str)
def test_values_stay_in_the_column_and_change_as_utility_says(name, options):
    table = everything()
    bins = {"n_bins": {"binned": 4}} if name == "binned" else {}
    noiser = fitted(table[["secret", name]], **bins, **options)
    rows = pd.concat([table] * 50)
    released = noiser.transform(rows[[name]])
    assert released[name].dtype == table[name].dtype
    assert released.index.equals(rows.index)
    domain = noiser._fitted.columns[0].column.atoms if bins else table[name].unique()
    assert set(released[name].unique()) <= set(domain)
    if name == "rank":  # codes run in the declared order
        change = np.abs(released[name].cat.codes.to_numpy() - rows[name].cat.codes.to_numpy())
    else:
        change = np.abs(codes_of(released[name]) - codes_of(rows[name]))
    if name in ("flag", "kind"):  # without an order
        change = (change != 0.0).astype(float)
    told = noiser.utility_.loc[name]
    assert told["change"] == pytest.approx(change.mean(), abs=6.0 * change.std() / len(rows) ** 0.5)
    assert told["unchanged"] == pytest.approx((change == 0.0).mean(), abs=0.02)


@pytest.mark.parametrize("family", FAMILIES)
@SOME
@given(
    drawn=distributions,
    exponent=st.integers(-6, 8),
    kind=st.sampled_from(["integer", "float", "code"]),
)
def test_no_column_changes_more_than_native_or_than_a_constant(family, drawn, exponent, kind):
    atoms, shares = as_distribution(drawn)
    scale, levels = 2.0**exponent, None
    if kind == "code":
        kind, levels, shares = "category", tuple(range(41)), np.bincount(atoms.astype(int), shares)
        atoms, shares = np.arange(41.0), np.pad(shares, (0, 41 - len(shares)))
    column = Column("x", kind, atoms, np.ones(len(atoms), dtype=bool), levels, ordered=True)
    noise, distribution = (
        FAMILIES[family][0](scale),
        RawDistribution(atoms, shares, 1.0, -np.inf, np.inf),
    )
    native = ColumnRelease(column, noise, max(1.0 * column.whole, scale * 2.0**-40), "native")
    ours = ColumnRelease(column, noise, scale * 2.0**-40, "remapped")
    told, ours = utilities(
        [native, remapped(ours, shares)], [distribution, distribution], [1.0, 1.0]
    )
    assert ours.change <= told.change * (1.0 + 1e-9) + 1e-12
    assert ours.change <= told.constant * (1.0 + 1e-9) + 1e-12
    assert not ours.worse


def test_no_column_of_a_table_changes_more_than_native():
    table = everything(300).drop(columns="binned")
    for epsilon in (0.2, 2.0):
        both = [fitted(table, output=o, epsilon=epsilon) for o in ("remapped", "native")]
        ours, native = (each.utility_["change"] for each in both)
        assert (ours <= native * (1.0 + 1e-9)).all()


@pytest.mark.slow
def test_categories_change_no_more_than_native_or_than_the_most_frequent_one():
    for seed in range(5):
        table = everything(300, seed)[["secret", "kind", "flag"]]
        for epsilon in (0.1, 0.7, 3.0):
            both = [fitted(table, output=o, epsilon=epsilon) for o in ("remapped", "native")]
            ours, native = (each.utility_ for each in both)
            assert (ours["change"] <= native["change"] + 1e-12).all()
            assert (ours["change"] <= ours["constant"] + 1e-12).all()


def test_noise_and_losses_are_those_of_native_output():
    table = everything()[["secret", "whole", "real"]]
    ours, native = (fitted(table, output=output) for output in ("remapped", "native"))
    assert ours.certificate_.loss <= native.certificate_.loss * (1.0 + 1e-9)
    assert np.allclose(ours.theta_, native.theta_, rtol=1e-9)
    assert ours.certificate_.fingerprint != native.certificate_.fingerprint


def test_the_certificate_says_what_it_is_for():
    noiser = fitted(everything()[["secret", "whole"]])
    told = json.loads(noiser.certificate_.to_json())
    assert told["output"] == "remapped"
    assert any("biased" in sentence for sentence in told["assumptions"])
    assert "output remapped: for single rows, not for sums or means" in str(noiser.certificate_)
    native = fitted(everything()[["secret", "whole"]], output="native")
    assert native.certificate_.to_dict()["output"] == "native"
    assert "remapped" not in str(native.certificate_)


def test_the_order_of_rows_does_not_matter_and_weights_are_rows():
    table = everything()[["secret", "rank", "real"]]
    first = fitted(table)
    mixed = fitted(table.sample(frac=1.0, random_state=0))
    assert first.certificate_.fingerprint == mixed.certificate_.fingerprint
    counted = table.groupby(list(table), observed=True).size().reset_index(name="n")
    weighted = PufferfishNoiser(sensitive="secret", output="remapped")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        weighted.fit(counted[list(table)], sample_weight=counted["n"])
    for one, other in zip(first._fitted.columns, weighted._fitted.columns, strict=True):
        assert np.array_equal(one.remapping.codes, other.remapping.codes)
        assert np.array_equal(one.remapping.starts, other.remapping.starts)


def test_the_map_is_saved_and_belongs_to_the_fingerprint():
    table = everything()[["secret", "whole"]]
    noiser = pickle.loads(pickle.dumps(fitted(table)))
    noiser.transform(table)
    release = noiser._fitted.columns[0]
    other = replace(release.remapping, codes=release.remapping.codes[::-1])
    noiser._fitted.columns[0] = replace(release, remapping=other)
    with pytest.raises(ValueError, match="was changed after fit"):
        noiser.transform(table)


def test_more_noise_has_a_map_of_its_own_and_the_same_ledger(tmp_path):
    table = everything()[["secret", "whole", "flag", "real"]]
    noiser = fitted(table, releases=2)
    more = noiser.noisier(3.0)
    assert (more.utility_["change"] >= noiser.utility_["change"]).all()
    assert set(more.transform(table)["real"]) <= set(table["real"])
    again = replace(more._fitted.columns[0], remapping=None)
    shares = more._fitted.columns[0].remapping.shares
    assert np.array_equal(
        remapped(again, shares).remapping.starts, more._fitted.columns[0].remapping.starts
    )
    ledger = Ledger.create(tmp_path / "a.ledger", noiser)
    assert set(ledger.transform(noiser, table)["whole"]) <= set(table["whole"])
    assert set(ledger.transform(noiser, table, factor=2.0)["whole"]) <= set(table["whole"])


def test_missing_values_stay_missing_or_are_values():
    table = everything(300)[["secret", "kind", "whole"]].astype({"whole": "Int64"})
    table.loc[table.index[::9], ["kind", "whole"]] = None
    left = fitted(table, missing="propagate").transform(table)
    assert left.isna().equals(table[["kind", "whole"]].isna())
    assert left["whole"].dtype == "Int64"
    filled = fitted(table[["secret", "kind"]], missing="category").transform(table[["kind"]])
    assert set(filled["kind"].dropna()) <= set("abc")


def test_other_tables_come_back_as_they_were():
    table = everything()[["secret", "whole", "real"]]
    noiser = fitted(pl.from_pandas(table))
    released = noiser.transform(pl.from_pandas(table))
    assert released.schema == pl.from_pandas(table[["whole", "real"]]).schema
    array = table.to_numpy()
    of_array = fitted(array, sensitive=0).transform(array)
    assert set(of_array[:, 0]) <= set(array[:, 1])


def test_new_numbers_become_the_nearest_before_the_noise():
    table = everything()[["secret", "whole"]]
    noiser = fitted(table, unknown="nearest")
    with pytest.warns(UserWarning, match="moved values"):
        released = noiser.transform(pd.DataFrame({"whole": [90, -5]}))
    assert set(released["whole"]) <= set(table["whole"])


def test_a_seed_draws_the_same_again():
    table = everything()[["secret", "whole", "real"]]
    runs = []
    for _ in range(2):
        noiser = fitted(table, random_state=3)
        with pytest.warns(UserWarning, match="for tests only"):
            runs.append(noiser.transform(table))
    assert runs[0].equals(runs[1])


def test_a_column_that_needs_no_noise_is_released_as_it_is():
    table = everything()[["secret", "whole"]].assign(same=4)
    noiser = fitted(table, epsilon=30.0, dependence="independent")
    assert noiser.theta_["same"] == 0.0
    assert (noiser.transform(table)["same"] == 4).all()
    assert not any("'same' are released as values" in s for s in noiser.certificate_.assumptions)


def test_a_column_that_becomes_a_constant_is_warned_of_by_name():
    table = everything()[["secret", "whole"]]
    with pytest.warns(UtilityWarning, match="'whole' come out as the same value for every row"):
        noiser = PufferfishNoiser(1e-3, sensitive="secret", output="remapped").fit(table)
    assert noiser.transform(table)["whole"].nunique() == 1
    assert noiser.utility_.loc["whole", "change"] == pytest.approx(
        noiser.utility_.loc["whole", "constant"]
    )


def test_values_of_a_given_prior_that_no_row_has_are_never_released():
    table = pd.DataFrame({"secret": [0, 1] * 20, "x": [1.0, 2.0, 2.0, 3.0] * 10})
    prior = {s: Discrete([0.0, 1.0, 2.0, 3.0, 9.0], [0.2, 0.2, 0.2, 0.2, 0.2]) for s in (0, 1)}
    prior[1] = Discrete([0.0, 1.0, 2.0, 3.0, 9.0], [0.1, 0.1, 0.1, 0.1, 0.6])
    released = fitted(table, prior=prior, epsilon=0.5).transform(pd.concat([table] * 20))
    assert set(released["x"]) <= {1.0, 2.0, 3.0}


@pytest.mark.parametrize(
    "prior", ["gaussian", "gmm", {s: GaussianMixture([1.0], [0.0], [1.0]) for s in (0, 1)}]
)
def test_columns_that_take_any_number_are_refused_by_name(prior):
    noiser = PufferfishNoiser(sensitive="secret", prior=prior, output="remapped")
    with pytest.raises(
        ValueError, match=r"output='remapped'.*distributions of all numbers; use prior="
    ):
        noiser.fit(everything()[["secret", "real"]])


def test_too_many_values_under_noise_without_short_sums_are_refused_by_name():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"secret": [0, 1] * 2000, "x": rng.integers(0, 2000, 4000)})
    with pytest.raises(ValueError, match=r"at most 500 values, and column 'x' has \d+; bin it"):
        fitted(table, noise="cauchy")
    assert len(fitted(table.iloc[:1200]).transform(table.iloc[:1200])) == 1200
    assert fitted(table, noise="cauchy", n_bins={"x": 20}).certificate_.holds


# constant, published, Laplace, remapped, channel, in the order of docs/choosing.md
REAL = {
    ("adult", "education-num", "race", 1.0): (1.875, 4.992, 2.232, 1.396, 0.3141),
    ("adult", "education-num", "race", 0.1): (1.875, 50.0, 22.16, 1.875, 1.405),
    ("adult", "hours-per-week", "sex", 1.0): (7.419, 18.0, 5.874, 4.376, 0.04551),
    ("bank-full", "age", "marital", 1.0): (8.616, 22.56, 13.88, 7.037, 1.902),
    ("student-por", "G3", "sex", 0.5): (2.399, 12.0, 2.194, 1.571, 0.03805),
    ("adult", "age", "race", 1.0): (11.17, 13.05, 8.051, 6.306, 0.1375),
}


@pytest.mark.tables
@pytest.mark.parametrize(("of", "expected"), REAL.items(), ids=str)
def test_real_columns_change_by_what_is_known_of_them(table, of, expected):
    name, column, secret, epsilon = of
    rows = table(name, usecols=[secret, column])[[secret, column]]
    ways = [{"strategy": "relaxed"}, {}, {"output": "remapped"}, {"noise": "optimal"}]
    told = [
        fitted(rows, sensitive=secret, epsilon=epsilon, **({"output": "native"} | way))
        for way in ways
    ]
    found = [told[0].utility_["constant"].iloc[0], *(t.utility_["change"].iloc[0] for t in told)]
    assert found == pytest.approx(expected, rel=1e-3)


def test_the_documentation_shows_what_real_columns_change_by():
    page = Path(__file__).parents[1] / "docs" / "choosing.md"
    lines = page.read_text(encoding="utf-8").split("| one column ")[1].splitlines()[2:6]
    shown = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]
    *shown, bank = shown
    assert bank[-1] == "refused"  # the cells of rare ages hold few rows
    found = [tuple(map(float, cells)) for cells in shown]
    found.append((*map(float, bank[:-1]), 1.902))
    assert found == list(REAL.values())[:4]
