r"""One pass of projected gradient steps over records, and why each step is a contraction.

.. math:: W_t = (1 - \eta \lambda) \Pi(W_{t-1})
          - \frac{\eta}{b} \sum_{i \in \text{batch } t} \varphi(u_i^\top \Pi(W_{t-1}), y_i)\, u_i
          + N_t

where :math:`u_i` is the row (with a 1 for the intercept), scaled to a norm of at most R, and
:math:`\Pi` the projection onto a ball of radius r. Every step divides by b, a shorter last one too.

*Each step is a contraction.* :math:`\varphi(m, y)` never falls with the margin m and has a slope of
at most k: it is m - y (k = 1) or 1/(1 + e^-m) - y (k = 1/4), clipped to [-C, C], which keeps both
properties. So it is the derivative of a convex loss (Huber's, for squares), whose gradient
:math:`\varphi u` is at most L = C R long, for any weights, and whose curvature lies between 0 and
:math:`k R^2`. With the penalty :math:`\lambda \|w\|^2 / 2` the step is a gradient step on a
function of curvature within :math:`[\lambda, \lambda + k R^2]`: for
:math:`\eta \le 2 / (\lambda + k R^2)` it is c-Lipschitz, :math:`c = \max(|1 - \eta \lambda|,
|1 - \eta (\lambda + k R^2)|) \le 1`, and a projection is 1-Lipschitz. (In 004, section 6.4, the
projection comes last; but the noise then leaves the ball, over which the constant below is taken.)

*How far a record moves a step.* Two records anywhere: by at most :math:`\eta\, 2 L / b`. Two
records that are close, :math:`\|x - x'\| = p` and :math:`|y - y'| = q`: scaling and clipping are
projections and bring them no further apart, and with weights in the ball

.. math:: \|\varphi u - \varphi' u'\| \le |\varphi| \|u - u'\| + |\varphi - \varphi'| \|u'\|
          \le C p + R (k r p + q)

so that the gradient is Lipschitz in the record, with
:math:`\sqrt{(C + k r R)^2 + R^2}`, or :math:`C + k r R` where y does not move.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sklearn_puffer.iteration import contraction
from sklearn_puffer.sampling import Entropy, Sampler
from sklearn_puffer.sgd_certificate import Iteration

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_BLOCK = 2**12  # rows that are scaled at a time: they stay in the cache
OUTWARDS = 1.0 + 1e-9
"""More than the rounding of norms of up to a million features."""

_UNIT = 2.0**-53


# --------------------------------------------------------------------------------------- the losses


@dataclass(frozen=True)
class Squares:
    """Half the squared residual, linear beyond ``clip`` (Huber's loss)."""

    clip: float
    target_bound: float

    curvature = 1.0

    def slope(self, margins: FloatArray, targets: FloatArray) -> None:
        """Overwrite margins by the derivative of the loss."""
        np.subtract(margins, targets, out=margins)
        np.minimum(margins, self.clip, out=margins)
        np.maximum(margins, -self.clip, out=margins)


@dataclass(frozen=True)
class Logistic:
    """The logistic loss for targets 0 and 1, linear where its slope is beyond ``clip``."""

    clip: float

    target_bound = 1.0
    curvature = 0.25

    def slope(self, margins: FloatArray, targets: FloatArray) -> None:
        """Overwrite margins by the derivative of the loss."""
        expit(margins, out=margins)
        np.subtract(margins, targets, out=margins)
        if self.clip < 1.0:
            np.minimum(margins, self.clip, out=margins)
            np.maximum(margins, -self.clip, out=margins)


# -------------------------------------------------------------------------------------- the descent


@dataclass(frozen=True)
class Descent:
    """One pass of projected gradient steps over rows, with or without noise at each.

    Attributes
    ----------
    loss : Squares or Logistic
    data_norm : float
        Rows are scaled to at most this norm.
    fit_intercept : bool
    radius : float
        Of the ball for the weights, intercept included.
    l2 : float
        The penalty lambda.
    batch_size : int
    step : float
        The learning rate eta.
    """

    loss: Squares | Logistic
    data_norm: float
    fit_intercept: bool
    radius: float
    l2: float
    batch_size: int
    step: float

    @property
    def row_norm(self) -> float:
        """R, a bound on the norm of a scaled row as it is computed, with its 1."""
        return math.hypot(self.data_norm, float(self.fit_intercept)) * OUTWARDS

    @property
    def smoothness(self) -> float:
        """The largest curvature of loss and penalty."""
        return (self.loss.curvature * self.row_norm**2 + self.l2) * OUTWARDS

    @property
    def largest_step(self) -> float:
        """The largest learning rate at which a step is a contraction."""
        return math.nextafter(2.0 / self.smoothness, 0.0)

    @property
    def gradient_bound(self) -> float:
        """L, a bound on the gradient of a record."""
        return self.loss.clip * self.row_norm * OUTWARDS

    def sensitivity(self, *, with_target: bool) -> float:
        """Return C, the Lipschitz constant of the gradient in the record; see the module."""
        own = self.loss.clip + self.loss.curvature * self.radius * self.row_norm
        return math.hypot(own, self.row_norm if with_target else 0.0) * OUTWARDS

    def rounding(self, n_weights: int) -> float:
        """Return a bound on how far a computed step is off the exact one, in norm.

        With u = 2^-53 and D weights, to first order in u, doubled for the rest (sums of n products
        are off by n u times the sum of their sizes, in any order): the projection by (D + 8) u r;
        margins by D u R r, hence slopes by (D + 8) u (R r + Y + 1), Y the target bound; their sum
        over a batch by b u L besides; products, penalty and subtraction by 8 u (r + eta L); the
        scaled rows by (D + 8) u of their norm, and gradients by C times that. Noise that is added
        in floating-point arithmetic is off by u relative to the sum, which the next projection
        turns into at most 4 u r, however large the sum.
        """
        margin = self.row_norm * self.radius + self.loss.target_bound + 1.0
        scaled = self.sensitivity(with_target=False) * self.data_norm
        moved = (n_weights + 8) * (self.row_norm * margin + scaled)
        moved += (self.batch_size + 8) * self.gradient_bound
        return 2.0 * _UNIT * ((n_weights + 24) * self.radius + self.step * moved)

    def iteration(self, n_records: int, n_features: int, *, at_every_step: bool) -> Iteration:
        """Return what the loss of this descent depends on.

        Raises
        ------
        ValueError
            If the learning rate is so large that a step is no contraction.
        """
        n_weights = n_features + self.fit_intercept
        return Iteration(
            n_records=n_records,
            batch_size=self.batch_size,
            n_weights=n_weights,
            step=self.step,
            factor=contraction(self.step, self.smoothness, self.l2),
            gradient_bound=self.gradient_bound,
            diameter=2.0 * self.radius * OUTWARDS,
            reach=(self.radius + self.step * self.gradient_bound) * OUTWARDS,
            rounding=self.rounding(n_weights),
            at_every_step=at_every_step,
        )

    def run(
        self,
        X: NDArray[Any],
        targets: NDArray[Any],
        order: IntArray | None,
        noise: Sampler | None,
        report: Callable[[int], None],
    ) -> FloatArray:
        """Return the weights (D,) after the last step, before its noise.

        Parameters
        ----------
        X : ndarray of shape (n_records, n_features)
        targets : ndarray of shape (n_records,)
        order : ndarray of shape (n_records,) or None
            The records in the order of their use; None for theirs.
        noise : Sampler or None
            Of the noise at each step but the last; None for none.
        report : callable
            Told the number of steps done, from time to time.
        """
        n_records, n_features = X.shape
        weights = np.zeros(n_features + self.fit_intercept)
        size = min(max(_BLOCK // self.batch_size, 1) * self.batch_size, n_records)
        rows = np.ones((size, weights.size))
        values = np.empty(size)
        for first in range(0, n_records, size):
            picked = slice(first, min(first + size, n_records))
            count = picked.stop - picked.start
            self._load(X, targets, picked if order is None else order[picked], rows, values)
            self._steps(weights, rows[:count], values[:count], noise, picked.stop == n_records)
            report(-(-picked.stop // self.batch_size))
        return weights

    def _load(
        self, X: NDArray[Any], targets: NDArray[Any], picked: Any, rows: FloatArray, out: FloatArray
    ) -> None:
        """Write scaled rows and clipped targets over ``rows`` and ``out``."""
        values = X[picked]
        scaled = rows[: values.shape[0], : values.shape[1]]
        scaled[...] = values
        scale_rows(scaled, self.data_norm)
        kept = out[: values.shape[0]]
        kept[...] = targets[picked]
        bound = self.loss.target_bound
        np.clip(kept, -bound, bound, out=kept)

    def _steps(
        self,
        weights: FloatArray,
        rows: FloatArray,
        targets: FloatArray,
        noise: Sampler | None,
        is_last: bool,
    ) -> None:
        """Take the steps of a block of rows, changing the weights in place."""
        starts = range(0, rows.shape[0], self.batch_size)
        drawn = None if noise is None else _draw(noise, (len(starts), weights.size))
        if drawn is not None and is_last:
            drawn[-1] = 0.0  # the last noise is added on the grid
        for k, first in enumerate(starts):
            batch = slice(first, first + self.batch_size)
            self.advance(weights, rows[batch], targets[batch])
            if drawn is not None:
                weights += drawn[k]

    def advance(self, weights: FloatArray, rows: FloatArray, targets: FloatArray) -> None:
        """Take one step in place: project onto the ball, then descend."""
        self.project(weights)
        slopes = rows @ weights
        self.loss.slope(slopes, targets)
        gradient = slopes @ rows
        gradient *= self.step / self.batch_size
        if self.l2:
            weights *= 1.0 - self.step * self.l2
        weights -= gradient

    def project(self, weights: FloatArray) -> None:
        """Project the weights onto the ball, in place."""
        norm = math.sqrt(weights @ weights)
        if norm > self.radius:
            weights *= self.radius / norm


def scale_rows(rows: FloatArray, bound: float) -> None:
    """Project rows (n, d) onto the ball of radius ``bound``, in place.

    >>> rows = np.array([[3.0, 4.0], [0.3, 0.4], [3e200, 4e200]])
    >>> scale_rows(rows, 1.0)
    >>> rows.round(9).tolist()
    [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]]
    """
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    far = np.flatnonzero(~(norms < math.sqrt(sys.float_info.max)))
    if far.size:
        rows[far] /= np.abs(rows[far]).max(axis=1, keepdims=True)
        rows[far] /= np.linalg.norm(rows[far], axis=1, keepdims=True)
        rows[far] *= bound
        norms[far] = 0.0
    long = norms > bound
    if long.any():
        with np.errstate(under="ignore"):
            rows *= np.where(long, bound / np.where(long, norms, 1.0), 1.0)[:, np.newaxis]


def _draw(noise: Sampler, shape: tuple[int, int]) -> FloatArray:
    steps = np.empty(shape, dtype=np.int64)
    noise.fill(steps.reshape(-1))
    values: FloatArray = np.multiply(steps, noise.step, dtype=np.float64)
    return values


def random_order(n_records: int, entropy: Entropy) -> IntArray:
    """Return a uniform permutation: the order of words that are all different.

    >>> from sklearn_puffer.sampling import system_entropy
    >>> sorted(random_order(5, system_entropy()).tolist())
    [0, 1, 2, 3, 4]
    """
    while True:
        words = entropy.words(n_records)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            return order
