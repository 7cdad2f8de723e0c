r"""Drawing the noise: on a grid, from cryptographic bits, with nothing kept that could replay it.

The law drawn is the continuous one rounded to a grid of step g, :math:`K = \lfloor N/g \rfloor`, so
with X on the grid ``X + g K`` is a rounding of ``X + N``: a post-processing of the continuous
release, which inherits its privacy loss.
"""

from __future__ import annotations

import math
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_puffer._validation import check_count, check_positive
from sklearn_puffer.noise import Laplace, Noise

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Words = NDArray[np.uint64]

GRID_BITS = 40
"""A grid step is at most 2^-39 of the scale of the noise (unless the data's range forbids it)."""

RELATIVE_ERROR = 1e-12
"""Proven bound on the relative error of every atom's probability; see `LaplaceSampler`."""

MAX_STEPS = 2**62
"""Values lie within this many steps of 0, so that value plus noise never leaves 64 bits."""

_BLOCK = 2**15  # values drawn at a time: the scratch stays in the cache
_COARSEST = 10  # a coarsened step is at most 2^-10 of the scale


# ---------------------------------------------------------------------------------------- the grid


def grid_step(scale: float, *, integer: bool = False) -> float:
    r"""Return the step of the grid on which noise of a scale is drawn.

    .. math:: g = 2^{\lceil \log_2(\theta / 2^{40}) \rceil}, \qquad \max(g, 1) \text{ for integers}

    Parameters
    ----------
    scale : float
        theta, in the units of the column.
    integer : bool, default=False
        Whether the column is released on whole numbers: the step is then 1 up to a scale of 2^40.

    Returns
    -------
    float
        An exact power of two, in the units of the column.

    Raises
    ------
    ValueError
        If the scale is not positive and finite, or so small that the step is no float.

    Examples
    --------
    >>> grid_step(1.0) == 2.0**-40
    True
    >>> grid_step(3.0, integer=True)
    1.0
    """
    step = math.ldexp(1.0, _grid_exponent(check_positive(scale, "scale")))
    if step == 0.0:
        raise ValueError(f"scale must be at least 2**-1034, got {scale!r}; rescale the column.")
    return max(step, 1.0) if integer else step


def coarse_enough(step: float, scale: float, reach: float) -> float:
    r"""Return the smallest step, not below ``step``, at which a range fits into 2^62 steps.

    Parameters
    ----------
    step : float
        The step wanted, a power of two.
    scale : float
        Scale of the noise.
    reach : float
        A bound on :math:`|x|` over all values that may ever be released, known before any row is
        released: it must not be computed from the rows that are.

    Returns
    -------
    float
        A power of two with :math:`|x| \le 2^{61} \cdot \text{step}`.

    Raises
    ------
    ValueError
        If the step that the range needs is not small against the scale: more than scale / 2^10.

    Examples
    --------
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


def to_steps(x: ArrayLike, step: float) -> IntArray:
    r"""Return :math:`\lfloor x/g + 1/2 \rfloor`, exactly: halves go up, never to the even side.

    Parameters
    ----------
    x : array-like
        Floats or integers, in the units of the column.
    step : float
        The grid step g, a power of two.

    Returns
    -------
    ndarray of int64
        Of the shape of ``x``, in steps.

    Raises
    ------
    ValueError
        If a value is not finite or more than 2^62 steps from 0, or the step no power of two.

    Examples
    --------
    >>> to_steps([0.5, 1.5, -0.5, 0.49999999999999994], 1.0).tolist()
    [1, 2, 0, 0]
    >>> to_steps([3, 5], 2.0).tolist()
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


# ---------------------------------------------------------------------------------------- the bits


class Entropy(Protocol):
    """A source of independent fair bits."""

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words of 64 fair bits, not used before and never again."""


class _NotCopied:
    """What must exist once only: a copy would draw the same noise again."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied, because the copy would draw the "
            "same noise again; make a new one where it is needed."
        )


class _SystemEntropy(_NotCopied):
    """Bits of OpenSSL's generator. It holds no state: nothing is buffered between two calls."""

    def words(self, count: int) -> Words:
        return np.frombuffer(ssl.RAND_bytes(8 * count), dtype=np.uint64)


class _SeededEntropy(_NotCopied):
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
    two calls, threads or processes ever share bits. It cannot be pickled or copied.

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


class _Grid(NamedTuple):
    """The grid wanted, of step ``2^(fine + shift)``, and the finer one that is drawn on."""

    fine: int
    shift: int
    nearest: bool


class Sampler(_NotCopied, ABC):
    r"""Noise of one family and scale, in steps of a grid: K = floor(N/g) or floor(N/g + 1/2).

    A family draws :math:`J = \lfloor N/f \rfloor` on a grid of step :math:`f = g / 2^s`; then
    :math:`\lfloor J/2^s \rfloor = \lfloor N/g \rfloor`, and
    :math:`\lfloor (J + 2^{s-1})/2^s \rfloor = \lfloor N/g + 1/2 \rfloor`, both exactly.

    A sampler holds scratch memory: use one a thread, and never store one.

    Attributes
    ----------
    step : float
        The step g, in the units of the column.
    relative_error : float
        Bound r on the relative error of every atom's probability; a pure loss grows by at most
        log((1 + r)/(1 - r)) for it.
    """

    relative_error: float

    def __init__(self, grid: _Grid, entropy: Entropy) -> None:
        self.step = math.ldexp(1.0, grid.fine + grid.shift)
        self._shift = min(grid.shift, 62)  # |J| < 2^61, so that any larger shift gives the same
        self._half = 1 << (self._shift - 1) if grid.nearest else 0
        self._entropy = entropy

    def fill(self, out: IntArray) -> None:
        """Overwrite ``out``, int64 of shape (n,), with independent noise in steps."""
        for block in _blocks(out.size):
            out[block] = self.draw(block.stop - block.start)

    def draw(self, size: int) -> IntArray:
        """Return ``size`` (at most 2^15) draws in scratch memory, overwritten by the next call."""
        drawn = self._draw(size)
        if self._half:
            drawn += self._half
        if self._shift:
            drawn >>= self._shift
        return drawn

    @abstractmethod
    def _draw(self, size: int) -> IntArray:
        """Return ``size`` draws of J, likewise."""


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


_CHUNKS = 2**16  # a coarse cell is read off 16 bits
_REST_CHUNKS = 2**14  # and one of the rest off 14
_REACH = 12  # the coarse cells reach this many scales out
_CELL_BITS = 16  # the bits of the fine position that come with the coarse cell
# 0-d arrays: in operations on a few values numpy takes them in half the time of a Python integer
_SIXTEEN = np.array(16, dtype=np.uint32)
_SIGN = np.array(63)
_REST_MASK = np.array(_REST_CHUNKS - 1)


class LaplaceSampler(Sampler):
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

    relative_error = RELATIVE_ERROR

    def __init__(self, scale: float, grid: _Grid, entropy: Entropy) -> None:
        super().__init__(grid, entropy)
        mantissa, exponent = math.frexp(scale)
        self._law = _law(mantissa, exponent - grid.fine)
        self._scratch: IntArray | None = None

    def _draw(self, size: int) -> IntArray:
        if size == 1:
            return self._single()
        if self._scratch is None or self._scratch.size < size:
            self._scratch = np.empty(size, dtype=np.int64)
        return self._overwrite(self._scratch[:size])

    def _single(self) -> IntArray:
        """Return what `_overwrite` makes of the same bits, in a third of its time for one draw."""
        law = self._law
        first, second = self._entropy.words(1).view(np.uint32).tolist()
        if first >= law.limit.item():
            return self._rest(1)
        word = (first + law.advance.item(first >> 16)) & (2**32 - 1)
        low = (second ^ 2**31) - 2**31 >> law.surplus.item()  # second as a signed number
        return np.array([word << law.low_bits.item() ^ low], dtype=np.int64)

    def _overwrite(self, out: IntArray) -> IntArray:
        """Return ``out``, filled with draws of J."""
        law = self._law
        bits = self._entropy.words(out.size).view(np.uint32)
        first, second = bits[: out.size], bits[out.size :]
        word = first >> _SIXTEEN
        out[...] = word
        law.advance.take(out, None, word, "clip")
        word += first  # h, and the upper 16 bits of l
        out[...] = word
        out <<= law.low_bits
        # the lower bits of l; the copies of a fair sign above them turn M into -1 - M
        out ^= np.right_shift(second.view(np.int32), law.surplus, word.view(np.int32))
        rest = (first >= law.limit).nonzero()[0]
        if rest.size:
            out[rest] = self._rest(rest.size)
        return out

    def _rest(self, size: int) -> IntArray:
        """Return draws of J from the rest of its law."""
        # more than 0.55 of the proposals are accepted, so that one round is nearly always enough
        drawn = self._accepted(2 * size + 32)
        while drawn.size < size:
            drawn = np.append(drawn, self._accepted(2 * size + 32))
        return drawn[:size]

    def _accepted(self, proposals: int) -> IntArray:
        """Return those of some proposals for the rest that are accepted."""
        law = self._law
        bits = self._entropy.words(2 * proposals)
        position, chance = bits[:proposals].view(np.int64), bits[proposals:]
        cell = law.rest_cell.take(position & _REST_MASK).astype(np.int64)
        signed = position >> law.rest_surplus  # l or, for a negative draw, -1 - l
        threshold = np.expm1((signed ^ (signed >> _SIGN)) * law.rate)
        threshold *= law.slope.take(cell)
        threshold += law.intercept.take(cell)  # 2^64 A
        accepted = (chance < threshold).nonzero()[0]
        cell = cell.take(accepted)
        drawn: IntArray = (cell << law.cell_bits) ^ signed.take(accepted)
        passed = (cell == law.last).nonzero()[0]
        if passed.size:
            drawn[passed] = self._beyond(passed.size)
        return drawn

    def _beyond(self, size: int) -> IntArray:
        """Return draws of J whose magnitude is at least H L."""
        # One level deeper for each pass: a thousand of them have a chance of e^-12000.
        drawn = self._overwrite(np.empty(size, dtype=np.int64))
        passed = int(self._law.last) << int(self._law.cell_bits)
        return drawn + np.where(drawn < 0, -passed, passed)


@dataclass(frozen=True)
class _Law:
    r"""The tables of a scale; see LaplaceSampler for the symbols.

    Attributes
    ----------
    low_bits, surplus, cell_bits, rest_surplus, last : ndarray of shape ()
        s, 31 - s, 16 + s, 47 - s and H, where :math:`L = 2^{16 + s}`.
    rate : ndarray of shape ()
        -t.
    body : ndarray of int64 of shape (H,)
        n_h.
    limit : ndarray of uint32 of shape ()
        2^16 times the sum of n_h: a 32-bit word from here on starts with a chunk of the rest.
    advance : ndarray of uint32 of shape (sum of n_h,)
        What a 32-bit word that starts with the chunk c needs in addition, modulo 2^32, to start
        with h.
    rest_cell : ndarray of int16 of shape (2^14,)
        The cell of each chunk of the rest.
    intercept, slope : ndarray of shape (H + 1,)
        2^64 kappa / c_h times W_h - n_h, and times W_h; for the last cell, times its mass and 0.
    """

    low_bits: IntArray
    surplus: NDArray[np.int32]
    cell_bits: IntArray
    rest_surplus: IntArray
    last: IntArray
    rate: FloatArray
    body: IntArray
    limit: NDArray[np.uint32]
    advance: NDArray[np.uint32]
    rest_cell: NDArray[np.int16]
    intercept: FloatArray
    slope: FloatArray


@lru_cache(maxsize=64)
def _law(mantissa: float, exponent: int) -> _Law:
    """Return the tables for t = 2^-exponent / mantissa, with the mantissa in [1/2, 1)."""
    low_bits = exponent - 7 - _CELL_BITS  # so that q = 2^-7 / mantissa
    mass, body, above = _body_and_rest(mantissa, exponent)
    # one chunk more than is wanted, at most, for each cell; the last one takes what is left
    kappa = (_REST_CHUNKS - above.size) / above.sum()
    chunks = (kappa * above).astype(np.int64) + 1
    chunks[-1] += _REST_CHUNKS - chunks.sum()
    gain = math.ldexp(kappa, 64) / chunks
    return _Law(
        low_bits=np.array(low_bits),
        surplus=np.array(31 - low_bits, dtype=np.int32),
        cell_bits=np.array(_CELL_BITS + low_bits),
        rest_surplus=np.array(63 - _CELL_BITS - low_bits),
        last=np.array(body.size),
        rate=np.array(-math.ldexp(1.0 / mantissa, -exponent)),
        body=body,
        limit=np.array(int(body.sum()) << 16, dtype=np.uint32),
        advance=_advance(body),
        rest_cell=np.repeat(np.arange(chunks.size, dtype=np.int16), chunks),
        intercept=above * gain,
        slope=np.append(mass, 0.0) * gain,
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
    decay = np.exp(-q * np.arange(math.ceil(_REACH / q) + 1))
    factor, shortfall = _cell_mass(mantissa, exponent)
    mass, last = factor * decay[:-1], _CHUNKS * decay[-1]
    body = np.floor(mass * math.exp(-q))
    # W_h stands for W_h (1 - shortfall) draws in 2^16. That they are 2^16 in all is enforced in the
    # small numbers W_h - n_h, which hold far more digits of W_h than W_h itself.
    error = math.fsum([*mass.tolist(), last, -_CHUNKS, *(-shortfall * mass).tolist()])
    above = np.append(mass - body, last)
    above -= (error / _CHUNKS) * np.append(mass, last)
    return mass, body.astype(np.int64), above


def _cell_mass(mantissa: float, exponent: int) -> tuple[float, float]:
    r"""Return W_0 and :math:`1 - \sum_{l < L} e^{-t l} / L`, rounded once."""
    with localcontext(prec=60):
        t = 1 / (Decimal(mantissa) * 2**exponent)
        length = 2 ** (exponent - 7)
        density = length * (1 - (-t).exp())
        return float(_CHUNKS * density), float(1 - (1 - (-t * length).exp()) / density)


def _advance(body: IntArray) -> NDArray[np.uint32]:
    cell = np.repeat(np.arange(body.size, dtype=np.uint32), body)
    cell -= np.arange(cell.size, dtype=np.uint32)
    cell <<= _SIXTEEN
    return cell


_SAMPLERS: dict[type[Noise], type[LaplaceSampler]] = {Laplace: LaplaceSampler}


def sampler(
    noise: Noise, step: float, entropy: Entropy | None = None, *, nearest: bool = False
) -> Sampler:
    r"""Return a sampler of noise rounded to a grid.

    Parameters
    ----------
    noise : Laplace
        The continuous law, with a single scale.
    step : float
        The step g of the grid, a power of two; at least ``grid_step(noise.scale)``.
    entropy : Entropy, optional
        Source of bits, by default `system_entropy`.
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
        If the step is no power of two, or finer than the grid of the scale.

    Examples
    --------
    >>> steps = np.empty(4, dtype=np.int64)
    >>> sampler(Laplace(2.0), 1.0, nearest=True).fill(steps)
    >>> steps.shape
    (4,)
    """
    family = _SAMPLERS.get(type(noise))
    if family is None:
        known = ", ".join(kind.__name__ for kind in _SAMPLERS)
        raise TypeError(f"noise must be one of the families {known}, got {noise!r}.")
    scale = noise.scale
    if isinstance(scale, tuple):
        raise TypeError(
            f"noise must have a single scale, got {noise!r}; take one sampler a column."
        )
    return family(scale, _grid_of(scale, step, nearest), entropy or _SystemEntropy())


def _grid_of(scale: float, step: float | None, nearest: bool) -> _Grid:
    """Return the grid of a step, by default the finest one of the scale."""
    finest = _grid_exponent(scale)
    exponent = finest if step is None else _exponent_of(step)
    if exponent < finest:
        raise ValueError(f"step must be at least grid_step({scale!r}), got {step!r}.")
    fine = min(finest, exponent - nearest)
    return _Grid(fine, exponent - fine, nearest)


# ------------------------------------------------------------------------------------- the release


def laplace(
    size: int, scale: float, *, step: float | None = None, entropy: Entropy | None = None
) -> FloatArray:
    r"""Return Laplace noise rounded to a grid, :math:`g \lfloor N/g \rfloor`, shape (size,).

    Parameters
    ----------
    size : int
        Number of values.
    scale : float
        theta.
    step : float, optional
        The step g, by default ``grid_step(scale)``.
    entropy : Entropy, optional
        Source of bits, by default `system_entropy`.

    Returns
    -------
    ndarray of float64 of shape (size,)

    Notes
    -----
    *Formal guarantees.* Every multiple of g has its probability under the rounded law up to a
    factor of 1 +- `RELATIVE_ERROR`. Added to a value by floating-point arithmetic it would lose
    that: `release` adds in integers.

    Raises
    ------
    TypeError, ValueError
        As `sampler`; if ``size`` is no count.

    Examples
    --------
    >>> noise = laplace(1000, 2.0)
    >>> bool(np.all(noise % grid_step(2.0) == 0.0))
    True
    """
    check_count(size, "size", minimum=0)
    grid = _grid_of(check_positive(scale, "scale"), step, nearest=False)
    source = LaplaceSampler(float(scale), grid, entropy or _SystemEntropy())
    out = np.empty(size)
    for block in _blocks(size):
        part = out[block]
        part[...] = source.draw(part.size)
        part *= source.step
    return out


def release(steps: IntArray, source: Sampler, out: NDArray[Any], *, bound: int = MAX_STEPS) -> None:
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
        The sum is saturated this many steps from 0 (floats are not, at the default). It must not
        depend on the values.

    Notes
    -----
    *Formal guarantees.* The noise itself is never cut, and value plus noise never leaves 64 bits;
    saturation and conversion are post-processing of the sum.

    Raises
    ------
    TypeError
        If ``out`` holds neither floats nor integers.
    ValueError
        If ``out`` holds integers and the step is a fraction, or ``bound`` is out of range.

    Examples
    --------
    >>> ages = np.empty(3, dtype=np.int8)
    >>> release(np.array([30, 40, 50]), sampler(Laplace(1e6), 1.0, nearest=True), ages)
    >>> ages.dtype
    dtype('int8')
    """
    low, high, factor = _range_in_steps(out.dtype, source.step, bound)
    # value and noise lie within 2^62 and 2^61 steps: their sum needs no bound to be a float
    bounded = bound < MAX_STEPS or out.dtype.kind != "f"
    for block in _blocks(steps.size):
        total = source.draw(block.stop - block.start)
        np.add(total, steps[block], out=total)
        if bounded:
            np.clip(total, low, high, out=total)
        np.multiply(total, factor, out=out[block], casting="unsafe")


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
