"""Shifts in closed form, and sums of Gaussian and other users, against sums computed apart."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.linalg import expm, null_space
from scipy.special import log_ndtr

from sklearn_puffer import closed_forms as cf
from sklearn_puffer.couplings import w_infinity
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete

PURE = Pufferfish(1.0)


# ------------------------------------------------------------------------------------------- Shift


def test_a_shift_calibrates_to_its_distance_over_epsilon():
    shift = cf.Shift(3.0, "absolute", "a translation")
    assert shift.calibrate(Pufferfish(0.5)).scale == pytest.approx(6.0, rel=1e-11)
    assert shift.calibrate(Pufferfish(0.5)).bound <= 0.5
    assert cf.Shift(0.0, "l2", "none").calibrate(PURE, noise="gaussian").scale == 0.0


def test_gaussian_noise_for_a_shift_keeps_its_delta_at_50_digits():
    found = cf.Shift(2.0, "l2", "a translation").calibrate(Pufferfish(1.0, 1e-5), noise="gaussian")
    with mp.workdps(50):
        u = 2 / mpf(found.scale)
        delta = mp.ncdf(u / 2 - 1 / u) - mp.e * mp.ncdf(-u / 2 - 1 / u)
        assert mpf("1e-5") * (1 - mpf("1e-9")) <= delta <= mpf("1e-5")


@pytest.mark.parametrize("alpha", [1.5, 2.0, 30.0])
def test_laplace_noise_in_the_l1_norm_is_worst_along_an_axis(alpha):
    rng = np.random.default_rng(3)
    shifts = rng.exponential(size=(50, 4))
    notion = RenyiPufferfish(1.0, alpha)
    sums = notion.shift_loss(Laplace(0.7), shifts.sum(axis=1)[:, None])
    assert np.all(notion.shift_loss(Laplace(0.7), shifts) <= sums * (1 + 1e-12))


def test_noise_of_another_norm_is_refused():
    with pytest.raises(ValueError, match=r"Gaussian for a distance in the l2 norm.*sqrt\(d\)"):
        cf.Shift(1.0, "l2", "").calibrate(PURE)
    with pytest.raises(ValueError, match="Laplace for a distance in the l1 norm"):
        cf.Shift(1.0, "l1", "").calibrate(Pufferfish(1.0, 0.1), noise=Gaussian(1.0))
    with pytest.raises(ValueError, match="noise"):
        cf.Shift(1.0, "absolute", "").calibrate(PURE, noise="uniform")
    with pytest.raises(ValueError, match="norm"):
        cf.Shift(1.0, "l3", "")
    with pytest.raises(ValueError, match="distance must not be negative"):
        cf.Shift(-1.0, "l1", "")


# --------------------------------------------------------------------------------------- 004, 6.1


def test_values_of_two_users_move_both_of_them():
    # s_i: X_1 = 0, s_j: X_2 = 10; independent users, so lambda = 0, and each moves the sum by 10
    given_first = Discrete([0, 10], [0.9, 0.1])  # the distribution of X_2
    given_second = Discrete([10, 20], [0.1, 0.9])  # that of X_1, plus 10
    distance = w_infinity(given_first, given_second)
    assert distance == 20.0  # 10 as printed
    assert cf.weakly_dependent(10, 0, same_user=False).distance == distance
    assert cf.weakly_dependent(10, 0).distance == 10.0


@given(
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.booleans(),
)
def test_weak_dependence_bounds_w_infinity_of_two_dependent_bits(counts, same_user):
    joint = np.array(counts).reshape(2, 2)  # counts of (x1, x2); the query is x1 + 3 x2
    drift, distributions = 0.0, {}
    for user in (0, 1):
        other = joint.sum(axis=user)  # the marginal of the other bit
        for bit in (0, 1):
            row = joint.take(bit, axis=user)
            values = bit + 3 * np.arange(2) if user == 0 else np.arange(2) + 3 * bit
            distributions[user, bit] = Discrete.from_counts(values, row)
            drift = max(
                drift,
                w_infinity(distributions[user, bit], Discrete.from_counts(values, other.ravel())),
            )
    bound = cf.weakly_dependent(3.0, drift, same_user=same_user).distance
    for (user, bit), (another, value) in [
        ((u, a), (v, b)) for u, a in distributions for v, b in distributions
    ]:
        if (user == another) == same_user:
            assert w_infinity(distributions[user, bit], distributions[another, value]) <= bound


# --------------------------------------------------------------------------------- 004, 6.2 and F.1


def test_a_negative_covariance_moves_the_release_as_far_as_a_positive_one():
    for sign in (-1, 1):
        sigma = [[1.0, 0.5 * sign], [0.5 * sign, 1.0]]
        assert cf.gaussian_attributes(sigma, 1, 0, 2.0).distance == 1.0  # -1 as printed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_gaussian_attributes_move_the_conditional_mean(seed, norm):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    sigma = root @ root.T
    sigma = (sigma + sigma.T) / 2
    m_rows, n_rows, step = (rng.normal(size=shape) for shape in [(3, 6), (2, 6), 2])
    # among all x with N x = step, the mean given the secret is that of least x' Sigma^-1 x
    start, free = np.linalg.pinv(n_rows) @ step, null_space(n_rows)
    precision = np.linalg.inv(sigma)
    mean = start - free @ np.linalg.solve(free.T @ precision @ free, free.T @ precision @ start)
    expected = np.linalg.norm(m_rows @ mean, 1 if norm == "l1" else 2)
    found = cf.gaussian_attributes(sigma, m_rows, n_rows, step, norm=norm)
    assert found.distance == pytest.approx(expected, rel=1e-9)
    assert found.norm == norm


def test_all_differences_of_the_points_of_k_are_tried():
    sigma = np.eye(3) + 0.25
    points = np.array([[0.0, 0.0], [1.0, 5.0], [-2.0, 3.0]])
    distances = [
        cf.gaussian_attributes(sigma, [2], [0, 1], a - b).distance for a in points for b in points
    ]
    assert cf.gaussian_attributes(sigma, [2], [0, 1], points).distance == max(distances)


def test_distances_are_rounded_up_once():
    assert cf.gaussian_attributes(np.eye(2), [0, 1], [0, 1], [3.0, 4.0]).distance == 5.0
    for unit in (1e-150, 1e-12, 1e12, 1e150):
        assert cf.gaussian_attributes(
            np.eye(2), [0, 1], [0, 1], [unit, unit]
        ).distance == pytest.approx(math.sqrt(2) * unit, rel=1e-15)
    assert cf.gaussian_attributes(np.eye(2), 0, 1, 1.0).distance == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 0.5], [0.4, 1.0]], 0, 1, 1.0), "symmetric"),
        (([[1.0, 2.0], [2.0, 1.0]], 0, 1, 1.0), "positive semidefinite"),
        (([[1.0, 0.0], [0.0, 0.0]], 0, 1, 1.0), "not singular"),
        ((np.ones((3, 3)), 0, [1, 2], [1.0, 1.0]), "not singular"),
        (([1.0, 2.0], 0, 1, 1.0), "square"),
        (([[1.0, math.nan], [math.nan, 1.0]], 0, 1, 1.0), "finite"),
        ((np.eye(2), 2, 1, 1.0), "released must be positions from 0 to 1"),
        ((np.eye(2), 0, -1, 1.0), "secret must be positions"),
        ((np.eye(2), 0.5, 1, 1.0), "released must be positions of columns or a matrix"),
        ((np.eye(2), 0, 1, [1.0, 2.0]), "distance must hold a number for each of 1"),
        ((np.eye(2), 0, 1, [[1.0, 2.0]]), "distance must be points with 1 numbers"),
        ((np.eye(2), 0, 1, math.inf), "distance must be finite"),
    ],
)
def test_matrices_that_are_no_covariance_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        cf.gaussian_attributes(*arguments)


# --------------------------------------------------------------------------------------- 004, 6.3


def test_a_diffusion_contracts_by_e_to_the_minus_ct():
    # V(x) = x^2 / 2: X_t given X_0 = a is Gaussian with mean a e^-t and a variance without a
    shift = cf.langevin(1.0, [0.5], diameter=1.0)
    assert shift.distance == pytest.approx(0.6065306597126334, rel=1e-15)
    assert shift.distance >= math.exp(-0.5)
    printed = math.exp(-2 * 0.5)
    assert shift.distance / printed == pytest.approx(
        1.6487212707, rel=1e-9
    )  # the loss at its scale


@pytest.mark.parametrize("seed", range(5))
def test_an_ornstein_uhlenbeck_process_moves_no_further(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    curvature = root @ root.T + 0.1 * np.eye(3)
    values, vectors = np.linalg.eigh(curvature)
    times = np.sort(rng.uniform(0, 2, size=4))
    for start in [*rng.normal(size=(5, 3)), vectors[:, 0]]:
        moved = sum(np.linalg.norm(expm(-curvature * t) @ start) for t in times)
        bound = cf.langevin(values[0], times, np.linalg.norm(start)).distance
        assert moved <= bound * (1 + 1e-12)
    assert moved == pytest.approx(bound, rel=1e-12)  # along the flattest direction


def test_the_l1_norm_contracts_less():
    phi = 2.748893571891069
    flat = np.array([math.cos(phi), math.sin(phi)])
    steep = np.array([-math.sin(phi), math.cos(phi)])
    curvature = np.outer(flat, flat) + 50 * np.outer(steep, steep)
    factor = np.abs(expm(-0.2 * curvature)).sum(axis=0).max()  # the operator norm of l1
    assert factor == pytest.approx(1.2070952967842785 * math.exp(-0.2), rel=1e-9)
    with pytest.raises(ValueError, match="l2 norm"):
        cf.langevin(1.0, [0.2], 1.0).calibrate(PURE, noise="laplace")


def test_long_times_leave_a_positive_distance():
    assert cf.langevin(1.0, [1e6], 1.0).distance > 0.0
    assert cf.langevin(1.0, [1e6], 0.0).distance == 0.0
    assert cf.langevin(-1.0, [1.0], 1.0).distance >= math.e
    assert cf.langevin(1.0, [0.0, 1.0], 2.0, lipschitz=3.0).distance == pytest.approx(
        6 * (1 + math.exp(-1))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, [], 1.0), "times"),
        ((1.0, [1.0, 1.0], 1.0), "times must increase"),
        ((1.0, [-1.0], 1.0), "from 0 or later"),
        ((1.0, [1.0], -1.0), "diameter"),
        ((math.nan, [1.0], 1.0), "convexity"),
        ((-1.0, [1e6], 1.0), r"convexity=-1, times up to 1e\+06, .*; read the path earlier"),
    ],
)
def test_diffusions_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        cf.langevin(*arguments)


@pytest.mark.parametrize("exponent", [0.5, 690.0, 720.0, 746.0, 800.0, 1e200])
def test_a_far_diffusion_is_never_said_to_be_nearer_than_it_is(exponent):
    rate, time = (1e160, exponent / 1e160) if exponent < 1e3 else (1e100, 1e100)
    found = cf.langevin(rate, [time], 1e308).distance
    assert found >= mp.exp(-mpf(rate) * mpf(time)) * mpf(1e308)


def test_a_diffusion_beyond_floats_is_refused_for_its_own_reason():
    message = (
        r"convexity=2, times up to 0, diameter=1e\+308 and lipschitz=1e\+10; .*another unit\.$"
    )
    with pytest.raises(ValueError, match=message):
        cf.langevin(2.0, [0.0], 1e308, lipschitz=1e10)
    assert cf.langevin(-1.0, [1e6], 0.0).distance == 0.0
    assert cf.langevin(1e308, [1e308], 1.0).distance <= 1e-300


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cf.langevin(1.0, "soon", 1.0), "times must hold real numbers"),
        (lambda: cf.langevin(1.0, [[1.0, 2.0], [3.0]], 1.0), "times must be .* rows of one length"),
        (lambda: cf.gaussian_attributes([["a"]], 0, 0, 1.0), "covariance must hold real numbers"),
        (lambda: cf.gaussian_attributes(np.eye(2), 0, 1, "far"), "distance must hold real numbers"),
        (lambda: cf.weakly_dependent(1.0, 1.0, same_user="no"), "same_user must be True or False"),
        (
            lambda: cf.gaussian_users([10**400], [1.0], Pufferfish(1.0)),
            "means must hold numbers below 1e308",
        ),
    ],
)
def test_what_is_no_number_is_named(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_integers_beyond_all_floats_are_refused_by_name():
    with pytest.raises(ValueError, match="sensitivity must be finite, got 1000"):
        cf.weakly_dependent(10**400, 1.0)


# ------------------------------------------------------------------------- 003, Cor. 1: Gaussians


FIGURE_2 = {  # mean 1, (1, 0.3): variance -> Eq. (11) for 1, 2 and 1000 users; exact for 1; pure
    1: (2.03643338949, 1.42930476642, 1.01639154968, 0.524611905442, 1.36602540380),
    4: (3.07286677899, 1.85860953285, 1.03278309936, 0.654623424071, 2.0),
    9: (4.10930016848, 2.28791429927, 1.04917464904, 0.897721939734, 2.67944947193),
    16: (5.14573355798, 2.7172190657, 1.06556619873, 1.1607387735, 3.37228132327),
    25: (6.18216694747, 3.14652383212, 1.08195774841, 1.43057908826, 4.07071421429),
}


@pytest.mark.slow
@pytest.mark.parametrize("variance", FIGURE_2)
def test_figure_2_is_reproduced_with_its_exact_scales(variance):
    *eq11, alone, pure = FIGURE_2[variance]
    deviation = math.sqrt(variance)
    for count, expected in zip([1, 2, 1000], eq11, strict=True):
        found = cf.gaussian_users([1.0], [deviation], Pufferfish(1.0, 0.3), counts=[count])
        assert found.corollary_1a == pytest.approx(expected, rel=1e-11)
        exact = found.exact.scale
        assert exact == (pytest.approx(alone, rel=1e-10) if count == 1 else 0.0)
        assert found.exact.bound <= 0.3
    for count in (1, 3, 10**12):
        found = cf.gaussian_users([1.0], [deviation], PURE, counts=[count])
        assert found.corollary_1a == math.inf
        assert found.exact.scale == pytest.approx(pure, rel=1e-9)
        # the ratio of the densities far out: |mu|/theta + sigma^2/(2 theta^2) = epsilon
        root = (1 + math.sqrt(1 + 2 * variance)) / 2
        assert found.exact.scale == pytest.approx(root, rel=1e-13)
        assert found.exact.bound <= 1.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_one_user_without_a_mean_is_told_apart_at_the_centre(epsilon):
    # alone, and with mean 0: h_p/h_q = E e^(-|G|/theta) at y = 0, and e^(s^2/2) in the tails
    found = cf.gaussian_users([0.0], [1.0], Pufferfish(epsilon)).exact
    s = 1 / mpf(found.scale)
    centre = -(s * s / 2 + mp.log(2 * mp.ncdf(-s)))
    assert max(centre, s * s / 2) == pytest.approx(epsilon, rel=1e-9)
    assert max(centre, s * s / 2) <= epsilon


def log_density(y, mean, sd, theta):
    """Return the log density of a Gaussian plus Laplace noise."""
    a, t = sd / theta, (y - mean) / sd
    sides = -a * t + log_ndtr(t - a), a * t + log_ndtr(-t - a)
    return a * a / 2 - math.log(2 * theta) + np.logaddexp(*sides)


@pytest.mark.parametrize("mean", [0.0, 0.3, -2.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 4.0])
def test_the_pure_scale_of_gaussian_users_is_that_of_their_densities(mean, epsilon):
    found = cf.gaussian_users([mean, 0.1], [0.8, 0.5], Pufferfish(epsilon)).exact
    y = np.linspace(-60, 60, 60_001) * max(found.scale, 1.0)
    losses = []
    for k, (centre, other_sd) in enumerate([(mean, 0.5), (0.1, 0.8)]):
        pair = [(centre, math.hypot(0.8, 0.5)), (0.0, other_sd)]
        p, q = (log_density(y, *distribution, found.scale) for distribution in pair)
        losses.append(np.abs(p - q).max())
        assert losses[k] <= epsilon * (1 + 1e-9)
    assert max(losses) == pytest.approx(epsilon, rel=1e-4)
    assert np.argmax(losses) == found.worst_pair


@pytest.mark.slow
def test_the_delta_of_gaussian_users_is_that_of_their_densities():
    notion = Pufferfish(0.3, 0.01)
    found = cf.gaussian_users([1.0], [0.5], notion, counts=[3]).exact
    y = np.linspace(-50, 50, 400_001)
    p, q = (
        np.exp(log_density(y, mean, 0.5 * math.sqrt(n), found.scale))
        for mean, n in [(1.0, 3), (0.0, 2)]
    )
    deltas = [np.maximum(a - math.exp(0.3) * b, 0).sum() * 2.5e-4 for a, b in [(p, q), (q, p)]]
    assert max(deltas) == pytest.approx(0.01, rel=1e-5)


@pytest.mark.slow
def test_corollary_1a_is_sound_and_above_the_exact_scale():
    means, sds, counts = [1.0, -2.0, 0.5], [1.0, 0.5, 1.5], [3, 1, 2]
    for delta in (1e-2, 1e-12):
        found = cf.gaussian_users(means, sds, Pufferfish(0.5, delta), counts=counts)
        assert 0.0 < found.exact.scale < found.corollary_1a
        assert found.exact.worst_pair == 1


def test_known_values_are_translations():
    found = cf.gaussian_users([3.0, 1.0], [0.0, 0.0], Pufferfish(0.5))
    assert found.corollary_1a == pytest.approx(6.0)
    assert found.exact.scale == pytest.approx(6.0)
    assert found.exact.worst_pair == 0
    beside = cf.gaussian_users([3.0, 0.0], [0.0, 1.0], PURE).exact
    assert beside.scale == pytest.approx(3.0, rel=1e-6)


@pytest.mark.slow
def test_users_follow_the_unit_of_their_values():
    for unit in (1e-12, 1e12):
        found = cf.gaussian_users([unit], [unit], Pufferfish(1.0, 0.3))
        assert found.exact.scale == pytest.approx(0.524611905442 * unit, rel=1e-9)


@pytest.mark.slow
def test_tiny_deltas_and_huge_budgets_of_users_have_scales():
    tiny = cf.gaussian_users([1.0], [1.0], Pufferfish(1.0, 1e-300), counts=[2])
    assert tiny.corollary_1a == pytest.approx(1 + (2**0.5 - 1) * 37.0657, rel=1e-4)
    assert tiny.exact.scale <= 1.3660254038
    assert cf.gaussian_users([1.0], [1.0], Pufferfish(700.0)).exact.scale > 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0]), "one length"),
        (([], []), "means must be a sequence"),
        (([math.nan], [1.0]), "finite"),
        (([1.0], [-1.0]), "not negative"),
    ],
)
def test_means_and_deviations_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        cf.gaussian_users(*arguments, PURE)
    with pytest.raises(ValueError, match="counts"):
        cf.gaussian_users([1.0], [1.0], PURE, counts=[1.5])
    with pytest.raises(TypeError, match="notion"):
        cf.gaussian_users([1.0], [1.0], RenyiPufferfish(1.0, 2.0))


def test_a_value_of_a_user_translates_the_sum():
    assert cf.corollary_1b(3.0, -0.5).distance == 3.5
    assert cf.corollary_1b(3.0, -0.5).calibrate(PURE).scale == pytest.approx(3.5)
    with pytest.raises(TypeError, match="first"):
        cf.corollary_1b("3", 0.0)


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-9, 0.001, 0.3, 0.999, 1 - 2**-53])
def test_lambert_s_factor_is_that_of_its_equation_and_covers_the_normal_distribution(delta):
    found = mpf(cf.lambert_tau(delta))
    with mp.workdps(60):
        argument = mp.log(2 / mp.pi) - 2 * mp.log(mpf(delta))  # of W_0, whose W e^W it is
        assert mp.log(found**2) + found**2 >= argument  # never below, and hardly above
        just_below = found * (1 - mpf(2) ** -48)
        assert mp.log(just_below**2) + just_below**2 < argument
        assert mp.erfc(found / mp.sqrt(2)) <= mpf(delta)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_lambert_s_factor_is_refused_without_a_probability(delta):
    with pytest.raises(ValueError, match=r"delta must (be above 0|lie in)"):
        cf.lambert_tau(delta)


def actual_delta(p, q, theta, epsilon):
    """Integrate (h_p - e^eps h_q)_+ over a fine grid, both ways; p and q are (atoms, masses)."""
    reach = 40 * theta
    low, high = min(p[0][0], q[0][0]) - reach, max(p[0][-1], q[0][-1]) + reach
    y = np.linspace(low, high, 40_001)
    width = y[1] - y[0]
    densities = [
        (masses * np.exp(-np.abs(y[:, None] - atoms) / theta)).sum(axis=1) / (2 * theta)
        for atoms, masses in (p, q)
    ]
    gaps = [
        np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * width
        for a, b in (densities, densities[::-1])
    ]
    return max(gaps)


@pytest.mark.slow
def test_the_corollary_is_unsound_for_users_who_are_not_gaussian():
    rare = Discrete([0, 1], [1 - 1e-4, 1e-4])
    mean, deviation = 1e-4, math.sqrt(1e-4 * (1 - 1e-4))
    notion = Pufferfish(1.0, 1e-5)
    published = cf.gaussian_users([mean], [deviation], notion).corollary_1a
    assert published == pytest.approx(0.0442695254928, rel=1e-9)
    distributions = (np.array([0, 1]), rare.probabilities), (np.array([0]), np.ones(1))
    assert actual_delta(*distributions, published, 1.0) == pytest.approx(9.98369e-05, rel=1e-3)


def test_the_norm_of_a_distance_is_the_least_float_that_is_not_below_it():
    # the roots of the first three, cut after 60 bits, are floats
    rounded = [(1, 27), (1, 30), (2, 54)]
    for vector in [*rounded, (1, 1), (3, 4), (0.1, 0.7), (0, 0)]:
        distance = cf.gaussian_attributes(np.eye(2), [0, 1], [0, 1], vector).distance
        square = sum(Fraction(x) ** 2 for x in vector)
        assert square <= Fraction(distance) ** 2
        assert not square or Fraction(math.nextafter(distance, 0.0)) ** 2 < square
