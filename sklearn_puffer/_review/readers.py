r"""Readers whom a promise does not cover, and peers of a release, which have none.

One sees several releases, another knows one more column. Peers are what other ways to hide the
secrets made of the same rows, attacked alike: no promise of the audited release is theirs, so that
what is found of them is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from sklearn_puffer._base import Array, counted, listed, quoted
from sklearn_puffer._review.attack import Attack, Field, attacks_on, beside, boosted, encoder
from sklearn_puffer._review.survived import Survived, is_words
from sklearn_puffer._tables import Name, as_pandas, is_frame, is_lazy, resolve

MOST_KNOWN = 3
_MOST_LINKED = 1_000
_NEAREST_BY = 1e-9
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
        found[name] = _most_frequent(columns) if is_words(columns[0]) else _mean(columns)
    return found


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

    ``columns`` has a frame for each of them: of groups, that of all their rows.
    The difference is what the release tells beyond what he knew. His columns are not those of the
    release, so he uses a classifier that takes any.
    """
    attackers = {"boosted": boosted(20)}
    found = []
    for name, known in counted(list(columns.items()), "readers"):
        both, was = after.copy(), {}
        for own in known.columns:
            was[own] = beside(both.columns, f"{own} as it was")
            both[was[own]] = known[own].array
        alone = known.rename(columns=was)
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
    if any(is_words(before[name]) != is_words(after[name]) for name in before.columns):
        return []  # codes of words
    model = encoder(before).fit(before)
    own, other = (_dense(model.transform(each.iloc[rows])) for each in (before, after))
    shares = [_own_share(each, own) for each in (own, other)]
    return [Survived(f"nearest to its own of {len(rows)}", "all", *shares)]


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if hasattr(block, "toarray") else block, dtype=float)


def _own_share(released: Array, original: Array) -> float:
    distances = pairwise_distances(released, original, metric="manhattan")
    least = distances.min(axis=1, keepdims=True) + _NEAREST_BY
    near = distances <= least
    return float((np.diag(near) / near.sum(axis=1)).mean())


@dataclass(frozen=True)
class Peer:
    """What another way to hide the secret came to.

    Attributes
    ----------
    name : str
    attacks : tuple of Attack
        By the same attackers on the same rows. What is allowed is what the audited release
        promised, and not they: there is no p-value, and no certified loss.
    survived : tuple of Survived
        What its rows were good for before, and are after.
    """

    name: str
    attacks: tuple[Attack, ...]
    survived: tuple[Survived, ...]


def peers_of(peers: Any, n_rows: int, columns: Sequence[Name]) -> dict[str, Any]:
    """Return by name those of the released columns that each peer has, as pandas DataFrames."""
    if peers is None:
        return {}
    if not isinstance(peers, Mapping):
        raise TypeError(
            f"peers is {quoted(peers)}; give {{name: DataFrame}}, the rows of table as another way "
            "released them (examples/peers_of_a_release.py makes some)."
        )
    return {str(name): _given(name, rows, n_rows, columns) for name, rows in peers.items()}


def _given(name: Any, rows: Any, n_rows: int, columns: Sequence[Name]) -> Any:
    if is_lazy(rows) or not is_frame(rows):
        raise TypeError(
            f"peers gives {quoted(name)} as {type(rows).__name__}; give a DataFrame in memory, of "
            "the rows of table as this peer released them."
        )
    if len(frame := as_pandas(rows)) != n_rows:
        raise ValueError(
            f"peers gives {quoted(name)} {len(frame)} rows beside {n_rows} of table; give every "
            "row of table as it was released, in the same order."
        )
    if not (found := [each for each in columns if each in frame.columns]):
        raise ValueError(
            f"peers gives {quoted(name)} without any of the released columns "
            f"{listed(list(columns), 5)}; give these, as the peer released them."
        )
    return frame[found]


def peer_of(
    name: str,
    rows: Any,
    fields: Sequence[Field],
    attackers: Mapping[str, Any],
    survived: Sequence[Survived],
) -> Peer:
    """Return what attackers find out of the rows of a peer, beside what these are good for."""
    none = math.nan
    found = [
        replace(each, p=none, p_all=none, certified=none, findable=none)
        for field in fields
        for each in attacks_on(field, rows, attackers, f"peer: {name}")
    ]
    return Peer(name, tuple(found), tuple(survived))
