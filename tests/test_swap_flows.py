"""The swap by secrets: flows of least cost, whole flows, and who gets whose row, against truth.

The oracles are fractions: every order in which people, leavers and places can be shuffled is
enumerated, and a holder's secret counted. They share no code with the package.
"""

import dataclasses
import functools
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
    together,
)
from sklearn_puffer._noise import Choices, seeded_entropy
from sklearn_puffer._swap import exchange as exchange_module
from sklearn_puffer._swap.exchange import (
    ROW,
    Budget,
    ExchangeProblem,
    ScaledRows,
    cut,
    drawn_flows,
    exchange_rows,
    least_exchange,
    most_pieces,
    response,
    sizes_of_piece,
)


def all_pairs(k):
    return list(itertools.combinations(range(k), 2))


def apart(pairs):
    """Return pairs of one budget."""
    return [(s, t, 1.0) for s, t in pairs]


class Given:
    """Rows at given distances; they are cut by points, where there are any."""

    def __init__(self, costs, points):
        self.distances, self.taken = costs, getattr(points, "taken", None)


def exchanged(people, flows, moved, costs, draws, points=None):
    """Return whose row everybody receives."""
    received = np.full(sum(map(len, people)), -1)
    near = None if costs is None else Given(costs, points)
    exchange_rows(received, people, flows, moved, near, draws)
    return received


def problem_of(sizes, epsilon=1.0, delta=0.0, insiders=None, seed=0):
    rng = np.random.default_rng(seed)
    k = len(sizes)
    cost = rng.random((k, k))
    within = rng.random(k)
    budget = Budget(epsilon, delta, insiders)
    people, pairs = np.array(sizes), apart(all_pairs(k))
    return ExchangeProblem(people, cost + cost.T, within, pairs, budget, people)


def cost_of(problem, exchange):
    away = problem.cost * (1.0 - np.eye(len(problem.sizes)))
    return ((exchange.flows * away).sum() + exchange.others @ problem.within_cost) / exchange.unit


PUBLISHED = json.loads(Path(__file__).with_name("golden_swap.json").read_text(encoding="utf-8"))


def test_programs_reach_the_published_least_costs():
    assert len(PUBLISHED["instances"]) == 14
    for instance in PUBLISHED["instances"]:
        sizes = np.array(instance["rows_by_secret"])
        pairs = all_pairs(len(sizes))
        budget = Budget(instance["epsilon"], 0.0, instance["insiders"])
        cost, within = np.array(instance["cost"]), np.array(instance["within"])
        problem = ExchangeProblem(sizes, cost, within, apart(pairs), budget, sizes)
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
        outside = max(outside, math.log1p(odds - 1))
        held = [others[b] if each == b else flows[each][b] for each in (s, t)]
        left = [sizes[each] - (each == b) for each in (s, t)]
        if b not in (s, t) or sizes[b] > 2:
            odds = Fraction(held[0] * left[1], held[1] * left[0])
            inside = max(inside, math.log1p(odds - 1))
    return outside, inside


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=4),
    st.floats(0.1, 3.0),
    st.integers(0, 1000),
)
def test_flows_of_any_table_keep_both_budgets_and_use_one(sizes, epsilon, seed):
    problem = problem_of(sizes, epsilon, insiders=2 * epsilon, seed=seed)
    exchange = least_exchange(problem)
    pairs = all_pairs(len(sizes))
    outside, inside = true_losses(exchange, pairs)
    assert outside <= outsider_loss(exchange, pairs) <= epsilon
    assert inside <= insider_loss(exchange, pairs) <= 2 * epsilon
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
    assert spent <= outsider_delta(exchange, all_pairs(3), 0.4) * (1 + 1e-9) <= delta * (1 + 1e-9)


def test_a_rare_secret_left_alone_costs_as_much_delta_as_a_common_one():
    """Weighing secrets by their shares would certify an untouched table with a secret of 1 %."""
    sizes = np.array([990, 10])
    untouched = Exchange(sizes, np.diag(sizes), np.zeros(2, dtype=int), 1, sizes)
    assert outsider_delta(untouched, [(0, 1)], 1.0) >= 1.0
    assert outsider_loss(untouched, [(0, 1)]) == math.inf


def test_three_secrets_tell_transposed_flows_apart():
    round_trip = np.array([[0.0, 0.1, 1.0], [1.0, 0.0, 0.1], [0.1, 1.0, 0.0]])
    budget = Budget(1.0, 0.0, None)
    sizes = np.array([30, 20, 50])
    problem = ExchangeProblem(sizes, round_trip, np.ones(3), apart(all_pairs(3)), budget, sizes)
    exchange = least_exchange(problem)
    turned = Exchange(sizes, exchange.flows.T, exchange.others, ROW, sizes)
    assert outsider_loss(exchange, all_pairs(3)) <= 1.0
    assert outsider_loss(turned, all_pairs(3)) > 1.1


@pytest.mark.parametrize("epsilon", [9.0, 20.0, 60.0, 3000.0])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_budgets_that_allow_nearly_everything_move_nearly_nobody(epsilon, delta):
    problem = problem_of([200, 50, 30], epsilon, delta, insiders=2 * epsilon)
    exchange = least_exchange(problem)
    assert np.trace(exchange.flows) > 0.98 * 280 * ROW
    assert problem.holds(exchange)


def test_a_pair_that_nobody_protects_costs_nothing():
    problem = problem_of([30, 20, 50], 0.2)
    fewer = dataclasses.replace(problem, pairs=[(0, 1, 1.0)])
    exchange = least_exchange(fewer)
    assert cost_of(fewer, exchange) < cost_of(problem, least_exchange(problem)) / 2
    assert exchange.flows[2, 2] == 50 * ROW


@pytest.mark.parametrize("sizes", [(1, 6), (2, 5), (1, 2, 6), (5, 6, 1), (1, 1, 1)])
@pytest.mark.parametrize("distances", [(1.0,) * 3, (0.9, 1.0, 1.0)])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_secrets_of_one_or_two_people_are_hidden_from_outsiders_and_from_common_insiders(
    sizes, distances, delta
):
    """Who is of a common secret keeps a share of rows like his own within it."""
    problem = problem_of(sizes, 1.0, delta, insiders=2.0)
    pairs = all_pairs(len(sizes))
    apart_by = zip(pairs, distances, strict=False)
    problem = dataclasses.replace(problem, pairs=[(s, t, d) for (s, t), d in apart_by])
    exchange = least_exchange(problem)
    assert delta or outsider_loss(exchange, pairs) <= 1.0
    for b, size in enumerate(sizes):
        assert (exchange.others[b] > 0) == (size > 2)
    assert true_losses(exchange, pairs)[1] <= insider_loss(exchange, pairs) <= 2.0


def test_a_common_secret_whose_people_all_leave_would_tell_the_rare_one():
    flows, nobody = np.array([[5, 1], [1, 0]]), np.zeros(2, dtype=int)
    people = np.array([6, 1])
    assert insider_loss(Exchange(people, flows, nobody, 1, people), [(0, 1)]) == math.inf


def test_free_changes_within_a_secret_of_two_never_exchange_these_in_a_pair():
    for sizes in ([2, 5], [1, 4]):
        problem = dataclasses.replace(problem_of(sizes), within_cost=np.zeros(2))
        assert least_exchange(problem).others[0] == 0


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
    """Draws that follow one path through all orders."""

    def __init__(self, orders):
        self.orders, self.used, self.open = orders, 0, None

    def shuffled(self, count):
        if self.used == len(self.orders):
            self.open = count
            raise StopIteration
        order = self.orders[self.used]
        self.used += 1
        return np.array(order, dtype=np.intp)


def every(run, counts):
    """Return each result of a procedure, over all orders of so many things: all as probable.

    Paths that shuffle anything else are given up: those of derangements that are drawn again.
    """
    waiting, results = [()], []
    while waiting:
        orders = waiting.pop()
        draws = Enumerated(orders)
        try:
            results.append(run(draws))
        except StopIteration:
            if [draws.open] == counts[len(orders) : len(orders) + 1]:
                waiting += [(*orders, o) for o in itertools.permutations(range(draws.open))]
    return np.array(results)


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


def draws_of(sizes, flows, moved):
    """Return how many people or places are shuffled, one time after the other."""
    counts = []
    for size, stay, own in zip(sizes, np.diag(flows).tolist(), moved.tolist(), strict=True):
        going = size - stay + own
        shuffled = {0: [going, going], going: [going, 0, 0]}.get(
            own, [going - going // 2, going // 2, going - own, going - own]
        )
        counts += [size, *shuffled]
    return counts


def n_paths(sizes, flows, moved):
    return math.prod(map(math.factorial, draws_of(sizes, flows, moved)))


def shares_of(sizes, flows, moved, costs):
    """Return chances by row and by secret of the holder: of any holder, and of another person.

    And by row, by the row that its owner holds, and by the secret of the holder.
    """
    n, k = sum(sizes), len(sizes)
    people = np.split(np.arange(n), np.cumsum(sizes)[:-1])
    counts = draws_of(sizes, flows, moved)
    received = every(lambda draws: exchanged(people, flows, moved, costs, draws), counts)
    seen = np.zeros((n, n, k), dtype=np.int64)
    holders = np.argsort(received, axis=1)
    secrets = np.repeat(np.arange(k), sizes)[holders]
    np.add.at(seen, (np.arange(n), received, secrets), 1)
    held = seen.sum(axis=1)
    foreign = held - np.einsum("kks->ks", seen)
    return *(fractions(each, len(received)) for each in (held, foreign)), seen


def fractions(counts, total):
    return [[Fraction(int(each), total) for each in row] for row in counts]


ROWS = np.array([0.0, 2.0, 5.0, 1.0, 1.0, 7.0, 2.0])
MATCHES = {
    "random": None,
    "nearest": lambda who, what: np.abs(ROWS[who][:, None] - ROWS[what]),
    "constant": lambda who, what: np.ones((len(who), len(what))),
}


def checked(sizes, costs, tables):
    for flows, moved in tables:
        held, foreign, _ = shares_of(sizes, flows, moved, costs)
        own = np.repeat(np.arange(len(sizes)), sizes)
        for row, b in enumerate(own):
            wanted = [Fraction(int(flows[s, b]), sizes[b]) for s in range(len(sizes))]
            assert held[row] == wanted
            wanted[b] = Fraction(int(moved[b]), sizes[b])
            assert foreign[row] == wanted


CUT = np.array([[1, 2], [2, 1]]), np.array([0, 1])


@pytest.mark.slow
def test_rows_that_are_matched_among_near_ones_tell_no_more(monkeypatch):
    """Leavers and places are cut along the longest axis; here down to one of each."""
    points = ScaledRows(ROWS[:, None], [], [])
    monkeypatch.setattr(exchange_module, "PART", 1)
    monkeypatch.setitem(globals(), "exchanged", functools.partial(exchanged, points=points))
    checked((3, 3), MATCHES["nearest"], [CUT])


def some_tables(sizes, most, count):
    """Return so many tables of flows, of those with at most so many paths."""
    tables = [each for each in flows_of(sizes) if n_paths(sizes, *each) <= most]
    return tables[:: 1 + len(tables) // count]


@pytest.mark.parametrize("matching", MATCHES)
@pytest.mark.parametrize("sizes", [(2, 2), (1, 2), (1, 1, 2)])
def test_the_flows_are_all_that_a_row_tells_of_its_holder_or_of_an_insiders_row(sizes, matching):
    checked(sizes, MATCHES[matching], some_tables(sizes, 600, 6))


@pytest.mark.slow
@pytest.mark.parametrize("matching", MATCHES)
@pytest.mark.parametrize("sizes", [(3, 2), (3, 3), (4, 2), (4, 3), (5, 2), (2, 1, 2), (2, 2, 2)])
def test_the_flows_are_all_that_a_row_of_a_larger_table_tells(sizes, matching):
    checked(sizes, MATCHES[matching], some_tables(sizes, 3000, 4))


CROSSED = (4, 2), np.array([[2, 2], [2, 0]]), np.array([2, 0])


def told_by_what_is_received():
    """Return, by what people hold, the chances that their own secret holds their row."""
    _, _, seen = shares_of(*CROSSED, MATCHES["nearest"])
    own = seen[:4, :4] * (1 - np.eye(4, dtype=int))[:, :, None]
    return {float(each[0] / each.sum()) for each in own.reshape(-1, 2) if each.sum()}


@pytest.mark.slow
def test_what_people_receive_of_their_own_secret_says_nothing_of_who_holds_their_row():
    assert told_by_what_is_received() == {0.5}


def uncrossed(going, moved, draws):
    """Match each half with its own places, where a person's own row is the nearest."""
    more, less = moved - moved // 2, moved // 2
    halves = np.split(going, [len(going) - len(going) // 2])
    both = [(half, half[draws.shuffled(len(half))]) for half in halves]
    own = [(who[:n], what[:n]) for (who, what), n in zip(both, (more, less), strict=True)]
    left = [(who[n:], what[n:]) for (who, what), n in zip(both, (more, less), strict=True)]
    return *map(np.concatenate, zip(*left, strict=True)), own


@pytest.mark.slow
def test_matching_those_who_keep_their_secret_to_the_nearest_would_give_them_their_own(monkeypatch):
    checked(CROSSED[0], MATCHES["nearest"], [CROSSED[1:]])
    monkeypatch.setattr(exchange_module, "_within_secret", uncrossed)
    with pytest.raises(AssertionError):
        checked(CROSSED[0], MATCHES["nearest"], [CROSSED[1:]])


BROKEN = (np.array([[1, 1], [1, 2]]), np.array([0, 0]))


def in_file_order(going, counts, draws):
    return np.split(np.sort(going), np.cumsum(counts)[:-1])


def by_value(going, counts, draws):
    return np.split(going[np.argsort(ROWS[going])], np.cumsum(counts)[:-1])


class Unshuffled:
    """Draws whose orders are those of the file."""

    def shuffled(self, count):
        return np.arange(count)


def movers(keeping, size, own, kept):
    """Return how many of those who keep their secret may move, and the chances."""
    mean = keeping * own / kept
    if keeping == size and mean < 3:
        return {3: mean / 3, 0: 1 - mean / 3}
    half, part = int(mean // 2), mean / 2 % 1
    if keeping < size and 2 * half + 2 <= keeping:
        return {2 * half + k: math.comb(2, k) * part**k * (1 - part) ** (2 - k) for k in range(3)}
    return {math.floor(mean): 1 - mean % 1, math.floor(mean) + 1: mean % 1}


def going(moved, leaving):
    """Return how many hold and are held, by secret: of two halves, which cross."""
    both = np.zeros((2, 2))
    count, halves = moved + leaving, (moved - moved // 2, moved // 2)
    for half, holds, held in zip(
        (count - count // 2, count // 2), halves, halves[::-1], strict=True
    ):
        if moved == count:
            held = holds = half
        both += np.outer([holds, half - holds], [held, half - held]) / max(half, 1)
    return both


def told_by_own_row(sizes, epsilon):
    """Return the most that insiders of two secrets learn, by what they hold of which secret."""
    people, budget = np.array(sizes), Budget(epsilon, 0.0, 2 * epsilon)
    problem = ExchangeProblem(people, 1 - np.eye(2), np.ones(2), [(0, 1, 1.0)], budget, people)
    exchange = least_exchange(problem)
    flows, own = exchange.flows / ROW, exchange.others / ROW
    start, parts = response(*sizes, float(flows[0, 1]))
    most = 0.0
    for b, size in enumerate(sizes):
        chances = np.zeros((2, 2))  # by the secret of the row he holds, and of who holds his own
        for x, chance in enumerate((parts / parts.sum()).tolist(), start):
            for moved, share in movers(size - x, size, own[b], flows[b, b]).items():
                told = going(moved, x)
                chances += chance * share * (told if b == 0 else told[::-1, ::-1])
        left = np.array(sizes) - (np.arange(2) == b)
        if left[b] > 1:
            odds = chances[:, 0] / left[0], chances[:, 1] / left[1]
            most = max(most, np.abs(np.log(odds[0] / odds[1])).max())
    return most


@pytest.mark.parametrize(
    ("sizes", "epsilon", "told"),
    [((30, 30), 1.0, 2.03), ((10, 10), 1.0, 2.2), ((3, 1), 1.0, 2.79), ((30, 3000), 0.1, 0.365)],
)
def test_insiders_who_go_by_the_row_they_hold_learn_more_where_few_have_a_secret(
    sizes, epsilon, told
):
    """The certificate leaves it out by name, and docs/swap.md has these figures."""
    assert told_by_own_row(sizes, epsilon) == pytest.approx(told, abs=0.01)


def test_movers_within_a_secret_are_as_many_as_the_oracle_says():
    people, flows = np.array([9, 4]), np.array([[17, 1], [1, 7]])
    exchange = Exchange(people, flows, np.array([6, 0]), 2, people)
    flows = np.array([[8, 1], [1, 3]])
    drawn = [
        exchange_module._movers(exchange, 0, flows, Choices(seeded_entropy(s, 0)))
        for s in range(2000)
    ]
    for moved, chance in movers(8, 9, 3.0, 8.5).items():
        assert np.mean(np.array(drawn) == moved) == pytest.approx(chance, abs=0.045)


def test_one_person_who_moves_within_a_secret_would_know_who_holds_his_row(monkeypatch):
    def rounded_at_once(keeping, size, own, kept):
        mean = keeping * own / kept
        return {math.floor(mean): 1 - mean % 1, math.floor(mean) + 1: mean % 1}

    monkeypatch.setitem(globals(), "movers", rounded_at_once)
    assert told_by_own_row((30, 30), 1.0) > 3.0


def test_leavers_who_are_not_drawn_uniformly_would_be_told():
    people = [np.arange(2), np.arange(2, 5)]
    received = exchanged(people, *BROKEN, None, Unshuffled())
    assert (received != np.arange(5)).sum() == 2  # always the same two: chances of 0 and 1


@pytest.mark.parametrize("dealt", [in_file_order, by_value])
def test_places_that_are_not_dealt_uniformly_would_be_told(monkeypatch, dealt):
    table = (np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1]]), np.zeros(3, dtype=int))
    checked((2, 2, 2), None, [table])
    monkeypatch.setattr(exchange_module, "_split", dealt)
    with pytest.raises(AssertionError):
        checked((2, 2, 2), None, [table])


# ----------------------------------------------------------------------------------------- pieces


def secrets_of_holders_in_pieces(height, groups, tables):
    """Return P(holder of row k has secret s) over all orders of the rows and all draws."""
    points = ScaledRows(height[:, None], [], [])
    held = np.full((len(height), len(groups)), Fraction(0))
    orders = list(itertools.product(*(itertools.permutations(group) for group in groups)))
    for order in orders:
        for piece, flows in zip(cut([np.array(o) for o in order], points, 2), tables, strict=True):
            people, sizes = np.concatenate(piece), [len(group) for group in piece]
            chances = shares_of(sizes, flows, np.zeros(len(sizes), dtype=int), None)[0]
            # of the rows of a piece by their places in it
            held[people] += np.array(chances, dtype=object) / len(orders)
    return held


TABLES = (np.array([[1, 1], [1, 0]]), np.array([[0, 1], [1, 0]]))  # of (2, 1) and (1, 1) people


@pytest.mark.parametrize("height", [[1.0, 2.0, 9.0, 3.0, 5.0], [1.0, 1.0, 1.0, 3.0, 3.0]])
def test_a_row_is_held_as_the_flows_of_its_piece_say_or_of_both_where_rows_are_equal(height):
    groups = [np.arange(3), np.arange(3, 5)]
    held = secrets_of_holders_in_pieces(np.array(height), groups, TABLES)
    assert (held.sum(axis=1) == 1).all()
    if height[0] == height[1]:  # all rows of a secret are equal: a mixture of both pieces
        assert held[0].tolist() == [Fraction(1, 3), Fraction(2, 3)]
        assert held[3].tolist() == [Fraction(1), Fraction(0)]
    else:  # the cut is certain
        assert held[0].tolist() == [Fraction(1, 2), Fraction(1, 2)]
        assert held[2].tolist() == [Fraction(0), Fraction(1)]


def test_the_shares_of_a_piece_in_the_place_of_those_of_the_stratum_would_tell():
    """Flows that tell nothing within a piece of (2, 1) people tell log 4/3 against (3, 2)."""
    flows, others = np.array([[4, 2], [2, 1]]), np.zeros(2, dtype=int)
    alone = Exchange(np.array([2, 1]), flows, others, 3, np.array([2, 1]))
    piece = Exchange(np.array([2, 1]), flows, others, 3, np.array([3, 2]))
    assert outsider_loss(alone, [(0, 1)]) == 0.0
    assert outsider_loss(piece, [(0, 1)]) == pytest.approx(math.log(4 / 3))
    assert insider_loss(piece, [(0, 1)]) == math.inf
    assert outsider_delta(piece, [(0, 1)], 0.0) == pytest.approx(2 / 3 - 1 / 2)


@given(
    st.lists(st.integers(1, 3000), min_size=2, max_size=4),
    st.floats(0.05, 2.0),
    st.floats(0.5, 3.0),
)
def test_flows_that_tell_nothing_are_within_every_piece_of_as_many_as_are_allowed(
    sizes, epsilon, factor
):
    people, pairs = np.array(sizes), all_pairs(len(sizes))
    budget = Budget(epsilon, 0.0, factor * epsilon)
    n_pieces = most_pieces(people, budget)
    if n_pieces == 1:
        return
    assert 10 * n_pieces <= people.min()
    for number in {0, 1, n_pieces // 2, n_pieces - 1}:
        own = sizes_of_piece(people, n_pieces, number).astype(float)
        flows, others = (
            np.outer(own, own) / own.sum() / people[:, None],
            own * (own - 1) / own.sum(),
        )
        for b, (s, t) in itertools.product(range(len(sizes)), pairs):
            assert abs(math.log(flows[s, b] / flows[t, b])) <= epsilon
            left = [(others[b] if x == b else own[x] * own[b] / own.sum()) for x in (s, t)]
            odds = left[0] / (people[s] - (s == b)) / left[1] * (people[t] - (t == b))
            assert abs(math.log(odds)) <= budget.insiders


def test_more_shards_than_the_rarest_secret_bears_would_tell_it():
    assert most_pieces(np.array([4000, 19]), Budget(1.0, 0.0, 2.0)) == 1
    people = np.array([40, 3])
    tells_nothing = [
        Exchange(own, np.outer(own, own), np.zeros(2, dtype=int), int(own.sum()), people)
        for own in (sizes_of_piece(people, 8, number) for number in range(8))
        if own.all()
    ]
    assert max(outsider_loss(each, [(0, 1)]) for each in tells_nothing) > 0.9


@given(st.integers(0, 1000), st.integers(0, 3))
def test_a_cut_has_the_sizes_that_are_solved_for_and_sees_nothing_but_values(seed, levels):
    rng = np.random.default_rng(seed)
    people = rng.integers(2**levels, 30, 2)
    groups = np.split(rng.permutation(people.sum()), [people[0]])
    numbers, code = rng.normal(size=people.sum()), rng.integers(0, 3, people.sum())
    pieces = cut(groups, ScaledRows(numbers[:, None], [code], [0.5]), 2**levels)
    sizes = [[len(group) for group in piece] for piece in pieces]
    assert sizes == [sizes_of_piece(people, 2**levels, q).tolist() for q in range(2**levels)]
    for secret, group in enumerate(groups):
        there = np.concatenate([piece[secret] for piece in pieces])
        assert sorted(there) == sorted(group)


@given(st.integers(0, 1000))
def test_groups_are_as_far_apart_as_their_rows_are_one_by_one(seed):
    rng = np.random.default_rng(seed)
    numbers, codes = rng.integers(-3, 4, (6, 2)).astype(float), rng.integers(0, 2, (2, 6))
    rows, units = rng.permutation(6).reshape(3, 2), rng.integers(1, 4, 2)
    rows[1:, 1] = np.where(rng.random() < 0.5, -1, rows[1:, 1])  # groups of one row
    groups = ScaledRows(numbers, list(codes), [*units]).grouped(rows)
    far = groups.distances(np.arange(3), np.arange(3))
    for first, second in itertools.product(range(1, 3), repeat=2):
        wanted = 0.0
        for a, b in zip(rows[first], rows[second], strict=True):
            if a >= 0:
                wanted += np.abs(numbers[a] - numbers[b]).sum()
                wanted += units @ (codes[:, a] != codes[:, b])
        assert far[first, second] == wanted
        both = np.array([[first], [second]])
        assert groups.mean_distance(*both) == wanted


def test_flows_of_all_pieces_together_are_those_of_the_stratum_in_whole_numbers():
    people, budget = np.array([45, 23]), Budget(1.0, 0.0, 2.0)
    solved = []
    for number in range(2):
        sizes = sizes_of_piece(people, 2, number)
        cost, pairs = 1.0 - np.eye(2), [(0, 1, 1.0)]
        problem = ExchangeProblem(sizes, cost, np.ones(2), pairs, budget, people)
        solved.append(least_exchange(problem))
        assert problem.holds(solved[-1])
    whole = together(solved)
    assert whole.flows.sum(axis=0).tolist() == (people * ROW).tolist()
    assert outsider_loss(whole, [(0, 1)]) <= 1.0
    with pytest.raises(ValueError, match="sizes of the secrets"):
        together(solved[:1])
