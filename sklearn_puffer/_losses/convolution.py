r"""Sums of Laplace kernels over a grid.

They are accurate relative to their size however small they are. For masses m on the points of a
grid the sums are

.. math:: h(y) = \sum_x m(x) \, e^{-\sum_k |x_k - y_k| / \theta_k}

at every point y of the same grid. The kernel is a product, so one axis is treated at a time, and
every number is positive, so nothing ever cancels. Two ways serve one axis:

- *dense*, for few atoms: a matrix of kernel values and one matrix product;
- *scan*, for many: what arrives from the left and what arrives from the right are summed apart, as
  cumulative sums of m(x) e^(x/theta). Where that factor would be too large the scan takes log2 n
  steps: after k of them the sum at each point is that of the 2^k points up to it.

Where floats would underflow the second scan adds logs.
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
# 2. Logs. The exponent l = log m(x) - d(x, y)/theta <= 0 of a term falls along its path, and the
#    log of a sum lies between l and 0. A step is a distance, 2u of it; a difference and a sum, each
#    u |l|; and in `logaddexp` an `exp` and a `log1p` below 1, 6u together: 4u |l| + 10u at most. So
#    what is computed is the log of the sum of e^(l (1 + e) + a), |e| <= E = 4u S and |a| <= 10u S,
#    over S steps. As in line 1, with f(t) = log sum e^(t l) and f(0) = log n for n terms, it is off
#    by at most E (|log h| + log n) + 10u S. An unordered axis of n atoms is worth n/10 + 8 steps.
# 3. Dense. Kernel values 4u and their product over g axes, less than 5gu; inner products of length
#    n, nu in whatever order BLAS takes them.
# 4. Scan. Cumulative: two factors with exponents up to 64 (4u each, and 2u of the exponent), two
#    products, n additions. In steps: a factor (4u), a product and an addition (2u) in each step and
#    where both sides meet; what a scan that ends early leaves out is less than u on either side.
#    With more atoms than are dense the first bound, n + 4 * 64 + 14, is the larger one.
# 5. Masses: count and total may be rounded, and their quotient: 3u; their logs one step of line 2.
#    Line 1 holds with unordered axes as well, where f(0) <= 0 is the log of a sum over them.
# 6. Underflow. A product that underflows is wrong by at most 2^-1074, and by e^64 < 2^93 times that
#    behind a cumulative sum. Fewer than 2^27 of them meet in one sum, and sums below 2^-900 are not
#    used: less than 2^-54 of the sum. One more u covers that.
#
# Products of (1 + u) and logarithms of (1 + x) are covered by a factor 1.01 on the total.

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import log, prod

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import UNIT, log_sum

MASS_ERROR = 3.0
SECOND_ORDER = 1.01
# No sum below this is used in floats (line 6 above).
SMALLEST_FLOAT = 2.0**-900
# Distances up to this many scales are computed with.
LONGEST = 2.0**400

_DENSE_ATOMS = 256
_MERGED_ATOMS = 64
# Axes of so many scales at most are summed by cumulative sums (line 4 above).
_NEAR = 64.0
_LEFT_OUT = 2.0**-58  # of a sum, at most, what comes from the points one step farther away


class Axis:
    """The sorted distinct atoms of one axis, and quantities that do not depend on the noise scale.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
    """

    def __init__(self, atoms: FloatArray) -> None:
        self.atoms = atoms
        self.size = len(atoms)
        self.span = float(atoms[-1] - atoms[0])

    kernel_units = 5.0  # line 3 above

    @property
    def scan_units(self) -> float:
        """The rounding of sums by the scan, in u (lines 4 above)."""
        return self.size + 4.0 * _NEAR + 14.0

    @property
    def log_steps(self) -> float:
        """How many steps of line 2 `log_convolved` takes."""
        return log_steps(self.size) + 2.0

    @cached_property
    def distances(self) -> FloatArray:
        """Distances of all atoms to each other, shape (n, n)."""
        return np.abs(self.atoms[:, None] - self.atoms)

    def kernel(self, theta: float) -> FloatArray:
        """Return the matrix of e^(-distance/theta), shape (n, n)."""
        return np.exp(self.distances / -theta)

    def convolved(self, masses: FloatArray, theta: float) -> FloatArray:
        """Return the sums, of shape (lanes, n), for masses of shape (n, lanes)."""
        atoms, rows = self.atoms, masses.T
        if self.span <= _NEAR * theta:
            t = (atoms - atoms[0]) / theta
            up, down = np.exp(t), np.exp(-t)
            sums: FloatArray = np.cumsum(rows * up, axis=1) * down
            behind = np.cumsum((rows * down)[:, ::-1], axis=1)[:, ::-1]
            sums[:, :-1] += behind[:, 1:] * up[:-1]
            return sums
        sums = _sums_up_to(atoms, rows, theta)
        behind = _sums_up_to(-atoms[::-1], rows[:, ::-1], theta)[:, ::-1]
        sums[:, :-1] += behind[:, 1:] * np.exp(np.diff(atoms) / -theta)
        return sums

    def log_convolved(self, logs: FloatArray, theta: float) -> FloatArray:
        """Return the logs of the same sums, given those of the masses."""
        rows, atoms = np.ascontiguousarray(logs.T), self.atoms
        sums = log_sums_up_to(atoms, rows, theta)
        behind = log_sums_from(atoms, rows, theta)[:, 1:] - np.diff(atoms) / theta
        sums[:, :-1] = np.logaddexp(sums[:, :-1], behind)
        return sums


class MixingAxis:
    r"""An unordered axis: a value is kept, or drawn anew from the shares q.

    .. math:: h(y) = (1 - \rho) m(y) + \rho q_y \sum_x m(x), \qquad \rho = 1 - e^{-\theta}

    Parameters
    ----------
    shares : ndarray of shape (n,)
        q of the atoms, which may be part of an alphabet.
    """

    # 1 - rho, rho and q are right to 4u, 4u and u, so an entry of the kernel to 7u, and the product
    # over axes takes one more; a sum of n masses is right to nu, and so is that of their ratios to
    # the largest one. Of logs, rho and q add 4u each and u of themselves.
    span = 0.0
    kernel_units = 9.0

    def __init__(self, shares: FloatArray) -> None:
        self.size = len(shares)
        self._shares = shares

    @property
    def scan_units(self) -> float:
        """The rounding of `convolved`, in u."""
        return self.size + 10.0

    @property
    def log_steps(self) -> float:
        """How many steps of line 2 `log_convolved` is worth."""
        return 0.1 * self.size + 8.0

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

    def log_convolved(self, logs: FloatArray, theta: float) -> FloatArray:
        """Return the logs of the same, given those of the masses."""
        with np.errstate(divide="ignore"):
            drawn = np.log(-np.expm1(-theta)) + np.log(self._shares)
        released: FloatArray = np.logaddexp(logs.T - theta, log_sum(logs, axis=0)[:, None] + drawn)
        return released


def log_steps(n_atoms: int) -> float:
    """Return how many steps of line 2 the scans of `log_sums_up_to` take, the masses' logs too."""
    return float((n_atoms - 1).bit_length() + 1)


def log_rounding(steps: float, n_terms: float) -> tuple[float, float]:
    """Return E and a: the log L of a sum in so many steps is off by E |L| + a (line 2)."""
    relative = SECOND_ORDER * UNIT * 4.0 * steps
    return relative, relative * log(n_terms) + SECOND_ORDER * UNIT * (10.0 * steps + MASS_ERROR)


def _sums_up_to(atoms: FloatArray, masses: FloatArray, theta: float) -> FloatArray:
    """Return the decayed sums over atoms up to each, for masses of shape (lanes, n)."""
    sums, reach = masses.copy(order="C"), 1
    while reach < len(atoms):
        decay = np.exp((atoms[reach:] - atoms[:-reach]) / -theta)
        arriving = sums[:, :-reach] * decay
        if decay.max() <= _LEFT_OUT and (arriving <= _LEFT_OUT * sums[:, reach:]).all():
            break  # so is all from farther away, each stretch as much less than the next
        sums[:, reach:] += arriving
        reach *= 2
    return sums


def log_sums_up_to(atoms: FloatArray, logs: FloatArray, theta: float) -> FloatArray:
    """Return the logs of the decayed sums over atoms up to each, for logs of shape (lanes, n)."""
    sums, reach = logs.copy(), 1
    while reach < len(atoms):
        arriving = sums[:, :-reach] - (atoms[reach:] - atoms[:-reach]) / theta
        if (arriving <= sums[:, reach:] - 40.0).all():
            break  # so is all from farther away, each stretch e^-40 of the next: below u together
        sums[:, reach:] = np.logaddexp(sums[:, reach:], arriving)
        reach *= 2
    return sums


def log_sums_from(atoms: FloatArray, logs: FloatArray, theta: float) -> FloatArray:
    """Return the same over atoms from each on."""
    return log_sums_up_to(-atoms[::-1], logs[:, ::-1], theta)[:, ::-1]


class PriorGrid:
    """A grid of atoms with the masses of several priors on it.

    Parameters
    ----------
    axes : sequence of ndarray
        Sorted distinct atoms of each axis.
    masses : ndarray of shape (n_priors, cells)
        Row-major over the axes; each row sums to one.
    log_masses : ndarray of shape (n_priors, cells), optional
        Their logs, right to 4u + u |log|, where floats do not hold them well.
    shares : sequence of ndarray or None, optional
        For each unordered axis the shares that its atoms are drawn anew from.
    """

    def __init__(
        self,
        axes: Sequence[FloatArray],
        masses: FloatArray,
        log_masses: FloatArray | None = None,
        shares: Sequence[FloatArray | None] = (),
    ) -> None:
        self.n_axes = len(axes)
        self._n_priors, self._cells = masses.shape
        # An axis with one atom changes nothing.
        self._kept = [k for k, atoms in enumerate(axes) if len(atoms) > 1] or [0]
        mixed = shares or [None] * len(axes)
        self._axes = [
            Axis(axes[k]) if drawn is None else MixingAxis(drawn)
            for k, drawn in ((k, mixed[k]) for k in self._kept)
        ]
        self._passes = _passes(self._axes)
        self.masses, self._log_masses = masses, log_masses
        self._columns = self._turned(masses)
        self.shortest_scales = np.zeros(len(axes))
        self.shortest_scales[self._kept] = [axis.span / LONGEST for axis in self._axes]

    def sums(self, theta: FloatArray, floor: float = SMALLEST_FLOAT) -> FloatArray | None:
        """Return the sums in floats, shape (n_priors, cells); None if any is below ``floor``."""
        if self._log_masses is not None:
            return None
        scales = [float(theta[k]) for k in self._kept]
        values = self._columns
        with np.errstate(under="ignore"):
            for members in self._passes:
                values = self._one_pass(members, values, scales)
        values = values.reshape(self._n_priors, self._cells)
        return values if values.min() >= floor else None

    def log_sums(self, theta: FloatArray) -> FloatArray:
        """Return the logs of the sums, shape (n_priors, cells); -inf where there is no mass."""
        values = self._turned(self.log_masses)
        with np.errstate(under="ignore"):
            for axis, scale in zip(self._axes, theta[self._kept], strict=True):
                values = axis.log_convolved(values.reshape(axis.size, -1), float(scale))
        return values.reshape(self._n_priors, self._cells)

    @cached_property
    def log_masses(self) -> FloatArray:
        """The logs of the masses, shape (n_priors, cells)."""
        if self._log_masses is not None:
            return self._log_masses
        with np.errstate(divide="ignore"):
            return np.log(self.masses)

    def rounding(self, log_floor: float) -> float:
        """Return the bound on the error of the log of `sums` where all are at least e^log_floor."""
        units = MASS_ERROR + 1.0 + 2.0 * abs(log_floor)
        units += sum(self._rounding_of(members) for members in self._passes)
        return SECOND_ORDER * UNIT * units

    @property
    def log_rounding(self) -> tuple[float, float]:
        """E and a: each L of `log_sums` is off by at most E |L| + a."""
        steps = sum(axis.log_steps for axis in self._axes)
        return log_rounding(steps, 2.0 ** len(self._axes) * self._cells)

    def _turned(self, masses: FloatArray) -> FloatArray:
        """Return masses (n_priors, cells) transposed, contiguous where there are several axes."""
        return masses.T if len(self._axes) == 1 else np.ascontiguousarray(masses.T)

    def _one_pass(self, members: list[int], values: FloatArray, scales: list[float]) -> FloatArray:
        axis = self._axes[members[0]]
        if axis.size > _DENSE_ATOMS:
            return axis.convolved(values.reshape(axis.size, -1), scales[members[0]])
        kernel = axis.kernel(scales[members[0]])
        for k in members[1:]:
            joint = np.kron(kernel, self._axes[k].kernel(scales[k]))
            kernel = np.asarray(joint, dtype=np.float64)
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
