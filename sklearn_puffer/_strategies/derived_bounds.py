r"""Bounds that follow from other losses: pure ones, or those of single rows.

*Pure losses.* A delta, or an order alpha, promises less than a pure guarantee, so that it may never
ask for more noise. Bounds on deltas and Renyi divergences that are read off a coupling know nothing
of an exact pure loss; `FromPure` does.

*Groups of rows that depend on each other in any way*: `dependent_rows`. They share their secret.
Let rows :math:`X_1, ..., X_g` have any joint distribution given the secret, under which each has
the distribution p under one secret and q under the other, and let each be released on its own
through the kernel k. By Hoelder's inequality, and by Jensen's,

.. math:: E_p \prod_r k(y_r | X_r) \le \prod_r \bigl( E_p k(y_r | X)^g \bigr)^{1/g}, \qquad
          \log E_q \prod_r k(y_r | X_r) \ge \sum_r E_q \log k(y_r | X),

so that the log ratio of the two is at most

.. math:: g \sup_y \Bigl[ \tfrac1g \log E_p k(y | X)^g - E_q \log k(y | X) \Bigr] .

*Where the supremum is.* Under Laplace noise, along one column and between two neighbouring values
of either distribution, the first term is the log of :math:`A e^{gy/\theta} + B e^{-gy/\theta}` over
g, which is convex, and the second one is linear; beyond all values their slopes cancel. So the
supremum is at a row of values. A column without an order has finitely many outputs.

*More noise, less loss.* In :math:`u = 1/\theta` the bracket at y is a log moment generating
function, over g, plus a linear term: convex, and 0 at u = 0. So where it is positive it grows with
u. A kernel of categories with a larger rho is that with the smaller one, followed by another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._noise import Mixing, without_mixings
from sklearn_puffer._numerics import ULP, log_sum
from sklearn_puffer._strategies.bound_types import Bound, Impossible
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean
from sklearn_puffer.priors import Discrete, PriorPair, numbered

_ROOM = 1e-13


@dataclass(frozen=True, eq=False)
class FromPure:
    """The losses under a notion with a delta or an order that follow from pure losses.

    >>> from sklearn_puffer.bounds import wasserstein
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0], [1.0]), Discrete([1], [1.0]))
    >>> pure = wasserstein([pair], Laplace(), Pufferfish(1.0))
    >>> FromPure(pure, Pufferfish(0.5, 0.1)).losses(1.0).round(6).tolist()
    [[0.287649, 0.287649]]
    """

    pure: Bound
    notion: Notion

    @property
    def guess(self) -> float:
        """That of the pure losses."""
        return self.pure.guess

    def losses(self, factor: float) -> FloatArray:
        """Return bounds of shape (n_pairs, 2)."""
        both = self.pure.losses(factor)
        return two_points(both, both[:, ::-1], self.notion)


def two_points(ahead: FloatArray, back: FloatArray, notion: Notion) -> FloatArray:
    r"""Return what a likelihood ratio within e^ahead and e^-back loses at most under a notion.

    Its mean is 1, and what is averaged is convex, so the worst distribution has those two values.
    With L and M the pure losses from p to q and back:

    .. math:: b = \frac{1 - e^{-M}}{e^L - e^{-M}}, \quad \delta \le b (e^L - e^\varepsilon)_+, \quad
              e^{(\alpha - 1) D} \le b e^{\alpha L} + (1 - b) e^{-\alpha M}

    >>> from sklearn_puffer.notions import Pufferfish
    >>> pure = np.array([1.0])
    >>> float(two_points(pure, pure, Pufferfish(0.5, 0.1)).round(6)[0])  # (e - e^.5)/(e + 1)
    0.287649
    """
    positive = (ahead > 0.0) & (back > 0.0)
    high, low = np.where(positive, ahead, 1.0), np.where(positive, back, 1.0)
    divergence = notion.divergence
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        whole = -np.expm1(-(high + low))
        if isinstance(divergence, HockeyStick):
            beyond = -np.expm1(np.minimum(divergence.epsilon - high, 0.0))
            losses = np.minimum(-np.expm1(-low) * beyond / whole * (1.0 + _ROOM), 1.0)
        else:
            assert isinstance(divergence, PowerMean)
            alpha = divergence.alpha
            losses = _log_mean(high, low, alpha) / (alpha - 1.0) * (1.0 + _ROOM)
            losses = np.where(np.isnan(losses), np.inf, np.minimum(np.maximum(losses, 0.0), high))
    return np.where(positive, losses, 0.0)


def _log_mean(high: FloatArray, low: FloatArray, alpha: float) -> FloatArray:
    log_whole = np.log(-np.expm1(-(high + low)))
    top = np.log(-np.expm1(-low)) - log_whole + (alpha - 1.0) * high
    rest = np.log(-np.expm1(-high)) - log_whole - alpha * low
    room = _ROOM * (1.0 + alpha * high) + 16.0 * ULP * np.abs(log_whole)
    return np.asarray(np.logaddexp(top, rest) + room)


MOST_TERMS = 1 << 22
"""Rows of values times atoms, over all priors: what one factor looks at in a tenth second."""


def dependent_rows(
    pairs: Sequence[PriorPair], noise: Noise, notion: Notion, n_rows: int
) -> DependentRows | Impossible:
    """Return the bound of one of ``n_rows`` rows that depend on each other, or why there is none.

    ``n_rows`` times its losses are those of all rows together.
    """
    distributions, numbers = numbered(pairs)
    what = "rows of a group that depend on each other in any way have a bound"
    apart = "use within_group='independent'"
    if not all(isinstance(prior, Discrete) for prior in distributions):
        return Impossible(f"{what} under discrete priors alone; {apart}.", len(pairs))
    if not notion.is_pure or not without_mixings(noise).is_exponential:
        return Impossible(
            f"{what} under Laplace noise and a pure guarantee alone; {apart}.", len(pairs)
        )
    # the outputs of each column that have to be looked at, ascending
    columns = np.concatenate([prior.rows[prior.counts > 0] for prior in distributions]).T
    mixings = noise.mixings or (None,) * len(columns)
    axes = [
        np.unique(column) if mixing is None else np.array(mixing.values)
        for column, mixing in zip(columns, mixings, strict=True)
    ]
    cells = math.prod(map(len, axes))
    if cells * sum(len(prior.rows) for prior in distributions) > MOST_TERMS:
        return Impossible(
            f"{what} up to {MOST_TERMS} terms, and these have more, of {cells} cells; use "
            "within_group='independent', or fewer bins (n_bins), columns or secrets.",
            len(pairs),
        )
    return DependentRows(distributions, numbers, axes, noise, n_rows)


class DependentRows:
    """The bound, as a function of the noise level.

    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> bound = dependent_rows([pair], Laplace(1.0), Pufferfish(1.0), n_rows=2)
    >>> (2 * bound.losses(1.0)).round(6).tolist()  # rows lose nothing, but 1 - x tells x
    [[0.433781, 0.433781]]
    """

    guess = 1.0

    def __init__(
        self,
        distributions: Sequence[Discrete],
        numbers: IntArray,
        axes: Sequence[FloatArray],
        noise: Noise,
        n_rows: int,
    ) -> None:
        self._noise, self._n_rows, self._numbers, self._axes = noise, n_rows, numbers, axes
        self._distributions = [
            (p.rows[p.counts > 0], np.maximum(p.probabilities[p.counts > 0], 1e-300))
            for p in distributions
        ]

    def losses(self, factor: float) -> FloatArray:
        """Return upper ends for all pairs, forward and backward, shape (n_pairs, 2)."""
        pairs = self._numbers.tolist()
        if factor == 0.0:  # 0 of distributions with one and the same value
            values = [rows for rows, _ in self._distributions]
            same = [len(values[p]) == 1 and np.array_equal(values[p], values[q]) for p, q in pairs]
            return np.where(np.array(same)[:, None], 0.0, np.full((len(same), 2), math.inf))
        scales = self._noise.scaled(factor).axis_scales(len(self._axes)).tolist()
        mixings = self._noise.mixings or (None,) * len(self._axes)
        # log k of each column, a row for each output: of noise without its constant
        kernels = [_kernel(*of) for of in zip(self._axes, scales, mixings, strict=True)]
        means = [self._means(kernels, rows, masses) for rows, masses in self._distributions]
        both = [[_largest(means[p], means[q]), _largest(means[q], means[p])] for p, q in pairs]
        return np.array(both).reshape(-1, 2)

    def _means(
        self, kernels: Sequence[FloatArray], rows: FloatArray, masses: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """Return both terms for each row of outputs, and how far each may be off."""
        logs = np.zeros((1, len(rows)))
        for axis, kernel, column in zip(self._axes, kernels, rows.T, strict=True):
            likelihoods = kernel[:, np.searchsorted(axis, column)]
            logs = (logs[:, None, :] + likelihoods[None, :, :]).reshape(-1, len(rows))
        g = self._n_rows
        upper = log_sum(g * logs + np.log(masses), axis=1) / g
        # n terms of d summands each, none larger than the largest
        largest = 1.0 + float(-logs.min()) - float(np.log(masses).min())
        error = 4.0 * ULP * (len(rows) + len(kernels) + 16) * largest
        return upper, logs @ masses, error


def _largest(p: tuple[FloatArray, FloatArray, float], q: tuple[FloatArray, ...]) -> float:
    return max(float((p[0] - q[1]).max()) + p[2] + float(q[2]), 0.0)


def _kernel(axis: FloatArray, scale: float, mixing: Mixing | None) -> FloatArray:
    if mixing is None:
        distances: FloatArray = np.abs(axis[:, None] - axis[None, :])
        return -distances / scale
    kept = math.exp(-scale)
    drawn = -math.expm1(-scale) * mixing.probabilities
    return np.asarray(np.log(drawn[:, None] + kept * np.eye(len(axis))))
