"""Groups of rows, such as households, whose rows share their secret: read, counted and refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base import (
    Array,
    check_choice,
    check_count,
    listed,
    plain,
    quoted,
)
from sklearn_puffer._release.evidence import RowsTogether
from sklearn_puffer._tables import AnyTable, LazyTable, Name, ranks_of, resolve

Within = Literal["independent", "any"]
WITHIN: tuple[Within, ...] = ("independent", "any")

COUNT = "count"
"""The ``max_group`` that is counted from the rows of `fit`, where sizes of groups are public."""

_MOST_ROWS = 256  # of a group: noise for more of them leaves nothing of a row


@dataclass(frozen=True)
class RowGroups:
    """Which rows form groups, how large groups are, and how their rows depend on each other.

    Attributes
    ----------
    column : str or int
        The column of group ids: the argument, and in a fitted noiser its name.
    most : int or None
        Rows of the largest group that the guarantee covers; None until they are counted.
    within : {"independent", "any"}
        How rows of a group depend on each other given the secret.
    """

    column: Name
    most: int | None
    within: Within

    def for_certificate(self) -> RowsTogether | None:
        """Return what a certificate says of fitted groups."""
        return None if self.most is None else RowsTogether(self.column, self.most, self.within)


def row_groups(params: Mapping[str, Any]) -> RowGroups | None:
    """Return the groups that the parameters ask for, checked as far as that needs no data.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, its value and the way out.
    """
    column, most = plain(params["groups"]), params["max_group"]
    within = check_choice(params["within_group"], "within_group", [*WITHIN])
    if column is None:
        _refuse_rest(most, within)
        return None
    if isinstance(column, bool) or not isinstance(column, str | int):
        raise TypeError(
            "groups must be the name (str) or position (int) of the column of group ids, got "
            f"{quoted(column)}."
        )
    if most is None:
        raise ValueError(
            f"groups={quoted(column)} needs max_group, the most rows of a group that the guarantee "
            f"is for; give a number, such as max_group=5, or max_group={COUNT!r} where the sizes "
            "of groups are public."
        )
    if isinstance(most, str):
        check_choice(most, "max_group", [COUNT])
        return RowGroups(column, None, within)
    return RowGroups(column, checked_most(check_count(most, "max_group")), within)


def checked_most(most: int) -> int:
    if most > _MOST_ROWS:
        raise ValueError(
            f"max_group must be at most {_MOST_ROWS:,}, got {quoted(most)}: noise for so many rows "
            "leaves nothing of each; release a sum or mean of each group (PufferfishSum), or fewer "
            "of its rows."
        )
    return most


def _refuse_rest(most: Any, within: Within) -> None:
    """Refuse parameters about groups where there are no groups."""
    for name, value, usual in (("max_group", most, None), ("within_group", within, WITHIN[0])):
        if value != usual:
            raise ValueError(
                f"{name}={quoted(value)} is about groups of rows, and groups= names no column of "
                f"their ids; name it, such as groups='household', or leave {name} out."
            )


def group_names(groups: RowGroups | None, table: AnyTable, sensitive: Sequence[Name]) -> list[Name]:
    """Return the column of group ids in a list, which is empty where there is none.

    Raises
    ------
    TypeError, ValueError
        If X has no such column, it is sensitive, or X is lazy.
    """
    if groups is None:
        return []
    if isinstance(table, LazyTable):
        raise ValueError(
            f"groups={quoted(groups.column)} looks at the rows of each group, and X is a lazy "
            "table; read it into memory (collect it), or leave groups out."
        )
    [name] = resolve(groups.column, table.names, "groups")
    if name in sensitive:
        raise ValueError(
            f"groups names column {quoted(name)}, which is sensitive, and ids of groups are handed "
            "through as they are; give ids in a column of their own."
        )
    return [name]


def group_codes(table: AnyTable, name: Name) -> Array:
    """Return a whole number for each row, from 0, the same for the rows of one group.

    Raises
    ------
    TypeError, ValueError
        If an id is missing, or the column holds none.
    """
    values = table.values(name)
    if values.n_missing:
        raise ValueError(
            f"column {quoted(name)} of groups= has {values.n_missing} missing id(s) (NaN); give "
            "each of these rows the id of its group, or one of its own."
        )
    codes: Array = np.unique(ranks_of(values), return_inverse=True)[1].ravel()
    return codes


def check_sizes(codes: Array, groups: RowGroups) -> int:
    """Return the rows of the largest group, and refuse groups that are larger than guaranteed.

    Raises
    ------
    ValueError
        If a group has more rows than ``groups.most``; sizes are public, or tell nothing.
    """
    sizes = np.bincount(codes)
    largest = int(sizes.max(initial=0))
    if groups.most is not None and largest > groups.most:
        raise ValueError(
            f"column {quoted(groups.column)} has {int((sizes > groups.most).sum())} group(s) of "
            f"more than max_group={groups.most} rows, the largest of {largest}; leave rows of "
            f"them out, or fit with max_group={largest}."
        )
    return largest


def fitted_groups(
    groups: RowGroups, table: AnyTable, name: Name, secrets: Mapping[Name, Array]
) -> tuple[RowGroups, Array]:
    """Return groups with the name of their column and the rows of the largest, and rows' codes.

    Raises
    ------
    TypeError, ValueError
        If ids are missing, a group is too large, or has two secrets.
    """
    codes = group_codes(table, name)
    named = replace(groups, column=name)
    largest = check_sizes(codes, named)
    check_one_secret(codes, name, secrets)
    return (named if named.most else replace(named, most=checked_most(largest))), codes


def check_groups(groups: RowGroups | None, table: AnyTable) -> None:
    """Refuse rows that the guarantee for groups does not cover, before any is released.

    Raises
    ------
    TypeError, ValueError
        If ids are missing, or a group is too large.
    """
    if groups is not None:
        check_sizes(group_codes(table, groups.column), groups)


def refuse_parts(groups: RowGroups | None, why: str) -> None:
    """Refuse a table that is seen in parts only, where a group may lie in several of them."""
    if groups is not None:
        raise ValueError(
            f"{why}, and groups={quoted(groups.column)} counts the rows of each group in all of X "
            "before any is released; read X into memory, and call transform."
        )


def refuse_weights(groups: RowGroups | None, sample_weight: Any) -> None:
    """Refuse rows that stand for several: the groups of these are not known."""
    if groups is not None and sample_weight is not None:
        raise ValueError(
            f"sample_weight counts a row as several, and groups={quoted(groups.column)} counts "
            "the rows of each group as they stand; give each row as often as it counts, or leave "
            "one of the two out."
        )


def check_one_column(groups: RowGroups, sensitive: Sequence[Name]) -> None:
    """Refuse several sensitive columns of rows that are independent given one of them.

    Given one of them, the rows of a group still share the others, and so are dependent.

    Raises
    ------
    ValueError
        If there are several, and rows are taken as independent.
    """
    if groups.within == "independent" and len(sensitive) > 1:
        raise ValueError(
            f"groups={quoted(groups.column)} shares all of the sensitive columns "
            f"{listed(list(sensitive))}, so that rows are not independent given one of them; make "
            "one column of their combinations, or pass within_group='any'."
        )


def check_one_secret(codes: Array, name: Name, secrets: Mapping[Name, Array]) -> None:
    """Refuse groups whose rows have two secrets.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        Of `group_codes`.
    name : str or int
        The column of group ids.
    secrets : dict of ndarray of shape (n_rows,)
        The codes of each sensitive column.

    Raises
    ------
    ValueError
        Naming the sensitive column.
    """
    for sensitive, secret in secrets.items():
        of_group = np.zeros(int(codes.max()) + 1, dtype=secret.dtype)
        of_group[codes] = secret
        torn = np.unique(codes[of_group[codes] != secret])
        if len(torn):
            raise ValueError(
                f"{len(torn)} group(s) of column {quoted(name)} have rows of different "
                f"{quoted(sensitive)}, and the guarantee is about one secret that a group has in "
                "common; make the rows of each secret a group, make one secret of theirs (such as "
                "'mixed'), or leave groups out."
            )
