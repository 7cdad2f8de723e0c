"""Secrets that are numbers in intervals (bins)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._codes.counting import distinct
from sklearn_puffer._codes.selection import (
    MOST_SECRETS,
    quantile_bins,
    resolve,
)
from sklearn_puffer._tables import (
    Name,
    Values,
    check_finite,
)
from sklearn_puffer._words import quoted

Cuts = tuple[float, ...]


def bins_of(sensitive: Any, names: Sequence[Name]) -> dict[Name, Any]:
    """Return the bins or edges of columns, by ``sensitive={column: bins}``.

    >>> bins_of({"score": 5, "race": None}, ["score", "race"])
    {'score': 5}
    """
    if not isinstance(sensitive, Mapping):
        return {}
    return {
        resolve(key, names, "sensitive")[0]: _checked_bins(key, bins)
        for key, bins in sensitive.items()
        if bins is not None
    }


def _checked_bins(key: Any, bins: Any) -> int | Cuts:
    """Check a number of bins, or ascending edges."""
    if isinstance(bins, Integral) and not isinstance(bins, bool):
        if not 2 <= int(bins) <= MOST_SECRETS:
            raise ValueError(
                f"sensitive[{key!r}] must be from 2 to {MOST_SECRETS} bins, got {quoted(bins)}."
            )
        return int(bins)
    ends = list(bins) if isinstance(bins, Iterable) and not isinstance(bins, str) else [None]
    if not all(isinstance(end, Real) and not isinstance(end, bool) for end in ends):
        raise TypeError(
            f"sensitive[{key!r}] must be a number of bins, a list of the edges between them, or "
            f"None for the values as they are, got {quoted(bins)}."
        )
    edges = np.array(ends, dtype=float)
    if not (np.isfinite(edges).all() and (np.diff(edges) > 0).all() and edges.size > 0):
        raise ValueError(
            f"sensitive[{key!r}] must hold edges that are finite and ascend, got {quoted(bins)}."
        )
    if edges.size >= MOST_SECRETS:
        raise ValueError(
            f"sensitive[{key!r}] has {edges.size} edges, and {MOST_SECRETS} intervals are the most "
            "that are protected; give fewer."
        )
    return tuple(edges.tolist())


def edges_of(name: Name, values: Values, bins: int | Cuts, weights: Array | None) -> Cuts:
    """Return the edges between the intervals of a secret: those given, or quantiles.

    Raises
    ------
    TypeError, ValueError
        If the column holds no numbers, or infinite ones.
    """
    check_numbers(name, values)
    if not isinstance(bins, int):
        return bins
    atoms, counts = distinct(values, weights)
    if not atoms.size:
        raise ValueError(f"sensitive column {name!r} has no value that is not missing; drop it.")
    edges = quantile_bins(atoms, counts, bins, whole=values.kind == "integer").edges
    return tuple(edges.tolist())


def check_numbers(name: Name, values: Values, argument: str = "sensitive") -> None:
    if values.kind not in ("float", "integer"):
        raise TypeError(
            f"{argument}[{name!r}] asks for bins, and column {name!r} is {values.kind}; pass None "
            "there for its values as they are, and merge them yourself if they are many."
        )
    if values.kind == "float":
        check_finite(values.present, name)


def in_intervals(name: Name, values: Values, edges: Cuts) -> Values:
    """Return numbers as the names of their intervals, in ascending order.

    An edge belongs to the interval that it ends.

    >>> found = in_intervals("age", Values("integer", np.array([3, 10, 11])), (10.0,))
    >>> found.levels, found.data.tolist()
    (('(-inf, 10]', '(10, inf)'), [0, 0, 1])
    """
    check_numbers(name, values)
    codes = np.searchsorted(np.array(edges), values.filled(0.0), side="left")
    return _named(values, codes, interval_names(edges))


def _named(values: Values, codes: Array, names: tuple[str, ...]) -> Values:
    if values.missing is not None:
        codes = np.where(values.missing, -1, codes)
    return Values(
        "category", codes, values.missing, names, declared=True, ordered=True, counts=values.counts
    )


def interval_names(edges: Cuts) -> tuple[str, ...]:
    """Return the names of the intervals between edges.

    >>> interval_names((1.5, 3.0))
    ('(-inf, 1.5]', '(1.5, 3]', '(3, inf)')
    """
    if not edges:
        return ("(-inf, inf)",)
    ends = [repr(int(edge)) if edge % 1.0 == 0.0 else repr(edge) for edge in edges]
    between = [f"({low}, {high}]" for low, high in pairwise(ends)]
    return (f"(-inf, {ends[0]}]", *between, f"({ends[-1]}, inf)")


_ELSEWHERE = "in no interval of fit"


def in_intervals_of(labels: Iterable[Any], values: Values) -> Values:
    """Return numbers as the names of intervals, if the fitted secrets are such names.

    Other values are returned unchanged.

    >>> found = in_intervals_of(["(-inf, 10]", "(20, inf)"], Values("float", np.array([3.0, 15.0])))
    >>> [found.levels[code] for code in found.data]
    ['(-inf, 10]', 'in no interval of fit']
    """
    names = [label for label in labels if label != "missing"]
    ends = [_ends_of(name) for name in names]
    if values.kind not in ("float", "integer") or not ends or None in ends:
        return values
    numbers, codes = values.filled(0.0), np.full(len(values), len(names))
    for code, (low, high) in enumerate(end for end in ends if end is not None):
        codes[(low < numbers) & (numbers <= high)] = code
    return _named(values, codes, (*names, _ELSEWHERE))


def _ends_of(name: Any) -> tuple[float, float] | None:
    """Return the ends of an interval by its name, or None if it is another value."""
    if not isinstance(name, str) or name[:1] != "(" or name[-1:] not in ("]", ")"):
        return None
    low, _, high = name[1:-1].partition(", ")
    try:
        return float(low), float(high)
    except ValueError:
        return None
