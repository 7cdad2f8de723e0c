"""Finding channels: one column, and rows of several, as one linear program."""

import numpy as np
from _measure import alone, interleaved

from sklearn_puffer._channels import ChannelProblem, Family, find_channel
from sklearn_puffer._noiser import CellDistance


def rows(quick=False):
    return [
        _one_column(30 if quick else 100),
        _rows(100 if quick else 256, n_secrets=2, limit=10.0),
        _rows(50 if quick else 256, n_secrets=5, limit=20.0),
        _rows(30 if quick else 100, n_secrets=5, limit=10.0, floor=0.3),
    ]


def growth():
    return [
        {
            "n": n,
            "two distributions": _rows(n, 2, 10.0)["ours"],
            "five distributions": _rows(n, 5, 20.0)["ours"],
        }
        for n in (64, 128, 256)
    ]


def _one_column(n):
    generator = np.random.default_rng(0)
    drawn = [generator.normal(n / 2 + s * n / 20, n / 6, 5_000) for s in range(5)]
    masses = np.stack([np.bincount(np.clip(x, 0, n - 1).astype(int), minlength=n) for x in drawn])
    distance = CellDistance(np.arange(float(n))[:, None], np.array([False]), np.ones(1))
    costs = distance.between_cells()
    problem = ChannelProblem([Family(masses)], masses.sum(axis=0) / masses.sum(), costs, 1.0)
    seconds = interleaved(lambda: find_channel(problem), repeats=1)[0]
    return alone(f"channel of one column, {n} values, 5 secrets", seconds, "", limit=2.0)


def _rows(n, n_secrets, limit, floor=None):
    """Rows of nine columns, and posteriors that lean on a few of them, as of a classifier."""
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 7, size=(n, 6)).astype(float)
    values = np.column_stack([generator.normal(size=(n, 3)).round(1), codes])
    leaning = generator.normal(size=(9, n_secrets)) * np.where(np.arange(9) < 3, 0.6, 0.15)[:, None]
    posteriors = np.exp(values @ leaning - np.arange(n_secrets) * 0.7)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    unordered = np.arange(9) >= 3
    costs = CellDistance(values, unordered, np.full(9, 9.0)).between_cells()
    masses = np.rint(posteriors.T * 2**32).astype(np.int64)
    problem = ChannelProblem([Family(masses)], np.full(n, 1 / n), costs, 1.0, floor=floor)
    seconds = interleaved(lambda: find_channel(problem), repeats=1)[0]
    name = f"channel of {n:,} rows, {n_secrets} secrets{', a floor' if floor else ''}"
    return alone(name, seconds, "", limit=limit)
