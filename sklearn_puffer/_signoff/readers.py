"""Readers whom a promise does not cover: who see several releases, or know one more column.

Who holds a channel is in `exclusion`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from sklearn_puffer._base import Array, counted, quoted
from sklearn_puffer._signoff.attack import Attack, Field, attacks_on, beside
from sklearn_puffer._signoff.attackers import boosted, encoder
from sklearn_puffer._signoff.survived import Survived
from sklearn_puffer._tables import Name, resolve

MOST_KNOWN = 3
_MOST_LINKED = 1_000
_ROUNDING = 1e-9
_KEY = b"blake2b:" + bytes(32)  # no secret: what is drawn with it is compared, and dropped


def known_columns(knows: Any, names: Sequence[Name], sensitive: Sequence[Name]) -> list[Name]:
    """Return the columns that a reader may know besides, each by itself."""
    if isinstance(knows, list | tuple) and not knows:
        return []
    found = resolve(knows, names, "knows")
    hidden = [name for name in found if name in sensitive]
    if hidden:
        raise ValueError(
            f"knows names the sensitive column {quoted(hidden[0])}, which attackers are to find "
            "out; name others."
        )
    return found


def who_average(
    fields: Sequence[Field], releases: Sequence[Any], attackers: Mapping[str, Any]
) -> list[Attack]:
    """Return what one who averages several fresh releases of the same rows finds out."""
    seen = averaged(releases)
    view = f"average of {len(releases)} releases"
    return [each for field in fields for each in attacks_on(field, seen, attackers, view)]


def averaged(frames: Sequence[Any]) -> Any:
    """Return the means of numbers, and the most frequent of words."""
    found = frames[0].copy()
    for name in found.columns:
        columns = [frame[name] for frame in frames]
        found[name] = _most_frequent(columns) if _words(columns[0]) else _mean(columns)
    return found


def _words(column: Any) -> bool:
    return str(column.dtype) == "category"


def _mean(columns: Sequence[Any]) -> Array:
    found: Array = np.mean([np.asarray(each, dtype=float) for each in columns], axis=0)
    return found


def _most_frequent(columns: Sequence[Any]) -> Any:
    codes = np.stack([np.asarray(each.cat.codes) for each in columns])
    often = np.stack([(codes == own).sum(axis=0) for own in codes])
    chosen = np.take_along_axis(codes, often.argmax(axis=0)[None], axis=0)[0]
    first = columns[0]
    return type(first.array).from_codes(chosen, dtype=first.dtype)


def who_know(
    fields: Sequence[Field],
    after: Any,
    columns: Mapping[Name, Any],
) -> list[Attack]:
    """Return what one who knows the true values of a column finds out, without and with a release.

    The difference is what the release tells beyond what he knew. His columns are not those of the
    release, so he uses a classifier that takes any.
    """
    attackers = {"boosted": boosted(20)}
    found = []
    for name, column in counted(list(columns.items()), "readers"):
        alone = column.to_frame(beside(after.columns, f"{name} as it was"))
        both = after.copy()
        both[alone.columns[0]] = column.array
        for field in fields:
            found += attacks_on(field, alone, attackers, f"knows {name}, no release")
            found += attacks_on(field, both, attackers, f"knows {name}, and the release")
    return found


def same_when_keyed(noiser: Any, part: Any) -> bool | None:
    """Return whether two keyed releases are the same; None where there are none."""
    ids = np.arange(len(part))
    try:
        first, second = (
            noiser.transform(part, row_id=ids, key=_KEY, on_drift="ignore") for _ in range(2)
        )
    except (TypeError, ValueError):  # a seed, or noise of a kind that is not drawn by key
        return None
    return bool(first.equals(second))


def linked(before: Any, after: Any, rows: Array) -> list[Survived]:
    """Return which share of rows is nearest to the row that it came from, ties as fractions."""
    rows = rows[:_MOST_LINKED]
    if any(_words(before[name]) != _words(after[name]) for name in before.columns):
        return []  # codes of words
    model = encoder(before).fit(before)
    own, other = (_dense(model.transform(each.iloc[rows])) for each in (before, after))
    shares = [_own_share(each, own) for each in (own, other)]
    return [Survived(f"nearest to its own of {len(rows)}", "all", *shares)]


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if hasattr(block, "toarray") else block, dtype=float)


def _own_share(released: Array, original: Array) -> float:
    distances = pairwise_distances(released, original, metric="manhattan")
    least = distances.min(axis=1, keepdims=True) + _ROUNDING
    near = distances <= least
    return float((np.diag(near) / near.sum(axis=1)).mean())
