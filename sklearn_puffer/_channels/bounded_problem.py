"""What a channel is asked for where laws are not known, but lie between bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._channels.problem import ChannelProblem

_LARGEST_EPSILON = 500.0


@dataclass(frozen=True, eq=False)
class BoundedFamily:
    """Laws that must not be told apart, wherever they lie between their bounds.

    Attributes
    ----------
    lower, upper : ndarray of shape (k, n)
        Law s is any p of sum 1 with lower[s] <= p <= upper[s]; a known law has both alike.
    pairs : ndarray of intp of shape (n_pairs, 2)
        The protected pairs, in both orders.
    """

    lower: FloatArray
    upper: FloatArray
    pairs: Array


@dataclass(frozen=True, eq=False)
class BoundedProblem:
    """Find W(y|x) of least expected cost that keeps the budget for all laws between bounds.

    Attributes
    ----------
    problem : ChannelProblem
        Weights, costs and budget; its own families are not looked at.
    families : sequence of BoundedFamily
    outputs : ndarray of intp of shape (m,)
        The cells that may be released, ascending.
    """

    problem: ChannelProblem
    families: Sequence[BoundedFamily]
    outputs: Array

    @cached_property
    def lower(self) -> FloatArray:
        """The lower bounds of all families' laws, one after the other, shape (K, n)."""
        return np.concatenate([family.lower for family in self.families])

    @cached_property
    def upper(self) -> FloatArray:
        """The upper ones."""
        return np.concatenate([family.upper for family in self.families])

    @cached_property
    def pairs(self) -> Array:
        """The pairs of all families, as positions among all laws, shape (P, 2)."""
        sizes = [len(family.lower) for family in self.families]
        starts = np.cumsum([0, *sizes[:-1]])
        pairs = [f.pairs + start for f, start in zip(self.families, starts, strict=True)]
        return np.concatenate(pairs).astype(np.intp)

    @cached_property
    def costs(self) -> FloatArray:
        """What a move from each cell to each output adds to the expected cost, shape (n, m)."""
        every = np.arange(self.problem.n_cells)
        between = self.problem.costs.between(every, self.outputs)
        weighted: FloatArray = self.problem.weights[:, None] * between
        return weighted

    @property
    def factor(self) -> float:
        """The exponential of epsilon."""
        return math.exp(min(self.problem.epsilon, _LARGEST_EPSILON))

    @property
    def sink(self) -> int:
        """The place of the output that costs least when all cells are released as it."""
        return int(np.argmin(self.costs.sum(axis=0)))


class Ends(NamedTuple):
    """The largest and the least probability of each output under each law, shape (K, m)."""

    most: FloatArray
    least: FloatArray


def ends_of(bounded: BoundedProblem, channel: FloatArray) -> Ends:
    r"""Return the ends of p . w_y over the laws, for a channel of shape (n, m).

    The law that maximises it has its lower bounds, and what is left of its mass where w_y is
    largest; that which minimises it has it where w_y is least.
    """
    order = np.argsort(channel, axis=0, kind="stable")
    shares = np.take_along_axis(channel, order, axis=0)
    most, least = [], []
    for low, high in zip(bounded.lower, bounded.upper, strict=True):
        base, room = low @ channel, (high - low)[order]
        left = max(1.0 - float(low.sum()), 0.0)
        least.append(base + _filled(room, left, shares))
        most.append(base + _filled(room[::-1], left, shares[::-1]))
    return Ends(np.array(most), np.array(least))


def _filled(room: FloatArray, left: float, shares: FloatArray) -> FloatArray:
    """Return what is gained where mass is put into the first places, as far as there is room."""
    filled = np.diff(np.minimum(np.cumsum(room, axis=0), left), axis=0, prepend=0.0)
    gained: FloatArray = (filled * shares).sum(axis=0)
    return gained
