r"""Rows of unordered categories and at most one number: for each combination of categories, a line.

What is released of the categories c is mixed (`_noise.mixing`), which is a separable pass over the
masses, p -> (1 - rho) p + rho q sum p along each unordered axis. Given c, the number with its noise
has a density on a line: the released law consists of layers (`_losses.layers`).

Values of an alphabet without mass in either law are one cell together: their ratios are equal.
"""

# Rounding. Masses are right to 3u; a pass sums n of them (nu), and its two terms are right to 10u;
# a layer of n atoms is normalised by its sum (nu).

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray
from sklearn_puffer._losses.convolution import Grid
from sklearn_puffer._losses.divergences import Panels, divergence_interval
from sklearn_puffer._losses.joint_grids import layout_of, with_mass
from sklearn_puffer._losses.layers import Layer, of_layers, widened
from sklearn_puffer._losses.pair_losses import DiscreteLine, Ends, discrete_without_noise
from sklearn_puffer._noise import WHOLE, Mixing, without_mixings
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete

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
