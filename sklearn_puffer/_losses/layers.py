r"""Losses of laws that consist of layers, each seen for what it is, from those of single layers.

With a = log p_c / q_c, the log ratio of the masses of layer c, and laws of mass 1 within each,

.. math:: \sup f = \max_c (a_c + \sup f_c), \qquad
          H_\varepsilon = \sum_c p_c H_{\varepsilon - a_c}, \qquad
          e^{(\alpha - 1) D} = \sum_c p_c^\alpha q_c^{1 - \alpha} e^{(\alpha - 1) D_c}

and where epsilon - a = -g is negative, H_(-g)(p, q) = 1 - e^-g + e^-g H_g(q, p).

Rows of unordered categories and at most one number: for each combination of categories, a line.

What is released of the categories c is mixed (`_noise.mixing`), which is a separable pass over the
masses, p -> (1 - rho) p + rho q sum p along each unordered axis. Given c, the number with its noise
has a density on a line: the released law consists of layers (`_losses.layers`).

Values of an alphabet without mass in either law are one cell together: their ratios are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1
from typing import NamedTuple, assert_never

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray
from sklearn_puffer._losses.convolution import Grid
from sklearn_puffer._losses.divergences import Panels, divergence_interval
from sklearn_puffer._losses.joint_grids import layout_of, with_mass
from sklearn_puffer._losses.pair_losses import DiscreteLine, Ends, PairLoss, discrete_without_noise
from sklearn_puffer._noise import WHOLE, Mixing, without_mixings
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import (
    HockeyStick,
    Notion,
    PowerMean,
    Pufferfish,
    RenyiPufferfish,
    Supremum,
)
from sklearn_puffer.priors import Discrete


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


_LEAST_MASS = 1e-250  # below it, products of masses and shares would not be floats any more


class CategoryLayers:
    """Discrete priors of unordered columns, and of one number at most that varies.

    Parameters
    ----------
    p, q : Discrete
    mixings : tuple of Mixing or None
        One a column.
    """

    def __init__(self, p: Discrete, q: Discrete, mixings: tuple[Mixing | None, ...]) -> None:
        self._p, self._q = p, q
        layout = layout_of([p, q])
        self._n_axes = len(layout.axes)
        mixed = [k for k in layout.varying if mixings[k] is not None]
        numbers = [k for k in layout.varying if mixings[k] is None]
        if len(numbers) > 1:
            raise ValueError("layers are for one number; take a grid, or a bound.")
        self._number = numbers[0] if numbers else None
        self._atoms = layout.axes[numbers[0]] if numbers else np.zeros(1)
        found = [_drawn_from(mixings[k], layout.axes[k]) for k in mixed]
        self._shares = dict(zip(mixed, found, strict=True))
        shape = [len(self._shares.get(k, atoms)) for k, atoms in enumerate(layout.axes)]
        self._masses = np.zeros((2, *shape))
        sizes = [len(atoms) for atoms in layout.axes]
        for masses, prior, places in zip(self._masses, (p, q), layout.places, strict=True):
            masses[np.unravel_index(places, sizes)] = with_mass(prior, prior.probabilities)
        units = sum(shape) + 16.0 * (len(shape) + 1) + self._atoms.size
        self._error = 1.01 * UNIT * units

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        if self._p == self._q:
            return np.zeros(2), np.zeros(2)
        limit = self.without_noise(notion)
        mixed = self._mixed(noise)
        if mixed is None:
            return np.zeros(2), limit
        if self._number is None:
            points = self._points(mixed)
            ends = [divergence_interval(way, notion) for way in (points, points.swapped())]
            lower, upper = np.array(ends).T
        else:
            layers = self._layers(mixed)
            lower, upper = of_layers(layers, self._of_number(noise), notion, self._error)
        upper = np.minimum(upper, limit)
        return np.minimum(lower, upper), upper

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover all released values, from p to q."""
        mixed = self._mixed(noise)
        if mixed is None:
            raise ValueError("masses are too small for panels; use dependence='joint'.")
        if self._number is None:
            return self._points(mixed)
        level, parts = self._of_number(noise), []
        for layer in self._layers(mixed):
            of_line = layer.line.panels(level, notion)
            parts.append(widened(of_line, layer, self._error))
        return Panels.joined(*parts)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if self._p == self._q:
            return np.zeros(2)
        return discrete_without_noise(self._p, self._q, notion)

    def _of_number(self, noise: Noise) -> Noise:
        scale = float(noise.axis_scales(self._n_axes)[self._number])
        return without_mixings(noise).with_scale(scale)

    def _mixed(self, noise: Noise) -> FloatArray | None:
        """Return what is released of the masses, shape (2, cells, atoms), if floats hold it."""
        scales, masses = noise.axis_scales(self._n_axes), self._masses
        for k, shares in self._shares.items():
            total = masses.sum(axis=k + 1, keepdims=True)
            drawn = -np.expm1(-scales[k]) * shares
            around = [1] * masses.ndim
            around[k + 1] = -1
            masses = np.exp(-scales[k]) * masses + total * drawn.reshape(around)
        if self._number is None:
            flat = masses.reshape(2, -1, 1)
        else:
            flat = np.moveaxis(masses, self._number + 1, -1).reshape(2, -1, self._atoms.size)
        return flat if flat[flat > 0.0].min() >= _LEAST_MASS else None

    def _points(self, mixed: FloatArray) -> Panels:
        """Return each combination of categories as a panel of its own."""
        p, q = mixed[:, :, 0]
        some = (p > 0.0) | (q > 0.0)
        p, q, r = p[some], q[some], self._error
        with np.errstate(divide="ignore"):
            ratio = np.log(p) - np.log(q)
        off = np.where(np.isfinite(ratio), 2.0 * r + UNIT * (16.0 + 8.0 * np.abs(ratio)), 0.0)
        off += UNIT * 8.0 * 600.0  # of the logs themselves: no mass is below e^-600
        return Panels(
            p * (1.0 - r), p * (1.0 + r), q * (1.0 - r), q * (1.0 + r), ratio - off, ratio + off
        )

    def _layers(self, mixed: FloatArray) -> list[Layer]:
        layers = []
        for p, q in zip(*mixed, strict=True):
            if p.any() or q.any():
                some = (p > 0.0) | (q > 0.0)
                p, q = p[some], q[some]
                masses = np.stack([p / p.sum(), q / q.sum()])
                atoms = self._atoms[some]
                line = DiscreteLine(atoms, Grid([atoms], masses), 0)
                layers.append(Layer(float(p.sum()), float(q.sum()), line))
        return layers


def _drawn_from(mixing: Mixing | None, atoms: FloatArray) -> FloatArray:
    """Return the shares of the atoms, and of all other values together, if there are any."""
    assert mixing is not None
    places = mixing.places(atoms)
    rest = WHOLE - sum(mixing.shares[place] for place in places.tolist())
    shares = mixing.probabilities[places]
    return np.append(shares, rest / WHOLE) if rest else shares
