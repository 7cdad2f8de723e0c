"""Draws from channels in whole numbers."""

import numpy as np
from _measure import alone, interleaved

from sklearn_puffer._noise import WHOLE, IntegerRows

N_CODES = 10  # columns of a drawn row


def rows(quick=False):
    n = 1_000 if quick else 50_000
    return [_draws(n, 20 * n, 1 if quick else 5)]


def growth():
    sizes = (1_000, 10_000, 50_000)
    return [{"n": n, "draws, 20 n rows": _draws(n, 20 * n, 3)["ours"]} for n in sizes]


def _draws(n, many, repeats):
    channel, generator = _channel(n, 20), np.random.default_rng(2)
    cells = generator.integers(0, n, many)
    codes = [generator.integers(0, 100, n, dtype=np.int16) for _ in range(N_CODES)]

    def release():
        drawn = channel.sampler().draw(cells)
        return [column[drawn] for column in codes]

    name = f"drawing {many:,} rows x {N_CODES} columns from a channel"
    return alone(name, interleaved(release, repeats=repeats)[0], "sampler included", limit=1.0)


def _channel(n, entries):
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 2 * entries, n)
    starts = np.append(0, np.cumsum(lengths))
    first = generator.integers(0, n, n)
    targets = (
        np.repeat(first, lengths) + np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    ) % n
    targets = targets[np.lexsort((targets, np.repeat(np.arange(n), lengths)))]
    shares = generator.integers(1, WHOLE // (2 * entries), starts[-1])
    shares[starts[1:] - 1] += WHOLE - np.add.reduceat(shares, starts[:-1])
    return IntegerRows(starts, targets, shares)
