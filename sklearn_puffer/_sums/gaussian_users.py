r"""Laplace scales for the presence of Gaussian users in a sum: those of 003, Cor. 1, and the exact.

A sum over Gaussian users is Gaussian with and without one of them, so that its loss is known. For
users of other laws the central limit theorem proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri_exp

from sklearn_puffer._base import FloatArray, refuse_masked
from sklearn_puffer._sums.gaussian_changes import Change, largest_scale
from sklearn_puffer._sums.users import User, check_users
from sklearn_puffer.calibration import Calibration
from sklearn_puffer.notions import Pufferfish, check_pufferfish
from sklearn_puffer.priors import GaussianMixture

_SLACK = 1e-12


@dataclass(frozen=True)
class GaussianUsers:
    """Laplace scales for the presence of Gaussian users in a sum.

    Parameters
    ----------
    corollary_1a : float
        003, Corollary 1(a); infinite under a pure promise, unless no user has a spread.
    equation_11 : float or None
        The same for identical users by 003, Eq. (11), computed apart; None for other users, and
        where ``others`` are given.
    exact : Calibration
        The smallest scale; ``worst_pair`` is the user (or class) that asks for it.

    Examples
    --------
    Among a hundred users whose reports vary a crowd hides each of them up to this delta; among
    twenty it does not, and the published formula asks for noise in either case.

    >>> from sklearn_puffer.closed_forms import gaussian_users
    >>> from sklearn_puffer.notions import Pufferfish
    >>> for count in (50, 10):
    ...     found = gaussian_users(
    ...         [1.0, 5.0], [1.0, 1.0], Pufferfish(1.0, 0.01), counts=[count, count]
    ...     )
    ...     print(round(found.exact.scale, 3), round(found.corollary_1a, 3))
    0.0 5.129
    4.582 5.292
    """

    corollary_1a: float
    equation_11: float | None
    exact: Calibration


def gaussian_users(
    means: ArrayLike,
    sds: ArrayLike,
    notion: Pufferfish,
    *,
    counts: ArrayLike | None = None,
    others: ArrayLike | None = None,
) -> GaussianUsers:
    r"""Return Laplace scales that hide whether a Gaussian user takes part in a sum.

    .. math:: \theta = \frac{1}{\varepsilon} \max_k \left(|\mu_k| + \Delta\sigma_k\,
              Q^{-1}(\delta/2)\right), \qquad
              \Delta\sigma_k = \sqrt{\textstyle\sum_l \sigma_l^2} -
              \sqrt{\textstyle\sum_{l \ne k} \sigma_l^2}

    Parameters
    ----------
    means, sds : array-like of shape (k,)
        Of what each user reports; a standard deviation of 0 is a known value.
    notion : Pufferfish
        What is to be promised, with its budget.
    counts : array-like of shape (k,), optional
        How many users there are of each class; one by default.
    others : array-like of shape (k,), optional
        Standard deviation of what all other users add up to, for a user of each class; by default
        everybody else is present. Who may be absent is not counted on.

    Returns
    -------
    GaussianUsers
        The published scales, and the smallest one.

    Raises
    ------
    TypeError, ValueError
        If shapes disagree, a number is not finite, a deviation is negative, or a count is not a
        positive whole number.

    Notes
    -----
    *Formal guarantees.* ``exact`` is the smallest scale for the two Gaussian laws of the sum, with
    and without the user. Under a pure promise, unless epsilon is small against the spread of the
    user's value, it is the root of |mu_k|/theta + sigma_k^2/(2 theta^2) = epsilon, whoever the
    others are; elsewhere the two standard deviations are the floats nearest to the roots of the
    sums of variances, and the promise is for these laws.

    The formula is sound: what the monotone plan moves further than epsilon theta has a mass of at
    most delta. A point mass, where nobody else reports anything random, is given a width s of 1e-20
    of the user's values, which changes no density by more than a factor e^(2 s/theta), as
    E[e^(u|Z|)] <= e^(2u) for u <= 1 and E[e^(-u|Z|)] >= e^-u; the budget is lowered by that.

    The Corollary does not hold for other users, few or many, by the central limit theorem: for one
    user who reports 1 with a chance of 1e-4, epsilon 1 and delta 1e-5, it gives scale 0.0443,
    which has a delta of 9.98e-5. The exact loss of a `PufferfishSum` is for them.

    References
    ----------
    003, Corollary 1(a) and Eq. (11).

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import gaussian_users
    >>> from sklearn_puffer.notions import Pufferfish
    >>> scales = gaussian_users([1.0], [1.0], Pufferfish(1.0, 0.3), counts=[10])
    >>> round(scales.corollary_1a, 6), round(scales.equation_11, 6), scales.exact.scale
    (1.16819, 1.16819, 0.0)
    """
    check_pufferfish(notion)
    centres, spreads, sizes = _check_gaussians(means, sds, counts)
    rest = leave_one_out(spreads, sizes) if others is None else _check_others(others, spreads)
    together = np.hypot(rest, spreads)
    gaps = spreads / np.where(together > 0.0, together + rest, 1.0) * spreads
    published = _corollary_1a(np.abs(centres), gaps, notion)
    identical = len(set(zip(centres.tolist(), spreads.tolist(), strict=True))) == 1
    identical = identical and others is None
    eq11 = _equation_11(centres[0], spreads[0], int(sizes.sum()), notion) if identical else None
    changes = [Change(*row) for row in np.stack([np.abs(centres), spreads, rest], axis=1).tolist()]
    return GaussianUsers(published, eq11, largest_scale(changes, notion))


def gaussian_classes(users: Sequence[User]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, standard deviations and counts of users who are Gaussian, and refuse others."""
    columns = []
    for k, user in enumerate(check_users(users)):
        law = user.law
        if not (isinstance(law, GaussianMixture) and _is_gaussian(law)):
            raise ValueError(
                f"users must be Gaussian for 003, Corollary 1, got {law!r} for users[{k}]; the "
                "central limit theorem is no proof of it: round the reports to a step, and use "
                "Discrete laws."
            )
        columns.append([float(law.means[0]), float(law.scales[0]), float(user.count)])
    means, sds, counts = np.array(columns).T
    return means, sds, counts


def _corollary_1a(sizes: FloatArray, gaps: FloatArray, notion: Pufferfish) -> float:
    """Return the largest (|mu_k| + gap_k tau) / epsilon, rounded up."""
    if notion.delta == 0.0:
        return math.inf if gaps.any() else float(sizes.max()) / notion.epsilon * (1.0 + _SLACK)
    tau = -float(ndtri_exp(math.log(notion.delta) - math.log(2.0)))
    return float((sizes + gaps * tau).max()) / notion.epsilon * (1.0 + _SLACK)


def _equation_11(mean: float, sd: float, n_users: int, notion: Pufferfish) -> float:
    """Return 003, Eq. (11), rounded up; sqrt(K) - sqrt(K-1) without cancellation."""
    gap = sd / (math.sqrt(n_users) + math.sqrt(n_users - 1))
    return _corollary_1a(np.array([abs(mean)]), np.array([gap]), notion)


def _is_gaussian(law: GaussianMixture) -> bool:
    """Return whether all components are the same."""
    return (
        law.n_axes == 1 and len(set(zip(law.means.tolist(), law.scales.tolist(), strict=True))) == 1
    )


def leave_one_out(spreads: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the deviation of the sum of all but one of each class, without subtracting.

    Of a class of which nobody is counted, that is the sum of all.
    """
    unit = float(spreads.max()) or 1.0  # so that no square leaves the floats
    squares = (spreads / unit) ** 2
    totals = np.concatenate([[0.0], squares * counts, [0.0]])
    before, after = np.cumsum(totals)[:-2], np.cumsum(totals[::-1])[::-1][2:]
    found: FloatArray = unit * np.sqrt(before + after + squares * np.maximum(counts - 1.0, 0.0))
    return found


def _check_others(others: ArrayLike, spreads: FloatArray) -> FloatArray:
    rest = _floats(others, "others")
    if rest.shape != spreads.shape or not (np.isfinite(rest).all() and rest.min() >= 0.0):
        raise ValueError(
            f"others must be one standard deviation for each of means, got {others!r}; leave it "
            "out where everybody is present."
        )
    return rest


def _check_gaussians(
    means: ArrayLike, sds: ArrayLike, counts: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    centres, spreads = _floats(means, "means"), _floats(sds, "sds")
    sizes = np.ones(len(centres)) if counts is None else _floats(counts, "counts")
    if centres.ndim != 1 or not centres.size or not (centres.shape == spreads.shape == sizes.shape):
        raise ValueError(
            "means, sds and counts must be lists of one length, got shapes "
            f"{centres.shape}, {spreads.shape} and {sizes.shape}."
        )
    if not (np.isfinite(centres).all() and np.isfinite(spreads).all() and spreads.min() >= 0.0):
        raise ValueError("means and sds must be finite, and sds not negative; drop other users.")
    if not (np.isfinite(sizes).all() and (sizes == np.floor(sizes)).all() and sizes.min() >= 1.0):
        raise ValueError(f"counts must be whole numbers of at least 1, got {sizes.tolist()}.")
    return centres, spreads, sizes


def _floats(values: ArrayLike, name: str) -> FloatArray:
    refuse_masked(values, name)
    try:
        return np.atleast_1d(np.asarray(values, dtype=float))
    except (OverflowError, TypeError, ValueError) as fault:
        raise TypeError(f"{name} must hold finite numbers, got {values!r}.") from fault
