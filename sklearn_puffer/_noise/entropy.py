"""Where the bits come from, and the health check that they pass before anything is made of them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

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
    """What must exist once only: a copy would draw the same noise again."""

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
    """Return what a binomial of chance 1/256 exceeds with a chance below 2^-64 (Bernstein)."""
    mean = trials / 256.0
    third = _SURPRISE / 3.0
    return mean + third + math.sqrt(third * third + 2.0 * _SURPRISE * mean)


def _broken(what: str) -> str:
    return (
        f"the source of random bits is broken: {what}, so nothing was drawn from it; release "
        "nothing on this machine until its generator (OpenSSL's, or the one that was passed) works."
    )
