"""`channel_`: the channel that was fitted, to be looked at, and kept as safe as the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        The distinct rows; over confidence sets all combinations of the columns' values.
    matrix : scipy.sparse.csr_array of float of shape (n, n)
        W(y|x): row x is the law of what is released for cell x.
    numerators : scipy.sparse.csr_array of int64 of shape (n, n)
        The same as shares of 2^62, which is what is drawn from.
    block : ndarray of intp of shape (n,)
        Cells move within their block.
    expected_change : float
        The expected cost of a release, in units of change.
    lower_bound : float or None
        What every channel onto these cells costs at least, where that was computed.
    unchanged : float
        The share of the rows of `fit` that are released as they are.
    unchanged_by_secret : dict
        ``unchanged_by_secret[sensitive][secret]``: the share of its rows.
    floor : float or None
        The most that one more draw tells, recomputed; None without a floor.
    """

    _columns: Sequence[Column]
    _codes: Array
    matrix: Any
    numerators: Any
    block: Array
    expected_change: float
    lower_bound: float | None
    unchanged: float
    unchanged_by_secret: Mapping[Any, Mapping[Any, float]]
    floor: float | None

    @property
    def cells(self) -> Any:
        """The distinct rows as a DataFrame, which no pickle holds."""
        return cells_frame(self._columns, self._codes)

    def __repr__(self) -> str:
        kept = "; ".join(
            f"{shown(secret)} {share:.1%}"
            for shares in self.unchanged_by_secret.values()
            for secret, share in shares.items()
        )
        return (
            f"Channel({len(self._codes)} cells, expected change {self.expected_change:.4g}, "
            f"unchanged {self.unchanged:.1%} ({kept}))"
        )


def as_matrix(rows: IntegerRows, *, whole: bool = False) -> Any:
    """Return a channel as a sparse matrix of probabilities, or of shares of 2^62."""
    data = rows.shares if whole else rows.shares / WHOLE
    shape = (rows.n_cells, rows.n_cells)
    return csr_array((np.array(data), rows.targets.copy(), rows.starts.copy()), shape=shape)
