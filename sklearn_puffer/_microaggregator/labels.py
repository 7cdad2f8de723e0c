"""What a label makes of a row, as further coordinates: prototypes then part what a model needs.

A ridge regression of numbers, or a logistic regression of each class but the most frequent against
all others, on the coordinates of the rows. Its score is standardised, clipped, and multiplied by a
weight. It is a function of the row; the label itself is never released, nor needed later.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._microaggregator.coordinates import Coordinates, Sample, Scores
from sklearn_puffer._tables import Values, as_levels, check_finite, present

FARTHEST = 4.0
"""The standard deviations at which scores are clipped."""

MOST_CLASSES = 20
"""Whole numbers of more different values are taken as numbers, not as classes."""

_MOST_CONTRASTS = 10
_MOST_STEPS = 200
_SLOPE_BITS = 20


def with_scores(coordinates: Coordinates, sample: Sample, weight: float) -> Coordinates:
    """Return the coordinates with those of the labels of a sample; of one label there are none.

    Rows that lack their label are left out.

    Raises
    ------
    ValueError
        If a label is infinite.
    """
    if sample.labels is None or weight == 0.0:
        return coordinates
    labels = sample.labels
    if labels.kind == "float":
        check_finite(present(labels), "y")
    there = np.arange(len(labels)) if labels.missing is None else np.flatnonzero(~labels.missing)
    points = coordinates.rows(sample.columns).dense()[there]
    stood_for = sample.weights[there]
    lines = [
        _standardised(points, slopes, offset, stood_for)
        for slopes, offset in _regressions(points, labels.taken(there), stood_for)
    ]
    lines = [line for line in lines if line is not None]
    if not lines:
        return coordinates
    slopes = _coarse(weight * np.array([line[0] for line in lines if line]))
    offsets = [weight * line[1] for line in lines if line]
    scores = Scores(tuple(map(tuple, slopes.tolist())), tuple(offsets), weight * FARTHEST)
    return replace(coordinates, scores=scores)


def _regressions(
    points: FloatArray, labels: Values, weights: IntArray
) -> Iterator[tuple[FloatArray, float]]:
    """Yield slopes and offset of each regression."""
    from sklearn.exceptions import ConvergenceWarning  # heavy, and not needed for most fits
    from sklearn.linear_model import LogisticRegression, Ridge

    if not len(labels):
        return
    if _is_number(labels):
        ridge = Ridge().fit(points, labels.data.astype(np.float64), sample_weight=weights)
        yield ridge.coef_, float(ridge.intercept_)
        return
    for of_class in _contrasts(labels, weights):
        model = LogisticRegression(max_iter=_MOST_STEPS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(points, of_class, sample_weight=weights)
        yield model.coef_[0], float(model.intercept_[0])


def _is_number(labels: Values) -> bool:
    if labels.kind not in ("float", "integer"):
        return False
    distinct = np.unique(labels.data)
    return len(distinct) > MOST_CLASSES or bool((distinct % 1 != 0).any())


def _contrasts(labels: Values, weights: IntArray) -> list[Array]:
    """Return for each class but the most frequent, of several the first, which rows are of it."""
    codes = as_levels(labels).data
    counts = np.bincount(codes, weights)
    by_size = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    return [codes == k for k in by_size[1 : _MOST_CONTRASTS + 1]]


def _standardised(
    points: FloatArray, slopes: FloatArray, offset: float, weights: IntArray
) -> tuple[FloatArray, float] | None:
    """Return the line with mean 0 and standard deviation 1 over the rows, None if it is flat."""
    heights = points @ slopes + offset
    mean = float(np.average(heights, weights=weights))
    spread = math.sqrt(float(np.average((heights - mean) ** 2, weights=weights)))
    if not spread > 1e-9 * (1.0 + abs(mean)):
        return None
    return slopes / spread, (offset - mean) / spread


def _coarse(slopes: FloatArray) -> FloatArray:
    """Return multiples of a power of two: floats hold their sums over coordinates exactly."""
    step = math.ldexp(1.0, math.frexp(float(np.abs(slopes).max()))[1] - _SLOPE_BITS)
    return np.asarray(np.rint(slopes / step) * step)
