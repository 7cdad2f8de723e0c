"""Random bits, fresh or seeded, checked before they are used, and uniform choices by them."""

from __future__ import annotations

import math
import ssl
from functools import lru_cache
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, check_count

Words = NDArray[np.uint64]

_WINDOW = 4096  # bytes of a request in which the share of the first one is counted
_SURPRISE = 64 * math.log(2.0)  # a sound source fails a test with a chance of 2^-64


class Entropy(Protocol):
    """A source of independent fair bits."""

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words of 64 fair bits, not used before and never again."""


class RowEntropy(Protocol):
    """A source of bits for each of some rows: those of one row depend on no other row."""

    @property
    def size(self) -> int:
        """The number of rows."""

    def words(self, count: int) -> Words:
        """Return the next words of every row: the j-th one of row i at ``j * size + i``."""

    def halves(self, short: bool = False) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the halves of the next word of every row, of a short one 33 bits that are fair."""

    def take(self, where: NDArray[np.intp]) -> RowEntropy:
        """Return the source of some of the rows, whose words are used up for this one, too."""


class NotCopied:
    """An object that must exist once: a copy would draw the same noise again."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied, because the copy would draw the "
            "same noise again; make a new one where it is needed."
        )


class CheckedEntropy(NotCopied):
    """A source of bits whose words are looked at before they are used; nothing of them is kept.

    Notes
    -----
    The continuous health tests of NIST SP 800-90B, section 4.4, for a source that claims full
    entropy, on each request by itself:

    - Repetition count, with words of 64 bits as samples: two equal words in a row are a fault.
    - Adaptive proportion, with bytes as samples and the first 4096 of a request as window: the
      first byte of the window comes back at most :math:`n/256 + t` times, with t from Bernstein's
      inequality for a chance of 2^-64.

    So a source that is stuck, or repeats a byte far too often, is found in its first request; fair
    bits raise a false alarm once in 2^64 words. Bits that are merely predictable pass every such
    test.

    Examples
    --------
    >>> class Stuck:
    ...     def words(self, count):
    ...         return np.zeros(count, dtype=np.uint64)
    >>> CheckedEntropy(Stuck()).words(1)
    Traceback (most recent call last):
    ...
    RuntimeError: the source of random bits is broken: it gave the same 64 bits twice in a row, ...
    """

    def __init__(self, source: Entropy) -> None:
        self._source = source

    def take(self, where: Any) -> CheckedEntropy:
        """Return the source itself, which has bits for any rows."""
        return self

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words; one word alone would tell nothing, so two are asked for.

        Raises
        ------
        RuntimeError
            If the source fails a test.
        """
        words = self._source.words(max(count, 2))
        if np.count_nonzero(words[1:] == words[:-1]):
            raise RuntimeError(_broken("it gave the same 64 bits twice in a row"))
        window = words[: _WINDOW // 8].tobytes()
        repeats = window.count(window[0]) - 1
        if repeats > _most_repeats(len(window) - 1):
            raise RuntimeError(_broken(f"{repeats + 1} of {len(window)} bytes were the same"))
        return words[:count]


@lru_cache(maxsize=1024)
def _most_repeats(trials: int) -> float:
    """Return what a binomial count of chance 1/256 exceeds with probability < 2^-64 (Bernstein)."""
    mean = trials / 256.0
    third = _SURPRISE / 3.0
    return mean + third + math.sqrt(third * third + 2.0 * _SURPRISE * mean)


def _broken(what: str) -> str:
    return (
        f"the source of random bits is broken: {what}, so nothing was drawn from it; release "
        "nothing on this machine until its generator (OpenSSL's, or the one that was passed) works."
    )


_BITS = 64


class Choices(NotCopied):
    """Exactly uniform choices, from a source of fair bits."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = CheckedEntropy(entropy)

    def below(self, end: int) -> int:
        """Return a whole number from 0 to ``end - 1``, each as probable as any other.

        Words of as many bits as the last one has are drawn until one is below the end.
        """
        unused = np.uint64(_BITS - max((end - 1).bit_length(), 1))
        while True:
            number = int(self._entropy.words(1)[0] >> unused)
            if number < end:
                return number

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
    """The bits of a function keyed by a secret of 32 bytes or more, each handed out once."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self._block = seed, 0

    def words(self, count: int) -> Words:
        """Return the next words of 64 bits."""
        from hashlib import shake_256

        block = self._block.to_bytes(8, "little")
        self._block += 1
        data = shake_256(b"sklearn_puffer.stream/1" + block + self._seed).digest(8 * count)
        return np.frombuffer(data, dtype="<u8").astype(np.uint64)


class SystemEntropy(NotCopied):
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

    *Formal guarantees.* The generator reseeds itself after a fork, and no bit is kept here, so no
    two calls, threads or processes ever share bits. It cannot be pickled or copied. Whatever draws
    from it first puts its words to the health tests of NIST SP 800-90B.
    """
    return SystemEntropy()


def seeded_entropy(seed: int, *key: int) -> Entropy:
    """Return a reproducible generator, for tests only: who knows the seed can undo the noise.

    Different keys (of integers from 0 to 2^32 - 1: a column, a call) give independent streams.

    >>> first, second = seeded_entropy(0, 1).words(2), seeded_entropy(0, 2).words(2)
    >>> bool((first == second).any())
    False
    """
    for part in key:
        if check_count(part, "key", minimum=0) >= 2**32:
            raise ValueError(f"key must lie below 2**32, got {part!r}.")
    return _SeededEntropy(check_count(seed, "seed", minimum=0), key)
