"""The two laws of one user, and the log ratio of the densities that they give the sum.

With h the Laplace sums of the other users' law, the densities are sum_t P(t) h(y - t), and the same
with Q. Their ratio is looked at on the lattice, where its largest values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, inf

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sklearn_puffer._base import LN2, UNIT, FloatArray, IntArray
from sklearn_puffer._sums.others import NOTHING, Lattice, Row
from sklearn_puffer.priors import Discrete

_WIDEST = 400.0  # windows up to this many theta wide are summed in floats
_SMALLEST_MASS = 2.0**-900


@dataclass(frozen=True, eq=False)
class Laws:
    """The two laws of one user, on one stretch of the lattice: masses * 2^exponents."""

    masses: FloatArray  # shape (2, span + 1)
    exponents: IntArray

    @classmethod
    def of(cls, p: Lattice, q: Lattice, p_law: Discrete, q_law: Discrete) -> Laws:
        first = min(p.start, q.start)
        size = max(p.start + p.span, q.start + q.span) - first + 1
        masses, exponents = np.zeros((2, size)), np.zeros((2, size), np.int64)
        for row, (part, law) in enumerate([(p, p_law), (q, q_law)]):
            places = part.start - first + part.atoms
            masses[row, places], exponents[row, places] = _exact_masses(law)
        return cls(masses, exponents)

    @property
    def span(self) -> int:
        return len(self.masses[0]) - 1

    @property
    def n_atoms(self) -> int:
        return int((self.masses > 0.0).sum(axis=1).max())

    @property
    def is_moderate(self) -> bool:
        return not self.exponents.any()


def _exact_masses(law: Discrete) -> tuple[FloatArray, IntArray]:
    """Return the masses of the atoms that have some, scaled up where floats cannot hold them."""
    positive = law.counts > 0
    masses: FloatArray = law.probabilities[positive]
    exponents = np.zeros(len(masses), np.int64)
    if masses.min() >= _SMALLEST_MASS:
        return masses, exponents
    for k, count in enumerate(law.counts[positive].tolist()):
        shift = max(law.total.bit_length() - int(count).bit_length(), 0)
        masses[k], exponents[k] = (int(count) << shift) / law.total, -shift
    return masses, exponents


def margin(
    losses: FloatArray, worst: FloatArray, units: float, missed: float, row_units: float
) -> FloatArray:
    """Return how far the computed losses may be from the true ones (the header says why)."""
    error = units * UNIT
    largest = min(float(worst.max()), 300.0)
    of_masses = min(2.0 * error, error * expm1(2.0 * largest))
    of_rest = 2.0 * missed + UNIT * (2.0 * row_units + 10.0)
    return 1.01 * (of_masses + of_rest) + 5.0 * UNIT * np.where(np.isfinite(losses), losses, 0.0)


def suprema(row: Row, laws: Laws, s: float) -> FloatArray:
    """Return the largest log ratios, both ways, of the two densities along the lattice."""
    logs = _log_ratios(row, laws, s)
    found: FloatArray = np.maximum([logs.max(), -logs.min()], 0.0)
    return found


def _log_ratios(row: Row, laws: Laws, s: float) -> FloatArray:
    """Return the log of the ratio of the two densities at every place they have on the row."""
    width = min(max(laws.span, 32), 512)
    if laws.is_moderate and (width + laws.span) * s <= _WIDEST:
        p, q = _window_sums(row, laws.masses, width)
        logs: FloatArray = np.log(p / q)
        return logs
    return _wide_logs(row, laws)


def _window_sums(row: Row, masses: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Return both densities at every place, in units that change from window to window."""
    span = masses.shape[1] - 1
    size = len(row.mantissa) - span
    n_rows = -(-size // width)
    extra = n_rows * width - size
    mantissa = np.pad(row.mantissa, (0, extra), mode="edge")
    exponent = np.pad(row.exponent, (0, extra), mode="edge")
    mantissa = sliding_window_view(mantissa, width + span)[::width]
    exponent = sliding_window_view(exponent, width + span)[::width]
    shifts = exponent - exponent.max(axis=1, keepdims=True)
    values = np.ldexp(mantissa, np.maximum(shifts, -2100).astype(np.int32))
    kernels = np.zeros((2, width + span, width))
    for k in range(width):
        kernels[:, k : k + span + 1, k] = masses[:, ::-1]
    p, q = values @ kernels[0], values @ kernels[1]
    return p.ravel()[:size], q.ravel()[:size]


def _wide_logs(row: Row, laws: Laws) -> FloatArray:
    """Return log p/q at every place, by sums of mantissas with powers of two of their own."""
    (p, p_top), (q, q_top) = (
        _wide_sum(row, masses, exponents)
        for masses, exponents in zip(laws.masses, laws.exponents, strict=True)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(p / q) + (p_top - q_top) * LN2
        logs[(p > 0.0) & (q == 0.0)] = inf
        logs[(p == 0.0) & (q > 0.0)] = -inf
    logs[(p == 0.0) & (q == 0.0)] = 0.0
    settled: FloatArray = logs
    return settled


def _wide_sum(row: Row, masses: FloatArray, exponents: IntArray) -> tuple[FloatArray, IntArray]:
    span = len(masses) - 1
    size = len(row.mantissa) - span
    places = np.flatnonzero(masses).tolist()
    powers = np.where(row.mantissa > 0.0, row.exponent, NOTHING)
    top = np.full(size, NOTHING)
    for t in places:
        np.maximum(top, powers[span - t : span - t + size] + exponents[t], out=top)
    total = np.zeros(size)
    for t in places:
        here = slice(span - t, span - t + size)
        shifts = np.clip(powers[here] + exponents[t] - top, -2100, 0).astype(np.int32)
        total += masses[t] * np.ldexp(row.mantissa[here], shifts)
    return total, top
