"""Noisy descent against scikit-learn's own: one pass over the records."""

import numpy as np
from _measure import interleaved, peak_bytes
from sklearn.linear_model import SGDRegressor

from sklearn_puffer import PufferfishSGDRegressor

N_FEATURES, BATCH_SIZE = 20, 100
PEER = "scikit-learn SGDRegressor, one epoch"


def rows(quick=False):
    n, repeats = (10_000, 1) if quick else (1_000_000, 9)
    X, y = _records(n)
    ways = {
        "independent records": {},
        "records of correlation 0.001": {"correlation": 1e-3},
    }
    measured = [_row(name, options, X, y, repeats) for name, options in ways.items()]
    return [*measured, _memory_row(X, y)]


def growth():
    table = []
    for n in (10_000, 100_000, 1_000_000):
        X, y = _records(n)
        ours, peer = interleaved(
            lambda X=X, y=y: _ours().fit(X, y), lambda X=X, y=y: _peer().fit(X, y), repeats=5
        )
        table.append({"n": n, "PufferfishSGDRegressor": ours, "SGDRegressor": peer})
    return table


def _row(name, options, X, y, repeats):
    ours, peer = interleaved(
        lambda: _ours(**options).fit(X, y), lambda: _peer().fit(X, y), repeats=repeats
    )
    return {
        "name": f"PufferfishSGDRegressor.fit, {len(X):,} x {N_FEATURES}, {name}",
        "ours": ours,
        "peer": PEER,
        "peer_value": peer,
        "ratio": ours / peer,
        "target": "<= 3 times",
        "reached": ours <= 3.0 * peer,
        "note": f"mini-batches of {BATCH_SIZE}; the peer takes one record a step",
    }


def _memory_row(X, y):
    inputs = peak_bytes(lambda: _ours().fit(X, y)) / X.nbytes
    return {
        "name": f"PufferfishSGDRegressor.fit, {len(X):,} x {N_FEATURES}: peak memory beside X",
        "ours": inputs,
        "unit": "inputs",
        "peer": None,
        "peer_value": None,
        "ratio": None,
        "target": "",
        "reached": None,
        "note": "",
    }


def _ours(**options):
    return PufferfishSGDRegressor(batch_size=BATCH_SIZE, **options)


def _peer():
    return SGDRegressor(max_iter=1, tol=None)


def _records(n):
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.2, 0.2, (n, N_FEATURES))
    return X, X @ generator.normal(0.0, 0.3, N_FEATURES)
