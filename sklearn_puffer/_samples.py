"""The rows that a distribution is fitted to: weighted, checked, and in units of their spread."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, real_numbers
from sklearn_puffer._words import quoted
from sklearn_puffer.priors import GaussianMixture

MOST_ROWS = 2**13
"""Most values of a column that a mixture is fitted to; of more, so many quantiles are."""

_MOST_JOINT_ROWS = 2**15  # the same for rows of several columns
_FAR = 1e75  # fourth powers of larger numbers, and of their inverse, are beyond floats


@dataclass(frozen=True)
class Sample:
    """Distinct rows in order, and how often each occurs."""

    rows: FloatArray  # (n, d)
    counts: FloatArray  # (n,), whole numbers

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def n_kept(self) -> int:
        """Number of rows that a mixture is fitted to."""
        return min(int(self.total), MOST_ROWS if self.rows.shape[1] == 1 else _MOST_JOINT_ROWS)

    @property
    def mean(self) -> FloatArray:
        middle = 0.5 * (self.rows.min(axis=0) + self.rows.max(axis=0))  # against cancellation
        shifted: FloatArray = middle + self.counts @ (self.rows - middle) / self.total
        return shifted

    @property
    def covariance(self) -> FloatArray:
        """The covariance matrix over the sample, divided by the number of rows."""
        centred = self.rows - self.mean
        matrix: FloatArray = (centred * self.counts[:, None]).T @ centred / self.total
        return 0.5 * (matrix + matrix.T)

    def scaled(self, spread: FloatArray) -> Sample:
        return Sample((self.rows - self.mean) / spread, self.counts)

    def expanded(self) -> FloatArray:
        """Return every row as often as it occurs, or at most `n_kept` quantiles of them.

        Of several columns they are the quantiles in the order of the first column, then the
        second, and so on.
        """
        size = self.n_kept
        positions = (np.arange(size) + 0.5) / size * self.total
        return self.rows[np.searchsorted(np.cumsum(self.counts), positions, side="right")]


def gaussian_of(mean: FloatArray, covariance: FloatArray) -> GaussianMixture:
    return mixture_of(np.ones(1), mean[None], covariance[None])


def mixture_of(weights: FloatArray, means: FloatArray, covariances: FloatArray) -> GaussianMixture:
    """Return a prior of components that have some weight, sorted by their means."""
    kept = np.flatnonzero(weights > 0.0)
    order = kept[np.lexsort(means[kept].T[::-1])]
    weights, means, covariances = weights[order], means[order], covariances[order]
    if means.shape[1] == 1:
        return GaussianMixture(weights, means[:, 0], np.sqrt(covariances[:, 0, 0]))
    return GaussianMixture(weights, means, 0.5 * (covariances + covariances.transpose(0, 2, 1)))


def pooled_covariance(parts: list[tuple[float, FloatArray]]) -> FloatArray:
    total = sum(weight for weight, _ in parts)
    pooled: FloatArray = np.sum([matrix * (weight / total) for weight, matrix in parts], axis=0)
    return pooled


def floored(covariance: FloatArray, spread: FloatArray, floor: float) -> FloatArray:
    """Raise the deviations of a covariance matrix, in units of the spreads, to the floor."""
    units = np.outer(spread, spread)
    values, vectors = np.linalg.eigh(covariance / units)
    if values[0] >= floor**2:
        return covariance
    raised = vectors * np.maximum(values, floor**2) @ vectors.T
    matrix: FloatArray = 0.5 * (raised + raised.T) * units
    return matrix


def checked_sample(rows: Any, counts: Any, spread: Any) -> tuple[Sample, FloatArray]:
    """Return the sample, with equal rows merged and in order, and the spreads."""
    table, numbers = real_numbers(rows, "rows"), real_numbers(counts, "counts")
    scale = real_numbers(spread, "spread")
    if table.ndim != 2 or table.shape[0] == 0 or numbers.shape != table.shape[:1]:
        raise ValueError(
            f"rows must have shape (n, d) and counts (n,), got {table.shape} and {numbers.shape}."
        )
    if scale.shape != table.shape[1:] or not np.all((scale > 0.0) & (scale < math.inf)):
        raise ValueError(
            f"spread must hold a positive number for each of the {table.shape[1]} columns, got "
            f"{scale.tolist()!r}; leave out columns that do not vary."
        )
    if not np.all(np.isfinite(table)):
        raise ValueError("rows must be finite, got NaN or infinity; drop or fill those rows.")
    far = float(table.ravel()[np.argmax(np.abs(table))])
    if abs(far) > _FAR:
        raise ValueError(
            f"rows must lie within {_FAR:g} of 0, as the powers of a Gaussian's scale must be "
            f"floats, got {far:g}; use another unit."
        )
    if not np.all((scale >= 1.0 / _FAR) & (scale <= _FAR)):
        raise ValueError(
            f"spread must lie between {1.0 / _FAR:g} and {_FAR:g}, got {scale.tolist()!r}; use "
            "another unit."
        )
    if not np.all((numbers >= 0.0) & (numbers == np.floor(numbers))) or numbers.sum() == 0.0:
        raise ValueError(
            "counts must be whole numbers, none negative and not all of them 0, got "
            f"{numbers.tolist()[:5]!r}."
        )
    distinct, back = np.unique(table[numbers > 0.0], axis=0, return_inverse=True)
    merged = np.bincount(back.ravel(), weights=numbers[numbers > 0.0])
    return Sample(distinct, merged.astype(float)), scale


def check_varies(sample: Sample, secret: Any) -> None:
    constant = np.flatnonzero(np.ptp(sample.rows, axis=0) == 0.0)
    if constant.size:
        given = "" if secret is None else f" given secret {quoted(secret)}"
        column = f" in column {constant[0]}" if sample.rows.shape[1] > 1 else ""
        raise ValueError(
            f"all values{given}{column} are equal: "
            f"{float(sample.rows[0, constant[0]])!r}, and a Gaussian has no scale for them; use "
            "prior='empirical' or prior=fits.GaussianFit(covariance='common'), or merge or leave "
            "out that secret."
        )


def check_any_varies(samples: Mapping[Any, Sample]) -> None:
    varies = np.any([np.ptp(sample.rows, axis=0) > 0.0 for sample in samples.values()], axis=0)
    if not varies.all():
        raise ValueError(
            f"all values of each secret in column {int(np.argmin(varies))} are equal, and a "
            "Gaussian has no scale for them; use prior='empirical'."
        )
