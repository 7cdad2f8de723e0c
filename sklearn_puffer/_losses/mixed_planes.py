r"""The Renyi divergence of two Gaussian mixtures of two columns, bounded from above.

Without noise, or with Gaussian noise, which widens the covariances. Let g = alpha log p -
(alpha - 1) log q, so that the divergence is :math:`\log(\int e^g) / (\alpha - 1)`.

*Within a rectangle* that is cut into boxes of half widths r_1, r_2, g is expanded around the centre
c of each. For every point c + t of a box there is one between with

.. math:: g(c + t) = g(c) + \nabla g(c) \cdot t + \tfrac12 t' H t
          \le g(c) + \nabla g(c) \cdot t + \tfrac12 \sum_i r_i^2 (H_{ii})_+ + r_1 r_2 |H_{12}|,

and the mean of :math:`e^{u t}` over [-r, r] is sinh(u r)/(u r). With chances pi of the components
given y, and their scores :math:`s_k = S_k^{-1} (m_k - y)`,

.. math:: \nabla^2 \log p = -E_\pi[S_k^{-1}] + \mathrm{Cov}_\pi(s_k) .

On the diagonal a covariance is at least 0 and at most a quarter of the squared range of the scores
(Popoviciu), off it at most a quarter of the product of both ranges. Where one component is all but
alone, and the others have the chance o, it is at most o instead of a quarter, as a variance is at
most the mean square around the score of that component; and the mean precision is its own one, but
for o times the differences from it. Scores are linear: their range R over a box is at most that at
the centre plus the differences of the precisions times the half widths. The log of a chance has the
slope of its score less the mean one, so o grows by at most :math:`e^{R \cdot r}`.

Boxes are small where that matters: those whose bounds are farthest from e^g at their centres are
cut in two, along the axis that adds more, until each adds too little.

*Beyond the rectangle,* with weights a and b, :math:`p^\alpha \le \sum_i a_i p_i^\alpha` (a power is
convex), and q is at least any :math:`b_j q_j`. So, whichever j is chosen for each i,

.. math:: p^\alpha q^{1 - \alpha} \le \sum_i a_i \, b_j^{1 - \alpha} \, p_i^\alpha q_j^{1 - \alpha},

each summand of which is a number times a Gaussian density, of precision
:math:`\alpha A_i^{-1} - (\alpha - 1) B_j^{-1}` where that is positive definite.
"""

# Rounding. Entries of a precision of 2 x 2 are a quotient of an entry and a determinant, which is
# off by a share of 8 u / (1 - rho^2), and 1 / (1 - rho^2) is at most the condition number of the
# matrix in units of its deviations: e is 64 u times that. So a quadratic form is off by e times the
# sum of the sizes of its terms, a score likewise, and a log determinant by e. These are added to g
# and to slopes. What is left are sums of positive terms, exponentials and logs of arguments below
# 1e4, all within `_ROOM`. Exponents below -700 underflow: they count as that, area included.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._numerics import UNIT, log_sum
from sklearn_puffer.notions import Notion, PowerMean
from sklearn_puffer.priors import GaussianMixture

_ROOM = 1e-10
_BOXES = 48  # along each axis, at first
_MOST = 60_000  # boxes in all
_EXCESS = 3e-7  # of the integral, which a box may add too much
_REACH = 8.5  # deviations around the means of the summands beyond the rectangle
_WORST = 1e6  # condition numbers up to which there is a bound
_LOWEST = -700.0
_HUGE = 1e100


class _Density(NamedTuple):
    """A mixture's components."""

    log_weights: FloatArray
    means: FloatArray  # (k, 2)
    precisions: FloatArray  # (k, 2, 2)
    log_tops: FloatArray
    error: FloatArray


class _Bent(NamedTuple):
    """The log density at centres of boxes (n,), its slopes (n, 2), and their errors.

    Over a box its second derivatives along the axes are at most ``most_bent`` and at least minus
    ``least_bent`` (n, 2), and the mixed one at most ``across`` in size (n,).
    """

    value: FloatArray
    error: FloatArray
    slope: FloatArray
    slope_error: FloatArray
    most_bent: FloatArray
    least_bent: FloatArray
    across: FloatArray


def plane_divergences(
    p: GaussianMixture, q: GaussianMixture, notion: Notion, added: FloatArray
) -> FloatArray:
    """Return upper bounds on the Renyi divergences p -> q and q -> p, shape (2,).

    Parameters
    ----------
    p, q : GaussianMixture
        Of two columns.
    notion : Notion
        With an alpha; where events may be left out, none is.
    added : ndarray of shape (2,)
        Variances of Gaussian noise along the columns; 0 without.

    Returns
    -------
    ndarray of shape (2,)
        Infinite where there is no bound: matrices near singular, or tails that a pair of components
        does not have.

    Examples
    --------
    >>> from sklearn_puffer.notions import RenyiPufferfish
    >>> p, q = (GaussianMixture([1.0], [[m, 0.0]], [np.eye(2)]) for m in (0.0, 0.5))
    >>> bounds = plane_divergences(p, q, RenyiPufferfish(1.0, 2.0), np.zeros(2))
    >>> bool((bounds >= 0.25).all()), bool((bounds <= 0.252).all())
    (True, True)
    """
    mean = notion.divergence
    densities = _density(p, added), _density(q, added)
    if not isinstance(mean, PowerMean) or p.n_axes != 2 or None in densities:
        return np.full(2, np.inf)
    one, two = densities
    assert one is not None
    assert two is not None
    return np.array([_one_way(one, two, mean.alpha), _one_way(two, one, mean.alpha)])


def _density(prior: GaussianMixture, added: FloatArray) -> _Density | None:
    if prior.n_axes != 2:
        return None
    covariances = prior.covariances + np.diag(added)
    sizes = np.diagonal(covariances, axis1=1, axis2=2)
    if not (sizes.max() < _HUGE and sizes.min() > 1.0 / _HUGE):  # products of two are floats
        return None
    units = np.sqrt(sizes)
    condition = np.linalg.cond(covariances / units[:, :, None] / units[:, None, :])
    if not condition.max() < _WORST:
        return None
    a, b, d = covariances[:, 0, 0], covariances[:, 0, 1], covariances[:, 1, 1]
    determinants = a * d - b * b
    precisions = np.moveaxis(np.array([[d, -b], [-b, a]]) / determinants, 2, 0)
    tops = -np.log(2.0 * np.pi) - 0.5 * np.log(determinants)
    return _Density(np.log(prior.weights), prior.rows, precisions, tops, 64.0 * UNIT * condition)


def _one_way(p: _Density, q: _Density, alpha: float) -> float:
    pieces = _summands(p, q, alpha)
    if pieces is None:
        return np.inf
    logs, means, deviations = (np.array(part) for part in zip(*pieces, strict=True))
    low = (means - _REACH * deviations).min(axis=0)
    high = (means + _REACH * deviations).max(axis=0)
    inwards = (1.0 - 1e-3) / deviations  # more than means and deviations are off
    beyond = ndtr((low - means) * inwards) + ndtr((means - high) * inwards)
    with np.errstate(divide="ignore", under="ignore"):
        tail = float(log_sum(logs + np.log(beyond.sum(axis=1) * 1.001 + 1e-300)))
    total = float(np.logaddexp(_log_inside(p, q, alpha, low, high), tail))
    return max(total + _ROOM * (1.0 + abs(total)), 0.0) / (alpha - 1.0) * (1.0 + _ROOM)


class _Summand(NamedTuple):
    """The log of an integral, rounded up, and the mean and deviations of its Gaussian."""

    log: float
    mean: FloatArray
    deviations: FloatArray


def _summands(p: _Density, q: _Density, alpha: float) -> list[_Summand] | None:
    """Return for each component of p the least summand, or None where one has none."""
    least = []
    for i in range(len(p.means)):
        found = [_summand(p, q, i, j, alpha) for j in range(len(q.means))]
        possible = [each for each in found if each is not None]
        if not possible:
            return None
        least.append(min(possible, key=lambda each: each.log))
    return least


def _summand(p: _Density, q: _Density, i: int, j: int, alpha: float) -> _Summand | None:
    c, a, b = alpha - 1.0, p.precisions[i], q.precisions[j]
    joint = alpha * a - c * b
    error = float(p.error[i] + q.error[j]) * (alpha * np.abs(a) + c * np.abs(b)).sum()
    least = float(np.linalg.eigvalsh(joint)[0])
    if not least > 1e7 * error:
        return None
    # around p's mean: -alpha t'at/2 + c (t - v)'b(t - v)/2, v the way to q's mean
    v = q.means[j] - p.means[i]
    moved = -c * np.linalg.solve(joint, b @ v)
    peak = 0.5 * c * float(v @ b @ v) + 0.5 * float(moved @ joint @ moved)
    far = np.abs(v) + np.abs(p.means[i]) + np.abs(q.means[j])
    size = c * float(far @ np.abs(b) @ np.abs(v)) * (1.0 + c * float(np.abs(b).sum()) / least)
    log = alpha * p.log_tops[i] - c * q.log_tops[j] + peak + np.log(2.0 * np.pi)
    log += p.log_weights[i] - c * q.log_weights[j] - 0.5 * np.linalg.slogdet(joint)[1]
    log += 8.0 * error / least * (1.0 + size) + 1e-9 * (1.0 + abs(peak))
    return _Summand(float(log), p.means[i] + moved, np.sqrt(np.diagonal(np.linalg.inv(joint))))


class _Boxes(NamedTuple):
    """Boxes in a plane, and the log of what the integral over each is at most, and is about."""

    centres: FloatArray  # (n, 2)
    half: FloatArray  # (n, 2)
    bounds: FloatArray
    values: FloatArray
    worse: FloatArray  # (n, 2), 1 for the axis along which less is known

    def halves(self, some: Array) -> tuple[FloatArray, FloatArray]:
        """Return the centres and half widths of both halves of some."""
        centres, half, worse = self.centres[some], self.half[some], self.worse[some]
        ends = [centres - 0.5 * half * worse, centres + 0.5 * half * worse]
        return np.concatenate(ends), np.tile(half * (1.0 - 0.5 * worse), (2, 1))


def _log_inside(p: _Density, q: _Density, alpha: float, low: FloatArray, high: FloatArray) -> float:
    """Return an upper bound on the log of the integral of e^g over a rectangle.

    Boxes whose bounds are farthest from what the integral is about are cut in two, so that narrow
    components get small ones.
    """
    room = 64.0 * UNIT * np.maximum(np.abs(low), np.abs(high))  # more than centres are off

    def bounded(centres: FloatArray, half: FloatArray) -> _Boxes:
        return _Boxes(centres, half, *_log_boxes(p, q, alpha, centres, half * (1.0 + 1e-9) + room))

    half, steps = 0.5 * (high - low) / _BOXES, 2.0 * np.arange(_BOXES) + 1.0
    centres = low + half * np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    boxes = bounded(centres, np.broadcast_to(half, centres.shape))
    while (coarse := _coarse(boxes)).any():
        cut = bounded(*boxes.halves(coarse))
        boxes = _Boxes(*map(np.concatenate, zip((e[~coarse] for e in boxes), cut, strict=True)))
    return float(log_sum(boxes.bounds)) + _ROOM


def _coarse(boxes: _Boxes) -> Array:
    """Return which boxes add too much to what is not known, and may still be cut."""
    with np.errstate(under="ignore", divide="ignore"):
        excess = boxes.bounds + np.log(-np.expm1(np.minimum(boxes.values - boxes.bounds, 0.0)))
    too_much = max(float(log_sum(boxes.values)), 0.0) + np.log(_EXCESS)
    largest = np.sort(excess)[::-1][max(_MOST - len(excess), 0) :]
    return np.asarray(excess > max(too_much, largest.max(initial=-np.inf)))


def _log_boxes(
    p: _Density, q: _Density, alpha: float, centres: FloatArray, half: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the last three fields of boxes."""
    one, two, c = _bent(p, centres, half), _bent(q, centres, half), alpha - 1.0
    g = alpha * (one.value + one.error) - c * (two.value - two.error)
    slope = np.abs(alpha * one.slope - c * two.slope)
    slope = slope + alpha * one.slope_error + c * two.slope_error
    bend = alpha * one.most_bent + c * two.least_bent
    across = alpha * one.across + c * two.across
    along = _log_sinhc(slope * half) + 0.5 * np.maximum(bend, 0.0) * half * half
    rise = along.sum(axis=1) + half.prod(axis=1) * across
    area = np.log(4.0 * half.prod(axis=1))
    values = alpha * one.value - c * two.value + area
    return np.maximum(g + rise, _LOWEST) + area, values, np.eye(2)[along.argmax(axis=1)]


def _log_sinhc(x: FloatArray) -> FloatArray:
    """Return log(sinh x / x), rounded up by less than 1e-12 (1 + x)."""
    safe = np.maximum(x, 1e-3)
    exact = safe + np.log(-np.expm1(-2.0 * safe) / (2.0 * safe))
    # x^2/6 is above it
    return np.asarray(np.minimum(np.where(x > 1e-3, exact, x * x / 6.0), x) + 1e-12 * (1.0 + x))


def _bent(density: _Density, points: FloatArray, half: FloatArray) -> _Bent:
    """Return the log density around points, each the centre of a box."""
    apart = points - density.means[:, None]  # (k, n, 2)
    scores = -np.einsum("kij,knj->kni", density.precisions, apart)
    sizes = np.einsum("kij,knj->kni", np.abs(density.precisions), np.abs(apart) + np.abs(points))
    forms = -0.5 * (scores * apart).sum(axis=2)
    error = density.error[:, None] * (1.0 + (sizes * (np.abs(apart) + np.abs(points))).sum(axis=2))
    logs = (density.log_weights + density.log_tops)[:, None] - forms
    value = log_sum(logs, axis=0)
    with np.errstate(under="ignore"):
        chances = np.exp(logs - value)
    slope = (chances[:, :, None] * scores).sum(axis=0)
    wrong = density.error[:, None, None] * sizes
    ranges = np.ptp(scores, axis=0) + 2.0 * wrong.max(axis=0)
    top = logs.argmax(axis=0)
    rest = log_sum(np.where(top == np.arange(len(logs))[:, None], -np.inf, logs), axis=0) - value
    # chances are off by a share of e^(2 error) - 1, those of all but one count by its score
    most = error.max(axis=0)
    small = (most < 0.5)[:, None]
    with np.errstate(under="ignore"):
        off = np.where(small, (4.0 * most * np.exp(rest))[:, None], 2.0)
        mean = 3.0 * (chances[:, :, None] * wrong).sum(axis=0)
    slope_error = np.where(small, mean, wrong.max(axis=0)) + off * ranges
    ranges = ranges + 2.0 * np.einsum("kij,nj->kni", _apart(density.precisions), half).max(axis=0)
    # the log chance of a component has the slope of its score less the mean one
    rest = rest + (ranges * half).sum(axis=1) + 4.0 * most
    bends = _bends(density.precisions, top, rest, ranges)
    return _Bent(value, most + _ROOM, slope, slope_error, *bends)


def _bends(
    precisions: FloatArray, top: IntArray, log_rest: FloatArray, ranges: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the last three fields of `_Bent`.

    Parameters
    ----------
    precisions : ndarray of shape (k, 2, 2)
    top : ndarray of int of shape (n,)
        The component that is likeliest at the centre of each box.
    log_rest : ndarray of shape (n,)
        The log of the chance that all others have together at most, anywhere in the box.
    ranges : ndarray of shape (n, 2)
        Of scores.
    """
    with np.errstate(under="ignore"):
        rest = np.exp(np.minimum(log_rest, 0.0))
    own, share = precisions[top], rest[:, None, None]
    room = 1e-6 * np.abs(precisions).max(axis=0)  # more than entries are off
    most = own + share * (precisions.max(axis=0) - own) + room
    least = own + share * (precisions.min(axis=0) - own) - room
    both = np.minimum(rest, 0.25)
    low, high = (np.diagonal(each, axis1=1, axis2=2) for each in (least, most))
    mixed = np.maximum(np.abs(most[:, 0, 1]), np.abs(least[:, 0, 1]))
    return both[:, None] * np.square(ranges) - low, high, mixed + both * ranges.prod(axis=1)


def _apart(precisions: FloatArray) -> FloatArray:
    """Return how far precisions are from the first, and a share of their size for rounding."""
    return np.asarray(np.abs(precisions - precisions[0]) + 1e-6 * np.abs(precisions))
