"""Keyed noise on engines: a release by polars and by DuckDB, lazily, against one in memory."""

import duckdb
import numpy as np
import polars as pl
from _measure import interleaved

from sklearn_puffer import PufferfishNoiser

KEY = bytes(range(32))


def rows(quick=False):
    table, noiser = _fitted(1_000 if quick else 1_000_000)
    plans = {"polars, streaming": _polars(table, noiser), "DuckDB": _duckdb(table, noiser)}
    repeats = 1 if quick else 3
    return [_against_memory(name, plan, table, noiser, repeats) for name, plan in plans.items()]


def _fitted(n_rows):
    generator = np.random.default_rng(0)
    public = {f"c{k}": generator.integers(0, 20, n_rows) for k in range(10)}
    own = {"client": np.arange(n_rows), "secret": generator.integers(0, 2, n_rows)}
    table = pl.DataFrame({**own, **public})
    noiser = PufferfishNoiser(sensitive="secret", public=list(public), dependence="independent")
    return table, noiser.fit(table[:1_000])


def _polars(table, noiser):
    plan = noiser.transform(table.lazy(), row_id="client", key=KEY)
    return lambda: plan.collect(engine="streaming")


def _duckdb(table, noiser):
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.register("rows", table.to_arrow())
    plan = noiser.transform(connection.sql("from rows"), row_id="client", key=KEY)
    return plan.to_arrow_table


def _against_memory(name, plan, table, noiser, repeats):
    seconds, memory = interleaved(
        plan, lambda: noiser.transform(table, row_id="client", key=KEY), repeats=repeats
    )
    return {
        "name": f"keyed release on {name}, {len(table):,} x 10",
        "ours": seconds,
        "peer": "in memory",
        "peer_value": memory,
        "ratio": memory / seconds,
        "target": "",
        "reached": None,
        "note": f"{len(table) / seconds / 1e6:.2f} million rows a second and core",
    }
