"""Vectors of integers of any size, in limbs of 64 bits, and the order of their shares of a total.

Priors given as floats are integers over a power of two that 64 bits mostly cannot hold. What a
coupling needs of them is exact all the same: running sums, which of two shares is the larger, and
here and there a difference. Sums of limbs are numpy's; shares are compared in 64 bits, with a
proven bound on their error, and what that leaves open is settled in Python's integers.
"""

# Sums of limbs. Let S be the sum of all first limbs up to an index, and c < 2^64 what the limbs
# below have carried by then. The limb of the running sum is (S + c) mod 2^64, and it passes on
# floor((S + c) / 2^64) in all: once for each time that numpy's cumulative sum, modulo 2^64, fell
# below its last summand, and once more if adding c to it passed 2^64 as well. The top limb drops
# what it passes on, so that all is modulo 2^(64 k), and differences that fit are exact.
#
# Rounding of `Shares.write_keys`. A step is a share in units of 2^-s, s <= 61. The share is a
# quotient that was rounded once, at most by 2^-53 of itself (or by 2^-1075); scaling it is exact,
# and the fraction of a unit that is cut off is below 1. The shares of a pair add up to 1, so a sum
# of n steps is off by less than n + 2^(s - 53) + 1 units. Of two keys that are further apart than
# twice that, the larger one belongs to the larger sum.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from sklearn_puffer._base.types import Array, FloatArray

_BITS = 64
_STEP_BITS = 61  # sums of shares, and the number of the pair before them, are below 2^62


@dataclass(frozen=True, eq=False)
class WideIntegers:
    """Integers that are not negative, as limbs of 64 bits.

    Attributes
    ----------
    limbs : ndarray of uint64 of shape (k, n)
        The least significant ones first. Arithmetic is modulo 2^(64 k); what `of` and `scaled`
        return has room for the sum of all.

    Examples
    --------
    >>> numbers = WideIntegers.of([1, 2**70, 3])
    >>> numbers.sums(np.array([0])).integers().tolist() == [1, 2**70 + 1, 2**70 + 4]
    True
    """

    limbs: NDArray[np.uint64]

    @classmethod
    def of(cls, integers: Sequence[int] | Array) -> WideIntegers:
        """Split Python's integers into limbs, or take 64-bit ones whose sum is one."""
        if isinstance(integers, np.ndarray) and integers.dtype == np.int64:
            return cls(integers.astype(np.uint64)[None])
        values = [int(value) for value in integers]
        width = _limbs_for(sum(values).bit_length())
        data = b"".join(value.to_bytes(8 * width, "little") for value in values)
        limbs = np.frombuffer(data, dtype="<u8").reshape(len(values), width)
        return cls(np.ascontiguousarray(limbs.T, dtype=np.uint64))

    @classmethod
    def scaled(cls, mantissas: Array, shifts: Array) -> WideIntegers:
        """Return mantissas below 2^63 times 2^shifts.

        >>> numbers = WideIntegers.scaled(np.array([3, 1]), np.array([63, 0]))
        >>> numbers.integers().tolist() == [3 * 2**63, 1]
        True
        """
        each = np.arange(len(mantissas))
        width = _limbs_for(int(shifts.max()) + _BITS + len(each).bit_length())
        limbs = np.zeros((width, len(each)), dtype=np.uint64)
        words, places = mantissas.astype(np.uint64), shifts // _BITS
        up = (shifts % _BITS).astype(np.uint64)
        limbs[places, each] = words << up
        # in two steps, for a shift by 64 bits is undefined
        limbs[places + 1, each] = words >> np.uint64(1) >> (np.uint64(_BITS - 1) - up)
        return cls(limbs)

    @classmethod
    def joined(cls, parts: Sequence[WideIntegers]) -> WideIntegers:
        """Lay vectors end to end."""
        if len(parts) == 1:
            return parts[0]
        width = max(len(part.limbs) for part in parts)
        padded = [np.pad(each.limbs, ((0, width - len(each.limbs)), (0, 0))) for each in parts]
        return cls(np.concatenate(padded, axis=1))

    def __len__(self) -> int:
        return len(self.limbs[0])

    def take(self, places: Array) -> WideIntegers:
        """Return the integers at some places."""
        return WideIntegers(self.limbs[:, places])

    @cached_property
    def positive(self) -> NDArray[np.bool_]:
        """Which integers are not zero."""
        positive: NDArray[np.bool_] = self.limbs[0] != 0
        for limb in self.limbs[1:]:
            positive |= limb != 0
        return positive

    @cached_property
    def running(self) -> WideIntegers:
        """The running sums of all."""
        return self.sums(np.zeros(1, dtype=int))

    @cached_property
    def total(self) -> int:
        """The sum of all."""
        return int(self.running.take(np.array([-1])).integers()[0])

    def sums(self, starts: Array) -> WideIntegers:
        """Return the running sums, which begin anew at each of ``starts``: 0 and others."""
        limbs = np.empty_like(self.limbs)
        np.cumsum(self.limbs[0], out=limbs[0])
        passed = limbs[0] < self.limbs[0]
        over: Array | int = 0
        for own, total in zip(self.limbs[1:], limbs[1:], strict=True):
            carried = np.cumsum(passed.view(np.uint8), dtype=np.uint64)
            carried += over
            np.cumsum(own, out=total)
            passed = total < own
            total += carried
            over = total < carried
        sums = WideIntegers(limbs)
        if len(starts) == 1:
            return sums
        before = sums.take(starts - 1)
        before.limbs[:, 0] = 0
        lengths = np.diff(starts, append=len(self))
        return sums.minus(before.take(np.repeat(np.arange(len(starts)), lengths)))

    def minus(self, other: WideIntegers) -> WideIntegers:
        """Return the differences of integers in as many limbs."""
        limbs = self.limbs - other.limbs
        borrowed = np.zeros(len(self), dtype=bool)
        for difference, a, b in zip(limbs, self.limbs, other.limbs, strict=True):
            short = (a < b) | ((a == b) & borrowed)
            difference -= borrowed
            borrowed = short
        return WideIntegers(limbs)

    def summed(self, starts: Array) -> WideIntegers:
        """Return the sum of each run of integers that begins at one of ``starts``."""
        if len(starts) == len(self):
            return self
        return self.sums(starts).take(np.append(starts[1:], len(self)) - 1)

    def integers(self) -> Array:
        """Return Python's integers, shape (n,)."""
        values: Array = self.limbs[-1].astype(object)
        for limb in self.limbs[-2::-1]:
            values = values * 2**_BITS + limb.astype(object)
        return values


def _limbs_for(bits: int) -> int:
    return max(1, -(-bits // _BITS))


@dataclass(frozen=True, eq=False)
class Shares:
    """One side of some pairs of priors: the counts of their atoms, one pair after another.

    Attributes
    ----------
    counts : WideIntegers of length n
    shares : ndarray of shape (n,)
        The counts by their totals, correctly rounded.
    owners : ndarray of int of shape (n,)
        The pair of each; never decreasing, and no pair is left out.
    units : ndarray of object of shape (n_pairs,)
        What a count of each pair is worth, so that both sides of the pair have the same total.
    """

    counts: WideIntegers
    shares: FloatArray
    owners: Array
    units: Array

    def __len__(self) -> int:
        return len(self.shares)

    def take(self, places: Array) -> Shares:
        """Return the atoms in another order, which keeps to the pairs."""
        owners = self.owners[places]
        return Shares(self.counts.take(places), self.shares[places], owners, self.units)

    @cached_property
    def starts(self) -> Array:
        """The first atom of each pair."""
        return np.searchsorted(self.owners, np.arange(len(self.units)))

    @cached_property
    def ends(self) -> WideIntegers:
        """The running sums of each pair's counts."""
        return self.counts.running if len(self.units) == 1 else self.counts.sums(self.starts)

    @cached_property
    def longest(self) -> int:
        """The most atoms of a pair."""
        return int(np.diff(self.starts, append=len(self)).max())

    def write_keys(self, keys: Array, bits: int) -> None:
        """Write about the running sum of each pair's shares, plus its number, times 2^bits."""
        np.cumsum((self.shares * 2.0**bits).astype(np.int64), out=keys)
        if len(self.units) > 1:
            before = keys[self.starts - 1]
            before[0] = 0
            begins = (np.arange(len(self.units)) << bits) - before
            keys += begins[self.owners]


def merged(p: Shares, q: Shares, most_open: float = 1.0) -> tuple[Array, Array, Pieces] | None:
    """Return in which order the running sums of both sides cut the unit interval of each pair.

    There is no answer if more than the share ``most_open`` of the sums must be settled in Python's
    integers: then all of the work is done faster in those.

    Returns
    -------
    order : ndarray of int of shape (m + n,)
        Positions of sums, those of p before those of q. Equal sums keep that order.
    real : ndarray of bool of shape (m + n,)
        Which sums exceed the one before them, or 0.
    pieces : Pieces
        By how much those do.

    Examples
    --------
    >>> pair, half = np.zeros(2, dtype=int), np.array([0.5, 0.5])
    >>> p = Shares(WideIntegers.of([2**80, 2**80]), half, pair, np.array([1], dtype=object))
    >>> q = Shares(WideIntegers.of([1, 1]), half, pair, np.array([2**80], dtype=object))
    >>> order, real, pieces = merged(p, q)
    >>> order.tolist(), real.tolist(), (pieces / 2**80).tolist()
    ([0, 2, 1, 3], [True, False, True, False], [1.0, 1.0])
    """
    # fresh memory costs more than the arithmetic
    keys = np.empty(len(p) + len(q), dtype=np.int64)
    bits = _STEP_BITS - len(p.units).bit_length()
    p.write_keys(keys[: len(p)], bits)
    q.write_keys(keys[len(p) :], bits)
    order = np.argsort(keys, kind="stable")  # two sorted runs: one linear merge
    close = _close(keys, order, len(p), max(p.longest, q.longest) + 2 ** max(bits - 53, 0) + 1)
    if len(close) > most_open * len(order):
        return None
    marks, exceeds = _settled(p, q, np.sort(order[close]))
    order[close] = marks
    real = np.concatenate([p.counts.positive, q.counts.positive]).take(order)
    real[close] &= exceeds
    return order, real, Pieces(p, q, order, real)


def _close(keys: Array, order: Array, n_first: int, error: int) -> Array:
    """Return the places whose order the keys leave open: close ones of both sides.

    The running sums of one side are in order as they are. The keys are overwritten.
    """
    ordered = keys.take(order)
    distance = np.subtract(ordered[1:], ordered[:-1], out=keys[1:])
    tight = np.flatnonzero(distance <= 2 * error)
    if not tight.size:
        return tight
    starts = np.flatnonzero(np.diff(tight, prepend=-2) > 1)
    mixed = (order[tight] < n_first) != (order[tight + 1] < n_first)
    lengths = np.diff(starts, append=len(tight))
    chosen = tight[np.repeat(np.logical_or.reduceat(mixed, starts), lengths)]
    both = np.sort(np.concatenate([chosen, chosen + 1]), kind="stable")
    return both[np.diff(both, prepend=-1) > 0]


def _settled(p: Shares, q: Shares, marks: Array) -> tuple[Array, Array]:
    """Return positions of sums in their exact order, and which exceed the one before them."""
    owners = _of_both(p, q, marks, lambda side, places: side.owners[places])
    keys = (*_comparable(p, q, marks), owners)
    order = np.lexsort(keys)
    exceeds = np.ones(len(marks), dtype=bool)
    if len(marks):
        ordered = [key[order] for key in keys]
        exceeds[1:] = np.any([key[1:] != key[:-1] for key in ordered], axis=0)
    return marks[order], exceeds


def _comparable(p: Shares, q: Shares, marks: Array) -> Sequence[Array]:
    """Return what orders the sums at some positions exactly within a pair, the last key first."""
    if np.array_equal(p.units, q.units):
        width = max(len(side.counts.limbs) for side in (p, q))
        return [_of_both(p, q, marks, partial(_limb, place=place)) for place in range(width)]
    return [_of_both(p, q, marks, _exact_ends)]


def _limb(side: Shares, places: Array, place: int) -> Array:
    limbs = side.ends.limbs
    return limbs[place, places] if place < len(limbs) else np.zeros(len(places), np.uint64)


def _exact_ends(side: Shares, places: Array) -> Array:
    """Return some of the running sums in the common unit of their pair, as Python's integers."""
    ends: Array = side.ends.take(places).integers() * side.units[side.owners[places]]
    return ends


def _of_both(p: Shares, q: Shares, marks: Array, values: Callable[[Shares, Array], Array]) -> Array:
    """Return values at positions among those of p, and those of q after them."""
    of_q = marks >= len(p)
    found = [values(p, marks[~of_q]), values(q, marks[of_q] - len(p))]
    both = np.empty(len(marks), dtype=found[0].dtype)
    both[~of_q], both[of_q] = found
    return both


class Pieces(NDArrayOperatorsMixin):
    """The pieces into which two sides cut the unit interval: an array of Python's integers.

    They are worked out when they are looked at: an index costs no more than what it selects.
    Everything else turns the whole into an array.
    """

    dtype = np.dtype(object)

    def __init__(self, p: Shares, q: Shares, order: Array, real: Array) -> None:
        self._sides, self._order, self._real = (p, q), order, real

    @cached_property
    def _places(self) -> Array:
        return np.flatnonzero(self._real)

    @cached_property
    def _all(self) -> Array:
        ends = _of_both(*self._sides, self._order, _exact_ends)
        owners = _of_both(*self._sides, self._order, lambda side, at: side.owners[at])
        pieces = ends.copy()
        pieces[1:] -= np.where(owners[1:] == owners[:-1], ends[:-1], 0)
        return pieces[self._real]

    def _at(self, places: Array) -> Array:
        """Return by how much the sums at some places exceed the ones before them in their pair."""
        marks, before = self._order[places], self._order[places - 1]
        pieces, below = (_of_both(*self._sides, each, _exact_ends) for each in (marks, before))
        owners = [
            _of_both(*self._sides, each, lambda side, at: side.owners[at])
            for each in (marks, before)
        ]
        later = (places > 0) & (owners[0] == owners[1])
        pieces[later] -= below[later]
        return pieces

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        places = self._places[index]
        if 2 * places.size > len(self):
            return self._all[index]
        return self._at(places) if places.ndim else self._at(places[None])[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._all, dtype=dtype, copy=True if copy is None else copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(each) if isinstance(each, Pieces) else each for each in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._all, name)
