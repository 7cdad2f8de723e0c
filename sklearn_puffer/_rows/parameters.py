"""What parameters ask for: a guarantee, how columns are read, and which rows form groups.

Each is a frozen value, checked as far as that needs no data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base import (
    Array,
    check_above,
    check_choice,
    check_count,
    check_delta,
    check_positive,
    gone,
)
from sklearn_puffer._codes import (
    Column,
    learn_column,
    resolve,
)
from sklearn_puffer._engines import LazyTable
from sklearn_puffer._tables import AnyTable, Missing, Name, Values
from sklearn_puffer._words import listed, plain, quoted, shown
from sklearn_puffer.notions import MOST_ALPHA, Notion, Pufferfish, RenyiPufferfish

_LEAST_EPSILON = 1e-8
_LEAST_DELTA = 1e-300
_MOST_BINS = 10**6
MOST_RELEASES = 10**9
"""Largest number of releases that can be planned: the sampler's error is paid for each."""

Output = Literal["native", "noisy"]
OUTPUTS: list[Output] = ["native", "noisy"]


@dataclass(frozen=True)
class Guarantee:
    """What is guaranteed."""

    notion: Notion  # epsilon, delta, and alpha if there is one
    pairs: Any = "all"  # as given: checked where the secrets are read
    releases: int = 1  # of the same rows, all of them together

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Guarantee:
        """Check the parameters that an estimator has."""
        notion = _notion(params["epsilon"], params.get("delta", 0.0), params.get("alpha"))
        releases = params.get("releases", 1)
        if check_count(releases, "releases") > MOST_RELEASES:
            raise ValueError(
                f"releases must be at most {MOST_RELEASES:,}, got {quoted(releases)}; the error of "
                "the sampler is paid for each of them."
            )
        return cls(notion, params.get("secret_pairs", "all"), int(releases))


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are released, and how their values are read.

    The sensitive columns are in `FitRows`, since a call of `fit` may name them.
    """

    public: Any = None  # as given: checked where the table is read
    known: Any = None  # likewise
    # the values of columns, in their order
    categories: Mapping[Any, Sequence[Any]] = field(default_factory=dict)
    n_bins: Any = None
    missing: Missing = "error"
    output: Output = "native"
    remainder: Literal["drop", "passthrough"] = "drop"
    grouped: AskedGroups | None = None  # rows that are released together

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Columns:
        """Check the parameters that an estimator has; others have their defaults."""
        checks: dict[str, Callable[[Any], Any]] = {
            "categories": _checked_categories,
            "n_bins": _checked_bins,
            "missing": lambda x: check_choice(x, "missing", ["error", "category", "propagate"]),
            "output": _checked_output,
            "remainder": lambda x: check_choice(x, "remainder", ["drop", "passthrough"]),
        }
        if isinstance(params.get("unknown"), Mapping):
            raise ValueError(gone("unknown={column: value}"))
        check_unknown(params.get("unknown", "auto"))
        checked = {name: check(params[name]) for name, check in checks.items() if name in params}
        named = {name: params[name] for name in ("public", "known") if name in params}
        grouped = AskedGroups.of(params) if "groups" in params else None
        return cls(**named, **checked, grouped=grouped)

    @property
    def rows_dependent(self) -> bool:
        """Whether rows of a group may depend on each other in any way."""
        return self.grouped is not None and self.grouped.within == "any"

    def passed(
        self, names: Sequence[Name], used: Collection[Name], grouping: Sequence[Name] = ()
    ) -> list[Name]:
        """Return the unused columns of a table that are passed through."""
        passing = self.remainder == "passthrough"
        return [n for n in names if n not in used and (passing or n in grouping)]

    def grouping(self, table: AnyTable, sensitive: Sequence[Name]) -> list[Name]:
        """Return the column of group ids in a list, which is empty where there is none."""
        return [] if self.grouped is None else [self.grouped.name_in(table, sensitive)]

    def specs(self, public: Sequence[Name]) -> list[ColumnSpec]:
        """Return the settings of each public column, and refuse those of other columns."""
        for argument in ("categories", "n_bins"):
            value = getattr(self, argument)
            for name in value if isinstance(value, Mapping) else ():
                if name not in public:
                    raise ValueError(
                        f"{argument} names column {name!r}, which is not public; "
                        f"the public columns are {listed(list(public), 10)}."
                    )
        named = isinstance(self.n_bins, Mapping)
        bins = self.n_bins if named else dict.fromkeys(public, self.n_bins)
        return [
            ColumnSpec(
                name,
                self.categories.get(name),
                bins.get(name),
                named and name in bins,
                self.missing,
            )
            for name in public
        ]

    def known_together(self, names: Sequence[Name], public: list[Name]) -> list[list[int]]:
        """Return the public positions of side information, those known together in one list."""
        if self.known is None:
            return []
        items = list(self.known) if isinstance(self.known, list) else [self.known]
        sets = [resolve(list(i) if isinstance(i, tuple) else i, names, "known") for i in items]
        if not sets:
            raise ValueError("known is empty; name the columns that may be known, or leave it out.")
        strange = [name for columns in sets for name in columns if name not in public]
        if strange:
            raise ValueError(
                f"known names column {strange[0]!r}, which is not public; the public columns are "
                f"{listed(public, 10)}."
            )
        return [[public.index(name) for name in columns] for columns in sets]


@dataclass(frozen=True)
class ColumnSpec:
    """The settings of one public column."""

    name: Name
    categories: Sequence[Any] | None  # None: those of its type
    n_bins: int | None
    numeric: bool  # `n_bins` names it, so it must be one of numbers
    missing: Missing

    def learnt(self, values: Values, weights: Array | None) -> Column:
        """Return the alphabet of the column, learnt from its values."""
        column = learn_column(
            self.name,
            values,
            n_bins=self.n_bins,
            categories=self.categories,
            missing=self.missing,
            weights=weights,
        )
        if self.numeric and column.edges is None:
            raise ValueError(
                f"n_bins names column {self.name!r}, which is not numeric ({column.kind}); "
                "remove it from n_bins."
            )
        return column


def check_unknown(unknown: Any) -> Any:
    """Return the rule for values that `fit` has not seen; a mapping in artifacts of before."""
    if isinstance(unknown, Mapping):
        return unknown
    return check_choice(unknown, "unknown", ["auto", "error", "nearest"])


def check_units(weights: Any, public: Sequence[Name] | None = None) -> Mapping[Any, float]:
    """Return the units of distance that ``weights`` gives, of public columns by their names."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"weights must map columns to units of distance, got {quoted(weights)}; leave it out "
            "for standard deviations."
        )
    units = {name: check_positive(unit, f"weights[{name!r}]") for name, unit in weights.items()}
    for name, unit in units.items():
        if not 1e-100 <= unit <= 1e100:  # so that squares of distances are finite
            raise ValueError(
                f"weights[{name!r}] must lie between 1e-100 and 1e+100, got {unit!r}; rescale the "
                "column."
            )
    if public is None:
        return units
    return {resolve(name, public, "weights")[0]: unit for name, unit in units.items()}


def column_of(name: Name, values: Values) -> Column:
    """Return a column that takes any value, and stores none but its categories."""
    if values.kind in ("float", "integer"):
        free = Column(name, values.kind, np.zeros(1), np.ones(1, dtype=bool), free=True)
        return free.of_times(values.unit)
    # where all are missing, that is the only level
    levels = None if values.levels is None else values.levels or (None,)
    size = 2 if levels is None else len(levels)
    known = np.ones(size, dtype=bool)
    atoms = np.arange(size, dtype=np.float64)
    return Column(name, values.kind, atoms, known, levels, ordered=values.ordered)


IN_BINS = (
    "Secrets in bins are intervals between quantiles of the fitted rows. These quantiles stand in "
    "this certificate, and are not protected: give edges of your own where they must not be known."
)
"""The assumption about secrets in quantile bins."""


def about_bins(sensitive: Any) -> list[str]:
    """Return the assumption about secrets in quantile bins of the fitted rows."""
    bins = sensitive.values() if isinstance(sensitive, Mapping) else ()
    return [IN_BINS] if any(isinstance(number, Integral) for number in bins) else []


def _checked_output(value: Any) -> Output:
    if isinstance(value, str) and value == "remapped":
        raise ValueError(gone("output='remapped'"))
    checked: Output = check_choice(value, "output", OUTPUTS)
    return checked


def _notion(epsilon: Any, delta: Any, alpha: Any) -> Notion:
    way_out = "choose a budget in nats, such as 1.0"
    if check_positive(epsilon, "epsilon", way_out) < _LEAST_EPSILON:
        raise ValueError(
            f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}: less is lost in the "
            f"rounding of the noise; {way_out}."
        )
    if 0.0 < check_delta(delta, "delta") < _LEAST_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {_LEAST_DELTA:g}, got {delta!r}; less is no different "
            "from a pure guarantee, which is delta=0."
        )
    if alpha is None:
        return Pufferfish(epsilon, delta)
    if check_above(alpha, 1.0, "alpha") > MOST_ALPHA:
        raise ValueError(
            f"alpha must be at most {MOST_ALPHA:g}, got {quoted(alpha)}; leave it out for the pure "
            "guarantee, to which such orders come close."
        )
    return RenyiPufferfish(epsilon, alpha, delta)


def _checked_categories(categories: Any) -> Mapping[Any, Sequence[Any]]:
    if categories is None:
        return {}
    if not isinstance(categories, Mapping):
        raise TypeError(
            f"categories must map columns to lists of values, got {quoted(categories)}."
        )
    return categories


def _checked_bins(n_bins: Any) -> Any:
    if n_bins is None:
        return None
    counts = n_bins.values() if isinstance(n_bins, Mapping) else [n_bins]
    for count in counts:
        if check_count(count, "n_bins", minimum=2) > _MOST_BINS:
            raise ValueError(
                f"n_bins must be at most {_MOST_BINS:,}, got {quoted(count)}; leave it out to "
                "release the values themselves."
            )
    return n_bins


DependenceWithin = Literal["independent", "any"]
_WITHIN: tuple[DependenceWithin, ...] = ("independent", "any")


COUNT = "count"
"""The ``max_group`` that is counted from the rows of `fit`, where sizes of groups are public."""

_MOST_ROWS = 256  # of a group: noise for more of them leaves nothing of a row


@dataclass(frozen=True)
class AskedGroups:
    """The groups that the parameters ask for."""

    column: Name  # of group ids, as given
    most: int | None  # rows of the largest group; None where they are counted
    within: DependenceWithin  # how rows of a group depend on each other given the secret

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> AskedGroups | None:
        """Return the groups that the parameters ask for, checked as far as that needs no data."""
        column, most = plain(params["groups"]), params["max_group"]
        within = check_choice(params["within_group"], "within_group", [*_WITHIN])
        if column is None:
            _refuse_rest(most, within)
            return None
        if isinstance(column, bool) or not isinstance(column, str | int):
            raise TypeError(
                "groups must be the name (str) or position (int) of the column of group ids, got "
                f"{quoted(column)}."
            )
        if most is None:
            raise ValueError(
                f"groups={quoted(column)} needs max_group, the most rows of a group that the "
                "guarantee is for; give a number, such as max_group=5, or "
                f"max_group={COUNT!r} where the sizes of groups are public."
            )
        if isinstance(most, str):
            check_choice(most, "max_group", [COUNT])
            return cls(column, None, within)
        return cls(column, _checked_most(check_count(most, "max_group")), within)

    def name_in(self, table: AnyTable, sensitive: Sequence[Name]) -> Name:
        """Return the name of the column of group ids; refuse a sensitive one, and a lazy table."""
        if isinstance(table, LazyTable):
            raise ValueError(
                f"groups={quoted(self.column)} looks at the rows of each group, and X is a lazy "
                "table; read it into memory (collect it), or leave groups out."
            )
        [name] = resolve(self.column, table.names, "groups")
        if name in sensitive:
            raise ValueError(
                f"groups names column {quoted(name)}, which is sensitive, and ids of groups are "
                "handed through as they are; give ids in a column of their own."
            )
        return name

    def fitted(self, table: AnyTable, name: Name, secrets: Mapping[Name, Array]) -> RowGroups:
        """Return the groups of a table by the name of their column; refuse those without guarantee.

        ``secrets`` are the codes of each sensitive column. Of rows that are independent given their
        secret there is one such column: given one of several, a group still shares the others.
        """
        if self.within == "independent" and len(secrets) > 1:
            raise ValueError(
                f"groups={quoted(self.column)} shares all of the sensitive columns "
                f"{listed(list(secrets))}, so that rows are not independent given one of them; "
                "make one column of their combinations, or pass within_group='any'."
            )
        codes = group_codes(table, name)
        largest = int(np.bincount(codes).max(initial=0))
        groups = RowGroups(name, largest if self.most is None else self.most, self.within)
        groups.check_sizes(codes)
        check_one_secret(codes, name, secrets)
        _checked_most(groups.max_group)
        return groups

    def refuse_weights(self, sample_weight: Any) -> None:
        """Refuse sample weights: the groups of repeated rows are not known."""
        if sample_weight is not None:
            raise ValueError(
                f"sample_weight counts a row as several, and groups={quoted(self.column)} counts "
                "the rows of each group as they stand; give each row as often as it counts, or "
                "leave one of the two out."
            )


@dataclass(frozen=True)
class RowGroups:
    """The rows that the guarantee treats as one group, and how they depend on each other.

    Attributes
    ----------
    column : str or int
        The column of group ids.
    max_group : int
        The most rows of a group, in all releases together; 0 where that is not told.
    within_group : {"independent", "any"}
        How rows of a group depend on each other given the secret that they share.
    """

    column: Name
    max_group: int
    within_group: DependenceWithin

    def seen(self) -> str:
        """Return what readers see, for a sentence.

        >>> RowGroups("home", 3, "any").seen()
        'all released rows of a group (at most 3 rows with one value of home)'
        """
        rows = "row" if self.max_group == 1 else "rows"
        most = f"at most {self.max_group} {rows}" if self.max_group else "rows"
        return f"all released rows of a group ({most} with one value of {shown(self.column)})"

    def known(self) -> str:
        """Return what readers know of the group beside the prior of a row, for a sentence."""
        if self.within_group == "any":
            return "the prior and how rows of a group depend on each other"
        return "the prior, by which rows of a group are independent given their secret"

    def check(self, table: AnyTable) -> None:
        """Refuse rows that the guarantee does not cover, before any is released."""
        self.check_sizes(group_codes(table, self.column))

    def check_sizes(self, codes: Array) -> None:
        """Refuse groups, given by the codes of their rows, that are larger than guaranteed."""
        sizes = np.bincount(codes)
        n_larger = int((sizes > self.max_group).sum())
        if n_larger:
            raise ValueError(
                f"column {quoted(self.column)} has {n_larger} group(s) of more than "
                f"max_group={self.max_group} rows, the largest of {sizes.max()}; leave rows of "
                f"them out, or fit with max_group={sizes.max()}."
            )


def _checked_most(most: int) -> int:
    if most > _MOST_ROWS:
        raise ValueError(
            f"max_group must be at most {_MOST_ROWS:,}, got {quoted(most)}: noise for so many rows "
            "leaves nothing of each; release a sum or mean of each group (PufferfishSum), or fewer "
            "of its rows."
        )
    return most


def _refuse_rest(most: Any, within: DependenceWithin) -> None:
    """Refuse parameters about groups where there are no groups."""
    for name, value, usual in (("max_group", most, None), ("within_group", within, _WITHIN[0])):
        if value != usual:
            raise ValueError(
                f"{name}={quoted(value)} is about groups of rows, and groups= names no column of "
                f"their ids; name it, such as groups='household', or leave {name} out."
            )


def group_codes(table: AnyTable, name: Name) -> Array:
    """Return a whole number for each row, from 0, the same for the rows of one group."""
    values = table.values(name)
    if values.n_missing:
        raise ValueError(
            f"column {quoted(name)} of groups= has {values.n_missing} missing id(s) (NaN); give "
            "each of these rows the id of its group, or one of its own."
        )
    codes: Array = np.unique(values.ranks(), return_inverse=True)[1].ravel()
    return codes


def refuse_twice(of: Mapping[str, Sequence[Name]]) -> None:
    """Refuse a column that two arguments name, each in another place of a release."""
    seen: dict[Name, str] = {}
    for argument, names in of.items():
        for name in names:
            if name in seen:
                raise ValueError(
                    f"column {name!r} is named in {seen[name]}= and in {argument}=; name it in one."
                )
            seen[name] = argument


def check_one_secret(codes: Array, name: Name, secrets: Mapping[Name, Array]) -> None:
    """Refuse groups, given by their codes, whose rows have two codes of some secret."""
    for sensitive, secret in secrets.items():
        of_group = np.zeros(int(codes.max()) + 1, dtype=secret.dtype)
        of_group[codes] = secret
        torn = np.unique(codes[of_group[codes] != secret])
        if len(torn):
            raise ValueError(
                f"{len(torn)} group(s) of column {quoted(name)} have rows of different "
                f"{quoted(sensitive)}, and the guarantee is about one secret that a group has in "
                "common; make the rows of each secret a group, make one secret of theirs (such as "
                "'mixed'), or leave groups out."
            )
