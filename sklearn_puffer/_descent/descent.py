r"""One pass of projected gradient steps over records, and the proof that steps are contractions.

.. math:: W_t = (1 - \eta \lambda) \Pi(W_{t-1})
          - \frac{\eta}{b} \sum_{i \in \text{batch } t} \varphi(u_i^\top \Pi(W_{t-1}), y_i)\, u_i
          + N_t

where :math:`u_i` is the row, scaled to a norm of at most the bound B, with a constant
:math:`\kappa` for the intercept, hence at most :math:`R = \sqrt{B^2 + \kappa^2}` long, and
:math:`\Pi` the projection onto a ball of radius r. Every step divides by b, a shorter last one too.
:math:`W_T` is released, or the mean of the last m of the :math:`W_t`.

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

*How long to descend.* Gradient flow over a time :math:`\tau = \eta n / b` from 0 comes within
:math:`\|w\|^2 / (2 \tau)` of the loss of any weights w. The noise that hides a record grows with
this time, whatever the batches: its standard deviation is :math:`\nu \tau`, which costs at most
:math:`k R^2 (\nu \tau)^2 / 2`. The sum of both is smallest at

.. math:: \tau^3 = \frac{\|w\|^2}{2 k R^2 \nu^2}

That choice depends on the declared parameters and the number of records alone, and the loss is
proven for any choice.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sklearn_puffer._base import (
    FloatArray,
    check_positive,
    real_numbers,
)
from sklearn_puffer._descent.guarantee import Dependence, Iteration
from sklearn_puffer._noise import Sampler
from sklearn_puffer._numerics import UNIT
from sklearn_puffer.iteration import contraction
from sklearn_puffer.notions import RenyiPufferfish

_BLOCK = 2**12  # rows that are scaled at a time, so that they fit into the cache
OUTWARDS = 1.0 + 1e-9
"""More than the rounding of norms of up to a million features."""


# --------------------------------------------------------------------------------------- the losses


@dataclass(frozen=True)
class Squares:
    """Half the squared residual, linear beyond ``clip`` (Huber's loss)."""

    clip: float
    target_bound: float

    curvature = 1.0

    @property
    def typical_margin(self) -> float:
        """About the margin of the longest rows under good weights."""
        return self.target_bound

    @property
    def largest_margin(self) -> float:
        """A margin that good weights rarely exceed."""
        return 10.0 * self.target_bound

    def slope(self, margins: FloatArray, targets: FloatArray) -> None:
        """Overwrite margins by the derivative of the loss."""
        np.subtract(margins, targets, out=margins)
        np.minimum(margins, self.clip, out=margins)
        np.maximum(margins, -self.clip, out=margins)


@dataclass(frozen=True)
class Logistic:
    """The logistic loss for targets 0 and 1, linear where its slope is beyond ``clip``.

    Where the second class has the probability p, the mean loss is smallest at the margin m with
    p min(1 - s, C) = (1 - p) min(s, C), s = 1/(1 + e^-m). So m tells p, whatever the clip.
    """

    clip: float

    target_bound = 1.0
    curvature = 0.25
    typical_margin = 15.0
    largest_margin = 20.0

    def slope(self, margins: FloatArray, targets: FloatArray) -> None:
        """Overwrite margins by the derivative of the loss."""
        expit(margins, out=margins)
        np.subtract(margins, targets, out=margins)
        if self.clip < 1.0:
            np.minimum(margins, self.clip, out=margins)
            np.maximum(margins, -self.clip, out=margins)

    def probabilities(self, margins: FloatArray) -> FloatArray:
        """Return the probabilities (n, 2) of both classes at these margins."""
        pulls = np.minimum(expit(np.column_stack((-margins, margins))), self.clip)
        shares: FloatArray = pulls / pulls.sum(axis=1, keepdims=True)
        return shares


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
    intercept_scaling : float
        kappa, the constant that goes with the intercept.
    n_averaged : int
        The mean of this many last steps is returned.
    """

    loss: Squares | Logistic
    data_norm: float
    fit_intercept: bool
    radius: float
    l2: float
    batch_size: int
    step: float
    intercept_scaling: float = 1.0
    n_averaged: int = 1

    @property
    def row_norm(self) -> float:
        """R, a bound on the norm of a scaled row as it is computed, with its constant."""
        return math.hypot(self.data_norm, self.fit_intercept * self.intercept_scaling) * OUTWARDS

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

    @property
    def reach(self) -> float:
        """A bound on the norm of the weights after a step, before its noise."""
        return (self.radius + self.step * self.gradient_bound) * OUTWARDS

    def sensitivity(self, *, with_target: bool) -> float:
        """Return C, the Lipschitz constant of the gradient in the record; see the module."""
        features = self.loss.clip + self.loss.curvature * self.radius * self.row_norm
        return math.hypot(features, self.row_norm if with_target else 0.0) * OUTWARDS

    def rounding(self, n_weights: int) -> float:
        """Return a bound on the error of a computed step, in norm.

        With u = 2^-53 and D weights, to first order in u, doubled for the rest (sums of n products
        are off by n u times the sum of their sizes, in any order): the projection by (D + 8) u r;
        margins by D u R r, hence slopes by (D + 8) u (R r + Y + 1), Y the target bound; their sum
        over a batch by b u L besides; products, penalty and subtraction by 8 u (r + eta L); the
        scaled rows by (D + 8) u of their norm, and gradients by C times that. Noise that is added
        in floating-point arithmetic is off by u relative to the sum, which the next projection
        turns into at most 4 u r, however large the sum. The mean of m steps is off by (m + 2) u
        times the largest norm, which is no more than twice that for each step.
        """
        margin = self.row_norm * self.radius + self.loss.target_bound + 1.0
        scaled = self.sensitivity(with_target=False) * self.data_norm
        moved = (n_weights + 8) * (self.row_norm * margin + scaled)
        moved += (self.batch_size + 8) * self.gradient_bound
        kept = (n_weights + 24) * self.radius + 2.0 * self.reach
        return 2.0 * UNIT * (kept + self.step * moved)

    def iteration(self, n_records: int, n_features: int, *, at_every_step: bool) -> Iteration:
        """Return the numbers that the loss of this descent depends on.

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
            reach=self.reach,
            rounding=self.rounding(n_weights),
            at_every_step=at_every_step,
            n_averaged=self.n_averaged,
        )

    def best_duration(
        self,
        n_records: int,
        n_features: int,
        dependence: Dependence,
        notion: RenyiPufferfish,
        *,
        at_every_step: bool,
    ) -> float:
        """Return tau, the duration of the descent with the smallest expected loss; see the module.

        The noise for each unit of time is that of this descent without the ball. Later steps shrink
        the noise of a step: where the curvature is h, the last 1 / (eta h) steps or so matter, and
        in the loss, which sums h over D weights, D / (eta k R^2). With a penalty the weights have
        converged after a few multiples of 1 / lambda.
        """
        iteration = self.iteration(n_records, n_features, at_every_step=at_every_step)
        free = replace(iteration, diameter=math.inf, rounding=0.0)
        unit = free.unit_loss(dependence, notion.alpha)
        sigma = free.smallest_sigma(unit, notion.alpha, notion.epsilon)
        bend = self.loss.curvature * self.row_norm**2
        if at_every_step:
            sigma *= math.sqrt(min(free.n_steps, free.n_weights / (self.step * bend)))
        rate = sigma * self.batch_size / (self.step * n_records)
        most = math.log(n_records + 1.0) / self.l2 if self.l2 else math.inf
        if rate == 0.0:
            return most
        length = min(self.loss.typical_margin / self.data_norm, self.radius)
        return min(math.cbrt(length / rate) ** 2 / math.cbrt(2.0 * bend), most)

    def run(
        self,
        X: NDArray[Any],
        targets: NDArray[Any],
        noise: Sampler | None,
        report: Callable[[int], None],
    ) -> FloatArray:
        """Return the weights (D,) after the last step, or the mean, before the last noise.

        Parameters
        ----------
        X : ndarray of shape (n_records, n_features)
        targets : ndarray of shape (n_records,)
        noise : Sampler or None
            Of the noise at each step but the last; None for no noise.
        report : callable
            Called from time to time with the number of further steps done.
        """
        n_records, n_features = X.shape
        weights = np.zeros(n_features + self.fit_intercept)
        total, to_skip = np.zeros_like(weights), -(-n_records // self.batch_size) - self.n_averaged
        size = min(max(_BLOCK // self.batch_size, 1) * self.batch_size, n_records)
        rows = np.full((size, weights.size), self.intercept_scaling)
        values = np.empty(size)
        drawn = np.empty((-(-size // self.batch_size), weights.size), dtype=np.int64)
        for first in range(0, n_records, size):
            picked = slice(first, min(first + size, n_records))
            count = picked.stop - picked.start
            self._load(X, targets, picked, rows, values)
            n_steps = -(-count // self.batch_size)
            if noise is not None:
                noise.fill(drawn[:n_steps].reshape(-1))
                added = drawn[:n_steps] * noise.step
            for k in range(n_steps):
                batch = slice(k * self.batch_size, min((k + 1) * self.batch_size, count))
                self.advance(weights, rows[batch], values[batch])
                if noise is not None and first + batch.stop < n_records:
                    weights += added[k]
                if to_skip:
                    to_skip -= 1
                else:
                    total += weights
            report(n_steps)
        return total / self.n_averaged

    def _load(
        self, X: NDArray[Any], targets: NDArray[Any], picked: Any, rows: FloatArray, out: FloatArray
    ) -> None:
        """Write scaled rows and clipped targets over ``rows`` and ``out``."""
        values = X[picked]
        scaled = rows[: values.shape[0], : values.shape[1]]
        scaled[...] = values
        scale_rows(scaled, self.data_norm)
        kept = out[: values.shape[0]]
        with np.errstate(over="ignore"):  # of longer floats: they are clipped
            kept[...] = targets[picked]
        bound = self.loss.target_bound
        np.clip(kept, -bound, bound, out=kept)

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


# ----------------------------------------------------------------------- declared parameters


_LEAST, _MOST = 1e-50, 1e50  # of declared bounds: their squares and products stay finite


def check_bound(value: Any, name: str, default: float | None = None) -> float:
    """Return a declared bound, whose squares and products stay finite, or the default."""
    if value is None and default is not None:
        return default
    number = check_positive(value, name, "it must be declared without looking at the records")
    if not _LEAST <= number <= _MOST:
        raise ValueError(
            f"{name} must lie between {_LEAST:g} and {_MOST:g}, got {value!r}; rescale the data."
        )
    return number


def check_penalty(value: Any) -> float:
    """Return the weight of the l2 penalty."""
    if isinstance(value, Real) and not isinstance(value, bool) and value == 0:
        return 0.0
    return check_bound(value, "l2")


def check_flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_correlation(value: Any, n_records: int) -> Any:
    """Return the correlation as a float or as an array of floats."""
    numbers = real_numbers(value, "correlation")
    if numbers.ndim > 0:
        return numbers
    least = -1.0 / max(n_records - 1, 1)
    if not least - 1e-9 <= numbers <= 1.0:
        raise ValueError(
            f"correlation must lie between {least:.6g} and 1 for {n_records} records that are "
            f"all alike, got {value!r}."
        )
    return float(numbers)
