"""What the sampler of Laplace noise does with given bits, undone and counted exactly.

The law of the sampler is a sum over the bits it reads. Here it is worked out in integers and in 50
digits from the tables the sampler reads, and every claim about those tables is checked by feeding
the sampler the very bits.
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


def word(first, second):
    """Return the word of a single draw, which the sampler reads as two halves of 32 bits."""
    return np.array([first, second], dtype=np.uint32).view(np.uint64).tolist()[0]


def geometry(source):
    """Return s, L and H of a sampler as integers."""
    law = source._law
    return int(law.low_bits), 1 << int(law.cell_bits), int(law.last)


def cells_of_chunks(source):
    """Return the cell of each of the chunks that are not of the rest."""
    law = source._law
    chunk = np.arange(int(law.limit) >> 16, dtype=np.uint32)
    return (((chunk << np.uint32(16)) + law.advance) >> np.uint32(16)).astype(int)


def rest_word():
    """Return a word that sends a single draw to the rest."""
    return word(2**32 - 1, 0)


def proposal(source, cell, offset, *, negative=False):
    """Return the word that proposes a place of the rest."""
    law = source._law
    chunk = int(np.flatnonzero(law.rest_cell == cell)[-1])
    signed = -1 - offset if negative else offset
    return (signed << int(law.rest_surplus) | chunk) & MOST


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
    return [*words, word(int(chunks[-1]) << 16 | upper, second)]


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
    return 1 - mpf(int(source._law.limit)) / 2**32


def _accepted_share(source, cell, offset):
    """Return the probability of a cell to be proposed, and the place in it to be accepted."""
    chunks = int((source._law.rest_cell == cell).sum())
    low, high = 0, 2**64  # the words below ``high`` are accepted, because the test is monotone
    while low < high:
        middle = (low + high) // 2
        if _is_accepted(source, cell, offset, middle):
            low = middle + 1
        else:
            high = middle
    return mpf(chunks) / REST_CHUNKS * low / 2**64


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
    law, (_, cell_steps, last) = source._law, geometry(source)
    rate = mpf(float(law.rate))
    mean = mp.expm1(rate * cell_steps) / mp.expm1(rate) / cell_steps - 1
    chunks = np.bincount(law.rest_cell, minlength=last + 1).tolist()
    intercept, slope = (mp.fdot(chunks, a.tolist()) for a in (law.intercept, law.slope))
    return (intercept + slope * mean) / REST_CHUNKS / 2**64
