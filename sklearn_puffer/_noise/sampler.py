r"""Samplers of noise on a grid, what they share, and the release of a column by them.

The distribution drawn is the continuous one rounded to a grid of step g,
:math:`K = \lfloor N/g \rfloor`, so with X on the grid ``X + g K`` is a rounding of ``X + N``: a
post-processing of the continuous release, which inherits its privacy loss.

Nothing is kept that could replay the noise.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_puffer._base import BoolArray, FloatArray, IntArray, check_positive
from sklearn_puffer._noise.entropy import (
    CheckedEntropy,
    Entropy,
    NotCopied,
    RowEntropy,
    SystemEntropy,
)

GRID_BITS = 40
"""A grid step is at most 2^-39 of the scale of the noise (unless the data's range forbids it)."""

MAX_STEPS = 2**62
"""Values lie within this many steps of 0, so that value plus noise never leaves 64 bits."""

FINEST = 2.0**-39  # a grid step in scales, where the range does not ask for a coarser one
_COARSEST = 10  # a coarsened step is at most 2^-10 of the scale


def grid_step(scale: float, *, integer: bool = False) -> float:
    r"""Return the step of the grid on which noise of a scale theta is drawn, a power of two.

    .. math:: g = 2^{\lceil \log_2(\theta / 2^{40}) \rceil}, \qquad \max(g, 1) \text{ for integers}

    So of a column of whole numbers it is 1 up to a scale of 2^40.

    >>> grid_step(1.0) == 2.0**-40, grid_step(3.0, integer=True)
    (True, 1.0)
    """
    step = math.ldexp(1.0, _grid_exponent(check_positive(scale, "scale")))
    if step == 0.0:
        raise ValueError(f"scale must be at least 2**-1034, got {scale!r}; rescale the column.")
    return max(step, 1.0) if integer else step


def coarse_enough(step: float, scale: float, reach: float) -> float:
    r"""Return the smallest step, not below ``step``, at which a range fits into 2^62 steps.

    It has :math:`|x| \le 2^{61} \cdot \text{step}` for the ``reach`` of all values that may ever be
    released, which must not be computed from the rows that are. A step of more than scale / 2^10 is
    refused.

    >>> coarse_enough(2.0**-40, 1.0, 1e6) == 2.0**-40
    True
    >>> coarse_enough(2.0**-40, 1.0, 2.0**30) == 2.0**-31
    True
    """
    _exponent_of(step)
    if not (math.isfinite(reach) and reach >= 0.0):
        raise ValueError(f"reach must be finite and not negative, got {reach!r}.")
    mantissa, exponent = math.frexp(reach)
    needed = math.ldexp(1.0, exponent - 61 - (mantissa == 0.5)) if reach else 0.0
    if needed <= step:
        return step
    if needed > math.ldexp(check_positive(scale, "scale"), -_COARSEST):
        raise ValueError(
            f"scale {scale!r} is too small for values of up to {reach!r}: in 64 bits they need "
            f"steps of {needed!r}; remove outlying values, bin the column, or shift it towards 0."
        )
    return needed


def to_indices(x: ArrayLike, step: float) -> IntArray:
    r"""Return :math:`\lfloor x/g + 1/2 \rfloor`, exactly: halves go up, never to the even side.

    >>> to_indices([0.5, 1.5, -0.5, 0.49999999999999994], 1.0).tolist()
    [1, 2, 0, 0]
    >>> to_indices([3, 5], 2.0).tolist()
    [2, 3]
    """
    exponent = _exponent_of(step)
    values = np.asarray(x)
    if values.dtype.kind in "iub":
        return _integers_to_steps(values, exponent)
    with np.errstate(over="ignore", under="ignore"):
        quotient: FloatArray = np.divide(values, step, dtype=np.float64)
    if not np.all(np.abs(quotient) <= MAX_STEPS):
        raise _too_far(step)
    # x/g - floor(x/g) is exact where it decides, which x/g + 1/2 is not: see the example
    floor = np.floor(quotient)
    upper = np.subtract(quotient, floor, out=quotient) >= 0.5
    return floor.astype(np.int64) + upper


def _integers_to_steps(values: NDArray[Any], exponent: int) -> IntArray:
    step = math.ldexp(1.0, exponent)
    farthest = max(-int(values.min()), int(values.max())) if values.size else 0
    if farthest > min(MAX_STEPS * step, 2**63 - 1):
        raise _too_far(step)
    whole: IntArray = values.astype(np.int64)
    if exponent <= 0:
        return whole << min(-exponent, 62)
    return ((whole >> min(exponent - 1, 63)) + 1) >> 1


def _too_far(step: float) -> ValueError:
    return ValueError(
        f"x must be finite and within 2**62 steps of {step!r} around 0; take a coarser step."
    )


def _grid_exponent(scale: float) -> int:
    mantissa, exponent = math.frexp(scale)
    return exponent - GRID_BITS - (mantissa == 0.5)


def _exponent_of(step: float) -> int:
    mantissa, exponent = math.frexp(step)
    if mantissa != 0.5:
        raise ValueError(
            f"step must be a positive power of two, got {step!r}; take it from grid_step."
        )
    return exponent - 1


class Grid(NamedTuple):
    """The grid wanted, of step ``2^(fine + shift)``, and the finer one that is drawn on."""

    fine: int
    shift: int
    nearest: bool


RELATIVE_ERROR = 1e-12
"""Proven bound r on the relative error of every atom's probability; see the classes of samplers."""

SPARE = 2e-10  # of epsilon, for the sampler's error of further draws

BLOCK = 2**16  # values drawn at a time: the scratch stays in the cache, or nearly so
BATCH = 2**10  # fewest values drawn: the time of so many hardly depends on any one of them
CHUNKS = 2**16  # a coarse cell is read off 16 bits
REST_CHUNKS = 2**14  # and one of the rest off 14
CELL_BITS = 16  # the bits of the fine position that come with the coarse cell
# 0-d arrays: in operations on a few values numpy takes them in half the time of a Python integer
_SIXTEEN = np.array(16, dtype=np.uint32)
_SIGN_OF_32 = np.array(31, dtype=np.int32)
SIGN = np.array(63)
_SPARE_REST = 2**11  # draws from the rest that are made at once, where fewer are wanted
LANES = 4  # proposals for the rest that a row makes at once
REST_MASK = np.array(REST_CHUNKS - 1)


_forks = 0  # number of forks between the first process and this one


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # else none ever is
    os.register_at_fork(after_in_child=_forked)


def single_scale(noise: Any) -> float:
    """Return the scale of noise for a single column."""
    if isinstance(noise.scale, tuple):
        raise TypeError(
            f"noise must have a single scale, got {noise!r}; take one sampler a column."
        )
    return float(noise.scale)


def blocks(size: int) -> Iterator[slice]:
    """Cut ``size`` values into blocks of at most 2^16."""
    for start in range(0, size, BLOCK):
        yield slice(start, min(start + BLOCK, size))


class Chunks:
    r"""Which of 2^16 equally likely chunks belong to which cell, and of 2^14 for the rest.

    The cells are equal, of :math:`L = 2^{16 + s}` fine positions. Of the 2^16 chunks n_h belong to
    cell h < H, where the fine position is uniform; the others stand for the rest of the
    distribution, whose envelope is given for each cell, and beyond them.
    """

    def __init__(self, cell_bits: int, body: IntArray, above: FloatArray) -> None:
        low_bits = cell_bits - CELL_BITS
        self.low_bits, self.cell_bits = np.array(low_bits), np.array(cell_bits)  # s, 16 + s
        self.surplus = np.array(31 - low_bits, dtype=np.int32)
        self.rest_surplus = np.array(63 - cell_bits)
        self.body, self.last = body, np.array(body.size)  # n_h, H
        # a 32-bit word from here on starts with a chunk of the rest
        self.limit = np.array(int(body.sum()) << 16, dtype=np.uint32)
        self.advance = _advance(body)
        # more chunks of the rest than is wanted for each cell, but by two at most
        self.kappa = (REST_CHUNKS - above.size) / math.fsum(above.tolist())  # for a unit of it
        chunks = (self.kappa * above).astype(np.int64) + 1
        chunks[: REST_CHUNKS - chunks.sum()] += 1
        # the cell of each chunk of the rest, H beyond the cells; and 2^64 kappa / c_h
        self.rest_cell = np.repeat(np.arange(chunks.size, dtype=np.int16), chunks)
        self.gain: FloatArray = math.ldexp(self.kappa, 64) / chunks


def _advance(body: IntArray) -> NDArray[np.uint32]:
    """Return what to add to a word that starts with chunk c, so that it starts with its cell h.

    Modulo 2^32; a single 0 where no chunk belongs to a cell.
    """
    cell = np.repeat(np.arange(body.size, dtype=np.uint32), body)
    cell -= np.arange(cell.size, dtype=np.uint32)
    cell <<= _SIXTEEN
    return cell if cell.size else np.zeros(1, dtype=np.uint32)


class Sampler(NotCopied, ABC):
    r"""Noise of one family and scale, in steps of a grid: K = floor(N/g) or floor(N/g + 1/2).

    A family draws :math:`J = \lfloor N/f \rfloor` on a grid of step :math:`f = g / 2^s`; then
    :math:`\lfloor J/2^s \rfloor = \lfloor N/g \rfloor`, and
    :math:`\lfloor (J + 2^{s-1})/2^s \rfloor = \lfloor N/g + 1/2 \rfloor`, both exactly.

    Most draws are read off `Chunks`, without any test; the others come from the rest.

    A draw that falls far takes longer than others. So a few values are the first ones of a batch,
    the rest of which is discarded: the time is that of the batch.

    A sampler holds scratch memory, and draws of the rest that are not taken yet (a forked process
    drops them): use one for each thread, and never store one. Its bits pass the health check of
    `CheckedEntropy` before they are used.

    Attributes
    ----------
    step : float
        The step g, in the units of the column.
    saturated : bool
        Whether draws further than 2^62 steps from 0 are given as 2^62 steps. Only a sum that is
        itself saturated at 2^61 steps hides that, as `release` does.
    """

    saturated: bool = False

    _distribution: Chunks
    _spare: IntArray = np.empty(0, dtype=np.int64)  # of the rest, made and not taken yet
    _n_rest = 0  # draws taken from the rest

    def __init__(self, distribution: Chunks, grid: Grid, entropy: Entropy) -> None:
        self.step = math.ldexp(1.0, grid.fine + grid.shift)
        self._shift = min(grid.shift, 62)  # |J| < 2^61, so that any larger shift gives the same
        self._half = 1 << (self._shift - 1) if grid.nearest else 0
        self._entropy = CheckedEntropy(entropy)
        self._distribution, self._forks = distribution, _forks
        self._scratch: IntArray | None = None
        # whether only h and the upper bits of l decide K, and how they are rounded
        low_bits = int(distribution.low_bits)
        carry = self._half >> low_bits
        fits = (distribution.body.size << CELL_BITS) + carry < 2**31
        self._coarse = np.array(self._shift - low_bits, dtype=np.int32)
        self._carry = np.array(carry % 2**31, dtype=np.int32)
        self._is_coarse = self._shift > low_bits and fits and carry << low_bits == self._half
        self._is_short = self._is_coarse and carry % 2 == 0

    def fill(self, out: IntArray) -> None:
        """Overwrite ``out``, int64 of shape (n,), with independent noise in steps."""
        for block in blocks(out.size):
            out[block] = self.draw(block.stop - block.start)

    def draw(self, size: int) -> IntArray:
        """Return ``size`` (at most 2^16) draws in scratch memory, overwritten by the next call."""
        return self._batch(max(size, BATCH))[:size]

    def _batch(self, size: int) -> IntArray:
        """Return ``size`` draws in scratch memory, in a time that depends on them."""
        if self._scratch is None or self._scratch.size < size:
            self._scratch = np.empty(size, dtype=np.int64)
        out = self._scratch[:size]
        rest = self._many_rounded(out)
        if rest.size:
            out[rest] = self._next_of_rest(rest.size)
        return out

    @abstractmethod
    def by_row(self, rows: RowEntropy) -> IntArray:
        """Return one draw for each row, from the bits of that row and alike on every machine."""

    def _rounded(self, drawn: IntArray) -> IntArray:
        """Turn draws of J into draws of K, in place."""
        if self._half:
            drawn += self._half
        if self._shift:
            drawn >>= self._shift
        return drawn

    def _next_of_rest(self, size: int) -> IntArray:
        """Return the next draws of K from the rest, some of which were made before.

        One round makes draws for several blocks, as many as were taken so far, so that a short
        column does not wait for draws that it never takes.
        """
        if self._forks != _forks:  # else it would draw what its parent draws
            self._spare, self._forks = self._spare[:0], _forks
        if self._spare.size < size:
            more = self._of_rest(max(size, min(self._n_rest, _SPARE_REST)))
            self._spare = np.append(self._spare, more) if self._spare.size else more
        self._n_rest += size
        taken, self._spare = self._spare[:size], self._spare[size:]
        return taken

    @abstractmethod
    def _of_rest(self, size: int) -> IntArray:
        """Return at least so many draws of K from the rest of the distribution."""

    def _many(self, out: IntArray) -> NDArray[np.intp]:
        """Fill ``out`` with draws of J, and return the positions that need one from the rest."""
        return self._read(out, *self._halves(out.size))

    def _halves(self, size: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        bits = self._entropy.words(size).view(np.uint32)
        return bits[:size], bits[size:]

    def _many_rounded(self, out: IntArray) -> NDArray[np.intp]:
        """Fill ``out`` with draws of K, and return the positions that need one from the rest."""
        if self._is_short:
            words = self._entropy.words(-(-out.size // 2))
            return self._read_short(out, words.view(np.uint32)[: out.size])
        if self._is_coarse:
            return self._read_coarse(out, *self._halves(out.size))
        rest = self._many(out)
        self._rounded(out)
        return rest

    def _read_coarse(
        self, out: IntArray, first: NDArray[np.uint32], second: NDArray[np.uint32]
    ) -> NDArray[np.intp]:
        r"""Fill ``out`` with draws of K where a step is more than :math:`2^s` fine positions.

        The lower s bits of l are rounded off, whatever they are: 32 bits and a sign are enough.
        """
        signs = second.view(np.int32) >> _SIGN_OF_32
        return self._read_signed(out, first, signs)

    def _read_short(self, out: IntArray, first: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Fill ``out`` with draws of K where the last bit of M is rounded off: it is the sign.

        Neither M + carry nor -1 - M + carry, the carry being even, has K depend on that bit. It is
        fair and independent of all others, as a bit of its own would be.
        """
        signs = first.view(np.int32) << _SIGN_OF_32
        signs >>= _SIGN_OF_32
        return self._read_signed(out, first, signs)

    def _read_signed(
        self, out: IntArray, first: NDArray[np.uint32], signs: NDArray[np.int32]
    ) -> NDArray[np.intp]:
        """Fill ``out`` with draws of K, negative ones where the sign is -1 and not 0."""
        rounded = self._upper(out, first).view(np.int32)
        rounded ^= signs  # M, or -1 - M
        rounded += self._carry
        rounded >>= self._coarse
        out[...] = rounded
        return (first >= self._distribution.limit).nonzero()[0]

    def _upper(self, out: IntArray, first: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return h and the upper 16 bits of l, with ``out`` for scratch memory."""
        word = first >> _SIXTEEN
        out[...] = word
        self._distribution.advance.take(out, None, word, "clip")
        word += first
        return word

    def _first_by_row(self, rows: RowEntropy) -> tuple[IntArray, NDArray[np.intp]]:
        """Return draws of J, and the positions that need one from the rest."""
        out = np.empty(rows.size, dtype=np.int64)
        return out, self._read(out, *rows.halves())

    def _first_rounded_by_row(self, rows: RowEntropy) -> tuple[IntArray, NDArray[np.intp]]:
        """Return draws of K, and the positions that need one from the rest."""
        if self._is_coarse:
            out = np.empty(rows.size, dtype=np.int64)
            return out, self._read_coarse(out, *rows.halves(short=True))
        out, rest = self._first_by_row(rows)
        return self._rounded(out), rest

    def _rest_by_row(self, rows: RowEntropy) -> IntArray:
        """Rejection-sample the rest for each row."""
        drawn, pending = np.empty(rows.size, dtype=np.int64), np.arange(rows.size)
        while pending.size:
            proposed, accepted = self._proposed_by_row(rows.take(pending))
            drawn[pending[accepted]] = proposed[accepted]
            pending = pending[~accepted]
        return drawn

    @abstractmethod
    def _proposed_by_row(self, rows: RowEntropy) -> tuple[IntArray, BoolArray]:
        """Return for each row the first proposal of a few that is accepted, and whether one is."""

    def _read(
        self, out: IntArray, first: NDArray[np.uint32], second: NDArray[np.uint32]
    ) -> NDArray[np.intp]:
        """Fill ``out`` with draws of J read off two halves of a word each; return as `_many`."""
        distribution = self._distribution
        word = self._upper(out, first)
        out[...] = word
        out <<= distribution.low_bits
        # the lower bits of l; the copies of a fair sign above them turn M into -1 - M
        out ^= np.right_shift(second.view(np.int32), distribution.surplus, word.view(np.int32))
        return (first >= distribution.limit).nonzero()[0]


def first_of(happens: BoolArray, size: int) -> NDArray[np.intp]:
    """Return the index of each row's first accepted proposal, or of its last if none is.

    The j-th proposal of row i is at ``j * size + i``.
    """
    lanes = happens.reshape(-1, size)
    lane = np.where(lanes.any(axis=0), lanes.argmax(axis=0), len(lanes) - 1)
    return lane * size + np.arange(size)


def sampler_loss(n_draws: int) -> float:
    """Return how much the relative error of the sampler's atoms adds to a pure loss, in nats.

    Each release of a row takes one draw for each column.
    """
    return n_draws * 2.0 * math.log1p(2.0 * RELATIVE_ERROR / (1.0 - RELATIVE_ERROR))


_FAR = 2**61  # where the sum of a value and saturated noise is itself saturated


# ------------------------------------------------------------------------------------ the samplers


def sampler(
    noise: Any, step: float, entropy: Entropy | None = None, *, nearest: bool = False
) -> Sampler:
    r"""Return a sampler of noise rounded to a grid of step g, a power of two.

    It draws :math:`\lfloor N/g \rfloor`, or :math:`\lfloor N/g + 1/2 \rfloor` (``nearest``), which
    is symmetric. The step is at least ``grid_step(noise.scale)``, and the noise has a single scale.
    """
    if not hasattr(noise, "sampler"):
        raise TypeError(f"noise must be of a noise family, such as Laplace(1.0), got {noise!r}.")
    scale = single_scale(noise)
    finest, exponent = _grid_exponent(scale), _exponent_of(step)
    if exponent < finest:
        raise ValueError(f"step must be at least grid_step({scale!r}), got {step!r}.")
    fine = min(finest, exponent - nearest)
    grid = Grid(fine, exponent - fine, nearest)
    drawn: Sampler = noise.sampler(grid, entropy or SystemEntropy())
    return drawn


# ------------------------------------------------------------------------------------- the release


class NoiseSource(Protocol):
    """The noise that a release adds: a sampler, fresh or keyed by row."""

    step: float
    saturated: bool

    def draw(self, size: int) -> IntArray:
        """Return draws, of at most 2^16, in memory that may be overwritten."""


def release(
    indices: IntArray,
    source: NoiseSource,
    out: NDArray[Any],
    *,
    reach: int = MAX_STEPS,
) -> None:
    r"""Write values plus noise into ``out``, block by block, in 64-bit integers until the end.

    Values and noise are in steps of the source, the values at most ``reach`` from 0. ``out`` holds
    floats, or integers (saturated at the range of their type). The sum is saturated 2^62 steps from
    0, and 2^61 if the noise is saturated; floats are not otherwise. Up to a reach of 2^61 no sum
    gets to 2^62, as noise that is not saturated does not leave 2^61 either.

    *Formal guarantees.* Value plus noise never leaves 64 bits, and what is written is a function of
    the exact sum x + K: saturation and conversion are post-processing. A sampler that gives noise
    beyond S = 2^62 steps as S (`Sampler.saturated`) changes nothing, because its sums are saturated
    at B = 2^61 steps: for :math:`|x| \le 2^{61}`, either K is exact, or :math:`|K| \ge S` and then
    :math:`|x + K| \ge S - 2^{61} \ge B` with the true K and with S.

    >>> from sklearn_puffer.noise import Laplace
    >>> ages = np.empty(3, dtype=np.int8)
    >>> release(np.array([30, 40, 50]), sampler(Laplace(1e6), 1.0, nearest=True), ages)
    >>> ages.dtype
    dtype('int8')
    """
    hidden = source.saturated
    if hidden and indices.size and max(-int(indices.min()), int(indices.max())) > _FAR:
        raise ValueError(
            "indices must lie within 2**61 steps of 0 for noise with heavy tails; take a coarser "
            "step, as coarse_enough returns it."
        )
    bound = _FAR if hidden else MAX_STEPS
    low, high, factor = _range_in_steps(out.dtype, source.step, bound)
    # value and noise lie within 2^62 and 2^61 steps, or 2^61 and 2^62: their sum fits into 64 bits
    bounded = hidden or out.dtype.kind != "f"
    plain = factor == 1 and out.dtype.kind != "f"  # the sum in steps is the value itself
    free = plain and out.dtype == np.int64 and reach <= _FAR and not hidden
    for block in blocks(indices.size):
        total = source.draw(block.stop - block.start)
        if free:
            np.add(total, indices[block], out=out[block])
            continue
        np.add(total, indices[block], out=total)
        if bounded and plain:
            np.clip(total, low, high, out=out[block], casting="unsafe")
            continue
        if bounded:
            np.clip(total, low, high, out=total)
        with np.errstate(over="ignore"):  # beyond the range of floats is infinity
            np.multiply(total, factor, out=out[block], casting="unsafe")


@lru_cache(maxsize=64)
def _range_in_steps(
    dtype: np.dtype[Any], step: float, bound: int
) -> tuple[int, int, float | np.int64]:
    """Return the bounds of the sum, and the size of a step in ``dtype``."""
    if dtype.kind == "f":
        return -bound, bound, step
    if dtype.kind not in "iu":
        raise TypeError(f"out must hold floats or integers, got {dtype}.")
    if step < 1.0:
        raise ValueError(f"step must be at least 1 for {dtype}, got {step!r}; draw with step=1.")
    info, whole = np.iinfo(dtype), int(step)
    low, high = max(-bound, -(-info.min // whole)), min(bound, info.max // whole)
    return low, high, np.int64(min(whole, MAX_STEPS))
