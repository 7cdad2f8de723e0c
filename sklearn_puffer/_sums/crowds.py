r"""The law of a sum of many lattice laws, by Fourier transforms of tilted laws, with its errors.

All users but one add up to X, on whole numbers of steps, and with s = step/theta the Laplace sums

.. math:: h(y) = \sum_x R(x) e^{-s |x - y|}

of its law R matter, relative to their own size. Where very many users add up, `_sums.others` takes
long to know all masses alike well. A `Crowd` knows each of them with an error of its own, and
learns more about the places that it is asked about: most are nowhere near the largest loss, and a
glance is enough to prove that.
"""

# 1. One tilt. R_t(x) = R(x) e^(t (x - c) - K(t)) is the convolution of the tilted laws, so its
#    transform is the product of theirs. Let a_j be the masses of law j in floats, which occurs n_j
#    times, A_j their exact transform of length N = 2^L, and B_j >= |A_j| and >= its computed value.
# 2. The transform of one law. Every number inside a fast transform is a sum of some of the inputs,
#    each times a number of modulus one, so at most sum_x a_j(x) in modulus, and so is the total of
#    the moduli of what is added up to make it. The transform of length 2^L is done by fours, and
#    once by two where L is odd. A step by fours multiplies by a twiddle (itself a product of two
#    tabled ones, and wrong by 5u; the product of real arithmetic by sqrt(8)u) and adds twice (2u):
#    less than 16u; a step by two less than 16u too. By induction the error of every output is at
#    most 8u (L + 1) sum_x a_j(x), and a hair for the products of errors: that is e0.
# 3. The product, by telescoping: |prod A_j^n_j - prod of computed| <= prod B_j^n_j sum n_j e0/B_j,
#    frequency by frequency, and 4u n prod B_j^n_j for n products in floats. The way back costs
#    8u (L + 1) of the mean modulus of what is transformed. All this bounds the error of every mass
#    by one number E_t, which depends on no statistics: it is computed, and rounded outwards.
# 4. Wrapping. A transform of length N shows R_t folded modulo N. The masses outside the window of
#    N places that is kept come on top, at most their sum, which Chernoff's bound limits, as
#    K(t + r) - K(t) is a sum of logarithms. Outside the window 0 is right up to the same sum.
# 5. Many tilts. |R - R'| <= E_t e^(K(t) - t (x - c)) for all x: in logarithms a line. R' takes each
#    mass from the tilt whose line is lowest there. For |t| <= s the line of t at y bounds
#        sum_x |R - R'|(x) e^(-s |x - y|) <= line(y) sum_d e^(-t d - s |d|),
#    two geometric series, of `size` terms at most. So every h(y) has an error of its own.
# 6. Far out. Of the tilt s itself all masses add up to 1, and e^(-s |x - y|) = e^(s (x - y)) for
#    x <= y, and less than that beyond: h(y) = e^(K(s) - s (y - c)) (1 +- Pr_s(X > y)). Chernoff's
#    bound on that probability is soon nothing at all; and on the left likewise.
#    Where some law has its weight on masses too small for floats, K(s) is not known, nor h far out.
# 7. What the floats of the laws do to R itself, relative to it, is in `units`, as in `others`: 3,
#    2 |argument| + 8 and the error of the logarithm of its sum for each law.

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.ndimage import maximum_filter1d

from sklearn_puffer._base.rounding import LN2, UNIT
from sklearn_puffer._base.types import FloatArray, IntArray
from sklearn_puffer._sums.others import (
    NOTHING,
    UNDERFLOW,
    Lattice,
    Members,
    Row,
    Tilted,
    row_of,
    tilted_law,
)

_PER_LEVEL = 8.0 * UNIT
_APART = 10.0  # deviations from one tilt's mean to the next one's
_WINDOW = 17.0  # deviations that a transform shows at least
_MAX_TILTS = 250
_STEEPER = 8.0  # what the steepest tilt may fall behind s, times the length of the sum
_STEEPEST = 100.0  # beyond it the laws are looked at one atom after the other anyway
_HARDLY_ANY = 1e-12  # mass outside a window, relative to the largest masses in it
_BLOCK = 8  # places that share a line
_AT_ONCE = 2**19  # numbers that are transformed at once
_GRAIN = 0.125  # deviations within which a second look tells nothing new


class Crowd:
    """The law of the sum of independent lattice laws, with an error for every place.

    Parameters
    ----------
    laws : sequence of Lattice
    counts : sequence of int
        How often each occurs in the sum; zero is allowed, but not for all.
    """

    def __init__(self, laws: Sequence[Lattice], counts: Sequence[int]) -> None:
        self._members = Members(laws, counts)
        self.size = self._members.size
        self.units = 0.0
        self._mantissa = np.zeros(self.size)
        self._exponent = np.full(self.size, NOTHING)
        self._log_error = np.full(self.size, inf)
        self._lines: dict[float, float] = {}  # log of the error at the center, by tilt
        self._chain = {1.0: [0.0], -1.0: [0.0]}
        self._seen: tuple[float, int, Row, FloatArray] | None = None

    def covers(self, s: float) -> bool:
        """Lay tilts from -s to s; return whether that was done, with a bounded number of tilts."""
        if not 0.0 < s <= _STEEPEST or not all(self._reaches(s, side) for side in (1.0, -1.0)):
            return False
        for side, chain in self._chain.items():
            for steep in chain:
                if steep < s and side * steep not in self._lines:
                    self._look(side * steep)
            nearest = max(side * t for t in self._lines if side * t <= s)
            if (s - nearest) * self.size > _STEEPER:
                self._look(side * s)
        return True

    def _reaches(self, s: float, side: float) -> bool:
        """Lengthen the chain of tilts on one side until it is beyond s."""
        chain = self._chain[side]
        while chain[-1] < s and len(chain) <= _MAX_TILTS:
            chain.append(chain[-1] + self._step_from(side * chain[-1], side))
        return chain[-1] >= s

    def look_at(self, place: int, s: float) -> bool:
        """Look closer around a place of the sum; return whether that told anything new."""
        grain = 2.0 ** np.floor(np.log2(max(_GRAIN * self._members.moments(0.0)[2], 1.0)))
        tilt = self._tilt_for(grain * round(place / grain), s)
        if tilt in self._lines:
            return False
        self._look(tilt)
        return True

    def _tilt_for(self, place: float, s: float) -> float:
        """Return the tilt whose mean is ``place``, or a bit less steep than s where that is less.

        Its error is summed over about as many places as the inverse of what it is less steep.
        """
        tilt = self._members.tilt_to(place, s)
        _, mean, deviation = self._members.moments(tilt)
        limit = max(s - 1.0 / max(abs(place - mean), 2.0 * deviation, 2.0 / s), 0.0)
        return float(np.clip(tilt, -limit, limit))

    def row(self, s: float, margin: int) -> tuple[Row, FloatArray]:
        """Return h with ``margin`` places added at both ends, and logs of its relative errors.

        The second is no bound on rounding: `Row.units` and `units` come on top.
        """
        if self._seen is not None and self._seen[:2] == (s, margin):
            return self._seen[2:]
        exponent = np.full(self.size + 2 * margin, NOTHING)
        exponent[margin : margin + self.size] = self._exponent
        row = row_of(np.pad(self._mantissa, margin), exponent, s)
        with np.errstate(divide="ignore"):
            logs = np.log(row.mantissa) + row.exponent * LN2
        errors = self._log_errors(s, margin) - logs + 1e-6
        units = row.units + max(self._reach_out(side, margin, row, errors) for side in (s, -s))
        self._seen = (s, margin, Row(row.mantissa, row.exponent, units), errors)
        return self._seen[2:]

    def _reach_out(self, tilt: float, margin: int, row: Row, errors: FloatArray) -> float:
        """Replace h and its errors on one side by what is known far out, where that is better.

        Return the relative error that rounding leaves there, in units of 2^-53.
        """
        members = self._members
        if not members.tells(tilt):  # K(s) itself is not known
            return 0.0
        log_norm, _, deviation = members.moments(tilt)
        x = np.arange(-margin, self.size + margin) - members.center
        beyond = np.full(len(x), inf)
        for far in (3.0, 6.0, 10.0):
            turn = float(np.copysign(far / max(deviation, 0.1), tilt))
            line = members.moments(tilt + turn)[0] - log_norm - turn * x
            np.minimum(beyond, line + 1e-3, out=beyond)
        places = np.flatnonzero(beyond < np.minimum(errors, -1.0))  # h stays smooth that way
        logs = log_norm - tilt * x[places]
        powers = np.rint(logs / LN2)
        row.mantissa[places] = np.exp(logs - powers * LN2)
        row.exponent[places] = powers.astype(np.int64)
        errors[places] = beyond[places]
        reach = 0.5 * abs(tilt) * self.size
        of_laws = fsum(
            n * (5.0 * abs(tilt) * law.span + len(law.atoms) + 16.0)
            for law, n in zip(members.laws, members.counts, strict=True)
        )
        return of_laws + 4.0 * (abs(log_norm) + reach) + 8.0

    def _log_errors(self, s: float, margin: int) -> FloatArray:
        """Return logs of a bound on the error of h, block by block from the line that is lowest."""
        tilts = np.array([t for t in self._lines if abs(t) <= s])
        heights = np.array([self._lines[t] for t in tilts.tolist()])
        heights = heights + [self._log_reach(t, s) for t in tilts.tolist()]
        x = np.arange(-margin, self.size + margin) - self._members.center
        n_blocks = -(-len(x) // _BLOCK)
        centers = x[0] + _BLOCK * (np.arange(n_blocks) + 0.5)
        lowest, best = np.full(n_blocks, inf), np.zeros(n_blocks, np.int64)
        for k, (tilt, height) in enumerate(zip(tilts.tolist(), heights.tolist(), strict=True)):
            line = height - tilt * centers
            lower = line < lowest
            lowest[lower], best[lower] = line[lower], k
        of = np.repeat(best, _BLOCK)[: len(x)]
        found: FloatArray = heights[of] - tilts[of] * x
        return found

    def _log_reach(self, tilt: float, s: float) -> float:
        """Return the log of sum_d e^(-t d - s |d|), of no more terms than there are places."""
        sides = 1.0
        for gap in (s - tilt, s + tilt):
            sides += min(1.0 / np.expm1(min(gap, 700.0)) if gap > 0.0 else inf, float(self.size))
        return log(sides) + 1e-6

    def _step_from(self, tilt: float, side: float) -> float:
        """Return how far the next tilt is: a number of deviations, the larger of both counts."""
        most = _APART / max(self._members.moments(tilt)[2], 1e-3)
        there = self._members.moments(tilt + side * most)[2]
        return min(most, _APART / max(there, 1e-3))

    def _look(self, tilt: float) -> None:
        """Convolve at one tilt; take over the masses that it knows best."""
        self._seen = None
        members = self._members
        log_norm, mean, deviation = members.moments(tilt)
        tilted = [tilted_law(law, tilt) for law in members.laws]
        self._lines[tilt] = inf
        if any(law.log_sum == inf for law in tilted):
            return
        log_norm = fsum(n * t.log_sum for t, n in zip(tilted, members.counts, strict=True))
        first, length, outside = self._window(tilt, mean, deviation)
        masses, error = _convolved(tilted, members.counts, length)
        error += outside
        error += fsum(n * t.part.lost for t, n in zip(tilted, members.counts, strict=True))
        start = first % length
        masses = np.concatenate([masses[start:], masses[:start]])[: self.size - first]
        self._take_over(masses, first, tilt, log_norm, 1.01 * (error + UNDERFLOW))
        of_each = zip(tilted, members.counts, strict=True)
        units = fsum(n * (t.part.units + t.error) for t, n in of_each)
        units += 4.0 * (abs(log_norm) + 0.5 * abs(tilt) * self.size) + 8.0 if tilt else 0.0
        self.units = max(self.units, units)

    def _window(self, tilt: float, mean: float, deviation: float) -> tuple[int, int, float]:
        """Return where a window on the tilted law begins, its length, and the mass outside."""
        longest = max(law.span for law in self._members.laws) + 1
        least = max(min(_WINDOW * deviation, float(self.size)), longest, 2.0)
        length = 1 << int(np.ceil(np.log2(least)))
        while True:
            first = 0 if length >= self.size else max(0, round(mean) - length // 2)
            outside = self._outside(tilt, first, length, deviation)
            if outside * max(deviation, 1.0) <= _HARDLY_ANY:
                return first, length, outside
            length *= 2

    def _outside(self, tilt: float, first: int, length: int, deviation: float) -> float:
        """Return Chernoff's bound on the mass of the tilted law outside the window."""
        total = 0.0
        log_norm = self._members.moments(tilt)[0]
        for edge, side in ((first + length, 1.0), (first - 1, -1.0)):
            if not 0 <= edge < self.size:
                continue
            best = 0.0
            for share in (0.5, 1.0, 2.0):
                turn = side * share * 0.5 * length / max(deviation, 1.0) ** 2
                log_mean = self._members.moments(tilt + turn)[0] - log_norm
                best = min(best, log_mean - turn * (edge - self._members.center) + 1e-3)
            total += exp(best)
        return total

    def _take_over(
        self, masses: FloatArray, first: int, tilt: float, log_norm: float, error: float
    ) -> None:
        self._lines[tilt] = height = log(error) + log_norm + 1e-6
        x = np.arange(self.size) - self._members.center
        places = np.flatnonzero(height - tilt * x < self._log_error)
        if not places.size:
            return
        low, high = int(places[0]), int(places[-1]) + 1  # lines are lowest on an interval
        known = np.zeros(high - low)
        begin, end = max(low, first), min(high, first + len(masses))
        if begin < end:
            known[begin - low : end - low] = masses[begin - first : end - first]
        logs = log_norm - tilt * x[low:high]
        powers = np.rint(logs / LN2)
        self._log_error[low:high] = height - tilt * x[low:high]
        self._mantissa[low:high] = np.maximum(known, 0.0) * np.exp(logs - powers * LN2)
        self._exponent[low:high] = np.where(known > 0.0, powers, NOTHING).astype(np.int64)


def relative_errors(log_errors: FloatArray, span: int) -> FloatArray:
    """Return the largest of ``span + 1`` neighbours each; 1 where nothing is known."""
    width = span + 1
    largest = maximum_filter1d(log_errors, width, mode="nearest")[width // 2 :]
    found: FloatArray = np.exp(np.minimum(largest[: len(log_errors) - span], 0.0))
    return found


def _convolved(
    laws: Sequence[Tilted], counts: Sequence[int], length: int
) -> tuple[FloatArray, float]:
    """Return the law of the sum, folded modulo ``length``, and a bound on the error of each mass.

    The bound leaves out what the folding adds.
    """
    levels = length.bit_length()  # one more than butterflies
    e0 = 1.001 * _PER_LEVEL * levels
    product = np.ones(length // 2 + 1, np.complex128)
    bound, shares = np.ones(len(product)), np.zeros(len(product))
    at_once = max(1, _AT_ONCE // length)
    for start in range(0, len(laws), at_once):
        times = np.array(counts[start : start + at_once])
        masses = np.zeros((len(times), length))
        for row, law in zip(masses, laws[start:], strict=False):
            row[: len(law.part.masses)] = law.part.masses
        waves = _transform(masses)
        moduli = np.abs(waves) + 1.5 * e0
        product *= _powers(waves, times)
        bound *= _powers(moduli, times)
        shares += times @ (e0 / moduli)
    errors = bound * (shares + 4.0 * UNIT * sum(counts) + _PER_LEVEL * levels)
    # all frequencies but the first and the middle one stand for two
    total = (2.0 * float(errors.sum()) - float(errors[0])) / length
    with fft.set_backend("scipy", only=True):
        return fft.irfft(product, length), 1.01 * total


def _transform(rows: FloatArray) -> NDArray[Any]:
    # the bound is on this algorithm: no other that a program may have registered takes its place
    with fft.set_backend("scipy", only=True):
        waves: NDArray[Any] = fft.rfft(rows, axis=1)
    return waves


def _powers(bases: NDArray[Any], counts: IntArray) -> NDArray[Any]:
    """Return the product over rows of the rows to the power of their counts, by squarings."""
    result = np.ones(bases.shape[1], bases.dtype)
    for bit in range(int(counts.max()).bit_length() - 1, -1, -1):
        result *= result
        for k in np.flatnonzero((counts >> bit) & 1).tolist():
            result *= bases[k]
    return result
