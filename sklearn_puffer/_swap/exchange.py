"""Who receives whose row: leavers and places by lot, then matches of least change.

Of each secret a uniformly random set of people leaves, and the places they vacate are dealt
uniformly at random to the secrets that receive them. Whatever rule then matches leavers with
places, it cannot tell more of a holder than the flows do, as long as it sees rows, secrets and its
own bits, and never ids or the order of the file: so everything is put in random order first.

Who keeps his secret, and receives the row of another person of it, is of a random half of those
who leave, and receives a place of the other half. So nobody receives his own row, near rows can be
matched there, too, and what a person receives says nothing of who received his own row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._swap.whole_flows import Draws

PART = 500
"""Leavers and places that are matched at once; more are cut into random parts."""

_SEEN = 1_000  # rows of each secret by which an axis is chosen

Pair = tuple[Array, Array]

Costs = Callable[[Array, Array], FloatArray]
"""The change for people with some rows who receive others, shape (n, m)."""


def exchanged(
    groups: Sequence[Array], flows: IntArray, moved: IntArray, costs: Costs | None, draws: Draws
) -> Array:
    """Return for each person the person whose row he receives.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The people of each secret, numbered from 0 over all groups.
    flows : ndarray of int64 of shape (n_secrets, n_secrets)
        People of each secret who receive rows of each secret.
    moved : ndarray of int64 of shape (n_secrets,)
        Those of them who keep their secret and receive another person's row.
    costs : callable or None
        What is least in the sum; None matches at random.
    draws : Draws
    """
    received = np.empty(sum(map(len, groups)), dtype=np.intp)
    leavers, places = [], []
    for secret, people in enumerate(groups):
        going = people[draws.shuffled(len(people))]
        staying, going = np.split(going, [int(flows[secret, secret] - moved[secret])])
        received[staying] = staying
        targets, sources = flows[secret].copy(), flows[:, secret].copy()
        targets[secret] = sources[secret] = 0
        if moved[secret] == len(going):
            received[going] = _deranged(going, draws)
            going = left = going[:0]
        elif moved[secret]:
            going, left, halves = _crossed(going, int(moved[secret]), draws)
            for who, what in halves:
                received[who] = what[_matched(who, what, costs)]
        else:
            left = going
        leavers.append(_dealt(going, targets, draws))
        places.append(_dealt(left, sources, draws))
    for a, b in np.argwhere(flows):
        if a != b:
            who, what = leavers[a][b], places[b][a]
            received[who] = what[_matched(who, what, costs)]
    return received


def _crossed(going: Array, moved: int, draws: Draws) -> tuple[Array, Array, list[Pair]]:
    """Return who leaves his secret, the places left to others, and whom to match within the secret.

    The people come in random order. Of two random halves of them each takes places of the other,
    so which places are left is independent of who leaves.
    """
    more, less = moved - moved // 2, moved // 2
    first, second = np.split(going, [len(going) - len(going) // 2])
    ones = first[draws.shuffled(len(first))]
    others = second[draws.shuffled(len(second))]
    leaving = np.concatenate([first[more:], second[less:]])
    left = np.concatenate([ones[less:], others[more:]])
    return leaving, left, [(first[:more], others[:more]), (second[:less], ones[:less])]


def _deranged(people: Array, draws: Draws) -> Array:
    """Return people in random order, none of them in his own place.

    Where all who move keep their secret, halves may not be equal; and matching the nearest would
    give people of a few rows their own ones.
    """
    while True:
        places = people[draws.shuffled(len(people))]
        if not (places == people).any():
            return places


def _dealt(going: Array, counts: IntArray, draws: Draws) -> list[Array]:
    return np.split(going[draws.shuffled(len(going))], np.cumsum(counts)[:-1])


def _matched(who: Array, what: Array, costs: Costs | None) -> Array:
    """Return for each leaver the index of his place; both are in random order already."""
    matched = np.arange(len(who))
    if costs is None:
        return matched
    n_parts = -(-len(who) // PART)
    for part in np.array_split(matched.copy(), max(n_parts, 1)):
        rows, columns = linear_sum_assignment(costs(who[part], what[part]))
        matched[part[rows]] = part[columns]
    return matched


def cut(
    groups: Sequence[Array], axes: Sequence[tuple[Array, float | None]], n_pieces: int
) -> list[list[Array]]:
    """Cut the rows of each secret at their own medians, along axes that all of them share.

    Each cut halves all pieces, along the axis on which it brings random rows of one secret nearest
    to each other. Equal values are cut in the order of the rows, which has to be random. Piece
    q has the sizes of `sizes_of_piece`.

    Parameters
    ----------
    groups : sequence of ndarray of int
        The rows of each secret, in random order.
    axes : sequence of (ndarray of shape (n_rows,), float or None)
        The coordinates of all rows; where there is a unit, only whether they are equal counts.
    n_pieces : int
        A power of two.

    Examples
    --------
    >>> height = np.array([1.0, 5.0, 4.0, 2.0, 9.0])
    >>> [[x.tolist() for x in piece] for piece in cut([np.arange(5)], [(height, None)], 2)]
    [[[0, 2, 3]], [[1, 4]]]
    """
    if n_pieces == 1:
        return [list(groups)]
    some = [group[:_SEEN] for group in groups]
    values = max(axes, key=lambda axis: _gain(some, *axis))[0]
    halves = zip(*(_halves(group, values) for group in groups), strict=True)
    lower, upper = (cut(half, axes, n_pieces // 2) for half in halves)
    return [piece for both in zip(lower, upper, strict=True) for piece in both]


def _halves(group: Array, values: Array) -> list[Array]:
    """Return the rows of lower and of higher values, both in the order that they came in."""
    order = np.argsort(values[group], kind="stable")
    return [group[np.sort(half)] for half in np.split(order, [-(-len(order) // 2)])]


def _gain(groups: Sequence[Array], values: Array, unit: float | None) -> float:
    """Return by how much a cut along an axis shortens the distances along it, in all."""

    def apart(rows: Array) -> float:
        here = values[rows]
        steps = here[1:] - here[:-1]  # of rows in random order
        return float(np.abs(steps).sum() if unit is None else unit * (steps != 0).sum())

    return sum(apart(group) - sum(map(apart, _halves(group, values))) for group in groups)
