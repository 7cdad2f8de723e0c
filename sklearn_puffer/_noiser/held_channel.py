"""What an audit asks of a fitted channel, as those see it who hold it, or of a fitted swap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noiser.channel_release import as_matrix
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import found_within, read_rows
from sklearn_puffer._noiser.swap_release import Counted, Solved
from sklearn_puffer._noiser.swap_result import largest_gap
from sklearn_puffer._swaps import ROW
from sklearn_puffer._tables import Name, Table

_WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class HeldSwap:
    """A swap of some rows, of which no flow is drawn.

    Attributes
    ----------
    strata : float
        How far odds in some stratum of these rows are from those in all, in nats.
    slack : ndarray of shape (n_tested,)
        How far drawn flows, whole numbers, may be from mean ones, in rows of one secret among all
        that are released in the cell of this one: the part of one of them.
    within : Within or None
        What a fresh model finds of the first secret in these rows within the cells of `fit`.
    """

    strata: float
    slack: FloatArray
    within: Any


def held_swap(noiser: Any, table: Table, given: Any, tested: Array) -> HeldSwap | None:
    """Return what there is to say of the swap of the tested rows of a table; None of no swap."""
    if noiser._fitted.swap is None:
        return None
    settings = Settings.of(noiser.get_params(deep=False))
    settings = settings if given is None else replace(settings, sensitive=None)
    read = read_rows(settings, table, given, None)
    strata, cells = noiser._fitted.swap.places(read.columns)
    strata, cells = strata[tested], cells[tested]
    found, slack = noiser._fitted.swap.solved(strata, cells), np.zeros(len(tested))
    for each in found:
        for cell, flows in zip(each.cells, each.flows.T, strict=True):
            rows = (strata == each.stratum) & (cells == cell)
            slack[rows] = (
                max(_rounded(flows, laws.shares) for laws in each.problem.laws) / rows.sum()
            )
    return HeldSwap(
        strata=_from_strata(noiser._fitted.swap.counted, found),
        slack=slack,
        within=found_within(read, noiser._fitted.swap),
    )


def _from_strata(counted: Sequence[Counted], found: Sequence[Solved]) -> float:
    worst = 0.0
    for own in counted if len(found) > 1 else ():
        shares = own.counts / own.counts.sum(axis=0)
        masses = np.array([shares[:, each.cells] @ each.problem.sizes for each in found]).T
        worst = max(worst, largest_gap(masses, masses.sum(axis=1), own.pairs))
    return worst


def _rounded(flows: IntArray, shares: FloatArray) -> float:
    """Return by how many rows of a secret whole flows into a cell may differ from mean ones."""
    parts = (flows % ROW) / ROW
    ups = round(float(parts.sum()))
    ranked = np.sort(np.where(parts > 0.0, shares, np.nan), axis=1)  # those that are whole last
    some = ranked[:, : int((parts > 0.0).sum())]
    means = np.where(parts > 0.0, shares, 0.0) @ parts
    most, least = (some[:, ::way][:, :ups].sum(axis=1) for way in (-1, 1))
    return float(max((most - means).max(), (means - least).max(), 0.0))


@dataclass(frozen=True, eq=False)
class HeldChannel:
    """The channel, and what the adversary of the first sensitive column knows of fitted rows.

    Attributes
    ----------
    sensitive : str or int
    labels : list
        The secrets.
    pairs : list of (int, int)
        Which of them are protected from being told from which, without order.
    chances : scipy.sparse.csr_array of shape (n, n)
        W(y|x), from the whole numbers that are drawn from.
    counts : ndarray of int64 of shape (n,)
        How many fitted rows each cell had.
    secrets : ndarray of shape (k, n)
        How many of them have each secret: counted, or expected by a classifier.
    """

    sensitive: Name
    labels: list[Any]
    pairs: list[tuple[int, int]]
    chances: Any
    counts: IntArray
    secrets: FloatArray


def held_channel(noiser: Any) -> HeldChannel | None:
    """Return the channel of a fitted noiser.

    None if it has none, if it was read from a form, which holds no laws, or if these are no counts
    of rows (posteriors of a classifier count, and sum to 1 a row): nobody has a list then.
    """
    channel = noiser._fitted.channel
    priors = getattr(noiser, "priors_", None)
    if channel is None or channel.family is None or not priors:
        return None
    sensitive, of_secrets = next(iter(priors.items()))
    masses, cells = channel.family.masses, channel.family.cells
    if len(masses) != len(of_secrets):
        return None
    secrets = np.zeros((len(masses), len(channel.cells)))
    secrets[:, slice(None) if cells is None else cells] = masses.astype(float)
    secrets *= noiser.certificate_.n_rows / secrets.sum()
    counts = np.rint(secrets.sum(axis=0))
    if not np.allclose(secrets.sum(axis=0), counts, rtol=0.0, atol=_WHOLE) or not counts.any():
        return None
    labels = list(of_secrets)
    pairs = [(labels.index(a), labels.index(b)) for a, b in noiser.secret_pairs_[sensitive]]
    chances = as_matrix(channel.rows)
    return HeldChannel(sensitive, labels, pairs, chances, counts.astype(np.int64), secrets)
