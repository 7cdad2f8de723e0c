r"""The loss of independent columns together, from panels of each of them.

Given the secret, pure and Renyi losses of independent groups add up. The (epsilon, delta) loss does
not: what adds up is the log ratio L, as a random variable, and with L = L_1 + ... + L_k

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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.divergences import Panels, divergence_interval, interval_of
from sklearn_puffer._numerics import ULP
from sklearn_puffer.notions import HockeyStick, Notion

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

GRID = 15_000
"""Number of grid losses that the groups share."""

_TINY = 2.0**-1022
_NEGLIGIBLE = 1e-30  # mass of which losses are not resolved, only bounded
_LARGEST_LOSS = 1e6


def compose(groups: Sequence[Panels], notion: Notion) -> tuple[float, float]:
    r"""Return proven ends of the loss p -> q of independent groups of columns together.

    Parameters
    ----------
    groups : sequence of Panels
        One for each group of columns, all in the direction p -> q; given either secret the groups
        are independent.
    notion : Pufferfish
        With a delta: pure and Renyi losses of independent groups add up.

    Returns
    -------
    lower, upper : float
        Probabilities.

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
    stick = notion.divergence
    assert isinstance(stick, HockeyStick)  # other losses add up
    epsilon = stick.epsilon
    largest = [float(p.log_high[p.p_high > 0.0].max(initial=-np.inf)) for p in groups]
    if sum(largest) <= epsilon * (1.0 - 1e-12):
        return 0.0, 0.0
    cut = _cut(groups, epsilon)
    upper = _upper(groups, epsilon, cut)
    single = max(interval_of(panels, stick)[0] for panels in groups)  # by data processing
    lower = max(_lower(groups, epsilon, cut), single)
    return lower, upper


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
    """Resolve the losses of all but a tiny share of the mass."""
    windows = [_window(panels, epsilon) for panels in groups]
    spread = sum(high - low for low, high in windows)
    largest = max(abs(end) for window in windows for end in window)
    step = max(spread / GRID, 2.0**-30 * max(largest, epsilon), 1e-290)
    mantissa, exponent = np.frexp(step)  # of few bits
    step = float(np.ldexp(np.ceil(mantissa * 1024.0), int(exponent) - 10))
    first = [int(np.floor(low / step)) for low, _ in windows]
    return _Cut(step, first, [int(np.ceil(high / step)) for _, high in windows])


def _window(panels: Panels, epsilon: float) -> tuple[float, float]:
    """Return the losses below and above which a group need not be resolved.

    What lies above counts as infinite, what lies below moves up to the end.
    """
    ends, reach = [], _LARGEST_LOSS + 2.0 * epsilon
    for losses, step in ((panels.log_low, 1), (panels.log_high, -1)):
        known = np.isfinite(losses) & (panels.p_high > 0.0)
        found, masses = np.clip(losses[known], -reach, reach), panels.p_high[known]
        inwards = np.argsort(found)[::step]
        enough = np.cumsum(masses[inwards]) > _NEGLIGIBLE
        ends.append(float(found[inwards][np.argmax(enough)]) if known.any() else 0.0)
    return min(ends), max(ends)


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
    """Return a bound on the sum of products that underflow, each one term of the convolution."""
    totals = np.prod([max(float(part.sum()), 1.0) for part in parts])
    return float(_TINY * sum(part.size for part in parts) ** 2 * totals)


def _terms(groups: Sequence[Panels], size: int) -> float:
    """Return the number of additions on the longest path from a panel to the result."""
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
