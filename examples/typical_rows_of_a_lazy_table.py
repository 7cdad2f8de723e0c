"""Typical rows of a lazy table
============================

Fit and release a table that is never in memory as a whole, as a lazy plan of polars::

    python examples/typical_rows_of_a_lazy_table.py

Each computation of a lazy plan would be another release of the same rows. So a plan asks for a
column of ids and a key, under which every computation is the same release.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from sklearn_puffer import PufferfishMicroaggregator

folder = Path(tempfile.mkdtemp(prefix="typical-rows-"))
KEY = bytes(range(32))  # of a real one only its file is named


def visits(n, seed):
    """Return made-up visits, one of each patient."""
    random = np.random.default_rng(seed)
    ill = random.random(n) < 0.3
    columns = {
        "patient": np.arange(n),
        "ill": ill,
        "minutes": random.integers(5, 30, n) + 6 * ill,
        "tests": random.poisson(1 + ill),
        "ward": random.choice(["A", "B", "C"], n),
    }
    return pl.DataFrame(columns)


# %%
# Fit where the data are
# ----------------------
#
# The engine finds at most 50,000 rows that are learnt from, and counts all of them. Readers know
# the ward of a patient: each ward has a channel of its own.

visits(20_000, seed=0).write_parquet(folder / "fitted.parquet")
rows = PufferfishMicroaggregator(
    1.0, sensitive="ill", public=["minutes", "tests"], known="ward", n_prototypes=12
)
rows.fit(pl.scan_parquet(folder / "fitted.parquet"))
print(rows.certificate_.promise())

# %%
# A lazy plan
# -----------
#
# Nothing is computed before it is written.

visits(50_000, seed=1).drop("ill").write_parquet(folder / "visits.parquet")
plan = rows.transform(pl.scan_parquet(folder / "visits.parquet"), row_id="patient", key=KEY)
plan.sink_parquet(folder / "released.parquet")
released = pl.read_parquet(folder / "released.parquet")
print(released.head(3))

# %%
# Batches
# -------
#
# Rows are released one by one, and so may be tables of some of them. The ids must differ over all
# of the tables.

tables = pl.read_parquet(folder / "visits.parquet").iter_slices(10_000)
batches = [rows.transform(table, row_id="patient", key=KEY) for table in tables]
print(f"{len(batches)} batches, {sum(map(len, batches)):,} rows")
print(f"the same release: {pl.concat(batches).equals(released)}")
