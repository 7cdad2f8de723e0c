"""What is between a fit and a release: how a table is read, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._base import listed
from sklearn_puffer._noise import Entropy
from sklearn_puffer._release.drift import Margin, Watch
from sklearn_puffer._release.keyed_rows import KeyedRows
from sklearn_puffer._release.row_groups import RowGroups
from sklearn_puffer._tables import Missing, Name

Patterns = Mapping[tuple[Name, ...], Set[tuple[Name, ...]]]


@dataclass(frozen=True, eq=False)
class TableRules:
    """How a table is read, and what its release has.

    Attributes
    ----------
    names : sequence of names
        The columns of the X of `fit`.
    named : bool
        Whether these are names, and not positions.
    sensitive : sequence of names
        The columns of these that are secrets.
    passed, order : sequence of names
        Columns handed through untouched, and the order of all columns of a release.
    missing : {"error", "category", "propagate"}
        As in `PufferfishNoiser`.
    patterns : mapping
        For each group of columns, the sets of them that may be present while others are missing.
    margins : sequence of Margin
        The distribution of the values of each column, where that is known.
    groups : RowGroups or None
        Groups of rows, and how large a group the guarantee covers.
    """

    names: Sequence[Name]
    named: bool
    sensitive: Sequence[Name]
    passed: Sequence[Name]
    order: Sequence[Name]
    missing: Missing
    patterns: Patterns
    margins: Sequence[Margin] = ()
    groups: RowGroups | None = None

    def check_columns(self, names: Sequence[Name]) -> None:
        """Refuse a table in which a column that is released cannot be found by its name."""
        plain = all(isinstance(name, int) for name in names)
        if not self.named and not (plain and len(names) <= len(self.names)):
            raise ValueError(
                f"fit saw {len(self.names)} columns without names, and X has "
                f"{listed(list(names))}, which may stand for others; pass X.to_numpy() with "
                "the columns of fit in their order, or fit on a DataFrame."
            )
        absent = [name for name in self.order if name not in names]
        if absent:
            raise ValueError(
                f"X lacks column {listed(absent, len(absent))}, which fit released; columns are "
                f"found by name, and those of X are {listed(list(names), 10)}."
            )


@dataclass(frozen=True)
class Draw:
    """How one table is drawn.

    Attributes
    ----------
    entropy : callable
        Gives the random bits of the k-th column.
    unknown
        As in `PufferfishNoiser`.
    keyed : KeyedRows or None
        Gives the bits of each row, in the place of ``entropy``.
    watch : Watch or None
        Counts the values.
    n_jobs : int or None
    """

    entropy: Callable[[int], Entropy]
    unknown: Any = "error"
    keyed: KeyedRows | None = None
    watch: Watch | None = None
    n_jobs: int | None = None
