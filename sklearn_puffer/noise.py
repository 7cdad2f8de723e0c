"""Noise families: the density of the noise and what a shift of it reveals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_puffer._validation import check_positive

FloatArray = NDArray[np.float64]

_SEQUENCES = (tuple, list, np.ndarray)


class Noise(Protocol):
    """Independent noise on each axis of a row, with one scale an axis (or one for all)."""

    @property
    def scale(self) -> float | tuple[float, ...]:
        """Scale of every axis, or one a axis, in the units of that axis."""

    def scaled(self, factor: float) -> Self:
        """Return the same family with every scale multiplied by ``factor``."""

    def with_scale(self, scale: float | tuple[float, ...]) -> Self:
        """Return the same family with another scale."""

    def axis_scales(self, n_axes: int) -> FloatArray:
        """Return the scales, shape (n_axes,)."""

    def log_density(self, z: ArrayLike) -> FloatArray:
        """Return the log density at rows ``z`` of shape (..., d)."""

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return the max-divergence between the noise and the noise moved by ``shift`` (..., d)."""


@dataclass(frozen=True)
class Laplace:
    r"""Laplace noise, independent on each axis.

    .. math:: K(z) = \prod_k \frac{1}{2\theta_k} e^{-|z_k|/\theta_k}, \qquad
              D_\infty(K \| K(\cdot - z)) = \sum_k |z_k|/\theta_k

    Parameters
    ----------
    scale : float or tuple of float
        theta, in the units of the column; one for all axes or one an axis.

    Notes
    -----
    *Formal guarantees.* Adding it to a value that moves by ``z`` between two worlds has a pure
    privacy loss of exactly ``max_divergence(z)``.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number.

    Examples
    --------
    >>> float(Laplace(2.0).max_divergence([3.0]))
    1.5
    >>> float(Laplace((1.0, 2.0)).max_divergence([1.0, -4.0]))
    3.0
    """

    scale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_scale(self.scale))

    def scaled(self, factor: float) -> Laplace:
        """Return Laplace noise with every scale multiplied by ``factor``."""
        if isinstance(self.scale, tuple):
            return Laplace(tuple(theta * factor for theta in self.scale))
        return Laplace(self.scale * factor)

    def with_scale(self, scale: float | tuple[float, ...]) -> Laplace:
        """Return Laplace noise of another scale."""
        return Laplace(scale)

    def axis_scales(self, n_axes: int) -> FloatArray:
        """Return the scales, shape (n_axes,)."""
        return _axis_scales(self.scale, n_axes)

    def log_density(self, z: ArrayLike) -> FloatArray:
        """Return log K at rows ``z`` of shape (..., d)."""
        rows = np.asarray(z, dtype=float)
        theta = self.axis_scales(rows.shape[-1])
        log_density: FloatArray = -(np.abs(rows) / theta + np.log(2.0 * theta)).sum(axis=-1)
        return log_density

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return sum |z_k| / theta_k for shifts of shape (..., d), in nats."""
        rows = np.asarray(shift, dtype=float)
        loss: FloatArray = (np.abs(rows) / self.axis_scales(rows.shape[-1])).sum(axis=-1)
        return loss


FAMILIES: dict[str, type[Laplace]] = {"laplace": Laplace}


def _check_scale(scale: Any) -> float | tuple[float, ...]:
    if isinstance(scale, _SEQUENCES) and np.ndim(scale) == 1:
        if len(scale) == 0:
            raise ValueError("scale must hold at least one number, got an empty sequence.")
        return tuple(check_positive(float(theta), "scale") for theta in scale)
    return check_positive(scale, "scale")


def _axis_scales(scale: float | tuple[float, ...], n_axes: int) -> FloatArray:
    if isinstance(scale, tuple) and len(scale) != n_axes:
        raise ValueError(
            f"scale has {len(scale)} entries and the prior {n_axes} columns; give one for each."
        )
    return np.broadcast_to(np.asarray(scale, dtype=float), (n_axes,)).copy()
