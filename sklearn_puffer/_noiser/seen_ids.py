"""Which ids have been seen: of a stream of any length, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import Array

Words = NDArray[np.uint64]

_ON_DISK = 1 << 21  # ids in a run that is moved to the disk: 32 MB


class SeenIds:
    """The ids of a stream so far, as sorted runs of 128 bits each.

    Runs are merged up to a length, and then lie in an unnamed file: 16 bytes an id, which the
    system keeps in memory only as long as it likes.

    Examples
    --------
    >>> seen = SeenIds()
    >>> seen.first_known(np.array([[7, 0], [3, 0]], dtype=np.uint64)) is None
    True
    >>> seen.first_known(np.array([[5, 0], [3, 0]], dtype=np.uint64))
    1
    """

    def __init__(self, on_disk: int = _ON_DISK) -> None:
        self._on_disk = on_disk
        self._runs: list[_Run] = []
        self._filed: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, (*self._filed, *self._runs)))

    def first_known(self, ids: Words) -> int | None:
        """Return where an id stands that was seen before, or None; then all of them are seen.

        Parameters
        ----------
        ids : ndarray of uint64 of shape (n, 2)
            They differ from each other.
        """
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        own = _Run(ids[order, 0], ids[order, 1])
        for run in (*self._filed, *self._runs):
            found = run.places_in(own)
            if found.size:
                return int(order[found[0]])
        self._add(own)
        return None

    def _add(self, run: _Run) -> None:
        """Keep a run; short ones become one, so that there are few."""
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = self._runs.pop().merged(run)
        if len(run) >= self._on_disk:
            self._filed.append(run.on_disk())
        else:
            self._runs.append(run)


@dataclass(frozen=True, eq=False)
class _Run:
    """Different ids, in ascending order of their two words."""

    first: Array
    second: Array

    def __len__(self) -> int:
        return len(self.first)

    def places_in(self, other: _Run) -> Array:
        """Return which places of another run hold an id of this one."""
        start = np.searchsorted(self.first, other.first, "left")
        stop = np.searchsorted(self.first, other.first, "right")
        near = np.flatnonzero(start < stop)  # the same first word: nearly always the same id
        same = [
            other.second[k] in self.second[begin:end]
            for k, begin, end in zip(near, start[near], stop[near], strict=True)
        ]
        places: Array = near[np.array(same, dtype=bool)]
        return places

    def merged(self, other: _Run) -> _Run:
        """Return both as one run."""
        first = np.concatenate([self.first, other.first])
        second = np.concatenate([self.second, other.second])
        order = np.lexsort((second, first))
        return _Run(first[order], second[order])

    def on_disk(self) -> _Run:
        """Return the same, in a file that is gone with it."""
        return _Run(_filed(self.first), _filed(self.second))


def _filed(words: Array) -> Array:
    with TemporaryFile() as file:  # what is mapped stays, and has no name
        file.write(words.tobytes())
        file.flush()
        return np.memmap(file, dtype=words.dtype, mode="r")
