r"""What counts of secrets in prototypes say: simultaneous bounds on their masses.

Of n rows of prototype a, c have secret s. Given the public columns, their secrets are independent,
with unequal chances. Two-sided Clopper-Pearson bounds hold the mean of these chances,

.. math:: B^{-1}_{e/2}(c, n - c + 1) \le q_s(a) \le B^{-1}_{1 - e/2}(c + 1, n - c),

since a sum of unequal chances is less spread than a binomial of the same mean (Hoeffding 1956),
with one exception. That at least one of n happens, with a mean :math:`\mu` below 1, has a chance of
:math:`\mu` at most, and with equal chances of :math:`1 - (1 - \mu/n)^n \ge 1 - e^{-\mu}`. Where
c = 1 or c = n - 1 the part e is lowered for it, to :math:`2 (1 - e^{-e/2})`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainccinv, betaincinv

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses import MassBoxes

ONE = 1 << 60
"""What the masses of all secrets in all prototypes sum to, as whole numbers."""

_OUTWARDS = 2.0**-40  # relatively: more than quantiles of the beta distribution are off by
_FOR_SHARES = 0.2  # of the error; bounds within prototypes have the rest


@dataclass(frozen=True, eq=False)
class SecretCounts:
    """Rows in prototypes, in all and by protected secret: of everybody, or of one joined label.

    Attributes
    ----------
    counts : ndarray of int64 of shape (n_prototypes, n_secrets)
        Rows of each secret that a protected pair names, at least two.
    sizes : ndarray of int64 of shape (n_prototypes,)
        All rows of each prototype, those of other secrets among them.
    pairs : ndarray of intp of shape (n_pairs, 2)
        The protected pairs, as columns of ``counts``.
    """

    counts: IntArray
    sizes: IntArray
    pairs: Array

    def as_counted(self) -> MassBoxes:
        """Return the counts, as if all people had been counted."""
        return MassBoxes.as_counted(self.counts)

    def occurring(self) -> SecretCounts:
        """Return the counts of the secrets that occur, and the pairs of which both do."""
        there = np.flatnonzero(self.counts.sum(axis=0))
        pairs = self.pairs[np.isin(self.pairs, there).all(axis=1)]
        return SecretCounts(self.counts[:, there], self.sizes, np.searchsorted(there, pairs))

    def some(self, prototypes: IntArray) -> SecretCounts:
        """Return the counts in some prototypes."""
        return SecretCounts(self.counts[prototypes], self.sizes[prototypes], self.pairs)

    def boxes(self, error: float) -> MassBoxes:
        r"""Return bounds that hold at once for the people of whom these rows are a sample.

        Parameters
        ----------
        error : float
            What all bounds together may miss, in (0, 1).

        Notes
        -----
        *Formal guarantees.* Given the public columns let the secrets of the rows be independent,
        with any chances. Then with a probability of at least 1 - ``error`` every
        :math:`m_s(a) = N_a q_s(a) / N` and every sum of them is within its bounds, in units of
        2^-60, where :math:`q_s(a)` is the mean chance of secret s over the rows of prototype a.
        Bounds of one of two secrets say those of the other.

        Examples
        --------
        >>> few = SecretCounts(np.array([[9, 1], [2, 8]]), np.array([10, 10]), np.array([[0, 1]]))
        >>> boxes = few.boxes(0.05)
        >>> (boxes.low / ONE).round(3).tolist(), (boxes.high / ONE).round(3).tolist()
        ([[0.248, 0.0], [0.008, 0.194]], [[0.5, 0.252], [0.306, 0.492]])
        """
        total = self.sizes.sum()
        sizes = self.sizes[:, None]
        n_bounds = int(np.count_nonzero(sizes)) * self._free
        share = (1.0 - _FOR_SHARES) * error / n_bounds
        low, high = clopper_pearson(self.counts, sizes, share)
        weights = sizes / total
        return self._boxes(weights * low, weights * high, error)

    def joint_boxes(self, error: float) -> MassBoxes:
        """Return bounds that hold for new rows too: the shares of prototypes are a sample as well.

        The prototypes are taken to be fixed before the rows are drawn.
        """
        total = self.sizes.sum()
        share = (1.0 - _FOR_SHARES) * error / self.counts.size
        return self._boxes(*clopper_pearson(self.counts, total, share), error)

    @property
    def _free(self) -> int:
        """How many secrets have bounds of their own."""
        n_secrets = self.counts.shape[1]
        alone = n_secrets == 2 and np.array_equal(self.counts.sum(axis=1), self.sizes)
        return 1 if alone else n_secrets

    def _boxes(self, low: FloatArray, high: FloatArray, error: float) -> MassBoxes:
        share = _FOR_SHARES * error / self._free
        sums = clopper_pearson(self.counts.sum(axis=0), self.sizes.sum(), share)
        return MassBoxes(_down(low), _up(high), _down(sums[0]), _up(sums[1]))


def clopper_pearson(
    hits: IntArray, trials: IntArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the mean chance of independent trials, each pair missing with ``error``.

    Examples
    --------
    >>> low, high = clopper_pearson(np.array([0, 5]), np.array(10), 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871], [0.3085, 0.8129])
    """
    misses = trials - hits
    low = betaincinv(np.maximum(hits, 1), misses + 1.0, _half(error, hits))
    high = betainccinv(hits + 1.0, np.maximum(misses, 1), _half(error, misses))
    return np.where(hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def _half(error: float, events: IntArray) -> FloatArray:
    """Return what one side may miss; less for one event, where chances may be unequal."""
    return np.where(events == 1, -np.expm1(-error / 2.0), error / 2.0)


def _down(masses: FloatArray) -> IntArray:
    return np.floor(masses * (1.0 - _OUTWARDS) * ONE).astype(np.int64)


def _up(masses: FloatArray) -> IntArray:
    return np.ceil(masses * (1.0 + _OUTWARDS) * ONE).astype(np.int64)


class Tally:
    """How often each secret occurs in each prototype, within parts of the rows that are added.

    Parameters
    ----------
    groups : sequence of tuple
        Of each sensitive column how many secrets there are, which of these are protected, and the
        pairs of them.
    n_prototypes, n_parts : int
    """

    def __init__(
        self, groups: Sequence[tuple[int, list[int], Array]], n_prototypes: int, n_parts: int
    ) -> None:
        self._groups = groups
        self._counts = [np.zeros((n_parts, n_prototypes, n), dtype=np.int64) for n, *_ in groups]

    def add(
        self, secrets: Sequence[IntArray], codes: IntArray, parts: IntArray, weights: Array | None
    ) -> None:
        """Add some rows: their secret in each sensitive column, prototype, part, and weight."""
        for each, counts in zip(secrets, self._counts, strict=True):
            cells = (parts * counts.shape[1] + codes) * counts.shape[2] + each
            counts += (
                np.bincount(cells, weights, counts.size).astype(np.int64).reshape(counts.shape)
            )

    def of(self, parts: slice) -> list[SecretCounts]:
        """Return the counts of each sensitive column in some of the parts together."""
        found = []
        for (_, used, pairs), counts in zip(self._groups, self._counts, strict=True):
            both = counts[parts].sum(axis=0)
            found.append(SecretCounts(both[:, used], both.sum(axis=1), pairs))
        return found
