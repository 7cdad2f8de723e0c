"""What the rest of the package asks of a noise family."""

from __future__ import annotations

from typing import Protocol, Self

from numpy.typing import ArrayLike

from sklearn_puffer._base import FloatArray
from sklearn_puffer._noise.entropy import Entropy
from sklearn_puffer._noise.grid import Grid
from sklearn_puffer._noise.mixing import Mixing
from sklearn_puffer._noise.sampler import Sampler


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
