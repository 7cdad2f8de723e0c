"""Channels once they are found: whole numbers, certificate, draws, nearest cells of new rows."""

import numpy as np
from _measure import alone, interleaved

from sklearn_puffer._channels import ChannelProblem, Costs, Family, Found, nearest_cells, whole_rows
from sklearn_puffer._losses import channel_losses
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer.notions import Pufferfish

N_SECRETS = 5
N_CODES = 10  # columns of a drawn row
LEVELS = (80, 16, 100, 9, 7, 15, 6, 2, 2, 40)  # of the columns, as on Adult; the last six unordered
UNORDERED = 6


def rows(quick=False):
    n = 1_000 if quick else 50_000
    many, repeats = 20 * n, 1 if quick else 5
    return [
        _certificate(n, repeats),
        _draws(n, many, repeats),
        _nearest(n, 2 * n, 1 if quick else 3),
        _mended(n, 1 if quick else 3),
    ]


def growth():
    table = []
    for n in (1_000, 10_000, 50_000):
        named = {"n": n}
        for label, row in (
            ("certificate, 20 n nonzeros", _certificate(n, 3)),
            ("draws, 20 n rows", _draws(n, 20 * n, 3)),
            ("nearest cells, 2 n rows", _nearest(n, 2 * n, 1)),
            ("whole numbers", _mended(n, 1)),
        ):
            named[label] = row["ours"]
        table.append(named)
    return table


def _certificate(n, repeats):
    channel, pairs = _channel(n, 20), _pairs()
    masses = np.random.default_rng(1).integers(0, 2**32, (N_SECRETS, n))
    seconds = interleaved(
        lambda: channel_losses(channel, masses, None, pairs, Pufferfish(1.0)), repeats=repeats
    )[0]
    name = f"certificate of a channel, {channel.targets.size:,} nonzeros, {N_SECRETS} secrets"
    return alone(name, seconds, "", limit=1.0)


def _draws(n, many, repeats):
    channel, generator = _channel(n, 20), np.random.default_rng(2)
    cells = generator.integers(0, n, many)
    codes = [generator.integers(0, 100, n, dtype=np.int16) for _ in range(N_CODES)]

    def release():
        drawn = channel.sampler().draw(cells)
        return [column[drawn] for column in codes]

    name = f"drawing {many:,} rows x {N_CODES} columns from a channel"
    return alone(name, interleaved(release, repeats=repeats)[0], "sampler included", limit=1.0)


def _nearest(n, many, repeats):
    generator = np.random.default_rng(3)
    levels = [generator.integers(0, k, n + many).astype(float) for k in LEVELS]
    values = np.column_stack(
        [np.floor(column * generator.beta(2, 2, n + many)) for column in levels]
    )
    unordered = np.arange(len(LEVELS)) >= len(LEVELS) - UNORDERED
    costs = Costs(values, unordered, np.where(unordered, 1.0, values.std(axis=0)))
    seconds = interleaved(
        lambda: nearest_cells(costs, np.arange(n, n + many), np.arange(n)), repeats=repeats
    )[0]
    return alone(f"nearest of {n:,} cells for {many:,} new rows", seconds, "", limit=30.0)


def _mended(n, repeats):
    """Pairs of cells that mix up to a solver's tolerance, every one of which is to be mended."""
    generator = np.random.default_rng(4)
    high = generator.integers(2**20, 2**30, n // 2)
    masses = np.stack([np.repeat(high, 2), np.repeat(high, 2)])
    masses[0, ::2], masses[1, 1::2] = 3 * high, 3 * high
    share = (3.0 - np.e) / (2.0 * (1.0 + np.e))  # of each that goes to the other, for a ratio of e
    share *= 1.0 + 1e-7 * generator.standard_normal(n)
    other = np.arange(n) ^ 1
    targets = np.sort(np.column_stack([np.arange(n), other]), axis=1)
    shares = np.where(targets == other[:, None], share[:, None], 1.0 - share[:, None])
    found = Found(2 * np.arange(n + 1), targets.ravel(), shares.ravel(), np.zeros(n, dtype=int))
    costs = Costs(np.arange(n, dtype=float)[:, None], np.array([False]), np.ones(1))
    problem = ChannelProblem([Family(masses)], np.full(n, 1.0 / n), costs, epsilon=1.0)
    seconds = interleaved(lambda: whole_rows(problem, found), repeats=repeats)[0]
    return alone(
        f"a solver's channel of {n:,} cells in whole numbers", seconds, "all outputs mended"
    )


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


def _pairs():
    return [(s, t) for s in range(N_SECRETS) for t in range(s)]
