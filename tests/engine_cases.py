"""Tables and options on which a fit on an engine is held against one in memory."""

import io
import json
import re
import warnings
from functools import cache
from itertools import product
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pyarrow.parquet

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.priors import Discrete

N_ROWS = 240


def _table():
    rng = np.random.default_rng(7)
    secret = rng.integers(0, 3, N_ROWS)
    decimals = np.round(rng.normal(size=N_ROWS) + secret, 1)
    decimals[:2] = 0.0, -0.0
    return pd.DataFrame(
        {
            "s": np.array(["a", "b", "c"])[secret],
            "t": rng.integers(0, 2, N_ROWS),
            "age": 20 + secret + rng.integers(0, 6, N_ROWS),
            "x": decimals,
            "short": (0.1 * rng.integers(0, 9, N_ROWS)).astype(np.float32),
            "flag": rng.random(N_ROWS) < 0.4 + 0.1 * secret,
            "job": np.array(["clerk", "Smith", "nurse"])[rng.integers(0, 3, N_ROWS)],
        }
    )


TABLE = _table()
GAPS = TABLE.assign(
    age=TABLE["age"].astype("Int64").mask(TABLE.index % 11 == 0),
    x=TABLE["x"].mask(TABLE.index % 7 == 0),
    flag=TABLE["flag"].astype("boolean").mask(TABLE.index % 9 == 0),
    job=TABLE["job"].mask(TABLE.index % 5 == 0),
)


_JOBS = ["nurse", "none", "clerk", "Smith"]  # neither sorted nor as they first occur


def dictionary_file(folder, described):
    """Write a file of dictionaries and of integers with gaps; described for pandas, or not."""
    rng = np.random.default_rng(5)
    job = pd.Categorical(np.array(_JOBS)[rng.integers(0, 4, N_ROWS)], _JOBS)
    frame = TABLE[["s", "age"]].assign(job=job, rank=job.as_ordered())
    frame["gap"] = frame["job"].mask(frame.index % 5 == 0)
    few = pd.Series(rng.integers(0, 6, N_ROWS) + (TABLE["s"] == "a"), dtype="Int32")
    frame["n"] = few.mask(few.index % 100 < 7)  # a part of the file has no gap
    frame["client"] = rng.permutation(N_ROWS)
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    table = table if described else table.replace_schema_metadata(None)
    pyarrow.parquet.write_table(table, folder / "rows.parquet", row_group_size=80)
    return str(folder / "rows.parquet")


IN_FILES = {
    "categories": {"public": ["job", "age"]},
    "a category as a secret": {"sensitive": "job", "public": ["age"]},
    "gaps as a category": {"public": ["gap", "age"], "missing": "category"},
    "gaps": {"public": ["n", "gap"], "missing": "propagate", "dependence": "independent"},
    "bins of integers with gaps": {"public": ["n"], "missing": "propagate", "n_bins": 3},
    "a declared order": {"public": ["rank"], "categories": {"rank": _JOBS}},
    "no such column": {"public": ["town"], "missing": "category"},
}


def fits_of_file(read, path, names=tuple(IN_FILES)):
    """Return the names of the fits on a file that are not those of the same rows in pandas."""
    expected = _fits_in_memory(Path(path).read_bytes())
    found = _fits(lambda: read(path), names)
    return [name for name in names if found[name] != expected[name]]


@cache
def _fits_in_memory(content):
    """Return what each fit shows of the rows of a Parquet file in pandas."""
    whole = pd.read_parquet(io.BytesIO(content), dtype_backend="numpy_nullable")
    return _fits(lambda: whole, IN_FILES)


def _fits(read, names):
    """Return what each fit shows of a table, which is read anew for it."""
    return {name: outcome(read(), **{"sensitive": "s", **IN_FILES[name]}) for name in names}


def in_polars(frame):
    """Missing numbers as NaN and as null by turns: engines tell them apart, and pandas does not."""
    # gaps of labels are None to pandas 3, and floats to pandas 2
    labels = frame[[name for name in frame if frame[name].dtype == object]]
    own = pl.from_pandas(frame.assign(**labels.where(labels.notna(), None)), nan_to_null=False)
    if "x" not in own.columns:
        return own
    even = pl.int_range(pl.len()) % 2 == 0
    gaps = pl.when(even & pl.col("x").is_nan()).then(None).otherwise(pl.col("x"))
    return own.with_columns(x=gaps)


def polars_lazy(frame):
    return in_polars(frame).lazy()


def duckdb_relation(frame):
    connection = duckdb.connect()
    connection.register("rows", in_polars(frame).to_arrow())
    return connection.sql("select * from rows")


def lengths_fetched(monkeypatch):
    """Return a list which gets the number of rows of all that an engine hands out from now on."""
    fetched = []
    collect = nw.LazyFrame.collect

    def counted(self, *args, **kwargs):
        result = collect(self, *args, **kwargs)
        fetched.append(len(result))
        return result

    monkeypatch.setattr(nw.LazyFrame, "collect", counted)
    return fetched


def outcome(X, **params):
    """Return all that a fit shows, or its refusal."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for of_engines in (DeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", of_engines)
        warnings.filterwarnings("ignore", "PySpark does not yet", FutureWarning)
        try:
            noiser = PufferfishNoiser(1.0, **params).fit(X)
        except (TypeError, ValueError) as error:
            return type(error), str(error)
    certificate = json.loads(noiser.certificate_.to_json())
    del certificate["date"]
    seen = noiser.theta_.to_dict(), noiser.utility_.to_dict(), noiser.priors_, noiser.secret_pairs_
    names = list(noiser.feature_names_in_), noiser.n_features_in_
    said = [str(warning.message) for warning in caught]
    return json.dumps(certificate), repr(seen), names, said, noiser.get_feature_names_out().tolist()


_found = {}


def in_pandas(frame, options):
    """Return what a fit in memory shows, which is the same beside every engine."""
    key = id(frame), repr(options)
    if key not in _found:
        _found[key] = outcome(frame, **options)
    return _found[key]


SHAPES = [
    {"public": ["age", "flag"]},
    {"public": ["age", "x", "job"], "dependence": [["x"], ["job", "age"]]},
    {"public": ["age", "x", "short"], "dependence": "independent"},
]
WAYS = [{}, {"n_bins": 3}]


def known_distributions():
    distributions = {label: Discrete(range(20, 28), np.arange(1, 9) / 36) for label in "abc"}
    return distributions | {"a": Discrete(range(20, 28), np.full(8, 1 / 8))}


OTHERS = {
    "two secrets": {"sensitive": ["t", "s"], "public": ["age", "flag"]},
    "a secret of numbers": {"sensitive": "age", "public": ["flag"], "secret_pairs": [(20, 21)]},
    "a confidence set": {"public": ["age"], "adversaries": "confidence"},
    "given priors": {"public": ["age"], "prior": known_distributions()},
    "further priors": {"public": ["age"], "adversaries": [known_distributions()]},
    "known values": {"public": ["age", "flag"], "known": "flag"},
    "a strategy": {"public": ["age", "x"], "strategy": "sensitivity", "n_bins": 3},
    "a delta": {"public": ["flag", "t"], "delta": 1e-3},
    "declared categories": {
        "public": ["job", "t"],
        "categories": {"job": ["nurse", "Smith", "clerk", "none"], "t": [1, 0]},
    },
    "passed columns": {"public": ["age"], "remainder": "passthrough"},
    "bins of single precision": {"public": ["short"], "n_bins": {"short": 4}},
}


LABEL_GAPS = GAPS.assign(age=TABLE["age"], x=TABLE["x"])  # numbers have no place for gaps
RULES = ["category", "propagate"]
PRODUCT = list(product(SHAPES, WAYS, RULES, ["s", ["s", "t"]]))


def agree(lazy, shape, way, rule, sensitive):
    some = GAPS if rule == "propagate" else LABEL_GAPS
    options = {"sensitive": sensitive, "missing": rule, **shape, **way}
    assert outcome(lazy(some), **options) == in_pandas(some, options)


REFUSALS = {
    "gaps": (GAPS, {"public": ["x", "job"]}),
    "gaps of a secret": (GAPS, {"sensitive": "job", "public": ["age"]}),
    "no place for gaps": (GAPS, {"public": ["x", "job"], "missing": "category"}),
    "an identifier": (TABLE.assign(i=np.arange(N_ROWS)), {}),
    "infinity": (TABLE.assign(x=np.inf), {"public": ["x"]}),
    "large integers": (TABLE.assign(age=2**60), {"public": ["age"]}),
    "one secret": (TABLE.assign(s="a"), {"public": ["age"]}),
    "one row": (TABLE.iloc[:1], {}),
    "no row": (TABLE.iloc[:0], {}),
    "an unlisted category": (TABLE, {"public": ["job"], "categories": {"job": ["nurse"]}}),
    "a column that is not there": (TABLE, {"public": ["agee"]}),
    "a bin too many": (TABLE, {"public": ["job"], "n_bins": {"job": 3}}),
}


def run_block(engine, folder, monkeypatch, names):
    """Run the block of the documentation about one engine beside a file of rows."""
    page = (Path(__file__).parent.parent / "docs" / "engines.md").read_text()
    [block] = re.findall(
        rf"```python\n(# pip install .sklearn-puffer\[{engine}\].*?)```", page, re.S
    )
    rows = pl.DataFrame({"sex": ["f", "m"] * 60, "age": list(range(20, 60)) * 3})
    rows.write_parquet(folder / "rows.parquet")
    monkeypatch.chdir(folder)
    known = {"PufferfishNoiser": PufferfishNoiser, "pyarrow": pyarrow, **names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # the folder of this process is not that of Spark
        exec(block.replace('"rows.parquet"', repr(str(folder / "rows.parquet"))), known)
    assert known["noiser"].certificate_.holds
