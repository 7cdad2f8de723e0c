"""Peers of a release: what other ways to hide the secrets made of the same rows, attacked alike.

No promise of the audited release is theirs, so that what is found of them is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn_puffer._base import listed, quoted
from sklearn_puffer._signoff.attack import Attack, Field, attacks_on
from sklearn_puffer._signoff.survived import Survived
from sklearn_puffer._tables import Name, as_pandas, is_frame, is_lazy


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
