"""Rules of how releases add up, against the exact joint losses of up to four releases."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer._certificates import Precisions, Refused, scale_for_releases
from sklearn_puffer._certificates.composition import rule_from_dict
from sklearn_puffer.noise import Cauchy

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


thetas = st.sampled_from([0.5, 1.0, 3.0])
shares = st.lists(st.sampled_from([1, 2, 7, 40]), min_size=1, max_size=4)


def history_of(theta, shares, part):
    """Return scales whose precisions are this part of 1/theta, shared out, and the history."""
    scales = [theta * sum(shares) / (share * part) for share in shares]
    return scales, {"x": {scale: scales.count(scale) for scale in scales}}


@given(prior_pairs(4), thetas, shares, st.sampled_from([0.3, 0.9, 1.0 - 1e-12]))
def test_a_history_that_is_allowed_loses_no_more_than_the_certified_release(
    pair, theta, shares, part
):
    p, q, atoms = pair
    scales, spent = history_of(theta, shares, part)
    assert Precisions.of_scales(1, {"x": theta}).allows(spent)
    joint = joint_losses(p, q, atoms, scales)
    alone = joint_losses(p, q, atoms, [theta])
    assert all(a <= b + SLACK for a, b in zip(joint, alone, strict=True))


@given(thetas, shares, st.sampled_from([1.0 + 1e-12, 1.001, 3.0]))
def test_a_history_just_beyond_the_budget_is_refused_and_loses_more(theta, shares, part):
    scales, spent = history_of(theta, shares, part)
    assert not Precisions.of_scales(1, {"x": theta}).allows(spent)
    p, q = np.eye(2)  # known values, whose losses are the distance times the precisions
    joint, alone = (joint_losses(p, q, np.array([0.0, 1.0]), each) for each in (scales, [theta]))
    assert joint[0] == pytest.approx(part * alone[0], rel=1e-9)


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
        logs = [np.log(kernel.T @ distribution @ kernel) for distribution in (first, second)]
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
    two = [
        np.einsum("x,xa,xb->ab", distribution, first, second) + 1e-300 for distribution in (p, q)
    ]
    one = [distribution @ alone + 1e-300 for distribution in (p, q)]
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
    assert rule.times({"x": {scale: 1}}) == k


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


@pytest.mark.parametrize("scales", [[3.0, 6.0, 6.0, 3.0], [7.0] * 7, [2.0, 4.0, 8.0, 8.0]])
def test_ties_are_allowed_however_the_spends_were_split(scales):
    rule = Precisions.of_scales(1, {"x": 1.0})
    for cut in range(len(scales)):
        before, after = scales[:cut], scales[cut:]
        had = {"x": {s: before.count(s) for s in before}}
        assert rule.allows({"x": {s: after.count(s) for s in after}}, had)
        assert not rule.allows({"x": {s: after.count(s) for s in after} | {1e300: 1}}, had)


def test_a_million_additions_do_not_drift():
    scale = scale_for_releases(0.1, 10**6)
    rule = Precisions.of_scales(1, {"x": 0.1})
    assert rule.allows({"x": {scale: 10**6}})
    assert not rule.allows({"x": {1e14: 1}}, {"x": {scale: 10**6}})


def test_an_axis_without_noise_costs_nothing_and_others_still_count():
    rule = Precisions.of_scales(1, {"x": 0.0, 1: 2.0})
    assert rule.allows({"x": {0.0: 10**9, 1e-300: 5}, 1: {2.0: 1}})
    assert not rule.allows({"x": {0.0: 1}, 1: {2.0: 2}})
    with pytest.raises(ValueError, match="scale of 1 must be positive"):
        rule.allows({1: {0.0: 1}})


def test_nothing_spent_is_allowed():
    rule = Precisions.of_scales(2, {"x": 0.5})
    assert rule.allows({})


@pytest.mark.parametrize("theta", [5e-324, 1e-300, 1e300])
def test_scales_at_the_ends_of_the_floats_are_counted_exactly(theta):
    for power in (1, 2):
        rule = Precisions.of_scales(power, {"x": theta})
        assert rule.allows({"x": {theta: 1}})
        assert not rule.allows({"x": {theta: 1, 1.7e308: 1}})
        assert rule_from_dict(rule.to_dict()) == rule


def test_no_axis_is_drawn_more_often_than_its_draws():
    rule = Precisions.of_scales(1, {"x": 1.0, "y": 0.0}, draws=3)
    had = {"x": {1e9: 2}, "y": {0.0: 1}}
    assert rule.allows({"x": {1e9: 1}, "y": {0.0: 2}}, had)
    assert not rule.allows({"x": {1e9: 2}}, had)
    assert not rule.allows({"y": {0.0: 3}}, had)


HISTORIES = [{}, {"x": {3.0: 2}}, {"x": {3.0: 2, 7.0: 1}, "y": {0.5: 2}}]
RELEASES = [{"x": {9.0: 1}}, {"x": {9.0: 1, 20.0: 3}, "y": {2.0: 1}}]


def added(history, release, times):
    """Return a history with a release that many times more."""
    whole = {axis: dict(scales) for axis, scales in history.items()}
    for axis, scales in release.items():
        for scale, count in scales.items():
            counts = whole.setdefault(axis, {})
            counts[scale] = counts.get(scale, 0) + count * times
    return whole


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("release", RELEASES)
def test_as_many_times_as_are_left_are_allowed_and_no_more(history, release):
    rule = Precisions.of_scales(2, {"x": 1.0, "y": 0.3}, draws=1000)
    times = rule.times(release, history)
    assert times >= 1
    for count, expected in ((times, True), (times + 1, False)):
        assert rule.allows(added({}, release, count), history) is expected
        assert rule.allows(added(history, release, count)) is expected


def test_a_number_of_times_has_its_ends():
    rule = Precisions.of_scales(2, {"x": 1.0}, draws=1000)
    assert rule.times({"x": {1e9: 2}}) == 500
    assert rule.times({"x": {1e9: 1}}, {"x": {1e9: 1000}}) == 0
    assert rule.times({"x": {1e9: 1}}, {"x": {1e-9: 1}}) == 0
    assert rule.times({}) == math.inf
    endless = Precisions.of_scales(1, {"x": 1.0})
    assert endless.times({"x": {2.0**63: 1}}) == math.inf
    assert endless.times({"x": {2.0**62: 1}}) == 2**62


def test_counts_and_scales_of_numpy_are_those_of_python():
    rule = Precisions.of_scales(1, {"x": 1.0})
    hundred = np.int8(100)
    assert rule.allows({"x": {np.float32(200.0): hundred, np.float64(201.0): hundred}})
    assert not rule.allows({"x": {np.float32(200.0): hundred, np.float64(199.0): hundred}})
    thrice = Precisions.of_scales(1, {"x": 1.0}, draws=300)
    assert thrice.times({"x": {1e9: 1}}, {"x": {600: hundred, 601.0: hundred}}) == 100


def test_precisions_of_cauchy_noise_do_not_add_up():
    # why a second release is refused: two at twice the scale lose more than one, over every move
    for far in (0.1, 1.0, 30.0):
        one, two = (float(Cauchy(scale).max_divergence([far])) for scale in (1.0, 2.0))
        assert 2.0 * two > one * (1.0 + 1e-4)


def test_a_refused_rule_lets_each_column_go_once():
    rule = Refused("They do not add up.", {"x": 2.0, "y": 3.0, "z": 0.0})
    had = {"x": {2.0: 1}}
    assert not rule.allows({"x": {1e9: 1}}, had)
    assert rule.allows({"y": {4.0: 1}, "z": {0.0: 7}}, had)
    assert not rule.allows({"y": {2.9: 1}}, had)
    assert not rule.allows({"y": {3.0: 2}})
    assert not rule.allows({"y": {3.0: 1, 4.0: 1}})
    assert not rule.allows({"x": {9.0: 1}}, {"x": {0.5: 1}})  # on record, be it how it may


def test_a_refused_rule_without_scales_lets_nothing_go():
    assert not Refused("They do not add up.").allows({"x": {2.0: 1}})
    assert Refused("They do not add up.").allows({})


RULES = [
    Precisions(1, {"x": 0.1, 3: math.inf, "z": Fraction(1, 3)}),
    Precisions.of_scales(2, {"x": 1e-300, "y": 1e300}, draws=7),
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
        (lambda: scale_for_releases(-1.0, 2), "theta must be positive"),
        (lambda: scale_for_releases(1e308, 10), "releases times theta must be positive and finite"),
        (lambda: rule_from_dict({"rule": "naive"}), "rule must be one of"),
        (lambda: rule_from_dict({"rule": "averages", "plans": []}), "rule must be one of"),
        (lambda: rule_from_dict([1]), "rule must be one of"),
        (lambda: rule_from_dict({"rule": "precisions"}), "record must be that of a rule"),
        (lambda: read_budget("1e999999999"), "record must be that of a rule .*no fraction"),
        (lambda: read_budget("1/0"), "record must be that of a rule .*no fraction"),
        (lambda: read_budget([1]), "record must be that of a rule"),
        (lambda: RULES[0].allows({"w": {1.0: 1}}), "axis 'w' is not one of"),
        (lambda: RULES[0].allows({"x": {-1.0: 1}}), "scale of 'x' must be positive"),
        (lambda: RULES[0].allows({"x": {math.nan: 1}}), "scale of 'x' must be positive"),
        (lambda: RULES[0].allows({"x": {math.inf: 1}}), "scale of 'x' must be positive"),
        (lambda: RULES[0].allows({"x": {1.0: 0}}), "number of releases of 'x' must be at least 1"),
    ],
)
def test_what_is_not_a_rule_or_a_history_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_number_of_releases_that_is_none_is_refused():
    with pytest.raises(TypeError, match="must be an integer"):
        RULES[0].allows({"x": {1.0: 1.5}})
