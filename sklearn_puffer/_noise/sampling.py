r"""Drawing the noise: on a grid, from cryptographic bits, with nothing kept that could replay it.

The law drawn is the continuous one rounded to a grid of step g, :math:`K = \lfloor N/g \rfloor`, so
with X on the grid ``X + g K`` is a rounding of ``X + N``: a post-processing of the continuous
release, which inherits its privacy loss.

Laplace noise on the grid.
"""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, FloatArray, IntArray, check_count
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.sampler import (
    CHUNKS,
    LANES,
    MAX_STEPS,
    REST_MASK,
    SIGN,
    Chunks,
    ChunkSampler,
    Entropy,
    Grid,
    NotCopied,
    RowEntropy,
    Sampler,
    Words,
    blocks,
    chunks_of,
    first_of,
    grid_of,
    single_scale,
)

_REACH = 12  # the coarse cells reach this many scales out


class LaplaceSampler(ChunkSampler):
    r"""Laplace noise of scale theta: exact integer arithmetic, and rejection for one draw in 90.

    .. math:: P(J = j) = P(J = -1-j) = \tfrac12 e^{-t j} (1 - e^{-t}), \qquad t = f/\theta,\ j \ge 0

    The magnitude is :math:`M = h L + l`: coarse cell h and fine position l < L, with L the power of
    two for which :math:`1/128 < q = t L \le 1/64`.

    Notes
    -----
    *Mixture.* The probability of M, times :math:`2^{16} L`, is :math:`W_h e^{-t l}` where
    :math:`W_h = 2^{16} L (1 - e^{-t}) e^{-q h}`. It hardly varies over a cell, so that nearly all
    of it is the integer :math:`n_h = \lfloor W_h e^{-q} \rfloor`. Of 2^16 equally likely chunks
    n_h belong to cell h, and l is uniform there: that part of the law is drawn without any test
    and without any error. The other chunks, a share :math:`\rho > 0.011` of all, stand for the
    rest, :math:`W_h e^{-t l} - n_h \ge 0`.

    *Rest.* Cell h is proposed for :math:`c_h > \kappa (W_h - n_h)` of 2^14 chunks, l is uniform,
    and the proposal is accepted with probability :math:`A = \kappa (W_h e^{-t l} - n_h) / c_h`.

    *Tail.* The last cell, :math:`h = H = \lceil 12/q \rceil`, stands for all :math:`M \ge H L`. It
    is part of the rest, with the mass :math:`2^{16} e^{-q H}`. When it is drawn, H L is added to a
    fresh draw of M, which is exact because the law is memoryless. So there are no holes and there
    is no end.

    *Formal guarantees.* Let u = 2^-53, and exp and expm1 be exact to 8 u. To first order in u, and
    with sums over the law:

    - Tables (`_body_and_rest`): they stand for :math:`W_h (1 + e_h)` with :math:`|e_h| \le 50 u`;
      the sum of the rest is nevertheless :math:`2^{16} \rho` up to 14 u, relatively.
    - A (`_accepted`): the term :math:`W_h (1 - e^{-t l})` is off by 12 u, and by at most 14 u on
      average for the e_h in it; it sums to at most 2^16 q/2, less than the rest: 26 u. The term
      :math:`W_h - n_h` is off by 2 u and thus sums to at most twice the rest: 4 u. Their sum and
      the comparison with a uniform of 64 bits are off by u each, and by 2^-64, which is below u
      relative to :math:`\kappa (W_h - n_h) / c_h \ge 1/150`: 3 u. And u for the factor
      :math:`\kappa / c_h`: in all 34 u of the rest. An A that is negative for such errors is 0.
    - An atom M < H L: 50 u for the tables, 5 u for its own A, 14 u + 34 u for the normalisation of
      the rest, relative to :math:`W_h`. The same bounds a pass through the last cell.

    So after k passes the relative error of the probability of M is at most 110 (1 + k) u, where
    k <= t M / 12. This is below `RELATIVE_ERROR` for every atom within 900 scales of 0, and what
    lies further out has a mass below 10^-390. The bits are taken to be fair and independent.
    """

    def __init__(self, scale: float, grid: Grid, entropy: Entropy) -> None:
        mantissa, exponent = math.frexp(scale)
        self._law = _law(mantissa, exponent - grid.fine)
        super().__init__(self._law, grid, entropy)

    def _of_rest(self, size: int) -> IntArray:
        return self._rounded(self._some_rest(size))

    def _overwrite(self, out: IntArray) -> IntArray:
        """Return ``out``, filled with draws of J."""
        rest = self._many(out)
        if rest.size:
            out[rest] = self._rest(rest.size)
        return out

    def _rest(self, size: int) -> IntArray:
        """Return draws of J from the rest of its law."""
        return self._some_rest(size)[:size]

    def _some_rest(self, size: int) -> IntArray:
        """Return at least so many of them."""
        # more than 0.55 of the proposals are accepted, so that one round is nearly always enough
        drawn = self._accepted(2 * size + 32)
        while drawn.size < size:
            drawn = np.append(drawn, self._accepted(2 * size + 32))
        return drawn

    def _accepted(self, proposals: int) -> IntArray:
        """Return those of some proposals for the rest that are accepted."""
        cell, signed, happens = self._tested(self._entropy.words(2 * proposals))
        accepted = happens.nonzero()[0]
        cell = cell.take(accepted)
        drawn: IntArray = (cell << self._law.cell_bits) ^ signed.take(accepted)
        passed = (cell == self._law.last).nonzero()[0]
        if passed.size:
            drawn[passed] = self._beyond(passed.size)
        return drawn

    def _tested(self, bits: Words) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the cells and the places in them that are proposed, and which are accepted."""
        law, proposals = self._law, bits.size // 2
        position, chance = bits[:proposals].view(np.int64), bits[proposals:]
        cell = law.rest_cell.take(position & REST_MASK).astype(np.int64)
        signed = position >> law.rest_surplus  # l or, for a negative draw, -1 - l
        threshold = portable.expm1((signed ^ (signed >> SIGN)) * law.rate)
        threshold *= law.slope.take(cell)
        threshold += law.intercept.take(cell)  # 2^64 A
        return cell, signed, chance < threshold

    def _beyond(self, size: int) -> IntArray:
        """Return draws of J whose magnitude is at least H L."""
        # One level deeper for each pass: a thousand of them have a chance of e^-12000.
        return self._further(self._overwrite(np.empty(size, dtype=np.int64)))

    def _further(self, drawn: IntArray) -> IntArray:
        passed = int(self._law.last) << int(self._law.cell_bits)
        return drawn + np.where(drawn < 0, -passed, passed)

    def by_row(self, rows: RowEntropy) -> IntArray:
        """Return one draw for each row, from the bits of that row and alike on every machine."""
        drawn, rest = self._first_rounded_by_row(rows)
        if rest.size:
            drawn[rest] = self._rounded(self._rest_by_row(rows.take(rest)))
        return drawn

    def _unrounded_by_row(self, rows: RowEntropy) -> IntArray:
        drawn, rest = self._first_by_row(rows)
        if rest.size:
            drawn[rest] = self._rest_by_row(rows.take(rest))
        return drawn

    def _proposed_by_row(self, rows: RowEntropy) -> tuple[IntArray, BoolArray]:
        cell, signed, happens = self._tested(rows.words(2 * LANES * rows.size))
        first = first_of(happens, rows.size)
        cell, signed, accepted = cell[first], signed[first], happens[first]
        drawn: IntArray = (cell << self._law.cell_bits) ^ signed
        passed = ((cell == self._law.last) & accepted).nonzero()[0]
        if passed.size:
            drawn[passed] = self._further(self._unrounded_by_row(rows.take(passed)))
        return drawn, accepted


@dataclass(frozen=True)
class _Law(Chunks):
    r"""The tables of a scale; see LaplaceSampler for the symbols.

    Attributes
    ----------
    rate : ndarray of shape ()
        -t.
    intercept, slope : ndarray of shape (H + 1,)
        2^64 kappa / c_h times W_h - n_h, and times W_h; for the last cell, times its mass and 0.
    """

    rate: FloatArray
    intercept: FloatArray
    slope: FloatArray


@lru_cache(maxsize=64)
def _law(mantissa: float, exponent: int) -> _Law:
    """Return the tables for t = 2^-exponent / mantissa, with the mantissa in [1/2, 1)."""
    mass, body, above = _body_and_rest(mantissa, exponent)
    chunks = chunks_of(exponent - 7, body, above)  # so that q = 2^-7 / mantissa
    return _Law(
        **vars(chunks),
        rate=np.array(-math.ldexp(1.0 / mantissa, -exponent)),
        intercept=above * chunks.gain,
        slope=np.append(mass, 0.0) * chunks.gain,
    )


def _body_and_rest(mantissa: float, exponent: int) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Return W_h and n_h of the cells h < H, and W_h - n_h followed by the mass of the last cell.

    W_h is off by 2 u q h for its exponent and 10 u for the rest: 35 u, and 12 u on average over the
    law. The correction adds no more than that average, so that :math:`|e_h| \le 50 u`. After it
    the rest sums to :math:`2^{16} \rho` up to 14 u: u/8 of 2^16 for 1 - shortfall, which the
    correction leaves out, and for roundings of shortfall times W_h, and 2 u for those of
    W_h - n_h.
    """
    q = math.ldexp(1.0 / mantissa, -7)
    decay = portable.exp(-q * np.arange(math.ceil(_REACH / q) + 1))
    factor, shortfall = _cell_mass(mantissa, exponent)
    mass, last = factor * decay[:-1], CHUNKS * decay[-1]
    body = np.floor(mass * portable.exp(-q))
    # W_h stands for W_h (1 - shortfall) draws in 2^16. That they are 2^16 in all is enforced in the
    # small numbers W_h - n_h, which hold far more digits of W_h than W_h itself.
    error = math.fsum([*mass.tolist(), last, -CHUNKS, *(-shortfall * mass).tolist()])
    above = np.append(mass - body, last)
    above -= (error / CHUNKS) * np.append(mass, last)
    return mass, body.astype(np.int64), above


def _cell_mass(mantissa: float, exponent: int) -> tuple[float, float]:
    r"""Return W_0 and :math:`1 - \sum_{l < L} e^{-t l} / L`, rounded once."""
    with localcontext(prec=60):
        t = 1 / (Decimal(mantissa) * 2**exponent)
        length = 2 ** (exponent - 7)
        density = length * (1 - (-t).exp())
        return float(CHUNKS * density), float(1 - (1 - (-t * length).exp()) / density)


_FAR = 2**61  # where the sum of a value and saturated noise is itself saturated


# ---------------------------------------------------------------------------------------- the bits


class _SystemEntropy(NotCopied):
    """Bits of OpenSSL's generator. It holds no state: nothing is buffered between two calls."""

    def words(self, count: int) -> Words:
        return np.frombuffer(ssl.RAND_bytes(8 * count), np.uint64)


class _SeededEntropy(NotCopied):
    def __init__(self, seed: int, key: tuple[int, ...]) -> None:
        # spawn keys, unlike further words of entropy, tell (1,) and (1, 0) apart
        sequence = np.random.SeedSequence(seed, spawn_key=key)
        self._bits = np.random.Philox(sequence)

    def words(self, count: int) -> Words:
        return self._bits.random_raw(count)


def system_entropy() -> Entropy:
    """Return the cryptographic generator of OpenSSL, seeded by the operating system.

    Notes
    -----
    *Formal guarantees.* The generator reseeds itself after a fork, and no bit is kept here, so no
    two calls, threads or processes ever share bits. It cannot be pickled or copied. Whatever draws
    from it first puts its words to the health tests of NIST SP 800-90B.

    Examples
    --------
    >>> system_entropy().words(3).shape
    (3,)
    """
    return _SystemEntropy()


def seeded_entropy(seed: int, *key: int) -> Entropy:
    """Return a reproducible generator, for tests only: who knows the seed can undo the noise.

    Parameters
    ----------
    seed : int
        Any integer that is not negative.
    *key : int
        Integers from 0 to 2^32 - 1 (a column, a call); different keys give independent streams.

    Raises
    ------
    TypeError, ValueError
        If an argument is not an integer in its range.

    Examples
    --------
    >>> first, second = seeded_entropy(0, 1).words(2), seeded_entropy(0, 2).words(2)
    >>> bool((first == second).any())
    False
    """
    for part in key:
        if check_count(part, "key", minimum=0) >= 2**32:
            raise ValueError(f"key must lie below 2**32, got {part!r}.")
    return _SeededEntropy(check_count(seed, "seed", minimum=0), key)


# ------------------------------------------------------------------------------------ the samplers


class Drawable(Protocol):
    """Noise of a family that says how it is drawn."""

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The scale, which is a single one."""

    def sampler(self, grid: Grid, entropy: Entropy) -> Sampler:
        """Return what draws the noise on a grid."""


def sampler(
    noise: Drawable, step: float, entropy: Entropy | None = None, *, nearest: bool = False
) -> Sampler:
    r"""Return a sampler of noise rounded to a grid.

    Parameters
    ----------
    noise : Drawable
        The continuous law, with a single scale: an object of a family of `noise`.
    step : float
        The step g of the grid, a power of two; at least ``grid_step(noise.scale)``.
    entropy : Entropy, optional
        Source of bits, by default `system_entropy`. It is an error (`RuntimeError`) to draw from
        one that is stuck or lopsided.
    nearest : bool, default=False
        Whether to draw :math:`\lfloor N/g + 1/2 \rfloor`, which is symmetric, in place of
        :math:`\lfloor N/g \rfloor`.

    Returns
    -------
    Sampler

    Raises
    ------
    TypeError
        If the family has no sampler, or several scales.
    ValueError
        If the step is no power of two, or finer than the grid of the scale; if k of generalised
        Cauchy noise is below 1 + 2^-10 or above 2^20.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> steps = np.empty(4, dtype=np.int64)
    >>> sampler(Laplace(2.0), 1.0, nearest=True).fill(steps)
    >>> steps.shape
    (4,)
    """
    if not hasattr(noise, "sampler"):
        raise TypeError(f"noise must be of a noise family, such as Laplace(1.0), got {noise!r}.")
    grid = grid_of(single_scale(noise), step, nearest)
    return noise.sampler(grid, entropy or _SystemEntropy())


# ------------------------------------------------------------------------------------- the release


class Source(Protocol):
    """What a release adds: a sampler, or one that draws from the bits of given rows."""

    step: float
    saturated: bool

    def draw(self, size: int) -> IntArray:
        """Return draws, of at most 2^16, in memory that may be overwritten."""


def release(
    steps: IntArray,
    source: Source,
    out: NDArray[Any],
    *,
    bound: int = MAX_STEPS,
    reach: int = MAX_STEPS,
) -> None:
    r"""Write values plus noise into ``out``, block by block, in 64-bit integers until the end.

    Parameters
    ----------
    steps : ndarray of int64 of shape (n,)
        The values, in steps of ``source.step``, at most 2^62 from 0 (see `to_steps`).
    source : Sampler
        Draws the noise, in the same steps.
    out : ndarray of shape (n,)
        A column of floats, or of integers: these are saturated at the range of their type. It may
        be a strided view.
    bound : int, default=2**62
        The sum is saturated this many steps from 0; floats are not at the default, unless the
        noise is saturated. It must not depend on the values.
    reach : int, default=2**62
        The values are known to lie within so many steps of 0. Up to 2^61 no sum reaches the default
        bound, as noise that is not saturated does not leave 2^61 either.

    Notes
    -----
    *Formal guarantees.* Value plus noise never leaves 64 bits, and what is written is a function of
    the exact sum x + K: saturation and conversion are post-processing. A sampler that gives noise
    beyond S = 2^62 steps as S (`Sampler.saturated`) changes nothing, because its sums are saturated
    at B <= 2^61 steps: for :math:`|x| \le 2^{61}`, either K is exact, or :math:`|K| \ge S` and then
    :math:`|x + K| \ge S - 2^{61} \ge B` with the true K and with S.

    Raises
    ------
    TypeError
        If ``out`` holds neither floats nor integers.
    ValueError
        If ``out`` holds integers and the step is a fraction, or ``bound`` is out of range; if the
        noise is saturated and a value lies more than 2^61 steps from 0.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> ages = np.empty(3, dtype=np.int8)
    >>> release(np.array([30, 40, 50]), sampler(Laplace(1e6), 1.0, nearest=True), ages)
    >>> ages.dtype
    dtype('int8')
    """
    if source.saturated:
        bound = _bound_that_hides(steps, bound)
    low, high, factor = _range_in_steps(out.dtype, source.step, bound)
    # value and noise lie within 2^62 and 2^61 steps, or 2^61 and 2^62: their sum fits into 64 bits
    bounded = bound < MAX_STEPS or out.dtype.kind != "f"
    plain = factor == 1 and out.dtype.kind != "f"  # what is cut off is the value itself
    free = plain and out.dtype == np.int64 and reach <= _FAR and not source.saturated
    free = free and bound == MAX_STEPS
    for block in blocks(steps.size):
        total = source.draw(block.stop - block.start)
        if free:
            np.add(total, steps[block], out=out[block])
            continue
        np.add(total, steps[block], out=total)
        if bounded and plain:
            np.clip(total, low, high, out=out[block], casting="unsafe")
            continue
        if bounded:
            np.clip(total, low, high, out=total)
        with np.errstate(over="ignore"):  # beyond the range of floats is infinity
            np.multiply(total, factor, out=out[block], casting="unsafe")


def noisy_steps(steps: IntArray, source: Source, out: IntArray) -> None:
    r"""Write values plus noise into ``out`` as they are drawn, in steps of the grid.

    Parameters
    ----------
    steps : ndarray of int64 of shape (n,)
        As in `release`.
    source : Sampler
        Draws the noise, in the same steps.
    out : ndarray of int64 of shape (n,)
        Sums; where the noise is saturated, so are they, 2^61 steps from 0.

    Notes
    -----
    *Formal guarantees.* As `release`.

    Raises
    ------
    ValueError
        If the noise is saturated and a value lies more than 2^61 steps from 0.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> sums = np.empty(3, dtype=np.int64)
    >>> noisy_steps(np.array([30, 40, 50]), sampler(Laplace(1.0), 2.0**-40), sums)
    >>> sums.dtype
    dtype('int64')
    """
    bound = _bound_that_hides(steps, MAX_STEPS) if source.saturated else None
    for block in blocks(steps.size):
        np.add(source.draw(block.stop - block.start), steps[block], out=out[block])
    if bound is not None:
        np.clip(out, -bound, bound, out=out)


def _bound_that_hides(steps: IntArray, bound: int) -> int:
    """Return a bound of the sum below which saturated noise is as good as exact noise."""
    if steps.size and max(-int(steps.min()), int(steps.max())) > _FAR:
        raise ValueError(
            "steps must lie within 2**61 steps of 0 for noise with heavy tails; take a coarser "
            "step, as coarse_enough returns it."
        )
    return min(bound, _FAR) if 0 <= bound <= MAX_STEPS else bound


@lru_cache(maxsize=64)
def _range_in_steps(
    dtype: np.dtype[Any], step: float, bound: int
) -> tuple[int, int, float | np.int64]:
    """Return the bounds of the sum, and what a step is worth in ``dtype``."""
    if not 0 <= bound <= MAX_STEPS:
        raise ValueError(f"bound must lie between 0 and 2**62 steps, got {bound!r}.")
    if dtype.kind == "f":
        return -bound, bound, step
    if dtype.kind not in "iu":
        raise TypeError(f"out must hold floats or integers, got {dtype}.")
    if step < 1.0:
        raise ValueError(f"step must be at least 1 for {dtype}, got {step!r}; draw with step=1.")
    info, whole = np.iinfo(dtype), int(step)
    low, high = max(-bound, -(-info.min // whole)), min(bound, info.max // whole)
    return low, high, np.int64(min(whole, MAX_STEPS))
