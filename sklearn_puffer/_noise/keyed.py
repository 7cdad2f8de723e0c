"""Keyed noise: a row's bits are a function of the key, the context, its id and its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import IntArray
from sklearn_puffer._noise.entropy import NotCopied, RowEntropy, Words
from sklearn_puffer._noise.keys import backend_of
from sklearn_puffer._noise.prf import WIDTH, AesPrf, BlakePrf, Prf, Shared
from sklearn_puffer._noise.sampler import Sampler

SAMPLER_VERSION = 2
"""Changes whenever the same bits would be drawn from in another way."""

Halves = tuple[NDArray[np.uint32], NDArray[np.uint32]]
_HALF = np.uint64(32)


class KeyedBits(NotCopied):
    """The bits of a key in one context: of every column of every row.

    Parameters
    ----------
    key : bytes
        At least 16; see `read_key`.
    context : str
        All that shapes what is drawn: two releases of different noise must not share one.

    Notes
    -----
    *Formal guarantees.* Nobody who does not know the key can tell the bits of different (context,
    id, values, column) from independent fair ones, if AES-256, or keyed blake2b, is what it is
    taken for (see `_noise.prf`). Two rows of the same id and values have the same bits.

    Examples
    --------
    >>> bits = KeyedBits(b"blake2b: an example, not a key", "ages of 2024")
    >>> ids, ages = np.array([[1, 0], [2, 0]], dtype=np.uint64), np.array([30, 40])
    >>> first, again = (bits.columns(ids, [ages])[0].words(2) for _ in range(2))
    >>> bool((first == again).all()), bool(first[0] == first[1])
    (True, False)
    """

    def __init__(self, key: bytes, context: str) -> None:
        backend = backend_of(key)
        kind = AesPrf if backend == "aes" else BlakePrf
        self._prf: Prf = kind(key, f"{context}|{backend}|{SAMPLER_VERSION}")

    def ids_of(self, texts: Sequence[str]) -> Words:
        """Return the 128 bits of each id that is a string, shape (n, 2)."""
        return self._prf.ids_of(texts)

    def columns(self, ids: Words, columns: Sequence[IntArray]) -> list[RowWords]:
        """Return the source of bits of each column of some rows.

        Parameters
        ----------
        ids : ndarray of uint64 of shape (n, 2)
        columns : sequence of ndarrays of int64 of shape (n,)
            What is drawn from: codes, or steps of a grid.
        """
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
            place, bit = divmod(self.column, 32)
            return upper, self.shared.at(place) << np.uint32(31 - bit)
        return upper, self.shared.at(n_first + self.n_columns + self.column)


class RowWords(NotCopied):
    """The bits of one column of some rows, each row's from a stream of its own.

    A row's first word is of what its columns share, all further ones from blocks that it counts;
    what is left of a block is discarded. A selection of rows shares these counters.
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
        each = count // max(self.size, 1)
        if self._first is None:
            return self._further(each)
        upper, lower = self.halves()
        first = upper.astype(np.uint64) << _HALF | lower
        return first if each == 1 else np.concatenate([first, self._further(each - 1)])

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

    def _further(self, each: int) -> Words:
        assert each <= WIDTH
        rows = slice(None) if self._rows is None else self._rows
        words = self._prf.expand(self.tags[rows], self._label, self._used[rows], each)
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
