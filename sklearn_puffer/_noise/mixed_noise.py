r"""Rows of numbers and of unordered categories: noise on the former, a kernel on the latter.

The axes are independent given the row, so that losses of shifts add up as those of noise do. What
a move along an unordered axis loses does not depend on how far codes are apart.

What the rest of the package asks of a noise family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, nextafter
from typing import ClassVar, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noise.mixing import Mixing, Unchanged
from sklearn_puffer._noise.sampler import Entropy, Grid, Sampler


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
            See `_noise.sampling.sampler`.
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
        found = np.empty(len(rows))
        for chosen, moved in _patterns(flat):
            found[chosen] = self._delta(rows[chosen], moved, epsilon)
        deltas: FloatArray = found.reshape(kappas.shape[:-1])
        return deltas

    def _delta(self, rows: FloatArray, kappas: FloatArray, epsilon: float) -> FloatArray:
        """Return the bound for rows that move along the same unordered axes."""
        left = nextafter(epsilon - float(kappas.sum()) * (1.0 + 1e-14), -inf)
        pure = self.noise.hockey_stick(rows, left) if left >= 0.0 else np.ones(len(rows))
        moved = np.flatnonzero(kappas)
        share = epsilon / (len(moved) + 1) if rows.any() else epsilon / max(len(moved), 1)
        share = max(nextafter(share * (1.0 - 1e-14), 0.0), 0.0)
        scales = self.axis_scales(rows.shape[1])
        each = [_mixing(self.mixings[k]).hockey_stick(float(scales[k]), share) for k in moved]
        return np.minimum(np.minimum(pure, sum(each) + self.noise.hockey_stick(rows, share)), 1.0)

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

    # What a density has, and a kernel of categories has not.
    def log_density(self, z: ArrayLike) -> FloatArray:
        """Refuse."""
        self._refuse()

    def mass(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Refuse."""
        self._refuse()

    def mean_up_to(self, most: ArrayLike) -> FloatArray:
        """Refuse."""
        self._refuse()

    def score(self, z: ArrayLike) -> FloatArray:
        """Refuse."""
        self._refuse()

    def steepest(self, near: ArrayLike, far: ArrayLike) -> FloatArray:
        """Refuse."""
        self._refuse()

    def curvature(self, near: ArrayLike, far: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Refuse."""
        self._refuse()

    def turning(self, near: ArrayLike) -> FloatArray:
        """Refuse."""
        self._refuse()

    def drift(self, near: ArrayLike, span: float) -> FloatArray:
        """Refuse."""
        self._refuse()

    def sampler(self, grid: Grid, entropy: Entropy) -> Sampler:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError("unordered categories have no density; take the noise of one number.")


def _mixing(mixing: Mixing | None) -> Mixing:
    assert mixing is not None
    return mixing


def _patterns(kappas: FloatArray) -> Iterator[tuple[Array, FloatArray]]:
    """Yield the places of rows with the same kappas, and these."""
    distinct, owners = np.unique(kappas, axis=0, return_inverse=True)
    for k, row in enumerate(distinct):
        yield np.flatnonzero(owners.ravel() == k), row


def without_mixings(noise: Noise) -> Noise:
    """Return the noise of the numbers alone, whose scales are those of all axes."""
    return noise.noise if isinstance(noise, MixedNoise) else noise
