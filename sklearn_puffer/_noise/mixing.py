r"""Kernels of unordered columns, noise of rows of numbers and categories, and the `Noise` protocol.

In an unordered column the value stays, or is drawn anew from fixed shares:

.. math:: K_\rho = (1 - \rho) I + \rho 1 q', \qquad \rho = 1 - e^{-\theta}

:math:`K_\rho K_\sigma = K_{1 - (1 - \rho)(1 - \sigma)}`, so a larger theta is a smaller one and
something independent besides, and no loss grows with it; q is stationary, and keeps its shares.

Channels of cells are in whole numbers: the distribution of the released cell given the true one,
and how it is drawn. In rows of numbers and categories the numbers get noise and the categories a
kernel. The axes are independent given the row, so losses of shifts add up over them. Along an
unordered axis the loss does not depend on how far two codes are apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, nextafter
from typing import Any, ClassVar, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.sampler import (
    CheckedEntropy,
    Entropy,
    Grid,
    NotCopied,
    RowEntropy,
    Sampler,
    Words,
    blocks,
    system_entropy,
)

WHOLE = 1 << 62
"""What the shares of a row sum to."""

_SPARE_BITS = np.uint64(2)  # of a word, above the 62 that are compared
_HALF_BITS = 31
_LOW_HALF = (1 << _HALF_BITS) - 1


@dataclass(frozen=True, eq=False)
class IntegerRows:
    r"""A channel: cell x is released as y with probability W(y|x), a share of 2^62.

    Parameters
    ----------
    starts : ndarray of int64 of shape (n + 1,)
        Row x holds the entries ``starts[x]:starts[x + 1]``, at least one.
    targets : ndarray of int64 of shape (n_entries,)
        The cells released, ascending within a row.
    shares : ndarray of int64 of shape (n_entries,)
        :math:`2^{62} W(y|x)`: positive, and each row sums to exactly 2^62.

    Raises
    ------
    TypeError, ValueError
        If the arrays are not whole numbers, or no such rows.

    Notes
    -----
    The arrays are read-only copies. A pickle holds them alone, and they are checked when it is
    loaded.

    Examples
    --------
    >>> IntegerRows([0, 2, 3], [0, 1, 1], [WHOLE // 4, 3 * WHOLE // 4, WHOLE]).n_cells
    2
    """

    starts: IntArray
    targets: IntArray
    shares: IntArray

    def __post_init__(self) -> None:
        for name in ("starts", "targets", "shares"):
            object.__setattr__(self, name, _whole_numbers(getattr(self, name), name))
        _check_starts(self.starts, self.targets, self.shares)
        _check_targets(self.starts, self.targets)
        _check_shares(self.starts, self.shares)

    def __reduce__(self) -> tuple[Any, ...]:
        return IntegerRows, (self.starts, self.targets, self.shares)

    @property
    def n_cells(self) -> int:
        """The number n of cells: each has a row."""
        return self.starts.size - 1

    def sampler(self, entropy: Entropy | None = None) -> RowSampler:
        """Return what draws a target for each of some cells, by default with the system's bits."""
        return RowSampler(self, entropy or system_entropy())


class RowSampler(NotCopied):
    r"""Draws of released cells, exactly: :math:`P(y|x) = \text{share} / 2^{62}`.

    Notes
    -----
    *Formal guarantees.* Let :math:`c_1 < ... < c_r = 2^{62}` be the cumulative sums of a row. The
    entry drawn is the first one with :math:`u < c_i`, for 62 fair bits u of a word of their own, so
    that :math:`c_i - c_{i-1}` of the :math:`2^{62}` values of u lead to it: no rounding, and no row
    without a draw. Each draw takes one word and as many steps as the longest row of the channel
    needs, whatever the cells are and whatever is drawn. Nothing of the bits is kept.

    Examples
    --------
    >>> rows = IntegerRows([0, 2, 3], [0, 1, 1], [WHOLE // 4, 3 * WHOLE // 4, WHOLE])
    >>> rows.sampler().draw(np.array([1, 1, 1])).tolist()
    [1, 1, 1]
    """

    def __init__(self, rows: IntegerRows, entropy: Entropy) -> None:
        self._rows = rows
        self._ends = _cumulative(rows)
        self._steps = int(np.diff(rows.starts).max() - 1).bit_length()
        self._entropy: Entropy = CheckedEntropy(entropy)

    def draw(self, cells: NDArray[np.integer[Any]], words: Words | None = None) -> IntArray:
        """Return a released cell for each of ``cells``, whole numbers of shape (m,).

        With ``words``, of shape (m,), each is drawn from its own, and no other bits are.
        """
        if cells.size and not 0 <= int(cells.min()) <= int(cells.max()) < self._rows.n_cells:
            raise ValueError(
                f"cells must lie from 0 to {self._rows.n_cells - 1}, got {int(cells.min())} to "
                f"{int(cells.max())}; look them up in the channel's cells first."
            )
        drawn = np.empty(cells.size, dtype=np.int64)
        for block in blocks(cells.size):
            here = cells[block]
            bits = self._entropy.words(here.size) if words is None else words[block]
            drawn[block] = self._rows.targets[self._entries(here, bits)]
        return drawn

    def _entries(self, cells: NDArray[np.integer[Any]], words: Words) -> IntArray:
        """Return which entry is drawn for each cell: a bisection of its row."""
        bits = words >> _SPARE_BITS
        first: IntArray = self._rows.starts[cells]
        last = self._rows.starts[cells + 1] - 1
        for _ in range(self._steps):  # ceil(log2 r) for the longest row; for others more do nothing
            middle = (first + last) >> 1
            beyond = bits >= self._ends[middle]
            # where first = last, the bits are below the end of the entry: both stay
            first = np.where(beyond, middle + 1, first)
            last = np.where(beyond, last, middle)
        return first


def _cumulative(rows: IntegerRows) -> NDArray[np.uint64]:
    """Return the cumulative sums within each row.

    Over all rows they wrap around at 2^64, and so does what the rows before sum to: the difference
    is right modulo 2^64, and at most 2^62.
    """
    ends = np.cumsum(rows.shares.astype(np.uint64), dtype=np.uint64)
    before = np.arange(rows.n_cells, dtype=np.uint64) * np.uint64(WHOLE)
    ends -= np.repeat(before, np.diff(rows.starts))
    return ends


# -------------------------------------------------------------------------------------- the checks


def _whole_numbers(values: Any, name: str) -> IntArray:
    """Return a read-only copy as int64."""
    array: Array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(
            f"{name} must be a line of whole numbers, got {array.ndim} axes of {array.dtype}; "
            "round a channel of floats first."
        )
    whole = array.astype(np.int64)
    whole.setflags(write=False)
    return whole


def _check_starts(starts: IntArray, targets: IntArray, shares: IntArray) -> None:
    if starts.size < 2 or starts[0] != 0 or (np.diff(starts) < 1).any():
        raise ValueError(
            "starts must begin with 0 and ascend, so that each row has an entry; give a cell that "
            "stays the entry of itself."
        )
    if not starts[-1] == targets.size == shares.size:
        raise ValueError(
            f"starts must end with the number of entries, got {starts[-1]} for {targets.size} "
            f"targets and {shares.size} shares; give each entry both."
        )


def _check_targets(starts: IntArray, targets: IntArray) -> None:
    n_cells = starts.size - 1
    if not 0 <= targets.min() <= targets.max() < n_cells:
        raise ValueError(
            f"targets must lie from 0 to {n_cells - 1}, got {targets.min()} to {targets.max()}; "
            "cells are released as cells."
        )
    falls = np.flatnonzero(np.diff(targets) <= 0) + 1  # entries that must begin a row
    if not np.isin(falls, starts, assume_unique=True).all():
        raise ValueError("targets must ascend within each row; sort them, and add up equal ones.")


def _check_shares(starts: IntArray, shares: IntArray) -> None:
    if not 1 <= shares.min() <= shares.max() <= WHOLE:
        raise ValueError(
            f"shares must lie from 1 to 2**62, got {shares.min()} to {shares.max()}; leave out "
            "entries of 0."
        )
    # in halves of 31 bits, whose sums over less than 2^31 entries cannot wrap around
    low = np.add.reduceat(shares & _LOW_HALF, starts[:-1])
    high = np.add.reduceat(shares >> _HALF_BITS, starts[:-1]) + (low >> _HALF_BITS)
    wrong = np.flatnonzero((high != 1 << _HALF_BITS) | (low & _LOW_HALF != 0))
    if wrong.size:
        raise ValueError(
            f"shares must sum to 2**62 in each row, and those of row {wrong[0]} do not; correct "
            "its largest share."
        )


_LEAST_ODDS = 1e-300  # more than all odds that underflow


@dataclass(frozen=True)
class Mixing:
    """What an unordered column is drawn anew from.

    Attributes
    ----------
    values : tuple of float
        The codes of its alphabet, ascending.
    shares : tuple of int
        q in units of 2^-62: positive, and summing to 2^62.
    """

    values: tuple[float, ...]
    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        if min(self.shares) < 1 or sum(self.shares) != WHOLE:
            raise ValueError("shares must be positive and sum to 2**62; use Mixing.of_counts.")

    @classmethod
    def of_counts(cls, values: Sequence[float], counts: Sequence[int]) -> Mixing:
        """Return the mixing of counted values, each of which counts once more.

        >>> mixing = Mixing.of_counts([0.0, 1.0], [2, 0])
        >>> mixing.probabilities.tolist()
        [0.75, 0.25]
        """
        more = [int(count) + 1 for count in counts]
        total = sum(more)
        shares = [count * WHOLE // total for count in more]
        shares[shares.index(max(shares))] += WHOLE - sum(shares)
        return cls(tuple(map(float, values)), tuple(shares))

    @cached_property
    def probabilities(self) -> FloatArray:
        """The shares q as floats, each right to 2^-53 of itself."""
        return np.array([share / WHOLE for share in self.shares])

    @property
    def least(self) -> float:
        """The smallest share."""
        return min(self.shares) / WHOLE

    def codes_of(self, values: FloatArray) -> IntArray:
        """Return the codes of values, all of which must be in the alphabet."""
        codes = np.searchsorted(self.values, values)
        if not np.array_equal(np.take(self.values, codes, mode="clip"), values):
            raise ValueError("values must be among those that are mixed; none other has a share.")
        return codes

    def max_divergence(self, theta: float) -> float:
        r"""Return the largest log ratio of two rows, kappa, in nats; 0 for a single value.

        .. math:: \kappa = \log\left(1 + \frac{1 - \rho}{\rho \min q}\right)
        """
        if len(self.shares) == 1:
            return 0.0
        return math.log1p(_odds(theta) / self.least + _LEAST_ODDS)

    def hockey_stick(self, theta: float, epsilon: float) -> float:
        r"""Return the largest hockey-stick divergence of two rows.

        .. math:: \left(1 - \rho - (e^\varepsilon - 1) \rho \min q\right)_+
        """
        if len(self.shares) == 1 or epsilon > 700.0:
            return 0.0
        drawn = -math.expm1(-theta) * self.least * math.expm1(epsilon)
        return max(math.exp(-theta) - drawn, 0.0)

    def sampler(self, theta: float, entropy: Entropy) -> MixingSampler:
        """Return what draws released values."""
        return MixingSampler(self, theta, entropy)


class Unchanged(Mixing):
    """The kernel of a column that is released as it is: rho = 0 at every scale."""

    @classmethod
    def of_values(cls, values: Sequence[float]) -> Unchanged:
        """Return the kernel of a column of these values, ascending."""
        return cls.of_counts(values, [0] * len(values))

    @classmethod
    def of_counts(cls, values: Sequence[float], counts: Sequence[int]) -> Unchanged:
        """Return the kernel of counted values, whose shares are never drawn from."""
        mixing = Mixing.of_counts(values, counts)
        return cls(mixing.values, mixing.shares)


def _odds(theta: float) -> float:
    """Return (1 - rho) / rho."""
    kept = math.exp(-theta)
    return kept / -math.expm1(-theta) if theta > 0.0 else math.inf


def kept_numerator(theta: float) -> int:
    """Return 1 - rho in units of 2^-62, rounded down: less is kept, and so less is told.

    >>> kept_numerator(0.0) == WHOLE, kept_numerator(50.0)
    (True, 0)
    """
    if theta == 0.0:
        return WHOLE
    return math.floor(Fraction(float(portable.exp(-theta))) * (1 - Fraction(1, 2**50)) * WHOLE)


class MixingSampler(NotCopied):
    r"""Released values of an unordered column, in whole numbers.

    One word of 62 fair bits decides whether the value stays. A second one draws the new value,
    whether it is used or not: so the time depends on neither.

    Notes
    -----
    *Formal guarantees.* With :math:`1 - \rho'` the `kept_numerator` the distribution is exactly
    :math:`K_{\rho'}`, :math:`\rho' \ge \rho`; the bits are taken to be fair and independent.
    """

    def __init__(self, mixing: Mixing, theta: float, entropy: Entropy) -> None:
        self._kept = np.uint64(kept_numerator(theta))
        self._entropy: Entropy = CheckedEntropy(entropy)
        self._below = np.array([*np.cumsum(mixing.shares, dtype=np.uint64)[:-1]], dtype=np.uint64)

    def release(self, codes: Array) -> None:
        """Overwrite codes, of shape (n,), with released ones."""
        self.release_from(codes, self._entropy)

    def release_from(self, codes: Array, source: Entropy | RowEntropy) -> None:
        """Overwrite codes with released ones, from the bits of a source, or of each row."""
        size = len(codes)
        words = source.words(2 * size) >> _SPARE_BITS
        drawn = np.searchsorted(self._below, words[size:], side="right")
        np.copyto(codes, drawn, where=words[:size] >= self._kept)


class Noise(Protocol):
    """Independent noise on each axis of a row, with one scale an axis (or one for all).

    What every family can do, and all that the rest of the package asks of one.

    Examples
    --------
    Families differ in what a shift loses at most, and on average of order 2:

    >>> from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
    >>> for noise in (Laplace(2.0), Gaussian(2.0), Cauchy(2.0)):
    ...     most, mean = noise.max_divergence([3.0]), noise.renyi_divergence([3.0], alpha=2.0)
    ...     print(type(noise).__name__, round(float(most), 3), round(float(mean), 3))
    Laplace 1.5 1.1
    Gaussian inf 2.25
    Cauchy 1.386 0.754
    """

    @property
    def scale(self) -> float | tuple[float, ...]:
        """Scale of every axis, or one an axis, in the units of that axis."""

    def scaled(self, factor: float) -> Self:
        """Return the same family with every scale multiplied by ``factor``.

        Parameters
        ----------
        factor : float
            Positive.

        Returns
        -------
        Noise
            Of the same kind; a larger factor is never less private.
        """

    def with_scale(self, scale: float | tuple[float, ...]) -> Self:
        """Return the same family with another scale.

        Parameters
        ----------
        scale : float or tuple of float
            One for all axes, or one an axis.

        Returns
        -------
        Noise
            Of the same kind.
        """

    def axis_scales(self, n_axes: int) -> FloatArray:
        """Return the scale of each axis.

        Parameters
        ----------
        n_axes : int
            Number of columns, which a tuple of scales must have, too.

        Returns
        -------
        ndarray of shape (n_axes,)
            In the units of the columns.
        """

    def log_density(self, z: ArrayLike) -> FloatArray:
        """Return the log density at rows.

        Parameters
        ----------
        z : array-like of shape (..., d)
            Rows of noise, in the units of the columns.

        Returns
        -------
        ndarray of shape (...)
            Log K(z).
        """

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return the max-divergence between the noise and the noise moved by a shift.

        Parameters
        ----------
        shift : array-like of shape (..., d)
            In the units of the columns.

        Returns
        -------
        ndarray of shape (...)
            In nats; infinite where there is no bound.
        """

    def renyi_divergence(self, shift: ArrayLike, alpha: float) -> FloatArray:
        r"""Return the Renyi divergence between the noise and the noise moved by a shift.

        .. math:: D_\alpha = \frac{1}{\alpha - 1} \log \int K(y)^\alpha K(y - z)^{1 - \alpha} dy

        Parameters
        ----------
        shift : array-like of shape (..., d)
            The shift z, in the units of the columns.
        alpha : float
            Order, above 1 and finite.

        Returns
        -------
        ndarray of shape (...)
            In nats: a sum over columns.
        """

    def hockey_stick(self, shift: ArrayLike, epsilon: float) -> FloatArray:
        r"""Return the smallest delta that goes with an epsilon, or a bound in several columns.

        .. math:: \delta = \int (K(y) - e^\varepsilon K(y - z))_+ \, dy

        Parameters
        ----------
        shift : array-like of shape (..., d)
            The shift z, in the units of the columns.
        epsilon : float
            In nats, not negative.

        Returns
        -------
        ndarray of shape (...)
            Exact in one column; a family that has only an upper bound in several says so.
        """

    def mass(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return P(low <= N <= high) of one column, with a small relative error also in the tails.

        Parameters
        ----------
        low, high : array-like
            Ends of panels, in the units of the column; they may be infinite. A panel whose ends
            are the wrong way round is empty.

        Returns
        -------
        ndarray
            Probabilities, of the shape that both ends have together.
        """

    def mean_up_to(self, most: ArrayLike) -> FloatArray:
        r"""Return what noise above 0 amounts to on average, cut at ``most``, in one column.

        .. math:: E[\min(N, z)_+] = \int_0^z P(N > t) \, dt

        Parameters
        ----------
        most : array-like
            The number z, not negative, in the units of the column; it may be infinite.

        Returns
        -------
        ndarray
            In the units of the column; infinite where the mean is.
        """

    def score(self, z: ArrayLike) -> FloatArray:
        """Return the slope of the log density of one column.

        Parameters
        ----------
        z : array-like
            In the units of the column. At a kink, the sign of zero chooses the side.

        Returns
        -------
        ndarray
            The slope at each number, in 1 / units.
        """

    def steepest(self, near: ArrayLike, far: ArrayLike) -> FloatArray:
        """Return the largest slope of the log density of one column between two distances from 0.

        Parameters
        ----------
        near, far : array-like
            Distances in the units of the column; ``far`` may be infinite.

        Returns
        -------
        ndarray
            The maximum of |score| over near <= |z| <= far.
        """

    def curvature(self, near: ArrayLike, far: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return between which numbers the log density of one column bends, kinks apart.

        Parameters
        ----------
        near, far : array-like
            Distances from 0 in the units of the column; ``far`` may be infinite.

        Returns
        -------
        tuple of two ndarrays
            Minimum and maximum of the second derivative of log K over near <= |z| <= far.
        """

    def turning(self, near: ArrayLike) -> FloatArray:
        """Return a bound on the third derivative of the log density of one column.

        Parameters
        ----------
        near : array-like
            Distances from 0 in the units of the column.

        Returns
        -------
        ndarray
            At least the largest size of that derivative over near <= |z|.
        """

    def sampler(self, grid: Grid, entropy: Entropy) -> Sampler:
        """Return what draws the noise of one column on a grid.

        Parameters
        ----------
        grid : Grid
            In the units of the column.
        entropy : Entropy
            Source of bits.

        Returns
        -------
        Sampler
            See `_noise.sampler.sampler`.
        """

    @property
    def name(self) -> str:
        """What certificates and records call the family."""

    def drift(self, near: ArrayLike, span: float) -> FloatArray:
        """Return how far the log ratio of two densities moves beyond a distance, in one column.

        Parameters
        ----------
        near : array-like
            Distances from 0, in the units of the column.
        span : float
            How far apart the two densities are at most.

        Returns
        -------
        ndarray
            At least the range of log K(y) - log K(y + x) over y >= near, for each x up to span.
        """

    # What may be known of a family beyond that: special ways to what others have the long way.

    @property
    def is_exponential(self) -> bool:
        """Whether K is e^(-|z| / scale) / (2 scale): pure losses are those at atoms, then."""

    @property
    def is_normal(self) -> bool:
        """Whether the noise is normal, and its scale the standard deviation."""

    @property
    def has_vertices(self) -> bool:
        """Whether pure losses of rows are those at the vertices of the grid of atoms."""

    @property
    def mixings(self) -> tuple[Mixing | None, ...]:
        """The kernels of unordered axes, None for axes of numbers; empty if there are only such."""

    @property
    def power(self) -> float | None:
        """The k for which K is proportional to (1 + (z / scale)^2)^(-k/2), or None."""

    @property
    def precision_power(self) -> int | None:
        """The p for which releases at scales s_r are as one at s, 1/s^p = sum 1/s_r^p, or None."""

    @property
    def norm(self) -> str | None:
        """The norm, l1 or l2, of which no shift loses more than one along an axis, or None."""


@dataclass(frozen=True)
class MixedNoise:
    r"""Noise of a family on some axes of a row, and on each of the others its `Mixing`.

    Parameters
    ----------
    noise : Noise
        Of a family, with one scale an axis; that of an unordered axis is -log(1 - rho), and that of
        an `Unchanged` one has no meaning.
    mixings : tuple of Mixing or None
        One an axis, None where the family's noise is added.

    Notes
    -----
    *Formal guarantees.* On the unordered axes that a shift moves along, with the sum kappa of their
    largest log ratios, ``max_divergence`` and ``renyi_divergence`` add kappa to the loss of the
    numbers; ``hockey_stick`` is the smaller of two bounds: that of the numbers at epsilon - kappa,
    as p' >= e^-kappa p there gives (p r - e^epsilon p' r')_+ <= p (r - e^(epsilon - kappa) r')_+,
    and the sum of all single ones at equal shares of epsilon.
    """

    noise: Noise
    mixings: tuple[Mixing | None, ...]

    is_exponential: ClassVar[bool] = False
    is_normal: ClassVar[bool] = False
    power: ClassVar[float | None] = None
    precision_power: ClassVar[int | None] = None
    norm: ClassVar[str | None] = None

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The scales, one an axis."""
        return self.noise.scale

    @property
    def name(self) -> str:
        """What the family of the numbers is called."""
        return self.noise.name

    @property
    def has_vertices(self) -> bool:
        """Whether pure losses are those at the vertices of the grid of atoms.

        For fixed categories the argument of the numbers holds, and categories are points.
        """
        return self.noise.has_vertices

    def scaled(self, factor: float) -> Self:
        """Return the same noise with every scale multiplied by ``factor``."""
        return replace(self, noise=self.noise.scaled(factor))

    def with_scale(self, scale: float | tuple[float, ...]) -> Self:
        """Return the same noise with another scale."""
        return replace(self, noise=self.noise.with_scale(scale))

    def axis_scales(self, n_axes: int) -> FloatArray:
        """Return the scales, shape (n_axes,); 0 of an axis that is released as it is."""
        scales = self.noise.axis_scales(n_axes)
        scales[[k for k, mixing in enumerate(self.mixings) if isinstance(mixing, Unchanged)]] = 0.0
        return scales

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return an upper bound on the max-divergence of shifts of shape (..., d), in nats."""
        numbers, kappas = self._split(shift)
        loss: FloatArray = self.noise.max_divergence(numbers) + kappas.sum(axis=-1)
        return loss

    def renyi_divergence(self, shift: ArrayLike, alpha: float) -> FloatArray:
        """Return an upper bound on the Renyi divergence of shifts, in nats."""
        numbers, kappas = self._split(shift)
        loss: FloatArray = self.noise.renyi_divergence(numbers, alpha) + kappas.sum(axis=-1)
        return loss

    def hockey_stick(self, shift: ArrayLike, epsilon: float) -> FloatArray:
        """Return an upper bound on the delta that goes with an epsilon."""
        numbers, kappas = self._split(shift)
        flat = kappas.reshape(-1, kappas.shape[-1])
        rows = numbers.reshape(flat.shape)
        bounds = np.empty(len(rows))
        for chosen, moved in _patterns(flat):
            bounds[chosen] = self._delta(rows[chosen], moved, epsilon)
        deltas: FloatArray = bounds.reshape(kappas.shape[:-1])
        return deltas

    def _delta(self, rows: FloatArray, kappas: FloatArray, epsilon: float) -> FloatArray:
        """Return the bound for rows that move along the same unordered axes."""
        left = nextafter(epsilon - float(kappas.sum()) * (1.0 + 1e-14), -inf)
        pure = self.noise.hockey_stick(rows, left) if left >= 0.0 else np.ones(len(rows))
        moved = np.flatnonzero(kappas)
        share = epsilon / (len(moved) + 1) if rows.any() else epsilon / max(len(moved), 1)
        share = max(nextafter(share * (1.0 - 1e-14), 0.0), 0.0)
        scales = self.axis_scales(rows.shape[1])
        singles = [_mixing(self.mixings[k]).hockey_stick(float(scales[k]), share) for k in moved]
        return np.minimum(
            np.minimum(pure, sum(singles) + self.noise.hockey_stick(rows, share)), 1.0
        )

    def _split(self, shift: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the shifts along the numbers alone, and kappa of each unordered axis moved on."""
        rows = np.array(shift, dtype=float)
        kappas = np.zeros_like(rows)
        scales = self.axis_scales(rows.shape[-1])
        for k, mixing in enumerate(self.mixings):
            if mixing is not None:
                most = mixing.max_divergence(float(scales[k]))
                kappas[..., k] = np.where(rows[..., k] != 0.0, most, 0.0)
                rows[..., k] = 0.0
        return rows, kappas

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("unordered categories have no density; take the noise of one number.")

    # What a density has, and a kernel of categories has not.
    log_density = mass = mean_up_to = score = steepest = curvature = turning = drift = _refuse
    sampler = _refuse


def _mixing(mixing: Mixing | None) -> Mixing:
    assert mixing is not None
    return mixing


def _patterns(kappas: FloatArray) -> Iterator[tuple[Array, FloatArray]]:
    """Yield the indices of rows with the same kappas, and these."""
    distinct, owners = np.unique(kappas, axis=0, return_inverse=True)
    for k, row in enumerate(distinct):
        yield np.flatnonzero(owners.ravel() == k), row


def without_mixings(noise: Noise) -> Noise:
    """Return the noise of the numbers alone, whose scales are those of all axes."""
    return noise.noise if isinstance(noise, MixedNoise) else noise
