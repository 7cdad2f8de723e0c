"""Unordered columns: a value stays, or is drawn anew from shares that are the same for all.

The oracle sums densities over cells and a fine grid of numbers, in plain numpy.
"""

from __future__ import annotations

import itertools
import json
import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
from sklearn_puffer._certificates import ColumnNoise
from sklearn_puffer._certificates.composition import (
    MixedPrecisions,
    Precisions,
    kappa,
    mixing_scale,
    rule_from_dict,
)
from sklearn_puffer._losses import is_computable
from sklearn_puffer._losses.pair_losses import CategoryLayers
from sklearn_puffer._noise import WHOLE, MixedNoise, Mixing, kept_numerator, seeded_entropy
from sklearn_puffer._noiser import problem
from sklearn_puffer._noiser.fit import wide_sentence
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.bounds import Relaxed, approximate, distribution_aware, sensitivity, wasserstein
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

DENSITIES = {
    Laplace: stats.laplace.pdf,
    Gaussian: stats.norm.pdf,
    Cauchy: stats.cauchy.pdf,
    GeneralizedCauchy: lambda u: 2.0 / np.pi / (1.0 + u * u) ** 2,
}
SHARES = st.lists(st.integers(0, 50), min_size=2, max_size=5)


def kernel(shares, theta):
    """Return K_rho as a matrix, from row x to column y."""
    rho = -np.expm1(-theta)
    return (1.0 - rho) * np.eye(len(shares)) + rho * np.outer(np.ones(len(shares)), shares)


# ------------------------------------------------------------------------------------ the kernel


@given(SHARES)
def test_shares_are_those_of_the_rows_with_one_more_for_each_value(counts):
    mixing = Mixing.of_counts(range(len(counts)), counts)
    expected = (np.array(counts) + 1.0) / (sum(counts) + len(counts))
    assert_allclose(mixing.probabilities, expected, rtol=1e-15)
    assert sum(mixing.shares) == WHOLE


def test_shares_that_do_not_sum_to_one_are_refused():
    for shares in [(WHOLE, 0), (WHOLE - 1,), (1, WHOLE)]:
        with pytest.raises(ValueError, match="shares must be positive"):
            Mixing((0.0, 1.0)[: len(shares)], shares)


def test_kernels_are_a_semigroup_in_the_scale_that_keeps_the_shares():
    q = Mixing.of_counts(range(4), [5, 0, 30, 2]).probabilities
    assert_allclose(kernel(q, 0.7) @ kernel(q, 1.1), kernel(q, 1.8), rtol=1e-14)
    assert_allclose(q @ kernel(q, 0.7), q, rtol=1e-14)


@given(SHARES, st.floats(1e-3, 30.0), st.floats(0.0, 5.0))
def test_what_two_rows_lose_is_bounded_by_the_smallest_share(counts, theta, epsilon):
    mixing = Mixing.of_counts(range(len(counts)), counts)
    rows = kernel(mixing.probabilities, theta)
    ratios = np.log(rows[:, None] / rows[None])
    assert mixing.max_divergence(theta) == pytest.approx(ratios.max(), rel=1e-9, abs=1e-12)
    deltas = np.maximum(rows[:, None] - np.exp(epsilon) * rows[None], 0.0).sum(axis=2)
    assert mixing.hockey_stick(theta, epsilon) == pytest.approx(deltas.max(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("theta", [1e-300, 1e-9, 0.3, 2.0, 43.0, 44.0, 800.0, 1e300])
def test_no_more_is_kept_than_the_scale_says(theta):
    kept = kept_numerator(theta)
    assert 0 <= kept <= WHOLE
    assert kept / WHOLE <= np.exp(-theta)
    assert kept >= np.exp(-theta) * WHOLE * (1.0 - 1e-14) - 1.0


@pytest.mark.parametrize("theta", [0.05, 0.9, 4.0])
def test_the_sampler_draws_the_kernel(theta):
    mixing = Mixing.of_counts(range(4), [500, 0, 90, 30])
    sampler = mixing.sampler(theta, seeded_entropy(7))
    n = 60_000
    for value, row in enumerate(kernel(mixing.probabilities, theta)):
        places = np.full(n, value, dtype=np.intp)
        sampler.release(places)
        seen = np.bincount(places, minlength=4)
        some = row * n > 5.0
        expected = np.append(row[some], row[~some].sum()) * n
        found = np.append(seen[some], seen[~some].sum())
        kept = expected > 0.0
        assert stats.chisquare(found[kept], expected[kept]).pvalue > 1e-6


def test_a_sampler_reads_its_bits_exactly_at_the_borders():
    mixing = Mixing((0.0, 1.0), (WHOLE // 4, 3 * WHOLE // 4))

    class Fixed:
        def words(self, count):
            coins = [kept_numerator(1.0) - 1, kept_numerator(1.0), kept_numerator(1.0)]
            draws = [0, WHOLE // 4 - 1, WHOLE // 4]
            assert count == 6
            return np.array([*coins, *draws], dtype=np.uint64) << np.uint64(2)

    sampler = mixing.sampler(1.0, Fixed())
    sampler._entropy = Fixed()
    places = np.array([1, 1, 0])
    sampler.release(places)
    assert places.tolist() == [1, 0, 1]


# -------------------------------------------------------------------------------- losses of rows


def released(rows, masses, mixings, thetas, density, ys):
    """Return the probabilities of releases: over all codes, and over points of the one number."""
    total = 0.0
    for row, mass in zip(rows, masses, strict=True):
        of_row = np.array(mass)
        for value, mixing, theta in zip(row, mixings, thetas, strict=True):
            if mixing is None:
                axis = density((ys - value) / theta) / theta
            else:
                axis = kernel(mixing.probabilities, theta)[int(value)]
            of_row = of_row[..., None] * axis
        total = total + of_row
    return total


def losses_by_brute_force(p, q, notion, step):
    with np.errstate(divide="ignore", invalid="ignore"):
        if notion.is_pure:
            ratios = np.log(p / q)[(p > 1e-200) & (q > 1e-200)]
            return [ratios.max(), -ratios.min()]
        if notion.is_chance:
            scale = np.exp(notion.epsilon)
            return [(np.maximum(a - scale * b, 0.0) * step).sum() for a, b in ((p, q), (q, p))]
        order = notion.alpha - 1.0
        sums = [
            np.nansum(np.where(b > 1e-200, a * (a / b) ** order, 0.0) * step)
            for a, b in ((p, q), (q, p))
        ]
    return [np.log(total) / order for total in sums]


def instance(kinds, rng):
    """Return two counted priors with cells of mass zero, and mixings over wider alphabets.

    ``kinds`` has a 1 for each unordered column.
    """
    sizes = [int(rng.integers(1, 4)) for _ in kinds]
    rows = np.array(list(itertools.product(*map(range, sizes))), dtype=float)
    distributions = []
    for _ in range(2):
        counts = rng.integers(1, 6, len(rows)) * (rng.random(len(rows)) < 0.7)
        counts[rng.integers(len(rows))] += 1
        distributions.append(counts)
    wider = [size + int(rng.integers(0, 3)) for size in sizes]
    mixings = tuple(
        Mixing.of_counts(range(n), rng.integers(0, 9, n).tolist()) if unordered else None
        for n, unordered in zip(wider, kinds, strict=True)
    )
    return rows, distributions, mixings, rng.uniform(0.3, 2.5, len(kinds)).tolist()


KINDS = [(1,), (1, 1), (1, 0), (0, 1, 1)]
NOTIONS = [Pufferfish(1.0), Pufferfish(0.4, 0.1), RenyiPufferfish(1.0, 2.5)]


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
@pytest.mark.parametrize("family", DENSITIES)
@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_losses_of_rows_are_those_of_brute_force(kinds, family, notion):
    rng = np.random.default_rng(sum(map(ord, family.__name__)) + 7 * len(kinds))
    number = 0 in kinds
    if notion.is_pure and number and family is Gaussian:
        return
    angles = np.linspace(-np.pi / 2, np.pi / 2, 4_003)[1:-1]
    ys = 1.0 + 2.0 * np.tan(angles)
    step = 2.0 * np.diff(angles)[0] / np.cos(angles) ** 2 if number else 1.0
    for _ in range(3):
        rows, distributions, mixings, thetas = instance(kinds, rng)
        order = [*np.flatnonzero(kinds), *np.flatnonzero(np.array(kinds) == 0)]  # number last
        p, q = (
            released(
                rows[:, order], counts / counts.sum(), [mixings[k] for k in order],
                [thetas[k] for k in order], DENSITIES[family], ys,
            )
            for counts in distributions
        )  # fmt: skip
        expected = losses_by_brute_force(p, q, notion, step)
        pair = PriorPair(*(Discrete.from_counts(rows, counts) for counts in distributions))
        noise = MixedNoise(family(tuple(thetas)), mixings)
        lower, upper = LossTable([pair], notion).intervals(noise)
        close = (5e-3 if notion.is_pure else 1e-3) if number else 1e-9
        assert_allclose(lower[0], expected, rtol=close, atol=close)
        assert_allclose(upper[0], expected, rtol=close, atol=close)
        assert (lower <= upper).all()


def test_pure_losses_of_several_numbers_and_categories_are_those_at_the_vertices():
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows, distributions, mixings, thetas = instance((0, 1, 0, 1), rng)
        points = np.array(
            list(
                itertools.product(
                    *(range(len(m.shares)) if m else np.arange(-1.0, 4.0, 0.5) for m in mixings)
                )
            )
        )
        heights = []
        for counts in distributions:
            total = np.zeros(len(points))
            for row, count in zip(rows, counts / counts.sum(), strict=True):
                term = np.full(len(points), count)
                for k, mixing in enumerate(mixings):
                    if mixing is None:
                        term *= np.exp(-np.abs(points[:, k] - row[k]) / thetas[k])
                    else:
                        matrix = kernel(mixing.probabilities, thetas[k])
                        term *= matrix[int(row[k]), points[:, k].astype(int)]
                total += term
            heights.append(np.log(total))
        ratios = heights[0] - heights[1]
        pair = PriorPair(*(Discrete.from_counts(rows, counts) for counts in distributions))
        lower, upper = LossTable([pair]).intervals(MixedNoise(Laplace(tuple(thetas)), mixings))
        assert_allclose(upper[0], [ratios.max(), -ratios.min()], rtol=1e-11, atol=1e-11)
        assert (upper - lower < 1e-11).all()


@pytest.mark.parametrize("theta", [0.01, 0.7, 5.0])
def test_bounds_on_released_masses_hold_fifty_digits(theta):
    rows, distributions = np.arange(4.0), ([3, 1, 5, 2], [1, 4, 2, 9])
    mixing = Mixing.of_counts(range(4), [5, 0, 30, 2])
    noise = MixedNoise(Laplace((theta,)), (mixing,))
    layers = CategoryLayers(
        *(Discrete.from_counts(rows, distribution) for distribution in distributions), (mixing,)
    )
    panels = layers.panels(noise, Pufferfish(1.0))
    with mpmath.workdps(50):
        kept = mpmath.exp(-mpmath.mpf(theta))
        shares = [mpmath.mpf(share) / WHOLE for share in mixing.shares]
        p, q = (
            [
                kept * n / sum(distribution) + (1 - kept) * share
                for n, share in zip(distribution, shares, strict=True)
            ]
            for distribution in map(mpmath.matrix, distributions)
        )
        ratios = [mpmath.log(a / b) for a, b in zip(p, q, strict=True)]
    ends = [(panels.p_low, panels.p_high), (panels.q_low, panels.q_high)]
    ends.append((panels.log_low, panels.log_high))
    for (lows, highs), exact in zip(ends, (p, q, ratios), strict=True):
        assert all(low <= x <= high for low, x, high in zip(lows, exact, highs, strict=True))
        assert_allclose(lows, highs, atol=1e-11)


@pytest.mark.parametrize("n_levels", [3, 300])
def test_small_scales_and_large_alphabets_lose_what_is_computed_in_logs(n_levels):
    """Beyond the range of floats: the logs of the grid."""
    mixing = Mixing.of_counts(range(n_levels), [1] * n_levels)
    p, q = Discrete([0.0, 1.0], [0.5, 0.5]), Discrete([1.0, 2.0], [0.5, 0.5])
    for theta in (1e-200, 1e-90, 1e-3, 1.0, 60.0):
        noise = MixedNoise(Laplace((theta,)), (mixing,))
        rho = -np.expm1(-theta)
        expected = np.log1p(np.exp(-theta) * 0.5 / (rho * mixing.probabilities[0]))
        lower, upper = LossTable([PriorPair(p, q)]).intervals(noise)
        assert_allclose(upper[0], [expected] * 2, rtol=1e-12, atol=1e-14)
        assert (lower[0] <= expected * (1.0 + 1e-13) + 1e-14).all()


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_losses_never_grow_with_the_factor(notion):
    rng = np.random.default_rng(2)
    rows, distributions, mixings, thetas = instance((1, 1, 0), rng)
    table = LossTable([PriorPair(*(Discrete.from_counts(rows, c) for c in distributions))], notion)
    noise = MixedNoise(Laplace(tuple(thetas)), mixings)
    found = [table.intervals(noise.scaled(f)) for f in (1e-6, 0.1, 0.5, 1.0, 1.3, 4.0, 30.0, 900.0)]
    for (_, more), (less, _) in itertools.pairwise(found):
        assert (less <= more * (1.0 + 1e-9) + 1e-12).all()
    limit = table.without_noise()
    assert (found[0][1] <= limit * (1.0 + 1e-9) + 1e-12).all()
    assert found[-1][1].max() < 0.2


@pytest.mark.parametrize(
    ("strategy", "notion"),
    [
        (wasserstein, NOTIONS[0]),
        (Relaxed("eq11"), NOTIONS[0]),
        (Relaxed("eq12"), NOTIONS[0]),
        (sensitivity, NOTIONS[0]),
        (distribution_aware, NOTIONS[1]),
        (approximate, NOTIONS[1]),
        (sensitivity, NOTIONS[1]),
        (distribution_aware, NOTIONS[2]),
    ],
)
def test_bounds_along_couplings_are_never_below_the_loss(strategy, notion):
    rng = np.random.default_rng(11)
    for kinds in [(1,), (1, 1), (0, 1)] * 4:
        rows, distributions, mixings, thetas = instance(kinds, rng)
        pair = PriorPair(*(Discrete.from_counts(rows, counts) for counts in distributions))
        noise = MixedNoise(Laplace(tuple(thetas)), mixings)
        assert is_computable(pair, noise, notion)
        bound = strategy([pair], noise, notion)
        for factor in (0.3, 1.0, 5.0):
            lower = LossTable([pair], notion).intervals(noise.scaled(factor))[0]
            assert (lower <= bound.losses(factor) * (1.0 + 1e-9) + 1e-12).all()


def test_the_relaxed_strategy_counts_on_values_that_stay_and_asks_for_laplace_noise():
    frame = table_of_rows()
    options = {"sensitive": "s", "public": ["job", "flag"]}
    found = {
        name: PufferfishNoiser(0.5, strategy=name, **options).fit(frame)
        for name in ("exact", "relaxed", "sensitivity")
    }
    assert found["relaxed"].certificate_.holds
    scales = [noiser.theta_["job"] for noiser in found.values()]
    assert scales == sorted(scales)
    assert scales[0] < scales[1] < scales[2]
    same = Discrete([0, 1], [0.5, 0.5])
    noise = MixedNoise(Laplace((1.0,)), (Mixing.of_counts([0, 1], [1, 1]),))
    assert Relaxed()([PriorPair(same, same)], noise, NOTIONS[0]).losses(0.0).max() == 0.0
    assert (
        "is a bound for Laplace noise"
        in Relaxed()([PriorPair(same, same)], noise, NOTIONS[1]).reason
    )


# -------------------------------------------------------------------------------- the estimator


def table_of_rows(n=600):
    rng = np.random.default_rng(0)
    s = np.resize([0, 1], n)
    return pd.DataFrame(
        {
            "s": s,
            "job": np.array(["nurse", "cook", "judge"])[np.minimum(rng.integers(0, 3, n) + s, 2)],
            "flag": rng.random(n) < 0.3 + 0.4 * s,
            "age": rng.integers(20, 25, n) + 2 * s,
        }
    )


def released_quietly(noiser, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return noiser.transform(frame)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dependence": "independent"},
        pytest.param({"noise": "gaussian", "delta": 1e-3}, marks=pytest.mark.slow),
        pytest.param({"noise": "cauchy"}, marks=pytest.mark.slow),
        {"noise": "gaussian", "alpha": 2.0, "public": ["job", "flag"]},
    ],
    ids=str,
)
def test_what_is_drawn_keeps_the_guarantee_and_the_shares(options):
    frame = table_of_rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        noiser = PufferfishNoiser(0.5, sensitive="s", random_state=1, **options).fit(frame)
    assert noiser.certificate_.holds
    assert (noiser.certificate_.table["source"] == "recomputed").all()
    drawn = pd.concat([released_quietly(noiser, frame) for _ in range(20)])
    assert drawn["flag"].dtype == bool
    for name in ("job", "flag"):
        rho = -np.expm1(-noiser.theta_[name])
        shares = frame[name].value_counts()
        q = (shares + 1.0) / (len(frame) + len(shares))
        expected = ((1.0 - rho) * shares / len(frame) + rho * q).sort_index()
        seen = drawn[name].value_counts(normalize=True).sort_index()
        assert_allclose(seen, expected, atol=0.03)
        same = np.mean(drawn[name].to_numpy() == np.tile(frame[name].to_numpy(), 20))
        assert same == pytest.approx(noiser.utility_.loc[name, "unchanged"], abs=0.03)


def test_declared_orders_keep_codes_and_noise():
    frame = table_of_rows()
    order = ["nurse", "cook", "judge"]
    declared = PufferfishNoiser(0.5, sensitive="s", categories={"job": order}).fit(frame)
    typed = frame.assign(job=pd.Categorical(frame["job"], order, ordered=True))
    typed = PufferfishNoiser(0.5, sensitive="s").fit(typed)
    named = frame.assign(job=pd.Categorical(frame["job"], order))
    named = PufferfishNoiser(0.5, sensitive="s").fit(named)
    kinds = [
        {column.name: column.unordered for column in each.certificate_.columns}["job"]
        for each in (declared, typed, named)
    ]
    assert kinds == [False, False, True]
    assert declared.theta_["job"] == typed.theta_["job"] != named.theta_["job"]


def test_missing_is_a_category_like_any_other():
    frame = table_of_rows().drop(columns="age")
    frame.loc[::5, "job"] = None
    frame["flag"] = frame["flag"].astype("boolean")
    frame.loc[::7, "flag"] = pd.NA
    noiser = PufferfishNoiser(0.5, sensitive="s", missing="category").fit(frame)
    drawn = pd.concat([noiser.transform(frame) for _ in range(20)])
    assert 0.1 < drawn["job"].isna().mean() < 0.3
    assert 0.05 < drawn["flag"].isna().mean() < 0.25
    stays = PufferfishNoiser(0.5, sensitive="s", missing="propagate").fit(frame).transform(frame)
    assert (stays["job"].isna() == frame["job"].isna()).all()


def test_a_column_of_one_category_is_released_as_it_is():
    frame = table_of_rows().assign(job="cook")
    noiser = PufferfishNoiser(0.5, sensitive="s").fit(frame)
    assert noiser.theta_["job"] == 0.0
    assert (noiser.transform(frame)["job"] == "cook").all()


def test_levels_that_are_declared_and_not_seen_count_as_one_row_each():
    frame = table_of_rows(100)[["s", "job"]]
    levels = pd.CategoricalDtype(["cook", "judge", "king", "nurse"])
    noiser = PufferfishNoiser(1e-3, sensitive="s").fit(frame.astype({"job": levels}))
    drawn = noiser.transform(pd.concat([frame] * 300).astype({"job": levels}))["job"]
    assert (drawn == "king").mean() == pytest.approx(1.0 / 104.0, abs=3e-3)


def test_the_certificate_says_what_theta_means_and_json_which_columns_are_unordered():
    noiser = PufferfishNoiser(0.5, sensitive="s").fit(table_of_rows())
    assert "theta is -log(1 - rho)" in noiser.certificate_.details()
    columns = json.loads(noiser.certificate_.to_json())["columns"]
    assert [column["unordered"] for column in columns] == [True, True, False]
    only = PufferfishNoiser(0.5, sensitive="s", public="age").fit(table_of_rows())
    assert "rho" not in only.certificate_.details()


def test_the_warning_about_wide_rows_says_how_much_is_drawn_anew():
    column = ColumnNoise("job", 3.0, 1.0, True, 1.0, unordered=True)
    told = wide_sentence(["job", "flag"], 10, column, 0)
    assert "95% of the values drawn anew in 'job'; release fewer columns" in told
    ordered = wide_sentence(["age"], 10, ColumnNoise("age", 3.0, 2.0, True, 1.0), 3)
    assert "1.5 standard deviations of noise in 'age'; take n_bins=3." in ordered


def test_weights_name_the_proportions_of_kernels_too():
    frame = table_of_rows()
    weights = {"job": 1.0, "flag": 3.0, "age": 2.0}
    theta = PufferfishNoiser(0.5, sensitive="s", weights=weights).fit(frame).theta_
    assert theta["flag"] == pytest.approx(3.0 * theta["job"], rel=1e-12)
    assert theta["age"] == pytest.approx(2.0 * theta["job"], rel=1e-12)


def test_by_default_even_shares_lose_half_a_nat_where_a_move_by_half_a_deviation_does():
    frame = table_of_rows()
    theta = PufferfishNoiser(0.5, sensitive="s").fit(frame).theta_
    factor = theta["age"] / frame["age"].std(ddof=0)
    for name, n in (("job", 3), ("flag", 2)):
        rows = kernel(np.full(n, 1.0 / n), theta[name] / factor)
        assert np.log(rows[0, 0] / rows[1, 0]) == pytest.approx(0.5)


def test_against_the_fitted_prior_is_the_certified_loss():
    frame = table_of_rows()
    noiser = PufferfishNoiser(0.5, sensitive="s").fit(frame)
    fitted = {
        s: distribution for s, of in noiser.priors_["s"].items() for distribution in of.values()
    }
    assert noiser.certificate_.against(fitted).loss == pytest.approx(
        noiser.certificate_.loss, rel=1e-9
    )


@pytest.mark.slow
def test_many_lines_of_a_number_are_left_to_a_theorem(monkeypatch):
    frame = table_of_rows(120)
    options = {"sensitive": "s", "noise": "gaussian", "delta": 0.1, "public": ["flag", "age"]}
    monkeypatch.setattr(problem, "MOST_LINES", 2)
    with pytest.warns(UserWarning, match="theorem|bound"):
        bound = PufferfishNoiser(1.0, **options).fit(frame)
    monkeypatch.undo()
    known = PufferfishNoiser(1.0, **options).fit(frame)
    assert (bound.certificate_.table["source"] == "theorem").all()
    assert bound.theta_["age"] >= known.theta_["age"]
    assert bound.certificate_.holds


# ------------------------------------------------------------------------------ several releases


@given(SHARES, st.floats(0.05, 4.0), st.floats(0.05, 4.0))
def test_two_releases_are_a_post_processing_of_one_of_their_kappas(counts, first, second):
    """By solving for the kernel from the one to both: it has no negative entry."""
    mixing = Mixing.of_counts(range(len(counts)), counts)
    q, n = mixing.probabilities, len(counts)
    total = kappa(first, mixing.least) + kappa(second, mixing.least)
    together = np.log1p(1.0 / (mixing.least * np.expm1(total)))  # of this kappa
    one, a, b = (kernel(q, theta) for theta in (together, first, second))
    both = np.einsum("xy,xz->xyz", a, b).reshape(n, n * n)
    between = np.linalg.solve(one, both)
    assert between.min() > -1e-9
    assert_allclose(between.sum(axis=1), 1.0, rtol=1e-9)


@given(st.floats(1e-6, 0.5), st.floats(1e-3, 100.0), st.integers(2, 9))
def test_planned_releases_spend_no_more_than_the_one_they_stand_for(least, theta, releases):
    scale = mixing_scale(least, theta, releases)
    assert scale >= theta
    if kept_numerator(scale):
        assert releases * kappa(scale, least) <= kappa(theta, least)
    rule = MixedPrecisions(Precisions.of_scales(1, {}), {"x": least}, {"x": theta})
    assert rule.allows({"x": {scale: releases}})
    assert rule.allows({"x": {theta: 1}})
    if kept_numerator(theta):
        assert not rule.allows({"x": {theta: 2}})


def test_a_rule_of_kernels_is_read_as_it_was_written():
    numbers = Precisions.of_scales(2, {"age": 2.0}, draws=9)
    rule = MixedPrecisions(numbers, {"job": 0.01}, {"job": 0.7})
    again = rule_from_dict(json.loads(json.dumps(rule.to_dict())))
    assert again == rule
    assert again.budgets == rule.budgets


def test_two_planned_releases_lose_no_more_than_is_certified():
    frame = table_of_rows()[["s", "job", "flag"]]
    noiser = PufferfishNoiser(0.8, sensitive="s", releases=2).fit(frame)
    kernels, rows = [], {}
    for name in ("job", "flag"):
        levels = sorted(frame[name].unique())
        counts = [int((frame[name] == level).sum()) for level in levels]
        q = Mixing.of_counts(range(len(levels)), counts).probabilities
        one = kernel(q, noiser.theta_[name])
        kernels.append(np.einsum("xy,xz->xyz", one, one).reshape(len(q), -1))
        rows[name] = frame[name].map({level: k for k, level in enumerate(levels)}).to_numpy()
    distributions = []
    for secret in (0, 1):
        chosen = (frame["s"] == secret).to_numpy()
        masses = np.zeros([len(k) for k in kernels])
        np.add.at(masses, (rows["job"][chosen], rows["flag"][chosen]), 1.0 / chosen.sum())
        distributions.append(np.einsum("ab,ay,bz->yz", masses, *kernels))
    loss = np.abs(np.log(distributions[0] / distributions[1])).max()
    assert loss <= noiser.certificate_.loss
    assert noiser.certificate_.table["lower"].max() <= loss


def test_a_ledger_counts_releases_of_kernels_and_numbers_together(tmp_path):
    frame = table_of_rows()
    noiser = PufferfishNoiser(0.8, sensitive="s", releases=2).fit(frame)
    ledger = Ledger.create(tmp_path / "rows.ledger", noiser)
    assert ledger.left().releases == 2
    ledger.transform(noiser, frame)
    ledger.transform(noiser, frame)
    assert ledger.left().releases == 0
    again = Ledger.open(tmp_path / "rows.ledger", noiser)
    with pytest.raises(OverspentError):
        again.transform(noiser, frame)


def test_categories_that_need_no_noise_are_planned_for_several_releases():
    table = pd.DataFrame({"s": [0, 1] * 20, "x": ["a", "a", "b", "b"] * 10})
    with pytest.warns(UserWarning, match="need no noise"):
        noiser = PufferfishNoiser(sensitive="s", releases=2).fit(table)
    assert noiser.theta_["x"] == 0.0
    assert noiser.certificate_.loss == 0.0
