"""Noise of any symmetric unimodal density on the grid: one sampler, from tables of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, IntArray
from sklearn_puffer._noise.sampler import (
    CHUNKS,
    LANES,
    MAX_STEPS,
    REST_CHUNKS,
    REST_MASK,
    SIGN,
    CheckedEntropy,
    Chunks,
    ChunkSampler,
    Entropy,
    Grid,
    RowEntropy,
    Words,
    chunks_of,
    first_of,
)
from sklearn_puffer._noise.shapes import Shape, Tail

_ONE, _TWO = np.array(1, dtype=np.uint64), np.array(2, dtype=np.uint64)
_TOP = np.array(2**62)  # the leading bit of a position in a shell
_HALF = np.array(0.5)
_LEADING = 53  # bits of a word that a float holds, so that frexp counts its leading zeros
_UNUSED = np.array(64 - _LEADING, dtype=np.uint64)


class TableSampler(ChunkSampler):
    r"""Noise of any symmetric unimodal density on the grid, read off tables of that density.

    Let p be the density of the magnitude :math:`|N|/\theta`, t = f/theta, and x = (M + 1/2) t the
    middle of an atom. The law drawn is

    .. math:: P(J = M) = P(J = -1-M) = \tfrac12 \int_{Mt}^{(M+1)t} p

    The magnitude is :math:`M = h L + l`: coarse cell h < H and fine position l < L, with L a power
    of two and cells of width q = t L.

    Parameters
    ----------
    shape : Shape
        The density p, in units of the scale.
    scale : float
        theta.
    grid : Grid
    entropy : Entropy

    Notes
    -----
    *Mixture.* The probability of M, times :math:`2^{16} L`, is :math:`W = w\, p(x)/p(0)` where
    :math:`w = 2^{16} q p(0)`. Over a cell it falls, and most of it is the integer n_h, the largest
    below W at the cell's end. Of 2^16 equally likely chunks n_h belong to cell h, and l is uniform
    there: that part of the law is drawn without any test and without any error. The other chunks,
    a share :math:`\rho` of all, stand for the rest: W - n_h in the cells, and W beyond them.

    *Rest.* Cell h is proposed for :math:`c_h > \kappa \max (W - n_h)` of 2^14 chunks, l is uniform,
    and the proposal is accepted with probability :math:`A = \kappa (W - n_h) / c_h`.

    *Tail.* Beyond the cells, at x >= R = H q, positions are proposed in shells that double (see
    `Tail`), for c_H chunks. A shell d has a chance of :math:`2^{-1-i-a}`, spread evenly over
    :math:`2^d R_0 / t` positions. Accepted with probability
    :math:`A = \kappa w\, 2^{1+a+i+d} (R_0/q)\, p(x) / (p(0) c_H)` a position is drawn in the
    same proportion to W as one in the cells. `Tail.top`
    gives the envelope that c_H needs. Positions of the first shell below R are refused.

    *No end.* Each halving is a fresh bit, so that there is no last shell. A position has 62 bits of
    its own, which place K exactly while :math:`|K| < 2^{62}`; what lies further out is given as
    :math:`\pm 2^{62}` (`Sampler.saturated`), whatever the value it is added to.

    *Small chances.* :math:`A = v 2^{-c}` is met by c fair bits and a uniform of 64 bits for v, so
    that its relative error does not depend on how small it is.

    *Formal guarantees.* Let u = 2^-53, and exp, exp2, log, log1p and powers be exact to 8 u. Let
    D = log p(0)/p(x), and for k < 3 beyond the cells :math:`(k - 1) d \log 2` in its place, which
    is at most -log P(|N| > x theta). To first order in u:

    - W is taken at x, for the integral over an atom: off by :math:`t^2 |p''/p| / 24 \le u/8` in
      the cells, as :math:`|p''/p| \le 1 + x^2`, or :math:`k + 2 (k+1) D` for powers, with k at most
      2^20, t at most 2^-39 and D at most 16. Beyond, a position is 2^-62 of x: less than u D.
    - In the cells: t, x and x^2 are off by u, 2 u and 5 u, so that D is off by 15 u D (10 u D + 9 u
      for k < 3). w is rounded once; exp and products add 10 u, n_h in the threshold u. So W is off
      by (12 + 15 D) u, for k < 3 by (21 + 10 D) u.
    - Beyond: D is off by 17 u D. Its sum with (d + i) log 2 <= D, and with the logarithm of the
      top, which is off by 300 u, adds 5 u D; the c halvings add 2 u D, all factors 20 u. For k < 3
      powers and factors are off by 90 u, the halvings by 2 u D.
    - The comparison with 64 bits: u, and 2^-64, which is below 2 u relative to v > 2^-12, or to W
      where n_h is not 0.
    - Normalisation: the rest is accepted in proportion to these W - n_h, whose sum is
      :math:`2^{16} \rho` up to the mean of these errors over the law, divided by rho: at most
      2900 u, the most for Gaussian noise, with 19.5 u / 0.0068.

    So the relative error of every atom's probability is at most (3500 + 24 D) u. This is below
    `RELATIVE_ERROR` for every atom up to D = 225. What lies further out has a mass below 10^-65,
    and there the error grows with D at this rate. The bits are taken to be fair and independent.
    """

    saturated = True

    def __init__(self, shape: Shape, scale: float, grid: Grid, entropy: Entropy) -> None:
        mantissa, exponent = math.frexp(scale)
        self._law = _law(shape, mantissa, exponent - grid.fine)
        super().__init__(self._law, grid, entropy)
        self._true_shift, self._nearest = grid.shift, grid.nearest

    def _rest(self, size: int) -> IntArray:
        """Return draws of K from the rest of its law."""
        return self._of_rest(size)[:size]

    def _of_rest(self, size: int) -> IntArray:
        drawn = self._accepted(int(size * self._law.trials) + 32)
        while drawn.size < size:
            drawn = np.append(drawn, self._accepted(int(size * self._law.trials) + 32))
        return drawn

    def _accepted(self, proposals: int) -> IntArray:
        """Return those of some proposals for the rest that are accepted, in their order."""
        drawn, accepted = self._proposed(self._entropy, proposals, self._law)
        return drawn[accepted]

    def by_row(self, rows: RowEntropy) -> IntArray:
        """Return one draw for each row, from the bits of that row and alike on every machine."""
        if self._law.portable is None:
            return super().by_row(rows)
        drawn, rest = self._first_rounded_by_row(rows)
        if rest.size:
            drawn[rest] = self._rest_by_row(rows.take(rest))
        return drawn

    def _proposed_by_row(self, rows: RowEntropy) -> tuple[IntArray, BoolArray]:
        assert self._law.portable is not None
        return self._proposed(rows, rows.size, self._law.portable, LANES)

    def _proposed(
        self, source: CheckedEntropy | RowEntropy, size: int, law: _Law, lanes: int = 1
    ) -> tuple[IntArray, BoolArray]:
        """Return proposals of K for the rest, and which of them are accepted.

        Of several lanes it is the first one that is accepted or lies beyond the table, where more
        bits decide: those after it are not looked at, so that they are fresh when it is refused.
        """
        cell, drawn, accepted = self._inside(source.words(2 * lanes * size), law)
        if lanes > 1:
            first = first_of(accepted | (cell == law.last), size)
            cell, drawn, accepted = cell[first], drawn[first], accepted[first]
        beyond = (cell == law.last).nonzero()[0]
        if beyond.size:
            further = self._beyond(source.take(beyond), beyond.size, law.tail)
            drawn[beyond], accepted[beyond] = further
        return drawn, accepted

    def _inside(self, bits: Words, law: _Law) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the cells and places that are proposed, and which are accepted in the table."""
        position, chance = np.split(bits, 2)
        cell = law.rest_cell.take(position.view(np.int64) & REST_MASK).astype(np.int64)
        drawn: IntArray = (cell << law.cell_bits) ^ (position.view(np.int64) >> law.rest_surplus)
        threshold = law.shape.falloff(((drawn ^ (drawn >> SIGN)) + _HALF) * law.rate)
        threshold *= law.slope.take(cell)
        threshold -= law.intercept.take(cell)  # 2^64 A
        accepted = chance < threshold
        return cell, self._rounded(drawn), accepted

    # --------------------------------------------------------------------------- beyond the table

    def _beyond(
        self, source: CheckedEntropy | RowEntropy, size: int, tail: Tail
    ) -> tuple[IntArray, BoolArray]:
        """Return proposals of K beyond the table, and which of them are accepted."""
        law = self._law
        halvings = _halvings(source, size)
        shell = halvings << tail.shell_bits
        if tail.shell_bits:
            shell += (source.words(size) >> law.shell_surplus).view(np.int64)
        word = source.words(size)
        mantissa = (word >> _TWO).view(np.int64) | _TOP
        chance, coins = tail.chance(mantissa * 2.0**-62, shell, halvings)
        chance *= law.tail_gain
        accepted = _happens(source, chance, coins)
        accepted &= (shell > 0) | (mantissa >= law.first)
        sign = -(word & _ONE).view(np.int64)
        return self._placed(mantissa ^ sign, shell), accepted

    def _placed(self, signed: IntArray, shell: IntArray) -> IntArray:
        """Return K for the fine position ``signed`` 2^(shell - 62) in units of R_0."""
        # K = floor(signed 2^-drop), or to the nearest, where 63 bits are enough for it
        drop = self._true_shift + self._law.drop - shell
        far = (drop <= 0).nonzero()[0]
        np.clip(drop, 1, 64, out=drop)
        placed = signed >> np.minimum(drop, 63)
        if self._nearest:
            placed += signed >> drop - 1 & 1
        placed[far] = np.where(signed[far] < 0, -MAX_STEPS, MAX_STEPS)
        return placed


def _halvings(source: CheckedEntropy | RowEntropy, size: int) -> IntArray:
    """Return how often a fair coin falls heads before it falls tails."""
    word = source.words(size) >> _UNUSED
    count = _LEADING - np.frexp(word.astype(np.float64))[1].astype(np.int64)
    going = (word == 0).nonzero()[0]
    if going.size:
        count[going] += _halvings(source.take(going), going.size)
    return count


def _happens(
    source: CheckedEntropy | RowEntropy, chance: FloatArray, coins: FloatArray
) -> BoolArray:
    """Return which events happen that have a chance of 2^-64 ``chance``, and so many heads."""
    happens: BoolArray = source.words(chance.size) < chance
    going = (happens & (coins > 0.0)).nonzero()[0]
    while going.size:
        tossed = np.minimum(coins[going], 64.0)
        unused = (64.0 - tossed).astype(np.uint64)
        heads = source.take(going).words(going.size) >> unused == 0
        happens[going[~heads]] = False
        coins[going] -= tossed
        going = going[heads & (coins[going] > 0.0)]
    return happens


@dataclass(frozen=True)
class _Law(Chunks):
    r"""The tables of a shape and a scale; see TableSampler for the symbols.

    Attributes
    ----------
    shape : Shape
    rate : ndarray of shape ()
        t.
    slope, intercept : ndarray of shape (H + 1,)
        2^64 kappa / c_h times w, and times n_h; 0 beyond the table.
    trials : float
        Proposals for a draw of the rest, with a tenth to spare.
    tail : Tail
    start, far : float
        R_0 and R.
    tail_gain : float
        2^64 kappa / c_H times the envelope of the tail.
    shell_surplus : ndarray of shape ()
        64 - a.
    first : ndarray of shape ()
        2^62 R / R_0.
    drop : int
        62 - log2(R_0 / t).
    portable : _Law or None
        The same with a shape and a tail that are computed alike on every machine, if there are.
    """

    shape: Shape
    rate: FloatArray
    slope: FloatArray
    intercept: FloatArray
    trials: float
    tail: Tail
    start: float
    far: float
    tail_gain: float
    shell_surplus: Words
    first: IntArray
    drop: int
    portable: _Law | None = None


@lru_cache(maxsize=64)
def _law(shape: Shape, mantissa: float, exponent: int) -> _Law:
    """Return the tables for t = 2^-exponent / mantissa, with the mantissa in [1/2, 1)."""
    alike = shape.portable()
    if alike is None:
        return _tables(shape, mantissa, exponent)
    law = _tables(alike, mantissa, exponent)
    tail = shape.tail(law.start, law.far)
    return replace(law, shape=shape, tail=tail, portable=law)


def _tables(shape: Shape, mantissa: float, exponent: int) -> _Law:
    cell_bits = exponent + shape.cell_exponent
    rate = math.ldexp(1.0 / mantissa, -exponent)
    weight = _weight(shape, mantissa)
    edges = _edges(shape, weight, math.ldexp(rate, cell_bits))
    body = np.floor(edges[1:])
    reach = body.size << cell_bits
    start_bits = reach.bit_length() - 1
    start, far = math.ldexp(rate, start_bits), rate * reach
    tail = shape.tail(start, far)
    beyond = math.ldexp(weight * tail.top, 1 + tail.shell_bits + start_bits - cell_bits)
    chunks = chunks_of(cell_bits, body.astype(np.int64), np.append(edges[:-1] - body, beyond))
    inside = np.append(chunks.gain[:-1], 0.0)
    return _Law(
        **vars(chunks),
        shape=shape,
        rate=np.array(rate),
        slope=weight * inside,
        intercept=np.append(body, 0.0) * inside,
        trials=1.1 * REST_CHUNKS / (chunks.kappa * (CHUNKS - int(body.sum()))),
        tail=tail,
        start=start,
        far=far,
        tail_gain=beyond * chunks.gain.item(-1),
        shell_surplus=np.array(64 - tail.shell_bits, dtype=np.uint64),
        first=np.array(reach << (62 - start_bits)),
        drop=62 - start_bits,
    )


def _weight(shape: Shape, mantissa: float) -> float:
    """Return w = 2^16 q p(0), rounded once."""
    with localcontext(prec=60):
        return float(
            CHUNKS * shape.at_zero() * Decimal(2) ** shape.cell_exponent / Decimal(mantissa)
        )


def _edges(shape: Shape, weight: float, width: float) -> FloatArray:
    """Return w p(x)/p(0) at the edges x = 0, q, ..., H q of the coarse cells."""
    edges: FloatArray = shape.falloff(width * np.arange(shape.cells(weight, width) + 1))
    return weight * edges
