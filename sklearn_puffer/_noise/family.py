"""What all noise families share: independent columns, each a symmetric density at a scale.

A family holds its scale. Its formulas are of one column of scale 1, within `_formulas.ROUNDING`.
Columns carry independent noise, so their max-divergences and Renyi divergences add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import FloatArray, check_above, check_positive
from sklearn_puffer._formulas import LOG_ROUNDING, rows_hockey_stick
from sklearn_puffer._noise.entropy import Entropy
from sklearn_puffer._noise.grid import Grid
from sklearn_puffer._noise.mixing import Mixing
from sklearn_puffer._noise.sampler import Sampler, single_scale
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
    - ``_mass(a, b, width)``, P(a <= N <= b) for \|a\| <= b and width = b - a, without cancellation,
      and ``_mean_up_to``, the integral of P(N > t) over t from 0 to u;
    - ``_max_divergence(u)``, ``_renyi(u, alpha)`` and ``_delta(u, epsilon)``, the losses of a shift
      by u >= 0 in one column, each within `ROUNDING`;
    - ``_shape()``, by which it is drawn (see `_noise.shapes`); or ``sampler``, if it is
      drawn in another way; without either it has losses and no releases.

    *Formal guarantees.* All of these hold in the floats that come in, to the accuracy that the head
    of `_formulas` asks for. The family must be self-decomposable, so that noise of a larger
    scale is noise of a smaller one plus something independent: every search for a scale stands on
    it.

    What more is known of a family, it says in class attributes: ``is_exponential``, ``is_normal``,
    ``power``, ``precision_power`` and ``norm`` (`_noise.mixing.Noise` explains them). Then faster
    and sharper ways are taken, and things exist that otherwise are refused, such as several
    releases of the same rows.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace, ProductNoise
    >>> isinstance(Laplace(2.0), ProductNoise)
    True
    """

    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_scale(self.scale))

    def scaled(self, factor: float) -> Self:
        """Return the same family with every scale multiplied by ``factor``."""
        if isinstance(self.scale, tuple):
            return self.with_scale(tuple(theta * factor for theta in self.scale))
        return self.with_scale(self.scale * factor)

    def with_scale(self, scale: float | tuple[float, ...]) -> Self:
        """Return the same family with another scale."""
        return replace(self, scale=scale)

    def axis_scales(self, n_axes: int) -> FloatArray:
        """Return the scales, shape (n_axes,)."""
        if not isinstance(self.scale, tuple):
            return np.full(n_axes, self.scale, dtype=np.float64)
        if len(self.scale) != n_axes:
            raise ValueError(
                f"scale has {len(self.scale)} entries and the prior {n_axes} columns; give one for "
                "each."
            )
        return np.array(self.scale, dtype=np.float64)

    def log_density(self, z: ArrayLike) -> FloatArray:
        """Return log K at rows ``z`` of shape (..., d)."""
        rows = np.asarray(z, dtype=float)
        theta = self.axis_scales(rows.shape[-1])
        with np.errstate(over="ignore"):
            logs = self._log_density(rows / theta) - np.log(theta)
        log_density: FloatArray = logs.sum(axis=-1)
        return log_density

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return the max-divergence of shifts of shape (..., d), in nats: a sum over columns."""
        loss: FloatArray = self._max_divergence(self._units(shift)).sum(axis=-1)
        return loss

    def renyi_divergence(self, shift: ArrayLike, alpha: float) -> FloatArray:
        """Return the Renyi divergence of shifts of shape (..., d), in nats: a sum over columns."""
        order = check_above(alpha, 1.0, "alpha")
        with np.errstate(over="ignore"):  # infinity is the right limit
            loss: FloatArray = self._renyi(self._units(shift), order).sum(axis=-1)
        return loss

    def hockey_stick(self, shift: ArrayLike, epsilon: float) -> FloatArray:
        """Return the smallest delta that goes with ``epsilon``, or a bound in several columns.

        It is exact in one column, and in several for the Gaussian; the other families say in their
        notes which upper bound they give there.
        """
        if not epsilon >= 0.0:
            raise ValueError(f"epsilon must not be negative, got {epsilon!r}; 0 is the least.")
        with np.errstate(over="ignore"):
            return self._hockey_stick(self._units(shift), float(epsilon))

    def mass(self, low: ArrayLike, high: ArrayLike) -> FloatArray:
        """Return P(low <= N <= high) of one column, with a small relative error also in the tails.

        A panel whose ends are the wrong way round is empty.
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

    def mean_up_to(self, most: ArrayLike) -> FloatArray:
        """Return E[min(N, most)_+] of one column, which may be infinite, as ``most`` may."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._one_scale() * self._mean_up_to(self._units_of_column(most))

    def score(self, z: ArrayLike) -> FloatArray:
        """Return the slope of the log density of one column at ``z``, in 1 / units.

        At a kink it is the slope on the side of the sign of zero.
        """
        return self._score(self._units_of_column(z)) / self._one_scale()

    def steepest(self, near: ArrayLike, far: ArrayLike) -> FloatArray:
        """Return max |score| of one column over near <= |z| <= far; ``far`` may be infinite."""
        low, high = self._units_of_column(near), self._units_of_column(far)
        return np.abs(self._score(np.clip(self._steepest_at, low, high))) / self._one_scale()

    def curvature(self, near: ArrayLike, far: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return min and max of (log K)'' of one column over near <= |z| <= far, kinks apart."""
        low, high = self._units_of_column(near), self._units_of_column(far)
        theta = self._one_scale()
        ends = np.minimum(self._bend(low), self._bend(high))
        top = self._bend(np.clip(self._most_convex_at, low, high))
        with np.errstate(over="ignore"):
            return ends / theta / theta, top / theta / theta

    def turning(self, near: ArrayLike) -> FloatArray:
        """Return a bound on the third derivative of log K, one column, over near <= |z|."""
        theta = self._one_scale()
        with np.errstate(over="ignore", under="ignore"):
            bound: FloatArray = self._turn(self._units_of_column(near)) / theta / theta / theta
        return bound

    def drift(self, near: ArrayLike, span: float) -> FloatArray:
        """Return how far log K(y) - log K(y + x) moves over y >= near, for each x up to span.

        If |score| falls beyond near, the ratio falls from its value there to no less than 0. If it
        rises, so does the ratio, to no more than span times what |score| rises to.
        """
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
        """Return what draws the noise of one column on a grid."""
        scale = single_scale(self)
        if self.is_exponential:
            return LaplaceSampler(scale, grid, entropy)
        return TableSampler(self._shape(), scale, grid, entropy)

    @property
    def name(self) -> str:
        """What certificates and records call the family: its class, and parameters but a scale."""
        family = type(self).__name__.lower()
        further = [f"{field.name}={getattr(self, field.name):g}" for field in fields(self)[1:]]
        return f"{family}({', '.join(further)})" if further else family

    # What a family may know of itself: special ways to what others have the long way.
    scale_means: ClassVar[str] = ""  # in a certificate
    is_exponential: ClassVar[bool] = False
    is_normal: ClassVar[bool] = False
    precision_power: ClassVar[int | None] = None
    norm: ClassVar[str | None] = None
    mixings: ClassVar[tuple[Mixing | None, ...]] = ()

    @property
    def has_vertices(self) -> bool:
        """Whether pure losses are those at the vertices of the grid of atoms."""
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
    def _mean_up_to(self, u: FloatArray) -> FloatArray: ...

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


def _check_scale(scale: Any) -> float | tuple[float, ...]:
    if isinstance(scale, _SEQUENCES) and np.ndim(scale) == 1:
        if len(scale) == 0:
            raise ValueError("scale must hold at least one number, got an empty sequence.")
        return tuple(check_positive(float(theta), "scale") for theta in scale)
    return check_positive(scale, "scale")
