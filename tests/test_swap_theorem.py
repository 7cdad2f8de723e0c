"""What a reader of a swap by secrets finds out, over all owners, leavers, places and matches.

The reader has the list of rows with their secrets, and sees every row of the release. For each
release that there may be his posterior of each holder is counted, over all owners that people may
have and all that may be drawn, and held against the flows.
"""

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from test_swap_flows import ROWS, Enumerated, draws_of, every, exchanged, n_paths, shares_of

from sklearn_puffer import PufferfishSwap
from sklearn_puffer._losses.swap_odds import Exchange, insider_loss, outsider_loss
from sklearn_puffer._swap import exchange as exchange_module
from sklearn_puffer._swap import release as release_module
from sklearn_puffer._swap.exchange import StratumProblem, drawn_flows
from sklearn_puffer._swap.release import Solved
from sklearn_puffer._tables.frame import frame_table

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


def test_leavers_whom_the_assignment_chose_would_be_told_by_its_ties(monkeypatch):
    """Of equal costs an assignment takes the first ones in the file."""

    def chosen(people, flows, moved, costs, draws):
        received = np.arange(sum(map(len, people)))
        going = people[1][draws.shuffled(len(people[1]))][: flows[1, 0]]
        taken, leaving = linear_sum_assignment(costs(going, people[0]))
        received[going[taken]], received[people[0][leaving]] = people[0][leaving], going[taken]
        return received

    monkeypatch.setitem(globals(), "exchanged_here", chosen)
    monkeypatch.setitem(globals(), "draws_of", lambda *_: [1])
    with pytest.raises(AssertionError):
        check((3, 1), [[2, 1], [1, 0]], [0, 0], "constant")


# ------------------------------------------------------------------------------------ whole tables

STAY, CROSS = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
NOBODY = [0, 0]
# flows, each as probable, by how many have which secret, and who moves within a secret
WHOLE = {
    (1, 1): [(STAY, NOBODY), (CROSS, NOBODY)],
    (2, 1): [([[2, 0], [0, 1]], NOBODY), ([[1, 1], [1, 0]], NOBODY)],
    (3, 1): [([[3, 0], [0, 1]], NOBODY), *(([[2, 1], [1, 0]], [own, 0]) for own in (0, 2))],
    (3, 2): [([[2, 1], [1, 1]], NOBODY)],
    (4, 2): [([[3, 1], [1, 1]], NOBODY)],
}


class TableDraws(Enumerated):
    """Draws along one path, whatever they are about."""

    def shuffled(self, count):
        return np.arange(count) if count < 2 else super().shuffled(count)

    def of(self, rows, *about):
        return self

    def ranks(self, n_rows):
        """Return the order of the two members of each home."""
        return np.concatenate([self.shuffled(2) for _ in range(n_rows // 2)])


def solved_as(groups, flows, sizes, parts):
    """Return a stratum whose parts have some whole flows, by which people move."""
    people = np.sum(sizes, axis=0)
    stratum = StratumProblem([*groups], people, [], 1, parts)
    of = [
        Exchange(np.array(size), np.array(each), np.array(own), 1, people)
        for size, (each, own) in zip(sizes, flows, strict=True)
    ]
    k = len(people)
    moving = Exchange(
        np.ones(k, int), np.roll(np.eye(k, dtype=int), 1, axis=0), np.zeros(k, int), 1, people
    )
    return Solved(stratum, [*groups.values()], of, moving, np.zeros((2, 0)), [])


def solved_all(rows):
    """Yield the strata of some rows with whole flows: each combination that may be drawn."""
    strata = [groups for _, groups in rows.grouped(np.arange(len(rows.codes)))]
    sizes = [tuple(len(people) for people in groups.values()) for groups in strata]
    for flows in itertools.product(*(WHOLE[each] for each in sizes)):
        yield [
            solved_as(groups, [flow], [size], 1)
            for groups, size, flow in zip(strata, sizes, flows, strict=True)
        ]


def views(run):
    """Yield all results of a procedure with their chances."""
    waiting = [((), Fraction(1))]
    while waiting:
        orders, chance = waiting.pop()
        draws = TableDraws(orders)
        try:
            yield run(draws), chance
        except StopIteration:
            every_order = list(itertools.permutations(range(draws.open)))
            waiting += [((*orders, each), chance / len(every_order)) for each in every_order]


def told_of_strata(strata, secrets, read):
    """Return the chances of the secrets of all people, by whose row each holds."""
    n = len(strata)
    table = pd.DataFrame({"known": [*strata], "secret": [*secrets], "row": np.arange(n) * 1.0})
    params = {"sensitive": "secret", "known": "known", "public": ["row", "secret"]}
    mechanism = PufferfishSwap(1.0, **params).fit(table)._fitted.mechanism
    told = defaultdict(lambda: [[Fraction(0)] * 2 for _ in range(n)])
    for owned in itertools.permutations(range(n)):
        if any(strata[own] != strata[at] for at, own in enumerate(owned)):
            continue
        public = table.loc[[*owned], ["row", "secret"]].reset_index(drop=True)
        rows = read(mechanism.read(frame_table(table.assign(**public))))
        for solved in solved_all(rows):
            for received, chance in views(partial(mechanism.permutation, rows, solved)):
                each = told[tuple(np.array(owned)[received].tolist())]
                for at, secret in enumerate(rows.codes.tolist()):
                    each[at][secret] += chance
    return told


@pytest.fixture
def whole(monkeypatch):
    """Whole flows, which are drawn as they are."""
    monkeypatch.setattr(release_module, "drawn_flows", lambda each, _: (each.flows, each.others))


def largest_odds(strata, secrets, told):
    """Return how far any release moves the odds of anybody's secret from those in his stratum."""
    largest = Fraction(1)
    for each in told.values():
        for stratum, (a, b) in zip(strata, each, strict=True):
            own = [x for s, x in zip(strata, secrets, strict=True) if s == stratum]
            odds = [a * own.count("b"), b * own.count("a")]
            largest = max(largest, max(odds) / min(odds) if all(odds) else math.inf)
    return largest


STRATA = "AAABB", "aabab"


def test_no_release_of_strata_tells_more_of_any_holder_than_the_flows_of_his_stratum(whole):
    told = told_of_strata(*STRATA, lambda rows: rows)
    wanted = [Fraction(x, 4) for x in (3, 3, 2, 2, 2)]  # of the first secret, for each row's holder
    assert {frozenset(view) for view in told} == {frozenset(range(5))}
    for view, each in told.items():
        assert [a / (a + b) for a, b in each] == [wanted[row] for row in view]
    assert largest_odds(*STRATA, told) == 2


def in_one(rows):
    """Return rows of all strata as those of one."""
    rows.strata = np.zeros_like(rows.strata)
    return rows


def test_strata_that_are_exchanged_in_one_would_tell_more_than_the_budget(whole):
    """The flows of all five move the odds by 3/2 at most, against shares of all five."""
    told = told_of_strata(*STRATA, in_one)
    assert largest_odds(*STRATA, told) > 2


def told_of_homes():
    """Return the chances of secrets of homes of two, by whose rows their members hold.

    Members stand in an order that the reader knows, and their rows tell him who is the first.
    """
    table = pd.DataFrame({"home": np.repeat(range(3), 2), "secret": [*"aaaabb"]})
    table = table.assign(row=np.arange(6.0))
    params = {"sensitive": "secret", "groups": "home", "public": ["row", "secret"]}
    mechanism = PufferfishSwap(1.0, **params).fit(table)._fitted.mechanism
    told = defaultdict(lambda: [[Fraction(0)] * 2 for _ in range(3)])
    for owned in itertools.permutations(range(3)):
        own = (2 * np.array(owned)[:, None] + [0, 1]).ravel()
        public = table.loc[own, ["row", "secret"]].reset_index(drop=True)
        rows = mechanism.read(frame_table(table.assign(**public)))

        def run(draws, rows=rows, solved=None):
            return rows.rows_of(mechanism.permutation(rows, solved, draws), solved, draws)

        for solved in solved_all(rows):
            for received, chance in views(partial(run, solved=solved)):
                each = told[tuple(own[received].tolist())]
                for home, secret in enumerate(rows.codes.tolist()):
                    each[home][secret] += chance
    return told


@pytest.mark.slow
def test_no_release_of_homes_tells_more_of_any_member_than_the_flows_of_homes(whole):
    told = told_of_homes()
    assert len(told) > 6  # members are dealt at random, too
    for view, each in told.items():
        for member, row in enumerate(view):
            a, b = each[member // 2]
            assert a / (a + b) == (Fraction(3, 4) if row < 4 else Fraction(1, 2))


def told_of_parts(row, *, in_random_order):
    """Return the chances of the first secret of whoever holds each row, over all releases."""
    table = pd.DataFrame({"id": np.arange(4), "secret": [*"aabb"], "row": row})
    params = {"sensitive": "secret", "ids": "id", "public": ["row", "secret"], "matching": "parts"}
    mechanism = PufferfishSwap(1.0, **params).fit(table)._fitted.mechanism
    told = defaultdict(lambda: [[Fraction(0)] * 2 for _ in range(4)])

    def run(rows, draws):
        order = draws.shuffled(4) if in_random_order else np.arange(4)
        ((_, groups),) = rows.grouped(order)
        solved = solved_as(groups, [(CROSS, NOBODY), (STAY, NOBODY)], [(1, 1), (1, 1)], 2)
        return mechanism.permutation(rows, [solved], draws)

    for owned in itertools.permutations(range(4)):
        public = table.loc[[*owned], ["row", "secret"]].reset_index(drop=True)
        rows = mechanism.read(frame_table(table.assign(**public)))
        for received, chance in views(partial(run, rows)):
            each = told[tuple(np.array(owned)[received].tolist())]
            for at, secret in enumerate(rows.codes.tolist()):
                each[at][secret] += chance
    chances = defaultdict(set)
    for view, each in told.items():
        for row, (a, b) in zip(view, each, strict=True):
            chances[row].add(a / (a + b))
    return [chances[row] for row in range(4)]


def test_parts_tell_of_each_row_the_flows_of_its_part(whole):
    assert told_of_parts([0.0, 1.0, 0.0, 1.0], in_random_order=False) == [{0}, {1}, {1}, {0}]


@pytest.mark.slow
def test_equal_rows_are_cut_at_random(whole):
    assert told_of_parts([0.0] * 4, in_random_order=True) == [{Fraction(1, 2)}] * 4


def test_equal_rows_that_were_cut_in_the_order_of_the_file_would_be_told(whole):
    assert told_of_parts([0.0] * 4, in_random_order=False) != [{Fraction(1, 2)}] * 4


# ------------------------------------------------------------- who finds his own row elsewhere


def told_to_insiders(mechanism, table, owners, releases, members=1):
    """Return chances of the holder's secret, by who finds his own row, which one, and where.

    A release is a procedure of draws, from some rows as they were read to the rows that all hold.
    """
    told = defaultdict(lambda: [Fraction(0)] * 2)
    for owned in owners:
        public = table.loc[[*owned], ["row", "secret"]].reset_index(drop=True)
        rows = mechanism.read(frame_table(table.assign(**public)))
        for run in releases(rows):
            for received, chance in views(run):
                view = [owned[row] for row in received]
                for insider, row in enumerate(owned):
                    holder = view.index(row)
                    if holder // members != insider // members:
                        told[insider, row, holder][rows.seen[-1][holder]] += chance
    return told


def most_told(told, secrets, strata, members=1):
    """Return how far an insider's row moves the odds of its holder, at most.

    He is of a secret that two others of his stratum have, and knows that he is not the holder.
    """
    most = Fraction(1)
    for (insider, row, holder), (a, b) in told.items():
        own = secrets[row]
        left = [s for s, of in zip(secrets, strata, strict=True) if of == strata[holder]]
        if strata[insider] == strata[holder]:
            for _ in range(members):
                left.remove(own)
        if left.count(own) > members:
            odds = [a * left.count("b"), b * left.count("a")]
            most = max(most, max(odds) / min(odds) if all(odds) else math.inf)
    return most


def losses_of(sizes):
    """Return e to what the checker finds of the mean of some whole flows: outsiders, insiders."""
    flows, own = (
        np.sum([np.array(x) for x in each], axis=0) for each in zip(*WHOLE[sizes], strict=True)
    )
    people = np.array(sizes)
    mean = Exchange(people, flows, own, len(WHOLE[sizes]), people)
    return [math.exp(loss(mean, [(0, 1)])) for loss in (outsider_loss, insider_loss)]


def fitted_mechanism(table, **params):
    params = {"sensitive": "secret", "public": ["row", "secret"], **params}
    return PufferfishSwap(1.0, **params).fit(table)._fitted.mechanism


def told_to_insiders_of_strata(strata, secrets, read):
    """Return how far the first person's row moves the odds of its holder, if it is his own one."""
    n = len(strata)
    table = pd.DataFrame({"known": [*strata], "secret": [*secrets], "row": np.arange(n) * 1.0})
    mechanism = fitted_mechanism(table, known="known")
    owners = (
        owned
        for owned in itertools.permutations(range(n))
        if not owned[0] and all(strata[own] == strata[at] for at, own in enumerate(owned))
    )

    def releases(rows):
        rows = read(rows)
        return [partial(mechanism.permutation, rows, solved) for solved in solved_all(rows)]

    told = told_to_insiders(mechanism, table, owners, releases)
    return most_told({key: told[key] for key in told if not key[0]}, secrets, strata)


STRATA_OF_THREE = "AAABBA", "aaaabb"


@pytest.mark.slow
def test_insiders_learn_twice_the_budget_at_most_and_what_the_checker_finds(whole):
    outside, inside = losses_of((3, 1))
    assert inside <= outside**2
    most = told_to_insiders_of_strata(*STRATA_OF_THREE, lambda rows: rows)
    assert most == 2 == pytest.approx(inside)


@pytest.mark.slow
def test_insiders_of_strata_that_are_exchanged_in_one_would_learn_more(whole):
    """The flows of all six, whose members are not as probable as in the stratum of either."""
    outside, _ = losses_of((3, 1))
    assert told_to_insiders_of_strata(*STRATA_OF_THREE, in_one) > outside**2


@pytest.fixture
def whole_without_insiders(monkeypatch):
    """Whole flows of which nobody moves within a secret."""
    monkeypatch.setattr(
        release_module, "drawn_flows", lambda each, _: (each.flows, 0 * each.others)
    )


@pytest.mark.slow
def test_without_moves_within_a_secret_insiders_would_find_the_other_one_out(
    whole_without_insiders,
):
    assert told_to_insiders_of_strata(*STRATA_OF_THREE, lambda rows: rows) == math.inf


def told_to_insiders_of_homes():
    """Return how far the odds of a home move for one that finds a row of its own with it.

    They know in which order the members of all homes stand.
    """
    secrets, home = "aaaaaabb", np.repeat(range(4), 2)
    table = pd.DataFrame({"home": home, "secret": [*secrets], "row": np.arange(8.0)})
    mechanism = fitted_mechanism(table, groups="home")
    owners = ((2 * np.array(o)[:, None] + [0, 1]).ravel() for o in itertools.permutations(range(4)))

    def releases(rows):
        def run(draws, solved):
            return rows.rows_of(mechanism.permutation(rows, solved, draws), solved, draws)

        return [partial(run, solved=solved) for solved in solved_all(rows)]

    told = told_to_insiders(mechanism, table, map(np.ndarray.tolist, owners), releases, 2)
    return most_told(told, secrets, [0] * 8, 2)


@pytest.fixture
def members_in_order(monkeypatch):
    monkeypatch.setattr(TableDraws, "ranks", lambda draws, n_rows: np.arange(n_rows))


@pytest.mark.slow
@pytest.mark.usefixtures("members_in_order")
def test_homes_that_find_their_rows_elsewhere_learn_what_the_checker_finds(whole):
    assert told_to_insiders_of_homes() == 2 == pytest.approx(losses_of((3, 1))[1])


@pytest.mark.slow
@pytest.mark.usefixtures("members_in_order")
def test_homes_none_of_which_move_within_a_secret_would_be_found_out(whole_without_insiders):
    assert told_to_insiders_of_homes() == math.inf


def told_to_insiders_of_parts(row):
    """Return how far the first person's row moves the odds of its holder, if it is his own one."""
    table = pd.DataFrame({"id": np.arange(6), "secret": [*"aaaabb"], "row": row})
    mechanism = fitted_mechanism(table, ids="id", matching="parts")
    flows = [([[1, 1], [1, 0]], [1, 0])] * 2

    def releases(rows):
        ((_, groups),) = rows.grouped(np.arange(6))
        solved = solved_as(groups, flows, [(2, 1), (2, 1)], 2)
        return [partial(mechanism.permutation, rows, [solved])]

    owners = ((0, *others) for others in itertools.permutations(range(1, 6)))
    told = told_to_insiders(mechanism, table, owners, releases)
    return most_told({key: told[key] for key in told if not key[0]}, "aaaabb", [0] * 6)


@pytest.mark.slow
def test_insiders_of_parts_learn_the_flows_of_their_part_against_the_shares_of_the_stratum(whole):
    flows, own = np.array([[1, 1], [1, 0]]), np.array([1, 0])
    part = Exchange(np.array([2, 1]), flows, own, 1, np.array([4, 2]))
    most = told_to_insiders_of_parts([0.0, 1.0, 2.0, 3.0, 0.0, 3.0])
    assert most == Fraction(3, 2) == pytest.approx(math.exp(insider_loss(part, [(0, 1)])))


@pytest.mark.slow
def test_insiders_of_parts_that_were_cut_in_the_order_of_the_file_would_learn_more(whole):
    assert told_to_insiders_of_parts([0.0] * 6) == math.inf


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
    dealt = exchange_module._split
    first = {}

    def in_pairs(going, counts, draws):
        again = dealt(going, counts, draws)
        return first.pop(going[0]) if going[0] in first else first.setdefault(going[0], again)

    monkeypatch.setattr(exchange_module, "_split", in_pairs)
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
    np.array([3, 2, 2]),
)


@pytest.mark.slow
def test_exchange_module_of_three_secrets_have_the_mean_flows_as_means_to_the_last_digit():
    wanted = np.column_stack([THIRDS.flows, THIRDS.others]).tolist()
    assert (mean_of(THIRDS) * 3).tolist() == wanted


def test_flows_that_are_always_rounded_one_way_would_have_other_means(monkeypatch):
    one_way = exchange_module._rounded

    class Zero:
        def below(self, end):
            return 0

    monkeypatch.setattr(
        exchange_module, "_rounded", lambda exchange, draws: one_way(exchange, Zero())
    )
    wanted = np.column_stack([THIRDS.flows, THIRDS.others]).tolist()
    assert (mean_of(THIRDS) * 3).tolist() != wanted
