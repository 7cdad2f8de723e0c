r"""Readers whom a promise does not cover, and peers of a release, which have none.

One sees several releases, another knows one more column. A third holds a channel, and the list of
the rows that it was fitted to: he sees how many rows came out as each cell, and knows how many each
cell had, but not which row is whose. Where one row always stays, and one came out, he knows that it
is that one. Peers are what other ways to hide the secrets made of the same rows, attacked alike: no
promise of the audited release is theirs, so that what is found of them is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from sklearn_puffer._base import Array, FloatArray, counted, listed, quoted, short_number, shown
from sklearn_puffer._losses import copies_law
from sklearn_puffer._noiser import HeldChannel
from sklearn_puffer._releases import jsonable
from sklearn_puffer._review.attack import Attack, Field, attacks_on, beside, boosted, encoder
from sklearn_puffer._review.exact_tests import Promise
from sklearn_puffer._review.survived import Survived, is_words
from sklearn_puffer._tables import Name, as_pandas, is_frame, is_lazy, resolve

MOST_KNOWN = 3
HOLDS, EXCLUDES = "holds the channel", "holds the channel and the list of fitted rows"
COMPUTED = "computed, not drawn"
_MOST_LINKED = 1_000
_NEAREST_BY, _ROUNDING = 1e-9, 1e-6
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
class Exclusion:
    """What such a reader finds out of a release of the fitted rows, in expectation over its draws.

    Attributes
    ----------
    sensitive : str or int
    n_rows : int
        Rows of `fit`.
    alone : float
        The share of them that are the only ones in their cell.
    pinned : float
        The share whose odds of some two secrets move by more than epsilon.
    move : float
        What 95 % of the rows are not moved beyond, in nats.
    attacks : tuple of Attack
        For each pair in each direction, without the list of rows and with it.
    """

    sensitive: Any
    n_rows: int
    alone: float
    pinned: float
    move: float
    attacks: tuple[Attack, ...]

    def sentence(self) -> str:
        """Return what it comes to."""
        far = "are settled" if math.isinf(self.move) else f"by {short_number(self.move)} or more"
        return (
            f"A reader who holds the channel and the list of the {self.n_rows:,} fitted rows pins "
            f"{self.pinned:.0%} of these, if they are released: the odds of "
            f"{shown(self.sensitive)} move by more than epsilon, and those of one in twenty {far}. "
            f"{self.alone:.0%} of them are alone in their cell. No promise covers him: that is why "
            "the channel is key material; bin the rows, or fit on others than you release. "
            "(Computed from the whole numbers of the channel, in expectation over its draws.)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, but for the attacks, which are among the readers."""
        return {
            "sensitive": jsonable(self.sensitive),
            "n_rows": self.n_rows,
            "alone": self.alone,
            "pinned": self.pinned,
            "move": self.move if math.isfinite(self.move) else "infinity",
        }


def exclusion(held: HeldChannel, promise: Promise) -> Exclusion:
    """Return what is found out of a release of the fitted rows.

    Notes
    -----
    The view of a row is the cell y that it came out as, and how many rows did. With M(x, y, c) the
    expected number of rows of x that come out as y when c rows do, the chance of the view (y, c)
    given the secret s is the sum of P(s|x) M(x, y, c) over x, divided by that over all views. All
    views are gone through, so that nothing is drawn or estimated but for rounding, and counts of
    next to no chance. He looks at each y by itself; at all
    together he would learn more.
    """
    found = list(_by_cell(held))
    views = np.concatenate(found, axis=1)
    views = views[:, views.any(axis=0)]
    alone = float((held.counts == 1).sum() / held.counts.sum())
    logs = _moves(views, held.pairs)
    pinned = float(views.sum(axis=0)[logs > promise.epsilon + _ROUNDING].sum() / views.sum())
    by_law = np.stack([each.sum(axis=1) for each in found], axis=1)
    attacks = [
        each
        for view, masses in ((HOLDS, by_law), (EXCLUDES, views))
        for each in _attacks(held, masses, promise, view)
    ]
    move = _quantile(logs, views.sum(axis=0), 0.95)
    return Exclusion(held.sensitive, int(held.counts.sum()), alone, pinned, move, tuple(attacks))


def _by_cell(held: HeldChannel) -> Iterator[FloatArray]:
    """Yield for each released cell the masses of its counts, shape (k, n_counts)."""
    columns = held.chances.tocsc()
    for y in range(columns.shape[1]):
        here = slice(columns.indptr[y], columns.indptr[y + 1])
        cells, chances = columns.indices[here], columns.data[here]
        there = held.counts[cells] > 0
        cells, chances = cells[there], chances[there]
        if len(cells):
            counts = held.counts[cells]
            yield copies_law(counts, chances, held.secrets[:, cells] / counts)[1]


# ---------------------------------------------------------------------------------------- figures


def _moves(masses: FloatArray, pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """Return by how much each view moves the odds of two secrets, those of which it moves most."""
    moves = np.zeros(masses.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(masses / masses.sum(axis=1, keepdims=True))
        for i, j in pairs:
            moves = np.fmax(moves, np.abs(logs[i] - logs[j]))  # of views that neither has, nothing
    return moves


def _quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, level * below[-1])])


def _attacks(
    held: HeldChannel, masses: FloatArray, promise: Promise, view: str
) -> Iterator[Attack]:
    sizes = held.secrets.sum(axis=1)
    laws = masses / masses.sum(axis=1, keepdims=True)
    for i, j in [*held.pairs, *((j, i) for i, j in held.pairs)]:
        about: dict[str, Any] = {"secret": held.labels[i], "against": held.labels[j]}
        about |= {"n": round(float(sizes[i])), "n_against": round(float(sizes[j]))}
        yield _attack(laws[i], laws[j], promise, view=view, sensitive=held.sensitive, **about)


def _attack(p: FloatArray, q: FloatArray, promise: Promise, **about: Any) -> Attack:
    """Return the figures of the two laws; their intervals are points, as nothing is estimated."""
    order = np.argsort(q / np.maximum(p + q, np.finfo(float).tiny))
    above, below = np.cumsum(p[order]), np.cumsum(q[order])
    auc = float((np.diff(below, prepend=0.0) * (above + np.r_[0.0, above[:-1]]) / 2.0).sum())
    advantage = float(np.maximum(p - q, 0.0).sum())
    beyond = p > math.exp(promise.epsilon) * q * (1.0 + _ROUNDING)
    event = beyond if p[beyond].sum() > _ROUNDING else p > q
    told, share = float(p[event].sum()), float(q[event].sum())
    odds = math.log(told / share) if share > 0.0 else (math.inf if told > 0.0 else 0.0)
    none = math.nan
    return Attack(
        attacker=COMPUTED,
        **about,
        auc=auc,
        auc_low=auc,
        auc_high=auc,
        auc_allowed=promise.auc(),
        advantage=advantage,
        advantage_low=advantage,
        advantage_high=advantage,
        advantage_allowed=promise.advantage(),
        log_odds=odds,
        low=odds,
        high=odds,
        allowed=promise.epsilon,
        certified=none,
        share=share,
        p=none,
        findable=none,
        p_all=none,
    )


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
