"""Rules of how releases add up, against the exact joint losses of up to four releases."""

import json
import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer._releases.reach import Judge
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.spending import (
    Averages,
    Precisions,
    Refused,
    rule_from_dict,
    scale_for_releases,
    times_left,
)

SLACK = 1e-9  # what the oracles may be off, in nats


def joint_losses(p, q, atoms, scales):
    """Directed losses of several Laplace releases: log ratios at all vertices of the grid atoms^k.

    In each output, all others fixed, the ratio is monotone between atoms.
    """
    kernels = [np.exp(-np.abs(atoms[:, None] - atoms) / scale) for scale in scales]
    names = "abcd"[: len(scales)]
    formula = f"x,{','.join(f'x{name}' for name in names)}->{names}"
    ratios = np.log(np.einsum(formula, p, *kernels)) - np.log(np.einsum(formula, q, *kernels))
    return ratios.max(), -ratios.min()


@st.composite
def prior_pairs(draw, n_max=5):
    n = draw(st.integers(1, n_max))
    gaps = draw(st.lists(st.sampled_from([0.25, 1.0, 3.0]), min_size=n - 1, max_size=n - 1))
    masses = st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any)
    p, q = (np.array(draw(masses), dtype=float) for _ in range(2))
    return p / p.sum(), q / q.sum(), np.cumsum([0.0, *gaps])


scales_of_releases = st.lists(st.sampled_from([0.3, 1.0, 1.7, 4.0, 20.0]), min_size=1, max_size=4)


@given(prior_pairs(), scales_of_releases)
def test_laplace_releases_lose_no_more_than_one_release_of_their_total_precision(pair, scales):
    p, q, atoms = pair
    single = 1.0 / sum(1.0 / scale for scale in scales)
    for joint, alone in zip(
        joint_losses(p, q, atoms, scales), joint_losses(p, q, atoms, [single]), strict=True
    ):
        assert joint <= alone + SLACK


@given(prior_pairs(4), st.sampled_from([0.5, 1.0, 3.0]), scales_of_releases)
def test_a_history_that_is_allowed_loses_no_more_than_the_certified_release(pair, theta, scales):
    p, q, atoms = pair
    rule = Precisions.of_scales(1, {"x": theta})
    spent = {"x": {scale: scales.count(scale) for scale in scales}}
    if rule.allows(spent):
        joint = joint_losses(p, q, atoms, scales)
        alone = joint_losses(p, q, atoms, [theta])
        assert all(a <= b + SLACK for a, b in zip(joint, alone, strict=True))


def test_two_releases_lose_exactly_what_one_at_half_the_scale_does():
    p, q = np.array([0.1, 0.1, 0.25, 0.55]), np.array([0.05, 0.45, 0.1, 0.4])
    atoms = np.arange(4.0)
    assert max(joint_losses(p, q, atoms, [3.0, 3.0])) == pytest.approx(0.398280617069, abs=1e-11)
    assert max(joint_losses(p, q, atoms, [1.5])) == pytest.approx(0.398280617069, abs=1e-11)
    rule = Precisions.of_scales(1, {"x": 1.5})
    assert rule.allows({"x": {3.0: 2}})
    assert not rule.allows({"x": {math.nextafter(3.0, 0.0): 2}})


def test_a_little_more_than_the_budget_loses_more_than_the_certificate_says():
    p, q, atoms = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0])
    rule = Precisions.of_scales(1, {"x": 1.0})
    for scales in ([1.99, 1.99], [1.5, 2.99], [3.9] * 4):
        assert max(joint_losses(p, q, atoms, scales)) > 1.0 + SLACK
        assert not rule.allows({"x": {scale: scales.count(scale) for scale in scales}})


def test_equal_shares_of_epsilon_are_not_sound_and_precisions_are():
    # a user who reports 1 to 5 or is absent: 001, Table 3, and Eq. (13) at epsilon = 0.5 each
    p = np.array([0.0, 0.4, 0.1, 0.0, 0.1, 0.4])
    q, atoms = np.eye(6)[0], np.arange(6.0)
    share, whole = 6.51543678649, 6.93953922536 / 2.0
    assert (p * np.exp(atoms / share)).sum() == pytest.approx(math.exp(0.5), abs=1e-9)
    assert (p * np.exp(atoms / whole)).sum() == pytest.approx(math.exp(1.0), abs=1e-9)
    assert max(joint_losses(p, q, atoms, [share] * 2)) == pytest.approx(1.073658, abs=1e-6)
    assert max(joint_losses(p, q, atoms, [2.0 * whole] * 2)) <= 1.0 + SLACK
    rule = Precisions.of_scales(1, {"x": whole})
    assert rule.allows({"x": {2.0 * whole: 2}})
    assert not rule.allows({"x": {share: 2}})


@given(prior_pairs(4), st.sampled_from([0.7, 2.0]))
@settings(max_examples=30)
def test_scales_that_follow_from_earlier_outputs_are_covered(pair, theta):
    p, q, atoms = pair
    first = 2.5 * theta
    outputs = np.unique(np.r_[atoms, np.linspace(atoms[0] - 3.0, atoms[-1] + 3.0, 41)])
    alone = joint_losses(p, q, atoms, [theta])
    for y in outputs:  # the further out the first answer is, the more is spent on the second
        left = 1.0 / theta - 1.0 / first
        second = 1.0 / (left * min(1.0, 0.1 + abs(y)))
        weights = np.exp(-np.abs(atoms - y) / first)[:, None]
        weights = weights * np.exp(-np.abs(atoms[:, None] - outputs) / second)
        ratios = np.log(p @ weights) - np.log(q @ weights)
        assert ratios.max() <= alone[0] + SLACK
        assert -ratios.min() <= alone[1] + SLACK


@given(st.lists(st.integers(0, 5), min_size=12, max_size=12))
def test_columns_that_are_released_apart_are_covered_axis_by_axis(counts):
    p, q = (np.array(part, dtype=float).reshape(2, 3) + 1e-3 for part in (counts[:6], counts[6:]))
    p, q = p / p.sum(), q / q.sum()
    a, b = np.arange(2.0), np.array([0.0, 1.0, 4.0])

    def losses(scales_a, scales_b):
        ka = [np.exp(-np.abs(a[:, None] - a) / s) for s in scales_a]
        kb = [np.exp(-np.abs(b[:, None] - b) / s) for s in scales_b]
        names_a, names_b = "cde"[: len(ka)], "fgh"[: len(kb)]
        parts = [*(f"a{n}" for n in names_a), *(f"b{n}" for n in names_b)]
        formula = f"ab,{','.join(parts)}->{names_a}{names_b}"
        logs = np.log(np.einsum(formula, p, *ka, *kb)) - np.log(np.einsum(formula, q, *ka, *kb))
        return logs.max(), -logs.min()

    rule = Precisions.of_scales(1, {"a": 1.0, "b": 2.0})
    history = {"a": {4.0: 2, 2.0: 1}, "b": {3.0: 1, 6.0: 1}}
    assert rule.allows(history)
    joint, alone = losses([4.0, 4.0, 2.0], [3.0, 6.0]), losses([1.0], [2.0])
    assert all(x <= y + SLACK for x, y in zip(joint, alone, strict=True))


def test_independent_datasets_lose_the_largest_of_their_losses_and_others_more():
    # 004, Prop. E.1: a secret of one dataset, which the other knows nothing of, or is a copy of
    p, q, r = np.array([0.8, 0.2]), np.array([0.3, 0.7]), np.array([0.5, 0.5])
    kernel = np.exp(-np.abs(np.subtract.outer([0.0, 1.0], [0.0, 1.0])) / 1.5)

    def loss(first, second):
        logs = [np.log(kernel.T @ law @ kernel) for law in (first, second)]
        return np.abs(logs[0] - logs[1]).max()

    alone = np.abs(np.log(p @ kernel) - np.log(q @ kernel)).max()
    assert loss(np.outer(p, r), np.outer(q, r)) == pytest.approx(alone, abs=1e-12)
    assert loss(np.diag(p), np.diag(q)) > alone + 0.1


def renyi_of(p, q, alpha, *steps):
    """Renyi divergence of two densities on a grid, by the trapezoidal rule."""
    power = np.exp(alpha * np.log(p) + (1.0 - alpha) * np.log(q))
    return math.log(power.sum() * math.prod(steps)) / (alpha - 1.0)


@given(prior_pairs(3), st.sampled_from([(1.0, 1.0), (1.0, 2.5), (3.0, 1.5)]))
@settings(max_examples=25)
def test_gaussian_releases_lose_exactly_what_one_of_their_total_precision_does(pair, sigmas):
    p, q, atoms = pair
    single = 1.0 / math.sqrt(sum(sigma**-2 for sigma in sigmas))

    def densities(sigma):
        y = np.linspace(atoms[0] - 12.0 * sigma, atoms[-1] + 12.0 * sigma, 401)
        kernel = np.exp(-0.5 * ((atoms[:, None] - y) / sigma) ** 2) / sigma / math.sqrt(2 * math.pi)
        return kernel, y[1] - y[0]

    (first, da), (second, db) = map(densities, sigmas)
    alone, step = densities(single)
    two = [np.einsum("x,xa,xb->ab", law, first, second) + 1e-300 for law in (p, q)]
    one = [law @ alone + 1e-300 for law in (p, q)]
    for alpha in (1.5, 2.0):
        assert renyi_of(*two, alpha, da, db) == pytest.approx(renyi_of(*one, alpha, step), abs=1e-6)
    stick = [np.maximum(x - math.exp(0.3) * y, 0.0).sum() for x, y in (two, one)]
    assert stick[0] * da * db == pytest.approx(stick[1] * step, abs=1e-3)
    rule = Precisions.of_scales(2, {"x": single * (1.0 - 1e-15)})
    spent = {"x": {sigmas[0]: 2}} if sigmas[0] == sigmas[1] else {"x": dict.fromkeys(sigmas, 1)}
    assert rule.allows(spent)
    assert not Precisions.of_scales(2, {"x": single * (1.0 + 1e-15)}).allows(spent)


positive = st.floats(1e-12, 1e12)


@given(positive, st.integers(1, 10**6), st.sampled_from([1, 2]))
def test_as_many_releases_as_were_planned_are_allowed_and_no_more(theta, k, power):
    scale = scale_for_releases(theta, k, power)
    rule = Precisions.of_scales(power, {"x": theta})
    assert rule.allows({"x": {scale: k}})
    assert not rule.allows({"x": {scale: k + 1}})
    assert not rule.allows({"x": {math.nextafter(scale, 0.0): k}})
    assert times_left(rule.meter({}), {"x": {scale: 1}}) == k


@given(
    st.lists(
        st.tuples(st.one_of(positive, st.sampled_from([1.0, 2.0, 3.0, 6.0])), st.integers(1, 9))
    ),
    st.one_of(positive, st.just(1.0)),
    st.sampled_from([1, 2]),
)
def test_a_history_is_allowed_exactly_where_the_exact_sum_is_within_the_budget(
    spends, theta, power
):
    counts = {}
    for scale, count in spends:
        counts[scale] = counts.get(scale, 0) + count
    total = sum((n / Fraction(s) ** power for s, n in counts.items()), Fraction(0))
    rule = Precisions.of_scales(power, {"x": theta})
    assert rule.allows({"x": counts}) == (total <= 1 / Fraction(theta) ** power)
    left = Fraction(rule.left({"x": counts})["x"])
    exact = 1 / Fraction(theta) ** power - total
    assert 0 <= left <= max(exact, 0)
    assert (
        left
        >= exact * (1 - Fraction(1, 2**50))
        - Fraction(len(counts), 2**120) / Fraction(theta) ** power
    )


@pytest.mark.parametrize("scales", [[3.0, 6.0, 6.0, 3.0], [7.0] * 7, [2.0, 4.0, 8.0, 8.0]])
def test_ties_are_allowed_however_the_spends_were_split(scales):
    rule = Precisions.of_scales(1, {"x": 1.0})
    for cut in range(len(scales)):
        before, after = scales[:cut], scales[cut:]
        meter = rule.meter({"x": {s: before.count(s) for s in before}})
        assert meter.allows({"x": {s: after.count(s) for s in after}})
        assert not meter.allows({"x": {s: after.count(s) for s in after} | {1e300: 1}})


def test_a_million_additions_do_not_drift():
    scale = scale_for_releases(0.1, 10**6)
    rule = Precisions.of_scales(1, {"x": 0.1})
    assert rule.allows({"x": {scale: 10**6}})
    assert not rule.meter({"x": {scale: 10**6}}).allows({"x": {1e14: 1}})
    assert rule.left({"x": {scale: 10**6}})["x"] < 1e-14


def test_an_axis_without_noise_costs_nothing_and_others_still_count():
    rule = Precisions.of_scales(1, {"x": 0.0, 1: 2.0})
    assert rule.allows({"x": {0.0: 10**9, 1e-300: 5}, 1: {2.0: 1}})
    assert not rule.allows({"x": {0.0: 1}, 1: {2.0: 2}})
    assert rule.left({"x": {0.0: 3}}) == {"x": math.inf, 1: 0.5}
    with pytest.raises(ValueError, match="scale of 1 must be positive"):
        rule.allows({1: {0.0: 1}})


def test_nothing_spent_is_allowed_and_leaves_the_whole_budget():
    rule = Precisions.of_scales(2, {"x": 0.5})
    assert rule.allows({})
    assert rule.left({}) == {"x": 4.0}


@pytest.mark.parametrize("theta", [5e-324, 1e-300, 1e300])
def test_scales_at_the_ends_of_the_floats_are_counted_exactly(theta):
    for power in (1, 2):
        rule = Precisions.of_scales(power, {"x": theta})
        assert rule.allows({"x": {theta: 1}})
        assert not rule.allows({"x": {theta: 1, 1.7e308: 1}})
        assert rule_from_dict(rule.to_dict()) == rule


def test_no_axis_is_drawn_more_often_than_its_draws():
    rule = Precisions.of_scales(1, {"x": 1.0, "y": 0.0}, draws=3)
    meter = rule.meter({"x": {1e9: 2}, "y": {0.0: 1}})
    assert meter.allows({"x": {1e9: 1}, "y": {0.0: 2}})
    assert not meter.allows({"x": {1e9: 2}})
    assert not meter.allows({"y": {0.0: 3}})


def exact_divergence(noise, distance, alpha):
    """Pure or Renyi divergence of a shift, in 50 digits."""
    with mpmath.workdps(50):
        s = mpmath.mpf(noise.scale)
        u = mpmath.mpf(distance) / s
        if isinstance(noise, Laplace):
            if alpha is None:
                return u
            a = mpmath.mpf(alpha)
            total = a * mpmath.exp((a - 1) * u) + (a - 1) * mpmath.exp(-a * u)
            return mpmath.log(total / (2 * a - 1)) / (a - 1)
        if isinstance(noise, Gaussian):
            return mpmath.mpf(alpha) * u * u / 2
        k = mpmath.mpf(noise.k) if isinstance(noise, GeneralizedCauchy) else mpmath.mpf(2)
        if alpha is None:
            return k * mpmath.asinh(u / 2)
        a = mpmath.mpf(alpha)
        return mpmath.log(mpmath.legenp(a - 1, 0, 1 + u * u / 2, type=3)) / (a - 1)


CASES = [
    (Cauchy(), None),
    (GeneralizedCauchy(1.0, 3.5), None),
    (Laplace(), None),
    (Cauchy(), 2.0),
    (Cauchy(), 3.7),
    (Laplace(), 1.5),
    (Gaussian(), 8.0),
]


@pytest.mark.parametrize(("noise", "alpha"), CASES)
@pytest.mark.parametrize(
    "scales", [{2.0: 1}, {2.0: 3}, {0.5: 1, 7.0: 2, 1e4: 1}, {1e-6: 1, 1e6: 5}]
)
def test_averages_are_the_formula_in_fifty_digits_rounded_up(noise, alpha, scales):
    plans = [([0.0, 1.0, 2.5], [7, 2, 1]), ([0.5], [0.3]), ([0.0], [1]), ([3.0, 0.1], [0, 2])]
    amounts = []
    for distances, masses in plans:
        losses = [
            sum(n * exact_divergence(noise.with_scale(s), d, alpha) for s, n in scales.items())
            for d in distances
        ]
        with mpmath.workdps(50):
            if alpha is None:
                amounts.append(max(x for x, w in zip(losses, masses, strict=True) if w))
            else:
                powers = [mpmath.exp((alpha - 1) * x) for x in losses]
                mean = mpmath.fdot(map(mpmath.mpf, masses), powers) / mpmath.fsum(masses)
                amounts.append(mpmath.log(mean) / (alpha - 1))
    exact = max(amounts)
    epsilon = 2.0 * float(exact)
    notion = Pufferfish(epsilon) if alpha is None else RenyiPufferfish(epsilon, alpha)
    amount = epsilon - Averages(noise, notion, "x", plans).left({"x": scales})["x"]
    assert amount >= exact
    assert amount <= float(exact) * (1.0 + 1e-9)


@given(prior_pairs(3), st.sampled_from([(1.0, 1.0), (0.6, 2.0)]), st.sampled_from([None, 1.5, 2.0]))
@settings(max_examples=30)
def test_averages_are_never_below_the_joint_loss_of_two_cauchy_releases(pair, scales, alpha):
    p, q, atoms = pair
    # quantiles of a Cauchy law of scale 1 around the atoms: the change of variables y = tan(t)
    t = (np.arange(600) + 0.5) / 600 * math.pi - math.pi / 2
    y, weight = np.tan(t), (math.pi / 600) / np.cos(t) ** 2
    kernels = [s / math.pi / (s * s + (atoms[:, None] - y) ** 2) for s in scales]
    joint = [np.einsum("x,xa,xb->ab", law, *kernels) for law in (p, q)]
    if alpha is None:
        lower = np.abs(np.log(joint[0]) - np.log(joint[1])).max()
        notion = Pufferfish(100.0)
    else:
        measure = np.outer(weight, weight)
        lower = max(
            math.log((a**alpha * b ** (1.0 - alpha) * measure).sum()) / (alpha - 1.0)
            for a, b in (joint, joint[::-1])
        )
        notion = RenyiPufferfish(100.0, alpha)
    spent = {"x": dict.fromkeys(scales, 1)} if scales[0] != scales[1] else {"x": {scales[0]: 2}}
    for distances, masses in (monotone_plan(p, q, atoms), independent_plan(p, q, atoms)):
        rule = Averages(Cauchy(), notion, "x", [(distances, masses)])
        assert 100.0 - rule.left(spent)["x"] >= lower - 1e-6


def monotone_plan(p, q, atoms):
    cuts = np.unique(np.r_[0.0, np.cumsum(p), np.cumsum(q)].clip(0.0, 1.0))
    middles = (cuts[1:] + cuts[:-1]) / 2.0
    places = [np.searchsorted(np.cumsum(law)[:-1], middles, side="right") for law in (p, q)]
    return np.abs(atoms[places[0]] - atoms[places[1]]), np.diff(cuts)


def independent_plan(p, q, atoms):
    return np.abs(atoms[:, None] - atoms).ravel(), np.outer(p, q).ravel()


@pytest.mark.parametrize("noise", [Cauchy(), Laplace()])
def test_averages_are_exact_for_two_values(noise):
    # point masses at 0 and 1: the joint law of releases is a product, and losses add up
    scales, y = (0.7, 2.0), np.linspace(-60.0, 60.0, 24001)
    sups = []
    for scale in scales:
        law = noise.with_scale(scale)
        ratios = law.log_density(y[:, None]) - law.log_density(y[:, None] - 1.0)
        sups.append(ratios.max())
    rule = Averages(noise, Pufferfish(10.0), "x", [([1.0], [1])])
    assert 10.0 - rule.left({"x": {0.7: 1, 2.0: 1}})["x"] == pytest.approx(sum(sups), rel=1e-5)


@pytest.mark.parametrize(("noise", "alpha"), CASES)
def test_what_is_allowed_is_what_is_left(noise, alpha):
    notion = Pufferfish(1.0) if alpha is None else RenyiPufferfish(1.0, alpha)
    rule = Averages(noise, notion, "x", [([0.0, 1.0, 2.0], [3, 2, 1])])
    once = {"x": {20.0: 1}}
    k = times_left(rule.meter({}), once)
    assert 1 <= k < 1000
    assert rule.allows({"x": {20.0: k}})
    assert not rule.allows({"x": {20.0: k + 1}})
    assert rule.left({"x": {20.0: k}})["x"] >= 0.0
    assert rule.left({"x": {20.0: 10**6}})["x"] == 0.0
    meter = rule.meter({"x": {20.0: k - 1}}) if k > 1 else rule.meter({})
    assert meter.allows(once)
    assert not meter.allows({"x": {20.0: 2}})


def test_averages_take_any_scale_and_any_distance_without_warnings():
    plans = [([0.0, 1e-300, 1e300], [1, 10**30, 10**30])]
    for notion, (noise, _) in product([Pufferfish(700.0), RenyiPufferfish(700.0, 40.0)], CASES):
        rule = Averages(noise, notion, "x", plans)
        for scale in (1e-300, 1.0, 1e300):
            assert not rule.allows({"x": {scale: 10**9}})


def test_a_coupling_without_moves_needs_no_noise():
    rule = Averages(Cauchy(), Pufferfish(1.0), "x", [([0.0], [1])])
    assert times_left(rule.meter({}), {"x": {0.0: 1}}) == math.inf
    with pytest.raises(ValueError, match="scale of 'x' must be positive"):
        Averages(Cauchy(), Pufferfish(1.0), "x", [([0.0, 1.0], [1, 1])]).allows({"x": {0.0: 1}})


def test_gaussian_noise_has_no_pure_loss_to_spend():
    rule = Averages(Gaussian(), Pufferfish(700.0), "x", [([1e-9], [1])])
    assert not rule.allows({"x": {1e12: 1}})


def test_renyi_averages_say_under_which_condition_they_hold():
    plans = [([1.0], [1])]
    assert "fixed" in Averages(Cauchy(), RenyiPufferfish(1.0, 2.0), "x", plans).condition
    assert Averages(Cauchy(), Pufferfish(1.0), "x", plans).condition == ""
    assert Precisions.of_scales(1, {"x": 1.0}).condition == ""


def test_scales_that_follow_from_answers_may_lose_more_under_renyi():
    # Rows near 0 move by 1, rows at a far place by 100. A first answer at a scale between the two
    # costs next to nothing and tells which: then each gets the history that is worst for it.
    rule = Averages(Cauchy(), RenyiPufferfish(10.0, 1.1), "x", [([1.0, 100.0], [1, 1])])

    def smallest_scale(count):
        low, high = 1e-6, 1e6
        for _ in range(100):
            middle = math.sqrt(low * high)
            allowed = rule.allows({"x": {middle: count}})
            low, high = (low, middle) if allowed else (middle, high)
        return high

    powers = [
        mpmath.exp(0.1 * count * exact_divergence(Cauchy(smallest_scale(count)), distance, 1.1))
        for count, distance in ((1, 1.0), (1000, 100.0))
    ]
    assert float(mpmath.log(sum(powers) / 2) / 0.1) > 10.5


def test_averages_draw_no_more_often_than_their_draws():
    rule = Averages(Cauchy(), Pufferfish(1.0), "x", [([1.0], [1])], draws=2)
    assert rule.allows({"x": {1e6: 2}})
    assert not rule.allows({"x": {1e6: 3}})


def test_a_refused_rule_lets_each_column_go_once():
    rule = Refused("They do not add up.", {"x": 2.0, "y": 3.0, "z": 0.0})
    meter = rule.meter({"x": {2.0: 1}})
    assert not meter.allows({"x": {1e9: 1}})
    assert meter.allows({"y": {4.0: 1}, "z": {0.0: 7}})
    assert not meter.allows({"y": {2.9: 1}})
    assert not rule.allows({"y": {3.0: 2}})
    assert not rule.allows({"y": {3.0: 1, 4.0: 1}})
    assert meter.left() == {"x": 0.0, "y": 1.0, "z": math.inf}


def test_a_refused_rule_without_scales_lets_nothing_go():
    assert not Refused("They do not add up.").allows({"x": {2.0: 1}})
    assert Refused("They do not add up.").allows({})


# ---------------------------------------------------------------- answers that earlier ones decide

JUDGED = [
    Precisions.of_scales(1, {"x": 2.0, "y": 7.0}),
    Precisions.of_scales(2, {"x": 2.0, "y": 0.0}),
    Precisions.of_scales(1, {"x": 1e-300, "y": 1e300}, draws=40),
    Refused("They do not add up.", {"x": 2.0, "y": 0.0}),
]


@st.composite
def questions(draw):
    """Draw scales around those at which some number of releases is just within the budget."""
    count = draw(st.one_of(st.integers(1, 70), st.sampled_from([10**6, 10**6 + 1, 2**70 - 1])))
    theta, power = draw(st.sampled_from([2.0, 7.0, 1e-300, 1e300, 3.0])), draw(st.integers(1, 2))
    nearby = st.sampled_from([0.1, 0.5, 1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52, 1.01, 2.0, 40.0])
    scale = theta * float(draw(st.integers(1, 70))) ** (1.0 / power) * draw(nearby)
    axes = draw(st.sampled_from(["x", "y", "xy"]))
    scales = {axis: scale * draw(nearby) if axis == axes[-1] else scale for axis in axes}
    return scales, count


@pytest.mark.parametrize("rule", JUDGED)
@given(
    spent=st.lists(st.sampled_from([2.5, 7.0, 1e3, 1e300]), max_size=2, unique=True),
    asked=st.lists(questions(), min_size=1, max_size=25),
)
@settings(max_examples=60)
def test_answers_that_earlier_ones_decide_are_those_of_the_rule(rule, spent, asked):
    history = {"x": dict.fromkeys(spent, 1)} if spent else {}
    judge, meter = Judge(rule.meter(history)), rule.meter(history)
    for scales, count in asked:
        expected = meter.allows({axis: {scale: count} for axis, scale in scales.items()})
        assert judge.known(scales, count) in (None, expected)
        assert judge.allows(scales, count) is expected


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("order", ["up", "down", "mixed"])
def test_answers_that_earlier_ones_decide_are_exact_between_round_numbers_and_at_ties(power, order):
    rule = Precisions.of_scales(power, {"x": 3.0})
    judge, meter = Judge(rule.meter({})), rule.meter({})
    ties = [scale_for_releases(3.0, k, power) for k in range(25, 80)]
    scales = [near for tie in ties for near in (math.nextafter(tie, 0.0), tie)]
    asked = list(product(range(25, 80), scales))
    if order == "mixed":
        asked = [asked[k] for k in np.random.default_rng(5).permutation(len(asked))]
    known = 0
    for count, scale in asked if order != "down" else asked[::-1]:
        expected, answer = meter.allows({"x": {scale: count}}), judge.known({"x": scale}, count)
        assert answer in (None, expected)
        assert judge.allows({"x": scale}, count) is expected
        known += answer is not None
    assert known > 0.8 * len(asked)


@pytest.mark.parametrize("alpha", [None, 1.5])
def test_averages_that_earlier_answers_allow_are_within_the_budget(alpha):
    notion = Pufferfish(1.0) if alpha is None else RenyiPufferfish(1.0, alpha)
    rule = Averages(Cauchy(), notion, "x", [([0.0, 1.0, 2.0], [3, 2, 1])])
    judge, meter = Judge(rule.meter({"x": {9.0: 2}})), rule.meter({"x": {9.0: 2}})
    chance, known = np.random.default_rng(7), 0
    for _ in range(400):
        asked = {"x": math.exp(chance.normal(3.0, 2.0))}, int(chance.integers(1, 60))
        known += judge.known(*asked) is not None
        # what is allowed at a scale is asked for again a little above it, where ulps do not count
        if judge.allows(*asked):
            assert meter.allows({"x": {asked[0]["x"] * (1.0 + 1e-12): asked[1]}})
        else:
            assert not meter.allows({"x": {asked[0]["x"] * (1.0 - 1e-12): asked[1]}})
    assert known > 200


class Counting:
    """A meter that allows scales from a threshold on, and counts how often it is asked."""

    def __init__(self, threshold):
        self.threshold, self.calls = threshold, 0

    def allows(self, extra):
        self.calls += 1
        [[[scale, count]]] = [scales.items() for scales in extra.values()]
        return scale >= self.threshold * count

    def left(self):
        return {}


@pytest.mark.parametrize("threshold", [1e-300, 0.7, 3.0, 1e290])
def test_a_meter_is_asked_a_few_times_however_many_scales_are_asked_about(threshold):
    judge = Judge(meter := Counting(threshold))
    for k in range(5000, 0, -1):  # each of these is nearer to the threshold than all before
        for scale in (threshold * (1.0 + k * 2.0**-40), threshold * (1.0 - k * 2.0**-40)):
            assert judge.allows({"x": scale}, 1) is (scale >= threshold)
    assert meter.calls < 300


def test_a_meter_is_asked_a_few_times_however_many_numbers_of_releases_are_asked_about():
    judge = Judge(meter := Counting(1.0))
    for count in range(1, 20_000):
        assert judge.allows({"x": 3000.0}, count) is (count <= 3000)
    assert meter.calls < 1000
    assert judge.known({"x": 3000.0}, 10**9 + 7) is None
    assert judge.known({"x": 2000.0}, 16_001) is False
    assert judge.known({"x": 4000.0}, 2_001) is True


ODD = [
    ({"x": -1.0}, 1),
    ({"x": 0.0}, 1),
    ({"x": math.nan}, 1),
    ({"x": math.inf}, 1),
    ({"x": "wide"}, 1),
    ({"x": 10**400}, 1),
    ({"x": 9.0}, 1.0),
    ({"x": 9.0}, True),
    ({"x": 9.0}, 0),
    ({"x": 9.0}, -1),
    ({"x": 9.0}, "1"),
    ({"x": 9.0}, [1]),
    ({"w": 9.0}, 1),
    ({}, 1),
    ({"x": 0.1, "y": math.nan}, 1),
    ({"x": 0.1, "w": 9.0}, 1),
    ([("x", 9.0)], 1),
    (None, 1),
]


@pytest.mark.parametrize(("scales", "count"), ODD)
def test_no_earlier_answer_is_about_what_is_not_a_question(scales, count):
    judge = Judge(Precisions.of_scales(1, {"x": 2.0, "y": 2.0}).meter({}))
    assert [judge.allows({"x": s, "y": s}, 1) for s in (1.0, 2.0)] == [False, True]
    assert judge.known({"x": 1.0, "y": 2.0}, 1) is False
    assert judge.known(scales, count) is None


def test_a_column_that_needs_no_noise_is_known_at_the_scales_it_was_allowed_at():
    judge = Judge(Precisions.of_scales(1, {"x": 0.0}).meter({}))
    assert judge.allows({"x": 5.0}, 1)
    assert judge.known({"x": 0.0}, 1) is None
    assert judge.allows({"x": 0.0}, 1)
    assert judge.known({"x": 0.0}, 1) is judge.known({"x": 1e-300}, 1) is True
    with pytest.raises(ValueError, match="scale of 'x' must be positive"):
        judge.allows({"x": -1.0}, 1)


def test_a_pure_average_is_written_with_its_largest_move_only():
    far = np.arange(10_000.0)
    rule = Averages(Cauchy(), Pufferfish(1.0), "x", [(far, [1] * 10_000), ([3.0], [1])])
    record = rule.to_dict()
    assert record["plans"] == [[[9999.0], [1]]]
    written_before = record | {"plans": [[far.tolist(), [1] * 10_000], [[3.0], [1]]]}
    assert rule_from_dict(record) == rule == rule_from_dict(written_before)
    assert rule != Averages(Cauchy(), Pufferfish(1.0), "x", [([9998.0], [1])])
    for scale in (1e4, 5e4):
        assert rule_from_dict(record).left({"x": {scale: 1}}) == rule.left({"x": {scale: 1}})


RULES = [
    Precisions(1, {"x": 0.1, 3: math.inf, "z": Fraction(1, 3)}),
    Precisions.of_scales(2, {"x": 1e-300, "y": 1e300}, draws=7),
    Averages(Cauchy(), Pufferfish(0.1), "x", [([0.1, 2.0], [10**30, 1])], draws=4),
    Averages(GeneralizedCauchy(1.0, 3.3), RenyiPufferfish(1.0, 1.1), 2, [([0.1], [0.3])]),
    Averages(Laplace(), RenyiPufferfish(1.0, 3.0), "x", [([1.0], [1]), ([2.0, 3.0], [1, 2])]),
    Refused("They do not add up.", {"x": 0.1, 1: 0.0}),
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_survives_json(rule):
    text = json.dumps(rule.to_dict(), allow_nan=False)
    again = rule_from_dict(json.loads(text))
    assert again == rule
    axis = rule.axes[0]
    for count in (1, 2, 5, 100):
        spent = {axis: {1.7: count}}
        assert again.allows(spent) == rule.allows(spent)
        assert again.left(spent) == rule.left(spent)


def read_budget(budget):
    return rule_from_dict({"rule": "precisions", "power": 1, "budgets": [["x", budget]]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Precisions(3, {"x": 1.0}), "power must be 1"),
        (lambda: Precisions(1, {"x": 0.0}), "budget of 'x' must be positive"),
        (lambda: Precisions(1, {"x": math.nan}), "budget of 'x' must be positive"),
        (lambda: Precisions(1, {"x": Fraction(-1)}), "budget of 'x' must be positive"),
        (lambda: Precisions.of_scales(1, {"x": -1.0}), "scale of 'x' must be positive"),
        (lambda: Precisions(1, {"x": 1.0}, draws=0), "draws must be at least 1"),
        (lambda: Averages(Cauchy(), Pufferfish(1.0, 0.1), "x", [([1.0], [1])]), "without delta"),
        (lambda: Averages(Cauchy(), RenyiPufferfish(1.0, 2.0, 0.1), "x", []), "without delta"),
        (lambda: Averages(Cauchy(), Pufferfish(1.0), "x", []), "must not be empty"),
        (lambda: Averages(Cauchy(), Pufferfish(1.0), "x", [([1.0], [1, 2])]), "one length"),
        (lambda: Averages(Cauchy(), Pufferfish(1.0), "x", [([-1.0], [1])]), "not negative"),
        (lambda: Averages(Cauchy(), Pufferfish(1.0), "x", [([1.0], [0])]), "not all zero"),
        (lambda: Averages(Cauchy(), Pufferfish(1.0), "x", [([1.0], [math.nan])]), "finite masses"),
        (lambda: scale_for_releases(-1.0, 2), "theta must be positive"),
        (lambda: scale_for_releases(1e308, 10), "releases times theta must be positive and finite"),
        (lambda: rule_from_dict({"rule": "naive"}), "rule must be one of"),
        (lambda: rule_from_dict([1]), "rule must be one of"),
        (lambda: rule_from_dict({"rule": "precisions"}), "record must be that of a rule"),
        (lambda: read_budget("1e999999999"), "record must be that of a rule .*no fraction"),
        (lambda: read_budget("1/0"), "record must be that of a rule .*no fraction"),
        (lambda: read_budget([1]), "record must be that of a rule"),
        (lambda: RULES[0].allows({"w": {1.0: 1}}), "axis 'w' is not one of"),
        (lambda: RULES[0].allows({"x": {-1.0: 1}}), "scale of 'x' must be positive"),
        (lambda: RULES[0].allows({"x": {math.nan: 1}}), "scale of 'x' must be positive"),
        (lambda: RULES[0].allows({"x": {math.inf: 1}}), "scale of 'x' must be positive"),
        (lambda: RULES[2].allows({"x": {1.0: 0}}), "number of releases of 'x' must be at least 1"),
    ],
)
def test_what_is_not_a_rule_or_a_history_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_unknown_family_is_refused():
    with pytest.raises(TypeError, match="noise must be one of"):
        Averages(object(), Pufferfish(1.0), "x", [([1.0], [1])])
    with pytest.raises(TypeError, match="must be an integer"):
        RULES[0].allows({"x": {1.0: 1.5}})
