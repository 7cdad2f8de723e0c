r"""Noise of any symmetric unimodal density on the grid, read off tables; and Laplace noise.

Laplace noise has a sampler of its own, which knows that the distribution is memoryless.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, IntArray
from sklearn_puffer._noise import portable
from sklearn_puffer._noise.entropy import CheckedEntropy, Entropy, RowEntropy, Words
from sklearn_puffer._noise.sampler import (
    CHUNKS,
    LANES,
    MAX_STEPS,
    REST_CHUNKS,
    REST_MASK,
    SIGN,
    Chunks,
    Grid,
    Sampler,
    first_of,
)
from sklearn_puffer._noise.shapes import Shape

_ONE, _TWO = np.array(1, dtype=np.uint64), np.array(2, dtype=np.uint64)
_TOP = np.array(2**62)  # the leading bit of a position in a shell
_HALF = np.array(0.5)
_LEADING = 53  # bits of a word that a float holds, so that frexp counts its leading zeros
_UNUSED = np.array(64 - _LEADING, dtype=np.uint64)


class TableSampler(Sampler):
    r"""Noise of any symmetric unimodal density on the grid, read off tables of that density.

    Let p be the density of the magnitude :math:`|N|/\theta`, t = f/theta, and x = (M + 1/2) t the
    middle of an atom. The distribution drawn is

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
    there: that part of the distribution is drawn without any test and without any error. The other
    chunks, a share :math:`\rho` of all, stand for the rest: W - n_h in the cells, and W beyond
    them.

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
      :math:`2^{16} \rho` up to the mean of these errors over the distribution, over rho: at most
      2900 u, the most for Gaussian noise, with 19.5 u / 0.0068.

    So the relative error of every atom's probability is at most (3500 + 24 D) u. This is below
    `RELATIVE_ERROR` for every atom up to D = 225. What lies further out has a mass below 10^-65,
    and there the error grows with D at this rate. The bits are taken to be fair and independent.
    """

    saturated = True

    _distribution: _ShapeTables

    def __init__(self, shape: Shape, scale: float, grid: Grid, entropy: Entropy) -> None:
        mantissa, exponent = math.frexp(scale)
        super().__init__(_distribution(shape, mantissa, exponent - grid.fine), grid, entropy)
        self._true_shift, self._nearest = grid.shift, grid.nearest

    def _of_rest(self, size: int) -> IntArray:
        drawn = self._accepted(int(size * self._distribution.trials) + 32)
        while drawn.size < size:
            drawn = np.append(drawn, self._accepted(int(size * self._distribution.trials) + 32))
        return drawn

    def _accepted(self, proposals: int) -> IntArray:
        """Return those of some proposals for the rest that are accepted, in their order."""
        drawn, accepted = self._proposed(self._entropy, proposals)
        return drawn[accepted]

    def by_row(self, rows: RowEntropy) -> IntArray:
        """Return one draw for each row, from the bits of that row and alike on every machine."""
        if not self._distribution.is_portable:
            raise TypeError(
                f"noise of a {type(self).__name__} cannot be drawn with a key, as it may differ "
                "from machine to machine; take Laplace, Gaussian or Cauchy noise."
            )
        drawn, rest = self._first_rounded_by_row(rows)
        if rest.size:
            drawn[rest] = self._rest_by_row(rows.take(rest))
        return drawn

    def _proposed_by_row(self, rows: RowEntropy) -> tuple[IntArray, BoolArray]:
        return self._proposed(rows, rows.size, LANES)

    def _proposed(
        self, source: CheckedEntropy | RowEntropy, size: int, lanes: int = 1
    ) -> tuple[IntArray, BoolArray]:
        """Return proposals of K for the rest, and which of them are accepted.

        Of several lanes it is the first one that is accepted or lies beyond the table, where more
        bits decide: those after it are not looked at, so that they are fresh when it is refused.
        """
        last = self._distribution.last
        cell, drawn, accepted = self._inside(source.words(2 * lanes * size))
        first = first_of(accepted | (cell == last), size)
        cell, drawn, accepted = cell[first], drawn[first], accepted[first]
        beyond = (cell == last).nonzero()[0]
        if beyond.size:
            drawn[beyond], accepted[beyond] = self._beyond(source.take(beyond), beyond.size)
        return drawn, accepted

    def _inside(self, bits: Words) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the cells and places that are proposed, and which are accepted in the table."""
        distribution = self._distribution
        position, chance = np.split(bits, 2)
        cell = distribution.rest_cell.take(position.view(np.int64) & REST_MASK).astype(np.int64)
        drawn: IntArray = (cell << distribution.cell_bits) ^ (
            position.view(np.int64) >> distribution.rest_surplus
        )
        threshold = distribution.shape.falloff(
            ((drawn ^ (drawn >> SIGN)) + _HALF) * distribution.rate
        )
        threshold *= distribution.slope.take(cell)
        threshold -= distribution.intercept.take(cell)  # 2^64 A
        accepted = chance < threshold
        return cell, self._rounded(drawn), accepted

    # --------------------------------------------------------------------------- beyond the table

    def _beyond(self, source: CheckedEntropy | RowEntropy, size: int) -> tuple[IntArray, BoolArray]:
        """Return proposals of K beyond the table, and which of them are accepted."""
        distribution, tail = self._distribution, self._distribution.tail
        halvings = _halvings(source, size)
        shell = halvings << tail.shell_bits
        if tail.shell_bits:
            shell += (source.words(size) >> distribution.shell_surplus).view(np.int64)
        word = source.words(size)
        mantissa = (word >> _TWO).view(np.int64) | _TOP
        chance, coins = tail.chance(mantissa * 2.0**-62, shell, halvings)
        chance *= distribution.tail_gain
        accepted = _happens(source, chance, coins)
        accepted &= (shell > 0) | (mantissa >= distribution.first)
        sign = -(word & _ONE).view(np.int64)
        return self._placed(mantissa ^ sign, shell), accepted

    def _placed(self, signed: IntArray, shell: IntArray) -> IntArray:
        """Return K for the fine position ``signed`` 2^(shell - 62) in units of R_0."""
        # K = floor(signed 2^-drop), or to the nearest, where 63 bits are enough for it
        drop = self._true_shift + self._distribution.drop - shell
        far = (drop <= 0).nonzero()[0]
        np.clip(drop, 1, 64, out=drop)
        placed = signed >> np.minimum(drop, 63)
        if self._nearest:
            placed += signed >> drop - 1 & 1
        placed[far] = np.where(signed[far] < 0, -MAX_STEPS, MAX_STEPS)
        return placed


def _halvings(source: CheckedEntropy | RowEntropy, size: int) -> IntArray:
    """Draw how often a fair coin falls heads before the first tails."""
    word = source.words(size) >> _UNUSED
    count = _LEADING - np.frexp(word.astype(np.float64))[1].astype(np.int64)
    going = (word == 0).nonzero()[0]
    if going.size:
        count[going] += _halvings(source.take(going), going.size)
    return count


def _happens(
    source: CheckedEntropy | RowEntropy, chance: FloatArray, coins: FloatArray
) -> BoolArray:
    """Draw which events happen, each with the probability 2^-(64 + coins) times ``chance``."""
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


class _ShapeTables(Chunks):
    r"""The tables of a shape for t = 2^-exponent / mantissa, with the mantissa in [1/2, 1).

    See TableSampler for the symbols.
    """

    def __init__(self, shape: Shape, mantissa: float, exponent: int) -> None:
        alike = shape.portable()
        self.shape, self.is_portable = alike or shape, alike is not None
        cell_bits = exponent + self.shape.cell_exponent
        rate = math.ldexp(1.0 / mantissa, -exponent)
        weight = _weight(self.shape, mantissa)
        edges = _edges(self.shape, weight, math.ldexp(rate, cell_bits))
        body = np.floor(edges[1:])
        reach = body.size << cell_bits
        start_bits = reach.bit_length() - 1
        self.tail = self.shape.tail(math.ldexp(rate, start_bits), rate * reach)
        shell_bits = self.tail.shell_bits
        beyond = math.ldexp(weight * self.tail.top, 1 + shell_bits + start_bits - cell_bits)
        super().__init__(cell_bits, body.astype(np.int64), np.append(edges[:-1] - body, beyond))
        inside = np.append(self.gain[:-1], 0.0)
        self.rate = np.array(rate)
        # 2^64 kappa / c_h times w, and times n_h; 0 beyond the table
        self.slope, self.intercept = weight * inside, np.append(body, 0.0) * inside
        # proposals for a draw of the rest, with a tenth to spare
        self.trials = 1.1 * REST_CHUNKS / (self.kappa * (CHUNKS - int(body.sum())))
        self.tail_gain = beyond * self.gain.item(-1)
        self.shell_surplus: Words = np.array(64 - shell_bits, dtype=np.uint64)
        self.first = np.array(reach << (62 - start_bits))  # 2^62 R / R_0
        self.drop = 62 - start_bits  # 62 - log2(R_0 / t)


_distribution = lru_cache(maxsize=64)(_ShapeTables)


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


_REACH = 12  # the coarse cells reach this many scales out


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
    n_h belong to cell h, and l is uniform there: that part of the distribution is drawn without any
    test and without any error. The other chunks, a share :math:`\rho > 0.011` of all, stand for the
    rest, :math:`W_h e^{-t l} - n_h \ge 0`.

    *Rest.* Cell h is proposed for :math:`c_h > \kappa (W_h - n_h)` of 2^14 chunks, l is uniform,
    and the proposal is accepted with probability :math:`A = \kappa (W_h e^{-t l} - n_h) / c_h`.

    *Tail.* The last cell, :math:`h = H = \lceil 12/q \rceil`, stands for all :math:`M \ge H L`. It
    is part of the rest, with the mass :math:`2^{16} e^{-q H}`. When it is drawn, H L is added to a
    fresh draw of M, which is exact because the distribution is memoryless. So there are no holes
    and there is no end.

    *Formal guarantees.* Let u = 2^-53, and exp and expm1 be exact to 8 u. To first order in u, and
    with sums over the distribution:

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

    _distribution: _LaplaceTables

    def __init__(self, scale: float, grid: Grid, entropy: Entropy) -> None:
        mantissa, exponent = math.frexp(scale)
        super().__init__(_laplace_tables(mantissa, exponent - grid.fine), grid, entropy)

    def _of_rest(self, size: int) -> IntArray:
        return self._rounded(self._unrounded_rest(size))

    def _unrounded_rest(self, size: int) -> IntArray:
        """Return at least so many draws of J from the rest of its distribution."""
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
        drawn: IntArray = (cell << self._distribution.cell_bits) ^ signed.take(accepted)
        passed = (cell == self._distribution.last).nonzero()[0]
        if passed.size:
            drawn[passed] = self._beyond(passed.size)
        return drawn

    def _tested(self, bits: Words) -> tuple[IntArray, IntArray, BoolArray]:
        """Return the cells and the places in them that are proposed, and which are accepted."""
        distribution, proposals = self._distribution, bits.size // 2
        position, chance = bits[:proposals].view(np.int64), bits[proposals:]
        cell = distribution.rest_cell.take(position & REST_MASK).astype(np.int64)
        signed = position >> distribution.rest_surplus  # l or, for a negative draw, -1 - l
        threshold = portable.expm1((signed ^ (signed >> SIGN)) * distribution.rate)
        threshold *= distribution.slope.take(cell)
        threshold += distribution.intercept.take(cell)  # 2^64 A
        return cell, signed, chance < threshold

    def _beyond(self, size: int) -> IntArray:
        """Return draws of J whose magnitude is at least H L."""
        # One level deeper for each pass: a thousand of them have a chance of e^-12000.
        drawn = np.empty(size, dtype=np.int64)
        rest = self._many(drawn)
        if rest.size:
            drawn[rest] = self._unrounded_rest(rest.size)[: rest.size]
        return self._further(drawn)

    def _further(self, drawn: IntArray) -> IntArray:
        """Return draws moved outwards by H L."""
        passed = int(self._distribution.last) << int(self._distribution.cell_bits)
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
        drawn: IntArray = (cell << self._distribution.cell_bits) ^ signed
        passed = ((cell == self._distribution.last) & accepted).nonzero()[0]
        if passed.size:
            drawn[passed] = self._further(self._unrounded_by_row(rows.take(passed)))
        return drawn, accepted


class _LaplaceTables(Chunks):
    r"""The tables for t = 2^-exponent / mantissa, with the mantissa in [1/2, 1).

    See LaplaceSampler for the symbols.
    """

    def __init__(self, mantissa: float, exponent: int) -> None:
        mass, body, above = _body_and_rest(mantissa, exponent)
        super().__init__(exponent - 7, body, above)  # so that q = 2^-7 / mantissa
        self.rate: FloatArray = np.array(-math.ldexp(1.0 / mantissa, -exponent))  # -t
        # 2^64 kappa / c_h times W_h - n_h, and times W_h; for the last cell, times its mass and 0
        self.intercept, self.slope = above * self.gain, np.append(mass, 0.0) * self.gain


_laplace_tables = lru_cache(maxsize=64)(_LaplaceTables)


def _body_and_rest(mantissa: float, exponent: int) -> tuple[FloatArray, IntArray, FloatArray]:
    r"""Return W_h and n_h of the cells h < H, and W_h - n_h followed by the mass of the last cell.

    W_h is off by 2 u q h for its exponent and 10 u for the rest: 35 u, and 12 u on average over the
    distribution. The correction adds no more than that average, so that :math:`|e_h| \le 50 u`.
    After it the rest sums to :math:`2^{16} \rho` up to 14 u: u/8 of 2^16 for 1 - shortfall, which
    the correction leaves out, and for roundings of shortfall times W_h, and 2 u for those of W_h -
    n_h.
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
