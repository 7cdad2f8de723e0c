"""What a channel tells, recomputed from the whole numbers that are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._base import counted, quoted
from sklearn_puffer._losses import channel_floor, repeated_losses
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_problem import Asked
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import ChannelLoss


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


def proof_of(settings: Settings, asked: Sequence[Asked], rows: IntegerRows) -> Proof:
    """Return what the channel tells every adversary."""
    assert settings.channel is not None
    notion, n_draws = settings.notion, settings.releases
    worst: dict[Any, ChannelLoss] = {}
    for each in counted(asked, "laws held against the channel"):
        family = each.family
        losses = repeated_losses(rows, family.masses, family.cells, each.pairs, notion, n_draws)
        for pair, ends in zip(each.pairs.tolist(), losses, strict=True):
            for (s, t), (lower, upper) in zip((pair, pair[::-1]), ends.tolist(), strict=True):
                found = _named(each, s, t, notion.budget, lower, upper)
                key = each.adversary, each.sensitive, found.secret, found.against, each.known
                if key not in worst or worst[key].upper < upper:
                    worst[key] = found
    floor = None if settings.channel.floor is None else channel_floor(rows)
    return Proof(tuple(worst.values()), floor)


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
