"""Swaps of files of rows on engines: learnt, planned and written, with the memory of the process.

    PUFFER_BENCH_ROWS=100000000 python benchmarks/run.py lazy_swap   # growth up to that many rows

Beyond those sizes the growth is computed: the queries and what is drawn grow with the rows, and so
does what is held of them. A table whose rows are too many for one machine is cut by a column that
may be known (``known=``), as no two of its values exchange rows.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from _measure import alone
from pyarrow import parquet

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.noise import RecordSwap

KEY = b"blake2b:" + bytes(range(32))
PUBLIC = [f"x{k}" for k in range(10)]
ROW_GROUP = 100_000
FEW = 20_000
ON_PAPER = 10_000_000_000
ENGINES = {
    "polars": (pl.scan_parquet, lambda plan, path: plan.sink_parquet(path)),
    "DuckDB": (
        lambda path: duckdb.connect().read_parquet(str(path)),
        lambda plan, path: plan.write_parquet(str(path)),
    ),
}


def rows(quick=False):
    n = 2_000 if quick else 1_000_000
    found = [_alone(engine, n) for engine in ENGINES]
    limit = None if quick else 30.0
    return [
        alone(
            f"swap of {n:,} x {len(PUBLIC)} rows of a file on {each['engine']}",
            each["plan"] + each["written"],
            f"fit {each['fit']:.3g} s; {each['held'] / 1e6:.0f} MB held, where the table has "
            f"{each['table'] / 1e6:.0f} MB; {each['unchanged']:.1%} unchanged",
            limit=limit,
        )
        for each in found
    ]


def growth():
    largest = int(os.environ.get("PUFFER_BENCH_ROWS", 10_000_000))
    sizes = [10**k for k in range(5, 12) if 10**k <= largest]
    found = [_alone(engine, n) for n in sizes for engine in ENGINES]
    return [_row(each) for each in found] + [_on_paper(each) for each in found[-len(ENGINES) :]]


def _row(each, how="measured"):
    seconds = each["plan"] + each["written"]
    return {
        "n": each["n"],
        "engine": each["engine"],
        "fit": each["fit"],
        "plan": each["plan"],
        "written": each["written"],
        "rows a second": f"{each['n'] / seconds:.3g}",
        "held": f"{each['held'] / 1e9:.3g} GB",
        "table": f"{each['table'] / 1e9:.3g} GB",
        "how": how,
    }


def _on_paper(each):
    """Return the row of a size that nobody measured: a fit takes one more scan, which grows."""
    scaled = {name: each[name] * ON_PAPER / each["n"] for name in (*TIMES, "held", "table")}
    return _row({**each, **scaled, "n": ON_PAPER}, how="on paper")


TIMES = ("fit", "plan", "written")


def _alone(engine, n):
    """Return what a process of its own measures, whose memory nothing else has used."""
    done = subprocess.run(
        [sys.executable, __file__, engine, str(n)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def _measured(engine, n):
    read, write = ENGINES[engine]
    noise = RecordSwap(cells=20)
    noiser = PufferfishNoiser(1.0, sensitive="ill", public=PUBLIC, noise=noise)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "rows.parquet"
        _write(path, n)
        noiser.fit(_part(0, FEW))  # whose memory is little beside that of a release
        before = _peak()
        plan, found = _timed(lambda: noiser.transform(read(path), row_id="id", key=KEY))
        written, _ = _timed(lambda: write(found, Path(folder) / "released.parquet"))
        held = _peak() - before
        fit, _ = _timed(lambda: noiser.fit(read(path)))
    return {
        "engine": engine,
        "n": n,
        "fit": fit,
        "plan": plan,
        "written": written,
        "held": held,
        "table": n * (len(PUBLIC) + 2) * 8,
        "unchanged": noiser.swap_.unchanged,
    }


def _timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _write(path, n):
    """Write a file of n rows, of which no more than a row group is ever in memory."""
    writer = None
    for start in range(0, n, ROW_GROUP):
        part = _part(start, min(ROW_GROUP, n - start))
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    writer.close()


def _part(start, n):
    generator = np.random.default_rng(start)
    ill = generator.random(n) < 0.4
    columns = {"id": np.arange(start, start + n), "ill": ill}
    for k, name in enumerate(PUBLIC):
        columns[name] = (generator.normal(0.0, 1.0, n) + 0.9 * ill * (k < 3)).round(2)
    return pa.table(columns)


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]))))
