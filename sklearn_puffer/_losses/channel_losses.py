"""The loss of a released cell, recomputed from the whole numbers of channel and laws.

Nothing here knows how the channel was found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import (
    ULP,
    Array,
    FloatArray,
    HockeyStick,
    IntArray,
    Notion,
    Supremum,
)
from sklearn_puffer._losses.divergences import apart
from sklearn_puffer._noise import WHOLE, IntegerRows

_SUM_MARGIN = 2.0**-44  # of a sum of terms of one sign, which numpy adds up in pairs
_HALF = 2**32


def channel_losses(
    rows: IntegerRows, masses: IntArray, cells: Array | None, pairs: Array, notion: Notion
) -> FloatArray:
    r"""Return proven ends of the loss of each pair of laws, of what a channel releases of them.

    .. math:: q_s(y) = \sum_x p_s(x) W(y|x), \qquad
              \max_y \log \frac{q_s(y)}{q_{s'}(y)}
              \quad\text{or}\quad \sum_y (q_s(y) - e^{\varepsilon} q_{s'}(y))_+

    Parameters
    ----------
    rows : IntegerRows
        W.
    masses : ndarray of int64 or of Python's int of shape (k, m)
        Law s is masses[s] / masses[s].sum().
    cells : ndarray of shape (m,) or None
        The cells that the laws are over, all different; None for all.
    pairs : ndarray of shape (n_pairs, 2)
        Which laws to compare.
    notion : Notion
        Pure, or with a delta.

    Returns
    -------
    ndarray of shape (n_pairs, 2, 2)
        For each pair and direction (from the first to the second, and back) the lower and the
        upper end: in nats, infinite where only one law releases a cell; or delta.

    Raises
    ------
    TypeError, ValueError
        If the masses are no laws in whole numbers over those cells, or the notion is another one.

    Notes
    -----
    *Formal guarantees.* The loss of the laws and the channel as they are written, in whole numbers,
    lies between the ends: all roundings are counted.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [WHOLE // 4, 3 * WHOLE // 4] * 2)
    >>> masses = np.array([[1, 0], [0, 1]])  # two secrets, told apart by their cells
    >>> channel_losses(rows, masses, None, [[0, 1]], Pufferfish(1.0)).round(9).tolist()
    [[[0.0, 0.0], [0.0, 0.0]]]
    """
    laws, off = _released(rows, _checked(rows, masses, cells), cells)
    ends = [
        [_ends(laws[s], laws[t], off, notion) for s, t in ((a, b), (b, a))]
        for a, b in np.asarray(pairs, dtype=np.intp).reshape(-1, 2).tolist()
    ]
    return np.array(ends, dtype=float).reshape(-1, 2, 2)


def _checked(rows: IntegerRows, masses: Any, cells: Array | None) -> IntArray:
    """Return masses that are laws over these cells."""
    given = np.asarray(masses)
    n_cells = rows.n_cells if cells is None else len(cells)
    large = given.dtype == object and all(isinstance(mass, int) for mass in given.flat)
    if given.dtype.kind not in "iu" and not large:
        raise TypeError(f"masses must be whole numbers, got {given.dtype}; count, or round them.")
    if given.ndim != 2 or given.shape[1] != n_cells:
        raise ValueError(
            f"masses must have a line for each law and a column for each of {n_cells} cells, got "
            f"shape {given.shape}; name the cells that they are over."
        )
    if (given < 0).any() or not (given > 0).any(axis=1).all():
        raise ValueError("masses must not be negative, and not all of them 0; leave that law out.")
    if cells is not None and np.unique(cells).size != n_cells:
        raise ValueError("cells must be different ones; add up the masses of a cell.")
    return given


def _entries(rows: IntegerRows, cells: Array | None) -> tuple[IntArray, IntArray]:
    """Return the entries of the cells' rows, one row after the other, and the place of each."""
    cells = np.arange(rows.n_cells) if cells is None else np.asarray(cells)
    first, lengths = rows.starts[cells], np.diff(rows.starts)[cells]
    places = np.repeat(np.arange(len(cells)), lengths)
    within = np.arange(places.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return within + np.repeat(first, lengths), places


def _released(
    rows: IntegerRows, masses: IntArray, cells: Array | None
) -> tuple[FloatArray, FloatArray]:
    """Return the probability of each output given each law, and what it is off by, of itself."""
    entries, places = _entries(rows, cells)
    outputs = np.unique(rows.targets[entries], return_inverse=True)[1]
    chances = rows.shares[entries] / WHOLE
    sums = [
        np.bincount(outputs, weights=law.astype(float)[places] * chances) / _total(law)
        for law in masses
    ]
    return np.array(sums), (np.bincount(outputs).astype(float) + 8.0) * ULP


def _total(law: NDArray[Any]) -> float:
    """Return the sum of whole numbers, which may be beyond 64 bits, rounded once."""
    if law.dtype == object:
        return float(sum(law.tolist()))
    high, low = np.divmod(law, _HALF)
    return float(int(high.sum()) * _HALF + int(low.sum()))


def _ends(p: FloatArray, q: FloatArray, off: FloatArray, notion: Notion) -> tuple[float, float]:
    divergence = notion.divergence
    if isinstance(divergence, Supremum):
        low, high = _log_ratios(p, q, off)
        return float(low.max(initial=0.0)), float(high.max(initial=0.0))
    if isinstance(divergence, HockeyStick):
        return _excess(p, q, off, divergence.epsilon)
    raise ValueError(
        f"notion must be pure or have a delta for a channel, got {notion!r}; use "
        "Pufferfish(epsilon) or Pufferfish(epsilon, delta)."
    )


def _log_ratios(p: FloatArray, q: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on log p / q of each outcome; -inf where p is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(p > 0.0, np.log(p / q), -np.inf)  # inf where q alone is 0
    slack = 2.5 * off + 4.0 * ULP * (1.0 + np.abs(np.where(np.isfinite(logs), logs, 0.0)))
    return logs - slack, logs + slack


def _excess(p: FloatArray, q: FloatArray, off: FloatArray, epsilon: float) -> tuple[float, float]:
    """Return bounds on the sum of (p - e^epsilon q)_+."""
    least = apart(p * (1.0 - off), q * (1.0 + off), epsilon, -1.0).sum()
    most = apart(p * (1.0 + off), q * (1.0 - off), epsilon, 1.0).sum()
    return float(least * (1.0 - _SUM_MARGIN)), min(float(most * (1.0 + _SUM_MARGIN)), 1.0)
