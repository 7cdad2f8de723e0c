"""Rows released one by one by a swap: what `fit` sets aside, what it proves, and how it is given.

A row of cell a goes to cell b with the chance that `fit` solved for; it stays as it is if b = a,
and else becomes a donor of b. What it tells is what `fit` counted of cells.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, as_array, listed, quoted, task
from sklearn_puffer._losses import SwapDistributions
from sklearn_puffer._noise import Choices, Entropy, NotCopied, Stream
from sklearn_puffer._noiser.checked_rows import column_of, margin_of_rows
from sklearn_puffer._noiser.drift import Seen
from sklearn_puffer._noiser.read_table import CountedTable
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import SwapFound, find_swap, read_rows, tallies
from sklearn_puffer._noiser.swap_release import Solved, SwapRelease
from sklearn_puffer._noiser.swap_result import largest_gap
from sklearn_puffer._noiser.swap_rows import Columns, Distance, Points, ValueCells, columns_of
from sklearn_puffer._releases import OverspentError, ReserveFacts
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
    Values,
    array_table,
    frame_table,
    is_frame,
    known,
    placed_in,
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
        The place in ``cells`` of the cell that each counts with. A row of a cell that is not among
        ``cells`` is never released.
    counted, boxed : sequence of SwapDistributions
        For each sensitive column: the shares counted, and boxes around the distributions of cells
        given each secret, of which :math:`N_a q_s(a) \propto P(a \mid s)`.
    most : int
        How many rows are released.
    moved_loss : float
        How far odds move for who finds that the holder of a row was moved.
    unchanged : float
        The fitted rows that would stay as they are, on average.
    """

    homes: Array
    counted: Sequence[SwapDistributions]
    boxed: Sequence[SwapDistributions]
    most: int
    moved_loss: float
    unchanged: float

    def distributions_of(self, place: int, counted: Any, *, boxes: bool) -> SwapDistributions:
        """Return what cells tell of one sensitive column."""
        return (self.boxed if boxes else self.counted)[place]


# ---------------------------------------------------------------------------------------- in fit


def with_reserve(
    settings: Settings,
    table: AnyTable,
    given: Mapping[Name, Values] | None,
    sample_weight: Any,
    entropy: Entropy,
) -> tuple[SwapFound, Service]:
    """Return what `fit` finds in the rows that are not set aside, and the service of the others.

    Raises
    ------
    TypeError, ValueError
        If rows are weighted, the donors do not fit, or are too few.
    """
    assert settings.swap is not None
    if isinstance(table, LazyTable):
        raise ValueError(
            "donors are kept in memory, and X is a lazy table; collect it first, or leave donors "
            "out of RecordSwap."
        )
    if sample_weight is not None:
        raise ValueError(
            "sample_weight counts rows several times, and a donor is given once; leave it out, or "
            "leave donors out of RecordSwap."
        )
    choices, donors = Choices(entropy), settings.swap.donors
    aside: Any = table
    weights = None
    share = settings.swap.share
    if share is not None:
        weights = np.ones(table.n_rows, dtype=np.int64)
        weights[choices.shuffled(table.n_rows)[: int(share * table.n_rows)]] = 0
    else:
        donors = known(donors, "donors")
        frame = is_frame(donors)
        aside = frame_table(donors, "donors") if frame else array_table(as_array(donors, "donors"))
        if type(aside) is not type(table):
            kind = type(donors)
            raise TypeError(
                f"donors are a {kind.__name__} of {kind.__module__.partition('.')[0]}, and X is a "
                "table of another type; give them in the type of X, with its columns."
            )
    read = read_rows(settings, table, given, weights)
    absent = [name for name in read.seen if name not in aside.names]
    if absent:
        raise ValueError(
            f"donors lack column(s) {listed(absent, 10)}; give a table with the columns of X."
        )
    both: tuple[Any, Any] = table, aside
    for name in read.public:  # refused in another form, such as shorter floats
        for rows in both:
            rows.in_form_of(name, aside)
    found = find_swap(read)
    rows, columns = _reserve(found, aside, weights)
    strata, cells = found.release.places(columns)
    if weights is None:
        _check_others(found, columns)
        _check_like(found, columns, cells)
    mixed = choices.shuffled(len(rows))
    split = np.zeros(len(rows), dtype=bool)
    split[mixed[::2]] = True  # donors; the others are senders
    served = _served_strata(found, strata, cells, split)
    facts = ReserveFacts(
        n_donors=int(split.sum()),
        rows=tuple(each.most for each in served),
        chance=RUNS_OUT,
        moved_loss=max(each.moved_loss for each in served),
        unchanged=sum(each.unchanged for each in served) / found.read.n_rows,
    )
    tried = _tried(found, served)
    found = replace(found, solved=served, reserve=facts, one_by_one=tried)
    pools = [_pool(each, mixed[strata[mixed] == each.stratum], cells, split) for each in served]
    points = _points(found.release.distance, columns, found.read.own)
    return found, Service(served, pools, aside, rows, points, found)


def few_served(found: SwapFound) -> list[str]:
    """Return a warning where hardly any rows will be released, if that is so."""
    assert found.reserve is not None
    least = min(found.reserve.rows)
    if least >= LEAST_SERVED:
        return []
    whose = "" if len(found.reserve.rows) == 1 else " of a class of known and passed columns"
    return [
        f"the donors are for {least} rows{whose}, and then transform refuses more; give more "
        "donors, take fewer cells (RecordSwap(cells=...)), or a larger epsilon, under which fewer "
        "rows move."
    ]


def _reserve(found: SwapFound, aside: Any, weights: Array | None) -> tuple[Array, Columns]:
    """Return the places of the rows that are set aside, and their columns."""
    mask = np.ones(aside.n_rows, dtype=np.int64) if weights is None else 1 - weights
    if not mask.any():
        raise ValueError(_too_few(found, 0, "all cells"))
    columns = columns_of(CountedTable(aside, mask), found.read.seen)
    cells = found.release.cells
    if isinstance(cells, ValueCells):  # which only have values of fit, in rows to come, too
        own = row_digests({name: columns[name] for name in cells.names})
        mask[np.flatnonzero(mask)[~np.isin(own, cells.digests)]] = 0
        columns = columns_of(CountedTable(aside, mask), found.read.seen)
    return np.flatnonzero(mask), columns


def _check_others(found: SwapFound, columns: Columns) -> None:
    """Refuse donors that are the fitted rows: a release of these would show them."""
    own = row_digests({name: columns[name] for name in found.read.public})
    if len(np.unique(own)) > len(own) // 2 and np.isin(own, found.read.digests).mean() > 0.9:
        raise ValueError(
            "donors are rows of X, most of which occur once; give rows of other people, or a "
            "share, donors=0.3, which sets rows of X aside."
        )


def _check_like(found: SwapFound, columns: Columns, cells: Array) -> None:
    """Refuse donors of some cell that are unlike the fitted rows of it, column by column."""
    read, own = found.read, found.places[1]
    among = [np.bincount(each, minlength=found.release.cells.count) for each in (own, cells)]
    tested = np.flatnonzero(np.minimum(*among) >= _TESTED)
    for name in read.public:
        column = column_of(name, read.columns[name])
        placed = placed_in(column, columns[name])
        for cell in tested:
            margin = margin_of_rows(column, read.columns[name], read.weights, own == cell)
            here = cells == cell
            seen = Seen.of(margin, placed, here)
            if seen.compared(len(tested) * len(read.public), int(here.sum())).drifted:
                raise ValueError(
                    f"donors have other values of column {name!r} than fitted rows of the same "
                    "cell, and whoever gets one would be told by it; give rows drawn by lot from "
                    "the same people, or a share, donors=0.3."
                )


def _served_strata(found: SwapFound, strata: Array, cells: Array, donor: Array) -> list[Served]:
    n_strata, n_cells = found.release.strata.count, found.release.cells.count
    reserve = np.zeros((n_strata, n_cells), dtype=np.int64)
    np.add.at(reserve, (strata, cells), 1)
    donors = np.zeros_like(reserve)
    np.add.at(donors, (strata[donor], cells[donor]), 1)
    level = 1.0 - 0.05 / len(found.tried)
    n_distributions = sum(len(each.labels) for each in found.release.counted) + 1
    share = cell_share(level, [n_cells] * (n_distributions * n_strata))
    return [_served(found, k, reserve[k], donors[k], share) for k in range(n_strata)]


def _served(found: SwapFound, stratum: int, reserve: Array, donors: Array, share: float) -> Served:
    """Return the flows of a stratum, solved and made whole, but proven by nobody yet."""
    read, release = found.read, found.release
    own = found.places[0] == stratum
    at, weights = found.places[1][own], read.weights[own]
    sizes = np.bincount(at, weights, len(reserve)).astype(np.int64)
    cells = np.flatnonzero((reserve >= LEAST) & (donors > 0) & (sizes > 0))
    if not cells.size:
        raise ValueError(_too_few(found, int(reserve.max()), "some stratum"))
    homes = release.costs[:, cells].argmin(axis=1)
    homes[cells] = np.arange(len(cells))
    joined = homes == np.arange(len(cells))[:, None]
    together = np.where(joined, sizes, 0).sum(axis=1)
    counted, boxed, moved = [], [], []
    for each in release.counted:
        tallies_of = tallies(
            read.codes[each.sensitive][own], at, weights, len(each.labels), len(sizes)
        )
        counted.append(SwapDistributions(_joined_counts(each.counts, sizes, joined), each.pairs))
        low, high = _distribution_boxes(tallies_of, share)
        ends = np.stack([low @ joined.T, np.minimum(high @ joined.T, 1.0)])
        ends = np.nextafter(np.nextafter(ends / together, [[[0.0]], [[1.0]]]), [[[0.0]], [[1.0]]])
        boxed.append(SwapDistributions(counted[-1].counts, each.pairs, ends))
    distributions = [*counted, *boxed] if release.over_boxes else counted
    costs = release.costs[np.ix_(cells, cells)]
    problem = SwapProblem(
        together, distributions, costs, release.weights(counted, together), release.notion
    )
    flows = mean_flows(problem)
    takes = _takes(flows, homes, cells)
    _, most_often = _distribution_boxes(sizes[None], share)
    most = most_rows((most_often @ takes)[0], donors[cells], RUNS_OUT / release.strata.count)
    for each in release.counted:
        shares = each.counts / np.maximum(each.counts.sum(axis=0), 1)
        moved.append(moved_loss(sizes * shares, takes, each.pairs))
    stay = float(sizes @ (1.0 - takes.sum(axis=1)))
    return Served(stratum, cells, flows, problem, homes, counted, boxed, most, max(moved), stay)


def _takes(flows: IntArray, homes: Array, cells: Array) -> FloatArray:
    """Return the chance with which a row of each cell takes a donor of each cell that has some."""
    takes = (flows / flows.sum(axis=1, keepdims=True))[homes]
    takes[cells, np.arange(len(cells))] = 0.0
    return np.asarray(takes)


def moved_loss(distributions: FloatArray, takes: FloatArray, pairs: Array) -> float:
    """Return how far odds move for who knows that a row is no longer with its owner."""
    masses = distributions @ takes
    some = masses.sum(axis=0) > 0.0
    return largest_gap(masses[:, some], distributions.sum(axis=1), pairs)


def _joined_counts(counts: IntArray, sizes: IntArray, joined: Array) -> IntArray:
    """Return counts whose shares are those of cells together, by the rows that each has here."""
    shares = counts / np.maximum(counts.sum(axis=0), 1) * sizes
    found: IntArray = np.rint(shares @ joined.T * _PARTS).astype(np.int64)
    alone = np.flatnonzero(np.where(joined, sizes > 0, False).sum(axis=1) == 1)
    only = [int(np.flatnonzero(joined[place] & (sizes > 0))[0]) for place in alone]
    found[:, alone] = counts[:, only]  # as counted, to the last digit
    return found


def _distribution_boxes(counts: IntArray, share: float) -> FloatArray:
    """Return ends of the probabilities of cells under each secret, shape (2, n_secrets, n)."""
    boxes = np.zeros((2, *counts.shape))
    boxes[1] = 1.0
    for place, own in enumerate(counts):
        if own.any():
            lower, upper = cell_bounds(own, share)
            boxes[:, place] = lower / ONE, upper / ONE
    return boxes


def _pool(served: Served, rows: Array, cells: Array, donor: Array) -> Pool:
    """Return what a stratum has of the reserve, whose rows come in a random order."""
    senders = [rows[(cells[rows] == cell) & ~donor[rows]] for cell in range(len(served.homes))]
    donors = [rows[(cells[rows] == cell) & donor[rows]] for cell in served.cells]
    as_lists = [[own.tolist() for own in each] for each in (senders, donors)]
    return Pool(served.homes, served.cells, served.flows, *as_lists)


def _tried(found: SwapFound, served: Sequence[Served]) -> tuple[Array, Array]:
    """Return fitted rows and what they become, others of them being the reserve."""
    read, (strata, cells) = found.read, found.places
    choices = Choices(Stream(_SEED))
    mixed = np.argsort(read.digests, kind="stable")[choices.shuffled(len(cells))]
    few = min(len(cells) // 4, _MOST_TRIED)
    rows, rest = mixed[:few], mixed[few:]
    split = np.zeros(len(cells), dtype=bool)
    split[rest[::2]] = True
    pools = [_pool(each, rest[strata[rest] == each.stratum], cells, split) for each in served]
    points = _points(found.release.distance, read.own, read.own)
    gets = rows.copy()
    for place, row in enumerate(rows.tolist()):
        try:
            got = pools[strata[row]].released(row, int(cells[row]), points.between, choices)
        except UsedUpError:
            return rows[:place], gets[:place]
        gets[place] = row if got is None else got
    return rows, gets


def _too_few(found: SwapFound, most: int, where: str) -> str:
    n_cells, n_strata = found.release.cells.count, found.release.strata.count
    return (
        f"donors leave {most} rows at most to a cell of {where}, and {LEAST} are needed; give some "
        f"{10 * LEAST * n_cells * n_strata} donors for {n_cells} cells in {n_strata} class(es), or "
        "take fewer cells (RecordSwap(cells=...))."
    )


# ------------------------------------------------------------------------------------ in transform


class Service(NotCopied):
    """A reserve that is used up row by row, in the memory of one process.

    Whether a release is refused depends on how many rows of each stratum there were before, but
    where donors ran out all the same.
    """

    def __init__(
        self,
        served: Sequence[Served],
        pools: Sequence[Pool],
        aside: Any,
        rows: Array,
        points: Points,
        found: SwapFound,
    ) -> None:
        self._pools, self._aside, self._rows, self._points = pools, aside, rows, points
        self._own = found.read.own
        self._most = np.array([each.most for each in served])
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
        for name in release.public:  # in one form with the donors, before one of them is drawn
            table.in_form_of(name, self._aside)
        columns = columns_of(table, [*release.public, *passed])
        strata, cells = release.places(columns)
        costs = self._costs(_points(release.distance, columns, self._own))
        with self._lock, task("rows drawn"):
            self._count(strata)
            gets = self._drawn(strata, cells, costs, Choices(entropy))
        return release.written(table, order, lambda name: table.replaced(name, self._aside, gets))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ValueError(NO_RESERVE)

    def _count(self, strata: Array) -> None:
        """Count rows as released, before anything of them is looked at."""
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
        """Return what changes between rows; those that came in are numbered after the reserve."""
        first = len(self._rows)

        def costs(own: Array, donors: Array) -> FloatArray:
            new, few = own >= first, np.arange(len(own))
            theirs = came.taken(np.where(new, own - first, 0))
            known = self._points.taken(np.append(np.where(new, 0, own), donors))
            both = known.followed_by(theirs)
            return both.between(few + new * len(known.numbers), len(own) + np.arange(len(donors)))

        return costs

    def _drawn(self, strata: Array, cells: Array, costs: Costs, choices: Choices) -> Array:
        """Return the row of the reserve that each becomes, -1 for none."""
        gets = np.full(len(cells), -1)
        first = len(self._rows)
        for row, (stratum, cell) in enumerate(zip(strata.tolist(), cells.tolist(), strict=True)):
            try:
                found = self._pools[stratum].released(first + row, cell, costs, choices)
            except UsedUpError:
                self._most[stratum] = self._released[stratum]
                raise OverspentError(
                    "the donors of a cell ran out before the limit, which has a chance of "
                    f"{RUNS_OUT:g} where rows come as in fit, so that nothing is released; fit "
                    "again, with other donors."
                ) from None
            gets[row] = -1 if found is None else self._rows[found]
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
    """Return the donors of a swap; of a share, refuse to release the rows it is taken from, too."""
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
    """Return rows as points that lie beside those of other tables: values are their digests."""
    numbers, codes, units = [], [], []
    for name, unit in distance.units.items():
        values = columns[name]
        if distance.numbers(name, fitted[name]) is None:
            codes.append((row_digests({name: values}) & _IN_DOUBLES).astype(float))
            units.append(1.0 / unit)
            continue
        own = distance.numbers(name, values)
        own = np.full(len(values), np.nan) if own is None else own
        gone = np.isnan(own)
        numbers.append(np.where(gone, 0.0, own / unit))
        codes.append(gone.astype(float))
        units.append(1.0)
    n_rows = len(next(iter(columns.values())))
    parts = [np.array(each).reshape(len(each), n_rows).T for each in (numbers, codes)]
    numbers_of, codes_of = map(np.ascontiguousarray, parts)
    return Points(numbers_of, codes_of, np.array(units))
