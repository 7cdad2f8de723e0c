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
from functools import cache, lru_cache
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


_CELLS_A_SCALE = 64  # 1/q: coarse cells in one scale of the noise
_LAST = 768  # H, the cell that stands for all further ones: 12 scales out
_CHUNKS = 2**16  # the coarse cell is read off 16 bits
# 0-d arrays: in operations on a few values numpy takes them in half the time of a Python integer
_TESTED = np.array(2**31, dtype=np.uint32)
_UNTESTED = np.array(2**31 - 1, dtype=np.uint32)
_SIXTEEN = np.array(16, dtype=np.uint32)
_SIGN = np.array(63)
_BEYOND = np.array(_LAST)
_ONE = np.array(1.0)


@dataclass(frozen=True)
class _Proposal:
    r"""The coarse cell as a function of 16 bits, and what corrects its law.

    Cell h < H has the mass :math:`e^{-q h} (1 - e^{-q})`, and the last one, :math:`h = H`, the mass
    :math:`e^{-q H}` of all the others. Cell h is given :math:`n_h \ge \kappa 2^{16} \text{mass}_h`
    of the 2^16 chunks, and what is too much is rejected by a test with the acceptance probability
    ``weight`` (times what the fine position asks for). So few draws are rejected that all the
    rejections of a cell fit into ``tested``, a small share of its chunks; the others need no test.

    Attributes
    ----------
    chunks : ndarray of int64 of shape (H + 1,)
        n_h, with sum 2^16.
    tested : ndarray of int64 of shape (H + 1,)
        How many of them, the first of each cell, are tested.
    share : ndarray of float64 of shape (H + 1,)
        tested / chunks / 2^64: times a word of 64 bits, uniform up to the share that is tested.
    weight : ndarray of float64 of shape (H + 1,)
        kappa 2^16 mass_h / n_h.
    advance : ndarray of uint32 of shape (2^16,)
        What a 32-bit word that starts with the chunk c needs in addition, modulo 2^32, to start
        with h, and for tested chunks with the bit of _TESTED as well.
    """

    chunks: IntArray
    tested: IntArray
    share: FloatArray
    weight: FloatArray
    advance: NDArray[np.uint32]


@cache
def _proposal() -> _Proposal:
    """Return the proposal; it is the same for every scale."""
    cells = np.arange(_LAST)
    mass = np.exp(-cells / _CELLS_A_SCALE) * -math.expm1(-1.0 / _CELLS_A_SCALE)
    wanted = _CHUNKS * np.append(mass, math.exp(-_LAST / _CELLS_A_SCALE))
    kappa = _largest_share(wanted)
    chunks = np.ceil(kappa * wanted).astype(np.int64)
    chunks[-1] += _CHUNKS - chunks.sum()
    weight = kappa * wanted / chunks
    tested = np.ceil(chunks * (1.0 - weight * _least_acceptance(cells.size))).astype(np.int64)
    cell = np.repeat(np.arange(_LAST + 1), chunks)
    chunk = np.arange(_CHUNKS, dtype=np.uint32)
    is_tested = chunk - (np.cumsum(chunks) - chunks)[cell] < tested[cell]
    advance = ((cell.astype(np.uint32) - chunk) << _SIXTEEN) + is_tested * _TESTED
    return _Proposal(chunks, tested, tested / chunks * 2.0**-64, weight, advance)


def _largest_share(wanted: FloatArray) -> float:
    """Return the largest kappa, but for 2^-40, whose rounded up chunks are at most 2^16."""
    low, high = 0.5, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if np.ceil(middle * wanted).sum() <= _CHUNKS:
            low = middle
        else:
            high = middle
    return low


def _least_acceptance(last: int) -> FloatArray:
    """Return the least e^-(d h + t lo) n_min/n_r of each cell, for any scale; see LaplaceSampler.

    d < q/128, t lo <= q + d and n_min/n_r >= 1 - 2^-8. The last cell is always tested.
    """
    q = (1.0 + 1e-9) / _CELLS_A_SCALE
    cells = np.arange(last)
    least = np.exp(-q * (cells + 1.0) / 128.0 - q) * (1.0 - 2.0**-8)
    return np.append(least, 0.0)


class LaplaceSampler(Sampler):
    r"""Laplace noise of scale theta, as exact integer arithmetic with one rejection step.

    .. math:: P(J = j) = P(J = -1-j) = \tfrac12 e^{-t j} (1 - e^{-t}), \qquad t = f/\theta,\ j \ge 0

    The magnitude is :math:`M = h L + 2^s r + l`: coarse cell h, part r < R of the cell, and s low
    bits l, with :math:`L = 2^s R` steps in a cell.

    Notes
    -----
    *Proposal.* h by the chunks of `_Proposal`, r = floor(V R / 2^16) with V of 16 bits, l of s
    bits, and a fair sign: probabilities :math:`n_h/2^{16}`, :math:`n_r/2^{16}`, :math:`2^{-s}`.
    Here q = 1/64 and R is the least integer with :math:`d = t L - q \ge 0`, so that
    :math:`128 \le R \le 256` and :math:`d < q/128`.

    *Acceptance.* With probability :math:`A = w_h (n_{min}/n_r) e^{-(d h + t\,lo)}` where
    :math:`w_h = \kappa 2^{16} e^{-q h}(1 - e^{-q})/n_h \le 1` and :math:`lo = 2^s r + l`. Proposal
    times A is a constant C times :math:`e^{-t M}`: the law wanted. A is at least 1 minus the share
    of chunks of cell h that are tested, so testing those is enough: within them a draw is rejected
    with probability (1 - A) / share.

    *Tail.* The last cell, h = H = 768, stands for all :math:`M \ge H L`: it is accepted with the
    mass :math:`C e^{-t H L}/(1 - e^{-t})`, and then H L is added to a fresh draw of M, which is
    exact because the law is memoryless. So there are no holes and there is no end.

    *Formal guarantees.* With u = 2^-53, exp exact to 8 u (arrays) and exp, expm1 to 2 u (single
    numbers): w_h is off by at most 7 u, or 14 u in the last cell; the exponent, below 0.2 in size
    with d rounded once from integers, by u; A by 19 u, or 26 u; and the comparison with a uniform
    of 64 bits shifts A by 5 u, relative to A >= 1/180, or 1/3 in the last cell. The constant of
    normalisation is off by 25 u. So after k passes through the last cell the relative error of the
    probability of M is at most (1000 + 80 k) u, where k <= t M / 12. This is below
    `RELATIVE_ERROR` for every atom within 1,100 scales of 0, and what lies further out has a mass
    below 10^-477. The bits are taken to be fair and independent.
    """

    relative_error = RELATIVE_ERROR

    def __init__(self, scale: float, grid: _Grid, entropy: Entropy) -> None:
        super().__init__(grid, entropy)
        self._layout = _layout(scale, grid.fine)
        self._scratch = np.empty(0, dtype=np.int64)

    def _draw(self, size: int) -> IntArray:
        # up to one proposal in 50 is rejected: spare ones, drawn along, replace them
        proposals = size + size // 40
        if self._scratch.size < proposals:
            self._scratch = np.empty(proposals, dtype=np.int64)
        return self._settle(self._scratch[:proposals], size)

    def _settle(self, pool: IntArray, size: int) -> IntArray:
        """Return the start of ``pool`` filled with draws of J; the rest is for spare ones."""
        rejected = self._propose(pool)
        if rejected.size and (count := int(rejected.searchsorted(size))):
            stands = np.ones(pool.size - size, dtype=np.bool_)
            stands[rejected[count:] - size] = False
            spare = stands.nonzero()[0][:count] + size
            pool[rejected[: spare.size]] = pool[spare]
            if spare.size < count:
                missing = rejected[spare.size : count]
                pool[missing] = self._draw_apart(missing.size)
        return pool[:size]

    def _draw_apart(self, size: int) -> IntArray:
        return self._settle(np.empty(size, dtype=np.int64), size)

    def _propose(self, out: IntArray) -> IntArray:
        """Fill ``out`` with proposals for J and return the places, in order, of the rejected."""
        bits = self._entropy.words(out.size).view(np.uint32)
        first, second = bits[: out.size], bits[out.size :]
        word = first >> _SIXTEEN
        out[...] = word
        _proposal().advance.take(out, None, word, "clip")
        word += first  # perhaps _TESTED, 15 bits of h, the 16 bits V
        tested = (word >= _TESTED).nonzero()[0]
        if tested.size:
            word &= _UNTESTED
            cell = (word.take(tested) >> _SIXTEEN).astype(np.int64)
        out[...] = word
        # out R / 2^16 is h R + r. Its fraction falls onto the low bits, where s fair bits are added
        # modulo 2 and leave fair bits; the copies of a fair sign above them turn M into -1 - M.
        low = np.right_shift(second.view(np.int32), self._layout.surplus, word.view(np.int32))
        out *= self._layout.stride
        out ^= low
        return self._test(out, tested, cell) if tested.size else tested

    def _test(self, out: IntArray, tested: IntArray, cell: IntArray) -> IntArray:
        """Return the tested places that are rejected, and let those pass on that are beyond H."""
        drawn = out.take(tested)
        drawn ^= drawn >> _SIGN
        threshold = self._layout.acceptance(cell, drawn)
        threshold += self._entropy.words(cell.size) * _proposal().share.take(cell)
        rejected = threshold < _ONE
        beyond = (cell == _BEYOND).nonzero()[0]
        if beyond.size:
            self._pass_on(out, tested[beyond[~rejected[beyond]]])
        return tested[rejected]

    def _pass_on(self, out: IntArray, places: IntArray) -> None:
        """Let the places that passed all cells start again from the last one."""
        # One level deeper for each pass: a thousand of them have a chance of e^-11000.
        rest = self._draw_apart(places.size)
        passed = _LAST * int(self._layout.cell_steps)
        out[places] = rest + np.where(rest < 0, -passed, passed)


@dataclass(frozen=True)
class _Layout:
    """What a scale and a grid make of a cell; see LaplaceSampler.

    Attributes
    ----------
    parts : int
        R.
    low_bits, surplus, stride, cell_steps : ndarray of shape ()
        s, 31 - s, 2^(s - 16) R and L = 2^s R.
    rate, excess : ndarray of shape ()
        -t and d.
    fairness : ndarray of shape (R,)
        n_min / n_r, where n_r of the 2^16 values of V give r.
    weight : ndarray of shape (H + 1,)
        w_h; for the last cell, times what its mass is to C e^(-t M) summed over L steps.
    """

    parts: int
    low_bits: IntArray
    surplus: NDArray[np.int32]
    stride: IntArray
    cell_steps: IntArray
    rate: FloatArray
    excess: FloatArray
    fairness: FloatArray
    weight: FloatArray

    def acceptance(self, cell: IntArray, magnitude: IntArray) -> FloatArray:
        """Return A."""
        offset = magnitude - cell * self.cell_steps
        exponent = offset * self.rate
        exponent -= cell * self.excess
        acceptance: FloatArray = np.exp(exponent, exponent)
        acceptance *= self.fairness.take(offset >> self.low_bits)
        acceptance *= self.weight.take(cell)
        return acceptance


@lru_cache(maxsize=256)
def _layout(scale: float, fine: int) -> _Layout:
    """Return the layout of a scale on the grid of step 2^fine, each figure rounded once."""
    # scale = mantissa 2^exponent with mantissa in [1/2, 1), so q/t = 2^(s + 8) mantissa
    low_bits = math.frexp(scale)[1] - fine - 14
    numerator, denominator = scale.as_integer_ratio()
    above, below = denominator << max(fine, 0), numerator << max(-fine, 0)  # t = above / below
    parts = -(-below // (above * _CELLS_A_SCALE << low_bits))
    excess = ((above * _CELLS_A_SCALE * parts << low_bits) - below) / (below * _CELLS_A_SCALE)
    edges = -((-_CHUNKS * np.arange(parts + 1)) // parts)
    weight = _proposal().weight.copy()
    q = 1.0 / _CELLS_A_SCALE
    weight[_LAST] *= math.expm1(-q) / math.expm1(-q - excess)
    return _Layout(
        parts=parts,
        low_bits=np.array(low_bits),
        surplus=np.array(31 - low_bits, dtype=np.int32),
        stride=np.array(parts << (low_bits - 16)),
        cell_steps=np.array(parts << low_bits),
        rate=np.array(-above / below),
        excess=np.array(excess),
        fairness=(_CHUNKS // parts) / np.diff(edges),
        weight=weight,
    )


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
        np.multiply(source.draw(block.stop - block.start), source.step, out=out[block])
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
        The sum is saturated this many steps from 0. It must not depend on the values.

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
    for block in _blocks(steps.size):
        total = source.draw(block.stop - block.start)
        np.add(total, steps[block], out=total)
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
