"""Which tables are lazy, and their columns by place, ready to be compared and grouped.

An engine is known by what is imported already, so that none is imported here. Each has ways of its
own to take two values for one, or one name for another, and they are undone before anything else:
strings become bytes where a collation may compare them, and columns are found by place where names
are not compared letter by letter.

What the text of a CSV file says of the types of its columns is asked here, in both ways to read
one, that of `fit` (by polars) and that of the command line (by pyarrow): the same file has the same
types, those that every value of a column has.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import pandas as pd

from sklearn_puffer._base import listed, on_one_line, quoted, way_to_table
from sklearn_puffer._tables.values import check_objects

_END = r"([eE][+-]?[0-9]{1,3})?$"
PATTERNS = {
    "boolean": r"^(true|false|True|False|TRUE|FALSE)$",
    "integer": r"^(0|-?[1-9][0-9]{0,17})$",
    # no leading zeros, and no more digits than a float has: those are ids
    "float": rf"^-?(0|[1-9][0-9]{{0,14}})(\.[0-9]*)?{_END}|^-?\.[0-9]+{_END}",
}
"""What all values of a column of a type look like; of the first one that fits. The rest is text."""

_SEPARATORS = ";\t|,"


def other_separator(names: Sequence[str], separator: str = ",") -> str | None:
    r"""Return what seems to stand between the values of a file that has one column by its header.

    >>> other_separator(["age;sex;income"]), other_separator(["age", "sex;income"])
    (';', None)
    """
    if len(names) != 1:
        return None
    found = max(_SEPARATORS.replace(separator, ""), key=names[0].count)
    return found if found in names[0] else None


def typed_csv(polars: Any, rows: Any) -> Any:
    """Return a polars LazyFrame of text with columns in their types; one pass over the rows.

    Columns are asked for by place, as polars takes some names for patterns.
    """
    places = range(len(rows.collect_schema()))
    checks = [
        polars.nth(k).str.contains(pattern).all().alias(f"{k} {kind}")
        for k in places
        for kind, pattern in PATTERNS.items()
    ]
    some = [polars.nth(k).count().alias(str(k)) for k in places]
    found = rows.select(*some, *checks).collect(engine="streaming").row(0, named=True)
    kinds = [
        next((kind for kind in PATTERNS if found[str(k)] and found[f"{k} {kind}"]), "string")
        for k in places
    ]
    return rows.select(*(_of_kind(polars, polars.nth(k), kinds[k]) for k in places))


def _of_kind(polars: Any, column: Any, kind: str) -> Any:
    if kind == "boolean":
        return column.str.to_lowercase() == "true"
    types = {"integer": polars.Int64, "float": polars.Float64, "string": polars.String}
    return column.cast(types[kind])


Levels = tuple[tuple[str, ...], bool]
"""Labels that the type of a column lists, and whether in an order."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A lazy table whose columns are called by their places, "0" the first.

    Attributes
    ----------
    native : object
        The table as its engine has it.
    frame : LazyFrame
    types : mapping of types
        By name, those that the columns had, in their order; strings may have become bytes.
    levels : mapping of Levels or errors
        By name, of columns whose type lists its labels, or with which they are refused.
    """

    native: Any
    frame: nw.LazyFrame[Any]
    types: Mapping[str, Any]
    levels: Mapping[str, Levels | TypeError | ValueError] = field(default_factory=dict)


class _Engine(NamedTuple):
    """How tables of one engine are known and opened.

    The second function returns the columns of a native table by place; the extra installs what is
    needed besides the table.
    """

    is_one: Callable[[Any], bool]
    by_place: Callable[[Any, Mapping[str, Any]], Any]
    extra: str


_ENDINGS = (".parquet", ".pq", ".csv")


def is_lazy(X: Any) -> bool:
    """Return whether X is a lazy table of an engine that is known, or names files of rows.

    >>> is_lazy({"a": [1]}), is_lazy("rows.parquet")
    (False, True)
    """
    return _is_path(X) or _is_dataset(X) or any(each.is_one(X) for each in _ENGINES)


def engine_of(X: Any) -> str:
    """Return the name of the engine of a lazy table, and nothing for files, which have none.

    >>> engine_of("rows.parquet")
    ''
    """
    return next((each.extra for each in _ENGINES if each.is_one(X)), "")


def way_to_rows(X: Any) -> str:
    """Return the call that brings the rows of a lazy table into memory.

    >>> way_to_rows("rows.parquet")
    'the rows in memory, such as polars.read_parquet(X)'
    """
    return way_to_table(X, "X") or "the rows in memory, such as polars.read_parquet(X)"


def opened(X: Any) -> Opened:
    """Return the columns of a lazy table by place; nothing is computed yet.

    Raises
    ------
    ImportError
        If what reads the engine's tables is absent, or too old.
    TypeError, ValueError
        If it has columns that cannot be told apart, or X is no path of rows.
    """
    if _is_path(X):
        return opened(_scanned(os.fspath(X)))
    if _is_dataset(X):
        rows = _with_extra(lambda: import_module("duckdb").from_arrow(X), X, "duckdb")
        names = enumerate(X.schema.names, 1)  # some of which DuckDB may have changed
        return _opened(selected(rows, [(f"#{k}", name) for k, name in names]), _DUCKDB)
    engine = next(each for each in _ENGINES if each.is_one(X))
    _check_renamed(X)
    found: Opened = _with_extra(lambda: _opened(X, engine), X, engine.extra)
    return found


def _opened(X: Any, engine: _Engine) -> Opened:
    if engine.extra != "polars":
        import_module("pyarrow")  # as which groups are fetched
    _check_names(X)
    types = dict(in_narwhals(X).collect_schema())
    if _is_dask(X):  # in whose objects narwhals sees strings
        types |= {name: nw.Object() for name in types if X.dtypes[name].name == "object"}
    frame = in_narwhals(engine.by_place(X, types))
    return Opened(X, frame, types, _levels(X, types))


def _with_extra(open_it: Callable[[], Any], X: Any, extra: str) -> Any:
    try:
        return open_it()
    except ImportError as error:
        raise ImportError(
            f"X is a {type(X).__name__}, and what reads it is absent or too old "
            f'({on_one_line(error)}); run pip install "sklearn-puffer[{extra}]".'
        ) from error


def in_narwhals(X: Any) -> nw.LazyFrame[Any]:
    """Return a lazy table of an engine, whose own name columns have."""
    with warnings.catch_warnings():
        # what it says of its own future is nothing that a caller of `fit` can change
        warnings.filterwarnings("ignore", message="Dask support is moving", category=FutureWarning)
        frame: nw.LazyFrame[Any] = nw.from_native(X)
        return frame


def _check_names(X: Any) -> None:
    names = _columns(X)
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise TypeError(
            f"X has a column called {strange[0]!r}, which is no string; rename the columns of a "
            "lazy table to strings."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"X has more than one column called {listed(twice)}; rename them.")


def _check_renamed(X: Any) -> None:
    """Refuse names that DuckDB, which ignores case in them, has changed or takes for others."""
    by_name = _is_ibis(X) and X.get_backend().name == "duckdb"
    if not by_name and not _DUCKDB.is_one(X):
        return
    known = {name.lower(): name for name in reversed(X.columns)}
    for name in X.columns:
        stem, _, number = name.rpartition("_")
        for meant in [stem] * number.isdecimal() + [name] * by_name:
            other = known.get(meant.lower(), meant)
            if other != meant:
                raise ValueError(
                    f"X has columns {other!r} and {name!r}, and DuckDB ignores case in names: it "
                    "changes one of two that are alike but for case, or reads the other for it; "
                    "rename one in the file, or pass pl.scan_parquet or pyarrow.dataset of it."
                )


def _columns(X: Any) -> list[Any]:
    if nw.dependencies.is_polars_lazyframe(X):
        return list(X.collect_schema().names())
    return list(X.columns)


def _of_polars(X: Any, types: Mapping[str, Any]) -> Any:
    """Return a polars table by place; asked for by name, some names are patterns of others."""
    return X.rename({name: str(k) for k, name in enumerate(types)})


def _checked_labels(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Return a part of a column of categories as strings, or of objects; called in a worker."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        check_objects(column, name)
        return column
    if fault := _refused_category(column.dtype, name):
        raise fault
    return column.astype("string")


def _refused_category(dtype: Any, name: str) -> TypeError | None:
    """Return the error about a category that is no string."""
    strange = [level for level in dtype.categories if not isinstance(level, str)]
    if not strange:
        return None
    return TypeError(
        f"column {name!r} has the category {quoted(strange[0])}, which is no string; convert it to "
        "numbers, or to strings with astype(str)."
    )


def _of_dask(X: Any, types: Mapping[str, Any]) -> Any:
    """Return a Dask table by place, with labels for categories: each part may have own codes."""
    own = X.rename(columns={name: str(k) for k, name in enumerate(types)})
    for k, (name, dtype) in enumerate(X.dtypes.items()):
        if dtype.name in ("category", "object"):  # which says too little of what is in it
            like = (name, "string" if dtype.name == "category" else object)
            own[str(k)] = X[name].map_partitions(_checked_labels, name, meta=like)
    return own


def selected(X: Any, columns: Sequence[tuple[str, str]]) -> Any:
    """Return columns of a relation, each with a name; "#1" is the first, since names ignore case.

    Parameters
    ----------
    X : DuckDBPyRelation
    columns : sequence of pairs
        What is computed, in SQL, and its name.
    """
    quoted = [(own, name.replace('"', '""')) for own, name in columns]
    return X.project(", ".join(f'{own} as "{name}"' for own, name in quoted))


def _of_duckdb(X: Any, types: Mapping[str, Any]) -> Any:
    own = [f"encode(#{k})" if t == nw.String else f"#{k}" for k, t in enumerate(types.values(), 1)]
    return selected(X, [(column, str(k)) for k, column in enumerate(own)])


def _of_spark(X: Any, types: Mapping[str, Any]) -> Any:
    """Return a Spark table by place: its names ignore case, and a dot in one asks for a field."""
    column = import_module("pyspark.sql.functions").col
    places = [str(k) for k in range(len(types))]
    return X.toDF(*places).select(
        *(
            column(place).cast("binary").alias(place) if dtype == nw.String else column(place)
            for place, dtype in zip(places, types.values(), strict=True)
        )
    )


_AS_BYTES = {"duckdb": "encode", "polars": None}
"""What an Ibis backend has that makes bytes of strings; None where no collation compares them."""


def _of_ibis(X: Any, types: Mapping[str, Any]) -> Any:
    backend = X.get_backend().name
    texts = [name for name, dtype in types.items() if dtype == nw.String]
    if texts and backend not in _AS_BYTES:
        raise ValueError(
            f"X is an Ibis table of {backend}, which may take different strings of column "
            f"{texts[0]!r} for one, by a collation; pass X.to_polars(), or codes for strings."
        )
    function = _AS_BYTES.get(backend)
    encode = _builtin(function) if function else (lambda column: column)
    return X.select(
        **{
            str(k): encode(X[name]) if dtype == nw.String else X[name]
            for k, (name, dtype) in enumerate(types.items())
        }
    )


def _builtin(name: str) -> Any:
    def to_bytes(text):  # type: ignore[no-untyped-def]  # Ibis reads the signature below
        ...

    types = sys.modules["ibis"].expr.datatypes
    return sys.modules["ibis"].udf.scalar.builtin(
        to_bytes, name=name, signature=((types.string,), types.binary)
    )


def _levels(X: Any, types: Mapping[str, Any]) -> dict[str, Levels | TypeError | ValueError]:
    if _is_dask(X):
        found = {name: _of_category(X, name) for name in types if X.dtypes[name].name == "category"}
        return {name: levels for name, levels in found.items() if levels is not None}
    return {n: (tuple(t.categories), True) for n, t in types.items() if t == nw.Enum}


def _of_category(X: Any, name: str) -> Levels | TypeError | ValueError | None:
    """Return the labels of a categorical column of Dask, or None where it does not know them."""
    column, dtype = X[name].cat, X.dtypes[name]
    if column.known and len(dtype.categories):  # a file that lists none "knows" none
        return _refused_category(dtype, name) or (tuple(dtype.categories), bool(dtype.ordered))
    if not dtype.ordered:
        return None
    return ValueError(  # as_known() would not keep their order
        f"column {name!r} has ordered categories that Dask does not know; list them, "
        f"X[{name!r}].astype(pandas.CategoricalDtype([...], ordered=True)), or convert it with "
        "astype(str)."
    )


def is_of(module: str, kind: str) -> Callable[[Any], bool]:
    """Return the test for a class; there is no object of it before its module is imported."""

    def is_one(X: Any) -> bool:
        found = getattr(sys.modules.get(module), kind, None)
        return found is not None and isinstance(X, found)

    return is_one


_is_dataset = is_of("pyarrow.dataset", "Dataset")
_is_dask = is_of("dask.dataframe", "DataFrame")


def _is_path(X: Any) -> bool:
    if isinstance(X, str):
        return X.lower().endswith(_ENDINGS) or os.path.isdir(X)
    return isinstance(X, os.PathLike)


_DUCKDB = _Engine(is_of("duckdb", "DuckDBPyRelation"), _of_duckdb, "duckdb")
_is_ibis = is_of("ibis.expr.types", "Table")
_ENGINES = [
    _Engine(nw.dependencies.is_polars_lazyframe, _of_polars, "polars"),
    _DUCKDB,
    _Engine(_is_dask, _of_dask, "dask"),
    _Engine(is_of("pyspark.sql.classic.dataframe", "DataFrame"), _of_spark, "spark"),
    _Engine(_is_ibis, _of_ibis, "ibis"),
]


def _scanned(path: str) -> Any:
    """Return the rows of Parquet or CSV files as a polars LazyFrame."""
    places = _files(path)
    scan = _with_extra(lambda: import_module("polars"), path, "polars")
    if places[0].lower().endswith((".parquet", ".pq")):
        return scan.scan_parquet(places, glob="://" in path or not os.path.exists(path))
    # as text: types are those of all the rows, found as the command line finds them
    rows = scan.scan_csv(
        places, glob="://" in path or not os.path.exists(path), infer_schema_length=0
    )
    _check_separator(path, list(rows.collect_schema()))
    return typed_csv(scan, rows)


def _check_separator(path: str, names: list[str]) -> None:
    other = other_separator(names)
    if other is not None:
        raise ValueError(
            f"X is {path!r}, which has one column, {quoted(names[0])}, where its values are "
            f"separated by commas, and seems to be separated by {other!r}; pass "
            f"polars.scan_csv(X, separator={other!r})."
        )


def _files(path: str) -> list[str]:
    """Return the files of a path: itself, the Parquet files of a folder, or a pattern of files."""
    if os.path.isdir(path):
        found = sorted(str(each) for each in Path(path).rglob("*.parquet"))
        if not found:
            raise FileNotFoundError(f"X is the folder {path!r}, in which no file ends in .parquet.")
        return found
    if not path.lower().endswith(_ENDINGS):
        raise ValueError(
            f"X is the path {path!r}, which is no folder and does not end in .parquet, .pq or .csv;"
            " read it, and pass the table."
        )
    return [path]
