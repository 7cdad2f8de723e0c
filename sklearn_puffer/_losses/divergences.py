r"""Losses from panels of released values: proven intervals, also of columns that are independent.

The space of released values is cut into panels. Of each panel we hold bounds on its mass under p
and under q, and on the log ratio f = log h_p / h_q within it. For a convex function phi, the sum

.. math:: D = \int \phi(h_p / h_q) \, dQ

lies between that of the panels' masses (data processing: a panel's mean ratio is P/Q) and that of
the chords of phi over [e^low, e^high], which depend on P and Q alone because a chord is linear.
Both ends are second order in the width of the panels, however rough the bounds on f.

*Independent columns.* Given the secret, pure and Renyi losses of independent groups add up. The
(epsilon, delta) loss does not: what adds up is the log ratio L, as a random variable, and with L =
L_1 + ... + L_k

.. math:: \delta(\varepsilon) = E_P \bigl[ (1 - e^{\varepsilon - L})_+ \bigr] .

*Above.* On a panel of masses P and Q whose ratio lies in [e^l, e^h], replace the two distributions
by two outcomes of ratios e^l and e^h that have the same masses P and Q together. Every convex
function of the ratio grows in the mean, because a chord lies above it; so every hockey stick
:math:`H_\gamma = \int (h_p - \gamma h_q)_+`, for all gamma >= 0, does too. That is inherited by
products: given the other groups' outcome of ratio e^t, the whole is :math:`H_{\gamma e^{-t}}` of
this group, times their mass; so groups are replaced one after the other. With l and h on one grid
of losses the replaced distributions are convolved exactly, and the price is second order in its
step.

*Below.* Round each panel's log ratio to the grid and call that its score. "The scores add up to at
least t" is an event of the product space, whatever the scores are worth, so its
:math:`P - e^\varepsilon Q` is a lower bound for each t, again second order in the step.
"""

# Rounding. Sums are numpy's pairwise ones over terms of one sign: off by at most 60 u, u = 2^-53.
# A term is a product of few factors and one exponential, whose relative error is u times its
# exponent, plus 4 u. `_MARGIN` and `_exponent_margin` cover them with room; the masses' own errors
# are in the bounds given.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import ULP, Divergence, FloatArray, log_sum
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
        :math:`\log(\int h_p^\alpha h_q^{1-\alpha})/(\alpha - 1)`; where events are left out, of
        h_p given the best event that the panels can express (and then the lower end is 0).

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
        return _renyi(panels, divergence)
    if isinstance(divergence, HockeyStick):
        return _hockey_stick(panels, divergence.epsilon)
    if isinstance(divergence, Supremum):
        return _supremum(panels)
    assert_never(divergence)


ROUGHLY = 1e-6
"""The accuracy, relative to the budget, of a loss that is known to be on one side of it."""


def is_decided(ends: Ends, budget: float, margin: float = ROUGHLY) -> bool:
    """Return whether the larger of both losses is well on one side of the budget for certain.

    >>> is_decided((np.array([0.1, 0.2]), np.array([0.3, 0.4])), 0.5)
    True
    >>> is_decided((np.array([0.1, 0.2]), np.array([0.3, 0.4])), 0.3)
    False
    """
    least, most = float(ends[0].max()), float(ends[1].max())
    return most <= budget * (1.0 - margin) or least > budget * (1.0 + margin)


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
    return max(min(lower, upper), 0.0), upper


def _hockey_stick(panels: Panels, epsilon: float) -> tuple[float, float]:
    low, high = _hockey_terms(panels, epsilon)
    lower = max(float(low.sum()) * (1.0 - _MARGIN), 0.0)
    upper = min(float(high.sum()) * (1.0 + _MARGIN), 1.0)
    return min(lower, upper), upper


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
    return np.minimum(low, high), high


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


def _renyi(panels: Panels, mean: PowerMean) -> tuple[float, float]:
    low, high = renyi_terms(panels, mean.alpha)
    if mean.left_out > 0.0:
        return 0.0, given_an_event(panels, mean, low, high)[1]
    return renyi_of_terms(low, high, mean.alpha)


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
    return np.minimum(low, high), high


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


def given_an_event(
    panels: Panels, mean: PowerMean, low: FloatArray, high: FloatArray
) -> tuple[float, float, NDArray[np.bool_]]:
    r"""Return the least divergence from h_p, given that the k worst panels are not hit, to h_q.

    .. math:: \frac{1}{\alpha - 1} \Bigl(\log \sum_{\text{kept}} - \alpha \log P(\text{kept})\Bigr)

    Returns
    -------
    estimate : float
        What the lower bounds of the kept terms give: no bound, but what cutting can reach.
    upper : float
        The proven upper end.
    gone : ndarray of bool
        The panels that are not hit.
    """
    order, size = mean.order, len(high)
    worst_first = np.argsort(-panels.log_high, kind="stable")
    gone = np.append(0.0, np.cumsum(panels.p_high[worst_first])) * (1.0 + size * ULP)
    rest = np.append(np.logaddexp.accumulate(high[worst_first][::-1])[::-1], -np.inf)
    allowed = gone <= mean.left_out
    losses = (rest[allowed] - mean.alpha * np.log1p(-gone[allowed])) / order
    best = int(losses.argmin())
    least = float(losses[best])
    missed = np.zeros(size, dtype=bool)
    missed[worst_first[:best]] = True
    floor = (float(log_sum(low[~missed])) - mean.alpha * float(np.log1p(-gone[best]))) / order
    # accumulated sums of n terms are off by 2 n u
    upper = max(least + _log_margin(least, order) + 2.0 * size * ULP / order, 0.0)
    return min(floor, upper), upper, missed


class Slopes(NamedTuple):
    """How the log ratio and both log densities run within panels around their middles.

    Attributes
    ----------
    value, slope : ndarray of shape (m,)
        Of f in the middle, right to within ``error`` (of f along all of the linear part).
    spread, size : ndarray of shape (m,)
        Length of the interval that f'' stays in, and its largest absolute value.
    p_slope, p_bend, q_slope, q_bend : ndarray of shape (m,)
        Bounds on |(log h)'| in the middle, and on |(log h)''| throughout.
    radius : ndarray of shape (m,)
    p_top, q_top : ndarray of shape (m,)
        Upper bounds on both log densities: masses below the range of floats can matter.
    """

    value: FloatArray
    slope: FloatArray
    error: FloatArray
    spread: FloatArray
    size: FloatArray
    p_slope: FloatArray
    p_bend: FloatArray
    q_slope: FloatArray
    q_bend: FloatArray
    radius: FloatArray
    p_top: FloatArray
    q_top: FloatArray

    def swapped(self) -> Slopes:
        """Return the slopes of the loss from q to p."""
        value, slope, error, spread, size, p_slope, p_bend, q_slope, q_bend, *rest = self
        f = -value, -slope, error, spread, size
        radius, p_top, q_top = rest
        return Slopes(*f, q_slope, q_bend, p_slope, p_bend, radius, q_top, p_top)


def sharper_terms(panels: Panels, runs: Slopes, alpha: float) -> tuple[FloatArray, FloatArray]:
    r"""Return logs of bounds on the Renyi integrals of narrow panels, of third order in the width.

    With x = f - v, v the value in the middle and c = alpha - 1, let R = e^(cx) - (1 + c) + c e^-x,
    which vanishes at 0 with its slope. As e^-f h_p = h_q,

    .. math:: \int h_p e^{cf} = e^{cv} \bigl((1 + c) P - c e^v Q + \int h_p R(x)\bigr)

    and R is c (c + 1) x^2 / 2 up to its third derivative times |x|^3 / 6. Of x^2 the mean over the
    panel is known from the slope of f, as that of t^2 over a nearly even density.
    """
    c = alpha - 1.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        least, most, reach = _mean_square(runs)
        third = np.maximum(
            np.abs(c**3 * np.exp(c * reach) - c * np.exp(-reach)),
            np.abs(c**3 * np.exp(-c * reach) - c * np.exp(reach)),
        )
        rest = third * reach * most / 6.0
        low_rest = np.maximum(0.5 * c * alpha * least - rest, 0.0) * panels.p_low
        high_rest = (0.5 * c * alpha * most + rest) * panels.p_high
        ratio = c * np.exp(runs.value)
        size = alpha * panels.p_high + ratio * panels.q_high
        slack = 64.0 * ULP * (1.0 + np.abs(runs.value)) * size
        low = alpha * panels.p_low - ratio * panels.q_high + low_rest * (1.0 - _MARGIN) - slack
        high = alpha * panels.p_high - ratio * panels.q_low + high_rest * (1.0 + _MARGIN) + slack
        log_low = c * runs.value + np.log(np.maximum(low, 0.0))
        log_high = c * runs.value + np.log(np.maximum(high, 0.0))
    # roundings of the exponents, which the sums over panels do not count
    margin = 8.0 * ULP * (1.0 + c * np.abs(runs.value))
    log_low = np.where(np.isfinite(low) & (low > 0.0), log_low - margin, -np.inf)
    log_high = np.where(np.isfinite(high) & (high > 0.0), log_high + margin, np.inf)
    roof = np.log(2.0 * runs.radius) + runs.p_top + c * panels.log_high
    roof += 8.0 * ULP * (1.0 + np.abs(runs.p_top) + c * np.abs(panels.log_high))
    return log_low, np.fmin(log_high, roof)


def _mean_square(runs: Slopes) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return bounds on the mean of x^2 over each panel under p, and on |x|.

    The density at m + t is h(m) e^(l t + b), |b| <= B t^2 / 2. Its even part, and its odd part S,
    are taken against the even and odd parts of x^2, x = s t + rho, rho'' within the spread.
    """
    r = runs.radius
    slope, error = np.abs(runs.slope), runs.error
    bent = np.exp(0.5 * runs.p_bend * r * r)
    even = np.cosh(runs.p_slope * r) * bent
    odd = np.sinh(runs.p_slope * r) * bent + even * np.expm1(0.5 * runs.p_bend * r * r)
    reach = slope * r + 0.5 * runs.size * r * r + error
    uneven = 0.5 * slope * runs.spread * r
    crossed = odd * bent * (2.0 * slope + 0.5 * runs.spread * r) * runs.size * r**3 / 8.0
    share = r * r / 3.0
    least = share / (even * bent) * np.maximum(slope * slope - uneven, 0.0) - crossed
    most = share * even * bent * (slope * slope + uneven + np.square(0.5 * runs.size * r)) + crossed
    wrong = 2.0 * error * reach + error * error
    return np.maximum(least - wrong, 0.0) * (1.0 - _MARGIN), (most + wrong) * (1.0 + _MARGIN), reach


def _log_margin(value: float, order: float) -> float:
    """Return what roundings move log(sum)/order by, at most."""
    # each exponent is (alpha - 1) f + log p, or alpha log p - (alpha - 1) log q, off by a few u of
    # its parts; logs of masses are at most 750
    size = abs(value) if np.isfinite(value) else 0.0
    return _MARGIN / order + 8.0 * ULP * (size + 1500.0 * (1.0 + 1.0 / order))


# Masses known by bounds only: with l and h fixed, the replaced pair's hockey sticks grow with P and
# fall with Q. As Q >= e^-h P, the largest are at p_high and max(q_low, e^-h p_high), and they do
# not change if p mass moves from e^l to e^h: all roundings go there. All p mass that is left is
# put at losses, so the total may exceed 1 by the width of the bounds. An outcome of loss l carries
# the q mass e^-l times its p mass; neither is ever computed apart.
#
# Rounding, u = 2^-53. Steps h have 10 significant bits, so all multiples j h in use are floats.
# Convolutions add products of non-negative numbers: n terms in any order are off by 2 n u of the
# result, and products that underflow by 2^-1022 each. An exponential is off by 2 u (1 + |x|), x its
# exponent.

GRID = 10_000
"""Number of grid losses that the groups share."""

_TINY = 2.0**-1022
# Losses whose share of delta is surely below this are not resolved, only bounded.
_NEGLIGIBLE = 1e-8
_SKETCH = 256
_SHARES = 8
_LARGEST_LOSS = 1e6


def compose(groups: Sequence[Panels], notion: Notion) -> tuple[float, float]:
    r"""Return proven ends of the loss p -> q of independent groups of columns together.

    Parameters
    ----------
    groups : sequence of Panels
        One for each group of columns, all in the direction p -> q; given either secret the groups
        are independent.
    notion : Pufferfish or RenyiPufferfish

    Returns
    -------
    lower, upper : float
        Nats for a pure or Renyi loss, a probability under delta. With alpha and delta, where
        delta is shared out between the groups, the lower end is 0.

    Notes
    -----
    *Formal guarantees.* The loss lies in the interval; discretisation and rounding are bounded
    (the proofs head this module). Under delta the interval is second order in the step of the grid.

    Raises
    ------
    ValueError
        If there is no group.

    Examples
    --------
    Two fair answers, each true with probability 3/4: both are true with probability 9/16.

    >>> from sklearn_puffer.notions import Pufferfish
    >>> p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    >>> answer = Panels(p, p, q, q, np.log(p / q), np.log(p / q))
    >>> low, high = compose([answer, answer], Pufferfish(1.5, delta=0.1))
    >>> round(low, 9), round(high, 5), round((9 - float(np.exp(1.5))) / 16, 9)
    (0.282394433, 0.28239, 0.282394433)
    """
    if not groups:
        raise ValueError("groups must hold the panels of at least one group, got none.")
    if len(groups) == 1:
        return divergence_interval(groups[0], notion)
    divergence = notion.divergence
    if divergence.adds_up:
        return _sums(groups, divergence)
    if isinstance(divergence, HockeyStick):
        return _composed_hockey_stick(groups, divergence)
    assert isinstance(divergence, PowerMean)
    return 0.0, _given_events(groups, divergence)


def _sums(groups: Sequence[Panels], divergence: Divergence) -> tuple[float, float]:
    ends = np.array([interval_of(panels, divergence) for panels in groups])
    # sums of non-negative numbers, off by k u
    lower, upper = ends.sum(axis=0)
    margin = len(groups) * ULP
    return float(lower * (1.0 - margin)), float(upper * (1.0 + margin))


def _given_events(groups: Sequence[Panels], mean: PowerMean) -> float:
    """Return the smallest sum of Renyi losses over ways to share delta out in equal pieces."""
    # Events of the groups with probabilities 1 - delta_g make one of at least 1 - sum delta_g;
    # shares of delta sum to at most delta.
    pieces = max(_SHARES, len(groups))
    best = np.zeros(pieces + 1)
    shares = [mean.left_out * (m / pieces) * (1.0 - 4.0 * ULP) for m in range(pieces + 1)]
    for panels in groups:
        losses = [interval_of(panels, replace(mean, left_out=share))[1] for share in shares]
        best = np.array(
            [min(best[n - m] + losses[m] for m in range(n + 1)) for n in range(pieces + 1)]
        )
    return float(best[-1]) * (1.0 + len(groups) * ULP)


def _composed_hockey_stick(groups: Sequence[Panels], stick: HockeyStick) -> tuple[float, float]:
    epsilon = stick.epsilon
    largest = [float(p.log_high[p.p_high > 0.0].max(initial=-np.inf)) for p in groups]
    if sum(largest) <= epsilon * (1.0 - 1e-12):
        return 0.0, 0.0
    cut = _cut(groups, epsilon)
    upper = _upper(groups, epsilon, cut)
    single = max(interval_of(panels, stick)[0] for panels in groups)  # by data processing
    lower = max(_lower(groups, epsilon, cut), single)
    return min(lower, upper), upper


# ------------------------------------------------------------------------------- where to look


@dataclass(frozen=True)
class _Cut:
    """A grid of losses: its step, and the first and last index in use for each group.

    Any cut is sound; a good one makes the interval narrow.
    """

    step: float
    first: list[int]
    last: list[int]


def _cut(groups: Sequence[Panels], epsilon: float) -> _Cut:
    """Resolve the losses that matter: by Chernoff's bound, at its best exponent."""
    sketches = [_sketch(panels, epsilon) for panels in groups]
    tilt, log_delta = _chernoff(sketches, epsilon)
    windows = [_window(panels, epsilon, tilt, log_delta) for panels in groups]
    spread = sum(high - low for low, high in windows)
    largest = max(abs(end) for window in windows for end in window)
    step = _few_bits(max(spread / GRID, 2.0**-30 * max(largest, epsilon), 1e-290))
    first = [int(np.floor(low / step)) for low, _ in windows]
    return _Cut(step, first, [int(np.ceil(high / step)) for _, high in windows])


def _sketch(panels: Panels, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """Return some losses in ascending order and the p masses around them, roughly."""
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(panels.p_high) - np.log(panels.q_high)
    losses, masses = _finite(np.clip(losses, panels.log_low, panels.log_high), panels, epsilon)
    starts = np.unique(np.linspace(0, losses.size, _SKETCH, endpoint=False).astype(np.int64))
    middles = (starts + np.append(starts[1:], losses.size) - 1) // 2
    middles[0], middles[-1] = 0, losses.size - 1
    return losses[middles], np.add.reduceat(masses, starts)


def _finite(losses: FloatArray, panels: Panels, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """Return the finite losses in ascending order, and the p masses of their panels."""
    known = np.isfinite(losses) & (panels.p_high > 0.0)
    if not known.any():
        return np.zeros(1), np.ones(1)
    reach = _LARGEST_LOSS + 2.0 * epsilon
    losses, masses = np.clip(losses[known], -reach, reach), panels.p_high[known]
    order = np.argsort(losses)
    return losses[order], masses[order]


def _chernoff(
    sketches: Sequence[tuple[FloatArray, FloatArray]], epsilon: float
) -> tuple[float, float]:
    """Return the exponent s with the least log E e^(s (L - epsilon)), and that value."""
    log_masses = [np.log(masses) for _, masses in sketches]

    def bound(tilt: float) -> float:
        logs = zip(sketches, log_masses, strict=True)
        moments = sum(float(log_sum(tilt * losses + mass)) for (losses, _), mass in logs)
        return moments - tilt * epsilon

    tilts = np.append(0.0, np.geomspace(1e-3, 1e4, 36))
    best = int(np.argmin([bound(tilt) for tilt in tilts]))
    around = np.linspace(tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)], 9)
    values = [bound(tilt) for tilt in around]
    return float(around[np.argmin(values)]), min(*values, 0.0)


def _window(panels: Panels, epsilon: float, tilt: float, log_delta: float) -> tuple[float, float]:
    """Return the losses below and above which a group need not be resolved."""
    allowed = np.log(_NEGLIGIBLE)
    # what lies above counts as infinite
    highs, masses = _finite(panels.log_high, panels, epsilon)
    above = np.cumsum(masses[::-1])[::-1]
    high = highs[max(int(np.sum(np.log(above) > log_delta + allowed)) - 1, 0)]
    # what lies below moves up to the end, where its weight is e^(s end)
    lows, masses = _finite(panels.log_low, panels, epsilon)
    weight = float(log_sum(tilt * lows + np.log(masses)))
    below = np.log(np.cumsum(masses))
    low = lows[int(np.argmax(below + tilt * lows > weight + allowed))]
    return float(min(low, high)), float(high)


def _few_bits(step: float) -> float:
    mantissa, exponent = np.frexp(step)
    return float(np.ldexp(np.ceil(mantissa * 1024.0), int(exponent) - 10))


# ---------------------------------------------------------------------------------------- above


def _upper(groups: Sequence[Panels], epsilon: float, cut: _Cut) -> float:
    windows = zip(groups, cut.first, cut.last, strict=True)
    parts = [_dominating(panels, first, last, cut.step) for panels, first, last in windows]
    finite, infinite = [part for part, _ in parts], np.array([rest for _, rest in parts])
    resolved = np.array([part.sum() for part in finite])
    totals = resolved + infinite
    size = sum(part.size for part in finite)
    left, right = _halves(finite)
    stick = _excess(left, right, sum(cut.first), cut.step, epsilon)
    beyond = _first_of(infinite, resolved, totals)
    lost = _lost(finite) + _lost([np.array([total]) for total in totals])
    return min((stick + beyond) * (1.0 + 8.0 * ULP * _terms(groups, size)) + lost, 1.0)


def _lost(parts: Sequence[FloatArray]) -> float:
    """Return what products that underflow can amount to: each is one term of the convolution."""
    totals = np.prod([max(float(part.sum()), 1.0) for part in parts])
    return float(_TINY * sum(part.size for part in parts) ** 2 * totals)


def _terms(groups: Sequence[Panels], size: int) -> float:
    """Return how many additions there are on the longest way from a panel to the result."""
    return float(size + sum(panels.p_high.size for panels in groups) + 100)


def _dominating(panels: Panels, first: int, last: int, step: float) -> tuple[FloatArray, float]:
    """Return p masses at grid losses, and at infinity, that dominate the panels."""
    panels = panels.taken(panels.p_high > 0.0)
    low = np.minimum(_floor(panels.log_low, step), last)
    high = np.maximum(-_floor(-panels.log_high, step), first)
    low, high = np.where(low < first, -np.inf, low), np.where(high > last, np.inf, high)
    at_high = _at_high(panels, low * step, high * step)
    finite = np.zeros(last - first + 1)
    for indices, masses in ((high, at_high), (low, panels.p_high - at_high)):
        inside = np.isfinite(indices)
        index = indices[inside].astype(np.int64) - first
        finite += np.bincount(index, masses[inside], finite.size)
    return finite, float(at_high[np.isinf(high)].sum())


def _at_high(panels: Panels, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return (P - e^l Q) / (1 - e^(l - h)), rounded up, and P at most."""
    p, q = panels.p_high, panels.q_low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        log_q = np.log(q)
        at_low = np.exp(np.minimum(low + log_q, 700.0))
        rounding = 4.0 * ULP * (p + at_low * (2.0 + np.abs(low) + np.abs(log_q)))
        share = (p - at_low + rounding) / -np.expm1(np.minimum(low - high, 0.0))
    whole = (q == 0.0) | (low == -np.inf) | (high <= low)
    return np.asarray(np.where(whole, p, np.clip(share * (1.0 + 8.0 * ULP), 0.0, p)))


def _floor(losses: FloatArray, step: float) -> FloatArray:
    with np.errstate(over="ignore"):
        indices = np.floor(losses / step)
        return np.where(indices * step > losses, indices - 1.0, indices)


def _halves(parts: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Convolve the parts into two of about the same length: their convolution is never formed."""
    halves = [np.ones(1), np.ones(1)]
    for k in np.argsort([-part.size for part in parts], kind="stable"):
        shorter = int(halves[1].size < halves[0].size)
        halves[shorter] = np.convolve(halves[shorter], parts[k])
    return halves[0], halves[1]


def _excess(left: FloatArray, right: FloatArray, start: int, step: float, epsilon: float) -> float:
    """Return the sum of mass (1 - e^(epsilon - loss)) over losses above epsilon."""
    # For T(i), the sum of what `right` has from index i on, and G(i), that of its mass times
    # (1 - e^-(distance from i)): G(i) = e^-h G(i + 1) + (1 - e^-h) T(i + 1), and the sum over
    # losses is a T + (1 - a) G for a = 1 - e^(epsilon - loss at i). No term is negative.
    first = int(_floor(np.array(epsilon), step)) + 1  # of the losses above epsilon
    drop = -np.expm1(-step)
    tails = np.append(np.cumsum(right[::-1])[::-1], 0.0)
    inner = _filtered([drop], [1.0, drop - 1.0], tails[:0:-1])[::-1]
    above = -np.expm1(min(epsilon - first * step, 0.0))
    sticks = np.append(above * tails[:-1] + (1.0 - above) * inner, 0.0)
    needed = first - start - np.arange(left.size)
    inside = sticks[np.clip(needed, 0, right.size)]
    # where all of `right` lies further above: `a` is 1 - (1 - above) e^-distance there
    further = -np.expm1(np.minimum(needed, 0) * step) * (tails[0] - sticks[0])
    return float((left * (inside + further)).sum())


def _first_of(event: FloatArray, otherwise: FloatArray, totals: FloatArray) -> float:
    """Return the sum over groups of: this is the first with the event, and any after it."""
    before = np.append(1.0, np.cumprod(otherwise)[:-1])
    after = np.append(np.cumprod(totals[::-1])[::-1][1:], 1.0)
    return float((before * event * after).sum())


# ---------------------------------------------------------------------------------------- below


def _lower(groups: Sequence[Panels], epsilon: float, cut: _Cut) -> float:
    windows = zip(groups, cut.first, cut.last, strict=True)
    parts = [_scored(panels, first, last, cut.step) for panels, first, last in windows]
    start, size = sum(cut.first), sum(p.size for p, _ in parts)
    p_halves, q_halves = _halves([p for p, _ in parts]), _halves([q for _, q in parts])
    # beside the sums: exponents of up to 1500
    margin = 8.0 * ULP * (_terms(groups, size) + 3000.0)
    lost = _lost([p + q for p, q in parts])
    index = int(_floor(np.array(epsilon), cut.step))
    best = 0.0
    for at in range(index - 1, index + 3):
        p = _beyond(*p_halves, at - start, 0.0)
        q = _beyond(*q_halves, at - start, cut.step)
        weight = float(np.exp(epsilon - at * cut.step))
        best = max(best, p * (1.0 - margin) - lost - weight * (q * (1.0 + margin) + lost))
    return (best + _infinite(groups)) * (1.0 - margin)


def _scored(panels: Panels, first: int, last: int, step: float) -> tuple[FloatArray, FloatArray]:
    """Return p masses by score, at least, and e^score times q masses, at most."""
    panels = panels.taken((panels.p_low > 0.0) & (panels.q_high > 0.0))
    log_q = np.log(panels.q_high)
    score = np.minimum(np.rint((np.log(panels.p_low) - log_q) / step), last)
    kept = score >= first  # what is left out is no part of the event
    index = score[kept].astype(np.int64) - first
    size = last - first + 1
    raised = np.exp(log_q[kept] + score[kept] * step)
    p: FloatArray = np.bincount(index, panels.p_low[kept], size).astype(np.float64)
    q: FloatArray = np.bincount(index, raised, size).astype(np.float64)
    return p, q


def _filtered(b: Sequence[float], a: Sequence[float], x: FloatArray) -> FloatArray:
    from scipy.signal import lfilter  # heavy, and few need it

    return np.asarray(lfilter(b, a, x))


def _beyond(left: FloatArray, right: FloatArray, at: int, step: float) -> float:
    """Return the sum from index ``at`` on, less by e^-step for each step further."""
    tails = np.append(_filtered([1.0], [1.0, -np.exp(-step)], right[::-1])[::-1], 0.0)
    needed = at - np.arange(left.size)
    decay = np.exp(np.minimum(needed, 0) * step)
    return float((left * decay * tails[np.clip(needed, 0, right.size)]).sum())


def _infinite(groups: Sequence[Panels]) -> float:
    """Return the p mass, at least, with a group in a panel that has no q mass."""
    apart = [panels.q_high == 0.0 for panels in groups]
    masses = [panels.p_low for panels in groups]
    beyond = np.array([p[there].sum() for p, there in zip(masses, apart, strict=True)])
    within = np.array([p[~there].sum() for p, there in zip(masses, apart, strict=True)])
    return _first_of(beyond, within, beyond + within)
