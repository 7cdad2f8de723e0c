"""Cells of rows: what is known of a secret, cut into few classes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_puffer._base import Array, FloatArray

_LEAST_ODDS = 1e-9  # of a secret, below which two secrets are told apart as well as can be
_LEAST_SHARE = 1e-2  # of one of several secrets, below which rows are alike


class Cells(Protocol):
    """A map of posteriors to cells, numbered from 0."""

    @property
    def count(self) -> int:
        """How many cells there are."""

    def of(self, posteriors: Sequence[FloatArray]) -> Array:
        """Return the cell of each row, given one table of posteriors for each classifier."""


@dataclass(frozen=True, eq=False)
class OddsCells:
    """Cells of two secrets: intervals of the log odds between them, (edge, next edge]."""

    edges: FloatArray

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.edges) + 1

    def of(self, posteriors: Sequence[FloatArray]) -> Array:
        """Return the interval of each row."""
        return np.searchsorted(self.edges, log_odds(posteriors[0]), side="left")


@dataclass(frozen=True, eq=False)
class NearestCells:
    """Cells around centres: of several secrets, of log posteriors without the rarest ones."""

    centres: FloatArray

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.centres)

    def of(self, posteriors: Sequence[FloatArray]) -> Array:
        """Return the nearest centre of each row."""
        return nearest_centres(log_posteriors(posteriors), self.centres)


def learnt_cells(posteriors: Sequence[FloatArray], weights: Array, count: int) -> Cells:
    """Return at most so many cells of the rows that have these posteriors.

    Of two secrets each has as many rows as any other, and fewer towards the ends, where rows tell
    most; else they are clusters. The result depends on the multiset of rows alone, as far as sums
    of floats do.
    """
    if len(posteriors) == 1 and posteriors[0].shape[1] == 2:
        odds = log_odds(posteriors[0])
        order = np.argsort(odds, kind="stable")
        ends = np.cumsum(weights[order])
        even = np.linspace(0.0, 1.0, count + 1)[1:-1]
        levels = (even + np.sin(np.pi * even / 2.0) ** 2) / 2.0
        edges = np.unique(odds[order][np.searchsorted(ends, levels * ends[-1])])
        return OddsCells(edges[edges < odds.max()])
    return NearestCells(learnt_centres(log_posteriors(posteriors), weights, count))


def learnt_centres(points: FloatArray, weights: Array, count: int) -> FloatArray:
    """Return at most so many centres of points, shape (n, d), by k-means."""
    from sklearn.cluster import KMeans  # heavy, and few ask for it

    distinct, back = np.unique(points, axis=0, return_inverse=True)
    counts = np.bincount(back.ravel(), weights, minlength=len(distinct))
    means = KMeans(min(count, len(distinct)), n_init=1, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = means.fit(distinct, sample_weight=counts)
    return np.asarray(np.unique(found.cluster_centers_, axis=0))


def nearest_centres(points: FloatArray, centres: FloatArray) -> Array:
    """Return the place of the centre that is nearest to each point."""
    square = (centres**2).sum(axis=1) / 2.0
    return np.asarray((square - points @ centres.T).argmin(axis=1))


def log_odds(posterior: FloatArray) -> FloatArray:
    """Return the log odds of the second secret against the first."""
    first, second = np.maximum(posterior, _LEAST_ODDS).T
    return np.asarray(np.log(second) - np.log(first))


def log_posteriors(posteriors: Sequence[FloatArray]) -> FloatArray:
    """Return the log posteriors of all classifiers beside each other, each about its mean."""
    logs = [np.log(np.maximum(each, _LEAST_SHARE)) for each in posteriors]
    return np.concatenate([each - each.mean(axis=1, keepdims=True) for each in logs], axis=1)
