r"""Kernels of unordered columns.

In an unordered column the value stays, or is drawn anew from fixed shares:

.. math:: K_\rho = (1 - \rho) I + \rho 1 q', \qquad \rho = 1 - e^{-\theta}

:math:`K_\rho K_\sigma = K_{1 - (1 - \rho)(1 - \sigma)}`, so the kernel of a larger theta is that of
a smaller one followed by another kernel, and no loss grows with theta. q is stationary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.entropy import CheckedEntropy, Entropy, NotCopied, RowEntropy
from sklearn_puffer._noise.integer_rows import SPARE_BITS, WHOLE

_LEAST_ODDS = 1e-300  # more than all odds that underflow


@dataclass(frozen=True)
class Mixing:
    """The distribution from which values of an unordered column are redrawn.

    Attributes
    ----------
    values : tuple of float
        The codes of its alphabet, ascending.
    shares : tuple of int
        q in units of 2^-62: positive, and summing to 2^62.
    """

    values: tuple[float, ...]
    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        if min(self.shares) < 1 or sum(self.shares) != WHOLE:
            raise ValueError("shares must be positive and sum to 2**62; use Mixing.of_counts.")

    @classmethod
    def of_counts(cls, values: Sequence[float], counts: Sequence[int]) -> Mixing:
        """Return the mixing of counted values, each of which counts once more.

        >>> mixing = Mixing.of_counts([0.0, 1.0], [2, 0])
        >>> mixing.probabilities.tolist()
        [0.75, 0.25]
        """
        more = [int(count) + 1 for count in counts]
        total = sum(more)
        shares = [count * WHOLE // total for count in more]
        shares[shares.index(max(shares))] += WHOLE - sum(shares)
        return cls(tuple(map(float, values)), tuple(shares))

    @cached_property
    def probabilities(self) -> FloatArray:
        """The shares q as floats, each right to 2^-53 of itself."""
        return np.array([share / WHOLE for share in self.shares])

    @property
    def least(self) -> float:
        """The smallest share."""
        return min(self.shares) / WHOLE

    def codes_of(self, values: FloatArray) -> IntArray:
        """Return the codes of values, all of which must be in the alphabet."""
        codes = np.searchsorted(self.values, values)
        if not np.array_equal(np.take(self.values, codes, mode="clip"), values):
            raise ValueError("values must be among those that are mixed; none other has a share.")
        return codes

    def max_divergence(self, theta: float) -> float:
        r"""Return the largest log ratio of two rows, kappa, in nats; 0 for a single value.

        .. math:: \kappa = \log\left(1 + \frac{1 - \rho}{\rho \min q}\right)
        """
        if len(self.shares) == 1:
            return 0.0
        return math.log1p(_odds(theta) / self.least + _LEAST_ODDS)

    def hockey_stick(self, theta: float, epsilon: float) -> float:
        r"""Return the largest hockey-stick divergence of two rows.

        .. math:: \left(1 - \rho - (e^\varepsilon - 1) \rho \min q\right)_+
        """
        if len(self.shares) == 1 or epsilon > 700.0:
            return 0.0
        drawn = -math.expm1(-theta) * self.least * math.expm1(epsilon)
        return max(math.exp(-theta) - drawn, 0.0)

    def sampler(self, theta: float, entropy: Entropy) -> MixingSampler:
        """Return what draws released values."""
        return MixingSampler(self, theta, entropy)


class Unchanged(Mixing):
    """The kernel of a column that is released as it is: rho = 0 at every scale."""

    @classmethod
    def of_values(cls, values: Sequence[float]) -> Unchanged:
        """Return the kernel of a column of these values, ascending."""
        return cls.of_counts(values, [0] * len(values))

    @classmethod
    def of_counts(cls, values: Sequence[float], counts: Sequence[int]) -> Unchanged:
        """Return the kernel of counted values, whose shares are never drawn from."""
        mixing = Mixing.of_counts(values, counts)
        return cls(mixing.values, mixing.shares)


def _odds(theta: float) -> float:
    """Return (1 - rho) / rho."""
    kept = math.exp(-theta)
    return kept / -math.expm1(-theta) if theta > 0.0 else math.inf


def kept_numerator(theta: float) -> int:
    """Return 1 - rho in units of 2^-62, rounded down: to keep less never loses privacy.

    >>> kept_numerator(0.0) == WHOLE, kept_numerator(50.0)
    (True, 0)
    """
    if theta == 0.0:
        return WHOLE
    return math.floor(Fraction(float(portable.exp(-theta))) * (1 - Fraction(1, 2**50)) * WHOLE)


class MixingSampler(NotCopied):
    r"""Released values of an unordered column, in whole numbers.

    One word of 62 fair bits decides whether the value stays. A second one draws the new value,
    whether it is used or not: so the time depends on neither.

    Notes
    -----
    *Formal guarantees.* With :math:`1 - \rho'` the `kept_numerator` the distribution is exactly
    :math:`K_{\rho'}`, :math:`\rho' \ge \rho`; the bits are taken to be fair and independent.
    """

    def __init__(self, mixing: Mixing, theta: float, entropy: Entropy) -> None:
        self._kept = np.uint64(kept_numerator(theta))
        self._entropy: Entropy = CheckedEntropy(entropy)
        self._below = np.array([*np.cumsum(mixing.shares, dtype=np.uint64)[:-1]], dtype=np.uint64)

    def release(self, codes: Array) -> None:
        """Overwrite codes, of shape (n,), with released ones."""
        self.release_from(codes, self._entropy)

    def release_from(self, codes: Array, source: Entropy | RowEntropy) -> None:
        """Overwrite codes with released ones, from the bits of a source, or of each row."""
        size = len(codes)
        words = source.words(2 * size) >> SPARE_BITS
        drawn = np.searchsorted(self._below, words[size:], side="right")
        np.copyto(codes, drawn, where=words[:size] >= self._kept)
