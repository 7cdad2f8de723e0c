"""Fit and release on an engine
============================

Rows that stay where they are: a Parquet file, read by an engine of your choice, fitted and released
there::

    python examples/on_an_engine.py            # polars
    python examples/on_an_engine.py duckdb     # or dask, spark, ibis

The engine sends counts of distinct rows, and no row. Its release is a plan, which it computes as
often as it likes: noise is a function of a key, the id and the row, so that every computation is
the same release, and the one in memory, too.
"""

import argparse
import secrets
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_puffer import PufferfishNoiser


def in_polars(path):
    import polars

    return polars.scan_parquet(path), lambda lazy: lazy.collect().to_pandas()


def in_duckdb(path):
    import duckdb

    return duckdb.read_parquet(path), lambda relation: relation.df()


def in_dask(path):
    from dask import dataframe

    return dataframe.read_parquet(path), lambda frame: frame.compute()


def in_spark(path):
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return session.getOrCreate().read.parquet(path), lambda frame: frame.toPandas()


def in_ibis(path):
    import ibis

    return ibis.read_parquet(path), lambda table: table.to_pandas()


ENGINES = {
    "polars": in_polars,
    "duckdb": in_duckdb,
    "dask": in_dask,
    "spark": in_spark,
    "ibis": in_ibis,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", nargs="?", default="polars", choices=ENGINES)
    engine = parser.parse_args().engine
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        people().to_parquet(path, index=False)
        rows, computed = ENGINES[engine](str(path))
        released = fit_and_release(engine, rows, computed)
    print(f"\nsome of the {len(released):,} released rows:\n\n{released.head()}")


def people(n_rows=2_000):
    """Return a table with a secret, `loan`, that the other columns tell of."""
    rng = np.random.default_rng(0)
    loan = rng.integers(0, 2, n_rows)
    cars = np.minimum(rng.integers(0, 4, n_rows) + loan, 4)
    income = np.round(rng.lognormal(3.0 + 0.2 * loan, 0.5), 1)
    return pd.DataFrame({"client": np.arange(n_rows), "loan": loan, "cars": cars, "income": income})


def fit_and_release(engine, rows, computed):
    public = ["cars", "income"]
    noiser = PufferfishNoiser(2.0, sensitive="loan", public=public, n_bins={"income": 4})
    noiser.fit(rows)
    print(f"fitted on {engine}: {noiser.certificate_.n_rows:,} rows, of which none was fetched")
    print(f"the proven loss is at most {noiser.certificate_.loss:.6g}")

    # 32 random bytes that only you know; the extra keyed takes them without the prefix, and faster
    key = b"blake2b:" + secrets.token_bytes(32)
    keyed = {"row_id": "client", "key": key, "dataset": "people"}
    plan = noiser.transform(rows, **keyed)
    first, again = (in_order(computed(plan)) for _ in range(2))
    in_memory = in_order(noiser.transform(people(), **keyed))
    print(f"computed twice, it is the same release: {first.equals(again)}")
    print(f"and that of the same rows in memory: {np.array_equal(first, in_memory)}")
    return first


def in_order(frame):
    """Return rows in an order of their own: an engine has none, and ids are not released."""
    return frame.sort_values(list(frame)).reset_index(drop=True)


if __name__ == "__main__":
    main()
