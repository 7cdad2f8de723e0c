r"""Bounds for groups of rows that depend on each other in any way.

The rows share their secret. Let rows :math:`X_1, ..., X_g` have any joint distribution given the
secret, under which each has the distribution p under one secret and q under the other, and let each
be released on its own through the kernel k. By Hoelder's inequality, and by Jensen's,

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

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._noise import Mixing, without_mixings
from sklearn_puffer._numerics import ULP, log_sum
from sklearn_puffer._strategies.bound_types import Impossible
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete, PriorPair, numbered

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
    axes = _axes(distributions, noise.mixings)
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
        self._distributions = [(p.rows[p.counts > 0], _positive(p)) for p in distributions]

    def losses(self, factor: float) -> FloatArray:
        """Return upper ends for all pairs, forward and backward, shape (n_pairs, 2)."""
        if factor == 0.0:
            return self._without_noise()
        kernels = self._kernels(self._noise.scaled(factor))
        means = [self._means(kernels, rows, masses) for rows, masses in self._distributions]
        pairs = self._numbers.tolist()
        both = [[_largest(means[p], means[q]), _largest(means[q], means[p])] for p, q in pairs]
        return np.array(both).reshape(-1, 2)

    def _without_noise(self) -> FloatArray:
        """Return 0 of distributions with one and the same value, and infinity of all others."""
        values, pairs = [rows for rows, _ in self._distributions], self._numbers.tolist()
        same = [len(values[p]) == 1 and np.array_equal(values[p], values[q]) for p, q in pairs]
        return np.where(np.array(same)[:, None], 0.0, np.full((len(same), 2), math.inf))

    def _kernels(self, noise: Noise) -> list[FloatArray]:
        """Return log k of each column, a row for each output: of noise without its constant."""
        mixings = noise.mixings or (None,) * len(self._axes)
        scales = noise.axis_scales(len(self._axes))
        return [_kernel(*of) for of in zip(self._axes, scales.tolist(), mixings, strict=True)]

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


def _positive(distribution: Discrete) -> FloatArray:
    return np.maximum(distribution.probabilities[distribution.counts > 0], 1e-300)


def _axes(distributions: Sequence[Discrete], mixings: Sequence[Mixing | None]) -> list[FloatArray]:
    """Return the outputs of each column that have to be looked at, ascending."""
    columns = np.concatenate([prior.rows[prior.counts > 0] for prior in distributions]).T
    return [
        np.unique(column) if mixing is None else np.array(mixing.values)
        for column, mixing in zip(columns, mixings or (None,) * len(columns), strict=True)
    ]


def _kernel(axis: FloatArray, scale: float, mixing: Mixing | None) -> FloatArray:
    if mixing is None:
        distances: FloatArray = np.abs(axis[:, None] - axis[None, :])
        return -distances / scale
    kept = math.exp(-scale)
    drawn = -math.expm1(-scale) * mixing.probabilities
    return np.asarray(np.log(drawn[:, None] + kept * np.eye(len(axis))))
