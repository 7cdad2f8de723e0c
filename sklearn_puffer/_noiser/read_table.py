"""Read the X of `fit`: its secrets, columns, pairs and groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, counted, listed, quoted
from sklearn_puffer._noiser.conditional_priors import given_priors
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._release import (
    CountedTable,
    LazyRows,
    RowGroups,
    RowOrder,
    check_one_column,
    check_size,
    distinct_rows,
    fitted_groups,
    group_names,
    order_told,
    rows_of,
)
from sklearn_puffer._release import sentences as say
from sklearn_puffer._tables import (
    AnyTable,
    Column,
    Faults,
    Kind,
    Missing,
    Name,
    Pair,
    Reader,
    Secret,
    Unknown,
    Values,
    bins_of,
    check_no_identifier,
    column_groups,
    column_reader,
    edges_of,
    hardly_repeats,
    in_intervals,
    learn_column,
    learn_secret,
    public_columns,
    resolve,
    rule_of,
    secret_pairs_of,
)
from sklearn_puffer.priors import Discrete, GaussianMixture


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
    order : RowOrder
        What the order of the rows tells about the secrets.
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
    order: RowOrder = field(default_factory=RowOrder)

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
            (column.name, len(column.atoms))
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
            (column.name, spec.n_bins, column.atoms.tolist())
            for column, spec in zip(self.columns, self.specs, strict=True)
            if column.merged and spec.n_bins and len(column.atoms) < spec.n_bins
        ]
        many = [
            (secret.name, len(secret.labels))
            for secret in self.secrets
            if hardly_repeats(len(secret.labels), n_rows)
        ]
        return [
            *([say.too_fine_sentence(too_fine, n_rows)] if too_fine else []),
            *([say.collapsed_sentence(collapsed)] if collapsed else []),
            *([say.many_secrets_sentence(many, n_rows)] if many else []),
        ]


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
        refuse_bins(settings, rows.table)
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
        order=order_told(rows, secrets),
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
    whole = bool(settings.models)
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
        raise ValueError(say.too_many_rows_sentence(names, "classifiers are"))
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
    bins = bins_of(settings.sensitive, rows.table.names).get(name)
    if bins is None:
        return learn_secret(name, values, settings.missing)
    edges = edges_of(name, values, bins, rows.weights)
    return learn_secret(name, in_intervals(name, values, edges), settings.missing)


def refuse_bins(settings: Settings, table: AnyTable) -> None:
    """Refuse a lazy table whose secrets are to be read in bins."""
    for name in bins_of(settings.sensitive, table.names):
        raise ValueError(
            f"sensitive[{name!r}] asks for bins, and X is a lazy table; add a column of the bins "
            "in the engine, and name that one."
        )


def _learn_column(
    settings: Settings, rows: CountedTable, spec: ColumnSpec, position: int, *, continuous: bool
) -> tuple[Column, Reader]:
    values = rows.public_values(spec.name)
    column = spec.learnt(values, rows.weights)
    column = column.with_any_number() if continuous else column
    column = _with_given_atoms(column, settings, position)
    named = settings.public is not None or column.edges is not None  # bins tell no single rows
    check_no_identifier(spec.name, values, rows.weights, named=named)
    return column, spec.reader(column, values)


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
