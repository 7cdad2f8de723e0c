"""Groups of rows as a plan and an audit look at them: split, attacked and judged as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array
from sklearn_puffer._noiser import RowByRow, WideRows, of_place
from sklearn_puffer._review.attack import as_they_come, boosted
from sklearn_puffer._tables import Name

SIZE = "rows of the group"
ROW_BY_ROW = "row by row"


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of some rows.

    Attributes
    ----------
    wide : WideRows
    """

    wide: WideRows

    @classmethod
    def of(cls, codes: Array) -> Groups:
        """Return those of a number for each row, the same for the rows of one group."""
        return cls(WideRows.of(np.unique(codes, return_inverse=True)[1].ravel()))

    @property
    def codes(self) -> Array:
        """The number of the group of each row."""
        there = self.wide.places >= 0
        found = np.empty(int(there.sum()), dtype=np.intp)
        found[self.wide.places[there]] = np.nonzero(there)[0]
        return found

    def of_rows(self, rows: Array) -> Groups:
        """Return those of some rows, which are numbered anew."""
        return Groups.of(self.codes[rows])

    def __len__(self) -> int:
        return len(self.wide)

    def among(self, rows: Array) -> Array:
        """Return the groups whose rows are among these, which have all rows of a group or none."""
        return np.flatnonzero(np.isin(self.wide.first, rows))

    def rows(self, groups: Array) -> Array:
        """Return the rows of some groups, ascending."""
        places = self.wide.places[groups]
        return np.sort(places[places >= 0])

    def seen(self, frame: Any) -> Any:
        """Return what attackers see of groups: their rows side by side, and how many they are."""
        wide = type(frame)(
            {
                of_place(name, k): _taken(frame[name], rows)
                for name in frame.columns
                for k, rows in enumerate(self.wide.places.T)
            }
        )
        if self.wide.width > 1:
            wide[SIZE] = self.wide.sizes
        return wide

    def attackers(self, attackers: Mapping[str, Any], columns: Sequence[Name]) -> dict[str, Any]:
        """Return attackers of groups: those given, and one that adds up what single rows tell."""
        if self.wide.width == 1:
            return dict(attackers)
        return {**attackers, ROW_BY_ROW: as_they_come(RowByRow(boosted(60), list(columns), SIZE))}


def _taken(column: Any, rows: Array) -> Any:
    """Return the values of some rows, missing where the row is -1."""
    found = column.iloc[np.maximum(rows, 0)].reset_index(drop=True)
    if (rows >= 0).all():
        return found
    return (found if str(found.dtype) == "category" else found.astype(float)).where(rows >= 0)
