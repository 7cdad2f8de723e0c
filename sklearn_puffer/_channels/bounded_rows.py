"""A channel for laws between bounds, mended and made of whole numbers."""

# Room, with ULP = 2 u: the certificate widens each end by at most (n + 16) ULP, and takes logs that
# are off by 9 ULP (1 + epsilon); the ends here are off by (n + 8) ULP. Both sides are moved by
# (4 (n + 16) + 8 epsilon + 128) ULP. A share is lowered by less than 1 of 2^62 and by the rounding
# of what it is made of, and what a row lacks goes to the sink: at most m (1 + 2^62 ULP) there.

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import ULP, FloatArray, IntArray
from sklearn_puffer._channels.bounded_problem import BoundedProblem, Ends, ends_of
from sklearn_puffer._channels.mixing import floor_factor
from sklearn_puffer._noise import WHOLE, IntegerRows

_SHARE = 1.0 - 1e-9  # of delta
_ROOMS = (1.0, 2.0**8, 2.0**16)  # times what rounding needs: for sums that are off by more


def bounded_rows(bounded: BoundedProblem, channel: FloatArray) -> IntegerRows:
    r"""Return a channel in parts of 2^62, mended so that it keeps its budget for all laws.

    Parameters
    ----------
    bounded : BoundedProblem
    channel : ndarray of shape (n, m)
        Nothing of it is believed.

    Notes
    -----
    *Formal guarantees.* For all laws between the bounds (as floats) every output keeps
    :math:`U_s(y) \le e^{\varepsilon} L_{s'}(y)` with room for the rounding of its certificate, or,
    under a delta, the sum of the excesses; and the floor. That is looked at last. Where it is not
    so, a constant row is mixed in: if a(y) is what y exceeds its limits by, divided by
    :math:`e^{\varepsilon} - 1`, and A their sum, :math:`(1 - t) W + t\, a/A` with
    :math:`t = A / (1 + A)` keeps them. At last all cells become one, which tells nothing.
    """
    cleaned = _cleaned(bounded, channel)
    for room in _ROOMS:
        whole = _in_whole_numbers(bounded, _mended(bounded, cleaned, room))
        if _keeps(bounded, whole):
            return _as_rows(bounded, whole)
    whole = np.zeros(channel.shape, dtype=np.int64)
    whole[:, bounded.sink] = WHOLE
    return _as_rows(bounded, whole)


def _cleaned(bounded: BoundedProblem, channel: FloatArray) -> FloatArray:
    """Return rows that are not negative and sum to 1, but for rounding."""
    kept = np.clip(np.where(np.isfinite(channel), channel, 0.0), 0.0, 1.0)
    kept[kept.sum(axis=1) == 0.0, bounded.sink] = 1.0
    cleaned: FloatArray = kept / kept.sum(axis=1, keepdims=True)
    return cleaned


def _mended(bounded: BoundedProblem, channel: FloatArray, room: float) -> FloatArray:
    if bounded.problem.delta > 0.0 and bounded.problem.floor is None:
        return _with_less(bounded, channel, room)
    beyond = _beyond_floor(bounded, channel, room)
    if bounded.problem.delta == 0.0:
        beyond = np.maximum(beyond, _beyond_limits(bounded, channel, room))
    total = float(beyond.sum())
    if total == 0.0:
        mended = channel
    elif total < np.inf:
        mended = (channel + beyond) / (1.0 + total)
    else:
        mended = _constant(bounded, channel)
    return mended if bounded.problem.delta == 0.0 else _with_less(bounded, mended, room)


def _with_less(bounded: BoundedProblem, channel: FloatArray, room: float) -> FloatArray:
    """Return the channel with so much of a constant one that the excesses sum up to less."""
    excesses = np.maximum(_excesses(bounded, ends_of(bounded, channel), room), 0.0)
    total = float(excesses.sum(axis=1).max(initial=0.0))
    share = _SHARE * bounded.problem.delta
    part = min(share / total, 1.0) if total > 0.0 else 1.0
    mixed: FloatArray = part * channel
    mixed[:, bounded.sink] += 1.0 - part
    return mixed


def _constant(bounded: BoundedProblem, channel: FloatArray) -> FloatArray:
    constant: FloatArray = np.zeros_like(channel)
    constant[:, bounded.sink] = 1.0
    return constant


def _excesses(bounded: BoundedProblem, ends: Ends, room: float = 1.0) -> FloatArray:
    """Return by how much each pair exceeds its limit at each output, shape (P, m)."""
    n, epsilon = bounded.problem.n_cells, np.log(bounded.factor)
    off = room * (4.0 * (n + 16) + 8.0 * epsilon + 128.0) * ULP
    first, second = bounded.pairs.T
    least = bounded.factor * (1.0 - 4.0 * ULP) * (1.0 - off)
    above: FloatArray = ends.most[first] * (1.0 + off) - least * ends.least[second]
    return above


def _spare(bounded: BoundedProblem, room: float) -> FloatArray:
    """Return what rounding may move to each output, or take from it."""
    spare = np.full(len(bounded.outputs), 2.0 * room / WHOLE)
    spare[bounded.sink] += 4.0 * room * ULP * len(bounded.outputs)
    return spare


def _beyond_limits(bounded: BoundedProblem, channel: FloatArray, room: float) -> FloatArray:
    """Return what each output exceeds its limits by, in what a constant row leaves to them."""
    above = _excesses(bounded, ends_of(bounded, channel), room).max(axis=0, initial=-np.inf)
    above += _spare(bounded, room) * (1.0 + bounded.factor)
    above[~channel.any(axis=0) & (np.arange(above.size) != bounded.sink)] = 0.0
    return _in_constants(above, bounded.factor)


def _in_constants(above: FloatArray, factor: float) -> FloatArray:
    """Return how much of a constant row makes up for what outputs exceed a limit by."""
    if factor <= 1.0 + 64.0 * ULP:
        return np.full(above.size, np.inf)
    parts: FloatArray = np.maximum(above, 0.0) / (factor - 1.0) * (1.0 + 1e-6)
    return parts


def _beyond_floor(bounded: BoundedProblem, channel: FloatArray, room: float) -> FloatArray:
    """Return the same for the floor."""
    if bounded.problem.floor is None:
        return np.zeros(channel.shape[1])
    factor = floor_factor(bounded.problem.floor)
    above = channel.max(axis=0) - factor * channel.min(axis=0) + _spare(bounded, room) * factor
    return _in_constants(np.where(channel.any(axis=0), above, 0.0), factor)


def _in_whole_numbers(bounded: BoundedProblem, channel: FloatArray) -> IntArray:
    """Return shares of 2^62, rounded down; what a row lacks goes to the sink."""
    whole = np.floor(channel * (1.0 - len(bounded.outputs) * 2.0 * ULP) * WHOLE).astype(np.int64)
    whole[:, bounded.sink] += WHOLE - whole.sum(axis=1)
    return whole


def _keeps(bounded: BoundedProblem, whole: IntArray) -> bool:
    """Return whether whole rows keep budget and floor, with room for their certificate."""
    if (whole < 0).any() or (whole.sum(axis=1) != WHOLE).any():
        return False
    excesses = np.maximum(_excesses(bounded, ends_of(bounded, whole / WHOLE)), 0.0)
    total = float(excesses.sum(axis=1).max(initial=0.0))
    if total > bounded.problem.delta * (1.0 - 1e-12):
        return False
    if bounded.problem.floor is None:
        return True
    used = whole[:, whole.any(axis=0)].astype(float)
    most = floor_factor(bounded.problem.floor) * used.min(axis=0)
    return bool((used.max(axis=0) <= most).all())


def _as_rows(bounded: BoundedProblem, whole: IntArray) -> IntegerRows:
    cells, places = whole.nonzero()
    counts = np.bincount(cells, minlength=len(whole))
    starts = np.append(0, np.cumsum(counts)).astype(np.int64)
    return IntegerRows(starts, bounded.outputs[places].astype(np.int64), whole[cells, places])
