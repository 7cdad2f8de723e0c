"""The program of the swap against one of our own, and its losses against fractions."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sklearn_puffer._losses import SwapDistributions, swap_losses
from sklearn_puffer._swaps import ROW, SwapProblem, keeps, mean_flows, whole_flows
from sklearn_puffer.notions import Pufferfish

seeds = st.integers(0, 2**32)


def problem(rng, *, epsilon=1.0, delta=0.0, n=None, sizes=(10, 1000), secrets=None, columns=1):
    """Return a random problem: rows of cells on a plane, secrets of counted rows."""
    n = int(rng.integers(2, 7)) if n is None else n
    low, high = np.log(sizes)
    own = np.exp(rng.uniform(low, high, n)).round().astype(np.int64)
    at = rng.random((n, 2))
    costs = abs(at[:, None] - at).sum(axis=2)
    distributions = [
        distributions_of(rng, n, secrets or int(rng.integers(2, 4))) for _ in range(columns)
    ]
    return SwapProblem(own, distributions, costs, np.ones(n), Pufferfish(epsilon, delta))


def distributions_of(rng, n, n_secrets, pairs=None):
    counts = rng.integers(0, 30, (n_secrets, n)) * (rng.random((n_secrets, n)) < 0.9)
    counts[:, counts.sum(axis=0) == 0] = 1
    counts[counts.sum(axis=1) == 0, 0] = 1
    pairs = list(combinations(range(n_secrets), 2)) if pairs is None else pairs
    return SwapDistributions(counts.astype(np.int64), np.array(pairs))


def both_ways(pairs):
    return [tuple(map(int, p)) for p in (*pairs, *np.asarray(pairs)[:, ::-1])]


# ------------------------------------------------------------------- losses in fractions


def exact_masses(flows, sizes, distributions):
    """Return the probability of each cell given each secret after the swap, as fractions."""
    counts = [[int(k) for k in row] for row in distributions.counts]
    tallies = [sum(row[a] for row in counts) for a in range(len(sizes))]
    unit = sum(map(int, flows[0])) // int(sizes[0])
    found = []
    for row in counts:
        shares = [Fraction(k, total) for k, total in zip(row, tallies, strict=True)]
        whole = sum(int(n) * q for n, q in zip(sizes, shares, strict=True))
        found.append(
            [
                sum(Fraction(int(flows[a][b]), unit) * shares[a] for a in range(len(sizes))) / whole
                for b in range(len(sizes))
            ]
        )
    return found


def exact_loss(flows, sizes, distributions, pair, notion):
    """Return the loss of one pair, one way."""
    masses = exact_masses(flows, sizes, distributions)
    p, q = masses[pair[0]], masses[pair[1]]
    if notion.delta:
        factor = Fraction(math.exp(notion.epsilon))
        return float(sum(max(a - factor * b, 0) for a, b in zip(p, q, strict=True)))
    if any(a and not b for a, b in zip(p, q, strict=True)):
        return math.inf
    ratio = max(a / b for a, b in zip(p, q, strict=True) if b)
    return max(math.log(ratio.numerator) - math.log(ratio.denominator), 0.0)


def within_budget(flows, own):
    """Say whether flows keep the budget, in fractions (but for e^epsilon, in 17 digits)."""
    factor = Fraction(math.exp(own.notion.epsilon)) * (1 + Fraction(1, 10**15))
    for distributions in own.distributions:
        masses = exact_masses(flows, own.sizes, distributions)
        for s, t in both_ways(distributions.pairs):
            over = [a - factor * b for a, b in zip(masses[s], masses[t], strict=True)]
            if sum(max(each, 0) for each in over) > Fraction(own.notion.delta):
                return False
    return True


def random_flows(rng, sizes):
    """Return flows with these margins: a mixture of staying and of random tables."""
    n = len(sizes)
    flows = rng.random((n, n)) ** 3 + np.diag(rng.random(n) * 5)
    for _ in range(200):
        flows *= (sizes / flows.sum(axis=1))[:, None]
        flows *= sizes / flows.sum(axis=0)
    return whole_flows(flows, sizes)


@given(seeds, st.sampled_from([0.0, 0.02]))
@settings(max_examples=60)
def test_losses_are_those_of_fractions(seed, delta):
    rng = np.random.default_rng(seed)
    own = problem(rng, epsilon=float(rng.uniform(0.01, 2.0)), delta=delta)
    flows = random_flows(rng, own.sizes)
    [distributions] = own.distributions
    told = swap_losses(flows, own.sizes, distributions, own.notion)
    for pair, ways in zip(distributions.pairs, told, strict=True):
        for way, (low, high) in zip((pair, pair[::-1]), ways, strict=True):
            exact = exact_loss(flows, own.sizes, distributions, way, own.notion)
            assert low <= exact + 1e-15
            assert exact <= high + 1e-15
            assert high - low < 1e-12 or math.isinf(high)


def test_flows_that_are_no_exchange_are_refused():
    distributions = SwapDistributions(np.array([[1, 2], [2, 1]]), np.array([[0, 1]]))
    sizes = np.array([3, 3])
    for flows in ([[2, 1], [2, 1]], [[2, 1], [1, 1]], [[4, -1], [-1, 4]], [[6, 0], [0, 3]]):
        with pytest.raises(ValueError, match="margins"):
            swap_losses(np.array(flows), sizes, distributions, Pufferfish(1.0))


# ---------------------------------------------------------------------------- the optimum


def least_cost(own):
    """Return what no flows within the budget go below, by the dual of a dense program.

    Variables are K(b | a); each row is divided by what it counts. Whatever the solver returns,
    its multipliers bound the optimum from below: K(. | a) is a distribution for every a.
    """
    n, sizes = len(own.sizes), own.sizes.astype(float)
    stick = own.notion.delta > 0.0
    ways = [
        (distributions, s, t)
        for distributions in own.distributions
        for s, t in both_ways(distributions.pairs)
    ]
    n_over = n * len(ways) if stick else 0
    rows, right = [], []
    for number, (distributions, s, t) in enumerate(ways):
        q = distributions.counts / distributions.counts.sum(axis=0)
        gain = sizes * (
            q[s] / (q[s] @ sizes) - math.exp(own.notion.epsilon) * q[t] / (q[t] @ sizes)
        )
        for b in range(n):
            row = np.zeros(n * n + n_over)
            row[np.arange(n) * n + b] = gain
            if stick:
                row[n * n + number * n + b] = -1.0
            rows.append(row / abs(row).max())
            right.append(0.0)
        if stick:
            row = np.zeros(n * n + n_over)
            row[n * n + number * n + np.arange(n)] = 1.0
            rows.append(row)
            right.append(own.notion.delta)
    inflow = np.zeros((n, n * n + n_over))
    outflow = np.zeros((n, n * n + n_over))
    for b in range(n):
        inflow[b, np.arange(n) * n + b] = sizes / sizes[b]
        outflow[b, b * n + np.arange(n)] = 1.0
    cost = np.zeros(n * n + n_over)
    cost[: n * n] = (own.costs * (own.weights * sizes)[:, None]).ravel()
    unit = max(cost.max(), 1e-300)
    most, equal = np.array(rows), np.concatenate([outflow, inflow])
    answer = linprog(cost / unit, most, right, equal, np.ones(2 * n), method="highs-ds")
    inside, place = np.minimum(answer.ineqlin.marginals, 0.0), answer.eqlin.marginals[n:]
    left = cost / unit - inside @ most - place @ inflow
    if stick:  # an excess is no more than all, and what is left of its price is then none
        assert left[n * n :].min() > -1e-9
    whole = place.sum() + inside @ right + left[: n * n].reshape(n, n).min(axis=1).sum()
    return float(whole + np.minimum(left[n * n :], 0.0).sum()) * unit


def cost_of(flows, own):
    return float((flows / ROW * own.costs * own.weights[:, None]).sum())


def check_solved(own, slack=1e-6):
    flows = mean_flows(own)
    assert flows.dtype == np.int64
    assert (flows >= 0).all()
    assert (flows.sum(axis=0) == own.sizes * ROW).all()
    assert (flows.sum(axis=1) == own.sizes * ROW).all()
    assert keeps(flows, own)
    assert within_budget(flows, own)
    best, found = least_cost(own), cost_of(flows, own)
    beyond = cost_of(np.outer(own.sizes, own.sizes / own.sizes.sum()) * ROW, own)
    assert found >= best - 1e-7 * beyond
    assert found <= best + 1e-4 * best + slack * beyond
    return flows


@pytest.mark.slow
@given(seeds, st.floats(0.02, 4.0))
@settings(max_examples=40)
def test_flows_are_the_cheapest_that_keep_a_pure_budget(seed, epsilon):
    check_solved(problem(np.random.default_rng(seed), epsilon=epsilon))


@pytest.mark.slow
@given(seeds, st.floats(0.02, 2.0), st.floats(1e-4, 0.2))
@settings(max_examples=40)
def test_flows_are_the_cheapest_that_keep_a_budget_with_a_delta(seed, epsilon, delta):
    check_solved(problem(np.random.default_rng(seed), epsilon=epsilon, delta=delta))


@given(seeds, st.floats(0.05, 2.0))
@settings(max_examples=25)
def test_flows_keep_the_budget_for_every_one_of_several_columns(seed, epsilon):
    rng = np.random.default_rng(seed)
    check_solved(problem(rng, epsilon=epsilon, columns=int(rng.integers(2, 4)), n=4))


@pytest.mark.slow
@given(seeds)
@settings(max_examples=25)
def test_pairs_that_nobody_asked_for_cost_nothing(seed):
    rng = np.random.default_rng(seed)
    own = problem(rng, epsilon=0.4, n=4, secrets=4)
    [distributions] = own.distributions
    few = SwapDistributions(distributions.counts, distributions.pairs[[0, 5]])
    fewer = SwapProblem(own.sizes, [few], own.costs, own.weights, own.notion)
    less, more = cost_of(check_solved(fewer), own), cost_of(check_solved(own), own)
    assert less <= more * (1 + 1e-4) + 1e-6 * own.sizes.sum()


@given(seeds)
@settings(max_examples=25)
def test_weights_of_cells_count_in_the_cost(seed):
    rng = np.random.default_rng(seed)
    own = problem(rng, epsilon=0.4)
    weights = rng.uniform(0.1, 5.0, len(own.sizes))
    check_solved(SwapProblem(own.sizes, own.distributions, own.costs, weights, own.notion))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("sizes", [(1, 3), (1, 1e6), (1e5, 1e6)])
def test_the_budget_is_kept_however_small_it_is_and_however_unlike_cells_are(epsilon, sizes):
    rng = np.random.default_rng(round(1e6 * epsilon))
    for delta in (0.0, 1e-5):
        for _ in range(4):
            own = problem(rng, epsilon=epsilon, delta=delta, sizes=sizes)
            flows = mean_flows(own)
            assert (flows.sum(axis=0) == own.sizes * ROW).all()
            assert (flows.sum(axis=1) == own.sizes * ROW).all()
            assert within_budget(flows, own)


def test_one_cell_stays_where_it_is():
    distributions = SwapDistributions(np.array([[3], [2]]), np.array([[0, 1]]))
    own = SwapProblem(np.array([7]), [distributions], np.zeros((1, 1)), np.ones(1), Pufferfish(0.1))
    assert mean_flows(own).tolist() == [[7 * ROW]]


def test_cells_that_tell_no_more_than_the_budget_stay_where_they_are():
    distributions = SwapDistributions(np.array([[5, 4], [4, 5]]), np.array([[0, 1]]))
    own = SwapProblem(
        np.array([9, 9]), [distributions], np.ones((2, 2)), np.ones(2), Pufferfish(0.3)
    )
    assert mean_flows(own).tolist() == [[9 * ROW, 0], [0, 9 * ROW]]


def test_secrets_that_no_cell_has_in_common_are_mixed_just_enough():
    distributions = SwapDistributions(np.array([[6, 0], [0, 6]]), np.array([[0, 1]]))
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    own = SwapProblem(np.array([8, 8]), [distributions], costs, np.ones(2), Pufferfish(1.0))
    flows = check_solved(own)
    assert flows[0, 1] / ROW == pytest.approx(8 / (1 + math.e), rel=1e-4)


@given(seeds, st.booleans())
@settings(max_examples=100)
def test_flows_are_made_whole_with_exact_margins_and_hardly_moved(seed, stay):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    sizes = np.exp(rng.uniform(0.0, np.log(1e6), n)).astype(np.int64)
    flows = np.outer(sizes, sizes / sizes.sum())
    if stay:
        flows = np.diag(sizes).astype(float)
    off = flows * (1.0 + 1e-9 * rng.normal(size=(n, n)))
    whole = whole_flows(off - 1e-12, sizes)
    assert (whole >= 0).all()
    assert (whole.sum(axis=0) == sizes * ROW).all()
    assert (whole.sum(axis=1) == sizes * ROW).all()
    assert abs(whole / ROW - flows).max() <= 1e-7 * sizes.sum()


# ---------------------------------------------------------------------------------- boxes


def boxes_of(rng, n, n_secrets, *, zeros=False):
    """Return distributions between whose ends there are posteriors that sum to one."""
    counts = rng.integers(1, 30, (n_secrets, n))
    shares = counts / counts.sum(axis=0)
    low, high = (
        shares * rng.uniform(0.3, 1.0, shares.shape),
        shares + (1 - shares) * rng.random(shares.shape),
    )
    if zeros:
        low *= rng.random(shares.shape) < 0.6
    pairs = np.array(list(combinations(range(n_secrets), 2)))
    return SwapDistributions(counts, pairs, np.stack([low, high]))


def extreme(flows, sizes, low, high, b, sign):
    """Return the largest (sign 1) or smallest probability of cell b, by Charnes and Cooper.

    y = t q with t the inverse of sum_a N_a q_a: maximise sum_a F(a, b) y_a.
    """
    n = len(sizes)
    top = np.append(flows[:, b] / flows.sum() * sizes.sum(), 0.0)
    bounds = np.concatenate(
        [np.column_stack([-np.eye(n), low]), np.column_stack([np.eye(n), -high])]
    )
    answer = linprog(
        -sign * top / sizes.max(),
        bounds,
        np.zeros(2 * n),
        [np.append(sizes, 0.0) / sizes.sum()],
        [1.0],
        method="highs-ds",
    )
    return -sign * answer.fun * sizes.max() / sizes.sum()


def extremes(flows, sizes, low, high):
    """Return the largest probabilities of cells under each secret, and the smallest."""
    return [
        [
            [extreme(flows, sizes, *ends, b, sign) for b in range(len(sizes))]
            for ends in zip(low, high, strict=True)
        ]
        for sign in (1.0, -1.0)
    ]


@pytest.mark.slow
@given(seeds, st.sampled_from([0.0, 0.05]), st.booleans())
@settings(max_examples=25)
def test_losses_over_boxes_are_those_of_a_program_of_our_own(seed, delta, zeros):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    sizes = rng.integers(1, 50, n)
    distributions = boxes_of(rng, n, int(rng.integers(2, 4)), zeros=zeros)
    low, high = distributions.boxes
    assume((low.sum(axis=1) > 0).all())
    flows = random_flows(rng, sizes)
    notion = Pufferfish(0.4, delta)
    told = swap_losses(flows, sizes, distributions, notion)
    mosts, leasts = extremes(flows, sizes, low, high)
    for pair, ways in zip(distributions.pairs, told, strict=True):
        for (s, t), (_, upper) in zip((pair, pair[::-1]), ways, strict=True):
            most, least = mosts[s], leasts[t]
            if delta:
                factor = math.exp(0.4)
                worst = sum(max(p - factor * q, 0.0) for p, q in zip(most, least, strict=True))
                assert upper == pytest.approx(worst, abs=1e-8)
            elif min(least) > 1e-7:
                worst = max(math.log(p / q) for p, q in zip(most, least, strict=True))
                assert upper == pytest.approx(max(worst, 0.0), abs=1e-5)


@given(seeds, st.sampled_from([0.0, 0.05]))
@settings(max_examples=40)
def test_no_posteriors_in_the_boxes_lose_more_than_the_loss_over_them(seed, delta):
    rng = np.random.default_rng(seed)
    n, n_secrets = int(rng.integers(1, 7)), int(rng.integers(2, 4))
    sizes = rng.integers(1, 200, n)
    distributions = boxes_of(rng, n, n_secrets)
    flows = random_flows(rng, sizes)
    rows = flows / flows.sum() * sizes.sum()
    notion = Pufferfish(0.4, delta)
    told = swap_losses(flows, sizes, distributions, notion)[..., 1]
    low, high = distributions.boxes
    for _ in range(50):
        # corners and insides; whether they sum to one is not asked
        share = rng.random((n_secrets, n)) ** rng.choice([0.0, 1.0, 30.0])
        share = np.where(rng.random((n_secrets, n)) < 0.5, share, 1.0 - share)
        q = low + (high - low) * share
        mass = q @ rows / (q @ sizes)[:, None]
        for (s, t), ways in zip(distributions.pairs, told, strict=True):
            for (p, r), upper in zip(((s, t), (t, s)), ways, strict=True):
                if delta:
                    loss = np.maximum(mass[p] - math.exp(0.4) * mass[r], 0.0).sum()
                else:
                    loss = np.log(mass[p] / mass[r]).max()
                assert loss <= upper + 1e-12


def test_boxes_of_no_width_lose_what_the_shares_lose():
    rng = np.random.default_rng(5)
    own = problem(rng, n=5, secrets=3)
    [distributions] = own.distributions
    flows = random_flows(rng, own.sizes)
    boxes = SwapDistributions(
        distributions.counts,
        distributions.pairs,
        np.stack([distributions.shares, distributions.shares]),
    )
    for notion in (Pufferfish(1.0), Pufferfish(0.2, 0.1)):
        plain = swap_losses(flows, own.sizes, distributions, notion)[..., 1]
        over = swap_losses(flows, own.sizes, boxes, notion)[..., 1]
        np.testing.assert_allclose(over, plain, atol=1e-12)


@pytest.mark.slow
@given(seeds, st.floats(0.1, 2.0), st.sampled_from([0.0, 0.05]))
@settings(max_examples=20)
def test_flows_over_boxes_keep_the_budget_for_all_posteriors_in_them(seed, epsilon, delta):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    sizes = rng.integers(5, 500, n)
    distributions = boxes_of(rng, n, int(rng.integers(2, 4)))
    costs = problem(rng, n=n).costs
    own = SwapProblem(sizes, [distributions], costs, np.ones(n), Pufferfish(epsilon, delta))
    flows = mean_flows(own)
    assert (flows.sum(axis=0) == sizes * ROW).all()
    assert (flows.sum(axis=1) == sizes * ROW).all()
    low, high = distributions.boxes
    mosts, leasts = extremes(flows, sizes, low, high)
    for s, t in both_ways(distributions.pairs):
        over = [p - math.exp(epsilon) * q for p, q in zip(mosts[s], leasts[t], strict=True)]
        assert sum(max(each, 0.0) for each in over) <= delta + 1e-8
    counted = SwapDistributions(distributions.counts, distributions.pairs)
    plain = SwapProblem(sizes, [counted], costs, np.ones(n), own.notion)
    assert cost_of(mean_flows(plain), own) <= cost_of(flows, own) + 1e-5 * sizes.sum()


@given(seeds, st.floats(0.2, 2.0))
@settings(max_examples=20)
def test_flows_over_boxes_are_the_cheapest_that_a_search_of_our_own_finds(seed, epsilon):
    """Two cells and two secrets: the flows are one number, how many are exchanged."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 200, 2)
    distributions = boxes_of(rng, 2, 2)
    low, high = distributions.boxes
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    own = SwapProblem(sizes, [distributions], costs, np.ones(2), Pufferfish(epsilon))

    def loss(moved):
        flows = np.array([[sizes[0] - moved, moved], [moved, sizes[1] - moved]])
        masses = []  # of cells, by secret, for all corners of its box
        for least, most in zip(low, high, strict=True):
            corners = np.array(list(product(*zip(least, most, strict=True))))
            masses.append(corners @ flows / (corners @ sizes)[:, None])
        ways = ((masses[0], masses[1]), (masses[1], masses[0]))
        return math.log(max((p.max(axis=0) / q.min(axis=0)).max() for p, q in ways))

    few, many = 0.0, sizes[0] * sizes[1] / sizes.sum()  # where nothing is told any more
    if loss(few) <= epsilon:
        many = few
    for _ in range(40):
        middle = (few + many) / 2
        few, many = (few, middle) if loss(middle) <= epsilon else (middle, many)
    assert cost_of(mean_flows(own), own) == pytest.approx(2 * many, rel=1e-3, abs=1e-4)
