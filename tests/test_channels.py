"""Channels of least change: linear programs against a dense one in another formulation."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from sklearn_puffer._channels import (
    ChannelProblem,
    Costs,
    Family,
    find_channel,
    lower_bound,
    pricing_rounds,
    solve_moves,
)
from sklearn_puffer._channels.budget_rows import Multipliers, budget_rows


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


class AnyCosts:
    """Costs of somebody's own: no metric, not even symmetric."""

    def __init__(self, n, seed):
        self.matrix = np.random.default_rng(seed).integers(0, 9, size=(n, n)).astype(float)
        np.fill_diagonal(self.matrix, 0.0)

    def between(self, xs, ys):
        return self.matrix[np.ix_(xs, ys)]

    def along(self, xs, ys):
        return self.matrix[xs, ys]


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


def matrix_of(problem, found):
    n = problem.n_cells
    xs = np.repeat(np.arange(n), np.diff(found.starts))
    W = np.zeros((n, n))
    np.add.at(W, (xs, found.targets), found.shares)
    return W


def cost_of(problem, W):
    every = np.arange(problem.n_cells)
    return float((problem.weights[:, None] * problem.costs.between(every, every) * W).sum())


def worst_excess(problem, W):
    """Return by how much delta is exceeded by the worst ordered pair, summed over outputs."""
    found = [0.0]
    for family in problem.families:
        released = family.over(problem.n_cells) @ W
        for s, t in family.ordered_pairs:
            beyond = released[s] - np.exp(problem.epsilon) * released[t]
            found.append(np.maximum(beyond, 0.0).sum() - problem.delta)
    return max(found)


def assert_optimal(problem):
    """Keep the budget, cost what the dense optimum does, and know a lower bound."""
    found = find_channel(problem)
    optimum, W = dense_optimum(problem).fun, matrix_of(problem, found)
    assert W.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert worst_excess(problem, W) <= 1e-6
    assert found.lower_bound <= optimum + 1e-9
    assert cost_of(problem, W) == pytest.approx(optimum, rel=1.1e-3, abs=1e-6)
    assert cost_of(problem, W) - found.lower_bound <= 1.1e-3 * optimum + 1e-6


SOME = {
    "plain": {},
    "delta": {"delta": 0.03},
    "two laws": {"k": 2},
    "two laws, delta": {"k": 2, "delta": 0.1},
    "places": {"epsilon": 3.0, "delta": 0.3, "places": True},
    "families": {"n": 7, "k": 3, "families": True},
    "families, delta": {"n": 7, "k": 3, "delta": 0.05, "families": True},
}


def some_problem(kind, seed):
    settings, several = dict(SOME[kind]), "families" in SOME[kind]
    settings.pop("families", None)
    if settings.pop("places", False):
        n = int(np.random.default_rng(seed).integers(4, 9))
        settings |= {"n": n, "places": np.arange(n) % 2}
    problem = a_problem(seed, **settings)
    return replace(problem, families=[*problem.families, *further(seed)]) if several else problem


def further(seed):
    """Return a family of two pairs over four of seven cells, and one of two laws over all."""
    masses = np.random.default_rng(seed).integers(1, 9, size=(3, 4))
    some = Family(masses, cells=np.array([0, 2, 3, 6]), pairs=np.array([[0, 1], [1, 2]]))
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["plain", "delta", "families", "families, delta"])
def test_moves_added_in_rounds_reach_the_dense_optimum(kind, seed, monkeypatch):
    monkeypatch.setattr(pricing_rounds, "ALL_MOVES", 0)
    monkeypatch.setattr(pricing_rounds, "MORE", 2)
    monkeypatch.setattr(pricing_rounds, "NEAREST", 1)
    given = "families" in SOME[kind]
    assert_optimal(some_problem(kind, seed) if given else a_problem(seed, n=12, k=3, **SOME[kind]))


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("pairs", [None, [[0, 1]]])
@pytest.mark.parametrize("seed", range(5))
def test_no_multipliers_give_a_bound_above_the_optimum(seed, pairs, delta):
    problem = a_problem(seed, k=3, delta=delta)
    family = Family(problem.families[0].masses, pairs=pairs and np.array(pairs))
    problem = ChannelProblem(
        [family], problem.weights, problem.costs, problem.epsilon, problem.delta
    )
    optimum, rng = dense_optimum(problem).fun, np.random.default_rng(seed)
    rows = budget_rows(problem, family)
    for size in (1e-3, 0.1, 1.0, 100.0):
        values = size * rng.exponential(size=(rows.n_rows, problem.n_cells))
        totals = size * rng.exponential(size=rows.n_totals)
        assert lower_bound(problem, [Multipliers(values, totals)]) <= optimum + 1e-12
    best = solve_moves(problem, *every_move(problem)).multipliers
    assert lower_bound(problem, best) == pytest.approx(optimum, abs=1e-7)


def several(masses, epsilon=1.0):
    masses = np.asarray(masses)
    n = masses.shape[1]
    costs = Costs(np.arange(n, dtype=float)[:, None], np.array([False]), np.ones(1))
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
def test_degenerate_laws_have_a_channel(masses):
    assert_optimal(several(masses))


def test_constant_columns_make_every_channel_free():
    problem = several([[1, 2, 3], [3, 2, 1], [1, 1, 1]])
    costs = Costs(np.zeros((3, 1)), np.array([False]), np.ones(1))
    problem = ChannelProblem(problem.families, problem.weights, costs, 0.1)
    found = find_channel(problem)
    assert cost_of(problem, matrix_of(problem, found)) == 0.0 == found.lower_bound


def test_without_any_time_the_channel_is_constant():
    problem = a_problem(5, n=8, k=3)
    W = matrix_of(problem, find_channel(problem, time_limit=0.0))
    assert (W.max(axis=0) == W.min(axis=0)).all()
    assert worst_excess(problem, W) == 0.0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_vertex_has_at_most_k_entries_a_cell(k):
    problem = a_problem(k, n=30, k=k)
    assert len(find_channel(problem).targets) <= k * problem.n_cells


def test_cells_of_no_weight_are_moved_for_nothing():
    for seed in range(20):
        problem = a_problem(seed, n=7, k=2)
        weights = np.where(np.arange(7) % 3 == 0, 0.0, problem.weights)
        problem = ChannelProblem(
            problem.families, weights / weights.sum(), problem.costs, problem.epsilon
        )
        assert_optimal(problem)


def counted(table, column, secret, epsilon):
    """Return the problem of one column, changes in its own numbers, under counted laws."""
    values, cells = np.unique(table[column], return_inverse=True)
    secrets, rows = np.unique(table[secret].astype(str), return_inverse=True)
    masses = np.zeros((len(secrets), len(values)), dtype=np.int64)
    np.add.at(masses, (rows, cells), 1)
    costs = Costs(values[:, None].astype(float), np.array([False]), np.ones(1))
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
    found = find_channel(problem, gap=1e-6)
    cost = cost_of(problem, matrix_of(problem, found))
    assert cost == pytest.approx(expected, rel=4e-3)
    assert cost == pytest.approx(found.lower_bound, rel=1e-6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_costs_need_not_be_a_metric(seed, k, monkeypatch):
    monkeypatch.setattr(pricing_rounds, "ALL_MOVES", 0)
    problem = a_problem(seed, n=9, k=k)
    assert_optimal(replace(problem, costs=AnyCosts(9, seed)))


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize("k", [2, 3])
def test_whatever_the_time_the_budget_is_kept(k, seconds):
    problem = a_problem(11, n=60, k=k)
    found = find_channel(problem, time_limit=seconds)
    assert worst_excess(problem, matrix_of(problem, found)) <= 1e-6


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("interior", [False, True])
def test_the_bound_never_exceeds_an_optimum_known_in_closed_form(epsilon, interior):
    # laws at different points: 1 / (1 + e^epsilon) of each cell must move, over a distance of 1
    problem = several([[1, 0], [0, 1]], epsilon)
    optimum = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
    multipliers = solve_moves(problem, *every_move(problem), interior=interior).multipliers
    for bound in (find_channel(problem).lower_bound, lower_bound(problem, multipliers)):
        assert float(optimum) * (1 - 1e-6) - 1e-12 <= bound <= optimum
