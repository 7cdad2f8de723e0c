"""Keyed noise, by AES and by blake2b, against fresh noise: a release of ten integer columns."""

import numpy as np
import pandas as pd
from _measure import interleaved

from sklearn_puffer import PufferfishNoiser

KEYS = {"AES": (bytes(range(32)), 3.0), "blake2b": (b"blake2b:" + bytes(range(32)), 8.0)}


def rows(quick=False):
    table, noiser = _fitted(1_000 if quick else 1_000_000)
    return [_against_fresh(name, table, noiser, 1 if quick else 5) for name in KEYS]


def _fitted(n_rows):
    generator = np.random.default_rng(0)
    numbers = generator.integers(0, 20, (n_rows, 10))
    public = [f"c{k}" for k in range(10)]
    table = pd.DataFrame(numbers, columns=public)
    table = table.assign(client=np.arange(n_rows), secret=generator.integers(0, 2, n_rows))
    noiser = PufferfishNoiser(sensitive="secret", public=public, dependence="independent")
    return table, noiser.fit(table[:1_000])


def _against_fresh(name, table, noiser, repeats):
    key, target = KEYS[name]
    seconds, fresh = interleaved(
        lambda: noiser.transform(table, row_id="client", key=key),
        lambda: noiser.transform(table),
        repeats=repeats,
    )
    return {
        "name": f"keyed noise by {name}, {len(table):,} x 10",
        "ours": seconds,
        "peer": "fresh noise",
        "peer_value": fresh,
        "ratio": fresh / seconds,
        "target": f"<= {target:g} times the time",
        "reached": seconds <= target * fresh,
        "note": "",
    }
