"""Rows released one by one by a swap: what `fit` sets aside and proves, and how donors are given.

A row of cell a goes to cell b with the chance that `fit` solved for. It stays as it is if b = a,
and else becomes a donor of b. So it tells what cells tell, by the counts of `fit`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, as_array, listed, quoted, task
from sklearn_puffer._losses import SwapDistributions
from sklearn_puffer._noise import Choices, Entropy, NotCopied, Stream
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import SwapFit, find_swap, read_rows, tallies
from sklearn_puffer._noiser.swap_release import Solved, SwapRelease
from sklearn_puffer._noiser.swap_result import largest_gap, margin_of_rows
from sklearn_puffer._noiser.swap_rows import Columns, Distance, Points, ValueCells, columns_of
from sklearn_puffer._release import (
    CountedTable,
    FitRows,
    OverspentError,
    ReserveFacts,
    Seen,
    column_of,
)
from sklearn_puffer._sets import ONE, cell_bounds, cell_share
from sklearn_puffer._swaps import (
    RUNS_OUT,
    Costs,
    Pool,
    SwapProblem,
    UsedUpError,
    mean_flows,
    most_rows,
)
from sklearn_puffer._tables import (
    AnyTable,
    LazyTable,
    Name,
    Table,
    array_table,
    check_no_identifier,
    frame_table,
    is_frame,
    placed_in,
    readable,
    records_frame,
    row_digests,
)
from sklearn_puffer.noise import record_swap

LEAST = 8
"""Rows of the reserve in a cell, below which the cell counts with the nearest one."""

LEAST_SERVED = 100
"""Rows that are released one by one, below which `fit` warns."""

_TESTED = 30  # rows of a cell, here and in fit, from which on their values are compared
_PARTS = 1 << 30  # of a row, in which cells that count together are written
_SEED = b"sklearn_puffer: rows one by one that are never released, to see what it changes"
_MOST_TRIED = 1 << 12  # rows of that trial
_IN_DOUBLES = (1 << 53) - 1


@dataclass(frozen=True, eq=False)
class Served(Solved):
    r"""The flows by which rows of a stratum are released one by one.

    Attributes
    ----------
    homes : ndarray of int of shape (n_all_cells,)
        The index in ``cells`` of the cell that each counts with. A row of a cell that is not among
        ``cells`` is never released.
    counted, boxed : sequence of SwapDistributions
        For each sensitive column: the shares counted, and boxes around the distributions of cells
        given each secret, of which :math:`N_a q_s(a) \propto P(a \mid s)`.
    most : int
        How many rows are released.
    moved_loss : float
        How far odds change for a reader who finds that the holder of a row was moved.
    unchanged : float
        The fitted rows that would stay as they are, on average.
    """

    homes: Array
    counted: Sequence[SwapDistributions]
    boxed: Sequence[SwapDistributions]
    most: int
    moved_loss: float
    unchanged: float

    def distributions_of(self, position: int, counted: Any, *, boxes: bool) -> SwapDistributions:
        """Return the distributions over cells for one sensitive column."""
        return (self.boxed if boxes else self.counted)[position]


# ---------------------------------------------------------------------------------------- in fit


def with_reserve(settings: Settings, given: FitRows, entropy: Entropy) -> tuple[SwapFit, Service]:
    """Return the swap fitted to the rows that are not set aside, and the service of the others.

    Raises
    ------
    TypeError, ValueError
        If rows are weighted, the donors do not fit, or are too few.
    """
    assert settings.swap is not None
    table = given.table
    if isinstance(table, LazyTable):
        raise ValueError(
            "donors are kept in memory, and X is a lazy table; collect it first, or leave donors "
            "out of RecordSwap."
        )
    if given.sample_weight is not None:
        raise ValueError(
            "sample_weight counts rows several times, and a donor is given once; leave it out, or "
            "leave donors out of RecordSwap."
        )
    choices, share = Choices(entropy), settings.swap.share
    aside: Any = table
    weights = None
    if share is not None:
        weights = np.ones(table.n_rows, dtype=np.int64)
        weights[choices.shuffled(table.n_rows)[: int(share * table.n_rows)]] = 0
    else:
        aside = _donor_table(settings.swap.donors, table)
    read = read_rows(settings, replace(given, sample_weight=weights))
    absent = [name for name in read.seen if name not in aside.names]
    if absent:
        raise ValueError(
            f"donors lack column(s) {listed(absent, 10)}; give a table with the columns of X."
        )
    both: tuple[Any, Any] = table, aside
    for name in read.public:  # refused in another type, such as shorter floats
        for rows in both:
            rows.in_form_of(name, aside)
    if weights is None:
        for name in read.public:
            named = settings.columns.public is not None
            check_no_identifier(name, aside.values(name), named=named)
    fit = find_swap(read)
    rows, columns = _reserve(fit, aside, weights)
    strata, cells = fit.release.assigned(columns)
    if weights is None:
        _check_others(fit, columns)
        _check_like(fit, columns, cells)
    mixed = choices.shuffled(len(rows))
    split = np.zeros(len(rows), dtype=bool)
    split[mixed[::2]] = True  # donors; the others are senders
    served = _served_strata(fit, strata, cells, split)
    facts = ReserveFacts(
        n_donors=int(split.sum()),
        rows=tuple(stratum.most for stratum in served),
        chance=RUNS_OUT,
        moved_loss=max(stratum.moved_loss for stratum in served),
        unchanged=sum(stratum.unchanged for stratum in served) / fit.read.n_rows,
    )
    tried = _tried(fit, served)
    fit = replace(fit, solved=served, reserve=facts, one_by_one=tried)
    pools = [
        _pool(stratum, mixed[strata[mixed] == stratum.stratum], cells, split) for stratum in served
    ]
    points = _points(fit.release.distance, columns, fit.read.exchanged)
    return fit, Service(served, pools, aside, rows, points, fit)


def _donor_table(donors: Any, table: AnyTable) -> Any:
    """Return donors as a table of the type of X."""
    donors = readable(donors, "donors")
    frame = is_frame(donors)
    aside = frame_table(donors, "donors") if frame else array_table(as_array(donors, "donors"))
    if type(aside) is not type(table):
        kind = type(donors)
        raise TypeError(
            f"donors are a {kind.__name__} of {kind.__module__.partition('.')[0]}, and X is a "
            "table of another type; give them in the type of X, with its columns."
        )
    return aside


def few_served(fit: SwapFit) -> list[str]:
    """Return a warning where the donors are for hardly any rows."""
    assert fit.reserve is not None
    least = min(fit.reserve.rows)
    if least >= LEAST_SERVED:
        return []
    whose = "" if len(fit.reserve.rows) == 1 else " of a class of known and passed columns"
    return [
        f"the donors are for {least} rows{whose}, and then transform refuses more; give more "
        "donors, fewer cells (RecordSwap(cells=...)), or a larger epsilon."
    ]


def _reserve(fit: SwapFit, aside: Any, weights: Array | None) -> tuple[Array, Columns]:
    """Return the positions of the rows that are set aside, and their columns."""
    mask = np.ones(aside.n_rows, dtype=np.int64) if weights is None else 1 - weights
    if not mask.any():
        raise ValueError(_too_few(fit, 0, "all cells"))
    columns = columns_of(CountedTable(aside, mask), fit.read.seen)
    cells = fit.release.cells
    if isinstance(cells, ValueCells):  # which hold values of fit alone
        digests = row_digests({name: columns[name] for name in cells.names})
        mask[np.flatnonzero(mask)[~np.isin(digests, cells.digests)]] = 0
        columns = columns_of(CountedTable(aside, mask), fit.read.seen)
    return np.flatnonzero(mask), columns


def _check_others(fit: SwapFit, columns: Columns) -> None:
    """Refuse donors that are the fitted rows: a release of these would show them."""
    digests = row_digests({name: columns[name] for name in fit.read.public})
    if (
        len(np.unique(digests)) > len(digests) // 2
        and np.isin(digests, fit.read.digests).mean() > 0.9
    ):
        raise ValueError(
            "donors are rows of X, most of which occur once; give rows of other people, or a "
            "share, donors=0.3, which sets rows of X aside."
        )


def _check_like(fit: SwapFit, columns: Columns, cells: Array) -> None:
    """Refuse donors of some cell that are unlike the fitted rows of it, column by column."""
    read, fitted_cells = fit.read, fit.assigned[1]
    n_cells = fit.release.cells.count
    sizes = [np.bincount(assigned, minlength=n_cells) for assigned in (fitted_cells, cells)]
    tested = np.flatnonzero(np.minimum(*sizes) >= _TESTED)
    for name in read.public:
        column = column_of(name, read.columns[name])
        placed = placed_in(column, columns[name])
        for cell in tested:
            margin = margin_of_rows(column, read.columns[name], read.weights, fitted_cells == cell)
            here = cells == cell
            seen = Seen.of(margin, placed, here)
            if seen.compared(len(tested) * len(read.public), int(here.sum())).drifted:
                raise ValueError(
                    f"donors have other values of column {name!r} than fitted rows of the same "
                    "cell, and whoever gets one would be told by it; give rows drawn by lot from "
                    "the same people, or a share, donors=0.3."
                )


def _served_strata(fit: SwapFit, strata: Array, cells: Array, donor: Array) -> list[Served]:
    n_strata, n_cells = fit.release.strata.count, fit.release.cells.count
    reserve = np.zeros((n_strata, n_cells), dtype=np.int64)
    np.add.at(reserve, (strata, cells), 1)
    donors = np.zeros_like(reserve)
    np.add.at(donors, (strata[donor], cells[donor]), 1)
    level = 1.0 - 0.05 / len(fit.tried)
    n_distributions = sum(len(column.labels) for column in fit.release.counted) + 1
    share = cell_share(level, [n_cells] * (n_distributions * n_strata))
    return [_served(fit, k, reserve[k], donors[k], share) for k in range(n_strata)]


def _served(fit: SwapFit, stratum: int, reserve: Array, donors: Array, share: float) -> Served:
    """Return the flows of a stratum, solved and in whole numbers, but not yet proven."""
    read, release = fit.read, fit.release
    mine = fit.assigned[0] == stratum
    at, weights = fit.assigned[1][mine], read.weights[mine]
    sizes = np.bincount(at, weights, len(reserve)).astype(np.int64)
    cells = np.flatnonzero((reserve >= LEAST) & (donors > 0) & (sizes > 0))
    if not cells.size:
        raise ValueError(_too_few(fit, int(reserve.max()), "some stratum"))
    homes = release.costs[:, cells].argmin(axis=1)
    homes[cells] = np.arange(len(cells))
    joined = homes == np.arange(len(cells))[:, None]
    together = np.where(joined, sizes, 0).sum(axis=1)
    counted, boxed, moved = [], [], []
    for column in release.counted:
        codes, n_secrets = read.codes[column.sensitive][mine], len(column.labels)
        counts = _joined_counts(column.counts, sizes, joined)
        counted.append(SwapDistributions(counts, column.pairs))
        here = tallies(codes, at, weights, n_secrets, len(sizes))
        low, high = _distribution_boxes(here, share)
        ends = np.stack([low @ joined.T, np.minimum(high @ joined.T, 1.0)])
        ends = np.nextafter(np.nextafter(ends / together, [[[0.0]], [[1.0]]]), [[[0.0]], [[1.0]]])
        boxed.append(SwapDistributions(counts, column.pairs, ends))
    distributions = [*counted, *boxed] if release.over_boxes else counted
    costs = release.costs[np.ix_(cells, cells)]
    problem = SwapProblem(
        together, distributions, costs, release.weights(counted, together), release.notion
    )
    flows = mean_flows(problem)
    takes = _takes(flows, homes, cells)
    _, most_often = _distribution_boxes(sizes[None], share)
    most = most_rows((most_often @ takes)[0], donors[cells], RUNS_OUT / release.strata.count)
    for column in release.counted:
        shares = column.counts / np.maximum(column.counts.sum(axis=0), 1)
        moved.append(moved_loss(sizes * shares, takes, column.pairs))
    stay = float(sizes @ (1.0 - takes.sum(axis=1)))
    return Served(stratum, cells, flows, problem, homes, counted, boxed, most, max(moved), stay)


def _takes(flows: IntArray, homes: Array, cells: Array) -> FloatArray:
    """Return the chance with which a row of each cell takes a donor of each cell that has some."""
    takes = (flows / flows.sum(axis=1, keepdims=True))[homes]
    takes[cells, np.arange(len(cells))] = 0.0
    return np.asarray(takes)


def moved_loss(distributions: FloatArray, takes: FloatArray, pairs: Array) -> float:
    """Return how far odds change for a reader who knows that a row has left its owner."""
    masses = distributions @ takes
    reached = masses.sum(axis=0) > 0.0
    return largest_gap(masses[:, reached], distributions.sum(axis=1), pairs)


def _joined_counts(counts: IntArray, sizes: IntArray, joined: Array) -> IntArray:
    """Return counts with the shares of joined cells, weighted by the rows of each here."""
    shares = counts / np.maximum(counts.sum(axis=0), 1) * sizes
    joined_counts: IntArray = np.rint(shares @ joined.T * _PARTS).astype(np.int64)
    alone = np.flatnonzero(np.where(joined, sizes > 0, False).sum(axis=1) == 1)
    only = [int(np.flatnonzero(joined[k] & (sizes > 0))[0]) for k in alone]
    joined_counts[:, alone] = counts[:, only]  # as counted, to the last digit
    return joined_counts


def _distribution_boxes(counts: IntArray, share: float) -> FloatArray:
    """Return ends of the probabilities of cells under each secret, shape (2, n_secrets, n)."""
    boxes = np.zeros((2, *counts.shape))
    boxes[1] = 1.0
    for k, tally in enumerate(counts):
        if tally.any():
            lower, upper = cell_bounds(tally, share)
            boxes[:, k] = lower / ONE, upper / ONE
    return boxes


def _pool(served: Served, rows: Array, cells: Array, donor: Array) -> Pool:
    """Return the reserve of a stratum, whose rows come in a random order."""

    def by_cell(mask: Array, of_cells: Any) -> list[list[int]]:
        return [rows[(cells[rows] == cell) & mask[rows]].tolist() for cell in of_cells]

    senders, donors = by_cell(~donor, range(len(served.homes))), by_cell(donor, served.cells)
    return Pool(served.homes, served.cells, served.flows, senders, donors)


def _tried(fit: SwapFit, served: Sequence[Served]) -> tuple[Array, Array]:
    """Return some fitted rows, and what they become with the others as the reserve."""
    read, (strata, cells) = fit.read, fit.assigned
    choices = Choices(Stream(_SEED))
    mixed = np.argsort(read.digests, kind="stable")[choices.shuffled(len(cells))]
    few = min(len(cells) // 4, _MOST_TRIED)
    rows, rest = mixed[:few], mixed[few:]
    split = np.zeros(len(cells), dtype=bool)
    split[rest[::2]] = True
    pools = [
        _pool(stratum, rest[strata[rest] == stratum.stratum], cells, split) for stratum in served
    ]
    points = _points(fit.release.distance, read.exchanged, read.exchanged)
    gets = rows.copy()
    for k, row in enumerate(rows.tolist()):
        try:
            got = pools[strata[row]].released(row, int(cells[row]), points.between, choices)
        except UsedUpError:
            return rows[:k], gets[:k]
        gets[k] = row if got is None else got
    return rows, gets


def _too_few(fit: SwapFit, most: int, where: str) -> str:
    n_cells, n_strata = fit.release.cells.count, fit.release.strata.count
    return (
        f"donors leave {most} rows at most to a cell of {where}, and {LEAST} are needed; give some "
        f"{10 * LEAST * n_cells * n_strata} donors for {n_cells} cells in {n_strata} class(es), or "
        "take fewer cells (RecordSwap(cells=...))."
    )


# ------------------------------------------------------------------------------------ in transform


class Service(NotCopied):
    """A reserve that is used up row by row, in the memory of one process.

    Whether a release is refused depends on the number of rows of each stratum released before,
    unless a cell runs out of donors.
    """

    def __init__(
        self,
        served: Sequence[Served],
        pools: Sequence[Pool],
        aside: Any,
        rows: Array,
        points: Points,
        fit: SwapFit,
    ) -> None:
        self._pools, self._aside, self._rows, self._points = pools, aside, rows, points
        self._own = fit.read.exchanged
        self._most = np.array([stratum.most for stratum in served])
        self._released = np.zeros(len(served), dtype=np.int64)
        self._lock, self._process = Lock(), os.getpid()

    def served(
        self,
        release: SwapRelease,
        table: Table,
        passed: Sequence[Name],
        order: Sequence[Name],
        entropy: Entropy,
    ) -> Any:
        """Return a table in the caller's own type, each row of which was released by itself.

        Raises
        ------
        OverspentError
            If that is more rows than the reserve is for.
        TypeError, ValueError
            If the table does not fit.
        """
        self._check_process()
        if type(table) is not type(self._aside):
            raise TypeError(
                "X is a table of another type than the donors, whose values it would hold; give "
                "rows in the type of the table that was fitted."
            )
        for name in release.public:  # in the type of the donors, before one of them is drawn
            table.in_form_of(name, self._aside)
        columns = columns_of(table, [*release.public, *passed])
        strata, cells = release.assigned(columns)
        costs = self._costs(_points(release.distance, columns, self._own))
        with self._lock, task("rows drawn"):
            self._count(strata)
            gets = self._drawn(strata, cells, costs, Choices(entropy))
        return release.written(table, order, lambda name: table.replaced(name, self._aside, gets))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ValueError(NO_RESERVE)

    def _count(self, strata: Array) -> None:
        """Count rows as released, before their values are looked at."""
        after = self._released + np.bincount(strata, minlength=len(self._released))
        beyond = np.flatnonzero(after > self._most)
        if beyond.size:
            worst = beyond[0]
            raise OverspentError(
                f"the donors are for {self._most[worst]} rows of a stratum, of which "
                f"{self._released[worst]} were released, and these are "
                f"{after[worst] - self._released[worst]} more; fit again, with other donors."
            )
        self._released = after

    def _costs(self, came: Points) -> Costs:
        """Return the costs between rows; new rows are numbered after the reserve."""
        first = len(self._rows)

        def costs(owners: Array, donors: Array) -> FloatArray:
            new, few = owners >= first, np.arange(len(owners))
            theirs = came.taken(np.where(new, owners - first, 0))
            known = self._points.taken(np.append(np.where(new, 0, owners), donors))
            both = known.followed_by(theirs)
            return both.between(
                few + new * len(known.numbers), len(owners) + np.arange(len(donors))
            )

        return costs

    def _drawn(self, strata: Array, cells: Array, costs: Costs, choices: Choices) -> Array:
        """Return the row of the reserve that each row becomes, -1 for none."""
        gets = np.full(len(cells), -1)
        first = len(self._rows)
        for row, (stratum, cell) in enumerate(zip(strata.tolist(), cells.tolist(), strict=True)):
            try:
                donor = self._pools[stratum].released(first + row, cell, costs, choices)
            except UsedUpError:
                self._most[stratum] = self._released[stratum]
                raise OverspentError(
                    "the donors of a cell ran out before the limit, which has a chance of "
                    f"{RUNS_OUT:g} where rows come as in fit, so that nothing is released; fit "
                    "again, with other donors."
                ) from None
            gets[row] = -1 if donor is None else self._rows[donor]
        return gets

    def left(self) -> Any:
        """Return what is left of the reserve as a frame."""
        self._check_process()
        with self._lock:
            records = [
                (stratum, int(cell), len(donors), len(pool.senders[cell]), rows)
                for stratum, pool in enumerate(self._pools)
                for rows in [int(self._most[stratum] - self._released[stratum])]
                for cell, donors in zip(pool.cells, pool.donors, strict=True)
            ]
        return records_frame(records, ["stratum", "cell", "donors", "senders", "rows_left"])


NO_RESERVE = (
    "there are no donors here: the reserve of a swap is in the memory of the process that fitted, "
    "and in no copy of the noiser, so that no donor is given twice; release rows where you fitted, "
    "or fit here, with other donors."
)


def check_keyless(keying: Any) -> None:
    """Refuse keyed releases of single rows, for which a donor would be given again."""
    if keying is not None:
        raise ValueError(
            "row_id asks for a release that can be repeated, and a donor is given once; leave "
            "row_id and key out, and keep what was released, or leave donors out of RecordSwap."
        )


def gives_donors(noise: Any) -> bool:
    """Return whether a swap releases rows one by one."""
    swap = record_swap(noise)
    return swap is not None and swap.donors is not None


def refuse_share(noise: Any) -> Any:
    """Return the donors of a swap; refuse a share, as the rows that it is taken from come, too."""
    swap = record_swap(noise)
    donors = None if swap is None else swap.donors
    if swap is not None and swap.share is not None:
        raise ValueError(
            f"donors={quoted(donors)} sets rows of X aside, which fit_transform would "
            "release; give donors as a table of other rows, or call fit(X), and transform for "
            "rows to come."
        )
    return donors


def _points(distance: Distance, columns: Columns, fitted: Columns) -> Points:
    """Return rows as points that compare with those of other tables: values are digests."""
    numbers, codes, units = [], [], []
    for name, unit in distance.units.items():
        values = columns[name]
        if distance.numbers(name, fitted[name]) is None:
            codes.append((row_digests({name: values}) & _IN_DOUBLES).astype(float))
            units.append(1.0 / unit)
            continue
        axis = distance.numbers(name, values)
        axis = np.full(len(values), np.nan) if axis is None else axis
        gone = np.isnan(axis)
        numbers.append(np.where(gone, 0.0, axis / unit))
        codes.append(gone.astype(float))
        units.append(1.0)
    n_rows = len(next(iter(columns.values())))
    parts = [np.array(axes).reshape(len(axes), n_rows).T for axes in (numbers, codes)]
    return Points(np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1]), np.array(units))
