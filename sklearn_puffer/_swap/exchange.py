"""Who receives whose row: leavers and places by lot, then matches of least change.

Of each secret a uniformly random set of people leaves, and the places they vacate are dealt
uniformly at random to the secrets that receive them. Whatever rule then matches leavers with
places, it cannot tell more of a holder than the flows do, as long as it sees rows, secrets and its
own bits, and never ids or the order of the file: so everything is put in random order first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._swap.whole_flows import Draws

PART = 300
"""Leavers and places that are matched at once; more are cut into random parts."""

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
        targets[secret] = sources[secret] = moved[secret]
        own, dealt = _foreign(going, targets, sources, secret, draws)
        leavers.append(own)
        places.append(dealt)
    for a, b in np.argwhere(flows):
        who, what = leavers[a][b], places[b][a]
        if a == b:
            received[who] = what
        else:
            received[who] = what[_matched(who, what, costs, draws)]
    return received


def _foreign(
    going: Array, targets: IntArray, sources: IntArray, secret: int, draws: Draws
) -> tuple[list[Array], list[Array]]:
    """Deal leavers to targets and their places to sources, until nobody would get his own row.

    Those who keep their secret are matched at random, as they are dealt.
    """
    while True:
        own = _dealt(going, targets, draws)
        dealt = _dealt(going, sources, draws)
        if not (own[secret] == dealt[secret]).any():
            return own, dealt


def _dealt(going: Array, counts: IntArray, draws: Draws) -> list[Array]:
    return np.split(going[draws.shuffled(len(going))], np.cumsum(counts)[:-1])


def _matched(who: Array, what: Array, costs: Costs | None, draws: Draws) -> Array:
    """Return for each leaver the index of his place; both are in random order already."""
    matched = np.arange(len(who))
    if costs is None:
        return matched
    n_parts = -(-len(who) // PART)
    for part in np.array_split(matched.copy(), max(n_parts, 1)):
        rows, columns = linear_sum_assignment(costs(who[part], what[part]))
        matched[part[rows]] = part[columns]
    return matched
