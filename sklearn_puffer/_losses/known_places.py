"""The loss of rows some of whose columns stay as they are: from the losses at each place.

At a place v, values of those columns, laws have the shares p_v and q_v, and the other columns laws
of their own: these are layers, each seen for what it is (`_losses.layers`).
"""

# Rounding. A share is a quotient of integers, right to u; what only one law has is a sum of them.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray
from sklearn_puffer._losses.divergences import Panels
from sklearn_puffer._losses.layers import Layer, of_layers, widened
from sklearn_puffer._losses.pair_losses import Ends, PairLoss, discrete_without_noise
from sklearn_puffer._losses.places import kept_axes, on_others, places_of
from sklearn_puffer._noise import Mixing
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion
from sklearn_puffer.priors import Discrete, PriorPair

_ERROR = 4.0 * UNIT
_LEAST_SHARE = 1e-250  # below it, logs are longer than `_losses.layers` allows for

Mixings = tuple[Mixing | None, ...]


class SameLaws:
    """Equal laws, which nothing tells apart, whatever the noise: the line, seen as one point."""

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return that nothing is lost."""
        return np.zeros(2), np.zeros(2)

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return one panel."""
        one, zero = np.ones(1), np.zeros(1)
        return Panels(one, one, one, one, zero, zero)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return that nothing is lost."""
        return np.zeros(2)


class KnownPlaces:
    """Discrete priors of rows, some of whose columns stay as they are.

    Parameters
    ----------
    p, q : Discrete
    mixings : tuple of Mixing or None
        One a column; `Unchanged` of those that stay.
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
        self._p, self._q = p, q
        self._layers: list[Layer] = []
        gone = np.zeros(2)
        axes = kept_axes(mixings)
        others = tuple(mixing for k, mixing in enumerate(mixings) if k not in axes)
        others = others if any(others) else ()
        for shares, (of_p, of_q) in places_of([p, q], axes):
            if of_p is None or of_q is None:
                gone += shares
            else:
                same = of_p == of_q  # or there are no other columns
                line = SameLaws() if same else of_pair(PriorPair(of_p, of_q), others)
                self._layers.append(Layer(shares[0], shares[1], line))
        self._gone = gone

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        if self._p == self._q:
            return np.zeros(2), np.zeros(2)
        others = on_others(noise, self._p.n_axes)
        if len(self._layers) == 1 and not self._gone.any():
            return self._layers[0].line.interval(others, notion, budget)
        limit = self.without_noise(notion)
        if not self._is_held:
            return np.zeros(2), limit
        lower, upper = self._of_layers(others, notion)
        upper = np.minimum(upper, limit)
        return np.minimum(lower, upper), upper

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover all released values, from p to q."""
        if not self._is_held:
            raise ValueError("masses are too small for panels; use dependence='joint'.")
        others = on_others(noise, self._p.n_axes)
        parts = [
            widened(layer.line.panels(others, notion), layer, _ERROR) for layer in self._layers
        ]
        return Panels.joined(*parts, *map(_alone, range(2), self._gone.tolist()))

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if self._p == self._q:
            return np.zeros(2)
        return discrete_without_noise(self._p, self._q, notion)

    @property
    def _is_held(self) -> bool:
        """Whether floats hold all shares and their logs."""
        return min((min(each.p, each.q) for each in self._layers), default=1.0) >= _LEAST_SHARE

    def _of_layers(self, noise: Noise, notion: Notion) -> Ends:
        """Return the ends of the loss; what only one of the laws has is lost whatever the noise."""
        lower, upper = np.zeros(2), np.zeros(2)
        if self._layers:
            lower, upper = of_layers(self._layers, noise, notion, _ERROR)
        if isinstance(notion.divergence, HockeyStick):
            off = self._gone * (len(self._layers) + 8.0) * UNIT
            return lower + self._gone - off, np.minimum(upper + self._gone + off, 1.0)
        everything = np.where(self._gone > 0.0, np.inf, 0.0)
        return np.maximum(lower, everything), np.maximum(upper, everything)


def _alone(way: int, mass: float) -> Panels:
    """Return what only p (0) or only q (1) has, as a panel."""
    if mass == 0.0:
        return Panels(*np.zeros((6, 0)))
    ends = np.zeros((2, 2))
    ends[way] = mass * (1.0 - 1e-12), min(mass * (1.0 + 1e-12), 1.0)
    ratio = np.inf if way == 0 else -np.inf
    (p_low, p_high), (q_low, q_high) = ends[:, :, None]
    return Panels(p_low, p_high, q_low, q_high, np.full(1, ratio), np.full(1, ratio))
