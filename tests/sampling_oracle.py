"""What the sampler of Laplace noise does with given bits, undone and counted exactly.

The law of the sampler is a sum over the bits it reads. Here it is worked out in integers and in 50
digits from the tables the sampler reads, and every claim about those tables is checked by feeding
the sampler the very bits.
"""

from functools import cache

import numpy as np
from mpmath import mp, mpf

from sklearn_puffer import sampling

CHUNKS = 2**16
MOST = 2**64 - 1

mp.dps = 50


class Script:
    """An entropy that hands out the words it was given, and fails when they run out."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "the sampler asked for more words than expected"
        return np.array(taken, dtype=np.uint64)


def batch(firsts, seconds):
    """Return the words that the sampler reads as first and second halves of 32 bits."""
    halves = np.array([*firsts, *seconds], dtype=np.uint32)
    return halves.view(np.uint64).tolist()


def word(first, second):
    """Return the single word of a single draw."""
    return batch([first], [second])[0]


def geometry(source):
    """Return s, R and L of a sampler as integers."""
    layout = source._layout
    return int(layout.low_bits), layout.parts, int(layout.cell_steps)


@cache
def cells_of_chunks():
    """Return the cell of each of the 2^16 chunks, and whether it is tested."""
    chunk = np.arange(CHUNKS, dtype=np.uint32)
    head = ((chunk << np.uint32(16)) + sampling._proposal().advance) >> np.uint32(16)
    return (head & np.uint32(0x7FFF)).astype(int), head >= 0x8000


def untested():
    """Return a word for a draw that needs no test."""
    return word(int(np.flatnonzero(~cells_of_chunks()[1])[0]) << 16, 0)


def words_for(source, j):
    """Return words that make the sampler draw exactly J = j as its only value."""
    low_bits, parts, cell_steps = geometry(source)
    cells, tested = cells_of_chunks()
    magnitude = j if j >= 0 else -1 - j
    last = sampling._LAST
    passes, rest = divmod(magnitude, last * cell_steps)
    words = [word(int(np.flatnonzero(cells == last)[0]) << 16, 0), MOST] * passes
    cell, offset = divmod(rest, cell_steps)
    chunk = int(np.flatnonzero(cells == cell)[-1])
    v = -(-(offset >> low_bits) * CHUNKS // parts)
    garbage = ((cell << 16 | v) * (parts << (low_bits - 16))) & ((1 << low_bits) - 1)
    low = garbage ^ (offset & ((1 << low_bits) - 1))
    if j < 0:
        low = (1 << 32) - 1 - low & ((1 << (low_bits + 1)) - 1)
    surplus = 31 - low_bits
    words.append(word(chunk << 16 | v, low << surplus & 0xFFFFFFFF))
    return words + [MOST] * bool(tested[chunk])


def weight(source, magnitude):
    """Return the probability that a proposal is of a magnitude, and is accepted (50 digits)."""
    low_bits, parts, cell_steps = geometry(source)
    cell, offset = divmod(magnitude, cell_steps)
    part = offset >> low_bits
    edges = [-(-CHUNKS * r // parts) for r in (part, part + 1)]
    cells, _ = cells_of_chunks()
    chunks = int((cells == cell).sum())
    proposed = mpf(chunks) / CHUNKS * (edges[1] - edges[0]) / CHUNKS / 2**low_bits
    return proposed * (1 - mpf(_rejecting_chunks(source, cell, magnitude)) / chunks)


def _rejecting_chunks(source, cell, magnitude):
    """Return how many of the chunks of a cell reject, counting the words of each tested one."""
    cells, tested = cells_of_chunks()
    low, high = 0, 2**64  # the words below ``high`` are rejected, because the test is monotone
    while low < high:
        middle = (low + high) // 2
        if _is_rejected(source, cell, magnitude, middle):
            low = middle + 1
        else:
            high = middle
    return mpf(low) / 2**64 * int((tested & (cells == cell)).sum())


def _is_rejected(source, cell, magnitude, uniform):
    out = np.array([magnitude])
    entropy, source._entropy = source._entropy, Script([uniform, untested()])
    try:
        return source._test(out, np.array([0]), np.array([cell])).size == 1
    finally:
        source._entropy = entropy
