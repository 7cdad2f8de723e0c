"""Laplace noise on the grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, IntArray
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.entropy import Entropy, RowEntropy, Words
from sklearn_puffer._noise.grid import Grid
from sklearn_puffer._noise.sampler import (
    CHUNKS,
    LANES,
    REST_MASK,
    SIGN,
    Chunks,
    ChunkSampler,
    chunks_of,
    first_of,
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

    _words_tried = 2

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
        cell, signed, happens = self._tested(self._entropy.words(2 * proposals), np.expm1)
        accepted = happens.nonzero()[0]
        cell = cell.take(accepted)
        drawn: IntArray = (cell << self._law.cell_bits) ^ signed.take(accepted)
        passed = (cell == self._law.last).nonzero()[0]
        if passed.size:
            drawn[passed] = self._beyond(passed.size)
        return drawn

    def _tested(
        self, bits: Words, expm1: Callable[[FloatArray], FloatArray]
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the cells and the places in them that are proposed, and which are accepted."""
        law, proposals = self._law, bits.size // 2
        position, chance = bits[:proposals].view(np.int64), bits[proposals:]
        cell = law.rest_cell.take(position & REST_MASK).astype(np.int64)
        signed = position >> law.rest_surplus  # l or, for a negative draw, -1 - l
        threshold = expm1((signed ^ (signed >> SIGN)) * law.rate)
        threshold *= law.slope.take(cell)
        threshold += law.intercept.take(cell)  # 2^64 A
        return cell, signed, chance < threshold

    def _beyond(self, size: int) -> IntArray:
        """Return draws of J whose magnitude is at least H L."""
        # One level deeper for each pass: a thousand of them have a chance of e^-12000.
        return self._further(self._overwrite(np.empty(size, dtype=np.int64)))

    def _single_proposed(self, position: int, chance: int, *_: int) -> tuple[int, bool]:
        law = self._law
        cell, signed = self._single_place(position)
        threshold = math.expm1((signed ^ signed >> 63) * law.rate.item()) * law.slope.item(cell)
        is_accepted = chance < threshold + law.intercept.item(cell)
        drawn = cell << law.cell_bits.item() ^ signed
        if is_accepted and cell == law.last.item():
            drawn = self._beyond(1).item()
        return drawn + self._half >> self._shift, is_accepted

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
        cell, signed, happens = self._tested(rows.words(2 * LANES * rows.size), portable.expm1)
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
