"""Groups of rows with a common secret: what is guaranteed of all their rows together."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import linprog
from sklearn.naive_bayes import GaussianNB

from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishWarning,
    UtilityWarning,
    report,
)
from sklearn_puffer._noiser.artifact import NoiseOfColumns
from sklearn_puffer._release.artifact import signed_text
from sklearn_puffer._release.mechanism import certificate_from_dict
from sklearn_puffer._rows.parameters import AskedGroups, RowGroups, check_one_secret, group_codes
from sklearn_puffer._strategies import dependent_rows
from sklearn_puffer._tables import frame_table
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

of_little_use = pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")

TABLE = pd.DataFrame(
    {
        "home": ["a", "a", "b", "b", "c", "c", "d", "e"] * 1,
        "ill": ["no", "no", "yes", "yes", "no", "no", "yes", "no"],
        "visits": [0, 1, 2, 1, 0, 0, 2, 1],
    }
)


@pytest.mark.parametrize(
    ("ids", "codes"),
    [
        ([7, 3, 7], [1, 0, 1]),
        ([0.5, -0.0, 0.0], [1, 0, 0]),
        (["b", "a", "b"], [1, 0, 1]),
        (pd.Categorical(["b", "a", "b"], ["z", "b", "a"]), [1, 0, 1]),
        ([2**63 - 1, 2**63 - 2, 2**63 - 1], [1, 0, 1]),
        (pd.array([5, 6, 5], dtype="Int64"), [0, 1, 0]),
        ([True, False, True], [1, 0, 1]),
    ],
)
def test_rows_of_equal_ids_have_equal_numbers_from_0(ids, codes):
    assert group_codes(frame_table(pd.DataFrame({"home": ids})), "home").tolist() == codes


@pytest.mark.parametrize(
    "ids", [["a", None], [1.0, np.nan], pd.array([1, None], dtype="Int64"), [pd.NA, "a"]]
)
def test_a_missing_id_is_refused_with_the_number_of_its_rows(ids):
    with pytest.raises(ValueError, match=r"'home' of groups= has 1 missing id\(s\)"):
        group_codes(frame_table(pd.DataFrame({"home": ids})), "home")


def test_a_group_larger_than_guaranteed_is_refused_and_one_as_large_is_not():
    codes, three = np.array([0, 1, 0, 0, 1]), RowGroups("home", 3, "independent")
    three.check_sizes(codes)
    with pytest.raises(ValueError, match=r"1 group\(s\) of more than max_group=2 .* largest of 3"):
        RowGroups("home", 2, "independent").check_sizes(codes)
    with pytest.raises(ValueError, match="max_group=2"):
        RowGroups("home", 2, "any").check(frame_table(pd.DataFrame({"home": list("aaab")})))


def test_a_size_that_is_public_is_counted():
    table = frame_table(TABLE)
    found = AskedGroups(0, None, "any").fitted(table, "home", {})
    assert found == RowGroups("home", 2, "any")


def test_a_group_of_two_secrets_is_refused():
    codes = np.array([0, 1, 0, 2, 2])
    check_one_secret(codes, "home", {"ill": np.array([1, 0, 1, 0, 0])})
    with pytest.raises(ValueError, match=r"1 group\(s\) of column 'home' .* different 'ill'"):
        check_one_secret(codes, "home", {"ill": np.array([1, 0, 0, 0, 0])})


@pytest.mark.parametrize(
    ("params", "kind", "told"),
    [
        ({"groups": "home"}, ValueError, "needs max_group"),
        ({"max_group": 3}, ValueError, "max_group=3 is about groups"),
        ({"within_group": "any"}, ValueError, "within_group='any' is about groups"),
        ({"groups": "home", "max_group": 0}, ValueError, "max_group must be at least 1"),
        ({"groups": "home", "max_group": 257}, ValueError, "max_group must be at most 256"),
        ({"groups": "home", "max_group": 2.5}, TypeError, "max_group must be"),
        ({"groups": "home", "max_group": "many"}, ValueError, "max_group must be"),
        ({"groups": ["home"], "max_group": 3}, TypeError, "groups must be the name"),
        ({"groups": True, "max_group": 3}, TypeError, "groups must be the name"),
        ({"groups": "home", "max_group": 3, "within_group": "none"}, ValueError, "within_group"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(params, kind, told):
    with pytest.raises(kind, match=told):
        PufferfishNoiser(sensitive="ill", **params).fit(TABLE)


# ----------------------------------------------------------------------------- losses, brute force


def table_of(no, yes):
    """Return rows with these counts of values 0, 1, ... under each secret."""
    values = {
        s: np.repeat(np.arange(len(distribution)), distribution)
        for s, distribution in {"no": no, "yes": yes}.items()
    }
    ill = np.repeat(list(values), [len(own) for own in values.values()])
    visits = np.concatenate([*values.values()])
    return pd.DataFrame({"ill": ill, "visits": visits, "home": np.arange(len(ill))})


def laplace(theta):
    return cache(lambda y, x: mpmath.exp(-abs(mpmath.mpf(y) - x) / mpmath.mpf(theta)))


def kept_or_drawn(theta, shares):
    """Return the kernel of a column without an order."""
    rho = 1 - mpmath.exp(-mpmath.mpf(theta))
    return cache(lambda y, x: (1 - rho) * (x == y) + rho * shares[y])


def independent(distribution, g):
    """Return the distribution of g rows: {values: probability}."""
    values = product(range(len(distribution)), repeat=g)
    return {
        x: mpmath.fprod(mpmath.mpf(int(distribution[k])) / int(sum(distribution)) for k in x)
        for x in values
    }


def densities(joint, kernel, outputs, g):
    """Return the density of each joint outcome, whatever the constant of the kernel."""
    return [
        mpmath.fsum(p * mpmath.fprod(map(kernel, y, x)) for x, p in joint.items())
        for y in product(outputs, repeat=g)
    ]


def divergence(p, q, epsilon=None, alpha=None):
    """Return the largest log ratio, the delta at epsilon, or the divergence of order alpha."""
    if alpha is not None:
        powers = mpmath.fsum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))
        return float(mpmath.log(powers) / (alpha - 1))
    if epsilon is not None:
        e = mpmath.exp(epsilon)
        return float(mpmath.fsum(max(a - e * b, 0) for a, b in zip(p, q, strict=True)))
    return float(max(mpmath.log(a / b) for a, b in zip(p, q, strict=True)))


def both_ways(certificate):
    return {(pair.secret, pair.against): pair for pair in certificate.pairs}


def fitted(table, epsilon=1.0, g=2, **params):
    own = {"sensitive": "ill", "public": ["visits"], "groups": "home", "max_group": g} | params
    return PufferfishNoiser(epsilon, **own).fit(table)


LAWS = [((6, 4), (4, 6)), ((5, 1, 2), (1, 4, 3)), ((9, 0, 1), (3, 3, 4))]


@of_little_use
@pytest.mark.parametrize("g", [2, 3, 4])
@pytest.mark.parametrize(("no", "yes"), LAWS)
def test_pure_losses_of_independent_rows_are_those_of_all_joint_outcomes(no, yes, g):
    certificate = (noiser := fitted(table_of(no, yes), 0.7, g)).certificate_
    kernel = laplace(noiser.theta_["visits"])
    p, q = (
        densities(independent(distribution, g), kernel, range(len(distribution)), g)
        for distribution in (no, yes)
    )
    for key, (one, other) in {("no", "yes"): (p, q), ("yes", "no"): (q, p)}.items():
        pair, truth = both_ways(certificate)[key], divergence(one, other)
        assert pair.lower - 1e-9 <= truth <= pair.upper
        assert pair.upper - truth < 1e-6
        assert truth <= 0.7
    assert certificate.holds
    assert certificate.loss == pytest.approx(0.7, abs=1e-6)


@of_little_use
@pytest.mark.parametrize(
    ("g", "params", "no", "yes"),
    [
        (1, {"delta": 0.01}, (6, 4), (4, 6)),
        (1, {"alpha": 3.0}, (9, 1), (2, 8)),
        (1, {}, (5, 1, 2), (1, 4, 3)),
        (2, {"delta": 0.01}, (9, 1), (2, 8)),
        (2, {"alpha": 3.0}, (5, 1, 2), (1, 4, 3)),
        (2, {}, (6, 4), (4, 6)),
        (4, {"delta": 0.01}, (5, 1, 2), (1, 4, 3)),
        (4, {"alpha": 3.0}, (6, 4), (4, 6)),
        (4, {}, (9, 1), (2, 8)),
    ],
)
def test_losses_of_independent_rows_without_an_order_are_those_of_all_outcomes(no, yes, params, g):
    table = table_of(no, yes)
    table["visits"] = table["visits"].map(list("abc").__getitem__)
    noiser = fitted(table, 0.2, g, **params)
    counts = table["visits"].value_counts().sort_index().to_numpy() + 1
    shares = [mpmath.mpf(int(n)) / int(counts.sum()) for n in counts]
    kernel = kept_or_drawn(noiser.theta_["visits"], shares)
    p, q = (
        densities(independent(distribution, g), kernel, range(len(distribution)), g)
        for distribution in (no, yes)
    )
    asked = {"epsilon": 0.2} if "delta" in params else params
    for key, (one, other) in {("no", "yes"): (p, q), ("yes", "no"): (q, p)}.items():
        pair, truth = both_ways(noiser.certificate_)[key], divergence(one, other, **asked)
        assert pair.lower - 1e-9 <= truth <= pair.upper * (1 + 1e-9)
        assert pair.upper - truth <= 1e-4 * pair.upper + 1e-12
    assert noiser.certificate_.loss == pytest.approx(params.get("delta", 0.2), rel=1e-3)


@of_little_use
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "cauchy"])
@pytest.mark.parametrize("params", [{"delta": 0.01}, {"alpha": 2.0}])
def test_two_noisy_numbers_lose_what_fine_cells_of_the_plane_show(noise, params):
    no, yes = (6, 1, 4), (4, 4, 1)
    noiser = fitted(table_of(no, yes), 0.5, 2, noise=noise, **params)
    theta = noiser.theta_["visits"]
    distribution = {"laplace": stats.laplace, "gaussian": stats.norm, "cauchy": stats.cauchy}[noise]
    cuts = np.concatenate(
        [[-np.inf, -1e6], np.linspace(-9, 11, 400) * max(theta, 1), [1e6, np.inf]]
    )
    cells = np.array([np.diff(distribution.cdf(cuts, loc=x, scale=theta)) for x in range(3)])
    p, q = (
        np.outer(row, row).ravel() for row in (np.array(no) / 11 @ cells, np.array(yes) / 9 @ cells)
    )
    asked = {"epsilon": 0.5} if "delta" in params else params
    for key, (one, other) in {("no", "yes"): (p, q), ("yes", "no"): (q, p)}.items():
        seen = _of_cells(one, other, **asked)
        pair = both_ways(noiser.certificate_)[key]
        assert seen <= pair.upper
        assert seen >= 0.97 * pair.lower
    assert noiser.certificate_.holds


def _of_cells(p, q, epsilon=None, alpha=None):
    some = q > 0
    p, q = p[some], q[some]
    if alpha is not None:
        return np.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1)
    return np.maximum(p - np.exp(epsilon) * q, 0).sum()


def test_one_row_may_need_no_noise_under_a_delta_where_two_need_some():
    table = table_of((6, 4), (4, 6))
    epsilon = np.log(1.5) * (1 + 1e-9)
    with pytest.warns(PufferfishWarning, match="need no noise"):
        alone = fitted(table, epsilon, 1, delta=0.01)
    assert alone.theta_["visits"] == 0.0
    with pytest.warns(UtilityWarning):
        both = fitted(table, epsilon, 2, delta=0.01)
    assert both.theta_["visits"] > 0.5  # and no factor times nothing is as much


# ------------------------------------------------------------------------- rows that hang together


def worst_ratio(p, q, kernel, outputs, g):
    """Return the largest log ratio over all outcomes and all joints with margins p and q."""
    values = list(product(range(len(p)), repeat=g))
    margins = np.array([[x[r] == v for x in values] for r in range(g) for v in range(len(p))])
    distributions = [
        np.tile(np.array(distribution) / sum(distribution), g) for distribution in (p, q)
    ]
    worst = 0.0
    for y in product(outputs, repeat=g):
        costs = np.array([float(mpmath.fprod(map(kernel, y, x))) for x in values])
        most = -linprog(-costs, A_eq=margins, b_eq=distributions[0]).fun
        worst = max(worst, np.log(most / linprog(costs, A_eq=margins, b_eq=distributions[1]).fun))
    return worst


@of_little_use
@pytest.mark.parametrize(
    ("no", "yes", "g"),
    [
        *((*each, 2) for each in [*LAWS, ((1, 1), (1, 1)), ((5, 5, 0), (0, 5, 5))]),
        *((*each, 3) for each in [LAWS[0], ((5, 5, 0), (0, 5, 5))]),
    ],
)
def test_no_joint_distribution_of_rows_that_hang_together_loses_more(no, yes, g):
    noiser = fitted(table_of(no, yes), 0.6, g, within_group="any")
    kernel = laplace(noiser.theta_["visits"])
    for one, other, key in ((no, yes, ("no", "yes")), (yes, no, ("yes", "no"))):
        truth = worst_ratio(one, other, kernel, range(len(one)), g)
        pair = both_ways(noiser.certificate_)[key]
        assert pair.lower - 1e-9 <= truth <= pair.upper + 1e-9  # of the linear program
        assert truth > 0.4 * pair.upper
        assert pair.source == "theorem"
    assert noiser.certificate_.holds
    assert noiser.certificate_.loss <= 0.6


@of_little_use
@pytest.mark.parametrize(("no", "yes"), [((6, 4), (4, 6)), ((5, 1, 2), (1, 4, 3))])
def test_no_joint_distribution_of_categories_that_hang_together_loses_more(no, yes):
    table = table_of(no, yes)
    table["visits"] = table["visits"].map(list("abc").__getitem__)
    noiser = fitted(table, 0.6, 2, within_group="any")
    counts = table["visits"].value_counts().sort_index().to_numpy() + 1
    kernel = kept_or_drawn(
        noiser.theta_["visits"], [mpmath.mpf(int(n)) / int(counts.sum()) for n in counts]
    )
    truth = max(worst_ratio(a, b, kernel, range(len(a)), 2) for a, b in ((no, yes), (yes, no)))
    assert 0.24 < truth <= 0.6


def test_a_household_of_equals_or_opposites_tells_what_no_row_does():
    pair = PriorPair(*[Discrete([0, 1], [0.5, 0.5])] * 2)
    bound = dependent_rows([pair], Laplace(1.0), Pufferfish(1.0), n_rows=2)
    kernel, half = laplace(1.0), mpmath.mpf(1) / 2
    equal, opposite = {(0, 0): half, (1, 1): half}, {(0, 1): half, (1, 0): half}
    p, q = (densities(distribution, kernel, (0, 1), 2) for distribution in (equal, opposite))
    assert divergence(p, q) == pytest.approx(0.43378083, abs=1e-8)
    assert 2 * bound.losses(1.0).max() == pytest.approx(divergence(p, q), abs=1e-9)
    assert 2 * bound.losses(1.0).max() >= divergence(p, q)


def test_copies_of_one_value_lose_more_than_independent_rows():
    p, q = (mpmath.mpf(6) / 10, mpmath.mpf(4) / 10), (mpmath.mpf(4) / 10, mpmath.mpf(6) / 10)
    kernel, g = laplace(2.0), 4
    copies = [
        densities({(x,) * g: distribution[x] for x in (0, 1)}, kernel, (0, 1), g)
        for distribution in (p, q)
    ]
    alone = [
        densities(independent(distribution, g), kernel, (0, 1), g)
        for distribution in ((6, 4), (4, 6))
    ]
    assert divergence(*copies) < 0.4055  # what the value itself tells: copies are one value
    pair = PriorPair(Discrete([0, 1], [0.6, 0.4]), Discrete([0, 1], [0.4, 0.6]))
    bound = g * dependent_rows([pair], Laplace(2.0), Pufferfish(1.0), n_rows=g).losses(1.0).max()
    assert max(divergence(*copies), divergence(*alone)) < bound


def test_dependent_rows_of_two_columns_lose_no_more_than_their_bound():
    p = Discrete([[0, 0], [0, 1], [1, 0], [2, 1]], [0.25, 0.25, 0.25, 0.25])
    q = Discrete([[0, 0], [1, 1], [2, 0]], [0.5, 0.25, 0.25])
    scales = (1.5, 0.8)
    bound = dependent_rows([PriorPair(p, q)], Laplace(scales), Pufferfish(1.0), n_rows=2)
    rows = [tuple(map(float, row)) for row in product((0, 1, 2), (0, 1))]
    found = [
        dict(zip(map(tuple, distribution.rows), distribution.probabilities, strict=True))
        for distribution in (p, q)
    ]
    masses = [[distribution.get(row, 0.0) for row in rows] for distribution in found]

    def kernel(y, x):
        apart = zip(rows[y], rows[x], scales, strict=True)
        return mpmath.exp(-sum(abs(a - b) / s for a, b, s in apart))

    truth = worst_ratio(*masses, kernel, range(len(rows)), 2)
    assert truth <= 2 * bound.losses(1.0)[0, 0] < 2 * truth


def test_the_bound_of_dependent_rows_falls_as_noise_grows():
    pair = PriorPair(Discrete([0, 1, 5], [0.6, 0.3, 0.1]), Discrete([0, 2], [0.5, 0.5]))
    bound = dependent_rows([pair], Laplace(1.0), Pufferfish(1.0), n_rows=3)
    losses = np.array([bound.losses(f) for f in np.geomspace(1e-3, 1e3, 60)])
    assert (np.diff(losses, axis=0) <= 0.0).all()
    assert np.isinf(bound.losses(0.0)).all()


# ------------------------------------------------------------------------------- what comes with it


HOMES = pd.DataFrame(
    {
        "home": np.repeat(np.arange(40), 3),
        "ill": np.repeat(["no", "yes"], 60),
        "visits": np.append(np.tile([0, 1, 1, 2, 0, 3], 10), np.tile([2, 1, 3, 2, 0, 3], 10)),
        "smokes": np.append(np.tile([True, False, False, False], 15), np.tile([True, False], 30)),
    }
)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"groups": "house"}, "groups names column 'house', which X does not have"),
        ({"groups": "ill"}, "'ill', which is sensitive"),
        ({"public": ["home", "visits"]}, "'home' is both public and the ids of groups="),
        ({"max_group": 2}, r"40 group\(s\) of more than max_group=2 rows, the largest of 3"),
        ({"adversaries": "confidence"}, "counts rows as drawn one by one"),
        ({"prior": GaussianNB()}, "prior is a classifier, which looks at rows one by one"),
        ({"adversaries": [GaussianNB()]}, r"adversaries\[0\] is a classifier"),
        ({"known": "visits"}, "known='visits' is about a value of one row"),
        ({"within_group": "any", "missing": "propagate"}, "may tell all others"),
        ({"within_group": "any", "strategy": "wasserstein"}, "has a bound of its own"),
        ({"within_group": "any", "delta": 1e-3}, "use within_group='independent'"),
        ({"within_group": "any", "alpha": 2.0}, "use within_group='independent'"),
        ({"within_group": "any", "noise": "cauchy"}, "use within_group='independent'"),
        ({"within_group": "any", "prior": "gaussian"}, "discrete priors alone"),
    ],
)
def test_what_groups_do_not_go_with_is_refused_in_fit(params, told):
    own = {"sensitive": "ill", "groups": "home", "max_group": 3} | params
    with pytest.raises(ValueError, match=told) as caught:
        PufferfishNoiser(**own).fit(HOMES)
    assert str(caught.value).endswith(".")


@of_little_use
def test_rows_that_are_no_group_are_refused_before_any_is_drawn(monkeypatch):
    noiser = PufferfishNoiser(sensitive="ill", groups="home", max_group=3).fit(HOMES)
    monkeypatch.setattr(NoiseOfColumns, "released", lambda *_: pytest.fail("rows were drawn"))
    with pytest.raises(ValueError, match=r"more than max_group=3 rows, the largest of 120"):
        noiser.transform(HOMES.assign(home=1))
    with pytest.raises(ValueError, match="has 1 missing id"):
        noiser.transform(HOMES.assign(home=[np.nan, *HOMES["home"][1:]]))
    with pytest.raises(ValueError, match="X lacks column 'home'"):
        noiser.transform(HOMES.drop(columns="home"))


def test_fit_refuses_groups_of_two_secrets_missing_ids_and_weights():
    noiser = PufferfishNoiser(sensitive="ill", groups="home", max_group=3)
    with pytest.raises(ValueError, match=r"1 group\(s\) of column 'home' .* different 'ill'"):
        noiser.fit(HOMES.assign(ill=["yes", *HOMES["ill"][1:]]))
    with pytest.raises(ValueError, match="has 1 missing id"):
        noiser.fit(HOMES.assign(home=[np.nan, *HOMES["home"][1:]]))
    with pytest.raises(ValueError, match="sample_weight counts a row as several"):
        noiser.fit(HOMES, sample_weight=np.ones(120))
    assert not hasattr(noiser, "certificate_")


@of_little_use
def test_lazy_tables_are_refused_in_fit_and_in_transform():
    polars = pytest.importorskip("polars")
    lazy = polars.from_pandas(HOMES).lazy()
    noiser = PufferfishNoiser(sensitive="ill", groups="home", max_group=3)
    with pytest.raises(ValueError, match="X is a lazy table"):
        noiser.fit(lazy)
    with pytest.raises(ValueError, match="X is lazy"):
        noiser.fit(HOMES).transform(lazy, row_id="home", key=b"blake2b:" + bytes(32))


@of_little_use
def test_ids_of_groups_are_handed_through_whatever_becomes_of_other_columns():
    noiser = PufferfishNoiser(sensitive="ill", public=["visits"], groups="home", max_group="count")
    released = noiser.fit(HOMES).transform(HOMES.drop(columns=["ill", "smokes"]))
    assert list(released) == ["home", "visits"]
    assert released["home"].equals(HOMES["home"])
    assert noiser.certificate_.groups == RowGroups("home", 3, "independent")
    of_array = PufferfishNoiser(sensitive=1, groups=0, max_group=3).fit(
        HOMES.to_numpy(dtype=object)
    )
    assert of_array.certificate_.groups.column == 0
    assert of_array.transform(HOMES.to_numpy(dtype=object)).shape == (120, 3)


@of_little_use
@pytest.mark.parametrize("within", ["independent", "any"])
def test_the_certificate_says_whom_the_guarantee_is_about_and_is_read_back(within):
    own = {"sensitive": "ill", "groups": "home", "max_group": 3, "within_group": within}
    noiser = PufferfishNoiser(**own).fit(HOMES)
    certificate, told = noiser.certificate_, noiser.certificate_.details()
    assert certificate.promise().startswith(
        "Whoever sees all released rows of a group (at most 3 rows with one value of home)"
    )
    assert ("how rows of a group depend on each other" in certificate.promise()) == (
        within == "any"
    )
    assert "at most 3 row(s) of a group in all, over all releases and tables" in told
    assert "what one group tells about another is not covered" in told
    assert "a released row" not in certificate.promise()
    alone = PufferfishNoiser(0.1, sensitive="ill", public=["visits"]).fit(HOMES).certificate_
    assert "what one person's row tells about another person is not covered" in alone.details()
    assert alone.groups is None
    assert certificate_from_dict(certificate.to_dict()) == certificate
    read = PufferfishRelease.from_json(noiser.to_json())
    assert read.certificate_ == certificate
    with pytest.raises(ValueError, match="max_group=3"):
        read.transform(HOMES.assign(home=1))
    assert "rows with the same home share" in str(report(noiser, kind="external")).lower()


def test_too_many_values_for_rows_that_hang_together_are_refused_with_the_way_out():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"ill": ["no", "yes"] * 450, "home": np.arange(900)})
    table = table.assign(a=rng.integers(0, 600, 900), b=rng.integers(0, 600, 900))
    own = {"sensitive": "ill", "groups": "home", "max_group": 3, "within_group": "any"}
    with pytest.raises(
        ValueError, match=r"up to 4194304 terms.*use within_group='independent', or fewer"
    ):
        PufferfishNoiser(**own).fit(table)


@of_little_use
def test_a_form_whose_groups_were_changed_is_refused():
    text = PufferfishNoiser(sensitive="ill", groups="home", max_group=3).fit(HOMES).to_json()
    record = json.loads(text)
    del record["checksum"]
    for most, within in ((None, "any"), (4, "independent"), (3, "any")):
        groups = most and {"column": "home", "most": most, "within": within}
        with pytest.raises(ValueError, match="groups"):
            PufferfishRelease.from_json(signed_text(record | {"groups": groups}))


@of_little_use
def test_certificates_without_groups_are_read():
    certificate = PufferfishNoiser(0.1, sensitive="ill", public=["visits"]).fit(HOMES).certificate_
    old = {k: v for k, v in certificate.to_dict().items() if k != "groups"}
    read = certificate_from_dict(old | {"schema": "sklearn_puffer.certificate/4"})
    assert read == certificate


@of_little_use
@pytest.mark.parametrize(("alpha", "g"), [(None, 2), (None, 3), (2.0, 3)])
def test_a_further_prior_is_held_against_whole_groups(alpha, g):
    noiser = fitted(table_of((6, 4), (4, 6)), 0.3, g, alpha=alpha)
    prior = {"no": Discrete([0, 1], [0.9, 0.1]), "yes": Discrete([0, 1], [0.1, 0.9])}
    against = noiser.certificate_.against(prior)
    kernel = laplace(noiser.theta_["visits"])
    if alpha is None:
        p, q = (
            densities(independent(distribution, g), kernel, (0, 1), g)
            for distribution in ((9, 1), (1, 9))
        )
        assert against.loss == pytest.approx(divergence(p, q), abs=1e-6)
    assert not against.holds


@of_little_use
def test_two_releases_of_two_rows_keep_one_budget():
    no, yes, g = (6, 4), (4, 6), 2
    noiser = fitted(table_of(no, yes), 0.8, g, releases=2)
    once = laplace(noiser.theta_["visits"])
    outputs = list(product((0, 1), repeat=2))
    p, q = (
        densities(
            independent(distribution, g), lambda y, x: once(y[0], x) * once(y[1], x), outputs, g
        )
        for distribution in (no, yes)
    )
    assert 0.79 < max(divergence(p, q), divergence(q, p)) <= 0.8


@pytest.mark.slow
@of_little_use
def test_columns_taken_as_independent_lose_as_many_times_as_there_are_rows():
    table = HOMES.assign(age=20 + np.arange(120) % 7 + HOMES["visits"], home=np.arange(120))
    own = {"sensitive": "ill", "public": ["age", "visits"], "dependence": "independent"}
    alone = PufferfishNoiser(0.1, **own).fit(table)
    both = PufferfishNoiser(0.2, **own, groups="home", max_group=2).fit(table)
    assert np.allclose(alone.theta_, both.theta_, rtol=1e-6)
    for params in ({"delta": 1e-3}, {"alpha": 2.0}):
        more = PufferfishNoiser(0.2, **own, groups="home", max_group=2, **params).fit(table)
        less = PufferfishNoiser(0.2, **own, **params).fit(table)
        assert more.certificate_.holds
        assert (more.theta_ > less.theta_).all()


# -------------------------------------------------------------------------------- counts of secrets


@of_little_use
def test_counts_that_differ_by_m_are_told_by_no_more_than_m_rows():
    no, yes, n = (6, 4), (4, 6), 4
    rows = {"no": no, "yes": yes}

    def of_count(k):
        """Return the joint distribution of n rows of which k, at random places, have the secret."""
        places = list(combinations(range(n), k))
        distribution = dict.fromkeys(product((0, 1), repeat=n), mpmath.mpf(0))
        for chosen in places:
            for x in distribution:
                each = (rows["yes" if r in chosen else "no"][x[r]] for r in range(n))
                distribution[x] += mpmath.fprod(mpmath.mpf(c) / 10 for c in each) / len(places)
        return distribution

    for params in ({}, {"alpha": 2.0}, {"delta": 0.02}):
        noiser = PufferfishNoiser(0.1, sensitive="ill", public=["visits"], **params)
        table = table_of(no, yes)
        table["visits"] = table["visits"].astype(bool)
        noiser.fit(table)
        kernel = kept_or_drawn(noiser.theta_["visits"], [mpmath.mpf(1) / 2] * 2)
        seen = [densities(of_count(k), kernel, (0, 1), n) for k in range(n + 1)]
        for k, m in ((0, 1), (0, 4), (1, 2), (2, 2)):
            notion = noiser.certificate_.about_count(m).notion
            asked = {"epsilon": notion.epsilon} if notion.delta else params
            budget = notion.delta or notion.epsilon
            truth = max(
                divergence(seen[k], seen[k + m], **asked), divergence(seen[k + m], seen[k], **asked)
            )
            assert truth <= budget
            if not params and (k, m) == (0, 4):  # all rows differ, and the bound is attained
                assert truth > 0.999 * budget


@of_little_use
def test_what_follows_for_counts_says_of_what_and_refuses_the_rest():
    certificate = PufferfishNoiser(0.1, sensitive="ill", public=["visits"]).fit(HOMES).certificate_
    assert certificate.about_count(3).notion.epsilon >= 3 * Fraction(0.1)
    assert certificate.about_count(3).promise() == (
        "Whoever sees all that is released, and knows the prior, by which rows are independent of "
        "each other, can shift their odds between two counts of a sensitive value that differ by "
        "3, all others having a value that it is protected from, by at most a factor of e^0.3 = "
        "1.35."
    )
    of_groups = PufferfishNoiser(sensitive="ill", groups="home", max_group=3).fit(HOMES)
    assert of_groups.certificate_.about_count(2).unit == "groups"
    with pytest.raises(ValueError, match="m must be at least 1"):
        certificate.about_count(0)
    small = PufferfishNoiser(0.1, delta=0.05, sensitive="ill", public=["visits"]).fit(HOMES)
    with pytest.raises(ValueError, match=r"m=20 times delta = 0\.05 is 1 or more"):
        small.certificate_.about_count(20)


# ----------------------------------------------------------------------------------- ledgers, draws


@of_little_use
def test_a_ledger_counts_tables_and_one_of_persons_refuses_groups(tmp_path):
    noiser = PufferfishNoiser(sensitive="ill", groups="home", max_group=3, releases=2).fit(HOMES)
    ledger = Ledger.create(tmp_path / "ledger.json", noiser)
    released = ledger.transform(noiser, HOMES)
    assert len(released) == 120
    with pytest.raises(ValueError, match="PersonLedger counts the releases of each row's id"):
        PersonLedger.create(tmp_path / "p.sqlite", noiser, key=b"blake2b:" + bytes(32))


@of_little_use
def test_drawn_households_of_equals_and_opposites_are_told_apart_no_more_than_guaranteed():
    n = 40_000
    rng = np.random.default_rng(7)
    first, ill = rng.integers(0, 2, n), np.repeat([0, 1], n // 2)
    second = np.where(ill == 1, 1 - first, first)
    table = pd.DataFrame(
        {
            "home": np.repeat(np.arange(n), 2),
            "ill": np.repeat(np.array(["no", "yes"])[ill], 2),
            "visits": np.stack([first, second], axis=1).ravel(),
        }
    )
    own = {"sensitive": "ill", "groups": "home", "max_group": 2, "output": "noisy"}
    noiser = PufferfishNoiser(0.5, **own, within_group="any").fit(table)
    pairs = noiser.transform(table)["visits"].to_numpy().reshape(-1, 2)
    apart = (pairs[:, 0] > 0.5) != (pairs[:, 1] > 0.5)  # as opposites are
    shares = [apart[ill == s].mean() for s in (0, 1)]
    told = np.log(shares[1] / shares[0]), np.log((1 - shares[0]) / (1 - shares[1]))
    assert 0.02 < max(told) < 0.5


def test_several_sensitive_columns_are_refused_where_rows_are_independent_given_one():
    # of the second column the rows of a group share what they have, and hang together by it
    both = HOMES.assign(smokes=HOMES["ill"])
    asked = {"sensitive": ["ill", "smokes"], "public": ["visits"], "groups": "home"}
    with pytest.raises(ValueError, match="not independent given one of them; make one column"):
        PufferfishNoiser(**asked, max_group=3).fit(both)
    PufferfishNoiser(**asked, max_group=3, within_group="any").fit(both)


def test_rows_that_hang_together_are_not_tested_for_drift():
    copies = pd.DataFrame({"ill": ["no", "yes"] * 200, "visits": [0, 2, 1, 1, 2, 0, 0, 2] * 50})
    copies["home"] = range(400)
    noiser = PufferfishNoiser(sensitive="ill", public=["visits"], groups="home", max_group=1)
    with warnings.catch_warnings(action="ignore"):
        noiser.fit(copies)
    other = copies.assign(visits=0)
    told = noiser.certificate_.check(other)
    assert not told.tested
    assert not told.drifted
    assert "rows of a group depend on each other" in str(told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noiser.transform(other)
    with pytest.raises(ValueError, match=r"those of groups= depend on each other; look at"):
        noiser.transform(other, on_drift="raise")


def test_reports_of_groups_say_that_the_guarantee_is_about_groups():
    noiser = PufferfishNoiser(sensitive="ill", public=["visits"], groups="home", max_group=3)
    told = str(report(noiser.fit(HOMES), kind="external"))
    assert "The guarantee is about one group of rows." in told
    assert "about one row" not in told
    assert "within a family" not in told
