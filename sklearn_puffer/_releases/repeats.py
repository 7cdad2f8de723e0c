r"""The same rows released several times: the scales of each release, and the rule for a ledger.

Independent Laplace or Gaussian releases of X at scales theta_1, ..., theta_k are a post-processing
of one release at the scale s where precisions add up (proofs in `_releases.composition`),

.. math:: \frac1s = \sum_r \frac1{\theta_r} \text{ (Laplace)}, \qquad
          \frac1{s^2} = \sum_r \frac1{\theta_r^2} \text{ (Gaussian)},

for any law of X, prior, strategy and notion, column by column. So k releases at k s, or at
sqrt(k) s, lose at most what one release at s does, and that one is calibrated and certified. Other
noise is released once.

Values are rounded to the grid of the noise that is drawn, once, and each release is drawn on that
grid: a rounding of the continuous releases of the rounded value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from sklearn_puffer._base import FloatArray, check_count, quoted
from sklearn_puffer._noise import Mixing, Unchanged
from sklearn_puffer._releases.composition import Axis, Precisions, Refused, Rule, scale_for_releases
from sklearn_puffer._releases.mixed_composition import MixedPrecisions, mixing_scale
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion

MOST_RELEASES = 10**9
"""Largest number of releases that can be planned: the sampler's error is paid for each."""


def adds_up(noise: Noise) -> bool:
    """Return whether it is known how releases of the same rows under the noise add up.

    >>> from sklearn_puffer.noise import Cauchy, Laplace
    >>> adds_up(Laplace()), adds_up(Cauchy())
    (True, False)
    """
    return noise.precision_power is not None


def check_releases(releases: Any) -> int:
    """Return the number of releases as an integer from 1 to `MOST_RELEASES`."""
    if check_count(releases, "releases") > MOST_RELEASES:
        raise ValueError(
            f"releases must be at most {MOST_RELEASES:,}, got {quoted(releases)}; the error of the "
            "sampler is paid for each of them."
        )
    return int(releases)


Mixings = Sequence[Mixing | None]


def drawn_scales(
    noise: Noise, scales: FloatArray, releases: int, mixings: Mixings = ()
) -> FloatArray:
    r"""Return the scales that each of several releases is drawn at, shape of ``scales``.

    Parameters
    ----------
    noise : Noise
        A family whose releases add up, unless there is one release only.
    scales : ndarray of shape (n_columns,)
        At which all releases together are as one.
    releases : int
    mixings : sequence of Mixing or None, optional
        One a column where some are unordered; their scales are -log(1 - rho).

    Notes
    -----
    *Formal guarantees.* :math:`k/\theta \le 1/s`, for Gaussian noise
    :math:`k/\theta^2 \le 1/s^2`, holds exactly between the floats.

    Examples
    --------
    >>> from sklearn_puffer.noise import Gaussian, Laplace
    >>> drawn_scales(Laplace(), np.array([2.0]), 3).tolist()
    [6.0]
    >>> drawn_scales(Gaussian(), np.array([1.0]), 4).tolist()
    [2.0]
    """
    if releases == 1:
        return scales
    power = cast(int, noise.precision_power)
    return np.array(
        [
            mixing_scale(mixing.least, scale, releases)
            if mixing is not None
            else scale_for_releases(scale, releases, power)
            for scale, mixing in zip(scales.tolist(), mixings or [None] * len(scales), strict=True)
        ]
    )


def factor_below(noise: Noise, notion: Notion, releases: int) -> float:
    """Return by how much one release has more noise if it is to tell no more than all of them.

    All Gaussian releases tell as much as their mean, and Laplace releases that all fall on one
    point y have the likelihood ratios of one release that falls there: their pure losses are equal,
    but for the rounding of the scales. Otherwise it is one of the releases.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import RenyiPufferfish
    >>> round(factor_below(Laplace(), RenyiPufferfish(1.0, alpha=2.0), releases=3), 9)
    3.0
    """
    if releases == 1:
        return 1.0
    same = noise.is_normal or notion.is_pure
    return (1.0 if same else releases) * (1.0 + 2.0**-50)


def composition_rule(
    noise: Noise, scales: Mapping[Axis, float], draws: int, mixings: Mixings = ()
) -> Rule:
    """Return how releases of the same rows add up, where a promise holds.

    Parameters
    ----------
    noise : Noise
        The family, of each release.
    scales : dict of axis to float
        Scale of each column at which all releases together are as one; 0 where a column is released
        unchanged.
    draws : int
        Number of releases, at larger scales, whose sampler's error the budget has room for.
    mixings : sequence of Mixing or None, optional
        One a column where some are unordered; their scales are -log(1 - rho).

    Notes
    -----
    *Formal guarantees.* Any history that the rule allows keeps the promise; the planned releases at
    the scales they are drawn at are one of them. No column may be released more often than
    ``draws`` times, however large the scales: each release has the error of the sampler once more.

    Examples
    --------
    >>> from sklearn_puffer.noise import Gaussian
    >>> composition_rule(Gaussian(), {"age": 2.0}, draws=9).left({"age": {4.0: 1}})
    {'age': 0.1875}
    """
    if not any(scales.values()):
        return Precisions.of_scales(1, scales)
    if noise.precision_power is not None:
        pairs = zip(scales, mixings or [None] * len(scales), strict=True)
        drawn = [(a, m) for a, m in pairs if m is not None and not isinstance(m, Unchanged)]
        least = {axis: mixing.least for axis, mixing in drawn}
        numbers = {axis: scale for axis, scale in scales.items() if axis not in least}
        precisions = Precisions.of_scales(noise.precision_power, numbers, draws)
        mixed = {axis: scales[axis] for axis in least}
        return MixedPrecisions(precisions, least, mixed) if least else precisions
    return Refused(
        f"How releases of the same rows under {type(noise).__name__} noise add up is not known: "
        "each column may be released once; fit with noise='laplace' for more.",
        scales,
    )
