r"""The distribution of a sum of independent lattice distributions, to a relative accuracy.

All users but one add up to X, in whole numbers of steps. With s = step/theta, a loss depends on the
distribution R of X only through its Laplace sums

.. math:: h(y) = \sum_x R(x) e^{-s |x - y|}

which must have a small relative error, in the far tails too. So all masses are `Wide` numbers.
`convolved` adds two independent sums, and a user to the others. Then Laplace sums are taken, in
logs.
"""

# Rounding, in units of u = 2^-53, relative to each number. All are positive, so nothing cancels.
#
# 1. Masses are counts over totals, 3 each.
# 2. Numbers next to each other may be hundreds of powers of ten apart. So they are cut into pieces,
#    and each piece into bands of 500 powers of two. A product of two bands holds no number below
#    2^-1002, so that floats hold it. It is a sum of at most as many terms as the shorter band is
#    long, and wide numbers add such products, with one more unit for each.
# 3. Products are added from the largest band to the smallest. One is left out where it cannot reach
#    2^-129 of what is there already: fewer than 2^60 of them, for one more unit.
# 4. Rounding of h is that of sums of Laplace kernels in `_losses`.

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import expm1
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._losses import PriorGrid
from sklearn_puffer._numerics import LARGEST, LN2, UNIT
from sklearn_puffer._sums.users import with_mass
from sklearn_puffer.priors import Discrete, PriorPair

_MASS_ERROR = 3.0
_PIECE, _BAND = 2**10, 500
_TOO_SMALL = 140  # powers of two: a product is at most 2^10 times its power, the total at least 1/2

_ZERO_EXPONENT = -(2**61)

# E and a: a log L is off by E |L| + a. The logarithm of a mantissa is right to 4u of itself, a
# product to 2u, and a sum to u. `PriorGrid` allows for as much in its first step.
_LOG_ROUNDING = 3.0 * UNIT, 5.0 * UNIT


class Wide:
    """An array of non-negative numbers ``mantissa * 2**exponent`` that cannot under- or overflow.

    Zero has the mantissa 0 and an exponent below all others, so that it never sets the scale
    of a sum. Mantissas are normalised on request only.
    """

    __slots__ = ("exponent", "mantissa")

    def __init__(self, mantissa: FloatArray, exponent: IntArray) -> None:
        self.mantissa = mantissa
        self.exponent = exponent

    def __add__(self, other: Wide) -> Wide:
        top = np.maximum(self.exponent, other.exponent)
        parts = (np.ldexp(x.mantissa, np.maximum(x.exponent - top, -1022)) for x in (self, other))
        return Wide(sum(parts, np.zeros(1)), top)

    def __getitem__(self, key: Any) -> Wide:
        return Wide(self.mantissa[key], self.exponent[key])

    def __setitem__(self, key: Any, value: Wide) -> None:
        self.mantissa[key] = value.mantissa
        self.exponent[key] = value.exponent

    def __len__(self) -> int:
        return len(self.mantissa)

    def logs(self) -> FloatArray:
        """Return the logs of normalised numbers, each right to `_LOG_ROUNDING`."""
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.mantissa) + self.exponent * LN2
        return logs

    def normalised(self) -> Wide:
        """Return the same numbers with mantissas in [1/2, 1)."""
        mantissa, shift = np.frexp(self.mantissa)
        exponent = self.exponent + shift
        exponent[mantissa == 0.0] = _ZERO_EXPONENT
        return Wide(mantissa, exponent)


def as_wide(values: FloatArray) -> Wide:
    """Return floats as wide numbers."""
    return Wide(values, np.zeros(values.shape, np.int64)).normalised()


Numbers = tuple[Wide, float]
"""Positive numbers along the lattice, and a bound on their relative error in units of u."""


def lattice_masses(distributions: Sequence[Discrete], step: float) -> Wide:
    """Return distributions of multiples of a step on one stretch of the lattice, a row for each."""
    atoms = [np.rint(with_mass(x) / step).astype(np.int64) for x in distributions]
    first = min(int(places[0]) for places in atoms)
    size = max(int(places[-1]) for places in atoms) - first + 1
    masses = as_wide(np.zeros((len(distributions), size)))
    for k, (places, distribution) in enumerate(zip(atoms, distributions, strict=True)):
        counts = [int(count) for count in distribution.counts[distribution.counts > 0].tolist()]
        total = distribution.total
        # floats may not hold a mass: it is scaled by a power of two before the division
        shifts = [max(total.bit_length() - count.bit_length(), 0) for count in counts]
        scaled = [(count << shift) / total for count, shift in zip(counts, shifts, strict=True)]
        masses[k, places - first] = Wide(np.array(scaled), -np.array(shifts)).normalised()
    return masses


def convolved(a: Wide, b: Wide) -> Numbers:
    """Return the convolution of two rows, and by how many units it raises their errors."""
    left, right = _bands(a), _bands(b)
    total = as_wide(np.zeros(len(a) + len(b) - 1))
    terms = np.zeros(len(total), np.int64)
    powers = np.add.outer([band[2] for band in left], [band[2] for band in right])
    order = np.argsort(-powers, axis=None, kind="stable")
    for i, j in zip(
        *(axis.tolist() for axis in np.unravel_index(order, powers.shape)), strict=True
    ):
        (start, masses, _), (other_start, other_masses, _) = left[i], right[j]
        first = start + other_start
        here = slice(first, first + len(masses) + len(other_masses) - 1)
        if powers[i, j] + _TOO_SMALL < total.exponent[here].min():
            continue
        part = np.convolve(masses, other_masses)
        total[here] = total[here] + Wide(part, np.full(part.shape, powers[i, j])).normalised()
        terms[here] += 1
    return total.normalised(), min(len(a), len(b), _PIECE) + float(terms.max()) + 1.0


def _bands(numbers: Wide) -> list[tuple[int, FloatArray, int]]:
    """Return where each band starts, its numbers as floats of at most 1, and their power of two."""
    bands = []
    for start in range(0, len(numbers), _PIECE):
        piece = numbers[start : start + _PIECE]
        held = np.flatnonzero(piece.mantissa)
        depths = (piece.exponent[held].max(initial=0) - piece.exponent[held]) // _BAND
        for depth in np.unique(depths).tolist():
            places = held[depths == depth]
            power = int(piece.exponent[places].max())
            masses = np.zeros(places[-1] - places[0] + 1)
            masses[places - places[0]] = np.ldexp(
                piece.mantissa[places], piece.exponent[places] - power
            )
            bands.append((start + int(places[0]), masses, power))
    return bands


def sum_of(rows: Sequence[Wide], counts: Sequence[int]) -> Numbers:
    """Return the distribution of a sum of independent copies, ``counts`` of each row."""
    parts = [_times((row, _MASS_ERROR), count) for row, count in zip(rows, counts, strict=True)]
    parts.sort(key=lambda part: len(part[0]))
    return reduce(_plus, parts, (as_wide(np.ones(1)), 0.0))


def _plus(a: Numbers, b: Numbers) -> Numbers:
    numbers, units = convolved(a[0], b[0])
    return numbers, a[1] + b[1] + units


def _times(part: Numbers, count: int) -> Numbers:
    """Return the distribution of the sum of ``count`` independent copies, one at least."""
    if count == 1:
        return part
    half = _times(part, count // 2)
    double = _plus(half, half)
    return _plus(double, part) if count % 2 else double


def largest_log_ratios(
    others: Numbers, priors: PriorPair, step: float, scale: float, worst: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the largest log ratios, both ways, of the two densities along the lattice.

    The second array is how far they may be from the true ones. Both densities have the same masses
    of the others: a relative error of these matters the less the smaller the ``worst`` loss is. A
    scale of 0, in steps, is no noise.
    """
    pair = lattice_masses(priors, step)
    (p, p_units), (q, q_units) = (convolved(others[0], pair[k]) for k in range(2))
    logs, rounding = np.stack([p.logs(), q.logs()]), _LOG_ROUNDING
    if scale > 0.0:
        grid = PriorGrid([np.arange(float(logs.shape[1]))], np.exp(logs), logs)
        logs = grid.log_sums(np.array([min(scale, LARGEST)]))
        rounding = grid.log_rounding
    with np.errstate(invalid="ignore"):
        ratios = np.where(np.isneginf(logs).all(axis=0), 0.0, logs[0] - logs[1])
    losses: FloatArray = np.maximum([ratios.max(), -ratios.min()], 0.0)
    error, largest = others[1] * UNIT, min(float(worst.max()), 300.0)
    of_others = min(2.0 * error, error * expm1(2.0 * largest))
    of_logs = rounding[0] * float(np.abs(logs[np.isfinite(logs)]).max()) + rounding[1]
    of_rest = 2.0 * (of_logs + UNIT * (max(p_units, q_units) + _MASS_ERROR + 6.0))
    return losses, 1.01 * (of_others + of_rest) + 5.0 * UNIT * np.where(
        np.isfinite(losses), losses, 0.0
    )
