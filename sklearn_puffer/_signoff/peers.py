"""Peers of a release: other ways to hide a secret, attacked alike and on the same rows.

No promise of the audited release is theirs, so that what is found of them is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, counted, listed, quoted
from sklearn_puffer._noise import Mixing, system_entropy
from sklearn_puffer._signoff.attack import Attack, Field, attacks_on
from sklearn_puffer._signoff.survived import Survived
from sklearn_puffer._tables import Name, as_pandas, is_frame, is_lazy

REMOVER, RESPONSE = "correlation remover", "randomised response"
_MOST_LEVELS = 50  # of a word, that become columns; the others are one


@dataclass(frozen=True)
class Peer:
    """What another way to hide the secret came to.

    Attributes
    ----------
    name, about : str
        What it is called, and what it did, in a sentence.
    attacks : tuple of Attack
        By the same attackers on the same rows. What is allowed is what the audited release
        promised, and not they: there is no p-value, and no certified loss.
    survived : tuple of Survived
        What its rows were good for before, and are after.
    """

    name: str
    about: str
    attacks: tuple[Attack, ...]
    survived: tuple[Survived, ...]


@dataclass(frozen=True, eq=False)
class PeerRows:
    """Rows that a peer released, and the same rows in its columns as they were.

    Attributes
    ----------
    about : str
    before, after : DataFrame
        Of the same columns.
    origin : dict
        The column of the table that each one is made of.
    """

    about: str
    before: Any
    after: Any
    origin: Mapping[Name, Name]

    def features(self, name: Any) -> list[Name]:
        """Return the columns but those that are made of one of the table, and called otherwise."""
        return [own for own, source in self.origin.items() if own == name or source != name]


def peers_of(peers: Any, n_rows: int, columns: Sequence[Name]) -> dict[str, Any]:
    """Return the peers by name: None for those that are made here, or the released columns.

    >>> peers_of("randomised response", 9, ["age"])
    {'randomised response': None}
    """
    if peers is None:
        return {}
    if isinstance(peers, Mapping):
        return {str(name): _given(name, rows, n_rows, columns) for name, rows in peers.items()}
    named = list(peers) if isinstance(peers, list | tuple) else [peers]
    strange = [each for each in named if not isinstance(each, str) or each not in OWN]
    if strange:
        raise ValueError(
            f"peers holds {quoted(strange[0])}; name {listed(list(OWN))}, or give "
            "{name: DataFrame of the rows of table as the peer released them}."
        )
    for name in named:
        OWN[name].check()
    return dict.fromkeys(named)


def _given(name: Any, rows: Any, n_rows: int, columns: Sequence[Name]) -> Any:
    if rows is None and name in OWN:
        return OWN[name].check()
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
    rows: PeerRows,
    fields: Sequence[Field],
    attackers: Mapping[str, Any],
    survived: Callable[[PeerRows], Sequence[Survived]],
) -> Peer:
    """Return what attackers find out of the rows of a peer, and what these are good for."""
    found = [each for field in fields for each in attacks_on(field, rows.after, attackers, name)]
    attacks = tuple(_without_promise(each, f"peer: {name}") for each in found)
    return Peer(name, rows.about, attacks, tuple(survived(rows)))


def _without_promise(attack: Attack, view: str) -> Attack:
    none = math.nan
    return replace(attack, view=view, p=none, p_all=none, certified=none, findable=none)


# ----------------------------------------------------------------------------- randomised response


def respond(before: Any, codes: Sequence[Array], epsilon: float) -> PeerRows:
    r"""Return each value as it is, or another one of its column: k-ary randomised response.

    A value of a column with k values stays with the chance :math:`e^e/(e^e + k - 1)`, and every
    other one is as probable as the next, so that the column tells e at most, whoever asks. Epsilon
    is split evenly over the columns that vary: the row tells epsilon at most.
    """
    places = {name: _places(before[name]) for name in before.columns}
    varying = sum(len(values) > 1 for values, _ in places.values())
    share = epsilon / max(varying, 1)
    after = before.copy()
    for name, (values, at) in counted(list(places.items()), "columns"):
        if len(values) > 1:
            mixing = Mixing.of_counts(range(len(values)), [0] * len(values))
            mixing.sampler(mixing.theta_for(share), system_entropy()).release(at)
            after[name] = before[name].array.take(values[at])
    about = (
        f"each value is kept, or becomes another one of its column, at epsilon {share:.4g} a "
        f"column ({epsilon:.4g} over {varying}): whoever asks, a row tells no more than "
        f"{epsilon:.4g} in all. Which values a column has is taken from these rows."
    )
    return PeerRows(about, before, after, {name: name for name in before.columns})


def _places(column: Any) -> tuple[Array, Array]:
    """Return a row that has each value, missing ones too, and which value each row has."""
    codes, _ = column.factorize(use_na_sentinel=True)
    _, first, at = np.unique(codes, return_index=True, return_inverse=True)
    return first, at.astype(np.int64).ravel()


# ----------------------------------------------------------------------------- correlation remover


def remove_correlations(before: Any, codes: Sequence[Array], epsilon: float) -> PeerRows:
    """Return columns as numbers, without what is linear in the secrets, as fairlearn does it."""
    plain, origin = _as_numbers(before)
    secrets = np.column_stack([_indicators(own) for own in codes])
    both = np.column_stack([secrets, np.column_stack(list(plain.values()))])
    remover = _remover()(sensitive_feature_ids=list(range(secrets.shape[1])))
    found = np.asarray(remover.fit_transform(both), dtype=float)
    frame = type(before)
    after = dict(zip(plain, found.T, strict=True))
    about = (
        "fairlearn's CorrelationRemover, fitted to these very rows with their secrets, takes away "
        "what is linear in them; words are columns of 0 and 1, missing numbers the median, and "
        "nothing is random."
    )
    return PeerRows(about, frame(plain), frame(after), origin)


def _as_numbers(before: Any) -> tuple[dict[Any, Array], dict[Any, Name]]:
    plain: dict[Any, Array] = {}
    origin: dict[Any, Name] = {}
    for name in before.columns:
        for own, values in _numbers(name, before[name]):
            plain[own], origin[own] = values, name
    return plain, origin


def _numbers(name: Name, column: Any) -> list[tuple[Any, Array]]:
    if str(column.dtype) != "category":
        values = column.to_numpy(dtype=float)
        known = values[~np.isnan(values)]
        middle = float(np.median(known)) if len(known) else 0.0
        return [(str(name), np.where(np.isnan(values), middle, values))]
    codes = column.cat.codes.to_numpy()
    often = column.value_counts().index[:_MOST_LEVELS]
    levels = list(column.cat.categories)
    return [(f"{name} = {word}", (codes == levels.index(word)).astype(float)) for word in often]


def _indicators(codes: Array) -> Array:
    """Return columns of 0 and 1 for all values but the first."""
    return np.asarray(codes[:, None] == np.unique(codes)[None, 1:], dtype=float)


def _remover() -> Any:
    try:
        from fairlearn.preprocessing import CorrelationRemover
    except ImportError as fault:
        raise ModuleNotFoundError(
            f"peers={REMOVER!r} is fairlearn's, which is not installed; "
            'pip install "sklearn-puffer[peers]".'
        ) from fault
    return CorrelationRemover


@dataclass(frozen=True)
class _Own:
    """A peer that is made here: of rows, codes of their secrets and epsilon; and what it needs."""

    rows: Callable[[Any, Sequence[Array], float], PeerRows]
    check: Callable[[], Any] = lambda: None


def _needs_fairlearn() -> None:
    _remover()


OWN = {
    RESPONSE: _Own(respond),
    REMOVER: _Own(remove_correlations, _needs_fairlearn),
}


def given_rows(frame: Any, before: Any) -> PeerRows:
    """Return the rows that the caller gave, in the columns that are released."""
    about = "rows that were given; that they are a release of these rows was not checked."
    names = list(frame.columns)
    return PeerRows(about, before[names], frame, {name: name for name in names})
