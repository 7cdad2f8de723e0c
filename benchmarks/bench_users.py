"""Sums over users: the exact scale for many users, alike in classes or all different.

Every user reports one of 100 values. Distributions of the kind "random" have random masses. Those
of the kind "equal ends" have the same mass on both their outermost values, so that the loss
vanishes far out, and is largest in between, where the other users matter. "Alike" are distributions
of equal ends that differ in a few reports of a hundred thousand, so that every user could be the
one that decides. At a turning point the budget is the largest loss that any crowd, however large,
leaves: there the scale hangs on every single one of the other users. The time depends on the
instance.
"""

import statistics
import time
import warnings

import numpy as np
from _measure import alone

from sklearn_puffer import PufferfishSum
from sklearn_puffer._sums.losses import sum_scale
from sklearn_puffer._sums.users import user_pairs
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

N_VALUES = 100
SECRETS = ("distribution", "distribution-absence")


def rows(quick=False):
    n, n_classes, several = (60, 3, 1) if quick else (1_000, 20, 3)
    measured = [
        _scale_row(kind, distributions, n, number, secrets, limit, repeats)
        for number, limit, repeats in ((n_classes, 60.0, several), (n, 60.0, 1))
        for secrets in SECRETS
        for kind, distributions in KINDS.items()
    ]
    measured += [_fit_row(kind, n, n_classes, secrets) for secrets in SECRETS for kind in KINDS]
    return [*measured, _turning_row(*((30, 3) if quick else (n, n_classes)))]


def growth():
    table = []
    for n in (10, 100, 1_000):
        seconds = {}
        for number, kind in ((min(n, 20), "classes"), (n, "distinct")):
            for secrets in SECRETS:
                seconds[f"{kind}, {secrets}"] = _median_scale(
                    _users(equal_ends, n, number), secrets, 1.0, 3
                )
        table.append({"n": n} | seconds)
    return table


def _scale_row(kind, distributions, n, number, secrets, limit, repeats):
    users = _users(distributions, n, number)
    seconds = _median_scale(users, secrets, _budget(kind), repeats)
    name = f"exact scale, {_who(n, number)}, {kind}, {secrets}"
    return alone(name, seconds, f"epsilon {_budget(kind)}", limit=limit)


def _fit_row(kind, n, number, secrets):
    """Measure a whole fit, which ends in a certificate, against the scale alone."""
    users = _users(KINDS[kind], n, number)
    query = PufferfishSum(epsilon=_budget(kind), secrets=secrets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some distributions need no noise
        ours = _seconds(lambda: query.fit(users))
    peer = _median_scale(users, secrets, _budget(kind), 1)
    return {
        "name": f"PufferfishSum.fit, {_who(n, number)}, {kind}, {secrets}",
        "ours": ours,
        "peer": "its exact scale alone",
        "peer_value": peer,
        "ratio": ours / peer,
        "target": "",
        "reached": None,
        "note": "",
    }


def _turning_row(n, number):
    users = _users(alike, n, number)
    epsilon = max(map(_largest_in_a_crowd, users))
    seconds = _median_scale(users, "distribution", epsilon, 1)
    return alone(
        f"exact scale, {_who(n, number)}, alike, at a turning point, distribution",
        seconds,
        "the hardest instance known: all users count, for every class",
        limit=60.0,
    )


def _who(n, number):
    return f"{n:,} distinct users" if n == number else f"{n:,} users in {number} classes"


def _budget(kind):
    """Return a budget; distributions that are alike are told apart by little."""
    return 0.1 if kind == "alike" else 1.0


def _users(distributions, n, number):
    """Return n users in a number of classes, each with a distribution and an alternative."""
    generator = np.random.default_rng(0)
    sizes = [n // number + (k < n % number) for k in range(number)]
    return [
        User(distribution, alternative=alternative, count=size)
        for size, (distribution, alternative) in zip(
            sizes, distributions(generator, number), strict=True
        )
    ]


def random(generator, number):
    atoms = np.arange(N_VALUES)
    for _ in range(number):
        yield tuple(Discrete.from_counts(atoms, generator.integers(1, 100, N_VALUES)) for _ in "pq")


def equal_ends(generator, number):
    for _ in range(number):
        yield tuple(_signed(_with_equal_ends(generator)) for _ in "pq")


def alike(generator, number):
    bases = [10 * _with_equal_ends(generator) for _ in "pq"]
    for _ in range(number):
        yield tuple(_signed(_changed(base, generator)) for base in bases)


KINDS = {"random": random, "equal ends": equal_ends, "alike": alike}


def _with_equal_ends(generator):
    inner = generator.multinomial(9_702, generator.dirichlet(np.ones(N_VALUES - 2)))
    return np.concatenate(([100], 1 + inner, [100]))


def _changed(counts, generator):
    more, less = generator.choice(np.arange(1, N_VALUES - 1), 2, replace=False)
    changed = counts.copy()
    changed[more] += 1
    changed[less] -= 1
    return changed


def _signed(counts):
    return Discrete.from_counts(np.arange(N_VALUES) - N_VALUES // 2, counts)


def _largest_in_a_crowd(user):
    """Return the largest loss over the tilts that a large crowd of others may have."""
    steep = np.logspace(-4, 1, 2_000)
    tilts = np.concatenate((-steep[::-1], steep))
    first, second = (
        _log_means(distribution, tilts) for distribution in (user.law, user.alternative)
    )
    return float(np.abs(first - second).max())


def _log_means(distribution, tilts):
    exponents = tilts[:, None] * distribution.atoms
    top = exponents.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(exponents - top) @ distribution.probabilities)


def _median_scale(users, secrets, epsilon, repeats):
    pairs = user_pairs(users, secrets)
    return statistics.median(
        _seconds(lambda: sum_scale(users, pairs, epsilon)) for _ in range(repeats)
    )


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
