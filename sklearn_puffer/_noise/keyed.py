r"""Keyed noise: a row's bits are a function of the key, the context, its id and its values.

Here are keys, their sources and their pseudorandom functions; and pseudonyms, by which a ledger
recognises persons, rows and noise, and which are random numbers to whoever lacks the key.

The functions are pseudorandom, over many rows at once. A row is an id of 128 bits and a number of
64 bits for each column. Its *tag*, of 128 bits, is a function of all of them. Its words are a
function of the tag, a label and a counter; blake2b gives six words beside the tag. The columns of a
row share the words of label 0, and each column has a label of its own. Every use has its own keys,
derived by keyed blake2b: a key for the context, and from it one for ids, one for tags and one for
bits.

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
import hmac
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._noise.entropy import (
    CheckedEntropy,
    NotCopied,
    RowEntropy,
    Words,
    system_entropy,
)
from sklearn_puffer._noise.sampler import Sampler

LEAST_BYTES = 16
PREFIX = b"blake2b:"
"""The prefix of keys whose bits blake2b makes, on every machine."""

_ENVIRONMENT = "env:"
_CHECKED = b"sklearn_puffer/k"
_HALF = np.uint64(32)
_EITHER = (
    "give at least 16 random bytes, as secrets.token_bytes(32) makes them, the pathlib.Path of a "
    "file that holds a text of them, as secrets.token_hex(32) makes it, or 'env:NAME' for an "
    "environment variable"
)


def read_key(key: Any) -> bytes:
    """Return the bytes of a key, which no message shows, or refuse what is none or is too short."""
    material, where = _material(key)
    if len(material.removeprefix(PREFIX)) < LEAST_BYTES:
        raise ValueError(f"key {where} is shorter than {LEAST_BYTES} bytes; {_EITHER}.")
    backend_of(material)
    return material


def fresh_key() -> bytes:
    """Return a random key of its own, for the function that this machine is fastest at."""
    random = CheckedEntropy(system_entropy()).words(4).tobytes()
    return random if has_aes() else PREFIX + random


def backend_of(key: bytes) -> str:
    """Return the name of the function that makes bits of a key: its prefix alone decides.

    AES needs the package `cryptography`.
    """
    if key.startswith(PREFIX):
        return "blake2b"
    if has_aes():
        return "aes"
    raise ModuleNotFoundError(
        "key asks for AES, and the package cryptography is not installed; install it with "
        "pip install 'sklearn-puffer[keyed]', or begin every key with b'blake2b:', on all "
        "machines, which makes other bits and is slower."
    )


def has_aes() -> bool:
    """Return whether `cryptography`, which has AES, is installed."""
    return find_spec("cryptography") is not None


def shipped_key(key: Any, material: bytes) -> ShippedKey:
    """Return a key for the tasks of an engine: of an environment variable its name alone."""
    if isinstance(key, str):
        return ShippedKey(None, key.removeprefix(_ENVIRONMENT), _check_value(material))
    return ShippedKey(material)


class ShippedKey:
    """A key in the plan of an engine, which no text shows; who can unpickle it has it.

    >>> shipped_key(None, bytes(32))
    ShippedKey()
    """

    def __init__(self, material: bytes | None, variable: str = "", check: bytes = b"") -> None:
        self._material, self._variable, self._check = material, variable, check

    def read(self) -> bytes:
        """Return the bytes of the key where it is used; the variable must hold it there, too."""
        if self._material is not None:
            backend_of(self._material)
            return self._material
        material = read_key(f"{_ENVIRONMENT}{self._variable}")
        if not hmac.compare_digest(_check_value(material), self._check):
            raise ValueError(
                f"key names the environment variable {self._variable!r}, which holds another key "
                "in this task than where transform was called; set the same one for all workers."
            )
        return material

    def __repr__(self) -> str:
        return "ShippedKey()"

    def __dask_tokenize__(self) -> str:
        """Return what tells tasks of different keys apart, by which Dask knows those it has."""
        return (self._check or _check_value(self._material or b"")).hex()


def _check_value(key: bytes) -> bytes:
    """Return a fingerprint that tells keys apart, and from which no key can be computed."""
    root = hashlib.blake2b(key, digest_size=64, person=_CHECKED).digest()
    return hashlib.blake2b(b"check", digest_size=16, key=root).digest()


def _material(key: Any) -> tuple[bytes, str]:
    if isinstance(key, bytes):
        return _without_line_end(key, "of bytes", given=True), "of bytes"
    if isinstance(key, Path):
        where = f"in {str(key)!r}"
        if not key.exists():
            raise FileNotFoundError(f"key is {str(key)!r}, and there is no such file; {_EITHER}.")
        return _without_line_end(key.read_bytes(), where, given=False), where
    if isinstance(key, str) and key.startswith(_ENVIRONMENT):
        name = key.removeprefix(_ENVIRONMENT)
        if name not in os.environ:
            raise ValueError(f"key names the environment variable {name!r}, which is not set.")
        where = f"in the variable {name!r}"
        return _without_line_end(os.fsencode(os.environ[name]), where, given=False), where
    raise TypeError(f"key is a {type(key).__name__}, which cannot be one; {_EITHER}.")


def _without_line_end(material: bytes, where: str, *, given: bool) -> bytes:
    """Return a key without its line end if it is text; of random bytes the line end is a part.

    So an editor, or echo, may leave one. Earlier versions kept all bytes of a bytes object and
    dropped the line end of any file. Where they read another key, it is refused: it would draw
    other noise than it did.
    """
    bare = material.rstrip(b"\r\n")
    if bare == material:
        return material
    if _is_text(bare) == given:
        was = "drew with it" if given else "left it out"
        raise ValueError(
            f"key {where} ends in a line end, and earlier versions {was}: of a line of text it is "
            "no part of the key, of other bytes it is; take it off"
            f"{'' if given else ', which leaves all noise as it was'}, or take another key."
        )
    return bare if _is_text(bare) else material


def _is_text(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False


SAMPLER_VERSION = 2
"""Changes whenever the same bits would be drawn from in another way."""

Halves = tuple[NDArray[np.uint32], NDArray[np.uint32]]


class KeyedBits(NotCopied):
    """The bits of a key in one context: of every column of every row.

    The context is all that shapes what is drawn: two releases of different noise must not share
    one.

    *Formal guarantees.* Nobody who does not know the key can tell the bits of different (context,
    id, values, column) from independent fair ones, if AES-256, or keyed blake2b, is what it is
    taken for (see `_noise.keyed`). Two rows of the same id and values have the same bits.

    >>> bits = KeyedBits(b"blake2b: an example, not a key", "ages of 2024")
    >>> ids, ages = np.array([[1, 0], [2, 0]], dtype=np.uint64), np.array([30, 40])
    >>> first, again = (bits.columns(ids, [ages])[0].words(2) for _ in range(2))
    >>> bool((first == again).all()), bool(first[0] == first[1])
    (True, False)
    """

    def __init__(self, key: bytes, context: str) -> None:
        self._prf = prf_of(key, f"{context}|{backend_of(key)}|{SAMPLER_VERSION}")

    def ids_of(self, texts: Sequence[str]) -> Words:
        """Return the 128 bits of each id that is a string, shape (n, 2)."""
        return self._prf.ids_of(texts)

    def columns(self, ids: Words, columns: Sequence[IntArray]) -> list[RowWords]:
        """Return the source of bits of each column (codes, or steps of a grid); ids are (n, 2)."""
        tags, shared = self._prf.rows(ids, columns)
        firsts = [_First(shared, k, len(columns)) for k in range(len(columns))]
        return [RowWords(self._prf, tags, k + 1, first) for k, first in enumerate(firsts)]


class _First(NamedTuple):
    """Where the first bits of a column lie among the numbers that the columns of a row share.

    Bits by themselves come first, one for each column, then 32 bits for each, then 32 more: most
    draws of whole numbers take 33 bits, and those of ten columns come with the tag.
    """

    shared: Shared
    column: int
    n_columns: int

    def halves(self, short: bool) -> Halves:
        """Return the halves as `RowWords.halves` does; no bit of them is any other column's."""
        n_first = -(-self.n_columns // 32)
        upper = self.shared.at(n_first + self.column)
        if short:
            number, bit = divmod(self.column, 32)
            return upper, self.shared.at(number) << np.uint32(31 - bit)
        return upper, self.shared.at(n_first + self.n_columns + self.column)


class RowWords(NotCopied):
    """The bits of one column of some rows: each row has a stream of its own.

    The first word of a row comes from the bits that its columns share. All others come from blocks,
    which the row counts; what is left of a block is discarded. A selection of rows shares the
    counters.
    """

    def __init__(self, prf: Prf, tags: Words, label: int, first: _First) -> None:
        self._prf, self._label = prf, label
        self.tags = tags  # rows of the same tag have the same bits
        self._first: _First | None = first
        self._used = np.zeros(len(tags), dtype=np.int64)
        self._rows: NDArray[np.intp] | None = None

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._used) if self._rows is None else len(self._rows)

    def words(self, count: int) -> Words:
        """Return the next words of every row: the j-th one of row i at ``j * size + i``."""
        per_row = count // max(self.size, 1)
        if self._first is None:
            return self._further(per_row)
        upper, lower = self.halves()
        first = upper.astype(np.uint64) << _HALF | lower
        return first if per_row == 1 else np.concatenate([first, self._further(per_row - 1)])

    def halves(self, short: bool = False) -> Halves:
        """Return the halves of the next word of every row, of a short one 33 bits that are fair.

        They are all of the upper half, and the highest bit of the lower one.
        """
        if self._first is None:
            word = self._further(1)
            return (word >> _HALF).astype(np.uint32), word.astype(np.uint32)
        first, self._first = self._first, None
        return first.halves(short)

    def take(self, where: NDArray[np.intp]) -> RowWords:
        """Return the source of some rows; the first word of every row must have been taken."""
        assert self._first is None
        view = object.__new__(RowWords)
        view.__dict__.update(self.__dict__)
        view._rows = where if self._rows is None else self._rows[where]
        return view

    def _further(self, per_row: int) -> Words:
        assert per_row <= WIDTH
        rows = slice(None) if self._rows is None else self._rows
        words = self._prf.expand(self.tags[rows], self._label, self._used[rows], per_row)
        self._used[rows] += 1
        return words.T.reshape(-1)


class ByRow:
    """A sampler as a release takes it, which draws from the bits of each row."""

    def __init__(self, source: Sampler, rows: RowEntropy) -> None:
        self.step, self.saturated = source.step, source.saturated
        self._source, self._rows = source, rows

    def draw(self, size: int) -> IntArray:
        """Return the draw of each of the rows, of which there must be ``size``."""
        assert size == self._rows.size
        return self._source.by_row(self._rows)


_USE = "sklearn_puffer.persons/1"  # no context of noise begins so


def fresh_salt() -> str:
    """Return a random salt, which gives each ledger pseudonyms of its own; it is no secret."""
    return CheckedEntropy(system_entropy()).words(2).tobytes().hex()


class PersonPseudonyms(NotCopied):
    """Pseudonyms of persons in a ledger, of the rows they had and of the noise they got.

    *Formal guarantees.* Nobody who does not know the key can tell pseudonyms of different ids, of
    different rows of an id, or of different noise from independent random numbers, nor from the
    bits of the noise: each use, under each salt, has keys of its own (see `_noise.keyed`). The
    pseudonym of a person has 128 bits, those of a row and of its noise have 64 and are only
    compared with others of that person: two of k meet with a chance of k^2 / 2^65.

    >>> pseudonyms = PersonPseudonyms(b"blake2b: an example, not a key", "salt")
    >>> persons = pseudonyms.persons(pseudonyms.ids_of(["ada", "bob", "ada"]))
    >>> bool((persons[0] == persons[2]).all()), bool((persons[0] == persons[1]).any())
    (True, False)
    """

    def __init__(self, key: bytes, salt: str) -> None:
        self._persons, self._rows, self._draws, check = (
            prf_of(key, f"{_USE}|{use}|{salt}") for use in ("persons", "rows", "draws", "check")
        )
        self.check = check.id_of("").hex()  # by which another key is found out

    def ids_of(self, texts: Sequence[str]) -> Words:
        """Return the 128 bits of each id that is a string, shape (n, 2)."""
        return self._persons.ids_of(texts)

    def persons(self, ids: Words) -> Words:
        """Return the pseudonym of each id, of shape (n, 2)."""
        return self._persons.rows(ids, [])[0]

    def rows(self, ids: Words, columns: Sequence[IntArray]) -> Words:
        """Return the pseudonym of what the columns hold for each id, of shape (n,)."""
        return self._rows.rows(ids, columns)[0][:, 0]

    def draws(self, tags: Words) -> Words:
        """Return the pseudonym of the noise with each tag, of shape (n,)."""
        return self._draws.rows(tags, [])[0][:, 0]


def integer_ids(ids: Array) -> NDArray[np.uint64]:
    """Return integers of any type, or objects below 2^127, in 128 bits: equal ones are equal."""
    if ids.dtype == object:
        words = b"".join(int(integer).to_bytes(16, "little", signed=True) for integer in ids)
        return np.frombuffer(words, dtype="<u8").astype(np.uint64).reshape(-1, 2)
    lower = ids.astype(np.uint64)
    upper = np.where(ids < 0, np.uint64(2**64 - 1), np.uint64(0))
    return np.stack([lower, upper], axis=1)


# ------------------------------------------------------------------- pseudorandom functions

_PERSON = b"sklearn_puffer/1"
_SHARED = 0  # a label; columns have those from 1 on
_BLOCKS = 4  # of AES, for a counter
WIDTH = 8
"""Words that come at once."""


class Prf(NotCopied, ABC):
    """Tags and words of rows in one context, which is all that shapes what is drawn."""

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
        """Return the tags (n, 2) of rows with ids (n, 2), and the bits that their columns share."""
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

    Words of shape (n, m) came beside the tags; all further ones are those at label 0.
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


def prf_of(key: bytes, context: str) -> Prf:
    """Return the function of a key in a context: the prefix of the key decides which it is."""
    return AesPrf(key, context) if backend_of(key) == "aes" else BlakePrf(key, context)


def _aes(key: bytes) -> Callable[[Words], Words]:
    """Return AES as a function of blocks of 128 bits, rows of two words, each by itself (ECB)."""
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
