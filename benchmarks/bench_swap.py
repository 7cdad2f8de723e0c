"""Swaps of real rows by their secrets, at epsilon 1, of 20,000 people.

Change is the mean over columns, in standard deviations (a category that differs counts 1). The
attack is the AUC of a fresh boosted model of people's secrets, learnt on one half of the released
rows and asked about the other half (several secrets: of each against the rest, the mean). The task
is a model of the label of people, learnt on the rows that they hold and tested on true rows of
others. Random swapping moves as many rows as the swap beside it; nothing is guaranteed of it,
nor of the swap of 0.2 (`tests/old_swap.py`; of several secrets it hides the most frequent one).
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
import pandas as pd
import polars as pl
from _measure import alone, peak_bytes
from _people import ADULT, FOLDER, auc, change, read
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import PufferfishSwap

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import old_swap

SEEDS = {"Adult, sex": 3, "Adult, sex, no relationship": 3}
CELLS = 20  # of the swap of 0.2
PEOPLE = 20_000
TABLES = {
    "Adult, sex": ("adult.csv", "sex", ADULT[:9], "income"),
    "Adult, sex, no relationship": (
        "adult.csv",
        "sex",
        [name for name in ADULT if name != "relationship"],
        "income",
    ),
    "Adult, race": ("adult.csv", "race", ADULT, "income"),
    "bank, marital": ("bank-full.csv", "marital", None, "y"),
    "law-like, race": (None, "race", ["points", "ugpa", "school", "income", "fulltime"], "bar"),
}
INSIDERS = {"stay": 0.66, "change": 0.11, "attack": 0.66, "task": 0.905}
# name, parameters, bars
ROWS = (
    ("Adult, sex", {}, INSIDERS),
    ("Adult, sex", {"insiders": None}, {"stay": 0.71, "change": 0.10}),
    ("Adult, sex", {"matching": "parts"}, {"change": 0.155}),
    ("Adult, sex", {"known": "income"}, {}),
    ("Adult, sex", {"epsilon": 0.5}, {}),
    ("Adult, sex, no relationship", {}, INSIDERS),
    ("Adult, sex, no relationship", {"insiders": None}, {"stay": 0.71, "change": 0.10}),
    ("Adult, sex, no relationship", {"matching": "parts"}, {"change": 0.155}),
    ("Adult, race", {}, {}),
    ("bank, marital", {}, {}),
    ("law-like, race", {}, {}),
)
SIZES = ((100_000, 2.0), (1_000_000, 30.0))
ENGINES = {"polars": pl.scan_parquet, "DuckDB": lambda path: duckdb.sql(f"from '{path}'")}
GROWTH = (100_000, 300_000, 1_000_000)


def rows(quick=False):
    found = [_size(*each) for each in (((2_000, 2.0),) if quick else SIZES)]
    if not (FOLDER / "adult.csv").exists():
        return found
    if quick:
        return [*found, *_released("Adult, sex", {}, {}, seeds=1, n=1_000)]
    return [*found, *(row for each in ROWS for row in _released(*each))]


def _released(name, params, bars, *, seeds=None, n=PEOPLE):
    figures = [_measured(name, params, seed, n) for seed in range(seeds or SEEDS.get(name, 1))]
    found = {key: median(each[key] for each in figures) for key in figures[0]}
    note = ", ".join(f"{label} {value:.3g}" for label, value in found.items())
    about = "".join(f", {key}={value}" for key, value in params.items())
    bars = bars or {"change": None}
    made = [
        _figure(f"swap of {name}{about}: {key}", found[key], key, bars[key], note) for key in bars
    ]
    print(*made, sep="\n", flush=True)
    return made


def _figure(name, value, label, bar, note):
    at_least = label in ("task", "stay")
    unit = {"change": "sd", "stay": ""}.get(label, "AUC")
    row = alone(name, value, note) | {"unit": unit}
    if bar is None:
        return row
    reached = value >= bar if at_least else value <= bar
    return row | {"target": f"{'>=' if at_least else '<='} {bar}", "reached": reached}


def _measured(name, params, seed, n):
    people, others, secret, public, label = _people(name, seed, n)
    settings = {"epsilon": 1.0, "sensitive": secret, "public": public, "ids": "client"}
    swap = PufferfishSwap(**settings | params)
    start = time.process_time()
    released = swap.fit_transform(people)[public]
    told = {"seconds": time.process_time() - start, "stay": swap.certificate_.facts.stay}
    ways = {"": released}
    if not params:
        ways |= {" by lot": _by_lot(people[public], told["stay"], seed), ", raw": people[public]}
        ways[" by 0.2"] = _by_cells(people[public], people[secret], seed)
    for way, held in ways.items():
        told[f"change{way}"] = change(people[public], held, people[public])
        told[f"attack{way}"] = _attack(held, people[secret])
        told[f"task{way}"] = auc(held, people[label], others[public], others[label])
    return told


def _people(name, seed, n):
    file, secret, public, label = TABLES[name]
    table = _law_like(2 * n, seed) if file is None else read(file)
    public = public or [column for column in table if column not in (secret, label)]
    table = table.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    people, others = table[:n], table[n : 3 * n // 2]
    return people.assign(client=np.arange(n)), others, secret, public, label


def _attack(held, secret):
    half = len(held) // 2
    return auc(held[:half], secret[:half], held[half:], secret[half:])


def _by_lot(people, stay, seed):
    """Return rows of which as many as in a swap were exchanged, among people drawn at random."""
    rng = np.random.default_rng(seed)
    moved = rng.permutation(len(people))[: round((1.0 - stay) * len(people))]
    order = np.arange(len(people))
    order[moved] = np.roll(moved, 1)
    return people.iloc[order].reset_index(drop=True)


def _by_cells(people, secrets, seed):
    """Return rows that were exchanged between cells of one model, as the swap of 0.2 did it."""
    units = StandardScaler().fit_transform(pd.get_dummies(people, dtype=float))
    is_most = (secrets == secrets.mode()[0]).to_numpy().astype(int)
    model = HistGradientBoostingClassifier(random_state=0)
    swapped = old_swap.swap(units, is_most, model, 1.0, CELLS, np.random.default_rng(seed))
    return people.iloc[swapped.gets].reset_index(drop=True)


def _law_like(n, seed):
    """Return invented people with the columns of a table of law students."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["white", "black", "hispanic", "asian"], n, p=[0.84, 0.06, 0.05, 0.05])
    apart = (
        pd.Series(race).map({"white": 0.0, "black": 1.6, "hispanic": 0.9, "asian": 0.3}).to_numpy()
    )
    points = (37 + 5 * rng.normal(size=n) - 5 * apart).round()
    ugpa = (3.2 + 0.4 * rng.normal(size=n) - 0.25 * apart + 0.02 * (points - 37)).round(1)
    school = np.clip((3.5 + rng.normal(size=n) + 0.1 * (points - 37)).round(), 1, 6)
    income = np.clip((3.5 + 0.8 * rng.normal(size=n) - 0.3 * apart).round(), 1, 5)
    full = (rng.random(n) < 0.9).astype(int)
    bar = rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 - 0.2 * (points - 37) - ugpa + 3.2))
    columns = {"points": points, "ugpa": ugpa, "school": school, "income": income, "fulltime": full}
    return pd.DataFrame(columns | {"race": race, "bar": bar})


# ------------------------------------------------------------------------------------------- size


def _ten_columns(n):
    """Return invented people with ten columns of numbers."""
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, n)
    table = pd.DataFrame(rng.normal(size=(n, 10)) + 0.3 * ill[:, None]).rename(columns=str)
    return table.assign(ill=ill, client=np.arange(n))


def _swap():
    public = [str(k) for k in range(10)]
    return PufferfishSwap(1.0, sensitive="ill", ids="client", public=public)


def _size(n, limit):
    """Return the seconds of a swap of ten columns of numbers, and its memory over its input."""
    table = _ten_columns(n)

    def swapped():
        return _swap().fit_transform(table)

    start = time.process_time()
    swapped()
    seconds = time.process_time() - start
    share = peak_bytes(swapped) / table.memory_usage(index=False).sum()
    row = alone(f"swap of {n:,} x 10", seconds, f"memory {share:.1f} inputs", limit=limit)
    print(row, flush=True)
    return row | {
        "reached": bool(seconds <= limit and share <= 3.0),
        "target": f"<= {limit:g} s, 3 inputs",
    }


def growth():
    """Return what fits and swaps of Parquet files take on engines, each in a process of its own."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in GROWTH:
            path = Path(folder) / f"{n}.parquet"
            table = _ten_columns(n)
            table.to_parquet(path, row_group_size=50_000)
            n_bytes = table.memory_usage(index=False).sum()
            for engine in ENGINES:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    found.append(
                        _grown(n, n_bytes, engine, *pool.apply(_on_engine, (engine, path)))
                    )
    return found


def _on_engine(engine, path):
    """Return the seconds of all threads, and by how many bytes the process grew."""
    start, before = time.process_time(), _most_bytes()
    key = b"blake2b:a key of a benchmark, and no secret"
    plan = _swap().fit_transform(ENGINES[engine](path), row_id="client", key=key)
    target = path.with_name("released.parquet")
    (plan.sink_parquet if engine == "polars" else plan.write_parquet)(str(target))
    return time.process_time() - start, _most_bytes() - before


def _most_bytes():
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if sys.platform == "darwin" else 1024)


def _grown(n, n_bytes, engine, seconds, grew):
    row = {
        "n": n,
        "engine": engine,
        "fit and swap": seconds,
        "a million rows": seconds / n * 1e6,
        "memory": f"{grew / 1e6:.0f} MB",
        "of the table": f"{n_bytes / 1e6:.0f} MB",
    }
    print(row, flush=True)
    return row
