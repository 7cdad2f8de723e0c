"""The privacy loss by brute force: every vertex, every term, in 50 digits.

Shares nothing with the package but the atoms and the integer counts of its priors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import mpmath
import numpy as np

DIGITS = 50


def log_density(prior: Any, point: Sequence[float], theta: Sequence[float]) -> mpmath.mpf:
    """Log of sum_x p(x) exp(-sum_k |x_k - y_k| / theta_k) at one point, however small."""
    with mpmath.workdps(DIGITS):
        exponents, counts = [], []
        for row, count in zip(_rows(prior), prior.counts.tolist(), strict=True):
            if count:
                exponents.append(-_distance(row, point, theta))
                counts.append(count)
        top = max(exponents)
        total = mpmath.fsum(
            count * mpmath.exp(exponent - top)
            for exponent, count in zip(exponents, counts, strict=True)
        )
        return top + mpmath.log(total) - mpmath.log(int(prior.total))


def log_ratio(p: Any, q: Any, point: Sequence[float], theta: Any) -> mpmath.mpf:
    """Log h_p / h_q at one point."""
    scales = _scales(theta, len(_rows(p)[0]))
    with mpmath.workdps(DIGITS):
        return log_density(p, point, scales) - log_density(q, point, scales)


def directed_losses(p: Any, q: Any, theta: Any) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Suprema of log h_p / h_q and of log h_q / h_p over the vertices of the joint grid."""
    ratios = [log_ratio(p, q, point, theta) for point in vertices(p, q)]
    return max(ratios), -min(ratios)


def loss(p: Any, q: Any, theta: Any) -> mpmath.mpf:
    """The larger of the two directed losses."""
    return max(directed_losses(p, q, theta))


def vertices(*priors: Any) -> Iterable[tuple[float, ...]]:
    """The grid spanned by all atoms, those without mass included."""
    columns = zip(*(row for prior in priors for row in _rows(prior)), strict=True)
    return product(*(sorted(set(column)) for column in columns))


def dense_losses(p: Any, q: Any, theta: float) -> tuple[float, float]:
    """Directed losses of two one-column priors by one dense kernel matrix in extended precision."""
    atoms = np.union1d(p.atoms, q.atoms).astype(np.longdouble)
    sums = []
    for prior in (p, q):
        masses = np.array([int(c) for c in prior.counts], np.longdouble) / int(prior.total)
        gaps = np.abs(atoms[:, None] - prior.atoms.astype(np.longdouble))
        sums.append(np.exp(-gaps / np.longdouble(theta)) @ masses)
    ratio = np.log(sums[0] / sums[1])
    return float(ratio.max()), float(-ratio.min())


def _rows(prior: Any) -> list[tuple[float, ...]]:
    atoms = np.asarray(prior.atoms)
    return [tuple(row) for row in atoms.reshape(len(atoms), -1).tolist()]


def _scales(theta: Any, n_axes: int) -> list[float]:
    return list(theta) if np.ndim(theta) else [theta] * n_axes


def _distance(row: Sequence[float], point: Sequence[float], theta: Sequence[float]) -> mpmath.mpf:
    return mpmath.fsum(
        abs(mpmath.mpf(a) - mpmath.mpf(b)) / mpmath.mpf(scale)
        for a, b, scale in zip(row, point, theta, strict=True)
    )
