"""Columns as features of a classifier: a DataFrame, each column in its type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sklearn_puffer._base import Array
from sklearn_puffer._tables.values import Name, Values


@dataclass(frozen=True, eq=False)
class Features:
    """The rows of a classifier.

    Attributes
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        Numbers, booleans, and strings and categories as ``category`` with all their levels;
        missing values stay missing, and columns have the names of the table.
    keys : ndarray of int of shape (n_rows, n_columns)
        The rank of each value in its column: rows are equal if their keys are, and keys do not
        depend on the order of rows.
    """

    frame: Any
    keys: Array

    @classmethod
    def of(cls, columns: Mapping[Name, Values]) -> Features:
        """Return the rows of some columns.

        >>> features = Features.of({"age": Values("integer", np.array([30, 20, 30]))})
        >>> features.frame["age"].tolist(), features.keys[:, 0].tolist()
        ([30, 20, 30], [1, 0, 1])
        """
        data = {name: _feature(values) for name, values in columns.items()}
        keys = [values.ranks() for values in columns.values()]
        return cls(pd.DataFrame(data), np.stack(keys, axis=1))

    def take(self, rows: Array) -> Any:
        """Return some rows as a DataFrame, numbered from 0."""
        return self.frame.iloc[rows].reset_index(drop=True)

    def taken(self, rows: Array) -> Features:
        """Return some rows."""
        return Features(self.take(rows), self.keys[rows])

    def without_many_levels(self, most: int) -> Features:
        """Return the rows with columns of more than ``most`` levels as codes."""
        codes = {
            name: self.keys[:, k]
            for k, (name, dtype) in enumerate(self.frame.dtypes.items())
            if isinstance(dtype, pd.CategoricalDtype) and len(dtype.categories) > most
        }
        if not codes:
            return self
        frame = self.frame.copy(deep=False)
        for name, column in codes.items():
            frame[name] = column
        return Features(frame, self.keys)

    def chosen(self, names: Any) -> Features:
        """Return the rows with some of the columns, in that order."""
        return Features(self.frame[list(names)], self.keys)


def _feature(values: Values) -> Any:
    if values.kind == "category":
        levels: Any = pd.Index(list(values.levels or ()))
        return pd.Categorical.from_codes(values.filled(-1), levels)
    if values.kind == "float":
        return values.data + 0.0  # -0.0 is 0.0
    if values.missing is None:
        return values.data
    return np.where(values.missing, np.nan, values.data.astype(float))
