"""Measure the package and its peers side by side, print a table, and write it to RESULTS.md.

    python benchmarks/run.py            # measure, print, write RESULTS.* and docs/benchmarks.md
    python benchmarks/run.py --quick    # small sizes, one pass: does every benchmark still run?
    python benchmarks/run.py sampling   # only the files whose name holds "sampling"; writes nothing
    python benchmarks/run.py sampling --update   # ... and writes these rows among the others

A file ``bench_<subject>.py`` gives ``rows(quick=False)``: a list of dictionaries with the keys
``name``, ``ours``, ``peer`` (what is measured against, or None), ``peer_value``, ``ratio``,
``target``, ``reached`` and ``note``, and possibly ``unit`` (seconds if absent). Both sides are
medians of interleaved runs in one process. It may give ``growth()``: a list of dictionaries, one
for each size, with the key ``n`` first and seconds or text in the others.

`docs/benchmarks.md` quotes the rows of `QUOTED`, and every row that is outside its target.
"""

import argparse
import importlib
import json
import os
import platform
import re
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)
QUOTED = (
    "exact loss, 1,000,000 atoms, range/theta 1e5",
    "joint exact, one pair, 45,000 cells, whole root search",
    "exact, 150 secrets (11,175 pairs), 150 atoms, whole root search",
    "coupling + relaxed scale, n = 100,000, counts",
    "confidence sets, 10 independent columns of 200 atoms, 5 secrets, 1e6 rows",
    "counting, 10,000,000 x 10 codes x 5 secrets",
    "fit on polars, Parquet of 10,000,000 x 4 codes x 3 secrets",
    "fit on DuckDB, Parquet of 10,000,000 x 4 codes x 3 secrets",
    "exact (epsilon, delta) scale, laplace, one pair of n = 10,000 atoms",
    "delta of a Gaussian shift, interval of the exact loss",
    "Laplace noise, n = 1,000,000",
    "Gaussian noise, n = 1,000,000",
    "Cauchy noise, n = 1,000,000",
    "transform, 1,000,000 x 10, lattice atoms, DataFrame",
    "exact scale, 1,000 users in 20 classes, random, distribution",
    "exact scale, 1,000 distinct users, random, distribution",
    "20,000 ledger checks, Laplace",
    "PufferfishSGDRegressor.fit, 1,000,000 x 20, independent records",
)
HEADER = ("measured", "ours", "peer", "peer's", "ratio", "target", "reached")
TABLE = re.compile(r"^\| measured.*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
PEERS = ("fairlearn", "opendp", "diffprivlib", "dp-accounting", "polars", "duckdb")
PACKAGES = ("sklearn-puffer", "numpy", "scipy", "pandas", "scikit-learn", "narwhals", *PEERS)


def main():
    arguments = _arguments()
    # The thread pools read these when numpy and polars are imported, so nothing here imports them.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    sys.path.insert(0, str(HERE))
    rows, growth = [], {}
    for module in _benchmarks(arguments.subjects):
        print(f"measuring {module.__name__} ...", file=sys.stderr, flush=True)
        measured = module.rows(quick=arguments.quick)
        # The targets are for the full sizes.
        rows += [row | {"reached": None} for row in measured] if arguments.quick else measured
        if hasattr(module, "growth") and not arguments.quick:
            table = module.growth()
            if table:  # none where a public table is absent
                growth[module.__name__] = table
    print(_markdown(rows, growth))
    if arguments.update:
        rows, growth = _among_the_others(rows, growth)
    if arguments.update or not (arguments.quick or arguments.subjects):
        _write(rows, growth)


def _among_the_others(rows, growth):
    """Return the rows of RESULTS.json with those just measured in the place of the old ones."""
    old = json.loads((HERE / "RESULTS.json").read_text(encoding="utf-8"))
    measured = {row["name"]: row for row in rows}
    kept = [measured.pop(row["name"], row) for row in old["rows"]]
    return [*kept, *measured.values()], {**old["growth"], **growth}


def _write(rows, growth):
    report = _markdown(rows, growth)
    (HERE / "RESULTS.md").write_text(report + "\n", encoding="utf-8")
    facts = {"machine": _machine(), "rows": rows, "growth": growth}
    text = json.dumps(facts, indent=1, default=float)
    (HERE / "RESULTS.json").write_text(text + "\n", encoding="utf-8")
    _quote(rows)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subjects", nargs="*", help="parts of file names; all files if none")
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--update", action="store_true", help="write rows of these subjects alone")
    arguments = parser.parse_args()
    if arguments.update and (arguments.quick or not arguments.subjects):
        parser.error("--update takes the subjects that were measured, at their full sizes")
    return arguments


def _benchmarks(subjects):
    names = sorted(path.stem for path in HERE.glob("bench_*.py"))
    chosen = [name for name in names if not subjects or any(part in name for part in subjects)]
    if not chosen:
        raise SystemExit(f"no benchmark is called {subjects}; there are {', '.join(names)}")
    return [importlib.import_module(name) for name in chosen]


def _markdown(rows, growth):
    lines = ["# Benchmarks", "", "Written by `python benchmarks/run.py`. " + _machine(), ""]
    lines += _table(HEADER, [_cells(row) for row in rows])
    notes = [f"- {row['name']}: {row['note']}" for row in rows if row.get("note")]
    lines += ["", *notes] if notes else []
    for name, table in growth.items():
        subject = name.removeprefix("bench_")
        lines += ["", f"## Growth: {subject}", ""]
        header = list(table[0])
        cells = [[f"{row['n']:,}", *(_grown(row[key]) for key in header[1:])] for row in table]
        lines += _table(header, cells)
    return "\n".join(lines)


def _quote(rows):
    page = HERE.parent / "docs" / "benchmarks.md"
    quoted = [row for row in rows if row["name"] in QUOTED or row.get("reached") is False]
    table = "\n".join(_table(HEADER, [_cells(row) for row in quoted]))
    text = TABLE.sub(lambda _: table, page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")


def _cells(row):
    ratio = row.get("ratio")
    reached = {True: "yes", False: "**no**"}.get(row.get("reached"), "")
    return (
        row["name"],
        _quantity(row["ours"], row.get("unit")),
        row.get("peer") or "",
        _quantity(row.get("peer_value"), row.get("unit")),
        "" if ratio is None else f"{ratio:.3g}",
        row.get("target") or "",
        reached,
    )


def _table(header, rows):
    """Lay out a Markdown table whose columns also line up as plain text."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    ruled = [header, ["-" * width for width in widths], *rows]
    return [
        "| "
        + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in ruled
    ]


def _quantity(value, unit):
    if value is None:
        return ""
    return _seconds(value) if unit in (None, "s") else f"{value:.3g} {unit}"


def _grown(value):
    return value if isinstance(value, str) else _seconds(value)


def _seconds(value):
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value:.3g} s"


def _machine():
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    day = datetime.fromtimestamp(time.time(), UTC).date().isoformat()
    return (
        f"{day}, {platform.machine()}, {os.cpu_count()} cores, one thread, "
        f"Python {platform.python_version()}, {', '.join(versions)}."
    )


if __name__ == "__main__":
    main()
