r"""Kernels of unordered columns, and channels: exact draws from rows that sum to 2^62.

A row of a channel is the distribution of the released cell given the true one.

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
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.entropy import (
    CheckedEntropy,
    Entropy,
    NotCopied,
    RowEntropy,
    Words,
    system_entropy,
)
from sklearn_puffer._noise.sampler import blocks

WHOLE = 1 << 62
"""What the shares of a row sum to."""

SPARE_BITS = np.uint64(2)  # of a word, above the 62 that are compared
_HALF_BITS = 31
_LOW_HALF = (1 << _HALF_BITS) - 1


@dataclass(frozen=True, eq=False)
class IntegerRows:
    r"""A channel: cell x is released as y with probability W(y|x), a share of 2^62.

    Parameters
    ----------
    starts : ndarray of int64 of shape (n + 1,)
        Row x holds the entries ``starts[x]:starts[x + 1]``, at least one.
    targets : ndarray of int64 of shape (n_entries,)
        The cells released, ascending within a row.
    shares : ndarray of int64 of shape (n_entries,)
        :math:`2^{62} W(y|x)`: positive, and each row sums to exactly 2^62.

    Raises
    ------
    TypeError, ValueError
        If the arrays are not whole numbers, or no such rows.

    Notes
    -----
    The arrays are read-only copies. A pickle holds them alone, and they are checked when it is
    loaded.

    Examples
    --------
    >>> IntegerRows([0, 2, 3], [0, 1, 1], [WHOLE // 4, 3 * WHOLE // 4, WHOLE]).n_cells
    2
    """

    starts: IntArray
    targets: IntArray
    shares: IntArray

    def __post_init__(self) -> None:
        for name in ("starts", "targets", "shares"):
            object.__setattr__(self, name, _whole_numbers(getattr(self, name), name))
        starts, targets, shares = self.starts, self.targets, self.shares
        if starts.size < 2 or starts[0] != 0 or (np.diff(starts) < 1).any():
            raise ValueError(
                "starts must begin with 0 and ascend, so that each row has an entry; give a cell "
                "that stays the entry of itself."
            )
        if not starts[-1] == targets.size == shares.size:
            raise ValueError(
                f"starts must end with the number of entries, got {starts[-1]} for {targets.size} "
                f"targets and {shares.size} shares; give each entry both."
            )
        if not 0 <= targets.min() <= targets.max() < self.n_cells:
            raise ValueError(
                f"targets must lie from 0 to {self.n_cells - 1}, got {targets.min()} to "
                f"{targets.max()}; cells are released as cells."
            )
        falls = np.flatnonzero(np.diff(targets) <= 0) + 1  # entries that must begin a row
        if not np.isin(falls, starts, assume_unique=True).all():
            raise ValueError(
                "targets must ascend within each row; sort them, and add up equal ones."
            )
        if not 1 <= shares.min() <= shares.max() <= WHOLE:
            raise ValueError(
                f"shares must lie from 1 to 2**62, got {shares.min()} to {shares.max()}; leave out "
                "entries of 0."
            )
        # in halves of 31 bits, whose sums over less than 2^31 entries cannot wrap around
        low = np.add.reduceat(shares & _LOW_HALF, starts[:-1])
        high = np.add.reduceat(shares >> _HALF_BITS, starts[:-1]) + (low >> _HALF_BITS)
        wrong = np.flatnonzero((high != 1 << _HALF_BITS) | (low & _LOW_HALF != 0))
        if wrong.size:
            raise ValueError(
                f"shares must sum to 2**62 in each row, and those of row {wrong[0]} do not; "
                "correct its largest share."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return IntegerRows, (self.starts, self.targets, self.shares)

    @property
    def n_cells(self) -> int:
        """The number n of cells: each has a row."""
        return self.starts.size - 1

    def sampler(self, entropy: Entropy | None = None) -> RowSampler:
        """Return what draws a target for each of some cells, by default with the system's bits."""
        return RowSampler(self, entropy or system_entropy())


class RowSampler(NotCopied):
    r"""Draws of released cells, exactly: :math:`P(y|x) = \text{share} / 2^{62}`.

    Notes
    -----
    *Formal guarantees.* Let :math:`c_1 < ... < c_r = 2^{62}` be the cumulative sums of a row. The
    entry drawn is the first one with :math:`u < c_i`, for 62 fair bits u of a word of their own, so
    that :math:`c_i - c_{i-1}` of the :math:`2^{62}` values of u lead to it: no rounding, and no row
    without a draw. Each draw takes one word and as many steps as the longest row of the channel
    needs, whatever the cells are and whatever is drawn. Nothing of the bits is kept.

    Examples
    --------
    >>> rows = IntegerRows([0, 2, 3], [0, 1, 1], [WHOLE // 4, 3 * WHOLE // 4, WHOLE])
    >>> rows.sampler().draw(np.array([1, 1, 1])).tolist()
    [1, 1, 1]
    """

    def __init__(self, rows: IntegerRows, entropy: Entropy) -> None:
        self._rows = rows
        # over all rows sums wrap around at 2^64, and so does what the rows before sum to: the
        # difference is right modulo 2^64, and at most 2^62
        self._ends = np.cumsum(rows.shares.astype(np.uint64), dtype=np.uint64)
        before = np.arange(rows.n_cells, dtype=np.uint64) * np.uint64(WHOLE)
        self._ends -= np.repeat(before, np.diff(rows.starts))
        self._steps = int(np.diff(rows.starts).max() - 1).bit_length()
        self._entropy: Entropy = CheckedEntropy(entropy)

    def draw(self, cells: NDArray[np.integer[Any]], words: Words | None = None) -> IntArray:
        """Return a released cell for each of ``cells``, whole numbers of shape (m,).

        With ``words``, of shape (m,), each is drawn from its own, and no other bits are.
        """
        if cells.size and not 0 <= int(cells.min()) <= int(cells.max()) < self._rows.n_cells:
            raise ValueError(
                f"cells must lie from 0 to {self._rows.n_cells - 1}, got {int(cells.min())} to "
                f"{int(cells.max())}; look them up in the channel's cells first."
            )
        drawn = np.empty(cells.size, dtype=np.int64)
        for block in blocks(cells.size):
            here = cells[block]
            bits = self._entropy.words(here.size) if words is None else words[block]
            drawn[block] = self._rows.targets[self._entries(here, bits)]
        return drawn

    def _entries(self, cells: NDArray[np.integer[Any]], words: Words) -> IntArray:
        """Return which entry is drawn for each cell: a bisection of its row."""
        bits = words >> SPARE_BITS
        first: IntArray = self._rows.starts[cells]
        last = self._rows.starts[cells + 1] - 1
        for _ in range(self._steps):  # ceil(log2 r) for the longest row; for others more do nothing
            middle = (first + last) >> 1
            beyond = bits >= self._ends[middle]
            # where first = last, the bits are below the end of the entry: both stay
            first = np.where(beyond, middle + 1, first)
            last = np.where(beyond, last, middle)
        return first


def _whole_numbers(values: Any, name: str) -> IntArray:
    """Return a read-only copy as int64."""
    array: Array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(
            f"{name} must be a line of whole numbers, got {array.ndim} axes of {array.dtype}; "
            "round a channel of floats first."
        )
    whole = array.astype(np.int64)
    whole.setflags(write=False)
    return whole


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
    def of_counts(cls, values: Sequence[float], counts: Sequence[int]) -> Self:
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
        odds = math.exp(-theta) / -math.expm1(-theta) if theta > 0.0 else math.inf
        return math.log1p(odds / self.least + _LEAST_ODDS)

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
    def of_values(cls, values: Sequence[float]) -> Self:
        """Return the kernel of a column of these values, ascending."""
        return cls.of_counts(values, [0] * len(values))


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
