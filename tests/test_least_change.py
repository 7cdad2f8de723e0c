"""The channel of least change: golden costs, brute force, and everything that may be forgotten."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prototype_oracle import (
    GOLDEN,
    counted,
    dense,
    extreme,
    least_cost,
    odds,
    problem_of,
    random_problem,
    rows_of,
    worst,
)

from sklearn_puffer._losses import MassBoxes, prototype_losses
from sklearn_puffer._microaggregator import program
from sklearn_puffer._microaggregator.program import ChannelProblem, SecretMasses, least_change
from sklearn_puffer._noise import WHOLE


@pytest.mark.parametrize("instance", GOLDEN["instances"])
@pytest.mark.parametrize("error", [0.05, 0.0])
def test_costs_are_the_least_ones_of_the_golden_file(instance, error):
    problem = problem_of(instance, error)
    rows = least_change(problem)
    least = instance["least_cost_over_set" if error else "least_cost_as_counted"]
    assert problem.cost(dense(rows)) == pytest.approx(least, abs=1e-6)
    assert 0.999 * problem.epsilon < problem.loss(rows) <= problem.epsilon


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [2, 3])
def test_costs_are_those_of_all_corners_of_the_set(seed, k):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n=3, k=k, epsilon=rng.uniform(0.1, 1.0), rows=60)
    rows = least_change(problem)
    assert problem.cost(dense(rows)) == pytest.approx(least_cost(problem), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_no_masses_in_the_set_lose_more_than_the_budget(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, n=5, k=3, epsilon=0.4)
    channel = dense(least_change(problem))
    (boxes, pairs), *_ = problem.bounded
    loss = worst(boxes, pairs, channel)
    assert 0.999 * problem.epsilon < loss <= problem.epsilon + 1e-9


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 4), st.floats(1e-3, 5.0))
def test_any_problem_has_a_channel_within_its_budget(seed, n, k, epsilon):
    problem = random_problem(np.random.default_rng(seed), n, k, epsilon)
    rows = least_change(problem)
    channel = dense(rows)
    assert problem.loss(rows) <= epsilon
    np.testing.assert_allclose(problem.shares @ channel, problem.shares, atol=1e-7)
    constant = np.broadcast_to(problem.shares, channel.shape)
    assert problem.cost(channel) <= problem.cost(constant) + 1e-6


@pytest.mark.slow
@given(st.integers(0, 10**6))
def test_more_budget_costs_no_more(seed):
    costs = []
    for epsilon in (0.2, 0.5, 1.0):
        problem = random_problem(np.random.default_rng(seed), 4, 2, epsilon)
        costs.append(problem.cost(dense(least_change(problem))))
    assert costs[0] >= costs[1] - 1e-6 >= costs[2] - 2e-6


def test_prototypes_that_tell_little_are_not_moved():
    group = counted([[52, 48], [48, 52]])
    problem = ChannelProblem(
        [SecretMasses(group.as_counted(), group.pairs)], group.sizes, 1.0 - np.eye(2), epsilon=1.0
    )
    assert (dense(least_change(problem)) == np.eye(2)).all()


def test_a_single_prototype_is_released():
    group = counted([[9, 3]])
    problem = ChannelProblem(
        [SecretMasses(group.boxes(0.05), group.pairs)], group.sizes, np.zeros((1, 1)), epsilon=0.1
    )
    assert dense(least_change(problem)).tolist() == [[1.0]]


def test_without_secrets_nothing_moves():
    problem = ChannelProblem([], np.array([5, 5, 5]), 1.0 - np.eye(3), epsilon=0.1)
    assert (dense(least_change(problem)) == np.eye(3)).all()


def test_prototypes_of_no_distance_cost_nothing():
    group = counted([[9, 3], [3, 9]])
    problem = ChannelProblem(
        [SecretMasses(group.boxes(0.05), group.pairs)], group.sizes, np.zeros((2, 2)), epsilon=0.1
    )
    assert problem.loss(least_change(problem)) <= 0.1


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 20.0, 800.0])
def test_budgets_of_any_size_are_kept(epsilon):
    problem = random_problem(np.random.default_rng(1), 4, 3, epsilon)
    assert problem.loss(least_change(problem)) <= epsilon


def test_a_budget_below_rounding_is_refused():
    problem = random_problem(np.random.default_rng(1), 4, 3, epsilon=1e-17)
    with pytest.raises(ValueError, match="epsilon=1e-17 is smaller than the rounding error"):
        least_change(problem)


def test_a_secret_that_hardly_anybody_has_leaves_a_channel():
    group = counted([[400, 1], [300, 0], [200, 2]])
    problem = ChannelProblem(
        [SecretMasses(group.boxes(0.05), group.pairs)], group.sizes, 1.0 - np.eye(3), epsilon=0.5
    )
    rows = least_change(problem)
    assert problem.loss(rows) <= 0.5
    assert problem.cost(dense(rows)) < 1.0  # of a constant about .65


# ------------------------------------------------------------------- pairs, columns, joined labels


def test_only_protected_pairs_bind():
    counts = np.array([[60, 10, 10], [10, 60, 10], [10, 10, 60]])
    distances = 1.0 - np.eye(3)

    def cost(pairs):
        group = counted(counts, pairs)
        bounded = [SecretMasses(group.as_counted(), group.pairs)]
        problem = ChannelProblem(bounded, group.sizes, distances, epsilon=0.5)
        channel = dense(least_change(problem))
        return problem.cost(channel), odds(counts, channel, list(combinations(range(3), 2)))

    everybody, losses = cost([(0, 1), (0, 2), (1, 2)])
    assert losses.max() <= 0.5
    some, losses = cost([(0, 1)])
    assert some < everybody - 0.01
    assert losses[:2].max() <= 0.5 < losses[2:].max()


def two_columns(second, epsilon=0.6):
    """Return the problem of one sensitive column, and of another one besides."""
    groups = [counted([[60, 20], [40, 40], [20, 60]]), counted(second)]
    bounded = [SecretMasses(group.boxes(0.025), group.pairs) for group in groups]
    distances = np.abs(np.subtract.outer(range(3), range(3))).astype(float)
    problems = [
        ChannelProblem(each, groups[0].sizes, distances, epsilon)
        for each in (bounded[:1], bounded[1:], bounded)
    ]
    return problems, [least_change(problem) for problem in problems]


def test_every_sensitive_column_is_protected():
    problems, rows = two_columns([[10, 70], [60, 20], [40, 40]])
    first, second, both = problems
    assert both.loss(rows[2]) <= 0.6
    assert first.loss(rows[1]) > 0.7
    assert second.loss(rows[0]) > 0.7
    costs = [both.cost(dense(each)) for each in rows]
    assert costs[2] > max(costs[:2]) + 0.01


def test_joined_labels_are_further_constraints_beside_the_unconditional_ones():
    """Secrets hang together with prototypes within a label, and in all with neither."""
    label = np.array([[40, 0], [20, 20], [0, 40]])
    groups = [counted(each) for each in (label + label[:, ::-1], label, label[:, ::-1])]
    distances = np.abs(np.subtract.outer(range(3), range(3))).astype(float)

    def solved(some):
        bounded = [SecretMasses(group.boxes(0.05 / len(some)), group.pairs) for group in some]
        problem = ChannelProblem(bounded, groups[0].sizes, distances, epsilon=0.9)
        return problem, least_change(problem)

    alone, rows = solved(groups[:1])
    joined, joined_rows = solved(groups)
    assert alone.loss(rows) <= 0.9 < joined.loss(rows)
    assert joined.loss(joined_rows) <= 0.9
    assert joined.cost(dense(joined_rows)) > alone.cost(dense(rows)) + 0.05


def test_a_label_may_be_in_some_prototypes_only():
    everybody = counted([[60, 20], [40, 40], [20, 60]])
    labelled = counted([[30, 10], [0, 0], [10, 20]])
    bounded = [SecretMasses(group.boxes(0.025), group.pairs) for group in (everybody, labelled)]
    problem = ChannelProblem(bounded, everybody.sizes, 1.0 - np.eye(3), epsilon=0.5)
    assert problem.loss(least_change(problem)) <= 0.5


# ---------------------------------------------------------------------------------------- masks


def larger(monkeypatch, nearest, largest=1, n=9, epsilon=1.0):
    """Return a problem whose rows have chances of their own for few prototypes, and which."""
    monkeypatch.setattr(program, "NEAREST", nearest)
    monkeypatch.setattr(program, "LARGEST", largest)
    problem = random_problem(np.random.default_rng(0), n, 2, epsilon, rows=400)
    return problem, program._mask(problem)


@pytest.mark.parametrize("nearest", [1, 3, 6])
def test_all_rows_alike_become_what_is_off_the_mask(monkeypatch, nearest):
    problem, mask = larger(monkeypatch, nearest)
    assert mask.sum(axis=1).min() >= nearest
    assert (mask == mask.T).all()
    assert not mask.all()
    rows = least_change(problem)
    channel = dense(rows)
    assert problem.loss(rows) <= 1.0
    for column, near in zip(channel.T, mask.T, strict=True):
        assert (np.abs(column[~near] - column.min()) < 1e-9).all()  # and nobody has less


@pytest.mark.parametrize("nearest", [2, 5])
def test_a_mask_costs_what_the_full_program_with_such_columns_costs(monkeypatch, nearest):
    problem, mask = larger(monkeypatch, nearest)
    found = program._solved(problem, mask)
    whole = program._Program(problem, np.ones((9, 9), dtype=bool))
    matrix, sides = whole.equal
    off = np.flatnonzero(~mask.ravel())
    held = np.zeros((off.size, whole.n_variables))
    held[np.arange(off.size), off] = 1.0  # nothing of its own off the mask
    equal = np.vstack([matrix.toarray(), held]), np.append(sides, np.zeros(off.size))
    answer = program.solved(whole.objective, most=whole.most, equal=equal)
    least = problem.cost(whole.channel(answer.x))
    assert problem.cost(found) == pytest.approx(least, abs=1e-6)


def test_larger_masks_cost_less(monkeypatch):
    costs = []
    for nearest in (1, 3, 5, 9):
        problem, _ = larger(monkeypatch, nearest)
        costs.append(problem.cost(dense(least_change(problem))))
    assert (np.diff(costs) < 1e-6).all()
    assert costs[0] <= problem.cost(np.broadcast_to(problem.shares, (9, 9))) + 1e-6
    assert costs[-1] < costs[0] - 0.05


# ------------------------------------------------------------------------ a solver is not believed


@pytest.mark.parametrize("answer", ["nothing", "identity", "noise", "negative"])
def test_what_the_solver_says_is_never_released_unchecked(monkeypatch, answer):
    problem = random_problem(np.random.default_rng(3), 4, 3, 0.4)
    wrong = {
        "nothing": None,
        "identity": np.eye(4),
        "noise": np.random.default_rng(0).random((4, 4)),
        "negative": np.eye(4) * 1.5 - 0.125,
    }[answer]
    monkeypatch.setattr(program, "_solved", lambda *_: wrong)
    rows = least_change(problem)
    assert problem.loss(rows) <= 0.4
    assert rows.shares.reshape(4, -1).sum(axis=1).tolist() == [WHOLE] * 4


def test_whole_rows_are_the_floats_to_a_last_place():
    channel = np.random.default_rng(0).dirichlet(np.ones(7), 7)
    np.testing.assert_allclose(dense(program.whole_rows(channel)), channel, atol=1e-15)


# ------------------------------------------------------------ programs that would promise too much


def broken(problem, monkeypatch, how):
    """Return the loss of a program with a mistake, before it is checked."""
    with monkeypatch.context() as patched:
        how(patched)
        channel = program._solved(problem, np.ones((problem.n, problem.n), dtype=bool))
    return problem.loss(rows_of(np.maximum(channel, 0.0))), channel


def without_a_box(patched):
    """The masses of one prototype are taken as known."""
    boxes = MassBoxes

    def fixed(self, whole, block, secret, sign):
        low, high = block.low.copy(), block.high.copy()
        low[0] = high[0] = (low[0] + high[0]) // 2
        original(self, whole, boxes(low, high, block.share_low, block.share_high), secret, sign)

    original = program._Block.__init__
    patched.setattr(program._Block, "__init__", fixed)


def of_another_error(patched):
    """Boxes that do not share their error, half as wide as they must be."""

    def narrow(self, whole, block, secret, sign):
        room = (block.high - block.low) // 4
        low, high = block.low + room, block.high - room
        original(self, whole, MassBoxes(low, high, block.share_low, block.share_high), secret, sign)

    original = program._Block.__init__
    patched.setattr(program._Block, "__init__", narrow)


def with_free_shares(patched):
    """Both parts of mu with the same end of the share: mu of one sign costs nothing."""

    def wrong(self, whole, block, secret, sign):
        original(self, whole, block, secret, sign)
        self.shares = self.shares[1], self.shares[0]

    original = program._Block.__init__
    patched.setattr(program._Block, "__init__", wrong)


@pytest.mark.parametrize("how", [without_a_box, of_another_error, with_free_shares])
def test_a_program_over_a_smaller_set_loses_more(monkeypatch, how):
    problem = random_problem(np.random.default_rng(4), 6, 2, 0.4)
    whole, _ = broken(problem, monkeypatch, lambda _: None)
    assert whole <= 0.4 + 1e-6
    loss, _ = broken(problem, monkeypatch, how)
    assert loss > 0.4 + 1e-3


def with_known_shares(problem):
    """Return the problem with people's secrets known in all, and bounds within prototypes."""
    (boxes, pairs), *_ = problem.bounded
    low = (boxes.share_low + boxes.share_high) // 2
    known = SecretMasses(MassBoxes(boxes.low, boxes.high, low, low), pairs)
    return ChannelProblem([known], problem.sizes, problem.distances, problem.epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["positive", "negative"])
def test_mu_of_one_sign_costs_more(sign):
    """So both are needed: shares that are too small and too large are excluded by one each."""
    more = []
    for seed in range(4):
        problem = with_known_shares(random_problem(np.random.default_rng(seed), 5, 2, 0.4))
        whole = program._Program(problem, np.ones((5, 5), dtype=bool))
        matrix, sides = whole.most
        matrix, first = matrix.tolil(), whole.first
        for block in whole.blocks:
            matrix[:, first + (5 if sign == "positive" else 10) + np.arange(5)] = 0.0
            first += block.n_own
        most = (matrix.tocsr(), sides)
        answer = program.solved(whole.objective, most=most, equal=whole.equal)
        more.append(
            problem.cost(whole.channel(answer.x)) - problem.cost(dense(least_change(problem)))
        )
    assert min(more) > -1e-6
    assert max(more) > 1e-3


def test_the_transposed_channel_is_not_the_solution():
    problem = random_problem(np.random.default_rng(2), 5, 2, 0.4)
    channel = dense(least_change(problem))
    turned = rows_of(channel.T + 1e-12)
    balance = np.abs(problem.shares @ dense(turned) - problem.shares).max()
    assert balance > 1e-2 or problem.loss(turned) > 0.41


def test_without_balance_rare_prototypes_vanish():
    """What the shares of prototypes are kept for."""
    problem = random_problem(np.random.default_rng(6), 5, 2, 0.2)
    whole = program._Program(problem, np.ones((5, 5), dtype=bool))
    matrix, sides = whole.equal
    free = program.solved(whole.objective, most=whole.most, equal=(matrix[:5], sides[:5]))
    channel = whole.channel(free.x)
    assert np.abs(problem.shares @ channel - problem.shares).max() > 0.05
    assert problem.cost(channel) < problem.cost(dense(least_change(problem))) - 0.01


def test_program_and_checker_agree_on_what_each_prototype_tells():
    """U and L of the program bound the quotients of other code, and one of them is attained."""
    problem = random_problem(np.random.default_rng(7), 5, 2, 0.4)
    whole = program._Program(problem, np.ones((5, 5), dtype=bool))
    answer = program.solved(whole.objective, most=whole.most, equal=whole.equal)
    channel = whole.channel(answer.x)
    (boxes, _), first = problem.bounded[0], whole.first
    for block, (s, sign) in zip(
        whole.blocks, [(0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)], strict=True
    ):
        above = answer.x[first : first + 5] + answer.x[whole.n_arcs : whole.first]
        claimed = above * problem.shares
        true = np.array([extreme(boxes, s, column, sign) for column in channel.T])
        assert (sign * (claimed - true) >= -1e-9).all()
        first += block.n_own


def test_the_checker_is_asked_about_every_column_and_label(monkeypatch):
    seen = []

    def noted(rows, boxes, pairs):
        seen.append(boxes)
        return prototype_losses(rows, boxes, pairs)

    monkeypatch.setattr(program, "prototype_losses", noted)
    problems, rows = two_columns([[10, 70], [60, 20], [40, 40]])
    seen.clear()
    problems[2].loss(rows[2])
    assert seen == [bounded.boxes for bounded in problems[2].bounded]
