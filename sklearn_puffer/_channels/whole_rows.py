r"""What a solver found, made a channel in whole numbers that keeps its budget.

Let a(y) be what output y exceeds its limits by, each divided by what a row for all cells of its
place leaves to that limit, and A their sum. Then :math:`(1 - t) W + t \, a/A` with
:math:`t = A / (1 + A)` keeps them, as :math:`(1 - t) a(y) \le t a(y) / A`; and that holds for all
families, and for a floor, at once. Under a delta a pair keeps the share of its excesses that delta
allows, and a(y) is about the rest.
"""

# The certificate is computed elsewhere, by code that shares nothing with this. Its upper end is
# above the loss by at most (4 r + 8 epsilon + 160) ULP of either side, for r cells.

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np

from sklearn_puffer._base import ULP, Array, FloatArray, IntArray
from sklearn_puffer._channels.program import ChannelProblem
from sklearn_puffer._noise import WHOLE, IntegerRows

_LARGEST_EPSILON = 600.0  # e^600 times 2^62 is a float; a smaller budget is a sound one
_ROUNDING = 2.0**-52 * 64.0  # for each cell: what making shares whole may change, of themselves
_LEAST = 2.0**-44  # of a row that is mixed in, so that it is many whole numbers
_SHARES = (1.0 - 1e-9, 1.0 - 1e-3, 0.5)  # of delta that is used, one after the other


def whole_rows(problem: ChannelProblem, found: FloatArray) -> IntegerRows:
    r"""Return the channel found in parts of 2^62, mended so that it keeps its budget.

    Parameters
    ----------
    problem : ChannelProblem
    found : ndarray of shape (n, n)
        W(y|x). Nothing of it is believed: it may exceed the budget, by whatever.

    Returns
    -------
    IntegerRows
        Each row sums to 2^62 and leads to cells of its place alone.

    Raises
    ------
    ValueError
        If no constant channel keeps the budget in each place.

    Notes
    -----
    *Formal guarantees.* What is returned keeps every limit :math:`q_s(y) \le e^{\varepsilon}
    q_{s'}(y)` with room for the rounding of its certificate (or, under a delta, the sum of the
    excesses), and the floor: that is looked at last, whatever was done before. Where nothing else
    helps, all cells of a place become one cell.

    Examples
    --------
    >>> from sklearn_puffer._channels.program import Costs, Family
    >>> law = np.array([[3, 1], [1, 3]])
    >>> costs = Costs(np.array([[0.0], [1.0]]), np.array([False]), np.ones(1))
    >>> problem = ChannelProblem([Family(law)], np.array([0.5, 0.5]), costs, epsilon=1.0)
    >>> rows = whole_rows(problem, np.eye(2))  # log 3 is more than the budget
    >>> (rows.shares / 2**62).round(3).tolist()
    [0.962, 0.038, 0.038, 0.962]
    """
    limits = _Limits.of(problem)
    shares = _cleaned(limits, found)
    for share in _SHARES:
        whole = _rounded(*_mixed(limits, shares, share))
        if limits.kept(whole):
            return _compressed(whole)
    whole = np.zeros(found.shape, dtype=np.int64)
    for cells in limits.places:
        whole[cells, _sink_of(problem, cells)] = WHOLE
    if limits.kept(whole):
        return _compressed(whole)
    raise ValueError(_in_the_way(limits))


@dataclass(frozen=True, eq=False)
class _Limits:
    """What each output must keep, q_first <= factor q_second, for the laws of all families."""

    problem: ChannelProblem
    laws: FloatArray  # (K, n): of all families, one after the other
    first: Array  # (P,): the ordered pairs of all families
    second: Array
    factor: float
    places: list[Array]

    @classmethod
    def of(cls, problem: ChannelProblem) -> _Limits:
        """Return the limits of a problem."""
        laws = [family.over(problem.n_cells) for family in problem.families]
        before = np.cumsum([0, *map(len, laws[:-1])])
        pairs = [f.ordered_pairs + n for f, n in zip(problem.families, before, strict=True)]
        first, second = np.concatenate(pairs).reshape(-1, 2).T.astype(np.intp)
        names = np.zeros(problem.n_cells) if problem.places is None else problem.places
        places = [np.flatnonzero(names == name) for name in np.unique(names)]
        factor = exp(min(problem.epsilon, _LARGEST_EPSILON)) * (1.0 - 4.0 * ULP)
        return cls(problem, np.concatenate(laws), first, second, factor, places)

    @property
    def room(self) -> float:
        """By how much of itself each side is moved for the certificate."""
        epsilon = min(self.problem.epsilon, _LARGEST_EPSILON)
        return (160.0 + 8.0 * epsilon + 4.0 * self.problem.n_cells) * ULP

    def excess(self, shares: FloatArray, room: float, lowered: float = 0.0) -> FloatArray:
        """Return by how much each limit is exceeded at each output at most, shape (P, n).

        Each share may be lowered by ``lowered`` later.
        """
        most, least = (1.0 + room) * self.laws @ shares, (1.0 - room) * self.laws @ shares
        least -= lowered * (self.laws @ (shares > 0.0))
        excess: FloatArray = most[self.first] - self.factor * least[self.second]
        return excess

    def gain(self, cells: Array) -> FloatArray:
        """Return what a row for all cells of a place leaves to each limit, shape (P,)."""
        masses = self.laws[:, cells].sum(axis=1)
        room = self.room + _ROUNDING * len(cells)
        least = (1.0 - room) * self.factor * masses[self.second]
        return np.asarray(least - (1.0 + room) * masses[self.first], dtype=np.float64)

    def kept(self, whole: IntArray) -> bool:
        """Return whether rows in parts of 2^62 keep budget and floor."""
        shares = whole / WHOLE
        beyond = np.maximum(self.excess(shares, self.room), 0.0).sum(axis=1)
        most = (1.0 - 1e-12) * self.problem.delta
        return bool((beyond <= most).all()) and not any(
            (_uneven(self.problem.floor, whole[cells].astype(float), 8.0 * ULP) > 0.0).any()
            for cells in self.places
        )


def _uneven(floor: float | None, shares: FloatArray, room: float) -> FloatArray:
    """Return by how much outputs tell more than the floor of the cells of one place, at most."""
    if floor is None:
        return np.zeros(shares.shape[1])
    factor = exp(min(floor, _LARGEST_EPSILON)) * (1.0 - 32.0 * ULP)
    most, least = shares.max(axis=0), shares.min(axis=0)
    return np.asarray((1.0 + room) * most - factor * (1.0 - room) * least)


def _cleaned(limits: _Limits, found: FloatArray) -> FloatArray:
    """Return rows of sum 1 within places; one of nothing stays where it is."""
    inside = np.zeros(found.shape, dtype=bool)
    for cells in limits.places:
        inside[np.ix_(cells, cells)] = True
    kept = inside & np.isfinite(found) & (found > 0.0)
    shares = np.where(kept, np.minimum(found, 1.0), 0.0)
    shares[~kept.any(axis=1)] = np.eye(len(found))[~kept.any(axis=1)]
    shares /= shares.max(axis=1, keepdims=True)  # whose sums are no subnormal numbers
    normed: FloatArray = shares / shares.sum(axis=1, keepdims=True)
    return normed


def _mixed(limits: _Limits, shares: FloatArray, share: float) -> tuple[FloatArray, IntArray]:
    """Return what is left of the rows, and what each row of a place gets besides, of 2^62."""
    problem, n = limits.problem, len(shares)
    room = limits.room + _ROUNDING * n
    excess = np.maximum(limits.excess(shares, room, 2.0 / WHOLE), 0.0)
    totals = excess.sum(axis=1)
    spared = np.divide(share * problem.delta, totals, out=np.ones(len(totals)), where=totals > 0.0)
    needed = excess * np.maximum(1.0 - spared, 0.0)[:, None]
    left, more = shares.copy(), np.zeros(shares.shape, dtype=np.int64)
    for cells in limits.places:
        beyond = _beyond(limits, needed, shares, cells, room)
        total = float(beyond.sum())
        if 0.0 < total < np.inf:
            part = total / (1.0 + total)
            more[np.ix_(cells, cells)] = np.ceil(part * WHOLE * (beyond / total)).astype(np.int64)
            left[cells] *= 1.0 - part
    return left, more


def _beyond(
    limits: _Limits, needed: FloatArray, shares: FloatArray, cells: Array, room: float
) -> FloatArray:
    """Return a(y) of the outputs of a place: infinite where a constant row gains nothing."""
    gain, floor = limits.gain(cells)[:, None], limits.problem.floor
    never = np.inf if limits.problem.delta == 0.0 else 0.0  # one more excess that is added up
    own = needed[:, cells]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(own > 0.0, np.where(gain > 0.0, own / gain, never), 0.0)
    beyond: FloatArray = parts.max(axis=0, initial=0.0)
    if floor is not None:
        even = exp(min(floor, _LARGEST_EPSILON)) * (1.0 - room) - (1.0 + room)
        uneven = _uneven(floor, shares[np.ix_(cells, cells)], room)
        spare = np.where(uneven > 0.0, uneven / even if even > 0.0 else np.inf, 0.0)
        beyond = np.maximum(beyond, spare)
    return np.where(beyond > 0.0, np.maximum(beyond, _LEAST), 0.0)


def _rounded(left: FloatArray, more: IntArray) -> IntArray:
    """Return rows that sum to 2^62: what one lacks goes to its largest share, or is taken there."""
    whole: IntArray = np.floor(left * WHOLE).astype(np.int64) + more
    whole[np.arange(len(whole)), whole.argmax(axis=1)] += WHOLE - whole.sum(axis=1)
    return whole


def _compressed(whole: IntArray) -> IntegerRows:
    cells, targets = whole.nonzero()
    starts = np.append(0, np.cumsum(np.bincount(cells, minlength=len(whole))))
    return IntegerRows(starts, targets, whole[cells, targets])


def _sink_of(problem: ChannelProblem, cells: Array) -> int:
    """Return to which cell all others of a place move at the least cost."""
    return int(cells[np.argmin(problem.weights[cells] @ problem.costs.between(cells, cells))])


def _in_the_way(limits: _Limits) -> str:
    """Return why no channel keeps the budget: two laws and a place."""
    problem = limits.problem
    masses = np.stack([limits.laws[:, cells].sum(axis=1) for cells in limits.places], axis=1)
    above = masses[limits.first] - limits.factor * masses[limits.second]
    pair, place = np.unravel_index(int(above.argmax()), above.shape)
    one, other = int(limits.first[pair]), int(limits.second[pair])
    name = 0 if problem.places is None else problem.places[limits.places[place][0]]
    return (
        f"epsilon={problem.epsilon!r} is too small for any channel, or for what rounding leaves "
        f"of it: the cells of place {name} have probability {masses[one, place]:.6g} under law "
        f"{one}, and {masses[other, place]:.6g} under law {other}, and no row leaves its place; "
        "allow more, or let more of a row change."
    )
