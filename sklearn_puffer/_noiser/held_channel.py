"""A fitted channel as those see it who hold it, and the rows that it was fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._noiser.channel import as_matrix
from sklearn_puffer._tables import Name

_WHOLE = 1e-6


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
    channel = getattr(noiser, "_channel", None)
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
