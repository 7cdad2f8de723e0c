"""What a channel tells, recomputed from the whole numbers that are drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import ULP, Array, quoted
from sklearn_puffer._losses import channel_losses
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_problem import Asked
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import ChannelLoss
from sklearn_puffer.notions import Notion, Pufferfish


@dataclass(frozen=True, eq=False)
class Proof:
    """The loss of each pair both ways, for all releases together.

    Attributes
    ----------
    pairs : tuple of ChannelLoss
        For adversaries who know columns besides, those of the worst of their values.
    floor : float or None
        The most that one more draw tells, where a floor was asked for.
    """

    pairs: tuple[ChannelLoss, ...]
    floor: float | None

    @property
    def loss(self) -> float:
        """The worst of them."""
        return max(pair.upper for pair in self.pairs)


def proof_of(settings: Settings, asked: Sequence[Asked], rows: IntegerRows, block: Array) -> Proof:
    """Return what the channel tells every adversary."""
    assert settings.channel is not None
    floor = None if settings.channel.floor is None else floor_of(rows, block)
    further = 0.0 if floor is None else (settings.releases - 1) * floor
    one = _notion_of_one(settings.notion, further)
    worst: dict[Any, ChannelLoss] = {}
    for each in asked:
        losses = channel_losses(rows, each.family.masses, each.family.cells, each.pairs, one)
        for pair, ends in zip(each.pairs.tolist(), losses, strict=True):
            for (s, t), (lower, upper) in zip((pair, pair[::-1]), ends.tolist(), strict=True):
                if one.delta == 0.0 and further:
                    upper = math.nextafter(upper + further, math.inf)
                found = _named(each, s, t, settings.notion.budget, lower, upper)
                key = each.adversary, each.sensitive, found.secret, found.against, each.known
                if key not in worst or worst[key].upper < upper:
                    worst[key] = found
    return Proof(tuple(worst.values()), floor)


def _notion_of_one(notion: Notion, further: float) -> Pufferfish:
    """Return what a first draw is held against, where further ones tell so much.

    Under a delta they take from epsilon, and leave delta as it is; pure losses just add up.
    """
    left = notion.epsilon - further
    return Pufferfish(left if left > 0.0 else 1e-300, notion.delta)


def _named(asked: Asked, s: int, t: int, bound: float, lower: float, upper: float) -> ChannelLoss:
    at = ", ".join(
        f"{name} = {quoted(value)}" for name, value in zip(asked.known, asked.values, strict=True)
    )
    return ChannelLoss(
        asked.sensitive,
        asked.labels[s],
        asked.labels[t],
        asked.adversary,
        bound,
        lower,
        upper,
        "recomputed",
        at,
    )


def floor_of(rows: IntegerRows, block: Array) -> float:
    r"""Return the most that one more draw tells, whatever was drawn before.

    .. math:: \max_{x, x', y} \log \frac{W(y|x)}{W(y|x')}

    over the cells of a block, infinite where one of them is never released as y, or one is released
    outside its block.
    """
    block = np.asarray(block)
    owners = np.repeat(np.arange(rows.n_cells), np.diff(rows.starts))
    if (block[owners] != block[rows.targets]).any():
        return math.inf
    n_released = np.bincount(rows.targets, minlength=rows.n_cells)
    n_members = np.bincount(block)[block]
    least = np.full(rows.n_cells, np.iinfo(np.int64).max)
    most = np.zeros(rows.n_cells, dtype=np.int64)
    np.minimum.at(least, rows.targets, rows.shares)
    np.maximum.at(most, rows.targets, rows.shares)
    some = n_released > 0
    if (n_released[some] < n_members[some]).any():
        return math.inf
    ratio = float(np.log(most[some] / least[some]).max())
    return ratio + 8.0 * ULP * (1.0 + ratio)
