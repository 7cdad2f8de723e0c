"""Engines of lazy tables: rows stay in the engine, which counts groups of equal rows.

An engine is recognised by modules that are imported already; none is imported here. Engines may
take two values, or two names, for equal. To prevent this, strings become bytes if a collation may
compare them, and columns are selected by position if names ignore case. Then an engine computes
comparisons, a group-by and the sizes of groups, and nothing else; all engines compute these
exactly.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import pandas as pd

from sklearn_puffer._tables import check_objects, check_unique
from sklearn_puffer._words import on_one_line, quoted

Levels = tuple[tuple[str, ...], bool]
"""The categories that the type of a column lists, and whether they are ordered."""


class Engine(NamedTuple):
    """How tables of one engine are recognised and opened.

    ``by_position`` returns a native table whose columns are named by their positions. ``extra``
    names the extra that installs the engine.
    """

    is_one: Callable[[Any], bool]
    by_position: Callable[[Any, Mapping[str, Any]], Any]
    extra: str


def is_lazy(X: Any) -> bool:
    """Return whether X is a lazy table of a known engine.

    >>> is_lazy({"a": [1]})
    False
    """
    return any(engine.is_one(X) for engine in ENGINES)


def engine_of(X: Any) -> str:
    """Return the name of the engine of a lazy table."""
    return next(engine.extra for engine in ENGINES if engine.is_one(X))


def in_narwhals(X: Any) -> nw.LazyFrame[Any]:
    """Return a lazy table of an engine as a frame of narwhals."""
    with warnings.catch_warnings():
        # a warning about narwhals' future, which a caller of `fit` cannot act on
        warnings.filterwarnings("ignore", message="Dask support is moving", category=FutureWarning)
        frame: nw.LazyFrame[Any] = nw.from_native(X)
        return frame


def check_names(X: Any) -> None:
    is_polars = nw.dependencies.is_polars_lazyframe(X)
    names = X.collect_schema().names() if is_polars else list(X.columns)
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise TypeError(
            f"X has a column called {strange[0]!r}, which is no string; rename the columns of a "
            "lazy table to strings."
        )
    check_unique(names, "X")


def check_renamed(X: Any) -> None:
    """Refuse names that DuckDB confuses or has changed, as it ignores case."""
    by_name = _is_ibis(X) and X.get_backend().name == "duckdb"
    if not by_name and not DUCKDB.is_one(X):
        return
    spelling = {name.lower(): name for name in reversed(X.columns)}
    for name in X.columns:
        stem, _, number = name.rpartition("_")
        for meant in [stem] * number.isdecimal() + [name] * by_name:
            other = spelling.get(meant.lower(), meant)
            if other != meant:
                raise ValueError(
                    f"X has columns {other!r} and {name!r}, and DuckDB ignores case in names: it "
                    "changes one of two that are alike but for case, or reads the other for it; "
                    "rename one in the file, or pass pl.scan_parquet of it."
                )


def _checked_labels(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Return a part of a column of categories as strings, and check objects; called in a worker."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        check_objects(column, name)
        return column
    if fault := _refused_category(column.dtype, name):
        raise fault
    return column.astype("string")


def _refused_category(dtype: Any, name: str) -> TypeError | None:
    """Return an error if a category is no string."""
    strange = [level for level in dtype.categories if not isinstance(level, str)]
    if not strange:
        return None
    return TypeError(
        f"column {name!r} has the category {quoted(strange[0])}, which is no string; convert it to "
        "numbers, or to strings with astype(str)."
    )


def _numbers(types: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(k) for k, name in enumerate(types)}


def _of_dask(X: Any, types: Mapping[str, Any]) -> Any:
    """Return a Dask table by position, with strings for categories, whose codes differ by part."""
    columns = X.rename(columns=_numbers(types))
    for k, (name, dtype) in enumerate(X.dtypes.items()):
        if types[name].is_float() and isinstance(dtype, pd.ArrowDtype):
            columns[str(k)] = (X[name] + 0.0).astype(dtype)  # -0.0 and 0.0 are two to Arrow
        if dtype.name in ("category", "object"):  # its values are not known from its type
            like = (name, "string" if dtype.name == "category" else object)
            columns[str(k)] = X[name].map_partitions(_checked_labels, name, meta=like)
    return columns


def selected(X: Any, columns: Sequence[tuple[str, str]]) -> Any:
    """Return columns of a relation; expressions may use "#1" for the first, as names ignore case.

    Parameters
    ----------
    X : DuckDBPyRelation
    columns : sequence of pairs
        An expression in SQL, and its name.
    """
    quoted = [(expression, name.replace('"', '""')) for expression, name in columns]
    return X.project(", ".join(f'{expression} as "{name}"' for expression, name in quoted))


def _of_duckdb(X: Any, types: Mapping[str, Any]) -> Any:
    dtypes = enumerate(types.values())
    return selected(
        X, [(f"encode(#{k + 1})" if t == nw.String else f"#{k + 1}", str(k)) for k, t in dtypes]
    )


def _of_spark(X: Any, types: Mapping[str, Any]) -> Any:
    """Return a Spark table by position, as names ignore case, and a dot selects a field."""
    column = import_module("pyspark.sql.functions").col
    numbers = _numbers(types)
    return X.toDF(*numbers.values()).select(
        *(
            column(k).cast("binary").alias(k) if types[name] == nw.String else column(k)
            for name, k in numbers.items()
        )
    )


def _of_ibis(X: Any, types: Mapping[str, Any]) -> Any:
    backend = X.get_backend().name
    if backend != "duckdb":
        raise TypeError(
            f"X is an Ibis table of {backend}, which may take different strings for one, and whose "
            "rows do not pass through Python; pass X.to_polars(), or write it once and take the "
            "files (pl.scan_parquet), or use Ibis on DuckDB."
        )

    def to_bytes(text):  # type: ignore[no-untyped-def]  # Ibis reads the signature below
        ...

    ibis = sys.modules["ibis"]
    signature = ((ibis.expr.datatypes.string,), ibis.expr.datatypes.binary)
    encode = ibis.udf.scalar.builtin(to_bytes, name="encode", signature=signature)
    return X.select(
        **{
            k: encode(X[name]) if types[name] == nw.String else X[name]
            for name, k in _numbers(types).items()
        }
    )


def levels_of(X: Any, types: Mapping[str, Any]) -> dict[str, Levels | TypeError | ValueError]:
    if is_dask(X):
        listed = {n: _of_category(X, n) for n, t in types.items() if t in (nw.Categorical, nw.Enum)}
        return {name: levels for name, levels in listed.items() if levels is not None}
    return {n: (tuple(t.categories), True) for n, t in types.items() if t == nw.Enum}


def _of_category(X: Any, name: str) -> Levels | TypeError | ValueError | None:
    """Return the labels of a categorical column of Dask, or None if Dask does not know them."""
    if isinstance(X.dtypes[name], pd.ArrowDtype):  # which no part of a release could be read from
        return TypeError(
            f"column {name!r} has type {on_one_line(X.dtypes[name])}; convert it to strings with "
            "astype(str)."
        )
    column, dtype = X[name].cat, X.dtypes[name]
    if column.known and len(dtype.categories):  # files without categories have known empty ones
        return _refused_category(dtype, name) or (tuple(dtype.categories), bool(dtype.ordered))
    if not dtype.ordered:
        return None
    return ValueError(  # as_known() would not keep their order
        f"column {name!r} has ordered categories that Dask does not know; list them, "
        f"X[{name!r}].astype(pandas.CategoricalDtype([...], ordered=True)), or convert it with "
        "astype(str)."
    )


def is_of(module: str, kind: str) -> Callable[[Any], bool]:
    """Return a test for a class that does not import its module."""

    def is_one(X: Any) -> bool:
        cls = getattr(sys.modules.get(module), kind, None)
        return cls is not None and isinstance(X, cls)

    return is_one


is_dask = is_of("dask.dataframe", "DataFrame")


DUCKDB = Engine(is_of("duckdb", "DuckDBPyRelation"), _of_duckdb, "duckdb")
_is_ibis = is_of("ibis.expr.types", "Table")
ENGINES = [
    # renamed, as polars reads some names as patterns
    Engine(
        nw.dependencies.is_polars_lazyframe, lambda X, types: X.rename(_numbers(types)), "polars"
    ),
    DUCKDB,
    Engine(is_dask, _of_dask, "dask"),
    Engine(is_of("pyspark.sql.classic.dataframe", "DataFrame"), _of_spark, "spark"),
    Engine(_is_ibis, _of_ibis, "ibis"),
]
