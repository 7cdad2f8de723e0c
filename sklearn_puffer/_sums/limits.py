"""What a pair of secrets loses at least, whatever the other users report.

With M_P(t) = sum_x P(x) e^(t x), and R the law of the others, multiply both released densities by
e^(t y) and add up over all y: they are M_P(t) and M_Q(t) times the same number, which is finite for
abs(t) < 1/theta. So M_P(t) / M_Q(t) is a weighted mean of their ratio, and the loss is at least its
logarithm; by continuity also at abs(t) = 1/theta, where it is what is lost far out. The more others
there are, the closer the loss comes to the largest of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_puffer._base import UNIT, FloatArray
from sklearn_puffer._sums.users import UserPair
from sklearn_puffer.priors import Discrete, Prior

#: Far out, to either side.
FAR = (-1.0, 1.0)
_EVERYWHERE = tuple(np.linspace(-1.0, 1.0, 257).tolist())


def least_loss(pair: UserPair, theta: float, tilts: Sequence[float] = _EVERYWHERE) -> FloatArray:
    """Return lower ends of the loss of a pair, both directions, for all other users.

    Parameters
    ----------
    pair : UserPair
        Of discrete laws.
    theta : float
        Scale of the noise, in the unit of the reports.
    tilts : sequence of float
        The t that are tried, in units of 1/theta; none beyond 1.
    """
    with np.errstate(over="ignore"):
        reached = np.array(tilts) / theta
    (least_p, most_p), (least_q, most_q) = (_log_means(law, reached) for law in (pair.p, pair.q))
    ends = np.array([(least_p - most_q).max(), (least_q - most_p).max()])
    found: FloatArray = np.maximum(np.nextafter(ends, -np.inf), 0.0)
    return np.where(np.isfinite(ends), found, 0.0)


def _log_means(law: Prior, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both ends of log M(t)."""
    assert isinstance(law, Discrete)
    kept = law.counts > 0
    with np.errstate(under="ignore", over="ignore", divide="ignore", invalid="ignore"):
        exponents = tilts[:, None] * law.atoms[kept]
        tops = exponents.max(axis=1)
        weights = np.exp(exponents - tops[:, None])
        masses = law.probabilities[kept]
        low, high = (np.log(weights @ m) + tops for m in (masses, np.maximum(masses, 1e-300)))
    # rounding: of the masses, of arguments and exponentials, and of as many terms as there are
    room = UNIT * (kept.sum() + 16.0 + 8.0 * np.abs(exponents).max(axis=1))
    return low - room, high + room
