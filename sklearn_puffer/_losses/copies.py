r"""What a reader learns who has the list of rows, and counts the copies of one released value.

The released table has n rows, drawn independently from a channel W; the reader knows how many rows
:math:`n_x` each cell x has, but not which is whose, and sees that :math:`c` rows came out as y.
Their number is :math:`C = \sum_x K_x`, where :math:`K_x`, how many of them came from cell x, is
binomial, :math:`B(n_x, W(y|x))`, and all are independent. Nothing tells the c rows apart, so one of
them came from x with probability :math:`E[K_x | C = c] / c`, and its owner has secret s with

.. math:: r_s(y, c) = \sum_x \frac{E[K_x | C = c]}{c} P(s|x), \qquad
          P(s|x) = \frac{P(s) p_s(x)}{\sum_t P(t) p_t(x)}.

Before the release it was :math:`P(s|\text{list}) = \sum_x n_x P(s|x) / n`, which is P(s) where the
laws are counted from the same rows. Of n released rows :math:`\sum_c c P(C = c)` are expected to be
copies of y, and c P(C = c) to be seen with count c.

Rows seen once were not moved: where cells have few rows, the count tells this. Where they have
many, C hardly leaves its mean, and :math:`r_s` is what the value alone tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import WHOLE, IntegerRows

_SURE = 1e-9  # counts of less chance are taken to tell everything
_MOST = 26  # bits of the rows of a cell: of more, a part is taken, whose count tells no less
_SHORT = 256  # below, a sum of products is quicker than three Fourier transforms


@dataclass(frozen=True, eq=False)
class Readers:
    """Whom the count may tell something: the laws of one adversary about one column.

    Attributes
    ----------
    laws : ndarray of shape (k, n)
        :math:`p_s` over the cells, each of sum 1.
    secrets : ndarray of shape (k,)
        How many rows have each secret.
    pairs : ndarray of intp of shape (n_pairs, 2)
        Those that must not be told apart.
    cells : ndarray of intp of shape (m,) or None
        Whose rows the reader looks at: those with a value that he knows; None for all.
    """

    laws: FloatArray
    secrets: IntArray
    pairs: Array
    cells: Array | None = None


def moved_by_copies(rows: IntegerRows, counts: IntArray, readers: Readers, bound: float) -> float:
    r"""Return how many released rows are expected to be told beyond a bound by their copies.

    Parameters
    ----------
    rows : IntegerRows
        The channel.
    counts : ndarray of int64 of shape (n,)
        :math:`n_x`, how many rows each cell has.
    readers : Readers
    bound : float
        What :math:`|\log r_s / P(s|list) - \log r_t / P(t|list)|` may be for a protected pair s, t.

    Returns
    -------
    float
        Rows in expectation, at pairs of value and count where some pair is beyond the bound. Pairs
        that the value alone tells more of, as a delta allows, are not counted there.

    Notes
    -----
    Counts of a chance below 1e-9 are taken to tell all. Where a cell has more than 2^26 rows, one
    in 2, 4, 8 ... of all rows is looked at, and the answer is about as many.

    Examples
    --------
    >>> half = WHOLE // 2
    >>> rows = IntegerRows(np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([WHOLE, half, half]))
    >>> laws = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> readers = Readers(laws, np.array([4, 4]), np.array([[0, 1]]))
    >>> moved = moved_by_copies(rows, np.array([4, 4]), readers, 0.6)
    >>> round(moved, 6)  # where 4 or 5 copies are seen
    1.5
    """
    cells = np.arange(len(counts)) if readers.cells is None else readers.cells
    halved = max(int(counts.max()).bit_length() - _MOST, 0)
    own = np.zeros(len(counts), dtype=np.int64)
    own[cells] = counts[cells] >> halved
    posteriors = _posteriors(readers, own)
    before = posteriors @ own / max(own.sum(), 1)
    owners, chances = np.repeat(np.arange(len(counts)), np.diff(rows.starts)), rows.shares / WHOLE
    kept = own[owners] > 0
    order = np.flatnonzero(kept)[np.argsort(rows.targets[kept], kind="stable")]
    firsts = np.flatnonzero(np.diff(rows.targets[order], prepend=-1))
    told = sum(
        _told(own[owners[of]], chances[of], posteriors[:, owners[of]], before, readers, bound)
        for of in np.split(order, firsts[1:])
        if len(of)
    )
    return told * 2.0**halved


def _posteriors(readers: Readers, counts: IntArray) -> FloatArray:
    """Return P(s|x), shape (k, n): that of all rows where no law has mass."""
    joint = readers.laws * readers.secrets[:, None]
    total = joint.sum(axis=0)
    shares = readers.secrets / readers.secrets.sum()
    found: FloatArray = np.divide(
        joint, total, out=np.repeat(shares[:, None], len(counts), axis=1), where=total > 0.0
    )
    return found


def _told(
    counts: IntArray,
    chances: FloatArray,
    posteriors: FloatArray,
    before: FloatArray,
    readers: Readers,
    bound: float,
) -> float:
    """Return how many copies of one value are told beyond the bound: of the cells that lead there.

    ``posteriors`` has shape (k, m), counts and chances (m,).
    """
    law, expected = copies_law(counts, chances, posteriors)
    ratios = np.log(_positive(expected)) - np.log(_positive(before))[:, None]
    alone = posteriors @ (counts * chances)
    by_value = np.log(_positive(alone)) - np.log(_positive(before))
    told = np.zeros(len(law), dtype=bool)
    for s, t in readers.pairs:
        if before[s] > 0.0 and before[t] > 0.0 and abs(by_value[s] - by_value[t]) <= bound:
            told |= ~(np.abs(ratios[s] - ratios[t]) <= bound)
    return float(expected.sum(axis=0)[told | (law < _SURE)].sum())


def _positive(numbers: FloatArray) -> FloatArray:
    return np.maximum(numbers, 1e-300)


def copies_law(
    counts: IntArray, chances: FloatArray, posteriors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the law of how many rows come out as one value, and which secrets they have.

    Parameters
    ----------
    counts : ndarray of int64 of shape (m,)
        Rows of each cell, at least 1.
    chances : ndarray of shape (m,)
        Of each of them to be released as that value, all positive.
    posteriors : ndarray of shape (k, m)
        P(s|x).

    Returns
    -------
    law : ndarray of shape (n,)
        P(C = c) of consecutive c: all but 2e-13 for each chance that cells have.
    expected : ndarray of shape (k, n)
        E[rows with secret s among the copies; C = c]: over s they sum to c P(C = c).

    Notes
    -----
    Convolutions of the chances :math:`b_x(k) = P(K_x = k)`, and of expected rows: with f and g_s of
    the cells before, those with cell x are f * b_x and g_s * b_x + P(s|x) f * (k b_x). Cells with
    the same W(y|x) are taken as one, of which each row is as likely as any other.

    Examples
    --------
    >>> law, expected = copies_law(np.array([1, 1]), np.array([1.0, 0.5]), np.eye(2))
    >>> law.tolist(), expected.tolist()
    ([0.5, 0.5], [[0.5, 0.5], [0.0, 0.5]])
    """
    kinds, of_cells = np.unique(chances, return_inverse=True)
    law, expected = np.ones(1), np.zeros((len(posteriors), 1))
    for kind, chance in enumerate(kinds.tolist()):
        same = of_cells.ravel() == kind
        n = int(counts[same].sum())
        mean = posteriors[:, same] @ (counts[same] / n)
        number, own = _binomial(n, chance)
        copies = _convolved(law, number * own)
        expected = np.stack([_convolved(of_secret, own) for of_secret in expected])
        expected += mean[:, None] * copies
        law = _convolved(law, own)
    return np.maximum(law, 0.0), np.maximum(expected, 0.0)


def _binomial(n: int, chance: float) -> tuple[FloatArray, FloatArray]:
    """Return numbers and their chances: all but 2 e^-30, which Bernstein's inequality leaves."""
    if chance >= 1.0:
        return np.array([float(n)]), np.ones(1)
    mean = n * chance
    far = np.sqrt(60.0 * mean * (1.0 - chance)) + 20.0
    number = np.arange(max(np.floor(mean - far), 0.0), min(np.ceil(mean + far), n) + 1.0)
    ways = gammaln(n + 1.0) - gammaln(number + 1.0) - gammaln(n - number + 1.0)
    return number, np.exp(ways + xlogy(number, chance) + xlog1py(n - number, -chance))


def _convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    if min(len(one), len(other)) <= _SHORT:
        return np.convolve(one, other)
    n = len(one) + len(other) - 1
    found: FloatArray = np.fft.irfft(np.fft.rfft(one, n) * np.fft.rfft(other, n), n)
    return found
