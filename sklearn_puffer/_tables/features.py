"""The public columns as a classifier is given them: a DataFrame, each column in its own type."""

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
    """The rows that a classifier sees.

    Attributes
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        Numbers as numbers, booleans as booleans, strings and categories as ``category`` with all
        their levels, what is missing as missing; the columns named as in the table.
    keys : ndarray of int of shape (n_rows, n_columns)
        The rank of each value in its column: rows are equal where their keys are, and the order
        of keys has nothing to do with that of the rows.
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
        data = {name: _column(values) for name, values in columns.items()}
        keys = [ranks_of(values) for values in columns.values()]
        return cls(pd.DataFrame(data), np.stack(keys, axis=1))

    @property
    def names(self) -> list[Name]:
        """The names of the columns."""
        return list(self.frame.columns)

    def take(self, rows: Array) -> Any:
        """Return some rows as a DataFrame, numbered from 0."""
        return self.frame.iloc[rows].reset_index(drop=True)

    def without_many_levels(self, most: int) -> Features:
        """Return the same rows with columns of more levels than that as codes of their values."""
        frame = self.frame.copy(deep=False)
        for place, (name, dtype) in enumerate(frame.dtypes.items()):
            if isinstance(dtype, pd.CategoricalDtype) and len(dtype.categories) > most:
                frame[name] = self.keys[:, place]
        return Features(frame, self.keys)

    def beside(self, numbers: Array) -> Features:
        """Return the same rows with further columns of numbers, shape (n_rows, n_further)."""
        own = [name for name in self.names if isinstance(name, int)]
        first, plain = max(own, default=0) + 1, len(own) == len(self.names)
        names = [first + k if plain else f"further {k}" for k in range(numbers.shape[1])]
        further = pd.DataFrame(numbers, columns=pd.Index(names), index=self.frame.index)
        ranks = [np.unique(each, return_inverse=True)[1].ravel() for each in numbers.T]
        keys = np.concatenate([self.keys, np.stack(ranks, axis=1)], axis=1)
        return Features(pd.concat([self.frame, further], axis=1), keys)

    def chosen(self, names: Any) -> Features:
        """Return the same rows with some of the columns only, in that order, for a model."""
        return Features(self.frame[list(names)], self.keys)


@dataclass(frozen=True, eq=False)
class FeatureForm:
    """The columns that a model was fitted to: other rows are given to it in just this form.

    Attributes
    ----------
    levels : dict of tuple or None
        By name, in order: the categories of a column, None of one of numbers.
    """

    levels: Mapping[Name, tuple[Any, ...] | None]

    @classmethod
    def of(cls, columns: Mapping[Name, Values]) -> FeatureForm:
        """Return the form of some columns.

        >>> layout = FeatureForm.of({"job": Values("category", np.array([0]), levels=("cook",))})
        >>> other = {"job": Values("category", np.array([0, 1]), levels=("baker", "cook"))}
        >>> layout.features(other).frame["job"].tolist()
        [nan, 'cook']
        """
        return cls({name: values.levels for name, values in columns.items()})

    def features(self, columns: Mapping[Name, Values]) -> Features:
        """Return rows in that form: categories that it does not have are missing in it.

        Raises
        ------
        TypeError
            If a column of numbers holds categories now, or the reverse.
        """
        return Features.of({name: self._fitting(name, columns[name]) for name in self.levels})

    def _fitting(self, name: Name, values: Values) -> Values:
        levels = self.levels[name]
        if (levels is None) != (values.levels is None):
            was, now = (
                ("categories", "numbers") if levels is not None else ("numbers", "categories")
            )
            raise TypeError(
                f"column {name!r} held {was} in fit, and holds {now}; convert it to what it was."
            )
        if levels is None:
            return values
        places = {level: place for place, level in enumerate(levels)}
        table = np.array([places.get(level, -1) for level in (*(values.levels or ()), None)])
        codes = values.data if values.missing is None else np.where(values.missing, -1, values.data)
        found = table[codes]
        return Values("category", found, found < 0, levels)


def _column(values: Values) -> Any:
    if values.kind == "category":
        codes = values.data if values.missing is None else np.where(values.missing, -1, values.data)
        levels: Any = pd.Index(list(values.levels or ()))
        return pd.Categorical.from_codes(codes, levels)
    if values.kind == "float":
        return values.data + 0.0  # -0.0 is 0.0
    if values.missing is None:
        return values.data
    return np.where(values.missing, np.nan, values.data.astype(float))


def ranks_of(values: Values) -> Array:
    """Return the place of each value among the distinct ones; -1 for missing."""
    if values.kind == "category":
        ranks = values.data.astype(np.intp)
    else:
        ranks = np.unique(values.data, return_inverse=True)[1].ravel()
    return ranks if values.missing is None else np.where(values.missing, -1, ranks)
