"""Fit over a Parquet file against the engine's own group-by of the same keys, on one thread.

The whole fit is measured, with its alphabets, scales and certificate. Of binned columns its peer is
the group-by of bins that are known, while the fit reads each column once more to find them.

    PUFFER_BENCH_ROWS=100000000 python benchmarks/run.py engines   # growth up to that many rows
"""

import os
import tempfile
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from _measure import alone, interleaved
from pyarrow import parquet

from sklearn_puffer import PufferfishNoiser

N_SECRETS = 3
N_COLUMNS = 4
N_ATOMS = 5
N_BINS = 5
CODES = [f"c{k}" for k in range(N_COLUMNS)]
FLOATS = [f"x{k}" for k in range(N_COLUMNS)]
EDGES = (-1.0, -0.3, 0.3, 1.0)
ROW_GROUP = 1_000_000
ON_PAPER = 10_000_000_000
CORE_HOUR = 0.05  # dollars, about what large providers ask for


def rows(quick=False):
    n, repeats = (20_000, 1) if quick else (10_000_000, 3)
    found = []
    with _file(n) as path:
        for engine in ENGINES:
            for names in (CODES, FLOATS):
                fit, peer = interleaved(*_calls(engine, path, names), repeats=repeats)
                found.append(_against_group_by(engine, path, names, n, fit, peer))
            found.append(_on_paper(engine, path, n, *(row["ours"] for row in found[-2:])))
    return found


def growth():
    largest = int(os.environ.get("PUFFER_BENCH_ROWS", 10_000_000))
    sizes = [10**k for k in range(5, 12) if 10**k <= largest]
    found = [each for n in sizes for each in _grown(n)]
    of_largest = found[-2 * len(ENGINES) :]
    on_paper = [_grown_to(ON_PAPER, *each) for each in of_largest]
    return [_growth_row(*each) for each in found] + on_paper


def _grown(n):
    """Return what fits of one size take: each engine, with codes and with binned floats."""
    found = []
    with _file(n) as path:
        for engine in ENGINES:
            for names in (CODES, FLOATS):
                fit, peer = interleaved(*_calls(engine, path, names), repeats=1)
                kind = "codes" if names is CODES else "binned floats"
                found.append((n, engine, kind, fit, peer, _bytes(path, names)))
    return found


def _growth_row(n, engine, kind, fit, peer, read, how="measured"):
    hours = fit / 3600
    return {
        "n": n,
        "engine": engine,
        "columns": kind,
        "fit": fit,
        "its group-by": peer,
        "ratio": f"{fit / peer:.3g}",
        "rows a second and core": f"{n / fit / 1e6:.3g} million",
        "read": f"{read / 1e9:.3g} GB",
        f"cost, a core hour at {CORE_HOUR} $": f"{hours:.2g} core hours, {hours * CORE_HOUR:.2g} $",
        "how": how,
    }


def _grown_to(size, n, engine, kind, *measured):
    """Return the row of a size that nobody measured: at most so much, since only scans grow."""
    scaled = [each * size / n for each in measured]
    return _growth_row(size, engine, kind, *scaled, how="on paper")


@contextmanager
def _file(n):
    """Yield a file of n rows, of which no more than a row group is ever in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        writer = None
        for start in range(0, n, ROW_GROUP):
            part = _part(start, min(ROW_GROUP, n - start))
            writer = writer or parquet.ParquetWriter(path, part.schema)
            writer.write_table(part)
        writer.close()
        yield path


def _part(seed, n):
    generator = np.random.default_rng(seed)
    secret = generator.integers(0, N_SECRETS, n, dtype=np.int8)
    columns = {"secret": secret}
    for name in CODES:
        above = (generator.random(n) < 0.1 * secret).astype(np.int8)
        columns[name] = np.minimum(generator.integers(0, N_ATOMS, n, dtype=np.int8) + above, 4)
    for name in FLOATS:
        columns[name] = np.round(generator.normal(size=n) + 0.1 * secret, 2)
    return pa.table(columns)


def _calls(engine, path, names):
    """Return the fit, and the group-by of the same keys."""
    return partial(_fit, ENGINES[engine][0], path, names), partial(ENGINES[engine][1], path, names)


def _fit(lazy, path, names):
    bins = {"n_bins": N_BINS} if names is FLOATS else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        PufferfishNoiser(0.8, sensitive="secret", public=names, **bins).fit(lazy(path))


def _polars_group_by(path, names):
    keys = [_cut(pl.col(name)).alias(name) if names is FLOATS else name for name in names]
    return pl.scan_parquet(path).group_by("secret", *keys).len().collect(engine="streaming")


def _cut(column):
    """Return the bins by plain comparisons, which take half of the time of polars' `cut`."""
    return sum((column > edge).cast(pl.Int8) for edge in EDGES)


def _relation(path):
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    return connection.read_parquet(str(path))


def _duckdb_group_by(path, names):
    keys = ["secret", *names]
    if names is FLOATS:
        keys[1:] = [" + ".join(f"({name} > {edge})::tinyint" for edge in EDGES) for name in names]
    return _relation(path).aggregate(f"{', '.join(keys)}, count(*)", ", ".join(keys)).fetchall()


ENGINES = {
    "polars": (pl.scan_parquet, _polars_group_by),
    "DuckDB": (_relation, _duckdb_group_by),
}


def _against_group_by(engine, path, names, n, fit, peer):
    kind = "codes" if names is CODES else f"floats in {N_BINS} bins"
    read = _bytes(path, names)
    return {
        "name": f"fit on {engine}, Parquet of {n:,} x {N_COLUMNS} {kind} x {N_SECRETS} secrets",
        "ours": fit,
        "peer": f"its group-by of all {N_COLUMNS + 1}",
        "peer_value": peer,
        "ratio": fit / peer,
        "target": "<= 2 times",
        "reached": fit <= 2.0 * peer,
        "note": f"{n / fit / 1e6:.3g} million rows a second and core, {read / n:.3g} bytes read a "
        "row",
    }


def _on_paper(engine, path, n, codes, floats):
    """Return the row of a size that nobody measured: the time is that of these, row by row."""
    each = [_bytes(path, names) / n * ON_PAPER / 1e9 for names in (CODES, FLOATS)]
    return alone(
        f"fit on {engine}, {ON_PAPER:,} rows of codes, on paper",
        codes * ON_PAPER / n,
        f"{ON_PAPER // n:,} times what {n:,} rows take, since scans grow with the rows and the rest"
        f" with the cells; seconds of one core, which the engine divides by its cores; "
        f"{each[0]:,.0f} GB read; binned floats {floats * ON_PAPER / n:,.0f} s and "
        f"{each[1]:,.0f} GB",
    )


def _bytes(path, names):
    """Return how many bytes of the file the scans take: of bins, each column alone before all."""
    file = parquet.ParquetFile(path).metadata
    groups = [file.row_group(k) for k in range(file.num_row_groups)]
    chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
    asked = {"secret", *names}
    once = sum(c.total_compressed_size for c in chunks if c.path_in_schema in asked)
    return 2 * once if names is FLOATS else once
