r"""Sums of Laplace kernels over a grid.

They are accurate relative to their size however small they are. For masses m on the points of a
grid the sums are

.. math:: h(y) = \sum_x m(x) \, e^{-\sum_k |x_k - y_k| / \theta_k}

at every point y of the same grid. The kernel is a product, so one axis is treated at a time, and
every number is positive, so nothing ever cancels. Two ways serve one axis:

- *dense*, for few atoms: a matrix of kernel values and one matrix product;
- *scan*, for many: what arrives from the left and what arrives from the right each obey a
  recurrence of one step. It is run over short blocks side by side, and the block totals are a
  smaller problem of the same kind, so n atoms take O(n) operations, O(log n) of them in sequence.

and two kinds of arithmetic: floats, and where those would underflow `Wide` numbers (mantissa times
a power of two held as an integer), for which the same scan is written once.
"""

# How large the rounding error can be. Write u = 2^-53, and assume that `exp` and `log` are right to
# 2 ulp = 4u (numpy's own and every common C library are; a test looks). All terms are positive, so
# the relative error of a sum is at most the largest relative error of its terms, and errors are
# counted along the path of one term m(x) on its way to one y.
#
# 1. Distances, floats. A rounded gap divided by theta: a relative error of at most 2u in the
#    exponent, so the kernel is that of slightly other distances d (1 + e), |e| <= E = 2u + u^2.
#    Let f(t) = log sum_x m(x) exp(-t d(x, y)), convex, and f(0) = 0 as masses sum to one. Hence
#    f(1 + E) >= (1 + E) f(1) and f(1 - E) <= (1 - E) f(1): the logarithm of the sum moves by at
#    most E |log h(y)|, and |log h| is bounded by the smallest sum seen.
# 2. Distances, wide numbers. A gap is an exact sum of two floats. Its quotient by theta log 2 is
#    computed to twice the precision, and split into an integer k, kept exactly, and a rest in
#    [-1/2, 1/2] that is wrong by at most 1.2u + 8 u^2 k once multiplied by log 2. With `exp`: 6u a
#    factor, and 8 u^2 K over the whole path, of length K in units of theta log 2.
# 3. Dense. Kernel values 4u and their product over g axes, less than 5gu; inner products of length
#    n, nu in whatever order BLAS takes them.
# 4. Scan. In each level a term takes at most B steps up and B steps down, B being the length of the
#    blocks. A step is one factor (4u, wide 6u), one product and one addition (2u): 12u, wide 16u,
#    for each atom of a block. Powers of two are exact. The last two additions: 2u.
# 5. Masses: count and total may be rounded, and their quotient: 3u.
#    Line 1 holds with unordered axes as well, where f(0) <= 0 is the log of a sum over them.
# 6. Underflow. A product that underflows is wrong by at most 2^-1074. Fewer than 2^60 of them meet
#    in one sum, and sums below 2^-900 are not used: less than 2^-100 of the sum. Additions of wide
#    numbers misplace what is below 2^-900 of the larger part. One more u covers both.
#
# Products of (1 + u) and logarithms of (1 + x) are covered by a factor 1.01 on the total.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from math import frexp, prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._numerics import UNIT

MASS_ERROR = 3.0
SECOND_ORDER = 1.01
# No sum below this is used in floats (line 6 above).
SMALLEST_FLOAT = 2.0**-900
# Distances up to this many theta log 2 fit the integer exponents of wide numbers.
LONGEST = 2.0**55

_DENSE_ATOMS = 256
_MERGED_ATOMS = 64
_BLOCK = 16
_SINGLE_BLOCK = 32
_SINGLE_BLOCK_OF_MANY = 128
_MANY_LANES = 64
_ZERO_EXPONENT = -(2**61)
_LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")


class Wide:
    """An array of non-negative numbers ``mantissa * 2**exponent`` that cannot under- or overflow.

    Zero has the mantissa 0 and an exponent below all others, so that it never sets the scale
    of a sum. Mantissas are normalised on request only: a scan moves them far less than
    floats can hold.
    """

    __slots__ = ("exponent", "mantissa")

    def __init__(self, mantissa: FloatArray, exponent: IntArray) -> None:
        self.mantissa = mantissa
        self.exponent = exponent

    def __add__(self, other: Wide) -> Wide:
        top = np.maximum(self.exponent, other.exponent)
        mantissa = self.mantissa * _power_of_two(self.exponent - top)
        mantissa += other.mantissa * _power_of_two(other.exponent - top)
        return Wide(mantissa, top)

    def __mul__(self, other: Wide) -> Wide:
        return Wide(self.mantissa * other.mantissa, self.exponent + other.exponent)

    def __getitem__(self, key: Any) -> Wide:
        return Wide(self.mantissa[key], self.exponent[key])

    def __setitem__(self, key: Any, value: Wide) -> None:
        self.mantissa[key] = value.mantissa
        self.exponent[key] = value.exponent

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.mantissa.shape

    def reshape(self, *shape: int) -> Wide:
        """Return the same numbers in another shape."""
        return Wide(self.mantissa.reshape(*shape), self.exponent.reshape(*shape))

    def transpose(self, *axes: int) -> Wide:
        """Return the same numbers with axes permuted."""
        return Wide(self.mantissa.transpose(*axes), self.exponent.transpose(*axes))

    def copy(self) -> Wide:
        """Return a contiguous copy."""
        return Wide(self.mantissa.copy(), self.exponent.copy())

    def normalised(self) -> Wide:
        """Return the same numbers with mantissas in [1/2, 1)."""
        mantissa, shift = np.frexp(self.mantissa)
        exponent = self.exponent + shift
        exponent[mantissa == 0.0] = _ZERO_EXPONENT
        return Wide(mantissa, exponent)


Numbers = TypeVar("Numbers", FloatArray, Wide)


class Axis:
    """The sorted distinct atoms of one axis, and quantities that do not depend on the noise scale.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
    lanes : int
        How many mass vectors will pass through the axis side by side.
    """

    def __init__(self, atoms: FloatArray, lanes: int) -> None:
        self.atoms = atoms
        self.size = len(atoms)
        self.span = float(atoms[-1] - atoms[0])
        self._blocks = _block_lengths(self.size, lanes)

    kernel_units = 5.0  # line 3 above

    @property
    def scan_units(self) -> float:
        """The rounding of sums by the scan, in u (lines 4 above)."""
        return 12.0 * self.scan_steps + 2.0

    @property
    def wide_units(self) -> float:
        """The same in wide numbers."""
        return 16.0 * self.scan_steps + 2.0

    @property
    def scan_steps(self) -> int:
        """Steps one after the other in a scan: the lengths of the blocks of all levels."""
        return sum(self._blocks)

    @cached_property
    def distances(self) -> FloatArray:
        """Distances of all atoms to each other, shape (n, n)."""
        return np.abs(self.atoms[:, None] - self.atoms)

    @cached_property
    def _gaps(self) -> list[FloatArray]:
        """Rounded gap before each atom, in blocks; then before each block, and so on."""
        return [in_blocks(_gaps(atoms)[None], length)[:, 0] for atoms, length in self._levels]

    @cached_property
    def _rests(self) -> list[FloatArray]:
        """Rounding errors of the gaps."""
        return [in_blocks(_rests(atoms)[None], length)[:, 0] for atoms, length in self._levels]

    @property
    def _levels(self) -> Iterator[tuple[FloatArray, int]]:
        atoms = self.atoms
        for length in self._blocks:
            yield atoms, length
            atoms = atoms[::length]

    def kernel(self, theta: float) -> FloatArray:
        """Return the matrix of e^(-distance/theta), shape (n, n)."""
        return np.exp(self.distances / -theta)

    def convolved(self, masses: FloatArray, theta: float) -> FloatArray:
        """Return the sums, of shape (lanes, n), for masses of shape (n, lanes)."""
        decays = [np.exp(gap / -theta) for gap in self._gaps]
        return self._scan(decays, masses)

    def convolved_wide(self, masses: Wide, theta: float) -> Wide:
        """Return the same sums in wide numbers."""
        gaps = zip(self._gaps, self._rests, strict=True)
        decays = [wide_decay(gap, rest, theta) for gap, rest in gaps]
        return self._scan(decays, masses).normalised()

    def _scan(self, decays: Sequence[Numbers], masses: Numbers) -> Numbers:
        blocks = in_blocks(masses.transpose(1, 0), self._blocks[0])
        sums = blocks.copy()
        add_from_left(decays, blocks, sums)
        add_from_right(decays, blocks, sums)
        return out_of_blocks(sums, self.size)


def _gaps(atoms: FloatArray) -> FloatArray:
    """Return the gap before each atom as a rounded difference, 0 before the first."""
    gaps = np.zeros(len(atoms))
    np.subtract(atoms[1:], atoms[:-1], out=gaps[1:])
    return gaps


def _rests(atoms: FloatArray) -> FloatArray:
    """Return the rounding errors of `_gaps`, exactly (Knuth's two-sum)."""
    rests = np.zeros(len(atoms))
    after, before = atoms[1:], atoms[:-1]
    gap = after - before
    lost = gap - after
    rests[1:] = (after - (gap - lost)) - (before + lost)
    return rests


class MixingAxis:
    r"""An unordered axis: a value is kept, or drawn anew from the shares q.

    .. math:: h(y) = (1 - \rho) m(y) + \rho q_y \sum_x m(x), \qquad \rho = 1 - e^{-\theta}

    Parameters
    ----------
    shares : ndarray of shape (n,)
        q of the atoms, which may be part of an alphabet.
    """

    # 1 - rho, rho and q are right to 4u, 4u and u, so an entry of the kernel to 7u, and the product
    # over axes takes one more; a sum of n masses is right to nu, in floats and in wide numbers.
    span = 0.0
    kernel_units = 9.0

    def __init__(self, shares: FloatArray) -> None:
        self.size = len(shares)
        self._shares = shares

    @property
    def scan_units(self) -> float:
        """The rounding of `convolved`, in u."""
        return self.size + 10.0

    wide_units = scan_units

    def kernel(self, theta: float) -> FloatArray:
        """Return the matrix of the kernel, from row x to column y, shape (n, n)."""
        drawn = np.tile(-np.expm1(-theta) * self._shares, (self.size, 1))
        drawn[np.diag_indices(self.size)] += np.exp(-theta)
        return drawn

    def convolved(self, masses: FloatArray, theta: float) -> FloatArray:
        """Return the released masses, of shape (lanes, n), for masses of shape (n, lanes)."""
        released: FloatArray = masses.T * np.exp(-theta)
        released += np.outer(masses.sum(axis=0), -np.expm1(-theta) * self._shares)
        return released

    def convolved_wide(self, masses: Wide, theta: float) -> Wide:
        """Return the same in wide numbers."""
        total = masses[0]
        for row in range(1, self.size):
            total = total + masses[row]
        drawn = as_wide(self._shares) * as_wide(-np.expm1(-np.array([theta])))
        total = Wide(total.mantissa[:, None], total.exponent[:, None])
        kept = masses.transpose(1, 0) * as_wide(np.exp(-np.array([theta])))
        return (kept + total * drawn).normalised()


def as_wide(values: FloatArray) -> Wide:
    """Return floats as wide numbers."""
    return Wide(values, np.zeros(values.shape, np.int64)).normalised()


class PriorGrid:
    """A grid of atoms with the masses of several priors on it.

    Parameters
    ----------
    axes : sequence of ndarray
        Sorted distinct atoms of each axis.
    masses : ndarray of shape (n_priors, cells)
        Row-major over the axes; each row sums to one.
    exponents : ndarray of shape (n_priors, cells), optional
        Powers of two to multiply the masses by, where floats cannot hold them.
    shares : sequence of ndarray or None, optional
        For each unordered axis the shares that its atoms are drawn anew from.
    """

    def __init__(
        self,
        axes: Sequence[FloatArray],
        masses: FloatArray,
        exponents: IntArray | None = None,
        shares: Sequence[FloatArray | None] = (),
    ) -> None:
        self.n_axes = len(axes)
        self._n_priors, self._cells = masses.shape
        # An axis with one atom changes nothing.
        self._kept = [k for k, atoms in enumerate(axes) if len(atoms) > 1] or [0]
        mixed = shares or [None] * len(axes)
        self._axes = [
            Axis(axes[k], masses.size // len(axes[k])) if drawn is None else MixingAxis(drawn)
            for k, drawn in ((k, mixed[k]) for k in self._kept)
        ]
        self._passes = _passes(self._axes)
        self._masses = _turned(masses, len(self._axes))
        self._exponents = None if exponents is None else _turned(exponents, len(self._axes))
        self.shortest_scales = np.zeros(len(axes))
        self.shortest_scales[self._kept] = [axis.span / LONGEST for axis in self._axes]

    def sums(self, theta: FloatArray, floor: float = SMALLEST_FLOAT) -> FloatArray | None:
        """Return the sums in floats, shape (n_priors, cells); None if any is below ``floor``."""
        if self._exponents is not None:
            return None
        scales = [float(theta[k]) for k in self._kept]
        values = self._masses
        with np.errstate(under="ignore"):
            for members in self._passes:
                values = self._one_pass(members, values, scales)
        values = values.reshape(self._n_priors, self._cells)
        return values if values.min() >= floor else None

    def wide_sums(self, theta: FloatArray) -> Wide:
        """Return the sums in wide numbers with mantissas in [1/2, 1), shape (n_priors, cells)."""
        values = self._wide_masses
        with np.errstate(under="ignore"):
            for axis, scale in zip(self._axes, theta[self._kept], strict=True):
                values = axis.convolved_wide(values.reshape(axis.size, -1), float(scale))
        return values.reshape(self._n_priors, self._cells)

    def masses(self) -> Wide:
        """Return the masses themselves, shape (n_priors, cells)."""
        return self._wide_masses.reshape(self._cells, self._n_priors).transpose(1, 0)

    def rounding(self, log_floor: float) -> float:
        """Return the bound on the error of the log of `sums` where all are at least e^log_floor."""
        units = MASS_ERROR + 1.0 + 2.0 * abs(log_floor)
        units += sum(self._rounding_of(members) for members in self._passes)
        return SECOND_ORDER * UNIT * units

    def wide_rounding(self, theta: FloatArray) -> float:
        """Return the bound on the error of the log of `wide_sums`."""
        scales = zip(self._axes, theta[self._kept], strict=True)
        lengths = sum(a.span / t for a, t in scales if a.span > 0.0)  # t may be 0 where it is not
        units = MASS_ERROR + 1.0 + 8.0 * UNIT * float(lengths) / float(_LN2)
        units += sum(axis.wide_units for axis in self._axes)
        return SECOND_ORDER * UNIT * units

    @cached_property
    def _wide_masses(self) -> Wide:
        exponents = self._exponents
        if exponents is None:
            exponents = np.zeros(self._masses.shape, np.int64)
        return Wide(self._masses, exponents).normalised()

    def _one_pass(self, members: list[int], values: FloatArray, scales: list[float]) -> FloatArray:
        axis = self._axes[members[0]]
        if axis.size > _DENSE_ATOMS:
            return axis.convolved(values.reshape(axis.size, -1), scales[members[0]])
        kernel = axis.kernel(scales[members[0]])
        for k in members[1:]:
            kernel = _kronecker(kernel, self._axes[k].kernel(scales[k]))
        return values.reshape(len(kernel), -1).T @ kernel

    def _rounding_of(self, members: list[int]) -> float:
        size = prod(self._axes[k].size for k in members)
        if size > _DENSE_ATOMS:
            return self._axes[members[0]].scan_units
        return size + sum(self._axes[k].kernel_units for k in members)


def _passes(axes: Sequence[Axis | MixingAxis]) -> list[list[int]]:
    """Merge neighbouring axes while their joint kernel is small: fewer and larger products."""
    passes: list[list[int]] = [[0]]
    for k in range(1, len(axes)):
        if prod(axes[j].size for j in passes[-1]) * axes[k].size <= _MERGED_ATOMS:
            passes[-1].append(k)
        else:
            passes.append([k])
    return passes


def _turned(masses: NDArray[Any], n_axes: int) -> NDArray[Any]:
    """Return masses (n_priors, cells) transposed, contiguous where there are several axes."""
    return masses.T if n_axes == 1 else np.ascontiguousarray(masses.T)


def _kronecker(left: FloatArray, right: FloatArray) -> FloatArray:
    size = len(left) * len(right)
    return (left[:, None, :, None] * right[None, :, None, :]).reshape(size, size)


def _block_lengths(n_atoms: int, lanes: int) -> list[int]:
    """Return the length of the blocks of each level; the last level is one block."""
    single = _SINGLE_BLOCK_OF_MANY if lanes >= _MANY_LANES else _SINGLE_BLOCK
    lengths = []
    while n_atoms > single:
        lengths.append(_BLOCK)
        n_atoms = -(-n_atoms // _BLOCK)
    return [*lengths, n_atoms]


def add_from_left(decays: Sequence[Numbers], masses: Numbers, sums: Numbers) -> None:
    """Add to ``sums``, at each point, the decayed masses of the points left of it.

    Both have shape (block, lanes, blocks), and ``decays[0]`` has shape (block, blocks).
    """
    decay, length = decays[0], masses.shape[0]
    arriving = _zeros_like(masses[0])
    if len(decays) > 1:
        total = masses[0].copy()
        for k in range(1, length):
            total *= decay[k]
            total += masses[k]
        entering = _zeros_like(total)
        entering[:, 1:] = total[:, :-1]
        entering *= decay[0]
        arriving = _over_blocks(add_from_left, decays[1:], entering)
        sums[0] += arriving
    for k in range(1, length):
        arriving += masses[k - 1]
        arriving *= decay[k]
        sums[k] += arriving


def add_from_right(decays: Sequence[Numbers], masses: Numbers, sums: Numbers) -> None:
    """Add to ``sums``, at each point, the decayed masses of the points right of it."""
    decay, length = decays[0], masses.shape[0]
    arriving = _zeros_like(masses[0])
    if len(decays) > 1:
        total = masses[length - 1].copy()
        for k in range(length - 1, 0, -1):
            total *= decay[k]
            total += masses[k - 1]
        total = _over_blocks(add_from_right, decays[1:], total)
        arriving[:, :-1] = (total * decay[0])[:, 1:]
        sums[length - 1] += arriving
    for k in range(length - 1, 0, -1):
        arriving += masses[k]
        arriving *= decay[k]
        sums[k - 1] += arriving


def _over_blocks(
    add: Callable[[Sequence[Numbers], Numbers, Numbers], None],
    decays: Sequence[Numbers],
    totals: Numbers,
) -> Numbers:
    """Solve the smaller problem whose masses are block totals, shape (lanes, blocks)."""
    blocks = in_blocks(totals, decays[0].shape[0])
    sums = blocks.copy()
    add(decays, blocks, sums)
    return out_of_blocks(sums, totals.shape[1])


def in_blocks(values: Numbers, length: int) -> Numbers:
    """Cut (lanes, n) into consecutive blocks, zeros behind, as (length, lanes, blocks)."""
    lanes, size = values.shape
    n_blocks = -(-size // length)
    if size < n_blocks * length:
        padded = _zeros_like(values, (lanes, n_blocks * length))
        padded[:, :size] = values
        values = padded
    return values.reshape(lanes, n_blocks, length).transpose(2, 0, 1).copy()


def out_of_blocks(blocks: Numbers, size: int) -> Numbers:
    """Undo `in_blocks`."""
    length, lanes, n_blocks = blocks.shape
    return blocks.transpose(1, 2, 0).reshape(lanes, n_blocks * length)[:, :size]


def _zeros_like(values: Numbers, shape: tuple[int, ...] | None = None) -> Numbers:
    shape = values.shape if shape is None else shape
    if isinstance(values, Wide):
        return Wide(np.zeros(shape), np.full(shape, _ZERO_EXPONENT))
    return np.zeros(shape)


def _power_of_two(exponent: IntArray) -> FloatArray:
    """Return 2^exponent exactly for exponents in [-1022, 0], and 2^-1022 below."""
    bits: IntArray = (np.maximum(exponent, -1022) + 1023) << 52
    return np.asarray(bits.view(np.float64))


def wide_decay(gap: FloatArray, rest: FloatArray, theta: float) -> Wide:
    """Return e^(-(gap + rest)/theta) as 2^-k e^(-r), |r| <= log(2)/2, to twice the precision."""
    # A power of two brings the scale near one, lest halves of products leave the range of floats.
    power = 2.0 ** -max(-1000, min(1000, frexp(theta)[1]))
    unit = Fraction(theta) * Fraction(power) * _LN2
    high = float(unit)
    low = float(unit - Fraction(high))
    gap, rest = gap * power, rest * power
    quotient = gap / high
    remainder = _remainder(gap, quotient, high) + (rest - quotient * low)
    whole = np.rint(quotient)
    fraction = (quotient - whole) + remainder / high
    return Wide(np.exp(fraction * -float(_LN2)), -whole.astype(np.int64))


def _remainder(gap: FloatArray, quotient: FloatArray, divisor: float) -> FloatArray:
    """Return gap - quotient * divisor, the product exact by Dekker's splitting into halves."""
    q_high, q_low = _split(quotient)
    d_high, d_low = _split(divisor)
    product = quotient * divisor
    error = q_low * d_low - (((product - q_high * d_high) - q_low * d_high) - q_high * d_low)
    return np.asarray((gap - product) - error)


def _split(value: Any) -> tuple[Any, Any]:
    scaled = value * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - value)
    return high, value - high
