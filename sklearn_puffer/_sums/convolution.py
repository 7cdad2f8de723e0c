r"""The distribution of a sum of independent lattice distributions, to a relative accuracy.

All users but one add up to X, in whole numbers of steps. With s = step/theta, a loss depends on the
distribution R of X only through its Laplace sums

.. math:: h(y) = \sum_x R(x) e^{-s |x - y|}

which must have a small relative error, in the far tails too. `SumDistribution` holds masses R' <= R
(up to rounding) and a bound on the part of h that they miss. `laplace_sums` sums them, and
`suprema` compares two mixtures of shifts of h along the lattice.
"""

# 1. Tilts. For any t the distribution R_t(x) = R(x) e^(t (x - c) - K(t)) is the convolution of the
# tilted distributions. It is convolved in floats: all terms are positive, so each number is right
# relative to its size, except for what was cut off the ends (to keep arrays short) and what
# underflowed; together at most `lost`, an absolute bound, as every distribution sums to one. A
# number is trusted where it is above 2^60 lost. One tilt shows a part of the line, several show all
# of it.
#
# 2. What nobody trusts. Any tilt gives R(x) <= (R_t'(x) + lost) e^(K - t (x - c)) =: top(x). As log
# h' is s-Lipschitz, an atom left out at x adds at most top(x) e^(-s|x-y|) <= h'(y) top(x) / h'(x)
# to h(y). So h' <= h <= h' (1 + missed) with missed = sum of top(x) / h'(x) over the atoms left
# out. Where that is too much, a tilt is added whose mean is the worst of them. Atoms outside the
# support (computed exactly, by shifting bits) are left out.
#
# 3. The bound holds for every smaller s: a wider Laplace distribution is a narrower one plus
# something independent, and h' <= h <= (1 + missed) h' survives an average.
#
# 4. Rounding, in units of u = 2^-53, relative to each mass. A product of arrays adds the errors of
# both and its own: inner products of length m and one addition for each of their rows. A tilt costs
# each mass an exponential of a rounded argument, there and back: 2 |argument| + 8 each. Masses are
# counts over totals, 3 each.
#
# 5. Rounding of h' is that of sums of Laplace kernels in `_losses`.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import expm1, fsum, inf, log

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import LARGEST, LN2, UNIT, FloatArray, IntArray
from sklearn_puffer._losses import PriorGrid, Wide, as_wide
from sklearn_puffer._sums.users import with_mass
from sklearn_puffer.priors import Discrete, PriorPair

_MASS_ERROR = 3.0

_UNDERFLOW = 2.0**-1000  # more than all that may underflow in one convolution
_LEAST_WEIGHT = 2.0**-900  # of a tilt: below, its weight is on masses too small for floats
_SHALLOW, _DEEP = 2.0**-180, 2.0**-900
_TRUST = 2.0**60
_PIECE = 256
_SHORT = 2**13  # lattices up to this length are convolved without cutting anything
_MISSED = 2.0**-60
_MAX_TILTS = 40
_STEEPEST = 600.0
_WINDOW = 256  # steps of a window that is summed in floats
_WIDEST = 400.0  # windows up to this many theta wide are
_LEAST_EXPONENT = -900  # of numbers that are
_SMALLEST_MASS = 2.0**-900


@dataclass(frozen=True, eq=False)
class LatticeDistribution:
    """Masses on the whole numbers from ``start`` on; the first and the last are those of atoms."""

    start: int
    masses: FloatArray
    atoms: IntArray  # indices, from start, of all atoms with mass, even too small for floats

    @classmethod
    def of(cls, distribution: Discrete, step: float) -> LatticeDistribution:
        """Return a distribution of multiples of a step."""
        atoms = np.rint(with_mass(distribution) / step).astype(np.int64)
        masses = np.zeros(int(atoms[-1] - atoms[0]) + 1)
        masses[atoms - atoms[0]] = distribution.probabilities[distribution.counts > 0]
        return cls(int(atoms[0]), masses, atoms - atoms[0])

    @property
    def span(self) -> int:
        """Steps between the outermost atoms."""
        return len(self.masses) - 1


@dataclass(frozen=True, eq=False)
class _Part:
    """A tilted distribution: masses from ``start`` on, their relative error, and what was lost."""

    start: int
    masses: FloatArray
    units: float
    lost: float

    def __lt__(self, other: _Part) -> bool:
        return len(self.masses) < len(other.masses)

    def plus(self, other: _Part, cut: float) -> _Part:
        """Return the distribution of the sum, without ends of mass at most ``cut``."""
        masses, units = convolved(self.masses, other.masses)
        # the range that is left when ends of a mass of at most `cut` each are cut off
        first = int(np.searchsorted(np.cumsum(masses), 0.99 * cut))
        last = len(masses) - int(np.searchsorted(np.cumsum(masses[::-1]), 0.99 * cut))
        if first >= last:
            first, last = 0, len(masses)
        lost = self.lost + other.lost + 2.0 * cut + _UNDERFLOW
        total = self.units + other.units + units
        return _Part(self.start + other.start + first, masses[first:last], total, 1.01 * lost)


def convolved(a: FloatArray, b: FloatArray) -> tuple[FloatArray, float]:
    """Return the convolution of positive arrays, and its relative error in units of 2^-53."""
    short, long = sorted((a, b), key=len)
    sums = np.zeros(len(a) + len(b) - 1)
    for start in range(0, len(short), _PIECE):  # inner products of this length, and their sums
        piece = short[start : start + _PIECE]
        sums[start : start + len(long) + len(piece) - 1] += np.convolve(long, piece)
    return sums, min(len(short), _PIECE) + len(short) // _PIECE + 2.0


class SumDistribution:
    """The distribution of the sum of independent lattice distributions.

    Parameters
    ----------
    distributions : sequence of LatticeDistribution
    counts : sequence of int
        How often each occurs in the sum; zero is allowed.
    """

    def __init__(self, distributions: Sequence[LatticeDistribution], counts: Sequence[int]) -> None:
        present = [pair for pair in zip(distributions, counts, strict=True) if pair[1] > 0]
        self._lattices = [lattice for lattice, _ in present]
        self._counts = [count for _, count in present]
        self.size = sum(lattice.span * count for lattice, count in present) + 1
        self._center = 0.5 * (self.size - 1)
        self.units = 0.0
        self._masses = as_wide(np.zeros(self.size))
        self._log_top = np.full(self.size, inf)
        self._cut = _SHALLOW if self.size > _SHORT else 0.0
        self._tilts: set[float] = set()
        self._knows_support = False
        self._steepness, self._missed = -1.0, inf  # the largest s with a small bound, and the bound
        self._too_steep = np.nan  # the smallest s without one; NaN until there is one

    def missed(self, s: float) -> float:
        """Return a bound on the part of h that the masses miss, for this s and all below.

        Infinite where no bound is small enough. 0 <= s <= inf, and inf needs every atom.
        """
        if s <= self._steepness:
            return self._missed
        if s >= self._too_steep:
            return inf
        missed = self._certify(s)
        if missed <= _MISSED:
            self._steepness, self._missed = s, missed
        else:
            self._too_steep = s
        return missed

    def numbers(self, margin: int) -> Wide:
        """Return the masses, with ``margin`` zeros at both ends."""
        masses = as_wide(np.zeros(self.size + 2 * margin))
        masses[margin : margin + self.size] = self._masses
        return masses

    def _certify(self, s: float) -> float:
        if not self._tilts:
            self._look(0.0)
        missed = inf
        for _ in range(_MAX_TILTS):
            excess = self._excess(s)
            missed = 1.01 * float(excess.sum())
            if missed <= _MISSED:
                break
            tilt = self._tilt_to(int(excess.argmax()), s)
            if tilt not in self._tilts:
                self._look(tilt)
            elif not self._knows_support:
                self._knows_support = True
            elif self._cut in (0.0, _DEEP):
                break
            else:
                self._cut = _DEEP
                self._tilts = set()
        return missed

    def _tilt_to(self, mean: float, s: float) -> float:
        """Return the tilt, no steeper than s, with about this mean."""
        steepest = min(s, _STEEPEST)
        low, high = -steepest, steepest
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._mean(middle) < mean else (low, middle)
        tilt = 0.5 * (low + high)
        if steepest - abs(tilt) < 1e-6 * steepest:
            return float(np.copysign(steepest, tilt))
        return float(f"{tilt:.6g}")

    def _mean(self, tilt: float) -> float:
        """Return the mean of the tilted distribution."""
        atoms, masses, first, lengths, counts = self._flat
        exponents = atoms * tilt
        tops = np.maximum.reduceat(exponents, first)
        with np.errstate(under="ignore"):
            weights = masses * np.exp(exponents - np.repeat(tops, lengths))
            sums = np.maximum(np.add.reduceat(weights, first), 1e-300)
            means = np.add.reduceat(weights * atoms, first) / sums
        return float(counts @ means)

    @cached_property
    def _flat(self) -> tuple[FloatArray, FloatArray, IntArray, IntArray, FloatArray]:
        """All atoms and masses; the first, number and count of each distribution."""
        lengths = np.array([len(lattice.atoms) for lattice in self._lattices])
        atoms = np.concatenate([lattice.atoms for lattice in self._lattices]).astype(float)
        masses = np.concatenate([lattice.masses[lattice.atoms] for lattice in self._lattices])
        counts = np.array(self._counts, dtype=float)
        return atoms, masses, np.cumsum(lengths) - lengths, lengths, counts

    def _excess(self, s: float) -> FloatArray:
        """Return top(x)/h'(x) at the atoms left out, and 0 elsewhere."""
        excess = np.zeros(self.size)
        unseen = np.flatnonzero(self._masses.mantissa == 0.0)
        if not unseen.size:
            return excess
        logs = np.full(self.size, -inf)
        if s < inf:
            sums, _ = laplace_sums(self._masses, 1.0 / s)
            logs = np.log(sums.mantissa) + sums.exponent * LN2
        ratio = np.exp(np.minimum(self._log_top[unseen] - logs[unseen] + 1e-6, 600.0))
        if self._knows_support and ratio.sum() > _MISSED:
            ratio[~self._support[unseen]] = 0.0
        excess[unseen] = ratio
        return excess

    @cached_property
    def _support(self) -> NDArray[np.bool_]:
        """Whether each lattice point is an atom: exactly, by shifts of a long integer."""
        bits = 1
        for lattice, count in zip(self._lattices, self._counts, strict=True):
            atoms = lattice.atoms.tolist()
            for _ in range(count):
                shifted = 0
                for atom in atoms:
                    shifted |= bits << atom
                bits = shifted
        raw = bits.to_bytes(-(-self.size // 8), "little")
        return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[: self.size] > 0

    def _look(self, tilt: float) -> None:
        """Convolve at one tilt, and take over the masses that it proves."""
        self._tilts.add(tilt)
        cut = self._cut / (8.0 * sum(self._counts) + 8.0)
        tilted = [(*_tilted(x, tilt), n) for x, n in zip(self._lattices, self._counts, strict=True)]
        parts = [_power(part, n, cut) for part, _, _, n in tilted]
        log_norm = fsum(n * log_sum for _, log_sum, _, n in tilted)
        error = fsum(n * error for _, _, error, n in tilted)
        if log_norm < inf:
            self._take_over(_sum(parts, cut), tilt, log_norm, error)

    def _take_over(self, whole: _Part, tilt: float, log_norm: float, error: float) -> None:
        here = slice(whole.start, whole.start + len(whole.masses))
        x = np.arange(self.size) - self._center
        logs = log_norm - tilt * x if tilt else np.zeros(self.size)
        top = np.full(self.size, whole.lost)
        top[here] += whole.masses
        np.minimum(self._log_top, np.log(top) + logs + 1e-6, out=self._log_top)
        powers = np.rint(logs[here] / LN2)
        unknown = self._masses.mantissa[here] == 0.0
        trusted = np.flatnonzero((whole.masses > _TRUST * whole.lost) & unknown)
        if not trusted.size:
            return
        scaled = whole.masses * np.exp(logs[here] - powers * LN2) if tilt else whole.masses
        masses = Wide(scaled, powers.astype(np.int64))[trusted]
        self._masses[whole.start + trusted] = masses.normalised()
        units = whole.units + 1.0
        if tilt:
            units += error + 4.0 * (abs(log_norm) + 2.0 * abs(tilt) * self.size) + 8.0
        self.units = max(self.units, units)


def _tilted(lattice: LatticeDistribution, tilt: float) -> tuple[_Part, float, float]:
    """Return e^(tilt (x - middle)) times masses, of sum one, the log of the sum, and its error."""
    if tilt == 0.0:
        return _Part(0, lattice.masses, _MASS_ERROR, _UNDERFLOW), 0.0, 0.0
    top = float(lattice.span) if tilt > 0.0 else 0.0
    with np.errstate(under="ignore"):
        weights = lattice.masses * np.exp(tilt * (np.arange(len(lattice.masses)) - top))
    total = float(weights.sum())
    if total < _LEAST_WEIGHT:  # this tilt tells nothing
        return _Part(0, lattice.masses, _MASS_ERROR, _UNDERFLOW), inf, 0.0
    reach = abs(tilt) * lattice.span
    lost = max(_UNDERFLOW, 2.0**-1050 / total)  # fewer than 2^24 atoms, with errors of 2^-1074
    part = _Part(0, weights / total, _MASS_ERROR + 2.0 * reach + 8.0, lost)
    log_sum = log(total) + tilt * (top - 0.5 * lattice.span)
    return part, log_sum, 4.0 * (abs(log(total)) + reach) + 8.0


def _power(part: _Part, count: int, cut: float) -> _Part:
    """Return the distribution of the sum of ``count`` independent copies."""
    result = None
    while True:
        if count & 1:
            result = part if result is None else result.plus(part, cut)
        count >>= 1
        if not count:
            assert result is not None
            return result
        part = part.plus(part, cut)


def _sum(parts: list[_Part], cut: float) -> _Part:
    if not parts:
        return _Part(0, np.ones(1), 0.0, _UNDERFLOW)
    heapify(parts)
    while len(parts) > 1:
        heappush(parts, heappop(parts).plus(heappop(parts), cut))
    return parts[0]


def laplace_sums(masses: Wide, scale: float) -> tuple[Wide, float]:
    """Return the Laplace sums h of masses along the lattice, and their error in units of u.

    The scale of the noise is in steps.
    """
    lattice, theta = [np.arange(float(len(masses.mantissa)))], np.array([min(scale, LARGEST)])
    floats = _in_floats(masses)
    if floats is not None:
        grid = PriorGrid(lattice, floats[None])
        sums = grid.sums(theta)
        if sums is not None:
            # rounding grows with the exponents of the kernel, which are no larger than this
            least = max(log(sums.min()), -floats.size / scale)
            return as_wide(sums[0]), grid.rounding(least) / UNIT
    grid = PriorGrid(lattice, masses.mantissa[None], masses.exponent[None])
    return grid.wide_sums(theta)[0], grid.wide_rounding(theta) / UNIT


def _in_floats(numbers: Wide) -> FloatArray | None:
    """Return normalised numbers as floats, or None where one is too small for that."""
    if numbers.exponent.min(where=numbers.mantissa > 0.0, initial=0) < _LEAST_EXPONENT:
        return None
    floats: FloatArray = np.ldexp(numbers.mantissa, np.maximum(numbers.exponent, _LEAST_EXPONENT))
    return floats


# ------------------------------------------------------------------------- the largest ratios


def pair_masses(priors: PriorPair, step: float) -> Wide:
    """Return two distributions on one stretch of the lattice, shape (2, span + 1)."""
    lattices = [LatticeDistribution.of(prior, step) for prior in priors]
    first = min(lattice.start for lattice in lattices)
    size = max(lattice.start + lattice.span for lattice in lattices) - first + 1
    masses = as_wide(np.zeros((2, size)))
    for k, (lattice, prior) in enumerate(zip(lattices, priors, strict=True)):
        masses[k, lattice.start - first + lattice.atoms] = _exact_masses(prior)
    return masses


def _exact_masses(distribution: Discrete) -> Wide:
    """Return the masses of the atoms that have some, also where floats cannot hold them."""
    positive = distribution.counts > 0
    masses: FloatArray = distribution.probabilities[positive]
    if masses.min() >= _SMALLEST_MASS:
        return as_wide(masses)
    counts, total = distribution.counts[positive].tolist(), distribution.total
    shifts = [max(total.bit_length() - int(count).bit_length(), 0) for count in counts]
    scaled = [(int(count) << k) / total for count, k in zip(counts, shifts, strict=True)]
    return Wide(np.array(scaled), -np.array(shifts)).normalised()


def margin(
    losses: FloatArray, worst: FloatArray, pair: Wide, units: float, missed: float, of_sums: float
) -> FloatArray:
    """Return how far the computed losses may be from the true ones.

    ``units`` and ``missed`` are those of the masses of `SumDistribution`, ``of_sums`` the units of
    their Laplace sums.
    """
    row_units = of_sums + int((pair.mantissa > 0.0).sum(axis=1).max()) + 5.0
    error = units * UNIT
    largest = min(float(worst.max()), 300.0)
    of_masses = min(2.0 * error, error * expm1(2.0 * largest))
    of_rest = 2.0 * missed + UNIT * (2.0 * row_units + 10.0)
    return 1.01 * (of_masses + of_rest) + 5.0 * UNIT * np.where(np.isfinite(losses), losses, 0.0)


def suprema(sums: Wide, pair: Wide, s: float) -> FloatArray:
    """Return the largest log ratios, both ways, of the two densities along the lattice."""
    masses = _in_floats(pair)
    if masses is None or (_WINDOW + masses.shape[1]) * s > _WIDEST:
        logs = _wide_logs(sums, pair)
    else:
        logs = _logs_by_window(sums, masses)
    largest: FloatArray = np.maximum([logs.max(), -logs.min()], 0.0)
    return largest


def _logs_by_window(sums: Wide, masses: FloatArray) -> FloatArray:
    """Return log p/q along the lattice by floats, whose unit changes from window to window."""
    span, logs = masses.shape[1] - 1, []
    for start in range(0, len(sums.mantissa) - span, _WINDOW):
        window = sums[start : start + _WINDOW + span]
        values = np.ldexp(window.mantissa, window.exponent - window.exponent.max())
        p, q = (np.convolve(values, row, "valid") for row in masses)
        logs.append(np.log(p / q))
    return np.concatenate(logs)


def _wide_logs(sums: Wide, masses: Wide) -> FloatArray:
    """Return log p/q along the lattice by wide numbers; 0 where both have no mass."""
    p, q = _mixed(sums, masses[0]), _mixed(sums, masses[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(p.mantissa / q.mantissa) + (p.exponent - q.exponent) * LN2
    nothing = (p.mantissa == 0.0) & (q.mantissa == 0.0)
    return np.asarray(np.where(nothing, 0.0, logs))


def _mixed(sums: Wide, masses: Wide) -> Wide:
    span = len(masses.mantissa) - 1
    size = len(sums.mantissa) - span
    total = as_wide(np.zeros(size))
    for t in np.flatnonzero(masses.mantissa).tolist():
        total = total + sums[span - t : span - t + size] * masses[t]
    return total.normalised()
