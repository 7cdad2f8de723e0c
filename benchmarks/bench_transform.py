"""``transform`` against fairlearn's CorrelationRemover: a row in, a protected row out.

Both get the same table: one sensitive column and ten public ones of a few hundred atoms each. Ours
checks that every value was seen in fit, and draws noise; the peer subtracts a linear prediction.
"""

import numpy as np
import pandas as pd
from _measure import interleaved, peak_bytes
from fairlearn.preprocessing import CorrelationRemover

from sklearn_puffer import PufferfishNoiser

N_PUBLIC = 10
N_ATOMS = 300


def rows(quick=False):
    n, repeats = (20_000, 1) if quick else (1_000_000, 15)
    measured = []
    for atoms, target in (("lattice", 1.7), ("irregular", 6.0)):
        for container in (np.asarray, _frame):
            X = container(_table(n, atoms))
            measured += _rows_of(X, atoms, target, repeats)
    return measured


def _rows_of(X, atoms, target, repeats):
    public = list(X.columns[1:]) if isinstance(X, pd.DataFrame) else list(range(1, 1 + N_PUBLIC))
    sensitive = "secret" if isinstance(X, pd.DataFrame) else 0
    noiser = PufferfishNoiser(sensitive=sensitive, public=public, dependence="independent").fit(X)
    remover = CorrelationRemover(sensitive_feature_ids=[sensitive]).fit(X)
    ours, peer = interleaved(
        lambda: noiser.transform(X), lambda: remover.transform(X), repeats=repeats
    )
    memory = peak_bytes(lambda: noiser.transform(X)) / _size(X)
    subject = f"transform, {len(X):,} x {N_PUBLIC}, {atoms} atoms, {type(X).__name__}"
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


def _table(n, atoms):
    """Return n rows: a binary secret, and columns whose atoms shift a little with it."""
    generator = np.random.default_rng(0)
    secret = generator.integers(0, 2, n)
    table = np.empty((n, 1 + N_PUBLIC))
    table[:, 0] = secret
    for column in range(1, 1 + N_PUBLIC):
        codes = generator.binomial(N_ATOMS - 1, 0.48 + 0.02 * secret)
        # Every atom occurs under both secrets, so that no value is new and no loss is infinite.
        codes[: 4 * N_ATOMS] = np.repeat(np.arange(N_ATOMS), 4)
        table[:, column] = _values(atoms, generator)[codes]
    table[: 4 * N_ATOMS, 0] = np.tile([0, 1], 2 * N_ATOMS)
    return table


def _values(atoms, generator):
    if atoms == "lattice":
        return np.arange(N_ATOMS) * 0.5
    return np.sort(generator.uniform(0, N_ATOMS / 2, N_ATOMS))


def _frame(table):
    return pd.DataFrame(table, columns=["secret", *(f"x{k}" for k in range(N_PUBLIC))])


def _size(X):
    return np.asarray(X).nbytes
