"""What the sampler of Laplace noise does with given bits, undone and counted exactly.

The distribution of the sampler is a sum over the bits it reads. Here it is worked out in integers
and in 50 digits from the tables the sampler reads, and every claim about those tables is checked by
feeding the sampler the very bits.
"""

import numpy as np
from mpmath import mp, mpf

CHUNKS = 2**16
REST_CHUNKS = 2**14
MOST = 2**64 - 1
ROUND = 34  # proposals for a single draw of the rest

mp.dps = 50


class Script:
    """An entropy that hands out the words it was given, and fails when they run out."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "the sampler asked for more words than expected"
        return np.array(taken, dtype=np.uint64)

    def take(self, where):
        return self


class Padded(Script):
    """An entropy that hands out the words it was given, and noughts after them."""

    def words(self, count):
        self.left += [0] * (count - len(self.left))
        return super().words(count)


def scripted(source, words):
    """Let a sampler read these words, and draw as many values as it is asked for, and no more."""
    source._entropy, source.draw = Script(words), source._batch
    source._spare, source._n_rest = np.empty(0, dtype=np.int64), 0
    return source


def word(first, second):
    """Return the word of a single draw, which the sampler reads as two halves of 32 bits."""
    return np.array([first, second], dtype=np.uint32).view(np.uint64).tolist()[0]


def first_half(source, chunk, upper, negative):
    """Return the first half of a word, whose last bit is the sign where it is rounded off."""
    return chunk << 16 | (upper & ~1 | negative if source._is_short else upper)


def with_long_words(source):
    """Let a sampler read a word for each draw, of which those on a finer grid are made, too."""
    source._is_short = False
    return source


def geometry(source):
    """Return s, L and H of a sampler as integers."""
    distribution = source._distribution
    return int(distribution.low_bits), 1 << int(distribution.cell_bits), int(distribution.last)


def cells_of_chunks(source):
    """Return the cell of each of the chunks that are not of the rest."""
    distribution = source._distribution
    chunk = np.arange(int(distribution.limit) >> 16, dtype=np.uint32)
    return (((chunk << np.uint32(16)) + distribution.advance) >> np.uint32(16)).astype(int)


def rest_word():
    """Return a word that sends a single draw to the rest."""
    return word(2**32 - 1, 0)


def proposal(source, cell, offset, *, negative=False):
    """Return the word that proposes a place of the rest."""
    distribution = source._distribution
    chunk = int(np.flatnonzero(distribution.rest_cell == cell)[-1])
    signed = -1 - offset if negative else offset
    return (signed << int(distribution.rest_surplus) | chunk) & MOST


def rest_words(source, cell, offset, *, negative=False):
    """Return the words after which a draw from the rest is this one."""
    first = proposal(source, cell, offset, negative=negative)
    return [first] + [0] * (ROUND - 1) + [0] + [MOST] * (ROUND - 1)


def words_for(source, j):
    """Return words that make the sampler draw exactly J = j as its only value."""
    low_bits, cell_steps, last = geometry(source)
    magnitude = j if j >= 0 else -1 - j
    passes, left = divmod(magnitude, last * cell_steps)
    words = [rest_word(), *rest_words(source, last, 0)] * passes
    cell, offset = divmod(left, cell_steps)
    chunks = np.flatnonzero(cells_of_chunks(source) == cell)
    if not chunks.size:
        return [*words, rest_word(), *rest_words(source, cell, offset, negative=j < 0)]
    low = offset & ((1 << low_bits) - 1)
    signed = low if j >= 0 else -1 - low
    upper = offset >> low_bits
    # a negative draw is the complement of its magnitude, so that the upper bits are the same
    second = signed << (31 - low_bits) & 0xFFFFFFFF
    return [*words, word(first_half(source, int(chunks[-1]), upper, j < 0), second)]


def probability(source, magnitude):
    """Return the probability with which a draw that passes no cell has a magnitude (50 digits)."""
    _, cell_steps, last = geometry(source)
    cell, offset = divmod(magnitude, cell_steps)
    assert cell < last
    body = int((cells_of_chunks(source) == cell).sum())
    drawn = _rest_share(source) * _accepted_share(source, cell, offset) / _all_accepted(source)
    return (mpf(body) / CHUNKS + drawn) / cell_steps


def probability_of_a_pass(source):
    """Return the probability of a draw in the last cell."""
    last = geometry(source)[2]
    return _rest_share(source) * _accepted_share(source, last, 0) / _all_accepted(source)


def _rest_share(source):
    return 1 - mpf(int(source._distribution.limit)) / 2**32


def _accepted_share(source, cell, offset):
    """Return the probability of a cell to be proposed, and the place in it to be accepted."""
    chunks = int((source._distribution.rest_cell == cell).sum())
    # the test is monotone
    share = bisected(lambda chance: _is_accepted(source, cell, offset, chance))
    return mpf(chunks) / REST_CHUNKS * share


def _is_accepted(source, cell, offset, chance):
    # the third word is for a draw that passes the last cell
    entropy = Script([proposal(source, cell, offset), chance, word(0, 0)])
    source._entropy, kept = entropy, source._entropy
    try:
        return source._accepted(1).size == 1
    finally:
        source._entropy = kept


def _all_accepted(source):
    """Return the probability of a proposal to be accepted, by the tables."""
    distribution, (_, cell_steps, last) = source._distribution, geometry(source)
    rate = mpf(float(distribution.rate))
    mean = mp.expm1(rate * cell_steps) / mp.expm1(rate) / cell_steps - 1
    chunks = np.bincount(distribution.rest_cell, minlength=last + 1).tolist()
    intercept, slope = (
        mp.fdot(chunks, a.tolist()) for a in (distribution.intercept, distribution.slope)
    )
    return (intercept + slope * mean) / REST_CHUNKS / 2**64


# ------------------------------------------------------------------------- the sampler from tables


def density_at_zero(k):
    """Return the density of magnitudes at 0, for a power k or, for None, normal ones."""
    if k is None:
        return mp.sqrt(2 / mp.pi)
    return 2 * mp.gamma(mpf(k) / 2) / mp.sqrt(mp.pi) / mp.gamma((mpf(k) - 1) / 2)


def decay(k, x):
    """Return log p(0)/p(x)."""
    return mpf(x) ** 2 / 2 if k is None else mpf(k) / 2 * mp.log1p(mpf(x) ** 2)


def beyond(k, x):
    """Return the mass of magnitudes beyond x >= 0."""
    if k is None:
        return mp.erfc(mpf(x) / mp.sqrt(2))
    if k == 2:
        return 1 - 2 / mp.pi * mp.atan(x) if x < 1 else 2 / mp.pi * mp.atan(1 / mpf(x))
    return mp.betainc((mpf(k) - 1) / 2, 0.5, 0, 1 / (1 + mpf(x) ** 2), regularized=True)


def _share(how_many):
    """Return the share of the words that are accepted: those below some limit."""
    low = 0
    for bits in (52, 40, 28, 16, 4, 0):
        places = 2 ** (4 if bits == 0 else 12)
        # if its last word is accepted, so is all of a part
        low += how_many([low + (j << bits) - 1 for j in range(1, places + 1)]) << bits
    return mpf(low) / 2**64


def bisected(is_accepted):
    """Return the share of the words that are accepted, by asking for one at a time."""
    low, high = 0, 2**64
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if is_accepted(middle) else (low, middle)
    return mpf(low) / 2**64


class Table:
    """What a table sampler draws, worked out from its tables and from what it does with bits."""

    def __init__(self, source, scale, k):
        self.source, self.distribution, self.k = source, source._distribution, k
        self.rate = mpf(source.step) / mpf(scale) / 2**source._true_shift
        self.length, self.cells = 1 << int(self.distribution.cell_bits), int(self.distribution.last)
        self.reach = self.cells * self.length
        self.start_bits = self.reach.bit_length() - 1
        self.chunks = np.bincount(self.distribution.rest_cell, minlength=self.cells + 1).tolist()
        self.rest = 1 - mpf(int(self.distribution.limit)) / 2**32
        self._accepted = None

    def wanted(self, magnitude):
        """Return the exact mass of an atom of the magnitude."""
        low, high = magnitude * self.rate, (magnitude + 1) * self.rate
        return beyond(self.k, low) - beyond(self.k, high)

    def probability(self, magnitude):
        """Return the probability of an atom of the magnitude, in the cells or beyond."""
        if magnitude >= self.reach:
            return self.rest * self._tail_share(magnitude) / self.accepted
        cell, offset = divmod(magnitude, self.length)
        drawn = self.rest * self._cell_share(cell, offset) / self.accepted
        return (mpf(int(self.distribution.body[cell])) / CHUNKS + drawn) / self.length

    @property
    def accepted(self):
        """The probability of a proposal for the rest to be accepted, summed in 50 digits."""
        if self._accepted is None:
            width, peak = self.length * self.rate, density_at_zero(self.k)
            outside = beyond(self.k, self.cells * width) / peak
            # c_h times the slope is the same for all cells, but for its rounding
            weights = [
                c * mpf(w)
                for c, w in zip(self.chunks, self.distribution.slope.tolist(), strict=True)
            ]
            middle = (np.arange(self.cells) + 0.5) * float(width)
            uneven = mp.fdot(
                [weight - weights[0] for weight in weights[:-1]],
                self.distribution.shape.falloff(middle).tolist(),
            )
            total = weights[0] * (1 / peak - outside) / width + uneven
            total -= mp.fdot(self.chunks, self.distribution.intercept.tolist())
            start = mpf(2) ** self.start_bits * self.rate
            tail = (
                mpf(self.distribution.tail_gain) / mpf(self.distribution.tail.top) * outside / start
            )
            total += self.chunks[-1] * tail / 2 ** (1 + self.distribution.tail.shell_bits)
            self._accepted = total / REST_CHUNKS / 2**64
        return self._accepted

    def _cell_share(self, cell, offset):
        place = proposal(self.source, cell, offset)
        return mpf(self.chunks[cell]) / REST_CHUNKS * self._taken(place)

    def _taken(self, place):
        """Return the share of the words for a chance that take this place in the cells."""
        return _share(
            lambda chances: self.scripted(
                [place] * len(chances) + chances,
                lambda: self.source._accepted(len(chances)).size,
            )
        )

    def _tail_share(self, magnitude):
        shell = magnitude.bit_length() - 1 - self.start_bits
        finer = 62 - self.start_bits - shell
        assert finer >= 1, "the atom must consist of whole positions"
        # the chance hardly changes over an atom: its middle stands for all its positions
        mantissa = magnitude << finer | 1 << (finer - 1)
        halvings = shell >> self.distribution.tail.shell_bits
        taken = self._taken_beyond(mantissa, shell)
        heads = mpf(2) ** -self._coins(mantissa, shell)
        chosen = mpf(2) ** -(
            1 + halvings + self.distribution.tail.shell_bits + self.start_bits + shell
        )
        return mpf(self.chunks[-1]) / REST_CHUNKS * chosen * taken * heads

    def _taken_beyond(self, mantissa, shell):
        words, _ = self.tail_words(mantissa, shell)
        return _share(
            lambda chances: self.scripted(
                [w for w in words for _ in chances] + chances,
                lambda: int(self.beyond(len(chances))[1].sum()),
            )
        )

    def beyond(self, size):
        """Return what the sampler proposes beyond its cells, and what of it is accepted."""
        return self.source._beyond(self.source._entropy, size)

    def _coins(self, mantissa, shell):
        y = np.array([float(mpf(mantissa) / mpf(2) ** 62)])
        halvings = np.array([shell >> self.distribution.tail.shell_bits])
        return int(self.distribution.tail.chance(y, np.array([shell]), halvings)[1][0])

    def tail_words(self, mantissa, shell, *, negative=False):
        """Return the words that propose 2^-62 mantissa in a shell, and how many more are coins."""
        bits = self.distribution.tail.shell_bits
        passes, zeros = divmod(shell >> bits, 53)
        words = [0] * passes + [1 << (63 - zeros)]
        if bits:
            words.append((shell & ((1 << bits) - 1)) << (64 - bits))
        position = mantissa & (2**62 - 1)
        # a negative draw is the complement of its magnitude
        words.append(position << 2 | negative)
        return words, -(-self._coins(mantissa, shell) // 64)

    def scripted(self, words, call):
        """Return what a call makes of the words."""
        kept = self.source._entropy
        scripted(self.source, ())._entropy = Padded(words)
        try:
            return call()
        finally:
            self.source._entropy = kept
            del self.source.draw

    def words_for(self, j):
        """Return words that make the sampler draw J = j as its only value, on the finest grid."""
        magnitude, negative = (j, False) if j >= 0 else (-1 - j, True)
        if magnitude >= self.reach:
            return [rest_word(), *self._words_beyond(magnitude, negative)]
        cell, offset = divmod(magnitude, self.length)
        chunks = np.flatnonzero(cells_of_chunks(self.source) == cell)
        if not chunks.size:
            first = proposal(self.source, cell, offset, negative=negative)
            return [rest_word(), *self._round(first, 0)]
        low_bits = int(self.distribution.low_bits)
        low = offset & ((1 << low_bits) - 1)
        second = (-1 - low if negative else low) << (31 - low_bits) & 0xFFFFFFFF
        first = first_half(self.source, int(chunks[-1]), offset >> low_bits, negative)
        return [word(first, second)]

    def _words_beyond(self, magnitude, negative):
        shell = magnitude.bit_length() - 1 - self.start_bits
        shift = 62 - self.start_bits - shell
        mantissa = magnitude << shift if shift >= 0 else magnitude >> -shift
        words, coins = self.tail_words(mantissa, shell, negative=negative)
        place = proposal(self.source, self.cells, 0)
        return [*self._round(place, MOST), *words, 0, *[0] * coins]

    def _round(self, first, chance):
        """Return the words of a round of proposals of which only the first can be accepted."""
        others = int(self.distribution.trials) + 31
        filler = proposal(self.source, 0, 0)
        return [first, *[filler] * others, chance, *[MOST] * others]
