"""Noise families: the density of the noise, and what a shift of it reveals.

Use this module to give ``noise=`` an object with settings: another tail; or to write a family of
your own.

A family holds its scale. What all families share is in `_noise.family`; the formulas for one column
of scale 1, and bounds on their rounding errors, are in `_formulas`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, log, pi, sqrt
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, check_above, check_choice, gone
from sklearn_puffer._formulas import (
    LOG_ROUNDING,
    ROUNDING,
    cauchy_hockey_stick,
    cauchy_mass,
    cauchy_renyi,
    density_at_zero,
    gaussian_hockey_stick,
    gaussian_mass,
    laplace_renyi,
    log1p_square,
    norm,
    student_mass,
)
from sklearn_puffer._noise import MixedNoise, Noise, ProductNoise, Steep, shapes

__all__ = [
    "LOG_ROUNDING",
    "ROUNDING",
    "Cauchy",
    "Gaussian",
    "GeneralizedCauchy",
    "Laplace",
    "Noise",
    "ProductNoise",
    "Steep",
]


def __getattr__(name: str) -> Any:
    if name in ("OptimalChannel", "RecordSwap"):  # an AttributeError would lose its sentence
        raise ImportError(gone(f"noise.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class Laplace(ProductNoise):
    r"""Laplace noise, independent on each axis.

    .. math:: K(z) = \prod_k \frac{1}{2\theta_k} e^{-|z_k|/\theta_k}, \qquad
              D_\infty(K \| K(\cdot - z)) = \sum_k |z_k|/\theta_k

    Parameters
    ----------
    scale : float or tuple of float
        The scale theta, in the units of the column; one for all axes or one an axis.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number.

    Notes
    -----
    *Formal guarantees.* Adding it to a value that moves by ``z`` between two worlds has a pure
    privacy loss of exactly ``max_divergence(z)``, a Renyi loss of exactly (u = \|z_k\| / theta_k)

    .. math:: \sum_k \frac{1}{\alpha - 1} \log\left(\frac{\alpha}{2\alpha - 1} e^{(\alpha - 1) u}
              + \frac{\alpha - 1}{2\alpha - 1} e^{-\alpha u}\right)

    (004, Cor. 3.1), and in one column a delta of exactly (1 - e^((epsilon - u)/2))_+. In several
    columns that delta at the sum of u is an upper bound: for one bit B the values B z_k + N_k are
    releases of B, and independent Laplace releases of the same value are a post-processing of one
    whose precision 1/theta is the sum of theirs (with w = prod e^(-\|y_k - x\| / theta_k) and
    1/s = sum 1/theta_k, w - s^2 w'' >= 0 is a mixture density).

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> float(Laplace(2.0).max_divergence([3.0]))
    1.5
    >>> float(Laplace((1.0, 2.0)).max_divergence([1.0, -4.0]))
    3.0
    >>> round(float(Laplace(2.0).hockey_stick([3.0], epsilon=0.5)), 6)
    0.393469
    """

    scale_means = "its mean absolute value"
    is_exponential = True
    precision_power = 1
    norm = "l1"

    def _log_density(self, u: FloatArray) -> FloatArray:
        return -np.abs(u) - log(2.0)

    def _score(self, u: FloatArray) -> FloatArray:
        return -np.copysign(1.0, u)

    def _bend(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _turn(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _max_divergence(self, u: FloatArray) -> FloatArray:
        return u

    def _renyi(self, u: FloatArray, alpha: float) -> FloatArray:
        return laplace_renyi(u, alpha)

    def _delta(self, u: FloatArray, epsilon: FloatArray) -> FloatArray:
        delta: FloatArray = 0.0 - np.expm1(np.minimum(epsilon - u, 0.0) / 2.0)
        return delta

    def _hockey_stick(self, u: FloatArray, epsilon: float) -> FloatArray:
        return self._delta(u.sum(axis=-1), np.asarray(epsilon))

    def _mass(self, a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
        aside = -0.5 * np.exp(-np.maximum(a, 0.0)) * np.expm1(-width)
        across = -0.5 * (np.expm1(np.minimum(a, 0.0)) + np.expm1(-b))
        return np.where(a < 0.0, across, aside)


@dataclass(frozen=True)
class Gaussian(ProductNoise):
    r"""Gaussian noise, independent on each axis.

    .. math:: K(z) = \prod_k \frac{1}{\sqrt{2\pi}\sigma_k} e^{-z_k^2 / (2 \sigma_k^2)}, \qquad
              D_\alpha(K \| K(\cdot - z)) = \frac{\alpha}{2} \sum_k z_k^2 / \sigma_k^2

    Parameters
    ----------
    scale : float or tuple of float
        The standard deviation sigma, in the units of the column; one for all axes or one an axis.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number.

    Notes
    -----
    *Formal guarantees.* Adding it to a value that moves by ``z`` has no pure privacy loss but the
    infinite one (0 for z = 0). The Renyi loss is exactly the sum above (004, Cor. 3.1). The delta
    is exactly, in any number of columns, for u the norm of z_k / sigma_k (rotate z into one axis),

    .. math:: \delta = \Phi(u/2 - \varepsilon/u) - e^\varepsilon \Phi(-u/2 - \varepsilon/u)

    Examples
    --------
    >>> from sklearn_puffer.noise import Gaussian
    >>> float(Gaussian(1.0).renyi_divergence([3.0], alpha=2.0))
    9.0
    >>> round(float(Gaussian(1.0).hockey_stick([1.0], epsilon=1.0)), 6)
    0.126937
    """

    scale_means = "its standard deviation"
    is_normal = True
    precision_power = 2
    norm = "l2"

    def _shape(self) -> shapes.Shape:
        return shapes.Bell()

    def _log_density(self, u: FloatArray) -> FloatArray:
        return -0.5 * np.square(u) - 0.5 * log(2.0 * pi)

    def _score(self, u: FloatArray) -> FloatArray:
        return -u

    def _bend(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, -1.0)

    def _turn(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def _max_divergence(self, u: FloatArray) -> FloatArray:
        return np.where(u > 0.0, inf, 0.0)

    def _renyi(self, u: FloatArray, alpha: float) -> FloatArray:
        return 0.5 * alpha * np.square(u)

    def _delta(self, u: FloatArray, epsilon: FloatArray) -> FloatArray:
        return gaussian_hockey_stick(u, epsilon)

    def _hockey_stick(self, u: FloatArray, epsilon: float) -> FloatArray:
        return self._delta(norm(u), np.asarray(epsilon))

    def _mass(self, a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
        return gaussian_mass(a, b, width)


@dataclass(frozen=True)
class _CauchyKind(ProductNoise):
    """Noise of density proportional to (1 + (z / scale)^2)^(-k/2)."""

    _steepest_at = 1.0
    _most_convex_at = sqrt(3.0)

    @property
    @abstractmethod
    def power(self) -> float:
        """The exponent k."""

    def _shape(self) -> shapes.Shape:
        return shapes.power(self.power)

    def _log_density(self, u: FloatArray) -> FloatArray:
        return log(density_at_zero(self.power)) - 0.5 * self.power * log1p_square(u)

    def _score(self, u: FloatArray) -> FloatArray:
        size = np.hypot(1.0, u)
        return -self.power * np.where(np.isfinite(u), u, 1.0) / size / size

    def _bend(self, u: FloatArray) -> FloatArray:
        # k (u^2 - 1) / (1 + u^2)^2, by factors that neither cancel nor overflow.
        inner, size = np.where(np.isfinite(u), u, 1.0), np.hypot(1.0, u)
        return self.power * ((inner - 1.0) / size) * ((inner + 1.0) / size) / size / size

    def _turn(self, u: FloatArray) -> FloatArray:
        # it is 2 k (3 u - u^3) / (1 + u^2)^3, and 3 u - u^3 the imaginary part of (1 + iu)^3
        size = np.hypot(1.0, u)
        bound: FloatArray = 2.0 * (1.0 + 1e-12) * self.power / size / size / size
        return bound

    def _max_divergence(self, u: FloatArray) -> FloatArray:
        loss: FloatArray = self.power * np.arcsinh(0.5 * u)
        return loss

    def _renyi(self, u: FloatArray, alpha: float) -> FloatArray:
        return cauchy_renyi(u, self.power, alpha)

    def _delta(self, u: FloatArray, epsilon: FloatArray) -> FloatArray:
        return cauchy_hockey_stick(u, self.power, epsilon)

    def _mass(self, a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
        k = self.power
        return cauchy_mass(a, b, width) if k == 2.0 else student_mass(a, b, width, k)


@dataclass(frozen=True)
class Cauchy(_CauchyKind):
    r"""Cauchy noise, independent on each axis: the generalised Cauchy noise of k = 2.

    .. math:: K(z) = \prod_k \frac{1}{\pi s_k} \frac{1}{1 + (z_k/s_k)^2}, \qquad
              D_\infty(K \| K(\cdot - z)) = \sum_k 2 \operatorname{asinh}\frac{|z_k|}{2 s_k}

    Parameters
    ----------
    scale : float or tuple of float
        s, in the units of the column; one for all axes or one an axis.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number.

    Notes
    -----
    *Formal guarantees.* Adding it to a value that moves by ``z`` has a pure privacy loss of exactly
    ``max_divergence(z)``, and a Renyi loss of exactly the sum over the columns of

    .. math:: \frac{1}{\alpha - 1} \log P_{\alpha - 1}\left(1 + \frac{z_k^2}{2 s_k^2}\right)

    with the Legendre function P (004, Lemma D.1 is misprinted); deltas as in `GeneralizedCauchy`.
    Neither mean nor variance exist: the quartiles are at -s and s.

    Examples
    --------
    >>> from sklearn_puffer.noise import Cauchy
    >>> round(float(Cauchy(1.0).renyi_divergence([1.0], alpha=2.0)), 6)  # log 1.5
    0.405465
    >>> round(float(Cauchy(0.1).max_divergence([1.0])), 6)
    4.624877
    """

    scale_means = "half of the noise lies within it"

    @property
    def power(self) -> float:
        """The exponent k, 2."""
        return 2.0


@dataclass(frozen=True)
class GeneralizedCauchy(_CauchyKind):
    r"""Generalised Cauchy noise, independent on each axis: a Student t with lighter tails.

    .. math:: K(z) = \prod_j \frac{\Gamma(k/2)}{\sqrt\pi \, \Gamma((k-1)/2) s_j}
              \left(1 + (z_j/s_j)^2\right)^{-k/2}, \qquad
              D_\infty(K \| K(\cdot - z)) = \sum_j k \operatorname{asinh}\frac{|z_j|}{2 s_j}

    Parameters
    ----------
    scale : float or tuple of float
        s, in the units of the column; one for all axes or one an axis.
    k : float
        Above 1 and finite. 2 is the Cauchy distribution; 4 is the least integer with a variance,
        s^2.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number, or k not a finite number above 1.

    Notes
    -----
    It is s / sqrt(k - 1) times a Student t with k - 1 degrees of freedom, a self-decomposable
    distribution (Halgreen, 1979): noise of a larger scale is noise of a smaller one plus something
    independent, which is why no loss ever grows with the scale. Moments exist up to any order below
    k - 1.

    *Formal guarantees.* Adding it to a value that moves by ``z`` has a pure privacy loss of exactly
    ``max_divergence(z)``. Renyi losses are sums over the columns. With u = \|z_j\| / s_j and m =
    k (alpha - 1) / 2 an integer to 256, a column's loss is a finite sum of positive terms,

    .. math:: \frac{1}{\alpha - 1} \log \sum_{n=0}^m \binom{m}{n}
              \frac{((k-1)/2)_n \, (k\alpha/2)_n}{(k/2)_{2n}} u^{2n}

    the exact value where 004, Lemma D.1 gives a bound; otherwise it is a quadrature, rounded up by
    a hundred times the error that tests have shown (so that margin is tested, not proven).

    In one column delta is exact: a closed form for k = 2, a quadrature otherwise. In several
    columns it is the smaller of two bounds. With e0 the total max-divergence, the (e^e0 -
    e^epsilon)_+ / (1 + e^e0) of a randomised response, which every pair of distributions of that
    max-divergence (both ways) post-processes; and the delta of the largest column at epsilon less
    the max-divergences e' of the others, as q' >= e^(-e') p' there gives
    (p p' - e^epsilon q q')_+ <= p' (p - e^(epsilon - e') q)_+.

    Examples
    --------
    >>> from sklearn_puffer.noise import GeneralizedCauchy
    >>> round(float(GeneralizedCauchy(1.0, k=4.0).renyi_divergence([1.0], alpha=2.0)), 6)
    1.287854
    >>> round(float(GeneralizedCauchy(1.0, k=3.0).hockey_stick([1.0], epsilon=0.5)), 6)
    0.293674
    """

    k: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "k", check_above(self.k, 1.0, "k"))

    @property
    def power(self) -> float:
        """The exponent k."""
        return self.k


#: Families that have a name of their own; an object of any family serves in its place.
FAMILIES: dict[str, type[ProductNoise]]
FAMILIES = {"laplace": Laplace, "gaussian": Gaussian, "cauchy": Cauchy}

#: Families that are written by name, and read again anywhere.
_WRITTEN: dict[str, type[ProductNoise]] = {**FAMILIES, "generalized cauchy": GeneralizedCauchy}


def written_family(noise: Any) -> tuple[str, dict[str, float]] | None:
    """Return the name of a family and its parameters but the scale; None for one of the user's own.

    >>> written_family(GeneralizedCauchy(2.0, k=3.0)), written_family(Laplace(2.0))
    (('generalized cauchy', {'k': 3.0}), ('laplace', {}))
    """
    for name, family in _WRITTEN.items():
        if type(noise) is family:
            return name, {f.name: getattr(noise, f.name) for f in fields(family)[1:]}
    return None


def family_of(name: str, parameters: Mapping[str, float]) -> Noise:
    """Return the noise of scale 1 that `written_family` named.

    >>> family_of("generalized cauchy", {"k": 3.0})
    GeneralizedCauchy(scale=1.0, k=3.0)
    """
    return _WRITTEN[check_choice(name, "noise", _WRITTEN)](1.0, **parameters)


def is_family(value: Any) -> bool:
    """Return whether a value is noise of a family.

    >>> is_family(Laplace(2.0)), is_family("laplace")
    (True, False)
    """
    return isinstance(value, ProductNoise)


def named_noise(noise: Any) -> Noise:
    """Return the noise that an argument names, at scale 1, or the object of a family that it is.

    >>> named_noise("cauchy"), named_noise(Laplace(2.0))
    (Cauchy(scale=1.0), Laplace(scale=2.0))
    """
    if isinstance(noise, str):
        return FAMILIES[check_choice(noise, "noise", FAMILIES)](1.0)
    if not isinstance(noise, ProductNoise):
        raise TypeError(
            f"noise must be one of {list(FAMILIES)} or an object of a noise family, got {noise!r}."
        )
    return noise


def check_noise(noise: Any) -> None:
    """Refuse objects that are neither noise of a family nor noise with kernels of categories.

    >>> check_noise(Laplace(2.0))
    """
    if not isinstance(noise, ProductNoise | MixedNoise):
        raise TypeError(
            "noise must be Laplace, Gaussian, Cauchy, GeneralizedCauchy or of another family, "
            f"got {noise!r}."
        )
