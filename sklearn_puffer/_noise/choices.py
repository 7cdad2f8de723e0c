"""Uniform choices from fair bits: a whole number below a bound, an order of some things."""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._noise.sampler import CheckedEntropy, Entropy, NotCopied, Words

_BITS = 64


class Choices(NotCopied):
    """Choices that are uniform to the last bit, from a source of fair bits.

    Parameters
    ----------
    entropy : Entropy
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = CheckedEntropy(entropy)

    def below(self, end: int) -> int:
        """Return a whole number from 0 to ``end - 1``, each as probable as any other.

        Words of as many bits as the last one has are drawn until one is below the end.
        """
        unused = np.uint64(_BITS - max((end - 1).bit_length(), 1))
        while True:
            found = int(self._entropy.words(1)[0] >> unused)
            if found < end:
                return found

    def shuffled(self, count: int) -> Array:
        """Return the numbers below ``count`` in an order, each as probable as any other.

        They are sorted by random words; where two of these are alike, all are drawn anew.
        """
        while True:
            words = self._entropy.words(count) if count else np.zeros(0, dtype=np.uint64)
            order = np.argsort(words, kind="stable")
            ascending = words[order]
            if not (ascending[1:] == ascending[:-1]).any():
                return order


class Stream(NotCopied):
    """The bits of a keyed function that hands out as many as are asked for, one after another.

    Parameters
    ----------
    seed : bytes
        A secret of at least 32 bytes; the same one gives the same bits.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed, self._block = seed, 0

    def words(self, count: int) -> Words:
        """Return the next words of 64 bits."""
        from hashlib import shake_256

        block = self._block.to_bytes(8, "little")
        self._block += 1
        data = shake_256(b"sklearn_puffer.stream/1" + block + self._seed).digest(8 * count)
        return np.frombuffer(data, dtype="<u8").astype(np.uint64)
