"""Every outcome of a swap of a few rows, with its probability, and what a reader makes of it.

Nothing here shares code with the package: choices are enumerated, chances are fractions, and the
reader counts owners and secrets.
"""

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product

import numpy as np


class Draws:
    """Choices that follow a path through the tree of all outcomes, and extend it at its end."""

    def __init__(self, path):
        self.path, self.depth, self.chance = path, 0, Fraction(1)

    def branch(self, chances):
        """Return one of some outcomes, which have these chances."""
        if self.depth == len(self.path):
            self.path.append([0, chances])
        index, known = self.path[self.depth]
        assert known == chances, "the same choices must be offered again"
        self.depth += 1
        self.chance *= chances[index]
        return index

    def below(self, end):
        return Number(self, 0, end)

    def shuffled(self, count):
        return self.one_of(all_orders(count))

    def one_of(self, orders):
        """Return one of some orders, each as probable as any other."""
        index = 0 if len(orders) == 1 else self.branch([Fraction(1, len(orders))] * len(orders))
        return np.array(orders[index], dtype=np.intp)


class ByCells:
    """Choices of which the first shuffle differs only by the orders within cells.

    For who sorts by cells after it, as the package does; a test holds it to that.
    """

    def __init__(self, draws, cells):
        self._draws, self._cells, self._first = draws, tuple(map(int, cells)), True

    def below(self, end):
        return self._draws.below(end)

    def shuffled(self, count):
        if not self._first:
            return self._draws.shuffled(count)
        assert count == len(self._cells)
        self._first = False
        return self._draws.one_of(orders_within(self._cells))


class Number:
    """A whole number from low to high - 1 of which no more is decided than somebody asks for."""

    def __init__(self, draws, low, high):
        self.draws, self.low, self.high = draws, low, high

    def __lt__(self, bound):
        low, high = self.low, self.high
        if bound <= low or bound >= high:
            return bound >= high
        less = Fraction(bound - low, high - low)
        is_less = self.draws.branch([less, 1 - less]) == 0
        self.low, self.high = (low, bound) if is_less else (bound, high)
        return is_less

    def __radd__(self, other):
        """Return a sum: now the number is decided."""
        numbers = range(self.low, self.high)
        if len(numbers) > 1:
            self.low += self.draws.branch([Fraction(1, len(numbers))] * len(numbers))
            self.high = self.low + 1
        return other + self.low

    def __le__(self, bound):
        return self < bound + 1

    def __gt__(self, bound):
        return not self < bound + 1

    def __ge__(self, bound):
        return not self < bound

    def __index__(self):
        while self.high - self.low > 1:  # bisected: as many outcomes as there are numbers
            _ = self < (self.low + self.high) // 2
        return self.low

    __int__ = __index__


@cache
def all_orders(count):
    return list(permutations(range(count)))


@cache
def orders_within(cells):
    people = [[i for i, c in enumerate(cells) if c == a] for a in range(max(cells) + 1)]
    parts = [list(permutations(own)) for own in people]
    return [sum(chosen, ()) for chosen in product(*parts)]


def outcomes(run):
    """Yield the probability and the result of each outcome of ``run(draws)``, depth first."""
    path = []
    while True:
        draws = Draws(path)
        result = run(draws)
        assert draws.depth == len(path)
        yield draws.chance, result
        while path and path[-1][0] == len(path[-1][1]) - 1:
            path.pop()
        if not path:
            return
        path[-1][0] += 1


def arrangements(items):
    """Return the distinct orders of some items, each as probable as any other."""
    return sorted(set(permutations(items)))


def secret_maps(cells, counts):
    """Yield who has the second secret, for all ways that agree with the counts of each cell."""
    people = [[i for i, c in enumerate(cells) if c == a] for a in range(len(counts))]
    chosen = [combinations(own, counts[a][1]) for a, own in enumerate(people)]
    for parts in product(*chosen):
        yield {i for part in parts for i in part}


class Table:
    """Some rows, their cells, and how many rows of each cell have the first and second secret.

    Parameters
    ----------
    contents : sequence of int
        What stands in each row; equal rows are equal numbers.
    cell_of : dict
        The cell of each content.
    counts : sequence of pairs
        Of each cell.
    cost : array-like, optional
        What it costs that the owner of one content gets another; by default contents lie on a line.
    """

    def __init__(self, contents, cell_of, counts, cost=None):
        self.contents, self.cell_of, self.counts = contents, cell_of, counts
        line = np.arange(max(contents) + 1)
        self.cost = abs(line[:, None] - line) if cost is None else np.array(cost)
        self.sizes = np.array([sum(own) for own in counts], dtype=np.int64)
        in_cells = [sum(cell_of[x] == a for x in contents) for a in range(len(counts))]
        assert in_cells == self.sizes.tolist()

    def cells(self, owned):
        return np.array([self.cell_of[x] for x in owned])

    def costs(self, owned):
        """Return what it costs that owners of some rows get others: whole numbers, with ties."""
        held = np.array(owned)
        return lambda own, others: self.cost[np.ix_(held[own], held[others])].astype(float)

    def promised(self, flows, content):
        """Return the posterior of the second secret of whoever holds a row, as the bound has it."""
        b = self.cell_of[content]
        unit = sum(map(int, flows[0])) // int(self.sizes[0])
        told = sum(
            Fraction(int(flows[a][b]), unit) * Fraction(own[1], sum(own))
            for a, own in enumerate(self.counts)
        )
        return told / int(self.sizes[b])

    @property
    def prior(self):
        return Fraction(sum(own[1] for own in self.counts), len(self.contents))


def joint_distribution(table, released, *, seen=None, weight=None, secrets=None):
    """Return the distribution of what a reader sees, and of who then has the second secret.

    Parameters
    ----------
    released : callable of (owned, draws)
        The procedure: which content everybody holds, and, after it, whatever else is shown.
    seen : callable of (owned, having, result), optional
        What the reader sees, in the place of the result; ``having`` are those who have the second
        secret.
    weight : callable of owned, optional
        How probable it is who owns what, for a reader who knows more; else all are alike.
    secrets : callable of owned, optional
        How probable it is that each person has the second secret, independently; else all ways
        that agree with the counts are alike.

    Returns
    -------
    dict
        ``distribution[view]``: its probability and, for each person, that of it and the second
        secret.
    """
    n = len(table.contents)
    distribution = defaultdict(lambda: [Fraction(0)] + [Fraction(0)] * n)
    owners = arrangements(table.contents)
    weights = [Fraction(1) if weight is None else weight(owned) for owned in owners]
    for owned, own_weight in zip(owners, weights, strict=True):
        prior = own_weight / sum(weights)
        if not prior:
            continue
        if secrets is None:
            having = list(secret_maps(table.cells(owned), table.counts))
            worlds = [(Fraction(1, len(having)), each) for each in having]
        else:
            worlds = [(Fraction(1), None)]
        chances = defaultdict(Fraction)
        for chance, result in outcomes(lambda draws, own=owned: released(own, draws)):
            chances[result] += chance
        for result, chance in chances.items():
            for share, having in worlds:
                mass = prior * chance * share
                own = distribution[result if seen is None else seen(owned, having, result)]
                own[0] += mass
                for i in range(n):
                    if secrets is not None:
                        own[1 + i] += mass * secrets(owned)[i]
                    elif i in having:
                        own[1 + i] += mass
    return distribution


def gaps(table, flows, distribution, holds=lambda view: view, people=None):
    """Return the largest distances of posteriors from those due, and of log odds from P."""
    apart, loss = Fraction(0), 0.0
    prior = table.prior / (1 - table.prior)
    for view, (mass, *both) in distribution.items():
        for i, content in enumerate(holds(view)):
            if people is not None and i not in people:
                continue
            told = both[i] / mass
            apart = max(apart, abs(told - table.promised(flows, content)))
            loss = max(
                loss, math.inf if told in (0, 1) else abs(math.log(told / (1 - told) / prior))
            )
    return apart, loss
