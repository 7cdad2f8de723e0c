"""Tables, noisers and keys on which a release on an engine is held against one in memory."""

import datetime
import functools
import uuid
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.noise import GeneralizedCauchy

N_ROWS = 240
SECRET = b"this is a secret key of some bytes"
KEY = b"blake2b:" + SECRET


def _table():
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, N_ROWS)
    return pd.DataFrame(
        {
            "client": rng.permutation(10 * N_ROWS)[:N_ROWS] - 100,
            "secret": np.where(secret, "yes", "no"),
            "age": (rng.integers(20, 28, N_ROWS) + secret).astype("int16"),
            "income": rng.normal(10.0, 2.0, N_ROWS) + secret,
            "short": (0.5 * rng.integers(0, 9, N_ROWS)).astype("float32"),
            "flag": rng.random(N_ROWS) < 0.4 + 0.1 * secret,
            "town": rng.choice(["Aix", "Bonn", "Cork"], N_ROWS),
        }
    )


TABLE = _table()
GAPS = TABLE.assign(
    age=TABLE["age"].astype("Int16").mask(TABLE.index % 11 == 0),
    short=TABLE["short"].mask(TABLE.index % 7 == 0),
    flag=TABLE["flag"].astype("boolean").mask(TABLE.index % 9 == 0),
    town=TABLE["town"].mask(TABLE.index % 5 == 0),
)


def fitted(table=TABLE, **options):
    options = {"public": ["age", "income", "town"], "dependence": "independent", **options}
    if "income" in options["public"] and "prior" not in options:
        options["n_bins"] = {"income": 4}
    noiser = PufferfishNoiser(options.pop("epsilon", 0.5), sensitive="secret", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return noiser.fit(table)


def keyed(noiser, X, **options):
    return noiser.transform(X, **{"row_id": "client", "key": KEY, **options})


CASES = {
    "numbers, bins and categories": (TABLE, {}),
    "noisy": (TABLE, {"output": "noisy"}),
    "Gaussian noise": (TABLE, {"public": ["age"], "noise": "gaussian", "delta": 1e-3}),
    "Cauchy noise": (TABLE, {"public": ["age"], "noise": "cauchy"}),
    "heavy noise": (TABLE, {"public": ["age"], "noise": GeneralizedCauchy(1.0, 4.0)}),
    "any number": (TABLE, {"public": ["income"], "prior": "gaussian", "epsilon": 1.0}),
    "other types": (TABLE, {"public": ["short", "flag", "age"]}),
    "known values": (TABLE, {"public": ["age", "flag"], "known": "flag", "dependence": "joint"}),
    "gaps left": (GAPS, {"public": ["age", "short", "flag", "town"], "missing": "propagate"}),
    "noisy gaps": (GAPS, {"public": ["age", "flag"], "missing": "propagate", "output": "noisy"}),
    "gaps as a category": (GAPS, {"public": ["flag", "town"], "missing": "category"}),
    "passed columns": (TABLE, {"remainder": "passthrough"}),
    "codes": (TABLE, {"public": ["age"], "categories": {"age": [*range(29, 19, -1)]}}),
    "no noise": (
        TABLE.assign(flag=TABLE.index % 2 == 0, secret=["no", "no", "yes", "yes"] * 60),
        {"public": ["flag"]},
    ),
}


DAY = datetime.datetime(2020, 1, 1)
UUIDS = [uuid.UUID(int=2**100 + 7 * k) for k in range(N_ROWS)]
MOMENTS = [DAY + datetime.timedelta(k, k % 2 * 1800) for k in range(N_ROWS)]
DAYS = [DAY + datetime.timedelta(k) for k in range(N_ROWS)]
ID_KINDS = {
    "whole numbers": {
        "number": pa.array(range(N_ROWS)),
        "decimal": pa.array(map(Decimal, range(N_ROWS)), pa.decimal128(20, 0)),
        "places": pa.array(map(Decimal, range(N_ROWS)), pa.decimal128(20, 3)),
    },
    "unsigned numbers": {
        "unsigned": pa.array([2**63 + k for k in range(N_ROWS)], pa.uint64()),
        "wide": pa.array([Decimal(2**63 + k) for k in range(N_ROWS)], pa.decimal128(20, 0)),
    },
    "far numbers": {
        "far": pa.array([Decimal(k - 2**90) for k in range(N_ROWS)], pa.decimal128(38, 0)),
    },
    "fractions": {
        "fraction": pa.array([Decimal(k) / 4 for k in range(N_ROWS)], pa.decimal128(20, 2)),
    },
    "UUIDs": {
        "text": pa.array(map(str, UUIDS)),
        "uuid": pa.array([each.bytes for each in UUIDS], pa.uuid()),
        "fixed": pa.array([each.bytes for each in UUIDS], pa.binary(16)),
        "bytes": pa.array([each.bytes for each in UUIDS]),
    },
    "bytes": {
        "short": pa.array([bytes([k, 0]) for k in range(N_ROWS)]),
        "digits": pa.array([bytes([k, 0]).hex() for k in range(N_ROWS)]),
    },
    "days": {
        "date": pa.array([each.date() for each in DAYS]),
        "day": pa.array(DAYS, pa.timestamp("us")),
        "iso": pa.array([str(each.date()) for each in DAYS]),
    },
    "times": {"time": pa.array(MOMENTS, pa.timestamp("us"))},
    "moments": {"moment": pa.array(MOMENTS, pa.timestamp("us", "UTC"))},
}
"""By kind, columns of the same ids in several types; the first stands for all."""


def table_of_ids():
    """Return a table with ids of all kinds beside what is released."""
    own = pa.Table.from_pandas(TABLE[["secret", "age"]], preserve_index=False)
    for columns in ID_KINDS.values():
        for name, column in columns.items():
            own = own.append_column(name, column)
    return own


def ids_that_differ(read, computed, columns):
    """Return columns of ids by which a release of ``read()`` is another than in memory."""
    table = table_of_ids()
    noiser = fitted(table, public=["age"])

    def ages(rows, name):
        found = keyed(noiser, rows, row_id=name)
        return sorted(np.asarray((found if rows is table else computed(found))["age"]).tolist())

    expected = {kind: ages(table, next(iter(alike))) for kind, alike in ID_KINDS.items()}
    asked = [(kind, name) for kind in ID_KINDS for name in ID_KINDS[kind] if name in columns]
    return [name for kind, name in asked if ages(read(), name) != expected[kind]]


@functools.cache
def case(name):
    """Return a noiser, rows, and their release in memory."""
    table, options = CASES[name]
    noiser, rows = fitted(table, **options), pl.from_pandas(table)
    return noiser, rows, keyed(noiser, rows)
