r"""Kernels of unordered columns, noise of rows of numbers and categories, and the `Noise` protocol.

In an unordered column the value stays, or is drawn anew from fixed shares:

.. math:: K_\rho = (1 - \rho) I + \rho 1 q', \qquad \rho = 1 - e^{-\theta}

:math:`K_\rho K_\sigma = K_{1 - (1 - \rho)(1 - \sigma)}`, so the kernel of a larger theta is that of
a smaller one followed by another kernel, and no loss grows with theta. q is stationary.

In rows of numbers and categories the numbers get noise and the categories a kernel. The axes are
independent given the row, so losses of shifts add up over them. Along an unordered axis the loss
does not depend on how far two codes are apart.
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
from numpy.typing import ArrayLike

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.entropy import CheckedEntropy, Entropy, NotCopied, RowEntropy
from sklearn_puffer._noise.grid import Grid
from sklearn_puffer._noise.integer_rows import SPARE_BITS, WHOLE
from sklearn_puffer._noise.sampler import Sampler

_LEAST_ODDS = 1e-300  # more than all odds that underflow


@dataclass(frozen=True)
class Mixing:
    """The distribution from which values of an unordered column are redrawn.

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
    """Return 1 - rho in units of 2^-62, rounded down: to keep less never loses privacy.

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
        words = source.words(2 * size) >> SPARE_BITS
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
