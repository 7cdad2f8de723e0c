"""The Renyi loss of noisy iterations: optimal, never below the exact loss, and for every record."""

from fractions import Fraction
from math import exp, inf, log, nextafter

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize

from sklearn_puffer import _displacements as displacements
from sklearn_puffer.iteration import (
    contraction,
    iteration_loss,
    joint_shifts,
    optimal_shifts,
    smallest_sigma,
    worst_shifts,
)
from sklearn_puffer.noise import Gaussian, GeneralizedCauchy

SLACK = 1e-10  # upwards, for rounding


@st.composite
def iterations(draw, most=8):
    """Draw moves, noises and contractions of a short iteration."""
    steps = draw(st.integers(1, most))
    move = st.one_of(st.just(0.0), st.floats(1e-12, 1e12), st.floats(0.01, 3.0))
    scale = st.one_of(st.floats(0.1, 10.0), st.floats(1e-3, 1e3))
    factor = st.one_of(st.just(1.0), st.just(0.0), st.floats(0.0, 1.0), st.floats(0.5, 1.0))
    return tuple(
        np.array(draw(st.lists(each, min_size=steps, max_size=steps)))
        for each in (move, scale, factor)
    )


def random_correlations(rng, n, rank=None):
    """Return a random correlation matrix."""
    rows = rng.normal(size=(n, rank or n + 2))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows @ rows.T


def left_over(a, s, factors):
    """Return z_T of the shifts in exact arithmetic."""
    z = Fraction(0)
    for shift, move, factor in zip(a, s, factors, strict=True):
        z = max(Fraction(factor) * z + Fraction(move) - Fraction(shift), Fraction(0))
    return z


def weights(factors):
    """Return the product of the contractions after each step."""
    return np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)


def total(a, sigmas):
    return float(np.square(a / sigmas).sum())


# The shifts


@given(iterations())
def test_optimal_shifts_leave_nothing_in_exact_arithmetic(case):
    s, sigmas, factors = case
    a = optimal_shifts(s, sigmas, factors)
    assert a.shape == s.shape
    assert np.all(a >= 0.0)
    assert left_over(a, s, factors) == 0


@given(iterations())
def test_optimal_shifts_meet_a_lower_bound_by_duality(case):
    # For multipliers m_k >= 0 of the constraints sum_(t > k) P_t a_t >= S_k, and M their running
    # sums, no feasible a has a total below sum m_k S_k - sum sigma_t^2 (P_t M_t)^2 / 4.
    s, sigmas, factors = case
    p = weights(factors)
    assume(((p == 0.0) | (p > 1e-100)).all())  # between them a level is no float
    a = optimal_shifts(s, sigmas, factors)
    needed = np.cumsum((p * s)[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        level = np.where(p > 1e-100, 2.0 * a / np.square(sigmas) / p, 0.0)
    level = np.maximum.accumulate(level)
    multipliers = np.diff(level, prepend=0.0)
    bound = multipliers @ needed - 0.25 * np.square(sigmas * p * level).sum()
    assert total(a, sigmas) <= bound * (1.0 + 1e-9) + 1e-300


@pytest.mark.parametrize("seed", range(12))
def test_no_general_solver_finds_better_shifts(seed):
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(2, 6))
    s, sigmas = rng.uniform(0.0, 2.0, steps), rng.uniform(0.5, 2.0, steps)
    factors = rng.uniform(0.3, 1.0, steps) if seed % 2 else np.ones(steps)

    def shifts_left(a):
        z, left = 0.0, []
        for shift, move, factor in zip(a, s, factors, strict=True):
            z = factor * z + move - shift
            left.append(z)
        return np.array(left)

    found = minimize(
        lambda a: np.square(a / sigmas).sum(),
        s,
        constraints=[
            {"type": "ineq", "fun": lambda a: shifts_left(a)[:-1]},
            {"type": "eq", "fun": lambda a: shifts_left(a)[-1]},
        ],
        bounds=[(0.0, None)] * steps,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    ours = total(optimal_shifts(s, sigmas, factors), sigmas)
    assert ours == pytest.approx(found.fun, rel=1e-6)


def test_shifts_without_contractions_are_an_isotonic_regression():
    from scipy.optimize import isotonic_regression

    rng = np.random.default_rng(3)
    s, sigmas = rng.exponential(size=400), rng.uniform(0.3, 3.0, 400)
    fit = isotonic_regression(s / sigmas**2, weights=sigmas**2).x
    np.testing.assert_allclose(optimal_shifts(s, sigmas), fit * sigmas**2, rtol=1e-9)


def test_shifts_stay_safe_and_optimal_where_products_of_contractions_are_no_floats():
    # 0.05^300 is 0: the shifts of the last steps are those of a shorter iteration
    rng = np.random.default_rng(4)
    s = rng.exponential(size=300)
    whole = optimal_shifts(s, 1.0, 0.05)
    assert left_over(whole, s, [0.05] * 300) == 0
    np.testing.assert_allclose(whole[-100:], optimal_shifts(s[-200:], 1.0, 0.05)[-100:], rtol=1e-9)
    long = rng.exponential(size=10_000)
    found = optimal_shifts(long, 1.0, 0.9)[-100:]
    np.testing.assert_allclose(found, optimal_shifts(long[-500:], 1.0, 0.9)[-100:], rtol=1e-6)


def test_a_forgetful_step_makes_what_came_before_it_free():
    a = optimal_shifts([5.0, 0.0, 1.0], 1.0, [1.0, 1.0, 0.0])
    assert a.tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-12, 1e12, 1e150])
@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
def test_the_shifts_scale_with_the_moves_and_not_with_the_noise(size, scale):
    s, sigmas = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    expected = optimal_shifts(s, sigmas, 0.7)
    found = optimal_shifts(s * size, sigmas * scale, 0.7)
    np.testing.assert_allclose(found / size, expected, rtol=1e-9)
    assert left_over(found, s * size, [0.7] * 3) == 0


def test_noises_of_very_different_sizes_are_used_where_they_are_large():
    a = optimal_shifts([1.0, 0.0, 0.0], [1e-200, 1.0, 1e-200])
    assert left_over(a, [1.0, 0.0, 0.0], [1.0] * 3) == 0
    assert a[1] == pytest.approx(1.0)


def test_rounding_does_not_pile_up_on_a_last_step_that_hides_nothing():
    s = np.append(np.sort(np.random.default_rng(5).exponential(size=500))[::-1], 0.0)
    sigmas = np.append(np.ones(500), 1e-14)
    shorter = iteration_loss(s[:-1], 1.0, 2.0)
    assert iteration_loss(s, sigmas, 2.0) == pytest.approx(shorter, rel=1e-9)


# The loss


def record_losses(
    correlations, n, distance, sigma, alpha, *, batch_size=1, contractions=None, **gradients
):
    """Return the loss of each record."""
    return np.array(
        [
            iteration_loss(
                worst_shifts(
                    correlations, n, distance, batch_size=batch_size, records=[i], **gradients
                ),
                sigma,
                alpha,
                contractions=contractions,
            )
            for i in range(n)
        ]
    )


@given(iterations(), st.floats(1.01, 100.0))
def test_the_optimal_loss_is_at_most_that_of_each_step_on_its_own(case, alpha):
    s, sigmas, factors = case
    best = iteration_loss(s, sigmas, alpha, contractions=factors)
    each = 0.5 * alpha * total(s, sigmas)
    assert best <= each * (1.0 + 1e-9) + 1e-290


@given(iterations(), st.floats(0.0, 2.0), st.integers(0, 7))
def test_the_loss_never_falls_when_a_move_grows(case, more, where):
    s, sigmas, factors = case
    larger = s.copy()
    larger[where % len(s)] += more
    before = iteration_loss(s, sigmas, 2.0, contractions=factors)
    assert before <= iteration_loss(larger, sigmas, 2.0, contractions=factors) * (1.0 + SLACK)


@pytest.mark.parametrize("alpha", [1.0001, 2.0, 50.0])
@pytest.mark.parametrize("c", [1.0, 0.9, 0.3])
@pytest.mark.parametrize("seed", range(8))
def test_the_loss_is_never_below_that_of_a_linear_gaussian_iteration(seed, c, alpha):
    # W_t = c W_(t-1) + X_t + N_t, X jointly Gaussian: both distributions of W_T are Gaussian, of
    # the same variance v and of means m apart, and D_alpha is exactly alpha m^2 / (2 v).
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    table = random_correlations(rng, n, rank=1 if seed % 3 == 0 else None)
    sigmas, d = rng.uniform(0.2, 2.0, n), 1.7
    p = c ** np.arange(n - 1, -1, -1.0)
    for i in range(n):
        given = table - np.outer(table[:, i], table[:, i])
        v = p @ given @ p + np.square(p * sigmas).sum()
        exact = 0.5 * alpha * (p @ table[:, i] * d) ** 2 / v
        s = worst_shifts(table, len(table), d, records=[i])
        assert iteration_loss(s, sigmas, alpha, contractions=c) >= exact * (1.0 - 1e-13)


def test_the_loss_is_attained_where_the_moves_do_not_grow_and_all_go_one_way():
    # known records that all move with the secret: W_T moves by the sum, under T noises
    s = np.array([2.0, 1.5, 1.0, 0.25])
    exact = 0.5 * 3.0 * Fraction(s.sum()) ** 2 / 4
    bound = iteration_loss(s, 1.0, 3.0)
    assert exact <= bound <= float(exact) * (1.0 + SLACK)


@pytest.mark.parametrize("seed", range(6))
def test_the_loss_is_never_below_that_of_a_random_finite_coupling(seed):
    # W_T = sum of X_t + N_t: two mixtures of Gaussians, their divergence by quadrature
    rng = np.random.default_rng(seed)
    pairs, steps, alpha = int(rng.integers(1, 5)), int(rng.integers(1, 4)), 2.0
    x, y = (rng.integers(-2, 3, (pairs, steps)).astype(float) for _ in range(2))
    masses = rng.dirichlet(np.ones(pairs))
    v = float(steps)

    def density(rows, at):
        return float(masses @ np.exp(-np.square(at - rows.sum(axis=1)) / (2.0 * v)))

    unit = (2.0 * np.pi * v) ** -0.5
    integral = quad(lambda w: unit * density(x, w) ** 2 / density(y, w), -25, 25, limit=200)[0]
    bound = iteration_loss(joint_shifts(x, y, masses), 1.0, alpha)
    assert bound >= log(integral) - 1e-9


def test_couplings_of_the_marginals_do_not_bound_the_loss_and_one_joint_coupling_does():
    # 004, Thm 5.2 as printed: X_2 = X_1 against X_2 = -X_1, a fair sign; W_2 ~ +-2 + N against N
    with mpmath.workdps(30):
        exact = mpmath.log(
            mpmath.quad(
                lambda w: (
                    ((mpmath.npdf(w, -2, mpmath.sqrt(2)) + mpmath.npdf(w, 2, mpmath.sqrt(2))) / 2)
                    ** 2
                    / mpmath.npdf(w, 0, mpmath.sqrt(2))
                ),
                mpmath.linspace(-30, 30, 13),
            )
        )
    assert float(exact) == pytest.approx(1.325003, abs=1e-6)
    marginal = [0.0, 0.0]  # the steps' marginals agree
    assert iteration_loss(marginal, 1.0, 2.0) == 0.0
    joint = joint_shifts([[1, 1], [-1, -1]], [[1, -1], [-1, 1]], [0.5, 0.5])
    assert joint == pytest.approx([0.0, 2.0])
    assert iteration_loss(joint, 1.0, 2.0) >= float(exact)


def test_other_noises_use_their_own_divergence_and_stay_above_the_exact_loss():
    alpha, s = 2.0, [1.0, 0.0]
    assert iteration_loss([3.0], 2.0, alpha, noise="laplace") == pytest.approx(
        log(2.0 / 3.0 * exp(1.5) + exp(-3.0) / 3.0)
    )

    def density(w):  # of the sum of two Laplace noises
        return (1.0 + abs(w)) * exp(-abs(w)) / 4.0

    exact = log(
        quad(lambda w: density(w) ** 2 / density(w - 1.0), -60, 60, points=[0, 1], limit=200)[0]
    )
    assert iteration_loss(s, 1.0, alpha, noise="laplace") >= exact
    family = GeneralizedCauchy(1.0, k=4.0)
    assert iteration_loss([1.0], 2.0, alpha, noise=family) == pytest.approx(
        float(family.renyi_divergence([0.5], alpha)), rel=1e-9
    )
    # a long move costs Cauchy noise little more than half of it: splitting it does not pay
    whole, half = (iteration_loss([x], 1.0, alpha, noise="cauchy") for x in (1e6, 5e5))
    assert iteration_loss([1e6, 0.0], 1.0, alpha, noise="cauchy") == whole < half * 2.0 / 1.5


def test_nothing_that_moves_loses_nothing():
    assert iteration_loss([0.0, 0.0], 1e-300, 2.0) == 0.0
    assert optimal_shifts([0.0, 0.0], 1.0).tolist() == [0.0, 0.0]
    assert smallest_sigma([0.0, 0.0], 2.0, 1.0) == 0.0


@pytest.mark.parametrize(("s", "sigma", "alpha"), [(1e-200, 1.0, 2.0), (1e-200, 1e100, 1e300)])
def test_a_loss_too_small_for_a_square_is_not_rounded_to_less(s, sigma, alpha):
    exact = Fraction(alpha) * Fraction(s) ** 2 / (2 * Fraction(sigma) ** 2)
    assert Fraction(iteration_loss([s], sigma, alpha)) >= exact


def test_a_loss_that_is_no_float_is_infinite():
    assert iteration_loss([1e200, 1.0], 1e-200, 2.0) == inf


# The figures of 004

STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
EQUAL = {
    "0": [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001],
    "0.1": [1, 0.605, 0.392, 0.361, 0.4205, 0.6962, 1.1881, 2.18405, 5.18162, 10.18081],
    "0.2": [1, 0.72, 0.648, 0.784, 1.152, 2.3328, 4.3264, 8.3232, 20.32128, 40.32064],
    "0.8": [1, 1.62, 3.528, 6.724, 13.122, 32.3208, 64.3204, 128.3202, 320.32008, 640.32004],
    "1": STEPS,
    "1/t": [
        *(1, 1.125, 1.04272222222, 0.857885503275, 0.647186532029, 0.404856973529),
        *(0.269088855105, 0.172756239135, 0.0922849003021, 0.0560322740041),
    ],
    "1/t^2": [
        *(1, 0.78125, 0.428431496914, 0.240178002057, 0.127386855061, 0.0528211280378),
        *(0.0267317235386, 0.0134471233689, 0.00539847783074, 0.00270252085953),
    ],
}
EACH = {
    "0": [1] * 10,
    "0.1": [1, 1.01, 1.04, 1.09, 1.19, 1.49, 1.99, 2.99, 5.99, 10.99],
    "0.2": [1, 1.04, 1.16, 1.36, 1.76, 2.96, 4.96, 8.96, 20.96, 40.96],
    "0.8": [1, 1.64, 3.56, 6.76, 13.16, 32.36, 64.36, 128.36, 320.36, 640.36],
    "1": STEPS,
    "1/t": [
        *(1, 1.25, 1.46361111111, 1.54976773117, 1.59616324391, 1.62513273362),
        *(1.63498390018, 1.63994654601, 1.64293606551, 1.64393456668),
    ],
    "1/t^2": [
        *(1, 1.0625, 1.08035192901, 1.08203658349, 1.08228458801, 1.08232064598),
        *(1.08232290534, 1.08232319236, 1.08232323105, 1.08232323338),
    ],
}


@pytest.mark.parametrize("curve", list(EQUAL))
def test_figures_5_and_6_are_reproduced_and_the_optimal_shifts_are_no_worse(curve):
    for steps, equal, each in zip(STEPS, EQUAL[curve], EACH[curve], strict=True):
        t = np.arange(1.0, steps + 1.0)
        named = {"1/t": 1.0 / t, "1/t^2": 1.0 / t**2}
        rho = named[curve] if curve in named else np.full(steps, float(curve))
        s = np.where(t == 1.0, 1.0, rho)
        published = [steps * s.mean() ** 2, np.square(s).sum()]  # Prop. F.2 and 6.4
        assert published == pytest.approx([equal, each], rel=1e-9)
        assert iteration_loss(s, 1.0, 2.0) <= min(published) * (1.0 + 1e-9)


@pytest.mark.parametrize("index", [0, 4, 9])
def test_uncorrelated_records_have_the_loss_of_lemma_f1(index):
    # eta 0.3, L 2: s = 2 L eta and noise of sigma eta, so 2 alpha L^2 / (sigma^2 (T - i + 1))
    eta, lip, sigma, alpha = 0.3, 2.0, 1.5, 3.0
    s = worst_shifts(0.0, 10, 1.0, lipschitz=lip, sensitivity=inf, step=eta, records=[index])
    printed = 2.0 * alpha * lip**2 / (sigma**2 * (10 - (index + 1) + 1))
    assert iteration_loss(s, sigma * eta, alpha) == pytest.approx(printed, rel=1e-9)


def test_records_that_are_all_equal_have_the_loss_of_group_privacy():
    s = worst_shifts(1.0, 10, 2.0, records=[3])
    group = 10 * Fraction(4) * 4 / (2 * Fraction(1.5) ** 2)
    assert group <= Fraction(iteration_loss(s, 1.5, 4.0)) <= group * Fraction(1.0 + 1e-9)


# The smallest noise


@given(iterations(), st.floats(1.001, 1e4), st.floats(1e-12, 800.0))
def test_the_smallest_sigma_keeps_the_budget_and_none_smaller_does(case, alpha, epsilon):
    s, _, factors = case
    sigma = smallest_sigma(s, alpha, epsilon, contractions=factors)
    if sigma == 0.0:  # nothing moves, or a step forgets what did
        assert iteration_loss(s, 1e-12, alpha, contractions=factors) < 1e-200
        return
    assert iteration_loss(s, sigma, alpha, contractions=factors) <= epsilon
    below = sigma * (1.0 - 1e-9)
    assert iteration_loss(s, below, alpha, contractions=factors) > epsilon


def test_a_budget_out_of_reach_of_any_noise_is_an_error():
    with pytest.raises(ValueError, match="epsilon must be at least 1e-250"):
        smallest_sigma([1.0], 2.0, 1e-260)
    with pytest.raises(OverflowError, match="no finite noise"):
        smallest_sigma([1e300], 1e300, 1e-250)


# Every record


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shifts_average_the_records_of_each_batch(size):
    rng = np.random.default_rng(size)
    table = random_correlations(rng, 7)
    for i in range(7):
        moves = [0.5 * min(2.0 * 0.3, 2.0 * abs(table[i, j]) * 0.4) for j in range(7)]
        expected = [sum(moves[k : k + size]) / size for k in range(0, 7, size)]
        found = worst_shifts(
            table, 7, 0.4, batch_size=size, lipschitz=0.3, sensitivity=2.0, step=0.5, records=[i]
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert np.all(found >= np.array(expected) * (1.0 - 1e-15))


def test_lags_and_one_correlation_agree_with_the_matrix_they_stand_for():
    def of_record(table, i):
        return worst_shifts(table, 6, 2.0, records=[i]).tolist()

    lags = 0.6 ** np.arange(6)
    matrix = lags[np.abs(np.subtract.outer(np.arange(6), np.arange(6)))]
    for i in range(6):
        assert of_record(lags, i) == of_record(matrix, i)
        assert of_record(-0.1, i) == of_record(np.where(np.eye(6) > 0, 1.0, -0.1), i)
    short = worst_shifts([1.0, 0.4], 5, 1.0, records=[2])
    np.testing.assert_allclose(short, [0.0, 0.4, 1.0, 0.4, 0.0], rtol=1e-12)


@pytest.mark.parametrize("pairs", [0, 10**9])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_the_worst_moves_lose_at_least_what_any_record_loses(monkeypatch, seed, size, pairs):
    monkeypatch.setattr(displacements, "_PAIRS", pairs)  # 0: lags by size, whatever their order
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    table = random_correlations(rng, n)
    if seed % 3 == 0:
        table = np.array([1.0, 0.1, 0.45, 0.0, 0.2])[:n]
    elif seed % 3 == 1:
        table = 0.8 ** np.arange(n)
    steps = -(-n // size)
    factors, sigmas = rng.uniform(0.4, 1.0, steps), rng.uniform(0.5, 2.0, steps)
    worst = worst_shifts(table, n, 1.3, batch_size=size)
    for i in range(n):
        s = worst_shifts(table, n, 1.3, batch_size=size, records=[i])
        p = weights(factors)
        sums, sums_of_record = (np.cumsum((p * moves)[::-1]) for moves in (worst, s))
        assert np.all(sums >= sums_of_record * (1.0 - 1e-14))
        for noise in ("gaussian", "laplace"):
            loss = iteration_loss(s, sigmas, 2.0, contractions=factors, noise=noise)
            top = iteration_loss(worst, sigmas, 2.0, contractions=factors, noise=noise)
            assert loss <= top * (1.0 + SLACK)


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.05, 1.0])
@pytest.mark.parametrize(("n", "size"), [(9, 1), (9, 3), (10, 4)])
@pytest.mark.parametrize("contractions", [None, 0.8])
def test_the_worst_moves_are_those_of_the_last_record_for_equal_correlations(
    rho, n, size, contractions
):
    losses = record_losses(
        rho, n, 1.0, sigma=2.0, alpha=3.0, batch_size=size, contractions=contractions
    )
    worst = worst_shifts(rho, n, 1.0, batch_size=size)
    bound = iteration_loss(worst, 2.0, 3.0, contractions=contractions)
    assert bound == pytest.approx(losses.max(), rel=1e-9)
    assert losses[-1] == pytest.approx(losses.max(), rel=1e-9)
    early = worst_shifts(rho, n, 1.0, batch_size=size, records=[2, 0])
    loss = iteration_loss(early, 2.0, 3.0, contractions=contractions)
    assert loss == pytest.approx(max(losses[[0, 2]]), rel=1e-9)


def test_neighbours_make_a_record_inside_worse_than_the_last_and_are_covered():
    losses = record_losses([1.0, 0.5, 0.1], 12, 1.0, sigma=1.0, alpha=2.0)
    assert np.argmax(losses) == 10
    worst = iteration_loss(worst_shifts([1.0, 0.5, 0.1], 12, 1.0), 1.0, 2.0)
    assert losses.max() <= worst <= 1.1 * losses.max()


def test_a_million_records_in_batches_take_one_sequence_of_moves():
    lags = 0.5 ** np.arange(60)
    for table in (0.01, lags):
        worst = worst_shifts(table, 1_000_000, 1.0, batch_size=100)
        assert worst.shape == (10_000,)
        assert smallest_sigma(worst, 2.0, 1.0, contractions=0.99) > 0.0


# Contractions


@given(st.floats(1e-6, 1e6), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_contraction_is_never_too_small(beta, share, part):
    eta, mu = 2.0 / beta * share * (1.0 - 1e-15), beta * part
    assume(eta > 0.0)
    c = contraction(eta, beta, mu)
    exact = max(abs(1 - Fraction(eta) * Fraction(k)) for k in (mu, beta))
    assert 0.0 <= c <= 1.0
    assert exact <= Fraction(c) <= exact + Fraction(1, 2**51)


@pytest.mark.parametrize("beta", [0.3, 1.0, 3.0, 7.7, 1e10])
def test_steps_up_to_the_largest_named_are_accepted_and_no_longer_ones(beta):
    with pytest.raises(ValueError, match="step must be at most 2 / smoothness") as error:
        contraction(2.1 / beta, beta)
    largest = float(str(error.value).split("here ")[1].split(",")[0])
    assert contraction(largest, beta) <= 1.0
    with pytest.raises(ValueError, match="not a contraction"):
        contraction(nextafter(largest, inf), beta)


def test_the_gradient_step_of_a_quadratic_brings_points_as_much_closer_as_stated():
    hessian = np.diag([0.5, 1.0, 4.0])
    for step in (0.1, 0.4, 0.5):
        rate = np.abs(np.linalg.eigvalsh(np.eye(3) - step * hessian)).max()
        assert contraction(step, 4.0, 0.5) == pytest.approx(rate)


# Bad input

OK = ([1.0, 0.5], 1.0, 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iteration_loss([], 1.0, 2.0), "s must be a sequence of numbers"),
        (lambda: iteration_loss([[1.0]], 1.0, 2.0), "s must be a sequence of numbers"),
        (lambda: iteration_loss([-1.0], 1.0, 2.0), "s must be finite and not negative, got -1"),
        (lambda: iteration_loss([np.nan], 1.0, 2.0), "s must be finite"),
        (lambda: iteration_loss([1.0], 0.0, 2.0), "sigmas must be positive and finite"),
        (lambda: iteration_loss([1.0], [1.0, 1.0], 2.0), "sigmas must be one number or 1"),
        (lambda: iteration_loss([1.0], 1.0, 1.0), "alpha must be finite and above 1"),
        (lambda: iteration_loss([1.0], 1.0, 2.0, contractions=1.01), "lie in .0, 1., got 1.01"),
        (lambda: iteration_loss([1.0], 1.0, 2.0, contractions=np.nan), "lie in .0, 1., got nan"),
        (lambda: iteration_loss(*OK, noise="poisson"), "noise must be one of"),
        (lambda: worst_shifts(0.5, 2, 1e300, step=1e300), "beyond all floats"),
        (lambda: worst_shifts(0.5, 3, 0.0), "distance must be positive"),
        (lambda: worst_shifts(0.5, 3, 1.0, sensitivity=inf), "both infinite"),
        (lambda: worst_shifts(0.5, 3, 1.0, lipschitz=0.0), "lipschitz must be pos"),
        (lambda: worst_shifts(1.5, 3, 1.0), "numbers in .-1, 1."),
        (lambda: worst_shifts(np.nan, 3, 1.0), "numbers in .-1, 1."),
        (lambda: worst_shifts(-0.6, 3, 1.0), "the least is -0.5"),
        (lambda: worst_shifts([0.5, 0.5], 2, 1.0), "begin with 1"),
        (lambda: worst_shifts([1.0, 0.9, 0.0], 3, 1.0), "positive semidefinite"),
        (lambda: worst_shifts([[1.0, 0.2], [0.3, 1.0]], 2, 1.0), "symmetric"),
        (lambda: worst_shifts([[0.9, 0.2], [0.2, 1.0]], 2, 1.0), "ones on the diagonal"),
        (lambda: worst_shifts(np.eye(3), 2, 1.0), "must be 2 x 2"),
        (
            lambda: worst_shifts([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]], 3, 1.0),
            "smallest eigenvalue is -0.8",
        ),
        (lambda: worst_shifts([1.0, 0.6], 10_000, 1.0), "positive semidefinite"),
        (lambda: worst_shifts(0.5, 3, 1.0, records=[]), "records is empty"),
        (lambda: worst_shifts(0.5, 3, 1.0, records=[3]), "records must be below 3"),
        (lambda: worst_shifts(0.5, 3, 1.0, batch_size=0), "batch_size must be at least 1"),
        (lambda: joint_shifts([[1.0]], [[1.0, 2.0]]), "same shape"),
        (lambda: joint_shifts([[inf]], [[1.0]]), "must be finite"),
        (lambda: joint_shifts([[1.0]], [[2.0]], [0.0]), "one of them positive"),
        (lambda: contraction(0.1, 1.0, 2.0), "strong_convexity must be at most smoothness"),
        (lambda: contraction(-0.1, 1.0), "step must be positive"),
    ],
)
def test_bad_input_is_named_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_noise_that_is_no_family_is_a_type_error():
    with pytest.raises(TypeError, match="noise must be one of"):
        iteration_loss([1.0], 1.0, 2.0, noise=3)
    assert iteration_loss([1.0], 1.0, 2.0, noise=Gaussian(1.0)) == iteration_loss([1.0], 1.0, 2.0)


def test_joint_shifts_drop_pairs_without_mass_and_use_norms_of_rows():
    left, right = [[[3.0, 4.0]], [[9.0, 9.0]]], [[[0.0, 0.0]], [[0.0, 0.0]]]
    assert joint_shifts(left, right, [1.0, 0.0]) == pytest.approx([5.0])
    assert joint_shifts(left, right, [1.0, 0.0], lipschitz=0.5, step=0.1) == pytest.approx([0.1])
    assert joint_shifts(left, right)[0] == pytest.approx(9.0 * 2**0.5)


def test_of_few_pairs_of_records_no_sum_to_the_end_exceeds_that_of_a_record():
    lags = [1.0, 0.0, 0.5]
    worst = np.cumsum(worst_shifts(lags, 30, 1.0)[::-1])
    sums = [np.cumsum(worst_shifts(lags, 30, 1.0, records=[i])[::-1]) for i in range(30)]
    np.testing.assert_allclose(worst, np.max(sums, axis=0), rtol=1e-12)
