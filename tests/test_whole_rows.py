"""What solvers find, made channels in whole numbers: never above the budget, whatever they say."""

from itertools import permutations

import numpy as np
import pytest
from channel_oracle import costs_between
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sklearn_puffer._channels import ChannelProblem, Family, whole_rows
from sklearn_puffer._losses import channel_floor, channel_losses
from sklearn_puffer._noise import WHOLE
from sklearn_puffer.notions import Pufferfish


def problem_of(families, n, **options):
    """Return a problem of cells in a line."""
    weights = np.sum([family.masses.sum(axis=0) for family in families], axis=0)
    costs = costs_between(np.arange(n))
    return ChannelProblem(families, weights / weights.sum(), costs, **options)


def distributions_of(problem):
    """Return each family's distributions over all cells and its ordered pairs, by other means."""
    for family in problem.families:
        distributions = family.masses / family.masses.sum(axis=1, keepdims=True)
        pairs = [tuple(sorted(pair)) for pair in permutations(range(len(distributions)), 2)]
        if family.pairs is not None:
            pairs = [tuple(sorted(map(int, pair))) for pair in family.pairs]
        yield distributions, sorted({(s, t) for s, t in pairs} | {(t, s) for s, t in pairs})


def optimum(problem, tolerance=1e-7):
    """Return the dense program's rows, (n, n), and its value."""
    n = problem.n_cells
    factor, rows, limits = np.exp(problem.epsilon), [], []
    n_pairs = sum(len(pairs) for _, pairs in distributions_of(problem))
    n_excesses = n_pairs * n if problem.delta else 0
    number = 0
    for distributions, pairs in distributions_of(problem):
        for s, t in pairs:
            for y in range(n):
                row = np.zeros(n * n + n_excesses)
                row[y : n * n : n] = distributions[s] - factor * distributions[t]
                if problem.delta:
                    row[n * n + number * n + y] = -1.0
                rows.append(row)
                limits.append(0.0)
            if problem.delta:
                row = np.zeros(n * n + n_excesses)
                row[n * n + number * n : n * n + (number + 1) * n] = 1.0
                rows.append(row)
                limits.append(problem.delta)
            number += 1
    if problem.floor is not None:
        for x, other in permutations(range(n), 2):
            for y in range(n):
                row = np.zeros(n * n + n_excesses)
                row[x * n + y], row[other * n + y] = 1.0, -np.exp(problem.floor)
                rows.append(row)
                limits.append(0.0)
    sums = np.zeros((n, n * n + n_excesses))
    for x in range(n):
        sums[x, x * n : (x + 1) * n] = 1.0
    price = (problem.weights[:, None] * problem.costs).ravel()
    price = np.append(price, np.zeros(n_excesses))
    bounds = np.array([(0.0, 1.0)] * (n * n) + [(0.0, None)] * n_excesses, dtype=object)
    found = linprog(
        price,
        A_ub=np.array(rows) if rows else None,
        b_ub=limits or None,
        A_eq=sums,
        b_eq=np.ones(n),
        bounds=list(map(tuple, bounds)),
        options={"primal_feasibility_tolerance": tolerance},
    )
    assert found.status == 0
    return found.x[: n * n].reshape(n, n), found.fun


def matrix_of(rows):
    matrix = np.zeros((rows.n_cells, rows.n_cells))
    matrix[np.repeat(np.arange(rows.n_cells), np.diff(rows.starts)), rows.targets] = rows.shares
    return matrix / WHOLE


def check(problem, rows):
    """Hold rows against their budget."""
    notion = Pufferfish(problem.epsilon, problem.delta)
    for family in problem.families:
        pairs = family.pairs
        if pairs is None:
            pairs = [(s, t) for s, t in permutations(range(len(family.masses)), 2) if s < t]
        losses = channel_losses(rows, family.masses, pairs, notion)
        assert losses[..., 1].max(initial=0.0) <= notion.budget


def price_of(problem, rows):
    return float((problem.weights[:, None] * problem.costs * matrix_of(rows)).sum())


def random_problem(rng, n, n_secrets, **options):
    masses = rng.integers(0, 50, (n_secrets, n)) ** 2 + (rng.random((n_secrets, n)) < 0.8)
    masses[:, rng.integers(n)] += 1
    options.setdefault("epsilon", float(rng.choice([0.1, 0.5, 1.0, 3.0])))
    return problem_of([Family(masses)], n, **options)


# ------------------------------------------------------------------------------ what solvers find


@pytest.mark.parametrize("n_secrets", [2, 3, 5])
@pytest.mark.parametrize("delta", [0.0, 0.05, 1e-6])
def test_an_optimum_keeps_its_budget_exactly_and_costs_no_more(n_secrets, delta):
    rng = np.random.default_rng([n_secrets, int(delta * 1e7)])
    for n in (1, 2, 3, 8, 14):
        problem = random_problem(rng, n, n_secrets, delta=delta)
        matrix, value = optimum(problem)
        rows = whole_rows(problem, matrix)
        check(problem, rows)
        assert price_of(problem, rows) <= value * (1.0 + 1e-5) + 1e-5 * n


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_what_is_off_by_the_tolerance_of_a_solver_keeps_its_budget_at_hardly_any_cost(delta):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 8, 2 + seed % 3, delta=delta)
        matrix, value = optimum(problem)
        noisy = matrix * (1.0 + 1e-7 * rng.standard_normal(matrix.shape))
        thin = matrix + 1e-9 * (rng.random(matrix.shape) - 0.3)  # some below 0
        for shares in (noisy, thin):
            rows = whole_rows(problem, shares)
            check(problem, rows)
            assert price_of(problem, rows) <= value + 1e-3


def test_rows_within_the_budget_stay_as_they_are():
    problem = problem_of([Family(np.array([[2, 3, 4], [4, 3, 2]]))], 3, epsilon=1.0)
    assert np.array_equal(matrix_of(whole_rows(problem, np.eye(3))), np.eye(3))


# ----------------------------------------------------------------------------------- what is forged


def test_thin_cells_that_one_secret_alone_has_cost_hardly_any_row_its_place():
    """A program with a tolerance of 1e-7 calls this optimal, and the loss is infinite."""
    masses = np.array([[10**12, 10**12, 1, 0], [10**12, 10**12, 0, 1]])
    problem = problem_of([Family(masses)], 4, epsilon=1.0)
    rows = whole_rows(problem, np.eye(4))
    check(problem, rows)
    assert (np.diag(matrix_of(rows)) > 1.0 - 1e-11).all()


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("floor", [None, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_no_forged_rows_come_out_above_the_budget(seed, delta, floor):
    rng = np.random.default_rng([seed, int(10 * delta)])
    n = int(rng.integers(1, 9))
    problem = random_problem(rng, n, int(rng.integers(2, 6)), delta=delta, floor=floor)
    forged = [
        np.eye(n),
        rng.random((n, n)),
        np.zeros((n, n)),
        rng.standard_normal((n, n)) * 1e300,
        np.full((n, n), np.nan),
        np.where(np.eye(n) > 0.0, 1.0, 1e-12),
        np.where(np.roll(np.eye(n), 1, axis=1) > 0.0, np.inf, 0.0),
    ]
    for shares in forged:
        rows = whole_rows(problem, shares)
        check(problem, rows)
        if floor is not None:
            assert told(rows) <= floor


def told(rows):
    """Return the largest log ratio of two shares of one output."""
    matrix = matrix_of(rows)
    ratios = [column.max() / column.min() for column in matrix.T if column.any()]
    return float(np.log(max(ratios)))


counts = st.integers(0, 3) | st.integers(0, 2**50)
shares = st.floats(0.0, 1.0) | st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def forgeries(draw):
    """Draw a problem of any kind that has a channel, and whatever a solver may say of it."""
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    distribution = st.lists(counts, min_size=n, max_size=n).filter(any)
    families = [Family(np.array(draw(st.lists(distribution, min_size=k, max_size=k))))]
    if draw(st.booleans()):
        families.append(Family(np.array(draw(st.lists(distribution, min_size=2, max_size=2)))))
    problem = ChannelProblem(
        families,
        np.full(n, 1.0 / n),
        costs_between(np.arange(n)),
        epsilon=draw(st.sampled_from([1e-6, 0.1, 1.0, 30.0])),
        delta=draw(st.sampled_from([0.0, 1e-12, 0.01, 0.9])),
        floor=draw(st.sampled_from([None, 1e-9, 1e-3, 1.0, 50.0])),
    )
    matrix = draw(st.lists(shares, min_size=n * n, max_size=n * n))
    return problem, np.reshape(matrix, (n, n))


@settings(parent=settings.default, max_examples=settings.default.max_examples // 3)
@given(forgeries())
def test_whatever_a_solver_says_the_budget_is_kept_and_the_floor(forgery):
    problem, found = forgery
    rows = whole_rows(problem, found)
    check(problem, rows)
    if problem.floor is not None:
        assert channel_floor(rows) <= problem.floor


def test_masses_far_apart_keep_their_budget():
    rng = np.random.default_rng(0)
    masses = 2 ** rng.integers(0, 60, (3, 7))
    problem = problem_of([Family(masses)], 7, epsilon=0.5)
    matrix, _ = optimum(problem)
    check(problem, whole_rows(problem, matrix))
    check(problem, whole_rows(problem, np.eye(7)))


def test_distributions_that_share_no_cell_become_one_and_so_does_a_single_cell():
    apart = problem_of([Family(np.array([[3, 1, 0, 0], [0, 0, 1, 3]]))], 4, epsilon=0.1)
    rows = whole_rows(apart, np.eye(4))
    check(apart, rows)
    assert np.ptp(matrix_of(rows), axis=0).max() < 0.05  # hardly a difference between cells
    single = problem_of([Family(np.array([[3], [5]]))], 1, epsilon=0.1)
    assert matrix_of(whole_rows(single, np.eye(1))).tolist() == [[1.0]]


def test_a_huge_budget_changes_nothing_but_what_one_secret_alone_has():
    masses = np.array([[5, 1, 0], [1, 5, 1]])
    problem = problem_of([Family(masses)], 3, epsilon=5000.0)
    rows = whole_rows(problem, np.eye(3))
    check(problem, rows)
    assert (np.diag(matrix_of(rows))[:2] > 1.0 - 1e-12).all()


# ---------------------------------------------------------------------------------------- families


def several_families(rng, **options):
    """Return a problem of three adversaries, one of whom knows of two pairs alone."""
    masses = rng.integers(1, 40, (3, 12))
    thin = rng.integers(1, 40, (3, 12)) * (np.arange(12) > 3)
    pairs = np.array([[0, 1], [2, 3]])
    families = [Family(masses), Family(thin), Family(rng.integers(1, 40, (4, 12)), pairs)]
    return problem_of(families, 12, **options)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_all_families_keep_the_budget_at_once(delta):
    rng = np.random.default_rng(7)
    problem = several_families(rng, epsilon=1.0, delta=delta)
    matrix, value = optimum(problem)
    noisy = matrix * (1.0 + 1e-8 * rng.standard_normal(matrix.shape))
    for shares in (matrix, noisy):
        rows = whole_rows(problem, shares)
        check(problem, rows)
        assert price_of(problem, rows) <= value + 1e-3
    check(problem, whole_rows(problem, np.eye(12)))


def test_pairs_that_are_not_protected_are_not_mended():
    masses = np.array([[9, 1], [1, 9], [8, 2]])
    problem = problem_of([Family(masses, pairs=np.array([[0, 2]]))], 2, epsilon=1.0)
    assert np.array_equal(matrix_of(whole_rows(problem, np.eye(2))), np.eye(2))
    nothing = problem_of([Family(masses, pairs=np.empty((0, 2), dtype=int))], 2, epsilon=1.0)
    assert np.array_equal(matrix_of(whole_rows(nothing, np.eye(2))), np.eye(2))


# ------------------------------------------------------------------------------------- with a floor


@pytest.mark.parametrize("n_secrets", [2, 3])
@pytest.mark.parametrize("floor", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_a_floor_is_kept_by_whole_numbers(n_secrets, floor, delta):
    rng = np.random.default_rng([n_secrets, int(100 * floor)])
    problem = random_problem(rng, 7, n_secrets, epsilon=0.5, floor=floor, delta=delta)
    matrix, value = optimum(problem)
    for shares in (matrix, matrix * (1.0 + 1e-8 * rng.standard_normal(matrix.shape))):
        rows = whole_rows(problem, shares)
        check(problem, rows)
        assert told(rows) <= floor
        assert price_of(problem, rows) <= value + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("n_secrets", [2, 3, 5])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_many_optima_cost_no_more_when_they_are_whole(n_secrets, delta):
    for seed in range(40):
        rng = np.random.default_rng([seed, n_secrets])
        problem = random_problem(rng, int(rng.integers(2, 14)), n_secrets, delta=delta)
        matrix, value = optimum(problem)
        rows = whole_rows(problem, matrix)
        check(problem, rows)
        assert price_of(problem, rows) <= value * (1.0 + 1e-5) + 1e-5 * problem.n_cells
        noisy = matrix * (1.0 + 1e-7 * rng.standard_normal(matrix.shape))
        rows = whole_rows(problem, noisy)
        check(problem, rows)
        assert delta > 0.0 or price_of(problem, rows) <= value * (1.0 + 1e-4) + 1e-4
