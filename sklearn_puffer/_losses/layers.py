r"""Losses of laws that consist of layers, each seen for what it is, from those of single layers.

With a = log p_c / q_c, the log ratio of the masses of layer c, and laws of mass 1 within each,

.. math:: \sup f = \max_c (a_c + \sup f_c), \qquad
          H_\varepsilon = \sum_c p_c H_{\varepsilon - a_c}, \qquad
          e^{(\alpha - 1) D} = \sum_c p_c^\alpha q_c^{1 - \alpha} e^{(\alpha - 1) D_c}

and where epsilon - a = -g is negative, H_(-g)(p, q) = 1 - e^-g + e^-g H_g(q, p).
"""

# Rounding. With r for the error of a layer's masses, relative to their size, log ratios of layers
# are off by 2r: (p (1 + r) - e^eps q (1 - r))_+ is (1 + r) times the hockey stick at an epsilon
# that is less by log((1 + r) / (1 - r)).

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1
from typing import NamedTuple, assert_never

import numpy as np

from sklearn_puffer._base import UNIT
from sklearn_puffer._losses.divergences import Panels
from sklearn_puffer._losses.pair_losses import Ends, PairLoss
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import (
    HockeyStick,
    Notion,
    PowerMean,
    Pufferfish,
    RenyiPufferfish,
    Supremum,
)


class Layer(NamedTuple):
    """Its mass under both laws, and what tells these apart within it."""

    p: float
    q: float
    line: PairLoss

    @property
    def ratio(self) -> float:
        """The log ratio of the masses, a."""
        return float(np.log(self.p) - np.log(self.q))


def of_layers(layers: Sequence[Layer], noise: Noise, notion: Notion, error: float) -> Ends:
    """Return the ends of the loss from those of all layers, whose masses are off by ``error``."""
    divergence = notion.divergence
    off = 2.5 * error + UNIT * (16.0 + 16.0 * 600.0)
    if isinstance(divergence, Supremum):
        return _suprema(layers, noise, notion, off)
    if isinstance(divergence, HockeyStick):
        return _deltas(layers, noise, divergence.epsilon, off)
    if isinstance(divergence, PowerMean):
        return _power_means(layers, noise, divergence.alpha, off)
    assert_never(divergence)


def widened(panels: Panels, layer: Layer, error: float) -> Panels:
    """Return the panels of what is within a layer as those of the layer."""
    r, off = 2.0 * error, 2.0 * error + UNIT * (16.0 + 16.0 * 600.0)
    less, more = 1.0 - r, 1.0 + r
    return Panels(
        panels.p_low * layer.p * less,
        panels.p_high * layer.p * more,
        panels.q_low * layer.q * less,
        panels.q_high * layer.q * more,
        panels.log_low + layer.ratio - off,
        panels.log_high + layer.ratio + off,
    )


def _suprema(layers: Sequence[Layer], noise: Noise, notion: Notion, off: float) -> Ends:
    ends = [layer.line.interval(noise, notion) for layer in layers]
    ways = np.array([[layer.ratio, -layer.ratio] for layer in layers])
    lower = (np.array([low for low, _ in ends]) + ways).max(axis=0) - off
    upper = (np.array([high for _, high in ends]) + ways).max(axis=0) + off
    return np.maximum(lower, 0.0), np.maximum(upper, 0.0)


def _deltas(layers: Sequence[Layer], noise: Noise, epsilon: float, off: float) -> Ends:
    lower, upper = np.zeros(2), np.zeros(2)
    for layer in layers:
        for way, (mass, ratio) in enumerate(((layer.p, layer.ratio), (layer.q, -layer.ratio))):
            low, high = _hockey_stick(layer.line, noise, epsilon - ratio - off, way)
            # at an epsilon larger by 2 off it is less, by no more than e^epsilon grows
            low = max(low - 2.5 * off * exp(min(epsilon - ratio + off, 700.0)), 0.0)
            lower[way] += mass * low
            upper[way] += mass * high
    margin = 2.0 * off + 4.0 * UNIT * len(layers)
    return lower * (1.0 - margin), np.minimum(upper * (1.0 + margin), 1.0)


def _hockey_stick(line: PairLoss, noise: Noise, epsilon: float, way: int) -> tuple[float, float]:
    """Return the ends of the hockey stick of a line at any epsilon, from p to q or back."""
    epsilon = epsilon or -1e-300
    lower, upper = line.interval(noise, Pufferfish(abs(epsilon), 0.5))
    if epsilon > 0.0:
        return float(lower[way]), float(upper[way])
    other, gone = 1 - way, -expm1(epsilon)
    ends = (gone + (1.0 - gone) * float(end[other]) for end in (lower, upper))
    low, high = ends
    return low * (1.0 - 8.0 * UNIT), high * (1.0 + 8.0 * UNIT)


def _power_means(layers: Sequence[Layer], noise: Noise, alpha: float, off: float) -> Ends:
    notion, order = RenyiPufferfish(1.0, alpha), alpha - 1.0
    ends = np.array([layer.line.interval(noise, notion) for layer in layers])
    logs = np.log(np.array([[layer.p, layer.q] for layer in layers]))
    weights = alpha * logs - order * logs[:, ::-1]
    slack = 2.0 * alpha * off + 16.0 * UNIT * (alpha * np.abs(logs).sum(axis=1)[:, None] + 64.0)
    found = []
    for side, terms in zip((-1.0, 1.0), np.moveaxis(ends, 1, 0), strict=True):
        exponents = weights + order * terms + side * (slack + 16.0 * UNIT * order * terms)
        top = exponents.max(axis=0)
        with np.errstate(under="ignore", invalid="ignore"):
            total = top + np.log(np.exp(exponents - top).sum(axis=0))
        found.append(np.where(np.isfinite(top), total, top) / order)
    margin = 16.0 * UNIT * (len(layers) + 1.0) * (1.0 + np.abs(found[1]) + 1.0 / order)
    return np.maximum(found[0] - margin, 0.0), found[1] + margin
