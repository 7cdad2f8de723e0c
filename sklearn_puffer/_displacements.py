"""How far the steps of an iteration move under one joint coupling, and how close they bring points.

Every product and sum is rounded upwards, so that a computed displacement is never below the exact
one, and it is 0 only where nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf, nextafter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh, toeplitz

from sklearn_puffer._base import FloatArray, as_array, check_count, check_positive, real_numbers
from sklearn_puffer._formulas import norm
from sklearn_puffer._numerics import ULP, rounded_up

_TOLERANCE = 1e-9  # for the rounding of the caller's correlations
_LEADING = 512  # records of a stationary sequence whose whole matrix is checked
_PAIRS = 4_000_000  # pairs of records up to which each is looked at


def contraction(step: float, smoothness: float, strong_convexity: float = 0.0) -> float:
    r"""Return by how much a gradient step brings any two points closer.

    .. math:: \|w - \eta \nabla f(w) - (v - \eta \nabla f(v))\| \le c \|w - v\|, \qquad
              c = \max(|1 - \eta \mu|, |1 - \eta \beta|)

    Parameters
    ----------
    step : float
        eta, positive.
    smoothness : float
        beta: the gradient of the convex f is beta-Lipschitz. 0 for a linear f.
    strong_convexity : float
        mu, at most beta.

    Returns
    -------
    float
        c, at most 1, rounded up. It holds too if a projection on a convex set follows the step.

    Raises
    ------
    TypeError, ValueError
        If the step is longer than 2 / beta, where the step need not be a contraction (and 004,
        Lemma F.1 is misprinted: it asks for eta > 2 / beta), or a number is out of range.

    Notes
    -----
    *Formal guarantees.* The comparison with 2 / beta is exact, and c is never too small. (f minus
    mu |w|^2 / 2 is convex and (beta - mu)-smooth, so its gradient is cocoercive; Nesterov, 2004,
    Thm 2.1.12.)

    Examples
    --------
    >>> from sklearn_puffer.iteration import contraction
    >>> contraction(0.5, 4.0)
    1.0
    >>> round(contraction(0.5, 2.0, strong_convexity=1.0), 12)
    0.5
    """
    eta = check_positive(step, "step")
    beta = check_size(smoothness, "smoothness")
    mu = check_size(strong_convexity, "strong_convexity")
    if mu > beta:
        raise ValueError(
            f"strong_convexity must be at most smoothness ({beta!r}), got {mu!r}; give a bound on "
            "the curvature from below."
        )
    if Fraction(eta) * Fraction(beta) > 2:
        longest = 2.0 / beta
        if Fraction(longest) * Fraction(beta) > 2:  # it was rounded up
            longest = nextafter(longest, 0.0)
        raise ValueError(
            f"step must be at most 2 / smoothness, here {longest!r}, got {eta!r}: the "
            "map of a longer step is not a contraction; shorten it."
        )
    sides = [abs(1 - Fraction(eta) * Fraction(curvature)) for curvature in (mu, beta)]
    return rounded_up(max(sides))


def check_size(value: Any, name: str) -> float:
    """Return a finite number that is not negative."""
    return 0.0 if not isinstance(value, bool) and value == 0 else check_positive(value, name)


def joint_shifts(
    left: ArrayLike,
    right: ArrayLike,
    masses: ArrayLike | None = None,
    *,
    lipschitz: float = inf,
    sensitivity: float = 1.0,
    step: float = 1.0,
) -> FloatArray:
    r"""Return how far each step can move under a finite joint coupling of two whole sequences.

    .. math:: s_t = \eta \min(2 L, C \max_m \|x_{m t} - x'_{m t}\|)

    Parameters
    ----------
    left, right : array-like of shape (m, T) or (m, T, d)
        Row m of both is one pair of sequences, one under each secret.
    masses : array-like of shape (m,), optional
        Probabilities of the pairs; pairs of mass 0 are left out. All pairs count by default.
    lipschitz, sensitivity, step : float
        As for `worst_shifts`.

    Returns
    -------
    ndarray of shape (T,)
        The displacements s, rounded up.

    Raises
    ------
    TypeError, ValueError
        If the shapes do not fit, a number is not finite or out of range, or no pair has mass.

    Notes
    -----
    *Formal guarantees.* With these s, `iteration_loss` bounds the loss if the rows are a coupling
    of the distributions of the two sequences. The caller answers for that. Couplings of the
    marginals, step by step, are not enough (004, Thm 5.2 as printed).

    Examples
    --------
    X_2 = X_1 against X_2 = -X_1, for a fair sign X_1:

    >>> from sklearn_puffer.iteration import joint_shifts
    >>> joint_shifts([[1, 1], [-1, -1]], [[1, -1], [-1, 1]]).round(9).tolist()
    [0.0, 2.0]
    """
    x, y = real_numbers(left, "left"), real_numbers(right, "right")
    if x.shape != y.shape or x.ndim not in (2, 3) or not x.size:
        raise ValueError(
            "left and right must have the same shape (m, T) or (m, T, d), got "
            f"{x.shape} and {y.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("left and right must be finite; drop the pairs that are not.")
    used = np.ones(len(x)) if masses is None else check_sequence(masses, "masses")
    if used.shape != (len(x),) or not used.any():
        raise ValueError(
            f"masses must hold a mass for each of the {len(x)} pairs, one of them positive, got "
            f"shape {used.shape}."
        )
    apart = (np.abs(x - y) * (1.0 + 2.0 * ULP))[used > 0.0]
    rows = apart if apart.ndim == 2 else norm(apart) * (1.0 + (apart.shape[2] + 8.0) * ULP)
    return _step_displacements(rows.max(axis=0), 1.0, lipschitz, sensitivity, step)


def _step_displacements(
    sizes: FloatArray, distance: float, lipschitz: float, sensitivity: float, step: float
) -> FloatArray:
    """Return step * min(2 L, C size distance), rounded up; exactly 0 where a size is 0."""
    bounds = {"lipschitz": lipschitz, "sensitivity": sensitivity}
    longest, steepest = (x if x == inf else check_positive(x, name) for name, x in bounds.items())
    if longest == steepest == inf:
        raise ValueError(
            "lipschitz and sensitivity are both infinite; bound the gradients by lipschitz, or "
            "their change with a record by sensitivity."
        )
    with np.errstate(over="ignore"):
        far = np.nextafter(np.nextafter(sizes * distance, inf) * steepest, inf)
        near = np.minimum(2.0 * longest, far) * check_positive(step, "step")
        displacements: FloatArray = np.where(sizes == 0.0, 0.0, np.nextafter(near, inf))
    if not np.isfinite(displacements).all():
        raise ValueError(
            "distance, sensitivity and step make a step that moves beyond all floats; lower them, "
            "or give lipschitz."
        )
    return displacements


def worst_shifts(
    correlations: float | ArrayLike,
    n_records: int,
    distance: float,
    *,
    batch_size: int = 1,
    lipschitz: float = inf,
    sensitivity: float = 1.0,
    step: float = 1.0,
    records: Sequence[int] | None = None,
) -> FloatArray:
    r"""Return how far each mini-batch step can move with a record of a Gaussian prior.

    .. math:: s_t = \frac{\eta}{B} \sum_{j \in \text{batch } t} \min(2 L, C |\rho_{i j}| \, d),
              \qquad \operatorname{Cov}(X_j, X_i) \operatorname{Cov}(X_i)^{-1} = \rho_{i j} I

    Records are taken in order: batch t holds the records tB to (t + 1)B - 1, t = 0, 1, ... The
    secrets are X_i = a and X_i = b with \|a - b\| <= d, of one record i, or of any: then

    .. math:: \sum_{t > k} s_t = \max_i \sum_{t > k} s_t^{(i)} \quad\text{for every } k

    Parameters
    ----------
    correlations : float, array-like of shape (m,) or (n, n)
        rho for equally correlated records; rho_k by lag k = 0, 1, .. (rho_0 = 1, further lags are
        0); or the matrix.
    n_records : int
        n, the number of records.
    distance : float
        d.
    batch_size : int, default=1
        B. Every step divides the sum of its gradients by B, *a shorter last batch too*.
    lipschitz : float
        L: no gradient is longer (a clipping norm, say).
    sensitivity : float
        C: gradients change by at most C \|x - x'\|. It may be infinite if L is not.
    step : float
        The step size eta.
    records : sequence of int, optional
        The records whose values are secrets, counted from 0; all by default.

    Returns
    -------
    ndarray of shape (ceil(n / B),)
        The displacements s, rounded up, to be given to `iteration_loss` or `smallest_sigma`.

    Raises
    ------
    TypeError, ValueError
        If the correlations are not those of any distribution (symmetric, 1 on the diagonal,
        positive semidefinite), a number is out of range, or ``records`` is empty or holds no
        record.

    Notes
    -----
    *Formal guarantees.* The distributions of the *whole* sequence under X_i = a and under X_i = b
    are translations of each other, by rho_(j i) (a - b) of record j. Translating a draw is one
    joint coupling, under which each record moves by exactly that much, whatever the draw, and each
    step by at most the mean over its batch (`iteration`; 004, Prop. 6.4). The records must be
    Gaussian with these covariances. A map of each record is covered too, with C its Lipschitz
    constant times that of the gradient.

    By (2) of `iteration`, displacements with larger sums from each step to the end have the larger
    loss, for all contractions, noises and orders. So the loss of s bounds the largest loss of a
    record. For equal correlations it *is* the loss of the last record, whose sums are the largest.
    Otherwise it may exceed all of them by about 10 %. Above 4e6 pairs of records by lag, the
    displacements are sorted, the largest last: no sum of as many of them is larger. That takes
    O(n log n), a matrix O(n^2).

    Of a stationary sequence longer than 512 records, only the leading matrix and the spectral
    density (with Fejer's weights) are checked: a sequence that fails is not a correlation.

    Examples
    --------
    >>> from sklearn_puffer.iteration import worst_shifts
    >>> worst_shifts([1.0, 0.5], 4, distance=1.0).round(9).tolist()
    [0.0, 0.5, 0.5, 1.0]
    >>> worst_shifts([1.0, 0.5, 0.25], 3, distance=2.0, records=[1]).round(9).tolist()
    [1.0, 2.0, 1.0]
    """
    n, size = check_count(n_records, "n_records"), check_count(batch_size, "batch_size")
    table, far = _check_correlations(correlations, n), check_positive(distance, "distance")
    moves = _step_displacements(np.abs(table), far, lipschitz, sensitivity, step)
    chosen = _check_records(records, n)
    if len(chosen) > 1 and moves.ndim == 1 and len(chosen) * n > _PAIRS:
        # in ascending order no record has larger sums to the end; each lag but that of the record
        # itself occurs at most twice, before and after it
        sides = np.sort(np.append(moves[:1], np.repeat(moves[1:], 2)))[-n:]
        return _batched(np.append(np.zeros(n - len(sides)), sides), size)
    shifts = (_batched(_with_record(moves, i, n), size) for i in chosen)
    return next(shifts) if len(chosen) == 1 else _dominating(shifts)


def _with_record(moves: FloatArray, index: int, n: int) -> FloatArray:
    """Return how far each of n records moves with one, from moves by lag or a matrix of them."""
    if moves.ndim == 2:
        return np.asarray(moves[index])
    row = np.zeros(n)
    near = np.arange(max(index - len(moves) + 1, 0), min(index + len(moves), n))
    row[near] = moves[np.abs(near - index)]
    return row


def _batched(displacements: FloatArray, size: int) -> FloatArray:
    """Return the sums of batches divided by the batch size, rounded up."""
    if size == 1:
        return displacements
    sums: FloatArray = np.add.reduceat(displacements, np.arange(0, len(displacements), size))
    means = np.nextafter(sums * (1.0 + 2.0 * size * ULP) / size, inf)
    return np.where(sums > 0.0, means, 0.0)


def _dominating(rows: Iterable[FloatArray]) -> FloatArray:
    """Return displacements whose suffix sums are the largest of all rows, rounded up."""
    largest = np.zeros(1)
    for row in rows:
        largest = np.maximum(largest, np.cumsum(row[::-1]))
    # Sums of n floats are right to n ulps, and a difference of floats to one ulp of itself.
    largest = largest * (1.0 + 2.0 * len(largest) * ULP)
    displacements: FloatArray = np.diff(largest, prepend=0.0)[::-1]
    return displacements * (1.0 + 4.0 * ULP)


def check_sequence(values: ArrayLike, name: str) -> FloatArray:
    """Return a sequence (T,) of finite numbers that are not negative."""
    array = real_numbers(values, name)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} must be a sequence of numbers, got shape {array.shape}.")
    if not np.all((array >= 0.0) & (array < inf)):
        wrong = array[~((array >= 0.0) & (array < inf))][0]
        raise ValueError(f"{name} must be finite and not negative, got {wrong:g}.")
    return array


def _check_records(records: Sequence[int] | None, n: int) -> Sequence[int]:
    """Return the declared records in ascending order, each once; all by default."""
    if records is None:
        return range(n)
    wanted = as_array(records, "records").ravel().tolist()
    chosen = sorted({check_count(i, "records", minimum=0) for i in wanted})
    if not chosen:
        raise ValueError("records is empty; name the records whose values are secrets, or None.")
    if chosen[-1] >= n:
        raise ValueError(f"records must be below {n}, the number there is, got {chosen[-1]}.")
    return chosen


def _check_correlations(correlations: float | ArrayLike, n: int) -> FloatArray:
    """Return the lags up to the last that is not 0, or the matrix; refuse impossible ones."""
    table = real_numbers(correlations, "correlations")
    if table.ndim > 2 or not table.size or not np.all(np.abs(table) <= 1.0 + _TOLERANCE):
        wrong = table[~(np.abs(table) <= 1.0 + _TOLERANCE)] if table.ndim <= 2 else table[:0]
        got = f"{wrong.flat[0]:g}" if wrong.size else f"an array of shape {table.shape}"
        raise ValueError(
            f"correlations must be numbers in [-1, 1]: one, one a lag, or a matrix; got {got}."
        )
    if table.ndim == 0:
        if float(table) * (n - 1) < -1.0 - _TOLERANCE:
            raise ValueError(
                f"correlations of {table:g} are not possible between all of {n} records; the least "
                f"is {-1.0 / (n - 1):g}."
            )
        return np.append(1.0, np.full(n - 1, float(table)))
    return _check_lags(table, n) if table.ndim == 1 else _check_matrix(table, n)


def _check_lags(lags: FloatArray, n: int) -> FloatArray:
    if abs(lags[0] - 1.0) > _TOLERANCE:
        raise ValueError(f"correlations by lag must begin with 1 (lag 0), got {lags[0]:g}.")
    inside = np.trim_zeros(lags[:n], "b")
    # x' R x >= 0 for waves x, at frequencies on a grid: a quick check of a long sequence
    weighted = inside * (1.0 - np.arange(len(inside)) / n)
    density = 2.0 * np.fft.rfft(weighted, 2 * len(inside)).real - weighted[0]
    if density.min() < -_TOLERANCE * len(inside):
        raise _not_a_distribution(f"the spectral density falls to {density.min():g}")
    leading = inside[:_LEADING]
    _check_spectrum(toeplitz(np.concatenate((leading, np.zeros(min(n, _LEADING) - len(leading))))))
    return np.append(1.0, inside[1:])


def _check_matrix(matrix: FloatArray, n: int) -> FloatArray:
    if matrix.shape != (n, n):
        raise ValueError(f"correlations must be {n} x {n} for {n} records, got {matrix.shape}.")
    if np.abs(matrix - matrix.T).max() > _TOLERANCE:
        raise ValueError("correlations must be a symmetric matrix; give (R + R.T) / 2.")
    if np.abs(np.diag(matrix) - 1.0).max() > _TOLERANCE:
        raise ValueError(
            "correlations must have ones on the diagonal; divide a covariance by the standard "
            "deviations of its row and column."
        )
    _check_spectrum(matrix)
    larger: FloatArray = np.maximum(np.abs(matrix), np.abs(matrix.T))
    np.fill_diagonal(larger, 1.0)
    return larger


def _check_spectrum(matrix: FloatArray) -> None:
    least = float(eigvalsh(matrix, subset_by_index=(0, 0))[0])
    if least < -_TOLERANCE * len(matrix):
        raise _not_a_distribution(f"their smallest eigenvalue is {least:g}")


def _not_a_distribution(reason: str) -> ValueError:
    return ValueError(
        f"correlations must be positive semidefinite, and {reason}: no records have them; check "
        "them, or shrink those off the diagonal."
    )
