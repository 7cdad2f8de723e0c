"""What all noise families share: independent columns, each a symmetric density at a scale.

A family holds its scale. Its formulas are of one column of scale 1, within `_formulas.ROUNDING`.
Columns carry independent noise, so their max-divergences and Renyi divergences add up.

Rows of numbers and categories have `MixedNoise`: numbers get noise, categories a kernel. The loss
along an unordered axis does not depend on how far two codes are apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from math import inf, nextafter
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import FloatArray, check_above, check_positive
from sklearn_puffer._formulas import LOG_ROUNDING, rows_hockey_stick
from sklearn_puffer._noise.entropy import Entropy
from sklearn_puffer._noise.mixing import Mixing, Unchanged
from sklearn_puffer._noise.sampler import Grid, Sampler, single_scale
from sklearn_puffer._noise.shapes import Shape
from sklearn_puffer._noise.table_sampler import LaplaceSampler, TableSampler

_SEQUENCES = (tuple, list, np.ndarray)


@dataclass(frozen=True)
class ProductNoise(ABC):
    r"""Independent noise on each axis: what every family shares, and a new one derives from.

    Parameters
    ----------
    scale : float or tuple of float
        In the units of the column; one for all axes or one an axis.

    Notes
    -----
    A family is a frozen dataclass, of further parameters if need be, that says the following of
    noise of scale 1, for arrays of numbers u:

    - ``_log_density``, ``_score`` and ``_bend``, which are log K and its first two derivatives, and
      ``_turn``, which is at least the size of the third one at u and beyond. K is even and does not
      rise with \|u\|; the size of the score rises up to ``_steepest_at`` and falls beyond, and the
      second derivative does so around ``_most_convex_at``;
    - ``_mass(a, b, width)``, P(a <= N <= b) for \|a\| <= b and width = b - a, without cancellation;
    - ``_max_divergence(u)``, ``_renyi(u, alpha)`` and ``_delta(u, epsilon)``, the losses of a shift
      by u >= 0 in one column, each within `ROUNDING`;
    - ``_shape()``, by which it is drawn (see `_noise.shapes`); or ``sampler``, if it is
      drawn in another way; without either it has losses and no releases.

    *Formal guarantees.* All of these hold in the floats that come in, to the accuracy that the head
    of `_formulas` asks for. The family must be self-decomposable, so that noise of a larger
    scale is noise of a smaller one plus something independent: every search for a scale stands on
    it.

    What more is known of a family, it says in class attributes: ``is_exponential``, ``is_normal``,
    ``power``, ``precision_power`` and ``norm``. Then faster
    and sharper ways are taken, and things exist that otherwise are refused, such as several
    releases of the same rows.

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

    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        scale: Any = self.scale
        if isinstance(scale, _SEQUENCES) and np.ndim(scale) == 1:
            if len(scale) == 0:
                raise ValueError("scale must hold at least one number, got an empty sequence.")
            checked: Any = tuple(check_positive(float(theta), "scale") for theta in scale)
        else:
            checked = check_positive(scale, "scale")
        object.__setattr__(self, "scale", checked)

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
        if isinstance(self.scale, tuple):
            return self.with_scale(tuple(theta * factor for theta in self.scale))
        return self.with_scale(self.scale * factor)

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
        return replace(self, scale=scale)

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
        if not isinstance(self.scale, tuple):
            return np.full(n_axes, self.scale, dtype=np.float64)
        if len(self.scale) != n_axes:
            raise ValueError(
                f"scale has {len(self.scale)} entries and the prior {n_axes} columns; give one for "
                "each."
            )
        return np.array(self.scale, dtype=np.float64)

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
        rows = np.asarray(z, dtype=float)
        theta = self.axis_scales(rows.shape[-1])
        with np.errstate(over="ignore"):
            logs = self._log_density(rows / theta) - np.log(theta)
        log_density: FloatArray = logs.sum(axis=-1)
        return log_density

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
        loss: FloatArray = self._max_divergence(self._units(shift)).sum(axis=-1)
        return loss

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
        order = check_above(alpha, 1.0, "alpha")
        with np.errstate(over="ignore"):  # infinity is the right limit
            loss: FloatArray = self._renyi(self._units(shift), order).sum(axis=-1)
        return loss

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
        if not epsilon >= 0.0:
            raise ValueError(f"epsilon must not be negative, got {epsilon!r}; 0 is the least.")
        with np.errstate(over="ignore"):
            return self._hockey_stick(self._units(shift), float(epsilon))

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
        start, stop = np.broadcast_arrays(*(np.asarray(end, dtype=float) for end in (low, high)))
        # Turned so that the panel lies to the right: tails keep their relative accuracy there.
        turned = -start > stop
        start, stop = np.where(turned, -stop, start), np.where(turned, -start, stop)
        theta = self._one_scale()
        with np.errstate(invalid="ignore", over="ignore"):
            # The width before the division: a narrow panel far out keeps its relative width.
            width = np.where(start < stop, stop - start, 0.0)
            return self._mass(start / theta, stop / theta, width / theta)

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
        return self._score(self._units_of_column(z)) / self._one_scale()

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
        low, high = self._units_of_column(near), self._units_of_column(far)
        return np.abs(self._score(np.clip(self._steepest_at, low, high))) / self._one_scale()

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
        low, high = self._units_of_column(near), self._units_of_column(far)
        theta = self._one_scale()
        ends = np.minimum(self._bend(low), self._bend(high))
        top = self._bend(np.clip(self._most_convex_at, low, high))
        with np.errstate(over="ignore"):
            return ends / theta / theta, top / theta / theta

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
        theta = self._one_scale()
        with np.errstate(over="ignore", under="ignore"):
            bound: FloatArray = self._turn(self._units_of_column(near)) / theta / theta / theta
        return bound

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
        # If |score| falls beyond near, the ratio falls from its value there to no less than 0. If
        # it rises, so does the ratio, to no more than span times what |score| rises to.
        start = np.asarray(near, dtype=float)
        here, there = (self.log_density((start + x)[..., None]) for x in (0.0, span))
        steepest = self.steepest(start, np.full_like(start, inf))
        falls = steepest <= np.abs(self.score(start))
        rises = self.curvature(start, np.full_like(start, inf))[1] <= 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            most = span * np.where(rises, steepest, inf)
            off = LOG_ROUNDING * (1.0 + most + np.abs(here) + np.abs(there))
            rest = np.maximum(most - (here - there), 0.0) + off
            return np.fmin(np.where(falls, here - there, inf), np.where(most < inf, rest, inf))

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
        scale = single_scale(self)
        if self.is_exponential:
            return LaplaceSampler(scale, grid, entropy)
        return TableSampler(self._shape(), scale, grid, entropy)

    @property
    def name(self) -> str:
        """What certificates and records call the family."""
        family = type(self).__name__.lower()
        further = [f"{field.name}={getattr(self, field.name):g}" for field in fields(self)[1:]]
        return f"{family}({', '.join(further)})" if further else family

    # What a family may know of itself: special ways to what others have the long way.
    scale_means: ClassVar[str] = ""  # in a certificate
    # Whether K is e^(-|z| / scale) / (2 scale): pure losses are those at atoms, then.
    is_exponential: ClassVar[bool] = False
    # Whether the noise is normal, and its scale the standard deviation.
    is_normal: ClassVar[bool] = False
    # The p for which releases at scales s_r are as one at s, 1/s^p = sum 1/s_r^p, or None.
    precision_power: ClassVar[int | None] = None
    # The norm, l1 or l2, of which no shift loses more than one along an axis, or None.
    norm: ClassVar[str | None] = None
    # The kernels of unordered axes, None for axes of numbers; empty if there are only such.
    mixings: ClassVar[tuple[Mixing | None, ...]] = ()

    @property
    def has_vertices(self) -> bool:
        """Whether pure losses of rows are those at the vertices of the grid of atoms."""
        return self.is_exponential

    @property
    def power(self) -> float | None:
        """The k for which K is proportional to (1 + (z / scale)^2)^(-k/2), or None."""
        return None

    def _hockey_stick(self, u: FloatArray, epsilon: float) -> FloatArray:
        return rows_hockey_stick(u, self._max_divergence(u), epsilon, self._delta)

    # Where |score| and (log K)'' are largest in u >= 0; both rise up to there and fall beyond.
    _steepest_at = inf
    _most_convex_at = 0.0

    def _one_scale(self) -> float:
        return float(self.axis_scales(1)[0])

    def _units_of_column(self, z: ArrayLike) -> FloatArray:
        with np.errstate(over="ignore"):
            units: FloatArray = np.asarray(z, dtype=float) / self._one_scale()
        return units

    def _units(self, shift: ArrayLike) -> FloatArray:
        rows = np.abs(np.asarray(shift, dtype=float))
        with np.errstate(over="ignore"):
            units: FloatArray = rows / self.axis_scales(rows.shape[-1])
        return units

    # What a family says of itself, in units of its scale: of each entry of u, ...
    @abstractmethod
    def _log_density(self, u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _score(self, u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _bend(self, u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _turn(self, u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _max_divergence(self, u: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _renyi(self, u: FloatArray, alpha: float) -> FloatArray: ...

    # ... of absolute shifts u of one column and an epsilon >= 0 for each, ...
    @abstractmethod
    def _delta(self, u: FloatArray, epsilon: FloatArray) -> FloatArray: ...

    # ... and of panels [a, b] with |a| <= b.
    @abstractmethod
    def _mass(self, a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray: ...

    def _shape(self) -> Shape:
        raise TypeError(
            f"{self.name} noise is not drawn, its family has no `_shape`; use noise='laplace'."
        )


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
        distinct, owners = np.unique(flat, axis=0, return_inverse=True)
        for k, moved in enumerate(distinct):
            chosen = np.flatnonzero(owners.ravel() == k)
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
    log_density = mass = score = steepest = curvature = turning = drift = _refuse
    sampler = _refuse


def _mixing(mixing: Mixing | None) -> Mixing:
    assert mixing is not None
    return mixing


Noise = ProductNoise | MixedNoise
"""Independent noise on each axis of a row: all that the rest of the package asks for."""


def without_mixings(noise: Noise) -> Noise:
    """Return the noise of the numbers alone, whose scales are those of all axes."""
    return noise.noise if isinstance(noise, MixedNoise) else noise
