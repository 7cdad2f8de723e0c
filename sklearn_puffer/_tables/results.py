"""Results as pandas frames and series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from sklearn_puffer._base import Array
from sklearn_puffer._tables.values import Name, Values, take_levels


def series(data: Mapping[Name, float], name: str) -> pd.Series[float]:
    """Return a float Series indexed by column name or position."""
    return pd.Series(list(data.values()), index=pd.Index(list(data)), name=name, dtype=float)


def named_frame(
    records: Mapping[Name, Mapping[str, float]], columns: Sequence[str]
) -> pd.DataFrame:
    """Return a DataFrame of floats with a row for each column, by name or position."""
    rows = [[record[column] for column in columns] for record in records.values()]
    return pd.DataFrame(rows, index=pd.Index(list(records)), columns=list(columns), dtype=float)


def records_frame(records: list[tuple[Any, ...]], columns: Sequence[Name]) -> pd.DataFrame:
    """Return the DataFrame of a certificate's rows."""
    return pd.DataFrame.from_records(records, columns=list(columns))


def values_frame(columns: Mapping[Name, Values]) -> pd.DataFrame:
    """Return columns of values as a DataFrame, in types that allow missing values."""
    data = {name: _bare_column(values) for name, values in columns.items()}
    return pd.DataFrame(data, columns=pd.Index(list(data)))


def _bare_column(values: Values) -> Any:
    if values.levels is not None:
        codes: Any = values.filled(-1)
        if values.declared:
            return pd.Categorical.from_codes(codes, pd.Index(values.levels), values.ordered)
        return take_levels(values.levels, codes)
    if values.unit is not None:
        times: Array = values.data.astype(values.unit)
        if values.missing is not None:
            times[values.missing] = "NaT"
        return times
    if values.missing is None or values.kind == "float":
        return values.data
    dtype: Any = "boolean" if values.kind == "boolean" else "Int64"
    column = pd.array(values.data, dtype=dtype)
    column[values.missing] = pd.NA
    return column


def counts_frame(
    counts: Array,
    columns: Sequence[tuple[Any, ...]],
    strata: tuple[Sequence[Name], Sequence[Any]] | None = None,
) -> pd.DataFrame:
    """Return counts, with columns named by a sensitive column and a secret, or by a secret.

    ``strata`` are the names of their columns, and their values; each has equally many rows.
    """
    index: Any = None
    if strata is not None:
        names, labels = strata
        each = [label if len(names) > 1 else (label,) for label in labels]
        rows = [(*label, k) for label in each for k in range(len(counts) // len(labels))]
        index = pd.MultiIndex.from_tuples(rows, names=[*names, "prototype"])
    if len({column for column, _ in columns}) == 1:
        labels = pd.Index([secret for _, secret in columns], tupleize_cols=False)
        return pd.DataFrame(counts, index, labels)
    return pd.DataFrame(counts, index, pd.MultiIndex.from_tuples(columns))
