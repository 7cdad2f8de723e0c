"""``transform`` against fairlearn's CorrelationRemover: a row in, a protected row out.

Both get the same table: one sensitive column and ten public ones of a few hundred atoms each, or of
numbers that are all distinct and binned. Ours checks that every value was seen in fit, or finds its
bin, and draws noise; the peer subtracts a linear prediction. A row by itself has no peer.
"""

import numpy as np
import pandas as pd
from _measure import alone, interleaved, peak_bytes
from fairlearn.preprocessing import CorrelationRemover

from sklearn_puffer import PufferfishNoiser

N_PUBLIC = 10
N_ATOMS = 300
N_BINS = 20
ONE_ROW = 2e-3  # seconds
KINDS = {
    "whole numbers": 1.2,
    "binned floats": 2.0,
    "lattice atoms": 1.7,
    "irregular atoms": 6.0,
}


def rows(quick=False):
    n, repeats = (20_000, 1) if quick else (1_000_000, 15)
    measured = []
    for kind, target in KINDS.items():
        for container in (np.asarray, _frame):
            X = container(_table(n, kind))
            measured += _rows_of(X, kind, target, repeats)
    return [*measured, *_one_row(3 if quick else 500)]


def _fitted(X, kind):
    public = list(X.columns[1:]) if isinstance(X, pd.DataFrame) else list(range(1, 1 + N_PUBLIC))
    sensitive = "secret" if isinstance(X, pd.DataFrame) else 0
    options = {"n_bins": N_BINS} if kind == "binned floats" else {}
    noiser = PufferfishNoiser(
        sensitive=sensitive, public=public, dependence="independent", **options
    )
    return noiser.fit(X), sensitive


def _one_row(repeats):
    """Return what it takes to release a row as it comes."""
    measured = []
    for container in (np.asarray, _frame):
        X = container(_table(20_000, "whole numbers"))
        noiser, _ = _fitted(X, "whole numbers")
        row = X[:1]
        [seconds] = interleaved(lambda row=row, own=noiser: own.transform(row), repeats=repeats)
        name = f"transform, one row x {N_PUBLIC}, whole numbers, {type(X).__name__}"
        note = "all parts of each draw are drawn, so that the time tells nothing of it"
        measured.append(alone(name, seconds, note, limit=ONE_ROW, target="<= 2 ms"))
    return measured


def _rows_of(X, kind, target, repeats):
    noiser, sensitive = _fitted(X, kind)
    remover = CorrelationRemover(sensitive_feature_ids=[sensitive]).fit(X)
    ours, peer = interleaved(
        lambda: noiser.transform(X), lambda: remover.transform(X), repeats=repeats
    )
    memory = peak_bytes(lambda: noiser.transform(X)) / _size(X)
    subject = f"transform, {len(X):,} x {N_PUBLIC}, {kind}, {type(X).__name__}"
    return [
        {
            "name": subject,
            "ours": ours,
            "peer": "fairlearn CorrelationRemover",
            "peer_value": peer,
            "ratio": ours / peer,
            "target": f"<= {target} times",
            "reached": ours <= target * peer,
            "note": "",
        },
        {
            "name": f"{subject}: peak memory beside the input",
            "ours": memory,
            "unit": "inputs",
            "peer": None,
            "peer_value": None,
            "ratio": memory,
            "target": "<= 2.2 times",
            "reached": memory <= 2.2,
            "note": "",
        },
    ]


def _table(n, kind):
    """Return n rows: a binary secret, and columns whose values shift a little with it."""
    generator = np.random.default_rng(0)
    secret = generator.integers(0, 2, n)
    table = np.empty((n, 1 + N_PUBLIC), dtype=np.int64 if kind == "whole numbers" else np.float64)
    table[:, 0] = secret
    for column in range(1, 1 + N_PUBLIC):
        codes = generator.binomial(N_ATOMS - 1, 0.48 + 0.02 * secret)
        # Every atom occurs under both secrets, so that no value is new and no loss is infinite.
        codes[: 4 * N_ATOMS] = np.repeat(np.arange(N_ATOMS), 4)
        table[:, column] = _values(kind, codes, generator)
    table[: 4 * N_ATOMS, 0] = np.tile([0, 1], 2 * N_ATOMS)
    return table


def _values(kind, codes, generator):
    if kind == "whole numbers":
        return codes
    if kind == "binned floats":
        return codes + generator.uniform(0.0, 1.0, len(codes))
    if kind == "lattice atoms":
        return codes * 0.5
    return np.sort(generator.uniform(0, N_ATOMS / 2, N_ATOMS))[codes]


def _frame(table):
    return pd.DataFrame(table, columns=["secret", *(f"x{k}" for k in range(N_PUBLIC))])


def _size(X):
    return np.asarray(X).nbytes
