"""What is done, and said, about values that `fit` has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sklearn_puffer._base import plain, quoted
from sklearn_puffer._tables.values import Kind, Name

NEAREST = 'pass unknown="nearest" (to set_params after fit, as --unknown to puffer release)'
"""The way out of what `fit` has not seen that asks for no other fit."""

_MOST_SHOWN = 100


@dataclass(frozen=True)
class Other:
    """The value of a categorical column that stands for all that `fit` has not seen."""

    value: Any


Unknown = Literal["error", "nearest"] | Other


def rule_of(unknown: Any, name: Name, kind: Kind) -> Unknown:
    """Return what an estimator's ``unknown`` means for a column.

    Raises
    ------
    ValueError
        If it names a value for a column of numbers or booleans.

    Examples
    --------
    >>> rule_of({"job": "other"}, "job", "category"), rule_of({"job": "other"}, "age", "integer")
    (Other(value='other'), 'error')
    """
    if not isinstance(unknown, Mapping):
        return "nearest" if unknown == "nearest" else "error"
    if name not in unknown:
        return "error"
    if kind == "category":
        return Other(plain(unknown[name]))
    rule = unknown[name]
    if not (isinstance(rule, str) and rule in ("error", "nearest")):
        raise ValueError(
            f'unknown[{name!r}] must be "error" or "nearest", got {quoted(rule)}: column {name!r} '
            f"is {kind}, and a value for the unseen is for categories."
        )
    return "nearest" if rule == "nearest" else "error"


def with_other(
    name: Name, levels: tuple[Any, ...], other: Other, *, listed: bool
) -> tuple[Any, ...]:
    """Return the levels of a column with the one that stands for the unseen, added at the end.

    Raises
    ------
    ValueError
        If the level is none of those listed in ``categories``, or of another kind than the others.
    """
    value = other.value
    if value in levels:
        return levels
    if listed or value in ("error", "nearest"):
        why = f"categories[{name!r}] does not list" if listed else "no row of fit has"
        raise ValueError(
            f"unknown[{name!r}] is {quoted(value)}, which {why}; name the category that new values "
            'become, such as "other", and list it in categories= where that is given.'
        )
    if any(isinstance(level, str) != isinstance(value, str) for level in levels):
        raise ValueError(
            f"unknown[{name!r}] is {quoted(value)}, and the values of column {name!r} are such as "
            f"{quoted(levels[0])}; name a category of their kind."
        )
    return (*levels, value)


def unseen_message(
    name: Name, values: Sequence[Any], counts: Sequence[int], *, numeric: bool
) -> str:
    """Return the error about values that were not seen in `fit`, all of them with their counts."""
    it = "it" if len(values) == 1 else "them"
    ways = (
        f"move {it} to the nearest known value; or fit again with n_bins to bin the column"
        if numeric
        else f"turn {it} into a known category; or fit again with a list of all in "
        "categories={column: [...]}, with one for new ones in unknown={column: 'other'}"
    )
    ways = f"{NEAREST} to {ways}, or on data that has {it}"
    if len(values) == 1:
        return (
            f"column {name!r} contains {quoted(values[0])}, which was not seen in fit; {ways} "
            f"({counts[0]} row(s) hold it)."
        )
    order = sorted(range(len(values)), key=lambda k: -counts[k])
    shown = ", ".join(f"{quoted(values[k])} ({counts[k]})" for k in order[:_MOST_SHOWN])
    more = f" and {len(values) - _MOST_SHOWN} more" if len(values) > _MOST_SHOWN else ""
    return (
        f"column {name!r} contains {len(values)} values that were not seen in fit (rows of each in "
        f"brackets): {shown}{more}; {ways}."
    )
