"""Marks: what a ledger recognises persons, rows and noise by, and tells nobody without the key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._noise.entropy import CheckedEntropy, NotCopied, Words
from sklearn_puffer._noise.keys import backend_of
from sklearn_puffer._noise.prf import AesPrf, BlakePrf, Prf
from sklearn_puffer._noise.sampling import system_entropy

_USE = "sklearn_puffer.persons/1"  # no context of noise begins so


def fresh_salt() -> str:
    """Return what tells the marks of one ledger from those of another; it is no secret."""
    return CheckedEntropy(system_entropy()).words(2).tobytes().hex()


class PersonMarks(NotCopied):
    """What stands in a ledger for persons, for the rows they had and for the noise they got.

    Parameters
    ----------
    key : bytes
        That of the noise; see `read_key`.
    salt : str

    Notes
    -----
    *Formal guarantees.* Nobody who does not know the key can tell marks of different ids, of
    different rows of an id, or of different noise from independent random numbers, nor from the
    bits of the noise: each use, under each salt, has keys of its own (see `_noise.prf`). The mark
    of a person has 128 bits, those of a row and of its noise have 64 and are only compared with
    others of that person: two of k meet with a chance of k^2 / 2^65.

    Examples
    --------
    >>> marks = PersonMarks(b"blake2b: an example, not a key", "salt")
    >>> ids = marks.ids_of(["ada", "bob", "ada"])
    >>> persons = marks.persons(ids)
    >>> bool((persons[0] == persons[2]).all()), bool((persons[0] == persons[1]).any())
    (True, False)
    """

    def __init__(self, key: bytes, salt: str) -> None:
        kind = AesPrf if backend_of(key) == "aes" else BlakePrf
        uses = ("persons", "rows", "draws", "check")
        made: list[Prf] = [kind(key, f"{_USE}|{use}|{salt}") for use in uses]
        self._persons, self._rows, self._draws, check = made
        self.check = check.id_of("").hex()  # by which another key is found out

    def ids_of(self, texts: Sequence[str]) -> Words:
        """Return the 128 bits of each id that is a string, shape (n, 2)."""
        return self._persons.ids_of(texts)

    def persons(self, ids: Words) -> Words:
        """Return the mark of each id, of shape (n, 2)."""
        return self._persons.rows(ids, [])[0]

    def rows(self, ids: Words, columns: Sequence[IntArray]) -> Words:
        """Return the mark of what the columns hold for each id, of shape (n,)."""
        return self._rows.rows(ids, columns)[0][:, 0]

    def draws(self, tags: Words) -> Words:
        """Return the mark of the noise with each tag, of shape (n,)."""
        return self._draws.rows(tags, [])[0][:, 0]


def integer_ids(ids: Array) -> NDArray[np.uint64]:
    """Return integers of any type, or objects below 2^127, in 128 bits: equal ones are equal."""
    if ids.dtype == object:
        words = b"".join(int(each).to_bytes(16, "little", signed=True) for each in ids)
        return np.frombuffer(words, dtype="<u8").astype(np.uint64).reshape(-1, 2)
    lower = ids.astype(np.uint64)
    upper = np.where(ids < 0, np.uint64(2**64 - 1), np.uint64(0))
    return np.stack([lower, upper], axis=1)
