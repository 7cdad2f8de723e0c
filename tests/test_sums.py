"""The exact loss of sums over users, against dense convolutions with 50 digits."""

import functools
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from sklearn_puffer._sums import losses as sum_losses
from sklearn_puffer._sums.convolution import Wide, convolved, sum_of
from sklearn_puffer._sums.losses import SumLosses, least_loss, sum_scale, worst_case_scale
from sklearn_puffer._sums.users import SECRETS, UserPair, user_pairs
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

UNIT = 2.0**-53
BUDGETS = np.arange(1, 11) / 10


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def intervals(losses, theta):
    """Return both ends of the losses of all pairs, each of shape (n_pairs, 2)."""
    return _of_all(losses, losses.interval_of, theta)


def worst_case(losses, theta):
    return _of_all(losses, losses.worst_case_of, theta)


def _of_all(losses, ends, theta):
    return np.stack([ends(k, theta) for k in range(len(losses.pairs))], axis=1)


def worst_scale(_, pairs, epsilon):
    return worst_case_scale(pairs, epsilon)


def masses_of(distribution):
    """Return {exact decimal value: exact mass} of the atoms with mass."""
    return {
        Fraction(repr(atom)): mpf(int(count)) / distribution.total
        for atom, count in zip(
            distribution.atoms.tolist(), distribution.counts.tolist(), strict=True
        )
        if count
    }


def plus(first, second):
    total = {}
    for x, a in first.items():
        for y, b in second.items():
            total[x + y] = total.get(x + y, mpf(0)) + a * b
    return total


def distribution_of_others(users, own):
    total = {Fraction(0): mpf(1)}
    for k, user in enumerate(users):
        for _ in range(user.count - (k == own)):
            total = plus(total, masses_of(user.law))
    return total


def decays(theta):
    """Return the noise at a distance, which many points have from many atoms, each once."""
    return functools.cache(lambda distance: mp.exp(-mpf(distance) / theta))


def density(distribution, y, decay):
    return mp.fdot((mass, decay(abs(x - y))) for x, mass in distribution.items())


def oracle(users, pair, theta):
    """Return the largest log ratios, both ways, over all atoms, points between and far beyond."""
    others = distribution_of_others(users, pair.user)
    p, q = plus(others, masses_of(pair.priors.p)), plus(others, masses_of(pair.priors.q))
    # in whole units, of which the points between the atoms are whole, too
    unit = Fraction(1, 2 * math.lcm(*(x.denominator for x in {*p, *q})))
    p, q = ({int(x / unit): mass for x, mass in distribution.items()} for distribution in (p, q))
    atoms, far = sorted({*p, *q}), math.ceil((3 * theta + 1) / unit)
    points = [*atoms, *[(a + b) // 2 for a, b in pairwise(atoms)], atoms[0] - far, atoms[-1] + far]
    decay = decays(mpf(theta) / unit.numerator * unit.denominator)
    logs = [mp.log(density(p, y, decay) / density(q, y, decay)) for y in points]
    return max(logs), -min(logs)


LAWS = {
    "plain": Discrete([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4]),
    "one atom": Discrete([2], [1.0]),
    "zero masses": Discrete([0, 1, 4], [0.5, 0.0, 0.5]),
    "negative": Discrete([-3, -1, 2], [0.25, 0.25, 0.5]),
    "tiny masses": Discrete.from_counts([0, 1, 5], [1, 10**200, 10**90]),
    "tinier": Discrete.from_counts([-1, 0, 3], [1, 10**400, 10**400]),
    "decimals": Discrete([0.0, 0.1, 0.7], [0.3, 0.3, 0.4]),
    "halves": Discrete([-0.5, 1.0], [0.9, 0.1]),
    "gap": Discrete([0, 1, 40], [0.6, 0.2, 0.2]),
}
SYSTEMS = [
    ("plain", "negative", [("zero masses", 2)]),
    ("plain", "zero masses", []),
    ("one atom", "negative", [("plain", 1), ("halves", 2)]),
    ("tiny masses", "plain", [("plain", 1), ("negative", 1)]),
    ("plain", "tinier", [("tiny masses", 2), ("one atom", 1)]),
    ("negative", "halves", [("tinier", 2), ("tiny masses", 1)]),
    ("decimals", "plain", [("decimals", 2), ("halves", 1)]),
    ("gap", "plain", [("gap", 2), ("plain", 1)]),
    ("plain", "gap", [("tinier", 3)]),
]


def system(names):
    distribution, alternative, others = names
    users = [User(LAWS[distribution], alternative=LAWS[alternative])]
    users += [User(LAWS[name], count=count) for name, count in others]
    return users, user_pairs(users[:1], "distribution") + user_pairs(users, "distribution-absence")


@pytest.mark.parametrize("theta", [0.004, 0.3, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("names", SYSTEMS, ids=str)
def test_the_interval_holds_the_loss_of_a_dense_convolution(names, theta):
    users, pairs = system(names)
    lower, upper = intervals(SumLosses(users, pairs), theta)
    for k, pair in enumerate(pairs):
        for side, true in enumerate(oracle(users, pair, theta)):
            assert mpf(float(lower[k, side])) <= true <= mpf(float(upper[k, side]))


@pytest.mark.parametrize("theta", [0.004, 0.3, 1.0, 7.0, 1e3])
@pytest.mark.parametrize("names", SYSTEMS, ids=str)
def test_the_interval_is_narrow(names, theta):
    lower, upper = intervals(SumLosses(*system(names)), theta)
    span = 200.0 / theta  # what both densities fall by, rounded: more than the range of the sum
    assert np.all(upper - lower <= 1e-12 * (1.0 + upper) + 1e-14 * span)


@pytest.mark.parametrize("theta", [1e-9, 1e-5, 1e12])
def test_extreme_scales_are_held_too(theta):
    users, pairs = system(SYSTEMS[0])
    lower, upper = intervals(SumLosses(users, pairs), theta)
    for k, pair in enumerate(pairs):
        for side, true in enumerate(oracle(users, pair, theta)):
            assert mpf(float(lower[k, side])) <= true <= mpf(float(upper[k, side]))
    assert np.all(upper - lower <= 1e-12 * (1.0 + upper) + 1e-13 / theta)


LAW = st.lists(
    st.tuples(st.integers(-6, 6), st.integers(0, 9)),
    min_size=1,
    max_size=4,
    unique_by=lambda item: item[0],
).filter(lambda items: any(count for _, count in items))


def _distribution(items):
    return Discrete.from_counts([x for x, _ in items], [count for _, count in items])


RANDOM_SYSTEM = st.lists(LAW.map(_distribution), min_size=2, max_size=4)


@pytest.mark.slow
@settings(max_examples=30)
@given(RANDOM_SYSTEM, LAW.map(_distribution), st.floats(-2.5, 3.0))
def test_random_systems_agree_with_the_oracle(distributions, alternative, power):
    theta = 10.0**power
    users = [User(distributions[0], alternative=alternative), *map(User, distributions[1:])]
    pairs = user_pairs(users[:1], "distribution")
    losses = SumLosses(users, pairs)
    (lower, upper), (_, worst) = intervals(losses, theta), worst_case(losses, theta)
    for side, true in enumerate(oracle(users, pairs[0], theta)):
        assert mpf(float(lower[0, side])) <= true <= mpf(float(upper[0, side]))
    assert np.all(upper <= worst)
    assert np.all(upper - lower <= 1e-12 * (1.0 + upper) + 1e-12 / theta)


@pytest.mark.slow
@settings(max_examples=40)
@given(RANDOM_SYSTEM, LAW.map(_distribution), st.floats(-2.0, 3.0), st.floats(1.0, 100.0))
def test_more_noise_never_loses_more(distributions, alternative, power, factor):
    users = [User(distributions[0], alternative=alternative), *map(User, distributions[1:])]
    losses = SumLosses(users, user_pairs(users[:1], "distribution"))
    assert np.all(intervals(losses, 10.0**power * factor)[0] <= intervals(losses, 10.0**power)[1])


@pytest.mark.slow
@settings(max_examples=40)
@given(RANDOM_SYSTEM, LAW.map(_distribution), LAW.map(_distribution), st.floats(-2.0, 3.0))
def test_a_further_user_never_increases_the_loss(distributions, alternative, further, power):
    users = [User(distributions[0], alternative=alternative), *map(User, distributions[1:])]
    pairs = user_pairs(users[:1], "distribution")
    before = intervals(SumLosses(users, pairs), 10.0**power)[1]
    after = intervals(SumLosses([*users, User(further)], pairs), 10.0**power)[0]
    assert np.all(after <= before)


@pytest.mark.slow
@settings(max_examples=25)
@given(RANDOM_SYSTEM, LAW.map(_distribution), st.sampled_from([0.05, 0.5, 1.0, 4.0]))
def test_the_scale_is_the_smallest_that_is_enough(distributions, alternative, epsilon):
    users = [User(distributions[0], alternative=alternative), *map(User, distributions[1:])]
    pairs = user_pairs(users[:1], "distribution")
    found = sum_scale(users, pairs, epsilon)
    assert found.scale <= worst_case_scale(pairs, epsilon).scale * (1.0 + 1e-10)
    if found.scale == 0.0:
        assert max(oracle(users, pairs[0], 1e-4)) <= epsilon * (1.0 + 1e-12)
        return
    assert max(oracle(users, pairs[0], found.scale)) <= epsilon
    assert max(oracle(users, pairs[0], found.scale * 0.999)) > epsilon


@pytest.mark.parametrize(
    ("names", "epsilon"),
    # every system at two of the budgets, by turns
    [(s, e) for i, s in enumerate(SYSTEMS) for j, e in enumerate((1e-6, 1.0, 50.0)) if i % 3 != j],
    ids=str,
)
def test_the_worst_of_several_users_decides_the_scale(names, epsilon):
    users, pairs = system(names)
    found = sum_scale(users, pairs, epsilon)
    singles = [sum_scale(users, [pair], epsilon).scale for pair in pairs]
    # a single pair may have larger steps, and so a narrower interval: by 1e-14 of a loss at most
    assert found.scale == pytest.approx(max(singles), rel=1e-9 + 1e-14 / epsilon)
    if found.scale:
        upper = intervals(SumLosses(users, pairs), found.scale)[1]
        assert upper.max() <= epsilon
        below = intervals(SumLosses(users, pairs), found.scale * 0.999)[0]
        assert below.max() > epsilon
        assert 0.0 < found.bound <= epsilon


def test_without_noise_the_scale_is_zero_where_the_sum_alone_keeps_the_budget():
    p, q = Discrete([0, 1, 2], [0.3, 0.4, 0.3]), Discrete([0, 1, 2], [0.3, 0.1, 0.6])
    users = [User(p, alternative=q), User(Discrete([0, 1, 2], [0.2, 0.6, 0.2]), count=3)]
    pairs = user_pairs(users[:1], "distribution")
    limit = float(max(oracle(users, pairs[0], 1e-3)))
    assert limit < math.log(4.0) - 0.1  # the loss of the user alone
    assert sum_scale(users, pairs, limit + 1e-9).scale == 0.0
    assert sum_scale(users, pairs, limit - 1e-3).scale > 0.0


def test_equal_distributions_need_no_noise():
    users = [User(LAWS["plain"], alternative=LAWS["plain"]), User(LAWS["gap"], count=4)]
    pairs = user_pairs(users[:1], "distribution")
    assert sum_scale(users, pairs, 1e-6).scale == 0.0
    assert intervals(SumLosses(users, pairs), 3.0)[0].max() == 0.0
    assert intervals(SumLosses(users, pairs), 3.0)[1].max() < 1e-11


def test_somebody_alone_has_the_loss_of_the_worst_case():
    users = [User(LAWS["plain"], alternative=LAWS["negative"])]
    losses = SumLosses(users, user_pairs(users, "distribution"))
    lower, upper = intervals(losses, 2.0)
    assert np.allclose(lower, worst_case(losses, 2.0)[0], rtol=1e-12)
    assert np.allclose(upper, worst_case(losses, 2.0)[1], rtol=1e-12)


@pytest.mark.parametrize("secrets", ["value", "value-absence"])
@pytest.mark.parametrize("theta", [1e-9, 0.3, 5.0, 1e12])
def test_values_are_shifts_whatever_the_other_users_report(secrets, theta):
    users = [User(LAWS["negative"]), User(LAWS["plain"], count=2), User(LAWS["decimals"])]
    pairs = user_pairs(users[:1], secrets)
    lower, upper = intervals(SumLosses(users, pairs), theta)
    for k, pair in enumerate(pairs):
        true = abs(mpf(pair.shift)) / mpf(theta)
        assert mpf(float(lower[k].min())) <= true <= mpf(float(upper[k].max()))
        assert upper[k].max() <= lower[k].min() * (1.0 + 1e-14)


def test_a_shift_is_attained_far_beyond_the_support():
    users = [User(LAWS["negative"]), User(LAWS["plain"], count=2)]
    pair = user_pairs(users[:1], "value")[0]
    assert abs(max(oracle(users, pair, 0.7)) - abs(mpf(pair.shift)) / mpf(0.7)) < mpf(10) ** -40


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 50.0])
def test_the_scale_for_values_is_the_largest_distance_over_epsilon(epsilon):
    users = [User(LAWS["negative"], values=[-3, 7]), User(LAWS["plain"])]
    for scale in (sum_scale, worst_scale):
        found = scale(users, user_pairs(users, "value"), epsilon)
        assert found.scale == pytest.approx(10.0 / epsilon, rel=2e-12)
        assert found.scale >= 10.0 / epsilon
        assert found.worst_pair == 0


@settings(max_examples=20)
@given(st.sampled_from(SECRETS), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_presence_probabilities_cancel(secrets, first, second):
    def losses(*presence):
        distributions = LAWS["plain"], LAWS["gap"]
        users = [
            User(distribution, presence=p, alternative=LAWS["halves"])
            for distribution, p in zip(distributions, presence, strict=True)
        ]
        return intervals(SumLosses(users, user_pairs(users, secrets)), 3.0)[1]

    assert np.array_equal(losses(first, second), losses(1.0, 1.0))


def test_presence_multiplies_both_densities_alike():
    users = [User(LAWS["plain"], alternative=LAWS["gap"]), User(LAWS["negative"], presence=0.3)]
    pair = user_pairs(users[:1], "distribution")[0]
    others = {x: mpf("0.3") * mass for x, mass in distribution_of_others(users, 0).items()}
    p, q = plus(others, masses_of(pair.priors.p)), plus(others, masses_of(pair.priors.q))
    p, q = ({int(x): mass for x, mass in distribution.items()} for distribution in (p, q))
    decay = decays(2)
    logs = [mp.log(density(p, y, decay) / density(q, y, decay)) for y in range(-5, 50)]
    assert max(logs) == pytest.approx(intervals(SumLosses(users, [pair]), 2.0)[1][0, 0], abs=1e-12)


def _fourier_loss(p, q, other, count, theta):
    """Return what a plain fast Fourier transform says of sums of 0 and 1."""
    size = 2 ** (count + 1).bit_length()
    transform = np.fft.rfft([1.0 - other, other], size)
    distribution = np.fft.irfft(transform**count, size)[: count + 1]
    places = np.arange(count + 2)
    kernel = np.exp(-np.abs(places[:, None] - places) / theta)
    sums = [kernel @ np.convolve(distribution, [1.0 - yes, yes]) for yes in (p, q)]
    with np.errstate(invalid="ignore"):  # some of its sums are negative
        return float(np.nanmax(np.abs(np.log(sums[0] / sums[1]))))


def test_300_bernoulli_users_are_right_where_a_fourier_transform_is_not():
    p, q, other, theta = 0.2, 0.9, 0.1, 0.857612515743  # 001 Fig. 7 at epsilon 1, published
    users = [
        User(Discrete([0, 1], [1.0 - p, p]), alternative=Discrete([0, 1], [1.0 - q, q])),
        User(Discrete([0, 1], [1.0 - other, other]), count=299),
    ]
    pairs = user_pairs(users[:1], "distribution")
    true = float(max(oracle_of_coins(p, q, other, 299, theta)))
    lower, upper = intervals(SumLosses(users, pairs), theta)
    assert true == pytest.approx(0.818293162904, rel=1e-11)
    assert lower.max() <= true <= upper.max()
    assert upper.max() - lower.max() < 1e-11
    assert abs(_fourier_loss(p, q, other, 299, theta) - true) > 0.3


def oracle_of_coins(p, q, other, count, theta):
    """Return the largest log ratios for one coin among many, from binomial masses."""
    share = mpf(other)
    distribution = [
        mp.binomial(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)
    ]
    decay = mp.exp(-1 / mpf(theta))
    left, right = [mpf(0)], [mpf(0)]
    for mass in [mpf(0), *distribution, mpf(0)]:
        left.append(left[-1] * decay + mass)
    for mass in [mpf(0), *distribution[::-1], mpf(0)]:
        right.append(right[-1] * decay + mass)
    left, right = left[1:], right[1:][::-1]
    masses = [mpf(0), *distribution, mpf(0)]
    h = [a + b - m for a, b, m in zip(left, right, masses, strict=True)]
    logs = [
        mp.log(((1 - mpf(p)) * b + mpf(p) * a) / ((1 - mpf(q)) * b + mpf(q) * a))
        for a, b in pairwise(h)
    ]
    return max(logs), -min(logs)


# 001, Tables 2 and 3: users 1 to 3, and the two distributions of user 4
TABLE_2 = [[0.01, 0.04, 0.1, 0.2, 0.65], [0.7, 0.2, 0.05, 0.04, 0.01], [0.2] * 5]
TABLE_3 = [[0.4, 0.1, 0.0, 0.1, 0.4], [0.0, 0.05, 0.9, 0.05, 0.0]]
# Figures 6, 4 and 7: exact scales for epsilon = .1, .2, ..., 1 of the given and of any other users
FIGURE_6 = (
    [
        *[4.98441223725, 2.77880975353, 2.23204929021, 1.90187344079, 1.67392075156],
        *[1.50389523829, 1.37052172421, 1.26212667284, 1.17169136262, 1.09470305987],
    ],
    [
        *[16.9784173449, 8.47742161481, 5.64309117764, 4.22542599721, 3.37442606722],
        *[2.80675808084, 2.40099352894, 2.09641822706, 1.85930215987, 1.66940742106],
    ],
)
FIGURE_4 = [
    *[30.5560385049, 15.5455812362, 10.5353183458, 8.02526644919, 6.51543678649],
    *[5.50583640961, 4.78218340819, 4.23733622221, 3.81177041594, 3.46976961268],
]
FIGURE_7 = [
    *[7.04400594385, 3.53813731164, 2.36568573217, 1.77661139878, 1.42087508684],
    *[1.18177020038, 1.00925473353, 0.878283015596, 0.774914844537, 0.690757310382],
]
# Figure 5: education-num 1 to 16 of the Adult training table, race white; and epsilon .1 to 1
ADULT = [38, 134, 279, 553, 403, 762, 977, 335, 8904, 6207, 1207, 915, 4682, 1537, 514, 369]
FIGURE_5 = [
    *[101.676489276, 50.9984342272, 34.1045784384, 25.6568049704, 20.5874887793],
    *[17.2074202117, 14.7926512149, 12.9812068882, 11.5719893307, 10.4443391795],
]


def _paper_users(distribution, alternative):
    first = [User(Discrete(range(1, 6), masses)) for masses in TABLE_2]
    return [*first, User(distribution, alternative=alternative, values=[3, 5])]


def _scales(scale, users, secrets):
    pairs = [UserPair(len(users) - 1, pair.priors) for pair in user_pairs(users[-1:], secrets)]
    return [scale(users, pairs, epsilon).scale for epsilon in BUDGETS]


def test_figures_of_paper_001_for_the_given_and_for_any_other_users():
    p, q = (Discrete(range(1, 6), masses) for masses in TABLE_3)
    users = _paper_users(p, q)
    assert _scales(sum_scale, users, "distribution") == pytest.approx(FIGURE_6[0], rel=1e-11)
    assert _scales(worst_scale, users, "distribution") == pytest.approx(FIGURE_6[1], rel=1e-11)
    for scale in (sum_scale, worst_scale):
        found = _scales(scale, users, "distribution-absence")
        assert found == pytest.approx(FIGURE_4, rel=1e-11)
        assert _scales(scale, users, "value") == pytest.approx(2.0 / BUDGETS, rel=3e-12)
        assert _scales(scale, users, "value-absence") == pytest.approx(5.0 / BUDGETS, rel=3e-12)


def test_figure_7_of_paper_001_two_coins():
    users = _paper_users(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    for scale in (sum_scale, worst_scale):
        assert _scales(scale, users, "distribution") == pytest.approx(FIGURE_7, rel=1e-11)


def test_figure_5_of_paper_001_a_class_of_records():
    users = [User(Discrete.from_counts(range(1, 17), ADULT))]
    found = _scales(worst_scale, users, "distribution-absence")
    assert found == pytest.approx(FIGURE_5, rel=1e-10)


def test_one_person_of_a_class_is_left_out_of_the_others():
    coin = Discrete([0, 1], [0.6, 0.4])
    other = Discrete([0, 1], [0.3, 0.7])
    apart = [User(coin, alternative=other), User(coin), User(coin)]
    together = [User(coin, alternative=other, count=3)]
    ends = [
        intervals(SumLosses(users, user_pairs(users[:1], "distribution")), 0.8)
        for users in (apart, together)
    ]
    assert np.array_equal(ends[0], ends[1])


def test_long_sums_are_narrow_too():
    rng = np.random.default_rng(3)
    distributions = [Discrete(np.arange(60), rng.dirichlet(np.ones(60))) for _ in range(4)]
    users = [
        User(distribution, alternative=distributions[0], count=60)
        for distribution in distributions[1:]
    ]
    losses = SumLosses(users, user_pairs(users, "distribution"))
    for theta in (2.0, 20.0, 300.0):
        lower, upper = intervals(losses, theta)
        assert np.all(upper - lower < 1e-9)


def test_few_of_the_others_give_an_upper_end():
    users = [User(LAWS["plain"], alternative=LAWS["negative"]), User(LAWS["gap"], count=200)]
    losses = SumLosses(users, user_pairs(users[:1], "distribution"))
    for theta in (0.5, 3.0, 40.0):
        exact = float(losses.interval_of(0, theta)[1].max())
        for budget in (0.0, exact * 0.5, exact * 1.01, exact * 2.0, math.inf):
            upper = losses.larger_end(0, theta, budget)
            assert exact * (1.0 - 1e-12) <= upper <= losses.worst_case_of(0, theta)[1].max()
            assert upper <= budget or budget < exact


def test_all_of_the_others_count_where_six_of_them_have_wide_values():
    p, q = (Discrete([0, 1, 20_000], masses) for masses in ([0.5, 0.2, 0.3], [0.3, 0.3, 0.4]))
    users = [User(p, alternative=q, count=6)]
    pairs = user_pairs(users, "distribution")
    assert SumLosses(users, pairs).allows_for_all(0)
    lower, upper = intervals(SumLosses(users, pairs), 2000.0)
    assert np.all(upper - lower < 1e-9)


def _wide(numbers):
    """Return fractions as wide numbers."""
    shifts = [x.numerator.bit_length() - x.denominator.bit_length() if x else 0 for x in numbers]
    scaled = [float(x / Fraction(2) ** k) for x, k in zip(numbers, shifts, strict=True)]
    return Wide(np.array(scaled), np.array(shifts)).normalised()


def _fractions(wide):
    pairs = zip(wide.mantissa.tolist(), wide.exponent.tolist(), strict=True)
    return [Fraction(m) * Fraction(2) ** e if m else Fraction(0) for m, e in pairs]


@pytest.mark.parametrize("deepest", [0, 300, 6000])
@pytest.mark.parametrize(
    "sizes", [(3, 5), (70, 65), (200, 1000), pytest.param((1100, 1300), marks=pytest.mark.slow)]
)
def test_convolutions_are_right_relative_to_each_number(sizes, deepest):
    rng = np.random.default_rng(1)
    rows = []
    for size in sizes:
        mantissa = rng.uniform(0.5, 1.0, size) * (rng.uniform(size=size) < 0.8)
        slope = -(deepest * np.arange(size)[:: rng.choice([-1, 1])]) // size
        rows.append(Wide(mantissa, slope + rng.integers(-9, 9, size)).normalised())
    found, units = convolved(*rows)
    shift = 2 * deepest + 200  # fifty digits beyond the smallest number
    a, b, c = ([int(x * 2**shift) for x in _fractions(numbers)] for numbers in (*rows, found))
    assert len(found) == sum(sizes) - 1
    for place in rng.integers(0, len(found), 10).tolist():
        first, last = max(0, place - len(b) + 1), min(place, len(a) - 1)
        true = sum(a[k] * b[place - k] for k in range(first, last + 1)) >> shift
        assert abs(c[place] - true) <= Fraction(units * UNIT) * true + 1


def test_no_mass_of_a_sum_is_too_small():
    counts = [[1, 10**400, 10**400], [10**30, 0, 1, 10**90]]
    rows = [[Fraction(count, sum(row)) for count in row] for row in counts]
    found, units = sum_of(list(map(_wide, rows)), [5, 3])
    true = [Fraction(1)]
    for row in [rows[0]] * 5 + [rows[1]] * 3:
        true = [
            sum(true[x - y] * row[y] for y in range(len(row)) if 0 <= x - y < len(true))
            for x in range(len(true) + len(row) - 1)
        ]
    for value, mass in zip(_fractions(found), true, strict=True):
        assert abs(value - mass) <= Fraction(units * UNIT) * mass


# ---------------------------------------------------------------------------------- many users


def _nearly_alike(n_classes, each, seed=0):
    """Return classes whose loss is largest at a turning point of what a crowd leaves."""
    rng = np.random.default_rng(seed)
    bases = [10 * np.concatenate(([40], 1 + rng.integers(0, 60, 38), [40])) for _ in "pq"]
    users = []
    for _ in range(n_classes):
        distributions = []
        for base in bases:
            counts = base.copy()
            counts[rng.choice(np.arange(1, 39), 2, replace=False)] += [1, 2]
            distributions.append(Discrete.from_counts(np.arange(40) - 20, counts))
        users.append(User(distributions[0], alternative=distributions[1], count=each))
    return users


def _turning_budget(users):
    """Return the largest loss that any crowd, however large, leaves of any of the users."""
    tilts = np.linspace(-2.0, 2.0, 4001)
    logs = [
        [
            np.log(np.exp(tilts[:, None] * distribution.atoms) @ distribution.probabilities)
            for distribution in pair
        ]
        for pair in [(user.law, user.alternative) for user in users]
    ]
    return max(float(np.abs(first - second).max()) for first, second in logs)


@pytest.mark.slow
def test_the_scale_at_a_turning_point_is_the_smallest():
    users = _nearly_alike(3, 45)
    pairs = user_pairs(users, "distribution")
    epsilon = _turning_budget(users)
    found = sum_scale(users, pairs, epsilon)
    lower, upper = intervals(SumLosses(users, pairs), found.scale)
    assert upper.max() <= epsilon * (1.0 + 1e-12) + 1e-10
    assert lower.max() > epsilon - 1e-9
    assert intervals(SumLosses(users, pairs), found.scale * 0.999)[0].max() > epsilon


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 30)), min_size=1, max_size=12),
    st.integers(0, 5000),
)
def test_those_who_are_counted_on_are_among_the_others(classes, steps):
    users = [User(Discrete([0, 1, 1 + span], [0.5, 0.25, 0.25]), count=n) for span, n in classes]
    losses = SumLosses(users, user_pairs(users, "distribution-absence"))
    for k in range(len(users)):
        chosen = losses._counted_others(k, steps)
        assert np.all((chosen >= 0) & (chosen <= losses._all_others(k)))
        assert losses._spans @ chosen <= steps
        assert np.array_equal(losses._counted_others(k, 10**6), losses._all_others(k))


@pytest.mark.parametrize(
    "theta", [*(pytest.param(x, marks=pytest.mark.slow) for x in (0.7, 3.0)), 80.0]
)
def test_whoever_is_counted_on_the_ends_hold_the_loss(theta, monkeypatch):
    users = _nearly_alike(4, 60, seed=1)
    users += [User(LAWS["plain"], alternative=LAWS["gap"]), User(LAWS["negative"])]
    pairs = user_pairs(users[:5], "distribution")
    exact = intervals(SumLosses(users, pairs), theta)
    monkeypatch.setattr(sum_losses, "SHORT_SUM", 200)
    monkeypatch.setattr(sum_losses, "LONG_SUM", 2000)
    assert not SumLosses(users, pairs).allows_for_all(0)
    lower, upper = intervals(SumLosses(users, pairs), theta)
    assert np.all(lower <= exact[1])
    assert np.all(exact[0] <= upper)
    assert np.all(upper - lower < 0.2 * upper + 1e-3)


@pytest.mark.slow
@settings(max_examples=8)
@given(RANDOM_SYSTEM, LAW.map(_distribution), st.floats(-1.5, 3.0))
def test_no_crowd_of_others_brings_the_loss_below_its_limit(distributions, alternative, power):
    theta = 10.0**power
    users = [
        User(distributions[0], alternative=alternative),
        *[User(distribution, count=9) for distribution in distributions[1:]],
    ]
    [pair] = user_pairs(users[:1], "distribution")
    least = least_loss(pair, theta)
    assert np.all(least <= intervals(SumLosses(users, [pair]), theta)[1])
    tilts = [mpf(t) / mpf(theta) for t in np.linspace(-1.0, 1.0, 257)]
    for side, (p, q) in enumerate([pair.priors, pair.priors[::-1]]):
        logs = [_log_mean(p, t) - _log_mean(q, t) for t in tilts]
        true = max(logs)
        assert mpf(float(least[side])) <= max(true, 0)
        assert mpf(float(least[side])) >= true - 1e-12 * (1.0 + 50.0 / theta)


def _log_mean(distribution, tilt):
    return mp.log(
        mp.fsum(mass * mp.exp(tilt * int(x)) for x, mass in masses_of(distribution).items())
    )


@pytest.mark.slow
def test_a_million_users_are_answered_for(monkeypatch):
    monkeypatch.setattr(sum_losses, "LONG_SUM", 2**14)
    rows = [
        ([10, 20, 40, 20, 10], [10, 30, 20, 30, 10]),
        ([10, 20, 41, 19, 10], [10, 29, 21, 30, 10]),
    ]
    distributions = [[Discrete.from_counts(range(-2, 3), row) for row in pair] for pair in rows]
    users = [User(p, alternative=q, count=500_000) for p, q in distributions]
    pairs = user_pairs(users, "distribution")
    found = sum_scale(users, pairs, 0.05)
    losses = SumLosses(users, pairs)
    lower, upper = intervals(losses, found.scale)
    assert not SumLosses(users, pairs).allows_for_all(0)
    assert lower.max() <= 0.05 * (1.0 + 1e-12)
    assert upper.max() - lower.max() < 1e-8
    assert intervals(losses, found.scale * 0.999)[0].max() > 0.05


def test_irregular_values_are_refused_where_they_must_be_convolved():
    users = [User(Discrete([0.0, 1.0, 2.0**0.5], [0.4, 0.3, 0.3])), User(LAWS["plain"])]
    values = SumLosses(users, user_pairs(users, "value"))
    assert intervals(values, 1.0)[1].max() == pytest.approx(3.0)
    with pytest.raises(ValueError, match="fits none"):
        intervals(SumLosses(users, user_pairs(users, "distribution-absence")), 1.0)


def test_values_too_many_steps_apart_are_refused_with_the_way_out():
    users = [User(Discrete([0, 1, sum_losses.MAX_STEPS + 1], [0.4, 0.3, 0.3]))]
    with pytest.raises(ValueError, match="round the reports to a larger step"):
        intervals(SumLosses(users, user_pairs(users, "distribution-absence")), 1.0)
    far = User(Discrete([0, 1], [0.5, 0.5]), alternative=Discrete([10**9], [1.0]))
    with pytest.raises(ValueError, match=r"span 1,000,000,000 steps .*step= of"):
        intervals(SumLosses([far], user_pairs([far], "distribution")), 1.0)


def test_large_steps_make_short_sums():
    users = [User(Discrete([0, 10**9, 3 * 10**9], [0.4, 0.3, 0.3]), count=5)]
    pairs = user_pairs(users, "distribution-absence")
    small = [User(Discrete([0, 1, 3], [0.4, 0.3, 0.3]), count=5)]
    other = user_pairs(small, "distribution-absence")
    assert sum_scale(users, pairs, 0.5).scale == pytest.approx(
        1e9 * sum_scale(small, other, 0.5).scale, rel=1e-10
    )
