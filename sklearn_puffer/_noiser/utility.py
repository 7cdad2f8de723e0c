"""The utility of a release: how much values change, on a lattice of values and noise.

Each of 8,192 values in equal shares of the rows meets one of as many quantiles of the noise (a
lattice rule, which has no random part). A value of an unordered column has changed by 1, or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._certificates import ColumnUtility, lower_median, summary
from sklearn_puffer._noise import WHOLE, kept_numerator, to_indices
from sklearn_puffer._noiser.release import ColumnRelease, scale_of
from sklearn_puffer._tables import Values
from sklearn_puffer.noise import Noise

_POINTS = 1 << 13
_STRIDE = 5063  # odd, and about the golden section of the points
_FARTHEST = 300.0  # the log of quantiles
_EXACT_INTEGER = 2.0**53  # types that reach further cut nothing off


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

    def spread_evenly(self) -> FloatArray:
        """Return ascending values, each of which stands for an equal share of the rows."""
        middles = (np.arange(_POINTS) + 0.5) / _POINTS
        which = np.searchsorted(np.cumsum(self.shares), middles)
        return self.values[np.minimum(which, len(self.values) - 1)]


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
    """Return the mean change, the median change, and the share of none, where not missing."""
    column, noise, step = release.column, release.noise, release.grid
    raw = distribution.values if noise is None else distribution.spread_evenly()
    atoms = raw if column.edges is None else column.placed(raw)
    if noise is None:
        return summary(np.abs(atoms - raw), distribution.shares)
    low, high = -math.inf, math.inf
    if release.last_code is not None:
        low, high = 0.0, float(release.last_code)
    elif release.whole:
        low, high = distribution.low, distribution.high
    drawn = scale_of(release) * _quantiles(noise.with_scale(1.0))
    released = to_indices(atoms, step) * np.float64(step) + drawn
    if release.whole:
        released = np.rint(released / step) * step
    changes = np.abs(np.clip(released, low, high) - raw)
    mean, median, same = summary(changes, np.ones(_POINTS))
    heavy = noise.power is not None and noise.power <= 2.0
    cut = high - low < np.ptp(drawn)  # else the mean is that of the quantiles alone
    return math.inf if heavy and not cut else mean, median, same


@lru_cache(maxsize=16)
def _quantiles(noise: Noise) -> FloatArray:
    """Return the middles of equal shares of noise, as ascending values meet them."""
    above = (np.arange(_POINTS // 2) + 0.5) / _POINTS  # the mass beyond each of them
    low, high = np.full((2, len(above)), -_FARTHEST)
    high = -low
    while (high - low).max() > 1e-12:
        middle = 0.5 * (low + high)
        beyond = noise.mass(np.exp(middle), np.inf) > above
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    falling = np.exp(high)
    ascending = np.concatenate([-falling, falling[::-1]])
    return ascending[np.arange(_POINTS) * _STRIDE % _POINTS]


def _in_spreads(change: float, spread: float) -> float:
    if spread > 0.0:
        return change / spread
    return math.inf if change > 0.0 else 0.0


def _among_all(chance: float, present: float) -> float:
    """Return the chance among all rows: what is missing stays missing."""
    return min(chance * present + (1.0 - present), 1.0)
