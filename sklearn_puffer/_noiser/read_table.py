"""Read the X of `fit`: its secrets, columns, pairs and groups of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, counted
from sklearn_puffer._codes import (
    Column,
    Pair,
    Reader,
    Secret,
    check_no_identifier,
    hardly_repeats,
    public_columns,
    resolve,
    secret_pairs_of,
)
from sklearn_puffer._noiser.priors import Adversary, empirical_adversary, given_priors
from sklearn_puffer._noiser.settings import Knowledge, Settings
from sklearn_puffer._rows import (
    ColumnSpec,
    CountedTable,
    FitRows,
    LazyRows,
    RowGroups,
    RowOrder,
    check_size,
    distinct_rows,
    order_told,
    rows_of,
)
from sklearn_puffer._tables import Faults, Name
from sklearn_puffer._words import brief, listed, quoted
from sklearn_puffer.calibration import is_ours
from sklearn_puffer.priors import Discrete, GaussianMixture


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table as it was read: secrets, columns, pairs and groups."""

    settings: Settings
    rows: CountedTable
    secrets: list[Secret]
    # of the public columns, in X's order; binned columns keep their raw numbers
    specs: list[ColumnSpec]
    columns: list[Column]
    readers: list[Reader]
    groups: list[list[int]]  # positions of the public columns that are protected together
    pairs: dict[Name, list[Pair]]
    # sensitive columns that are columns of the table, and those handed through
    hidden: list[Name]
    passed: list[Name]
    n_columns: int  # of the table, the sensitive ones included
    # groups of rows, by the name of their column and with the rows of the largest one
    grouped: RowGroups | None = None
    # side information: positions of public columns, those known together in one list
    known: list[list[int]] = field(default_factory=list)
    # what the order of the rows tells about the secrets
    order: RowOrder = field(default_factory=RowOrder)

    @cached_property
    def bare_columns(self) -> list[Column]:
        """The public columns without their raw numbers, which are all that a free one has."""
        nothing, known = np.zeros(1), np.ones(1, dtype=bool)
        bare = [replace(column, raw=None) for column in self.columns]
        return [replace(c, atoms=nothing, known=known) if c.free else c for c in bare]

    @property
    def public(self) -> list[Name]:
        """The names of the public columns."""
        return [column.name for column in self.columns]

    def counted(self, groups: Sequence[Sequence[int]]) -> Adversary:
        """Return the distributions of groups of columns, counted from rows in memory."""
        rows = self.rows
        return empirical_adversary(
            self.secrets, self.columns, self.readers, groups, rows.n_rows, rows.weights
        )

    @property
    def sensitive(self) -> list[Name]:
        """The names of the sensitive columns."""
        return [secret.name for secret in self.secrets]

    @property
    def labels(self) -> dict[Name, list[Any]]:
        """The values of each sensitive column."""
        return {secret.name: list(secret.labels) for secret in self.secrets}

    @property
    def merged(self) -> list[Name]:
        """The names of the public columns that are read in bins."""
        return [column.name for column in self.columns if column.merged]

    @property
    def propagated(self) -> list[Name]:
        """The names of the columns whose missing values stay missing."""
        return self.public if self.settings.columns.missing == "propagate" else []

    @property
    def fewest_rows(self) -> int:
        """How many rows the rarest secret has."""
        return min(int(self.rows.tally(secret).min()) for secret in self.secrets)

    def named(self, positions: Sequence[Sequence[int]]) -> list[list[Name]]:
        """Return the names of the public columns at some positions."""
        return [[self.columns[k].name for k in some] for some in positions]

    def remarks(self) -> list[str]:
        """Return the warnings that need no computation."""
        settings, n_rows = self.settings, self.rows.total
        too_fine = [
            (column.name, len(column.atoms))
            for column in self.columns
            if settings.knowledge.prior is None
            and settings.knowledge.model is None
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
            *([too_fine_sentence(too_fine, n_rows)] if too_fine else []),
            *([collapsed_sentence(collapsed)] if collapsed else []),
            *([many_secrets_sentence(many, n_rows)] if many else []),
        ]


def _and_more(count: int, what: str) -> str:
    return f" ({what} {count} more)" if count else ""


def too_fine_sentence(sizes: Sequence[tuple[Name, int]], n_rows: int) -> str:
    """Return the warning about numeric columns whose values hardly repeat."""
    name, most = max(sizes, key=lambda size: size[1])
    return (
        f"column {brief(name)} has {most} distinct values in {n_rows} rows"
        f"{_and_more(len(sizes) - 1, 'and so have')}: an empirical prior is too fine for it; "
        f"bin it, as n_bins={{{brief(name)}: 5}} does."
    )


def collapsed_sentence(
    columns: Sequence[tuple[Name, int, Sequence[float]]],
) -> str:
    """Return the warning about columns that have more values than bins, and fall into fewer."""
    name, n_bins, medians = columns[0]
    count = f"{len(medians)} bins" if len(medians) > 1 else "one bin"
    constant = f" and is released as the constant {medians[0]:g}" if len(medians) == 1 else ""
    return (
        f"column {brief(name)} falls into {count} instead of n_bins={n_bins}{constant}, as many "
        f"rows share a value{_and_more(len(columns) - 1, 'and so do')}; ask for more bins, or for "
        "none."
    )


def many_secrets_sentence(sizes: Sequence[tuple[Name, int]], n_rows: int) -> str:
    """Return the warning about sensitive columns whose values hardly repeat."""
    name, most = max(sizes, key=lambda size: size[1])
    return (
        f"sensitive column {brief(name)} has {most} values in {n_rows} rows"
        f"{_and_more(len(sizes) - 1, 'and so have')}, so that the priors are little more than "
        "single rows; group its values first."
    )


def read_table(settings: Settings, given: FitRows) -> TableRead:
    """Return the secrets and public columns of a table, with all that is wrong in one error."""
    asked, knowledge, table = settings.columns, settings.knowledge, given.table
    if asked.grouped is not None:
        asked.grouped.refuse_weights(given.sample_weight)
    rows, hidden = rows_of(table, given.sample_weight), given.hidden()
    grouping = asked.grouping(table, hidden)
    public = public_columns(asked.public, table.names, hidden, grouping)
    groups = _column_groups(knowledge.dependence, public, table.names)
    specs, widest = asked.specs(public), max(map(len, groups))
    separate = knowledge.fit is not None and getattr(knowledge.fit, "covariance", "") != "common"
    if separate and widest > 1 and is_ours(knowledge.strategy):
        settings.check_bound(widest)  # before anything is fitted
    continuous = _is_continuous(knowledge)
    faults = Faults()
    if isinstance(rows, LazyRows):
        given.refuse_bins()
        faults.of(rows.table.check_type, [*hidden, *public])
        faults.refuse()  # before anything is computed
        rows = _count_first(
            settings, rows, hidden, [[public[k] for k in group] for group in groups]
        )
    secrets = faults.of(
        lambda name: given.secret(rows, name, asked.missing),
        list(given.secrets) if given.secrets is not None else hidden,
    )

    def learn_column(k: int) -> tuple[Column, Reader]:
        name, values = specs[k].name, rows.public_values(specs[k].name)
        column = specs[k].learnt(values, rows.weights)
        column = column.with_any_number() if continuous else column
        column = _with_given_atoms(column, knowledge, k)
        binned = column.edges is not None and values.unit is None  # bins identify no row
        named = asked.public is not None or binned
        check_no_identifier(name, values, rows.weights, named=named)
        return column, Reader(column, values, missing=asked.missing)

    learnt = faults.of(learn_column, counted(range(len(public)), "columns read"))
    faults.refuse()
    codes = {secret.name: secret.codes(rows.n_rows) for secret in secrets} if grouping else {}
    together = asked.grouped
    grouped = None if together is None else together.fitted(table, grouping[0], codes)
    pairs, n_adversaries = settings.guarantee.pairs, 1 + len(knowledge.adversaries)
    return TableRead(
        settings=settings,
        rows=rows,
        secrets=secrets,
        specs=specs,
        columns=[column for column, _ in learnt],
        readers=[reader for _, reader in learnt],
        groups=groups,
        pairs=secret_pairs_of(pairs, secrets, n_adversaries, alone=not settings.at_once),
        hidden=hidden,
        passed=asked.passed(table.names, {*hidden, *public}, grouping),
        n_columns=len({*table.names, *(given.secrets or ())}),
        grouped=grouped,
        known=asked.known_together(table.names, public),
        order=order_told(rows, secrets),
    )


def _count_first(
    settings: Settings, rows: LazyRows, hidden: Sequence[Name], groups: Sequence[Sequence[Name]]
) -> CountedTable:
    """Query the counts of a lazy table for each group of columns, with their distinct values.

    With bins, rows are counted later: there are fewer combinations once the bins are known.
    """
    table, names = rows.table, [*hidden, *(name for group in groups for name in group)]
    whole = bool(settings.knowledge.models)
    counted_whole = whole and table.count(names)
    if not whole and settings.columns.n_bins is None:
        for group in groups:
            table.count([*hidden, *group])
    if not counted_whole:
        table.values(names[0])
    check_size(table.n_rows, 2, "row")
    if whole and not counted_whole:
        raise ValueError(
            f"columns {listed(names, 10)} have more different rows than are fetched from an "
            "engine, and classifiers are fitted on those; fit a sample of the rows, round, bin or "
            "merge values there, or leave columns out of public=."
        )
    return distinct_rows(table, names) if whole else rows


def _with_given_atoms(column: Column, knowledge: Knowledge, position: int) -> Column:
    """Return the column with the atoms of all given priors in its alphabet.

    Its own values must be atoms of ``prior=``: the loss would not cover others.
    """
    atoms = _given_atoms(column, knowledge.prior, position)
    strange = np.setdiff1d(column.atoms[column.known], atoms)
    if atoms.size and strange.size:
        shown = repr(float(strange[0]))
        if column.levels is not None:
            shown = f"{quoted(column.levels[int(strange[0])])} (code {int(strange[0])})"
        raise ValueError(
            f"column {column.name!r} contains {shown}, to which no prior in prior= gives an "
            "atom; add it to the atoms, with probability zero if it is impossible."
        )
    further = [_given_atoms(column, prior, position) for prior in knowledge.adversaries]
    return column.extended(np.concatenate([atoms, *further]))


def _given_atoms(column: Column, prior: Any, position: int) -> FloatArray:
    """Return the atoms of a given prior, as atoms of the column."""
    discrete = [p for p in given_priors(prior) if isinstance(p, Discrete)]
    axes = [p.rows[:, position] for p in discrete if position < p.n_axes]
    return column.placed(np.concatenate(axes)) if axes else np.empty(0)


def _is_continuous(knowledge: Knowledge) -> bool:
    """Return whether the priors are continuous; refuse a mix of discrete and continuous ones."""
    priors = [p for prior in (knowledge.prior, *knowledge.adversaries) for p in given_priors(prior)]
    kinds = {isinstance(p, GaussianMixture) for p in priors}
    if knowledge.prior is None:
        kinds.add(knowledge.fit is not None)
    if knowledge.models or any(isinstance(x, str) for x in knowledge.adversaries):
        kinds.add(False)
    if len(kinds) > 1:
        raise ValueError(
            "prior and adversaries must be of one family, got Discrete and GaussianMixture priors; "
            "give a mixture for each, or discrete distributions for each."
        )
    return kinds == {True}


def _column_groups(
    dependence: Any, public: Sequence[Name], names: Sequence[Name]
) -> list[list[int]]:
    """Return groups of positions among the public columns.

    >>> _column_groups([["a", "c"], ["b"]], ["a", "b", "c"], ["a", "b", "c"])
    [[0, 2], [1]]
    """
    if isinstance(dependence, str) and dependence == "joint":
        return [list(range(len(public)))]
    if isinstance(dependence, str) and dependence == "independent":
        return [[k] for k in range(len(public))]
    if isinstance(dependence, str) or not isinstance(dependence, Iterable):
        fault = ValueError if isinstance(dependence, str) else TypeError
        raise fault(
            'dependence must be "joint", "independent" or a list of column groups, '
            f"got {quoted(dependence)}."
        )
    groups = [resolve(group, names, "dependence") for group in dependence]
    grouped = [name for group in groups for name in group]
    strange = [name for name in grouped if name not in public]
    doubled = [name for name in grouped if grouped.count(name) > 1]
    absent = [name for name in public if name not in grouped]
    if strange or doubled or absent:
        problem = (strange or doubled or absent)[0]
        raise ValueError(
            f"dependence must list every public column in exactly one group; look at {problem!r}."
        )
    return [sorted(public.index(name) for name in group) for group in groups]
