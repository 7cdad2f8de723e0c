"""Noise along one axis of a plane: its mean over the stretches that boxes have there."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.divergences import Ends
from sklearn_puffer._numerics import ULP
from sklearn_puffer.noise import ROUNDING, Noise


def has_kink(noise: Noise) -> bool:
    """Return whether the density has a kink at 0, so that atoms must be edges."""
    scale = float(noise.axis_scales(1)[0])
    return bool(steepness(noise, np.zeros(1))[0] * scale > 1e-9)


def steepness(noise: Noise, distance: FloatArray) -> FloatArray:
    """Return |score| just beyond a distance: at a kink, its outer side."""
    return np.abs(noise.score(np.nextafter(distance, inf)))


@dataclass(frozen=True)
class AxisNoise:
    """Bounds on one axis' noise on each interval, for each atom.

    Attributes
    ----------
    mass, kernel, score : ndarray of shape (n_atoms, n_intervals)
        Mass; density at the centre, relative to the largest; slope of its log, relative to theirs.
    top, middle : ndarray of shape (n_intervals,)
        What `kernel` is relative to, as a log, and what `score` is.
    corner_kernel, corner_top : ndarray of shape (n_atoms, n_edges) and (n_edges,)
        The same at the edges.
    half : ndarray of shape (n_intervals,)
        Half the width; 0 where that is infinite.
    stoop : ndarray of shape (n_intervals,)
        m r^2 / 2 of the convexity bound.
    lip, bend : ndarray of shape (n_intervals,)
        How far f moves from the centre at most, and how far from its tangent.
    blur, margin : ndarray of shape (n_intervals,)
        Rounding errors of the log densities, and relative ones of the masses.
    """

    mass: FloatArray
    kernel: FloatArray
    score: FloatArray
    top: FloatArray
    middle: FloatArray
    corner_kernel: FloatArray
    corner_top: FloatArray
    half: FloatArray
    stoop: FloatArray
    lip: FloatArray
    bend: FloatArray
    blur: FloatArray
    margin: FloatArray


_ZERO, _ONE = np.zeros(1), np.ones(1)
NOTHING = AxisNoise(
    mass=_ONE[:, None],
    kernel=_ONE[:, None],
    score=_ZERO[:, None],
    top=_ZERO,
    middle=_ZERO,
    corner_kernel=np.ones((1, 2)),
    corner_top=np.zeros(2),
    half=_ZERO,
    stoop=_ZERO,
    lip=_ZERO,
    bend=_ZERO,
    blur=_ZERO,
    margin=_ZERO,
)
"""A column that says nothing."""


def column_over(atoms: FloatArray, edges: FloatArray, noise: Noise) -> AxisNoise:
    low, high = edges[:-1], edges[1:]
    infinite = np.isinf(low) | np.isinf(high)
    centre = np.where(np.isinf(low), high, np.where(np.isinf(high), low, low / 2.0 + high / 2.0))
    half = np.where(infinite, 0.0, np.maximum(centre - low, high - centre) * (1.0 + 2.0 * ULP))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        logs = noise.log_density((centre - atoms[:, None])[..., None])
        score = noise.score(centre - atoms[:, None])
        spread, steepest = _spread(atoms, low, high, noise)
        steps, bends = _between_atoms(atoms, low, high, noise)
        spread = np.fmin(spread, steps)
        lip = np.where(spread == 0.0, 0.0, spread * np.where(infinite, inf, half))
        lip = np.where(infinite, np.fmin(lip, _beyond(atoms, centre, noise)), lip)
        lowest, highest = _bends(atoms, low, high, noise)
        bent = np.fmin(highest - lowest, bends)
        bend = 0.5 * bent * half**2 + lip**2 / 8.0 + 1e-11 * lip
        stoop = 0.5 * np.maximum(-lowest, 0.0) * half**2
    kinked = infinite | _has_kink_within(atoms, low, high, noise)
    top = logs.max(axis=0)
    # what lies deeper underflows, and `_UNKNOWN` tells where that could matter
    depth = 8.0 + np.minimum(top - logs.min(axis=0), 752.0)
    middle = 0.5 * (score.max(axis=0) + score.min(axis=0))
    at_edges = np.where(np.isfinite(edges), edges, 0.0)
    corners = noise.log_density((at_edges - atoms[:, None])[..., None])
    corner_top = corners.max(axis=0)
    off = 2.0 * ULP * (np.abs(centre) + half + np.abs(atoms).max())
    steep = np.where(infinite, np.abs(score).max(axis=0), steepest)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        per_width = np.where(infinite, 0.0, 1.0 / (high - low))
        margin = 2.0 * ROUNDING + 4.0 * off * (per_width + 2.0 * steep)
    return AxisNoise(
        mass=noise.mass(low - atoms[:, None], high - atoms[:, None]),
        kernel=np.exp(logs - top),
        score=score - middle,
        top=top,
        middle=middle,
        corner_kernel=np.exp(corners - corner_top),
        corner_top=corner_top,
        half=half,
        stoop=np.where(kinked, inf, stoop),
        lip=lip,
        bend=np.where(kinked & (lip > 0.0), inf, bend),
        blur=4.0 * off * steep + 16.0 * ULP * (np.abs(top) + depth + 3.0 * half * steep),
        margin=margin,
    )


def _has_kink_within(
    atoms: FloatArray, low: FloatArray, high: FloatArray, noise: Noise
) -> NDArray[np.bool_]:
    """Return in which intervals the slope of some atom's log density jumps."""
    if not has_kink(noise):
        return np.zeros(low.shape, dtype=bool)
    return np.searchsorted(atoms, high, side="left") > np.searchsorted(atoms, low, side="right")


def _spread(
    atoms: FloatArray, low: FloatArray, high: FloatArray, noise: Noise
) -> tuple[FloatArray, FloatArray]:
    """Return the width of the atoms' range of scores on each interval, and the steepest score."""
    near, far = _distances(atoms, low, high)
    steep = noise.steepest(near, far)
    flat = np.minimum(steepness(noise, near), np.abs(noise.score(far)))
    # where an atom lies to the left the density falls, to the right it rises
    least = np.where(atoms[:, None] >= high, flat, -steep)
    most = np.where(atoms[:, None] <= low, -flat, steep)
    spread = most.max(axis=0) - least.min(axis=0)
    if atoms.size == 1:  # whatever y is, x is known
        spread = np.zeros_like(spread)
    return spread, steep.max(axis=0)


def _between_atoms(
    atoms: FloatArray, low: FloatArray, high: FloatArray, noise: Noise
) -> tuple[FloatArray, FloatArray]:
    """Return how far scores, and their slopes, are apart at any one point of each interval.

    By the mean value theorem, for densities without a kink: the atoms may lie much closer to each
    other than the ends of the interval.
    """
    if has_kink(noise):
        return np.full_like(low, inf), np.full_like(low, inf)
    span = (atoms[-1] - atoms[0]) * (1.0 + 4.0 * ULP)
    near = np.maximum(np.maximum(low - atoms[-1], atoms[0] - high), 0.0) * (1.0 - 4.0 * ULP)
    least, most = noise.curvature(near, np.full_like(near, inf))
    steps = span * np.maximum(np.abs(least), np.abs(most)) * (1.0 + 1e-11)
    return steps, span * noise.turning(near) * (1.0 + 1e-11)


def _bends(atoms: FloatArray, low: FloatArray, high: FloatArray, noise: Noise) -> Ends:
    """Return the least and the largest (log K)'' over each interval and all atoms."""
    least, most = noise.curvature(*_distances(atoms, low, high))
    lowest = least.min(axis=0)
    return lowest, lowest if atoms.size == 1 else most.max(axis=0)


def _distances(atoms: FloatArray, low: FloatArray, high: FloatArray) -> Ends:
    x = atoms[:, None]
    near = np.maximum(np.maximum(low - x, x - high), 0.0)
    return near, np.maximum(np.abs(low - x), np.abs(high - x))


def _beyond(atoms: FloatArray, centre: FloatArray, noise: Noise) -> FloatArray:
    """Return how far f moves beyond an outer edge at most."""
    nearest = np.maximum(np.maximum(atoms[0] - centre, centre - atoms[-1]), 0.0)
    return noise.drift(nearest, float(atoms[-1] - atoms[0]))
