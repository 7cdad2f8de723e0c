"""Several releases of the same rows: what all of them together tell, against brute force."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._certificates import Precisions, Refused, factor_below
from sklearn_puffer._noise import sampler_loss
from sklearn_puffer._noiser import fingerprint
from sklearn_puffer._noiser.problem import drawn_scales
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

ATOMS = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
ONE = {"no": Discrete(ATOMS, [1, 0, 0, 0, 0]), "yes": Discrete(ATOMS, [0, 0.4, 0.1, 0.1, 0.4])}
TWO = {
    "no": Discrete(ATOMS, [0.5, 0.3, 0.1, 0.05, 0.05]),
    "yes": Discrete(ATOMS, [0.05, 0.05, 0.1, 0.3, 0.5]),
}


def table_of(*axes, repeats=2):
    """Return a table in which every combination of values occurs under either secret."""
    rows = list(itertools.product(*axes)) * repeats
    columns = {name: [row[k] for row in rows] for k, name in enumerate("xyz"[: len(axes)])}
    return pd.concat(
        [pd.DataFrame({"s": label, **columns}) for label in ("no", "yes")], ignore_index=True
    )


def fitted(prior=TWO, releases=1, epsilon=1.0, **options):
    """Return a noiser fitted to the prior's own atoms."""
    rows = prior["no"].rows
    axes = [np.unique(rows[:, k]) for k in range(rows.shape[1])]
    noiser = PufferfishNoiser(
        epsilon, sensitive="s", prior=prior, releases=releases, output="noisy", **options
    )
    return noiser.fit(table_of(*axes))


def kernel(noise, y, rows):
    """Return log K(y - x) for outputs y (m, d) and rows x (n, d), shape (m, n)."""
    return noise.log_density(y[:, None, :] - rows[None])


def joint_logs(prior, noise, outputs):
    """Return log p(y_1, ..., y_k) for every tuple of ``outputs``: a list of k arrays (m_r, d)."""
    total = np.zeros((1, len(prior.rows)))
    for each in outputs:
        own = kernel(noise, each, prior.rows)
        total = (total[:, None, :] + own[None]).reshape(-1, len(prior.rows))
    with np.errstate(divide="ignore"):
        logs = total + np.log(prior.probabilities)
    top = logs.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(logs - top).sum(axis=1))


def largest_ratio(p, q, noise, releases, outputs):
    """Return the largest log ratio of all releases over all tuples of outputs, both ways."""
    logs = [joint_logs(prior, noise, [outputs] * releases) for prior in (p, q)]
    return float(np.abs(logs[0] - logs[1]).max())


def vertices(*axes):
    return np.array(list(itertools.product(*axes)))


# ------------------------------------------------------------------------------ Laplace, pure loss


@pytest.mark.parametrize("prior", [ONE, TWO])
@pytest.mark.parametrize("releases", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_the_joint_loss_of_exact_laplace_releases_is_the_budget(prior, releases, epsilon):
    noiser = fitted(prior, releases, epsilon)
    noise = Laplace(float(noiser.theta_["x"]))
    loss = largest_ratio(prior["no"], prior["yes"], noise, releases, ATOMS[:, None])
    certificate = noiser.certificate_
    assert 0.99 * epsilon < loss <= certificate.loss <= epsilon
    worst = max(pair.lower for pair in certificate.pairs)
    assert worst <= loss * (1 + 1e-12)
    assert worst == pytest.approx(loss, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*need no noise")
@settings(max_examples=12)
@given(
    st.integers(0, 10**6),
    st.integers(2, 3),
    st.sampled_from(["exact", "relaxed", "wasserstein", "sensitivity"]),
    st.sampled_from([1e-9, 1.0, 1e9]),
)
def test_no_strategy_lets_laplace_releases_lose_more_than_the_budget(seed, k, strategy, unit):
    rng = np.random.default_rng(seed)
    atoms = np.unique(rng.normal(size=4)) * unit
    distributions = rng.integers(0, 9, (2, 4)) + np.eye(4, dtype=int)[:2]
    prior = {
        s: Discrete.from_counts(atoms, distribution)
        for s, distribution in zip(("no", "yes"), distributions, strict=True)
    }
    noiser = fitted(prior, k, 0.4, strategy=strategy)
    theta, grid = float(noiser.theta_["x"]), noiser.certificate_.columns[0].grid
    assume(theta > 0.0)
    moved = {
        s: Discrete.from_counts(grid * np.floor(atoms / grid + 0.5), distribution.counts)
        for s, distribution in prior.items()
    }
    loss = largest_ratio(moved["no"], moved["yes"], Laplace(theta), k, moved["no"].rows)
    assert loss + sampler_loss(k) <= 0.4 * (1 + 1e-14)
    assert grid <= theta * 2.0**-39


def test_epsilon_over_k_each_is_not_what_happens():
    naive = float(fitted(ONE, 1, 0.5, strategy="relaxed").theta_["x"])
    assert naive == pytest.approx(6.515, abs=1e-3)
    lost = largest_ratio(ONE["no"], ONE["yes"], Laplace(naive), 2, ATOMS[:, None])
    assert lost == pytest.approx(1.073658, abs=1e-6)
    planned = float(fitted(ONE, 2, 1.0, strategy="relaxed").theta_["x"])
    assert largest_ratio(ONE["no"], ONE["yes"], Laplace(planned), 2, ATOMS[:, None]) <= 1.0
    assert planned > naive * 1.01


# -------------------------------------------------------------------------- deltas and Renyi losses


def cells(atoms, noise, reach, finer=1.0, n_nodes=12):
    """Return nodes and weights of a quadrature between the atoms, cut finely, and beyond them."""
    theta = float(noise.scale)
    ends = np.unique(np.concatenate([atoms, [atoms.min() - reach, atoms.max() + reach]]))
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    found = []
    for a, b in itertools.pairwise(ends):
        cuts = np.linspace(a, b, max(2, math.ceil(finer * (b - a) / theta) + 1))
        for low, high in itertools.pairwise(cuts):
            half = (high - low) / 2
            found.append((low + half * (1 + nodes), half * weights))
    return np.concatenate([y for y, _ in found]), np.concatenate([w for _, w in found])


def divergence(notion, log_p, log_q, weights):
    """Return the loss between two densities on the nodes of a quadrature."""
    if isinstance(notion, RenyiPufferfish):
        mean = (weights * np.exp(notion.alpha * log_p + (1 - notion.alpha) * log_q)).sum()
        return math.log(mean) / (notion.alpha - 1)
    gap = np.exp(log_p) - math.exp(notion.epsilon) * np.exp(log_q)
    return float((weights * np.maximum(gap, 0.0)).sum())


NOTIONS = [Pufferfish(0.7, 1e-2), RenyiPufferfish(0.7, 2.0)]


def budget(notion):
    return {
        "epsilon": notion.epsilon,
        "delta": notion.delta,
        "alpha": getattr(notion, "alpha", None),
    }


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
@pytest.mark.parametrize("releases", [2, 5, 40])
def test_gaussian_releases_lose_the_budget_which_their_mean_shows(notion, releases):
    noiser = fitted(TWO, releases, noise="gaussian", **budget(notion))
    # the mean of the releases is sufficient for x
    mean = Gaussian(float(noiser.theta_["x"]) / math.sqrt(releases))
    y, weights = cells(ATOMS, mean, 12 * float(mean.scale), finer=300.0)
    logs = [joint_logs(prior, mean, [y[:, None]]) for prior in TWO.values()]
    loss = max(divergence(notion, *logs, weights), divergence(notion, *logs[::-1], weights))
    certificate = noiser.certificate_
    assert loss <= certificate.loss * (1 + 1e-6) <= notion.budget * (1 + 1e-6)
    assert loss > 0.999 * notion.budget
    assert max(pair.lower for pair in certificate.pairs) == pytest.approx(loss, rel=1e-4)


def test_the_mean_of_gaussian_releases_is_all_they_tell():
    noise = Gaussian(2.0)
    y = np.array([[-1.0], [0.5], [3.0]])
    single_mean = Gaussian(2.0 / math.sqrt(3))
    apart = [joint_logs(p, noise, [y[[0]], y[[1]], y[[2]]])[0] for p in TWO.values()]
    mean = [joint_logs(p, single_mean, [y.mean(axis=0)[None]])[0] for p in TWO.values()]
    assert apart[0] - apart[1] == pytest.approx(mean[0] - mean[1], rel=1e-12)


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
def test_two_laplace_releases_stay_within_the_certificate_under_other_notions(notion):
    noiser = fitted(TWO, 2, **budget(notion))
    noise = Laplace(float(noiser.theta_["x"]))
    y, weights = cells(ATOMS, noise, 25 * float(noise.scale))
    plane = np.outer(weights, weights).ravel()
    logs = [joint_logs(prior, noise, [y[:, None]] * 2) for prior in TWO.values()]
    ways = [divergence(notion, *logs, plane), divergence(notion, *logs[::-1], plane)]
    pairs = noiser.certificate_.pairs
    for pair, loss in zip(pairs, ways, strict=True):
        assert pair.lower * (1 - 1e-3) <= loss <= pair.upper * (1 + 1e-3)
    assert max(ways) > 0.4 * notion.budget  # a post-processing that loses a good deal


# ----------------------------------------------------------------------------- scales and the grid


@pytest.mark.parametrize("options", [{}, {"delta": 1e-3}, {"alpha": 2.0}, {"adversaries": [ONE]}])
def test_laplace_scales_grow_with_k_and_gaussian_ones_with_its_root(options):
    numbers = np.array([1, 2, 10, 1000])
    for noise, power in (("laplace", 1.0), ("gaussian", 0.5)):
        if noise == "gaussian" and not {"delta", "alpha"} & set(options):
            continue
        scales = [fitted(TWO, int(k), noise=noise, **options).theta_["x"] for k in numbers]
        assert np.array(scales) / scales[0] == pytest.approx(numbers**power, rel=1e-7)


@pytest.mark.parametrize("options", [{}, {"noise": "gaussian", "alpha": 2.0}])
def test_more_releases_never_need_less_noise(options):
    thetas = [float(fitted(TWO, k, **options).theta_["x"]) for k in (1, 2, 3, 5, 9)]
    assert thetas == sorted(thetas)
    assert len(set(thetas)) == len(thetas)


@settings(max_examples=200)
@given(
    st.floats(1e-300, 1e290),
    st.integers(2, 10**9),
    st.sampled_from([(Laplace(), 1), (Gaussian(), 2)]),
)
def test_drawn_precisions_never_sum_to_more_than_the_certified_one(scale, releases, family):
    noise, power = family
    [theta] = drawn_scales(noise, np.array([scale]), releases)
    assert releases / Fraction(float(theta)) ** power <= 1 / Fraction(scale) ** power
    assert theta <= scale * releases ** (1.0 / power) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("noise", "notion", "releases", "factor"),
    [
        (Laplace(), Pufferfish(1.0), 1, 1),  # one release tells what it tells
        (Gaussian(), RenyiPufferfish(1.0, 2.0), 1, 1),
        (Laplace(), Pufferfish(1.0), 3, 1),  # all on one point
        (Gaussian(), RenyiPufferfish(1.0, 2.0), 3, 1),  # their mean
        (Gaussian(), Pufferfish(1.0, 1e-3), 3, 1),
        (Laplace(), RenyiPufferfish(1.0, 2.0), 3, 3),
        (Laplace(), Pufferfish(1.0, 1e-3), 3, 3),
    ],
)
def test_one_release_that_tells_no_more_than_all_has_this_much_more_noise(
    noise, notion, releases, factor
):
    found = factor_below(noise, notion, releases)
    assert factor <= found <= factor * (1.0 + 1e-12)


def test_one_release_is_drawn_at_the_certified_scale_itself():
    scales = np.array([0.1, 3.0])
    assert all(drawn_scales(noise, scales, 1) is scales for noise in (Laplace(), Cauchy()))


def test_values_off_the_grid_are_rounded_to_the_grid_of_the_drawn_noise():
    atoms = np.array([0.1, 0.7, 1.9])
    prior = {"no": Discrete(atoms, [0.8, 0.1, 0.1]), "yes": Discrete(atoms, [0.1, 0.1, 0.8])}
    noiser = fitted(prior, 1000, 1e-3)
    [column] = noiser.certificate_.columns
    assert column.grid == 2.0 ** math.ceil(math.log2(column.theta / 2**40))
    released = noiser.transform(table_of(atoms))["x"].to_numpy()
    assert np.all(released / column.grid == np.floor(released / column.grid))
    assert noiser.certificate_.holds


def test_the_release_is_drawn_at_theta_and_anew_each_time():
    noiser = fitted(TWO, 400)
    table = table_of(ATOMS, repeats=400)
    first, second = (noiser.transform(table)["x"].to_numpy() for _ in range(2))
    assert (first != second).mean() > 0.99
    noise = first - table["x"].to_numpy()
    assert np.abs(noise).mean() == pytest.approx(noiser.theta_["x"], rel=0.1)


@pytest.mark.slow
def test_a_free_column_pays_for_its_rounding_and_keeps_the_budget():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"s": np.repeat(["no", "yes"], 200), "x": rng.normal(size=400).round(2)})
    table.loc[200:, "x"] += 1.0
    for noise, options in (("laplace", {}), ("gaussian", {"alpha": 2.0})):
        one, three = (
            PufferfishNoiser(
                1.0, sensitive="s", prior="gaussian", noise=noise, releases=k, **options
            ).fit(table)
            for k in (1, 3)
        )
        times = 3.0 if noise == "laplace" else math.sqrt(3.0)
        assert three.theta_["x"] / one.theta_["x"] == pytest.approx(times, rel=1e-6)
        assert three.certificate_.holds
        assert three.certificate_.loss > 0.99


# --------------------------------------------------------------------------------- several columns


BITS = np.array([0.0, 1.0])
ROWS = vertices(BITS, BITS)
SAME = Discrete(ROWS, [0.5, 0, 0, 0.5])
OPPOSITE = Discrete(ROWS, [0, 0.5, 0.5, 0])


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_rows_of_several_columns_lose_the_budget_in_all_releases_together(releases):
    noiser = fitted({"no": SAME, "yes": OPPOSITE}, releases, 0.5)
    noise = Laplace(tuple(noiser.theta_))
    loss = largest_ratio(SAME, OPPOSITE, noise, releases, ROWS)
    assert 0.99 * 0.5 < loss <= noiser.certificate_.loss <= 0.5


def test_independent_columns_keep_the_budget_in_all_releases_together():
    distributions = {"no": ([0.7, 0.3], [0.6, 0.4]), "yes": ([0.2, 0.8], [0.1, 0.9])}
    prior = {s: Discrete(ROWS, np.outer(a, b).ravel()) for s, (a, b) in distributions.items()}
    noiser = fitted(prior, 3, 0.5, dependence="independent")
    loss = largest_ratio(*prior.values(), Laplace(tuple(noiser.theta_)), 3, ROWS)
    assert 0.99 * 0.5 < loss <= noiser.certificate_.loss <= 0.5


# ------------------------------------------------------------------------------ further adversaries


def test_given_adversaries_are_guaranteed_all_releases_together():
    noiser = fitted(TWO, 3, 0.5, adversaries=[ONE])
    noise = Laplace(float(noiser.theta_["x"]))
    losses = [largest_ratio(*prior.values(), noise, 3, ATOMS[:, None]) for prior in (TWO, ONE)]
    assert max(losses) <= 0.5
    assert losses[1] > 0.99 * 0.5


def test_every_prior_of_a_confidence_set_is_guaranteed_all_releases_together():
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2, 300)
    table = pd.DataFrame({"s": s, "x": rng.integers(0, 3, 300) + s})
    one, three = (
        PufferfishNoiser(0.5, sensitive="s", adversaries="confidence", releases=k).fit(table)
        for k in (1, 3)
    )
    assert three.theta_["x"] == pytest.approx(3 * one.theta_["x"], rel=1e-9)
    over = three.certificate_.over_set
    assert 0.99 * 0.5 < over.loss <= 0.5
    # the error of three draws, where that of one is included in the other
    assert over.loss == pytest.approx(one.certificate_.over_set.loss, abs=1e-10)


def test_the_loss_over_the_set_includes_the_error_of_every_draw():
    table = table_of(ATOMS, repeats=50)
    table.loc[table["s"] == "yes", "x"] += 1
    one, many = (
        PufferfishNoiser(0.5, sensitive="s", releases=k).fit(table).certificate_.over_set
        for k in (1, 10**6)
    )
    # a larger share of the same budget is the sampler's, and more noise loses less over the set
    assert many.loss <= one.loss + sampler_loss(10**6)


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("noise", ["cauchy", GeneralizedCauchy(1.0, 3.5)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "distribution_aware"},
        {"strategy": "wasserstein", "alpha": 2.0},
        {"strategy": "approximate", "delta": 1e-3},
        {"prior": "gaussian", "alpha": 2.0, "strategy": "wasserstein"},
        {"adversaries": "confidence", "strategy": "sensitivity"},
    ],
)
def test_a_second_release_under_cauchy_noise_is_refused_before_any_work(noise, options):
    noiser = PufferfishNoiser(sensitive="s", releases=2, noise=noise, **options)
    with pytest.raises(
        ValueError,
        match=r"releases=2 is not possible with noise=.*cauchy.* add up is not known; use noise=",
    ):
        noiser.fit(table_of(ATOMS)[:0])  # and not for a table without rows


@pytest.mark.parametrize(
    ("releases", "kind", "message"),
    [
        (0, ValueError, "releases must be at least 1, got 0"),
        (-3, ValueError, "releases must be at least 1, got -3"),
        (2.0, TypeError, "releases must be an integer of at least 1, got 2.0"),
        (True, TypeError, "releases must be an integer of at least 1, got True"),
        ("2", TypeError, "releases must be an integer of at least 1, got '2'"),
        (None, TypeError, "releases must be an integer of at least 1, got None"),
        (10**400, ValueError, "releases must be at most 1,000,000,000, got a whole number of"),
    ],
)
def test_numbers_of_releases_that_are_none_are_refused(releases, kind, message):
    with pytest.raises(kind, match=message):
        PufferfishNoiser(sensitive="s", releases=releases).fit(table_of(ATOMS))


def test_more_releases_than_the_sampler_is_exact_for_are_refused():
    with pytest.raises(ValueError, match="drawing the noise on its grid may lose; raise epsilon"):
        fitted(TWO, 10**9, 1e-3)


# ---------------------------------------------------------------------- the certificate's own words


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delta": 1e-3},
        {"alpha": 2.0},
        {"noise": "gaussian", "alpha": 2.0},
        {"noise": "gaussian", "delta": 1e-3},
        {"strategy": "wasserstein"},
    ],
)
@pytest.mark.parametrize("releases", [1, 2, 7])
def test_the_rule_allows_as_many_releases_as_were_planned_and_no_more(options, releases):
    noiser = fitted(TWO, releases, **options)
    rule, theta = noiser.certificate_.rule, float(noiser.theta_["x"])
    assert rule.allows({"x": {theta: releases}})
    assert not rule.allows({"x": {theta: releases + 1}})
    assert not rule.allows({"x": {theta / (releases + 1): 1}})
    assert rule.allows({"x": {theta * 2: 1}})


@pytest.mark.parametrize("releases", [1, 3])
@pytest.mark.parametrize("options", [{}, {"alpha": 2.0}, {"delta": 1e-3}, {"noise": "gaussian"}])
def test_releases_at_larger_scales_are_as_many_as_the_error_of_the_sampler_is_paid_for(
    options, releases
):
    options = options | ({"delta": 1e-3} if "noise" in options else {})
    noiser = fitted(TWO, releases, **options)
    rule, theta = noiser.certificate_.rule, float(noiser.theta_["x"])
    paid = 2e-10 / (sampler_loss(1) * (2.0 if "alpha" in options else 1.0))
    assert rule.draws == releases + int(paid)
    assert rule.allows({"x": {theta * 1e15: rule.draws}})
    assert not rule.allows({"x": {theta * 1e15: rule.draws + 1}})


def test_columns_without_noise_may_be_released_for_ever():
    table = table_of(ATOMS, repeats=20)
    with pytest.warns(UserWarning, match="need no noise"):
        noiser = PufferfishNoiser(sensitive="s", releases=2).fit(table)
    assert noiser.theta_["x"] == 0.0
    assert noiser.certificate_.rule == Precisions(1, {"x": math.inf})
    assert noiser.certificate_.rule.allows({"x": {0.0: 10**6}})


@pytest.mark.parametrize("noise", ["cauchy", GeneralizedCauchy(1.0, 3.5)])
@pytest.mark.parametrize(
    "options",
    [{}, {"alpha": 2.0}, {"strategy": "wasserstein"}, {"delta": 1e-3}, {"adversaries": [ONE]}],
)
def test_what_has_no_rule_may_be_released_once(noise, options):
    cauchy = fitted(TWO, 1, noise=noise, **options).certificate_
    theta = cauchy.columns[0].theta
    assert isinstance(cauchy.rule, Refused)
    assert cauchy.rule.allows({"x": {theta: 1}})
    assert cauchy.rule.allows({"x": {10.0 * theta: 1}})
    assert not cauchy.rule.allows({"x": {0.999 * theta: 1}})
    assert not cauchy.rule.allows({"x": {theta: 2}})
    assert not cauchy.rule.allows({"x": {1e9 * theta: 1}}, {"x": {theta: 1}})
    assert "noise='laplace'" in cauchy.rule.reason


@pytest.mark.slow
def test_a_certificate_that_does_not_hold_allows_nothing():
    mixtures = {
        "no": GaussianMixture([0.9, 0.1], [0.0, 20.0], [1.0, 1.0]),
        "yes": GaussianMixture([0.9, 0.1], [0.0, 30.0], [1.0, 1.0]),
    }
    noiser = PufferfishNoiser(sensitive="s", prior=mixtures, strategy="monge", releases=2)
    certificate = noiser.fit(table_of(ATOMS)).certificate_
    assert not certificate.holds
    assert isinstance(certificate.rule, Refused)
    assert not certificate.rule.allows({"x": {1e9: 1}})
    assert 'strategy="exact" keeps the guarantee' in certificate.remedy


def test_the_certificate_says_how_many_releases_it_is_for():
    one, three = (fitted(TWO, k).certificate_ for k in (1, 3))
    assert (one.releases, three.releases) == (1, 3)
    assert three.promise().startswith(
        "Whoever sees 3 releases of the same rows together, and knows"
    )
    assert "Whoever sees a released row" in one.promise()
    said = " ".join(three.assumptions)
    assert "The guarantee is for 3 releases of the same rows together" in said
    assert "3 times 1/theta of this certificate" in said
    assert "k releases need k times the noise" in " ".join(one.assumptions)
    cauchy = " ".join(fitted(TWO, 1, noise="cauchy").certificate_.assumptions)
    assert "each column may be released once" in cauchy
    assert "without an order" not in said + cauchy


def test_the_certificate_says_that_columns_without_an_order_add_up_otherwise():
    table = pd.DataFrame({"s": [*"aaaaaaaabbbbbbbb"], "x": [*"uuuuuvvvuuuvvvvv"]})
    noiser = PufferfishNoiser(0.4, sensitive="s").fit(table)
    rho = -math.expm1(-noiser.theta_["x"])

    def told(rho, draws):  # by the first value, again and again, whose share is a half
        stay, move = (1.0 - rho / 2.0) ** draws, (rho / 2.0) ** draws
        return math.log((5 * stay + 3 * move) / (3 * stay + 5 * move))

    assert told(rho, 1) == pytest.approx(0.4, abs=1e-6)
    assert told(-math.expm1(-2.0 * noiser.theta_["x"]), 2) > 0.4  # twice theta is not enough
    two = PufferfishNoiser(0.4, sensitive="s", releases=2).fit(table)
    assert told(-math.expm1(-two.theta_["x"]), 2) <= 0.4
    for certificate in (noiser.certificate_, two.certificate_):
        assert "'x', without an order, may need more" in " ".join(certificate.assumptions)


def test_the_certificate_as_json_has_the_rule():
    certificate = fitted(TWO, 3).certificate_
    record = json.loads(certificate.to_json())
    assert record["releases"] == 3
    assert record["fingerprint"] == certificate.fingerprint
    assert record["rule"] == certificate.rule.to_dict()


# -------------------------------------------------------------------------------- the fingerprint


def test_the_fingerprint_survives_pickling_and_a_new_fit():
    noiser = fitted(TWO, 2)
    mark = noiser.certificate_.fingerprint
    assert len(mark) == 64
    assert int(mark, 16) > 0
    assert pickle.loads(pickle.dumps(noiser)).certificate_ == noiser.certificate_
    assert fitted(TWO, 2).certificate_.fingerprint == mark


SCRIPT = """
import pandas as pd
from sklearn_puffer import PufferfishNoiser
table = pd.DataFrame({"s": [0, 1] * 20, "x": ["b", "a", "c", "a"] * 10, "y": [1, 2, 3, 4] * 10})
noiser = PufferfishNoiser(0.5, sensitive="s", releases=2, n_bins={"y": 2})
print(noiser.fit(table).certificate_.fingerprint)
"""


@pytest.mark.slow
def test_the_fingerprint_is_the_same_in_every_process():
    elsewhere = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    table = pd.DataFrame({"s": [0, 1] * 20, "x": ["b", "a", "c", "a"] * 10, "y": [1, 2, 3, 4] * 10})
    noiser = PufferfishNoiser(0.5, sensitive="s", releases=2, n_bins={"y": 2}).fit(table)
    assert elsewhere.strip() == noiser.certificate_.fingerprint


def test_whatever_changes_the_representation_changes_the_fingerprint():
    shifted = {
        s: Discrete(ATOMS + 1, distribution.probabilities) for s, distribution in TWO.items()
    }
    noisers = [
        fitted(TWO),
        fitted(TWO, 2),
        fitted(TWO, epsilon=0.9),
        fitted(TWO, alpha=2.0),
        fitted(TWO, noise="gaussian", alpha=2.0),
        fitted(shifted),
        fitted(TWO, n_bins=2),
        fitted(TWO, n_bins=3),
        PufferfishNoiser(sensitive="s", prior=TWO).fit(table_of(ATOMS)),
        PufferfishNoiser(sensitive="s", prior=TWO).fit(table_of(ATOMS).rename(columns={"x": "z"})),
    ]
    marks = [noiser.certificate_.fingerprint for noiser in noisers]
    assert len(set(marks)) == len(marks)
    assert fingerprint([], Pufferfish(1.0), 1) != fingerprint([], Pufferfish(1.0), 2)


# ------------------------------------------------------------------------ the estimator's parameter


def test_the_parameter_is_one_like_all_others():
    noiser = PufferfishNoiser(sensitive="s", releases=4)
    assert noiser.get_params()["releases"] == 4
    assert clone(noiser).releases == 4
    assert "releases=4" in repr(noiser)
    assert PufferfishNoiser().get_params()["releases"] == 1
    assert fitted(TWO, np.int64(2)).certificate_.releases == 2
