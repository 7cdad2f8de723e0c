"""Public columns as codes: each value's place among the atoms of its column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._tables.kinds import as_levels, of_kind
from sklearn_puffer._tables.lookup import nearest, places_of_ascending, runs_of_ascending
from sklearn_puffer._tables.values import Kind, Name, Values


@dataclass(frozen=True, eq=False)
class Column:
    """The alphabet of one public column, fixed in `fit`.

    Attributes
    ----------
    name, kind
        Its label, and what its values are.
    atoms : ndarray of shape (n,)
        The values that noise is added to, ascending: the numbers themselves, bin representatives,
        or the codes 0..n-1 of a boolean or categorical column.
    levels : tuple or None
        The label of each code of a categorical column; None stands for missing.
    edges : ndarray of shape (n - 1,) or None
        Upper ends of all bins but the last, where the column is binned.
    merged : bool
        Whether some bin holds more than one value; otherwise the values stay as they are.
    missing_code : int or None
        The code that stands for missing, where missing is a value of its own.
    spread : float or None
        Standard deviation of a binned column before it was binned.
    known : ndarray of bool of shape (n,)
        Which atoms may be released: seen in `fit`, or declared by the caller.
    ordered : bool
        Whether the order of the levels is declared, by ``categories=`` or by the column's type;
        elsewhere it is that of the alphabet.
    free : bool
        Whether any number may be released, seen in `fit` or not: its priors are continuous.
    raw : tuple of ndarray, or None
        While it is learnt: the distinct numbers of a binned column, or of very many the middles of
        runs, and how often each occurs.
    """

    name: Name
    kind: Kind
    atoms: FloatArray
    known: Array
    levels: tuple[Any, ...] | None = None
    edges: FloatArray | None = None
    merged: bool = False
    missing_code: int | None = None
    spread: float | None = None
    ordered: bool = False
    free: bool = False
    raw: tuple[FloatArray, Array] | None = None

    @property
    def unordered(self) -> bool:
        """Whether codes are names alone: booleans, and categories without a declared order."""
        return self.kind == "boolean" or (self.kind == "category" and not self.ordered)

    @property
    def whole(self) -> bool:
        """Whether the atoms are whole numbers that must stay whole: integers and codes."""
        return self.kind != "float"

    def placed(self, values: FloatArray) -> FloatArray:
        """Return what is released, before the noise, for values that a given prior knows.

        Raises
        ------
        ValueError
            If the column is boolean or categorical, and they are not among its codes.
        """
        if self.edges is not None:
            return self.atoms[np.searchsorted(self.edges, values, side="left")]
        if self.kind in ("boolean", "category"):
            codes = [0.0, 1.0] if self.levels is None else []
            strange = np.setdiff1d(values, np.union1d(self.atoms, codes))
            if strange.size:
                raise ValueError(
                    f"a prior has the atom {float(strange[0])!r} in column {self.name!r}, which is "
                    f"{self.kind} and has no such code; number its values from 0."
                )
        return values

    def places_of_ascending(self, values: FloatArray) -> Array:
        """Return the places of ascending values of the column among its atoms, or of their bins."""
        if self.edges is None:
            return np.searchsorted(self.atoms, values)
        return places_of_ascending(self.edges, values)

    def runs_of_ascending(self, values: FloatArray) -> Array:
        """Return how many of some ascending values lie in each bin."""
        assert self.edges is not None
        return runs_of_ascending(self.edges, values)

    def extended(self, values: FloatArray) -> Column:
        """Return the column with those placed values among its atoms, all of which may occur."""
        atoms = np.union1d(self.atoms, values)
        known = np.isin(atoms, self.atoms[self.known]) | np.isin(atoms, values)
        code = None if self.missing_code is None else len(atoms) - 1  # the last one, as before
        return replace(self, atoms=atoms, known=known, missing_code=code)

    def with_any_number(self) -> Column:
        """Return the column with continuous priors, under which any number may be released.

        Raises
        ------
        TypeError
            If its values are no numbers.
        ValueError
            If the column is binned.
        """
        if self.kind not in ("float", "integer"):
            raise TypeError(
                f"column {self.name!r} is {self.kind}, by its type or by categories=, and Gaussian "
                'and mixture priors are laws of numbers; make it a number, use prior="empirical", '
                "or leave it out of public=."
            )
        if self.edges is not None:
            raise ValueError(
                f"n_bins bins column {self.name!r}, and Gaussian and mixture priors need its "
                'numbers; drop n_bins, or use prior="empirical".'
            )
        return replace(self, free=True)


def check_same_kind(column: Column, values: Values) -> None:
    """Refuse categories where numbers were fitted."""
    if column.kind != "category" and values.kind == "category":
        raise TypeError(
            f"column {column.name!r} holds {values.kind} values, and held {column.kind} values in "
            "fit; convert it to the type of the fitted table."
        )


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the values of a column are in the alphabet of a fitted one; nothing is refused.

    Attributes
    ----------
    codes : ndarray of intp of shape (n,)
        The code of each value; of one that `fit` has not seen the nearest one, or 0 of a category.
    strange, gone : ndarray of bool of shape (n,)
        Which values `fit` has not seen, and which are missing and no value.
    data : ndarray of shape (n,)
        The values, by which strange ones are told apart.
    counts : ndarray of int of shape (n,), or None
        How many rows hold each.
    """

    codes: Array
    strange: Array
    gone: Array
    data: Array
    counts: Array | None


def placed_in(column: Column, values: Values) -> Placed:
    """Return where values are in the alphabet of a column; free columns have codes of 0.

    Raises
    ------
    TypeError
        If it holds another kind of values.

    Examples
    --------
    >>> age = Column("age", "float", np.array([20.0, 30.0]), np.ones(2, dtype=bool))
    >>> found = placed_in(age, Values("float", np.array([20.0, 29.0])))
    >>> found.codes.tolist(), found.strange.tolist()
    ([0, 1], [False, True])
    """
    values = as_levels(values) if column.kind == "category" else of_kind(column.kind, values)
    check_same_kind(column, values)
    gone = np.zeros(len(values), dtype=bool) if values.missing is None else values.missing
    if column.kind == "category":
        codes, strange = _placed_levels(column, values)
    else:
        codes, strange = _placed_numbers(column, np.where(gone, np.nan, values.data))
    if column.missing_code is not None:
        codes, gone = np.where(gone, column.missing_code, codes), np.zeros_like(gone)
        strange &= codes != column.missing_code
    return Placed(codes, strange & ~gone, gone, values.data, values.counts)


def _placed_levels(column: Column, values: Values) -> tuple[Array, Array]:
    assert column.levels is not None
    assert values.levels is not None
    known = {level: code for code, level in enumerate(column.levels)}
    table = np.array([known.get(level, -1) for level in values.levels] + [-1], dtype=np.intp)
    codes = table[values.data]
    return np.maximum(codes, 0), codes < 0


def _placed_numbers(column: Column, numbers: FloatArray) -> tuple[Array, Array]:
    odd = ~np.isfinite(numbers)
    bare = np.where(odd, column.atoms[0], numbers)
    if column.free:
        return np.zeros(len(bare), dtype=np.intp), odd
    if column.edges is not None:
        return np.searchsorted(column.edges, bare, side="left"), odd
    codes = nearest(column.atoms, bare)
    return codes, odd | (column.atoms[codes] != bare)
