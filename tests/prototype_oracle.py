"""Channels between prototypes by brute force: odds by linear programs, costs by all corners."""

import json
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from sklearn_puffer._microaggregator.program import ONE, ChannelProblem, SecretCounts, SecretMasses
from sklearn_puffer._noise import WHOLE, IntegerRows

GOLDEN = json.loads(Path(__file__).with_name("golden_microaggregation.json").read_text("utf-8"))


def counted(counts, pairs=None, sizes=None):
    counts = np.array(counts)
    pairs = list(combinations(range(counts.shape[1]), 2)) if pairs is None else pairs
    sizes = counts.sum(axis=1) if sizes is None else np.array(sizes)
    return SecretCounts(counts, sizes, np.array(pairs))


def problem_of(instance, error=0.05):
    """Return the problem of an instance of the golden file; without error as counted."""
    group = counted(instance["counts"])
    boxes = group.boxes(error) if error else group.as_counted()
    distances = np.array(instance["distances"])
    return ChannelProblem(
        [SecretMasses(boxes, group.pairs)], group.sizes, distances, instance["epsilon"]
    )


def random_problem(rng, n=4, k=2, epsilon=0.5, error=0.05, rows=200):
    """Return a problem of some drawn people; prototypes lie on a line."""
    chances = rng.dirichlet(np.ones(k), n)
    counts = np.array([rng.multinomial(rng.integers(30, rows), p) for p in chances])
    counts[0] += 1  # each secret is somewhere
    places = rng.random(n) * 4.0
    distances = np.abs(places[:, None] - places) + 0.1
    return problem_of({"counts": counts, "distances": distances, "epsilon": epsilon}, error)


def rows_of(channel):
    """Return any rows of positive numbers as whole ones."""
    channel = np.asarray(channel, dtype=float)
    channel = channel / channel.sum(axis=1, keepdims=True)
    shares = [[int(share * WHOLE) for share in row] for row in channel]
    for row in shares:
        row[row.index(max(row))] += WHOLE - sum(row)
    shares = np.array(shares)
    sources, targets = np.nonzero(shares)
    starts = np.concatenate([[0], np.cumsum((shares > 0).sum(axis=1))])
    return IntegerRows(starts, targets, shares[sources, targets])


def dense(rows):
    channel = np.zeros((rows.n_cells, rows.n_cells))
    sources = np.repeat(np.arange(rows.n_cells), np.diff(rows.starts))
    channel[sources, rows.targets] = rows.shares / WHOLE
    return channel


def extreme(boxes, secret, column, sign):
    """Return the largest (sign 1) or smallest quotient, by the program of Charnes and Cooper.

    Over y = m / sum(m) and 1 / sum(m), with the box and the share as constraints.
    """
    low, high = boxes.low[:, secret] / ONE, boxes.high[:, secret] / ONE
    share_low, share_high = boxes.share_low[secret] / ONE, boxes.share_high[secret] / ONE
    n, eye = len(low), np.eye(len(low))
    most = np.block([[eye, -high[:, None]], [-eye, low[:, None]]])
    scale = [(1.0 / share_high, 1.0 / share_low if share_low else None)]
    answer = linprog(
        -sign * np.append(column, 0.0),
        A_ub=most,
        b_ub=np.zeros(2 * n),
        A_eq=[[1.0] * n + [0.0]],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * n + scale,
    )
    return -sign * answer.fun


def worst(boxes, pairs, channel):
    """Return the loss over the set, one linear program for each prototype, secret and side."""
    most, least = (
        [[extreme(boxes, s, column, sign) for column in channel.T] for s in range(boxes.n_secrets)]
        for sign in (1.0, -1.0)
    )
    both = [pair for s, t in pairs for pair in ((s, t), (t, s))]
    return max(
        np.log(u / max(v, 1e-99)) for s, t in both for u, v in zip(most[s], least[t], strict=True)
    )


def corners(boxes, secret):
    """Return corners of the masses of a secret: all but one at a bound, or all of them."""
    low, high = boxes.low[:, secret] / ONE, boxes.high[:, secret] / ONE
    ends = boxes.share_low[secret] / ONE, boxes.share_high[secret] / ONE
    for choice in product((False, True), repeat=len(low)):
        masses = np.where(choice, high, low)
        if ends[0] <= masses.sum() <= ends[1]:
            yield masses
        for a, end in product(range(len(low)), ends):
            moved = masses.copy()
            moved[a] += end - masses.sum()
            if low[a] <= moved[a] <= high[a]:
                yield moved


def least_cost(problem):
    """Return the least cost by the constraints of all pairs of corners."""
    n, growth = problem.n, np.exp(problem.epsilon)
    sizes = problem.sizes / problem.sizes.sum()
    most = []
    for boxes, pairs in problem.bounded:
        masses = [
            np.unique([m / m.sum() for m in corners(boxes, s)], axis=0)
            for s in range(boxes.n_secrets)
        ]
        for s, t in (pair for pair in permutations(range(boxes.n_secrets), 2)):
            if {s, t} not in [set(pair) for pair in pairs.tolist()]:
                continue
            for first, second in product(masses[s], masses[t]):
                for b in range(n):
                    row = np.zeros((n, n))
                    row[:, b] = first - growth * second
                    most.append(row.ravel())
    rows = np.kron(np.eye(n), np.ones(n))
    kept = np.kron(sizes, np.eye(n))
    answer = linprog(
        (sizes[:, None] * problem.distances).ravel(),
        A_ub=np.array(most),
        b_ub=np.zeros(len(most)),
        A_eq=np.vstack([rows, kept[:-1]]),
        b_eq=np.concatenate([np.ones(n), sizes[:-1]]),
    )
    return answer.fun


def odds(counts, channel, pairs):
    """Return the loss of each ordered pair at each prototype for masses that are known."""
    released = (counts / counts.sum(axis=0)).T @ channel
    both = [pair for s, t in pairs for pair in ((s, t), (t, s))]
    return np.array([np.log(released[s] / released[t]) for s, t in both])
