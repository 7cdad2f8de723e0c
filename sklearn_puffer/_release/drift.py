r"""Whether rows still look like those of `fit`: margins of columns, and tests against them.

A margin holds, for each value of a column in its order, the share of the rows of `fit` up to that
value, rounded down to thousandths: enough to find a difference of a thousandth.

*Formal guarantees.* If the rows of `fit` and the new ones are exchangeable, as independent draws of
one distribution are, a comparison finds a difference with probability at most 1 %, whatever that
distribution is. Each test bounds a hypergeometric tail. The number of tests is fixed before
anything is counted, except that each value that `fit` has not seen adds one:

- *ranks.* Let ties be broken at random. Of i fitted and d new rows that come first, if the i-th
  fitted one ends them, the count of new ones has the negative hypergeometric distribution, whose
  tails are

  .. math:: P(D_i \le d) = P(H_{i + d} \le d), \qquad P(D_i \ge d) = P(H_{i + d - 1} \ge d),

  H_t the new ones among t rows of all. The cell of the i-th fitted value is known. At least
  :math:`D_i` new rows are in cells up to it, and at most :math:`D_i` in cells before it. So
  alphabets and bins may be made of the fitted rows.
- *values.* Rows with one value have Fisher's exact test. Where unseen values have moved, they may
  be any of the rows in the cell.

A column that has both kinds of tests spends half of its error on each.

Of very many rows a part is counted (`picked_rows`), chosen by position alone: these rows are
exchangeable with those of `fit`, as all rows are.

If the n + m rows of two samples are exchangeable, pick any c + d of them without regard to the
sample that they are in. Then the number X of picked rows in the second sample has the
hypergeometric distribution. Its masses are log-concave, so that beyond the mode the tail is at most
a geometric series,

.. math:: P(X \ge d) \le \frac{P(X = d)}{1 - r}, \qquad
          P(X = d) = \frac{\binom{m}{d} \binom{n}{c}}{\binom{n + m}{c + d}}, \qquad
          r = \frac{P(X = d + 1)}{P(X = d)} = \frac{(m - d)\, c}{(d + 1)(n - c + 1)} < 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from sklearn_puffer._base import Array, FloatArray, IntArray, as_array, check_choice, counted
from sklearn_puffer._codes import Column, Placed, placed_in
from sklearn_puffer._documents import Document, Page, Section, jsonable
from sklearn_puffer._engines import LazyTable, is_lazy, lazy_table
from sklearn_puffer._numerics import ULP
from sklearn_puffer._rows import check_named
from sklearn_puffer._tables import (
    AnyTable,
    Faults,
    Name,
    Values,
    array_table,
    frame_table,
    is_frame,
    readable,
    records_frame,
    values_of,
)
from sklearn_puffer._words import brief, shown

SCHEMA = "sklearn_puffer.drift/2"
LEVEL = 0.01
"""The probability of a false alarm, over all columns and values together."""
LEAST_ROWS = 30
"""Fewer rows say nothing about their distribution."""
_TINY = 1e-9
_OF_COLUMN = ["name", "outside", "missing", "distance", "p", "drifted"]


@dataclass(frozen=True)
class ColumnDrift:
    """How the values of one column differ from those of the rows of `fit`.

    Attributes
    ----------
    name : str or int
    outside : float
        Share of the rows whose value `fit` has not seen; 0 of bins and of columns that take any
        number, where every value has its place.
    missing : float
        Share of the rows in which it is missing.
    distance : float
        Of the two distributions: of numbers and ordered values the largest difference of P(X <= x),
        of others their total variation. As it was seen: chance alone makes it larger than 0.
    p : float
        p-value of "all rows follow one distribution", corrected for all values and columns that
        were tested.
    """

    name: Name
    outside: float
    missing: float
    distance: float
    p: float

    @property
    def drifted(self) -> bool:
        """Whether the difference is significant at the 1 % level."""
        return self.p <= LEVEL

    def record(self) -> dict[str, Any]:
        """Return all facts by name."""
        return {name: getattr(self, name) for name in _OF_COLUMN}


@dataclass(frozen=True)
class Drift(Document):
    """Whether rows still look like those of `fit`: made by ``certificate_.check``.

    Parameters
    ----------
    columns : tuple of ColumnDrift
        One a public column.
    n_rows, n_fitted : int
        Rows that were looked at, and of `fit`.
    together : bool
        Whether rows come in groups, so that they are not exchangeable: nothing is tested.
    """

    columns: tuple[ColumnDrift, ...]
    n_rows: int
    n_fitted: int
    together: bool = False

    @property
    def tested(self) -> bool:
        """Whether there were rows enough, of nobody twice, to say anything."""
        return not self.together and min(self.n_rows, self.n_fitted) >= LEAST_ROWS

    @property
    def drifted(self) -> bool:
        """Whether some column differs significantly, at a level of 1 % for all columns together."""
        return not self.together and any(column.drifted for column in self.columns)

    @property
    def table(self) -> Any:
        """The columns as a DataFrame, a row for each."""
        rows = [tuple(column.record().values()) for column in self.columns]
        return records_frame(rows, _OF_COLUMN)

    def warning(self) -> str:
        """Return the warning, with the figures of the column that differs most."""
        worst = sorted((c for c in self.columns if c.drifted), key=lambda c: -c.distance)
        more, most = f" and {len(worst) - 1} more" if len(worst) > 1 else "", worst[0]
        figures = f"distance {most.distance:.3g}"
        for share, what in ((most.outside, "not seen in fit"), (most.missing, "missing")):
            figures += f", {share:.0%} {what}" if share >= 0.005 else ""
        return (
            f"the {self.n_rows} rows do not look like the {self.n_fitted} of fit in "
            f"{brief(most.name)} ({figures}){more}; fit on such rows, or pass "
            'on_drift="ignore".'
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON."""
        return {
            "schema": SCHEMA,
            "n_rows": self.n_rows,
            "n_fitted": self.n_fitted,
            "tested": self.tested,
            "drifted": self.drifted,
            "level": LEVEL,
            "columns": [jsonable(column.record()) for column in self.columns],
        }

    def _page(self) -> Page:
        lines = [
            f"{self.n_rows} rows, against {self.n_fitted} of fit.",
            "The guarantee is about rows that follow the fitted distribution. That no difference "
            "is found proves none: it may be small, or lie in several columns together.",
        ]
        note = (
            "outside: share of rows with a value that fit has not seen; distance: of numbers and "
            "ordered values the largest difference of P(X <= x), of others total variation; p: "
            "p-value, corrected for all columns and values; differs: p is at most "
            f"{LEVEL:.0%}"
        )
        cells = [
            [
                shown(c.name),
                *(f"{figure:.3f}" for figure in (c.outside, c.missing, c.distance)),
                f"{c.p:.2g}" if c.p > _TINY else f"< {_TINY:g}",
                "YES" if c.drifted else "no",
            ]
            for c in self.columns
        ]
        head = ["column", "outside", "missing", "distance", "p", "differs"]
        section = Section("Columns", note, [head, *cells])
        return Page(f"Drift: {self._verdict()}", lines, [section])

    def _verdict(self) -> str:
        if self.together:
            return "not tested, as rows of a group depend on each other"
        if not self.tested:
            return f"not tested, of fewer than {LEAST_ROWS} rows"
        if not self.drifted:
            return "none found"
        return "these rows DO NOT LOOK LIKE THOSE OF FIT"


PARTS = 1000
_STEP = 20  # of the ranks that are tested, in thousandths
_CELLS = 128  # of a column that takes any number
_ENDS = 10  # thousandths beyond the first and the last of their inner edges
_DIGITS = 3  # to which these are rounded, against their distance
_COUNTED = 1 << 14  # rows that are counted of each column, or more
_GOLDEN = np.uint64(2654435769)  # of 2^32, whose multiples are spread evenly at every distance
_WHOLE = np.uint64(32)


Place = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Margin:
    """How the values of one public column were distributed over the rows of `fit`."""

    name: Name
    parts: IntArray  # thousandths by which the share of rows grows at each cell, rounded down
    present: int  # rows in which it is not missing; weights count as rows
    total: int  # all rows
    ordered: bool  # whether cells have an order
    single: bool  # whether a cell is one value, and no bin
    levels: bool = False  # whether any cell may hold unseen categories
    # of any number: the lower edge of inner cells, and how many a unit has
    place: Place | None = None

    @classmethod
    def of(cls, column: Column, values: FloatArray, counts: Array, total: int) -> Self:
        """Return the margin of a column from its values before binning and their counts.

        ``total`` has the rows in which it is missing, too.
        """
        whole = counts if counts.dtype == np.int64 else np.rint(counts).astype(np.int64)
        place = None
        if column.free:
            place = _placed(values, whole) if len(values) else (0.0, 0.0)
        empty = cls.over(column, np.zeros(0, dtype=np.int64), int(whole.sum()), total, place)
        cells = np.searchsorted(column.knots, values) if place is None else empty.cells(values)
        held = np.bincount(cells, whole, n_cells(column)).astype(np.int64)  # of 2^53 rows at most
        shares = PARTS * np.cumsum(held) // max(empty.present, 1)
        return replace(empty, parts=np.diff(np.append(0, shares)))

    @classmethod
    def over(
        cls, column: Column, parts: IntArray, present: int, total: int, place: Place | None
    ) -> Self:
        """Return the margin of a column that has these cells."""
        return cls(
            column.name,
            parts,
            present,
            total,
            ordered=not column.unordered,
            single=column.edges is None and not column.free,
            levels=column.kind == "category",
            place=place,
        )

    def cells(self, numbers: Array) -> Array:
        """Return the cells of numbers, where any may occur."""
        assert self.place is not None
        low, factor = self.place
        with np.errstate(over="ignore"):
            scaled = np.multiply(numbers, factor, dtype=np.float64)
            scaled += 1.0 - low * factor
        np.clip(scaled, 0.0, _CELLS + 1.0, out=scaled)
        return scaled.astype(np.intp)


def n_cells(column: Column) -> int:
    """Return how many cells the margin of a column has."""
    return _CELLS + 2 if column.free else len(column.atoms)


def _placed(values: FloatArray, counts: IntArray) -> Place:
    """Return the edge and the density of cells between the first and the last hundredth of rows.

    They are rounded, so that they are no values of the table.
    """
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(counts[order])
    ends = np.searchsorted(sums, sums[-1] * np.array([_ENDS, PARTS - _ENDS]) / PARTS)
    low, high = values[order][np.minimum(ends, len(values) - 1)].tolist()
    span = high - low
    if not np.isfinite(span) or span <= 0.0:
        return float(low), 0.0
    digit = 10.0 ** (np.floor(np.log10(span)) + 1 - _DIGITS)
    return float(np.floor(low / digit) * digit), float(f"{_CELLS / span:.3g}")


def check_on_drift(on_drift: Any, margins: Sequence[Margin], untested: str) -> None:
    """Refuse an unknown choice, and "raise" where it cannot be kept, before anything is drawn.

    ``untested`` says why drift is not tested; "" where it is.
    """
    check_choice(on_drift, "on_drift", ["warn", "raise", "ignore"])
    if on_drift == "raise" and untested:
        raise ValueError(untested)
    if on_drift == "raise" and not margins:
        raise ValueError(
            'on_drift="raise" needs to know how the values of the fitted rows were distributed, '
            "which is not in what was saved by an earlier version; fit again, or pass "
            'on_drift="ignore".'
        )


def picked_rows(n_rows: int) -> IntArray | None:
    """Return the rows that are counted, ascending, or None where all are.

    One row of each few neighbours, whatever its values. Its position among them varies, as the
    order of rows may be periodic. All tables of one length have the same rows counted.

    >>> picked_rows(1000) is None, len(picked_rows(1_000_000))
    (True, 16393)
    """
    apart = n_rows // _COUNTED
    if apart < 2:
        return None
    of_group = np.arange(n_rows // apart, dtype=np.uint64)
    share = (of_group * _GOLDEN).astype(np.uint32)  # of 2^32
    rows = of_group * np.uint64(apart) + (share * np.uint64(apart) >> _WHOLE)
    return rows.astype(np.int64)


class Watch:
    """Counts the values of the rows of a table that is released.

    Examples
    --------
    >>> from sklearn_puffer._tables import Values
    >>> age = Column("age", "float", np.array([20.0, 90.0]), np.ones(2, dtype=bool))
    >>> watch = Watch([Margin.of(age, age.atoms, np.array([90, 10]), 100)])
    >>> watch.add([age], [Values("float", np.full(40, 90.0))])
    >>> watch.drift.drifted
    True
    """

    def __init__(self, margins: Sequence[Margin]) -> None:
        self._margins = margins
        self.drift: Drift | None = None

    def add(self, columns: Sequence[Column], values: Sequence[Values]) -> None:
        """Compare the rows of a table in memory, or, where they are many, some of them."""
        n_rows = len(values[0])
        picked = picked_rows(n_rows)
        if picked is not None:
            values = [each.taken(picked) for each in values]
        placed = map(placed_in, columns, values)
        self.drift = _drift_of(self._margins, placed, len(values[0]), n_rows)


def _drift_of(
    margins: Sequence[Margin], placed: Iterable[Placed], n_counted: int, n_rows: int
) -> Drift:
    """Return how rows, of which ``n_counted`` were placed, compare with those of `fit`."""
    seen = [Seen(*each) for each in zip(margins, placed, strict=True)]
    columns = [each.compared(len(seen), n_counted) for each in seen]
    return Drift(tuple(columns), n_rows, max(margin.total for margin in margins))


class Seen:
    """The counts of the values of one column."""

    def __init__(self, margin: Margin, placed: Placed) -> None:
        self.margin = margin
        counts = np.ones(len(placed.codes), np.int64) if placed.counts is None else placed.counts
        there, strange = ~placed.gone, placed.strange
        codes = placed.codes[there]
        if margin.place is not None:
            codes = margin.cells(np.where(strange, 0.0, placed.data)[there])
        # floats hold the sums of 2^53 rows at most
        self.counts = np.bincount(codes, counts[there], len(margin.parts)).astype(np.int64)
        # how often each value comes that fit has not seen
        distinct, value_of = np.unique(placed.data[strange], return_inverse=True)
        strangers = np.bincount(value_of, counts[strange], len(distinct))
        self.strangers = strangers.astype(np.int64)
        self.moved = int(self.strangers.sum())  # rows that hold such a value

    def compared(self, n_columns: int, n_rows: int) -> ColumnDrift:
        """Return how the column compares, as one of ``n_columns`` that are tested."""
        tested = min(n_rows, self.margin.total) >= LEAST_ROWS
        n_present = int(self.counts.sum())
        n_gone = n_rows - n_present
        p = min(1.0, n_columns * self._chance(n_rows, n_gone, n_present)) if tested else 1.0
        outside, gone = (n / max(n_rows, 1) for n in (self.moved, n_gone))
        return ColumnDrift(self.margin.name, outside, gone, self._distance(n_present), p)

    def _distance(self, n_present: int) -> float:
        if not (n_present and self.margin.present):
            return 0.0
        shares, aside = self.counts / n_present, 0.0
        if self.margin.levels:  # unseen categories are counted in the first cell
            aside = self.moved / n_present
            shares[0] -= aside
        apart = self.margin.parts / PARTS - shares
        if self.margin.ordered:
            return float(np.abs(np.cumsum(apart)).max())
        return 0.5 * (float(np.abs(apart).sum()) + aside)

    def _chance(self, n_rows: int, n_gone: int, n_present: int) -> float:
        """Return a bound on the p-value of these counts, corrected for all tests of the column."""
        values, ranks = [np.ones(0)], [np.ones(0)]
        n = self.margin.total
        gone, fitted = np.array([n_gone]), np.array([n - self.margin.present])
        if gone[0] or fitted[0]:  # too many and too few missing values
            values += [too_many(gone, n_rows, fitted, n), too_many(fitted, n, gone, n_rows)]
        if self.margin.single and self.margin.present:
            values += self._of_values(n_present)
            none = np.zeros_like(self.strangers)  # there are never too few rows of unseen values
            strange = too_many(self.strangers, n_present, none, self.margin.present)
            values += [strange, np.ones(len(none))]
        if self.margin.ordered and self.margin.present:
            ranks += self._of_ranks(n_present)
        families = [np.concatenate(chances) for chances in (values, ranks)]
        bounds = [len(chances) * chances.min() for chances in families if len(chances)]
        return len(bounds) * min(bounds, default=1.0)

    def _of_values(self, n_present: int) -> Iterator[FloatArray]:
        """Yield the p-values of too many and of too few rows of each value."""
        sums, n = np.cumsum(self.margin.parts), self.margin.present
        # fitted rows in the cells up to each: at least, and at most
        low, high = _up(sums * n), np.where(sums == PARTS, n, _up((sums + 1) * n) - 1)
        before = [np.append(0, ends[:-1]) for ends in (low, high)]
        least, most = np.maximum(low - before[1], 0), high - before[0]
        fewest = np.maximum(self.counts - self.moved, 0)
        yield too_many(fewest, n_present, most, self.margin.present)
        yield too_many(least, self.margin.present, self.counts, n_present)

    def _of_ranks(self, n_present: int) -> Iterator[FloatArray]:
        """Yield the p-values of too many and of too few new rows up to ranks of the fitted ones."""
        n, sums = self.margin.present, np.cumsum(self.margin.parts)
        strays = self.moved if self.margin.levels else 0
        seen = np.append(0, np.cumsum(self.counts))
        many, few = np.arange(1, PARTS, _STEP), np.arange(_STEP, PARTS, _STEP)
        before = np.maximum(seen[np.searchsorted(sums, many)] - strays, 0)
        up_to = np.minimum(seen[np.searchsorted(sums, few) + 1] + strays, n_present)
        yield too_many(before, n_present, _up(many * n) - 1, n)
        yield too_many(_up(few * n), n, up_to, n_present)


def _up(thousandths: IntArray) -> IntArray:
    """Return whole rows, rounded up.

    >>> _up(np.array([1000, 1001])).tolist()
    [1, 2]
    """
    rows: IntArray = -(-thousandths // PARTS)
    return rows


_ROUNDINGS = 16.0
_LEAST = -700.0  # below which an exponential is no normal float


def too_many(d: IntArray, m: int, c: IntArray, n: int) -> FloatArray:
    """Return a bound on the chance that the second sample has at least d of the c + d rows.

    Parameters
    ----------
    d, c : ndarray of int64 of shape (k,)
        Of the picked rows, those in the second and in the first sample.
    m, n : int
        Rows of the second and of the first sample.

    Notes
    -----
    *Formal guarantees.* Never below that chance: Fisher's exact test, one-sided (R. A. Fisher,
    1935), by the series above. The error of logarithms of factorials is added.

    Examples
    --------
    Of 20 rows in two halves, the 10 that are picked are all in the second one:

    >>> from math import comb
    >>> bound = too_many(np.array([10]), 10, np.array([0]), 10)
    >>> bool(abs(bound[0] * comb(20, 10) - 1.0) < 1e-9)
    True
    """
    second, first = d.astype(float), c.astype(float)
    terms = [_log_choose(m, second), _log_choose(n, first), -_log_choose(n + m, second + first)]
    size = float(n + m + 2)
    log_mass = sum(terms) + _ROUNDINGS * ULP * size * np.log(size)
    ratio = (m - second) * first / ((second + 1.0) * (n - first + 1.0))
    beyond = ratio < 1.0
    bound = np.exp(np.clip(log_mass, _LEAST, 0.0)) / np.where(beyond, 1.0 - ratio, 1.0)
    chances: FloatArray = np.where(beyond & (second > 0.0), np.minimum(bound, 1.0), 1.0)
    return chances


def _log_choose(n: int, k: FloatArray) -> FloatArray:
    logarithms: FloatArray = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return logarithms


_EARLIER = (
    "this certificate does not know how the fitted values were distributed, as it was saved by an "
    "earlier version; fit again."
)


def compared_rows(fitted: Any, X: Any) -> Drift:
    """Return how rows compare with those of `fit`, by their released columns."""
    if not fitted.margins:
        raise ValueError(_EARLIER)
    table = _table(X, [column.name for column in fitted.columns])
    faults = Faults()
    columns = counted(fitted.columns, "columns read")
    placed = faults.of(lambda c: placed_in(c, _values(table, c)), columns)
    faults.refuse()
    n_rows = table.n_rows
    return _drift_of(fitted.margins, counted(placed, "columns compared"), n_rows, n_rows)


def _values(table: AnyTable, column: Column) -> Values:
    return table.values_in(column) if isinstance(table, LazyTable) else values_of(table, column)


def _table(X: Any, names: Sequence[Name]) -> AnyTable:
    """Return the table of rows that are checked, which has the released columns."""
    table: AnyTable
    if is_lazy(X):
        table = lazy_table(X)
    else:
        X = readable(X, "table")
        array = None if is_frame(X) else as_array(X, "table")
        if array is not None and array.ndim != 2:
            raise ValueError(f"table must have rows and columns, got shape {array.shape}.")
        table = frame_table(X, "table") if array is None else array_table(array)
    check_named("table", table.names, names)
    if not table.n_rows:
        raise ValueError("table has 0 rows; give at least one.")
    return table
