"""Which of the other users are counted on, where all of them would take long.

A density of the sum with more users is an average of shifted ones with fewer, so their ratio is an
average too: an upper bound that counts on some of the other users only holds for all of them. What
is computed for a choice of users serves all pairs whose user is not among the chosen.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sklearn_puffer._base.types import IntArray

_FEW_STEPS = 4000


class Choices:
    """Choices among the users but one: "all", "most" of them and a "few".

    Parameters
    ----------
    spans : ndarray of shape (n_laws,)
        Steps between the outermost atoms of each law.
    counts : ndarray of shape (n_laws,)
        How many users have it.
    """

    def __init__(self, spans: IntArray, counts: IntArray) -> None:
        self._spans, self._counts = spans, counts

    def without(self, own: int, by: str) -> IntArray:
        """Return how many users of each law are chosen when one of law ``own`` is left out."""
        less = self._counts.copy()
        less[own] -= 1
        if by == "all":
            return less
        first, second = self._of_all[by]
        if first[own] < self._counts[own]:
            return first
        rest = np.minimum(first, less)
        if 2 * (self._spans @ second) >= self._spans @ rest:
            return second
        return less if by == "most" else rest

    def length(self, own: int, by: str) -> int:
        """Return how many steps the sum of the chosen is long."""
        return int(self._spans @ self.without(own, by))

    def are_same(self, own: int, first: str, second: str) -> bool:
        """Return whether two choices are the same users."""
        return bool(np.array_equal(self.without(own, first), self.without(own, second)))

    @cached_property
    def _of_all(self) -> dict[str, tuple[IntArray, IntArray]]:
        """Return two disjoint choices of each kind.

        Who is not needed in full by the first is among the others of every user; the second is for
        the users of laws that the first needs in full.
        """
        alone = self._counts == 1
        odd = alone & (np.cumsum(alone) % 2 == 1)
        shared = np.where(alone, 0, np.maximum(self._counts - 1, 0))
        few = _some_of(self._spans, self._counts)
        return {
            "few": (few, _some_of(self._spans, self._counts - few)),
            "most": (shared + odd, shared + (alone & ~odd)),
        }


def _some_of(spans: IntArray, counts: IntArray) -> IntArray:
    """Return how many of each law to take so that their sum is short, and all if it is anyway."""
    share = min(1.0, _FEW_STEPS / max(1, int(spans @ counts)))
    kept: IntArray = np.floor(counts * share).astype(np.int64)
    room = _FEW_STEPS - int(spans @ kept)
    for k in np.flatnonzero((counts > kept) & (spans > 0)).tolist():
        if spans[k] <= room:
            kept[k] += 1
            room -= int(spans[k])
    return kept
