"""Release a table by swapping its rows: counted, solved, proven and drawn stratum by stratum."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, Notion, counted, digest, task
from sklearn_puffer._losses import SwapDistributions, swap_losses
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._noiser.release import ColumnRelease
from sklearn_puffer._noiser.swap_rows import (
    Columns,
    Distance,
    LikeCells,
    Points,
    ScoredCells,
    Strata,
    ValueCells,
    WideForm,
    WideRows,
    columns_of,
)
from sklearn_puffer._release import (
    Draw,
    Fields,
    FittedMechanism,
    Keying,
    Mechanism,
    TableRules,
    UncertifiedError,
)
from sklearn_puffer._swaps import SwapProblem, leavers_and_places, matched, mean_flows, whole_rows
from sklearn_puffer._tables import AnyTable, Column, Finished, Name, Table, alike, row_digests

LEAST_ROWS = 50
"""Rows of a table, below which there is hardly anybody to swap with."""


@dataclass(frozen=True, eq=False)
class Counted:
    """How many fitted rows of each cell, of all strata, have each secret of a column.

    Attributes
    ----------
    sensitive : str or int
    labels : sequence
    counts : ndarray of int64 of shape (n_secrets, n_cells)
    pairs : ndarray of int of shape (n_pairs, 2)
    boxes : ndarray of shape (2, n_secrets, n_cells)
        Ends between which the shares of the secrets lie, all of them with the level of the set.
    """

    sensitive: Name
    labels: Sequence[object]
    counts: IntArray
    pairs: Array
    boxes: FloatArray

    @property
    def shares(self) -> FloatArray:
        """The share of each secret in each cell."""
        return np.asarray(self.counts / self.counts.sum(axis=0))

    def distributions(self, cells: Array, *, boxes: bool) -> SwapDistributions:
        """Return the distributions over some cells."""
        return SwapDistributions(
            self.counts[:, cells], self.pairs, self.boxes[:, :, cells] if boxes else None
        )


@dataclass(frozen=True, eq=False)
class Solved:
    """The mean flows of a stratum, between the cells that have rows."""

    stratum: int
    cells: Array
    flows: IntArray
    problem: SwapProblem

    def losses(self, distributions: SwapDistributions) -> FloatArray:
        """Return proven ends of the loss of each pair, both ways."""
        return swap_losses(self.flows, self.problem.sizes, distributions, self.problem.notion)

    def distributions_of(
        self, position: int, counted: Counted, *, boxes: bool
    ) -> SwapDistributions:
        """Return the distributions over these cells for the sensitive column at a position."""
        return counted.distributions(self.cells, boxes=boxes)


@dataclass(frozen=True, eq=False)
class SwapRelease(Mechanism):
    """How the rows of a table are swapped.

    Attributes
    ----------
    columns : list of ColumnRelease
        Any value of a public column goes with its row, as it is.
    seen : list of names
        The columns that cells depend on: the public ones, and those that stay with their owners.
    strata : Strata
    cells : ScoredCells, LikeCells or ValueCells
    distance : Distance
    counted : sequence of Counted
        One a sensitive column.
    costs : ndarray of shape (n_cells, n_cells)
    notion : Notion
    over_boxes : bool
        Whether the budget is kept for all posteriors of the set, and not the counted ones alone.
    by_secret : bool
        Whether all secrets have the same weight in the cost, instead of all rows.
    shuffle : bool
        Whether rows that stay in their cell are exchanged, too, and all matches are by lot.
    form : WideForm or None
        How the rows of a group stand side by side in wide rows, where groups are exchanged.
    """

    columns: list[ColumnRelease]
    seen: list[Name]
    strata: Strata
    cells: ScoredCells | LikeCells | ValueCells
    distance: Distance
    counted: Sequence[Counted]
    costs: FloatArray
    notion: Notion
    over_boxes: bool
    by_secret: bool
    shuffle: bool
    form: WideForm | None = None

    def read(self, table: AnyTable) -> tuple[WideRows | None, Columns]:
        """Return the wide rows of groups, if there are any, and the columns of cells."""
        if self.form is None:
            return None, columns_of(table, self.seen)
        return self.form.read(table)

    @property
    def public(self) -> list[Name]:
        """The columns that are exchanged; of groups, those of wide rows."""
        names = [release.column.name for release in self.columns]
        return names if self.form is None else self.form.names(names)

    by_row: ClassVar[bool] = False
    untested: ClassVar[str] = (
        'on_drift="raise" is for columns that noise releases, and rows are '
        "swapped as they are, whatever their distribution; look at certificate_.check(X), and "
        'pass on_drift="ignore".'
    )

    @property
    def released_columns(self) -> list[Column]:
        """The columns that are exchanged, row by row."""
        return [release.column for release in self.columns]

    def to_record(self) -> NoReturn:
        """Refuse: cells are those of a classifier."""
        raise ValueError(
            "a swap is made of a classifier, which JSON does not hold; save the noiser with "
            "joblib, and keep it where you keep the table."
        )

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> NoReturn:
        """Refuse: no artifact holds a swap."""
        raise NotImplementedError

    def context(self, fingerprint: str, keying: Keying) -> str:
        """Return the fingerprint.

        The name of the data set does not count: under another name the same people would be swapped
        anew.
        """
        return fingerprint

    def fingerprint(self, certificate: Any, *about: object) -> str:
        """Return the digest that identifies this swap, together with other values."""
        distributions = [(column.sensitive, column.counts, column.pairs) for column in self.counted]
        swap = (self.public, self.strata, distributions, self.costs, self.notion)
        rules = (self.over_boxes, self.by_secret, self.shuffle, self.cells.count)
        return digest("sklearn_puffer.swap/1", swap, rules, *about)

    def released(
        self,
        table: Table,
        rules: TableRules,
        draw: Draw,
        assigned: tuple[Array, Array] | None = None,
    ) -> tuple[Any, None]:
        """Return a table in the caller's own type, its public rows exchanged among their owners.

        ``assigned`` is the stratum and the cell of each row, where they are known.

        Raises
        ------
        UncertifiedError
            If the flows between the cells of this table do not keep the budget.
        TypeError, ValueError
            If the table does not fit, or is too small.
        """
        wide, columns = self.read(table)
        check_size(table.n_rows)
        if wide is not None:
            _check_groups(len(wide), keyed=draw.keyed is not None)
        assigned = self.assigned(columns) if assigned is None else assigned
        solved = self.solved(*assigned)
        self.prove(solved)
        choices, ranked = Choices(draw.entropy(0)), None
        if (keyed := draw.keyed) is not None:
            digests = row_digests(columns)
            about = keyed.key, keyed.context, keyed.ids
            choices, ranked, whole = keyed_choices(*about, assigned, digests, solved)
            keyed.note_together(whole)

        def points(rows: Array) -> Points:
            return self.distance.points({n: columns[n].taken(rows) for n in self.public})

        gets = self.permutation(assigned, points, choices, solved, ranked)
        gets = gets if wide is None else wide.row_by_row(gets)
        return self.written(table, rules.order, lambda name: table.original(name, gets)), None

    def written(self, table: Table, order: Sequence[Name], exchanged: Callable[[Name], Any]) -> Any:
        """Return a table with its columns exchanged, and equal values written alike.

        Parameters
        ----------
        table : Table
        order : sequence of names
            All columns of the result.
        exchanged : callable
            Returns a public column in the order of its new owners.
        """
        public = {release.column.name for release in self.columns}
        columns = {
            name: alike(exchanged(name)) if name in public else table.original(name)
            for name in order
        }
        return table.build(
            {name: Finished(column, passed=True) for name, column in columns.items()}
        )

    def assigned(self, columns: Columns) -> tuple[Array, Array]:
        """Return the stratum and the cell of each row."""
        n_rows = len(next(iter(columns.values())))
        strata = self.strata.of(columns, n_rows)
        with task("rows scored"):
            return strata, self.cells.of(columns, self.public)

    def solved(self, strata: Array, cells: Array) -> list[Solved]:
        """Return the mean flows of each stratum that has rows, not yet proven."""
        sizes = np.zeros((int(strata.max()) + 1, len(self.costs)), dtype=np.int64)
        np.add.at(sizes, (strata, cells), 1)
        return self.solved_for(sizes)

    def solved_for(self, sizes: IntArray) -> list[Solved]:
        """Return the mean flows for numbers of rows in each stratum and cell."""
        there = np.flatnonzero(sizes.sum(axis=1))
        return [self._solved(int(k), sizes[k]) for k in counted(there, "strata solved")]

    def _solved(self, stratum: int, sizes: IntArray) -> Solved:
        cells = np.flatnonzero(sizes)
        distributions = [
            column.distributions(cells, boxes=self.over_boxes) for column in self.counted
        ]
        problem = SwapProblem(
            sizes[cells],
            distributions,
            self.costs[np.ix_(cells, cells)],
            self.weights(distributions, sizes[cells]),
            self.notion,
        )
        return Solved(stratum, cells, mean_flows(problem), problem)

    def weights(self, distributions: Sequence[SwapDistributions], sizes: IntArray) -> FloatArray:
        """Return the weight of a row of each cell in the cost."""
        if not self.by_secret:
            return np.ones(len(sizes))
        weights = np.zeros(len(sizes))
        for column in distributions:
            totals = np.maximum(column.shares @ sizes, 1e-300)
            weights += (column.shares / totals[:, None]).mean(axis=0) * sizes.sum()
        return weights / len(distributions)

    def prove(self, solved: Sequence[Solved]) -> None:
        """Refuse flows that do not keep the budget.

        Raises
        ------
        UncertifiedError
            If the flows of some stratum lose more.
        """
        for stratum in solved:
            losses = [stratum.losses(column) for column in stratum.problem.distributions]
            loss = np.max([ends[..., 1].max() for ends in losses])
            if not loss <= self.notion.budget:
                raise UncertifiedError(
                    f"a swap of these rows would lose {loss:.6g}, more than the budget "
                    f"{self.notion.budget_name()}, which is as small as the roundings of whole "
                    "flows; choose a larger epsilon."
                )

    def permutation(
        self,
        assigned: tuple[Array, Array],
        points: Callable[[Array], Points],
        choices: Choices,
        solved: Sequence[Solved],
        order: Array | None = None,
    ) -> Array:
        """Return whose public row each owner gets.

        Parameters
        ----------
        assigned : tuple of ndarray
            The stratum and the cell of each row.
        points : callable
            From rows to `Points`: called once, for those that leave.
        choices : Choices
        solved : sequence of Solved
        order : ndarray of int, optional
            The rows in an order that does not depend on that of the table; nor do then the draws.
        """
        strata, cells = assigned
        gets = np.arange(len(cells))
        order = gets.copy() if order is None else order
        pairs = []  # who leaves a cell of a stratum, and the places for them, not matched
        for stratum in solved:
            rows = order[strata[order] == stratum.stratum]
            local = np.searchsorted(stratum.cells, cells[rows])
            flows = whole_rows(stratum.flows, choices)
            allotted = leavers_and_places(local, flows, choices, shuffle=self.shuffle)
            pairs += [(rows[leavers], rows[to]) for leavers, to in allotted]
        if self.shuffle or not pairs:
            for leavers, to in pairs:
                gets[leavers] = to
            return gets
        leaving = np.sort(np.concatenate([leavers for leavers, _ in pairs]))
        as_points = points(leaving)

        def costs(owners: Array, sources: Array) -> FloatArray:
            """Return the costs of exchanging rows that leave."""
            at, to = np.searchsorted(leaving, owners), np.searchsorted(leaving, sources)
            return as_points.between(at, to)

        for leavers, to in counted(pairs, "cells matched"):
            gets[leavers] = matched(leavers, to, costs)
        return gets


def keyed_choices(
    key: bytes,
    context: str,
    ids: Array,
    assigned: tuple[Array, Array],
    digests: Array,
    solved: Sequence[Solved],
) -> tuple[Choices, Array, str]:
    """Return choices that depend on key, context, table and flows, the order of ids, and a digest.

    The order does not depend on that of the table. Any other row, or another solution, gives other
    choices. The digest is of all that they depend on.
    """
    order = np.lexsort(ids.T)
    flows = [(stratum.stratum, stratum.cells, stratum.flows) for stratum in solved]
    rows = [column[order] for column in (ids, *assigned, digests)]
    whole = digest("sklearn_puffer.swapped/3", context, *rows, flows)
    return Choices(Stream(hmac.digest(key, whole.encode(), "sha512"))), order, whole


def _check_groups(count: int, *, keyed: bool) -> None:
    """Refuse few groups, and a key: a group would be another with its rows in another order."""
    if count < LEAST_ROWS:
        raise ValueError(
            f"X has {count} group(s), and a swap of groups needs {LEAST_ROWS} to exchange: fewer "
            "have hardly anybody to swap with; collect more."
        )
    if keyed:
        raise ValueError(
            "row_id= makes a swap the same however rows come, and groups= are exchanged with their "
            "rows in the order of the table; leave row_id out, release once and keep it."
        )


def check_size(n_rows: int) -> None:
    if n_rows < LEAST_ROWS:
        raise ValueError(
            f"X has {n_rows} row(s), and a swap needs {LEAST_ROWS} to exchange: fewer have hardly "
            'anybody to swap with; collect more rows, use noise="laplace", which releases them '
            "one by one, or set rows of fit aside for that (noise=RecordSwap(donors=0.3))."
        )


def swap_of(fitted: FittedMechanism) -> SwapRelease | None:
    """Return the mechanism of a fitted release, where it is a swap."""
    return fitted.mechanism if isinstance(fitted.mechanism, SwapRelease) else None
