"""A file that is larger than the memory that a process may have: its fit is that of its counts."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from sklearn_puffer import PufferfishNoiser

PARTS = 16
PART_ROWS = 600_000
ALLOWED = 120  # MiB beside what is there when a process has imported all that it needs

OPTIONS = {"epsilon": 1.0, "sensitive": "s", "public": ["a", "b", "x"], "n_bins": {"x": 4}}

FIT = """
import json, resource, sys
import duckdb, polars
from sklearn_puffer import PufferfishNoiser

engine, path, allowed, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
small = polars.DataFrame({"s": [0, 1] * 9, "a": [0, 1, 2] * 6})
PufferfishNoiser(1.0, sensitive="s").fit(small.lazy())  # whatever is imported late, threads, too
connection = duckdb.connect(config={"threads": 1, "memory_limit": f"{allowed}MiB"})
connection.sql("select 1").fetchall()

with open("/proc/self/status") as status:
    [held] = [int(line.split()[1]) for line in status if line.startswith("VmData")]
resource.setrlimit(resource.RLIMIT_DATA, [(held << 10) + (allowed << 20)] * 2)

if engine == "whole":
    try:  # plainly: Arrow may wait for ever for a thread that it cannot start
        open(path, "rb").read()
    except MemoryError:
        print("too large")
else:
    read = polars.scan_parquet if engine == "polars" else connection.read_parquet
    table = read(path)
    noiser = PufferfishNoiser(**options).fit(table)
    print(json.dumps([noiser.theta_.to_dict(), json.loads(noiser.certificate_.to_json())]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of twice the memory that is allowed, and its distinct rows with their counts."""
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    parts = [part(seed) for seed in range(2)]  # which the file has again and again
    tables = [pa.Table.from_pandas(rows) for rows in parts]
    schema = tables[0].schema
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with pa.parquet.ParquetWriter(path, schema, **plain) as writer:
        for number in range(PARTS):
            writer.write_table(tables[number % 2], row_group_size=100_000)
    assert path.stat().st_size > 2 * ALLOWED * 2**20
    return str(path), (pd.concat(parts).value_counts() * (PARTS // 2)).reset_index(name="n")


def part(seed):
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 3, PART_ROWS)
    return pd.DataFrame(
        {
            "s": secret,
            "a": np.minimum(
                rng.integers(0, 5, PART_ROWS) + (rng.random(PART_ROWS) < 0.5), secret + 3
            ),
            "b": rng.integers(0, 4, PART_ROWS) + secret,
            "x": np.round(rng.normal(size=PART_ROWS) + 0.3 * secret, 1),
        }
    )


def in_little_memory(engine, path):
    asked = [sys.executable, "-c", FIT, engine, path, str(ALLOWED), json.dumps(OPTIONS)]
    done = subprocess.run(asked, capture_output=True, text=True, env=one_thread(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def one_thread():
    # Arrow's allocator else reserves a gigabyte at its first use, all of which it might fill later
    reserved = {"MIMALLOC_ARENA_RESERVE": "1024"}  # KiB
    return os.environ | reserved | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory so")
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_file_larger_than_the_memory_is_fitted_and_as_its_counts_are(large, engine):
    path, counted = large
    noiser = PufferfishNoiser(**OPTIONS).fit(counted.drop(columns="n"), sample_weight=counted["n"])
    theta, certificate = json.loads(in_little_memory(engine, path))
    assert theta == noiser.theta_.to_dict()
    expected = json.loads(noiser.certificate_.to_json())
    assert expected["n_rows"] == PARTS * PART_ROWS
    del expected["date"], certificate["date"]
    assert certificate == expected


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory so")
def test_in_that_memory_the_file_cannot_be_read_whole(large):
    assert in_little_memory("whole", large[0]) == "too large"
