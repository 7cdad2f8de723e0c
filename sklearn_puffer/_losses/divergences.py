r"""Losses from panels of released values, as proven intervals.

The space of released values is cut into panels. Each panel has bounds on its mass under p
and under q, and on the log ratio f = log h_p / h_q within it. For a convex function phi, the sum

.. math:: D = \int \phi(h_p / h_q) \, dQ

lies between that of the panels' masses (data processing: a panel's mean ratio is P/Q) and that of
the chords of phi over [e^low, e^high], which depend on P and Q alone because a chord is linear.
Both ends are second order in the width of the panels, however rough the bounds on f.
"""

# Rounding. Sums are numpy's pairwise ones over terms of one sign: off by at most 60 u, u = 2^-53.
# A term is a product of few factors and one exponential, whose relative error is u times its
# exponent, plus 4 u. `_MARGIN` and `_exponent_margin` cover them with room; the masses' own errors
# are in the bounds given.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray
from sklearn_puffer._notion import Divergence
from sklearn_puffer._numerics import ULP, log_sum
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Supremum

Ends = tuple[FloatArray, FloatArray]

_MARGIN = 2.0**-44


@dataclass(frozen=True)
class Panels:
    """Bounds on the masses of panels and on the log ratio within them, in one direction.

    Attributes
    ----------
    p_low, p_high, q_low, q_high : ndarray of shape (n_panels,)
        Bounds on the mass of each panel under p and q. All panels together are all there is.
    log_low, log_high : ndarray of shape (n_panels,)
        Bounds on log h_p / h_q within each; infinite where only one of them has mass.
    """

    p_low: FloatArray
    p_high: FloatArray
    q_low: FloatArray
    q_high: FloatArray
    log_low: FloatArray
    log_high: FloatArray

    def swapped(self) -> Panels:
        """Return the panels of the loss from q to p."""
        return Panels(
            self.q_low, self.q_high, self.p_low, self.p_high, -self.log_high, -self.log_low
        )

    def taken(self, chosen: NDArray[Any]) -> Panels:
        """Return the chosen panels."""
        return Panels(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @classmethod
    def joined(cls, *parts: Panels) -> Panels:
        """Return the panels of all parts together."""
        return cls(
            *(np.concatenate([getattr(p, n) for p in parts]) for n in cls.__dataclass_fields__)
        )


def divergence_interval(panels: Panels, notion: Notion) -> tuple[float, float]:
    r"""Return proven lower and upper ends of the loss from p to q under a notion.

    Parameters
    ----------
    panels : Panels
    notion : Notion
        Supremum: that of f. Hockey stick: :math:`\int (h_p - e^{\varepsilon} h_q)_+`. Power mean:
        :math:`\log(\int h_p^\alpha h_q^{1-\alpha})/(\alpha - 1)`.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> one = np.array([0.25, 0.75]); two = np.array([0.75, 0.25])
    >>> ratio = np.log(one / two)
    >>> low, high = divergence_interval(Panels(one, one, two, two, ratio, ratio), Pufferfish(1.0))
    >>> round(low, 9), round(high, 9)
    (1.098612289, 1.098612289)
    """
    return interval_of(panels, notion.divergence)


def both_intervals(panels: Panels, notion: Notion) -> Ends:
    """Return the ends of the losses p -> q and q -> p, each of shape (2,)."""
    ends = [divergence_interval(way, notion) for way in (panels, panels.swapped())]
    lower, upper = np.array(ends).T
    return lower, upper


def interval_of(panels: Panels, divergence: Divergence) -> tuple[float, float]:
    """Return proven lower and upper ends of a divergence from p to q."""
    if isinstance(divergence, PowerMean):
        return renyi_of_terms(*renyi_terms(panels, divergence.alpha), divergence.alpha)
    if isinstance(divergence, HockeyStick):
        return _hockey_stick(panels, divergence.epsilon)
    if isinstance(divergence, Supremum):
        return _supremum(panels)
    assert_never(divergence)


def gaps(panels: Panels, notion: Notion) -> FloatArray:
    """Return how much each panel adds to the width of the interval: where to cut next.

    In units of their own, comparable between panels.
    """
    divergence = notion.divergence
    if isinstance(divergence, PowerMean):
        low, high = renyi_terms(panels, divergence.alpha)
        top = max(float(high.max(initial=-np.inf)), -1e300)
        return np.exp(np.minimum(high - top, 0.0)) - np.exp(np.minimum(low - top, 0.0))
    if isinstance(divergence, HockeyStick):
        low, high = _hockey_terms(panels, divergence.epsilon)
        return high - low
    if isinstance(divergence, Supremum):
        best = _supremum(panels)[0]
        return np.asarray(np.where(panels.p_high > 0.0, panels.log_high - best, -np.inf))
    assert_never(divergence)


def _supremum(panels: Panels) -> tuple[float, float]:
    upper = float(panels.log_high[panels.p_high > 0.0].max(initial=0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(panels.p_low), np.log(panels.q_high)
        ratios = log_p - log_q
        # the logs of tiny masses are far larger than their difference, and so are their roundings
        slack = 4.0 * ULP * (1.0 + np.abs(log_p) + np.abs(log_q))
        ratios -= np.where(np.isfinite(ratios), slack, 0.0)
    lower = float(ratios[panels.p_low > 0.0].max(initial=0.0))
    return lower, upper


def _hockey_stick(panels: Panels, epsilon: float) -> tuple[float, float]:
    low, high = _hockey_terms(panels, epsilon)
    lower = max(float(low.sum()) * (1.0 - _MARGIN), 0.0)
    upper = min(float(high.sum()) * (1.0 + _MARGIN), 1.0)
    return lower, upper


def _hockey_terms(panels: Panels, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """Return bounds on each panel's share of int (h_p - e^epsilon h_q)_+."""
    keep_low, keep_high = kept(epsilon, panels.log_low), kept(epsilon, panels.log_high)
    low = np.maximum(apart(panels.p_low, panels.q_high, epsilon, -1.0), panels.p_low * keep_low)
    high = panels.p_high * keep_high
    inside = panels.log_low >= epsilon
    difference = apart(panels.p_high, panels.q_low, epsilon, 1.0)
    high = np.where(inside, np.fmin(high, difference), high)
    straddling = ~inside & (panels.log_high > epsilon)
    if straddling.any():
        high = np.where(straddling, np.fmin(high, _straddling(panels, keep_high)), high)
    low = np.where(panels.log_high <= epsilon, 0.0, low)
    return np.minimum(low, high), high  # they may cross by rounding, which the sum allows for


def kept(epsilon: float, log_ratio: FloatArray) -> FloatArray:
    """Return 1 - e^(epsilon - f) where f > epsilon, else 0."""
    return np.asarray(-np.expm1(np.minimum(epsilon - log_ratio, 0.0)))


def apart(p: FloatArray, q: FloatArray, log_factor: FloatArray | float, side: float) -> FloatArray:
    """Return p - e^log_factor q, rounded down (side -1) or up (side 1), and at least 0.

    By logs: the factor alone may be more than floats hold where the product is not.
    """
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        log_q = np.log(q)
        # the exponent is off by the roundings of its two parts, the exponential by 4u
        size = np.abs(np.where(np.isfinite(log_q), log_q, 0.0)) + 2.0 * np.abs(log_factor)
        taken = np.exp(np.minimum(log_factor + log_q, 700.0))
        slack = ULP * (4.0 + np.where(np.isfinite(size), size, 0.0))
        taken = np.where(q > 0.0, np.nan_to_num(taken) * (1.0 - side * slack), 0.0)
    return np.maximum(p - taken + side * 2.0 * ULP * p, 0.0)


def _straddling(panels: Panels, keep_high: FloatArray) -> FloatArray:
    """Return the chord's bound where f - epsilon changes its sign."""
    with np.errstate(invalid="ignore"):  # an infinite ratio throughout, which straddles nothing
        width = np.fmax(panels.log_high - panels.log_low, ULP)
    above = apart(panels.p_high, panels.q_low, panels.log_low, 1.0)
    return np.asarray(keep_high / -np.expm1(-width) * above * (1.0 + 16.0 * ULP))


def renyi_of_terms(low: FloatArray, high: FloatArray, alpha: float) -> tuple[float, float]:
    """Return ends of the Renyi divergence from logs of bounds on the panels' integrals."""
    order = alpha - 1.0
    lower, upper = float(log_sum(low)) / order, float(log_sum(high)) / order
    if not np.isfinite(upper):
        return max(min(lower, np.inf), 0.0), np.inf
    return max(lower - _log_margin(lower, order), 0.0), max(upper + _log_margin(upper, order), 0.0)


def renyi_terms(panels: Panels, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return logs of bounds on each panel's share of int h_p^alpha h_q^(1 - alpha)."""
    order = alpha - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        log_p_low, log_p_high = np.log(panels.p_low), np.log(panels.p_high)
        processed = alpha * log_p_low - order * np.log(panels.q_high)
        floor = log_p_low + order * panels.log_low
        roof = log_p_high + order * panels.log_high
        chord = order * panels.log_low + np.log(_chord(panels, alpha))
    low = np.where(panels.p_low > 0.0, np.fmax(processed, floor), -np.inf)
    # asked this way, a mass that could not be computed (NaN) counts as infinite, and not as none
    high = np.where(panels.p_high <= 0.0, -np.inf, np.fmin(roof, chord))
    return np.minimum(low, high), high  # they may cross by rounding, which the sum allows for


def _chord(panels: Panels, alpha: float) -> FloatArray:
    """Return kappa P - (kappa - 1) e^low Q, with the chord's slope kappa e^((alpha - 1) low)."""
    width = panels.log_high - panels.log_low
    narrow = np.maximum(width, 1e-300)
    slope = np.where(width > 1e-300, np.expm1(alpha * narrow) / np.expm1(narrow), alpha)
    below = np.exp(panels.log_low) * panels.q_low
    size = np.minimum(np.abs(panels.log_low), 1e4)
    rounding = 16.0 * ULP * slope * panels.p_high * (1.0 + alpha * narrow + size)
    chord: FloatArray = panels.p_high + (slope - 1.0) * (panels.p_high - below) + rounding
    return np.where(np.isfinite(chord) & (chord > 0.0), chord, np.inf)


def _log_margin(value: float, order: float) -> float:
    """Return a bound on the rounding error of log(sum)/order."""
    # each exponent is (alpha - 1) f + log p, or alpha log p - (alpha - 1) log q, off by a few u of
    # its parts; logs of masses are at most 750
    size = abs(value) if np.isfinite(value) else 0.0
    return _MARGIN / order + 8.0 * ULP * (size + 1500.0 * (1.0 + 1.0 / order))
