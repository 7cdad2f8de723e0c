"""Secrets in intervals and in combinations, merged values, and bins of known columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._codes.counting import CodeArray, distinct
from sklearn_puffer._codes.selection import (
    MOST_SECRETS,
    Pair,
    Secret,
    combined,
    quantile_bins,
    read_secret,
    resolve,
)
from sklearn_puffer._tables import Missing, Name, Table, Values, check_finite
from sklearn_puffer._words import listed, plain, quoted

Cuts = tuple[float, ...]
_MOST_BINS = 1_000  # of a known column


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


@dataclass(frozen=True, eq=False)
class Coarse:
    """The bins and merged values of known columns.

    Attributes
    ----------
    bins : dict
        The edges between the bins of a column, and their medians.
    known : dict
        The values of a column that are replaced, and by which.
    """

    bins: Mapping[Name, tuple[Cuts, Cuts]]
    known: Mapping[Name, Mapping[Any, Any]]

    @classmethod
    def learnt(cls, known: Any, columns: Mapping[Name, Values]) -> Coarse:
        """Learn bins and merged values from ``known={column: bins, mapping or None}``.

        Raises
        ------
        TypeError, ValueError
            Naming the column.
        """
        bins, merged = {}, {}
        asked = known.values() if isinstance(known, Mapping) else []
        # passed columns follow the known ones
        for (name, values), how in zip(columns.items(), asked, strict=False):
            if isinstance(how, Mapping):
                check_merged(name, values, how, f"known[{name!r}]")
                merged[name] = {plain(value): plain(other) for value, other in how.items()}
            elif how is not None:
                bins[name] = _bins_of(name, values, how)
        return cls(bins, merged)

    def named(self, name: Name) -> str:
        """Return the name of a column, with a note if its values are coarsened."""
        how = " (in bins)" if name in self.bins else " (merged)" if name in self.known else ""
        return f"{name}{how}"

    def of(self, name: Name, values: Values) -> Values:
        """Return a column as it is released."""
        if name not in self.bins:
            return merged_values(values, self.known.get(name, {}))
        edges, stand_ins = map(np.array, self.bins[name])
        check_numbers(name, values, "known")
        data = stand_ins[np.searchsorted(edges, values.filled(0), side="left")]
        return replace(values, data=data.astype(values.data.dtype))


def check_known_bins(name: Name, n_bins: Any, other: str = "") -> None:
    """Refuse what is no number of bins of a known column; ``other`` is taken as well."""
    is_whole = isinstance(n_bins, Integral) and not isinstance(n_bins, bool)
    if not (is_whole and 2 <= int(n_bins) <= _MOST_BINS):
        raise ValueError(
            f"known[{name!r}] must be from 2 to {_MOST_BINS} bins{other}, or None for the values "
            f"as they are, got {quoted(n_bins)}."
        )


def _bins_of(name: Name, values: Values, n_bins: Any) -> tuple[Cuts, Cuts]:
    check_known_bins(name, n_bins, ", a mapping of values")
    check_numbers(name, values, "known")
    atoms, counts = distinct(values, values.counts)
    bins = quantile_bins(atoms, counts, int(n_bins), whole=values.kind == "integer")
    return tuple(bins.edges.tolist()), tuple(bins.values.tolist())


NO_SECRETS = (
    "a swap exchanges people of different secrets: give the sensitive column, or take "
    "PufferfishMicroaggregator."
)


@dataclass(frozen=True, eq=False)
class SecretRule:
    """How the secret of each row is read: the combination of the values of sensitive columns.

    Attributes
    ----------
    names : tuple of names
    edges : dict
        The edges of columns that are read in bins.
    missing : {"error", "category"}
    labels : tuple
        The secrets of `fit`; of several columns tuples.
    merged : dict
        The values of a column that are read as others.
    """

    names: tuple[Name, ...]
    edges: Mapping[Name, tuple[float, ...]]
    missing: Missing
    labels: tuple[Any, ...] = ()
    merged: Mapping[Name, Mapping[Any, Any]] = field(default_factory=dict)

    @classmethod
    def learnt(
        cls,
        columns: Mapping[Name, Values],
        bins: Mapping[Name, Any],
        missing: Missing,
        merged: Mapping[Name, Mapping[Any, Any]],
        weights: Array | None = None,
    ) -> tuple[SecretRule, Secret]:
        """Return the rule for the secrets of fitted rows, and the secrets.

        Raises
        ------
        TypeError, ValueError
            Naming the column, or if there is only one secret.
        """
        edges = {name: edges_of(name, columns[name], bins[name], weights) for name in bins}
        for name in {*merged} - {*edges}:
            check_merged(name, columns[name], merged[name], "secret_groups")
        rule = cls(tuple(columns), edges, missing, merged=merged)
        secret = rule.read(columns)
        secret.check_two()
        return replace(rule, labels=secret.labels), secret

    @property
    def name(self) -> Name:
        """The name of the secret."""
        return self.names[0] if len(self.names) == 1 else " and ".join(map(str, self.names))

    def read(self, columns: Mapping[Name, Values]) -> Secret:
        """Return the combination of secrets of each row.

        Raises
        ------
        TypeError, ValueError
            If a value is missing, or a column that is read in bins holds no numbers.
        """
        found = []
        for name in self.names:
            values = columns[name]
            if name in self.edges:
                values = in_intervals(name, values, self.edges[name])
            values = merged_values(values, self.merged.get(name, {}))
            found.append((read_secret(name, values, self.missing), len(values)))
        return combined(found)

    def check_several(self, codes: Array) -> None:
        """Refuse rows of one secret: nobody could exchange them."""
        if (codes == codes[:1]).all():  # or no row at all
            raise ValueError(
                "X has rows of one secret alone, and a swap exchanges people of different secrets: "
                "give rows of two or more, or take PufferfishMicroaggregator, which releases "
                "single rows."
            )

    def _columns(self, table: Table, beside: Mapping[Name, Values] | None) -> dict[Name, Values]:
        """Return the sensitive columns of a table, or those in ``beside``."""
        if beside is None:
            if any(name not in table.names for name in self.names):
                raise ValueError(NO_SECRETS)
            return {name: table.values(name) for name in self.names}
        if {*beside} == {*self.names}:
            return dict(beside)
        if len(beside) == len(self.names) == 1:
            return dict(zip(self.names, beside.values(), strict=True))
        raise ValueError(
            f"sensitive_features has the column(s) {listed(list(beside))}, and those of fit are "
            f"{listed(list(self.names))}; give columns of those names."
        )

    def found(self, table: Table, beside: Mapping[Name, Values] | None) -> Secret:
        """Return the secret of each row of a table, as codes of the labels of `fit`."""
        columns = self._columns(table, beside)
        if not table.n_rows:  # a part of a lazy table may have none
            return Secret(self.name, self.labels, CodeArray(np.zeros(0, dtype=np.int64)))
        secret = self.read(columns)
        code_of = {label: code for code, label in enumerate(self.labels)}
        strange = [label for label in secret.labels if label not in code_of]
        if strange:
            raise ValueError(
                f"X has {len(strange)} secret(s) that fit has not seen; fit on these rows "
                f"(fit_transform), whose pairs of secrets are then protected, too."
            )
        each = np.array([code_of[label] for label in secret.labels], dtype=np.int64)
        return Secret(self.name, self.labels, CodeArray(each[secret.codes(table.n_rows)]))


def merges_of(argument: Any, names: Sequence[Name]) -> dict[Name, dict[Any, Any]]:
    """Return the values of sensitive columns that ``secret_groups=`` merges, and their names.

    >>> merges_of({"ill": ["flu", "cold"]}, ["state"])
    {'state': {'flu': 'ill', 'cold': 'ill'}}
    """
    if argument is None:
        return {}
    if not isinstance(argument, Mapping) or not argument:
        raise TypeError(
            "secret_groups must be {name: list of values}, or {column: {name: list of values}}, "
            f"got {quoted(argument)}."
        )
    nested = all(isinstance(groups, Mapping) for groups in argument.values())
    if not nested and len(names) > 1:
        raise ValueError(
            f"secret_groups must be {{column: {{name: list of values}}}}, as the columns "
            f"{listed(list(names))} are sensitive; name the column."
        )
    columns = argument if nested else {names[0]: argument}
    return {
        resolve(key, names, "secret_groups")[0]: _merges_of(groups)
        for key, groups in columns.items()
    }


def _merges_of(groups: Mapping[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for name, values in groups.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TypeError(
                f"secret_groups[{name!r}] must be a list of values, got {quoted(values)}."
            )
        for value in map(plain, values):
            if value in found:
                raise ValueError(
                    f"secret_groups has {quoted(value)} twice; name it in one group only."
                )
            found[value] = name
    return found


def merged_values(values: Values, merged: Mapping[Any, Any]) -> Values:
    """Return a column in which some values are read as others.

    >>> column = Values("category", np.array([0, 1, 2]), levels=("cold", "flu", "none"))
    >>> found = merged_values(column, {"cold": "ill", "flu": "ill"})
    >>> found.levels, found.data.tolist()
    (('ill', 'none'), [0, 0, 1])
    """
    if not merged:
        return values
    values = values.as_levels()
    known = [plain(level) for level in values.levels or ()]
    named = [merged.get(level, level) for level in known]
    levels = tuple(dict.fromkeys(named))
    codes = np.array([*(levels.index(name) for name in named), -1])
    return Values("category", codes[values.filled(-1)], values.missing, levels)


def check_merged(name: Name, values: Values, merged: Mapping[Any, Any], argument: str) -> None:
    """Refuse a mapping of values that the column does not have."""
    has = {*map(plain, values.as_levels().used_levels())}
    strange = [value for value in merged if value not in has]
    if strange:
        raise ValueError(
            f"{argument} names {listed(strange, 5)}, which column {name!r} does not have; its "
            f"values are {listed(sorted(has, key=repr), 10)}."
        )


def distances_of(metric: Any, rule: SecretRule, pairs: Sequence[Pair]) -> tuple[float, ...]:
    """Return the distance of each pair of secrets; none without a metric.

    Raises
    ------
    TypeError, ValueError
        If the metric does not fit, or is not positive, finite and symmetric.
    """
    if metric is None:
        return ()
    if isinstance(metric, str) and metric == "steps":
        names = interval_names(next(iter(rule.edges.values()), ()))
        if len(rule.names) > 1 or any(each not in names for pair in pairs for each in pair):
            raise ValueError(
                'metric="steps" counts the bins between two secrets, which are not those of one '
                "column in bins; ask for bins (sensitive={column: 10}), or pass a function of "
                "two secrets."
            )
        return tuple(float(abs(names.index(a) - names.index(b))) for a, b in pairs)
    if not callable(metric):
        raise TypeError(
            f'metric must be "steps" or a function of two secrets, got {quoted(metric)}.'
        )
    for a, b in pairs:
        there, back = metric(a, b), metric(b, a)
        if not (there == back and 0.0 < float(there) < float("inf")):
            raise ValueError(
                f"metric gives {quoted(there)} from {quoted(a)} to {quoted(b)} and {quoted(back)} "
                "back; it must be symmetric, positive and finite."
            )
    return tuple(float(metric(a, b)) for a, b in pairs)
