"""What a channel tells, recomputed from the whole numbers that are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._base import counted, quoted
from sklearn_puffer._losses import Readers, channel_floor, moved_by_copies, repeated_losses
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_cells import CountedCells
from sklearn_puffer._noiser.channel_problem import Asked
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import ChannelLoss
from sklearn_puffer.notions import Notion

_FURTHER, _MOST_TOLD = 1.1, 0.01  # times epsilon, and the share of the rows that may be beyond it


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
    floor = None if settings.channel.floor is None else channel_floor(rows)
    return Proof(told_by(rows, asked, settings.notion, settings.releases), floor)


def told_by(
    rows: IntegerRows, asked: Sequence[Asked], notion: Notion, n_draws: int
) -> tuple[ChannelLoss, ...]:
    """Return the loss of each pair both ways; of who knows columns, that at the worst values."""
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
    return tuple(worst.values())


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


def check_copies(
    read: TableRead, cells: CountedCells, asked: Sequence[Asked], rows: IntegerRows, epsilon: float
) -> None:
    """Refuse a channel whose released values tell too much to a reader who counts their copies.

    He has the list of rows, without their owners, and the channel: see `_losses.channel_losses`.
    Those who know columns besides count the copies among rows with these values, all of them
    together.

    Raises
    ------
    ValueError
        If more than 1 % of the released rows are expected to be told beyond 1.1 epsilon.
    """
    secrets = {secret.name: k for k, secret in enumerate(read.secrets)}
    told: dict[Any, float] = {}
    for each in counted(asked, "laws held against the counts of copies"):
        k, key = secrets[each.sensitive], (each.adversary, each.sensitive, each.known)
        own = [read.secrets[k].find(label) for label in each.labels]
        there = slice(None) if each.family.cells is None else each.family.cells
        with_secret = cells.counts[k][own][:, there].sum(axis=1)
        laws = each.family.over(rows.n_cells)
        readers = Readers(laws, with_secret, each.pairs, each.family.cells)
        moved = moved_by_copies(rows, cells.rows, readers, _FURTHER * epsilon)
        told[key] = told.get(key, 0.0) + moved
    share = max(told.values()) / float(cells.rows.sum())
    if share > _MOST_TOLD:
        raise ValueError(
            f'noise="optimal" needs cells of many rows, and {read.rows.total:,} rows lie in '
            f"{rows.n_cells:,}: who has the list of rows, and counts the copies of a released "
            f"value, would shift his odds by more than {_FURTHER:g} epsilon at {share:.0%} of the "
            f'released rows ({_MOST_TOLD:.0%} is allowed); use noise="swap", or cells of more '
            "rows (n_bins, fewer columns, more rows)."
        )
