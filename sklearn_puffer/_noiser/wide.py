"""Columns that are too many for the exact loss, and what would bring them within its reach.

What is named is computed from the alphabets alone, and is safe: whoever follows it gets the exact
loss, though at times more would have been possible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod

import numpy as np

from sklearn_puffer._base import listed
from sklearn_puffer._tables import Column
from sklearn_puffer.accounting import MAX_CELLS, is_computable
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete

_FEW_BINS = 4  # what is worth a try where no number of bins is enough by itself


def cells_of(columns: Sequence[Column]) -> int:
    """Return how many cells the joint grid of columns has."""
    return prod(len(column.atoms) for column in columns)


def too_wide(columns: Sequence[Column]) -> bool:
    """Return whether the joint grid has more cells than the exact loss is computed on."""
    return len(columns) > 1 and not columns[0].free and cells_of(columns) > MAX_CELLS


def rows_have_exact_loss(noise: Noise, notion: Notion) -> bool:
    """Return whether the loss of rows of three columns and more is exact where the grid is small.

    >>> from sklearn_puffer.noise import Gaussian, Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> [rows_have_exact_loss(kind(1.0), Pufferfish(1.0)) for kind in (Laplace, Gaussian)]
    [True, False]
    """
    row = Discrete(np.array([[0.0] * 3, [1.0] * 3]), np.array([0.5, 0.5]))
    return is_computable([row, row], noise.with_scale((1.0,) * 3), notion)


def ways_to_exact(columns: Sequence[Column]) -> str:
    """Return in words which bins, or which columns left out, would make the loss exact."""
    bins = _exact_bins(columns)
    left_out = _left_out(columns, [len(column.atoms) for column in columns])
    leaving = f"eaving out {_all(left_out)}"
    ways = [f"n_bins={bins}", f"l{leaving}"] if bins else [f"L{leaving}"]
    fewer = [] if bins else _left_out(columns, _binned_sizes(columns, _FEW_BINS))
    if 0 < len(fewer) < len(left_out):
        ways.append(f"n_bins={_FEW_BINS} with {_all(fewer)} left out")
    return f"{ways[0]} would be exact" + "".join(f", and so would {way}" for way in ways[1:])


def _all(columns: Sequence[Column]) -> str:
    return listed([column.name for column in columns], len(columns))


def _exact_bins(columns: Sequence[Column]) -> int:
    """Return the largest number of bins for which the loss is exact; 0 where two are too many."""
    bins = bisect_right(
        range(2, MAX_CELLS), MAX_CELLS, key=lambda n_bins: prod(_binned_sizes(columns, n_bins))
    )
    return bins + 1 if bins else 0


def _binned_sizes(columns: Sequence[Column], n_bins: int) -> list[int]:
    """Return bounds on the sizes of the alphabets with so many bins for every number."""
    return [
        len(column.atoms)
        if column.kind not in ("float", "integer")
        # how many values were merged is not known any more
        else n_bins
        if column.merged
        else min(n_bins, len(column.atoms))
        for column in columns
    ]


def _left_out(columns: Sequence[Column], sizes: Sequence[int]) -> list[Column]:
    """Return the fewest columns without which the grid is small: those of the most atoms."""
    order = sorted(range(len(columns)), key=lambda k: -sizes[k])
    count = next(n for n in range(len(order)) if prod(sizes[k] for k in order[n:]) <= MAX_CELLS)
    return [columns[k] for k in sorted(order[:count])]
