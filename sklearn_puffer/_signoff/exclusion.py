r"""What a reader finds out who holds a channel, and the list of the rows that it was fitted to.

He sees how many rows came out as each cell, and knows how many each cell had, but not which row is
whose. Where one row always stays, and one came out, he knows that it is that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, shown
from sklearn_puffer._losses import copies_law
from sklearn_puffer._noiser import HeldChannel
from sklearn_puffer._releases import jsonable, short_number
from sklearn_puffer._signoff.attack import Attack
from sklearn_puffer._signoff.exact_tests import Promise

HOLDS, EXCLUDES = "holds the channel", "holds the channel and the list of fitted rows"
COMPUTED = "computed, not drawn"
_ROUNDING = 1e-6


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
    counted = np.concatenate(found, axis=1)
    counted = counted[:, counted.any(axis=0)]
    alone = float((held.counts == 1).sum() / held.counts.sum())
    logs = _moves(counted, held.pairs)
    pinned = float(counted.sum(axis=0)[logs > promise.epsilon + _ROUNDING].sum() / counted.sum())
    by_law = np.stack([each.sum(axis=1) for each in found], axis=1)
    attacks = [
        each
        for view, masses in ((HOLDS, by_law), (EXCLUDES, counted))
        for each in _attacks(held, masses, promise, view)
    ]
    move = _quantile(logs, counted.sum(axis=0), 0.95)
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
