"""The worst loss over confidence sets: what it adds to a fit beyond counting the rows."""

import itertools
import statistics
import time

import numpy as np
from _measure import alone

from sklearn_puffer._sets import SetLosses, error_share
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer.calibration import smallest_factor
from sklearn_puffer.noise import Cauchy, Laplace
from sklearn_puffer.notions import Pufferfish

BUDGET = Pufferfish(1.0)


def rows(quick=False):
    """Return the measurements."""
    atoms, cells = (20, [4, 5]) if quick else (200, [16, 20])
    repeats = 1 if quick else 3
    return [
        _independent(atoms, repeats, quick),
        _joint(cells, repeats),
        _one_column("Cauchy", Cauchy(), BUDGET, 10 if quick else 50, repeats),
    ]


def growth():
    """Return seconds for one column of n atoms and two secrets, from the counts to the scale."""
    table = []
    for n in (10, 100, 1000, 2000):
        counts = _counts(np.random.default_rng(n), [n], 2, 20_000)
        table.append({"n": n, "sets and scale": _median(lambda c=counts: _fit([c]), 3)})
    return table


def _independent(n_atoms, repeats, quick):
    rng = np.random.default_rng(0)
    counts = [_counts(rng, [n_atoms], 5, 200_000) for _ in range(10)]
    seconds = _median(lambda: _fit(counts), repeats)
    return alone(
        f"confidence sets, 10 independent columns of {n_atoms} atoms, 5 secrets, 1e6 rows",
        seconds,
        "from the counts to the scale: 50 sets, 10 pairs both ways, losses summed",
        limit=2.0,
        target="<= 2 s beyond the counting",
    )


def _joint(shape, repeats):
    counts = _counts(np.random.default_rng(1), shape, 5, 300)
    seconds = _median(lambda: _fit([counts]), repeats)
    return alone(
        f"confidence sets, joint rows on {' x '.join(map(str, shape))} cells, 5 secrets",
        seconds,
        "300 rows a secret; trees of blocks of cells",
    )


def _one_column(name, noise, notion, n_atoms, repeats):
    counts = _counts(np.random.default_rng(2), [n_atoms], 2, 5_000)
    losses = _losses([counts], noise, notion)[0]
    factor = losses.guess
    return alone(
        f"confidence sets, one loss under {name} noise, {n_atoms} atoms",
        _median(lambda: losses.losses(factor), repeats),
        "the supremum over all real values, to 1e-6",
    )


def _counts(rng, shape, n_secrets, n_rows):
    n_cells = int(np.prod(shape))
    distributions = rng.dirichlet(np.full(n_cells, 5.0), n_secrets)
    return [rng.multinomial(n_rows, distribution).reshape(shape) for distribution in distributions]


def _losses(columns, noise, notion):
    share = error_share(0.95, [count.size for counts in columns for count in counts])
    groups = []
    for counts in columns:
        axes = [np.arange(size, dtype=float) for size in counts[0].shape]
        sets = [set_around_counts(axes, count, share) for count in counts]
        level = noise.with_scale(tuple(float(axis[-1]) for axis in axes))
        groups.append(SetLosses(list(itertools.combinations(sets, 2)), level, notion))
    return groups


def _fit(columns):
    return smallest_factor(_losses(columns, Laplace(), BUDGET), BUDGET.budget)


def _median(call, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
