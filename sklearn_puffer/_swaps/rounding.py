"""Flows of whole rows: a random table with the same margins, whose mean is the one that was proven.

Controlled rounding as Cox has it (1987): as long as an entry is no whole row there is a cycle of
such entries, along which rows and columns keep their sums when one entry gains what the next loses.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._swaps.flows import ROW


class Draws(Protocol):
    """A source of uniform choices."""

    def below(self, end: int) -> int:
        """Return a whole number from 0 to ``end - 1``, each as probable as any other."""

    def shuffled(self, count: int) -> Array:
        """Return the numbers below ``count`` in an order, each as probable as any other."""


def whole_rows(flows: IntArray, draws: Draws) -> IntArray:
    r"""Return flows in whole rows, drawn so that each entry's mean is its flow, exactly.

    Along a cycle with alternating signs, :math:`d_+` and :math:`d_-` are the largest steps before
    an entry is whole; one of them is taken, the first with chance
    :math:`d_- / (d_+ + d_-)`, in whole numbers.
    """
    table = flows.copy()
    rest = table % ROW
    rows = [set(np.flatnonzero(row).tolist()) for row in rest]
    columns = [set(np.flatnonzero(column).tolist()) for column in rest.T]
    for a, own in enumerate(rows):
        while own:
            cycle = _cycle(a, rows, columns)
            _step(table, cycle, draws)
            for row, column in cycle:
                if table[row, column] % ROW == 0:
                    rows[row].discard(column)
                    columns[column].discard(row)
    return np.asarray(table // ROW)


def _cycle(start: int, rows: list[set[int]], columns: list[set[int]]) -> list[tuple[int, int]]:
    """Return the entries of a cycle: each row and column of it has two of them, one after another.

    A row whose sum is whole has no single entry that is not, so a walk never ends but on itself.
    """
    path: list[tuple[int, int]] = []
    seen: dict[tuple[str, int], int] = {}
    row, last = start, -1
    while True:
        if ("row", row) in seen:
            return path[seen["row", row] :]
        seen["row", row] = len(path)
        column = next(each for each in rows[row] if each != last)
        path.append((row, column))
        if ("column", column) in seen:
            return path[seen["column", column] :]
        seen["column", column] = len(path)
        last = column
        row = next(each for each in columns[column] if each != row)
        path.append((row, column))


def _step(table: IntArray, cycle: list[tuple[int, int]], draws: Draws) -> None:
    """Move along a cycle until an entry is whole, either way with the chance that keeps means."""
    signs = np.where(np.arange(len(cycle)) % 2 == 0, 1, -1)
    where = tuple(np.array(cycle).T)
    below = table[where] % ROW
    above = ROW - below
    up = int(np.where(signs > 0, above, below).min())
    down = int(np.where(signs > 0, below, above).min())
    step = up if draws.below(up + down) < down else -down
    table[where] += signs * step
