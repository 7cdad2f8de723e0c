"""Channels in blocks, and solved again across them, against dense arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sklearn_puffer._channels import ChannelProblem, Costs, Family, channel_in_blocks, resolving
from sklearn_puffer._channels.blocks import ROOM, feasible_blocks, mixed_groups
from sklearn_puffer._channels.highs import Clock

SEEDS = st.integers(0, 10**6)


def problem_of(seed, n=24, k=3, epsilon=0.7, **settings_):
    """Cells on a plane with a category, and laws that are functions of where they lie."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 3, n)])
    scores = values @ rng.normal(size=(3, k)) + rng.normal(size=(n, k))
    posteriors = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    masses = np.maximum(np.rint(posteriors.T * 2**20), 1).astype(np.int64)
    costs = Costs(values, np.array([False, False, True]), np.array([1.0, 2.0, 1.0]))
    weights = rng.dirichlet(np.ones(n))
    return ChannelProblem([Family(masses)], weights, costs, epsilon, **settings_)


def matrix_of(found):
    dense = np.zeros((len(found.block), len(found.block)))
    cells = np.repeat(np.arange(len(dense)), np.diff(found.starts))
    dense[cells, found.targets] = found.shares
    return dense


def cost_of(problem, matrix):
    cells = np.arange(problem.n_cells)
    return float(np.sum(problem.weights[:, None] * problem.costs.between(cells, cells) * matrix))


def laws_of(family, n):
    laws = np.zeros((len(family.masses), n))
    cells = np.arange(n) if family.cells is None else family.cells
    laws[:, cells] = family.masses / family.masses.sum(axis=1, keepdims=True)
    return laws


def pairs_of(family):
    k = len(family.masses)
    if family.pairs is None:
        return [(s, t) for s in range(k) for t in range(k) if s != t]
    return [(s, t) for pair in family.pairs for s, t in (pair, pair[::-1])]


def excesses(problem, matrix):
    """Return the sum over outputs of (q_s - e^epsilon q_s')_+ for each family's worst pair."""
    worst = []
    for family in problem.families:
        q = laws_of(family, problem.n_cells) @ matrix
        each = [
            np.maximum(q[s] - np.exp(problem.epsilon) * q[t], 0).sum() for s, t in pairs_of(family)
        ]
        worst.append(max(each))
    return np.array(worst)


def optimum(problem):
    """Solve the whole program, all moves, one row for each pair and output."""
    n, e = problem.n_cells, np.exp(problem.epsilon)
    families = [(laws_of(f, n), pairs_of(f)) for f in problem.families]
    total = sum(len(pairs) for _, pairs in families)
    rows, sums = [], []
    for laws, pairs in families:
        for s, t in pairs:
            number = len(rows) // n
            for y in range(n):
                row = np.zeros((n, n))
                row[:, y] = laws[s] - e * laws[t]
                excess = np.zeros((total, n))
                excess[number, y] = -1.0
                rows.append(np.concatenate([row.ravel(), excess.ravel()]))
            excess = np.zeros((total, n))
            excess[number] = 1.0
            sums.append(np.concatenate([np.zeros(n * n), excess.ravel()]))
    cells = np.arange(n)
    costs = (problem.weights[:, None] * problem.costs.between(cells, cells)).ravel()
    stays = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.zeros((n, total * n))], axis=1)
    limits = np.concatenate([np.zeros(len(rows)), np.full(len(sums), problem.delta)])
    solved = linprog(
        np.concatenate([costs, np.zeros(total * n)]),
        np.array(rows + sums),
        limits,
        stays,
        np.ones(n),
    )
    return solved.fun


def assert_a_channel_within_the_budget(problem, found):
    matrix = matrix_of(found)
    assert matrix.min() >= 0.0
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(excesses(problem, matrix) <= problem.delta + 1e-8)
    return matrix


@settings(max_examples=4)
@given(SEEDS, st.sampled_from([2, 3, 5]), st.sampled_from([0.0, 0.02]))
def test_blocks_keep_the_budget_and_turns_end_near_the_optimum(seed, k, delta):
    problem = problem_of(seed, n=14, k=k, delta=delta)
    found = channel_in_blocks(problem, block_size=5)
    matrix = assert_a_channel_within_the_budget(problem, found)
    least = optimum(problem)
    assert least - 1e-7 <= cost_of(problem, matrix) <= least * 1.01 + 1e-6
    assert found.lower_bound is None or 0.0 < found.lower_bound <= least + 1e-7


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("floor", [None, 0.5])
def test_blocks_alone_keep_the_budget_and_cost_no_more_than_constants(delta, floor, monkeypatch):
    monkeypatch.setattr(resolving, "_again", lambda task, flow, size: flow)
    problem = problem_of(3, n=60, k=4, delta=delta, floor=floor)
    matrix = assert_a_channel_within_the_budget(problem, channel_in_blocks(problem, block_size=12))
    constant = resolving.constant_flow(problem, feasible_blocks(problem, 12))
    kept = np.zeros_like(matrix)
    kept[constant.xs, constant.ys] = 1.0
    assert cost_of(problem, matrix) <= cost_of(problem, kept) + 1e-9


@settings(max_examples=15)
@given(SEEDS, st.integers(1, 30), st.sampled_from([0.3, 1.0, 3.0]))
def test_every_block_keeps_the_budget_alone_or_is_a_whole_place(seed, size, epsilon):
    problem = problem_of(seed, n=80, k=4, epsilon=epsilon)
    problem = replace(problem, places=np.arange(80) % 3)
    blocks = feasible_blocks(problem, size)
    laws = laws_of(problem.families[0], 80)
    for block in range(blocks.max() + 1):
        inside = blocks == block
        places = np.unique(problem.places[inside])
        assert len(places) == 1
        masses = laws[:, inside].sum(axis=1)
        whole = inside.sum() == np.sum(problem.places == places[0])
        assert whole or masses.max() <= np.exp(ROOM * epsilon) * masses.min() * (1 + 1e-9)


def test_blocks_are_cut_down_to_their_size_where_the_budget_allows():
    sizes = np.bincount(feasible_blocks(problem_of(0, n=400, k=2, epsilon=2.0), 40))
    assert sizes.max() <= 40
    assert np.bincount(mixed_groups(problem_of(0, n=400), 40, turn=1)).tolist() == [40] * 10


def test_small_budgets_are_no_reason_for_large_blocks():
    blocks = feasible_blocks(problem_of(0, n=400, k=4, epsilon=0.1), 50)
    assert np.bincount(blocks).max() <= 80


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_a_block_too_large_for_a_program_is_left_group_by_group(delta, monkeypatch):
    monkeypatch.setattr(resolving, "LARGEST_GROUP", 12)
    masses = np.ones((2, 60), dtype=np.int64)
    masses[1] = [20_000 * (cell == 7) + 1 for cell in range(60)]
    problem = replace(problem_of(0, n=60, delta=delta), families=[Family(masses)])
    assert feasible_blocks(problem, 10).max() == 0
    found = channel_in_blocks(problem, block_size=10)
    matrix = assert_a_channel_within_the_budget(problem, found)
    constant = resolving.constant_flow(problem, np.zeros(60, dtype=int))
    kept = np.zeros_like(matrix)
    kept[constant.xs, constant.ys] = 1.0
    assert cost_of(problem, matrix) < 0.9 * cost_of(problem, kept)


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_what_every_channel_must_change_stands_beside_it(delta):
    problem = problem_of(5, n=12, k=3, delta=delta)
    bound = channel_in_blocks(problem, block_size=4).lower_bound
    assert bound is not None
    assert optimum(problem) / 3 <= bound <= optimum(problem) + 1e-9


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_no_turn_raises_the_cost_or_leaves_the_budget(delta, monkeypatch):
    costs, solve = [], resolving._turn

    def turn(task, flow, label, what):
        flow = solve(task, flow, label, what)
        costs.append(task.cost(flow))
        assert_a_channel_within_the_budget(problem, resolving._found(task, flow, label))
        return flow

    monkeypatch.setattr(resolving, "_turn", turn)
    problem = problem_of(5, n=40, k=3, delta=delta)
    channel_in_blocks(problem, block_size=10)
    assert len(costs) > 2
    assert np.all(np.diff(costs) <= 1e-12)


def known_problem(seed=1, n=40, **settings_):
    """An adversary who knows the category as well: a family for each, and cells that keep it."""
    problem = problem_of(seed, n=n, k=2, epsilon=1.0, **settings_)
    places = problem.costs.values[:, 2].astype(int)
    masses = problem.families[0].masses
    cells = [np.flatnonzero(places == place) for place in range(3)]
    families = [*problem.families, *(Family(masses[:, each], each) for each in cells)]
    return replace(problem, families=families, places=places)


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_cells_stay_in_their_place_and_each_family_keeps_the_budget(delta):
    problem = known_problem(delta=delta)
    found = channel_in_blocks(problem, block_size=8)
    assert_a_channel_within_the_budget(problem, found)
    cells = np.repeat(np.arange(40), np.diff(found.starts))
    assert np.array_equal(problem.places[cells], problem.places[found.targets])
    assert np.all(found.block[cells] == found.block[found.targets])


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_a_floor_holds_within_each_block(delta):
    problem = problem_of(2, n=40, k=3, epsilon=1.0, floor=0.4, delta=delta)
    found = channel_in_blocks(problem, block_size=10)
    matrix = assert_a_channel_within_the_budget(problem, found)
    assert found.block.max() > 0
    for block in range(found.block.max() + 1):
        inside = matrix[np.ix_(found.block == block, found.block == block)]
        assert np.all(inside.max(axis=0) <= np.exp(0.4) * inside.min(axis=0) + 1e-9)
        np.testing.assert_allclose(inside.sum(axis=1), 1.0)


def test_only_listed_pairs_are_kept_apart_from_telling():
    problem = problem_of(4, n=30, k=4)
    listed = Family(problem.families[0].masses, pairs=np.array([[0, 1], [2, 3]]))
    fewer = replace(problem, families=[listed])
    matrix = assert_a_channel_within_the_budget(fewer, channel_in_blocks(fewer, block_size=10))
    assert cost_of(fewer, matrix) <= cost_of(
        problem, matrix_of(channel_in_blocks(problem, block_size=10))
    )


def test_the_same_problem_gives_the_same_channel_in_one_process_or_two():
    problem = problem_of(6, n=40)
    once, again = (channel_in_blocks(problem, block_size=12, n_jobs=jobs) for jobs in (1, 2))
    assert np.array_equal(once.targets, again.targets)
    assert np.array_equal(once.shares, again.shares)


@settings(max_examples=2)
@given(SEEDS)
def test_the_order_of_the_cells_changes_the_cost_by_no_more_than_the_gap(seed):
    problem = problem_of(seed, n=30, k=3)
    order = np.random.default_rng(seed).permutation(30)
    costs = Costs(problem.costs.values[order], problem.costs.unordered, problem.costs.units)
    families = [Family(problem.families[0].masses[:, order])]
    turned = replace(problem, families=families, weights=problem.weights[order], costs=costs)
    found = [channel_in_blocks(each, block_size=10) for each in (problem, turned)]
    one, other = (
        cost_of(p, assert_a_channel_within_the_budget(p, f))
        for p, f in zip((problem, turned), found, strict=True)
    )
    assert one == pytest.approx(other, rel=5e-3, abs=1e-6)


def test_without_time_there_are_constant_channels_within_the_budget():
    problem = problem_of(7, n=60)
    found = channel_in_blocks(problem, block_size=12, clock=Clock.of(0.0))
    matrix = assert_a_channel_within_the_budget(problem, found)
    assert set(np.unique(matrix)) == {0.0, 1.0}


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_cells_are_no_special_case(n):
    problem = problem_of(8, n=n)
    assert_a_channel_within_the_budget(problem, channel_in_blocks(problem))


def test_equal_laws_need_no_change_at_all():
    problem = problem_of(9, n=20)
    same = replace(problem, families=[Family(np.tile(problem.families[0].masses[:1], (3, 1)))])
    assert np.array_equal(matrix_of(channel_in_blocks(same, block_size=5)), np.eye(20))


def test_laws_without_a_common_cell_are_mixed_all_the_same():
    masses = np.kron(np.eye(2, dtype=np.int64), np.ones((1, 10), dtype=np.int64))
    problem = replace(problem_of(10, n=20), families=[Family(masses)])
    matrix = assert_a_channel_within_the_budget(problem, channel_in_blocks(problem, block_size=5))
    assert cost_of(problem, matrix) == pytest.approx(optimum(problem), rel=0.01)
