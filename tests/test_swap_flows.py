"""The swap by secrets: flows of least cost, whole flows, and who gets whose row, against truth.

The oracles are fractions: every order in which people, leavers and places can be shuffled is
enumerated, and a holder's secret counted. They share no code with the package.
"""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._losses.swap_odds import (
    Exchange,
    insider_loss,
    outsider_delta,
    outsider_loss,
)
from sklearn_puffer._noise import Choices, seeded_entropy
from sklearn_puffer._swap import exchange as exchange_module
from sklearn_puffer._swap.exchange import exchanged
from sklearn_puffer._swap.program import ROW, Budget, ExchangeProblem, least_exchange
from sklearn_puffer._swap.whole_flows import drawn_flows, response


def all_pairs(k):
    return list(itertools.combinations(range(k), 2))


def problem_of(sizes, epsilon=1.0, delta=0.0, insiders=None, seed=0):
    rng = np.random.default_rng(seed)
    k = len(sizes)
    cost = rng.random((k, k))
    within = rng.random(k)
    budget = Budget(epsilon, delta, insiders)
    return ExchangeProblem(np.array(sizes), cost + cost.T, within, all_pairs(k), budget)


def cost_of(problem, exchange):
    away = problem.cost * (1.0 - np.eye(len(problem.sizes)))
    return ((exchange.flows * away).sum() + exchange.others @ problem.within) / exchange.unit


PUBLISHED = json.loads(Path(__file__).with_name("golden_swap.json").read_text(encoding="utf-8"))


def test_programs_reach_the_published_least_costs():
    assert len(PUBLISHED["instances"]) == 14
    for instance in PUBLISHED["instances"]:
        sizes = np.array(instance["rows_by_secret"])
        pairs = all_pairs(len(sizes))
        budget = Budget(instance["epsilon"], 0.0, instance["insiders"])
        cost, within = np.array(instance["cost"]), np.array(instance["within"])
        problem = ExchangeProblem(sizes, cost, within, pairs, budget)
        exchange = least_exchange(problem)
        assert cost_of(problem, exchange) == pytest.approx(instance["least_total_cost"], rel=1e-6)
        own = (np.diag(exchange.flows) - exchange.others).sum() / ROW / sizes.sum()
        assert own == pytest.approx(instance["stay"], abs=1e-6)
        assert outsider_loss(exchange, pairs) <= instance["epsilon"]
        assert insider_loss(exchange, pairs) <= (instance["insiders"] or math.inf)


def true_losses(exchange, pairs):
    """Return outsiders' and insiders' largest log odds, from fractions and their logs."""
    sizes, flows, others = (
        np.array(x).tolist() for x in (exchange.sizes, exchange.flows, exchange.others)
    )
    outside = inside = 0.0
    for b, (s, t) in itertools.product(range(len(sizes)), [*pairs, *((t, s) for s, t in pairs)]):
        odds = Fraction(flows[s][b] * sizes[t], flows[t][b] * sizes[s])
        outside = max(outside, math.log(odds))
        held = [others[b] if each == b else flows[each][b] for each in (s, t)]
        left = [sizes[each] - (each == b) for each in (s, t)]
        if all(left) and min(sizes[s], sizes[t]) > 2:
            inside = max(inside, math.log(Fraction(held[0] * left[1], held[1] * left[0])))
    return outside, inside


@given(
    st.lists(st.integers(3, 60), min_size=2, max_size=4),
    st.floats(0.1, 3.0),
    st.integers(0, 1000),
)
def test_flows_of_any_table_keep_both_budgets_and_use_one(sizes, epsilon, seed):
    problem = problem_of(sizes, epsilon, insiders=2 * epsilon, seed=seed)
    exchange = least_exchange(problem)
    outside, inside = true_losses(exchange, problem.pairs)
    assert outside <= outsider_loss(exchange, problem.pairs) <= epsilon
    assert inside <= insider_loss(exchange, problem.pairs) <= 2 * epsilon
    assert max(outside / epsilon, inside / epsilon / 2) > 0.9999


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.3])
def test_a_delta_is_spent_and_not_exceeded(delta):
    problem = problem_of([40, 25, 12], 0.4, delta)
    exchange = least_exchange(problem)
    sizes = problem.sizes.astype(float)
    shares = exchange.flows / exchange.unit / sizes[:, None]
    spent = max(
        np.maximum(shares[s] - math.exp(0.4) * shares[t], 0.0).sum()
        for s, t in itertools.permutations(range(3), 2)
    )
    assert spent == pytest.approx(delta, rel=1e-4)
    assert spent <= outsider_delta(exchange, problem.pairs, 0.4) * (1 + 1e-9) <= delta * (1 + 1e-9)


def test_a_rare_secret_left_alone_costs_as_much_delta_as_a_common_one():
    """Weighing secrets by their shares would certify an untouched table with a secret of 1 %."""
    sizes = np.array([990, 10])
    untouched = Exchange(sizes, np.diag(sizes), np.zeros(2, dtype=int), 1)
    assert outsider_delta(untouched, [(0, 1)], 1.0) >= 1.0
    assert outsider_loss(untouched, [(0, 1)]) == math.inf


def test_three_secrets_tell_transposed_flows_apart():
    round_trip = np.array([[0.0, 0.1, 1.0], [1.0, 0.0, 0.1], [0.1, 1.0, 0.0]])
    budget = Budget(1.0, 0.0, None)
    sizes = np.array([30, 20, 50])
    problem = ExchangeProblem(sizes, round_trip, np.ones(3), all_pairs(3), budget)
    exchange = least_exchange(problem)
    turned = Exchange(sizes, exchange.flows.T, exchange.others, ROW)
    assert outsider_loss(exchange, all_pairs(3)) <= 1.0
    assert outsider_loss(turned, all_pairs(3)) > 1.1


def test_a_pair_that_nobody_protects_costs_nothing():
    problem = problem_of([30, 20, 50], 0.2)
    fewer = ExchangeProblem(problem.sizes, problem.cost, problem.within, [(0, 1)], problem.budget)
    exchange = least_exchange(fewer)
    assert cost_of(fewer, exchange) < cost_of(problem, least_exchange(problem)) / 2
    assert exchange.flows[2, 2] == 50 * ROW


def test_secrets_of_one_or_two_people_are_hidden_from_outsiders():
    problem = problem_of([1, 2, 40], 1.0, insiders=2.0)
    exchange = least_exchange(problem)
    assert outsider_loss(exchange, problem.pairs) <= 1.0
    assert problem.insider_pairs == []


# ------------------------------------------------------------------------------------ whole flows


@pytest.mark.parametrize(("first", "second"), [(3, 2), (7, 5), (400, 30)])
def test_exchanges_of_two_secrets_are_randomised_response_given_the_margins(first, second):
    mean = first * second / (first + second) / 2
    start, parts = response(first, second, mean)
    numbers = start + np.arange(len(parts))
    assert sum(map(int, parts)) == 1 << 62
    assert float(numbers @ (parts / 2**62)) == pytest.approx(mean, rel=1e-12)
    ways = [
        math.comb(first, x) * math.comb(second, x) for x in map(int, numbers)
    ]  # one chance for each set of people of either secret, but for a power of x
    logs = np.log(parts / 2**62) - np.array([math.log(w) for w in ways])
    bulk = parts > 2**20
    assert np.abs(np.diff(logs[bulk], n=2)).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[8, 5], [30, 20, 10], [40, 25, 9, 4]])
def test_whole_flows_have_the_flows_as_means_and_the_sizes_as_margins(sizes):
    exchange = least_exchange(problem_of(sizes, 1.0, insiders=2.0))
    draws = Choices(seeded_entropy(3))
    drawn = [drawn_flows(exchange, draws) for _ in range(2000)]
    for flows, moved in drawn:
        assert flows.min() >= 0
        assert flows.sum(axis=0).tolist() == flows.sum(axis=1).tolist() == sizes
        assert (moved >= 0).all()
        assert (moved <= np.diag(flows)).all()
    for values, means in [
        (np.array([g for g, _ in drawn]), exchange.flows / ROW),
        (np.array([m for _, m in drawn]), exchange.others / ROW),
    ]:
        off = np.abs(values.mean(axis=0) - means)
        assert (off <= 4.5 * values.std(axis=0) / np.sqrt(len(drawn)) + 1e-6).all()
        assert (values.std(axis=0) > 0.05).all()  # fixed flows tell the last ones


# --------------------------------------------------------------------- who gets whose row, exactly


class Enumerated:
    """Draws that follow one path through all orders; a path that draws again is given up."""

    def __init__(self, orders):
        self.orders, self.used, self.open = orders, 0, None

    def shuffled(self, count):
        if self.used == len(self.orders):
            self.open = count
            raise StopIteration
        order = self.orders[self.used]
        self.used += 1
        return np.array(order, dtype=np.intp)


def paths(run, most):
    """Yield each result of a procedure with its chance, over all orders of so many draws."""
    waiting = [((), Fraction(1))]
    while waiting:
        orders, chance = waiting.pop()
        draws = Enumerated(orders)
        try:
            yield run(draws), chance
        except StopIteration:
            if len(orders) < most:
                every = list(itertools.permutations(range(draws.open)))
                waiting += [((*orders, o), chance / len(every)) for o in every]


def flows_of(sizes):
    """Yield all tables of whole numbers with these margins, with who moves within a secret."""
    k = len(sizes)
    for cells in itertools.product(*(range(size + 1) for size in sizes for _ in range(k))):
        flows = np.array(cells).reshape(k, k)
        if flows.sum(axis=0).tolist() == flows.sum(axis=1).tolist() == list(sizes):
            for moved in itertools.product(*(range(flows[s, s] + 1) for s in range(k))):
                leave = np.array(sizes) - np.diag(flows)
                if all(m == 0 or out or m > 2 for m, out in zip(moved, leave, strict=True)):
                    yield flows, np.array(moved)


def secrets_of_holders(sizes, flows, moved, costs):
    """Return P(holder of row k has secret s), and P(another person of secret s holds it)."""
    people = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    secret = np.repeat(np.arange(len(sizes)), sizes)
    total = Fraction(0)
    held = np.full((sum(sizes), len(sizes)), Fraction(0))
    foreign = held.copy()

    def run(draws):
        return exchanged(people, flows, moved, costs, draws)

    for received, chance in paths(run, 3 * len(sizes)):
        total += chance
        for person, row in enumerate(received):
            held[row, secret[person]] += chance
            if row != person:
                foreign[row, secret[person]] += chance
    return held / total, foreign / total


ROWS = np.array([0.0, 2.0, 5.0, 1.0, 1.0, 7.0, 2.0])
MATCHES = {
    "random": None,
    "nearest": lambda who, what: np.abs(ROWS[who][:, None] - ROWS[what]),
    "constant": lambda who, what: np.ones((len(who), len(what))),
}


def checked(sizes, costs, tables=None):
    for flows, moved in flows_of(sizes) if tables is None else tables:
        held, foreign = secrets_of_holders(sizes, flows, moved, costs)
        own = np.repeat(np.arange(len(sizes)), sizes)
        for row, b in enumerate(own):
            wanted = [Fraction(int(flows[s, b]), sizes[b]) for s in range(len(sizes))]
            assert held[row].tolist() == wanted
            wanted[b] = Fraction(int(moved[b]), sizes[b])
            assert foreign[row].tolist() == wanted


@pytest.mark.parametrize("matching", MATCHES)
def test_the_flows_are_all_that_a_row_tells_of_its_holder_or_of_an_insiders_row(matching):
    checked((2, 2), MATCHES[matching])
    checked((1, 2), MATCHES[matching])


@pytest.mark.slow
@pytest.mark.parametrize("matching", MATCHES)
@pytest.mark.parametrize("sizes", [(3, 2), (3, 3), (1, 1, 2), (2, 1, 2), (2, 2, 2)])
def test_the_flows_are_all_that_a_row_of_a_larger_table_tells(sizes, matching):
    tables = list(flows_of(sizes))
    checked(sizes, MATCHES[matching], tables[:: 1 + len(tables) // 4])


BROKEN = (np.array([[1, 1], [1, 2]]), np.array([0, 0]))


def in_file_order(going, counts, draws):
    return np.split(np.sort(going), np.cumsum(counts)[:-1])


def by_value(going, counts, draws):
    return np.split(going[np.argsort(ROWS[going])], np.cumsum(counts)[:-1])


class Unshuffled:
    """Draws whose orders are those of the file."""

    def shuffled(self, count):
        return np.arange(count)


def test_leavers_who_are_not_drawn_uniformly_would_be_told():
    people = [np.arange(2), np.arange(2, 5)]
    received = exchanged(people, *BROKEN, None, Unshuffled())
    assert (received != np.arange(5)).sum() == 2  # always the same two: chances of 0 and 1


@pytest.mark.parametrize("dealt", [in_file_order, by_value])
def test_places_that_are_not_dealt_uniformly_would_be_told(monkeypatch, dealt):
    table = (np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1]]), np.zeros(3, dtype=int))
    checked((2, 2, 2), None, [table])
    monkeypatch.setattr(exchange_module, "_dealt", dealt)
    with pytest.raises(AssertionError):
        checked((2, 2, 2), None, [table])
