"""What `fit` learns of columns: public and sensitive ones, alphabets, and secret pairs.

An alphabet is the numbers of a column, its bins or its labels. Quantile bins are computed from the
distinct values and their counts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sklearn_puffer._base import LARGEST_INTEGER, Array, FloatArray, check_pairs, refuse_masked
from sklearn_puffer._codes.columns import Column
from sklearn_puffer._codes.counting import (
    CodeArray,
    Coded,
    CodeSource,
    NumberCodes,
    distinct,
    distinct_numbers,
)
from sklearn_puffer._codes.lookup import Lookup
from sklearn_puffer._numerics import sum_by_halves
from sklearn_puffer._tables import (
    Missing,
    Name,
    Values,
    check_finite,
)
from sklearn_puffer._words import listed, meant, plain, quoted

Pair = tuple[Any, Any]
MOST_SECRETS = 50
"""The most values of a sensitive column for ``secret_pairs="all"``."""


@dataclass(frozen=True, eq=False)
class Secret:
    """One sensitive column: its ascending values, and the source of the codes of rows."""

    name: Name
    labels: tuple[Any, ...]
    source: CodeSource

    @property
    def coded(self) -> Coded:
        """The codes of the rows, to be counted."""
        return Coded(self.source, len(self.labels))

    def codes(self, n_rows: int) -> Array:
        """Return the code of each row."""
        codes = np.empty(n_rows, dtype=np.intp)
        self.source.codes(slice(None), codes)
        return codes

    def check_two(self) -> None:
        """Refuse a constant secret."""
        if len(self.labels) < 2:
            raise ValueError(
                f"sensitive column {self.name!r} has one value only ({listed(self.labels)}); "
                "nothing can be told apart, so choose a column with at least two."
            )

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    def find(self, label: Any) -> int:
        """Return the code of a label."""
        label = plain(label)  # a numpy integer may be equal to a float next to it
        code = self._codes.get(label) if isinstance(label, Hashable) else None
        if code is not None:
            return code
        raise ValueError(
            f"secret_pairs names {quoted(label)}, which column {self.name!r} does not have"
            f"{meant(label, self.labels)}; its values are {listed(self.labels)}."
        )


def resolve(selected: Any, names: Sequence[Name], argument: str) -> list[Name]:
    """Return the columns that an argument names: an int is a position, a str a name.

    >>> resolve(["b", 0], ["a", "b"], "public")
    ['b', 'a']
    """
    single = isinstance(selected, str | Integral) or not isinstance(selected, Iterable)
    items = [selected] if single else list(selected)
    refuse_values(selected, names, argument)
    columns = [_resolve_one(item, names, argument) for item in items]
    doubled = [name for name in columns if columns.count(name) > 1]
    if doubled:
        raise ValueError(f"{argument} names column {doubled[0]!r} twice; name each column once.")
    if not columns:
        raise ValueError(f"{argument} is empty; name at least one column.")
    return columns


def refuse_values(selected: Any, names: Sequence[Name], argument: str) -> None:
    """Refuse a column in the place of its name, without showing its values."""
    size = len(selected) if hasattr(selected, "__len__") and not isinstance(selected, str) else 1
    if hasattr(selected, "iloc") or size > len(names):
        beside = ", or pass values as sensitive_features= to fit" * (argument == "sensitive")
        raise TypeError(
            f"{argument} must name columns of X, which has {len(names)}, and is a "
            f"{type(selected).__name__} of {size:,} values; give the name of each{beside}."
        )


def _resolve_one(item: Any, names: Sequence[Name], argument: str) -> Name:
    if isinstance(item, bool | np.bool_) or not isinstance(item, str | Integral):
        raise TypeError(
            f"{argument} must hold column names (str) or positions (int), got {quoted(item)}."
        )
    if isinstance(item, str):
        if item not in names:
            raise ValueError(
                f"{argument} names column {item!r}, which X does not have{meant(item, names)}; "
                f"its columns are {listed(list(names), 10)}."
            )
        return item
    position = int(item)
    if not -len(names) <= position < len(names):
        raise ValueError(
            f"{argument} names position {position}, and X has {len(names)} column(s) only, "
            f"from 0 to {len(names) - 1}."
        )
    return names[position]


def public_columns(
    public: Any,
    names: Sequence[Name],
    sensitive: Sequence[Name],
    grouping: Sequence[Name] = (),
) -> list[Name]:
    """Return the public columns in X's order.

    None means every column that is neither sensitive nor holds the ids of groups.
    """
    if public is None:
        chosen = [name for name in names if name not in {*sensitive, *grouping}]
    else:
        named = resolve(public, names, "public")
        both = [name for name in named if name in sensitive]
        if both:
            raise ValueError(
                f"column {both[0]!r} is both sensitive and public; a sensitive column is never "
                "released, so remove it from one of the two."
            )
        ids = [name for name in named if name in grouping]
        if ids:
            raise ValueError(
                f"column {ids[0]!r} is both public and the ids of groups=, which are handed "
                "through as they are and get no noise; remove it from public=."
            )
        chosen = [name for name in names if name in named]
    if not chosen:
        raise ValueError(
            f"no public column is left to release: X has {len(names)} feature(s) and all of them "
            f"are sensitive or have another place (a minimum of {len(sensitive) + 1} is required); "
            "add a column to X."
        )
    return chosen


def read_secret(name: Name, values: Values, missing: Missing) -> Secret:
    """Return a sensitive column as codes of its ascending values, which may be one alone.

    Raises
    ------
    ValueError
        If a value is missing or infinite.
    """
    if values.missing is not None and missing != "category":
        raise ValueError(
            f"sensitive column {name!r} has {values.n_missing} missing value(s) (NaN); "
            'drop or fill those rows, or pass missing="category" to make them a secret of its own.'
        )
    if values.kind == "float":
        check_finite(values.present, name)
    labels, source = _secret_numbers(values) or _secret_levels(values.as_levels())
    if len(set(labels)) != len(labels):
        raise ValueError(
            f"sensitive column {name!r} has both missing values and the value 'missing', which is "
            'what missing="category" calls them; rename that value.'
        )
    return Secret(name, labels, source)


def combined(secrets: Sequence[tuple[Secret, int]]) -> Secret:
    """Return the combinations of secrets that occur; a single column stays as it is."""
    if len(secrets) == 1:
        return secrets[0][0]
    codes = np.stack([secret.codes(n_rows) for secret, n_rows in secrets], axis=1)
    kinds, which = np.unique(codes, axis=0, return_inverse=True)
    labels = tuple(
        tuple(secret.labels[code] for (secret, _), code in zip(secrets, kind, strict=True))
        for kind in kinds.tolist()
    )
    name = " and ".join(str(secret.name) for secret, _ in secrets)
    return Secret(name, labels, CodeArray(which.ravel()))


def _secret_numbers(values: Values) -> tuple[tuple[Any, ...], CodeSource] | None:
    """Return the values of a column of numbers and their codes, None if floats do not hold them."""
    if values.kind == "category" or values.missing is not None:
        return None
    atoms = distinct_numbers(values.data)
    if max(abs(atoms[0]), abs(atoms[-1])) > LARGEST_INTEGER:
        return None
    as_label = {"boolean": bool, "integer": int, "float": float}[values.kind]
    return tuple(as_label(atom) for atom in atoms), NumberCodes(Lookup(atoms), values.data)


def _secret_levels(values: Values) -> tuple[tuple[Any, ...], CodeSource]:
    """Return the levels that occur, and their codes."""
    assert values.levels is not None
    seen = np.unique(values.data)  # -1, the code of missing, comes first
    labels = tuple("missing" if code < 0 else plain(values.levels[code]) for code in seen)
    return labels, CodeArray(np.searchsorted(seen, values.data).astype(values.data.dtype))


def secret_pairs_of(
    argument: Any, secrets: Sequence[Secret], n_adversaries: int = 1, *, alone: bool = False
) -> dict[Name, list[Pair]]:
    """Return the protected pairs of each sensitive column, in the order (s_i, s_j).

    Parameters
    ----------
    argument : "all", list of pairs or {column: list of pairs}
    secrets : sequence of Secret
    n_adversaries : int, default=1
        How many priors each pair is protected against.
    alone : bool, default=False
        Whether the loss of each pair is computed on its own, which takes longer.

    Raises
    ------
    TypeError, ValueError
        If the argument has another form, names a column or value that is not there, or pairs are
        too many.
    """
    listed_pairs = _listed_pairs(argument, secrets)
    _check_number(listed_pairs, secrets, n_adversaries, alone)
    return {
        secret.name: list(combinations(secret.labels, 2)) if pairs is None else pairs
        for secret, pairs in zip(secrets, listed_pairs.values(), strict=True)
    }


def _listed_pairs(argument: Any, secrets: Sequence[Secret]) -> dict[Name, list[Pair] | None]:
    """Return the listed pairs of each sensitive column, None for all."""
    names = [secret.name for secret in secrets]
    if isinstance(argument, str) and argument != "all":
        raise ValueError(
            'secret_pairs must be "all", a list of pairs or a mapping of columns to lists of '
            f"pairs, got {quoted(argument)}."
        )
    if not isinstance(argument, str | Mapping) and len(secrets) > 1:
        raise ValueError(
            "secret_pairs must be a mapping {column: list of pairs} when several columns are "
            f"sensitive ({listed(names)}), got a list."
        )
    asked = argument if isinstance(argument, Mapping) else dict.fromkeys(names, argument)
    strange = [name for name in asked if name not in names]
    if strange:
        raise ValueError(
            f"secret_pairs names column {strange[0]!r}, which is not sensitive"
            f"{meant(strange[0], names)}; the sensitive columns are {listed(names)}."
        )
    found: dict[Name, list[Pair] | None] = {}
    for secret in secrets:
        pairs = asked.get(secret.name, "all")
        is_all = isinstance(pairs, str) and pairs == "all"
        found[secret.name] = None if is_all else _checked_pairs(pairs, secret)
    return found


def _check_number(
    listed_pairs: Mapping[Name, list[Pair] | None],
    secrets: Sequence[Secret],
    n_adversaries: int,
    alone: bool,
) -> None:
    """Refuse too many pairs, before those of all values are made."""
    sizes = {
        secret.name: len(secret.labels) for secret in secrets if listed_pairs[secret.name] is None
    }
    for name, size in sizes.items():
        if size > MOST_SECRETS:
            raise ValueError(
                f"sensitive column {name!r} has {size:,} values, and {MOST_SECRETS} are the most "
                f"of which all pairs are protected; read numbers in bins (sensitive={{{name!r}: "
                "5}), merge the values, or list the pairs to protect in secret_pairs."
            )
    n_pairs = sum(size * (size - 1) // 2 for size in sizes.values())
    n_pairs += sum(len(pairs) for pairs in listed_pairs.values() if pairs is not None)
    against = f" against each of {n_adversaries} priors" if n_adversaries > 1 else ""
    what, way_out = f"the pairs of {listed(list(listed_pairs))}", "list fewer in secret_pairs"
    if sizes:
        most = max(sizes, key=sizes.__getitem__)
        others = " and the other sensitive columns" if len(listed_pairs) > 1 else ""
        what = f"the {sizes[most]:,} values of column {most!r}{others}"
        way_out = "group its values (bins, regions), or list the pairs to protect in secret_pairs"
    check_pairs(n_pairs * n_adversaries, f"{what}{against}", way_out, alone=alone)


def _checked_pairs(pairs: Any, secret: Secret) -> list[Pair]:
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError(
            f'secret_pairs must be a list of pairs (s_i, s_j) or "all" for column {secret.name!r}, '
            f"got {quoted(pairs)}."
        )
    checked = []
    for pair in pairs:
        listed_pair = isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, str)
        if not listed_pair or len(pair) != 2:
            raise ValueError(f"secret_pairs must hold pairs (s_i, s_j), got {quoted(pair)}.")
        i, j = (secret.find(label) for label in pair)
        if i == j:
            raise ValueError(f"secret_pairs holds {pair!r}, the same value twice; drop that pair.")
        checked.append((secret.labels[i], secret.labels[j]))
    if not checked:
        raise ValueError(
            f'secret_pairs is empty for column {secret.name!r}; name a pair, or pass "all".'
        )
    return checked


# beyond these, powers in losses and standard deviations overflow
_LARGEST_NUMBER = 1e120
_SMALLEST_SPAN = 1e-120
LARGEST_SINGLE = 1e30
"""The largest number of a column that is released as float32."""


def learn_column(
    name: Name,
    values: Values,
    *,
    n_bins: int | None = None,
    categories: Sequence[Any] | None = None,
    missing: Missing = "error",
    weights: Array | None = None,
) -> Column:
    """Return the alphabet of a column: its distinct values, bins or levels.

    Raises
    ------
    ValueError
        If a value is missing under ``missing="error"``, infinite, or not among ``categories``.
    """
    values = values if categories is None else values.as_levels()
    weights = values.counts if weights is None else weights
    values.check_missing(name, missing)
    labelled = categories is not None or values.kind == "category"
    if not values.present.size and not (labelled and missing == "category"):
        raise ValueError(f"column {name!r} has no value that is not missing; drop the column.")
    if labelled:
        return _level_column(name, values, categories, missing)
    column = _number_column(name, values, n_bins, weights)
    if values.kind != "boolean" or missing != "category" or values.missing is None:
        return column
    atoms, releasable = np.append(column.atoms, 2.0), np.append(column.known, True)
    return replace(column, atoms=atoms, known=releasable, missing_code=len(atoms) - 1)


def _number_column(name: Name, values: Values, n_bins: int | None, weights: Array | None) -> Column:
    if values.kind == "integer":
        values.check_exact(name)
    binned = n_bins is not None and values.kind != "boolean"
    atoms, counts = (
        distinct(values, weights) if binned else (distinct_numbers(values.present), None)
    )
    check_finite(atoms, name)
    farthest = float(atoms[np.abs(atoms).argmax()])
    if abs(farthest) > _LARGEST_NUMBER:
        raise ValueError(
            f"column {name!r} holds {farthest!r}, beyond {_LARGEST_NUMBER:g}, where sums overflow; "
            "give it in another unit."
        )
    if values.data.dtype == np.float32 and abs(farthest) > LARGEST_SINGLE:
        raise ValueError(
            f"column {name!r} holds {farthest:.6g} as float32, beyond {LARGEST_SINGLE:g}, where "
            "noise overflows; make it missing if it stands for no data, or use astype(float)."
        )
    span = float(atoms[-1]) - float(atoms[0])
    if 0.0 < span < _SMALLEST_SPAN:
        raise ValueError(
            f"the values of column {name!r} are at most {span!r} apart, less than "
            f"{_SMALLEST_SPAN:g}, where products vanish; give it in another unit."
        )
    everyone = np.ones(len(atoms), dtype=bool)
    column = Column(name, values.kind, atoms, everyone).of_times(values.unit)
    if n_bins is None or counts is None:
        return column
    bins = quantile_bins(atoms, counts, n_bins, whole=values.kind == "integer")
    return replace(
        column,
        atoms=bins.values,
        known=np.ones(len(bins.values), dtype=bool),
        edges=bins.edges,
        merged=bins.merged,
        spread=standard_deviation(atoms, counts),
        raw=(atoms, counts),
    )


def _level_column(
    name: Name,
    values: Values,
    categories: Sequence[Any] | None,
    missing: Missing,
) -> Column:
    """Return the alphabet of a column of labels: those that ``categories`` lists, or its own."""
    declared = categories is not None
    levels = _checked_levels(name, categories) if declared else values.levels or ()
    used, has = values.used_levels(), {*levels}
    if strange := [level for level in used if level not in has]:
        raise ValueError(
            f"column {name!r} contains {listed(strange, 20)}, which categories[{name!r}] does not "
            "list; add it there, replace it by a value listed there, or drop those rows."
        )
    seen, code = {*used}, None
    known = np.array([declared or level in seen for level in levels], dtype=bool)
    if missing == "category" and values.missing is not None:
        code, levels, known = len(levels), (*levels, None), np.append(known, True)
    atoms, ordered = np.arange(len(levels), dtype=float), declared or values.ordered
    return Column(name, "category", atoms, known, levels, missing_code=code, ordered=ordered)


def _checked_levels(name: Name, categories: Any) -> tuple[Any, ...]:
    refuse_masked(categories, f"categories[{name!r}]")
    in_order = isinstance(categories, Iterable) and not isinstance(categories, str | Mapping | Set)
    if not in_order or not all(isinstance(level, Hashable) for level in categories):
        raise TypeError(
            f"categories[{name!r}] must be a list of values in the order of their codes, "
            f"got {quoted(categories)}."
        )
    levels = tuple(plain(level) for level in categories)
    if len(set(levels)) != len(levels) or not levels:
        raise ValueError(
            f"categories[{name!r}] must list distinct values, got {quoted(list(levels))}."
        )
    return levels


class Bins(NamedTuple):
    """Bins of a column, ascending.

    Attributes
    ----------
    values : ndarray of shape (n,)
        What stands for each bin: the median of its rows.
    edges : ndarray of shape (n - 1,)
        Upper ends of all bins but the last, each of which belongs to its bin.
    merged : bool
        Whether some bin holds more than one value.
    """

    values: FloatArray
    edges: FloatArray
    merged: bool


def quantile_bins(atoms: FloatArray, counts: Array, n_bins: int, *, whole: bool) -> Bins:
    """Return bins with the edges of `pandas.qcut`; values no more than the bins stay as they are.

    Edges at the same value are one edge, so there may be fewer bins than ``n_bins``.

    >>> quantile_bins(np.array([1.0, 2.0, 3.0]), np.array([4, 1, 1]), 2, whole=True).values.tolist()
    [1.0, 2.0]
    >>> quantile_bins(np.array([0.0, 1.0]), np.array([1, 9]), 2, whole=True).values.tolist()
    [0.0, 1.0]
    """
    if len(atoms) <= n_bins:
        return Bins(atoms, atoms[:-1], merged=False)
    below = np.cumsum(counts)
    n_rows = int(below[-1])

    def place(rows: Array) -> Array:
        """Return the index of each row's value, from the number of rows up to each value."""
        return np.searchsorted(below, rows, side="right")

    cuts = place(np.array([(n_rows - 1) * b // n_bins for b in range(1, n_bins)]))
    ends = np.unique(np.append(cuts, len(atoms) - 1))
    stops = below[ends]
    starts = np.append(0, stops[:-1])
    lower, upper = atoms[place((starts + stops - 1) // 2)], atoms[place((starts + stops) // 2)]
    # the lower median of whole numbers, so that they stay whole
    medians = lower if whole else np.where(lower == upper, lower, lower / 2 + upper / 2)
    return Bins(medians, atoms[ends[:-1]], merged=True)


def standard_deviation(atoms: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column from its distinct values and their counts.

    >>> standard_deviation(np.array([0.0, 2.0]), np.array([3, 3]))
    1.0
    """
    unit = float(np.ptp(atoms)) or 1.0  # squares of the bare numbers may leave the floats
    shifted = (atoms - atoms.min()) / unit
    masses = counts.astype(float)
    total, scratch = sum_by_halves(masses), np.empty_like(shifted)
    shifted -= sum_by_halves(np.multiply(shifted, masses, out=scratch)) / total
    shifted *= shifted
    return unit * math.sqrt(sum_by_halves(np.multiply(shifted, masses, out=scratch)) / total)
