"""A channel for a classifier that is fitted anew: the refits are further adversaries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sklearn_puffer._base import quoted
from sklearn_puffer._losses import repeated_losses
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_cells import MOST_MASSES, CountedCells
from sklearn_puffer._noiser.channel_problem import Asked, asked_of
from sklearn_puffer._noiser.classifier_priors import refitted_laws
from sklearn_puffer._noiser.drawn_priors import N_DRAWS
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import SetLoss


def refits_asked(read: TableRead, counted: CountedCells) -> list[Asked]:
    """Return what the prior's classifier knows when it is fitted anew, refit by refit.

    Raises
    ------
    ValueError
        If their laws are more than memory is taken for, before anything is fitted.
    """
    n_laws = N_DRAWS * sum(len(secret.labels) for secret in read.secrets)
    if len(counted.cells) * n_laws > MOST_MASSES:
        raise ValueError(
            f"adversaries={quoted(read.settings.confidence)} asks for {N_DRAWS} refits of the "
            f"prior's classifier, and their {n_laws} laws over {len(counted.cells):,} distinct "
            "rows are more than a channel is found for in memory; use bins (n_bins), fewer columns "
            "or rows, or leave it out."
        )
    return [
        each
        for k, laws in enumerate(refitted_laws(read, N_DRAWS))
        for each in asked_of(read, counted, laws.adversary(read), k)
    ]


def loss_over_refits(settings: Settings, refits: Sequence[Asked], rows: IntegerRows) -> SetLoss:
    """Return the loss that a share of the refits does not exceed, an estimate."""
    assert settings.confidence is not None
    level, worst = settings.confidence.level, np.zeros(N_DRAWS)
    for each in refits:
        family = each.family
        losses = repeated_losses(
            rows, family.masses, family.cells, each.pairs, settings.notion, settings.releases
        )
        worst[each.adversary] = max(worst[each.adversary], float(losses[..., 1].max()))
    found = float(np.sort(worst)[math.ceil(level * (N_DRAWS - 1))])
    return SetLoss(level, found, False, True, 1.0, ())
