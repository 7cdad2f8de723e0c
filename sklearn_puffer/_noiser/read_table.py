"""Read the X of `fit` and `transform`: its rows, secrets, columns, pairs and groups of rows.

Rows of a group, such as a household, share their secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from sklearn_puffer._base import Array, FloatArray, as_array, counted, listed, quoted, real_numbers
from sklearn_puffer._noiser.conditional_priors import given_priors
from sklearn_puffer._noiser.settings import RowGroups, Settings, checked_most
from sklearn_puffer._release import sentences as say
from sklearn_puffer._tables import (
    AnyTable,
    Column,
    Faults,
    Kind,
    LazyTable,
    Missing,
    Name,
    Pair,
    Reader,
    Secret,
    Table,
    Unknown,
    Values,
    array_table,
    check_whole,
    column_groups,
    column_reader,
    frame_table,
    hardly_repeats,
    is_frame,
    is_lazy,
    lazy_table,
    learn_column,
    learn_secret,
    looks_like_key,
    no_rows,
    public_columns,
    ranks_of,
    readable,
    resolve,
    rule_of,
    secret_pairs_of,
    tally,
    way_to_rows,
    without_unused,
)
from sklearn_puffer.priors import Discrete, GaussianMixture

_MOST_ROWS = 2.0**53  # up to here floats count exactly


class CountedTable:
    """The rows of positive weight, and their weights."""

    def __init__(self, table: AnyTable, weights: Array | None) -> None:
        self.table, self.weights = table, weights
        self.mask = None
        if weights is not None and not weights.all():
            self.mask = weights > 0
            self.weights = weights[self.mask]
        self._tallies: dict[Name, Array] = {}

    @property
    def n_rows(self) -> int:
        """How many rows count."""
        return self.table.n_rows if self.mask is None else int(self.mask.sum())

    @property
    def total(self) -> int:
        """How often they count, all together."""
        return self.n_rows if self.weights is None else int(self.weights.sum())

    def kept(self, values: Values) -> Values:
        """Return the values of the rows that count."""
        if self.mask is None:
            return values
        missing = None if values.missing is None else values.missing[self.mask]
        if missing is not None and not missing.any():
            missing = None
        return without_unused(replace(values, data=values.data[self.mask], missing=missing))

    def values(self, name: Name) -> Values:
        """Return a column's values of the rows that count."""
        return self.kept(self.table.values(name))

    def tally(self, secret: Secret) -> Array:
        """Return how often each value of a secret counts."""
        if secret.name not in self._tallies:
            self._tallies[secret.name] = tally(secret.coded, self.n_rows, self.weights)
        return self._tallies[secret.name]

    def numbers(self, secret: Secret) -> Array:
        """Return how many rows each value of a secret has, however often they count."""
        if self.weights is None:
            return self.tally(secret)
        return tally(secret.coded, self.n_rows)


class LazyRows(CountedTable):
    """The rows of a lazy table: its columns are distinct values, each of which has a count."""

    table: LazyTable

    def __init__(self, table: LazyTable) -> None:
        super().__init__(table, None)

    def values(self, name: Name) -> Values:
        """Return a column's distinct values, and how often each occurs."""
        return self.table.values(name)

    def tally(self, secret: Secret) -> Array:
        """Return how many rows each value of a secret has."""
        values = self.values(secret.name)
        return tally(secret.coded, len(values), values.counts)


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct rows of a lazy table, in memory and in their order."""

    names: tuple[Name, ...]
    n_rows: int
    columns: Mapping[Name, Values]

    def values(self, name: Name) -> Values:
        """Return a column."""
        return self.columns[name]


def distinct_rows(table: LazyTable, names: Sequence[Name]) -> CountedTable:
    """Return the distinct rows that a lazy table has counted, with their counts as weights.

    They do not depend on the engine, nor on the order of the rows.
    """
    columns, counts = table.rows(names)
    return CountedTable(_Distinct(table.names, len(counts), columns), counts)


def check_size(count: int, least: int, what: str) -> None:
    """Refuse a table of fewer rows or columns than anything is learnt from."""
    if count < least:
        raise ValueError(
            f"X has {count} {what}(s) and a minimum of {least} is required; give more {what}s."
        )


def rows_of(table: AnyTable, sample_weight: Any) -> CountedTable:
    """Return the rows of a table in memory, or of a lazy one."""
    if isinstance(table, LazyTable):
        return LazyRows(table)
    return CountedTable(table, checked_weights(sample_weight, table.n_rows))


def checked_weights(sample_weight: Any, n_rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, "sample_weight")
    numbers = real_numbers(weights, "sample_weight")
    if weights.ndim == 0:
        numbers = np.full(n_rows, numbers)
    if numbers.ndim != 1:
        raise ValueError(f"sample_weight must be 1D array or scalar, got shape {weights.shape}.")
    if len(numbers) != n_rows:
        raise ValueError(
            f"sample_weight has {len(numbers)} entries and X {n_rows} rows; give one a row."
        )
    whole = np.isfinite(numbers) & (numbers >= 0) & (np.floor(numbers) == numbers)
    if not whole.all():
        raise ValueError(
            "sample_weight must hold non-negative whole numbers, as it counts rows; got "
            f"{float(numbers[~whole][0])!r}."
        )
    if not numbers.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive count.")
    with np.errstate(over="ignore"):
        total = numbers.sum()
    if total >= _MOST_ROWS:
        raise ValueError(
            f"sample_weight counts {total:.4g} rows, more than {_MOST_ROWS:.4g}; divide "
            "the counts by a common factor."
        )
    return numbers.astype(np.int64)


def first_table(estimator: Any, X: Any, weight: str | None = None) -> AnyTable:
    """Return the table of the X of `fit`, and note its columns in the estimator.

    ``weight`` names a column of weights in a lazy table, which is not read as data.
    """
    least = 1 if estimator.sensitive is None else 2
    if not (is_frame(X) or is_lazy(X)):
        array = validate_data(
            estimator,
            _unmerged(X),
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=2,
            ensure_min_features=least,
        )
        return array_table(array)
    table = lazy_table(X, weight) if is_lazy(X) else frame_table(X)
    # names alone: scikit-learn 1.7 finds none in frames of polars 2
    validate_data(estimator, no_rows(table.names), skip_check_array=True)
    if not is_lazy(X):  # whose rows are not counted yet
        check_size(table.n_rows, 2, "row")
    check_size(len(table.names), least, "column")
    return table


def check_beside(X: Any, sensitive_features: Any, sample_weight: Any) -> None:
    """Refuse arrays beside a lazy table: its rows have no order to align them with.

    Raises
    ------
    TypeError
        Naming the argument and the way out.
    """
    several = isinstance(sensitive_features, list | tuple) and len(sensitive_features) > 0
    features = sensitive_features if several else [sensitive_features]
    for name, values in (("sensitive_features", features), ("sample_weight", [sample_weight])):
        if not all(value is None or isinstance(value, str) for value in values):
            raise TypeError(
                f"X is a lazy table ({type(X).__name__}), whose rows have no order, and {name}= is "
                "aligned by position; make it a column of X and pass its name, or pass "
                f"{way_to_rows(X)}."
            )


def next_table(estimator: Any, X: Any) -> Table:
    """Return the table of the X of `transform`, with the columns that were fitted."""
    refuse_lazy(X)
    X, rules = readable(X), estimator._fitted.rules
    if is_frame(X):
        table = frame_table(X)
        rules.check_columns(table.names)
        check_rows(table.n_rows)
        return table
    X = _unmerged(X)
    array = validate_data(estimator, X, reset=False, dtype=None, ensure_all_finite=False)
    table = array_table(array, rules.names)
    if rules.missing == "error":  # an array is refused whole, as scikit-learn does
        for name in rules.sensitive:
            check_whole(table.values(name), name)
    return table


def refuse_lazy(X: Any) -> None:
    """Refuse to draw fresh noise for a lazy table, which draws again whenever it is computed."""
    if is_lazy(X):
        raise TypeError(
            f"X is a lazy table ({type(X).__name__}), and each time that it is computed (by every "
            "action, retry and repeated task) would be another release; name its column of ids "
            "with row_id=, which makes every computation the same release, or write the table "
            f"once, release that ({way_to_rows(X)} in memory) and count it."
        )


def check_rows(n_rows: int) -> None:
    """Refuse a table without rows."""
    if not n_rows:
        raise ValueError("X has 0 row(s) and a minimum of 1 is required to release.")


def _unmerged(X: Any) -> Any:
    """Return lists as an array in which different values stay different."""
    if not isinstance(X, list | tuple):
        return X
    try:
        return as_array(X, "X")
    except ValueError:  # rows of different lengths, for which scikit-learn has words
        return X


@dataclass(frozen=True)
class ColumnSpec:
    """The settings of one public column.

    Attributes
    ----------
    name : str or int
    categories : sequence or None
        Its values in their order; None for those of its type.
    n_bins : int or None
    numeric : bool
        Whether ``n_bins`` names it, so that it must be a column of numbers.
    unknown : "error", "nearest" or mapping
    missing : {"error", "category", "propagate"}
    """

    name: Name
    categories: Sequence[Any] | None
    n_bins: int | None
    numeric: bool
    unknown: Any
    missing: Missing

    def unknown_rule(self, kind: Kind) -> Unknown:
        """Return the rule for values that `fit` has not seen, in a column of this kind."""
        return rule_of(self.unknown, self.name, "category" if self.categories is not None else kind)

    def learnt(self, values: Values, weights: Array | None) -> Column:
        """Return the alphabet of the column, learnt from its values."""
        column = learn_column(
            self.name,
            values,
            n_bins=self.n_bins,
            categories=self.categories,
            missing=self.missing,
            unknown=self.unknown_rule(values.kind),
            weights=weights,
        )
        if self.numeric and column.edges is None:
            raise ValueError(
                f"n_bins names column {self.name!r}, which is not numeric ({column.kind}); "
                "remove it from n_bins."
            )
        return column

    def reader(self, column: Column, values: Values) -> Reader:
        """Return how values of the column are read."""
        return column_reader(column, values, self.unknown_rule(values.kind), self.missing)


def _column_specs(settings: Settings, public: Sequence[Name]) -> list[ColumnSpec]:
    """Return the settings of each public column, and refuse those of other columns."""
    for argument in ("categories", "n_bins", "unknown"):
        value = getattr(settings, argument)
        for name in value if isinstance(value, Mapping) else ():
            if name not in public:
                raise ValueError(
                    f"{argument} names column {name!r}, which is not public; "
                    f"the public columns are {listed(list(public), 10)}."
                )
    named = isinstance(settings.n_bins, Mapping)
    bins = settings.n_bins if named else dict.fromkeys(public, settings.n_bins)
    return [
        ColumnSpec(
            name,
            settings.categories.get(name),
            bins.get(name),
            named and name in bins,
            settings.unknown,
            settings.missing,
        )
        for name in public
    ]


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table as it was read.

    Attributes
    ----------
    settings : Settings
    rows : CountedTable
    secrets : list of Secret
    specs, columns, readers
        Of the public columns, in X's order; binned columns keep their raw numbers.
    groups : list of list of int
        Positions of the public columns that are protected together.
    pairs : dict of list of Pair
    hidden, passed : list of names
        Sensitive columns that are columns of the table, and those handed through.
    n_columns : int
        Of the table, the sensitive ones included.
    grouped : RowGroups or None
        Groups of rows, by the name of their column and with the rows of the largest one.
    known : list of list of int
        Side information: positions of public columns, those known together in one list.
    """

    settings: Settings
    rows: CountedTable
    secrets: list[Secret]
    specs: list[ColumnSpec]
    columns: list[Column]
    readers: list[Reader]
    groups: list[list[int]]
    pairs: dict[Name, list[Pair]]
    hidden: list[Name]
    passed: list[Name]
    n_columns: int
    grouped: RowGroups | None = None
    known: list[list[int]] = field(default_factory=list)

    @cached_property
    def bare_columns(self) -> list[Column]:
        """The public columns without their raw numbers."""
        return [replace(column, raw=None) for column in self.columns]

    @property
    def known_names(self) -> list[tuple[Name, ...]]:
        """The names of the columns that may be side information."""
        return [tuple(self.public[k] for k in positions) for positions in self.known]

    @property
    def public(self) -> list[Name]:
        """The names of the public columns."""
        return [column.name for column in self.columns]

    def fewest_rows(self) -> int:
        """Return how many rows the rarest secret has."""
        return min(int(self.rows.tally(secret).min()) for secret in self.secrets)

    @property
    def unordered(self) -> Array:
        """Which columns have names for values, without an order, shape (n_columns,)."""
        return np.array([column.unordered for column in self.columns])

    def remarks(self, *, fine: bool = True) -> list[str]:
        """Return the warnings that need no computation.

        Columns that are too fine for noise are named with ``fine`` only.
        """
        settings, n_rows = self.settings, self.rows.total
        too_fine = [
            say.too_fine_sentence(column.name, len(column.atoms), n_rows)
            for column in self.columns
            if fine
            and settings.prior is None
            and settings.model is None
            and not column.free
            and column.kind in ("float", "integer")
            and column.edges is None
            and hardly_repeats(len(column.atoms), n_rows)
        ]
        collapsed = [
            say.collapsed_sentence(column.name, spec.n_bins, column.atoms.tolist())
            for column, spec in zip(self.columns, self.specs, strict=True)
            if column.merged and spec.n_bins and len(column.atoms) < spec.n_bins
        ]
        many = [
            say.many_secrets_sentence(secret.name, len(secret.labels), n_rows)
            for secret in self.secrets
            if hardly_repeats(len(secret.labels), n_rows)
        ]
        return too_fine + collapsed + many


def read_table(
    settings: Settings,
    table: AnyTable,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> TableRead:
    """Return the secrets and public columns of a table, with all that is wrong in one error.

    Parameters
    ----------
    settings : Settings
    table : AnyTable
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    rows = rows_of(table, sample_weight)
    hidden = sensitive_of(settings, table, given_secrets)
    grouping = group_names(settings.grouped, table, hidden)
    public = public_columns(settings.public, table.names, hidden, grouping)
    groups = column_groups(settings.dependence, public, table.names)
    specs = _column_specs(settings, public)
    settings.check_fitted_rows(max(map(len, groups)))
    continuous = _is_continuous(settings)
    faults = Faults()
    if isinstance(rows, LazyRows):
        faults.of(rows.table.check_type, [*hidden, *public])
        faults.refuse()  # before anything is computed
        rows = _count_first(
            settings, rows, hidden, [[public[k] for k in group] for group in groups]
        )
    secrets = faults.of(
        lambda name: secret_of(settings, rows, given_secrets, name),
        list(given_secrets) if given_secrets is not None else hidden,
    )
    learnt = faults.of(
        lambda k: _learn_column(settings, rows, specs[k], k, continuous=continuous),
        counted(range(len(public)), "columns read"),
    )
    faults.refuse()
    grouped = _groups_of(settings, rows, grouping, secrets)
    n_adversaries = 1 + len(settings.adversaries)
    alone = not settings.at_once
    used, passing = {*hidden, *public}, settings.remainder == "passthrough"
    return TableRead(
        settings=settings,
        rows=rows,
        secrets=secrets,
        specs=specs,
        columns=[column for column, _ in learnt],
        readers=[reader for _, reader in learnt],
        groups=groups,
        pairs=secret_pairs_of(settings.secret_pairs, secrets, n_adversaries, alone=alone),
        hidden=hidden,
        passed=[n for n in table.names if n not in used and (passing or n in grouping)],
        n_columns=len({*table.names, *(given_secrets or ())}),
        grouped=grouped,
        known=known_columns(settings.known, table.names, public),
    )


def known_columns(known: Any, names: Sequence[Name], public: list[Name]) -> list[list[int]]:
    """Return the positions of columns of side information, those known together in one list."""
    if known is None:
        return []
    items = list(known) if isinstance(known, list) else [known]
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


def _groups_of(
    settings: Settings, rows: CountedTable, grouping: Sequence[Name], secrets: Sequence[Secret]
) -> RowGroups | None:
    """Return the groups of rows, whose rows must share their secret."""
    if settings.grouped is None:
        return None
    check_one_column(settings.grouped, [secret.name for secret in secrets])
    codes = {secret.name: secret.codes(rows.n_rows) for secret in secrets}
    return fitted_groups(settings.grouped, rows.table, grouping[0], codes)[0]


def _count_first(
    settings: Settings, rows: LazyRows, hidden: Sequence[Name], groups: Sequence[Sequence[Name]]
) -> CountedTable:
    """Count the rows of a lazy table by the columns of each group, which gives their values, too.

    Where there are bins, rows are counted later: they are fewer once the bins are known.
    """
    table, names = rows.table, [*hidden, *(name for group in groups for name in group)]
    n_rows = None if table.weight is None else table.check_weights()
    whole = settings.channel is not None or bool(settings.models)
    counted_whole = whole and table.count(names)
    if not whole and settings.n_bins is None:
        for group in groups:
            table.count([*hidden, *group])
    if not counted_whole:
        table.values(names[0])
    check_size(table.n_rows if n_rows is None else n_rows, 2, "row")
    if not table.n_rows:
        raise ValueError(
            f"sample_weight={table.weight!r} is zero for every row; give some row a positive count."
        )
    if whole and not counted_whole:
        what = "classifiers are" if settings.channel is None else 'noise="optimal" is'
        raise ValueError(say.too_many_rows_sentence(names, what))
    return distinct_rows(table, names) if whole else rows


def sensitive_of(
    settings: Settings, table: AnyTable, features: Mapping[Name, Values] | None
) -> list[Name]:
    """Return the sensitive columns of X, those included that sensitive_features names."""
    if settings.sensitive is not None:
        return resolve(settings.sensitive, table.names, "sensitive")
    return [name for name in features or () if isinstance(name, str) and name in table.names]


def secret_of(
    settings: Settings, rows: CountedTable, features: Mapping[Name, Values] | None, name: Name
) -> Secret:
    values = rows.values(name) if features is None else rows.kept(features[name])
    return learn_secret(name, values, settings.missing)


def _learn_column(
    settings: Settings, rows: CountedTable, spec: ColumnSpec, position: int, *, continuous: bool
) -> tuple[Column, Reader]:
    values = rows.values(spec.name)
    column = spec.learnt(values, rows.weights)
    column = column.with_any_number() if continuous else column
    column = _with_given_atoms(column, settings, position)
    if settings.public is None and _looks_like_identifier(settings, column, values, rows.total):
        numeric = column.kind != "category"
        raise ValueError(
            say.identifier_sentence(spec.name, len(column.atoms), rows.total, numeric=numeric)
        )
    return column, spec.reader(column, values)


def _looks_like_identifier(settings: Settings, column: Column, values: Values, n_rows: int) -> bool:
    n_atoms = len(column.atoms)
    if column.kind == "category":
        return not values.declared and hardly_repeats(n_atoms, n_rows)
    counted = settings.prior is None and not column.free and column.edges is None
    return counted and looks_like_key(column.atoms, n_rows)


def _with_given_atoms(column: Column, settings: Settings, position: int) -> Column:
    """Return the column over the atoms of all given priors, which can all be released.

    The column's own values must be among those of ``prior=``: the loss would not cover others.
    """
    atoms = _given_atoms(column, settings.prior, position)
    strange = np.setdiff1d(column.atoms[column.known], atoms)
    if atoms.size and strange.size:
        shown = repr(float(strange[0]))
        if column.levels is not None:
            shown = f"{quoted(column.levels[int(strange[0])])} (code {int(strange[0])})"
        raise ValueError(
            f"column {column.name!r} contains {shown}, to which no prior in prior= gives an "
            "atom; add it to the atoms, with probability zero if it is impossible."
        )
    further = [_given_atoms(column, prior, position) for prior in settings.adversaries]
    return column.extended(np.concatenate([atoms, *further]))


def _given_atoms(column: Column, prior: Any, position: int) -> FloatArray:
    """Return the column's atoms for the values that a given prior knows."""
    discrete = [p for p in given_priors(prior) if isinstance(p, Discrete)]
    axes = [p.rows[:, position] for p in discrete if position < p.n_axes]
    return column.placed(np.concatenate(axes)) if axes else np.empty(0)


def _is_continuous(settings: Settings) -> bool:
    """Return whether the priors are over all numbers; they must not be of both kinds."""
    priors = [p for prior in (settings.prior, *settings.adversaries) for p in given_priors(prior)]
    kinds = {isinstance(p, GaussianMixture) for p in priors}
    if settings.prior is None:
        kinds.add(settings.fit is not None)
    if settings.models or any(isinstance(x, str) for x in settings.adversaries):
        kinds.add(False)
    if len(kinds) > 1:
        raise ValueError(
            "prior and adversaries must be of one family, got Discrete and GaussianMixture priors; "
            "give a mixture for each, or discrete distributions for each."
        )
    return kinds == {True}


def group_names(groups: RowGroups | None, table: AnyTable, sensitive: Sequence[Name]) -> list[Name]:
    """Return the column of group ids in a list, which is empty where there is none.

    Raises
    ------
    TypeError, ValueError
        If X has no such column, it is sensitive, or X is lazy.
    """
    if groups is None:
        return []
    if isinstance(table, LazyTable):
        raise ValueError(
            f"groups={quoted(groups.column)} looks at the rows of each group, and X is a lazy "
            "table; read it into memory (collect it), or leave groups out."
        )
    [name] = resolve(groups.column, table.names, "groups")
    if name in sensitive:
        raise ValueError(
            f"groups names column {quoted(name)}, which is sensitive, and ids of groups are handed "
            "through as they are; give ids in a column of their own."
        )
    return [name]


def group_codes(table: AnyTable, name: Name) -> Array:
    """Return a whole number for each row, from 0, the same for the rows of one group.

    Raises
    ------
    TypeError, ValueError
        If an id is missing, or the column holds none.
    """
    values = table.values(name)
    if values.n_missing:
        raise ValueError(
            f"column {quoted(name)} of groups= has {values.n_missing} missing id(s) (NaN); give "
            "each of these rows the id of its group, or one of its own."
        )
    codes: Array = np.unique(ranks_of(values), return_inverse=True)[1].ravel()
    return codes


def check_sizes(codes: Array, groups: RowGroups) -> int:
    """Return the rows of the largest group, and refuse groups that are larger than guaranteed.

    Raises
    ------
    ValueError
        If a group has more rows than ``groups.most``; sizes are public, or tell nothing.
    """
    sizes = np.bincount(codes)
    largest = int(sizes.max(initial=0))
    if groups.most is not None and largest > groups.most:
        raise ValueError(
            f"column {quoted(groups.column)} has {int((sizes > groups.most).sum())} group(s) of "
            f"more than max_group={groups.most} rows, the largest of {largest}; leave rows of "
            f"them out, or fit with max_group={largest}."
        )
    return largest


def fitted_groups(
    groups: RowGroups, table: AnyTable, name: Name, secrets: Mapping[Name, Array]
) -> tuple[RowGroups, Array]:
    """Return groups with the name of their column and the rows of the largest, and rows' codes.

    Raises
    ------
    TypeError, ValueError
        If ids are missing, a group is too large, or has two secrets.
    """
    codes = group_codes(table, name)
    named = replace(groups, column=name)
    largest = check_sizes(codes, named)
    check_one_secret(codes, name, secrets)
    return (named if named.most else replace(named, most=checked_most(largest))), codes


def check_groups(groups: RowGroups | None, table: AnyTable) -> None:
    """Refuse rows that the guarantee for groups does not cover, before any is released.

    Raises
    ------
    TypeError, ValueError
        If ids are missing, or a group is too large.
    """
    if groups is not None:
        check_sizes(group_codes(table, groups.column), groups)


def refuse_parts(groups: RowGroups | None, why: str) -> None:
    """Refuse a table that is seen in parts only, where a group may lie in several of them."""
    if groups is not None:
        raise ValueError(
            f"{why}, and groups={quoted(groups.column)} counts the rows of each group in all of X "
            "before any is released; read X into memory, and call transform."
        )


def refuse_weights(groups: RowGroups | None, sample_weight: Any) -> None:
    """Refuse rows that stand for several: the groups of these are not known."""
    if groups is not None and sample_weight is not None:
        raise ValueError(
            f"sample_weight counts a row as several, and groups={quoted(groups.column)} counts "
            "the rows of each group as they stand; give each row as often as it counts, or leave "
            "one of the two out."
        )


def check_one_column(groups: RowGroups, sensitive: Sequence[Name]) -> None:
    """Refuse several sensitive columns of rows that are independent given one of them.

    Given one of them, the rows of a group still share the others, and so are dependent.

    Raises
    ------
    ValueError
        If there are several, and rows are taken as independent.
    """
    if groups.within == "independent" and len(sensitive) > 1:
        raise ValueError(
            f"groups={quoted(groups.column)} shares all of the sensitive columns "
            f"{listed(list(sensitive))}, so that rows are not independent given one of them; make "
            "one column of their combinations, or pass within_group='any'."
        )


def check_one_secret(codes: Array, name: Name, secrets: Mapping[Name, Array]) -> None:
    """Refuse groups whose rows have two secrets.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        Of `group_codes`.
    name : str or int
        The column of group ids.
    secrets : dict of ndarray of shape (n_rows,)
        The codes of each sensitive column.

    Raises
    ------
    ValueError
        Naming the sensitive column.
    """
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
