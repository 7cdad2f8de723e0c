r"""The loss of one pair of priors, for one noise after another: each kind of pair its own class.

*Layers.* Some released distributions consist of layers, each seen for what it is. With a = log p_c
/ q_c, the log ratio of the masses of layer c, and distributions of mass 1 within each,

.. math:: \sup f = \max_c (a_c + \sup f_c), \qquad
          H_\varepsilon = \sum_c p_c H_{\varepsilon - a_c}, \qquad
          e^{(\alpha - 1) D} = \sum_c p_c^\alpha q_c^{1 - \alpha} e^{(\alpha - 1) D_c}

and where epsilon - a = -g is negative, H_(-g)(p, q) = 1 - e^-g + e^-g H_g(q, p).

*Rows of unordered categories and at most one number* have a line for each combination. What is
released of the categories c is mixed (`_noise.mixing`), which is a separable pass over the masses,
p -> (1 - rho) p + rho q sum p along each unordered axis. Given c, the number with its noise has a
density on a line: the released distribution consists of layers.

Values of an alphabet without mass in either distribution are one cell together: their ratios are
equal.

*Rows with columns that are kept as they are:* the values v of these columns have the shares p_v and
q_v, and the other columns have distributions given v. These are layers, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, expm1
from typing import NamedTuple, Protocol, assert_never, cast

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.boxes import box_panels, boxes_computable
from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer._losses.discrete_distributions import DiscretePair
from sklearn_puffer._losses.divergences import Ends, Panels, both_intervals
from sklearn_puffer._losses.gaussian_mixtures import distribution_of
from sklearn_puffer._losses.gaussian_rows import row_interval, rows_computable
from sklearn_puffer._losses.joint_grids import (
    given_kept,
    kept_axes,
    layout_of,
    on_others,
    with_mass,
)
from sklearn_puffer._losses.laplace_pair import LaplacePair
from sklearn_puffer._losses.line import LinePair, fine_panels, loss_interval
from sklearn_puffer._losses.mixtures import DistributionPair, NoiseDistribution
from sklearn_puffer._noise import WHOLE, Mixing, without_mixings
from sklearn_puffer._numerics import LN2, UNIT
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import (
    HockeyStick,
    Notion,
    PowerMean,
    Pufferfish,
    RenyiPufferfish,
    Supremum,
)
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

Mixings = tuple[Mixing | None, ...]

# One panel of a mixture costs as much as so many kernel values.
_MIXTURE_WEIGHT = 2**8
_PART_WEIGHT = 2**6  # one with noise of any family, for each of its atoms
_LOOSE = 5e-2  # losses of boxes farther apart than this are bounded in other boxes, too
# Scales beyond these are computed with as if they were these; the interval is widened to be valid.
_SHORTEST = 2.0**-400
_LONGEST_SCALE = 1e280


class PairLoss(Protocol):
    """The loss between two priors, both ways."""

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p.

        Where a budget is given those of two columns may be as far apart as leaves them on one side
        of it.
        """

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover all released values, from p to q."""

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""


class DiscreteLine:
    """Discrete priors that vary along one column.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        All atoms with mass, sorted.
    grid : PriorGrid
        Both priors on them, of whose columns ``axis`` is the one.
    axis : int
    """

    def __init__(self, atoms: FloatArray, grid: PriorGrid, axis: int) -> None:
        self._atoms = _centred(atoms)
        self._column, self._n_axes = axis, grid.n_axes
        self._limits: dict[Notion, FloatArray] = {}
        self._masses, self._log_masses = grid.masses, grid.log_masses

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        scale = float(noise.axis_scales(self._n_axes)[self._column])
        used = self._usable(scale, noise)
        lower, upper = loss_interval(self._column_pair(noise.with_scale(used)), notion)
        # less noise loses more, and none at all the most
        limit = self.without_noise(notion)
        upper = np.minimum(upper, limit) if used <= scale else limit
        if used < scale:
            lower = np.zeros(2)
        return lower, upper

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover the line, from p to q."""
        scale = float(noise.axis_scales(self._n_axes)[self._column])
        return fine_panels(self._column_pair(noise.with_scale(self._usable(scale, noise))), notion)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if notion not in self._limits:
            panels = _points(self._masses, self._log_masses)
            self._limits[notion] = both_intervals(panels, notion)[1]
        return self._limits[notion]

    def _usable(self, scale: float, noise: Noise) -> float:
        span = float(self._atoms[-1] - self._atoms[0])
        return min(max(scale, span * _SHORTEST), _LONGEST_SCALE)

    def _column_pair(self, noise: Noise) -> LinePair:
        if noise.is_normal or noise.power is not None:
            return DiscretePair(self._atoms, self._masses, self._log_masses, noise)
        if not noise.is_exponential:
            p, q = (NoiseDistribution(self._atoms, logs, noise) for logs in self._log_masses)
            return DistributionPair(p, q, _PART_WEIGHT * len(self._atoms))
        return LaplacePair(self._atoms, self._log_masses, float(noise.axis_scales(1)[0]))


class MixtureLine:
    """Gaussian mixtures of one column."""

    def __init__(self, p: GaussianMixture, q: GaussianMixture) -> None:
        self._p, self._q = p, q

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        return loss_interval(self._column_pair(noise), notion)

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover the line, from p to q."""
        return fine_panels(self._column_pair(noise), notion)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        return loss_interval(self._column_pair(None), notion)[1]

    def _column_pair(self, noise: Noise | None) -> LinePair:
        if noise is not None:
            noise = noise.with_scale(float(noise.axis_scales(1)[0]))
        p, q = (distribution_of(prior, noise) for prior in (self._p, self._q))
        return DistributionPair(p, q, _MIXTURE_WEIGHT)


class _DiscreteRows:
    """Discrete priors of several columns."""

    def __init__(self, p: Discrete, q: Discrete) -> None:
        self._p, self._q = p, q

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        return bare_losses(self._p, self._q, notion)


def bare_losses(p: Discrete, q: Discrete, notion: Notion) -> FloatArray:
    """Return upper ends of the losses of rows without noise, p to q and q to p.

    >>> p, q = (Discrete([[0, 0, 0], [1, 1, 1]], [share, 1.0 - share]) for share in (0.5, 0.25))
    >>> bare_losses(p, q, Pufferfish(1.0)).round(6).tolist()
    [0.693147, 0.405465]
    """
    return both_intervals(bare_panels(p, q), notion)[1]


def bare_panels(p: Discrete, q: Discrete) -> Panels:
    """Return the rows of two priors as panels, from p to q: the release without noise."""
    rows, indices = np.unique(np.concatenate((p.rows, q.rows)), axis=0, return_inverse=True)
    masses, logs = np.zeros((2, len(rows))), np.full((2, len(rows)), -np.inf)
    parts = zip((p, q), np.split(indices.ravel(), [len(p.rows)]), strict=True)
    for k, (prior, at) in enumerate(parts):
        masses[k, at] = prior.probabilities
        logs[k, at] = [log_share(int(count), prior.total) for count in prior.counts]
    positive = np.isfinite(logs).any(axis=0)
    return _points(masses[:, positive], logs[:, positive])


class DiscreteBoxes(_DiscreteRows):
    """Discrete priors of two columns."""

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p.

        Where a budget is given they may be as far apart as leaves them on one side of it.
        """
        lower, upper = both_intervals(self.panels(noise, notion, budget), notion)
        upper = np.minimum(upper, self.without_noise(notion))  # less noise loses more
        if _is_loose(lower, upper, notion, budget):
            upper = np.minimum(upper, self._where_ratios_are_largest(noise, notion))
        return lower, upper

    def panels(self, noise: Noise, notion: Notion, budget: float | None = None) -> Panels:
        """Return boxes that cover the plane, from p to q."""
        if not boxes_computable([self._p, self._q], noise, notion):
            raise ValueError(
                f"the loss of these joint columns is not computed for {noise!r} and {notion!r}: "
                "it is for pure epsilon with Laplace noise, and for two columns on few cells; "
                "use fewer bins, groups of columns, or independence."
            )
        return box_panels(self._p, self._q, noise, notion, budget)

    def _where_ratios_are_largest(self, noise: Noise, notion: Notion) -> FloatArray:
        """Return the upper ends from boxes that are cut for the pure loss.

        No box has a ratio beyond it, so a delta or an order asks for no more noise.
        """
        pure = Pufferfish(notion.epsilon)
        if not boxes_computable([self._p, self._q], noise, pure):
            return np.full(2, np.inf)
        return both_intervals(box_panels(self._p, self._q, noise, pure), notion)[1]


def _is_loose(lower: FloatArray, upper: FloatArray, notion: Notion, budget: float | None) -> bool:
    """Return whether boxes were too few: they are tight to a part in a thousand elsewhere."""
    if budget is not None and not lower.max() <= budget < upper.max():
        return False
    return bool((upper - lower > _LOOSE * np.maximum(upper, 1e-2 * notion.budget)).any())


class GaussianRows:
    """Gaussian priors of rows."""

    def __init__(self, p: GaussianMixture, q: GaussianMixture) -> None:
        self._p, self._q = p, q

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        return row_interval(self._p, self._q, noise, notion)

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Refuse: a closed form has no panels."""
        raise ValueError(
            f"rows of {self._p.n_axes} Gaussian columns have a closed form and no panels; "
            'a joint group of them cannot be composed with other columns: use dependence="joint".'
        )

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if rows_computable(self._p, self._q, None, notion):
            return row_interval(self._p, self._q, None, notion)[1]
        return np.full(2, np.inf)


def log_share(count: int, total: int) -> float:
    """Return log(count/total) of integers of any size."""
    if count == 0:
        return -np.inf
    shift = total.bit_length() - count.bit_length()
    return float(np.log((count << shift) / total)) - shift * LN2


def _points(masses: FloatArray, logs: FloatArray, relative: float = 4.0 * UNIT) -> Panels:
    """Return the points of two distributions, right to ``relative``, as panels from p to q."""
    low, high = masses * (1.0 - relative), masses * (1.0 + relative) + 5e-324
    high = np.where(np.isneginf(logs), 0.0, np.minimum(high, 1.0))
    ratio = logs[0] - logs[1]
    finite = np.where(np.isfinite(logs), np.abs(logs), 0.0).sum(axis=0)
    error = 2.0 * relative + UNIT * (16.0 + 4.0 * finite)
    return Panels(low[0], high[0], low[1], high[1], ratio - error, ratio + error)


def _centred(atoms: FloatArray) -> FloatArray:
    """Return the atoms moved to begin at 0, where that is exact: fine scales are resolved there."""
    moved = atoms - atoms[0]
    lost = moved - atoms
    rest = (atoms - (moved - lost)) - (atoms[0] + lost)
    return moved if not rest.any() else atoms


class Layer(NamedTuple):
    """A layer's mass under both distributions, and the loss within it."""

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
        return _deltas(layers, noise, cast(Pufferfish, notion), off)
    if isinstance(divergence, PowerMean):
        return _power_means(layers, noise, RenyiPufferfish(notion.epsilon, divergence.alpha), off)
    assert_never(divergence)


def _joined(
    layers: Sequence[Layer], noise: Noise, notion: Notion, error: float, *others: Panels
) -> Panels:
    """Return the panels of all layers, whose masses are off by ``error``, and others."""
    inner = (_widened(layer.line.panels(noise, notion), layer, error) for layer in layers)
    return Panels.joined(*inner, *others)


def _widened(panels: Panels, layer: Layer, error: float) -> Panels:
    """Return panels within a layer as panels of the whole."""
    r, off = 2.0 * error, 2.0 * error + UNIT * (16.0 + 16.0 * 600.0)
    less, more = 1.0 - r, 1.0 + r
    p = panels.p_low * layer.p * less, panels.p_high * layer.p * more
    q = panels.q_low * layer.q * less, panels.q_high * layer.q * more
    logs = panels.log_low + layer.ratio - off, panels.log_high + layer.ratio + off
    return Panels(*p, *q, *logs)


def _suprema(layers: Sequence[Layer], noise: Noise, notion: Notion, off: float) -> Ends:
    ends = [layer.line.interval(noise, notion) for layer in layers]
    ways = np.array([[layer.ratio, -layer.ratio] for layer in layers])
    lower = (np.array([low for low, _ in ends]) + ways).max(axis=0) - off
    upper = (np.array([high for _, high in ends]) + ways).max(axis=0) + off
    return np.maximum(lower, 0.0), np.maximum(upper, 0.0)


def _deltas(layers: Sequence[Layer], noise: Noise, notion: Pufferfish, off: float) -> Ends:
    epsilon = notion.epsilon
    lower, upper = np.zeros(2), np.zeros(2)
    for layer in layers:
        for way, (mass, ratio) in enumerate(((layer.p, layer.ratio), (layer.q, -layer.ratio))):
            at = epsilon - ratio - off
            low, high = _hockey_stick(layer.line, noise, at, notion.delta, way)
            # at an epsilon larger by 2 off it is less, by no more than e^epsilon grows
            low = max(low - 2.5 * off * exp(min(epsilon - ratio + off, 700.0)), 0.0)
            lower[way] += mass * low
            upper[way] += mass * high
    margin = 2.0 * off + 4.0 * UNIT * len(layers)
    return lower * (1.0 - margin), np.minimum(upper * (1.0 + margin), 1.0)


def _hockey_stick(
    line: PairLoss, noise: Noise, epsilon: float, delta: float, way: int
) -> tuple[float, float]:
    """Return the ends of the hockey stick of a line at any epsilon, from p to q or back."""
    epsilon = epsilon or -1e-300
    lower, upper = line.interval(noise, Pufferfish(abs(epsilon), delta))
    if epsilon > 0.0:
        return float(lower[way]), float(upper[way])
    other, gone = 1 - way, -expm1(epsilon)
    low, high = (gone + (1.0 - gone) * float(end[other]) for end in (lower, upper))
    return low * (1.0 - 8.0 * UNIT), high * (1.0 + 8.0 * UNIT)


def _power_means(
    layers: Sequence[Layer], noise: Noise, notion: RenyiPufferfish, off: float
) -> Ends:
    alpha, order = notion.alpha, notion.alpha - 1.0
    ends = np.array([layer.line.interval(noise, notion) for layer in layers])
    logs = np.log(np.array([[layer.p, layer.q] for layer in layers]))
    weights = alpha * logs - order * logs[:, ::-1]
    slack = 2.0 * alpha * off + 16.0 * UNIT * (alpha * np.abs(logs).sum(axis=1)[:, None] + 64.0)
    sides = []
    for side, terms in zip((-1.0, 1.0), np.moveaxis(ends, 1, 0), strict=True):
        exponents = weights + order * terms + side * (slack + 16.0 * UNIT * order * terms)
        top = exponents.max(axis=0)
        with np.errstate(under="ignore", invalid="ignore"):
            total = top + np.log(np.exp(exponents - top).sum(axis=0))
        sides.append(np.where(np.isfinite(top), total, top) / order)
    low, high = sides
    margin = 16.0 * UNIT * (len(layers) + 1.0) * (1.0 + np.abs(high) + 1.0 / order)
    return np.maximum(low - margin, 0.0), high + margin


_LEAST_MASS = 1e-250  # below it, products of masses and shares would not be floats any more


class CategoryLayers(_DiscreteRows):
    """Discrete priors of unordered columns, and of one number at most that varies.

    Parameters
    ----------
    p, q : Discrete
    mixings : tuple of Mixing or None
        One a column.
    """

    def __init__(self, p: Discrete, q: Discrete, mixings: tuple[Mixing | None, ...]) -> None:
        super().__init__(p, q)
        layout = layout_of([p, q])
        self._n_axes = len(layout.axes)
        mixed = [k for k in layout.varying if mixings[k] is not None]
        numbers = [k for k in layout.varying if mixings[k] is None]
        if len(numbers) > 1:
            raise ValueError("layers are for one number; take a grid, or a bound.")
        self._number = numbers[0] if numbers else None
        self._atoms = layout.axes[numbers[0]] if numbers else np.zeros(1)
        self._shares = {k: _drawn_from(mixings[k], layout.axes[k]) for k in mixed}
        shape = [len(self._shares.get(k, atoms)) for k, atoms in enumerate(layout.axes)]
        self._masses = np.zeros((2, *shape))
        sizes = [len(atoms) for atoms in layout.axes]
        for masses, prior, indices in zip(self._masses, (p, q), layout.indices, strict=True):
            masses[np.unravel_index(indices, sizes)] = with_mass(prior, prior.probabilities)
        units = sum(shape) + 16.0 * (len(shape) + 1) + self._atoms.size
        self._error = 1.01 * UNIT * units

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        limit = self.without_noise(notion)
        mixed = self._mixed(noise)
        if mixed is None:
            return np.zeros(2), limit
        if self._number is None:
            lower, upper = both_intervals(self._points(mixed), notion)
        else:
            layers = self._layers(mixed)
            lower, upper = of_layers(layers, self._of_number(noise), notion, self._error)
        upper = np.minimum(upper, limit)
        return lower, upper

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover all released values, from p to q."""
        mixed = self._mixed(noise)
        if mixed is None:
            raise ValueError("masses are too small for panels; use dependence='joint'.")
        if self._number is None:
            return self._points(mixed)
        return _joined(self._layers(mixed), self._of_number(noise), notion, self._error)

    def _of_number(self, noise: Noise) -> Noise:
        scale = float(noise.axis_scales(self._n_axes)[self._number])
        return without_mixings(noise).with_scale(scale)

    def _mixed(self, noise: Noise) -> FloatArray | None:
        """Return the released masses, shape (2, cells, atoms), if floats hold them."""
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
        masses = mixed[:, (mixed > 0.0).any(axis=(0, 2)), 0]
        with np.errstate(divide="ignore"):
            return _points(masses, np.log(masses), self._error)

    def _layers(self, mixed: FloatArray) -> list[Layer]:
        layers = []
        for p, q in zip(*mixed, strict=True):
            positive = (p > 0.0) | (q > 0.0)
            if positive.any():
                p, q = p[positive], q[positive]
                masses = np.stack([p / p.sum(), q / q.sum()])
                atoms = self._atoms[positive]
                line = DiscreteLine(atoms, PriorGrid([atoms], masses), 0)
                layers.append(Layer(float(p.sum()), float(q.sum()), line))
        return layers


def _drawn_from(mixing: Mixing | None, atoms: FloatArray) -> FloatArray:
    """Return the shares of the atoms, and of all other values together, if there are any."""
    assert mixing is not None
    indices = mixing.codes_of(atoms)
    rest = WHOLE - sum(mixing.shares[k] for k in indices.tolist())
    shares = mixing.probabilities[indices]
    return np.append(shares, rest / WHOLE) if rest else shares


# Rounding. A share is a quotient of integers, right to u; what only one distribution has is a sum
# of them.

_ERROR = 4.0 * UNIT
_LEAST_SHARE = 1e-250  # below it, logs are longer than `_losses.pair_losses` allows for


class SameDistributions:
    """Equal distributions: all released values are one panel."""

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return zero losses."""
        return np.zeros(2), np.zeros(2)

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return one panel."""
        one, zero = np.ones(1), np.zeros(1)
        return Panels(one, one, one, one, zero, zero)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return zero losses."""
        return np.zeros(2)


class KeptColumns(_DiscreteRows):
    """Discrete priors of rows with columns that are released as they are.

    Parameters
    ----------
    p, q : Discrete
    mixings : tuple of Mixing or None
        One a column; `Unchanged` for a column that is kept.
    of_pair : callable
        What computes the loss of a pair of priors of the other axes, under these mixings.
    """

    def __init__(
        self,
        p: Discrete,
        q: Discrete,
        mixings: Mixings,
        of_pair: Callable[[PriorPair, Mixings], PairLoss],
    ) -> None:
        super().__init__(p, q)
        self._layers: list[Layer] = []
        gone = np.zeros(2)
        axes = kept_axes(mixings)
        others = tuple(mixing for k, mixing in enumerate(mixings) if k not in axes)
        others = others if any(others) else ()
        for shares, (of_p, of_q) in given_kept([p, q], axes):
            if of_p is None or of_q is None:
                gone += shares
            else:
                same = of_p == of_q  # or there are no other columns
                line = SameDistributions() if same else of_pair(PriorPair(of_p, of_q), others)
                self._layers.append(Layer(shares[0], shares[1], line))
        self._gone = gone

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        others = on_others(noise, self._p.n_axes)
        if len(self._layers) == 1 and not self._gone.any():
            return self._layers[0].line.interval(others, notion, budget)
        limit = self.without_noise(notion)
        if not self._is_held:
            return np.zeros(2), limit
        lower, upper = self._of_layers(others, notion)
        upper = np.minimum(upper, limit)
        return lower, upper

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover all released values, from p to q."""
        if not self._is_held:
            raise ValueError("masses are too small for panels; use dependence='joint'.")
        gone = map(_alone, range(2), self._gone.tolist())
        return _joined(self._layers, on_others(noise, self._p.n_axes), notion, _ERROR, *gone)

    @property
    def _is_held(self) -> bool:
        """Whether floats hold all shares and their logs."""
        least = min((min(layer.p, layer.q) for layer in self._layers), default=1.0)
        return least >= _LEAST_SHARE

    def _of_layers(self, noise: Noise, notion: Notion) -> Ends:
        """Return the ends of the loss; values of one prior alone are told whatever the noise."""
        lower, upper = np.zeros(2), np.zeros(2)
        if self._layers:
            lower, upper = of_layers(self._layers, noise, notion, _ERROR)
        if isinstance(notion.divergence, HockeyStick):
            off = self._gone * (len(self._layers) + 8.0) * UNIT
            return lower + self._gone - off, np.minimum(upper + self._gone + off, 1.0)
        everything = np.where(self._gone > 0.0, np.inf, 0.0)
        return np.maximum(lower, everything), np.maximum(upper, everything)


def _alone(way: int, mass: float) -> Panels:
    """Return the mass that only p (0) or only q (1) has, as a panel."""
    if mass == 0.0:
        return Panels(*np.zeros((6, 0)))
    ends = np.zeros((2, 2))
    ends[way] = mass * (1.0 - 1e-12), min(mass * (1.0 + 1e-12), 1.0)
    ratio = np.inf if way == 0 else -np.inf
    (p_low, p_high), (q_low, q_high) = ends[:, :, None]
    return Panels(p_low, p_high, q_low, q_high, np.full(1, ratio), np.full(1, ratio))
