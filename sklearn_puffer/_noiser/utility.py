r"""The utility of a release, without any draw.

Let a raw value v be released as c(x + K), where x is its atom, K the noise as it is drawn and c
cuts to the range [l, h] of what can be released. With :math:`A(z) = E[\min(K, z)_+]` and d = v - x,

.. math:: E|c(x + K) - v| = |d| + A(h - x) + A(x - l) - 2 A(|d|),

since K is symmetric: both sides are sums over :math:`P(K > t)`. A value of an unordered column has
changed by 1, or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._certificates import ColumnUtility, lower_median, summary
from sklearn_puffer._codes import Column
from sklearn_puffer._noise import WHOLE, kept_numerator, to_indices
from sklearn_puffer._noiser.release import ColumnRelease, scale_of
from sklearn_puffer._tables import Values
from sklearn_puffer.noise import Noise

# Whole numbers: K is N rounded to the nearest multiple of the step g, so A(j g) is the sum of
# g P(N > (i + 1/2) g) over i < j. The first terms are added one by one; further out the density is
# flat against g, and the sum is the integral of P(N > t), to 1e-9 of the scale. Other numbers: K is
# N rounded down to a step of some 1e-12 scales, which counts as N - g/2.
_ADDED = 4096  # terms that are added one by one
_EXACT_INTEGER = 2.0**53  # types that reach further cut nothing off
_DISTINCT = 4096  # values that are treated one by one; of more, neighbours count as one


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
        low, high = -math.inf, math.inf
        if read.kind == "integer" and read.data.dtype.kind in "iu":
            info = np.iinfo(read.data.dtype)
            # ends that floats do not represent exactly cut nothing off
            low = float(info.min) if -float(info.min) < _EXACT_INTEGER else low
            high = float(info.max) if float(info.max) < _EXACT_INTEGER else high
        if not (values[1:] > values[:-1]).all():
            values, codes = np.unique(values, return_inverse=True)
            counts = np.bincount(codes, counts)
        values, counts = values[counts > 0], counts[counts > 0]
        total = float(counts.sum())
        return cls(values, counts / total, total / n_rows, low, high)

    def grouped(self, column: Column, n_groups: int) -> RawDistribution:
        """Return the means of neighbours, in groups within bins of about equal shares."""
        # groups of about equal shares; a representative is a group of its own
        bins = np.zeros(len(self.values), dtype=np.intp)
        own = np.zeros(len(bins), dtype=bool)
        if column.edges is not None:
            bins = column.codes_of_numbers(self.values)
            own = column.atoms[bins] == self.values
        groups = ((np.cumsum(self.shares) - 0.5 * self.shares) * n_groups).astype(np.intp)
        new = own[1:] | own[:-1] | (np.diff(bins) > 0) | (np.diff(groups) > 0)
        starts = np.flatnonzero(np.append(True, new))
        shares = np.add.reduceat(self.shares, starts)
        means = np.add.reduceat(self.shares * self.values, starts) / shares
        alone = np.diff(starts, append=len(self.values)) == 1  # without the rounding of a mean
        means = np.where(alone, self.values[starts], np.rint(means) if column.whole else means)
        return replace(self, values=means, shares=shares)


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
        spread, kept, mode, mixing = 1.0, 1.0, float(shares.max()), release.mixing
        if mixing is not None:  # a value comes out as it was where it stays, or is drawn again
            stays = kept_numerator(scale_of(release)) / WHOLE
            drawn = mixing.probabilities[mixing.codes_of(values)]
            kept = float(shares @ (stays + (1.0 - stays) * drawn))
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


def _changes(release: ColumnRelease, distribution: RawDistribution) -> tuple[float, float, float]:
    """Return the mean change, the median change, and the chance of none, where not missing."""
    column, noise, step, whole = release.column, release.noise, release.grid, release.whole
    if noise is not None and len(distribution.values) > _DISTINCT:
        distribution = distribution.grouped(column, _DISTINCT)
    raw, shares = distribution.values, distribution.shares
    atoms = raw if column.edges is None else column.placed(raw)
    if noise is None:
        return summary(np.abs(atoms - raw), shares)
    atoms = to_indices(atoms, step) * np.float64(step)
    low, high = -math.inf, math.inf
    if release.last_code is not None:
        low, high = 0.0, float(release.last_code)
    elif whole:
        low, high = distribution.low, distribution.high
    # rounding down moves what is no whole number by half a step
    moved = raw - atoms + (0.0 if whole else 0.5 * step)

    def chance(most: float) -> float:
        """Return the chance of a change of at most so many."""
        reach = most + (0.5 * step if whole else 0.0)
        inside = noise.mass(
            np.where(raw - most <= low, -np.inf, moved - reach),
            np.where(raw + most >= high, np.inf, moved + reach),
        )
        return float(shares @ inside)

    beyond, aside = _positive_mean(noise, step, whole), np.abs(moved)
    mean = aside + beyond(np.abs(high - atoms)) + beyond(np.abs(low - atoms)) - 2.0 * beyond(aside)
    median = smallest_change(chance, step, whole, scale_of(release))
    return float(shares @ mean), median, chance(0.0)


def smallest_change(
    chance: Callable[[float], float], step: float, whole: bool, near: float = 0.0
) -> float:
    """Return the smallest number, or multiple of the step, with a chance of at least one half.

    ``chance`` never falls. Any ``near`` will do; one that is close saves time.
    """
    half = 0.5 * (1.0 - 1e-12)
    if chance(0.0) >= half:
        return 0.0
    low, high = 0.0, math.ceil(near / step or 1.0) * step
    while chance(high) < half:
        low, high = high, 2.0 * high
    while high - low > (step if whole else 1e-10 * high):
        middle = 0.5 * (low + high)
        middle = math.floor(middle / step) * step if whole else middle
        low, high = (middle, high) if chance(middle) < half else (low, middle)
    return high


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


def _in_spreads(change: float, spread: float) -> float:
    if spread > 0.0:
        return change / spread
    return math.inf if change > 0.0 else 0.0


def _among_all(chance: float, present: float) -> float:
    """Return the chance among all rows: what is missing stays missing."""
    return min(chance * present + (1.0 - present), 1.0)
