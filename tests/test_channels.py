"""Channels of least change: linear programs against a dense one in another formulation."""

from dataclasses import replace
from itertools import product

import mpmath
import numpy as np
import pytest
from channel_oracle import costs_between
from scipy.optimize import linprog

from sklearn_puffer._channels import ChannelProblem, Family, find_channel, most_cells


def a_problem(seed, n=None, k=None, **settings):
    """Return random counts over cells of two columns, the second unordered."""
    rng = np.random.default_rng(seed)
    n, k = n or int(rng.integers(1, 9)), k or int(rng.integers(2, 5))
    masses = rng.integers(0, 12, size=(k, n))
    masses[:, rng.integers(n)] += 1
    values = np.column_stack([rng.integers(0, 6, size=n), rng.integers(0, 3, size=n)]).astype(float)
    costs = costs_between(values, np.array([False, True]), np.array([1.5, 2.0]))
    settings = {"epsilon": float(rng.choice([0.1, 0.5, 1.0, 3.0]))} | settings
    return ChannelProblem([Family(masses)], rng.dirichlet(np.ones(n)), costs, **settings)


def any_costs(n, seed):
    """Costs of somebody's own: no metric, not even symmetric."""
    costs = np.random.default_rng(seed).integers(0, 9, size=(n, n)).astype(float)
    np.fill_diagonal(costs, 0.0)
    return costs


def dense_optimum(problem):
    """All of W at once, every ordered pair and output a row of its own; under delta excesses."""
    n = problem.n_cells
    cost = problem.weights[:, None] * problem.costs
    rows, sides, groups = [], [], []
    for family in problem.families:
        distributions = family.distributions
        for s, t in family.ordered_pairs:
            group = []
            for y in range(n):
                row = np.zeros((n, n))
                row[:, y] = distributions[s] - np.exp(problem.epsilon) * distributions[t]
                group.append(len(rows))
                rows.append(row.ravel())
                sides.append(0.0)
            groups.append(group)
    A = np.array(rows).reshape(len(rows), n * n)
    c = cost.ravel()
    if problem.floor is not None:
        for x, other, y in product(range(n), range(n), range(n)):
            row = np.zeros((n, n))
            row[x, y] += 1.0
            row[other, y] -= np.exp(problem.floor)
            rows.append(row.ravel())
            sides.append(0.0)
        A = np.array(rows).reshape(len(rows), n * n)
    if problem.delta:
        total = np.array([[float(i in group) for i in range(len(rows))] for group in groups])
        spent = -np.diag(total.sum(axis=0))  # the rows of a floor have no excess
        A = np.block([[A, spent], [np.zeros((len(groups), n * n)), total]])
        sides = [*sides, *[problem.delta] * len(groups)]
        c = np.concatenate([c, np.zeros(len(rows))])
    sums = np.zeros((n, len(c)))
    sums[:, : n * n] = np.kron(np.eye(n), np.ones(n))
    return linprog(c, A_ub=A, b_ub=sides, A_eq=sums, b_eq=np.ones(n))


def cost_of(problem, W):
    return float((problem.weights[:, None] * problem.costs * W).sum())


def worst_excess(problem, W):
    """Return by how much delta is exceeded by the worst ordered pair, summed over outputs."""
    found = [0.0]
    for family in problem.families:
        released = family.distributions @ W
        for s, t in family.ordered_pairs:
            beyond = released[s] - np.exp(problem.epsilon) * released[t]
            found.append(np.maximum(beyond, 0.0).sum() - problem.delta)
    return max(found)


def assert_optimal(problem):
    """Keep the budget, and cost what the dense optimum does."""
    W, optimum = find_channel(problem), dense_optimum(problem).fun
    assert W.sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    assert worst_excess(problem, W) <= 1e-6
    assert cost_of(problem, W) == pytest.approx(optimum, rel=1e-5, abs=1e-6)
    if problem.floor is not None:
        assert (W.max(axis=0) <= np.exp(problem.floor) * W.min(axis=0) + 1e-6).all()


SOME = {
    "plain": {},
    "delta": {"delta": 0.03},
    "two distributions": {"k": 2},
    "two distributions, delta": {"k": 2, "delta": 0.1},
    "floor": {"floor": 0.4},
    "floor, delta": {"floor": 0.4, "delta": 0.05},
    "families": {"n": 7, "k": 3, "families": True},
    "families, delta": {"n": 7, "k": 3, "delta": 0.05, "families": True},
}


def some_problem(kind, seed):
    settings, several = dict(SOME[kind]), "families" in SOME[kind]
    settings.pop("families", None)
    problem = a_problem(seed, **settings)
    return replace(problem, families=[*problem.families, *further(seed)]) if several else problem


def further(seed):
    """Return a family of two pairs with mass in four of seven cells, and one of one pair."""
    masses = np.zeros((3, 7), dtype=np.int64)
    masses[:, [0, 2, 3, 6]] = np.random.default_rng(seed).integers(1, 9, size=(3, 4))
    some = Family(masses, pairs=np.array([[0, 1], [1, 2]]))
    return [some, Family(np.random.default_rng(seed + 1).integers(1, 9, size=(2, 7)))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", SOME)
def test_the_channel_found_is_the_dense_optimum(kind, seed):
    problem = some_problem(kind, seed)
    if dense_optimum(problem).status == 0:
        assert_optimal(problem)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOME)
def test_the_channel_found_is_the_dense_optimum_on_a_thousand_instances(kind):
    for seed in range(100, 250):
        problem = some_problem(kind, seed)
        if dense_optimum(problem).status == 0:
            assert_optimal(problem)


def several(masses, epsilon=1.0):
    masses = np.asarray(masses)
    n = masses.shape[1]
    costs = costs_between(np.arange(n))
    weights = masses.sum(axis=0) / masses.sum()
    return ChannelProblem([Family(masses)], weights, costs, epsilon)


@pytest.mark.parametrize(
    "masses",
    [
        [[1], [3]],
        [[2, 3, 1], [2, 3, 1]],
        [[1, 0, 0], [0, 0, 1]],
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 1]],
        [[10**12, 1, 1], [1, 10**12, 1]],
        [[10**12, 1, 1], [1, 10**12, 1], [1, 1, 10**12]],
        [[5, 0, 5, 1], [0, 5, 5, 1]],
        np.arange(50)[:, None] + np.arange(4) + 1,
        [[1, 2**40, 0], [2**40, 1, 3]],
    ],
)
def test_degenerate_distributions_have_a_channel(masses):
    assert_optimal(several(masses))


def test_constant_columns_make_every_channel_free():
    problem = several([[1, 2, 3], [3, 2, 1], [1, 1, 1]])
    costs = np.zeros((3, 3))
    problem = ChannelProblem(problem.families, problem.weights, costs, 0.1)
    assert cost_of(problem, find_channel(problem)) == 0.0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_vertex_has_at_most_k_entries_a_cell(k):
    problem = a_problem(k, n=30, k=k)
    assert (find_channel(problem) > 0.0).sum() <= k * problem.n_cells


def test_cells_of_no_weight_are_moved_for_nothing():
    for seed in range(20):
        problem = a_problem(seed, n=7, k=2)
        weights = np.where(np.arange(7) % 3 == 0, 0.0, problem.weights)
        problem = ChannelProblem(
            problem.families, weights / weights.sum(), problem.costs, problem.epsilon
        )
        assert_optimal(problem)


def counted(table, column, secret, epsilon):
    """Return the problem of one column, changes in its own numbers, under counted distributions."""
    values, cells = np.unique(table[column], return_inverse=True)
    secrets, rows = np.unique(table[secret].astype(str), return_inverse=True)
    masses = np.zeros((len(secrets), len(values)), dtype=np.int64)
    np.add.at(masses, (rows, cells), 1)
    costs = costs_between(values)
    return ChannelProblem([Family(masses)], masses.sum(axis=0) / len(table), costs, epsilon)


@pytest.mark.tables
@pytest.mark.parametrize(
    ("name", "column", "secret", "epsilon", "expected"),
    [
        ("adult", "education-num", "race", 1.0, 0.314),
        ("adult", "education-num", "race", 0.1, 1.405),
        ("adult", "hours-per-week", "sex", 1.0, 0.0455),
        ("adult", "age", "race", 1.0, 0.138),
        ("student-por", "G3", "sex", 0.5, 0.038),
        ("bank-full", "age", "marital", 1.0, 1.90),
    ],
)
def test_one_column_of_a_real_table_changes_by_this_much(
    table, name, column, secret, epsilon, expected
):
    problem = counted(table(name), column, secret, epsilon)
    assert cost_of(problem, find_channel(problem)) == pytest.approx(expected, rel=4e-3)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_costs_need_not_be_a_metric(seed, k):
    problem = a_problem(seed, n=9, k=k)
    assert_optimal(replace(problem, costs=any_costs(9, seed)))


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 30.0])
def test_an_optimum_known_in_closed_form_is_found(epsilon):
    # distributions at different points: 1 / (1 + e^epsilon) of each cell must move, over a distance
    # of 1
    problem = several([[1, 0], [0, 1]], epsilon)
    optimum = float(1 / (1 + mpmath.exp(mpmath.mpf(epsilon))))
    assert cost_of(problem, find_channel(problem)) == pytest.approx(optimum, rel=1e-5, abs=2e-6)


def test_no_more_cells_are_taken_than_a_program_is_solved_for_in_seconds():
    assert most_cells(5, floor=False) == 256
    assert most_cells(5, floor=True) == 100
    assert most_cells(512, floor=False) == 32
