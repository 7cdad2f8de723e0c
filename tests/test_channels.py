"""Channels of least change: linear programs against a dense one in another formulation."""

import numpy as np
import pytest
from scipy.optimize import linprog

from sklearn_puffer._channels import ChannelProblem, Costs, Family, solve_moves


def a_problem(seed, n=None, k=None, **settings):
    """Return random counts over cells of two columns, the second unordered."""
    rng = np.random.default_rng(seed)
    n, k = n or int(rng.integers(1, 9)), k or int(rng.integers(2, 5))
    masses = rng.integers(0, 12, size=(k, n))
    masses[:, rng.integers(n)] += 1
    values = np.column_stack([rng.integers(0, 6, size=n), rng.integers(0, 3, size=n)]).astype(float)
    costs = Costs(values, np.array([False, True]), np.array([1.5, 2.0]))
    settings = {"epsilon": float(rng.choice([0.1, 0.5, 1.0, 3.0]))} | settings
    return ChannelProblem([Family(masses)], rng.dirichlet(np.ones(n)), costs, **settings)


def dense_optimum(problem):
    """All of W at once, every ordered pair and output a row of its own; under delta excesses."""
    n = problem.n_cells
    cost = problem.weights[:, None] * problem.costs.between(np.arange(n), np.arange(n))
    rows, sides, groups = [], [], []
    for family in problem.families:
        laws = family.over(n)
        for s, t in family.ordered_pairs:
            group = []
            for y in range(n):
                row = np.zeros((n, n))
                row[:, y] = laws[s] - np.exp(problem.epsilon) * laws[t]
                group.append(len(rows))
                rows.append(row.ravel())
                sides.append(0.0)
            groups.append(group)
    A = np.array(rows).reshape(len(rows), n * n)
    c = cost.ravel()
    if problem.delta:
        total = np.array([[float(i in group) for i in range(len(rows))] for group in groups])
        A = np.block([[A, -np.eye(len(rows))], [np.zeros((len(groups), n * n)), total]])
        sides = [*sides, *[problem.delta] * len(groups)]
        c = np.concatenate([c, np.zeros(len(rows))])
    sums = np.zeros((n, len(c)))
    sums[:, : n * n] = np.kron(np.eye(n), np.ones(n))
    bounds = [(0, None)] * len(c)
    if problem.places is not None:
        apart = (problem.places[:, None] != problem.places[None]).ravel()
        bounds[: n * n] = [(0, 0) if far else (0, None) for far in apart]
    return linprog(c, A_ub=A, b_ub=sides, A_eq=sums, b_eq=np.ones(n), bounds=bounds)


def every_move(problem):
    n = problem.n_cells
    xs, ys = np.divmod(np.arange(n * n), n)
    if problem.places is not None:
        near = problem.places[xs] == problem.places[ys]
        xs, ys = xs[near], ys[near]
    return xs, ys


@pytest.mark.parametrize("interior", [False, True])
@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(8))
def test_all_moves_reach_the_dense_optimum(seed, delta, interior):
    problem = a_problem(seed, delta=delta)
    found = solve_moves(problem, *every_move(problem), interior=interior)
    assert found.cost == pytest.approx(dense_optimum(problem).fun, abs=1e-6)


def test_cells_solved_again_keep_to_what_the_others_hold():
    problem = a_problem(3, n=8, k=3)
    xs, ys = every_move(problem)
    whole = solve_moves(problem, xs, ys)
    fixed, laws = xs >= 4, problem.families[0].over(8)
    held = np.zeros((3, 8))
    np.add.at(held.T, ys[fixed], (laws[:, xs[fixed]] * whole.flows[fixed]).T)
    again = solve_moves(problem, xs[~fixed], ys[~fixed], held=[held])
    others = (problem.weights[xs] * problem.costs.along(xs, ys) * whole.flows)[fixed].sum()
    assert again.cost + others == pytest.approx(whole.cost, abs=1e-7)


def test_without_a_channel_over_the_moves_nothing_comes_back():
    costs = Costs(np.zeros((2, 1)), np.array([False]), np.ones(1))
    problem = ChannelProblem([Family(np.array([[1, 2], [2, 1]]))], np.ones(2) / 2, costs, 0.1)
    assert solve_moves(problem, np.arange(2), np.arange(2)) is None
