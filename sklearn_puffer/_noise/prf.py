r"""Pseudorandom functions of a key, over many rows at once.

A row is an id of 128 bits and a number of 64 bits for each column. Its *tag*, of 128 bits, is a
function of all of them. Its words are a function of the tag, a label and a counter; blake2b gives
six words beside the tag. The columns of a row share the words of label 0, and each column has a
label of its own. Every use has its own keys, derived by keyed blake2b: a key for the context, and
from it one for ids, one for tags and one for bits.

Notes
-----
*Formal guarantees.* With AES-256 tags are a CBC-MAC over messages of one length under one key, and
words are AES of the tag xor (label, number of the block) under another. If AES is a random
permutation, q blocks in all are told from random ones with a chance of at most
:math:`3 q^2 / 2^{128}` (Bellare, Kilian and Rogaway, The Security of the Cipher Block Chaining
Message Authentication Code, 2000, give the tags :math:`2 q^2 / 2^{128}`; that two tags meet after
the xor, and that a permutation has no two equal values, adds :math:`q^2 / 2^{129}` each): 10^11
blocks with one of 10^16. With blake2b, tags and words are its keyed outputs (RFC 7693), taken to be
random ones.
"""

from __future__ import annotations

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import IntArray
from sklearn_puffer._noise.sampler import NotCopied, Words

_PERSON = b"sklearn_puffer/1"
_SHARED = 0  # a label; columns have those from 1 on
_BLOCKS = 4  # of AES, for a counter
_HALF = np.uint64(32)
WIDTH = 8
"""Words that come at once."""


class Prf(NotCopied, ABC):
    """Tags and words of rows in one context.

    Parameters
    ----------
    key : bytes
    context : str
        All that shapes what is drawn.
    """

    def __init__(self, key: bytes, context: str) -> None:
        root = hashlib.blake2b(key, digest_size=64, person=_PERSON).digest()
        secret = hashlib.blake2b(context.encode(), digest_size=64, key=root).digest()
        self._ids, self._tags, self._bits = (
            hashlib.blake2b(use, digest_size=32, key=secret).digest()
            for use in (b"ids", b"tags", b"bits")
        )

    def id_of(self, text: str) -> bytes:
        """Return the 128 bits that stand for an id which is a string."""
        data = text.encode("utf-8", "surrogatepass")  # every string has bytes of its own
        return hashlib.blake2b(data, digest_size=16, key=self._ids).digest()

    def ids_of(self, texts: Sequence[str]) -> Words:
        """Return the 128 bits of each id that is a string, shape (n, 2)."""
        return _words(b"".join(map(self.id_of, texts)), 2)

    def rows(self, ids: Words, columns: Sequence[IntArray]) -> tuple[Words, Shared]:
        """Return the tags of rows, of shape (n, 2), and the bits that their columns share.

        Parameters
        ----------
        ids : ndarray of uint64 of shape (n, 2)
        columns : sequence of k ndarrays of int64 of shape (n,)
        """
        made = self._tagged(ids, columns)
        tags = np.ascontiguousarray(made[:, :2])
        return tags, Shared(self, tags, made[:, 2:])

    @abstractmethod
    def _tagged(self, ids: Words, columns: Sequence[IntArray]) -> Words:
        """Return for each row its tag, and behind it the words that come with the tag."""

    @abstractmethod
    def expand(self, tags: Words, label: int, counters: IntArray, count: int = WIDTH) -> Words:
        """Return the first few words of each tag at a label and its counter, shape (n, count)."""


class Shared(NotCopied):
    """Numbers of 32 bits that the columns of a row share, made on demand.

    Parameters
    ----------
    prf : Prf
    tags : ndarray of uint64 of shape (n, 2)
    known : ndarray of uint64 of shape (n, m)
        The words that came beside the tags; all further ones are those at label 0.
    """

    def __init__(self, prf: Prf, tags: Words, words: Words) -> None:
        self._prf, self._tags, self._calls = prf, tags, 0
        self._words: list[Words] = list(words.T)
        self._numbers: dict[int, NDArray[np.uint32]] = {}

    def at(self, number: int) -> NDArray[np.uint32]:
        """Return the number at a position, of each row: half of a word, the lower half first."""
        if number not in self._numbers:
            word, is_upper = self._word(number // 2), number % 2
            self._numbers[number] = (word >> _HALF if is_upper else word).astype(np.uint32)
        return self._numbers[number]

    def _word(self, number: int) -> Words:
        while number >= len(self._words):
            counters = np.full(len(self._tags), self._calls, dtype=np.int64)
            self._words += list(self._prf.expand(self._tags, _SHARED, counters).T)
            self._calls += 1
        return self._words[number]


class AesPrf(Prf):
    """Bits by AES-256: two words a block, and four blocks at once."""

    def __init__(self, key: bytes, context: str) -> None:
        super().__init__(key, context)
        self._tag, self._bit = _aes(self._tags), _aes(self._bits)

    def _tagged(self, ids: Words, columns: Sequence[IntArray]) -> Words:
        state = self._tag(ids)
        for pair in range(0, len(columns), 2):
            block = np.zeros_like(state)
            for half, codes in enumerate(columns[pair : pair + 2]):
                block[:, half] = codes.view(np.uint64)
            state = self._tag(state ^ block)
        return state

    def expand(self, tags: Words, label: int, counters: IntArray, count: int = WIDTH) -> Words:
        """Return the first few words of each tag at a label and its counter, shape (n, count)."""
        n_blocks = -(-count // 2)
        block = np.empty((n_blocks, len(tags), 2), dtype=np.uint64)
        first = _BLOCKS * counters
        np.bitwise_xor(tags[:, 0], np.uint64(label), out=block[0, :, 0])
        for k in range(n_blocks):
            block[k, :, 0] = block[0, :, 0]
            np.bitwise_xor(tags[:, 1], (first + k).view(np.uint64), out=block[k, :, 1])
        made = self._bit(block.reshape(-1, 2)).reshape(block.shape)
        return made.transpose(0, 2, 1).reshape(-1, len(tags))[:count].T


class BlakePrf(Prf):
    """Bits by keyed blake2b: eight words a call, and six beside a tag."""

    def _tagged(self, ids: Words, columns: Sequence[IntArray]) -> Words:
        numbers = [ids[:, 0], ids[:, 1], *(codes.view(np.uint64) for codes in columns)]
        return _blake(self._tags, np.stack(numbers, axis=1), 64)

    def expand(self, tags: Words, label: int, counters: IntArray, count: int = WIDTH) -> Words:
        """Return the first few words of each tag at a label and its counter, shape (n, count)."""
        block = np.empty((len(tags), 4), dtype=np.uint64)
        block[:, :2], block[:, 2], block[:, 3] = tags, label, counters
        return _blake(self._bits, block, 64)[:, :count]


def _aes(key: bytes) -> Callable[[Words], Words]:
    """Return what encrypts blocks of 128 bits by AES, each a row of two words and by itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # what chains blocks is done by the caller, for all rows at once
    by_block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return lambda blocks: _words(by_block.update(_bytes(blocks)), 2)


def _blake(key: bytes, messages: Words, size: int) -> Words:
    """Return so many bytes of keyed blake2b of each row of words."""
    data, length, taken = _bytes(messages), 8 * messages.shape[1], []
    keyed = hashlib.blake2b(digest_size=size, key=key).copy  # what the key takes is done once
    for (row,) in struct.iter_unpack(f"{length}s", data):
        one = keyed()
        one.update(row)
        taken.append(one.digest())
    return _words(b"".join(taken), size // 8)


def _bytes(words: Words) -> bytes:
    return words.astype("<u8", copy=False).tobytes()


def _words(data: bytes, width: int) -> Words:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, width)
