"""What an exact loss needs to know of the law of a released column, Y = X + N given a secret."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

from sklearn_puffer._base import FloatArray


class Expansion(NamedTuple):
    """The log density around points, in arrays of their shape.

    ``value`` and ``slope`` are right to within ``value_error`` and ``slope_error``; within the
    radius asked for, the second derivative lies between ``lowest`` and ``highest``.
    """

    value: FloatArray
    slope: FloatArray
    lowest: FloatArray
    highest: FloatArray
    value_error: FloatArray
    slope_error: FloatArray


class Law(Protocol):
    """The law of one released column. All bounds are proven, rounding included."""

    def anchors(self) -> FloatArray:
        """Return sorted finite points to cut at first: the density has no kink between them.

        Outside the first and the last one is tail.
        """

    def masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the mass of each panel [low, high]; ends may be infinite."""

    def log_bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the log density over each finite panel."""

    def expansion(self, middle: FloatArray, radius: FloatArray) -> Expansion:
        """Return the log density around each middle, where it has no kink within the radius."""

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over all y >= edge (side 1) or y <= edge (side -1)."""

    # Added after the first draft: a tail in which the log ratio is unbounded (Gaussian tails) can
    # still have a finite Renyi integral. Where `beyond` is finite, return order * its upper end
    # plus the log of the tail's mass. Joint convexity of a^alpha b^(1 - alpha) helps: the integral
    # is at most the mean, over any coupling of the components, of the components' own integrals.
    def beyond_power(self, other: Self, edge: float, side: int, alpha: float) -> float:
        """Return an upper bound on the log of the integral of h^alpha h_other^(1 - alpha) there."""
