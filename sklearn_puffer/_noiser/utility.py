r"""The utility of a release, and the distributions of released values, without any draw.

Let a raw value v be released as c(x + K), where x is its atom, K the noise as it is drawn and c
cuts to the range [l, h] of what can be released. With :math:`A(z) = E[\min(K, z)_+]` and d = v - x,

.. math:: E|c(x + K) - v| = |d| + A(h - x) + A(x - l) - 2 A(|d|),

since K is symmetric: both sides are sums over :math:`P(K > t)`. A value of an unordered column has
changed by 1, or not.

Displays show how often values of a group (a value, or an interval of numbers) are released in each
group. That is computed from distributions, too: a draw would be another release of the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array

from sklearn_puffer._base import Array, FloatArray, counted
from sklearn_puffer._certificates import ColumnUtility, lower_median, summary
from sklearn_puffer._codes import Column, Placed, placed_in
from sklearn_puffer._noise import WHOLE, kept_numerator, to_indices
from sklearn_puffer._noiser.release import ColumnRelease, scale_of
from sklearn_puffer._rows import next_table
from sklearn_puffer._tables import Name, Values, frame_table, is_frame, readable, values_of
from sklearn_puffer._words import listed, quoted
from sklearn_puffer.noise import Noise

# Whole numbers: K is N rounded to the nearest multiple of the step g, so A(j g) is the sum of
# g P(N > (i + 1/2) g) over i < j. The first terms are added one by one; further out the density is
# flat against g, and the sum is the integral of P(N > t), to 1e-9 of the scale. Other numbers: K is
# N rounded down to a step of some 1e-12 scales, which counts as N - g/2.
_ADDED = 4096  # terms that are added one by one
_EXACT_INTEGER = 2.0**53  # types that reach further cut nothing off
_DISTINCT = 4096  # values that are treated one by one; of more, neighbours count as one
_KEPT = 16  # groups of values that a fitted noiser keeps, for each bin


@dataclass(frozen=True, eq=False)
class RawDistribution:
    """The distribution of a column in the table, before binning."""

    values: FloatArray  # ascending numbers, or codes; shape (n,)
    # shares of the rows in which it is not missing, sample weights included; shape (n,)
    shares: FloatArray
    present: float  # the share of those rows; what is missing stays missing
    # ends of the range that the type of an integer column has
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray, counts: Array, n_rows: int, read: Values) -> RawDistribution:
        """Return the distribution of counted values in any order, read as ``read``."""
        low, high = _type_range(read)
        if not (values[1:] > values[:-1]).all():
            values, codes = np.unique(values, return_inverse=True)
            counts = np.bincount(codes, counts)
        values, counts = values[counts > 0], counts[counts > 0]
        total = float(counts.sum())
        return cls(values, counts / total, total / n_rows, low, high)

    def kept(self, column: Column) -> RawDistribution:
        """Return what a fitted noiser keeps of the distribution, for copies with more noise.

        It keeps no values of continuous columns, whose changes are the noise alone, and of binned
        ones the means of a few groups. The representative, which is released, is its own group.
        """
        if column.free:
            return replace(
                self, values=np.zeros(1), shares=np.ones(1), low=-math.inf, high=math.inf
            )
        return self if column.edges is None else self.grouped(column, _KEPT * len(column.atoms))

    def grouped(self, column: Column, n_groups: int) -> RawDistribution:
        """Return the means of neighbours, in groups within bins of about equal shares."""
        starts = _group_starts(self.values, self.shares, column, n_groups)
        shares = np.add.reduceat(self.shares, starts)
        means = np.add.reduceat(self.shares * self.values, starts) / shares
        alone = np.diff(starts, append=len(self.values)) == 1  # without the rounding of a mean
        means = np.where(alone, self.values[starts], np.rint(means) if column.whole else means)
        return replace(self, values=means, shares=shares)


def _group_starts(values: FloatArray, shares: FloatArray, column: Column, n_groups: int) -> Array:
    """Return where groups of about equal shares begin; a representative is a group of its own."""
    bins, own = np.zeros(len(values), dtype=np.intp), np.zeros(len(values), dtype=bool)
    if column.edges is not None:
        bins = column.codes_of_ascending(values)
        own = column.atoms[bins] == values
    groups = ((np.cumsum(shares) - 0.5 * shares) * n_groups).astype(np.intp)
    new = own[1:] | own[:-1] | (np.diff(bins) > 0) | (np.diff(groups) > 0)
    return np.flatnonzero(np.append(True, new))


def utilities(
    releases: Sequence[ColumnRelease],
    distributions: Sequence[RawDistribution],
    spreads: Sequence[float],
) -> tuple[ColumnUtility, ...]:
    """Return what survives of each column."""
    return tuple(
        _utility(release, distribution, float(spread))
        for release, distribution, spread in zip(releases, distributions, spreads, strict=True)
    )


def _utility(release: ColumnRelease, distribution: RawDistribution, spread: float) -> ColumnUtility:
    values, shares, present = distribution.values, distribution.shares, distribution.present
    if release.column.unordered:  # every change counts 1
        spread, kept, mode = 1.0, _kept(release, distribution), float(shares.max())
        change, median, same = max(1.0 - kept, 0.0), float(kept < 0.5), kept
        constant, middle, alike = 1.0 - mode, float(mode < 0.5), mode
    else:
        change, median, same = _changes(release, distribution)
        errors = np.abs(values - lower_median(values, shares))
        constant, middle, alike = summary(errors, shares)
    return ColumnUtility(
        name=release.column.name,
        change=change,
        change_sd=_in_spreads(change, spread),
        median_change=median,
        unchanged=_among_all(same, present),
        constant=constant,
        constant_sd=_in_spreads(constant, spread),
        constant_median=middle,
        constant_unchanged=_among_all(alike, present),
    )


def _kept(release: ColumnRelease, distribution: RawDistribution) -> float:
    """Return the chance that a value comes out as it was: it stays, or is drawn again."""
    if (mixing := release.mixing) is None:
        return 1.0
    codes = mixing.codes_of(distribution.values)
    stays = kept_numerator(scale_of(release)) / WHOLE
    return float(distribution.shares @ (stays + (1.0 - stays) * mixing.probabilities[codes]))


def _changes(release: ColumnRelease, distribution: RawDistribution) -> tuple[float, float, float]:
    """Return the mean change, the median change, and the chance of none, where not missing."""
    column = release.column
    if release.noise is not None and len(distribution.values) > _DISTINCT:
        distribution = distribution.grouped(column, _DISTINCT)
    raw = distribution.values
    atoms = raw
    if column.edges is not None:
        atoms = np.repeat(column.atoms, column.runs_of_ascending(raw))
    if release.noise is None:
        return summary(np.abs(atoms - raw), distribution.shares)
    noisy = _Noisy(
        release, distribution, to_indices(atoms, release.grid) * np.float64(release.grid)
    )
    return noisy.mean(), noisy.median(), noisy.unchanged()


class _Noisy:
    """The change of each raw value under noise."""

    def __init__(
        self, release: ColumnRelease, distribution: RawDistribution, atoms: FloatArray
    ) -> None:
        assert release.noise is not None
        self.noise, self.step, self.whole = release.noise, release.grid, release.whole
        self.raw, self.shares = distribution.values, distribution.shares
        self.low, self.high = -math.inf, math.inf
        if release.last_code is not None:
            self.low, self.high = 0.0, float(release.last_code)
        elif release.whole:
            self.low, self.high = distribution.low, distribution.high
        self.atoms = atoms
        # rounding down moves what is no whole number by half a step
        self.moved = self.raw - atoms
        self.moved += 0.0 if self.whole else 0.5 * self.step

    def mean(self) -> float:
        """Return the expected change."""
        mean = _positive_mean(self.noise, self.step, self.whole)
        aside = np.abs(self.moved)
        ends = [mean(np.abs(end - self.atoms)) for end in (self.high, self.low)]
        return float(self.shares @ (aside + sum(ends) - 2.0 * mean(aside)))

    def unchanged(self) -> float:
        """Return the chance that the raw value comes out again."""
        nearest = self.raw / self.step
        np.rint(nearest, out=nearest)
        nearest *= self.step
        on_grid = nearest == self.raw
        raw, atoms, among = (column[on_grid] for column in (self.raw, self.atoms, self.shares))
        lowest, highest = raw <= self.low, raw >= self.high
        starts = raw - atoms - (0.5 * self.step if self.whole else 0.0)
        ends = lowest | highest
        points = starts[~ends]
        same = float(among[~ends] @ self.noise.mass(points, points + self.step))
        low = np.where(lowest, -np.inf, starts)[ends]
        high = np.where(highest, np.inf, starts + self.step)[ends]
        return same + float(among[ends] @ self.noise.mass(low, high))

    def median(self) -> float:
        """Return the median change."""

        def chance(most: float) -> float:
            reach = most + (0.5 * self.step if self.whole else 0.0)
            inside = self.noise.mass(
                np.where(self.raw - most <= self.low, -np.inf, self.moved - reach),
                np.where(self.raw + most >= self.high, np.inf, self.moved + reach),
            )
            return float(self.shares @ inside)

        return smallest_change(chance, self.step, self.whole, float(self.noise.axis_scales(1)[0]))


def smallest_change(
    chance: Callable[[float], float], step: float, whole: bool, near: float = 0.0
) -> float:
    """Return the smallest number, or multiple of the step, with a chance of at least one half.

    ``chance`` never falls. Any ``near`` will do; one that is close saves time.
    """
    half = 0.5 * (1.0 - 1e-12)
    if chance(0.0) >= half:
        return 0.0
    most = max(near, step)
    while chance(most) < half:
        most *= 2.0
    # the sign changes within a part 1e-12 of the root, also where the chance jumps
    root = brentq(lambda change: chance(change) - half, 0.0, most, xtol=1e-300, rtol=1e-12)
    if not whole:
        return float(root) * (1.0 + 1e-11)
    steps = math.floor(root / step)
    while chance(steps * step) < half:
        steps += 1
    return steps * step


def _positive_mean(noise: Noise, step: float, whole: bool) -> Callable[[FloatArray], FloatArray]:
    """Return A, of numbers that are not negative and may be infinite."""
    if not whole:
        return noise.mean_up_to
    tails = noise.mass((np.arange(_ADDED) + 0.5) * step, np.inf)
    sums, reach = np.append(0.0, np.cumsum(tails)) * step, _ADDED * step

    def mean(most: FloatArray) -> FloatArray:
        near = np.minimum(most, reach)
        beyond = noise.mean_up_to(most) - noise.mean_up_to(near)
        total: FloatArray = sums[np.rint(near / step).astype(np.intp)] + beyond
        return total

    return mean


def _type_range(read: Values) -> tuple[float, float]:
    """Return the ends of an integer type; infinite where floats do not represent them exactly."""
    if read.kind != "integer" or read.data.dtype.kind not in "iu":
        return -math.inf, math.inf
    info = np.iinfo(read.data.dtype)
    low, high = float(info.min), float(info.max)
    return (
        low if -low < _EXACT_INTEGER else -math.inf,
        high if high < _EXACT_INTEGER else math.inf,
    )


def _in_spreads(change: float, spread: float) -> float:
    if spread > 0.0:
        return change / spread
    return math.inf if change > 0.0 else 0.0


def _among_all(chance: float, present: float) -> float:
    """Return the chance among all rows: what is missing stays missing."""
    return min(chance * present + (1.0 - present), 1.0)


_ENTRIES = 1 << 20  # chances that are held at a time
_TAIL = 0.01  # of the noise beyond either end of the axis


@dataclass(frozen=True, eq=False)
class ColumnMoves:
    """How often values of each group are released in each group."""

    name: Name
    groups: ValueGroups
    # shares of the rows that have a value: [i, j] of those in group i that are released in j; of
    # intervals the first and last of n + 2 columns lie beyond them; shape (n, m)
    joint: FloatArray
    left_out: float  # the share of all rows that are missing or hold what `fit` has not seen


@dataclass(frozen=True, eq=False)
class ValueGroups:
    """The groups of values of one column: single values, or intervals of numbers."""

    labels: list[Any] | None = None  # of codes; None stands for missing
    edges: FloatArray | None = None  # of intervals, ascending; shape (n + 1,)

    @cached_property
    def size(self) -> int:
        """How many groups raw values have."""
        return len(self.labels or ()) if self.edges is None else len(self.edges) - 1

    @property
    def n_released(self) -> int:
        """How many groups released values have."""
        return len(self.cuts) + 1

    def before(self, values: FloatArray) -> Array:
        """Return the groups of raw values or codes."""
        first = 0 if self.edges is None else 1
        return np.asarray(np.clip(self.after(values) - first, 0, self.size - 1))

    def after(self, values: FloatArray) -> Array:
        """Return the groups of released values or codes."""
        return np.asarray(np.searchsorted(self.cuts, values, side="right"))

    @cached_property
    def cuts(self) -> FloatArray:
        """The boundaries between groups of released numbers."""
        return np.arange(0.5, self.size - 1.0) if self.edges is None else self.edges


def column_moves(noiser: Any, table: Any, name: Any, n_bins: int) -> ColumnMoves:
    """Return how often values of a column are released as others, without a draw."""
    if not hasattr(noiser, "_check_as_certified") or not hasattr(noiser, "transform_batches"):
        raise TypeError(
            f"noiser must be a fitted PufferfishNoiser, got {quoted(noiser)}; call fit first."
        )
    noiser._check_as_certified()
    if noiser._fitted.mechanism.untested:
        raise TypeError(
            f"noiser must release noise, got {quoted(noiser)}; read its utility_ for the changes "
            "of columns."
        )
    read = next_table(noiser, table)
    release = release_of(noiser, name)
    column = release.column
    placed = placed_in(column, values_of(read, column))
    there = ~(placed.gone | placed.strange)
    _check_some(column, there)
    raw = _raw(column, placed)[there]
    groups = groups_of(release, raw, n_bins)
    atoms = raw if column.free else column.atoms[placed.codes[there]]
    states, kept = np.unique(atoms, return_inverse=True)
    distributions = _distributions(release, states, groups)
    joint = _joint(groups.before(raw), kept, distributions, groups.size)
    return ColumnMoves(column.name, groups, joint, 1.0 - float(there.mean()))


def released_shares(noiser: Any, moves: ColumnMoves, released: Any) -> FloatArray:
    """Return the shares of what was released, over the same groups."""
    if not is_frame(readable(released, "released")):
        raise TypeError(
            f"released must be the DataFrame that transform returned, got "
            f"{type(released).__name__}; leave it out to see what is expected."
        )
    table = frame_table(readable(released, "released"), "released")
    if moves.name not in table.names:
        raise ValueError(
            f"released lacks column {quoted(moves.name)}; it has {listed(list(table.names), 10)}."
        )
    column = release_of(noiser, moves.name).column
    groups = moves.groups.after(_released_values(column, table.values(moves.name), moves))
    counts = np.bincount(groups, minlength=moves.groups.n_released)
    return np.asarray(counts / max(len(groups), 1))


def _released_values(column: Column, values: Values, moves: ColumnMoves) -> FloatArray:
    if moves.groups.labels is not None and values.kind == column.kind:
        placed = placed_in(column, values)
        return column.atoms[placed.codes[~(placed.gone | placed.strange)]]
    if values.kind == "category":
        raise TypeError(
            f"column {quoted(moves.name)} of released holds names, and numbers are released; pass "
            "the table that transform returned."
        )
    data: FloatArray = values.data.astype(np.float64)
    there = np.isfinite(data)
    if values.missing is not None:
        there &= ~values.missing
    numbers: FloatArray = data[there]
    return numbers


def release_of(noiser: Any, name: Any) -> ColumnRelease:
    """Return the release of a column, whose name may be left out of a single one."""
    releases: Sequence[ColumnRelease] = noiser._fitted.mechanism.columns
    names = [release.column.name for release in releases]
    if name is None and len(names) == 1:
        return releases[0]
    if name is None or name not in names:
        raise ValueError(
            f"column must be one of {listed(names, 10)}, got {quoted(name)}; a display shows one "
            "released column."
        )
    return releases[names.index(name)]


def _check_some(column: Column, there: Array) -> None:
    if not there.any():
        raise ValueError(
            f"column {quoted(column.name)} has no value in these rows that fit has seen, so there "
            "is nothing to show; pass rows of the table that was fitted."
        )


def _raw(column: Column, placed: Placed) -> FloatArray:
    """Return numbers as they stand in the table, and codes of what has none."""
    if column.kind in ("float", "integer"):
        return placed.data.astype(float)
    return column.atoms[placed.codes]


def groups_of(release: ColumnRelease, raw: FloatArray, n_bins: int) -> ValueGroups:
    """Return the groups of a column: its values, or intervals of numbers."""
    column = release.column
    if column.unordered or (column.kind == "category" and release.output != "noisy"):
        booleans = [False, True, None][: 2 + (column.missing_code is not None)]
        return ValueGroups(labels=list(column.levels) if column.levels is not None else booleans)
    pad = _pad(release)
    low, high = float(raw.min()), float(raw.max())
    pad = min(pad, high - low) if high > low else pad
    return ValueGroups(edges=_edges(low - pad, high + pad, column.whole, n_bins))


def _pad(release: ColumnRelease) -> float:
    """Return how far noise moves all but a small share of values."""
    if release.noise is None:
        return 0.0
    far = scale_of(release)
    while float(release.noise.mass(far, math.inf)) > _TAIL:
        far *= 1.25
    return far


def _edges(low: float, high: float, whole: bool, n_bins: int) -> FloatArray:
    if whole:
        first, last = math.floor(low), math.ceil(high)
        width = max(1, math.ceil((last - first + 1) / n_bins))
        n = math.ceil((last - first + 1) / width)
        edges: FloatArray = first - 0.5 + width * np.arange(n + 1.0)
        return edges
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    edges = np.linspace(low, high, n_bins + 1)
    edges[-1] = np.nextafter(high, np.inf)
    return edges


def _joint(before: Array, states: Array, distributions: Any, size: int) -> FloatArray:
    """Return the shares of rows by group and by what they become."""
    ones = np.full(len(before), 1.0 / len(before))
    rows = coo_array((ones, (before, states)), shape=(size, distributions.shape[0])).tocsr()
    joint = rows @ distributions
    dense: FloatArray = joint if isinstance(joint, np.ndarray) else joint.toarray()
    return dense


def _distributions(release: ColumnRelease, atoms: FloatArray, groups: ValueGroups) -> FloatArray:
    """Return the distribution of the group that each atom is released in."""
    if release.mixing is not None:
        return _mixed(release, atoms, groups)
    length = max(1, _ENTRIES // groups.n_released)
    starts = counted(range(0, len(atoms), length), "parts of the values followed")
    return np.concatenate([_noisy(release, atoms[at : at + length], groups) for at in starts])


def _noisy(release: ColumnRelease, atoms: FloatArray, groups: ValueGroups) -> FloatArray:
    if release.noise is None:
        return np.eye(groups.n_released)[groups.after(atoms)]
    indices = to_indices(atoms, release.grid)[:, None]
    # x + g K lies below a cut where K is smaller than the first whole number at or beyond it
    steps = np.ceil(groups.cuts / release.grid - indices)
    # whole numbers: K is noise rounded to the nearest step; others: rounded down
    edges = (steps - (0.5 if release.whole else 0.0)) * release.grid
    edges = np.pad(edges, ((0, 0), (1, 1)), constant_values=np.inf)
    edges[:, 0] = -np.inf
    return release.noise.mass(edges[:, :-1], edges[:, 1:])


def _mixed(release: ColumnRelease, atoms: FloatArray, groups: ValueGroups) -> FloatArray:
    """Return the distribution of values that are kept or redrawn."""
    assert release.mixing is not None
    alphabet = np.array(release.mixing.values)
    kept = kept_numerator(scale_of(release)) / WHOLE
    distributions = np.tile((1.0 - kept) * release.mixing.probabilities, (len(atoms), 1))
    distributions[np.arange(len(atoms)), release.mixing.codes_of(atoms)] += kept
    return distributions @ np.eye(groups.n_released)[groups.after(alphabet)]
