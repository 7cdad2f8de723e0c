"""Noise of rows of numbers and categories: numbers get noise, categories a kernel.

The axes are independent given the row, so losses of shifts add up over them. Along an unordered
axis the loss does not depend on how far two codes are apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, nextafter
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noise.family import ProductNoise
from sklearn_puffer._noise.mixing import Mixing, Unchanged


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


Noise = ProductNoise | MixedNoise
"""Independent noise on each axis of a row: all that the rest of the package asks for."""


def without_mixings(noise: Noise) -> Noise:
    """Return the noise of the numbers alone, whose scales are those of all axes."""
    return noise.noise if isinstance(noise, MixedNoise) else noise
