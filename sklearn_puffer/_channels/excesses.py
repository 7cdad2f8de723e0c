r"""By how much a channel exceeds its budget: q_s(y) - e^epsilon q_s'(y), with room for rounding.

All is in floats, and in parts of 2^62. The certificate of a channel is computed elsewhere, by code
that shares nothing with this; the room here is for what that rounds.
"""

# Room, with ULP = 2 u. The certificate's upper end is above the loss by at most 4.5 times its bound
# on what q is off by, (r + 8) ULP for r entries, and by 9 ULP (1 + epsilon) for the log; under a
# delta by (6 + 2 epsilon + 90) ULP of either side. The sums here are off by (r + 8) ULP at most.
# Both sides are moved by (4 (r + 8) + 8 epsilon + 128) ULP.

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sklearn_puffer._base import ULP, Array, BoolArray, FloatArray, IntArray, Integers
from sklearn_puffer._channels.problem import ChannelProblem
from sklearn_puffer._channels.shares import Shares
from sklearn_puffer._noise import WHOLE

_LARGEST_EPSILON = 600.0  # e^600 times 2^62 is a float; a smaller budget is a sound one
_SUMS = 1e-12  # of delta, for the sum of excesses


class Limits(NamedTuple):
    """What each output must keep, q_first <= factor q_second, for the laws of all families.

    Attributes
    ----------
    laws : csc_array of shape (K, n)
        The laws of all families, one after the other.
    first, second : ndarray of shape (P,)
        The ordered pairs of all families.
    families : list of (slice, slice)
        Which laws and which pairs belong together.
    factor, delta : float
        The exponential of epsilon, and delta.
    room : float
        By how much of itself each side of a limit is moved, without its number of entries.
    """

    laws: sparse.csc_array
    first: Array
    second: Array
    families: list[tuple[slice, slice]]
    factor: float
    delta: float
    room: float

    def side_room(self, terms: Integers) -> FloatArray:
        """Return by how much of itself each side is moved, for outputs of so many entries."""
        room: FloatArray = self.room + 4.0 * ULP * terms
        return room


def limits_of(problem: ChannelProblem) -> Limits:
    """Return what a channel for a problem must keep."""
    laws, pairs, families = [], [np.empty((0, 2), dtype=np.intp)], []
    n_laws = n_pairs = 0
    for family in problem.families:
        laws.append(_spread(family.laws, family.cells, problem.n_cells))
        pairs.append(family.ordered_pairs + n_laws)
        ends = n_laws + laws[-1].shape[0], n_pairs + len(pairs[-1])
        families.append((slice(n_laws, ends[0]), slice(n_pairs, ends[1])))
        n_laws, n_pairs = ends
    first, second = np.concatenate(pairs).T
    epsilon = min(problem.epsilon, _LARGEST_EPSILON)
    return Limits(
        laws=sparse.csc_array(sparse.vstack(laws)),
        first=first,
        second=second,
        families=families,
        factor=math.exp(epsilon) * (1.0 - 4.0 * ULP),
        delta=problem.delta,
        room=(160.0 + 8.0 * epsilon) * ULP,
    )


def _spread(laws: FloatArray, cells: Array | None, n_cells: int) -> sparse.csr_array:
    """Return laws over all cells."""
    at, place = laws.nonzero()
    cell = place if cells is None else np.asarray(cells)[place]
    return sparse.csr_array((laws[at, place], (at, cell)), shape=(len(laws), n_cells))


def excesses(
    limits: Limits, entries: Shares, lowered: float
) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """Yield for each pair its number, outputs, and by how much it exceeds its limit there, at most.

    ``lowered`` says by how many parts of 2^62 each share may be lowered later.
    """
    n = limits.laws.shape[1]
    where = (entries.cells, entries.targets)
    table = sparse.csr_array((entries.shares.astype(float), where), shape=(n, n))
    ones = sparse.csr_array((np.ones(entries.cells.size), where), shape=(n, n))
    room = limits.side_room(np.bincount(entries.targets, minlength=n))
    laws = limits.laws.tocsr()
    for rows, pairs in limits.families:
        flows, mass = laws[rows] @ table, laws[rows] @ ones
        outputs = np.unique(mass.tocoo().coords[1]).astype(np.int64)
        flow = flows[:, outputs].toarray()
        most = flow * (1.0 + room[outputs])
        least = flow * (1.0 - room[outputs]) - lowered * mass[:, outputs].toarray()
        for pair in range(pairs.start, pairs.stop):
            one, other = limits.first[pair] - rows.start, limits.second[pair] - rows.start
            yield pair, outputs, most[one] - limits.factor * least[other]


def allowed(limits: Limits, entries: Shares, lowered: float, share: float) -> FloatArray:
    """Return how much of its excess at each output a pair may keep, to stay within ``share``.

    That is 0 for the pure promise; under a delta a pair has a share of it for each output.
    """
    kept = np.zeros(limits.first.size)
    if limits.delta == 0.0:
        return kept
    for pair, _, excess in excesses(limits, entries, lowered):
        total = float(np.maximum(excess, 0.0).sum()) / WHOLE
        kept[pair] = min(share * limits.delta / total, 2.0) if total > 0.0 else 0.0
    return kept


def broken(limits: Limits, entries: Shares, lowered: float, kept: FloatArray) -> BoolArray:
    """Return at which outputs a pair exceeds its limit by more than it may keep of that."""
    outputs_broken = np.zeros(limits.laws.shape[1], dtype=bool)
    for pair, outputs, excess in excesses(limits, entries, lowered):
        if kept[pair] < 1.0:
            outputs_broken[outputs[excess > 0.0]] = True
    return outputs_broken


def failed(limits: Limits, entries: Shares) -> BoolArray:
    """Return at which outputs the budget is exceeded."""
    return broken(limits, entries, 0.0, allowed(limits, entries, 0.0, 1.0 - _SUMS))
