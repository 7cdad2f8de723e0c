r"""Noisy iterations that show only where they end: the Renyi loss, record by record.

The loss of one iteration (004, section 5, corrected) is that of `_descent.iteration_losses`,
whose header has the theorem; the moves s_t that it starts from are those of `_descent.moves`.
Here are the losses of all records of a data set, of a secret order, and those to compare them with.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush, heapreplace
from math import inf, log, log1p
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import FloatArray, check_above, check_count, check_positive, real_numbers
from sklearn_puffer._descent.iteration_losses import (
    SMALLEST,
    SUM_ROUNDING,
    check_size,
    contraction,
    in_scales,
    iteration_loss,
    optimal_shifts,
    smallest_sigma,
)
from sklearn_puffer._descent.moves import (
    Gradient,
    RecordMoves,
    batch_shifts,
    check_index,
    check_records,
    gaussian_shifts,
    in_order,
    joint_shifts,
    record_moves,
    worst_shifts,
)
from sklearn_puffer.noise import ROUNDING

__all__ = [
    "batch_shifts",
    "contraction",
    "gaussian_shifts",
    "group_privacy_loss",
    "iteration_loss",
    "joint_shifts",
    "optimal_shifts",
    "record_losses",
    "shuffled_loss",
    "smallest_sigma",
    "uncorrelated_loss",
    "worst_record",
    "worst_shifts",
]


def worst_record(
    correlations: float | ArrayLike,
    n_records: int,
    distance: float,
    *,
    batch_size: int = 1,
    lipschitz: float = inf,
    sensitivity: float = 1.0,
    step: float = 1.0,
    contractions: ArrayLike | None = None,
    records: Sequence[int] | None = None,
) -> FloatArray:
    r"""Return moves that lose at least what any record loses under a common Gaussian noise.

    Closer than `worst_shifts`, which knows neither the noise nor the contractions.

    Parameters
    ----------
    correlations : float or array-like
        As for `gaussian_shifts`, between records.
    n_records : int
        As for `batch_shifts`.
    distance : float
        How far two values of the secret lie apart.
    batch_size : int, default=1
        As for `batch_shifts`.
    lipschitz, sensitivity, step : float
        As for `gaussian_shifts`.
    contractions : float or array-like of shape (T,), optional
        c_t in [0, 1]; 1 by default. The same must go to `iteration_loss` or `smallest_sigma`.
    records : sequence of int, optional
        The records whose values are secrets; all by default.

    Returns
    -------
    ndarray of shape (ceil(n / batch_size),)
        To be given to `iteration_loss` or `smallest_sigma`.

    Raises
    ------
    TypeError, ValueError
        As `worst_shifts` and `optimal_shifts`.

    Notes
    -----
    *Formal guarantees.* A group of neighbouring records has moves at least as bad as those of each
    of them, as in `worst_shifts`. The group with the largest sum of a_t^2 is split in two until it
    is a single record, or some 64 times (fewer for long iterations). Every record lies in one of
    the groups, so the largest bounds the loss of each record; which one that is does not depend on
    a common sigma, nor on alpha. `worst_shifts` is taken where it is closer. The moves are raised
    by 1e-12 T, for the rounding of these sums.

    Examples
    --------
    >>> from sklearn_puffer.iteration import worst_record
    >>> worst_record([1.0, 0.5], 4, distance=1.0).round(9).tolist()  # of the third record
    [0.0, 0.5, 1.0, 0.5]
    """
    gradient = Gradient(lipschitz, sensitivity, step)
    moves = record_moves(correlations, n_records, batch_size, distance, gradient)
    chosen = in_order(check_records(records, moves.n_records))
    whole = moves.worst(chosen)
    if isinstance(moves.table, float):  # the last of them is the worst
        return whole
    unit = float(whole.max())

    def weight(s: FloatArray) -> float:
        return float(np.square(optimal_shifts(s, 1.0, contractions) / unit).sum())

    def group(low: int, high: int) -> tuple[float, int, int, FloatArray]:
        s = moves.of_group(chosen[low:high])
        return -weight(s), low, high, s

    groups = [group(0, len(chosen))]
    for _ in range(_rounds(moves, len(whole))):
        _, low, high, _ = groups[0]
        if high - low == 1:
            break
        middle = high - (high - low + 3) // 4  # the worst are mostly near the end
        heapreplace(groups, group(low, middle))
        heappush(groups, group(middle, high))
    closest = whole if weight(whole) < -groups[0][0] else groups[0][3]
    return closest * (1.0 + ROUNDING * len(whole))


def _rounds(moves: RecordMoves, steps: int) -> int:
    """Return how many groups of records are split: a fifth of a second for ten thousand steps."""
    lags, n = len(np.atleast_1d(moves.table)), moves.n_records
    work = 16.0 * steps + 32.0 * lags / moves.batch_size + (n + lags) / 8.0
    return int(min(64.0, max(2.0, 3e6 / work)))


def record_losses(
    correlations: float | ArrayLike,
    n_records: int,
    distance: float,
    *,
    sigma: float,
    alpha: float,
    batch_size: int = 1,
    lipschitz: float = inf,
    sensitivity: float = 1.0,
    step: float = 1.0,
    contractions: ArrayLike | None = None,
    records: Sequence[int] | None = None,
) -> FloatArray:
    r"""Return the Renyi bound for each record on its own, under the same Gaussian noise each step.

    Parameters
    ----------
    correlations : float or array-like
        As for `gaussian_shifts`, between records.
    n_records : int
        As for `batch_shifts`.
    distance : float
        How far two values of the secret lie apart.
    sigma, alpha : float
        Standard deviation of the noise of each step, and Renyi order.
    batch_size : int, default=1
        As for `batch_shifts`.
    lipschitz, sensitivity, step : float
        As for `gaussian_shifts`.
    contractions : float or array-like of shape (T,), optional
        c_t in [0, 1]; 1 by default.
    records : sequence of int, optional
        The records whose values are secrets; all by default.

    Returns
    -------
    ndarray of shape (n_records,) or (len(records),)
        `iteration_loss` of each record's `batch_shifts`.

    Raises
    ------
    TypeError, ValueError
        As `gaussian_shifts` and `iteration_loss`.

    Notes
    -----
    *Formal guarantees.* Each entry is an upper bound, as `iteration_loss`. Equal correlations
    without contractions and without a shorter last batch are a closed form: with m steps from the
    record's own on, l the move of the others and b of its own,

    .. math:: \frac{\alpha}{2 \sigma^2} \left((T - m) l^2 + m (l + (b - l) / m)^2\right)

    Everything else takes O(n) a record: use `worst_shifts` for the largest alone.

    Examples
    --------
    >>> from sklearn_puffer.iteration import record_losses
    >>> record_losses(0.0, 3, distance=1.0, sigma=1.0, alpha=2.0).round(6).tolist()
    [0.333333, 0.5, 1.0]
    """
    gradient = Gradient(lipschitz, sensitivity, step)
    moves = record_moves(correlations, n_records, batch_size, distance, gradient)
    chosen = check_records(records, moves.n_records)
    order, scale = check_above(alpha, 1.0, "alpha"), check_positive(sigma, "sigma")
    whole = moves.n_records % moves.batch_size == 0
    if isinstance(moves.table, float) and contractions is None and whole:
        last = moves.of(moves.n_records - 1)
        return _equal_losses(last, np.asarray(chosen) // moves.batch_size, scale, order)
    return np.array(
        [iteration_loss(moves.of(i), scale, order, contractions=contractions) for i in chosen]
    )


def _equal_losses(last: FloatArray, batch: Any, sigma: float, alpha: float) -> FloatArray:
    """Return the losses of equally correlated records in these batches, by the closed form.

    Before the record's own step a_t = l; from there on equal shifts, which are feasible because
    the moves do not grow (004, Prop. F.2).
    """
    other, own, total = float(last[0]), float(last[-1]), len(last)
    m = total - batch
    with np.errstate(over="ignore"):
        pooled = np.square(in_scales(other + (own - other) / m, sigma))
        alone = np.square(in_scales(np.float64(other), sigma))
        losses: FloatArray = 0.5 * alpha * (batch * alone + m * pooled) * SUM_ROUNDING
    return losses


def shuffled_loss(losses: ArrayLike, alpha: float) -> float:
    r"""Return the loss of a record whose place in the order is a uniform secret.

    .. math:: D_\alpha \le \frac{1}{\alpha - 1} \log \frac{1}{n} \sum_{k=1}^n
              e^{(\alpha - 1) \varepsilon_k}

    Parameters
    ----------
    losses : array-like of shape (n,)
        epsilon_k, the Renyi loss (or a bound) if the record stands at place k.
    alpha : float
        Renyi order, above 1.

    Returns
    -------
    float
        Rounded up; never above the largest of the losses.

    Raises
    ------
    TypeError, ValueError
        If there is no loss, one is negative or not a number, or alpha is not above 1.

    Notes
    -----
    *Formal guarantees.* For records that are exchangeable given a record's value (uncorrelated or
    equally correlated), in an order drawn uniformly, independent of records and noise, and *never
    shown*. Proof: the record's place K is uniform under both secrets. Given K = k, by
    exchangeability, the sequence has the law of the unshuffled one with the secret at place k. So
    the two laws of the release are mixtures of P_k and of Q_k with the same weights 1/n, and
    D_alpha(P_k, Q_k) <= epsilon_k. exp((alpha - 1) D_alpha) = int p^alpha q^(1 - alpha) is jointly
    convex (the perspective of t^alpha), hence at most the mean of exp((alpha - 1) epsilon_k).

    Examples
    --------
    >>> from sklearn_puffer.iteration import shuffled_loss
    >>> round(shuffled_loss([0.0, 1.0], alpha=2.0), 6)  # log((1 + e) / 2)
    0.620115
    """
    order = check_above(alpha, 1.0, "alpha")
    values = real_numbers(losses, "losses")
    if values.ndim != 1 or not len(values) or not np.all(values >= 0.0):
        raise ValueError(
            f"losses must be a sequence of at least one loss, none negative, got {losses!r}."
        )
    most, rate = float(values.max()), order - 1.0
    top = most * rate
    if not 0.0 < top < inf:
        return most
    if top < 700.0:  # expm1 keeps small losses small
        mean = log1p(float(np.mean(np.expm1(values * rate)))) / rate
    else:
        mean = most + log(float(np.mean(np.exp((values - most) * rate)))) / rate
    return min(mean * SUM_ROUNDING + SMALLEST, most)


def group_privacy_loss(steps: int, shift: float, sigma: float, alpha: float) -> float:
    r"""Return the loss when every record moves at every step, for comparison (004, section 6.4).

    .. math:: T \frac{\alpha s^2}{2 \sigma^2}

    Parameters
    ----------
    steps : int
        Their number T.
    shift : float
        s = eta min(2 L, C d), the move of one step.
    sigma, alpha : float
        Standard deviation of the noise of each step, and Renyi order.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    *Formal guarantees.* `iteration_loss` of T equal moves: an upper bound, rounded up.

    Examples
    --------
    >>> from sklearn_puffer.iteration import group_privacy_loss
    >>> round(group_privacy_loss(10, shift=2.0, sigma=1.0, alpha=2.0), 6)
    40.0
    """
    return _even_loss(float(check_count(steps, "steps")), 1.0, shift, sigma, alpha)


def uncorrelated_loss(steps: int, index: int, shift: float, sigma: float, alpha: float) -> float:
    r"""Return the loss when only one record moves, for comparison (004, Lemma F.1).

    .. math:: \frac{\alpha s^2}{2 \sigma^2 (T - i)}

    With s = 2 L eta and noise of standard deviation sigma eta it is Lemma F.1's
    2 alpha L^2 / (sigma^2 (T - i + 1)), where i counts from 1.

    Parameters
    ----------
    steps, index : int
        Their number T, and the step i of the record, counted from 0.
    shift : float
        The move s of that step.
    sigma, alpha : float
        Standard deviation of the noise of each step, and Renyi order.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.

    Notes
    -----
    *Formal guarantees.* `iteration_loss` of one move at step i: an upper bound, rounded up.

    Examples
    --------
    >>> from sklearn_puffer.iteration import uncorrelated_loss
    >>> round(uncorrelated_loss(10, 5, shift=2.0, sigma=1.0, alpha=2.0), 6)
    0.8
    """
    count = check_count(steps, "steps")
    later = count - check_index(index, count, "index")
    return _even_loss(1.0, float(later), shift, sigma, alpha)


def _even_loss(times: float, over: float, shift: float, sigma: float, alpha: float) -> float:
    order, scale = check_above(alpha, 1.0, "alpha"), check_positive(sigma, "sigma")
    with np.errstate(over="ignore"):
        move = in_scales(np.float64(check_size(shift, "shift")), scale)
        return float(0.5 * order * np.square(move) * SUM_ROUNDING * times / over)
