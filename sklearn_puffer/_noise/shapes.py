r"""Shapes of noise: how the density of its magnitude decays.

A shape describes the density p of the magnitude :math:`x = |N|/\theta \ge 0` of noise in units of
its scale, :math:`p(x) = p(0) e^{-D(x)}` with a decay D that grows from D(0) = 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._noise import portable

_LOG_2 = math.log(2.0)
_DIGITS = 60
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620900")
_LEAST, _MOST = 1.0 + 2.0**-10, 2.0**20
_MANY = 2048  # cells of a table at most
_FURTHEST = 450  # doublings: beyond, 4^-d is nothing, and a steep density e^-(10^100) and less


class Tail(ABC):
    r"""The magnitudes from a *reach* R on.

    They are proposed in shells, :math:`x = 2^d y` with :math:`R_0 \le y < 2 R_0` and d = 0, 1, ...,
    where :math:`R_0 \le R < 2 R_0`. A geometric number i of fair halvings and a uniform number
    j < 2^a make up the shell :math:`d = 2^a i + j`, whose chance is :math:`2^{-1-i-a}`. Evenly over
    the magnitudes of the shell this is :math:`2^{-1-a} / R_0` times :math:`2^{-(d + i)}`.
    """

    @property
    @abstractmethod
    def top(self) -> float:
        """An upper bound of 2^(d + i) p(x)/p(0) over all x >= R."""

    @property
    def shell_bits(self) -> int:
        """The number a."""
        return 0

    @abstractmethod
    def chance(
        self, y: FloatArray, shell: IntArray, halvings: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        r"""Return v and c for which :math:`v 2^{-c} = 2^{d + i} p(x)/p(0)/\text{top}`.

        Of y / R_0, from 1 to 2, of d and of i. c is whole and not negative, and v lies between 2^-9
        and 1, but for rounding.
        """


class Shape(ABC):
    """A density p of magnitudes, in units of the scale."""

    by: ModuleType = np  # whose exp and log it takes

    def portable(self) -> Shape | None:
        """Return the shape computed alike on every machine, by `_noise.portable`, if there is.

        Returns
        -------
        Shape or None
            Without one, noise with a key is refused.
        """
        return self if self.by is portable else None

    @property
    @abstractmethod
    def cell_exponent(self) -> int:
        """Coarse cells are 2^cell_exponent / m wide, for a mantissa m of the scale in [1/2, 1)."""

    @abstractmethod
    def at_zero(self) -> Decimal:
        """Return p(0) to 30 digits, in units of 1 / scale."""

    @abstractmethod
    def cells(self, weight: float, width: float) -> int:
        """Return how many coarse cells of a width the table has; 2^16 p(0) width is ``weight``."""

    @abstractmethod
    def falloff(self, x: Any) -> Any:
        """Return p(x)/p(0) for x within the table, an array or a float."""

    @abstractmethod
    def tail(self, start: float, reach: float) -> Tail:
        """Return what lies beyond R = ``reach``, with R_0 = ``start``."""


# ------------------------------------------------------------------------------------- steep shapes


class Steep(Shape):
    r"""How a family of noise is drawn whose density falls fast: what its ``_shape`` returns.

    .. math:: p(x) = p(0)\, e^{-D(x)}, \qquad x = |N| / \theta \ge 0

    D grows from D(0) = 0, and :math:`x^2 p(x)` does not grow beyond a table of cells. They are
    between 2^c and 2^(c+1) wide, c = ``cell_exponent``, and end where p times their width is 2^-28,
    or after 2048. For a density as wide as the normal one c is -7.

    Notes
    -----
    *Formal guarantees.* At every step the noise on a grid has the probability that p gives it,
    within a relative error of 3500 + 24 D roundings, if :math:`|p''| \le (1 + x^2) p`, `at_zero`
    has 30 digits, and `decay` is right to 15 roundings of its size.

    Examples
    --------
    >>> import math
    >>> from decimal import Decimal
    >>> from sklearn_puffer.noise import Steep
    >>> class Exponential(Steep):
    ...     cell_exponent = -7
    ...     def at_zero(self):
    ...         return Decimal(1)
    ...     def decay(self, x):
    ...         return x
    ...     def decays_to(self, level):
    ...         return level
    >>> round(float(Exponential().falloff(math.log(2.0))), 9)
    0.5
    """

    @abstractmethod
    def decay(self, x: Any) -> Any:
        """Return D(x).

        Parameters
        ----------
        x : float or ndarray
            Not negative, in units of the scale.

        Returns
        -------
        float or ndarray
            Like ``x``.
        """

    @abstractmethod
    def decays_to(self, level: float) -> float:
        """Return the x with D(x) = level.

        Parameters
        ----------
        level : float
            Not negative.

        Returns
        -------
        float
            In units of the scale.
        """

    def cells(self, weight: float, width: float) -> int:
        """Return the cells up to where p(x) 2^16 width is 2^-12, but at most 2048.

        Parameters
        ----------
        weight : float
            2^16 p(0) times the width.
        width : float
            Of a cell, in units of the scale.

        Returns
        -------
        int
            Their number.
        """
        level = float(_ln(4096.0 * weight))  # rounded once: the same on every machine
        return min(math.ceil(self.decays_to(level) / width), _MANY)

    def falloff(self, x: Any) -> Any:
        """Return e^-D(x).

        Parameters
        ----------
        x : float or ndarray
            Not negative, in units of the scale.

        Returns
        -------
        float or ndarray
            Like ``x``.
        """
        return self.by.exp(-self.decay(x))

    def tail(self, start: float, reach: float) -> Tail:
        """Return how what lies beyond the cells is drawn.

        Parameters
        ----------
        start, reach : float
            Where the first shell begins, and where the cells end, in units of the scale.

        Returns
        -------
        Tail
            Its shells.
        """
        return _SteepTail(self, start, float(self.decay(reach)), float(self.decay(2.0 * start)))


@dataclass(frozen=True)
class _SteepTail(Tail):
    r"""A tail with a = 0, i = d and top = :math:`\max(p(R), 4 p(2 R_0))/p(0)`.

    In the first shell p(x) is at most p(R). From a shell that starts beyond R to the next,
    :math:`4^d p(2^d R_0)` does not grow, as it is :math:`x^2 p(x) / R_0^2`; the second starts at
    :math:`2 R_0 > R`.
    """

    shape: Steep
    start: float
    at_reach: float
    at_second: float

    @property
    def log_top(self) -> float:
        return max(-self.at_reach, 2.0 * _LOG_2 - self.at_second)

    @property
    def top(self) -> float:
        with localcontext(prec=_DIGITS):  # rounded once: the same on every machine
            return float(Decimal(self.log_top).exp())

    def chance(
        self, y: FloatArray, shell: IntArray, halvings: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        x = np.ldexp(self.start * y, np.minimum(shell, _FURTHEST).astype(np.int32))
        log_chance = (shell + halvings) * _LOG_2 - self.shape.decay(x) - self.log_top
        coins = np.maximum(np.floor(log_chance * (-1.0 / _LOG_2)), 0.0)
        # cut to what is left of it, for far out it is lost in the rounding of the other two
        return self.shape.by.exp(np.clip(log_chance + coins * _LOG_2, -_LOG_2, 0.0)), coins


@dataclass(frozen=True)
class Bell(Steep):
    r"""The standard normal density, :math:`D(x) = x^2/2`; x^2 p falls from x = sqrt(2) on."""

    by = portable

    @property
    def cell_exponent(self) -> int:
        """Cells of 1/128 to 1/64."""
        return -7

    def at_zero(self) -> Decimal:
        """Return sqrt(2/pi)."""
        with localcontext(prec=_DIGITS):
            return (2 / _PI).sqrt()

    def decay(self, x: Any) -> Any:
        """Return x^2 / 2."""
        return 0.5 * (x * x)

    def decays_to(self, level: float) -> float:
        """Return sqrt(2 level)."""
        return math.sqrt(2.0 * level)


@dataclass(frozen=True)
class SteepPower(Steep):
    r"""The density of :math:`(1 + x^2)^{-k/2}` for k >= 3.

    x^2 p falls from :math:`x = \sqrt{2/(k - 2)}` on. The reach lies further out: with 2048 cells
    R^2 is at least 256/k; with fewer :math:`1 + R^2 \ge (4096 w)^{2/k} > k/(k-2)`, where w > 100.
    """

    k: float
    by = portable

    @property
    def cell_exponent(self) -> int:
        """Cells narrow with the density, whose width is about 1/sqrt(k)."""
        return -7 - (math.frexp(self.k)[1] - 1) // 2

    def at_zero(self) -> Decimal:
        """Return p(0)."""
        return _power_at_zero(self.k)

    def decay(self, x: Any) -> Any:
        """Return k/2 log(1 + x^2)."""
        return (0.5 * self.k) * self.by.log1p(x * x)

    def decays_to(self, level: float) -> float:
        """Return sqrt(e^(2 level/k) - 1)."""
        with localcontext(prec=_DIGITS):
            return float(((2 * Decimal(level) / Decimal(self.k)).exp() - 1).sqrt())


# ------------------------------------------------------------------------------------- heavy shapes


@dataclass(frozen=True)
class HeavyPower(Shape):
    r"""The density of :math:`(1 + x^2)^{-k/2}` for 1 < k < 3."""

    k: float
    by = portable

    @property
    def cell_exponent(self) -> int:
        """Cells of 1/64 to 1/32."""
        return -6

    def at_zero(self) -> Decimal:
        """Return p(0)."""
        return _power_at_zero(self.k)

    def cells(self, weight: float, width: float) -> int:
        """Return 2048: up to R = R_0, between 32 and 64."""
        return _MANY

    def falloff(self, x: Any) -> Any:
        """Return (1 + x^2)^(-k/2)."""
        return _power_of(1.0 + x * x, self.k)

    def tail(self, start: float, reach: float) -> Tail:
        """Return the tail."""
        return _HeavyTail(self.k, start)


@dataclass(frozen=True)
class _HeavyTail(Tail):
    r"""A tail with R = R_0 and top = :math:`R_0^{-k}`, written so that its large powers cancel.

    .. math:: 2^{d+i} p(x)/p(0) = (y^2 + 4^{-d})^{-k/2} \, 2^{-((k-1) d - i)}

    where :math:`(k-1) d \ge i`, as :math:`d \ge 2^a i` and :math:`2^a (k-1) \ge 1`.
    """

    k: float
    start: float

    @property
    def shell_bits(self) -> int:
        """The smallest a for which the mass falls by half or more over 2^a shells."""
        return max(0, 1 - math.frexp(self.k - 1.0)[1])

    @property
    def top(self) -> float:
        with localcontext(prec=_DIGITS):
            return float((-Decimal(self.k) * _ln(self.start)).exp())

    def chance(
        self, y: FloatArray, shell: IntArray, halvings: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        one = np.ldexp(self.start**-2, -2 * np.minimum(shell, _FURTHEST).astype(np.int32))
        near = _power_of(np.square(y) + one, self.k)
        if self.k == 2.0:
            return near, np.zeros(y.size)
        halved = (self.k - 1.0) * shell - halvings
        coins = np.maximum(np.floor(halved), 0.0)
        return near * portable.exp2(coins - halved), coins


def _power_of(square: Any, k: float) -> Any:
    """Return square^(-k/2)."""
    if k == 2.0:
        return 1.0 / square
    return portable.exp((-0.5 * k) * portable.log(square))


def _ln(x: float) -> Decimal:
    with localcontext(prec=_DIGITS):
        return Decimal(x).ln()


def power(k: float) -> SteepPower | HeavyPower:
    """Return the shape of generalised Cauchy noise."""
    if not _LEAST <= k <= _MOST:
        raise ValueError(
            f"noise with k = {k!r} cannot be drawn, k must lie between 1 + 2**-10 and 2**20; take "
            "Gaussian noise of scale / sqrt(k) in place of a larger k."
        )
    return SteepPower(k) if k >= 3.0 else HeavyPower(k)


# ------------------------------------------------------------------------------------ normalisation

# fmt: off
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
    (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730),
)
# fmt: on
_LARGE = 40  # from here on 12 terms of Stirling's series leave less than 10^-36


@lru_cache(maxsize=64)
def _power_at_zero(k: float) -> Decimal:
    r"""Return :math:`2 \Gamma(k/2) / (\sqrt\pi\, \Gamma((k - 1)/2))`."""
    with localcontext(prec=_DIGITS):
        half = (Decimal(k) - 1) / 2
        log_ratio = _log_gamma(half + Decimal("0.5")) - _log_gamma(half)
        return 2 * log_ratio.exp() / _PI.sqrt()


def _log_gamma(z: Decimal) -> Decimal:
    """Return log Gamma(z) by Stirling's series; its error is below the first term left out."""
    passed = Decimal(1)
    while z < _LARGE:
        passed *= z
        z += 1
    series = (z - Decimal("0.5")) * z.ln() - z + (2 * _PI).ln() / 2
    for j, (numerator, denominator) in enumerate(_BERNOULLI, start=1):
        series += Decimal(numerator) / (denominator * 2 * j * (2 * j - 1) * z ** (2 * j - 1))
    return series - passed.ln()
