"""Channels in whole numbers: their losses, and draws."""

import numpy as np
from _measure import alone, interleaved

from sklearn_puffer._losses import channel_losses
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer.notions import Pufferfish

N_SECRETS = 5
N_CODES = 10  # columns of a drawn row


def rows(quick=False):
    n = 1_000 if quick else 50_000
    many, repeats = 20 * n, 1 if quick else 5
    return [
        _certificate(n, repeats),
        _draws(n, many, repeats),
    ]


def growth():
    table = []
    for n in (1_000, 10_000, 50_000):
        named = {"n": n}
        for label, row in (
            ("certificate, 20 n nonzeros", _certificate(n, 3)),
            ("draws, 20 n rows", _draws(n, 20 * n, 3)),
        ):
            named[label] = row["ours"]
        table.append(named)
    return table


def _certificate(n, repeats):
    channel, pairs = _channel(n, 20), _pairs()
    masses = np.random.default_rng(1).integers(0, 2**32, (N_SECRETS, n))
    seconds = interleaved(
        lambda: channel_losses(channel, masses, pairs, Pufferfish(1.0)), repeats=repeats
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
