r"""A noise family that the package does not have, added by the recipe in CONTRIBUTING alone.

Logistic noise, of density sech^2(z / (2 s)) / (4 s). It is self-decomposable: its characteristic
function pi t / sinh(pi t) = prod_n 1 / (1 + t^2 / n^2) (Euler) makes it an infinite sum of
independent Laplace variables of scales 1/n, each of which is self-decomposable, a property that
sums and limits keep (Steutel and van Harn, Infinite Divisibility of Probability Distributions on
the Real Line, 2004, Prop. V.2.2 and V.2.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy.special import zeta

from sklearn_puffer._noise import Shape, Steep
from sklearn_puffer.noise import ProductNoise

_TERMS = np.arange(1, 21)
_SERIES = -((-1.0) ** _TERMS) * zeta(2.0 * _TERMS) / _TERMS  # of log(sinh z / z) in (z / pi)^2


@dataclass(frozen=True)
class Logistic(ProductNoise):
    """Logistic noise, independent on each axis."""

    # |score| rises to 1 all the way out, and (log K)'' to 0
    _steepest_at = math.inf
    _most_convex_at = math.inf

    def _log_density(self, u):
        return -np.abs(u) - 2.0 * np.log1p(np.exp(-np.abs(u)))

    def _score(self, u):
        return -np.tanh(0.5 * u)

    def _bend(self, u):
        falling = np.exp(-np.abs(u))
        return -2.0 * falling / np.square(1.0 + falling)

    def _turn(self, u):
        return -self._bend(u)  # times tanh(u / 2)

    def _mean_up_to(self, u):
        return -np.log1p(0.5 * np.expm1(-u))

    def _max_divergence(self, u):
        return u

    def _renyi(self, u, alpha):
        # e^((alpha - 1) D) = sinh((2 alpha - 1) u / 2) / ((2 alpha - 1) sinh(u / 2))
        half = 0.5 * u
        return (_log_sinhc((2.0 * alpha - 1.0) * half) - _log_sinhc(half)) / (alpha - 1.0)

    def _delta(self, u, epsilon):
        lost = np.expm1(0.5 * np.minimum(epsilon - u, 0.0))
        return np.square(lost) / -np.expm1(-np.where(u > 0.0, u, 1.0))

    def _mass(self, a, b, width):
        ends = (1.0 + np.exp(-np.abs(a))) * (1.0 + np.exp(-np.abs(b)))
        return -np.expm1(-width) * np.exp(-np.maximum(a, 0.0)) / ends

    def _shape(self) -> Shape:
        return LogisticShape()


def _log_sinhc(z):
    """Return log(sinh z / z) with a small relative error."""
    small = np.minimum(z, 1.0)
    series = np.square(small / math.pi)[..., None] ** _TERMS @ _SERIES
    large = np.maximum(z, 1.0)
    return np.where(z < 1.0, series, large + np.log(-np.expm1(-2.0 * large) / (2.0 * large)))


@dataclass(frozen=True)
class LogisticShape(Steep):
    """The density of |N|, p(x) = sech^2(x/2) / 2; x^2 p falls from x = 2.4 on, and |p''| <= p."""

    @property
    def cell_exponent(self):
        return -7

    def at_zero(self):
        return Decimal("0.5")

    def decay(self, x):
        return 2.0 * (np.logaddexp(0.5 * x, -0.5 * x) - math.log(2.0))

    def decays_to(self, level):
        return 2.0 * math.acosh(math.exp(0.5 * level))
