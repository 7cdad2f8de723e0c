r"""Simultaneous confidence sets that bound the mass of each cell by itself.

What channels are found over: bounds of groups of cells, as `SimultaneousSet` has them besides,
would be no part of their program, and without these each cell gets a larger part of the error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import ULP, IntArray
from sklearn_puffer._sets.laminar import ONE
from sklearn_puffer._sets.simultaneous_sets import _intervals
from sklearn_puffer.priors import ConfidenceSet


class CellBounds(NamedTuple):
    """Bounds on the mass of each cell, in units of 2^-60, each of shape (n,)."""

    lower: IntArray
    upper: IntArray


def cell_share(level: float, cells: Iterable[int]) -> float:
    """Return what each interval may miss, if all sets together hold with ``level``.

    Parameters
    ----------
    level : float
        Probability in (0, 1).
    cells : iterable of int
        The number of cells of each set. Of two cells either interval says what the other says,
        and a single one needs none.

    Notes
    -----
    *Formal guarantees.* The union bound.

    Examples
    --------
    >>> round(cell_share(0.95, [2, 3]), 6)
    0.0125
    """
    events = sum(n if n > 2 else n - 1 for n in cells)
    return max(1.0 - ConfidenceSet(level).level - ULP, 0.0) / max(events, 1) * (1.0 - 2.0**-40)


def cell_bounds(counts: IntArray, share: float) -> CellBounds:
    """Return Clopper-Pearson bounds around counts, as tight as all of them together make them.

    Parameters
    ----------
    counts : ndarray of int64 of shape (n,)
        Rows in each cell of an alphabet that was fixed before they were counted.
    share : float
        What each interval may miss, from `cell_share`.

    Notes
    -----
    *Formal guarantees.* If the rows are independent draws of the true law and that law is on the
    cells, all bounds hold with a probability of at least one minus the sum of the shares. The
    observed law always keeps them.

    Examples
    --------
    >>> bounds = cell_bounds(np.array([376, 204]), 0.025)
    >>> (bounds.lower / ONE).round(6).tolist(), (bounds.upper / ONE).round(6).tolist()
    ([0.602124, 0.307499], [0.692501, 0.397876])
    """
    with_total = np.append(counts.sum(), counts)
    errors = np.full(with_total.size, min(max(share, 1e-300), 1.0))
    lower, upper = (bounds[1:] for bounds in _intervals(with_total, errors))
    least, most = sum(map(int, lower)), sum(map(int, upper))
    above = [min(int(u), ONE - least + int(v)) for u, v in zip(upper, lower, strict=True)]
    below = [max(int(v), ONE - most + int(u)) for u, v in zip(upper, lower, strict=True)]
    return CellBounds(np.array(below, dtype=np.int64), np.array(above, dtype=np.int64))
