"""`channel_`: the channel that was fitted, to be looked at, and kept as safe as the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_puffer._base import Array, shown
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._tables import Column, cells_frame


@dataclass(frozen=True, eq=False, repr=False)
class Channel:
    """A fitted channel; whoever holds it can tell of some released rows that nothing moved there.

    Attributes
    ----------
    cells : pandas.DataFrame of shape (n, n_public)
        The distinct rows.
    matrix : scipy.sparse.csr_array of float of shape (n, n)
        W(y|x): row x is the law of what is released for cell x.
    numerators : scipy.sparse.csr_array of int64 of shape (n, n)
        The same as shares of 2^62, which is what is drawn from.
    expected_change : float
        The expected cost of a release, in units of change.
    unchanged : float
        The share of the rows of `fit` that come out equal. Of numbers in bins few do, as a bin is
        released as its representative.
    unchanged_by_secret : dict
        ``unchanged_by_secret[sensitive][secret]``: the share of its rows.
    floor : float or None
        The most that one more draw tells, recomputed; None without a floor.
    stayed, stayed_by_secret : float, dict
        The shares of the rows that are not moved: that stay in their bins, where there are bins.
    """

    _columns: Sequence[Column]
    _codes: Array
    matrix: Any
    numerators: Any
    expected_change: float
    unchanged: float
    unchanged_by_secret: Mapping[Any, Mapping[Any, float]]
    floor: float | None
    stayed: float = nan
    stayed_by_secret: Mapping[Any, Mapping[Any, float]] = field(default_factory=dict)

    @property
    def cells(self) -> Any:
        """The distinct rows as a DataFrame, which no pickle holds."""
        return cells_frame(self._columns, self._codes)

    def __repr__(self) -> str:
        kept = "; ".join(
            f"{shown(secret)} {share:.1%}"
            for shares in self.stayed_by_secret.values()
            for secret, share in shares.items()
        )
        return (
            f"Channel({len(self._codes)} cells, expected change {self.expected_change:.4g}, "
            f"stayed {self.stayed:.1%} ({kept}), unchanged {self.unchanged:.1%})"
        )


def as_matrix(rows: IntegerRows, *, whole: bool = False) -> Any:
    """Return a channel as a sparse matrix of probabilities, or of shares of 2^62."""
    data = rows.shares if whole else rows.shares / WHOLE
    shape = (rows.n_cells, rows.n_cells)
    return csr_array((np.array(data), rows.targets.copy(), rows.starts.copy()), shape=shape)
