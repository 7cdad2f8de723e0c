"""Rows with their secrets, as models learn from them and are asked about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sklearn_puffer._base import Array, FloatArray


class Rows(Protocol):
    """Rows of public columns as a model is given them."""

    @property
    def frame(self) -> Any:
        """A DataFrame of all rows."""

    @property
    def keys(self) -> Array:
        """Numbers that are equal where rows are, shape (n_rows, n_columns)."""

    def take(self, rows: Array) -> Any:
        """Return some of them as a DataFrame."""

    def chosen(self, names: Any) -> Any:
        """Return them with some columns only."""


@dataclass(frozen=True, eq=False)
class _Taken:
    """Some rows of others, each as often as it is named."""

    of: Rows
    places: Array

    @property
    def frame(self) -> Any:
        return self.take(np.arange(len(self.places)))

    @property
    def keys(self) -> Array:
        return self.of.keys[self.places]

    def take(self, rows: Array) -> Any:
        return self.of.take(self.places[rows])

    def chosen(self, names: Any) -> Rows:
        return _Taken(self.of.chosen(names), self.places)


@dataclass(frozen=True, eq=False)
class Observed:
    """Rows with their secrets, and how often each counts.

    Attributes
    ----------
    rows : Rows
    codes : ndarray of int of shape (n_rows,)
        The place of the secret of each row in ``labels``.
    labels : sequence
    weights : ndarray of int of shape (n_rows,)
        Positive.
    name : str
        Of the sensitive column, as an error shows it.
    """

    rows: Rows
    codes: Array
    labels: Sequence[Any]
    weights: Array
    name: str

    @cached_property
    def order(self) -> Array:
        """The rows in the order of their values and secrets."""
        return np.lexsort((self.codes, *self.rows.keys.T[::-1]))

    @cached_property
    def contents(self) -> Array:
        """A number for each row, the same for equal public values, ascending in ``order``."""
        keys = self.rows.keys[self.order]
        new = np.append(False, (keys[1:] != keys[:-1]).any(axis=1))
        numbers = np.empty(len(keys), dtype=np.intp)
        numbers[self.order] = np.cumsum(new)
        return numbers

    @cached_property
    def firsts(self) -> Array:
        """One row of each content, in ``order``."""
        return self.order[np.unique(self.contents[self.order], return_index=True)[1]]

    @cached_property
    def tallies(self) -> Array:
        """How many rows each secret has."""
        tallies = np.zeros(len(self.labels), dtype=np.int64)
        np.add.at(tallies, self.codes, self.weights)
        return tallies

    @property
    def shares(self) -> FloatArray:
        """The share of rows of each secret: what is known of a row without looking at it."""
        shares: FloatArray = self.tallies / self.tallies.sum()
        return shares

    @cached_property
    def groups(self) -> Array:
        """A number for each row, the same for equal public values and secrets, by ``order``."""
        contents, codes = self.contents[self.order], self.codes[self.order]
        new = (contents[1:] != contents[:-1]) | (codes[1:] != codes[:-1])
        numbers = np.empty(len(codes), dtype=np.intp)
        numbers[self.order] = np.cumsum(np.append(False, new))
        return numbers

    @cached_property
    def merged(self) -> Observed:
        """The same with one row for each group, in ``order``: what equal rows count together."""
        firsts = self.order[np.unique(self.groups[self.order], return_index=True)[1]]
        totals = np.zeros(len(firsts), dtype=np.int64)
        np.add.at(totals, self.groups, self.weights)
        return self.taken(firsts, totals)

    def taken(self, places: Array, weights: Array) -> Observed:
        """Return some rows, each as often as it is named, that count so much."""
        return replace(
            self, rows=_Taken(self.rows, places), codes=self.codes[places], weights=weights
        )

    def in_order(self, rows: Array) -> Array:
        """Return some rows in the order of their values and secrets."""
        wanted = np.zeros(len(self.order), dtype=bool)
        wanted[rows] = True
        return self.order[wanted[self.order]]


def targets(labels: Sequence[Any]) -> Array:
    """Return what a model is told to predict, for each secret: its name, or its place."""
    names = np.array(list(labels))
    whole = names.dtype.kind in "biu" or (
        names.dtype.kind == "f" and bool((np.floor(names) == names).all())
    )
    strings = all(isinstance(label, str) for label in labels)
    return names if whole or strings else np.arange(len(labels))
