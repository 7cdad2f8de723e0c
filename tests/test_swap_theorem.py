"""What a reader of a swap by secrets finds out, over all owners, leavers, places and matches.

The reader has the list of rows with their secrets, and sees every row of the release. For each
release that there may be his posterior of each holder is counted, over all owners that people may
have and all that may be drawn, and held against the flows.
"""

import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from test_swap_flows import ROWS, draws_of, every, exchanged, n_paths, shares_of

from sklearn_puffer._losses.swap_odds import Exchange
from sklearn_puffer._swap import exchange as exchange_module
from sklearn_puffer._swap import exchange as whole_flows
from sklearn_puffer._swap.exchange import drawn_flows

exchanged_here = exchanged  # which a broken variant replaces

DISTANCES = {
    "nearest": lambda some, others: np.abs(ROWS[some][:, None] - ROWS[others]),
    "constant": lambda some, others: np.ones((len(some), len(others))),
    "random": None,
}


def posteriors(sizes, flows, moved, distance, contents):
    """Return, for each release and person, how often which secret is the person's."""
    n = sum(sizes)
    secret = np.repeat(np.arange(len(sizes)), sizes)
    told = defaultdict(lambda: np.zeros((n, len(sizes)), dtype=np.int64))
    for owned in itertools.permutations(range(n)):
        own = np.array(owned)
        people = [np.flatnonzero(secret[own] == s) for s in range(len(sizes))]

        def costs(who, what, own=own):
            return distance(own[who], own[what])

        def run(draws, people=people, costs=costs):
            return exchanged_here(people, flows, moved, distance and costs, draws)

        for received in every(run, draws_of(sizes, flows, moved)):
            view = tuple(contents[k] for k in own[received])
            told[view][np.arange(n), secret[own]] += 1
    return told


def expected(sizes, flows, contents):
    """Return the chances of secrets of the holder of a row, by what it looks like."""
    secret = np.repeat(np.arange(len(sizes)), sizes)
    shares = defaultdict(list)
    for row, b in enumerate(secret):
        shares[contents[row]].append([Fraction(int(flow), sizes[b]) for flow in flows[:, b]])
    return {
        look: [sum(p) / len(p) for p in zip(*rows, strict=True)] for look, rows in shares.items()
    }


def check(sizes, flows, moved, matching, contents=None):
    flows, moved = np.array(flows), np.array(moved)
    contents = contents or tuple(range(sum(sizes)))
    wanted = expected(sizes, flows, contents)
    told = posteriors(sizes, flows, moved, DISTANCES[matching], contents)
    for view, counts in told.items():
        for look, each in zip(view, counts.tolist(), strict=True):
            assert [Fraction(count, sum(each)) for count in each] == wanted[look]


TABLES = [
    ((2, 2), [[1, 1], [1, 1]], [0, 0]),
    ((3, 1), [[2, 1], [1, 0]], [2, 0]),
    ((2, 1, 1), [[0, 1, 1], [1, 0, 0], [1, 0, 0]], [0, 0, 0]),
    ((2, 1, 1), [[1, 1, 0], [0, 0, 1], [1, 0, 0]], [0, 0, 0]),
]
LARGER = [
    ((3, 2), [[2, 1], [1, 1]], [2, 0]),
    ((3, 2), [[3, 0], [0, 2]], [3, 0]),
    ((2, 2, 1), [[1, 1, 0], [0, 1, 1], [1, 0, 0]], [0, 0, 0]),
]


@pytest.mark.parametrize("matching", DISTANCES)
@pytest.mark.parametrize("table", TABLES)
def test_no_release_of_four_rows_tells_more_of_any_holder_than_the_flows(table, matching):
    check(*table, matching)


@pytest.mark.slow
@pytest.mark.parametrize("matching", DISTANCES)
@pytest.mark.parametrize("table", LARGER)
def test_no_release_of_a_larger_table_tells_more_of_any_holder_than_the_flows(table, matching):
    assert n_paths(table[0], *map(np.array, table[1:])) < 200
    check(*table, matching)


@pytest.mark.slow
@pytest.mark.parametrize("table", [TABLES[0], TABLES[3], LARGER[0]])
def test_the_holder_of_equal_rows_has_the_mean_of_their_odds(table):
    check(*table, "nearest", contents="abbacd"[: sum(table[0])])


class InFile:
    """Draws by which the first people of each secret leave it, as they stand in the file."""

    def __init__(self, draws, firsts):
        self.draws, self.firsts, self.used = draws, firsts, -1

    def shuffled(self, count):
        order = self.draws.shuffled(count)
        self.used += 1
        return np.arange(count) if self.used in self.firsts else order


def test_leavers_in_the_order_of_the_file_would_be_told(monkeypatch):
    def in_file(people, flows, moved, costs, draws):
        return exchanged(people, flows, moved, costs, InFile(draws, (0, 3)))

    monkeypatch.setitem(globals(), "exchanged_here", in_file)
    with pytest.raises(AssertionError):
        check(*TABLES[0], "constant")


# ------------------------------------------------------------- who finds his own row elsewhere

AROUND = (2, 2, 2), 1 - np.eye(3, dtype=np.int64), np.zeros(3, dtype=np.int64)


def told_by_what_insiders_hold():
    """Return chances of one secret of whoever holds a row, by what the owner of it holds."""
    *_, seen = shares_of(*AROUND, None)
    return {float(each[1] / each.sum()) for each in seen[:2].reshape(-1, 3) if each.sum()}


@pytest.mark.slow
def test_what_people_hold_says_nothing_of_who_holds_their_own_row():
    assert told_by_what_insiders_hold() == {0.5}


@pytest.mark.slow
def test_exchanges_in_pairs_would_tell_insiders_who_holds_their_own_row(monkeypatch):
    dealt = exchange_module._dealt
    first = {}

    def in_pairs(going, counts, draws):
        again = dealt(going, counts, draws)
        return first.pop(going[0]) if going[0] in first else first.setdefault(going[0], again)

    monkeypatch.setattr(exchange_module, "_dealt", in_pairs)
    assert told_by_what_insiders_hold() == {0.0, 1.0}


# ------------------------------------------------------------------------------- flows, in the mean


class Counted:
    """Draws of numbers that follow one path."""

    def __init__(self, path):
        self.path, self.used, self.end = path, 0, None

    def below(self, end):
        if self.used == len(self.path):
            self.end = end
            raise StopIteration
        self.used += 1
        return self.path[self.used - 1]


def mean_of(exchange):
    """Return the exact mean of whole flows, and of those who move within their secret."""
    waiting, mean = [((), Fraction(1))], 0
    while waiting:
        path, chance = waiting.pop()
        draws = Counted(path)
        try:
            flows, moved = drawn_flows(exchange, draws)
        except StopIteration:
            waiting += [((*path, x), chance / draws.end) for x in range(draws.end)]
        else:
            mean = mean + chance * np.column_stack([flows, moved]).astype(object)
    return mean


THIRDS = Exchange(
    np.array([3, 2, 2]),
    np.array([[5, 4, 0], [0, 2, 4], [4, 0, 2]]),
    np.array([0, 0, 0]),
    3,
)


@pytest.mark.slow
def test_whole_flows_of_three_secrets_have_the_mean_flows_as_means_to_the_last_digit():
    wanted = np.column_stack([THIRDS.flows, THIRDS.others]).tolist()
    assert (mean_of(THIRDS) * 3).tolist() == wanted


def test_flows_that_are_always_rounded_one_way_would_have_other_means(monkeypatch):
    one_way = whole_flows._rounded

    class Zero:
        def below(self, end):
            return 0

    monkeypatch.setattr(whole_flows, "_rounded", lambda exchange, draws: one_way(exchange, Zero()))
    wanted = np.column_stack([THIRDS.flows, THIRDS.others]).tolist()
    assert (mean_of(THIRDS) * 3).tolist() != wanted
