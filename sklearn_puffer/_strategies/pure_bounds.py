"""What a pure loss says about a weaker guarantee: a bound from the losses of both directions.

A delta, or an order alpha, promises less than a pure guarantee, so that it may never ask for more
noise. Bounds on deltas and Renyi divergences that are read off a coupling know nothing of an exact
pure loss; this one does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray
from sklearn_puffer._strategies.bound_types import Bound
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean

_ROOM = 1e-13


@dataclass(frozen=True, eq=False)
class FromPure:
    """The losses under a notion that follow from pure losses at the same noise.

    Parameters
    ----------
    pure : Bound
        On pure losses, in both directions.
    notion : Notion
        With a delta or an order.

    Examples
    --------
    >>> from sklearn_puffer.bounds import wasserstein
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0], [1.0]), Discrete([1], [1.0]))
    >>> pure = wasserstein([pair], Laplace(), Pufferfish(1.0))
    >>> FromPure(pure, Pufferfish(0.5, 0.1)).losses(1.0).round(6).tolist()
    [[0.287649, 0.287649]]
    """

    pure: Bound
    notion: Notion

    @property
    def guess(self) -> float:
        """That of the pure losses."""
        return self.pure.guess

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        both = self.pure.losses(factor)
        return two_points(both, both[:, ::-1], self.notion)


def two_points(ahead: FloatArray, back: FloatArray, notion: Notion) -> FloatArray:
    r"""Return what a likelihood ratio within e^ahead and e^-back loses at most under a notion.

    Its mean is 1, and what is averaged is convex, so the worst distribution has those two values:

    .. math:: b = \frac{1 - e^{-M}}{e^L - e^{-M}}, \quad \delta \le b (e^L - e^\varepsilon)_+, \quad
              e^{(\alpha - 1) D} \le b e^{\alpha L} + (1 - b) e^{-\alpha M}

    Parameters
    ----------
    ahead, back : ndarray
        Pure losses L and M, p to q and q to p.
    notion : Notion
        With a delta or an order.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> pure = np.array([1.0])
    >>> float(two_points(pure, pure, Pufferfish(0.5, 0.1)).round(6)[0])  # (e - e^.5)/(e + 1)
    0.287649
    """
    positive = (ahead > 0.0) & (back > 0.0)
    high, low = np.where(positive, ahead, 1.0), np.where(positive, back, 1.0)
    divergence = notion.divergence
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        whole = -np.expm1(-(high + low))
        if isinstance(divergence, HockeyStick):
            beyond = -np.expm1(np.minimum(divergence.epsilon - high, 0.0))
            losses = np.minimum(-np.expm1(-low) * beyond / whole * (1.0 + _ROOM), 1.0)
        else:
            assert isinstance(divergence, PowerMean)
            alpha = divergence.alpha
            log_mean = np.where(
                alpha * np.maximum(high, low) < 1.0,
                _log_mean_of_small(high, low, alpha),
                _log_mean_of_large(high, low, alpha),
            )
            losses = log_mean / (alpha - 1.0) * (1.0 + _ROOM)
            losses = np.where(np.isnan(losses), np.inf, np.minimum(np.maximum(losses, 0.0), high))
    return np.where(positive, losses, 0.0)


def _log_mean_of_large(high: FloatArray, low: FloatArray, alpha: float) -> FloatArray:
    log_whole = np.log(-np.expm1(-(high + low)))
    top = np.log(-np.expm1(-low)) - log_whole + (alpha - 1.0) * high
    rest = np.log(-np.expm1(-high)) - log_whole - alpha * low
    return np.asarray(np.logaddexp(top, rest) + _ROOM * (1.0 + alpha * high))


def _log_mean_of_small(high: FloatArray, low: FloatArray, alpha: float) -> FloatArray:
    """Return the same as a mean of r^alpha - 1 - alpha (r - 1), of which no summand is negative."""
    whole = -np.expm1(-(high + low))
    shares = -np.expm1(-low) / whole * np.exp(-high), -np.expm1(-high) / whole
    mean = np.zeros_like(high)
    for share, log_ratio in zip(shares, (high, -low), strict=True):
        power, line = np.expm1(alpha * log_ratio), alpha * np.expm1(log_ratio)
        mean += share * (power - line + 16.0 * UNIT * (np.abs(power) + np.abs(line)))
    return np.asarray(np.log1p(mean))
