"""Save and load releases: run by the interpreters of other environments, with what they have.

    python release_elsewhere.py save FOLDER...    # writes forms and a whole noiser into each
    python release_elsewhere.py load FOLDER...    # reads them
    python release_elsewhere.py fit FOLDER        # fits, and writes nothing
    python release_elsewhere.py load,fit FOLDER   # does both in one process

All print the versions; the first two for each folder a digest of what each of them releases under
one key, the last the fingerprint of each fit.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from sklearn_puffer import PufferfishNoiser, PufferfishRelease

KEY = b"blake2b:" + bytes(range(32))

KINDS: dict[str, dict[str, Any]] = {
    "laplace": {},
    "bins": {"noise": "gaussian", "delta": 1e-3, "n_bins": 4, "public": ["age", "pay"]},
}

FITS: dict[str, dict[str, Any]] = {
    "one column": {"public": ["bmi"]},
    "bins": {"n_bins": 3},
    "independent": {"dependence": "independent"},
    "releases": {"public": ["age", "pay"], "n_bins": 4, "releases": 2},
    "boxes": {"public": ["age"], "adversaries": "confidence"},
    "Cauchy": {"public": ["age"], "noise": "cauchy"},
}


def table(n_rows: int = 90) -> pd.DataFrame:
    """Return a table with a column of every kind, the same everywhere."""
    row = np.arange(n_rows)
    ill = (row % 3 == 0) | (row % 7 == 0)
    return pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "age": 20 + (row * 7 % 5) + 2 * ill,
            "pay": (row * 11 % 9) / 4.0 + ill,
            "job": np.array(["cook", "clerk", "smith"])[(row * 5 % 7 + ill) % 3],
            "vip": (row % 4 == 0) ^ ill,
        }
    )


def digest(noiser: Any) -> str:
    """Return a digest of what is released under a key, however the table holds it."""
    rows = table().assign(client=range(90))
    released = noiser.transform(rows, row_id="client", key=KEY, dataset="clients")
    cells = [[float(x) if not isinstance(x, str) else x for x in row] for row in released.values]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def save(folder: Path) -> dict[str, str]:
    """Write a form of each kind, and one whole noiser."""
    found = {}
    for kind, params in KINDS.items():
        noiser = PufferfishNoiser(1.0, sensitive="ill", **params).fit(table())
        noiser.to_json(folder / f"{kind}.json")
        found[kind] = digest(noiser)
        joblib.dump(noiser, folder / f"{kind}.joblib")
        found[f"{kind}, whole"] = found[kind]
    return found


def load(folder: Path) -> dict[str, str]:
    """Read what `save` wrote, maybe elsewhere."""
    warnings.simplefilter("ignore", InconsistentVersionWarning)  # that is what is tried here
    found = {}
    for kind in KINDS:
        found[kind] = digest(PufferfishRelease.from_json(folder / f"{kind}.json"))
        found[f"{kind}, whole"] = digest(joblib.load(folder / f"{kind}.joblib"))
    return found


def fit(folder: Path) -> dict[str, str]:
    """Return the fingerprints of fits whose pure losses are computed alike everywhere."""
    found = {}
    for name, epsilon, seed in itertools.product(FITS, (0.3, 1.0), range(2)):
        rng = np.random.default_rng(seed)
        ill = rng.integers(0, 2 + seed % 2, 200)
        values = {
            "age": rng.integers(0, 6, 200) + ill,
            "pay": rng.integers(20, 60, 200) * 1.7,
            "bmi": rng.integers(-90, 90, 200) / 10.0 + ill,
        }
        noiser = PufferfishNoiser(epsilon, sensitive="ill", **FITS[name])
        noiser.fit(pd.DataFrame({"ill": ill, **values}))
        found[f"{name}, {epsilon}, {seed}"] = noiser.certificate_.fingerprint
    return found


def main() -> None:
    """Do what the command line says."""
    named, *folders = sys.argv[1:]
    parts = [{"save": save, "load": load, "fit": fit}[part] for part in named.split(",")]
    versions = [platform.python_version(), pd.__version__, sklearn.__version__, np.__version__]
    found = [part(Path(folder)) for part in parts for folder in folders]
    print(json.dumps({"versions": versions, "digests": found}))  # noqa: T201


if __name__ == "__main__":
    main()
